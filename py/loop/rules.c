/* What programs say of functions before anything is traced, so that a call of one is no ordinary call.
 *
 * In: a callable in use, with its arguments. Out: what its call gives in the trace.
 * What must hold: a rule says what a call is, and so comes before what the loop knows of the callable; what was traced
 * before it was said stays as it is (torch._dynamo.reset forgets it). A call that is made later finds its arguments as they
 * are when the graph has run.
 * Next: calls.c, which asks here first. */
#include "loop/private.h"

bool nxpy__has_rules;
static nx_map rules;              /* callable -> its rule; both are kept as long as the process lives */
static PyObject *ignored, *later; /* sets of callables that programs fill: torch._dynamo.config's; owned or NULL */

/* Whether the set holds it, or what it is as a method of `self`; objects with a hash of Python's are not looked for. */
static bool is_in(PyObject *set, PyObject *function, PyObject *self) {
    if (!set || PySet_GET_SIZE(set) == 0 || !(PyFunction_Check(function) || PyCFunction_Check(function))) return false;
    bool there = PySet_Contains(set, function) == 1;
    if (!there && self && PyFunction_Check(function) && Py_TYPE(self)->tp_hash == PyBaseObject_Type.tp_hash) {
        PyObject *method = PyMethod_New(function, self);
        there = method && PySet_Contains(set, method) == 1;
        Py_XDECREF(method);
    }
    nxpy_forget_error();
    return there;
}

/* functools.partial of the named arguments, which must be constants; the function itself where there are none. */
static PyObject *with_names(PyObject *function, PyObject *const *values, PyObject *names) {
    PyObject *module = names ? PyImport_AddModule("functools") : NULL, *keywords = names ? PyDict_New() : NULL;
    PyObject *partial = module ? PyObject_GetAttrString(module, "partial") : NULL, *first = partial ? PyTuple_Pack(1, function) : NULL;
    PyObject *made = names ? NULL : Py_NewRef(function);
    bool whole = first && keywords;
    for (Py_ssize_t k = 0; whole && k < PyTuple_GET_SIZE(names); k++) {
        whole = nxpy_constant_check(values[k]) && PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, k), values[k]) == 0;
    }
    if (whole) made = PyObject_Call(partial, first, keywords);
    Py_XDECREF(first);
    Py_XDECREF(partial);
    Py_XDECREF(keywords);
    return made;
}

static PyObject *call_later(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    Py_ssize_t n_plain = n - (kw_names ? PyTuple_GET_SIZE(kw_names) : 0);
    PyObject *given = PyTuple_New(n_plain), *called = NULL;
    for (Py_ssize_t k = 0; given && k < n_plain; k++) {
        PyObject *use = nxpy__use(trace, args[k]);
        if (use && (nxpy_constant_check(use) || nxpy_tensor_check(use))) PyTuple_SET_ITEM(given, k, Py_NewRef(use));
        else Py_CLEAR(given);
    }
    if (given) called = with_names(function, args + n_plain, kw_names);
    int done = called ? nxpy__later(trace, called, given) : -1;
    Py_XDECREF(called);
    Py_XDECREF(given);
    if (done == 0) return Py_NewRef(Py_None);
    nxpy_forget_error();
    nxpy__stop(trace, NXPY_BREAK_FUNCTION, "a call that waits for the graph, of what is no tensor, number or text");
    return NULL;
}

/* Whoever called the compiled function gets the error, whatever the traced program catches. */
static void refuse(nxpy_trace *trace, PyObject *function) {
    PyErr_Format(PyExc_AssertionError, "Attempt to trace forbidden callable %S", function);
    nxpy__stop_uncaught(trace);
    trace->raises = true;
}

bool nxpy__by_rule(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names, PyObject **out) {
    nxpy_trace *trace = loop->trace;
    PyObject *rule = rules.n ? nx_map_get(&rules, function) : NULL;
    *out = NULL;
    PyObject *self = n > 0 ? args[0] : NULL; /* of a method, which comes here again without it */
    if (is_in(ignored, function, self)) {
        *out = Py_NewRef(Py_None);
    } else if (is_in(later, function, NULL)) {
        *out = call_later(loop, function, args, n, kw_names);
    } else if (!rule || rule == Py_None) {
        return false;
    } else if (rule == Py_False) {
        refuse(trace, function);
    } else if (rule == Py_True) {
        PyObject *name = PyObject_GetAttrString(function, "__qualname__");
        nxpy_forget_error();
        nxpy__stop(trace, NXPY_BREAK_SKIPPED, "%S", name ? name : (PyObject *)Py_TYPE(function));
        Py_XDECREF(name);
    } else if (nxpy__fixed(trace, rule) == 0) {
        *out = nxpy__call(loop, rule, args, n, kw_names);
    }
    return true;
}

static PyObject *set_rule(PyObject *module, PyObject *args) {
    PyObject *function, *rule;
    if (!PyArg_ParseTuple(args, "OO:set_capture_rule", &function, &rule)) return NULL;
    PyObject *before = nx_map_get(&rules, function);
    NXPY_TRY(nx_map_set(&rules, function, rule));
    Py_INCREF(rule);
    if (before) Py_DECREF(before);
    else Py_INCREF(function);
    nxpy__has_rules = true;
    Py_RETURN_NONE;
}

static PyObject *set_calls(PyObject *module, PyObject *args) {
    PyObject *first, *second;
    if (!PyArg_ParseTuple(args, "O!O!:set_capture_calls", &PySet_Type, &first, &PySet_Type, &second)) return NULL;
    Py_XSETREF(ignored, Py_NewRef(first));
    Py_XSETREF(later, Py_NewRef(second));
    nxpy__has_rules = true;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_capture_rule", set_rule, METH_VARARGS,
     "set_capture_rule(callable, rule): what a call of it is in a captured function: True: the graph ends before it; False: an error; "
     "a function: a call of that one; None: what it always is."},
    {"set_capture_calls", set_calls, METH_VARARGS,
     "set_capture_calls(ignored, later): the sets of callables whose calls are nothing, or wait until the graph has run."},
    {NULL}};

int nxpy__add_rules(PyObject *module) { return PyModule_AddFunctions(module, functions); }
