/* Samples of a few places of an image at a time, at each instruction-set level: grid_rows.c. A grid holds places between -1 and
 * 1, the last dimension of the image first. Along each dimension a place becomes a few taps with weights, and their derivatives
 * by the grid's number; a corner is a tap of each dimension. */
#ifndef NX_GRID_ROWS_H
#define NX_GRID_ROWS_H

#include "window/window.h"

enum { NX__GRID_LINEAR, NX__GRID_CLOSEST, NX__GRID_CUBIC };
enum { NX__GRID_ZEROS, NX__GRID_BORDER, NX__GRID_REFLECTED };
enum { NX__GRID_TOGETHER = 64 }; /* places of an image whose corners are found before the channels are gone through */

/* Images and results row by row, of one type. `spread`: from the gradient g to those of image and grid, which may be NULL;
 * `spread_twice`: from the gradients of these, g_image and g_grid, to those of g, which is `out`, of image and grid. */
typedef struct nx__sampling {
    int dims, mode, padding;
    bool align;
    int64_t channels, in[NX__SPACE], places, volume; /* places: of the result; volume: of the image, in float below 2^31 */
    const void *image, *grid, *g, *g_image, *g_grid;
    void *out, *to_image, *to_grid;
} nx__sampling;

/* n places, at most NX__GRID_TOGETHER, of image number `image` from number `place` on. The gradient of the image is added. */
typedef void nx__sample_fn(const nx__sampling *s, int64_t image, int64_t place, int64_t n);
typedef struct nx__grid_rows { nx__sample_fn *sample[2], *spread[2], *spread_twice[2]; /* of float, of double */ } nx__grid_rows;
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__grid_rows nx__grid_rows)

#endif
