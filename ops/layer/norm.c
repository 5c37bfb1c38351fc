/* Kernels of norm.op. Rows, the elements that share a mean, lie side by side once the operands are row-major; each is
 * computed by the row kernels of src/kernel/row.c in float, double for float64, in place where it can be, else in a
 * buffer. The gradients of weight and bias add up over the rows: every thread takes some columns and goes through all
 * rows in order, so the sum does not depend on their number. */
#include "gen/kernels.h"
#include "kernel/kernel.h"

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

/* Whether rows of n elements are computed where they lie. */
static bool lies(nx_dtype computing, const nx_array *a, int64_t n) { return a->dtype == computing && nx_row_room(n) == n; }

/* n elements from `first` on in the computing type: where they lie if they can stay there, else in the buffer, filled
 * up with 0. */
static const void *load(nx_dtype computing, void *buffer, const nx_array *a, int64_t first, int64_t n) {
    int64_t bytes = (int64_t)nx_dtype_bytes(a->dtype), width = (int64_t)nx_dtype_bytes(computing);
    const char *from = (const char *)a->data + first * bytes;
    if (lies(computing, a, n)) return from;
    nx_cast(computing, buffer, width, a->dtype, from, bytes, n);
    memset((char *)buffer + n * width, 0, (size_t)((nx_row_room(n) - n) * width));
    return buffer;
}
static void store(nx_dtype computing, const void *from, const nx_array *a, int64_t first, int64_t n) {
    int64_t bytes = (int64_t)nx_dtype_bytes(a->dtype);
    char *to = (char *)a->data + first * bytes;
    if (to != from) nx_cast(a->dtype, to, bytes, computing, from, (int64_t)nx_dtype_bytes(computing), n);
}
static double number_at(const nx_array *a, int64_t at) {
    double x;
    if (a->dtype == NX_F32) return ((const float *)a->data)[at];
    int64_t bytes = (int64_t)nx_dtype_bytes(a->dtype);
    nx_cast(NX_F64, (char *)&x, 0, a->dtype, (const char *)a->data + at * bytes, 0, 1);
    return x;
}
static void put_number(const nx_array *a, int64_t at, double x) {
    if (a->dtype == NX_F32) ((float *)a->data)[at] = (float)x;
    else store(NX_F64, &x, a, at, 1);
}
static nx_dtype computing_dtype(const nx_array *a) { return a->dtype == NX_F64 ? NX_F64 : NX_F32; }
/* Where a row is computed: in the result itself if its type and its length allow, else in the buffer. */
static void *place(nx_dtype computing, void *buffer, const nx_array *out, int64_t first, int64_t n) {
    return lies(computing, out, n) ? (char *)out->data + first * (int64_t)nx_dtype_bytes(computing) : buffer;
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

/* The rows that are computed at once: several where they are read and written where they lie, and short: longer ones
 * are brought from memory while the one before is computed. */
enum { NUMBERS_FORWARD = 512, NUMBERS_BACKWARD = 4096 };
static int64_t rows_together(const norm *w, nx_dtype computing) {
    const bool lie = lies(computing, w->x, w->n) && lies(computing, w->out, w->n);
    if (!lie || (w->g && !lies(computing, w->g, w->n))) return 1;
    const int64_t fit = (w->g ? NUMBERS_BACKWARD : NUMBERS_FORWARD) / w->n;
    return fit < 1 ? 1 : nx_least(fit, NX_NORM_ROWS);
}

static int64_t grain(const norm *w) { return w->n >= 8192 ? 1 : 8192 / (w->n > 0 ? w->n : 1); }

/* ---- forward ------------------------------------------------------------------------------------------- */
static nx_status forward_rows(void *arg, int64_t begin, int64_t end) {
    const norm *w = arg;
    nx_dtype computing = computing_dtype(w->x);
    const nx_rows *rows = nx_rows_get(computing);
    int64_t n = w->n, room = nx_row_room(n), together = rows_together(w, computing);
    size_t bytes = (size_t)room * nx_dtype_bytes(computing);
    char *buffer = nx_alloc(3 * bytes + 1);
    if (buffer == NULL) return nx_fail_memory(3 * bytes);
    const void *weight = w->weight ? load(computing, buffer + bytes, w->weight, 0, n) : NULL;
    const void *bias = w->bias ? load(computing, buffer + 2 * bytes, w->bias, 0, n) : NULL;
    for (int64_t r = begin, many; r < end; r += many) {
        double mean[NX_NORM_ROWS], rstd[NX_NORM_ROWS];
        many = nx_least(together, end - r);
        const void *x = load(computing, buffer, w->x, r * n, n);
        void *out = place(computing, buffer, w->out, r * n, n);
        rows->norm(out, x, weight, bias, w->eps, n, room, (int)many, mean, rstd);
        store(computing, out, w->out, r * n, n);
        for (int64_t k = 0; k < many; k++) {
            put_number(w->out_mean, r + k, mean[k]);
            put_number(w->out_rstd, r + k, rstd[k]);
        }
    }
    nx_free(buffer);
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
    for (int64_t r = 0; w.n == 0 && r < result1->numel; r++) { /* rows of nothing: as in PyTorch */
        store(NX_F64, &(double){0}, result1, r, 1);
        store(NX_F64, &(double){NAN}, result2, r, 1);
    }
fail:
    release(&w);
    return status;
}

/* ---- backward ------------------------------------------------------------------------------------------ */
static nx_status backward_rows(void *arg, int64_t begin, int64_t end) {
    const norm *w = arg;
    nx_dtype computing = computing_dtype(w->x);
    const nx_rows *rows = nx_rows_get(computing);
    int64_t n = w->n, room = nx_row_room(n), together = rows_together(w, computing);
    size_t bytes = (size_t)room * nx_dtype_bytes(computing);
    char *buffer = nx_alloc(3 * bytes + 1);
    if (buffer == NULL) return nx_fail_memory(3 * bytes);
    const void *weight = w->weight ? load(computing, buffer + 2 * bytes, w->weight, 0, n) : NULL;
    for (int64_t r = begin, many; r < end; r += many) {
        double mean[NX_NORM_ROWS], rstd[NX_NORM_ROWS];
        many = nx_least(together, end - r);
        for (int64_t k = 0; k < many; k++) {
            mean[k] = number_at(w->mean, r + k);
            rstd[k] = number_at(w->rstd, r + k);
        }
        const void *x = load(computing, buffer, w->x, r * n, n), *g = load(computing, buffer + bytes, w->g, r * n, n);
        void *out = place(computing, buffer, w->out, r * n, n);
        rows->norm_backward(out, g, x, weight, mean, rstd, n, (int)many);
        store(computing, out, w->out, r * n, n);
    }
    nx_free(buffer);
    return NX_OK;
}

/* The sums of float rows go on in double every so many rows. */
enum { ROWS_TOGETHER = 64 };

static void move_sums(nx_dtype computing, void *part, double *total, int64_t n) {
    for (int64_t i = 0; i < n; i++) total[i] += computing == NX_F64 ? ((double *)part)[i] : ((float *)part)[i];
    memset(part, 0, (size_t)n * nx_dtype_bytes(computing));
}

/* Columns begin .. end of the gradients of weight and bias. */
static nx_status backward_columns(void *arg, int64_t begin, int64_t end) {
    const norm *w = arg;
    nx_dtype computing = computing_dtype(w->x);
    const nx_rows *rows = nx_rows_get(computing);
    int64_t n = end - begin;
    size_t bytes = (size_t)nx_row_room(n) * sizeof(double);
    char *buffer = nx_alloc(6 * bytes + 1), *weight = buffer + 2 * bytes, *bias = buffer + 3 * bytes;
    double *total_weight = (double *)(buffer + 4 * bytes), *total_bias = (double *)(buffer + 5 * bytes);
    if (buffer == NULL) return nx_fail_memory(6 * bytes);
    memset(weight, 0, 4 * bytes);
    for (int64_t r = 0; r < w->n_rows; r++) {
        const void *x = load(computing, buffer, w->x, r * w->n + begin, n);
        const void *g = load(computing, buffer + bytes, w->g, r * w->n + begin, n);
        rows->norm_columns(weight, bias, g, x, number_at(w->mean, r), number_at(w->rstd, r), n);
        if ((r + 1) % ROWS_TOGETHER != 0 && r + 1 < w->n_rows) continue;
        move_sums(computing, weight, total_weight, n);
        move_sums(computing, bias, total_bias, n);
    }
    if (w->out_weight) store(NX_F64, total_weight, w->out_weight, begin, n);
    if (w->out_bias) store(NX_F64, total_bias, w->out_bias, begin, n);
    nx_free(buffer);
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
