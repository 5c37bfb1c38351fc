/* The rows of attention's tiles, see attention_rows.h. Compiled once a level with NX_LEVEL_NAME set; attention.c calls
 * it. Everything stands here twice, for float and for double. */
#include "attention_rows.h"

#include <math.h>

enum { STRANDS = NX__STRANDS };

/* Keeps a loop over strands a loop until it is turned into vectors. */
#define WHOLE _Pragma("GCC unroll 1")
/* s[0] = all of s taken together by `of`, in halves. */
#define HALVE(s, of)                                                                                             \
    WHOLE for (int k = 0; k < 8; k++) s[k] = of(s[k], s[k + 8]);                                                 \
    WHOLE for (int k = 0; k < 4; k++) s[k] = of(s[k], s[k + 4]);                                                 \
    s[0] = of(of(s[0], s[2]), of(s[1], s[3]));
#define LARGER(a, b) ((b) > (a) ? (b) : (a))
#define SUM(a, b) ((a) + (b))

/* exp, but 0 instead of subnormal numbers, which processors compute with slowly: beside the largest weight, 1, they are none. */
#define WEIGHT(real, f, to, x)                                                                                   \
    do {                                                                                                         \
        const real at_ = (x), lowest_ = sizeof(real) == sizeof(float) ? -87 : -708;                              \
        const real weight_ = nx_element_exp##f(at_ < lowest_ ? 0 : at_);                                         \
        to = at_ < lowest_ ? 0 : weight_;                                                                        \
    } while (0)

#define DEFINE_PRODUCT(real)                                                                                     \
    static void multiply_##real(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,                     \
                                const void *first, int64_t ld_a, const void *second, int64_t ld_b, bool add,    \
                                void *result, int64_t ld_out) {                                                  \
        const real *a = first, *b = second;                                                                      \
        for (int64_t i = 0; i < m; i++) {                                                                        \
            real *out = (real *)result + i * ld_out;                                                             \
            for (int64_t j = 0; j < n && !add; j++) out[j] = 0;                                                  \
            for (int64_t p = 0; p < k; p++) {                                                                    \
                const real x = trans_a ? a[p * ld_a + i] : a[i * ld_a + p];                                      \
                if (trans_b)                                                                                     \
                    for (int64_t j = 0; j < n; j++) out[j] += x * b[j * ld_b + p];                               \
                else                                                                                             \
                    for (int64_t j = 0; j < n; j++) out[j] += x * b[p * ld_b + j];                               \
            }                                                                                                    \
        }                                                                                                        \
    }

