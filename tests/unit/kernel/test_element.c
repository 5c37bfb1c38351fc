/* Functions of one element (src/kernel/element.h) as the generated loops compute them, at every instruction-set level
 * of this processor, against the C library in a wider type: special values, every exponent, and a fixed sample of bit
 * patterns. */
#include "../hand_ops.h"
#include "kernel/kernel.h"

#include <math.h>

enum { PIECE = 1024, PIECES = 400 };

/* Distance in units in the last place of a float near `want`. */
static double float_error(float got, double want) {
    float rounded = (float)want;
    int exponent;
    if (got == rounded && signbit(got) != signbit(rounded)) return INFINITY;
    if (got == rounded || (got != got && want != want)) return 0;
    if (!isfinite(got) || !isfinite(rounded)) return INFINITY;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}
static double double_error(double got, long double want) {
    double rounded = (double)want;
    int exponent;
    if (got == rounded && signbit(got) != signbit(rounded)) return INFINITY;
    if (got == rounded || (got != got && want != want)) return 0;
    if (!isfinite(got) || !isfinite(rounded)) return INFINITY;
    frexp(rounded, &exponent);
    return (double)fabsl(got - want) / ldexp(1, (exponent < -1021 ? -1021 : exponent) - 53);
}

static uint64_t mix(uint64_t x) { /* bit patterns in no order, the same at every run */
    x = (x ^ x >> 31) * 0x7fb5d329728ea185;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44d;
    return x ^ x >> 33;
}
static const double special[] = {0, -0., 1, -1, 0.5, 2, 88.7, 88.8, -87.4, -103.9, -104.1, 709.7, 709.9, -745.2, 0.625,
                                 0.93, 3.95, 9.02, 20, 1e-40, -1e-40, 1e-310, 3e38, -3e38, INFINITY, -INFINITY, NAN};
static double sample(bool is_double, int64_t k) {
    uint64_t bits = mix((uint64_t)k);
    if (k < NX_COUNT(special)) return special[k];
    if (k % 2) return ldexp((double)(int64_t)bits, -63) * 100; /* where the functions are not constant */
    return is_double ? nx__double_of(bits) : nx__float_of((uint32_t)bits);
}

static long double inverse_erf(long double x) { /* Newton's steps, from what is tested */
    long double a = fabsl(x), y = nx_element_erfinv((double)a);
    for (int k = 0; k < 2 && a < 1; k++)
        y -= (a < 0.5L ? erfl(y) - a : (1 - a) - erfcl(y)) * 0.886226925452758013649083741670572592L * expl(y * y);
    return copysignl(y, x);
}
static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double one_over_root(long double x) { return 1 / sqrtl(x); }
typedef struct function {
    const char *name;
    long double (*wide)(long double x);
    double most[2]; /* units in the last place, of float and of double */
} function;
static const function functions[] = {
    {"aten::exp", expl, {1.1, 1.5}},       {"aten::log", logl, {1.1, 1.5}},
    {"aten::tanh", tanhl, {2, 3}},         {"aten::erf", erfl, {1.5, 1.5}},
    {"aten::sin", sinl, {2, 1.5}},         {"aten::cos", cosl, {2, 1.5}},
    {"aten::sigmoid", sigmoid, {2.5, 2.5}}, {"aten::rsqrt", one_over_root, {1.5, 1.5}},
    {"aten::expm1", expm1l, {2, 2.5}},     {"aten::log1p", log1pl, {2, 2}},
    {"aten::log2", log2l, {1, 1.5}},       {"aten::log10", log10l, {1, 2}},
    {"aten::exp2", exp2l, {1.5, 1.5}},     {"aten::atan", atanl, {2, 1.5}},
    {"aten::asin", asinl, {2.5, 1.5}},       {"aten::acos", acosl, {2, 1.5}},
    {"aten::floor", floorl, {0, 0}},       {"aten::ceil", ceill, {0, 0}},
    {"aten::trunc", truncl, {0, 0}},       {"aten::round", nearbyintl, {0, 0}},
    {"aten::erfinv", inverse_erf, {2.5, 3}}, {"aten::erfc", erfcl, {7, 5}},
    {"aten::tan", tanl, {3, 1.5}},       {"aten::sinh", sinhl, {2.5, 2.5}},
    {"aten::cosh", coshl, {2, 2}},         {"aten::atanh", atanhl, {1, 2}},
};

/* e^-x overflows where the sigmoid would be a subnormal number: 0, as in PyTorch. */
static bool flushed(const function *f, double want, double got) {
    return f->wide == sigmoid && got == 0 && fabs(want) < 3e-39;
}

