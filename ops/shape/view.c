/* Kernels of view.op: copies in which a part that a view would show is written. The part is an array over the
 * same memory with other sizes and strides; nothing here allocates. */
#include "gen/kernels.h"
#include "iter/iter.h"
#include "shape/copy.h"

typedef struct part { nx_array array; int64_t dims[2 * NX_MAX_DIMS]; } part;

static void start_part(part *p, const nx_array *whole) { nx_array_copy(&p->array, whole, p->dims); }

static void move_start(nx_array *array, int64_t elements) {
    array->data = (char *)array->data + elements * (int64_t)nx_dtype_bytes((nx_dtype)array->dtype);
}

static void take_select(part *p, const nx_array *whole, int64_t dim, int64_t index) {
    start_part(p, whole);
    nx_array *a = &p->array;
    if (index < 0) index += whole->sizes[dim];
    move_start(a, index * whole->strides[dim]);
    a->ndim--;
    for (int k = (int)dim; k < a->ndim; k++) {
        a->sizes[k] = whole->sizes[k + 1];
        a->strides[k] = whole->strides[k + 1];
    }
    nx_array_refresh(a);
}

static void take_slice(part *p, const nx_array *whole, int64_t dim, int64_t start, int64_t end, int64_t step) {
    int64_t n = whole->sizes[dim];
    start_part(p, whole);
    start = nx__within(start < 0 ? start + n : start, 0, n);
    end = nx__within(end < 0 ? end + n : end, start, n);
    move_start(&p->array, start * whole->strides[dim]);
    p->array.sizes[dim] = (end - start) / step + ((end - start) % step > 0);
    p->array.strides[dim] = p->array.sizes[dim] > 1 ? whole->strides[dim] * step : 0; /* a step may be any number */
    nx_array_refresh(&p->array);
}

static void take_diagonal(part *p, const nx_array *whole, int64_t offset, int64_t dim1, int64_t dim2) {
    int64_t rows = whole->sizes[dim1] + (offset < 0 ? offset : 0), columns = whole->sizes[dim2] - (offset > 0 ? offset : 0);
    int64_t n = rows < columns ? rows : columns;
    start_part(p, whole);
    nx_array *a = &p->array;
    if (n > 0) move_start(a, offset >= 0 ? offset * whole->strides[dim2] : -offset * whole->strides[dim1]);
    a->ndim = 0;
    for (int k = 0; k < whole->ndim; k++) {
        if (k == dim1 || k == dim2) continue;
        a->sizes[a->ndim] = whole->sizes[k];
        a->strides[a->ndim++] = whole->strides[k];
    }
    a->sizes[a->ndim] = n > 0 ? n : 0;
    a->strides[a->ndim++] = whole->strides[dim1] + whole->strides[dim2];
    nx_array_refresh(a);
}

static void write_zeros(const nx_array *to) { /* row-major: the rule says so */
    if (to->numel) memset(to->data, 0, (size_t)to->numel * nx_dtype_bytes((nx_dtype)to->dtype));
}

nx_status nx__select_into_zeros(nx_run *run, nx_array *out, const nx_array *grad_output, int64_t dim,
                                int64_t index) {
    part p;
    write_zeros(out);
    if (out->numel == 0) return NX_OK;
    take_select(&p, out, dim, index);
    nx_copy_cast(&p.array, grad_output);
    return NX_OK;
}

nx_status nx__slice_into_zeros(nx_run *run, nx_array *out, const nx_array *grad_output, int64_t dim,
                               int64_t start, int64_t end, int64_t step) {
    part p;
    write_zeros(out);
    take_slice(&p, out, dim, start, end, step);
    nx_copy_cast(&p.array, grad_output);
    return NX_OK;
}

nx_status nx__select_into(nx_run *run, nx_array *out, const nx_array *self, const nx_array *src, int64_t dim,
                          int64_t index) {
    part p;
    nx_copy_cast(out, self);
    take_select(&p, out, dim, index);
    nx_copy_cast(&p.array, src);
    return NX_OK;
}

static int64_t otherwise(nx_value value, int64_t initial) {
    return value.tag == NX_TAG_NONE ? initial : value.i;
}

nx_status nx__slice_into(nx_run *run, nx_array *out, const nx_array *self, const nx_array *src, int64_t dim,
                         nx_value start, nx_value end, int64_t step) {
    part p;
    nx_copy_cast(out, self);
    take_slice(&p, out, dim, otherwise(start, 0), otherwise(end, self->sizes[dim]), step);
    nx_copy_cast(&p.array, src);
    return NX_OK;
}

nx_status nx__diagonal_into_zeros(nx_run *run, nx_array *out, const nx_array *grad_output, int64_t offset,
                                  int64_t dim1, int64_t dim2) {
    part p;
    write_zeros(out);
    take_diagonal(&p, out, offset, dim1, dim2);
    nx_copy_cast(&p.array, grad_output);
    return NX_OK;
}

nx_status nx__diagonal_into(nx_run *run, nx_array *out, const nx_array *self, const nx_array *src, int64_t offset,
                            int64_t dim1, int64_t dim2) {
    part p;
    nx_copy_cast(out, self);
    take_diagonal(&p, out, offset, dim1, dim2);
    nx_copy_cast(&p.array, src);
    return NX_OK;
}

/* ---- constant_pad_nd ------------------------------------------------------------------------------------ */
nx_status nx__surround(nx_run *run, const nx_array *self, const int64_t *pad, int n_pad, nx_value value, nx_array *out) {
    part from, to;
    NX_TRY(nx__fill(run, out, value));
    start_part(&from, self);
    start_part(&to, out);
    for (int k = 0; k < n_pad / 2; k++) {
        int d = self->ndim - 1 - k;
        int64_t before = pad[2 * k], behind = pad[2 * k + 1], n = self->sizes[d] + nx_least(before, 0) + nx_least(behind, 0);
        if (n <= 0) return NX_OK; /* all is cut off */
        move_start(before < 0 ? &from.array : &to.array, before < 0 ? -before * self->strides[d] : before * out->strides[d]);
        from.array.sizes[d] = to.array.sizes[d] = n;
    }
    nx_array_refresh(&from.array);
    nx_array_refresh(&to.array);
    if (self->numel) nx_copy_cast(&to.array, &from.array);
    return NX_OK;
}
