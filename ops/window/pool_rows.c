/* Pooling row by row, see pool_rows.h. Compiled once a level with NX_LEVEL_NAME set. The windows of a row are walked together:
 * what each of them has at one of its places is one step over the row, so that elements lie side by side; each window still
 * meets its places in their order. */
#include "window/pool_rows.h"

#include <string.h>

enum { PIECE = 256 }; /* windows of a row that are walked together */

/* Windows begin <= x < end of a row have a place k. */
typedef struct reach { int64_t begin, end; } reach;
static reach reach_of(const nx__pool_axis *a, int64_t k, int64_t begin, int64_t end) {
    int64_t first = a->padding - k * a->step, past = a->in + first; /* of x stride: first <= x stride < past */
    int64_t low = first <= 0 ? 0 : (first + a->stride - 1) / a->stride;
    int64_t high = past <= 0 ? 0 : (past + a->stride - 1) / a->stride;
    return (reach){low > begin ? low : begin, high < end ? high : end};
}

/* One loop for each of the usual strides, in which neighbours are taken by shuffles. */
#define EACH_STRIDE(stride, loop, ...)                \
    if ((stride) == 1) { loop(1, __VA_ARGS__) }       \
    else if ((stride) == 2) { loop(2, __VA_ARGS__) }  \
    else { loop((stride), __VA_ARGS__) }
#define TAKE_LARGEST(s, n, from, best, at, place)                                   \
    for (int64_t x = 0; x < n; x++) {                                               \
        bool larger = from[x * s] > best[x] || from[x * s] != from[x * s];          \
        best[x] = larger ? from[x * s] : best[x];                                   \
        at[x] = larger ? (int32_t)(place) + (int32_t)x * (int32_t)(s) : at[x];      \
    }
#define ADD_EACH(s, n, from, sum) for (int64_t x = 0; x < n; x++) sum[x] += from[x * s];
#define SPREAD_EACH(s, n, to, part) for (int64_t x = 0; x < n; x++) to[x * s] += part[x];

/* For each row of windows, then for each row of places of theirs: `row` is its first place, x0 <= x < x1 the windows. */
#define EACH_ROW(axes)                                                           \
    for (int64_t z = 0; z < (axes)[0].out; z++)                                  \
        for (int64_t y = 0; y < (axes)[1].out; y++)                              \
            for (int64_t x0 = 0, x1; x0 < (axes)[2].out; x0 = x1)                \
                if ((x1 = x0 + PIECE < (axes)[2].out ? x0 + PIECE : (axes)[2].out), true)
#define EACH_ROW_OF_PLACES(axes)                                                                                       \
    for (int64_t d = (axes)[0].low[z]; d < (axes)[0].high[z]; d += (axes)[0].step)                                     \
        for (int64_t h = (axes)[1].low[y], row = (d * (axes)[1].in + h) * (axes)[2].in; h < (axes)[1].high[y];         \
             h += (axes)[1].step, row += (axes)[1].step * (axes)[2].in)

static int64_t divisor_at(const nx__pool_axis *axes, int64_t divisor, int64_t z, int64_t y, int64_t x) {
    return divisor ? divisor : axes[0].count[z] * axes[1].count[y] * axes[2].count[x];
}

/* Rows of places are first laid out by their rest by the stride, what is missing as `absent`, so that each place k of a row's
 * windows is one stretch: place x stride - padding + k step lies at at[k] + x. Whole vectors are walked, and no loop has an end
 * of its own. */
enum { LINE = 1536, WHOLE = 16, MOST = 16 };
typedef struct lines {
    int64_t begin, end, n; /* windows; whole vectors of them */
    int64_t length, at[MOST];
    reach rests[MOST];
    bool fit;
} lines;

