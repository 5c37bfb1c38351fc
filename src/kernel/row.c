/* Rows of numbers: softmax, its logarithm, layer norm and their derivatives. Compiled once a level with NX_LEVEL_NAME set;
 * kernels reach them through nx_rows_get(). Sums run in NX_ROW_WIDE strands, which are added up in float64 every CHUNK
 * elements, so that a row has the same bits whether its elements lie side by side or rows do. Everything stands here
 * twice, for float and for double. Next: element.h; kernel.h says what each function does. */
#include "kernel/kernel.h"

enum { WIDE = NX_ROW_WIDE, CHUNK = 32 * WIDE };
#define EACH(k, n) for (int k = 0; k < (n); k++)
/* Says to the compiler that no elements are left over. */
#define WHOLE(room) ((room) & -(int64_t)WIDE)
/* Over a row: element i of the results depends on element i of the operands alone. */
#define ALONG(n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); i++)

/* Vectors of the level, of four elements at least. */
enum { BYTES_float = 4 * NX_LANES, BYTES_double = NX_LANES < 8 ? 32 : 4 * NX_LANES };
typedef float wide_float __attribute__((vector_size(BYTES_float)));
typedef double wide_double __attribute__((vector_size(BYTES_double)));
typedef float loose_float __attribute__((vector_size(BYTES_float), aligned(4), may_alias));
typedef double loose_double __attribute__((vector_size(BYTES_double), aligned(8), may_alias));
typedef int32_t lanes_float __attribute__((vector_size(BYTES_float)));
typedef int64_t lanes_double __attribute__((vector_size(BYTES_double)));
#define LANES(real) (BYTES_##real / (int)sizeof(real))
#define VECTORS(real) (WIDE / LANES(real))
typedef union { wide_float v[VECTORS(float)]; float at[WIDE]; } strands_float;
typedef union { wide_double v[VECTORS(double)]; double at[WIDE]; } strands_double;

