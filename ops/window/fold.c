/* Kernels of fold.op: windows as columns of a matrix, one for each image, and back. Rows of the columns, a channel and a place
 * of the kernel, are independent, as channels of the image are: they are split over threads. */
#include "gen/kernels.h"
#include "window/window.h"

typedef struct columns {
    int64_t images, channels, size[2], windows[2], kernel[2], dilation[2], padding[2], stride[2];
    nx_dtype computing; /* float32, float64 or complex128 */
    void *image, *columns;
} columns;

#define DEFINE_WALK(name, type)                                                                                             \
    static void walk_##name(const columns *c, bool back, int64_t plane) {                                                   \
        type *image = (type *)c->image + plane * c->size[0] * c->size[1];                                                   \
        type *at = (type *)c->columns + plane * c->kernel[0] * c->kernel[1] * c->windows[0] * c->windows[1];                \
        if (back) memset(image, 0, sizeof(type) * (size_t)(c->size[0] * c->size[1]));                                       \
        for (int64_t tap = 0; tap < c->kernel[0] * c->kernel[1]; tap++) {                                                   \
            for (int64_t i = 0; i < c->windows[0]; i++) {                                                                   \
                int64_t y = i * c->stride[0] - c->padding[0] + tap / c->kernel[1] * c->dilation[0];                         \
                for (int64_t j = 0; j < c->windows[1]; j++, at++) {                                                         \
                    int64_t x = j * c->stride[1] - c->padding[1] + tap % c->kernel[1] * c->dilation[1];                     \
                    bool outside = y < 0 || y >= c->size[0] || x < 0 || x >= c->size[1];                                    \
                    if (!back) *at = outside ? 0 : image[y * c->size[1] + x];                                               \
                    else if (!outside) image[y * c->size[1] + x] += *at;                                                    \
                }                                                                                                           \
            }                                                                                                               \
        }                                                                                                                   \
    }
DEFINE_WALK(f32, float)
DEFINE_WALK(f64, double)
DEFINE_WALK(c128, double _Complex)

static void walk(const columns *c, bool back, int64_t plane) {
    if (c->computing == NX_F32) walk_f32(c, back, plane);
    else if (c->computing == NX_F64) walk_f64(c, back, plane);
    else walk_c128(c, back, plane);
}

static nx_status make_columns(void *arg, int64_t begin, int64_t end) {
    const columns *c = arg;
    for (int64_t k = begin; k < end; k++) walk(c, false, k);
    return NX_OK;
}

static nx_status make_image(void *arg, int64_t begin, int64_t end) {
    const columns *c = arg;
    for (int64_t k = begin; k < end; k++) walk(c, true, k);
    return NX_OK;
}

