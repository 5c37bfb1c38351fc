/* One slice after the other: what has no rule. Results are stacked; what is written is a view of the whole. */
#include "batch/private.h"

typedef struct stacks {
    nx_value *parts[NX__MOST_RESULTS * 4]; /* of each tensor among the results, one a slice */
    int n;
    int64_t count;
} stacks;

/* Slice number `k` of a whole that has the call's levels in front. */
static nx_status slice_at(nx__call *call, nx_tensor *whole, int64_t k, nx_tensor **out) {
    int64_t sizes[64], rest = k;
    int n = nx__level_sizes(call, sizes);
    *out = whole;
    for (int level = n - 1; level >= 0; level--) {
        int64_t at = rest % sizes[level];
        rest /= sizes[level];
        NX_TRY(nx__do(call, "aten::select.int", (nx_value[]){nx_value_tensor(*out), nx_value_int(level), nx_value_int(at)}, out));
    }
    return NX_OK;
}

static nx_status slices_in(nx__call *call, const nx_value *in, int n, int64_t k, nx_value *own) {
    for (int i = 0; i < n; i++) {
        nx_tensor *whole;
        own[i] = in[i];
        if (in[i].tag == NX_TAG_LIST) {
            nx_value *list;
            NX_TRY(nx__list_new(call, in[i].n, &list));
            NX_TRY(slices_in(call, in[i].list, in[i].n, k, list));
            own[i] = nx_value_list(list, in[i].n);
        }
        if (!nx__is_slice(&in[i])) continue;
        NX_TRY(nx__whole(call, in[i].tensor, 0, false, &whole));
        NX_TRY(slice_at(call, whole, k, &whole));
        own[i] = nx_value_tensor(whole);
    }
    return NX_OK;
}

static nx_status keep_results(nx__call *call, stacks *s, nx_value *out, int64_t k) {
    nx_value *results;
    int n = nx_results_of(call->op, out, &results);
    nx_status status = NX_OK;
    if (n > NX_COUNT(s->parts)) status = nx_fail(NX_RUNTIME, "%s: %d results under vmap", call->op->def->name, n);
    if (k == 0) s->n = n;
    for (int r = 0; r < n && status == NX_OK; r++) {
        if (k == 0) status = nx__list_new(call, (int)s->count, &s->parts[r]);
        if (status == NX_OK && results[r].tag == NX_TAG_TENSOR && (status = nx__keep(call, nx_tensor_ref(results[r].tensor))) == NX_OK)
            s->parts[r][k] = nx_value_tensor(results[r].tensor);
    }
    for (int r = 0; r < call->op->def->n_out; r++) nx_value_drop(&out[r]);
    return status;
}

/* The results of all slices as one, with the levels in front. */
static nx_status stack_one(nx__call *call, const stacks *s, int r, nx_value *out) {
    int64_t sizes[NX_MAX_DIMS];
    nx_tensor *x;
    *out = NX_VALUE_NONE;
    if (s->parts[r][0].tag != NX_TAG_TENSOR) return NX_OK;
    NX_TRY(nx__do(call, "aten::stack", (nx_value[]){nx_value_list(s->parts[r], (int)s->count), nx_value_int(0)}, &x));
    int n = nx__level_sizes(call, sizes);
    for (int d = 1; d < x->a.ndim; d++) sizes[n++] = x->a.sizes[d];
    NX_TRY(nx__do_view(call, x, sizes, n, &x));
    *out = nx__result(x);
    return NX_OK;
}

static nx_status give_list(nx__call *call, const stacks *s, nx_value *out) {
    nx_value *list;
    NX_TRY(nx__list_new(call, s->n, &list));
    nx_status status = NX_OK;
    for (int r = 0; r < s->n && status == NX_OK; r++) status = stack_one(call, s, r, &list[r]);
    nx_value lent = nx_value_list(list, s->n);
    if (status == NX_OK) status = nx_value_keep(&lent, out);
    for (int r = 0; r < s->n; r++) nx_value_drop(&list[r]);
    return status;
}

static nx_status give_written(const nx__call *call, nx_value *out) {
    for (int i = 0, k = 0; i < call->op->def->n_in && k < call->op->def->n_out; i++) {
        if (call->op->def->params[i].written) out[k++] = nx__result(nx_tensor_whole(call->in[i].tensor));
    }
    return NX_OK;
}

static nx_status give_results(nx__call *call, const stacks *s, nx_value *out) {
    nx_status status = NX_OK;
    if (call->op->def->flags & NX_OP_LIST) return give_list(call, s, out);
    if (call->op->def->flags & NX_OP_MUTATES) return give_written(call, out);
    for (int r = 0; r < s->n; r++) out[r] = NX_VALUE_NONE;
    for (int r = 0; r < s->n && status == NX_OK; r++) status = stack_one(call, s, r, &out[r]);
    for (int r = 0; r < s->n && status != NX_OK; r++) nx_value_drop(&out[r]);
    return status;
}

static nx_status fail_empty(const nx__call *call) {
    return nx_fail(NX_RUNTIME, "%s: Fallback not implemented for this operator when the batch dim size is 0", call->op->def->name);
}

/* Slices that draw the same numbers find the generator where the first one did. */
nx_status nx__rule_slices(nx__call *call, nx_value *out, bool *fits) {
    stacks s = {.count = nx__level_count(call)};
    nx_value own[NX__MOST_ARGUMENTS];
    nx_generator *generator = nx_generator_default();
    nx_generator_place place;
    if (s.count == 0) return fail_empty(call);
    if (call->draws_same) nx_generator_mark(generator, &place);
    for (int64_t k = 0; k < s.count; k++) {
        if (call->draws_same && k > 0) nx_generator_return(generator, &place);
        NX_TRY(slices_in(call, call->in, call->op->def->n_in, k, own));
        NX_TRY(nx_op_call(call->op, own, out));
        NX_TRY(keep_results(call, &s, out, k));
    }
    return give_results(call, &s, out);
}
