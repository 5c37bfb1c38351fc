/* A Fourier transform of lines of one length: nx__fourier_new() finds out how, nx__fourier_run() does it. */
#ifndef NX_FOURIER_PLAN_H
#define NX_FOURIER_PLAN_H

#include "fourier_rows.h"

/* A length whose primes are small is a plan. Of another one the transform is a convolution with a chirp c, whose length is
 * a power of two: X[k] = c[k] sum over j of (x[j] c[j]) / c[k - j], c[k] = exp(-pi i k^2 / n). */
typedef struct nx__fourier {
    int64_t n, cost;                   /* cost: of a line, in bytes moved */
    int64_t room;                      /* elements that a line needs, n + 1 and, of a half, 2n + 1 or more */
    bool wide, by_chirp;
    bool along;                        /* lines can be transformed one by one, in vectors along them */
    const nx__fourier_fns *fns;
    nx__fourier_plan plan;             /* of n or of the convolution */
    void *half_re, *half_im;           /* n/2 + 1 roots of 2n, where they were asked for */
    void *chirp_re, *chirp_im;         /* n of them */
    void *response_re, *response_im;   /* the transform of 1/c, divided by its length */
    void *memory;                      /* holds all tables */
} nx__fourier;

/* Of lines of numbers that are double or float; `halves`: real lines of 2n numbers are to be transformed. Free it. */
NX_MUST_USE nx_status nx__fourier_new(int64_t n, bool of_double, bool halves, nx__fourier *out);
void nx__fourier_free(nx__fourier *fourier);
/* Transforms a block of lines, or one line alone, in (re, im), of fourier->room elements each; `more` has room for as much
 * as both. The result lies in *found_re, *found_im. Parts are double where fourier->wide, else float. */
void nx__fourier_run(const nx__fourier *fourier, bool alone, void *re, void *im, void *more, void **found_re, void **found_im);
size_t nx__fourier_part_bytes(const nx__fourier *fourier, bool alone); /* of re, as of im */
/* Whether a line of n numbers can be transformed alone. */
bool nx__fourier_along(int64_t n, bool of_double);
/* exp(-2 pi i k / n), to the last digit. */
void nx__fourier_root(int64_t k, int64_t n, double *re, double *im);
/* n = rows * *columns, both at least `least` and about as large; 0: there are none, or a prime is too large
 * for the numbers' type. */
int64_t nx__fourier_split(int64_t n, bool of_double, int64_t least, int64_t *columns);

#endif
