/* cond: a call that holds the graphs of two branches, of which an element of a tensor says which one is taken.
 *   narthex::cond(pred, inputs, others, then, else) -> results
 * On tensors the branch that is taken is run as a graph, and what it calls is recorded and differentiated as anything else. Without
 * elements (a trace, AOT) the call stands in the graph, at every level, and has one node of the backward graph, whose backward is a
 * call of the same kind: each branch's graph with its backward, recorded there and then. So both branches are in forward and
 * backward, and nothing is computed of the one that is not taken.
 * What must hold: the branches write nothing that is not theirs and draw nothing, their results are new memory, and of the same
 * number, sizes and dtypes. Read next: record.c, py/notes/region.c. */
#include "pass/private.h"

static const char cond_name[] = "narthex::cond";

const nx_op *nx_cond_op(void) { return nx_op_get(cond_name); }
bool nx_op_is_cond(const nx_op *op) { return op && strcmp(op->def->name, cond_name) == 0; }

static const nx_graph *branch_of(const nx_value *in, bool taken) {
    return nx_graph_of_value(&in[taken ? NX_COND_THEN : NX_COND_ELSE]);
}

static nx_status list_new(int n, nx_value **list, nx_value *out) {
    *list = nx_alloc_zeroed(sizeof **list * (size_t)(n + 1));
    *out = nx_value_list(*list, 0);
    return *list ? NX_OK : nx_fail_memory(sizeof **list * (size_t)n);
}

/* ---- on tensors ---------------------------------------------------------------------------------------------------------- */
/* Whether an element is 0, or -0. */
static bool is_zero(const uint8_t *bytes, nx_dtype dtype) {
    size_t n = nx_dtype_bytes(dtype);
    for (size_t k = 0; k < n; k++) {
        bool has_sign = k == n - 1 && nx_is_float(dtype);
        if (bytes[k] & (has_sign ? 0x7f : 0xff)) return false;
    }
    return true;
}

static nx_status truth_of(nx_tensor *pred, bool *out) {
    nx_tensor *host = NULL;
    NX_TRY(nx_tensor_new(pred->a.dtype, pred->a.ndim, pred->a.sizes, NX_CPU, &host));
    nx_status status = nx_device_copy(host, pred);
    if (status == NX_OK) *out = !is_zero(host->a.data, (nx_dtype)pred->a.dtype);
    nx_tensor_unref(host);
    return status;
}

static nx_status run_branch(const nx_graph *branch, const nx_value *given, nx_value *out) {
    int n = given->n, n_out = nx_graph_output_node(branch)->n_args;
    nx_tensor **inputs = nx_alloc_zeroed(sizeof *inputs * (size_t)(n + n_out + 1)), **results = inputs + n;
    if (inputs == NULL) return nx_fail_memory(sizeof *inputs * (size_t)(n + n_out));
    for (int k = 0; k < n; k++) inputs[k] = given->list[k].tensor;
    nx_value *list;
    nx_status status = list_new(n_out, &list, out);
    if (status == NX_OK) status = nx_graph_run(branch, inputs, n, results, n_out);
    for (int k = 0; k < n_out && status == NX_OK; k++) list[out->n++] = nx_value_tensor(results[k]);
    if (status != NX_OK) nx_value_drop(out);
    nx_free(inputs);
    return status;
}

static nx_status call_taken(nx_run *run, const nx_value *in, nx_value *out) {
    bool taken;
    if (in[NX_COND_PRED].array->numel != 1)
        return nx_fail(NX_RUNTIME, "cond: the condition is a tensor of %lld elements, it must have one",
                       (long long)in[NX_COND_PRED].array->numel);
    NX_TRY(truth_of(in[NX_COND_PRED].tensor, &taken));
    return run_branch(branch_of(in, taken), &in[taken ? NX_COND_INPUTS : NX_COND_OTHERS], out);
}

static nx_status call_fake(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_graph *branch = branch_of(in, true);
    int n = nx_graph_output_node(branch)->n_args;
    nx_value *list;
    nx_status status = list_new(n, &list, out);
    for (int k = 0; k < n && status == NX_OK; k++) {
        const nx_tensor *like = nx_graph_output_fake(branch, k);
        nx_tensor *fake = NULL;
        status = like ? nx_fake_like(like, &fake) : nx_fail(NX_VALUE, "narthex::cond: a result that is no tensor");
        if (status == NX_OK) list[out->n++] = nx_value_tensor(fake);
    }
    if (status != NX_OK) nx_value_drop(out);
    return status;
}

