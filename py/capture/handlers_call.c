/* Handlers of calls.
 *
 * In: callables and arguments on the stack. Out: results, admitted to the side table.
 * What must hold: a Python function is entered by the ordinary call, which comes back through the hook (inlining); a
 * function of PyTorch's goes to the dispatcher, whose CAPTURE key records it; any other C callable must stand in
 * calls.def. Callables reached by a guarded path need no further guard.
 * Next: attributes.c for how callables are found. */
#include "capture/handlers.h"

enum { READS = 1, CHANGES, LOOKS };
static nx_map calls; /* callable -> what it does; filled once, holds for ever */

int nxpy__calls_init(PyObject *extension) {
    if (calls.n) return 0;
    static const struct { const char *owner, *name; int does; } rows[] = {
#define NXPY_CALL_ROW(owner, name, does) {owner, name, does},
#include "capture/calls.def"
#undef NXPY_CALL_ROW
    };
    PyObject *builtins = PyImport_ImportModule("builtins");
    for (int k = 0; builtins && k < NX_COUNT(rows); k++) {
        const char *in = rows[k].owner;
        PyObject *module = strcmp(in, "_C") == 0 ? extension : builtins;
        PyObject *owner = module == builtins && *in ? PyObject_GetAttrString(builtins, in) : Py_NewRef(module);
        PyObject *callable = owner ? PyObject_GetAttrString(owner, rows[k].name) : NULL; /* kept */
        if (!callable || nx_map_set(&calls, callable, (void *)(intptr_t)rows[k].does) != NX_OK) Py_CLEAR(builtins);
        Py_XDECREF(owner);
    }
    if (!builtins) return PyErr_Occurred() ? -1 : (PyErr_NoMemory(), -1);
    Py_DECREF(builtins);
    return 0;
}

/* ---- may it be called? ------------------------------------------------------------------------------------------------ */
static bool is_metadata_method(PyObject *function) {
    static const char *const names[] = {"size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "is_contiguous",
                                        "is_floating_point", "storage_offset", "__len__"};
    if (Py_TYPE(function) != &PyMethodDescr_Type || !PyType_IsSubtype(PyDescr_TYPE(function), &nxpy_tensor_type)) return false;
    const char *name = ((PyMethodDescrObject *)function)->d_method->ml_name;
    for (int k = 0; k < NX_COUNT(names); k++) {
        if (strcmp(name, names[k]) == 0) return true;
    }
    return false;
}

/* A method of an object, as `builtin_function_or_method`: the descriptor that it came from, lent; NULL: a plain function. */
static PyObject *descriptor_of(PyObject *function) {
    PyObject *self = PyCFunction_GET_SELF(function);
    if (!self || PyModule_Check(self)) return NULL;
    PyObject *name = PyUnicode_FromString(((PyCFunctionObject *)function)->m_ml->ml_name);
    PyObject *descriptor = name ? _PyType_Lookup(Py_TYPE(self), name) : NULL;
    Py_XDECREF(name);
    return descriptor;
}

static int stop_call(nxpy_trace *trace, PyObject *function) {
    PyObject *name = PyObject_GetAttrString(function, "__qualname__");
    if (!name) PyErr_Clear();
    nxpy__stop(trace, NXPY_BREAK_FUNCTION, "%S", name ? name : (PyObject *)Py_TYPE(function));
    Py_XDECREF(name);
    return -1;
}

int nxpy__python_special(nxpy_trace *trace, PyObject *object, const char *special) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject *name = PyUnicode_InternFromString(special), *found = name ? _PyType_Lookup(type, name) : NULL;
    int result = found && PyFunction_Check(found) && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
    if (result && nxpy__fetch(trace, NXPY_ROW_TYPE_VALUE, -1, name, (PyObject *)type, 0, found) < 0) result = -1;
    if (result == 1 && !nxpy__use(trace, found)) result = -1;
    Py_XDECREF(name);
    return result;
}

/* Whether reading it runs no code and changes nothing: an iterator that existed before would be consumed. */
static bool may_read(nxpy_trace *trace, PyObject *o) {
    return nxpy_constant_check(o) || nxpy_tensor_check(o) || PyList_CheckExact(o) || nxpy__is_tuple(o) || PyDict_CheckExact(o) ||
           PyFunction_Check(o) || PyType_Check(o) || nxpy__is_born(trace, o);
}

