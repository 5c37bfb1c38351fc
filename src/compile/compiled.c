/* The compiled function: what a call does around the forward graph.
 * Forward; then, when gradients are wanted, one autograd node that holds the saved values; then new values
 * of written inputs are copied back; then the outputs: computed ones become results of the node, an output
 * that is an input is that input, a view of one is taken again. The commonest call, without any of this,
 * goes straight to the forward.
 * The caller has checked (by guards) that inputs fit the graph. Next: plan.c (forward), backward.c (node). */
#include "compile/private.h"

/* ---- making ------------------------------------------------------------------------------------------- */
/* saved: the values behind the outputs and the new values of written inputs. */
static nx_status find_saved_inputs(nx_compiled *compiled, const nx_value *saved) {
    nx_graph *graph = compiled->aot->forward;
    int n_inputs = 0, n_nodes = 0;
    nx_graph_number(graph);
    for (const nx_node *node = graph->first; node; node = node->next) n_nodes++;
    int *index = nx_alloc(sizeof *index * (size_t)(n_nodes + 1)); /* by order */
    if (index == NULL) return nx_fail_memory(sizeof *index * (size_t)(n_nodes + 1));
    for (const nx_node *node = graph->first; node; node = node->next)
        index[node->order] = node->kind == NX_NODE_PLACEHOLDER ? n_inputs++ : -1;
    for (int i = 0; i < compiled->aot->n_saved; i++)
        compiled->saved_input[i] = saved[i].tag == NX_TAG_NODE ? index[saved[i].node->order] : -1;
    nx_free(index);
    return NX_OK;
}

static nx_status describe(nx_compiled *compiled, bool *left_out) {
    const nx_aot *aot = compiled->aot;
    const nx_node *output = nx_graph_output_node(aot->forward);
    int n_before = aot->n_outputs + aot->n_mutated;
    if (output == NULL || output->n_args != n_before + aot->n_saved ||
        aot->forward->n_inputs != aot->n_inputs) {
        return nx_fail(NX_RUNTIME, "compile: the forward graph does not have the inputs and results that its "
                       "description says");
    }
    NX_TRY(nx__views_find(aot, &compiled->aliases));
    for (int i = 0; i < aot->n_outputs; i++) left_out[i] = compiled->aliases.of[i].input >= 0;
    for (int i = 0; i < aot->n_mutated; i++) compiled->is_mutated[aot->mutated[i]] = true;
    return find_saved_inputs(compiled, output->args + n_before);
}

/* Which outputs are, without their history, the tensor that an earlier one or an input is, and which saved values are an
 * output: by place among the forward's results. */
static nx_status find_same(nx_compiled *compiled) {
    const nx_aot *aot = compiled->aot;
    const nx__plan *plan = compiled->forward;
    int n_before = aot->n_outputs + aot->n_mutated;
    compiled->is_another = nx_alloc_zeroed((size_t)plan->n_results + 1);
    bool *seen = nx_alloc_zeroed((size_t)plan->n_computed + 1);
    nx_status status = compiled->is_another && seen ? NX_OK : nx_fail_memory((size_t)plan->n_results + 1);
    for (int i = 0; i < plan->n_results && plan->results && status == NX_OK; i++) {
        nx__result from = plan->results[i];
        compiled->is_another[i] = from.origin == NX__FROM_INPUT;
        if (from.origin != NX__FROM_COMPUTED) continue;
        compiled->is_another[i] = seen[from.index];
        if (i < n_before) seen[from.index] = true;
    }
    nx_free(seen);
    return status;
}

/* Without a backward nothing of the old elements is kept, so that written inputs may be written where they lie. */
static nx_status make_forward(nx_compiled *compiled, const bool *left_out) {
    const nx_aot *aot = compiled->aot;
    size_t bytes = sizeof(int) * (size_t)(aot->n_outputs + aot->n_mutated + aot->n_saved + 1);
    int *copied_into = nx_alloc(bytes);
    if (copied_into == NULL) return nx_fail_memory(bytes);
    memset(copied_into, -1, bytes);
    for (int i = 0; i < aot->n_mutated; i++) copied_into[aot->n_outputs + i] = aot->mutated[i];
    nx_status status = nx__plan_new(aot->forward, left_out, nx_aot_has_history(aot) ? NULL : copied_into, compiled->mode,
                                    compiled->device, &compiled->forward);
    nx_free(copied_into);
    for (int i = 0; i < aot->n_mutated && status == NX_OK; i++) {
        if (nx__plan_writes(compiled->forward, aot->mutated[i]))
            compiled->at_once[compiled->n_at_once++] = aot->mutated[i];
    }
    return status;
}

