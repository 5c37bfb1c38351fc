/* Sizes of what windows give, with the checks of their arguments. */
#include "window/window.h"

static const char *list_text(char *room, const char *between, const int64_t *at, int n) {
    size_t used = 0;
    room[0] = 0;
    for (int k = 0; k < n && used < 200; k++)
        used += (size_t)snprintf(room + used, 256 - used, "%s%lld", k ? between : "", (long long)at[k]);
    return room;
}
#define LIST(at, n) list_text((char[256]){0}, ", ", at, n)
#define CROSS(at, n) list_text((char[256]){0}, " x ", at, n)
#define NARROW_CROSS(at, n) list_text((char[256]){0}, "x", at, n)

/* ---- convolution --------------------------------------------------------------------------------------------------- */
typedef struct space { const int64_t *at; int n; } space;

static nx_status check_list(const char *op, const char *name, space list, int dims, int64_t least, const char *text) {
    if (list.n != 1 && list.n != dims)
        return nx_fail(NX_RUNTIME, "%s: expected %s to be a single integer value or a list of %d values to match the convolution "
                       "dimensions, but got %s=[%s]", op, name, dims, name, LIST(list.at, list.n));
    for (int k = 0; k < list.n; k++) {
        if (list.at[k] < least) return nx_fail(NX_RUNTIME, "%s: %s", op, text);
    }
    return NX_OK;
}

static nx_status check_groups(const char *op, const nx_array *input, const nx_array *weight, const nx_array *bias, bool transposed,
                              int64_t groups) {
    int64_t first = weight->sizes[0], channels = input->sizes[1];
    if (groups <= 0) return nx_fail(NX_RUNTIME, "%s: non-positive groups is not supported", op);
    if (first < groups)
        return nx_fail(NX_RUNTIME, "%s: Given groups=%lld, expected weight to be at least %lld at dimension 0, but got weight of "
                       "size [%s] instead", op, (long long)groups, (long long)groups, LIST(weight->sizes, weight->ndim));
    if (first % groups != 0)
        return nx_fail(NX_RUNTIME, "%s: Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got weight "
                       "of size [[%s]] instead", op, (long long)groups, (long long)groups, LIST(weight->sizes, weight->ndim));
    int64_t wanted = transposed ? first : weight->sizes[1] * groups, made = transposed ? weight->sizes[1] * groups : first;
    if (channels != wanted)
        return nx_fail(NX_RUNTIME, "%s: Given %s=%lld, weight of size [%s], expected input[%s] to have %lld channels, but got "
                       "%lld channels instead", op, transposed ? "transposed=1, groups" : "groups", (long long)groups,
                       LIST(weight->sizes, weight->ndim), LIST(input->sizes, input->ndim), (long long)wanted, (long long)channels);
    if (bias && (bias->ndim != 1 || bias->sizes[0] != made))
        return nx_fail(NX_RUNTIME, "%s: Given %sweight of size [%s], expected bias to be 1-dimensional with %lld elements, but got "
                       "bias of size [%s] instead", op, transposed ? "transposed=1, " : "", LIST(weight->sizes, weight->ndim),
                       (long long)made, LIST(bias->sizes, bias->ndim));
    return NX_OK;
}

static nx_status check_reach(const char *op, const nx_array *input, const nx_array *weight, space padding, space dilation) {
    int64_t padded[NX__SPACE], kernel[NX__SPACE];
    int dims = weight->ndim - 2;
    bool fits = true;
    for (int k = 0; k < dims; k++) {
        padded[k] = input->sizes[k + 2] + 2 * nx__space_at(padding.at, padding.n, k);
        kernel[k] = nx__space_at(dilation.at, dilation.n, k) * (weight->sizes[k + 2] - 1) + 1;
        fits &= kernel[k] <= padded[k];
    }
    return fits ? NX_OK : nx_fail(NX_RUNTIME, "%s: Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size "
                                  "can't be greater than actual input size", op, CROSS(padded, dims), CROSS(kernel, dims));
}

static nx_status check_types(const char *op, const nx_array *input, const nx_array *weight, const nx_array *bias) {
    if (weight->dtype != input->dtype)
        return nx_fail(NX_RUNTIME, "%s: Input type (%s) and weight type (%s) should be the same", op,
                       nx_dtype_name((nx_dtype)input->dtype), nx_dtype_name((nx_dtype)weight->dtype));
    if (bias && bias->dtype != input->dtype)
        return nx_fail(NX_RUNTIME, "%s: Input type (%s) and bias type (%s) should be the same", op,
                       nx_dtype_name((nx_dtype)input->dtype), nx_dtype_name((nx_dtype)bias->dtype));
    return NX_OK;
}

