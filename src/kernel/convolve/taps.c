/* What convolutions do over and over (convolve.c), at each instruction-set level: packing windows into panels, and sums of
 * few products without packing. Numbers lie in planes that are padded, so that nothing asks where an image ends. */
#include "kernel/convolve/convolve.h"
#include "kernel/convolve/taps.h"
#include "kernel/panel.h"

enum { WIDE = NX_LANES, WIDEST = NX__PANEL_VECTORS * WIDE };
typedef float wide __attribute__((vector_size(4 * NX_LANES)));
typedef float loose __attribute__((vector_size(4 * NX_LANES), aligned(4), may_alias));

static void pack(float *to, const float *from, const float *end, const int64_t *places, int64_t k, const nx__stretch *stretches,
                 int n) {
    for (int64_t i = 0; i < k; i++, to += WIDEST) {
        const float *row = from + places[i];
        for (int s = 0; s < n; s++) {
            const float *x = row + stretches[s].from;
            float *y = to + stretches[s].to;
            int64_t count = stretches[s].n;
            if (NX_UNLIKELY(x + WIDEST > end)) memcpy(y, x, (size_t)count * sizeof *y);
            else
                for (int v = 0; v * WIDE < count; v++) ((loose *)y)[v] = ((const loose *)x)[v];
        }
    }
}

/* `vectors` vectors of sums side by side. */
#define DEFINE_SUMS(name, vectors)                                                                                         \
    static inline __attribute__((always_inline)) void name(float *to, const float *from, const int64_t *places,            \
                                                           const float *weights, int64_t k, float start) {                 \
        wide s[vectors];                                                                                                   \
        for (int v = 0; v < vectors; v++) s[v] = (wide){0};                                                                \
        for (int64_t i = 0; i < k; i++) {                                                                                  \
            const wide w = weights[i] - (wide){0};                                                                         \
            const float *x = from + places[i];                                                                             \
            for (int v = 0; v < vectors; v++) s[v] += w * ((const loose *)x)[v];                                           \
        }                                                                                                                  \
        for (int v = 0; v < vectors; v++) ((loose *)to)[v] = s[v] + start;                                                 \
    }
DEFINE_SUMS(sums_4, 4)
DEFINE_SUMS(sums_1, 1)

static void sums(float *to, const float *from, int64_t n, const int64_t *places, const float *weights, int64_t k, float start) {
    for (; n >= 4 * WIDE; n -= 4 * WIDE, to += 4 * WIDE, from += 4 * WIDE) sums_4(to, from, places, weights, k, start);
    for (; n >= WIDE; n -= WIDE, to += WIDE, from += WIDE) sums_1(to, from, places, weights, k, start);
    if (n > 0) { /* the planes go on for a vector */
        float part[WIDE];
        sums_1(part, from, places, weights, k, start);
        memcpy(to, part, (size_t)n * sizeof *to);
    }
}

/* ---- a channel that is read alone ------------------------------------------------------------------------------------- */
typedef int32_t lanes __attribute__((vector_size(4 * NX_LANES)));
enum { TOGETHER = 4, MOST_WIDTH = 7 }; /* rows whose sums go on side by side; the largest square kernel of which they do */

/* With a stride of 2 lane j of a vector is every second number of two vectors' four neighbours each, which is one shuffle; sums are put
 * in order once. number_of: which of the two vectors' numbers it is. */
static inline __attribute__((always_inline)) int32_t number_of(int j) { return j / 4 * 4 + (j % 2) * 2 + (j % 4 / 2) * WIDE; }

static inline __attribute__((always_inline)) wide in_order(const wide sums, const int64_t step) {
    lanes from;
    for (int j = 0; j < WIDE; j++) from[number_of(j) / 2] = j;
    return step == 2 ? __builtin_shuffle(sums, from) : sums;
}

