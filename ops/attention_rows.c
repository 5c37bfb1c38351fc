/* The rows of attention's tiles, see attention_rows.h. Compiled once a level with NX_LEVEL_NAME set; attention.c calls
 * it. Everything stands here twice, for float and for double. */
#include "attention_rows.h"

#include <math.h>

#define NX_PASTE_(a, b) a##_##b
#define NX_PASTE(a, b) NX_PASTE_(a, b)
#define NX_AT_LEVEL(name) NX_PASTE(name, NX_LEVEL_NAME)

enum { STRANDS = 16 };

#define DEFINE_PRODUCT(real)                                                                                     \
    static void multiply_##real(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha,       \
                                const void *first, int64_t ld_a, const void *second, int64_t ld_b, double beta,  \
                                void *result, int64_t ld_out) {                                                  \
        const real *a = first, *b = second;                                                                      \
        for (int64_t i = 0; i < m; i++) {                                                                        \
            real *out = (real *)result + i * ld_out;                                                             \
            for (int64_t j = 0; j < n; j++) out[j] = beta == 0 ? 0 : (real)beta * out[j];                        \
            for (int64_t p = 0; p < k; p++) {                                                                    \
                const real x = (real)alpha * (trans_a ? a[p * ld_a + i] : a[i * ld_a + p]);                      \
                if (trans_b)                                                                                     \
                    for (int64_t j = 0; j < n; j++) out[j] += x * b[j * ld_b + p];                               \
                else                                                                                             \
                    for (int64_t j = 0; j < n; j++) out[j] += x * b[p * ld_b + j];                               \
            }                                                                                                    \
        }                                                                                                        \
    }

#define DEFINE_ROWS(real, f)                                                                                     \
    static real top_##real(const real *x, int64_t n, real top) {                                                 \
        real s[STRANDS];                                                                                         \
        int64_t i = 0;                                                                                           \
        for (int k = 0; k < STRANDS; k++) s[k] = top;                                                            \
        for (; i + STRANDS <= n; i += STRANDS)                                                                   \
            for (int k = 0; k < STRANDS; k++) s[k] = x[i + k] > s[k] ? x[i + k] : s[k];                          \
        for (; i < n; i++) s[0] = x[i] > s[0] ? x[i] : s[0];                                                     \
        for (int k = 0; k < STRANDS; k++) top = s[k] > top ? s[k] : top;                                         \
        return top;                                                                                              \
    }                                                                                                            \
    static double sum_##real(const real *x, int64_t n) {                                                         \
        real s[STRANDS] = {0};                                                                                   \
        double sum = 0;                                                                                          \
        int64_t i = 0;                                                                                           \
        for (; i + STRANDS <= n; i += STRANDS)                                                                   \
            for (int k = 0; k < STRANDS; k++) s[k] += x[i + k];                                                  \
        for (; i < n; i++) s[i % STRANDS] += x[i];                                                               \
        for (int k = 0; k < STRANDS; k++) sum += s[k];                                                           \
        return sum;                                                                                              \
    }                                                                                                            \
    static void exp_less_##real(void *row, int64_t n, double less) {                                             \
        real *x = row;                                                                                           \
        const real by = (real)less;                                                                              \
        for (int64_t i = 0; i < n; i++) x[i] = nx_element_exp##f(x[i] - by);                                            \
    }                                                                                                            \
    static void scale_##real(void *row, double by, int64_t n) {                                                  \
        real *x = row;                                                                                           \
        const real factor = (real)by;                                                                            \
        for (int64_t i = 0; i < n; i++) x[i] *= factor;                                                          \
    }                                                                                                            \
    /* A row that is -INFINITY so far has the sum 0; what it is taken from must be finite, or it would be NaN. */ \
    static void soften_##real(void *row, int64_t n, double *top, double *sum, void *y, int64_t n_y) {            \
        const double now = top_##real(row, n, (real)*top), less = now == -INFINITY ? 0 : now;                    \
        exp_less_##real(row, n, less);                                                                           \
        if (*top != now) {                                                                                       \
            const double factor = nx_element_exp(*top - less);                                                              \
            *sum *= factor;                                                                                      \
            scale_##real(y, factor, n_y);                                                                        \
            *top = now;                                                                                          \
        }                                                                                                        \
        *sum += sum_##real(row, n);                                                                              \
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
    static void mix_##real(void *gradient, const void *part, double less, double scale, int64_t n) {             \
        real *g = gradient;                                                                                      \
        const real *p = part, by = (real)less, factor = (real)scale;                                             \
        for (int64_t i = 0; i < n; i++) g[i] = p[i] * (g[i] - by) * factor;                                      \
    }                                                                                                            \
    static double dot_##real(const void *first, const void *second, int64_t n) {                                 \
        const real *x = first, *y = second;                                                                      \
        real s[STRANDS] = {0};                                                                                   \
        double sum = 0;                                                                                          \
        int64_t i = 0;                                                                                           \
        for (; i + STRANDS <= n; i += STRANDS)                                                                   \
            for (int k = 0; k < STRANDS; k++) s[k] += x[i + k] * y[i + k];                                       \
        for (; i < n; i++) s[i % STRANDS] += x[i] * y[i];                                                        \
        for (int k = 0; k < STRANDS; k++) sum += s[k];                                                           \
        return sum;                                                                                              \
    }

DEFINE_PRODUCT(float)
DEFINE_PRODUCT(double)
DEFINE_ROWS(float, f)
DEFINE_ROWS(double, )

#define ROWS(real)                                                                                               \
    {multiply_##real, soften_##real, exp_less_##real, add_##real, scale_##real, fill_##real, mix_##real, dot_##real}
const nx__attention_rows NX_AT_LEVEL(nx__attention_rows)[2] = {ROWS(float), ROWS(double)};
