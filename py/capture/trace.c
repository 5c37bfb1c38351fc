/* One trace: from a place in a root's frame to the return or to a break, and what is made of it.
 *
 * In: a frame that stands at a point. Out: a segment (guards, graph, recipe) that is compiled, or nothing when there is
 * nothing to gain; the frame as it was.
 * What must hold: whatever happens the frame's values are put back, the tracer is popped and the collector is on again;
 * a stop that is not clean sets a mark and the trace begins again, so a segment never holds half an instruction. What was
 * changed of what existed before (effects.c) is undone, the thread's exception and grad mode are those of the beginning.
 * Next: segment.c for running what was made. */
#include "capture/capture.h"
#include "batch/batch.h"
#include "graphs/graphs.h"

/* ---- the frame, before and after ------------------------------------------------------------------------------------ */
typedef struct frame_copy { PyObject **values; bool *written; int n, next, depth; } frame_copy;

static int copy_frame(nxpy_loop *loop, frame_copy *out) {
    out->next = nxpy_frame_next(loop->frame);
    out->depth = nxpy_frame_depth(loop->frame);
    out->n = loop->view.n_locals + out->depth;
    out->values = nx_alloc(sizeof *out->values * (size_t)(out->n + 1));
    out->written = nx_alloc_zeroed((size_t)loop->view.n_locals + 1);
    if (!out->values || !out->written) {
        nx_free(out->values);
        nx_free(out->written);
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    for (int k = 0; k < out->n; k++) out->values[k] = Py_XNewRef(nxpy_value(&loop->view, k));
    return 0;
}

static void restore_frame(nxpy_loop *loop, frame_copy *copy) {
    int now = loop->view.n_locals + nxpy_frame_depth(loop->frame);
    for (int k = 0; k < now || k < copy->n; k++) {
        PyObject *old = k < now ? nxpy_value(&loop->view, k) : NULL;
        nxpy_value_set(&loop->view, k, k < copy->n ? copy->values[k] : NULL); /* the copy's reference moves */
        Py_XDECREF(old);
    }
    nxpy_frame_set(loop->frame, copy->next, copy->depth);
    nx_free(copy->values);
    nx_free(copy->written);
}

/* ---- begin and end ------------------------------------------------------------------------------------------------------ */
int nxpy__shows_graph(const nxpy_captured *owner) {
    PyObject *shown = PyObject_GetAttrString(owner->backend, "shows_graph");
    int answer = !shown ? -1 : shown == Py_True;
    Py_XDECREF(shown);
    nxpy_forget_error();
    return answer;
}

static nx_status begin(nxpy_trace *trace) {
    nx_thread *thread = nx_thread_get();
    Py_CLEAR(trace->owner->calls);
    NX_TRY(nx_graph_new(&trace->graph));
    trace->tracer = (nx_tracer){.graph = trace->graph, .key = NX_KEY_AT_CAPTURE, .unknown = nxpy__stop_unknown,
                                 .refuse = nxpy__stop_refused, .fix = nxpy__fix_sizes, .context = trace};
    int shown = nxpy__shows_graph(trace->owner);
    trace->spells = nxpy__log || shown; /* any other callable may show it */
    trace->tells_modules = shown == 1;
    trace->grad_at_start = nx_grad_enabled();
    trace->grads_on_at = -1;
    trace->whole_at_start = nxpy__whole;
    trace->autocast_at_start = nxpy__autocast_now();
    trace->autocast_guard = nx_thread_autocast(thread);
    trace->included_before = thread->keys_included;
    nx_status status = nx_tracer_push(&trace->tracer);
    if (status != NX_OK) {
        nx_graph_free(trace->graph);
        trace->graph = NULL;
        return status;
    }
    thread->keys_included |= NX_KEY(FAKE);
    if (trace->owner->fullgraph) {
        thread->tell = nxpy__tell;
        trace->tracer.asks_elements = true;
    }
    return NX_OK;
}

static void end_recording(nxpy_trace *trace) {
    nx_thread *thread = nx_thread_get();
    nxpy__regions_drop(trace);
    while (thread->n_levels > 0) nx_batch_leave(); /* nothing is traced with one open before (segment.c) */
    thread->keys_included = trace->included_before | NX_KEY(CAPTURE); /* as nx_tracer_push left them */
    nx_tracer_pop(&trace->tracer);
    nxpy__autocast_put(&trace->autocast_at_start);
    thread->keys_included = trace->included_before;
    nx_grad_set_enabled(trace->grad_at_start);
    nxpy__whole = trace->whole_at_start;
    thread->function_state = NXPY_ASK_ALL;
    thread->source = (nx_source){0};
    thread->tell = NULL;
}

static void trace_free(nxpy_trace *trace) {
    nxpy__notes_free(trace);
    for (int k = 0; k < trace->told.n; k++) nxpy__told_drop(&trace->told.at[k]);
    nx_vec_free(&trace->told);
    nx_vec_free(&trace->inputs);
    nx_vec_free(&trace->leaves);
    nx_vec_free(&trace->hooked);
    nx_vec_free(&trace->opened);
    Py_XDECREF(trace->raised);
    Py_XDECREF(trace->traceback);
    Py_XDECREF(trace->events);
    Py_XDECREF(trace->sources);
    Py_XDECREF(trace->spellings);
    Py_XDECREF(trace->ask);
    Py_XDECREF(trace->ask_arguments);
    if (trace->graph) nx_graph_free(trace->graph);
    if (trace->segment) nxpy__segment_free(trace->segment);
    Py_XDECREF(trace->stop_text);
    for (int k = 0; k < 3; k++) Py_XDECREF(trace->error[k]);
}

/* ---- guards of the whole segment ------------------------------------------------------------------------------------------ */
static int add_state_rows(nxpy_trace *trace) {
    nxpy_row rows[] = {{.code = NXPY_ROW_GRAD_MODE, .from = -1, .n = trace->grad_at_start},
                        {.code = NXPY_ROW_DEVICE, .from = -1},
                        {.code = NXPY_ROW_AUTOCAST, .from = -1, .n = trace->autocast_guard},
                        {.code = NXPY_ROW_DEFAULT_DTYPE, .from = -1, .n = nx_default_dtype()},
                        {.code = NXPY_ROW_BACKEND, .from = -1, .a = trace->owner->backend, .n = (int64_t)(intptr_t)&trace->owner->backend}};
    memcpy(&rows[1].n, nx_thread_get()->device_index, sizeof rows[1].n);
    for (int k = 0; k < NX_COUNT(rows); k++) {
        if (nxpy_guards_add(&trace->segment->guards, rows[k], (nxpy_place){0}) < 0) return -1;
    }
    return 0;
}

static int add_pairs_row(nxpy_trace *trace, nxpy_row_code code) {
    NX_VEC(nxpy_apart_part) parts = {0};
    int done = 0;
    for (int k = 0; done == 0 && k < trace->inputs.n; k++) {
        nxpy_apart_part part = {.slot = trace->notes.at[trace->inputs.at[k]].slot};
        if (!trace->notes.at[trace->inputs.at[k]].real) continue; /* new at each run */
        if (nx_vec_push(&parts, part) != NX_OK) done = (nxpy_raise(NX_NO_MEMORY), -1);
    }
    if (done == 0) done = nxpy__apart_row(trace, code, parts.at, parts.n, parts.n);
    nx_vec_free(&parts);
    return done;
}

static bool graph_mutates(const nx_graph *graph) {
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->op && (node->op->def->flags & NX_OP_MUTATES)) return true;
        if (node->op && (node->op->def->variant == NX_INPLACE || node->op->def->variant == NX_OUT)) return true;
    }
    return false;
}