/* ---- folds of WIDE strands, over n elements; those of sums, a multiple of WIDE ---------------------------- */
#define DEFINE_FOLDS(real)                                                                                   \
    static real top_##real(const real *x, int64_t n) {                                                       \
        real s[WIDE];                                                                                        \
        const int64_t whole = WHOLE(n);                                                                      \
        EACH(k, WIDE) s[k] = -INFINITY;                                                                      \
        for (int64_t i = 0; i < whole; i += WIDE) EACH(k, WIDE) s[k] = x[i + k] > s[k] ? x[i + k] : s[k];    \
        ALONG(n - whole) s[i] = x[whole + i] > s[i] ? x[whole + i] : s[i];                                   \
        EACH(k, 16) s[k] = s[k + 16] > s[k] ? s[k + 16] : s[k];                                              \
        EACH(k, 8) s[k] = s[k + 8] > s[k] ? s[k + 8] : s[k];                                                 \
        EACH(k, 4) s[k] = s[k + 4] > s[k] ? s[k + 4] : s[k];                                                 \
        EACH(k, 2) s[k] = s[k + 2] > s[k] ? s[k + 2] : s[k];                                                 \
        return s[1] > s[0] ? s[1] : s[0];                                                                    \
    }                                                                                                        \
    static inline __attribute__((always_inline)) strands_##real no_strands_##real(void) {                    \
        strands_##real e;                                                                                    \
        EACH(v, VECTORS(real)) e.v[v] = (wide_##real){0};                                                    \
        return e;                                                                                            \
    }                                                                                                        \
    static inline __attribute__((always_inline)) void add_##real(wide_##real *s, const strands_##real *e) {  \
        EACH(v, VECTORS(real)) s[v] += e->v[v];                                                              \
    }                                                                                                        \
    /* Strand i meets strand i + 16, 8, 4, 2, 1. */                                                          \
    static inline __attribute__((always_inline)) real close_##real(const wide_##real *s) {                   \
        wide_##real part[VECTORS(real)], sum;                                                                \
        lanes_##real lane;                                                                                   \
        EACH(k, LANES(real)) lane[k] = k;                                                                    \
        EACH(v, VECTORS(real)) part[v] = s[v];                                                               \
        _Pragma("GCC unroll 4") for (int n = VECTORS(real) / 2; n > 0; n /= 2) EACH(v, n) part[v] += part[v + n];\
        sum = part[0];                                                                                       \
        _Pragma("GCC unroll 4") for (int n = LANES(real) / 2; n > 0; n /= 2)                                 \
            sum += __builtin_shuffle(sum, lane ^ n);                                                         \
        return sum[0];                                                                                       \
    }                                                                                                        \
    static inline __attribute__((always_inline)) double sum_##real(const real *x, int64_t n) {               \
        double total = 0;                                                                                    \
        for (int64_t i = 0; i < n;) {                                                                        \
            int64_t end = n - i < CHUNK ? n : i + CHUNK;                                                     \
            wide_##real s[VECTORS(real)] = {{0}};                                                            \
            for (; i < end; i += WIDE) EACH(v, VECTORS(real)) s[v] += ((const loose_##real *)(x + i))[v];    \
            total += close_##real(s);                                                                        \
        }                                                                                                    \
        return total;                                                                                        \
    }                                                                                                        \
    static inline __attribute__((always_inline)) double sum_products_##real(const real *x, const real *y, int64_t n) {\
        double total = 0;                                                                                    \
        for (int64_t i = 0; i < n;) {                                                                        \
            int64_t end = n - i < CHUNK ? n : i + CHUNK;                                                     \
            wide_##real s[VECTORS(real)] = {{0}};                                                            \
            for (; i < end; i += WIDE)                                                                       \
                EACH(v, VECTORS(real)) s[v] += ((const loose_##real *)(x + i))[v] * ((const loose_##real *)(y + i))[v];\
            total += close_##real(s);                                                                        \
        }                                                                                                    \
        return total;                                                                                        \
    }

/* ---- softmax ---------------------------------------------------------------------------------------------- */
/* Each of the four functions in three steps: terms that are added up along the row, what follows from their sum, and the
 * results. a, b: elements of the operands; e: the term, which stands in the result; top: the row's largest element. */
#define KEEP(out, e) ((out) = (e))
#define DROP(out, e) ((void)0)
#define TERM_softmax(f, a, b, top) nx_element_exp##f((a) - (top))
#define REST_softmax(real, f, sum) ((real)(1 / (sum)))
#define RESULT_softmax(f, a, b, e, top, rest) ((e) * (rest))
#define TERM_log_softmax TERM_softmax
#define REST_log_softmax(real, f, sum) nx_element_log##f((real)(sum))
#define RESULT_log_softmax(f, a, b, e, top, rest) ((a) - (top) - (rest))
#define TERM_softmax_backward(f, a, b, top) ((a) * (b))
#define REST_softmax_backward(real, f, sum) ((real)(sum))
#define RESULT_softmax_backward(f, a, b, e, top, rest) ((b) * ((a) - (rest)))
#define TERM_log_softmax_backward(f, a, b, top) (a)
#define REST_log_softmax_backward REST_softmax_backward
#define RESULT_log_softmax_backward(f, a, b, e, top, rest) ((a) - nx_element_exp##f(b) * (rest))

/* Short rows: as many as a vector holds, each in `width` lanes, the last of which may be filling. Lane i meets
 * lane i ^ 8, 4, 2, 1 in turn, which adds up the elements in the order of the strands. */
#define CHOOSE(test, a, b) (wide)(((lanes)(a) & (test)) | ((lanes)(b) & ~(test)))
#define MEET(v, by) __builtin_shuffle(v, lane ^ (by))
#define MEET_LARGER(by) top = CHOOSE(MEET(top, by) > top, MEET(top, by), top)
#define MEET_SUM(by) sum += MEET(sum, by)
#define MEET_ALL(WITH)                                                                                       \
    {                                                                                                        \
        if (width > 8) WITH(8);                                                                              \
        if (width > 4) WITH(4);                                                                              \
        WITH(2);                                                                                             \
        WITH(1);                                                                                             \
    }
#define DEFINE_SHORT(name, real, f, HAS_TOP)                                                                 \
    static inline __attribute__((always_inline)) void name##_short_##real(                                   \
        real *out, const real *a, const real *b, const int n, const int width, int64_t left) {               \
        enum { LANES = LANES(real) };                                                                        \
        typedef wide_##real wide;                                                                            \
        typedef lanes_##real lanes;                                                                          \
        typedef loose_##real loose;                                                                          \
        const int step = LANES / width * n;                                                                  \
        const wide zero = {0}, filler = zero + (real)(HAS_TOP ? -INFINITY : 0);                              \
        lanes lane;                                                                                          \
        EACH(k, LANES) lane[k] = k;                                                                          \
        const lanes is_filling = (lane & (width - 1)) >= n, from = lane / width * n + (lane & (width - 1));  \
        const lanes row = lane * ((1 << 16) / n + 1) >> 16, to = lane + row * (width - n); /* lane / n */    \
        for (; left > 0; left -= step, out += step, a += step, b += step) {                                  \
            union { wide v; real at[LANES]; } x = {zero}, y = {zero}, tops = {zero}, e, rest;                \
            if (left >= LANES) x.v = *(const loose *)a;                                                      \
            else EACH(k, left) x.at[k] = a[k];                                                               \
            if (!HAS_TOP && left >= LANES) y.v = *(const loose *)b;                                          \
            else if (!HAS_TOP) EACH(k, left) y.at[k] = b[k];                                                 \
            x.v = CHOOSE(is_filling, filler, __builtin_shuffle(x.v, from));                                  \
            y.v = CHOOSE(is_filling, zero, __builtin_shuffle(y.v, from));                                    \
            if (HAS_TOP) {                                                                                   \
                wide top = CHOOSE(x.v == x.v, x.v, filler);                                                  \
                MEET_ALL(MEET_LARGER)                                                                        \
                tops.v = top;                                                                                \
            }                                                                                                \
            (void)tops; /* not read without HAS_TOP */                                                       \
            EACH(k, LANES) e.at[k] = TERM_##name(f, x.at[k], y.at[k], tops.at[k]);                           \
            wide sum = zero + e.v;                                                                           \
            MEET_ALL(MEET_SUM)                                                                               \
            rest.v = sum;                                                                                    \
            EACH(k, LANES) rest.at[k] = REST_##name(real, f, rest.at[k]);                                    \
            EACH(k, LANES) e.at[k] = RESULT_##name(f, x.at[k], y.at[k], e.at[k], tops.at[k], rest.at[k]);    \
            e.v = __builtin_shuffle(e.v, to);                                                                \
            if (step == LANES && left >= LANES) *(loose *)out = e.v;                                         \
            else EACH(k, left < step ? left : step) out[k] = e.at[k];                                        \
        }                                                                                                    \
    }

/* GROUP rows take each step together, so that the steps between the long ones are vectors and wait for nothing. */
enum { GROUP = 16 };
#define DEFINE_SOFTMAX(name, real, f, HAS_TOP, STORE)                                                        \
    DEFINE_SHORT(name, real, f, HAS_TOP)                                                                     \
    static double name##_sum_##real(real *out, const real *a, const real *b, int64_t n, real top) {          \
        double total = 0;                                                                                    \
        for (int64_t at = 0, end; at < n; at = end) {                                                        \
            end = n - at < CHUNK ? n : at + CHUNK;                                                           \
            wide_##real s[VECTORS(real)] = {{0}};                                                            \
            strands_##real e;                                                                                \
            for (; at + WIDE <= end; at += WIDE) {                                                           \
                ALONG(WIDE) {                                                                                \
                    e.at[i] = TERM_##name(f, a[at + i], b[at + i], top);                                     \
                    STORE(out[at + i], e.at[i]);                                                             \
                }                                                                                            \
                add_##real(s, &e);                                                                           \
            }                                                                                                \
            if (at < end) {                                                                                  \
                e = no_strands_##real();                                                                     \
                ALONG(end - at) {                                                                            \
                    e.at[i] = TERM_##name(f, a[at + i], b[at + i], top);                                     \
                    STORE(out[at + i], e.at[i]);                                                             \
                }                                                                                            \
                add_##real(s, &e);                                                                           \
            }                                                                                                \
            total += close_##real(s);                                                                        \
        }                                                                                                    \
        return total;                                                                                        \
    }                                                                                                        \
    static void name##_group_##real(real *out, const real *a, const real *b, int64_t n, int64_t count) {     \
        real top[GROUP] = {0}, rest[GROUP];                                                                  \
        double sum[GROUP];                                                                                   \
        EACH(r, GROUP) sum[r] = 1;                                                                           \
        for (int r = 0; HAS_TOP && r < count; r++) top[r] = top_##real(a + r * n, n);                        \
        for (int r = 0; r < count; r++)                                                                      \
            sum[r] = name##_sum_##real(out + r * n, a + r * n, b + r * n, n, top[r]);                        \
        EACH(r, GROUP) rest[r] = REST_##name(real, f, sum[r]);                                               \
        for (int r = 0; r < count; r++, a += n, b += n, out += n)                                            \
            ALONG(n) out[i] = RESULT_##name(f, a[i], b[i], out[i], top[r], rest[r]);                         \
    }                                                                                                        \
    static void name##_rows_##real(void *result, const void *first, const void *second, int64_t n,           \
                                   int64_t count) {                                                          \
        real *out = result;                                                                                  \
        const real *a = first, *b = second ? second : first;                                                 \
        if (n == 4) name##_short_##real(out, a, b, 4, 4, count * n);                                         \
        else if (n <= 4) name##_short_##real(out, a, b, (int)n, 4, count * n);                               \
        else if (n * (int)sizeof(real) > BYTES_##real) /* long */                                            \
            for (int64_t r = 0; r < count; r += GROUP)                                                       \
                name##_group_##real(out + r * n, a + r * n, b + r * n, n, count - r < GROUP ? count - r : GROUP);\
        else if (n <= 8) name##_short_##real(out, a, b, (int)n, 8, count * n);                               \
        else name##_short_##real(out, a, b, (int)n, 16, count * n);                                          \
    }                                                                                                        \
    /* As many rows side by side as there are lanes; strands are added as along a row. */                    \
    static inline __attribute__((always_inline)) void name##_lanes_##real(                                   \
        real *out, const real *a, const real *b, int64_t n, int64_t step, int lanes) {                       \
        real top[NX_ROW_LANES] = {0}, rest[NX_ROW_LANES], s[WIDE][NX_ROW_LANES];                             \
        double sum[NX_ROW_LANES] = {0};                                                                      \
        EACH(l, NX_ROW_LANES) top[l] = HAS_TOP ? -INFINITY : 0;                                              \
        for (int64_t i = 0; HAS_TOP && i < n; i++)                                                           \
            _Pragma("GCC unroll 1") EACH(l, lanes) top[l] = a[i * step + l] > top[l] ? a[i * step + l] : top[l];\
        for (int64_t i = 0; i < n;) {                                                                        \
            int64_t end = n - i < CHUNK ? n : i + CHUNK;                                                     \
            memset(s, 0, sizeof s);                                                                          \
            for (; i < end; i++) {                                                                           \
                real *strand = s[i % WIDE];                                                                  \
                _Pragma("GCC ivdep") EACH(l, lanes) {                                                        \
                    const int64_t at = i * step + l;                                                         \
                    const real e = TERM_##name(f, a[at], b[at], top[l]);                                     \
                    STORE(out[at], e);                                                                       \
                    strand[l] += e;                                                                          \
                }                                                                                            \
            }                                                                                                \
            for (int half = WIDE / 2; half > 2; half /= 2)                                                   \
                EACH(k, half) EACH(l, NX_ROW_LANES) s[k][l] += s[k + half][l];                               \
            EACH(l, NX_ROW_LANES) sum[l] += (s[0][l] + s[2][l]) + (s[1][l] + s[3][l]);                       \
        }                                                                                                    \
        EACH(l, NX_ROW_LANES) rest[l] = REST_##name(real, f, sum[l]);                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            _Pragma("GCC ivdep") EACH(l, lanes) {                                                            \
                const int64_t at = i * step + l;                                                             \
                out[at] = RESULT_##name(f, a[at], b[at], out[at], top[l], rest[l]);                          \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_columns_##real(void *result, const void *first, const void *second, int64_t n,        \
                                      int64_t step, int lanes) {                                             \
        if (lanes == NX_ROW_LANES) name##_lanes_##real(result, first, second, n, step, NX_ROW_LANES);        \
        else name##_lanes_##real(result, first, second, n, step, lanes);                                     \
    }