/* A torch function reads the tensors of a list itself: it gets a list of their fakes. Takes and gives a reference at *at. */
static int use_listed(nxpy_trace *trace, PyObject **at) {
    bool is_list = PyList_CheckExact(*at), has_tensor = false;
    if (!is_list && !PyTuple_CheckExact(*at)) return 0;
    for (Py_ssize_t k = 0; k < Py_SIZE(*at); k++) has_tensor |= nxpy_tensor_check(PySequence_Fast_GET_ITEM(*at, k));
    if (!has_tensor) return 0;
    PyObject *fakes = PyList_New(Py_SIZE(*at));
    if (!fakes) return nxpy__stop_error(trace);
    for (Py_ssize_t k = 0; k < Py_SIZE(*at); k++) {
        PyObject *use = nxpy__use(trace, PySequence_Fast_GET_ITEM(*at, k));
        if (!use) return Py_DECREF(fakes), -1;
        PyList_SET_ITEM(fakes, k, Py_NewRef(use));
    }
    PyObject *same = is_list ? Py_NewRef(fakes) : PyList_AsTuple(fakes);
    Py_DECREF(fakes);
    if (!same) return nxpy__stop_error(trace);
    Py_SETREF(*at, same);
    return 0;
}

/* Guards every argument; containers that existed before have their elements noted, since the callee may read them. */
static int use_arguments(nxpy_loop *loop, PyObject **args, Py_ssize_t n, bool reads) {
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *use = nxpy__use(loop->trace, args[k]);
        if (!use) return -1;
        if (reads && !may_read(loop->trace, use)) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "%.200s", Py_TYPE(use)->tp_name);
        if (nxpy__note_elements(loop->trace, use) < 0) return -1;
        if (use != args[k]) {
            Py_INCREF(use);
            Py_SETREF(args[k], use);
        }
    }
    return 0;
}

/* Whether `function` may be called with args: 0 yes, 1 yes and it is a Python function, -1 stopped. */
static int may_call(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n) {
    nxpy_trace *trace = loop->trace;
    if (Py_TYPE(function) == &PyMethod_Type) {
        PyObject *self = PyMethod_GET_SELF(function), *inner = PyMethod_GET_FUNCTION(function);
        if (PyFunction_Check(inner)) return nxpy__use(trace, inner) ? 1 : -1;
        return inner == self ? stop_call(trace, function) : may_call(loop, inner, args, n);
    }
    if (PyFunction_Check(function)) return 1;
    if (Py_TYPE(function) == &nxpy_captured_type) return 1;
    if (Py_TYPE(function) == &nxpy_function_type || is_metadata_method(function)) {
        int used = use_arguments(loop, args, n, false);
        for (Py_ssize_t k = 0; used == 0 && k < n; k++) used = use_listed(trace, &args[k]);
        return used;
    }
    PyObject *known = function, *self = NULL;
    if (Py_TYPE(function) == &PyCFunction_Type) {
        PyObject *descriptor = descriptor_of(function);
        if (descriptor) {
            known = descriptor;
            self = PyCFunction_GET_SELF(function);
        }
    }
    intptr_t does = (intptr_t)nx_map_get(&calls, known);
    if (!does) {
        int python = nxpy__python_special(trace, function, "__call__");
        return python ? python : stop_call(trace, function);
    }
    if (known == (PyObject *)&PyType_Type && n != 1) return stop_call(trace, function); /* makes a class */
    if (!self && n > 0) self = args[0];
    if (does == CHANGES && (!self || !nxpy__is_born(trace, self))) {
        return nxpy__stop(trace, NXPY_BREAK_STORE, "%.200s", self ? Py_TYPE(self)->tp_name : "?");
    }
    return use_arguments(loop, args, n, does != LOOKS);
}

/* ---- the instructions ----------------------------------------------------------------------------------------------------- */
int op_kw_names(nxpy_loop *loop, int arg) {
    loop->kw_names = PyTuple_GET_ITEM(loop->view.code->co_consts, arg);
    return 0;
}

/* A trace that stopped inside the callee: the root may let it be a root of its own. */
static void mark_entered(nxpy_loop *loop, int python) {
    nxpy_trace *trace = loop->trace;
    if (loop == trace->root_loop && python == 1 && trace->stop && trace->stop != NXPY_BREAK_EXCEPTION) trace->stop_enters = true;
}

int op_call(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    bool is_method = loop->top[-arg - 2] != NULL;
    PyObject *kw_names = loop->kw_names;
    Py_ssize_t n = arg + is_method;
    PyObject *function = nxpy__use(trace, loop->top[is_method ? -arg - 2 : -arg - 1]), **args = loop->top - n;
    loop->kw_names = NULL;
    int python = function ? may_call(loop, function, args, n) : -1;
    if (python < 0) return -1;
    Py_ssize_t n_positional = n - (kw_names ? PyTuple_GET_SIZE(kw_names) : 0);
    PyObject *result = PyObject_Vectorcall(function, args, (size_t)n_positional, kw_names);
    if (!result) {
        mark_entered(loop, python);
        return nxpy__stop_error(trace);
    }
    return nxpy__finish(loop, arg + 2, result);
}

