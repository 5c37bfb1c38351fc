/* window: operators that see a tensor through a window of `kernel` places, at every `stride`, over the last one to three
 * dimensions. Shape rules call the size functions (size.c); the kernels read the same structure. */
#ifndef NX_WINDOW_H
#define NX_WINDOW_H

#include "iter/iter.h"
#include "kernel/kernel.h"
#include "shared/lay.h"

/* Three dimensions of space; those that a tensor does not have come first, with size and kernel 1. */
enum { NX__SPACE = 3 };

/* A list of numbers, of which a single one stands for all: number `k` of `dims`; 0 where a list of another length has none. */
static inline int64_t nx__space_at(const int64_t *list, int n, int k) { return n == 1 ? list[0] : k < n ? list[k] : 0; }

/* How many windows lie in a row of n; below 1: none fits. */
int64_t nx__pooled(int64_t n, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode);

/* ---- shape rules: each fills `out` and *n, or fails in the name of `op` --------------------------------------------- */
NX_MUST_USE nx_status nx__size_convolution(const char *op, const nx_array *input, const nx_array *weight, const nx_array *bias,
                                           const int64_t *stride, int n_stride, const int64_t *padding, int n_padding,
                                           const int64_t *dilation, int n_dilation, bool transposed,
                                           const int64_t *output_padding, int n_output_padding, int64_t groups, int64_t *out,
                                           int *n);
/* Of pooling over the last `dims` dimensions; an empty stride is the kernel's size. */
NX_MUST_USE nx_status nx__size_pool(const char *op, const nx_array *input, const int64_t *kernel, int n_kernel,
                                    const int64_t *stride, int n_stride, const int64_t *padding, int n_padding,
                                    const int64_t *dilation, int n_dilation, bool ceil_mode, int64_t dims, int64_t *out, int *n);
/* The last dimensions become `size`; what is pooled has no empty dimension but the first. */
NX_MUST_USE nx_status nx__size_last(const char *op, const nx_array *input, const int64_t *size, int n_size, int64_t dims,
                                    int64_t *out, int *n);
/* The same for what is resampled, which has no size 0 before or after, but for the batch's. */
NX_MUST_USE nx_status nx__size_resampled(const char *op, const nx_array *input, const int64_t *size, int n_size, int64_t dims,
                                         int64_t *out, int *n);
/* With `padding` around the last `dims` dimensions, which mirrors them or not. */
NX_MUST_USE nx_status nx__size_edges(const char *op, const nx_array *input, const int64_t *padding, int n_padding, int64_t dims,
                                     int64_t reflects, int64_t *out, int *n);
/* Of the windows of images as columns, and of the images that such columns are of. */
NX_MUST_USE nx_status nx__size_columns(const char *op, const nx_array *input, const int64_t *kernel, int n_kernel,
                                       const int64_t *dilation, int n_dilation, const int64_t *padding, int n_padding,
                                       const int64_t *stride, int n_stride, int64_t *out, int *n);
NX_MUST_USE nx_status nx__size_image(const char *op, const nx_array *input, const int64_t *size, int n_size, const int64_t *kernel,
                                     int n_kernel, const int64_t *dilation, int n_dilation, const int64_t *padding, int n_padding,
                                     const int64_t *stride, int n_stride, int64_t *out, int *n);

#endif
