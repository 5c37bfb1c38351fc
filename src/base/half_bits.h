/* float16 in bits (half.h). */
#ifndef NX_BASE_HALF_BITS_H
#define NX_BASE_HALF_BITS_H

enum { NX_F16_LANES = 8 };
static inline float nx_widen_one_f16(uint16_t h) { return nx_load_f16(h); }
static inline uint16_t nx_narrow_one_f16(float f) { return nx_store_f16(f); }
static inline void nx__widen_lanes(float *to, const uint16_t *from) {
    for (int i = 0; i < NX_F16_LANES; i++) to[i] = nx_load_f16(from[i]);
}
static inline void nx__narrow_lanes(uint16_t *to, const float *from) {
    for (int i = 0; i < NX_F16_LANES; i++) to[i] = nx_store_f16(from[i]);
}

#endif
