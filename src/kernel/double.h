/* double: functions of one element in float64, for element.h, which includes this at its end and whose promises hold here
 * too. Sine, cosine and tangent are within 1 unit in the last place up to NX_NEAR_ANGLE and the C library's beyond; a power
 * needs products that are rounded once, and without fused multiply-add it is the C library's. */
#ifndef NX_KERNEL_DOUBLE_H
#define NX_KERNEL_DOUBLE_H

#include "kernel/element.h"

/* ---- sin, cos, tan: the angle is |x| - n pi/2 = *rest + the result, pi/2 in three parts of which the first two have 37 bits, so
 * that their products with n are exact (Cody and Waite, Software Manual for the Elementary Functions, 1980) ------------------ */
#define NX_NEAR_ANGLE 1e5 /* as ops/prim.op says: n stays below 2^16 */
NX_ELEMENT double nx__near_quadrant(double a, double *rest, uint64_t *quadrant) {
    double t = a * 0x1.45f306dc9c883p-1 + NX__ROUNDER, n = t - NX__ROUNDER;
    double first = a - n * 0x1.921fb5444p+0, second = n * 0x1.68c234c4cp-39, r = first - second;
    double tail = ((first - r) - second) - n * 0x1.98a2e03707345p-77, angle = r + tail;
    *quadrant = nx__long_bits_of(t);
    *rest = (r - angle) + tail;
    return angle;
}
/* What the sine has beyond r; the cosine of r + rest. */
NX_ELEMENT double nx__sine_beyond(double r) {
    double z = r * r, s = nx__fma(z, 0x1.5d8b55c712045p-33, -0x1.ae5e4b8475df7p-26);
    s = nx__fma(s, z, 0x1.71de35552bd9fp-19);
    s = nx__fma(s, z, -0x1.a01a019be921cp-13);
    s = nx__fma(s, z, 0x1.111111110f73p-7);
    s = nx__fma(s, z, -0x1.5555555555548p-3);
    return s * (z * r);
}
NX_ELEMENT double nx__cosine(double r, double rest, double *lost) {
    double z = r * r, half = 0.5 * z, whole = 1 - half, c = nx__fma(z, -0x1.8fa5539bf2ea2p-37, 0x1.1ee9d9c6a56c3p-29);
    c = nx__fma(c, z, -0x1.27e4f7ef0d76p-22);
    c = nx__fma(c, z, 0x1.a01a019c8c7d7p-16);
    c = nx__fma(c, z, -0x1.6c16c16c15005p-10);
    c = nx__fma(c, z, 0x1.555555555554bp-5);
    *lost = ((1 - whole) - half) + nx__fma(c, z * z, -(r * rest));
    return whole;
}
NX_ELEMENT double nx__sine_of(double a, uint64_t further, uint64_t sign) {
    uint64_t quadrant;
    double rest, lost, r = nx__near_quadrant(a, &rest, &quadrant), whole = nx__cosine(r, rest, &lost), c = whole + lost;
    double s = r + nx__fma(rest, c, nx__sine_beyond(r)), y = (quadrant + further) & 1 ? c : s;
    return nx__double_of(nx__long_bits_of(y) ^ ((quadrant + further) & 2) << 62 ^ (sign & UINT64_C(1) << 63));
}
NX_ELEMENT double nx_element_sin_near(double x) { return nx__sine_of(fabs(x), 0, nx__long_bits_of(x)); }
NX_ELEMENT double nx_element_cos_near(double x) { return nx__sine_of(fabs(x), 1, 0); }
/* Sine over cosine, or less cosine over sine: both as sums of two, what the quotient leaves is divided too. */
NX_ELEMENT double nx_element_tan_near(double x) {
    uint64_t quadrant;
    double rest, c_lost, r = nx__near_quadrant(fabs(x), &rest, &quadrant), whole = nx__cosine(r, rest, &c_lost), c = whole + c_lost;
    double beyond = nx__fma(rest, c, nx__sine_beyond(r)), s = r + beyond, s_lost = (r - s) + beyond;
    c_lost += whole - c;
    bool odd = quadrant & 1;
    double over = odd ? -c : s, over_lost = odd ? -c_lost : s_lost, under = odd ? s : c, under_lost = odd ? s_lost : c_lost;
    double inverse = 1 / under, y = over * inverse;
    y += (nx__fma(-y, under, over) + (over_lost - y * under_lost)) * inverse;
    y = nx__double_of(nx__long_bits_of(y) ^ (nx__long_bits_of(x) & UINT64_C(1) << 63));
    return !NX_FUSED ? tan(x) : x == 0 ? x : y;
}
NX_ELEMENT double nx_element_sin(double x) { return fabs(x) <= NX_NEAR_ANGLE ? nx_element_sin_near(x) : sin(x); }
NX_ELEMENT double nx_element_cos(double x) { return fabs(x) <= NX_NEAR_ANGLE ? nx_element_cos_near(x) : cos(x); }
NX_ELEMENT double nx_element_tan(double x) { return fabs(x) <= NX_NEAR_ANGLE ? nx_element_tan_near(x) : tan(x); }

