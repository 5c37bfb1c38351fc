/* element: functions of one element, for the generated loops and for kernels; ops/prim.op names them. They have no
 * branches and call nothing, so that loops over them become vectors, and give the same bits alone and in a vector.
 * Where the C library has the function too, float32 and float64 are within 3 units in the last place of it (erfc: 7),
 * at every value, infinities, NaN and subnormal numbers as there (tests/unit/kernel/test_element.c). The polynomials
 * are minimax fits in the range that each one names.
 * NX_FUSED: whether the instruction-set level that is compiled has fused multiply-add; see gen/meson.build. */
#ifndef NX_KERNEL_ELEMENT_H
#define NX_KERNEL_ELEMENT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Always: a call in a loop would keep it from becoming vectors. */
#define NX_ELEMENT static inline __attribute__((always_inline))

NX_ELEMENT float nx__float_of(uint32_t bits) { return (union { uint32_t u; float f; }){.u = bits}.f; }
NX_ELEMENT uint32_t nx__bits_of(float x) { return (union { float f; uint32_t u; }){.f = x}.u; }
NX_ELEMENT double nx__double_of(uint64_t bits) { return (union { uint64_t u; double f; }){.u = bits}.f; }
NX_ELEMENT uint64_t nx__long_bits_of(double x) { return (union { double f; uint64_t u; }){.f = x}.u; }
NX_ELEMENT float nx__fmaf(float a, float b, float c) { return NX_FUSED ? __builtin_fmaf(a, b, c) : a * b + c; }
/* Rounded once (all but): for what a rounding left behind. */
NX_ELEMENT float nx__exactf(float a, float b, float c) { return NX_FUSED ? __builtin_fmaf(a, b, c) : (float)((double)a * b + c); }
NX_ELEMENT double nx__fma(double a, double b, double c) { return NX_FUSED ? __builtin_fma(a, b, c) : a * b + c; }

/* A number added to these is rounded to an integer, which then stands in the lowest bits. */
#define NX__ROUNDERF 0x1.8p23f
#define NX__ROUNDER 0x1.8p52

/* 2^n for n in -1022 .. 1023, 0 for one less. */
NX_ELEMENT double nx__power_of_two(double n) {
    return nx__double_of((nx__long_bits_of(n + NX__ROUNDER) << 52) + 0x3ff0000000000000);
}

/* Bounds of operands, as variables (bounds.c): of a number that it knows GCC 12 makes a comparison and a choice, of another
 * one instruction. NaN stays: the operand is chosen unless it is known to lie beyond. */
extern const struct nx__bounds {
    float exp_low, exp_high, sigmoid_low, sigmoid_high, tanh_high, erf_high, bell_low;
    double long_exp_low, long_exp_high;
} nx__bounds;
NX_ELEMENT float nx__at_leastf(float x, float low) { return x < low ? low : x; }
NX_ELEMENT float nx__at_mostf(float x, float high) { return x > high ? high : x; }

/* ---- exp: 2^n e^r with |r| <= ln(2)/2 ------------------------------------------------------------------- */
/* e^r - 1. */
NX_ELEMENT float nx__exp_restf(float r) {
    float p = nx__fmaf(r, 0x1.6a2448p-10f, 0x1.1239d4p-7f);
    p = nx__fmaf(p, r, 0x1.5558f2p-5f);
    p = nx__fmaf(p, r, 0x1.555492p-3f);
    p = nx__fmaf(p, r, 0x1.fffffcp-2f);
    return nx__fmaf(p, r * r, r);
}
/* e^r. */
NX_ELEMENT float nx__exp_wholef(float r) {
    float p = nx__fmaf(r, 0x1.6a2448p-10f, 0x1.1239d4p-7f);
    p = nx__fmaf(p, r, 0x1.5558f2p-5f);
    p = nx__fmaf(p, r, 0x1.555492p-3f);
    p = nx__fmaf(p, r, 0x1.fffffcp-2f);
    return nx__fmaf(nx__fmaf(p, r, 1), r, 1);
}
/* e^x = 2^n e^result. The rounder may have an integer added, which the lowest bits of `rounded` have then too:
 * with the exponents' bias 127 they are 2^n once they stand where exponents do. */
NX_ELEMENT float nx__exp_reducef(float x, float rounder, uint32_t *rounded) {
    float t = nx__fmaf(x, 0x1.715476p+0f, rounder), n = t - rounder;
    *rounded = nx__bits_of(t);
    return nx__fmaf(n, -0x1.7f7d1cp-20f, nx__fmaf(n, -0x1.62e4p-1f, x)); /* n*0x1.62e4p-1 is exact */
}
/* e^x = 2^n (1 + result). */
NX_ELEMENT float nx__exp_partsf(float x, float rounder, uint32_t *rounded) {
    return nx__exp_restf(nx__exp_reducef(x, rounder, rounded));
}
/* The same in double, and of x + tail, where x is the larger by far: the exponents' bias is 1023. */
NX_ELEMENT double nx__exp_reduce(double x, double tail, double rounder, uint64_t *rounded) {
    double t = nx__fma(x, 0x1.71547652b82fep+0, rounder), n = t - rounder;
    *rounded = nx__long_bits_of(t);
    return nx__fma(n, -0x1.cf79abc9e3b39p-40, nx__fma(n, -0x1.62e42fefap-1, x)) + tail; /* n*0x1.62e42fefap-1 is exact */
}
NX_ELEMENT double nx__exp_series(double r) {
    double p = nx__fma(r, 0x1.af85f766ee2b5p-26, 0x1.28b0a77c7ad7bp-22);
    p = nx__fma(p, r, 0x1.71dddf88600bp-19);
    p = nx__fma(p, r, 0x1.a019963024d72p-16);
    p = nx__fma(p, r, 0x1.a01a01bafeedep-13);
    p = nx__fma(p, r, 0x1.6c16c185cb2p-10);
    p = nx__fma(p, r, 0x1.111111110d5ebp-7);
    p = nx__fma(p, r, 0x1.555555554ff9p-5);
    p = nx__fma(p, r, 0x1.5555555555561p-3);
    return nx__fma(p, r, 0x1.000000000000cp-1);
}
NX_ELEMENT double nx__exp_rest(double r) { return nx__fma(nx__exp_series(r), r * r, r); }
NX_ELEMENT double nx__exp_parts(double x, double rounder, uint64_t *rounded) {
    return nx__exp_rest(nx__exp_reduce(x, 0, rounder, rounded));
}

