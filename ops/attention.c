/* Kernels of attention.op. The matrix of weights is never whole: for a block of queries the keys are taken in tiles, and
 * what a row has gathered so far is brought to the new largest score (Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018; Dao et al., "FlashAttention", 2022). The derivative makes each tile of weights again
 * from the logarithm of its rows' sums. Halves are computed in float. Blocks are independent and always cut alike, so
 * results do not depend on threads. Next: attention_rows.c for the work on rows; gemm.c for products. */
#include "attention_rows.h"
#include "gen/kernels.h"
#include "rows.h"

#include <math.h>

enum { QUERIES = 64, KEYS = 128 }; /* of a tile */

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
    bool causal;
} attention;

/* Rows of one head, side by side in the computing type. */
typedef struct matrix { const char *at; int64_t ld; } matrix;

static char *address(const nx_array *a, int64_t batch, int64_t head, int64_t row) {
    int64_t offset = batch * a->strides[0] + head * a->strides[1] + row * a->strides[2];
    return (char *)a->data + offset * (int64_t)nx_dtype_bytes((nx_dtype)a->dtype);
}

/* In place where they lie so, else copied into `room`. */
static matrix load(const attention *w, const nx_array *a, int64_t batch, int64_t head, int64_t first, int64_t n,
                   char *room) {
    if (a->dtype == w->computing && a->strides[3] == 1 && a->strides[2] >= a->sizes[3])
        return (matrix){address(a, batch, head, first), a->strides[2]};
    int64_t step = a->strides[3] * (int64_t)nx_dtype_bytes((nx_dtype)a->dtype);
    for (int64_t i = 0; i < n; i++) {
        nx_cast(w->computing, room + i * w->width * w->bytes, w->bytes, (nx_dtype)a->dtype,
                address(a, batch, head, first + i), step, w->width);
    }
    return (matrix){room, w->width};
}

static void store(const attention *w, const nx_array *a, int64_t batch, int64_t head, int64_t first, int64_t n,
                  const char *from) {
    int64_t step = a->strides[3] * (int64_t)nx_dtype_bytes((nx_dtype)a->dtype);
    for (int64_t i = 0; i < n; i++) {
        nx_cast((nx_dtype)a->dtype, address(a, batch, head, first + i), step, w->computing,
                from + i * w->width * w->bytes, w->bytes, w->width);
    }
}

static void multiply(const attention *w, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha,
                     matrix a, matrix b, double beta, char *out, int64_t ld_out) {
    int t_a = trans_a ? NX_BLAS_TRANS : NX_BLAS_NO_TRANS, t_b = trans_b ? NX_BLAS_TRANS : NX_BLAS_NO_TRANS;
    if (w->blas == NULL || a.ld > INT32_MAX || b.ld > INT32_MAX) {
        w->rows->multiply(trans_a, trans_b, m, n, k, alpha, a.at, a.ld, b.at, b.ld, beta, out, ld_out);
    } else if (w->computing == NX_F64) {
        w->blas->dgemm(NX_BLAS_ROW_MAJOR, t_a, t_b, (int)m, (int)n, (int)k, alpha, (const double *)a.at, (int)a.ld,
                       (const double *)b.at, (int)b.ld, beta, (double *)out, (int)ld_out);
    } else {
        w->blas->sgemm(NX_BLAS_ROW_MAJOR, t_a, t_b, (int)m, (int)n, (int)k, (float)alpha, (const float *)a.at,
                       (int)a.ld, (const float *)b.at, (int)b.ld, (float)beta, (float *)out, (int)ld_out);
    }
}

/* ---- a tile of scores ----------------------------------------------------------------------------------- */
typedef struct tile { int64_t batch, head, query, n, key, m; } tile; /* n queries from `query` on, m keys from `key` */

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
        w->rows->add(scores + i * t->m * w->bytes, room, t->m);
    }
}

/* query key' * scale + mask; a row of `room` takes a row of the mask. */
static void score(const attention *w, const tile *t, matrix q, matrix k, char *scores, char *room) {
    multiply(w, false, true, t->n, t->m, w->width, w->scale, q, k, 0, scores, t->m);
    if (w->mask) add_mask(w, t, scores, room);
    for (int64_t i = 0; w->causal && i < t->n; i++) {
        int64_t seen = t->query + i + 1 - t->key; /* keys of this tile that row i may see */
        if (seen < 0) seen = 0;
        if (seen < t->m) w->rows->fill(scores + (i * t->m + seen) * w->bytes, -INFINITY, t->m - seen);
    }
}

