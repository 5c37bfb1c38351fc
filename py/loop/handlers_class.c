/* Classes that are made inside: the instructions of their bodies, __build_class__, type and metaclasses, dataclasses.
 *
 * In: a loop at an instruction, arguments from the stack. Out: as in handlers.c; classes, born in the trace.
 * What must hold: a body runs in the loop, with a namespace that is born in the trace; what of the bases and of the namespace's
 * values has a part in making the class (__init_subclass__, __set_name__) is guarded before, and inlined where it is Python code.
 * A class that lives on is made again by its recipe (py/notes/recipe.c).
 * Next: specials.c. */
#include "loop/private.h"

#define ARGS nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names

/* ---- names in a body ------------------------------------------------------------------------------------------------- */
static PyObject *name_at(nxpy_loop *loop, int index) { return PyTuple_GET_ITEM(loop->view.code->co_names, index); }

/* What the dict has under the name goes onto the stack: 1; 0: nothing; -1. */
static int push_from(nxpy_loop *loop, PyObject *dict, PyObject *name) {
    PyObject *value = NULL;
    if (!dict || !PyDict_CheckExact(dict)) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "a namespace of the program's own");
    if (nxpy__dict_value(loop->trace, dict, name, &value) < 0) return -1;
    if (value) nxpy__push(loop, Py_NewRef(value));
    return value != NULL;
}

int op_load_name(nxpy_loop *loop, int arg) {
    int found = push_from(loop, loop->view.locals, name_at(loop, arg));
    if (found) return found < 0 ? -1 : 0;
    loop->in.flag = 0;
    return op_load_global(loop, arg);
}

int op_store_name(nxpy_loop *loop, int arg) {
    if (nxpy__write_item(loop->trace, loop->view.locals, name_at(loop, arg), nxpy__at(loop, 1)) < 0) return -1;
    nxpy__drop(loop, 1);
    return 0;
}

int op_delete_name(nxpy_loop *loop, int arg) {
    PyObject *name = name_at(loop, arg);
    if (PyDict_GetItemWithError(loop->view.locals, name)) return nxpy__write_item(loop->trace, loop->view.locals, name, NULL);
    if (!PyErr_Occurred()) PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
    return nxpy__stop_error(loop->trace);
}

int op_load_locals(nxpy_loop *loop, int arg) {
    nxpy__push(loop, Py_NewRef(loop->view.locals));
    return 0;
}

/* The namespace first (flag 1: it lies on the stack), then the variable around the body. */
int op_load_class_deref(nxpy_loop *loop, int arg) {
    PyObject *dict = loop->in.flag ? nxpy__pop(loop) : Py_NewRef(loop->view.locals);
    int found = push_from(loop, dict, nxpy_local_name(loop->view.code, arg));
    if (found == 0) found = op_load_deref(loop, arg);
    if (found < 0 && loop->in.flag) nxpy__push(loop, Py_NewRef(dict));
    Py_DECREF(dict);
    return found < 0 ? -1 : 0;
}

int op_load_dict_or_global(nxpy_loop *loop, int arg) {
    PyObject *dict = nxpy__pop(loop);
    int found = push_from(loop, dict, name_at(loop, arg));
    loop->in.flag = 0;
    if (found == 0) found = op_load_global(loop, arg);
    if (found < 0) nxpy__push(loop, Py_NewRef(dict));
    Py_DECREF(dict);
    return found < 0 ? -1 : 0;
}

int op_setup_annotations(nxpy_loop *loop, int arg) {
    PyObject *name = nxpy__name("__annotations__"), *dict = loop->view.locals;
    if (!name || PyDict_GetItemWithError(dict, name)) return name ? 0 : nxpy__stop_error(loop->trace);
    PyObject *made = PyErr_Occurred() ? NULL : PyDict_New();
    int done = made && nxpy__born(loop->trace, made) == 0 ? nxpy__write_item(loop->trace, dict, name, made) : nxpy__stop_error(loop->trace);
    Py_XDECREF(made);
    return done;
}

