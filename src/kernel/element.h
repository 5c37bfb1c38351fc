/* element: functions of one element that the C library lacks, for the generated loops and for kernels. They have no
 * branches on data where that matters, so that loops over them become vectors, and give the same bits alone and in
 * a vector. ops/prim.op names them. */
#ifndef NX_KERNEL_ELEMENT_H
#define NX_KERNEL_ELEMENT_H

#include <math.h>
#include <stdint.h>

static inline float nx_rsqrtf(float x) { return 1 / sqrtf(x); }
static inline double nx_rsqrt(double x) { return 1 / sqrt(x); }
static inline float nx_sigmoidf(float x) { return 1 / (1 + expf(-x)); }
static inline double nx_sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* x to the power e, wrapping. The shape rule refuses negative exponents. */
static inline uint64_t nx_int_pow(uint64_t x, uint64_t e) {
    uint64_t y = 1;
    for (; e; e >>= 1, x *= x)
        if (e & 1) y *= x;
    return y;
}

#endif
