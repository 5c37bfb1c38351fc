/* A backward that the captured program runs itself, as one call of its graph: narthex::backward(roots, seeds, wanted, retain, create)
 * -> gradients, of what is wanted, None where there is none; and narthex::leaf(source), a leaf that it makes for that. Whoever
 * interprets the graph with gradients on (aot.c on fakes) gets the operators of the formulas there; the operators themselves
 * dissolve. So a graph whose sizes are open knows nothing of what a formula reads of sizes: for those of a call it is fitted, and
 * differentiated then.
 * What must hold: results have the sizes of what is wanted; how they lie in memory only the formulas tell, so a fit asks them.
 * Next: ints.c, py/notes/leaves.c. */
#include "ir/private.h"

/* ---- the operator ---------------------------------------------------------------------------- */
/* Without a history, by the sizes alone. */
static nx_status make_like(const nx_value *wanted, nx_value *list) {
    for (; list->n < wanted->n; list->n++) {
        nx_meta meta;
        nx_tensor *fake;
        nx_meta_of(&wanted->list[list->n].tensor->a, &meta);
        nx_meta_contiguous(&meta);
        NX_TRY(nx_fake_new(&meta, 0, &fake));
        ((nx_value *)list->list)[list->n] = nx_value_tensor(fake);
    }
    return NX_OK;
}

static nx_status differentiate(const nx_value *in, nx_value *list) {
    const nx_value *roots = &in[NX_BACKWARD_ROOTS], *seeds = &in[NX_BACKWARD_SEEDS], *wanted = &in[NX_BACKWARD_WANTED];
    size_t bytes = sizeof(nx_tensor *) * (size_t)(2 * roots->n + 2 * wanted->n + 1);
    if (seeds->n != roots->n) return nx_fail(NX_VALUE, "narthex::backward: %d roots and %d gradients", roots->n, seeds->n);
    nx_tensor **of = nx_alloc_zeroed(bytes), **g = of + roots->n, **to = g + roots->n, **found = to + wanted->n;
    if (of == NULL) return nx_fail_memory(bytes);
    for (int k = 0; k < roots->n; k++) {
        of[k] = roots->list[k].tensor;
        g[k] = seeds->list[k].tag == NX_TAG_TENSOR ? seeds->list[k].tensor : NULL;
    }
    for (int k = 0; k < wanted->n; k++) to[k] = wanted->list[k].tensor;
    nx_status status = nx_grad_run(of, g, roots->n, in[NX_BACKWARD_RETAIN].i, in[NX_BACKWARD_CREATE].i, to, wanted->n, found);
    for (int k = 0; k < wanted->n && status == NX_OK; k++)
        ((nx_value *)list->list)[list->n++] = found[k] ? nx_value_tensor(found[k]) : NX_VALUE_NONE;
    nx_free(of);
    return status;
}

static bool is_recorded(void) { return !(nx_thread_get()->keys_excluded & NX_KEY(AUTOGRAD)); }

static nx_status run_backward(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_value *wanted = &in[NX_BACKWARD_WANTED];
    nx_value *list = nx_alloc_zeroed(sizeof *list * (size_t)(wanted->n + 1));
    if (list == NULL) return nx_fail_memory(sizeof *list * (size_t)wanted->n);
    *out = nx_value_list(list, 0);
    nx_status status = is_recorded() ? differentiate(in, out) : make_like(wanted, out);
    if (status != NX_OK) nx_value_drop(out);
    return status;
}

static const nx_param params[] = {
    [NX_BACKWARD_ROOTS] = {.name = "roots", .type = NX_TYPE_TENSORS},
    [NX_BACKWARD_SEEDS] = {.name = "seeds", .type = NX_TYPE_TENSORS, .optional_elements = true},
    [NX_BACKWARD_WANTED] = {.name = "wanted", .type = NX_TYPE_TENSORS},
    [NX_BACKWARD_RETAIN] = {.name = "retain", .type = NX_TYPE_BOOL},
    [NX_BACKWARD_CREATE] = {.name = "create", .type = NX_TYPE_BOOL},
};
static const nx_op_def def = {.name = "narthex::backward",
                              .schema = "narthex::backward(Tensor[] roots, Tensor?[] seeds, Tensor[] wanted, bool retain, bool create) -> "
                                        "Tensor[]",
                              .kind = NX_KIND_COMPOSED,
                              .flags = NX_OP_LIST,
                              .n_in = NX_BACKWARD_N_ARGS,
                              .n_out = 1,
                              .params = params,
                              .compose = run_backward,
                              .dissolves = true};