/* Whether two inputs lie in one storage now: then a graph that writes is not ours to make. */
static bool inputs_share_memory(const nxpy_trace *trace, const frame_copy *copy) {
    for (int k = 0; k < trace->notes.n; k++) {
        const nxpy_note *x = &trace->notes.at[k];
        for (int j = 0; x->fake && j < k; j++) {
            const nxpy_note *y = &trace->notes.at[j];
            if (y->fake && nxpy_memories_meet(nxpy_tensor_get(x->object)->storage, nxpy_tensor_get(y->object)->storage)) return true;
        }
    }
    return false;
}

/* ---- recipe of the end ------------------------------------------------------------------------------------------------------ */
/* At a break: which places of the frame get a new value. 1, 0 (cannot be made again), -1. */
static int add_targets(nxpy_trace *trace, nxpy_loop *loop, const frame_copy *copy, nxpy_results *results) {
    nxpy_segment *segment = trace->segment;
    int n = loop->view.n_locals + loop->depth, n_targets = 0;
    if (!(segment->targets = nx_alloc(sizeof(int) * (size_t)(n + 1)))) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    for (int k = 0; k < n; k++) {
        PyObject *value = nxpy_value(&loop->view, k);
        if (k < loop->view.n_locals && !copy->written[k]) continue; /* not: the same object, which may be by chance */
        segment->targets[n_targets++] = k;
        int done = nxpy__recipe_add(trace, &segment->recipe, results, value);
        if (done != 1) return done;
    }
    return 1;
}

