/* Recording: what stands at the CAPTURE and TRACE keys. A call is first done below (with this key masked,
 * so that the parts of a composed operator are not recorded a second time), then appended to the tracer's
 * graph as a node whose arguments are the nodes of its tensors. Tensors are known by address; the tracer
 * holds them, so that no address is used twice. Most are soon the tracer's alone: what nobody can use any
 * more is let go, so that the next ones get its memory. A tensor written in place stands for the node that
 * wrote it from then on. */
#include "ir/private.h"

typedef struct tracked {
    nx_tensor *tensor;
    nx_node *node;
    int result;
    const void *place;       /* key in tracer.places, NULL: not there */
    struct tracked *next;    /* of that place */
} tracked;

nx_status nx_tracer_push(nx_tracer *tracer) {
    nx_thread *thread = nx_thread_get();
    if (tracer->key != NX_KEY_AT_CAPTURE && tracer->key != NX_KEY_AT_TRACE)
        return nx_fail(NX_VALUE, "tracer: key %d is neither CAPTURE nor TRACE", tracer->key);
    static _Thread_local uint64_t n_pushed;
    tracer->serial = ++n_pushed;
    tracer->outer = thread->tracer;
    tracer->included_before = thread->keys_included;
    tracer->no_grad_before = thread->grad_disabled;
    thread->keys_included |= UINT64_C(1) << tracer->key;
    thread->tracer = tracer;
    return NX_OK;
}

void nx_tracer_pop(nx_tracer *tracer) {
    nx_thread *thread = nx_thread_get();
    if (thread->tracer == tracer) {
        thread->tracer = tracer->outer;
        thread->keys_included = tracer->included_before;
    }
    for (int i = 0; i < tracer->nodes.room; i++) {
        tracked *entry = tracer->nodes.slots[i].value;
        if (tracer->nodes.slots[i].key == NULL || entry == NULL) continue;
        nx_tensor_unref(entry->tensor);
        nx_free(entry);
    }
    for (int i = 0; i < NX_COUNT(tracer->recent); i++) nx_tensor_unref(tracer->recent[i]);
    nx_map_free(&tracer->nodes);
    nx_map_free(&tracer->places);
    nx_vec_free(&tracer->ints);
    nx_vec_free(&tracer->imports);
    nx_vec_free(&tracer->imported);
}

/* Two places may have one key: who looks there compares. */
static const void *place_of(const nx_tensor *tensor) {
    uintptr_t at = (uintptr_t)tensor->storage + (uintptr_t)tensor->offset * UINT64_C(0x9E3779B97F4A7C15);
    return tensor->storage ? (const void *)(at | 1) : NULL;
}

static nx_status leave_place(nx_tracer *tracer, tracked *entry) {
    tracked *before = nx_map_get(&tracer->places, entry->place);
    if (before == entry) {
        NX_TRY(nx_map_set(&tracer->places, entry->place, entry->next));
    } else {
        while (before->next != entry) before = before->next;
        before->next = entry->next;
    }
    entry->place = NULL;
    return NX_OK;
}

/* A tensor that was resized lies elsewhere when it is bound again. */
static nx_status enter_place(nx_tracer *tracer, tracked *entry) {
    const void *place = tracer->key == NX_KEY_AT_TRACE || tracer->flat ? place_of(entry->tensor) : NULL;
    if (entry->place == place) return NX_OK;
    if (entry->place) NX_TRY(leave_place(tracer, entry));
    if (place == NULL) return NX_OK;
    tracked *first = nx_map_get(&tracer->places, place);
    NX_TRY(nx_map_set(&tracer->places, place, entry));
    entry->place = place;
    entry->next = first;
    return NX_OK;
}

/* An alias of it, which autograd may keep, has its storage too. */
static bool is_lost(const nx_tensor *tensor) {
    return atomic_load(&tensor->refs) == 1 && (tensor->storage == NULL || atomic_load(&tensor->storage->refs) == 1);
}

