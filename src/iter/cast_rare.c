/* Casts from and to the types without loops of their own and the complex ones. Few pairs have a loop: the others go by
 * way of the wide types of both sides (float8 by float32, uint16 by int64, complex64 by complex128 ...), in pieces. A
 * value is rounded where PyTorch rounds it: what becomes a float8 is a float32 before (moves.c). Unsigned types wrap; of a
 * complex number the real part is kept. */
#include "iter/private.h"

#include <assert.h>

typedef union bits { float f; uint32_t u; } bits;

/* A power of two: the exponent alone, rounded like a fraction of no bits; the sign is lost, 0 is the smallest. */
static inline uint8_t to_e8m0(float f) {
    bits x = {.f = f};
    uint32_t exponent = x.u >> 23 & 0xff, rest = x.u & 0x7fffff;
    if (exponent == 0xff) return 0xff;
    bool half = rest & 0x400000, more = rest & 0x3fffff;
    return (uint8_t)(exponent + (half && (more || exponent > 0)));
}
static inline float from_e8m0(uint8_t b) {
    return (bits){.u = b == 0xff ? 0x7fc00000 : b == 0 ? 0x00400000 : (uint32_t)b << 23}.f;
}

/* ---- loops ---------------------------------------------------------------------------------------------- */
static inline uint64_t to_u64(double f) { return f >= 0x1p63 ? (uint64_t)(f - 0x1p63) ^ UINT64_C(1) << 63 : (uint64_t)(int64_t)f; }
#define REAL(z) (((const double *)&(z))[0])
#define COMPLEX(re) ((double _Complex){(double)(re)})

/* complex32: two float16, the real part first. */
static inline float _Complex from_c32(uint32_t pair) {
    return __builtin_complex(nx_load_f16((uint16_t)pair), nx_load_f16((uint16_t)(pair >> 16)));
}
static inline uint32_t to_c32(float _Complex z) {
    return nx_store_f16(__real__(z)) | (uint32_t)nx_store_f16(__imag__(z)) << 16;
}

#define EACH_PAIR(X)                                                                                          \
    X(U16, uint16_t, I64, int64_t, x) X(I64, int64_t, U16, uint16_t, x)                                       \
    X(U32, uint32_t, I64, int64_t, x) X(I64, int64_t, U32, uint32_t, x)                                       \
    X(U64, uint64_t, BOOL, uint8_t, x != 0) X(BOOL, uint8_t, U64, uint64_t, x)                                \
    X(U64, uint64_t, I64, int64_t, x) X(I64, int64_t, U64, uint64_t, x)                                       \
    X(U64, uint64_t, F32, float, x) X(F32, float, U64, uint64_t, to_u64(x))                                   \
    X(U64, uint64_t, F64, double, x) X(F64, double, U64, uint64_t, to_u64(x))                                 \
    X(U64, uint64_t, C128, double _Complex, COMPLEX(x)) X(C128, double _Complex, U64, uint64_t, to_u64(REAL(x))) \
    X(C128, double _Complex, BOOL, uint8_t, x != 0) X(BOOL, uint8_t, C128, double _Complex, COMPLEX(x))       \
    X(C128, double _Complex, I64, int64_t, REAL(x)) X(I64, int64_t, C128, double _Complex, COMPLEX(x))        \
    X(C128, double _Complex, F32, float, REAL(x)) X(F32, float, C128, double _Complex, COMPLEX(x))            \
    X(C128, double _Complex, F64, double, REAL(x)) X(F64, double, C128, double _Complex, COMPLEX(x))          \
    X(F32, float, C64, float _Complex, (float _Complex)(x)) X(C64, float _Complex, F32, float, __real__(x))   \
    X(BOOL, uint8_t, C64, float _Complex, (float _Complex)((float)(x))) X(C64, float _Complex, BOOL, uint8_t, x != 0) \
    X(C128, double _Complex, C64, float _Complex, x) X(C64, float _Complex, C128, double _Complex, x)         \
    X(C32, uint32_t, C64, float _Complex, from_c32(x)) X(C64, float _Complex, C32, uint32_t, to_c32(x))       \
    X(C32, uint32_t, C128, double _Complex, from_c32(x))                                                      \
    X(C128, double _Complex, C32, uint32_t, to_c32((float _Complex)x))                                        \
    X(F8_E8M0FNU, uint8_t, F32, float, from_e8m0(x)) X(F32, float, F8_E8M0FNU, uint8_t, to_e8m0(x))