static void set_break(nxpy_trace *trace, nxpy_loop *loop) {
    nxpy_segment *segment = trace->segment;
    segment->why = trace->stop;
    segment->enters = trace->stop_enters;
    segment->first = loop->in.start;
    segment->depth = loop->depth;
    segment->last = loop->in.next;
}

/* ---- the graph ----------------------------------------------------------------------------------------------------------------- */
/* Inputs that nothing uses leave the graph; their guards stay. */
static int prune_inputs(nxpy_trace *trace) {
    nxpy_segment *segment = trace->segment;
    if (!(segment->inputs = nx_alloc(sizeof(int) * (size_t)(trace->inputs.n + 1)))) return nxpy_raise(NX_NO_MEMORY), -1;
    if (!(segment->varying = nx_alloc(sizeof(int) * (size_t)(trace->inputs.n + 1)))) return nxpy_raise(NX_NO_MEMORY), -1;
    nx_node *node = trace->graph->first;
    for (int k = 0; k < trace->inputs.n && node && node->kind == NX_NODE_PLACEHOLDER; k++) {
        nx_node *next = node->next;
        int slot = trace->notes.at[trace->inputs.at[k]].slot;
        if (node->uses && node->varying) {
            segment->varying[segment->n_varying++] = slot;
            segment->n_key += 2 * node->fakes[0]->a.ndim;
            segment->fitted = true;
        }
        if (node->uses) segment->inputs[segment->n_inputs++] = slot;
        else nx_node_erase(node);
        node = next;
    }
    /* Sizes were read as values of what nothing open is left in. */
    for (node = trace->graph->first; node && !segment->fitted; node = node->next) segment->fitted = nx_node_int_code(node) >= 0;
    return 0;
}

/* Slots whose values the frame or the caller does not hold anyway. */
static int find_held(nxpy_segment *segment) {
    int n = segment->n_inputs + segment->recipe.steps.n;
    if (!(segment->held = nx_alloc(sizeof(int) * (size_t)(n + 1)))) return nxpy_raise(NX_NO_MEMORY), -1;
    for (int k = 0; k < n; k++) {
        const nxpy_step *step = k < segment->n_inputs ? NULL : &segment->recipe.steps.at[k - segment->n_inputs];
        int slot = !step ? segment->inputs[k] : step->make == NXPY_MAKE_SLOT ? step->n : -1;
        int code = slot < 0 ? NXPY_ROW_ROOT : segment->guards.rows.at[segment->guards.row_of_slot.at[slot]].code;
        if (code == NXPY_ROW_ROOT) continue;
        int *at = &segment->held[segment->n_held++];
        if (code != NXPY_ROW_GRAD) {
            *at = slot;
        } else { /* these stand first */
            *at = segment->held[segment->n_lent];
            segment->held[segment->n_lent++] = slot;
        }
    }
    return 0;
}

static bool graph_computes(const nx_graph *graph) {
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->kind != NX_NODE_PLACEHOLDER && node->kind != NX_NODE_OUTPUT) return true;
    }
    return false;
}

/* What the backend gets: the call's own tensors where it is the program's, which may look at the elements of weights; else fakes. */
static PyObject *example_inputs(const nxpy_trace *trace) {
    PyObject *list = PyList_New(0);
    bool real = nxpy__shows_graph(trace->owner) == 1;
    for (int k = 0; list && k < trace->segment->n_inputs; k++) {
        for (int j = 0; j < trace->inputs.n; j++) {
            const nxpy_note *note = &trace->notes.at[trace->inputs.at[j]];
            PyObject *given = real && note->real ? note->real : note->object;
            if (note->slot == trace->segment->inputs[k] && PyList_Append(list, given) < 0) Py_CLEAR(list);
            if (!list || note->slot == trace->segment->inputs[k]) break;
        }
    }
    return list;
}

