/* float16 to float32 and back by the instructions of x86's F16C, eight at a time, of which compilers make no vectors by
 * themselves. As nx__cast_fn; a number alone takes the same instruction, so that a NaN has the same bits. */
#include <immintrin.h>

#include "iter/private.h"

void NX_AT_LEVEL(nx__widen_f16)(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) {
    if (to_step == sizeof(float) && from_step == sizeof(uint16_t)) {
        for (; n >= 8; n -= 8, to += 8 * sizeof(float), from += 8 * sizeof(uint16_t)) {
            _mm256_storeu_ps((float *)to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)));
        }
    }
    for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) *(float *)to = _cvtsh_ss(*(const uint16_t *)from);
}

void NX_AT_LEVEL(nx__narrow_f16)(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) {
    enum { TO_NEAREST = _MM_FROUND_TO_NEAREST_INT };
    if (to_step == sizeof(uint16_t) && from_step == sizeof(float)) {
        for (; n >= 8; n -= 8, to += 8 * sizeof(uint16_t), from += 8 * sizeof(float)) {
            _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(_mm256_loadu_ps((const float *)from), TO_NEAREST));
        }
    }
    for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) {
        *(uint16_t *)to = _cvtss_sh(*(const float *)from, TO_NEAREST);
    }
}
