/* Sizes of what windows give, with the checks of their arguments. */
#include "window/window.h"

#include <limits.h>

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

typedef struct space { const int64_t *at; int n; } space;
static const char *const axes[] = {"T", "H", "W"}, *const sides[] = {"_depth", "_height", "_width"};

/* Of so many dimensions, the last ones. */
static const char *const *last_of(const char *const *names, int dims) {
    return names + NX__SPACE - dims;
}

/* "kH: 3 kW: 2" */
static const char *named(char *room, const char *what, const char *const *names, const char *between, space list, int dims) {
    size_t used = 0;
    for (int k = 0; k < dims; k++)
        used += (size_t)snprintf(room + used, 256 - used, "%s%s%s: %lld", k ? between : "", what, names[k],
                                 (long long)nx__space_at(list.at, list.n, k));
    return room;
}
#define NAMED(what, names, list, dims) named((char[256]){0}, what, names, " ", list, dims)
#define COMMAS(what, names, list, dims) named((char[256]){0}, what, names, ", ", list, dims)
#define SIDES(what, list, dims) NAMED(what, last_of(sides, dims), list, dims)

/* ---- convolution --------------------------------------------------------------------------------------------------- */

static nx_status check_list(const char *op, const char *name, space list, int dims, int64_t least, const char *text) {
    if (list.n != 1 && list.n != dims)
        return nx_fail(NX_RUNTIME, "%s: expected %s to be a single integer value or a list of %d values to match the convolution "
                       "dimensions, but got %s=[%s]", op, name, dims, name, LIST(list.at, list.n));
    for (int k = 0; k < list.n; k++) {
        if (list.at[k] < least) return nx_fail(NX_RUNTIME, "%s: %s", op, text);
    }
    return NX_OK;
}

static nx_status check_dilation(const char *op, space list, int dims, bool transposed) {
    int64_t all[NX__SPACE];
    bool fits = true;
    for (int k = 0; k < dims; k++) fits &= (all[k] = nx__space_at(list.at, list.n, k)) > 0;
    if (fits) return NX_OK;
    const char *had = COMMAS("dilation", last_of(sides, dims), list, dims);
    return transposed ? nx_fail(NX_RUNTIME, "%s: dilation should be greater than zero, but got %s", op, had)
                      : nx_fail(NX_RUNTIME, "%s: dilation should be greater than zero, but got [%s]", op, LIST(all, dims));
}

/* That there are places, but for no images or none of their channels. */
static nx_status check_places(const char *op, const nx_array *input, const nx_array *weight) {
    int dims = weight->ndim - 2;
    const space kernel = {weight->sizes + 2, dims};
    bool filled = true, any = true;
    for (int k = 0; k < dims; k++) filled &= input->sizes[k + 2] > 0, any &= kernel.at[k] > 0;
    if (!any && dims == 3)
        return nx_fail(NX_RUNTIME, "%s: kernel size should be greater than zero, but got: %s (TxHxW)", op, CROSS(kernel.at, dims));
    if (!any)
        return nx_fail(NX_RUNTIME, "%s: kernel size should be greater than zero, but got %s", op, SIDES("kernel", kernel, dims));
    if (!filled && input->sizes[0] > 0 && input->sizes[1] > 0)
        return nx_fail(NX_RUNTIME, "%s: Only zero batch or zero channel inputs are supported, but got input shape: [%s]", op,
                       LIST(input->sizes, input->ndim));
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
                       "%lld channels instead", op, transposed ? "transposed" : "groups", transposed ? 1LL : (long long)groups,
                       LIST(weight->sizes, weight->ndim), LIST(input->sizes, input->ndim), (long long)wanted, (long long)channels);
    if (bias && (bias->ndim != 1 || bias->sizes[0] != made))
        return nx_fail(NX_RUNTIME, "%s: Given %sweight of size [%s], expected bias to be 1-dimensional with %lld elements, but got "
                       "bias of size [%s] instead", op, transposed ? "transposed=1, " : "", LIST(weight->sizes, weight->ndim),
                       (long long)made, LIST(bias->sizes, bias->ndim));
    return NX_OK;
}

