/* Convolutions of 3 x 3 without strides by Winograd's way (S. Winograd, "Arithmetic complexity of computations", 1980; A. Lavin,
 * S. Gray, "Fast algorithms for convolutional neural networks", 2016): 4 x 4 results of a channel from 36 products instead of
 * 144. Windows of 6 x 6 and weights become 36 numbers each, sums over channels of whose products become the results. The
 * points are 0, 1, -1, 1/2, -2 and infinity, with which an error is some three times that of plain sums.
 * Tiles of 4 x 4, of all images in a row, are taken UNIT at a time; each result is one sum in order of channels. */
#include "kernel/convolve/convolve.h"
#include "kernel/convolve/taps.h"
#include "kernel/panel.h"

#include <math.h>

enum {
    TILE = 4, WINDOW = 6, POINTS = WINDOW * WINDOW,
    UNIT = 64,     /* tiles */
    ROWS = 48,     /* of weights that meet a unit together */
    STRIP = 12,    /* of weights that are turned together when there are few tiles */
    NEAR = 1 << 18, /* numbers of turned weights that stay near */
    FEW = 2,       /* units */
    DEPTH = 256,   /* channels that do */
    LEAST = 16,    /* channels of either side, with fewer the sums are the smaller part of the work */
    APART = 16     /* numbers more from one point's to the next one's than there are, or all lie in one set of the cache */
};

typedef struct winograd {
    const nx__planes *from;
    int64_t channels, rows, across, down, images; /* across, down: tiles of an image */
    int64_t height, width;
    int64_t places[POINTS];
    const float *kernels;  /* as they are given; `back`: channels x rows, and turned round */
    bool back;
    float *weights;        /* POINTS x rows x channels; NULL: there are few tiles */
    float *windows;        /* then: units x POINTS x channels x columns */
    int64_t strip;         /* then: rows whose weights are turned together */
    int64_t weights_step, windows_step; /* from one point's to the next one's */
    const float *bias;
    const nx_tail *tail;
    float *to;
    const nx__panels *panels;
} winograd;

static int64_t tiles_of(int64_t n) { return (n + TILE - 1) / TILE; }

static bool has_form(const nx_windows *w) {
    for (int d = 0; d < 3; d++) {
        if (w->stride[d] != 1 || w->dilation[d] != 1 || w->kernel[d] != (d ? 3 : 1)) return false;
    }
    return !nx_flag.direct && w->padding[0] == 0 && w->padding[1] <= 2 && w->padding[2] <= 2 && w->groups == 1 &&
           w->small_channels >= LEAST && w->big_channels >= LEAST;
}

static double count_tiles(const nx_windows *w) { return (double)(w->images * tiles_of(w->small[1]) * tiles_of(w->small[2])); }

static double plain_cost(const nx_windows *w) {
    return 9 * (double)(w->small_channels * w->big_channels) * (double)(w->images * w->small[1] * w->small[2]);
}

/* In units of a multiplication of the sums: the transforms take so many for each of their numbers; sums go by whole vectors. */
bool nx__winograd_suits(const nx_windows *w) {
    const double weights = (double)(w->small_channels * w->big_channels), tiles = count_tiles(w), columns = ceil(tiles / 16) * 16;
    const double ours = POINTS * (weights * columns * 1.1 + weights * 16 + (double)(w->small_channels + w->big_channels) * tiles * 10);
    return has_form(w) && ours < 0.9 * plain_cost(w);
}

bool nx__winograd_suits_weights(const nx_windows *w) {
    const double weights = (double)(w->small_channels * w->big_channels), tiles = count_tiles(w);
    const double ours = POINTS * (weights * tiles * 1.2 + weights * 60 + (double)(w->small_channels + w->big_channels) * tiles * 12);
    return has_form(w) && ours < 0.85 * plain_cost(w);
}

/* ---- weights ------------------------------------------------------------------------------------------------------ */
/* Of rows row .. row + rows, POINTS x rows x channels, from one point's to the next one's `step`. */
static void turn_rows(const winograd *c, int64_t row, int64_t rows, float *to, int64_t step) {
    for (int64_t r = 0; r < rows; r++) {
        const float *from = c->kernels + (row + r) * 9 * (c->back ? 1 : c->channels);
        nx__taps_get()->winograd_weights(to + r * c->channels, step, from, c->back ? 9 * c->rows : 9, c->channels, c->back);
    }
}