/* The runners' plans; what the caller makes itself is not asked of the forward. */
static nx_status take_runners(nx_compiled *compiled, nx_runners *runners) {
    const nx_aot *aot = compiled->aot;
    int n_before = aot->n_outputs + aot->n_mutated;
    compiled->n_saved = runners->n_saved;
    int *saved_input = nx_alloc(sizeof *saved_input * (size_t)(runners->n_saved + 1));
    if (saved_input == NULL) return nx_fail_memory(sizeof *saved_input * (size_t)runners->n_saved);
    if (runners->n_saved) memcpy(saved_input, runners->saved_input, sizeof *saved_input * (size_t)runners->n_saved);
    nx_free(compiled->saved_input);
    compiled->saved_input = saved_input;
    NX_TRY(nx__plan_new_run(&runners->forward, aot->n_inputs, n_before + runners->n_saved, &compiled->forward));
    runners->forward.run = NULL;
    if (runners->backward.run == NULL) return NX_OK;
    nx__plan *backward;
    NX_TRY(nx__plan_new_run(&runners->backward, runners->n_saved + aot->n_tangents, aot->n_inputs, &backward));
    runners->backward.run = NULL;
    compiled->backward = backward;
    return NX_OK;
}

static nx_status prepare(nx_compiled *compiled, nx_runners *runners) {
    const nx_aot *aot = compiled->aot;
    size_t n_outputs = (size_t)aot->n_outputs + 1, n_saved = (size_t)aot->n_saved + 1,
        n_inputs = (size_t)aot->n_inputs + 1;
    compiled->saved_input = nx_alloc_zeroed(sizeof *compiled->saved_input * n_saved);
    compiled->is_mutated = nx_alloc_zeroed(n_inputs);
    compiled->at_once = nx_alloc(sizeof(int) * n_inputs);
    bool *left_out = nx_alloc_zeroed(n_outputs + n_saved + (size_t)aot->n_mutated);
    nx_status status = NX_NO_MEMORY;
    if (compiled->saved_input && compiled->is_mutated && compiled->at_once && left_out) {
        status = describe(compiled, left_out);
    } else {
        nx_fail_memory(n_outputs + n_saved + n_inputs);
    }
    compiled->n_saved = aot->n_saved;
    if (status == NX_OK) status = runners ? take_runners(compiled, runners) : make_forward(compiled, left_out);
    if (status == NX_OK) status = find_same(compiled);
    if (status == NX_OK) {
        compiled->is_plain = aot->n_mutated == 0 && compiled->n_saved == 0;
        for (int i = 0; i < aot->n_outputs; i++) {
            compiled->is_plain = compiled->is_plain && !left_out[i] && !compiled->is_another[i];
        }
    }
    nx_free(left_out);
    return status;
}

static nx_status make(nx_aot *aot, nx_mode mode, nx_device device, nx_runners *runners, nx_compiled **out) {
    nx_compiled *compiled = nx_alloc_zeroed(sizeof *compiled);
    if (compiled == NULL) {
        nx_aot_free(aot);
        return nx_fail_memory(sizeof *compiled);
    }
    compiled->refs = 1;
    compiled->aot = aot;
    compiled->mode = mode;
    compiled->device = device;
    nx_status status = prepare(compiled, runners);
    if (status != NX_OK) {
        nx_compiled_unref(compiled);
        return status;
    }
    *out = compiled;
    return NX_OK;
}

nx_status nx_compiled_new(nx_aot *aot, nx_mode mode, nx_device device, nx_compiled **out) {
    return make(aot, mode, device, NULL, out);
}

nx_status nx_compiled_new_run(nx_aot *aot, const nx_runners *runners, nx_compiled **out) {
    nx_runners left = *runners; /* what no plan has taken */
    nx_status status = make(aot, NX_MODE_EAGER, NX_CPU, &left, out);
    if (left.forward.run) left.forward.free(left.forward.context);
    if (left.backward.run) left.backward.free(left.backward.context);
    return status;
}

void nx_compiled_ref(nx_compiled *compiled) { nx_count_up(&compiled->refs); }

