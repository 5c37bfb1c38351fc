/* Operators that take and write places: the levels are indexed by their own numbers where the places differ from slice to slice. */
#include "batch/private.h"

/* The numbers 0 to `n` - 1, of `ndim` dimensions, along dimension `at`. */
static nx_status numbers(nx__call *call, int64_t n, int at, int ndim, nx_device device, nx_tensor **out) {
    int64_t sizes[NX_MAX_DIMS];
    const nx_value none = NX_VALUE_NONE;
    nx_value in[] = {nx_value_int(n), nx_value_dtype(NX_I64), none, nx_value_device(device), none};
    NX_TRY(nx__do(call, "aten::arange", in, out));
    for (int d = 0; d < ndim; d++) sizes[d] = d == at ? n : 1;
    return nx__do_view(call, *out, sizes, ndim, out);
}

/* ---- lists of indices ------------------------------------------------------------------------------------------------ */
typedef struct places {
    int n;            /* indices that are there */
    int first, last;  /* where */
    int rank;         /* of them broadcast; a mask is a row of indices */
    int taken;        /* dimensions that they stand for */
    bool differ;      /* one is a slice */
    bool masks;
} places;

static places places_of(const nx_value *list) {
    places p = {.first = -1};
    for (int k = 0; k < list->n; k++) {
        const nx_value *v = &list->list[k];
        if (v->tag != NX_TAG_TENSOR) continue;
        if (p.first < 0) p.first = k;
        p.last = k;
        p.n++;
        p.differ |= nx__is_slice(v);
        bool mask = v->array->dtype == NX_BOOL || v->array->dtype == NX_U8;
        int rank = mask ? 1 : v->tensor->a.ndim;
        p.masks |= mask;
        p.taken += mask ? v->tensor->a.ndim : 1;
        if (rank > p.rank) p.rank = rank;
    }
    return p;
}

/* Indices of the whole: before those of a slice nothing, or the numbers of the levels. */
static nx_status whole_indices(nx__call *call, const nx_value *list, const places *p, nx_value *out) {
    int levels = call->n_levels;
    int64_t sizes[64];
    nx_value *made;
    nx_tensor *index;
    NX_TRY(nx__list_new(call, levels + list->n, &made));
    nx__level_sizes(call, sizes);
    for (int k = 0; k < levels && p->differ; k++) {
        NX_TRY(numbers(call, sizes[k], k, levels + p->rank, list->list[p->first].tensor->a.device, &index));
        made[k] = nx_value_tensor(index);
    }
    for (int k = 0; k < list->n; k++) {
        if (list->list[k].tag != NX_TAG_TENSOR) continue;
        NX_TRY(nx__whole(call, list->list[k].tensor, p->masks ? 0 : p->rank, true, &index));
        made[levels + k] = nx_value_tensor(index);
    }
    *out = nx_value_list(made, levels + list->n);
    return NX_OK;
}

/* The result has levels, places, then the rest; the places belong behind the first `before` of the rest. */
static nx_status places_behind(nx__call *call, nx_tensor *x, int rank, int before, nx_tensor **out) {
    int64_t dims[NX_MAX_DIMS];
    int levels = call->n_levels, n = 0;
    for (; n < levels; n++) dims[n] = n;
    for (int d = 0; d < before; d++) dims[n++] = levels + rank + d;
    for (int d = 0; d < rank; d++) dims[n++] = levels + d;
    for (; n < x->a.ndim; n++) dims[n] = n;
    return nx__do_permute(call, x, dims, n, out);
}

static nx_status fail_mask(void) {
    return nx_fail(NX_RUNTIME, "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over "
                   "indexing with a boolean mask.");
}

static nx_status index_by(nx__call *call, nx_tensor *self, const nx_value *list, nx_value *out, bool *fits) {
    places p = places_of(list);
    nx_value indices;
    nx_tensor *x;
    bool together = p.last - p.first == p.n - 1;
    if (p.differ && p.masks) return fail_mask();
    if (p.n == 0 || (p.masks && !together)) return *fits = false, NX_OK;
    p.differ |= !together; /* places that stand apart come first, before the levels */
    NX_TRY(nx__whole(call, self, 0, false, &x));
    NX_TRY(whole_indices(call, list, &p, &indices));
    NX_TRY(nx__do(call, "aten::index.Tensor", (nx_value[]){nx_value_tensor(x), indices}, &x));
    if (p.differ && together && p.first > 0) NX_TRY(places_behind(call, x, p.rank, p.first, &x));
    out[0] = nx__result(x);
    return NX_OK;
}