/* ---- type.__new__ ---------------------------------------------------------------------------------------------------- */
/* Whether a class may be made of this base, by a metaclass; what of it has a part in that is guarded. 1, 0, -1: stopped. */
static int may_derive(nxpy_trace *trace, PyTypeObject *meta, PyObject *base) {
    PyObject *found, *ordinary = nxpy_type_lookup(&PyBaseObject_Type, nxpy__name("__init_subclass__"));
    if (!PyType_Check(base) || PyType_IsSubtype((PyTypeObject *)base, &nxpy_tensor_type)) return 0;
    if (!PyType_IsSubtype(meta, Py_TYPE(base))) return 0;
    if (nxpy__type_value(trace, (PyTypeObject *)base, "__init_subclass__", &found) < 0) return -1;
    if (found == ordinary) return 1;
    PyObject *inner = found && Py_TYPE(found) == &PyClassMethod_Type ? PyObject_GetAttrString(found, "__func__") : NULL;
    int known = inner && PyFunction_Check(inner) ? 1 : 0;
    if (known && nxpy__fixed(trace, inner) < 0) known = -1;
    Py_XDECREF(inner);
    return known;
}

/* Whether type.__new__ asks a value of the namespace for no code but Python's, guarded. 1, 0, -1: stopped. */
static int may_hold(nxpy_trace *trace, PyObject *value) {
    PyObject *found = NULL;
    if (!nxpy__may_change(Py_TYPE(value)) || nxpy_tensor_check(value)) return 1;
    if (nxpy__type_value(trace, Py_TYPE(value), "__set_name__", &found) < 0) return -1;
    return !found || PyFunction_Check(found);
}

/* type.__new__(meta, name, bases, namespace, **keywords); `given` are the last of these. */
static PyObject *new_class(nxpy_loop *loop, PyObject *function, PyTypeObject *meta, PyObject **given, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *key, *value;
    Py_ssize_t n_names = kw_names ? PyTuple_GET_SIZE(kw_names) : 0;
    bool known = n - n_names == 3 && PyUnicode_CheckExact(given[0]) && PyTuple_CheckExact(given[1]) && PyDict_CheckExact(given[2]);
    if (known && (nxpy__note_elements(trace, given[1]) < 0 || nxpy__note_elements(trace, given[2]) < 0)) return NULL;
    for (Py_ssize_t k = 0; known && k < PyTuple_GET_SIZE(given[1]); k++) {
        PyObject *base = nxpy__use(trace, PyTuple_GET_ITEM(given[1], k));
        int may = base ? may_derive(trace, meta, base) : -1;
        if (may < 0) return NULL;
        known = may;
    }
    for (Py_ssize_t at = 0; known && PyDict_Next(given[2], &at, &key, &value);) {
        int may = PyUnicode_CheckExact(key) ? may_hold(trace, value) : 0;
        if (may < 0) return NULL;
        known = may;
    }
    if (!known) return nxpy__stopped(loop, function);
    PyObject *parts = PyTuple_Pack(3, given[0], given[1], given[2]), *keywords = n_names ? PyDict_New() : NULL;
    for (Py_ssize_t k = 0; keywords && k < n_names; k++) {
        if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(kw_names, k), given[3 + k]) < 0) Py_CLEAR(keywords);
    }
    trace->n_making++; /* __init_subclass__ and __set_name__ get the class */
    PyObject *made = parts && (keywords || !n_names) ? PyType_Type.tp_new(meta, parts, keywords) : NULL;
    trace->n_making--;
    Py_XDECREF(parts);
    Py_XDECREF(keywords);
    if (!made || trace->stop) nxpy__stop_error(trace);
    else if (nxpy__born(trace, made) < 0) Py_CLEAR(made);
    return made;
}

static bool use_each(nxpy_loop *loop, PyObject **args, Py_ssize_t n) {
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *used = nxpy__use(loop->trace, args[k]);
        if (!used) return false;
        Py_SETREF(args[k], Py_NewRef(used));
    }
    return true;
}

/* type.__new__(meta, ...), which a metaclass calls. */
PyObject *nxpy__special_type_new(ARGS) {
    if (!use_each(loop, args, n)) return NULL;
    bool meta = n > 3 && PyType_Check(args[0]) && PyType_IsSubtype((PyTypeObject *)args[0], &PyType_Type);
    return meta ? new_class(loop, function, (PyTypeObject *)args[0], args + 1, n - 1, kw_names) : nxpy__stopped(loop, function);
}

PyObject *nxpy__make_class(ARGS) {
    return use_each(loop, args, n) ? new_class(loop, function, &PyType_Type, args, n, kw_names) : NULL;
}

