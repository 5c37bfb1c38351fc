/* Kernels of fourier.op: transforms along one dimension after the other. In: arrays whose sizes the shape rules made; out:
 * results filled. Lines whose numbers are neighbours go alone where their length is whole vectors. Others are brought side by
 * side into memory of their own, transformed (fourier_rows.c) and put where they belong, blocks of lines by thread; what a block
 * holds follows from the sizes alone, so the bits do not depend on the number of threads. Real lines of an even length are
 * complex lines of half of it. Where there are few lines, and a block would be mostly empty, one is rows and columns that are
 * transformed one after the other. Next: fourier_plan.h. */
#include "fourier_plan.h"
#include "gen/kernels.h"

#include <math.h>

enum { LONG = 1 << 14, SPLIT = 256 }; /* from which length on a line is split: in any case; where there are few lines */

/* One dimension of `from` transformed into `to`, which may be the same array. Either may be real. */
typedef struct pass {
    const nx_array *from, *to;
    int dim;
    const nx__fourier *fourier;
    bool backward;
    double scale;
    int64_t n_lines;
    int64_t turned; /* not 0: number k of the result is multiplied by root k * the line's last coordinate of that many */
} pass;

static bool is_complex(const nx_array *a) { return a->dtype == NX_C64 || a->dtype == NX_C128; }
/* Whether the numbers of a line are neighbours in both. */
static bool lies_along(const nx_array *from, const nx_array *to, int dim) { return from->strides[dim] == 1 && to->strides[dim] == 1; }
static bool is_double(const nx_array *a) { return a->dtype == NX_F64 || a->dtype == NX_C128; }

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

/* `halved`: two real numbers in turn are one complex number. */
static nx__fourier_side side_of(const nx_array *a, const pass *all, bool halved, int64_t first, int lanes) {
    nx__fourier_side side = {.n_lines = (int)nx_least(lanes, all->n_lines - first), .step = a->strides[all->dim]};
    for (int j = 0; j < lanes; j++)
        side.line[j] = j < side.n_lines ? line_at(a, all, first + j) : side.line[side.n_lines - 1];
    if (is_complex(a)) side.apart = 1;
    else if (halved) side.apart = side.step;
    if (side.apart) side.step *= 2;
    return side;
}

/* Rows behind the first half of n, `lanes` numbers each: the conjugates in reverse order. */
static void fill_mirrored(const nx__fourier *f, int64_t n, int64_t lanes, char *re, char *im) {
    int64_t bytes = lanes * (int64_t)(f->wide ? sizeof(double) : sizeof(float));
    for (int64_t k = n / 2 + 1; k < n; k++) {
        memcpy(re + k * bytes, re + (n - k) * bytes, (size_t)bytes);
        for (int64_t j = 0; j < lanes; j++) {
            if (f->wide) ((double *)(void *)im)[k * lanes + j] = -((double *)(void *)im)[(n - k) * lanes + j];
            else ((float *)(void *)im)[k * lanes + j] = -((float *)(void *)im)[(n - k) * lanes + j];
        }
    }
}

/* Multiplies a block of columns by their roots, see pass.turned; `tables` has room for twice 2 * n_low rows of them. */
static void turn(const pass *all, int64_t first, double *tables, int64_t n_low, void *re, void *im) {
    const nx__fourier *f = all->fourier;
    int64_t lanes = nx__fourier_lanes(f->wide), last = all->to->sizes[all->to->ndim - 1], n = all->turned;
    double *low = tables, *power = tables + 2 * lanes * n_low;
    for (int64_t j = 0; j < lanes; j++) {
        int64_t column = (first + j) % last;
        for (int64_t k = 0; k < n_low; k++) {
            double *at = low + 2 * lanes * k + j, *high = power + 2 * lanes * k + j;
            nx__fourier_root(column * k % n, n, at, at + lanes);
            if (k * n_low < f->n) nx__fourier_root(column * k * n_low % n, n, high, high + lanes);
        }
    }
    f->fns->turn(f->n, n_low, power, low, re, im);
}