static nx_status turn_weights(void *arg, int64_t begin, int64_t end) {
    const winograd *c = arg;
    turn_rows(c, begin, end - begin, c->weights + begin * c->channels, c->weights_step);
    return NX_OK;
}

/* ---- one unit ------------------------------------------------------------------------------------------------------- */
/* The stretches of tiles first .. first + n of the images that are padded; at most a panel of them. */
static int find_stretches(const winograd *c, int64_t first, int64_t n, nx__stretch *out) {
    int made = 0;
    for (int64_t done = 0; done < n; made++) {
        int64_t at = first + done, x = at % c->across, y = at / c->across % c->down, image = at / c->across / c->down;
        int64_t length = nx_least(c->across - x, n - done);
        int64_t from = image * c->from->channels * c->from->plane + y * TILE * c->from->row + x;
        out[made] = (nx__stretch){from, done, length};
        done += length;
    }
    return made;
}

/* The windows of n tiles, of channels begin .. end: POINTS x channels x columns at `to`. */
static void turn_windows(const winograd *c, int64_t first, int64_t n, int64_t begin, int64_t end, float *window, float *to) {
    const nx__taps *taps = nx__taps_get();
    nx__stretch stretches[UNIT];
    int made = find_stretches(c, first, n, stretches);
    for (int64_t channel = begin; channel < end; channel++) {
        taps->pack(window, c->from->at + channel * c->from->plane, c->from->end, c->places, POINTS, stretches, made);
        taps->winograd_windows(to + channel * c->panels->columns, c->windows_step, window, n);
    }
}

/* Rows row .. row + rows of a panel's sums, each POINTS x rows x columns, become results. */
static void put_results(const winograd *c, int64_t row, int64_t rows, int64_t first, int64_t n, const float *sums, float *lines) {
    const int64_t width = c->panels->columns, step = rows * width + APART, images = c->from->first_image;
    for (int64_t r = 0; r < rows; r++) {
        nx__taps_get()->winograd_results(lines, sums + r * width, step, c->bias ? c->bias[row + r] : 0, n);
        for (int64_t done = 0, length; done < n; done += length) {
            int64_t at = first + done, x = at % c->across, y = at / c->across % c->down, image = images + at / c->across / c->down;
            length = nx_least(c->across - x, n - done);
            float *to = c->to + ((image * c->rows + row + r) * c->height + y * TILE) * c->width + x * TILE;
            int64_t numbers = nx_least(length * TILE, c->width - x * TILE), high = nx_least(TILE, c->height - y * TILE);
            for (int64_t i = 0; i < high; i++)
                nx__put(c->tail, row + r, c->to, to + i * c->width, lines + (i * width + done) * TILE, numbers);
        }
    }
}

/* Sums and results of a panel of tiles, of rows row .. row + rows, whose weights are given. */
static void run_rows(const winograd *c, int64_t row, int64_t rows, const float *weights, int64_t weights_step, int64_t first, int64_t n,
                     float *windows, float *sums, float *room) {
    const int64_t width = c->panels->columns, step = rows * width + APART;
    for (int64_t at = 0; at < POINTS; at++) {
        for (int64_t k = 0; k < c->channels; k += DEPTH) {
            c->panels->multiply(&(nx__panel){.a = weights + at * weights_step + k, .a_row_step = c->channels, .a_k_step = 1,
                                    .packed = windows + at * c->windows_step + k * width, .is_packed = true,
                                    .k = nx_least(DEPTH, c->channels - k), .c = sums + at * step, .c_row_step = width,
                                    .add = k > 0}, rows, n);
        }
    }
    put_results(c, row, rows, first, n, sums, room);
}

static int64_t room_of(const winograd *c) { return POINTS * c->panels->columns + NX__TAPS_SLACK; }

