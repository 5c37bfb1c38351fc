/* Graphs that Python runs: the forward and the backward of a compiled graph as callables (nx_runner), and recording what a
 * Python function calls as a graph. A callable gets a list of tensors when it says so (_boxed_call), else the tensors one by
 * one, and returns a sequence of tensors and None, or one tensor. */
#include "graphs/private.h"

typedef struct caller {
    PyObject *call;
    bool boxed;
    int n_inputs, n_results;
    int *input, *result;     /* the callable's input k is input[k] of the graph (-1: None); the graph's result i is its result[i] */
    int places[];
} caller;

static void end(void *context) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(((caller *)context)->call);
    nx_free(context);
    PyGILState_Release(state);
}

static PyObject *wrap_input(nx_tensor *const *inputs, int place) {
    nx_tensor *tensor = place < 0 ? NULL : inputs[place];
    return tensor ? nxpy_tensor_wrap(tensor) : Py_NewRef(Py_None);
}

static PyObject *call(const caller *c, nx_tensor *const *inputs) {
    PyObject *given = c->boxed ? PyList_New(c->n_inputs) : PyTuple_New(c->n_inputs);
    for (int k = 0; given && k < c->n_inputs; k++) {
        PyObject *item = wrap_input(inputs, c->input[k]);
        if (item == NULL) Py_CLEAR(given);
        else if (c->boxed) PyList_SET_ITEM(given, k, item);
        else PyTuple_SET_ITEM(given, k, item);
    }
    if (given == NULL) return NULL;
    PyObject *result = c->boxed ? PyObject_CallOneArg(c->call, given) : PyObject_CallObject(c->call, given);
    Py_DECREF(given);
    return result;
}

/* A result that is an input or stands twice becomes a tensor of its own over the same elements. */
static nx_status keep(nx_tensor *tensor, int i, nx_numbers *seen, nx_tensor **out) {
    int first = i;
    NX_TRY(nx_numbers_add(seen, tensor, i, &first));
    if (first != i) return nx_tensor_alias(tensor, out);
    *out = nx_tensor_ref(tensor);
    return NX_OK;
}

static nx_status keep_results(const caller *c, PyObject *const *items, Py_ssize_t n, nx_tensor *const *inputs, int n_inputs,
                              nx_tensor **out) {
    nx_numbers seen;
    nx_status status = NX_OK;
    nx_numbers_start(&seen);
    for (int i = 0; i < n_inputs && status == NX_OK; i++)
        if (inputs[i]) status = nx_numbers_add(&seen, inputs[i], -1 - i, NULL);
    for (int i = 0; i < c->n_results && status == NX_OK; i++) {
        PyObject *item = c->result[i] < n ? items[c->result[i]] : NULL;
        if (item == NULL) {
            status = nx_fail(NX_RUNTIME, "the compiled function returned %zd values, the graph returns more", n);
        } else if (nxpy_tensor_check(item)) {
            status = keep(nxpy_tensor_get(item), i, &seen, &out[i]);
        } else if (item != Py_None) {
            status = nx_fail(NX_TYPE, "the compiled function returned a %s where the graph returns a tensor",
                             Py_TYPE(item)->tp_name);
        }
    }
    nx_numbers_free(&seen);
    return status;
}

static nx_status run(void *context, nx_tensor *const *inputs, nx_tensor **out) {
    const caller *c = context;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = call(c, inputs), *one = NULL, *sequence = NULL;
    nx_status status = result ? NX_OK : nxpy_caught();
    if (result && nxpy_tensor_check(result)) one = result;
    else if (result && (sequence = PySequence_Fast(result, "the compiled function must return a tuple or a list")) == NULL)
        status = nxpy_caught();
    for (int i = 0; i < c->n_results; i++) out[i] = NULL;
    int n_inputs = 0;
    for (int k = 0; k < c->n_inputs; k++) n_inputs = c->input[k] >= n_inputs ? c->input[k] + 1 : n_inputs;
    if (status == NX_OK) {
        PyObject *const *items = one ? &one : PySequence_Fast_ITEMS(sequence);
        status = keep_results(c, items, one ? 1 : PySequence_Fast_GET_SIZE(sequence), inputs, n_inputs, out);
    }
    for (int i = 0; i < c->n_results && status != NX_OK; i++) {
        nx_tensor_unref(out[i]);
        out[i] = NULL;
    }
    Py_XDECREF(sequence);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return status;
}

/* ---- making ------------------------------------------------------------------------------------------------------------ */
static int read_places(PyObject *tuple, int n_below, int *out) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++) {
        long place = PyLong_AsLong(PyTuple_GET_ITEM(tuple, k));
        if (place == -1 && PyErr_Occurred()) return -1;
        if (place < -1 || place >= n_below) {
            PyErr_Format(PyExc_ValueError, "compile_with: there is no value %ld", place);
            return -1;
        }
        out[k] = (int)place;
    }
    return 0;
}

