/* Blocks of sixteen uniform numbers into sixteen normal ones (Box-Muller), in float32 with the bits that
 * PyTorch's AVX2 kernel has: Cephes' polynomials (Stephen Moshier; known in this form from sse_mathfun, zlib
 * licence) and a fixed pattern of fused multiply-adds, which must be fused at every level, whatever the
 * processor has. Numbers 0..7 of a block give the radius, 8..15 the angle. Also drawn bits into uniform numbers of a
 * range. Compiled once a level with NX_LEVEL_NAME set; random.c calls it. */
#include "random_block.h"

#include <math.h>

#define UNROLL _Pragma("GCC unroll 8")

typedef union bits { float f; uint32_t u; int32_t i; } bits;
static inline float from_bits(uint32_t u) { return (bits){.u = u}.f; }
static inline uint32_t to_bits(float f) { return (bits){.f = f}.u; }

/* x in (0, 1] */
static inline float block_log(float x) {
    static const uint32_t c[] = {0xbdebd1b8, 0x3def251a, 0xbdfe5d4f, 0x3e11e9bf,
                                 0xbe2aae50, 0x3e4cceac, 0xbe7ffffc, 0x3eaaaaaa};
    bits b = {.f = x};
    float e = (float)((int32_t)(b.u >> 23) - 126), m = from_bits((b.u & 0x7fffff) | 0x3f000000);
    /* Below sqrt(1/2) 1, else 0: without a branch, which would keep the loop from becoming vectors. */
    float low = from_bits(-(uint32_t)(m < from_bits(0x3f3504f3)) & 0x3f800000);
    float t = (m - 1) + low * m;
    e = e - low;
    float z = t * t, y = from_bits(0x3d9021bb);
    UNROLL for (int i = 0; i < NX_COUNT(c); i++) y = __builtin_fmaf(y, t, from_bits(c[i]));
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
    uint32_t swap = -((uint32_t)j >> 1 & 1), both = to_bits(s) ^ to_bits(c);
    *sine = from_bits(to_bits(s) ^ (both & swap) ^ ((uint32_t)j & 4) << 29);
    *cosine = from_bits(to_bits(c) ^ (both & swap) ^ (~(uint32_t)(j - 2) & 4) << 29);
}

void NX_AT_LEVEL(nx__normal_blocks)(float *x, int64_t n_blocks, float mean, float std) {
    for (; n_blocks > 0; n_blocks--, x += 16) {
#pragma GCC ivdep
#pragma GCC unroll 1
        for (int i = 0; i < 8; i++) { /* stays a loop until it is turned into vectors */
            float sine, cosine, radius = sqrtf(-2 * block_log(1 - x[i]));
            block_sincos(x[i + 8] * from_bits(0x40c90fdb), &sine, &cosine);
            x[i] = __builtin_fmaf(radius * cosine, std, mean);
            x[i + 8] = __builtin_fmaf(radius * sine, std, mean);
        }
    }
}

void NX_AT_LEVEL(nx__uniform_block)(float *x, const uint32_t *bits, int64_t n, float low, float high) {
    const float range = high - low;
    for (int64_t i = 0; i < n; i++) {
        float y = __builtin_fmaf((float)(int32_t)(bits[i] & 0xffffff) * 0x1p-24f, range, low);
        x[i] = y == high ? low : y;
    }
}
