/* Kernels of attention.op. The matrix of weights is never whole: for a block of queries the keys are taken in tiles, and
 * what a row has gathered so far is brought to the new largest score (Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018; Dao et al., "FlashAttention", 2022). The derivative makes each tile of weights again
 * from the logarithm of its rows' sums. Halves are computed in float. Blocks are independent and always cut alike, so
 * results do not depend on threads. Next: attention_rows.c for the work on rows; gemm.c for products. */
#include "attention_rows.h"
#include "gen/kernels.h"
#include "shared/rows.h"

#include <math.h>

enum { QUERIES = 64, KEYS = 128 }; /* of a tile */
enum { MOST_PACKED = 1 << 17 }; /* numbers of the keys of a head that are packed once for all queries */

const struct nx__weight_bounds nx__weight_bounds = {-87, 88};

typedef struct attention {
    const nx_array *q, *k, *v, *mask; /* mask: NULL or broadcast to the scores */
    const nx_array *g, *y, *lse;      /* of the derivative: gradient, result, logarithms of the rows' sums */
    nx_array *out, *out_lse, *out_q, *out_k, *out_v;
    const nx__attention_rows *rows;
    const nx_blas *blas;
    nx_dtype computing;
    int64_t bytes;                    /* of a computed number */
    int64_t n_queries, n_keys, width, n_blocks, repeat; /* repeat: heads of q for one of k */
    double scale;
    bool causal, packs;
} attention;

/* Rows of one head, side by side in the computing type. */
typedef struct matrix { const char *at; int64_t ld; } matrix;

static char *address(const nx_array *a, int64_t batch, int64_t head, int64_t row) {
    int64_t offset = batch * a->strides[0] + head * a->strides[1] + row * a->strides[2];
    return (char *)a->data + offset * (int64_t)nx_dtype_bytes((nx_dtype)a->dtype);
}

static bool is_direct(const attention *w, const nx_array *a) { return a->dtype == w->computing && a->strides[3] == 1; }

static void load_row(const attention *w, const nx_array *a, const char *from, char *to) {
    if (is_direct(w, a)) memcpy(to, from, (size_t)(w->width * w->bytes));
    else
        nx_cast(w->computing, to, w->bytes, (nx_dtype)a->dtype, from,
                a->strides[3] * (int64_t)nx_dtype_bytes((nx_dtype)a->dtype), w->width);
}

/* In place where they lie so, else copied into `room`. Rows that are multiples of 1024 bytes apart have a few lines of the
 * first-level cache between them, and products come back to each. */
static matrix load(const attention *w, const nx_array *a, int64_t batch, int64_t head, int64_t first, int64_t n,
                   char *room) {
    bool crowded = a->strides[2] != a->sizes[3] && a->strides[2] * w->bytes % 1024 == 0;
    if (is_direct(w, a) && a->strides[2] >= a->sizes[3] && !crowded)
        return (matrix){address(a, batch, head, first), a->strides[2]};
    for (int64_t i = 0; i < n; i++)
        load_row(w, a, address(a, batch, head, first + i), room + i * w->width * w->bytes);
    return (matrix){room, w->width};
}

/* Queries of a tile, times the scale; room may be where they are. */
static matrix scaled(const attention *w, matrix q, int64_t n, char *room) {
    w->rows->scale(room, w->width, q.at, q.ld, &w->scale, 0, n, w->width);
    return (matrix){room, w->width};
}

/* Rows of a result from `first` on: as they lie, where they are of the computing type, else those of `room`, see store_copies(). */
static matrix rows_of(const attention *w, const nx_array *a, int64_t batch, int64_t head, int64_t first, char *room) {
    if (is_direct(w, a)) return (matrix){address(a, batch, head, first), a->strides[2]};
    return (matrix){room + first * w->width * w->bytes, w->width};
}

static void store_copies(const attention *w, const nx_array *a, int64_t batch, int64_t head, int64_t first, int64_t n,
                         const char *from) {
    int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)a->dtype);
    for (int64_t i = 0; i < n && !is_direct(w, a); i++)
        nx_cast((nx_dtype)a->dtype, address(a, batch, head, first + i), a->strides[3] * bytes, w->computing,
                from + i * w->width * w->bytes, w->bytes, w->width);
}

static void clear(const attention *w, matrix rows, int64_t n) {
    for (int64_t i = 0; i < n; i++) memset((char *)rows.at + i * rows.ld * w->bytes, 0, (size_t)(w->width * w->bytes));
}

