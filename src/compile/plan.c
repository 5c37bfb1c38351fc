/* A functional graph made runnable in one of three ways: by the interpreter (eager), by capture and replay
 * (reduce-overhead), by the graph engine (max-autotune).
 * Results that are inputs or stand twice are not computed: the graph that runs is a copy whose output names
 * each computed value once. In: tensors that fit the graph's placeholders, which the caller has checked.
 * Next: compiled.c. */
#include "compile/private.h"

nx_node *nx__graph_input_at(const nx_graph *graph, int index) {
    for (nx_node *node = graph->first; node; node = node->next) {
        if (node->kind == NX_NODE_PLACEHOLDER && index-- == 0) return node;
    }
    return NULL;
}

int nx__graph_input_index(const nx_node *placeholder) {
    int index = 0;
    for (const nx_node *node = placeholder->previous; node; node = node->previous)
        index += node->kind == NX_NODE_PLACEHOLDER;
    return index;
}

/* ---- which results are computed ----------------------------------------------------------------------- */
/* Inputs get their index, computed values their place plus one, by the address of their fake. */
static nx_status number_inputs(const nx_graph *graph, nx_map *places) {
    intptr_t n = 0;
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->kind == NX_NODE_PLACEHOLDER) NX_TRY(nx_map_set(places, node, (void *)n++));
    }
    return NX_OK;
}

/* Fills plan->results; `computed` gets the values to compute, each once. */
static nx_status sort_results(nx__plan *plan, const nx_node *output, const bool *left_out,
                              nx_value *computed, nx_map *places) {
    NX_TRY(number_inputs(plan->graph, places));
    for (int i = 0; i < plan->n_results; i++) {
        const nx_value *value = &output->args[i];
        nx__result *result = &plan->results[i];
        *result = (nx__result){NX__FROM_NOTHING, 0};
        if (left_out && left_out[i]) {
            result->origin = NX__FROM_LEFT_OUT;
        } else if (value->tag == NX_TAG_NODE && value->node->kind == NX_NODE_PLACEHOLDER) {
            *result = (nx__result){NX__FROM_INPUT, (int)(intptr_t)nx_map_get(places, value->node)};
        } else if (value->tag == NX_TAG_NODE) {
            const void *key = value->node->fakes + value->n;
            intptr_t at = (intptr_t)nx_map_get(places, key);
            if (at == 0) {
                computed[plan->n_computed++] = *value;
                NX_TRY(nx_map_set(places, key, (void *)(at = plan->n_computed)));
            }
            *result = (nx__result){NX__FROM_COMPUTED, (int)at - 1};
        } else if (value->tag != NX_TAG_NONE) {
            return nx_fail(NX_NOT_IMPLEMENTED, "compile: result %d of the graph is not a tensor", i);
        }
    }
    return NX_OK;
}

static bool has_calls(const nx_graph *graph) {
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->kind != NX_NODE_PLACEHOLDER && node->kind != NX_NODE_OUTPUT &&
            node->kind != NX_NODE_GET_ATTR) return true;
    }
    return false;
}

/* Whether the engine cannot compute the call on the device: it takes no operator to pieces. */
static bool lacks_kernel(const nx_device_api *api, const nx_op_def *def) {
    bool computes = def->kind != NX_KIND_VIEW && (def->kernel || def->ref || def->compose);
    return computes && !api->find_kernel(api->context, def->name);
}

/* The first node that is not for the graph's device: it lies on another, or the device has no kernel for it; NULL: none.
 * Numbers of the CPU, as tensors of no dimension,
 * may stand beside tensors of any device, and the engine computes with them. */
static const nx_node *find_apart(nx__plan *plan, nx_device device) {
    const nx_device_api *api = device.type ? nx_device_get_api(device.type) : NULL;
    nx_mode mode = plan->mode;
    for (const nx_node *node = plan->graph->first; node; node = node->next) {
        if (nx_op_holds_graphs(node->op)) return node; /* which launches there are is known when it runs */
        plan->lacks_kernel = api && node->op && lacks_kernel(api, node->op->def);
        if (plan->lacks_kernel) return node;
        bool is_given = node->kind == NX_NODE_PLACEHOLDER || node->kind == NX_NODE_GET_ATTR;
        bool may_be_number = is_given || (mode == NX_MODE_MAX_AUTOTUNE && node->op && node->op->def->kind == NX_KIND_POINT);
        for (int r = 0; r < node->n_results; r++) {
            const nx_tensor *fake = node->fakes[r];
            if (fake == NULL || nx_device_same(fake->a.device, device)) continue;
            if (!(may_be_number && fake->a.device.type == 0 && fake->a.ndim == 0)) return node;
        }
    }
    return NULL;
}

