/* Batch norm of training: each channel of a batch with mean 0 and variance 1, and its derivative. A channel's numbers lie in
 * runs, one for each image (row by row), or side by side with those of other channels (channels last); operands that lie in
 * neither way are copied row by row. A channel's sums are those of one thread, in one order. */
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
    const nx_array *weight, *bias, *mean, *invstd;    /* of channels; NULL: 1, 0 */
    nx_array *to_mean, *to_invstd, *to_weight, *to_bias; /* NULL: not asked for */
    double eps;
    int64_t channels, images, inner;                  /* a channel's numbers: images runs of inner */
    bool by_channels;                                 /* channels side by side */
} norm;

enum { TOGETHER = 16 }; /* channels side by side that one thread takes, a line of the cache */

/* A block of channels: their numbers as nx_channel_fns takes them, run after run. */
typedef struct block { int64_t first; int channels; int64_t n, step, runs, run_step, at; } block;

static block block_of(const norm *w, int64_t unit) {
    if (!w->by_channels)
        return (block){unit, 1, w->inner, 1, w->images, w->channels * w->inner, unit * w->inner};
    const int64_t first = unit * TOGETHER;
    return (block){first, (int)nx_least(TOGETHER, w->channels - first), w->images * w->inner, w->channels, 1, 0, first};
}

static nx_status forward(void *arg, int64_t begin, int64_t end) {
    const norm *w = arg;
    const nx_channel_fns *fns = &nx_rows_get(w->dtype)->channels;
    const int64_t bytes = (int64_t)nx_dtype_bytes(w->dtype);
    const double n = (double)(w->images * w->inner);
    for (int64_t unit = begin; unit < end; unit++) {
        const block b = block_of(w, unit);
        double mean[TOGETHER] = {0}, invstd[TOGETHER] = {0}, factor[TOGETHER];
        for (int64_t r = 0; r < b.runs; r++) fns->sums(mean, w->x + (b.at + r * b.run_step) * bytes, b.n, b.step, b.channels);
        for (int k = 0; k < b.channels; k++) mean[k] /= n;
        for (int64_t r = 0; r < b.runs; r++) fns->squares(invstd, w->x + (b.at + r * b.run_step) * bytes, mean, b.n, b.step, b.channels);
        nx__read_doubles(w->weight, b.first, b.channels, 1, factor);
        for (int k = 0; k < b.channels; k++) {
            invstd[k] = 1 / sqrt(invstd[k] / n + w->eps);
            factor[k] *= invstd[k];
        }
        double summand[TOGETHER];
        nx__read_doubles(w->bias, b.first, b.channels, 0, summand);
        for (int64_t r = 0; r < b.runs; r++) {
            const int64_t at = (b.at + r * b.run_step) * bytes;
            fns->blend(w->out + at, NULL, w->x + at, mean, NULL, factor, summand, b.n, b.step, b.channels);
        }
        nx__write_doubles(w->to_mean, b.first, b.channels, mean);
        nx__write_doubles(w->to_invstd, b.first, b.channels, invstd);
    }
    return NX_OK;
}