/* ---- layer norm -------------------------------------------------------------------------------------------- */
#define DEFINE_NORM(real)                                                                                    \
    static inline __attribute__((always_inline)) void norm_rows_##real(                                      \
        void *result, const void *operand, const void *weight, const void *bias, double eps, int64_t n, int64_t room,\
        const int rows, double *mean, double *rstd) {                                                        \
        real *out = result;                                                                                  \
        const real *x = operand, *w = weight, *b = bias;                                                     \
        EACH(r, rows) mean[r] = sum_##real(x + r * n, room) / (double)n;                                     \
        EACH(r, rows) {                                                                                      \
            const real middle = (real)mean[r];                                                               \
            ALONG(n) out[r * n + i] = x[r * n + i] - middle;                                                 \
            for (int64_t i = n; i < room; i++) out[r * n + i] = 0;                                           \
        }                                                                                                    \
        EACH(r, rows) rstd[r] = 1 / sqrt(sum_products_##real(out + r * n, out + r * n, room) / (double)n + eps);\
        for (int r = 0; r < rows; r++, out += n) {                                                           \
            const real scale = (real)rstd[r];                                                                \
            if (w && b) {                                                                                    \
                ALONG(n) out[i] = out[i] * scale * w[i] + b[i];                                              \
            } else if (w) {                                                                                  \
                ALONG(n) out[i] = out[i] * scale * w[i];                                                     \
            } else {                                                                                         \
                ALONG(n) out[i] = out[i] * scale + (b ? b[i] : 0);                                           \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void norm_##real(void *out, const void *x, const void *weight, const void *bias, double eps, int64_t n,\
                            int64_t room, int rows, double *mean, double *rstd) {                            \
        if (rows == NX_NORM_ROWS) {                                                                          \
            norm_rows_##real(out, x, weight, bias, eps, n, room, NX_NORM_ROWS, mean, rstd);                  \
        } else {                                                                                             \
            for (int r = 0; r < rows; r++)                                                                   \
                norm_rows_##real((real *)out + r * n, (const real *)x + r * n, weight, bias, eps, n, room, 1, mean + r, rstd + r);\
        }                                                                                                    \
    }                                                                                                        \
    /* Sums of u and of u*(x - middle), u = g*weight. */                                                     \
    static inline __attribute__((always_inline)) void norm_sums_##real(                                      \
        const real *g, const real *x, const real *w, real middle, int64_t n, double *total, double *product) {\
        *total = *product = 0;                                                                               \
        for (int64_t at = 0, end; at < n; at = end) {                                                        \
            end = n - at < CHUNK ? n : at + CHUNK;                                                           \
            wide_##real s[VECTORS(real)] = {{0}}, p[VECTORS(real)] = {{0}};                                  \
            strands_##real u, v;                                                                             \
            for (; at < end; at += WIDE) {                                                                   \
                if (end - at < WIDE) u = v = no_strands_##real();                                            \
                ALONG(end - at < WIDE ? end - at : WIDE) {                                                   \
                    u.at[i] = w ? g[at + i] * w[at + i] : g[at + i];                                         \
                    v.at[i] = u.at[i] * (x[at + i] - middle);                                                \
                }                                                                                            \
                add_##real(s, &u);                                                                           \
                add_##real(p, &v);                                                                           \
            }                                                                                                \
            *total += close_##real(s);                                                                       \
            *product += close_##real(p);                                                                     \
        }                                                                                                    \
    }                                                                                                        \
    /* With h the normalised row: rstd*(u - mean(u) - h*mean(u*h)). */                                       \
    static inline __attribute__((always_inline)) void norm_slope_##real(real *out, const real *g, const real *x, const real *w,\
                                                                        const double *mean, const double *rstd, int64_t n, int rows) {\
        double total[NX_NORM_ROWS], product[NX_NORM_ROWS];                                                   \
        EACH(r, rows) norm_sums_##real(g + r * n, x + r * n, w, (real)mean[r], n, &total[r], &product[r]);   \
        for (int r = 0; r < rows; r++, out += n, g += n, x += n) {                                           \
            const real middle = (real)mean[r], shift = (real)(total[r] / (double)n), scale = (real)rstd[r];  \
            const real slope = (real)(product[r] * rstd[r] * rstd[r] / (double)n);                           \
            ALONG(n) out[i] = scale * ((w ? g[i] * w[i] : g[i]) - shift - (x[i] - middle) * slope);          \
        }                                                                                                    \
    }                                                                                                        \
    static void norm_backward_##real(void *out, const void *g, const void *x, const void *weight, const double *mean,\
                                     const double *rstd, int64_t n, int rows) {                              \
        if (weight) norm_slope_##real(out, g, x, weight, mean, rstd, n, rows);                               \
        else norm_slope_##real(out, g, x, NULL, mean, rstd, n, rows);                                        \
    }                                                                                                        \
    static void norm_columns_##real(void *to_weight, void *to_bias, const void *grad, const void *operand,   \
                                    double mean, double rstd, int64_t n) {                                   \
        real *tw = to_weight, *tb = to_bias;                                                                 \
        const real *g = grad, *x = operand, middle = (real)mean, scale = (real)rstd;                         \
        ALONG(n) tw[i] += g[i] * ((x[i] - middle) * scale);                                                  \
        ALONG(n) tb[i] += g[i];                                                                              \
    }