/* Which of the numbers that tap `across` reads for results x, x + 1, ... lie in the row. */
static inline __attribute__((always_inline)) lanes find_inside(const nx__channel *c, int64_t x, int64_t across, const int32_t step) {
    lanes column;
    for (int j = 0; j < WIDE; j++) column[j] = step == 2 ? number_of(j) : j * step;
    column += (int32_t)(x * step + across * c->dilation[1] - c->padding[1]);
    return (column >= 0) & (column < (int32_t)c->from[1]);
}

/* Every number, or every second. */
static inline __attribute__((always_inline)) wide load_numbers(const float *from, const int64_t step) {
    const wide x = *(const loose *)from;
    if (step == 1) return x;
    lanes even;
    for (int j = 0; j < WIDE; j++) even[j] = number_of(j);
    return __builtin_shuffle(x, (wide)((const loose *)from)[1], even);
}

static inline __attribute__((always_inline)) wide load_inside(const float *from, const lanes inside, const int64_t step) {
    return (wide)((lanes)load_numbers(from, step) & inside);
}

/* Which numbers of a vector of results, from column x on, lie in the row by each tap. */
typedef struct edge { int64_t x; lanes inside[MOST_WIDTH]; } edge;

/* A vector of each of TOGETHER rows of results, for square kernels of neighbours; `left` is what the first tap would read in row 0
 * of the channel, `top` the row that it reads; whole: all rows that are read lie in the channel. Without `at` all columns do. Each
 * row that is read meets all rows of results that want it. */
static inline __attribute__((always_inline)) void sum_square(const nx__channel *c, wide *s, const float *left, int64_t top,
                                                             const edge *at, const wide *weights, const bool whole, const int width,
                                                             const int step) {
    left += top * c->from[1];
#pragma GCC unroll 16
    for (int i = 0; i < (TOGETHER - 1) * step + width; i++, left += c->from[1]) {
        if (!whole && (top + i < 0 || top + i >= c->from[0])) continue;
#pragma GCC unroll 16
        for (int across = 0; across < width; across++) {
            const wide x = at ? load_inside(left + across, at->inside[across], step) : load_numbers(left + across, step);
#pragma GCC unroll 4
            for (int r = 0; r < TOGETHER; r++) {
                const int down = i - r * step;
                if (down >= 0 && down < width) s[r] += weights[down * width + across] * x;
            }
        }
    }
}

/* Where the vector begins that comes after that at `next`: the last one ends with its row, unless it is the only one. */
static inline int64_t begin_vector(int64_t next, int64_t n) { return next + WIDE <= n || n < WIDE ? next : n - WIDE; }

/* Rows y to y + TOGETHER - 1 of the results. A vector goes on into what is written later. edges: those of the row's ends. */
static inline __attribute__((always_inline)) void sum_rows(const nx__channel *c, float *to, const float *from, const wide *weights,
                                                           float start, int64_t y, edge *edges, const int width, const int step) {
    const int64_t n = c->made[1], top = y * step - c->padding[0];
    const bool whole = top >= 0 && top + (TOGETHER - 1) * step + width <= c->from[0];
    for (int64_t next = 0; next < n; next += WIDE) {
        const int64_t x = begin_vector(next, n), column = x * step - c->padding[1];
        wide s[TOGETHER];
#pragma GCC unroll 4
        for (int r = 0; r < TOGETHER; r++) s[r] = (wide){0};
        if (whole && column >= 0 && column + (WIDE - 1) * step + width <= c->from[1]) {
            sum_square(c, s, from + column, top, NULL, weights, true, width, step);
        } else {
            edge *at = &edges[x > 0];
            for (int64_t across = 0; at->x != x && across < width; across++) at->inside[across] = find_inside(c, x, across, step);
            at->x = x;
            if (whole) sum_square(c, s, from + column, top, at, weights, true, width, step);
            else sum_square(c, s, from + column, top, at, weights, false, width, step);
        }
#pragma GCC unroll 4
        for (int r = 0; r < TOGETHER; r++) *(loose *)(to + (y + r) * n + x) = in_order(s[r], step) + start;
    }
}

