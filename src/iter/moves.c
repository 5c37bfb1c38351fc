/* Elements of one dtype into another, as C converts them: floats to integers cut, anything to bool by != 0, to the half
 * types by rounding a float to nearest even. float16 goes by float32, which the processor makes of many at once; float8 types
 * meet float32 alone. One loop for each pair of dtypes. Then elements as they are, in two dimensions at a time. Compiled once
 * a level with NX_LEVEL_NAME set; next: cast.c, copy.c. */
#include "iter/private.h"

/* ---- float8: a sign, an exponent, `fraction` bits, by the OCP formats (fn: no infinities; fnuz: no infinities, no negative
 * zero); choices instead of branches, so that the loops become vectors ------------------------------------------------ */
typedef union bits { float f; uint32_t u; } bits;
/* last: the largest finite one; beyond: what is larger becomes; plain_zero: 0x80 is no zero, but NaN. */
typedef struct format { int fraction, bias; uint32_t last, beyond, nan; bool plain_zero; } format;
static const format e4m3fn = {3, 7, 0x7e, 0x7e, 0x7f, false}, e5m2 = {2, 15, 0x7b, 0x7c, 0x7f, false},
                    e4m3fnuz = {3, 8, 0x7f, 0x80, 0x80, true}, e5m2fnuz = {2, 16, 0x7f, 0x80, 0x80, true};

/* Comparisons are of signed numbers: those have instructions at every level. */
static inline uint8_t to_float8(float f, const format *to) {
    bits x = {.f = f};
    int32_t magnitude = (int32_t)(x.u & 0x7fffffff), shift = 23 - to->fraction, sign = (int32_t)(x.u >> 24 & 0x80), h;
    /* Subnormal: added to a number whose last place is theirs. */
    bits small = {.u = (uint32_t)magnitude}, grid = {.u = (uint32_t)(127 + 24 - to->bias - to->fraction) << 23};
    small.f += grid.f;
    int32_t rounded = (int32_t)(((uint32_t)magnitude + (UINT32_C(1) << (shift - 1)) - 1 + ((uint32_t)magnitude >> shift & 1)) >> shift);
    h = rounded - ((127 - to->bias) << to->fraction);
    h = magnitude < (128 - to->bias) << 23 ? (int32_t)(small.u - grid.u) : h;
    h = h > (int32_t)to->last ? (int32_t)to->beyond : h;
    h = magnitude > 0x7f800000 ? (int32_t)to->nan : h;
    if (to->plain_zero) sign = (h == 0) | (h == 0x80) ? 0 : sign;
    return (uint8_t)(sign | h);
}

static inline float from_float8(uint8_t b, const format *from) {
    uint32_t sign = (uint32_t)(b & 0x80) << 24, magnitude = b & 0x7f;
    bits x = {.u = magnitude << (23 - from->fraction)}, scale = {.u = (uint32_t)(254 - from->bias) << 23};
    x.f *= scale.f; /* 2^(127 - bias), which makes subnormal ones right */
    uint32_t other = from->beyond != from->last && magnitude == from->beyond ? 0x7f800000 : 0x7fc00000;
    if (from->plain_zero) x.u = b == 0x80 ? 0x7fc00000 : x.u;
    else x.u = (int32_t)magnitude > (int32_t)from->last ? other : x.u;
    x.u |= sign;
    return x.f;
}


/* code, element type, how an element is read, how a value is written. uint8 goes through int64: a negative
 * float cut to an unsigned type is undefined in C, and PyTorch takes this way. */
#define PLAIN(x) (x)
#define TO_BOOL(v) ((v) != 0)
#define TO_U8(v) ((uint8_t)(int64_t)(v))
#define TO_I8(v) ((int8_t)(v))
#define TO_I16(v) ((int16_t)(v))
#define TO_I32(v) ((int32_t)(v))
#define TO_I64(v) ((int64_t)(v))
#define TO_BF16(v) nx_store_bf16((float)(v))
#define TO_F32(v) ((float)(v))
#define TO_F64(v) ((double)(v))
#define EACH_BUT_F16(X, from, type, load)                                                                  \
    X(from, type, load, BOOL, uint8_t, TO_BOOL) X(from, type, load, U8, uint8_t, TO_U8)                    \
    X(from, type, load, I8, int8_t, TO_I8) X(from, type, load, I16, int16_t, TO_I16)                       \
    X(from, type, load, I32, int32_t, TO_I32) X(from, type, load, I64, int64_t, TO_I64)                    \
    X(from, type, load, BF16, uint16_t, TO_BF16) X(from, type, load, F64, double, TO_F64)                  \
    X(from, type, load, F32, float, TO_F32)
