/* What copy.c knows of numbers and dtypes, and its neighbours use. */
#ifndef NX_SHAPE_COPY_H
#define NX_SHAPE_COPY_H

#include "iter/iter.h"

bool nx__number_fits(nx_dtype dtype, const nx_value *value); /* whether a dtype has a number, or at least rounds it */
nx_status nx__fail_number(const nx_run *run, nx_dtype dtype); /* the error where it does not */

static inline int64_t nx__within(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

#endif
