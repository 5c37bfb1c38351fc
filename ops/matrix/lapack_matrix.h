/* Functions of one matrix of `number`, whose parts are `real`: lapack.c includes this file for the types that LAPACK has,
 * which go by their LETTER there, and says what CONJ, SIZE, SIGN and SCALAR are. Each function names its operands in order,
 * inputs first. What LAPACK says of a matrix becomes a failure where the caller wants a check. */
#define OF(name) OF_(name, LETTER)
#define OF_(name, letter) OF__(name, letter)
#define OF__(name, letter) name##_of_##letter
#define LAPACK(name) nx_lapack_get()->LETTER.name
#define BYTES(m) (sizeof(number) * (size_t)(m)->rows * (size_t)(m)->columns)

static void OF(set_identity)(nx__matrix *m) {
    memset(m->at, 0, BYTES(m));
    for (int k = 0; k < m->rows && k < m->columns; k++) ((number *)m->at)[k + (size_t)k * (size_t)m->rows] = 1;
}

/* Keeps the triangle on that side of the diagonal, sets the other to 0. */
static void OF(keep_triangle)(nx__matrix *m, bool upper) {
    number *a = m->at;
    for (int j = 0; j < m->columns; j++, a += m->rows) {
        for (int i = upper ? j + 1 : 0; i < (upper ? m->rows : nx_least(j, m->rows)); i++) a[i] = 0;
    }
}

/* Conjugated, too. */
static void OF(adjoint)(const nx__matrix *from, nx__matrix *to) {
    const number *a = from->at;
    for (int j = 0; j < from->columns; j++) {
        for (int i = 0; i < from->rows; i++) ((number *)to->at)[j + (size_t)i * (size_t)to->rows] = CONJ(*a), a++;
    }
}

/* What LAPACK did not find: the first minor of a factor that is no number. */
static int OF(first_nan)(const nx__matrix *l) {
    for (int k = 0; k < l->rows; k++) {
        if (isnan((double)((const number *)l->at)[k * ((size_t)l->rows + 1)])) return k + 1;
    }
    return 0;
}

/* L, or U with flag 0, whose product with its conjugate transpose is A; info. */
static nx_status OF(cholesky)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *l = &m[1];
    memcpy(l->at, m[0].at, BYTES(l));
    OF(keep_triangle)(l, all->flag[0]);
    int info = LAPACK(potrf)(NX_LAPACK_COLUMNS, all->flag[0] ? 'U' : 'L', l->rows, l->at, nx__leading(l));
    return tell(all, m[2].at, info != 0 ? info : OF(first_nan)(l), nth, NOT_POSITIVE);
}

/* LU, pivots, info of A; flag 0: for a solution. */
static nx_status OF(lu_factor)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *lu = &m[1];
    memcpy(lu->at, m[0].at, BYTES(lu));
    int info = LAPACK(getrf)(NX_LAPACK_COLUMNS, lu->rows, lu->columns, lu->at, nx__leading(lu), m[2].at);
    return tell(all, m[3].at, info, nth, all->flag[0] ? SINGULAR : ZERO_IN_U);
}

/* The sign of A's determinant, the logarithm of its absolute value, LU, pivots of A. */
static nx_status OF(slogdet)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *lu = &m[3];
    memcpy(lu->at, m[0].at, BYTES(lu));
    LAPACK(getrf)(NX_LAPACK_COLUMNS, lu->rows, lu->rows, lu->at, nx__leading(lu), m[4].at);
    number sign = 1;
    real sum = 0;
    for (int k = 0; k < lu->rows; k++) {
        number d = ((const number *)lu->at)[(size_t)k * (size_t)(lu->rows + 1)];
        if (((const int *)m[4].at)[k] != k + 1) sign = -sign;
        sign *= SIGN(d);
        sum += (real)log((double)SIZE(d));
    }
    *(number *)m[1].at = sign;
    *(real *)m[2].at = sum;
    return NX_OK;
}

/* The inverse of A, info; room for pivots. A singular matrix is divided by zero. */
static nx_status OF(inverse)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *a = &m[0], *x = &m[1];
    int n = a->rows, info = LAPACK(getrf)(NX_LAPACK_COLUMNS, n, n, a->at, nx__leading(a), room);
    NX_TRY(tell(all, m[2].at, info, nth, ZERO_ON_DIAGONAL));
    OF(set_identity)(x);
    LAPACK(getrs)(NX_LAPACK_COLUMNS, 'N', n, n, a->at, nx__leading(a), room, x->at, nx__leading(x));
    return NX_OK;
}

