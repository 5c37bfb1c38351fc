/* What stands at the key FORWARD, for all operators: calls what is below, where AUTOGRAD records as ever, and gives the results
 * their tangents at once, which jvp.c computes through the dispatcher. So tangents are recorded where gradients are, and exist
 * where nothing is recorded. Nothing that is called meanwhile sees a tangent: there is one level.
 * In-place calls write the tangent in place, too, so that views and their base agree. out= forms refuse. Results of operators that
 * have no derivative by intent are constants. Operators that dissolve do not come here: their parts do. Next: jvp.c, tangent.c. */
#include "grad/private.h"

static nx_status go_below(nx_run *run, const nx_value *in, nx_value *out) {
    return nx_redispatch(run->op, run->keys, NX_KEY_AT_FORWARD, in, out);
}

static void drop_results(const nx_op *op, nx_value *out) {
    for (int k = 0; k < op->def->n_out; k++) nx_value_drop(&out[k]);
}

/* ---- the arguments' tangents ----------------------------------------------------------------------------------- */
static nx_status take_tangent(nx_tensor *tensor, nx_value *out) {
    nx_tensor *tangent;
    if (NX_UNLIKELY(!nx_tangents_open())) tensor->keys &= ~NX_KEY(FORWARD); /* of a view: its base's tangent went */
    NX_TRY(nx_tangent_of(tensor, &tangent));
    if (tangent) *out = nx_value_tensor(tangent);
    return NX_OK;
}

static nx_status take_listed(const nx_value *list, nx_value *out) {
    bool any = false;
    for (int i = 0; i < list->n; i++) any |= list->list[i].tag == NX_TAG_TENSOR && (list->list[i].tensor->keys & NX_KEY(FORWARD));
    if (!any) return NX_OK;
    nx_value *made = nx_alloc_zeroed(sizeof *made * (size_t)list->n);
    if (made == NULL) return nx_fail_memory(sizeof *made * (size_t)list->n);
    *out = nx_value_list(made, list->n);
    for (int i = 0; i < list->n; i++) {
        if (list->list[i].tag == NX_TAG_TENSOR) NX_TRY(take_tangent(list->list[i].tensor, &made[i]));
    }
    return NX_OK;
}

static bool has_any(const nx_value *list) {
    for (int i = 0; i < list->n; i++) {
        if (list->list[i].tag == NX_TAG_TENSOR) return true;
    }
    return false;
}

static nx_status take_tangents(const nx_op *op, const nx_value *in, nx__duals *duals) {
    duals->which = 0;
    duals->n = op->def->n_in;
    for (int k = 0; k < duals->n; k++) duals->at[k] = NX_VALUE_NONE;
    for (int k = 0; k < duals->n; k++) {
        if (in[k].tag == NX_TAG_TENSOR && (in[k].tensor->keys & NX_KEY(FORWARD))) NX_TRY(take_tangent(in[k].tensor, &duals->at[k]));
        else if (in[k].tag == NX_TAG_LIST) NX_TRY(take_listed(&in[k], &duals->at[k]));
        bool has = duals->at[k].tag == NX_TAG_TENSOR || (duals->at[k].tag == NX_TAG_LIST && has_any(&duals->at[k]));
        if (has) duals->which |= UINT64_C(1) << k;
    }
    return NX_OK;
}

static void drop_tangents(nx__duals *duals) {
    for (int k = 0; k < duals->n; k++) nx_value_drop(&duals->at[k]);
}

/* ---- the results' tangents --------------------------------------------------------------------------------------- */
/* Around everything that computes tangents: whoever records or casts calls as the user wrote them has seen this one. What a
 * tangent's history keeps has no tangent. */
typedef struct hidden {
    uint64_t excluded;
    uint8_t for_tangent;
} hidden;

static hidden hide(void) {
    nx_thread *thread = nx_thread_get();
    hidden before = {nx_keys_exclude(NX_KEY(FORWARD) | NX_KEY(CAPTURE) | NX_KEY(AUTOCAST)), thread->for_tangent};
    thread->for_tangent = NX__FOR_TANGENT;
    return before;
}
static void show(hidden before) {
    nx_thread_get()->for_tangent = before.for_tangent;
    nx_keys_restore(before.excluded);
}

static bool shares(const nx_tensor *tangent, const nx_value *value) {
    if (value->tag == NX_TAG_TENSOR) return nx_storage_memory(value->tensor->storage) == nx_storage_memory(tangent->storage);
    for (int i = 0; value->tag == NX_TAG_LIST && i < value->n; i++) {
        if (shares(tangent, &value->list[i])) return true;
    }
    return false;
}

