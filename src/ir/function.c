/* A function with a backward of its own in a captured graph: what becomes of an autograd.Function that a trace follows.
 * Its forward stands in the graph like other calls. Behind it stands narthex::function, which makes of the forward's results
 * tensors with a history: one node of the backward graph, which runs the graph of the backward. So whoever interprets a captured
 * graph with gradients (aot.c on fakes, nx_graph_run on tensors) gets that backward, and at lower levels its operators stand among
 * the others: the operator itself dissolves.
 * What must hold: a result is another tensor over the forward's memory, so that what the node reads holds no tensor that holds
 * the node. A graph among the arguments never changes. Next: ir.h. */
#include "ir/private.h"

typedef struct body { nx_shared shared; nx_graph *graph; } body;

static void free_body(nx_shared *shared) {
    body *own = (body *)shared;
    nx_graph_free(own->graph);
    nx_free(own);
}

nx_status nx_value_of_graph(nx_graph *graph, nx_value *out) {
    body *own = nx_alloc(sizeof *own);
    if (own == NULL) {
        nx_graph_free(graph);
        return nx_fail_memory(sizeof *own);
    }
    nx_count_start(&own->shared.refs);
    own->shared.free = free_body;
    own->graph = graph;
    nx_graph_number(graph);
    *out = (nx_value){.tag = NX_TAG_GRAPH, .shared = &own->shared};
    return NX_OK;
}

const nx_graph *nx_graph_of_value(const nx_value *value) { return ((const body *)value->shared)->graph; }

/* ---- the node ---------------------------------------------------------------------------------------------------------- */
typedef struct read {
    nx_tensor *tensor;
    nx_saved *packed;
    uint32_t version;
    bool checked;
    int result;           /* it is that result of the forward, without a history; -1 */
} read;
typedef struct tied {
    nx_grad_class class;  /* of this node alone: it carries the name */
    nx_value backward;    /* kept */
    int n_reads;
    bool once;            /* the backward may not be differentiated */
    int64_t *gives;       /* n_edges */
    char *name;
    read reads[];
} tied;

static void release(nx_grad_node *node) {
    tied *t = node->context;
    for (int k = 0; k < t->n_reads; k++) {
        nx_tensor_unref(t->reads[k].tensor);
        if (t->reads[k].packed) nx_saved_free(t->reads[k].packed);
    }
    t->n_reads = 0;
    nx_value_drop(&t->backward);
}

static void end(nx_grad_node *node) {
    nx_free(node->context);
}

/* Where the backward is differentiated: what it reads of the results depends on the inputs as they do. */
static nx_status give_histories(nx_grad_node *node, nx_tensor **reads) {
    const tied *t = node->context;
    for (int k = 0; k < t->n_reads; k++) {
        nx_tensor *made, *before = reads[k];
        if (t->reads[k].result < 0) continue;
        NX_TRY(nx_tensor_alias(before, &made));
        reads[k] = made;
        nx_tensor_unref(before);
        NX_TRY(nx_grad_set_node(made, node, t->reads[k].result));
    }
    return NX_OK;
}

/* The inputs of the backward's graph: new references. */
static nx_status gather(nx_grad_node *node, nx_tensor *const *g, nx_tensor **inputs) {
    const tied *t = node->context;
    const nx_node *placeholder = nx_graph_of_value(&t->backward)->first;
    for (int k = 0; k < node->n_inputs; k++, placeholder = placeholder->next) {
        if (g[k]) inputs[k] = nx_tensor_ref(g[k]);
        else NX_TRY(nx_fake_zeros(placeholder->fakes[0], &inputs[k]));
    }
    for (int k = 0; k < t->n_reads; k++) {
        const read *at = &t->reads[k];
        nx_tensor **to = &inputs[node->n_inputs + k];
        if (at->packed) {
            NX_TRY(nx_saved_take(at->packed, to));
            continue;
        }
        const nx_autograd *made = at->tensor->autograd;
        if (at->checked) NX_TRY(nx_grad_check_version(at->tensor, at->version, made ? made->node : NULL, made ? made->output : 0));
        *to = nx_tensor_ref(at->tensor);
    }
    return nx_grad_enabled() ? give_histories(node, inputs + node->n_inputs) : NX_OK;
}

static nx_status apply(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    tied *t = node->context;
    const nx_graph *backward = nx_graph_of_value(&t->backward);
    if (nx_grad_enabled() && t->once)
        return nx_fail(NX_RUNTIME, "trying to differentiate twice a function that was marked with @once_differentiable (%s)",
                       t->class.name);
    int n = backward->n_inputs, n_out = nx_graph_output_node(backward)->n_args;
    nx_tensor **inputs = nx_alloc_zeroed(sizeof *inputs * (size_t)(n + n_out + 1)), **out = inputs + n;
    if (inputs == NULL) return nx_fail_memory(sizeof *inputs * (size_t)(n + n_out));
    nx_status status = gather(node, g, inputs);
    if (status == NX_OK) status = nx_graph_run(backward, inputs, n, out, n_out);
    for (int e = 0; status == NX_OK && e < node->n_edges; e++) {
        if (t->gives[e] >= 0) grads[e] = nx_tensor_ref(out[t->gives[e]]);
    }
    for (int k = 0; k < n + n_out; k++) nx_tensor_unref(inputs[k]);
    nx_free(inputs);
    return status;
}

