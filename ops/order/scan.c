/* Running sums, products, sums of exponentials and extremes along a dimension, in float, double or int64_t as order.c
 * has it, complex numbers in double; sums and products of float32 are kept in double and rounded at each element, as
 * PyTorch does. Rows along the dimension are independent: one is scanned in a buffer, or where their elements lie side by
 * side across the rows, a strip of rows is scanned together, element after element, with what has been found so far in one
 * vector. Every row has the same bits either way. Next: order.h. */
#include <math.h>
#include <string.h>

#include "gen/kernels.h"
#include "kernel/complex.h"
#include "shared/order.h"

enum { STRIP = 128 }; /* rows scanned together */

typedef enum running { SUMS, PRODUCTS, EXPONENTIALS, LARGEST, LEAST } running;
typedef struct scan {
    const nx_array *self;
    nx_array *out, *indices; /* indices: of extremes */
    int dim, across;         /* across: the dimension along which a strip lies */
    nx_dtype in;
    running what;
} scan;

static double add_exponentials(double a, double b) {
    double low = a < b ? a : b, high = a < b ? b : a;
    if (a != a || b != b) return NAN;
    return low == high || isfinite(low) ? high + log1p(exp(low - high)) : high;
}

/* Of two elements, the later one b counts: the last of equal ones, and the last NaN. */
#define COUNTS(what, a, b) (((what) == LEAST ? (b) <= (a) : (b) >= (a)) || (b) != (b))

/* Whether a row of `a` can be worked on where it is. */
static inline bool lies_plain(const nx_array *a, int dim, nx_dtype dtype) {
    return a->dtype == dtype && nx__row_step(a, dim) == (int64_t)nx_dtype_bytes(dtype);
}

/* Integers wrap: they are added and multiplied as `wrapping`. */
#define DEFINE(real, code, wrapping)                                                                                 \
    static inline void extremes_##real(running what, real *x, int64_t *at, int64_t n) {                              \
        real best = x[0];                                                                                            \
        int64_t i = 0, place = 0;                                                                                    \
        for (; i < n && best == best; i++) {                                                                         \
            if (NX_UNLIKELY(!(what == LEAST ? x[i] > best : x[i] < best))) { /* a NaN counts, too */                 \
                best = x[i];                                                                                         \
                place = i;                                                                                           \
            }                                                                                                        \
            x[i] = best;                                                                                             \
            at[i] = place;                                                                                           \
        }                                                                                                            \
        for (; i < n; i++) { /* behind a NaN only others count */                                                    \
            place = x[i] != x[i] ? i : place;                                                                        \
            x[i] = best;                                                                                             \
            at[i] = place;                                                                                           \
        }                                                                                                            \
    }                                                                                                                \
    static void scan_row_##real(const scan *s, int64_t row, real *x, int64_t *at) {                                  \
        int64_t n = nx__row_length(s->out, s->dim);                                                                  \
        if (lies_plain(s->out, s->dim, code)) x = (real *)nx__row_at(s->out, s->dim, row);                           \
        if (s->indices && lies_plain(s->indices, s->dim, NX_I64)) at = (int64_t *)nx__row_at(s->indices, s->dim, row);\
        nx__order_load(code, x, s->self, s->dim, row);                                                               \
        real total = x[0];                                                                                           \
        if (s->what == LARGEST) extremes_##real(LARGEST, x, at, n);                                                  \
        else if (s->what == LEAST) extremes_##real(LEAST, x, at, n);                                                 \
        else if (s->what == EXPONENTIALS) {                                                                          \
            for (int64_t i = 1; i < n; i++) x[i] = (real)add_exponentials((double)x[i - 1], (double)x[i]);           \
        } else if (s->what == SUMS) {                                                                                \
            for (int64_t i = 1; i < n; i++) x[i] = total = (real)((wrapping)total + (wrapping)x[i]);                 \
        } else {                                                                                                     \
            for (int64_t i = 1; i < n; i++) x[i] = total = (real)((wrapping)total * (wrapping)x[i]);                 \
        }                                                                                                            \
        if (!lies_plain(s->out, s->dim, code)) nx__row_store(code, x, s->out, s->dim, row);                          \
        if (s->indices && !lies_plain(s->indices, s->dim, NX_I64)) nx__row_store(NX_I64, at, s->indices, s->dim, row);\
    }                                                                                                                \
    static inline void choose_##real(running what, real *best, int64_t *at, const real *x, int64_t i, int n) {       \
        for (int c = 0; c < n; c++) {                                                                                \
            const bool counts = COUNTS(what, best[c], x[c]);                                                         \
            best[c] = counts ? x[c] : best[c];                                                                       \
            at[c] = counts ? i : at[c];                                                                              \
        }                                                                                                            \
    }                                                                                                                \
    /* Element i of n rows, x, into what has been found of them so far. */                                           \
    static void advance_##real(running what, real *restrict total, int64_t *restrict at, const real *restrict x,     \
                               int64_t i, int n) {                                                                   \
        if (i == 0) {                                                                                                \
            memcpy(total, x, sizeof *x * (size_t)n);                                                                 \
            memset(at, 0, sizeof *at * (size_t)n);                                                                   \
        } else if (what == LARGEST) choose_##real(LARGEST, total, at, x, i, n);                                      \
        else if (what == LEAST) choose_##real(LEAST, total, at, x, i, n);                                            \
        else if (what == EXPONENTIALS) {                                                                             \
            for (int c = 0; c < n; c++) total[c] = (real)add_exponentials((double)total[c], (double)x[c]);           \
        } else if (what == SUMS) {                                                                                   \
            for (int c = 0; c < n; c++) total[c] = (real)((wrapping)total[c] + (wrapping)x[c]);                      \
        } else {                                                                                                     \
            for (int c = 0; c < n; c++) total[c] = (real)((wrapping)total[c] * (wrapping)x[c]);                      \
        }                                                                                                            \
    }
