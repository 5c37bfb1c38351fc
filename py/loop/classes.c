/* Tensors of classes of one's own: how they are made, and what a __torch_function__ calls when it goes on with the function that it
 * was asked for, which may be a method or a getter of Tensor that no program names otherwise.
 *
 * In: arguments from the stack. Out: what the function returns.
 * What must hold: a class is asked (py/bind/override.c) while a trace runs as it is always, and its code is inlined; what it is
 * told is noted before (nxpy__note_question); who is asked changes for real and is put back at the trace's end.
 * Next: specials.c. */
#include "loop/private.h"

#define ARGS nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names

/* ---- made ------------------------------------------------------------------------------------------------------------ */
/* The same elements without history as a tensor of a class. `data` is in use. */
static PyObject *tensor_of_class(nxpy_loop *loop, PyObject *function, PyObject *class, PyObject *data, bool grad, bool parameter) {
    bool fits = PyType_Check(class) && PyType_IsSubtype((PyTypeObject *)class, &nxpy_tensor_type) && nxpy_tensor_check(data);
    if (!fits || nxpy_class_dispatches((PyTypeObject *)class)) return nxpy__stopped(loop, function);
    uint8_t state = nx_thread_get()->function_state;
    nx_thread_get()->function_state = NXPY_ASK_NOBODY;
    PyObject *made = PyObject_CallMethod(data, "detach", NULL);
    nx_thread_get()->function_state = state;
    if (made && nxpy__take_class(loop->trace, made, (PyTypeObject *)class) < 0) Py_CLEAR(made);
    if (made) nxpy_tensor_get(made)->is_parameter = parameter;
    nx_status status = made && grad ? nx_tensor_set_requires_grad(nx_tensor_whole(nxpy_tensor_get(made)), true) : NX_OK;
    if (status != NX_OK) {
        nxpy_raise(status);
        Py_CLEAR(made);
    }
    if (!made) nxpy__stop_error(loop->trace);
    return made;
}

/* TensorBase.__new__(class, data, requires_grad, is_parameter) */
PyObject *nxpy__special_tensor_new(ARGS) {
    if (!nxpy__use_all(loop, function, args, n, kw_names, 2, 4)) return NULL;
    for (Py_ssize_t k = 2; k < n; k++) {
        if (!PyBool_Check(args[k])) return nxpy__stopped(loop, function);
    }
    return tensor_of_class(loop, function, args[0], args[1], n > 2 && args[2] == Py_True, n > 3 && args[3] == Py_True);
}

/* make_subclass(class, data, require_grad) */
PyObject *nxpy__special_make_subclass(ARGS) {
    if (!nxpy__use_all(loop, function, args, n, kw_names, 2, 3)) return NULL;
    if (n == 3 && !PyBool_Check(args[2])) return nxpy__stopped(loop, function);
    return tensor_of_class(loop, function, args[0], args[1], n == 3 && args[2] == Py_True, false);
}

/* ---- asked ----------------------------------------------------------------------------------------------------------- */
/* Who is asked for functions from here on: no graph ends where it is not everybody. */
PyObject *nxpy__special_swap_function_state(ARGS) {
    loop->trace->unasked_at = loop->trace->root_loop->in.start;
    return nxpy__special_thread_state(loop, function, args, n, kw_names);
}

/* Of what a getter of Tensor's was taken, new; NULL: `function` is none. */
static PyObject *getter_of(PyObject *function) {
    if (!nxpy__is_a(function, NXPY_KIND_CALLABLE) || Py_TYPE(function)->tp_descr_get) return NULL;
    PyObject *self = PyObject_GetAttrString(function, "__self__"), *name = PyObject_GetAttrString(function, "__name__");
    PyErr_Clear();
    bool gets = self && name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "__get__") == 0;
    bool known = gets && (Py_TYPE(self) == &PyProperty_Type ||
                          (Py_TYPE(self) == &PyGetSetDescr_Type && PyType_IsSubtype(PyDescr_TYPE(self), &nxpy_tensor_type)));
    Py_XDECREF(name);
    if (!known) Py_CLEAR(self);
    return self;
}

bool nxpy__is_tensor_getter(PyObject *function) {
    PyObject *of = getter_of(function);
    Py_XDECREF(of); /* function has it */
    return of != NULL;
}

PyObject *nxpy__call_tensor_getter(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n) {
    nxpy_trace *trace = loop->trace;
    PyObject *of = n == 1 ? getter_of(function) : NULL, *object = of ? nxpy__use(trace, args[0]) : NULL, *value = NULL;
    if (object && Py_TYPE(of) == &PyProperty_Type) {
        PyObject *getter = PyObject_GetAttrString(of, "fget");
        if (getter && nxpy__fixed(trace, getter) == 0) value = nxpy__call(loop, getter, args, n, NULL);
        Py_XDECREF(getter);
    } else if (object && nxpy_tensor_check(object)) {
        (void)nxpy__attribute(trace, object, PyDescr_NAME(of), false, &value);
    }
    Py_XDECREF(of);
    return value;
}

/* Tensor.__getitem__ and __setitem__ as functions. */
PyObject *nxpy__special_tensor_item(ARGS) {
    if (!nxpy__use_all(loop, function, args, n, kw_names, 2, 3)) return NULL;
    nxpy_trace *trace = loop->trace;
    if (!nxpy__is_fake(trace, args[0]) || (n == 3 && !nxpy__is_element(trace, args[2]))) {
        return nxpy__stopped(loop, function);
    }
    PyObject *index = nxpy__index(trace, args[1]), *result = NULL;
    if (index && n == 2) result = PyObject_GetItem(args[0], index);
    if (index && n == 3 && PyObject_SetItem(args[0], index, args[2]) == 0) result = Py_NewRef(Py_None);
    Py_XDECREF(index);
    if (!result) nxpy__stop_error(trace);
    return result;
}