/* A place in the ring, after the one that was there is let go, if nobody has it. */
static nx_status take_place(nx_tracer *tracer, tracked ***out) {
    tracked **at = &tracer->young[tracer->n_bound % NX_COUNT(tracer->young)];
    if (*at && is_lost((*at)->tensor)) {
        if ((*at)->place) NX_TRY(leave_place(tracer, *at));
        NX_TRY(nx_map_set(&tracer->nodes, (*at)->tensor, NULL));
        nx_tensor_unref((*at)->tensor);
        nx_free(*at);
    }
    *at = NULL;
    tracer->n_bound++;
    *out = at;
    return NX_OK;
}

nx_status nx_tracer_bind(nx_tracer *tracer, nx_tensor *tensor, nx_node *node, int result) {
    tracked *entry = nx_map_get(&tracer->nodes, tensor), **young;
    if (entry == NULL) {
        NX_TRY(take_place(tracer, &young));
        if ((entry = nx_alloc_zeroed(sizeof *entry)) == NULL) return nx_fail_memory(sizeof *entry);
        nx_status status = nx_map_set(&tracer->nodes, tensor, entry);
        if (status != NX_OK) {
            nx_free(entry);
            return status;
        }
        entry->tensor = nx_tensor_ref(tensor);
        *young = entry;
    }
    entry->node = node;
    entry->result = result;
    return enter_place(tracer, entry);
}

static bool same_place(const nx_tensor *a, const nx_tensor *b) {
    if (a->storage != b->storage || a->offset != b->offset || a->a.dtype != b->a.dtype ||
        a->a.ndim != b->a.ndim)
        return false;
    for (int d = 0; d < a->a.ndim; d++) {
        if (a->a.sizes[d] != b->a.sizes[d] || a->a.strides[d] != b->a.strides[d]) return false;
    }
    return true;
}

/* Of several in one place (a detached tensor lies in the place of its source) the newest is right for reads. */
static const tracked *find_newest(nx_tracer *tracer, const nx_tensor *tensor) {
    const tracked *best = NULL;
    if (tensor->storage == NULL) return NULL;
    for (const tracked *entry = nx_map_get(&tracer->places, place_of(tensor)); entry; entry = entry->next) {
        tracer->n_compared++;
        if (!same_place(entry->tensor, tensor)) continue;
        if (best == NULL || entry->node->order > best->node->order) best = entry;
    }
    return best;
}

/* Autograd keeps results as aliases (a node that held its own result would never be freed). Such an alias
 * has another address; the same place of the same storage tells which tensor it is. Only at TRACE: there
 * is nothing above that tells aliases apart. */
static const tracked *find_alias(nx_tracer *tracer, const nx_tensor *tensor) {
    return tracer->key == NX_KEY_AT_TRACE ? find_newest(tracer, tensor) : NULL;
}

bool nx_tracer_find_place(nx_tracer *tracer, const nx_tensor *tensor, nx_value *out) {
    assert(tracer->flat);
    const tracked *best = find_newest(tracer, tensor);
    if (best) *out = nx_value_node(best->node, best->result);
    return best != NULL;
}

bool nx_tracer_find(nx_tracer *tracer, const nx_tensor *tensor, nx_value *out) {
    const tracked *entry = nx_map_get(&tracer->nodes, tensor);
    if (entry == NULL) entry = find_alias(tracer, tensor);
    if (entry) *out = nx_value_node(entry->node, entry->result);
    return entry != NULL;
}

typedef struct lookup { nx_tracer *tracer; const nx_op *op; } lookup;

static nx_status tensor_node(const lookup *look, nx_tensor *tensor, nx_value *out) {
    nx_tracer *tracer = look->tracer;
    if (nx_tracer_find(tracer, tensor, out)) {
        bool known = nx_map_get(&tracer->nodes, tensor) != NULL;
        return known ? NX_OK : nx_tracer_bind(tracer, tensor, out->node, out->n);
    }
    if (tracer->unknown) return tracer->unknown(tracer, tensor, out);
    return nx_fail(NX_RUNTIME, "%s: a tensor that was made outside is used while recording",
                   look->op->def->name);
}

