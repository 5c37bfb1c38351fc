/* From a captured graph to functional forward and backward graphs, without running anything:
 *   captured --interpret on fakes, recorded at TRACE--> flat operators --functionalise--> forward
 *   captured --interpret on fakes that require grad, then run their backward, recorded, functionalise--> joint
 * --split--> both. Autograd stands above TRACE, so the joint graph holds the forward's operators and those
 * of the formulas; and it sees the writes as they were written, so that their histories, and what autograd
 * refuses, are eager mode's.
 * Inputs: arg0_1.. without gradients, primals_1.. and tangents_1.. with, as PyTorch names them. Read next:
 * functionalise.c, split.c. */
#include "pass/private.h"

nx__calm nx__calm_begin(bool grad) {
    nx_thread *thread = nx_thread_get();
    nx__calm before = {thread->keys_included, thread->keys_excluded, nx_grad_enabled()};
    thread->keys_included = NX_KEY(FAKE);
    thread->keys_excluded = NX_KEY(CAPTURE);
    nx_grad_set_enabled(grad);
    return before;
}
void nx__calm_end(nx__calm before) {
    nx_thread *thread = nx_thread_get();
    thread->keys_included = before.included;
    thread->keys_excluded = before.excluded;
    nx_grad_set_enabled(before.grad);
}

/* ---- one retracing ---- */
typedef struct trace {
    nx_graph *graph;         /* the new one; owned */
    nx_tracer tracer;
    int n_inputs, n_outputs;
    nx_tensor **inputs, **outputs; /* owned */
    nx_tensor **leaves;      /* n_inputs: whose gradient an input's is; owned */
} trace;

static nx_status trace_attribute(void *context, const nx_node *node, nx_tensor **out) {
    trace *t = context;
    nx_map map = {0};
    nx_node *copy;
    nx_tensor *fake;
    if (node->fakes[0] == NULL)
        return nx_fail(NX_RUNTIME, "compile: the type of %s is not known", node->name);
    NX_TRY(nx_fake_like(node->fakes[0], &fake));
    nx_status status = nx_graph_copy_node(t->graph, node, &map, &copy);
    nx_map_free(&map);
    if (status == NX_OK) status = nx_tracer_bind(&t->tracer, fake, copy, 0);
    if (status == NX_OK) *out = fake;
    else nx_tensor_unref(fake);
    return status;
}

/* A new input like `like`, from its first element on: the node's own fake, and another one to compute
 * with. */
static nx_status add_input(trace *t, const char *name, const nx_tensor *like, bool requires_grad,
                           nx_tensor **out) {
    nx_tensor *fake = NULL, *used = NULL;
    nx_node *node;
    nx_status status;
    NX_TRY_FAIL(nx_fake_of(like, &fake));
    NX_TRY_FAIL(nx_fake_of(like, &used));
    if (requires_grad) NX_TRY_FAIL(nx_tensor_set_requires_grad(used, true));
    NX_TRY_FAIL(nx_graph_input_like(t->graph, name, name, fake, &node));
    NX_TRY_FAIL(nx_tracer_bind(&t->tracer, used, node, 0));
    nx_tensor_unref(fake);
    *out = used;
    return NX_OK;
fail:
    nx_tensor_unref(fake);
    nx_tensor_unref(used);
    return status;
}

static bool holds_backward(const nx_graph *graph) {
    const nx_node *node = graph->first;
    while (node && !nx_op_is_backward(node->op)) node = node->next;
    return node != NULL;
}

/* What a trace knows of the inputs, by index. NULL: gradients are not wanted, unless by the graph itself. */
typedef struct wishes { const bool *requires_grad, *is_written; } wishes;

