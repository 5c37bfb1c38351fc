/* Elements of one dtype into another, by the loops of the level in use (moves.c), and Python numbers into elements.
 * Next: copy.c, which walks whole arrays. */
#include "iter/private.h"

#include <math.h>

const nx__moves *nx__moves_get(void) {
    static const nx__moves *const moves[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__moves)};
    return moves[nx_level()];
}

enum { PIECE = 512 }; /* elements */

/* Elements with others between them are brought side by side first: the loops take many at once there. */
static void cast_apart(const nx__moves *moves, nx__cast_fn *cast, char *to, int64_t to_step, const char *from, int64_t from_step,
                       int64_t from_bytes, int64_t n) {
    _Alignas(64) char room[PIECE * NX_MAX_ELEMENT_BYTES];
    for (int64_t part; n > 0; n -= part, from += part * from_step, to += part * to_step) {
        part = nx_least(n, PIECE);
        moves->move[from_bytes](room, from_bytes, from, from_step, part);
        cast(to, to_step, room, from_bytes, part);
    }
}

void nx_cast(nx_dtype to_dtype, char *to, int64_t to_step, nx_dtype from_dtype, const char *from,
             int64_t from_step, int64_t n) {
    const nx__moves *moves = nx__moves_get();
    int64_t bytes = (int64_t)nx_dtype_bytes(to_dtype), from_bytes = (int64_t)nx_dtype_bytes(from_dtype);
    if (to_dtype != from_dtype) {
        nx__cast_fn *cast = moves->cast[from_dtype][to_dtype];
        bool apart = n >= NX__WORTH && to_step == bytes && from_step != from_bytes && from_step != 0;
        if (NX_UNLIKELY(cast && apart)) cast_apart(moves, cast, to, to_step, from, from_step, from_bytes, n);
        else if (NX_LIKELY(cast != NULL)) cast(to, to_step, from, from_step, n);
        else nx__rare_cast(moves, to_dtype, to, to_step, from_dtype, from, from_step, n);
    } else if (to_step == bytes && from_step == bytes && n > 0) moves->bytes(to, from, n * bytes);
    else moves->move[bytes](to, to_step, from, from_step, n);
}

/* ---- Python numbers ------------------------------------------------------------------------------------ */
/* What a complex number has of a real one is its real part. */
static inline double as_float(const nx_value *number) {
    return number->tag == NX_TAG_FLOAT ? number->f : number->tag == NX_TAG_COMPLEX ? number->parts[0] : (double)number->i;
}

void nx_const_cast(nx_const *to, const nx_value *number, nx_dtype computing) {
    bool is_whole = number->tag != NX_TAG_FLOAT && number->tag != NX_TAG_COMPLEX;
    double f = as_float(number);
    if (NX_UNLIKELY(nx_is_complex(computing))) {
        bool is_single = computing == NX_C64;
        double im = number->tag == NX_TAG_COMPLEX ? number->parts[1] : 0;
        to->parts[0] = is_single ? (float)f : f;
        to->parts[1] = is_single ? (float)im : im;
        return;
    }
    if (computing == NX_F64) to->f = f;
    else if (nx_is_float(computing)) to->f = (float)f;
    else if (computing == NX_BOOL) to->i = is_whole ? number->i != 0 : f != 0;
    else to->i = is_whole ? number->i : (int64_t)f;
    if (computing == NX_U8) to->i = (uint8_t)to->i; /* a negative integer wraps, as in PyTorch */
}

