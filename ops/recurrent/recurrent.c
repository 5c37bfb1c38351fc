/* Kernels of recurrent.op: one layer in one direction, in float; halves are cast. Steps are taken part by part, so that what a part
 * makes is near when it is needed again: its rows are multiplied with the input's weights at once, each step is a product with the
 * state's weights, which are packed once, and one loop over each row (recurrent_rows.c); backward, the part's gradients meet its rows
 * at once. Rows of the batch do not meet before the gradients of the weights: a thread takes some of them through a part's steps, so
 * that the number of threads does not show in the bits. Steps of a packed sequence have fewer and fewer rows; a row's state stays
 * where it ended, or begins where it is met first. Next: recurrent_rows.h. */
#include "gen/kernels.h"
#include "recurrent_rows.h"
#include "shared/packed.h"

enum { RELU, TANH, LSTM, GRU };
enum { MOST_OWNED = 24, WORTH_SPLITTING = 1 << 21, LEAST_ROWS = 4, NEAR_ROWS = 256 };

typedef struct layer {
    const nx__recurrent_rows *kernels;
    int mode;
    bool reverse, projects;
    int64_t n_in, n_hidden, n_out; /* n_out: of the state, n_hidden unless it is projected */
    int64_t n_gates, n_kept;       /* numbers of a row of sums; of one that is kept */
    int64_t batch, n_steps, n_rows;
    int64_t *first;                /* owned: the row with which each step begins, and the end */
    int64_t begin, end;            /* the steps of a part, in order of running: those of NEAR_ROWS rows at most, or one */
    int64_t first_row, rows;       /* of the part; steps follow each other in memory */
    const float *x, *w_ih, *w_hh, *b_ih, *b_hh, *w_hr, *h0, *c0;
    float *kept, *out, *h, *c;     /* h, c: the states after all steps */
    bool keeps_part;               /* kept is only that of the part's rows */
    float *packed_hh, *packed_hr;
    /* of the derivative */
    const float *g_out, *g_h, *g_c;
    /* Of a part's rows: gradients of the sums of the input and of the state, one matrix but for a GRU; the states before each step;
     * the hidden units and the gradients that are projected. */
    float *sum_g, *state_g, *before, *hidden, *out_g;
    float *h_g, *c_g;
    double *bias_g;                /* owned; NULL: there are no biases */
    void *owned[MOST_OWNED];
    int n_owned;
} layer;

static void release(layer *w) {
    for (int k = 0; k < w->n_owned; k++) nx_room_free(w->owned[k]);
    nx_free(w->first);
    nx_free(w->bias_g);
}

/* Room for n numbers that release() gives back. */
static nx_status new_room(layer *w, int64_t n, float **out) {
    size_t bytes;
    NX_TRY(nx_bytes_of(n, sizeof(float), &bytes));
    if ((*out = nx_room_new(bytes + 64)) == NULL) return nx_fail_memory(bytes);
    assert(w->n_owned < MOST_OWNED);
    w->owned[w->n_owned++] = *out;
    return NX_OK;
}

/* The elements row by row: where they lie if they lie so. */
static nx_status take(layer *w, const nx_array *a, const float **out) {
    *out = NULL;
    if (a == NULL) return NX_OK;
    if (a->contiguous && a->dtype == NX_F32) {
        *out = a->data;
        return NX_OK;
    }
    float *made;
    NX_TRY(nx__packed_new(a, NX_F32, &made));
    assert(w->n_owned < MOST_OWNED);
    w->owned[w->n_owned++] = made;
    *out = made;
    return NX_OK;
}

/* Where a result is computed: in itself, or apart for put(). NULL: it is not wanted. */
static nx_status place(layer *w, const nx_array *a, float **out) {
    *out = NULL;
    if (a == NULL) return NX_OK;
    if (a->dtype != NX_F32) return new_room(w, a->numel, out);
    *out = a->data;
    return NX_OK;
}
static void put(const nx_array *a, const float *from) {
    if (a == NULL || a->data == (const void *)from) return;
    nx_cast((nx_dtype)a->dtype, a->data, (int64_t)nx_dtype_bytes(a->dtype), NX_F32, (const char *)from, sizeof *from, a->numel);
}

