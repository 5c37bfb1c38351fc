/* The plans of a graph with open sizes. For inputs of other sizes nx_graph_fit() makes every size of the captured graph a number
 * again, with the checks that the graph holds; what comes out is compiled as any graph. A plan is found again by the layouts of
 * its inputs; the one that was not used for longest makes room, those of gears and of the example stay. Constants lie once, for
 * all plans; arenas are leased by runs, as those of all programs, unless the caller gave one. Next: session.c, ../ir/ints.c. */
#include "engine/session.h"

/* ---- functional graphs ----------------------------------------------------------------------- */
/* The forward graph of the front with the caller's view of it: results only, changed inputs written back by
 * copy_. changed: it is another graph now. */
static nx_status write_back(nx_aot *aot, bool *changed) {
    nx_node *output = nx_graph_output_node(aot->forward), *node;
    const nx_op *copy = nx_known(NX_KNOWN_COPY_INTO);
    if (output == NULL || output->n_args < aot->n_outputs + aot->n_mutated)
        return nx_fail(NX_RUNTIME, "compile: the graph has no output");
    for (int k = 0; k < aot->n_mutated; k++) {
        nx_value in[8] = {{0}};
        nx_node *input = aot->forward->first;
        for (int i = 0; i < aot->mutated[k]; i++) input = input->next;
        for (int i = 2; i < copy->def->n_in; i++) in[i] = copy->def->params[i].initial;
        in[0] = nx_value_node(input, 0);
        in[1] = output->args[aot->n_outputs + k];
        NX_TRY(nx_graph_insert_before(output, NX_NODE_CALL_FUNCTION, NULL, copy, NULL, in, copy->def->n_in,
                                      &node));
        NX_TRY(nx_node_set_fakes(node, input->fakes, 1));
    }
    nx_value *results = nx_alloc(sizeof *results * (size_t)(aot->n_outputs + 1));
    if (results == NULL) return nx_fail_memory(sizeof *results * (size_t)(aot->n_outputs + 1));
    *changed = output->n_args > aot->n_outputs;
    for (int i = 0; i < aot->n_outputs; i++) {
        nx_node *input = aot->forward->first;
        results[i] = output->args[i];
        if (aot->alias_of[i] < 0 || !aot->same_as_input[i]) continue;
        for (int k = 0; k < aot->alias_of[i]; k++) input = input->next;
        results[i] = nx_value_node(input, 0);
        *changed = true;
    }
    nx_status status = nx_node_set_args(output, results, aot->n_outputs);
    nx_free(results);
    return status;
}

nx_status nx__make_functional(nx_graph *graph) {
    nx_aot *aot;
    if (graph->level == NX_GRAPH_FUNCTIONAL) return NX_OK;
    NX_TRY(nx_aot_compile(graph, false, &aot));
    bool changed;
    nx_status status = write_back(aot, &changed);
    if (status == NX_OK && changed) status = nx_pass_run(aot->forward, NULL);
    if (status == NX_OK) nx_graph_swap(graph, aot->forward);
    nx_aot_free(aot);
    return status;
}

/* ---- constants ------------------------------------------------------------------------------- */
/* The program has its constants where `first` has them; one that has others has all in a place of its own. */
static nx_status share_constants(nx_program *p, const nx_program *first) {
    int *place = nx_alloc(sizeof *place * (size_t)(p->n_constants + 1));
    bool known = true;
    if (place == NULL) return nx_fail_memory(sizeof *place * (size_t)p->n_constants);
    for (int i = 0, at = 0; i < p->n_constants && known; i++) { /* nearly always in the same order */
        known = false;
        for (int tried = 0; tried < first->n_constants && !known; tried++, at++) {
            if (at == first->n_constants) at = 0;
            place[i] = at;
            known = first->constants[at] == p->constants[i];
        }
    }
    for (int i = 0; i < p->n_constants && known; i++)
        p->buffers.at[p->constant_buffers[i]].offset = first->buffers.at[first->constant_buffers[place[i]]].offset;
    nx_free(place);
    if (!known) return nx__program_set_const_base(p, NULL, 0);
    p->const_bytes = first->const_bytes;
    nx__program_share_consts(p, first->const_memory);
    return NX_OK;
}