/* The user's line beside each node, for prints of the graph. */
static int add_code_lines(nxpy_trace *trace) {
    const char *file = NULL;
    PyObject *text = NULL;
    nx_status status = NX_OK;
    int line = -1;
    for (nx_node *node = trace->graph->first; node && status == NX_OK; node = node->next) {
        if (!node->source.file) continue;
        if (node->source.file != file || node->source.line != line) {
            PyObject *name = PyUnicode_FromString(node->source.file);
            Py_XSETREF(text, name ? nxpy__line_text(trace, name, node->source.line) : NULL);
            Py_XDECREF(name);
            file = node->source.file;
            line = node->source.line;
        }
        const char *code = text ? PyUnicode_AsUTF8(text) : NULL;
        if (!code) nxpy_forget_error(); /* it is told without */
        nx_source source = node->source;
        source.code = code;
        status = nx_node_set_source(node, &source);
    }
    Py_XDECREF(text);
    return status == NX_OK ? 0 : (nxpy_raise(status), -1);
}

static int call_backend(nxpy_trace *trace) {
    nxpy_captured *owner = trace->owner;
    PyObject *inputs = example_inputs(trace);
    trace->segment->graph = nxpy_graph_take(trace->graph);
    trace->graph = NULL; /* taken, also on failure */
    if (trace->segment->graph) ((nxpy_graph *)trace->segment->graph)->spellings = Py_XNewRef(trace->spellings);
    int result = !inputs || !trace->segment->graph || PyList_Append(owner->graphs, trace->segment->graph) < 0
                     ? -1 : trace->segment->fitted ? 0 /* fitted when it is used */ : nxpy__fit_first(owner, trace->segment, inputs);
    Py_XDECREF(inputs);
    return result;
}

/* ---- putting it together ------------------------------------------------------------------------------------------------------- */
static void tell_end(nxpy_trace *trace, bool returned) {
    nxpy_aside aside = nxpy__aside_begin();
    const char *why = returned ? "" : nxpy__break_why(trace->stop);
    PyObject *told = PyObject_CallFunction(nxpy__listener, "ssOOiO", returned ? "" : nxpy__break_name(trace->stop), why,
                                           trace->stop_text ? trace->stop_text : Py_None, trace->file ? trace->file : Py_None,
                                           trace->line, trace->function ? trace->function : Py_None);
    Py_XDECREF(told);
    if (!told) nxpy_forget_error();
    nxpy__aside_end(aside);
}

static void log_end(nxpy_trace *trace, bool returned) {
    if (nxpy__listener) tell_end(trace, returned);
    if (!nxpy__log) return;
    const char *what = returned ? "RETURN_VALUE" : nxpy__break_name(trace->stop);
    PyObject *file = trace->file ? trace->file : Py_None, *function = trace->function ? trace->function : Py_None;
    if (!returned) {
        nxpy__log_event("break", "{sssssOsOsiss}", "code", what, "reason", nxpy__break_why(trace->stop), "detail",
                        trace->stop_text ? trace->stop_text : Py_None, "filename", file, "line", trace->line, "mend",
                        nxpy__break_mend(trace->stop));
    }
    nxpy__log_event("done", "{sOss}", "name", function, "reason", what);
    nxpy__log_event("compile", "{sss[(OiO)]}", "reason", returned ? "return_value" : nxpy__break_why(trace->stop), "user_stack", file,
                    trace->line, function);
}

/* The end of a handler `except X:` where X is a builtin class of errors, which the end of a generator is none of, or of what
 * stands behind such a one: the unit that raises on. -1: the handler may run code. */
static int raises_on(const nxpy_view *view, int unit) {
    nxpy_instr in = nxpy_instr_at(view, unit);
    if (in.op == NXPY_OP_copy) {
        in = nxpy_instr_at(view, in.next);
        return in.op == NXPY_OP_pop_except && nxpy_instr_at(view, in.next).op == NXPY_OP_reraise ? in.next : -1;
    }
    if (in.op != NXPY_OP_push_exc_info) return -1;
    in = nxpy_instr_at(view, in.next);
    if (in.op != NXPY_OP_load_global || !PyDict_CheckExact(view->globals) || !PyDict_CheckExact(view->builtins)) return -1;
    PyObject *name = PyTuple_GET_ITEM(view->code->co_names, in.arg);
    PyObject *type = PyDict_Contains(view->globals, name) ? NULL : PyDict_GetItemWithError(view->builtins, name);
    if (!type || !PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, (PyTypeObject *)PyExc_Exception)) return -1;
    in = nxpy_instr_at(view, in.next);
    if (in.op != NXPY_OP_check_exc_match) return -1;
    in = nxpy_instr_at(view, in.next);
    return in.op == NXPY_OP_pop_jump && !in.flag && nxpy_instr_at(view, in.arg).op == NXPY_OP_reraise ? in.arg : -1;
}

