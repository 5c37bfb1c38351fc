/* Operands and results row by row in the dtype that a kernel computes in. */
#include "shared/lay.h"

nx_status nx__lay(nx__laid *laid, const nx_array *a, nx_dtype dtype, bool reads, void *out) {
    *(void **)out = a ? a->data : NULL;
    if (a == NULL || (a->contiguous && a->dtype == dtype)) return NX_OK;
    nx_tensor **owned = &laid->owned[laid->n];
    NX_TRY(nx_tensor_new(dtype, a->ndim, a->sizes, NX_CPU, owned));
    laid->n++;
    *(void **)out = nx_arr(*owned)->data;
    if (reads) nx_copy_cast(nx_arr(*owned), a);
    return NX_OK;
}

nx_status nx__lay_unless(bool as_it_lies, nx__laid *laid, const nx_array *a, nx_dtype dtype, bool reads, void *out) {
    if (!as_it_lies) return nx__lay(laid, a, dtype, reads, out);
    *(void **)out = a ? a->data : NULL;
    return NX_OK;
}

void nx__lay_back(const nx__laid *laid, const nx_array *to, const void *at) {
    for (int k = 0; to && k < laid->n; k++) {
        if (nx_arr(laid->owned[k])->data == at) nx_copy_cast(to, nx_arr(laid->owned[k]));
    }
}

void nx__lay_end(nx__laid *laid) {
    for (int k = 0; k < laid->n; k++) nx_tensor_unref(laid->owned[k]);
}

void nx__turn_channels(const nx_array *a, nx_array *turned, int64_t *dims) {
    nx_array_copy(turned, a, dims);
    for (int d = 1; d < a->ndim; d++) {
        int from = d + 1 < a->ndim ? d + 1 : 1;
        turned->sizes[d] = a->sizes[from];
        turned->strides[d] = a->strides[from];
    }
    nx_array_refresh(turned);
}

bool nx__lies_by_channels(const nx_array *a, nx_array *turned, int64_t *dims) {
    if (!nx_is_channels_last(a) || a->contiguous) return false;
    nx__turn_channels(a, turned, dims);
    return true;
}
