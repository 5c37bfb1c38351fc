/* Classes that are called, and functions of C that run code of the program or change something, done as the loop does such
 * things.
 *
 * In: arguments from the stack. Out: what the function returns, not yet admitted; instances, born in the trace.
 * What must hold: the same result and exceptions as the function's own; whatever decides is guarded by the lookups that
 * are used. calls.def says which functions come here. __new__ and __init__ of Python are inlined, those of C are object's, a
 * tuple's or an exception's; a class with __del__ is not made, since nobody could say when its instances die.
 * Next: calls.def. */
#include "loop/private.h"

/* ---- making -------------------------------------------------------------------------------------------------------- */
/* The arguments as C constructors take them. */
static int pack(PyObject **args, Py_ssize_t n, PyObject *kw_names, PyObject **tuple, PyObject **dict) {
    Py_ssize_t n_names = kw_names ? PyTuple_GET_SIZE(kw_names) : 0, n_plain = n - n_names;
    *dict = n_names ? PyDict_New() : NULL;
    *tuple = PyTuple_New(n_plain);
    for (Py_ssize_t k = 0; *tuple && k < n_plain; k++) PyTuple_SET_ITEM(*tuple, k, Py_NewRef(args[k]));
    for (Py_ssize_t k = 0; *dict && k < n_names; k++) {
        if (PyDict_SetItem(*dict, PyTuple_GET_ITEM(kw_names, k), args[n_plain + k]) < 0) Py_CLEAR(*dict);
    }
    if (*tuple && (*dict || !n_names)) return 0;
    Py_CLEAR(*tuple);
    Py_CLEAR(*dict);
    return -1;
}

static PyObject *stop_class(nxpy_trace *trace, PyTypeObject *type, const char *why) {
    nxpy__stop(trace, NXPY_BREAK_FUNCTION, "%.200s%s", type->tp_name, why);
    return NULL;
}

/* A call of `function` with `first` in front. */
static PyObject *call_first(nxpy_loop *loop, PyObject *function, PyObject *first, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    PyObject **all = nx_alloc(sizeof *all * (size_t)(n + 1)), *result;
    if (!all) {
        nxpy_raise(nx_fail_memory(sizeof *all * (size_t)(n + 1)));
        nxpy__stop_error(loop->trace);
        return NULL;
    }
    for (Py_ssize_t k = 0; k <= n; k++) all[k] = Py_NewRef(k ? args[k - 1] : first);
    result = nxpy__call(loop, function, all, n + 1, kw_names);
    for (Py_ssize_t k = 0; k <= n; k++) Py_DECREF(all[k]);
    nx_free(all);
    return result;
}

/* Its constructor of C makes an empty one, which __init__ fills. */
static bool is_filled(const PyTypeObject *type) {
    return type->tp_new == PyDict_Type.tp_new || type->tp_new == PyODict_Type.tp_new || type->tp_new == PyList_Type.tp_new;
}

static PyObject *make_tuple(nxpy_loop *loop, PyTypeObject *type, PyObject *from) {
    PyObject *tuple = nxpy__sequence(loop, from, true), *args = tuple ? PyTuple_Pack(1, tuple) : NULL;
    PyObject *made = args ? PyTuple_Type.tp_new(type, args, NULL) : NULL;
    Py_XDECREF(tuple);
    Py_XDECREF(args);
    if (!made) nxpy__stop_error(loop->trace);
    if (made && nxpy__born(loop->trace, made) < 0) Py_CLEAR(made);
    return made;
}

static PyObject *make_new(nxpy_loop *loop, PyTypeObject *type, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *found, *tuple, *dict, *made = NULL;
    if (nxpy__type_value(trace, type, "__new__", &found) < 0) return NULL;
    if (found && Py_TYPE(found) == &PyStaticMethod_Type) {
        PyObject *inner = PyObject_GetAttrString(found, "__func__");
        bool known = inner && nxpy__fixed(trace, inner) == 0;
        made = known ? call_first(loop, inner, (PyObject *)type, args, n, kw_names) : NULL;
        Py_XDECREF(inner);
        if (made && nxpy__admit(trace, made) < 0) Py_CLEAR(made);
        return made;
    }
    bool exception = PyType_IsSubtype(type, (PyTypeObject *)PyExc_BaseException);
    if (type->tp_new == PyType_Type.tp_new && found) return call_first(loop, found, (PyObject *)type, args, n, kw_names);
    bool tuple_like = type->tp_new == PyTuple_Type.tp_new && n == 1 && !kw_names;
    if (tuple_like) return make_tuple(loop, type, args[0]);
    if (type->tp_new != PyBaseObject_Type.tp_new && !exception && !is_filled(type)) return stop_class(trace, type, "");
    if (pack(args, n, kw_names, &tuple, &dict) == 0) made = type->tp_new(type, tuple, dict);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    if (!made) nxpy__stop_error(trace);
    if (made && nxpy__born(trace, made) < 0) Py_CLEAR(made);
    return made;
}

