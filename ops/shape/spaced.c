/* Kernels of factory.op that count: arange, linspace, logspace. What they are of floats spaced_rows.c says; integers are
 * counted in int64, or in double and cut off. Numbers are written on as many threads as it is worth, with the same bits. */
#include "gen/kernels.h"
#include "iter/iter.h"
#include "shape/spaced_rows.h"

#include <complex.h>
#include <math.h>

enum { COUNTED = 512 }; /* so many elements at a time in the widest type, then cast */
typedef struct counting {
    nx__spaced s;
    nx__spaced imag; /* the same of the imaginary parts */
    const nx_array *out;
    int64_t first_int, step_int;
    double base; /* of logspace */
    nx__spaced_fn *rows;
} counting;

static const nx__spaced_rows *rows_of_level(void) {
    static const nx__spaced_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__spaced_rows)};
    return rows[nx_level()];
}

static char *place(const counting *c, int64_t k) { return (char *)c->out->data + k * (int64_t)nx_dtype_bytes((nx_dtype)c->out->dtype); }

static nx_status count_rows(void *arg, int64_t begin, int64_t end) {
    const counting *c = arg;
    c->rows(&c->s, place(c, begin), begin, end);
    return NX_OK;
}

/* Numbers of `wide` that `fill` makes, cast to the dtype, which is written row by row. */
static nx_status count_cast(const counting *c, int64_t begin, int64_t end, nx_dtype wide,
                            void (*fill)(const counting *, void *, int64_t, int64_t)) {
    const nx_dtype dtype = (nx_dtype)c->out->dtype;
    const int64_t bytes = (int64_t)nx_dtype_bytes(dtype), wide_bytes = (int64_t)nx_dtype_bytes(wide);
    double x[2 * COUNTED];
    for (int64_t at = begin, part; at < end; at += part) {
        part = nx_least(COUNTED, end - at);
        void *to = wide == dtype ? (void *)place(c, at) : x;
        fill(c, to, at, at + part);
        if (wide != dtype) nx_cast(dtype, place(c, at), bytes, wide, (const char *)x, wide_bytes, part);
    }
    return NX_OK;
}

static nx_status check_counted(const char *name, const nx_array *out) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    bool counts = !nx_is_stored(dtype) && !nx_is_complex(dtype) && (dtype != NX_BOOL || name[0] == 'a');
    return counts ? NX_OK : nx_fail(NX_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", name, nx_dtype_kind(dtype));
}

/* ---- arange ------------------------------------------------------------------------------------------------- */
static void fill_ints(const counting *c, void *to, int64_t begin, int64_t end) {
    uint64_t *x = to, step = (uint64_t)c->step_int, first = (uint64_t)c->first_int;
    for (int64_t k = begin; k < end; k++) x[k - begin] = first + (uint64_t)k * step;
}
static nx_status count_ints(void *arg, int64_t begin, int64_t end) { return count_cast(arg, begin, end, NX_I64, fill_ints); }

nx_status nx__arange(nx_run *run, nx_array *out, nx_value start, nx_value step) {
    counting c = {.out = out, .s.n = out->numel};
    NX_TRY(check_counted("arange_cpu", out));
    if (nx_is_float((nx_dtype)out->dtype)) {
        c.s.first = nx_value_as_float(&start);
        c.s.step = nx_value_as_float(&step);
        c.rows = rows_of_level()->count[out->dtype];
        return nx_parallel(out->numel, nx_grain(16), count_rows, &c);
    }
    c.first_int = nx_value_as_int(&start);
    c.step_int = nx_value_as_int(&step);
    return nx_parallel(out->numel, nx_grain(16), count_ints, &c);
}

/* ---- linspace and logspace: from both ends, so that the last one is exact ---------------------------------- */
/* x as numbers of `dtype` are. */
static double rounded(nx_dtype dtype, double x) {
    char stored[8];
    if (dtype == NX_F64 || dtype == NX_F32) return dtype == NX_F64 ? x : (float)x;
    nx_cast(dtype, stored, 0, NX_F64, (const char *)&x, 0, 1);
    nx_cast(NX_F64, (char *)&x, 0, dtype, stored, 0, 1);
    return x;
}

/* Number k of those whose powers are wanted, in `dtype`: its product is rounded for itself. */
static double between(nx_dtype dtype, const nx__spaced *s, int64_t k) {
    bool front = k < s->n / 2;
    double part = rounded(dtype, s->step * (double)(front ? k : s->n - 1 - k));
    return rounded(dtype, front ? s->first + part : s->last - part);
}

static void fill_between(const counting *c, void *to, int64_t begin, int64_t end) {
    rows_of_level()->between[NX_F64](&c->s, to, begin, end);
}
static nx_status count_between(void *arg, int64_t begin, int64_t end) { return count_cast(arg, begin, end, NX_F64, fill_between); }

static void fill_complex(const counting *c, void *to, int64_t begin, int64_t end) {
    const nx_dtype part = c->out->dtype == NX_C128 ? NX_F64 : NX_F32;
    double (*x)[2] = to;
    for (int64_t k = begin; k < end; k++) {
        union { float f; double d; } re, im;
        rows_of_level()->between[part](&c->s, &re, k, k + 1);
        rows_of_level()->between[part](&c->imag, &im, k, k + 1);
        x[k - begin][0] = part == NX_F64 ? re.d : re.f;
        x[k - begin][1] = part == NX_F64 ? im.d : im.f;
    }
}
static nx_status count_complex(void *arg, int64_t begin, int64_t end) { return count_cast(arg, begin, end, NX_C128, fill_complex); }

