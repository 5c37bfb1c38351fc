/* special_float: Bessel functions, the logarithm of the gamma function and its second derivative, of floats, for special.h:
 * without branches and calls, so that loops over them become vectors. The polynomials are minimax fits in the range that each
 * one names; where a function has zeros, it is computed in double and within 2^-30 of its largest values there. */
#ifndef NX_KERNEL_SPECIAL_FLOAT_H
#define NX_KERNEL_SPECIAL_FLOAT_H

#include "kernel/element.h"

/* ---- I of order 0 and 1: polynomials in x^2 up to 8; beyond, times e^-x and the root of x, in 1/x ------------------------- */
NX_ELEMENT float nx__i0_nearf(float z) {
    float p = nx__fmaf(z, 0x1.354718p-63f, 0x1.87a12ap-56f);
    p = nx__fmaf(p, z, 0x1.653b12p-47f);
    p = nx__fmaf(p, z, 0x1.4f39dap-39f);
    p = nx__fmaf(p, z, 0x1.032cc2p-31f);
    p = nx__fmaf(p, z, 0x1.233e52p-24f);
    p = nx__fmaf(p, z, 0x1.c71d32p-18f);
    p = nx__fmaf(p, z, 0x1.c71c6ap-12f);
    p = nx__fmaf(p, z, 0x1p-6f);
    p = nx__fmaf(p, z, 0x1p-2f);
    p = nx__fmaf(p, z, 0x1p+0f);
    return p;
}
NX_ELEMENT float nx__i1_nearf(float z) { /* over x */
    float p = nx__fmaf(z, 0x1.97a8c2p-59f, 0x1.84f93cp-52f);
    p = nx__fmaf(p, z, 0x1.7183ep-43f);
    p = nx__fmaf(p, z, 0x1.22579ap-35f);
    p = nx__fmaf(p, z, 0x1.8590a8p-28f);
    p = nx__fmaf(p, z, 0x1.6beeeep-21f);
    p = nx__fmaf(p, z, 0x1.c72218p-15f);
    p = nx__fmaf(p, z, 0x1.5554f6p-9f);
    p = nx__fmaf(p, z, 0x1.000004p-4f);
    p = nx__fmaf(p, z, 0x1p-1f);
    return p;
}
NX_ELEMENT float nx__i0_farf(float a) {
    float u = 1 / a, p = nx__fmaf(u, 0x1.a642bep-3f, 0x1.6e4b9cp-5f);
    p = nx__fmaf(p, u, 0x1.bc6516p-6f);
    p = nx__fmaf(p, u, 0x1.ce3a6cp-6f);
    p = nx__fmaf(p, u, 0x1.987d0cp-5f);
    p = nx__fmaf(p, u, 0x1.988454p-2f);
    return p * sqrtf(u);
}
NX_ELEMENT float nx__i1_farf(float a) {
    float u = 1 / a, p = nx__fmaf(u, -0x1.371bp-1f, 0x1.d053bep-5f);
    p = nx__fmaf(p, u, -0x1.a2a1ccp-5f);
    p = nx__fmaf(p, u, -0x1.7bd20cp-5f);
    p = nx__fmaf(p, u, -0x1.3265fap-3f);
    p = nx__fmaf(p, u, 0x1.988454p-2f);
    return p * sqrtf(u);
}
NX_ELEMENT float nx_element_i0ef(float x) {
    float a = fabsf(x), near = nx__i0_nearf(x * x) * nx_element_expf(-a);
    return a <= 8 ? near : nx__i0_farf(a);
}
NX_ELEMENT float nx_element_i1ef(float x) {
    float a = fabsf(x), near = nx__i1_nearf(x * x) * a * nx_element_expf(-a);
    return copysignf(a <= 8 ? near : nx__i1_farf(a), x);
}
NX_ELEMENT float nx_element_i0f(float x) { /* e^x in halves: it is infinite before the result is */
    float a = fabsf(x), half = nx_element_expf(0.5f * a), near = nx__i0_nearf(x * x), far = nx__i0_farf(a) * half * half;
    far = a == INFINITY ? a : far;
    return a <= 8 ? near : far;
}
NX_ELEMENT float nx_element_i1f(float x) {
    float a = fabsf(x), half = nx_element_expf(0.5f * a), near = nx__i1_nearf(x * x) * a, far = nx__i1_farf(a) * half * half;
    far = a == INFINITY ? a : far;
    return copysignf(a <= 8 ? near : far, x);
}