/* In two steps, so that what overflows or is subnormal is rounded once: the halves of n + 254 stand where exponents do.
 * Far below, where a half is 0, the result is an exact 0 and no underflow: that costs a processor hundreds of cycles,
 * and rows of a softmax are full of -inf. */
NX_ELEMENT float nx_element_expf(float x) {
    uint32_t n;
    x = nx__at_leastf(nx__at_mostf(x, nx__bounds.exp_high), nx__bounds.exp_low);
    float p = nx__exp_wholef(nx__exp_reducef(x, NX__ROUNDERF + 254, &n));
    uint32_t half = n >> 1 << 23;
    return p * nx__float_of(half) * nx__float_of((n << 23) - half);
}
/* y 2^n, in two steps; the lowest bits of `rounded` are n + 2046. */
NX_ELEMENT double nx__scale(double y, uint64_t rounded) {
    uint64_t half = rounded >> 1 << 52;
    return y * nx__double_of(half) * nx__double_of((rounded << 52) - half);
}
NX_ELEMENT double nx_element_exp(double x) {
    uint64_t n;
    x = x > nx__bounds.long_exp_high ? nx__bounds.long_exp_high : x;
    x = x < nx__bounds.long_exp_low ? nx__bounds.long_exp_low : x;
    double r = nx__exp_reduce(x, 0, NX__ROUNDER + 2046, &n);
    return nx__scale(nx__fma(nx__fma(nx__exp_series(r), r, 1), r, 1), n);
}

/* ---- log: x = 2^e (1 + f) with 1 + f in sqrt(1/2) .. sqrt(2) ---------------------------------------------- */
/* log(1 + f) + e low, without f */
NX_ELEMENT float nx__log_restf(float x, float low, float *e, float *of) {
    bool small = x < 0x1p-126f;
    uint32_t bits = nx__bits_of(small ? x * 0x1p25f : x);
    int32_t exponent = (int32_t)(bits - 0x3f3504f3) >> 23;
    float f = nx__float_of(bits - ((uint32_t)exponent << 23)) - 1;
    float p = nx__fmaf(f, -0x1.38b4ccp-4f, 0x1.055b46p-3f), square = f * f;
    *e = (float)exponent - (small ? 25 : 0);
    p = nx__fmaf(p, f, -0x1.0d8552p-3f);
    p = nx__fmaf(p, f, 0x1.22da22p-3f);
    p = nx__fmaf(p, f, -0x1.547244p-3f);
    p = nx__fmaf(p, f, 0x1.99a008p-3f);
    p = nx__fmaf(p, f, -0x1.000228p-2f);
    p = nx__fmaf(p, f, 0x1.555554p-2f);
    p = nx__fmaf(p, square * f, *e * low);
    *of = f;
    return nx__fmaf(square, -0.5f, p);
}
NX_ELEMENT float nx__log_partsf(float x, float low, float *e) {
    float f, rest = nx__log_restf(x, low, e, &f);
    return f + rest;
}
/* What a logarithm y of a positive finite x is for all x. */
NX_ELEMENT float nx__log_everywheref(float x, float y) {
    y = x < 0 ? NAN : y;
    y = x == 0 ? -INFINITY : y;
    return x < INFINITY ? y : x; /* NaN stays */
}
NX_ELEMENT float nx_element_logf(float x) {
    float e, rest = nx__log_partsf(x, 0x1.7f7d1cp-20f, &e);
    return nx__log_everywheref(x, nx__fmaf(e, 0x1.62e4p-1f, rest));
}
/* log2 of a positive x, within 2^-45. */
NX_ELEMENT double nx__log2f(float x) {
    bool small = x < 0x1p-126f;
    uint32_t bits = nx__bits_of(small ? x * 0x1p25f : x);
    int32_t exponent = (int32_t)(bits - 0x3f3504f3) >> 23;
    double m = nx__float_of(bits - ((uint32_t)exponent << 23)), s = (m - 1) / (m + 1), z = s * s;
    double p = nx__fma(z, 1. / 19, 1. / 17);
    p = nx__fma(p, z, 1. / 15);
    p = nx__fma(p, z, 1. / 13);
    p = nx__fma(p, z, 1. / 11);
    p = nx__fma(p, z, 1. / 9);
    p = nx__fma(p, z, 1. / 7);
    p = nx__fma(p, z, 1. / 5);
    p = nx__fma(p, z, 1. / 3);
    p = nx__fma(p, z, 1);
    double y = nx__fma(p * s, 0x1.71547652b82fep+1, (double)exponent - (small ? 25 : 0));
    y = x == 0 ? -INFINITY : y;
    return x < INFINITY ? y : x;
}

/* The factors 1/log(2), 1/log(10) and log(2)/log(10) in two numbers each. Where products are rounded before they are added, that
 * is not enough for the last place. */
NX_ELEMENT float nx_element_log2f(float x) {
    if (!NX_FUSED) return nx__log_everywheref(x, (float)nx__log2f(x));
    float e, f, rest = nx__log_restf(x, 0, &e, &f);
    return nx__log_everywheref(x, nx__fmaf(f, 0x1.715476p+0f, nx__fmaf(rest, 0x1.715476p+0f, f * 0x1.4ae0cp-26f)) + e);
}
NX_ELEMENT float nx_element_log10f(float x) {
    if (!NX_FUSED) return nx__log_everywheref(x, (float)(nx__log2f(x) * 0x1.34413509f79ffp-2));
    float e, f, rest = nx__log_restf(x, 0, &e, &f);
    float low = nx__fmaf(rest, 0x1.bcb7b2p-2f, nx__fmaf(f, -0x1.5b235ep-27f, e * 0x1.3509f8p-18f));
    return nx__log_everywheref(x, nx__fmaf(e, 0x1.344p-2f, nx__fmaf(f, 0x1.bcb7b2p-2f, low)));
}
NX_ELEMENT double nx_element_log(double x) {
    bool small = x < 0x1p-1022;
    uint64_t bits = nx__long_bits_of(small ? x * 0x1p54 : x) - 0x3fe6a09e667f3bcd + (UINT64_C(1024) << 52);
    double e = nx__double_of(bits >> 52 | 0x4330000000000000) - (0x1p52 + 1024) - (small ? 54 : 0);
    double f = nx__double_of((bits & 0xfffffffffffff) + 0x3fe6a09e667f3bcd) - 1;
    double s = f / (2 + f), z = s * s, half = 0.5 * f * f; /* log(1 + f) = 2 atanh(s) */
    double p = nx__fma(z, 2. / 25, 2. / 23);
    p = nx__fma(p, z, 2. / 21);
    p = nx__fma(p, z, 2. / 19);
    p = nx__fma(p, z, 2. / 17);
    p = nx__fma(p, z, 2. / 15);
    p = nx__fma(p, z, 2. / 13);
    p = nx__fma(p, z, 2. / 11);
    p = nx__fma(p, z, 2. / 9);
    p = nx__fma(p, z, 2. / 7);
    p = nx__fma(p, z, 2. / 5);
    p = nx__fma(p, z, 2. / 3) * z;
    double low = nx__fma(s, half + p, e * 0x1.cf79abc9e3b39p-40);
    double y = nx__fma(e, 0x1.62e42fefap-1, f - (half - low));
    y = x < 0 ? NAN : y;
    y = x == 0 ? -INFINITY : y;
    return x < INFINITY ? y : x;
}

