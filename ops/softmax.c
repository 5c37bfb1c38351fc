/* Kernels of softmax.op: each row along one dimension is brought into a buffer of float (double for float64), computed
 * there and cast back, so that every dtype and every stride takes the same way. Rows are independent: they are split
 * over threads. Next: rows.h. */
#include "gen/kernels.h"
#include "rows.h"

#include <math.h>

typedef struct softmax {
    const nx_array *x, *y; /* y: only of a derivative */
    nx_array *out;
    int dim;
    bool logarithm;
} softmax;

#define DEFINE(real, exp_, log_, dtype)                                                                          \
    static void row_##real(real *x, int64_t n, bool logarithm) {                                                 \
        real top = -INFINITY, sum = 0;                                                                           \
        for (int64_t i = 0; i < n; i++) top = x[i] > top || x[i] != x[i] ? x[i] : top;                           \
        if (logarithm) {                                                                                         \
            for (int64_t i = 0; i < n; i++) sum += exp_(x[i] - top);                                             \
            sum = log_(sum);                                                                                     \
            for (int64_t i = 0; i < n; i++) x[i] = x[i] - top - sum;                                             \
            return;                                                                                              \
        }                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                        \
            x[i] = exp_(x[i] - top);                                                                             \
            sum += x[i];                                                                                         \
        }                                                                                                        \
        sum = 1 / sum;                                                                                           \
        for (int64_t i = 0; i < n; i++) x[i] *= sum;                                                             \
    }                                                                                                            \
    static nx_status rows_##real(void *arg, int64_t begin, int64_t end) {                                        \
        const softmax *s = arg;                                                                                  \
        int64_t n = nx__row_length(s->out, s->dim);                                                              \
        real *x = nx_alloc((size_t)n * sizeof *x);                                                               \
        if (x == NULL) return NX_NO_MEMORY;                                                                      \
        for (int64_t r = begin; r < end; r++) {                                                                  \
            nx__row_load(dtype, x, s->x, s->dim, r);                                                             \
            row_##real(x, n, s->logarithm);                                                                      \
            nx__row_store(dtype, x, s->out, s->dim, r);                                                          \
        }                                                                                                        \
        nx_free(x);                                                                                              \
        return NX_OK;                                                                                            \
    }                                                                                                            \
    /* g - exp(y)*sum(g) for the logarithm, y*(g - sum(g*y)) else */                                             \
    static void row_backward_##real(real *g, const real *y, int64_t n, bool logarithm) {                         \
        real sum = 0;                                                                                            \
        if (logarithm) {                                                                                         \
            for (int64_t i = 0; i < n; i++) sum += g[i];                                                         \
            for (int64_t i = 0; i < n; i++) g[i] -= exp_(y[i]) * sum;                                            \
            return;                                                                                              \
        }                                                                                                        \
        for (int64_t i = 0; i < n; i++) sum += g[i] * y[i];                                                      \
        for (int64_t i = 0; i < n; i++) g[i] = y[i] * (g[i] - sum);                                              \
    }                                                                                                            \
    static nx_status rows_backward_##real(void *arg, int64_t begin, int64_t end) {                               \
        const softmax *s = arg;                                                                                  \
        int64_t n = nx__row_length(s->out, s->dim);                                                              \
        real *g = nx_alloc(2 * (size_t)n * sizeof *g), *y = g + n;                                               \
        if (g == NULL) return NX_NO_MEMORY;                                                                      \
        for (int64_t r = begin; r < end; r++) {                                                                  \
            nx__row_load(dtype, g, s->x, s->dim, r);                                                             \
            nx__row_load(dtype, y, s->y, s->dim, r);                                                             \
            row_backward_##real(g, y, n, s->logarithm);                                                          \
            nx__row_store(dtype, g, s->out, s->dim, r);                                                          \
        }                                                                                                        \
        nx_free(g);                                                                                              \
        return NX_OK;                                                                                            \
    }
DEFINE(float, expf, logf, NX_F32)
DEFINE(double, exp, log, NX_F64)

static nx_status run_rows(const softmax *s, nx_parallel_fn *of_float, nx_parallel_fn *of_double) {
    int64_t n = nx__row_length(s->out, s->dim);
    if (s->out->numel == 0) return NX_OK;
    nx_parallel_fn *body = s->out->dtype == NX_F64 ? of_double : of_float;
    return nx_parallel(s->out->numel / n, nx__row_grain(n), body, (void *)s);
}

nx_status nx__softmax_rows(nx_run *run, const nx_array *self, int64_t dim, nx_array *out) {
    return run_rows(&(softmax){self, NULL, out, (int)dim, false}, rows_float, rows_double);
}

nx_status nx__log_softmax_rows(nx_run *run, const nx_array *self, int64_t dim, nx_array *out) {
    return run_rows(&(softmax){self, NULL, out, (int)dim, true}, rows_float, rows_double);
}

nx_status nx__softmax_backward_rows(nx_run *run, const nx_array *grad_output, const nx_array *output, int64_t dim,
                                    nx_array *out) {
    return run_rows(&(softmax){grad_output, output, out, (int)dim, false}, rows_backward_float, rows_backward_double);
}

nx_status nx__log_softmax_backward_rows(nx_run *run, const nx_array *grad_output, const nx_array *output, int64_t dim,
                                        nx_array *out) {
    return run_rows(&(softmax){grad_output, output, out, (int)dim, true}, rows_backward_float, rows_backward_double);
}
