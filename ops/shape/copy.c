/* Kernels of copy.op and factory.op: copies, filling, the diagonal, triangles of matrices; spaced.c counts. */
#include "gen/kernels.h"
#include "iter/iter.h"
#include "shape/copy.h"

#include <math.h>

nx_status nx__copy_cast(nx_run *run, nx_array *to, const nx_array *from) {
    nx_copy_cast(to, from);
    return NX_OK;
}

/* ---- fill ---------------------------------------------------------------------------------------------- */
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

bool nx__number_fits(nx_dtype dtype, const nx_value *value) {
    bool is_complex = value->tag == NX_TAG_COMPLEX;
    double f = is_complex ? value->parts[0] : value->tag == NX_TAG_FLOAT ? value->f : (double)value->i;
    if (dtype == NX_BOOL) return true;
    if (dtype == NX_C32) dtype = NX_C64; /* as PyTorch: what float16 cannot hold becomes infinite */
    if (nx_is_complex(dtype)) return fits_float(dtype, f) && (!is_complex || fits_float(dtype, value->parts[1]));
    if (is_complex && value->parts[1] != 0) return false;
    return nx_is_float(dtype) ? fits_float(dtype, f) : fits_int(dtype, value, f);
}

nx_status nx__fail_number(const nx_run *run, nx_dtype dtype) {
    const char *name = nx_dtype_c_type(dtype == NX_C32 ? NX_C64 : dtype);
    return nx_fail(NX_RUNTIME, "%s: value cannot be converted to type %s without overflow", nx_op_name(run->op), name);
}

enum { FILLED = 4096 }; /* bytes that are written element by element; memcpy, which knows the processor, writes them again */

#define DEFINE_FILL(bits)                                                                        \
    static void fill_##bits(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {     \
        uint##bits##_t element, *to = (uint##bits##_t *)ptrs[0];                                 \
        memcpy(&element, arg, sizeof element);                                                   \
        if (steps[0] == sizeof element) {                                                        \
            int64_t first = nx_least(n, FILLED / (int64_t)sizeof element);                       \
            for (int64_t i = 0; i < first; i++) to[i] = element;                                 \
            for (int64_t done = first, part; done < n; done += part) {                           \
                part = nx_least(first, n - done);                                                \
                memcpy(to + done, to, (size_t)part * sizeof element);                            \
            }                                                                                    \
        } else {                                                                                 \
            int64_t step = steps[0] / (int64_t)sizeof element;                                   \
            for (int64_t i = 0; i < n; i++) to[i * step] = element;                              \
        }                                                                                        \
    }
DEFINE_FILL(8)
DEFINE_FILL(16)
DEFINE_FILL(32)
DEFINE_FILL(64)
DEFINE_FILL(128)

nx_status nx__fill(nx_run *run, nx_array *to, nx_value value) {
    static nx_walk_fn *const fills[NX_MAX_ELEMENT_BYTES + 1] = {
        [1] = fill_8, [2] = fill_16, [4] = fill_32, [8] = fill_64, [16] = fill_128};
    nx_dtype dtype = (nx_dtype)to->dtype;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype);
    _Alignas(16) char element[NX_MAX_ELEMENT_BYTES];
    if (!nx__number_fits(dtype, &value)) return nx__fail_number(run, dtype);
    nx_number_store(dtype, &value, element);
    if (to->contiguous && !nx_is_long(to->numel, bytes)) {
        fills[bytes](element, (char *const[]){to->data}, &bytes, to->numel);
        return NX_OK;
    }
    nx_walk walk;
    nx_walk_start(&walk, to->ndim, to->sizes);
    nx_walk_add(&walk, to);
    nx_walk_merge(&walk);
    nx_walk_spread(&walk, bytes, fills[bytes], element);
    return NX_OK;
}

/* ---- eye ------------------------------------------------------------------------------------------------ */
nx_status nx__eye(nx_run *run, nx_array *out) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype), one = 1;
    int64_t n = out->sizes[0] < out->sizes[1] ? out->sizes[0] : out->sizes[1];
    if (out->numel == 0) return NX_OK;
    memset(out->data, 0, (size_t)(out->numel * bytes));
    nx_cast(dtype, out->data, (out->sizes[1] + 1) * bytes, NX_I64, (const char *)&one, 0, n);
    return NX_OK;
}