static nx_status trace_inputs(trace *t, const nx_graph *source, const char *format, const wishes *wanted) {
    const bool inner = !wanted && holds_backward(source); /* which are written is not known: any may be */
    int i = 0;
    for (const nx_node *node = source->first; node; node = node->next) {
        char name[32];
        if (node->kind != NX_NODE_PLACEHOLDER) continue;
        const bool written = wanted ? wanted->is_written[i] : inner;
        snprintf(name, sizeof name, format, i + (wanted != NULL)); /* arg0_1, primals_1 */
        if (node->fakes[0] == NULL)
            return nx_fail(NX_RUNTIME, "compile: the shape of input %s is not known", node->name);
        /* Without gradients too, since compositions ask for it: a product with a parameter is made otherwise. */
        const bool requires_grad = wanted ? wanted->requires_grad[i] : nx_tensor_requires_grad(node->fakes[0]);
        NX_TRY(add_input(t, name, node->fakes[0], requires_grad && !written, &t->inputs[i]));
        if (requires_grad && written) NX_TRY(nx_fake_leaf(t->inputs[i], &t->leaves[i]));
        else t->leaves[i] = nx_tensor_ref(t->inputs[i]);
        i++;
    }
    return NX_OK;
}

static void trace_end(trace *t) {
    nx_tracer_pop(&t->tracer);
    for (int i = 0; t->inputs && i < t->n_inputs; i++) nx_tensor_unref(t->inputs[i]);
    for (int i = 0; t->leaves && i < t->n_inputs; i++) nx_tensor_unref(t->leaves[i]);
    for (int i = 0; t->outputs && i < t->n_outputs; i++) nx_tensor_unref(t->outputs[i]);
    nx_free(t->inputs);
    nx_free(t->leaves);
    nx_free(t->outputs);
    nx_graph_free(t->graph);
}

/* Interprets `source` on new fakes and records it. Afterwards the tracer is still on; trace_end() in any
 * case. */
static nx_status trace_begin(trace *t, const nx_graph *source, const char *format, const wishes *wanted) {
    const nx_node *output = nx_graph_output_node(source);
    *t = (trace){.tracer = {.key = NX_KEY_AT_TRACE}};
    if (output == NULL) return nx_fail(NX_RUNTIME, "compile: the captured graph has no output");
    t->n_inputs = source->n_inputs;
    t->n_outputs = output->n_args;
    t->inputs = nx_alloc_zeroed(sizeof *t->inputs * (size_t)(t->n_inputs + 1));
    t->outputs = nx_alloc_zeroed(sizeof *t->outputs * (size_t)(t->n_outputs + 1));
    t->leaves = nx_alloc_zeroed(sizeof *t->leaves * (size_t)(t->n_inputs + 1));
    if (!t->inputs || !t->outputs || !t->leaves)
        return nx_fail_memory(sizeof *t->inputs * (size_t)(t->n_inputs + t->n_outputs));
    NX_TRY(nx_graph_new(&t->graph));
    t->graph->level = NX_GRAPH_FUNCTIONAL;
    t->tracer.graph = t->graph;
    NX_TRY(nx_tracer_push(&t->tracer));
    NX_TRY(trace_inputs(t, source, format, wanted));
    NX_TRY(nx_graph_retrace(source, t->inputs, t->n_inputs, trace_attribute, t, t->outputs, t->n_outputs));
    for (int i = 0; i < t->n_outputs; i++) {
        if (t->outputs[i] == NULL)
            return nx_fail(NX_RUNTIME, "compile: result %d of the captured graph is not a tensor", i);
    }
    return NX_OK;
}

/* How often the program writes: what it makes counts its writes as eager mode's does. */
static void count_writes(nx_aot *aot, const trace *t) {
    for (int i = 0; i < t->n_outputs; i++) {
        aot->writes[i] = nx_tensor_version(t->outputs[i]);
        aot->any_writes |= aot->writes[i] > 0;
    }
    for (int i = 0; i < t->n_inputs; i++) aot->writes[t->n_outputs + i] = nx_tensor_version(t->inputs[i]);
}

/* Which outputs are one tensor: in a functional graph two tensors over one memory may have become one value. */
static nx_status find_same_outputs(nx_aot *aot, const trace *t) {
    nx_numbers seen;
    nx_status status = NX_OK;
    count_writes(aot, t);
    nx_numbers_start(&seen);
    for (int i = 0; i < t->n_outputs && status == NX_OK; i++) {
        int first = i;
        status = nx_numbers_add(&seen, t->outputs[i], i, &first);
        aot->same_as_output[i] = first < i ? first : -1;
    }
    nx_numbers_free(&seen);
    return status;
}

static nx_status node_of(trace *t, const nx_tensor *tensor, nx_value *out) {
    return nx_tracer_find(&t->tracer, tensor, out)
               ? NX_OK
               : nx_fail(NX_RUNTIME, "compile: a result was not recorded");
}