#define DEFINE_ROWS(real, f)                                                                                     \
    static inline real top_##real(const real *x, int64_t m, real top) {                                          \
        real s[STRANDS];                                                                                         \
        WHOLE for (int k = 0; k < STRANDS; k++) s[k] = top;                                                      \
        for (int64_t i = 0; i < m; i += STRANDS)                                                                 \
            WHOLE for (int k = 0; k < STRANDS; k++) s[k] = LARGER(s[k], x[i + k]);                               \
        HALVE(s, LARGER)                                                                                         \
        return s[0];                                                                                             \
    }                                                                                                            \
    static inline real soften_row_##real(real *x, int64_t m, real less) {                                        \
        real s[STRANDS] = {0};                                                                                   \
        for (int64_t i = 0; i < m; i += STRANDS)                                                                 \
            WHOLE for (int k = 0; k < STRANDS; k++) {                                                            \
                WEIGHT(real, f, x[i + k], x[i + k] - less);                                                      \
                s[k] += x[i + k];                                                                                \
            }                                                                                                    \
        HALVE(s, SUM)                                                                                            \
        return s[0];                                                                                             \
    }                                                                                                            \
    static void scale_##real(void *to, const void *row, double by, int64_t n) {                                  \
        real *y = to;                                                                                            \
        const real *x = row;                                                                                     \
        const real factor = (real)by;                                                                            \
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * factor;                                                    \
    }                                                                                                            \
    /* A row that is -INFINITY so far has the sum 0; what it is taken from must be finite, or it would be NaN. */\
    static void soften_##real(void *rows, int64_t n, int64_t m, double *top, double *sum, void *y, int64_t width) {\
        for (int64_t row = 0; row < n; row++) {                                                                  \
            real *x = (real *)rows + row * m;                                                                    \
            const double now = top_##real(x, m, (real)top[row]), less = now == -INFINITY ? 0 : now;              \
            if (y && top[row] != now) {                                                                          \
                const double factor = nx_element_exp(top[row] - less);                                           \
                sum[row] *= factor;                                                                              \
                scale_##real((real *)y + row * width, (real *)y + row * width, factor, width);                   \
            }                                                                                                    \
            top[row] = now;                                                                                      \
            sum[row] += soften_row_##real(x, m, (real)less);                                                     \
        }                                                                                                        \
    }                                                                                                            \
    static void exp_less_##real(void *rows, int64_t n, int64_t m, const double *less) {                          \
        for (int64_t row = 0; row < n; row++) {                                                                  \
            real *x = (real *)rows + row * m;                                                                    \
            const real by = (real)less[row];                                                                     \
            for (int64_t i = 0; i < m; i += STRANDS)                                                             \
                WHOLE for (int k = 0; k < STRANDS; k++) WEIGHT(real, f, x[i + k], x[i + k] - by);                \
        }                                                                                                        \
    }                                                                                                            \
    static void mix_##real(void *gradient, const void *part, int64_t n, int64_t m, const double *less) {         \
        for (int64_t row = 0; row < n; row++) {                                                                  \
            real *g = (real *)gradient + row * m;                                                                \
            const real *p = (const real *)part + row * m, by = (real)less[row];                                  \
            for (int64_t i = 0; i < m; i += STRANDS)                                                             \
                WHOLE for (int k = 0; k < STRANDS; k++) g[i + k] = p[i + k] * (g[i + k] - by);                   \
        }                                                                                                        \
    }                                                                                                            \
    static void add_##real(void *row, const void *other, int64_t n) {                                            \
        real *x = row;                                                                                           \
        const real *y = other;                                                                                   \
        for (int64_t i = 0; i < n; i++) x[i] += y[i];                                                            \
    }                                                                                                            \
    static void fill_##real(void *row, double value, int64_t n) {                                                \
        real *x = row;                                                                                           \
        for (int64_t i = 0; i < n; i++) x[i] = (real)value;                                                      \
    }                                                                                                            \
    static double dot_##real(const void *first, const void *second, int64_t n) {                                 \
        const real *x = first, *y = second;                                                                      \
        real s[STRANDS] = {0};                                                                                   \
        int64_t i = 0;                                                                                           \
        for (; i + STRANDS <= n; i += STRANDS)                                                                   \
            WHOLE for (int k = 0; k < STRANDS; k++) s[k] += x[i + k] * y[i + k];                                 \
        for (; i < n; i++) s[i % STRANDS] += x[i] * y[i];                                                        \
        HALVE(s, SUM)                                                                                            \
        return s[0];                                                                                             \
    }

static void finish(double *top, double *sum, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const double all = sum[i], lse = top[i] + nx_element_log(all);
        top[i] = all == 0 ? 0 : lse;
        sum[i] = all == 0 ? 0 : 1 / all;
    }
}

DEFINE_PRODUCT(float)
DEFINE_PRODUCT(double)
DEFINE_ROWS(float, f)
DEFINE_ROWS(double, )

#define ROWS(real)                                                                                                         \
    {multiply_##real, soften_##real, finish, exp_less_##real, mix_##real, add_##real, scale_##real, fill_##real, dot_##real}
const nx__attention_rows NX_AT_LEVEL(nx__attention_rows)[2] = {ROWS(float), ROWS(double)};
