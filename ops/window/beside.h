/* Convolutions of float32 whose channels lie side by side: both sides as images, space, channels; the weight as nx_windows
 * has it. Two kinds, each where its numbers lie: windows of one place, whose sums are products of matrices, and groups of one
 * channel, whose sums are of vectors of channels (beside_rows.c). The same bits on any number of threads. */
#ifndef NX_WINDOW_BESIDE_H
#define NX_WINDOW_BESIDE_H

#include "window/window.h"

bool nx__beside_suits(const nx_windows *w);
/* As nx_convolve_gather, nx_convolve_spread and nx_convolve_weigh; the tail's `other` lies as the small side. */
NX_MUST_USE nx_status nx__beside_gather(const nx_windows *w, const float *big, const float *weight, const float *bias,
                                        const nx_tail *tail, float *small);
NX_MUST_USE nx_status nx__beside_spread(const nx_windows *w, const float *small, const float *weight, const float *bias,
                                        float *big);
NX_MUST_USE nx_status nx__beside_weigh(const nx_windows *w, const float *big, const float *small, float *weight);

/* ---- beside_rows.c, at each instruction-set level --------------------------------------------------------------------- */
enum { NX__BESIDE_LEAST = 16, NX__BESIDE_TAPS = 128 }; /* channels at least, and taps at most */
/* Places of one row that meet the same taps: tap i of the first one reads, or adds to, from + places[i] and rows[i]. */
typedef struct nx__beside_run {
    int64_t n, to_step, from_step; /* places, and from one to the next */
    int64_t n_taps, places[NX__BESIDE_TAPS];
    float *rows[NX__BESIDE_TAPS];
} nx__beside_run;
typedef struct nx__beside_rows {
    /* Each place's channels: the sums, in order of taps, of what is read times the tap's row; plus `start`, NULL: 0. */
    void (*sums)(const nx__beside_run *r, float *to, const float *from, const float *start, int64_t channels);
    /* To each tap's row: the sums over the places of what is read times g, which lies as `to` does above. */
    void (*dots)(const nx__beside_run *r, const float *g, const float *from, int64_t channels);
} nx__beside_rows;
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__beside_rows nx__beside_rows)

#endif
