/* The graph of a segment as it runs: one compiled graph for each set of shapes.
 *
 * A graph whose sizes vary holds them as values (src/ir/ints.c). For the shapes of a call it is fitted: every size becomes a
 * number, the checks that the trace left are made, and what remains is compiled as any graph. A shape that was seen is found
 * again; one for which a check fails is refused, and the function is traced anew. A backend of the user's own gets the graph
 * with its sizes once and runs it for all shapes (`shares`); the checks are made all the same.
 * In: a segment and what its guards fetched. Out: the fit, the graph's results. Next: recipe.c. */
#include "capture/capture.h"

/* ---- one fit ------------------------------------------------------------------------------------------------------ */
static nxpy_fit *fit_new(const nxpy_segment *segment) {
    nxpy_fit *fit = nx_alloc_zeroed(sizeof *fit + sizeof *fit->key * (size_t)segment->n_key);
    int64_t *ints = nx_alloc_zeroed(sizeof *ints * (size_t)(segment->sizes.n + 1));
    if (!fit || !ints) {
        nx_free(fit);
        nx_free(ints);
        nxpy_raise(nx_fail_memory(sizeof *fit));
        return NULL;
    }
    fit->users = 1;
    fit->ints = ints;
    return fit;
}

void nxpy__fit_drop(nxpy_fit *fit) {
    if (--fit->users > 0) return;
    Py_XDECREF(fit->call);
    Py_XDECREF(fit->why);
    nx_free(fit->ints);
    nx_free(fit);
}

/* Walks the key of the shapes in `values`: writes it into `to`, or compares it where that is NULL. */
static bool walk_key(const nxpy_segment *segment, PyObject **values, int64_t *to, const int64_t *like) {
    for (int k = 0; k < segment->given.n; k++) {
        int64_t now = PyLong_AsLongLong(values[segment->given.at[k]]);
        if (to) *to++ = now;
        else if (*like++ != now) return false;
    }
    for (int k = 0; k < segment->n_varying; k++) {
        const nx_array *a = &nxpy_tensor_get(values[segment->varying[k]])->a;
        for (int d = 0; d < a->ndim; d++) {
            if (to) *to++ = a->sizes[d], *to++ = a->strides[d];
            else if (*like++ != a->sizes[d] || *like++ != a->strides[d]) return false;
        }
    }
    return true;
}

/* An int too large for a size. */
static bool is_too_large(const nxpy_segment *segment, PyObject **values) {
    int overflow = 0;
    for (int k = 0; k < segment->given.n && !overflow; k++) PyLong_AsLongLongAndOverflow(values[segment->given.at[k]], &overflow);
    return overflow != 0;
}

int nxpy__fit_find(nxpy_segment *segment, PyObject **values) {
    if (NX_UNLIKELY(is_too_large(segment, values))) return -1;
    for (int k = 0; k < segment->n_fits; k++) {
        nxpy_fit *fit = segment->fits[k];
        if (!walk_key(segment, values, NULL, fit->key)) continue;
        for (int j = k; j > 0; j--) segment->fits[j] = segment->fits[j - 1];
        segment->fits[0] = fit;
        return fit->refused ? -1 : 1;
    }
    return 0;
}

/* The newest takes the first place; the one that was not used for longest makes room. */
static void add_fit(nxpy_segment *segment, nxpy_fit *fit) {
    if (segment->n_fits == NXPY_MAX_FITS) nxpy__fit_drop(segment->fits[--segment->n_fits]);
    for (int k = segment->n_fits++; k > 0; k--) segment->fits[k] = segment->fits[k - 1];
    segment->fits[0] = fit;
}

/* ---- compiling ------------------------------------------------------------------------------------------------------ */
/* When what the backend returned is, or has as `_compiled`, one of our graphs, that is run without Python objects. Asked
 * after compiling and once more after the first run: torchair's object compiles then, and its logs belong there. */
static void find_compiled(nxpy_fit *fit) {
    bool is_one = Py_TYPE(fit->call) == &nxpy_compiled_type;
    PyObject *inner = is_one ? Py_NewRef(fit->call) : PyObject_GetAttrString(fit->call, "_compiled");
    if (inner && Py_TYPE(inner) == &nxpy_compiled_type) {
        fit->compiled = ((nxpy_compiled *)inner)->compiled;
        Py_SETREF(fit->call, inner);
        return;
    }
    nxpy_forget_error();
    Py_XDECREF(inner);
}