#define FROM_E4M3FN(x) from_float8(x, &e4m3fn)
#define FROM_E5M2(x) from_float8(x, &e5m2)
#define FROM_E4M3FNUZ(x) from_float8(x, &e4m3fnuz)
#define FROM_E5M2FNUZ(x) from_float8(x, &e5m2fnuz)
#define TO_E4M3FN(v) to_float8(v, &e4m3fn)
#define TO_E5M2(v) to_float8(v, &e5m2)
#define TO_E4M3FNUZ(v) to_float8(v, &e4m3fnuz)
#define TO_E5M2FNUZ(v) to_float8(v, &e5m2fnuz)
#define BOTH_WAYS(X, code, from, to) X(code, uint8_t, from, F32, float, TO_F32) X(F32, float, PLAIN, code, uint8_t, to)
#define EACH_PAIR(X)                                                                                       \
    EACH_BUT_F16(X, BOOL, uint8_t, PLAIN) EACH_BUT_F16(X, U8, uint8_t, PLAIN)                              \
    EACH_BUT_F16(X, I8, int8_t, PLAIN) EACH_BUT_F16(X, I16, int16_t, PLAIN)                                \
    EACH_BUT_F16(X, I32, int32_t, PLAIN) EACH_BUT_F16(X, I64, int64_t, PLAIN)                              \
    EACH_BUT_F16(X, BF16, uint16_t, nx_load_bf16) EACH_BUT_F16(X, F32, float, PLAIN)                       \
    EACH_BUT_F16(X, F64, double, PLAIN)                                                                    \
    BOTH_WAYS(X, F8_E4M3FN, FROM_E4M3FN, TO_E4M3FN) BOTH_WAYS(X, F8_E5M2, FROM_E5M2, TO_E5M2)              \
    BOTH_WAYS(X, F8_E4M3FNUZ, FROM_E4M3FNUZ, TO_E4M3FNUZ) BOTH_WAYS(X, F8_E5M2FNUZ, FROM_E5M2FNUZ, TO_E5M2FNUZ)

#define DEFINE_CAST(from_code, from_type, load, to_code, to_type, store)                                   \
    static void cast_##from_code##_##to_code(char *to, int64_t to_step, const char *from, int64_t from_step,\
                                             int64_t n) {                                                   \
        if (to_step == sizeof(to_type) && from_step == sizeof(from_type)) {                                \
            to_type *t = (to_type *)to;                                                                    \
            const from_type *f = (const from_type *)from;                                                  \
            for (int64_t i = 0; i < n; i++) t[i] = (to_type)store(load(f[i]));                             \
        } else {                                                                                           \
            for (int64_t i = 0; i < n; i++, to += to_step, from += from_step)                              \
                *(to_type *)to = (to_type)store(load(*(const from_type *)from));                           \
        }                                                                                                  \
    }
EACH_PAIR(DEFINE_CAST)

/* float16 from and to the others. */
enum { STRIP = 32 };
#define DEFINE_HALF_CASTS(code, type, load, store)                                                         \
    static void cast_F16_##code(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) {\
        bool is_dense = to_step == sizeof(type) && from_step == sizeof(uint16_t);                          \
        for (; is_dense && n >= STRIP; n -= STRIP, to += STRIP * to_step, from += STRIP * from_step) {     \
            float f[STRIP];                                                                                \
            nx_widen_f16(f, (const uint16_t *)from, STRIP);                                                \
            for (int i = 0; i < STRIP; i++) ((type *)to)[i] = (type)store(f[i]);                           \
        }                                                                                                  \
        for (int64_t i = 0; i < n; i++, to += to_step, from += from_step)                                  \
            *(type *)to = (type)store(nx_widen_one_f16(*(const uint16_t *)from));                          \
    }                                                                                                      \
    static void cast_##code##_F16(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) {\
        bool is_dense = to_step == sizeof(uint16_t) && from_step == sizeof(type);                          \
        for (; is_dense && n >= STRIP; n -= STRIP, to += STRIP * to_step, from += STRIP * from_step) {     \
            float f[STRIP];                                                                                \
            for (int i = 0; i < STRIP; i++) f[i] = (float)load(((const type *)from)[i]);                   \
            nx_narrow_f16((uint16_t *)to, f, STRIP);                                                       \
        }                                                                                                  \
        for (int64_t i = 0; i < n; i++, to += to_step, from += from_step)                                  \
            *(uint16_t *)to = nx_narrow_one_f16((float)load(*(const type *)from));                         \
    }
