/* The size and strides of what a point operator returns. Operands align at the right; a dimension of size 1
 * stretches. Strides follow the operands as PyTorch's do: one layout that all share is kept; otherwise
 * dimensions are ordered by the operands' strides, first operand first, and laid out without gaps in that
 * order. Next: shape.c, walk.c. */
#include "iter/iter.h"

typedef struct operands { int n; const nx_array *at[NX_MAX_OPERANDS]; } operands;

static nx_status fail_size(const char *op, int64_t a, int64_t b, int d) {
    return nx_fail(NX_RUNTIME,
                   "%s: The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton "
                   "dimension %d",
                   op, (long long)a, (long long)b, d);
}

static nx_status join_size(const char *op, const nx_array *a, nx_meta *meta) {
    int shift = meta->ndim - a->ndim;
    if (shift < 0) { /* `a` has more dimensions: move what is there to the right */
        for (int d = a->ndim - 1; d >= 0; d--) meta->size[d] = d + shift >= 0 ? meta->size[d + shift] : 1;
        meta->ndim = a->ndim;
        shift = 0;
    }
    for (int d = a->ndim - 1; d >= 0; d--) {
        int64_t *size = &meta->size[shift + d];
        if (*size == a->sizes[d] || a->sizes[d] == 1) continue;
        if (*size != 1) return fail_size(op, *size, a->sizes[d], shift + d);
        *size = a->sizes[d];
    }
    return NX_OK;
}

static bool same_stride(const nx_array *a, const nx_array *b) {
    for (int d = 0; d < a->ndim; d++) {
        if (a->strides[d] != b->strides[d]) return false;
    }
    return true;
}

static void channels_last_strides(nx_meta *meta) {
    int64_t step = meta->size[1];
    meta->stride[1] = 1;
    for (int d = meta->ndim - 1; d > 1; d--) {
        meta->stride[d] = step;
        step *= meta->size[d];
    }
    meta->stride[0] = step;
}

/* Which of two dimensions lies further in: < 0 a, > 0 b, 0 no operand tells. Equal strides: the smaller
 * one. */
static int compare_dims(const operands *all, const nx_meta *meta, int a, int b) {
    for (int k = 0; k < all->n; k++) {
        const nx_array *x = all->at[k];
        int shift = meta->ndim - x->ndim;
        if (a < shift || b < shift) continue;
        int64_t stride_a = x->sizes[a - shift] == 1 && meta->size[a] != 1 ? 0 : x->strides[a - shift];
        int64_t stride_b = x->sizes[b - shift] == 1 && meta->size[b] != 1 ? 0 : x->strides[b - shift];
        if (stride_a == 0 || stride_b == 0) continue;
        if (stride_a != stride_b) return stride_a < stride_b ? -1 : 1;
        if (meta->size[a] > meta->size[b]) return 1;
    }
    return 0;
}

static void ordered_strides(const operands *all, nx_meta *meta) {
    int order[NX_MAX_DIMS]; /* innermost first */
    for (int d = 0; d < meta->ndim; d++) order[d] = meta->ndim - 1 - d;
    for (int i = 1; i < meta->ndim; i++) {
        int moving = i;
        for (int other = i - 1; other >= 0; other--) {
            int compared = compare_dims(all, meta, order[other], order[moving]);
            if (compared < 0) break;
            if (compared == 0) continue;
            int dim = order[other];
            order[other] = order[moving];
            order[moving] = dim;
            moving = other;
        }
    }
    bool row_major = true;
    for (int d = 0; d < meta->ndim; d++) row_major &= order[d] == meta->ndim - 1 - d;
    if (row_major) {
        nx_meta_contiguous(meta);
        return;
    }
    int64_t stride = 1;
    for (int d = 0; d < meta->ndim; d++) {
        meta->stride[order[d]] = stride;
        stride *= meta->size[order[d]];
    }
}

static void copy_strides(const nx_array *a, nx_meta *meta) {
    for (int d = 0; d < a->ndim; d++) meta->stride[d] = a->strides[d];
}

/* PyTorch casts operands of another dtype before it looks at strides, and a cast closes gaps. */
typedef struct cast_operand { nx_array array; int64_t dims[2 * NX_MAX_DIMS]; } cast_operand;

static void close_gaps(const nx_array *a, cast_operand *cast) {
    operands one = {1, {a}};
    nx_meta meta;
    meta.ndim = a->ndim;
    for (int d = 0; d < a->ndim; d++) meta.size[d] = a->sizes[d];
    ordered_strides(&one, &meta);
    nx_array_copy(&cast->array, a, cast->dims);
    for (int d = 0; d < a->ndim; d++) cast->array.strides[d] = meta.stride[d];
    nx_array_refresh(&cast->array);
}