/* With h = (x - mean)*r, r = invstd, u = g*weight: r*(u - mean(u) - h*mean(u*h)). */
static nx_status backward(void *arg, int64_t begin, int64_t end) {
    const norm *w = arg;
    const nx_channel_fns *fns = &nx_rows_get(w->dtype)->channels;
    const int64_t bytes = (int64_t)nx_dtype_bytes(w->dtype);
    const double n = (double)(w->images * w->inner);
    for (int64_t unit = begin; unit < end; unit++) {
        const block b = block_of(w, unit);
        double mean[TOGETHER], root[TOGETHER], sum[TOGETHER] = {0}, product[TOGETHER] = {0};
        nx__read_doubles(w->mean, b.first, b.channels, 0, mean);
        nx__read_doubles(w->invstd, b.first, b.channels, 0, root);
        for (int64_t r = 0; r < b.runs; r++) {
            const int64_t at = (b.at + r * b.run_step) * bytes;
            fns->sums(sum, w->g + at, b.n, b.step, b.channels);
            fns->products(product, w->g + at, w->x + at, mean, b.n, b.step, b.channels);
        }
        double of_g[TOGETHER], of_x[TOGETHER], summand[TOGETHER];
        nx__read_doubles(w->weight, b.first, b.channels, 1, of_g);
        for (int k = 0; k < b.channels; k++) {
            of_g[k] *= root[k];
            of_x[k] = -of_g[k] * root[k] * root[k] * product[k] / n;
            summand[k] = -of_g[k] * sum[k] / n;
            product[k] *= root[k];
        }
        for (int64_t r = 0; w->out && r < b.runs; r++) {
            const int64_t at = (b.at + r * b.run_step) * bytes;
            fns->blend(w->out + at, w->g + at, w->x + at, mean, of_g, of_x, summand, b.n, b.step, b.channels);
        }
        nx__write_doubles(w->to_weight, b.first, b.channels, product);
        nx__write_doubles(w->to_bias, b.first, b.channels, sum);
    }
    return NX_OK;
}

static bool lies_by_channels(const nx_array *a) { return nx_is_channels_last(a) || (a->ndim == 2 && a->contiguous); }

/* Where operands and results lie; g and result0 may be NULL. */
static nx_status lay(norm *w, const nx_array *input, const nx_array *g, const nx_array *result0) {
    w->dtype = (nx_dtype)input->dtype;
    w->images = input->sizes[0];
    w->channels = input->sizes[1];
    w->inner = input->numel / (w->images * w->channels);
    const nx_array *all[3] = {input, g, result0};
    w->by_channels = w->channels > 1 && (w->inner == 1 || !input->contiguous);
    for (int k = 0; k < 3; k++) w->by_channels &= all[k] == NULL || lies_by_channels(all[k]);
    NX_TRY(nx__lay_unless(w->by_channels, &w->laid, input, w->dtype, true, &w->x));
    NX_TRY(nx__lay_unless(w->by_channels, &w->laid, g, w->dtype, true, &w->g));
    return nx__lay_unless(w->by_channels, &w->laid, result0, w->dtype, false, &w->out);
}

/* All channels, from operands laid as they are to a result that goes where it belongs. */
static nx_status run_blocks(norm *w, const nx_array *input, const nx_array *g, nx_array *result0, nx_parallel_fn *fn) {
    nx_status status = NX_OK;
    if (input->numel == 0) return NX_OK;
    NX_TRY_FAIL(lay(w, input, g, result0));
    const int64_t each = w->images * w->inner * 4, together = w->by_channels ? TOGETHER : 1;
    NX_TRY_FAIL(nx_parallel((w->channels + together - 1) / together, nx_grain(each * together), fn, w));
    nx__lay_back(&w->laid, result0, w->out);
fail:
    nx__lay_end(&w->laid);
    return status;
}

nx_status nx__batch_norm_channels(nx_run *run, const nx_array *input, const nx_array *weight, const nx_array *bias, bool training,
                                  double momentum, double eps, nx_array *result0, nx_array *result1, nx_array *result2) {
    norm w = {.weight = weight, .bias = bias, .to_mean = result1, .to_invstd = result2, .eps = eps};
    return run_blocks(&w, input, NULL, result0, forward);
}

nx_status nx__batch_norm_backward_channels(nx_run *run, const nx_array *grad_out, const nx_array *input, const nx_array *weight,
                                           const nx_array *running_mean, const nx_array *running_var, const nx_array *save_mean,
                                           const nx_array *save_invstd, bool train, double eps, nx_value output_mask,
                                           nx_array *result0, nx_array *result1, nx_array *result2) {
    norm w = {.weight = weight, .mean = save_mean, .invstd = save_invstd, .to_weight = result1, .to_bias = result2};
    return run_blocks(&w, input, grad_out, result0, backward);
}
