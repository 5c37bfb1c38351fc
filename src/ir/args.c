/* Arguments of nodes: values with node references in them, also inside lists. Walking, replacing
 * references, checking tags against a schema, and inferring results by calling the operator on fakes.
 * Whoever makes a node from outside (C, Python, text) passes nx_args_check; after it tags are trusted.
 * Read next: graph.c. */
#include "ir/private.h"

int nx_args_room(const nx_value *args, int n) {
    int room = n;
    for (int i = 0; i < n; i++) {
        if (args[i].tag == NX_TAG_LIST) room += nx_args_room(args[i].list, args[i].n);
    }
    return room;
}

static nx_status resolve_level(const nx_value *args, int n, nx_resolve_fn *resolve, void *context,
                               nx_value *to, nx_value **spare) {
    for (int i = 0; i < n; i++) {
        if (args[i].tag == NX_TAG_NODE) {
            NX_TRY(resolve(context, args[i].node, args[i].n, &to[i]));
        } else if (args[i].tag == NX_TAG_LIST) {
            nx_value *inner = *spare;
            *spare += args[i].n;
            NX_TRY(resolve_level(args[i].list, args[i].n, resolve, context, inner, spare));
            to[i] = nx_value_list(inner, args[i].n);
        } else {
            to[i] = args[i];
        }
    }
    return NX_OK;
}

nx_status nx_args_resolve(const nx_value *args, int n, nx_resolve_fn *resolve, void *context, nx_value *to) {
    nx_value *spare = to + n;
    return resolve_level(args, n, resolve, context, to, &spare);
}

static void each_input(const nx_value *args, int n, void (*fn)(void *, nx_node *, int), void *arg) {
    for (int i = 0; i < n; i++) {
        if (args[i].tag == NX_TAG_NODE) fn(arg, args[i].node, args[i].n);
        else if (args[i].tag == NX_TAG_LIST) each_input(args[i].list, args[i].n, fn, arg);
    }
}

void nx_node_each_input(const nx_node *node, void (*fn)(void *arg, nx_node *input, int result), void *arg) {
    each_input(node->args, node->n_args, fn, arg);
}

static bool all_of(const nx_value *value, bool (*fits)(const nx_value *)) {
    if (value->tag != NX_TAG_LIST) return false;
    for (int i = 0; i < value->n; i++) {
        if (!fits(&value->list[i])) return false;
    }
    return true;
}

static bool is_number(const nx_value *v) {
    return v->tag == NX_TAG_INT || v->tag == NX_TAG_FLOAT || v->tag == NX_TAG_BOOL || v->tag == NX_TAG_COMPLEX;
}
static bool is_node(const nx_value *v) { return v->tag == NX_TAG_NODE; }
static bool is_node_or_none(const nx_value *v) { return v->tag == NX_TAG_NODE || v->tag == NX_TAG_NONE; }
static bool is_tensor(const nx_value *v) { return v->tag == NX_TAG_TENSOR; }
static bool is_tensor_or_none(const nx_value *v) { return v->tag == NX_TAG_TENSOR || v->tag == NX_TAG_NONE; }
static bool is_bool(const nx_value *v) { return v->tag == NX_TAG_BOOL; }
static bool is_size(const nx_value *v) { return v->tag == NX_TAG_NODE && nx_node_int_code(v->node) >= 0; }
static bool is_int(const nx_value *v) { return v->tag == NX_TAG_INT || is_size(v); }
static bool is_open(const nx_value *v) { return is_number(v) || is_size(v); }

static bool fits(const nx_param *p, const nx_value *v, nx_tag tensor) {
    if (v->tag == NX_TAG_NONE) return p->optional;
    switch (p->type) {
    case NX_TYPE_TENSOR: return v->tag == (uint32_t)tensor || (p->number_too && is_number(v));
    case NX_TYPE_TENSORS:
        if (p->optional_elements) return all_of(v, tensor == NX_TAG_NODE ? is_node_or_none : is_tensor_or_none);
        return all_of(v, tensor == NX_TAG_NODE ? is_node : is_tensor);
    case NX_TYPE_INT: return is_int(v);
    case NX_TYPE_INTS: return v->tag == NX_TAG_INTS || all_of(v, is_int);
    case NX_TYPE_FLOAT: return v->tag == NX_TAG_FLOAT;
    case NX_TYPE_BOOL: return v->tag == NX_TAG_BOOL;
    case NX_TYPE_SCALAR: return is_number(v) || is_size(v);
    case NX_TYPE_STR: return v->tag == NX_TAG_STR;
    case NX_TYPE_DTYPE: return v->tag == NX_TAG_DTYPE && v->i >= 0 && v->i < NX_N_DTYPES;
    case NX_TYPE_DEVICE:
        return v->tag == NX_TAG_DEVICE && v->device.type >= 0 && v->device.type < nx_device_n_types();
    case NX_TYPE_LAYOUT: return v->tag == NX_TAG_LAYOUT;
    case NX_TYPE_MEMORY_FORMAT: return v->tag == NX_TAG_MEMORY_FORMAT && v->i >= 0 && v->i <= 2;
    case NX_TYPE_GENERATOR: return v->tag == NX_TAG_GENERATOR;
    case NX_TYPE_BOOLS: return all_of(v, is_bool) && (p->int_list_of == 0 || v->n == p->int_list_of);
    case NX_TYPE_NUMBERS: return all_of(v, is_open);
    case NX_TYPE_GRAPH: return v->tag == NX_TAG_GRAPH;
    }
    return false;
}

