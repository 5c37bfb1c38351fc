/* Rules that follow from what an operator does with its dimensions: point operators broadcast, rows and folds leave what stands in
 * front alone, windows have a batch as their first dimension. Next: view.c, matrix.c, window.c, place.c. */
#include "batch/private.h"

/* ---- point operators -------------------------------------------------------------------------------------------- */
static int category_of(nx_dtype dtype) {
    return nx_is_complex(dtype) ? 3 : nx_is_float(dtype) ? 2 : dtype == NX_BOOL ? 0 : 1;
}

/* The dtype that all operands with dimensions have, -1: there is none. */
static int common_dtype(const nx__call *call) {
    int found = -1;
    for (int i = 0; i < call->op->def->n_in; i++) {
        if (nx__rank(&call->in[i]) == 0) continue;
        int dtype = call->in[i].array->dtype;
        if (found >= 0 && found != dtype) return -1;
        found = dtype;
    }
    return found;
}

static bool promotes(const nx_point *point, int argument) {
    for (int k = 0; k < point->n_promoting; k++) {
        if (point->promoting_param[k] == argument) return true;
    }
    return false;
}

/* A slice that is a number takes no part in promotion beside tensors with dimensions of its kind; its whole would. */
static nx_status cast_number(nx__call *call, const nx_tensor *slice, nx_tensor **whole) {
    int dtype = slice->a.ndim == 0 ? common_dtype(call) : -1;
    if (dtype < 0 || dtype == slice->a.dtype || category_of((nx_dtype)slice->a.dtype) > category_of((nx_dtype)dtype)) return NX_OK;
    return nx__do_cast(call, *whole, (nx_dtype)dtype, whole);
}

nx_status nx__rule_point(nx__call *call, nx_value *out, bool *fits) {
    const nx_op_def *def = call->op->def;
    nx_value own[NX__MOST_ARGUMENTS];
    int ndim = nx__highest_rank(call);
    const nx_param *params = def->params;
    for (int i = 0; i < def->n_in; i++) {
        nx_tensor *whole;
        own[i] = call->in[i];
        if (own[i].tag == NX_TAG_LIST) return *fits = false, NX_OK;
        if (own[i].tag != NX_TAG_TENSOR) continue;
        if (!nx__is_slice(&own[i]) && ndim > 0) continue; /* it broadcasts as it is */
        NX_TRY(nx__whole(call, own[i].tensor, params[i].written ? 0 : ndim, ndim > 0, &whole));
        bool takes_part = nx__is_slice(&own[i]) && !params[i].written && def->point && promotes(def->point, i);
        if (takes_part) NX_TRY(cast_number(call, own[i].tensor, &whole));
        own[i] = nx_value_tensor(whole);
    }
    return nx_op_call(call->op, own, out);
}

/* ---- dimensions counted from behind the levels --------------------------------------------------------------------- */
static nx_status shift_dims(nx__call *call, const nx_value *given, nx_value *own, bool *fits) {
    if (given->tag == NX_TAG_INT) {
        own->i = given->i >= 0 ? given->i + call->n_levels : given->i;
        return NX_OK;
    }
    if (given->tag != NX_TAG_INTS) return *fits = false, NX_OK;
    nx_value *room;
    NX_TRY(nx__list_new(call, given->n, &room));
    int64_t *dims = (int64_t *)room;
    for (int k = 0; k < given->n; k++) dims[k] = given->ints[k] >= 0 ? given->ints[k] + call->n_levels : given->ints[k];
    *own = nx_value_ints(dims, given->n);
    return NX_OK;
}

static nx_status whole_list(nx__call *call, const nx_value *given, nx_value *own) {
    nx_value *list;
    NX_TRY(nx__list_new(call, given->n, &list));
    for (int k = 0; k < given->n; k++) {
        nx_tensor *whole;
        list[k] = given->list[k];
        if (list[k].tag != NX_TAG_TENSOR) continue;
        NX_TRY(nx__whole(call, list[k].tensor, 0, false, &whole));
        list[k] = nx_value_tensor(whole);
    }
    *own = nx_value_list(list, given->n);
    return NX_OK;
}

static bool has_slice(const nx_value *list) {
    for (int k = 0; k < list->n; k++) {
        if (nx__is_slice(&list->list[k])) return true;
    }
    return false;
}

/* Whether a dimension is asked for where a tensor that it may be of has none. */
static bool counts_nothing(const nx__call *call, const nx__rule *rule) {
    bool has_dim = false, is_number = false;
    for (int i = 0; i < call->op->def->n_in; i++) {
        const nx_value *v = &call->in[i];
        has_dim |= call->op->def->params[i].is_dim;
        is_number |= v->tag == NX_TAG_TENSOR && v->tensor->a.ndim == 0 && !(rule && rule->operands >> i & 1);
        for (int k = 0; v->tag == NX_TAG_LIST && k < v->n; k++) is_number |= v->list[k].tag == NX_TAG_TENSOR && nx__rank(&v->list[k]) == 0;
    }
    return has_dim && is_number && !(rule && rule->rank == 1);
}