/* ---- J and Y of order 0 and 1: polynomials in x^2 up to 8, of Y beside the logarithm times J; beyond, a wave of the height
 * p(1/x^2)/sqrt(x) whose angle differs from x by a constant and q(1/x^2)/x. x is r and n quarters of a turn. --------------- */
NX_ELEMENT double nx__j0_near(double z) {
    double p = nx__fma(z, 0x1.595e7e9c742e2p-83, -0x1.39a15cefdc8f8p-73);
    p = nx__fma(p, z, 0x1.4c76062d9a4b3p-64);
    p = nx__fma(p, z, -0x1.09f234b252f98p-55);
    p = nx__fma(p, z, 0x1.51f174c44b866p-47);
    p = nx__fma(p, z, -0x1.522347c5747b2p-39);
    p = nx__fma(p, z, 0x1.02e7c509f9ebcp-31);
    p = nx__fma(p, z, -0x1.2345566a55de6p-24);
    p = nx__fma(p, z, 0x1.c71c6f482b9c5p-18);
    p = nx__fma(p, z, -0x1.c71c718fa39afp-12);
    p = nx__fma(p, z, 0x1.fffffffafe675p-7);
    p = nx__fma(p, z, -0x1.ffffffffa5261p-3);
    p = nx__fma(p, z, 0x1.fffffffffbbd4p-1);
    return p;
}
NX_ELEMENT double nx__j1_near(double z) { /* over x */
    double p = nx__fma(z, -0x1.f8921a3b171f3p-79, 0x1.aa9cfa7346183p-69);
    p = nx__fma(p, z, -0x1.9e329cdd98015p-60);
    p = nx__fma(p, z, 0x1.2af4b662d7b61p-51);
    p = nx__fma(p, z, -0x1.51e4c77f8e878p-43);
    p = nx__fma(p, z, 0x1.27dd1f6890722p-35);
    p = nx__fma(p, z, -0x1.845b56fad3104p-28);
    p = nx__fma(p, z, 0x1.6c16a2bc499e5p-21);
    p = nx__fma(p, z, -0x1.c71c6dfb182ddp-15);
    p = nx__fma(p, z, 0x1.55555511ee23ap-9);
    p = nx__fma(p, z, -0x1.fffffff753debp-5);
    p = nx__fma(p, z, 0x1.ffffffff5705ep-2);
    return p;
}
NX_ELEMENT double nx__y0_near(double x) {
    double z = x * x, p = nx__fma(z, -0x1.5c76546a663abp-82, 0x1.370542ea1a50fp-72);
    p = nx__fma(p, z, -0x1.418ff8bf2d711p-63);
    p = nx__fma(p, z, 0x1.f256f593fec29p-55);
    p = nx__fma(p, z, -0x1.30cd6b95cad12p-46);
    p = nx__fma(p, z, 0x1.238c997b075e3p-38);
    p = nx__fma(p, z, -0x1.a6ed404bf87a3p-31);
    p = nx__fma(p, z, 0x1.bce4828137d78p-24);
    p = nx__fma(p, z, -0x1.3e9976abd2cafp-17);
    p = nx__fma(p, z, 0x1.1a62067e3e984p-11);
    p = nx__fma(p, z, -0x1.075b1bba1172ep-6);
    p = nx__fma(p, z, 0x1.6bbcb40f77f04p-3);
    p = nx__fma(p, z, -0x1.2e4d699c76676p-4);
    return nx__fma(nx__log2f((float)x) * 0x1.c3dc98f7e969cp-2, nx__j0_near(z), p); /* 2 ln(2)/pi */
}
NX_ELEMENT double nx__y1_near(double x) {
    double z = x * x, p = nx__fma(z, -0x1.bc8b478525bc5p-87, 0x1.a84e02004fe48p-77);
    p = nx__fma(p, z, -0x1.dc1ca0bfd5637p-68);
    p = nx__fma(p, z, 0x1.95b7c61231fdep-59);
    p = nx__fma(p, z, -0x1.144839a0ab094p-50);
    p = nx__fma(p, z, 0x1.2a483491b599cp-42);
    p = nx__fma(p, z, -0x1.f0cd1d4349106p-35);
    p = nx__fma(p, z, 0x1.32e593200363ep-27);
    p = nx__fma(p, z, -0x1.0a78094985694p-20);
    p = nx__fma(p, z, 0x1.2c7dbfd4c57a9p-14);
    p = nx__fma(p, z, -0x1.835b97848d4e4p-9);
    p = nx__fma(p, z, 0x1.bd3975c6d5957p-5);
    p = nx__fma(p, z, -0x1.91866143ba657p-3);
    return nx__fma(nx__fma(nx__log2f((float)x) * 0x1.c3dc98f7e969cp-2, nx__j1_near(z), p), x, -0x1.45f306dc9c883p-1 / x);
}
/* The cosine of r - pi/4 and n quarters, less an angle. */
NX_ELEMENT double nx__wave(double r, uint32_t n) {
    double w = n & 1 ? r + 0x1.921fb54442d18p-1 : r - 0x1.921fb54442d18p-1, z = w * w;
    double p = nx__fma(z, 0x1.109974059248bp-29, -0x1.277d0b3eb3b7ap-22);
    p = nx__fma(p, z, 0x1.a01712f3e116ep-16);
    p = nx__fma(p, z, -0x1.6c16b688c0704p-10);
    p = nx__fma(p, z, 0x1.5555552ecd74dp-5);
    p = nx__fma(p, z, -0x1.ffffffff3366fp-2);
    p = nx__fma(p, z, 0x1.fffffffffd3a7p-1);
    return n & 2 ? -p : p;
}
NX_ELEMENT double nx__bessel0_far(double a, double r, uint32_t n) {
    double u = 1 / a, v = u * u, p = nx__fma(v, 0x1.57da2115b5053p+1, -0x1.a49a97f6cc668p-2);
    p = nx__fma(p, v, 0x1.51d6f56c9557bp-4);
    p = nx__fma(p, v, -0x1.9883e44b27143p-5);
    p = nx__fma(p, v, 0x1.9884533cbd73ap-1);
    double q = nx__fma(v, 0x1.4e049e1ec80d8p+7, -0x1.26fafa53dfcdep+4);
    q = nx__fma(q, v, 0x1.9941ba941bae9p+0);
    q = nx__fma(q, v, -0x1.acdf2293913eep-3);
    q = nx__fma(q, v, 0x1.0aaa5d8cf6c3dp-4);
    q = nx__fma(q, v, -0x1.fffffff5de22fp-4);
    return p * sqrt(u) * nx__wave(nx__fma(q, u, r), n);
}
NX_ELEMENT double nx__bessel1_far(double a, double r, uint32_t n) {
    double u = 1 / a, v = u * u, p = nx__fma(v, -0x1.d5ff581405f0dp+1, 0x1.3a612c27de22cp-1);
    p = nx__fma(p, v, -0x1.3baa7e75de59ap-3);
    p = nx__fma(p, v, 0x1.32631add44d64p-3);
    p = nx__fma(p, v, 0x1.9884533def879p-1);
    double q = nx__fma(v, -0x1.abcb7a9ff32dcp+7, 0x1.87b0208a76316p+4);
    q = nx__fma(q, v, -0x1.291a52e69ef6fp+1);
    q = nx__fma(q, v, 0x1.7b9925ae17e3p-2);
    q = nx__fma(q, v, -0x1.4fffd08449b02p-3);
    q = nx__fma(q, v, 0x1.7ffffffce007cp-2);
    return p * sqrt(u) * nx__wave(nx__fma(q, u, r), n);
}
NX_ELEMENT float nx__j0_of(float x, double r, uint32_t n) {
    double a = fabsf(x), far = nx__bessel0_far(a, r, n), near = nx__j0_near(a * a);
    return (float)(a <= 8 ? near : far);
}
NX_ELEMENT float nx__j1_of(float x, double r, uint32_t n) {
    double a = fabsf(x), far = nx__bessel1_far(a, r, n - 1), near = nx__j1_near(a * a) * a, y = a <= 8 ? near : far;
    return (float)(x < 0 ? -y : y);
}
NX_ELEMENT float nx__y0_of(float x, double r, uint32_t n) {
    double far = nx__bessel0_far(x, r, n - 1), near = nx__y0_near(x), y = x <= 8 ? near : far;
    y = x == 0 ? -INFINITY : y;
    return (float)(x < 0 ? NAN : y);
}
NX_ELEMENT float nx__y1_of(float x, double r, uint32_t n) {
    double far = nx__bessel1_far(x, r, n - 2), near = nx__y1_near(x), y = x <= 8 ? near : far;
    y = x == 0 ? -INFINITY : y;
    return (float)(x < 0 ? NAN : y);
}
#define NX_DEFINE_WAVES(name)                                                                                   \
    NX_ELEMENT float nx_element_##name##_nearf(float x) {                                                       \
        uint32_t n;                                                                                             \
        double r = nx__turned(fabsf(x), &n);                                                                    \
        return nx__##name##_of(x, r, n);                                                                        \
    }                                                                                                           \
    NX_ELEMENT float nx_element_##name##f(float x) {                                                            \
        uint32_t n, far_n;                                                                                      \
        double r = nx__turned(fabsf(x), &n), far = nx__quadrant(fabsf(x), &far_n);                              \
        return nx__##name##_of(x, fabsf(x) <= 1e5f ? r : far, fabsf(x) <= 1e5f ? n : far_n);                    \
    }
