/* A Fourier transform of lines of one length: nx__fourier_new() finds out how, nx__fourier_run() does it. */
#ifndef NX_FOURIER_PLAN_H
#define NX_FOURIER_PLAN_H

#include "fourier_rows.h"

/* A length whose primes are small is a plan. Of another one the transform is a convolution with a chirp c, whose length is
 * a power of two: X[k] = c[k] sum over j of (x[j] c[j]) / c[k - j], c[k] = exp(-pi i k^2 / n). It is computed in double. */
typedef struct nx__fourier {
    int64_t n, room, cost; /* room: the elements that a line needs; cost: of a line, in bytes moved */
    bool wide, by_chirp;
    nx__fourier_plan plan;              /* of n or of the convolution */
    double *chirp_re, *chirp_im;        /* n of them */
    double *response_re, *response_im;  /* the transform of 1/c, divided by its length */
    void *memory;                       /* holds all tables */
} nx__fourier;

NX_MUST_USE nx_status nx__fourier_new(int64_t n, bool wide, nx__fourier *out); /* free it */
void nx__fourier_free(nx__fourier *fourier);
/* Transforms `width` lines in (re, im), of fourier->room elements each; `more` has room for as much as both. The
 * result lies in *found_re, *found_im. Parts are double where fourier->wide, else float. */
void nx__fourier_run(const nx__fourier *fourier, int64_t width, void *re, void *im, void *more, void **found_re, void **found_im);

#endif
