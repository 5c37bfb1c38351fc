/* narthex._C.Aot: the functional graphs of a captured one. narthex._C.CompiledGraph: a forward with its
 * backward, called with tensors. Capture calls the nx_compiled inside directly, after its guards; a call
 * from Python checks its arguments. */
#include "graphs/private.h"

#include <structmember.h>

/* ---- Aot ---------------------------------------------------------------------------------------------- */
/* A compiled graph takes the nx_aot; the graphs are then looked at there. A second compile() starts from the
 * source. */
typedef struct aot_object {
    PyObject_HEAD
    nxpy_graph *source;
    bool grad_mode;
    nx_aot *aot;            /* NULL once a compiled graph has it */
    nx_compiled *compiled;  /* then this has it */
} aot_object;
static PyTypeObject aot_type;

static nx_status fill_aot(aot_object *self) {
    if (self->aot || self->compiled) return NX_OK;
    return nx_aot_compile(self->source->graph, self->grad_mode, &self->aot);
}

PyObject *nxpy_aot_new(nxpy_graph *source, bool grad_mode) {
    aot_object *self = PyObject_New(aot_object, &aot_type);
    if (self == NULL) return NULL;
    self->source = (nxpy_graph *)Py_NewRef((PyObject *)source);
    self->grad_mode = grad_mode;
    self->aot = NULL;
    self->compiled = NULL;
    nx_status status = fill_aot(self);
    if (status == NX_OK) return (PyObject *)self;
    Py_DECREF(self);
    return nxpy_raise(status);
}

static void aot_dealloc(PyObject *o) {
    aot_object *self = (aot_object *)o;
    if (self->aot) nx_aot_free(self->aot);
    nx_compiled_unref(self->compiled);
    Py_DECREF(self->source);
    PyObject_Free(o);
}

enum { JOINT, FORWARD, BACKWARD };
static PyObject *aot_graph(PyObject *o, void *which) {
    aot_object *self = (aot_object *)o;
    NXPY_TRY(fill_aot(self));
    const nx_aot *aot = self->compiled ? nx_compiled_aot(self->compiled) : self->aot;
    const nx_graph *graphs[] = {aot->joint, aot->forward, aot->backward};
    const nx_graph *graph = graphs[(intptr_t)which];
    nx_graph *copy;
    if (graph == NULL) Py_RETURN_NONE;
    NXPY_TRY(nx_graph_copy(graph, &copy));
    return nxpy_graph_take(copy);
}

static int mode_from(const char *name, nx_mode *out) {
    static const char *const names[] = {
        [NX_MODE_EAGER] = "eager", [NX_MODE_REDUCE_OVERHEAD] = "reduce-overhead",
        [NX_MODE_MAX_AUTOTUNE] = "max-autotune"};
    for (int i = 0; i < NX_COUNT(names); i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (nx_mode)i;
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "compile: mode '%s' is unknown: expected eager, reduce-overhead or "
                 "max-autotune", name);
    return -1;
}

/* The first input on an accelerator decides, else the CPU. */
static nx_device usual_device(const nx_graph *graph) {
    for (const nx_node *node = graph->first; node; node = node->next) {
        const nx_tensor *fake = node->kind == NX_NODE_PLACEHOLDER ? node->fakes[0] : NULL;
        if (fake && fake->a.device.type != 0) return fake->a.device;
    }
    return NX_CPU;
}

static PyObject *compiled_take(nx_compiled *compiled);

static PyObject *aot_compile(PyObject *o, PyObject *args, PyObject *keywords) {
    static char *names[] = {"mode", "device", "measure", NULL};
    aot_object *self = (aot_object *)o;
    const char *mode_name;
    PyObject *where = Py_None;
    int measure = 0;
    nx_mode mode;
    nx_compiled *compiled;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|Op:compile", names, &mode_name, &where, &measure)) return NULL;
    if (mode_from(mode_name, &mode) < 0) return NULL;
    nx_device device = usual_device(self->source->graph);
    if (where != Py_None && nxpy_device_from(where, &device) < 0) return NULL;
    nx_compiled_unref(self->compiled);
    self->compiled = NULL;
    NXPY_TRY(fill_aot(self));
    nx_aot *taken = self->aot;
    self->aot = NULL;
    NXPY_TRY(nx_compiled_new(taken, mode, device, &compiled));
    nx_status status = measure ? nx_compiled_measure(compiled) : NX_OK;
    if (status != NX_OK) {
        nx_compiled_unref(compiled);
        return nxpy_raise(status);
    }
    nx_compiled_ref(compiled);
    self->compiled = compiled;
    return compiled_take(compiled);
}

