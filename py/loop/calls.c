/* Handlers of calls.
 *
 * In: callables and arguments on the stack. Out: results, admitted to the side table.
 * What must hold: a Python function is entered by the ordinary call, which comes back through the hook (inlining); a
 * function of PyTorch's goes to the dispatcher, whose CAPTURE key records it; any other C callable must stand in
 * calls.def. Callables reached by a guarded path need no further guard.
 * Next: attributes.c for how callables are found. */
#include "loop/private.h"

#include "nn/nn.h"

enum { READS = 1, CHANGES, LOOKS, COMPUTES, HANDS_ON, APPENDS, ASKS, TORCH };
static nx_map calls;    /* callable -> what it does; filled once, holds for ever */
static nx_map specials; /* callable -> nxpy_special_fn */
PyTypeObject *nxpy__graph_class;

/* "" is builtins, "_C" the extension, "a:b" attribute b of module a, anything else an attribute of builtins. New reference. */
static PyObject *owner_of(const char *name, PyObject *extension) {
    if (strcmp(name, "_C") == 0) return Py_NewRef(extension);
    const char *colon = strchr(name, ':');
    PyObject *text = colon ? PyUnicode_FromStringAndSize(name, colon - name) : PyUnicode_FromString("builtins");
    bool of_extension = strncmp(name, "_C:", 3) == 0;
    PyObject *owner = of_extension ? Py_NewRef(extension) : text ? PyImport_Import(text) : NULL;
    const char *rest = colon ? colon + 1 : name;
    if (owner && *rest) Py_SETREF(owner, PyObject_GetAttrString(owner, rest));
    Py_XDECREF(text);
    return owner;
}

static int add_callable(nx_map *map, PyObject *callable, void *value) { /* keeps the callable */
    if (callable && nx_map_set(map, callable, value) == NX_OK) return 0;
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return -1;
}

/* Every function and class of a module of C. */
static int add_all(PyObject *module, int does) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(PyModule_GetDict(module), &at, &key, &value);) {
        if (!PyCFunction_CheckExact(value) && (!PyType_Check(value) || *PyUnicode_AsUTF8(key) == '_')) continue;
        if (add_callable(&calls, Py_NewRef(value), (void *)(intptr_t)does) < 0) return -1;
    }
    return 0;
}

/* dict.fromkeys, which is made anew at each look: the descriptor in its class or (super()) in one behind that, lent; NULL: not such a
 * method. */
static PyObject *class_method_of(PyObject *function) {
    PyObject *owner = PyCFunction_Check(function) ? PyCFunction_GET_SELF(function) : NULL, *found = NULL;
    PyObject *order = owner && PyType_Check(owner) ? ((PyTypeObject *)owner)->tp_mro : NULL;
    PyObject *name = order ? PyUnicode_FromString(((PyCFunctionObject *)function)->m_ml->ml_name) : NULL;
    for (Py_ssize_t k = 0; name && !found && k < PyTuple_GET_SIZE(order); k++) {
        found = PyDict_GetItemWithError(nxpy_type_dict((PyTypeObject *)PyTuple_GET_ITEM(order, k)), name);
        bool same = found && Py_TYPE(found) == &PyClassMethodDescr_Type &&
                    ((PyMethodDescrObject *)found)->d_method == ((PyCFunctionObject *)function)->m_ml;
        if (!same) found = NULL;
    }
    Py_XDECREF(name);
    return found;
}

/* What a backward of the trace calls. */
static PyObject *call_hook(PyObject *function, PyObject *value) {
    nxpy_trace *trace = nxpy__doing.paused ? NULL : nxpy__doing.trace;
    if (!trace) return PyObject_CallOneArg(function, value);
    PyObject *args[] = {Py_NewRef(value)};
    PyObject *result = nxpy__admit(trace, value) == 0 ? nxpy__call(trace->loop, function, args, 1, NULL) : NULL;
    Py_DECREF(args[0]);
    if (result && nxpy__admit(trace, result) < 0) Py_CLEAR(result);
    PyObject *use = result ? nxpy__use(trace, result) : NULL; /* of what existed before: what stands for it */
    Py_XINCREF(use);
    Py_XDECREF(result);
    return use;
}

static void pause_trace(bool on) { nxpy__doing.paused += on ? 1 : -1; }

