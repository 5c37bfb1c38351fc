/* Convolutions of float32. The side that is read is copied into planes with the padding around them, so that what a tap of
 * the kernel reads for places side by side lies side by side: numbers that a stride takes apart are put together. Sums are
 * products of matrices, weights times windows: windows of some places are packed into panels (panel.c), DEPTH taps at a
 * time, and meet all weights while they stay in the caches. Few channels, as those of depthwise kernels, are summed without
 * packing. The big side is made phase by phase: places that leave the same rest meet the same taps, without a stride.
 * Results are cut for threads by place; each of their numbers is one sum in order of taps. */
#include "kernel/convolve/convolve.h"
#include "kernel/convolve/taps.h"
#include "kernel/panel.h"

NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__taps nx__taps)

const nx__taps *nx__taps_get(void) {
    static const nx__taps *const taps[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__taps)};
    return taps[nx_level()];
}

enum {
    DEPTH = 1024, ROWS = 192, WEIGHTS = 192 * 256, /* of a block of weights: numbers of a row, rows, numbers */
    LENGTH = 256, PANELS = 8, /* places that are packed together, and at most so many panels of them */
    BAD_STEP = 1024,         /* see blocked.c */
    PART = 48,               /* rows that are worth packing the same places for on another thread */
    PLANES = 1 << 21         /* numbers that are padded at a time */
};

static bool sums_only(int64_t rows) { return rows <= NX__FEW_ROWS; }

/* ---- planes: what is read, padded (convolve.h) --------------------------------------------------------------------- */
void nx__planes_lay(nx__planes *p, bool may_be_direct) {
    p->part = (p->extent[2] + p->split - 1) / p->split;
    p->row = p->part * p->kept;
    p->direct = may_be_direct && p->split == 1;
    for (int d = 0; d < 3; d++) p->direct &= p->origin[d] == 0 && p->extent[d] <= p->size[d];
    if (p->direct) p->row = p->part = p->size[2];
    p->layer = (p->direct ? p->size[1] : p->extent[1]) * p->row;
    p->plane = (p->direct ? p->size[0] : p->extent[0]) * p->layer;
}

/* step: p->split, for the usual ones a constant, of which quotients are shifts and every second number a shuffle. */
static inline __attribute__((always_inline)) void fill_rests(const nx__planes *p, float *to, const float *from, int64_t step) {
    for (int64_t rest = 0; rest < p->kept; rest++, to += p->part) {
        int64_t first = p->origin[2] + rest, low = 0, high = p->part;
        if (first < 0) low = nx_least((-first + step - 1) / step, p->part);
        if (first + (high - 1) * step >= p->size[2]) high = first >= p->size[2] ? 0 : (p->size[2] - first + step - 1) / step;
        if (high < low) high = low;
        for (int64_t q = 0; q < low; q++) to[q] = 0;
        if (step == 1) memcpy(to + low, from + first + low, (size_t)(high - low) * sizeof *to);
        else for (int64_t q = low; q < high; q++) to[q] = from[first + q * step];
        for (int64_t q = high; q < p->part; q++) to[q] = 0;
    }
}

static void fill_row(const nx__planes *p, float *to, const float *from) {
    if (p->split == 1) fill_rests(p, to, from, 1);
    else if (p->split == 2) fill_rests(p, to, from, 2);
    else if (p->split == 4) fill_rests(p, to, from, 4);
    else fill_rests(p, to, from, p->split);
}

/* Planes begin .. end of those that are padded together. */
static nx_status fill_planes(void *arg, int64_t begin, int64_t end) {
    const nx__planes *p = arg;
    for (int64_t at = begin; at < end; at++) {
        float *to = p->at + at * p->plane;
        const float *from = p->source + (p->first_image * p->channels + at) * nx__volume(p->size);
        for (int64_t d = 0; d < p->extent[0]; d++) {
            for (int64_t h = 0; h < p->extent[1]; h++, to += p->row) {
                int64_t z = d + p->origin[0], y = h + p->origin[1];
                if ((p->skip[0] > 1 && d % p->skip[0]) || (p->skip[1] > 1 && h % p->skip[1])) continue;
                if (z < 0 || z >= p->size[0] || y < 0 || y >= p->size[1]) memset(to, 0, (size_t)p->row * sizeof *to);
                else fill_row(p, to, from + (z * p->size[1] + y) * p->size[2]);
            }
        }
    }
    return NX_OK;
}

const float *nx__plane_of(const nx__planes *p, int64_t image, int64_t channel) {
    if (p->direct) return p->source + (image * p->channels + channel) * p->plane;
    return p->at + ((image - p->first_image) * p->channels + channel) * p->plane;
}

nx_status nx__planes_pad(nx__planes *p, int64_t images) {
    return p->direct ? NX_OK : nx_parallel(images * p->channels, nx_grain(p->plane * 8), fill_planes, p);
}

