/* What the rules of strided.op ask for: nx__size_NAME is size_NAME there. Failures have PyTorch's texts. */
#ifndef NX_SHAPE_STRIDED_H
#define NX_SHAPE_STRIDED_H

#include "dispatch/dispatch.h"

/* How many elements the view begins behind self's first one; an error when it leaves self's storage. */
NX_MUST_USE nx_status nx__size_strided(const char *op, const nx_array *self, const int64_t *size, int n_size,
                                       const int64_t *stride, int n_stride, const nx_value *storage_offset, int64_t *out, int *n);
/* 1: some place may be shown twice, 0: surely none is. */
NX_MUST_USE nx_status nx__size_repeats(const char *op, const int64_t *size, int n_size, const int64_t *stride, int n_stride,
                                       int64_t *out, int *n);

#endif