/* A block from `from` into (re, im) and through the transform; the result lies in found. */
static void transform_block(const pass *all, const nx__fourier_side *from, char *re, char *im, void *more, void **found) {
    const nx__fourier *f = all->fourier;
    int64_t there = all->from->sizes[all->dim], n = f->n;
    bool real_from = !is_complex(all->from), real_to = !is_complex(all->to);
    f->fns->bring(from, real_from ? n : there, re, im);
    if (real_to && f->half_re) {
        f->fns->pack(n, f->half_re, f->half_im, re, im);
    } else if (real_to) {
        memset(im, 0, NX__FOURIER_BYTES);
        fill_mirrored(f, n, nx__fourier_lanes(f->wide), re, im);
    }
    if (all->backward) nx__fourier_run(f, false, im, re, more, &found[1], &found[0]);
    else nx__fourier_run(f, false, re, im, more, &found[0], &found[1]);
    if (real_from && f->half_re) f->fns->unpack(n, f->half_re, f->half_im, found[0], found[1]);
}

static nx_status run_blocks(void *arg, int64_t begin, int64_t end) {
    const pass *all = arg;
    const nx__fourier *f = all->fourier;
    bool halved = f->half_re != NULL;
    int lanes = (int)nx__fourier_lanes(f->wide);
    int64_t there = all->to->sizes[all->dim], n = halved ? 2 * f->n : f->n, rows = is_complex(all->to) ? there : f->n;
    int64_t n_low = all->turned ? (int64_t)sqrt((double)f->n) + 1 : 0;
    size_t part = nx__fourier_part_bytes(f, false);
    size_t bytes = 4 * part + (size_t)(4 * n_low * lanes) * sizeof(double);
    char *memory = nx_room_new(bytes);
    if (memory == NULL) return nx_fail_memory(bytes);
    for (int64_t block = begin; block < end; block++) {
        nx__fourier_side from = side_of(all->from, all, halved, block * lanes, lanes);
        nx__fourier_side to = side_of(all->to, all, halved, block * lanes, lanes);
        void *found[2];
        transform_block(all, &from, memory, memory + part, memory + 2 * part, found);
        if (all->turned)
            turn(all, block * lanes, (double *)(void *)(memory + 4 * part), n_low, found[all->backward], found[!all->backward]);
        if (is_complex(all->to) && halved && there > f->n + 1) fill_mirrored(f, n, lanes, found[0], found[1]);
        f->fns->take(&to, rows, all->scale, found[0], found[1]);
    }
    nx_room_free(memory);
    return NX_OK;
}

/* The same, line by line. */
static nx_status run_alone(void *arg, int64_t begin, int64_t end) {
    const pass *all = arg;
    const nx__fourier *f = all->fourier;
    bool real_from = !is_complex(all->from), real_to = !is_complex(all->to);
    int64_t n_from = real_from ? f->n : all->from->sizes[all->dim], n_to = real_to ? f->n : all->to->sizes[all->dim];
    size_t part = nx__fourier_part_bytes(f, true);
    char *memory = nx_room_new(6 * part);
    if (memory == NULL) return nx_fail_memory(6 * part);
    char *re = memory, *im = re + part, *more = im + part, *halves_re = more + 2 * part, *halves_im = halves_re + part;
    for (int64_t line = begin; line < end; line++) {
        void *found[2];
        f->fns->bring_line(line_at(all->from, all, line), n_from, real_to ? halves_re : re, real_to ? halves_im : im);
        if (real_to) f->fns->pack_line(f->n, f->half_re, f->half_im, halves_re, halves_im, re, im);
        if (all->backward) nx__fourier_run(f, true, im, re, more, &found[1], &found[0]);
        else nx__fourier_run(f, true, re, im, more, &found[0], &found[1]);
        if (real_from) {
            f->fns->unpack_line(f->n, f->half_re, f->half_im, found[0], found[1], halves_re, halves_im);
            if (n_to > f->n + 1) fill_mirrored(f, 2 * f->n, 1, halves_re, halves_im);
        }
        void *to = line_at(all->to, all, line);
        if (real_from) f->fns->take_line(to, n_to, all->scale, halves_re, halves_im);
        else f->fns->take_line(to, n_to, all->scale, found[0], found[1]);
    }
    nx_room_free(memory);
    return NX_OK;
}

