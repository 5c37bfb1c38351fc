/* Kernels of index.op. Indices of any integer type and layout are first laid out as int64, side by side. One that is
 * out of range fails before it is followed; what was written before it stays written. Results that begin as a copy of
 * `self` are `self` itself in in-place forms. */
#include "gen/kernels.h"
#include "shared/packed.h"

nx_status nx__packed_new(const nx_array *from, nx_dtype dtype, void *out) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array packed;
    size_t bytes;
    void *data = NULL;
    memcpy(out, &data, sizeof data);
    NX_TRY(nx_array_bytes(from, dtype, &bytes));
    if ((data = nx_alloc(bytes + 1)) == NULL) return nx_fail_memory(bytes);
    memcpy(out, &data, sizeof data);
    nx_array_copy(&packed, from, dims);
    packed.data = data;
    packed.dtype = dtype;
    int64_t step = 1;
    for (int d = packed.ndim - 1; d >= 0; d--) {
        packed.strides[d] = step;
        step *= packed.sizes[d];
    }
    nx_array_refresh(&packed);
    nx_copy_cast(&packed, from);
    return NX_OK;
}

static nx_status check_range(const nx_run *run, const int64_t *at, int64_t n, int64_t rows) {
    for (int64_t i = 0; i < n; i++) {
        if (at[i] >= 0 && at[i] < rows) continue;
        return nx_fail(NX_INDEX, "%s: index out of range in self: index %lld, but there are %lld rows",
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
    nx_status status = check_range(run, at, n, weight->sizes[0]);
    int64_t cost = 2 * weight->sizes[1] * (int64_t)nx_dtype_bytes((nx_dtype)weight->dtype);
    if (status == NX_OK) status = nx_parallel(n, nx_grain(cost), copy_rows, &(lookup){out, weight, at});
    nx_free(at);
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
typedef struct adding_rows { nx_array *out; const char *rows; const int64_t *at; int64_t n, ignored; } adding_rows;

static nx_status add_rows(void *arg, int64_t begin, int64_t end) {
    const adding_rows *w = arg;
    nx_dtype dtype = (nx_dtype)w->out->dtype;
    int64_t columns = w->out->sizes[1], bytes = columns * (int64_t)nx_dtype_bytes(dtype);
    char *out = w->out->data;
    memset(out + begin * bytes, 0, (size_t)((end - begin) * bytes));
    for (int64_t i = 0; i < w->n; i++) {
        int64_t k = w->at[i];
        if (k >= begin && k < end && k != w->ignored) add_row(dtype, out + k * bytes, w->rows + i * bytes, columns);
    }
    return NX_OK;
}

nx_status nx__embedding_add_rows(nx_run *run, nx_array *out, const nx_array *grad_output, const nx_array *indices,
                                 int64_t padding_idx) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    int64_t n = indices->numel, *at;
    char *packed = NULL;
    nx_status status = nx__packed_new(indices, NX_I64, &at);
    if (status == NX_OK && !grad_output->contiguous) status = nx__packed_new(grad_output, dtype, &packed);
    const char *rows = packed ? packed : grad_output->data;
    if (status == NX_OK) status = check_range(run, at, n, out->sizes[0]);
    if (status == NX_OK && out->numel) {
        int64_t all = 3 * (n + out->sizes[0]) * out->sizes[1] * (int64_t)nx_dtype_bytes(dtype);
        adding_rows w = {out, rows, at, n, padding_idx};
        status = nx_parallel(out->sizes[0], nx_grain(all / out->sizes[0]), add_rows, &w);
    }
    nx_free(at);
    nx_free(packed);
    return status;
}

/* ---- gather and scatter ----------------------------------------------------------------------------------- */
/* They go through the elements of the index in order. Element (i, .. at .. , j) of `followed`, whose coordinate along
 * `dim` the index says, and element (i, .., j) of `other` belong together; both may be larger than the index. Several
 * threads cut another dimension than `dim`, or, where there is none, the places that are written: so what is written to
 * a place is written in order. */
typedef struct places places;
typedef void place_fn(const places *p, char *followed, char *other, const int64_t *at, int64_t n);
struct places {
    const nx_run *run;
    const nx_array *index, *followed, *other; /* other NULL: one element, `number` */
    int64_t *at;                              /* the index, packed; lent */
    char *number;
    int dim, cut;                             /* cut: the dimension that is cut, -1: the places */
    int64_t limit;                            /* size of the dimension that is followed */
    int64_t k_step, followed_step, other_step; /* along `dim` of followed; along the last dimension; bytes */
    int64_t begin, end;                       /* places that are meant */
    place_fn *fn;
    double f;                                 /* what is added is multiplied by these; unused where it is moved */
    int64_t i;
    double _Complex c;
};

static nx_status fail_index(const nx_run *run, int64_t at, int dim, int64_t limit) {
    return nx_fail(NX_RUNTIME, "%s: index %lld is out of bounds for dimension %d with size %lld", nx_op_name(run->op),
                   (long long)at, dim, (long long)limit);
}

static int64_t step_in(const nx_array *a, int d) {
    return a && d >= 0 && d < a->ndim ? a->strides[d] * (int64_t)nx_dtype_bytes(a->dtype) : 0;
}

/* n elements along the last dimension. */
#define EACH_PLACE(type, what)                                                                                        \
    for (int64_t q = 0; q < n; q++, followed += p->followed_step, other += p->other_step) {                           \
        type *there = (type *)(followed + at[q] * p->k_step), *here = (type *)other;                                  \
        if (at[q] >= p->begin && at[q] < p->end) what;                                                                \
    }
#define DEFINE_MOVE(bits)                                                                                             \
    static void read_##bits(const places *p, char *followed, char *other, const int64_t *at, int64_t n) {             \
        EACH_PLACE(uint##bits##_t, *here = *there)                                                                    \
    }                                                                                                                 \
    static void write_##bits(const places *p, char *followed, char *other, const int64_t *at, int64_t n) {            \
        EACH_PLACE(uint##bits##_t, *there = *here)                                                                    \
    }
DEFINE_MOVE(8)
DEFINE_MOVE(16)
DEFINE_MOVE(32)
DEFINE_MOVE(64)
DEFINE_MOVE(128)

/* The part of the index that lies in begin .. end of dimension `cut`, row after row of its last dimension. */
static nx_status run_rows(const places *p, int64_t begin, int64_t end) {
    const nx_array *index = p->index;
    int64_t first[NX_MAX_DIMS], size[NX_MAX_DIMS], at[NX_MAX_DIMS], step[NX_MAX_DIMS], packed = 1, offset = 0;
    int last = index->ndim - 1;
    char *followed = p->followed->data, *other = p->other ? p->other->data : p->number;
    for (int d = last; d >= 0; d--) {
        first[d] = d == p->cut ? begin : 0;
        size[d] = d == p->cut ? end - begin : index->sizes[d];
        if (size[d] == 0) return NX_OK;
        step[d] = packed;
        packed *= index->sizes[d];
        at[d] = 0;
        offset += first[d] * step[d];
        followed += d == p->dim ? 0 : first[d] * step_in(p->followed, d);
        other += first[d] * step_in(p->other, d);
    }
    for (;;) {
        const int64_t *row = p->at + offset, n = last < 0 ? 1 : size[last];
        for (int64_t q = 0; q < n; q++) {
            if (NX_UNLIKELY(row[q] < 0 || row[q] >= p->limit)) return fail_index(p->run, row[q], p->dim, p->limit);
        }
        p->fn(p, followed, other, row, n);
        int d = last - 1;
        for (; d >= 0; d--) {
            int64_t back = ++at[d] < size[d] ? 1 : 1 - size[d];
            offset += back * step[d];
            followed += d == p->dim ? 0 : back * step_in(p->followed, d);
            other += back * step_in(p->other, d);
            if (back == 1 && at[d] < size[d]) break;
            at[d] = 0;
        }
        if (d < 0) return NX_OK;
    }
}

static nx_status run_cut(void *arg, int64_t begin, int64_t end) {
    places p = *(const places *)arg;
    if (p.cut >= 0) return run_rows(&p, begin, end);
    p.begin = begin;
    p.end = end;
    return run_rows(&p, 0, 0);
}

/* The index as int64, side by side: there, where nothing is written once it has been checked, or in a copy, *owned. */
static nx_status lay_index(const nx_array *index, bool writes, int64_t **owned, int64_t **out) {
    bool lends = index->dtype == NX_I64 && index->contiguous && !writes;
    *owned = NULL;
    if (!lends) NX_TRY(nx__packed_new(index, NX_I64, owned));
    *out = lends ? index->data : *owned;
    return NX_OK;
}

/* Fills what follows from the operands, runs, frees. `writes`: to `followed`. */
static nx_status run_places(places *p, int64_t dim, bool writes) {
    const nx_array *index = p->index;
    int last = index->ndim - 1;
    p->dim = (int)dim;
    p->limit = p->followed->ndim ? p->followed->sizes[dim] : 1;
    p->begin = 0;
    p->end = p->limit;
    p->k_step = step_in(p->followed, p->dim);
    p->followed_step = last == p->dim ? 0 : step_in(p->followed, last);
    p->other_step = step_in(p->other, last);
    p->cut = -1;
    for (int d = 0; d <= last; d++) {
        bool may = d != p->dim || !writes;
        if (may && index->sizes[d] > 1 && (p->cut < 0 || index->sizes[d] > index->sizes[p->cut])) p->cut = d;
    }
    if (index->numel == 0) return NX_OK;
    int64_t *owned, n = p->cut >= 0 ? index->sizes[p->cut] : p->limit > 0 ? p->limit : 1; /* limit 0: each is out of range */
    NX_TRY(lay_index(index, writes, &owned, &p->at));
    nx_status status = nx_parallel(n, nx_grain(32 * index->numel / n), run_cut, p);
    nx_free(owned);
    return status;
}

static place_fn *find_move(const nx_array *a, bool writes) {
    static place_fn *const reads[NX_MAX_ELEMENT_BYTES + 1] = {
        [1] = read_8, [2] = read_16, [4] = read_32, [8] = read_64, [16] = read_128};
    static place_fn *const all_writes[NX_MAX_ELEMENT_BYTES + 1] = {
        [1] = write_8, [2] = write_16, [4] = write_32, [8] = write_64, [16] = write_128};
    return (writes ? all_writes : reads)[nx_dtype_bytes((nx_dtype)a->dtype)];
}

/* `out` as a copy of `self`, unless it is self. */
static void begin_with(const nx_array *out, const nx_array *self) {
    if (out->data != self->data) nx_copy_cast(out, self);
}

nx_status nx__gather_elements(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, nx_array *out) {
    places p = {.run = run, .index = index, .followed = self, .other = out, .fn = find_move(out, false)};
    return run_places(&p, dim, false);
}

nx_status nx__scatter_elements(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index,
                               const nx_array *src, nx_array *out) {
    places p = {.run = run, .index = index, .followed = out, .other = src, .fn = find_move(out, true)};
    begin_with(out, self);
    return run_places(&p, dim, true);
}

nx_status nx__scatter_number(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, nx_value value,
                             nx_array *out) {
    _Alignas(16) char number[NX_MAX_ELEMENT_BYTES];
    places p = {.run = run, .index = index, .followed = out, .number = number, .fn = find_move(out, true)};
    nx_number_store((nx_dtype)out->dtype, &value, number);
    begin_with(out, self);
    return run_places(&p, dim, true);
}

/* ---- sums ----------------------------------------------------------------------------------------------------- */
typedef struct adding { nx_dtype dtype; double f; int64_t i; double _Complex c; } adding; /* alpha, as each kind of number */

static adding adding_of(const nx_array *a, nx_value alpha) {
    bool is_float = alpha.tag == NX_TAG_FLOAT;
    adding made = {(nx_dtype)a->dtype, is_float ? alpha.f : (double)alpha.i, is_float ? (int64_t)alpha.f : alpha.i, 0};
    nx_number_store(NX_C128, &alpha, (char *)&made.c);
    if (alpha.tag == NX_TAG_COMPLEX) made.f = alpha.parts[0];
    return made;
}

static void add_half(const adding *a, char *to, const char *from) {
    float x, y;
    nx_cast(NX_F32, (char *)&x, 0, a->dtype, to, 0, 1);
    nx_cast(NX_F32, (char *)&y, 0, a->dtype, from, 0, 1);
    x += (float)a->f * y;
    nx_cast(a->dtype, to, 0, NX_F32, (const char *)&x, 0, 1);
}

/* to += alpha*from; half types are rounded after each addition, integers wrap. */
static void add_run(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const adding *a = arg;
    char *to = ptrs[0];
    const char *from = ptrs[1];
#define EACH(type, sum)                                                  \
    for (int64_t i = 0; i < n; i++, to += steps[0], from += steps[1]) {  \
        type *t = (type *)to;                                            \
        const type x = *(const type *)from;                              \
        *t = (type)(sum);                                                \
    }                                                                    \
    break
    switch (a->dtype) {
    case NX_BOOL: EACH(uint8_t, *t | (x && a->i));
    case NX_U8: case NX_I8: EACH(uint8_t, *t + (uint64_t)a->i * x);
    case NX_I16: EACH(uint16_t, *t + (uint64_t)a->i * x);
    case NX_I32: EACH(uint32_t, *t + (uint64_t)a->i * x);
    case NX_I64: EACH(uint64_t, *t + (uint64_t)a->i * x);
    case NX_F32: EACH(float, *t + (float)a->f * x);
    case NX_F64: EACH(double, *t + a->f * x);
    case NX_C64: EACH(float _Complex, *t + (float _Complex)a->c * x);
    case NX_C128: EACH(double _Complex, *t + a->c * x);
    default: /* halves: the entries' types admit nothing else */
        for (int64_t i = 0; i < n; i++, to += steps[0], from += steps[1]) add_half(a, to, from);
    }
#undef EACH
}

static void place_halves(const places *p, char *followed, char *other, const int64_t *at, int64_t n) {
    adding a = {.dtype = (nx_dtype)p->followed->dtype, .f = p->f, .i = p->i};
    EACH_PLACE(char, add_half(&a, there, here))
}
#define DEFINE_SUM(name, type, sum)                                                                               \
    static void place_##name(const places *p, char *followed, char *other, const int64_t *at, int64_t n) {        \
        EACH_PLACE(type, *there = (type)(sum))                                                                    \
    }
DEFINE_SUM(bool, uint8_t, *there | (*here && p->i))
DEFINE_SUM(8, uint8_t, *there + (uint64_t)p->i * *here)
DEFINE_SUM(16, uint16_t, *there + (uint64_t)p->i * *here)
DEFINE_SUM(32, uint32_t, *there + (uint64_t)p->i * *here)
DEFINE_SUM(64, uint64_t, *there + (uint64_t)p->i * *here)
DEFINE_SUM(float, float, *there + (float)p->f * *here)
DEFINE_SUM(double, double, *there + p->f * *here)
DEFINE_SUM(c64, float _Complex, *there + (float _Complex)p->c * *here)
DEFINE_SUM(c128, double _Complex, *there + p->c * *here)

static place_fn *find_sum(nx_dtype dtype) {
    switch (dtype) {
    case NX_BOOL: return place_bool;
    case NX_U8: case NX_I8: return place_8;
    case NX_I16: return place_16;
    case NX_I32: return place_32;
    case NX_I64: return place_64;
    case NX_F32: return place_float;
    case NX_F64: return place_double;
    case NX_C64: return place_c64;
    case NX_C128: return place_c128;
    default: return place_halves;
    }
}

static nx_status scatter_sums(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *src,
                              nx_array *out) {
    places p = {.run = run, .index = index, .followed = out, .other = src, .fn = find_sum((nx_dtype)out->dtype), .f = 1,
                .i = 1, .c = 1};
    begin_with(out, self);
    return run_places(&p, dim, true);
}

/* Sums of half types are held in float32 meanwhile, as in PyTorch: copies of both operands, row by row. */
typedef struct wide { nx_array array; int64_t dims[2 * NX_MAX_DIMS]; } wide;

static nx_status wide_new(const nx_array *a, wide *w) {
    int64_t step = 1;
    nx_array_copy(&w->array, a, w->dims);
    w->array.dtype = NX_F32;
    for (int d = a->ndim - 1; d >= 0; d--) {
        w->array.strides[d] = step;
        step *= a->sizes[d];
    }
    nx_array_refresh(&w->array);
    return nx__packed_new(a, NX_F32, &w->array.data);
}

static nx_status wide_both(const nx_array *self, const nx_array *source, wide *to, wide *from) {
    NX_TRY(wide_new(self, to));
    nx_status status = wide_new(source, from);
    if (status != NX_OK) nx_free(to->array.data);
    return status;
}

static void wide_end(const nx_array *out, wide *to, wide *from) {
    nx_copy_cast(out, &to->array);
    nx_free(to->array.data);
    nx_free(from->array.data);
}

static bool is_half(const nx_array *a) { return a->dtype == NX_F16 || a->dtype == NX_BF16; }

nx_status nx__scatter_sums(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *src,
                           nx_array *out) {
    wide to, from;
    if (!is_half(out)) return scatter_sums(run, self, dim, index, src, out);
    NX_TRY(wide_both(self, src, &to, &from));
    nx_status status = scatter_sums(run, &to.array, dim, index, &from.array, &to.array);
    wide_end(out, &to, &from);
    return status;
}

/* ---- parts of a dimension --------------------------------------------------------------------------------------- */
/* Part k of dimension `dim`: `part` looks into `a`. */
static void part_of(const nx_array *a, int dim, int64_t k, nx_array *part, int64_t *dims) {
    nx_array_copy(part, a, dims);
    if (a->ndim == 0) return;
    part->data = (char *)a->data + k * a->strides[dim] * (int64_t)nx_dtype_bytes(a->dtype);
    part->sizes[dim] = 1;
    nx_array_refresh(part);
}

/* Where parts lie without gaps: `outer` times so many parts of `bytes` bytes, of which `at` picks some. */
typedef struct picked {
    const nx_array *self, *out;
    const int64_t *at;
    int64_t n, limit, bytes;
    int dim;
} picked;

static nx_status pick_dense(void *arg, int64_t begin, int64_t end) {
    const picked *w = arg;
    int64_t outer = begin / w->n, i = begin % w->n;
    char *to = (char *)w->out->data + begin * w->bytes;
    const char *from = (const char *)w->self->data + outer * w->limit * w->bytes;
    for (; begin < end; begin++, to += w->bytes) {
        const char *part = from + w->at[i] * w->bytes;
        if (w->bytes == 4) memcpy(to, part, 4);
        else if (w->bytes == 8) memcpy(to, part, 8);
        else memcpy(to, part, (size_t)w->bytes);
        if (++i < w->n) continue;
        i = 0;
        from += w->limit * w->bytes;
    }
    return NX_OK;
}

static nx_status pick_strided(void *arg, int64_t begin, int64_t end) {
    const picked *w = arg;
    int64_t to_dims[2 * NX_MAX_DIMS], from_dims[2 * NX_MAX_DIMS];
    for (int64_t i = begin; i < end; i++) {
        nx_array to, from;
        part_of(w->out, w->dim, i, &to, to_dims);
        part_of(w->self, w->dim, w->at[i], &from, from_dims);
        nx_copy_cast(&to, &from);
    }
    return NX_OK;
}

static nx_status check_parts(const nx_run *run, const int64_t *at, int64_t n, int64_t dim, int64_t limit) {
    for (int64_t i = 0; i < n; i++) {
        if (at[i] < 0 || at[i] >= limit)
            return nx_fail(NX_INDEX, "%s: index out of range in self: index %lld, but dimension %lld has size %lld",
                           nx_op_name(run->op), (long long)at[i], (long long)dim, (long long)limit);
    }
    return NX_OK;
}

nx_status nx__index_parts(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, nx_array *out) {
    int64_t limit = self->ndim ? self->sizes[dim] : 1, n = index->numel, *at;
    NX_TRY(nx__packed_new(index, NX_I64, &at));
    nx_status status = check_parts(run, at, n, dim, limit);
    if (status == NX_OK && out->numel) {
        picked w = {self, out, at, n, limit, (int64_t)nx_dtype_bytes((nx_dtype)out->dtype), (int)dim};
        for (int d = (int)dim + 1; d < self->ndim; d++) w.bytes *= self->sizes[d];
        if (self->contiguous && out->contiguous) {
            int64_t parts = out->numel * (int64_t)nx_dtype_bytes((nx_dtype)out->dtype) / w.bytes;
            status = nx_parallel(parts, nx_grain(2 * w.bytes + 8), pick_dense, &w);
        } else {
            status = nx_parallel(n, nx_grain(16 * out->numel / n), pick_strided, &w);
        }
    }
    nx_free(at);
    return status;
}

static void add_arrays(const nx_array *to, const nx_array *from, const adding *a) {
    nx_walk walk;
    nx_walk_start(&walk, to->ndim, to->sizes);
    nx_walk_add(&walk, to);
    nx_walk_add(&walk, from);
    nx_walk_merge(&walk);
    nx_walk_run(&walk, add_run, (void *)a);
}

/* Coordinate `at[i]` of out takes part i of the source, in the order of i. Several threads cut another dimension, or the
 * places that are written. */
typedef struct summed {
    const nx_array *out, *source;
    const int64_t *at;
    int64_t n;
    int dim, cut; /* cut -1: the places */
    adding a;
} summed;

static void narrow(nx_array *a, int d, int64_t begin, int64_t end) {
    a->data = (char *)a->data + begin * a->strides[d] * (int64_t)nx_dtype_bytes((nx_dtype)a->dtype);
    a->sizes[d] = end - begin;
    nx_array_refresh(a);
}

static nx_status add_parts(void *arg, int64_t begin, int64_t end) {
    const summed *w = arg;
    int64_t to_dims[2 * NX_MAX_DIMS], from_dims[2 * NX_MAX_DIMS];
    nx_array to, from;
    nx_walk walk;
    part_of(w->out, w->dim, 0, &to, to_dims);
    part_of(w->source, w->dim, 0, &from, from_dims);
    if (w->cut >= 0) {
        narrow(&to, w->cut, begin, end);
        narrow(&from, w->cut, begin, end);
    }
    nx_walk_start(&walk, to.ndim, to.sizes);
    nx_walk_add(&walk, &to);
    nx_walk_add(&walk, &from);
    nx_walk_merge(&walk);
    int64_t to_step = step_in(w->out, w->dim), from_step = step_in(w->source, w->dim);
    char *const to_first = walk.ptr[0], *const from_first = walk.ptr[1];
    for (int64_t i = 0; i < w->n; i++) {
        if (w->cut < 0 && (w->at[i] < begin || w->at[i] >= end)) continue;
        walk.ptr[0] = to_first + w->at[i] * to_step;
        walk.ptr[1] = from_first + i * from_step;
        nx_walk_run(&walk, add_run, (void *)&w->a);
    }
    return NX_OK;
}

/* Single elements side by side in the last dimension: those of a row belong to places of that row. */
static nx_status add_last(nx_run *run, const nx_array *index, int64_t dim, const nx_array *source, const adding *a,
                          nx_array *out) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array wide; /* the index, the same for every row */
    nx_array_copy(&wide, source, dims);
    wide.data = index->data;
    wide.dtype = index->dtype;
    for (int d = 0; d < source->ndim; d++) wide.strides[d] = d == dim && index->ndim ? index->strides[0] : 0;
    nx_array_refresh(&wide);
    places p = {.run = run, .index = &wide, .followed = out, .other = source, .fn = find_sum(a->dtype), .f = a->f, .i = a->i,
                .c = a->c};
    return run_places(&p, dim, true);
}

