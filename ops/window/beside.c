/* Convolutions of channels that lie side by side, see beside.h. Results are cut for threads by place, the weights' gradient
 * by channel. */
#include "window/beside.h"

/* What becomes of n places of the small side, from `to` on, whose first number is `result`. */
static void follow(const nx_tail *t, const float *result, float *to, int64_t channels, int64_t n) {
    const float *other = t->other ? t->other + (to - result) : NULL;
    nx_rows_get(NX_F32)->tails(to, to, other, t->factor, t->offset, t->low, t->high, channels, n);
}

static int64_t volume(const int64_t *n) { return n[0] * n[1] * n[2]; }

static const nx__beside_rows *rows_of_level(void) {
    static const nx__beside_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__beside_rows)};
    return rows[nx_level()];
}

/* ---- windows of one place: products of places by channels -------------------------------------------------------------- */
enum { LEAST_ROWS = 24, MOST_ROWS = 264, LEAST_CHANNELS = 16 }; /* of a block, and of a group beside others */

static bool is_pointwise(const nx_windows *w) {
    bool is = volume(w->kernel) == 1 && volume(w->stride) == 1 && nx_product_runs();
    for (int d = 0; d < NX__SPACE; d++) is = is && w->padding[d] == 0 && w->big[d] == w->small[d];
    return is && (w->groups == 1 || nx_least(w->big_channels, w->small_channels) >= LEAST_CHANNELS);
}

typedef struct pointwise {
    nx_product of;         /* one group: n and k channels; b is the first one's, or NULL: packed */
    int64_t groups, block, places, b_step; /* b_step: from a group's weights to the next one's */
    float *packed;
    size_t each;           /* packed numbers of a group */
    const float *bias;
    const nx_tail *tail;
} pointwise;

/* Blocks of places, each while it is near. */
static nx_status multiply_blocks(void *arg, int64_t begin, int64_t end) {
    const pointwise *v = arg;
    for (int64_t at = begin; at < end; at++) {
        const int64_t first = at * v->block;
        nx_product p = v->of;
        p.m = nx_least(v->block, v->places - first);
        p.a += first * p.a_row_step;
        p.c += first * p.c_row_step;
        float *made = p.c;
        for (int64_t group = 0; group < v->groups; group++, p.a += p.k, p.b += v->b_step, p.c += p.n) {
            p.start = v->bias ? v->bias + group * p.n : NULL;
            nx_product_run_packed(&p, v->packed + group * v->each);
        }
        if (v->tail) follow(v->tail, v->of.c, made, p.c_row_step, p.m);
    }
    return NX_OK;
}

static nx_status run_pointwise(pointwise *v) {
    v->each = (nx_product_packed(v->of.n, v->of.k) + 15) / 16 * 16;
    v->packed = nx_room_new(sizeof(float) * v->each * (size_t)v->groups);
    if (v->packed == NULL) return nx_fail_memory(sizeof(float) * v->each * (size_t)v->groups);
    nx_product p = v->of;
    for (int64_t group = 0; group < v->groups; group++, p.b += v->b_step) nx_product_pack(&p, v->packed + group * v->each);
    int64_t parts = 2 * nx_num_threads(), block = (v->places + parts - 1) / parts;
    v->block = block < LEAST_ROWS ? LEAST_ROWS : nx_least(block, MOST_ROWS);
    const int64_t blocks = (v->places + v->block - 1) / v->block, cost = v->block * v->groups * v->of.n * (v->of.k + 1) / 8 + 1;
    nx_status status = nx_parallel(blocks, nx_grain(cost), multiply_blocks, v);
    nx_room_free(v->packed);
    return status;
}

/* One side from the other, whose channels the weight has as its rows or else as its columns. */
static nx_status multiply_sides(const nx_windows *w, bool spreads, const float *from, const float *weight, const float *bias,
                                const nx_tail *tail, float *to) {
    const int64_t k = spreads ? w->small_channels : w->big_channels, n = spreads ? w->big_channels : w->small_channels;
    pointwise v = {.of = {.m = 1, .n = n, .k = k, .a = from, .a_row_step = w->groups * k, .a_k_step = 1, .b = weight,
                          .b_k_step = spreads ? n : 1, .b_column_step = spreads ? 1 : k, .c = to,
                          .c_row_step = w->groups * n},
                   .groups = w->groups, .places = w->images * volume(w->small), .b_step = n * k, .bias = bias, .tail = tail};
    return run_pointwise(&v);
}

