/* Rows of numbers side by side: softmax, its logarithm, layer norm and their derivatives, one row a call. Compiled once
 * a level with NX_LEVEL_NAME set; kernels reach them through nx_rows_get(). A row has n elements and is filled up to
 * `room`, a multiple of NX_ROW_WIDE, so that everything is vectors; the filling is read and written. Sums run in
 * NX_ROW_WIDE strands, which are added up in float64 every CHUNK elements. Everything stands
 * here twice, for float and for double. Next: element.h; kernel.h says what each function does. */
#include "kernel/kernel.h"

#define NX_PASTE_(a, b) a##_##b
#define NX_PASTE(a, b) NX_PASTE_(a, b)
#define NX_AT_LEVEL(name) NX_PASTE(name, NX_LEVEL_NAME)

enum { WIDE = NX_ROW_WIDE, CHUNK = 32 * WIDE };
#define EACH(k, n) for (int k = 0; k < (n); k++)
/* Says to the compiler that no elements are left over. */
#define WHOLE(room) ((room) & -(int64_t)WIDE)
/* Over a row: element i of the results depends on element i of the operands alone. */
#define ALONG(n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); i++)

/* ---- folds of WIDE strands, over n elements, a multiple of WIDE ------------------------------------------ */
#define DEFINE_FOLDS(real)                                                                                   \
    static real top_##real(const real *x, int64_t n) {                                                       \
        real s[WIDE];                                                                                        \
        EACH(k, WIDE) s[k] = -INFINITY;                                                                      \
        for (int64_t i = 0; i < n; i += WIDE) EACH(k, WIDE) s[k] = x[i + k] > s[k] ? x[i + k] : s[k];        \
        EACH(k, 16) s[k] = s[k + 16] > s[k] ? s[k + 16] : s[k];                                              \
        EACH(k, 8) s[k] = s[k + 8] > s[k] ? s[k + 8] : s[k];                                                 \
        EACH(k, 4) s[k] = s[k + 4] > s[k] ? s[k + 4] : s[k];                                                 \
        EACH(k, 2) s[k] = s[k + 2] > s[k] ? s[k + 2] : s[k];                                                 \
        return s[1] > s[0] ? s[1] : s[0];                                                                    \
    }                                                                                                        \
    static real close_##real(real *s) {                                                                      \
        EACH(k, 16) s[k] += s[k + 16];                                                                       \
        EACH(k, 8) s[k] += s[k + 8];                                                                         \
        EACH(k, 4) s[k] += s[k + 4];                                                                         \
        return (s[0] + s[2]) + (s[1] + s[3]);                                                                \
    }                                                                                                        \
    static double sum_##real(const real *x, int64_t n) {                                                     \
        double total = 0;                                                                                    \
        for (int64_t i = 0; i < n;) {                                                                        \
            int64_t end = n - i < CHUNK ? n : i + CHUNK;                                                     \
            real s[WIDE] = {0};                                                                              \
            for (; i < end; i += WIDE) EACH(k, WIDE) s[k] += x[i + k];                                       \
            total += close_##real(s);                                                                        \
        }                                                                                                    \
        return total;                                                                                        \
    }                                                                                                        \
    static double sum_products_##real(const real *x, const real *y, int64_t n) {                             \
        double total = 0;                                                                                    \
        for (int64_t i = 0; i < n;) {                                                                        \
            int64_t end = n - i < CHUNK ? n : i + CHUNK;                                                     \
            real s[WIDE] = {0};                                                                              \
            for (; i < end; i += WIDE) EACH(k, WIDE) s[k] += x[i + k] * y[i + k];                            \
            total += close_##real(s);                                                                        \
        }                                                                                                    \
        return total;                                                                                        \
    }

