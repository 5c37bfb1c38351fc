/* Helpers of generated shape rules (checks, new metas) and kernel adapters. Shape rules see arrays, no data.
 * Next: support_grad.c for the helpers of gradient formulas. */
#include "gen/support.h"

#include <complex.h>

static double _Complex complex_of(const nx_value *v) {
    return __builtin_complex(nx_value_as_float(v), v->tag == NX_TAG_COMPLEX ? v->parts[1] : 0.0);
}

static nx_value store_complex(double _Complex z, double parts[2]) {
    parts[0] = creal(z);
    parts[1] = cimag(z);
    return nx_value_complex(parts);
}

#define NUMBER_RULE(name, op) \
    nx_value nx__number_##name(nx_value a, nx_value b, double parts[2]) { \
        if (a.tag == NX_TAG_COMPLEX || b.tag == NX_TAG_COMPLEX) return store_complex(complex_of(&a) op complex_of(&b), parts); \
        if (a.tag != NX_TAG_FLOAT && b.tag != NX_TAG_FLOAT) \
            return nx_value_int((int64_t)((uint64_t)a.i op (uint64_t)b.i)); \
        return nx_value_float(nx_value_as_float(&a) op nx_value_as_float(&b)); \
    }
NUMBER_RULE(add, +)
NUMBER_RULE(sub, -)
NUMBER_RULE(mul, *)
#undef NUMBER_RULE

nx_value nx__number_conj(nx_value a, double parts[2]) {
    return a.tag == NX_TAG_COMPLEX ? store_complex(conj(complex_of(&a)), parts) : a;
}

nx_value nx__number_log(nx_value a, double parts[2]) {
    return a.tag == NX_TAG_COMPLEX ? store_complex(clog(complex_of(&a)), parts) : nx_value_float(log(nx_value_as_float(&a)));
}

bool nx__ints_equal(const int64_t *a, int n_a, const int64_t *b, int n_b) {
    if (n_a != n_b) return false;
    for (int k = 0; k < n_a; k++)
        if (a[k] != b[k]) return false;
    return true;
}

bool nx__ints_have(const int64_t *at, int n, int64_t x) {
    for (int k = 0; k < n; k++)
        if (at[k] == x) return true;
    return false;
}

void nx__ints_swap(const int64_t *at, int n, int64_t i, int64_t j, int64_t *out) {
    for (int k = 0; k < n; k++) out[k] = at[k];
    if (n == 0) return; /* a scalar: its one dimension is only counted */
    out[i] = at[j];
    out[j] = at[i];
}

void nx__ints_set(const int64_t *at, int n, int64_t k, int64_t x, int64_t *out) {
    for (int i = 0; i < n; i++) out[i] = at[i];
    out[k] = x;
}

void nx__ints_insert(const int64_t *at, int n, int64_t k, int64_t x, int64_t *out) {
    for (int i = 0; i < k; i++) out[i] = at[i];
    out[k] = x;
    for (int i = (int)k; i < n; i++) out[i + 1] = at[i];
}

void nx__ints_remove(const int64_t *at, int n, int64_t k, int64_t *out) {
    for (int i = 0; i < k; i++) out[i] = at[i];
    for (int i = (int)k + 1; i < n; i++) out[i - 1] = at[i];
}

int nx__ints_without_ones(const int64_t *at, const int64_t *size, int n, const int64_t *dims, int n_dims, int64_t *out) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        bool named = false;
        for (int k = 0; k < n_dims; k++) named |= dims[k] == i;
        if (!named || size[i] != 1) out[kept++] = at[i];
    }
    return kept;
}

void nx__ints_inverse(const int64_t *at, int n, int64_t *out) {
    for (int k = 0; k < n; k++) out[at[k]] = k;
}

void nx__ints_join(const int64_t *at, int n, const int64_t *behind, int n_behind, int64_t *out) {
    for (int k = 0; k < n; k++) out[k] = at[k];
    for (int k = 0; k < n_behind; k++) out[n + k] = behind[k];
}

