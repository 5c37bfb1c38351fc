/* Convolutions of groups of one channel, depthwise ones: a channel after the other, where it lies, by taps.c. The big side without
 * strides is the small side of windows that go the other way, with the weights turned round. With a stride of 2 along a row its even
 * and its odd numbers meet taps of their own; the small side is copied with zeros around its rows first. */
#include "kernel/convolve/convolve.h"
#include "kernel/convolve/taps.h"

typedef struct alone {
    nx__channel channel;
    int64_t channels, groups, rows; /* that are read, of all images; rows: that are made of each */
    const float *from, *weights, *bias;
    const nx_tail *tail;
    float *to;
} alone;

static bool is_flat(const nx_windows *w) {
    return w->kernel[0] == 1 && w->big[0] == 1 && w->small[0] == 1 && w->padding[0] == 0 && w->big_channels == 1;
}

bool nx__alone_suits(const nx_windows *w) {
    const bool narrow = w->kernel[2] <= NX__CHANNEL_WIDTH && w->padding[2] <= NX__CHANNEL_PADDING && w->stride[2] <= 2;
    return is_flat(w) && narrow && w->small_channels <= NX__FEW_ROWS && w->big[2] < INT32_MAX / 4;
}

/* Number `at` of `count` pieces of n numbers; at the ends, around which there is nothing to be read, a copy in `room`. */
static const float *piece_at(const float *from, int64_t at, int64_t count, int64_t n, float *room) {
    if (at * n >= NX__TAPS_SLACK && (count - at - 1) * n >= NX__TAPS_SLACK) return from + at * n;
    return memcpy(room, from + at * n, sizeof *room * (size_t)n);
}