static nx_status find_steps(layer *w, const nx_run *run, const nx_array *input, const int64_t *batch_sizes, int n) {
    w->n_steps = n ? n : input->sizes[0];
    w->first = nx_alloc((size_t)(w->n_steps + 1) * sizeof *w->first);
    if (w->first == NULL) return nx_fail_memory((size_t)(w->n_steps + 1) * sizeof *w->first);
    w->first[0] = 0;
    for (int64_t t = 0; t < w->n_steps; t++) {
        int64_t rows = n ? batch_sizes[t] : w->batch;
        if (rows < 0 || rows > (t && n ? batch_sizes[t - 1] : w->batch))
            return nx_fail(NX_RUNTIME, "%s: batch_sizes must not grow", nx_op_name(run->op));
        w->first[t + 1] = w->first[t] + rows;
    }
    w->n_rows = w->first[w->n_steps];
    if (n && w->n_rows != input->sizes[0])
        return nx_fail(NX_RUNTIME, "%s: batch_sizes name %lld rows, the input has %lld", nx_op_name(run->op),
                       (long long)w->n_rows, (long long)input->sizes[0]);
    return NX_OK;
}

typedef struct weights { const nx_array *input, *ih, *hh, *b_ih, *b_hh, *h0, *c0; } weights;

static nx_status describe(layer *w, const nx_run *run, weights a, bool reverse, const int64_t *batch_sizes, int n_batch_sizes,
                          int64_t mode, int64_t hidden_size, bool has_biases) {
    static const int gates[] = {[RELU] = 1, [TANH] = 1, [LSTM] = 4, [GRU] = 3}, kept[] = {1, 1, [LSTM] = 5, [GRU] = 4};
    static const nx__recurrent_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__recurrent_rows)};
    w->kernels = rows[nx_level()];
    w->mode = (int)mode;
    w->reverse = reverse;
    w->n_in = a.input->sizes[a.input->ndim - 1];
    w->n_hidden = hidden_size;
    w->batch = a.h0->sizes[0];
    w->n_out = a.h0->sizes[1];
    w->projects = w->n_out != hidden_size;
    w->n_gates = gates[mode] * hidden_size;
    w->n_kept = kept[mode] * hidden_size;
    NX_TRY(find_steps(w, run, a.input, batch_sizes, n_batch_sizes));
    NX_TRY(take(w, a.input, &w->x));
    NX_TRY(take(w, a.ih, &w->w_ih));
    NX_TRY(take(w, a.hh, &w->w_hh));
    NX_TRY(take(w, a.h0, &w->h0));
    if (mode == LSTM) NX_TRY(take(w, a.c0, &w->c0));
    if (has_biases) NX_TRY(take(w, a.b_ih, &w->b_ih));
    if (w->projects) return take(w, a.b_hh, &w->w_hr);
    return has_biases ? take(w, a.b_hh, &w->b_hh) : NX_OK;
}

static int64_t step_at(const layer *w, int64_t nth) { return w->reverse ? w->n_steps - 1 - nth : nth; }
/* Those of rows begin .. end that step t has. */
static int64_t rows_of(const layer *w, int64_t t, int64_t begin, int64_t end) {
    return nx_least(end, w->first[t + 1] - w->first[t]) - begin;
}
/* Where row `row` of the batch was one step before t in order of running; -1: t is its first step. */
static int64_t row_before(const layer *w, int64_t t, int64_t row) {
    int64_t last = t + (w->reverse ? 1 : -1);
    if (last < 0 || last >= w->n_steps || row >= w->first[last + 1] - w->first[last]) return -1;
    return w->first[last] + row;
}
static int64_t grain(const layer *w) {
    int64_t work = (w->end - w->begin) * w->n_gates * w->n_out;
    int64_t rows = WORTH_SPLITTING / (work ? work : 1) + 1;
    return rows < LEAST_ROWS ? LEAST_ROWS : rows;
}

/* Step `nth` joins the part; false: that is full, or there is no such step. */
static bool join(layer *w, int64_t nth) {
    if (nth < 0 || nth >= w->n_steps) return false;
    const int64_t t = step_at(w, nth), rows = w->first[t + 1] - w->first[t];
    if (w->rows > 0 && w->rows + rows > NEAR_ROWS) return false;
    w->first_row = w->rows > 0 ? nx_least(w->first_row, w->first[t]) : w->first[t];
    w->rows += rows;
    return true;
}

