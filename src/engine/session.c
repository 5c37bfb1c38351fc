/* Sessions: graphs by id, each compiled to a program, or to one for each set of sizes that it is run with (shapes.c), with
 * memory bases of the caller. This is the border of the engine: what comes from outside is checked here, once; nx_program_run()
 * trusts it. A captured graph (as nx_graph_call() builds it) is made functional first. One run of a graph at a time: a second
 * thread gets an error, not a wait. Next: shapes.c, lower.c. */
#include "engine/session.h"

struct nx_session {
    nx_device device;
    NX_VEC(nx__entry *) entries;
};

/* ---- entries --------------------------------------------------------------------------------- */
static void free_entry(nx__entry *entry) {
    if (entry == NULL) return;
    nx__shapes_free(entry);
    nx_graph_free(entry->graph);
    nx_free(entry);
}

static int find_index(const nx_session *session, uint32_t id) {
    for (int i = 0; i < session->entries.n; i++) {
        if (session->entries.at[i]->id == id) return i;
    }
    return -1;
}

nx_status nx__session_find(nx_session *session, uint32_t id, bool compiled, nx__entry **out) {
    if (session == NULL) return nx_fail(NX_VALUE, "session: none was given");
    int at = find_index(session, id);
    if (at < 0) return nx_fail(NX_KEY, "session: there is no graph %u: add it first", id);
    *out = session->entries.at[at];
    if (!compiled || (*out)->program) return NX_OK;
    return nx_fail(NX_RUNTIME, "session: graph %u is not compiled: call nx_session_compile_graph() first",
                   id);
}

nx_device nx__session_device(const nx_session *session) { return session->device; }

/* Takes `graph`, also on failure. */
nx_status nx__session_insert(nx_session *session, uint32_t id, nx_graph *graph) {
    nx_status status;
    nx__entry *entry = NULL;
    if (session == NULL) {
        status = nx_fail(NX_VALUE, "session: none was given");
        goto fail;
    }
    if (find_index(session, id) >= 0) {
        status = nx_fail(NX_VALUE,
                         "session: graph %u is there already: remove it first or take another number", id);
        goto fail;
    }
    entry = nx_alloc_zeroed(sizeof *entry);
    if (entry == NULL) {
        status = nx_fail_memory(sizeof *entry);
        goto fail;
    }
    entry->id = id;
    NX_TRY_FAIL(nx_vec_push(&session->entries, entry));
    entry->graph = graph;
    return NX_OK;
fail:
    nx_free(entry);
    nx_graph_free(graph);
    return status;
}

nx_status nx_session_new(nx_device device, nx_session **out) {
    if (device.type < 0 || device.type >= nx_device_n_types())
        return nx_fail(NX_VALUE, "session: there is no device type %d", device.type);
    const nx_device_api *api = nx_device_get_api(device.type);
    int n = api ? api->device_count(api->context) : 1;
    if (device.index < 0 || device.index >= n) {
        return nx_fail(NX_VALUE, "session: device %s:%d was asked for and there are %d",
                       nx_device_type_name(device.type), device.index, n);
    }
    nx_session *session = nx_alloc_zeroed(sizeof *session);
    if (session == NULL) return nx_fail_memory(sizeof *session);
    session->device = device;
    *out = session;
    return NX_OK;
}

void nx_session_free(nx_session *session) {
    if (session == NULL) return;
    for (int i = 0; i < session->entries.n; i++) free_entry(session->entries.at[i]);
    nx_vec_free(&session->entries);
    nx_free(session);
}

nx_status nx_session_add_graph(nx_session *session, uint32_t id, const nx_graph *graph) {
    nx_graph *copy;
    if (graph == NULL) return nx_fail(NX_VALUE, "session: no graph was given");
    NX_TRY(nx_graph_verify(graph));
    NX_TRY(nx_graph_copy(graph, &copy));
    return nx__session_insert(session, id, copy);
}

nx_status nx__session_hold(nx__entry *entry) {
    if (!atomic_exchange_explicit(&entry->busy, true, memory_order_acquire)) return NX_OK;
    return nx_fail(NX_RUNTIME,
                   "session: graph %u is being run by another thread: give each thread a session of its own",
                   entry->id);
}
void nx__session_give(nx__entry *entry) { atomic_store_explicit(&entry->busy, false, memory_order_release); }

nx_status nx_session_remove_graph(nx_session *session, uint32_t id) {
    nx__entry *entry = NULL;
    NX_TRY(nx__session_find(session, id, false, &entry));
    NX_TRY(nx__session_hold(entry));
    int at = find_index(session, id);
    session->entries.at[at] = session->entries.at[--session->entries.n];
    free_entry(entry);
    return NX_OK;
}