/* Row y of the results. width: of a square kernel of neighbours with one stride, or 0: any. */
static inline __attribute__((always_inline)) void sum_row(const nx__channel *c, float *to, int64_t room, const float *from,
                                                          const float *weights, float start, int64_t y, const int64_t width,
                                                          const int step) {
    const int64_t made = c->made[1], n = width ? width : c->kernel[1], apart = width ? 1 : c->dilation[1];
    const int64_t below = width ? 1 : c->dilation[0], top = y * c->stride[0] - c->padding[0];
    const int64_t low = top < 0 ? nx_least((-top + below - 1) / below, c->kernel[0]) : 0;
    const int64_t high = top >= c->from[0] ? 0 : nx_least((c->from[0] - top + below - 1) / below, c->kernel[0]);
    for (int64_t next = 0; next < made; next += WIDE) {
        const int64_t x = begin_vector(next, made), first = y * made + x;
        lanes inside[NX__CHANNEL_WIDTH];
        wide s = {0};
        for (int64_t across = 0; across < n; across++) inside[across] = find_inside(c, x, across, step);
        for (int64_t down = low; down < high; down++) {
            const float *row = from + x * step - c->padding[1] + (top + down * below) * c->from[1], *w = weights + down * n;
            for (int64_t across = 0; across < n; across++) s += w[across] * load_inside(row + across * apart, inside[across], step);
        }
        s = in_order(s, step) + start;
        if (first + WIDE <= room) *(loose *)(to + first) = s;
        else memcpy(to + first, &s, (size_t)nx_least(made, WIDE) * sizeof *to);
    }
}

static inline __attribute__((always_inline)) void sum_channel(const nx__channel *c, float *to, int64_t room, const float *from,
                                                              const float *weights, float start, const int width, const int step) {
    const int64_t behind = c->made[1] < WIDE ? WIDE - c->made[1] : 0; /* numbers that the last vector writes behind the result */
    int64_t y = 0;
    if (width && c->made[0] >= TOGETHER && c->made[0] * c->made[1] + behind <= room) {
        wide w[MOST_WIDTH * MOST_WIDTH];
        edge edges[2];
        edges[0].x = edges[1].x = -1;
        for (int k = 0; k < width * width; k++) w[k] = weights[k] - (wide){0};
        for (; y < c->made[0]; y += TOGETHER)
            sum_rows(c, to, from, w, start, nx_least(y, c->made[0] - TOGETHER), edges, width, step);
    }
    for (; y < c->made[0]; y++) sum_row(c, to, room, from, weights, start, y, width, step);
}

static void channel(const nx__channel *c, float *to, int64_t room, const float *from, const float *weights, float start) {
    const int64_t width = c->kernel[1], step = c->stride[1];
    const bool square = width == c->kernel[0] && step == c->stride[0] && c->dilation[0] == 1 && c->dilation[1] == 1;
    if (square && width == 3 && step == 1) sum_channel(c, to, room, from, weights, start, 3, 1);
    else if (square && width == 3) sum_channel(c, to, room, from, weights, start, 3, 2);
    else if (square && width == 5 && step == 1) sum_channel(c, to, room, from, weights, start, 5, 1);
    else if (square && width == 5) sum_channel(c, to, room, from, weights, start, 5, 2);
    else if (square && width == 7 && step == 1) sum_channel(c, to, room, from, weights, start, 7, 1);
    else if (step == 1) sum_channel(c, to, room, from, weights, start, 0, 1);
    else sum_channel(c, to, room, from, weights, start, 0, 2);
}

/* ---- the derivative to a channel's weights -------------------------------------------------------------------------------- */
/* Of a vector of results from column x on, those from column `next` on that there are, in the order of load_numbers(). */
static inline __attribute__((always_inline)) lanes find_counted(int64_t x, int64_t next, int64_t n, const int step) {
    lanes column;
    for (int j = 0; j < WIDE; j++) column[j] = step == 2 ? number_of(j) / 2 : j;
    column += (int32_t)x;
    return (column >= (int32_t)next) & (column < (int32_t)n);
}