/* ---- the class statement --------------------------------------------------------------------------------------------- */
/* The metaclass: the one that is given, or of the first base, if it is a class of all others'. Lent; NULL: stopped, or an exception. */
static PyTypeObject *metaclass_of(nxpy_loop *loop, PyObject *function, PyObject *given, PyObject **bases, Py_ssize_t n) {
    PyTypeObject *meta = given ? (PyTypeObject *)given : &PyType_Type;
    bool known = PyType_Check(meta);
    for (Py_ssize_t k = 0; known && k < n; k++) {
        PyTypeObject *type = Py_TYPE(bases[k]);
        known = PyType_Check(bases[k]); /* else it says by __mro_entries__ what stands for it */
        if (known && PyType_IsSubtype(type, meta)) meta = type;
        else if (known) known = PyType_IsSubtype(meta, type);
    }
    PyObject *prepare, *ordinary = nxpy_type_lookup(&PyType_Type, nxpy__name("__prepare__"));
    if (known && nxpy__type_value(loop->trace, meta, "__prepare__", &prepare) < 0) return NULL;
    if (known && prepare == ordinary && nxpy__fixed(loop->trace, (PyObject *)meta) == 0) return meta;
    if (!loop->trace->stop) nxpy__stopped(loop, function);
    return NULL;
}

/* The namespace that the body has filled, born. New reference. */
static PyObject *run_body(nxpy_loop *loop, PyObject *body) {
    nxpy_trace *trace = loop->trace;
    PyObject *space = PyDict_New();
    if (!space || nxpy__born(trace, space) < 0) return Py_XDECREF(space), NULL;
    PyObject *done = PyEval_EvalCodeEx(PyFunction_GET_CODE(body), PyFunction_GET_GLOBALS(body), space, NULL, 0, NULL, 0, NULL, 0, NULL,
                                       PyFunction_GET_CLOSURE(body));
    if (!done || trace->stop) Py_CLEAR(space);
    Py_XDECREF(done);
    return space;
}

/* __build_class__(body, name, *bases, metaclass=type, **keywords) */
PyObject *nxpy__special_build_class(ARGS) {
    nxpy_trace *trace = loop->trace;
    if (!use_each(loop, args, n)) return NULL;
    Py_ssize_t n_names = kw_names ? PyTuple_GET_SIZE(kw_names) : 0, n_bases = n - n_names - 2, given = -1;
    if (n_bases < 0 || !PyFunction_Check(args[0]) || !nxpy__is_born(trace, args[0])) return nxpy__stopped(loop, function);
    for (Py_ssize_t k = 0; k < n_names; k++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw_names, k), "metaclass") == 0) given = k;
    }
    PyTypeObject *meta = metaclass_of(loop, function, given < 0 ? NULL : args[n - n_names + given], args + 2, n_bases);
    PyObject *space = meta ? run_body(loop, args[0]) : NULL, *bases = space ? PyTuple_New(n_bases) : NULL, *names = NULL;
    PyObject **all = bases ? nx_alloc(sizeof *all * (size_t)(n + 3)) : NULL, *made = NULL;
    for (Py_ssize_t k = 0; bases && k < n_bases; k++) PyTuple_SET_ITEM(bases, k, Py_NewRef(args[2 + k]));
    if (all && nxpy__born(trace, bases) == 0) {
        PyObject *list = PyList_New(0);
        Py_ssize_t n_all = 0;
        all[n_all++] = Py_NewRef(args[1]);
        all[n_all++] = Py_NewRef(bases);
        all[n_all++] = Py_NewRef(space);
        for (Py_ssize_t k = 0; list && k < n_names; k++) {
            if (k == given) continue;
            all[n_all++] = Py_NewRef(args[n - n_names + k]);
            if (PyList_Append(list, PyTuple_GET_ITEM(kw_names, k)) < 0) Py_CLEAR(list);
        }
        names = list && PyList_GET_SIZE(list) ? PyList_AsTuple(list) : NULL;
        bool whole = list && (names || !PyList_GET_SIZE(list));
        bool plain = meta == &PyType_Type;
        if (whole && plain) made = new_class(loop, function, meta, all, n_all, names);
        else if (whole) made = nxpy__call(loop, (PyObject *)meta, all, n_all, names);
        for (Py_ssize_t k = 0; k < n_all; k++) Py_DECREF(all[k]);
        Py_XDECREF(list);
    }
    nx_free(all);
    Py_XDECREF(names);
    Py_XDECREF(bases);
    Py_XDECREF(space);
    if (!made) nxpy__stop_error(trace);
    return made;
}

