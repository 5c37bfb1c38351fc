/* What stands at the AUTOGRAD key: makes a node when the call is to be differentiated, then goes on below.
 * Functional calls: node, call, results become the node's. In-place calls: the written tensor, or the one
 * that it is a view of, gets the new node as its history. out= forms refuse gradients. An operator without a
 * derivative says in its entry why
 * (`nograd`): its results are then constants. Next: operator.c (what is saved), engine.c (how it is used). */
#include "grad/private.h"

static nx_status go_below(nx_run *run, const nx_value *in, nx_value *out) {
    uint64_t excluded = nx_keys_exclude(NX_KEY(AUTOGRAD));
    nx_status status = nx_redispatch(run->op, run->keys, NX_KEY_AT_AUTOGRAD, in, out);
    nx_keys_restore(excluded);
    return status;
}

static void drop_results(const nx_op_def *def, nx_value *out) {
    for (int k = 0; k < def->n_out; k++) nx_value_drop(&out[k]);
}

/* "add" of "aten::add.out" */
static int base_name(const nx_op_def *def, const char **name) {
    const char *colons = strstr(def->name, "::");
    *name = colons ? colons + 2 : def->name;
    return (int)strcspn(*name, ".");
}

static bool wants_any_grad(const nx_value *list) {
    for (int i = 0; i < list->n; i++) {
        const nx_value *value = &list->list[i];
        if (value->tag == NX_TAG_TENSOR ? nx__requires_grad(value->tensor) : value->tag == NX_TAG_LIST && wants_any_grad(value))
            return true;
    }
    return false;
}

static inline bool wants_grad(const nx_value *value) {
    if (NX_LIKELY(value->tag == NX_TAG_TENSOR)) return nx__requires_grad(value->tensor);
    return value->tag == NX_TAG_LIST && wants_any_grad(value);
}

static inline uint64_t differentiable(const nx_derivative *derivative, const nx_value *in) {
    uint64_t needed = 0;
    for (uint64_t rest = derivative ? derivative->inputs : 0; rest; rest &= rest - 1) {
        const nx_value *value = &in[__builtin_ctzll(rest)];
        if (wants_grad(value)) needed |= rest & -rest;
    }
    return needed;
}

/* ---- in-place ----------------------------------------------------------------------------------------- */
nx_status nx_grad_check_written(const nx_tensor *self) {
    const nx_tensor *base = self->base;
    if (base) NX_TRY(nx__view_check(self, "is being"));
    if (base && nx__requires_grad(self) && nx_tensor_is_leaf(base)) {
        return nx_fail(NX_RUNTIME, "a view of a leaf Variable that requires grad is being used in an "
                       "in-place operation.");
    }
    if (nx__requires_grad(self) && nx_tensor_is_leaf(self)) {
        return nx_fail(NX_RUNTIME, "a leaf Variable that requires grad is being used in an in-place "
                       "operation.");
    }
    return NX_OK;
}

/* Also by another name: x.mul_(x). */
static bool reads_written(const nx_op *op, const nx_value *in, uint64_t needed) {
    for (int k = 0; k < op->def->n_in; k++) {
        bool is_written = in[k].tag == NX_TAG_TENSOR && in[k].tensor == in[0].tensor;
        if (is_written && nx__operator_reads(nx__derivative_of(op), needed, k)) return true;
    }
    return false;
}

/* With its tangent, for a backward that runs while that is there. */
static nx_status keep_original(nx_tensor *self, nx_tensor **out) {
    NX_TRY(nx__clone(self, true, out));
    bool has_tangent = (self->keys & ~(*out)->keys & NX_KEY(FORWARD)) != 0;
    nx_status status = NX_UNLIKELY(has_tangent) ? nx__tangent_hand_on(self, true, *out) : NX_OK;
    if (status != NX_OK) nx_tensor_unref(*out);
    return status;
}

/* The node that will be the history of what is written: the operator's own, or, for a view, one around it
 * for the base. Everything that could fail later for lack of memory is made here, before the operator
 * writes. */