/* ---- erf: a polynomial in x^2 up to 0.84, then 1 - e^(-x^2) p(t)/(|x| + 2) with t = 1 - 4/(|x| + 2) ------------------------ */
NX_ELEMENT double nx__erf_near(double x) {
    double z = x * x, near = nx__fma(z, 0x1.712d21425b2a4p-27, -0x1.51970ff16054cp-23);
    near = nx__fma(near, z, 0x1.b84c984d3c63p-20);
    near = nx__fma(near, z, -0x1.f4b48f17e4124p-17);
    near = nx__fma(near, z, 0x1.f9a1c092a28cdp-14);
    near = nx__fma(near, z, -0x1.c02da9247c02bp-11);
    near = nx__fma(near, z, 0x1.565bccd9bf29bp-8);
    near = nx__fma(near, z, -0x1.b82ce3115dd47p-6);
    near = nx__fma(near, z, 0x1.ce2f21a03f55fp-4);
    near = nx__fma(near, z, -0x1.812746b0379a9p-2);
    near = nx__fma(near, z, 0x1.06eba8214db68p-3);
    return nx__fma(near, x, x);
}
NX_ELEMENT double nx_element_erf(double x) {
    uint64_t n;
    double a = fabs(x), near = nx__erf_near(x);
    a = a > 6 ? 6 : a; /* 1 from there on */
    double over = 1 / (a + 2), t = 1 - 4 * over, far = nx__fma(t, -0x1.3cce343a1228fp-17, -0x1.0f0b5e52d4cffp-16);
    far = nx__fma(far, t, 0x1.2c5bdaabc7c67p-15);
    far = nx__fma(far, t, 0x1.2ebe652ae9678p-13);
    far = nx__fma(far, t, 0x1.1ec13ce043978p-15);
    far = nx__fma(far, t, -0x1.5ba8ef9566458p-11);
    far = nx__fma(far, t, -0x1.b6fba8877f3e4p-11);
    far = nx__fma(far, t, 0x1.9517c7d2ff8c4p-9);
    far = nx__fma(far, t, 0x1.a89eb06add614p-8);
    far = nx__fma(far, t, -0x1.606e41587576ap-6);
    far = nx__fma(far, t, -0x1.2a88e610b7a35p-5);
    far = nx__fma(far, t, 0x1.1e2deea6b10abp-2);
    far = nx__fma(far, t, -0x1.5fd386754efd8p-1);
    far = nx__fma(far, t, 0x1.058671b52c776p+0);
    double p = nx__exp_parts(-a * a, NX__ROUNDER + 1023, &n), scale = nx__double_of(n << 52);
    far = copysign(1 - nx__fma(scale, p, scale) * (far * over), x);
    return a > 0.84 ? far : near;
}
NX_ELEMENT double nx_element_phi(double x) { return 0.5 * (1 + nx_element_erf(x * 0.7071067811865476)); }

