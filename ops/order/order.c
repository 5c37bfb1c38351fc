/* Kernels of order.op. Each row along one dimension is brought into a buffer of float, double or int64_t, in which every
 * dtype is exact, is looked through there, and what was found is cast back; rows are independent and are split over
 * threads. The first k come from a heap of k, the whole order from sort.c. Next: order.h, rows.h. */
#include "gen/kernels.h"
#include "order/best_rows.h"
#include "shared/order.h"
#include "shared/packed.h"

typedef struct job {
    const nx_array *self;
    nx_array *values, *indices; /* NULL: not wanted */
    int dim;
    bool least, descending, all; /* all: every element in order */
    int64_t k;
} job;

enum { AT_ONCE = INT32_MAX }; /* elements of a row whose places fit a lane */

static const nx__best_rows *best_rows(void) {
    static const nx__best_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__best_rows)};
    return rows[nx_level()];
}

/* ---- one row, for each type that is compared --------------------------------------------------------------------- */
#define COMES_BEFORE(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))
#define DEFINE(real)                                                                                             \
    int64_t nx__order_best_##real(const real *x, int64_t n, bool least) {                                        \
        int64_t best = best_rows()->of_##real.row(x, nx_least(n, AT_ONCE), least);                               \
        for (int64_t i = AT_ONCE; i < n && x[best] == x[best]; i++) {                                            \
            if ((least ? x[i] < x[best] : x[i] > x[best]) || x[i] != x[i]) best = i;                             \
        }                                                                                                        \
        return best;                                                                                             \
    }                                                                                                            \
    static bool before_##real(const real *x, int64_t i, int64_t j, bool descending) {                            \
        real a = descending ? x[j] : x[i], b = descending ? x[i] : x[j];                                         \
        return COMES_BEFORE(a, b) || (!COMES_BEFORE(b, a) && i < j);                                             \
    }                                                                                                            \
    /* The one that comes last stands on top; the entry at `hole` goes down to its place among n. */             \
    static void sink_##real(const real *x, int64_t *at, int64_t n, int64_t hole, bool descending) {              \
        int64_t moving = at[hole];                                                                               \
        for (int64_t child; (child = 2 * hole + 1) < n; hole = child) {                                          \
            if (child + 1 < n && before_##real(x, at[child], at[child + 1], descending)) child++;                \
            if (!before_##real(x, moving, at[child], descending)) break;                                         \
            at[hole] = at[child];                                                                                \
        }                                                                                                        \
        at[hole] = moving;                                                                                       \
    }                                                                                                            \
    void nx__order_first_##real(const real *x, int64_t n, int64_t k, bool descending, int64_t *at) {             \
        for (int64_t i = 0; i < k; i++) at[i] = i;                                                               \
        for (int64_t i = k / 2 - 1; i >= 0; i--) sink_##real(x, at, k, i, descending);                           \
        for (int64_t i = k; i < n; i++) {                                                                        \
            if (!before_##real(x, i, at[0], descending)) continue;                                               \
            at[0] = i;                                                                                           \
            sink_##real(x, at, k, 0, descending);                                                                \
        }                                                                                                        \
        for (int64_t end = k - 1; end > 0; end--) {                                                              \
            int64_t last = at[0];                                                                                \
            at[0] = at[end];                                                                                     \
            at[end] = last;                                                                                      \
            sink_##real(x, at, end, 0, descending);                                                              \
        }                                                                                                        \
    }
DEFINE(float)
DEFINE(double)
DEFINE(int64_t)
#undef DEFINE

/* ---- rows ------------------------------------------------------------------------------------------------------------ */
static void store_row(const nx_array *out, int dim, int64_t row, nx_dtype dtype, const void *from, int64_t n) {
    nx_cast((nx_dtype)out->dtype, nx__row_at(out, dim, row), nx__row_step(out, dim), dtype, from,
            (int64_t)nx_dtype_bytes(dtype), n);
}

/* x and y have room for a row, `at` for four. */
#define DEFINE(real, code)                                                                                       \
    static void order_row_##real(const job *j, int64_t row, real *x, real *y, int64_t *at) {                     \
        int64_t n = nx__row_length(j->self, j->dim);                                                             \
        nx__order_load(code, x, j->self, j->dim, row);                                                           \
        if (j->all) at = nx__order_all_##real(x, n, j->descending, at);                                          \
        else if (j->k > 0) nx__order_first_##real(x, n, j->k, j->descending, at);                                \
        for (int64_t i = 0; i < j->k; i++) y[i] = x[at[i]];                                                      \
        store_row(j->values, j->dim, row, code, y, j->k);                                                        \
        store_row(j->indices, j->dim, row, NX_I64, at, j->k);                                                    \
    }                                                                                                            \
    static void best_row_##real(const job *j, int64_t row, real *room) {                                         \
        const real *x = room;                                                                                    \
        bool there = j->self->dtype == code && nx__row_step(j->self, j->dim) == (int64_t)sizeof(real);           \
        if (there) x = (const real *)nx__row_at(j->self, j->dim, row);                                           \
        else nx__order_load(code, room, j->self, j->dim, row);                                                   \
        int64_t best = nx__order_best_##real(x, nx__row_length(j->self, j->dim), j->least);                      \
        ((int64_t *)j->indices->data)[row] = best;                                                               \
        if (j->values == NULL) return;                                                                           \
        char *to = (char *)j->values->data + row * (int64_t)nx_dtype_bytes(j->values->dtype);                    \
        nx_cast((nx_dtype)j->values->dtype, to, 0, code, (const char *)&x[best], 0, 1);                          \
    }
