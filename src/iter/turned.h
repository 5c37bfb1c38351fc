/* In the code of one level: NX_LANES vectors of NX_LANES numbers of 32 bits, transposed in registers. */
#ifndef NX_TURNED_H
#define NX_TURNED_H

#include <stdint.h>

typedef int32_t nx__places __attribute__((vector_size(4 * NX_LANES)));
/* One round: of rows `step` apart, the blocks off the diagonal change places. */
#define NX__KEEP(j, step) ((j) & (step) ? NX_LANES + (j) - (step) : (j))
#define NX__MOVE(j, step) ((j) & (step) ? NX_LANES + (j) : (j) + (step))
#define NX__PLACES_4(of, s) of(0, s), of(1, s), of(2, s), of(3, s)
#define NX__PLACES_8(of, s) NX__PLACES_4(of, s), of(4, s), of(5, s), of(6, s), of(7, s)
#define NX__PLACES_16(of, s)                                                                                  \
    NX__PLACES_8(of, s), of(8, s), of(9, s), of(10, s), of(11, s), of(12, s), of(13, s), of(14, s), of(15, s)
#define NX__PLACES(of, s) (nx__places) {NX_PASTE(NX__PLACES, NX_LANES)(of, s)}
#define NX__ROUND(x, step)                                                                                    \
    _Pragma("GCC unroll 16") for (int r = 0; r < NX_LANES; r++) {                                             \
        if (r & (step)) continue;                                                                             \
        const __typeof__((x)[0]) low = __builtin_shuffle((x)[r], (x)[r + (step)], NX__PLACES(NX__KEEP, step)); \
        (x)[r + (step)] = __builtin_shuffle((x)[r], (x)[r + (step)], NX__PLACES(NX__MOVE, step));             \
        (x)[r] = low;                                                                                         \
    }
#define NX__ROUNDS_4(x) NX__ROUND(x, 1) NX__ROUND(x, 2)
#define NX__ROUNDS_8(x) NX__ROUNDS_4(x) NX__ROUND(x, 4)
#define NX__ROUNDS_16(x) NX__ROUNDS_8(x) NX__ROUND(x, 8)
#define NX__TURN(x) NX_PASTE(NX__ROUNDS, NX_LANES)(x)

#endif