/* ---- erfc: e^(-x^2) p(t)/(|x| + 4) with t = 1 - 8/(|x| + 4), the square in two parts; from 2 below 0 ----------------------- */
NX_ELEMENT double nx__square(double a, double *rest) {
    double square = a * a, high = nx__double_of(nx__long_bits_of(a) & ~UINT64_C(0x7ffffff)), low = a - high;
    *rest = NX_FUSED ? __builtin_fma(a, a, -square) : ((high * high - square) + 2 * high * low) + low * low;
    return square;
}
NX_ELEMENT double nx__erfc_over(double a) { /* e^(a^2) erfc(a) */
    double over = 1 / (a + 4), t = (a - 4) * over, p = nx__fma(t, 0x1.1dc155da92371p-30, -0x1.5eed007df9894p-32);
    p = nx__fma(p, t, -0x1.0881b007a22a5p-26);
    p = nx__fma(p, t, 0x1.50e1bff8236b3p-29);
    p = nx__fma(p, t, 0x1.09faf5c2c32bap-23);
    p = nx__fma(p, t, -0x1.4e36b25e07ee4p-24);
    p = nx__fma(p, t, -0x1.c6205aa5c8658p-21);
    p = nx__fma(p, t, 0x1.7eca553fa737fp-20);
    p = nx__fma(p, t, 0x1.3b0657f995fe8p-18);
    p = nx__fma(p, t, -0x1.3c72a32ac6bcp-16);
    p = nx__fma(p, t, -0x1.e7e56923ceb94p-19);
    p = nx__fma(p, t, 0x1.72cdcd134ddfp-13);
    p = nx__fma(p, t, -0x1.dd28475ca609p-12);
    p = nx__fma(p, t, -0x1.269b55ad1a658p-12);
    p = nx__fma(p, t, 0x1.908f4729f01a5p-8);
    p = nx__fma(p, t, -0x1.b00c052a9c19ap-6);
    p = nx__fma(p, t, 0x1.38dbd2c8d9b2cp-4);
    p = nx__fma(p, t, -0x1.645fd8a4bf3c1p-3);
    p = nx__fma(p, t, 0x1.52cac237102f9p-2);
    p = nx__fma(p, t, -0x1.14eacb1ad02ep-1);
    p = nx__fma(p, t, 0x1.8be202d26c702p-1);
    p = nx__fma(p, t, -0x1.f3fe31ecb49cp-1);
    return nx__fma(p, t, 0x1.18932bf08e154p+0) * over;
}
NX_ELEMENT double nx_element_erfc(double x) {
    uint64_t n;
    double a = fabs(x) > 28 ? 28 : fabs(x), rest, square = nx__square(a, &rest), p = nx__erfc_over(a);
    double r = nx__exp_reduce(-square, -rest, NX__ROUNDER + 2046, &n), y = nx__scale(nx__fma(nx__exp_rest(r), p, p), n);
    y = x < 0 ? 2 - y : y;
    y = (x > -0.84) & (x < 0.75) ? 1 - nx__erf_near(x) : y;
    return x == x ? y : x;
}