/* A tangent that is an argument's is copied: either may be written. Takes `tangent`. */
static nx_status own(const nx__duals *duals, nx_tensor *tangent, nx_tensor **out) {
    bool shared = false;
    for (int k = 0; k < duals->n; k++) shared |= tangent->storage && shares(tangent, &duals->at[k]);
    *out = tangent;
    if (!shared) return NX_OK;
    nx_status status = nx__clone(tangent, true, out);
    nx_tensor_unref(tangent);
    return status;
}

bool nx__carries_tangent(const nx_op *op, const nx_value *results, int k) {
    const nx_derivative *derivative = nx__derivative_of(op);
    bool is_bare = derivative && k < 64 && !(op->def->flags & NX_OP_LIST) && derivative->bare >> k & 1;
    return !is_bare && results[k].tag == NX_TAG_TENSOR && nx_is_differentiable((nx_dtype)results[k].array->dtype);
}

/* An argument that was handed back as it is keeps its own. */
static bool is_argument(const nx_value *in, int n, const nx_tensor *tensor) {
    for (int k = 0; k < n; k++) {
        if (in[k].tag == NX_TAG_TENSOR && in[k].tensor == tensor) return true;
    }
    return false;
}

/* Takes `tangent`; NULL: zeros. */
static nx_status give_one(const nx__duals *duals, nx_tensor *result, nx_tensor *tangent) {
    nx_status status;
    if (tangent == NULL) NX_TRY(nx__zeros_of(result, &tangent));
    else NX_TRY(own(duals, tangent, &tangent));
    status = nx_tangent_set(result, tangent);
    if (status == NX_OK) status = nx__operator_tell_tangent(result, tangent);
    nx_tensor_unref(tangent);
    return status;
}

static nx_status give_new(const nx_op *op, const nx_value *in, const nx__duals *duals, nx_value *results, int n) {
    nx_tensor *few[NX__FEW_TANGENTS] = {NULL}, **tangents = few;
    if (n > NX_COUNT(few) && (tangents = nx_alloc_zeroed(sizeof *tangents * (size_t)n)) == NULL)
        return nx_fail_memory(sizeof *tangents * (size_t)n);
    nx_status status = nx__jvp(op, in, results, n, duals, tangents);
    for (int k = 0; k < n; k++) {
        nx_tensor *tangent = tangents[k];
        bool given = nx__carries_tangent(op, results, k) && !is_argument(in, duals->n, results[k].tensor);
        if (status == NX_OK && given) status = give_one(duals, results[k].tensor, tangent);
        else nx_tensor_unref(tangent);
    }
    if (tangents != few) nx_free(tangents);
    return status;
}

/* ---- views: the same view of the tangent --------------------------------------------------------------------------- */
/* A place in the viewed tensor's storage is another one in its tangent's. */
static void move_place(const nx_op *op, const nx_tensor *viewed, const nx_tensor *tangent, nx_value *in) {
    nx_value *place = &in[op->def->n_in - 1];
    if ((op->def->flags & NX_OP_BY_PLACES) && place->tag == NX_TAG_INT) place->i += tangent->offset - viewed->offset;
}

static nx_status give_views(const nx_op *op, const nx_value *in, const nx__duals *duals, nx_value *out) {
    nx_value views[NX__MAX_RESULTS], own_in[NX__MAX_ARGUMENTS], *results, *tangents;
    for (int k = 0; k < op->def->n_in; k++) own_in[k] = in[k];
    own_in[0] = duals->at[0];
    move_place(op, in[0].tensor, duals->at[0].tensor, own_in);
    NX_TRY(nx_op_call(op, own_in, views));
    int n = nx_results_of(op, out, &results);
    nx_results_of(op, views, &tangents);
    nx_status status = NX_OK;
    for (int k = 0; k < n && status == NX_OK; k++) {
        if (!nx__carries_tangent(op, results, k) || is_argument(in, op->def->n_in, results[k].tensor)) continue;
        status = nx_tangent_set(results[k].tensor, tangents[k].tensor);
    }
    drop_results(op, views);
    return status;
}

static nx_status give_tangents(nx_run *run, const nx_value *in, const nx__duals *duals, nx_value *out) {
    const nx_op *op = run->op;
    nx_value *results;
    int n = nx_results_of(op, out, &results);
    bool carries = false;
    for (int k = 0; k < n; k++) carries |= nx__carries_tangent(op, results, k);
    if (!carries || (op->def->nograd && strncmp(op->def->nograd, "raise ", 6) != 0)) return NX_OK;
    hidden before = hide();
    nx_status status = op->def->kind == NX_KIND_VIEW && duals->at[0].tag == NX_TAG_TENSOR ? give_views(op, in, duals, out)
                                                                                         : give_new(op, in, duals, results, n);
    show(before);
    return status;
}