void nx_compiled_unref(nx_compiled *compiled) {
    if (compiled == NULL || !nx_count_down(&compiled->refs)) return;
    nx__plan_free(compiled->forward);
    nx__plan_free(compiled->backward);
    nx__views_free(&compiled->aliases);
    nx_free(compiled->saved_input);
    nx_free(compiled->is_mutated);
    nx_free(compiled->at_once);
    nx_free(compiled->is_another);
    nx_aot_free(compiled->aot);
    nx_free(compiled);
}

const nx_aot *nx_compiled_aot(const nx_compiled *compiled) { return compiled->aot; }
int nx_compiled_n_launches(const nx_compiled *compiled) { return nx__plan_n_launches(compiled->forward); }
bool nx_compiled_is_run(const nx_compiled *compiled) { return compiled->forward->runner.run != NULL; }

static nx_status add_plan(nx_text *text, const nx__plan *plan) {
    char *own;
    if (plan->runner.run) {
        nx_text_add(text, "run by a function of its own\n");
        return NX_OK;
    }
    const nx_program *program = plan->replay ? nx_replay_program(plan->replay) : plan->program;
    NX_TRY(program ? nx_program_print(program, &own) : nx_graph_print(plan->graph, &own));
    nx_text_add(text, "%s", own);
    if (plan->apart && plan->lacks_kernel)
        nx_text_add(text, "runs call by call: the device has no kernel for %s (%s)\n", nx_op_name(plan->apart->op), plan->apart->name);
    else if (plan->apart && nx_op_holds_graphs(plan->apart->op))
        nx_text_add(text, "runs call by call: what %s runs is known when it runs\n", plan->apart->name);
    else if (plan->apart)
        nx_text_add(text, "runs call by call: %s lies on another device than the graph\n", plan->apart->name);
    if (plan->replay) nx_text_add(text, "recorded: %d launches, %zu bytes of intermediates\n",
                                  nx_replay_n_launches(plan->replay), nx_replay_pool_bytes(plan->replay));
    nx_free(own);
    return NX_OK;
}

/* What a call leaves in memory until its backward, beside what inputs and outputs take anyway. */
static void add_kept(nx_text *text, const nx_compiled *compiled) {
    const nx_aot *aot = compiled->aot;
    const nx_value *results = nx_graph_output_node(aot->forward)->args;
    int n_before = aot->n_outputs + aot->n_mutated, n = 0;
    size_t bytes = 0;
    for (int i = n_before; i < n_before + aot->n_saved; i++) {
        bool is_there = results[i].node->kind == NX_NODE_PLACEHOLDER;
        for (int k = 0; k < aot->n_outputs; k++)
            is_there = is_there || (results[k].node == results[i].node && results[k].n == results[i].n);
        if (is_there) continue;
        const nx_array *a = &results[i].node->fakes[results[i].n]->a;
        bytes += (size_t)a->numel * nx_dtype_bytes((nx_dtype)a->dtype);
        n++;
    }
    nx_text_add(text, "kept for the backward: %d values, %zu bytes, beside inputs and outputs\n", n, bytes);
}

nx_status nx_compiled_print(const nx_compiled *compiled, char **out) {
    nx_text text = {0};
    nx_status status = add_plan(&text, compiled->forward);
    if (status == NX_OK && compiled->aot->backward && compiled->forward->runner.run == NULL) add_kept(&text, compiled);
    if (status == NX_OK && compiled->backward) {
        nx_text_add(&text, "backward: ");
        status = add_plan(&text, compiled->backward);
    }
    if (status == NX_OK) return nx_text_take(&text, out);
    nx_text_free(&text);
    return status;
}

/* ---- measuring ---------------------------------------------------------------------------------------- */
nx_status nx_compiled_measure(nx_compiled *compiled) {
    compiled->measures = true;
    return compiled->forward->program ? nx_program_measure(compiled->forward->program) : NX_OK;
}

static nx_status add_report(nx_text *text, const char *before, const nx__plan *plan) {
    char *own = NULL;
    if (plan == NULL || plan->program == NULL) return NX_OK;
    NX_TRY(nx_program_report(plan->program, &own));
    if (own) nx_text_add(text, "%s%s", before, own);
    nx_free(own);
    return NX_OK;
}

