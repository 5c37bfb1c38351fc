/* Gather, scatter, their sums, and parts of a dimension by an index; see places.h. Rows of the last dimension are gone through
 * one after the other: a piece of the index is laid out as int64 and checked as a whole, then followed without checks. Where
 * the index is the same all along a row, the row is moved or added as one. Several threads cut another dimension than the one
 * that is followed, or, where there is none, the places that are written: so what is written to a place is written in order.
 * Results that begin as a copy of `self` are `self` itself in in-place forms. Next: fold.c, index.c. */
#include "index/places.h"

#include "gen/kernels.h"
#include "shared/packed.h"

enum { PIECE = NX__PLACES_PIECE }; /* indices that are checked together */

/* ---- what is done at places ------------------------------------------------------------------------------------ */
#define DEFINE_MOVE(bits)                                    \
    NX__PLACE_FNS(read_##bits, uint##bits##_t, *here = *there)      \
    NX__PLACE_FNS(write_##bits, uint##bits##_t, *there = *here)
DEFINE_MOVE(8)
DEFINE_MOVE(16)
DEFINE_MOVE(32)
DEFINE_MOVE(64)
DEFINE_MOVE(128)
/* Pairs of float16 that are a complex number. */
static uint32_t add_c32(uint32_t there, float _Complex alpha, uint32_t here) {
    uint32_t both[2] = {there, here};
    float _Complex z[2];
    nx_cast(NX_C64, (char *)z, sizeof *z, NX_C32, (const char *)both, sizeof *both, 2);
    z[0] += alpha * z[1];
    nx_cast(NX_C32, (char *)both, sizeof *both, NX_C64, (const char *)z, sizeof *z, 1);
    return both[0];
}
/* Half types are rounded after each addition, integers wrap. */
NX__PLACE_FNS(sum_bool, uint8_t, *there = *there | (*here && p->i))
NX__PLACE_FNS(sum_8, uint8_t, *there = (uint8_t)(*there + (uint64_t)p->i * *here))
NX__PLACE_FNS(sum_16, uint16_t, *there = (uint16_t)(*there + (uint64_t)p->i * *here))
NX__PLACE_FNS(sum_32, uint32_t, *there = (uint32_t)(*there + (uint64_t)p->i * *here))
NX__PLACE_FNS(sum_64, uint64_t, *there = *there + (uint64_t)p->i * *here)
NX__PLACE_FNS(sum_float, float, *there = *there + (float)p->f * *here)
NX__PLACE_FNS(sum_double, double, *there = *there + p->f * *here)
NX__PLACE_FNS(sum_c64, float _Complex, *there = *there + (float _Complex)p->c * *here)
NX__PLACE_FNS(sum_c128, double _Complex, *there = *there + p->c * *here)
NX__PLACE_FNS(sum_c32, uint32_t, *there = add_c32(*there, (float _Complex)p->c, *here))
NX__PLACE_FNS(sum_f16, uint16_t, *there = nx_store_f16(nx_load_f16(*there) + (float)p->f * nx_load_f16(*here)))
NX__PLACE_FNS(sum_bf16, uint16_t, *there = nx_store_bf16(nx_load_bf16(*there) + (float)p->f * nx_load_bf16(*here)))

const nx__place_fns *nx__place_move(nx_dtype dtype, bool writes) {
    static const nx__place_fns *const reads[NX_MAX_ELEMENT_BYTES + 1] = {
        [1] = &fns_read_8, [2] = &fns_read_16, [4] = &fns_read_32, [8] = &fns_read_64, [16] = &fns_read_128};
    static const nx__place_fns *const all_writes[NX_MAX_ELEMENT_BYTES + 1] = {
        [1] = &fns_write_8, [2] = &fns_write_16, [4] = &fns_write_32, [8] = &fns_write_64, [16] = &fns_write_128};
    return (writes ? all_writes : reads)[nx_dtype_bytes(dtype)];
}

const nx__place_fns *nx__place_sum(nx_dtype dtype) {
    switch (dtype) {
    case NX_BOOL: return &fns_sum_bool;
    case NX_U8: case NX_I8: return &fns_sum_8;
    case NX_I16: return &fns_sum_16;
    case NX_I32: return &fns_sum_32;
    case NX_I64: return &fns_sum_64;
    case NX_F32: return &fns_sum_float;
    case NX_F64: return &fns_sum_double;
    case NX_C64: return &fns_sum_c64;
    case NX_C128: return &fns_sum_c128;
    case NX_C32: return &fns_sum_c32;
    case NX_F16: return &fns_sum_f16;
    default: return &fns_sum_bf16; /* the entries' types admit nothing else */
    }
}

/* ---- the walk ----------------------------------------------------------------------------------------------------- */
static nx_status fail_at(const nx__places *p, int64_t at) {
    if (p->fail) return p->fail(p, at);
    return nx_fail(NX_RUNTIME, "%s: index %lld is out of bounds for dimension %d with size %lld", nx_op_name(p->run->op),
                   (long long)at, p->dim, (long long)p->limit);
}

/* n indices, each of which is in range. */
static nx_status load_index(const nx__places *p, const char *from, int64_t step, int64_t n, int64_t *at) {
    uint64_t most = (uint64_t)(p->limit - 1), bad = 0; /* its highest bit: one is negative or above `most` */
#define LOAD(type, from_step)                                                        \
    for (int64_t q = 0; q < n; q++) {                                                \
        int64_t k = *(const type *)(from + q * (from_step));                         \
        bad |= (uint64_t)k | (most - (uint64_t)k);                                   \
        at[q] = k;                                                                   \
    }
    if (p->index->dtype == NX_I32) LOAD(int32_t, step)
    else if (step == sizeof(int64_t)) LOAD(int64_t, (int64_t)sizeof(int64_t))
    else LOAD(int64_t, step)
#undef LOAD
    for (int64_t q = 0; bad >> 63 && q < n; q++) {
        if (at[q] < 0 || at[q] >= p->limit) return fail_at(p, at[q]);
    }
    return NX_OK;
}

typedef struct held { int64_t at[PIECE]; const char *from; } held; /* the piece of the index that was loaded last */

static nx_status run_row(const nx__places *p, held *h, const char *from, char *followed, char *other, int64_t n) {
    int64_t step = p->ndim ? p->index_step[p->ndim - 1] : 0;
    if (step == 0) {
        NX_TRY(load_index(p, from, 0, 1, h->at));
        if (!p->whole && (h->at[0] < p->begin || h->at[0] >= p->end)) return NX_OK;
        p->fns->row(p, followed + h->at[0] * p->k_step, other, n);
        return NX_OK;
    }
    for (int64_t q = 0; q < n; q += PIECE) {
        int64_t count = nx_least(n - q, PIECE);
        const char *piece = from + q * step;
        if (piece != h->from) NX_TRY(load_index(p, piece, step, count, h->at));
        h->from = n <= PIECE ? piece : NULL;
        p->fns->each(p, followed + q * p->row_followed, other + q * p->row_other, h->at, count);
    }
    return NX_OK;
}

/* The part that lies in begin .. end of dimension `cut`. */
static nx_status run_rows(const nx__places *p, int64_t begin, int64_t end) {
    int64_t size[NX_MAX_DIMS], at[NX_MAX_DIMS] = {0};
    int last = p->ndim - 1;
    const char *from = p->index->data;
    char *followed = p->followed->data, *other = p->other ? p->other->data : p->number;
    held h;
    h.from = NULL;
    for (int d = 0; d <= last; d++) {
        int64_t first = d == p->cut ? begin : 0;
        size[d] = d == p->cut ? end - begin : p->size[d];
        from += first * p->index_step[d];
        followed += first * p->followed_step[d];
        other += first * p->other_step[d];
    }
    for (;;) {
        NX_TRY(run_row(p, &h, from, followed, other, last < 0 ? 1 : size[last]));
        int d = last - 1;
        for (; d >= 0; d--) {
            int64_t back = ++at[d] < size[d] ? 1 : 1 - size[d];
            from += back * p->index_step[d];
            followed += back * p->followed_step[d];
            other += back * p->other_step[d];
            if (at[d] < size[d]) break;
            at[d] = 0;
        }
        if (d < 0) return NX_OK;
    }
}

static nx_status run_cut(void *arg, int64_t begin, int64_t end) {
    nx__places p = *(const nx__places *)arg;
    if (p.cut >= 0) return run_rows(&p, begin, end);
    p.whole = begin == 0 && end >= p.limit;
    p.begin = begin;
    p.end = end;
    return run_rows(&p, 0, 0);
}

static void look_each(const nx__places *p, char *followed, char *other, const int64_t *at, int64_t n) {
    (void)p, (void)followed, (void)other, (void)at, (void)n;
}
static void look_row(const nx__places *p, char *followed, char *other, int64_t n) {
    (void)p, (void)followed, (void)other, (void)n;
}

/* That all indices are in range: the walk with nothing done. */
static nx_status look(const nx__places *p, int64_t n) {
    static const nx__place_fns nothing = {look_each, look_row};
    nx__places looking = *p;
    looking.fns = &nothing;
    if (p->cut < 0) return run_rows(&looking, 0, 0);
    return nx_parallel(n, nx_grain(8 * p->index->numel / n), run_cut, &looking);
}

static int64_t step_in(const nx_array *a, int d) {
    return a && d >= 0 && d < a->ndim ? a->strides[d] * (int64_t)nx_dtype_bytes(a->dtype) : 0;
}

/* Takes dimension d, joined with the one before it where that changes nothing. */
static void take_dim(nx__places *p, int d) {
    int64_t n = p->index->sizes[d], index_step = step_in(p->index, d), other_step = step_in(p->other, d);
    int64_t followed_step = d == p->dim ? 0 : step_in(p->followed, d);
    int k = p->ndim - 1;
    bool is_at = d == p->dim;
    if (n == 1) return;
    if (k >= 0 && !is_at && k != p->at_dim && p->index_step[k] == n * index_step && p->other_step[k] == n * other_step &&
        p->followed_step[k] == n * followed_step) {
        n *= p->size[k];
    } else {
        k = p->ndim++;
        if (is_at) p->at_dim = k;
    }
    p->size[k] = n;
    p->index_step[k] = index_step;
    p->followed_step[k] = followed_step;
    p->other_step[k] = other_step;
}

nx_status nx__places_run(nx__places *p, int64_t dim, bool writes) {
    const nx_array *index = p->index;
    size_t bytes;
    if (index->numel == 0) return NX_OK;
    NX_TRY(nx_array_bytes(index, NX_I64, &bytes)); /* of an expanded one there may be more than can ever be gone through */
    p->dim = (int)dim;
    p->limit = p->followed->ndim ? p->followed->sizes[dim] : 1;
    p->begin = 0;
    p->end = p->limit;
    p->whole = true;
    p->k_step = step_in(p->followed, p->dim);
    p->ndim = 0;
    p->at_dim = p->cut = -1;
    for (int d = 0; d < index->ndim; d++) take_dim(p, d);
    for (int d = 0; d < p->ndim; d++) {
        if ((d != p->at_dim || !writes) && (p->cut < 0 || p->size[d] > p->size[p->cut])) p->cut = d;
    }
    p->row_followed = p->ndim ? p->followed_step[p->ndim - 1] : 0;
    p->row_other = p->ndim ? p->other_step[p->ndim - 1] : 0;
    int64_t n = p->cut >= 0 ? p->size[p->cut] : p->limit > 0 ? p->limit : 1; /* limit 0: each is out of range */
    if (p->in_place) NX_TRY(look(p, n));
    int64_t grain = nx_grain(32 * index->numel / n);
    if (p->cut < 0) { /* several threads go through the whole index where what it names comes from far */
        bool far = p->limit * (p->k_step < 0 ? -p->k_step : p->k_step) > NX__NEAR;
        grain = nx__grain_of_all(n, grain, far ? nx_num_threads() : 1);
    }
    return nx_parallel(n, grain, run_cut, p);
}

/* ---- kernels -------------------------------------------------------------------------------------------------------- */
/* `out` as a copy of `self`, unless it is self. */
static void begin_with(const nx_array *out, const nx_array *self) {
    if (out->data != self->data) nx_copy_cast(out, self);
}

nx_status nx__gather_elements(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, nx_array *out) {
    nx__places p = {.run = run, .index = index, .followed = self, .other = out, .fns = nx__place_move(out->dtype, false)};
    return nx__places_run(&p, dim, false);
}

nx_status nx__scatter_elements(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index,
                               const nx_array *src, nx_array *out) {
    nx__places p = {.run = run, .index = index, .followed = out, .other = src, .fns = nx__place_move(out->dtype, true),
                    .in_place = out->data == self->data};
    begin_with(out, self);
    return nx__places_run(&p, dim, true);
}

nx_status nx__scatter_number(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, nx_value value,
                             nx_array *out) {
    _Alignas(16) char number[NX_MAX_ELEMENT_BYTES];
    nx__places p = {.run = run, .index = index, .followed = out, .number = number, .fns = nx__place_move(out->dtype, true),
                    .in_place = out->data == self->data};
    nx_number_store((nx_dtype)out->dtype, &value, number);
    begin_with(out, self);
    return nx__places_run(&p, dim, true);
}

void nx__index_along(const nx_array *index, const nx_array *like, int64_t dim, nx_array *out, int64_t *dims) {
    nx_array_copy(out, like, dims);
    out->data = index->data;
    out->dtype = index->dtype;
    for (int d = 0; d < like->ndim; d++) out->strides[d] = d == dim && index->ndim ? index->strides[0] : 0;
    nx_array_refresh(out);
}

static nx_status fail_part(const nx__places *p, int64_t at) {
    return nx_fail(NX_INDEX, "%s: index out of range in self: index %lld, but dimension %d has size %lld",
                   nx_op_name(p->run->op), (long long)at, p->dim, (long long)p->limit);
}

/* Indices that follow one another name a run: parts that are moved at once where nothing lies between them. */
typedef struct run_of_parts { int64_t from, to, n; } run_of_parts;
typedef struct picked { const nx_array *self, *out; const run_of_parts *runs; int64_t n_runs, n, limit, bytes; } picked;

static nx_status pick_runs(void *arg, int64_t begin, int64_t end) {
    const picked *w = arg;
    int64_t outer = begin / w->n_runs, r = begin % w->n_runs;
    for (int64_t k = begin; k < end; k++) {
        const run_of_parts *run = &w->runs[r];
        char *to = (char *)w->out->data + (outer * w->n + run->to) * w->bytes;
        const char *from = (const char *)w->self->data + (outer * w->limit + run->from) * w->bytes;
        int64_t bytes = run->n * w->bytes;
        if (bytes == 4) memcpy(to, from, 4);
        else if (bytes == 8) memcpy(to, from, 8);
        else memcpy(to, from, (size_t)bytes);
        if (++r == w->n_runs) r = 0, outer++;
    }
    return NX_OK;
}

static bool follows(int64_t a, int64_t b) { return (uint64_t)b == (uint64_t)a + 1; } /* of any numbers */

/* Whether short parts may lie in runs: the first indices say it for all. */
static bool may_have_runs(const nx_array *index) {
    int64_t at[PIECE], n = nx_least(index->numel, PIECE), made = 1;
    int64_t step = index->ndim ? index->strides[0] * (int64_t)nx_dtype_bytes(index->dtype) : 0;
    nx_cast(NX_I64, (char *)at, sizeof *at, index->dtype, index->data, step, n);
    for (int64_t i = 1; i < n; i++) made += !follows(at[i - 1], at[i]);
    return made <= n / 2 + 1;
}

/* NULL data: they are too short to be worth it, or one is out of range. The caller frees. */
static nx_status find_runs(const nx_array *index, int64_t limit, int64_t bytes, run_of_parts **out, int64_t *n_runs) {
    int64_t n = index->numel, *at, made = 0;
    bool fits = true;
    *out = NULL;
    if (bytes < 64 && !may_have_runs(index)) return NX_OK;
    NX_TRY(nx__packed_new(index, NX_I64, &at));
    for (int64_t i = 0; i < n; i++) {
        made += i == 0 || !follows(at[i - 1], at[i]);
        fits &= at[i] >= 0 && at[i] < limit;
    }
    if (fits && (bytes >= 64 || made <= n / 4)) *out = nx_room_new(sizeof **out * (size_t)made);
    *n_runs = made;
    for (int64_t i = 0, r = -1; *out && i < n; i++) {
        if (i == 0 || !follows(at[i - 1], at[i])) (*out)[++r] = (run_of_parts){at[i], i, 0};
        (*out)[r].n++;
    }
    nx_room_free(at);
    return NX_OK;
}

/* Of parts without elements: no place is looked at later. */
static nx_status check_parts(const nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, int64_t limit) {
    int64_t *at, k = 0;
    if (index->numel == 0) return NX_OK;
    NX_TRY(nx__packed_new(index, NX_I64, &at));
    while (k < index->numel && at[k] >= 0 && at[k] < limit) k++;
    int64_t wrong = at[k < index->numel ? k : 0];
    nx_room_free(at);
    if (k == index->numel) return NX_OK;
    return nx_fail(self->ndim < 2 ? NX_INDEX : NX_RUNTIME, "%s: index out of range in self: index %lld, but dimension %d has size %lld",
                   nx_op_name(run->op), (long long)wrong, (int)dim, (long long)limit);
}

nx_status nx__index_parts(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, nx_array *out) {
    int64_t dims[2 * NX_MAX_DIMS], bytes = (int64_t)nx_dtype_bytes(out->dtype);
    nx_array along;
    run_of_parts *runs = NULL;
    picked w = {self, out, .n = index->numel, .limit = self->ndim ? self->sizes[dim] : 1};
    for (int d = (int)dim + 1; d < self->ndim; d++) bytes *= self->sizes[d];
    if (out->numel == 0 || w.limit == 0) return check_parts(run, self, dim, index, w.limit);
    if (self->contiguous && out->contiguous) NX_TRY(find_runs(index, w.limit, bytes, &runs, &w.n_runs));
    if (runs) {
        int64_t n = out->numel * (int64_t)nx_dtype_bytes(out->dtype) / bytes / w.n * w.n_runs; /* of all parts before dim */
        w.runs = runs;
        w.bytes = bytes;
        nx_status status = nx_parallel(n, nx_grain(2 * bytes * w.n / w.n_runs + 8), pick_runs, &w);
        nx_room_free(runs);
        return status;
    }
    nx__index_along(index, out, dim, &along, dims);
    nx__places p = {.run = run, .index = &along, .followed = self, .other = out, .fns = nx__place_move(out->dtype, false),
                    .fail = fail_part};
    return nx__places_run(&p, dim, false);
}

/* ---- sums ----------------------------------------------------------------------------------------------------------- */
static nx_status sums(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *src,
                      const nx_value *alpha, bool vector, nx_array *out) {
    bool is_float = alpha->tag == NX_TAG_FLOAT;
    nx__places p = {.run = run, .index = index, .followed = out, .other = src, .fns = nx__place_sum(out->dtype),
                    .f = is_float ? alpha->f : (double)alpha->i, .i = is_float ? (int64_t)alpha->f : alpha->i,
                    .in_place = out->data == self->data, .fail = vector ? fail_part : NULL};
    nx_number_store(NX_C128, alpha, (char *)&p.c);
    if (alpha->tag == NX_TAG_COMPLEX) p.f = alpha->parts[0];
    begin_with(out, self);
    return nx__places_run(&p, dim, true);
}

static nx_status wide_new(const nx_array *a, nx_dtype dtype, nx__wide *w) {
    void *data;
    nx_status status = nx__packed_new(a, dtype, &data);
    nx__packed_over(&w->array, w->dims, a, dtype, data);
    return status;
}

nx_status nx__wide_both(const nx_array *a, const nx_array *b, nx_dtype dtype, nx__wide *wide_a, nx__wide *wide_b) {
    NX_TRY(wide_new(a, dtype, wide_a));
    nx_status status = wide_new(b, dtype, wide_b);
    if (status != NX_OK) nx_room_free(wide_a->array.data);
    return status;
}

void nx__wide_end(const nx_array *out, nx__wide *a, nx__wide *b) {
    if (out) nx_copy_cast(out, &a->array);
    nx_room_free(a->array.data);
    nx_room_free(b->array.data);
}

/* Sums of half types are held in float32 meanwhile, as in PyTorch, but for index_add of one dimension (`vector`), where it rounds
 * each, and has another error for an index out of range. */
static nx_status all_sums(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *src,
                          const nx_value *alpha, bool vector, nx_array *out) {
    nx__wide to, from;
    if (vector || (out->dtype != NX_F16 && out->dtype != NX_BF16)) return sums(run, self, dim, index, src, alpha, vector, out);
    NX_TRY(nx__wide_both(self, src, NX_F32, &to, &from));
    nx_status status = sums(run, &to.array, dim, index, &from.array, alpha, false, &to.array);
    nx__wide_end(status == NX_OK ? out : NULL, &to, &from);
    return status;
}

nx_status nx__scatter_sums(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *src,
                           nx_array *out) {
    nx_value one = nx_value_int(1);
    return all_sums(run, self, dim, index, src, &one, false, out);
}

nx_status nx__index_sums(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *source,
                         nx_value alpha, nx_array *out) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array along;
    nx__index_along(index, source, dim, &along, dims);
    return all_sums(run, self, dim, &along, source, &alpha, out->ndim < 2, out);
}