nx_status nx__size_convolution(const char *op, const nx_array *input, const nx_array *weight, const nx_array *bias,
                               const int64_t *stride, int n_stride, const int64_t *padding, int n_padding,
                               const int64_t *dilation, int n_dilation, bool transposed, const int64_t *output_padding,
                               int n_output_padding, int64_t groups, int64_t *out, int *n) {
    int dims = weight->ndim - 2;
    if (dims < 1 || dims > NX__SPACE)
        return nx_fail(NX_RUNTIME, "%s: weight should have at least three dimensions", op);
    if (input->ndim != weight->ndim)
        return nx_fail(NX_RUNTIME, "%s: Expected %d-dimensional input for %d-dimensional weight [%s], but got %d-dimensional input "
                       "of size [%s] instead", op, weight->ndim, weight->ndim, LIST(weight->sizes, weight->ndim), input->ndim,
                       LIST(input->sizes, input->ndim));
    NX_TRY(check_types(op, input, weight, bias));
    NX_TRY(check_list(op, "stride", (space){stride, n_stride}, dims, 1, "non-positive stride is not supported"));
    NX_TRY(check_list(op, "padding", (space){padding, n_padding}, dims, 0, "negative padding is not supported"));
    NX_TRY(check_list(op, "dilation", (space){dilation, n_dilation}, dims, 1, "dilation should be greater than zero"));
    NX_TRY(check_list(op, "output_padding", (space){output_padding, n_output_padding}, dims, 0,
                      "negative output_padding is not supported"));
    NX_TRY(check_groups(op, input, weight, bias, transposed, groups));
    if (!transposed) NX_TRY(check_reach(op, input, weight, (space){padding, n_padding}, (space){dilation, n_dilation}));
    out[0] = input->sizes[0];
    out[1] = transposed ? weight->sizes[1] * groups : weight->sizes[0];
    for (int k = 0; k < dims; k++) {
        int64_t s = nx__space_at(stride, n_stride, k), p = nx__space_at(padding, n_padding, k), d = nx__space_at(dilation, n_dilation, k);
        int64_t more = nx__space_at(output_padding, n_output_padding, k), reach = d * (weight->sizes[k + 2] - 1) + 1;
        if (transposed && more >= s && more >= d)
            return nx_fail(NX_RUNTIME, "%s: output padding must be smaller than either stride or dilation, but got output_padding "
                           "%lld, stride %lld, dilation %lld", op, (long long)more, (long long)s, (long long)d);
        out[k + 2] = transposed ? (input->sizes[k + 2] - 1) * s - 2 * p + reach + more : (input->sizes[k + 2] + 2 * p - reach) / s + 1;
    }
    for (int k = 0; k < dims; k++) {
        if (out[k + 2] < 0 || (transposed && out[k + 2] == 0 && out[0] > 0))
            return nx_fail(NX_RUNTIME, "%s: Given input size per channel: (%s). Calculated output size per channel: (%s). Output "
                           "size is too small", op, CROSS(input->sizes + 2, dims), CROSS(out + 2, dims));
    }
    *n = dims + 2;
    return NX_OK;
}

/* ---- pooling --------------------------------------------------------------------------------------------------------- */
static const char *const counts[] = {"", "one int", "two ints", "three ints"};

static nx_status check_rank(const char *op, const nx_array *input, int dims) {
    bool fits = true;
    if (input->ndim != dims + 1 && input->ndim != dims + 2)
        return nx_fail(NX_RUNTIME, "%s: non-empty %dD or %dD (batch mode) tensor expected for input", op, dims + 1, dims + 2);
    for (int k = input->ndim - dims - 1; fits && k < input->ndim; k++) fits = input->sizes[k] > 0;
    return fits ? NX_OK : nx_fail(NX_RUNTIME, "%s: Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for "
                                  "input, but got: [%s]", op, dims + 1, dims + 2, LIST(input->sizes, input->ndim));
}

static nx_status check_count(const char *op, const char *name, const char *omitted, int n, int dims) {
    return n == 1 || n == dims ? NX_OK : nx_fail(NX_RUNTIME, "%s: %s must either be %sa single int, or a tuple of %s", op, name,
                                                 omitted, counts[dims]);
}

