/* Reductions on the CPU. The reduced dimensions are merged and put in order of memory; every result element
 * folds its elements in that order, NX_REDUCE_CHUNK at a time, and merges the chunks' states in pairs (nx_reduce_push): a
 * fixed order, whatever the number of threads, and the one that tile programs follow. Where the results lie
 * closer together than the elements of one of them (sum over rows), a tile of COLUMNS results is folded side
 * by side, row after row: its states stand strand by strand, so that a row is added as a vector. Elements of
 * another dtype than the result's are cast first, in pieces. Next: dispatch.h, nx_reduce_loop. */
#include "iter/private.h"

enum { COLUMNS = NX_REDUCE_COLUMNS, BLOCK = 64, FOLD = 4 }; /* results side by side, rows cast at a time, cost of folding */

typedef struct axis { int64_t size, step, out_step; } axis; /* steps in bytes; out_step 0 when reduced */
typedef nx_reduce_state state;

typedef struct reduction {
    const nx_reduce_loop *loop;
    nx_dtype dtype, from;             /* folded, given */
    const char *x;
    char *out;
    int n_kept, n_reduced;
    axis kept[NX_MAX_DIMS], reduced[NX_MAX_DIMS]; /* innermost last */
    int64_t count;                    /* elements of one result */
    axis column;                      /* results side by side: the innermost kept axis, or one */
    int64_t tiles, n_chunks;          /* of the column axis; of a result */
    bool by_columns;
    int width;                        /* states of a tile */
    bool few;                         /* elements of a column: their states need not be made first */
    bool is_far;                      /* rows, and more of them than caches hold */
} reduction;

/* ---- folding ------------------------------------------------------------------------------------------- */
static inline void fold_piece(const reduction *r, state *s, const char *x, int64_t step, int64_t n) {
    int64_t bytes = (int64_t)nx_dtype_sizes[r->dtype];
    if (NX_LIKELY(r->from == r->dtype && (step == bytes || n < NX__WORTH))) {
        r->loop->fold(s, x, step, n);
        return;
    }
    _Alignas(64) char cast[NX_REDUCE_CHUNK * NX_MAX_ELEMENT_BYTES];
    nx_cast(r->dtype, cast, bytes, r->from, x, step, n);
    r->loop->fold(s, cast, bytes, n);
}

/* n elements of each column, which begin a strand. */
static void fold_columns(const reduction *r, state *states, int columns, const char *x, int64_t step, int64_t n) {
    int64_t bytes = (int64_t)nx_dtype_bytes(r->dtype);
    if (r->from == r->dtype && r->column.step == bytes) {
        r->loop->fold_columns(states, x, step, n, columns, false);
        return;
    }
    _Alignas(64) char cast[BLOCK * COLUMNS * NX_MAX_ELEMENT_BYTES];
    for (int64_t done = 0, part; done < n; done += part) {
        part = n - done < BLOCK ? n - done : BLOCK;
        for (int64_t i = 0; i < part; i++, x += step)
            nx_cast(r->dtype, cast + i * COLUMNS * bytes, bytes, r->from, x, r->column.step, columns);
        r->loop->fold_columns(states, cast, COLUMNS * bytes, part, columns, false);
    }
}

/* One result, or COLUMNS of them side by side; the last tile has fewer. */
typedef struct tile { const char *x; char *out; int columns; } tile;

/* A tile's number counts its place along the columns first, then the other kept axes. */
static tile tile_at(const reduction *r, int64_t nth) {
    int64_t first = nth % r->tiles * COLUMNS, rest = nth / r->tiles;
    tile t = {r->x + first * r->column.step, r->out + first * r->column.out_step,
              (int)nx_least(COLUMNS, r->column.size - first)};
    for (int d = r->n_kept - 1; d >= 0; d--) {
        t.x += rest % r->kept[d].size * r->kept[d].step;
        t.out += rest % r->kept[d].size * r->kept[d].out_step;
        rest /= r->kept[d].size;
    }
    return t;
}

/* Elements of chunk `nth` of each result into r->width fresh states. */
static void fold_chunk(const reduction *r, const tile *t, int64_t nth, state *states) {
    int64_t index[NX_MAX_DIMS], at = nth * NX_REDUCE_CHUNK, left = nx_least(NX_REDUCE_CHUNK, r->count - at);
    const char *x = t->x;
    int last = r->n_reduced - 1;
    const axis *run = &r->reduced[last];
    if (r->few) {
        r->loop->fold_columns(states, x, run->step, left, t->columns, true);
        return;
    }
    r->loop->init(&states[0]);
    if (NX_LIKELY(last == 0 && !r->by_columns)) {
        fold_piece(r, states, x + at * run->step, run->step, left);
        return;
    }
    const state fresh = states[0];
    for (int c = 1; c < r->width; c++) states[c] = fresh; /* all numbers of a state begin alike */
    if (left <= 0) return;
    for (int d = last; d >= 0; d--) {
        index[d] = at % r->reduced[d].size;
        x += index[d] * r->reduced[d].step;
        at /= r->reduced[d].size;
    }
    for (;;) {
        int64_t n = nx_least(left, run->size - index[last]);
        if (r->by_columns) fold_columns(r, states, t->columns, x, run->step, n);
        else fold_piece(r, states, x, run->step, n);
        if ((left -= n) == 0) return;
        x -= index[last] * run->step;
        index[last] = 0;
        for (int d = last - 1; d >= 0; d--) {
            x += r->reduced[d].step;
            if (++index[d] < r->reduced[d].size) break;
            x -= r->reduced[d].step * r->reduced[d].size;
            index[d] = 0;
        }
    }
}

