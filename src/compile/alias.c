/* Results of a compiled graph that are an input, or a view of one: the call returns the input itself, or
 * takes the view again, operator by operator, on the real input. So it shares memory and history with it, as
 * in eager mode. A view of a view is taken of that one: each operator runs once a call. */
#include "compile/private.h"

typedef struct finder {
    const nx_aot *aot;
    nx__views *aliases;
    const nx_value *written; /* n_mutated: what is copied into the inputs */
    nx_map taken;            /* node -> the first tensor that it gives, plus one */
    NX_VEC(const nx_value *) chain;
} finder;

/* The value that input `k` has at the end of the forward: itself, or what is copied back into it. Of a value that several
 * inputs get, each asks for itself. */
static bool is_input_value(const finder *f, const nx_value *value, int k, int place) {
    if (value->node->kind == NX_NODE_PLACEHOLDER) return value->node->order == k; /* they stand first */
    const nx_value *written = place < 0 ? NULL : &f->written[place];
    return written && written->tag == NX_TAG_NODE && written->node == value->node && written->n == value->n;
}

/* The operator's one tensor argument, when it is a view; NULL. */
static const nx_value *viewed(const nx_node *node) {
    bool is_view = node->op && node->op->def->kind == NX_KIND_VIEW && node->n_args > 0;
    return is_view && node->args[0].tag == NX_TAG_NODE ? &node->args[0] : NULL;
}

/* The tensor that is `value` if somebody takes that view, -1. */
static int find_taken(const finder *f, const nx_value *value, int input) {
    int first = (int)(intptr_t)nx_map_get(&f->taken, value->node) - 1;
    for (int low = 0, high = f->aliases->views.n; first >= 0 && low < high;) {
        int middle = (low + high) / 2;
        const nx__view *view = &f->aliases->views.at[middle];
        if (view->first == first) return view->input == input ? first + value->n : -1;
        if (view->first < first) low = middle + 1;
        else high = middle;
    }
    return -1;
}

/* Takes the view `value` of tensor *from, which it becomes. */
static nx_status take(finder *f, const nx_value *value, int input, bool shares, int *from) {
    nx__views *a = f->aliases;
    nx__view view = {value->node, *from, input, a->given.n};
    NX_TRY(nx_vec_push(&a->views, view));
    for (int r = 0; r < value->node->n_results; r++) NX_TRY(nx_vec_push(&a->given, false));
    if (shares && find_taken(f, value, input) < 0) NX_TRY(nx_map_set(&f->taken, value->node, (void *)(intptr_t)(view.first + 1)));
    *from = view.first + value->n;
    return NX_OK;
}

/* The views that lead to `value`, but for those that are taken anyway; *out: the last one's tensor, -2: there are none. What gets a
 * history of the graph's own is nobody else's, and a second output of one value is another tensor. */
static nx_status find_views(finder *f, const nx_value *value, int input, int place, bool shares, int *out) {
    bool found = false;
    f->chain.n = 0;
    *out = -1;
    for (; value && !found; value = viewed(value->node)) {
        int at = find_taken(f, value, input);
        bool is_own = f->chain.n == 0;
        if (is_input_value(f, value, input, place)) {
            found = true;
        } else if (at >= 0 && (!is_own || (shares && !f->aliases->given.at[at]))) {
            *out = at;
            found = true;
        } else {
            NX_TRY(nx_vec_push(&f->chain, value));
        }
    }
    if (!found) *out = -2;
    for (int i = f->chain.n - 1; i >= 0 && found; i--) NX_TRY(take(f, f->chain.at[i], input, i > 0 || shares, out));
    if (*out >= 0) f->aliases->given.at[*out] = true;
    return NX_OK;
}

static nx_status find_alias(finder *f, int output, int place) {
    const nx_aot *aot = f->aot;
    const nx_value *value = &nx_graph_output_node(aot->forward)->args[output];
    nx__alias *alias = &f->aliases->of[output];
    *alias = (nx__alias){aot->alias_of ? aot->alias_of[output] : -1, -1};
    if (alias->input < 0 || aot->same_as_input[output]) return NX_OK;
    alias->view = -2;
    if (value->tag == NX_TAG_NODE)
        NX_TRY(find_views(f, value, alias->input, place, !aot->output_requires_grad[output], &alias->view));
    if (alias->view != -2) return NX_OK;
    return nx_fail(NX_NOT_IMPLEMENTED, "compile: result %d is a view of input %d that cannot be made again from it: return a copy",
                   output, alias->input);
}

nx_status nx__views_find(const nx_aot *aot, nx__views *out) {
    finder f = {.aot = aot, .aliases = out, .written = nx_graph_output_node(aot->forward)->args + aot->n_outputs};
    size_t bytes = sizeof *out->of * (size_t)(aot->n_outputs + 1), n_places = sizeof(int) * (size_t)(aot->n_inputs + 1);
    int *place_of = nx_alloc(n_places); /* by input: its place among the written, -1 */
    nx_status status = place_of && (out->of = nx_alloc_zeroed(bytes)) ? NX_OK : nx_fail_memory(bytes + n_places);
    nx_graph_number(aot->forward);
    for (int i = 0; i < aot->n_inputs && status == NX_OK; i++) place_of[i] = -1;
    for (int i = aot->n_mutated - 1; i >= 0 && status == NX_OK; i--) place_of[aot->mutated[i]] = i;
    for (int i = 0; i < aot->n_outputs && status == NX_OK; i++) {
        int input = aot->alias_of ? aot->alias_of[i] : -1;
        status = find_alias(&f, i, input < 0 ? -1 : place_of[input]);
    }
    nx_map_free(&f.taken);
    nx_vec_free(&f.chain);
    nx_free(place_of);
    return status;
}

void nx__views_free(nx__views *aliases) {
    nx_free(aliases->of);
    nx_vec_free(&aliases->views);
    nx_vec_free(&aliases->given);
}

static nx_status take_view(const nx_node *step, nx_tensor *from, nx_tensor **out) {
    nx_value in[64], result = NX_VALUE_NONE, *results;
    if (step->n_args > NX_COUNT(in)) return nx_fail(NX_RUNTIME, "%s: too many arguments", step->name);
    for (int k = 0; k < step->n_args; k++) in[k] = step->args[k];
    in[0] = nx_value_tensor(from);
    NX_TRY(nx_op_call(step->op, in, &result));
    int n = nx_results_of(step->op, &result, &results);
    assert(n == step->n_results);
    for (int k = 0; k < n; k++) out[k] = nx_tensor_ref(results[k].tensor);
    nx_value_drop(&result);
    return NX_OK;
}

nx_status nx__views_take(const nx__views *aliases, nx_tensor *const *inputs, nx_tensor **out) {
    for (int i = 0; i < aliases->given.n; i++) out[i] = NULL;
    for (int i = 0; i < aliases->views.n; i++) {
        const nx__view *view = &aliases->views.at[i];
        nx_status status = take_view(view->node, view->from < 0 ? inputs[view->input] : out[view->from], &out[view->first]);
        if (status == NX_OK) continue;
        for (int k = 0; k < view->first; k++) nx_tensor_unref(out[k]);
        return status;
    }
    return NX_OK;
}
