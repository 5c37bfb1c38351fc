/* Functions that are asked when the trace is over, which then begins again: what they remember (functools.lru_cache), or what
 * hangs on their arguments alone (numpy's on constants and on arrays of such functions, eval of plain text).
 *
 * In: a callable and its arguments. Out: what it gave, fixed; an array of numpy's is born in the trace.
 * What must hold: nothing in a trace writes such an array, so that one that a function gave is as good as a copy; what lives on
 * is a copy for each run (recipe.c). A tensor over an array's memory is a copy, too: the array is forgotten.
 * Next: specials.c. */
#include "loop/private.h"

enum { MOST_BYTES = 1 << 16 };

static PyObject *stop_asked(nxpy_trace *trace, PyObject *function) {
    PyObject *name = PyObject_GetAttrString(function, "__qualname__");
    if (!name) PyErr_Clear();
    if (!trace->stop) nxpy__stop(trace, NXPY_BREAK_FUNCTION, "%S", name ? name : (PyObject *)Py_TYPE(function));
    Py_XDECREF(name);
    return NULL;
}

/* ---- which functions -------------------------------------------------------------------------------------------------- */
static bool is_one_of(const char *name, const char *const *names) {
    for (; *names; names++) {
        if (strcmp(name, *names) == 0) return true;
    }
    return false;
}

/* By torch._dynamo.assume_constant_result. */
static bool is_marked_constant(PyObject *function) {
    PyObject *dict = PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_dict : NULL;
    return dict && PyDict_GetItemString(dict, "_dynamo_marked_constant") != NULL;
}

/* Makers of arrays that are functions of numpy's without a type of their own. */
static bool makes_array(PyObject *function) {
    static const char *const of_c[] = {"array", "zeros", "empty", "arange", NULL}, *const of_python[] = {"ones", "full", "eye", NULL};
    PyObject *module = NULL;
    if (PyCFunction_Check(function)) module = ((PyCFunctionObject *)function)->m_module;
    if (PyFunction_Check(function)) module = PyDict_GetItemString(PyFunction_GET_GLOBALS(function), "__name__");
    const char *of = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : "";
    const char *in_c = PyCFunction_Check(function) ? ((PyCFunctionObject *)function)->m_ml->ml_name : NULL;
    if (in_c) return of && strcmp(of, "numpy") == 0 && is_one_of(in_c, of_c);
    const char *name = of && PyFunction_Check(function) ? PyUnicode_AsUTF8(((PyFunctionObject *)function)->func_name) : NULL;
    return name && strncmp(of, "numpy.", 6) == 0 && is_one_of(name, of_python);
}

bool nxpy__asks(PyObject *function) {
    if (Py_TYPE(function) == nxpy__lru_cache_type) return true;
    return PyFunction_Check(function) && (is_marked_constant(function) || makes_array(function));
}

/* A function of numpy's that changes nothing, or such a method of a number or an array. */
static bool is_numpy(PyObject *function) {
    static const char *const changing[] = {"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "save", "savez",
                                           "savez_compressed", "savetxt", NULL};
    static const char *const reading[] = {"sum", "prod", "mean", "std", "var", "min", "max", "argmin", "argmax", "all", "any", "cumsum",
                                          "cumprod", "dot", "item", "tolist", "astype", "copy", "reshape", "ravel", "flatten",
                                          "transpose", "squeeze", "repeat", "take", "clip", "round", "conj", "trace", "nonzero", NULL};
    const char *type = Py_TYPE(function)->tp_name, *of;
    if (Py_TYPE(function) == &PyMethodDescr_Type) {
        of = PyDescr_TYPE(function)->tp_name;
        bool array = strcmp(of, "numpy.ndarray") == 0;
        return array ? is_one_of(((PyMethodDescrObject *)function)->d_method->ml_name, reading) : strncmp(of, "numpy.generic", 13) == 0;
    }
    bool number = PyType_Check(function) && !nxpy__may_change((PyTypeObject *)function); /* the class of one */
    if (number) return strncmp(((PyTypeObject *)function)->tp_name, "numpy.", 6) == 0;
    if (strcmp(type, "numpy.ufunc") == 0) return true;
    if (strcmp(type, "numpy._ArrayFunctionDispatcher") != 0) return makes_array(function);
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    bool reads = text && !is_one_of(text, changing);
    Py_XDECREF(name);
    PyErr_Clear();
    return reads;
}

