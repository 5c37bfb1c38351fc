/* float16 by the instructions of x86's F16C, of which compilers make no vectors by themselves (half.h). */
#ifndef NX_BASE_HALF_F16C_H
#define NX_BASE_HALF_F16C_H

#include <immintrin.h>

enum { NX_F16_LANES = 8 };
static inline float nx_widen_one_f16(uint16_t h) { return _cvtsh_ss(h); }
static inline uint16_t nx_narrow_one_f16(float f) { return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT); }
static inline void nx__widen_lanes(float *to, const uint16_t *from) {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)));
}
static inline void nx__narrow_lanes(uint16_t *to, const float *from) {
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

#endif