/* n rows from `first` on: the computed ones, which are written as well, times a factor of each, which lie by_step apart. */
static void store(const attention *w, const nx_array *a, int64_t batch, int64_t head, int64_t first, int64_t n, char *from,
                  const double *by, int64_t by_step) {
    bool direct = is_direct(w, a);
    char *to = direct ? address(a, batch, head, first) : from;
    w->rows->scale(to, direct ? a->strides[2] : w->width, from, w->width, by, by_step, n, w->width);
    store_copies(w, a, batch, head, first, n, from);
}

/* out = a b, or with `add` out += a b; `trans` operands are given transposed. room: of room_for_products(). part, seen: only
 * panels leave out what does not count. */
typedef struct product { bool trans_a, trans_b; int64_t m, n, k; bool add; nx_counts part; int64_t seen; } product;

static nx_status multiply(const attention *w, product p, matrix a, matrix b, char *out, int64_t ld_out, float *room) {
    int t_a = p.trans_a ? NX_BLAS_TRANS : NX_BLAS_NO_TRANS, t_b = p.trans_b ? NX_BLAS_TRANS : NX_BLAS_NO_TRANS;
    if (room) {
        const nx_product panels = {.m = p.m, .n = p.n, .k = p.k, .part = p.part, .seen = p.seen, .a = (const float *)a.at,
                                   .b = (const float *)b.at, .a_row_step = p.trans_a ? 1 : a.ld, .a_k_step = p.trans_a ? a.ld : 1,
                                   .b_k_step = p.trans_b ? 1 : b.ld, .b_column_step = p.trans_b ? b.ld : 1,
                                   .c = (float *)out, .c_row_step = ld_out, .add = p.add, .room = room};
        return nx_product_run(&panels);
    }
    if (w->blas == NULL || p.n == 0 || p.k == 0 || a.ld > INT32_MAX || b.ld > INT32_MAX || ld_out > INT32_MAX) {
        w->rows->multiply(p.trans_a, p.trans_b, p.m, p.n, p.k, a.at, a.ld, b.at, b.ld, p.add, out, ld_out);
    } else if (w->computing == NX_F64) {
        w->blas->dgemm(NX_BLAS_ROW_MAJOR, t_a, t_b, (int)p.m, (int)p.n, (int)p.k, 1, (const double *)a.at, (int)a.ld,
                       (const double *)b.at, (int)b.ld, p.add, (double *)out, (int)ld_out);
    } else {
        w->blas->sgemm(NX_BLAS_ROW_MAJOR, t_a, t_b, (int)p.m, (int)p.n, (int)p.k, 1, (const float *)a.at, (int)a.ld,
                       (const float *)b.at, (int)b.ld, p.add, (float *)out, (int)ld_out);
    }
    return NX_OK;
}

/* In numbers of the computing type; 0: products need none. */
static size_t room_for_products(const attention *w) {
    if (w->computing != NX_F32 || w->width == 0 || !nx_product_runs()) return 0;
    size_t scores = nx_product_room(KEYS, KEYS, w->width), others = nx_product_room(KEYS, w->width, KEYS);
    return ((scores > others ? scores : others) + 15) / 16 * 16;
}

/* Rows of one head, transposed, as the second operand of products: packed, all of them; NULL: as they lie, those of a tile. */
typedef struct columns { matrix lie; float *packed; } columns;

/* In numbers of the computing type. */
static size_t room_for_packed(const attention *w) { return w->packs ? nx_product_packed(w->n_keys, w->width) : 0; }

/* room: of KEYS rows. */
static void pack_head(const attention *w, const nx_array *a, int64_t batch, int64_t head, char *room, float *to) {
    for (int64_t key = 0; key < w->n_keys && w->packs; key += KEYS) {
        int64_t n = nx_least(KEYS, w->n_keys - key);
        matrix rows = load(w, a, batch, head, key, n, room);
        nx_product_pack(&(nx_product){.n = n, .k = w->width, .b = (const float *)rows.at, .b_k_step = 1,
                                      .b_column_step = rows.ld}, to + key * w->width);
    }
}

/* ---- a tile of scores ----------------------------------------------------------------------------------- */
/* n queries from `query` on, m keys from `key` on; rows of the tile are `step` numbers apart. */
typedef struct tile { int64_t batch, head, query, n, key, m, step; } tile;

