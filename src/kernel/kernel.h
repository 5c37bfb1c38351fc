/* kernel: what kernels share that are more than a loop over elements. The kernels themselves stand in ops/,
 * and the generated loops are their siblings. */
#ifndef NX_KERNEL_H
#define NX_KERNEL_H

#include "iter/iter.h"
#include "kernel/element.h"

/* ---- BLAS: found at run time, see blas.c --------------------------------------------------------------- */
typedef struct nx_blas { /* CBLAS with 32-bit integers */
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a,
                  int lda, const double *b, int ldb, double beta, double *c, int ldc);
} nx_blas;
enum { NX_BLAS_ROW_MAJOR = 101, NX_BLAS_NO_TRANS = 111, NX_BLAS_TRANS = 112 };
const nx_blas *nx_blas_get(void); /* lent; NULL: none was found */

/* ---- products of matrices; shapes and dtypes have been checked; out may not lie over a or b ------------ */
NX_MUST_USE nx_status nx_gemm_blas(const nx_array *a, const nx_array *b,
                                   const nx_array *out); /* float32, float64 */
NX_MUST_USE nx_status nx_gemm_plain(const nx_array *a, const nx_array *b,
                                    const nx_array *out); /* every number type */
NX_MUST_USE nx_status nx_gemm_ref(const nx_array *a, const nx_array *b,
                                  const nx_array *out); /* what the others mean */
/* Whether nx_gemm_add can write `out`: float32 or float64, rows or columns side by side, and a BLAS was found. */
bool nx_gemm_adds(const nx_array *out);
/* out = alpha * a b + beta * out; beta 0 does not read out. */
NX_MUST_USE nx_status nx_gemm_add(const nx_array *a, const nx_array *b, double alpha, double beta, const nx_array *out);

#endif