/* How far a kernel reaches; what no number holds is more than any input has. */
static int64_t reach_of(int64_t kernel, int64_t dilation) {
    int64_t steps, reach;
    if (__builtin_mul_overflow(dilation, kernel - 1, &steps) || __builtin_add_overflow(steps, 1, &reach)) return INT64_MAX;
    return reach;
}

static nx_status check_reach(const char *op, const nx_array *input, const nx_array *weight, space padding, space dilation) {
    int64_t padded[NX__SPACE], kernel[NX__SPACE];
    int dims = weight->ndim - 2;
    bool fits = true;
    for (int k = 0; k < dims; k++) {
        padded[k] = input->sizes[k + 2] + 2 * nx__space_at(padding.at, padding.n, k);
        kernel[k] = reach_of(weight->sizes[k + 2], nx__space_at(dilation.at, dilation.n, k));
        fits &= kernel[k] <= padded[k];
    }
    return fits ? NX_OK : nx_fail(NX_RUNTIME, "%s: Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size "
                                  "can't be greater than actual input size", op, CROSS(padded, dims), CROSS(kernel, dims));
}

/* That sizes can be computed: no sum or product of what follows is beyond an int64_t. */
static nx_status check_far(const char *op, const nx_array *input, const nx_array *weight, space stride, space padding, space dilation,
                           space more, bool transposed) {
    const int64_t most = INT64_MAX / 2;
    int dims = weight->ndim - 2;
    for (int k = 0; k < dims; k++) {
        int64_t n = input->sizes[k + 2], s = nx__space_at(stride.at, stride.n, k), p = nx__space_at(padding.at, padding.n, k);
        if (p > most || 2 * p > INT64_MAX - n)
            return nx_fail(NX_RUNTIME, "%s: Given padding=%lld at dimension %d , expected padding to be at most %lld", op, (long long)p,
                           k, (long long)most);
        int64_t reach = reach_of(weight->sizes[k + 2], nx__space_at(dilation.at, dilation.n, k));
        if (transposed && (s > most / 2 / (n + 1) || nx__space_at(more.at, more.n, k) > most / 4 || reach > most / 4))
            return nx_fail(NX_RUNTIME, "%s: integer multiplication overflow", op);
    }
    return NX_OK;
}

static nx_status check_types(const char *op, const nx_array *input, const nx_array *weight, const nx_array *bias) {
    if (bias && bias->dtype != input->dtype)
        return nx_fail(NX_RUNTIME, "%s: Input type (%s) and bias type (%s) should be the same", op,
                       nx_dtype_cpp((nx_dtype)input->dtype), nx_dtype_cpp((nx_dtype)bias->dtype));
    if (weight->dtype != input->dtype)
        return nx_fail(NX_RUNTIME, "%s: expected scalar type %s but found %s", op, nx_dtype_kind((nx_dtype)input->dtype),
                       nx_dtype_kind((nx_dtype)weight->dtype));
    return NX_OK;
}