/* ---- dataclasses ----------------------------------------------------------------------------------------------------- */
/* What the library has put into a class that the trace made: functions with closures, fields. All of it is the trace's. */
static int take_in(nxpy_trace *trace, PyObject *value, int depth) {
    if (!value || depth > 4 || nxpy__note_find(trace, value) || nxpy_constant_check(value) || PyType_Check(value)) {
        return value && PyType_Check(value) ? nxpy__fixed(trace, value) : 0;
    }
    PyObject *key, *part, *made = NULL;
    const char *type = Py_TYPE(value)->tp_name;
    bool ours = PyFunction_Check(value) || PyCell_Check(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value) ||
                strcmp(type, "Field") == 0 || strcmp(type, "_DataclassParams") == 0;
    int done = ours ? nxpy__born(trace, value) : nxpy__fixed(trace, value);
    if (PyFunction_Check(value)) {
        PyFunctionObject *function = (PyFunctionObject *)value;
        PyObject *const parts[] = {function->func_closure, function->func_defaults, function->func_kwdefaults, function->func_dict};
        for (int k = 0; done == 0 && k < NX_COUNT(parts); k++) done = take_in(trace, parts[k], depth + 1);
    } else if (PyCell_Check(value)) {
        done = take_in(trace, PyCell_GET(value), depth + 1);
    } else if (PyTuple_CheckExact(value)) {
        for (Py_ssize_t k = 0; done == 0 && k < PyTuple_GET_SIZE(value); k++) done = take_in(trace, PyTuple_GET_ITEM(value, k), depth + 1);
    } else if (PyDict_CheckExact(value)) {
        for (Py_ssize_t at = 0; done == 0 && PyDict_Next(value, &at, &key, &part);) done = take_in(trace, part, depth + 1);
    } else if (ours && (made = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__slots__"))) {
        for (Py_ssize_t k = 0; done == 0 && PyTuple_Check(made) && k < PyTuple_GET_SIZE(made); k++) {
            part = PyObject_GetAttr(value, PyTuple_GET_ITEM(made, k));
            done = part ? take_in(trace, part, depth + 1) : -1;
            Py_XDECREF(part); /* value has it */
        }
        Py_DECREF(made);
    }
    if (PyErr_Occurred() && !trace->stop) PyErr_Clear();
    return done;
}

/* dataclasses' own work on a class of the trace: what hangs on the class alone, so that it runs outside of the trace. */
PyObject *nxpy__special_dataclass(ARGS) {
    static const char *const of_bases[] = {"__dataclass_fields__", "__dataclass_params__", "__setattr__", "__delattr__"};
    nxpy_trace *trace = loop->trace;
    if (kw_names || n < 10 || !use_each(loop, args, n)) return trace->stop ? NULL : nxpy__stopped(loop, function);
    bool known = PyType_Check(args[0]) && nxpy__is_born(trace, args[0]) && args[9] == Py_False; /* slots: another class */
    for (Py_ssize_t k = 1; known && k < n; k++) known = nxpy_constant_check(args[k]);
    PyObject *order = known ? ((PyTypeObject *)args[0])->tp_mro : NULL, *found, *key, *value;
    for (Py_ssize_t k = 1; order && k < PyTuple_GET_SIZE(order); k++) {
        for (int j = 0; j < NX_COUNT(of_bases); j++) {
            if (nxpy__type_value(trace, (PyTypeObject *)PyTuple_GET_ITEM(order, k), of_bases[j], &found) < 0) return NULL;
        }
    }
    if (!known) return nxpy__stopped(loop, function);
    PyObject *dict = nxpy_type_dict((PyTypeObject *)args[0]), *before = PyDict_Copy(dict);
    nxpy__doing.paused++;
    PyObject *made = before ? PyObject_Vectorcall(function, args, (size_t)n, NULL) : NULL;
    nxpy__doing.paused--;
    PyObject *after = made ? PyDict_Copy(dict) : NULL, *rest = after ? PyTuple_New(n - 1) : NULL;
    for (Py_ssize_t k = 1; rest && k < n; k++) PyTuple_SET_ITEM(rest, k - 1, Py_NewRef(args[k]));
    int done = rest ? 0 : -1;
    for (Py_ssize_t at = 0; done == 0 && PyDict_Next(after, &at, &key, &value);) {
        if (!PyDict_GetItem(before, key)) done = take_in(trace, value, 0);
    }
    nxpy_note *note = done == 0 ? nxpy__note_find(trace, args[0]) : NULL;
    if (note) Py_XSETREF(note->made, PyTuple_Pack(4, function, rest, before, after));
    if (done < 0 || !note->made) Py_CLEAR(made);
    Py_XDECREF(before);
    Py_XDECREF(after);
    Py_XDECREF(rest);
    if (!made) nxpy__stop_error(trace);
    return made;
}
