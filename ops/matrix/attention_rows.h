/* What attention does with the rows of a tile, in float and in double, at each instruction-set level:
 * attention_rows.c. The rows of a tile are `m` numbers of the computing type apart, a multiple of NX__STRANDS. */
#ifndef NX_ATTENTION_ROWS_H
#define NX_ATTENTION_ROWS_H

#include "kernel/kernel.h"

enum { NX__STRANDS = 16 };

/* Rows of a tile of scores: row r sees the first seen + r * more of its `step` numbers, but none of those from `keys` on. */
typedef struct nx__sight { int64_t n, step, keys, seen, more; } nx__sight;

typedef struct nx__attention_rows {
    /* out = a b, or with `add` out += a b, row-major; `trans` operands are given transposed. For machines without a BLAS. */
    void (*multiply)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const void *a, int64_t ld_a,
                     const void *b, int64_t ld_b, bool add, void *out, int64_t ld_out);
    /* One more piece of rows of scores: what a row sees becomes exp(x - top), where `top` is the row's largest so far, the
     * rest 0; `sum` and the width numbers of a row of y, made with the top before, are brought to the new one. y NULL:
     * there are none yet. */
    void (*soften)(void *x, const nx__sight *rows, double *top, double *sum, void *y, int64_t width);
    /* top becomes the logarithm of the row's sum and sum the inverse of it; both 0 for a row without keys. */
    void (*finish)(double *top, double *sum, int64_t n);
    void (*exp_less)(void *x, const nx__sight *rows, const double *less);  /* x = exp(x - less of the row), or 0 */
    void (*mix)(void *g, const void *p, const nx__sight *rows, const double *less, double by); /* g = by * p * (g - less), or 0 */
    void (*add)(void *x, const void *y, int64_t n);                                     /* x += y */
    /* n rows of `width` numbers: to = x * by of the row, which lie by_step apart; to may be x. */
    void (*scale)(void *to, int64_t to_step, const void *x, int64_t x_step, const double *by, int64_t by_step, int64_t n,
                  int64_t width);
    /* out of a row = the sum of x * y */
    void (*dots)(double *out, const void *x, int64_t x_step, const void *y, int64_t y_step, int64_t n, int64_t width);
} nx__attention_rows;
/* Of what weights are the powers of, as variables for the reason that element.h gives for its bounds. */
extern const struct nx__weight_bounds { float low, high; } nx__weight_bounds;

typedef nx__attention_rows nx__attention_pair[2]; /* float, double */
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__attention_pair nx__attention_rows)

#endif
