/* Kernels of linalg.op. The products themselves are in src/kernel/gemm.c; here are batches of them, products that are
 * added to something, and products with vectors, which are matrices of one column. A destination that lies over an
 * operand is kept apart from it. */
#include "gen/kernels.h"
#include "kernel/complex.h"
#include "kernel/kernel.h"

typedef nx_status gemm_fn(const nx_array *a, const nx_array *b, const nx_array *out);

static bool overlap(const nx_array *a, const nx_array *b) {
    const char *low[2], *high[2];
    nx_array_extent(a, &low[0], &high[0]);
    nx_array_extent(b, &low[1], &high[1]);
    return low[0] && low[1] && low[0] < high[1] && low[1] < high[0];
}

/* ---- mm -------------------------------------------------------------------------------------------------------- */
static nx_status multiply(gemm_fn *gemm, const nx_array *a, const nx_array *b, const nx_array *out) {
    if (NX_LIKELY(!overlap(out, a) && !overlap(out, b))) return gemm(a, b, out);
    nx_tensor *apart;
    NX_TRY(nx_tensor_new((nx_dtype)out->dtype, out->ndim, out->sizes, NX_CPU, &apart));
    nx_status status = gemm(a, b, &apart->a);
    if (status == NX_OK) nx_copy_cast(out, &apart->a);
    nx_tensor_unref(apart);
    return status;
}

nx_status nx__mm_blas(nx_run *run, const nx_array *self, const nx_array *mat2, nx_array *out) {
    return nx_gemm_tiny(NULL, self, mat2, out) ? NX_OK : multiply(nx_gemm_blas, self, mat2, out);
}

nx_status nx__mm_plain(nx_run *run, const nx_array *self, const nx_array *mat2, nx_array *out) {
    return multiply(nx_gemm_plain, self, mat2, out);
}

nx_status nx__mm_ref(nx_run *run, const nx_array *self, const nx_array *mat2, nx_array *out) {
    return multiply(nx_gemm_ref, self, mat2, out);
}

/* ---- bmm: a product for each matrix of the batch, several at a time where there are threads ------------------------ */
typedef struct batch { gemm_fn *gemm; const nx_array *a, *b, *out; } batch;
typedef struct matrix { nx_array array; int64_t dims[4]; } matrix;

static void take_matrix(matrix *m, const nx_array *of, int64_t at) {
    m->array = *of;
    m->array.ndim = 2;
    m->array.sizes = m->dims;
    m->array.strides = m->dims + 2;
    for (int k = 0; k < 2; k++) {
        m->dims[k] = of->sizes[k + 1];
        m->dims[2 + k] = of->strides[k + 1];
    }
    m->array.data = (char *)of->data + at * of->strides[0] * (int64_t)nx_dtype_bytes((nx_dtype)of->dtype);
    nx_array_refresh(&m->array);
}

static nx_status run_batch(void *arg, int64_t begin, int64_t end) {
    const batch *all = arg;
    matrix a, b, out;
    for (int64_t at = begin; at < end; at++) {
        take_matrix(&a, all->a, at);
        take_matrix(&b, all->b, at);
        take_matrix(&out, all->out, at);
        NX_TRY(all->gemm(&a.array, &b.array, &out.array));
    }
    return NX_OK;
}

enum { WORTH_A_THREAD = 1 << 20 }; /* multiplications */

static nx_status multiply_batch(gemm_fn *gemm, const nx_array *a, const nx_array *b, const nx_array *out) {
    batch all = {gemm, a, b, out};
    int64_t n = out->sizes[0], work = a->sizes[1] * a->sizes[2] * b->sizes[2];
    if (out->numel == 0) return NX_OK;
    int64_t grain = work && work < WORTH_A_THREAD ? WORTH_A_THREAD / work : 1;
    /* Few large matrices: the product itself is split. */
    return n > 1 && n > grain ? nx_parallel(n, grain, run_batch, &all) : run_batch(&all, 0, n);
}

static nx_status bmm(gemm_fn *gemm, const nx_array *a, const nx_array *b, const nx_array *out) {
    if (NX_LIKELY(!overlap(out, a) && !overlap(out, b))) return multiply_batch(gemm, a, b, out);
    nx_tensor *apart;
    NX_TRY(nx_tensor_new((nx_dtype)out->dtype, out->ndim, out->sizes, NX_CPU, &apart));
    nx_status status = multiply_batch(gemm, a, b, &apart->a);
    if (status == NX_OK) nx_copy_cast(out, &apart->a);
    nx_tensor_unref(apart);
    return status;
}