static int64_t pooled(int64_t n, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode) {
    int64_t free = n + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
    int64_t made = (free >= 0 ? free / stride : -((-free + stride - 1) / stride)) + 1;
    return ceil_mode && (made - 1) * stride >= n + padding ? made - 1 : made;
}

nx_status nx__size_pool(const char *op, const nx_array *input, const int64_t *kernel, int n_kernel, const int64_t *stride,
                        int n_stride, const int64_t *padding, int n_padding, const int64_t *dilation, int n_dilation,
                        bool ceil_mode, int64_t dims, int64_t *out, int *n) {
    int d = (int)dims, first = input->ndim - d;
    NX_TRY(check_count(op, "kernel_size", "", n_kernel, d));
    if (n_stride) NX_TRY(check_count(op, "stride", "omitted, ", n_stride, d));
    NX_TRY(check_count(op, "padding", "", n_padding, d));
    NX_TRY(check_count(op, "dilation", "", n_dilation, d));
    NX_TRY(check_rank(op, input, d));
    if (n_stride == 0) stride = kernel, n_stride = n_kernel;
    *n = input->ndim;
    for (int k = 0; k < first; k++) out[k] = input->sizes[k];
    for (int k = 0; k < d; k++) {
        int64_t w = nx__space_at(kernel, n_kernel, k), s = nx__space_at(stride, n_stride, k), p = nx__space_at(padding, n_padding, k);
        int64_t apart = nx__space_at(dilation, n_dilation, k);
        if (w <= 0) return nx_fail(NX_RUNTIME, "%s: kernel size should be greater than zero, but got %lld", op, (long long)w);
        if (s == 0) return nx_fail(NX_RUNTIME, "%s: stride should not be zero", op);
        if (s < 0) return nx_fail(NX_RUNTIME, "%s: stride should be greater than zero, but got %lld", op, (long long)s);
        if (apart <= 0) return nx_fail(NX_RUNTIME, "%s: dilation should be greater than zero, but got %lld", op, (long long)apart);
        if (p < 0) return nx_fail(NX_RUNTIME, "%s: pad must be non-negative, but got pad: %lld", op, (long long)p);
        if (p > ((w - 1) * apart + 1) / 2)
            return nx_fail(NX_RUNTIME, "%s: pad should be at most half of effective kernel size, but got pad=%lld, kernel_size=%lld "
                           "and dilation=%lld", op, (long long)p, (long long)w, (long long)apart);
        out[first + k] = pooled(input->sizes[first + k], w, s, p, apart, ceil_mode);
    }
    for (int k = 0; k < d; k++) {
        if (out[first + k] < 1)
            return nx_fail(NX_RUNTIME, "%s: Given input size: (%s). Calculated output size: (%s). Output size is too small", op,
                           NARROW_CROSS(input->sizes + first - 1, d + 1), NARROW_CROSS(out + first - 1, d + 1));
    }
    return NX_OK;
}

nx_status nx__size_last(const char *op, const nx_array *input, const int64_t *size, int n_size, int64_t dims, int64_t *out, int *n) {
    int d = (int)dims, first = input->ndim - d;
    if (n_size != d && n_size != 1)
        return nx_fail(NX_RUNTIME, "%s: output_size must be %lld numbers", op, (long long)dims);
    if (input->ndim != d + 1 && input->ndim != d + 2)
        return nx_fail(NX_RUNTIME, "%s: Expected %dD or %dD tensor, but got [%s]", op, d + 1, d + 2, LIST(input->sizes, input->ndim));
    *n = input->ndim;
    for (int k = 0; k < input->ndim; k++) {
        out[k] = k < first ? input->sizes[k] : nx__space_at(size, n_size, k - first);
        if (k > 0 && k >= first - 1 && input->sizes[k] == 0)
            return nx_fail(NX_RUNTIME, "%s: Expected input to have non-zero size for non-batch dimensions, but input has sizes [%s] "
                           "with dimension %d being empty", op, LIST(input->sizes, input->ndim), k);
        if (out[k] < 0)
            return nx_fail(NX_RUNTIME, "%s: elements of output_size must be greater than or equal to 0 but received [%s]", op,
                           LIST(size, n_size));
    }
    return NX_OK;
}

