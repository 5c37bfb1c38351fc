/* Nodes of the backward graph whose gradients are computed by Python: what narthex.autograd.Function is made of.
 * Also what saved tensors go through (torch.autograd.graph), and anomaly mode.
 * A node holds a callable, call(node, *gradients), which returns one gradient or None for each edge, and the list of
 * what it saves, which is emptied when the graph is freed. Everything else (checks, contexts) is in
 * python/narthex/autograd/function.py. */
#include "autograd/autograd.h"

typedef struct function {
    nx_grad_class class;  /* of this node alone: it carries the name */
    PyObject *call, *saved;
    char name[];
} function;

static nx_status keep_gradients(PyObject *result, int n, nx_tensor **grads) {
    if (!PyTuple_Check(result) || PyTuple_GET_SIZE(result) != n)
        return nx_fail(NX_RUNTIME, "a node in Python must return a tuple of %d gradients", n);
    for (int e = 0; e < n; e++) {
        PyObject *item = PyTuple_GET_ITEM(result, e);
        if (item != Py_None && !nxpy_tensor_check(item))
            return nx_fail(NX_RUNTIME, "expected Variable or None (got %s)", Py_TYPE(item)->tp_name);
        grads[e] = item == Py_None ? NULL : nx_tensor_ref(nxpy_tensor_get(item));
    }
    return NX_OK;
}
static nx_status call_python(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    PyGILState_STATE state = PyGILState_Ensure();
    function *f = node->context;
    PyObject *args = PyTuple_New(node->n_inputs + 1), *result = NULL;
    PyObject *first = args ? nxpy_grad_node_object(node) : NULL;
    bool whole = first != NULL;
    if (first) PyTuple_SET_ITEM(args, 0, first);
    for (int k = 0; whole && k < node->n_inputs; k++) {
        PyObject *item = g[k] ? nxpy_tensor_wrap(g[k]) : Py_NewRef(Py_None);
        if (item) PyTuple_SET_ITEM(args, k + 1, item);
        else whole = false;
    }
    if (whole) result = PyObject_CallObject(f->call, args);
    nx_status status = result ? keep_gradients(result, node->n_edges, grads) : nxpy_caught();
    Py_XDECREF(result);
    Py_XDECREF(args);
    PyGILState_Release(state);
    return status;
}
static void empty_saved(nx_grad_node *node) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *saved = ((function *)node->context)->saved, *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyList_SetSlice(saved, 0, PyList_GET_SIZE(saved), NULL) < 0) PyErr_WriteUnraisable(saved);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}
static void end(nx_grad_node *node) {
    PyGILState_STATE state = PyGILState_Ensure();
    function *f = node->context;
    Py_XDECREF(f->saved);
    Py_DECREF(f->call);
    nx_free(f);
    PyGILState_Release(state);
}

int nxpy_visit_function(const nx_grad_node *node, const nxpy_visitor *visitor) {
    if (node->class->apply != call_python) return 0;
    const function *f = node->context;
    int result = visitor->visit(f->call, visitor->arg);
    return result || f->saved == NULL ? result : visitor->visit(f->saved, visitor->arg);
}

nx_status nxpy_function_node(PyObject *inputs, const char *name, PyObject *call, nx_grad_node **out) {
    size_t bytes = sizeof(function) + strlen(name) + 1;
    int n = (int)PyTuple_GET_SIZE(inputs);
    function *f = nx_alloc(bytes);
    if (f == NULL) return nx_fail_memory(bytes);
    strcpy(f->name, name);
    f->class = (nx_grad_class){f->name, call_python, NULL, end};
    f->saved = NULL;
    f->call = Py_NewRef(call);
    nx_status status = nx_grad_node_new(&f->class, 0, n, f, out);
    if (status != NX_OK) {
        Py_DECREF(call);
        nx_free(f);
        return status;
    }
    for (int e = 0; e < n && status == NX_OK; e++) {
        PyObject *item = PyTuple_GET_ITEM(inputs, e);
        if (nxpy_tensor_check(item)) status = nx_grad_edge(nx_tensor_whole(nxpy_tensor_get(item)), &(*out)->edges[e]);
    }
    if (status != NX_OK) nx_grad_node_unref(*out);
    return status;
}
static PyObject *function_node(PyObject *module, PyObject *args) {
    PyObject *inputs, *call;
    const char *name;
    nx_grad_node *node;
    if (!PyArg_ParseTuple(args, "sO!O:function_node", &name, &PyTuple_Type, &inputs, &call)) return NULL;
    NXPY_TRY(nxpy_function_node(inputs, name, call, &node));
    PyObject *object = nxpy_grad_node_object(node);
    nx_grad_node_unref(node);
    return object;
}

