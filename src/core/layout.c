/* Sizes and strides. Strides count elements; a dimension of size 1 has any stride. */
#include "core/core.h"

#include <assert.h>

int64_t nx_numel(int ndim, const int64_t *sizes) {
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n = nx_times(n, sizes[d]);
    return n;
}

bool nx_is_contiguous(int ndim, const int64_t *sizes, const int64_t *strides) {
    int64_t expected = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        if (sizes[d] == 0) return true;
        if (sizes[d] == 1) continue;
        if (strides[d] != expected) return false;
        expected *= sizes[d];
    }
    return true;
}

/* Dimensions in order of stride tile the memory from the first element to the last. */
bool nx_is_dense(const nx_array *a) {
    if (a->contiguous) return true;
    int order[NX_MAX_DIMS], n = 0;
    for (int d = 0; d < a->ndim; d++) {
        if (a->sizes[d] == 1) continue;
        int at = n++;
        for (; at > 0 && a->strides[order[at - 1]] > a->strides[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    int64_t expected = 1;
    for (int k = 0; k < n; k++) {
        if (a->strides[order[k]] != expected) return false;
        expected *= a->sizes[order[k]];
    }
    return true;
}

void nx_array_refresh(nx_array *a) {
    a->numel = nx_numel(a->ndim, a->sizes);
    a->contiguous = a->numel == 0 || nx_is_contiguous(a->ndim, a->sizes, a->strides);
}

bool nx_is_channels_last(const nx_array *a) {
    int64_t expected = 1;
    for (int k = 0; k < a->ndim; k++) { /* 1, then from the last one down to 2, then 0 */
        int d = k == 0 ? 1 : k == a->ndim - 1 ? 0 : a->ndim - k;
        if (a->sizes[d] != 1 && a->strides[d] != expected) return false;
        expected *= a->sizes[d];
    }
    return a->ndim == 4 || a->ndim == 5;
}

const char *nx_memory_format_name(int64_t format) {
    static const char *const names[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
    assert(format >= 0 && format < NX_COUNT(names));
    return names[format];
}

bool nx_lies_in_format(const nx_array *a, int64_t format) {
    return format < NX_CHANNELS_LAST ? a->contiguous : a->ndim == format + 2 && nx_is_channels_last(a);
}

void nx_array_copy(nx_array *to, const nx_array *from, int64_t *dims) {
    *to = *from;
    to->sizes = dims;
    to->strides = dims + from->ndim;
    for (int d = 0; d < from->ndim; d++) {
        to->sizes[d] = from->sizes[d];
        to->strides[d] = from->strides[d];
    }
}

void nx_array_extent(const nx_array *a, const char **low, const char **high) {
    *low = *high = NULL;
    if (a->numel == 0 || a->data == NULL) return;
    int64_t first = 0, last = 0;
    for (int d = 0; d < a->ndim; d++) {
        int64_t reach = (a->sizes[d] - 1) * a->strides[d];
        if (reach < 0) first += reach;
        else last += reach;
    }
    int64_t bytes = (int64_t)nx_dtype_bytes(a->dtype);
    *low = (const char *)a->data + first * bytes;
    *high = (const char *)a->data + (last + 1) * bytes;
}

nx_status nx_fail_bytes(int ndim, const int64_t *sizes) {
    nx_text text = {0};
    nx_status status;
    int below = 0;
    nx_text_add_ints(&text, sizes, ndim);
    const char *listed = text.failed ? "" : text.at;
    while (below < ndim && sizes[below] >= 0) below++;
    if (below < ndim)
        status = nx_fail(NX_RUNTIME, "Trying to create tensor with negative dimension %lld: %s", (long long)sizes[below], listed);
    else
        status = nx_fail(NX_RUNTIME, "Storage size calculation overflowed with sizes=%s", listed);
    nx_text_free(&text);
    return status;
}

/* A little less than what can be counted: room is rounded up, and something may stand beside it. */
static bool fits(int64_t n, size_t each, size_t *out) {
    return n >= 0 && !__builtin_mul_overflow((size_t)n, each, out) && *out <= PTRDIFF_MAX / 2;
}

nx_status nx_bytes_of(int64_t n, size_t each, size_t *out) { return fits(n, each, out) ? NX_OK : nx_fail_bytes(1, &n); }

nx_status nx_array_bytes(const nx_array *a, nx_dtype dtype, size_t *out) {
    return fits(a->numel, nx_dtype_bytes(dtype), out) ? NX_OK : nx_fail_bytes(a->ndim, a->sizes);
}

void nx_row_major(int ndim, const int64_t *sizes, int64_t *strides) {
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride = nx_times(stride, sizes[d] > 1 ? sizes[d] : 1);
    }
}

void nx_meta_contiguous(nx_meta *meta) { nx_row_major(meta->ndim, meta->size, meta->stride); }

/* The bytes from element 0 to the last one behind it; SIZE_MAX when that cannot be counted. What a negative stride
 * reaches lies before element 0 and is nobody's to write beyond the elements. */
size_t nx_meta_bytes(const nx_meta *meta) {
    int64_t last = 0, reach;
    bool empty = false;
    for (int d = 0; d < meta->ndim; d++) {
        if (meta->size[d] < 0) return SIZE_MAX;
        empty |= meta->size[d] == 0;
    }
    if (empty) return 0;
    for (int d = 0; d < meta->ndim; d++) {
        if (meta->stride[d] < 0) continue;
        if (__builtin_mul_overflow(meta->size[d] - 1, meta->stride[d], &reach)) return SIZE_MAX;
        if (__builtin_add_overflow(last, reach, &last)) return SIZE_MAX;
    }
    size_t bytes;
    if (__builtin_mul_overflow((size_t)last + 1, nx_dtype_bytes(meta->dtype), &bytes)) return SIZE_MAX;
    return bytes;
}
