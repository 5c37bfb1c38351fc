/* Kernels of index.op that follow no single dimension: embedding, x[indices], nonzero; those that do are in places.c. An index
 * that is out of range fails before it is followed, and in in-place forms before anything is written. Results that begin as a copy of
 * `self` are `self` itself in in-place forms. */
#include "gen/kernels.h"
#include "index/places.h"
#include "shared/lay.h"
#include "shared/packed.h"

nx_status nx__packed_new(const nx_array *from, nx_dtype dtype, void *out) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array packed;
    size_t bytes;
    void *data = NULL;
    memcpy(out, &data, sizeof data);
    NX_TRY(nx_array_bytes(from, dtype, &bytes));
    if ((data = nx_room_new(bytes + 1)) == NULL) return nx_fail_memory(bytes);
    memcpy(out, &data, sizeof data);
    nx__packed_over(&packed, dims, from, dtype, data);
    nx_copy_cast(&packed, from);
    return NX_OK;
}

/* Where the table has no elements, it is another exception, as PyTorch's. */
static nx_status check_range(const nx_run *run, const int64_t *at, int64_t n, const nx_array *weight) {
    int64_t rows = weight->sizes[0];
    for (int64_t i = 0; i < n; i++) {
        if (at[i] >= 0 && at[i] < rows) continue;
        return nx_fail(weight->numel ? NX_INDEX : NX_RUNTIME, "%s: index out of range in self: index %lld, but there are %lld rows",
                       nx_op_name(run->op), (long long)at[i], (long long)rows);
    }
    return NX_OK;
}

/* ---- embedding ------------------------------------------------------------------------------------------ */
typedef struct lookup { const nx_array *out, *weight; const int64_t *at; } lookup;

static nx_status copy_rows(void *arg, int64_t begin, int64_t end) {
    const nx_array *out = ((lookup *)arg)->out, *weight = ((lookup *)arg)->weight;
    const int64_t *at = ((lookup *)arg)->at;
    int64_t columns = weight->sizes[1], bytes = (int64_t)nx_dtype_bytes((nx_dtype)weight->dtype);
    for (int64_t i = begin; i < end; i++) {
        char *to = (char *)out->data + i * columns * bytes;
        const char *from = (const char *)weight->data + at[i] * weight->strides[0] * bytes;
        if (weight->strides[1] == 1) memcpy(to, from, (size_t)(columns * bytes));
        else nx_cast((nx_dtype)out->dtype, to, bytes, (nx_dtype)weight->dtype, from, weight->strides[1] * bytes, columns);
    }
    return NX_OK;
}

nx_status nx__embedding_rows(nx_run *run, nx_array *out, const nx_array *weight, const nx_array *indices) {
    int64_t n = indices->numel, *at;
    NX_TRY(nx__packed_new(indices, NX_I64, &at));
    nx_status status = check_range(run, at, n, weight);
    int64_t cost = 2 * weight->sizes[1] * (int64_t)nx_dtype_bytes((nx_dtype)weight->dtype);
    if (status == NX_OK) status = nx_parallel(n, nx_grain(cost), copy_rows, &(lookup){out, weight, at});
    nx_room_free(at);
    return status;
}

/* ---- its gradient ----------------------------------------------------------------------------------------- */
/* Adds a row; half types are rounded after every addition. */
static void add_row(nx_dtype dtype, char *to, const char *from, int64_t n) {
    enum { PIECE = 256 };
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype);
    float a[PIECE], b[PIECE];
    if (dtype == NX_F32) {
        for (int64_t i = 0; i < n; i++) ((float *)to)[i] += ((const float *)from)[i];
        return;
    }
    if (dtype == NX_F64) {
        for (int64_t i = 0; i < n; i++) ((double *)to)[i] += ((const double *)from)[i];
        return;
    }
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t part = n - i < PIECE ? n - i : PIECE;
        nx_cast(NX_F32, (char *)a, sizeof *a, dtype, to + i * bytes, bytes, part);
        nx_cast(NX_F32, (char *)b, sizeof *b, dtype, from + i * bytes, bytes, part);
        for (int64_t k = 0; k < part; k++) a[k] += b[k];
        nx_cast(dtype, to + i * bytes, bytes, NX_F32, (const char *)a, sizeof *a, part);
    }
}

