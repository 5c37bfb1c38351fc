/* Kernels of lapack.op: each describes its operands and calls a function of one matrix (lapack_matrix.h) for each matrix of the
 * batch. In: arrays whose sizes the shape rules have checked; out: results filled, or a failure that names the first matrix
 * that has not what the operator needs. Next: matrices.h. */
#include "gen/kernels.h"
#include "kernel/complex.h"
#include "matrix/matrices.h"

#include <float.h>
#include <math.h>

/* What LAPACK's result means; {name}: {text}. */
enum { NOT_POSITIVE, ZERO_IN_U, ZERO_ON_DIAGONAL, SINGULAR, NO_EIGENVALUES, NO_SINGULAR_VALUES, ZERO_IN_D };

static nx_status fail_of(const char *name, const char *which, int info, int meaning) {
    switch (meaning) {
    case NOT_POSITIVE:
        return nx_fail(NX_LINALG, "%s: %sThe factorization could not be completed because the input is not positive-definite "
                       "(the leading minor of order %d is not positive-definite).", name, which, info);
    case ZERO_IN_U:
        return nx_fail(NX_RUNTIME, "%s: %sU[%d,%d] is zero and using it on lu_solve would result in a division by zero. If you "
                       "still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
                       "linalg.lu_factor_ex(A, pivot)", name, which, info, info);
    case ZERO_ON_DIAGONAL:
        return nx_fail(NX_LINALG, "%s: %sThe diagonal element %d is zero, the inversion could not be completed because the "
                       "input matrix is singular.", name, which, info);
    case SINGULAR:
        return nx_fail(NX_LINALG, "%s: %sThe solver failed because the input matrix is singular.", name, which);
    case NO_EIGENVALUES:
        return nx_fail(NX_LINALG, "%s: %sThe algorithm failed to converge because the input matrix is ill-conditioned or has "
                       "too many repeated eigenvalues (error code: %d).", name, which, info);
    case NO_SINGULAR_VALUES:
        if (info < 0)
            return nx_fail(NX_LINALG, "%s: %sThe algorithm failed to converge because the input matrix contained non-finite "
                           "values.", name, which);
        return nx_fail(NX_LINALG, "%s: %sThe algorithm failed to converge because the input matrix is ill-conditioned or has "
                       "too many repeated singular values (error code: %d).", name, which, info);
    default:
        return nx_fail(NX_RUNTIME, "%s: %sD[%d,%d] is zero: the matrix is singular", name, which, info, info);
    }
}

/* Puts `info` where the caller wants it, and fails where it asked for a check. */
static nx_status tell(const nx__matrices *all, int *to, int info, int64_t nth, int meaning) {
    char which[48] = "";
    if (to) *to = info;
    if (info == 0 || *all->check == '\0') return NX_OK;
    if (nth >= 0) snprintf(which, sizeof which, "(Batch element %lld): ", (long long)nth);
    return fail_of(all->check, which, info, meaning);
}

/* Eigenvalues w and, where v is not NULL, eigenvectors of the matrix a. LAPACK has those of real matrices in parts: a pair of
 * conjugate ones as the real and the imaginary part of the first. Room: a matrix and two vectors. */
#define GEEV_OF_REAL(letter, real)                                                                                           \
    static int geev_of_##letter(int n, real *a, real _Complex *w, real _Complex *v, real *room) {                              \
        real *re = room, *im = re + n, *parts = im + n;                                                                       \
        int info = nx_lapack_get()->letter.geev(NX_LAPACK_COLUMNS, 'N', v ? 'V' : 'N', n, a, n, re, im, NULL, n, parts, n);   \
        for (int j = 0; j < n; j++) w[j] = __builtin_complex(re[j], im[j]);                                                   \
        for (int j = 0; v && j < n; j++) {                                                                                    \
            real *at = parts + (size_t)j * (size_t)n, sign = im[j] < 0 ? -1 : 1;                                              \
            for (int i = 0; i < n; i++)                                                                                       \
                *v++ = im[j] == 0 ? __builtin_complex(at[i], (real)0)                                                         \
                                  : sign > 0 ? __builtin_complex(at[i], at[i + n]) : __builtin_complex(at[i - n], -at[i]);     \
        }                                                                                                                     \
        return info;                                                                                                          \
    }
#define GEEV_OF_COMPLEX(letter, number)                                                                                      \
    static int geev_of_##letter(int n, number *a, number *w, number *v, number *room) {                                        \
        return nx_lapack_get()->letter.geev(NX_LAPACK_COLUMNS, 'N', v ? 'V' : 'N', n, a, n, w, NULL, n, v ? v : room, n);      \
    }
