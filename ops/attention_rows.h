/* What attention does with the rows of a tile, in float and in double, at each instruction-set level:
 * attention_rows.c. Rows lie side by side in the computing type. */
#ifndef NX_ATTENTION_ROWS_H
#define NX_ATTENTION_ROWS_H

#include "kernel/kernel.h"

typedef struct nx__attention_rows {
    /* out = alpha * a b + beta * out, row-major; `trans` operands are given transposed. beta 0 does not read out. For
     * machines without a BLAS. */
    void (*multiply)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha, const void *a,
                     int64_t ld_a, const void *b, int64_t ld_b, double beta, void *out, int64_t ld_out);
    /* One more piece of a row of scores: x becomes exp(x - top), where `top` is the largest so far; `sum` and the n_y
     * numbers y, made with the top before, are brought to the new one. */
    void (*soften)(void *x, int64_t n, double *top, double *sum, void *y, int64_t n_y);
    void (*exp_less)(void *x, int64_t n, double less);                          /* x = exp(x - less) */
    void (*add)(void *x, const void *y, int64_t n);                             /* x += y */
    void (*scale)(void *x, double by, int64_t n);                               /* x *= by */
    void (*fill)(void *x, double value, int64_t n);
    void (*mix)(void *g, const void *p, double less, double scale, int64_t n);  /* g = p * (g - less) * scale */
    double (*dot)(const void *x, const void *y, int64_t n);
} nx__attention_rows;
extern const nx__attention_rows nx__attention_rows_base[2], nx__attention_rows_v4[2]; /* float, double */

#endif