/* The keys that a block of queries sees. */
static int64_t last_key(const attention *w, int64_t query_end) {
    return w->causal && query_end < w->n_keys ? query_end : w->n_keys;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- forward -------------------------------------------------------------------------------------------- */
typedef struct forward { char *q, *k, *v, *scores, *y, *room; double *top, *sum; } forward;

static void forward_block(const attention *w, const forward *f, tile t) {
    int64_t kv = t.head / w->repeat, end = last_key(w, t.query + t.n);
    matrix q = load(w, w->q, t.batch, t.head, t.query, t.n, f->q);
    memset(f->y, 0, (size_t)(t.n * w->width * w->bytes));
    for (int64_t i = 0; i < t.n; i++) f->top[i] = -INFINITY, f->sum[i] = 0;
    for (t.key = 0; t.key < end; t.key += KEYS) {
        t.m = least(KEYS, end - t.key);
        score(w, &t, q, load(w, w->k, t.batch, kv, t.key, t.m, f->k), f->scores, f->room);
        for (int64_t i = 0; i < t.n; i++) {
            w->rows->soften(f->scores + i * t.m * w->bytes, t.m, &f->top[i], &f->sum[i],
                            f->y + i * w->width * w->bytes, w->width);
        }
        multiply(w, false, false, t.n, w->width, t.m, 1, (matrix){f->scores, t.m},
                 load(w, w->v, t.batch, kv, t.key, t.m, f->v), 1, f->y, w->width);
    }
    for (int64_t i = 0; i < t.n; i++) { /* a row without keys gives zeros */
        double lse = f->sum[i] == 0 ? 0 : f->top[i] + log(f->sum[i]);
        w->rows->scale(f->y + i * w->width * w->bytes, f->sum[i] == 0 ? 0 : 1 / f->sum[i], w->width);
        nx_cast((nx_dtype)w->out_lse->dtype, address(w->out_lse, t.batch, t.head, t.query + i), 0, NX_F64,
                (const char *)&lse, 0, 1);
    }
    store(w, w->out, t.batch, t.head, t.query, t.n, f->y);
}

static nx_status forward_blocks(void *arg, int64_t begin, int64_t end) {
    const attention *w = arg;
    int64_t n = least(QUERIES, w->n_queries), m = least(KEYS, w->n_keys);
    size_t numbers = (size_t)(2 * n * w->width + 2 * m * w->width + n * m + m), bytes = (size_t)w->bytes;
    forward f = {.q = nx_alloc(numbers * bytes + 2 * (size_t)n * sizeof(double) + 64)};
    if (f.q == NULL) return nx_fail_memory(numbers * bytes);
    f.y = f.q + (size_t)(n * w->width) * bytes;
    f.k = f.y + (size_t)(n * w->width) * bytes;
    f.v = f.k + (size_t)(m * w->width) * bytes;
    f.scores = f.v + (size_t)(m * w->width) * bytes;
    f.room = f.scores + (size_t)(n * m) * bytes;
    f.top = (double *)(f.q + (numbers * bytes + 7) / 8 * 8);
    f.sum = f.top + n;
    for (int64_t unit = begin; unit < end; unit++) {
        tile t = {.query = unit % w->n_blocks * QUERIES, .head = unit / w->n_blocks % w->q->sizes[1],
                  .batch = unit / w->n_blocks / w->q->sizes[1]};
        t.n = least(QUERIES, w->n_queries - t.query);
        forward_block(w, &f, t);
    }
    nx_free(f.q);
    return NX_OK;
}

static void prepare(attention *w, const nx_value *scale) {
    w->n_queries = w->q->sizes[2];
    w->n_keys = w->k->sizes[2];
    w->width = w->q->sizes[3];
    w->repeat = w->q->sizes[1] / w->k->sizes[1];
    w->n_blocks = (w->n_queries + QUERIES - 1) / QUERIES;
    w->computing = w->q->dtype == NX_F64 ? NX_F64 : NX_F32;
    w->bytes = (int64_t)nx_dtype_bytes(w->computing);
    w->blas = nx_blas_get();
    w->rows = &(nx_level() == NX_LEVEL_V4 ? nx__attention_rows_v4 : nx__attention_rows_base)[w->computing == NX_F64];
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
                       grain(least(QUERIES, w.n_queries) * w.n_keys * w.width), forward_blocks, &w);
}

/* ---- backward: one head of key and value at a time ------------------------------------------------------- */
typedef struct backward {
    char *q, *k, *v, *g, *y;          /* tiles in the computing type, where they have to be copied */
    char *weights, *slopes, *room;    /* a tile of weights, of their gradients, a row of the mask */
    char *to_q, *to_k, *to_v;         /* gradients of a whole head */
    double *lse, *inner;              /* of a block of queries; inner: products of gradient and result, by row */
} backward;