nx_status nx__ints_broadcast(const char *op, const int64_t *a, int n_a, const int64_t *b, int n_b, int64_t *out,
                             int *n) {
    *n = n_a > n_b ? n_a : n_b;
    for (int k = 1; k <= *n; k++) { /* from the last dimension on */
        int64_t x = k <= n_a ? a[n_a - k] : 1, y = k <= n_b ? b[n_b - k] : 1;
        if (x != y && x != 1 && y != 1) {
            return nx_fail(NX_RUNTIME, "%s: The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                           "non-singleton dimension %d", op, (long long)x, (long long)y, *n - k);
        }
        out[*n - k] = x == 1 ? y : x;
    }
    return NX_OK;
}

const char *nx__ints_text(char *room, size_t bytes, const int64_t *at, int n, const char *separator) {
    bool brackets = separator[0] == ',';
    if (separator[0] == ' ') separator = ", "; /* a list without brackets */
    size_t used = 0;
    room[0] = 0;
    if (brackets) used += (size_t)snprintf(room, bytes, "[");
    for (int k = 0; k < n && used < bytes; k++)
        used += (size_t)snprintf(room + used, bytes - used, "%s%lld", k ? separator : "", (long long)at[k]);
    if (brackets && used < bytes) snprintf(room + used, bytes - used, "]");
    return room;
}

nx_status nx__check_ndim(const char *op, int64_t n) {
    if (n <= NX_MAX_DIMS) return NX_OK;
    return nx_fail(NX_RUNTIME, "%s: %lld dimensions are too many, at most %d are possible", op, (long long)n,
                   NX_MAX_DIMS);
}

nx_status nx__check_list(const char *op, int64_t n) {
    if (n <= INT32_MAX / 8) return NX_OK;
    return nx_fail(NX_RUNTIME, "%s: a list of %lld tensors is too long", op, (long long)n);
}

nx_status nx__dims_of(const char *op, const nx_value *dims, int ndim, int64_t *out, int *n) {
    if (dims->tag == NX_TAG_NONE || dims->n == 0) {
        for (int k = 0; k < ndim; k++) out[k] = k;
        *n = ndim;
        return NX_OK;
    }
    NX_TRY(nx__check_ndim(op, dims->n));
    for (int k = 0; k < dims->n; k++) {
        int dim;
        NX_TRY(nx_wrap_dim(op, dims->ints[k], ndim, &dim));
        out[k] = dim;
    }
    *n = dims->n;
    return NX_OK;
}

nx_status nx__count(const char *op, const int64_t *size, int n, const nx_value *dims, int64_t *out) {
    int64_t at[NX_MAX_DIMS];
    int count;
    NX_TRY(nx__dims_of(op, dims, n, at, &count));
    *out = 1;
    for (int k = 0; k < count && n > 0; k++) *out = nx_times(*out, size[at[k]]); /* one may be named twice */
    return NX_OK;
}

nx_status nx__check_choice(const char *op, const char *name, const nx_value *value, const char *const *words,
                           int n_words) {
    char text[160] = "";
    size_t used = 0;
    if (value->tag == NX_TAG_NONE) return NX_OK;
    for (int k = 0; k < n_words; k++) {
        if (strcmp(value->str, words[k]) == 0) return NX_OK;
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", k ? " or " : "", words[k]);
    }
    return nx_fail(NX_RUNTIME, "%s: %s argument must be either %s, not '%s'", op, name, text, value->str);
}

nx_status nx__fail_argument_dtype(const char *op, const char *name, const nx_array *given, nx_dtype expected) {
    if (expected == NX_BOOL) {
        return nx_fail(NX_RUNTIME, "%s: expected %s to be a boolean tensor, but got a tensor with dtype %s; compare it "
                       "with 0 first", op, name, nx_dtype_kind((nx_dtype)given->dtype));
    }
    return nx_fail(NX_RUNTIME, "%s: expected %s to be a tensor of dtype %s, but got dtype %s; convert it with .to()", op,
                   name, nx_dtype_kind(expected), nx_dtype_kind((nx_dtype)given->dtype));
}

nx_status nx__fail_dtype(const char *op, nx_dtype dtype) {
    return nx_fail(NX_NOT_IMPLEMENTED, "%s: not implemented for '%s'", op, nx_dtype_kind(dtype));
}

nx_status nx__fail_same_dtype(const char *op, const nx_array *a, const char *a_name, const nx_array *b,
                              const char *b_name) {
    return nx_fail(NX_RUNTIME, "%s: expected %s and %s to have the same dtype, but got: %s and %s; convert "
                   "one with .to()", op, a_name, b_name, nx_dtype_kind(a->dtype), nx_dtype_kind(b->dtype));
}

static const char *device_text(char room[48], nx_device device) {
    const char *name = nx_device_type_name(device.type);
    if (device.type == 0) snprintf(room, 48, "%s", name);
    else snprintf(room, 48, "%s:%d", name, device.index);
    return room;
}

nx_status nx__fail_same_device(const char *op, const nx_array *a, const nx_array *b) {
    char text[2][48];
    return nx_fail(NX_RUNTIME, "%s: Expected all tensors to be on the same device, but found at least two "
                   "devices, %s and %s! Move one with .to()", op, device_text(text[0], a->device),
                   device_text(text[1], b->device));
}

nx_status nx__arange_size(const char *op, nx_value start, nx_value end, nx_value step, int64_t *out) {
    double a = nx_value_as_float(&start), b = nx_value_as_float(&end), by = nx_value_as_float(&step);
    if (!(by > 0 || by < 0)) return nx_fail(NX_RUNTIME, "%s: step must be nonzero", op);
    if (!isfinite(a) || !isfinite(b)) return nx_fail(NX_RUNTIME, "%s: unsupported range: %g -> %g", op, a, b);
    if (by > 0 ? a > b : a < b) {
        return nx_fail(NX_RUNTIME, "%s: upper bound and lower bound inconsistent with step sign (%g to %g by %g)", op,
                       a, b, by);
    }
    if (start.tag != NX_TAG_FLOAT && end.tag != NX_TAG_FLOAT && step.tag != NX_TAG_FLOAT) {
        const uint64_t from = (uint64_t)start.i, to = (uint64_t)end.i, d = (uint64_t)step.i;
        const uint64_t way = step.i > 0 ? to - from : from - to, each = step.i > 0 ? d : -d;
        const uint64_t count = way / each + (way % each != 0);
        if (count > INT64_MAX) return nx_fail(NX_RUNTIME, "%s: invalid size, possible overflow?", op);
        *out = (int64_t)count;
        return NX_OK;
    }
    double n = ceil((b - a) / by);
    if (!(n < 0x1p62)) return nx_fail(NX_RUNTIME, "%s: invalid size, possible overflow?", op);
    *out = (int64_t)n;
    return NX_OK;
}

nx_status nx__check_options(const char *op, const nx_value *layout, const nx_value *pin_memory) {
    if (layout->tag == NX_TAG_LAYOUT && layout->i != 0)
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: only the strided layout is there; torch.sparse_coo_tensor(size=...) makes a sparse "
                       "tensor without elements", op);
    if (pin_memory->tag == NX_TAG_BOOL && pin_memory->i)
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: pinned memory is not there yet, leave pin_memory out", op);
    return NX_OK;
}

