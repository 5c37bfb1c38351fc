/* order: comparisons of the elements of one row, shared by order.c, sort.c, rank.c and the draws of multinomial. NaN is
 * the largest; of equal elements the first comes first. */
#ifndef NX_OPS_ORDER_H
#define NX_OPS_ORDER_H

#include "shared/rows.h"

/* The dtype in which rows are compared: float32 for float32 and the half types, float64, int64 for all else. */
static inline nx_dtype nx__order_dtype(int dtype) {
    return dtype == NX_F64 ? NX_F64 : nx_is_float((nx_dtype)dtype) ? NX_F32 : NX_I64;
}

/* Row `row` of a along `dim`, side by side in `dtype`. */
static inline void nx__order_load(nx_dtype dtype, void *to, const nx_array *a, int dim, int64_t row) {
    nx_cast(dtype, to, (int64_t)nx_dtype_bytes(dtype), (nx_dtype)a->dtype, nx__row_at(a, dim, row),
            nx__row_step(a, dim), nx__row_length(a, dim));
}

#define NX__DECLARE_ORDER(real)                                                                                  \
    /* Where the largest element is, the smallest with `least`; NaN counts as either. n > 0. */                   \
    int64_t nx__order_best_##real(const real *x, int64_t n, bool least);                                         \
    /* Where the first k are, in order, largest first if `descending`; 0 < k <= n. */                              \
    void nx__order_first_##real(const real *x, int64_t n, int64_t k, bool descending, int64_t *at);              \
    /* Where all are, in order: somewhere in `room`, which holds 32 bytes for each of them. */                    \
    int64_t *nx__order_all_##real(const real *x, int64_t n, bool descending, void *room);
NX__DECLARE_ORDER(float)
NX__DECLARE_ORDER(double)
NX__DECLARE_ORDER(int64_t)
#undef NX__DECLARE_ORDER

#endif
