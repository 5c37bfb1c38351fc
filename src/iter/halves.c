/* Element loops of float16: those of float32 on numbers that a level's casts widen before and narrow behind, so that the
 * instructions of the processor which convert many at once serve every operator. */
#include "iter/private.h"

enum { PIECE = 512, MAX_OPERANDS = 5 };

void nx_loop_by_floats(nx_loop_fn *loop, int n_operands, char *const *ptrs, const int64_t *steps, int64_t n,
                       const nx_const *constants) {
    _Alignas(64) float numbers[MAX_OPERANDS][PIECE];
    assert(n_operands <= MAX_OPERANDS);
    const nx__moves *moves = nx__moves_get();
    nx__cast_fn *widen = moves->cast[NX_F16][NX_F32], *narrow = moves->cast[NX_F32][NX_F16];
    char *wide[MAX_OPERANDS];
    int64_t wide_steps[MAX_OPERANDS];
    for (int k = 0; k < n_operands; k++) {
        bool held = k > 0 && steps[k] == 0; /* one number throughout */
        wide[k] = (char *)numbers[k];
        wide_steps[k] = held ? 0 : (int64_t)sizeof(float);
        if (held) widen(wide[k], 0, ptrs[k], 0, 1);
    }
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t here = n - at < PIECE ? n - at : PIECE;
        for (int k = 1; k < n_operands; k++) {
            if (wide_steps[k] != 0) widen(wide[k], wide_steps[k], ptrs[k] + at * steps[k], steps[k], here);
        }
        loop(wide, wide_steps, here, constants);
        narrow(ptrs[0] + at * steps[0], steps[0], wide[0], wide_steps[0], here);
    }
}
