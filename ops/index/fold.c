/* Kernel of scatter_reduce: operands are laid out in double, or int64 where the dtype is an integer, and places are
 * written in the order of the index, so that results have the same bits for any number of threads: there is one. */
#include <math.h>

#include "gen/kernels.h"
#include "shared/packed.h"

typedef enum fold_kind { FOLD_SUM, FOLD_PROD, FOLD_MEAN, FOLD_MAX, FOLD_MIN } fold_kind;
static const char *const fold_names[] = {"sum", "prod", "mean", "amax", "amin"};
enum { N_FOLDS = 5 };

typedef struct fold {
    char *out, *src;
    int64_t *at, *count; /* count: how many were folded into each place */
    const nx_array *self, *index, *from;
    int dim;
    fold_kind kind;
    bool include_self;
} fold;

static double fold_double(fold_kind kind, double a, double b) {
    switch (kind) {
    case FOLD_PROD: return a * b;
    case FOLD_MAX: return a != a || a > b ? a : b;
    case FOLD_MIN: return a != a || a < b ? a : b;
    default: return a + b;
    }
}
static int64_t fold_int64_t(fold_kind kind, int64_t a, int64_t b) {
    switch (kind) {
    case FOLD_PROD: return (int64_t)((uint64_t)a * (uint64_t)b);
    case FOLD_MAX: return a > b ? a : b;
    case FOLD_MIN: return a < b ? a : b;
    default: return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}
/* PyTorch rounds the mean of integers down. */
static double mean_double(double sum, int64_t n) { return sum / (double)n; }
static int64_t mean_int64_t(int64_t sum, int64_t n) { return sum / n - (sum % n < 0); }

/* Steps of the packed a. */
static void steps_of(const nx_array *a, int64_t *steps) {
    int64_t step = 1;
    for (int d = a->ndim - 1; d >= 0; step *= a->sizes[d--]) steps[d] = step;
}

/* The index goes by row after row of its last dimension; those of a place of `out` come in order. */
#define FOLD_ROW(real, kind)                                                                                      \
    for (int64_t q = 0; q < n; q++, to += to_step, from += from_step) {                                           \
        int64_t place = to + at[q] * k_step;                                                                      \
        bool first = f->count[place]++ == 0 && !f->include_self;                                                  \
        out[place] = first ? src[from] : fold_##real(kind, out[place], src[from]);                                \
    }                                                                                                             \
    break
#define DEFINE(real)                                                                                              \
    static void fold_row_##real(const fold *f, const int64_t *at, int64_t n, int64_t k_step, int64_t to,          \
                                int64_t to_step, int64_t from, int64_t from_step) {                               \
        real *out = (real *)f->out;                                                                               \
        const real *src = (const real *)f->src;                                                                   \
        switch (f->kind) {                                                                                        \
        case FOLD_PROD: FOLD_ROW(real, FOLD_PROD);                                                                \
        case FOLD_MAX: FOLD_ROW(real, FOLD_MAX);                                                                  \
        case FOLD_MIN: FOLD_ROW(real, FOLD_MIN);                                                                  \
        default: FOLD_ROW(real, FOLD_SUM);                                                                        \
        }                                                                                                         \
    }                                                                                                             \
    static void run_##real(const fold *f) {                                                                       \
        int64_t self_steps[NX_MAX_DIMS + 1] = {0}, from_steps[NX_MAX_DIMS + 1] = {0};                             \
        int last = f->index->ndim - 1;                                                                            \
        int64_t n = last >= 0 ? f->index->sizes[last] : 1;                                                        \
        steps_of(f->self, self_steps);                                                                            \
        steps_of(f->from, from_steps);                                                                            \
        for (int64_t i = 0; i < f->index->numel; i += n) {                                                        \
            int64_t to = 0, from = 0, rest = i / n;                                                               \
            for (int d = last - 1; d >= 0; rest /= f->index->sizes[d--]) {                                        \
                int64_t k = rest % f->index->sizes[d];                                                            \
                to += d == f->dim ? 0 : k * self_steps[d];                                                        \
                from += k * from_steps[d];                                                                        \
            }                                                                                                     \
            fold_row_##real(f, f->at + i, n, self_steps[f->dim], to, last < 0 || last == f->dim ? 0 : self_steps[last], \
                            from, last < 0 ? 0 : from_steps[last]);                                               \
        }                                                                                                         \
        for (int64_t i = 0; f->kind == FOLD_MEAN && i < f->self->numel; i++) {                                    \
            if (f->count[i]) ((real *)f->out)[i] = mean_##real(((real *)f->out)[i], f->count[i] + f->include_self); \
        }                                                                                                         \
    }
DEFINE(double)
DEFINE(int64_t)
#undef DEFINE
#undef FOLD_ROW

static nx_status find_kind(const char *name, fold_kind *out) {
    for (int k = 0; k < N_FOLDS; k++) {
        *out = (fold_kind)k;
        if (strcmp(name, fold_names[k]) == 0) return NX_OK;
    }
    return nx_fail(NX_RUNTIME, "reduce argument must be either sum, prod, mean, amax or amin, got %s", name);
}

static nx_status check_places(const nx_run *run, const fold *f) {
    int64_t limit = f->self->ndim ? f->self->sizes[f->dim] : 1;
    for (int64_t i = 0; i < f->index->numel; i++) {
        if (f->at[i] >= 0 && f->at[i] < limit) continue;
        return nx_fail(NX_RUNTIME, "%s: index %lld is out of bounds for dimension %d with size %lld",
                       nx_op_name(run->op), (long long)f->at[i], f->dim, (long long)limit);
    }
    return NX_OK;
}

nx_status nx__scatter_folds(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *src,
                            nx_value reduce, bool include_self, nx_array *out) {
    bool is_float = nx_is_float((nx_dtype)self->dtype);
    nx_dtype in = is_float ? NX_F64 : NX_I64;
    fold f = {.self = self, .index = index, .from = src, .dim = (int)dim, .include_self = include_self};
    size_t bytes;
    NX_TRY(find_kind(reduce.str, &f.kind));
    nx_status status = nx_bytes_of(self->numel + 1, sizeof(int64_t), &bytes);
    if (status == NX_OK && (f.count = nx_alloc(bytes)) == NULL) status = nx_fail_memory(bytes);
    if (status == NX_OK) memset(f.count, 0, bytes);
    if (status == NX_OK) status = nx__packed_new(index, NX_I64, &f.at);
    if (status == NX_OK) status = nx__packed_new(self, in, &f.out);
    if (status == NX_OK) status = nx__packed_new(src, in, &f.src);
    if (status == NX_OK) status = check_places(run, &f);
    if (status == NX_OK) {
        int64_t dims[2 * NX_MAX_DIMS], step = 1;
        nx_array rows;
        if (is_float) run_double(&f);
        else run_int64_t(&f);
        nx_array_copy(&rows, out, dims);
        rows.data = f.out;
        rows.dtype = in;
        for (int d = rows.ndim - 1; d >= 0; step *= rows.sizes[d--]) rows.strides[d] = step;
        nx_array_refresh(&rows);
        nx_copy_cast(out, &rows);
    }
    nx_free(f.count);
    nx_free(f.at);
    nx_free(f.out);
    nx_free(f.src);
    return status;
}