nx_status nx__bmm_blas(nx_run *run, const nx_array *self, const nx_array *mat2, nx_array *out) {
    return bmm(nx_gemm_blas, self, mat2, out);
}

nx_status nx__bmm_plain(nx_run *run, const nx_array *self, const nx_array *mat2, nx_array *out) {
    return bmm(nx_gemm_plain, self, mat2, out);
}

nx_status nx__bmm_ref(nx_run *run, const nx_array *self, const nx_array *mat2, nx_array *out) {
    return bmm(nx_gemm_ref, self, mat2, out);
}

/* ---- addmm: out = beta*self + alpha * mat1 mat2; with beta 0 a NaN in self is not read ------------------------------ */
static nx_dtype wide_dtype(nx_dtype dtype) {
    if (dtype == NX_F64 || nx_is_complex(dtype)) return dtype;
    return nx_is_float(dtype) ? NX_F32 : NX_I64;
}

#define DEFINE_COMBINE(name, type, times)                                                                              \
    static void combine_##name(nx_tensor *product, const nx_tensor *self, const nx_const *beta, const nx_const *alpha) { \
        type *p = product->a.data, a = (type)nx_complex(alpha->parts[0], alpha->parts[1]);                             \
        const type *s = self ? self->a.data : NULL, b = (type)nx_complex(beta->parts[0], beta->parts[1]);              \
        for (int64_t i = 0; i < product->a.numel; i++) p[i] = s ? times(b, s[i]) + times(a, p[i]) : times(a, p[i]);    \
    }
DEFINE_COMBINE(complex64, float _Complex, nx_complex_mulf)
DEFINE_COMBINE(complex128, double _Complex, nx_complex_mul)

static void combine_complex(nx_tensor *product, const nx_tensor *self, nx_value beta, nx_value alpha) {
    nx_const a, b;
    nx_dtype dtype = (nx_dtype)product->a.dtype;
    nx_const_cast(&a, &alpha, dtype);
    nx_const_cast(&b, &beta, dtype);
    (dtype == NX_C64 ? combine_complex64 : combine_complex128)(product, self, &b, &a);
}

static void combine(nx_tensor *product, const nx_tensor *self, nx_value beta, nx_value alpha) {
    int64_t n = product->a.numel;
    if (product->a.dtype == NX_I64) {
        uint64_t *p = product->a.data, a = (uint64_t)nx_value_as_int(&alpha), b = (uint64_t)nx_value_as_int(&beta);
        const uint64_t *s = self ? self->a.data : NULL;
        for (int64_t i = 0; i < n; i++) p[i] = a * p[i] + (s ? b * s[i] : 0);
    } else if (nx_is_complex((nx_dtype)product->a.dtype)) {
        combine_complex(product, self, beta, alpha);
    } else if (product->a.dtype == NX_F64) {
        double *p = product->a.data, a = nx_value_as_float(&alpha), b = nx_value_as_float(&beta);
        const double *s = self ? self->a.data : NULL;
        for (int64_t i = 0; i < n; i++) p[i] = s ? b * s[i] + a * p[i] : a * p[i];
    } else {
        float *p = product->a.data, a = (float)nx_value_as_float(&alpha), b = (float)nx_value_as_float(&beta);
        const float *s = self ? self->a.data : NULL;
        for (int64_t i = 0; i < n; i++) p[i] = s ? b * s[i] + a * p[i] : a * p[i];
    }
}

/* Every number type: the product and what is added in the computing type, rounded once. */
static nx_status add_wide(gemm_fn *gemm, const nx_array *self, const nx_array *mat1, const nx_array *mat2,
                          nx_value beta, nx_value alpha, const nx_array *out) {
    nx_dtype wide = wide_dtype((nx_dtype)out->dtype);
    nx_tensor *product = NULL, *added = NULL;
    nx_status status = NX_OK;
    NX_TRY_FAIL(nx_tensor_new(wide, 2, out->sizes, NX_CPU, &product));
    NX_TRY_FAIL(gemm(mat1, mat2, &product->a));
    if (nx_value_as_float(&beta) != 0 || beta.tag == NX_TAG_COMPLEX) {
        NX_TRY_FAIL(nx_tensor_new(wide, 2, out->sizes, NX_CPU, &added));
        nx_copy_cast(&added->a, self);
    }
    combine(product, added, beta, alpha);
    nx_copy_cast(out, &product->a);
fail:
    nx_tensor_unref(product);
    nx_tensor_unref(added);
    return status;
}