/* ---- tanh: m/(m + 1) with m = (e^2|x| - 1)/2, which loses nothing near 0; elsewhere 1 - 1/(m + 1) -------------- */
NX_ELEMENT float nx_element_tanhf(float x) {
    uint32_t n;
    float a = fabsf(x);
    float p = nx__exp_partsf(2 * nx__at_mostf(a, nx__bounds.tanh_high), NX__ROUNDERF + 126, &n), half = nx__float_of(n << 23);
    float m = nx__fmaf(half, p, half - 0.5f), q = 1 / (m + 1);
    return copysignf(m < 0.8f ? nx__fmaf(-m, m * q, m) : 1 - q, x); /* as m - m tanh: the rounding of q counts less */
}
NX_ELEMENT double nx_element_tanh(double x) {
    uint64_t n;
    double twice = 2 * fabs(x), p = nx__exp_parts(twice > 40 ? 40 : twice, NX__ROUNDER + 1023, &n), scale = nx__double_of(n << 52);
    double less_one = nx__fma(scale, p, scale - 1);
    return copysign(less_one / (less_one + 2), x);
}

/* ---- erf: a polynomial in x^2 up to 0.93, then 1 - e^-q(|x|) ------------------------------------------------ */
NX_ELEMENT float nx_element_erff(float x) {
    uint32_t n;
    float a = fabsf(x), z = x * x;
    float near = nx__fmaf(z, 0x1.5cd64ep-14f, -0x1.aa3fc0p-11f);
    near = nx__fmaf(near, z, 0x1.54c808p-8f);
    near = nx__fmaf(near, z, -0x1.b80e94p-6f);
    near = nx__fmaf(near, z, 0x1.ce2e0ap-4f);
    near = nx__fmaf(near, z, -0x1.812742p-2f);
    near = nx__fmaf(near, z, 0x1.06eba8p-3f);
    near = nx__fmaf(near, x, x);
    a = nx__at_mostf(a, nx__bounds.erf_high); /* 1 in float from there on */
    float q = nx__fmaf(a, 0x1.78dd98p-17f, -0x1.527c6cp-12f);
    q = nx__fmaf(q, a, 0x1.dd6cdap-9f);
    q = nx__fmaf(q, a, -0x1.85515ep-6f);
    q = nx__fmaf(q, a, 0x1.b32574p-4f);
    q = nx__fmaf(q, a, 0x1.45328ep-1f);
    q = nx__fmaf(q, a, 0x1.0778dcp-3f);
    float p = nx__exp_partsf(nx__fmaf(q, -a, -a), NX__ROUNDERF + 127, &n), scale = nx__float_of(n << 23);
    float far = copysignf(1 - nx__fmaf(scale, p, scale), x);
    return a > 0.93f ? far : near;
}

/* ---- erfinv of floats: x p(w) with w = -log(1 - x^2); beyond 5 a polynomial in its root, beyond 16.7, where ndtri alone comes, another.
 * e^(y^2) of the derivative magnifies what is lost, so what the last steps round off is added: `rest` of w, of its root, of p. */
NX_ELEMENT float nx__erfinv_near(float w, float *rest) {
    float p = nx__fmaf(w, -0x1.333982p-27f, 0x1.e1fed4p-23f);
    p = nx__fmaf(p, w, -0x1.0d9f76p-19f);
    p = nx__fmaf(p, w, 0x1.16726p-18f);
    p = nx__fmaf(p, w, 0x1.71abap-15f);
    p = nx__fmaf(p, w, -0x1.098198p-13f);
    p = nx__fmaf(p, w, -0x1.32136ep-9f);
    p = nx__fmaf(p, w, 0x1.7a70dap-7f);
    p = nx__exactf(p, w, 0x1.db2a04p-3f);
    float last = p * w, y = last + 0x1.c5bf8ap-1f;
    *rest = ((0x1.c5bf8ap-1f - y) + last) + nx__exactf(p, w, -last) + nx__fmaf(p, *rest, -0x1.eb0106p-26f);
    return y;
}
NX_ELEMENT float nx__erfinv_far(float w, float *rest) {
    float root = sqrtf(w), t = root - 3.125f;
    float half = nx__fmaf(nx__fmaf(t, 0.0164f, -0.0512f), t, 0.16f); /* of 1/root, to two digits */
    float p = nx__fmaf(t, 0x1.eb499cp-14f, -0x1.79e20ap-13f);
    p = nx__fmaf(p, t, -0x1.3e9a52p-12f);
    p = nx__fmaf(p, t, 0x1.5a1346p-10f);
    p = nx__fmaf(p, t, -0x1.4bbcfep-9f);
    p = nx__fmaf(p, t, 0x1.ef1adcp-9f);
    p = nx__fmaf(p, t, -0x1.5b4ap-8f);
    p = nx__fmaf(p, t, 0x1.ce019ap-8f);
    p = nx__exactf(p, t, 0x1.00f3b4p+0f);
    float last = p * t, y = last + 0x1.7aaa3cp+1f;
    *rest = ((0x1.7aaa3cp+1f - y) + last) + nx__exactf(p, t, -last) + nx__fmaf(nx__exactf(-root, root, w) + *rest, half, -0x1.6247aep-26f);
    return y;
}
NX_ELEMENT float nx_element_erfinvf(float x) {
    float a = fabsf(x), e, tail = nx__log_partsf((1 - a) * (1 + a), 0x1.7f7d1cp-20f, &e);
    float w = -nx__fmaf(e, 0x1.62e4p-1f, tail), near_rest = (-e * 0x1.62e4p-1f - w) - tail, far_rest = near_rest;
    float near = nx__erfinv_near(w, &near_rest), far = nx__erfinv_far(w, &far_rest);
    float p = w < 5 ? near : far, rest = w < 5 ? near_rest : far_rest, y = a * p;
    y += nx__exactf(a, p, -y) + a * rest;
    y = a < 1 ? y : NAN;
    return copysignf(a == 1 ? INFINITY : y, x);
}
/* Beyond 16.7. */
NX_ELEMENT float nx__erfinv_tail(float w) {
    float t = sqrtf(w) - 0x1.c8b714p+2f, p = nx__fmaf(t, -0x1.8d7932p-24f, 0x1.e0056p-22f);
    p = nx__fmaf(p, t, -0x1.daa924p-21f);
    p = nx__fmaf(p, t, 0x1.06a2c4p-18f);
    p = nx__fmaf(p, t, 0x1.f41e5cp-18f);
    p = nx__fmaf(p, t, -0x1.0a0188p-11f);
    p = nx__fmaf(p, t, 0x1.022a52p+0f);
    return nx__fmaf(p, t, 0x1.c0681cp+2f);
}
/* The number below which a normal one lies with the chance p: less the root of 2 times erfinv(1 - 2p). */
NX_ELEMENT float nx_element_ndtrif(float p) {
    float rest = 0, w = -nx_element_logf(4 * p * (1 - p)), q = nx__erfinv_tail(w);
    q = w < 16.7f ? nx__erfinv_far(w, &rest) : q;
    q = w < 5 ? nx__erfinv_near(w, &rest) : q;
    float y = (2 * p - 1) * (0x1.6a09e6p+0f * q);
    return p == 0 ? -INFINITY : p == 1 ? INFINITY : y;
}