/* The node of an argument of the functions below: one that function_node made. */
static nx_grad_node *own_node(PyObject *object) {
    nx_grad_node *node = PyObject_TypeCheck(object, &nxpy_grad_node_type) ? nxpy_grad_node_get(object) : NULL;
    if (node && node->class->apply == call_python) return node;
    PyErr_SetString(PyExc_TypeError, "expected a node that function_node made");
    return NULL;
}
void nxpy_function_keep(nx_grad_node *node, PyObject *saved) {
    function *f = node->context;
    Py_XSETREF(f->saved, Py_NewRef(saved));
    f->class.release = empty_saved;
}
static PyObject *function_saves(PyObject *module, PyObject *args) {
    PyObject *object, *saved;
    if (!PyArg_ParseTuple(args, "OO!:function_saves", &object, &PyList_Type, &saved)) return NULL;
    nx_grad_node *node = own_node(object);
    if (node == NULL) return NULL;
    nxpy_function_keep(node, saved);
    Py_RETURN_NONE;
}
nx_status nxpy_function_tie(PyObject *tensor, nx_grad_node *node, int output, bool written) {
    nx_tensor *whole = nx_tensor_whole(nxpy_tensor_get(tensor));
    if (output >= node->n_inputs) node->n_inputs = output + 1;
    NX_TRY(written ? nx_grad_set_written(whole, node, output) : nx_grad_set_node(whole, node, output));
    nxpy_tensor_track(tensor);
    return NX_OK;
}
static PyObject *function_result(PyObject *module, PyObject *args) {
    PyObject *tensor, *object;
    int output, written;
    if (!PyArg_ParseTuple(args, "O!Oip:function_result", &nxpy_tensor_type, &tensor, &object, &output, &written))
        return NULL;
    nx_grad_node *node = own_node(object);
    if (node == NULL) return NULL;
    NXPY_TRY(nxpy_function_tie(tensor, node, output, written));
    Py_RETURN_NONE;
}
nx_status nxpy_check_saved(PyObject *tensor, uint32_t expected, nx_grad_node *node, int output) {
    nx_tensor *saved = nx_tensor_whole(nxpy_tensor_get(tensor));
    if (node == NULL && saved->autograd) {
        node = saved->autograd->node;
        output = saved->autograd->output;
    }
    return nx_grad_check_version(saved, expected, node, output);
}
static PyObject *check_version(PyObject *module, PyObject *args) {
    PyObject *tensor, *object;
    unsigned expected;
    int output;
    if (!PyArg_ParseTuple(args, "O!IOi:check_version", &nxpy_tensor_type, &tensor, &expected, &object, &output))
        return NULL;
    nx_grad_node *node = NULL;
    if (object != Py_None && (node = own_node(object)) == NULL) return NULL;
    NXPY_TRY(nxpy_check_saved(tensor, expected, node, output));
    Py_RETURN_NONE;
}
/* ---- saved tensors through hooks: the thread has a tuple (pack, unpack) -------------------------------------------------- */
typedef struct packed {
    nx_packed base;
    PyObject *unpack, *value;
} packed;

