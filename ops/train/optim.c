/* Kernels of optim.op: one call steps all parameters of a group. The elements of a parameter, its gradient
 * and its state are walked together in pieces; a piece that does not lie in a row, or is of a half type, goes
 * through buffers of float. Results do not depend on threads. Next: src/kernel/step.c for the numbers. */
#include "gen/kernels.h"
#include "iter/iter.h"
#include "kernel/step.h"

#include <math.h>

enum { N_ROWS = 5, PIECE = 16384, BUFFERED = 512 }; /* parameter, gradient, up to three of state */

typedef struct job {
    const char *op;
    const nx_value *lists[N_ROWS]; /* NULL or empty: there is none */
    nx_value steps;
    nx__step_facts facts;
    bool is_adam;
} job;

/* ---- one tensor ---------------------------------------------------------------------------------------- */
typedef struct walker {
    const nx__step_facts *facts;
    nx__step_fn *step;
    nx_dtype dtype;      /* of the elements */
    int n_rows;
    int at[N_ROWS];      /* which of the step's operands row k is */
} walker;

static void divide(const nx__step_facts *f, void *grad, nx_dtype dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (dtype == NX_F64) ((double *)grad)[i] /= f->scale;
        else ((float *)grad)[i] /= (float)f->scale;
    }
}

static void step_row(const walker *w, void **rows, nx_dtype dtype, int64_t n) {
    if (w->facts->scale != 1) divide(w->facts, rows[1], dtype, n);
    w->step(w->facts, rows[0], rows[1], rows[2], rows[3], rows[4], n);
}

static void step_inner(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const walker *w = arg;
    nx_dtype dtype = w->dtype == NX_F64 ? NX_F64 : NX_F32;
    int64_t item = (int64_t)nx_dtype_bytes(dtype);
    bool plain = w->dtype == dtype;
    void *rows[N_ROWS] = {NULL};
    for (int k = 0; k < w->n_rows; k++) {
        plain = plain && (steps[k] == item || n == 1);
        rows[w->at[k]] = ptrs[k];
    }
    if (plain) {
        step_row(w, rows, dtype, n);
        return;
    }
    double buffers[N_ROWS][BUFFERED];
    for (int64_t begin = 0; begin < n; begin += BUFFERED) {
        int64_t count = n - begin < BUFFERED ? n - begin : BUFFERED;
        for (int k = 0; k < w->n_rows; k++) {
            rows[w->at[k]] = buffers[k];
            nx_cast(dtype, (char *)buffers[k], item, w->dtype, ptrs[k] + begin * steps[k], steps[k], count);
        }
        step_row(w, rows, dtype, count);
        for (int k = 0; k < w->n_rows; k++) {
            if (w->at[k] == 1 && w->facts->scale == 1) continue; /* the gradient is only read */
            nx_cast(w->dtype, ptrs[k] + begin * steps[k], steps[k], dtype, (const char *)buffers[k], item,
                    count);
        }
    }
}

static nx_status check_lists(const job *j) {
    const nx_value *parameters = j->lists[0];
    for (int r = 0; r < N_ROWS; r++) {
        const nx_value *list = j->lists[r];
        if (list == NULL) continue;
        if (list->n != parameters->n)
            return nx_fail(NX_RUNTIME, "%s: the lists must have as many tensors as there are parameters, %d, "
                           "not %d", j->op, parameters->n, list->n);
        for (int i = 0; i < list->n; i++) {
            const nx_array *a = list->list[i].array, *p = parameters->list[i].array;
            if (a->dtype == p->dtype && nx_same_size(a, p)) continue;
            return nx_fail(NX_RUNTIME, "%s: tensor %d of list %d must have the parameter's dtype and size",
                           j->op, i, r);
        }
    }
    return NX_OK;
}

static void step_tensor(const job *j, int i, const nx__step_facts *facts, int64_t begin, int64_t end) {
    const nx_array *p = j->lists[0]->list[i].array;
    static const nx__step_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, nx__step_rows)};
    const nx__step_rows *row = &rows[nx_level()][p->dtype == NX_F64];
    walker w = {facts, j->is_adam ? row->adam : row->sgd, (nx_dtype)p->dtype, 0, {0}};
    bool flat = true;
    char *ptrs[N_ROWS];
    int64_t steps[N_ROWS], item = (int64_t)nx_dtype_bytes(w.dtype);
    nx_walk walk;
    nx_walk_start(&walk, p->ndim, p->sizes);
    for (int r = 0; r < N_ROWS; r++) {
        if (j->lists[r] == NULL) continue;
        const nx_array *a = j->lists[r]->list[i].array;
        flat = flat && a->contiguous;
        ptrs[w.n_rows] = (char *)a->data + begin * item;
        steps[w.n_rows] = item;
        nx_walk_add(&walk, a);
        w.at[w.n_rows++] = r;
    }
    if (flat) {
        step_inner(&w, ptrs, steps, end - begin);
    } else if (begin == 0) { /* pieces are of rows alone */
        nx_walk_merge(&walk);
        nx_walk_run(&walk, step_inner, &w);
    }
}