static nx_status new_history(const nx_op *op, const nx_value *in, uint64_t needed, nx__node **inner, nx__node **out) {
    nx_tensor *self = in[0].tensor, *original = NULL;
    nx_autograd *autograd;
    NX_TRY(nx__autograd_of(self->base ? self->base : self, &autograd));
    if (reads_written(op, in, needed)) NX_TRY(keep_original(self, &original));
    nx_status status = nx__operator_new(op, in, needed, original, inner);
    nx_tensor_unref(original);
    if (status != NX_OK) return status;
    *out = *inner;
    if (self->base == NULL) return NX_OK;
    status = nx__slices_new(self, *inner, out);
    if (status != NX_OK) nx_grad_node_unref(&(*inner)->node);
    return status;
}

/* Takes `node`. Views that were taken while the base had no history hear of it. */
static void rebase(nx_tensor *self, nx_grad_node *node, int output) {
    nx_tensor *base = self->base ? self->base : self;
    nx_status status = nx_grad_take_node(base, node, output);
    (void)status; /* its record is there: cannot fail */
    base->attr_version++;
    if (base->next_view) nx_tensor_key_views(base, NX_KEY(AUTOGRAD));
    self->keys |= NX_KEY(AUTOGRAD);
}

nx_status nx_grad_set_written(nx_tensor *tensor, nx_grad_node *node, int output) {
    nx_autograd *autograd;
    NX_TRY(nx__autograd_of(tensor, &autograd));
    nx_grad_node_ref(node);
    rebase(tensor, node, output);
    return NX_OK;
}

static nx_status call_in_place(nx_run *run, const nx_value *in, uint64_t needed, nx_value *out) {
    const nx_op_def *def = run->op->def;
    nx_tensor *self = in[0].tensor;
    nx__node *inner, *node;
    if (!nx_is_differentiable((nx_dtype)self->a.dtype)) return go_below(run, in, out);
    if (needed == 0 && !nx__requires_grad(self)) return go_below(run, in, out);
    NX_TRY(nx_grad_check_written(self));
    const nx_op *op = needed ? run->op : nx_known(NX_KNOWN_ZERO); /* truth values have no slope: their history is that of zeros */
    NX_TRY(new_history(op, in, needed ? needed : 1, &inner, &node));
    nx_status status = go_below(run, in, out);
    if (status != NX_OK) {
        nx_grad_node_unref(&node->node);
        return status;
    }
    status = nx__operator_save_results(inner, out);
    if (status != NX_OK) nx__node_stop(&node->node); /* written all the same: its old history would be wrong */
    rebase(self, &node->node, 0);
    if (status != NX_OK) drop_results(def, out);
    return status;
}

/* ---- without a derivative ----------------------------------------------------------------------------- */
/* A derivative that has none itself. Where that is asked for at once, nobody would see later that the gradient goes nowhere. */
static bool ends_formula(const nx_op_def *def) {
    if (NX_LIKELY(nx_thread_get()->for_tangent != NX__FOR_FORMULA) || !def->nograd) return false;
    size_t n = strlen(def->name);
    return n > 9 && strcmp(def->name + n - 9, "_backward") == 0;
}

static nx_status call_without(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_op_def *def = run->op->def;
    if (NX_UNLIKELY(ends_formula(def))) return nx_fail(NX_NOT_IMPLEMENTED, "%s: has no derivative", def->name);
    if (def->nograd && strncmp(def->nograd, "raise ", 6) == 0)
        return nx_fail(NX_RUNTIME, "%s: %s", def->name, def->nograd + 6);
    NX_TRY(go_below(run, in, out));
    if (def->nograd || nx__derivative_of(run->op)) return NX_OK;
    nx_value *results;
    int n = nx_results_of(run->op, out, &results);
    for (int k = 0; k < n; k++) {
        if (results[k].tag != NX_TAG_TENSOR || !nx_is_differentiable((nx_dtype)results[k].array->dtype)) continue;
        drop_results(def, out);
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: its derivative is not implemented: call it under "
                       "torch.no_grad(), or on tensors that do not require grad", def->name);
    }
    return NX_OK;
}

