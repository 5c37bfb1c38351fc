/* Group norm: the numbers of each group of an image's channels with mean 0 and variance 1, and its derivative. A channel's numbers
 * lie one behind the other, and a group's channels do (row by row), or channels lie side by side (channels last); operands that lie
 * in neither way are copied row by row. A group's sums are those of its channels, in their order, each of one thread. */
#include "gen/kernels.h"
#include "kernel/kernel.h"
#include "shared/lay.h"
#include "shared/packed.h"

#include <math.h>

typedef struct norm {
    nx__laid laid;
    nx_dtype dtype;
    const char *x, *g;
    char *out;
    const nx_array *weight, *bias, *mean, *rstd; /* weight, bias: NULL: 1, 0 */
    nx_array *to_mean, *to_rstd, *to_weight, *to_bias; /* NULL: not asked for */
    double *sums, *products;                     /* of g, and of g and x - mean: of each image and channel */
    double eps;
    int64_t images, channels, inner, groups;
    bool by_channels;                            /* channels side by side */
    int64_t together;                            /* groups that one unit has */
} norm;

enum { SIDE_BY_SIDE = 16 }; /* channels that a unit should have at least where they lie so: a line of the cache */

/* Channels of a unit that are gone through together. */
typedef struct piece { int64_t first; int channels; int64_t at, step; } piece;

/* The piece that begins at channel number `c` of an image, of those before `end`. */
static piece piece_of(const norm *w, int64_t image, int64_t c, int64_t end) {
    const int64_t start = image * w->channels * w->inner, bytes = (int64_t)nx_dtype_bytes(w->dtype);
    if (!w->by_channels) return (piece){c, 1, (start + c * w->inner) * bytes, 1};
    return (piece){c, (int)nx_least(NX_ROW_LANES, end - c), (start + c) * bytes, w->channels};
}

/* What a unit has: the groups begin .. end of an image. */
typedef struct unit { int64_t image, begin, end; } unit;
static unit unit_of(const norm *w, int64_t number) {
    const int64_t each = (w->groups + w->together - 1) / w->together, first = number % each * w->together;
    return (unit){number / each, first, nx_least(first + w->together, w->groups)};
}

typedef struct group { double mean, rstd, of_x, summand; } group;

/* What channel number k of a piece takes from its group. */
static group *group_of(const norm *w, const unit *u, group *all, const piece *p, int k) {
    return &all[(p->first + k) / (w->channels / w->groups) - u->begin];
}

/* ---- forward ------------------------------------------------------------------------------------------------ */
/* Each group's sum of the numbers, or of the squares of what they differ from its mean, over how many there are. */
static void measure(const norm *w, const unit *u, group *all, bool squares, double *to) {
    const nx_channel_fns *fns = &nx_rows_get(w->dtype)->channels;
    const int64_t of_group = w->channels / w->groups, end = u->end * of_group;
    const double n = (double)(of_group * w->inner);
    memset(to, 0, sizeof *to * (size_t)(u->end - u->begin));
    for (int64_t c = u->begin * of_group; c < end;) {
        const piece p = piece_of(w, u->image, c, end);
        double sum[NX_ROW_LANES] = {0}, mean[NX_ROW_LANES];
        for (int k = 0; k < p.channels; k++) mean[k] = group_of(w, u, all, &p, k)->mean;
        if (squares) fns->squares(sum, w->x + p.at, mean, w->inner, p.step, p.channels);
        else fns->sums(sum, w->x + p.at, w->inner, p.step, p.channels);
        for (int k = 0; k < p.channels; k++) to[group_of(w, u, all, &p, k) - all] += sum[k] / n;
        c += p.channels;
    }
}

