/* kernel, inside: what convolutions do over and over, at each instruction-set level (taps.c). */
#ifndef NX_KERNEL_TAPS_H
#define NX_KERNEL_TAPS_H

#include "kernel/kernel.h"

/* Numbers side by side: column `to` of a panel and the next ones come from `from` on. */
typedef struct nx__stretch { int64_t from, to, n; } nx__stretch;
enum { NX__TAPS_SLACK = 64 }; /* numbers behind the last one of planes and panels that may be read, and of panels written */

/* A channel that is read alone and what is made of it: height and width of each. Rows follow each other. Numbers of other
 * channels, up to NX__TAPS_SLACK before and behind it, are read with it and count for nothing. */
typedef struct nx__channel {
    int64_t from[2], made[2], kernel[2], stride[2], dilation[2], padding[2];
} nx__channel;
enum { NX__CHANNEL_WIDTH = 32, NX__CHANNEL_PADDING = 32 }; /* the widest kernel and padding; strides along a row are 1 or 2 */
static inline bool nx__channel_weighs(int64_t width) { return width == 3 || width == 5 || width == 7; }

typedef struct nx__taps {
    /* Packs k rows of a panel: row i are the stretches from from + places[i] on, in order of their columns. From `end` on
     * nothing is read. Columns that no stretch fills hold anything. */
    void (*pack)(float *to, const float *from, const float *end, const int64_t *places, int64_t k, const nx__stretch *stretches,
                 int n);
    /* to[j] = start + the sum of weights[i] * from[places[i] + j], for n of them. */
    void (*sums)(float *to, const float *from, int64_t n, const int64_t *places, const float *weights, int64_t k, float start);
    /* A channel's result: sums of products in order of taps, then start. `room` numbers from `to` on may be written, the
     * result's and those of results that are made later. */
    void (*channel)(const nx__channel *c, float *to, int64_t room, const float *from, const float *weights, float start);
    /* to[k] += the sum over all places of what tap k reads there times the gradient g, for kernels that are 3, 5 or 7 wide. Of g as many
     * numbers behind it are read as of the channel. */
    void (*weigh_channel)(const nx__channel *c, float *to, const float *from, const float *g);
    /* A row with a stride of 2 along it: to[2 a] = the sum over `count` rows and even taps k of weights[r][k] * rows[r][a - k / 2], plus
     * start; to[2 a + 1] the same of odd taps; for each a below n, a multiple of 16. */
    void (*spread_row)(float *to, const float *const *rows, const float *const *weights, int64_t count, int64_t width, int64_t n,
                       float start);
    /* to[i] += the sum of g[r * g_step + j] * from[places[i] + r * from_step + j] over `rows` rows of n. Where n is less than a vector
     * has, one is read of `from`. */
    void (*dots)(float *to, const float *g, int64_t g_step, const float *from, int64_t from_step, int64_t rows, int64_t n,
                 const int64_t *places, int64_t k);
    /* winograd.c. Of n kernels of 3 x 3, from_step apart, number p of the 36 that each becomes goes to to[p * to_step + i];
     * `back`: of kernels turned round. */
    void (*winograd_weights)(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t n, bool back);
    /* A panel's windows, 36 x columns, become 36 rows of columns, to_step apart; of them n columns are filled. */
    void (*winograd_windows)(float *to, int64_t to_step, const float *windows, int64_t n);
    /* A panel's 36 rows of sums of n columns, from_step apart, become the four rows of 4 x columns results, plus bias. */
    void (*winograd_results)(float *lines, const float *sums, int64_t from_step, float bias, int64_t n);
    /* For the derivative to the weights: a panel's 4 x 4 gradients, 16 x columns, become 36 rows, to_step apart; of n kernels
     * the 36 sums each, from_step apart, become 9 numbers side by side. */
    void (*winograd_gradients)(float *to, int64_t to_step, const float *gradients);
    void (*winograd_kernels)(float *to, const float *sums, int64_t from_step, int64_t n);
} nx__taps;
const nx__taps *nx__taps_get(void); /* those of the level in use */

#endif
