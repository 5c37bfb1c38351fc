/* The walk over batches of matrices. In: operands and a function of one matrix; out: the results' arrays are filled. Next:
 * matrices.h says what a function gets, lapack.c has them. */
#include "matrix/matrices.h"

#include <limits.h>

enum { ALIGNED = 64 };

static size_t matrix_bytes(const nx__operand *operand) {
    const nx_array *a = operand->array;
    size_t bytes = nx_dtype_bytes((nx_dtype)a->dtype);
    for (int k = a->ndim - operand->rank; k < a->ndim; k++) bytes *= (size_t)a->sizes[k];
    return (bytes + ALIGNED) / ALIGNED * ALIGNED;
}

/* Where the operand's matrix number `nth` begins: its batch broadcasts to that of `like`. */
static char *matrix_at(const nx__operand *operand, const nx__operand *like, int64_t nth) {
    const nx_array *a = operand->array, *b = like->array;
    int n = a->ndim - operand->rank, m = b->ndim - like->rank;
    int64_t offset = 0;
    for (int k = m - 1; k >= 0; nth /= b->sizes[k--]) {
        int own = k - (m - n);
        if (own >= 0 && a->sizes[own] != 1) offset += nth % b->sizes[k] * a->strides[own];
    }
    return (char *)a->data + offset * (int64_t)nx_dtype_bytes((nx_dtype)a->dtype);
}

static void move_matrix(const nx__operand *operand, char *strided, nx__matrix *m, bool store) {
    const nx_array *a = operand->array;
    nx_dtype dtype = (nx_dtype)a->dtype;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype), row = 0, column = 0;
    if (operand->rank == 2) column = a->strides[a->ndim - 1] * bytes;
    if (operand->rank > 0) row = a->strides[a->ndim - operand->rank] * bytes;
    const bool whole = (row == bytes || m->rows == 1) && (column == m->rows * bytes || m->columns == 1); /* column by column, as here */
    const int64_t n = whole ? (int64_t)m->rows * m->columns : m->rows, step = whole ? bytes : row;
    for (int64_t k = 0; k < (whole ? 1 : m->columns) && n > 0; k++) {
        char *packed = (char *)m->at + k * m->rows * bytes, *there = strided + k * column;
        if (store) nx_cast(dtype, there, step, dtype, packed, bytes, n);
        else nx_cast(dtype, packed, bytes, dtype, there, step, n);
    }
}

static nx_status run_some(void *arg, int64_t begin, int64_t end) {
    const nx__matrices *all = arg;
    const nx__operand *like = &all->operand[all->n_in];
    nx__matrix m[NX__OPERANDS];
    size_t bytes = (all->room + ALIGNED) / ALIGNED * ALIGNED;
    for (int k = 0; k < all->n; k++) bytes += matrix_bytes(&all->operand[k]);
    char *memory = nx_alloc(bytes), *at = memory;
    if (memory == NULL) return nx_fail_memory(bytes);
    for (int k = 0; k < all->n; at += matrix_bytes(&all->operand[k++])) {
        const nx_array *a = all->operand[k].array;
        int rank = all->operand[k].rank;
        m[k].at = at;
        m[k].rows = rank ? (int)a->sizes[a->ndim - rank] : 1;
        m[k].columns = rank == 2 ? (int)a->sizes[a->ndim - 1] : 1;
    }
    nx_dtype dtype = (nx_dtype)all->operand[0].array->dtype;
    nx__matrix_fn *function = all->of[2 * nx_is_complex(dtype) + (dtype == NX_F64 || dtype == NX_C128)];
    bool alone = like->array->ndim == like->rank;
    nx_status status = NX_OK;
    for (int64_t nth = begin; nth < end && status == NX_OK; nth++) {
        for (int k = 0; k < all->n_in; k++)
            move_matrix(&all->operand[k], matrix_at(&all->operand[k], like, nth), &m[k], false);
        status = function(all, m, at, alone ? -1 : nth);
        for (int k = all->n_in; k < all->n; k++)
            move_matrix(&all->operand[k], matrix_at(&all->operand[k], like, nth), &m[k], true);
    }
    nx_free(memory);
    return status;
}

nx_status nx__matrices_run(const nx__matrices *all) {
    const nx__operand *like = &all->operand[all->n_in];
    int64_t n = 1;
    for (int k = 0; k < like->array->ndim - like->rank; k++) n *= like->array->sizes[k];
    for (int k = 0; k < all->n; k++) {
        const nx_array *a = all->operand[k].array;
        for (int d = a->ndim - all->operand[k].rank; d < a->ndim; d++) {
            if (a->sizes[d] > INT_MAX) return nx_fail(NX_RUNTIME, "%s: a matrix has too many rows", all->op);
        }
    }
    if (n == 0) return NX_OK;
    if (nx_lapack_get() == NULL)
        return nx_fail(NX_RUNTIME, "%s: no LAPACK was found: install the package scipy-openblas32, or let NARTHEX_BLAS name a "
                       "library that has LAPACKE", all->op);
    if (n > 1) return nx_parallel(n, nx_grain(all->cost), run_some, (void *)all);
    void *token = nx_long_begin(all->cost);
    nx_status status = run_some((void *)all, 0, 1);
    if (token) nx_block_end(token);
    return status;
}
