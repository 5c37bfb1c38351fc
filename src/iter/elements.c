/* What the row `elements` of an entry says: one number in every place, and the part of an array that a view shows. Elements of
 * tensors: copy.c. */
#include "iter/iter.h"

#include <math.h>

/* What may be written, and what PyTorch's message calls the type. Unsigned types take negative numbers too, which wrap. */
static bool fits_float(nx_dtype dtype, double f) {
    if (isinf(f)) return !nx_is_stored(dtype) || dtype == NX_F8_E5M2; /* the other float8 types have no infinity */
    return isnan(f) || fabs(f) <= nx__dtype_facts[dtype].highest;
}

static bool fits_int(nx_dtype dtype, const nx_value *value, double f) {
    bool is_signed = nx__dtype_facts[dtype].category == NX_CATEGORY_SIGNED;
    int bits = 8 * (int)nx_dtype_bytes(dtype);
    if (value->tag == NX_TAG_FLOAT || value->tag == NX_TAG_COMPLEX) { /* a negative float does not wrap */
        double end = ldexp(1, bits - is_signed);
        return f >= (is_signed ? -end : 0) && f < end && (bits == 64 || f <= end - 1);
    }
    if (bits == 64) return true;
    int64_t end = INT64_C(1) << (bits - is_signed);
    return value->i < end && (is_signed ? value->i >= -end : value->i > -end);
}

bool nx_number_fits(nx_dtype dtype, const nx_value *value) {
    bool is_complex = value->tag == NX_TAG_COMPLEX;
    double f = is_complex ? value->parts[0] : value->tag == NX_TAG_FLOAT ? value->f : (double)value->i;
    if (dtype == NX_BOOL) return true;
    if (dtype == NX_C32) dtype = NX_C64; /* as PyTorch: what float16 cannot hold becomes infinite */
    if (nx_is_complex(dtype)) return fits_float(dtype, f) && (!is_complex || fits_float(dtype, value->parts[1]));
    if (is_complex && value->parts[1] != 0) return false;
    return nx_is_float(dtype) ? fits_float(dtype, f) : fits_int(dtype, value, f);
}

nx_status nx_fail_number(const nx_run *run, nx_dtype dtype) {
    const char *name = nx_dtype_c_type(dtype == NX_C32 ? NX_C64 : dtype);
    return nx_fail(NX_RUNTIME, "%s: value cannot be converted to type %s without overflow", nx_op_name(run->op), name);
}

enum { FILLED = 4096 }; /* bytes that are written element by element; memcpy, which knows the processor, writes them again */

/* An element of which all bytes are equal, as those of 0 are, is as its bytes are. */
#define DEFINE_FILL(bits)                                                                        \
    static void fill_##bits(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {     \
        uint##bits##_t element, *to = (uint##bits##_t *)ptrs[0];                                 \
        const char *bytes = arg;                                                                 \
        memcpy(&element, arg, sizeof element);                                                   \
        if (steps[0] != sizeof element) {                                                        \
            int64_t step = steps[0] / (int64_t)sizeof element;                                   \
            for (int64_t i = 0; i < n; i++) to[i * step] = element;                              \
        } else if (memcmp(bytes, bytes + 1, sizeof element - 1) == 0) {                          \
            memset(to, bytes[0], (size_t)n * sizeof element);                                    \
        } else {                                                                                 \
            int64_t first = nx_least(n, FILLED / (int64_t)sizeof element);                       \
            for (int64_t i = 0; i < first; i++) to[i] = element;                                 \
            for (int64_t done = first, part; done < n; done += part) {                           \
                part = nx_least(first, n - done);                                                \
                memcpy(to + done, to, (size_t)part * sizeof element);                            \
            }                                                                                    \
        }                                                                                        \
    }
DEFINE_FILL(8)
DEFINE_FILL(16)
DEFINE_FILL(32)
DEFINE_FILL(64)
DEFINE_FILL(128)

/* As in PyTorch a single element of less than 32 bits takes any real number, rounded to what it has. */
static bool is_cut_off(const nx_array *to, const nx_value *number) {
    return to->numel == 1 && nx_is_float((nx_dtype)to->dtype) && nx_dtype_bytes((nx_dtype)to->dtype) < 4 &&
           (number->tag != NX_TAG_COMPLEX || number->parts[1] == 0);
}

nx_status nx_fill(const nx_run *run, const nx_array *to, nx_value number) {
    static nx_walk_fn *const fills[NX_MAX_ELEMENT_BYTES + 1] = {
        [1] = fill_8, [2] = fill_16, [4] = fill_32, [8] = fill_64, [16] = fill_128};
    nx_dtype dtype = (nx_dtype)to->dtype;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype);
    _Alignas(16) char element[NX_MAX_ELEMENT_BYTES];
    if (!nx_number_fits(dtype, &number) && !is_cut_off(to, &number)) return nx_fail_number(run, dtype);
    if (to->numel == 0) return NX_OK; /* which may lie nowhere */
    nx_number_store(dtype, &number, element);
    if ((to->contiguous || to->ndim == 1) && !nx_is_long(to->numel, bytes)) {
        int64_t step = to->contiguous ? bytes : nx_times(to->strides[0], bytes);
        fills[bytes](element, (char *const[]){to->data}, &step, to->numel);
        return NX_OK;
    }
    nx_walk walk;
    nx_walk_start(&walk, to->ndim, to->sizes);
    nx_walk_add(&walk, to);
    nx_walk_merge(&walk);
    nx_walk_spread(&walk, bytes, fills[bytes], element);
    return NX_OK;
}

/* ---- parts ------------------------------------------------------------------------------------------------- */
nx_status nx_part_of(const nx_array *whole, nx_meta_fn *view, const nx_value *in, nx_part *out) {
    nx_meta meta;
    nx_array *part = &out->array;
    NX_TRY(view(in, &meta));
    *part = *whole;
    part->data = (char *)whole->data + meta.offset * (int64_t)nx_dtype_bytes((nx_dtype)whole->dtype);
    part->ndim = (uint8_t)meta.ndim;
    part->sizes = out->dims;
    part->strides = out->dims + meta.ndim;
    for (int k = 0; k < meta.ndim; k++) {
        part->sizes[k] = meta.size[k];
        part->strides[k] = meta.size[k] > 1 ? meta.stride[k] : 0; /* of one element it may be any number */
    }
    nx_array_refresh(part);
    return NX_OK;
}
