/* Kernels of softmax.op, in float (double for float64) by the row kernels of src/kernel/row.c. Where the operands are
 * row-major in the computing type, rows are taken as they lie: one behind the other, or side by side when `dim` is not the
 * last dimension; else through a buffer, one by one or, short ones, side by side, so that every dtype and every stride has
 * the same bits. Rows are independent: they are split over threads. Next: rows.h. */
#include "gen/kernels.h"
#include "shared/rows.h"

enum { GATHERED = 1 << 20 }; /* bytes that the caches hold */

typedef struct softmax {
    const nx_row_fns *fns;
    const nx_array *a, *b; /* b: only of a derivative */
    nx_array *out;
    int dim;
    int64_t n, inner; /* elements of a row; rows side by side */
    int across; /* the last dimension but `dim` that has elements to tell apart; -1: none */
} softmax;

static nx_status run_buffered(void *arg, int64_t begin, int64_t end) {
    const softmax *s = arg;
    nx_dtype computing = nx__row_computing(s->out);
    int64_t bytes = nx_row_room(s->n) * (int64_t)nx_dtype_bytes(computing);
    char *buffer = nx_alloc((size_t)(2 * bytes));
    if (buffer == NULL) return nx_fail_memory((size_t)(2 * bytes));
    for (int64_t r = begin; r < end; r++) {
        const void *b = NULL;
        nx__row_load(computing, buffer, s->a, s->dim, r, 0);
        if (s->b) b = nx__row_load(computing, buffer + bytes, s->b, s->dim, r, 0);
        s->fns->rows(buffer, buffer, b, s->n, 1);
        nx__row_store(computing, buffer, s->out, s->dim, r);
    }
    nx_free(buffer);
    return NX_OK;
}

static nx_status run_rows(void *arg, int64_t begin, int64_t end) {
    const softmax *s = arg;
    int64_t at = begin * s->n * (int64_t)nx_dtype_bytes(s->out->dtype);
    s->fns->rows((char *)s->out->data + at, (char *)s->a->data + at, s->b ? (char *)s->b->data + at : NULL, s->n,
                 end - begin);
    return NX_OK;
}

static int64_t strips_of(const softmax *s) { return (s->inner + NX_ROW_LANES - 1) / NX_ROW_LANES; }

static void move_strip(const softmax *s, char *to, int64_t to_step, const char *from, int64_t from_step, int64_t bytes) {
    for (int64_t i = 0; i < s->n; i++) memcpy(to + i * to_step, from + i * from_step, (size_t)bytes);
}

/* Strips of NX_ROW_LANES rows side by side. A large one is brought together first: lines far from each other share few
 * places in the caches, and each would be fetched at every pass. */
static nx_status run_strips(void *arg, int64_t begin, int64_t end) {
    const softmax *s = arg;
    int64_t strips = strips_of(s), width = (int64_t)nx_dtype_bytes(s->out->dtype), step = s->inner * width;
    int64_t narrow = NX_ROW_LANES * width, bytes = s->n * narrow;
    bool gathers = s->n * step > GATHERED && bytes <= GATHERED;
    char *buffer = gathers ? nx_alloc((size_t)(2 * bytes)) : NULL;
    for (int64_t k = begin; k < end; k++) {
        int64_t lane = k % strips * NX_ROW_LANES, left = s->inner - lane;
        int64_t at = k / strips * s->n * step + lane * width;
        int lanes = left < NX_ROW_LANES ? (int)left : NX_ROW_LANES;
        char *out = (char *)s->out->data + at;
        const char *a = (const char *)s->a->data + at, *b = s->b ? (const char *)s->b->data + at : a;
        if (buffer) {
            move_strip(s, buffer, narrow, a, step, lanes * width);
            if (s->b) move_strip(s, buffer + bytes, narrow, b, step, lanes * width);
            s->fns->columns(buffer, buffer, s->b ? buffer + bytes : buffer, s->n, NX_ROW_LANES, lanes);
            move_strip(s, out, step, buffer, narrow, lanes * width);
        } else s->fns->columns(out, a, b, s->n, s->inner, lanes);
    }
    nx_free(buffer);
    return NX_OK;
}

/* Elements of rows `row` .. row + lanes, neighbours along `across`, to or from a buffer of NX_ROW_LANES columns. */
static void cast_columns(const softmax *s, const nx_array *a, int64_t row, char *buffer, int lanes, bool stores) {
    nx_array strip = *a, columns = {.data = buffer, .dtype = nx__row_computing(s->out), .ndim = 2};
    int64_t sizes[2] = {s->n, lanes}, apart[2] = {a->ndim ? a->strides[s->dim] : 0, a->strides[s->across]};
    int64_t side_by_side[2] = {NX_ROW_LANES, 1};
    strip.data = nx__row_at(a, s->dim, row);
    strip.ndim = 2;
    strip.sizes = columns.sizes = sizes;
    strip.strides = apart;
    columns.strides = side_by_side;
    nx_array_refresh(&strip);
    nx_array_refresh(&columns);
    nx_copy_cast(stores ? &strip : &columns, stores ? &columns : &strip);
}