static nx_status to_nodes(const lookup *look, const nx_value *in, int n, nx_value *to, nx_value **spare) {
    for (int i = 0; i < n; i++) {
        if (in[i].tag == NX_TAG_TENSOR) {
            NX_TRY(tensor_node(look, in[i].tensor, &to[i]));
        } else if (in[i].tag == NX_TAG_LIST) {
            nx_value *inner = *spare;
            *spare += in[i].n;
            NX_TRY(to_nodes(look, in[i].list, in[i].n, inner, spare));
            to[i] = nx_value_list(inner, in[i].n);
        } else if ((in[i].tag == NX_TAG_INT || in[i].tag == NX_TAG_FLOAT) && in[i].n > 0) {
            if (in[i].n > look->tracer->ints.n) return nx_fail(NX_RUNTIME, "%s: a size of another trace", look->op->def->name);
            to[i] = nx_value_node(look->tracer->ints.at[in[i].n - 1], 0);
        } else {
            to[i] = in[i];
        }
    }
    return NX_OK;
}

/* Whether a fake says of a tensor all that nodes know. */
static bool is_like(const nx_tensor *fake, const nx_tensor *tensor) {
    const nx_array *a = &fake->a, *b = &tensor->a;
    return a->dtype == b->dtype && nx_device_same(a->device, b->device) && fake->offset == tensor->offset && nx_same_size(a, b) &&
           memcmp(a->strides, b->strides, sizeof *a->strides * a->ndim) == 0;
}

/* The fake of a tensor's shape: results of one shape that come soon after each other share one. New reference. */
static nx_status shape_of(nx_tracer *tracer, const nx_tensor *tensor, nx_tensor **out) {
    uint64_t hash = (uint64_t)tensor->a.numel * 8 + tensor->a.ndim + tensor->a.dtype;
    for (int d = 0; d < tensor->a.ndim; d++) hash = hash * 31 + (uint64_t)tensor->a.strides[d];
    nx_tensor **recent = &tracer->recent[hash * UINT64_C(0x9E3779B97F4A7C15) >> 60], *fake;
    if (*recent == NULL || !is_like(*recent, tensor)) {
        NX_TRY(nx_fake_like(tensor, &fake));
        nx_tensor_unref(*recent);
        *recent = fake;
    }
    *out = nx_tensor_ref(*recent);
    return NX_OK;
}

/* A node keeps the shape of a result in a fake: with the tensor it would keep its history alive, and a second tensor over its
 * storage would look like a view to autograd. */
static nx_status set_shapes(nx_tracer *tracer, nx_node *node, const nx_value *results, int n) {
    if (n != node->n_results) NX_TRY(nx__node_set_count(node, n));
    for (int k = 0; k < n; k++) {
        if (results[k].tag == NX_TAG_TENSOR) NX_TRY(shape_of(tracer, results[k].tensor, &node->fakes[k]));
    }
    return NX_OK;
}

static bool lies_in(const nx_tensor *result, const nx_value *arg) {
    bool found = arg->tag == NX_TAG_TENSOR && (!result->storage || result->storage == arg->tensor->storage);
    for (int k = 0; arg->tag == NX_TAG_LIST && k < arg->n && !found; k++) found = lies_in(result, &arg->list[k]);
    return found;
}

/* In memory of which arguments no result lies: of those that have any. */
static uint64_t apart(const nx_op *op, const nx_value *in, const nx_value *results, int n) {
    uint64_t mask = 0;
    for (int i = 0; i < op->def->n_in; i++) {
        bool found = in[i].tag != NX_TAG_TENSOR && in[i].tag != NX_TAG_LIST;
        for (int k = 0; k < n && !found; k++) found = results[k].tag == NX_TAG_TENSOR && lies_in(results[k].tensor, &in[i]);
        mask |= (uint64_t)!found << i;
    }
    return mask;
}