static void load_rows_of(const attention *w, const backward *f, const tile *t, matrix g) {
    matrix y = load(w, w->y, t->batch, t->head, t->query, t->n, f->y);
    for (int64_t i = 0; i < t->n; i++) {
        nx_cast(NX_F64, (char *)&f->lse[i], 0, (nx_dtype)w->lse->dtype, address(w->lse, t->batch, t->head, t->query + i),
                0, 1);
        f->inner[i] = w->rows->dot(g.at + i * g.ld * w->bytes, y.at + i * y.ld * w->bytes, w->width);
    }
}

static void backward_block(const attention *w, const backward *f, tile t) {
    int64_t kv = t.head / w->repeat, end = last_key(w, t.query + t.n), row = w->width * w->bytes;
    matrix q = load(w, w->q, t.batch, t.head, t.query, t.n, f->q), g = load(w, w->g, t.batch, t.head, t.query, t.n, f->g);
    load_rows_of(w, f, &t, g);
    for (t.key = 0; t.key < end; t.key += KEYS) {
        t.m = least(KEYS, end - t.key);
        matrix k = load(w, w->k, t.batch, kv, t.key, t.m, f->k), v = load(w, w->v, t.batch, kv, t.key, t.m, f->v);
        matrix weights = {f->weights, t.m}, slopes = {f->slopes, t.m};
        score(w, &t, q, k, f->weights, f->room);
        for (int64_t i = 0; i < t.n; i++) w->rows->exp_less(f->weights + i * t.m * w->bytes, t.m, f->lse[i]);
        multiply(w, true, false, t.m, w->width, t.n, 1, weights, g, 1, f->to_v + t.key * row, w->width);
        multiply(w, false, true, t.n, t.m, w->width, 1, g, v, 0, f->slopes, t.m);
        for (int64_t i = 0; i < t.n; i++) {
            int64_t at = i * t.m * w->bytes;
            w->rows->mix(f->slopes + at, f->weights + at, f->inner[i], w->scale, t.m);
        }
        multiply(w, false, false, t.n, w->width, t.m, 1, slopes, k, 1, f->to_q + t.query * row, w->width);
        multiply(w, true, false, t.m, w->width, t.n, 1, slopes, q, 1, f->to_k + t.key * row, w->width);
    }
}

static void backward_head(const attention *w, const backward *f, int64_t batch, int64_t kv) {
    size_t row = (size_t)(w->width * w->bytes);
    memset(f->to_k, 0, (size_t)w->n_keys * row);
    memset(f->to_v, 0, (size_t)w->n_keys * row);
    for (int64_t head = kv * w->repeat; head < (kv + 1) * w->repeat; head++) {
        memset(f->to_q, 0, (size_t)w->n_queries * row);
        for (int64_t query = 0; query < w->n_queries; query += QUERIES)
            backward_block(w, f, (tile){batch, head, query, least(QUERIES, w->n_queries - query), 0, 0});
        store(w, w->out_q, batch, head, 0, w->n_queries, f->to_q);
    }
    store(w, w->out_k, batch, kv, 0, w->n_keys, f->to_k);
    store(w, w->out_v, batch, kv, 0, w->n_keys, f->to_v);
}

static nx_status backward_heads(void *arg, int64_t begin, int64_t end) {
    const attention *w = arg;
    size_t n = (size_t)least(QUERIES, w->n_queries), m = (size_t)least(KEYS, w->n_keys), bytes = (size_t)w->bytes;
    size_t width = (size_t)w->width;
    size_t numbers = (3 * n + 2 * m + (size_t)w->n_queries + 2 * (size_t)w->n_keys) * width + 2 * n * m + m;
    backward f = {.lse = nx_alloc(2 * n * sizeof(double) + numbers * bytes)};
    if (f.lse == NULL) return nx_fail_memory(2 * n * sizeof(double) + numbers * bytes);
    f.inner = f.lse + n;
    char *at = (char *)(f.inner + n);
    struct { char **to; size_t n; } parts[] = {
        {&f.q, n * width}, {&f.g, n * width}, {&f.y, n * width}, {&f.k, m * width}, {&f.v, m * width},
        {&f.weights, n * m}, {&f.slopes, n * m}, {&f.room, m}, {&f.to_q, (size_t)w->n_queries * width},
        {&f.to_k, (size_t)w->n_keys * width}, {&f.to_v, (size_t)w->n_keys * width}};
    for (int k = 0; k < NX_COUNT(parts); k++) {
        *parts[k].to = at;
        at += parts[k].n * bytes;
    }
    for (int64_t unit = begin; unit < end; unit++)
        backward_head(w, &f, unit / w->k->sizes[1], unit % w->k->sizes[1]);
    nx_free(f.lse);
    return NX_OK;
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
