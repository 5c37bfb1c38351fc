/* Hooks: functions of Python that a backward calls, a dict of them for each tensor or node and kind, in the order of their
 * registration. Each sees what the one before has put in the place of a gradient. */
#include "autograd/autograd.h"

/* ---- what a hook may return --------------------------------------------------------------------------------------------- */
static nx_status fail_hook(PyObject *function, const char *form, PyObject *first, PyObject *second) {
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    if (name == NULL) PyErr_Clear();
    if (name == NULL) name = PyUnicode_FromString("<unknown>");
    if (name) PyErr_Format(PyExc_RuntimeError, form, name, first, second);
    Py_XDECREF(name);
    return nxpy_caught();
}
static nx_status fail_type(PyObject *function, nx_tensor *before, nx_tensor *now) {
    PyObject *objects[2] = {nxpy_tensor_wrap(before), nxpy_tensor_wrap(now)}, *types[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) types[k] = objects[k] ? PyObject_CallMethod(objects[k], "type", NULL) : NULL;
    nx_status status = types[0] && types[1]
                           ? fail_hook(function, "hook '%S' has changed the type of value (was %S got %S)", types[0], types[1])
                           : nxpy_caught();
    for (int k = 0; k < 2; k++) {
        Py_XDECREF(objects[k]);
        Py_XDECREF(types[k]);
    }
    return status;
}
/* `result` goes in the place of *g. */
static nx_status replace_gradient(PyObject *function, PyObject *result, nx_tensor **g) {
    nx_tensor *made = NULL;
    if (result != Py_None && *g == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "can't replace a None gradient with a non-None value");
        return nxpy_caught();
    }
    if (result != Py_None) {
        if (!nxpy_tensor_check(result)) {
            PyErr_Format(PyExc_TypeError, "expected Variable, but hook returned '%s'", Py_TYPE(result)->tp_name);
            return nxpy_caught();
        }
        made = nxpy_tensor_get(result);
        if (made->a.dtype != (*g)->a.dtype) return fail_type(function, *g, made);
        if (!nx_same_size(&made->a, &(*g)->a)) return fail_hook(function, "hook '%S' has changed the size of value", NULL, NULL);
        nx_tensor_ref(made);
    }
    nx_tensor_unref(*g);
    *g = made;
    return NX_OK;
}
static nx_status replace_all(PyObject *function, PyObject *result, nx_tensor **g, int n) {
    if (!PyTuple_Check(result)) {
        PyErr_Format(PyExc_TypeError, "expected tuple, but hook returned '%s'", Py_TYPE(result)->tp_name);
        return nxpy_caught();
    }
    if (PyTuple_GET_SIZE(result) != n) {
        PyObject *counts[2] = {PyLong_FromSsize_t(PyTuple_GET_SIZE(result)), PyLong_FromLong(n)};
        nx_status status = counts[0] && counts[1] ? fail_hook(function, "hook '%S' has returned an incorrect number of values "
                                                              "(got %S, but expected %S)", counts[0], counts[1])
                                                  : nxpy_caught();
        Py_XDECREF(counts[0]);
        Py_XDECREF(counts[1]);
        return status;
    }
    for (int k = 0; k < n; k++) NX_TRY(replace_gradient(function, PyTuple_GET_ITEM(result, k), &g[k]));
    return NX_OK;
}

/* ---- calls -------------------------------------------------------------------------------------------------------------- */
static PyObject *tuple_of(nx_tensor *const *tensors, int n) {
    PyObject *tuple = PyTuple_New(n);
    for (int k = 0; tuple && k < n; k++) {
        PyObject *item = tensors[k] ? nxpy_tensor_wrap(tensors[k]) : Py_NewRef(Py_None);
        if (item) PyTuple_SET_ITEM(tuple, k, item);
        else Py_CLEAR(tuple);
    }
    return tuple;
}
static PyObject *call_one(const nx_grad_hook *hook, PyObject *function, nx_tensor **values, int n, nx_tensor *const *arrived,
                          int n_arrived) {
    bool of_node = hook->kind == NX_HOOK_BEFORE || hook->kind == NX_HOOK_AFTER;
    PyObject *first = of_node ? tuple_of(values, n) : nxpy_tensor_wrap(values[0]);
    PyObject *second = hook->kind == NX_HOOK_AFTER ? tuple_of(arrived, n_arrived) : NULL, *result = NULL;
    bool follows = first && !of_node && nx_tensor_is_fake(values[0]) && nxpy_call_hook;
    if (follows) result = nxpy_call_hook(function, first);
    else if (first && (second || hook->kind != NX_HOOK_AFTER)) result = PyObject_CallFunctionObjArgs(function, first, second, NULL);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return result;
}
static nx_status take_result(const nx_grad_hook *hook, PyObject *function, PyObject *result, nx_tensor **values, int n) {
    if (result == Py_None) return NX_OK;
    if (hook->kind == NX_HOOK_GRADIENT) return replace_gradient(function, result, &values[0]);
    if (hook->kind != NX_HOOK_ACCUMULATED) return replace_all(function, result, values, n);
    if (nxpy_tensor_check(result) && nxpy_tensor_get(result) == values[0]) return NX_OK; /* what it was given: nothing changes */
    nx_tensor *leaf = nx_tensor_ref(values[0]); /* what it may not be at all is said first */
    nx_status status = replace_gradient(function, result, &leaf);
    nx_tensor_unref(leaf);
    NX_TRY(status);
    PyErr_SetString(PyExc_RuntimeError, "Tensor post accumulate grad hooks should return None.");
    return nxpy_caught();
}
static nx_status call_functions(nx_grad_hook *hook, nx_tensor **values, int n, nx_tensor *const *arrived, int n_arrived) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *functions = PyDict_Values(hook->context);
    nx_status status = functions ? NX_OK : nxpy_caught();
    for (Py_ssize_t i = 0; status == NX_OK && i < PyList_GET_SIZE(functions); i++) {
        PyObject *function = PyList_GET_ITEM(functions, i), *result = call_one(hook, function, values, n, arrived, n_arrived);
        status = result ? take_result(hook, function, result, values, n) : nxpy_caught();
        Py_XDECREF(result);
    }
    Py_XDECREF(functions);
    PyGILState_Release(state);
    return status;
}

