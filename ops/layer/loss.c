/* Kernels of loss.op: one pass over the rows in float64, whatever the dtype. A row whose class is ignored counts
 * neither in the sum nor in the weight. */
#include "gen/kernels.h"
#include "shared/packed.h"

#include <math.h>

typedef struct nll { const nx_array *target, *weight; int64_t n_rows, n_classes, ignored, height, width; } nll;
typedef struct steps { int64_t image, line, place; } steps; /* of an array, in elements */

/* Rows are those of a matrix, as places of one line, or one, or all places of images, whose classes are the second dimension. */
static nll describe(const nx_array *self, const nx_array *target, const nx_array *weight, int64_t ignored) {
    const int64_t *size = self->sizes, n = self->ndim == 2 ? size[0] : 1;
    if (self->ndim != 4) return (nll){target, weight, n, size[self->ndim - 1], ignored, 1, n};
    return (nll){target, weight, size[0] * size[2] * size[3], size[1], ignored, size[2], size[3]};
}

/* Of `a`, which has `classes` or has not. */
static steps steps_of(const nx_array *a, bool classes) {
    if (a->ndim < 3) return (steps){0, 0, a->ndim > classes ? a->strides[0] : 0};
    return (steps){a->strides[0], a->strides[1 + classes], a->strides[2 + classes]};
}

/* Of the line that begins with row k. */
static int64_t offset(const nll *l, const steps *s, int64_t k) {
    const int64_t line = k / l->width;
    return line / l->height * s->image + line % l->height * s->line;
}

static int64_t class_step(const nx_array *a) { return a->strides[a->ndim == 4 ? 1 : a->ndim - 1]; }

static inline double number_at(nx_dtype dtype, const char *at) {
    double x;
    if (dtype == NX_F32) return *(const float *)at;
    nx_cast(NX_F64, (char *)&x, 0, dtype, at, 0, 1);
    return x;
}
static inline double element(const nx_array *a, int64_t offset) {
    return number_at(a->dtype, (const char *)a->data + offset * (int64_t)nx_dtype_bytes(a->dtype));
}

static void store(const nx_array *a, int64_t offset, double x) {
    if (a->dtype == NX_F32) ((float *)a->data)[offset] = (float)x;
    else nx_cast(a->dtype, (char *)a->data + offset * (int64_t)nx_dtype_bytes(a->dtype), 0, NX_F64, (const char *)&x, 0, 1);
}

/* The class of a row and its weight; class -1: ignored. */
static inline nx_status class_of(const nx_run *run, const nll *l, int64_t place, int64_t *class, double *weight) {
    int64_t at = ((const int64_t *)l->target->data)[place];
    *class = -1;
    *weight = 0;
    if (at == l->ignored) return NX_OK;
    if (NX_UNLIKELY(at < 0 || at >= l->n_classes)) {
        return nx_fail(NX_INDEX, "%s: Target %lld is out of bounds: there are %lld classes", nx_op_name(run->op),
                       (long long)at, (long long)l->n_classes);
    }
    *class = at;
    *weight = l->weight ? number_at(l->weight->dtype, nx__nth_at(l->weight, at)) : 1; /* of any shape */
    return NX_OK;
}

nx_status nx__nll_rows(nx_run *run, const nx_array *self, const nx_array *target, const nx_array *weight,
                       int64_t reduction, int64_t ignore_index, nx_array *output, nx_array *total_weight) {
    nll l = describe(self, target, weight, ignore_index);
    bool each = reduction == 0 && self->ndim > 1;
    const steps in = steps_of(self, true), wanted = steps_of(target, false), out = steps_of(output, false);
    const int64_t step = class_step(self);
    double sum = 0, total = 0;
    for (int64_t k = 0; k < l.n_rows; k += l.width) {
        const int64_t x = offset(&l, &in, k), t = offset(&l, &wanted, k), y = offset(&l, &out, k);
        for (int64_t i = 0; i < l.width; i++) {
            int64_t class;
            double w, loss = 0;
            NX_TRY(class_of(run, &l, t + i * wanted.place, &class, &w));
            if (class >= 0) loss = -w * element(self, x + i * in.place + class * step);
            if (each) store(output, y + i * out.place, loss);
            sum += loss;
            total += w;
        }
    }
    store(total_weight, 0, each ? 0 : total);
    if (!each) store(output, 0, reduction == 1 ? sum / total : sum);
    return NX_OK;
}