/* ---- erfinv: the polynomials of floats, then one of Halley's steps, which triples the digits; ndtri ------------------------ */
/* Beyond 100, where ndtri of doubles alone comes. */
NX_ELEMENT float nx__erfinv_end(float w) {
    float t = sqrtf(w) - 18.5f, p = nx__fmaf(t, -0x1.1cc5c6p-32f, 0x1.06e46ep-27f);
    p = nx__fmaf(p, t, -0x1.69b814p-23f);
    p = nx__fmaf(p, t, 0x1.156e2cp-18f);
    p = nx__fmaf(p, t, -0x1.b0eacap-14f);
    p = nx__fmaf(p, t, 0x1.00acb6p+0f);
    return nx__fmaf(p, t, 0x1.26ca06p+4f);
}
/* Of a >= 0 and what is left to 1, which near 1 has more digits; of subnormal ones the floats'. */
NX_ELEMENT double nx__erfinv_of(double a, double left) {
    uint64_t n;
    float rest = 0, w = (float)-nx_element_log(left * (1 + a)), far = w < 100 ? nx__erfinv_tail(w) : nx__erfinv_end(w);
    far = w < 16.7f ? nx__erfinv_far(w, &rest) : far;
    far = w < 5 ? nx__erfinv_near(w, &rest) : far;
    double y = a * far, square_rest, square = nx__square(y, &square_rest);
    double p = nx__exp_parts(square, NX__ROUNDER + 1023, &n), scale = nx__double_of(n << 52), e = nx__fma(scale, p, scale);
    e += e * square_rest;
    double step = (y < 0.84 ? (nx__erf_near(y) - a) * e : left * e - nx__erfc_over(y)) * 0x1.c5bf891b4ef6bp-1; /* over the derivative */
    step = left < 0x1p-1021 ? 0 : step;
    y -= step / (1 + y * step);
    return left > 0 ? y : left == 0 ? INFINITY : NAN;
}
NX_ELEMENT double nx_element_erfinv(double x) { return copysign(nx__erfinv_of(fabs(x), 1 - fabs(x)), x); }
/* The number below which a normal one lies with the chance p. */
NX_ELEMENT double nx_element_ndtri(double p) {
    double q = p < 0.5 ? p : 1 - p, y = 1.4142135623730951 * nx__erfinv_of(1 - 2 * q, 2 * q);
    return p < 0.5 ? -y : y;
}

/* ---- sinh, cosh as in float ----------------------------------------------------------------------------------------------- */
NX_ELEMENT double nx_element_sinh(double x) {
    uint64_t n;
    double a = fabs(x), p = nx__exp_parts(a > 710.5 ? 710.5 : a, NX__ROUNDER + 1021, &n), quarter = nx__double_of(n << 52);
    double u = 2 * nx__fma(quarter, p, quarter - 0.25), y = u + u / nx__fma(u, 2, 1);
    return copysign(a > 40 ? u : y, x);
}
NX_ELEMENT double nx_element_cosh(double x) {
    uint64_t n;
    double a = fabs(x), p = nx__exp_parts(a > 710.5 ? 710.5 : a, NX__ROUNDER + 1021, &n), quarter = nx__double_of(n << 52);
    double half = 2 * nx__fma(quarter, p, quarter);
    return half + 0.25 / half;
}

