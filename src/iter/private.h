/* Shared by the files of src/iter alone. */
#ifndef NX_ITER_PRIVATE_H
#define NX_ITER_PRIVATE_H

#include "iter/iter.h"

enum { NX__SPLIT = 32768 }; /* elements worth a thread */

/* As nx_walk_run, in pieces of the outermost dimension on several threads. `inner` may run on any of them. */
void nx__walk_spread(const nx_walk *walk, nx_walk_fn *inner, void *arg);
/* One Python number as an element of `dtype`; `to` has room for 8 bytes. */
void nx__number_store(nx_dtype dtype, const nx_value *number, char *to);

#endif