/* (callable, places of its inputs, places of the results); None: none. */
static int runner_from(PyObject *given, int n_inputs, int n_results, nx_runner *out) {
    PyObject *callable, *inputs, *results;
    if (given == Py_None) return 0;
    if (!PyArg_ParseTuple(given, "OO!O!", &callable, &PyTuple_Type, &inputs, &PyTuple_Type, &results)) return -1;
    if (PyTuple_GET_SIZE(results) != n_results) {
        PyErr_Format(PyExc_ValueError, "compile_with: %d results are needed", n_results);
        return -1;
    }
    size_t n = (size_t)(PyTuple_GET_SIZE(inputs) + n_results);
    caller *c = nx_alloc_zeroed(sizeof *c + sizeof *c->places * (n + 1));
    if (c == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    c->n_inputs = (int)PyTuple_GET_SIZE(inputs);
    c->n_results = n_results;
    c->input = c->places;
    c->result = c->places + c->n_inputs;
    PyObject *boxed = PyObject_GetAttrString(callable, "_boxed_call");
    if (boxed == NULL) PyErr_Clear();
    int is_boxed = boxed ? PyObject_IsTrue(boxed) : 0;
    Py_XDECREF(boxed);
    if (is_boxed < 0 || read_places(inputs, n_inputs, c->input) < 0 || read_places(results, INT_MAX, c->result) < 0) {
        nx_free(c);
        return -1;
    }
    c->boxed = is_boxed;
    c->call = Py_NewRef(callable);
    *out = (nx_runner){run, end, c};
    return 0;
}

int nxpy_runners_from(const nx_aot *aot, PyObject *forward, PyObject *backward, PyObject *saved, int *saved_input,
                      nx_runners *out) {
    int n_saved = (int)PyTuple_GET_SIZE(saved), n_before = aot->n_outputs + aot->n_mutated;
    *out = (nx_runners){.n_saved = n_saved, .saved_input = saved_input};
    if (read_places(saved, aot->n_inputs, saved_input) < 0) return -1;
    if (runner_from(forward, aot->n_inputs, n_before + n_saved, &out->forward) < 0) return -1;
    if (runner_from(backward, n_saved + aot->n_tangents, aot->n_inputs, &out->backward) == 0) return 0;
    if (out->forward.run) end(out->forward.context);
    return -1;
}

/* ---- recording --------------------------------------------------------------------------------------------------------- */
/* Calls function(*stand-ins) -> tensors, None among them. */
static nx_status record_call(nx_recording *recording, PyObject *function, int n, PyObject **out) {
    PyObject *args = PyTuple_New(n);
    for (int i = 0; args && i < n; i++) {
        PyObject *fake = nxpy_tensor_wrap(nx_recording_input(recording, i));
        if (fake) PyTuple_SET_ITEM(args, i, fake);
        else Py_CLEAR(args);
    }
    PyObject *result = args ? PyObject_CallObject(function, args) : NULL;
    Py_XDECREF(args);
    *out = result ? PySequence_Fast(result, "record: the function must return a sequence of tensors") : NULL;
    Py_XDECREF(result);
    return *out ? NX_OK : nxpy_caught();
}

static nx_status take_results(PyObject *sequence, nx_tensor **out) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(sequence, i);
        if (item != Py_None && !nxpy_tensor_check(item)) return nx_fail(NX_TYPE, "record: result %zd is not a tensor", i);
        out[i] = item == Py_None ? NULL : nxpy_tensor_get(item);
    }
    return NX_OK;
}

static nx_status record(PyObject *function, nx_tensor *const *like, const char *const *names, int n, nx_graph **out) {
    nx_recording *recording;
    PyObject *results = NULL;
    NX_TRY(nx_recording_begin(like, names, n, &recording));
    nx_status status = record_call(recording, function, n, &results);
    int n_results = results ? (int)PySequence_Fast_GET_SIZE(results) : 0;
    nx_tensor **tensors = nx_alloc(sizeof *tensors * (size_t)(n_results + 1));
    if (status == NX_OK && tensors == NULL) status = nx_fail_memory(sizeof *tensors * (size_t)n_results);
    if (status == NX_OK) status = take_results(results, tensors);
    if (status == NX_OK) status = nx_recording_end(recording, tensors, n_results, out);
    else nx_recording_free(recording);
    nx_free(tensors);
    Py_XDECREF(results);
    return status;
}

PyObject *nxpy_record(PyObject *module, PyObject *args) {
    PyObject *function, *tensors, *names;
    if (!PyArg_ParseTuple(args, "OO!O!:record", &function, &PyTuple_Type, &tensors, &PyTuple_Type, &names)) return NULL;
    int n = (int)PyTuple_GET_SIZE(tensors);
    if (PyTuple_GET_SIZE(names) != n) return PyErr_Format(PyExc_ValueError, "record: %d names are needed", n);
    nx_tensor **like = PyMem_Calloc((size_t)n + 1, sizeof *like + sizeof(char *));
    const char **texts = (const char **)(like + n + 1);
    nx_graph *graph = NULL;
    if (like == NULL) return PyErr_NoMemory();
    bool fits = nxpy_tensors_from("record", &PyTuple_GET_ITEM(tensors, 0), n, n, like) == 0;
    for (int i = 0; i < n && fits; i++) fits = (texts[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i))) != NULL;
    nx_status status = fits ? record(function, like, texts, n, &graph) : NX_OK;
    PyMem_Free(like);
    if (!fits) return NULL;
    return status == NX_OK ? nxpy_graph_take(graph) : nxpy_raise(status);
}

/* What is computed on this thread has no elements while this is on; returns what it was. */
PyObject *nxpy_set_fake(PyObject *module, PyObject *on) {
    nx_thread *thread = nx_thread_get();
    bool before = (thread->keys_included & NX_KEY(FAKE)) != 0;
    int wanted = PyObject_IsTrue(on);
    if (wanted < 0) return NULL;
    if (wanted) thread->keys_included |= NX_KEY(FAKE);
    else thread->keys_included &= ~NX_KEY(FAKE);
    return PyBool_FromLong(before);
}
