/* kernel, inside: what convolutions do over and over, at each instruction-set level (taps.c). */
#ifndef NX_KERNEL_TAPS_H
#define NX_KERNEL_TAPS_H

#include "kernel/kernel.h"

/* Numbers side by side: column `to` of a panel and the next ones come from `from` on. */
typedef struct nx__stretch { int64_t from, to, n; } nx__stretch;
enum { NX__TAPS_SLACK = 64 }; /* numbers behind the last one of planes and panels that may be read, and of panels written */

typedef struct nx__taps {
    /* Packs k rows of a panel: row i are the stretches from from + places[i] on, in order of their columns. From `end` on
     * nothing is read. Columns that no stretch fills hold anything. */
    void (*pack)(float *to, const float *from, const float *end, const int64_t *places, int64_t k, const nx__stretch *stretches,
                 int n);
    /* to[j] = start + the sum of weights[i] * from[places[i] + j], for n of them. */
    void (*sums)(float *to, const float *from, int64_t n, const int64_t *places, const float *weights, int64_t k, float start);
    /* to[i] += the sum of g[j] * from[places[i] + j] over n of them. */
    void (*dots)(float *to, const float *g, const float *from, int64_t n, const int64_t *places, int64_t k);
} nx__taps;
const nx__taps *nx__taps_get(void); /* those of the level in use */

#endif