int nxpy__calls_init(PyObject *extension) {
    if (calls.n) return 0;
    static const struct { const char *owner, *name; int does; nxpy_special_fn *special; } rows[] = {
#define NXPY_CALL_ROW(owner, name, does) {owner, name, does, NULL},
#define NXPY_SPECIAL_ROW(owner, name, special) {owner, name, 0, nxpy__special_##special},
#include "loop/calls.def"
#undef NXPY_CALL_ROW
#undef NXPY_SPECIAL_ROW
    };
    for (int k = 0; k < NX_COUNT(rows); k++) {
        PyObject *owner = owner_of(rows[k].owner, extension), *callable = NULL;
        bool all = owner && strcmp(rows[k].name, "*") == 0;
        int done = !owner ? -1 : all ? add_all(owner, rows[k].does) : 0;
        if (done == 0 && !all) {
            callable = PyObject_GetAttrString(owner, rows[k].name);
            if (callable && class_method_of(callable)) Py_SETREF(callable, Py_NewRef(class_method_of(callable)));
            done = rows[k].special ? add_callable(&specials, callable, (void *)rows[k].special)
                                   : add_callable(&calls, callable, (void *)(intptr_t)rows[k].does);
        }
        Py_XDECREF(owner);
        if (done < 0) return -1;
    }
    nxpy_before_question = nxpy__note_question;
    nxpy_call_hook = call_hook;
    nxpy_pause = pause_trace;
    (void)nxpy_opcode_name(0); /* no module is loaded while a trace runs */
    return nxpy__kinds_init() < 0 ? -1 : nxpy__abc_init();
}

/* ---- may it be called? ------------------------------------------------------------------------------------------------ */
static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(name, *names) != 0) names++;
    return *names != NULL;
}

/* x.__radd__ and such of tensors, as a function. */
static bool is_tensor_operator(PyObject *function) {
    static const char *const others[] = {"__bool__", "__float__", "__int__", "__index__", NULL}, *const alone[] = {
        "__neg__", "__pos__", "__abs__", "__invert__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__len__", NULL};
    if (Py_TYPE(function) != &PyWrapperDescr_Type || !PyType_IsSubtype(PyDescr_TYPE(function), &nxpy_tensor_type)) return false;
    const struct wrapperbase *slot = ((PyWrapperDescrObject *)function)->d_base;
    bool numeric = slot->offset >= (int)offsetof(PyHeapTypeObject, as_number) && slot->offset < (int)offsetof(PyHeapTypeObject, as_mapping);
    return is_one_of(slot->name, alone) || (numeric && !is_one_of(slot->name, others));
}

static bool is_metadata_method(PyObject *function) {
    static const char *const names[] = {"size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "is_contiguous",
                                        "is_floating_point", "__len__", NULL};
    if (Py_TYPE(function) != &PyMethodDescr_Type || !PyType_IsSubtype(PyDescr_TYPE(function), &nxpy_tensor_type)) return false;
    return is_one_of(((PyMethodDescrObject *)function)->d_method->ml_name, names);
}

/* A method of an object, as `builtin_function_or_method`: the descriptor that it came from, lent; NULL: a plain function. */
static PyObject *descriptor_of(PyObject *function) {
    PyObject *self = PyCFunction_GET_SELF(function);
    if (!self || PyModule_Check(self)) return NULL;
    PyObject *name = PyUnicode_FromString(((PyCFunctionObject *)function)->m_ml->ml_name);
    PyObject *descriptor = name ? nxpy_type_lookup(Py_TYPE(self), name) : NULL;
    Py_XDECREF(name);
    return descriptor && Py_TYPE(descriptor) == &PyMethodDescr_Type ? descriptor : NULL;
}

static PyObject *stop_call(nxpy_trace *trace, PyObject *function) {
    PyObject *name = PyObject_GetAttrString(function, "__qualname__");
    if (!name) PyErr_Clear();
    nxpy__stop(trace, NXPY_BREAK_FUNCTION, "%S", name ? name : (PyObject *)Py_TYPE(function));
    Py_XDECREF(name);
    return NULL;
}

int nxpy__python_special(nxpy_trace *trace, PyObject *object, const char *special) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject *name = nxpy__name(special), *found = name ? nxpy_type_lookup(type, name) : NULL;
    int result = found && PyFunction_Check(found) && nxpy__may_change(type);
    if (result && nxpy__note_type_value(trace, type, name) < 0) result = -1;
    if (result == 1 && !nxpy__use(trace, found)) result = -1;
    return result;
}

