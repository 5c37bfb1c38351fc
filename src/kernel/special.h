/* special: functions of one or two elements beyond those of element.h, for the generated loops; ops/prim.op names them.
 * They branch and call, so that loops over them stay scalar, and exist once, at level base; of some there is a form for
 * floats without (OWN; element.h, special_float.h). Each computes in double by a series, a continued fraction or a trapezoid
 * sum that converges to its last digits; the other float forms round that. */
#ifndef NX_KERNEL_SPECIAL_H
#define NX_KERNEL_SPECIAL_H

#include "kernel/special_float.h"

#define NX__SPECIAL1(name)                 \
    double nx__value_##name(double x);    \
    static inline float nx__value_##name##f(float x) { return (float)nx__value_##name(x); }
#define NX__SPECIAL1_OWN(name) \
    double nx__value_##name(double x); \
    NX_ELEMENT float nx__value_##name##f(float x) { return nx_element_##name##f(x); }
#define NX__SPECIAL2(name)                           \
    double nx__value_##name(double a, double b);    \
    static inline float nx__value_##name##f(float a, float b) { return (float)nx__value_##name(a, b); }

/* ---- the gamma function and its kin, the error function and its kin */
NX__SPECIAL1_OWN(lgamma) /* of |gamma(x)| */
NX__SPECIAL1(digamma)
NX__SPECIAL2(zeta)      /* Hurwitz's, of x and q */
NX__SPECIAL1_OWN(trigamma) /* digamma's derivative */
NX__SPECIAL2(polygamma)    /* of order n, a whole number >= 0, at x */
NX__SPECIAL2(igamma)    /* the lower regularised incomplete gamma function of a at x; igammac the upper one */
NX__SPECIAL2(igammac)
NX__SPECIAL1(erfcx) /* e^(x^2) erfc(x) */
NX__SPECIAL1(log_ndtr)

/* ---- Bessel functions and others */
NX__SPECIAL1_OWN(i0)
NX__SPECIAL1_OWN(i0e) /* e^-|x| i0(x) */
NX__SPECIAL1_OWN(i1)
NX__SPECIAL1_OWN(i1e)
#define NX__SPECIAL_WAVE(name)                                                                          \
    NX__SPECIAL1_OWN(name)                                                                              \
    NX_ELEMENT float nx__value_##name##_nearf(float x) { return nx_element_##name##_nearf(x); }         \
    static inline double nx__value_##name##_near(double x) { return nx__value_##name(x); }
NX__SPECIAL_WAVE(j0)
NX__SPECIAL_WAVE(j1)
NX__SPECIAL_WAVE(y0)
NX__SPECIAL_WAVE(y1)
#undef NX__SPECIAL_WAVE
NX__SPECIAL1(k0)
NX__SPECIAL1(k0e) /* e^x k0(x) */
NX__SPECIAL1(k1)
NX__SPECIAL1(k1e)
NX__SPECIAL1(airy)
/* Polynomials of degree n, cut to a whole number, at x; 0 below degree 0. */
NX__SPECIAL2(chebyshev_t)
NX__SPECIAL2(chebyshev_u)
NX__SPECIAL2(chebyshev_v)
NX__SPECIAL2(chebyshev_w)
NX__SPECIAL2(hermite_h)
NX__SPECIAL2(hermite_he)
NX__SPECIAL2(laguerre)
NX__SPECIAL2(legendre)
#undef NX__SPECIAL1
#undef NX__SPECIAL1_OWN
#undef NX__SPECIAL2

/* Of whole numbers, never negative; 0 beside 0. */
int64_t nx__value_gcd(int64_t a, int64_t b);
int64_t nx__value_lcm(int64_t a, int64_t b);

#endif
