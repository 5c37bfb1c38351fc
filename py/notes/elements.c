/* Elements that the graph itself computes, where it may not end at them (fullgraph): `if x.sum() > 0`, x[mask], .item().
 *
 * In: a fake that the graph gives. Out: its elements in this very call, for which the graph so far runs on the call's tensors;
 * the trace goes on with them. The graph gives the tensor as one more result, and whoever runs it compares (told): where
 * one is another, the run counts for nothing, and another segment runs, or the function is traced anew.
 * What must hold: a run that counts for nothing has changed nothing, so the graph writes into no memory that existed before and
 * draws from no generator but the CPU's, which is put back. Nobody else runs meanwhile: the trace keeps the lock.
 * Next: capture/segment.c. */
#include "notes/notes.h"
#include "size/size.h"

#include <math.h>

enum { MAX_ELEMENTS = 4096 };

/* ---- may a run count for nothing? ---------------------------------------------------------------------------------------- */
typedef struct walk { const bool *outer; bool found; } walk; /* outer: by order, may lie in memory that existed before */

static void look_at(void *arg, nx_node *input, int result) {
    walk *w = arg;
    w->found |= w->outer[input->order];
}

static bool draws_elsewhere(const nx_node *node) {
    nx_draws draws = {0};
    nx_node_add_draws(node, &draws);
    return draws.any && !nx_draws_from_cpu(&draws);
}

bool nxpy__leaves_nothing(const nxpy_trace *trace) {
    nx_graph *graph = trace->graph;
    int n_inputs = 0;
    nx_graph_number(graph);
    bool *outer = nx_alloc_zeroed((size_t)graph->n_nodes + 1), pure = outer != NULL;
    for (const nx_node *node = graph->first; pure && node; node = node->next) {
        bool calls = node->kind == NX_NODE_CALL_FUNCTION || node->kind == NX_NODE_CALL_METHOD;
        if (node->kind == NX_NODE_PLACEHOLDER && n_inputs < trace->inputs.n) {
            outer[node->order] = trace->notes.at[trace->inputs.at[n_inputs++]].real != NULL; /* those without are made for the run */
            continue;
        }
        if (!node->op) {
            outer[node->order] = node->kind != NX_NODE_OUTPUT && nx_node_int_code(node) < 0;
            pure = !calls || nx_node_int_code(node) >= 0;
            continue;
        }
        walk shown = {.outer = outer}, written = {.outer = outer};
        nx_node_each_shown(node, look_at, &shown);
        nx_node_each_written(node, look_at, &written);
        outer[node->order] = shown.found;
        pure = !written.found && !draws_elsewhere(node);
    }
    nx_free(outer);
    return pure;
}

/* ---- the elements -------------------------------------------------------------------------------------------------------- */
/* Row by row in the host's memory. New reference. */
static nx_status to_host(nx_tensor *tensor, nx_tensor **out) {
    nx_value dense;
    *out = NULL;
    if (tensor->a.contiguous && tensor->a.device.type == 0) {
        *out = nx_tensor_ref(tensor);
        return NX_OK;
    }
    nx_value in[] = {nx_value_tensor(tensor), {.tag = NX_TAG_MEMORY_FORMAT, .i = 0}};
    NX_TRY(nx_op_call(nx_op_get("aten::clone"), in, &dense));
    if (dense.tensor->a.device.type == 0) {
        *out = dense.tensor;
        return NX_OK;
    }
    nx_status status = nx_tensor_new(tensor->a.dtype, tensor->a.ndim, tensor->a.sizes, NX_CPU, out);
    if (status == NX_OK) status = nx_device_copy(*out, dense.tensor);
    nx_tensor_unref(dense.tensor);
    if (status != NX_OK && *out) nx_tensor_unref(*out);
    return status;
}

/* The graph so far, with numbers for its sizes, up to the value. */
static nx_status prefix_of(nxpy_trace *trace, nx_value value, nx_tensor *const *inputs, nx_graph **out) {
    nx_graph *copy = NULL;
    NX_TRY(nx_graph_copy(trace->graph, &copy));
    nx_node *node = nx_graph_find(copy, value.node->name);
    nx_value wanted = nx_value_node(node, value.n), given[64];
    nx_status status = node ? nx_graph_output(copy, &wanted, 1) : nx_fail(NX_RUNTIME, "a node is not there");
    if (status == NX_OK && trace->tracer.ints.n) {
        const nxpy_segment *segment = trace->segment;
        nx_value none;
        nx_graph *fitted = NULL;
        for (int k = 0; k < segment->given.n && k < NX_COUNT(given); k++) given[k] = segment->given.at[k].traced;
        const nx_fit to = {.inputs = inputs, .n_inputs = trace->inputs.n, .given = given, .n_given = segment->given.n};
        status = segment->given.n > NX_COUNT(given) ? nx_fail(NX_RUNTIME, "too many numbers") : nx_graph_fit(copy, &to, &none, &fitted);
        if (status == NX_OK) {
            nx_graph_free(copy);
            copy = fitted;
        }
    }
    if (status == NX_OK) *out = copy;
    else nx_graph_free(copy);
    return status;
}