/* An instance that C code may walk: each method that it may call for that is Python code or not there, guarded. 1, 0, -1. */
static int walks_in_python(nxpy_trace *trace, PyObject *o) {
    static const char *const names[] = {"__iter__", "__len__", "__getitem__", "__length_hint__", "__bool__", "keys"};
    PyTypeObject *type = Py_TYPE(o);
    if (nxpy__kind(o)->walked != NXPY_BY_METHODS || PyType_Check(o)) return 0;
    for (int k = 0; k < NX_COUNT(names); k++) {
        PyObject *name = nxpy__name(names[k]), *found = name ? nxpy_type_lookup(type, name) : NULL;
        bool known = name && (!found || PyFunction_Check(found));
        int done = known ? nxpy__note_type_value(trace, type, name) : 0;
        if (done == 0 && found && known && !nxpy__use(trace, found)) done = -1;
        if (done < 0 || !known) return done;
    }
    return 1;
}

/* Whether reading it runs no code that is not followed, and changes nothing: an iterator that existed before would be
 * consumed. 1, 0, -1: stopped. */
static int may_read(nxpy_trace *trace, PyObject *o) {
    if (nxpy_constant_check(o) || nxpy_tensor_check(o)) return 1;
    if (nxpy__shown(o)) return 0; /* its elements are a tensor's */
    if (PyMethod_Check(o)) { /* the callee would call it */
        PyObject *function = PyMethod_GET_FUNCTION(o);
        bool born_too = nxpy__is_born(trace, PyMethod_GET_SELF(o)) && (nx_map_get(&calls, function) || nx_map_get(&specials, function));
        return PyFunction_Check(function) || nxpy_function_check(function) || born_too;
    }
    nxpy_kind_code kind = nxpy__kind(o)->code;
    if (nxpy__is_container(o) || nxpy__is_exception(o)) return 1;
    if (kind == NXPY_KIND_PATTERN || kind == NXPY_KIND_MATCH || kind == NXPY_KIND_ORDER || kind == NXPY_KIND_VALUELIKE) return 1;
    if (PyFunction_Check(o) || PyType_Check(o) || nxpy_function_check(o) || nx_map_get(&calls, o)) return 1;
    if (nxpy__is_born(trace, o) && (!nxpy__may_change(Py_TYPE(o)) || kind == NXPY_KIND_DEQUE)) return 1;
    if (nxpy__is_born(trace, o) && nxpy__is_iterator(o)) return 1;
    if (nxpy__is_fixed_view(trace, o) || nxpy__is_tensor_getter(o)) return 1;
    return walks_in_python(trace, o);
}

enum { MAX_DEPTH = 8 };

/* A list, tuple or dict with every real tensor in it replaced by its fake: itself when it holds none. At MAX_DEPTH what it
 * holds itself alone. New reference. */
static PyObject *with_fakes(nxpy_trace *trace, PyObject *o, int depth) {
    if (nxpy_tensor_check(o)) {
        PyObject *use = nxpy__use(trace, o);
        return Py_XNewRef(use);
    }
    bool container = PyList_Check(o) || PyTuple_CheckExact(o) || PyDict_CheckExact(o) || nxpy__is_a(o, NXPY_KIND_VIEW);
    if (depth > MAX_DEPTH || !container || nxpy_constant_check(o)) return Py_NewRef(o);
    if (nxpy__note_elements(trace, o) < 0) return NULL;
    PyObject *copy = PyDict_CheckExact(o) ? PyDict_Values(o) : PySequence_List(o), *result = NULL;
    bool changed = false;
    for (Py_ssize_t k = 0; copy && k < PyList_GET_SIZE(copy); k++) {
        PyObject *old = PyList_GET_ITEM(copy, k), *part = with_fakes(trace, old, depth + 1);
        if (!part) Py_CLEAR(copy);
        else if (part != old) changed = true;
        if (part) PyList_SetItem(copy, k, part);
    }
    if (!copy) return NULL;
    if (!changed) {
        result = Py_NewRef(o);
    } else if (PyDict_CheckExact(o)) {
        PyObject *key, *value;
        Py_ssize_t n = 0;
        result = PyDict_New();
        for (Py_ssize_t at = 0; result && PyDict_Next(o, &at, &key, &value); n++) {
            if (PyDict_SetItem(result, key, PyList_GET_ITEM(copy, n)) < 0) Py_CLEAR(result);
        }
    } else {
        result = PyTuple_CheckExact(o) ? PyList_AsTuple(copy) : Py_NewRef(copy);
    }
    Py_DECREF(copy);
    if (result && changed && nxpy__admit(trace, result) < 0) Py_CLEAR(result);
    return result;
}

