/* The half types in bits, so that no instruction set is needed and loops over them become vectors; float16 also as a level does
 * it best, many at once (NX_HALVES, from meson.build: half_bits.h, half_f16c.h, half_avx512.h). */
#ifndef NX_BASE_HALF_H
#define NX_BASE_HALF_H

#include <stdint.h>

typedef union nx_half_bits { float f; uint32_t u; } nx_half_bits;

/* The exponent is re-biased by a multiplication, which also makes subnormal halves right. */
static inline float nx_load_f16(uint16_t h) {
    nx_half_bits x = {.u = (uint32_t)(h & 0x7fff) << 13}, scale = {.u = 0x77800000}; /* 2^112 */
    x.f *= scale.f;
    x.u = (h & 0x7c00) == 0x7c00 ? (uint32_t)(h & 0x7fff) << 13 | 0x7f800000 : x.u;
    x.u |= (uint32_t)(h & 0x8000) << 16;
    return x.f;
}

/* To nearest, ties to even; a NaN is the quiet one. */
static inline uint16_t nx_store_f16(float f) {
    nx_half_bits x = {.f = f};
    uint32_t sign = x.u >> 16 & 0x8000, a = x.u & 0x7fffffff;
    nx_half_bits small = {.u = a};
    small.f += 0.5f; /* its last place is then the subnormal halves' */
    uint32_t normal = (a + 0xc8000fff + (a >> 13 & 1)) >> 13;
    uint32_t h = a > 0x7f800000 ? 0x7e00 : 0x7c00;
    h = a < 0x47800000 ? normal : h;
    h = a < 0x38800000 ? small.u - 0x3f000000 : h;
    return (uint16_t)(sign | h);
}

/* NX_F16_LANES; nx__widen_lanes, nx__narrow_lanes: so many numbers; nx_widen_one_f16, nx_narrow_one_f16: one alone, in the same
 * way, so that a NaN has the same bits. */
#include NX_HALVES

/* n numbers side by side. Of a local array whose length is known they stay in registers. */
static inline void nx_widen_f16(float *to, const uint16_t *from, int64_t n) {
    int64_t i = 0;
    for (; i + NX_F16_LANES <= n; i += NX_F16_LANES) nx__widen_lanes(to + i, from + i);
    for (; i < n; i++) to[i] = nx_widen_one_f16(from[i]);
}

static inline void nx_narrow_f16(uint16_t *to, const float *from, int64_t n) {
    int64_t i = 0;
    for (; i + NX_F16_LANES <= n; i += NX_F16_LANES) nx__narrow_lanes(to + i, from + i);
    for (; i < n; i++) to[i] = nx_narrow_one_f16(from[i]);
}

/* The upper half of a float. */
static inline float nx_load_bf16(uint16_t h) { return (nx_half_bits){.u = (uint32_t)h << 16}.f; }

static inline uint16_t nx_store_bf16(float f) {
    nx_half_bits x = {.f = f};
    uint32_t rounded = (x.u + 0x7fff + (x.u >> 16 & 1)) >> 16;
    return (uint16_t)((x.u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

/* Of a float that is a bfloat16 already. */
static inline uint16_t nx_keep_bf16(float f) { return (uint16_t)((nx_half_bits){.f = f}.u >> 16); }

/* The number of a half type beside x towards y: bits count up away from 0. */
#define NX_DEFINE_NEXT_HALF(half)                                                                                       \
    static inline float nx_next_##half##f(float x, float y) {                                                           \
        uint32_t bits = nx_store_##half(x), away = (x < y) == (x > 0) ? 1 : -(uint32_t)1;                               \
        bits = x == 0 ? ((nx_half_bits){.f = y}.u >> 16 & 0x8000) | 1 : bits + away;                                    \
        float next = x == y ? y : nx_load_##half((uint16_t)bits);                                                       \
        return (x == x) & (y == y) ? next : x + y;                                                                      \
    }
NX_DEFINE_NEXT_HALF(f16)
NX_DEFINE_NEXT_HALF(bf16)
#undef NX_DEFINE_NEXT_HALF

#endif