/* Rows begin .. end of the gradient: each adds what is meant for it in the order of the indices. */
typedef struct adding_rows {
    nx_array *out;
    const char *rows;
    const int64_t *at;
    int64_t n, ignored;
    bool by_count; /* divided by how many they are */
} adding_rows;

static void divide_row(nx_dtype dtype, char *row, int64_t n, int64_t count) {
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype);
    for (int64_t i = 0; count > 1 && i < n; i++) {
        double x;
        nx_cast(NX_F64, (char *)&x, sizeof x, dtype, row + i * bytes, bytes, 1);
        x /= (double)count;
        nx_cast(dtype, row + i * bytes, bytes, NX_F64, (const char *)&x, sizeof x, 1);
    }
}

static nx_status add_rows(void *arg, int64_t begin, int64_t end) {
    const adding_rows *w = arg;
    nx_dtype dtype = (nx_dtype)w->out->dtype;
    int64_t columns = w->out->sizes[1], bytes = columns * (int64_t)nx_dtype_bytes(dtype);
    char *out = w->out->data;
    int64_t *counts = w->by_count ? nx_room_new((size_t)(end - begin) * sizeof *counts) : NULL;
    if (w->by_count && counts == NULL) return nx_fail_memory((size_t)(end - begin) * sizeof *counts);
    memset(out + begin * bytes, 0, (size_t)((end - begin) * bytes));
    if (counts) memset(counts, 0, (size_t)(end - begin) * sizeof *counts);
    for (int64_t i = 0; i < w->n; i++) {
        int64_t k = w->at[i];
        if (k < begin || k >= end || k == w->ignored) continue;
        add_row(dtype, out + k * bytes, w->rows + i * bytes, columns);
        if (counts) counts[k - begin]++;
    }
    for (int64_t k = begin; counts && k < end; k++) divide_row(dtype, out + k * bytes, columns, counts[k - begin]);
    nx_room_free(counts);
    return NX_OK;
}

nx_status nx__embedding_add_rows(nx_run *run, nx_array *out, const nx_array *grad_output, const nx_array *indices,
                                 int64_t padding_idx, bool scale_grad_by_freq) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    int64_t n = indices->numel, *at;
    char *packed = NULL;
    nx_status status = nx__packed_new(indices, NX_I64, &at);
    if (status == NX_OK && !grad_output->contiguous) status = nx__packed_new(grad_output, dtype, &packed);
    const char *rows = packed ? packed : grad_output->data;
    if (status == NX_OK) status = check_range(run, at, n, out);
    if (status == NX_OK && out->numel) {
        int64_t all = 3 * (n + out->sizes[0]) * out->sizes[1] * (int64_t)nx_dtype_bytes(dtype);
        adding_rows w = {out, rows, at, n, padding_idx, scale_grad_by_freq};
        status = nx_parallel(out->sizes[0], nx_grain(all / out->sizes[0]), add_rows, &w);
    }
    nx_room_free(at);
    nx_room_free(packed);
    return status;
}

/* ---- x[indices] --------------------------------------------------------------------------------------------- */
/* The indices, broadcast together, name places of the indexed tensor; a place is a part over the dimensions that
 * have no index. Piece by piece the places' offsets are worked out and checked, then each part is copied or added. Next:
 * src/iter/index.c. */
enum { SPOTS = NX__PLACES_PIECE }; /* offsets that are known at once */

/* One index, for a dimension of x of that size and step. */
typedef struct pointing { const nx_array *index; int64_t *at, *owned, size, bytes; } pointing;
typedef struct spots {
    nx_indexed s;
    int64_t n; /* places */
    int n_by;
    pointing by[NX_MAX_DIMS];
} spots;