nx_status nx__addmm_blas(nx_run *run, const nx_array *self, const nx_array *mat1, const nx_array *mat2,
                         nx_value beta, nx_value alpha, nx_array *out) {
    bool zero = nx_value_as_float(&beta) == 0, plain = nx_value_as_float(&alpha) == 1 && (zero || nx_value_as_float(&beta) == 1);
    if (plain && nx_gemm_tiny(zero ? NULL : self, mat1, mat2, out)) return NX_OK;
    bool in_place = self->data == out->data && self->numel == out->numel;
    bool apart = !overlap(out, mat1) && !overlap(out, mat2) && (in_place || !overlap(out, self));
    if (plain && apart && out->numel && mat1->sizes[1]) {
        bool done;
        NX_TRY(nx_gemm_halves(zero ? NULL : self, mat1, mat2, out, &done));
        if (done) return NX_OK;
    }
    if (!apart || mat1->sizes[1] == 0 || !nx_gemm_adds(out))
        return add_wide(nx_gemm_blas, self, mat1, mat2, beta, alpha, out);
    return nx_gemm_add(self, mat1, mat2, nx_value_as_float(&alpha), nx_value_as_float(&beta), out);
}

nx_status nx__addmm_plain(nx_run *run, const nx_array *self, const nx_array *mat1, const nx_array *mat2,
                          nx_value beta, nx_value alpha, nx_array *out) {
    return add_wide(nx_gemm_plain, self, mat1, mat2, beta, alpha, out);
}

nx_status nx__addmm_ref(nx_run *run, const nx_array *self, const nx_array *mat1, const nx_array *mat2,
                        nx_value beta, nx_value alpha, nx_array *out) {
    return add_wide(nx_gemm_ref, self, mat1, mat2, beta, alpha, out);
}

/* ---- mv, dot: a vector as a matrix of one column or one row --------------------------------------------------------- */
static void as_matrix(matrix *m, const nx_array *vector, bool is_row) {
    int64_t n = vector->ndim ? vector->sizes[0] : 1, step = vector->ndim ? vector->strides[0] : 1;
    m->array = *vector;
    m->array.ndim = 2;
    m->array.sizes = m->dims;
    m->array.strides = m->dims + 2;
    m->dims[0] = is_row ? 1 : n;
    m->dims[1] = is_row ? n : 1;
    m->dims[2] = is_row ? n : step;
    m->dims[3] = is_row ? step : 1;
    nx_array_refresh(&m->array);
}

static nx_status mv(gemm_fn *gemm, const nx_array *self, const nx_array *vec, const nx_array *out) {
    matrix column, result;
    as_matrix(&column, vec, false);
    as_matrix(&result, out, false);
    return multiply(gemm, self, &column.array, &result.array);
}

nx_status nx__mv_blas(nx_run *run, const nx_array *self, const nx_array *vec, nx_array *out) {
    return mv(nx_gemm_blas, self, vec, out);
}

nx_status nx__mv_plain(nx_run *run, const nx_array *self, const nx_array *vec, nx_array *out) {
    return mv(nx_gemm_plain, self, vec, out);
}

nx_status nx__mv_ref(nx_run *run, const nx_array *self, const nx_array *vec, nx_array *out) {
    return mv(nx_gemm_ref, self, vec, out);
}

static nx_status dot(gemm_fn *gemm, const nx_array *a, const nx_array *b, const nx_array *out) {
    matrix row, column, result;
    as_matrix(&row, a, true);
    as_matrix(&column, b, false);
    as_matrix(&result, out, true);
    return multiply(gemm, &row.array, &column.array, &result.array);
}

nx_status nx__dot_blas(nx_run *run, const nx_array *self, const nx_array *tensor, nx_array *out) {
    return dot(nx_gemm_blas, self, tensor, out);
}

nx_status nx__dot_plain(nx_run *run, const nx_array *self, const nx_array *tensor, nx_array *out) {
    return dot(nx_gemm_plain, self, tensor, out);
}

nx_status nx__dot_ref(nx_run *run, const nx_array *self, const nx_array *tensor, nx_array *out) {
    return dot(nx_gemm_ref, self, tensor, out);
}
