/* The extreme element of rows and where it is, at each instruction-set level: best_rows.c. The first of equal ones; NaN is
 * larger, or smaller, than all. */
#ifndef NX_BEST_ROWS_H
#define NX_BEST_ROWS_H

#include "kernel/kernel.h"

enum { NX__BEST_COLUMNS = 64 }; /* rows side by side */

#define NX__BEST_ROWS(real, place)                                                                                  \
    struct {                                                                                                        \
        /* Of a row of n elements; where it is. 0 < n, of floats below 2^31. */                                     \
        int64_t (*row)(const real *x, int64_t n, bool least);                                                       \
        /* Elements begin .. end of `width` rows that lie side by side, the first of which stand at x, the next     \
         * `step` further: into best and at, which hold what was found in front of `begin`, unless that is 0. */    \
        void (*columns)(const real *x, int64_t step, int64_t begin, int64_t end, int width, bool least, real *best, \
                        place *at);                                                                                 \
    }
typedef struct nx__best_rows {
    NX__BEST_ROWS(float, int32_t) of_float;
    NX__BEST_ROWS(double, int64_t) of_double;
    NX__BEST_ROWS(int64_t, int64_t) of_int64_t;
} nx__best_rows;
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__best_rows nx__best_rows)

#endif