/* eval("1 + 1"): of text that names nothing and holds no code of its own. */
static bool is_constant_eval(PyObject *function, PyObject **args, Py_ssize_t n) {
    const char *name = PyCFunction_Check(function) ? ((PyCFunctionObject *)function)->m_ml->ml_name : "";
    PyObject *builtins = PyEval_GetBuiltins(), *eval = strcmp(name, "eval") == 0 ? PyDict_GetItemString(builtins, "eval") : NULL;
    const char *text = eval == function && n == 1 && PyUnicode_CheckExact(args[0]) ? PyUnicode_AsUTF8(args[0]) : NULL;
    PyObject *code = text ? Py_CompileString(text + strspn(text, " \t"), "<string>", Py_eval_input) : NULL;
    bool plain = code && PyTuple_GET_SIZE(((PyCodeObject *)code)->co_names) == 0;
    for (Py_ssize_t k = 0; plain && k < PyTuple_GET_SIZE(((PyCodeObject *)code)->co_consts); k++) {
        plain = !PyCode_Check(PyTuple_GET_ITEM(((PyCodeObject *)code)->co_consts, k));
    }
    PyErr_Clear();
    Py_XDECREF(code);
    return plain;
}

bool nxpy__asks_c(PyObject *function, PyObject **args, Py_ssize_t n) { return is_numpy(function) || is_constant_eval(function, args, n); }

/* ---- asking ----------------------------------------------------------------------------------------------------------- */
/* A question is looked up while nothing of the program's may be asked whether it equals something. */
static bool is_compared_in_c(PyObject *o) {
    for (Py_ssize_t k = 0; PyTuple_CheckExact(o) && k < PyTuple_GET_SIZE(o); k++) {
        if (!is_compared_in_c(PyTuple_GET_ITEM(o, k))) return false;
    }
    PyObject *names = nxpy__is_instance(o) ? nxpy__frozen_names(o) : NULL;
    Py_XDECREF(names);
    return names == NULL;
}

/* What stands for an argument in a question: itself, or (numpy's functions) what an array or a list holds, with its type. The
 * very argument, or a copy of a list, is *real. */
static PyObject *part_of(nxpy_trace *trace, PyObject *function, PyObject *given, bool numpy, PyObject **real) {
    PyObject *use = nxpy__use(trace, given), *key = NULL;
    *real = NULL;
    if (!use) return NULL;
    if (nxpy_symnumber_check(use)) {
        *real = nxpy_symnumber_fix(use);
        return *real ? PyTuple_Pack(2, Py_TYPE(*real), *real) : NULL;
    }
    if (nxpy_tensor_check(use)) return stop_asked(trace, function);
    if (nxpy__is_key(use) && is_compared_in_c(use)) {
        if (nxpy__use_as_key(trace, use) < 0) return NULL;
        *real = Py_NewRef(use);
        return PyTuple_Pack(2, Py_TYPE(use), use);
    }
    if (numpy && nxpy__is_a(use, NXPY_KIND_ARRAY) && nxpy__is_born(trace, use)) {
        PyObject *size = PyObject_GetAttrString(use, "nbytes"), *shape = PyObject_GetAttrString(use, "shape");
        PyObject *dtype = PyObject_GetAttrString(use, "dtype");
        bool small = size && PyLong_AsLongLong(size) <= MOST_BYTES && dtype && nxpy_constant_check(dtype);
        PyObject *bytes = small ? PyObject_CallMethod(use, "tobytes", NULL) : NULL;
        key = bytes && shape ? PyTuple_Pack(4, Py_TYPE(use), dtype, shape, bytes) : NULL;
        if (key) *real = Py_NewRef(use);
        Py_XDECREF(size);
        Py_XDECREF(shape);
        Py_XDECREF(dtype);
        Py_XDECREF(bytes);
    } else if (numpy && (PyList_CheckExact(use) || PyTuple_CheckExact(use)) && nxpy__note_elements(trace, use) == 0) {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(use);
        PyObject *parts = PyTuple_New(n), *copy = PyList_New(n);
        for (Py_ssize_t k = 0; parts && k < n; k++) {
            PyObject *inner = NULL, *part = copy ? part_of(trace, function, PySequence_Fast_GET_ITEM(use, k), numpy, &inner) : NULL;
            if (copy && inner) PyList_SET_ITEM(copy, k, inner);
            if (part) PyTuple_SET_ITEM(parts, k, part);
            else Py_CLEAR(parts);
        }
        key = parts && copy ? PyTuple_Pack(2, Py_TYPE(use), parts) : NULL;
        if (key) *real = PyTuple_CheckExact(use) ? PyList_AsTuple(copy) : Py_NewRef(copy);
        Py_XDECREF(parts);
        Py_XDECREF(copy);
    }
    if (!key && !trace->stop && !PyErr_Occurred()) stop_asked(trace, function);
    return key;
}