static int64_t whole_strands(int64_t n) { return (n + NX__STRANDS - 1) / NX__STRANDS * NX__STRANDS; }

/* The next keys of `end`. */
static void set_keys(tile *t, int64_t end) {
    t->m = nx_least(KEYS, end - t->key);
    t->step = whole_strands(t->m);
}

static columns columns_of(const attention *w, const tile *t, const nx_array *a, int64_t head, char *room, float *packed) {
    if (w->packs) return (columns){.packed = packed};
    return (columns){.lie = load(w, a, t->batch, head, t->key, t->m, room)};
}

/* What the tile's rows see. */
static nx__sight sight(const attention *w, const tile *t) {
    return (nx__sight){t->n, t->step, t->m, w->causal ? t->query + 1 - t->key : t->m, w->causal};
}

/* A product with n columns, of a tile or of what it is multiplied with: of the part that its rows see. */
static product product_of(const attention *w, const tile *t, nx_counts part, int64_t n, bool add) {
    const bool turned = part == NX_SEEN_COLUMNS;
    const int64_t k = part == NX_SEEN_RESULT ? w->width : turned ? t->n : t->m;
    return (product){turned, part == NX_SEEN_RESULT, turned ? t->m : t->n, n, k, add, w->causal ? part : NX_WHOLE,
                     sight(w, t).seen};
}

/* scores = rows keys', where they are seen; packed ones have 0 behind the tile's last. */
static nx_status multiply_columns(const attention *w, const tile *t, matrix rows, columns keys, char *scores, float *room) {
    const product p = product_of(w, t, NX_SEEN_RESULT, keys.packed ? t->step : t->m, false);
    if (keys.packed == NULL) return multiply(w, p, rows, keys.lie, scores, t->step, room);
    nx_product_run_packed(&(nx_product){.m = p.m, .n = p.n, .k = p.k, .part = p.part, .seen = p.seen,
                                        .a = (const float *)rows.at, .a_row_step = rows.ld, .a_k_step = 1,
                                        .c = (float *)scores, .c_row_step = t->step},
                          keys.packed + t->key * w->width);
    return NX_OK;
}

static void add_mask(const attention *w, const tile *t, char *scores, char *room) {
    const nx_array *a = w->mask;
    int64_t at[4] = {t->batch, t->head, t->query, t->key}, step[4] = {0}, offset = 0;
    int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)a->dtype);
    for (int d = 4 - a->ndim; d < 4; d++) {
        step[d] = a->sizes[d - 4 + a->ndim] == 1 ? 0 : a->strides[d - 4 + a->ndim];
        offset += at[d] * step[d];
    }
    for (int64_t i = 0; i < t->n; i++) {
        const char *from = (const char *)a->data + (offset + i * step[2]) * bytes;
        nx_cast(w->computing, room, w->bytes, (nx_dtype)a->dtype, from, step[3] * bytes, t->m);
        w->rows->add(scores + i * t->step * w->bytes, room, t->m);
    }
}

/* query key' + mask, of scaled queries. `row` takes a row of the mask. */
static nx_status score(const attention *w, const tile *t, matrix q, columns k, char *scores, char *row, float *room) {
    NX_TRY(multiply_columns(w, t, q, k, scores, room));
    if (w->mask) add_mask(w, t, scores, row);
    return NX_OK;
}

/* The keys that a block of queries sees. */
static int64_t last_key(const attention *w, int64_t query_end) {
    return w->causal && query_end < w->n_keys ? query_end : w->n_keys;
}

/* ---- forward -------------------------------------------------------------------------------------------- */
typedef struct forward { char *q, *k, *v, *scores, *y, *row; double *top, *sum; float *room, *packed; } forward;