/* ---- erfc: e^(-x^2) t p(t) with t = 1/(1 + 0.4|x|), the square and what of it is no power of 2 in double; from 2 below 0 -- */
NX_ELEMENT float nx_element_erfcf(float x) {
    float a = nx__at_mostf(fabsf(x), 11), whole = 1 / nx__fmaf(a, 0.4f, 1), t = whole - 0.6f;
    float p = nx__fmaf(t, -0x1.33091p-6f, -0x1.0c87e6p-5f);
    double square = (double)a * a, turns = square * -0x1.71547652b82fep+0 + NX__ROUNDER, n = turns - NX__ROUNDER;
    float e = nx__exp_wholef((float)(-square - n * 0x1.62e42fefa39efp-1));
    p = nx__fmaf(p, t, 0x1.7392cp-5f);
    p = nx__fmaf(p, t, 0x1.1b93ep-4f);
    p = nx__fmaf(p, t, -0x1.6e98b4p-4f);
    p = nx__fmaf(p, t, -0x1.61fa7p-3f);
    p = nx__fmaf(p, t, 0x1.c4e4ccp-4f);
    p = nx__fmaf(p, t, 0x1.370cp-1f);
    p = nx__fmaf(p, t, 0x1.ccf458p-1f);
    p = nx__fmaf(p, t, 0x1.9cb66ep-1f);
    p = nx__fmaf(p, t, 0x1.f9a9fap-2f);
    float y = (float)((double)(p * whole) * e * nx__power_of_two(n)); /* a subnormal number is rounded once */
    y = x < 0 ? 2 - y : y;
    return x == x ? y : x;
}

/* ---- phi, the chance that a normal number is smaller: e^(-x^2/2) p(1/(1 + 0.33|x|)), from the other side above 0 -- */
NX_ELEMENT float nx_element_bellf(float x) { /* e^(-x^2/2), 0 instead of subnormal numbers */
    uint32_t n;
    float y = -0.5f * x * x;
    float p = nx__exp_partsf(nx__at_leastf(y, nx__bounds.bell_low), NX__ROUNDERF + 127, &n), scale = nx__float_of(n << 23);
    return nx__fmaf(scale, p, scale);
}
NX_ELEMENT double nx_element_bell(double x) { return nx_element_exp(-0.5 * x * x); }
NX_ELEMENT float nx_element_phif(float x) {
    float t = 1 / nx__fmaf(fabsf(x), 0.33f, 1) - 0.625f, p = nx__fmaf(t, 0x1.8a5286p-5f, -0x1.7a0148p-6f);
    p = nx__fmaf(p, t, -0x1.f5154cp-4f);
    p = nx__fmaf(p, t, 0x1.5dfcaap-5f);
    p = nx__fmaf(p, t, 0x1.abd50ap-2f);
    p = nx__fmaf(p, t, 0x1.4a0aaep-1f);
    p = nx__fmaf(p, t, 0x1.1ad04cp-1f);
    p = nx__fmaf(p, t, 0x1.712a18p-3f);
    float below = p * nx_element_bellf(x);
    return x < 0 ? below : 1 - below; /* NaN is its own */
}

