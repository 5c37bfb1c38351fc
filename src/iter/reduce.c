/* Reductions on the CPU. The reduced dimensions are merged and put in order of memory; every result element
 * folds its elements in that order, NX_REDUCE_CHUNK at a time, and merges the chunks' states in order: a
 * fixed order, whatever the number of threads, and the one that tile programs follow. Where the results lie
 * closer together than the elements of one of them (sum over rows), a tile of COLUMNS results is folded side
 * by side, row after row: its states stand strand by strand, so that a row is added as a vector. Elements of
 * another dtype than the result's are cast first, in pieces. Next: dispatch.h, nx_reduce_loop. */
#include "iter/private.h"

enum { COLUMNS = NX_REDUCE_COLUMNS, BLOCK = 64 }; /* results side by side, rows cast at a time */

typedef struct axis { int64_t size, step, out_step; } axis; /* steps in bytes; out_step 0 when reduced */
typedef union state { char bytes[64]; _Alignas(64) double align; } state;

typedef struct reduction {
    const nx_reduce_loop *loop;
    nx_dtype dtype, from;             /* folded, given */
    const char *x;
    char *out;
    int n_kept, n_reduced;
    axis kept[NX_MAX_DIMS], reduced[NX_MAX_DIMS]; /* innermost last */
    int64_t count;                    /* elements of one result */
    axis column;                      /* results side by side: the innermost kept axis, or one */
    int64_t tiles;
    bool by_columns, once; /* once: one chunk, which need not be merged */
} reduction;

/* ---- folding ------------------------------------------------------------------------------------------- */
static void fold_piece(const reduction *r, state *s, const char *x, int64_t step, int64_t n) {
    if (r->from == r->dtype) {
        r->loop->fold(s, x, step, n);
        return;
    }
    _Alignas(64) char cast[NX_REDUCE_CHUNK * 8];
    int64_t bytes = (int64_t)nx_dtype_bytes(r->dtype);
    nx_cast(r->dtype, cast, bytes, r->from, x, step, n);
    r->loop->fold(s, cast, bytes, n);
}

/* n: results; n_states: states in use, all of them where the results stand side by side. */
typedef struct tile { state total[COLUMNS], part[COLUMNS]; int64_t filled; int n, n_states; } tile;

/* Strand by strand or not: init and merge do the same to every number of a state. */
static void close_chunk(const reduction *r, tile *t) {
    for (int c = 0; c < t->n_states; c++) {
        r->loop->merge(&t->total[c], &t->part[c]);
        r->loop->init(&t->part[c]);
    }
    t->filled = 0;
}

/* n elements of each column, which begin a strand. */
static void fold_columns(const reduction *r, tile *t, const char *x, int64_t step, int64_t n) {
    int64_t bytes = (int64_t)nx_dtype_bytes(r->dtype);
    if (r->from == r->dtype && r->column.step == bytes) {
        r->loop->fold_columns(t->part, x, step, n, t->n);
        return;
    }
    _Alignas(64) char cast[BLOCK * COLUMNS * 8];
    for (int64_t done = 0, part; done < n; done += part) {
        part = n - done < BLOCK ? n - done : BLOCK;
        for (int64_t i = 0; i < part; i++, x += step)
            nx_cast(r->dtype, cast + i * COLUMNS * bytes, bytes, r->from, x, r->column.step, t->n);
        r->loop->fold_columns(t->part, cast, COLUMNS * bytes, part, t->n);
    }
}

/* The state of one column, gathered. */
static void take_column(const reduction *r, const state *states, int column, state *out) {
    size_t bytes = sizeof(state) / (size_t)r->loop->strands;
    for (int k = 0; k < r->loop->strands; k++)
        memcpy(out->bytes + (size_t)k * bytes, (const char *)states + (size_t)(k * COLUMNS + column) * bytes, bytes);
}

static void write_results(const reduction *r, const tile *t, char *out) {
    const state *states = r->once ? t->part : t->total;
    for (int c = 0; c < t->n; c++, out += r->column.out_step) {
        state gathered;
        if (r->by_columns) take_column(r, states, c, &gathered);
        r->loop->done(r->by_columns ? &gathered : &states[c], r->count, out);
    }
}

/* One run of the innermost reduced axis, for all columns. */
static void fold_run(const reduction *r, tile *t, const char *x) {
    const axis *run = &r->reduced[r->n_reduced - 1];
    for (int64_t done = 0, n; done < run->size; done += n) {
        n = run->size - done;
        if (n > NX_REDUCE_CHUNK - t->filled) n = NX_REDUCE_CHUNK - t->filled;
        if (r->by_columns) fold_columns(r, t, x + done * run->step, run->step, n);
        else fold_piece(r, &t->part[0], x + done * run->step, run->step, n);
        t->filled += n;
        if (t->filled == NX_REDUCE_CHUNK && !r->once) close_chunk(r, t);
    }
}