static nx_status call_functional(nx_run *run, const nx_value *in, const nx__duals *duals, nx_value *out) {
    NX_TRY(go_below(run, in, out));
    nx_status status = give_tangents(run, in, duals, out);
    if (status != NX_OK) drop_results(run->op, out);
    return status;
}

/* ---- in place -------------------------------------------------------------------------------------------------------- */
/* `in`: what the arguments were before. */
static nx_status write_tangent(const nx_op *op, const nx_value *in, const nx__duals *duals, nx_value *out) {
    nx_tensor *tangent = NULL, *self = out[0].tensor, *written = NULL;
    bool constant = op->def->nograd != NULL && nx__derivative_of(op) == NULL;
    if (!constant) NX_TRY(nx__jvp(op, in, out, 1, duals, &tangent));
    nx_status status = NX_OK;
    if (tangent) status = own(duals, tangent, &tangent);
    if (status != NX_OK) return status;
    NX_TRY_FAIL(nx_tangent_write(self, tangent));
    NX_TRY_FAIL(nx_tangent_of(self, &written));
    if (written) status = nx__operator_tell_tangent(self, written);
fail:
    nx_tensor_unref(written);
    nx_tensor_unref(tangent);
    return status;
}

/* What the formulas read is what was there before. */
static nx_status keep_original(const nx_value *in, int n, nx_value *before, nx_tensor **original) {
    hidden shown = hide();
    nx_status status = nx__clone(in[0].tensor, true, original);
    show(shown);
    for (int k = 0; k < n; k++) {
        bool is_written = in[k].tag == NX_TAG_TENSOR && in[k].tensor == in[0].tensor;
        before[k] = is_written && status == NX_OK ? nx_value_tensor(*original) : in[k];
    }
    return status;
}

/* The tangent is about to be written, and get a history: what that keeps of it must not be the tensor that has the history. */
static nx_status detach_tangents(nx__duals *duals) {
    const nx_tensor *written = duals->at[0].tensor;
    if (duals->at[0].tag != NX_TAG_TENSOR || !nx__requires_grad(written)) return NX_OK;
    for (int k = duals->n - 1; k >= 0; k--) { /* the first one, which is compared, last */
        nx_tensor *alias;
        if (duals->at[k].tag != NX_TAG_TENSOR || duals->at[k].tensor != written) continue;
        NX_TRY(nx__placed_alias(duals->at[k].tensor, &alias));
        nx_value_drop(&duals->at[k]);
        duals->at[k] = nx_value_tensor(alias);
    }
    return NX_OK;
}

static nx_status call_in_place(nx_run *run, const nx_value *in, nx__duals *duals, nx_value *out) {
    nx_tensor *original = NULL;
    nx_value before[NX__MAX_ARGUMENTS];
    if (in[0].tag != NX_TAG_TENSOR || !nx_is_differentiable((nx_dtype)in[0].array->dtype)) return go_below(run, in, out);
    NX_TRY(detach_tangents(duals));
    NX_TRY(keep_original(in, run->op->def->n_in, before, &original));
    nx_status status = go_below(run, in, out);
    if (status == NX_OK) {
        hidden shown = hide();
        status = write_tangent(run->op, before, duals, out);
        show(shown);
        if (status != NX_OK) drop_results(run->op, out);
    }
    nx_tensor_unref(original);
    return status;
}

/* ---- what refuses ------------------------------------------------------------------------------------------------------ */
static nx_status fail_out(const nx_op *op) {
    const char *colons = strstr(op->def->name, "::"), *name = colons ? colons + 2 : op->def->name;
    return nx_fail(NX_NOT_IMPLEMENTED, "Trying to use forward AD with %.*s_out that does not support it because it is an out= function",
                   (int)strcspn(name, "."), name);
}

static nx_status call_duals(nx_run *run, const nx_value *in, nx__duals *duals, nx_value *out) {
    const nx_op_def *def = run->op->def;
    if (duals->which == 0) return go_below(run, in, out);
    if (def->variant == NX_OUT) return fail_out(run->op);
    if (def->n_out == 0) return nx__fail_forward(run->op);
    if (def->flags & NX_OP_MUTATES) return call_in_place(run, in, duals, out);
    return call_functional(run, in, duals, out);
}

nx_status nx_forward_call(nx_run *run, const nx_value *in, nx_value *out) {
    nx__duals duals;
    nx_status status = take_tangents(run->op, in, &duals);
    if (status == NX_OK) {
        uint64_t excluded = nx_keys_exclude(NX_KEY(FORWARD));
        status = call_duals(run, in, &duals, out);
        nx_keys_restore(excluded);
    }
    drop_tangents(&duals);
    return status;
}

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_fallback(NX_KEY_AT_FORWARD, nx_forward_call);
    (void)status; /* a fixed key and function: cannot fail */
}