nx_status nx_compiled_report(const nx_compiled *compiled, char **out) {
    nx_text text = {0};
    nx_text_add(&text, "%s", "");
    nx_status status = add_report(&text, "", compiled->forward);
    if (status == NX_OK) status = add_report(&text, "backward: ", compiled->backward);
    if (status == NX_OK) return nx_text_take(&text, out);
    nx_text_free(&text);
    return status;
}

/* ---- running ------------------------------------------------------------------------------------------ */
static nx_status check_written(const nx_compiled *compiled, nx_tensor *const *inputs) {
    const nx_aot *aot = compiled->aot;
    for (int i = 0; i < aot->n_mutated; i++) {
        const nx_tensor *written = inputs[aot->mutated[i]];
        if (aot->keeps_history[i] || !nx_tensor_requires_grad(written) || !nx_tensor_is_leaf(written)) continue;
        return nx_fail(NX_RUNTIME, "a leaf Variable that requires grad is being used in an in-place "
                       "operation.");
    }
    return NX_OK;
}

static nx_status copy_into(nx_tensor *to, nx_tensor *from) {
    const nx_op *copy = nx_known(NX_KNOWN_COPY_INTO);
    nx_value in[] = {nx_value_tensor(to), nx_value_tensor(from), nx_value_bool(false)}, same = NX_VALUE_NONE;
    NX_TRY(nx_op_call(copy, in, &same));
    nx_value_drop(&same);
    return NX_OK;
}

/* New values go into the written inputs; one with a history hands it on, where the caller records. */
static nx_status copy_back(const nx_aot *aot, nx_tensor *const *inputs, nx_tensor *const *results,
                           nx_grad_node *node, bool disabled) {
    nx_thread *thread = nx_thread_get();
    for (int i = 0; i < aot->n_mutated; i++) {
        int at = aot->n_outputs + i;
        nx_tensor *to = inputs[aot->mutated[i]], *from = results[at], *with_history = NULL;
        if (from == NULL || from == to) continue;
        if (node == NULL || !aot->output_requires_grad[at]) {
            NX_TRY(copy_into(to, from));
            continue;
        }
        NX_TRY(nx_tensor_alias(from, &with_history));
        nx_status status = nx_grad_set_node(with_history, node, at);
        thread->grad_disabled = disabled;
        if (status == NX_OK) status = copy_into(to, with_history);
        thread->grad_disabled = true;
        nx_tensor_unref(with_history);
        if (status != NX_OK) return status;
    }
    return NX_OK;
}

/* What the outputs of one call are made of. */
typedef struct maker {
    const nx_compiled *compiled;
    nx_tensor *const *inputs, *const *results, **views;
    nx_grad_node *node;
    nx_numbers owners;       /* by memory: the first output that lies there */
} maker;

/* Outputs that share memory are views of the first of them to autograd: writing one of them in place must not leave the
 * history of another as it was. */
static nx_status join_views(maker *m, nx_tensor *const *out, int i, bool differentiated) {
    int first = i;
    if (m->node == NULL) return NX_OK;
    NX_TRY(nx_numbers_add(&m->owners, out[i]->storage, i, &first));
    nx_tensor *owner = out[first];
    if (differentiated && owner != out[i] && out[i]->base == NULL && owner->base != out[i]) nx_tensor_set_base(out[i], owner);
    return NX_OK;
}

/* Output `i` as the caller gets it: a new reference, or NULL when it fails. */
static nx_status make_output(maker *m, int i, nx_tensor **outputs) {
    nx_tensor **out = &outputs[i];
    const nx_compiled *compiled = m->compiled;
    const nx__alias *alias = &compiled->aliases.of[i];
    int same = compiled->aot->same_as_output[i];
    if (same >= 0) {
        *out = nx_tensor_ref(outputs[same]);
        return NX_OK;
    }
    bool differentiated = m->node && compiled->aot->output_requires_grad[i];
    if (alias->input >= 0) { /* differentiated: detached from the input and written */
        *out = nx_tensor_ref(alias->view < 0 ? m->inputs[alias->input] : m->views[alias->view]);
    } else {
        nx_tensor *result = m->results[i];
        if (result == NULL) return nx_fail(NX_NOT_IMPLEMENTED, "compiled graph: output %d is not a tensor", i);
        if (compiled->is_another[i]) NX_TRY(nx_tensor_alias(result, out)); /* an input keeps its own history */
        else *out = nx_tensor_ref(result);
    }
    nx_status status = join_views(m, outputs, i, differentiated && alias->input < 0);
    if (status == NX_OK && differentiated) status = nx_grad_set_node(*out, m->node, i);
    if (status == NX_OK) return NX_OK;
    nx_tensor_unref(*out);
    *out = NULL;
    return status;
}