static void start_meta(nx_meta *out, nx_dtype dtype, nx_device device, const int64_t *size, int n) {
    out->dtype = dtype;
    out->device = device;
    out->ndim = n;
    out->absent = false;
    out->view_of = -1;
    out->offset = 0;
    for (int k = 0; k < n; k++) out->size[k] = size[k];
}

static bool is_empty(const nx_meta *meta) {
    for (int d = 0; d < meta->ndim; d++) {
        if (meta->size[d] == 0) return true;
    }
    return false;
}

/* The next stride; of a tensor without elements strides may be anything. */
static nx_status grow(nx_meta *out, int64_t size, int64_t *step) {
    if (!__builtin_mul_overflow(*step, size > 1 ? size : 1, step) || is_empty(out)) return NX_OK;
    return nx_fail_bytes(out->ndim, out->size);
}

/* Dimensions from the innermost in memory to the outermost. */
static nx_status dense_strides(nx_meta *out, const int *order) {
    int64_t step = 1;
    for (int k = 0; k < out->ndim; k++) {
        out->stride[order[k]] = step;
        NX_TRY(grow(out, out->size[order[k]], &step));
    }
    return NX_OK;
}

static nx_status channels_last(const char *op, nx_value format, nx_meta *out) {
    int rank = (int)format.i + 2;
    if (out->ndim != rank) {
        return nx_fail(NX_RUNTIME, "%s: required rank %d tensor to use %s format, got rank %d", op, rank,
                       nx_memory_format_name(format.i), out->ndim);
    }
    return dense_strides(out, rank == 4 ? (const int[]){1, 3, 2, 0} : (const int[]){1, 4, 3, 2, 0});
}