/* The part behind this one, or before it. */
static void take_next(layer *w) {
    w->begin = w->end;
    w->rows = 0;
    while (join(w, w->end)) w->end++;
}
static void take_last(layer *w) {
    w->end = w->begin;
    w->rows = 0;
    while (join(w, w->begin - 1)) w->begin--;
}

static int64_t most_rows(const layer *w) { return nx_least(w->n_rows, w->batch > NEAR_ROWS ? w->batch : NEAR_ROWS); }

static float *kept_at(const layer *w, int64_t row) {
    return w->kept + (w->keeps_part ? row - w->first_row : row) * w->n_kept;
}

static void copy_rows(float *to, const float *from, int64_t n) { memcpy(to, from, (size_t)n * sizeof *to); }

/* ---- forward --------------------------------------------------------------------------------------------------------- */
/* c = a b over rows side by side, b packed. */
static void multiply(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *packed, float *c, int64_t c_row_step,
                     const float *start, bool add) {
    nx_product_run_packed(&(nx_product){.m = m, .n = n, .k = k, .a = a, .b = b, .a_row_step = k, .a_k_step = 1, .c = c,
                                        .c_row_step = c_row_step, .start = start, .add = add}, packed);
}

/* One row of one step: its sums are there. h: old, then new state, or the hidden units that are projected to it. */
static void advance_row(const layer *w, float *kept, const float *state, float *h, float *c) {
    switch (w->mode) {
    case LSTM: w->kernels->lstm(kept, c, h, w->n_hidden); break;
    case GRU: w->kernels->gru(kept, state, h, w->n_hidden); break;
    case TANH: w->kernels->tanh(kept, h, w->n_hidden); break;
    default: w->kernels->relu(kept, h, w->n_hidden);
    }
}

/* A part's steps of rows begin .. end of the batch. */
static nx_status run_rows(void *arg, int64_t begin, int64_t end) {
    const layer *w = arg;
    int64_t n = end - begin, width = w->projects ? w->n_hidden : w->mode == GRU ? w->n_gates : 0;
    float *room = nx_room_new((size_t)(n * width) * sizeof *room + 64);
    if (room == NULL) return nx_fail_memory((size_t)(n * width) * sizeof *room);
    float *h = w->h + begin * w->n_out, *c = w->mode == LSTM ? w->c + begin * w->n_hidden : NULL;
    for (int64_t nth = w->begin; nth < w->end; nth++) {
        int64_t t = step_at(w, nth), rows = rows_of(w, t, begin, end), first = w->first[t] + begin;
        if (rows <= 0) continue;
        float *kept = kept_at(w, first);
        if (w->mode == GRU) multiply(rows, w->n_gates, w->n_out, h, w->w_hh, w->packed_hh, room, w->n_gates, w->b_hh, false);
        else multiply(rows, w->n_gates, w->n_out, h, w->w_hh, w->packed_hh, kept, w->n_kept, NULL, true);
        for (int64_t r = 0; r < rows; r++)
            advance_row(w, kept + r * w->n_kept, room + r * width, w->projects ? room + r * width : h + r * w->n_out,
                        c ? c + r * w->n_hidden : NULL);
        if (w->projects) multiply(rows, w->n_out, w->n_hidden, room, w->w_hr, w->packed_hr, h, w->n_out, NULL, false);
        copy_rows(w->out + first * w->n_out, h, rows * w->n_out);
    }
    nx_room_free(room);
    return NX_OK;
}

/* What is added to the sums of the input. */
static nx_status add_biases(layer *w, float **out) {
    *out = NULL;
    if (w->b_ih == NULL) return NX_OK;
    NX_TRY(new_room(w, w->n_gates, out));
    copy_rows(*out, w->b_ih, w->n_gates);
    if (w->b_hh && w->mode != GRU) w->kernels->add(*out, w->b_hh, w->n_gates);
    return NX_OK;
}

/* The sums of the input of a part's steps. */
static nx_status multiply_input(const layer *w, const float *bias) {
    return nx_product_spread(&(nx_product){.m = w->rows, .n = w->n_gates, .k = w->n_in, .a = w->x + w->first_row * w->n_in,
                                           .b = w->w_ih, .a_row_step = w->n_in, .a_k_step = 1, .b_k_step = 1,
                                           .b_column_step = w->n_in, .c = kept_at(w, w->first_row),
                                           .c_row_step = w->n_kept, .start = bias});
}

