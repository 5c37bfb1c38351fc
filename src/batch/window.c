/* Windows: slices join the batch, or, where each has weights of its own, the groups. */
#include "batch/private.h"

/* The levels of `x`, and the dimension behind them where `joins` says so, as one. */
static nx_status join(nx__call *call, nx_tensor *x, bool joins, nx_tensor **out) {
    int64_t sizes[NX_MAX_DIMS];
    int from = call->n_levels + joins, n = 1;
    sizes[0] = nx__level_count(call) * (joins ? x->a.sizes[call->n_levels] : 1);
    for (int d = from; d < x->a.ndim; d++) sizes[n++] = x->a.sizes[d];
    return nx__do_view(call, x, sizes, n, out);
}

/* The other way: the first dimension of `x` becomes the levels, and what they were joined with. */
static nx_status part(nx__call *call, nx_tensor *x, bool joined, nx_tensor **out) {
    int64_t sizes[NX_MAX_DIMS], count = nx__level_count(call);
    int n = nx__level_sizes(call, sizes);
    if (joined) sizes[n++] = count > 0 ? x->a.sizes[0] / count : 0;
    for (int d = 1; d < x->a.ndim; d++) sizes[n++] = x->a.sizes[d];
    return nx__do_view(call, x, sizes, n, out);
}

/* What is no slice is the same for the whole batch, and says nothing of single slices: a mask may not. */
static bool folds(const nx__call *call, const nx__rule *rule) {
    for (int i = 0; i < call->op->def->n_in; i++) {
        const nx_value *v = &call->in[i];
        bool folded = rule->operands >> i & 1;
        if (v->tag == NX_TAG_LIST || (v->tag == NX_TAG_TENSOR && !folded && (nx__is_slice(v) || v->tensor->a.ndim > 1))) return false;
        if (v->tag == NX_TAG_TENSOR && folded && v->tensor->a.ndim != rule->rank && v->tensor->a.ndim != rule->rank - 1) return false;
    }
    return true;
}

nx_status nx__rule_fold(nx__call *call, nx_value *out, bool *fits) {
    const nx__rule *rule = nx__rule_of(call->op);
    const nx_op_def *def = call->op->def;
    nx_value own[NX__MOST_ARGUMENTS];
    bool joins = false;
    if (!folds(call, rule)) return *fits = false, NX_OK;
    for (int i = 0; i < def->n_in; i++) {
        nx_tensor *whole;
        own[i] = call->in[i];
        if (own[i].tag != NX_TAG_TENSOR || !(rule->operands >> i & 1)) continue;
        joins = own[i].tensor->a.ndim == rule->rank;
        NX_TRY(nx__whole(call, own[i].tensor, 0, false, &whole));
        NX_TRY(join(call, whole, joins, &whole));
        own[i] = nx_value_tensor(whole);
    }
    NX_TRY(nx_op_call(call->op, own, out));
    nx_status status = NX_OK;
    for (int k = 0; k < def->n_out; k++) {
        nx_tensor *result = out[k].tensor, *parted;
        if (out[k].tag != NX_TAG_TENSOR) continue;
        out[k] = NX_VALUE_NONE;
        if ((status = nx__keep(call, result)) == NX_OK) status = part(call, result, joins, &parted);
        if (status == NX_OK) out[k] = nx__result(parted);
        else for (int j = 0; j < def->n_out; j++) nx_value_drop(&out[j]);
        if (status != NX_OK) break;
    }
    return status;
}

/* ---- convolution --------------------------------------------------------------------------------------------------- */
/* The levels behind the first dimension behind them: [levels, n, c, ...] as [n, levels * c, ...]. */
static nx_status levels_to_channels(nx__call *call, nx_tensor *x, nx_tensor **out) {
    int64_t dims[NX_MAX_DIMS], sizes[NX_MAX_DIMS];
    int levels = call->n_levels, n = 0;
    dims[n++] = levels;
    for (int k = 0; k < levels; k++) dims[n++] = k;
    for (; n < x->a.ndim; n++) dims[n] = n;
    NX_TRY(nx__do_permute(call, x, dims, n, &x));
    sizes[0] = x->a.sizes[0];
    sizes[1] = nx__level_count(call) * x->a.sizes[levels + 1];
    n = 2;
    for (int d = levels + 2; d < x->a.ndim; d++) sizes[n++] = x->a.sizes[d];
    return nx__do_view(call, x, sizes, n, out);
}

