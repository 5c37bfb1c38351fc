/* The grammar of each level as a table that runs: a row says for which levels and kinds of nodes a
 * sentence must hold. Then every call's shapes are compared with what the operator's own rule says. Run on
 * whatever comes from outside, and after each pass when NARTHEX_VERIFY_GRAPHS is set. */
#include "ir/private.h"

enum {
    CAPTURED = 1 << NX_GRAPH_CAPTURED,
    FUNCTIONAL = 1 << NX_GRAPH_FUNCTIONAL,
    EVERY = CAPTURED | FUNCTIONAL
};
enum {
    P = 1 << NX_NODE_PLACEHOLDER,
    G = 1 << NX_NODE_GET_ATTR,
    F = 1 << NX_NODE_CALL_FUNCTION,
    M = 1 << NX_NODE_CALL_METHOD,
    U = 1 << NX_NODE_CALL_MODULE,
    O = 1 << NX_NODE_OUTPUT,
    CALL = F | M | U,
    ALL = P | G | CALL | O
};

typedef struct bad_input { const nx_node *user; bool late, missing, absent; } bad_input;
static void look_at_input(void *arg, nx_node *input, int result) {
    bad_input *bad = arg;
    bad->late = bad->late || input->order >= bad->user->order;
    bad->missing = bad->missing || result < 0 || result >= input->n_results;
    bad->absent = bad->absent || (!bad->missing && input->fakes[result] == NULL);
}
static bool inputs_before(const nx_node *n) {
    bad_input bad = {.user = n};
    nx_node_each_input(n, look_at_input, &bad);
    return !bad.late;
}
static bool results_exist(const nx_node *n) {
    bad_input bad = {.user = n};
    nx_node_each_input(n, look_at_input, &bad);
    return !bad.missing;
}

static bool results_there(const nx_node *n) {
    bad_input bad = {.user = n};
    nx_node_each_input(n, look_at_input, &bad);
    return !bad.absent;
}

static int n_uses(const nx_node *n) {
    int count = 0;
    for (const nx_use *use = n->uses; use; use = use->next) count++;
    return count;
}

static bool has_no_args(const nx_node *n) { return n->n_args == 0 && n->op == NULL; }
static bool one_result(const nx_node *n) { return n->n_results == 1; }
static bool no_result(const nx_node *n) { return n->n_results == 0 && n->uses == NULL; }
static bool has_target(const nx_node *n) { return n->target != NULL; }
static bool after_placeholders(const nx_node *n) {
    return n->previous == NULL || n->previous->kind == NX_NODE_PLACEHOLDER;
}
static bool is_last(const nx_node *n) { return n->next == NULL; }
static bool is_named(const nx_node *n) { return n->name && nx_graph_find(n->graph, n->name) == n; }
static bool calls_something(const nx_node *n) { return n->op || n->target; }
static bool has_op(const nx_node *n) { return n->op != NULL; }
static bool op_results(const nx_node *n) { return n->op == NULL || nx__count_fits(n->op, n->n_results); }
static bool op_args(const nx_node *n) {
    return n->op == NULL || nx_args_check(n->op, n->args, n->n_args, NX_TAG_NODE) == NX_OK;
}
static bool returns_nodes(const nx_node *n) {
    for (int i = 0; i < n->n_args; i++) {
        if (n->args[i].tag != NX_TAG_NODE) return false;
    }
    return true;
}
static bool never(const nx_node *n) { return false; }
static bool no_target(const nx_node *n) { return n->target == NULL; }
static bool is_dissolved(const nx_node *n) { return !(n->op && n->op->def->dissolves); }
static bool has_shape(const nx_node *n) {
    bool any = n->n_results == 0; /* a mask may leave out some results of a call */
    for (int k = 0; k < n->n_results; k++) any = any || n->fakes[k];
    return any;
}

