/* The elements of a vector where a mask is True, one after the other. In: both vectors, how many are True, in any layout; out:
 * that many elements, or a failure if there are not as many. A piece of the mask is counted, then its elements are picked without
 * a branch, since nobody can foresee which; so it takes the same time for every mask. */
#include "gen/kernels.h"
#include "shared/packed.h"

enum { BLOCK = 256, BLOCKS = 32, PIECE = BLOCK * BLOCKS }; /* elements that are picked together, that are counted together */

typedef struct selection { const uint8_t *mask; const char *x; char *out; int64_t n, bytes, *first; } selection;

static nx_status count_pieces(void *arg, int64_t begin, int64_t end) {
    const selection *s = arg;
    for (int64_t p = begin; p < end; p++) {
        int64_t total = 0, last = nx_least(s->n, (p + 1) * PIECE);
        for (int64_t i = p * PIECE; i < last; i += BLOCK / 2) { /* sums of as many fit a byte */
            uint8_t part = 0;
            for (int64_t k = i; k < nx_least(last, i + BLOCK / 2); k++) part = (uint8_t)(part + s->mask[k]);
            total += part;
        }
        s->first[p + 1] = total;
    }
    return NX_OK;
}

typedef struct two { uint64_t at[2]; } two;
/* Of n <= BLOCK elements those that the mask has; returns how many. */
#define PICK(name, type)                                                                        \
    static int64_t name(const uint8_t *mask, const char *from, int64_t n, char *out) {          \
        type room[BLOCK + 1];                                                                   \
        int64_t found = 0;                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                       \
            room[found] = ((const type *)from)[i];                                              \
            found += mask[i];                                                                   \
        }                                                                                       \
        memcpy(out, room, (size_t)found * sizeof(type));                                        \
        return found;                                                                           \
    }
PICK(pick_1, uint8_t)
PICK(pick_2, uint16_t)
PICK(pick_4, uint32_t)
PICK(pick_8, uint64_t)
PICK(pick_16, two)

static nx_status pick_pieces(void *arg, int64_t begin, int64_t end) {
    const selection *s = arg;
    int64_t (*pick)(const uint8_t *, const char *, int64_t, char *) =
        s->bytes == 1 ? pick_1 : s->bytes == 2 ? pick_2 : s->bytes == 4 ? pick_4 : s->bytes == 8 ? pick_8 : pick_16;
    for (int64_t p = begin; p < end; p++) {
        char *to = s->out + s->first[p] * s->bytes;
        int64_t last = nx_least(s->n, (p + 1) * PIECE);
        for (int64_t i = p * PIECE; i < last; i += BLOCK)
            to += pick(s->mask + i, s->x + i * s->bytes, nx_least(last - i, BLOCK), to) * s->bytes;
    }
    return NX_OK;
}

static nx_status pick_all(const nx_run *run, selection *s, const nx_array *out) {
    int64_t pieces = (s->n + PIECE - 1) / PIECE;
    NX_TRY(nx_parallel(pieces, nx_grain(PIECE), count_pieces, s));
    s->first[0] = 0;
    for (int64_t p = 0; p < pieces; p++) s->first[p + 1] += s->first[p];
    if (s->first[pieces] != out->numel)
        return nx_fail(NX_RUNTIME, "%s: %lld elements are selected, not %lld", nx_op_name(run->op), (long long)s->first[pieces],
                       (long long)out->numel);
    if (out->numel == 0) return NX_OK; /* which may lie nowhere */
    return nx_parallel(pieces, nx_grain(2 * PIECE), pick_pieces, s);
}

nx_status nx__select_where(nx_run *run, const nx_array *self, const nx_array *mask, nx_array *out) {
    selection s = {.n = self->numel, .out = out->data, .bytes = (int64_t)nx_dtype_bytes((nx_dtype)self->dtype)};
    char *packed_x = NULL;
    uint8_t *packed_mask = NULL;
    size_t bytes;
    NX_TRY(nx_bytes_of(s.n / PIECE + 2, sizeof(int64_t), &bytes));
    s.first = nx_room_new(bytes);
    nx_status status = s.first ? NX_OK : nx_fail_memory(bytes);
    if (status == NX_OK && !self->contiguous) status = nx__packed_new(self, (nx_dtype)self->dtype, &packed_x);
    if (status == NX_OK && !mask->contiguous) status = nx__packed_new(mask, NX_BOOL, &packed_mask);
    s.x = packed_x ? packed_x : self->data;
    s.mask = packed_mask ? packed_mask : mask->data;
    if (status == NX_OK) status = pick_all(run, &s, out);
    nx_room_free(packed_mask);
    nx_room_free(packed_x);
    nx_room_free(s.first);
    return status;
}