GEEV_OF_REAL(s, float)
GEEV_OF_REAL(d, double)
GEEV_OF_COMPLEX(c, float _Complex)
GEEV_OF_COMPLEX(z, double _Complex)

#define CONJ(x) (x)
#define SIZE(x) fabs((double)(x))
#define SIGN(x) ((x) > 0 ? 1 : (x) < 0 ? -1 : (x))
#define SCALAR(x) (x)
#define LETTER s
#define number float
#define real float
#include "matrix/lapack_matrix.h"
#undef real
#define LETTER d
#define number double
#define real double
#include "matrix/lapack_matrix.h"
#undef CONJ
#undef SIZE
#undef SIGN
#undef SCALAR
#define CONJ(x) nx_complex_conj(x)
#define SIZE(x) cabs(x)
#define SIGN(x) nx_complex_sgn(x)
#define SCALAR(x) &(number){x}
#define LETTER z
#define number double _Complex
#include "matrix/lapack_matrix.h"
#undef real
#define LETTER c
#define number float _Complex
#define real float
#include "matrix/lapack_matrix.h"
#undef real

#define FUNCTIONS(name) .of = {name##_of_s, name##_of_d, name##_of_c, name##_of_z}

static int64_t rows_of(const nx_array *a) { return a->sizes[a->ndim - 2]; }
static int64_t columns_of(const nx_array *a) { return a->sizes[a->ndim - 1]; }
static int64_t cube(const nx_array *a) { return rows_of(a) * columns_of(a) * nx_least(rows_of(a), columns_of(a)); }
static size_t element(const nx_array *a) { return nx_dtype_bytes((nx_dtype)a->dtype); }
static const char *text_of(nx_value value) { return value.tag == NX_TAG_STR ? value.str : ""; }

/* ---- factorizations ---------------------------------------------------------------------------------------------------- */
nx_status nx__lapack_cholesky(nx_run *run, const nx_array *self, bool upper, bool check_errors, nx_array *l, nx_array *info) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(cholesky), .n_in = 1, .n = 3, .operand = {{self, 2}, {l, 2}, {info, 0}},
                                            .cost = cube(self) / 3, .op = "cholesky",
                                            .check = check_errors ? "linalg.cholesky" : "", .flag = {upper}});
}

nx_status nx__lapack_lu_factor(nx_run *run, const nx_array *a, bool check_errors, nx_array *lu, nx_array *pivots, nx_array *info) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(lu_factor), .n_in = 1, .n = 4,
                                            .operand = {{a, 2}, {lu, 2}, {pivots, 1}, {info, 0}}, .cost = cube(a),
                                            .op = "linalg.lu_factor", .check = check_errors ? "torch.linalg.lu_factor" : ""});
}

/* A matrix that lies row by row is factored as what it is column by column: the determinant is the same. */
nx_status nx__lapack_slogdet(nx_run *run, const nx_array *a, nx_array *sign, nx_array *logabsdet, nx_array *lu, nx_array *pivots) {
    int64_t strides[NX_MAX_DIMS];
    nx_array turned = *a;
    memcpy(strides, a->strides, sizeof *strides * a->ndim);
    if (a->contiguous) {
        strides[a->ndim - 2] = a->strides[a->ndim - 1];
        strides[a->ndim - 1] = a->strides[a->ndim - 2];
    }
    turned.strides = strides;
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(slogdet), .n_in = 1, .n = 5, .cost = cube(a), .op = "linalg.slogdet",
                                            .operand = {{&turned, 2}, {sign, 0}, {logabsdet, 0}, {lu, 2}, {pivots, 1}}, .check = ""});
}

nx_status nx__lapack_lu_unpack(nx_run *run, const nx_array *lu, const nx_array *pivots, bool unpack_data, bool unpack_pivots,
                               nx_array *p, nx_array *l, nx_array *u) {
    const nx__operand order = unpack_pivots ? (nx__operand){pivots, 1} : (nx__operand){lu, 2}; /* else they may be anything */
    nx__matrices all = {FUNCTIONS(lu_unpack), .n_in = 2, .n = 2, .operand = {{lu, 2}, order}, .cost = lu->numel,
                        .room = sizeof(int) * (size_t)rows_of(lu), .op = "lu_unpack", .check = "",
                        .flag = {unpack_data, unpack_pivots}};
    if (unpack_pivots) all.operand[all.n++] = (nx__operand){p, 2};
    if (unpack_data) all.operand[all.n++] = (nx__operand){l, 2};
    if (unpack_data) all.operand[all.n++] = (nx__operand){u, 2};
    return all.n > 2 ? nx__matrices_run(&all) : NX_OK;
}