DEFINE(float, NX_F32)
DEFINE(double, NX_F64)
DEFINE(int64_t, NX_I64)
#undef DEFINE

/* `width` rows that lie side by side, from `row` on. */
enum { CAST = 16 }; /* elements of each that are cast at a time */
#define DEFINE(real, place, code)                                                                                \
    static void best_columns_##real(const job *j, int64_t row, int width) {                                      \
        real cast[CAST * NX__BEST_COLUMNS], best[NX__BEST_COLUMNS];                                              \
        place at[NX__BEST_COLUMNS];                                                                              \
        const char *x = nx__row_at(j->self, j->dim, row);                                                        \
        int64_t n = nx__row_length(j->self, j->dim), step = nx__row_step(j->self, j->dim);                       \
        int64_t from = (int64_t)nx_dtype_bytes(j->self->dtype);                                                  \
        if (j->self->dtype == code)                                                                              \
            best_rows()->of_##real.columns((const real *)x, j->self->strides[j->dim], 0, n, width, j->least, best, at); \
        else for (int64_t begin = 0, end; begin < n; begin = end) {                                              \
            end = nx_least(begin + CAST, n);                                                                     \
            for (int64_t i = begin; i < end; i++)                                                                \
                nx_cast(code, (char *)(cast + (i - begin) * width), sizeof(real), j->self->dtype, x + i * step, from, width); \
            best_rows()->of_##real.columns(cast, width, begin, end, width, j->least, best, at);                  \
        }                                                                                                        \
        for (int k = 0; k < width; k++) ((int64_t *)j->indices->data)[row + k] = at[k];                          \
        if (j->values == NULL) return;                                                                           \
        int64_t bytes = (int64_t)nx_dtype_bytes(j->values->dtype);                                               \
        nx_cast((nx_dtype)j->values->dtype, (char *)j->values->data + row * bytes, bytes, code, (const char *)best, \
                sizeof(real), width);                                                                            \
    }
DEFINE(float, int32_t, NX_F32)
DEFINE(double, int64_t, NX_F64)
DEFINE(int64_t, int64_t, NX_I64)
#undef DEFINE

/* Rows that follow each other lie side by side, so many of them: the size of the last dimension; 0: they do not. */
static int64_t rows_beside(const job *j) {
    int last = j->self->ndim - 1;
    bool beside = last > 0 && j->dim < last && j->self->strides[last] == 1;
    return beside && j->self->sizes[j->dim] < AT_ONCE ? j->self->sizes[last] : 0;
}

static nx_status best_columns(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    nx_dtype dtype = nx__order_dtype(j->self->dtype);
    int64_t beside = rows_beside(j);
    for (int64_t row = begin; row < end;) {
        int width = (int)nx_least(nx_least(NX__BEST_COLUMNS, end - row), beside - row % beside);
        if (dtype == NX_F32) best_columns_float(j, row, width);
        else if (dtype == NX_F64) best_columns_double(j, row, width);
        else best_columns_int64_t(j, row, width);
        row += width;
    }
    return NX_OK;
}