/* Guards every argument; containers that existed before have their elements noted, since the callee may read them. A callee
 * that works on tensors gets their fakes. */
static int use_arguments(nxpy_trace *trace, PyObject **args, Py_ssize_t n, int does) {
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *use = nxpy__use(trace, args[k]), *given;
        bool reads = does == READS || does == COMPUTES || does == HANDS_ON || ((does == CHANGES || does == APPENDS) && k > 0);
        int may = !use ? -1 : reads ? may_read(trace, use) : 1;
        if (may < 0) return -1;
        if (!may) return nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "%.200s", Py_TYPE(use)->tp_name);
        if (!(does == APPENDS && k == 0) && nxpy__note_elements(trace, use) < 0) return -1;
        bool fakes = does == COMPUTES || does == TORCH || does == HANDS_ON;
        given = fakes ? with_fakes(trace, use, does == HANDS_ON ? MAX_DEPTH : 0) : Py_NewRef(use);
        if (!given) return trace->stop ? -1 : nxpy__stop_error(trace);
        Py_SETREF(args[k], given);
    }
    return 0;
}

/* ---- calling ------------------------------------------------------------------------------------------------------------ */
/* A Python function, or what ends up in one. A trace that stops inside it: the root may let it be a root of its own. */
static PyObject *call_python(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    bool skips = PyFunction_Check(function) && nxpy__code_skips(PyFunction_GET_CODE(function));
    if (skips) nxpy__stop(trace, NXPY_BREAK_SKIPPED, "%U", ((PyFunctionObject *)function)->func_qualname);
    size_t n_plain = (size_t)(n - (kw_names ? PyTuple_GET_SIZE(kw_names) : 0));
    PyObject *result = skips ? NULL : PyObject_Vectorcall(function, args, n_plain, kw_names);
    if (result && !trace->stop) return result;
    Py_XDECREF(result);
    bool calls_it = loop->in.op == NXPY_OP_call || loop->in.op == NXPY_OP_call_function_ex;
    if (loop == trace->root_loop && calls_it && trace->stop && trace->stop != NXPY_BREAK_EXCEPTION) trace->stop_enters = true;
    nxpy__stop_error(trace);
    return NULL;
}

/* With one or several more arguments in front. */
static PyObject *call_with(nxpy_loop *loop, PyObject *function, PyObject *const *more, Py_ssize_t n_more, PyObject **args, Py_ssize_t n,
                           PyObject *kw_names) {
    PyObject *local[16], **all = local;
    if (n_more + n > NX_COUNT(local) && !(all = nx_alloc(sizeof *all * (size_t)(n_more + n)))) {
        nxpy_raise(nx_fail_memory(sizeof *all * (size_t)(n_more + n)));
        nxpy__stop_error(loop->trace);
        return NULL;
    }
    for (Py_ssize_t k = 0; k < n_more + n; k++) all[k] = Py_NewRef(k < n_more ? more[k] : args[k - n_more]);
    PyObject *result = nxpy__call(loop, function, all, n_more + n, kw_names);
    for (Py_ssize_t k = 0; k < n_more + n; k++) Py_DECREF(all[k]);
    if (all != local) nx_free(all);
    return result;
}

/* A C function of calls.def. */
static PyObject *call_known(nxpy_loop *loop, PyObject *function, int does, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *self = n > 0 ? args[0] : NULL;
    if ((does == CHANGES || does == APPENDS) && !self) return stop_call(trace, function);
    bool changes = does == CHANGES || does == APPENDS;
    if (changes && nxpy__before_change(trace, self, does == APPENDS) < 0) return NULL;
    if (use_arguments(trace, args, n, does) < 0) return NULL;
    PyObject *result = PyObject_Vectorcall(function, args, (size_t)(n - (kw_names ? PyTuple_GET_SIZE(kw_names) : 0)), kw_names);
    if (!result) nxpy__stop_error(trace);
    return result;
}

/* function(*args, **keywords), their parts noted. */
static PyObject *call_unpacked(nxpy_loop *loop, PyObject *function, PyObject *args, PyObject *keywords) {
    PyObject *names = keywords ? PySequence_Tuple(keywords) : NULL, *values = keywords ? PyDict_Values(keywords) : NULL, *result = NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); k++) {
        if (PyUnicode_Check(PyTuple_GET_ITEM(names, k))) continue;
        PyErr_SetString(PyExc_TypeError, "keywords must be strings");
        Py_CLEAR(names);
    }
    if (!keywords || (names && values)) {
        PyObject *list = PySequence_List(args);
        if (list && values && PyList_SetSlice(list, n, n, values) < 0) Py_CLEAR(list);
        if (list) {
            bool named = names && PyTuple_GET_SIZE(names);
            result = nxpy__call(loop, function, ((PyListObject *)list)->ob_item, PyList_GET_SIZE(list), named ? names : NULL);
        }
        Py_XDECREF(list);
    }
    Py_XDECREF(names);
    Py_XDECREF(values);
    return result;
}