/* ---- compiling ------------------------------------------------------------------------------- */
nx_status nx_session_compile_graph(nx_session *session, uint32_t id) {
    nx__entry *entry = NULL;
    NX_TRY(nx__session_find(session, id, false, &entry));
    NX_TRY(nx__session_hold(entry));
    nx_status status = nx__shapes_compile(entry, session->device);
    nx__session_give(entry);
    return status;
}

static void get_summary(const nx__entry *entry, nx_summary *out) {
    nx_program_get_summary(entry->program, out);
    if (out->size >= offsetof(nx_summary, n_plans) + sizeof out->n_plans) out->n_plans = entry->kept.n + entry->recent.n;
    if (out->size >= offsetof(nx_summary, measured_ns) + sizeof out->measured_ns) {
        out->measured_ns = 0;
        for (int i = 0; entry->program->notes && i < entry->program->steps.n; i++) out->measured_ns += entry->program->notes[i].ns;
    }
    if (out->size >= offsetof(nx_summary, is_static) + sizeof out->is_static) out->is_static = !entry->is_open;
}

nx_status nx_session_get_summary(nx_session *session, uint32_t id, nx_summary *out) {
    nx__entry *entry = NULL;
    if (out == NULL || out->size < sizeof(size_t))
        return nx_fail(NX_VALUE, "summary: set its size to sizeof(nx_summary) before the call");
    NX_TRY(nx__session_find(session, id, true, &entry));
    get_summary(entry, out);
    return NX_OK;
}

nx_status nx_session_get_summary_for(nx_session *session, uint32_t id, const int64_t *const *sizes, int n_inputs, nx_summary *out) {
    nx__entry *entry = NULL;
    if (out == NULL || out->size < sizeof(size_t))
        return nx_fail(NX_VALUE, "summary: set its size to sizeof(nx_summary) before the call");
    NX_TRY(nx__session_find(session, id, true, &entry));
    if (n_inputs != entry->graph->n_inputs)
        return nx_fail(NX_TYPE, "summary: sizes of %d inputs were given, the graph has %d", n_inputs, entry->graph->n_inputs);
    NX_TRY(nx__session_hold(entry));
    nx_status status = nx__shapes_choose_sizes(entry, session->device, sizes);
    if (status == NX_OK) get_summary(entry, out);
    nx__session_give(entry);
    return status;
}

nx_status nx_session_measure_graph(nx_session *session, uint32_t id) {
    nx__entry *entry = NULL;
    nx_status status = NX_OK;
    NX_TRY(nx__session_find(session, id, true, &entry));
    NX_TRY(nx__session_hold(entry));
    entry->measures = true;
    for (int i = 0; i < entry->kept.n && status == NX_OK; i++) status = nx_program_measure(entry->kept.at[i]);
    for (int i = 0; i < entry->recent.n && status == NX_OK; i++) status = nx_program_measure(entry->recent.at[i]);
    nx__session_give(entry);
    return status;
}

nx_status nx_session_get_report(nx_session *session, uint32_t id, char **out) {
    nx__entry *entry = NULL;
    if (out == NULL) return nx_fail(NX_VALUE, "report: a place for the text is needed");
    NX_TRY(nx__session_find(session, id, true, &entry));
    NX_TRY(nx__session_hold(entry));
    nx_status status = nx_program_report(entry->program, out);
    if (status == NX_OK && *out == NULL && (*out = nx_strdup("")) == NULL) status = nx_fail_memory(1);
    nx__session_give(entry);
    return status;
}

nx_status nx_session_set_const_base(nx_session *session, uint32_t id, void *base, size_t bytes) {
    nx__entry *entry = NULL;
    NX_TRY(nx__session_find(session, id, true, &entry));
    NX_TRY(nx__session_hold(entry));
    nx_status status = nx__shapes_set_const_base(entry, base, bytes);
    nx__session_give(entry);
    return status;
}

nx_status nx_session_update_feature_base(nx_session *session, uint32_t id, void *base, size_t bytes) {
    nx__entry *entry = NULL;
    NX_TRY(nx__session_find(session, id, true, &entry));
    NX_TRY(nx__session_hold(entry));
    nx_status status = nx__shapes_set_feature_base(entry, base, bytes);
    nx__session_give(entry);
    return status;
}

/* The engine plans no fixed feature memory: all of it may move. Any base is as good as none. */
nx_status nx_session_set_fixed_feature_base(nx_session *session, uint32_t id, void *base, size_t bytes) {
    nx__entry *entry = NULL;
    return nx__session_find(session, id, true, &entry);
}