/* ---- softmax ---------------------------------------------------------------------------------------------- */
#define DEFINE_SOFTMAX(real, f)                                                                              \
    static void softmax_##real(void *result, const void *operand, const void *unused, int64_t room) {        \
        real *out = result;                                                                                  \
        const real *x = operand, top = top_##real(x, room);                                                  \
        ALONG(WHOLE(room)) out[i] = nx_element_exp##f(x[i] - top);                                           \
        const real scale = (real)(1 / sum_##real(out, room));                                                \
        ALONG(WHOLE(room)) out[i] *= scale;                                                                  \
    }                                                                                                        \
    static void log_softmax_##real(void *result, const void *operand, const void *unused, int64_t room) {    \
        real *out = result, e[CHUNK];                                                                        \
        const real *x = operand, top = top_##real(x, room);                                                  \
        double sum = 0;                                                                                      \
        for (int64_t at = 0, n; at < room; at += n) {                                                        \
            n = room - at < CHUNK ? room - at : CHUNK;                                                       \
            ALONG(n) e[i] = nx_element_exp##f(x[at + i] - top);                                              \
            sum += sum_##real(e, n);                                                                         \
        }                                                                                                    \
        const real rest = nx_element_log##f((real)sum);                                                      \
        ALONG(WHOLE(room)) out[i] = x[i] - top - rest;                                                       \
    }                                                                                                        \
    static void softmax_backward_##real(void *result, const void *grad, const void *output, int64_t room) {  \
        real *out = result;                                                                                  \
        const real *g = grad, *y = output, sum = (real)sum_products_##real(g, y, room);                      \
        ALONG(WHOLE(room)) out[i] = y[i] * (g[i] - sum);                                                     \
    }                                                                                                        \
    static void log_softmax_backward_##real(void *result, const void *grad, const void *output, int64_t room) {\
        real *out = result;                                                                                  \
        const real *g = grad, *y = output, sum = (real)sum_##real(g, room);                                  \
        ALONG(WHOLE(room)) out[i] = g[i] - nx_element_exp##f(y[i]) * sum;                                    \
    }

/* ---- layer norm -------------------------------------------------------------------------------------------- */
#define DEFINE_NORM(real)                                                                                    \
    static void norm_##real(void *result, const void *operand, const void *weight, const void *bias, double eps,\
                            int64_t n, int64_t room, double *mean, double *rstd) {                           \
        real *out = result;                                                                                  \
        const real *x = operand, *w = weight, *b = bias;                                                     \
        *mean = sum_##real(x, room) / (double)n;                                                             \
        const real middle = (real)*mean;                                                                     \
        ALONG(n) out[i] = x[i] - middle;                                                                     \
        for (int64_t i = n; i < room; i++) out[i] = 0;                                                       \
        *rstd = 1 / sqrt(sum_products_##real(out, out, room) / (double)n + eps);                             \
        const real scale = (real)*rstd;                                                                      \
        if (w && b) {                                                                                        \
            ALONG(n) out[i] = out[i] * scale * w[i] + b[i];                                                  \
        } else if (w) {                                                                                      \
            ALONG(n) out[i] = out[i] * scale * w[i];                                                         \
        } else {                                                                                             \
            ALONG(n) out[i] = out[i] * scale + (b ? b[i] : 0);                                               \
        }                                                                                                    \
    }                                                                                                        \
    /* With h the normalised row and u = g*weight: rstd*(u - mean(u) - h*mean(u*h)). */                      \
    static void norm_backward_##real(void *result, const void *grad, const void *operand, const void *weight,\
                                     double mean, double rstd, int64_t n, int64_t room, void *scratch) {     \
        real *out = result, *u = scratch;                                                                    \
        const real *g = grad, *x = operand, *w = weight, middle = (real)mean, scale = (real)rstd;            \
        if (w) {                                                                                             \
            ALONG(n) u[i] = g[i] * w[i];                                                                     \
        } else {                                                                                             \
            ALONG(n) u[i] = g[i];                                                                            \
        }                                                                                                    \
        ALONG(n) out[i] = x[i] - middle;                                                                     \
        for (int64_t i = n; i < room; i++) u[i] = out[i] = 0;                                                \
        const double product = sum_products_##real(u, out, room);                                            \
        const real shift = (real)(sum_##real(u, room) / (double)n);                                          \
        const real slope = (real)(product * rstd * rstd / (double)n);                                        \
        ALONG(n) out[i] = scale * (u[i] - shift - out[i] * slope);                                           \
    }                                                                                                        \
    static void norm_columns_##real(void *to_weight, void *to_bias, const void *grad, const void *operand,   \
                                    double mean, double rstd, int64_t n) {                                   \
        real *tw = to_weight, *tb = to_bias;                                                                 \
        const real *g = grad, *x = operand, middle = (real)mean, scale = (real)rstd;                         \
        ALONG(n) tw[i] += g[i] * ((x[i] - middle) * scale);                                                  \
        ALONG(n) tb[i] += g[i];                                                                              \
    }

DEFINE_FOLDS(float)
DEFINE_FOLDS(double)
DEFINE_SOFTMAX(float, f)
DEFINE_SOFTMAX(double, )
DEFINE_NORM(float)
DEFINE_NORM(double)

#define ROWS(real)                                                                                           \
    {softmax_##real,          log_softmax_##real, softmax_backward_##real, log_softmax_backward_##real,      \
     norm_##real,             norm_backward_##real, norm_columns_##real}
const nx_rows NX_AT_LEVEL(nx__rows)[2] = {ROWS(float), ROWS(double)};
