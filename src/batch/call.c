/* What stands at the key BATCHED, for all operators: a call with slices becomes calls with wholes.
 * Which way it goes, the first that there is:
 *   1. drawing numbers, random.c;        2. the operator's row in rules.def;
 *   3. the rule of its kind: point and reduce operators, views;
 *   4. its composition, whose operators come here again;      5. one slice after the other, slices.c.
 * An out= form calls the functional one and copies. Next: front.c. */
#include "batch/private.h"

/* ---- what a call has ------------------------------------------------------------------------------------------- */
void nx__add_level(nx__call *call, int level, int64_t size) {
    call->levels |= UINT64_C(1) << level;
    call->size[level] = size;
    call->n_levels = __builtin_popcountll(call->levels);
}

static void find_levels(nx__call *call, const nx_value *values, int n) {
    for (int i = 0; i < n; i++) {
        if (values[i].tag == NX_TAG_LIST) find_levels(call, values[i].list, values[i].n);
        if (!nx__is_slice(&values[i])) continue;
        const nx_tensor *slice = values[i].tensor;
        for (uint64_t left = slice->levels, k = 0; left; left &= left - 1, k++)
            nx__add_level(call, __builtin_ctzll(left), slice->whole->a.sizes[k]);
    }
}

static int highest_rank(const nx_value *values, int n) {
    int highest = 0;
    for (int i = 0; i < n; i++) {
        int rank = values[i].tag == NX_TAG_LIST ? highest_rank(values[i].list, values[i].n) : nx__rank(&values[i]);
        if (rank > highest) highest = rank;
    }
    return highest;
}
int nx__highest_rank(const nx__call *call) { return highest_rank(call->in, call->op->def->n_in); }

int nx__level_sizes(const nx__call *call, int64_t *sizes) {
    int n = 0;
    for (uint64_t left = call->levels; left; left &= left - 1) sizes[n++] = call->size[__builtin_ctzll(left)];
    return n;
}

int64_t nx__level_count(const nx__call *call) {
    int64_t count = 1;
    for (uint64_t left = call->levels; left; left &= left - 1) count *= call->size[__builtin_ctzll(left)];
    return count;
}

/* ---- what it keeps ------------------------------------------------------------------------------------------------ */
nx_status nx__keep(nx__call *call, nx_tensor *made) {
    nx_status status = nx_vec_push(&call->made, made);
    if (status != NX_OK) nx_tensor_unref(made);
    return status;
}

nx_status nx__list_new(nx__call *call, int n, nx_value **out) {
    nx_value *list = nx_alloc_zeroed(sizeof *list * (size_t)(n > 0 ? n : 1));
    if (list == NULL) return nx_fail_memory(sizeof *list * (size_t)n);
    nx_status status = nx_vec_push(&call->lists, list);
    if (status != NX_OK) nx_free(list);
    *out = list;
    return status;
}

static void drop_kept(nx__call *call) {
    for (int k = 0; k < call->made.n; k++) nx_tensor_unref(call->made.at[k]);
    for (int k = 0; k < call->lists.n; k++) nx_free(call->lists.at[k]);
    nx_vec_free(&call->made);
    nx_vec_free(&call->lists);
}

nx_status nx__call_op(const char *name, const nx_value *in, nx_value *out) {
    const nx_op *op;
    NX_TRY(nx_op_find(name, &op));
    return nx_op_call(op, in, out);
}

nx_status nx__do(nx__call *call, const char *name, const nx_value *in, nx_tensor **out) {
    const nx_op *op;
    nx_value results[NX__MOST_RESULTS];
    NX_TRY(nx_op_find(name, &op));
    NX_TRY(nx_op_call(op, in, results));
    *out = results[0].tensor;
    for (int k = 1; k < op->def->n_out; k++) nx_value_drop(&results[k]);
    return nx__keep(call, *out);
}

nx_status nx__do_view(nx__call *call, nx_tensor *x, const int64_t *sizes, int n, nx_tensor **out) {
    return nx__do(call, "aten::reshape", (nx_value[]){nx_value_tensor(x), nx_value_ints(sizes, n)}, out);
}

nx_status nx__do_permute(nx__call *call, nx_tensor *x, const int64_t *dims, int n, nx_tensor **out) {
    return nx__do(call, "aten::permute", (nx_value[]){nx_value_tensor(x), nx_value_ints(dims, n)}, out);
}