/* ---- the backward ---------------------------------------------------------------------------------------------------------- */
/* What the node keeps: the condition, then `inputs`, then `others`, whose edges it has in that order. */
typedef struct held { nx_tensor *tensor; uint32_t version; } held;
typedef struct kept {
    nx_value then, otherwise;
    int n_inputs, n_held;
    held held[];
} kept;

static void release(nx_grad_node *node) {
    kept *own = node->context;
    while (own->n_held > 0) nx_tensor_unref(own->held[--own->n_held].tensor);
    nx_value_drop(&own->then);
    nx_value_drop(&own->otherwise);
}

static void end(nx_grad_node *node) { nx_free(node->context); }

/* All that the backward of one call works with; tensors are owned. */
typedef struct way {
    const nx_grad_node *node;
    nx_tensor *pred, **saved, **tangents; /* n_edges; one for each result that has a gradient */
    int n_tangents;
} way;

/* The gradients of the inputs first .. first + n of the branch, of zeros where nothing leads there and for the other inputs. */
static nx_status gradients_of(const way *w, const nx_recording *recording, const nx_graph *branch, int first, int n, nx_tensor **out) {
    int n_out = nx_graph_output_node(branch)->n_args, n_roots = 0, n_wanted = 0, tangent = 0;
    size_t room = (size_t)(3 * n_out + 3 * n + 1);
    nx_tensor **inputs = nx_alloc_zeroed(sizeof *inputs * room), **results = inputs + n, **roots = results + n_out;
    if (inputs == NULL) return nx_fail_memory(sizeof *inputs * room);
    nx_tensor **seeds = roots + n_out, **wanted = seeds + n_out, **found = wanted + n;
    for (int k = 0; k < n; k++) inputs[k] = nx_recording_input(recording, k);
    nx_status status = nx_graph_run(branch, inputs, n, results, n_out);
    for (int k = 0; k < n_out && status == NX_OK; k++) {
        if (!nx_is_differentiable((nx_dtype)results[k]->a.dtype)) continue;
        nx_tensor *seed = nx_recording_input(recording, n + tangent++);
        if (!nx_tensor_requires_grad(results[k])) continue;
        roots[n_roots] = results[k];
        seeds[n_roots++] = seed;
    }
    for (int k = 0; k < n; k++) {
        if (w->node->edges[first + k].node) wanted[n_wanted++] = inputs[k];
    }
    if (status == NX_OK && n_roots && n_wanted)
        status = nx_grad_run(roots, seeds, n_roots, false, false, wanted, n_wanted, found);
    for (int e = 0, at = 0, from = 0; e < w->node->n_edges && status == NX_OK; e++) {
        if (w->node->edges[e].node == NULL) continue;
        nx_tensor *own = e >= first && e < first + n ? found[from++] : NULL;
        if (own) out[at++] = nx_tensor_ref(own);
        else status = nx_fake_zeros(w->saved[e], &out[at++]);
    }
    for (int k = 0; k < n_wanted; k++) nx_tensor_unref(found[k]);
    for (int k = 0; k < n_out; k++) nx_tensor_unref(results[k]);
    nx_free(inputs);
    return status;
}

/* The graph of a branch and its backward: its inputs, then the gradients of its results -> the gradients of all edges. */
static nx_status make_joint(const way *w, const nx_graph *branch, int first, int n, int n_grads, nx_value *out) {
    int n_given = n + w->n_tangents;
    nx_tensor **given = nx_alloc_zeroed(sizeof *given * (size_t)(n_given + n_grads + 1)), **grads = given + n_given;
    const char **names = nx_alloc(sizeof *names * (size_t)(n_given + 1));
    nx_recording *recording = NULL;
    nx_graph *graph = NULL;
    nx_status status = given && names ? NX_OK : nx_fail_memory(sizeof *given * (size_t)n_given);
    for (int k = 0; k < n_given && status == NX_OK; k++) {
        names[k] = k < n ? "primals" : "tangents";
        given[k] = k < n ? w->saved[first + k] : w->tangents[k - n];
    }
    if (status == NX_OK) status = nx_recording_begin(given, names, n_given, &recording);
    if (status == NX_OK) {
        nx_grad_set_enabled(true); /* until the recording ends */
        status = gradients_of(w, recording, branch, first, n, grads);
        if (status == NX_OK) status = nx_recording_end(recording, grads, n_grads, &graph);
        else nx_recording_free(recording);
    }
    if (status == NX_OK) status = nx_pass_functionalise(graph);
    if (status == NX_OK) status = nx_value_of_graph(graph, out);
    else nx_graph_free(graph);
    for (int k = 0; k < n_grads && given; k++) nx_tensor_unref(grads[k]);
    nx_free(given);
    nx_free(names);
    return status;
}

