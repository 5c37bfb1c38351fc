/* Sums over taps of channels that lie side by side, see beside.h. Compiled once a level, products and sums rounded once. The
 * channels of a place are vectors; the last one may lie over the one before it. */
#include "window/beside.h"

enum { WIDE = NX_LANES, VECTORS = 2, PLACES = 4, NEAR = 128 };
typedef float wide __attribute__((vector_size(4 * NX_LANES)));
typedef float loose __attribute__((vector_size(4 * NX_LANES), aligned(4), may_alias));
_Static_assert(NX__BESIDE_LEAST % NX_LANES == 0, "a vector is there");

/* ---- sums of a place ---------------------------------------------------------------------------------------------- */
/* `vectors` vectors of `places` places, from channel c on. */
static inline __attribute__((always_inline)) void sum_places(const nx__beside_run *r, float *to, const float *from,
                                                             const float *start, int64_t c, const int places,
                                                             const int vectors) {
    wide s[PLACES][VECTORS];
    for (int j = 0; j < places; j++)
        for (int v = 0; v < vectors; v++) s[j][v] = (wide){0};
    for (int64_t i = 0; i < r->n_taps; i++) {
        const float *x = from + r->places[i] + c, *row = r->rows[i] + c;
        for (int v = 0; v < vectors; v++) {
            const wide w = ((const loose *)row)[v];
            for (int j = 0; j < places; j++) s[j][v] += w * ((const loose *)(x + j * r->from_step))[v];
        }
    }
    for (int j = 0; j < places; j++)
        for (int v = 0; v < vectors; v++)
            ((loose *)(to + j * r->to_step + c))[v] = start ? s[j][v] + ((const loose *)(start + c))[v] : s[j][v];
}

/* Channels c to end of `places` places; the last vector may begin before c. */
static inline __attribute__((always_inline)) void sum_channels(const nx__beside_run *r, float *to, const float *from,
                                                               const float *start, int64_t c, int64_t end,
                                                               const int places) {
    for (; c + VECTORS * WIDE <= end; c += VECTORS * WIDE) sum_places(r, to, from, start, c, places, VECTORS);
    for (; c + WIDE <= end; c += WIDE) sum_places(r, to, from, start, c, places, 1);
    if (c < end) sum_places(r, to, from, start, end - WIDE, places, 1);
}

/* NEAR channels at a time, so that lines are met in order of memory and what a place shares with the next is still near. */
static void sums(const nx__beside_run *r, float *to, const float *from, const float *start, int64_t channels) {
    for (int64_t c = 0, end; c < channels; c = end) {
        end = channels - c < 2 * NEAR ? channels : c + NEAR;
        int64_t at = 0;
        for (; at + PLACES <= r->n; at += PLACES)
            sum_channels(r, to + at * r->to_step, from + at * r->from_step, start, c, end, PLACES);
        for (; at < r->n; at++) sum_channels(r, to + at * r->to_step, from + at * r->from_step, start, c, end, 1);
    }
}

/* ---- sums of a tap ------------------------------------------------------------------------------------------------ */
/* `taps` taps from tap i on, `vectors` vectors from channel c on, of which the first `skip` numbers are there already. */
static inline __attribute__((always_inline)) void dot_taps(const nx__beside_run *r, const float *g, const float *from,
                                                           int64_t c, int64_t i, int64_t skip, const int taps,
                                                           const int vectors) {
    wide s[PLACES][VECTORS];
    for (int t = 0; t < taps; t++)
        for (int v = 0; v < vectors; v++) s[t][v] = (wide){0};
    for (int64_t at = 0; at < r->n; at++) {
        const float *x = from + at * r->from_step + c;
        for (int v = 0; v < vectors; v++) {
            const wide y = ((const loose *)(g + at * r->to_step + c))[v];
            for (int t = 0; t < taps; t++) s[t][v] += y * ((const loose *)(x + r->places[i + t]))[v];
        }
    }
    for (int t = 0; t < taps; t++) {
        float *row = r->rows[i + t] + c;
        for (int v = 0; v < vectors && skip == 0; v++) ((loose *)row)[v] += s[t][v];
        for (int64_t k = skip; k < WIDE && skip; k++) row[k] += s[t][0][k];
    }
}

static inline __attribute__((always_inline)) void dot_run(const nx__beside_run *r, const float *g, const float *from,
                                                          int64_t c, int64_t skip, const int vectors) {
    int64_t i = 0;
    for (; i + PLACES <= r->n_taps; i += PLACES) dot_taps(r, g, from, c, i, skip, PLACES, vectors);
    for (; i + 2 <= r->n_taps; i += 2) dot_taps(r, g, from, c, i, skip, 2, vectors);
    for (; i < r->n_taps; i++) dot_taps(r, g, from, c, i, skip, 1, vectors);
}

static void dots(const nx__beside_run *r, const float *g, const float *from, int64_t channels) {
    int64_t c = 0;
    for (; c + VECTORS * WIDE <= channels; c += VECTORS * WIDE) dot_run(r, g, from, c, 0, VECTORS);
    for (; c + WIDE <= channels; c += WIDE) dot_run(r, g, from, c, 0, 1);
    if (c < channels) dot_run(r, g, from, channels - WIDE, WIDE - (channels - c), 1);
}

const nx__beside_rows NX_AT_LEVEL(nx__beside_rows) = {sums, dots};