static const char *const tag_names[] = {"None",   "Tensor",        "int",       "float",  "bool",
                                        "str",    "list of ints",  "list",      "dtype",  "device",
                                        "layout", "memory format", "generator", "Tensor", "object", "complex", "graph"};

static nx_status fail_argument(const nx_op_def *def, const nx_value *args, int i) {
    return nx_fail(NX_TYPE, "%s: argument '%s' (position %d) must not be %s: see %s", def->name, def->params[i].name, i + 1,
                   args[i].tag < (uint32_t)NX_COUNT(tag_names) ? tag_names[args[i].tag] : "unknown",
                   def->schema ? def->schema : "its schema");
}

nx_status nx_args_check(const nx_op *op, const nx_value *args, int n, nx_tag tensor) {
    const nx_op_def *def = op->def;
    bool has_tensor = false;
    int number = -1; /* in a tensor's place */
    if (n != def->n_in)
        return nx_fail(NX_TYPE, "%s: %d arguments were given, it has %d", def->name, n, def->n_in);
    for (int i = 0; i < n; i++) {
        const nx_param *p = &def->params[i];
        if (!fits(p, &args[i], tensor) || (args[i].tag == NX_TAG_COMPLEX && !p->complex_too)) return fail_argument(def, args, i);
        has_tensor |= args[i].tag == (uint32_t)tensor && !nx_param_is_out(p);
        if (p->type == NX_TYPE_TENSOR && is_number(&args[i])) number = i;
    }
    return number >= 0 && !has_tensor ? fail_argument(def, args, number) : NX_OK;
}

bool nx_value_equal(const nx_value *a, const nx_value *b) {
    if (a->tag != b->tag) return false;
    switch (a->tag) {
    case NX_TAG_NONE: return true;
    case NX_TAG_FLOAT:
        return memcmp(&a->f, &b->f, sizeof a->f) == 0; /* tells -0.0 from 0.0, and nan from nan no more */
    case NX_TAG_COMPLEX: return memcmp(a->parts, b->parts, 2 * sizeof *a->parts) == 0;
    case NX_TAG_STR: return strcmp(a->str, b->str) == 0;
    case NX_TAG_INTS:
        return a->n == b->n && (a->n == 0 || memcmp(a->ints, b->ints, sizeof(int64_t) * (size_t)a->n) == 0);
    case NX_TAG_DEVICE: return nx_device_same(a->device, b->device);
    case NX_TAG_NODE: return a->node == b->node && a->n == b->n;
    case NX_TAG_TENSOR: case NX_TAG_GENERATOR: case NX_TAG_OPAQUE: case NX_TAG_GRAPH: return a->opaque == b->opaque;
    case NX_TAG_LIST:
        for (int i = 0; i < a->n && a->n == b->n; i++) {
            if (!nx_value_equal(&a->list[i], &b->list[i])) return false;
        }
        return a->n == b->n;
    default: return a->i == b->i;
    }
}

/* A call that writes gets fakes that it may change: over the memory of the node's, so that overlaps are seen; but nodes share fakes,
 * and a second node's is apart. */
typedef struct own_fake { const nx_node *node; int result; nx_tensor *fake; } own_fake;
typedef struct resolving {
    const nx_op *op;
    bool numbers;            /* one was met */
    bool writes;
    NX_VEC(own_fake) own;
} resolving;

static nx_status own_of(resolving *r, const nx_node *node, int result, nx_value *out) {
    own_fake own = {node, result, NULL};
    nx_tensor *fake = node->fakes[result];
    bool is_shared = false;
    for (int k = 0; k < r->own.n && !own.fake; k++) {
        const own_fake *other = &r->own.at[k];
        if (other->node == node && other->result == result) own.fake = other->fake;
        else is_shared = is_shared || other->node->fakes[other->result] == fake;
    }
    if (own.fake == NULL) {
        NX_TRY(is_shared ? nx_fake_like(fake, &own.fake) : nx_tensor_alias(fake, &own.fake));
        nx_status status = nx_vec_push(&r->own, own);
        if (status != NX_OK) return nx_tensor_unref(own.fake), status;
    }
    *out = nx_value_tensor(own.fake);
    return NX_OK;
}

/* Whether one of them has another size than its node. */
static bool is_resized(const resolving *r) {
    for (int k = 0; k < r->own.n; k++) {
        const own_fake *own = &r->own.at[k];
        if (!nx_same_size(&own->fake->a, &own->node->fakes[own->result]->a)) return true;
    }
    return false;
}