static void look_at_written(void *arg, nx_node *n, int result) {
    bool *fresh = arg;
    *fresh = *fresh && n->op && n_uses(n) == 1 && n->op->def->kind != NX_KIND_VIEW && nx_op_written(n->op) == 0;
}

/* copy_ into an input, with nothing but such copies and the output behind it. */
static bool is_copy_back(const nx_node *n) {
    if (n->op != nx_known(NX_KNOWN_COPY_INTO) || n->args[0].tag != NX_TAG_NODE ||
        n->args[0].node->kind != NX_NODE_PLACEHOLDER)
        return false;
    return n->next == NULL || n->next->kind == NX_NODE_OUTPUT || (n->next->op && is_copy_back(n->next));
}

static bool writes_nothing_alive(const nx_node *n) {
    bool fresh = true;
    nx_node_each_written(n, look_at_written, &fresh);
    return fresh || is_copy_back(n);
}

static const struct {
    unsigned levels, kinds;
    const char *sentence;
    bool (*holds)(const nx_node *);
} rules[] = {
    {EVERY, ALL, "a node has a name of its own", is_named},
    {EVERY, ALL, "what a node uses is defined before it", inputs_before},
    {EVERY, ALL, "a node uses results that exist", results_exist},
    {EVERY, P | G, "an input or constant has no arguments", has_no_args},
    {EVERY, P | G, "an input or constant has a target", has_target},
    {EVERY, P | G, "an input or constant has one result", one_result},
    {EVERY, P, "inputs stand before everything else", after_placeholders},
    {EVERY, O, "the output is the last node", is_last},
    {EVERY, O, "the output has no result", no_result},
    {EVERY, O, "the output returns results of nodes", returns_nodes},
    {EVERY, CALL, "a call has an operator or a target", calls_something},
    {EVERY, CALL, "a call has as many results as its operator", op_results},
    {EVERY, CALL, "the arguments fit the operator's schema", op_args},
    {FUNCTIONAL, P | G | F, "every result has a shape", has_shape},
    {FUNCTIONAL, ALL, "a node uses results that are not left out", results_there},
    {FUNCTIONAL, M | U, "there are no calls of methods or modules", never},
    {FUNCTIONAL, F, "a call has an operator", has_op},
    {FUNCTIONAL, F, "a call has no target but its operator", no_target},
    {FUNCTIONAL, F, "composed operators are dissolved", is_dissolved},
    {FUNCTIONAL, F, "nothing is written but inputs by copy_ at the end and memory that nobody else sees",
     writes_nothing_alive},
};

static nx_status check_rules(const nx_graph *graph, const nx_node *node) {
    for (int i = 0; i < NX_COUNT(rules); i++) {
        if (!(rules[i].levels >> graph->level & 1) || !(rules[i].kinds >> node->kind & 1)) continue;
        if (rules[i].holds(node)) continue;
        return nx_fail(NX_RUNTIME, "verify: %s: %s", node->name,
                       rules[i].holds == op_args ? nx_error_message() : rules[i].sentence);
    }
    return NX_OK;
}

static bool same_shape(const nx_tensor *a, const nx_tensor *b, bool strides) {
    if (a->a.dtype != b->a.dtype || a->a.ndim != b->a.ndim ||
        !nx_device_same(a->a.device, b->a.device))
        return false;
    for (int d = 0; d < a->a.ndim; d++) {
        if (a->a.sizes[d] != b->a.sizes[d]) return false;
        if (strides && a->a.sizes[d] > 1 && a->a.numel && a->a.strides[d] != b->a.strides[d]) return false;
    }
    return true;
}

static void note_unknown(void *arg, nx_node *input, int result) {
    bool *unknown = arg;
    *unknown = *unknown || input->fakes[result] == NULL;
}