static nx_status index_sums(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *source,
                            nx_value alpha, nx_array *out) {
    adding a = adding_of(out, alpha);
    begin_with(out, self);
    if (source->ndim && dim == source->ndim - 1 && source->ndim == out->ndim) return add_last(run, index, dim, source, &a, out);
    int64_t limit = self->ndim ? self->sizes[dim] : 1, *at;
    NX_TRY(nx__packed_new(index, NX_I64, &at));
    nx_status status = NX_OK;
    for (int64_t i = 0; i < index->numel && status == NX_OK; i++) {
        if (at[i] < 0 || at[i] >= limit) status = fail_index(run, at[i], (int)dim, limit);
    }
    if (status == NX_OK && out->numel && source->numel) {
        summed w = {out, source, at, index->numel, (int)dim, -1, a};
        for (int d = 0; d < out->ndim; d++) {
            if (d != dim && out->sizes[d] >= 64 && (w.cut < 0 || out->sizes[d] > out->sizes[w.cut])) w.cut = d;
        }
        int64_t n = w.cut >= 0 ? out->sizes[w.cut] : limit;
        status = nx_parallel(n, nx_grain(16 * source->numel / n), add_parts, &w);
    }
    nx_free(at);
    return status;
}

/* Of one dimension PyTorch rounds every sum. */
nx_status nx__index_sums(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *source,
                         nx_value alpha, nx_array *out) {
    wide to, from;
    if (!is_half(out) || out->ndim < 2) return index_sums(run, self, dim, index, source, alpha, out);
    NX_TRY(wide_both(self, source, &to, &from));
    nx_status status = index_sums(run, &to.array, dim, index, &from.array, alpha, &to.array);
    wide_end(out, &to, &from);
    return status;
}

