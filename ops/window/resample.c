/* Kernels of resample.op. Along each dimension a table says which places of the input a place of the result is made of, and
 * with which weights; a plane is resampled by the three tables, its gradient by the same tables the other way round. Planes lie
 * row by row in float, or in double for float64; they are split over threads. */
#include "gen/kernels.h"
#include "window/resample.h"

#include <math.h>

typedef nx__resample_kind kind;
typedef nx__resample_axis axis;

typedef struct resampling {
    axis axes[NX__SPACE];
    int64_t planes, in, out;
    int64_t lanes; /* numbers side by side at a place: channels, where these come last in memory */
    bool is_double, back; /* back: from a gradient of the result to one of the input */
    bool twice;           /* along a row each number is taken twice */
    const void *from;
    void *to;
} resampling;

/* A number as the computing type has it. */
static double as_computed(double x, bool is_double) { return is_double ? x : (double)(float)x; }

/* Places of the input for one place of the result. */
static double scale_of(kind kind, const axis *a, bool align, double given, bool is_double) {
    if (kind >= LINEAR_SMOOTH && a->in == a->out) return 1; /* an axis that keeps its size stays as it is */
    if (align && kind >= LINEAR) return a->out > 1 ? as_computed((double)(a->in - 1) / (double)(a->out - 1), is_double) : 0;
    if (given > 0) return as_computed(1 / given, is_double);
    return as_computed((double)a->in / (double)a->out, is_double);
}

static int64_t inside(int64_t at, int64_t n) { return at < 0 ? 0 : at >= n ? n - 1 : at; }

static void put(axis *a, int64_t i, int64_t place, double weight) {
    int64_t k = i * a->most + a->taps[i]++;
    a->places[k] = place;
    a->weights[k] = weight;
}

/* The weights of places -1 .. 2 beside a place that lies t behind place 0. */
static void cubic_weights(double t, double *w) {
    const double A = -0.75, x[4] = {t + 1, t, 1 - t, 2 - t};
    for (int k = 0; k < 4; k++)
        w[k] = k % 3 ? ((A + 2) * x[k] - (A + 3)) * x[k] * x[k] + 1 : ((A * x[k] - 5 * A) * x[k] + 8 * A) * x[k] - 4 * A;
}

static double sinc(double x) {
    return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x);
}

/* How many places a smooth kind sees to either side where it makes nothing smaller. */
static int reach_of(kind kind) {
    return kind == LINEAR_SMOOTH ? 1 : kind == CUBIC_SMOOTH ? 2 : 3;
}

static double smooth_weight(kind kind, double x) {
    const double A = -0.5;
    x = fabs(x);
    if (kind == LINEAR_SMOOTH) return x < 1 ? 1 - x : 0;
    if (kind == LANCZOS_SMOOTH) return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    return x < 1 ? ((A + 2) * x - (A + 3)) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * A : 0;
}

/* At most; the smooth kinds name a place once. Never so few of theirs that one or two are taken as they are. */
static int64_t taps_of(kind kind, double scale, int64_t in) {
    if (kind < LINEAR) return 1;
    if (kind < LINEAR_SMOOTH) return kind == LINEAR ? 2 : 4;
    double taps = ceil(reach_of(kind) * (scale > 1 ? scale : 1)) * 2 + 2;
    return taps < (double)in ? (int64_t)taps : in < 3 ? 3 : in;
}

static void plan_smooth(kind kind, axis *a, double scale, int64_t i) {
    double reach = reach_of(kind) * (scale >= 1 ? scale : 1), middle = scale * ((double)i + 0.5), total = 0;
    int64_t low = (int64_t)fmax(middle - reach + 0.5, 0), high = (int64_t)fmin(middle + reach + 0.5, (double)a->in);
    for (int64_t k = low; k < high; k++) {
        double w = smooth_weight(kind, ((double)k - middle + 0.5) * (scale >= 1 ? 1 / scale : 1));
        put(a, i, k, w);
        total += w;
    }
    for (int64_t k = 0; k < a->taps[i] && total != 0; k++) a->weights[i * a->most + k] /= total;
}

