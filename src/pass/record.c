/* Recording: what is called between begin and end, as a flat graph of the operators at TRACE. In: tensors, of which fakes
 * are made that stand for the inputs. Autograd stands above TRACE, so that a backward that is run here is recorded as the
 * operators of its formulas. Writes stay as they are: the graph is functional only if nothing wrote. A tensor from outside
 * becomes a constant of the graph. Read next: aot.c, which records what it interprets in the same way. */
#include "pass/private.h"

struct nx_recording {
    nx_graph *graph;
    nx_tracer tracer;
    nx__calm before;
    int n_inputs, n_constants;
    nx_tensor **inputs;      /* n_inputs, owned */
};

static nx_status add_constant(nx_tracer *tracer, nx_tensor *tensor, nx_value *out) {
    nx_recording *recording = tracer->context;
    char name[32];
    nx_node *node;
    if (nx_tensor_is_fake(tensor))
        return nx_fail(NX_RUNTIME, "a tensor without elements of another trace is used while recording");
    snprintf(name, sizeof name, "_tensor_constant%d", recording->n_constants);
    NX_TRY(nx_graph_constant(tracer->graph, name, tensor, &node));
    recording->n_constants++;
    *out = nx_value_node(node, 0);
    return nx_tracer_bind(tracer, tensor, node, 0);
}

static nx_status add_input(nx_recording *recording, const char *name, const nx_tensor *like, nx_tensor **out) {
    nx_tensor *fake = NULL, *used = NULL;
    nx_node *node;
    nx_status status;
    NX_TRY_FAIL(nx_fake_like(like, &fake));
    NX_TRY_FAIL(nx_fake_like(like, &used));
    if (nx_tensor_requires_grad(like)) {
        NX_TRY_FAIL(nx_tensor_set_requires_grad(fake, true));
        NX_TRY_FAIL(nx_tensor_set_requires_grad(used, true));
    }
    NX_TRY_FAIL(nx_graph_input_like(recording->graph, name, name, fake, &node));
    NX_TRY_FAIL(nx_tracer_bind(&recording->tracer, used, node, 0));
    *out = used;
    used = NULL;
fail:
    nx_tensor_unref(fake);
    nx_tensor_unref(used);
    return status;
}

nx_status nx_recording_begin(nx_tensor *const *like, const char *const *names, int n, nx_recording **out) {
    nx_recording *recording = nx_alloc_zeroed(sizeof *recording);
    nx_status status;
    if (recording == NULL) return nx_fail_memory(sizeof *recording);
    recording->before = nx__calm_begin(nx_grad_enabled());
    recording->tracer = (nx_tracer){.key = NX_KEY_AT_TRACE, .unknown = add_constant, .context = recording};
    recording->inputs = nx_alloc_zeroed(sizeof *recording->inputs * (size_t)(n + 1));
    if (recording->inputs == NULL) NX_TRY_FAIL(nx_fail_memory(sizeof *recording->inputs * (size_t)n));
    recording->n_inputs = n;
    NX_TRY_FAIL(nx_graph_new(&recording->graph));
    recording->graph->level = NX_GRAPH_FUNCTIONAL;
    recording->tracer.graph = recording->graph;
    NX_TRY_FAIL(nx_tracer_push(&recording->tracer));
    for (int i = 0; i < n; i++) NX_TRY_FAIL(add_input(recording, names[i], like[i], &recording->inputs[i]));
    *out = recording;
    return NX_OK;
fail:
    nx_recording_free(recording);
    return status;
}

nx_tensor *nx_recording_input(const nx_recording *recording, int i) { return recording->inputs[i]; }

static nx_status node_of(nx_recording *recording, nx_tensor *tensor, nx_value *out) {
    if (nx_tracer_find(&recording->tracer, tensor, out)) return NX_OK;
    return add_constant(&recording->tracer, tensor, out);
}

nx_status nx_recording_end(nx_recording *recording, nx_tensor *const *results, int n, nx_graph **out) {
    nx_value *values = nx_alloc(sizeof *values * (size_t)(n + 1));
    nx_status status = values ? NX_OK : nx_fail_memory(sizeof *values * (size_t)n);
    for (int i = 0; i < n && status == NX_OK; i++) {
        if (results[i]) status = node_of(recording, results[i], &values[i]);
        else values[i] = NX_VALUE_NONE;
    }
    if (status == NX_OK) status = nx_graph_output(recording->graph, values, n);
    if (status == NX_OK) {
        *out = recording->graph;
        recording->graph = NULL;
    }
    nx_free(values);
    nx_recording_free(recording);
    return status;
}

void nx_recording_free(nx_recording *recording) {
    if (recording == NULL) return;
    if (recording->tracer.graph) nx_tracer_pop(&recording->tracer);
    for (int i = 0; i < recording->n_inputs; i++) nx_tensor_unref(recording->inputs[i]);
    nx_free(recording->inputs);
    if (recording->graph) nx_graph_free(recording->graph);
    nx__calm_end(recording->before);
    nx_free(recording);
}