/* ---- (1) flatten, (2) functionalise ---- */
static nx_status flatten(nx_aot *aot, const nx_graph *captured, nx_graph **out) {
    trace t;
    nx__calm before = nx__calm_begin(holds_backward(captured));
    nx_status status = trace_begin(&t, captured, "arg%d_1", NULL);
    nx_value *results = NULL;
    if (status != NX_OK) goto fail;
    NX_TRY_FAIL(find_same_outputs(aot, &t));
    results = nx_alloc(sizeof *results * (size_t)(t.n_outputs + 1));
    if (results == NULL) NX_TRY_FAIL(nx_fail_memory(sizeof *results * (size_t)t.n_outputs));
    for (int i = 0; i < t.n_outputs; i++) NX_TRY_FAIL(node_of(&t, t.outputs[i], &results[i]));
    NX_TRY_FAIL(nx_graph_output(t.graph, results, t.n_outputs));
    *out = t.graph;
    t.graph = NULL;
fail:
    nx_free(results);
    trace_end(&t);
    nx__calm_end(before);
    return status;
}

/* The copies into inputs at the end become results behind the first `n`. */
static nx_status return_written(nx_graph *graph, int n, int n_mutated) {
    nx_node *output = nx_graph_output_node(graph);
    int n_all = output->n_args + n_mutated;
    if (n_mutated == 0) return NX_OK;
    nx_value *results = nx_alloc(sizeof *results * (size_t)n_all);
    if (results == NULL) return nx_fail_memory(sizeof *results * (size_t)n_all);
    memcpy(results, output->args, sizeof *results * (size_t)n);
    memcpy(results + n + n_mutated, output->args + n, sizeof *results * (size_t)(output->n_args - n));
    nx_node *copy = output->previous;
    for (int i = n + n_mutated - 1; i >= n; i--, copy = copy->previous) results[i] = copy->args[1];
    nx_status status = nx_node_set_args(output, results, n_all);
    for (int i = 0; i < n_mutated && status == NX_OK; i++) nx_node_erase(output->previous);
    nx_free(results);
    return status;
}

static void note_aliases(nx_aot *aot, const nx__aliases *aliases) {
    aot->n_mutated = aliases->n_mutated;
    memcpy(aot->mutated, aliases->mutated, sizeof(int) * (size_t)aliases->n_mutated);
    memcpy(aot->alias_of, aliases->alias_of, sizeof(int) * (size_t)aot->n_outputs);
    memcpy(aot->same_as_input, aliases->same_as_input, (size_t)aot->n_outputs);
}

static nx_status functionalise(nx_aot *aot, nx_graph *graph) {
    nx__aliases aliases = {0};
    nx_status status = nx__functionalise(graph, &aliases);
    if (status == NX_OK) {
        note_aliases(aot, &aliases);
        status = return_written(graph, aot->n_outputs, aot->n_mutated);
    }
    nx__aliases_free(&aliases);
    return status;
}

/* ---- (3) the joint graph ---- */
/* Result `i` of the forward: an output, or the last value of a written input. */
static nx_tensor *forward_result(const nx_aot *aot, const trace *t, int i) {
    return i < aot->n_outputs ? t->outputs[i] : t->inputs[aot->mutated[i - aot->n_outputs]];
}

/* The output is an input or a view of one. What was detached from an input lies in its memory only: it has a history of
 * its own once it is written. */
static bool has_history_of_input(const nx_numbers *inputs, const nx_tensor *tensor) {
    return nx_numbers_find(inputs, tensor->base ? tensor->base : tensor) >= 0;
}

/* An output that is a view of an input has that input's history, one that stands twice has one gradient. A written
 * input may have kept its history: through detach() only its elements change. */
static nx_status find_roots(nx_aot *aot, const trace *t) {
    nx_numbers inputs;
    nx_status status = NX_OK;
    nx_numbers_start(&inputs);
    for (int i = 0; i < t->n_inputs && status == NX_OK; i++) status = nx_numbers_add(&inputs, t->inputs[i], i, NULL);
    for (int i = 0; i < aot->n_outputs + aot->n_mutated; i++) {
        const nx_tensor *result = forward_result(aot, t, i);
        bool keeps = i >= aot->n_outputs && nx_grad_is_stand_in(result);
        bool differs = i < aot->n_outputs ? !has_history_of_input(&inputs, result) && aot->same_as_output[i] < 0 : !keeps;
        if (i >= aot->n_outputs) aot->keeps_history[i - aot->n_outputs] = keeps;
        aot->output_requires_grad[i] = nx_tensor_requires_grad(result) && differs;
        aot->n_tangents += aot->output_requires_grad[i];
    }
    nx_numbers_free(&inputs);
    return status;
}

