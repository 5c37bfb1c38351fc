/* Tangents of an operator's results from those of its arguments, out of the operator's one definition. In: the call's arguments
 * (of an in-place call what they were before), its results, tangents. Out: a new reference for each result, NULL: zero. By the
 * first rule that fits:
 * - linear: the entry says which arguments it is linear in, taken together (`props linear`): the operator itself, on tangents;
 *   several such groups, as mul has, are replaced one after the other, and the parts added up;
 * - a point operator of real numbers: its derivative's formula with the tangent in the place of the gradient;
 * - any other: the formula is a linear function of the gradient. It is run, recorded, on gradients of zeros, and its own
 *   derivative is taken at once by the backward engine, with the tangents as what comes in. So complex numbers need no rule.
 * Everything goes through the dispatcher, under no key FORWARD, and is recorded when gradients are. Next: operator.c. */
#include "grad/private.h"

nx_status nx__fail_forward(const nx_op *op) {
    const char *colons = strstr(op->def->name, "::"), *name = colons ? colons + 2 : op->def->name;
    return nx_fail(NX_NOT_IMPLEMENTED, "Trying to use forward AD with %.*s that does not support it because it has not been "
                   "implemented yet.\nPlease file an issue to PyTorch at https://github.com/pytorch/pytorch/issues/new?template="
                   "feature-request.yml so that we can prioritize its implementation or submit a PR adding the implementation to "
                   "derivatives.yaml", (int)strcspn(name, "."), name);
}

/* Takes `part`. */
static nx_status add_to(nx_tensor **sum, nx_tensor *part) {
    nx_tensor *both;
    if (*sum == NULL || part == NULL) {
        *sum = *sum ? *sum : part;
        return NX_OK;
    }
    nx_status status = nx__add(*sum, part, &both);
    nx_tensor_unref(part);
    if (status != NX_OK) return status;
    nx_tensor_unref(*sum);
    *sum = both;
    return NX_OK;
}

/* ---- linear operators ------------------------------------------------------------------------------------------ */
static bool is_linear(const nx_op *op, uint64_t which) {
    uint64_t all = 0;
    for (int g = 0; g < op->def->n_linear; g++) all |= op->def->linear[g];
    bool is_called = !(op->def->flags & NX_OP_MUTATES) || op->functional;
    return is_called && which != 0 && (which & ~all) == 0;
}

static nx_status zero_of(const nx_value *value, nx_value *out) {
    nx_tensor *zeros;
    *out = *value;
    if (value->tag == NX_TAG_INT || value->tag == NX_TAG_FLOAT || value->tag == NX_TAG_BOOL || value->tag == NX_TAG_COMPLEX)
        *out = nx_value_int(0);
    if (value->tag != NX_TAG_TENSOR) return NX_OK;
    NX_TRY(nx__zeros_of(value->tensor, &zeros));
    *out = nx_value_tensor(zeros);
    return NX_OK;
}

/* `tangents` NONE: there are none. *out owns what it holds, but for numbers. */
static nx_status replace_one(const nx_value *value, const nx_value *tangents, nx_value *out) {
    if (value->tag != NX_TAG_LIST) return tangents->tag == NX_TAG_TENSOR ? nx_value_keep(tangents, out) : zero_of(value, out);
    nx_value *made = nx_alloc_zeroed(sizeof *made * (size_t)(value->n ? value->n : 1));
    if (made == NULL) return nx_fail_memory(sizeof *made * (size_t)value->n);
    *out = nx_value_list(made, value->n);
    nx_status status = NX_OK;
    for (int i = 0; i < value->n && status == NX_OK; i++) {
        bool has = tangents->tag == NX_TAG_LIST && tangents->list[i].tag == NX_TAG_TENSOR;
        status = has ? nx_value_keep(&tangents->list[i], &made[i]) : zero_of(&value->list[i], &made[i]);
    }
    if (status != NX_OK) nx_value_drop(out);
    return status;
}