static nx_status run_columns(const nx_array *image, const nx_array *matrix, bool back, const int64_t *kernel, int n_kernel,
                             const int64_t *dilation, int n_dilation, const int64_t *padding, int n_padding, const int64_t *stride,
                             int n_stride) {
    nx_status status = NX_OK;
    columns c = {.images = image->ndim == 4 ? image->sizes[0] : 1, .channels = image->sizes[image->ndim - 3],
                 .computing = nx_is_complex((nx_dtype)image->dtype) ? NX_C128 : image->dtype == NX_F64 ? NX_F64 : NX_F32};
    const nx_array *to = back ? image : matrix;
    nx__laid laid = {0};
    if (to->numel == 0) return NX_OK;
    for (int d = 0; d < 2; d++) {
        c.size[d] = image->sizes[image->ndim - 2 + d];
        c.kernel[d] = nx__space_at(kernel, n_kernel, d);
        c.dilation[d] = nx__space_at(dilation, n_dilation, d);
        c.padding[d] = nx__space_at(padding, n_padding, d);
        c.stride[d] = nx__space_at(stride, n_stride, d);
        c.windows[d] = (c.size[d] + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
    }
    NX_TRY_FAIL(nx__lay(&laid, image, c.computing, !back, &c.image));
    NX_TRY_FAIL(nx__lay(&laid, matrix, c.computing, back, &c.columns));
    int64_t cost = c.kernel[0] * c.kernel[1] * c.windows[0] * c.windows[1] * 8;
    NX_TRY_FAIL(nx_parallel(c.images * c.channels, nx_grain(cost), back ? make_image : make_columns, &c));
    nx__lay_back(&laid, to, back ? c.image : c.columns);
fail:
    nx__lay_end(&laid);
    return status;
}

nx_status nx__columns_of(nx_run *run, const nx_array *self, const int64_t *kernel_size, int n_kernel_size, const int64_t *dilation,
                         int n_dilation, const int64_t *padding, int n_padding, const int64_t *stride, int n_stride, nx_array *out) {
    return run_columns(self, out, false, kernel_size, n_kernel_size, dilation, n_dilation, padding, n_padding, stride, n_stride);
}

nx_status nx__image_of(nx_run *run, const nx_array *self, const int64_t *output_size, int n_output_size, const int64_t *kernel_size,
                       int n_kernel_size, const int64_t *dilation, int n_dilation, const int64_t *padding, int n_padding,
                       const int64_t *stride, int n_stride, nx_array *out) {
    return run_columns(out, self, true, kernel_size, n_kernel_size, dilation, n_dilation, padding, n_padding, stride, n_stride);
}

/* ---- the gradient of a view of windows ------------------------------------------------------------------------------------ */
/* Dimension `dim` has `outer` places before it and `inner` behind it; a window's places lie innermost. */
typedef struct parted {
    const nx_array *from;
    nx_array *to;
    int64_t dim, size, step, outer, inner;
    nx_dtype computing; /* float64, complex128 or int64 */
    const void *at;
    void *sums;
} parted;

static nx_status add_windows(void *arg, int64_t begin, int64_t end) {
    const parted *p = arg;
    int64_t n = p->to->ndim ? p->to->sizes[p->dim] : 1, windows = p->from->ndim > 1 ? p->from->sizes[p->dim] : 1;
    for (int64_t o = begin; o < end; o++) {
        for (int64_t i = 0; i < windows; i++) {
            for (int64_t j = 0; j < p->inner; j++) {
                for (int64_t k = 0; k < p->size; k++) {
                    int64_t to = (o * n + i * p->step + k) * p->inner + j, from = ((o * windows + i) * p->inner + j) * p->size + k;
                    if (p->computing == NX_F64) ((double *)p->sums)[to] += ((const double *)p->at)[from];
                    else if (p->computing == NX_C128)
                        ((double _Complex *)p->sums)[to] += ((const double _Complex *)p->at)[from];
                    else ((uint64_t *)p->sums)[to] += ((const uint64_t *)p->at)[from]; /* wraps */
                }
            }
        }
    }
    return NX_OK;
}

nx_status nx__unfold_back(nx_run *run, const nx_array *grad_in, const int64_t *input_sizes, int n_input_sizes, int64_t dim, int64_t size,
                          int64_t step, nx_array *out) {
    nx_status status = NX_OK;
    nx_tensor *from = NULL, *sums = NULL;
    nx_dtype own = (nx_dtype)out->dtype, computing = nx_is_complex(own) ? NX_C128 : nx_is_float(own) ? NX_F64 : NX_I64;
    parted p = {.from = grad_in, .to = out, .dim = dim, .size = size, .step = step, .computing = computing, .outer = 1, .inner = 1};
    if (out->numel == 0) return NX_OK;
    for (int d = 0; d < out->ndim; d++) {
        if (d < dim) p.outer *= out->sizes[d];
        if (d > dim) p.inner *= out->sizes[d];
    }
    NX_TRY_FAIL(nx_tensor_new(computing, out->ndim, out->sizes, NX_CPU, &sums));
    memset(nx_arr(sums)->data, 0, nx_dtype_bytes(computing) * (size_t)out->numel);
    NX_TRY_FAIL(nx_tensor_new(computing, grad_in->ndim, grad_in->sizes, NX_CPU, &from));
    nx_copy_cast(nx_arr(from), grad_in);
    p.at = nx_arr(from)->data;
    p.sums = nx_arr(sums)->data;
    if (grad_in->numel) NX_TRY_FAIL(nx_parallel(p.outer, nx_grain(grad_in->numel / p.outer * 16), add_windows, &p));
    nx_copy_cast(out, nx_arr(sums));
fail:
    nx_tensor_unref(from);
    nx_tensor_unref(sums);
    return status;
}
