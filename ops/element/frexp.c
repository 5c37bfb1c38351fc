/* Kernel of frexp, which has two results. The elements are brought row by row into double, are split on several threads,
 * and go to the results by casts, which keep them: a mantissa has the element's digits. */
#include <math.h>

#include "gen/kernels.h"
#include "shared/packed.h"

typedef struct split { double *x; int32_t *exponent; } split;

static nx_status split_elements(void *arg, int64_t begin, int64_t end) {
    const split *s = arg;
    for (int64_t i = begin; i < end; i++) {
        int exponent = 0;
        s->x[i] = frexp(s->x[i], &exponent);
        s->exponent[i] = isfinite(s->x[i]) ? exponent : 0;
    }
    return NX_OK;
}

nx_status nx__frexp_elements(nx_run *run, const nx_array *self, nx_array *mantissa, nx_array *exponent) {
    split s = {NULL, NULL};
    size_t bytes;
    if (self->numel == 0) return NX_OK;
    NX_TRY(nx__packed_new(self, NX_F64, &s.x));
    nx_status status = nx_bytes_of(self->numel, sizeof(int32_t), &bytes);
    if (status == NX_OK) s.exponent = nx_room_new(bytes);
    if (status == NX_OK && s.exponent == NULL) status = nx_fail_memory(bytes);
    if (status == NX_OK) status = nx_parallel(self->numel, 4096, split_elements, &s);
    if (status == NX_OK) {
        int64_t dims[2][2 * NX_MAX_DIMS];
        nx_array rows[2];
        nx__packed_over(&rows[0], dims[0], mantissa, NX_F64, s.x);
        nx__packed_over(&rows[1], dims[1], exponent, NX_I32, s.exponent);
        nx_copy_cast(mantissa, &rows[0]);
        nx_copy_cast(exponent, &rows[1]);
    }
    nx_room_free(s.x);
    nx_room_free(s.exponent);
    return status;
}