/* The operator with the arguments of `group` replaced; those in `seen` have been. */
static nx_status call_group(const nx_op *op, const nx_value *in, const nx__duals *duals, uint64_t group, uint64_t seen,
                            nx_value *out) {
    const nx_value none = NX_VALUE_NONE;
    nx_value own_in[NX__MAX_ARGUMENTS];
    uint64_t replaced = 0;
    nx_status status = NX_OK;
    for (int k = 0; k < duals->n && status == NX_OK; k++) {
        own_in[k] = in[k];
        if (!(group >> k & 1)) continue;
        status = replace_one(&in[k], seen >> k & 1 ? &none : &duals->at[k], &own_in[k]);
        if (status == NX_OK) replaced |= UINT64_C(1) << k;
    }
    if (status == NX_OK) status = nx_op_call(op, own_in, out);
    for (; replaced; replaced &= replaced - 1) {
        nx_value *value = &own_in[__builtin_ctzll(replaced)];
        if (value->tag == NX_TAG_TENSOR || value->tag == NX_TAG_LIST) nx_value_drop(value);
    }
    return status;
}

static nx_status by_linearity(const nx_op *op, const nx_value *in, const nx__duals *duals, nx_tensor **tangents) {
    const nx_op *called = op->def->flags & NX_OP_MUTATES ? op->functional : op;
    nx_value out[NX__MAX_RESULTS], *results;
    uint64_t seen = 0;
    for (int g = 0; g < op->def->n_linear; g++) {
        uint64_t group = op->def->linear[g], carries = duals->which & group & ~seen;
        nx_status status = NX_OK;
        if (carries) {
            NX_TRY(call_group(called, in, duals, group, seen, out));
            int n = nx_results_of(called, out, &results);
            for (int k = 0; k < n && status == NX_OK; k++) {
                nx_tensor *part = results[k].tag == NX_TAG_TENSOR ? nx_tensor_ref(results[k].tensor) : NULL;
                status = add_to(&tangents[k], part);
            }
            for (int k = 0; k < called->def->n_out; k++) nx_value_drop(&out[k]);
        }
        if (status != NX_OK) return status;
        seen |= group;
    }
    return NX_OK;
}

/* ---- point operators --------------------------------------------------------------------------------------------- */
static bool is_point(const nx_op *op, const nx_value *in, const nx_value *results, int n) {
    const nx_derivative *derivative = nx__derivative_of(op);
    if (op->def->kind != NX_KIND_POINT || n != 1 || nx_is_complex((nx_dtype)results[0].array->dtype)) return false;
    for (uint64_t rest = derivative->inputs; rest; rest &= rest - 1) {
        const nx_value *value = &in[__builtin_ctzll(rest)];
        if (value->tag == NX_TAG_TENSOR && nx_is_complex((nx_dtype)value->array->dtype)) return false;
    }
    return true;
}

/* `x` of the size and dtype of `like`. A new reference. */
static nx_status spread(nx_tensor *x, const nx_array *like, nx_tensor **out) {
    *out = nx_tensor_ref(x);
    if (!nx_same_size(&x->a, like)) {
        nx_tensor_unref(x);
        nx_value in[] = {nx_value_tensor(x), nx_value_ints(like->sizes, like->ndim), nx_value_bool(false)};
        NX_TRY(nx__call_named("aten::expand", in, out));
    }
    nx_status status = nx__fit(out, like);
    if (status != NX_OK) nx_tensor_unref(*out);
    return status;
}

static nx_status by_formula(const nx_op *op, const nx_value *in, nx_value *results, const nx__duals *duals, nx_tensor **tangent) {
    const nx_derivative *derivative = nx__derivative_of(op);
    nx_tensor *result = results[0].tensor, *grads[NX__MAX_ARGUMENTS];
    nx_value own_in[NX__MAX_ARGUMENTS];
    uint64_t owned = 0;
    nx_status status = NX_OK;
    for (int k = 0; k < duals->n && status == NX_OK; k++) {
        own_in[k] = in[k];
        if (!(derivative->inputs >> k & 1) || in[k].tag != NX_TAG_TENSOR) continue;
        nx_tensor *made;
        status = spread(in[k].tensor, &result->a, &made);
        if (status != NX_OK) break;
        own_in[k] = nx_value_tensor(made);
        owned |= UINT64_C(1) << k;
    }
    for (uint64_t rest = duals->which & derivative->inputs; rest && status == NX_OK; rest &= rest - 1) {
        int k = __builtin_ctzll(rest);
        nx_tensor *g;
        NX_TRY_FAIL(spread(duals->at[k].tensor, &result->a, &g));
        status = derivative->backward(own_in, &result, &g, rest & -rest, grads);
        nx_tensor_unref(g);
        if (status == NX_OK) status = add_to(tangent, grads[k]);
    }
fail:
    for (; owned; owned &= owned - 1) nx_tensor_unref(own_in[__builtin_ctzll(owned)].tensor);
    return status;
}

