/* Kernels of ctc.op (Graves et al., "Connectionist temporal classification", 2006), in double, on logarithms. The states of a
 * target of s classes are its classes with a blank before, between and behind: 2 s + 1. alpha[t][k] sums the beginnings
 * that are in state k at step t, beta[t][k] the ends. Samples are independent and spread over threads. */
#include "gen/kernels.h"
#include "shared/packed.h"

#include <math.h>

typedef struct ctc {
    double *alpha, *nll, *g;     /* row by row; g: only of the derivative */
    const nx_array *log_probs, *out; /* out: the derivative */
    int64_t *targets, *first;    /* first: where the target of each sample begins */
    const int64_t *n_steps, *n_targets;
    int64_t steps, batch, classes, width, blank; /* width: states of the longest target */
    bool zero_infinity, narrow;                          /* narrow: results are floats or less */
} ctc;

static void release(ctc *w) {
    nx_room_free(w->alpha);
    nx_room_free(w->nll);
    nx_room_free(w->g);
    nx_room_free(w->targets);
    nx_room_free(w->first);
}

/* exp(x), which is 1 or 0 for most of what is summed. */
static double exp_of(double x) { return x == 0 ? 1 : x == -INFINITY ? 0 : exp(x); }

static double sum_logs(double a, double b, double c) {
    double top = a > b ? a : b;
    top = top > c ? top : c; /* not a number: what is summed is none either */
    if (top == -INFINITY) return top;
    double sum = exp_of(a - top) + exp_of(b - top) + exp_of(c - top);
    return sum == 1 ? top : log(sum) + top;
}

static int64_t class_at(const ctc *w, int64_t sample, int64_t state) {
    return state % 2 ? w->targets[w->first[sample] + state / 2] : w->blank;
}
/* Whether a path may come to `state` from two states before. */
static bool skips(const ctc *w, int64_t sample, int64_t state) {
    return state % 2 && state > 1 && class_at(w, sample, state) != class_at(w, sample, state - 2);
}
/* The logarithms of the classes of a sample at step t. */
static void read_row(const ctc *w, int64_t t, int64_t sample, double *x) {
    const nx_array *a = w->log_probs;
    int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)a->dtype), at = t * a->strides[0] + sample * a->strides[1];
    nx_cast(NX_F64, (char *)x, sizeof *x, (nx_dtype)a->dtype, (const char *)a->data + at * bytes, a->strides[2] * bytes, w->classes);
}

static nx_status run_forward(void *arg, int64_t begin, int64_t end) {
    const ctc *w = arg;
    double *x = nx_room_new((size_t)w->classes * sizeof *x);
    if (x == NULL) return nx_fail_memory((size_t)w->classes * sizeof *x);
    for (int64_t b = begin; b < end; b++) {
        const int64_t n = 2 * w->n_targets[b] + 1, steps = w->n_steps[b];
        double *alpha = w->alpha + b * w->steps * w->width;
        for (int64_t i = 0; i < w->steps * w->width; i++) alpha[i] = -INFINITY;
        if (steps > 0) read_row(w, 0, b, x);
        for (int64_t k = 0; k < nx_least(n, 2) && steps > 0; k++) alpha[k] = x[class_at(w, b, k)];
        for (int64_t t = 1; t < steps; t++) {
            read_row(w, t, b, x);
            const double *last = alpha + (t - 1) * w->width;
            for (int64_t k = 0; k < n; k++)
                alpha[t * w->width + k] = sum_logs(last[k], k > 0 ? last[k - 1] : -INFINITY,
                                                   skips(w, b, k) ? last[k - 2] : -INFINITY) +
                                          x[class_at(w, b, k)];
        }
        const double *final = alpha + (steps ? steps - 1 : 0) * w->width;
        if (steps == 0) w->nll[b] = n == 1 ? 0 : INFINITY;
        else w->nll[b] = -sum_logs(final[n - 1], n > 1 ? final[n - 2] : -INFINITY, -INFINITY);
    }
    nx_room_free(x);
    return NX_OK;
}

/* The sample's rows of the derivative; beta: room for two rows of states and two of classes. */
static void run_sample(const ctc *w, int64_t b, double *beta) {
    const int64_t n = 2 * w->n_targets[b] + 1, steps = w->n_steps[b];
    double *next = beta + w->width, *sums = next + w->width, *x = sums + w->classes;
    const nx_array *out = w->out;
    const int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)out->dtype);
    for (int64_t t = steps - 1; t >= 0; t--) {
        const double *alpha = w->alpha + (b * w->steps + t) * w->width;
        read_row(w, t, b, x);
        for (int64_t c = 0; c < w->classes; c++) sums[c] = -INFINITY;
        for (int64_t k = 0; k < n; k++) {
            double ends = t == steps - 1 ? (k >= n - 2 ? 0 : -INFINITY)
                                         : sum_logs(next[k], k + 1 < n ? next[k + 1] : -INFINITY,
                                                    k + 2 < n && skips(w, b, k + 2) ? next[k + 2] : -INFINITY);
            const int64_t class = class_at(w, b, k);
            beta[k] = ends + x[class];
            sums[class] = sum_logs(sums[class], alpha[k] + beta[k], -INFINITY);
        }
        for (int64_t c = 0; c < w->classes; c++)
            x[c] = ((w->narrow ? (double)expf((float)x[c]) : exp(x[c])) - exp_of(sums[c] + w->nll[b] - x[c])) * w->g[b];
        nx_cast((nx_dtype)out->dtype, (char *)out->data + (t * out->strides[0] + b * out->strides[1]) * bytes,
                out->strides[2] * bytes, NX_F64, (const char *)x, sizeof *x, w->classes);
        memcpy(next, beta, (size_t)n * sizeof *beta);
    }
}