static int64_t strips_across(const softmax *s) { return (s->out->sizes[s->across] + NX_ROW_LANES - 1) / NX_ROW_LANES; }

static nx_status run_cast_strips(void *arg, int64_t begin, int64_t end) {
    const softmax *s = arg;
    int64_t bytes = s->n * NX_ROW_LANES * (int64_t)nx_dtype_bytes(nx__row_computing(s->out)), strips = strips_across(s);
    char *buffer = nx_alloc((size_t)(2 * bytes));
    if (buffer == NULL) return nx_fail_memory((size_t)(2 * bytes));
    for (int64_t k = begin; k < end; k++) {
        int64_t lane = k % strips * NX_ROW_LANES, size = s->out->sizes[s->across], row = k / strips * size + lane;
        int lanes = (int)nx_least(size - lane, NX_ROW_LANES);
        cast_columns(s, s->a, row, buffer, lanes, false);
        if (s->b) cast_columns(s, s->b, row, buffer + bytes, lanes, false);
        s->fns->columns(buffer, buffer, s->b ? buffer + bytes : buffer, s->n, NX_ROW_LANES, lanes);
        cast_columns(s, s->out, row, buffer, lanes, true);
    }
    nx_free(buffer);
    return NX_OK;
}

static int across_of(const nx_array *out, int dim) {
    int across = out->ndim - 1;
    while (across >= 0 && (across == dim || out->sizes[across] == 1)) across--;
    return across;
}

/* Whether neighbours across rows are nearer to each other than those in a row. */
static bool lies_across(const softmax *s, const nx_array *a) { return a->strides[s->across] < a->strides[s->dim]; }

static bool lies_plain(const nx_array *a, nx_dtype computing) { return a->contiguous && a->dtype == computing; }

static nx_status run(const nx_row_fns *fns, const nx_array *a, const nx_array *b, int64_t dim, nx_array *out) {
    nx_dtype computing = nx__row_computing(out);
    softmax s = {fns, a, b, out, (int)dim, nx__row_length(out, (int)dim), 1, across_of(out, (int)dim)};
    if (out->numel == 0) return NX_OK;
    for (int d = s.dim + 1; d < out->ndim; d++) s.inner *= out->sizes[d];
    bool plain = lies_plain(a, computing) && lies_plain(out, computing) && (b == NULL || lies_plain(b, computing));
    int64_t rows = out->numel / s.n, grain = nx__row_grain(s.n);
    if (plain && s.inner == 1) return nx_parallel(rows, grain, run_rows, &s);
    if (plain && s.inner >= NX_ROW_LANES / 4)
        return nx_parallel(rows / s.inner * strips_of(&s), (grain + NX_ROW_LANES - 1) / NX_ROW_LANES, run_strips, &s);
    bool is_apart = s.across >= 0 && (s.n <= NX_ROW_LANES || lies_across(&s, a) || lies_across(&s, out));
    if (is_apart && out->sizes[s.across] >= NX_ROW_LANES / 4 && s.n * NX_ROW_LANES * NX_MAX_ELEMENT_BYTES <= GATHERED)
        return nx_parallel(rows / out->sizes[s.across] * strips_across(&s), (grain + NX_ROW_LANES - 1) / NX_ROW_LANES,
                           run_cast_strips, &s);
    return nx_parallel(rows, grain, run_buffered, &s);
}

nx_status nx__softmax_rows(nx_run *unused, const nx_array *self, int64_t dim, nx_array *out) {
    return run(&nx_rows_get(out->dtype)->softmax, self, NULL, dim, out);
}

nx_status nx__log_softmax_rows(nx_run *unused, const nx_array *self, int64_t dim, nx_array *out) {
    return run(&nx_rows_get(out->dtype)->log_softmax, self, NULL, dim, out);
}

nx_status nx__softmax_backward_rows(nx_run *unused, const nx_array *grad_output, const nx_array *output, int64_t dim,
                                    nx_array *out) {
    return run(&nx_rows_get(out->dtype)->softmax_backward, grad_output, output, dim, out);
}

nx_status nx__log_softmax_backward_rows(nx_run *unused, const nx_array *grad_output, const nx_array *output, int64_t dim,
                                        nx_array *out) {
    return run(&nx_rows_get(out->dtype)->log_softmax_backward, grad_output, output, dim, out);
}