static nx_status fail_unpacked(const PyObject *result) {
    PyErr_Format(PyExc_TypeError, "Output of saved tensor unpack_hook expected to be a Tensor but got result of type %s",
                 Py_TYPE(result)->tp_name);
    return nxpy_caught();
}
static nx_status unpack_value(nx_packed *base, nx_tensor **out) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallOneArg(((packed *)base)->unpack, ((packed *)base)->value);
    nx_status status = NX_OK;
    if (result == NULL) status = nxpy_caught();
    else if (!nxpy_tensor_check(result)) status = fail_unpacked(result);
    else *out = nx_tensor_ref(nxpy_tensor_get(result));
    Py_XDECREF(result);
    PyGILState_Release(state);
    return status;
}
static void free_value(nx_packed *base) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(((packed *)base)->unpack);
    Py_DECREF(((packed *)base)->value);
    nx_free(base);
    PyGILState_Release(state);
}
static nx_status call_pack(PyObject *pack, nx_tensor *tensor, PyObject **out) {
    uint32_t version = nx_tensor_version(tensor);
    PyObject *object = nxpy_tensor_wrap(tensor);
    *out = object ? PyObject_CallOneArg(pack, object) : NULL;
    Py_XDECREF(object);
    if (*out && nx_tensor_version(tensor) != version) {
        Py_CLEAR(*out);
        PyErr_SetString(PyExc_RuntimeError,
                        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                        "cannot be modified by in-place operations as this can lead to unexpected side-effects. Please open an "
                        "issue if you need to perform in-place operations on the input to a pack hook.");
    }
    return *out ? NX_OK : nxpy_caught();
}
static nx_status pack_value(void *hooks, nx_tensor *tensor, nx_packed **out) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *pair = Py_NewRef(hooks), *value = NULL;
    bool recorded = nx_grad_enabled();
    nx_grad_set_enabled(false);
    nx_status status = call_pack(PyTuple_GET_ITEM(pair, 0), tensor, &value);
    nx_grad_set_enabled(recorded);
    packed *made = status == NX_OK ? nx_alloc(sizeof *made) : NULL;
    if (made) *made = (packed){{unpack_value, free_value}, Py_NewRef(PyTuple_GET_ITEM(pair, 1)), value};
    else if (status == NX_OK) status = nx_fail_memory(sizeof *made);
    if (made == NULL) Py_XDECREF(value);
    *out = made ? &made->base : NULL;
    Py_DECREF(pair);
    PyGILState_Release(state);
    return status;
}
static PyObject *swap_saved_hooks(PyObject *module, PyObject *hooks) {
    nx_thread *thread = nx_thread_get();
    if (hooks != Py_None && !(PyTuple_Check(hooks) && PyTuple_GET_SIZE(hooks) == 2))
        return PyErr_Format(PyExc_TypeError, "swap_saved_hooks: expected (pack, unpack) or None");
    PyObject *before = thread->saved_hooks ? thread->saved_hooks : Py_NewRef(Py_None);
    thread->saved_hooks = hooks == Py_None ? NULL : Py_NewRef(hooks);
    return before;
}
static void free_saved(PyObject *capsule) { nx_saved_free(PyCapsule_GetPointer(capsule, "saved")); }
static PyObject *save_packed(PyObject *module, PyObject *args) {
    PyObject *tensor, *capsule;
    int is_result;
    nx_saved *saved;
    if (!PyArg_ParseTuple(args, "O!p:save_packed", &nxpy_tensor_type, &tensor, &is_result)) return NULL;
    NXPY_TRY(nx_saved_new(nxpy_tensor_get(tensor), is_result, &saved));
    if (saved == NULL) Py_RETURN_NONE;
    if ((capsule = PyCapsule_New(saved, "saved", free_saved)) == NULL) nx_saved_free(saved);
    return capsule;
}
static PyObject *take_packed(PyObject *module, PyObject *capsule) {
    const nx_saved *saved = PyCapsule_GetPointer(capsule, "saved");
    nx_tensor *tensor;
    if (saved == NULL) return NULL;
    NXPY_TRY(nx_saved_take(saved, &tensor));
    return nxpy_tensor_take(tensor);
}
static PyObject *saved_hooks(PyObject *module, PyObject *unused) {
    void *hooks = nx_thread_get()->saved_hooks;
    return Py_NewRef(hooks ? hooks : Py_None);
}
static PyObject *grad_run(PyObject *module, PyObject *unused) {
    const nx_thread *thread = nx_thread_get();
    return Py_BuildValue("KN", (unsigned long long)thread->grad_run, PyBool_FromLong(thread->grad_run_chosen));
}
/* ---- anomaly mode: narthex.autograd.anomaly_mode does what is to be done -------------------------------------------------- */
static PyObject *anomaly_call(const char *name, PyObject *args) {
    PyObject *module = args ? PyImport_ImportModule("narthex.autograd.anomaly_mode") : NULL;
    PyObject *function = module ? PyObject_GetAttrString(module, name) : NULL;
    PyObject *result = function ? PyObject_CallObject(function, args) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(module);
    Py_XDECREF(args);
    return result;
}
static void *anomaly_note(void) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *note = anomaly_call("_note", PyTuple_New(0));
    if (note == NULL) PyErr_Clear(); /* the node goes without */
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
    return note;
}
static void anomaly_free(void *note) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)note);
    PyGILState_Release(state);
}
static PyObject *gradients_object(nx_tensor *const *grads, int n) {
    PyObject *tuple = PyTuple_New(n);
    for (int e = 0; tuple && e < n; e++) {
        PyObject *item = grads[e] ? nxpy_tensor_wrap(grads[e]) : Py_NewRef(Py_None);
        if (item) PyTuple_SET_ITEM(tuple, e, item);
        else Py_CLEAR(tuple);
    }
    return tuple;
}
static nx_status anomaly_check(const char *name, void *note, nx_tensor *const *grads, int n) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *given = grads ? gradients_object(grads, n) : Py_NewRef(Py_None);
    PyObject *args = given ? Py_BuildValue("sON", name, note ? (PyObject *)note : Py_None, given) : NULL;
    PyObject *result = anomaly_call("_check", args);
    nx_status status = NX_OK;
    if (type) PyErr_Restore(type, value, trace);
    else if (result == NULL && grads) status = nxpy_caught();
    else if (result == NULL) PyErr_Clear();
    Py_XDECREF(result);
    PyGILState_Release(state);
    return status;
}
static PyObject *set_anomaly(PyObject *module, PyObject *on) {
    int truth = PyObject_IsTrue(on);
    if (truth < 0) return NULL;
    bool before = nx_thread_get()->anomaly;
    nx_thread_get()->anomaly = truth;
    return PyBool_FromLong(before);
}
static PyMethodDef functions[] = {
    {"set_anomaly", set_anomaly, METH_O, "set_anomaly(on): anomaly mode of this thread; what it was before."},
    {"swap_saved_hooks", swap_saved_hooks, METH_O, "swap_saved_hooks(hooks): what this thread's saved tensors go through now."},
    {"saved_hooks", saved_hooks, METH_NOARGS, "(pack, unpack) of this thread, or None."},
    {"save_packed", save_packed, METH_VARARGS, "save_packed(tensor, is_result): what take_packed wants; None without hooks."},
    {"take_packed", take_packed, METH_O, "take_packed(saved): the tensor, unpacked."},
    {"grad_run", grad_run, METH_NOARGS, "(number of the backward that runs, 0: none; whether it was asked for inputs)."},
    {"function_node", function_node, METH_VARARGS,
     "function_node(name, inputs, call): a node whose gradients call(node, *gradients) computes."},
    {"function_saves", function_saves, METH_VARARGS,
     "function_saves(node, saved): the list is emptied when the graph is freed."},
    {"function_result", function_result, METH_VARARGS,
     "function_result(tensor, node, output, written): the tensor is that result; written: in place."},
    {"check_version", check_version, METH_VARARGS,
     "check_version(saved, expected, node, output): raises when the tensor has been written since."},
    {NULL}};

int nxpy_add_function(PyObject *module) {
    nx_grad_pack = pack_value;
    nx_anomaly_note = anomaly_note;
    nx_anomaly_check = anomaly_check;
    nx_anomaly_free = anomaly_free;
    return nxpy_add_apply(module) < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
