/* rows: arrays seen as rows along one dimension, brought into buffers of one dtype and back. Shared by kernels that
 * work row by row. Rows count in row-major order of the other dimensions. */
#ifndef NX_OPS_ROWS_H
#define NX_OPS_ROWS_H

#include "iter/iter.h"

static inline int64_t nx__row_length(const nx_array *a, int dim) { return a->ndim ? a->sizes[dim] : 1; }
static inline int64_t nx__row_step(const nx_array *a, int dim) {
    return a->ndim ? a->strides[dim] * (int64_t)nx_dtype_bytes(a->dtype) : 0;
}
/* Rows worth a thread. */
static inline int64_t nx__row_grain(int64_t n) { return n >= 8192 ? 1 : 8192 / (n > 0 ? n : 1); }

static inline char *nx__row_at(const nx_array *a, int dim, int64_t row) {
    int64_t offset = 0;
    for (int d = a->ndim - 1; d >= 0; d--) {
        if (d == dim) continue;
        offset += row % a->sizes[d] * a->strides[d];
        row /= a->sizes[d];
    }
    return (char *)a->data + offset * (int64_t)nx_dtype_bytes(a->dtype);
}

static inline void nx__row_load(nx_dtype dtype, void *to, const nx_array *a, int dim, int64_t row) {
    nx_cast(dtype, to, (int64_t)nx_dtype_bytes(dtype), a->dtype, nx__row_at(a, dim, row), nx__row_step(a, dim),
            nx__row_length(a, dim));
}
static inline void nx__row_store(nx_dtype dtype, const void *from, const nx_array *a, int dim, int64_t row) {
    nx_cast(a->dtype, nx__row_at(a, dim, row), nx__row_step(a, dim), dtype, from, (int64_t)nx_dtype_bytes(dtype),
            nx__row_length(a, dim));
}

#endif