/* Whether an argument may be written by the function: out=, or one behind the operands. */
static bool has_result(PyObject *function, Py_ssize_t n, PyObject *kw_names) {
    Py_ssize_t n_names = kw_names ? PyTuple_GET_SIZE(kw_names) : 0;
    for (Py_ssize_t k = 0; k < n_names; k++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw_names, k), "out") == 0) return true;
    }
    if (strcmp(Py_TYPE(function)->tp_name, "numpy.ufunc") != 0) return false;
    PyObject *most = PyObject_GetAttrString(function, "nin");
    bool more = !most || n - n_names > PyLong_AsSsize_t(most);
    Py_XDECREF(most);
    return more;
}

/* What the program may write: an array is another one at each call. */
static PyObject *as_born(nxpy_trace *trace, PyObject *function, PyObject *known) {
    if (!nxpy__is_a(known, NXPY_KIND_ARRAY)) return stop_asked(trace, function);
    PyObject *made = nxpy__note_find(trace, known) ? PyObject_CallMethod(known, "copy", NULL) : Py_NewRef(known);
    if (made && nxpy__born(trace, made) < 0) Py_CLEAR(made);
    return made;
}

PyObject *nxpy__call_asked(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    const nxpy_note *note = nxpy__note_find(trace, function);
    if (note && note->kind == NXPY_NOTE_SOURCE && nxpy__check(trace, NXPY_ROW_ID, note->slot, function, 0) < 0) return NULL;
    bool numpy = is_numpy(function) || nxpy__is_array_operator(function);
    bool writes = (numpy || PyCFunction_Check(function)) && has_result(function, n, kw_names);
    PyObject *given = PyTuple_New(n), *real = PyTuple_New(n), *result = NULL;
    if (writes) stop_asked(trace, function);
    for (Py_ssize_t k = 0; given && k < n; k++) {
        PyObject *argument = NULL, *part = real && !writes ? part_of(trace, function, args[k], numpy, &argument) : NULL;
        if (argument) PyTuple_SET_ITEM(real, k, argument);
        if (part) PyTuple_SET_ITEM(given, k, part);
        else Py_CLEAR(given);
    }
    PyObject *question = given ? PyTuple_Pack(3, function, given, kw_names ? kw_names : Py_None) : NULL;
    PyObject *known = question ? nxpy__ask(trace, question, real) : NULL;
    if (known && !nxpy_constant_check(known) && (numpy || PyCFunction_Check(function))) result = as_born(trace, function, known);
    else if (known && nxpy__fixed(trace, known) == 0) result = Py_NewRef(known);
    Py_XDECREF(given);
    Py_XDECREF(real);
    Py_XDECREF(question);
    if (!result) nxpy__stop_error(trace);
    return result;
}

/* ---- arrays of the trace -------------------------------------------------------------------------------------------------- */
bool nxpy__is_array_operator(PyObject *function) {
    PyObject *module = PyCFunction_Check(function) ? ((PyCFunctionObject *)function)->m_module : NULL;
    return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "_operator") == 0;
}

PyObject *nxpy__array_operator(nxpy_loop *loop, const char *method, PyObject *x, PyObject *y) {
    PyObject *name = nxpy__name("operator"), *module = name ? nxpy__loaded(loop->trace, name) : NULL;
    PyObject *function = module ? PyObject_GetAttrString(module, method) : NULL, *args[] = {Py_NewRef(x), Py_NewRef(y)};
    PyObject *result = function ? nxpy__call_asked(loop, function, args, 2, NULL) : NULL;
    Py_DECREF(args[0]);
    Py_DECREF(args[1]);
    Py_XDECREF(function);
    return result;
}

PyObject *nxpy__from_numpy(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *use = nxpy__use(trace, args[0]), *input;
    int before = use ? nxpy__array_input(trace, use, &input) : -1;
    if (before > 0 && nxpy__shown(use)) { /* another tensor over the same memory */
        PyObject *alias = PyObject_CallMethod(input, "detach", NULL);
        if (!alias) nxpy__stop_error(trace);
        return alias;
    }
    if (before) return before < 0 ? NULL : Py_NewRef(input);
    if (!nxpy__is_a(use, NXPY_KIND_ARRAY)) {
        PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(use)->tp_name);
        return nxpy__stop_error(trace), NULL;
    }
    PyObject *result = nxpy__constant_of(trace, function, &use, 1, NULL);
    if (result && nxpy__forget(trace, use) < 0) Py_CLEAR(result);
    return result;
}
