/* Sizes as values. A graph that was captured with sizes that may change holds calls that read a size, compute with it and
 * check it (ints.def); their users have the node where an integer is expected. Nothing below the captured level knows them:
 * nx_graph_fit() makes, for inputs of given shapes, a graph in which every integer is a number again.
 * In: a captured graph and fakes of its inputs. Out: a captured graph without integers as values, or NX_VALUE when a check
 * does not hold there. Next: run.c, which computes the same on the way. */
#include "ir/private.h"

static const struct { const char *target, *name; int n_args; } rows[] = {
#define NX_INT_ROW(code, target, name, n_args) [NX_INT_##code] = {target, name, n_args},
#include "ir/ints.def"
#undef NX_INT_ROW
};

int nx_node_int_code(const nx_node *node) {
    if (node->op || node->kind != NX_NODE_CALL_FUNCTION || !node->target) return -1;
    for (int k = 0; k < NX_COUNT(rows); k++) {
        if (strcmp(rows[k].target, node->target) == 0 && rows[k].n_args == node->n_args) return k;
    }
    return -1;
}

nx_status nx_graph_append_int(nx_graph *graph, nx_int_code code, const nx_value *args, nx_node **out) {
    return nx_graph_append(graph, NX_NODE_CALL_FUNCTION, rows[code].name, NULL, rows[code].target, args, rows[code].n_args, out);
}

static nx_status read_tensor(nx_int_code code, const nx_value *args, int64_t *out) {
    const nx_tensor *t = args[0].tag == NX_TAG_TENSOR ? args[0].tensor : NULL;
    if (!t) return nx_fail(NX_RUNTIME, "%s: its argument is no tensor", rows[code].target);
    bool by_dim = code == NX_INT_SIZE || code == NX_INT_STRIDE;
    if (by_dim && (args[1].tag != NX_TAG_INT || args[1].i < 0 || args[1].i >= t->a.ndim)) {
        return nx_fail(NX_INDEX, "%s: a tensor of %d dimensions has no such dimension", rows[code].target, t->a.ndim);
    }
    switch (code) {
    case NX_INT_SIZE: *out = t->a.sizes[args[1].i]; break;
    case NX_INT_STRIDE: *out = t->a.strides[args[1].i]; break;
    case NX_INT_NUMEL: *out = t->a.numel; break;
    case NX_INT_OFFSET: *out = t->offset; break;
    default: *out = t->a.contiguous;
    }
    return NX_OK;
}

/* As Python divides: towards minus infinity. */
static bool floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    *quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));
    *rest = a - *quotient * b;
    return true;
}

nx_status nx_int_compute(nx_int_code code, const nx_value *args, int64_t *out) {
    if (code <= NX_INT_CONTIGUOUS) return read_tensor(code, args, out);
    int64_t a = args[0].i, b = rows[code].n_args > 1 ? args[1].i : 0, ignored;
    bool done = true;
    for (int k = 0; k < rows[code].n_args; k++) {
        if (args[k].tag != NX_TAG_INT) return nx_fail(NX_RUNTIME, "%s: argument %d is no integer", rows[code].target, k);
    }
    switch (code) {
    case NX_INT_ADD: done = !__builtin_add_overflow(a, b, out); break;
    case NX_INT_SUB: done = !__builtin_sub_overflow(a, b, out); break;
    case NX_INT_MUL: done = !__builtin_mul_overflow(a, b, out); break;
    case NX_INT_FLOORDIV: done = floor_divide(a, b, out, &ignored); break;
    case NX_INT_MOD: done = floor_divide(a, b, &ignored, out); break;
    case NX_INT_NEG: done = !__builtin_sub_overflow(0, a, out); break;
    case NX_INT_EQ: *out = a == b; break;
    case NX_INT_NE: *out = a != b; break;
    case NX_INT_LT: *out = a < b; break;
    case NX_INT_LE: *out = a <= b; break;
    case NX_INT_GT: *out = a > b; break;
    case NX_INT_GE: *out = a >= b; break;
    case NX_INT_INPUT: return nx_fail(NX_NOT_IMPLEMENTED, "a graph whose integers vary runs when it is fitted to them");
    default: /* CHECK */
        *out = a;
        if (!a) return nx_fail(NX_VALUE, "a size is not what the trace went by");
    }
    return done ? NX_OK : nx_fail(NX_VALUE, "%s: %lld and %lld have no such result", rows[code].target, (long long)a, (long long)b);
}