nx_status nx__lapack_geqrf(nx_run *run, const nx_array *self, nx_array *a, nx_array *tau) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(geqrf), .n_in = 1, .n = 3, .operand = {{self, 2}, {a, 2}, {tau, 1}},
                                            .cost = 2 * cube(self), .op = "geqrf", .check = ""});
}

nx_status nx__lapack_qr(nx_run *run, const nx_array *a, nx_value mode, nx_array *q, nx_array *r) {
    bool wanted = strcmp(text_of(mode), "r") != 0;
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(qr), .n_in = 1, .n = wanted ? 3 : 2, .operand = {{a, 2}, {r, 2}, {q, 2}},
                                            .cost = 4 * cube(a), .op = "linalg.qr", .check = "", .flag = {wanted},
                                            .room = element(a) * (size_t)nx_least(rows_of(a), columns_of(a))});
}

nx_status nx__lapack_eigh(nx_run *run, const nx_array *a, nx_value uplo, bool compute_v, nx_array *l, nx_array *v) {
    bool upper = text_of(uplo)[0] == 'U' || text_of(uplo)[0] == 'u';
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(eigh), .n_in = 1, .n = compute_v ? 3 : 2,
                                            .operand = {{a, 2}, {l, 1}, {v, 2}}, .cost = 8 * cube(a), .op = "linalg.eigh",
                                            .check = "linalg.eigh", .flag = {compute_v}, .letter = upper ? 'U' : 'L'});
}

static nx_status eig(const nx_array *a, nx_array *l, nx_array *v) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(eig), .n_in = 1, .n = v ? 3 : 2, .operand = {{a, 2}, {l, 1}, {v, 2}},
                                            .cost = 20 * cube(a), .op = "linalg.eig", .check = "linalg.eig", .flag = {v != NULL},
                                            .room = element(a) * (size_t)rows_of(a) * (size_t)(rows_of(a) + 2)});
}

nx_status nx__lapack_eig(nx_run *run, const nx_array *a, nx_array *l, nx_array *v) { return eig(a, l, v); }
nx_status nx__lapack_eigvals(nx_run *run, const nx_array *a, nx_array *l) { return eig(a, l, NULL); }

nx_status nx__lapack_svd(nx_run *run, const nx_array *a, bool full_matrices, bool compute_uv, nx_array *u, nx_array *s,
                         nx_array *vh) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(svd), .n_in = 1, .n = compute_uv ? 4 : 2,
                                            .operand = {{a, 2}, {s, 1}, {u, 2}, {vh, 2}}, .cost = 16 * cube(a),
                                            .op = "linalg.svd", .check = "linalg.svd", .room = sizeof(double),
                                            .flag = {compute_uv, full_matrices}});
}

nx_status nx__lapack_ldl_factor(nx_run *run, const nx_array *self, bool hermitian, bool check_errors, nx_array *ld,
                                nx_array *pivots, nx_array *info) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(ldl_factor), .n_in = 1, .n = 4,
                                            .operand = {{self, 2}, {ld, 2}, {pivots, 1}, {info, 0}}, .cost = cube(self),
                                            .op = "linalg.ldl_factor", .flag = {hermitian},
                                            .check = check_errors ? "torch.linalg.ldl_factor" : ""});
}

/* ---- solutions ---------------------------------------------------------------------------------------------------------- */
nx_status nx__lapack_inverse(nx_run *run, const nx_array *a, bool check_errors, nx_array *inverse, nx_array *info) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(inverse), .n_in = 1, .n = 3, .operand = {{a, 2}, {inverse, 2}, {info, 0}},
                                            .cost = 2 * cube(a), .room = sizeof(int) * (size_t)rows_of(a), .op = "linalg.inv",
                                            .check = check_errors ? "linalg.inv" : ""});
}

nx_status nx__lapack_lu_solve(nx_run *run, const nx_array *lu, const nx_array *pivots, const nx_array *b, bool left, bool adjoint,
                              nx_array *x) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(lu_solve), .n_in = 3, .n = 4, .op = "linalg.lu_solve", .check = "",
                                            .operand = {{lu, 2}, {pivots, 1}, {b, 2}, {x, 2}}, .flag = {adjoint, left},
                                            .room = element(b) * (size_t)rows_of(b) * (size_t)columns_of(b),
                                            .cost = rows_of(lu) * rows_of(b) * columns_of(b)});
}

/* A vector, or each of a batch, as a matrix of one column; `room` has a place more than it has dimensions. */
static nx_array as_column(const nx_array *vector, int64_t *sizes, int64_t *strides) {
    nx_array matrix = *vector;
    memcpy(sizes, vector->sizes, sizeof *sizes * vector->ndim);
    memcpy(strides, vector->strides, sizeof *strides * vector->ndim);
    sizes[vector->ndim] = strides[vector->ndim] = 1;
    matrix.sizes = sizes;
    matrix.strides = strides;
    matrix.ndim++;
    return matrix;
}