/* Views of inputs first, recorded as the caller records. */
static nx_status make_outputs(maker *m, nx_tensor **out) {
    int n_views = m->compiled->aliases.given.n, n = m->compiled->aot->n_outputs, made = 0;
    nx_tensor *few[16];
    m->views = n_views > NX_COUNT(few) ? nx_alloc(sizeof *few * (size_t)n_views) : few;
    if (m->views == NULL) return nx_fail_memory(sizeof *few * (size_t)n_views);
    nx_status status = n_views ? nx__views_take(&m->compiled->aliases, m->inputs, m->views) : NX_OK;
    bool taken = n_views && status == NX_OK;
    nx_numbers_start(&m->owners);
    for (; made < n && status == NX_OK; made++) status = make_output(m, made, out);
    nx_numbers_free(&m->owners);
    for (int k = 0; taken && k < n_views; k++) nx_tensor_unref(m->views[k]);
    if (m->views != few) nx_free(m->views);
    for (int i = 0; i < n && status != NX_OK; i++) {
        if (i < made - 1) nx_tensor_unref(out[i]); /* the last one failed and is not there */
        out[i] = NULL;
    }
    return status;
}

/* Memory that the graph has made counts the writes that the program did there; a written input has counted one of them. */
static void count_writes(const nx_compiled *compiled, nx_tensor *const *results) {
    for (int i = 0; i < compiled->aot->n_outputs; i++) {
        bool own = compiled->aliases.of[i].input < 0 && !compiled->is_another[i] && compiled->aot->same_as_output[i] < 0;
        if (own && results[i] && results[i]->storage) results[i]->storage->version = compiled->aot->writes[i];
    }
}

static void count_more_writes(const nx_aot *aot, nx_tensor *const *inputs) {
    for (int i = 0; i < aot->n_mutated; i++) {
        uint32_t writes = aot->writes[aot->n_outputs + aot->mutated[i]];
        if (writes > 1) inputs[aot->mutated[i]]->storage->version += writes - 1;
    }
}

/* From the forward's results to the outputs. Recording is off on entry and as the caller had it while views
 * are taken. */
static nx_status finish(nx_compiled *compiled, nx_tensor *const *inputs, nx_tensor *const *results,
                        bool disabled, bool wants, nx_tensor **out) {
    nx_thread *thread = nx_thread_get();
    maker m;
    nx_status status = NX_OK;
    m.compiled = compiled;
    m.inputs = inputs;
    m.results = results;
    m.node = NULL;
    if (compiled->aot->any_writes) count_writes(compiled, results);
    if (wants) status = nx__backward_node(compiled, inputs, results, &m.node);
    if (status == NX_OK) status = copy_back(compiled->aot, inputs, results, m.node, disabled);
    if (status == NX_OK) count_more_writes(compiled->aot, inputs);
    for (int i = 0; i < compiled->aot->n_outputs && status != NX_OK; i++) out[i] = NULL;
    if (status == NX_OK) {
        thread->grad_disabled = disabled;
        status = make_outputs(&m, out);
        thread->grad_disabled = true;
    }
    nx_grad_node_unref(m.node);
    return status;
}

/* By input: its memory is also another one's. */
static nx_status find_sharing(nx_tensor *const *inputs, int n, bool *shares) {
    nx_numbers seen;
    nx_status status = NX_OK;
    nx_numbers_start(&seen);
    for (int i = 0; i < n && status == NX_OK; i++) {
        int first = i;
        status = nx_numbers_add(&seen, nx_storage_memory(inputs[i]->storage), i, &first);
        shares[i] = first < i;
        shares[first] = shares[first] || first < i;
    }
    nx_numbers_free(&seen);
    return status;
}

/* The forward reads its inputs as they were: one that it writes at once, and that another one shares memory with, is
 * a copy for it, which is then copied back like any result. */
