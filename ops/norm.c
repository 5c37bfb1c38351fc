/* Kernels of norm.op. Rows, the elements that share a mean, lie side by side once the operands are row-major; each is
 * brought into a buffer of float64 and computed there. The gradients of weight and bias add up over the rows: every
 * thread takes some columns and goes through all rows in order, so the sum does not depend on their number. */
#include "gen/kernels.h"

#include <math.h>

/* A row-major array with the elements of `a`: `a` itself, or a copy that the caller releases. */
static nx_status row_major(const nx_array *a, const nx_array **out, nx_tensor **owned) {
    *owned = NULL;
    *out = a;
    if (a == NULL || a->contiguous) return NX_OK;
    NX_TRY(nx_tensor_new((nx_dtype)a->dtype, a->ndim, a->sizes, NX_CPU, owned));
    *out = nx_tensor_array(*owned);
    nx_copy_cast(*out, a);
    return NX_OK;
}

static void load(double *to, const nx_array *a, int64_t first, int64_t n) {
    int64_t bytes = (int64_t)nx_dtype_bytes(a->dtype);
    nx_cast(NX_F64, (char *)to, sizeof *to, a->dtype, (const char *)a->data + first * bytes, bytes, n);
}
static void store(const nx_array *a, int64_t first, const double *from, int64_t n) {
    int64_t bytes = (int64_t)nx_dtype_bytes(a->dtype);
    nx_cast(a->dtype, (char *)a->data + first * bytes, bytes, NX_F64, (const char *)from, sizeof *from, n);
}

enum { STRANDS = 8 };
static double sum(const double *x, int64_t n) {
    double s[STRANDS] = {0};
    int64_t i = 0;
    for (; i + STRANDS <= n; i += STRANDS)
        for (int k = 0; k < STRANDS; k++) s[k] += x[i + k];
    for (; i < n; i++) s[i % STRANDS] += x[i];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}