static int call_backend(nxpy_captured *owner, nxpy_fit *fit, PyObject *graph, PyObject *inputs) {
    PyObject *name = PyUnicode_FromFormat("__compiled_fn_%d", owner->n_graphs);
    if (!name) return -1;
    NXPY_LOG("graph", "{sOsO}", "graph", graph, "name", name);
    owner->n_graphs++;
    NXPY_LOG("call_backend", "{sOsO}", "backend", owner->backend, "name", name);
    fit->call = PyObject_CallFunctionObjArgs(owner->backend, graph, inputs, NULL);
    if (fit->call) {
        NXPY_LOG("backend_done", "{sOsO}", "backend", owner->backend, "name", name);
        find_compiled(fit);
        if (!fit->compiled && !PyCallable_Check(fit->call)) {
            PyErr_Format(PyExc_TypeError, "torch.compile: the backend returned %R, expected a callable", fit->call);
            Py_CLEAR(fit->call);
        }
    }
    Py_DECREF(name);
    return fit->call ? 0 : -1;
}

/* The graph with numbers for its sizes. 1: *out; 0: it does not hold for these inputs, fit->why says why; -1. */
static int fit_graph(const nxpy_segment *segment, nxpy_fit *fit, nx_tensor *const *inputs, PyObject **out) {
    nx_graph *graph;
    nx_status status = nx_graph_fit(((nxpy_graph *)segment->graph)->graph, inputs, segment->n_inputs, fit->key,
                                    segment->given.n, segment->sizes.at, segment->sizes.n, fit->ints, &graph);
    if (status == NX_NO_MEMORY) return nxpy_raise(status), -1;
    if (status != NX_OK) {
        fit->refused = true;
        fit->why = PyUnicode_FromString(nx_error_message());
        return fit->why ? 0 : -1;
    }
    *out = nxpy_graph_take(graph);
    return *out ? 1 : -1;
}

/* Fits the segment to inputs like these and compiles it. 1, 0 (refused), -1. */
static int compile(nxpy_captured *owner, nxpy_segment *segment, nxpy_fit *fit, PyObject *inputs) {
    int n = segment->n_inputs;
    nx_tensor *local[64], **tensors = n <= NX_COUNT(local) ? local : nx_alloc(sizeof *tensors * (size_t)n);
    PyObject *graph = NULL;
    if (!tensors) return nxpy_raise(nx_fail_memory(sizeof *tensors * (size_t)n)), -1;
    for (int k = 0; k < n; k++) tensors[k] = nxpy_tensor_get(PyList_GET_ITEM(inputs, k));
    int done = fit_graph(segment, fit, tensors, &graph);
    if (tensors != local) nx_free(tensors);
    if (done == 1 && owner->shares && segment->shared) fit->call = Py_NewRef(segment->shared);
    else if (done == 1) done = call_backend(owner, fit, owner->shares ? segment->graph : graph, inputs) < 0 ? -1 : 1;
    if (done == 1 && owner->shares && !segment->shared) segment->shared = Py_NewRef(fit->call);
    Py_XDECREF(graph);
    return done;
}

int nxpy__fit_first(nxpy_captured *owner, nxpy_segment *segment, PyObject *inputs) {
    nxpy_fit *fit = fit_new(segment);
    if (!fit) return -1;
    if (call_backend(owner, fit, segment->graph, inputs) < 0) {
        nxpy__fit_drop(fit);
        return -1;
    }
    add_fit(segment, fit);
    return 0;
}

/* Fakes of the values, as the backend's examples. */
static PyObject *fakes_of(const nxpy_segment *segment, PyObject **values) {
    PyObject *list = PyList_New(segment->n_inputs);
    for (int k = 0; list && k < segment->n_inputs; k++) {
        nx_tensor *fake;
        nx_status status = nxpy__fake_new(nxpy_tensor_get(values[segment->inputs[k]]), &fake);
        PyObject *object = status == NX_OK ? nxpy_tensor_take(fake) : nxpy_raise(status);
        if (object) PyList_SET_ITEM(list, k, object);
        else Py_CLEAR(list);
    }
    return list;
}

int nxpy__fit_make(nxpy_captured *owner, nxpy_segment *segment, PyObject **values) {
    PyObject *inputs = fakes_of(segment, values);
    nxpy_fit *fit = inputs ? fit_new(segment) : NULL;
    int done = -1;
    if (fit) {
        walk_key(segment, values, fit->key, NULL);
        done = compile(owner, segment, fit, inputs);
        if (done < 0) nxpy__fit_drop(fit);
        else add_fit(segment, fit);
    }
    Py_XDECREF(inputs);
    return done;
}