static int run_init(nxpy_loop *loop, PyObject *object, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *found, *tuple, *dict;
    if (nxpy__type_value(trace, type, "__init__", &found) < 0) return -1;
    if (found && (PyFunction_Check(found) || is_filled(type))) {
        PyObject *result = call_first(loop, found, object, args, n, kw_names);
        if (!result) return -1;
        bool none = result == Py_None;
        if (!none) PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result)->tp_name);
        Py_DECREF(result);
        return none ? 0 : nxpy__stop_error(trace);
    }
    if (!found || Py_TYPE(found) != &PyWrapperDescr_Type) return stop_class(trace, type, ".__init__"), -1;
    int done = pack(args, n, kw_names, &tuple, &dict);
    if (done == 0) done = type->tp_init(object, tuple, dict);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return done < 0 ? nxpy__stop_error(trace) : 0;
}

static bool is_struct(PyTypeObject *type) {
    PyObject *name = PyType_IsSubtype(type, &PyTuple_Type) ? nxpy__name("n_sequence_fields") : NULL;
    return name && nxpy_type_lookup(type, name);
}

/* torch.return_types.max(parts), whose class is C code. */
static PyObject *make_struct(nxpy_loop *loop, PyTypeObject *type, PyObject *from) {
    PyObject *tuple = nxpy__sequence(loop, from, true), *made = tuple ? PyObject_CallOneArg((PyObject *)type, tuple) : NULL;
    Py_XDECREF(tuple);
    if (!made) nxpy__stop_error(loop->trace);
    if (made && nxpy__born(loop->trace, made) < 0) Py_CLEAR(made);
    return made;
}

PyObject *nxpy__construct(nxpy_loop *loop, PyTypeObject *type, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *found;
    bool exception = PyType_IsSubtype(type, (PyTypeObject *)PyExc_BaseException), heap = nxpy__may_change(type);
    if (n == 1 && !kw_names && is_struct(type)) return make_struct(loop, type, args[0]);
    if (Py_TYPE(type)->tp_call != PyType_Type.tp_call || (!heap && !exception && type != &PyBaseObject_Type)) {
        return stop_class(trace, type, "");
    }
    if (nxpy__type_value(trace, type, "__del__", &found) < 0) return NULL;
    if (found) return stop_class(trace, type, ", a class with __del__");
    PyObject *object = make_new(loop, type, args, n, kw_names);
    if (!object || !PyType_IsSubtype(Py_TYPE(object), type)) return object;
    if (run_init(loop, object, args, n, kw_names) < 0) Py_CLEAR(object);
    return object;
}

/* ---- functions ----------------------------------------------------------------------------------------------------------- */
#define ARGS nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names

PyObject *nxpy__stopped(nxpy_loop *loop, PyObject *function) {
    PyObject *name = PyObject_GetAttrString(function, "__qualname__");
    if (!name) PyErr_Clear();
    nxpy__stop(loop->trace, NXPY_BREAK_FUNCTION, "%S", name ? name : function);
    Py_XDECREF(name);
    return NULL;
}

bool nxpy__use_all(ARGS, Py_ssize_t least, Py_ssize_t most) {
    if (n < least || n > most || kw_names) return nxpy__stopped(loop, function), false;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *used = nxpy__use(loop->trace, args[k]);
        if (!used) return false;
        Py_SETREF(args[k], Py_NewRef(used));
    }
    return true;
}
#define USE_ALL(least, most) \
    if (!nxpy__use_all(loop, function, args, n, kw_names, least, most)) return NULL