static int64_t place_in_index(const spots *p, const nx_array *index, int64_t i) {
    int64_t from = 0, step = 1;
    if (index->numel == p->n) return i;
    for (int d = p->s.n_joint - 1, k = index->ndim - 1; k >= 0; d--, k--) {
        if (index->sizes[k] != 1) from += i % p->s.joint[d] * step;
        step *= index->sizes[k];
        i /= p->s.joint[d];
    }
    return from;
}

/* Messages count the indices, as PyTorch's do. */
static nx_status check_offsets(const spots *p, int nth, int64_t begin, int64_t n) {
    const pointing *by = &p->by[nth];
    for (int64_t i = begin; i < begin + n; i++) {
        int64_t k = by->at[place_in_index(p, by->index, i)];
        if (k < -by->size || k >= by->size)
            return nx_fail(NX_INDEX, "index %lld is out of bounds for dimension %d with size %lld", (long long)k, nth,
                           (long long)by->size);
    }
    return NX_OK;
}

/* Of places begin .. begin + n, at most SPOTS, in the indexed tensor, in bytes. */
static nx_status find_offsets(const spots *p, int64_t begin, int64_t n, int64_t *restrict offset) {
    for (int nth = 0; nth < p->n_by; nth++) {
        const pointing *by = &p->by[nth];
        const int64_t size = by->size, bytes = by->bytes, *at = by->at + begin;
        uint64_t bad = 0; /* its highest bit: one is below -size or above size - 1 */
        int64_t held[SPOTS];
        if (by->index->numel != p->n) {
            for (int64_t i = 0; i < n; i++) held[i] = by->at[place_in_index(p, by->index, begin + i)];
            at = held;
        }
#define ADD(sum)                                                                            \
    for (int64_t i = 0; i < n; i++) {                                                       \
        int64_t k = at[i];                                                                  \
        bad |= ((uint64_t)k + (uint64_t)size) | ((uint64_t)size - 1 - (uint64_t)k);         \
        offset[i] = (int64_t)(sum (uint64_t)(k + (size & k >> 63)) * (uint64_t)bytes);      \
    }
        if (nth == 0) ADD()
        else ADD((uint64_t)offset[i] +)
#undef ADD
        if (NX_UNLIKELY(bad >> 63)) NX_TRY(check_offsets(p, nth, begin, n));
    }
    return NX_OK;
}

static void spots_free(spots *p) {
    for (int k = 0; k < p->n_by; k++) nx_room_free(p->by[k].owned);
}

/* The caller frees, also after a failure. */
static nx_status spots_find(spots *p, const nx_run *run, const nx_array *x, const nx_value *indices) {
    p->n = 1;
    p->n_by = 0;
    NX_TRY(nx_index_shape(nx_op_name(run->op), x, indices, &p->s));
    size_t bytes;
    for (int d = 0; d < p->s.n_joint; d++) p->n *= p->s.joint[d];
    NX_TRY(nx_bytes_of(p->n, sizeof(int64_t), &bytes));
    for (int d = 0; d < indices->n; d++) {
        if (indices->list[d].tag != NX_TAG_TENSOR) continue;
        const nx_array *index = indices->list[d].array;
        pointing *by = &p->by[p->n_by++];
        *by = (pointing){index, index->data, NULL, x->sizes[d], x->strides[d] * (int64_t)nx_dtype_bytes(x->dtype)};
        if (index->dtype == NX_I64 && index->contiguous) continue;
        NX_TRY(nx__packed_new(index, NX_I64, &by->owned));
        by->at = by->owned;
    }
    return NX_OK;
}

