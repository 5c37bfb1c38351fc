/* Modified Bessel functions, Airy's function, orthogonal polynomials. Declared in special.h; each comment here names the
 * expansion. */
#include <math.h>

#include "kernel/special.h"

static const double pi = 3.14159265358979323846;

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

double nx__value_sphere_j0(double x) {
    if (isinf(x)) return 0;
    double z = x * x;
    if (fabs(x) < 0.5) return 1 - z / 6 * (1 - z / 20 * (1 - z / 42 * (1 - z / 72 * (1 - z / 110 * (1 - z / 156)))));
    return sin(x) / x;
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