static nx_status row_major(nx_meta *out) {
    int64_t step = 1;
    for (int d = out->ndim - 1; d >= 0; d--) {
        out->stride[d] = step;
        NX_TRY(grow(out, out->size[d], &step));
    }
    return NX_OK;
}

static bool is_channels_last(nx_value format) {
    return format.tag == NX_TAG_MEMORY_FORMAT && format.i >= NX_CHANNELS_LAST;
}

nx_status nx__meta_contiguous(nx_meta *out) { return row_major(out); }

nx_status nx__meta_new(const char *op, nx_dtype dtype, nx_device device, const int64_t *size, int n,
                       nx_value format, nx_meta *out) {
    NX_TRY(nx__check_ndim(op, n));
    start_meta(out, dtype, device, size, n);
    if (format.tag == NX_TAG_MEMORY_FORMAT && format.i == 1)
        return nx_fail(NX_RUNTIME, "%s: preserve_format needs a tensor to take the format from", op);
    if (is_channels_last(format)) return channels_last(op, format, out);
    return row_major(out);
}

/* Dimensions by stride, smallest first. One of stride 0 (broadcast) says nothing and stays where it is. */
static void order_by_stride(const nx_array *a, int *order) {
    int n = a->ndim;
    for (int k = 0; k < n; k++) order[k] = n - 1 - k;
    for (int k = 1; k < n; k++) {
        int at = k;
        for (int j = k - 1; j >= 0; j--) {
            int64_t low = a->strides[order[at]], high = a->strides[order[j]];
            if (low == 0 || high == 0) continue;
            if (low > high || (low == high && a->sizes[order[at]] >= a->sizes[order[j]])) break;
            int swapped = order[j];
            order[j] = order[at];
            order[at] = swapped;
            at = j;
        }
    }
}

nx_status nx__meta_like(const char *op, const nx_array *array, nx_value format, nx_meta *out) {
    if (NX_UNLIKELY(array == NULL)) return nx_fail(NX_RUNTIME, "%s: a result is to be like an argument which is None", op);
    start_meta(out, array->dtype, array->device, array->sizes, array->ndim);
    if (is_channels_last(format)) return channels_last(op, format, out);
    if (format.tag == NX_TAG_MEMORY_FORMAT && format.i == 0) return row_major(out);
    if (!array->contiguous && !nx_is_dense(array)) {
        int order[NX_MAX_DIMS];
        order_by_stride(array, order);
        return dense_strides(out, order);
    }
    for (int k = 0; k < array->ndim; k++) out->stride[k] = array->strides[k];
    return NX_OK;
}

