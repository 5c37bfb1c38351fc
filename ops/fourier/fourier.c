/* Kernels of fourier.op: transforms along one dimension after the other. In: arrays whose sizes the shape rules made; out:
 * results filled. Lines are brought side by side into memory of their own, transformed (fourier_rows.c) and put where they
 * belong, blocks of lines by thread; what a block holds follows from the sizes alone, so the bits do not depend on the number
 * of threads. A length with a large prime is transformed as a convolution, in double. Next: fourier_plan.h. */
#include "fourier_plan.h"
#include "gen/kernels.h"

#include <math.h>

enum { TOGETHER = 8, ALONE = 8192 }; /* lines in a block; from this length on each is one */

/* One dimension of `from` transformed into `to`, which may be the same array. */
typedef struct pass {
    const nx_array *from, *to;
    int dim;
    const nx__fourier *fourier;
    bool backward, whole; /* whole: a complex line is given by its first half */
    double scale;
    int64_t n_lines, width;
} pass;

/* The first element of line number `nth` in `a`: lines are counted row by row over the other dimensions. */
static char *line_at(const nx_array *a, const pass *all, int64_t nth) {
    int64_t offset = 0;
    for (int k = all->to->ndim - 1; k >= 0; k--) {
        if (k == all->dim) continue;
        offset += nth % all->to->sizes[k] * a->strides[k];
        nth /= all->to->sizes[k];
    }
    return (char *)a->data + offset * (int64_t)nx_dtype_bytes((nx_dtype)a->dtype);
}

/* A line of `a` as column `at` of parts in `wide` or not; `backward` swaps the parts. */
#define MOVES(name, part, element)                                                                                             \
    static void bring_##name(const pass *all, const char *line, void *re_, void *im_, int64_t at) {                           \
        const nx_array *a = all->from;                                                                                         \
        bool is_complex = a->dtype == NX_C64 || a->dtype == NX_C128;                                                           \
        int64_t n = all->fourier->n, there = a->sizes[all->dim], step = a->strides[all->dim] * (is_complex ? 2 : 1);            \
        part *re = re_, *im = im_;                                                                                             \
        const element *x = (const element *)line;                                                                              \
        for (int64_t k = 0; k < n && k < there; k++) {                                                                         \
            re[k * all->width + at] = (part)x[k * step];                                                                       \
            im[k * all->width + at] = is_complex ? (part)x[k * step + 1] : 0;                                                  \
        }                                                                                                                      \
        if (!all->whole) return;                                                                                               \
        im[at] = 0;                                                                                                            \
        if (n % 2 == 0) im[n / 2 * all->width + at] = 0;                                                                       \
        for (int64_t k = n / 2 + 1; k < n; k++) { /* the conjugates in reverse order */                                        \
            re[k * all->width + at] = re[(n - k) * all->width + at];                                                           \
            im[k * all->width + at] = -im[(n - k) * all->width + at];                                                          \
        }                                                                                                                      \
    }                                                                                                                          \
    static void take_##name(const pass *all, char *line, const void *re_, const void *im_, int64_t at) {                      \
        const nx_array *a = all->to;                                                                                           \
        bool is_complex = a->dtype == NX_C64 || a->dtype == NX_C128;                                                           \
        int64_t there = a->sizes[all->dim], step = a->strides[all->dim] * (is_complex ? 2 : 1);                                \
        const part *re = re_, *im = im_;                                                                                       \
        element *x = (element *)line;                                                                                          \
        part scale = (part)all->scale;                                                                                         \
        for (int64_t k = 0; k < there; k++) {                                                                                  \
            x[k * step] = (element)(re[k * all->width + at] * scale);                                                          \
            if (is_complex) x[k * step + 1] = (element)(im[k * all->width + at] * scale);                                      \
        }                                                                                                                      \
    }
MOVES(narrow, float, float)
MOVES(widened, double, float)
MOVES(wide, double, double)

typedef void bring_fn(const pass *all, const char *line, void *re, void *im, int64_t at);
typedef void take_fn(const pass *all, char *line, const void *re, const void *im, int64_t at);

