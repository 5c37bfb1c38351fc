/* Saved tensors in the user's own form: torch.autograd.graph.saved_tensors_hooks, and what is made of it (checkpoints, offloading).
 * A node asks nx_saved_pack() for each tensor that it saves; if the thread has hooks it keeps what they give, together with the
 * place in the graph that the tensor had, which it gets again when a recorded backward unpacks it. What hooks return is not
 * watched for writes: it is theirs. Next: operator.c. */
#include "grad/private.h"

nx_status (*nx_grad_pack)(void *hooks, nx_tensor *tensor, nx_packed **out);

nx_status nx_saved_pack(nx_tensor *tensor, nx_packed **out) {
    const nx_thread *thread = nx_thread_get();
    *out = NULL;
    if (NX_LIKELY(thread->saved_hooks == NULL) || thread->tracer) return NX_OK;
    return nx_grad_pack(thread->saved_hooks, tensor, out);
}

nx_status nx_saved_new(nx_tensor *tensor, bool is_result, nx_saved **out) {
    nx_packed *packed;
    nx_edge edge = {NULL, 0};
    *out = NULL;
    NX_TRY(nx_saved_pack(tensor, &packed));
    if (NX_LIKELY(packed == NULL)) return NX_OK;
    nx_saved *saved = nx_alloc(sizeof *saved);
    nx_status status = saved ? NX_OK : nx_fail_memory(sizeof *saved);
    if (status == NX_OK && !is_result) status = nx_grad_edge(tensor, &edge);
    if (status != NX_OK) {
        packed->free(packed);
        nx_free(saved);
        return status;
    }
    *saved = (nx_saved){packed, edge};
    *out = saved;
    return NX_OK;
}

nx_status nx_saved_take(const nx_saved *saved, nx_tensor **out) {
    nx_tensor *tensor;
    NX_TRY(saved->packed->unpack(saved->packed, &tensor));
    *out = tensor;
    if (saved->edge.node == NULL || !nx_grad_enabled()) return NX_OK;
    nx_status status = nx_tensor_alias(tensor, out);
    nx_tensor_unref(tensor);
    if (status != NX_OK) return status;
    status = nx_grad_set_node(*out, saved->edge.node, saved->edge.input);
    if (status != NX_OK) nx_tensor_unref(*out);
    return status;
}

void nx_saved_free(nx_saved *saved) {
    saved->packed->free(saved->packed);
    nx_grad_node_unref(saved->edge.node);
    nx_free(saved);
}