/* ---- channels ----------------------------------------------------------------------------------------------- */
/* Sums of TERM(g, x, m), m the channel's middle: of one channel, and of channels side by side. */
#define DEFINE_TOTAL(name, real, TERM)                                                                       \
    static void name##_along_##real(double *to, const real *g, const real *x, const double *middle, int64_t n) {\
        const real m = middle ? (real)*middle : 0;                                                           \
        for (int64_t at = 0, end; at < n; at = end) {                                                        \
            end = n - at < CHUNK ? n : at + CHUNK;                                                           \
            wide_##real s[VECTORS(real)] = {{0}};                                                            \
            strands_##real e;                                                                                \
            for (; at + WIDE <= end; at += WIDE) {                                                           \
                ALONG(WIDE) e.at[i] = TERM(g[at + i], x[at + i], m);                                         \
                add_##real(s, &e);                                                                           \
            }                                                                                                \
            if (at < end) {                                                                                  \
                e = no_strands_##real();                                                                     \
                ALONG(end - at) e.at[i] = TERM(g[at + i], x[at + i], m);                                     \
                add_##real(s, &e);                                                                           \
            }                                                                                                \
            *to += close_##real(s);                                                                          \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_across_##real(double *to, const real *g, const real *x, const double *middle, int64_t n,\
                                     int64_t step, int channels) {                                           \
        real m[NX_ROW_LANES] = {0};                                                                          \
        for (int c = 0; middle && c < channels; c++) m[c] = (real)middle[c];                                 \
        for (int64_t at = 0, end; at < n; at = end) {                                                        \
            end = n - at < WIDE ? n : at + WIDE;                                                             \
            real s[NX_ROW_LANES] = {0};                                                                      \
            for (; at < end; at++) ALONG(channels) s[i] += TERM(g[at * step + i], x[at * step + i], m[i]);   \
            for (int c = 0; c < channels; c++) to[c] += s[c];                                                \
        }                                                                                                    \
    }