DEFINE(float, NX_F32, float)
DEFINE(double, NX_F64, double)
DEFINE(int64_t, NX_I64, uint64_t)
#undef DEFINE

static void scan_row_complex(const scan *s, int64_t row, double _Complex *x) {
    int64_t n = nx__row_length(s->out, s->dim);
    nx__order_load(NX_C128, x, s->self, s->dim, row);
    for (int64_t i = 1; i < n; i++) {
        x[i] = s->what == SUMS ? x[i - 1] + x[i] : s->what == PRODUCTS ? nx_complex_mul(x[i - 1], x[i])
                                                                       : nx_complex_add_exp(x[i - 1], x[i]);
    }
    nx__row_store(NX_C128, x, s->out, s->dim, row);
}

/* Rows of float32 whose sums or products go on side by side: a sum waits for the one before it, but not for other rows'. */
enum { CHAINS = 4 };
static void scan_chains(const scan *s, int64_t row) {
    int64_t n = nx__row_length(s->out, s->dim);
    double total[CHAINS];
    const float *from[CHAINS];
    float *to[CHAINS];
    for (int r = 0; r < CHAINS; r++) {
        from[r] = (const float *)nx__row_at(s->self, s->dim, row + r);
        to[r] = (float *)nx__row_at(s->out, s->dim, row + r);
        total[r] = to[r][0] = from[r][0];
    }
    for (int64_t i = 1; s->what == SUMS && i < n; i++)
        for (int r = 0; r < CHAINS; r++) to[r][i] = (float)(total[r] += from[r][i]);
    for (int64_t i = 1; s->what == PRODUCTS && i < n; i++)
        for (int r = 0; r < CHAINS; r++) to[r][i] = (float)(total[r] *= from[r][i]);
}

static bool is_chain(const scan *s) {
    bool adds = s->what == SUMS || s->what == PRODUCTS;
    return adds && s->in == NX_F64 && lies_plain(s->self, s->dim, NX_F32) && lies_plain(s->out, s->dim, NX_F32);
}

