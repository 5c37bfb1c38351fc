/* Kernels of copy.op and factory.op: copies, filling, counting, the diagonal, triangles of matrices. */
#include "gen/kernels.h"
#include "iter/iter.h"

#include <math.h>

nx_status nx__copy_cast(nx_run *run, nx_array *to, const nx_array *from) {
    nx_copy_cast(to, from);
    return NX_OK;
}

/* ---- fill ---------------------------------------------------------------------------------------------- */
/* Highest magnitudes that may be written, and what PyTorch's message calls the type. Unsigned types take
 * negative numbers of that magnitude too, which wrap. */
static const struct { int64_t low, high; const char *name; } integer_range[NX_N_DTYPES] = {
    [NX_U8] = {-255, 255, "uint8_t"}, [NX_I8] = {-128, 127, "int8_t"}, [NX_I16] = {-32768, 32767, "int16_t"},
    [NX_I32] = {INT32_MIN, INT32_MAX, "int"}, [NX_I64] = {INT64_MIN, INT64_MAX, "int64_t"},
};
static const struct { double high; const char *name;
} float_range[NX_N_DTYPES] = {
    [NX_F16] = {65504, "c10::Half"},
    [NX_BF16] = {0x1.fep127, "c10::BFloat16"},
    [NX_F32] = {0x1.fffffep127, "float"},
    [NX_F64] = {0x1.fffffffffffffp1023, "double"},
};

static bool fits(nx_dtype dtype, const nx_value *value) {
    bool is_float = value->tag == NX_TAG_FLOAT;
    if (dtype == NX_BOOL) return true;
    if (nx_is_float(dtype)) {
        double magnitude = fabs(is_float ? value->f : (double)value->i);
        return !isfinite(magnitude) || magnitude <= float_range[dtype].high;
    }
    if (!is_float) return value->i >= integer_range[dtype].low && value->i <= integer_range[dtype].high;
    if (dtype == NX_I64) return value->f >= -0x1p63 && value->f < 0x1p63;
    double low = dtype == NX_U8 ? 0 : (double)integer_range[dtype].low; /* a negative float does not wrap */
    return value->f >= low && value->f <= (double)integer_range[dtype].high;
}

static const char *type_name(nx_dtype dtype) {
    return nx_is_float(dtype) ? float_range[dtype].name : integer_range[dtype].name;
}

#define DEFINE_FILL(bits)                                                                        \
    static void fill_##bits(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {     \
        uint##bits##_t element, *to = (uint##bits##_t *)ptrs[0];                                 \
        memcpy(&element, arg, sizeof element);                                                   \
        if (steps[0] == sizeof element) {                                                        \
            for (int64_t i = 0; i < n; i++) to[i] = element;                                     \
        } else {                                                                                 \
            int64_t step = steps[0] / (int64_t)sizeof element;                                   \
            for (int64_t i = 0; i < n; i++) to[i * step] = element;                              \
        }                                                                                        \
    }
DEFINE_FILL(8)
DEFINE_FILL(16)
DEFINE_FILL(32)
DEFINE_FILL(64)

nx_status nx__fill(nx_run *run, nx_array *to, nx_value value) {
    static nx_walk_fn *const fills[9] = {[1] = fill_8, [2] = fill_16, [4] = fill_32, [8] = fill_64};
    nx_dtype dtype = (nx_dtype)to->dtype;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype);
    _Alignas(8) char element[8];
    if (!fits(dtype, &value)) {
        return nx_fail(NX_RUNTIME, "%s: value cannot be converted to type %s without overflow",
                       nx_op_name(run->op), type_name(dtype));
    }
    nx_cast(dtype, element, bytes, value.tag == NX_TAG_FLOAT ? NX_F64 : NX_I64,
            value.tag == NX_TAG_FLOAT ? (const char *)&value.f : (const char *)&value.i, 8, 1);
    if (to->contiguous) {
        fills[bytes](element, (char *const[]){to->data}, &bytes, to->numel);
        return NX_OK;
    }
    nx_walk walk;
    nx_walk_start(&walk, to->ndim, to->sizes);
    nx_walk_add(&walk, to);
    nx_walk_merge(&walk);
    nx_walk_run(&walk, fills[bytes], element);
    return NX_OK;
}