/* ---- sin, cos: |x| = m 2^k, of whose product with 2/pi the bits that count are multiplied as integers --------- */
NX_ELEMENT uint64_t nx__choose(int32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e) {
    uint32_t low = at == 0 ? a : b, high = at == 3 ? d : e;
    return at < 2 ? low : at == 2 ? c : high;
}
/* x is the result plus a multiple of pi/2, whose lowest bits stand in *quadrant; |result| <= pi/4. */
NX_ELEMENT double nx__quadrant(float a, uint32_t *quadrant) {
    int32_t exponent = (int32_t)(nx__bits_of(a) >> 23), place = (exponent < 126 ? 126 : exponent) - 120;
    int32_t word = place >> 5, shift = place & 31; /* 32 zeros, then 2/pi */
    uint64_t w = nx__choose(word, 0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0) << 32 |
                 nx__choose(word, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599);
    uint64_t v = nx__choose(word, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041) << 32 |
                 nx__choose(word, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab);
    uint64_t m = (nx__bits_of(a) & 0x7fffff) | 0x800000, high = w << shift | v >> 1 >> (63 - shift);
    uint64_t turns = m * high + (m * (v << shift >> 32) >> 32), n = (turns + (UINT64_C(1) << 61)) >> 62;
    double r = (double)(int64_t)(turns - (n << 62)) * 0x1.921fb54442d18p-62;
    *quadrant = a < 0.5f ? 0 : (uint32_t)n;
    return a < 0.5f ? a : r;
}
NX_ELEMENT float nx__quadrantf(float a, uint32_t *quadrant) { return (float)nx__quadrant(a, quadrant); }
/* The same up to 10^6: pi/2 in two parts, of which the first has 33 bits, so that its products are exact. */
NX_ELEMENT double nx__turned(float a, uint32_t *quadrant) {
    double t = a * 0x1.45f306dc9c883p-1 + NX__ROUNDER, n = t - NX__ROUNDER;
    *quadrant = (uint32_t)nx__long_bits_of(t);
    return (a - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;
}
/* And in floats, pi/2 in three parts: the product with the first leaves an exact difference. */
NX_ELEMENT float nx__near_quadrantf(float a, uint32_t *quadrant) {
    float t = nx__fmaf(a, 0x1.45f306p-1f, NX__ROUNDERF), n = t - NX__ROUNDERF;
    float r = nx__fmaf(n, 0x1.ee59dap-50f, nx__fmaf(n, 0x1.777a5cp-25f, nx__fmaf(n, -0x1.921fb6p+0f, a)));
    uint32_t turns;
    double wide = nx__turned(a, &turns);
    *quadrant = NX_FUSED ? nx__bits_of(t) : turns;
    return NX_FUSED ? r : (float)wide;
}
NX_ELEMENT float nx__sine(float r, uint32_t quadrant) {
    float z = r * r, s = nx__fmaf(z, 0x1.6cd1f4p-19f, -0x1.a00f8p-13f), c = nx__fmaf(z, -0x1.241e9cp-22f, 0x1.a010dep-16f);
    s = nx__fmaf(s, z, 0x1.111108p-7f);
    s = nx__fmaf(s, z, -0x1.555556p-3f);
    s = nx__fmaf(s * z, r, r);
    c = nx__fmaf(c, z, -0x1.6c16b8p-10f);
    c = nx__fmaf(c, z, 0x1.555556p-5f);
    c = nx__fmaf(c, z * z, nx__fmaf(z, -0.5f, 1));
    float y = quadrant & 1 ? c : s;
    return quadrant & 2 ? -y : y;
}
NX_ELEMENT float nx_element_sin_nearf(float x) {
    uint32_t quadrant;
    float r = nx__near_quadrantf(fabsf(x), &quadrant);
    return nx__float_of(nx__bits_of(nx__sine(r, quadrant)) ^ (nx__bits_of(x) & 0x80000000));
}
NX_ELEMENT float nx_element_cos_nearf(float x) {
    uint32_t quadrant;
    float r = nx__near_quadrantf(fabsf(x), &quadrant);
    return nx__sine(r, quadrant + 1);
}
NX_ELEMENT float nx_element_sinf(float x) {
    uint32_t quadrant;
    float a = fabsf(x), r = nx__quadrantf(a, &quadrant), y = nx__sine(r, quadrant), near = nx_element_sin_nearf(x);
    y = nx__bits_of(x) >> 31 ? -y : y;
    y = a <= 1e6f ? near : y;
    return a < INFINITY ? y : NAN;
}
NX_ELEMENT float nx_element_cosf(float x) {
    uint32_t quadrant;
    float a = fabsf(x), r = nx__quadrantf(a, &quadrant), y = nx__sine(r, quadrant + 1), near = nx_element_cos_nearf(x);
    y = a <= 1e6f ? near : y;
    return a < INFINITY ? y : NAN;
}
/* r + r^3 p(r^2), or less its inverse. */
NX_ELEMENT float nx__tangent(float r, uint32_t quadrant) {
    float z = r * r, p = nx__fmaf(z, 0x1.1fd114p-8f, 0x1.0618fcp-14f);
    p = nx__fmaf(p, z, 0x1.63a16ep-7f);
    p = nx__fmaf(p, z, 0x1.5c9ce0p-6f);
    p = nx__fmaf(p, z, 0x1.badc8cp-5f);
    p = nx__fmaf(p, z, 0x1.110d94p-3f);
    p = nx__fmaf(p, z, 0x1.555560p-2f);
    float y = nx__fmaf(z * r, p, r);
    return quadrant & 1 ? -1 / y : y;
}
NX_ELEMENT float nx_element_tan_nearf(float x) {
    uint32_t quadrant;
    float r = nx__near_quadrantf(fabsf(x), &quadrant), y = nx__tangent(r, quadrant);
    return x == 0 ? x : nx__float_of(nx__bits_of(y) ^ (nx__bits_of(x) & 0x80000000));
}
NX_ELEMENT float nx_element_tanf(float x) {
    uint32_t quadrant;
    float a = fabsf(x), near = nx_element_tan_nearf(x), r = nx__quadrantf(a, &quadrant), y = nx__tangent(r, quadrant);
    y = a <= 1e6f ? near : copysignf(1, x) * y;
    return a < INFINITY ? y : NAN;
}

/* ---- expm1 = 2^n (e^r - 1) + (2^n - 1); half of it, so that 2^n stays a number. Near 0 the first factor alone ------------ */
NX_ELEMENT float nx_element_expm1f(float x) {
    uint32_t n;
    float p = nx__exp_partsf(nx__at_leastf(nx__at_mostf(x, nx__bounds.exp_high), -30), NX__ROUNDERF + 126, &n);
    float half = nx__float_of(n << 23), y = 2 * nx__fmaf(half, p, half - 0.5f);
    y = fabsf(x) < 0.3f ? p : y;
    return x == 0 ? x : y;
}
NX_ELEMENT double nx_element_expm1(double x) {
    uint64_t n;
    double p = nx__exp_parts(x > 710 ? 710 : x < -50 ? -50 : x, NX__ROUNDER + 1022, &n), half = nx__double_of(n << 52);
    double y = 2 * nx__fma(half, p, half - 0.5);
    y = fabs(x) < 0.3 ? p : y;
    return x == 0 ? x : y;
}

/* ---- log1p: what 1 + x loses is added to its logarithm ------------------------------------------------------------------ */
#define NX_DEFINE_LOG1P(real, f)                                              \
    NX_ELEMENT real nx_element_log1p##f(real x) {                             \
        real sum = 1 + x, lost = x < 1 ? x - (sum - 1) : 1 - (sum - x);       \
        real y = nx_element_log##f(sum) + lost / (sum == 0 ? 1 : sum);        \
        y = x < INFINITY ? y : x;                                             \
        return x == 0 ? x : y;                                                \
    }
NX_DEFINE_LOG1P(float, f)
NX_DEFINE_LOG1P(double, )
#undef NX_DEFINE_LOG1P

/* ---- softplus = log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x| <= 1. With s = u/(2 + u) that logarithm is 2 atanh(s), or
 * u - s (u - 2 (atanh(s)/s - 1)), in which errors of s count less ---------------------------------------------------------- */