nx_status nx__nll_backward_rows(nx_run *run, const nx_array *grad_output, const nx_array *self, const nx_array *target,
                                const nx_array *weight, int64_t reduction, int64_t ignore_index,
                                const nx_array *total_weight, nx_array *out) {
    nll l = describe(self, target, weight, ignore_index);
    bool each = reduction == 0 && self->ndim > 1;
    double scale = reduction == 1 ? 1 / element(total_weight, 0) : 1;
    memset(out->data, 0, (size_t)out->numel * nx_dtype_bytes(out->dtype));
    const steps to = steps_of(out, true), wanted = steps_of(target, false), from = steps_of(grad_output, false);
    const int64_t step = class_step(out);
    for (int64_t k = 0; k < l.n_rows; k += l.width) {
        const int64_t x = offset(&l, &to, k), t = offset(&l, &wanted, k), y = offset(&l, &from, k);
        for (int64_t i = 0; i < l.width; i++) {
            int64_t class;
            double w;
            NX_TRY(class_of(run, &l, t + i * wanted.place, &class, &w));
            double g = element(grad_output, each ? y + i * from.place : 0);
            if (class >= 0) store(out, x + i * to.place + class * step, -w * g * scale);
        }
    }
    return NX_OK;
}

/* ---- binary cross entropy --------------------------------------------------------------------------------- */
/* Elements in float64, in order. */
enum { LOGARITHMS = 256 }; /* what two of them cost */
typedef struct probabilities { double *self, *target, *weight; int64_t n; } probabilities; /* owned */

static nx_status read_all(probabilities *p, const nx_array *self, const nx_array *target, const nx_array *weight) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array whole;
    p->n = self->numel;
    NX_TRY(nx__packed_new(self, NX_F64, &p->self));
    NX_TRY(nx__packed_new(target, NX_F64, &p->target));
    if (weight == NULL) return NX_OK;
    nx_array_copy(&whole, self, dims); /* weight, broadcast */
    whole.data = weight->data;
    whole.dtype = weight->dtype;
    for (int d = self->ndim - 1, k = weight->ndim - 1; d >= 0; d--, k--)
        whole.strides[d] = k < 0 || weight->sizes[k] == 1 ? 0 : weight->strides[k];
    nx_array_refresh(&whole);
    return nx__packed_new(&whole, NX_F64, &p->weight);
}

static nx_status check_between(const nx_run *run, const char *name, const double *x, int64_t n) {
    const double one = 1;
    uint64_t most, odd = 0; /* its highest bit: one has a sign or is above 1, or not a number */
    memcpy(&most, &one, sizeof most);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        odd |= bits | (most - bits);
    }
    for (int64_t i = 0; odd >> 63 && i < n; i++)
        if (!(x[i] >= 0 && x[i] <= 1))
            return nx_fail(NX_RUNTIME, "%s: all elements of %s should be between 0 and 1", nx_op_name(run->op), name);
    return NX_OK;
}

/* In strands, which do not wait for one another. */
static double sum_of(const double *x, int64_t n) {
    enum { STRANDS = 8 };
    double sum[STRANDS] = {0}, all = 0;
    int64_t i = 0;
    for (; i + STRANDS <= n; i += STRANDS)
        for (int k = 0; k < STRANDS; k++) sum[k] += x[i + k];
    for (; i < n; i++) all += x[i];
    for (int k = 0; k < STRANDS; k++) all += sum[k];
    return all;
}

static inline double at_least(double x, double least) { return x < least ? least : x; }

static nx_status cross_entropies(void *arg, int64_t begin, int64_t end) {
    const probabilities *p = arg;
    for (int64_t i = begin; i < end; i++) {
        double x = p->self[i], t = p->target[i];
        double loss = -(t * at_least(log(x), -100) + (1 - t) * at_least(log1p(-x), -100)) * (p->weight ? p->weight[i] : 1);
        p->self[i] = loss;
    }
    return NX_OK;
}

nx_status nx__cross_entropy_elements(nx_run *run, const nx_array *self, const nx_array *target, const nx_array *weight,
                                     int64_t reduction, nx_array *out) {
    probabilities p = {0};
    double sum = 0;
    nx_status status = read_all(&p, self, target, weight);
    if (status == NX_OK) status = check_between(run, "input", p.self, p.n);
    if (status == NX_OK) status = check_between(run, "target", p.target, p.n);
    if (status == NX_OK) status = nx_parallel(p.n, nx_grain(LOGARITHMS), cross_entropies, &p);
    if (status == NX_OK && reduction != 0) sum = sum_of(p.self, p.n);
    if (status == NX_OK && reduction == 0)
        nx_cast(out->dtype, out->data, (int64_t)nx_dtype_bytes(out->dtype), NX_F64, (const char *)p.self, sizeof *p.self, p.n);
    else if (status == NX_OK) store(out, 0, reduction == 1 ? sum / (double)p.n : sum);
    nx_room_free(p.self);
    nx_room_free(p.target);
    nx_room_free(p.weight);
    return status;
}