/* ---- layouts --------------------------------------------------------------------------------- */
/* `sizes` with its dimensions in the order in memory that `like` has. */
static void lay_out(const nx_array *like, const int64_t *sizes, nx_meta *out) {
    int order[NX_MAX_DIMS];
    int64_t stride = 1;
    *out = (nx_meta){.dtype = (nx_dtype)like->dtype, .device = like->device, .ndim = like->ndim, .view_of = -1};
    memcpy(out->size, sizes, sizeof *sizes * like->ndim);
    nx_meta_contiguous(out);
    if (like->contiguous) return;
    for (int d = 0; d < like->ndim; d++) {
        int k = d;
        for (; k > 0 && like->strides[order[k - 1]] < like->strides[d]; k--) order[k] = order[k - 1];
        order[k] = d;
    }
    for (int k = like->ndim - 1; k >= 0; k--) {
        out->stride[order[k]] = stride;
        stride *= sizes[order[k]] > 1 ? sizes[order[k]] : 1;
    }
}

static bool same_inputs(const nx_program *p, nx_tensor *const *inputs) {
    for (int i = 0; i < p->n_inputs; i++) {
        const nx_array *a = &p->inputs[i], *b = &inputs[i]->a;
        if (!nx_same_size(a, b) || !nx_same_strides(a, b)) return false;
    }
    return true;
}

/* ---- refusing -------------------------------------------------------------------------------- */
static nx_status fail_size(const nx_node *input, int index, int dim, int64_t size, const nx_size_range *range) {
    char bounds[64];
    nx_text text = {0};
    if (range->n_gears) nx_text_add_ints(&text, range->gears, range->n_gears);
    if (range->n_gears) snprintf(bounds, sizeof bounds, " alone");
    else if (range->min == range->max) snprintf(bounds, sizeof bounds, "%lld", (long long)range->min);
    else if (range->max == INT64_MAX) snprintf(bounds, sizeof bounds, "%lld or more", (long long)range->min);
    else snprintf(bounds, sizeof bounds, "%lld to %lld", (long long)range->min, (long long)range->max);
    nx_status status = nx_fail(NX_RUNTIME, "run: input %d (%s) has size %lld in dimension %d, and the graph takes %s%s there", index,
                               input->name, (long long)size, dim, range->n_gears && !text.failed ? text.at : "", bounds);
    nx_text_free(&text);
    return status;
}

static nx_status check_sizes(const nx_graph *graph, nx_tensor *const *inputs) {
    int i = 0;
    for (const nx_node *node = graph->first; node && node->kind == NX_NODE_PLACEHOLDER; node = node->next, i++) {
        for (int d = 0; d < inputs[i]->a.ndim; d++) {
            nx_size_range range = nx_node_range(node, d);
            if (!nx_size_range_takes(&range, inputs[i]->a.sizes[d])) return fail_size(node, i, d, inputs[i]->a.sizes[d], &range);
        }
    }
    return NX_OK;
}

/* "run: the graph does not hold for x[3, 65]: " before why. */
static nx_status fail_fit(const nx_graph *graph, nx_tensor *const *inputs, nx_status status) {
    char why[512];
    nx_text text = {0};
    int i = 0;
    if (status == NX_NO_MEMORY) return status;
    snprintf(why, sizeof why, "%s", nx_error_message());
    for (const nx_node *node = graph->first; node && node->kind == NX_NODE_PLACEHOLDER; node = node->next, i++) {
        if (!node->varying) continue;
        nx_text_add(&text, text.n ? ", %s" : "%s", node->name);
        nx_text_add_ints(&text, inputs[i]->a.sizes, inputs[i]->a.ndim);
    }
    status = nx_fail(NX_RUNTIME, "run: the graph does not hold for %s: %s", text.failed || !text.at ? "these sizes" : text.at, why);
    nx_text_free(&text);
    return status;
}

/* ---- making ---------------------------------------------------------------------------------- */
static void drop_fakes(nx_tensor **fakes, int n) {
    for (int i = 0; i < n; i++) nx_tensor_unref(fakes[i]);
    nx_free(fakes);
}

