/* The discrete Fourier transform of lines, at each instruction-set level: fourier_rows.c. A plan knows one length; lines
 * stand side by side, element k of line j at [k * width + j], real and imaginary parts apart. */
#ifndef NX_FOURIER_ROWS_H
#define NX_FOURIER_ROWS_H

#include "kernel/kernel.h"

enum { NX__FOURIER_STAGES = 64, NX__FOURIER_PRIME = 23 };
/* n is the product of the radices: 2 to 5 or primes up to NX__FOURIER_PRIME. root[k] = exp(-2 pi i k / n). */
typedef struct nx__fourier_plan {
    int64_t n;
    int n_stages, radix[NX__FOURIER_STAGES];
    const void *root_re, *root_im; /* n of them, of the lines' type */
} nx__fourier_plan;

typedef struct nx__fourier_rows {
    /* The forward transform of `width` lines, in (re, im) or, where the result is true, in (re2, im2). The backward one is
     * that of the swapped parts. */
    bool (*of_float)(const nx__fourier_plan *plan, int64_t width, float *re, float *im, float *re2, float *im2);
    bool (*of_double)(const nx__fourier_plan *plan, int64_t width, double *re, double *im, double *re2, double *im2);
} nx__fourier_rows;
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__fourier_rows nx__fourier_rows)

#endif