/* Panels of tiles begin .. end: windows, then all rows. */
static nx_status run_units(void *arg, int64_t begin, int64_t end) {
    const winograd *c = arg;
    const int64_t width = c->panels->columns, tiles = c->images * c->down * c->across;
    const int64_t windows = POINTS * c->windows_step, sums = POINTS * (ROWS * width + APART);
    const size_t bytes = sizeof(float) * (size_t)(windows + sums + room_of(c));
    float *at = nx_room_new(bytes), *room = at + windows + sums;
    if (at == NULL) return nx_fail_memory(bytes);
    for (int64_t first = begin * width; first < nx_least(end * width, tiles); first += width) {
        const int64_t n = nx_least(width, tiles - first);
        turn_windows(c, first, n, 0, c->channels, room, at);
        for (int64_t row = 0; row < c->rows; row += ROWS) {
            run_rows(c, row, nx_least(ROWS, c->rows - row), c->weights + row * c->channels, c->weights_step, first, n, at, at + windows,
                     room);
        }
    }
    nx_room_free(at);
    return NX_OK;
}

/* ---- few tiles: the windows of all are made first; then weights are turned strip by strip and never lie in memory ------- */
static nx_status turn_all_windows(void *arg, int64_t begin, int64_t end) {
    const winograd *c = arg;
    const int64_t width = c->panels->columns, tiles = c->images * c->down * c->across;
    float *room = nx_room_new(sizeof(float) * (size_t)room_of(c)), *to = c->windows;
    if (room == NULL) return nx_fail_memory(sizeof(float) * (size_t)room_of(c));
    for (int64_t first = 0; first < tiles; first += width, to += POINTS * c->windows_step)
        turn_windows(c, first, nx_least(width, tiles - first), begin, end, room, to);
    nx_room_free(room);
    return NX_OK;
}

