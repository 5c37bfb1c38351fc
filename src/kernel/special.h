/* special: functions of one or two elements beyond those of element.h, for the generated loops; ops/prim.op names them.
 * They branch and call, so that loops over them stay scalar, and exist once, at level base; of some, element.h has a form
 * for floats without. Each computes in double by a series, a continued fraction or a trapezoid sum that converges to its
 * last digits; the float forms round that. */
#ifndef NX_KERNEL_SPECIAL_H
#define NX_KERNEL_SPECIAL_H

#include "kernel/element.h"

#define NX__SPECIAL1(name)                 \
    double nx__value_##name(double x);    \
    static inline float nx__value_##name##f(float x) { return (float)nx__value_##name(x); }
#define NX__SPECIAL2(name)                           \
    double nx__value_##name(double a, double b);    \
    static inline float nx__value_##name##f(float a, float b) { return (float)nx__value_##name(a, b); }

/* ---- the gamma function and its kin, the error function and its kin */
NX__SPECIAL1(lgamma) /* of |gamma(x)| */
NX__SPECIAL1(digamma)
NX__SPECIAL2(zeta)      /* Hurwitz's, of x and q */
NX__SPECIAL2(polygamma) /* of order n, a whole number >= 0, at x */
NX__SPECIAL2(igamma)    /* the lower regularised incomplete gamma function of a at x; igammac the upper one */
NX__SPECIAL2(igammac)
NX__SPECIAL1(erfcx) /* e^(x^2) erfc(x) */
double nx__value_ndtri(double x);
static inline float nx__value_ndtrif(float x) { return nx_element_ndtrif(x); }
NX__SPECIAL1(log_ndtr)
/* The number beside x towards y; of the half types as numbers that are held in float. */
NX__SPECIAL2(nextafter_f16)
NX__SPECIAL2(nextafter_bf16)

/* ---- Bessel functions and others */
NX__SPECIAL1(i0)
NX__SPECIAL1(i0e) /* e^-|x| i0(x) */
NX__SPECIAL1(i1)
NX__SPECIAL1(i1e)
NX__SPECIAL1(k0)
NX__SPECIAL1(k0e) /* e^x k0(x) */
NX__SPECIAL1(k1)
NX__SPECIAL1(k1e)
NX__SPECIAL1(airy)
NX__SPECIAL1(sphere_j0) /* sin(x)/x */
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
#undef NX__SPECIAL2

/* Of whole numbers, never negative; 0 beside 0. */
int64_t nx__value_gcd(int64_t a, int64_t b);
int64_t nx__value_lcm(int64_t a, int64_t b);

#endif