/* ---- angles as nx__angle, with what pi/2 and pi/4 are rounded by --------------------------------------------------------- */
NX_ELEMENT double nx__long_angle(double y, double x, double from, double sign) {
    bool steep = y > 2 * x, middle = y > 0.5 * x; /* where y - x is exact */
    double over = steep ? -x : middle ? y - x : y, under = steep ? y : middle ? y + x : x;
    double base = steep ? 0x1.921fb54442d18p+0 : middle ? 0x1.921fb54442d18p-1 : 0;
    double t = over / under, z = t * t, p = nx__fma(z, 0x1.4c29ec26990f7p-7, -0x1.c1fbbbc1bf404p-6);
    p = nx__fma(p, z, 0x1.571e3d77aa0acp-5);
    p = nx__fma(p, z, -0x1.a3a790a66e53ap-5);
    p = nx__fma(p, z, 0x1.dfed113c4f872p-5);
    p = nx__fma(p, z, -0x1.10f3672a8e3b4p-4);
    p = nx__fma(p, z, 0x1.3b11453f9feeap-4);
    p = nx__fma(p, z, -0x1.745cf54df005cp-4);
    p = nx__fma(p, z, 0x1.c71c70968300ep-4);
    p = nx__fma(p, z, -0x1.249249216fc11p-3);
    p = nx__fma(p, z, 0x1.99999999914d1p-3);
    p = nx__fma(p, z, -0x1.5555555555518p-2);
    p = nx__fma(p * z, t, (base + sign * from) * 0x1.678afae35cdd1p-55); /* what pi is rounded by */
    t *= sign;
    double sum = from + sign * base, lost = (from - sum) + sign * base, whole = sum + t; /* t is smaller than a sum that is not 0 */
    return whole + (((sum - whole) + t) + (lost + sign * p));
}
NX_ELEMENT double nx_element_atan(double x) {
    double a = fabs(x);
    return copysign(nx__long_angle(a == INFINITY ? 1 : a, a == INFINITY ? 0 : 1, 0, 1), x);
}
NX_ELEMENT double nx_element_atan2(double y, double x) {
    double a = fabs(y), b = fabs(x);
    double up = (a == INFINITY) & (b == INFINITY) ? 1 : a, along = (a == b) & ((a == 0) | (a == INFINITY)) ? 1 : b;
    double scale = (a > 1e300) | (b > 1e300) ? 0x1p-10 : 1; /* so that no sum of them is infinite */
    uint64_t left = 0 - (nx__long_bits_of(x) >> 63);
    double from = nx__double_of(left & nx__long_bits_of(0x1.921fb54442d18p+1));
    return copysign(nx__long_angle(up * scale, along * scale, from, copysign(1, x)), y);
}
NX_ELEMENT double nx__arc(double a, double z) {
    double p = nx__fma(z, 0x1.0be46f2c9338p-5, -0x1.59f6b9e4a3cf3p-6);
    p = nx__fma(p, z, 0x1.65023e4c9bc38p-6);
    p = nx__fma(p, z, 0x1.e15a1effa5ee5p-9);
    p = nx__fma(p, z, 0x1.618ad56043021p-7);
    p = nx__fma(p, z, 0x1.757786a2b07dep-7);
    p = nx__fma(p, z, 0x1.ca21455e4dcebp-7);
    p = nx__fma(p, z, 0x1.1c49ddf1e2cd4p-6);
    p = nx__fma(p, z, 0x1.6e8bdfe7d05eep-6);
    p = nx__fma(p, z, 0x1.f1c71a8b8c776p-6);
    p = nx__fma(p, z, 0x1.6db6db722ba8p-5);
    p = nx__fma(p, z, 0x1.333333332df0cp-4);
    p = nx__fma(p, z, 0x1.5555555555578p-3);
    return p * z * a;
}
/* The arc of a sine as in float; the root of half of 1 - |x| with what it is rounded by. */
NX_ELEMENT double nx__arc_parts(double x, double *rest) {
    double a = fabs(x), half = 0.5 - 0.5 * a, root = sqrt(half), square_rest, square = nx__square(root, &square_rest);
    double lost = ((half - square) - square_rest) * 0.5 / (root == 0 ? 1 : root);
    *rest = a > 0.5 ? nx__arc(root, half) + lost : nx__arc(a, a * a);
    return a > 0.5 ? root : a;
}
NX_ELEMENT double nx_element_asin(double x) {
    double rest, y = nx__arc_parts(x, &rest), a = fabs(x);
    double far = 0x1.921fb54442d18p+0 - 2 * y, lost = (0x1.921fb54442d18p+0 - far) - 2 * y;
    return copysign(a > 0.5 ? far + (lost + (0x1.1a62633145c07p-54 - 2 * rest)) : y + rest, x);
}
NX_ELEMENT double nx_element_acos(double x) {
    double rest, y = nx__arc_parts(x, &rest), a = fabs(x), sign = x < 0 ? -1 : 1;
    double base = a > 0.5 ? (x < 0 ? 0x1.921fb54442d18p+1 : 0) : 0x1.921fb54442d18p+0, times = a > 0.5 ? 2 * sign : -sign;
    double sum = base + times * y, lost = (base - sum) + times * y;
    return sum + (lost + nx__fma(times, rest, base * 0x1.678afae35cdd1p-55));
}