#define ITSELF(g, x, m) ((void)(m), (x))
#define SQUARE(g, x, m) (((x) - (m)) * ((x) - (m)))
#define PRODUCT(g, x, m) ((g) * ((x) - (m)))
#define DEFINE_CHANNELS(real)                                                                                \
    DEFINE_TOTAL(sums, real, ITSELF)                                                                         \
    DEFINE_TOTAL(squares, real, SQUARE)                                                                      \
    DEFINE_TOTAL(products, real, PRODUCT)                                                                    \
    static void add_sums_##real(double *to, const void *x, int64_t n, int64_t step, int channels) {          \
        if (step == 1) sums_along_##real(to, x, x, NULL, n);                                                 \
        else sums_across_##real(to, x, x, NULL, n, step, channels);                                          \
    }                                                                                                        \
    static void add_squares_##real(double *to, const void *x, const double *middle, int64_t n, int64_t step, \
                                   int channels) {                                                           \
        if (step == 1) squares_along_##real(to, x, x, middle, n);                                            \
        else squares_across_##real(to, x, x, middle, n, step, channels);                                     \
    }                                                                                                        \
    static void add_products_##real(double *to, const void *g, const void *x, const double *middle, int64_t n,\
                                    int64_t step, int channels) {                                            \
        if (step == 1) products_along_##real(to, g, x, middle, n);                                           \
        else products_across_##real(to, g, x, middle, n, step, channels);                                    \
    }                                                                                                        \
    static void blend_##real(void *result, const void *grad, const void *operand, const double *middle,      \
                             const double *of_g, const double *of_x, const double *summand, int64_t n,       \
                             int64_t step, int channels) {                                                   \
        real *out = result, m[NX_ROW_LANES], a[NX_ROW_LANES], b[NX_ROW_LANES], c[NX_ROW_LANES];              \
        const real *g = grad, *x = operand;                                                                  \
        EACH(k, channels) m[k] = (real)middle[k], b[k] = (real)of_x[k], c[k] = (real)summand[k];             \
        EACH(k, channels) a[k] = g ? (real)of_g[k] : 0;                                                      \
        if (step == 1 && g) {                                                                                \
            const real m0 = m[0], a0 = a[0], b0 = b[0], c0 = c[0];                                           \
            ALONG(n) out[i] = g[i] * a0 + (x[i] - m0) * b0 + c0;                                             \
        } else if (step == 1) {                                                                              \
            const real m0 = m[0], b0 = b[0], c0 = c[0];                                                      \
            ALONG(n) out[i] = (x[i] - m0) * b0 + c0;                                                         \
        } else {                                                                                             \
            for (; n > 0; n--, out += step, x += step, g += g ? step : 0) {                                  \
                if (g) {                                                                                     \
                    ALONG(channels) out[i] = g[i] * a[i] + (x[i] - m[i]) * b[i] + c[i];                      \
                } else {                                                                                     \
                    ALONG(channels) out[i] = (x[i] - m[i]) * b[i] + c[i];                                    \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

/* ---- what follows a convolution --------------------------------------------------------------------------- */
#define TAILED(y, adds, other, low, high)                                                                    \
    if (adds) y += other;                                                                                    \
    y = y > high ? high : y;                                                                                 \
    y = y < low ? low : y;
#define DEFINE_TAIL(real)                                                                                    \
    static inline __attribute__((always_inline)) void tail_as_##real(                                        \
        real *out, const real *x, const real *other, const bool scaled, const bool adds, const real factor,  \
        const real offset, const real low, const real high, int64_t n) {                                     \
        ALONG(n) {                                                                                           \
            real y = scaled ? offset + x[i] * factor : x[i];                                                 \
            TAILED(y, adds, other[i], low, high)                                                             \
            out[i] = y;                                                                                      \
        }                                                                                                    \
    }                                                                                                        \
    static void tail_##real(void *out, const void *x, const void *other, bool scaled, double factor,         \
                            double offset, double low, double high, int64_t n) {                             \
        const real a = (real)factor, b = (real)offset, from = (real)low, to = (real)high;                    \
        if (scaled && other) tail_as_##real(out, x, other, true, true, a, b, from, to, n);                   \
        else if (scaled) tail_as_##real(out, x, x, true, false, a, b, from, to, n);                          \
        else if (other) tail_as_##real(out, x, other, false, true, a, b, from, to, n);                       \
        else tail_as_##real(out, x, x, false, false, a, b, from, to, n);                                     \
    }                                                                                                        \
    static inline __attribute__((always_inline)) void tails_as_##real(                                       \
        real *out, const real *x, const real *other, const bool adds, const real *factor,                    \
        const real *offset, const real low, const real high, int64_t channels) {                             \
        ALONG(channels) {                                                                                    \
            real y = offset[i] + x[i] * factor[i];                                                           \
            TAILED(y, adds, other[i], low, high)                                                             \
            out[i] = y;                                                                                      \
        }                                                                                                    \
    }                                                                                                        \
    static void tails_##real(void *out, const void *x, const void *other, const void *factor,                \
                             const void *offset, double low, double high, int64_t channels, int64_t n) {     \
        const real from = (real)low, to = (real)high;                                                        \
        const int64_t step = channels * (int64_t)sizeof(real);                                               \
        if (factor == NULL) {                                                                                \
            tail_##real(out, x, other, false, 1, 0, low, high, n * channels);                                \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t at = 0; at < n * step; at += step) {                                                    \
            real *y = (real *)((char *)out + at);                                                            \
            const real *of = (const real *)((const char *)x + at);                                           \
            const real *more = other ? (const real *)((const char *)other + at) : of;                        \
            if (other) tails_as_##real(y, of, more, true, factor, offset, from, to, channels);               \
            else tails_as_##real(y, of, more, false, factor, offset, from, to, channels);                    \
        }                                                                                                    \
    }