static void lay_lines(const nx__pool_axis *a, int64_t x0, int64_t x1, lines *l) {
    if (l->begin == x0 && l->end == x1) return; /* as for the row before */
    *l = (lines){.begin = x0, .end = x1};
    if (a->width > MOST || a->stride > MOST) return;
    l->n = (x1 - x0 + WHOLE - 1) / WHOLE * WHOLE;
    l->length = l->n + (a->width - 1) * a->step / a->stride + 1;
    for (int64_t k = 0; k < a->width; k++) l->at[k] = k * a->step % a->stride * l->length + k * a->step / a->stride;
    for (int64_t rest = 0; rest < a->stride; rest++) {
        nx__pool_axis places = *a; /* the windows of the one place `rest` */
        places.step = rest;
        l->rests[rest] = reach_of(&places, 1, x0, x0 + l->length);
    }
    l->fit = a->stride * l->length <= LINE;
}

#define TAKE_REST(s, n, from, to) for (int64_t j = 0; j < n; j++) to[j] = from[j * s];

#define DEFINE_LINES(type)                                                                                                    \
    static void rest_##type(int64_t s, int64_t n, const type *restrict from, type *restrict to) {                             \
        EACH_STRIDE(s, TAKE_REST, n, from, to)                                                                                \
    }                                                                                                                         \
    static void fill_lines_##type(const nx__pool_axis *a, const lines *l, int64_t x0, const type *row, type absent,           \
                                  type *line) {                                                                               \
        for (int64_t rest = 0; rest < a->stride; rest++, line += l->length) {                                                 \
            const reach r = l->rests[rest];                                                                                   \
            const int64_t end = r.end > r.begin ? r.end : r.begin;                                                            \
            for (int64_t x = x0; x < r.begin && x < x0 + l->length; x++) line[x - x0] = absent;                               \
            if (end > r.begin)                                                                                                \
                rest_##type(a->stride, end - r.begin, row + r.begin * a->stride - a->padding + rest, line + (r.begin - x0));  \
            for (int64_t x = end; x < x0 + l->length; x++) line[x - x0] = absent;                                             \
        }                                                                                                                     \
    }                                                                                                                         \
    static __attribute__((noinline)) void largest_of_line_##type(int64_t n, const type *restrict line, type *restrict best,   \
                                                                 int32_t *restrict at, int32_t place, int32_t s) {            \
        n = n / WHOLE * WHOLE;                                                                                                \
        for (int64_t x = 0; x < n; x++) {                                                                                     \
            bool larger = (line[x] > best[x]) | (line[x] != line[x]);                                                         \
            best[x] = larger ? line[x] : best[x];                                                                             \
            at[x] = larger ? place + (int32_t)x * s : at[x];                                                                  \
        }                                                                                                                     \
    }                                                                                                                         \
    static void max_of_row_##type(const nx__pool_axis *last, const lines *l, int64_t x0, const type *from, int64_t row,       \
                                  type *best, int32_t *at) {                                                                  \
        type line[LINE];                                                                                                      \
        fill_lines_##type(last, l, x0, from + row, (type)-INFINITY, line);                                                    \
        for (int64_t k = 0; k < last->width; k++) {                                                                           \
            const int64_t place = row + x0 * last->stride - last->padding + k * last->step;                                   \
            largest_of_line_##type(l->n, line + l->at[k], best, at, (int32_t)place, (int32_t)last->stride);                   \
        }                                                                                                                     \
    }
DEFINE_LINES(float)
DEFINE_LINES(double)