static nx_status weigh_sides(const nx_windows *w, const float *big, const float *small, float *weight) {
    nx_product p = {.m = w->small_channels, .n = w->big_channels, .k = w->images * volume(w->small), .a = small,
                    .a_row_step = 1, .a_k_step = w->groups * w->small_channels, .b = big,
                    .b_k_step = w->groups * w->big_channels, .b_column_step = 1, .c = weight, .c_row_step = w->big_channels};
    for (int64_t group = 0; group < w->groups; group++, p.a += p.m, p.b += p.n, p.c += p.m * p.n) NX_TRY(nx_product_spread(&p));
    return NX_OK;
}

/* ---- groups of one channel ------------------------------------------------------------------------------------------------ */
enum { MOST_WIDTH = 64 };

static bool is_depthwise(const nx_windows *w) {
    return w->big_channels == 1 && w->small_channels == 1 && w->groups >= NX__BESIDE_LEAST &&
           w->kernel[2] <= MOST_WIDTH && volume(w->kernel) <= NX__BESIDE_TAPS;
}

/* Places of a row of the result that meet the same taps of the kernel's row, `step` places apart. */
typedef struct stretch { int64_t first, n; uint64_t taps; } stretch;

typedef struct depthwise {
    const nx_windows *w;
    bool spreads;              /* the big side is the result */
    const int64_t *to_size, *from_size;
    int64_t channels, n_stretches, step;
    stretch *stretches;
    const float *from, *bias;
    float *rows;               /* taps x channels */
    const nx_tail *tail;
    float *to;                 /* with dots: what lies as the result does */
} depthwise;

/* The place of the other side that place `at` of the result meets at a tap, in dimension d; -1: none. */
static int64_t met_at(const depthwise *v, int d, int64_t at, int64_t tap) {
    const nx_windows *w = v->w;
    int64_t place = v->spreads ? at + w->padding[d] - tap * w->dilation[d] : at * w->stride[d] - w->padding[d] + tap * w->dilation[d];
    if (place < 0 || (v->spreads && place % w->stride[d])) return -1;
    if (v->spreads) place /= w->stride[d];
    return place < v->from_size[d] ? place : -1;
}

static uint64_t taps_met(const depthwise *v, int64_t at) {
    uint64_t taps = 0;
    for (int64_t tap = 0; tap < v->w->kernel[2]; tap++) taps |= (uint64_t)(met_at(v, 2, at, tap) >= 0) << tap;
    return taps;
}

static nx_status find_stretches(depthwise *v) {
    const int64_t n = v->to_size[2];
    v->step = v->spreads ? v->w->stride[2] : 1;
    v->stretches = nx_alloc(sizeof *v->stretches * (size_t)n);
    if (v->stretches == NULL) return nx_fail_memory(sizeof *v->stretches * (size_t)n);
    for (int64_t rest = 0; rest < nx_least(v->step, n); rest++) {
        for (int64_t at = rest; at < n; at += v->step) {
            const uint64_t taps = taps_met(v, at);
            if (at > rest && v->stretches[v->n_stretches - 1].taps == taps) v->stretches[v->n_stretches - 1].n++;
            else v->stretches[v->n_stretches++] = (stretch){at, 1, taps};
        }
    }
    return NX_OK;
}

/* What places of a stretch in row y of layer z meet in an image. */
static void find_run(const depthwise *v, int64_t z, int64_t y, const stretch *s, nx__beside_run *r) {
    const int64_t *kernel = v->w->kernel;
    r->n = s->n;
    r->to_step = v->step * v->channels;
    r->from_step = v->spreads ? v->channels : v->w->stride[2] * v->channels;
    r->n_taps = 0;
    for (int64_t tap = 0; tap < volume(kernel); tap++) {
        const int64_t across = tap % kernel[2];
        if ((s->taps >> across & 1) == 0) continue;
        int64_t deep = met_at(v, 0, z, tap / kernel[2] / kernel[1]), down = met_at(v, 1, y, tap / kernel[2] % kernel[1]);
        if (deep < 0 || down < 0) continue;
        r->places[r->n_taps] = ((deep * v->from_size[1] + down) * v->from_size[2] + met_at(v, 2, s->first, across)) * v->channels;
        r->rows[r->n_taps++] = v->rows + tap * v->channels;
    }
}

/* Rows of the result, of all images. */
static nx_status sum_rows(void *arg, int64_t begin, int64_t end) {
    const depthwise *v = arg;
    const int64_t length = v->to_size[2], height = v->to_size[1], depth = v->to_size[0];
    nx__beside_run r;
    for (int64_t at = begin; at < end; at++) {
        const float *from = v->from + at / height / depth * volume(v->from_size) * v->channels;
        float *to = v->to + at * length * v->channels;
        for (int64_t k = 0; k < v->n_stretches; k++) {
            find_run(v, at / height % depth, at % height, &v->stretches[k], &r);
            rows_of_level()->sums(&r, to + v->stretches[k].first * v->channels, from, v->bias, v->channels);
        }
        if (v->tail) follow(v->tail, v->to, to, v->channels, length);
    }
    return NX_OK;
}