nx_status nx__size_convolution(const char *op, const nx_array *input, const nx_array *weight, const nx_array *bias,
                               const int64_t *stride, int n_stride, const int64_t *padding, int n_padding,
                               const int64_t *dilation, int n_dilation, bool transposed, const int64_t *output_padding,
                               int n_output_padding, int64_t groups, int64_t *out, int *n) {
    int dims = weight->ndim - 2;
    if (dims < 1 || dims > NX__SPACE)
        return nx_fail(NX_RUNTIME, "%s: weight should have at least three dimensions", op);
    NX_TRY(check_list(op, "stride", (space){stride, n_stride}, dims, 1, "non-positive stride is not supported"));
    NX_TRY(check_list(op, "padding", (space){padding, n_padding}, dims, 0, "negative padding is not supported"));
    NX_TRY(check_list(op, "dilation", (space){dilation, n_dilation}, dims, INT64_MIN, ""));
    NX_TRY(check_dilation(op, (space){dilation, n_dilation}, dims, transposed));
    NX_TRY(check_list(op, "output_padding", (space){output_padding, n_output_padding}, dims, 0,
                      "negative output_padding is not supported"));
    if (input->ndim != weight->ndim)
        return nx_fail(NX_RUNTIME, "%s: Expected %d-dimensional input for %d-dimensional weight [%s], but got %d-dimensional input "
                       "of size [%s] instead", op, weight->ndim, weight->ndim, LIST(weight->sizes, weight->ndim), input->ndim,
                       LIST(input->sizes, input->ndim));
    NX_TRY(check_types(op, input, weight, bias));
    NX_TRY(check_groups(op, input, weight, bias, transposed, groups));
    if (transposed && weight->sizes[1] == 0 && input->sizes[0] > 0 && input->sizes[1] > 0)
        return nx_fail(NX_RUNTIME, "%s: non-empty weight tensor expected, but got: [%s]", op, LIST(weight->sizes, weight->ndim));
    NX_TRY(check_far(op, input, weight, (space){stride, n_stride}, (space){padding, n_padding}, (space){dilation, n_dilation},
                     (space){output_padding, n_output_padding}, transposed));
    if (!transposed) NX_TRY(check_reach(op, input, weight, (space){padding, n_padding}, (space){dilation, n_dilation}));
    NX_TRY(check_places(op, input, weight));
    out[0] = input->sizes[0];
    out[1] = transposed ? weight->sizes[1] * groups : input->sizes[1] == 0 ? 0 : weight->sizes[0]; /* as PyTorch's */
    for (int k = 0; k < dims; k++) {
        int64_t s = nx__space_at(stride, n_stride, k), p = nx__space_at(padding, n_padding, k), d = nx__space_at(dilation, n_dilation, k);
        int64_t more = nx__space_at(output_padding, n_output_padding, k), reach = reach_of(weight->sizes[k + 2], d);
        if (transposed && more >= s && more >= d)
            return nx_fail(NX_RUNTIME, "%s: output padding must be smaller than either stride or dilation, but got %s %s %s", op,
                           SIDES("output_padding", ((space){output_padding, n_output_padding}), dims),
                           SIDES("stride", ((space){stride, n_stride}), dims), SIDES("dilation", ((space){dilation, n_dilation}), dims));
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

static nx_status check_positive(const char *op, const char *name, const char *brief, const char *const *names, space list, int dims) {
    for (int k = 0; k < dims; k++) {
        if (nx__space_at(list.at, list.n, k) <= 0)
            return nx_fail(NX_RUNTIME, "%s: %s should be greater than zero, but got %s", op, name, NAMED(brief, names, list, dims));
    }
    return NX_OK;
}

/* Sizes of windows are C's int in PyTorch; so the sums below cannot overflow. */
static nx_status check_int(const char *op, space list) {
    for (int k = 0; k < list.n; k++) {
        if (list.at[k] < INT_MIN || list.at[k] > INT_MAX)
            return nx_fail(NX_RUNTIME, "%s: value cannot be converted to type int without overflow", op);
    }
    return NX_OK;
}

static nx_status check_rank(const char *op, const nx_array *input, int dims) {
    if (input->ndim != dims + 1 && input->ndim != dims + 2)
        return nx_fail(NX_RUNTIME, "%s: non-empty %dD or %dD (batch mode) tensor expected for input", op, dims + 1, dims + 2);
    return NX_OK;
}

/* Of all dimensions but the batch's. */
static nx_status check_filled(const char *op, const nx_array *input, int dims) {
    bool fits = true;
    for (int k = input->ndim - dims - 1; fits && k < input->ndim; k++) fits = input->sizes[k] > 0;
    if (fits) return NX_OK;
    if (dims == 3)
        return nx_fail(NX_RUNTIME, "%s: Expected input's non-batch dimensions to have positive length, but input has a shape of [%s] "
                       "and non-batch dimension 0 has length zero!", op, LIST(input->sizes, input->ndim));
    return nx_fail(NX_RUNTIME, "%s: Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got:[%s]", op,
                   dims + 1, dims + 2, LIST(input->sizes, input->ndim));
}

static nx_status check_count(const char *op, const char *name, const char *omitted, int n, int dims) {
    return n == 1 || n == dims ? NX_OK : nx_fail(NX_RUNTIME, "%s: %s must either be %sa single int, or a tuple of %s", op, name,
                                                 omitted, counts[dims]);
}

int64_t nx__pooled(int64_t n, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode) {
    int64_t around = 2 * padding + (ceil_mode ? stride - 1 : 0);
    int64_t free = nx_least(n, INT64_MAX - around) + around - dilation * (kernel - 1) - 1; /* n may be any number that was given */
    int64_t made = free / stride - (free % stride < 0) + 1;
    return ceil_mode && (made - 1) * stride >= n + padding ? made - 1 : made;
}

/* What PyTorch checks of one dimension before it looks at the rest. */
static nx_status check_pad(const char *op, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
    if (stride == 0) return nx_fail(NX_RUNTIME, "%s: stride should not be zero", op);
    if (pad < 0) return nx_fail(NX_RUNTIME, "%s: pad must be non-negative, but got pad: %lld", op, (long long)pad);
    if (pad > ((kernel - 1) * dilation + 1) / 2)
        return nx_fail(NX_RUNTIME, "%s: pad should be at most half of effective kernel size, but got pad=%lld, kernel_size=%lld and "
                       "dilation=%lld", op, (long long)pad, (long long)kernel, (long long)dilation);
    return NX_OK;
}

nx_status nx__size_pool(const char *op, const nx_array *input, const int64_t *kernel, int n_kernel, const int64_t *stride,
                        int n_stride, const int64_t *padding, int n_padding, const int64_t *dilation, int n_dilation,
                        bool ceil_mode, int64_t dims, int64_t *out, int *n) {
    int d = (int)dims, first = input->ndim - d;
    NX_TRY(check_count(op, "kernel_size", "", n_kernel, d));
    if (n_stride) NX_TRY(check_count(op, "stride", "omitted, ", n_stride, d));
    NX_TRY(check_count(op, "padding", "", n_padding, d));
    NX_TRY(check_count(op, "dilation", "", n_dilation, d));
    if (n_stride == 0) stride = kernel, n_stride = n_kernel;
    space w = {kernel, n_kernel}, s = {stride, n_stride}, p = {padding, n_padding}, apart = {dilation, n_dilation};
    NX_TRY(check_int(op, w));
    NX_TRY(check_int(op, s));
    NX_TRY(check_int(op, p));
    NX_TRY(check_int(op, apart));
    NX_TRY(check_rank(op, input, d));
    for (int k = 0; k < d; k++)
        NX_TRY(check_pad(op, nx__space_at(kernel, n_kernel, k), nx__space_at(stride, n_stride, k), nx__space_at(padding, n_padding, k),
                         nx__space_at(dilation, n_dilation, k)));
    NX_TRY(check_positive(op, "kernel size", "k", axes + 3 - d, w, d));
    NX_TRY(check_positive(op, "stride", "d", axes + 3 - d, s, d));
    NX_TRY(check_positive(op, "dilation", "dilation", axes + 3 - d, apart, d));
    NX_TRY(check_filled(op, input, d));
    *n = input->ndim;
    for (int k = 0; k < first; k++) out[k] = input->sizes[k];
    for (int k = 0; k < d; k++)
        out[first + k] = nx__pooled(input->sizes[first + k], nx__space_at(kernel, n_kernel, k), nx__space_at(stride, n_stride, k),
                                nx__space_at(padding, n_padding, k), nx__space_at(dilation, n_dilation, k), ceil_mode);
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
        return nx_fail(NX_RUNTIME, "%s: internal error: output_size.size() must be %lld", op, (long long)dims);
    if (input->ndim != d + 1 && input->ndim != d + 2)
        return nx_fail(NX_RUNTIME, "%s: Expected %dD or %dD tensor, but got [%s]", op, d + 1, d + 2, LIST(input->sizes, input->ndim));
    *n = input->ndim;
    for (int k = 0; k < input->ndim; k++) {
        out[k] = k < first ? input->sizes[k] : nx__space_at(size, n_size, k - first);
        if (k > 0 && k >= first - 1 && input->sizes[k] == 0)
            return nx_fail(NX_RUNTIME, "%s: Expected input to have non-zero size for non-batch dimensions, but input has sizes [%s] "
                           "with dimension %d being empty", op, LIST(input->sizes, input->ndim), k);
    }
    for (int k = 0; k < input->ndim; k++) {
        if (out[k] < 0)
            return nx_fail(NX_RUNTIME, "%s: Trying to create tensor with negative dimension %lld: [%s]", op, (long long)out[k],
                           LIST(out, input->ndim));
    }
    return NX_OK;
}

static const char *const lines[] = {"D", "H", "W"};

/* What is resampled to other sizes: no dimension but the batch's may be empty. */
nx_status nx__size_resampled(const char *op, const nx_array *input, const int64_t *size, int n_size, int64_t dims, int64_t *out, int *n) {
    int d = (int)dims;
    if (n_size != d && n_size != 1)
        return nx_fail(NX_RUNTIME, "%s: It is expected output_size equals to %d, but got size %d", op, d, n_size);
    if (input->ndim != d + 2)
        return nx_fail(NX_RUNTIME, "%s: It is expected input_size equals to %d, but got size %d", op, d + 2, input->ndim);
    const space from = {input->sizes + 2, d}, to = {size, n_size};
    bool filled = true;
    for (int k = 0; k < d; k++) filled &= from.at[k] > 0 && nx__space_at(size, n_size, k) > 0;
    if (!filled)
        return nx_fail(NX_RUNTIME, "%s: Input and output sizes should be greater than 0, but got input (%s)%s output (%s)", op,
                       COMMAS("", last_of(lines, d), from, d), d == 1 ? " and" : "", COMMAS("", last_of(lines, d), to, d));
    if (input->sizes[1] == 0)
        return nx_fail(NX_RUNTIME, "%s: Non-empty %dD data tensor expected but got a tensor with sizes [%s]", op, d + 2,
                       LIST(input->sizes, input->ndim));
    *n = d + 2;
    for (int k = 0; k < *n; k++) out[k] = k < 2 ? input->sizes[k] : nx__space_at(size, n_size, k - 2);
    return NX_OK;
}

/* ---- padding with the tensor's own elements ------------------------------------------------------------------------- */
/* How many there are of a dimension with padding; fails where a mirror would need more of it than there are. */
static nx_status pad_size(const char *op, const nx_array *input, const int64_t *padding, int k, bool reflects, int64_t *out) {
    int64_t n = input->sizes[input->ndim - 1 - k], before = padding[2 * k], behind = padding[2 * k + 1];
    if (reflects && (before >= n || behind >= n))
        return nx_fail(NX_RUNTIME, "%s: Argument #%d: Padding size should be less than the corresponding input dimension, but got: "
                       "padding (%lld, %lld) at dimension %d of input [%s]", op, 4 + 2 * k, (long long)before, (long long)behind,
                       input->ndim - 1 - k, LIST(input->sizes, input->ndim));
    if (__builtin_add_overflow(n, before, out) || __builtin_add_overflow(*out, behind, out))
        return nx_fail(NX_RUNTIME, "%s: padding (%lld, %lld) makes a size that no number holds", op, (long long)before, (long long)behind);
    return NX_OK;
}

nx_status nx__size_edges(const char *op, const nx_array *input, const int64_t *padding, int n_padding, int64_t dims, int64_t reflects,
                         int64_t *out, int *n) {
    int d = (int)dims;
    bool is_empty = false;
    if (n_padding != 2 * d) return nx_fail(NX_RUNTIME, "%s: padding size is expected to be %d, but got: %d", op, 2 * d, n_padding);
    for (int k = input->ndim == d + 2; k < input->ndim; k++) is_empty = is_empty || input->sizes[k] == 0;
    if ((input->ndim != d + 1 && input->ndim != d + 2) || is_empty)
        return nx_fail(NX_RUNTIME, "%s: Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other non-zero "
                       "dimensions for input, but got: [%s]", op, d + 1, d + 2, LIST(input->sizes, input->ndim));
    *n = input->ndim;
    memcpy(out, input->sizes, sizeof *out * (size_t)*n);
    for (int k = 0; k < d; k++) NX_TRY(pad_size(op, input, padding, k, reflects, &out[*n - 1 - k]));
    if (d == 1 && out[*n - 1] < 1)
        return nx_fail(NX_RUNTIME, "%s: input (W: %lld) is too small. Calculated output W: %lld", op, (long long)input->sizes[*n - 1],
                       (long long)out[*n - 1]);
    for (int k = *n - d; k < *n; k++) {
        if (out[k] < 0)
            return nx_fail(NX_RUNTIME, "%s: Trying to create tensor with negative dimension %lld: [%s]", op, (long long)out[k],
                           LIST(out, *n));
    }
    return NX_OK;
}

/* ---- windows as columns ------------------------------------------------------------------------------------------------ */
/* How many windows there are in each direction; what is no number of a window is refused. */
static nx_status count_windows(const char *op, const int64_t *size, space kernel, space dilation, space padding, space stride,
                               int64_t *windows) {
    const space lists[] = {kernel, dilation, padding, stride};
    for (int k = 0; k < 4; k++) {
        if (lists[k].n != 1 && lists[k].n != 2)
            return nx_fail(NX_RUNTIME, "%s: It is expected %s equals to 2, but got size %d", op,
                           (const char *const[]){"kernel_size", "dilation", "padding", "stride"}[k], lists[k].n);
    }
    NX_TRY(check_positive(op, "kernel size", "kernel", last_of(sides, 2), kernel, 2));
    NX_TRY(check_positive(op, "dilation", "dilation", last_of(sides, 2), dilation, 2));
    for (int d = 0; d < 2; d++) {
        if (nx__space_at(padding.at, padding.n, d) < 0)
            return nx_fail(NX_RUNTIME, "%s: padding should be non-negative, but got %s", op, SIDES("pad", padding, 2));
    }
    NX_TRY(check_positive(op, "stride", "stride", last_of(sides, 2), stride, 2));
    NX_TRY(check_int(op, kernel));
    NX_TRY(check_int(op, dilation));
    NX_TRY(check_int(op, padding));
    for (int d = 0; d < 2; d++)
        windows[d] = nx__pooled(size[d], nx__space_at(kernel.at, kernel.n, d), nx__space_at(stride.at, stride.n, d),
                            nx__space_at(padding.at, padding.n, d), nx__space_at(dilation.at, dilation.n, d), false);
    return NX_OK;
}

nx_status nx__size_columns(const char *op, const nx_array *input, const int64_t *kernel, int n_kernel, const int64_t *dilation,
                           int n_dilation, const int64_t *padding, int n_padding, const int64_t *stride, int n_stride, int64_t *out,
                           int *n) {
    int64_t windows[2];
    space w = {kernel, n_kernel}, apart = {dilation, n_dilation};
    if (input->ndim != 3 && input->ndim != 4)
        return nx_fail(NX_RUNTIME, "%s: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
                       "for input, but got: [%s]", op, LIST(input->sizes, input->ndim));
    NX_TRY(count_windows(op, input->sizes + input->ndim - 2, w, apart, (space){padding, n_padding}, (space){stride, n_stride}, windows));
    if (windows[0] < 1 || windows[1] < 1)
        return nx_fail(NX_RUNTIME, "%s: Given input with spatial size (%lld, %lld), kernel_size=(%s), dilation=(%s), padding=(%s), "
                       "calculated shape of the array of sliding blocks as (%lld, %lld), but its components must be at least one.", op,
                       (long long)input->sizes[input->ndim - 2], (long long)input->sizes[input->ndim - 1], LIST(kernel, n_kernel),
                       LIST(dilation, n_dilation), LIST(padding, n_padding), (long long)windows[0], (long long)windows[1]);
    *n = input->ndim - 1;
    out[0] = input->sizes[0];
    int64_t taps = nx__space_at(kernel, n_kernel, 0) * nx__space_at(kernel, n_kernel, 1);
    if (__builtin_mul_overflow(input->sizes[input->ndim - 3], taps, &out[*n - 2]) ||
        __builtin_mul_overflow(windows[0], windows[1], &out[*n - 1]))
        return nx_fail(NX_RUNTIME, "%s: Storage size calculation overflowed: kernel_size=(%s), padding=(%s)", op, LIST(kernel, n_kernel),
                       LIST(padding, n_padding));
    return NX_OK;
}

nx_status nx__size_image(const char *op, const nx_array *input, const int64_t *size, int n_size, const int64_t *kernel, int n_kernel,
                         const int64_t *dilation, int n_dilation, const int64_t *padding, int n_padding, const int64_t *stride,
                         int n_stride, int64_t *out, int *n) {
    int64_t windows[2], places[2] = {nx__space_at(size, n_size, 0), nx__space_at(size, n_size, 1)};
    if (n_size != 1 && n_size != 2)
        return nx_fail(NX_RUNTIME, "%s: It is expected output_size equals to 2, but got size %d", op, n_size);
    if (input->ndim != 2 && input->ndim != 3)
        return nx_fail(NX_RUNTIME, "%s: Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
                       "dimensions for input, but got: [%s]", op, LIST(input->sizes, input->ndim));
    space w = {kernel, n_kernel}, apart = {dilation, n_dilation};
    NX_TRY(count_windows(op, places, w, apart, (space){padding, n_padding}, (space){stride, n_stride}, windows));
    int64_t taps = nx__space_at(kernel, n_kernel, 0) * nx__space_at(kernel, n_kernel, 1), rows = input->sizes[input->ndim - 2];
    if (rows % taps != 0)
        return nx_fail(NX_RUNTIME, "%s: Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
                       "input.size(1)=%lld and kernel_size=(%s).", op, (long long)rows, LIST(kernel, n_kernel));
    int64_t blocks = (int64_t)((uint64_t)windows[0] * (uint64_t)windows[1]);
    if (windows[0] < 1 || windows[1] < 1 || blocks != input->sizes[input->ndim - 1])
        return nx_fail(NX_RUNTIME, "%s: Given output_size=(%s), kernel_size=(%s), dilation=(%s), padding=(%s), stride=(%s), expected "
                       "size of input's dimension 2 to match the calculated number of sliding blocks %lld * %lld = %lld, but got "
                       "input.size(2)=%lld.", op, LIST(size, n_size), LIST(kernel, n_kernel), LIST(dilation, n_dilation),
                       LIST(padding, n_padding), LIST(stride, n_stride), (long long)windows[0], (long long)windows[1],
                       (long long)blocks, (long long)input->sizes[input->ndim - 1]);
    *n = input->ndim + 1;
    out[0] = input->sizes[0];
    out[*n - 3] = rows / taps;
    out[*n - 2] = places[0];
    out[*n - 1] = places[1];
    return NX_OK;
}