/* ---- all others: the derivative of the formula -------------------------------------------------------------------- */
typedef struct transposed {
    const nx_op *op;
    nx_value in[NX__MAX_ARGUMENTS];
    nx_value *listed;               /* tensors of lists, whose key says that their gradient is wanted */
    nx_tensor **grads;              /* n_grads of the formula; roots of what is run then, with seeds */
    nx_tensor **roots, **seeds;
    int n_grads, n_roots, n_listed;
    nx_tensor **g, **g_of;          /* n gradients, NULL where the result has none; those that there are, side by side */
    nx_tensor **results, **found;
    int n, n_g;
    void *block;
} transposed;

static nx_status make_room(const nx_op *op, const nx_value *in, int n, transposed *t) {
    const nx_derivative *derivative = nx__derivative_of(op);
    t->n_listed = 0;
    for (uint64_t rest = derivative->inputs; rest; rest &= rest - 1) {
        const nx_value *value = &in[__builtin_ctzll(rest)];
        t->n_listed += value->tag == NX_TAG_LIST ? value->n : 0;
    }
    t->op = op;
    t->n = n;
    t->n_grads = op->def->n_in + t->n_listed;
    t->n_roots = t->n_g = 0;
    size_t tensors = 3 * (size_t)t->n_grads + 4 * (size_t)n;
    size_t bytes = sizeof(nx_value) * (size_t)t->n_listed + sizeof(nx_tensor *) * tensors;
    if ((t->block = nx_alloc_zeroed(bytes)) == NULL) return nx_fail_memory(bytes);
    t->listed = t->block;
    t->grads = (nx_tensor **)(t->listed + t->n_listed);
    t->roots = t->grads + t->n_grads;
    t->seeds = t->roots + t->n_grads;
    t->g = t->seeds + t->n_grads;
    t->g_of = t->g + n;
    t->results = t->g_of + n;
    t->found = t->results + n;
    return NX_OK;
}

/* Of a list: the gradients of tensors that need none are asked for by their key alone, and lead nowhere. */
static nx_status key_list(const nx_value *list, const nx_value *tangents, nx_value *made) {
    for (int i = 0; i < list->n; i++) {
        made[i] = list->list[i];
        bool has = tangents->tag == NX_TAG_LIST && tangents->list[i].tag == NX_TAG_TENSOR;
        if (made[i].tag == NX_TAG_TENSOR && has && !nx__requires_grad(made[i].tensor)) {
            nx_tensor *keyed;
            made[i] = NX_VALUE_NONE; /* while it may fail */
            NX_TRY(nx_tensor_alias(list->list[i].tensor, &keyed));
            keyed->keys |= NX_KEY(AUTOGRAD);
            made[i] = nx_value_tensor(keyed);
        } else if (made[i].tag == NX_TAG_TENSOR) {
            nx_tensor_ref(made[i].tensor);
        }
    }
    return NX_OK;
}

static nx_status fill_arguments(const nx_value *in, const nx__duals *duals, transposed *t) {
    const nx_derivative *derivative = nx__derivative_of(t->op);
    nx_value *listed = t->listed;
    for (int k = 0; k < duals->n; k++) {
        t->in[k] = in[k];
        if (!(derivative->inputs >> k & 1) || in[k].tag != NX_TAG_LIST) continue;
        NX_TRY(key_list(&in[k], &duals->at[k], listed));
        t->in[k] = nx_value_list(listed, in[k].n);
        listed += in[k].n;
    }
    return NX_OK;
}

static nx_status make_gradients(const nx_value *results, transposed *t) {
    for (int k = 0; k < t->n; k++) {
        t->results[k] = results[k].tag == NX_TAG_TENSOR ? results[k].tensor : NULL;
        if (!nx__carries_tangent(t->op, results, k)) continue;
        NX_TRY(nx__zeros_of(results[k].tensor, &t->g[k]));
        NX_TRY(nx_tensor_set_requires_grad(t->g[k], true));
        t->g_of[t->n_g++] = t->g[k];
    }
    return NX_OK;
}

/* Takes *grad, the gradient of an argument: with its tangent it is a root of the second derivative. */
static nx_status add_root(nx_tensor **grad, const nx_value *argument, const nx_value *tangent, transposed *t) {
    if (*grad == NULL || tangent->tag != NX_TAG_TENSOR) return NX_OK;
    NX_TRY(nx__fit(grad, argument->array));
    if (!nx__requires_grad(*grad)) return NX_OK; /* it does not depend on g: zero */
    t->roots[t->n_roots] = *grad;
    t->seeds[t->n_roots++] = tangent->tensor;
    return NX_OK;
}