/* functools.partial: one that existed before is guarded as the very object, which cannot change, or by its parts. */
static PyObject *call_partial(nxpy_loop *loop, PyObject *partial, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *parts[3] = {PyObject_GetAttrString(partial, "func"), PyObject_GetAttrString(partial, "args"),
                          PyObject_GetAttrString(partial, "keywords")};
    PyObject *result = NULL, *all = NULL, *keywords = NULL, *key, *value;
    const nxpy_note *note = nxpy__note_find(trace, partial);
    if (!parts[0] || !parts[1] || !parts[2] || !note) goto done;
    if (nxpy__note_partial(trace, partial) < 0) goto done;
    if (nxpy__fixed(trace, parts[0]) < 0) goto done;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(parts[1]); k++) {
        if (nxpy__fixed(trace, PyTuple_GET_ITEM(parts[1], k)) < 0) goto done;
    }
    for (Py_ssize_t at = 0; PyDict_Next(parts[2], &at, &key, &value);) {
        if (nxpy__fixed(trace, value) < 0) goto done;
    }
    Py_ssize_t n_names = kw_names ? PyTuple_GET_SIZE(kw_names) : 0;
    PyObject *more = PyTuple_New(n - n_names);
    for (Py_ssize_t k = 0; more && k < n - n_names; k++) PyTuple_SET_ITEM(more, k, Py_NewRef(args[k]));
    all = more ? PySequence_Concat(parts[1], more) : NULL;
    Py_XDECREF(more);
    keywords = PyDict_Copy(parts[2]);
    for (Py_ssize_t k = 0; keywords && k < n_names; k++) {
        if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(kw_names, k), args[n - n_names + k]) < 0) Py_CLEAR(keywords);
    }
    if (all && keywords) result = call_unpacked(loop, parts[0], all, keywords);
done:
    for (int k = 0; k < 3; k++) Py_XDECREF(parts[k]);
    Py_XDECREF(all);
    Py_XDECREF(keywords);
    if (!result) nxpy__stop_error(trace);
    return result;
}

/* What a weak reference refers to. */
static PyObject *call_weak(nxpy_loop *loop, PyObject *weak) {
    nxpy_trace *trace = loop->trace;
    PyObject *name = nxpy__name("()"), *value = nxpy_weakref_object(weak);
    int slot = name ? nxpy__slot_of(trace, weak) : -1;
    int done = slot < 0 ? -1 : nxpy__fetch(trace, NXPY_ROW_FIELD, slot, name, NULL, offsetof(PyWeakReference, wr_object), value);
    return done < 0 ? (nxpy__stop_error(trace), NULL) : Py_NewRef(value);
}

/* One of module operator's: its names or keys never change. methodcaller with keywords is not followed. */
static PyObject *call_getter(nxpy_loop *loop, PyObject *getter, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    const char *type = Py_TYPE(getter)->tp_name;
    if (strcmp(type, "operator.itemgetter") == 0) return call_known(loop, getter, COMPUTES, args, n, kw_names);
    PyObject *reduced = n == 1 && !kw_names ? PyObject_CallMethod(getter, "__reduce__", NULL) : NULL;
    PyObject *parts = reduced ? PyTuple_GET_ITEM(reduced, 1) : NULL, *object = parts ? nxpy__use(trace, args[0]) : NULL, *value = NULL;
    bool calls_it = strcmp(type, "operator.methodcaller") == 0, plain = parts && PyType_Check(PyTuple_GET_ITEM(reduced, 0));
    PyObject *name = plain && (calls_it || PyTuple_GET_SIZE(parts) == 1) ? PyTuple_GET_ITEM(parts, 0) : NULL;
    if (name && PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1) >= 0) name = NULL;
    if (!name) {
        PyErr_Clear();
        if (!trace->stop) stop_call(trace, getter);
    } else if (object && nxpy__attribute(trace, object, name, false, &value) == 0 && calls_it) {
        PyObject *all = PyTuple_GetSlice(parts, 1, PY_SSIZE_T_MAX);
        for (Py_ssize_t k = 0; all && k < PyTuple_GET_SIZE(all); k++) {
            if (nxpy__fixed(trace, PyTuple_GET_ITEM(all, k)) < 0) Py_CLEAR(all);
        }
        Py_SETREF(value, all ? call_unpacked(loop, value, all, NULL) : NULL);
        Py_XDECREF(all);
    }
    Py_XDECREF(reduced);
    if (!value && !trace->stop) nxpy__stop_error(trace);
    return value;
}