/* index.Tensor(self, indices) */
nx_status nx__rule_index(nx__call *call, nx_value *out, bool *fits) {
    return index_by(call, call->in[0].tensor, &call->in[1], out, fits);
}

/* index_put(self, indices, values, accumulate), and in place */
nx_status nx__rule_index_put(nx__call *call, nx_value *out, bool *fits) {
    places p = places_of(&call->in[1]);
    nx_tensor *self = call->in[0].tensor, *x, *values;
    nx_value indices;
    bool together = p.last - p.first == p.n - 1, in_front = together && p.first == 0;
    if (p.differ && p.masks) return fail_mask();
    if (p.n == 0 || (p.differ && !in_front) || !together) return *fits = false, NX_OK;
    NX_TRY(nx__whole(call, self, 0, false, &x));
    NX_TRY(whole_indices(call, &call->in[1], &p, &indices));
    NX_TRY(nx__whole(call, call->in[2].tensor, self->a.ndim - p.taken + p.rank, true, &values));
    return nx_op_call(call->op, (nx_value[]){nx_value_tensor(x), indices, nx_value_tensor(values), call->in[3]}, out);
}

/* index_select(self, dim, index) */
nx_status nx__rule_index_select(nx__call *call, nx_value *out, bool *fits) {
    const nx_value *in = call->in;
    nx_value *list;
    int rank = in[0].tensor->a.ndim, dim = (int)(in[1].i < 0 ? in[1].i + rank : in[1].i);
    nx_tensor *x;
    if (rank == 0 || in[2].tensor->a.ndim != 1) return *fits = false, NX_OK;
    if (!nx__is_slice(&in[2])) {
        NX_TRY(nx__whole(call, in[0].tensor, 0, false, &x));
        return nx_op_call(call->op, (nx_value[]){nx_value_tensor(x), nx_value_int(dim + call->n_levels), in[2]}, out);
    }
    NX_TRY(nx__list_new(call, dim + 1, &list));
    list[dim] = in[2];
    nx_value indices = nx_value_list(list, dim + 1);
    return index_by(call, in[0].tensor, &indices, out, fits);
}

/* embedding(weight, indices, padding_idx, ...): slices of weights lie one behind the other in one table. */
nx_status nx__rule_embedding(nx__call *call, nx_value *out, bool *fits) {
    const nx_value *in = call->in;
    nx_tensor *weight = in[0].tensor, *indices, *offsets, *table;
    int64_t sizes[64], count = nx__level_count(call), rows = weight->a.ndim > 0 ? weight->a.sizes[0] : 0;
    NX_TRY(nx__whole(call, in[1].tensor, 0, false, &indices));
    if (!nx__is_slice(&in[0]))
        return nx_op_call(call->op, (nx_value[]){in[0], nx_value_tensor(indices), in[2], in[3], in[4]}, out);
    if (in[2].i >= 0 || in[3].i || in[4].i || weight->a.ndim != 2) return *fits = false, NX_OK;
    NX_TRY(nx__whole(call, weight, 0, false, &table));
    NX_TRY(nx__do_view(call, table, (int64_t[]){count * rows, weight->a.sizes[1]}, 2, &table));
    NX_TRY(numbers(call, count, 0, 1, weight->a.device, &offsets));
    NX_TRY(nx__do(call, "aten::mul.Scalar", (nx_value[]){nx_value_tensor(offsets), nx_value_int(rows)}, &offsets));
    int n = nx__level_sizes(call, sizes);
    for (; n < indices->a.ndim && n < 64; n++) sizes[n] = 1;
    NX_TRY(nx__do_view(call, offsets, sizes, n, &offsets));
    NX_TRY(nx__do(call, "aten::add.Tensor", (nx_value[]){nx_value_tensor(indices), nx_value_tensor(offsets), nx_value_int(1)}, &indices));
    return nx_op_call(call->op, (nx_value[]){nx_value_tensor(table), nx_value_tensor(indices), in[2], in[3], in[4]}, out);
}