static nx_status add_tangents(nx_aot *aot, trace *t, nx_tensor **roots, nx_tensor **tangents) {
    int n = 0;
    for (int i = 0; i < aot->n_outputs + aot->n_mutated; i++) {
        char name[32];
        nx_tensor *like = forward_result(aot, t, i), *dense = NULL;
        if (!aot->output_requires_grad[i]) continue;
        if (!nx_is_dense(&like->a)) { /* of an expanded result: a gradient has its elements one by one */
            nx_meta meta;
            nx_meta_of(&like->a, &meta);
            nx_meta_contiguous(&meta);
            NX_TRY(nx_fake_new(&meta, 0, &dense));
        }
        snprintf(name, sizeof name, "tangents_%d", n + 1);
        nx_status status = add_input(t, name, dense ? dense : like, false, &tangents[n]);
        nx_tensor_unref(dense);
        if (status != NX_OK) return status;
        roots[n++] = like;
    }
    return NX_OK;
}

static nx_status joint_output(nx_aot *aot, trace *t, nx_tensor *const *grads) {
    nx_value *results = nx_alloc(sizeof *results * (size_t)(t->n_outputs + aot->n_inputs + 1));
    nx_status status = NX_OK;
    int n = 0;
    if (results == NULL) return nx_fail_memory(sizeof *results * (size_t)(t->n_outputs + aot->n_inputs));
    for (; n < t->n_outputs; n++) NX_TRY_FAIL(node_of(t, t->outputs[n], &results[n]));
    for (int i = 0; i < aot->n_inputs; i++) {
        aot->grad_of[i] = grads[i] ? aot->n_grads++ : -1;
        if (grads[i]) NX_TRY_FAIL(node_of(t, grads[i], &results[n++]));
    }
    status = nx_graph_output(t->graph, results, n);
fail:
    nx_free(results);
    return status;
}

/* The backward fails in a way that a program meets when it runs one, and not before: a saved tensor was written, an operator has
 * no derivative. */
static nx_status refuse(nx_aot *aot, const bool *requires_grad, nx_status status) {
    if (status != NX_RUNTIME && status != NX_NOT_IMPLEMENTED) return status;
    aot->refusal = nx_strdup(nx_error_message());
    aot->refused = status;
    for (int i = 0; i < aot->n_inputs; i++) aot->grad_of[i] = requires_grad[i] ? aot->n_grads++ : -1;
    return aot->refusal ? NX_OK : nx_fail_memory(1);
}

/* Runs the backward of what was traced; the tracer records it. */
static nx_status trace_backward(nx_aot *aot, trace *t, const bool *requires_grad) {
    size_t n = (size_t)(2 * aot->n_tangents + 3 * aot->n_inputs + 1);
    nx_tensor **room = nx_alloc_zeroed(sizeof *room * n);
    if (room == NULL) return nx_fail_memory(sizeof *room * n);
    nx_tensor **roots = room, **tangents = roots + aot->n_tangents, **wanted = tangents + aot->n_tangents;
    nx_tensor **found = wanted + aot->n_inputs,
              **grads = found + aot->n_inputs; /* grads: by input, lent from found */
    nx_status status;
    int n_wanted = 0;
    NX_TRY_FAIL(add_tangents(aot, t, roots, tangents));
    for (int i = 0; i < aot->n_inputs; i++) {
        if (requires_grad[i]) wanted[n_wanted++] = t->leaves[i];
    }
    status = nx_grad_run(roots, tangents, aot->n_tangents, false, false, wanted, n_wanted, found);
    if (status != NX_OK) {
        status = refuse(aot, requires_grad, status);
        goto fail;
    }
    for (int i = 0, k = 0; i < aot->n_inputs; i++) {
        if (requires_grad[i]) grads[i] = found[k++];
    }
    NX_TRY_FAIL(joint_output(aot, t, grads));
fail:
    for (int i = 0; i < n_wanted; i++) nx_tensor_unref(found[i]);
    for (int i = 0; i < aot->n_tangents; i++) nx_tensor_unref(tangents[i]);
    nx_free(room);
    return status;
}