/* ---- x[indices] --------------------------------------------------------------------------------------------- */
/* The indices, broadcast together, name places of the indexed tensor; a place is a part over the dimensions that
 * have no index. First the places' offsets are worked out and checked, then each part is copied or added. Next:
 * src/iter/index.c. */
typedef struct spots {
    nx_indexed s;
    int64_t n, *offset; /* places; of each in the indexed tensor, in bytes; owned */
} spots;

/* One index, for a dimension of x. Messages count the indices, as PyTorch's do. */
typedef struct pointing { const spots *p; const nx_array *index; const int64_t *at; int64_t size, bytes; int nth; } pointing;

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

/* Adds to places begin .. end what the index says. */
static nx_status add_offsets(void *arg, int64_t begin, int64_t end) {
    const pointing *w = arg;
    bool whole = w->index->numel == w->p->n;
    for (int64_t i = begin; i < end; i++) {
        int64_t k = w->at[whole ? i : place_in_index(w->p, w->index, i)];
        if (NX_UNLIKELY(k < -w->size || k >= w->size))
            return nx_fail(NX_INDEX, "index %lld is out of bounds for dimension %d with size %lld", (long long)k, w->nth,
                           (long long)w->size);
        w->p->offset[i] += (k < 0 ? k + w->size : k) * w->bytes;
    }
    return NX_OK;
}

