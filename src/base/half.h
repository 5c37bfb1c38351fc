/* The half types in bits, so that no instruction set is needed and loops over them become vectors. */
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

/* The upper half of a float. */
static inline float nx_load_bf16(uint16_t h) { return (nx_half_bits){.u = (uint32_t)h << 16}.f; }

static inline uint16_t nx_store_bf16(float f) {
    nx_half_bits x = {.f = f};
    uint32_t rounded = (x.u + 0x7fff + (x.u >> 16 & 1)) >> 16;
    return (uint16_t)((x.u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

#endif