static int find_result(const nx_value *results, const nx_tensor *tensor) {
    for (int k = 0; k < results->n; k++) {
        if (results->list[k].tensor == tensor) return k;
    }
    return -1;
}

/* The backward for the numbers and shapes of now, while a trace leaves them open. */
static nx_status fit_to_now(const nx_value *in, nx_value *out) {
    const nx_value *lists[] = {&in[NX_FUNCTION_RESULTS], &in[NX_FUNCTION_READS]}, *numbers = &in[NX_FUNCTION_NUMBERS];
    int n = lists[0]->n + lists[1]->n, k = 0;
    size_t bytes = sizeof(nx_tensor *) * (size_t)(n + 1) + sizeof(nx_value) * (size_t)numbers->n;
    nx_value *given = nx_alloc_zeroed(bytes);
    if (given == NULL) return nx_fail_memory(bytes);
    nx_tensor **fakes = (nx_tensor **)(given + numbers->n);
    nx_graph *fitted;
    nx_status status = NX_OK;
    for (; k < n && status == NX_OK; k++) {
        const nx_value *list = lists[k >= lists[0]->n];
        status = nx_fake_like(list->list[list == lists[0] ? k : k - lists[0]->n].tensor, &fakes[k]);
    }
    for (k = 0; k < numbers->n; k++) {
        given[k] = numbers->list[k];
        given[k].n = 0;
    }
    const nx_fit to = {.inputs = fakes, .n_inputs = n, .given = given, .n_given = numbers->n};
    if (status == NX_OK) status = nx_graph_fit(nx_graph_of_value(&in[NX_FUNCTION_BACKWARD]), &to, NULL, &fitted);
    if (status == NX_OK) status = nx_value_of_graph(fitted, out);
    for (k = 0; k < n; k++) nx_tensor_unref(fakes[k]);
    nx_free(given);
    return status;
}

/* Its edges lead to what the inputs are results of. */
static nx_status make_node(const nx_value *in, nx_grad_node **out) {
    const nx_value *inputs = &in[NX_FUNCTION_INPUTS], *reads = &in[NX_FUNCTION_READS], *gives = &in[NX_FUNCTION_GIVES];
    size_t ints = sizeof(int64_t) * (size_t)inputs->n, held = sizeof(read) * (size_t)reads->n;
    size_t bytes = sizeof(tied) + held + ints + strlen(in[NX_FUNCTION_NAME].str) + 1;
    tied *t = nx_alloc_zeroed(bytes);
    if (t == NULL) return nx_fail_memory(bytes);
    t->gives = (int64_t *)((char *)(t + 1) + held);
    t->name = (char *)t->gives + ints;
    strcpy(t->name, in[NX_FUNCTION_NAME].str);
    if (ints) memcpy(t->gives, gives->ints, ints);
    t->once = in[NX_FUNCTION_ONCE].i != 0;
    t->class = (nx_grad_class){t->name, apply, release, end};
    nx_grad_node *node = NULL;
    nx_status status = nx_grad_node_new(&t->class, in[NX_FUNCTION_RESULTS].n, inputs->n, t, &node);
    if (status != NX_OK) {
        nx_free(t);
        return status;
    }
    NX_TRY_FAIL(in[NX_FUNCTION_NUMBERS].n ? fit_to_now(in, &t->backward) : nx_value_keep(&in[NX_FUNCTION_BACKWARD], &t->backward));
    for (int k = 0; k < reads->n; k++) {
        read *at = &t->reads[t->n_reads++];
        nx_tensor *tensor = reads->list[k].tensor;
        at->checked = in[NX_FUNCTION_CHECKED].ints[k] != 0;
        at->result = find_result(&in[NX_FUNCTION_RESULTS], tensor);
        if (at->checked) NX_TRY_FAIL(nx_saved_new(tensor, false, &at->packed));
        if (at->packed == NULL) at->tensor = nx_tensor_ref(tensor);
        at->version = nx_tensor_version(tensor);
    }
    for (int e = 0; e < inputs->n; e++) {
        nx_tensor *input = inputs->list[e].tag == NX_TAG_TENSOR ? inputs->list[e].tensor : NULL;
        if (input && t->gives[e] >= 0) NX_TRY_FAIL(nx_grad_edge(input, &node->edges[e]));
    }
    *out = node;
    return NX_OK;
fail:
    nx_grad_node_unref(node);
    return status;
}

