/* Kernels of linalg.op. The products themselves are in src/kernel/gemm.c; here a destination that lies over
 * an operand is kept apart from it. */
#include "gen/kernels.h"
#include "kernel/kernel.h"

typedef nx_status gemm_fn(const nx_array *a, const nx_array *b, const nx_array *out);

static bool overlap(const nx_array *a, const nx_array *b) {
    const char *low[2], *high[2];
    nx_array_extent(a, &low[0], &high[0]);
    nx_array_extent(b, &low[1], &high[1]);
    return low[0] && low[1] && low[0] < high[1] && low[1] < high[0];
}

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
    return multiply(nx_gemm_blas, self, mat2, out);
}

nx_status nx__mm_plain(nx_run *run, const nx_array *self, const nx_array *mat2, nx_array *out) {
    return multiply(nx_gemm_plain, self, mat2, out);
}

nx_status nx__mm_ref(nx_run *run, const nx_array *self, const nx_array *mat2, nx_array *out) {
    return multiply(nx_gemm_ref, self, mat2, out);
}
