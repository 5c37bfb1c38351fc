/* The discrete Fourier transform of a block of lines, at each instruction-set level: fourier_rows.c. The lines of a block
 * stand side by side, 64 bytes of them: element k of line j at [k * lanes + j], real and imaginary parts apart, where `lanes`
 * is nx__fourier_lanes(). A line whose numbers are neighbours in memory can also be transformed alone, in vectors along it,
 * which stays in the first-level cache. A plan knows one length. */
#ifndef NX_FOURIER_ROWS_H
#define NX_FOURIER_ROWS_H

#include "kernel/kernel.h"

/* Primes of a length up to NX__FOURIER_SMALL are radices in the lines' own type, up to NX__FOURIER_PRIME in double. */
enum { NX__FOURIER_STAGES = 64, NX__FOURIER_SMALL = 23, NX__FOURIER_PRIME = 127, NX__FOURIER_BYTES = 64 };
static inline int64_t nx__fourier_lanes(bool wide) {
    return NX__FOURIER_BYTES / (int64_t)(wide ? sizeof(double) : sizeof(float));
}

/* n is the product of the radices: 2 to 5, 8 or primes. root[k] = exp(-2 pi i k / n). */
typedef struct nx__fourier_plan {
    int64_t n;
    int n_stages, radix[NX__FOURIER_STAGES];
    const void *root_re, *root_im; /* n of them, of the parts' type */
    const void *along_re, *along_im; /* root[p * j] at [(j - 1) * n/8 + p], p < n/8, 1 <= j < 8; NULL: no line goes alone */
} nx__fourier_plan;

/* Where the lines of a block lie in an array: element k of line j is the number at line[j] + k * step, its imaginary part
 * lies `apart` numbers behind; 0: it has none. */
typedef struct nx__fourier_side {
    char *line[NX__FOURIER_BYTES / sizeof(float)];
    int n_lines;
    int64_t step, apart;
} nx__fourier_side;

/* Parts are of one type, tables too; the numbers of arrays may be narrower. */
typedef struct nx__fourier_fns {
    void (*bring)(const nx__fourier_side *from, int64_t n, void *re, void *im); /* lanes behind the lines repeat the last one */
    void (*take)(const nx__fourier_side *to, int64_t n, double scale, const void *re, const void *im);
    /* The forward transform in (re, im) or, where the result is true, in (re2, im2). The backward one is that of the
     * swapped parts. */
    bool (*run)(const nx__fourier_plan *plan, void *re, void *im, void *re2, void *im2);
    /* From the transform of h numbers x[2k] + i x[2k + 1] to the first h + 1 numbers of the transform of x, in place, and
     * back, times 2; root[k] = exp(-pi i k / h), k up to h/2. */
    void (*unpack)(int64_t h, const void *root_re, const void *root_im, void *re, void *im);
    void (*pack)(int64_t h, const void *root_re, const void *root_im, void *re, void *im);
    /* Number k times root[k] for all lines, and times power[k / short][lane] low[k % short][lane]. */
    void (*multiply)(int64_t n, const void *root_re, const void *root_im, void *re, void *im);
    void (*turn)(int64_t n, int64_t n_low, const double *power, const double *low, void *re, void *im);
    /* The same of one line alone, whose numbers, of the parts' type, are neighbours; unpack and pack, of h >= 16, give their
     * results in (re2, im2). Parts are aligned as blocks are and have room for h + 1 numbers. */
    int along; /* numbers in a vector; 0: there is none of these. The first radix is 8, n a multiple of 8 vectors. */
    void (*bring_line)(const void *from, int64_t n, void *re, void *im);
    void (*take_line)(void *to, int64_t n, double scale, const void *re, const void *im);
    bool (*run_line)(const nx__fourier_plan *plan, void *re, void *im, void *re2, void *im2);
    void (*unpack_line)(int64_t h, const void *root_re, const void *root_im, void *re, void *im, void *re2, void *im2);
    void (*pack_line)(int64_t h, const void *root_re, const void *root_im, void *re, void *im, void *re2, void *im2);
    void (*multiply_line)(int64_t n, const void *by_re, const void *by_im, void *re, void *im);
} nx__fourier_fns;
/* Of float, of float in double, of double. */
enum { NX__FOURIER_NARROW, NX__FOURIER_WIDENED, NX__FOURIER_WIDE, NX__FOURIER_KINDS };
typedef struct nx__fourier_rows { nx__fourier_fns of[NX__FOURIER_KINDS]; } nx__fourier_rows;
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__fourier_rows nx__fourier_rows)

#endif
