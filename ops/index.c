/* Kernels of index.op. Indices of any integer type and layout are first laid out as int64, side by side. One that is
 * out of range fails before it is followed; what was written before it stays written. Results that begin as a copy of
 * `self` are `self` itself in in-place forms. */
#include "gen/kernels.h"
#include "packed.h"

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
static void copy_rows(const nx_array *out, const nx_array *weight, const int64_t *at, int64_t n) {
    int64_t columns = weight->sizes[1], bytes = (int64_t)nx_dtype_bytes((nx_dtype)weight->dtype);
    for (int64_t i = 0; i < n; i++) {
        char *to = (char *)out->data + i * columns * bytes;
        const char *from = (const char *)weight->data + at[i] * weight->strides[0] * bytes;
        if (weight->strides[1] == 1) memcpy(to, from, (size_t)(columns * bytes));
        else nx_cast((nx_dtype)out->dtype, to, bytes, (nx_dtype)weight->dtype, from, weight->strides[1] * bytes, columns);
    }
}

nx_status nx__embedding_rows(nx_run *run, nx_array *out, const nx_array *weight, const nx_array *indices) {
    int64_t n = indices->numel, *at;
    NX_TRY(nx__packed_new(indices, NX_I64, &at));
    nx_status status = check_range(run, at, n, weight->sizes[0]);
    if (status == NX_OK) copy_rows(out, weight, at, n);
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

nx_status nx__embedding_add_rows(nx_run *run, nx_array *out, const nx_array *grad_output, const nx_array *indices,
                                 int64_t padding_idx) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    int64_t n = indices->numel, bytes = out->sizes[1] * (int64_t)nx_dtype_bytes(dtype);
    int64_t *at;
    char *packed = NULL;
    nx_status status = nx__packed_new(indices, NX_I64, &at);
    if (status == NX_OK && !grad_output->contiguous) status = nx__packed_new(grad_output, dtype, &packed);
    const char *rows = packed ? packed : grad_output->data;
    if (status == NX_OK) status = check_range(run, at, n, out->sizes[0]);
    if (status == NX_OK && out->numel) {
        memset(out->data, 0, (size_t)(out->sizes[0] * bytes));
        for (int64_t i = 0; i < n; i++) {
            if (at[i] != padding_idx) add_row(dtype, (char *)out->data + at[i] * bytes, rows + i * bytes, out->sizes[1]);
        }
    }
    nx_free(at);
    nx_free(packed);
    return status;
}

/* ---- gather and scatter ----------------------------------------------------------------------------------- */
/* They go through the rows of `index` along `dim`; each row lies at the same coordinates of the other
 * dimensions in all operands, whose sizes may be larger. */
typedef struct places {
    const nx_array *index;
    int64_t *at;           /* the index, packed; owned */
    int dim;
    int64_t n, step, rows; /* of a row: length, step in `at`; how many rows */
    int64_t limit;         /* size of the dimension that is followed */
} places;

static nx_status fail_index(const nx_run *run, int64_t at, int dim, int64_t limit) {
    return nx_fail(NX_RUNTIME, "%s: index %lld is out of bounds for dimension %d with size %lld", nx_op_name(run->op),
                   (long long)at, dim, (long long)limit);
}

static nx_status places_start(places *p, const nx_array *index, int dim, const nx_array *followed) {
    p->index = index;
    p->dim = dim;
    p->n = index->ndim ? index->sizes[dim] : 1;
    p->rows = p->n ? index->numel / p->n : 0;
    p->limit = followed->ndim ? followed->sizes[dim] : 1;
    p->step = 1;
    for (int d = dim + 1; d < index->ndim; d++) p->step *= index->sizes[d];
    return nx__packed_new(index, NX_I64, &p->at);
}

/* Where row `row` of the index begins in `a`, in bytes. */
static char *row_in(const places *p, const nx_array *a, int64_t row) {
    int64_t offset = 0;
    for (int d = p->index->ndim - 1; d >= 0; d--) {
        if (d == p->dim) continue;
        if (d < a->ndim) offset += row % p->index->sizes[d] * a->strides[d];
        row /= p->index->sizes[d];
    }
    return (char *)a->data + offset * (int64_t)nx_dtype_bytes(a->dtype);
}

static const int64_t *row_of_index(const places *p, int64_t row) {
    return p->at + row / p->step * p->step * p->n + row % p->step;
}

static int64_t step_in(const places *p, const nx_array *a) {
    return a->ndim ? a->strides[p->dim] * (int64_t)nx_dtype_bytes(a->dtype) : 0;
}