static nx_status order_rows(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    int64_t n = nx__row_length(j->self, j->dim);
    size_t bytes;
    NX_TRY(nx_bytes_of(n, 48, &bytes));
    char *room = nx_room_new(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    void *y = room + n * 8;
    int64_t *at = (int64_t *)(room + n * 16);
    nx_dtype dtype = nx__order_dtype(j->self->dtype);
    for (int64_t row = begin; row < end; row++) {
        if (dtype == NX_F32) order_row_float(j, row, (float *)room, y, at);
        else if (dtype == NX_F64) order_row_double(j, row, (double *)room, y, at);
        else order_row_int64_t(j, row, (int64_t *)room, y, at);
    }
    nx_room_free(room);
    return NX_OK;
}

static nx_status best_one_by_one(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    size_t bytes;
    NX_TRY(nx_bytes_of(nx__row_length(j->self, j->dim), 8, &bytes));
    void *x = nx_room_new(bytes);
    if (x == NULL) return nx_fail_memory(bytes);
    nx_dtype dtype = nx__order_dtype(j->self->dtype);
    for (int64_t row = begin; row < end; row++) {
        if (dtype == NX_F32) best_row_float(j, row, x);
        else if (dtype == NX_F64) best_row_double(j, row, x);
        else best_row_int64_t(j, row, x);
    }
    nx_room_free(x);
    return NX_OK;
}

static nx_status run_rows(const job *j, nx_parallel_fn *rows) {
    int64_t n = nx__row_length(j->self, j->dim);
    if (j->self->numel == 0) return NX_OK;
    return nx_parallel(j->self->numel / n, nx__row_grain(n), rows, (void *)j);
}

nx_status nx__sort_rows(nx_run *run, const nx_array *self, int64_t dim, bool descending, nx_array *values,
                        nx_array *indices) {
    job j = {.self = self, .values = values, .indices = indices, .dim = (int)dim, .descending = descending, .all = true,
             .k = nx__row_length(self, (int)dim)};
    return run_rows(&j, order_rows);
}

nx_status nx__topk_rows(nx_run *run, const nx_array *self, int64_t k, int64_t dim, bool largest, nx_array *values,
                        nx_array *indices) {
    job j = {.self = self, .values = values, .indices = indices, .dim = (int)dim, .descending = largest, .k = k};
    return k == 0 ? NX_OK : run_rows(&j, order_rows);
}

/* ---- the extreme element ----------------------------------------------------------------------------------------------- */
/* Results are row-major, in the order of the rows; an out= of other strides is filled from rows of our own. */
static nx_status find_best(const job *j) {
    bool plain = j->indices->contiguous && (j->values == NULL || j->values->contiguous);
    if (plain) return run_rows(j, rows_beside(j) ? best_columns : best_one_by_one);
    job aside = *j;
    nx_array *wanted[2] = {j->indices, j->values}, own[2];
    int64_t dims[2][2 * NX_MAX_DIMS];
    nx_status status = NX_OK;
    int n = j->values ? 2 : 1;
    for (int k = 0; k < 2; k++) own[k].data = NULL;
    for (int k = 0; k < n && status == NX_OK; k++) {
        void *data;
        status = nx__packed_new(wanted[k], (nx_dtype)wanted[k]->dtype, &data);
        nx__packed_over(&own[k], dims[k], wanted[k], (nx_dtype)wanted[k]->dtype, data);
    }
    aside.indices = &own[0];
    if (n == 2) aside.values = &own[1];
    if (status == NX_OK) status = run_rows(&aside, rows_beside(j) ? best_columns : best_one_by_one);
    for (int k = 0; k < n; k++) {
        if (status == NX_OK) nx_copy_cast(wanted[k], &own[k]);
        nx_room_free(own[k].data);
    }
    return status;
}

nx_status nx__extreme_rows(nx_run *run, const nx_array *self, int64_t dim, bool least, nx_array *values, nx_array *indices) {
    return find_best(&(job){.self = self, .values = values, .indices = indices, .dim = (int)dim, .least = least});
}

/* Without a dimension all elements are one row. */
nx_status nx__extreme_place(nx_run *run, const nx_array *self, nx_value dim, bool least, nx_array *out) {
    job j = {.self = self, .indices = out, .least = least};
    if (dim.tag != NX_TAG_NONE) {
        NX_TRY(nx_wrap_dim(nx_op_name(run->op), dim.i, self->ndim, &j.dim));
        return find_best(&j);
    }
    nx_dtype dtype = nx__order_dtype(self->dtype);
    void *x;
    NX_TRY(nx__packed_new(self, dtype, &x));
    *(int64_t *)out->data = dtype == NX_F32   ? nx__order_best_float(x, self->numel, least)
                            : dtype == NX_F64 ? nx__order_best_double(x, self->numel, least)
                                              : nx__order_best_int64_t(x, self->numel, least);
    nx_room_free(x);
    return NX_OK;
}

/* ---- the other direction ----------------------------------------------------------------------------------------------- */
nx_status nx__flip_copy(nx_run *run, const nx_array *self, const int64_t *flipped, int n_flipped, nx_array *out) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array turned;
    nx_array_copy(&turned, self, dims);
    if (self->numel == 0) return NX_OK;
    for (int k = 0; k < n_flipped && self->ndim > 0; k++) {
        int d;
        NX_TRY(nx_wrap_dim(nx_op_name(run->op), flipped[k], self->ndim, &d));
        turned.data = (char *)turned.data + (self->sizes[d] - 1) * self->strides[d] * (int64_t)nx_dtype_bytes(self->dtype);
        turned.strides[d] = -self->strides[d];
    }
    nx_array_refresh(&turned);
    nx_copy_cast(out, &turned);
    return NX_OK;
}

