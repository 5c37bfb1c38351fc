/* Views: of all slices at once, by the same operator with the levels' sizes in front. Most follow from their dimensions (front.c). */
#include "batch/private.h"

/* The levels' sizes, then those of argument 1. */
static int sizes_behind_levels(const nx__call *call, int64_t *sizes) {
    const nx_value *given = &call->in[1];
    int n = nx__level_sizes(call, sizes);
    if (n + given->n > NX_MAX_DIMS) return -1;
    for (int k = 0; k < given->n; k++) sizes[n + k] = given->ints[k];
    return n + given->n;
}

nx_status nx__rule_view_size(nx__call *call, nx_value *out, bool *fits) {
    int64_t sizes[NX_MAX_DIMS];
    nx_meta meta;
    int n = sizes_behind_levels(call, sizes);
    bool asks = false;
    if (n < 0) return *fits = false, NX_OK;
    for (int k = 0; k < call->in[1].n; k++) asks |= call->in[1].ints[k] < 0;
    if (asks) NX_TRY(nx_op_meta(call->op, call->in, &meta)); /* says what -1 is, also where a level has no slices */
    for (int d = 0; asks && d < meta.ndim; d++) sizes[call->n_levels + d] = meta.size[d];
    return nx_op_call(call->op, (nx_value[]){nx_value_tensor(call->in[0].tensor->whole), nx_value_ints(sizes, n)}, out);
}

nx_status nx__rule_expand(nx__call *call, nx_value *out, bool *fits) {
    int64_t sizes[NX_MAX_DIMS];
    nx_tensor *whole;
    int n = sizes_behind_levels(call, sizes);
    if (n < 0) return *fits = false, NX_OK;
    NX_TRY(nx__whole(call, call->in[0].tensor, call->in[1].n, false, &whole));
    return nx_op_call(call->op, (nx_value[]){nx_value_tensor(whole), nx_value_ints(sizes, n), call->in[2]}, out);
}

nx_status nx__rule_permute(nx__call *call, nx_value *out, bool *fits) {
    const nx_tensor *slice = call->in[0].tensor;
    int64_t dims[NX_MAX_DIMS];
    int n = call->n_levels, rank = slice->a.ndim;
    for (int k = 0; k < n; k++) dims[k] = k;
    for (int k = 0; k < rank; k++) dims[n + k] = n + (call->in[1].ints[k] + (call->in[1].ints[k] < 0 ? rank : 0));
    return nx_op_call(call->op, (nx_value[]){nx_value_tensor(slice->whole), nx_value_ints(dims, n + rank)}, out);
}

/* Places are counted in a slice's storage, which is that of the whole. */
nx_status nx__rule_as_strided(nx__call *call, nx_value *out, bool *fits) {
    nx_tensor *whole = call->in[0].tensor->whole;
    int64_t sizes[NX_MAX_DIMS], strides[NX_MAX_DIMS];
    int levels = call->n_levels, n = sizes_behind_levels(call, sizes);
    if (n < 0 || call->in[2].n != call->in[1].n) return *fits = false, NX_OK;
    for (int k = 0; k < levels; k++) strides[k] = whole->a.strides[k];
    for (int k = levels; k < n; k++) strides[k] = call->in[2].ints[k - levels];
    return nx_op_call(call->op, (nx_value[]){nx_value_tensor(whole), nx_value_ints(sizes, n), nx_value_ints(strides, n), call->in[3]}, out);
}

nx_status nx__rule_squeeze(nx__call *call, nx_value *out, bool *fits) {
    const nx_tensor *slice = call->in[0].tensor;
    int64_t dims[NX_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < slice->a.ndim; d++) {
        if (slice->a.sizes[d] == 1) dims[n++] = call->n_levels + d;
    }
    return nx__call_op("aten::squeeze.dims", (nx_value[]){nx_value_tensor(slice->whole), nx_value_ints(dims, n)}, out);
}

nx_status nx__rule_t(nx__call *call, nx_value *out, bool *fits) {
    const nx_tensor *slice = call->in[0].tensor;
    const char *name = slice->a.ndim == 2 ? "aten::transpose.int" : "aten::alias";
    return nx__call_op(name, (nx_value[]){nx_value_tensor(slice->whole), nx_value_int(-2), nx_value_int(-1)}, out);
}

/* new_empty_strided(self, size, stride, ...): slices one behind the other, each as it says. */
nx_status nx__rule_new_strided(nx__call *call, nx_value *out, bool *fits) {
    int64_t sizes[NX_MAX_DIMS], strides[NX_MAX_DIMS], bytes = 1;
    nx_value own[NX__MOST_ARGUMENTS];
    int levels = call->n_levels, n = sizes_behind_levels(call, sizes);
    if (n < 0 || call->in[2].n != call->in[1].n) return *fits = false, NX_OK;
    for (int i = 0; i < call->op->def->n_in; i++) own[i] = call->in[i];
    for (int k = levels; k < n; k++) {
        strides[k] = call->in[2].ints[k - levels];
        if (sizes[k] > 0) bytes += (sizes[k] - 1) * strides[k];
    }
    for (int k = levels - 1; k >= 0; bytes *= sizes[k], k--) strides[k] = bytes;
    own[0] = nx_value_tensor(call->in[0].tensor->whole);
    own[1] = nx_value_ints(sizes, n);
    own[2] = nx_value_ints(strides, n);
    return nx_op_call(call->op, own, out);
}