/* to[i] = from[i] by way of the index: it says where to read (gather) or where to write (scatter). */
#define DEFINE_MOVE(bits)                                                                                             \
    static nx_status move_##bits(const nx_run *run, const places *p, const int64_t *at, char *to, int64_t to_step,    \
                                 const char *from, int64_t from_step, bool writes) {                                  \
        for (int64_t i = 0; i < p->n; i++) {                                                                          \
            int64_t k = at[i * p->step];                                                                              \
            if (k < 0 || k >= p->limit) return fail_index(run, k, p->dim, p->limit);                                  \
            int64_t there = writes ? k : i, here = writes ? i : k;                                                    \
            *(uint##bits##_t *)(to + there * to_step) = *(const uint##bits##_t *)(from + here * from_step);           \
        }                                                                                                             \
        return NX_OK;                                                                                                 \
    }
DEFINE_MOVE(8)
DEFINE_MOVE(16)
DEFINE_MOVE(32)
DEFINE_MOVE(64)

/* `number`: one element stands for all of `from`. */
static nx_status move_all(const nx_run *run, const places *p, const nx_array *to, const nx_array *from,
                          const char *number, bool writes) {
    size_t bytes = nx_dtype_bytes(to->dtype);
    for (int64_t row = 0; row < p->rows; row++) {
        const int64_t *at = row_of_index(p, row);
        char *there = row_in(p, to, row);
        const char *here = number ? number : row_in(p, from, row);
        int64_t step = number ? 0 : step_in(p, from);
        nx_status status = bytes == 1   ? move_8(run, p, at, there, step_in(p, to), here, step, writes)
                           : bytes == 2 ? move_16(run, p, at, there, step_in(p, to), here, step, writes)
                           : bytes == 4 ? move_32(run, p, at, there, step_in(p, to), here, step, writes)
                                        : move_64(run, p, at, there, step_in(p, to), here, step, writes);
        if (status != NX_OK) return status;
    }
    return NX_OK;
}

/* `out` as a copy of `self`, unless it is self. */
static void begin_with(const nx_array *out, const nx_array *self) {
    if (out->data != self->data) nx_copy_cast(out, self);
}

nx_status nx__gather_elements(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, nx_array *out) {
    places p;
    NX_TRY(places_start(&p, index, (int)dim, self));
    nx_status status = move_all(run, &p, out, self, NULL, false);
    nx_free(p.at);
    return status;
}

nx_status nx__scatter_elements(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index,
                               const nx_array *src, nx_array *out) {
    places p;
    NX_TRY(places_start(&p, index, (int)dim, self));
    begin_with(out, self);
    nx_status status = move_all(run, &p, out, src, NULL, true);
    nx_free(p.at);
    return status;
}

nx_status nx__scatter_number(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, nx_value value,
                             nx_array *out) {
    places p;
    _Alignas(8) char number[8];
    bool is_float = value.tag == NX_TAG_FLOAT;
    nx_cast((nx_dtype)out->dtype, number, 0, is_float ? NX_F64 : NX_I64, (const char *)&value.i, 0, 1);
    NX_TRY(places_start(&p, index, (int)dim, self));
    begin_with(out, self);
    nx_status status = move_all(run, &p, out, NULL, number, true);
    nx_free(p.at);
    return status;
}

/* ---- sums ----------------------------------------------------------------------------------------------------- */
typedef struct adding { nx_dtype dtype; double f; int64_t i; } adding; /* alpha as a float and as an integer */

static adding adding_of(const nx_array *a, nx_value alpha) {
    bool is_float = alpha.tag == NX_TAG_FLOAT;
    return (adding){(nx_dtype)a->dtype, is_float ? alpha.f : (double)alpha.i, is_float ? (int64_t)alpha.f : alpha.i};
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
    default:
        for (int64_t i = 0; i < n; i++, to += steps[0], from += steps[1]) add_half(a, to, from);
    }
#undef EACH
}

static nx_status add_to_places(const nx_run *run, const places *p, const adding *a, const nx_array *out,
                         const nx_array *src, int64_t row) {
    const int64_t *at = row_of_index(p, row), none[2] = {0, 0};
    char *to = row_in(p, out, row), *from = row_in(p, src, row);
    for (int64_t i = 0; i < p->n; i++) {
        int64_t k = at[i * p->step];
        if (k < 0 || k >= p->limit) return fail_index(run, k, p->dim, p->limit);
        add_run((void *)a, (char *const[]){to + k * step_in(p, out), from + i * step_in(p, src)}, none, 1);
    }
    return NX_OK;
}

