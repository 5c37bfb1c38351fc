/* The interpreter: every node through the dispatcher, in order. It is the meaning of a graph, what the
 * engines are compared with, and what re-traces a graph onto another level. An intermediate is freed at
 * its last use. */
#include "ir/private.h"

typedef struct machine {
    nx_tensor **values;     /* owned; result k of a node at first[order] + k */
    int *first, *uses_left; /* by order */
    nx_value *scratch;      /* arguments, then results of the node at work */
    nx_value *ints;         /* by order: numbers of the graph, NONE elsewhere */
    nx_attribute_fn *attribute;
    nx_given_fn *give;
    void *context;          /* of either */
} machine;

static nx_status get_value(void *context, nx_node *node, int result, nx_value *out) {
    machine *m = context;
    *out = m->ints[node->order];
    if (out->tag == NX_TAG_INT || out->tag == NX_TAG_FLOAT) return NX_OK;
    nx_tensor *tensor = m->values[m->first[node->order] + result];
    *out = nx_value_tensor(tensor); /* an absent result is None */
    return NX_OK;
}

static void finish_use(void *context, nx_node *node, int result) {
    machine *m = context;
    if (--m->uses_left[node->order] > 0) return;
    for (int k = 0; k < node->n_results; k++) {
        nx_tensor **at = &m->values[m->first[node->order] + k];
        nx_tensor_unref(*at);
        *at = NULL;
    }
}

static void count_use(void *context, nx_node *node, int result) {
    ((machine *)context)->uses_left[node->order]++;
}

static nx_status check_reference(const nx_node *node) {
    for (int i = 0; i < node->n_args; i++) {
        const nx_value *v = &node->args[i];
        if (v->tag == NX_TAG_NODE &&
            (v->n < 0 || v->n >= v->node->n_results || v->node->order >= node->order))
            return nx_fail(NX_RUNTIME, "graph: %s uses result %d of %s, which is not there yet", node->name,
                           v->n, v->node->name);
    }
    return NX_OK;
}

/* Memory for all values, sized by one walk. */
static nx_status prepare(machine *m, const nx_graph *graph) {
    int n_values = 0, room = 0;
    nx_graph_number((nx_graph *)graph);
    size_t ints = sizeof(int) * (size_t)(graph->n_nodes + 1);
    if ((m->first = nx_alloc(ints)) == NULL || (m->uses_left = nx_alloc_zeroed(ints)) == NULL)
        return nx_fail_memory(ints);
    for (const nx_node *node = graph->first; node; node = node->next) {
        m->first[node->order] = n_values;
        n_values += node->n_results;
        int need =
            nx_args_room(node->args, node->n_args) + node->n_results + (node->op ? node->op->def->n_out : 0);
        if (need > room) room = need;
        NX_TRY(check_reference(node));
        nx_node_each_input(node, count_use, m);
    }
    size_t bytes = sizeof(nx_tensor *) * (size_t)(n_values + 1);
    if ((m->values = nx_alloc_zeroed(bytes)) == NULL) return nx_fail_memory(bytes);
    bytes = sizeof(nx_value) * (size_t)(room + 1);
    if ((m->scratch = nx_alloc(bytes)) == NULL) return nx_fail_memory(bytes);
    bytes = sizeof(nx_value) * (size_t)(graph->n_nodes + 1);
    if ((m->ints = nx_alloc_zeroed(bytes)) == NULL) return nx_fail_memory(bytes);
    return NX_OK;
}

static void release(machine *m, const nx_graph *graph) {
    for (const nx_node *node = graph->first; m->values && node; node = node->next) {
        for (int k = 0; k < node->n_results; k++) nx_tensor_unref(m->values[m->first[node->order] + k]);
    }
    nx_free(m->values);
    nx_free(m->first);
    nx_free(m->uses_left);
    nx_free(m->scratch);
    nx_free(m->ints);
}

/* An integer of a captured graph. */
static nx_status run_int(machine *m, const nx_node *node, nx_int_code code) {
    NX_TRY(nx_args_resolve(node->args, node->n_args, get_value, m, m->scratch));
    NX_TRY(nx_int_compute(code, m->scratch, &m->ints[node->order]));
    nx_node_each_input(node, finish_use, m);
    return NX_OK;
}

static nx_status call_operator(machine *m, const nx_node *node) {
    int64_t sizes[64];
    if (node->op == NULL)
        return nx_fail(NX_NOT_IMPLEMENTED, "graph: %s calls %s, which is no operator", node->name,
                       node->target ? node->target : "nothing");
    int n_out = node->op->def->n_out;
    nx_value *out = m->scratch, *in = out + n_out;
    memset(out, 0, sizeof *out * (size_t)n_out);
    NX_TRY(nx_args_resolve(node->args, node->n_args, get_value, m, in));
    NX_TRY(nx__ints_plain(node->op, in, sizes, NX_COUNT(sizes)));
    NX_TRY(nx_op_call(node->op, in, out));
    nx_value *results;
    int n_results = nx_results_of(node->op, out, &results);
    for (int k = 0; k < n_results && k < node->n_results; k++) {
        if (results[k].tag != NX_TAG_TENSOR) continue;
        m->values[m->first[node->order] + k] = results[k].tensor;
        results[k] = NX_VALUE_NONE;
    }
    for (int k = 0; k < n_out; k++) nx_value_drop(&out[k]);
    return NX_OK;
}