/* The call of the two joint graphs. */
static nx_status call_back(const way *w, nx_tensor **grads) {
    const kept *own = w->node->context;
    int n = own->n_inputs, n_others = w->node->n_edges - n, n_grads = 0;
    nx_value then = NX_VALUE_NONE, otherwise = NX_VALUE_NONE, in[NX_COND_N_ARGS], out;
    for (int e = 0; e < w->node->n_edges; e++) n_grads += w->node->edges[e].node != NULL;
    nx_value *lists = nx_alloc_zeroed(sizeof *lists * (size_t)(n + n_others + 2 * w->n_tangents + 1));
    nx_value *others = lists ? lists + n + w->n_tangents : NULL;
    nx_status status = lists ? NX_OK : nx_fail_memory(sizeof *lists * (size_t)w->node->n_edges);
    if (status == NX_OK) status = make_joint(w, nx_graph_of_value(&own->then), 0, n, n_grads, &then);
    if (status == NX_OK) status = make_joint(w, nx_graph_of_value(&own->otherwise), n, n_others, n_grads, &otherwise);
    for (int k = 0; k < n && status == NX_OK; k++) lists[k] = nx_value_tensor(w->saved[k]);
    for (int k = 0; k < n_others && status == NX_OK; k++) others[k] = nx_value_tensor(w->saved[n + k]);
    for (int k = 0; k < w->n_tangents && status == NX_OK; k++)
        lists[n + k] = others[n_others + k] = nx_value_tensor(w->tangents[k]);
    if (status == NX_OK) {
        in[NX_COND_PRED] = nx_value_tensor(w->pred);
        in[NX_COND_INPUTS] = nx_value_list(lists, n + w->n_tangents);
        in[NX_COND_OTHERS] = nx_value_list(others, n_others + w->n_tangents);
        in[NX_COND_THEN] = then;
        in[NX_COND_ELSE] = otherwise;
        status = nx_op_call(nx_cond_op(), in, &out);
    }
    if (status == NX_OK) {
        for (int e = 0, at = 0; e < w->node->n_edges; e++)
            if (w->node->edges[e].node) grads[e] = nx_tensor_ref(out.list[at++].tensor);
        nx_value_drop(&out);
    }
    nx_value_drop(&then);
    nx_value_drop(&otherwise);
    nx_free(lists);
    return status;
}

static nx_status gather(way *w, nx_tensor *const *g) {
    const kept *own = w->node->context;
    const nx_graph *branch = nx_graph_of_value(&own->then);
    for (int k = 0; k < own->n_held; k++) {
        const held *at = &own->held[k];
        const nx_autograd *made = at->tensor->autograd;
        NX_TRY(nx_grad_check_version(at->tensor, at->version, made ? made->node : NULL, made ? made->output : 0));
        *(k ? &w->saved[k - 1] : &w->pred) = nx_tensor_ref(at->tensor);
    }
    for (int k = 0; k < w->node->n_inputs; k++) {
        const nx_tensor *like = nx_graph_output_fake(branch, k);
        if (!nx_is_differentiable((nx_dtype)like->a.dtype)) continue;
        if (g[k]) w->tangents[w->n_tangents] = nx_tensor_ref(g[k]);
        else NX_TRY(nx_fake_zeros(like, &w->tangents[w->n_tangents]));
        w->n_tangents++;
    }
    return NX_OK;
}

static nx_status apply(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    size_t n = (size_t)(node->n_edges + node->n_inputs + 1);
    way w = {.node = node, .saved = nx_alloc_zeroed(sizeof *w.saved * n)};
    if (w.saved == NULL) return nx_fail_memory(sizeof *w.saved * n);
    w.tangents = w.saved + node->n_edges;
    nx_status status = gather(&w, g);
    if (status == NX_OK) status = call_back(&w, grads);
    for (size_t k = 0; k < n; k++) nx_tensor_unref(w.saved[k]);
    nx_tensor_unref(w.pred);
    nx_free(w.saved);
    return status;
}