static nx_status run_backward(void *arg, int64_t begin, int64_t end) {
    const ctc *w = arg;
    size_t bytes = (size_t)(2 * w->width + 2 * w->classes) * sizeof(double);
    double *beta = nx_room_new(bytes);
    if (beta == NULL) return nx_fail_memory(bytes);
    for (int64_t b = begin; b < end; b++)
        if (!w->zero_infinity || w->nll[b] != INFINITY) run_sample(w, b, beta);
    nx_room_free(beta);
    return NX_OK;
}

static nx_status describe(ctc *w, const nx_run *run, const nx_array *log_probs, const nx_array *targets,
                          const int64_t *input_lengths, const int64_t *target_lengths, int64_t blank, const nx_array *alpha) {
    w->steps = log_probs->sizes[0];
    w->batch = log_probs->sizes[1];
    w->classes = log_probs->sizes[2];
    w->width = alpha->sizes[2];
    w->blank = blank;
    w->narrow = log_probs->dtype != NX_F64;
    w->n_steps = input_lengths;
    w->n_targets = target_lengths;
    w->log_probs = log_probs;
    NX_TRY(nx__packed_new(targets, NX_I64, &w->targets));
    if ((w->first = nx_room_new((size_t)w->batch * sizeof *w->first)) == NULL)
        return nx_fail_memory((size_t)w->batch * sizeof *w->first);
    for (int64_t b = 0, at = 0; b < w->batch; b++, at += target_lengths[b - 1])
        w->first[b] = targets->ndim == 2 ? b * targets->sizes[1] : at;
    for (int64_t b = 0; b < w->batch; b++)
        for (int64_t k = 0; k < target_lengths[b]; k++) {
            int64_t class = w->targets[w->first[b] + k];
            if (class < 0 || class >= w->classes)
                return nx_fail(NX_RUNTIME, "%s: Target %lld is out of bounds: there are %lld classes",
                               nx_op_name(run->op), (long long)class, (long long)w->classes);
        }
    return NX_OK;
}

static void put(const nx_array *to, const double *from) {
    nx_cast((nx_dtype)to->dtype, to->data, (int64_t)nx_dtype_bytes(to->dtype), NX_F64, (const char *)from, sizeof *from, to->numel);
}

static int64_t grain(const ctc *w) { return nx_grain(w->steps * w->width * 400); }

nx_status nx__ctc_forward(nx_run *run, const nx_array *log_probs, const nx_array *targets, const int64_t *input_lengths,
                          int n_input_lengths, const int64_t *target_lengths, int n_target_lengths, int64_t blank,
                          nx_array *result0, nx_array *result1) {
    nx_status status = NX_OK;
    ctc w = {0};
    NX_TRY_FAIL(describe(&w, run, log_probs, targets, input_lengths, target_lengths, blank, result1));
    w.alpha = nx_room_new((size_t)result1->numel * sizeof(double) + 1);
    w.nll = nx_room_new((size_t)w.batch * sizeof(double));
    if (w.alpha == NULL || w.nll == NULL) {
        status = nx_fail_memory((size_t)result1->numel * sizeof(double));
        goto fail;
    }
    NX_TRY_FAIL(nx_parallel(w.batch, grain(&w), run_forward, &w));
    put(result0, w.nll);
    put(result1, w.alpha);
fail:
    release(&w);
    return status;
}

nx_status nx__ctc_backward(nx_run *run, const nx_array *grad, const nx_array *log_probs, const nx_array *targets,
                           const int64_t *input_lengths, int n_input_lengths, const int64_t *target_lengths,
                           int n_target_lengths, const nx_array *neg_log_likelihood, const nx_array *log_alpha, int64_t blank,
                           bool zero_infinity, nx_array *result) {
    nx_status status = NX_OK;
    ctc w = {.zero_infinity = zero_infinity};
    NX_TRY_FAIL(describe(&w, run, log_probs, targets, input_lengths, target_lengths, blank, log_alpha));
    NX_TRY_FAIL(nx__packed_new(log_alpha, NX_F64, &w.alpha));
    NX_TRY_FAIL(nx__packed_new(neg_log_likelihood, NX_F64, &w.nll));
    NX_TRY_FAIL(nx__packed_new(grad, NX_F64, &w.g));
    w.out = result;
    if (result->numel) memset(result->data, 0, (size_t)result->numel * nx_dtype_bytes((nx_dtype)result->dtype));
    NX_TRY_FAIL(nx_parallel(w.batch, grain(&w), run_backward, &w));
fail:
    release(&w);
    return status;
}