#define DEFINE_CAST(from_code, from_type, to_code, to_type, value)                                               \
    static void cast_##from_code##_##to_code(char *to, int64_t to_step, const char *from, int64_t from_step,     \
                                             int64_t n) {                                                        \
        if (to_step == (int64_t)sizeof(to_type) && from_step == (int64_t)sizeof(from_type)) {                    \
            for (int64_t i = 0; i < n; i++) {                                                                    \
                const from_type x = ((const from_type *)from)[i];                                                \
                ((to_type *)to)[i] = (to_type)(value);                                                           \
            }                                                                                                    \
            return;                                                                                              \
        }                                                                                                        \
        for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) {                                      \
            const from_type x = *(const from_type *)from;                                                        \
            *(to_type *)to = (to_type)(value);                                                                   \
        }                                                                                                        \
    }
EACH_PAIR(DEFINE_CAST)

static nx__cast_fn *const casts[NX_N_DTYPES][NX_N_DTYPES] = {
#define CAST_ROW(from_code, from_type, to_code, to_type, value) [NX_##from_code][NX_##to_code] = cast_##from_code##_##to_code,
    EACH_PAIR(CAST_ROW)
};

/* The type by way of which a type is reached from or by `other`: each has a loop to and from it, and these have loops among each
 * other. */
static nx_dtype wide_of(nx_dtype dtype, nx_dtype other) {
    bool is_narrow = nx_is_float(other) && other != NX_F64;
    if (nx_is_complex(dtype)) return is_narrow ? NX_C64 : NX_C128;
    if (dtype == NX_BOOL || dtype == NX_U64 || dtype == NX_F64) return dtype;
    return nx_is_float(dtype) ? NX_F32 : NX_I64;
}

static nx__cast_fn *cast_of(const nx__moves *moves, nx_dtype from, nx_dtype to) {
    nx__cast_fn *cast = moves->cast[from][to] ? moves->cast[from][to] : casts[from][to];
    assert(cast != NULL);
    return cast;
}

enum { PIECE = 256 };
void nx__rare_cast(const nx__moves *moves, nx_dtype to_dtype, char *to, int64_t to_step, nx_dtype from_dtype,
                   const char *from, int64_t from_step, int64_t n) {
    bool is_dense = to_step == (int64_t)nx_dtype_bytes(to_dtype) && from_step == (int64_t)nx_dtype_bytes(from_dtype);
    if (is_dense && nx_is_complex(from_dtype) && nx_is_complex(to_dtype)) { /* side by side they are twice as many real numbers */
        moves->cast[nx_dtype_real(from_dtype)][nx_dtype_real(to_dtype)](to, to_step / 2, from, from_step / 2, 2 * n);
        return;
    }
    if (casts[from_dtype][to_dtype]) {
        casts[from_dtype][to_dtype](to, to_step, from, from_step, n);
        return;
    }
    _Alignas(16) char buffers[2][PIECE * NX_MAX_ELEMENT_BYTES];
    nx_dtype by[] = {from_dtype, wide_of(from_dtype, to_dtype), wide_of(to_dtype, from_dtype), to_dtype};
    for (int64_t done = 0; done < n; done += PIECE) {
        int64_t part = n - done < PIECE ? n - done : PIECE, step = from_step;
        const char *at = from + done * from_step;
        for (int k = 0; k < 3; k++) {
            bool last = k == 2 || (k == 1 && by[2] == by[3]);
            if (by[k] == by[k + 1]) continue;
            int64_t next_step = last ? to_step : (int64_t)nx_dtype_bytes(by[k + 1]);
            char *next = last ? to + done * to_step : buffers[k];
            cast_of(moves, by[k], by[k + 1])(next, next_step, at, step, part);
            at = next;
            step = next_step;
            if (last) break;
        }
    }
}