static const nx_meta *meta_of(const nx_tensor *tensor, nx_meta *meta) {
    nx_meta_of(&tensor->a, meta);
    return meta;
}

static nx_status run_prefix(nxpy_trace *trace, nx_value value, nx_tensor **out) {
    int n = trace->inputs.n;
    nx_tensor **fakes = nx_alloc_zeroed(sizeof *fakes * (size_t)(2 * n + 1)), **reals = fakes + n, *result = NULL;
    nx_graph *graph = NULL;
    nx_status status = NX_OK;
    nx_meta meta;
    if (!fakes) return nx_fail_memory(sizeof *fakes * (size_t)n);
    for (int k = 0; k < n && status == NX_OK; k++) {
        const nxpy_note *note = &trace->notes.at[trace->inputs.at[k]];
        fakes[k] = nxpy_tensor_get(note->object);
        if (note->real) reals[k] = nx_tensor_ref(nxpy_tensor_get(note->real));
        else status = nx_tensor_new_meta(meta_of(fakes[k], &meta), false, &reals[k]);
    }
    if (status == NX_OK) status = prefix_of(trace, value, fakes, &graph);
    if (status == NX_OK) status = nx_graph_run(graph, reals, n, &result, 1);
    if (status == NX_OK) status = to_host(result, out);
    if (result) nx_tensor_unref(result);
    if (graph) nx_graph_free(graph);
    for (int k = 0; k < n; k++) nx_tensor_unref(reals[k]);
    nx_free(fakes);
    return status;
}

/* The same as no trace ran. */
static nx_status compute(nxpy_trace *trace, nx_value value, nx_tensor **out) {
    nx_thread *thread = nx_thread_get(), before = *thread;
    nx_generator_place place;
    nx_generator_mark(nx_generator_default(), &place);
    bool grad = nx_grad_enabled();
    thread->keys_included = trace->included_before & ~NX_KEY(AUTOCAST);
    thread->keys_excluded = 0;
    thread->tracer = NULL;
    thread->tell = NULL;
    thread->target = NULL;
    thread->keeps_lock = true;
    nx_grad_set_enabled(false);
    nx_status status = run_prefix(trace, value, out);
    nx_grad_set_enabled(grad);
    thread->keys_included = before.keys_included;
    thread->keys_excluded = before.keys_excluded;
    thread->tracer = before.tracer;
    thread->tell = before.tell;
    thread->target = before.target;
    thread->keeps_lock = before.keeps_lock;
    nx_generator_return(nx_generator_default(), &place);
    return status;
}

/* The value without its history, which the graph gives as a result. */
static nx_status without_history(nxpy_trace *trace, nx_tensor *fake, nx_value *value) {
    nx_thread *thread = nx_thread_get();
    const char *target = thread->target;
    nx_value in = nx_value_tensor(fake), out;
    if (!nx_tensor_requires_grad(fake)) return NX_OK;
    thread->target = NULL;
    nx_status status = nx_op_call(nx_op_get("aten::detach"), &in, &out);
    thread->target = target;
    if (status != NX_OK) return status;
    bool found = nx_tracer_find(&trace->tracer, out.tensor, value);
    nx_tensor_unref(out.tensor);
    return found ? NX_OK : nx_fail(NX_DATA, "detach: its result is not in the graph");
}

static nx_status none_there(const char *why) { return nx_fail(NX_DATA, "%s", why); }

void nxpy__told_drop(nxpy_told *told) {
    nx_tensor_unref(told->elements);
    Py_XDECREF(told->file);
}