static nx_status pack(layer *w, const float *b, int64_t n, int64_t k, int64_t k_step, int64_t column_step, float **out) {
    NX_TRY(new_room(w, (int64_t)nx_product_packed(n, k), out));
    nx_product_pack(&(nx_product){.n = n, .k = k, .b = b, .b_k_step = k_step, .b_column_step = column_step}, *out);
    return NX_OK;
}

static nx_status run_forward(layer *w) {
    float *bias;
    copy_rows(w->h, w->h0, w->batch * w->n_out);
    if (w->mode == LSTM) copy_rows(w->c, w->c0, w->batch * w->n_hidden);
    if (w->n_rows == 0) return NX_OK;
    NX_TRY(add_biases(w, &bias));
    NX_TRY(pack(w, w->w_hh, w->n_gates, w->n_out, 1, w->n_out, &w->packed_hh));
    if (w->projects) NX_TRY(pack(w, w->w_hr, w->n_out, w->n_hidden, 1, w->n_hidden, &w->packed_hr));
    while (w->end < w->n_steps) {
        take_next(w);
        NX_TRY(multiply_input(w, bias));
        NX_TRY(nx_parallel(w->batch, grain(w), run_rows, w));
    }
    return NX_OK;
}

nx_status nx__recurrent_forward(nx_run *run, const nx_array *input, const nx_array *weight0, const nx_array *weight1,
                                const nx_array *weight2, const nx_array *weight3, const nx_array *hx_, const nx_array *cx_,
                                bool reverse, const int64_t *batch_sizes, int n_batch_sizes, int64_t mode,
                                int64_t hidden_size, bool has_biases, nx_array *result0, nx_array *result1,
                                nx_array *result2, nx_array *result3) {
    nx_status status = NX_OK;
    layer w = {0};
    weights all = {input, weight0, weight1, weight2, weight3, hx_, cx_};
    NX_TRY_FAIL(describe(&w, run, all, reverse, batch_sizes, n_batch_sizes, mode, hidden_size, has_biases));
    NX_TRY_FAIL(place(&w, result0, &w.out));
    NX_TRY_FAIL(place(&w, result1, &w.h));
    NX_TRY_FAIL(place(&w, result2, &w.c));
    w.kept = result3->data;
    w.keeps_part = result3->numel == 0;
    if (w.keeps_part) NX_TRY_FAIL(new_room(&w, most_rows(&w) * w.n_kept, &w.kept));
    NX_TRY_FAIL(run_forward(&w));
    put(result0, w.out);
    put(result1, w.h);
    put(result2, w.c);
fail:
    release(&w);
    return status;
}

/* ---- backward -------------------------------------------------------------------------------------------------------- */
/* One row of one step. dh: of the hidden units; of a GRU it becomes what goes on to the old state directly. */
static void retreat_row(const layer *w, int64_t row, int64_t at, int64_t before, float *dh, float *dc) {
    const float *kept = kept_at(w, at), *h = w->out + at * w->n_out;
    const int64_t near = at - w->first_row;
    float *g = w->sum_g + near * w->n_gates;
    const float *c = before >= 0 ? kept_at(w, before) + 4 * w->n_hidden : w->c0 + row * w->n_hidden;
    switch (w->mode) {
    case LSTM:
        w->kernels->lstm_backward(g, dc, dh, kept, c, w->projects ? w->hidden + near * w->n_hidden : NULL, w->n_hidden);
        break;
    case GRU:
        w->kernels->gru_backward(g, w->state_g + near * w->n_gates, dh, kept, w->before + near * w->n_out, w->n_hidden);
        break;
    case TANH: w->kernels->tanh_backward(g, dh, h, w->n_hidden); break;
    default: w->kernels->relu_backward(g, dh, h, w->n_hidden);
    }
}

