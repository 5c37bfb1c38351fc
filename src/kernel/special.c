/* The gamma function, its logarithm's derivatives, its incomplete forms; the complement of the error function and its
 * inverse; modified Bessel functions, Airy's function, orthogonal polynomials. Declared in special.h, which says what they
 * are of; each comment here names the expansion. */
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

double nx__value_trigamma(double x) {
    if (x >= 0.5) return trigamma(x);
    double s = sin(pi * (x - round(x)));
    return pi * pi / (s * s) - trigamma(1 - x);
}

/* By zeta: (-1)^(n+1) n! zeta(n + 1, x). */
double nx__value_polygamma(double n, double x) {
    if (n < 2) return n == 0 ? nx__value_digamma(x) : nx__value_trigamma(x);
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

double nx__value_log_ndtr(double x) {
    if (x < -1) return log(nx__value_erfcx(x * -0.7071067811865476) / 2) - x * x / 2;
    return log1p(-erfc(x * 0.7071067811865476) / 2);
}

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

/* ---- I of order n, 0 or 1: its power series, all of whose terms have one sign, up to 20; beyond, e^x/sqrt(2 pi x) times
 * the series in 1/x, whose terms fall below the last digit there ------------------------------------------------------ */
#define OVER_8(k) 1. / (k), 1. / ((k) + 1), 1. / ((k) + 2), 1. / ((k) + 3), 1. / ((k) + 4), 1. / ((k) + 5), 1. / ((k) + 6), 1. / ((k) + 7)
enum { N_OVER = 72 };
static const double over[N_OVER] = {OVER_8(1), OVER_8(9), OVER_8(17), OVER_8(25), OVER_8(33),
                                     OVER_8(41), OVER_8(49), OVER_8(57), OVER_8(65)};
static double i_series(int n, double x) {
    double z = x * x / 4, term = 1, sum = 1;
    for (int k = 1; term > sum * 1e-17 && k + n <= N_OVER; k++) sum += term *= z * (over[k - 1] * over[k + n - 1]);
    return n ? sum * x / 2 : sum;
}
static double i_far(int n, double x) {
    double term = 1, sum = 1;
    for (int k = 1; k < 40 && fabs(term) > 1e-17; k++) {
        double odd = 2 * k - 1;
        sum += term *= -(4 * n - odd * odd) / (8 * k * x);
    }
    return sum / sqrt(2 * pi * x);
}
static double i_scaled(int n, double x) {
    double a = fabs(x), y = a <= 20 ? i_series(n, a) * exp(-a) : a == INFINITY ? 0 : i_far(n, a);
    return n && x < 0 ? -y : y;
}
static double i_whole(int n, double x) {
    double a = fabs(x), y;
    if (a <= 20) y = i_series(n, a);
    else if (a == INFINITY) y = INFINITY;
    else y = i_far(n, a) * exp(a / 2) * exp(a / 2);
    return n && x < 0 ? -y : y;
}
double nx__value_i0(double x) { return x != x ? x : i_whole(0, x); }
double nx__value_i0e(double x) { return x != x ? x : i_scaled(0, x); }
double nx__value_i1(double x) { return x != x ? x : i_whole(1, x); }
double nx__value_i1e(double x) { return x != x ? x : i_scaled(1, x); }

double nx__value_j0(double x) { return j0(x); }
double nx__value_j1(double x) { return j1(x); }
double nx__value_y0(double x) { return y0(x); }
double nx__value_y1(double x) { return y1(x); }

/* ---- K of order v, times e^x: the integral of e^(-x(cosh t - 1)) cosh(vt), which the trapezoid sum with steps of 1/4
 * gives to the last digit, as the integrand falls doubly exponentially and is smooth ----------------------------------- */
static const double rises[] = { /* cosh(k/4) - 1 from k = 1 on, as far as a term counts at x = 2 */
    0.03141309987957318, 0.12762596520638078, 0.2946832846768447, 0.5430806348152438,
    0.8884238771610156, 1.3524096152432474, 1.9641883097280877, 2.762195691083631,
    3.7965675304601945, 5.132289479663686, 6.853279872697441, 9.067661995777764,
    11.914557062512394, 15.57282467105731, 20.272299872959394, 26.30823283601649,
};
enum { N_RISES = 16 };
static double k_scaled(double v, double x) {
    if (x == 0) return INFINITY;
    if (!(x > 0)) return NAN;
    if (x == INFINITY) return 0;
    double sum = 0.5, step = x > 7.8 ? 0.7 / sqrt(x) : 0.25; /* the peak narrows as 1/sqrt(x) */
    if ((v == 0 || v == 1) && x >= 2 && x <= 7.8) {
        double terms[N_RISES];
        for (int k = 0; k < N_RISES; k++) terms[k] = nx_element_exp(-x * rises[k]) * (v == 0 ? 1 : rises[k] + 1);
        for (int k = 0; k < N_RISES; k++) sum += terms[k];
        return sum * step;
    }
    for (int k = 1; k < 10000; k++) {
        double t = k * step, half = sinh(t / 2), term = exp(-2 * x * half * half) * cosh(v * t);
        sum += term;
        if (term < sum * 1e-18 && 2 * x * half * half > 1) break;
    }
    return sum * step;
}
/* Up to 2 the power series, whose logarithm belongs to I of that order: with the harmonic numbers of k and of k + n. */
static double k_series(int n, double x) {
    double z = x * x / 4, term = 1, harmonic = n, i = 1, rest = n;
    for (int k = 1; term > 1e-18 && k + n <= N_OVER; k++) {
        term *= z * (over[k - 1] * over[k + n - 1]);
        harmonic += n ? over[k - 1] + over[k] : over[k - 1];
        i += term;
        rest += term * harmonic;
    }
    double logarithm = log(x / 2) + 0.57721566490153286061;
    return n ? 1 / x + x / 2 * (logarithm * i - rest / 2) : rest - logarithm * i;
}
static double k_whole(int n, double x) { return x > 0 && x < 2 ? k_series(n, x) : k_scaled(n, x) * exp(-x); }
static double k_over(int n, double x) { return x > 0 && x < 2 ? k_series(n, x) * exp(x) : k_scaled(n, x); }
double nx__value_k0e(double x) { return k_over(0, x); }
double nx__value_k1e(double x) { return k_over(1, x); }
double nx__value_k0(double x) { return k_whole(0, x); }
double nx__value_k1(double x) { return k_whole(1, x); }

/* ---- Airy's function: K of order 1/3 above 1, its power series down to -8, the series in 1/z below ---------------------- */
static double airy_near(double x) {
    double cube = x * x * x, f = 1, g = x, sum_f = 1, sum_g = x;
    for (int k = 1; k < 200 && (fabs(f) > 1e-18 || fabs(g) > 1e-18); k++) {
        sum_f += f *= cube / ((3. * k - 1) * (3. * k));
        sum_g += g *= cube / ((3. * k) * (3. * k + 1));
    }
    return 0.355028053887817239260 * sum_f - 0.258819403792806798405 * sum_g;
}
static double airy_far(double a) { /* at -a */
    double z = 2. / 3 * a * sqrt(a), term = 1, even = 1, odd = 0;
    for (int k = 1; k < 30; k++) {
        double next = term * (6. * k - 5) * (6. * k - 3) * (6. * k - 1) / (216. * k * (2. * k - 1) * z);
        if (fabs(next) > fabs(term) || fabs(next) < 1e-18) break;
        term = next;
        double signed_term = k / 2 % 2 ? -term : term;
        if (k % 2) odd += signed_term;
        else even += signed_term;
    }
    return (sin(z + pi / 4) * even - cos(z + pi / 4) * odd) / (sqrt(pi) * sqrt(sqrt(a)));
}
double nx__value_airy(double x) {
    if (!isfinite(x)) return NAN;
    if (x < -8) return airy_far(-x);
    if (x < 1) return airy_near(x);
    double z = 2. / 3 * x * sqrt(x);
    return sqrt(x / 3) / pi * k_scaled(1. / 3, z) * exp(-z);
}

/* ---- polynomials: p(k+1) = (a + b x) p(k) - c p(k-1), from p(0) = 1 ------------------------------------------------------- */
enum { MOST = 1 << 20 }; /* a degree that nobody means: beyond it NaN, so that no call takes forever */

/* The four of Chebyshev, which differ in p(1): within -1 .. 1 by angles where the degree is large. */
static double chebyshev(double x, double degree, double first) {
    int64_t n = degree == degree && degree < MOST ? (int64_t)degree : MOST;
    double before = 1, p = first;
    if (degree < 0 && n < 0) return 0;
    if (n >= MOST) return NAN;
    if (n == 0) return 1;
    for (int64_t k = 1; k < n; k++) {
        double next = 2 * x * p - before;
        before = p;
        p = next;
    }
    return p;
}
double nx__value_chebyshev_t(double x, double n) { return chebyshev(x, n, x); }
double nx__value_chebyshev_u(double x, double n) { return chebyshev(x, n, 2 * x); }
double nx__value_chebyshev_v(double x, double n) { return chebyshev(x, n, 2 * x - 1); }
double nx__value_chebyshev_w(double x, double n) { return chebyshev(x, n, 2 * x + 1); }

#define DEFINE(name, first, following)                                         \
    double nx__value_##name(double x, double degree) {                        \
        if (!(degree < MOST)) return NAN;                                      \
        int64_t n = degree > -MOST ? (int64_t)degree : -1;                     \
        double before = 1, p = first;                                          \
        if (n <= 0) return n == 0;                                             \
        for (int64_t k = 1; k < n; k++) {                                      \
            double next = following;                                           \
            before = p;                                                        \
            p = next;                                                          \
        }                                                                      \
        return p;                                                              \
    }
DEFINE(hermite_h, 2 * x, 2 * x * p - 2 * (double)k * before)
DEFINE(hermite_he, x, x * p - (double)k * before)
DEFINE(laguerre, 1 - x, (((double)(2 * k + 1) - x) * p - (double)k * before) / (double)(k + 1))
DEFINE(legendre, x, ((double)(2 * k + 1) * x * p - (double)k * before) / (double)(k + 1))
#undef DEFINE