static void plan_place(kind kind, axis *a, double scale, bool align, bool is_double, int64_t i) {
    double at, w[4];
    if (kind >= LINEAR_SMOOTH) {
        plan_smooth(kind, a, scale, i);
    } else if (kind < LINEAR) {
        float f = kind == NEAREST ? (float)i * (float)scale : ((float)i + 0.5f) * (float)scale;
        put(a, i, inside((int64_t)floorf(f), a->in), 1);
    } else {
        at = is_double ? (align ? scale * (double)i : scale * ((double)i + 0.5) - 0.5)
                       : (double)(align ? (float)scale * (float)i : (float)scale * ((float)i + 0.5f) - 0.5f);
        at = fmin(at, (double)a->in + 1); /* a scale may be any number; so far behind the end all places are the last one */
        if (kind == LINEAR) {
            if (at < 0) at = 0;
            int64_t first = nx_least((int64_t)at, a->in - 1);
            double part = at - (double)first;
            if (part > 1) part = 1;
            put(a, i, first, 1 - part);
            put(a, i, nx_least(first + 1, a->in - 1), part);
        } else {
            cubic_weights(at - floor(at), w);
            for (int k = 0; k < 4; k++) put(a, i, inside((int64_t)floor(at) - 1 + k, a->in), w[k]);
        }
    }
}

nx_status nx__resample_plan(kind kind, axis *a, bool align, double given, bool is_double) {
    double scale = scale_of(kind, a, align, given, is_double);
    a->most = taps_of(kind, scale, a->in);
    size_t n = (size_t)(a->out * a->most), bytes = n * (sizeof(int64_t) + sizeof(double)) + sizeof(int64_t) * (size_t)a->out;
    a->places = nx_alloc_zeroed(bytes);
    if (a->places == NULL) return nx_fail_memory(bytes);
    a->weights = (double *)(a->places + n);
    a->taps = (int64_t *)(a->weights + n);
    for (int64_t i = 0; i < a->out; i++) plan_place(kind, a, scale, align, is_double, i);
    return NX_OK;
}