static nx_status channels_to_levels(nx__call *call, nx_tensor *x, nx_value *out) {
    int64_t dims[NX_MAX_DIMS], sizes[NX_MAX_DIMS], count = nx__level_count(call);
    int levels = call->n_levels, n = 1 + nx__level_sizes(call, sizes + 1);
    sizes[0] = x->a.sizes[0];
    sizes[n++] = count > 0 ? x->a.sizes[1] / count : 0;
    for (int d = 2; d < x->a.ndim; d++) sizes[n++] = x->a.sizes[d];
    NX_TRY(nx__do_view(call, x, sizes, n, &x));
    for (int k = 0; k < levels; k++) dims[k] = k + 1;
    dims[levels] = 0;
    for (int d = levels + 1; d < n; d++) dims[d] = d;
    NX_TRY(nx__do_permute(call, x, dims, n, &x));
    out[0] = nx__result(x);
    return NX_OK;
}

/* Each slice has weights of its own: as groups of one convolution. */
static nx_status by_groups(nx__call *call, nx_value *own, nx_value *out) {
    nx_tensor *x, *weight, *bias;
    NX_TRY(nx__whole(call, call->in[0].tensor, 0, false, &x));
    NX_TRY(levels_to_channels(call, x, &x));
    NX_TRY(nx__whole(call, call->in[1].tensor, 0, false, &weight));
    NX_TRY(join(call, weight, true, &weight));
    own[0] = nx_value_tensor(x);
    own[1] = nx_value_tensor(weight);
    if (own[2].tag == NX_TAG_TENSOR) {
        NX_TRY(nx__whole(call, call->in[2].tensor, 0, false, &bias));
        NX_TRY(join(call, bias, true, &bias));
        own[2] = nx_value_tensor(bias);
    }
    own[8].i *= nx__level_count(call);
    NX_TRY(nx__do(call, "aten::convolution", own, &x));
    return channels_to_levels(call, x, out);
}

/* convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
nx_status nx__rule_convolution(nx__call *call, nx_value *out, bool *fits) {
    nx_value own[9];
    nx_tensor *x;
    for (int i = 0; i < 9; i++) own[i] = call->in[i];
    if (own[0].tensor->a.ndim != own[1].tensor->a.ndim) return *fits = false, NX_OK;
    if (nx__is_slice(&own[1]) || nx__is_slice(&own[2])) return by_groups(call, own, out);
    NX_TRY(nx__whole(call, own[0].tensor, 0, false, &x));
    NX_TRY(join(call, x, true, &x));
    own[0] = nx_value_tensor(x);
    NX_TRY(nx__do(call, "aten::convolution", own, &x));
    NX_TRY(part(call, x, true, &x));
    out[0] = nx__result(x);
    return NX_OK;
}

/* native_group_norm(input, weight, bias, N, C, HxW, group, eps): slices join the images, or, where each has weights of its own, the
 * channels. */
nx_status nx__rule_group_norm(nx__call *call, nx_value *out, bool *fits) {
    const bool apart = nx__is_slice(&call->in[1]) || nx__is_slice(&call->in[2]);
    const int64_t count = nx__level_count(call);
    nx_value own[8];
    for (int i = 0; i < 8; i++) own[i] = call->in[i];
    if (own[3].tag != NX_TAG_INT || own[4].tag != NX_TAG_INT || own[0].tensor->a.ndim < 2) return *fits = false, NX_OK;
    if (own[0].tensor->a.sizes[0] != own[3].i || own[0].tensor->a.sizes[1] != own[4].i) return *fits = false, NX_OK;
    for (int i = 0; i < (apart ? 3 : 1); i++) {
        nx_tensor *x;
        if (own[i].tag != NX_TAG_TENSOR) continue;
        NX_TRY(nx__whole(call, own[i].tensor, 0, false, &x));
        if (i == 0 && apart) NX_TRY(levels_to_channels(call, x, &x));
        else NX_TRY(join(call, x, true, &x));
        own[i] = nx_value_tensor(x);
    }
    if (!apart) own[3].i *= count;
    for (int i = 4; apart && i <= 6; i += 2) own[i].i *= count;
    NX_TRY(nx_op_call(call->op, own, out));
    nx_status status = NX_OK;
    for (int k = 0; k < 3 && status == NX_OK; k++) {
        nx_tensor *result = out[k].tensor;
        out[k] = NX_VALUE_NONE;
        if ((status = nx__keep(call, result)) != NX_OK) break;
        if (apart) {
            status = channels_to_levels(call, result, &out[k]);
        } else if ((status = part(call, result, true, &result)) == NX_OK) {
            out[k] = nx__result(result);
        }
    }
    for (int k = 0; k < 3 && status != NX_OK; k++) nx_value_drop(&out[k]);
    return status;
}