static void write_results(const reduction *r, const tile *t, state *states) {
    if (r->by_columns) r->loop->done_columns(states, r->count, t->columns, t->out, r->column.out_step);
    else r->loop->done(states, r->count, t->out);
}

/* ---- merging ------------------------------------------------------------------------------------------- */
void nx_reduce_push(const nx_reduce_loop *loop, state *levels, int width, int64_t nth, state *part) {
    const state *carried = part;
    for (; nth & 1; nth >>= 1, levels += width) { /* as a counter in base 2 carries */
        for (int c = 0; c < width; c++) loop->merge(&levels[c], &carried[c]);
        carried = levels;
    }
    for (int c = 0; c < width; c++) levels[c] = carried[c];
}

state *nx_reduce_finish(const nx_reduce_loop *loop, state *levels, int width, int64_t n) {
    state *total = NULL;
    for (; n; n >>= 1, levels += width) {
        if ((n & 1) == 0) continue;
        for (int c = 0; total && c < width; c++) loop->merge(&levels[c], &total[c]);
        total = levels;
    }
    return total;
}

/* ---- tiles, rows, chunks ------------------------------------------------------------------------------- */
/* Of a row 2 * STREAM whole chunks, `nth` to be merged and those after it, a piece of the first half and one of the second
 * in turns: what lies beyond the caches comes half as fast again when it is asked for in two places. */
enum { STREAM = 8, TWO_STREAMS = 2 * STREAM * NX_REDUCE_CHUNK, FAR_BYTES = 16 << 20 };

static void fold_two_streams(const reduction *r, const char *x, int64_t step, int64_t nth, state *levels) {
    state states[2 * STREAM];
    for (int k = 0; k < 2 * STREAM; k++) r->loop->init(&states[k]);
    for (int64_t at = 0; at < TWO_STREAMS / 2; at += NX_REDUCE_PIECE, x += NX_REDUCE_PIECE * step) {
        state *first = &states[at / NX_REDUCE_CHUNK];
        fold_piece(r, first, x, step, NX_REDUCE_PIECE);
        fold_piece(r, first + STREAM, x + TWO_STREAMS / 2 * step, step, NX_REDUCE_PIECE);
    }
    for (int k = 0; k < 2 * STREAM; k++) nx_reduce_push(r->loop, levels, 1, nth + k, &states[k]);
}

/* Chunks begin .. end of a tile, merged; begin is a multiple of what is folded so. */
static state *fold_chunks(const reduction *r, const tile *t, int64_t begin, int64_t end, state *part, state *levels) {
    if (end - begin == 1) {
        fold_chunk(r, t, begin, part);
        return part;
    }
    int64_t k = 0, step = r->reduced[0].step, whole = r->is_far ? nx_least(end, r->count / NX_REDUCE_CHUNK) - begin : 0;
    for (; k + 2 * STREAM <= whole; k += 2 * STREAM)
        fold_two_streams(r, t->x + (begin + k) * NX_REDUCE_CHUNK * step, step, k, levels);
    for (; k < end - begin; k++) {
        state *into = k & 1 ? part : levels; /* nx_reduce_push would only copy it there */
        fold_chunk(r, t, begin + k, into);
        if (k & 1) nx_reduce_push(r->loop, levels, r->width, k, part);
    }
    return nx_reduce_finish(r->loop, levels, r->width, end - begin);
}

static nx_status run_tiles(void *arg, int64_t begin, int64_t end) {
    const reduction *r = arg;
    state part[COLUMNS], levels[NX_REDUCE_LEVELS * COLUMNS];
    for (int64_t k = begin; k < end; k++) {
        tile t = tile_at(r, k);
        write_results(r, &t, fold_chunks(r, &t, 0, r->n_chunks, part, levels));
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
        fold_piece(r, &s, x, r->reduced[0].step, r->count);
        r->loop->done(&s, r->count, out);
    }
    return NX_OK;
}

/* Few results of many chunks each: some chunks at a time on several threads, each such part into states of its own, merged
 * afterwards. A power of 2, so that chunks are merged in the same order as by one thread. */
enum { TOGETHER_LEVELS = 5 };
static int64_t together(const reduction *r) { return r->is_far ? 2 * STREAM : 4; }
typedef struct chunks { const reduction *r; int64_t n_parts; state *states; } chunks;