nx_status nx__rule_front(nx__call *call, nx_value *out, bool *fits) {
    const nx_op_def *def = call->op->def;
    const nx__rule *rule = nx__rule_of(call->op);
    nx_value own[NX__MOST_ARGUMENTS];
    if (counts_nothing(call, rule)) return *fits = false, NX_OK;
    for (int i = 0; i < def->n_in && *fits; i++) {
        bool shared = rule && rule->operands >> i & 1;
        nx_tensor *whole;
        own[i] = call->in[i];
        if (def->params[i].is_dim) {
            NX_TRY(shift_dims(call, &call->in[i], &own[i], fits));
        } else if (own[i].tag == NX_TAG_TENSOR && !shared) {
            NX_TRY(nx__whole(call, own[i].tensor, 0, false, &whole));
            own[i] = nx_value_tensor(whole);
        } else if (own[i].tag == NX_TAG_LIST && !shared) {
            NX_TRY(whole_list(call, &call->in[i], &own[i]));
        } else if (own[i].tag == NX_TAG_MEMORY_FORMAT && own[i].i >= NX_CHANNELS_LAST) {
            own[i].i = NX_CONTIGUOUS_FORMAT; /* of the rank of a slice */
        } else if (nx__is_slice(&own[i]) || (own[i].tag == NX_TAG_LIST && has_slice(&own[i]))) {
            *fits = false;
        }
    }
    return *fits ? nx_op_call(call->op, own, out) : NX_OK;
}

/* roll without dimensions turns all elements as one row. */
nx_status nx__rule_roll(nx__call *call, nx_value *out, bool *fits) {
    if (call->in[2].tag != NX_TAG_INTS || call->in[2].n == 0) return *fits = false, NX_OK;
    return nx__rule_front(call, out, fits);
}

/* searchsorted(sorted_sequence, self, ...): one sequence for all is a row; else each row has its own. */
nx_status nx__rule_searchsorted(nx__call *call, nx_value *out, bool *fits) {
    const nx_value *in = call->in;
    nx_value own[NX__MOST_ARGUMENTS];
    int rank = in[0].tensor->a.ndim;
    if (nx__is_slice(&in[0]) || rank != 1 || in[5].tag == NX_TAG_TENSOR) {
        *fits = rank > 0 && rank == in[1].tensor->a.ndim;
        return *fits ? nx__rule_front(call, out, fits) : NX_OK;
    }
    for (int i = 0; i < call->op->def->n_in; i++) own[i] = in[i];
    own[1] = nx_value_tensor(in[1].tensor->whole);
    return nx_op_call(call->op, own, out);
}

/* masked_fill.Tensor(self, mask, value): a value of each slice is no number any more. */
nx_status nx__rule_masked_fill(nx__call *call, nx_value *out, bool *fits) {
    const nx_value *in = call->in;
    nx_tensor *value;
    NX_TRY(nx__do_cast(call, in[2].tensor, (nx_dtype)in[0].array->dtype, &value));
    return nx__call_op("aten::where.self", (nx_value[]){in[1], nx_value_tensor(value), in[0]}, out);
}

/* ---- folds ---------------------------------------------------------------------------------------------------------- */
/* All dimensions of a slice as one. */
static nx_status flat_whole(nx__call *call, nx_tensor *tensor, nx_tensor **out) {
    int64_t sizes[NX_MAX_DIMS];
    nx_tensor *whole;
    NX_TRY(nx__whole(call, tensor, 0, false, &whole));
    int n = nx__level_sizes(call, sizes);
    sizes[n++] = tensor->a.numel;
    *out = whole;
    return tensor->a.ndim == 1 ? NX_OK : nx__do_view(call, whole, sizes, n, out);
}

/* A fold of all elements is one along dimensions, by another overload: of one dimension, or of several. */
static const struct whole_fold { const char *name, *along; bool one; } whole_folds[] = {
    {"aten::sum", "aten::sum.dim_IntList", false}, {"aten::mean", "aten::mean.dim", false}, {"aten::prod", "aten::prod.dim_int", true},
    {"aten::max", "aten::amax", false}, {"aten::min", "aten::amin", false}, {"aten::all", "aten::all.dim", true},
    {"aten::any", "aten::any.dim", true},
};

