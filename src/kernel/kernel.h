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
    void (*sgemv)(int order, int trans, int m, int n, float alpha, const float *a, int lda, const float *x,
                  int x_step, float beta, float *y, int y_step);
    void (*dgemv)(int order, int trans, int m, int n, double alpha, const double *a, int lda, const double *x,
                  int x_step, double beta, double *y, int y_step);
    /* Of complex numbers; what is one lies in memory. */
    void (*cgemm)(int order, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int lda,
                  const void *b, int ldb, const void *beta, void *c, int ldc);
    void (*zgemm)(int order, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int lda,
                  const void *b, int ldb, const void *beta, void *c, int ldc);
    void (*cgemv)(int order, int trans, int m, int n, const void *alpha, const void *a, int lda, const void *x, int x_step,
                  const void *beta, void *y, int y_step);
    void (*zgemv)(int order, int trans, int m, int n, const void *alpha, const void *a, int lda, const void *x, int x_step,
                  const void *beta, void *y, int y_step);
} nx_blas;
enum { NX_BLAS_ROW_MAJOR = 101, NX_BLAS_NO_TRANS = 111, NX_BLAS_TRANS = 112, NX_BLAS_CONJ_TRANS = 113 };
const nx_blas *nx_blas_get(void); /* lent; NULL: none was found */

/* ---- LAPACK: of the same library, column by column ------------------------------------------------------- */
enum { NX_LAPACK_COLUMNS = 102 };
#define NX_LAPACK_ROW(prefix, of_real, name, parameters) int (*name) parameters;
typedef struct nx_lapack { /* by the letter of the type */
#define scalar number
#define values real *re, real *im
#define number float
#define real float
    struct {
#include "kernel/lapack.def"
    } s;
#undef number
#undef real
#define number double
#define real double
    struct {
#include "kernel/lapack.def"
    } d;
#undef number
#undef scalar
#undef values
#define scalar const number *
#define values number *w
#define number double _Complex
    struct {
#include "kernel/lapack.def"
    } z;
#undef number
#undef real
#define number float _Complex
#define real float
    struct {
#include "kernel/lapack.def"
    } c;
#undef number
#undef real
#undef scalar
#undef values
} nx_lapack;
#undef NX_LAPACK_ROW
enum { NX_BLAS_LEFT = 141, NX_BLAS_RIGHT = 142, NX_BLAS_UPPER = 121, NX_BLAS_LOWER = 122, NX_BLAS_NON_UNIT = 131,
       NX_BLAS_UNIT = 132 };
const nx_lapack *nx_lapack_get(void); /* lent; NULL: the library that was found, if any, has none */

/* ---- products of matrices; shapes and dtypes have been checked; out may not lie over a or b ------------ */
NX_MUST_USE nx_status nx_gemm_blas(const nx_array *a, const nx_array *b,
                                   const nx_array *out); /* float and complex types */
NX_MUST_USE nx_status nx_gemm_plain(const nx_array *a, const nx_array *b,
                                    const nx_array *out); /* every number type */
NX_MUST_USE nx_status nx_gemm_ref(const nx_array *a, const nx_array *b,
                                  const nx_array *out); /* what the others mean */
/* out = a b, or self + a b, self being broadcast, when that is a matter of a few float32 numbers; else false and nothing
 * is written. Whatever may lie over whatever. */
bool nx_gemm_tiny(const nx_array *self, const nx_array *a, const nx_array *b, const nx_array *out);
/* Whether nx_gemm_add can write `out`: float32 or float64, rows or columns side by side, and a BLAS was found. */
bool nx_gemm_adds(const nx_array *out);
/* out = alpha * a b + beta * self, which is broadcast to out's size; beta 0 does not read it. self may be out, but not
 * overlap it otherwise. a has columns. */
NX_MUST_USE nx_status nx_gemm_add(const nx_array *self, const nx_array *a, const nx_array *b, double alpha,
                                  double beta, const nx_array *out);
/* out = a b + start, all of them halves of one type, sums in float32, rounded once; start is broadcast, NULL: 0. By the processor's own
 * instructions where it has them; of these out may be float32. *done false: nothing was done, as they are no halves, lie so that they
 * must be copied first, have one row or column, or the level has no panels. No size is 0; start may be out. */