static void fold_tile(const reduction *r, tile *t, const char *x) {
    int64_t index[NX_MAX_DIMS] = {0};
    int outer = r->n_reduced - 2;
    for (;;) {
        int d = outer;
        fold_run(r, t, x);
        for (; d >= 0; d--) {
            x += r->reduced[d].step;
            if (++index[d] < r->reduced[d].size) break;
            x -= r->reduced[d].step * r->reduced[d].size;
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

/* Tiles begin .. end: a tile's number counts its place along the columns first, then the other kept axes. */
static nx_status run_tiles(void *arg, int64_t begin, int64_t end) {
    const reduction *r = arg;
    tile t;
    for (int64_t k = begin; k < end; k++) {
        int64_t first = k % r->tiles * COLUMNS, rest = k / r->tiles;
        const char *x = r->x + first * r->column.step;
        char *out = r->out + first * r->column.out_step;
        for (int d = r->n_kept - 1; d >= 0; d--) {
            x += rest % r->kept[d].size * r->kept[d].step;
            out += rest % r->kept[d].size * r->kept[d].out_step;
            rest /= r->kept[d].size;
        }
        t.n = r->column.size - first < COLUMNS ? (int)(r->column.size - first) : COLUMNS;
        t.n_states = r->by_columns ? COLUMNS : t.n;
        t.filled = 0;
        for (int c = 0; c < t.n_states; c++) {
            if (!r->once) r->loop->init(&t.total[c]);
            r->loop->init(&t.part[c]);
        }
        if (r->count > 0) fold_tile(r, &t, x);
        if (t.filled > 0 && !r->once) close_chunk(r, &t);
        write_results(r, &t, out);
    }
    return NX_OK;
}

/* Rows begin .. end that are a chunk or less, each into one element. */
static nx_status run_rows(void *arg, int64_t begin, int64_t end) {
    const reduction *r = arg;
    const char *x = r->x + begin * r->kept[0].step;
    char *out = r->out + begin * r->kept[0].out_step;
    for (int64_t k = begin; k < end; k++, x += r->kept[0].step, out += r->kept[0].out_step) {
        state s;
        r->loop->init(&s);
        r->loop->fold(&s, x, r->reduced[0].step, r->count);
        r->loop->done(&s, r->count, out);
    }
    return NX_OK;
}

/* The common case: everything into one element, in row-major order. */
static void run_flat(const reduction *r, int64_t n) {
    state total, part;
    int64_t bytes = (int64_t)nx_dtype_bytes(r->from);
    r->loop->init(&total);
    for (int64_t done = 0; done < n; done += NX_REDUCE_CHUNK) {
        r->loop->init(&part);
        fold_piece(r, &part, r->x + done * bytes, bytes,
                   n - done < NX_REDUCE_CHUNK ? n - done : NX_REDUCE_CHUNK);
        r->loop->merge(&total, &part);
    }
    r->loop->done(&total, n, r->out);
}

/* ---- one long run: its chunks on several threads, merged in order -------------------------------------- */
typedef struct chunks { const reduction *r; state *states; } chunks;

static nx_status run_chunks(void *arg, int64_t begin, int64_t end) {
    const chunks *all = arg;
    const axis *run = &all->r->reduced[0];
    for (int64_t k = begin; k < end; k++) {
        int64_t first = k * NX_REDUCE_CHUNK,
                n = run->size - first < NX_REDUCE_CHUNK ? run->size - first : NX_REDUCE_CHUNK;
        all->r->loop->init(&all->states[k]);
        fold_piece(all->r, &all->states[k], all->r->x + first * run->step, run->step, n);
    }
    return NX_OK;
}

static bool run_long(reduction *r) {
    state total;
    int64_t n_chunks = (r->count + NX_REDUCE_CHUNK - 1) / NX_REDUCE_CHUNK;
    chunks all = {r, nx_alloc(sizeof(state) * (size_t)n_chunks)};
    if (all.states == NULL) return false; /* then serially, which needs no memory */
    (void)!nx_parallel(n_chunks, NX__SPLIT / NX_REDUCE_CHUNK, run_chunks, &all); /* run_chunks cannot fail */
    r->loop->init(&total);
    for (int64_t k = 0; k < n_chunks; k++) r->loop->merge(&total, &all.states[k]);
    r->loop->done(&total, r->count, r->out);
    nx_free(all.states);
    return true;
}

/* ---- axes ---------------------------------------------------------------------------------------------- */
/* Outermost first; what follows without a gap in both input and output becomes one. */
static int order_axes(axis *axes, int n) {
    for (int i = 1; i < n; i++) {
        for (int d = i; d > 0 && axes[d - 1].step < axes[d].step; d--) {
            axis kept = axes[d];
            axes[d] = axes[d - 1];
            axes[d - 1] = kept;
        }
    }
    int last = 0;
    for (int d = 1; d < n; d++) {
        const axis inner = axes[d];
        bool follows =
            axes[last].step == inner.step * inner.size && axes[last].out_step == inner.out_step * inner.size;
        if (follows) axes[last] = (axis){axes[last].size * inner.size, inner.step, inner.out_step};
        else axes[++last] = inner;
    }
    return n ? last + 1 : 0;
}

static nx_status split_axes(const nx_reduce *reduce, const nx_value *in, const nx_array *self,
                            const nx_array *out, reduction *r) {
    bool mask[NX_MAX_DIMS], keepdim = reduce->keepdim_param >= 0 && in[reduce->keepdim_param].i;
    nx_meta meta;
    int64_t bytes = (int64_t)nx_dtype_bytes(self->dtype), out_bytes = (int64_t)nx_dtype_bytes(out->dtype);
    NX_TRY(nx_meta_reduce("reduce", self, reduce->dim_param >= 0 ? &in[reduce->dim_param] : NULL, keepdim,
                          &meta, mask));
    r->n_kept = r->n_reduced = 0;
    r->count = 1;
    for (int d = 0, k = 0; d < self->ndim; d++) {
        int64_t out_stride = mask[d] && !keepdim ? 0 : out->strides[k++];
        if (mask[d]) r->count *= self->sizes[d];
        if (self->sizes[d] == 1) continue;
        if (mask[d]) r->reduced[r->n_reduced++] = (axis){self->sizes[d], self->strides[d] * bytes, 0};
        else r->kept[r->n_kept++] = (axis){self->sizes[d], self->strides[d] * bytes, out_stride * out_bytes};
    }
    r->n_kept = order_axes(r->kept, r->n_kept);
    r->n_reduced = order_axes(r->reduced, r->n_reduced);
    if (r->n_reduced == 0) r->reduced[r->n_reduced++] = (axis){1, bytes, 0};
    return NX_OK;
}

static void choose_columns(reduction *r) {
    const axis *inner = r->n_kept ? &r->kept[r->n_kept - 1] : NULL;
    r->column = (axis){1, 0, 0};
    r->by_columns = inner && inner->step < r->reduced[r->n_reduced - 1].step && r->loop->fold_columns;
    if (r->by_columns) {
        r->column = *inner;
        r->n_kept--;
    }
    r->once = r->count <= NX_REDUCE_CHUNK;
    r->tiles = (r->column.size + COLUMNS - 1) / COLUMNS;
}

nx_status nx_reduce_kernel(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_reduce *reduce = run->op->def->reduce;
    const nx_array *self = in[0].array, *result = out[0].array;
    reduction r;
    r.loop = reduce->loop[nx_level()][result->dtype];
    if (r.loop == NULL) r.loop = reduce->loop[NX_LEVEL_BASE][result->dtype];
    if (r.loop == NULL)
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: not implemented for '%s'", run->op->def->name,
                       nx_dtype_kind(result->dtype));
    if (result->numel == 0) return NX_OK;
    r.dtype = result->dtype;
    r.from = self->dtype;
    r.x = self->data;
    r.out = result->data;
    if (NX_LIKELY(result->numel == 1 && self->contiguous && self->numel < 2 * NX__SPLIT)) {
        run_flat(&r, self->numel);
        return NX_OK;
    }
    NX_TRY(split_axes(reduce, in, self, result, &r));
    choose_columns(&r);
    int64_t n = r.tiles;
    for (int d = 0; d < r.n_kept; d++) n *= r.kept[d].size;
    if (n == 1 && r.column.size == 1 && r.n_reduced == 1 && r.count >= 2 * NX__SPLIT && run_long(&r))
        return NX_OK;
    int64_t work = r.count * (r.column.size < COLUMNS ? r.column.size : COLUMNS);
    bool short_rows = r.once && !r.by_columns && r.n_kept == 1 && r.n_reduced == 1 && r.from == r.dtype;
    return nx_parallel(n, work >= NX__SPLIT ? 1 : NX__SPLIT / (work > 0 ? work : 1), short_rows ? run_rows : run_tiles,
                       &r);
}