/* `in` with tensors, `args` with nodes. */
static nx_status append_call(nx_tracer *tracer, const nx_op *op, const nx_value *in, const nx_value *args, nx_value *out) {
    nx_thread *thread = nx_thread_get();
    bool as_written = tracer->key == NX_KEY_AT_CAPTURE && thread->target;
    const char *target = as_written ? thread->target : NULL, *hint = NULL;
    nx_node_kind kind = as_written && thread->target_is_method ? NX_NODE_CALL_METHOD : NX_NODE_CALL_FUNCTION;
    nx_node *node;
    if (target) {
        hint = strrchr(target, '.');
        hint = hint && hint[1] ? hint + 1 : target;
    }
    NX_TRY(nx_graph_append(tracer->graph, kind, hint, op, target, args, op->def->n_in, &node));
    int n = nx_results_of(op, out, &out);
    nx_source source = thread->source;
    if (tracer->key == NX_KEY_AT_CAPTURE) source.no_grad = thread->grad_disabled && !tracer->no_grad_before;
    nx_status status = nx_node_set_source(node, &source);
    if (status == NX_OK) status = set_shapes(tracer, node, out, n);
    if (tracer->key == NX_KEY_AT_CAPTURE) node->apart = apart(op, in, out, n);
    for (int k = 0; k < node->n_results && status == NX_OK; k++) {
        if (out[k].tag == NX_TAG_TENSOR) status = nx_tracer_bind(tracer, out[k].tensor, node, k);
    }
    /* After a failed bind the node stays: a tensor may already stand for it. The trace is lost anyway. */
    return status;
}

/* Dispatch asks the highest key first and a tracer masks its own while it goes on, so a call that arrives
 * here belongs to the innermost tracer of the highest key that is not masked. */
static nx_tracer *serving(const nx_thread *thread) {
    nx_tracer *best = NULL;
    for (nx_tracer *tracer = thread->tracer; tracer; tracer = tracer->outer) {
        bool masked = (thread->keys_excluded >> tracer->key & 1) != 0;
        if (!masked && (best == NULL || tracer->key > best->key)) best = tracer;
    }
    return best;
}

/* What goes on below: the arguments with numbers for all sizes. */
static nx_status make_plain(const nx_op *op, const nx_value **in, nx_value *plain, int n_plain, int64_t *sizes, int n_sizes) {
    if (op->def->n_in > n_plain) return nx_fail(NX_NOT_IMPLEMENTED, "%s: more than %d arguments", op->def->name, n_plain);
    for (int i = 0; i < op->def->n_in; i++) {
        plain[i] = (*in)[i];
        if (plain[i].tag == NX_TAG_INT || plain[i].tag == NX_TAG_FLOAT) plain[i].n = 0;
    }
    *in = plain;
    return nx__ints_plain(op, plain, sizes, n_sizes);
}

/* Whether a call names a place in a storage; where an input begins in its storage no guard says. */
static bool counts_places(const nx_op *op, const nx_value *in) {
    return op->def->flags & NX_OP_BY_PLACES && in[op->def->n_in - 1].tag != NX_TAG_NONE;
}

/* Of a tracer that refuses what cannot be made functional: the sizes of the tensor that a call writes. */
typedef struct writing { const nx_tensor *tensor; int ndim; int64_t sizes[NX_MAX_DIMS]; } writing;

