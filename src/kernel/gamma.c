/* The gamma function, its logarithm's derivatives, its incomplete forms; the complement of the error function and its
 * inverse. Declared in special.h, which says what they are of; each comment here names the expansion. */
#include "kernel/special.h"

#include <math.h>

#include "kernel/kernel.h"

static const double pi = 3.14159265358979323846;

/* lgamma() of the C library writes a global sign; this one's sign stays here. */
double nx__value_lgamma(double x) {
    int sign;
    return isinf(x) ? INFINITY : lgamma_r(x, &sign);
}

/* B(2k)/(2k)! for k from 1: the terms of the sum of Euler and Maclaurin. */
static const double bernoulli[] = {
    1. / 12, -1. / 720, 1. / 30240, -1. / 1209600, 1. / 47900160, -691. / 1307674368000, 1. / 74724249600,
    -3617. / 10670622842880000, 43867. / 5109094217170944000, -174611. / 802857662698291200000.,
};
enum { N_BERNOULLI = 10 };

/* The sum of (q + k)^-x: 12 terms and the rest by Euler and Maclaurin, whose terms fall by (q + 12)^2 each. */
double nx__value_zeta(double x, double q) {
    if (x == 1) return INFINITY;
    if (!(x > 1)) return NAN;
    if (q <= 0 && q == floor(q)) return INFINITY;
    if (q <= 0 && x != floor(x)) return NAN;
    double sum = 0, a = q;
    for (int k = 0; k < 12 || a < 12; k++, a++) {
        double term = pow(a, -x);
        sum += term;
        if (a > 0 && fabs(term) < fabs(sum) * 1e-17) return sum;
    }
    double power = pow(a, -x), factor = x / a;
    sum += a * power / (x - 1) + power / 2;
    for (int k = 0; k < N_BERNOULLI; k++) {
        double term = bernoulli[k] * factor * power;
        sum += term;
        if (fabs(term) < fabs(sum) * 1e-17) break;
        factor *= (x + 2 * k + 1) * (x + 2 * k + 2) / (a * a);
    }
    return sum;
}

/* Stirling's series from 10 on, the recurrence below, the reflection under 0. */
double nx__value_digamma(double x) {
    static const double series[] = {1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760, 1. / 12};
    if (x == 0) return copysign(INFINITY, -x);
    if (x < 0) {
        if (x == floor(x)) return NAN;
        double rest = x - trunc(x);
        return nx__value_digamma(1 - x) - pi / tan(pi * rest);
    }
    double sum = 0;
    for (; x < 10; x++) sum -= 1 / x;
    if (x == INFINITY) return INFINITY;
    double z = 1 / (x * x), y = 0;
    for (int k = 6; k >= 0; k--) y = (y + series[k]) * z;
    return sum + log(x) - 0.5 / x - y;
}

/* The sum of 1/(x + k)^2, for x > 0: the recurrence up to 10, then the derivative of digamma's series. */
static double trigamma(double x) {
    static const double series[] = {1. / 6, -1. / 30, 1. / 42, -1. / 30, 5. / 66, -691. / 2730, 7. / 6};
    double sum = 0;
    for (; x < 10; x++) sum += 1 / (x * x);
    double z = 1 / (x * x), y = 0;
    for (int k = 6; k >= 0; k--) y = (y + series[k]) * z;
    return sum + (1 + y) / x + z / 2;
}

/* By zeta: (-1)^(n+1) n! zeta(n + 1, x); below 0 the first derivative by reflection. */
double nx__value_polygamma(double n, double x) {
    if (n == 0) return nx__value_digamma(x);
    if (n == 1 && x < 0.5 && x != floor(x)) {
        double s = sin(pi * (x - round(x)));
        return pi * pi / (s * s) - trigamma(1 - x);
    }
    if (n == 1 && x > 0) return trigamma(x);
    double size = exp(nx__value_lgamma(n + 1)) * nx__value_zeta(n + 1, x);
    return fmod(n, 2) == 0 ? -size : size;
}

/* x^a e^-x / gamma(a + 1); near x = a by what the logarithm loses there, so that large ones keep their digits. */
static double gamma_density(double a, double x) {
    double d = (x - a) / a;
    if (a > 20 && fabs(d) < 0.4) { /* Stirling's series of gamma(a) */
        double z = 1 / (a * a), s = (1. / 12 + z * (-1. / 360 + z * (1. / 1260 - z / 1680))) / a;
        return exp(a * (log1p(d) - d) - s) / sqrt(2 * pi * a);
    }
    return exp(a * log(x) - x - nx__value_lgamma(a + 1));
}