/* ---- powers: 2^x = 2^n e^(r ln 2), in two steps as exp; x^e = 2^(e log2 |x|) with a logarithm of 68 bits, the sum of two ---- */
NX_ELEMENT double nx_element_exp2(double x) {
    double a = x > 1025 ? 1025 : x;
    a = a < -1080 ? -1080 : a;
    double t = a + (NX__ROUNDER + 2046), n = t - (NX__ROUNDER + 2046);
    return nx__scale(1 + nx__exp_rest((a - n) * 0x1.62e42fefa39efp-1), nx__long_bits_of(t));
}
/* log2 of a positive number: 2^exponent m, m in sqrt(1/2) .. sqrt(2), whose logarithm is 2 (s + s^3/3 + s^5 p(s^2))/ln 2 with
 * s = (m - 1)/(m + 1); what each rounding leaves behind is added. */
NX_ELEMENT double nx__long_log2(double a, double *rest) {
    bool small = a < 0x1p-1022;
    uint64_t bits = nx__long_bits_of(small ? a * 0x1p54 : a) - 0x3fe6a09e667f3bcd + (UINT64_C(1024) << 52);
    double e = nx__double_of(bits >> 52 | 0x4330000000000000) - (0x1p52 + 1024) - (small ? 54 : 0);
    double m = nx__double_of((bits & 0xfffffffffffff) + 0x3fe6a09e667f3bcd), f = m - 1, d = m + 1, d_rest = m - (d - 1);
    double inverse = 1 / d, s = f * inverse, s_rest = (nx__fma(-s, d, f) - s * d_rest) * inverse;
    double z = s * s, z_rest = nx__fma(s, s, -z) + 2 * s * s_rest, p = nx__fma(z, 0x1.ea563e5401263p-5, 0x1.de49297eec636p-5);
    p = nx__fma(p, z, 0x1.11202db05cf2fp-4);
    p = nx__fma(p, z, 0x1.3b136656be263p-4);
    p = nx__fma(p, z, 0x1.745d1823db099p-4);
    p = nx__fma(p, z, 0x1.c71c71c5a1199p-4);
    p = nx__fma(p, z, 0x1.2492492492f1p-3);
    p = nx__fma(p, z, 0x1.9999999999996p-3) * (z * z);
    double third = z * 0x1.5555555555555p-2, third_rest = nx__fma(z, 0x1.5555555555555p-2, -third);
    third_rest = nx__fma(z_rest, 0x1.5555555555555p-2, nx__fma(z, 0x1.5555555555555p-56, third_rest));
    double v = third + p, v_rest = ((third - v) + p) + third_rest, sv = s * v, w = s + sv;
    double w_rest = ((s - w) + sv) + (nx__fma(s, v, -sv) + nx__fma(s, v_rest, nx__fma(s_rest, v, s_rest)));
    double y = w * 0x1.71547652b82fep+1, y_rest = nx__fma(w, 0x1.71547652b82fep+1, -y);
    y_rest = nx__fma(w_rest, 0x1.71547652b82fep+1, nx__fma(w, 0x1.777d0ffda0d24p-55, y_rest));
    double sum = e + y;
    *rest = ((e - sum) + y) + y_rest; /* e is 0 or the larger */
    return sum;
}
/* An odd integer e keeps the sign; with another e a negative x has no power. As nx_element_powf. */
NX_ELEMENT double nx__vector_pow(double x, double e) {
    double a = fabs(x), rest, log = nx__long_log2(a, &rest), by = e > 0x1p65 ? 0x1p65 : e;
    by = by < -0x1p65 ? -0x1p65 : by; /* 1 + 2^-53 has no number as its power of it */
    double p = log * by, p_rest = nx__fma(log, by, -p) + rest * by;
    p_rest = fabs(p) > 1100 ? 0 : p_rest;
    p = p > 1100 ? 1100 : p;
    p = p < -1100 ? -1100 : p;
    double t = p + (NX__ROUNDER + 2046), n = t - (NX__ROUNDER + 2046), r = (p - n) + p_rest, u = r * 0x1.62e42fefa39efp-1;
    double u_rest = nx__fma(r, 0x1.62e42fefa39efp-1, -u), power = nx__scale(1 + (nx__exp_rest(u) + u_rest), nx__long_bits_of(t));
    double edge = (e > 0) == (a > 1) ? INFINITY : 0; /* of 0 and infinity */
    power = (a == 0) | (a == INFINITY) ? edge : power;
    power = a == 1 ? 1 : power; /* whatever e */
    double part = e - nx_element_round(e), half = 0.5 * e, odd = 2 * (half - nx_element_round(half));
    double sign = part == 0 ? 1 - 2 * odd * odd : 1, nan_if_part = sqrt(-fabs(part));
    double negative = (a < INFINITY ? power + nan_if_part : power) * sign;
    negative = x == 0 ? power * sign : negative;
    negative = nx__long_bits_of(x) >> 63 ? negative : power;
    power = fabs(e) < 0x1p53 ? negative : power; /* beyond, all are even */
    power = x != x ? x : power;
    power = e != e ? e : power;
    power = e == 0 ? 1 : power;
    return x == 1 ? 1 : power;
}
/* ---- logarithms to 2 and 10: that of 68 bits, which makes whole ones of powers ------------------------------------------------ */
NX_ELEMENT double nx__log_ends(double x, double y) { /* of what is no positive number */
    y = x < INFINITY ? y : x; /* NaN, too */
    y = x == 0 ? -INFINITY : y;
    return x < 0 ? NAN : y;
}
NX_ELEMENT double nx__vector_log2(double x) {
    double rest, y = nx__long_log2(x, &rest);
    return nx__log_ends(x, y + rest);
}
NX_ELEMENT double nx__vector_log10(double x) {
    double rest, y = nx__long_log2(x, &rest), to_10 = y * 0x1.34413509f79ffp-2;
    rest = nx__fma(y, 0x1.34413509f79ffp-2, -to_10) + nx__fma(rest, 0x1.34413509f79ffp-2, y * -0x1.9dc1da994fd21p-59);
    return nx__log_ends(x, to_10 + rest);
}
NX_ELEMENT double nx_element_log2(double x) { return NX_FUSED ? nx__vector_log2(x) : log2(x); }
NX_ELEMENT double nx_element_log10(double x) { return NX_FUSED ? nx__vector_log10(x) : log10(x); }