static nx_status make_fakes(const nx_graph *graph, nx_tensor *const *inputs, nx_tensor ***out) {
    int n = graph->n_inputs;
    nx_tensor **fakes = nx_alloc_zeroed(sizeof *fakes * (size_t)(n + 1));
    nx_status status = fakes ? NX_OK : nx_fail_memory(sizeof *fakes * (size_t)n);
    for (int i = 0; i < n && status == NX_OK; i++) status = nx_fake_of(inputs[i], &fakes[i]);
    if (status == NX_OK) *out = fakes;
    else if (fakes) drop_fakes(fakes, n);
    return status;
}

/* Such a graph would ask for a plan for each place in memory. */
static nx_status check_offsets(const nx_graph *graph) {
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (nx_node_int_code(node) != NX_INT_OFFSET) continue;
        return nx_fail(NX_NOT_IMPLEMENTED, "compile: %s: a graph with open sizes that asks where a tensor lies in its memory", node->name);
    }
    return NX_OK;
}

/* A program for inputs like these; it has no constants yet. */
static nx_status make_program(const nx_graph *graph, nx_device device, nx_tensor *const *inputs, nx_program **out) {
    nx_tensor **fakes;
    nx_graph *fitted = NULL;
    NX_TRY(make_fakes(graph, inputs, &fakes));
    nx_status status = nx_graph_fit(graph, &(nx_fit){.inputs = fakes, .n_inputs = graph->n_inputs}, NULL, &fitted);
    if (status == NX_OK) status = nx__make_functional(fitted);
    if (status == NX_OK) status = nx__program_new_bare(fitted, device, out);
    nx_graph_free(fitted);
    drop_fakes(fakes, graph->n_inputs);
    return status == NX_OK ? NX_OK : fail_fit(graph, inputs, status);
}

static nx_status make_plan(nx__entry *entry, nx_device device, nx_tensor *const *inputs, nx_program **out) {
    nx_program *program;
    NX_TRY(make_program(entry->graph, device, inputs, &program));
    nx_status status = NX_OK;
    if (entry->kept.n) status = share_constants(program, entry->kept.at[0]);
    else if (program->n_constants) status = nx__program_set_const_base(program, NULL, 0);
    if (status == NX_OK && entry->measures) status = nx_program_measure(program);
    if (status == NX_OK) *out = program;
    else nx_program_free(program);
    return status;
}

static nx_status keep_plan(nx__entry *entry, nx_device device, nx_tensor *const *inputs) {
    nx_program *program;
    NX_TRY(make_plan(entry, device, inputs, &program));
    nx_status status = nx_vec_push(&entry->kept, program);
    if (status != NX_OK) nx_program_free(program);
    return status;
}

/* ---- choosing -------------------------------------------------------------------------------- */
static void to_front(nx__entry *entry, int at) {
    nx_program *program = entry->recent.at[at];
    for (; at > 0; at--) entry->recent.at[at] = entry->recent.at[at - 1];
    entry->recent.at[0] = program;
}

/* At the end of the recent ones, in the place of the one that was not used for longest. */
static nx_status add_recent(nx__entry *entry, nx_device device, nx_tensor *const *inputs) {
    nx_program *program;
    NX_TRY(make_plan(entry, device, inputs, &program));
    if (entry->recent.n == NX__MAX_PLANS) {
        nx_program_free(entry->recent.at[NX__MAX_PLANS - 1]);
        entry->recent.at[NX__MAX_PLANS - 1] = program;
        return NX_OK;
    }
    nx_status status = nx_vec_push(&entry->recent, program);
    if (status != NX_OK) nx_program_free(program);
    return status;
}

static nx_status use_feature_base(nx__entry *entry, nx_program *p) {
    bool here = p->feature_given && p->feature_memory->data == entry->feature_base && p->feature_memory->bytes == entry->feature_bytes;
    if (here || (entry->feature_base == NULL && !p->feature_given)) return NX_OK;
    return nx__program_set_feature_base(p, entry->feature_base, entry->feature_bytes);
}