/* A list of integers for each parameter that wants one: a list that held nodes was kept as values. */
nx_status nx__ints_plain(const nx_op *op, nx_value *in, int64_t *room, int n_room) {
    for (int i = 0; i < op->def->n_in; i++) {
        nx_value *v = &in[i];
        if (op->def->params[i].type != NX_TYPE_INTS || v->tag != NX_TAG_LIST) continue;
        if (v->n > n_room) return nx_fail(NX_NOT_IMPLEMENTED, "%s: more than %d sizes that may change", op->def->name, n_room);
        for (int k = 0; k < v->n; k++) {
            if (v->list[k].tag != NX_TAG_INT) return nx_fail(NX_TYPE, "%s: a size is no integer", op->def->name);
            room[k] = v->list[k].i;
        }
        *v = nx_value_ints(room, v->n);
        room += v->n;
        n_room -= v->n;
    }
    return NX_OK;
}

/* ---- fitting ---------------------------------------------------------------------------------------------------- */
typedef struct fit {
    nx_graph *graph;  /* the new one */
    nx_map map;       /* old node -> new node; integers are not in it */
    nx_value *ints;   /* by order: INT, or NONE where there is none */
    const int64_t *given; /* the values of INPUT nodes */
    int n_given;
} fit;

/* As an argument of the new graph. */
static nx_status to_argument(void *context, nx_node *node, int result, nx_value *out) {
    fit *f = context;
    nx_node *copy = nx_map_get(&f->map, node);
    if (copy) *out = nx_value_node(copy, result);
    else if (f->ints[node->order].tag == NX_TAG_INT) *out = f->ints[node->order];
    else return nx_fail(NX_RUNTIME, "graph: %s is used before it is defined", node->name);
    return NX_OK;
}

/* As what an integer is computed from. */
static nx_status to_known(void *context, nx_node *node, int result, nx_value *out) {
    NX_TRY(to_argument(context, node, result, out));
    if (out->tag == NX_TAG_NODE) *out = nx_value_tensor(out->node->fakes[out->n]);
    return NX_OK;
}

/* The failure of a check: which size it is about, where that can be said, and what the trace took for granted of it. */
static nx_status refuse(fit *f, const nx_node *check) {
    static const char *const signs[] = {[NX_INT_EQ] = "==", [NX_INT_NE] = "!=", [NX_INT_LT] = "<",
                                        [NX_INT_LE] = "<=", [NX_INT_GT] = ">",  [NX_INT_GE] = ">="};
    const nx_node *test = check->args[0].tag == NX_TAG_NODE ? check->args[0].node : NULL;
    int code = test ? nx_node_int_code(test) : -1;
    if (code < NX_INT_EQ || code > NX_INT_GE) return nx_fail(NX_VALUE, "a size is not what the trace went by");
    const nx_node *left = test->args[0].tag == NX_TAG_NODE ? test->args[0].node : NULL;
    char what[96] = "an integer";
    if (left && nx_node_int_code(left) == NX_INT_SIZE && left->args[0].tag == NX_TAG_NODE)
        snprintf(what, sizeof what, "size %lld of %s", (long long)left->args[1].i, left->args[0].node->name);
    nx_value args[2];
    NX_TRY(nx_args_resolve(test->args, test->n_args, to_known, f, args));
    char where[32] = "";
    if (test->file) snprintf(where, sizeof where, " at line %d", test->line);
    return nx_fail(NX_VALUE, "%s is %lld, and the trace went by %s %lld%s", what, (long long)args[0].i, signs[code],
                   (long long)args[1].i, where);
}

static nx_status fit_int(fit *f, const nx_node *node, nx_int_code code) {
    nx_value args[2];
    int64_t value;
    NX_TRY(nx_args_resolve(node->args, node->n_args, to_known, f, args));
    if (code == NX_INT_INPUT) {
        if (args[0].i < 0 || args[0].i >= f->n_given) return nx_fail(NX_RUNTIME, "graph: integer %lld was not given", (long long)args[0].i);
        value = f->given[args[0].i];
    } else {
        if (code == NX_INT_CHECK && args[0].tag == NX_TAG_INT && !args[0].i) return refuse(f, node);
        NX_TRY(nx_int_compute(code, args, &value));
    }
    f->ints[node->order] = nx_value_int(value);
    return NX_OK;
}