NX_MUST_USE nx_status nx_gemm_halves(const nx_array *start, const nx_array *a, const nx_array *b, const nx_array *out, bool *done);

/* ---- float32 products in panels that stay in registers (blocked.c), where the level has fused multiply-add - */
/* What counts of a product where i sees no more than the first seen + i: all of it; element (i, j) of the result where i sees j, the
 * others may stay unwritten; of a, which is 0 elsewhere, a[i][q] where i sees q, or where q sees i. */
typedef enum nx_counts { NX_WHOLE, NX_SEEN_RESULT, NX_SEEN_ROWS, NX_SEEN_COLUMNS } nx_counts;
/* c = a b + start, with `add` c += a b + start. Steps count elements; those of the rows of c and of start, 1 from column to
 * column. c lies over neither a nor b nor start. Rows of the result do not depend on how many there are. */
typedef struct nx_product {
    int64_t m, n, k;         /* none is 0 */
    nx_counts part;
    int64_t seen;
    const float *a, *b;
    int64_t a_row_step, a_k_step, b_k_step, b_column_step;
    float *c;
    int64_t c_row_step;
    const float *start;      /* NULL: 0; added last */
    int64_t start_row_step;  /* 0: one row for all */
    bool add;
    float *room;             /* nx_product_room(m, n, k) numbers, at a multiple of 64; NULL: allocated for the call */
} nx_product;
bool nx_product_runs(void);
size_t nx_product_room(int64_t m, int64_t n, int64_t k);
NX_MUST_USE nx_status nx_product_run(const nx_product *p);
/* The same product of halves, NX_F16 or NX_BF16, as which a and b are read; the result, rounded once, goes to `out`. p->c, p->add and
 * p->room are not read; what is added is float32. */
typedef struct nx_halves { nx_dtype dtype; uint16_t *data; int64_t row_step, column_step; } nx_halves;
NX_MUST_USE nx_status nx_product_run_halves(const nx_product *p, const nx_halves *out);
/* The same bits, on as many threads as it is worth; needs no room. */
NX_MUST_USE nx_status nx_product_spread(const nx_product *p);
/* The same bits with b packed once for many products, at any level: nx_product_packed(n, k) numbers at a multiple of 64, which
 * nx_product_pack() fills from b. On this thread alone. */
size_t nx_product_packed(int64_t n, int64_t k);
void nx_product_pack(const nx_product *p, float *to);
void nx_product_run_packed(const nx_product *p, float *packed);

/* ---- products of bfloat16 by the processor's own instructions (tiled.c) ------------------------------------------ */
bool nx_tiled_runs(void); /* the level in use and the processor have them */
/* out = a b + start, bfloat16 or, unrounded, float32; sums in float32. start, bfloat16, is broadcast and added last; NULL: 0.
 * No size is 0; out lies over neither operand, and over start only where it is start. */
NX_MUST_USE nx_status nx_tiled_product(const nx_array *start, const nx_array *a, const nx_array *b, const nx_array *out);
/* The step of what is broadcast to a matrix, along its rows (0) or columns (1). */
static inline int64_t nx_start_step(const nx_array *start, int dim) {
    const int at = start->ndim - 2 + dim;
    return at < 0 || start->sizes[at] == 1 ? 0 : start->strides[at];
}

/* ---- convolutions of float32 (convolve/) ---------------------------------------------------------------------- */
/* Every place of the small side sees a window of the big side: small place s and tap t belong to big place
 * s*stride - padding + t*dilation. Both sides lie row by row as images, channels (those of a group side by side), three
 * dimensions of space; the weight as channels of the small side, channels of the big side within a group, kernel. No size is
 * 0; the same bits on any number of threads. */
typedef struct nx_windows {
    int64_t images, groups, big_channels, small_channels; /* channels of one group */
    int64_t big[3], small[3], kernel[3], stride[3], padding[3], dilation[3];
} nx_windows;
/* What becomes of the small side's numbers x while they are near: x*factor + offset, each rounded, + other, and no less than low and
 * no more than high; NaN stays. */