static nx_status run_chunks(void *arg, int64_t begin, int64_t end) {
    const chunks *all = arg;
    const reduction *r = all->r;
    state part[COLUMNS], levels[TOGETHER_LEVELS * COLUMNS];
    for (int64_t k = begin; k < end; k++) {
        tile t = tile_at(r, k / all->n_parts);
        int64_t first = k % all->n_parts * together(r), last = nx_least(first + together(r), r->n_chunks);
        state *folded = fold_chunks(r, &t, first, last, part, levels);
        memcpy(all->states + k * r->width, folded, sizeof *folded * (size_t)r->width);
    }
    return NX_OK;
}

static nx_status spread_chunks(const reduction *r, int64_t n, int64_t grain) {
    state levels[NX_REDUCE_LEVELS * COLUMNS];
    int64_t n_parts = (r->n_chunks + together(r) - 1) / together(r);
    size_t bytes = sizeof(state) * (size_t)(n * n_parts * r->width);
    chunks all = {r, n_parts, nx_alloc(bytes)};
    if (all.states == NULL) return nx_fail_memory(bytes);
    nx_status status = nx_parallel(n * n_parts, grain, run_chunks, &all);
    for (int64_t k = 0; k < n && status == NX_OK; k++) {
        tile t = tile_at(r, k);
        state *states = all.states + k * n_parts * r->width;
        for (int64_t p = 0; p < n_parts; p++) nx_reduce_push(r->loop, levels, r->width, p, states + p * r->width);
        write_results(r, &t, nx_reduce_finish(r->loop, levels, r->width, n_parts));
    }
    nx_free(all.states);
    return status;
}

/* The common case: everything into one element, in row-major order. */
static __attribute__((noinline)) void run_flat(const reduction *r, int64_t n) {
    state part, levels[NX_REDUCE_LEVELS]; /* as fold_chunks */
    int64_t bytes = (int64_t)nx_dtype_bytes(r->from), n_chunks = 0, done = 0;
    for (; n * bytes > FAR_BYTES && done + TWO_STREAMS <= n; done += TWO_STREAMS, n_chunks += 2 * STREAM)
        fold_two_streams(r, r->x + done * bytes, bytes, n_chunks, levels);
    for (; done < n; done += NX_REDUCE_CHUNK, n_chunks++) {
        state *into = n_chunks & 1 ? &part : levels;
        r->loop->init(into);
        fold_piece(r, into, r->x + done * bytes, bytes, nx_least(NX_REDUCE_CHUNK, n - done));
        if (n_chunks & 1) nx_reduce_push(r->loop, levels, 1, n_chunks, into);
    }
    r->loop->done(nx_reduce_finish(r->loop, levels, 1, n_chunks), n, r->out);
}

static inline void run_chunk(const reduction *r, int64_t n) {
    state part;
    r->loop->init(&part);
    fold_piece(r, &part, r->x, (int64_t)nx_dtype_bytes(r->from), n);
    r->loop->done(&part, n, r->out);
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
    r->width = r->by_columns ? COLUMNS : 1;
    r->few = r->by_columns && r->n_reduced == 1 && r->count > 0 && r->count < NX_REDUCE_FEW * r->loop->strands &&
             r->from == r->dtype && r->column.step == (int64_t)nx_dtype_bytes(r->dtype);
    r->n_chunks = r->count <= NX_REDUCE_CHUNK ? 1 : (r->count + NX_REDUCE_CHUNK - 1) / NX_REDUCE_CHUNK;
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
    int64_t bytes = (int64_t)nx_dtype_bytes(self->dtype) + FOLD;
    r.dtype = result->dtype;
    r.from = self->dtype;
    r.x = self->data;
    r.out = result->data;
    if (NX_LIKELY(result->numel == 1 && self->contiguous && !nx_is_long(self->numel, bytes))) {
        if (NX_LIKELY(self->numel <= NX_REDUCE_CHUNK)) run_chunk(&r, self->numel);
        else run_flat(&r, self->numel);
        return NX_OK;
    }
    NX_TRY(split_axes(reduce, in, self, result, &r));
    choose_columns(&r);
    r.is_far = r.n_reduced == 1 && !r.by_columns && self->numel * (bytes - FOLD) > FAR_BYTES;
    int64_t n = r.tiles;
    for (int d = 0; d < r.n_kept; d++) n *= r.kept[d].size;
    int64_t columns = nx_least(r.column.size, COLUMNS);
    if (r.n_chunks > 1 && n < 2 * nx_num_threads() && nx_is_long(self->numel, bytes))
        return spread_chunks(&r, n, nx_grain(columns * together(&r) * NX_REDUCE_CHUNK * bytes));
    bool short_rows = r.n_chunks == 1 && !r.by_columns && r.n_kept == 1 && r.n_reduced == 1 && r.from == r.dtype;
    return nx_parallel(n, nx_grain(r.count * columns * bytes), short_rows ? run_rows : run_tiles, &r);
}
