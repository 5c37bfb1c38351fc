/* Sizes and kernels of strided.op. */
#include "shape/strided.h"

#include "gen/kernels.h"
#include "iter/iter.h"

#include <inttypes.h>

typedef struct list_text { char at[512]; } list_text;
static list_text text_of(const int64_t *at, int n) {
    list_text text = {"["};
    size_t used = 1, room = sizeof text.at - 32;
    for (int k = 0; k < n && used < room; k++)
        used += (size_t)snprintf(text.at + used, 32, k ? ", %" PRId64 : "%" PRId64, at[k]);
    snprintf(text.at + used, 2, "]");
    return text;
}

/* The bytes from the storage's start to the end of the last element; false: they cannot be counted. */
static bool bytes_of(const int64_t *size, const int64_t *stride, int n, int64_t offset, int64_t item, int64_t *out) {
    int64_t last = offset, span, whole = 1;
    bool empty = false, counted = true;
    for (int d = 0; d < n; d++) {
        if (size[d] < 0 || __builtin_mul_overflow(whole, size[d] ? size[d] : 1, &whole)) return false;
        empty |= size[d] == 0;
        counted = counted && !__builtin_mul_overflow(size[d] - 1, stride[d], &span) && !__builtin_add_overflow(last, span, &last);
    }
    *out = 0;
    return empty || (counted && !__builtin_add_overflow(last, 1, &last) && !__builtin_mul_overflow(last, item, out));
}

nx_status nx__size_strided(const char *op, const nx_array *self, const int64_t *size, int n_size, const int64_t *stride,
                           int n_stride, const nx_value *storage_offset, int64_t *out, int *n) {
    const nx_tensor *tensor = (const nx_tensor *)self; /* a tensor begins with its array */
    int64_t item = (int64_t)nx_dtype_bytes((nx_dtype)self->dtype), bytes;
    int64_t from = storage_offset->tag == NX_TAG_NONE ? tensor->offset : storage_offset->i;
    if (n_size != n_stride) return nx_fail(NX_RUNTIME, "mismatch in length of strides and shape");
    if (n_size > NX_MAX_DIMS) return nx_fail(NX_RUNTIME, "%s: %d dimensions, at most %d are possible", op, n_size, NX_MAX_DIMS);
    for (int d = 0; d < n_size; d++) {
        if (stride[d] < 0)
            return nx_fail(NX_RUNTIME, "as_strided: Negative strides are not supported at the moment, got strides: %s",
                           text_of(stride, n_stride).at);
    }
    if (from < 0) return nx_fail(NX_RUNTIME, "Tensor: invalid storage offset %" PRId64, from);
    if (!bytes_of(size, stride, n_size, from, item, &bytes))
        return nx_fail(NX_RUNTIME, "Storage size calculation overflowed with sizes=%s and strides=%s", text_of(size, n_size).at,
                       text_of(stride, n_stride).at);
    int64_t room = tensor->storage ? (int64_t)tensor->storage->bytes : INT64_MAX;
    if (bytes > room)
        return nx_fail(NX_RUNTIME, "setStorage: sizes %s, strides %s, storage offset %" PRId64 ", and itemsize %" PRId64
                       " requiring a storage size of %" PRId64 " are out of bounds for storage of size %" PRId64,
                       text_of(size, n_size).at, text_of(stride, n_stride).at, from, item, bytes, room);
    out[0] = from - tensor->offset;
    *n = 1;
    return NX_OK;
}

/* Surely none when each stride, from the smallest on, is behind all that the smaller ones reach. */
nx_status nx__size_repeats(const char *op, const int64_t *size, int n_size, const int64_t *stride, int n_stride, int64_t *out,
                           int *n) {
    int64_t reach = 0;
    bool repeats = false, seen[NX_MAX_DIMS] = {false};
    (void)op;
    (void)n_stride;
    for (int k = 0; k < n_size; k++) {
        int least = -1;
        for (int d = 0; d < n_size; d++) {
            if (!seen[d] && (least < 0 || stride[d] < stride[least])) least = d;
        }
        seen[least] = true;
        if (size[least] <= 1) continue;
        repeats |= stride[least] <= reach;
        reach += (size[least] - 1) * stride[least];
    }
    out[0] = repeats;
    *n = 1;
    return NX_OK;
}

/* A copy of self's places as one line, in which the part is written; then read back as self lies. */
nx_status nx__strided_into(nx_run *run, nx_array *out, const nx_array *self, const nx_array *src, const int64_t *size, int n_size,
                           const int64_t *stride, int n_stride, nx_value storage_offset) {
    (void)run;
    (void)n_stride;
    nx_copy_cast(out, self);
    if (src->numel == 0) return NX_OK;
    int64_t own[NX_MAX_DIMS * 2], part[NX_MAX_DIMS * 2], from = storage_offset.tag == NX_TAG_NONE ? 0 : storage_offset.i;
    nx_array to, whole;
    nx_array_copy(&to, out, part);
    to.ndim = (uint8_t)n_size;
    to.sizes = part;
    to.strides = part + n_size;
    memcpy(to.sizes, size, sizeof *size * (size_t)n_size);
    memcpy(to.strides, stride, sizeof *stride * (size_t)n_size);
    size_t item = nx_dtype_bytes((nx_dtype)out->dtype);
    int64_t n = 1, end = from + 1; /* places of self, and of the part, which may go beyond it */
    for (int d = 0; d < self->ndim; d++) n += self->sizes[d] > 0 ? (self->sizes[d] - 1) * self->strides[d] : 0;
    for (int d = 0; d < n_size; d++) end += (size[d] - 1) * stride[d];
    if (nx_same_strides(out, self) && nx_is_dense(out) && end <= out->numel) {
        to.data = (char *)out->data + from * (int64_t)item;
        nx_array_refresh(&to);
        nx_copy_cast(&to, src);
        return NX_OK;
    }
    nx_tensor *line;
    if (n < end) n = end;
    NX_TRY(nx_tensor_new((nx_dtype)out->dtype, 1, &n, NX_CPU, &line));
    nx_array_copy(&whole, self, own);
    whole.data = nx_arr(line)->data;
    nx_copy_cast(&whole, self);
    to.data = (char *)whole.data + from * (int64_t)item;
    nx_array_refresh(&to);
    nx_copy_cast(&to, src);
    nx_copy_cast(out, &whole);
    nx_tensor_unref(line);
    return NX_OK;
}