static nx_status before_write(nx_tracer *tracer, const nx_op *op, const nx_value *in, writing *w) {
    uint64_t mask = tracer->refuse ? nx_op_written(op) : 0;
    w->tensor = NULL;
    if (tracer->refuse && counts_places(op, in))
        return tracer->refuse(tracer, op, "storage_offset counts from the start of memory of which a graph knows a part");
    if (mask == 0) return NX_OK;
    const nx_value *value = &in[__builtin_ctzll(mask)];
    if ((mask & (mask - 1)) || value->tag != NX_TAG_TENSOR) { /* one that is composed writes them one by one */
        return op->def->compose ? NX_OK : tracer->refuse(tracer, op, "it writes several tensors");
    }
    w->tensor = value->tensor;
    w->ndim = value->tensor->a.ndim;
    for (int d = 0; d < w->ndim; d++) {
        w->sizes[d] = value->tensor->a.sizes[d];
        if (w->sizes[d] > 1 && value->tensor->a.strides[d] == 0 && value->tensor->a.numel > 0)
            return tracer->refuse(tracer, op, "elements of the tensor that it writes share their memory");
    }
    return NX_OK;
}

static nx_status after_write(nx_tracer *tracer, const nx_op *op, const writing *w) {
    bool same = w->tensor == NULL || w->tensor->a.ndim == w->ndim;
    for (int d = 0; w->tensor && same && d < w->ndim; d++) same = w->tensor->a.sizes[d] == w->sizes[d];
    return same ? NX_OK : tracer->refuse(tracer, op, "it resizes the tensor that it writes");
}

/* Whether a call that asked for elements is recorded by its parts instead, which ask for them one by one. */
static bool is_taken_apart(const nx_tracer *tracer, const nx_op *op, const nx_value *in) {
    bool apart = tracer->asks_elements && op->def->compose;
    for (int i = 0; apart && i < op->def->n_in; i++)
        apart = !((in[i].tag == NX_TAG_INT || in[i].tag == NX_TAG_FLOAT) && in[i].n > 0);
    return apart;
}

static nx_status call_parts(nx_run *run, const nx_value *in, nx_value *out) {
    nx_thread *thread = nx_thread_get();
    const char *target = thread->target;
    thread->target = NULL; /* the parts are not what was called */
    nx_status status = run->op->def->compose(run, in, out);
    thread->target = target;
    return status;
}

/* The parts count with numbers. */
static nx_status fix_all(nx_tracer *tracer, const nx_op *op, const nx_value *in, int n) {
    for (int i = 0; i < n; i++) {
        bool number = in[i].tag == NX_TAG_INT || in[i].tag == NX_TAG_FLOAT;
        if (number && in[i].n > 0)
            return nx_fail(NX_NOT_IMPLEMENTED, "%s: by its parts, with a number that may be another one", op->def->name);
        if (in[i].tag == NX_TAG_TENSOR) NX_TRY(tracer->fix(tracer, in[i].tensor));
        if (in[i].tag == NX_TAG_LIST) NX_TRY(fix_all(tracer, op, in[i].list, in[i].n));
    }
    return NX_OK;
}

static nx_status record_parts(nx_tracer *tracer, nx_run *run, const nx_value *in, nx_value *out) {
    if (tracer->varies && tracer->fix) NX_TRY(fix_all(tracer, run->op, in, run->op->def->n_in));
    return call_parts(run, in, out);
}

/* Whether its parts are recorded in its place: where all are, or where autocast casts among them. */
static bool is_recorded_by_parts(const nx_tracer *tracer, const nx_op *op) {
    const nx_thread *thread = nx_thread_get();
    bool casts = op->def->casts && (thread->keys_included & ~thread->keys_excluded & NX_KEY(AUTOCAST));
    return (tracer->flat && op->def->dissolves && !nx_op_is_function(op)) || (casts && tracer->key == NX_KEY_AT_CAPTURE);
}