DEFINE_FOLDS(float)
DEFINE_FOLDS(double)
#define DEFINE_SOFTMAXES(real, f)                                                                            \
    DEFINE_SOFTMAX(softmax, real, f, true, KEEP)                                                             \
    DEFINE_SOFTMAX(log_softmax, real, f, true, DROP)                                                         \
    DEFINE_SOFTMAX(softmax_backward, real, f, false, DROP)                                                   \
    DEFINE_SOFTMAX(log_softmax_backward, real, f, false, DROP)
DEFINE_SOFTMAXES(float, f)
DEFINE_SOFTMAXES(double, )
DEFINE_NORM(float)
DEFINE_NORM(double)
DEFINE_CHANNELS(float)
DEFINE_CHANNELS(double)
DEFINE_TAIL(float)
DEFINE_TAIL(double)

#define ROWS(real)                                                                                           \
    {.softmax = {softmax_rows_##real, softmax_columns_##real},                                               \
     .log_softmax = {log_softmax_rows_##real, log_softmax_columns_##real},                                   \
     .softmax_backward = {softmax_backward_rows_##real, softmax_backward_columns_##real},                    \
     .log_softmax_backward = {log_softmax_backward_rows_##real, log_softmax_backward_columns_##real},        \
     .norm = norm_##real, .norm_backward = norm_backward_##real, .norm_columns = norm_columns_##real,         \
     .channels = {add_sums_##real, add_squares_##real, add_products_##real, blend_##real},            \
     .tail = tail_##real,                                                                                     \
     .tails = tails_##real}
const nx_rows NX_AT_LEVEL(nx__rows)[2] = {ROWS(float), ROWS(double)};