static void check(const function *f, nx_loop_fn *loop, nx_dtype dtype) {
    _Alignas(64) double from[PIECE], to[PIECE];
    bool is_double = dtype == NX_F64;
    int64_t bytes = is_double ? 8 : 4, steps[2] = {bytes, bytes};
    for (int64_t piece = 0; piece < PIECES; piece++) {
        for (int i = 0; i < PIECE; i++) {
            double x = sample(is_double, piece * PIECE + i);
            if (is_double) from[i] = x;
            else ((float *)from)[i] = (float)x;
        }
        loop((char *const[]){(char *)to, (char *)from}, steps, PIECE, NULL);
        for (int i = 0; i < PIECE; i++) {
            double x = is_double ? from[i] : ((float *)from)[i], got = is_double ? to[i] : ((float *)to)[i];
            long double want = f->wide(x);
            double error = is_double ? double_error(got, want) : float_error((float)got, (double)want);
            if (error <= f->most[is_double] || flushed(f, (double)want, got)) continue;
            fail_msg("%s(%a) = %a, not %a: off by %g", f->name, x, got, (double)want, error);
        }
    }
}

static void test_functions(void **state) {
    for (int k = 0; k < NX_COUNT(functions); k++) {
        const nx_point *point = nx_op_get(functions[k].name)->def->point;
        for (int level = 0; level <= nx_level(); level++) {
            check(&functions[k], point->loop[level][NX_F32], NX_F32);
            check(&functions[k], point->loop[level][NX_F64], NX_F64);
        }
    }
}

/* A piece without far elements goes another way: its elements have the bits that they have beside a far one. */
static void check_near(nx_loop_fn *loop) {
    static const float far[] = {0x1p60f, INFINITY, NAN};
    float from[PIECE], near[PIECE], beside[PIECE];
    int64_t steps[2] = {4, 4};
    for (int64_t piece = 0; piece < PIECES; piece++) {
        for (int i = 0; i < PIECE; i++) {
            float x = (float)sample(false, piece * PIECE + i);
            from[i] = fabsf(x) <= 1e6f ? x : (float)ldexp((double)mix((uint64_t)i), -64) * 1e6f;
        }
        loop((char *const[]){(char *)near, (char *)from}, steps, PIECE, NULL);
        from[0] = far[piece % NX_COUNT(far)];
        loop((char *const[]){(char *)beside, (char *)from}, steps, PIECE, NULL);
        assert_memory_equal(near + 1, beside + 1, sizeof near - sizeof *near);
    }
}

static void test_near(void **state) {
    for (int level = 0; level <= nx_level(); level++) {
        check_near(nx_op_get("aten::sin")->def->point->loop[level][NX_F32]);
        check_near(nx_op_get("aten::tan")->def->point->loop[level][NX_F32]);
        check_near(nx_op_get("aten::cos")->def->point->loop[level][NX_F32]);
    }
}

static void check_pow(nx_loop_fn *loop, const float *x, float e, int n) {
    float got[PIECE];
    const nx_const exponent = {.f = e};
    const int64_t steps[2] = {4, 4};
    loop((char *const[]){(char *)got, (char *)x}, steps, n, &exponent);
    for (int i = 0; i < n; i++) {
        double want = e == 2 ? x[i] * x[i] : e == 3 ? x[i] * x[i] * x[i] : pow(x[i], e);
        if (e == 0.5f) want = sqrt(x[i]);
        if (float_error(got[i], want) <= 1.5) continue;
        fail_msg("pow(%a, %a) = %a, not %a", (double)x[i], (double)e, (double)got[i], want);
    }
}

/* Every pair of special values, and pairs of a sample. */
static void test_atan2(void **state) {
    const nx_point *point = nx_op_get("aten::atan2")->def->point;
    const int64_t steps[3] = {4, 4, 4};
    float y[PIECE], x[PIECE], got[PIECE];
    for (int i = 0; i < PIECE; i++) {
        y[i] = (float)sample(false, i < NX_COUNT(special) * NX_COUNT(special) ? i % NX_COUNT(special) : i);
        x[i] = (float)sample(false, i < NX_COUNT(special) * NX_COUNT(special) ? i / NX_COUNT(special) : PIECE + i);
    }
    for (int level = 0; level <= nx_level(); level++) {
        point->loop[level][NX_F32]((char *const[]){(char *)got, (char *)y, (char *)x}, steps, PIECE, NULL);
        for (int i = 0; i < PIECE; i++) {
            double want = atan2(y[i], x[i]);
            if (float_error(got[i], want) <= 1) continue;
            fail_msg("atan2(%a, %a) = %a, not %a", (double)y[i], (double)x[i], (double)got[i], want);
        }
    }
}

static void test_pow(void **state) {
    static const float exponents[] = {0, 1, 2, 3, 0.5f, -0.5f, -1, 2.5f, 7, 8, 0x1p23f + 1, 0x1p24f, -0x1p30f, 1e-40f,
                                      INFINITY, -INFINITY, NAN, 0.1f, -3.7f};
    const nx_point *point = nx_op_get("aten::pow.Tensor_Scalar")->def->point;
    float x[PIECE];
    for (int i = 0; i < PIECE; i++) x[i] = (float)sample(false, i);
    for (int level = 0; level <= nx_level(); level++) {
        for (int k = 0; k < NX_COUNT(exponents); k++)
            check_pow(point->loop[level][NX_F32], x, exponents[k], PIECE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions), cmocka_unit_test(test_near),
                                       cmocka_unit_test(test_atan2), cmocka_unit_test(test_pow)};
    return cmocka_run_group_tests(tests, define_hand_ops, NULL);
}