/* A row of the result is made of rows of the input, which are added up first, in `room`; its gradient the other way round. */
#define DEFINE_RESAMPLE(name, type)                                                                                \
    static void along_##name(const axis *w, int64_t lanes, const type *restrict from, type *restrict to) {         \
        const int64_t *p = w->places;                                                                              \
        const double *g = w->weights;                                                                              \
        if (w->most == 2 && lanes == 1) {                                                                          \
            for (int64_t x = 0; x < w->out; x++, p += 2, g += 2) to[x] = (type)g[0] * from[p[0]] + (type)g[1] * from[p[1]]; \
            return;                                                                                                \
        }                                                                                                          \
        for (int64_t x = 0; x < w->out; x++) {                                                                     \
            type sum = 0;                                                                                          \
            if (lanes == 1) {                                                                                      \
                EACH_TAP(w, x, k) sum += (type)w->weights[k] * from[w->places[k]];                                 \
                to[x] = sum;                                                                                       \
                continue;                                                                                          \
            }                                                                                                      \
            type *restrict at = to + x * lanes;                                                                    \
            memset(at, 0, sizeof(type) * (size_t)lanes);                                                           \
            EACH_TAP(w, x, k) add_##name((type)w->weights[k], from + w->places[k] * lanes, at, lanes);             \
        }                                                                                                          \
    }                                                                                                              \
    static void resample_##name(const resampling *r, const type *from, type *to, type *room) {                     \
        const axis *d = &r->axes[0], *h = &r->axes[1], *w = &r->axes[2];                                           \
        const int64_t lanes = r->lanes, row_in = w->in * lanes;                                                    \
        for (int64_t o = 0; o < d->out * h->out; o++, to += w->out * lanes) {                                      \
            const int64_t z = o / h->out, y = o % h->out;                                                          \
            const type *row = room;                                                                                \
            memset(room, 0, sizeof(type) * (size_t)row_in);                                                        \
            EACH_TAP(d, z, i) {                                                                                    \
                EACH_TAP(h, y, j) {                                                                                \
                    const type *at = from + (d->places[i] * h->in + h->places[j]) * row_in;                        \
                    const type g = (type)d->weights[i] * (type)h->weights[j];                                      \
                    if (d->taps[z] * h->taps[y] == 1 && g == 1) row = at;                                          \
                    else add_##name(g, at, room, row_in);                                                          \
                }                                                                                                  \
            }                                                                                                      \
            along_##name(w, lanes, row, to);                                                                       \
        }                                                                                                          \
    }                                                                                                              \
    static void spread_##name(const resampling *r, const type *from, type *to, type *room) {                       \
        const axis *d = &r->axes[0], *h = &r->axes[1], *w = &r->axes[2];                                           \
        const int64_t lanes = r->lanes, row_in = w->in * lanes;                                                    \
        const bool one = d->most * h->most * w->most == 1;                                                         \
        memset(to, 0, sizeof(type) * (size_t)(r->in * lanes));                                                     \
        for (int64_t o = 0; o < d->out * h->out; o++, from += w->out * lanes) {                                    \
            const int64_t z = o / h->out, y = o % h->out;                                                          \
            if (one && lanes == 1) {                                                                               \
                type *at = to + (d->places[z] * h->in + h->places[y]) * w->in;                                     \
                for (int64_t x = 0; x < w->out; x++) at[w->places[x]] += from[x];                                  \
                continue;                                                                                          \
            }                                                                                                      \
            memset(room, 0, sizeof(type) * (size_t)row_in);                                                        \
            for (int64_t x = 0; x < w->out; x++) {                                                                 \
                EACH_TAP(w, x, k) {                                                                                \
                    if (lanes == 1) room[w->places[k]] += (type)w->weights[k] * from[x];                           \
                    else add_##name((type)w->weights[k], from + x * lanes, room + w->places[k] * lanes, lanes);    \
                }                                                                                                  \
            }                                                                                                      \
            EACH_TAP(d, z, i) {                                                                                    \
                EACH_TAP(h, y, j) {                                                                                \
                    const type g = (type)d->weights[i] * (type)h->weights[j];                                      \
                    add_##name(g, room, to + (d->places[i] * h->in + h->places[j]) * row_in, row_in);              \
                }                                                                                                  \
            }                                                                                                      \
        }                                                                                                          \
    }                                                                                                              \
    static void take_##name(const resampling *r, const type *from, type *to) {                                     \
        const axis *d = &r->axes[0], *h = &r->axes[1], *w = &r->axes[2];                                           \
        const int64_t lanes = r->lanes, row = w->out * lanes;                                                      \
        const bool twice = r->twice;                                                                               \
        for (int64_t z = 0; z < d->out; z++) {                                                                     \
            for (int64_t y = 0; y < h->out; y++, to += row) {                                                      \
                const type *restrict at = from + (d->places[z] * h->in + h->places[y]) * w->in * lanes;            \
                if (y > 0 && h->places[y] == h->places[y - 1]) {                                                   \
                    memcpy(to, to - row, sizeof(type) * (size_t)row);                                              \
                    continue;                                                                                      \
                }                                                                                                  \
                for (int64_t x = 0; twice && x < w->in; x++) to[2 * x] = to[2 * x + 1] = at[x];                    \
                for (int64_t x = 0; !twice && lanes == 1 && x < w->out; x++) to[x] = at[w->places[x]];             \
                for (int64_t x = 0; lanes > 1 && x < w->out; x++)                                                  \
                    memcpy(to + x * lanes, at + w->places[x] * lanes, sizeof(type) * (size_t)lanes);               \
            }                                                                                                      \
        }                                                                                                          \
    }
#define DEFINE_ADD(name, type)                                                                    \
    static void add_##name(type g, const type *restrict from, type *restrict to, int64_t n) {     \
        for (int64_t i = 0; i < n; i++) to[i] += g * from[i];                                     \
    }
DEFINE_ADD(f32, float)
DEFINE_ADD(f64, double)
DEFINE_RESAMPLE(f32, float)
DEFINE_RESAMPLE(f64, double)