/* n: the length; of real lines that of the real side. */
static nx_status transform_lines(const nx_array *from, const nx_array *to, int dim, int64_t n, bool backward, double scale,
                                 int64_t turned) {
    bool halved = n % 2 == 0 && !(is_complex(from) && is_complex(to));
    nx__fourier fourier;
    NX_TRY(nx__fourier_new(halved ? n / 2 : n, is_double(from) && is_double(to), halved, &fourier));
    pass all = {from, to, dim, &fourier, backward, scale, to->numel / to->sizes[dim], turned};
    bool alone = fourier.along && !turned && lies_along(from, to, dim) && halved == (is_complex(from) != is_complex(to));
    int64_t lanes = alone ? 1 : nx__fourier_lanes(fourier.wide), cost = fourier.cost * lanes;
    int64_t n_blocks = (all.n_lines + lanes - 1) / lanes;
    nx_parallel_fn *run = alone ? run_alone : run_blocks;
    nx_status status;
    if (n_blocks > 1) {
        status = nx_parallel(n_blocks, nx_grain(cost), run, &all);
    } else {
        void *token = nx_long_begin(cost);
        status = run(&all, 0, 1);
        if (token) nx_block_end(token);
    }
    nx__fourier_free(&fourier);
    return status;
}

/* ---- few lines --------------------------------------------------------------------------------------------- */
/* Row by row but for `dim`, whose elements are neighbours; sizes are those of `like` but for n at `dim`. Free its data. */
typedef struct scratch { nx_array a; int64_t sizes[NX_MAX_DIMS], strides[NX_MAX_DIMS]; } scratch;

/* `a` with n elements, `step` apart, at `dim`; columns, if not 0, of them as a new last dimension, `column_step` apart. */
static void view_of(const nx_array *a, int dim, int64_t n, int64_t step, int64_t columns, int64_t column_step, scratch *out) {
    out->a = *a;
    out->a.sizes = memcpy(out->sizes, a->sizes, sizeof *a->sizes * a->ndim);
    out->a.strides = memcpy(out->strides, a->strides, sizeof *a->strides * a->ndim);
    out->a.numel = a->numel / a->sizes[dim] * n;
    out->sizes[dim] = n;
    out->strides[dim] = step;
    if (columns == 0) return;
    out->sizes[a->ndim] = columns;
    out->strides[a->ndim] = column_step;
    out->a.ndim++;
    out->a.numel *= columns;
}

static nx_status allot(scratch *s, nx_dtype dtype, int fastest) {
    int64_t step = s->sizes[fastest];
    s->strides[fastest] = 1;
    for (int k = s->a.ndim - 1; k >= 0; k--) {
        if (k == fastest) continue;
        s->strides[k] = step;
        step *= s->sizes[k];
    }
    size_t bytes = (size_t)step * nx_dtype_bytes(dtype);
    s->a.dtype = dtype;
    s->a.data = nx_alloc(bytes);
    return s->a.data == NULL ? nx_fail_memory(bytes) : NX_OK;
}

/* Complex lines of n = rows * columns: columns are transformed and multiplied by roots, then rows. */
static nx_status transform_split(const nx_array *from, const nx_array *to, int dim, int64_t rows, int64_t columns, bool backward,
                                 double scale) {
    scratch source, between, target;
    int64_t step = from->strides[dim], to_step = to->strides[dim];
    view_of(from, dim, rows, step * columns, columns, step, &source);
    view_of(from, dim, rows, step * columns, columns, step, &between);
    view_of(to, dim, rows, to_step, columns, to_step * rows, &target);
    NX_TRY(allot(&between, (nx_dtype)to->dtype, between.a.ndim - 1));
    nx_status status = transform_lines(&source.a, &between.a, dim, rows, backward, 1, rows * columns);
    if (status == NX_OK) status = transform_lines(&between.a, &target.a, target.a.ndim - 1, columns, backward, scale, 0);
    nx_free(between.a.data);
    return status;
}