static nx_status resolve_fake(void *context, nx_node *node, int result, nx_value *out) {
    resolving *r = context;
    const nx_op *op = r->op;
    if (result < 0 || result >= node->n_results)
        return nx_fail(NX_RUNTIME, "%s: %s has no result %d", op->def->name, node->name, result);
    if (node->number.tag != NX_TAG_NONE) {
        *out = node->number;
        r->numbers = true;
        return NX_OK;
    }
    if (node->fakes[result] == NULL)
        return nx_fail(NX_RUNTIME, "%s: the shape of %s is not known", op->def->name, node->name);
    if (r->writes) return own_of(r, node, result, out);
    *out = nx_value_tensor(node->fakes[result]);
    return NX_OK;
}

/* Takes the tensors of results[n]. */
static nx_status take_fakes(nx_value *results, int n, nx__fakes *out) {
    out->n = n;
    out->at = n <= NX_COUNT(out->few) ? out->few : nx_alloc(sizeof *out->at * (size_t)n);
    if (out->at == NULL) return nx_fail_memory(sizeof *out->at * (size_t)n);
    for (int k = 0; k < n; k++) {
        out->at[k] = results[k].tag == NX_TAG_TENSOR ? results[k].tensor : NULL;
        results[k] = NX_VALUE_NONE;
    }
    return NX_OK;
}

void nx__fakes_end(nx__fakes *fakes) {
    for (int k = 0; k < fakes->n; k++) nx_tensor_unref(fakes->at[k]);
    if (fakes->at != fakes->few) nx_free(fakes->at);
}

/* Through the dispatcher under FAKE, not the bare shape rule: composed operators then need no rule of
 * their own. */
static nx_status call_fake(const nx_op *op, const nx_value *in, nx_value *out) {
    nx_thread *thread = nx_thread_get();
    uint64_t included = thread->keys_included, excluded = thread->keys_excluded;
    thread->keys_included = NX_KEY(FAKE);
    thread->keys_excluded = NX_KEY(CAPTURE) | NX_KEY(TRACE) | NX_KEYS_OWN;
    nx_status status = nx_op_call(op, in, out);
    thread->keys_included = included;
    thread->keys_excluded = excluded;
    return status;
}

nx_status nx__infer(const nx_op *op, const nx_value *args, int n, nx__fakes *out) {
    int n_out = op->def->n_out;
    nx_value few[32], *results;
    int64_t sizes[64];
    int room = nx_args_room(args, n) + n_out;
    nx_value *call_out = room <= NX_COUNT(few) ? few : nx_alloc(sizeof *call_out * (size_t)room);
    if (call_out == NULL) return nx_fail_memory(sizeof *call_out * (size_t)room);
    memset(call_out, 0, sizeof *call_out * (size_t)n_out);
    nx_value *in = call_out + n_out;
    resolving r = {.op = op, .writes = nx_op_written(op) != 0};
    nx_status status = nx_args_resolve(args, n, resolve_fake, &r, in);
    if (status == NX_OK && r.numbers) status = nx__ints_plain(op, in, sizes, NX_COUNT(sizes));
    if (status == NX_OK && r.numbers) status = nx_args_check(op, in, n, NX_TAG_TENSOR);
    if (status == NX_OK) status = call_fake(op, in, call_out);
    if (status == NX_OK) {
        int n_results = nx_results_of(op, call_out, &results);
        status = take_fakes(results, n_results, out);
        out->resized = is_resized(&r);
        for (int k = 0; k < n_out; k++) nx_value_drop(&call_out[k]);
    }
    for (int k = 0; k < r.own.n; k++) nx_tensor_unref(r.own.at[k].fake);
    nx_vec_free(&r.own);
    if (call_out != few) nx_free(call_out);
    return status;
}

uint64_t nx_op_written(const nx_op *op) {
    uint64_t mask = 0;
    assert(op->def->n_in <= 64);
    for (int i = 0; i < op->def->n_in; i++) mask |= (uint64_t)op->def->params[i].written << i;
    return mask;
}

void nx_node_each_written(const nx_node *node, void (*fn)(void *arg, nx_node *written, int result), void *arg) {
    for (uint64_t left = node->op ? nx_op_written(node->op) : 0; left; left &= left - 1)
        each_input(&node->args[__builtin_ctzll(left)], 1, fn, arg);
}

void nx_node_each_shown(const nx_node *node, void (*fn)(void *arg, nx_node *shown, int result), void *arg) {
    for (int i = 0; i < node->n_args; i++) {
        if (i >= 64 || !(node->apart >> i & 1)) each_input(&node->args[i], 1, fn, arg);
    }
}

void nx__op_base(const char *op_name, char *out, size_t room) {
    const char *begin = strstr(op_name, "::");
    begin = begin ? begin + 2 : op_name;
    size_t n = strcspn(begin, ".");
    if (n >= room) n = room - 1;
    memcpy(out, begin, n);
    out[n] = '\0';
}
