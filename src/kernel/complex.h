/* complex: functions of one complex number for the generated loops; ops/prim.op names
 * them and those of C's <complex.h>. Products and quotients are PyTorch's: no infinity is mended after a product, as C
 * does; a quotient scales by the larger part of the divisor, and its sums of products are rounded once. */
#ifndef NX_KERNEL_COMPLEX_H
#define NX_KERNEL_COMPLEX_H

#include "kernel/element.h"

#include <complex.h>
#include <math.h>
#include <stdbool.h>

/* x y + z, rounded once; of float in double, which holds the product. */
static inline double nx__complex_fma(double x, double y, double z) { return fma(x, y, z); }
static inline float nx__complex_fmaf(float x, float y, float z) { return (float)((double)x * y + z); }

/* Once for double and once for float, whose functions have an f behind their names. */
#define NX__COMPLEX(type, f)                                                                                       \
    static inline type _Complex nx_complex##f(type re, type im) { return __builtin_complex(re, im); }              \
    static inline type _Complex nx_complex_mul##f(type _Complex x, type _Complex y) {                              \
        type a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;                                       \
        return __builtin_complex(a * c - b * d, a * d + b * c);                                                    \
    }                                                                                                              \
    static inline type _Complex nx_complex_div##f(type _Complex x, type _Complex y) {                              \
        type a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;                                       \
        bool falls = fabs##f(c) >= fabs##f(d), none = c == 0 && d == 0;                                            \
        type large = falls ? c : d, small = falls ? d : c, first = falls ? a : b, second = falls ? b : a;          \
        type ratio = small / large, scale = 1 / nx__complex_fma##f(small, ratio, large);                           \
        type re = nx__complex_fma##f(second, ratio, first) * scale;                                                \
        type im = nx__complex_fma##f(falls ? -first : first, ratio, falls ? second : -second) * scale;             \
        return __builtin_complex(none ? a / fabs##f(c) : re, none ? b / fabs##f(c) : im);                          \
    }                                                                                                              \
    static inline type _Complex nx_complex_conj##f(type _Complex x) { return __builtin_complex(__real__ x, -__imag__ x); } \
    static inline type _Complex nx_complex_real##f(type _Complex x) { return __builtin_complex(__real__ x, (type)0); } \
    static inline type _Complex nx_complex_imag##f(type _Complex x) { return __builtin_complex(__imag__ x, (type)0); } \
    static inline type _Complex nx_complex_abs##f(type _Complex x) {                                               \
        return __builtin_complex(nx_element_hypot##f(__real__ x, __imag__ x), (type)0);                            \
    }                                                                                                              \
    static inline type _Complex nx_complex_angle##f(type _Complex x) {                                             \
        return __builtin_complex(nx_element_atan2##f(__imag__ x, __real__ x), (type)0);                            \
    }                                                                                                              \
    static inline type _Complex nx_complex_sgn##f(type _Complex x) {                                               \
        type length = nx_element_hypot##f(__real__ x, __imag__ x);                                                 \
        return length == 0 ? __builtin_complex((type)0, (type)0)                                                   \
                           : __builtin_complex(__real__ x / length, __imag__ x / length);                          \
    }                                                                                                              \
    /* Of two real numbers. */                                                                                   \
    static inline type _Complex nx_complex_pair##f(type _Complex re, type _Complex im) {                           \
        return __builtin_complex(__real__ re, __real__ im);                                                        \
    }                                                                                                              \
    static inline type _Complex nx_complex_polar##f(type _Complex length, type _Complex angle) {                   \
        return __builtin_complex(__real__ length * cos##f(__real__ angle), __real__ length * sin##f(__real__ angle)); \
    }                                                                                                              \
    static inline type _Complex nx_complex_rsqrt##f(type _Complex x) {                                             \
        return nx_complex_div##f(__builtin_complex((type)1, (type)0), csqrt##f(x));                                \
    }                                                                                                              \
    static inline type _Complex nx_complex_sigmoid##f(type _Complex x) {                                           \
        return nx_complex_div##f(__builtin_complex((type)1, (type)0), 1 + cexp##f(-x));                            \
    }                                                                                                              \
    static inline type _Complex nx_complex_exp2##f(type _Complex x) { return cexp##f(x * (type)0.6931471805599453); } \
    static inline type _Complex nx_complex_log2##f(type _Complex x) {                                              \
        return clog##f(x) / (type)0.6931471805599453;                                                              \
    }                                                                                                              \
    static inline type _Complex nx_complex_log10##f(type _Complex x) {                                             \
        return clog##f(x) / (type)2.302585092994046;                                                               \
    }                                                                                                              \
    /* |1 + x|^2 - 1 = re*(2 + re) + im*im, which loses nothing near 0. */                                         \
    static inline type _Complex nx_complex_log1p##f(type _Complex x) {                                             \
        type re = __real__ x, im = __imag__ x, length = nx_element_hypot##f(1 + re, im);                           \
        type log_length = length > (type)0.5 && length < 2 ? (type)0.5 * log1p##f(re * (2 + re) + im * im) : log##f(length); \
        return __builtin_complex(log_length, atan2##f(im, 1 + re));                                                \
    }                                                                                                              \
    /* From x to y; from whichever end is nearer. */                                                                \
    static inline type _Complex nx_complex_lerp##f(type _Complex x, type _Complex y, type _Complex w) {            \
        bool is_near = __real__ w * __real__ w + __imag__ w * __imag__ w < (type)0.25;                             \
        return is_near ? x + nx_complex_mul##f(w, y - x) : y - nx_complex_mul##f(y - x, 1 - w);                    \
    }                                                                                                              \
    /* e^re cos(im) - 1 = expm1(re) cos(im) - 2 sin(im/2)^2. */                                                    \
    static inline type _Complex nx_complex_expm1##f(type _Complex x) {                                             \
        type re = __real__ x, im = __imag__ x, half = sin##f(im / 2);                                              \
        return __builtin_complex(expm1##f(re) * cos##f(im) - 2 * half * half, exp##f(re) * sin##f(im));            \
    }                                                                                                              \
    /* The logarithm of e^x + e^y: the larger real part stays outside. Of -inf the angle is no matter. */          \
    static inline type _Complex nx_complex_add_exp##f(type _Complex x, type _Complex y) {                          \
        type _Complex low = __real__ x < __real__ y ? x : y, high = __real__ x < __real__ y ? y : x;               \
        if (x != x || y != y) return __builtin_complex((type)NAN, (type)NAN);                                      \
        if (!isfinite(__real__ low) && __real__ low == __real__ high)                                              \
            return __real__ low < 0 ? low : clog##f(cexp##f(low) + cexp##f(high));                                 \
        return high + nx_complex_log1p##f(cexp##f(low - high));                                                    \
    }
NX__COMPLEX(double, )
NX__COMPLEX(float, f)

#endif