#define DEFINE(type)                                                                                                          \
    static void take_##type(int64_t s, int64_t n, const type *restrict from, type *restrict best, int32_t *restrict at,       \
                            int64_t place) {                                                                                  \
        EACH_STRIDE(s, TAKE_LARGEST, n, from, best, at, place)                                                                \
    }                                                                                                                         \
    static void add_##type(int64_t s, int64_t n, const type *restrict from, type *restrict sum) {                             \
        EACH_STRIDE(s, ADD_EACH, n, from, sum)                                                                                \
    }                                                                                                                         \
    static void spread_##type(int64_t s, int64_t n, type *restrict to, const type *restrict part) {                           \
        EACH_STRIDE(s, SPREAD_EACH, n, to, part)                                                                              \
    }                                                                                                                         \
    static void max_##type(const nx__pool_axis axes[NX__SPACE], const type *from, type *to, int64_t *made) {                  \
        const nx__pool_axis *last = &axes[2];                                                                                 \
        type best[PIECE];                                                                                                     \
        int32_t at[PIECE];                                                                                                    \
        lines laid;                                                                                                           \
        laid.begin = laid.end = 0; /* none yet */                                                                             \
        EACH_ROW(axes) {                                                                                                      \
            lay_lines(last, x0, x1, &laid);                                                                                   \
            for (int64_t x = x1 - x0; laid.fit && x < laid.n; x++) best[x] = 0, at[x] = 0;                                       \
            int64_t o = (z * axes[1].out + y) * last->out, base = (axes[0].low[z] * axes[1].in + axes[1].low[y]) * last->in;  \
            for (int64_t x = x0; x < x1; x++) best[x - x0] = (type)-INFINITY, at[x - x0] = (int32_t)(base + last->low[x]);    \
            EACH_ROW_OF_PLACES(axes) {                                                                                        \
                if (laid.fit) max_of_row_##type(last, &laid, x0, from, row, best, at);                                        \
                for (int64_t k = 0; k < last->width && !laid.fit; k++) {                                                      \
                    reach r = reach_of(last, k, x0, x1);                                                                      \
                    if (r.begin >= r.end) continue;                                                                           \
                    int64_t place = row + r.begin * last->stride - last->padding + k * last->step;                            \
                    take_##type(last->stride, r.end - r.begin, from + place, best + (r.begin - x0), at + (r.begin - x0),      \
                                place);                                                                                       \
                }                                                                                                             \
            }                                                                                                                 \
            memcpy(to + o + x0, best, sizeof(type) * (size_t)(x1 - x0));                                                      \
            for (int64_t x = x0; x < x1; x++) made[o + x] = at[x - x0];                                                       \
        }                                                                                                                     \
    }                                                                                                                         \
    static void average_##type(const nx__pool_axis axes[NX__SPACE], int64_t divisor, const type *from, type *to) {            \
        const nx__pool_axis *last = &axes[2];                                                                                 \
        EACH_ROW(axes) {                                                                                                      \
            type *sum = to + (z * axes[1].out + y) * last->out;                                                               \
            memset(sum + x0, 0, sizeof(type) * (size_t)(x1 - x0));                                                            \
            EACH_ROW_OF_PLACES(axes) {                                                                                        \
                for (int64_t k = 0; k < last->width; k++) {                                                                   \
                    reach r = reach_of(last, k, x0, x1);                                                                      \
                    if (r.begin >= r.end) continue;                                                                           \
                    add_##type(last->stride, r.end - r.begin,                                                                 \
                               from + row + r.begin * last->stride - last->padding + k * last->step, sum + r.begin);          \
                }                                                                                                             \
            }                                                                                                                 \
            for (int64_t x = x0; x < x1; x++) {                                                                               \
                int64_t n = divisor_at(axes, divisor, z, y, x);                                                               \
                sum[x] = n ? sum[x] / (type)n : 0;                                                                            \
            }                                                                                                                 \
        }                                                                                                                     \
    }                                                                                                                         \
    /* Places get their windows' parts in the order of the windows: of a row the last place of each window comes first. */    \
    static void average_back_##type(const nx__pool_axis axes[NX__SPACE], int64_t divisor, const type *from, type *to) {       \
        const nx__pool_axis *last = &axes[2];                                                                                 \
        type part[PIECE];                                                                                                     \
        memset(to, 0, sizeof(type) * (size_t)(axes[0].in * axes[1].in * axes[2].in));                                         \
        EACH_ROW(axes) {                                                                                                      \
            for (int64_t x = x0; x < x1; x++) {                                                                               \
                int64_t n = divisor_at(axes, divisor, z, y, x);                                                               \
                part[x - x0] = n ? from[(z * axes[1].out + y) * last->out + x] / (type)n : 0;                                 \
            }                                                                                                                 \
            EACH_ROW_OF_PLACES(axes) {                                                                                        \
                for (int64_t k = last->width - 1; k >= 0; k--) {                                                              \
                    reach r = reach_of(last, k, x0, x1);                                                                      \
                    if (r.begin >= r.end) continue;                                                                           \
                    spread_##type(last->stride, r.end - r.begin,                                                              \
                                  to + row + r.begin * last->stride - last->padding + k * last->step, part + (r.begin - x0)); \
                }                                                                                                             \
            }                                                                                                                 \
        }                                                                                                                     \
    }

