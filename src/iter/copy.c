/* Whole arrays into others, dtypes and layouts as they are. Where no cast is needed the last two dimensions go as one
 * plane: rows that lie side by side in both, or back to front in one, or a plane that is turned over. */
#include "iter/private.h"

typedef struct dtypes { nx_dtype to, from; } dtypes;

static void copy_inner(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const dtypes *d = arg;
    nx_cast(d->to, ptrs[0], steps[0], d->from, ptrs[1], steps[1], n);
}

/* ---- planes: the walk over the other dimensions, and what is moved at each place ------------------------------- */
typedef struct plane { nx__plane_fn *move; int64_t to_step, from_step, rows, columns, bytes, row_bytes; } plane;

static void copy_planes(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const plane *p = arg;
    for (int64_t i = 0; i < n; i++)
        p->move(ptrs[0] + i * steps[0], p->to_step, ptrs[1] + i * steps[1], p->from_step, p->rows, p->columns);
}

/* A few planes: each of them on several threads. */
static nx_status copy_rows(void *arg, int64_t begin, int64_t end) {
    const struct { const plane *p; char *to; const char *from; } *one = arg;
    const plane *p = one->p;
    bool turned = p->move == nx__moves_get()->turn[p->bytes];
    p->move(one->to + begin * p->to_step, p->to_step, one->from + begin * (turned ? p->bytes : p->from_step), p->from_step,
            end - begin, p->columns);
    return NX_OK;
}

static void spread_planes(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const plane *p = arg;
    for (int64_t i = 0; i < n; i++) {
        struct { const plane *p; char *to; const char *from; } one = {p, ptrs[0] + i * steps[0], ptrs[1] + i * steps[1]};
        (void)!nx_parallel(p->rows, nx_grain(2 * p->row_bytes), copy_rows, &one); /* copy_rows cannot fail */
    }
}

/* Takes dimension `d` and the last one out of the walk. */
static plane take_plane(nx_walk *walk, int d, nx__plane_fn *move) {
    int last = walk->ndim - 1;
    plane p = {move, walk->step[0][d], walk->step[1][d], walk->size[d], walk->size[last]};
    for (int k = d; k + 1 < last; k++) {
        walk->size[k] = walk->size[k + 1];
        for (int i = 0; i < walk->n; i++) walk->step[i][k] = walk->step[i][k + 1];
    }
    walk->ndim -= 2;
    return p;
}

static bool copy_by_planes(nx_walk *walk, int64_t bytes) {
    int last = walk->ndim - 1, d = last - 1;
    const nx__moves *moves = nx__moves_get();
    plane p;
    int64_t walk_row = last >= 0 ? walk->size[last] * bytes : 0;
    if (last < 1 || walk->step[0][last] != bytes) return false;
    if (walk->step[1][last] == bytes) {
        p = take_plane(walk, d, moves->rows);
        p.columns *= bytes;
    } else if (walk->step[1][last] == -bytes) {
        p = take_plane(walk, d, moves->back[bytes]);
    } else {
        int64_t step = walk->step[1][last];
        while (d >= 0 && walk->step[1][d] != bytes) d--;
        if (d < 0) return false;
        p = take_plane(walk, d, moves->turn[bytes]);
        p.from_step = step;
    }
    p.bytes = bytes;
    p.row_bytes = walk_row;
    int64_t n = nx_numel(walk->ndim, walk->size);
    if (n < nx_num_threads() && nx_is_long(p.rows, 2 * p.row_bytes)) nx_walk_run(walk, spread_planes, &p);
    else nx_walk_spread(walk, 2 * p.rows * p.row_bytes, copy_planes, &p);
    return true;
}

void nx_copy_cast(const nx_array *to, const nx_array *from) {
    dtypes both = {to->dtype, from->dtype};
    int64_t to_bytes = (int64_t)nx_dtype_bytes(to->dtype), from_bytes = (int64_t)nx_dtype_bytes(from->dtype);
    if (to->numel == 0 ||
        (to->data == from->data && both.to == both.from && to->contiguous && from->contiguous))
        return;
    if (to->contiguous && from->contiguous && to->numel == from->numel && !nx_is_long(to->numel, to_bytes + from_bytes)) {
        nx_cast(both.to, to->data, to_bytes, both.from, from->data, from_bytes, to->numel);
        return;
    }
    nx_walk walk;
    nx_walk_start(&walk, to->ndim, to->sizes);
    nx_walk_add(&walk, to);
    nx_walk_add(&walk, from);
    nx_walk_merge(&walk);
    if (both.to == both.from && copy_by_planes(&walk, to_bytes)) return;
    if (nx__walk_is_narrow(&walk)) nx__walk_swap(&walk, walk.ndim - 2, walk.ndim - 1);
    nx_walk_spread(&walk, to_bytes + from_bytes, copy_inner, &both);
}