NX_ELEMENT float nx_element_softplusf(float x) {
    float u = nx_element_expf(-fabsf(x)), s = u / (2 + u), z = s * s;
    float p = nx__fmaf(z, 0x1.dbef9ep-3f, 0x1.bc7bdcp-3f);
    p = nx__fmaf(p, z, 0x1.24c9bep-2f);
    p = nx__fmaf(p, z, 0x1.9998d2p-2f);
    p = nx__fmaf(p, z, 0x1.555556p-1f);
    return (x > 0 ? x : 0) + nx__fmaf(-s, nx__fmaf(-p, z, u), u);
}
NX_ELEMENT double nx_element_softplus(double x) { return (x > 0 ? x : 0) + nx_element_log1p(nx_element_exp(-fabs(x))); }

/* ---- sinh, cosh by u = (e^|x| - 1)/2, its half, so that 2^n stays a number; atanh by halves of log((1 + a)/(1 - a)) -------- */
NX_ELEMENT float nx_element_sinhf(float x) {
    uint32_t n;
    float a = fabsf(x), p = nx__exp_partsf(nx__at_mostf(a, 89.5f), NX__ROUNDERF + 125, &n), quarter = nx__float_of(n << 23);
    float u = 2 * nx__fmaf(quarter, p, quarter - 0.25f), y = u + u / nx__fmaf(u, 2, 1);
    return copysignf(a > 20 ? u : y, x);
}
NX_ELEMENT float nx_element_coshf(float x) {
    uint32_t n;
    float p = nx__exp_partsf(nx__at_mostf(fabsf(x), 89.5f), NX__ROUNDERF + 125, &n), quarter = nx__float_of(n << 23);
    float half = 2 * nx__fmaf(quarter, p, quarter);
    return half + 0.25f / half;
}
/* (1 + a)/(1 - a) = 2^e q with q in 0.5 .. 2; log(q) = 2 atanh(s). Below 1/3 s is a itself. */
NX_ELEMENT float nx_element_atanhf(float x) {
    float a = fabsf(x), rest = 1 - a;
    int32_t e = a < 0.33333334f ? 0 : 127 - (int32_t)(nx__bits_of(rest) >> 23);
    double d = (1 - (double)a) * nx__double_of((uint64_t)(1023 + e) << 52), up = 1 + (double)a;
    double s = a < 0.33333334f ? a : (up - d) / (up + d), z = s * s, p = nx__fma(z, 1. / 19, 1. / 17);
    p = nx__fma(p, z, 1. / 15);
    p = nx__fma(p, z, 1. / 13);
    p = nx__fma(p, z, 1. / 11);
    p = nx__fma(p, z, 1. / 9);
    p = nx__fma(p, z, 1. / 7);
    p = nx__fma(p, z, 1. / 5);
    p = nx__fma(p, z, 1. / 3);
    float y = (float)nx__fma(p * z, s, nx__fma((double)e, 0x1.62e42fefa39efp-2, s));
    y = a < 1 ? y : a == 1 ? INFINITY : NAN;
    return copysignf(y, x);
}

/* ---- round, floor, ceil, trunc: a number added and taken away leaves the nearest whole one; what is larger is whole ---- */
#define NX_DEFINE_ROUNDING(real, f, whole)                                                          \
    NX_ELEMENT real nx__nearest##f(real x) { return (x + copysign##f(whole, x)) - copysign##f(whole, x); } \
    NX_ELEMENT real nx__rounded##f(real x, real y) { return fabs##f(x) < whole ? copysign##f(y, x) : x; }  \
    NX_ELEMENT real nx_element_round##f(real x) {                                                   \
        return NX_FUSED ? __builtin_nearbyint##f(x) : nx__rounded##f(x, nx__nearest##f(x));         \
    }                                                                                               \
    NX_ELEMENT real nx_element_floor##f(real x) {                                                   \
        real y = nx__nearest##f(x);                                                                 \
        return NX_FUSED ? __builtin_floor##f(x) : nx__rounded##f(x, y - (y > x ? 1 : 0));           \
    }                                                                                               \
    NX_ELEMENT real nx_element_ceil##f(real x) {                                                    \
        real y = nx__nearest##f(x);                                                                 \
        return NX_FUSED ? __builtin_ceil##f(x) : nx__rounded##f(x, y + (y < x ? 1 : 0));            \
    }                                                                                               \
    NX_ELEMENT real nx_element_trunc##f(real x) {                                                   \
        real a = fabs##f(x), y = nx__nearest##f(a);                                                 \
        return NX_FUSED ? __builtin_trunc##f(x) : nx__rounded##f(x, y - (y > a ? 1 : 0));           \
    }
NX_DEFINE_ROUNDING(float, f, 0x1p23f)
NX_DEFINE_ROUNDING(double, , 0x1p52)
#undef NX_DEFINE_ROUNDING