/* ---- registering -------------------------------------------------------------------------------------------------------- */
static void drop_functions(void *context) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)context);
    PyGILState_Release(state);
}
/* The hook's dict; borrowed. */
static PyObject *functions_of(nx_grad_hook *hook) {
    if (hook->context == NULL && (hook->context = PyDict_New()) == NULL) return NULL;
    hook->call = call_functions;
    hook->free = drop_functions;
    return hook->context;
}
static PyObject *hooks_of(PyObject *self, PyObject *accumulated) {
    nx_tensor *tensor = nxpy_tensor_get(self);
    nx_grad_hook *hook;
    if (tensor->whole)
        return PyErr_Format(PyExc_RuntimeError, "vmap: a hook on a tensor that is mapped over would see all slices at once");
    NXPY_TRY(nx_grad_hook_of(tensor, PyObject_IsTrue(accumulated) ? NX_HOOK_ACCUMULATED : NX_HOOK_GRADIENT, &hook));
    nxpy_tensor_track(self);
    return Py_XNewRef(functions_of(hook));
}
/* What is called when a gradient has been added to this leaf: a tuple. */
static PyObject *hooks_after(PyObject *module, PyObject *leaf) {
    nx_grad_hook *hook = NULL;
    if (!nxpy_tensor_check(leaf)) return PyErr_Format(PyExc_TypeError, "hooks_after: expected a Tensor");
    nx_tensor *tensor = nx_tensor_whole(nxpy_tensor_get(leaf));
    if (nx_tensor_requires_grad(tensor) && nx_tensor_is_leaf(tensor)) NXPY_TRY(nx_grad_hook_of(tensor, NX_HOOK_ACCUMULATED, &hook));
    PyObject *functions = hook && hook->context ? PyDict_Values(hook->context) : NULL;
    PyObject *all = functions ? PyList_AsTuple(functions) : PyErr_Occurred() ? NULL : PyTuple_New(0);
    Py_XDECREF(functions);
    return all;
}
static PyObject *register_at(PyObject *node, nx_hook_kind kind, PyObject *function) {
    nx_grad_hook *hook;
    NXPY_TRY(nx_grad_node_hook_of(nxpy_grad_node_get(node), kind, 0, &hook));
    PyObject *functions = functions_of(hook), *module = functions ? PyImport_ImportModule("narthex.utils.hooks") : NULL;
    PyObject *handle = module ? PyObject_GetAttrString(module, "RemovableHandle") : NULL;
    PyObject *made = handle ? PyObject_CallMethod(handle, "of", "OO", functions, function) : NULL;
    Py_XDECREF(handle);
    Py_XDECREF(module);
    return made;
}
PyObject *nxpy_register_hook(PyObject *node, PyObject *function) { return register_at(node, NX_HOOK_AFTER, function); }
PyObject *nxpy_register_prehook(PyObject *node, PyObject *function) { return register_at(node, NX_HOOK_BEFORE, function); }
/* The dict of what a program keeps at a node. */
PyObject *nxpy_node_metadata(PyObject *node, void *unused) {
    nx_grad_hook *hook;
    NXPY_TRY(nx_grad_node_hook_of(nxpy_grad_node_get(node), NX_HOOK_NOTES, 0, &hook));
    return Py_XNewRef(functions_of(hook));
}

static int visit_owned(const nx_grad_node *node, const nx_grad_hook *hook, const nxpy_visitor *visitor) {
    if (hook == NULL) return nxpy_visit_function(node, visitor);
    bool is_ours = hook->context && hook->call == call_functions;
    return is_ours ? visitor->visit(hook->context, visitor->arg) : 0;
}

int nxpy_add_hooks(PyObject *module) {
    static PyMethodDef functions[] = {
        {"hooks_after", hooks_after, METH_O, "hooks_after(leaf): what is called when a gradient was added to it."}, {NULL}};
    if (PyModule_AddFunctions(module, functions) < 0) return -1;
    static PyMethodDef method = {"_hooks_of", hooks_of, METH_O, "_hooks_of(accumulated): the dict of its hooks."};
    nxpy_visit_owned = visit_owned;
    PyObject *descriptor = PyDescr_NewMethod(&nxpy_tensor_type, &method);
    int failed = descriptor ? PyDict_SetItemString(nxpy_tensor_type.tp_dict, method.ml_name, descriptor) : -1;
    Py_XDECREF(descriptor);
    return failed;
}