static nx_status retreat_rows(void *arg, int64_t begin, int64_t end) {
    const layer *w = arg;
    int64_t n = end - begin;
    float *room = nx_room_new((size_t)(n * w->n_hidden) * sizeof *room + 64);
    if (room == NULL) return nx_fail_memory((size_t)(n * w->n_hidden) * sizeof *room);
    float *dh = w->h_g + begin * w->n_out, *dc = w->mode == LSTM ? w->c_g + begin * w->n_hidden : NULL;
    for (int64_t nth = w->end - 1; nth >= w->begin; nth--) {
        int64_t t = step_at(w, nth), rows = rows_of(w, t, begin, end), first = w->first[t] + begin, near = first - w->first_row;
        if (rows <= 0) continue;
        if (w->g_out) w->kernels->add(dh, w->g_out + first * w->n_out, rows * w->n_out);
        if (w->projects) {
            copy_rows(w->out_g + near * w->n_out, dh, rows * w->n_out);
            multiply(rows, w->n_hidden, w->n_out, dh, w->w_hr, w->packed_hr, room, w->n_hidden, NULL, false);
        }
        for (int64_t r = 0; r < rows; r++) {
            int64_t at = first + r, row = begin + r, before = row_before(w, t, row);
            copy_rows(w->before + (near + r) * w->n_out, before >= 0 ? w->out + before * w->n_out : w->h0 + row * w->n_out, w->n_out);
            retreat_row(w, row, at, before, w->projects ? room + r * w->n_hidden : dh + r * w->n_out,
                        dc ? dc + r * w->n_hidden : NULL);
        }
        multiply(rows, w->n_out, w->n_gates, w->state_g + near * w->n_gates, w->w_hh, w->packed_hh, dh, w->n_out, NULL,
                 w->mode == GRU);
    }
    nx_room_free(room);
    return NX_OK;
}

/* Of the input, the weights, the projection and the biases; NULL: not wanted. */
typedef struct gradients { float *x, *ih, *hh, *hr, *b_ih, *b_hh; } gradients;

/* Adds a' b over a part's rows to out[m, n]. */
static nx_status weight_gradient(const layer *w, const float *a, int64_t m, const float *b, int64_t n, float *out) {
    if (out == NULL) return NX_OK;
    if (w->rows == 0) { /* there is no other part */
        memset(out, 0, (size_t)(m * n) * sizeof *out);
        return NX_OK;
    }
    return nx_product_spread(&(nx_product){.m = m, .n = n, .k = w->rows, .a = a, .b = b, .a_row_step = 1, .a_k_step = m,
                                           .b_k_step = n, .b_column_step = 1, .c = out, .c_row_step = n,
                                           .add = w->end < w->n_steps});
}

static nx_status input_gradient(const layer *w, float *out) {
    if (out == NULL || w->rows == 0) return NX_OK;
    return nx_product_spread(&(nx_product){.m = w->rows, .n = w->n_in, .k = w->n_gates, .a = w->sum_g, .b = w->w_ih,
                                           .a_row_step = w->n_gates, .a_k_step = 1, .b_k_step = w->n_in, .b_column_step = 1,
                                           .c = out + w->first_row * w->n_in, .c_row_step = w->n_in});
}

/* Gates whose sums of the input and of the state have one gradient: in a GRU all but the last ones. */
static int64_t gates_alike(const layer *w) { return w->mode == GRU ? 2 * w->n_hidden : w->n_gates; }

/* Adds a part's rows to w->bias_g: of the sums of the input, then of those of the state that differ. */
static void add_bias_gradients(const layer *w) {
    const int64_t alike = gates_alike(w);
    w->kernels->sum_rows(w->bias_g, w->sum_g, w->n_gates, w->rows, w->n_gates);
    w->kernels->sum_rows(w->bias_g + w->n_gates, w->state_g + alike, w->n_gates, w->rows, w->n_gates - alike);
}

static void put_bias_gradients(const layer *w, float *of_input, float *of_state) {
    const int64_t alike = gates_alike(w);
    for (int64_t k = 0; of_input && k < w->n_gates; k++) of_input[k] = (float)w->bias_g[k];
    for (int64_t k = 0; of_state && k < w->n_gates; k++) of_state[k] = (float)w->bias_g[k < alike ? k : k + w->n_gates - alike];
}

static void begin_from(float *to, const float *from, int64_t n) {
    if (from) copy_rows(to, from, n);
    else memset(to, 0, (size_t)n * sizeof *to);
}