/* ---- all of them: pieces of at most PIECE elements, numbered through ----------------------------------- */
static double number_in(const nx_array *a) {
    double number = 0;
    nx_cast(NX_F64, (char *)&number, 8, (nx_dtype)a->dtype, a->data, 0, 1);
    return number;
}

static nx__step_facts facts_of(const job *j, int i) {
    nx__step_facts f = j->facts;
    if (!j->is_adam) return f;
    double step = number_in(j->steps.list[i].array);
    f.rate = -(f.rate / (1 - pow(f.beta1, step)));
    f.root = pow(1 - pow(f.beta2, step), 0.5);
    return f;
}

static int64_t count_pieces(const job *j, int i) {
    return (j->lists[0]->list[i].array->numel + PIECE - 1) / PIECE;
}

static nx_status step_pieces(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    int64_t first = 0;
    for (int i = 0; i < j->lists[0]->n && first < end; i++) {
        int64_t n = count_pieces(j, i), numel = j->lists[0]->list[i].array->numel;
        int64_t from = begin > first ? begin - first : 0, to = end - first < n ? end - first : n;
        if (from < to) {
            nx__step_facts facts = facts_of(j, i);
            step_tensor(j, i, &facts, from * PIECE, to * PIECE < numel ? to * PIECE : numel);
        }
        first += n;
    }
    return NX_OK;
}

static nx_status run_job(job *j, const nx_array *grad_scale, const nx_array *found_inf) {
    int64_t n = 0;
    NX_TRY(check_lists(j));
    if (found_inf && number_in(found_inf) == 1) return NX_OK; /* the step is left out */
    j->facts.scale = grad_scale ? number_in(grad_scale) : 1;
    for (int i = 0; i < j->lists[0]->n; i++) n += count_pieces(j, i);
    return nx_parallel(n, 2, step_pieces, j);
}

nx_status nx__adam_step(nx_run *run, nx_value self, nx_value grads, nx_value exp_avgs, nx_value exp_avg_sqs,
                        nx_value max_exp_avg_sqs, nx_value state_steps, double lr, double beta1, double beta2,
                        double weight_decay, double eps, bool amsgrad, bool maximize,
                        const nx_array *grad_scale, const nx_array *found_inf, nx_value decoupled) {
    job j = {.op = nx_op_name(run->op),
             .lists = {&self, &grads, &exp_avgs, &exp_avg_sqs, amsgrad ? &max_exp_avg_sqs : NULL},
             .steps = state_steps,
             .is_adam = true};
    if (state_steps.n != self.n)
        return nx_fail(NX_RUNTIME, "%s: %d parameters and %d steps were given", j.op, self.n,
                       state_steps.n);
    j.facts = (nx__step_facts){.amsgrad = amsgrad, .decoupled = decoupled.i != 0, .sign = maximize ? -1 : 1,
                               .rate = lr, .decay = decoupled.i ? 1 - lr * weight_decay : weight_decay,
                               .beta1 = beta1, .beta2 = beta2, .eps = eps};
    return run_job(&j, grad_scale, found_inf);
}

nx_status nx__sgd_step(nx_run *run, nx_value self, nx_value grads, nx_value momentum_buffer_list,
                       double weight_decay, double momentum, double lr, double dampening, bool nesterov,
                       bool maximize, bool is_first_step, const nx_array *grad_scale,
                       const nx_array *found_inf) {
    job j = {.op = nx_op_name(run->op),
             .lists = {&self, &grads, momentum != 0 ? &momentum_buffer_list : NULL}};
    j.facts = (nx__step_facts){.sign = maximize ? -1 : 1, .rate = -lr, .decay = weight_decay,
                               .momentum = momentum, .dampening = dampening, .nesterov = nesterov,
                               .first = is_first_step};
    return run_job(&j, grad_scale, found_inf);
}
