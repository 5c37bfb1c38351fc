/* The kernels of native_dropout and rrelu. Of dropout: which elements are kept is drawn as bernoulli_ draws it, in the
 * order in which the mask lies in memory; then the elements are multiplied by it and by the scale. Halves are computed in float. */
#include "gen/kernels.h"
#include "random/draw.h"

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

/* ---- rrelu ------------------------------------------------------------------------------------------------ */
typedef struct slopes { nx_dtype dtype; double low, high; bool draws; nx_generator *g; } slopes;

static void leak(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const slopes *s = arg;
    int64_t bytes = (int64_t)nx_dtype_bytes(s->dtype);
    for (int64_t i = 0; i < n; i++) {
        double x, factor = 1;
        char *to = ptrs[1] + i * steps[1];
        nx_cast(NX_F64, (char *)&x, 0, s->dtype, ptrs[2] + i * steps[2], 0, 1);
        if (!(x > 0)) factor = s->draws ? nx__uniform_53(s->g) * (s->high - s->low) + s->low : (s->low + s->high) / 2;
        if (s->draws) {
            nx_cast(s->dtype, to, bytes, NX_F64, (const char *)&factor, 0, 1);
            nx_cast(NX_F64, (char *)&factor, 0, s->dtype, to, 0, 1);
        }
        x *= factor;
        nx_cast(s->dtype, ptrs[0] + i * steps[0], bytes, NX_F64, (const char *)&x, 0, 1);
    }
}

/* A bound in the precision of the elements, as in PyTorch. */
static double bound(nx_dtype dtype, const nx_value *given) {
    nx_const exact;
    _Alignas(8) char rounded[8];
    double x;
    nx_const_cast(&exact, given, NX_F64);
    nx_cast(dtype, rounded, 0, NX_F64, (const char *)&exact.f, 0, 1);
    nx_cast(NX_F64, (char *)&x, 0, dtype, rounded, 0, 1);
    return x;
}

nx_status nx__leaky_draws(nx_run *run, const nx_array *self, const nx_array *noise, nx_value lower, nx_value upper,
                          bool training, nx_generator *generator, nx_array *out, nx_array *noise_out) {
    nx_dtype dtype = (nx_dtype)self->dtype;
    slopes s = {dtype, bound(dtype, &lower), bound(dtype, &upper), training, generator};
    nx_walk walk;
    if (!s.draws) nx_copy_cast(noise_out, noise);
    else NX_TRY(nx__check_generator(run, generator));
    nx_walk_start(&walk, out->ndim, out->sizes);
    nx_walk_add(&walk, out);
    nx_walk_add(&walk, noise_out);
    nx_walk_add(&walk, self); /* not merged: row by row, however they lie */
    if (s.draws) nx_generator_lock(generator);
    nx_walk_run(&walk, leak, &s);
    if (s.draws) nx_generator_unlock(generator);
    return NX_OK;
}