/* compile_with(forward, backward, saved): run by Python, each as (callable, places of inputs, places of results). */
static PyObject *aot_compile_with(PyObject *o, PyObject *args) {
    aot_object *self = (aot_object *)o;
    PyObject *forward, *backward, *saved;
    nx_runners runners;
    nx_compiled *compiled;
    if (!PyArg_ParseTuple(args, "OOO!:compile_with", &forward, &backward, &PyTuple_Type, &saved)) return NULL;
    nx_compiled_unref(self->compiled);
    self->compiled = NULL;
    NXPY_TRY(fill_aot(self));
    int *saved_input = PyMem_Calloc((size_t)PyTuple_GET_SIZE(saved) + 1, sizeof *saved_input);
    if (saved_input == NULL) return PyErr_NoMemory();
    if (nxpy_runners_from(self->aot, forward, backward, saved, saved_input, &runners) < 0) {
        PyMem_Free(saved_input);
        return NULL;
    }
    nx_aot *taken = self->aot;
    self->aot = NULL;
    nx_status status = nx_compiled_new_run(taken, &runners, &compiled);
    PyMem_Free(saved_input);
    NXPY_TRY(status);
    nx_compiled_ref(compiled);
    self->compiled = compiled;
    return compiled_take(compiled);
}

/* What a caller in Python must know of the graphs: PyTorch orders their results in another way. */
static PyObject *aot_about(PyObject *o, void *unused) {
    aot_object *self = (aot_object *)o;
    NXPY_TRY(fill_aot(self));
    const nx_aot *aot = self->compiled ? nx_compiled_aot(self->compiled) : self->aot;
    PyObject *mutated = PyTuple_New(aot->n_mutated), *grads = PyTuple_New(aot->n_inputs);
    PyObject *wanted = PyTuple_New(aot->n_outputs + aot->n_mutated);
    for (int i = 0; mutated && grads && wanted && i < aot->n_mutated; i++)
        PyTuple_SET_ITEM(mutated, i, PyLong_FromLong(aot->mutated[i]));
    for (int i = 0; mutated && grads && wanted && i < aot->n_inputs; i++)
        PyTuple_SET_ITEM(grads, i, PyLong_FromLong(aot->grad_of[i]));
    for (int i = 0; mutated && grads && wanted && i < aot->n_outputs + aot->n_mutated; i++)
        PyTuple_SET_ITEM(wanted, i, PyBool_FromLong(aot->output_requires_grad[i]));
    if (mutated == NULL || grads == NULL || wanted == NULL || PyErr_Occurred()) {
        Py_XDECREF(mutated);
        Py_XDECREF(grads);
        Py_XDECREF(wanted);
        return NULL;
    }
    return Py_BuildValue("(iNNNi)", aot->n_outputs, mutated, grads, wanted, aot->n_saved);
}

static PyMethodDef aot_methods[] = {
    {"compile_with", aot_compile_with, METH_VARARGS,
     "compile_with(forward, backward, saved): a CompiledGraph that Python runs, each graph as (callable, places of its inputs "
     "among the graph's, places of the graph's results among its); saved: for each value, the input that it is, or -1."},
    {"compile", (PyCFunction)(void (*)(void))aot_compile, METH_VARARGS | METH_KEYWORDS,
     "compile(mode, device=None, measure=False): a CompiledGraph. mode: eager, reduce-overhead or max-autotune; measure: the engine's "
     "choices are timed, and the quickest kept."},
    {NULL}};
static PyGetSetDef aot_getset[] = {
    {"about", aot_about, NULL, "(n_outputs, written inputs, place of each input's gradient or -1, which of outputs and written "
     "inputs have a tangent, n_saved).", NULL},
    {"joint", aot_graph, NULL, "Forward and backward in one Graph, or None.", (void *)JOINT},
    {"forward", aot_graph, NULL, "The forward Graph.", (void *)FORWARD},
    {"backward", aot_graph, NULL, "The backward Graph, or None.", (void *)BACKWARD},
    {NULL}};
static PyTypeObject aot_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "narthex._C.Aot", .tp_basicsize = sizeof(aot_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = aot_dealloc, .tp_methods = aot_methods, .tp_getset = aot_getset,
    .tp_doc = "The functional graphs of a captured one."};

/* ---- CompiledGraph ------------------------------------------------------------------------------------ */
static nx_compiled *get_compiled(PyObject *self) { return ((nxpy_compiled *)self)->compiled; }

static int check_input(const nx_array *given, const nx_array *expected, int i) {
    bool fits = given->dtype == expected->dtype && given->ndim == expected->ndim &&
        nx_device_same(given->device, expected->device);
    for (int d = 0; d < expected->ndim && fits; d++) {
        fits = given->sizes[d] == expected->sizes[d] &&
            (given->sizes[d] <= 1 || given->strides[d] == expected->strides[d]);
    }
    if (fits) return 0;
    nx_text text = {0};
    const nx_array *both[] = {given, expected};
    for (int k = 0; k < 2; k++) {
        nx_text_add(&text, "%s", k ? ", the graph was compiled for " : "is ");
        nx_text_add(&text, "%s", nx_dtype_brief((nx_dtype)both[k]->dtype));
        nx_text_add_ints(&text, both[k]->sizes, both[k]->ndim);
        nx_text_add(&text, " with strides ");
        nx_text_add_ints(&text, both[k]->strides, both[k]->ndim);
        nx_text_add(&text, " on %s:%d", nx_device_type_name(both[k]->device.type), both[k]->device.index);
    }
    PyErr_Format(PyExc_RuntimeError, "CompiledGraph: input %d %s", i,
                 text.failed ? "does not fit the graph" : text.at);
    nx_text_free(&text);
    return -1;
}