static nx_status run_formula(const nx__duals *duals, transposed *t) {
    const nx_derivative *derivative = nx__derivative_of(t->op);
    NX_TRY(derivative->backward(t->in, t->results, t->g, duals->which & derivative->inputs, t->grads));
    int at = t->op->def->n_in;
    for (int k = 0; k < duals->n; k++) {
        if (!(derivative->inputs >> k & 1)) continue;
        if (t->in[k].tag != NX_TAG_LIST) {
            NX_TRY(add_root(&t->grads[k], &t->in[k], &duals->at[k], t));
            continue;
        }
        bool has = duals->at[k].tag == NX_TAG_LIST;
        for (int i = 0; i < t->in[k].n && has; i++) NX_TRY(add_root(&t->grads[at + i], &t->in[k].list[i], &duals->at[k].list[i], t));
        at += t->in[k].n;
    }
    return NX_OK;
}

static void drop_all(transposed *t) {
    for (int k = 0; k < t->n_grads; k++) nx_tensor_unref(t->grads[k]);
    for (int k = 0; k < t->n; k++) nx_tensor_unref(t->g[k]);
    for (int i = 0; i < t->n_listed; i++) {
        if (t->listed[i].tag == NX_TAG_TENSOR) nx_tensor_unref(t->listed[i].tensor);
    }
    nx_free(t->block);
}

/* The recorded formula is of this call alone: nothing of the user's is told of it. */
static nx_status run_recorded(const nx_value *in, const nx_value *results, const nx__duals *duals, transposed *t) {
    nx_thread *thread = nx_thread_get();
    bool disabled = thread->grad_disabled;
    uint8_t outer = thread->for_tangent;
    void *hooks = thread->saved_hooks;
    thread->grad_disabled = false;
    thread->saved_hooks = NULL;
    thread->for_tangent = NX__FOR_FORMULA;
    nx_status status;
    NX_TRY_FAIL(fill_arguments(in, duals, t));
    NX_TRY_FAIL(make_gradients(results, t));
    NX_TRY_FAIL(run_formula(duals, t));
fail:
    thread->grad_disabled = disabled;
    thread->saved_hooks = hooks;
    thread->for_tangent = outer;
    return status;
}

static nx_status by_transposing(const nx_op *op, const nx_value *in, nx_value *results, int n, const nx__duals *duals,
                                nx_tensor **tangents) {
    transposed t;
    nx_thread *thread = nx_thread_get();
    bool anomaly = thread->anomaly, recorded = !thread->grad_disabled;
    NX_TRY(make_room(op, in, n, &t));
    thread->anomaly = false;
    nx_status status = run_recorded(in, results, duals, &t);
    if (status == NX_OK && t.n_roots > 0)
        status = nx_grad_run(t.roots, t.seeds, t.n_roots, recorded, recorded, t.g_of, t.n_g, t.found);
    if (status == NX_NOT_IMPLEMENTED) status = nx__fail_forward(op); /* the formula has no derivative */
    thread->anomaly = anomaly;
    for (int k = 0, at = 0; k < n && status == NX_OK; k++) tangents[k] = t.g[k] ? t.found[at++] : NULL;
    drop_all(&t);
    return status;
}

/* ---- which rule ----------------------------------------------------------------------------------------------------- */
nx_status nx__jvp(const nx_op *op, const nx_value *in, nx_value *results, int n, const nx__duals *duals, nx_tensor **tangents) {
    const nx_derivative *derivative = nx__derivative_of(op);
    if (derivative == NULL) return nx__fail_forward(op);
    uint64_t which = duals->which & derivative->inputs;
    for (int k = 0; k < n; k++) tangents[k] = NULL;
    if (which == 0) return NX_OK; /* those that have tangents are constants to it */
    nx_status status = is_linear(op, which)              ? by_linearity(op, in, duals, tangents)
                       : is_point(op, in, results, n) ? by_formula(op, in, results, duals, tangents)
                                                      : by_transposing(op, in, results, n, duals, tangents);
    for (int k = 0; k < n && status != NX_OK; k++) {
        nx_tensor_unref(tangents[k]);
        tangents[k] = NULL;
    }
    return status;
}