/* `given`: what the operator makes of the arguments' shapes; NULL: the call leaves this result out. */
static nx_status check_shape(const nx_node *node, const nx_tensor *own, const nx_tensor *given) {
    bool left_out = given == NULL || node->graph->level != NX_GRAPH_FUNCTIONAL;
    if ((own == NULL && left_out) || (own && given && same_shape(own, given, true))) return NX_OK;
    nx_text text = {0};
    if (given) {
        nx_text_add(&text, "%s", nx_dtype_brief((nx_dtype)given->a.dtype));
        nx_text_add_ints(&text, given->a.sizes, given->a.ndim);
        nx_text_add(&text, " with strides ");
        nx_text_add_ints(&text, given->a.strides, given->a.ndim);
    }
    nx_status status = nx_fail(NX_RUNTIME, "verify: %s: its type is not what the operator gives: %s", node->name,
                               text.at && !text.failed ? text.at : "no result");
    nx_text_free(&text);
    return status;
}

static nx_status check_shapes(const nx_node *node) {
    nx__fakes fakes;
    bool unknown = false;
    if (node->op == NULL || node->n_results == 0) return NX_OK;
    nx_node_each_input(node, note_unknown, &unknown);
    if (unknown)
        return NX_OK; /* captured graphs may hold foreign calls; a functional one has been refused above */
    nx_status status = nx__infer(node->op, node->args, node->n_args, &fakes);
    if (status == NX_NO_MEMORY) return status;
    if (status != NX_OK) return nx_fail(NX_RUNTIME, "verify: %s: %s", node->name, nx_error_message());
    if (fakes.n != node->n_results)
        status = nx_fail(NX_RUNTIME, "verify: %s: it has %d results, the operator gives %d", node->name,
                         node->n_results, fakes.n);
    for (int k = 0; k < node->n_results && status == NX_OK; k++)
        status = check_shape(node, node->fakes[k], fakes.at[k]);
    nx__fakes_end(&fakes);
    return status;
}

static void count_use(void *arg, nx_node *input, int result) { ((int *)arg)[input->order]++; }

/* Every mention has one entry in the mentioned node's list of uses. */
static nx_status check_uses(const nx_graph *graph) {
    size_t bytes = sizeof(int) * (size_t)(graph->n_nodes + 1);
    int *counts = nx_alloc_zeroed(bytes);
    nx_status status = NX_OK;
    if (counts == NULL) return nx_fail_memory(bytes);
    for (const nx_node *node = graph->first; node; node = node->next)
        nx_node_each_input(node, count_use, counts);
    for (const nx_node *node = graph->first; node && status == NX_OK; node = node->next) {
        if (n_uses(node) != counts[node->order])
            status = nx_fail(NX_RUNTIME, "verify: %s: %d uses are listed, %d are there", node->name,
                             n_uses(node), counts[node->order]);
    }
    nx_free(counts);
    return status;
}

static nx_status check_bodies(const nx_node *node) {
    for (int i = 0; i < node->n_args; i++)
        if (node->args[i].tag == NX_TAG_GRAPH) NX_TRY(nx_graph_verify(nx_graph_of_value(&node->args[i])));
    return NX_OK;
}

nx_status nx_graph_verify(const nx_graph *graph) {
    int n_inputs = 0, n_nodes = 0;
    nx_graph_number((nx_graph *)graph);
    for (const nx_node *node = graph->first; node; node = node->next) {
        NX_TRY(check_rules(graph, node));
        NX_TRY(check_shapes(node));
        NX_TRY(check_bodies(node));
        n_inputs += node->kind == NX_NODE_PLACEHOLDER;
        n_nodes++;
    }
    if (nx_graph_output_node(graph) == NULL) return nx_fail(NX_RUNTIME, "verify: the graph has no output");
    if (n_inputs != graph->n_inputs || n_nodes != graph->n_nodes)
        return nx_fail(NX_RUNTIME, "verify: %d inputs and %d nodes are counted, there are %d and %d",
                       graph->n_inputs, graph->n_nodes, n_inputs, n_nodes);
    return check_uses(graph);
}