nx_status nx__planes_new(nx__planes *p, int64_t n_images, int64_t *images) {
    int64_t each = p->channels * p->plane;
    *images = p->direct ? n_images : nx_least(n_images, each > PLANES ? 1 : PLANES / each);
    p->end = p->source + n_images * each;
    if (p->direct) return NX_OK;
    size_t bytes = sizeof(float) * (size_t)(*images * each + NX__TAPS_SLACK);
    p->at = nx_room_new(bytes);
    if (p->at == NULL) return nx_fail_memory(bytes);
    p->end = p->at + *images * each + NX__TAPS_SLACK;
    memset(p->at + *images * each, 0, NX__TAPS_SLACK * sizeof(float));
    return NX_OK;
}

/* ---- a lattice: places of the result that meet the same taps ------------------------------------------------------ */
typedef struct lattice {
    int64_t count[3], step[2];       /* places; how far apart layers and rows of them lie in a plane */
    int64_t first;                   /* where place 0 lies in a plane */
    int64_t to_first[3], to_step[3]; /* where they lie in the result */
    bool plain;                      /* they are the whole result, in order */
    int64_t rows, k, a_step;         /* rows: channels of the result in a group */
    int64_t image_step;              /* from an image's place to the next one's, in planes */
    int64_t *places;                 /* k: from a place to what its taps read */
    int64_t apart;                   /* those of neighbouring taps, where they are all as far apart; 0: they are not */
    const float *weights;            /* groups x rows x k, rows a_step apart */
} lattice;

typedef struct convolution {
    const nx__planes *from;
    lattice of;
    int64_t groups, from_channels, size[3]; /* channels of a group; the result's size */
    const float *bias;
    const nx_tail *tail;
    float *wide_bias;                /* a row for each channel, as long as a panel */
    float *to;
    const nx__panels *panels;
    int64_t tiles;                   /* of one image and group, which may be one tile with others of few places: */
    int64_t images;                  /* so many that are padded, */
    int64_t together;                /* so many in a tile; each of its rows in so many parts */
    int64_t parts;
} convolution;

static int64_t source_place(const lattice *l, int64_t at) {
    int64_t w = at % l->count[2], h = at / l->count[2] % l->count[1], d = at / l->count[2] / l->count[1] % l->count[0];
    return l->first + at / nx__volume(l->count) * l->image_step + d * l->step[0] + h * l->step[1] + w;
}

/* The stretches of `n` places from `at` on; those that follow each other are one. */
static int find_stretches(const lattice *l, int64_t at, int64_t n, nx__stretch *out) {
    int made = 0;
    for (int64_t done = 0; done < n;) {
        int64_t length = nx_least(l->count[2] - (at + done) % l->count[2], n - done), from = source_place(l, at + done);
        if (made && out[made - 1].from + out[made - 1].n == from) out[made - 1].n += length;
        else out[made++] = (nx__stretch){from, done, length};
        done += length;
    }
    return made;
}

/* Numbers of the result of an image's group, from channel 0 on. */
static float *result_at(const convolution *c, int64_t image, int64_t group) {
    return c->to + (image * c->groups + group) * c->of.rows * nx__volume(c->size);
}

/* Places first .. first + n of rows of an image, or of images one after the other, into a result of which they are a part. The
 * first row is `channel` of all groups; `from` may be where they go. */
static void put_places(const convolution *c, int64_t channel, float *to, const float *from, int64_t from_step, int64_t rows,
                       int64_t first, int64_t n) {
    const lattice *l = &c->of;
    const int64_t plane = nx__volume(c->size), image_step = c->groups * l->rows * plane;
    for (int64_t done = 0, length; l->plain && done < n; done += length) { /* whole planes, or a part of one */
        const int64_t at = first + done;
        length = nx_least(plane - at % plane, n - done);
        for (int64_t r = 0; r < rows; r++)
            nx__put(c->tail, channel + r, c->to, to + at / plane * image_step + r * plane + at % plane, from + r * from_step + done,
                    length);
    }
    for (int64_t done = 0, length; !l->plain && done < n; done += length) { /* a row of places, or a part of one */
        const int64_t at = first + done, w = at % l->count[2], right = l->to_step[2];
        const int64_t h = at / l->count[2] % l->count[1], d = at / l->count[2] / l->count[1] % l->count[0];
        const int64_t z = l->to_first[0] + d * l->to_step[0], y = l->to_first[1] + h * l->to_step[1];
        float *row = to + at / nx__volume(l->count) * image_step + (z * c->size[1] + y) * c->size[2] + l->to_first[2] + w * right;
        length = nx_least(l->count[2] - w, n - done);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t j = 0; j < length; j++) row[r * plane + j * right] = from[r * from_step + done + j];
        }
    }
}

typedef struct tile {
    int64_t first, n, panels;   /* places */
    int64_t row, end, channel;  /* rows of weights; which of all groups' the first row of the group is */
    const float *from;
    const float *weights, *bias;
    float *c, *packed, *strip;
    float *to;                  /* where row `row` begins in the result; c is there or aside */
    bool aside;
    int64_t c_step;
    nx__stretch stretches[PANELS][64];
    int n_stretches[PANELS];
    const float *plain[PANELS]; /* a panel's numbers where they lie, packed when they are multiplied first; NULL: they are packed */
} tile;