static nx_status call_out(nx_run *run, const nx_value *in, nx_value *out) {
    const char *name;
    int n = base_name(run->op->def, &name);
    for (int k = 0; k < run->op->def->n_in; k++) {
        if (!wants_grad(&in[k])) continue;
        return nx_fail(NX_RUNTIME, "%.*s(): functions with out=... arguments don't support automatic "
                       "differentiation, but one of the arguments requires grad.", n, name);
    }
    return go_below(run, in, out);
}

/* ---- functional --------------------------------------------------------------------------------------- */
static inline bool gets_history(const nx_value *result) {
    bool is_float = result->tag == NX_TAG_TENSOR && nx_is_differentiable((nx_dtype)result->array->dtype);
    return is_float && !nx__requires_grad(result->tensor); /* else: an argument handed back as it is */
}

/* Takes `node`. */
static nx_status give_all_history(nx__node *node, nx_value *out) {
    const nx_op *op = node->node.op;
    uint64_t bare = nx__derivative_of(op)->bare;
    int n_out = nx_results_of(op, out, &out);
    node->node.n_inputs = n_out;
    nx_status status = NX_OK;
    for (int k = 0; k < n_out && status == NX_OK; k++) {
        if ((bare >> (k & 63) & 1) == 0 && gets_history(&out[k])) status = nx_grad_set_node(out[k].tensor, &node->node, k);
    }
    nx_grad_node_unref(&node->node);
    return status;
}

/* Takes `node`. The commonest call counts nothing up and down. */
static inline nx_status give_history(nx__node *node, const nx_op_def *def, nx_value *out) {
    bool is_one = def->n_out == 1 && !(def->flags & NX_OP_LIST) && gets_history(&out[0]);
    return NX_LIKELY(is_one) ? nx__history_take(out[0].tensor, &node->node) : give_all_history(node, out);
}

static nx_status call_functional(nx_run *run, const nx_value *in, uint64_t needed, nx_value *out) {
    const nx_op_def *def = run->op->def;
    nx__node *node;
    NX_TRY(nx__operator_new(run->op, in, needed, NULL, &node));
    nx_status status = go_below(run, in, out);
    if (NX_UNLIKELY(status != NX_OK)) {
        nx_grad_node_unref(&node->node);
        return status;
    }
    if (NX_UNLIKELY(node->wanted != 0)) status = nx__operator_save_results(node, out);
    if (NX_LIKELY(status == NX_OK)) status = give_history(node, def, out);
    else nx_grad_node_unref(&node->node);
    if (status != NX_OK) drop_results(def, out);
    return status;
}

/* Operators that write lists have no derivative: what they write may have no history. */
static nx_status call_lists(nx_run *run, const nx_value *in, nx_value *out) {
    for (int k = 0; k < run->op->def->n_in; k++) {
        if (!run->op->def->params[k].written || !wants_grad(&in[k])) continue;
        return nx_fail(NX_RUNTIME, "%s: a leaf Variable that requires grad is being used in an in-place operation.",
                       run->op->def->name);
    }
    return go_below(run, in, out);
}

nx_status nx_autograd_call(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_op_def *def = run->op->def;
    if (nx_thread_get()->grad_disabled) return go_below(run, in, out);
    uint64_t needed = differentiable(nx__derivative_of(run->op), in);
    if (NX_UNLIKELY(def->variant == NX_OUT)) return call_out(run, in, out);
    if (NX_UNLIKELY(def->n_out == 0)) return call_lists(run, in, out);
    if (NX_UNLIKELY(def->flags & NX_OP_MUTATES)) return call_in_place(run, in, needed, out);
    if (NX_UNLIKELY(needed == 0)) return call_without(run, in, out);
    return call_functional(run, in, needed, out);
}

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_fallback(NX_KEY_AT_AUTOGRAD, nx_autograd_call);
    (void)status; /* a fixed key and function: cannot fail */
}
