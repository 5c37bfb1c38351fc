/* Results of a compiled graph that are an input, or a view of one: the call returns the input itself, or
 * takes the view again, operator by operator, on the real input. So it shares memory and history with it, as
 * in eager mode. */
#include "compile/private.h"

/* The value that input `k` has at the end of the forward: itself, or what is copied back into it. */
static bool is_input_value(const nx_aot *aot, const nx_value *value, int k) {
    const nx_node *output = nx_graph_output_node(aot->forward);
    if (value->node->kind == NX_NODE_PLACEHOLDER) return nx__graph_input_index(value->node) == k;
    for (int i = 0; i < aot->n_mutated; i++) {
        const nx_value *written = &output->args[aot->n_outputs + i];
        bool is_written = written->tag == NX_TAG_NODE && written->node == value->node &&
            written->n == value->n;
        if (aot->mutated[i] == k && is_written) return true;
    }
    return false;
}

/* The operator's one tensor argument, when it is a view; NULL. */
static const nx_value *viewed(const nx_node *node) {
    bool is_view = node->op && node->op->def->kind == NX_KIND_VIEW && node->n_args > 0;
    return is_view && node->args[0].tag == NX_TAG_NODE ? &node->args[0] : NULL;
}

static int count_steps(const nx_aot *aot, const nx_value *value, int input) {
    int n = 0;
    while (value && !is_input_value(aot, value, input)) {
        value = viewed(value->node);
        n++;
    }
    return value ? n : -1;
}

nx_status nx__alias_find(const nx_aot *aot, int output, nx__alias *out) {
    const nx_value *value = &nx_graph_output_node(aot->forward)->args[output];
    *out = (nx__alias){.input = aot->alias_of ? aot->alias_of[output] : -1};
    out->is_same = out->input >= 0 && aot->same_as_input[output];
    if (out->input < 0 || out->is_same) return NX_OK;
    int n = value->tag == NX_TAG_NODE ? count_steps(aot, value, out->input) : -1;
    if (n < 0) {
        return nx_fail(NX_NOT_IMPLEMENTED, "compile: result %d is a view of input %d that cannot be made "
                       "again from it: return a copy",
                       output, out->input);
    }
    out->steps = nx_alloc(sizeof *out->steps * (size_t)(n + 1));
    if (out->steps == NULL) return nx_fail_memory(sizeof *out->steps * (size_t)(n + 1));
    for (out->n_steps = n; n > 0; n--, value = viewed(value->node)) out->steps[n - 1] = *value;
    return NX_OK;
}

static nx_status take_view(const nx_value *view, nx_tensor *from, nx_tensor **out) {
    const nx_node *step = view->node;
    nx_value in[64], result = NX_VALUE_NONE, *results;
    if (step->n_args > NX_COUNT(in)) return nx_fail(NX_RUNTIME, "%s: too many arguments", step->name);
    for (int k = 0; k < step->n_args; k++) in[k] = step->args[k];
    in[0] = nx_value_tensor(from);
    NX_TRY(nx_op_call(step->op, in, &result));
    nx_results_of(step->op, &result, &results);
    *out = nx_tensor_ref(results[view->n].tensor);
    nx_value_drop(&result);
    return NX_OK;
}

nx_status nx__alias_make(const nx__alias *alias, nx_tensor *input, nx_tensor **out) {
    nx_tensor *at = nx_tensor_ref(input);
    for (int k = 0; k < alias->n_steps; k++) {
        nx_tensor *view = NULL;
        nx_status status = take_view(&alias->steps[k], at, &view);
        nx_tensor_unref(at);
        if (status != NX_OK) return status;
        at = view;
    }
    *out = at;
    return NX_OK;
}