static nx_status prepare_backward(layer *w) {
    const int64_t rows = most_rows(w);
    NX_TRY(new_room(w, rows * w->n_gates, &w->sum_g));
    w->state_g = w->sum_g;
    if (w->mode == GRU) NX_TRY(new_room(w, rows * w->n_gates, &w->state_g));
    NX_TRY(new_room(w, rows * w->n_out, &w->before));
    NX_TRY(pack(w, w->w_hh, w->n_out, w->n_gates, w->n_out, 1, &w->packed_hh));
    if (w->projects) {
        NX_TRY(new_room(w, rows * w->n_hidden, &w->hidden));
        NX_TRY(new_room(w, rows * w->n_out, &w->out_g));
        NX_TRY(pack(w, w->w_hr, w->n_hidden, w->n_out, w->n_hidden, 1, &w->packed_hr));
    }
    if (w->b_ih == NULL) return NX_OK;
    w->bias_g = nx_alloc_zeroed(2 * (size_t)w->n_gates * sizeof *w->bias_g);
    return w->bias_g ? NX_OK : nx_fail_memory(2 * (size_t)w->n_gates * sizeof *w->bias_g);
}

/* Part after part, from the last one on, so that what the gradients of weights are made from is near. */
static nx_status run_backward(layer *w, gradients to) {
    begin_from(w->h_g, w->g_h, w->batch * w->n_out);
    if (w->mode == LSTM) begin_from(w->c_g, w->g_c, w->batch * w->n_hidden);
    w->begin = w->n_steps;
    do {
        take_last(w);
        NX_TRY(nx_parallel(w->batch, grain(w), retreat_rows, w));
        NX_TRY(input_gradient(w, to.x));
        NX_TRY(weight_gradient(w, w->sum_g, w->n_gates, w->x + w->first_row * w->n_in, w->n_in, to.ih));
        NX_TRY(weight_gradient(w, w->state_g, w->n_gates, w->before, w->n_out, to.hh));
        NX_TRY(weight_gradient(w, w->out_g, w->n_out, w->hidden, w->n_hidden, to.hr));
        if (w->bias_g) add_bias_gradients(w);
    } while (w->begin > 0);
    if (w->bias_g) put_bias_gradients(w, to.b_ih, to.b_hh);
    return NX_OK;
}

nx_status nx__recurrent_backward(nx_run *run, const nx_array *input, const nx_array *weight1, const nx_array *weight2,
                                 const nx_array *weight3, const nx_array *weight4, const nx_array *hx_,
                                 const nx_array *cx_tmp, const nx_array *output, const nx_array *grad_output,
                                 const nx_array *grad_hy, const nx_array *grad_cy, bool reverse, int64_t mode,
                                 int64_t hidden_size, bool has_biases, const int64_t *batch_sizes, int n_batch_sizes,
                                 const nx_array *workspace, nx_array *result0, nx_array *result1, nx_array *result2,
                                 nx_array *result3, nx_array *result4, nx_array *result5, nx_array *result6) {
    nx_status status = NX_OK;
    layer w = {0};
    const float *out;
    float *dx, *g_ih, *g_hh, *g_b_ih, *g_b_hh;
    weights all = {input, weight1, weight2, weight3, weight4, hx_, cx_tmp};
    nx_array *results[] = {result0, result1, result2, result3, result4, result5, result6};
    float **places[] = {&dx, &g_ih, &g_hh, &g_b_ih, &g_b_hh, &w.h_g, &w.c_g};
    NX_TRY_FAIL(describe(&w, run, all, reverse, batch_sizes, n_batch_sizes, mode, hidden_size, has_biases));
    for (int k = 0; k < NX_COUNT(results); k++) NX_TRY_FAIL(place(&w, results[k], places[k]));
    NX_TRY_FAIL(take(&w, output, &out));
    NX_TRY_FAIL(take(&w, grad_output, &w.g_out));
    NX_TRY_FAIL(take(&w, grad_hy, &w.g_h));
    if (mode == LSTM) NX_TRY_FAIL(take(&w, grad_cy, &w.g_c));
    w.out = (float *)out; /* is read only */
    w.kept = workspace->data;
    NX_TRY_FAIL(prepare_backward(&w));
    NX_TRY_FAIL(run_backward(&w, (gradients){dx, g_ih, g_hh, w.projects ? g_b_hh : NULL, g_b_ih, w.b_hh ? g_b_hh : NULL}));
    if (!w.b_ih && g_b_ih) memset(g_b_ih, 0, (size_t)result3->numel * sizeof(float));
    if (!w.b_hh && !w.projects && g_b_hh) memset(g_b_hh, 0, (size_t)result4->numel * sizeof(float));
    if (mode != LSTM && w.c_g) memset(w.c_g, 0, (size_t)result6->numel * sizeof(float));
    for (int k = 0; k < NX_COUNT(results); k++) put(results[k], *places[k]);
fail:
    release(&w);
    return status;
}