/* The part of x, which is indexed, that begins at `offset`. */
static void part_of_indexed(const spots *p, const nx_array *x, int64_t offset, nx_array *part, int64_t *dims) {
    nx_array_copy(part, x, dims);
    part->ndim = p->s.n_rest;
    part->data = (char *)x->data + offset;
    for (int d = 0; d < p->s.n_rest; d++) {
        part->sizes[d] = x->sizes[p->s.rest[d]];
        part->strides[d] = x->strides[p->s.rest[d]];
    }
    nx_array_refresh(part);
}

/* Part i of y, which is expanded to the size of the result. */
static void part_of_result(const spots *p, const nx_array *x, const nx_array *y, int64_t i, nx_array *part,
                           int64_t *dims) {
    int missing = p->s.ndim - y->ndim;
    int64_t offset = 0;
    *part = *y;
    part->sizes = dims; /* it may have more dimensions than y */
    part->strides = dims + NX_MAX_DIMS;
    for (int d = p->s.start + p->s.n_joint - 1; d >= p->s.start; d--) {
        if (d >= missing && y->sizes[d - missing] != 1) offset += i % p->s.joint[d - p->s.start] * y->strides[d - missing];
        i /= p->s.joint[d - p->s.start];
    }
    part->ndim = p->s.n_rest;
    part->data = (char *)y->data + offset * (int64_t)nx_dtype_bytes(y->dtype);
    for (int k = 0; k < p->s.n_rest; k++) {
        int d = (k < p->s.start ? k : k + p->s.n_joint) - missing;
        part->sizes[k] = x->sizes[p->s.rest[k]];
        part->strides[k] = d < 0 || y->sizes[d] == 1 ? 0 : y->strides[d];
    }
    nx_array_refresh(part);
}

/* Places and the parts that belong to them; what is done at a place; single: places of one element, whose parts of the result
 * lie `step` bytes apart, and whose offsets are the places that `put` follows; in_rows: such places in each of many rows. */
typedef struct exchange {
    const spots *p;
    const nx_array *x, *result;
    bool single, in_rows, adds;
    int64_t step;
    nx__places put;
} exchange;

static exchange exchange_of(const nx_run *run, const spots *p, const nx_array *x, const nx_array *result,
                            const nx__place_fns *fns) {
    int64_t bytes = (int64_t)nx_dtype_bytes(x->dtype);
    exchange w = {p, x, result, .step = result->numel == 1 ? 0 : bytes};
    w.single = p->s.n_rest == 0 && result->dtype == x->dtype && (result->numel == 1 || (result->contiguous && result->numel == p->n));
    w.in_rows = p->s.n_rest > 0 && p->s.start == p->s.n_rest && result->numel && result->dtype == x->dtype && result->contiguous &&
                result->ndim == p->s.ndim;
    w.put = (nx__places){.run = run, .fns = fns, .f = 1, .i = 1, .c = 1, .k_step = 1, .row_other = w.step, .whole = true};
    return w;
}

/* The n places from number i on, which are at `offset` in each row, of all rows. */
static void gather_rows(const exchange *w, int64_t i, int64_t n, int64_t *offset) {
    const nx_indexed *s = &w->p->s;
    const int64_t bytes = (int64_t)nx_dtype_bytes(w->x->dtype);
    int64_t at[NX_MAX_DIMS] = {0};
    const char *from = w->x->data;
    char *to = (char *)w->result->data + i * bytes;
    for (int d = 0; d >= 0; to += w->p->n * bytes) {
        w->put.fns->each(&w->put, (char *)from, to, offset, n);
        for (d = s->n_rest - 1; d >= 0; d--) {
            const int64_t step = w->x->strides[s->rest[d]] * bytes;
            from += step;
            if (++at[d] < w->x->sizes[s->rest[d]]) break;
            from -= at[d] * step;
            at[d] = 0;
        }
    }
}

