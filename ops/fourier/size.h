/* Lists of sizes and dimensions that the rules of fourier.op ask for: nx__size_NAME is size_NAME there. Failures begin with
 * `op`. An argument that is not given has no elements. */
#ifndef NX_FOURIER_SIZE_H
#define NX_FOURIER_SIZE_H

#include "dispatch/dispatch.h"

/* The number that stands for a mode of `norm`: 0, 1 or 2, see scale_of() in fourier.c. */
NX_MUST_USE nx_status nx__size_mode(const char *op, const nx_value *norm, bool forward, int64_t *out, int *n);
/* The dimensions that are transformed: those given, or as many last ones as there are sizes, or all. */
NX_MUST_USE nx_status nx__size_axes(const char *op, const nx_array *self, nx_value s, nx_value dim, int64_t *out, int *n);
/* self's sizes with those of `s` at `axes`; `half`: the last of them is that of a real result whose first half self is. */
NX_MUST_USE nx_status nx__size_points(const char *op, const nx_array *self, nx_value s, const int64_t *axes, int n_axes,
                                      bool half, int64_t *out, int *n);
/* The dimensions from the one that varies slowest in memory to the one that varies fastest: those that are not transformed as
 * they lie in `self`, then those that are; `last` is the very last. With `twice`, all but the last are transformed first. */
NX_MUST_USE nx_status nx__size_order(const char *op, const nx_array *self, const int64_t *dim, int n_dim, bool last, bool twice,
                                     int64_t *out, int *n);

#endif