static inline __attribute__((always_inline)) wide load_results(const float *g, const lanes counted, const int step) {
    lanes order;
    for (int j = 0; j < WIDE; j++) order[j] = number_of(j) / 2;
    const wide y = *(const loose *)g;
    return (wide)((lanes)(step == 2 ? __builtin_shuffle(y, order) : y) & counted);
}

/* The taps of row `down` of the kernel. */
static inline __attribute__((always_inline)) void weigh_row(const nx__channel *c, float *to, const float *from, const float *g,
                                                            int64_t down, const int width, const int step) {
    const int64_t n = c->made[1], below = c->stride[0], shift = down * c->dilation[0] - c->padding[0];
    const int64_t first = shift < 0 ? (below - 1 - shift) / below : 0;
    const int64_t end = nx_least(c->made[0], c->from[0] > shift ? (c->from[0] - shift + below - 1) / below : 0);
    wide s[MOST_WIDTH] = {0};
    for (int64_t next = 0; next < n; next += WIDE) {
        const int64_t x = begin_vector(next, n);
        const lanes counted = find_counted(x, next, n, step);
        lanes inside[MOST_WIDTH];
#pragma GCC unroll 7
        for (int across = 0; across < width; across++) inside[across] = find_inside(c, x, across, step) & counted;
        const float *row = from + x * step - c->padding[1] + (first * below + shift) * c->from[1];
        for (int64_t r = first; r < end; r++, row += below * c->from[1]) {
            const wide y = load_results(g + r * n + x, counted, step);
#pragma GCC unroll 7
            for (int across = 0; across < width; across++)
                s[across] += y * load_inside(row + across * c->dilation[1], inside[across], step);
        }
    }
#pragma GCC unroll 7
    for (int across = 0; across < width; across++) {
        for (int j = 0; j < WIDE; j++) to[down * width + across] += s[across][j];
    }
}

#define WEIGH(width, step)                                                                                  \
    for (int64_t down = 0; down < c->kernel[0]; down++) weigh_row(c, to, from, g, down, width, step)
static void weigh_channel(const nx__channel *c, float *to, const float *from, const float *g) {
    const int64_t width = c->kernel[1], step = c->stride[1];
    if (width == 3 && step == 1) WEIGH(3, 1);
    else if (width == 3) WEIGH(3, 2);
    else if (width == 5 && step == 1) WEIGH(5, 1);
    else if (width == 5) WEIGH(5, 2);
    else if (step == 1) WEIGH(7, 1);
    else WEIGH(7, 2);
}

/* ---- a channel's row that is made with a stride of 2 ---------------------------------------------------------------------- */
static void spread_row(float *to, const float *const *rows, const float *const *weights, int64_t count, int64_t width, int64_t n,
                       float start) {
    lanes low, high;
    for (int j = 0; j < WIDE; j++) low[j] = j / 2 + j % 2 * WIDE, high[j] = low[j] + WIDE / 2;
    for (int64_t a = 0; a < n; a += WIDE, to += 2 * WIDE) {
        wide even = {0}, odd = {0};
        for (int64_t r = 0; r < count; r++) {
            const float *w = weights[r], *x = rows[r] + a;
            int64_t k = 0;
            for (; k + 1 < width; k += 2, x--) even += w[k] * *(const loose *)x, odd += w[k + 1] * *(const loose *)x;
            if (k < width) even += w[k] * *(const loose *)x;
        }
        even += start, odd += start;
        ((loose *)to)[0] = __builtin_shuffle(even, odd, low);
        ((loose *)to)[1] = __builtin_shuffle(even, odd, high);
    }
}

/* ---- sums of products over all places, for the derivative to few weights -------------------------------------------------- */
enum { DOTS = 9 }; /* whose sums go on side by side */