static PyObject *call_c(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *read = kw_names ? NULL : nxpy__call_tensor_getter(loop, function, args, n);
    if (read || trace->stop || PyErr_Occurred()) return read;
    if (Py_TYPE(function) == &PyCFunction_Type) {
        PyObject *known = descriptor_of(function), *self = PyCFunction_GET_SELF(function);
        if (known) {
            bool noted = nxpy__fixed(trace, self) == 0 && nxpy__fixed(trace, known) == 0;
            return noted ? call_with(loop, known, &self, 1, args, n, kw_names) : NULL;
        }
    }
    PyObject *of_class = class_method_of(function);
    if (of_class && nx_map_get(&calls, of_class)) return call_known(loop, function, READS, args, n, kw_names);
    if (Py_TYPE(function) == nxpy__graph_class) return call_known(loop, function, TORCH, args, n, kw_names);
    if (nxpy__is_a(function, NXPY_KIND_GETTER)) return call_getter(loop, function, args, n, kw_names);
    if (nxpy__is_a(function, NXPY_KIND_PARTIAL)) return call_partial(loop, function, args, n, kw_names);
    bool init = Py_TYPE(function) == &PyWrapperDescr_Type && n > 0 && nxpy__is_exception(args[0]) && nxpy__is_born(trace, args[0]) &&
                strcmp(((PyWrapperDescrObject *)function)->d_base->name, "__init__") == 0;
    if (init) return call_known(loop, function, CHANGES, args, n, kw_names); /* ValueError.__init__ */
    nxpy_special_fn *special = (nxpy_special_fn *)nx_map_get(&specials, function);
    if (special) return special(loop, function, args, n, kw_names);
    intptr_t does = (intptr_t)nx_map_get(&calls, function);
    bool gives_on = function == (PyObject *)&PyMap_Type && n > 0 && (PyFunction_Check(args[0]) || PyMethod_Check(args[0]));
    if (gives_on) does = HANDS_ON; /* to code that takes containers as they are */
    if (does) return call_known(loop, function, (int)does, args, n, kw_names);
    if (nxpy__asks_c(function, args, n)) return nxpy__call_asked(loop, function, args, n, kw_names);
    int python = PyType_Check(function) ? 0 : nxpy__python_special(trace, function, "__call__");
    if (python < 0) return NULL;
    if (python) {
        int before = nxpy_is_module(function) ? nxpy__spell_enter(trace, function) : -1;
        PyObject *result = call_python(loop, function, args, n, kw_names);
        if (before >= 0) nxpy__spell_leave(trace, before);
        return result;
    }
    if (PyType_Check(function)) {
        python = nxpy__python_special(trace, function, "__call__"); /* of a metaclass */
        if (python < 0) return NULL;
        return python ? call_python(loop, function, args, n, kw_names) : nxpy__construct(loop, (PyTypeObject *)function, args, n, kw_names);
    }
    return nxpy__special_draw(loop, function, args, n, kw_names);
}