#define EACH_WITH_F16(X)                                                                                   \
    X(BOOL, uint8_t, PLAIN, TO_BOOL) X(U8, uint8_t, PLAIN, TO_U8) X(I8, int8_t, PLAIN, TO_I8)              \
    X(I16, int16_t, PLAIN, TO_I16) X(I32, int32_t, PLAIN, TO_I32) X(I64, int64_t, PLAIN, TO_I64)           \
    X(BF16, uint16_t, nx_load_bf16, TO_BF16) X(F32, float, PLAIN, TO_F32) X(F64, double, PLAIN, TO_F64)
EACH_WITH_F16(DEFINE_HALF_CASTS)

/* Whole numbers below 2^51 are converted many at once, as the last bits of a double; to float64 and float32 both. */
#define DEFINE_COUNTED(code, to_type)                                                                      \
    static void count_##code(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) {   \
        enum { PIECE = 256 };                                                                               \
        for (int64_t part; n > 0; n -= part, to += part * to_step, from += part * from_step) {              \
            const int64_t *f = (const int64_t *)from;                                                       \
            to_type *t = (to_type *)to;                                                                     \
            const bool dense = to_step == sizeof(to_type) && from_step == sizeof(int64_t);                  \
            uint64_t far = !dense;                                                                          \
            part = n < PIECE ? n : PIECE;                                                                   \
            if (dense) {                                                                                    \
                for (int64_t i = 0; i < part; i++) far |= ((uint64_t)f[i] + (UINT64_C(1) << 51)) >> 52;     \
            }                                                                                               \
            if (far) {                                                                                      \
                cast_I64_##code(to, to_step, from, from_step, part);                                        \
                continue;                                                                                   \
            }                                                                                               \
            for (int64_t i = 0; i < part; i++) {                                                            \
                const union { uint64_t bits; double number; } x = {(uint64_t)f[i] + 0x4338000000000000};    \
                t[i] = (to_type)(x.number - 0x1.8p52);                                                      \
            }                                                                                               \
        }                                                                                                   \
    }
DEFINE_COUNTED(F32, float)
DEFINE_COUNTED(F64, double)