static inline __attribute__((always_inline)) void add_dots(float *to, const float *g, int64_t g_step, const float *from, int64_t from_step,
                                                           int64_t rows, int64_t n, const int64_t *places, const int k) {
    const int64_t whole = n / WIDE * WIDE, last = begin_vector(whole, n);
    const lanes kept = find_counted(last, whole, n, 1);
    wide s[DOTS] = {0};
    for (int64_t r = 0; r < rows; r++, g += g_step, from += from_step) {
        for (int64_t at = 0; at < whole; at += WIDE) {
            const wide y = *(const loose *)(g + at);
#pragma GCC unroll 9
            for (int i = 0; i < k; i++) s[i] += y * *(const loose *)(from + places[i] + at);
        }
        if (whole == n) continue;
        wide y = {0};
        if (n < WIDE) memcpy(&y, g, (size_t)n * sizeof *g);
        else y = (wide)((lanes)*(const loose *)(g + last) & kept);
#pragma GCC unroll 9
        for (int i = 0; i < k; i++) s[i] += y * (wide)((lanes)*(const loose *)(from + places[i] + last) & kept);
    }
#pragma GCC unroll 9
    for (int i = 0; i < k; i++) {
        for (int j = 0; j < WIDE; j++) to[i] += s[i][j];
    }
}

static void dots(float *to, const float *g, int64_t g_step, const float *from, int64_t from_step, int64_t rows, int64_t n,
                 const int64_t *places, int64_t k) {
    for (; k >= DOTS; k -= DOTS, to += DOTS, places += DOTS) add_dots(to, g, g_step, from, from_step, rows, n, places, DOTS);
    for (; k >= 3; k -= 3, to += 3, places += 3) add_dots(to, g, g_step, from, from_step, rows, n, places, 3);
    for (; k > 0; k--, to++, places++) add_dots(to, g, g_step, from, from_step, rows, n, places, 1);
}

/* ---- Winograd's transforms of one dimension (winograd.c): windows, weights, results ------------------------------------ */
static inline __attribute__((always_inline)) void turn_window(wide *x, const int step) {
    const wide x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step], x5 = x[5 * step];
    const wide odd = x3 - x1, even = x4 - x2;
    x[0] = x0 + x4 + 1.5f * odd - 2 * x2;
    x[step] = x4 - x1 + 0.5f * x2 + 2.5f * x3;
    x[2 * step] = x4 + x1 - 2.5f * x2 + 0.5f * x3;
    x[3 * step] = even + 2 * odd;
    x[4 * step] = even - 0.5f * odd;
    x[5 * step] = x1 + x5 + 1.5f * even - 2 * x3;
}

static inline __attribute__((always_inline)) void turn_kernel(const wide g0, const wide g1, const wide g2, wide *u, const int step) {
    const wide ends = g0 + g2;
    u[0] = g0;
    u[step] = (ends + g1) * (1.0f / 3);
    u[2 * step] = (g1 - ends) * (1.0f / 3);
    u[3 * step] = (4 * g0 + 2 * g1 + g2) * (-4.0f / 15);
    u[4 * step] = (g0 - 2 * g1 + 4 * g2) * (1.0f / 15);
    u[5 * step] = g2;
}

static inline __attribute__((always_inline)) void turn_result(const wide *m, const int step, wide *y, const int y_step) {
    const wide sum = m[step] + m[2 * step], difference = m[step] - m[2 * step], m3 = m[3 * step], m4 = m[4 * step];
    y[0] = m[0] + sum + m3 + m4;
    y[y_step] = difference + 0.5f * m3 - 2 * m4;
    y[2 * y_step] = sum + 0.25f * m3 + 4 * m4;
    y[3 * y_step] = difference + 0.125f * m3 - 8 * m4 + m[5 * step];
}