nx_status nx_tracer_record(nx_run *run, const nx_value *in, nx_value *out) {
    nx_thread *thread = nx_thread_get();
    nx_tracer *tracer = serving(thread);
    const nx_op *op = run->op;
    if (tracer == NULL)
        return nx_fail(NX_RUNTIME, "%s: a call is to be recorded and no recorder is on", op->def->name);
    if (is_recorded_by_parts(tracer, op)) return record_parts(tracer, run, in, out);
    nx_value few[32];
    int room = nx_args_room(in, op->def->n_in);
    nx_value *args = room <= NX_COUNT(few) ? few : nx_alloc(sizeof *args * (size_t)room);
    if (args == NULL) return nx_fail_memory(sizeof *args * (size_t)room);
    nx_value *spare = args + op->def->n_in, plain[32];
    int64_t sizes[64];
    writing written;
    nx_status status = before_write(tracer, op, in, &written);
    if (status == NX_OK) status = to_nodes(&(lookup){tracer, op}, in, op->def->n_in, args, &spare);
    if (status == NX_OK && tracer->ints.n) status = make_plain(op, &in, plain, NX_COUNT(plain), sizes, NX_COUNT(sizes));
    if (status == NX_OK) {
        uint64_t excluded = thread->keys_excluded;
        thread->keys_excluded = excluded | UINT64_C(1) << tracer->key;
        status = nx_redispatch(op, run->keys, tracer->key, in, out);
        thread->keys_excluded = excluded;
        bool made = status == NX_OK;
        if (made) status = after_write(tracer, op, &written);
        if (status == NX_OK) status = append_call(tracer, op, in, args, out);
        if (made && status != NX_OK) {
            for (int k = 0; k < op->def->n_out; k++) nx_value_drop(&out[k]);
        }
    }
    if (args != few) nx_free(args);
    return status == NX_DATA && is_taken_apart(tracer, op, in) ? record_parts(tracer, run, in, out) : status;
}

/* ---- views taken again ---------------------------------------------------------------------------------------------- */
/* Of the same operators, but of another tensor: autograd asks when a view has been written (src/grad/view.c), and a trace must see
 * operators that it knows, not tensors put together from addresses. The chain of views of the node that stands for one leads to the
 * tensor that owns the memory; calls that wrote a view stand for it and are passed over. */
static const void *find_views(const nx_tensor *view) {
    nx_tracer *tracer = nx_thread_get()->tracer;
    nx_value at;
    if (tracer == NULL || tracer->key != NX_KEY_AT_TRACE) return NULL;
    return nx_tracer_find(tracer, view, &at) ? at.node : NULL;
}

static nx_status retake(const void *views, nx_tensor *of, nx_tensor **out) {
    const nx_node *node = views;
    nx_value in[64], result = NX_VALUE_NONE;
    uint64_t mask = node->op ? nx_op_written(node->op) : 0;
    int written = mask ? __builtin_ctzll(mask) : 0;
    if (mask && node->args[written].tag == NX_TAG_NODE) return retake(node->args[written].node, of, out);
    bool is_view = node->op && node->op->def->kind == NX_KIND_VIEW && node->op->def->derivative;
    if (!is_view || node->args[0].tag != NX_TAG_NODE) { /* the tensor that owns the memory */
        *out = nx_tensor_ref(of);
        return NX_OK;
    }
    if (node->op->def->flags & NX_OP_LIST) return nx_fail(NX_RUNTIME, "%s: one of several views cannot be written", node->name);
    if (node->n_args > NX_COUNT(in)) return nx_fail(NX_RUNTIME, "%s: too many arguments", node->op->def->name);
    nx_tensor *source;
    NX_TRY(retake(node->args[0].node, of, &source));
    for (int k = 1; k < node->n_args; k++) in[k] = node->args[k];
    in[0] = nx_value_tensor(source);
    nx_status status = nx_op_call(node->op, in, &result);
    nx_tensor_unref(source);
    *out = result.tensor;
    return status;
}

__attribute__((constructor)) static void start(void) {
    nx_trace_views = find_views;
    nx_trace_retake = retake;
    nx_status status = nx_library_fallback(NX_KEY_AT_CAPTURE, nx_tracer_record);
    if (status == NX_OK) status = nx_library_fallback(NX_KEY_AT_TRACE, nx_tracer_record);
    (void)status; /* fixed keys and function: cannot fail */
}