/* What a number that is absent stands for, in the computing dtype. */
static void absent_constant(nx_absent absent, nx_dtype computing, nx_const *to) {
    const nx_dtype_facts *facts = &nx__dtype_facts[nx_dtype_real(computing)]; /* a complex number has that of its parts' type */
    bool top = absent == NX_ABSENT_HIGHEST || absent == NX_ABSENT_HIGHEST_FINITE;
    if (nx_is_float(computing)) {
        bool finite = absent == NX_ABSENT_LOWEST_FINITE || absent == NX_ABSENT_HIGHEST_FINITE;
        double highest = finite ? facts->highest : INFINITY;
        to->f = absent == NX_ABSENT_ZERO ? 0 : top ? highest : -highest;
    } else if (nx_is_complex(computing)) {
        to->parts[0] = absent == NX_ABSENT_ZERO ? 0 : top ? facts->highest : -facts->highest;
        to->parts[1] = 0;
    } else if (absent == NX_ABSENT_ZERO || !nx_is_int(computing)) {
        to->i = top; /* bool */
    } else {
        int bits = 8 * (int)nx_dtype_bytes(computing), is_signed = facts->category == NX_CATEGORY_SIGNED;
        int64_t highest = INT64_MAX >> (63 - bits + is_signed);
        to->i = top ? highest : is_signed ? -highest - 1 : 0;
    }
}

void nx_point_constant(const nx_point *point, int k, const nx_value *number, nx_dtype computing, nx_const *to) {
    if (NX_LIKELY(number->tag != NX_TAG_NONE)) nx_const_cast(to, number, computing);
    else absent_constant((nx_absent)point->absent[k], computing, to);
}

void nx_number_store(nx_dtype dtype, const nx_value *number, char *to) {
    if (number->tag == NX_TAG_COMPLEX) nx_cast(dtype, to, 0, NX_C128, (const char *)number->parts, 0, 1);
    else if (number->tag == NX_TAG_FLOAT) nx_cast(dtype, to, 0, NX_F64, (const char *)&number->f, 0, 1);
    else nx_cast(dtype, to, 0, NX_I64, (const char *)&number->i, 0, 1);
}

/* ---- element loops for operands that lie otherwise, or are of another dtype, than the loop wants (gen/write_loops.py) ----------
 * Half types, but for dense operands of what costs little: by the loop of float32, on numbers that a level's casts widen before
 * and narrow behind. */
enum { MAX_OPERANDS = 5 };

void nx_loop_by_floats(nx_loop_fn *loop, nx_loop_half half, int n_operands, char *const *ptrs, const int64_t *steps,
                       int64_t n, const nx_const *constants) {
    _Alignas(64) float numbers[MAX_OPERANDS][PIECE];
    assert(n_operands <= MAX_OPERANDS);
    const nx__moves *moves = nx__moves_get();
    const nx_dtype dtype = half == NX_LOOP_F16 ? NX_F16 : NX_BF16;
    nx__cast_fn *widen = moves->cast[dtype][NX_F32], *narrow = moves->cast[NX_F32][dtype];
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

void nx_loop_side_by_side(nx_loop_fn *loop, int bytes, int n_operands, char *const *ptrs, const int64_t *steps, int64_t n,
                          const nx_const *constants) {
    _Alignas(64) char room[MAX_OPERANDS][PIECE * NX_MAX_ELEMENT_BYTES];
    assert(n_operands <= MAX_OPERANDS);
    nx__cast_fn *move = nx__moves_get()->move[bytes];
    char *dense[MAX_OPERANDS];
    int64_t dense_steps[MAX_OPERANDS];
    for (int k = 0; k < n_operands; k++) dense_steps[k] = bytes;
    for (int64_t at = 0, here; at < n; at += here) {
        here = nx_least(n - at, PIECE);
        for (int k = 0; k < n_operands; k++) {
            char *operand = ptrs[k] + at * steps[k];
            bool lies_so = steps[k] == bytes, is_there = steps[k] == 0 && at > 0; /* one number, from the piece before */
            dense[k] = lies_so ? operand : room[k];
            if (k > 0 && !lies_so && !is_there) move(room[k], bytes, operand, steps[k], here);
        }
        loop(dense, dense_steps, here, constants);
        if (steps[0] != bytes) move(ptrs[0] + at * steps[0], steps[0], room[0], bytes, here);
    }
}