static nx_status add_index(spots *p, const nx_array *x, int dim, const nx_array *index, int nth) {
    int64_t *at, *owned, bytes = x->strides[dim] * (int64_t)nx_dtype_bytes(x->dtype);
    NX_TRY(lay_index(index, false, &owned, &at));
    pointing w = {p, index, at, x->sizes[dim], bytes, nth};
    nx_status status = nx_parallel(p->n, nx_grain(32), add_offsets, &w);
    nx_free(owned);
    return status;
}

/* The caller frees `offset`, also after a failure. */
static nx_status spots_find(spots *p, const nx_run *run, const nx_array *x, const nx_value *indices) {
    p->offset = NULL;
    p->n = 1;
    NX_TRY(nx_index_shape(nx_op_name(run->op), x, indices, &p->s));
    for (int d = 0; d < p->s.n_joint; d++) p->n *= p->s.joint[d];
    size_t bytes;
    NX_TRY(nx_bytes_of(p->n, sizeof *p->offset, &bytes));
    p->offset = nx_alloc(bytes + 1);
    if (p->offset == NULL) return nx_fail_memory(bytes);
    memset(p->offset, 0, bytes);
    for (int d = 0, nth = 0; d < indices->n; d++)
        if (indices->list[d].tag == NX_TAG_TENSOR) NX_TRY(add_index(p, x, d, indices->list[d].array, nth++));
    return NX_OK;
}