/* Three vectors, number by number a0 b0 c0 a1 b1 c1 ..., become a, b and c, `step` vectors apart. */
static inline __attribute__((always_inline)) void part_in_three(const wide *x, wide *to, const int step) {
    for (int r = 0; r < 3; r++) {
        lanes near = {0}, far = {0};
        for (int j = 0; j < WIDE; j++) {
            const int at = 3 * j + r;
            near[j] = at < 2 * WIDE ? at : 0;
            far[j] = at < 2 * WIDE ? j : at - WIDE;
        }
        to[r * step] = __builtin_shuffle(__builtin_shuffle(x[0], x[1], near), x[2], far);
    }
}

/* WIDE kernels side by side: number k of each in g[k]. */
static inline __attribute__((always_inline)) void part_kernels(const float *from, wide *g) {
    wide x[9], third[9]; /* third: of each three vectors, every third number; 3 r + m: rest r, of the m-th three */
    for (int k = 0; k < 9; k++) x[k] = ((const loose *)from)[k];
    for (int m = 0; m < 3; m++) part_in_three(x + 3 * m, third + m, 3);
    for (int r = 0; r < 3; r++) part_in_three(third + 3 * r, g + r, 3);
}

/* Up to WIDE kernels; with a count that is known every store is one vector. The lines of the next ones are asked for, since
 * they are written in order, each from afar. */
static inline __attribute__((always_inline)) void turn_kernels(float *to, int64_t to_step, const float *from, int64_t from_step,
                                                               const int64_t count, bool back) {
    wide g[9], half[18], u[36];
    if (from_step == 9 && count == WIDE && !back) {
        part_kernels(from, g);
    } else {
        float lane_of[9][WIDE] = {{0}};
        for (int64_t lane = 0; lane < count; lane++) {
            for (int k = 0; k < 9; k++) lane_of[k][lane] = from[lane * from_step + k];
        }
        for (int k = 0; k < 9; k++) memcpy(&g[back ? 8 - k : k], lane_of[k], sizeof *g);
    }
    for (int k = 0; k < 36; k++) __builtin_prefetch(to + k * to_step + 2 * WIDE, 1);
    for (int k = 0; k < 3; k++) turn_kernel(g[k], g[3 + k], g[6 + k], half + k, 3);
    for (int k = 0; k < 6; k++) turn_kernel(half[3 * k], half[3 * k + 1], half[3 * k + 2], u + 6 * k, 1);
    for (int k = 0; k < 36; k++) memcpy(to + k * to_step, &u[k], (size_t)count * sizeof *to);
}

static void winograd_weights(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t n, bool back) {
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE) turn_kernels(to + i, to_step, from + i * from_step, from_step, WIDE, back);
    if (i < n) turn_kernels(to + i, to_step, from + i * from_step, from_step, n - i, back);
}

static void winograd_windows(float *to, int64_t to_step, const float *windows, int64_t n) {
    for (int64_t i = 0; i < n; i += WIDE) {
        wide x[36];
        for (int k = 0; k < 36; k++) x[k] = *(const loose *)(windows + k * WIDEST + i);
        for (int k = 0; k < 6; k++) turn_window(x + k, 6);
        for (int k = 0; k < 6; k++) turn_window(x + 6 * k, 1);
        for (int k = 0; k < 36; k++) *(loose *)(to + k * to_step + i) = x[k];
    }
}

static inline __attribute__((always_inline)) void turn_gradient(const wide *g, const int step, wide *u, const int u_step) {
    const wide g0 = g[0], g1 = g[step], g2 = g[2 * step], g3 = g[3 * step], even = g0 + g2, odd = g1 + g3;
    u[0] = g0;
    u[u_step] = (even + odd) * (1.0f / 3);
    u[2 * u_step] = (odd - even) * (1.0f / 3);
    u[3 * u_step] = (8 * g0 + 4 * g1 + 2 * g2 + g3) * (-2.0f / 15);
    u[4 * u_step] = (g0 - 2 * g1 + 4 * g2 - 8 * g3) * (1.0f / 15);
    u[5 * u_step] = g3;
}