nx_status nx__scatter_sums(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *src,
                           nx_array *out) {
    places p;
    adding a = adding_of(out, nx_value_int(1));
    NX_TRY(places_start(&p, index, (int)dim, self));
    begin_with(out, self);
    nx_status status = NX_OK;
    for (int64_t row = 0; row < p.rows && status == NX_OK; row++) status = add_to_places(run, &p, &a, out, src, row);
    nx_free(p.at);
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

nx_status nx__index_parts(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, nx_array *out) {
    int64_t to_dims[2 * NX_MAX_DIMS], from_dims[2 * NX_MAX_DIMS], limit = self->ndim ? self->sizes[dim] : 1;
    int64_t *at;
    NX_TRY(nx__packed_new(index, NX_I64, &at));
    nx_status status = NX_OK;
    for (int64_t i = 0; i < index->numel && status == NX_OK; i++) {
        nx_array to, from;
        if (at[i] < 0 || at[i] >= limit) {
            status = nx_fail(NX_INDEX, "%s: index out of range in self: index %lld, but dimension %lld has size %lld",
                             nx_op_name(run->op), (long long)at[i], (long long)dim, (long long)limit);
            break;
        }
        if (out->numel == 0) continue;
        part_of(out, (int)dim, i, &to, to_dims);
        part_of(self, (int)dim, at[i], &from, from_dims);
        nx_copy_cast(&to, &from);
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

static void add_part(const nx_array *out, const nx_array *source, int dim, int64_t to_at, int64_t from_at,
                     const adding *a) {
    int64_t to_dims[2 * NX_MAX_DIMS], from_dims[2 * NX_MAX_DIMS];
    nx_array to, from;
    part_of(out, dim, to_at, &to, to_dims);
    part_of(source, dim, from_at, &from, from_dims);
    add_arrays(&to, &from, a);
}

nx_status nx__index_sums(nx_run *run, const nx_array *self, int64_t dim, const nx_array *index, const nx_array *source,
                         nx_value alpha, nx_array *out) {
    int64_t limit = self->ndim ? self->sizes[dim] : 1, *at;
    adding a = adding_of(out, alpha);
    NX_TRY(nx__packed_new(index, NX_I64, &at));
    begin_with(out, self);
    nx_status status = NX_OK;
    for (int64_t i = 0; i < index->numel && status == NX_OK; i++) {
        if (at[i] < 0 || at[i] >= limit) status = fail_index(run, at[i], (int)dim, limit);
        else if (out->numel) add_part(out, source, (int)dim, at[i], i, &a);
    }
    nx_free(at);
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

/* Adds to each place what one index, for dimension `dim` of x, says. Messages count the indices, as PyTorch's do. */
static nx_status add_index(spots *p, const nx_array *x, int dim, const nx_array *index, int nth) {
    int64_t *at, size = x->sizes[dim];
    int64_t bytes = x->strides[dim] * (int64_t)nx_dtype_bytes(x->dtype);
    NX_TRY(nx__packed_new(index, NX_I64, &at));
    nx_status status = NX_OK;
    for (int64_t i = 0; i < p->n && status == NX_OK; i++) {
        int64_t from = 0, step = 1, left = i;
        for (int d = p->s.n_joint - 1, k = index->ndim - 1; k >= 0; d--, k--) {
            if (index->sizes[k] != 1) from += left % p->s.joint[d] * step;
            step *= index->sizes[k];
            left /= p->s.joint[d];
        }
        int64_t k = at[from];
        if (k < -size || k >= size)
            status = nx_fail(NX_INDEX, "index %lld is out of bounds for dimension %d with size %lld", (long long)k, nth,
                             (long long)size);
        else p->offset[i] += (k < 0 ? k + size : k) * bytes;
    }
    nx_free(at);
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

/* Single elements, side by side. */
#define GATHER(bits)                                                                          \
    static void gather_##bits(char *to, const char *from, const int64_t *offset, int64_t n) { \
        for (int64_t i = 0; i < n; i++) memcpy(to + i * (bits / 8), from + offset[i], bits / 8); \
    }
GATHER(8)
GATHER(16)
GATHER(32)
GATHER(64)
#undef GATHER
static void gather(const spots *p, const nx_array *self, const nx_array *out) {
    char *to = out->data;
    switch (nx_dtype_bytes(out->dtype)) {
    case 1: gather_8(to, self->data, p->offset, p->n); break;
    case 2: gather_16(to, self->data, p->offset, p->n); break;
    case 4: gather_32(to, self->data, p->offset, p->n); break;
    default: gather_64(to, self->data, p->offset, p->n);
    }
}

nx_status nx__index_elements(nx_run *run, const nx_array *self, nx_value indices, nx_array *out) {
    int64_t to_dims[2 * NX_MAX_DIMS], from_dims[2 * NX_MAX_DIMS];
    spots p;
    nx_status status = spots_find(&p, run, self, &indices);
    bool single = status == NX_OK && p.s.n_rest == 0 && out->contiguous && out->dtype == self->dtype;
    if (single) gather(&p, self, out);
    for (int64_t i = 0; !single && i < p.n && out->numel && status == NX_OK; i++) {
        nx_array to, from;
        part_of_result(&p, self, out, i, &to, to_dims);
        part_of_indexed(&p, self, i, &from, from_dims);
        nx_copy_cast(&to, &from);
    }
    nx_free(p.offset);
    return status;
}

nx_status nx__index_put_elements(nx_run *run, const nx_array *self, nx_value indices, const nx_array *values,
                                 bool accumulate, nx_array *out) {
    int64_t to_dims[2 * NX_MAX_DIMS], from_dims[2 * NX_MAX_DIMS];
    spots p;
    adding one = adding_of(out, nx_value_int(1));
    nx_status status = spots_find(&p, run, out, &indices);
    if (status == NX_OK && out->data != self->data) nx_copy_cast(out, self);
    for (int64_t i = 0; i < p.n && out->numel && status == NX_OK; i++) {
        nx_array to, from;
        part_of_indexed(&p, out, i, &to, to_dims);
        part_of_result(&p, out, values, i, &from, from_dims);
        if (accumulate) add_arrays(&to, &from, &one);
        else nx_copy_cast(&to, &from);
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
