/* Samples of images, see grid_rows.h. Compiled once a level with NX_LEVEL_NAME set: what is worked out of a place is worked out
 * of all places of a block side by side. */
#include "window/grid_rows.h"

#include <string.h>

enum { TOGETHER = NX__GRID_TOGETHER, MOST_TAPS = 4, MOST_CORNERS = 16 };
enum { ZEROS = NX__GRID_ZEROS, REFLECTED = NX__GRID_REFLECTED };

#define real float
#define whole int32_t
#include "window/grid_real.h"
#undef real
#undef whole
#define real double
#define whole int64_t
#include "window/grid_real.h"
#undef real
#undef whole

const nx__grid_rows NX_AT_LEVEL(nx__grid_rows) = {{sample_float, sample_double}, {spread_float, spread_double},
                                                         {spread_twice_float, spread_twice_double}};
