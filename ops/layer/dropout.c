/* The kernel of native_dropout: which elements are kept is drawn as bernoulli_ draws it, in the order in which the mask
 * lies in memory; then the elements are multiplied by it and by the scale. Halves are computed in float. */
#include "gen/kernels.h"

typedef struct product { nx_dtype dtype; double scale; } product;

enum { CHUNK = 256, COST = 16 };
#define DEFINE(real, code)                                                                               \
    static void keep_##real(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {             \
        const product *p = arg;                                                                          \
        real x[CHUNK], mask[CHUNK], scale = (real)p->scale;                                              \
        for (int64_t at = 0, count; at < n; at += count) {                                               \
            count = n - at < CHUNK ? n - at : CHUNK;                                                     \
            nx_cast(code, (char *)x, sizeof *x, p->dtype, ptrs[1] + at * steps[1], steps[1], count);     \
            nx_cast(code, (char *)mask, sizeof *x, NX_BOOL, ptrs[2] + at * steps[2], steps[2], count);   \
            for (int64_t i = 0; i < count; i++) x[i] = x[i] * mask[i] * scale;                           \
            nx_cast(p->dtype, ptrs[0] + at * steps[0], steps[0], code, (const char *)x, sizeof *x, count); \
        }                                                                                                \
    }
DEFINE(float, NX_F32)
DEFINE(double, NX_F64)

static void fill_mask(const nx_array *mask) { /* dense, as its rule makes it */
    if (mask->numel) memset(mask->data, 1, (size_t)mask->numel);
}

nx_status nx__dropout_keep(nx_run *run, const nx_array *input, double p, nx_value train, nx_generator *generator,
                           nx_array *out, nx_array *mask) {
    product keep = {(nx_dtype)input->dtype, p == 1 ? 0 : 1 / (1 - p)};
    if (train.tag == NX_TAG_BOOL && !train.i) {
        fill_mask(mask);
        nx_copy_cast(out, input);
        return NX_OK;
    }
    NX_TRY(nx__bernoulli_fill(run, mask, 1 - p, generator));
    nx_walk walk;
    nx_walk_start(&walk, out->ndim, out->sizes);
    nx_walk_add(&walk, out);
    nx_walk_add(&walk, input);
    nx_walk_add(&walk, mask);
    nx_walk_merge(&walk);
    nx_walk_spread(&walk, COST, keep.dtype == NX_F64 ? keep_double : keep_float, &keep);
    return NX_OK;
}