nx_status nx__lapack_solve(nx_run *run, const nx_array *a, const nx_array *b, bool left, bool check_errors, nx_array *x,
                           nx_array *lu, nx_array *pivots, nx_array *info) {
    NX_TRY(nx__matrices_run(&(nx__matrices){FUNCTIONS(lu_factor), .n_in = 1, .n = 4, .flag = {true}, .cost = cube(a),
                                            .operand = {{a, 2}, {lu, 2}, {pivots, 1}, {info, 0}}, .op = "linalg.solve",
                                            .check = check_errors ? "torch.linalg.solve" : ""}));
    bool is_vector = b->ndim == 1 || (a->ndim == b->ndim + 1 && memcmp(a->sizes, b->sizes, sizeof *a->sizes * b->ndim) == 0);
    if (!is_vector) return nx__lapack_lu_solve(run, lu, pivots, b, left, false, x);
    int64_t room[4][NX_MAX_DIMS + 1];
    nx_array b_column = as_column(b, room[0], room[1]), x_column = as_column(x, room[2], room[3]);
    return nx__lapack_lu_solve(run, lu, pivots, &b_column, true, false, &x_column);
}

nx_status nx__lapack_solve_triangular(nx_run *run, const nx_array *self, const nx_array *b, bool upper, bool left,
                                      bool unitriangular, nx_array *x) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(solve_triangular), .n_in = 2, .n = 3, .op = "linalg.solve_triangular",
                                            .check = "", .operand = {{self, 2}, {b, 2}, {x, 2}},
                                            .flag = {upper, left, unitriangular}, .cost = rows_of(b) * rows_of(self) * columns_of(b)});
}

nx_status nx__lapack_cholesky_solve(nx_run *run, const nx_array *self, const nx_array *input2, bool upper, nx_array *out) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(cholesky_solve), .n_in = 2, .n = 3, .op = "cholesky_solve", .check = "",
                                            .operand = {{input2, 2}, {self, 2}, {out, 2}}, .flag = {upper},
                                            .cost = 2 * rows_of(self) * rows_of(self) * columns_of(self)});
}

nx_status nx__lapack_cholesky_inverse(nx_run *run, const nx_array *self, bool upper, nx_array *out) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(cholesky_inverse), .n_in = 1, .n = 2, .operand = {{self, 2}, {out, 2}},
                                            .cost = cube(self), .op = "cholesky_inverse", .check = "cholesky_inverse",
                                            .flag = {upper}});
}

nx_status nx__lapack_pinv(nx_run *run, const nx_array *self, const nx_array *atol, const nx_array *rtol, bool hermitian,
                          nx_array *out) {
    size_t rows = (size_t)rows_of(self), columns = (size_t)columns_of(self), least = rows < columns ? rows : columns;
    nx__matrices all = {FUNCTIONS(pinv), .n = 1, .op = "linalg.pinv", .check = hermitian ? "linalg.eigh" : "linalg.svd",
                        .operand = {{self, 2}}, .flag = {hermitian, atol != NULL, rtol != NULL}, .cost = 20 * cube(self),
                        .epsilon = self->dtype == NX_F64 || self->dtype == NX_C128 ? DBL_EPSILON : FLT_EPSILON,
                        .room = element(self) * least * (rows + 1 + columns)};
    if (atol) all.operand[all.n++] = (nx__operand){atol, 0};
    if (rtol) all.operand[all.n++] = (nx__operand){rtol, 0};
    all.n_in = all.n;
    all.operand[all.n++] = (nx__operand){out, 2};
    return nx__matrices_run(&all);
}

nx_status nx__lapack_ldl_solve(nx_run *run, const nx_array *ld, const nx_array *pivots, const nx_array *b, bool hermitian,
                               nx_array *x) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(ldl_solve), .n_in = 3, .n = 4, .op = "linalg.ldl_solve", .check = "",
                                            .flag = {hermitian},
                                            .operand = {{ld, 2}, {pivots, 1}, {b, 2}, {x, 2}},
                                            .cost = rows_of(b) * rows_of(b) * columns_of(b)});
}

nx_status nx__lapack_matrix_exp(nx_run *run, const nx_array *self, nx_array *out) {
    return nx__matrices_run(&(nx__matrices){FUNCTIONS(matrix_exp), .n_in = 1, .n = 2, .operand = {{self, 2}, {out, 2}},
                                            .op = "linalg.matrix_exp", .check = "", .cost = 20 * cube(self),
                                            .room = element(self) * (size_t)rows_of(self) * (size_t)rows_of(self)});
}
