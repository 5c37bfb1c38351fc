/* The rows of attention's tiles, see attention_rows.h. Compiled once a level with NX_LEVEL_NAME set; attention.c calls
 * it. Everything stands here twice, for float and for double. */
#include "attention_rows.h"

#include <math.h>

enum { STRANDS = NX__STRANDS };

#define EACH(k, n) for (int k = 0; k < (n); k++)
#define UNROLL _Pragma("GCC unroll 4")
#define CHOOSE(real, test, a, b) (wide_##real)(((lanes_##real)(a) & (test)) | ((lanes_##real)(b) & ~(test)))

/* Vectors of the level, of four elements at least, and as many of them as STRANDS elements fill. */
enum { BYTES_float = 4 * NX_LANES, BYTES_double = NX_LANES < 8 ? 32 : 4 * NX_LANES };
#define DEFINE_STRANDS(real, integer)                                                                            \
    typedef real wide_##real __attribute__((vector_size(BYTES_##real)));                                         \
    typedef real loose_##real __attribute__((vector_size(BYTES_##real), aligned(sizeof(real)), may_alias));      \
    typedef integer lanes_##real __attribute__((vector_size(BYTES_##real)));                                     \
    typedef union { wide_##real v[STRANDS * sizeof(real) / BYTES_##real]; real at[STRANDS]; } strands_##real;
DEFINE_STRANDS(float, int32_t)
DEFINE_STRANDS(double, int64_t)
#define LANES(real) (BYTES_##real / (int)sizeof(real))
#define VECTORS(real) (STRANDS / LANES(real))

/* exp, but 0 instead of subnormal numbers, which processors compute with slowly: beside the largest weight, 1, they are none.
 * The power of two is one factor, so that e^88 is the most. */
NX_ELEMENT float weight_float(float x) {
    uint32_t n;
    float near = nx__at_mostf(nx__at_leastf(x, nx__weight_bounds.low), nx__weight_bounds.high);
    near = nx__exp_reducef(near, NX__ROUNDERF + 127, &n);
    float weight = nx__exp_wholef(near) * nx__float_of(n << 23);
    return x < nx__weight_bounds.low ? 0 : weight;
}
NX_ELEMENT double weight_double(double x) {
    const double low = -708; /* e^x is no subnormal number */
    double weight = nx_element_exp(x < low ? low : x);
    return x < low ? 0 : weight;
}

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

#define DEFINE_ROWS(real)                                                                                      \
    static inline __attribute__((always_inline)) strands_##real load_##real(const real *x) {                   \
        strands_##real e;                                                                                      \
        EACH(v, VECTORS(real)) e.v[v] = ((const loose_##real *)x)[v];                                          \
        return e;                                                                                              \
    }                                                                                                          \
    static inline __attribute__((always_inline)) void store_##real(real *x, const strands_##real *e) {         \
        EACH(v, VECTORS(real)) ((loose_##real *)x)[v] = e->v[v];                                               \
    }                                                                                                          \
    static inline __attribute__((always_inline)) strands_##real all_##real(real value) {                       \
        strands_##real e;                                                                                      \
        EACH(v, VECTORS(real)) e.v[v] = value - (wide_##real){0};                                              \
        return e;                                                                                              \
    }                                                                                                          \
    /* The first `seen`; the others are -INFINITY. */                                                          \
    static inline __attribute__((always_inline)) strands_##real load_seen_##real(const real *x, int64_t seen) {\
        strands_##real e = load_##real(x);                                                                     \
        const wide_##real unseen = -(real)INFINITY - (wide_##real){0};                                         \
        lanes_##real lane;                                                                                     \
        EACH(k, LANES(real)) lane[k] = k;                                                                      \
        EACH(v, VECTORS(real)) {                                                                               \
            const lanes_##real is_seen = lane + v * LANES(real) < (lanes_##real){0} + (int)seen;               \
            e.v[v] = CHOOSE(real, is_seen, e.v[v], unseen);                                                    \
        }                                                                                                      \
        return e;                                                                                              \
    }                                                                                                          \
    static inline __attribute__((always_inline)) void raise_##real(strands_##real *s, const strands_##real *e) {\
        EACH(v, VECTORS(real)) s->v[v] = CHOOSE(real, e->v[v] > s->v[v], e->v[v], s->v[v]);                    \
    }                                                                                                          \
    /* Strand i meets strand i + 8, 4, 2, 1. */                                                                \
    static inline __attribute__((always_inline)) real close_##real(const strands_##real *s) {                  \
        wide_##real part[VECTORS(real)];                                                                       \
        lanes_##real lane;                                                                                     \
        EACH(k, LANES(real)) lane[k] = k;                                                                      \
        EACH(v, VECTORS(real)) part[v] = s->v[v];                                                              \
        for (int n = VECTORS(real) / 2; n > 0; n /= 2) EACH(v, n) part[v] += part[v + n];                      \
        UNROLL for (int n = LANES(real) / 2; n > 0; n /= 2) part[0] += __builtin_shuffle(part[0], lane ^ n);   \
        return part[0][0];                                                                                     \
    }                                                                                                          \
    static inline __attribute__((always_inline)) real largest_##real(const strands_##real *s) {                \
        wide_##real part[VECTORS(real)], other;                                                                \
        lanes_##real lane;                                                                                     \
        EACH(k, LANES(real)) lane[k] = k;                                                                      \
        EACH(v, VECTORS(real)) part[v] = s->v[v];                                                              \
        for (int n = VECTORS(real) / 2; n > 0; n /= 2)                                                         \
            EACH(v, n) part[v] = CHOOSE(real, part[v + n] > part[v], part[v + n], part[v]);                    \
        UNROLL for (int n = LANES(real) / 2; n > 0; n /= 2) {                                                  \
            other = __builtin_shuffle(part[0], lane ^ n);                                                      \
            part[0] = CHOOSE(real, other > part[0], other, part[0]);                                           \
        }                                                                                                      \
        return part[0][0];                                                                                     \
    }                                                                                                          \
    static inline __attribute__((always_inline)) strands_##real weights_##real(const strands_##real *x, real less) {\
        strands_##real e;                                                                                      \
        EACH(k, STRANDS) e.at[k] = weight_##real(x->at[k] - less);                                             \
        return e;                                                                                              \
    }                                                                                                          \
    /* How much of row r is seen. */                                                                           \
    static inline int64_t seen_##real(const nx__sight *rows, int64_t r) {                                      \
        int64_t seen = nx_least(rows->seen + r * rows->more, rows->keys);                                      \
        return seen < 0 ? 0 : seen;                                                                            \
    }                                                                                                          \
    static inline real top_##real(const real *x, int64_t seen, real top) {                                     \
        strands_##real s = all_##real(top), e;                                                                 \
        int64_t i = 0;                                                                                         \
        for (; i + STRANDS <= seen; i += STRANDS) {                                                            \
            e = load_##real(x + i);                                                                            \
            raise_##real(&s, &e);                                                                              \
        }                                                                                                      \
        if (i < seen) {                                                                                        \
            e = load_seen_##real(x + i, seen - i);                                                             \
            raise_##real(&s, &e);                                                                              \
        }                                                                                                      \
        return largest_##real(&s);                                                                             \
    }                                                                                                          \
    /* Returns the sum of the row's weights. */                                                                \
    static inline real soften_row_##real(real *x, int64_t seen, int64_t step, real less) {                     \
        strands_##real s = all_##real(0), e;                                                                   \
        int64_t i = 0;                                                                                         \
        for (; i + STRANDS <= seen; i += STRANDS) {                                                            \
            e = load_##real(x + i);                                                                            \
            e = weights_##real(&e, less);                                                                      \
            EACH(v, VECTORS(real)) s.v[v] += e.v[v];                                                           \
            store_##real(x + i, &e);                                                                           \
        }                                                                                                      \
        if (i < seen) {                                                                                        \
            e = load_seen_##real(x + i, seen - i);                                                             \
            e = weights_##real(&e, less);                                                                      \
            EACH(v, VECTORS(real)) s.v[v] += e.v[v];                                                           \
            store_##real(x + i, &e);                                                                           \
            i += STRANDS;                                                                                      \
        }                                                                                                      \
        e = all_##real(0);                                                                                     \
        for (; i < step; i += STRANDS) store_##real(x + i, &e);                                                \
        return close_##real(&s);                                                                               \
    }                                                                                                          \
    static void scale_##real(void *to, int64_t to_step, const void *from, int64_t x_step, const double *by, int64_t by_step,\
                             int64_t n, int64_t width) {                                                       \
        real *y = to;                                                                                          \
        const real *x = from;                                                                                  \
        for (int64_t row = 0; row < n; row++, x += x_step, y += to_step, by += by_step) {                      \
            const real factor = (real)*by;                                                                     \
            int64_t i = 0;                                                                                     \
            for (; i + STRANDS <= width; i += STRANDS) {                                                       \
                strands_##real e = load_##real(x + i);                                                         \
                EACH(v, VECTORS(real)) e.v[v] *= factor;                                                       \
                store_##real(y + i, &e);                                                                       \
            }                                                                                                  \
            for (; i < width; i++) y[i] = x[i] * factor;                                                       \
        }                                                                                                      \
    }                                                                                                          \
    /* A row that is -INFINITY so far has the sum 0; what it is taken from must be finite, or it would be NaN. */\
    static void soften_##real(void *scores, const nx__sight *rows, double *top, double *sum, void *result, int64_t width) {\
        real *x = scores, *y = result;                                                                         \
        for (int64_t r = 0; r < rows->n; r++, x += rows->step) {                                               \
            const int64_t seen = seen_##real(rows, r);                                                         \
            const double now = top_##real(x, seen, (real)top[r]), less = now == -INFINITY ? 0 : now;           \
            if (y && top[r] != now) {                                                                          \
                const double factor = nx_element_exp(top[r] - less);                                           \
                sum[r] *= factor;                                                                              \
                scale_##real(y + r * width, width, y + r * width, width, &factor, 0, 1, width);                \
            }                                                                                                  \
            top[r] = now;                                                                                      \
            sum[r] += soften_row_##real(x, seen, rows->step, (real)less);                                      \
        }                                                                                                      \
    }                                                                                                          \
    static void exp_less_##real(void *scores, const nx__sight *rows, const double *less) {                     \
        real *x = scores;                                                                                      \
        for (int64_t r = 0; r < rows->n; r++, x += rows->step)                                                 \
            (void)soften_row_##real(x, seen_##real(rows, r), rows->step, (real)less[r]);                       \
    }                                                                                                          \
    /* Behind what a row sees a strand holds weights that are 0, and what a product left there, which must not be NaN. */\
    static void mix_##real(void *gradient, const void *part, const nx__sight *rows, const double *less, double by) {\
        real *g = gradient;                                                                                    \
        const real *p = part;                                                                                  \
        const strands_##real zero = all_##real(0);                                                             \
        for (int64_t r = 0; r < rows->n; r++, g += rows->step, p += rows->step) {                              \
            const real own = (real)less[r], factor = (real)by;                                                 \
            const int64_t seen = seen_##real(rows, r);                                                         \
            int64_t i = 0;                                                                                     \
            for (; i < seen; i += STRANDS) {                                                                   \
                strands_##real e = load_##real(g + i), weight = load_##real(p + i);                            \
                EACH(v, VECTORS(real)) e.v[v] = weight.v[v] * factor * (e.v[v] - own);                         \
                store_##real(g + i, &e);                                                                       \
            }                                                                                                  \
            for (; i < rows->step; i += STRANDS) store_##real(g + i, &zero);                                   \
        }                                                                                                      \
    }                                                                                                          \
    static void add_##real(void *row, const void *other, int64_t n) {                                          \
        real *x = row;                                                                                         \
        const real *y = other;                                                                                 \
        for (int64_t i = 0; i < n; i++) x[i] += y[i];                                                          \
    }                                                                                                          \
    static void dots_##real(double *out, const void *first, int64_t x_step, const void *second, int64_t y_step, int64_t n,\
                            int64_t width) {                                                                   \
        const real *x = first, *y = second;                                                                    \
        for (int64_t row = 0; row < n; row++, x += x_step, y += y_step) {                                      \
            strands_##real s = all_##real(0);                                                                  \
            int64_t i = 0;                                                                                     \
            for (; i + STRANDS <= width; i += STRANDS) {                                                       \
                const strands_##real a = load_##real(x + i), b = load_##real(y + i);                           \
                EACH(v, VECTORS(real)) s.v[v] += a.v[v] * b.v[v];                                              \
            }                                                                                                  \
            for (; i < width; i++) s.at[i % STRANDS] += x[i] * y[i];                                           \
            out[row] = close_##real(&s);                                                                       \
        }                                                                                                      \
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
DEFINE_ROWS(float)
DEFINE_ROWS(double)

#define ROWS(real)                                                                                                         \
    {multiply_##real, soften_##real, finish, exp_less_##real, mix_##real, add_##real, scale_##real, dots_##real}
const nx__attention_rows NX_AT_LEVEL(nx__attention_rows)[2] = {ROWS(float), ROWS(double)};