/* ---- running ------------------------------------------------------------------------------------------------------ */
static int run_compiled(const nxpy_segment *segment, nxpy_fit *fit, PyObject **values, PyObject **results) {
    nx_tensor *local_in[64], *local_out[16], **in = local_in, **out = local_out;
    int n_in = segment->n_inputs, n_out = segment->n_results, k;
    nx_status status = NX_OK;
    if (n_in > NX_COUNT(local_in) && !(in = nx_alloc(sizeof *in * (size_t)n_in))) status = nx_fail_memory(sizeof *in * (size_t)n_in);
    if (n_out > NX_COUNT(local_out) && !(out = nx_alloc(sizeof *out * (size_t)n_out))) status = nx_fail_memory(sizeof *out * (size_t)n_out);
    if (status == NX_OK) {
        for (k = 0; k < n_in; k++) in[k] = nxpy_tensor_get(values[segment->inputs[k]]);
        for (k = 0; k < n_out; k++) out[k] = NULL;
        status = nx_compiled_run(fit->compiled, in, n_in, out, n_out);
    }
    for (k = 0; status == NX_OK && k < n_out; k++) {
        if (!(results[k] = nxpy_tensor_take(out[k]))) {
            while (++k < n_out) nx_tensor_unref(out[k]);
            status = nxpy_caught();
            break;
        }
    }
    if (in != local_in) nx_free(in);
    if (out != local_out) nx_free(out);
    if (status != NX_OK) nxpy_raise(status);
    return status == NX_OK ? 0 : -1;
}

static int run_called(const nxpy_segment *segment, nxpy_fit *fit, PyObject **values, PyObject **results) {
    PyObject *args = PyTuple_New(segment->n_inputs), *returned = NULL, *fast = NULL;
    for (int k = 0; args && k < segment->n_inputs; k++) PyTuple_SET_ITEM(args, k, Py_NewRef(values[segment->inputs[k]]));
    if (args) returned = PyObject_Call(fit->call, args, NULL);
    Py_XDECREF(args);
    if (returned && nxpy_tensor_check(returned)) { /* one bare tensor is taken as well */
        fast = PyTuple_Pack(1, returned);
    } else if (returned) {
        fast = PySequence_Fast(returned, "torch.compile: the backend's function must return a tuple or list of tensors");
    }
    Py_XDECREF(returned);
    if (!fast) return -1;
    if (PySequence_Fast_GET_SIZE(fast) < segment->n_results) {
        PyErr_Format(PyExc_RuntimeError, "torch.compile: the backend's function returned %zd values, the graph has %d",
                     PySequence_Fast_GET_SIZE(fast), segment->n_results);
        Py_DECREF(fast);
        return -1;
    }
    for (int k = 0; k < segment->n_results; k++) results[k] = Py_NewRef(PySequence_Fast_GET_ITEM(fast, k));
    Py_DECREF(fast);
    return 0;
}

/* Whether a run that failed has changed nothing: ours copy what they write back at their end, but random numbers are drawn
 * on the way, and hooks of saved tensors are the program's own code, whose errors are its own. The program then does the
 * same uncompiled, with the error at its line and where its `except` is. */
static bool left_nothing(const nxpy_fit *fit) {
    bool error = PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError);
    if (nx_thread_get()->saved_hooks) return false;
    const nx_graph *graph = error && fit->compiled ? nx_compiled_aot(fit->compiled)->forward : NULL;
    for (const nx_node *node = graph ? graph->first : NULL; node; node = node->next) {
        if (node->op && (node->op->def->flags & NX_OP_RANDOM)) return false;
    }
    return graph != NULL;
}

int nxpy__fit_run(const nxpy_segment *segment, nxpy_fit *fit, PyObject **values, PyObject **results) {
    int done = fit->compiled ? run_compiled(segment, fit, values, results) : run_called(segment, fit, values, results);
    if (NX_UNLIKELY(!fit->compiled && !fit->called && done == 0)) {
        fit->called = true;
        find_compiled(fit);
    }
    for (int k = 0; done < 0 && k < segment->n_results; k++) Py_CLEAR(results[k]);
    return NX_UNLIKELY(done < 0) && left_nothing(fit) ? NXPY_UNDONE : done;
}
