/* Kernels of list.op: tensors one beside the other in one result. The place of each is an array over the
 * result's memory with other sizes; what is copied is cast on the way. */
#include "gen/kernels.h"
#include "iter/iter.h"

/* `part` becomes the places of `whole` from `start` on along `dim`. */
static void start_part(nx_array *part, int64_t *dims, const nx_array *whole, int64_t dim, int64_t start) {
    nx_array_copy(part, whole, dims);
    part->data = (char *)whole->data + start * whole->strides[dim] * (int64_t)nx_dtype_bytes(whole->dtype);
}

nx_status nx__cat_parts(nx_run *run, nx_array *out, nx_value tensors, int64_t dim) {
    int64_t dims[2 * NX_MAX_DIMS], start = 0;
    if (dim < 0) dim += out->ndim;
    for (int k = 0; k < tensors.n; k++) {
        const nx_array *from = tensors.list[k].array;
        nx_array part;
        if (from->numel == 0) continue;
        start_part(&part, dims, out, dim, start);
        part.sizes[dim] = from->sizes[dim];
        nx_array_refresh(&part);
        nx_copy_cast(&part, from);
        start += from->sizes[dim];
    }
    return NX_OK;
}

nx_status nx__stack_parts(nx_run *run, nx_array *out, nx_value tensors, int64_t dim) {
    int64_t dims[2 * NX_MAX_DIMS];
    if (dim < 0) dim += out->ndim;
    for (int k = 0; k < tensors.n && out->numel; k++) {
        nx_array part;
        start_part(&part, dims, out, dim, k);
        for (int d = (int)dim; d < part.ndim - 1; d++) {
            part.sizes[d] = part.sizes[d + 1];
            part.strides[d] = part.strides[d + 1];
        }
        part.ndim--;
        nx_array_refresh(&part);
        nx_copy_cast(&part, tensors.list[k].array);
    }
    return NX_OK;
}