NX_DEFINE_WAVES(j0)
NX_DEFINE_WAVES(j1)
NX_DEFINE_WAVES(y0)
NX_DEFINE_WAVES(y1)
#undef NX_DEFINE_WAVES

/* ---- the gamma function: (y - 1)(y - 2) p(y - 2) for y in 1 .. 3, Stirling's series beyond; below 1 of x + 1, below 0 by
 * reflection. The sine of pi x is that of what x has beside the nearest integer. ------------------------------------------ */
NX_ELEMENT double nx__log_of(double x) { /* of normal numbers, within 2^-44 */
    uint64_t bits = nx__long_bits_of(x) - 0x3fe6a09e667f3bcd + (UINT64_C(1024) << 52);
    double e = nx__double_of(bits >> 52 | 0x4330000000000000) - (0x1p52 + 1024);
    double m = nx__double_of((bits & 0xfffffffffffff) + 0x3fe6a09e667f3bcd), s = (m - 1) / (m + 1), z = s * s;
    double p = nx__fma(z, 0x1.919b4da72fe7cp-3, 0x1.c620501401f4ap-3);
    p = nx__fma(p, z, 0x1.24943a28ea74p-2);
    p = nx__fma(p, z, 0x1.9999962688c1fp-2);
    p = nx__fma(p, z, 0x1.5555555673dc4p-1);
    p = nx__fma(p, z, 0x1.fffffffffff0fp+0);
    return nx__fma(e, 0x1.62e42fefa39efp-1, p * s);
}
NX_ELEMENT double nx__sine_of_pi(double x) {
    double f = x - nx_element_round(x), z = f * f;
    double p = nx__fma(z, 0x1.d53c5b3181e47p-12, -0x1.e29b960ba5387p-8);
    p = nx__fma(p, z, 0x1.50770fc18ebb2p-4);
    p = nx__fma(p, z, -0x1.32d2c9b43bb15p-1);
    p = nx__fma(p, z, 0x1.466bc66ed91efp+1);
    p = nx__fma(p, z, -0x1.4abbce624ae81p+2);
    p = nx__fma(p, z, 0x1.921fb54442bb6p+1);
    return p * f;
}
NX_ELEMENT float nx_element_lgammaf(float x) {
    double y = x < 0 ? 1 - (double)x : x < 1 ? 1 + (double)x : x, t = y - 2, w = x < 0 ? fabs(nx__sine_of_pi(x)) : fabsf(x);
    double near = nx__fma(t, 0x1.5d4c11424c9adp-18, -0x1.44a92787aa18cp-17);
    near = nx__fma(near, t, 0x1.250d12439810fp-20);
    near = nx__fma(near, t, -0x1.e919c7b4dcb8p-18);
    near = nx__fma(near, t, 0x1.7bfb62f017fbbp-15);
    near = nx__fma(near, t, -0x1.80bb68e99eaa1p-14);
    near = nx__fma(near, t, 0x1.76ce8486c4afep-13);
    near = nx__fma(near, t, -0x1.a5836d79a9736p-12);
    near = nx__fma(near, t, 0x1.e0804b95e4d86p-11);
    near = nx__fma(near, t, -0x1.146c4d4c94317p-9);
    near = nx__fma(near, t, 0x1.4794a73f387d3p-8);
    near = nx__fma(near, t, -0x1.95cd7d028feep-7);
    near = nx__fma(near, t, 0x1.0e0ca28272594p-5);
    near = nx__fma(near, t, -0x1.9ae6512ee18fap-4);
    near = nx__fma(near, t, 0x1.b0ee6070b8e4fp-2);
    double u = 1 / y, v = u * u, far = nx__fma(v, 0x1.fbf08bee1361cp-12, -0x1.26b64071f5603p-11);
    far = nx__fma(far, v, 0x1.9f555f13e6644p-11);
    far = nx__fma(far, v, -0x1.6c15d6fc1fc73p-9);
    far = nx__fma(far, v, 0x1.5555554b765dp-4);
    far = nx__fma(far, u, nx__fma(y - 0.5, nx__log_of(y), 0x1.d67f1c864beb5p-1 - y)); /* ln(2 pi)/2 */
    double whole = y < 3 ? near * (t * (y - 1)) : far, rest = nx__log_of(w);
    whole = x < 1 ? (x < 0 ? 0x1.250d048e7a1bdp+0 - whole : whole) - rest : whole; /* ln(pi) */
    float out = (float)whole;
    return (w == 0) | (w == INFINITY) | (fabsf(x) == INFINITY) ? INFINITY : out;
}
/* The sum of 1/(y + k)^2: two terms, then 1/s p(1/s^2) with s = y + 3/2; below a half by reflection. */
NX_ELEMENT float nx_element_trigammaf(float x) {
    double y = x < 0.5f ? 1 - (double)x : x, first = 1 / (y * y), second = 1 / ((y + 1) * (y + 1)), u = 1 / (y + 1.5), v = u * u;
    double p = nx__fma(v, -0x1.0c0cd457c0a57p-6, 0x1.754d09e51d96cp-6);
    p = nx__fma(p, v, -0x1.68c176423a9eap-6);
    p = nx__fma(p, v, 0x1.dcfff2d64c44ep-6);
    p = nx__fma(p, v, -0x1.55544443fd74ep-4);
    p = nx__fma(p, v, 0x1.ffffffe47b151p-1);
    double sum = first + (second + p * u), sine = nx__sine_of_pi(x), turned = 0x1.3bd3cc9be45dep+3 / (sine * sine) - sum; /* pi^2 */
    return (float)(x < 0.5f ? turned : sum);
}

#endif