/* Another tensor over its memory, by which can be differentiated, and which may be written as any. */
static nx_status make_leaf(nx_run *run, const nx_value *in, nx_value *out) {
    nx_tensor *made;
    NX_TRY(nx_tensor_alias(in[0].tensor, &made));
    nx_status status = is_recorded() ? nx_grad_stand_in(made, NULL) : NX_OK;
    if (status == NX_OK) *out = nx_value_tensor(made);
    else nx_tensor_unref(made);
    return status;
}

static const nx_param leaf_params[] = {{.name = "source", .type = NX_TYPE_TENSOR}};
static const nx_op_def leaf_def = {.name = "narthex::leaf", .schema = "narthex::leaf(Tensor source) -> Tensor", .kind = NX_KIND_COMPOSED,
                                   .n_in = 1, .n_out = 1, .params = leaf_params, .compose = make_leaf, .dissolves = true};

const nx_op *nx_leaf_op(void) { return nx_op_get(leaf_def.name); }
const nx_op *nx_backward_op(void) { return nx_op_get(def.name); }
bool nx_op_is_backward(const nx_op *op) { return op && op->def == &def; }

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_def(&def);
    if (status == NX_OK) status = nx_library_def(&leaf_def);
    (void)status; /* fixed entries, defined once */
}

/* ---- for other sizes ------------------------------------------------------------------------- */
nx_status nx_fake_leaf(nx_tensor *input, nx_tensor **leaf) {
    NX_TRY(nx_fake_like(input, leaf));
    NX_TRY(nx_tensor_set_requires_grad(*leaf, true));
    return nx_grad_stand_in(input, *leaf);
}

static nx_status fake_attribute(void *context, const nx_node *node, nx_tensor **out) {
    return node->fakes[0] ? nx_fake_of(node->fakes[0], out) : nx_fail(NX_RUNTIME, "graph: the type of %s is not known", node->name);
}

static nx_status run_so_far(const nx_graph *graph, nx_tensor **inputs, nx_tensor **out, int n_out) {
    int k = 0;
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->kind != NX_NODE_PLACEHOLDER) continue;
        nx_tensor *leaf = NULL;
        NX_TRY(nx_fake_of(node->fakes[0], &inputs[k]));
        nx_status status = nx_tensor_requires_grad(node->fakes[0]) ? nx_fake_leaf(inputs[k], &leaf) : NX_OK;
        nx_tensor_unref(leaf); /* the input's history has it */
        if (status != NX_OK) return status;
        k++;
    }
    return nx_graph_retrace(graph, inputs, graph->n_inputs, fake_attribute, NULL, out, n_out);
}

/* The graph ends with `node` for now. */
static nx_status run_to(nx_node *node, nx_tensor **inputs, nx_tensor **out, nx_value *results) {
    for (int k = 0; k < node->n_results; k++) results[k] = nx_value_node(node, k);
    NX_TRY(nx_graph_output(node->graph, results, node->n_results));
    nx_status status = run_so_far(node->graph, inputs, out, node->n_results);
    nx_node_erase(nx_graph_output_node(node->graph));
    return status;
}

nx_status nx__infer_backward(nx_node *node, nx__fakes *out) {
    nx_thread *thread = nx_thread_get();
    uint64_t included = thread->keys_included, excluded = thread->keys_excluded;
    bool enabled = nx_grad_enabled();
    int n = node->args[NX_BACKWARD_WANTED].n, n_inputs = node->graph->n_inputs;
    size_t bytes = sizeof(nx_tensor *) * (size_t)(n_inputs + n + 1);
    nx_tensor **inputs = nx_alloc_zeroed(bytes), **found = inputs + n_inputs;
    nx_value *results = nx_alloc(sizeof *results * (size_t)(n + 1));
    nx_status status = inputs && results ? nx__node_set_count(node, n) : nx_fail_memory(bytes);
    thread->keys_included = NX_KEY(FAKE);
    thread->keys_excluded = NX_KEY(CAPTURE) | NX_KEY(TRACE);
    nx_grad_set_enabled(true);
    if (status == NX_OK) status = run_to(node, inputs, found, results);
    thread->keys_included = included;
    thread->keys_excluded = excluded;
    nx_grad_set_enabled(enabled);
    out->n = status == NX_OK ? n : 0;
    out->at = n <= NX_COUNT(out->few) ? out->few : nx_alloc(sizeof *out->at * (size_t)n);
    if (out->at == NULL) out->at = out->few, out->n = 0, status = nx_fail_memory(bytes);
    for (int k = 0; k < out->n; k++) out->at[k] = NULL;
    for (int k = 0; k < out->n && status == NX_OK; k++) status = found[k] ? nx_fake_of(found[k], &out->at[k]) : NX_OK;
    for (int k = 0; inputs && k < n_inputs + n; k++) nx_tensor_unref(inputs[k]);
    nx_free(inputs);
    nx_free(results);
    return status;
}
