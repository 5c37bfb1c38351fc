/* Stages of Fourier transforms, see fourier_rows.h. Compiled once a level with NX_LEVEL_NAME set. A stage of radix r reads
 * r parts of its input and writes them where the next one wants them, so that no reordering follows: element
 * q + s (p + m k) goes to q + s (r p + j), s being the product of the radices before and m what remains. */
#include "fourier_rows.h"

#define real float
#include "fourier_real.h"
#undef real
#define real double
#include "fourier_real.h"
#undef real

const nx__fourier_rows NX_AT_LEVEL(nx__fourier_rows) = {transform_of_float, transform_of_double};