/* ---- the operator -------------------------------------------------------------------------------------------------------- */
static nx_status check(const nx_value *in) {
    const nx_graph *backward = nx_graph_of_value(&in[NX_FUNCTION_BACKWARD]);
    const nx_node *output = nx_graph_output_node(backward);
    const nx_value *gives = &in[NX_FUNCTION_GIVES];
    bool fits = output && backward->n_inputs == in[NX_FUNCTION_RESULTS].n + in[NX_FUNCTION_READS].n &&
                gives->n == in[NX_FUNCTION_INPUTS].n && in[NX_FUNCTION_CHECKED].n == in[NX_FUNCTION_READS].n;
    for (int k = 0; fits && k < gives->n; k++) fits = gives->ints[k] >= -1 && gives->ints[k] < output->n_args;
    for (int k = 0; fits && k < in[NX_FUNCTION_RESULTS].n; k++) fits = in[NX_FUNCTION_RESULTS].list[k].tag == NX_TAG_TENSOR;
    for (int k = 0; fits && k < in[NX_FUNCTION_READS].n; k++) fits = in[NX_FUNCTION_READS].list[k].tag == NX_TAG_TENSOR;
    const nx_node *placeholder = backward->first;
    for (int k = 0; fits && k < in[NX_FUNCTION_RESULTS].n; k++, placeholder = placeholder->next) fits = placeholder->fakes[0] != NULL;
    return fits ? NX_OK : nx_fail(NX_VALUE, "narthex::function: the graph of the backward does not fit its arguments");
}

static bool is_recorded(const nx_value *inputs) {
    bool any = false;
    for (int k = 0; k < inputs->n; k++)
        any = any || (inputs->list[k].tag == NX_TAG_TENSOR && nx_tensor_requires_grad(inputs->list[k].tensor));
    return any && nx_grad_enabled() && !(nx_thread_get()->keys_excluded & NX_KEY(AUTOGRAD));
}

static nx_status tie(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_value *results = &in[NX_FUNCTION_RESULTS];
    nx_grad_node *node = NULL;
    NX_TRY(check(in));
    if (is_recorded(&in[NX_FUNCTION_INPUTS])) NX_TRY(make_node(in, &node));
    nx_value *list = nx_alloc_zeroed(sizeof *list * (size_t)(results->n + 1));
    nx_status status = list ? NX_OK : nx_fail_memory(sizeof *list * (size_t)results->n);
    *out = nx_value_list(list, 0);
    for (int k = 0; k < results->n && status == NX_OK; k++) {
        nx_tensor *made;
        status = nx_tensor_alias(results->list[k].tensor, &made);
        if (status != NX_OK) break;
        list[k] = nx_value_tensor(made);
        out->n++;
        if (node) status = nx_grad_set_node(made, node, k);
    }
    nx_grad_node_unref(node);
    if (status != NX_OK && list) nx_value_drop(out);
    return status;
}

static const nx_param params[] = {
    [NX_FUNCTION_NAME] = {.name = "name", .type = NX_TYPE_STR},
    [NX_FUNCTION_INPUTS] = {.name = "inputs", .type = NX_TYPE_TENSORS, .optional_elements = true},
    [NX_FUNCTION_RESULTS] = {.name = "results", .type = NX_TYPE_TENSORS},
    [NX_FUNCTION_READS] = {.name = "reads", .type = NX_TYPE_TENSORS},
    [NX_FUNCTION_CHECKED] = {.name = "checked", .type = NX_TYPE_INTS},
    [NX_FUNCTION_GIVES] = {.name = "gives", .type = NX_TYPE_INTS},
    [NX_FUNCTION_NUMBERS] = {.name = "numbers", .type = NX_TYPE_NUMBERS},
    [NX_FUNCTION_ONCE] = {.name = "once", .type = NX_TYPE_BOOL},
    [NX_FUNCTION_BACKWARD] = {.name = "backward", .type = NX_TYPE_GRAPH},
};
static const nx_op_def def = {.name = "narthex::function",
                              .schema = "narthex::function(str name, Tensor?[] inputs, Tensor[] results, Tensor[] reads, int[] checked, "
                                        "int[] gives, Scalar[] numbers, bool once, Graph backward) -> Tensor[]",
                              .kind = NX_KIND_COMPOSED,
                              .flags = NX_OP_LIST,
                              .n_in = NX_FUNCTION_N_ARGS,
                              .n_out = 1,
                              .params = params,
                              .compose = tie,
                              .dissolves = true};

const nx_op *nx_function_op(void) { return nx_op_get(def.name); }
bool nx_op_is_function(const nx_op *op) { return op && op->def == &def; }

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_def(&def);
    (void)status; /* a fixed entry, defined once */
}
