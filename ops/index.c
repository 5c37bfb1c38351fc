/* Kernels of index.op. Indices of any integer type and layout are first laid out as int64, side by side. */
#include "gen/kernels.h"
#include "iter/iter.h"

/* `from` row by row in `dtype`, in new memory: nx_free. NULL when there is none. */
static void *new_packed(const nx_array *from, nx_dtype dtype) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array packed;
    void *data = nx_alloc((size_t)from->numel * nx_dtype_bytes(dtype) + 1);
    if (data == NULL) return NULL;
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
    return data;
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
    int64_t n = indices->numel, *at = new_packed(indices, NX_I64);
    if (at == NULL) return nx_fail_memory((size_t)n * sizeof *at);
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
    int64_t *at = new_packed(indices, NX_I64);
    char *packed = grad_output->contiguous ? NULL : new_packed(grad_output, dtype);
    const char *rows = packed ? packed : grad_output->data;
    nx_status status = NX_OK;
    if (at == NULL || (packed == NULL && !grad_output->contiguous))
        status = nx_fail_memory((size_t)grad_output->numel * nx_dtype_bytes(dtype));
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