nx_status nx__do_cast(nx__call *call, nx_tensor *x, nx_dtype dtype, nx_tensor **out) {
    const nx_value none = NX_VALUE_NONE;
    nx_value in[] = {nx_value_tensor(x), nx_value_dtype(dtype), none, none, none, nx_value_bool(false), none};
    return nx__do(call, "aten::_to_copy", in, out);
}

nx_status nx__whole(nx__call *call, nx_tensor *tensor, int ndim, bool broadcasts, nx_tensor **out) {
    nx_tensor *whole = nx_tensor_whole(tensor);
    uint64_t own = nx_tensor_levels(tensor);
    int rank = tensor->a.ndim, n = 0, more = ndim > rank ? ndim - rank : 0;
    int64_t ones[NX_MAX_DIMS], full[NX_MAX_DIMS];
    *out = whole;
    if ((own == call->levels && more == 0) || (own == 0 && broadcasts)) return NX_OK;
    if (call->n_levels + more + rank > NX_MAX_DIMS) return nx_fail(NX_RUNTIME, "vmap: more than %d dimensions", NX_MAX_DIMS);
    for (uint64_t left = call->levels; left; left &= left - 1) {
        int level = __builtin_ctzll(left);
        full[n] = call->size[level];
        ones[n++] = own >> level & 1 ? call->size[level] : 1;
    }
    for (int k = 0; k < more; k++, n++) full[n] = ones[n] = 1;
    for (int d = 0; d < rank; d++, n++) full[n] = ones[n] = tensor->a.sizes[d];
    if (own != 0 || more > 0) NX_TRY(nx__do(call, "aten::view", (nx_value[]){nx_value_tensor(whole), nx_value_ints(ones, n)}, out));
    if (own == call->levels || broadcasts) return NX_OK;
    nx_value in[] = {nx_value_tensor(*out), nx_value_ints(full, n), nx_value_bool(false)};
    return nx__do(call, "aten::expand", in, out);
}

/* ---- results ------------------------------------------------------------------------------------------------------- */
static void drop_results(const nx_op *op, nx_value *out) {
    for (int k = 0; k < op->def->n_out; k++) nx_value_drop(&out[k]);
}

static const nx_value *written_of(const nx__call *call, int result) {
    for (int i = 0; i < call->op->def->n_in; i++) {
        if (call->op->def->params[i].written && result-- == 0) return &call->in[i];
    }
    return NULL;
}

/* Wholes become slices; what was written is the argument itself. */
static nx_status make_slices(nx__call *call, nx_value *out) {
    nx_value *results;
    nx_status status = NX_OK;
    int n = nx_results_of(call->op, out, &results);
    bool writes = call->op->def->flags & NX_OP_MUTATES;
    for (int k = 0; k < n && status == NX_OK; k++) {
        const nx_value *written = writes ? written_of(call, k) : NULL;
        if (results[k].tag != NX_TAG_TENSOR) continue;
        if (written && written->tag == NX_TAG_TENSOR) {
            nx_tensor_unref(results[k].tensor);
            results[k] = nx__result(written->tensor);
            continue;
        }
        nx_tensor *slice, *whole = results[k].tensor;
        results[k] = NX_VALUE_NONE;
        if ((status = nx__slice_of(whole, call->levels, &slice)) == NX_OK) results[k] = nx_value_tensor(slice);
    }
    if (status != NX_OK) drop_results(call->op, out);
    return status;
}

/* ---- the ways --------------------------------------------------------------------------------------------------------- */
static nx_status try_rule(nx__call *call, nx__rule_fn *rule, nx_value *out, bool *fits) {
    *fits = true;
    uint64_t excluded = nx_keys_exclude(NX_KEY(BATCHED));
    nx_status status = rule(call, out, fits);
    nx_keys_restore(excluded);
    return status == NX_OK && *fits ? make_slices(call, out) : status;
}

/* The rule that an operator has; of none `fn` is NULL. */
static nx__rule rule_for(const nx_op *op) {
    const nx_op_def *def = op->def;
    const nx__rule *row = nx__rule_of(op);
    nx__rule_fn *fn = NULL;
    if ((def->flags & NX_OP_RANDOM) && !def->dissolves) return (nx__rule){nx__rule_random};
    if (row) return *row;
    if (def->flags & NX_OP_LIST) return (nx__rule){NULL};
    if (def->kind == NX_KIND_POINT) fn = nx__rule_point;
    if (def->kind == NX_KIND_REDUCE) fn = nx__rule_reduce;
    if (def->kind == NX_KIND_VIEW) fn = nx__rule_front;
    return (nx__rule){fn};
}