/* Whether a handler of the program's own stands around this instruction of a generator, beside those that every one has. */
static bool is_caught(const nxpy_view *view, int unit) {
    nxpy_catcher catcher;
    nxpy_op op = NXPY_OP_cleanup_throw;
    while (op == NXPY_OP_cleanup_throw) {
        if (!nxpy_catcher_find(view, unit, &catcher)) return false;
        unit = catcher.unit;
        op = nxpy_instr_at(view, unit).op;
        int on = raises_on(view, unit);
        if (on >= 0) {
            unit = on;
            op = NXPY_OP_cleanup_throw;
        }
    }
    return op != NXPY_OP_stop_iteration_error;
}

/* What no recipe can make besides values: an exception that is being handled, a generator whose end would run code. */
static bool state_is_makeable(nxpy_trace *trace) {
    if (trace->n_handling) {
        trace->unmakeable_at = trace->raised_at;
        trace->unmakeable = "an exception that is being handled when the graph ends";
    }
    if (nx_thread_get()->function_state != NXPY_ASK_ALL && trace->unmakeable_at < 0) {
        trace->unmakeable_at = trace->unasked_at;
        trace->unmakeable = "classes of tensors that are not asked";
    }
    if (nx_thread_get()->n_levels > 0 && trace->unmakeable_at < 0) {
        trace->unmakeable_at = trace->map_at;
        trace->unmakeable = "a map over slices that has not ended";
    }
    if (trace->unmakeable_at < 0 && !nxpy__inputs_may_live_on(trace)) return false;
    for (int k = 0; k < trace->notes.n && trace->unmakeable_at < 0; k++) {
        const nxpy_note *note = &trace->notes.at[k];
        nxpy_view view;
        if (PyCoro_CheckExact(note->object) && note->kind == NXPY_NOTE_BORN && nxpy_generator_is_new(note->object)) {
            trace->unmakeable_at = note->born_at; /* Python warns of it */
            trace->unmakeable = "a coroutine that is never awaited";
        }
        if (!nxpy_is_generator(note->object) || !nxpy_generator_is_suspended(note->object)) continue;
        nxpy_frame *frame = nxpy_generator_frame(note->object);
        nxpy_frame_view(frame, &view);
        if (!is_caught(&view, nxpy_frame_next(frame) - 1)) continue;
        trace->unmakeable_at = note->born_at;
        trace->unmakeable = "a generator inside try or with";
    }
    return trace->unmakeable_at < 0;
}

static void note_autocast(const nxpy_trace *trace, nxpy_segment *segment) {
    segment->autocast_after = nxpy__autocast_now();
    segment->sets_autocast = memcmp(&segment->autocast_after, &trace->autocast_at_start, sizeof(nxpy_autocast)) != 0;
    segment->autocast_after.nesting -= trace->autocast_at_start.nesting;
}