static nx_status run_strips(void *arg, int64_t begin, int64_t end) {
    const winograd *c = arg;
    const int64_t width = c->panels->columns, tiles = c->images * c->down * c->across, step = c->strip * c->channels + APART;
    const int64_t weights = POINTS * step, sums = POINTS * (c->strip * width + APART);
    const size_t bytes = sizeof(float) * (size_t)(weights + sums + room_of(c));
    float *at = nx_room_new(bytes);
    if (at == NULL) return nx_fail_memory(bytes);
    for (int64_t row = begin * c->strip; row < nx_least(end * c->strip, c->rows); row += c->strip) {
        const int64_t rows = nx_least(c->strip, c->rows - row);
        float *windows = c->windows;
        turn_rows(c, row, rows, at, step);
        for (int64_t first = 0; first < tiles; first += width, windows += POINTS * c->windows_step)
            run_rows(c, row, rows, at, step, first, nx_least(width, tiles - first), windows, at + weights, at + weights + sums);
    }
    nx_room_free(at);
    return NX_OK;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------ */
static void plan(const nx_windows *w, bool back, const float *from, nx__planes *p, winograd *c) {
    const int64_t *size = back ? w->small : w->big, *made = back ? w->big : w->small;
    c->channels = back ? w->small_channels : w->big_channels;
    c->rows = back ? w->big_channels : w->small_channels;
    c->height = made[1];
    c->width = made[2];
    c->down = tiles_of(made[1]);
    c->across = tiles_of(made[2]);
    c->weights_step = c->rows * c->channels + APART;
    c->windows_step = c->channels * c->panels->columns + APART;
    *p = (nx__planes){.source = from, .channels = c->channels, .split = TILE, .kept = TILE, .skip = {1, 1}, .size = {1, size[1], size[2]},
                      .extent = {1, c->down * TILE + 2, c->across * TILE + 2}};
    for (int d = 1; d < 3; d++) p->origin[d] = back ? w->padding[d] - 2 : -w->padding[d];
    nx__planes_lay(p, false);
    for (int64_t at = 0; at < POINTS; at++)
        c->places[at] = at / WINDOW * p->row + at % WINDOW % TILE * p->part + at % WINDOW / TILE;
}

/* Weights and windows of all tiles that are padded together, as far as they are kept. */
static nx_status make_room(winograd *c) {
    const int64_t width = c->panels->columns, units = (c->images * c->down * c->across + width - 1) / width;
    const bool few = units <= FEW;
    const size_t bytes = sizeof(float) * (size_t)(POINTS * (few ? units * c->windows_step : c->weights_step));
    float *room = nx_room_new(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    if (few) c->windows = room;
    else c->weights = room;
    const int64_t strips = NEAR / (POINTS * c->channels * STRIP);
    c->strip = strips > 0 ? nx_least(strips * STRIP, ROWS) : STRIP;
    return NX_OK;
}

nx_status nx__winograd(const nx_windows *w, bool back, const float *from, const float *weight, const float *bias, const nx_tail *tail,
                       float *to) {
    nx_status status = NX_OK;
    nx__planes p;
    winograd c = {.from = &p, .kernels = weight, .back = back, .bias = bias, .tail = tail, .to = to,
                  .panels = nx__panels_get()};
    plan(w, back, from, &p, &c);
    int64_t together;
    NX_TRY_FAIL(nx__planes_new(&p, w->images, &together));
    c.images = together;
    NX_TRY_FAIL(make_room(&c));
    const int64_t each = c.rows * c.channels * POINTS, width = c.panels->columns;
    if (c.weights) NX_TRY_FAIL(nx_parallel(c.rows, nx_grain(c.channels * 50), turn_weights, &c));
    for (p.first_image = 0; p.first_image < w->images; p.first_image += together) {
        c.images = nx_least(together, w->images - p.first_image);
        NX_TRY_FAIL(nx__planes_pad(&p, c.images));
        const int64_t tiles = c.images * c.down * c.across;
        if (c.weights) {
            NX_TRY_FAIL(nx_parallel((tiles + width - 1) / width, nx_grain(each * width / NX__SUMS_A_BYTE), run_units, &c));
        } else {
            NX_TRY_FAIL(nx_parallel(c.channels, nx_grain(tiles * POINTS * 4), turn_all_windows, &c));
            const int64_t cost = each * c.strip / c.rows * tiles / NX__SUMS_A_BYTE;
            NX_TRY_FAIL(nx_parallel((c.rows + c.strip - 1) / c.strip, nx_grain(cost), run_strips, &c));
        }
    }
fail:
    nx_room_free(p.at);
    nx_room_free(c.weights);
    nx_room_free(c.windows);
    return status;
}

/* ---- the weights' gradient -------------------------------------------------------------------------------------------- */
/* Tiles are taken DEEP at a time: their windows and gradients, a panel of tiles after the other, meet point by point. */
enum { DEEP = 128 };
typedef struct weighing {
    winograd c;            /* of the windows */
    const nx__planes *small;
    int64_t places[TILE * TILE];
    int64_t first, n;      /* tiles at hand */
    int64_t panels;
    float *windows, *gradients, *sums; /* POINTS x channels or rows x DEEP; POINTS x rows x channels */
    int64_t windows_step, gradients_step, sums_step;
} weighing;

/* Of channels begin .. end, those of the windows and then those of the gradients. */
static nx_status turn_channels(void *arg, int64_t begin, int64_t end) {
    const weighing *v = arg;
    const nx__taps *taps = nx__taps_get();
    const int64_t width = v->c.panels->columns, channels = v->c.channels;
    winograd small = v->c;
    small.from = v->small;
    nx__stretch stretches[UNIT];
    float *room = nx_room_new(sizeof(float) * (size_t)(POINTS * width + NX__TAPS_SLACK));
    if (room == NULL) return nx_fail_memory(sizeof(float) * (size_t)(POINTS * width + NX__TAPS_SLACK));
    memset(room, 0, sizeof(float) * (size_t)(POINTS * width + NX__TAPS_SLACK)); /* what no stretch fills is multiplied by 0 */
    for (int64_t panel = 0; panel < v->panels; panel++) {
        const int64_t first = v->first + panel * width, n = nx_least(width, v->first + v->n - first);
        for (int64_t k = begin; k < end; k++) {
            const bool is_window = k < channels;
            const winograd *c = is_window ? &v->c : &small;
            const int64_t channel = is_window ? k : k - channels;
            int made = find_stretches(c, first, n, stretches);
            float *to = (is_window ? v->windows : v->gradients) + channel * DEEP + panel * width;
            taps->pack(room, c->from->at + channel * c->from->plane, c->from->end, is_window ? c->places : v->places,
                       is_window ? POINTS : TILE * TILE, stretches, made);
            if (is_window) taps->winograd_windows(to, v->windows_step, room, width);
            else taps->winograd_gradients(to, v->gradients_step, room);
        }
    }
    nx_room_free(room);
    return NX_OK;
}

static nx_status weigh_points(void *arg, int64_t begin, int64_t end) {
    const weighing *v = arg;
    const int64_t width = v->c.panels->columns;
    const size_t bytes = sizeof(float) * (size_t)(DEEP * width);
    float *room = nx_room_new(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    for (int64_t at = begin; at < end; at++) {
        for (int64_t column = 0; column < v->c.channels; column += width) {
            const int64_t columns = nx_least(width, v->c.channels - column);
            v->c.panels->pack_b(room, v->windows + at * v->windows_step + column * DEEP, NX_F32, 1, DEEP, v->n, columns);
            v->c.panels->multiply(&(nx__panel){.a = v->gradients + at * v->gradients_step, .a_row_step = DEEP, .a_k_step = 1,
                                      .packed = room, .is_packed = true, .k = v->n, .c = v->sums + at * v->sums_step + column,
                                      .c_row_step = v->c.channels, .add = true}, v->c.rows, columns);
        }
    }
    nx_room_free(room);
    return NX_OK;
}

static nx_status weigh_images(weighing *v) {
    const int64_t width = v->c.panels->columns, tiles = v->c.images * v->c.down * v->c.across;
    for (v->first = 0; v->first < tiles; v->first += DEEP) {
        v->n = nx_least(DEEP, tiles - v->first);
        v->panels = (v->n + width - 1) / width;
        NX_TRY(nx_parallel(v->c.channels + v->c.rows, nx_grain(v->n * POINTS * 4), turn_channels, v));
        NX_TRY(nx_parallel(POINTS, nx_grain(v->c.rows * v->c.channels * v->n / NX__SUMS_A_BYTE), weigh_points, v));
    }
    return NX_OK;
}

typedef struct gathered { const weighing *v; float *to; } gathered;
static nx_status gather_kernels(void *arg, int64_t begin, int64_t end) {
    const gathered *g = arg;
    const int64_t channels = g->v->c.channels;
    for (int64_t row = begin; row < end; row++)
        nx__taps_get()->winograd_kernels(g->to + row * channels * 9, g->v->sums + row * channels, g->v->sums_step, channels);
    return NX_OK;
}

nx_status nx__winograd_weigh(const nx_windows *w, const float *big, const float *small, float *weight) {
    nx_status status = NX_OK;
    nx__planes p, s;
    weighing v = {.c = {.from = &p, .panels = nx__panels_get()}, .small = &s};
    plan(w, false, big, &p, &v.c);
    s = (nx__planes){.source = small, .channels = v.c.rows, .split = TILE, .kept = TILE, .skip = {1, 1}, .size = {1, v.c.height, v.c.width},
                     .extent = {1, v.c.down * TILE, v.c.across * TILE}};
    nx__planes_lay(&s, false);
    for (int64_t at = 0; at < TILE * TILE; at++) v.places[at] = at / TILE * s.row + at % TILE * s.part;
    v.windows_step = v.c.channels * DEEP + APART;
    v.gradients_step = v.c.rows * DEEP + APART;
    v.sums_step = v.c.rows * v.c.channels + APART;
    const size_t numbers = (size_t)(POINTS * (v.windows_step + v.gradients_step + v.sums_step));
    int64_t together, both;
    v.sums = nx_room_new(sizeof(float) * numbers);
    if (v.sums == NULL) return nx_fail_memory(sizeof(float) * numbers);
    v.windows = v.sums + POINTS * v.sums_step;
    v.gradients = v.windows + POINTS * v.windows_step;
    memset(v.sums, 0, sizeof(float) * (size_t)(POINTS * v.sums_step));
    NX_TRY_FAIL(nx__planes_new(&p, w->images, &together));
    NX_TRY_FAIL(nx__planes_new(&s, nx_least(w->images, together), &both));
    if (both > together) both = together;
    for (p.first_image = 0; p.first_image < w->images; p.first_image += both) {
        s.first_image = p.first_image;
        v.c.images = nx_least(both, w->images - p.first_image);
        NX_TRY_FAIL(nx__planes_pad(&p, v.c.images));
        NX_TRY_FAIL(nx__planes_pad(&s, v.c.images));
        NX_TRY_FAIL(weigh_images(&v));
    }
    NX_TRY_FAIL(nx_parallel(v.c.rows, nx_grain(v.c.channels * 50), gather_kernels, &(gathered){&v, weight}));
fail:
    nx_room_free(p.at);
    nx_room_free(s.at);
    nx_room_free(v.sums);
    return status;
}