static nx_status run_blocks(void *arg, int64_t begin, int64_t end) {
    const pass *all = arg;
    const nx__fourier *fourier = all->fourier;
    bool of_double = all->to->dtype == NX_F64 || all->to->dtype == NX_C128;
    bring_fn *bring = of_double ? bring_wide : fourier->wide ? bring_widened : bring_narrow;
    take_fn *take = of_double ? take_wide : fourier->wide ? take_widened : take_narrow;
    size_t part = (fourier->wide ? sizeof(double) : sizeof(float)) * (size_t)fourier->room * (size_t)all->width;
    char *memory = nx_alloc(4 * part);
    if (memory == NULL) return nx_fail_memory(4 * part);
    char *re = memory, *im = memory + part;
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * all->width, n = nx_least(all->width, all->n_lines - first);
        for (int64_t at = 0; at < all->width; at++) /* what a last block lacks repeats its last line */
            bring(all, line_at(all->from, all, first + nx_least(at, n - 1)), re, im, at);
        void *found[2];
        if (all->backward) nx__fourier_run(fourier, all->width, im, re, memory + 2 * part, &found[1], &found[0]);
        else nx__fourier_run(fourier, all->width, re, im, memory + 2 * part, &found[0], &found[1]);
        for (int64_t at = 0; at < n; at++) take(all, line_at(all->to, all, first + at), found[0], found[1], at);
    }
    nx_free(memory);
    return NX_OK;
}

static nx_status transform(const nx_array *from, const nx_array *to, int64_t dim, int64_t n, bool backward, bool whole,
                           double scale) {
    if (to->numel == 0) return NX_OK;
    nx__fourier fourier;
    bool of_double = to->dtype == NX_F64 || to->dtype == NX_C128;
    NX_TRY(nx__fourier_new(n, of_double, &fourier));
    pass all = {from, to, (int)dim, &fourier, backward, whole, scale, to->numel / to->sizes[dim], 1};
    if (n < ALONE) all.width = nx_least(all.n_lines, TOGETHER);
    int64_t n_blocks = (all.n_lines + all.width - 1) / all.width, cost = fourier.cost * all.width;
    nx_status status;
    if (n_blocks > 1) {
        status = nx_parallel(n_blocks, nx_grain(cost), run_blocks, &all);
    } else {
        void *token = nx_long_begin(cost);
        status = run_blocks(&all, 0, 1);
        if (token) nx_block_end(token);
    }
    nx__fourier_free(&fourier);
    return status;
}

/* By what the numbers are multiplied: normalization 0: 1; 1: one by the root of the count; 2: one by the count. */
static double scale_of(int64_t normalization, const int64_t *dim, int n_dim, const int64_t *size) {
    double count = 1;
    for (int k = 0; k < n_dim; k++) count *= (double)size[dim[k]];
    return normalization == 0 ? 1 : normalization == 1 ? 1 / sqrt(count) : 1 / count;
}

/* Dimensions dim[0..n) of `from` into `to`, which all but the first pass work on in place. */
static nx_status pass_all(const nx_array *from, const nx_array *to, const int64_t *dim, int n_dim, bool backward,
                          double scale) {
    if (n_dim == 0 && from != to) nx_copy_cast(to, from);
    for (int k = n_dim - 1; k >= 0; k--) {
        NX_TRY(transform(from, to, dim[k], to->sizes[dim[k]], backward, false, k == 0 ? scale : 1));
        from = to;
    }
    return NX_OK;
}

nx_status nx__fourier_c2c(nx_run *run, const nx_array *self, const int64_t *dim, int n_dim, int64_t normalization, bool forward,
                          nx_array *result) {
    return pass_all(self, result, dim, n_dim, !forward, scale_of(normalization, dim, n_dim, self->sizes));
}

nx_status nx__fourier_r2c(nx_run *run, const nx_array *self, const int64_t *dim, int n_dim, int64_t normalization, bool onesided,
                          nx_array *result) {
    double scale = scale_of(normalization, dim, n_dim, self->sizes);
    int64_t last = dim[n_dim - 1];
    NX_TRY(transform(self, result, last, self->sizes[last], false, false, n_dim == 1 ? scale : 1));
    return pass_all(result, result, dim, n_dim - 1, false, scale);
}

nx_status nx__fourier_c2r(nx_run *run, const nx_array *self, const int64_t *dim, int n_dim, int64_t normalization,
                          int64_t last_dim_size, nx_array *result) {
    double scale = scale_of(normalization, dim, n_dim, result->sizes);
    int64_t last = dim[n_dim - 1];
    if (n_dim == 1) return transform(self, result, last, last_dim_size, true, true, scale);
    size_t bytes = (size_t)self->numel * nx_dtype_bytes((nx_dtype)self->dtype);
    nx_array between = *self; /* the same sizes, row by row */
    int64_t strides[NX_MAX_DIMS];
    between.strides = strides;
    for (int64_t k = self->ndim - 1, step = 1; k >= 0; step *= self->sizes[k--]) strides[k] = step;
    between.data = nx_alloc(bytes);
    if (between.data == NULL) return nx_fail_memory(bytes);
    nx_status status = pass_all(self, &between, dim, n_dim - 1, true, 1);
    if (status == NX_OK) status = transform(&between, result, last, last_dim_size, true, true, scale);
    nx_free(between.data);
    return status;
}