/* ---- angles of floats, in double: of the point (x, y) in the first eighth, in the one beside it and in the rest ---------- */
NX_ELEMENT double nx__angle(double y, double x) { /* of 0 <= x, y, not both 0 or infinite */
    bool steep = y > 2.414213562373095 * x, middle = y > 0.4142135623730951 * x;
    double over = steep ? -x : middle ? y - x : y, under = steep ? y : middle ? y + x : x;
    double base = steep ? 0x1.921fb54442d18p+0 : middle ? 0x1.921fb54442d18p-1 : 0;
    double t = over / under, z = t * t, p = nx__fma(z, 1. / 21, -1. / 19);
    p = nx__fma(p, z, 1. / 17);
    p = nx__fma(p, z, -1. / 15);
    p = nx__fma(p, z, 1. / 13);
    p = nx__fma(p, z, -1. / 11);
    p = nx__fma(p, z, 1. / 9);
    p = nx__fma(p, z, -1. / 7);
    p = nx__fma(p, z, 1. / 5);
    p = nx__fma(p, z, -1. / 3);
    return base + nx__fma(p * z, t, t);
}
/* In float: beyond 1 of 1/|x|, from the other side of the quarter. */
NX_ELEMENT float nx_element_atanf(float x) {
    float a = fabsf(x), t = a > 1 ? -1 / a : a, z = t * t, p = nx__fmaf(z, -0x1.df03b4p-10f, 0x1.6a923cp-7f);
    p = nx__fmaf(p, z, -0x1.01b0bap-5f);
    p = nx__fmaf(p, z, 0x1.dd1p-5f);
    p = nx__fmaf(p, z, -0x1.58dcccp-4f);
    p = nx__fmaf(p, z, 0x1.c0d2a2p-4f);
    p = nx__fmaf(p, z, -0x1.2426fcp-3f);
    p = nx__fmaf(p, z, 0x1.999276p-3f);
    p = nx__fmaf(p, z, -0x1.555540p-2f);
    p = nx__fmaf(p * z, t, a > 1 ? -0x1.777a5cp-25f : 0) + t;
    return copysignf(a > 1 ? 0x1.921fb6p+0f + p : p, x);
}
NX_ELEMENT float nx_element_atan2f(float y, float x) {
    float a = fabsf(y), b = fabsf(x);
    bool same = (a == b) & ((a == 0) | (a == INFINITY));
    double angle = nx__angle(same ? a != 0 : a, same ? 1 : b);
    angle = nx__bits_of(x) >> 31 ? 0x1.921fb54442d18p+1 - angle : angle;
    return copysignf((float)angle, y);
}
/* The arc of a sine up to a half; beyond, that of the root of what half of 1 - |x| is, twice, from a quarter. */
NX_ELEMENT float nx__arcf(float a, float z) {
    float p = nx__fmaf(z, 0x1.33bc3p-5f, 0x1.d7f0dap-7f);
    p = nx__fmaf(p, z, 0x1.04a674p-5f);
    p = nx__fmaf(p, z, 0x1.6cac38p-5f);
    p = nx__fmaf(p, z, 0x1.33388ep-4f);
    p = nx__fmaf(p, z, 0x1.55554cp-3f);
    return nx__fmaf(p * z, a, a);
}
NX_ELEMENT float nx_element_asinf(float x) {
    float a = fabsf(x), half = 0.5f - 0.5f * a, z = a > 0.5f ? half : a * a, y = nx__arcf(a > 0.5f ? sqrtf(half) : a, z);
    return copysignf(a > 0.5f ? nx__fmaf(y, -2, -0x1.777a5cp-25f) + 0x1.921fb6p+0f : y, x);
}
NX_ELEMENT float nx_element_acosf(float x) {
    float a = fabsf(x), half = 0.5f - 0.5f * a, z = a > 0.5f ? half : a * a, y = nx__arcf(a > 0.5f ? sqrtf(half) : a, z);
    float far = x < 0 ? nx__fmaf(y, -2, 0x1.921fb6p+1f) : 2 * y;
    return a > 0.5f ? far : 0x1.921fb6p+0f - (copysignf(y, x) + 0x1.777a5cp-25f);
}

/* ---- others -------------------------------------------------------------------------------------------- */
/* 1/(1 + e^-x) with halves of both terms, so that 2^n stays a number until 1/2^n is subnormal. */
NX_ELEMENT float nx_element_sigmoidf(float x) {
    uint32_t n;
    x = nx__at_leastf(nx__at_mostf(x, nx__bounds.sigmoid_high), nx__bounds.sigmoid_low);
    float p = nx__exp_wholef(nx__exp_reducef(-x, NX__ROUNDERF + 126, &n));
    return 0.5f / nx__fmaf(nx__float_of(n << 23), p, 0.5f);
}
NX_ELEMENT double nx_element_sigmoid(double x) { return 1 / (1 + nx_element_exp(-x)); }
NX_ELEMENT float nx_element_rsqrtf(float x) { return 1 / sqrtf(x); }
NX_ELEMENT double nx_element_rsqrt(double x) { return 1 / sqrt(x); }

/* The larger and the smaller of two, the first NaN if there is one, b if they are equal. Chosen by their bits: where two
 * follow each other, conditions would be threaded into branches, which do not become vectors. */
NX_ELEMENT float nx__bits_choosef(bool first, float a, float b) {
    uint32_t mask = -(uint32_t)first;
    return nx__float_of((nx__bits_of(a) & mask) | (nx__bits_of(b) & ~mask));
}
NX_ELEMENT double nx__bits_choose(bool first, double a, double b) {
    uint64_t mask = -(uint64_t)first;
    return nx__double_of((nx__long_bits_of(a) & mask) | (nx__long_bits_of(b) & ~mask));
}
NX_ELEMENT float nx_largerf(float a, float b) { return nx__bits_choosef((a > b) | (a != a), a, b); }
NX_ELEMENT double nx_larger(double a, double b) { return nx__bits_choose((a > b) | (a != a), a, b); }
NX_ELEMENT float nx_smallerf(float a, float b) { return nx__bits_choosef((a < b) | (a != a), a, b); }
NX_ELEMENT double nx_smaller(double a, double b) { return nx__bits_choose((a < b) | (a != a), a, b); }

NX_ELEMENT float nx_element_hypotf(float x, float y) {
    float a = fabsf(x), b = fabsf(y), root = (float)sqrt((double)a * a + (double)b * b);
    return (a == INFINITY) | (b == INFINITY) ? INFINITY : root;
}

/* The number beside x towards y: bits count up away from 0. */
#define NX_DEFINE_NEXT(real, f, bits_of, of, unsigned, top)                                                                 \
    NX_ELEMENT real nx_element_nextafter##f(real x, real y) {                                                               \
        unsigned bits = bits_of(x), away = (x < y) == (x > 0) ? 1 : -(unsigned)1;                                           \
        bits = x == 0 ? (bits_of(y) & top) | 1 : bits + away;                                                               \
        real next = x == y ? y : of(bits);                                                                                  \
        return (x == x) & (y == y) ? next : x + y;                                                                          \
    }
NX_DEFINE_NEXT(float, f, nx__bits_of, nx__float_of, uint32_t, UINT32_C(0x80000000))
NX_DEFINE_NEXT(double, , nx__long_bits_of, nx__double_of, uint64_t, UINT64_C(0x8000000000000000))
#undef NX_DEFINE_NEXT

/* 2^x = 2^n e^(r ln 2), in two steps as exp. */
NX_ELEMENT float nx_element_exp2f(float x) {
    float a = nx__at_leastf(nx__at_mostf(x, 129), -254), t = a + (NX__ROUNDERF + 254), n = t - (NX__ROUNDERF + 254);
    float p = nx__exp_wholef((a - n) * 0x1.62e43p-1f);
    uint32_t bits = nx__bits_of(t), half = bits >> 1 << 23;
    return p * nx__float_of(half) * nx__float_of((bits << 23) - half);
}