int op_call_function_ex(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    int has_dict = arg & 1;
    PyObject *keywords = has_dict ? USE(1) : NULL, *args = USE(1 + has_dict);
    if (!args || (has_dict && !keywords)) return -1;
    PyObject *function = USE(2 + has_dict);
    if (!function) return -1;
    if (PyList_CheckExact(args)) {
        if (nxpy__note_elements(trace, args) < 0) return -1;
        PyObject *tuple = PyList_AsTuple(args);
        if (!tuple || nxpy__admit(trace, tuple) < 0) return Py_XDECREF(tuple), nxpy__stop_error(trace);
        Py_SETREF(loop->top[-1 - has_dict], tuple);
        args = tuple;
    }
    if (!PyTuple_CheckExact(args) || (keywords && !PyDict_CheckExact(keywords))) {
        return nxpy__stop(trace, NXPY_BREAK_ITERATOR, "arguments from %.200s", Py_TYPE(args)->tp_name);
    }
    if (nxpy__note_elements(trace, args) < 0 || (keywords && nxpy__note_elements(trace, keywords) < 0)) return -1;
    int python = may_call(loop, function, NULL, 0);
    if (python < 0) return -1;
    if (python == 0) { /* C code gets fakes: the arguments move to tuples and dicts of our own */
        PyObject *list = PySequence_List(args), *tuple = NULL, *dict = keywords ? PyDict_Copy(keywords) : NULL, *key, *value;
        PyObject **items = list ? ((PyListObject *)list)->ob_item : NULL;
        Py_ssize_t n_items = list ? PyList_GET_SIZE(list) : 0, n_used = 0;
        if (list && use_arguments(loop, items, n_items, true) == 0) {
            while (n_used < n_items && use_listed(trace, &items[n_used]) == 0) n_used++;
            if (n_used == n_items) tuple = PyList_AsTuple(list);
        }
        for (Py_ssize_t at = 0; tuple && dict && PyDict_Next(keywords, &at, &key, &value);) {
            PyObject *use = Py_XNewRef(nxpy__use(trace, value));
            if (!use || use_listed(trace, &use) < 0 || PyDict_SetItem(dict, key, use) < 0) Py_CLEAR(tuple);
            Py_XDECREF(use);
        }
        PyObject *result = tuple && (dict || !keywords) ? PyObject_Call(function, tuple, dict) : NULL;
        Py_XDECREF(list);
        Py_XDECREF(tuple);
        Py_XDECREF(dict);
        return nxpy__finish(loop, 3 + has_dict, result);
    }
    PyObject *result = PyObject_Call(function, args, keywords);
    if (!result) {
        mark_entered(loop, python);
        return nxpy__stop_error(trace);
    }
    return nxpy__finish(loop, 3 + has_dict, result);
}

int op_make_function(nxpy_loop *loop, int arg) {
    PyObject *code = loop->top[-1], **from = loop->top - 1;
    for (int k = 1; k <= __builtin_popcount(arg & 0x0f); k++) { /* closure, defaults: their parts may come from elsewhere */
        PyObject *part = USE(1 + k);
        if (!part || nxpy__note_elements(loop->trace, part) < 0) return -1;
    }
    PyFunctionObject *function = (PyFunctionObject *)PyFunction_New(code, loop->view.globals);
    if (!function || !nxpy__note_add(loop->trace, (PyObject *)function, NXPY_NOTE_BORN, -1)) {
        Py_XDECREF(function);
        return nxpy__stop_error(loop->trace);
    }
    Py_DECREF(code);
    if (arg & 0x08) function->func_closure = *--from;
    if (arg & 0x04) function->func_annotations = *--from;
    if (arg & 0x02) function->func_kwdefaults = *--from;
    if (arg & 0x01) function->func_defaults = *--from;
    loop->top = from;
    *loop->top++ = (PyObject *)function;
    return 0;
}

/* ---- attributes -------------------------------------------------------------------------------------------------------------- */
int op_load_attr(nxpy_loop *loop, int arg) {
    PyObject *object = USE(1), *value;
    if (!object || nxpy__attribute(loop->trace, object, PyTuple_GET_ITEM(loop->view.code->co_names, arg), false, &value) < 0) return -1;
    Py_SETREF(loop->top[-1], value);
    return 0;
}

int op_load_method(nxpy_loop *loop, int arg) {
    PyObject *object = USE(1), *value;
    int kind = object ? nxpy__attribute(loop->trace, object, PyTuple_GET_ITEM(loop->view.code->co_names, arg), true, &value) : -1;
    if (kind < 0) return -1;
    if (kind == 1) { /* the function, then the object as its first argument */
        *loop->top++ = object;
        loop->top[-2] = value;
        return 0;
    }
    *loop->top++ = value;
    Py_SETREF(loop->top[-2], NULL);
    return 0;
}
