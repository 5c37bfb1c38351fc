/* What copy.c knows of numbers and dtypes. */
#ifndef NX_SHAPE_COPY_H
#define NX_SHAPE_COPY_H

#include "iter/iter.h"

bool nx__number_fits(nx_dtype dtype, const nx_value *value); /* whether a dtype has a number, or at least rounds it */
nx_status nx__fail_number(const nx_run *run, nx_dtype dtype); /* the error where it does not */

#endif