/* ---- windows as columns ------------------------------------------------------------------------------------------------ */
/* How many windows there are in each direction. */
static nx_status count_windows(const char *op, const int64_t *size, const int64_t *kernel, int n_kernel, const int64_t *dilation,
                               int n_dilation, const int64_t *padding, int n_padding, const int64_t *stride, int n_stride,
                               int64_t *windows) {
    for (int d = 0; d < 2; d++) {
        int64_t w = nx__space_at(kernel, n_kernel, d), apart = nx__space_at(dilation, n_dilation, d);
        int64_t p = nx__space_at(padding, n_padding, d), s = nx__space_at(stride, n_stride, d);
        if (w <= 0) return nx_fail(NX_RUNTIME, "%s: kernel size should be greater than zero, but got %lld", op, (long long)w);
        if (apart <= 0) return nx_fail(NX_RUNTIME, "%s: dilation should be greater than zero, but got %lld", op, (long long)apart);
        if (p < 0) return nx_fail(NX_RUNTIME, "%s: padding should be non-negative, but got %lld", op, (long long)p);
        if (s <= 0) return nx_fail(NX_RUNTIME, "%s: stride should be greater than zero, but got %lld", op, (long long)s);
        windows[d] = pooled(size[d], w, s, p, apart, false);
    }
    if (windows[0] < 1 || windows[1] < 1)
        return nx_fail(NX_RUNTIME, "%s: Given input with spatial size (%lld, %lld), calculated shape of the array of sliding blocks as "
                       "(%lld, %lld), but its components must be at least one.", op, (long long)size[0], (long long)size[1],
                       (long long)windows[0], (long long)windows[1]);
    return NX_OK;
}

nx_status nx__size_columns(const char *op, const nx_array *input, const int64_t *kernel, int n_kernel, const int64_t *dilation,
                           int n_dilation, const int64_t *padding, int n_padding, const int64_t *stride, int n_stride, int64_t *out,
                           int *n) {
    int64_t windows[2];
    if (input->ndim != 3 && input->ndim != 4)
        return nx_fail(NX_RUNTIME, "%s: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
                       "for input, but got: [%s]", op, LIST(input->sizes, input->ndim));
    NX_TRY(count_windows(op, input->sizes + input->ndim - 2, kernel, n_kernel, dilation, n_dilation, padding, n_padding, stride,
                         n_stride, windows));
    *n = input->ndim - 1;
    out[0] = input->sizes[0];
    out[*n - 2] = input->sizes[input->ndim - 3] * nx__space_at(kernel, n_kernel, 0) * nx__space_at(kernel, n_kernel, 1);
    out[*n - 1] = windows[0] * windows[1];
    return NX_OK;
}

nx_status nx__size_image(const char *op, const nx_array *input, const int64_t *size, int n_size, const int64_t *kernel, int n_kernel,
                         const int64_t *dilation, int n_dilation, const int64_t *padding, int n_padding, const int64_t *stride,
                         int n_stride, int64_t *out, int *n) {
    int64_t windows[2], places[2] = {nx__space_at(size, n_size, 0), nx__space_at(size, n_size, 1)};
    if (input->ndim != 2 && input->ndim != 3)
        return nx_fail(NX_RUNTIME, "%s: Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
                       "dimensions for input, but got: [%s]", op, LIST(input->sizes, input->ndim));
    NX_TRY(count_windows(op, places, kernel, n_kernel, dilation, n_dilation, padding, n_padding, stride, n_stride, windows));
    int64_t taps = nx__space_at(kernel, n_kernel, 0) * nx__space_at(kernel, n_kernel, 1), rows = input->sizes[input->ndim - 2];
    if (rows % taps != 0)
        return nx_fail(NX_RUNTIME, "%s: Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
                       "input.size(1)=%lld and kernel_size=(%s).", op, (long long)rows, LIST(kernel, n_kernel));
    if (windows[0] * windows[1] != input->sizes[input->ndim - 1])
        return nx_fail(NX_RUNTIME, "%s: Given output_size=(%s), kernel_size=(%s), dilation=(%s), padding=(%s), stride=(%s), expected "
                       "size of input's dimension 2 to match the calculated number of sliding blocks %lld * %lld = %lld, but got "
                       "input.size(2)=%lld.", op, LIST(size, n_size), LIST(kernel, n_kernel), LIST(dilation, n_dilation),
                       LIST(padding, n_padding), LIST(stride, n_stride), (long long)windows[0], (long long)windows[1],
                       (long long)(windows[0] * windows[1]), (long long)input->sizes[input->ndim - 1]);
    *n = input->ndim + 1;
    out[0] = input->sizes[0];
    out[*n - 3] = rows / taps;
    out[*n - 2] = places[0];
    out[*n - 1] = places[1];
    return NX_OK;
}