#define DEFINE_MOVE(bits)                                                                                  \
    static void move_##bits(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) {   \
        if (to_step == bits / 8 && from_step == -bits / 8) { /* the other way round */                      \
            uint##bits##_t *t = (uint##bits##_t *)to;                                                       \
            const uint##bits##_t *f = (const uint##bits##_t *)from;                                         \
            for (int64_t i = 0; i < n; i++) t[i] = f[-i];                                                   \
            return;                                                                                         \
        }                                                                                                   \
        if (to_step == bits / 8 && from_step == 0) { /* one element many times */                           \
            uint##bits##_t *t = (uint##bits##_t *)to, element = *(const uint##bits##_t *)from;              \
            for (int64_t i = 0; i < n; i++) t[i] = element;                                                 \
            return;                                                                                         \
        }                                                                                                   \
        if (to_step == bits / 8 && from_step == 2 * (bits / 8) && n > 16) { /* every other one */           \
            uint##bits##_t *restrict t = (uint##bits##_t *)to;                                              \
            const uint##bits##_t *restrict f = (const uint##bits##_t *)from;                                \
            for (int64_t i = 0; i < n; i++) t[i] = f[2 * i];                                                \
            return;                                                                                         \
        }                                                                                                   \
        for (; n >= 4; n -= 4, to += 4 * to_step, from += 4 * from_step) {                                  \
            uint##bits##_t a = *(const uint##bits##_t *)from, b = *(const uint##bits##_t *)(from + from_step); \
            uint##bits##_t c = *(const uint##bits##_t *)(from + 2 * from_step);                             \
            uint##bits##_t d = *(const uint##bits##_t *)(from + 3 * from_step);                             \
            *(uint##bits##_t *)to = a;                                                                      \
            *(uint##bits##_t *)(to + to_step) = b;                                                          \
            *(uint##bits##_t *)(to + 2 * to_step) = c;                                                      \
            *(uint##bits##_t *)(to + 3 * to_step) = d;                                                      \
        }                                                                                                   \
        for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) {                                 \
            *(uint##bits##_t *)to = *(const uint##bits##_t *)from;                                          \
        }                                                                                                   \
    }
DEFINE_MOVE(8)
DEFINE_MOVE(16)
DEFINE_MOVE(32)
DEFINE_MOVE(64)
DEFINE_MOVE(128)

/* ---- two dimensions ------------------------------------------------------------------------------------ */
enum { LINE = 4 * NX_LANES }; /* as wide as a register */
typedef uint64_t line __attribute__((vector_size(LINE), aligned(1), may_alias));

/* Many bytes that lie up to 31 bytes farther in a page than where they come from (x[1:] = y) are moved from the back: from the
 * front each load would wait for the store before it, whose address ends like its own, and the C library's way takes ten times
 * as long. */
#define EACH_LINE _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
static void move_bytes(char *to, const char *from, int64_t n) {
    enum { PAGE = 4096, BLOCK = 4 * LINE, MANY = 2048 };
    uintptr_t farther = (uintptr_t)to - (uintptr_t)from;
    if (n < MANY || farther % PAGE == 0 || farther % PAGE > 31 || -farther < (uintptr_t)n) {
        memmove(to, from, (size_t)n);
        return;
    }
    for (; n >= BLOCK; n -= BLOCK) {
        line l[4];
        EACH_LINE l[k] = *(const line *)(from + n - BLOCK + k * LINE);
        EACH_LINE *(line *)(to + n - BLOCK + k * LINE) = l[k];
    }
    memmove(to, from, (size_t)n);
}

/* Rows shorter than a line: both ends of each, which may meet. */
#define DEFINE_SHORT_ROWS(bits)                                                                              \
    static void short_rows_##bits(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t bytes) {\
        for (int64_t r = 0; r < rows; r++, to += to_step, from += from_step) {                              \
            uint##bits##_t first, last;                                                                     \
            memcpy(&first, from, sizeof first);                                                             \
            memcpy(&last, from + bytes - sizeof last, sizeof last);                                         \
            memcpy(to, &first, sizeof first);                                                               \
            memcpy(to + bytes - sizeof last, &last, sizeof last);                                           \
        }                                                                                                   \
    }
DEFINE_SHORT_ROWS(8)
DEFINE_SHORT_ROWS(16)
DEFINE_SHORT_ROWS(32)
DEFINE_SHORT_ROWS(64)
DEFINE_SHORT_ROWS(128)

static void short_rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t bytes) {
    if (bytes == 1) short_rows_8(to, to_step, from, from_step, rows, bytes);
    else if (bytes == 2) short_rows_16(to, to_step, from, from_step, rows, bytes);
    else if (bytes >= 4 && bytes <= 8) short_rows_32(to, to_step, from, from_step, rows, bytes);
    else if (bytes > 8 && bytes <= 16) short_rows_64(to, to_step, from, from_step, rows, bytes);
    else if (bytes > 16 && bytes <= 32) short_rows_128(to, to_step, from, from_step, rows, bytes);
    else for (int64_t r = 0; r < rows; r++) memcpy(to + r * to_step, from + r * from_step, (size_t)bytes);
}

/* Lines, the last one over what the one before it has moved. */
static void move_rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t bytes) {
    if (bytes < LINE) {
        short_rows(to, to_step, from, from_step, rows, bytes);
        return;
    }
    for (int64_t r = 0; r < rows; r++, to += to_step, from += from_step) {
        int64_t i = 0;
        for (; i + 2 * LINE <= bytes; i += 2 * LINE) {
            line first = *(const line *)(from + i), second = *(const line *)(from + i + LINE);
            *(line *)(to + i) = first;
            *(line *)(to + i + LINE) = second;
        }
        if (i + LINE <= bytes) *(line *)(to + i) = *(const line *)(from + i);
        if (bytes % LINE) *(line *)(to + bytes - LINE) = *(const line *)(from + bytes - LINE);
    }
}

/* Rows from their ends: `from` is where the last element of a row of `columns` lies. */
#define DEFINE_BACK(bits)                                                                                   \
    static void back_##bits(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows,   \
                            int64_t columns) {                                                              \
        for (int64_t r = 0; r < rows; r++, to += to_step, from += from_step) {                              \
            uint##bits##_t *restrict t = (uint##bits##_t *)to;                                              \
            const uint##bits##_t *restrict f = (const uint##bits##_t *)from;                                \
            for (int64_t c = 0; c < columns; c++) t[c] = f[-c];                                             \
        }                                                                                                   \
    }