static nx_status forward(void *arg, int64_t begin, int64_t end) {
    const norm *w = arg;
    const nx_channel_fns *fns = &nx_rows_get(w->dtype)->channels;
    const int64_t of_group = w->channels / w->groups;
    for (int64_t number = begin; number < end; number++) {
        const unit u = unit_of(w, number);
        group all[SIDE_BY_SIDE] = {{0}};
        double found[SIDE_BY_SIDE];
        const int n = (int)(u.end - u.begin);
        measure(w, &u, all, false, found);
        for (int k = 0; k < n; k++) all[k].mean = found[k];
        nx__write_doubles(w->to_mean, u.image * w->groups + u.begin, n, found);
        measure(w, &u, all, true, found);
        for (int k = 0; k < n; k++) all[k].rstd = found[k] = 1 / sqrt(found[k] + w->eps);
        nx__write_doubles(w->to_rstd, u.image * w->groups + u.begin, n, found);
        for (int64_t c = u.begin * of_group; c < u.end * of_group;) {
            const piece p = piece_of(w, u.image, c, u.end * of_group);
            double mean[NX_ROW_LANES], factor[NX_ROW_LANES], summand[NX_ROW_LANES];
            nx__read_doubles(w->weight, c, p.channels, 1, factor);
            nx__read_doubles(w->bias, c, p.channels, 0, summand);
            for (int k = 0; k < p.channels; k++) {
                mean[k] = group_of(w, &u, all, &p, k)->mean;
                factor[k] *= group_of(w, &u, all, &p, k)->rstd;
            }
            fns->blend(w->out + p.at, NULL, w->x + p.at, mean, NULL, factor, summand, w->inner, p.step, p.channels);
            c += p.channels;
        }
    }
    return NX_OK;
}

/* ---- backward ------------------------------------------------------------------------------------------------ */
/* The sums of g and the products of g and x - mean of each channel of a unit, and what its groups' gradients are made of: with
 * h = (x - mean)*r, u = g*weight: r*(u - mean(u) - h*mean(u*h)). */
static void weigh(const norm *w, const unit *u, group *all) {
    const nx_channel_fns *fns = &nx_rows_get(w->dtype)->channels;
    const int64_t of_group = w->channels / w->groups, end = u->end * of_group;
    const double n = (double)(of_group * w->inner);
    for (int64_t k = 0; k < u->end - u->begin; k++) {
        nx__read_doubles(w->mean, u->image * w->groups + u->begin + k, 1, 0, &all[k].mean);
        nx__read_doubles(w->rstd, u->image * w->groups + u->begin + k, 1, 0, &all[k].rstd);
    }
    for (int64_t c = u->begin * of_group; c < end;) {
        const piece p = piece_of(w, u->image, c, end);
        double mean[NX_ROW_LANES], weight[NX_ROW_LANES];
        double *sum = w->sums + u->image * w->channels + c, *product = w->products + u->image * w->channels + c;
        nx__read_doubles(w->weight, c, p.channels, 1, weight);
        for (int k = 0; k < p.channels; k++) mean[k] = group_of(w, u, all, &p, k)->mean;
        fns->sums(sum, w->g + p.at, w->inner, p.step, p.channels);
        fns->products(product, w->g + p.at, w->x + p.at, mean, w->inner, p.step, p.channels);
        for (int k = 0; k < p.channels; k++) {
            group *of = group_of(w, u, all, &p, k);
            const double r = of->rstd;
            of->summand -= r * weight[k] * sum[k] / n;
            of->of_x -= r * r * r * weight[k] * product[k] / n;
            product[k] *= r;
        }
        c += p.channels;
    }
}

static nx_status backward(void *arg, int64_t begin, int64_t end) {
    const norm *w = arg;
    const nx_channel_fns *fns = &nx_rows_get(w->dtype)->channels;
    const int64_t of_group = w->channels / w->groups;
    for (int64_t number = begin; number < end; number++) {
        const unit u = unit_of(w, number);
        group all[SIDE_BY_SIDE] = {{0}};
        weigh(w, &u, all);
        for (int64_t c = u.begin * of_group; w->out && c < u.end * of_group;) {
            const piece p = piece_of(w, u.image, c, u.end * of_group);
            double mean[NX_ROW_LANES], of_g[NX_ROW_LANES], of_x[NX_ROW_LANES], summand[NX_ROW_LANES];
            nx__read_doubles(w->weight, c, p.channels, 1, of_g);
            for (int k = 0; k < p.channels; k++) {
                const group *of = group_of(w, &u, all, &p, k);
                mean[k] = of->mean;
                of_g[k] *= of->rstd;
                of_x[k] = of->of_x;
                summand[k] = of->summand;
            }
            fns->blend(w->out + p.at, w->g + p.at, w->x + p.at, mean, of_g, of_x, summand, w->inner, p.step, p.channels);
            c += p.channels;
        }
    }
    return NX_OK;
}