static double sum_products(const double *x, const double *y, int64_t n) {
    double s[STRANDS] = {0};
    int64_t i = 0;
    for (; i + STRANDS <= n; i += STRANDS)
        for (int k = 0; k < STRANDS; k++) s[k] += x[i + k] * y[i + k];
    for (; i < n; i++) s[i % STRANDS] += x[i] * y[i];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

typedef struct norm {
    const nx_array *x, *weight, *bias, *g, *mean, *rstd;
    nx_array *out, *out_mean, *out_rstd, *out_weight, *out_bias;
    nx_tensor *owned[5]; /* copies in row-major order */
    double eps;
    int64_t n, n_rows;
} norm;

static void release(norm *w) {
    for (int k = 0; k < NX_COUNT(w->owned); k++) nx_tensor_unref(w->owned[k]);
}

static void measure(norm *w, const nx_array *input, const int64_t *shape, int n_shape) {
    w->n = nx_numel(n_shape, shape);
    w->n_rows = w->n ? input->numel / w->n : 0;
}

static int64_t grain(const norm *w) { return w->n >= 8192 ? 1 : 8192 / (w->n > 0 ? w->n : 1); }

/* ---- forward ------------------------------------------------------------------------------------------- */
static nx_status forward_rows(void *arg, int64_t begin, int64_t end) {
    const norm *w = arg;
    int64_t n = w->n;
    double *x = nx_alloc(3 * (size_t)n * sizeof *x), *weight = x + n, *bias = weight + n;
    if (x == NULL) return NX_NO_MEMORY;
    if (w->weight) load(weight, w->weight, 0, n);
    if (w->bias) load(bias, w->bias, 0, n);
    for (int64_t r = begin; r < end; r++) {
        load(x, w->x, r * n, n);
        double mean = sum(x, n) / (double)n;
        for (int64_t i = 0; i < n; i++) x[i] -= mean;
        double rstd = 1 / sqrt(sum_products(x, x, n) / (double)n + w->eps);
        for (int64_t i = 0; i < n; i++) x[i] *= rstd;
        for (int64_t i = 0; w->weight && i < n; i++) x[i] *= weight[i];
        for (int64_t i = 0; w->bias && i < n; i++) x[i] += bias[i];
        store(w->out, r * n, x, n);
        store(w->out_mean, r, &mean, 1);
        store(w->out_rstd, r, &rstd, 1);
    }
    nx_free(x);
    return NX_OK;
}

nx_status nx__layer_norm_rows(nx_run *run, const nx_array *input, const int64_t *normalized_shape,
                              int n_normalized_shape, const nx_array *weight, const nx_array *bias, double eps,
                              nx_array *result0, nx_array *result1, nx_array *result2) {
    nx_status status = NX_OK;
    norm w = {.out = result0, .out_mean = result1, .out_rstd = result2, .eps = eps};
    measure(&w, input, normalized_shape, n_normalized_shape);
    NX_TRY_FAIL(row_major(input, &w.x, &w.owned[0]));
    NX_TRY_FAIL(row_major(weight, &w.weight, &w.owned[1]));
    NX_TRY_FAIL(row_major(bias, &w.bias, &w.owned[2]));
    if (w.n_rows) NX_TRY_FAIL(nx_parallel(w.n_rows, grain(&w), forward_rows, &w));
fail:
    release(&w);
    return status;
}

/* ---- backward ------------------------------------------------------------------------------------------ */
/* With h the normalised row and u = g*weight: rstd*(u - mean(u) - h*mean(u*h)). */
static nx_status backward_rows(void *arg, int64_t begin, int64_t end) {
    const norm *w = arg;
    int64_t n = w->n;
    double *h = nx_alloc(3 * (size_t)n * sizeof *h), *g = h + n, *weight = g + n;
    if (h == NULL) return NX_NO_MEMORY;
    if (w->weight) load(weight, w->weight, 0, n);
    for (int64_t r = begin; r < end; r++) {
        double mean, rstd;
        load(&mean, w->mean, r, 1);
        load(&rstd, w->rstd, r, 1);
        load(h, w->x, r * n, n);
        load(g, w->g, r * n, n);
        for (int64_t i = 0; i < n; i++) h[i] = (h[i] - mean) * rstd;
        for (int64_t i = 0; w->weight && i < n; i++) g[i] *= weight[i];
        double a = sum(g, n) / (double)n, b = sum_products(g, h, n) / (double)n;
        for (int64_t i = 0; i < n; i++) g[i] = rstd * (g[i] - a - h[i] * b);
        store(w->out, r * n, g, n);
    }
    nx_free(h);
    return NX_OK;
}

/* Columns begin .. end of the gradients of weight and bias. */
static nx_status backward_columns(void *arg, int64_t begin, int64_t end) {
    const norm *w = arg;
    int64_t n = end - begin;
    double *x = nx_alloc(4 * (size_t)n * sizeof *x), *g = x + n, *to_weight = g + n, *to_bias = to_weight + n;
    if (x == NULL) return NX_NO_MEMORY;
    memset(to_weight, 0, 2 * (size_t)n * sizeof *x);
    for (int64_t r = 0; r < w->n_rows; r++) {
        double mean, rstd;
        load(&mean, w->mean, r, 1);
        load(&rstd, w->rstd, r, 1);
        load(x, w->x, r * w->n + begin, n);
        load(g, w->g, r * w->n + begin, n);
        for (int64_t i = 0; i < n; i++) to_weight[i] += g[i] * ((x[i] - mean) * rstd);
        for (int64_t i = 0; i < n; i++) to_bias[i] += g[i];
    }
    if (w->out_weight) store(w->out_weight, begin, to_weight, n);
    if (w->out_bias) store(w->out_bias, begin, to_bias, n);
    nx_free(x);
    return NX_OK;
}

nx_status nx__layer_norm_backward_rows(nx_run *run, const nx_array *grad_out, const nx_array *input,
                                       const int64_t *normalized_shape, int n_normalized_shape, const nx_array *mean,
                                       const nx_array *rstd, const nx_array *weight, const nx_array *bias,
                                       nx_value output_mask, nx_array *result0, nx_array *result1, nx_array *result2) {
    nx_status status = NX_OK;
    norm w = {.out = result0, .out_weight = result1, .out_bias = result2};
    measure(&w, input, normalized_shape, n_normalized_shape);
    NX_TRY_FAIL(row_major(grad_out, &w.g, &w.owned[0]));
    NX_TRY_FAIL(row_major(input, &w.x, &w.owned[1]));
    NX_TRY_FAIL(row_major(weight, &w.weight, &w.owned[2]));
    NX_TRY_FAIL(row_major(mean, &w.mean, &w.owned[3]));
    NX_TRY_FAIL(row_major(rstd, &w.rstd, &w.owned[4]));
    if (w.out && w.n_rows) NX_TRY_FAIL(nx_parallel(w.n_rows, grain(&w), backward_rows, &w));
    if ((w.out_weight || w.out_bias) && w.n) {
        int64_t columns = w.n_rows ? 8192 / w.n_rows + 16 : w.n;
        NX_TRY_FAIL(nx_parallel(w.n, columns, backward_columns, &w));
    }
fail:
    release(&w);
    return status;
}