/* Where a tensor lies row by row and channels last, its steps tell which is meant. */
static bool means_channels_last(const nx_array *a) {
    int64_t least = 0;
    if (!nx_is_channels_last(a)) return false;
    for (int k = 0; k < a->ndim; k++) { /* 1, then from the last one down to 2, then 0 */
        int d = k == 0 ? 1 : k == a->ndim - 1 ? 0 : a->ndim - k;
        if (a->sizes[d] == 0 || a->strides[d] < least || (d == 0 && least == a->strides[1])) return false;
        least = a->strides[d] * a->sizes[d];
    }
    return true;
}

nx_value nx__common_format(const nx_value *tensors) {
    bool all = tensors->n > 0;
    for (int k = 0; k < tensors->n; k++) {
        const nx_array *a = tensors->list[k].array;
        all = all && means_channels_last(a);
    }
    return (nx_value){.tag = NX_TAG_MEMORY_FORMAT, .i = all ? tensors->list[0].array->ndim - 2 : NX_CONTIGUOUS_FORMAT};
}

nx_value nx__any_format(int n, const nx_array *const *tensors) {
    int at = 0;
    while (at < n && !means_channels_last(tensors[at])) at++;
    return (nx_value){.tag = NX_TAG_MEMORY_FORMAT, .i = at < n ? tensors[at]->ndim - 2 : NX_CONTIGUOUS_FORMAT};
}

nx_value nx__dense_format(const nx_array *a) {
    const bool last = !a->contiguous && nx_is_channels_last(a);
    return (nx_value){.tag = NX_TAG_MEMORY_FORMAT, .i = last ? a->ndim - 2 : NX_CONTIGUOUS_FORMAT};
}

void nx__meta_swap(int i, int j, nx_meta *out) {
    int64_t size = out->size[i], stride = out->stride[i];
    out->size[i] = out->size[j];
    out->stride[i] = out->stride[j];
    out->size[j] = size;
    out->stride[j] = stride;
}

void nx__meta_order(const int64_t *order, int n, nx_meta *out) {
    int64_t step = 1;
    for (int k = n - 1; k >= 0; k--) {
        out->stride[order[k]] = step;
        step *= out->size[order[k]] > 0 ? out->size[order[k]] : 1;
    }
}

void nx__meta_same(const nx_array *array, nx_meta *out) {
    start_meta(out, array->dtype, array->device, array->sizes, array->ndim);
    for (int k = 0; k < array->ndim; k++) out->stride[k] = array->strides[k];
}

void nx__meta_view(const nx_array *array, int of, nx_meta *out) {
    start_meta(out, array->dtype, array->device, array->sizes, 0);
    out->view_of = of;
}

nx_status nx__meta_part(const char *op, const int64_t *size, int n, nx_meta_fn *view, nx_value *in, nx_meta *out) {
    int64_t dims[2 * NX_MAX_DIMS] = {0};
    NX_TRY(nx__check_ndim(op, n));
    nx_array whole = {.sizes = dims, .strides = dims + NX_MAX_DIMS, .ndim = (uint8_t)n, .device = NX_CPU};
    for (int k = 0; k < n; k++) dims[k] = size[k];
    in[0] = (nx_value){.tag = NX_TAG_TENSOR, .array = &whole};
    return view(in, out);
}

nx_status nx__run_generator(nx_run *run, const nx_value *argument, nx_generator **out) {
    *out = argument->tag == NX_TAG_GENERATOR ? argument->generator : nx_device_generator(run->device);
    if (*out) return NX_OK;
    return nx_fail(NX_NOT_IMPLEMENTED, "%s: device '%s' has no random number generator", nx_op_name(run->op),
                   nx_device_type_name(run->device.type));
}

nx_status nx__kernel_nothing(nx_run *run, const nx_value *in, nx_value *out) {
    (void)run, (void)in, (void)out;
    return NX_OK;
}