/* ---- channels side by side: the windows' tables serve, whatever distance the windows lie at ------------------------------ */
#define EACH_PLACE(axes)                                                                                             \
    for (int64_t d = (axes)[0].low[z]; d < (axes)[0].high[z]; d += (axes)[0].step)                                   \
        for (int64_t h = (axes)[1].low[y]; h < (axes)[1].high[y]; h += (axes)[1].step)                               \
            for (int64_t w = (axes)[2].low[x], i = (d * (axes)[1].in + h) * (axes)[2].in + w; w < (axes)[2].high[x]; \
                 w += (axes)[2].step, i += (axes)[2].step)
#define DEFINE_LANES(type)                                                                                                   \
    static void max_lanes_##type(const nx__pool_axis axes[NX__SPACE], int64_t row, int64_t channels, const type *from,       \
                                 type *to, int64_t *made) {                                                                  \
        const int64_t z = row / axes[1].out, y = row % axes[1].out;                                                          \
        type best[PIECE];                                                                                                    \
        int32_t at[PIECE];                                                                                                   \
        for (int64_t x = 0, o = row * axes[2].out; x < axes[2].out; x++, o++) {                                              \
            const int64_t first = (axes[0].low[z] * axes[1].in + axes[1].low[y]) * axes[2].in + axes[2].low[x];              \
            for (int64_t c = 0, n; c < channels; c += n) {                                                                   \
                n = channels - c < PIECE ? channels - c : PIECE;                                                             \
                for (int64_t k = 0; k < n; k++) best[k] = (type)-INFINITY, at[k] = (int32_t)first;                           \
                EACH_PLACE(axes) {                                                                                           \
                    const type *here = from + i * channels + c;                                                              \
                    for (int64_t k = 0; k < n; k++) {                                                                        \
                        bool larger = here[k] > best[k] || here[k] != here[k];                                               \
                        best[k] = larger ? here[k] : best[k];                                                                \
                        at[k] = larger ? (int32_t)i : at[k];                                                                 \
                    }                                                                                                        \
                }                                                                                                            \
                memcpy(to + o * channels + c, best, sizeof(type) * (size_t)n);                                               \
                for (int64_t k = 0; k < n; k++) made[o * channels + c + k] = at[k];                                          \
            }                                                                                                                \
        }                                                                                                                    \
    }                                                                                                                        \
    static void average_lanes_##type(const nx__pool_axis axes[NX__SPACE], int64_t divisor, int64_t row, int64_t channels,    \
                                     const type *from, type *to) {                                                           \
        const int64_t z = row / axes[1].out, y = row % axes[1].out;                                                          \
        for (int64_t x = 0, o = row * axes[2].out; x < axes[2].out; x++, o++) {                                              \
            type *restrict sum = to + o * channels;                                                                          \
            const int64_t n = divisor_at(axes, divisor, z, y, x);                                                            \
            memset(sum, 0, sizeof(type) * (size_t)channels);                                                                 \
            EACH_PLACE(axes) {                                                                                               \
                const type *here = from + i * channels;                                                                      \
                for (int64_t k = 0; k < channels; k++) sum[k] += here[k];                                                    \
            }                                                                                                                \
            for (int64_t k = 0; k < channels; k++) sum[k] = n ? sum[k] / (type)n : 0;                                        \
        }                                                                                                                    \
    }
DEFINE(float)
DEFINE(double)
DEFINE_LANES(float)
DEFINE_LANES(double)

const nx__pool_rows NX_AT_LEVEL(nx__pool_rows) = {
    {max_float, average_float, max_lanes_float, average_lanes_float, average_back_float},
    {max_double, average_double, max_lanes_double, average_lanes_double, average_back_double}};