static nx_status run_apart(const nx_compiled *compiled, nx_tensor *const *inputs, const bool *shares, nx_tensor **results) {
    int n = compiled->aot->n_inputs;
    nx_tensor **copies = nx_alloc_zeroed(2 * sizeof *copies * (size_t)n), **given = copies + n;
    nx_status status = NX_OK;
    if (copies == NULL) return nx_fail_memory(2 * sizeof *copies * (size_t)n);
    memcpy(given, inputs, sizeof *inputs * (size_t)n);
    for (int i = 0; i < compiled->n_at_once && status == NX_OK; i++) {
        int k = compiled->at_once[i];
        if (shares[k]) status = nx__copy_of(inputs[k], &copies[k]);
        if (shares[k]) given[k] = copies[k];
    }
    if (status == NX_OK) status = nx__plan_run(compiled->forward, given, results);
    for (int i = 0; i < n; i++) nx_tensor_unref(copies[i]);
    nx_free(copies);
    return status;
}

static nx_status run_forward(const nx_compiled *compiled, nx_tensor *const *inputs, nx_tensor **results) {
    int n = compiled->aot->n_inputs;
    bool few[64], *shares = few, apart = false;
    if (compiled->n_at_once == 0) return nx__plan_run(compiled->forward, inputs, results);
    if (n > NX_COUNT(few)) shares = nx_alloc((size_t)n);
    if (shares == NULL) return nx_fail_memory((size_t)n);
    nx_status status = find_sharing(inputs, n, shares);
    for (int i = 0; i < compiled->n_at_once && status == NX_OK; i++) apart = apart || shares[compiled->at_once[i]];
    if (status == NX_OK && apart) status = run_apart(compiled, inputs, shares, results);
    else if (status == NX_OK) status = nx__plan_run(compiled->forward, inputs, results);
    if (shares != few) nx_free(shares);
    return status;
}

static nx_status run_full(nx_compiled *compiled, nx_tensor *const *inputs, bool disabled, bool any_grad,
                          nx_tensor **out) {
    nx_tensor *few[256], **results = few;
    int n = compiled->forward->n_results;
    if (!disabled) NX_TRY(check_written(compiled, inputs));
    if (n > NX_COUNT(few)) results = nx_alloc(sizeof *results * (size_t)n);
    if (results == NULL) return nx_fail_memory(sizeof *results * (size_t)n);
    nx_status status = run_forward(compiled, inputs, results);
    if (status == NX_OK) {
        status = finish(compiled, inputs, results, disabled, any_grad && nx_aot_has_history(compiled->aot), out);
        for (int i = 0; i < n; i++) nx_tensor_unref(results[i]);
    }
    if (results != few) nx_free(results);
    return status;
}

static nx_status run_graph(nx_compiled *compiled, nx_tensor *const *inputs, bool disabled, bool any_grad, nx_tensor **out) {
    bool plain = compiled->is_plain && !(any_grad && nx_aot_has_history(compiled->aot));
    if (plain && !compiled->aot->any_writes) return nx__plan_run(compiled->forward, inputs, out);
    return run_full(compiled, inputs, disabled, any_grad, out);
}

nx_status nx_compiled_run(nx_compiled *compiled, nx_tensor *const *inputs, int n_inputs, nx_tensor **out,
                          int n_outputs) {
    nx_thread *thread = nx_thread_get();
    const nx_aot *aot = compiled->aot;
    bool disabled = thread->grad_disabled, any_grad = false;
    if (NX_UNLIKELY(n_inputs != aot->n_inputs || n_outputs != aot->n_outputs)) {
        return nx_fail(NX_TYPE, "compiled graph: %d inputs and room for %d outputs were given, it has %d and "
                       "%d", n_inputs, n_outputs,
                       aot->n_inputs, aot->n_outputs);
    }
    NX_TRY(nx_forward_refuse(inputs, n_inputs));
    for (int i = 0; i < n_inputs && !disabled; i++) any_grad = any_grad || nx_tensor_requires_grad(inputs[i]);
    nx_profile *profile = thread->profile;
    int event = NX_UNLIKELY(profile != NULL) ? nx_profile_begin(profile, NX_EVENT_GRAPH, "CompiledFunction") : -1;
    thread->grad_disabled = true; /* the graph has its own backward */
    uint64_t excluded = nx_keys_exclude(NX_KEY(AUTOCAST)); /* and its own casts */
    nx_status status = run_graph(compiled, inputs, disabled, any_grad, out);
    if (NX_UNLIKELY(profile != NULL)) nx_profile_end(profile, event);
    thread->grad_disabled = disabled;
    nx_keys_restore(excluded);
    return status;
}