/* A number counts as a 0-dim operand. */
static void choose_strides(const operands *all, bool numbers, nx_meta *meta) {
    bool same = !numbers || meta->ndim == 0, contiguous = true, channels_last = true, dense = true,
         strides = true;
    for (int k = 0; k < all->n && same; k++)
        same = nx_same_size(all->at[0], all->at[k]) && all->at[k]->ndim == meta->ndim;
    for (int k = 0; k < all->n && same; k++) {
        contiguous = contiguous && all->at[k]->contiguous;
        channels_last = channels_last && nx_is_channels_last(all->at[k]);
        dense = dense && nx_is_dense(all->at[k]);
        strides = strides && same_stride(all->at[0], all->at[k]);
    }
    if (all->n == 0 || (same && contiguous)) nx_meta_contiguous(meta);
    else if (same && channels_last) channels_last_strides(meta);
    else if (same && dense && strides) copy_strides(all->at[0], meta);
    else ordered_strides(all, meta);
}

static void choose_cast_strides(operands all, nx_dtype common, bool numbers, nx_meta *meta) {
    cast_operand casts[NX_MAX_OPERANDS];
    for (int k = 0; k < all.n; k++) {
        if (all.at[k]->dtype == common || nx_is_dense(all.at[k])) continue;
        close_gaps(all.at[k], &casts[k]);
        all.at[k] = &casts[k].array;
    }
    choose_strides(&all, numbers, meta);
}

static nx_status join_device(const char *op, const operands *all, nx_meta *meta) {
    meta->device = all->n ? all->at[0]->device : NX_CPU;
    bool loose = all->n && all->at[0]->ndim == 0 && meta->device.type == 0;
    for (int k = 1; k < all->n; k++) {
        nx_device device = all->at[k]->device;
        if (nx_device_same(device, meta->device)) {
            loose = loose && all->at[k]->ndim == 0;
        } else if (loose) {
            meta->device = device;
            loose = false;
        } else if (all->at[k]->ndim > 0 || device.type != 0) {
            return nx_fail_devices(op, meta->device, device);
        }
    }
    return NX_OK;
}

static const nx_array *first_tensor(const nx_value *const *args, int n) {
    for (int k = 0; k < n; k++) {
        if (args[k]->tag == NX_TAG_TENSOR) return args[k]->array;
    }
    return NULL;
}

/* Whether `b` is row-major, on the device of `a` and of its size. */
static inline bool is_twin(const nx_array *a, const nx_array *b) {
    bool near = nx_device_same(b->device, a->device);
    return near && b->contiguous && nx_same_size(a, b);
}

/* The common case: equal sizes, row-major, one device. false: something differs. Beside a number a dimension
 * of size 1 may get another stride than its own, see ordered_strides; then that decides. */
static bool fill_plain(const nx_value *const *args, int n, nx_meta *meta) {
    const nx_array *a = first_tensor(args, n);
    if (a == NULL || !a->contiguous) return false;
    bool numbers = false;
    for (int k = 0; k < n; k++) {
        if (args[k]->tag != NX_TAG_TENSOR) numbers = true;
        else if (args[k]->array != a && !is_twin(a, args[k]->array)) return false;
    }
    meta->ndim = a->ndim;
    meta->device = a->device;
    int64_t stride = 1;
    for (int d = a->ndim - 1; d >= 0; d--) {
        if (numbers && (a->strides[d] != stride || a->sizes[d] == 0)) return false;
        meta->size[d] = a->sizes[d];
        meta->stride[d] = stride;
        stride *= a->sizes[d] > 1 ? a->sizes[d] : 1;
    }
    return true;
}

nx_status nx_meta_broadcast(const char *op, const nx_value *const *args, int n, nx_meta *meta) {
    meta->absent = false;
    meta->view_of = -1;
    meta->offset = 0;
    if (NX_LIKELY(n > 0 && fill_plain(args, n, meta))) return NX_OK;
    operands all = {0};
    bool numbers = false;
    meta->ndim = 0;
    for (int k = 0; k < n; k++) {
        numbers = numbers || args[k]->tag != NX_TAG_TENSOR;
        if (args[k]->tag != NX_TAG_TENSOR) continue;
        if (all.n == NX_MAX_OPERANDS)
            return nx_fail(NX_NOT_IMPLEMENTED, "%s: more than %d operands", op, NX_MAX_OPERANDS);
        all.at[all.n++] = args[k]->array;
        NX_TRY(join_size(op, args[k]->array, meta));
    }
    choose_cast_strides(all, nx_promote(args, n), numbers, meta);
    return join_device(op, &all, meta);
}
