/* arange and linspace of floating dtypes, with the bits of PyTorch's AVX2 kernels on one thread: products and sums are
 * rounded once at every level, whatever the processor has. Compiled once a level with NX_LEVEL_NAME set; spaced.c
 * calls it.
 * arange: vectors of 32 bytes, two at a time, begin at numbers that are rounded to the dtype, from which their lanes
 * count; what is left behind the last two counts from the start. float32 computes in float64, halves in float32; of bfloat16
 * the product of a lane is rounded, too.
 * linspace: from both ends, in the dtype; of halves each product and sum is rounded to one. */
#include "shape/spaced_rows.h"

#include <math.h>

#define SAME(x) (x)
/* real: as it is stored; wide: in which it computes. A lane's product is rounded for itself where `apart`. */
#define DEFINE_COUNT(name, real, wide, fused, apart, load, store)                                                 \
    static void count_##name(const nx__spaced *s, void *to, int64_t begin, int64_t end) {                         \
        enum { LANES = 32 / (int)sizeof(real) };                                                                  \
        const int64_t paired = s->n - s->n % (2 * LANES);                                                         \
        const wide first = (wide)s->first, step = (wide)s->step;                                                  \
        real *x = (real *)to - begin, numbers[LANES];                                                             \
        int64_t k = begin, last = end < paired ? end : paired;                                                    \
        while (k < last) {                                                                                        \
            const int64_t lane = k % LANES, n = last - k < LANES - lane ? last - k : LANES - lane;                \
            const wide from = (wide)load((real)store(fused(step, (wide)(k - lane), first)));                      \
            real *at = n == LANES ? x + k : numbers;                                                              \
            for (int l = 0; l < LANES; l++) {                                                                     \
                at[l] = (real)store(apart ? step * (wide)l + from : fused(step, (wide)l, from));                  \
            }                                                                                                     \
            for (int64_t l = 0; l < n && n < LANES; l++) x[k + l] = numbers[lane + l];                            \
            k += n;                                                                                               \
        }                                                                                                         \
        for (; k < end; k++) x[k] = (real)store(fused(step, (wide)k, first));                                     \
    }
DEFINE_COUNT(f32, float, double, __builtin_fma, false, SAME, SAME)
DEFINE_COUNT(f64, double, double, __builtin_fma, false, SAME, SAME)
DEFINE_COUNT(f16, uint16_t, float, __builtin_fmaf, false, nx_load_f16, nx_store_f16)
DEFINE_COUNT(bf16, uint16_t, float, __builtin_fmaf, true, nx_load_bf16, nx_store_bf16)

/* Places that fit 32 bits become vectors. */
#define DEFINE_BETWEEN(name, real, fused)                                                                         \
    static void between_##name(const nx__spaced *s, void *to, int64_t begin, int64_t end) {                       \
        const real first = (real)s->first, last = (real)s->last, step = (real)s->step;                            \
        const int64_t n = s->n, half = n / 2;                                                                     \
        real *x = (real *)to - begin;                                                                             \
        int64_t k = begin;                                                                                        \
        if (n > INT32_MAX) {                                                                                      \
            for (; k < end && k < half; k++) x[k] = fused(step, (real)k, first);                                  \
            for (; k < end; k++) x[k] = fused(-step, (real)(n - 1 - k), last);                                    \
            return;                                                                                               \
        }                                                                                                         \
        for (int32_t i = (int32_t)k; i < end && i < half; i++, k++) x[i] = fused(step, (real)i, first);           \
        for (int32_t i = (int32_t)k; i < end; i++) x[i] = fused(-step, (real)((int32_t)n - 1 - i), last);         \
    }
DEFINE_BETWEEN(f32, float, __builtin_fmaf)
DEFINE_BETWEEN(f64, double, __builtin_fma)

#define DEFINE_BETWEEN_HALVES(name)                                                                               \
    static float rounded_##name(float x) { return nx_load_##name(nx_store_##name(x)); }                           \
    static void between_##name(const nx__spaced *s, void *to, int64_t begin, int64_t end) {                       \
        const float first = (float)s->first, last = (float)s->last, step = (float)s->step;                        \
        uint16_t *x = to;                                                                                         \
        for (int64_t k = begin; k < end; k++) {                                                                   \
            bool front = k < s->n / 2;                                                                            \
            float part = rounded_##name(rounded_##name((float)(front ? k : s->n - 1 - k)) * step);                \
            x[k - begin] = nx_store_##name(front ? first + part : last - part);                                   \
        }                                                                                                         \
    }
DEFINE_BETWEEN_HALVES(f16)
DEFINE_BETWEEN_HALVES(bf16)

#define ROWS(name) {[NX_F16] = name##_f16, [NX_BF16] = name##_bf16, [NX_F32] = name##_f32, [NX_F64] = name##_f64}
const nx__spaced_rows NX_AT_LEVEL(nx__spaced_rows) = {.count = ROWS(count), .between = ROWS(between)};