/* ---- which inputs are written at once ------------------------------------------------------------------ */
static bool is_index(const nx_tensor *fake) { return fake && !nx_is_differentiable((nx_dtype)fake->a.dtype); }
static void look_for_index(void *found, nx_node *input, int result) { *(bool *)found |= is_index(input->fakes[result]); }

/* Whether what the elements are may make the call fail: indices and masks, divisors, probabilities, matrices that are checked, whose
 * call has a name for the error, and code of the program's. */
static bool may_fail(const nx_node *node) {
    const nx_op_def *def = node->op ? node->op->def : NULL;
    if (def == NULL || def->kind == NX_KIND_VIEW || def->kind == NX_KIND_REDUCE) return false;
    if (def->flags & (NX_OP_RANDOM | NX_OP_OUTSIDE)) return true;
    if (def->kind == NX_KIND_POINT)
        return def->point && node->fakes[0] && nx_point_may_fail(def->point, (nx_dtype)node->fakes[0]->a.dtype);
    bool found = false;
    for (int i = 0; i < node->n_args && !found; i++) found = node->args[i].tag == NX_TAG_STR && node->args[i].str[0];
    if (!found) nx_node_each_input(node, look_for_index, &found);
    return found;
}

/* Whether `node` fails only where `before`, an earlier call, has failed: the same indices of another tensor of this size. */
static bool fails_alike(const nx_node *node, const nx_node *before) {
    bool alike = node->op == before->op && !(node->op->def->flags & (NX_OP_RANDOM | NX_OP_OUTSIDE));
    for (int i = 0; i < node->n_args && alike; i++) {
        const nx_value *a = &node->args[i], *b = &before->args[i];
        if (a->tag == NX_TAG_STR ? !a->str[0] : nx_value_equal(a, b)) continue;
        const nx_tensor *x = a->tag == NX_TAG_NODE ? a->node->fakes[a->n] : NULL, *y = b->tag == NX_TAG_NODE ? b->node->fakes[b->n] : NULL;
        alike = x && y && nx_same_size(&x->a, &y->a) && !is_index(x) && !is_index(y);
    }
    return alike;
}

/* The last call that may fail, and the last before it; NULL: none. */
typedef struct failures { const nx_node *last, *before; } failures;
static failures find_failures(const nx_graph *graph) {
    const nx_node *first[4];
    failures found = {NULL, NULL};
    int n = 0;
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (!may_fail(node)) continue;
        bool alike = false;
        for (int k = 0; k < n && !alike; k++) alike = fails_alike(node, first[k]);
        if (alike) continue;
        if (n < NX_COUNT(first)) first[n++] = node;
        found = (failures){node, found.last};
    }
    return found;
}

/* Whether the scatters that make the value, which may write an input's memory, all come behind the last failure. */
static bool comes_behind(const nx_value *value, int last) {
    while (value->tag == NX_TAG_NODE && value->node->op && value->node->op->part) {
        const nx_node *node = value->node;
        if (node->order <= last || !comes_behind(&node->args[1], last)) return false;
        value = &node->args[0];
    }
    return true;
}

/* An input is written at once where no call behind that may fail: the caller then runs the program uncompiled, from its first line.
 * A call that fails itself has written nothing. */
static bool may_write(const failures *all, const nx_value *result) {
    const nx_node *failure = all->last == result->node ? all->before : all->last;
    int last = failure ? failure->order : -1;
    return result->node->order > last && comes_behind(result, last);
}

/* By input: the computed result that is copied into it and that nobody else wants, -1. An input that is a result as it
 * came must stay. Runs that are compared leave their inputs alone. */
static nx_status find_written(nx__plan *plan, const int *copied_into, int **out) {
    size_t bytes = sizeof(int) * (size_t)(plan->n_inputs + plan->n_computed + 1);
    int *result_of = nx_alloc(bytes), *n_wanted = result_of + plan->n_inputs;
    if (result_of == NULL) return nx_fail_memory(bytes);
    const nx_value *computed = nx_graph_output_node(plan->graph)->args;
    nx_graph_number(plan->graph);
    failures all = find_failures(plan->graph);
    for (int i = 0; i < plan->n_inputs; i++) result_of[i] = -1;
    for (int i = 0; i < plan->n_computed; i++) n_wanted[i] = 0;
    for (int i = 0; i < plan->n_results; i++)
        if (plan->results[i].origin == NX__FROM_COMPUTED) n_wanted[plan->results[i].index]++;
    for (int i = 0; i < plan->n_results; i++) {
        nx__result result = plan->results[i];
        bool alone = result.origin == NX__FROM_COMPUTED && n_wanted[result.index] == 1;
        if (copied_into[i] < 0 || !alone) continue;
        if (may_write(&all, &computed[result.index])) result_of[copied_into[i]] = result.index;
    }
    for (int i = 0; i < plan->n_results; i++)
        if (plan->results[i].origin == NX__FROM_INPUT) result_of[plan->results[i].index] = -1;
    *out = result_of;
    return NX_OK;
}