/* Writes of the user, and of a formula that writes what it has just made. */
static nx_status functionalise_joint(nx_aot *aot, nx_graph *graph) {
    NX_TRY(functionalise(aot, graph));
    return nx__do_dce(graph); /* whoever leaves out dce still needs this one */
}

static nx_status make_joint(nx_aot *aot, const nx_graph *captured, const wishes *wanted) {
    trace t;
    nx__calm before = nx__calm_begin(true);
    nx_status status = trace_begin(&t, captured, "primals_%d", wanted);
    if (status != NX_OK) goto fail;
    NX_TRY_FAIL(find_same_outputs(aot, &t));
    NX_TRY_FAIL(find_roots(aot, &t));
    if (aot->n_tangents == 0) goto fail; /* nothing to differentiate: no joint graph */
    NX_TRY_FAIL(trace_backward(aot, &t, wanted->requires_grad));
    if (aot->refusal) goto fail;
    NX_TRY_FAIL(functionalise_joint(aot, t.graph));
    aot->joint = t.graph;
    t.graph = NULL;
fail:
    trace_end(&t);
    nx__calm_end(before);
    return status;
}

/* ---- the whole ---- */
static nx_status prepare(nx_aot *aot, const nx_graph *captured) {
    const nx_node *output = nx_graph_output_node(captured);
    if (output == NULL) return nx_fail(NX_RUNTIME, "compile: the captured graph has no output");
    aot->n_inputs = captured->n_inputs;
    aot->n_outputs = output->n_args;
    size_t n_outputs = (size_t)aot->n_outputs + 1, n_inputs = (size_t)aot->n_inputs + 1;
    aot->mutated = nx_alloc_zeroed(sizeof(int) * n_inputs);
    aot->keeps_history = nx_alloc_zeroed(n_inputs);
    aot->grad_of = nx_alloc(sizeof(int) * n_inputs);
    aot->alias_of = nx_alloc_zeroed(sizeof(int) * n_outputs);
    aot->same_as_input = nx_alloc_zeroed(n_outputs);
    aot->same_as_output = nx_alloc_zeroed(sizeof(int) * n_outputs);
    aot->writes = nx_alloc_zeroed(sizeof *aot->writes * (n_outputs + n_inputs));
    aot->output_requires_grad = nx_alloc_zeroed(n_outputs + n_inputs);
    if (!aot->mutated || !aot->keeps_history || !aot->grad_of || !aot->alias_of || !aot->same_as_input || !aot->same_as_output ||
        !aot->writes || !aot->output_requires_grad)
        return nx_fail_memory(sizeof(int) * (n_inputs + n_outputs));
    for (int i = 0; i < aot->n_inputs; i++) aot->grad_of[i] = -1;
    return NX_OK;
}

static nx_status make_functional(nx_aot *aot, const nx_graph *captured, nx_graph **out) {
    NX_TRY(flatten(aot, captured, out));
    return functionalise(aot, *out);
}

static nx_status make_differentiable(nx_aot *aot, const nx_graph *captured, const bool *requires_grad) {
    bool *is_written = nx_alloc_zeroed((size_t)aot->n_inputs + 1);
    if (is_written == NULL) return nx_fail_memory((size_t)aot->n_inputs + 1);
    for (int i = 0; i < aot->n_mutated; i++) is_written[aot->mutated[i]] = true;
    nx_status status = make_joint(aot, captured, &(wishes){requires_grad, is_written});
    nx_free(is_written);
    return status;
}

static nx_status find_requires_grad(const nx_graph *captured, bool **out, bool *any) {
    bool *flags = nx_alloc_zeroed((size_t)captured->n_inputs + 1);
    int i = 0;
    if (flags == NULL) return nx_fail_memory((size_t)captured->n_inputs + 1);
    *any = false;
    for (const nx_node *node = captured->first; node; node = node->next) {
        if (node->kind != NX_NODE_PLACEHOLDER) continue;
        flags[i] = node->fakes[0] && nx_tensor_requires_grad(node->fakes[0]);
        *any = *any || flags[i];
        i++;
    }
    *out = flags;
    return NX_OK;
}