PyObject *nxpy__call(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    function = nxpy__use(trace, function);
    if (!function) return NULL;
    PyObject *by_rule;
    if (NX_UNLIKELY(nxpy__has_rules) && nxpy__by_rule(loop, function, args, n, kw_names, &by_rule)) return by_rule;
    if (Py_TYPE(function) == &PyMethod_Type) {
        PyObject *self = PyMethod_GET_SELF(function), *inner = PyMethod_GET_FUNCTION(function);
        bool known = nxpy__fixed(trace, inner) == 0 && nxpy__fixed(trace, self) == 0;
        return known ? call_with(loop, inner, &self, 1, args, n, kw_names) : NULL;
    }
    if (Py_TYPE(function) == &nxpy_captured_type && ((nxpy_captured *)function)->is_object) {
        PyObject *object = ((nxpy_captured *)function)->self;
        bool known = nxpy__fixed(trace, object) == 0;
        return known ? nxpy__call(loop, object, args, n, kw_names) : NULL;
    }
    if (nxpy__asks(function) || (PyFunction_Check(function) && (intptr_t)nx_map_get(&calls, function) == ASKS)) {
        return nxpy__call_asked(loop, function, args, n, kw_names);
    }
    nxpy_special_fn *library = PyFunction_Check(function) ? nxpy__library_special(function, n, kw_names) : NULL;
    if (NX_UNLIKELY(library != NULL)) return library(loop, function, args, n, kw_names);
    if (Py_TYPE(function) == nxpy_weakref_type() && n == 0) return call_weak(loop, function);
    PyObject *meaning = nxpy_function_meaning(function);
    if (meaning && !nxpy_any_asks(args, n)) {
        if (nxpy__fixed(trace, meaning) < 0) return NULL;
        int spelling = nxpy__spell_begin(trace, function, args, n, kw_names);
        if (trace->stop) return NULL;
        return nxpy__spell_end(trace, spelling, call_python(loop, meaning, args, n, kw_names));
    }
    if (PyFunction_Check(function) || Py_TYPE(function) == &nxpy_captured_type) return call_python(loop, function, args, n, kw_names);
    if (nxpy_function_check(function) || is_metadata_method(function) || is_tensor_operator(function)) {
        bool alone = n == 1 && nxpy_tensor_check(args[0]); /* there is one way to write that */
        int spelling = alone ? 0 : nxpy__spell_begin(trace, function, args, n, kw_names);
        return trace->stop ? NULL : nxpy__spell_end(trace, spelling, call_known(loop, function, TORCH, args, n, kw_names));
    }
    return call_c(loop, function, args, n, kw_names);
}

/* ---- the instructions ----------------------------------------------------------------------------------------------------- */
/* A call whose arguments end `above` values below the top. */
static int call_there(nxpy_loop *loop, int arg, int above, PyObject *kw_names) {
    bool is_method = nxpy__at(loop, above + arg + 1 + NXPY_NULL_FIRST) != NULL;
    PyObject *function = nxpy__at(loop, above + arg + 1 + (is_method || !NXPY_NULL_FIRST));
    int n = arg + is_method;
    PyObject *local[16], **args = n <= NX_COUNT(local) ? local : nx_alloc(sizeof *args * (size_t)n), *result;
    if (!args) return nxpy_raise(NX_NO_MEMORY), nxpy__stop_error(loop->trace);
    for (int k = 0; k < n; k++) args[k] = Py_NewRef(nxpy__at(loop, above + n - k));
    result = nxpy__call(loop, function, args, n, kw_names);
    for (int k = 0; k < n; k++) Py_DECREF(args[k]);
    if (args != local) nx_free(args);
    return result ? nxpy__finish(loop, above + arg + 2, result) : nxpy__stop_error(loop->trace);
}

int op_call(nxpy_loop *loop, int arg) {
    return call_there(loop, arg, 0, loop->in.flag ? PyTuple_GET_ITEM(loop->view.code->co_consts, loop->in.flag - 1) : NULL);
}

int op_call_kw(nxpy_loop *loop, int arg) { return call_there(loop, arg, 1, nxpy__at(loop, 1)); }

int op_call_function_ex(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    int has_dict = arg & 1 || loop->in.flag;
    bool named = has_dict && nxpy__at(loop, 1);
    PyObject *keywords = named ? USE(1) : NULL, *args = USE(1 + has_dict);
    if (!args || (named && !keywords)) return -1;
    if (!PyTuple_CheckExact(args)) {
        PyObject *tuple = nxpy__sequence(loop, args, true);
        if (!tuple) return nxpy__stop_error(trace);
        nxpy__put(loop, 1 + has_dict, tuple);
        args = tuple;
    }
    if (keywords && !PyDict_CheckExact(keywords)) {
        return nxpy__stop(trace, NXPY_BREAK_ITERATOR, "arguments from %.200s", Py_TYPE(keywords)->tp_name);
    }
    if (nxpy__note_elements(trace, args) < 0 || (keywords && nxpy__note_elements(trace, keywords) < 0)) return -1;
    PyObject *result = call_unpacked(loop, nxpy__at(loop, 2 + has_dict + !NXPY_NULL_FIRST), args, keywords);
    return result ? nxpy__finish(loop, 3 + has_dict, result) : nxpy__stop_error(trace);
}

PyObject *nxpy__sequence(nxpy_loop *loop, PyObject *of, bool as_tuple) {
    nxpy_trace *trace = loop->trace;
    PyObject *args[] = {Py_NewRef(of)};
    PyTypeObject *type = as_tuple ? &PyTuple_Type : &PyList_Type;
    bool known = nxpy__fixed(trace, (PyObject *)type) == 0;
    PyObject *result = known ? nxpy__call(loop, (PyObject *)type, args, 1, NULL) : NULL;
    Py_DECREF(args[0]);
    if (result && nxpy__admit(trace, result) < 0) Py_CLEAR(result);
    return result;
}

