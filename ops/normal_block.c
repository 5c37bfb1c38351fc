/* Blocks of sixteen uniform numbers into sixteen normal ones (Box-Muller), in float32 with the bits that
 * PyTorch's AVX2 kernel has: Cephes' polynomials (Stephen Moshier; known in this form from sse_mathfun, zlib
 * licence) and a fixed pattern of fused multiply-adds, which must be fused at every level, whatever the
 * processor has. Numbers 0..7 of a block give the radius, 8..15 the angle. Compiled once a level with
 * NX_LEVEL_NAME set; random.c calls it. */
#include "normal_block.h"

#include <math.h>

#define NX_PASTE_(a, b) a##_##b
#define NX_PASTE(a, b) NX_PASTE_(a, b)
#define NX_AT_LEVEL(name) NX_PASTE(name, NX_LEVEL_NAME)

typedef union bits { float f; uint32_t u; int32_t i; } bits;
static inline float from_bits(uint32_t u) { return (bits){.u = u}.f; }

/* x in (0, 1] */
static inline float block_log(float x) {
    static const uint32_t c[] = {0xbdebd1b8, 0x3def251a, 0xbdfe5d4f, 0x3e11e9bf,
                                 0xbe2aae50, 0x3e4cceac, 0xbe7ffffc, 0x3eaaaaaa};
    bits b = {.f = x};
    float e = (float)((int32_t)(b.u >> 23) - 126), m = from_bits((b.u & 0x7fffff) | 0x3f000000);
    bool low = m < from_bits(0x3f3504f3); /* sqrt(1/2) */
    float t = low ? (m - 1) + m : m - 1;
    e = low ? e - 1 : e;
    float z = t * t, y = from_bits(0x3d9021bb);
    for (int i = 0; i < NX_COUNT(c); i++) y = __builtin_fmaf(y, t, from_bits(c[i]));
    y = y * t;
    y = __builtin_fmaf(y, z, e * from_bits(0xb95e8083));
    y = y - 0.5f * z;
    return __builtin_fmaf(e, from_bits(0x3f318000), t + y);
}

/* theta in [0, 2 pi) */
static inline void block_sincos(float theta, float *sine, float *cosine) {
    int32_t j = ((int32_t)(theta * from_bits(0x3fa2f983)) + 1) & ~1;
    float y = (float)j;
    float x = __builtin_fmaf(y, from_bits(0xbf490000), theta);
    x = __builtin_fmaf(y, from_bits(0xb97da000), x);
    x = __builtin_fmaf(y, from_bits(0xb3222169), x);
    float z = x * x;
    float c = __builtin_fmaf(from_bits(0x37ccf5ce), z, from_bits(0xbab6061a));
    c = __builtin_fmaf(c, z, from_bits(0x3d2aaaa5));
    c = c * z;
    c = __builtin_fmaf(c, z, -(0.5f * z));
    c = c + 1;
    float s = __builtin_fmaf(from_bits(0xb94ca1f9), z, from_bits(0x3c08839e));
    s = __builtin_fmaf(s, z, from_bits(0xbe2aaaa3));
    s = s * z;
    s = __builtin_fmaf(s, x, x);
    *sine = j & 2 ? c : s;
    *cosine = j & 2 ? s : c;
    *sine = j & 4 ? -*sine : *sine;
    *cosine = (j - 2) & 4 ? *cosine : -*cosine;
}

void NX_AT_LEVEL(nx__normal_blocks)(float *x, int64_t n_blocks, float mean, float std) {
    for (; n_blocks > 0; n_blocks--, x += 16) {
        for (int i = 0; i < 8; i++) {
            float sine, cosine, radius = sqrtf(-2 * block_log(1 - x[i]));
            block_sincos(x[i + 8] * from_bits(0x40c90fdb), &sine, &cosine);
            x[i] = __builtin_fmaf(radius * cosine, std, mean);
            x[i + 8] = __builtin_fmaf(radius * sine, std, mean);
        }
    }
}
