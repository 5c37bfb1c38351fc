/* Sizes: of reductions, of views, of expansions. Pure functions that shape rules call; the texts are
 * PyTorch's. */
#include "iter/iter.h"

nx_status nx_wrap_dim(const char *op, int64_t dim, int ndim, int *out) {
    int n = ndim > 0 ? ndim : 1; /* a 0-dim tensor has dimension 0 and -1 */
    if (dim < -n || dim >= n) {
        return nx_fail(NX_INDEX,
                       "%s: Dimension out of range (expected to be in range of [%d, %d], but got %lld)", op,
                       -n, n - 1, (long long)dim);
    }
    *out = (int)(dim < 0 ? dim + n : dim);
    return NX_OK;
}

static nx_status mark_dims(const char *op, const int64_t *dims, int n, int ndim, bool *mask) {
    for (int i = 0; i < n; i++) {
        int dim = 0;
        NX_TRY(nx_wrap_dim(op, dims[i], ndim, &dim));
        if (mask[dim])
            return nx_fail(NX_RUNTIME, "%s: dim %d appears multiple times in the list of dims", op, dim);
        mask[dim] = true;
    }
    return NX_OK;
}

nx_status nx_meta_reduce(const char *op, const nx_array *self, const nx_value *dims, bool keepdim,
                         nx_meta *meta, bool *mask) {
    int64_t one = 0;
    const int64_t *list = NULL;
    int n = 0;
    if (dims && dims->tag == NX_TAG_INTS) {
        list = dims->ints;
        n = dims->n;
    } else if (dims && dims->tag == NX_TAG_INT) {
        one = dims->i;
        list = &one;
        n = 1;
    }
    for (int d = 0; d < (self->ndim > 0 ? self->ndim : 1); d++) mask[d] = n == 0;
    NX_TRY(mark_dims(op, list, n, self->ndim, mask));
    meta->absent = false;
    meta->view_of = -1;
    meta->offset = 0;
    meta->device = self->device;
    meta->ndim = 0;
    for (int d = 0; d < self->ndim; d++) {
        if (!mask[d]) meta->size[meta->ndim++] = self->sizes[d];
        else if (keepdim) meta->size[meta->ndim++] = 1;
    }
    nx_meta_contiguous(meta);
    return NX_OK;
}

static nx_status fail_infer(const char *op, const int64_t *size, int n, int64_t numel, const char *what) {
    nx_text text = {0};
    nx_text_add_ints(&text, size, n);
    const char *shape = text.failed || text.at == NULL ? "[]" : text.at;
    nx_status status =
        what ? nx_fail(NX_RUNTIME,
                       "%s: cannot reshape tensor of 0 elements into shape %s because the unspecified "
                       "dimension size -1 can be any value and is ambiguous",
                       op, shape)
             : nx_fail(NX_RUNTIME, "%s: shape '%s' is invalid for input of size %lld", op, shape,
                       (long long)numel);
    nx_text_free(&text);
    return status;
}

/* `size` with its -1, if there is one, replaced by what is left of numel. */
nx_status nx_infer_size(const char *op, const int64_t *size, int n, int64_t numel, int64_t *out) {
    int64_t product = 1;
    int inferred = -1;
    if (n > NX_MAX_DIMS)
        return nx_fail(NX_RUNTIME, "%s: %d dimensions, at most %d are possible", op, n, NX_MAX_DIMS);
    for (int d = 0; d < n; d++) {
        out[d] = size[d];
        if (size[d] == -1 && inferred >= 0)
            return nx_fail(NX_RUNTIME, "%s: only one dimension can be inferred", op);
        if (size[d] < -1)
            return nx_fail(NX_RUNTIME, "%s: invalid shape dimension %lld", op, (long long)size[d]);
        if (size[d] == -1) inferred = d;
        else if (__builtin_mul_overflow(product, size[d], &product))
            return fail_infer(op, size, n, numel, NULL);
    }
    if (inferred >= 0 && product == 0 && numel == 0) return fail_infer(op, size, n, numel, "ambiguous");
    if (inferred < 0 ? product != numel : product == 0 || numel % product != 0)
        return fail_infer(op, size, n, numel, NULL);
    if (inferred >= 0) out[inferred] = numel / product;
    return NX_OK;
}

static bool same_sizes(const nx_array *self, const int64_t *size, int n) {
    if (self->ndim != n) return false;
    for (int d = 0; d < n; d++) {
        if (self->sizes[d] != size[d]) return false;
    }
    return true;
}

/* Old dimensions are taken from the right into a run as long as each follows the one inside it without a gap;
 * new dimensions must cut every run exactly. */
bool nx_regroup(const nx_array *self, const int64_t *size, int n, int64_t *stride) {
    if (same_sizes(self, size, n)) {
        for (int d = 0; d < n; d++) stride[d] = self->strides[d];
        return true;
    }
    if (self->contiguous) {
        nx_row_major(n, size, stride);
        return true;
    }
    int to = n - 1;
    int64_t run = 1, covered = 1, innermost = self->ndim ? self->strides[self->ndim - 1] : 1;
    for (int d = self->ndim - 1; d >= 0; d--) {
        run = nx_times(run, self->sizes[d]);
        bool ends = d == 0 || (self->sizes[d - 1] != 1 && self->strides[d - 1] != nx_times(run, innermost));
        if (!ends) continue;
        while (to >= 0 && (covered < run || size[to] == 1)) {
            stride[to] = nx_times(covered, innermost);
            covered = nx_times(covered, size[to--]);
        }
        if (covered != run) return false;
        if (d > 0) innermost = self->strides[d - 1];
        run = covered = 1;
    }
    return to == -1;
}

bool nx_expandable(const int64_t *from, int n_from, const int64_t *to, int n_to) {
    if (n_from > n_to) return false;
    for (int d = 0; d < n_from; d++) {
        int64_t target = to[n_to - n_from + d];
        if (from[d] != target && from[d] != 1) return false;
    }
    return true;
}