/* one_hot(self, num_classes): where the number of classes is given, no element is asked for. */
nx_status nx__rule_one_hot(nx__call *call, nx_value *out, bool *fits) {
    const nx_value *in = call->in;
    nx_tensor *column, *classes, *is_class;
    if (in[1].i <= 0) return *fits = false, NX_OK;
    NX_TRY(numbers(call, in[1].i, 0, 1, in[0].array->device, &classes));
    NX_TRY(nx__do(call, "aten::unsqueeze", (nx_value[]){in[0], nx_value_int(-1)}, &column));
    NX_TRY(nx__do(call, "aten::eq.Tensor", (nx_value[]){nx_value_tensor(column), nx_value_tensor(classes)}, &is_class));
    NX_TRY(nx__do_cast(call, is_class, NX_I64, &is_class));
    out[0] = nx__result(is_class);
    return NX_OK;
}

/* ---- the loss of classes ------------------------------------------------------------------------------------------------ */
/* What each target's class is worth, as `targets` are laid. */
static nx_status weights_of(nx__call *call, nx_tensor *weight, nx_tensor *targets, nx_tensor **out) {
    static const int64_t row[] = {-1};
    nx_tensor *flat;
    NX_TRY(nx__do_view(call, targets, row, 1, &flat));
    NX_TRY(nx__do(call, "aten::index_select", (nx_value[]){nx_value_tensor(weight), nx_value_int(0), nx_value_tensor(flat)}, out));
    return nx__do_view(call, *out, targets->a.sizes, targets->a.ndim, out);
}

static nx_status without(nx__call *call, nx_tensor *x, nx_tensor *ignored, nx_tensor **out) {
    return nx__do(call, "aten::masked_fill.Scalar", (nx_value[]){nx_value_tensor(x), nx_value_tensor(ignored), nx_value_int(0)}, out);
}

static nx_status count_of(nx__call *call, nx_tensor *ignored, nx_dtype dtype, nx_tensor **out) {
    nx_tensor *counted;
    NX_TRY(nx__do(call, "aten::logical_not", (nx_value[]){nx_value_tensor(ignored)}, &counted));
    return nx__do(call, "aten::sum", (nx_value[]){nx_value_tensor(counted), nx_value_dtype(dtype)}, out);
}

/* nll_loss_forward(self, target, weight, reduction, ignore_index): (loss, total weight) */
nx_status nx__rule_nll_loss(nx__call *call, nx_value *out, bool *fits) {
    const nx_value *in = call->in, none = NX_VALUE_NONE;
    nx_tensor *ignored, *target, *picked, *weights = NULL, *total;
    nx_value dim = nx_value_int(in[0].tensor->a.ndim == 1 ? 0 : 1);
    NX_TRY(nx__do(call, "aten::eq.Scalar", (nx_value[]){in[1], in[4]}, &ignored));
    NX_TRY(without(call, in[1].tensor, ignored, &target));
    nx_tensor *column;
    NX_TRY(nx__do(call, "aten::unsqueeze", (nx_value[]){nx_value_tensor(target), dim}, &column));
    NX_TRY(nx__do(call, "aten::gather", (nx_value[]){in[0], dim, nx_value_tensor(column), nx_value_bool(false)}, &picked));
    NX_TRY(nx__do(call, "aten::squeeze.dim", (nx_value[]){nx_value_tensor(picked), dim}, &picked));
    NX_TRY(nx__do(call, "aten::neg", (nx_value[]){nx_value_tensor(picked)}, &picked));
    if (in[2].tag == NX_TAG_TENSOR) {
        NX_TRY(weights_of(call, in[2].tensor, target, &weights));
        NX_TRY(nx__do(call, "aten::mul.Tensor", (nx_value[]){nx_value_tensor(picked), nx_value_tensor(weights)}, &picked));
    }
    NX_TRY(without(call, picked, ignored, &picked));
    if (weights) {
        NX_TRY(without(call, weights, ignored, &total));
        NX_TRY(nx__do(call, "aten::sum", (nx_value[]){nx_value_tensor(total), none}, &total));
    } else {
        NX_TRY(count_of(call, ignored, (nx_dtype)in[0].array->dtype, &total));
    }
    if (in[3].i != 0) NX_TRY(nx__do(call, "aten::sum", (nx_value[]){nx_value_tensor(picked), none}, &picked));
    if (in[3].i == 1) NX_TRY(nx__do(call, "aten::div.Tensor", (nx_value[]){nx_value_tensor(picked), nx_value_tensor(total)}, &picked));
    out[0] = nx__result(picked);
    out[1] = nx__result(total);
    return NX_OK;
}