static nx_status fail_data_sized(const nx_op *op) {
    return nx_fail(NX_RUNTIME, "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over %.*s: "
                   "the sizes of its results depend on elements.", (int)strcspn(op->def->name, "."), op->def->name);
}

/* The shape rule, with the shapes of slices: what it refuses is refused in its words. */
static nx_status check_shapes(const nx__call *call) {
    nx_meta metas[NX__MOST_RESULTS];
    const nx_op_def *def = call->op->def;
    bool checks = def->meta && !def->dissolves && def->n_out <= NX__MOST_RESULTS && def->variant != NX_OUT;
    return checks && !(def->flags & NX_OP_MASKS) ? nx_op_meta(call->op, call->in, metas) : NX_OK;
}

static nx_status compute(nx__call *call, nx_value *out) {
    nx__rule rule = rule_for(call->op);
    bool fits = rule.fn != NULL;
    if (call->op->def->flags & NX_OP_DATA_SIZED) return fail_data_sized(call->op);
    NX_TRY(check_shapes(call));
    if (rule.fn) NX_TRY(rule.composes ? rule.fn(call, out, &fits) : try_rule(call, rule.fn, out, &fits));
    if (!fits && call->op->def->compose) return call->op->def->compose(call->run, call->in, out);
    return fits ? NX_OK : try_rule(call, nx__rule_slices, out, &fits);
}

/* ---- what is written ---------------------------------------------------------------------------------------------------- */
static nx_status check_written(const nx__call *call) {
    for (int i = 0; i < call->op->def->n_in; i++) {
        const nx_value *v = &call->in[i];
        if (!call->op->def->params[i].written || v->tag != NX_TAG_TENSOR) continue;
        if ((call->levels & ~nx_tensor_levels(v->tensor)) == 0) continue;
        return nx_fail(NX_RUNTIME, "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
                       "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but `self` not "
                       "being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic. If said "
                       "operator is being called inside the PyTorch framework, please file a bug report instead.");
    }
    return NX_OK;
}

static nx_status copy_over(nx_tensor *to, nx_tensor *from) {
    nx_value result;
    NX_TRY(nx__call_op("aten::copy_", (nx_value[]){nx_value_tensor(to), nx_value_tensor(from), nx_value_bool(false)}, &result));
    nx_value_drop(&result);
    return NX_OK;
}

/* In place, and into `out`: the functional form's result is copied. */
static nx_status copy_functional(const nx_op *op, const nx_value *in, nx_value *out) {
    nx_value made[NX__MOST_RESULTS];
    const nx_op_def *def = op->def;
    NX_TRY(nx_op_call(op->functional, in, made));
    nx_status status = NX_OK;
    for (int k = 0; k < def->n_out; k++) out[k] = NX_VALUE_NONE;
    for (int i = 0, k = 0; i < def->n_in && k < def->n_out && status == NX_OK; i++) {
        if (!def->params[i].written) continue;
        status = copy_over(in[i].tensor, made[k].tensor);
        out[k++] = status == NX_OK ? nx__result(in[i].tensor) : NX_VALUE_NONE;
    }
    for (int k = 0; k < def->n_out && status != NX_OK; k++) nx_value_drop(&out[k]);
    drop_results(op->functional, made);
    return status;
}

static bool goes_by_copy(const nx_op *op) {
    if (op->functional == NULL || op->functional->def->n_out != op->def->n_out || (op->def->flags & NX_OP_RANDOM)) return false;
    if (op->def->variant == NX_OUT) return true;
    return op->def->variant == NX_INPLACE && nx__rule_of(op) == NULL && nx__rule_of(op->functional) != NULL;
}

static nx_status call_batched(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_op *op = run->op;
    nx__call call = {.op = op, .in = in, .run = run};
    find_levels(&call, in, op->def->n_in);
    const nx__rule *row = nx__rule_of(op);
    bool draws = (op->def->flags & NX_OP_RANDOM) || (row && row->fn == nx__rule_random);
    if (call.levels == 0 && !draws) return nx_redispatch(op, run->keys, NX_KEY_AT_BATCHED, in, out);
    NX_TRY(check_written(&call));
    nx_thread *thread = nx_thread_get();
    const char *target = thread->target;
    thread->target = NULL; /* a capture records calls with wholes as what they are */
    nx_status status = goes_by_copy(op) ? copy_functional(op, in, out) : compute(&call, out);
    thread->target = target;
    drop_kept(&call);
    return status;
}

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_fallback(NX_KEY_AT_BATCHED, call_batched);
    (void)status; /* a fixed key and function: cannot fail */
}