/* The segment's end, from the state that the loop stopped in. 1: made; 0: it cannot be; -1: an exception. */
static int finish(nxpy_trace *trace, nxpy_loop *loop, const frame_copy *copy, bool returned) {
    nxpy_segment *segment = trace->segment;
    nxpy_results results = {0};
    segment->returns = returned;
    if (nx_grad_enabled() != trace->grad_at_start) segment->grad_after = nx_grad_enabled() ? NXPY_GRAD_ON : NXPY_GRAD_OFF;
    if (nxpy__whole != trace->whole_at_start) segment->whole_after = nxpy__whole ? NXPY_GRAD_ON : NXPY_GRAD_OFF;
    note_autocast(trace, segment);
    if (!state_is_makeable(trace)) return 0;
    if (!returned) set_break(trace, loop);
    PyObject *top = returned ? nxpy_value(&loop->view, loop->view.n_locals + loop->depth - 1) : NULL;
    int done = returned ? nxpy__recipe_add(trace, &segment->recipe, &results, top) : add_targets(trace, loop, copy, &results);
    segment->n_returned = segment->recipe.n_values;
    if (done == 1 && nxpy__hooks_finish(trace) < 0) done = -1;
    if (done == 1) done = nxpy__effects_finish(trace, &results);
    if (done == 1) done = nxpy__told_finish(trace, &results);
    if (done == 1 && results.asks) done = 0;
    bool mutates = done == 1 && graph_mutates(trace->graph) && !nxpy__leaves_nothing(trace);
    if (done == 1 && mutates && inputs_share_memory(trace, copy)) done = 0;
    if (done == 1 && (add_state_rows(trace) < 0 || add_pairs_row(trace, NXPY_ROW_DISTINCT) < 0)) done = -1;
    if (done == 1 && mutates && add_pairs_row(trace, NXPY_ROW_STORAGES) < 0) done = -1;
    segment->n_results = results.nodes.n;
    nx_status status = done == 1 ? nx_graph_output(trace->graph, results.nodes.at, results.nodes.n) : NX_OK;
    if (status != NX_OK) done = (nxpy_raise(status), -1);
    if (done == 1 && nxpy__made_finish(trace) < 0) done = -1;
    if (done == 1 && (prune_inputs(trace) < 0 || find_held(segment) < 0 || nxpy__numbers_finish(trace) < 0)) done = -1;
    nx_vec_free(&results.nodes);
    nx_vec_free(&results.kept);
    nx_vec_free(&results.making);
    nx_vec_free(&results.waiting);
    if (done == 0 && !trace->stop && !trace->ask && trace->unmakeable_at < 0) { /* fullgraph tells */
        const char *shared = "a write into one of two inputs that share memory";
        nxpy__stop(trace, NXPY_BREAK_REBUILD, "%s", trace->unmakeable ? trace->unmakeable : shared);
        PyErr_Clear();
    }
    if (done < 0 && trace->error[0]) { /* of a row that was added now */
        PyErr_Restore(trace->error[0], trace->error[1], trace->error[2]);
        trace->error[0] = trace->error[1] = trace->error[2] = NULL;
    }
    return done;
}

/* A graph break is an error here. */
static bool is_whole(const nxpy_trace *trace) { return trace->owner->fullgraph || nxpy__whole; }

/* The next try ends before that instruction of the root. 0, or -1 with an exception. */
static int add_mark(nxpy_trace *trace, int unit) {
    nxpy_mark mark = {.unit = unit, .why = trace->stop, .enters = trace->stop_enters, .text = trace->stop_text};
    if (nx_vec_push(&trace->point->marks, mark) != NX_OK) return nxpy_raise(NX_NO_MEMORY), -1;
    Py_XINCREF(trace->stop_text);
    return 0;
}

/* What an instruction raised for the values of an earlier call says nothing of this one. */
static void forget_exceptions(nxpy_point *point) {
    int n = 0;
    for (int k = 0; k < point->marks.n; k++) {
        if (point->marks.at[k].why == NXPY_BREAK_EXCEPTION) Py_XDECREF(point->marks.at[k].text);
        else point->marks.at[n++] = point->marks.at[k];
    }
    point->marks.n = n;
}

/* A value that lives on cannot be made: the graph ends before it is. 0, 1 (nothing to gain), -1 with an exception. */
static int mark_unmakeable(nxpy_trace *trace) {
    if (trace->unmakeable_at < 0) return 1;
    if (is_whole(trace) && trace->stop) return 1; /* that is why it is not one graph */
    for (int k = 0; k < trace->point->marks.n; k++) {
        if (trace->point->marks.at[k].unit == trace->unmakeable_at) return 1;
    }
    trace->stop = NXPY_BREAK_REBUILD;
    trace->stop_enters = false;
    Py_XSETREF(trace->stop_text, PyUnicode_FromString(trace->unmakeable));
    if (!trace->stop_text) return -1;
    return add_mark(trace, trace->unmakeable_at);
}

static int unsupported(nxpy_trace *trace) {
    if (trace->error[1]) { /* the user's own exception tells more */
        PyErr_Restore(trace->error[0], trace->error[1], trace->error[2]);
        trace->error[0] = trace->error[1] = trace->error[2] = NULL;
        return -1;
    }
    const char *asked = trace->owner->fullgraph ? "torch.compile(fullgraph=True)" : "error_on_graph_break";
    PyErr_Format(nxpy__unsupported, "%s: %s (%S) at %S:%d in %S; how to mend it: %s", asked, nxpy__break_why(trace->stop),
                 trace->stop_text ? trace->stop_text : Py_None, trace->file ? trace->file : Py_None, trace->line,
                 trace->function ? trace->function : Py_None, nxpy__break_mend(trace->stop));
    return -1;
}