int op_make_function(nxpy_loop *loop, int arg) {
    PyObject *code = nxpy__at(loop, 1);
    for (int k = 1; k <= __builtin_popcount(arg & 0x0f); k++) { /* closure, defaults: their parts may come from elsewhere */
        PyObject *part = USE(1 + k);
        if (!part || nxpy__note_elements(loop->trace, part) < 0) return -1;
    }
    PyFunctionObject *function = (PyFunctionObject *)PyFunction_New(code, loop->view.globals);
    if (!function || !nxpy__note_add(loop->trace, (PyObject *)function, NXPY_NOTE_BORN, -1)) {
        Py_XDECREF(function);
        return nxpy__stop_error(loop->trace);
    }
    nxpy__drop(loop, 1);
    if (arg & 0x08) function->func_closure = nxpy__pop(loop);
    if (arg & 0x04) function->func_annotations = nxpy__pop(loop);
    if (arg & 0x02) function->func_kwdefaults = nxpy__pop(loop);
    if (arg & 0x01) function->func_defaults = nxpy__pop(loop);
    nxpy__push(loop, (PyObject *)function);
    return 0;
}

int op_set_function_attribute(nxpy_loop *loop, int arg) {
    PyFunctionObject *function = (PyFunctionObject *)nxpy__at(loop, 1);
    if (!nxpy__is_born(loop->trace, (PyObject *)function)) return nxpy__stop(loop->trace, NXPY_BREAK_STORE, "a function");
    PyObject *part = USE(2);
    if (!part || nxpy__note_elements(loop->trace, part) < 0) return -1;
    (void)nxpy__pop(loop);
    part = nxpy__pop(loop);
    if (arg == 0x10) *(PyObject **)((char *)function + NXPY_ANNOTATE) = part; /* made a moment ago: it has none */
    if (arg == 0x08) function->func_closure = part;
    if (arg == 0x04) function->func_annotations = part;
    if (arg == 0x02) function->func_kwdefaults = part;
    if (arg == 0x01) function->func_defaults = part;
    nxpy__push(loop, (PyObject *)function);
    return 0;
}

/* ---- attributes -------------------------------------------------------------------------------------------------------------- */
int op_load_attr(nxpy_loop *loop, int arg) {
    PyObject *object = USE(1), *value;
    if (!object || nxpy__attribute(loop->trace, object, PyTuple_GET_ITEM(loop->view.code->co_names, arg), false, &value) < 0) return -1;
    nxpy__put(loop, 1, value);
    return 0;
}

int op_load_method(nxpy_loop *loop, int arg) {
    PyObject *object = USE(1), *value;
    int kind = object ? nxpy__attribute(loop->trace, object, PyTuple_GET_ITEM(loop->view.code->co_names, arg), true, &value) : -1;
    if (kind < 0) return -1;
    if (kind == 1) { /* the function, then the object as its first argument */
        nxpy__push(loop, object);
        nxpy__set(loop, 2, value);
        return 0;
    }
    nxpy__push(loop, NXPY_NULL_FIRST ? value : NULL);
    nxpy__put(loop, 2, NXPY_NULL_FIRST ? NULL : value);
    return 0;
}

/* super, class, self: what super(class, self) has under the name. */
int op_load_super_attr(nxpy_loop *loop, int arg) {
    PyObject *maker = USE(3), *args[] = {nxpy__at(loop, 2), nxpy__at(loop, 1)}, *value;
    PyObject *bound = maker ? nxpy__call(loop, maker, args, 2, NULL) : NULL;
    if (!bound) return maker ? nxpy__stop_error(loop->trace) : -1;
    PyObject *name = PyTuple_GET_ITEM(loop->view.code->co_names, arg);
    int done = nxpy__admit(loop->trace, bound) < 0 ? -1 : nxpy__attribute(loop->trace, bound, name, false, &value);
    Py_DECREF(bound);
    if (done < 0) return -1;
    nxpy__drop(loop, loop->in.flag ? 1 : 2);
    nxpy__put(loop, 1, NXPY_NULL_FIRST || !loop->in.flag ? value : NULL);
    if (loop->in.flag) nxpy__put(loop, 2, NXPY_NULL_FIRST ? NULL : value);
    return 0;
}