static const nx_grad_class class = {"CondBackward", apply, release, end};

/* They are fakes of a trace, which packs nothing. */
static void hold(kept *own, nx_tensor *tensor) {
    own->held[own->n_held++] = (held){nx_tensor_ref(tensor), nx_tensor_version(tensor)};
}

static nx_status add_input(nx_grad_node *node, int e, nx_tensor *tensor) {
    hold(node->context, tensor);
    return nx_tensor_requires_grad(tensor) ? nx_grad_edge(tensor, &node->edges[e]) : NX_OK;
}

static nx_status make_node(const nx_value *in, int n_results, nx_grad_node **out) {
    const nx_value *inputs = &in[NX_COND_INPUTS], *others = &in[NX_COND_OTHERS];
    int n = inputs->n + others->n;
    kept *own = nx_alloc_zeroed(sizeof *own + sizeof(held) * (size_t)(n + 1));
    nx_grad_node *node = NULL;
    if (own == NULL) return nx_fail_memory(sizeof *own);
    own->n_inputs = inputs->n;
    nx_status status = nx_grad_node_new(&class, n_results, n, own, &node);
    if (status != NX_OK) return nx_free(own), status;
    NX_TRY_FAIL(nx_value_keep(&in[NX_COND_THEN], &own->then));
    NX_TRY_FAIL(nx_value_keep(&in[NX_COND_ELSE], &own->otherwise));
    hold(own, in[NX_COND_PRED].tensor);
    for (int k = 0; k < inputs->n; k++) NX_TRY_FAIL(add_input(node, k, inputs->list[k].tensor));
    for (int k = 0; k < others->n; k++) NX_TRY_FAIL(add_input(node, inputs->n + k, others->list[k].tensor));
    *out = node;
    return NX_OK;
fail:
    nx_grad_node_unref(node);
    return status;
}

static bool any_requires_grad(const nx_value *list) {
    for (int k = 0; k < list->n; k++) {
        if (nx_tensor_requires_grad(list->list[k].tensor)) return true;
    }
    return false;
}

static nx_status call_recorded(nx_run *run, const nx_value *in, nx_value *out) {
    nx_grad_node *node = NULL;
    if (!nx_tensor_is_fake(in[NX_COND_PRED].tensor)) return call_taken(run, in, out);
    NX_TRY(nx_redispatch(run->op, run->keys, NX_KEY_AT_AUTOGRAD, in, out));
    bool recorded = nx_grad_enabled() && (any_requires_grad(&in[NX_COND_INPUTS]) || any_requires_grad(&in[NX_COND_OTHERS]));
    nx_status status = recorded ? make_node(in, out->n, &node) : NX_OK;
    for (int k = 0; node && k < out->n && status == NX_OK; k++) {
        nx_tensor *result = out->list[k].tensor;
        if (nx_is_differentiable((nx_dtype)result->a.dtype)) status = nx_grad_set_node(result, node, k);
    }
    nx_grad_node_unref(node);
    if (status != NX_OK) nx_value_drop(out);
    return status;
}

/* ---- the operator ---------------------------------------------------------------------------------------------------------- */
static const nx_param params[] = {
    [NX_COND_PRED] = {.name = "pred", .type = NX_TYPE_TENSOR},      [NX_COND_INPUTS] = {.name = "inputs", .type = NX_TYPE_TENSORS},
    [NX_COND_OTHERS] = {.name = "others", .type = NX_TYPE_TENSORS}, [NX_COND_THEN] = {.name = "then", .type = NX_TYPE_GRAPH},
    [NX_COND_ELSE] = {.name = "otherwise", .type = NX_TYPE_GRAPH},
};
static const nx_op_def def = {.name = cond_name,
                              .schema = "narthex::cond(Tensor pred, Tensor[] inputs, Tensor[] others, Graph then, Graph otherwise) -> "
                                        "Tensor[]",
                              .kind = NX_KIND_COMPOSED,
                              .flags = NX_OP_LIST,
                              .n_in = NX_COND_N_ARGS,
                              .n_out = 1,
                              .params = params,
                              .compose = call_taken};

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_def(&def);
    if (status == NX_OK) status = nx_library_impl(cond_name, NX_KEY_AT_FAKE, call_fake);
    if (status == NX_OK) status = nx_library_impl(cond_name, NX_KEY_AT_AUTOGRAD, call_recorded);
    (void)status; /* fixed entries, defined once */
}
