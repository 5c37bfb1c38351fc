/* Kernels of copy.op and of what fills tensors in factory.op. */
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