static nx_status run_call(machine *m, const nx_node *node) {
    bool given = false;
    int code = node->op ? -1 : nx_node_int_code(node);
    if (code >= 0) return run_int(m, node, (nx_int_code)code);
    if (m->give) NX_TRY(m->give(m->context, node, m->values + m->first[node->order], &given));
    if (!given) NX_TRY(call_operator(m, node));
    nx_node_each_input(node, finish_use, m);
    if (m->uses_left[node->order] == 0) { /* nobody wants it */
        m->uses_left[node->order] = 1;
        finish_use(m, (nx_node *)node, 0);
    }
    return NX_OK;
}

static nx_status run_output(machine *m, const nx_node *node, nx_tensor **out, int n_out) {
    nx_value value;
    if (n_out != node->n_args)
        return nx_fail(NX_RUNTIME, "graph: it has %d results, room was given for %d", node->n_args, n_out);
    for (int i = 0; i < n_out; i++) {
        out[i] = NULL;
        if (node->args[i].tag != NX_TAG_NODE) continue;
        NX_TRY(get_value(m, node->args[i].node, node->args[i].n, &value));
        if (value.tag == NX_TAG_TENSOR) out[i] = nx_tensor_ref(value.tensor);
    }
    return NX_OK;
}

static nx_status run_attribute(machine *m, const nx_node *node) {
    nx_tensor **at = &m->values[m->first[node->order]];
    if (m->attribute) return m->attribute(m->context, node, at);
    if (node->constant == NULL)
        return nx_fail(NX_RUNTIME, "graph: %s has no value (its text held only the type)", node->name);
    *at = nx_tensor_ref(node->constant);
    return NX_OK;
}

static nx_status run_nodes(machine *m, const nx_graph *graph, nx_tensor *const *inputs, nx_tensor **out,
                           int n_out) {
    nx_thread *thread = nx_thread_get();
    bool no_grad = thread->grad_disabled;
    int n = 0;
    for (const nx_node *node = graph->first; node; node = node->next) {
        thread->grad_disabled = no_grad || node->source.no_grad;
        if (m->attribute) thread->source = node->source;
        switch (node->kind) {
        case NX_NODE_PLACEHOLDER: m->values[m->first[node->order]] = nx_tensor_ref(inputs[n++]); break;
        case NX_NODE_GET_ATTR: NX_TRY(run_attribute(m, node)); break;
        case NX_NODE_OUTPUT: return run_output(m, node, out, n_out);
        default: NX_TRY(run_call(m, node));
        }
    }
    return nx_fail(NX_RUNTIME, "graph: it has no output");
}

static nx_status run(machine m, const nx_graph *graph, nx_tensor *const *inputs, int n_inputs, nx_tensor **out,
                     int n_out) {
    nx_thread *thread = nx_thread_get();
    const nx_source source = thread->source;
    bool no_grad = thread->grad_disabled;
    if (n_inputs != graph->n_inputs)
        return nx_fail(NX_RUNTIME, "graph: it has %d inputs, %d were given", graph->n_inputs, n_inputs);
    for (int i = 0; i < n_inputs; i++) {
        if (inputs[i] == NULL) return nx_fail(NX_VALUE, "graph: input %d is missing", i);
    }
    nx_status status = prepare(&m, graph);
    if (status == NX_OK) status = run_nodes(&m, graph, inputs, out, n_out);
    thread->grad_disabled = no_grad;
    thread->source = source;
    release(&m, graph);
    return status;
}

nx_status nx_graph_run(const nx_graph *graph, nx_tensor *const *inputs, int n_inputs, nx_tensor **out,
                       int n_out) {
    return run((machine){0}, graph, inputs, n_inputs, out, n_out);
}

nx_status nx_graph_retrace(const nx_graph *graph, nx_tensor *const *inputs, int n_inputs,
                           nx_attribute_fn *attribute, void *context, nx_tensor **out, int n_out) {
    return run((machine){.attribute = attribute, .context = context}, graph, inputs, n_inputs, out, n_out);
}

nx_status nx_graph_run_given(const nx_graph *graph, nx_tensor *const *inputs, int n_inputs, nx_given_fn *give,
                             void *context, nx_tensor **out, int n_out) {
    return run((machine){.give = give, .context = context}, graph, inputs, n_inputs, out, n_out);
}
