/* packed: operands laid out row by row in one dtype, for kernels that follow indices. */
#ifndef NX_OPS_PACKED_H
#define NX_OPS_PACKED_H

#include "iter/iter.h"

/* `from` row by row in `dtype`, in new memory at *out (of any pointer type): nx_free. NULL there after a failure. */
NX_MUST_USE nx_status nx__packed_new(const nx_array *from, nx_dtype dtype, void *out);

#endif