static void fill_powers(const counting *c, void *to, int64_t begin, int64_t end) {
    double *x = to;
    for (int64_t k = begin; k < end; k++) x[k - begin] = pow(c->base, between(NX_F64, &c->s, k));
}
static nx_status count_powers(void *arg, int64_t begin, int64_t end) { return count_cast(arg, begin, end, NX_F64, fill_powers); }

static void fill_complex_powers(const counting *c, void *to, int64_t begin, int64_t end) {
    const bool is_double = c->out->dtype == NX_C128;
    const nx_dtype part = is_double ? NX_F64 : NX_F32;
    double complex *x = to;
    for (int64_t k = begin; k < end; k++) {
        double re = between(part, &c->s, k), im = between(part, &c->imag, k);
        x[k - begin] = is_double ? cpow(c->base, CMPLX(re, im)) : cpowf((float)c->base, CMPLXF((float)re, (float)im));
    }
}
static nx_status count_complex_powers(void *arg, int64_t begin, int64_t end) {
    return count_cast(arg, begin, end, NX_C128, fill_complex_powers);
}

/* A number as the dtype has it; fails where that is none. */
static nx_status as_stored(const nx_run *run, nx_dtype dtype, const nx_value *number, double *parts) {
    nx_const wide;
    char stored[16];
    if (!nx_number_fits(dtype, number)) return nx_fail_number(run, dtype);
    nx_const_cast(&wide, number, NX_C128);
    nx_cast(dtype, stored, 0, NX_C128, (const char *)wide.parts, 0, 1);
    nx_cast(NX_C128, (char *)parts, 0, dtype, stored, 0, 1);
    return NX_OK;
}

/* The step as the dtype's own arithmetic gives it; of powers of real numbers it is divided in double,
 * of complex ones multiplied by what 1 is divided by. */
static nx__spaced spaced_between(nx_dtype dtype, double first, double last, int64_t n, bool powers) {
    bool is_complex = nx_is_complex(dtype);
    nx_dtype part = dtype == NX_C64 || dtype == NX_C32 ? NX_F32 : nx_is_float(dtype) ? dtype : NX_F64;
    double steps = (double)(n - 1), step = rounded(part, last - first);
    if (powers && is_complex) step = rounded(part, step * rounded(part, 1 / rounded(part, steps)));
    else step = powers ? step / steps : rounded(part, step / rounded(part, steps));
    return (nx__spaced){.first = first, .last = last, .n = n, .step = step};
}

/* Into c what follows from the ends. */
static nx_status set_ends(const nx_run *run, counting *c, const nx_value *start, const nx_value *end, bool powers) {
    const nx_dtype dtype = (nx_dtype)c->out->dtype;
    double a[2], b[2];
    NX_TRY(as_stored(run, dtype, start, a));
    NX_TRY(as_stored(run, dtype, end, b));
    c->s = spaced_between(dtype, a[0], b[0], c->out->numel, powers);
    c->imag = spaced_between(dtype, a[1], b[1], c->out->numel, powers);
    return NX_OK;
}

nx_status nx__linspace(nx_run *run, nx_array *out, nx_value start, nx_value end) {
    const nx_dtype dtype = (nx_dtype)out->dtype;
    counting c = {.out = out};
    if (out->numel == 0) return NX_OK;
    if (out->numel == 1) return nx_fill(run, out, start);
    if (nx_is_complex(dtype)) {
        NX_TRY(set_ends(run, &c, &start, &end, false));
        return nx_parallel(out->numel, nx_grain(16), count_complex, &c);
    }
    NX_TRY(check_counted("linspace_cpu", out));
    NX_TRY(set_ends(run, &c, &start, &end, false));
    c.rows = rows_of_level()->between[dtype];
    return nx_parallel(out->numel, nx_grain(16), c.rows ? count_rows : count_between, &c);
}

nx_status nx__logspace(nx_run *run, nx_array *out, nx_value start, nx_value end, double base) {
    const nx_dtype dtype = (nx_dtype)out->dtype;
    counting c = {.out = out, .base = base};
    if (out->numel == 0) return NX_OK;
    if (out->numel == 1) {
        nx_const first;
        nx_const_cast(&first, &start, NX_C128);
        double complex power = nx_is_complex(dtype) ? cpow(base, CMPLX(first.parts[0], first.parts[1])) : pow(base, first.parts[0]);
        double parts[2] = {creal(power), cimag(power)};
        return nx_fill(run, out, nx_is_complex(dtype) ? nx_value_complex(parts) : nx_value_float(parts[0]));
    }
    if (!nx_is_complex(dtype)) NX_TRY(check_counted("logspace_cpu", out));
    NX_TRY(set_ends(run, &c, &start, &end, true));
    return nx_parallel(out->numel, nx_grain(64), nx_is_complex(dtype) ? count_complex_powers : count_powers, &c);
}

/* The one element as a number; `parts` holds those of a complex one. */
static nx_value number_of(const nx_array *x, double *parts) {
    const nx_dtype dtype = (nx_dtype)x->dtype;
    int64_t i;
    nx_cast(NX_C128, (char *)parts, 0, dtype, x->data, 0, 1);
    if (nx_is_complex(dtype)) return nx_value_complex(parts);
    if (nx_is_float(dtype)) return nx_value_float(parts[0]);
    nx_cast(NX_I64, (char *)&i, 0, dtype, x->data, 0, 1);
    return nx_value_int(i);
}

nx_status nx__linspace_tensors(nx_run *run, nx_array *out, const nx_array *start, const nx_array *end) {
    double parts[2][2];
    return nx__linspace(run, out, number_of(start, parts[0]), number_of(end, parts[1]));
}

nx_status nx__logspace_tensors(nx_run *run, nx_array *out, const nx_array *start, const nx_array *end, double base) {
    double parts[2][2];
    return nx__logspace(run, out, number_of(start, parts[0]), number_of(end, parts[1]), base);
}