static nx_status gather_parts(void *arg, int64_t begin, int64_t end) {
    const exchange *w = arg;
    int64_t to_dims[2 * NX_MAX_DIMS], from_dims[2 * NX_MAX_DIMS], offset[SPOTS];
    for (int64_t i = begin, n; i < end; i += n) {
        n = nx_least(SPOTS, end - i);
        NX_TRY(find_offsets(w->p, i, n, offset));
        if (w->single) w->put.fns->each(&w->put, w->x->data, (char *)w->result->data + i * w->step, offset, n);
        else if (w->in_rows) gather_rows(w, i, n, offset);
        for (int64_t k = 0; k < n && !w->single && !w->in_rows; k++) {
            nx_array to, from;
            part_of_result(w->p, w->x, w->result, i + k, &to, to_dims);
            part_of_indexed(w->p, w->x, offset[k], &from, from_dims);
            nx_copy_cast(&to, &from);
        }
    }
    return NX_OK;
}

nx_status nx__index_elements(nx_run *run, const nx_array *self, nx_value indices, nx_array *out) {
    spots p;
    nx_status status = spots_find(&p, run, self, &indices);
    if (status == NX_OK && p.n) {
        exchange w = exchange_of(run, &p, self, out, nx__place_move(out->dtype, false));
        int64_t part = (int64_t)nx_dtype_bytes(out->dtype) * out->numel / p.n;
        status = nx_parallel(p.n, nx_grain(w.single ? 24 : 2 * part + 64), gather_parts, &w);
    }
    spots_free(&p);
    return status;
}

/* Places fall into BINS by where they lie; threads take bins, so what is meant for a place comes in order. */
enum { BINS = 64 };
static int64_t bin_of(int64_t offset) { return (int64_t)((uint64_t)offset * UINT64_C(0x9E3779B97F4A7C15) >> 58); }

static void add_walked(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    nx__places put = ((const exchange *)arg)->put;
    put.row_followed = steps[0];
    put.row_other = steps[1];
    put.fns->row(&put, ptrs[0], ptrs[1], n);
}

static void put_part(const exchange *w, int64_t i, int64_t offset) {
    int64_t to_dims[2 * NX_MAX_DIMS], from_dims[2 * NX_MAX_DIMS];
    nx_array to, from;
    part_of_indexed(w->p, w->x, offset, &to, to_dims);
    part_of_result(w->p, w->x, w->result, i, &from, from_dims);
    if (!w->adds) {
        nx_copy_cast(&to, &from);
        return;
    }
    nx_walk walk;
    nx_walk_start(&walk, to.ndim, to.sizes);
    nx_walk_add(&walk, &to);
    nx_walk_add(&walk, &from);
    nx_walk_merge(&walk);
    nx_walk_run(&walk, add_walked, (void *)w);
}

static nx_status put_parts(void *arg, int64_t begin, int64_t end) {
    const exchange *w = arg;
    bool all = begin == 0 && end == BINS;
    int64_t offset[SPOTS];
    for (int64_t i = 0, n; i < w->p->n; i += n) {
        n = nx_least(SPOTS, w->p->n - i);
        NX_TRY(find_offsets(w->p, i, n, offset));
        char *from = (char *)w->result->data + i * w->step, *to = w->x->data;
        if (w->single && all) {
            w->put.fns->each(&w->put, to, from, offset, n);
            continue;
        }
        NX__PICK(meant, picked, n, (bin_of(offset[q]) >= begin) & (bin_of(offset[q]) < end))
        for (int64_t m = 0; m < picked; m++) {
            int64_t k = meant[m];
            if (w->single) w->put.fns->row(&w->put, to + offset[k], from + k * w->step, 1);
            else put_part(w, i + k, offset[k]);
        }
    }
    return NX_OK;
}

static nx_status look_at_parts(void *arg, int64_t begin, int64_t end) {
    const spots *p = arg;
    int64_t offset[SPOTS];
    for (int64_t i = begin, n; i < end; i += n) {
        n = nx_least(SPOTS, end - i);
        NX_TRY(find_offsets(p, i, n, offset));
    }
    return NX_OK;
}