/* ---- running --------------------------------------------------------------------------------- */
static nx_status fail_tensor(const char *what, int index, const nx_array *given, nx_dtype dtype, int ndim,
                             const int64_t *sizes, nx_device device) {
    nx_text text = {0};
    nx_text_add(&text, "run: %s %d is %s", what, index, nx_dtype_name(given->dtype));
    nx_text_add_ints(&text, given->sizes, given->ndim);
    nx_text_add(&text, " on %s:%d, and the graph was compiled for %s",
                nx_device_type_name(given->device.type), given->device.index, nx_dtype_name(dtype));
    nx_text_add_ints(&text, sizes, ndim);
    nx_text_add(&text, " on %s:%d", nx_device_type_name(device.type), device.index);
    nx_status status =
        nx_fail(NX_RUNTIME, "%s",
                text.failed ? "run: a tensor has another type than the graph was compiled for" : text.at);
    nx_text_free(&text);
    return status;
}

static nx_status check_tensor(const char *what, int index, const nx_tensor *tensor, nx_dtype dtype, int ndim,
                              const int64_t *sizes, nx_device device) {
    const nx_array *a = &tensor->a;
    bool same = a->dtype == dtype && a->ndim == ndim && nx_device_same(a->device, device);
    for (int d = 0; d < ndim && same; d++) same = a->sizes[d] == sizes[d];
    if (!same) return fail_tensor(what, index, a, dtype, ndim, sizes, device);
    if (tensor->storage == NULL || nx_tensor_is_fake(tensor))
        return nx_fail(NX_RUNTIME, "run: %s %d has a shape and no elements", what, index);
    return NX_OK;
}

static nx_status check_counts(const nx_program *p, nx_tensor *const *inputs, int n_inputs, int n_outputs) {
    if (n_inputs != p->n_inputs || n_outputs != p->n_outputs) {
        return nx_fail(NX_TYPE, "run: %d inputs and %d results were given, the graph has %d and %d", n_inputs,
                       n_outputs, p->n_inputs, p->n_outputs);
    }
    for (int i = 0; i < n_inputs; i++) {
        if (inputs[i] == NULL) return nx_fail(NX_TYPE, "run: input %d is missing", i);
    }
    return NX_OK;
}

/* sizes: all must be those of the program's inputs; else only their number. */
static nx_status check_inputs(const nx_program *p, nx_tensor *const *inputs, bool sizes) {
    for (int i = 0; i < p->n_inputs; i++) {
        const nx_array *want = &p->inputs[i], *given = &inputs[i]->a;
        const int64_t *wanted = sizes || given->ndim != want->ndim ? want->sizes : given->sizes;
        NX_TRY(check_tensor("input", i, inputs[i], want->dtype, want->ndim, wanted, want->device));
    }
    return NX_OK;
}

static nx_status check_results(const nx_program *p, nx_tensor *const *out) {
    for (int i = 0; i < p->n_outputs; i++) {
        const nx_meta *want = p->outputs[i].meta;
        if (out[i] && want) NX_TRY(check_tensor("result", i, out[i], want->dtype, want->ndim, want->size, want->device));
    }
    return NX_OK;
}

static nx_status run_on(nx_session *session, nx_program *program, nx_stream *stream, nx_tensor *const *inputs,
                        nx_tensor **out) {
    if (stream == NULL) return nx_program_run(program, inputs, out);
    if (session->device.type == 0) return nx_fail(NX_VALUE, "run: the CPU has no streams: give NULL");
    nx_stream *before = nx_stream_current(session->device);
    NX_TRY(nx_stream_set_current(session->device, stream));
    nx_status status = nx_program_run(program, inputs, out);
    nx_status back = nx_stream_set_current(session->device, before);
    return status == NX_OK ? back : status;
}

static nx_status run(nx_session *session, nx__entry *entry, nx_stream *stream, nx_tensor *const *inputs, nx_tensor **out) {
    NX_TRY(check_inputs(entry->program, inputs, !entry->is_open));
    if (entry->is_open) NX_TRY(nx__shapes_choose(entry, session->device, inputs));
    NX_TRY(check_results(entry->program, out));
    return run_on(session, entry->program, stream, inputs, out);
}

nx_status nx_session_run(nx_session *session, uint32_t id, nx_stream *stream, nx_tensor *const *inputs,
                         int n_inputs, nx_tensor **out, int n_outputs) {
    nx__entry *entry = NULL;
    NX_TRY(nx__session_find(session, id, true, &entry));
    NX_TRY(check_counts(entry->program, inputs, n_inputs, n_outputs));
    NX_TRY(nx__session_hold(entry));
    nx_status status = run(session, entry, stream, inputs, out);
    nx__session_give(entry);
    return status;
}