nx_status nx__assert_copy(nx_run *run, const nx_array *self, nx_value assert_msg, const nx_array *dep_token, nx_array *out) {
    bool holds;
    nx_cast(NX_BOOL, (char *)&holds, 1, (nx_dtype)self->dtype, self->data, 1, 1);
    if (!holds) return nx_fail(NX_RUNTIME, "%s", assert_msg.tag == NX_TAG_STR ? assert_msg.str : "");
    nx_copy_cast(out, dep_token);
    return NX_OK;
}

/* ---- tril, triu ------------------------------------------------------------------------------------------- */
/* Zeros columns begin .. end of a row. */
static void clear_row(char *row, int64_t begin, int64_t end, int64_t step, size_t bytes) {
    if (begin < end && step == (int64_t)bytes) memset(row + begin * step, 0, (size_t)(end - begin) * bytes);
    else for (int64_t j = begin; j < end; j++) memset(row + j * step, 0, bytes);
}

typedef struct triangle { const nx_array *out; int64_t diagonal; bool lower; } triangle;

/* Rows begin .. end, those of all matrices counted on. */
static nx_status clear_rows(void *arg, int64_t begin, int64_t end) {
    const triangle *t = arg;
    const nx_array *out = t->out;
    int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)out->dtype), columns = out->sizes[out->ndim - 1];
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, offset = 0, i = row % out->sizes[out->ndim - 2];
        for (int d = out->ndim - 2; d >= 0; d--) {
            offset += rest % out->sizes[d] * out->strides[d];
            rest /= out->sizes[d];
        }
        int64_t edge = t->lower ? i + t->diagonal + 1 : i + t->diagonal; /* the first column right of what is kept or cleared */
        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        clear_row((char *)out->data + offset * bytes, t->lower ? edge : 0, t->lower ? columns : edge,
                  out->strides[out->ndim - 1] * bytes, (size_t)bytes);
    }
    return NX_OK;
}

nx_status nx__triangle(nx_run *run, nx_array *out, const nx_array *self, int64_t diagonal, nx_value lower) {
    if (out->data != self->data) nx_copy_cast(out, self);
    if (out->numel == 0) return NX_OK;
    int64_t columns = out->sizes[out->ndim - 1], bytes = (int64_t)nx_dtype_bytes((nx_dtype)out->dtype);
    diagonal = nx__within(diagonal, -out->sizes[out->ndim - 2] - 1, columns + 1);
    return nx_parallel(out->numel / columns, nx_grain(columns * bytes), clear_rows, &(triangle){out, diagonal, lower.i != 0});
}

/* ---- tril_indices, triu_indices ----------------------------------------------------------------------------- */
nx_status nx__triangle_places(nx_run *run, nx_array *out, int64_t rows, int64_t columns, int64_t diagonal, nx_value lower) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    if (dtype != NX_I64 && dtype != NX_I32)
        return nx_fail(NX_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", nx_op_name(run->op), nx_dtype_kind(dtype));
    if (out->numel == 0) return NX_OK;
    diagonal = nx__within(diagonal, -rows - 1, columns + 1);
    /* Only columns low .. high - 1 are named, and rows from the first one that has a place. */
    int64_t low = lower.i ? 0 : nx__within(diagonal, 0, columns), high = lower.i ? nx__within(rows + diagonal, 0, columns) : columns;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype), *count = nx_alloc((size_t)(high - low) * sizeof *count);
    char *row = out->data, *column = row + out->sizes[1] * bytes, *end = column;
    if (count == NULL) return nx_fail_memory((size_t)(high - low) * sizeof *count);
    for (int64_t k = low; k < high; k++) count[k - low] = k;
    for (int64_t i = lower.i && diagonal < 0 ? -diagonal : 0; i < rows && row < end; i++) {
        int64_t edge = i + diagonal + (lower.i != 0);
        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        int64_t first = lower.i ? 0 : edge, n = lower.i ? edge : columns - edge;
        nx_cast(dtype, row, bytes, NX_I64, (const char *)&i, 0, n);
        nx_cast(dtype, column, bytes, NX_I64, (const char *)(count + (first - low)), sizeof *count, n);
        row += n * bytes;
        column += n * bytes;
    }
    nx_free(count);
    return NX_OK;
}
