/* float16 as half_f16c.h, in vectors of 512 bits (half.h). */
#ifndef NX_BASE_HALF_AVX512_H
#define NX_BASE_HALF_AVX512_H

#include <immintrin.h>

enum { NX_F16_LANES = 16 };
static inline float nx_widen_one_f16(uint16_t h) { return _cvtsh_ss(h); }
static inline uint16_t nx_narrow_one_f16(float f) { return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT); }
static inline void nx__widen_lanes(float *to, const uint16_t *from) {
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from)));
}
static inline void nx__narrow_lanes(uint16_t *to, const float *from) {
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

#endif
