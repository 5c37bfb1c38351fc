/* Walking several strided arrays over one index space. Start with the sizes, add the operands (the written
 * one first), merge, run: the inner function gets the innermost dimension, which is the last. Order after the
 * merge: by the strides of the first operand that tells, so that memory is met in rising order; dimensions
 * that follow each other without a gap in every operand become one. */
#include "iter/private.h"

#include <assert.h>

void nx_walk_start(nx_walk *walk, int ndim, const int64_t *size) {
    walk->n = 0;
    walk->ndim = ndim;
    for (int d = 0; d < ndim; d++) walk->size[d] = size[d];
}

void nx_walk_add(nx_walk *walk, const nx_array *array) {
    int k = walk->n++, shift = walk->ndim - array->ndim;
    int64_t bytes = (int64_t)nx_dtype_bytes(array->dtype);
    walk->ptr[k] = array->data;
    for (int d = 0; d < walk->ndim; d++) {
        bool stretched = d < shift || array->sizes[d - shift] == 1;
        walk->step[k][d] = stretched ? 0 : nx_times(array->strides[d - shift], bytes);
    }
}

static bool is_inside(const nx_walk *walk, int a, int b) { /* dimension a belongs inside b */
    for (int k = 0; k < walk->n; k++) {
        int64_t step_a = walk->step[k][a], step_b = walk->step[k][b];
        if (step_a && step_b && step_a != step_b) return step_a < step_b;
    }
    return false;
}

void nx__walk_swap(nx_walk *walk, int a, int b) {
    int64_t kept = walk->size[a];
    walk->size[a] = walk->size[b];
    walk->size[b] = kept;
    for (int k = 0; k < walk->n; k++) {
        kept = walk->step[k][a];
        walk->step[k][a] = walk->step[k][b];
        walk->step[k][b] = kept;
    }
}

static void move_dim(nx_walk *walk, int from, int to) {
    walk->size[to] = walk->size[from];
    for (int k = 0; k < walk->n; k++) walk->step[k][to] = walk->step[k][from];
}

/* Whether dimension `outer` goes on where `inner` ends, for all operands. */
static bool continues(const nx_walk *walk, int outer, int inner) {
    for (int k = 0; k < walk->n; k++) {
        if (walk->step[k][outer] != nx_times(walk->step[k][inner], walk->size[inner])) return false;
    }
    return true;
}

void nx_walk_merge(nx_walk *walk) {
    int n = 0;
    for (int d = 0; d < walk->ndim; d++) {
        if (walk->size[d] != 1) move_dim(walk, d, n++);
    }
    for (int i = 1; i < n; i++) {
        for (int d = i; d > 0 && is_inside(walk, d - 1, d); d--) nx__walk_swap(walk, d - 1, d);
    }
    walk->ndim = n;
    if (n < 2) return;
    int last = 0; /* dimensions up to here are merged among themselves */
    for (int d = 1; d < n; d++) {
        if (continues(walk, last, d)) {
            int64_t size = nx_times(walk->size[last], walk->size[d]);
            move_dim(walk, d, last);
            walk->size[last] = size;
        } else {
            move_dim(walk, d, ++last);
        }
    }
    walk->ndim = last + 1;
}

static int64_t count(const nx_walk *walk) { return nx_numel(walk->ndim, walk->size); }

/* Elements begin .. end in the order of the walk, which has dimensions. */
static void run_range(const nx_walk *walk, int64_t begin, int64_t end, nx_walk_fn *inner, void *arg) {
    char *ptrs[NX_MAX_OPERANDS];
    int64_t steps[NX_MAX_OPERANDS], index[NX_MAX_DIMS], rest = begin;
    int last = walk->ndim - 1;
    for (int k = 0; k < walk->n; k++) {
        ptrs[k] = walk->ptr[k];
        steps[k] = walk->step[k][last];
    }
    for (int d = last; d >= 0; d--) {
        index[d] = rest % walk->size[d];
        rest /= walk->size[d];
        for (int k = 0; k < walk->n; k++) ptrs[k] += index[d] * walk->step[k][d];
    }
    for (;;) {
        int64_t n = nx_least(end - begin, walk->size[last] - index[last]);
        inner(arg, ptrs, steps, n);
        if ((begin += n) == end) return;
        for (int k = 0; k < walk->n; k++) ptrs[k] -= index[last] * steps[k];
        index[last] = 0;
        for (int d = last - 1; d >= 0; d--) {
            for (int k = 0; k < walk->n; k++) ptrs[k] += walk->step[k][d];
            if (++index[d] < walk->size[d]) break;
            for (int k = 0; k < walk->n; k++) ptrs[k] -= walk->step[k][d] * walk->size[d];
            index[d] = 0;
        }
    }
}

void nx_walk_run(const nx_walk *walk, nx_walk_fn *inner, void *arg) {
    int64_t n = count(walk);
    if (n == 0) return;
    if (walk->ndim) run_range(walk, 0, n, inner, arg);
    else inner(arg, walk->ptr, (const int64_t[NX_MAX_OPERANDS]){0}, 1);
}

typedef struct piece { const nx_walk *walk; nx_walk_fn *inner; void *arg; } piece;

static nx_status run_piece(void *arg, int64_t begin, int64_t end) {
    const piece *whole = arg;
    run_range(whole->walk, begin, end, whole->inner, whole->arg);
    return NX_OK;
}

void nx_walk_spread(const nx_walk *walk, int64_t cost, nx_walk_fn *inner, void *arg) {
    int64_t n = count(walk);
    if (walk->ndim == 0 || !nx_is_long(n, cost)) {
        nx_walk_run(walk, inner, arg);
        return;
    }
    piece whole = {walk, inner, arg};
    nx_status status = nx_parallel(n, nx_grain(cost), run_piece, &whole);
    assert(status == NX_OK); /* run_piece cannot fail */
    (void)status;
}