static nx_status forward_block(const attention *w, const forward *f, tile t) {
    int64_t kv = t.head / w->repeat, end = last_key(w, t.query + t.n);
    matrix q = scaled(w, load(w, w->q, t.batch, t.head, t.query, t.n, f->q), t.n, f->q);
    if (end == 0) memset(f->y, 0, (size_t)(t.n * w->width * w->bytes));
    for (int64_t i = 0; i < t.n; i++) f->top[i] = -INFINITY, f->sum[i] = 0;
    for (t.key = 0; t.key < end; t.key += KEYS) {
        set_keys(&t, end);
        const nx__sight seen = sight(w, &t);
        NX_TRY(score(w, &t, q, columns_of(w, &t, w->k, kv, f->k, f->packed), f->scores, f->row, f->room));
        w->rows->soften(f->scores, &seen, f->top, f->sum, t.key ? f->y : NULL, w->width);
        NX_TRY(multiply(w, product_of(w, &t, NX_SEEN_ROWS, w->width, t.key > 0), (matrix){f->scores, t.step},
                        load(w, w->v, t.batch, kv, t.key, t.m, f->v), f->y, w->width, f->room));
    }
    w->rows->finish(f->top, f->sum, t.n); /* a row without keys gives zeros */
    const nx_array *lse = w->out_lse;
    nx_cast((nx_dtype)lse->dtype, address(lse, t.batch, t.head, t.query),
            lse->strides[2] * (int64_t)nx_dtype_bytes((nx_dtype)lse->dtype), NX_F64, (const char *)f->top,
            sizeof(double), t.n);
    store(w, w->out, t.batch, t.head, t.query, t.n, f->y, f->sum, 1);
    return NX_OK;
}

static nx_status forward_blocks(void *arg, int64_t begin, int64_t end) {
    const attention *w = arg;
    size_t n = (size_t)nx_least(QUERIES, w->n_queries), m = (size_t)whole_strands(nx_least(KEYS, w->n_keys));
    size_t width = (size_t)w->width;
    size_t room = room_for_products(w), packed = room_for_packed(w), bytes = (size_t)w->bytes;
    size_t numbers = room + packed + (2 * n + 2 * m) * width + n * m + m;
    nx_status status = NX_OK;
    char *at = nx_room_new(numbers * bytes + 2 * n * sizeof(double) + 8);
    if (at == NULL) return nx_fail_memory(numbers * bytes);
    forward f = {.room = room ? (float *)at : NULL, .packed = (float *)at + room, .q = at + (room + packed) * bytes};
    f.y = f.q + n * width * bytes;
    f.k = f.y + n * width * bytes;
    f.v = f.k + m * width * bytes;
    f.scores = f.v + m * width * bytes;
    f.row = f.scores + n * m * bytes;
    f.top = (double *)(at + (numbers * bytes + 7) / 8 * 8);
    f.sum = f.top + n;
    for (int64_t unit = begin; unit < end; unit++) {
        tile t = {.query = unit % w->n_blocks * QUERIES, .head = unit / w->n_blocks % w->q->sizes[1],
                  .batch = unit / w->n_blocks / w->q->sizes[1]};
        t.n = nx_least(QUERIES, w->n_queries - t.query);
        if (unit == begin || (t.query == 0 && t.head % w->repeat == 0))
            pack_head(w, w->k, t.batch, t.head / w->repeat, f.k, f.packed);
        NX_TRY_FAIL(forward_block(w, &f, t));
    }
fail:
    nx_room_free(at);
    return status;
}

static void prepare(attention *w, const nx_value *scale) {
    w->n_queries = w->q->sizes[2];
    w->n_keys = w->k->sizes[2];
    w->width = w->q->sizes[3];
    w->repeat = w->q->sizes[1] / w->k->sizes[1];
    w->n_blocks = (w->n_queries + QUERIES - 1) / QUERIES;
    w->computing = w->q->dtype == NX_F64 ? NX_F64 : NX_F32;
    w->bytes = (int64_t)nx_dtype_bytes(w->computing);
    w->packs = room_for_products(w) && w->n_blocks * w->repeat > 1 && w->n_keys * w->width <= MOST_PACKED;
    w->blas = nx_blas_get();
    static const nx__attention_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, nx__attention_rows)};
    w->rows = &rows[nx_level()][w->computing == NX_F64];
    w->scale = scale->tag == NX_TAG_FLOAT ? scale->f : scale->tag == NX_TAG_INT ? (double)scale->i
                                                                                : 1 / sqrt((double)w->width);
}

static int64_t grain(int64_t multiplications) { return multiplications ? (1 << 18) / multiplications + 1 : 1; }

nx_status nx__attention_forward(nx_run *run, const nx_array *query, const nx_array *key, const nx_array *value,
                                bool is_causal, const nx_array *attn_mask, nx_value scale, nx_array *output,
                                nx_array *logsumexp) {
    attention w = {.q = query, .k = key, .v = value, .mask = attn_mask, .out = output, .out_lse = logsumexp,
                   .causal = is_causal};
    if (logsumexp->numel == 0) return NX_OK;
    prepare(&w, &scale);
    return nx_parallel(query->sizes[0] * query->sizes[1] * w.n_blocks,
                       grain(nx_least(QUERIES, w.n_queries) * w.n_keys * w.width), forward_blocks, &w);
}

