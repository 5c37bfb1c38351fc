/* What convolutions do over and over (convolve.c), at each instruction-set level: packing windows into panels, and sums of
 * few products without packing. Numbers lie in planes that are padded, so that nothing asks where an image ends. */
#include "kernel/panel.h"
#include "kernel/taps.h"

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

static void dots(float *to, const float *g, const float *from, int64_t n, const int64_t *places, int64_t k) {
    for (int64_t i = 0; i < k; i++) {
        const float *x = from + places[i];
        wide s = {0};
        int64_t at = 0;
        for (; at + WIDE <= n; at += WIDE) s += *(const loose *)(g + at) * *(const loose *)(x + at);
        float sum = 0;
        for (; at < n; at++) sum += g[at] * x[at];
        for (int lane = 0; lane < WIDE; lane++) sum += s[lane];
        to[i] += sum;
    }
}

const nx__taps NX_AT_LEVEL(nx__taps) = {pack, sums, dots};