static int check_inputs(const nx_compiled *compiled, nx_tensor *const *inputs, int n) {
    const nx_node *node = nx_compiled_aot(compiled)->forward->first;
    for (int i = 0; i < n && node; node = node->next) {
        if (node->kind != NX_NODE_PLACEHOLDER) continue;
        if (node->fakes[0] && check_input(&inputs[i]->a, &node->fakes[0]->a, i) < 0) return -1;
        i++;
    }
    return 0;
}

static PyObject *compiled_call(PyObject *self, PyObject *const *given, size_t flags, PyObject *keywords) {
    nx_compiled *compiled = get_compiled(self);
    const nx_aot *aot = nx_compiled_aot(compiled);
    nx_tensor *few[32], **room = few;
    int n = (int)PyVectorcall_NARGS(flags), n_out = aot->n_outputs;
    if (keywords && PyTuple_GET_SIZE(keywords))
        return PyErr_Format(PyExc_TypeError, "CompiledGraph: takes no keyword arguments");
    if (n + n_out > NX_COUNT(few) && (room = PyMem_Calloc((size_t)(n + n_out), sizeof *room)) == NULL)
        return PyErr_NoMemory();
    PyObject *result = NULL;
    if (nxpy_tensors_from("CompiledGraph", given, n, aot->n_inputs, room) == 0 &&
        check_inputs(compiled, room, n) == 0) {
        nx_status status = nx_compiled_run(compiled, room, n, room + n, n_out);
        result = status == NX_OK ? nxpy_tensors_take(room + n, n_out) : nxpy_raise(status);
    }
    if (room != few) PyMem_Free(room);
    return result;
}

static PyObject *compiled_take(nx_compiled *compiled) { /* takes it, also on failure */
    nxpy_compiled *o = PyObject_New(nxpy_compiled, &nxpy_compiled_type);
    if (o == NULL) {
        nx_compiled_unref(compiled);
        return NULL;
    }
    o->compiled = compiled;
    o->attributes = NULL;
    o->call = compiled_call;
    return (PyObject *)o;
}

static PyObject *compiled_n_launches(PyObject *self, void *unused) {
    return PyLong_FromLong(nx_compiled_n_launches(get_compiled(self)));
}

static PyObject *compiled_plan(PyObject *self, PyObject *unused) {
    char *text;
    NXPY_TRY(nx_compiled_print(get_compiled(self), &text));
    PyObject *o = PyUnicode_FromString(text);
    nx_free(text);
    return o;
}

static PyObject *compiled_measured(PyObject *self, PyObject *unused) {
    char *text;
    NXPY_TRY(nx_compiled_report(get_compiled(self), &text));
    PyObject *o = PyUnicode_FromString(text);
    nx_free(text);
    return o;
}

static PyObject *compiled_print(PyObject *self, PyObject *unused) {
    PyObject *text = compiled_plan(self, NULL);
    if (text == NULL) return NULL;
    PyObject *builtins = PyEval_GetBuiltins(), *print = PyDict_GetItemString(builtins, "print");
    PyObject *done = print ? PyObject_CallOneArg(print, text)
        : PyErr_Format(PyExc_RuntimeError, "there is no print()");
    Py_DECREF(text);
    return done;
}

static void compiled_dealloc(PyObject *self) {
    Py_CLEAR(((nxpy_compiled *)self)->attributes);
    nx_compiled_unref(get_compiled(self));
    PyObject_Free(self);
}
static PyMethodDef compiled_methods[] = {
    {"plan", compiled_plan, METH_NOARGS, "Steps and memory of the forward, as text."},
    {"measured", compiled_measured, METH_NOARGS, "What was measured, a line a step with its part of the roofline; empty: nothing was."},
    {"print", compiled_print, METH_NOARGS, "Prints plan()."},
    {NULL}};
static PyGetSetDef compiled_getset[] = {
    {"n_launches", compiled_n_launches, NULL, "Kernels that one forward launches.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL}};
PyTypeObject nxpy_compiled_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "narthex._C.CompiledGraph",
    .tp_basicsize = sizeof(nxpy_compiled),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, .tp_dealloc = compiled_dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(nxpy_compiled, call),
    .tp_dictoffset = offsetof(nxpy_compiled, attributes),
    .tp_methods = compiled_methods, .tp_getset = compiled_getset,
    .tp_doc = "A compiled graph with its backward. Called with tensors, returns a tuple of tensors."};

int nxpy_add_compiled(PyObject *module) {
    if (PyType_Ready(&aot_type) < 0 || PyType_Ready(&nxpy_compiled_type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "Aot", (PyObject *)&aot_type) < 0) return -1;
    return PyModule_AddObjectRef(module, "CompiledGraph", (PyObject *)&nxpy_compiled_type);
}