/* ---- atanh(a) = log(1 + 2a/(1 - a))/2 ------------------------------------------------------------------------------------ */
NX_ELEMENT double nx_element_atanh(double x) {
    double a = fabs(x), twice = 2 * a, t = a < 0.5 ? twice + twice * a / (1 - a) : twice / (1 - a);
    return copysign(0.5 * nx_element_log1p(t), x);
}

/* ---- hypot: a root, and what its square is off (C. Borges, "An improved algorithm for hypot(a,b)", 2019); what is very large or
 * very small is brought near 1 by a power of 2 ---- */
NX_ELEMENT double nx__vector_hypot(double x, double y) {
    double p = fabs(x), q = fabs(y), a = p > q ? p : q, b = p > q ? q : p;
    double down = a > 0x1p500 ? 0x1p-600 : a < 0x1p-450 ? 0x1p600 : 1, up = a > 0x1p500 ? 0x1p600 : a < 0x1p-450 ? 0x1p-600 : 1;
    double c = a * down, d = b * down, root = sqrt(nx__fma(c, c, d * d)), square = root * root, of_c = c * c;
    double off = nx__fma(-d, d, square - of_c) + nx__fma(root, root, -square) - nx__fma(c, c, -of_c);
    double found = (root == 0 ? 0 : root - off / (2 * root)) * up;
    found = (p != p) | (q != q) ? NAN : found;
    return (p == INFINITY) | (q == INFINITY) ? INFINITY : found;
}
NX_ELEMENT double nx_element_hypot(double x, double y) { return NX_FUSED ? nx__vector_hypot(x, y) : hypot(x, y); }

NX_ELEMENT double nx_element_pow(double x, double e) { return NX_FUSED ? nx__vector_pow(x, e) : pow(x, e); }

#endif
