/* The extreme element of rows, see best_rows.h. Compiled once a level with NX_LEVEL_NAME set. Rows side by side are looked
 * through together; one row is LANES of them, each of which has every LANES-th element. */
#include "order/best_rows.h"

enum { LANES = 32 };

#define LARGER(a, b) ((a) > (b))
#define SMALLER(a, b) ((a) < (b))
/* Conditions are numbers, not branches, so that they become masks. A NaN that was found stays. */
#define TAKE(real, place, BETTER)                                                              \
    for (int64_t i = begin; i < end; i++, x += step) {                                         \
        _Pragma("GCC ivdep") for (int k = 0; k < width; k++) {                                 \
            const real v = x[k], b = best[k];                                                  \
            const bool taken = (BETTER(v, b) | (v != v)) & (b == b);                           \
            best[k] = taken ? v : b;                                                           \
            at[k] = taken ? (place)i : at[k];                                                  \
        }                                                                                      \
    }
/* Lane k takes what lane k + half has, if that comes first. */
#define JOIN(real, place, BETTER, half)                                                        \
    for (int k = 0; k < half; k++) {                                                           \
        const real v = best[k + half], b = best[k];                                            \
        const place p = at[k + half], q = at[k];                                               \
        const bool same = (v == b) | ((v != v) & (b != b));                                    \
        const bool taken = ((BETTER(v, b) | (v != v)) & (b == b)) | (same & (p < q));          \
        best[k] = taken ? v : b;                                                               \
        at[k] = taken ? p : q;                                                                 \
    }
#define DEFINE(real, place)                                                                                            \
    static void columns_##real(const real *x, int64_t step, int64_t begin, int64_t end, int width, bool least,         \
                               real *restrict best, place *restrict at) {                                              \
        for (int k = 0; begin == 0 && k < width; k++) {                                                                \
            best[k] = x[k];                                                                                            \
            at[k] = 0;                                                                                                 \
        }                                                                                                              \
        if (least) TAKE(real, place, SMALLER)                                                                          \
        else TAKE(real, place, LARGER)                                                                                 \
    }                                                                                                                  \
    static int64_t lanes_##real(const real *x, int64_t n, bool least) {                                                \
        real best[LANES];                                                                                              \
        place at[LANES];                                                                                               \
        columns_##real(x, LANES, 0, n / LANES, LANES, least, best, at);                                                \
        for (int k = 0; k < LANES; k++) at[k] = at[k] * LANES + (place)k;                                              \
        if (least) {                                                                                                   \
            JOIN(real, place, SMALLER, 16) JOIN(real, place, SMALLER, 8) JOIN(real, place, SMALLER, 4)                 \
            JOIN(real, place, SMALLER, 2) JOIN(real, place, SMALLER, 1)                                                \
        } else {                                                                                                       \
            JOIN(real, place, LARGER, 16) JOIN(real, place, LARGER, 8) JOIN(real, place, LARGER, 4)                    \
            JOIN(real, place, LARGER, 2) JOIN(real, place, LARGER, 1)                                                  \
        }                                                                                                              \
        return at[0];                                                                                                  \
    }                                                                                                                  \
    static int64_t row_##real(const real *x, int64_t n, bool least) {                                                  \
        int64_t best = n < LANES ? 0 : lanes_##real(x, n, least);                                                      \
        for (int64_t i = n < LANES ? 1 : n / LANES * LANES; i < n && x[best] == x[best]; i++)                          \
            if ((least ? x[i] < x[best] : x[i] > x[best]) || x[i] != x[i]) best = i;                                   \
        return best;                                                                                                   \
    }
DEFINE(float, int32_t)
DEFINE(double, int64_t)
DEFINE(int64_t, int64_t)

const nx__best_rows NX_AT_LEVEL(nx__best_rows) = {
    {row_float, columns_float}, {row_double, columns_double}, {row_int64_t, columns_int64_t}};
