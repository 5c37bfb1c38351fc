/* float16 to float32 and back in bits, for processors without instructions that convert. As nx__cast_fn. */
#include "iter/private.h"

void NX_AT_LEVEL(nx__widen_f16)(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) {
    if (to_step == sizeof(float) && from_step == sizeof(uint16_t)) {
        float *t = (float *)to;
        const uint16_t *f = (const uint16_t *)from;
        for (int64_t i = 0; i < n; i++) t[i] = nx_load_f16(f[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) *(float *)to = nx_load_f16(*(const uint16_t *)from);
}

void NX_AT_LEVEL(nx__narrow_f16)(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) {
    if (to_step == sizeof(uint16_t) && from_step == sizeof(float)) {
        uint16_t *t = (uint16_t *)to;
        const float *f = (const float *)from;
        for (int64_t i = 0; i < n; i++) t[i] = nx_store_f16(f[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) *(uint16_t *)to = nx_store_f16(*(const float *)from);
}