/* ---- roll ----------------------------------------------------------------------------------------------- */
static void copy_rolled(nx_array *to, nx_array *from, const int64_t *shift, int d);

/* `n` parts of dimension d from number `begin` on, to number `at` on. */
static void copy_piece(const nx_array *to, const nx_array *from, const int64_t *shift, int d, int64_t n, int64_t begin,
                       int64_t at) {
    int64_t dims_to[2 * NX_MAX_DIMS], dims_from[2 * NX_MAX_DIMS], bytes = (int64_t)nx_dtype_bytes((nx_dtype)to->dtype);
    nx_array piece_to, piece_from;
    nx_array_copy(&piece_to, to, dims_to);
    nx_array_copy(&piece_from, from, dims_from);
    piece_to.data = (char *)to->data + at * to->strides[d] * bytes;
    piece_from.data = (char *)from->data + begin * from->strides[d] * bytes;
    piece_to.sizes[d] = piece_from.sizes[d] = n;
    nx_array_refresh(&piece_to);
    nx_array_refresh(&piece_from);
    copy_rolled(&piece_to, &piece_from, shift, d + 1);
}

/* From dimension d on; each that is rolled is copied in two pieces. */
static void copy_rolled(nx_array *to, nx_array *from, const int64_t *shift, int d) {
    while (d < from->ndim && shift[d] == 0) d++;
    if (d == from->ndim) {
        nx_copy_cast(to, from);
        return;
    }
    copy_piece(to, from, shift, d, from->sizes[d] - shift[d], 0, shift[d]);
    copy_piece(to, from, shift, d, shift[d], from->sizes[d] - shift[d], 0);
}

static int64_t wrapped(int64_t shift, int64_t n) { return (shift % n + n) % n; }

/* All elements in a row: those of `self` one after the other, to their places in `out`. */
static void copy_rolled_flat(nx_array *out, const nx_array *self, int64_t shift) {
    int64_t index[NX_MAX_DIMS] = {0}, offset = 0, bytes = (int64_t)nx_dtype_bytes((nx_dtype)self->dtype);
    for (int64_t i = 0; i < self->numel; i++) {
        memcpy((char *)out->data + (i + shift) % self->numel * bytes, (const char *)self->data + offset * bytes, (size_t)bytes);
        for (int d = self->ndim - 1; d >= 0; d--) {
            offset += self->strides[d];
            if (++index[d] < self->sizes[d]) break;
            offset -= index[d] * self->strides[d];
            index[d] = 0;
        }
    }
}

nx_status nx__roll_copy(nx_run *run, const nx_array *self, const int64_t *shifts, int n_shifts, const int64_t *dims,
                        int n_dims, nx_array *out) {
    int64_t shift[NX_MAX_DIMS] = {0}, own[2 * NX_MAX_DIMS];
    if (self->numel == 0) return NX_OK;
    if (n_dims == 0) {
        copy_rolled_flat(out, self, wrapped(shifts[0], self->numel));
        return NX_OK;
    }
    for (int k = 0; k < n_dims && self->ndim > 0; k++) {
        int d;
        NX_TRY(nx_wrap_dim(nx_op_name(run->op), dims[k], self->ndim, &d));
        shift[d] = wrapped(shift[d] + wrapped(shifts[k], self->sizes[d]), self->sizes[d]);
    }
    nx_array from;
    nx_array_copy(&from, self, own);
    copy_rolled(out, &from, shift, 0);
    return NX_OK;
}