/* 2^(e log2 |x|) in double. An odd integer e keeps the sign; with another e a negative x has no power. */
NX_ELEMENT float nx_element_powf(float x, float e) {
    float a = fabsf(x);
    double p = (double)e * nx__log2f(a);
    p = p > 200 ? 200 : p;
    p = p < -200 ? -200 : p;
    double n = (p + NX__ROUNDER) - NX__ROUNDER, r = (p - n) * 0x1.62e42fefa39efp-1;
    double y = nx__fma(r, 1. / 3628800, 1. / 362880);
    y = nx__fma(y, r, 1. / 40320);
    y = nx__fma(y, r, 1. / 5040);
    y = nx__fma(y, r, 1. / 720);
    y = nx__fma(y, r, 1. / 120);
    y = nx__fma(y, r, 1. / 24);
    y = nx__fma(y, r, 1. / 6);
    y = nx__fma(y, r, 0.5);
    y = nx__fma(y, r * r, r);
    double scale = nx__power_of_two(n);
    float power = (float)nx__fma(scale, y, scale);
    /* Sign and NaN by arithmetic: a choice by a fixed exponent would keep the loop from becoming vectors. */
    double half = 0.5 * e;
    float rest = (float)(e - (((double)e + NX__ROUNDER) - NX__ROUNDER));
    float odd = 2 * (float)(half - ((half + NX__ROUNDER) - NX__ROUNDER)), nan_if_rest = sqrtf(-fabsf(rest));
    float sign = rest == 0 ? 1 - 2 * odd * odd : 1;
    power = a == 1 ? 1 : power; /* whatever e */
    float negative = (a < INFINITY ? power + nan_if_rest : power) * sign;
    negative = x == 0 ? power * sign : negative;
    negative = nx__bits_of(x) >> 31 ? negative : power;
    power = fabsf(e) < 0x1p25f ? negative : power; /* beyond, all are even */
    power = x != x ? x : power;
    power = e != e ? e : power;
    power = e == 0 ? 1 : power;
    return x == 1 ? 1 : power;
}

/* Quotients rounded to a whole number, towards 0 or down, and what they leave: fmod has the sign of a, remainder that
 * of b. The division itself is exact up to fmod, so that a quotient just below a whole number is not rounded up. Of floats
 * whose quotient is below 2^28 what is left is exact in double, without a call: nx__fmod_nearf, where nx_divides_nearf. Of
 * doubles whose quotient is below 2^52 it is exact, too, by a fused step: a multiple of b's last place, no larger than b. */
NX_ELEMENT bool nx_divides_nearf(float a, float b) {
    return (fabsf(a) <= fabsf(b) * 0x1p28f) & (b != 0) & (fabsf(b) < INFINITY);
}
NX_ELEMENT bool nx_divides_near(double a, double b) {
    return NX_FUSED && ((fabs(a) <= fabs(b) * 0x1p52) & (b != 0) & (fabs(b) < INFINITY));
}
NX_ELEMENT double nx__fmod_near(double a, double b) {
    double x = fabs(a), y = fabs(b), left = nx__fma(-nx_element_trunc(x / y), y, x); /* the quotient may be one too large */
    return copysign(left < 0 ? left + y : left, a);
}
NX_ELEMENT float nx__fmod_nearf(float a, float b) {
    double x = fabsf(a), y = fabsf(b), left = x - nx_element_trunc(x / y) * y; /* the quotient may be one too large */
    return copysignf((float)(left < 0 ? left + y : left), a);
}
#define NX_DEFINE_DIVISIONS(real, f, of, left_by)                                              \
    NX_ELEMENT real nx_remainder##of(real a, real b) {                                         \
        real left = left_by(a, b);                                                             \
        return (left != 0) & ((b < 0) != (left < 0)) ? left + b : left;                        \
    }                                                                                          \
    NX_ELEMENT real nx_floordiv##of(real a, real b) {                                          \
        real left = left_by(a, b), whole = (a - left) / b, quotient = a / b;                   \
        whole -= (left != 0) & ((b < 0) != (left < 0)) ? 1 : 0;                                \
        real down = nx_element_floor##f(whole);                                                \
        down += whole - down > (real)0.5 ? 1 : 0;                                              \
        down = whole == 0 ? copysign##f(0, quotient) : down;                                   \
        return b == 0 ? quotient : down;                                                       \
    }
NX_ELEMENT double nx_truncdiv(double a, double b) { return nx_element_trunc(a / b); }
NX_ELEMENT float nx_truncdivf(float a, float b) { return nx_element_truncf(a / b); }
NX_ELEMENT double nx_fmod(double a, double b) { return fmod(a, b); }
NX_ELEMENT float nx_fmodf(float a, float b) { return fmodf(a, b); }
NX_ELEMENT float nx_fmod_nearf(float a, float b) { return nx__fmod_nearf(a, b); }
NX_ELEMENT double nx_fmod_near(double a, double b) { return nx__fmod_near(a, b); }
NX_DEFINE_DIVISIONS(double, , , fmod)
NX_DEFINE_DIVISIONS(double, , _near, nx__fmod_near)
NX_DEFINE_DIVISIONS(float, f, f, fmodf)
NX_DEFINE_DIVISIONS(float, f, _nearf, nx__fmod_nearf)
#undef NX_DEFINE_DIVISIONS
/* Of integers. Where b is 0 the kernel has failed before; -1 is taken apart because INT64_MIN / -1 traps. */
NX_ELEMENT int64_t nx_int_truncdiv(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
NX_ELEMENT int64_t nx_int_fmod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
NX_ELEMENT int64_t nx_int_remainder(int64_t a, int64_t b) {
    int64_t left = nx_int_fmod(a, b);
    return left != 0 && (b < 0) != (left < 0) ? left + b : left;
}
NX_ELEMENT int64_t nx_int_floordiv(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return nx_int_truncdiv(a, b);
    int64_t whole = a / b;
    return whole - ((whole * b != a) & ((a < 0) != (b < 0)));
}
/* By as many places as there are or more, or by a negative number: all bits go. */
NX_ELEMENT int64_t nx_int_shift_left(int64_t a, int64_t by, int bits) {
    return by < 0 || by >= bits ? 0 : (int64_t)((uint64_t)a << by);
}
NX_ELEMENT int64_t nx_int_shift_right(int64_t a, int64_t by, int bits) {
    return a >> (by < 0 || by >= bits ? 63 : by);
}

/* x to the power e, wrapping. A negative power of anything but 1 and -1 is 0. */
NX_ELEMENT int64_t nx_int_pow(int64_t base, int64_t e) {
    uint64_t x = (uint64_t)base, y = 1;
    if (e < 0) return base == 1 ? 1 : base == -1 ? (e % 2 ? -1 : 1) : 0;
    for (; e; e >>= 1, x *= x)
        if (e & 1) y *= x;
    return (int64_t)y;
}

#include "kernel/double.h"

#endif