/* LU, pivots, B: X; flag 0: of the adjoint matrix, flag 1: A X = B, else X A = B, with room for the adjoint X. */
static nx_status OF(lu_solve)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *lu = &m[0], *x = &m[3];
    const int *pivots = m[1].at;
    for (int k = 0; k < m[1].rows; k++) {
        if (pivots[k] < 1 || pivots[k] > lu->rows)
            return nx_fail(NX_RUNTIME, "Pivots given to lu_solve must all be greater or equal to 1. "
                           "Did you properly pass the result of lu_factor?");
    }
    nx__matrix turned = {room, x->columns, x->rows}, *to = all->flag[1] ? x : &turned;
    if (all->flag[1]) memcpy(x->at, m[2].at, BYTES(x));
    else OF(adjoint)(&m[2], to);
    LAPACK(getrs)(NX_LAPACK_COLUMNS, all->flag[0] == all->flag[1] ? 'C' : 'N', lu->rows, to->columns, lu->at, nx__leading(lu),
                  m[1].at, to->at, nx__leading(to));
    if (!all->flag[1]) OF(adjoint)(to, x);
    return NX_OK;
}

/* Triangular A, B: X; flags: upper, left, unitriangular. */
static nx_status OF(solve_triangular)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *a = &m[0], *x = &m[2];
    memcpy(x->at, m[1].at, BYTES(x));
    if (BYTES(x) > 0)
        LAPACK(trsm)(NX_LAPACK_COLUMNS, all->flag[1] ? NX_BLAS_LEFT : NX_BLAS_RIGHT,
                     all->flag[0] ? NX_BLAS_UPPER : NX_BLAS_LOWER, NX_BLAS_NO_TRANS,
                     all->flag[2] ? NX_BLAS_UNIT : NX_BLAS_NON_UNIT, x->rows, x->columns, SCALAR(1), a->at, nx__leading(a), x->at,
                     nx__leading(x));
    return NX_OK;
}

/* A factor, flag 0: upper, and B: the X with A X = B. */
static nx_status OF(cholesky_solve)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *l = &m[0], *x = &m[2];
    memcpy(x->at, m[1].at, BYTES(x));
    for (int k = 0; k < 2 && BYTES(x) > 0; k++)
        LAPACK(trsm)(NX_LAPACK_COLUMNS, NX_BLAS_LEFT, all->flag[0] ? NX_BLAS_UPPER : NX_BLAS_LOWER,
                     (k == 0) == all->flag[0] ? NX_BLAS_CONJ_TRANS : NX_BLAS_NO_TRANS, NX_BLAS_NON_UNIT, x->rows,
                     x->columns, SCALAR(1), l->at, nx__leading(l), x->at, nx__leading(x));
    return NX_OK;
}

/* The inverse of the A of which L, or U with flag 0, is the factor. */
static nx_status OF(cholesky_inverse)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *l = &m[0], *x = &m[1], of_solve[] = {*l, *x, *x};
    for (int k = 0; k < l->rows; k++) {
        if (((const number *)l->at)[k * ((size_t)l->rows + 1)] == 0) return tell(all, NULL, k + 1, nth, ZERO_ON_DIAGONAL);
    }
    OF(set_identity)(x);
    return OF(cholesky_solve)(all, of_solve, room, nth);
}

/* a, tau of A. */
static nx_status OF(geqrf)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *a = &m[1];
    memcpy(a->at, m[0].at, BYTES(a));
    memset(m[2].at, 0, BYTES(&m[2]));
    LAPACK(geqrf)(NX_LAPACK_COLUMNS, a->rows, a->columns, a->at, nx__leading(a), m[2].at);
    return NX_OK;
}

/* R and, with flag 0, Q of A; room for the scales of the reflections and for Q's columns. */
static nx_status OF(qr)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *a = &m[0], *r = &m[1], *q = &m[2];
    int k = (int)nx_least(a->rows, a->columns);
    number *tau = room;
    LAPACK(geqrf)(NX_LAPACK_COLUMNS, a->rows, a->columns, a->at, nx__leading(a), tau);
    for (int j = 0; j < r->columns; j++) {
        for (int i = 0; i < r->rows; i++)
            ((number *)r->at)[i + (size_t)j * (size_t)r->rows] = i > j ? 0 : ((number *)a->at)[i + (size_t)j * (size_t)a->rows];
    }
    if (!all->flag[0]) return NX_OK;
    OF(set_identity)(q);
    memcpy(q->at, a->at, sizeof(number) * (size_t)a->rows * (size_t)k);
    if (q->columns > 0)
        LAPACK(ungqr)(NX_LAPACK_COLUMNS, q->rows, q->columns, k, q->at, nx__leading(q), tau);
    return NX_OK;
}

/* The eigenvalues of a Hermitian matrix and, with flag 0, its eigenvectors; letter: the triangle that is read. */
static nx_status OF(eigh)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *a = &m[0];
    int info = LAPACK(heevd)(NX_LAPACK_COLUMNS, all->flag[0] ? 'V' : 'N', all->letter, a->rows, a->at, nx__leading(a), m[1].at);
    if (all->flag[0]) memcpy(m[2].at, a->at, BYTES(a));
    return tell(all, NULL, info, nth, NO_EIGENVALUES);
}