/* ---- backward: one head of key and value at a time ------------------------------------------------------- */
typedef struct backward {
    char *scaled, *q, *k, *v, *g, *y; /* tiles in the computing type: queries scaled, others where they have to be copied */
    char *weights, *slopes, *row;     /* a tile of weights, of their gradients, a row of the mask */
    char *to_q, *to_k, *to_v;         /* gradients of a whole head, where they are not computed where they belong */
    double *lse, *inner;              /* of a block of queries; inner: products of gradient and result, by row */
    float *room, *packed_k, *packed_v;
} backward;

static void load_rows_of(const attention *w, const backward *f, const tile *t, matrix g) {
    matrix y = load(w, w->y, t->batch, t->head, t->query, t->n, f->y);
    nx_cast(NX_F64, (char *)f->lse, sizeof(double), (nx_dtype)w->lse->dtype, address(w->lse, t->batch, t->head, t->query),
            w->lse->strides[2] * (int64_t)nx_dtype_bytes((nx_dtype)w->lse->dtype), t->n);
    w->rows->dots(f->inner, g.at, g.ld, y.at, y.ld, t->n, w->width);
}

/* first: the block that sees the most keys of all, whose gradients stand there before those of others are added. */
static nx_status backward_block(const attention *w, const backward *f, tile t, bool first) {
    int64_t kv = t.head / w->repeat, end = last_key(w, t.query + t.n), width = w->width;
    matrix q = load(w, w->q, t.batch, t.head, t.query, t.n, f->q), g = load(w, w->g, t.batch, t.head, t.query, t.n, f->g);
    matrix by_scale = scaled(w, q, t.n, f->scaled), to_q = rows_of(w, w->out_q, t.batch, t.head, t.query, f->to_q);
    load_rows_of(w, f, &t, g);
    for (t.key = 0; t.key < end; t.key += KEYS) {
        set_keys(&t, end);
        matrix k = load(w, w->k, t.batch, kv, t.key, t.m, f->k);
        matrix weights = {f->weights, t.step}, slopes = {f->slopes, t.step};
        matrix to_k = rows_of(w, w->out_k, t.batch, kv, t.key, f->to_k), to_v = rows_of(w, w->out_v, t.batch, kv, t.key, f->to_v);
        const product to_keys = product_of(w, &t, NX_SEEN_COLUMNS, width, !first);
        const nx__sight seen = sight(w, &t);
        NX_TRY(score(w, &t, by_scale, columns_of(w, &t, w->k, kv, f->k, f->packed_k), f->weights, f->row, f->room));
        w->rows->exp_less(f->weights, &seen, f->lse);
        NX_TRY(multiply(w, to_keys, weights, g, (char *)to_v.at, to_v.ld, f->room));
        NX_TRY(multiply_columns(w, &t, g, columns_of(w, &t, w->v, kv, f->v, f->packed_v), f->slopes, f->room));
        w->rows->mix(f->slopes, f->weights, &seen, f->inner, w->scale);
        NX_TRY(multiply(w, product_of(w, &t, NX_SEEN_ROWS, width, t.key > 0), slopes, k, (char *)to_q.at, to_q.ld, f->room));
        NX_TRY(multiply(w, to_keys, slopes, q, (char *)to_k.at, to_k.ld, f->room));
    }
    if (end == 0) clear(w, to_q, t.n);
    return NX_OK;
}

static nx_status backward_head(const attention *w, const backward *f, int64_t batch, int64_t kv) {
    const int64_t seen = w->n_queries ? last_key(w, w->n_queries) : 0, last = (w->n_blocks - 1) * QUERIES;
    clear(w, rows_of(w, w->out_k, batch, kv, seen, f->to_k), w->n_keys - seen);
    clear(w, rows_of(w, w->out_v, batch, kv, seen, f->to_v), w->n_keys - seen);
    pack_head(w, w->k, batch, kv, f->k, f->packed_k);
    pack_head(w, w->v, batch, kv, f->v, f->packed_v);
    for (int64_t head = kv * w->repeat; head < (kv + 1) * w->repeat; head++) {
        for (int64_t query = last; query >= 0; query -= QUERIES)
            NX_TRY(backward_block(w, f, (tile){batch, head, query, nx_least(QUERIES, w->n_queries - query), 0, 0},
                                  head == kv * w->repeat && query == last));
        store_copies(w, w->out_q, batch, head, 0, w->n_queries, f->to_q);
    }
    store_copies(w, w->out_k, batch, kv, 0, w->n_keys, f->to_k);
    store_copies(w, w->out_v, batch, kv, 0, w->n_keys, f->to_v);
    return NX_OK;
}