/* ---- attributes ---------------------------------------------------------------------------------------------------- */
/* 1: *out; 0: there is none; -1: stopped, or another exception. */
static int look_up(nxpy_loop *loop, PyObject *object, PyObject *name, PyObject **out) {
    if (!PyUnicode_CheckExact(name)) return nxpy__stop(loop->trace, NXPY_BREAK_ATTRIBUTE, "a name that is no string");
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    int found = nxpy__attribute(loop->trace, object, name, false, out);
    Py_DECREF(name); /* the row that it made keeps it */
    if (found >= 0) return 1;
    if (loop->trace->stop || !PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 0;
}

PyObject *nxpy__special_hasattr(ARGS) {
    USE_ALL(2, 2);
    PyObject *value = NULL;
    int there = look_up(loop, args[0], args[1], &value);
    Py_XDECREF(value);
    return there < 0 ? NULL : PyBool_FromLong(there);
}

PyObject *nxpy__special_getattr(ARGS) {
    USE_ALL(2, 3);
    PyObject *value = NULL;
    if (n == 2) return nxpy__attribute(loop->trace, args[0], args[1], false, &value) < 0 ? NULL : value;
    int there = look_up(loop, args[0], args[1], &value);
    return there < 0 ? NULL : there ? value : Py_NewRef(args[2]);
}

PyObject *nxpy__special_setattr(ARGS) {
    USE_ALL(3, 3);
    return nxpy__store_attribute(loop, args[0], args[1], args[2]) < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *nxpy__special_delattr(ARGS) {
    USE_ALL(2, 2);
    return nxpy__store_attribute(loop, args[0], args[1], NULL) < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *nxpy__special_object_getattribute(ARGS) {
    USE_ALL(2, 2);
    PyObject *value = NULL;
    if (!PyUnicode_CheckExact(args[1])) return nxpy__stopped(loop, function);
    PyObject *name = Py_NewRef(args[1]);
    PyUnicode_InternInPlace(&name);
    int found = nxpy__plain_attribute(loop->trace, args[0], name, &value);
    Py_DECREF(name); /* the row that it made keeps it */
    return found < 0 ? NULL : value;
}

PyObject *nxpy__special_object_setattr(ARGS) {
    USE_ALL(3, 3);
    return nxpy__store_plain(loop->trace, args[0], args[1], args[2]) < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *nxpy__special_object_delattr(ARGS) {
    USE_ALL(2, 2);
    return nxpy__store_plain(loop->trace, args[0], args[1], NULL) < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *nxpy__special_vars(ARGS) {
    USE_ALL(1, 1);
    PyObject *name = nxpy__name("__dict__"), *value = NULL;
    if (name && nxpy__attribute(loop->trace, args[0], name, false, &value) < 0) value = NULL;
    return value;
}

/* Which names a dict has stays as it is; of what the trace made nothing is guarded. 0 or -1. */
static int note_names(nxpy_trace *trace, PyObject *dict) {
    PyObject *keys = nxpy__is_born(trace, dict) ? NULL : PySequence_Tuple(dict);
    int slot = keys && nxpy__fixed(trace, dict) == 0 ? nxpy__slot_of(trace, dict) : -1;
    int done = nxpy__is_born(trace, dict) ? 0 : slot < 0 ? -1 : nxpy__check(trace, NXPY_ROW_KEYS, slot, keys, 0);
    Py_XDECREF(keys);
    return done < 0 ? nxpy__stop_error(trace) : 0;
}

static int note_names_of_class(nxpy_trace *trace, PyTypeObject *type) {
    int done = 0;
    for (Py_ssize_t k = 0; done == 0 && k < PyTuple_GET_SIZE(type->tp_mro); k++) {
        PyTypeObject *at = (PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, k);
        if (nxpy__has_written_fields(trace, (PyObject *)at)) return 1;
        if (nxpy__may_change(at) && !nxpy__is_born(trace, (PyObject *)at)) done = note_names(trace, nxpy_type_dict(at));
    }
    return done;
}

/* dir(class) and dir(instance) by object's own method: the names of the classes, and what the instance itself holds. */
PyObject *nxpy__special_dir(ARGS) {
    USE_ALL(1, 1);
    nxpy_trace *trace = loop->trace;
    PyTypeObject *type = PyType_Check(args[0]) ? (PyTypeObject *)args[0] : Py_TYPE(args[0]);
    PyObject *found = NULL, *name = nxpy__name("__dict__"), *dict = NULL;
    bool class = PyType_Check(args[0]), known = name && (class ? Py_TYPE(args[0]) == &PyType_Type : nxpy__is_instance(args[0]));
    if (known && !class) {
        if (nxpy__type_value(trace, type, "__dir__", &found) < 0) return NULL;
        known = found == nxpy_type_lookup(&PyBaseObject_Type, nxpy__name("__dir__")) && !nxpy_type_lookup(type, nxpy__name("__slots__"));
    }
    int done = known ? note_names_of_class(trace, type) : 1;
    if (done == 0 && !class) done = nxpy__attribute(trace, args[0], name, false, &dict);
    if (done == 0 && dict) done = note_names(trace, dict);
    Py_XDECREF(dict);
    if (done) return trace->stop || done < 0 ? NULL : nxpy__stopped(loop, function);
    PyObject *names = PyObject_Vectorcall(function, args, 1, NULL);
    if (!names) nxpy__stop_error(trace);
    return names;
}

PyObject *nxpy__special_globals(ARGS) {
    USE_ALL(0, 0);
    PyObject *globals = loop->view.globals;
    if (!PyDict_CheckExact(globals) || nxpy__fixed(loop->trace, globals) < 0) return nxpy__stopped(loop, function);
    nxpy__note_find(loop->trace, globals)->is_namespace = true;
    return Py_NewRef(globals);
}

/* A new dict of what the function's variables are now. */
PyObject *nxpy__special_locals(ARGS) {
    USE_ALL(0, 0);
    PyObject *made = PyDict_New();
    for (int k = 0; made && k < loop->view.n_locals; k++) {
        PyObject *value = nxpy_value(&loop->view, k);
        if (value && nxpy__fetch_local(loop, k, value) < 0) Py_CLEAR(made);
        if (made && value && PyCell_Check(value)) { /* of a closure */
            Py_CLEAR(made);
            return nxpy__stopped(loop, function);
        }
        if (made && value && PyDict_SetItem(made, nxpy_local_name(loop->view.code, k), value) < 0) Py_CLEAR(made);
    }
    if (!made) nxpy__stop_error(loop->trace);
    return made;
}

/* ---- classes ------------------------------------------------------------------------------------------------------------ */
PyObject *nxpy__special_type(ARGS) {
    if (n - (kw_names ? PyTuple_GET_SIZE(kw_names) : 0) == 3) return nxpy__make_class(loop, function, args, n, kw_names);
    USE_ALL(1, 1);
    PyTypeObject *type = nxpy__shown(args[0]) ? Py_TYPE(nxpy__shown(args[0])->like) : nxpy_class_of(args[0]);
    const nxpy_note *note = nxpy__note_find(loop->trace, args[0]);
    if (note && note->kind == NXPY_NOTE_SOURCE && !nxpy_constant_check(args[0]) &&
        nxpy__check(loop->trace, NXPY_ROW_TYPE, note->slot, (PyObject *)type, 0) < 0) return NULL;
    return Py_NewRef(type);
}

/* Zero arguments: the compiler's __class__ and the first local of the frame, which the loop has made the thread's. */
PyObject *nxpy__special_super(ARGS) {
    USE_ALL(0, 2);
    PyObject *first = nxpy_value(&loop->view, 0);
    if (n == 0 && first && !PyCell_Check(first)) {
        if (nxpy__fetch_local(loop, 0, first) < 0 || !nxpy__use(loop->trace, first)) return NULL;
    }
    PyObject *made = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    if (!made) nxpy__stop_error(loop->trace);
    return made;
}

/* ---- abstract base classes ----------------------------------------------------------------------------------------- */
static PyObject *abc_meta, *abc_dump; /* ABCMeta and _abc._get_dump; kept */

int nxpy__abc_init(void) {
    PyObject *abc = PyImport_ImportModule("abc"), *inner = abc ? PyImport_ImportModule("_abc") : NULL;
    abc_meta = abc ? PyObject_GetAttrString(abc, "ABCMeta") : NULL;
    abc_dump = inner ? PyObject_GetAttrString(inner, "_get_dump") : NULL;
    Py_XDECREF(abc);
    Py_XDECREF(inner);
    return abc_meta && abc_dump ? nxpy_abc_init() : -1;
}

/* What the caches of `abstract` say of a class: they are read in C, while asking the class would run Python code of abc's in
 * CPython's own loop. 1, 0, or -1: nothing, or an exception. */
static int abc_cached(PyObject *abstract, PyObject *type) {
    PyObject *dump = PyObject_CallOneArg(abc_dump, abstract); /* (registry, cache, negative cache, its count) */
    PyObject *weak = dump ? PyWeakref_NewRef(type, NULL) : NULL;
    int cached = weak ? PySet_Contains(PyTuple_GET_ITEM(dump, 1), weak) : -1, answer = cached == 1 ? 1 : -1;
    if (cached == 0 && PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(dump, 3)) == *nxpy_abc_count) {
        answer = PySet_Contains(PyTuple_GET_ITEM(dump, 2), weak) == 1 ? 0 : -1;
    }
    Py_XDECREF(dump);
    Py_XDECREF(weak);
    return answer;
}

/* What isinstance and issubclass say of `type`. A class that they were never asked about is asked when the trace is over, and
 * the trace begins again. New reference; NULL: stopped. */
static PyObject *abc_answer(nxpy_loop *loop, PyObject *function, PyObject *abstract, PyObject *type) {
    nxpy_trace *trace = loop->trace;
    bool plain = PyType_Check(type) && PyType_Check(abstract) && nxpy__is_key(type) && nxpy__is_key(abstract) &&
                 !nxpy__is_born(trace, type) && !nxpy__is_born(trace, abstract);
    if (!plain || !nxpy_abc_count) return nxpy__stopped(loop, function);
    if (nxpy__check(trace, NXPY_ROW_ABC, -1, NULL, (int64_t)*nxpy_abc_count) < 0) return NULL;
    int answer = abc_cached(abstract, type);
    if (answer >= 0) return PyBool_FromLong(answer);
    PyErr_Clear();
    PyObject *question = PyTuple_Pack(2, type, abstract), *known = question ? nxpy__ask(trace, question, NULL) : NULL;
    Py_XDECREF(question);
    if (!known && !trace->stop) nxpy__stop_error(trace);
    return Py_XNewRef(known);
}

PyObject *nxpy__ask(nxpy_trace *trace, PyObject *question, PyObject *arguments) {
    PyObject *known = PyDict_GetItemWithError(trace->answers, question); /* (answer,), or None: it raises */
    if (known && known != Py_None) return PyTuple_GET_ITEM(known, 0);
    if (PyErr_Occurred()) return nxpy__stop_error(trace), NULL;
    nxpy__stop(trace, NXPY_BREAK_FUNCTION, "%S", PyTuple_GET_ITEM(question, 0));
    if (known || trace->ask) return NULL;
    trace->ask = Py_NewRef(question);
    trace->ask_arguments = Py_XNewRef(arguments);
    trace->clean = false;
    return NULL;
}

int nxpy__answer(nxpy_trace *trace) {
    PyObject *first = PyTuple_GET_ITEM(trace->ask, 0), *second = PyTuple_GET_ITEM(trace->ask, 1), *found = NULL;
    if (trace->ask_arguments) {
        PyObject *names = PyTuple_GET_ITEM(trace->ask, 2), *given = trace->ask_arguments;
        Py_ssize_t n = PyTuple_GET_SIZE(given) - (names == Py_None ? 0 : PyTuple_GET_SIZE(names));
        found = PyObject_Vectorcall(first, ((PyTupleObject *)given)->ob_item, (size_t)n, names == Py_None ? NULL : names);
    } else {
        int is = PyObject_IsSubclass(first, second);
        found = is < 0 ? NULL : PyBool_FromLong(is);
    }
    if (!found) nxpy_forget_error(); /* the program will meet it */
    PyObject *answer = found ? PyTuple_Pack(1, found) : Py_NewRef(Py_None);
    int done = answer ? PyDict_SetItem(trace->answers, trace->ask, answer) : -1;
    Py_XDECREF(found);
    Py_XDECREF(answer);
    return done;
}

/* The class that an instance says it has; NULL: code of the user's says it. */
static PyObject *class_of(PyObject *object) {
    if (nxpy__shown(object)) return (PyObject *)Py_TYPE(nxpy__shown(object)->like);
    if (nxpy_symnumber_check(object)) return (PyObject *)nxpy_class_of(object);
    PyObject *name = nxpy__name("__class__"), *type = NULL;
    if (name && nxpy_type_lookup(Py_TYPE(object), name) == nxpy_type_lookup(&PyBaseObject_Type, name)) type = (PyObject *)Py_TYPE(object);
    return type;
}

/* Whether `abstract` answers by ABCMeta's own method of this name, guarded. 1, 0, -1: stopped. */
static int asks_abc(nxpy_trace *trace, PyObject *abstract, const char *method) {
    PyObject *found, *name;
    if (!PyType_Check(abstract) || Py_TYPE(abstract) == &PyType_Type) return 0;
    if (!(name = nxpy__name(method))) return nxpy__stop_error(trace);
    PyObject *own = nxpy_type_lookup((PyTypeObject *)abc_meta, name);
    if (nxpy__type_value(trace, Py_TYPE(abstract), method, &found) < 0) return -1;
    return found && found == own;
}

PyObject *nxpy__special_isinstance(ARGS) {
    USE_ALL(2, 2);
    nxpy_trace *trace = loop->trace;
    if (nxpy__note_elements(trace, args[1]) < 0) return NULL;
    const nxpy_note *note = nxpy__note_find(trace, args[0]);
    PyObject *type = (PyObject *)Py_TYPE(args[0]);
    if (note && note->kind == NXPY_NOTE_SOURCE && !PyType_Check(args[0]) &&
        nxpy__check(trace, NXPY_ROW_TYPE, note->slot, type, 0) < 0) return NULL;
    bool subclass = strcmp(((PyCFunctionObject *)function)->m_ml->ml_name, "issubclass") == 0;
    int abstract = !subclass && type == args[1] ? 0 : asks_abc(trace, args[1], subclass ? "__subclasscheck__" : "__instancecheck__");
    if (abstract < 0) return NULL;
    PyObject *of = !abstract ? NULL : subclass ? args[0] : class_of(args[0]);
    if (abstract) return of ? abc_answer(loop, function, args[1], of) : nxpy__stopped(loop, function);
    if (nxpy__shown(args[0])) Py_SETREF(args[0], Py_NewRef(nxpy__shown(args[0])->like));
    PyObject *result = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    if (!result) nxpy__stop_error(trace);
    return result;
}

/* _abc_instancecheck(abstract, instance), which ABCMeta's method calls. */
PyObject *nxpy__special_abc_instance(ARGS) {
    USE_ALL(2, 2);
    PyObject *of = class_of(args[1]);
    return of ? abc_answer(loop, function, args[0], of) : nxpy__stopped(loop, function);
}

PyObject *nxpy__special_abc_subclass(ARGS) {
    USE_ALL(2, 2);
    return abc_answer(loop, function, args[0], args[1]);
}

PyObject *nxpy__special_object_new(ARGS) {
    USE_ALL(1, 64);
    PyTypeObject *type = (PyTypeObject *)args[0];
    PyObject *del;
    if (!PyType_Check(args[0]) || !nxpy__may_change(type) || PyType_IsSubtype(type, &nxpy_tensor_type)) {
        return nxpy__stopped(loop, function);
    }
    if (nxpy__type_value(loop->trace, type, "__del__", &del) < 0) return NULL;
    if (del) return nxpy__stopped(loop, function);
    PyObject *made = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    if (!made) nxpy__stop_error(loop->trace);
    else if (!nxpy__note_add(loop->trace, made, NXPY_NOTE_BORN, -1)) Py_CLEAR(made);
    return made;
}

PyObject *nxpy__special_tuple_new(ARGS) {
    USE_ALL(2, 2);
    if (!PyType_Check(args[0]) || !PyType_IsSubtype((PyTypeObject *)args[0], &PyTuple_Type)) return nxpy__stopped(loop, function);
    PyObject *tuple = nxpy__sequence(loop, args[1], true), *call[] = {args[0], tuple};
    PyObject *made = tuple ? PyObject_Vectorcall(function, call, 2, NULL) : NULL;
    Py_XDECREF(tuple);
    if (!made) nxpy__stop_error(loop->trace);
    else if (!nxpy__note_find(loop->trace, made) && !nxpy__note_add(loop->trace, made, NXPY_NOTE_BORN, -1)) Py_CLEAR(made);
    return made;
}

PyObject *nxpy__special_object_init(ARGS) {
    USE_ALL(1, 1);
    return Py_NewRef(Py_None);
}

/* ---- dicts: one key matters ------------------------------------------------------------------------------------------------ */
PyObject *nxpy__special_dict_get(ARGS) {
    USE_ALL(2, 3);
    PyObject *value;
    PyObject *dict = nxpy__behind(loop->trace, args[0]);
    if (!PyDict_Check(dict) || !nxpy__is_key(args[1]) || nxpy__use_as_key(loop->trace, args[1]) < 0) return nxpy__stopped(loop, function);
    if (nxpy__dict_value(loop->trace, dict, args[1], &value) < 0) return NULL;
    return Py_NewRef(value ? value : n > 2 ? args[2] : Py_None);
}

PyObject *nxpy__special_dict_pop(ARGS) {
    USE_ALL(2, 3);
    PyObject *value;
    if (!PyDict_CheckExact(args[0]) || !nxpy__is_key(args[1])) return nxpy__stopped(loop, function);
    if (nxpy__dict_value(loop->trace, args[0], args[1], &value) < 0) return NULL;
    if (!value && n > 2) return Py_NewRef(args[2]);
    if (!value) {
        PyErr_SetObject(PyExc_KeyError, args[1]);
        return nxpy__stop_error(loop->trace), NULL;
    }
    Py_INCREF(value);
    if (nxpy__write_item(loop->trace, args[0], args[1], NULL) < 0) Py_CLEAR(value);
    return value;
}

/* ---- iteration ---------------------------------------------------------------------------------------------------------- */
PyObject *nxpy__special_iter(ARGS) {
    USE_ALL(1, 1);
    return nxpy__iterator(loop, args[0]);
}

PyObject *nxpy__special_next(ARGS) {
    USE_ALL(1, 2);
    nxpy_trace *trace = loop->trace;
    bool known = nxpy__is_born(trace, args[0]) && Py_TYPE(args[0])->tp_iternext;
    if (!known) {
        int python = nxpy__python_special(trace, args[0], "__next__");
        if (python == 0) nxpy__stop(trace, NXPY_BREAK_ITERATOR, "%.200s", Py_TYPE(args[0])->tp_name);
        if (python != 1) return NULL;
    }
    PyObject *value = Py_TYPE(args[0])->tp_iternext(args[0]);
    if (value) return value;
    if (!PyErr_Occurred()) PyErr_SetNone(PyExc_StopIteration);
    if (trace->stop || n < 2 || !PyErr_ExceptionMatches(PyExc_StopIteration)) return nxpy__stop_error(trace), NULL;
    PyErr_Clear();
    return Py_NewRef(args[1]);
}

/* ---- text ------------------------------------------------------------------------------------------------------------------ */
static int is_printable(nxpy_trace *trace, PyObject *o, int depth) {
    PyTypeObject *type = Py_TYPE(o);
    const nxpy_kind *kind = nxpy__kind(o);
    if (kind->code == NXPY_KIND_CLASS) return type->tp_repr == PyType_Type.tp_repr;
    if (kind->shown == NXPY_BY_OWN || nxpy_constant_check(o)) return 1; /* the text of a size fixes it */
    if (depth > 8) return 0;
    if (nxpy__is_exception(o) && nxpy__is_born(trace, o)) {
        PyObject *args = PyObject_GetAttrString(o, "args");
        int done = args ? is_printable(trace, args, depth + 1) : nxpy__stop_error(trace);
        Py_XDECREF(args);
        if (done != 1 || !nxpy__may_change(type)) return done;
    } else if (kind->shown == NXPY_BY_PARTS && kind->holds == NXPY_HOLDS_ITEMS) {
        if (nxpy__note_elements(trace, o) < 0) return -1;
        for (Py_ssize_t k = 0; k < Py_SIZE(o); k++) {
            int done = is_printable(trace, PySequence_Fast_GET_ITEM(o, k), depth + 1);
            if (done != 1) return done;
        }
        return 1;
    } else if (kind->shown == NXPY_BY_PARTS) {
        PyObject *key, *value;
        int done = nxpy__note_elements(trace, o) < 0 ? -1 : 1;
        for (Py_ssize_t at = 0; done == 1 && PyDict_CheckExact(o) && PyDict_Next(o, &at, &key, &value);) {
            done = is_printable(trace, key, depth + 1);
            if (done == 1) done = is_printable(trace, value, depth + 1);
        }
        return done;
    } else if (kind->shown == NXPY_BY_NEVER || !nxpy__may_change(type)) {
        return 0;
    }
    static const char *const names[] = {"__repr__", "__str__", "__format__"};
    bool python = false;
    for (int k = 0; k < NX_COUNT(names); k++) {
        PyObject *found;
        if (nxpy__type_value(trace, type, names[k], &found) < 0) return -1;
        python |= found && PyFunction_Check(found);
    }
    return python || nxpy__is_exception(o) ? 1 : 0; /* object's own shows an address */
}

int nxpy__is_printable(nxpy_trace *trace, PyObject *o) {
    int done = is_printable(trace, o, 0);
    return done == 0 ? nxpy__stop(trace, NXPY_BREAK_OPERATOR, "text of %.200s", Py_TYPE(o)->tp_name) : done < 0 ? -1 : 0;
}

static PyObject *as_text(ARGS) {
    for (Py_ssize_t k = 0; k < n; k++) {
        if (nxpy__is_printable(loop->trace, args[k]) < 0) return NULL;
    }
    PyObject *text = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    if (!text) nxpy__stop_error(loop->trace);
    return text;
}

PyObject *nxpy__special_text(ARGS) {
    USE_ALL(0, 3);
    return as_text(loop, function, args, n, kw_names);
}

PyObject *nxpy__special_str_format(ARGS) {
    Py_ssize_t n_all = n;
    for (Py_ssize_t k = 0; k < n_all; k++) {
        PyObject *used = nxpy__use(loop->trace, args[k]);
        if (!used || nxpy__is_printable(loop->trace, used) < 0) return NULL;
    }
    PyObject *text = PyObject_Vectorcall(function, args, (size_t)(n - (kw_names ? PyTuple_GET_SIZE(kw_names) : 0)), kw_names);
    if (!text) nxpy__stop_error(loop->trace);
    return text;
}

PyObject *nxpy__special_is(ARGS) {
    USE_ALL(2, 2);
    int same = nxpy__is(loop->trace, args[0], args[1]);
    return same < 0 ? NULL : PyBool_FromLong(same);
}

PyObject *nxpy__special_is_not(ARGS) {
    USE_ALL(2, 2);
    int same = nxpy__is(loop->trace, args[0], args[1]);
    return same < 0 ? NULL : PyBool_FromLong(!same);
}

/* operator.iadd and such: in place on a tensor, else of what has no part that changes. */
PyObject *nxpy__special_inplace(ARGS) {
    USE_ALL(2, 2);
    bool plain = nxpy_constant_check(args[0]) || nxpy_symnumber_check(args[0]) || nxpy__is_fake(loop->trace, args[0]);
    bool known = nxpy__is_fake(loop->trace, args[1]) || nxpy_constant_check(args[1]) || nxpy_symnumber_check(args[1]);
    if (!plain || !known) return nxpy__stopped(loop, function);
    PyObject *value = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    if (!value) nxpy__stop_error(loop->trace);
    return value;
}

/* What its hash says hangs on no address: constants, frozen dataclasses and tuples of such. */
static bool is_hashed_by_value(PyObject *o) {
    if (nxpy_constant_check(o)) return true;
    PyObject *names = nxpy__is_instance(o) ? nxpy__frozen_names(o) : NULL;
    bool tuple = PyTuple_CheckExact(o), plain = tuple || names;
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(o) : names ? PyList_GET_SIZE(names) : 0;
    for (Py_ssize_t k = 0; plain && k < n; k++) {
        plain = is_hashed_by_value(tuple ? PyTuple_GET_ITEM(o, k) : nxpy_instance_value(o, PyList_GET_ITEM(names, k)));
    }
    Py_XDECREF(names);
    return plain;
}

PyObject *nxpy__special_hash(ARGS) {
    USE_ALL(1, 1);
    if (!is_hashed_by_value(args[0])) return nxpy__stopped(loop, function);
    if (nxpy__use_as_key(loop->trace, args[0]) < 0) return NULL;
    PyObject *value = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    if (!value) nxpy__stop_error(loop->trace);
    return value;
}

/* The exception that is being handled. */
PyObject *nxpy__special_exception(ARGS) {
    USE_ALL(0, 0);
    PyObject *value = nxpy_handled(PyThreadState_Get());
    if (!value || value == Py_None) return Py_NewRef(Py_None);
    return nxpy__is_born(loop->trace, value) ? Py_NewRef(value) : nxpy__stopped(loop, function);
}

PyObject *nxpy__special_exc_info(ARGS) {
    USE_ALL(0, 0);
    PyObject *value = nxpy_handled(PyThreadState_Get());
    if (!value || value == Py_None) return PyTuple_Pack(3, Py_None, Py_None, Py_None);
    if (!nxpy__is_born(loop->trace, value)) return nxpy__stopped(loop, function);
    PyObject *type = (PyObject *)Py_TYPE(value);
    if (nxpy__fixed(loop->trace, type) < 0) return NULL;
    PyObject *traceback = PyException_GetTraceback(value), *all = PyTuple_Pack(3, type, value, traceback ? traceback : Py_None);
    Py_XDECREF(traceback);
    return all;
}

/* Of what existed before it is a constant, guarded. Tensors that are no parameters are others at each call. */
PyObject *nxpy__special_id(ARGS) {
    if (n != 1 || kw_names) return nxpy__stopped(loop, function);
    PyObject *use = nxpy__use(loop->trace, args[0]);
    const nxpy_note *note = use ? nxpy__note_find(loop->trace, use) : NULL;
    PyObject *real = note && note->is_input && note->real ? note->real : use;
    bool told = note && (note->kind == NXPY_NOTE_FIXED || note->kind == NXPY_NOTE_SOURCE || (note->is_input && note->real));
    bool made = use && (nxpy__is_born(loop->trace, use) || nxpy__is_made(use));
    if (made) return PyObject_CallFunction((PyObject *)&nxpy__id_type, "n", (Py_ssize_t)(intptr_t)use);
    if (!told || (nxpy_tensor_check(real) && !nxpy_tensor_get(real)->is_parameter)) return use ? nxpy__stopped(loop, function) : NULL;
    bool fixed = note->kind == NXPY_NOTE_FIXED;
    if (!fixed && nxpy__check(loop->trace, NXPY_ROW_ID, note->slot, real, 0) < 0) return NULL;
    return PyLong_FromVoidPtr(real);
}

/* ---- the thread's modes -------------------------------------------------------------------------------------------------- */
/* Gradients may be off for a part of a graph that has them. A graph that began without is compiled so: what a part of it with
 * them computes may be differentiated there, and has no history behind it. */
PyObject *nxpy__special_set_grad_enabled(ARGS) {
    USE_ALL(1, 1);
    int on = nxpy__truth(loop->trace, args[0]);
    if (on < 0) return NULL;
    nxpy_trace *trace = loop->trace;
    if (on && !trace->grad_at_start && trace->grads_on_at < 0) trace->grads_on_at = trace->root_loop->in.start;
    nx_grad_set_enabled(on);
    return Py_NewRef(Py_None);
}

/* function.__get__(object, class=None): the method that it is of the object. */
PyObject *nxpy__special_function_get(ARGS) {
    USE_ALL(2, 3);
    if (!PyFunction_Check(args[0])) return nxpy__stopped(loop, function);
    return args[1] == Py_None ? Py_NewRef(args[0]) : PyMethod_New(args[0], args[1]);
}

/* torch._dynamo.skip_frame: the frame that calls it runs uncompiled, which it does when it is a root. */
PyObject *nxpy__special_skip_frame(ARGS) {
    loop->trace->skips |= loop == loop->trace->root_loop;
    nxpy__stop(loop->trace, NXPY_BREAK_SKIPPED, "%s", ((PyCFunctionObject *)function)->m_ml->ml_name);
    return NULL;
}

/* No graph knows of it: a question whether it is on is asked outside. */
PyObject *nxpy__special_set_inference_mode(ARGS) {
    USE_ALL(1, 1);
    return Py_NewRef(Py_False);
}

/* A state of the thread is switched for real while the trace runs (autocast, whose casts are calls of the graph; whether a break
 * is an error). The trace's end puts it back. */
PyObject *nxpy__special_thread_state(ARGS) {
    USE_ALL(0, 3);
    PyObject *result = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    if (!result) return nxpy__stop_error(loop->trace), NULL;
    return result;
}