DEFINE_BACK(8)
DEFINE_BACK(16)
DEFINE_BACK(32)
DEFINE_BACK(64)
DEFINE_BACK(128)

#define DEFINE_TURN(bits)                                                                                   \
    static void turn_##bits(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows,   \
                            int64_t columns) {                                                              \
        enum { TURNED = bits > 32 ? 8 : 16 }; /* lines stay in the first-level cache, also those a page apart */ \
        for (int64_t r = 0; r < rows; r += TURNED) {                                                        \
            for (int64_t c = 0; c < columns; c += TURNED) {                                                 \
                int64_t r_end = rows - r < TURNED ? rows : r + TURNED;                                      \
                int64_t c_end = columns - c < TURNED ? columns : c + TURNED;                                \
                for (int64_t i = r; i < r_end; i++) {                                                       \
                    uint##bits##_t *line = (uint##bits##_t *)(to + i * to_step);                            \
                    for (int64_t k = c; k < c_end; k++)                                                     \
                        line[k] = ((const uint##bits##_t *)(from + k * from_step))[i];                      \
                }                                                                                           \
            }                                                                                               \
        }                                                                                                   \
    }
DEFINE_TURN(8)
DEFINE_TURN(16)
DEFINE_TURN(32)

/* Blocks of lines by way of registers. A block's lines are read whole, and written whole: a page apart, they push each other
 * out of the first-level cache. */
static void turn_blocks(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t columns) {
    enum { LANES = NX_LANES, SIDE = 16, PARTS = SIDE / LANES };
    typedef uint32_t wide __attribute__((vector_size(4 * NX_LANES), aligned(4), may_alias));
    const int64_t whole_rows = rows / SIDE * SIDE, whole_columns = columns / SIDE * SIDE;
    for (int64_t c = 0; c < whole_columns; c += SIDE) {
        for (int64_t r = 0; r < whole_rows; r += SIDE) {
            wide turned[SIDE][PARTS];
            for (int h = 0; h < PARTS; h++) {
                wide x[PARTS][LANES];
                _Pragma("GCC unroll 16") for (int k = 0; k < LANES; k++) {
                    for (int v = 0; v < PARTS; v++) x[v][k] = ((const wide *)(from + (c + h * LANES + k) * from_step + r * 4))[v];
                }
                for (int v = 0; v < PARTS; v++) {
                    NX_TURN(x[v])
                    _Pragma("GCC unroll 16") for (int k = 0; k < LANES; k++) turned[v * LANES + k][h] = x[v][k];
                }
            }
            for (int k = 0; k < SIDE; k++) {
                for (int h = 0; h < PARTS; h++) ((wide *)(to + (r + k) * to_step + c * 4))[h] = turned[k][h];
            }
        }
    }
    turn_32(to + whole_rows * to_step, to_step, from + whole_rows * 4, from_step, rows - whole_rows, columns);
    turn_32(to + whole_columns * 4, to_step, from + whole_columns * from_step, from_step, whole_rows, columns - whole_columns);
}
DEFINE_TURN(64)
DEFINE_TURN(128)

const nx__moves NX_AT_LEVEL(nx__moves) = {
    .cast = {
#define CAST_ROW(from_code, from_type, load, to_code, to_type, store) \
    [NX_##from_code][NX_##to_code] = cast_##from_code##_##to_code,
        EACH_PAIR(CAST_ROW)
        [NX_I64][NX_F32] = count_F32, [NX_I64][NX_F64] = count_F64,
#define HALF_ROWS(code, type, load, store) [NX_F16][NX_##code] = cast_F16_##code, [NX_##code][NX_F16] = cast_##code##_F16,
        EACH_WITH_F16(HALF_ROWS)
    },
    .move = {[1] = move_8, [2] = move_16, [4] = move_32, [8] = move_64, [16] = move_128},
    .bytes = move_bytes,
    .rows = move_rows,
    .back = {[1] = back_8, [2] = back_16, [4] = back_32, [8] = back_64, [16] = back_128},
    .turn = {[1] = turn_8, [2] = turn_16, [4] = turn_blocks, [8] = turn_64, [16] = turn_128},
};
