/* shared: operands and results that do not lie as a kernel wants them (lay.c). */
#ifndef NX_SHARED_LAY_H
#define NX_SHARED_LAY_H

#include "iter/iter.h"

/* The copies that were made: as many as one call asks for at most. Empty: {0}. */
typedef struct nx__laid { nx_tensor *owned[8]; int n; } nx__laid;
/* *out (of any pointer type): the elements of `a` row by row as `dtype`, there or in a copy, which has them only where it
 * `reads`. NULL: NULL. */
NX_MUST_USE nx_status nx__lay(nx__laid *laid, const nx_array *a, nx_dtype dtype, bool reads, void *out);
/* The same unless it is wanted as it lies. */
NX_MUST_USE nx_status nx__lay_unless(bool as_it_lies, nx__laid *laid, const nx_array *a, nx_dtype dtype, bool reads, void *out);
/* What was made at `at`, which nx__lay gave for `to`, goes there if it is not there. `to` may be NULL. */
void nx__lay_back(const nx__laid *laid, const nx_array *to, const void *at);
void nx__lay_end(nx__laid *laid);
/* `turned` (whose dimensions `dims` holds, twice NX_MAX_DIMS): the same elements with the channels as the last dimension. */
void nx__turn_channels(const nx_array *a, nx_array *turned, int64_t *dims);
/* Whether channels lie side by side, beside others; `turned` lies row by row then. */
bool nx__lies_by_channels(const nx_array *a, nx_array *turned, int64_t *dims);

#endif