/* The trace knew how many results there are, of how many dimensions and of what dtype, and Python code may have asked. */
static nx_status check_kinds(const nx_node *node, const nx__fakes *fakes) {
    bool same = fakes->n == node->n_results;
    for (int k = 0; same && k < fakes->n; k++) {
        const nx_tensor *was = node->fakes[k], *is = fakes->at[k];
        same = !was || !is ? was == is : was->a.ndim == is->a.ndim && was->a.dtype == is->a.dtype;
    }
    return same ? NX_OK : nx_fail(NX_VALUE, "%s gives results of another kind for these sizes", node->name);
}

static nx_status fit_call(fit *f, const nx_node *node) {
    enum { MAX_SIZES = 64 };
    nx_value few[64], *args = few;
    int64_t sizes[MAX_SIZES];
    nx__fakes fakes = {0};
    nx_node *copy = NULL;
    int room = nx_args_room(node->args, node->n_args);
    if (node->op == NULL) return nx_fail(NX_NOT_IMPLEMENTED, "graph: %s calls %s, which is no operator", node->name, node->target);
    if (room > NX_COUNT(few) && !(args = nx_alloc(sizeof *args * (size_t)room))) return nx_fail_memory(sizeof *args * (size_t)room);
    nx_status status = nx_args_resolve(node->args, node->n_args, to_argument, f, args);
    if (status == NX_OK) status = nx__ints_plain(node->op, args, sizes, MAX_SIZES);
    if (status == NX_OK)
        status = nx__graph_append_named(f->graph, node->kind, node->name, node->op, node->target, args, node->n_args, &copy);
    if (status == NX_OK) {
        copy->no_grad = node->no_grad;
        status = nx__infer(node->op, copy->args, copy->n_args, &fakes);
    }
    if (status == NX_OK) status = check_kinds(node, &fakes);
    if (status == NX_OK) status = nx_node_set_fakes(copy, fakes.at, fakes.n);
    if (status == NX_OK) status = nx_node_set_source(copy, node->file, node->line, node->function, node->code);
    if (status == NX_OK) status = nx_map_set(&f->map, node, copy);
    nx__fakes_end(&fakes);
    if (args != few) nx_free(args);
    return status;
}

static nx_status fit_node(fit *f, const nx_node *node, nx_tensor *const *inputs, int *n) {
    nx_node *copy;
    int code = nx_node_int_code(node);
    if (code >= 0) return fit_int(f, node, (nx_int_code)code);
    if (node->kind == NX_NODE_PLACEHOLDER) {
        NX_TRY(nx_graph_input_like(f->graph, node->name, node->target, inputs[(*n)++], &copy));
        return nx_map_set(&f->map, node, copy);
    }
    bool plain = node->kind == NX_NODE_GET_ATTR || node->kind == NX_NODE_OUTPUT;
    return plain ? nx_graph_copy_node(f->graph, node, &f->map, &copy) : fit_call(f, node);
}

nx_status nx_graph_fit(const nx_graph *graph, nx_tensor *const *inputs, int n_inputs, const int64_t *given, int n_given,
                       nx_node *const *wanted, int n_wanted, int64_t *ints, nx_graph **out) {
    fit f = {.given = given, .n_given = n_given};
    int n = 0;
    size_t bytes = sizeof *f.ints * (size_t)(graph->n_nodes + 1);
    if (n_inputs != graph->n_inputs) return nx_fail(NX_RUNTIME, "graph: it has %d inputs, %d were given", graph->n_inputs, n_inputs);
    nx_graph_number((nx_graph *)graph);
    if (!(f.ints = nx_alloc_zeroed(bytes))) return nx_fail_memory(bytes); /* zeroed: NONE */
    nx_status status = nx_graph_new(&f.graph);
    if (status == NX_OK) f.graph->level = graph->level;
    for (const nx_node *node = graph->first; node && status == NX_OK; node = node->next) status = fit_node(&f, node, inputs, &n);
    for (int k = 0; k < n_wanted && status == NX_OK; k++) ints[k] = f.ints[wanted[k]->order].i;
    nx_free(f.ints);
    nx_map_free(&f.map);
    if (status == NX_OK) *out = f.graph;
    else if (f.graph) nx_graph_free(f.graph);
    return status;
}