/* Up to x = a + 1 the power series of the lower part, beyond it the continued fraction of the upper one, by Lentz. */
static double incomplete(double a, double x, int upper) {
    if (!(a >= 0) || !(x >= 0)) return NAN;
    if (a == 0) return x > 0 ? !upper : NAN;
    if (x == 0) return upper;
    if (a == INFINITY) return x == INFINITY ? NAN : upper;
    if (x == INFINITY) return !upper;
    double density = gamma_density(a, x);
    if (x <= a + 1) {
        double sum = 1, term = 1;
        for (int k = 1; k < 100000 && term > sum * 1e-17; k++) sum += term *= x / (a + k);
        sum *= density;
        return upper ? 1 - sum : sum;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int k = 1; k < 100000; k++) {
        double t = -k * (k - a);
        b += 2;
        d = t * d + b;
        c = b + t / c;
        d = 1 / (fabs(d) < 1e-300 ? 1e-300 : d);
        c = fabs(c) < 1e-300 ? 1e-300 : c;
        h *= d * c;
        if (fabs(d * c - 1) < 1e-16) break;
    }
    h *= density * a;
    return upper ? h : 1 - h;
}
double nx__value_igamma(double a, double x) { return incomplete(a, x, 0); }
double nx__value_igammac(double a, double x) { return incomplete(a, x, 1); }

/* Beyond 5 by its continued fraction, from the end. */
double nx__value_erfcx(double x) {
    if (x < 5) return x < -27 ? INFINITY : exp(x * x) * erfc(x);
    double f = 0;
    for (int k = 50; k > 0; k--) f = 0.5 * k / (x + f);
    return 0.5641895835477563 / (x + f);
}

/* The y >= 0 with erfc(y) = c, c in 0 .. 1: a start within 2 in 1000, then Halley's steps. */
static double erfc_inverse(double c) {
    double w = log(c * (2 - c)), h = 4.330746750799873 + w / 2, y = sqrt(sqrt(h * h - w * 6.802721088435375) - h);
    for (int k = 0; k < 4; k++) {
        double step = (1 - c / erfc(y)) * nx__value_erfcx(y) * 0.8862269254527580;
        y += step / (1 - y * step);
    }
    return y;
}
double nx__value_ndtri(double p) {
    if (!(p >= 0 && p <= 1)) return NAN;
    if (p == 0 || p == 1) return p == 0 ? -INFINITY : INFINITY;
    if (p == 0.5) return 0;
    return p < 0.5 ? -1.4142135623730951 * erfc_inverse(2 * p) : 1.4142135623730951 * erfc_inverse(2 * (1 - p));
}
double nx__value_log_ndtr(double x) {
    if (x < -1) return log(nx__value_erfcx(x * -0.7071067811865476) / 2) - x * x / 2;
    return log1p(-erfc(x * 0.7071067811865476) / 2);
}

/* The half type's number beside x: its bits count up away from 0. */
static double next_half(nx_dtype dtype, double x, double y) {
    if (x != x || y != y) return NAN;
    if (x == y) return y;
    float from = (float)x, out;
    uint16_t bits;
    nx_cast(dtype, (char *)&bits, 2, NX_F32, (const char *)&from, 4, 1);
    if (x == 0) bits = y < 0 ? 0x8001 : 1;
    else bits = (uint16_t)((x < y) == (x > 0) ? bits + 1 : bits - 1);
    nx_cast(NX_F32, (char *)&out, 4, dtype, (const char *)&bits, 2, 1);
    return out;
}
double nx__value_nextafter_f16(double x, double y) { return next_half(NX_F16, x, y); }
double nx__value_nextafter_bf16(double x, double y) { return next_half(NX_BF16, x, y); }

int64_t nx__value_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
    while (y != 0) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return (int64_t)x;
}
int64_t nx__value_lcm(int64_t a, int64_t b) {
    uint64_t g = (uint64_t)nx__value_gcd(a, b), x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
    return g == 0 ? 0 : (int64_t)(x / g * y);
}