static nx_status choose(nx__entry *entry, nx_device device, nx_tensor *const *inputs) {
    int at = 0;
    if (entry->program && same_inputs(entry->program, inputs)) return NX_OK;
    for (int i = 0; i < entry->kept.n; i++) {
        if (!same_inputs(entry->kept.at[i], inputs)) continue;
        entry->program = entry->kept.at[i];
        return NX_OK;
    }
    while (at < entry->recent.n && !same_inputs(entry->recent.at[at], inputs)) at++;
    if (at == entry->recent.n) {
        NX_TRY(check_sizes(entry->graph, inputs));
        NX_TRY(add_recent(entry, device, inputs));
        at = entry->recent.n - 1;
    }
    to_front(entry, at);
    entry->program = entry->recent.at[0];
    return NX_OK;
}

nx_status nx__shapes_choose(nx__entry *entry, nx_device device, nx_tensor *const *inputs) {
    NX_TRY(choose(entry, device, inputs));
    return use_feature_base(entry, entry->program);
}

/* Combination `k` of gears. */
static void set_gears(const nx_node *input, int64_t *k, int64_t *sizes) {
    for (int d = 0; d < input->fakes[0]->a.ndim; d++) {
        nx_size_range range = nx_node_range(input, d);
        if (!(input->varying >> d & 1) || range.n_gears == 0) continue;
        sizes[d] = range.gears[*k % range.n_gears];
        *k /= range.n_gears;
    }
}

/* Fakes of the graph's inputs with these sizes; sizes, or those of an input, NULL: those of the example, with the gears of
 * combination `gears` where it is not negative. */
static nx_status fakes_of_sizes(const nx_graph *graph, const int64_t *const *sizes, int64_t gears, nx_tensor ***out) {
    nx_tensor **fakes = nx_alloc_zeroed(sizeof *fakes * (size_t)(graph->n_inputs + 1));
    nx_status status = fakes ? NX_OK : nx_fail_memory(sizeof *fakes * (size_t)graph->n_inputs);
    int i = 0;
    for (const nx_node *node = graph->first; status == NX_OK && i < graph->n_inputs; node = node->next, i++) {
        const nx_array *like = &node->fakes[0]->a;
        int64_t own[NX_MAX_DIMS];
        nx_meta meta;
        memcpy(own, sizes && sizes[i] ? sizes[i] : like->sizes, sizeof *own * like->ndim);
        if (gears >= 0) set_gears(node, &gears, own);
        for (int d = 0; d < like->ndim && status == NX_OK; d++) {
            if (own[d] < 0) status = nx_fail(NX_VALUE, "sizes: input %d (%s) has a negative size", i, node->name);
        }
        lay_out(like, own, &meta);
        if (status == NX_OK) status = nx_fake_new(&meta, 0, &fakes[i]);
    }
    if (status == NX_OK) *out = fakes;
    else if (fakes) drop_fakes(fakes, graph->n_inputs);
    return status;
}

nx_status nx__shapes_choose_sizes(nx__entry *entry, nx_device device, const int64_t *const *sizes) {
    nx_tensor **fakes;
    NX_TRY(fakes_of_sizes(entry->graph, sizes, -1, &fakes));
    nx_status status = check_sizes(entry->graph, fakes);
    if (status == NX_OK && entry->is_open) status = choose(entry, device, fakes);
    drop_fakes(fakes, entry->graph->n_inputs);
    return status;
}

/* ---- gears ----------------------------------------------------------------------------------- */
/* Combinations of gears; 0: an open dimension has none. More than NX__MAX_GEAR_PLANS are some number above it. */
static int64_t count_gears(const nx_graph *graph) {
    int64_t n = 1;
    int i = 0;
    for (const nx_node *node = graph->first; i < graph->n_inputs; node = node->next, i++) {
        for (int d = 0; d < node->fakes[0]->a.ndim && node->varying; d++) {
            if (!(node->varying >> d & 1)) continue;
            if (n <= NX__MAX_GEAR_PLANS) n *= nx_node_range(node, d).n_gears;
        }
    }
    return n;
}

