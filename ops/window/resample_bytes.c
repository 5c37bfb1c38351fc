/* Images of bytes (window/resample.h). The weights of a dimension are integers over one power of 2, the largest with which they
 * fit 15 bits; sums are rounded to a byte after each of the two dimensions, so that results are PyTorch's bit for bit. A
 * dimension that keeps its size is left as it is. Planes are split over threads. */
#include "window/resample.h"

typedef struct whole {
    nx__resample_axis axis;
    int32_t *weights; /* as in the axis; NULL: the size stays */
    int shift;        /* they are over 1 << shift */
} whole;

typedef struct images {
    whole rows, columns; /* along a row, and along a column */
    int64_t lanes;       /* bytes side by side at a place */
    const uint8_t *from;
    uint8_t *to;
} images;

/* A place that was named twice at the border has both weights. */
static double joined(nx__resample_axis *a, int64_t i) {
    int64_t *places = a->places + i * a->most, n = 0;
    double *weights = a->weights + i * a->most, most = 0;
    for (int64_t k = 0; k < a->taps[i]; k++) {
        if (n > 0 && places[n - 1] == places[k]) {
            weights[n - 1] += weights[k];
        } else {
            places[n] = places[k];
            weights[n++] = weights[k];
        }
    }
    a->taps[i] = n;
    for (int64_t k = 0; k < n; k++) most = weights[k] > most ? weights[k] : most;
    return most;
}

static nx_status plan(nx__resample_kind kind, bool align, double given, whole *w) {
    nx__resample_axis *a = &w->axis;
    if (a->in == a->out) return NX_OK;
    NX_TRY(nx__resample_plan(kind, a, align, given, true));
    double most = 0;
    for (int64_t i = 0; i < a->out; i++) {
        double of_place = joined(a, i);
        most = of_place > most ? of_place : most;
    }
    while (w->shift < 22 && (int)(0.5 + most * (1 << (w->shift + 1))) < 1 << 15) w->shift++;
    size_t bytes = sizeof(int32_t) * (size_t)(a->out * a->most);
    w->weights = nx_alloc_zeroed(bytes);
    if (w->weights == NULL) return nx_fail_memory(bytes);
    for (int64_t i = 0; i < a->out; i++)
        EACH_TAP(a, i, k) w->weights[k] = (int32_t)(a->weights[k] * (1 << w->shift) + (a->weights[k] < 0 ? -0.5 : 0.5));
    return NX_OK;
}

static void add_row(int32_t g, const uint8_t *restrict from, int32_t *restrict to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] += g * from[i];
}

static void round_row(int shift, const int32_t *restrict from, uint8_t *restrict to, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int32_t x = from[i] >> shift;
        to[i] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
    }
}

static void begin_row(int shift, int32_t *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = 1 << (shift - 1);
}

/* One row: each place is a sum of places of `from`. */
static void along_row(const whole *w, int64_t lanes, const uint8_t *from, uint8_t *to, int32_t *sums) {
    begin_row(w->shift, sums, w->axis.out * lanes);
    for (int64_t x = 0; x < w->axis.out; x++)
        EACH_TAP(&w->axis, x, k) add_row(w->weights[k], from + w->axis.places[k] * lanes, sums + x * lanes, lanes);
    round_row(w->shift, sums, to, w->axis.out * lanes);
}

static void along_columns(const whole *w, int64_t row, const uint8_t *from, uint8_t *to, int32_t *sums) {
    for (int64_t y = 0; y < w->axis.out; y++) {
        begin_row(w->shift, sums, row);
        EACH_TAP(&w->axis, y, k) add_row(w->weights[k], from + w->axis.places[k] * row, sums, row);
        round_row(w->shift, sums, to + y * row, row);
    }
}

static nx_status run_images(void *arg, int64_t begin, int64_t end) {
    const images *r = arg;
    const whole *rows = &r->rows, *columns = &r->columns;
    const int64_t in = rows->axis.in * r->lanes, out = rows->axis.out * r->lanes, high = columns->axis.in;
    const size_t bytes = sizeof(int32_t) * (size_t)out + (size_t)(high * out);
    int32_t *sums = nx_room_new(bytes);
    if (sums == NULL) return nx_fail_memory(bytes);
    for (int64_t k = begin; k < end; k++) {
        const uint8_t *from = r->from + k * high * in, *between = from;
        uint8_t *to = r->to + k * columns->axis.out * out, *half = columns->weights ? (uint8_t *)(sums + out) : to;
        for (int64_t y = 0; rows->weights && y < high; y++) along_row(rows, r->lanes, from + y * in, half + y * out, sums);
        if (rows->weights) between = half;
        if (columns->weights) along_columns(columns, out, between, to, sums);
        else if (!rows->weights) memcpy(to, from, (size_t)(high * in));
    }
    nx_room_free(sums);
    return NX_OK;
}

nx_status nx__resample_bytes(nx__resample_kind kind, bool align, double scale_h, double scale_w, const nx_array *self, nx_array *out) {
    nx_status status = NX_OK;
    images r = {.lanes = 1};
    nx__laid laid = {0};
    const nx_array *given = self, *made = out;
    nx_array turned[2];
    int64_t dims[2][2 * NX_MAX_DIMS], planes = self->sizes[0] * self->sizes[1];
    const void *from;
    void *to;
    if (out->numel == 0) return NX_OK;
    r.columns.axis = (nx__resample_axis){.in = self->sizes[2], .out = out->sizes[2]};
    r.rows.axis = (nx__resample_axis){.in = self->sizes[3], .out = out->sizes[3]};
    NX_TRY_FAIL(plan(kind, align, scale_h, &r.columns));
    NX_TRY_FAIL(plan(kind, align, scale_w, &r.rows));
    if (nx__lies_by_channels(self, &turned[0], dims[0]) && nx__lies_by_channels(out, &turned[1], dims[1])) {
        r.lanes = self->sizes[1];
        planes = self->sizes[0];
        given = &turned[0];
        made = &turned[1];
    }
    NX_TRY_FAIL(nx__lay(&laid, given, NX_U8, true, &from));
    NX_TRY_FAIL(nx__lay(&laid, made, NX_U8, false, &to));
    r.from = from;
    r.to = to;
    NX_TRY_FAIL(nx_parallel(planes, nx_grain((self->sizes[2] + out->sizes[2]) * out->sizes[3] * r.lanes * 8), run_images, &r));
    nx__lay_back(&laid, made, to);
fail:
    nx_free(r.rows.axis.places);
    nx_free(r.columns.axis.places);
    nx_free(r.rows.weights);
    nx_free(r.columns.weights);
    nx__lay_end(&laid);
    return status;
}
