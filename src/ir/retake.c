/* Views taken again while a graph is traced: of the same operators, but of another tensor. Autograd asks
 * when a view has been written (src/grad/view.c): a trace must see operators that it knows, not tensors put
 * together from addresses. In: the node that stands for a view in the tracer's graph. Its chain of views
 * leads to the tensor that owns the memory; calls that wrote a view stand for it and are passed over. */
#include "ir/private.h"

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
}
