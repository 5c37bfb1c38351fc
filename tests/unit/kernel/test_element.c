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

static void set(nx_dtype dtype, double *at, int i, double x) {
    if (dtype == NX_F64) at[i] = x;
    else ((float *)at)[i] = (float)x;
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
    {"aten::tan", tanl, {2.6, 1.5}},      {"aten::sinh", sinhl, {2.5, 2.5}},
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
            set(dtype, from, i, x);
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
static void check_near(nx_loop_fn *loop, nx_dtype dtype) {
    static const double far[] = {0x1p60, INFINITY, NAN};
    _Alignas(64) double from[PIECE], near[PIECE], beside[PIECE];
    int64_t bytes = dtype == NX_F64 ? 8 : 4, steps[2] = {bytes, bytes};
    for (int64_t piece = 0; piece < PIECES; piece++) {
        for (int i = 0; i < PIECE; i++) {
            double x = sample(dtype == NX_F64, piece * PIECE + i);
            set(dtype, from, i, fabs(x) <= 1e5 ? x : ldexp((double)mix((uint64_t)i), -64) * 1e5);
        }
        loop((char *const[]){(char *)near, (char *)from}, steps, PIECE, NULL);
        set(dtype, from, 0, far[piece % NX_COUNT(far)]);
        loop((char *const[]){(char *)beside, (char *)from}, steps, PIECE, NULL);
        assert_memory_equal((char *)near + bytes, (char *)beside + bytes, (size_t)((PIECE - 1) * bytes));
    }
}

static void test_near(void **state) {
    static const char *const names[] = {"aten::sin", "aten::cos", "aten::tan", "aten::sinc"};
    for (int level = 0; level <= nx_level(); level++) {
        for (int k = 0; k < NX_COUNT(names); k++) {
            check_near(nx_op_get(names[k])->def->point->loop[level][NX_F32], NX_F32);
            check_near(nx_op_get(names[k])->def->point->loop[level][NX_F64], NX_F64);
        }
    }
}

static void check_pow(nx_loop_fn *loop, nx_dtype dtype, const double *x, double e) {
    double from[PIECE], got[PIECE];
    const nx_const exponent = {.f = e};
    const int64_t bytes = dtype == NX_F64 ? 8 : 4, steps[2] = {bytes, bytes};
    for (int i = 0; i < PIECE; i++) set(dtype, from, i, x[i]);
    loop((char *const[]){(char *)got, (char *)from}, steps, PIECE, &exponent);
    for (int i = 0; i < PIECE; i++) {
        double a = dtype == NX_F64 ? x[i] : (float)x[i], y = dtype == NX_F64 ? got[i] : ((float *)got)[i];
        long double power = dtype == NX_F64 ? e : (float)e, want = power == 2 ? (long double)a * a : powl(a, power);
        if (power == 0.5L) want = sqrtl(a);
        if (power == -0.5L) want = 1 / sqrtl(a); /* -inf of -0, as PyTorch's */
        double error = dtype == NX_F64 ? double_error(y, want) : float_error((float)y, (double)want);
        if (error <= (power == 3 ? 2.5 : 1.5)) continue; /* a product of three is rounded twice */
        fail_msg("pow(%a, %a) = %a, not %a", a, e, y, (double)want);
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
    static const double exponents[] = {0, 1, 2, 3, 0.5, -0.5, -1, 2.5, 7, 8, 0x1p23 + 1, 0x1p24, -0x1p30, 1e-40, 0x1p53 - 1, -0x1p53,
                                       1e300, -1e300, 1e-310, INFINITY, -INFINITY, NAN, 0.1, -3.7, 33.3, 0x1p52 + 1};
    const nx_point *point = nx_op_get("aten::pow.Tensor_Scalar")->def->point;
    double x[PIECE];
    for (int level = 0; level <= nx_level(); level++) {
        for (int k = 0; k < NX_COUNT(exponents); k++) {
            for (int i = 0; i < PIECE; i++) x[i] = sample(false, i);
            check_pow(point->loop[level][NX_F32], NX_F32, x, exponents[k]);
            for (int i = NX_COUNT(special); i < PIECE; i++) /* some of them near 1, where large exponents count */
                x[i] = i % 4 ? sample(true, i) : 1 + ldexp((double)(int64_t)mix((uint64_t)i), -64 - i / 4 % 50);
            check_pow(point->loop[level][NX_F64], NX_F64, x, exponents[k]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions), cmocka_unit_test(test_near),
                                       cmocka_unit_test(test_atan2), cmocka_unit_test(test_pow)};
    return cmocka_run_group_tests(tests, define_hand_ops, NULL);
}