static nx_status build_program(nx__plan *plan, const int *copied_into, nx_device device) {
    int *result_of = NULL;
    if (copied_into && !nx_flag.compare) NX_TRY(find_written(plan, copied_into, &result_of));
    nx_status status = plan->mode == NX_MODE_REDUCE_OVERHEAD
        ? nx_replay_new(plan->graph, result_of, device, &plan->replay)
        : nx_program_new_from_own(plan->graph, result_of, device, &plan->program);
    nx_free(result_of);
    if (status != NX_OK || plan->program == NULL) return status;
    status = nx__twins_start(plan);
    if (status != NX_OK) nx_program_free(plan->program);
    return status;
}

static nx_status build(nx__plan *plan, const bool *left_out, const int *copied_into, nx_value *computed, nx_device device) {
    nx_node *output = nx_graph_output_node(plan->graph);
    nx_map places = {0};
    nx_status status = sort_results(plan, output, left_out, computed, &places);
    nx_map_free(&places);
    NX_TRY(status);
    plan->is_direct = plan->n_computed == plan->n_results;
    for (int i = 0; i < plan->n_results && plan->is_direct; i++) {
        plan->is_direct = plan->results[i].origin == NX__FROM_COMPUTED && plan->results[i].index == i;
    }
    NX_TRY(nx_node_set_args(output, computed, plan->n_computed));
    NX_TRY(nx_pass_dce(plan->graph));
    plan->is_empty = plan->n_computed == 0 && !has_calls(plan->graph);
    if (plan->is_empty || plan->mode == NX_MODE_EAGER) return NX_OK;
    NX_TRY(nx_pass_place(plan->graph, device));
    plan->apart = find_apart(plan, device);
    return plan->apart ? NX_OK : build_program(plan, copied_into, device);
}

nx_status nx__plan_new_unchecked(const nx_graph *graph, const bool *left_out, const int *copied_into, nx_mode mode,
                                 nx_device device, nx__plan **out) {
    const nx_node *output = nx_graph_output_node(graph);
    nx_value *computed = NULL;
    nx_status status;
    if (output == NULL) return nx_fail(NX_RUNTIME, "compile: the graph has no output");
    nx__plan *plan = nx_alloc_zeroed(sizeof *plan);
    if (plan == NULL) return nx_fail_memory(sizeof *plan);
    plan->mode = mode;
    plan->n_results = output->n_args;
    plan->n_inputs = graph->n_inputs;
    size_t n = (size_t)plan->n_results;
    plan->results = nx_alloc_zeroed(sizeof *plan->results * (n + 1));
    computed = nx_alloc_zeroed(sizeof *computed * (n + 1));
    status = NX_NO_MEMORY;
    if (plan->results == NULL || computed == NULL) {
        nx_fail_memory(sizeof *computed * (n + 1));
        goto fail;
    }
    NX_TRY_FAIL(nx_graph_copy(graph, &plan->graph));
    NX_TRY_FAIL(build(plan, left_out, copied_into, computed, device));
    nx_free(computed);
    *out = plan;
    return NX_OK;
fail:
    nx_free(computed);
    nx__plan_free(plan);
    return status;
}

/* A recording runs the graph, which has its own casts: none of the caller's autocast. */
nx_status nx__plan_new(const nx_graph *graph, const bool *left_out, const int *copied_into, nx_mode mode,
                       nx_device device, nx__plan **out) {
    uint64_t excluded = nx_keys_exclude(NX_KEY(AUTOCAST));
    nx__plan *plan;
    nx_status status = nx__plan_new_unchecked(graph, left_out, copied_into, mode, device, &plan);
    bool compared = status == NX_OK && nx_flag.compare && !plan->is_empty && mode != NX_MODE_EAGER;
    if (compared && (status = nx__check_new(plan->graph, mode, device, &plan->check)) != NX_OK) nx__plan_free(plan);
    nx_keys_restore(excluded);
    if (status == NX_OK) *out = plan;
    return status;
}

nx_status nx__plan_new_run(const nx_runner *runner, int n_inputs, int n_results, nx__plan **out) {
    nx__plan *plan = nx_alloc_zeroed(sizeof *plan);
    if (plan == NULL) return nx_fail_memory(sizeof *plan);
    plan->n_inputs = n_inputs;
    plan->n_results = plan->n_computed = n_results;
    plan->is_direct = true;
    plan->runner = *runner;
    *out = plan;
    return NX_OK;
}