static nx_status run_channels(void *arg, int64_t begin, int64_t end) {
    const alone *a = arg;
    const int64_t from = a->channel.from[0] * a->channel.from[1], made = a->channel.made[0] * a->channel.made[1];
    const int64_t n_taps = a->channel.kernel[0] * a->channel.kernel[1];
    const nx__taps *taps = nx__taps_get();
    const size_t bytes = sizeof(float) * (size_t)(from + 2 * NX__TAPS_SLACK);
    float *room = nx_room_new(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    memset(room, 0, NX__TAPS_SLACK * sizeof *room);
    memset(room + NX__TAPS_SLACK + from, 0, NX__TAPS_SLACK * sizeof *room);
    for (int64_t at = begin; at < end; at++) {
        const float *x = piece_at(a->from, at, a->channels, from, room + NX__TAPS_SLACK);
        for (int64_t r = 0; r < a->rows; r++) {
            const int64_t row = at % a->groups * a->rows + r;
            const int64_t result = at * a->rows + r, left = (end * a->rows - result) * made;
            taps->channel(&a->channel, a->to + result * made, left, x, a->weights + row * n_taps, a->bias ? a->bias[row] : 0);
            if (a->tail) nx__put(a->tail, row, a->to, a->to + result * made, a->to + result * made, made);
        }
    }
    nx_room_free(room);
    return NX_OK;
}

static nx__channel channel_of(const nx_windows *w) {
    nx__channel c;
    for (int d = 0; d < 2; d++) {
        c.from[d] = w->big[d + 1];
        c.made[d] = w->small[d + 1];
        c.kernel[d] = w->kernel[d + 1];
        c.stride[d] = w->stride[d + 1];
        c.dilation[d] = w->dilation[d + 1];
        c.padding[d] = w->padding[d + 1];
    }
    return c;
}

nx_status nx__alone(const nx_windows *w, const float *big, const float *weight, const float *bias, const nx_tail *tail, float *small) {
    alone a = {.channel = channel_of(w), .channels = w->images * w->groups, .groups = w->groups, .rows = w->small_channels, .from = big,
               .weights = weight, .bias = bias, .tail = tail, .to = small};
    return nx_parallel(a.channels, nx_grain(nx__volume(w->small) * a.rows * (nx__volume(w->kernel) + 4)), run_channels, &a);
}

/* ---- the weights' gradient --------------------------------------------------------------------------------------------- */
typedef struct weighed {
    nx__channel channel;
    int64_t images, groups, rows;
    const float *from, *g;
    float *to;
} weighed;

static nx_status weigh_groups(void *arg, int64_t begin, int64_t end) {
    const weighed *v = arg;
    const int64_t from = v->channel.from[0] * v->channel.from[1], made = v->channel.made[0] * v->channel.made[1];
    const int64_t n_taps = v->channel.kernel[0] * v->channel.kernel[1], rows = v->groups * v->rows;
    const size_t bytes = sizeof(float) * (size_t)(from + made + 3 * NX__TAPS_SLACK);
    float *room = nx_room_new(bytes), *copy = room + NX__TAPS_SLACK, *copy_of_g = copy + from + NX__TAPS_SLACK;
    if (room == NULL) return nx_fail_memory(bytes);
    memset(room, 0, bytes);
    for (int64_t group = begin; group < end; group++) {
        memset(v->to + group * v->rows * n_taps, 0, sizeof *v->to * (size_t)(v->rows * n_taps));
        for (int64_t image = 0; image < v->images; image++) {
            const float *x = piece_at(v->from, image * v->groups + group, v->images * v->groups, from, copy);
            for (int64_t row = group * v->rows; row < (group + 1) * v->rows; row++) {
                const float *g = piece_at(v->g, image * rows + row, v->images * rows, made, copy_of_g);
                nx__taps_get()->weigh_channel(&v->channel, v->to + row * n_taps, x, g);
            }
        }
    }
    nx_room_free(room);
    return NX_OK;
}

enum { NARROW = 32 }; /* places of a row for which masks take less than a copy with the padding around it */
bool nx__alone_suits_weights(const nx_windows *w) {
    return nx__alone_suits(w) && nx__channel_weighs(w->kernel[2]) && w->small[2] <= NARROW;
}

nx_status nx__alone_weigh(const nx_windows *w, const float *big, const float *small, float *weight) {
    weighed v = {.channel = channel_of(w), .images = w->images, .groups = w->groups, .rows = w->small_channels, .from = big,
                 .g = small, .to = weight};
    const int64_t each = w->images * nx__volume(w->small) * w->small_channels * nx__volume(w->kernel);
    return nx_parallel(w->groups, nx_grain(each / NX__SUMS_A_BYTE + 1), weigh_groups, &v);
}

/* ---- the big side from the small one ---------------------------------------------------------------------------------- */
static bool turn_windows(const nx_windows *w, nx_windows *turned) {
    *turned = *w;
    memcpy(turned->big, w->small, sizeof w->small);
    memcpy(turned->small, w->big, sizeof w->big);
    bool fits = w->small_channels == 1 && nx__volume(w->stride) == 1;
    for (int d = 0; d < 3; d++) fits &= (turned->padding[d] = w->dilation[d] * (w->kernel[d] - 1) - w->padding[d]) >= 0;
    return fits && nx__alone_suits(turned);
}

static nx_status spread_turned(const nx_windows *turned, const float *small, const float *weight, const float *bias, float *big) {
    const int64_t taps = nx__volume(turned->kernel), n = turned->groups * taps;
    float *weights = nx_room_new(sizeof *weights * (size_t)n);
    if (weights == NULL) return nx_fail_memory(sizeof *weights * (size_t)n);
    for (int64_t k = 0; k < n; k++) weights[k] = weight[k / taps * taps + taps - 1 - k % taps];
    nx_status status = nx__alone(turned, small, weights, bias, NULL, big);
    nx_room_free(weights);
    return status;
}

enum { WHOLE = 16 }; /* numbers of a row that are made together: a vector of any level */
typedef struct halved {
    const nx_windows *w;
    const float *from, *weights, *bias;
    float *to;
    int64_t last, n, row; /* the last tap of even numbers; pairs of a row; numbers of a copied row, which begins `last` places early */
} halved;

static bool suits_halved(const nx_windows *w) {
    const bool neighbours = w->kernel[1] <= NX__CHANNEL_WIDTH && w->dilation[1] == 1 && w->dilation[2] == 1;
    return is_flat(w) && w->small_channels == 1 && neighbours && w->stride[2] == 2;
}

/* Row y of the big side, of which the first number may have no place in it. */
static void spread_row(const halved *h, const float *copy, const float *weights, float bias, int64_t y, float *line) {
    const nx_windows *w = h->w;
    const float *rows[NX__CHANNEL_WIDTH], *of_rows[NX__CHANNEL_WIDTH];
    int n = 0;
    for (int64_t tap = 0, from = y + w->padding[1]; tap < w->kernel[1] && from >= 0; tap++, from--) {
        if (from % w->stride[1] || from / w->stride[1] >= w->small[1]) continue;
        rows[n] = copy + from / w->stride[1] * h->row + h->last;
        of_rows[n++] = weights + tap * w->kernel[2];
    }
    nx__taps_get()->spread_row(line, rows, of_rows, n, w->kernel[2], h->n, bias);
}

static nx_status spread_channels(void *arg, int64_t begin, int64_t end) {
    const halved *h = arg;
    const nx_windows *w = h->w;
    const int64_t height = w->small[1], width = w->small[2], first = w->padding[2] / 2 - h->last;
    const int64_t low = first > 0 ? first : 0, high = nx_least(width, first + h->row), plane = height * h->row;
    const size_t bytes = sizeof(float) * (size_t)(plane + 2 * h->n);
    float *copy = nx_room_new(bytes), *line = copy + plane;
    if (copy == NULL) return nx_fail_memory(bytes);
    memset(copy, 0, sizeof *copy * (size_t)plane);
    for (int64_t at = begin; at < end; at++) {
        const int64_t group = at % w->groups;
        float *to = h->to + at * w->big[1] * w->big[2];
        for (int64_t y = 0; y < height && low < high; y++)
            memcpy(copy + y * h->row + low - first, h->from + (at * height + y) * width + low, sizeof *copy * (size_t)(high - low));
        for (int64_t y = 0; y < w->big[1]; y++, to += w->big[2]) {
            spread_row(h, copy, h->weights + group * w->kernel[1] * w->kernel[2], h->bias ? h->bias[group] : 0, y, line);
            memcpy(to, line + w->padding[2] % 2, sizeof *to * (size_t)w->big[2]);
        }
    }
    nx_room_free(copy);
    return NX_OK;
}

static nx_status spread_halved(const nx_windows *w, const float *small, const float *weight, const float *bias, float *big) {
    halved h = {.w = w, .from = small, .weights = weight, .bias = bias, .to = big, .last = (w->kernel[2] - 1) / 2};
    h.n = ((w->big[2] + w->padding[2] % 2 + 1) / 2 + WHOLE - 1) / WHOLE * WHOLE;
    h.row = h.last + h.n;
    return nx_parallel(w->images * w->groups, nx_grain(nx__volume(w->big) * (nx__volume(w->kernel) + 4)), spread_channels, &h);
}

bool nx__alone_suits_back(const nx_windows *w) {
    nx_windows turned;
    return suits_halved(w) || turn_windows(w, &turned);
}

nx_status nx__alone_back(const nx_windows *w, const float *small, const float *weight, const float *bias, float *big) {
    nx_windows turned;
    if (suits_halved(w)) return spread_halved(w, small, weight, bias, big);
    (void)turn_windows(w, &turned); /* which fits */
    return spread_turned(&turned, small, weight, bias, big);
}