typedef struct nx_tail {
    const float *factor, *offset; /* of each channel of all groups; both or none */
    const float *other;           /* laid as the small side; NULL: nothing is added */
    float low, high;
} nx_tail;
/* small = what its windows hold, times the weights, plus bias (NULL: 0), then `tail` (NULL: none); big = the same sums with the sides
 * in each other's place; weight = the products of what meets at each tap. */
NX_MUST_USE nx_status nx_convolve_gather(const nx_windows *w, const float *big, const float *weight, const float *bias,
                                         const nx_tail *tail, float *small);
void nx_convolve_follow(const nx_windows *w, const nx_tail *tail, float *small); /* the tail alone, of what is there already */
NX_MUST_USE nx_status nx_convolve_spread(const nx_windows *w, const float *small, const float *weight, const float *bias, float *big);
NX_MUST_USE nx_status nx_convolve_weigh(const nx_windows *w, const float *big, const float *small, float *weight);

/* ---- rows, at each instruction-set level: row.c ---------------------------------------------------------- */
/* Rows of n elements of the computing type (float, double). `out` may be the first operand. */
enum { NX_ROW_WIDE = 32, NX_ROW_LANES = 64 };
static inline int64_t nx_row_room(int64_t n) { return (n + NX_ROW_WIDE - 1) / NX_ROW_WIDE * NX_ROW_WIDE; }
typedef struct nx_row_fns {
    /* `count` rows, one behind the other, elements side by side. */
    void (*rows)(void *out, const void *a, const void *b, int64_t n, int64_t count);
    /* At most NX_ROW_LANES rows side by side, whose elements lie `step` elements apart. */
    void (*columns)(void *out, const void *a, const void *b, int64_t n, int64_t step, int lanes);
} nx_row_fns;
/* Numbers of channels: n of one, side by side, where `step` is 1, or else n rows, `step` apart, of at most NX_ROW_LANES
 * channels side by side. What there is one of for each channel is a double. */
typedef struct nx_channel_fns {
    /* Add to `to` the sums of x, of the squares of x - middle, of the products of g and x - middle. */
    void (*sums)(double *to, const void *x, int64_t n, int64_t step, int channels);
    void (*squares)(double *to, const void *x, const double *middle, int64_t n, int64_t step, int channels);
    void (*products)(double *to, const void *g, const void *x, const double *middle, int64_t n, int64_t step, int channels);
    /* out = g*of_g + (x - middle)*of_x + summand; without g, which is NULL then, the latter two. */
    void (*blend)(void *out, const void *g, const void *x, const double *middle, const double *of_g, const double *of_x,
                  const double *summand, int64_t n, int64_t step, int channels);
} nx_channel_fns;
enum { NX_NORM_ROWS = 4 };
typedef struct nx_rows {
    nx_row_fns softmax, log_softmax;                   /* a: x; b is not read */
    nx_row_fns softmax_backward, log_softmax_backward; /* a: gradient, b: result */
    /* `rows` rows that follow each other, at most NX_NORM_ROWS, whose sums do not wait for each other. `norm`: one row may have
     * room for a multiple of NX_ROW_WIDE: behind the n-th x is filled with 0 and `out` written; weight and bias may be NULL. */
    void (*norm)(void *out, const void *x, const void *weight, const void *bias, double eps, int64_t n, int64_t room, int rows,
                 double *mean, double *rstd);
    void (*norm_backward)(void *out, const void *g, const void *x, const void *weight, const double *mean, const double *rstd,
                          int64_t n, int rows);
    /* Adds a row's part to the gradients of weight and bias. */
    void (*norm_columns)(void *to_weight, void *to_bias, const void *g, const void *x, double mean, double rstd,
                         int64_t n);
    nx_channel_fns channels;
    /* out = x*factor + offset, if it is `scaled`, + other (NULL: 0), between low and high: nx_tail. `out` may be x. */
    void (*tail)(void *out, const void *x, const void *other, bool scaled, double factor, double offset, double low, double high,
                 int64_t n);
    /* The same of n rows of `channels` numbers, each with a factor and an offset of its own; NULL: none. */
    void (*tails)(void *out, const void *x, const void *other, const void *factor, const void *offset, double low, double high,
                  int64_t channels, int64_t n);
} nx_rows;
const nx_rows *nx_rows_get(nx_dtype dtype); /* those of float64, else of float32 */

#endif