nx_status nxpy__tell(nx_tensor *fake, nx_tensor **out) {
    nxpy_trace *trace = nxpy__doing.trace;
    nx_value value;
    bool known = trace && !trace->stop && nx_tracer_find(&trace->tracer, fake, &value);
    if (!known) return none_there("nothing in the graph stands for them");
    if (trace->owner->no_elements) return none_there("the graph is to hold whatever they are");
    for (int k = 0; k < trace->told.n; k++) {
        const nxpy_told *told = &trace->told.at[k];
        if (told->node != value.node || told->n != value.n) continue;
        *out = nx_tensor_ref(told->elements);
        return NX_OK;
    }
    if (fake->a.numel > MAX_ELEMENTS) return none_there("there are too many of them");
    if (!nxpy__leaves_nothing(trace)) return none_there("the graph writes what existed before");
    nxpy_told told = {.fresh = true, .line = trace->line};
    nx_status status = compute(trace, value, &told.elements);
    if (status == NX_NO_MEMORY) return status;
    if (status != NX_OK) { /* the program does the same uncompiled, with the error at its line */
        trace->point->fails = true;
        return none_there("what computes them fails");
    }
    status = without_history(trace, fake, &value);
    told.node = value.node;
    told.n = value.n;
    told.file = Py_XNewRef(trace->file);
    if (status == NX_OK) status = nx_vec_push(&trace->told, told);
    if (status != NX_OK) {
        nxpy__told_drop(&told);
        return status;
    }
    *out = nx_tensor_ref(told.elements);
    return NX_OK;
}

/* An operator whose result's size elements decide is recorded by its parts, which count with numbers. */
nx_status nxpy__fix_sizes(nx_tracer *tracer, nx_tensor *tensor) {
    for (int d = 0; d < tensor->a.ndim; d++) {
        if (nxpy_size_fix(tensor, NX_INT_SIZE, d, tensor->a.sizes[d]) < 0) return nxpy_caught();
    }
    return NX_OK;
}

/* Whether it has an operator; one that has none is not run, and gives nothing to compare. */
static bool computes(const nx_graph *graph) {
    const nx_node *node = graph->first;
    while (node && !node->op) node = node->next;
    return node != NULL;
}

/* ---- in a segment ---------------------------------------------------------------------------------------------------------- */
int nxpy__told_finish(nxpy_trace *trace, nxpy_results *results) {
    if (trace->told.n && !computes(trace->graph)) {
        nxpy__stop(trace, NXPY_BREAK_FUNCTION, "item: the elements of an argument, of which nothing is computed");
        PyErr_Clear();
        return 0;
    }
    if (trace->told.n && !nxpy__leaves_nothing(trace)) {
        nxpy__stop(trace, NXPY_BREAK_WRITE, "elements decide what it does, and it writes what existed before");
        PyErr_Clear();
        return 0;
    }
    for (int k = 0; k < trace->told.n; k++) {
        nxpy_told told = trace->told.at[k];
        nx_status status = nx_vec_push(&results->nodes, nx_value_node(told.node, told.n));
        told.node = NULL;
        told.n = results->nodes.n - 1;
        if (status == NX_OK) status = nx_vec_push(&trace->segment->told, told);
        if (status != NX_OK) return nxpy_raise(status), -1;
        nx_tensor_ref(told.elements);
        Py_XINCREF(told.file);
    }
    return 1;
}

/* Whether a run on the very tensors of the trace gave the same but for what another order of sums makes of it. */
static bool is_near(const nx_array *a, const nx_array *b) {
    double x, y;
    size_t bytes = (size_t)nx_dtype_bytes(a->dtype);
    double most = a->dtype == NX_F64 ? 1e-10 : a->dtype == NX_F32 ? 1e-4 : 2e-2;
    bool near = nx_is_float(a->dtype) && !nx_is_complex(a->dtype);
    for (int64_t k = 0; near && k < a->numel; k++) {
        nx_cast(NX_F64, (char *)&x, 0, a->dtype, (const char *)a->data + (size_t)k * bytes, 0, 1);
        nx_cast(NX_F64, (char *)&y, 0, b->dtype, (const char *)b->data + (size_t)k * bytes, 0, 1);
        near = fabs(x - y) <= most * (1 + fabs(y));
    }
    return near;
}

static bool holds(nxpy_told *told, PyObject *result) {
    nx_tensor *now = NULL;
    if (!nxpy_tensor_check(result) || to_host(nxpy_tensor_get(result), &now) != NX_OK) return false;
    const nx_array *a = &now->a, *b = &told->elements->a;
    bool alike = a->dtype == b->dtype && nx_same_size(a, b);
    bool same = alike && memcmp(a->data, b->data, (size_t)a->numel * (size_t)nx_dtype_bytes(a->dtype)) == 0;
    if (!same && alike && told->fresh && is_near(a, b)) { /* what this graph makes of these numbers from now on */
        nx_tensor *before = told->elements;
        told->elements = now;
        now = before;
        same = true;
    }
    told->fresh = false;
    nx_tensor_unref(now);
    return same;
}

bool nxpy__told_holds(nxpy_segment *segment, PyObject *const *results) {
    bool same = true;
    for (int k = 0; same && k < segment->told.n; k++) same = holds(&segment->told.at[k], results[segment->told.at[k].n]);
    return same;
}