/* Part i of x, which is indexed. */
static void part_of_indexed(const spots *p, const nx_array *x, int64_t i, nx_array *part, int64_t *dims) {
    nx_array_copy(part, x, dims);
    part->ndim = p->s.n_rest;
    part->data = (char *)x->data + p->offset[i];
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

/* Places and the parts that belong to them. */
typedef struct exchange { const spots *p; const nx_array *x, *result; adding *one; } exchange; /* one NULL: copied */

/* Single elements, side by side. */
#define GATHER(bits)                                                                                   \
    static nx_status gather_##bits(void *arg, int64_t begin, int64_t end) {                            \
        const exchange *w = arg;                                                                       \
        const char *from = w->x->data;                                                                 \
        uint##bits##_t *to = w->result->data;                                                          \
        for (int64_t i = begin; i < end; i++) to[i] = *(const uint##bits##_t *)(from + w->p->offset[i]); \
        return NX_OK;                                                                                  \
    }
GATHER(8)
GATHER(16)
GATHER(32)
GATHER(64)
GATHER(128)
#undef GATHER

static nx_status gather_parts(void *arg, int64_t begin, int64_t end) {
    const exchange *w = arg;
    int64_t to_dims[2 * NX_MAX_DIMS], from_dims[2 * NX_MAX_DIMS];
    for (int64_t i = begin; i < end; i++) {
        nx_array to, from;
        part_of_result(w->p, w->x, w->result, i, &to, to_dims);
        part_of_indexed(w->p, w->x, i, &from, from_dims);
        nx_copy_cast(&to, &from);
    }
    return NX_OK;
}

nx_status nx__index_elements(nx_run *run, const nx_array *self, nx_value indices, nx_array *out) {
    static nx_parallel_fn *const gathers[NX_MAX_ELEMENT_BYTES + 1] = {
        [1] = gather_8, [2] = gather_16, [4] = gather_32, [8] = gather_64, [16] = gather_128};
    spots p;
    nx_status status = spots_find(&p, run, self, &indices);
    bool single = status == NX_OK && p.s.n_rest == 0 && out->contiguous && out->dtype == self->dtype;
    exchange w = {&p, self, out, NULL};
    int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)out->dtype);
    if (single) status = nx_parallel(p.n, nx_grain(24), gathers[bytes], &w);
    else if (status == NX_OK && out->numel)
        status = nx_parallel(p.n, nx_grain(2 * bytes * out->numel / p.n + 64), gather_parts, &w);
    nx_free(p.offset);
    return status;
}

