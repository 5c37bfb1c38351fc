/* rows: arrays seen as rows along one dimension, in place where they lie side by side in the computing type, else
 * brought into a buffer and back. Shared by kernels that work row by row. Rows count in row-major order of the other
 * dimensions. */
#ifndef NX_OPS_ROWS_H
#define NX_OPS_ROWS_H

#include "kernel/kernel.h"

static inline int64_t nx__row_length(const nx_array *a, int dim) { return a->ndim ? a->sizes[dim] : 1; }
static inline int64_t nx__row_step(const nx_array *a, int dim) {
    return a->ndim ? a->strides[dim] * (int64_t)nx_dtype_bytes(a->dtype) : 0;
}
/* Rows worth a thread. */
static inline int64_t nx__row_grain(int64_t n) { return n >= 8192 ? 1 : 8192 / (n > 0 ? (int)n : 1); }
static inline nx_dtype nx__row_computing(const nx_array *a) { return a->dtype == NX_F64 ? NX_F64 : NX_F32; }

/* Whether each row begins where the last one ends. */
static inline bool nx__row_follows(const nx_array *a, int dim) { return a->contiguous && dim >= a->ndim - 1; }

static inline char *nx__row_at(const nx_array *a, int dim, int64_t row) {
    int64_t offset = 0, bytes = (int64_t)nx_dtype_bytes(a->dtype);
    if (nx__row_follows(a, dim)) return (char *)a->data + row * nx__row_length(a, dim) * bytes;
    for (int d = a->ndim - 1; d >= 0; d--) {
        if (d == dim) continue;
        offset += row % a->sizes[d] * a->strides[d];
        row /= a->sizes[d];
    }
    return (char *)a->data + offset * bytes;
}

/* Where row `row` is read: in place if buffer is NULL, else there, filled up with `filler`. */
static inline const void *nx__row_load(nx_dtype computing, void *buffer, const nx_array *a, int dim, int64_t row,
                                       double filler) {
    int64_t n = nx__row_length(a, dim);
    const char *from = nx__row_at(a, dim, row);
    if (buffer == NULL) return from;
    nx_cast(computing, buffer, (int64_t)nx_dtype_bytes(computing), a->dtype, from, nx__row_step(a, dim), n);
    double *wide = buffer;
    float *narrow = buffer;
    for (int64_t i = n; computing == NX_F64 && i < nx_row_room(n); i++) wide[i] = filler;
    for (int64_t i = n; computing != NX_F64 && i < nx_row_room(n); i++) narrow[i] = (float)filler;
    return buffer;
}
static inline void nx__row_store(nx_dtype computing, const void *buffer, const nx_array *a, int dim, int64_t row) {
    nx_cast(a->dtype, nx__row_at(a, dim, row), nx__row_step(a, dim), computing, buffer,
            (int64_t)nx_dtype_bytes(computing), nx__row_length(a, dim));
}

#endif
