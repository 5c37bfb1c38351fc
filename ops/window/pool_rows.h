/* Pooling of one plane whose windows lie at one distance from each other, at each instruction-set level: pool_rows.c. */
#ifndef NX_POOL_ROWS_H
#define NX_POOL_ROWS_H

#include "window/window.h"

/* The windows along one dimension: places low, low + step .. below high; `count` is what an average counts. Where `width` is
 * not 0, window i is the places i stride - padding + k step, k < width, that there are. */
typedef struct nx__pool_axis {
    int64_t in, out, step, width, stride, padding;
    int64_t *low, *high, *count;
} nx__pool_axis;

#define NX__POOL_ROWS(type)                                                                                               \
    struct {                                                                                                              \
        /* The largest number of each window, and its place in the plane: the first of them; NaN is larger than all. */   \
        void (*max)(const nx__pool_axis axes[NX__SPACE], const type *from, type *to, int64_t *made);                      \
        /* The sum over `divisor`, or over the counts of the axes' windows if it is 0. */                                 \
        void (*average)(const nx__pool_axis axes[NX__SPACE], int64_t divisor, const type *from, type *to);                \
        /* The same of an image whose channels lie side by side, of one row of windows: of all dimensions but the last. */         \
        void (*max_lanes)(const nx__pool_axis axes[NX__SPACE], int64_t row, int64_t channels, const type *from, type *to,  \
                          int64_t *made);                                                                                 \
        void (*average_lanes)(const nx__pool_axis axes[NX__SPACE], int64_t divisor, int64_t row, int64_t channels,         \
                              const type *from, type *to);                                                                \
        /* to[in] = what each place gets of from[out]. */                                                                 \
        void (*average_back)(const nx__pool_axis axes[NX__SPACE], int64_t divisor, const type *from, type *to);           \
    }
/* Axes have widths; a plane has fewer than 2^31 places. */
typedef struct nx__pool_rows {
    NX__POOL_ROWS(float) of_float;
    NX__POOL_ROWS(double) of_double;
} nx__pool_rows;
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__pool_rows nx__pool_rows)

#endif
