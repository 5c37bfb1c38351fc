/* resample: tables of one dimension, which say what of the input a place of the result is made of. resample.c makes them and
 * resamples numbers by them, resample_bytes.c bytes. */
#ifndef NX_RESAMPLE_H
#define NX_RESAMPLE_H

#include "window/window.h"

typedef enum nx__resample_kind {
    NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LINEAR_SMOOTH, CUBIC_SMOOTH, LANCZOS_SMOOTH
} nx__resample_kind;

typedef struct nx__resample_axis {
    int64_t in, out, most; /* taps of a place at most */
    int64_t *places;       /* out x most; owned, with what follows */
    double *weights;
    int64_t *taps; /* of each place */
} nx__resample_axis;

#define EACH_TAP(a, at, k) for (int64_t k = (at) * (a)->most; k < (at) * (a)->most + (a)->taps[at]; k++)

/* Fills the tables of an axis whose `in` and `out` are set; `given`: the scale that was asked for, or 0. nx_free(places) ends it. */
NX_MUST_USE nx_status nx__resample_plan(nx__resample_kind kind, nx__resample_axis *a, bool align, double given, bool is_double);

/* Images of bytes, as PyTorch does: along rows and then along columns, with a byte in between, by weights that are integers. */
NX_MUST_USE nx_status nx__resample_bytes(nx__resample_kind kind, bool align, double scale_h, double scale_w, const nx_array *self,
                                         nx_array *out);

#endif