/* Into how many rows the lines of n complex numbers are split, or 0. */
static int64_t rows_of(const nx_array *from, const nx_array *to, int dim, int64_t n, int64_t *columns) {
    int64_t lanes = nx__fourier_lanes(is_double(to)), n_lines = to->numel / to->sizes[dim];
    bool few = n >= SPLIT && 2 * n_lines <= lanes && !(lies_along(from, to, dim) && nx__fourier_along(n, is_double(to)));
    if (to->ndim == NX_MAX_DIMS || !(n >= LONG || few)) return 0;
    return nx__fourier_split(n, is_double(to), lanes, columns);
}

/* Whether the lines of a real array along `dim` are complex numbers of two neighbours each. */
static bool pairs(const nx_array *a, int dim) {
    for (int k = 0; k < a->ndim; k++) {
        if (k != dim && a->sizes[k] > 1 && a->strides[k] % 2 != 0) return false;
    }
    return a->strides[dim] == 1;
}

/* `a` as complex numbers, half as many. */
static void view_pairs(const nx_array *a, int dim, int64_t h, scratch *out) {
    view_of(a, dim, h, 1, 0, 0, out);
    for (int k = 0; k < a->ndim; k++) {
        if (k != dim) out->strides[k] /= 2;
    }
    out->a.dtype = is_double(a) ? NX_C128 : NX_C64;
}

/* One line, see unpack and pack in fourier_rows.h; x, z: complex numbers `step` and `to_step` parts apart. */
#define LINES(name, real)                                                                                                 \
    static void unpack_##name(real *x, int64_t step, int64_t h, int64_t there, double scale) {                            \
        for (int64_t k = 0; k <= h / 2; k++) {                                                                            \
            double wr, wi;                                                                                                \
            nx__fourier_root(k, 2 * h, &wr, &wi);                                                                         \
            real *at = x + k * step, *to = x + (h - k) * step, *with = k == 0 ? at : to;                                  \
            double zr = at[0], zi = at[1], cr = with[0], ci = with[1], er = (zr + cr) / 2, ei = (zi - ci) / 2;            \
            double odd_r = (zi + ci) / 2, odd_i = (cr - zr) / 2;                                                          \
            double tr = wr * odd_r - wi * odd_i, ti = wr * odd_i + wi * odd_r;                                            \
            at[0] = (real)((er + tr) * scale);                                                                            \
            at[1] = (real)((ei + ti) * scale);                                                                            \
            to[0] = (real)((er - tr) * scale);                                                                            \
            to[1] = (real)((ti - ei) * scale);                                                                            \
        }                                                                                                                 \
        for (int64_t k = h + 1; k < there; k++) {                                                                         \
            x[k * step] = x[(2 * h - k) * step];                                                                          \
            x[k * step + 1] = -x[(2 * h - k) * step + 1];                                                                 \
        }                                                                                                                 \
    }                                                                                                                     \
    static void pack_##name(const real *x, int64_t step, real *z, int64_t to_step, int64_t h) {                           \
        for (int64_t k = 0; k <= h / 2; k++) {                                                                            \
            double wr, wi;                                                                                                \
            nx__fourier_root(k, 2 * h, &wr, &wi);                                                                         \
            const real *at = x + k * step, *with = x + (h - k) * step;                                                    \
            double xr = at[0], xi = k ? at[1] : 0, cr = with[0], ci = k ? with[1] : 0;                                    \
            double er = xr + cr, ei = xi - ci, dr = xr - cr, di = xi + ci;                                                \
            double odd_r = wr * dr + wi * di, odd_i = wr * di - wi * dr;                                                  \
            z[k * to_step] = (real)(er - odd_i);                                                                          \
            z[k * to_step + 1] = (real)(ei + odd_r);                                                                      \
            if (k == 0) continue;                                                                                         \
            z[(h - k) * to_step] = (real)(er + odd_i);                                                                    \
            z[(h - k) * to_step + 1] = (real)(odd_r - ei);                                                                \
        }                                                                                                                 \
    }
LINES(narrow, float)
LINES(wide, double)