static nx_status fold_all(nx__call *call, nx_value *out, bool *fits) {
    static const int64_t last[] = {-1};
    nx_tensor *flat;
    for (int k = 0; k < NX_COUNT(whole_folds); k++) {
        const struct whole_fold *fold = &whole_folds[k];
        if (strcmp(call->op->def->name, fold->name) != 0) continue;
        NX_TRY(flat_whole(call, call->in[0].tensor, &flat));
        nx_value dim = fold->one ? nx_value_int(-1) : nx_value_ints(last, 1);
        nx_value dtype = call->op->def->n_in > 1 ? call->in[1] : NX_VALUE_NONE;
        return nx__call_op(fold->along, (nx_value[]){nx_value_tensor(flat), dim, nx_value_bool(false), dtype}, out);
    }
    return *fits = false, NX_OK;
}

nx_status nx__rule_reduce(nx__call *call, nx_value *out, bool *fits) {
    const nx_reduce *reduce = call->op->def->reduce;
    int rank = call->in[0].tensor->a.ndim;
    nx_value own[NX__MOST_ARGUMENTS];
    int64_t dims[NX_MAX_DIMS];
    nx_tensor *whole;
    if (reduce->dim_param < 0) return fold_all(call, out, fits);
    for (int i = 0; i < call->op->def->n_in; i++) own[i] = call->in[i];
    nx_value *dim = &own[reduce->dim_param];
    NX_TRY(nx__whole(call, call->in[0].tensor, 1, false, &whole));
    own[0] = nx_value_tensor(whole);
    if (rank == 0) {
        dims[0] = -1;
        if (reduce->keepdim_param >= 0) own[reduce->keepdim_param] = nx_value_bool(false);
        *dim = dim->tag == NX_TAG_INT ? nx_value_int(-1) : nx_value_ints(dims, 1);
    } else if (dim->tag == NX_TAG_NONE || (dim->tag == NX_TAG_INTS && dim->n == 0)) {
        for (int d = 0; d < rank; d++) dims[d] = d - rank;
        *dim = nx_value_ints(dims, rank);
    } else {
        NX_TRY(shift_dims(call, &call->in[reduce->dim_param], dim, fits));
    }
    return *fits ? nx_op_call(call->op, own, out) : NX_OK;
}

/* argmax, argmin: of all elements as one row, unless a dimension is given. */
nx_status nx__rule_best_place(nx__call *call, nx_value *out, bool *fits) {
    nx_tensor *flat;
    if (call->in[1].tag != NX_TAG_NONE) return nx__rule_front(call, out, fits);
    if (call->in[2].i) return *fits = false, NX_OK;
    NX_TRY(flat_whole(call, call->in[0].tensor, &flat));
    return nx_op_call(call->op, (nx_value[]){nx_value_tensor(flat), nx_value_int(-1), nx_value_bool(false)}, out);
}

/* ---- norms over the last dimensions ---------------------------------------------------------------------------------- */
/* native_layer_norm(input, normalized_shape, weight, bias, eps): weights that are slices are multiplied afterwards. */
nx_status nx__rule_layer_norm(nx__call *call, nx_value *out, bool *fits) {
    nx_tensor *whole, *weight, *bias, *result;
    nx_value own[5];
    int ndim = call->in[0].tensor->a.ndim;
    bool apart = nx__is_slice(&call->in[2]) || nx__is_slice(&call->in[3]);
    for (int i = 0; i < 5; i++) own[i] = call->in[i];
    NX_TRY(nx__whole(call, call->in[0].tensor, 0, false, &whole));
    own[0] = nx_value_tensor(whole);
    if (apart) own[2] = own[3] = NX_VALUE_NONE;
    NX_TRY(nx_op_call(call->op, own, out));
    if (!apart) return NX_OK;
    NX_TRY(nx__keep(call, out[0].tensor));
    result = out[0].tensor;
    out[0] = NX_VALUE_NONE;
    nx_status status = NX_OK;
    if (call->in[2].tag == NX_TAG_TENSOR) {
        NX_TRY_FAIL(nx__whole(call, call->in[2].tensor, ndim, true, &weight));
        NX_TRY_FAIL(nx__do(call, "aten::mul.Tensor", (nx_value[]){nx_value_tensor(result), nx_value_tensor(weight)}, &result));
    }
    if (call->in[3].tag == NX_TAG_TENSOR) {
        NX_TRY_FAIL(nx__whole(call, call->in[3].tensor, ndim, true, &bias));
        nx_value in[] = {nx_value_tensor(result), nx_value_tensor(bias), nx_value_int(1)};
        NX_TRY_FAIL(nx__do(call, "aten::add.Tensor", in, &result));
    }
    out[0] = nx__result(result);
    return NX_OK;
fail:
    nx_value_drop(&out[1]);
    nx_value_drop(&out[2]);
    return status;
}