nx_status nx__index_put_elements(nx_run *run, const nx_array *self, nx_value indices, const nx_array *values,
                                 bool accumulate, nx_array *out) {
    spots p;
    nx_status status = spots_find(&p, run, out, &indices);
    if (status == NX_OK && out->data != self->data) nx_copy_cast(out, self);
    else if (status == NX_OK) status = nx_parallel(p.n, nx_grain(8), look_at_parts, &p);
    nx__laid laid = {0};
    void *side_by_side;
    if (status == NX_OK && p.s.n_rest == 0 && values->numel == p.n && !values->contiguous) {
        status = nx__lay(&laid, values, out->dtype, true, &side_by_side);
        if (status == NX_OK) values = nx_arr(laid.owned[0]);
    }
    if (status == NX_OK && p.n) {
        int64_t part = 1;
        for (int k = 0; k < p.s.n_rest; k++) part *= out->sizes[p.s.rest[k]];
        exchange w = exchange_of(run, &p, out, values, accumulate ? nx__place_sum(out->dtype) : nx__place_move(out->dtype, true));
        w.adds = accumulate;
        int64_t grain = nx_grain(p.n * (w.single ? 24 : 16 * part + 128) / BINS);
        bool far = !w.single || out->numel * (int64_t)nx_dtype_bytes((nx_dtype)out->dtype) > NX__NEAR;
        status = nx_parallel(BINS, nx__grain_of_all(BINS, grain, far ? nx_num_threads() : 1), put_parts, &w);
    }
    nx__lay_end(&laid);
    spots_free(&p);
    return status;
}

/* ---- nonzero_static ------------------------------------------------------------------------------------- */
/* Elements in rows, each row in pieces of which it is known at once what is not 0. */
enum { PIECE = 256 };
typedef struct search { int64_t *at, found, size; int ndim; } search;

static void add_places(search *p, const nx_array *self, const int64_t *index, const char *row) {
    uint8_t set[PIECE];
    int16_t at[PIECE + 1];
    int last = self->ndim - 1;
    int64_t n = self->ndim ? self->sizes[last] : 1, step = self->ndim ? self->strides[last] : 0;
    int64_t bytes = (int64_t)nx_dtype_bytes(self->dtype), ndim = p->ndim;
    for (int64_t begin = 0; begin < n; begin += PIECE) {
        int64_t count = nx_least(n - begin, PIECE), found = 0;
        nx_cast(NX_BOOL, (char *)set, 1, self->dtype, row + begin * step * bytes, step * bytes, count);
        for (int64_t i = 0; i < count; i++) { /* without a branch: which are set nobody can foresee */
            at[found] = (int16_t)i;
            found += set[i] != 0;
        }
        found = nx_least(found, p->size - p->found);
        int64_t *to = p->at + p->found * ndim;
        for (int d = 0; d < last; d++) {
            for (int64_t k = 0; k < found; k++) to[k * ndim + d] = index[d];
        }
        for (int64_t k = 0; k < found && last >= 0; k++) to[k * ndim + last] = begin + at[k];
        p->found += found;
    }
}

nx_status nx__nonzero_places(nx_run *run, const nx_array *self, int64_t fill_value, nx_array *out) {
    int64_t index[NX_MAX_DIMS] = {0}, offset = 0, bytes = (int64_t)nx_dtype_bytes(self->dtype);
    search p = {out->data, 0, out->sizes[0], self->ndim};
    for (int d = 0; d >= 0 && self->numel > 0 && p.found < p.size;) {
        add_places(&p, self, index, (const char *)self->data + offset * bytes);
        for (d = self->ndim - 2; d >= 0; d--) {
            offset += self->strides[d];
            if (++index[d] < self->sizes[d]) break;
            offset -= index[d] * self->strides[d];
            index[d] = 0;
        }
    }
    for (int64_t i = p.found * p.ndim; i < p.size * p.ndim; i++) p.at[i] = fill_value;
    return NX_OK;
}