/* Real lines of 2h = 2 * rows * columns numbers to complex ones. */
static nx_status split_real(const nx_array *from, const nx_array *to, int dim, int64_t rows, int64_t columns, double scale) {
    scratch source, target;
    int64_t h = rows * columns;
    view_pairs(from, dim, h, &source);
    view_of(to, dim, h, to->strides[dim], 0, 0, &target);
    NX_TRY(transform_split(&source.a, &target.a, dim, rows, columns, false, 1));
    pass all = {.from = to, .to = to, .dim = dim};
    for (int64_t line = 0; line < to->numel / to->sizes[dim]; line++) {
        void *x = line_at(to, &all, line);
        if (is_double(to)) unpack_wide(x, 2 * to->strides[dim], h, to->sizes[dim], scale);
        else unpack_narrow(x, 2 * to->strides[dim], h, to->sizes[dim], scale);
    }
    return NX_OK;
}

static nx_status split_to_real(const nx_array *from, const nx_array *to, int dim, int64_t rows, int64_t columns, double scale) {
    scratch source, target;
    int64_t h = rows * columns;
    view_pairs(to, dim, h, &target);
    view_of(from, dim, h, 1, 0, 0, &source);
    NX_TRY(allot(&source, (nx_dtype)from->dtype, dim));
    pass all = {.from = from, .to = &target.a, .dim = dim};
    for (int64_t line = 0; line < to->numel / to->sizes[dim]; line++) {
        void *x = line_at(from, &all, line), *z = line_at(&source.a, &all, line);
        if (is_double(to)) pack_wide(x, 2 * from->strides[dim], z, 2, h);
        else pack_narrow(x, 2 * from->strides[dim], z, 2, h);
    }
    nx_status status = transform_split(&source.a, &target.a, dim, rows, columns, true, scale);
    nx_free(source.a.data);
    return status;
}

/* n: the length; of real lines that of the real side. */
static nx_status transform(const nx_array *from, const nx_array *to, int64_t dim_, int64_t n, bool backward, double scale) {
    int dim = (int)dim_;
    if (to->numel == 0) return NX_OK;
    bool real_from = !is_complex(from), real_to = !is_complex(to);
    int64_t columns = 0, complex_n = !(real_from || real_to) ? n : n % 2 == 0 ? n / 2 : 0;
    int64_t rows = rows_of(from, to, dim, complex_n, &columns);
    if (rows == 0) return transform_lines(from, to, dim, n, backward, scale, 0);
    if (real_from && pairs(from, dim)) return split_real(from, to, dim, rows, columns, scale);
    if (real_to && pairs(to, dim)) return split_to_real(from, to, dim, rows, columns, scale);
    if (real_from || real_to) return transform_lines(from, to, dim, n, backward, scale, 0);
    return transform_split(from, to, dim, rows, columns, backward, scale);
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
        NX_TRY(transform(from, to, dim[k], to->sizes[dim[k]], backward, k == 0 ? scale : 1));
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
    NX_TRY(transform(self, result, last, self->sizes[last], false, n_dim == 1 ? scale : 1));
    return pass_all(result, result, dim, n_dim - 1, false, scale);
}

nx_status nx__fourier_c2r(nx_run *run, const nx_array *self, const int64_t *dim, int n_dim, int64_t normalization,
                          int64_t last_dim_size, nx_array *result) {
    double scale = scale_of(normalization, dim, n_dim, result->sizes);
    int64_t last = dim[n_dim - 1];
    if (n_dim == 1) return transform(self, result, last, last_dim_size, true, scale);
    size_t bytes = (size_t)self->numel * nx_dtype_bytes((nx_dtype)self->dtype);
    nx_array between = *self; /* the same sizes, row by row */
    int64_t strides[NX_MAX_DIMS];
    between.strides = strides;
    for (int64_t k = self->ndim - 1, step = 1; k >= 0; step *= self->sizes[k--]) strides[k] = step;
    between.data = nx_room_new(bytes);
    if (between.data == NULL) return nx_fail_memory(bytes);
    nx_status status = pass_all(self, &between, dim, n_dim - 1, true, 1);
    if (status == NX_OK) status = transform(&between, result, last, last_dim_size, true, scale);
    nx_room_free(between.data);
    return status;
}
