/* Kernel of scatter_reduce: places as in places.c, folded in float32, float64 or int64; other dtypes are laid out in one of
 * these meanwhile. Without `include_self` the places that are named first become what changes nothing. A mean is a sum and a
 * count of what was added. */
#include <float.h>
#include <math.h>

#include "gen/kernels.h"
#include "index/places.h"
#include "kernel/kernel.h"
#include "shared/packed.h"

typedef enum fold_kind { FOLD_SUM, FOLD_PROD, FOLD_MEAN, FOLD_MAX, FOLD_MIN } fold_kind;
static const char *const fold_names[] = {"sum", "prod", "mean", "amax", "amin"};
enum { N_FOLDS = 5 };

#define PROD_float(a, b) ((a) * (b))
#define PROD_double(a, b) ((a) * (b))
#define PROD_int64_t(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
/* Without branches, so that rows become vectors. */
#define MAX_float(a, b) nx_largerf(a, b)
#define MAX_double(a, b) nx_larger(a, b)
#define MAX_int64_t(a, b) ((a) > (b) ? (a) : (b))
#define MIN_float(a, b) nx_smallerf(a, b)
#define MIN_double(a, b) nx_smaller(a, b)
#define MIN_int64_t(a, b) ((a) < (b) ? (a) : (b))
#define DEFINE_EACH(type)                                                 \
    NX__PLACE_FNS(prod_##type, type, *there = PROD_##type(*there, *here)) \
    NX__PLACE_FNS(max_##type, type, *there = MAX_##type(*there, *here))   \
    NX__PLACE_FNS(min_##type, type, *there = MIN_##type(*there, *here))
DEFINE_EACH(float)
DEFINE_EACH(double)
DEFINE_EACH(int64_t)

static const nx__place_fns *find_fold(fold_kind kind, nx_dtype dtype) {
#define OF(name) (dtype == NX_F32 ? &fns_##name##_float : dtype == NX_F64 ? &fns_##name##_double : &fns_##name##_int64_t)
    switch (kind) {
    case FOLD_PROD: return OF(prod);
    case FOLD_MAX: return OF(max);
    case FOLD_MIN: return OF(min);
    default: return nx__place_sum(dtype);
    }
#undef OF
}

/* What changes nothing. */
static void store_neutral(fold_kind kind, nx_dtype dtype, char *to) {
    nx_value v = dtype == NX_I64 ? nx_value_int(kind == FOLD_MAX ? INT64_MIN : kind == FOLD_MIN ? INT64_MAX : kind == FOLD_PROD)
                                 : nx_value_float(kind == FOLD_MAX ? -INFINITY : kind == FOLD_MIN ? INFINITY : kind == FOLD_PROD);
    nx_number_store(dtype, &v, to);
}

static nx_status find_kind(const char *name, fold_kind *out) {
    for (int k = 0; k < N_FOLDS; k++) {
        *out = (fold_kind)k;
        if (strcmp(name, fold_names[k]) == 0) return NX_OK;
    }
    return nx_fail(NX_RUNTIME, "reduce argument must be either sum, prod, mean, amax or amin, got %s", name);
}

/* Sums over the number of their terms; PyTorch rounds the mean of integers down. */
#define DIVIDE(type, quotient)                                     \
    for (int64_t i = 0; i < n; i++) {                              \
        type sum = ((type *)out)[i], k = (type)count[i];           \
        ((type *)out)[i] = (quotient);                             \
    }
static void divide(nx_dtype dtype, char *out, const int32_t *count, int64_t n) {
    if (dtype == NX_F32) DIVIDE(float, sum / k)
    else if (dtype == NX_F64) DIVIDE(double, sum / k)
    else DIVIDE(int64_t, sum / k - (sum % k < 0))
}

/* out, row by row, holds sums. */
static nx_status run_mean(nx__places p, int64_t dim, bool include_self) {
    const nx_array *out = p.followed;
    int64_t dims[2 * NX_MAX_DIMS];
    int32_t one = 1, *count = NULL;
    nx_array counts;
    size_t bytes;
    NX_TRY(nx_bytes_of(out->numel + 1, sizeof *count, &bytes));
    if ((count = nx_alloc(bytes)) == NULL) return nx_fail_memory(bytes);
    for (int64_t i = 0; i < out->numel; i++) count[i] = include_self;
    nx_array_copy(&counts, out, dims);
    counts.data = count;
    counts.dtype = NX_I32;
    p.followed = &counts;
    p.other = NULL;
    p.number = (char *)&one;
    p.fns = nx__place_sum(NX_I32);
    nx_status status = nx__places_run(&p, dim, true);
    for (int64_t i = 0; i < out->numel; i++) count[i] = count[i] ? count[i] : 1;
    if (status == NX_OK) divide(out->dtype, out->data, count, out->numel);
    nx_free(count);
    return status;
}

/* out lies row by row and holds self, or is self: then all indices are looked at before anything is written. */
static nx_status fold_into(nx_run *run, int64_t dim, const nx_array *index, const nx_array *src, fold_kind kind, bool include_self,
                           bool in_place, const nx_array *out) {
    _Alignas(16) char neutral[NX_MAX_ELEMENT_BYTES];
    nx__places p = {.run = run, .index = index, .followed = out, .number = neutral, .fns = nx__place_move(out->dtype, true), .f = 1,
                    .i = 1, .in_place = in_place};
    store_neutral(kind, out->dtype, neutral);
    if (!include_self) {
        NX_TRY(nx__places_run(&p, dim, true));
        p.in_place = false; /* all indices are in range */
    }
    p.other = src;
    p.fns = find_fold(kind, out->dtype);
    NX_TRY(nx__places_run(&p, dim, true));
    p.in_place = false;
    return kind == FOLD_MEAN ? run_mean(p, dim, include_self) : NX_OK;
}

nx_status nx__scatter_folds(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *src,
                            nx_value reduce, bool include_self, nx_array *out) {
    nx_dtype dtype = out->dtype;
    nx_dtype in = dtype == NX_F64 ? NX_F64 : nx_is_float(dtype) ? NX_F32 : NX_I64;
    nx__wide to, from;
    fold_kind kind;
    NX_TRY(find_kind(reduce.str, &kind));
    if (in == dtype && out->contiguous) {
        bool in_place = out->data == self->data;
        if (!in_place) nx_copy_cast(out, self);
        return fold_into(run, dim, index, src, kind, include_self, in_place, out);
    }
    NX_TRY(nx__wide_both(self, src, in, &to, &from));
    nx_status status = fold_into(run, dim, index, &from.array, kind, include_self, false, &to.array);
    nx__wide_end(status == NX_OK ? out : NULL, &to, &from);
    return status;
}