static nx_status run_planes(void *arg, int64_t begin, int64_t end) {
    const resampling *r = arg;
    bool one = r->axes[0].most * r->axes[1].most * r->axes[2].most == 1;
    size_t bytes = sizeof(double) * (size_t)(r->axes[2].in * r->lanes);
    void *room = nx_room_new(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    for (int64_t k = begin; k < end; k++) {
        const char *from = (const char *)r->from + k * r->lanes * (r->back ? r->out : r->in) * (r->is_double ? 8 : 4);
        char *to = (char *)r->to + k * r->lanes * (r->back ? r->in : r->out) * (r->is_double ? 8 : 4);
        if (r->is_double) {
            if (r->back) spread_f64(r, (const double *)from, (double *)to, room);
            else if (one) take_f64(r, (const double *)from, (double *)to);
            else resample_f64(r, (const double *)from, (double *)to, room);
        } else {
            if (r->back) spread_f32(r, (const float *)from, (float *)to, room);
            else if (one) take_f32(r, (const float *)from, (float *)to);
            else resample_f32(r, (const float *)from, (float *)to, room);
        }
    }
    nx_room_free(room);
    return NX_OK;
}

static bool takes_twice(const axis *a) {
    bool is = a->most == 1 && a->out == 2 * a->in;
    for (int64_t x = 0; is && x < a->out; x++) is = a->places[x] == x / 2;
    return is;
}

/* From `in` to `out`, which are sizes alone; `from` is read and `to` written. */
static nx_status run_resampling(kind kind, bool align, const double *scales, const nx_array *in, const nx_array *out,
                                const nx_array *from, const nx_array *to) {
    nx_status status = NX_OK;
    nx_array turned[2];
    int64_t dims_of[2][2 * NX_MAX_DIMS];
    resampling r = {.planes = in->sizes[0] * in->sizes[1], .in = 1, .out = 1, .lanes = 1, .is_double = to->dtype == NX_F64,
                    .back = from != in};
    nx__laid laid = {0};
    nx_dtype computing = r.is_double ? NX_F64 : NX_F32;
    int dims = in->ndim - 2;
    double work = 1;
    if (to->numel == 0) return NX_OK;
    for (int d = 0; d < NX__SPACE; d++) {
        int k = d - (NX__SPACE - dims);
        r.axes[d].in = k < 0 ? 1 : in->sizes[k + 2];
        r.axes[d].out = k < 0 ? 1 : out->sizes[k + 2];
        r.in *= r.axes[d].in;
        r.out *= r.axes[d].out;
        NX_TRY_FAIL(nx__resample_plan(k < 0 ? NEAREST : kind, &r.axes[d], align, scales[d], r.is_double));
        work *= (double)r.axes[d].most;
    }
    if (nx__lies_by_channels(from, &turned[0], dims_of[0]) && nx__lies_by_channels(to, &turned[1], dims_of[1])) {
        r.lanes = in->sizes[1];
        r.planes = in->sizes[0];
        from = &turned[0];
        to = &turned[1];
    }
    r.twice = r.lanes == 1 && takes_twice(&r.axes[2]);
    NX_TRY_FAIL(nx__lay(&laid, from, computing, true, &r.from));
    NX_TRY_FAIL(nx__lay(&laid, to, computing, false, &r.to));
    NX_TRY_FAIL(nx_parallel(r.planes, nx_grain((r.in + r.out * (int64_t)work) * r.lanes * 8), run_planes, &r));
    nx__lay_back(&laid, to, r.to);
fail:
    for (int d = 0; d < NX__SPACE; d++) nx_free(r.axes[d].places);
    nx__lay_end(&laid);
    return status;
}

static double given(nx_value scale) { return scale.tag == NX_TAG_NONE ? 0 : nx_value_as_float(&scale); }
#define SCALES(d, h, w) ((double[]){given(d), given(h), given(w)})

nx_status nx__resample(nx_run *run, const nx_array *self, nx_value number, bool align_corners, nx_value d, nx_value h, nx_value w,
                       nx_array *out) {
    if (self->dtype == NX_U8 && number.i > NEAREST_EXACT)
        return nx__resample_bytes((kind)number.i, align_corners, given(h), given(w), self, out);
    return run_resampling((kind)number.i, align_corners, SCALES(d, h, w), self, out, self, out);
}
nx_status nx__resample_back(nx_run *run, const nx_array *grad_output, nx_value number, bool align_corners, nx_value d, nx_value h,
                            nx_value w, nx_array *out) {
    return run_resampling((kind)number.i, align_corners, SCALES(d, h, w), out, grad_output, grad_output, out);
}