/* The stack's values that are there already: constants are guarded at once, the others when they are used. */
static int fetch_stack(nxpy_trace *trace, nxpy_loop *loop, const frame_copy *copy) {
    for (int k = loop->view.n_locals; k < copy->n; k++) {
        if (!copy->values[k] || nxpy_symnumber_check(nxpy_value(&loop->view, k))) continue;
        PyObject *name = PyUnicode_FromFormat("___stack%d", k - loop->view.n_locals);
        int done = name ? nxpy__fetch(trace, NXPY_ROW_ROOT, -1, name, NULL, k, copy->values[k]) : -1;
        Py_XDECREF(name);
        if (done < 0) return -1;
    }
    return 0;
}

/* Numbers among the frame's values that were others before at this place are left open, as sizes are. */
static int open_numbers(nxpy_trace *trace, nxpy_loop *loop, frame_copy *copy) {
    for (int k = 0; k < copy->n; k++) {
        PyObject *value = copy->values[k];
        if (!value || !(PyLong_CheckExact(value) || PyFloat_CheckExact(value)) || !trace->point->segments.n) continue;
        bool is_local = k < loop->view.n_locals;
        PyObject *name = is_local ? Py_NewRef(nxpy_local_name(loop->view.code, k))
                                  : PyUnicode_FromFormat("___stack%d", k - loop->view.n_locals);
        bool varies = false;
        for (int s = 0; name && s < trace->point->segments.n; s++) {
            varies |= nxpy_guards_root_varies(&trace->point->segments.at[s]->guards, k, value);
        }
        int done = !name ? nxpy__stop_error(trace) : varies ? nxpy__fetch_number(trace, NXPY_ROW_ROOT, -1, name, NULL, k, &value) : 0;
        Py_XDECREF(name);
        if (done < 0) return -1;
        if (value == copy->values[k]) continue;
        nxpy_value_put(&loop->view, k, Py_NewRef(value));
        if (is_local) copy->written[k] = true;
    }
    return 0;
}

/* Of signals that came while the trace ran. */
static int run_handlers(int done) {
    PyObject *error[3];
    nxpy_signals_back();
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    if (PyErr_CheckSignals() == 0) {
        PyErr_Restore(error[0], error[1], error[2]);
        return done;
    }
    for (int k = 0; k < 3; k++) Py_XDECREF(error[k]);
    return -1;
}

/* What becomes of a trace that is over, `whole`: to its frame's end; ready: it was begun. 1: settled; 0: it is to be made anew; -1:
 * an exception. *made: it has a segment. */
static int settle(nxpy_trace *trace, nxpy_loop *loop, frame_copy *copy, bool ready, bool whole, bool interrupted, bool *made) {
    int done = -1;
    bool ends = (whole || trace->clean) && !trace->skips, broken = !whole;
    if (!interrupted && ends) done = finish(trace, loop, copy, whole);
    else if (!interrupted) done = trace->ask ? 0 : !ready || trace->point->fails || trace->skips ? 1 : add_mark(trace, loop->in.start);
    if (trace->point->fails && done == 0) done = 1;
    *made = ready && ends && done == 1 && !trace->point->fails;
    bool refused = is_whole(trace) && !trace->ask && !trace->point->fails;
    if (!interrupted && ends && done == 0 && !trace->ask) {
        broken = true;
        done = mark_unmakeable(trace);
    }
    if (broken && ((refused && done >= 0) || interrupted)) done = unsupported(trace);
    return done;
}

