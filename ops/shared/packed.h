/* packed: operands laid out row by row in one dtype, for kernels that follow indices, and elements counted so. */
#ifndef NX_OPS_PACKED_H
#define NX_OPS_PACKED_H

#include "iter/iter.h"

/* What lies row by row at `data` in `dtype`, as an array of `like`'s sizes; `dims`: room for 2 * NX_MAX_DIMS numbers. */
static inline void nx__packed_over(nx_array *packed, int64_t *dims, const nx_array *like, nx_dtype dtype, void *data) {
    int64_t step = 1;
    nx_array_copy(packed, like, dims);
    packed->data = data;
    packed->dtype = (uint8_t)dtype;
    for (int d = packed->ndim - 1; d >= 0; step *= packed->sizes[d--]) packed->strides[d] = step;
    nx_array_refresh(packed);
}

/* Where element number `nth`, counted row by row, begins. */
static inline char *nx__nth_at(const nx_array *a, int64_t nth) {
    int64_t offset = 0;
    for (int d = a->ndim - 1; d >= 0; nth /= a->sizes[d--]) offset += nth % a->sizes[d] * a->strides[d];
    return (char *)a->data + offset * (int64_t)nx_dtype_bytes(a->dtype);
}

/* n elements of `a`, from number `first` on, as doubles and back; of NULL each is `none`, and nothing is written. */
static inline void nx__read_doubles(const nx_array *a, int64_t first, int n, double none, double *to) {
    for (int k = 0; k < n; k++) {
        to[k] = none;
        if (a) nx_cast(NX_F64, (char *)&to[k], 0, a->dtype, nx__nth_at(a, first + k), 0, 1);
    }
}
static inline void nx__write_doubles(const nx_array *a, int64_t first, int n, const double *from) {
    for (int k = 0; a && k < n; k++) nx_cast(a->dtype, nx__nth_at(a, first + k), 0, NX_F64, (const char *)&from[k], 0, 1);
}

/* `from` row by row in `dtype`, in a room at *out (of any pointer type): nx_room_free(). NULL there after a failure. */
NX_MUST_USE nx_status nx__packed_new(const nx_array *from, nx_dtype dtype, void *out);

#endif