/* A combination that the graph does not hold for has no plan: two inputs of one batch share their sizes. */
static nx_status keep_gears(nx__entry *entry, nx_device device, int64_t n) {
    nx_status last = NX_OK;
    if (n > NX__MAX_GEAR_PLANS) return nx_fail(NX_VALUE, "compile: more than %d combinations of gears", NX__MAX_GEAR_PLANS);
    for (int64_t k = 0; k < n; k++) {
        nx_tensor **fakes;
        NX_TRY(fakes_of_sizes(entry->graph, NULL, k, &fakes));
        nx_status status = keep_plan(entry, device, fakes);
        drop_fakes(fakes, entry->graph->n_inputs);
        if (status == NX_NO_MEMORY) return status;
        if (status != NX_OK) last = status;
    }
    return entry->kept.n ? NX_OK : last;
}

/* ---- the whole ------------------------------------------------------------------------------- */
static void free_plans(nx__entry *entry) {
    for (int i = 0; i < entry->kept.n; i++) nx_program_free(entry->kept.at[i]);
    for (int i = 0; i < entry->recent.n; i++) nx_program_free(entry->recent.at[i]);
    nx_vec_free(&entry->kept);
    nx_vec_free(&entry->recent);
}

static nx_status compile_static(nx__entry *made, nx_device device) {
    NX_TRY(nx__make_functional(made->graph));
    NX_TRY(nx_program_new(made->graph, device, &made->program));
    nx_status status = nx_vec_push(&made->kept, made->program);
    if (status != NX_OK) nx_program_free(made->program);
    return status == NX_OK && made->measures ? nx_program_measure(made->program) : status;
}

static nx_status compile_open(nx__entry *made, nx_device device) {
    nx_tensor **fakes;
    int64_t n_gears = count_gears(made->graph);
    NX_TRY(check_offsets(made->graph));
    if (n_gears) {
        NX_TRY(keep_gears(made, device, n_gears));
    } else {
        NX_TRY(fakes_of_sizes(made->graph, NULL, -1, &fakes));
        nx_status status = check_sizes(made->graph, fakes);
        if (status == NX_OK) status = keep_plan(made, device, fakes);
        drop_fakes(fakes, made->graph->n_inputs);
        NX_TRY(status);
    }
    return nx__shapes_choose_sizes(made, device, NULL);
}

nx_status nx__shapes_compile(nx__entry *entry, nx_device device) {
    nx__entry made = {.graph = entry->graph, .is_open = nx_graph_is_open(entry->graph), .measures = entry->measures};
    nx_status status = made.is_open ? compile_open(&made, device) : compile_static(&made, device);
    if (status != NX_OK) {
        free_plans(&made);
        return status;
    }
    free_plans(entry);
    entry->is_open = made.is_open;
    entry->program = made.program;
    memcpy(&entry->kept, &made.kept, sizeof made.kept);
    memcpy(&entry->recent, &made.recent, sizeof made.recent);
    entry->feature_base = NULL;
    return NX_OK;
}

void nx__shapes_free(nx__entry *entry) { free_plans(entry); }

/* ---- bases ----------------------------------------------------------------------------------- */
nx_status nx__shapes_set_const_base(nx__entry *entry, void *base, size_t bytes) {
    nx_program *first = entry->kept.at[0];
    const nx_storage *before = first->const_memory;
    if (first->n_constants == 0 && base == NULL) return NX_OK;
    NX_TRY(nx__program_set_const_base(first, base, bytes));
    for (int i = 1; i < entry->kept.n; i++) {
        if (entry->kept.at[i]->const_memory == before) nx__program_share_consts(entry->kept.at[i], first->const_memory);
    }
    for (int i = 0; i < entry->recent.n; i++) {
        if (entry->recent.at[i]->const_memory == before) nx__program_share_consts(entry->recent.at[i], first->const_memory);
    }
    return NX_OK;
}

nx_status nx__shapes_set_feature_base(nx__entry *entry, void *base, size_t bytes) {
    NX_TRY(nx__program_set_feature_base(entry->program, base, bytes));
    entry->feature_base = base;
    entry->feature_bytes = bytes;
    return NX_OK;
}