/* Places fall into BINS by where they lie; threads take bins, so what is meant for a place comes in order. */
enum { BINS = 64 };
static int64_t bin_of(int64_t offset) { return (int64_t)((uint64_t)offset * UINT64_C(0x9E3779B97F4A7C15) >> 58); }

static nx_status put_parts(void *arg, int64_t begin, int64_t end) {
    const exchange *w = arg;
    int64_t to_dims[2 * NX_MAX_DIMS], from_dims[2 * NX_MAX_DIMS];
    for (int64_t i = 0; i < w->p->n; i++) {
        nx_array to, from;
        int64_t bin = bin_of(w->p->offset[i]);
        if (bin < begin || bin >= end) continue;
        part_of_indexed(w->p, w->x, i, &to, to_dims);
        part_of_result(w->p, w->x, w->result, i, &from, from_dims);
        if (w->p->s.n_rest == 0 && w->one) add_run(w->one, (char *const[]){to.data, from.data}, (const int64_t[]){0, 0}, 1);
        else if (w->one) add_arrays(&to, &from, w->one);
        else nx_copy_cast(&to, &from);
    }
    return NX_OK;
}

nx_status nx__index_put_elements(nx_run *run, const nx_array *self, nx_value indices, const nx_array *values,
                                 bool accumulate, nx_array *out) {
    spots p;
    adding one = adding_of(out, nx_value_int(1));
    nx_status status = spots_find(&p, run, out, &indices);
    if (status == NX_OK && out->data != self->data) nx_copy_cast(out, self);
    if (status == NX_OK && out->numel && p.n) {
        int64_t part = 1;
        for (int k = 0; k < p.s.n_rest; k++) part *= out->sizes[p.s.rest[k]];
        exchange w = {&p, out, values, accumulate ? &one : NULL};
        status = nx_parallel(BINS, nx_grain(p.n * (16 * part + 128) / BINS), put_parts, &w);
    }
    nx_free(p.offset);
    return status;
}

/* ---- nonzero_static ------------------------------------------------------------------------------------- */
/* Elements in rows, each row in pieces of which it is known at once what is not 0. */
enum { PIECE = 256 };
typedef struct search { int64_t *at, found, size; int ndim; } search;

static void add_places(search *p, const nx_array *self, const int64_t *index, const char *row) {
    bool set[PIECE];
    int last = self->ndim - 1;
    int64_t n = self->ndim ? self->sizes[last] : 1, step = self->ndim ? self->strides[last] : 0;
    int64_t bytes = (int64_t)nx_dtype_bytes(self->dtype);
    for (int64_t begin = 0; begin < n; begin += PIECE) {
        int64_t count = n - begin < PIECE ? n - begin : PIECE;
        nx_cast(NX_BOOL, (char *)set, 1, self->dtype, row + begin * step * bytes, step * bytes, count);
        for (int64_t i = 0; i < count && p->found < p->size; i++) {
            if (!set[i]) continue;
            int64_t *to = p->at + p->found++ * p->ndim;
            for (int d = 0; d < last; d++) to[d] = index[d];
            if (last >= 0) to[last] = begin + i;
        }
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