/* Where the numbers of panel j lie beside each other, row by row; NULL: nowhere. */
static const float *find_plain(const convolution *c, const tile *t, int j) {
    const nx__stretch *s = t->stretches[j];
    const int64_t width = c->panels->columns, last = c->of.places[c->of.k - 1];
    if (c->of.apart == 0 || t->n_stretches[j] > 1 || s->n < width || t->from + s->from + last + width > c->from->end) return NULL;
    return t->from + s->from;
}

/* Whether what follows happens while sums are in registers: a factor, an offset and bounds alone. */
static bool follows_at_once(const convolution *c, const tile *t) {
    const nx_tail *tail = c->tail;
    return tail && tail->factor && tail->other == NULL && !t->aside && t->bias == NULL && c->of.k <= DEPTH && !sums_only(c->of.rows);
}

/* `rows` rows of weights times all panels of the tile. */
static void multiply_rows(const convolution *c, const tile *t, int64_t row, int64_t rows, int64_t first_k, int64_t k) {
    const lattice *l = &c->of;
    const int64_t width = c->panels->columns;
    bool packs = l->a_step % BAD_STEP == 0, last = first_k + k == l->k;
    nx__panel p = {.a = t->weights + row * l->a_step + first_k, .a_row_step = l->a_step, .a_k_step = 1, .k = k,
                   .b_k_step = l->apart, .b_column_step = 1, .c_row_step = t->c_step, .start_row_step = width, .add = first_k > 0};
    if (packs) {
        c->panels->pack_a(t->strip, p.a, NX_F32, p.a_row_step, 1, k, rows);
        p.a = t->strip;
        p.a_row_step = 1;
        p.a_k_step = rows;
    }
    p.start = last && t->bias ? t->bias + row * width : NULL;
    if (follows_at_once(c, t)) {
        p.factor = c->tail->factor + t->channel + row;
        p.offset = c->tail->offset + t->channel + row;
        p.low = c->tail->low;
        p.high = c->tail->high;
    }
    for (int64_t j = 0; j < t->panels; j++) {
        p.packed = t->packed + j * k * width;
        p.is_packed = row > t->row || t->plain[j] == NULL;
        p.b = p.is_packed ? NULL : t->plain[j] + first_k * l->apart;
        p.c = t->c + (row - t->row) * t->c_step + j * width;
        c->panels->multiply(&p, rows, nx_least(width, t->n - j * width));
    }
}

/* What is ready of the tile goes where it belongs. */
static void put_rows(const convolution *c, const tile *t, int64_t row, int64_t rows) {
    const int64_t from = row - t->row;
    if (t->aside || (c->tail && !follows_at_once(c, t)))
        put_places(c, t->channel + row, t->to + from * nx__volume(c->size), t->c + from * t->c_step, t->c_step, rows, t->first, t->n);
}

/* Rows of weights that are near while all panels meet them. */
static int64_t rows_near(const convolution *c) {
    const int64_t depth = nx_least(DEPTH, c->of.k);
    return c->of.a_step % BAD_STEP == 0 ? c->panels->rows : nx_least(ROWS, WEIGHTS / depth / NX__PANEL_MOST_ROWS * NX__PANEL_MOST_ROWS);
}

static void multiply_tile(const convolution *c, tile *t) {
    const lattice *l = &c->of;
    const int64_t width = c->panels->columns, block = rows_near(c);
    for (int j = 0; j < t->panels; j++) {
        t->n_stretches[j] = find_stretches(l, t->first + j * width, nx_least(width, t->n - j * width), t->stretches[j]);
        t->plain[j] = find_plain(c, t, j);
    }
    for (int64_t first = 0; first < l->k; first += DEPTH) {
        int64_t k = nx_least(DEPTH, l->k - first);
        for (int64_t j = 0; j < t->panels; j++) {
            if (t->plain[j]) continue;
            nx__taps_get()->pack(t->packed + j * k * width, t->from, c->from->end, l->places + first, k, t->stretches[j],
                                 t->n_stretches[j]);
        }
        for (int64_t row = t->row; row < t->end; row += block) {
            const int64_t rows = nx_least(block, t->end - row);
            multiply_rows(c, t, row, rows, first, k);
            if (first + k == l->k) put_rows(c, t, row, rows);
        }
    }
}

/* Few rows: sums over the taps where the numbers lie. */
static void sum_tile(const convolution *c, const tile *t) {
    const lattice *l = &c->of;
    for (int64_t done = 0, n; done < t->n; done += n) {
        n = nx_least(l->count[2] - (t->first + done) % l->count[2], t->n - done);
        for (int64_t r = 0; r < l->rows; r++)
            nx__taps_get()->sums(t->c + r * t->c_step + done, t->from + source_place(l, t->first + done), n, l->places,
                                 t->weights + r * l->a_step, l->k, c->bias ? c->bias[t->channel + r] : 0);
    }
    put_rows(c, t, t->row, l->rows);
}