static nx_status finish(nx_aot *aot) {
    NX_TRY(nx_pass_run(aot->forward, NULL));
    return aot->backward ? nx_pass_run(aot->backward, NULL) : NX_OK;
}

/* ---- what gradients come from ------------------------------------------------------------------------------------ */
typedef struct origins { const uint64_t *of; uint64_t found; } origins; /* of: by node */

static void add_origin(void *arg, nx_node *input, int result) {
    origins *o = arg;
    o->found |= o->of[input->order];
}

/* Once, so that a backward knows at once which gradients a tangent that is missing leaves without any. */
static nx_status find_origins(nx_aot *aot) {
    const size_t n_nodes = (size_t)aot->backward->n_nodes + 1, n_grads = (size_t)aot->n_grads + 1;
    const nx_value *results = nx_graph_output_node(aot->backward)->args;
    uint64_t *of = nx_alloc_zeroed(sizeof *of * n_nodes);
    int input = 0;
    aot->grad_from = nx_alloc_zeroed(sizeof *of * n_grads);
    if (of == NULL || aot->grad_from == NULL) {
        nx_free(of);
        return nx_fail_memory(sizeof *of * (n_nodes + n_grads));
    }
    nx_graph_number(aot->backward);
    for (nx_node *node = aot->backward->first; node; node = node->next) {
        origins o = {of, 0};
        if (node->kind != NX_NODE_PLACEHOLDER) nx_node_each_input(node, add_origin, &o);
        else if (input++ >= aot->n_saved) o.found = nx_tangent_bit(input - 1 - aot->n_saved);
        of[node->order] = o.found;
    }
    for (int k = 0; k < aot->n_grads; k++) {
        if (results[k].tag == NX_TAG_NODE) aot->grad_from[k] = of[results[k].node->order];
    }
    nx_free(of);
    return NX_OK;
}

/* What is written must be known before anything is differentiated. */
nx_status nx_aot_compile(const nx_graph *captured, bool grad_mode, nx_aot **out) {
    nx_graph *functional = NULL;
    bool *requires_grad = NULL, any = false, writes = false;
    nx_status status;
    nx_aot *aot = nx_alloc_zeroed(sizeof *aot);
    if (aot == NULL) return nx_fail_memory(sizeof *aot);
    if (nx_flag.verify) NX_TRY_FAIL(nx_graph_verify(captured));
    NX_TRY_FAIL(prepare(aot, captured));
    NX_TRY_FAIL(find_requires_grad(captured, &requires_grad, &any));
    NX_TRY_FAIL(nx__find_writes(captured, &writes));
    bool differentiates = grad_mode && any;
    if (writes || !differentiates) NX_TRY_FAIL(make_functional(aot, captured, &functional));
    if (differentiates) NX_TRY_FAIL(make_differentiable(aot, captured, requires_grad));
    if (aot->joint) {
        NX_TRY_FAIL(nx_pass_split(aot->joint, aot->n_inputs, aot->n_outputs + aot->n_mutated, &aot->forward,
                                  &aot->backward, &aot->n_saved));
    } else {
        if (functional == NULL) NX_TRY_FAIL(make_functional(aot, captured, &functional));
        aot->forward = functional;
        functional = NULL;
    }
    NX_TRY_FAIL(finish(aot));
    if (aot->backward && aot->n_tangents > 1) NX_TRY_FAIL(find_origins(aot));
    *out = aot;
    aot = NULL;
fail:
    nx_aot_free(aot);
    nx_graph_free(functional);
    nx_free(requires_grad);
    return status;
}

void nx_aot_free(nx_aot *aot) {
    if (aot == NULL) return;
    nx_graph_free(aot->joint);
    nx_graph_free(aot->forward);
    nx_graph_free(aot->backward);
    nx_free(aot->mutated);
    nx_free(aot->keeps_history);
    nx_free(aot->alias_of);
    nx_free(aot->same_as_input);
    nx_free(aot->same_as_output);
    nx_free(aot->writes);
    nx_free(aot->output_requires_grad);
    nx_free(aot->grad_of);
    nx_free(aot->grad_from);
    nx_free(aot->refusal);
    nx_free(aot);
}