/* Whether all elements are finite: some functions do not end otherwise. */
static bool OF(has_numbers)(const nx__matrix *m) {
    const number *x = m->at;
    for (size_t k = 0; k < (size_t)m->rows * (size_t)m->columns; k++) {
        if (!isfinite(__real__ x[k]) || !isfinite(__imag__ x[k])) return false;
    }
    return true;
}

/* The eigenvalues of any matrix and, with flag 0, its eigenvectors, as complex numbers; room for the matrix and two vectors. */
static nx_status OF(eig)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    if (!OF(has_numbers)(&m[0])) return nx_fail(NX_RUNTIME, "torch.linalg.eig: input tensor should not contain infs or NaNs.");
    int info = m[0].rows ? OF(geev)(m[0].rows, m[0].at, m[1].at, all->flag[0] ? m[2].at : NULL, room) : 0;
    return tell(all, NULL, info, nth, NO_EIGENVALUES);
}

/* Singular values and, with flag 0, U and Vh, whole with flag 1. */
static nx_status OF(svd)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *a = &m[0], *u = &m[2], *vh = &m[3], none = {.at = room};
    if (!all->flag[0]) u = vh = &none;
    if (a->rows == 0 || a->columns == 0) {
        if (all->flag[0]) OF(set_identity)(u);
        if (all->flag[0]) OF(set_identity)(vh);
        return NX_OK;
    }
    if (!OF(has_numbers)(a)) return tell(all, NULL, -4, nth, NO_SINGULAR_VALUES);
    int info = LAPACK(gesdd)(NX_LAPACK_COLUMNS, !all->flag[0] ? 'N' : all->flag[1] ? 'A' : 'S', a->rows, a->columns, a->at,
                             nx__leading(a), m[1].at, u->at, nx__leading(u), vh->at, nx__leading(vh));
    return tell(all, NULL, info, nth, NO_SINGULAR_VALUES);
}

/* The pseudo-inverse of A. Flags: A is Hermitian; atol, rtol are given, behind A. Room for U, Vh, S. */
static nx_status OF(pinv)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *a = &m[0], *x = &m[all->n_in];
    int rows = a->rows, columns = a->columns, k = (int)nx_least(rows, columns), info;
    number *u = room, *vh = u + (size_t)rows * (size_t)k;
    real *s = (real *)(vh + (size_t)k * (size_t)columns), top = 0, least = 0, given = 1, atol = 0;
    if (BYTES(a) == 0) return NX_OK;
    if (all->flag[0]) {
        info = LAPACK(heevd)(NX_LAPACK_COLUMNS, 'V', 'L', k, a->at, k, s);
        memcpy(u, a->at, BYTES(a));
        OF(adjoint)(&(nx__matrix){u, k, k}, &(nx__matrix){vh, k, k});
    } else {
        info = OF(has_numbers)(a) ? LAPACK(gesdd)(NX_LAPACK_COLUMNS, 'S', rows, columns, a->at, rows, s, u, rows, vh, k) : -4;
    }
    NX_TRY(tell(all, NULL, info, nth, all->flag[0] ? NO_EIGENVALUES : NO_SINGULAR_VALUES));
    if (all->flag[1]) atol = *(real *)m[1].at;
    if (all->flag[2]) given = *(real *)m[1 + all->flag[1]].at;
    else given = all->flag[1] ? 0 : (real)all->epsilon * (real)(rows > columns ? rows : columns);
    for (int j = 0; j < k; j++) top = (real)fabs((double)s[j]) > top ? (real)fabs((double)s[j]) : top;
    least = given * top > atol ? given * top : atol;
    for (int j = 0; j < k; j++) {
        for (int i = 0; i < rows; i++)
            u[i + (size_t)j * (size_t)rows] = (real)fabs((double)s[j]) > least ? u[i + (size_t)j * (size_t)rows] / s[j] : 0;
    }
    LAPACK(gemm)(NX_LAPACK_COLUMNS, NX_BLAS_CONJ_TRANS, NX_BLAS_CONJ_TRANS, columns, rows, k, SCALAR(1), vh, k, u, rows,
                 SCALAR(0), x->at, columns);
    return NX_OK;
}

/* LD, pivots, info of a symmetric A, or a Hermitian one with flag 0. */
static nx_status OF(ldl_factor)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *ld = &m[1];
    memcpy(ld->at, m[0].at, BYTES(ld));
    OF(keep_triangle)(ld, false);
    int info = (all->flag[0] ? LAPACK(hetrf) : LAPACK(sytrf))(NX_LAPACK_COLUMNS, 'L', ld->rows, ld->at, nx__leading(ld), m[2].at);
    return tell(all, m[3].at, info, nth, ZERO_IN_D);
}