static int64_t tile_length(const convolution *c) { return nx_least(LENGTH, PANELS * c->panels->columns); }

static nx_status run_tiles(void *arg, int64_t begin, int64_t end) {
    const convolution *c = arg;
    const lattice *l = &c->of;
    const nx__planes *p = c->from;
    int64_t length = tile_length(c), width = c->panels->columns, depth = nx_least(DEPTH, l->k);
    const bool aside = !l->plain || c->together > 1;
    int64_t packed = depth * length + NX__TAPS_SLACK, strip = depth * NX__PANEL_MOST_ROWS, part = aside ? l->rows * length : 0;
    size_t bytes = sizeof(float) * (size_t)(packed + strip + part);
    float *room = nx_room_new(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    for (int64_t at = begin; at < end; at++) {
        int64_t unit = at / c->parts / c->tiles, image = unit / c->groups * c->together, group = unit % c->groups, of = at % c->parts;
        tile t;
        t.row = l->rows * of / c->parts;
        t.end = l->rows * (of + 1) / c->parts;
        t.first = at / c->parts % c->tiles * length;
        t.n = nx_least(length, nx__volume(l->count) * nx_least(c->together, c->images - image) - t.first);
        image += p->first_image;
        t.panels = (t.n + width - 1) / width;
        t.from = nx__plane_of(p, image, group * c->from_channels);
        t.weights = l->weights + group * l->rows * l->a_step;
        t.bias = c->wide_bias ? c->wide_bias + group * l->rows * width : NULL;
        t.packed = room;
        t.strip = room + packed;
        t.channel = group * l->rows;
        t.to = result_at(c, image, group) + t.row * nx__volume(c->size);
        t.aside = aside;
        t.c = aside ? t.strip + strip : t.to + t.first;
        t.c_step = aside ? length : nx__volume(c->size);
        if (sums_only(l->rows)) sum_tile(c, &t);
        else multiply_tile(c, &t);
    }
    nx_room_free(room);
    return NX_OK;
}

static nx_status widen_bias(convolution *c) {
    int64_t n = c->groups * c->of.rows, width = c->panels->columns;
    if (c->bias == NULL || sums_only(c->of.rows)) return NX_OK;
    c->wide_bias = nx_room_new(sizeof(float) * (size_t)(n * width));
    if (c->wide_bias == NULL) return nx_fail_memory(sizeof(float) * (size_t)(n * width));
    for (int64_t at = 0; at < n * width; at++) c->wide_bias[at] = c->bias[at / width];
    return NX_OK;
}

/* The lattices' results, of all images. */
static nx_status convolve(const nx_windows *w, nx__planes *p, convolution *c, const lattice *lattices, int64_t n) {
    nx_status status = NX_OK;
    int64_t together;
    c->from = p;
    c->panels = nx__panels_get();
    c->of.rows = lattices[0].rows;
    NX_TRY_FAIL(widen_bias(c));
    NX_TRY_FAIL(nx__planes_new(p, w->images, &together));
    for (p->first_image = 0; p->first_image < w->images; p->first_image += together) {
        int64_t images = nx_least(together, w->images - p->first_image);
        NX_TRY_FAIL(nx__planes_pad(p, images));
        for (int64_t k = 0; k < n; k++) {
            c->of = lattices[k];
            int64_t places = nx__volume(c->of.count), length = tile_length(c);
            c->images = images;
            c->together = sums_only(c->of.rows) || 2 * places > length ? 1 : nx_least(length / places, images);
            c->tiles = (places + length - 1) / length;
            int64_t units = (images + c->together - 1) / c->together * c->groups * c->tiles;
            c->parts = sums_only(c->of.rows) ? 1 : nx_least((nx_num_threads() + units - 1) / units, c->of.rows / PART + 1);
            int64_t cost = nx_least(places * c->together, length) * c->of.rows * (c->of.k + 1) / NX__SUMS_A_BYTE / c->parts + 1;
            NX_TRY_FAIL(nx_parallel(units * c->parts, nx_grain(cost), run_tiles, c));
        }
    }
fail:
    nx_room_free(p->at);
    nx_room_free(c->wide_bias);
    return status;
}

/* ---- the small side from the big one -------------------------------------------------------------------------------- */
static void plan_gather(const nx_windows *w, const float *big, bool may_be_direct, nx__planes *p) {
    *p = (nx__planes){.source = big, .channels = w->groups * w->big_channels, .split = w->stride[2],
                  .kept = w->kernel[2] == 1 ? 1 : w->stride[2]};
    for (int d = 0; d < 3; d++) {
        p->size[d] = w->big[d];
        p->origin[d] = -w->padding[d];
        p->extent[d] = (w->small[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1;
        if (d < 2) p->skip[d] = w->kernel[d] == 1 ? w->stride[d] : 1;
    }
    nx__planes_lay(p, may_be_direct);
}

/* The places of the small side. */
static nx_status plan_windows(const nx_windows *w, const nx__planes *p, lattice *l) {
    int64_t taps = nx__volume(w->kernel);
    *l = (lattice){.step = {w->stride[0] * p->layer, w->stride[1] * p->row}, .to_step = {1, 1, 1}, .plain = true,
                   .image_step = p->channels * p->plane,
                   .rows = w->small_channels, .k = w->big_channels * taps, .a_step = w->big_channels * taps};
    memcpy(l->count, w->small, sizeof l->count);
    l->apart = taps == 1 ? p->plane : 0;
    l->places = nx_alloc(sizeof(int64_t) * (size_t)l->k);
    if (l->places == NULL) return nx_fail_memory(sizeof(int64_t) * (size_t)l->k);
    for (int64_t k = 0; k < l->k; k++) {
        int64_t tap = k % taps, across = tap % w->kernel[2] * w->dilation[2];
        int64_t down = tap / w->kernel[2] % w->kernel[1] * w->dilation[1];
        int64_t deep = tap / w->kernel[2] / w->kernel[1] * w->dilation[0];
        l->places[k] = k / taps * p->plane + deep * p->layer + down * p->row + across % p->split * p->part + across / p->split;
    }
    return NX_OK;
}

nx_status nx_convolve_gather(const nx_windows *w, const float *big, const float *weight, const float *bias, const nx_tail *tail,
                             float *small) {
    nx__planes p;
    lattice l;
    convolution c = {.groups = w->groups, .from_channels = w->big_channels, .bias = bias, .tail = tail, .to = small};
    if (nx__winograd_suits(w)) return nx__winograd(w, false, big, weight, bias, tail, small);
    if (nx__alone_suits(w)) return nx__alone(w, big, weight, bias, tail, small);
    plan_gather(w, big, !sums_only(w->small_channels), &p);
    NX_TRY(plan_windows(w, &p, &l));
    l.weights = weight;
    memcpy(c.size, w->small, sizeof c.size);
    nx_status status = convolve(w, &p, &c, &l, 1);
    nx_free(l.places);
    return status;
}

void nx_convolve_follow(const nx_windows *w, const nx_tail *tail, float *small) {
    const int64_t channels = w->groups * w->small_channels, plane = nx__volume(w->small);
    for (int64_t at = 0; at < w->images * channels; at++)
        nx__put(tail, at % channels, small, small + at * plane, small + at * plane, plane);
}

/* ---- the big side from the small one ---------------------------------------------------------------------------------- */
/* In one dimension: the taps that meet the places which leave the rest `rest`, and the steps of the stride over which they
 * do: place `at` times stride + rest - padding of the big side, for `at` of first .. first + count. */
typedef struct phase {
    int64_t first, count;
    int64_t n_taps;
} phase;

static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

static bool meets(const nx_windows *w, int d, int64_t rest, int64_t tap) { return tap * w->dilation[d] % w->stride[d] == rest; }

static phase find_phase(const nx_windows *w, int d, int64_t rest) {
    phase f = {.first = -floor_div(rest - w->padding[d], w->stride[d])};
    f.count = floor_div(w->big[d] - 1 + w->padding[d] - rest, w->stride[d]) - f.first + 1;
    if (f.count < 0) f.count = 0;
    for (int64_t tap = 0; tap < w->kernel[d]; tap++) f.n_taps += meets(w, d, rest, tap);
    return f;
}

/* How far before a place the place lies that a tap reads. */
static int64_t tap_back(const nx_windows *w, int d, int64_t tap) { return tap * w->dilation[d] / w->stride[d]; }

static void plan_spread(const nx_windows *w, const float *small, bool may_be_direct, nx__planes *p) {
    *p = (nx__planes){.source = small, .channels = w->groups * w->small_channels, .split = 1, .kept = 1, .skip = {1, 1}};
    for (int d = 0; d < 3; d++) {
        int64_t low = INT64_MAX, high = INT64_MIN;
        for (int64_t rest = 0; rest < w->stride[d]; rest++) {
            phase f = find_phase(w, d, rest);
            for (int64_t tap = 0; f.count && tap < w->kernel[d]; tap++) {
                if (!meets(w, d, rest, tap)) continue;
                int64_t first = f.first - tap_back(w, d, tap), last = first + f.count - 1;
                low = nx_least(low, first);
                if (last > high) high = last;
            }
        }
        p->size[d] = w->small[d];
        p->origin[d] = low > high ? 0 : low;
        p->extent[d] = low > high ? 1 : high - low + 1;
    }
    nx__planes_lay(p, may_be_direct);
}

typedef struct turned { /* weights as rows of the big side's channels */
    const nx_windows *w;
    const float *from;
    float *to;
    const int64_t *taps;
    int64_t n_taps;
} turned;

enum { TURNED = 8 }; /* rows turned together, so that what lies side by side is read at once; more may lie in one set of the cache */

static nx_status turn_weights(void *arg, int64_t begin, int64_t end) {
    const turned *t = arg;
    const nx_windows *w = t->w;
    int64_t kernel = nx__volume(w->kernel), step = w->small_channels * t->n_taps;
    for (int64_t first = begin, n; first < end; first += n) {
        int64_t group = first / w->big_channels, channel = first % w->big_channels;
        n = nx_least(nx_least(TURNED, end - first), w->big_channels - channel);
        for (int64_t o = 0; o < w->small_channels; o++) {
            const float *from = t->from + ((group * w->small_channels + o) * w->big_channels + channel) * kernel;
            for (int64_t row = 0; row < n; row++, from += kernel) {
                float *to = t->to + (first + row) * step + o * t->n_taps;
                for (int64_t k = 0; k < t->n_taps; k++) to[k] = from[t->taps[k]];
            }
        }
    }
    return NX_OK;
}

/* The taps that places with the rests `rest` meet, and how far before such a place they read. */
static void find_taps(const nx_windows *w, const nx__planes *p, const int64_t *rest, int64_t *taps, int64_t *back) {
    int64_t n = 0;
    for (int64_t tap = 0; tap < nx__volume(w->kernel); tap++) {
        int64_t at[3] = {tap / w->kernel[2] / w->kernel[1], tap / w->kernel[2] % w->kernel[1], tap % w->kernel[2]};
        if (!meets(w, 0, rest[0], at[0]) || !meets(w, 1, rest[1], at[1]) || !meets(w, 2, rest[2], at[2])) continue;
        taps[n] = tap;
        back[n++] = tap_back(w, 0, at[0]) * p->layer + tap_back(w, 1, at[1]) * p->row + tap_back(w, 2, at[2]);
    }
}

/* The lattice of places with the rests `rest`; without places or taps k is 0. Owns places and weights. */
static nx_status plan_phase(const nx_windows *w, const nx__planes *p, const int64_t *rest, const float *weight, lattice *l) {
    phase f[3];
    int64_t n_taps = 1, steps[3] = {p->layer, p->row, 1};
    *l = (lattice){.step = {p->layer, p->row}, .plain = nx__volume(w->stride) == 1, .rows = w->big_channels,
                   .image_step = p->channels * p->plane};
    for (int d = 0; d < 3; d++) {
        f[d] = find_phase(w, d, rest[d]);
        n_taps *= f[d].n_taps;
        l->count[d] = f[d].count;
        l->first += (f[d].first - p->origin[d]) * steps[d];
        l->to_first[d] = f[d].first * w->stride[d] + rest[d] - w->padding[d];
        l->to_step[d] = w->stride[d];
    }
    l->k = l->a_step = w->small_channels * n_taps;
    if (l->k == 0 || nx__volume(l->count) == 0) return NX_OK;
    int64_t numbers = w->groups * w->big_channels * l->k;
    l->places = nx_alloc(sizeof(int64_t) * (size_t)(l->k + 2 * n_taps));
    float *made = nx_room_new(sizeof(float) * (size_t)numbers);
    l->weights = made;
    if (l->places == NULL || made == NULL) return nx_fail_memory(sizeof(float) * (size_t)numbers);
    int64_t *taps = l->places + l->k, *back = taps + n_taps;
    find_taps(w, p, rest, taps, back);
    for (int64_t k = 0; k < l->k; k++) l->places[k] = k / n_taps * p->plane - back[k % n_taps];
    turned t = {w, weight, made, taps, n_taps};
    return nx_parallel(w->groups * w->big_channels, nx_grain(l->k * 8), turn_weights, &t);
}

typedef struct filled { float *to; const float *bias; int64_t channels, plane; } filled;
static nx_status fill_results(void *arg, int64_t begin, int64_t end) {
    const filled *f = arg;
    for (int64_t at = begin; at < end; at++) {
        float x = f->bias ? f->bias[at % f->channels] : 0;
        for (int64_t k = 0; k < f->plane; k++) f->to[at * f->plane + k] = x;
    }
    return NX_OK;
}

/* ---- a small side of one place, which is a product of matrices ----------------------------------------------------------- */
/* Whether the big side is one window, all of it, which then has no dilation. */
static bool is_one_window(const nx_windows *w) {
    bool is_whole = w->groups == 1 && nx__volume(w->small) == 1;
    for (int d = 0; d < 3; d++) is_whole &= w->padding[d] == 0 && w->big[d] == w->kernel[d];
    return is_whole;
}

/* The small side's channels, image by image, times the weights, whose rows are windows. */
static nx_status spread_window(const nx_windows *w, const float *small, const float *weight, const float *bias, float *big) {
    const int64_t taps = nx__volume(w->kernel), n = w->big_channels * taps;
    float *start = bias ? nx_room_new(sizeof *start * (size_t)n) : NULL;
    if (bias && start == NULL) return nx_fail_memory(sizeof *start * (size_t)n);
    for (int64_t j = 0; bias && j < n; j++) start[j] = bias[j / taps];
    nx_status status = nx_product_spread(&(nx_product){
        .m = w->images, .n = n, .k = w->small_channels, .a = small, .a_row_step = w->small_channels, .a_k_step = 1, .b = weight,
        .b_k_step = n, .b_column_step = 1, .c = big, .c_row_step = n, .start = start});
    nx_room_free(start);
    return status;
}

static nx_status weigh_window(const nx_windows *w, const float *big, const float *small, float *weight) {
    const int64_t n = w->big_channels * nx__volume(w->kernel);
    return nx_product_spread(&(nx_product){.m = w->small_channels, .n = n, .k = w->images, .a = small, .a_row_step = 1,
                                           .a_k_step = w->small_channels, .b = big, .b_k_step = n, .b_column_step = 1, .c = weight,
                                           .c_row_step = n});
}

nx_status nx_convolve_spread(const nx_windows *w, const float *small, const float *weight, const float *bias, float *big) {
    nx_status status = NX_OK;
    nx__planes p;
    convolution c = {.groups = w->groups, .from_channels = w->small_channels, .bias = bias, .to = big};
    int64_t phases = nx__volume(w->stride), n = 0, reached = 0;
    if (nx__alone_suits_back(w)) return nx__alone_back(w, small, weight, bias, big);
    if (nx__winograd_suits(w)) return nx__winograd(w, true, small, weight, bias, NULL, big);
    if (is_one_window(w)) return spread_window(w, small, weight, bias, big);
    memcpy(c.size, w->big, sizeof c.size);
    lattice *lattices = nx_alloc_zeroed(sizeof *lattices * (size_t)phases);
    if (lattices == NULL) return nx_fail_memory(sizeof *lattices * (size_t)phases);
    plan_spread(w, small, !sums_only(w->big_channels), &p);
    for (int64_t at = 0; at < phases; at++) {
        int64_t rest[3] = {at / w->stride[2] / w->stride[1], at / w->stride[2] % w->stride[1], at % w->stride[2]};
        lattice *l = &lattices[n++];
        NX_TRY_FAIL(plan_phase(w, &p, rest, weight, l));
        if (l->places == NULL) n--;
        else reached += nx__volume(l->count);
    }
    if (reached < nx__volume(w->big)) {
        filled f = {big, bias, w->groups * w->big_channels, nx__volume(w->big)};
        NX_TRY_FAIL(nx_parallel(w->images * f.channels, nx_grain(f.plane * 4), fill_results, &f));
    }
    if (n) NX_TRY_FAIL(convolve(w, &p, &c, lattices, n));
fail:
    for (int64_t k = 0; k < n; k++) {
        nx_free(lattices[k].places);
        nx_room_free((void *)lattices[k].weights);
    }
    nx_free(lattices);
    return status;
}

/* ---- the weights' gradient --------------------------------------------------------------------------------------------- */
enum { PLACES = 512, PLACES_STEP = PLACES + 16, MOST_TAPS = 192 }; /* places and rows of windows that are multiplied together */
enum { SOME_ROWS = 8, LONG = 32 }; /* of weights in a group; places of a row: summed without packing, too */

typedef struct weighing {
    const nx_windows *w;
    const nx__planes *p;
    const lattice *l;
    const float *small;
    float *sums;           /* groups x k x small channels; without packing groups x small channels x k */
    int64_t images, block, blocks; /* rows of windows that one thread takes; so many of a group */
} weighing;

/* Adds up rows first .. first + rows of the windows of an image's group, times the small side. */
static nx_status weigh_image(const weighing *v, int64_t image, int64_t group, int64_t first, int64_t rows, float *windows, float *room) {
    const lattice *l = v->l;
    int64_t places = nx__volume(l->count);
    const float *from = nx__plane_of(v->p, image, group * v->w->big_channels);
    nx__stretch stretches[PLACES];
    for (int64_t at = 0; at < places; at += PLACES) {
        int64_t n = nx_least(PLACES, places - at);
        int made = find_stretches(l, at, n, stretches);
        for (int64_t k = 0; k < rows; k++) {
            for (int s = 0; s < made; s++)
                memcpy(windows + k * PLACES_STEP + stretches[s].to, from + l->places[first + k] + stretches[s].from,
                       (size_t)stretches[s].n * sizeof *windows);
        }
        NX_TRY(nx_product_run(&(nx_product){
            .m = rows, .n = l->rows, .k = n, .a = windows, .a_row_step = PLACES_STEP, .a_k_step = 1,
            .b = v->small + (image * v->w->groups + group) * l->rows * places + at, .b_k_step = 1, .b_column_step = places,
            .c = v->sums + (group * l->k + first) * l->rows, .c_row_step = l->rows, .add = true, .room = room}));
    }
    return NX_OK;
}

static nx_status weigh_blocks(void *arg, int64_t begin, int64_t end) {
    const weighing *v = arg;
    size_t room = nx_product_room(v->block, v->l->rows, PLACES), bytes = sizeof(float) * (room + (size_t)(v->block * PLACES_STEP));
    float *at = nx_room_new(bytes);
    if (at == NULL) return nx_fail_memory(bytes);
    nx_status status = NX_OK;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t group = unit / v->blocks, first = unit % v->blocks * v->block, rows = nx_least(v->block, v->l->k - first);
        for (int64_t image = 0; image < v->images && status == NX_OK; image++)
            status = weigh_image(v, v->p->first_image + image, group, first, rows, at + room, at);
    }
    nx_room_free(at);
    return status;
}

/* Sums of products where the numbers lie. */
static nx_status weigh_groups(void *arg, int64_t begin, int64_t end) {
    const weighing *v = arg;
    const lattice *l = v->l;
    int64_t places = nx__volume(l->count);
    for (int64_t group = begin; group < end; group++) {
        for (int64_t image = v->p->first_image; image < v->p->first_image + v->images; image++) {
            const float *from = nx__plane_of(v->p, image, group * v->w->big_channels);
            for (int64_t r = 0; r < l->rows; r++) {
                const float *g = v->small + ((image * v->w->groups + group) * l->rows + r) * places;
                for (int64_t at = 0; at < places; at += l->count[1] * l->count[2])
                    nx__taps_get()->dots(v->sums + (group * l->rows + r) * l->k, g + at, l->count[2], from + source_place(l, at),
                                         l->step[1], l->count[1], l->count[2], l->places, l->k);
            }
        }
    }
    return NX_OK;
}

/* groups x k x rows becomes groups x rows x k, a line of the cache of both at a time. */
enum { LINE = 16 };
static nx_status turn_sums(void *arg, int64_t begin, int64_t end) {
    const turned *t = arg;
    int64_t rows = t->w->small_channels, k = t->n_taps;
    for (int64_t at = begin, n; at < end; at += n) {
        const float *from = t->from + at / rows * rows * k + at % rows;
        n = nx_least(nx_least(LINE, end - at), rows - at % rows);
        for (int64_t first = 0; first < k; first += LINE) {
            const int64_t last = nx_least(first + LINE, k);
            for (int64_t row = 0; row < n; row++) {
                for (int64_t i = first; i < last; i++) t->to[(at + row) * k + i] = from[i * rows + row];
            }
        }
    }
    return NX_OK;
}

/* Whether sums go on where the numbers lie: of few rows, or of some with windows long enough for the ends of their sums. */
static bool adds_where_they_lie(const nx_windows *w) {
    return sums_only(w->small_channels) || (w->small_channels <= SOME_ROWS && w->small[2] >= LONG);
}

static nx_status weigh(weighing *v, nx__planes *p, float *weight) {
    const nx_windows *w = v->w;
    bool unpacked = adds_where_they_lie(w);
    int64_t together, n = w->groups * v->l->k * v->l->rows, pieces = 2 * nx_num_threads();
    nx_status status = NX_OK;
    v->sums = unpacked ? weight : nx_room_new(sizeof(float) * (size_t)n);
    if (v->sums == NULL) return nx_fail_memory(sizeof(float) * (size_t)n);
    memset(v->sums, 0, sizeof(float) * (size_t)n);
    v->block = (v->l->k * w->groups + pieces - 1) / pieces;
    v->block = (nx_least(nx_least(v->block, v->l->k), MOST_TAPS) + 11) / 12 * 12;
    v->blocks = (v->l->k + v->block - 1) / v->block;
    NX_TRY_FAIL(nx__planes_new(p, w->images, &together));
    for (p->first_image = 0; p->first_image < w->images; p->first_image += together) {
        v->images = nx_least(together, w->images - p->first_image);
        NX_TRY_FAIL(nx__planes_pad(p, v->images));
        int64_t cost = v->images * nx__volume(w->small) * w->small_channels / NX__SUMS_A_BYTE + 1;
        if (unpacked) NX_TRY_FAIL(nx_parallel(w->groups, nx_grain(cost * v->l->k), weigh_groups, v));
        else NX_TRY_FAIL(nx_parallel(w->groups * v->blocks, nx_grain(cost * v->block), weigh_blocks, v));
    }
    turned t = {w, v->sums, weight, NULL, v->l->k};
    if (!unpacked) NX_TRY_FAIL(nx_parallel(w->groups * w->small_channels, nx_grain(v->l->k * 16), turn_sums, &t));
fail:
    nx_room_free(p->at);
    if (!unpacked) nx_room_free(v->sums);
    return status;
}

nx_status nx_convolve_weigh(const nx_windows *w, const float *big, const float *small, float *weight) {
    nx__planes p;
    lattice l;
    if (nx__winograd_suits_weights(w)) return nx__winograd_weigh(w, big, small, weight);
    if (nx__alone_suits_weights(w)) return nx__alone_weigh(w, big, small, weight);
    if (is_one_window(w)) return weigh_window(w, big, small, weight);
    plan_gather(w, big, !adds_where_they_lie(w), &p); /* planes go on for a vector behind their rows */
    NX_TRY(plan_windows(w, &p, &l));
    weighing v = {.w = w, .p = &p, .l = &l, .small = small};
    nx_status status = weigh(&v, &p, weight);
    nx_free(l.places);
    return status;
}