/* One try. 1: *out is made (or NULL: nothing to gain); 0: a mark was set, try again; -1: an exception. */
static int trace_once(nxpy_trace *trace, PyThreadState *thread, nxpy_frame *frame, nxpy_segment **out) {
    nxpy_loop loop = {.trace = trace, .frame = frame};
    frame_copy copy;
    nxpy_link link;
    nxpy_frame_view(frame, &loop.view);
    trace->root_at = nxpy_frame_next(frame);
    if (copy_frame(&loop, &copy) < 0) return -1;
    loop.start = copy.values;
    loop.written = copy.written;
    trace->root_loop = trace->loop = &loop;
    trace->segment = nx_alloc_zeroed(sizeof *trace->segment);
    int flat = nxpy__was_asked_for(trace, NXPY_ASK_PARTS);
    if (!trace->segment || flat < 0 || begin(trace) != NX_OK || nxpy_frame_enter(thread, frame, &link) < 0) {
        if (trace->graph) end_recording(trace);
        restore_frame(&loop, &copy);
        return PyErr_Occurred() ? -1 : (nxpy_raise(NX_NO_MEMORY), -1);
    }
    trace->tracer.flat = flat;
    bool interrupted = false;
    int collects = PyGC_Disable();
    trace->holds_signals = nxpy_signals_hold();
    PyObject *handled = nxpy_handled_swap(thread, NULL);
    (void)nxpy_handled_swap(thread, Py_XNewRef(handled));
    loop.in = nxpy_instr_at(&loop.view, trace->root_at);
    nxpy__doing.trace = trace;
    bool ready = nxpy__note_function(trace, loop.view.function) == 0 && open_numbers(trace, &loop, &copy) == 0 &&
                 fetch_stack(trace, &loop, &copy) == 0;
    int ran = ready ? nxpy__loop_run(&loop, false) : -1;
    nxpy__doing.trace = NULL;
    nxpy_forget_error();
    if (trace->error[0] && PyErr_GivenExceptionMatches(trace->error[0], PyExc_KeyboardInterrupt)) interrupted = true;
    interrupted |= trace->raises;
    if (nxpy__in_branch(trace)) { /* where it cannot be traced, Python's way may be; also of one that was left by an exception */
        nxpy__ask_for(trace, NXPY_ASK_NO_BRANCHES);
        trace->clean = false;
        ran = -1;
    }
    bool made;
    int done = settle(trace, &loop, &copy, ready, ran == 1, interrupted, &made);
    Py_XDECREF(nxpy_handled_swap(thread, handled));
    nxpy__effects_undo(trace);
    nxpy_frame_leave(thread, &link);
    end_recording(trace);
    restore_frame(&loop, &copy);
    if (collects) PyGC_Enable();
    if (trace->holds_signals) done = run_handlers(done);
    nxpy__log_flush(trace);
    if (done == 0 && trace->ask) done = nxpy__answer(trace);
    if (made && done == 1) {
        log_end(trace, ran == 1);
        *out = trace->segment;
    }
    return done;
}

/* Whoever asked for the guards gets them, and may say which of them count. 0, or -1 with an exception. */
static int tell_guards(nxpy_trace *trace) {
    if (!trace->owner->told || trace->owner->told == Py_None) return 0;
    PyObject *listener = Py_NewRef(trace->owner->told), *list = nxpy_guards_list(&trace->segment->guards);
    PyObject *keep = list ? PyObject_CallOneArg(listener, list) : NULL;
    int done = !keep ? -1 : keep == Py_None ? 0 : nxpy_guards_filter(&trace->segment->guards, keep);
    Py_XDECREF(keep);
    Py_XDECREF(list);
    Py_DECREF(listener);
    return done;
}

int nxpy__trace_segment(nxpy_captured *owner, nxpy_root *root, nxpy_point *point, PyThreadState *thread, nxpy_frame *frame,
                        nxpy_segment **out) {
    *out = NULL;
    if (point->next == 0 && root == owner->roots.at[0] && PyList_SetSlice(owner->graphs, 0, PY_SSIZE_T_MAX, NULL) < 0) return -1;
    PyObject *answers = PyDict_New();
    if (!answers) return -1;
    int done = 0;
    forget_exceptions(point);
    for (int tries = 0; done == 0 && tries < 64; tries++) {
        nxpy_trace trace = {.owner = owner, .root = root, .point = point, .unmakeable_at = -1, .answers = answers};
        nxpy__log_start(&trace);
        done = trace_once(&trace, thread, frame, out);
        nxpy__hook_hold(false); /* the backend runs as it would without us */
        PyObject *callback = nxpy__callback_aside();
        if (done == 1 && *out && graph_computes(trace.graph) && (add_code_lines(&trace) < 0 || call_backend(&trace) < 0)) done = -1;
        if (done == 1 && *out && tell_guards(&trace) < 0) done = -1;
        nxpy__callback_back(callback);
        nxpy__hook_hold(true);
        if (done == 1 && *out) {
            nxpy__log_guards(&trace);
            trace.segment = NULL;
        } else {
            *out = NULL;
        }
        if (trace.ask) tries--;
        trace_free(&trace);
    }
    Py_DECREF(answers);
    return done < 0 ? -1 : 0;
}
