/* Kernels of factory.op beyond filling: counting, the diagonal, triangles of matrices. */
#include "gen/kernels.h"
#include "iter/iter.h"

/* ---- arange: computed in double, or in int64 where the result is an integer type ---------------------- */
static double as_double(nx_value v) { return v.tag == NX_TAG_FLOAT ? v.f : (double)v.i; }
static int64_t as_int(nx_value v) { return v.tag == NX_TAG_FLOAT ? (int64_t)v.f : v.i; }

nx_status nx__arange(nx_run *run, nx_array *out, nx_value start, nx_value step) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype);
    for (int64_t i = 0; i < out->numel; i++) {
        char *to = (char *)out->data + i * bytes;
        if (nx_is_float(dtype)) {
            double x = as_double(start) + (double)i * as_double(step);
            nx_cast(dtype, to, 0, NX_F64, (const char *)&x, 0, 1);
        } else {
            int64_t x = as_int(start) + i * as_int(step);
            nx_cast(dtype, to, 0, NX_I64, (const char *)&x, 0, 1);
        }
    }
    return NX_OK;
}

/* ---- linspace: from both ends, so that the last one is exact --------------------------------------------- */
static double as_float(const nx_value *v) { return v->tag == NX_TAG_FLOAT ? v->f : (double)v->i; }

nx_status nx__linspace(nx_run *run, nx_array *out, nx_value start, nx_value end) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    int64_t n = out->numel, bytes = (int64_t)nx_dtype_bytes(dtype);
    double a = as_float(&start), b = as_float(&end), step = n > 1 ? (b - a) / (double)(n - 1) : 0;
    for (int64_t i = 0; i < n; i++) {
        double x = i < (n + 1) / 2 ? a + step * (double)i : b - step * (double)(n - 1 - i);
        nx_cast(dtype, (char *)out->data + i * bytes, 0, NX_F64, (const char *)&x, 0, 1);
    }
    return NX_OK;
}

/* ---- eye ------------------------------------------------------------------------------------------------ */
nx_status nx__eye(nx_run *run, nx_array *out) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype), one = 1;
    int64_t n = out->sizes[0] < out->sizes[1] ? out->sizes[0] : out->sizes[1];
    if (out->numel) memset(out->data, 0, (size_t)(out->numel * bytes));
    nx_cast(dtype, out->data, (out->sizes[1] + 1) * bytes, NX_I64, (const char *)&one, 0, n);
    return NX_OK;
}

/* ---- tril, triu ------------------------------------------------------------------------------------------- */
/* Zeros columns begin .. end of a row. */
static void clear_row(char *row, int64_t begin, int64_t end, int64_t step, size_t bytes) {
    for (int64_t j = begin; j < end; j++) memset(row + j * step, 0, bytes);
}

static void clear_matrix(const nx_array *out, char *at, int64_t diagonal, bool lower) {
    int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)out->dtype), rows = out->sizes[out->ndim - 2],
            columns = out->sizes[out->ndim - 1];
    for (int64_t i = 0; i < rows; i++) {
        int64_t edge = lower ? i + diagonal + 1 : i + diagonal; /* the first column right of what is kept or cleared */
        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        clear_row(at + i * out->strides[out->ndim - 2] * bytes, lower ? edge : 0, lower ? columns : edge,
                  out->strides[out->ndim - 1] * bytes, (size_t)bytes);
    }
}

nx_status nx__triangle(nx_run *run, nx_array *out, const nx_array *self, int64_t diagonal, nx_value lower) {
    int64_t index[NX_MAX_DIMS] = {0}, bytes = (int64_t)nx_dtype_bytes((nx_dtype)out->dtype);
    if (out->data != self->data) nx_copy_cast(out, self);
    if (out->numel == 0) return NX_OK;
    for (int d = 0; d >= 0;) { /* each matrix of the outer dimensions */
        int64_t offset = 0;
        for (int k = 0; k < out->ndim - 2; k++) offset += index[k] * out->strides[k];
        clear_matrix(out, (char *)out->data + offset * bytes, diagonal, lower.i != 0);
        for (d = out->ndim - 3; d >= 0 && ++index[d] == out->sizes[d]; d--) index[d] = 0;
    }
    return NX_OK;
}