void nx__plan_free(nx__plan *plan) {
    if (plan == NULL) return;
    if (plan->runner.run) plan->runner.free(plan->runner.context);
    nx__twins_free(plan->twins);
    if (plan->replay) nx_replay_free(plan->replay);
    nx__check_free(plan->check);
    if (plan->graph) nx_graph_free(plan->graph);
    nx_free(plan->results);
    nx_free(plan);
}

/* ---- running ------------------------------------------------------------------------------------------ */
/* taken: inputs, when they may be let go; else NULL. */
static inline nx_status run_program(const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **taken, nx_tensor **out) {
    nx__twin *twin;
    NX_TRY(nx__twins_take(plan, &twin));
    nx_status status = taken ? nx_program_run_taking(twin->program, taken, out) : nx_program_run(twin->program, inputs, out);
    nx__twins_give(twin);
    return status;
}

/* Two runs of a replay share its memory: nobody else may come in through an operator that gives the lock away. */
static nx_status run_replay(const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **out) {
    nx_thread *thread = nx_thread_get();
    bool kept = thread->keeps_lock;
    thread->keeps_lock = true;
    nx_status status = nx_replay_run(plan->replay, inputs, out);
    thread->keeps_lock = kept;
    return status;
}

static nx_status run_graph(const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **taken, nx_tensor **out) {
    for (int i = 0; i < plan->n_computed; i++) out[i] = NULL;
    if (plan->is_empty) return NX_OK;
    if (plan->program) return run_program(plan, inputs, taken, out);
    if (plan->runner.run) return plan->runner.run(plan->runner.context, inputs, out);
    if (plan->replay) return run_replay(plan, inputs, out);
    return nx_graph_run(plan->graph, inputs, plan->n_inputs, out, plan->n_computed);
}

/* Results that are inputs first: these may be gone after the run. */
static void give_inputs(const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **out) {
    for (int i = 0; i < plan->n_results; i++) {
        nx__result from = plan->results[i];
        out[i] = from.origin == NX__FROM_INPUT ? nx_tensor_ref(inputs[from.index]) : NULL;
    }
}

static void give_computed(const nx__plan *plan, nx_tensor *const *computed, nx_tensor **out) {
    for (int i = 0; i < plan->n_results; i++) {
        nx__result from = plan->results[i];
        if (from.origin == NX__FROM_COMPUTED) out[i] = nx_tensor_ref(computed[from.index]);
    }
    for (int i = 0; i < plan->n_computed; i++) nx_tensor_unref(computed[i]);
}

static nx_status run(const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **taken, nx_tensor **out) {
    nx_tensor *few[256], **computed = few;
    if (plan->is_direct) return run_graph(plan, inputs, taken, out);
    if (plan->n_computed > NX_COUNT(few)) computed = nx_alloc(sizeof *computed * (size_t)plan->n_computed);
    if (computed == NULL) return nx_fail_memory(sizeof *computed * (size_t)plan->n_computed);
    give_inputs(plan, inputs, out);
    nx_status status = run_graph(plan, inputs, taken, computed);
    if (status == NX_OK) give_computed(plan, computed, out);
    for (int i = 0; i < plan->n_results && status != NX_OK; i++) {
        nx_tensor_unref(out[i]);
        out[i] = NULL;
    }
    if (computed != few) nx_free(computed);
    return status;
}

nx_status nx__plan_run_unchecked(const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **out) {
    return run(plan, inputs, NULL, out);
}

nx_status nx__plan_run(const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **out) {
    if (NX_UNLIKELY(plan->check != NULL)) return nx__check_run(plan->check, plan, inputs, out);
    return run(plan, inputs, NULL, out);
}

nx_status nx__plan_run_taking(const nx__plan *plan, nx_tensor **inputs, nx_tensor **out) {
    if (NX_UNLIKELY(plan->check != NULL)) return nx__check_run(plan->check, plan, inputs, out);
    return run(plan, inputs, inputs, out);
}

bool nx__plan_writes(const nx__plan *plan, int input) {
    if (plan->replay) return nx_replay_writes(plan->replay, input);
    return plan->program && nx_program_writes(plan->program, input);
}

int nx__plan_n_launches(const nx__plan *plan) {
    int n = 0;
    if (plan->replay) return nx_replay_n_launches(plan->replay);
    if (plan->program) {
        nx_summary summary = {.size = sizeof summary};
        nx_program_get_summary(plan->program, &summary);
        return summary.n_launches;
    }
    for (const nx_node *node = plan->graph ? plan->graph->first : NULL; node; node = node->next) {
        n += node->op != NULL && node->op->def->kind != NX_KIND_VIEW;
    }
    return n;
}
