/* Kernels of softmax.op: each row along one dimension is computed in float (double for float64) by the row kernels of
 * src/kernel/row.c, in place where it can be, else in a buffer, so that every dtype and every stride takes the same
 * way. Rows are independent: they are split over threads. Next: rows.h. */
#include "gen/kernels.h"
#include "rows.h"

#include <math.h>

typedef struct softmax {
    nx_row_fn *row;
    const nx_array *a, *b; /* b: only of a derivative */
    nx_array *out;
    int dim;
    double filler;
} softmax;

static nx_status run_rows(void *arg, int64_t begin, int64_t end) {
    const softmax *s = arg;
    nx_dtype computing = nx__row_computing(s->out);
    int64_t room = nx_row_room(nx__row_length(s->out, s->dim)), bytes = room * (int64_t)nx_dtype_bytes(computing);
    bool direct = nx__row_direct(s->a, s->dim, computing) && nx__row_direct(s->out, s->dim, computing) &&
                  (s->b == NULL || nx__row_direct(s->b, s->dim, computing));
    char *buffer = direct ? NULL : nx_alloc((size_t)(2 * bytes));
    if (!direct && buffer == NULL) return nx_fail_memory((size_t)(2 * bytes));
    if (direct && nx__row_follows(s->a, s->dim) && nx__row_follows(s->out, s->dim) &&
        (s->b == NULL || nx__row_follows(s->b, s->dim))) {
        for (int64_t at = begin * bytes; at < end * bytes; at += bytes)
            s->row((char *)s->out->data + at, (char *)s->a->data + at, s->b ? (char *)s->b->data + at : NULL, room);
        return NX_OK;
    }
    for (int64_t r = begin; r < end; r++) {
        const void *a = nx__row_load(computing, buffer, s->a, s->dim, r, s->filler), *b = NULL;
        if (s->b) b = nx__row_load(computing, buffer ? buffer + bytes : NULL, s->b, s->dim, r, s->filler);
        s->row(direct ? nx__row_at(s->out, s->dim, r) : buffer, a, b, room);
        if (!direct) nx__row_store(computing, buffer, s->out, s->dim, r);
    }
    nx_free(buffer);
    return NX_OK;
}

static nx_status split_rows(const softmax *s) {
    int64_t n = nx__row_length(s->out, s->dim);
    if (s->out->numel == 0) return NX_OK;
    return nx_parallel(s->out->numel / n, nx__row_grain(n), run_rows, (void *)s);
}

nx_status nx__softmax_rows(nx_run *run, const nx_array *self, int64_t dim, nx_array *out) {
    return split_rows(&(softmax){nx_rows_get(out->dtype)->softmax, self, NULL, out, (int)dim, -INFINITY});
}

nx_status nx__log_softmax_rows(nx_run *run, const nx_array *self, int64_t dim, nx_array *out) {
    return split_rows(&(softmax){nx_rows_get(out->dtype)->log_softmax, self, NULL, out, (int)dim, -INFINITY});
}

nx_status nx__softmax_backward_rows(nx_run *run, const nx_array *grad_output, const nx_array *output, int64_t dim,
                                    nx_array *out) {
    nx_row_fn *row = nx_rows_get(out->dtype)->softmax_backward;
    return split_rows(&(softmax){row, grad_output, output, out, (int)dim, 0});
}

nx_status nx__log_softmax_backward_rows(nx_run *run, const nx_array *grad_output, const nx_array *output, int64_t dim,
                                        nx_array *out) {
    nx_row_fn *row = nx_rows_get(out->dtype)->log_softmax_backward;
    return split_rows(&(softmax){row, grad_output, output, out, (int)dim, 0});
}
