/* Blocks of lines and their Fourier transforms, see fourier_rows.h. Compiled once a level with NX_LEVEL_NAME set. A stage of
 * radix r reads r parts of its input and writes them where the next one wants them, so that no reordering follows: element
 * q + s (p + m k) goes to q + s (r p + j), s being the product of the radices before and m what remains. */
#include "fourier_rows.h"

#define UNROLL _Pragma("GCC unroll 16")
#define FIRST_2 0, 2
#define SECOND_2 1, 3
#define FIRST_4 0, 4, 1, 5
#define SECOND_4 2, 6, 3, 7
#define FIRST_8 0, 8, 1, 9, 2, 10, 3, 11
#define SECOND_8 4, 12, 5, 13, 6, 14, 7, 15
#define FIRST_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

/* n x n numbers, the vectors of x, transposed: log2(n) times the numbers of vectors r and r + n/2 alternate. */
#define DEFINE_TURN(real, n, places)                                                                                     \
    typedef real loose_##real __attribute__((vector_size(4 * NX_LANES), aligned(4), may_alias));                           \
    typedef real vector_##real __attribute__((vector_size(4 * NX_LANES)));                                               \
    typedef places places_##real __attribute__((vector_size(4 * NX_LANES)));                                             \
    static inline __attribute__((always_inline)) void turn_##real(vector_##real *x) {                                    \
        UNROLL for (int left = n; left > 1; left /= 2) {                                                                 \
            vector_##real y[n];                                                                                          \
            UNROLL for (int r = 0; r < n / 2; r++) {                                                                     \
                y[2 * r] = __builtin_shuffle(x[r], x[r + n / 2], (places_##real) {NX_PASTE(FIRST, n)});                    \
                y[2 * r + 1] = __builtin_shuffle(x[r], x[r + n / 2], (places_##real) {NX_PASTE(SECOND, n)});               \
            }                                                                                                            \
            UNROLL for (int r = 0; r < n; r++) x[r] = y[r];                                                              \
        }                                                                                                                \
    }                                                                                                                    \
    /* Lines of complex numbers side by side: as many numbers as whole vectors have are moved. */                        \
    static int64_t bring_lines_##real(const nx__fourier_side *from, int64_t count, real *re, real *im) {                 \
        enum { LANES = NX__FOURIER_BYTES / sizeof(real) };                                                               \
        int64_t k = 0;                                                                                                   \
        for (; k + n / 2 <= count; k += n / 2) {                                                                         \
            for (int group = 0; group < LANES; group += n) {                                                             \
                vector_##real x[n];                                                                                      \
                UNROLL for (int r = 0; r < n; r++)                                                                       \
                    x[r] = ((const loose_##real *)(const void *)((const real *)(const void *)from->line[group + r] + 2 * k))[0]; \
                turn_##real(x);                                                                                          \
                UNROLL for (int r = 0; r < n; r++)                                                                       \
                    *(loose_##real *)((r % 2 ? im : re) + (k + r / 2) * LANES + group) = x[r];                           \
            }                                                                                                            \
        }                                                                                                                \
        return k;                                                                                                        \
    }                                                                                                                    \
    static int64_t take_lines_##real(const nx__fourier_side *to, int64_t count, real scale, const real *re, const real *im) { \
        enum { LANES = NX__FOURIER_BYTES / sizeof(real) };                                                               \
        int64_t k = 0;                                                                                                   \
        for (; k + n / 2 <= count; k += n / 2) {                                                                         \
            for (int group = 0; group < LANES; group += n) {                                                             \
                vector_##real x[n];                                                                                      \
                UNROLL for (int r = 0; r < n; r++)                                                                       \
                    x[r] = *(const loose_##real *)((r % 2 ? im : re) + (k + r / 2) * LANES + group) * scale;               \
                turn_##real(x);                                                                                          \
                UNROLL for (int r = 0; r < n; r++)                                                                       \
                    ((loose_##real *)(void *)((real *)(void *)to->line[group + r] + 2 * k))[0] = x[r];                     \
            }                                                                                                            \
        }                                                                                                                \
        return k;                                                                                                        \
    }
#define HALVED_4 2
#define HALVED_8 4
#define HALVED_16 8
DEFINE_TURN(float, NX_LANES, int32_t)
DEFINE_TURN(double, NX_PASTE(HALVED, NX_LANES), int64_t)

/* Floats that become double are moved one by one. */
static int64_t bring_lines_widened(const nx__fourier_side *from, int64_t count, double *re, double *im) { return 0; }
static int64_t take_lines_widened(const nx__fourier_side *to, int64_t count, double scale, const double *re, const double *im) {
    return 0;
}

#define EVEN_2 0, 2
#define ODD_2 1, 3
#define REVERSED_2 1, 0
#define EVEN_4 0, 2, 4, 6
#define ODD_4 1, 3, 5, 7
#define REVERSED_4 3, 2, 1, 0
#define EVEN_8 0, 2, 4, 6, 8, 10, 12, 14
#define ODD_8 1, 3, 5, 7, 9, 11, 13, 15
#define REVERSED_8 7, 6, 5, 4, 3, 2, 1, 0
#define EVEN_16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define REVERSED_16 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
#define real float
#define ALONG NX_LANES
#include "fourier_real.h"
#include "fourier_line.h"
#undef ALONG
#define element float
#define NAME(name) name##_float
#include "fourier_moves.h"
#undef NAME
#undef real
#define real double
#define ALONG NX_PASTE(HALVED, NX_LANES)
#include "fourier_real.h"
#include "fourier_line.h"
#define NAME(name) name##_widened
#include "fourier_moves.h"
#undef NAME
#undef element
#define element double
#define NAME(name) name##_double
#include "fourier_moves.h"

#define FNS(name, type)                                                                                                  \
    {bring_##name, take_##name, run_of_##type, unpack_of_##type, pack_of_##type, multiply_of_##type, turn_of_##type, LINES_OF_##name}
#define LINES(n, type)                                                                                                   \
    n, bring_line_of_##type, take_line_of_##type, run_line_of_##type, unpack_line_of_##type, pack_line_of_##type, multiply_line_of_##type
#define LINES_OF_float LINES(NX_LANES > 8 ? 0 : NX_LANES, float) /* the first stage leaves 8 numbers side by side */
#define LINES_OF_widened 0
#define LINES_OF_double LINES(NX_PASTE(HALVED, NX_LANES), double)
const nx__fourier_rows NX_AT_LEVEL(nx__fourier_rows) = {
    .of = {[NX__FOURIER_NARROW] = FNS(float, float),
           [NX__FOURIER_WIDENED] = FNS(widened, double),
           [NX__FOURIER_WIDE] = FNS(double, double)},
};
