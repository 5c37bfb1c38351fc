/* The lists of size.h. In: what a call gives; out: lists that its shape rule uses, or a failure. */
#include "fourier/size.h"

#include "iter/iter.h"

nx_status nx__size_mode(const char *op, const nx_value *norm, bool forward, int64_t *out, int *n) {
    const char *name = norm->tag == NX_TAG_STR ? norm->str : "backward";
    *n = 1;
    if (strcmp(name, "backward") == 0) *out = forward ? 0 : 2;
    else if (strcmp(name, "forward") == 0) *out = forward ? 2 : 0;
    else if (strcmp(name, "ortho") == 0) *out = 1;
    else return nx_fail(NX_RUNTIME, "%s: Invalid normalization mode: \"%s\"", op, name);
    return NX_OK;
}

static bool is_given(const nx_value *list) { return list->tag == NX_TAG_INTS || list->tag == NX_TAG_INT; }
static int count(const nx_value *list) { return list->tag == NX_TAG_INTS ? list->n : list->tag == NX_TAG_INT; }
static int64_t number(const nx_value *list, int k) { return list->tag == NX_TAG_INTS ? list->ints[k] : list->i; }

nx_status nx__size_axes(const char *op, const nx_array *self, nx_value s, nx_value dim, int64_t *out, int *n) {
    bool seen[NX_MAX_DIMS] = {false};
    int n_s = count(&s), n_dim = count(&dim);
    bool has_s = is_given(&s), has_dim = is_given(&dim);
    if (self->ndim == 0 && n_dim > 0)
        return nx_fail(NX_INDEX, "%s: Dimension specified as %lld but tensor has no dimensions", op, (long long)number(&dim, 0));
    if (n_dim > 0 && n_s > 0 && n_s != n_dim)
        return nx_fail(NX_RUNTIME, "%s: When given, dim and shape arguments must have the same length", op);
    if (!has_dim && n_s > self->ndim)
        return nx_fail(NX_RUNTIME, "%s: Got shape with %d values but input tensor only has %d dimensions.", op, n_s, self->ndim);
    *n = has_dim ? n_dim : has_s ? n_s : self->ndim;
    for (int k = 0; k < *n; k++) {
        int axis = self->ndim - *n + k;
        if (n_dim > 0) NX_TRY(nx_wrap_dim(op, number(&dim, k), self->ndim, &axis));
        if (axis < 0 || axis >= self->ndim || seen[axis]) return nx_fail(NX_RUNTIME, "%s: FFT dims must be unique", op);
        seen[axis] = true;
        out[k] = axis;
    }
    return NX_OK;
}

nx_status nx__size_points(const char *op, const nx_array *self, nx_value s, const int64_t *axes, int n_axes, bool half, int64_t *out,
                          int *n) {
    *n = self->ndim;
    memcpy(out, self->sizes, sizeof *out * self->ndim);
    for (int k = 0; k < n_axes; k++) {
        int64_t *size = &out[axes[k]];
        if (count(&s) > 0 && number(&s, k) != -1) *size = number(&s, k);
        else if (half && k == n_axes - 1) *size = 2 * (*size - 1);
        if (*size < 1) return nx_fail(NX_RUNTIME, "%s: Invalid number of data points (%lld) specified", op, (long long)*size);
    }
    return NX_OK;
}

/* Dimensions `dim` behind the others, each part from the largest of `strides` to the smallest. */
static void order_by(const int64_t *strides, int ndim, const int64_t *dim, int n_dim, int64_t *out) {
    bool chosen[NX_MAX_DIMS] = {false};
    int n = 0;
    for (int k = 0; k < n_dim; k++) chosen[dim[k]] = true;
    for (int part = 0; part < 2; part++) {
        int first = n;
        for (int d = 0; d < ndim; d++) {
            if (chosen[d] != (part == 1)) continue;
            int at = n++;
            for (; at > first && strides[out[at - 1]] < strides[d]; at--) out[at] = out[at - 1];
            out[at] = d;
        }
    }
}

static void lie_in(const int64_t *order, const nx_array *self, int64_t *strides) {
    int64_t step = 1;
    for (int k = self->ndim - 1; k >= 0; step *= self->sizes[order[k--]]) strides[order[k]] = step;
}

nx_status nx__size_order(const char *op, const nx_array *self, const int64_t *dim, int n_dim, bool last, bool twice, int64_t *out,
                         int *n) {
    int64_t strides[NX_MAX_DIMS];
    for (int k = 0; k < n_dim; k++) {
        if (dim[k] < 0 || dim[k] >= self->ndim)
            return nx_fail(NX_INDEX, "%s: dimension %lld is not one of %d", op, (long long)dim[k], self->ndim);
    }
    if (last && n_dim == 0) return nx_fail(NX_RUNTIME, "%s: at least one dimension must be transformed", op);
    *n = self->ndim;
    memcpy(strides, self->strides, sizeof *strides * self->ndim);
    if (twice && n_dim > 1) {
        order_by(strides, self->ndim, dim, n_dim - 1, out);
        lie_in(out, self, strides);
        order_by(strides, self->ndim, &dim[n_dim - 1], 1, out);
        return NX_OK;
    }
    if (last) strides[dim[n_dim - 1]] = -1;
    order_by(strides, self->ndim, dim, n_dim, out);
    return NX_OK;
}