/* Channels as columns: rows x columns becomes columns x rows. */
static void turn(float *to, const float *from, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) to[j * rows + i] = from[i * columns + j];
}

static nx_status sum_sides(const nx_windows *w, bool spreads, const float *from, const float *weight, const float *bias,
                           const nx_tail *tail, float *to) {
    const int64_t taps = volume(w->kernel);
    depthwise v = {.w = w, .spreads = spreads, .to_size = spreads ? w->big : w->small, .from_size = spreads ? w->small : w->big,
                   .channels = w->groups, .from = from, .bias = bias, .tail = tail, .to = to};
    nx_status status = NX_OK;
    const size_t bytes = sizeof(float) * (size_t)(taps * w->groups);
    v.rows = nx_room_new(bytes);
    if (v.rows == NULL) return nx_fail_memory(bytes);
    turn(v.rows, weight, w->groups, taps);
    NX_TRY_FAIL(find_stretches(&v));
    const int64_t rows = w->images * v.to_size[0] * v.to_size[1];
    NX_TRY_FAIL(nx_parallel(rows, nx_grain(v.to_size[2] * w->groups * (taps + 4) / 4 + 1), sum_rows, &v));
fail:
    nx_free(v.stretches);
    nx_room_free(v.rows);
    return status;
}

/* ---- the gradient of their weights ---------------------------------------------------------------------------------------- */
enum { TOGETHER = 64 }; /* channels whose sums one thread takes; the last ones with those before them where they are few */

static nx_status weigh_channels(void *arg, int64_t begin, int64_t end) {
    const depthwise *v = arg;
    const nx_windows *w = v->w;
    nx__beside_run r;
    for (int64_t block = begin; block < end; block++) {
        const int64_t first = block * TOGETHER, rest = v->channels - first, n = rest < 2 * TOGETHER ? rest : TOGETHER;
        for (int64_t at = 0; at < w->images * volume(w->small); at += w->small[2]) {
            const float *from = v->from + at / volume(w->small) * volume(w->big) * v->channels + first;
            const int64_t row = at / w->small[2], z = row / w->small[1] % w->small[0], y = row % w->small[1];
            for (int64_t k = 0; k < v->n_stretches; k++) {
                find_run(v, z, y, &v->stretches[k], &r);
                for (int64_t i = 0; i < r.n_taps; i++) r.rows[i] += first;
                rows_of_level()->dots(&r, v->to + (at + v->stretches[k].first) * v->channels + first, from, n);
            }
        }
    }
    return NX_OK;
}

static nx_status weigh_depthwise(const nx_windows *w, const float *big, const float *small, float *weight) {
    const int64_t taps = volume(w->kernel), blocks = w->groups < TOGETHER ? 1 : w->groups / TOGETHER;
    depthwise v = {.w = w, .to_size = w->small, .from_size = w->big, .channels = w->groups, .from = big, .to = (float *)small};
    nx_status status = NX_OK;
    const size_t bytes = sizeof(float) * (size_t)(taps * w->groups);
    v.rows = nx_room_new(bytes);
    if (v.rows == NULL) return nx_fail_memory(bytes);
    memset(v.rows, 0, bytes);
    NX_TRY_FAIL(find_stretches(&v));
    NX_TRY_FAIL(nx_parallel(blocks, nx_grain(w->images * volume(w->small) * TOGETHER * (taps + 4) / 4), weigh_channels, &v));
    turn(weight, v.rows, taps, w->groups);
fail:
    nx_free(v.stretches);
    nx_room_free(v.rows);
    return status;
}

/* ---- what conv.c calls ----------------------------------------------------------------------------------------------------- */
bool nx__beside_suits(const nx_windows *w) { return is_depthwise(w) || is_pointwise(w); }

nx_status nx__beside_gather(const nx_windows *w, const float *big, const float *weight, const float *bias, const nx_tail *tail,
                            float *small) {
    if (is_depthwise(w)) return sum_sides(w, false, big, weight, bias, tail, small);
    return multiply_sides(w, false, big, weight, bias, tail, small);
}

nx_status nx__beside_spread(const nx_windows *w, const float *small, const float *weight, const float *bias, float *big) {
    if (is_depthwise(w)) return sum_sides(w, true, small, weight, bias, NULL, big);
    return multiply_sides(w, true, small, weight, bias, NULL, big);
}

nx_status nx__beside_weigh(const nx_windows *w, const float *big, const float *small, float *weight) {
    return is_depthwise(w) ? weigh_depthwise(w, big, small, weight) : weigh_sides(w, big, small, weight);
}