/* The images' parts of what each channel's weight and summand have. */
static void add_images(const norm *w) {
    for (int64_t c = 0; c < w->channels; c++) {
        double sum = 0, product = 0;
        for (int64_t i = 0; i < w->images; i++) {
            sum += w->sums[i * w->channels + c];
            product += w->products[i * w->channels + c];
        }
        nx__write_doubles(w->to_weight, c, 1, &product);
        nx__write_doubles(w->to_bias, c, 1, &sum);
    }
}

/* ---- both ------------------------------------------------------------------------------------------------------ */
/* Where operands and results lie; g and result0 may be NULL. */
static nx_status lay(norm *w, const nx_array *input, const nx_array *g, const nx_array *result0) {
    const nx_array *all[3] = {input, g, result0};
    w->by_channels = !input->contiguous && input->sizes[0] == w->images && input->sizes[1] == w->channels;
    for (int k = 0; k < 3; k++)
        w->by_channels &= all[k] == NULL || (nx_is_channels_last(all[k]) && all[k]->dtype == w->dtype);
    NX_TRY(nx__lay_unless(w->by_channels, &w->laid, input, w->dtype, true, &w->x));
    NX_TRY(nx__lay_unless(w->by_channels, &w->laid, g, w->dtype, true, &w->g));
    NX_TRY(nx__lay_unless(w->by_channels, &w->laid, result0, w->dtype, false, &w->out));
    w->by_channels |= w->inner == 1;
    return NX_OK;
}

static nx_status run_units(norm *w, const nx_array *input, const nx_array *g, nx_array *result0, nx_parallel_fn *fn) {
    nx_status status = NX_OK;
    const int64_t of_group = w->channels / w->groups;
    w->dtype = input->dtype == NX_F64 ? NX_F64 : NX_F32;
    NX_TRY_FAIL(lay(w, input, g, result0));
    w->together = w->by_channels ? nx_least(w->groups, (SIDE_BY_SIDE + of_group - 1) / of_group) : 1;
    const int64_t units = w->images * ((w->groups + w->together - 1) / w->together);
    NX_TRY_FAIL(nx_parallel(units, nx_grain(w->together * of_group * w->inner * 4), fn, w));
    nx__lay_back(&w->laid, result0, w->out);
fail:
    nx__lay_end(&w->laid);
    return status;
}

nx_status nx__group_norm_channels(nx_run *run, const nx_array *input, const nx_array *weight, const nx_array *bias, int64_t N, int64_t C,
                                  int64_t HxW, int64_t group, double eps, nx_array *result0, nx_array *result1, nx_array *result2) {
    norm w = {.weight = weight, .bias = bias, .to_mean = result1, .to_rstd = result2, .eps = eps,
              .images = N, .channels = C, .inner = HxW, .groups = group};
    if (input->numel > 0) return run_units(&w, input, NULL, result0, forward);
    for (int64_t r = 0; r < N * group; r++) { /* groups of nothing: as in PyTorch */
        nx__write_doubles(result1, r, 1, &(double){0});
        nx__write_doubles(result2, r, 1, &(double){NAN});
    }
    return NX_OK;
}

nx_status nx__group_norm_backward_channels(nx_run *run, const nx_array *grad_out, const nx_array *input, const nx_array *mean,
                                           const nx_array *rstd, const nx_array *weight, int64_t N, int64_t C, int64_t HxW,
                                           int64_t group, nx_value output_mask, nx_array *result0, nx_array *result1,
                                           nx_array *result2) {
    nx_status status = NX_OK;
    norm w = {.weight = weight, .mean = mean, .rstd = rstd, .to_weight = result1, .to_bias = result2,
              .images = N, .channels = C, .inner = HxW, .groups = group};
    const size_t bytes = 2 * sizeof(double) * (size_t)(N * C);
    w.sums = nx_alloc_zeroed(bytes + 1);
    if (w.sums == NULL) return nx_fail_memory(bytes);
    w.products = w.sums + N * C;
    if (N * C > 0) NX_TRY_FAIL(run_units(&w, input, grad_out, result0, backward));
    add_images(&w);
fail:
    nx_free(w.sums);
    return status;
}