static nx_status scan_rows(void *arg, int64_t begin, int64_t end) {
    const scan *s = arg;
    if (is_chain(s)) {
        for (; begin + CHAINS <= end; begin += CHAINS) scan_chains(s, begin);
    }
    int64_t n = nx__row_length(s->out, s->dim);
    size_t bytes;
    NX_TRY(nx_bytes_of(n, 16, &bytes));
    char *room = nx_room_new(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    int64_t *at = (int64_t *)(room + n * 8);
    for (int64_t row = begin; row < end; row++) {
        if (s->in == NX_F32) scan_row_float(s, row, (float *)room, at);
        else if (s->in == NX_F64) scan_row_double(s, row, (double *)room, at);
        else if (s->in == NX_C128) scan_row_complex(s, row, (double _Complex *)room);
        else scan_row_int64_t(s, row, (int64_t *)room, at);
    }
    nx_room_free(room);
    return NX_OK;
}

/* ---- strips: rows that differ in their place along `across` ------------------------------------------------------- */
/* Where the first element of strip `nth` lies; *n: how many rows it has. */
static char *strip_at(const scan *s, const nx_array *a, int64_t nth, int *n) {
    int64_t width = a->sizes[s->across], per_row = (width + STRIP - 1) / STRIP, first = nth % per_row * STRIP;
    int64_t offset = first * a->strides[s->across];
    *n = (int)(width - first < STRIP ? width - first : STRIP);
    nth /= per_row;
    for (int d = a->ndim - 1; d >= 0; d--) {
        if (d == s->dim || d == s->across) continue;
        offset += nth % a->sizes[d] * a->strides[d];
        nth /= a->sizes[d];
    }
    return (char *)a->data + offset * (int64_t)nx_dtype_bytes(a->dtype);
}

static nx_status scan_strips(void *arg, int64_t begin, int64_t end) {
    const scan *s = arg;
    _Alignas(64) char x[STRIP * 8], total[STRIP * 8];
    int64_t at[STRIP], bytes = (int64_t)nx_dtype_bytes(s->in), length = s->out->sizes[s->dim];
    for (int64_t k = begin; k < end; k++) {
        int n;
        const char *from = strip_at(s, s->self, k, &n);
        char *to = strip_at(s, s->out, k, &n), *places = s->indices ? strip_at(s, s->indices, k, &n) : NULL;
        int64_t from_bytes = (int64_t)nx_dtype_bytes(s->self->dtype), to_bytes = (int64_t)nx_dtype_bytes(s->out->dtype);
        for (int64_t i = 0; i < length; i++) {
            nx_cast(s->in, x, bytes, (nx_dtype)s->self->dtype, from + i * s->self->strides[s->dim] * from_bytes,
                    s->self->strides[s->across] * from_bytes, n);
            if (s->in == NX_F32) advance_float(s->what, (float *)total, at, (const float *)x, i, n);
            else if (s->in == NX_F64) advance_double(s->what, (double *)total, at, (const double *)x, i, n);
            else advance_int64_t(s->what, (int64_t *)total, at, (const int64_t *)x, i, n);
            nx_cast((nx_dtype)s->out->dtype, to + i * s->out->strides[s->dim] * to_bytes,
                    s->out->strides[s->across] * to_bytes, s->in, total, bytes, n);
            if (places == NULL) continue;
            nx_cast(NX_I64, places + i * s->indices->strides[s->dim] * 8, s->indices->strides[s->across] * 8, NX_I64,
                    (const char *)at, 8, n);
        }
    }
    return NX_OK;
}

/* The dimension along which the elements lie side by side, if there is one and it is not the one that is scanned. */
static bool lies_across(const nx_array *self, const nx_array *out, int dim, int *across) {
    for (int d = 0; d < out->ndim; d++) {
        if (d == dim || out->sizes[d] < 8 || self->strides[d] != 1 || out->strides[d] != 1) continue;
        *across = d;
        return true;
    }
    return false;
}

static nx_status run_scan(scan *s) {
    if (s->out->numel == 0) return NX_OK;
    int64_t n = nx__row_length(s->out, s->dim);
    if (!nx_same_strides(s->self, s->out) && s->self->dtype == s->out->dtype) { /* laid out as the results, scanned in place */
        nx_copy_cast(s->out, s->self);
        s->self = s->out;
    }
    if (s->in == NX_C128 || !lies_across(s->self, s->out, s->dim, &s->across))
        return nx_parallel(s->out->numel / n, nx__row_grain(n), scan_rows, s);
    int64_t width = s->out->sizes[s->across], strips = s->out->numel / n / width * ((width + STRIP - 1) / STRIP);
    return nx_parallel(strips, nx__row_grain(n * STRIP), scan_strips, s);
}

/* In place the results have self's dtype, whatever new ones would have; another one cannot be asked for. */
static nx_status run_typed(nx_run *run, const nx_array *self, int64_t dim, nx_value dtype, nx_array *out, running what) {
    if (out->dtype == NX_BOOL)
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: not implemented for 'Bool' in place", nx_op_name(run->op));
    if (dtype.tag == NX_TAG_DTYPE && dtype.i != out->dtype) {
        return nx_fail(NX_RUNTIME,
                       "%s: Bad in-place call: input tensor dtype %s and output tensor dtype %s should match",
                       nx_op_name(run->op), nx_dtype_kind((nx_dtype)out->dtype), nx_dtype_kind((nx_dtype)dtype.i));
    }
    bool half = out->dtype == NX_F16 || out->dtype == NX_BF16;
    nx_dtype in = half ? NX_F32 : nx_is_float((nx_dtype)out->dtype) ? NX_F64 : NX_I64;
    if (nx_is_complex((nx_dtype)out->dtype)) in = NX_C128;
    return run_scan(&(scan){.self = self, .out = out, .dim = (int)dim, .in = in, .what = what});
}
nx_status nx__cumsum_rows(nx_run *run, const nx_array *self, int64_t dim, nx_value dtype, nx_array *out) {
    return run_typed(run, self, dim, dtype, out, SUMS);
}
nx_status nx__cumprod_rows(nx_run *run, const nx_array *self, int64_t dim, nx_value dtype, nx_array *out) {
    return run_typed(run, self, dim, dtype, out, PRODUCTS);
}
nx_status nx__logcumsumexp_rows(nx_run *run, const nx_array *self, int64_t dim, nx_array *out) {
    nx_dtype in = nx_is_complex((nx_dtype)out->dtype) ? NX_C128 : nx__order_dtype(out->dtype);
    return run_scan(&(scan){.self = self, .out = out, .dim = (int)dim, .in = in, .what = EXPONENTIALS});
}
nx_status nx__running_extremes(nx_run *run, const nx_array *self, int64_t dim, bool least, nx_array *values, nx_array *indices) {
    return run_scan(&(scan){.self = self, .out = values, .indices = indices, .dim = (int)dim, .in = nx__order_dtype(self->dtype),
                            .what = least ? LEAST : LARGEST});
}
