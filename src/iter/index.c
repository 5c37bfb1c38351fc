/* The shape of x[indices]: the indices, broadcast together, stand where they were if they are neighbours, else in
 * front of the dimensions that have no index. Next: ops/index/index.c. */
#include "iter/iter.h"

static bool is_index(const nx_value *indices, int d) {
    return d < indices->n && indices->list[d].tag == NX_TAG_TENSOR;
}

/* "[2], [3, 1]", cut where there is no room. */
static const char *sizes_text(char *room, size_t bytes, const nx_value *indices) {
    size_t used = 0;
    room[0] = 0;
    for (int k = 0; k < indices->n; k++) {
        if (!is_index(indices, k)) continue;
        const nx_array *a = indices->list[k].array;
        if (used < bytes) used += (size_t)snprintf(room + used, bytes - used, "%s[", used ? ", " : "");
        for (int d = 0; d < a->ndim && used < bytes; d++)
            used += (size_t)snprintf(room + used, bytes - used, "%s%lld", d ? ", " : "", (long long)a->sizes[d]);
        if (used < bytes) used += (size_t)snprintf(room + used, bytes - used, "]");
    }
    return room;
}

static nx_status check_index(const nx_array *index) {
    if (index->dtype == NX_BOOL || index->dtype == NX_U8)
        return nx_fail(NX_DATA, "index: how much a mask picks only its elements say, and there are none");
    if (index->dtype == NX_I64 || index->dtype == NX_I32) return NX_OK;
    return nx_fail(NX_INDEX, "tensors used as indices must be long, int, byte or bool tensors");
}

/* One more index broadcasts with those before it. */
static bool join(nx_indexed *s, const nx_array *index) {
    int more = index->ndim - s->n_joint;
    for (int d = s->n_joint - 1; d >= 0 && more > 0; d--) s->joint[d + more] = s->joint[d];
    for (int d = 0; d < more; d++) s->joint[d] = 1;
    if (more > 0) s->n_joint = index->ndim;
    for (int d = 0; d < index->ndim; d++) {
        int64_t *at = &s->joint[s->n_joint - index->ndim + d], own = index->sizes[d];
        if (*at == 1) *at = own;
        else if (own != 1 && own != *at) return false;
    }
    return true;
}

nx_status nx_index_shape(const char *op, const nx_array *x, const nx_value *indices, nx_indexed *out) {
    char text[512];
    int first = -1, last = -1, n = 0;
    out->n_joint = out->n_rest = out->start = out->ndim = 0;
    for (int k = 0; k < indices->n; k++) {
        if (!is_index(indices, k)) continue;
        const nx_array *index = indices->list[k].array;
        NX_TRY(check_index(index));
        if (!join(out, index))
            return nx_fail(NX_INDEX, "shape mismatch: indexing tensors could not be broadcast together with shapes %s",
                           sizes_text(text, sizeof text, indices));
        if (n++ == 0) first = k;
        last = k;
    }
    if (n == 0) return nx_fail(NX_INDEX, "at least one index must be provided");
    if (indices->n > x->ndim)
        return nx_fail(NX_INDEX, "too many indices for tensor of dimension %d (got %d)", x->ndim, indices->n);
    for (int d = 0; d < x->ndim; d++) if (!is_index(indices, d)) out->rest[out->n_rest++] = d;
    if (out->n_rest + out->n_joint > NX_MAX_DIMS)
        return nx_fail(NX_RUNTIME, "%s: %d dimensions are too many, at most %d are possible", op,
                       out->n_rest + out->n_joint, NX_MAX_DIMS);
    if (last - first + 1 == n) out->start = first;
    for (int k = 0; k < out->start; k++) out->size[out->ndim++] = x->sizes[out->rest[k]];
    for (int k = 0; k < out->n_joint; k++) out->size[out->ndim++] = out->joint[k];
    for (int k = out->start; k < out->n_rest; k++) out->size[out->ndim++] = x->sizes[out->rest[k]];
    return NX_OK;
}

static bool has_mask(const nx_value *indices) {
    for (int k = 0; k < indices->n; k++)
        if (is_index(indices, k) && (indices->list[k].array->dtype == NX_BOOL || indices->list[k].array->dtype == NX_U8)) return true;
    return false;
}

nx_status nx_index_put_shape(const char *op, const nx_array *x, const nx_value *indices, const nx_array *values, nx_indexed *out) {
    if (!nx_is_meta(x->device) || !has_mask(indices)) return nx_index_shape(op, x, indices, out);
    memcpy(out->size, values->sizes, sizeof *out->size * (size_t)values->ndim);
    out->ndim = values->ndim;
    return NX_OK;
}