/* ---- arange: computed in double, or in int64 where the result is an integer type ---------------------- */
nx_status nx__arange(nx_run *run, nx_array *out, nx_value start, nx_value step) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype);
    for (int64_t i = 0; i < out->numel; i++) {
        char *to = (char *)out->data + i * bytes;
        if (nx_is_float(dtype)) {
            double x = nx_value_as_float(&start) + (double)i * nx_value_as_float(&step);
            nx_cast(dtype, to, 0, NX_F64, (const char *)&x, 0, 1);
        } else {
            int64_t x = nx_value_as_int(&start) + i * nx_value_as_int(&step);
            nx_cast(dtype, to, 0, NX_I64, (const char *)&x, 0, 1);
        }
    }
    return NX_OK;
}

/* ---- linspace: from both ends, so that the last one is exact --------------------------------------------- */
nx_status nx__linspace(nx_run *run, nx_array *out, nx_value start, nx_value end) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    int64_t n = out->numel, bytes = (int64_t)nx_dtype_bytes(dtype);
    double a = nx_value_as_float(&start), b = nx_value_as_float(&end), step = n > 1 ? (b - a) / (double)(n - 1) : 0;
    for (int64_t i = 0; i < n; i++) {
        double x = i < (n + 1) / 2 ? a + step * (double)i : b - step * (double)(n - 1 - i);
        nx_cast(dtype, (char *)out->data + i * bytes, 0, NX_F64, (const char *)&x, 0, 1);
    }
    return NX_OK;
}

/* ---- eye ------------------------------------------------------------------------------------------------ */
nx_status nx__eye(nx_run *run, nx_array *out) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype), one = 1;
    int64_t n = out->sizes[0] < out->sizes[1] ? out->sizes[0] : out->sizes[1];
    if (out->numel) memset(out->data, 0, (size_t)(out->numel * bytes));
    nx_cast(dtype, out->data, (out->sizes[1] + 1) * bytes, NX_I64, (const char *)&one, 0, n);
    return NX_OK;
}

/* ---- tril, triu ------------------------------------------------------------------------------------------- */
/* Zeros columns begin .. end of a row. */
static void clear_row(char *row, int64_t begin, int64_t end, int64_t step, size_t bytes) {
    for (int64_t j = begin; j < end; j++) memset(row + j * step, 0, bytes);
}

static void clear_matrix(const nx_array *out, char *at, int64_t diagonal, bool lower) {
    int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)out->dtype), rows = out->sizes[out->ndim - 2],
            columns = out->sizes[out->ndim - 1];
    for (int64_t i = 0; i < rows; i++) {
        int64_t edge = lower ? i + diagonal + 1 : i + diagonal; /* the first column right of what is kept or cleared */
        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        clear_row(at + i * out->strides[out->ndim - 2] * bytes, lower ? edge : 0, lower ? columns : edge,
                  out->strides[out->ndim - 1] * bytes, (size_t)bytes);
    }
}

nx_status nx__triangle(nx_run *run, nx_array *out, const nx_array *self, int64_t diagonal, nx_value lower) {
    int64_t index[NX_MAX_DIMS] = {0}, bytes = (int64_t)nx_dtype_bytes((nx_dtype)out->dtype);
    if (out->data != self->data) nx_copy_cast(out, self);
    if (out->numel == 0) return NX_OK;
    for (int d = 0; d >= 0;) { /* each matrix of the outer dimensions */
        int64_t offset = 0;
        for (int k = 0; k < out->ndim - 2; k++) offset += index[k] * out->strides[k];
        clear_matrix(out, (char *)out->data + offset * bytes, diagonal, lower.i != 0);
        for (d = out->ndim - 3; d >= 0 && ++index[d] == out->sizes[d]; d--) index[d] = 0;
    }
    return NX_OK;
}