static nx_status backward_heads(void *arg, int64_t begin, int64_t end) {
    const attention *w = arg;
    size_t n = (size_t)nx_least(QUERIES, w->n_queries), m = (size_t)whole_strands(nx_least(KEYS, w->n_keys));
    size_t bytes = (size_t)w->bytes;
    size_t width = (size_t)w->width, room = room_for_products(w), packed = room_for_packed(w);
    size_t numbers = room + 2 * packed + (4 * n + 2 * m + (size_t)w->n_queries + 2 * (size_t)w->n_keys) * width + 2 * n * m + m;
    nx_status status = NX_OK;
    char *first = nx_room_new(numbers * bytes + 2 * n * sizeof(double) + 8), *at = first + (room + 2 * packed) * bytes;
    if (first == NULL) return nx_fail_memory(numbers * bytes);
    backward f = {.room = room ? (float *)first : NULL, .lse = (double *)(first + (numbers * bytes + 7) / 8 * 8)};
    f.inner = f.lse + n;
    f.packed_k = (float *)first + room;
    f.packed_v = f.packed_k + packed;
    struct { char **to; size_t n; } parts[] = {
        {&f.scaled, n * width}, {&f.q, n * width}, {&f.g, n * width}, {&f.y, n * width}, {&f.k, m * width}, {&f.v, m * width},
        {&f.weights, n * m}, {&f.slopes, n * m}, {&f.row, m}, {&f.to_q, (size_t)w->n_queries * width},
        {&f.to_k, (size_t)w->n_keys * width}, {&f.to_v, (size_t)w->n_keys * width}};
    for (int k = 0; k < NX_COUNT(parts); k++) {
        *parts[k].to = at;
        at += parts[k].n * bytes;
    }
    for (int64_t unit = begin; unit < end; unit++)
        NX_TRY_FAIL(backward_head(w, &f, unit / w->k->sizes[1], unit % w->k->sizes[1]));
fail:
    nx_room_free(first);
    return status;
}

nx_status nx__attention_backward(nx_run *run, const nx_array *grad_out, const nx_array *query, const nx_array *key,
                                 const nx_array *value, const nx_array *out, const nx_array *logsumexp, bool is_causal,
                                 const nx_array *attn_mask, nx_value scale, nx_array *grad_query, nx_array *grad_key,
                                 nx_array *grad_value) {
    attention w = {.q = query, .k = key, .v = value, .mask = attn_mask, .g = grad_out, .y = out, .lse = logsumexp,
                   .out_q = grad_query, .out_k = grad_key, .out_v = grad_value, .causal = is_causal};
    prepare(&w, &scale);
    return nx_parallel(query->sizes[0] * key->sizes[1], grain(w.n_queries * w.repeat * w.n_keys * w.width),
                       backward_heads, &w);
}

/* ---- softmax whose rows may be empty ---------------------------------------------------------------------- */
/* The softmax of a row of -INFINITY is NaN; such rows become zeros. */
nx_status nx__safe_softmax_rows(nx_run *run, const nx_array *self, int64_t dim, nx_array *out) {
    int64_t n = nx__row_length(out, (int)dim), step = nx__row_step(self, (int)dim);
    NX_TRY(nx__softmax_rows(run, self, dim, out));
    for (int64_t row = 0; n && row < out->numel / n; row++) {
        const char *x = nx__row_at(self, (int)dim, row);
        char *y = nx__row_at(out, (int)dim, row);
        double first, value = -INFINITY, zero = 0;
        nx_cast(NX_F64, (char *)&first, 0, (nx_dtype)out->dtype, y, 0, 1);
        if (first == first) continue;
        for (int64_t i = 0; i < n && value == -INFINITY; i++)
            nx_cast(NX_F64, (char *)&value, 0, (nx_dtype)self->dtype, x + i * step, 0, 1);
        if (value == -INFINITY)
            nx_cast((nx_dtype)out->dtype, y, nx__row_step(out, (int)dim), NX_F64, (const char *)&zero, 0, n);
    }
    return NX_OK;
}