/* LD, pivots, B: X; flag 0: of a Hermitian matrix. */
static nx_status OF(ldl_solve)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *ld = &m[0], *x = &m[3];
    const int *pivots = m[1].at;
    for (int k = 0; k < ld->rows; k++) { /* two negative ones in a row are those of a block */
        int at = pivots[k] < 0 ? -(pivots[k] + 1) : pivots[k] - 1;
        bool fits = at >= 0 && at < ld->rows;
        if (pivots[k] < 0 && (++k == ld->rows || pivots[k] >= 0 || pivots[k] < -ld->rows)) fits = false;
        if (!fits)
            return nx_fail(NX_RUNTIME, "Pivots given to ldl_solve must be places of rows. Did you properly pass the result of "
                           "ldl_factor?");
    }
    memcpy(x->at, m[2].at, BYTES(x));
    (all->flag[0] ? LAPACK(hetrs) : LAPACK(sytrs))(NX_LAPACK_COLUMNS, 'L', ld->rows, x->columns, ld->at, nx__leading(ld),
                                                   m[1].at, x->at, nx__leading(x));
    return NX_OK;
}

/* exp of A: A/2^s is small, its series is summed by Horner's rule, the sum is squared s times. Room for two matrices. */
static nx_status OF(matrix_exp)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    int n = m[0].rows, squarings = 0, degree = sizeof(real) == 8 ? 22 : 14;
    size_t count = (size_t)n * (size_t)n;
    number *a = m[0].at, *sum = m[1].at, *next = room;
    double norm = 0;
    for (int j = 0; j < n; j++) {
        double of_column = 0;
        for (int i = 0; i < n; i++) of_column += (double)SIZE(a[(size_t)j * (size_t)n + (size_t)i]);
        norm = of_column > norm || of_column != of_column ? of_column : norm;
    }
    if (n == 0) return NX_OK;
    while (isfinite(norm) && ldexp(norm, -squarings) > 2) squarings++;
    for (size_t k = 0; k < count; k++) a[k] *= (real)ldexp(1, -squarings);
    OF(set_identity)(&m[1]);
    for (int k = degree; k > 0; k--) { /* sum = 1 + a sum / k */
        LAPACK(gemm)(NX_LAPACK_COLUMNS, NX_BLAS_NO_TRANS, NX_BLAS_NO_TRANS, n, n, n, SCALAR((real)1 / (real)k), a, n, sum,
                     n, SCALAR(0), next, n);
        memcpy(sum, next, sizeof(number) * count);
        for (int i = 0; i < n; i++) sum[(size_t)i * (size_t)(n + 1)] += 1;
    }
    for (; squarings > 0; squarings--) {
        LAPACK(gemm)(NX_LAPACK_COLUMNS, NX_BLAS_NO_TRANS, NX_BLAS_NO_TRANS, n, n, n, SCALAR(1), sum, n, sum, n, SCALAR(0),
                     next, n);
        memcpy(sum, next, sizeof(number) * count);
    }
    return NX_OK;
}

/* LU, pivots: with flag 1 the permutation P that pivots stand for, with flag 0 L and U. */
static nx_status OF(lu_unpack)(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth) {
    nx__matrix *p = &m[2], *l = all->flag[1] ? p + 1 : p, *u = l + 1;
    int *order = room, n = m[0].rows;
    const int *pivots = m[1].at;
    for (int k = 0; k < n; k++) order[k] = k;
    for (int k = 0; all->flag[1] && k < m[1].rows; k++) {
        if (pivots[k] < 1 || pivots[k] > n)
            return nx_fail(NX_RUNTIME, "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                           "Did you properly pass the result of lu_factor?");
        int other = order[pivots[k] - 1];
        order[pivots[k] - 1] = order[k];
        order[k] = other;
    }
    if (all->flag[1]) {
        memset(p->at, 0, BYTES(p));
        for (int k = 0; k < n; k++) ((number *)p->at)[order[k] + (size_t)k * (size_t)n] = 1;
    }
    if (!all->flag[0]) return NX_OK;
    const number *lu = m[0].at;
    for (int j = 0; j < l->columns; j++) {
        for (int i = 0; i < n; i++)
            ((number *)l->at)[i + (size_t)j * (size_t)n] = i > j ? lu[i + (size_t)j * (size_t)n] : i == j;
    }
    for (int j = 0; j < u->columns; j++) {
        for (int i = 0; i < u->rows; i++)
            ((number *)u->at)[i + (size_t)j * (size_t)u->rows] = i > j ? 0 : lu[i + (size_t)j * (size_t)n];
    }
    return NX_OK;
}

#undef OF
#undef OF_
#undef OF__
#undef LAPACK
#undef BYTES
#undef LETTER
#undef number