static inline __attribute__((always_inline)) void turn_sum(const wide *m, const int step, wide *y, const int y_step) {
    const wide sum = m[step] + m[2 * step], difference = m[step] - m[2 * step], m3 = m[3 * step], m4 = m[4 * step];
    y[0] = m[0] + sum + m3 + m4;
    y[y_step] = difference + 0.5f * m3 - 2 * m4;
    y[2 * y_step] = sum + 0.25f * m3 + 4 * m4 + m[5 * step];
}

static void winograd_gradients(float *to, int64_t to_step, const float *gradients) {
    for (int64_t i = 0; i < WIDEST; i += WIDE) {
        wide g[16], half[24], u[36];
        for (int k = 0; k < 16; k++) g[k] = *(const loose *)(gradients + k * WIDEST + i);
        for (int k = 0; k < 4; k++) turn_gradient(g + k, 4, half + k, 4);
        for (int k = 0; k < 6; k++) turn_gradient(half + 4 * k, 1, u + 6 * k, 1);
        for (int k = 0; k < 36; k++) *(loose *)(to + k * to_step + i) = u[k];
    }
}

static void winograd_kernels(float *to, const float *sums, int64_t from_step, int64_t n) {
    for (int64_t i = 0; i < n; i += WIDE) {
        const int64_t count = nx_least(WIDE, n - i);
        wide m[36], half[18], y[9];
        for (int k = 0; k < 36; k++) {
            m[k] = (wide){0};
            memcpy(&m[k], sums + k * from_step + i, (size_t)count * sizeof *to);
        }
        for (int k = 0; k < 6; k++) turn_sum(m + k, 6, half + k, 6);
        for (int k = 0; k < 3; k++) turn_sum(half + 6 * k, 1, y + 3 * k, 1);
        for (int64_t lane = 0; lane < count; lane++) {
            for (int k = 0; k < 9; k++) to[(i + lane) * 9 + k] = y[k][lane];
        }
    }
}

/* Four vectors, number by number: a0 b0 c0 d0 a1 b1 ... */
static inline __attribute__((always_inline)) void interleave(const wide *y, float *to) {
    lanes low, high;
    for (int j = 0; j < WIDE; j++) {
        low[j] = j / 2 + j % 2 * WIDE;
        high[j] = WIDE / 2 + j / 2 + j % 2 * WIDE;
    }
    const wide first[2] = {__builtin_shuffle(y[0], y[2], low), __builtin_shuffle(y[0], y[2], high)};
    const wide second[2] = {__builtin_shuffle(y[1], y[3], low), __builtin_shuffle(y[1], y[3], high)};
    for (int k = 0; k < 2; k++) {
        ((loose *)to)[2 * k] = __builtin_shuffle(first[k], second[k], low);
        ((loose *)to)[2 * k + 1] = __builtin_shuffle(first[k], second[k], high);
    }
}

static void winograd_results(float *lines, const float *sums, int64_t from_step, float bias, int64_t n) {
    for (int64_t i = 0; i < n; i += WIDE) {
        wide m[36], half[24], y[16];
        for (int k = 0; k < 36; k++) m[k] = *(const loose *)(sums + k * from_step + i);
        for (int k = 0; k < 6; k++) turn_result(m + k, 6, half + k, 6);
        for (int k = 0; k < 4; k++) turn_result(half + 6 * k, 1, y + 4 * k, 1);
        for (int k = 0; k < 16; k++) y[k] += bias;
        for (int k = 0; k < 4; k++) interleave(y + 4 * k, lines + 4 * (k * WIDEST + i));
    }
}

const nx__taps NX_AT_LEVEL(nx__taps) = {pack, sums, channel, weigh_channel, spread_row, dots, winograd_weights, winograd_windows,
                                       winograd_results, winograd_gradients, winograd_kernels};
