/* Functions of Python's library that are written in Python and done here as the loop does such things: what they do on the
 * way (addresses as keys, deep recursion) it would not follow.
 *
 * In: a Python function that is about to be entered. Out: the same that it returns, born in the trace or fixed.
 * What must hold: a function is known by its module's globals and its code's name, which functools.wraps leaves alone.
 * Next: specials.c. */
#include "loop/private.h"

/* ---- copy.deepcopy -------------------------------------------------------------------------------------------------------- */
typedef struct copier {
    nxpy_loop *loop;
    PyObject *done;     /* dict: address -> (original, copy) */
    int depth;
} copier;

static PyObject *copy_of(copier *c, PyObject *o);

static PyObject *refuse(nxpy_trace *trace, PyObject *o) {
    if (!trace->stop) nxpy__stop(trace, NXPY_BREAK_FUNCTION, "deepcopy of %.200s", nxpy_class_of(o)->tp_name);
    return NULL;
}

static int keep(copier *c, PyObject *o, PyObject *copy) {
    PyObject *address = PyLong_FromVoidPtr(o), *pair = PyTuple_Pack(2, o, copy);
    int done = address && pair ? PyDict_SetItem(c->done, address, pair) : -1;
    Py_XDECREF(address);
    Py_XDECREF(pair);
    if (done < 0) return nxpy__stop_error(c->loop->trace);
    return nxpy_tensor_check(copy) ? nxpy__admit(c->loop->trace, copy) : nxpy__born(c->loop->trace, copy);
}

/* What o holds, copied into `to`, which is made already, so that what holds itself ends. */
static int copy_parts(copier *c, PyObject *o, PyObject *to) {
    int done = nxpy__note_elements(c->loop->trace, o);
    PyObject *pairs = done == 0 && PyDict_Check(o) ? PyMapping_Items(o) : NULL; /* an ordered one in its own order */
    for (Py_ssize_t k = 0; done == 0 && pairs && k < PyList_GET_SIZE(pairs); k++) {
        PyObject *pair = PyList_GET_ITEM(pairs, k), *key = copy_of(c, PyTuple_GET_ITEM(pair, 0));
        PyObject *value = key ? copy_of(c, PyTuple_GET_ITEM(pair, 1)) : NULL;
        done = !value ? -1 : PyODict_Check(to) ? PyODict_SetItem(to, key, value) : PyDict_SetItem(to, key, value);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    Py_XDECREF(pairs);
    PyObject *items = done == 0 && !PyDict_Check(o) ? PySequence_List(o) : NULL;
    for (Py_ssize_t k = 0; done == 0 && items && k < PyList_GET_SIZE(items); k++) {
        PyObject *part = copy_of(c, PyList_GET_ITEM(items, k));
        done = !part ? -1 : PyList_Check(to) ? PyList_Append(to, part) : PySet_Add(to, part);
        Py_XDECREF(part);
    }
    Py_XDECREF(items);
    return done < 0 ? nxpy__stop_error(c->loop->trace) : 0;
}

static PyObject *copy_tuple(copier *c, PyObject *o) {
    if (nxpy__note_elements(c->loop->trace, o) < 0) return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(o);
    PyObject *copy = PyTuple_New(n);
    bool changed = false;
    for (Py_ssize_t k = 0; copy && k < n; k++) {
        PyObject *old = PyTuple_GET_ITEM(o, k), *part = copy_of(c, old);
        changed |= part != old;
        if (part) PyTuple_SET_ITEM(copy, k, part);
        else Py_CLEAR(copy);
    }
    if (copy && !changed) Py_SETREF(copy, Py_NewRef(o));
    if (copy && changed && nxpy__born(c->loop->trace, copy) < 0) Py_CLEAR(copy);
    return copy;
}

/* The class's own lookup gives a __deepcopy__ that no class holds. */
static bool answers_itself(nxpy_trace *trace, PyObject *o) {
    PyObject *name = nxpy__name("__deepcopy__"), *value = NULL;
    if (!name || nxpy__attribute(trace, o, name, false, &value) >= 0 || trace->stop || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
        Py_XDECREF(value);
        return true;
    }
    PyErr_Clear();
    return false;
}

/* Methods of Python's that say what an instance is and take it; lent, NULL: it is its __dict__. */
typedef struct state_methods { PyObject *get, *set; } state_methods;

/* An instance that is its class and its __dict__, or what those two say, by no other method of the program's. */
static bool is_plain(nxpy_trace *trace, PyObject *o, state_methods *methods) {
    static const char *const names[] = {"__getstate__", "__setstate__", "__deepcopy__", "__reduce_ex__", "__reduce__", "__getnewargs__",
                                        "__getnewargs_ex__", "__new__", "__del__", "__slots__", "__getattr__"};
    PyTypeObject *type = Py_TYPE(o);
    bool plain = nxpy__is_instance(o) && type->tp_new == PyBaseObject_Type.tp_new && !type->tp_itemsize;
    *methods = (state_methods){NULL, NULL};
    for (int k = 0; plain && k < NX_COUNT(names); k++) {
        PyObject *found, *name = nxpy__name(names[k]);
        plain = name && nxpy__type_value(trace, type, names[k], &found) == 0;
        if (plain && found == nxpy_type_lookup(&PyBaseObject_Type, name)) continue;
        plain = plain && PyFunction_Check(found) && (k < 2 || (methods->set && k == NX_COUNT(names) - 1));
        if (k == 0) methods->get = found;
        if (k == 1) methods->set = found;
    }
    return plain && !answers_itself(trace, o);
}

/* What copy.deepcopy copies of it: a new reference. */
static PyObject *state_of(copier *c, PyObject *o, PyObject *get) {
    PyObject *name = nxpy__name("__dict__"), *held = NULL;
    if (get) return nxpy__call(c->loop, get, &o, 1, NULL);
    return name && nxpy__plain_attribute(c->loop->trace, o, name, &held) == 0 ? held : NULL;
}

/* The state in a dict of its own, which the method takes. */
static int set_state(copier *c, PyObject *copy, PyObject *held, PyObject *set) {
    PyObject *args[] = {Py_NewRef(copy), PyDict_New()}, *done = NULL;
    bool copied = args[1] && nxpy__born(c->loop->trace, args[1]) == 0 && copy_parts(c, held, args[1]) == 0;
    if (copied) done = nxpy__call(c->loop, set, args, 2, NULL);
    Py_DECREF(args[0]);
    Py_XDECREF(args[1]);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *copy_instance(copier *c, PyObject *o) {
    nxpy_trace *trace = c->loop->trace;
    state_methods methods;
    PyObject *held = is_plain(trace, o, &methods) ? state_of(c, o, methods.get) : NULL;
    if (!held) return refuse(trace, o);
    PyObject *copy = PyDict_CheckExact(held) ? Py_TYPE(o)->tp_alloc(Py_TYPE(o), 0) : NULL;
    PyObject *to = copy ? PyObject_GenericGetDict(copy, NULL) : NULL;
    int done = to && keep(c, o, copy) == 0 ? 0 : -1;
    if (done == 0) done = methods.set ? set_state(c, copy, held, methods.set) : copy_parts(c, held, to);
    if (done < 0) Py_CLEAR(copy);
    Py_XDECREF(to);
    Py_DECREF(held);
    return copy ? copy : refuse(trace, o);
}

/* As Tensor.__deepcopy__ does it: a leaf with the same elements, class and gradient. */
static PyObject *copy_tensor(copier *c, PyObject *o) {
    nxpy_trace *trace = c->loop->trace;
    PyObject *name = nxpy__name("__deepcopy__"), *is_leaf = nxpy__name("is_leaf"), *found, *leaf = NULL, *grad = NULL;
    if (!name || nxpy__type_value(trace, Py_TYPE(o), "__deepcopy__", &found) < 0) return NULL;
    if (found != nxpy_type_lookup(nxpy_tensor_class, name) || nxpy_overrides(o)) return refuse(trace, o);
    if (!is_leaf || nxpy__attribute(trace, o, is_leaf, false, &leaf) < 0) return NULL;
    Py_DECREF(leaf); /* a constant */
    if (leaf != Py_True) {
        PyErr_SetString(PyExc_RuntimeError, "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
                                            "at the moment");
        return NULL;
    }
    PyObject *alone = PyObject_CallMethod(o, "detach", NULL), *copy = alone ? PyObject_CallMethod(alone, "clone", NULL) : NULL;
    Py_XDECREF(alone);
    if (!copy || nxpy__take_class(trace, copy, Py_TYPE(o)) < 0) return Py_XDECREF(copy), NULL;
    const nx_tensor *of = nx_tensor_whole(nxpy_tensor_get(o));
    nxpy_tensor_get(copy)->is_parameter = of->is_parameter;
    nx_status status = nx_tensor_requires_grad(of) ? nx_tensor_set_requires_grad(nx_tensor_whole(nxpy_tensor_get(copy)), true) : NX_OK;
    if (status != NX_OK) nxpy_raise(status);
    int done = status == NX_OK ? keep(c, o, copy) : -1;
    const nxpy_note *note = nxpy__note_find(trace, o);
    bool may_have = note->is_input || note->knows_grad;
    if (done == 0 && may_have) done = nxpy__grad_of(trace, o, &grad);
    if (done == 0 && grad && grad != Py_None) {
        PyObject *own = copy_of(c, grad);
        done = own ? nxpy__write_grad(trace, copy, own) : -1;
        Py_XDECREF(own);
    }
    Py_XDECREF(grad);
    if (done < 0) Py_CLEAR(copy);
    return copy;
}

static PyObject *copy_again(copier *c, PyObject *o) {
    PyObject *address = PyLong_FromVoidPtr(o), *pair = address ? PyDict_GetItemWithError(c->done, address) : NULL;
    Py_XDECREF(address);
    return pair ? PyTuple_GET_ITEM(pair, 1) : NULL;
}

/* New reference; NULL: stopped. */
static PyObject *copy_of(copier *c, PyObject *given) {
    nxpy_trace *trace = c->loop->trace;
    PyObject *o = nxpy__use(trace, given), *copy = o ? copy_again(c, o) : NULL;
    if (!o) return NULL;
    if (copy) return Py_NewRef(copy);
    bool atom = nxpy_constant_check(o) || nxpy_symnumber_check(o) || PyFunction_Check(o) || nxpy__is_enum(o);
    if (atom || (PyType_Check(o) && nxpy__is_key(o))) return Py_NewRef(o);
    if (c->depth > 64) return refuse(trace, o);
    c->depth++;
    if (PyTuple_CheckExact(o)) {
        copy = copy_tuple(c, o);
    } else if (nxpy_tensor_check(o)) {
        copy = copy_tensor(c, o);
    } else if (PyList_CheckExact(o) || PyDict_CheckExact(o) || PyODict_CheckExact(o) || PySet_CheckExact(o)) {
        copy = PyList_CheckExact(o)    ? PyList_New(0)
               : PyDict_CheckExact(o)  ? PyDict_New()
               : PyODict_CheckExact(o) ? PyODict_New()
                                       : PySet_New(NULL);
        if (!copy || keep(c, o, copy) < 0 || copy_parts(c, o, copy) < 0) Py_CLEAR(copy);
    } else {
        copy = copy_instance(c, o);
    }
    c->depth--;
    return copy || trace->stop || PyErr_Occurred() ? copy : refuse(trace, o);
}

static PyObject *deepcopy(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    copier c = {.loop = loop, .done = PyDict_New()};
    PyObject *copy = c.done ? copy_of(&c, args[0]) : NULL;
    Py_XDECREF(c.done);
    if (!copy) nxpy__stop_error(loop->trace);
    return copy;
}

/* ---- inspect.signature ---------------------------------------------------------------------------------------------------- */
/* Asked when the trace is over; a Signature never changes. Methods of one function have one: it is asked once, for all layers. */
static PyObject *signature(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *of = nxpy__use(trace, args[0]);
    PyObject *inner = of && PyMethod_Check(of) ? PyMethod_GET_FUNCTION(of) : of;
    if (!inner) return NULL;
    if (!PyFunction_Check(inner)) {
        nxpy__stop(trace, NXPY_BREAK_FUNCTION, "signature of %.200s", Py_TYPE(inner)->tp_name);
        return NULL;
    }
    if (nxpy__fixed(trace, inner) < 0 || nxpy__note_function(trace, (PyFunctionObject *)inner) < 0) return NULL;
    PyObject *given = PyTuple_Pack(1, of), *bound = of == inner ? Py_False : Py_True; /* whether the first parameter is bound */
    PyObject *question = given ? PyTuple_Pack(4, function, inner, Py_None, bound) : NULL;
    PyObject *known = question ? nxpy__ask(trace, question, given) : NULL, *parameters = NULL;
    if (known && nxpy__fixed(trace, known) == 0) parameters = PyObject_GetAttrString(known, "_parameters");
    if (parameters && nxpy__fixed(trace, parameters) < 0) Py_CLEAR(parameters);
    Py_XDECREF(given);
    Py_XDECREF(question);
    Py_XDECREF(parameters);
    if (!parameters) nxpy__stop_error(trace);
    return parameters ? Py_NewRef(known) : NULL;
}

/* ---- functools.singledispatch ---------------------------------------------------------------------------------------------- */
/* The function that is registered for a class: of the registry, which is guarded, or as the dispatcher finds it, which is asked when
 * the trace is over. */
static PyObject *dispatch(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *names = PyCode_GetFreevars((PyCodeObject *)PyFunction_GET_CODE(function)), *closure = PyFunction_GET_CLOSURE(function);
    PyObject *class = names ? nxpy__use(trace, args[0]) : NULL, *registry = NULL, *found = NULL;
    for (Py_ssize_t k = 0; class && closure && k < PyTuple_GET_SIZE(names); k++) {
        bool same = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, k), "registry") == 0;
        if (same) registry = PyCell_GET(PyTuple_GET_ITEM(closure, k));
    }
    Py_XDECREF(names);
    bool known = registry && PyDict_CheckExact(registry) && PyType_Check(class) && nxpy__is_key(class) && !nxpy__is_born(trace, class);
    if (!known || !nxpy_abc_count) return class ? nxpy__stopped(loop, function) : NULL;
    if (nxpy__check(trace, NXPY_ROW_ABC, -1, NULL, (int64_t)*nxpy_abc_count) < 0) return NULL;
    if (nxpy__fixed(trace, registry) < 0 || nxpy__note_elements(trace, registry) < 0) return NULL;
    if (nxpy__dict_value(trace, registry, class, &found) < 0) return NULL;
    PyObject *given = found ? NULL : PyTuple_Pack(1, class);
    PyObject *question = given ? PyTuple_Pack(3, function, given, Py_None) : NULL;
    if (question) found = nxpy__ask(trace, question, given);
    Py_XDECREF(given);
    Py_XDECREF(question);
    if (!found) nxpy__stop_error(trace);
    return Py_XNewRef(found);
}

/* ---- warnings.warn ---------------------------------------------------------------------------------------------------------- */
/* Whether a filter makes an error of some warning: then it is the program's, at its line. */
static bool may_raise(PyObject *module) {
    PyObject *filters = PyObject_GetAttrString(module, "filters"); /* (action, message, category, module, line) */
    bool raises = !filters || !PyList_Check(filters);
    for (Py_ssize_t k = 0; !raises && k < PyList_GET_SIZE(filters); k++) {
        PyObject *row = PyList_GET_ITEM(filters, k);
        PyObject *action = PyTuple_Check(row) && PyTuple_GET_SIZE(row) ? PyTuple_GET_ITEM(row, 0) : NULL;
        raises = !action || !PyUnicode_Check(action) || PyUnicode_CompareWithASCIIString(action, "error") == 0;
    }
    Py_XDECREF(filters);
    PyErr_Clear();
    return raises;
}

/* What a call of warn() is for a run: (message, category, file, line, module, registry) of warn_explicit(), as warn() finds them
 * `level` frames up; beyond the trace (message, category, level), which each run finds anew. NULL: an exception, or stopped. */
static PyObject *explicit_of(nxpy_loop *loop, PyObject *message, PyObject *category, long level) {
    for (; loop && level > 1; level--) loop = loop->outer;
    if (!loop) return Py_BuildValue("(OOl)", message, category, level);
    if (!PyDict_CheckExact(loop->view.globals)) return NULL;
    PyObject *globals = loop->view.globals, *name = PyDict_GetItemString(globals, "__name__");
    PyObject *key = nxpy__name("__warningregistry__"), *fresh = key ? PyDict_New() : NULL;
    PyObject *registry = fresh ? PyDict_SetDefault(globals, key, fresh) : NULL, *args = NULL;
    int line = PyCode_Addr2Line((PyCodeObject *)loop->view.code, loop->in.start * 2);
    if (registry && name && PyUnicode_Check(name)) {
        args = Py_BuildValue("(OOOiOO)", message, category, loop->view.code->co_filename, line, name, registry);
    }
    Py_XDECREF(fresh);
    return args;
}

/* Each run of the graph warns, as the filters of that time have it. */
PyObject *nxpy__special_warn(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *given[3] = {NULL, PyExc_UserWarning, NULL}, *module = PyImport_AddModule("warnings");
    static const char *const names[] = {"message", "category", "stacklevel"};
    Py_ssize_t n_names = kw_names ? PyTuple_GET_SIZE(kw_names) : 0;
    bool known = module && n - n_names <= 3 && !may_raise(module);
    for (Py_ssize_t k = 0; known && k < n; k++) {
        int at = k < n - n_names ? (int)k : -1;
        for (int j = 0; at < 0 && j < 3; j++) {
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw_names, k - (n - n_names)), names[j]) == 0) at = j;
        }
        PyObject *use = at >= 0 ? nxpy__use(trace, args[k]) : NULL;
        if (at >= 0 && !use) return NULL;
        known = at >= 0;
        if (known) given[at] = use;
    }
    if (given[1] == Py_None) given[1] = PyExc_UserWarning;
    known = known && given[0] && PyUnicode_CheckExact(given[0]) && PyType_Check(given[1]) && (!given[2] || PyLong_CheckExact(given[2]));
    known = known && PyType_IsSubtype((PyTypeObject *)given[1], (PyTypeObject *)PyExc_Warning);
    PyObject *all = known ? explicit_of(loop, given[0], given[1], given[2] ? PyLong_AsLong(given[2]) : 1) : NULL;
    PyObject *warn = !all ? NULL : PyObject_GetAttrString(module, PyTuple_GET_SIZE(all) == 3 ? "warn" : "warn_explicit");
    int done = warn ? nxpy__later(trace, warn, all) : -1;
    Py_XDECREF(all);
    Py_XDECREF(warn);
    if (done == 0) return Py_NewRef(Py_None);
    if (!trace->stop) PyErr_Clear();
    nxpy__stop(trace, NXPY_BREAK_FUNCTION, "warn");
    return NULL;
}

/* ---- random numbers of Python's and of numpy's --------------------------------------------------------------------------- */
static bool is_text(PyObject *object, const char *attribute, const char *text) {
    PyObject *value = PyObject_GetAttrString(object, attribute);
    bool same = value && PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, text) == 0;
    if (!value) PyErr_Clear();
    Py_XDECREF(value);
    return same;
}

static bool is_generator(PyObject *o) {
    static const char *const known[][2] = {
        {"random", "Random"}, {"numpy.random.mtrand", "RandomState"}, {"numpy.random._generator", "Generator"}};
    PyObject *type = (PyObject *)Py_TYPE(o);
    bool found = false;
    for (int k = 0; !found && k < NX_COUNT(known); k++) {
        found = is_text(type, "__name__", known[k][1]) && is_text(type, "__module__", known[k][0]);
    }
    return found;
}

/* Those that give one number and fail for none. */
static bool draws_one(PyObject *function, Py_ssize_t n) {
    static const struct { const char *name; int most; } known[] = {{"random", 0}, {"uniform", 2}, {"rand", 0}, {"randn", 0},
        {"random_sample", 0}, {"standard_normal", 0}, {"gauss", 2}, {"normalvariate", 2}};
    bool found = false;
    for (int k = 0; !found && k < NX_COUNT(known); k++) found = n <= known[k].most && is_text(function, "__name__", known[k].name);
    return found;
}

/* A number that nobody looks at (layers that are left out while one trains): each run draws it when its graph has run, so that the
 * generator is where it would be. */
PyObject *nxpy__special_draw(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    bool known = !kw_names && n > 0 && is_generator(args[0]) && draws_one(function, n - 1) && !trace->region;
    for (Py_ssize_t k = 1; known && k < n; k++) {
        known = PyLong_CheckExact(args[k]) || (PyFloat_CheckExact(args[k]) && isfinite(PyFloat_AS_DOUBLE(args[k])));
    }
    if (!known || nxpy__was_asked_for(trace, NXPY_ASK_NO_DRAWS)) return nxpy__stopped(loop, function);
    PyObject *all = PyTuple_New(n), *drawn = NULL;
    for (Py_ssize_t k = 0; all && k < n; k++) PyTuple_SET_ITEM(all, k, Py_NewRef(args[k]));
    if (all && nxpy__later(trace, function, all) == 0) drawn = PyObject_Init(PyObject_Malloc(sizeof(PyObject)), &nxpy__drawn_type);
    Py_XDECREF(all);
    if (!drawn) nxpy__stop_error(trace);
    return drawn;
}

/* ---- narthex.utils.hooks.new_id ------------------------------------------------------------------------------------------ */
/* A number that is no other's in a dict of the trace's own; what counts them all would change with every call. */
static PyObject *new_id(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    enum { FIRST = 1 << 30 };
    if (nxpy__is_born(loop->trace, args[0])) return PyLong_FromLong(FIRST + loop->trace->n_hooks++);
    PyObject *made = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    if (!made) nxpy__stop_error(loop->trace);
    return made;
}

/* ---- narthex._from_numpy.array_over ----------------------------------------------------------------------------------------- */
/* What the function makes of an empty tensor, called outside of the trace. */
static PyObject *array_like(const nx_tensor *of, PyObject *function) {
    nx_tensor *empty = NULL;
    nx_tracer *tracer = nx_thread_get()->tracer;
    PyObject *error[3];
    nxpy_aside aside = nxpy__aside_begin();
    nx_thread_get()->tracer = NULL;
    nx_status status = nx_tensor_new((nx_dtype)of->a.dtype, 1, (int64_t[]){0}, NX_CPU, &empty);
    PyObject *object = status == NX_OK ? nxpy_tensor_take(empty) : nxpy_raise(status);
    PyObject *like = object ? PyObject_CallOneArg(function, object) : NULL;
    Py_XDECREF(object);
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    nx_thread_get()->tracer = tracer;
    nxpy__aside_end(aside);
    PyErr_Restore(error[0], error[1], error[2]);
    return like;
}

/* An array over a tensor of the trace's: one over an empty tensor tells what it is like, and what it refuses. */
static PyObject *array_over(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    nxpy_trace *trace = loop->trace;
    PyObject *name = nxpy__name("numpy"), *tensor = nxpy__use(trace, args[0]), *made = NULL;
    bool known = tensor && nxpy_tensor_check(tensor) && nxpy__is_fake(trace, tensor) && !trace->region;
    if (!known || !name || !nxpy__loaded(trace, name)) return trace->stop ? NULL : nxpy__stopped(loop, function);
    PyObject *like = array_like(nxpy_tensor_get(tensor), function);
    if (like) made = nxpy__shown_new(tensor, like, function);
    Py_XDECREF(like);
    if (!made) nxpy__stop_error(trace);
    return made;
}

nxpy_special_fn *nxpy__library_special(PyObject *function, Py_ssize_t n, PyObject *kw_names) {
    static const struct { bool one; const char *module, *name; nxpy_special_fn *special; } known[] = { /* one: argument, else several */
        {true, "narthex.utils.hooks", "new_id", new_id}, {true, "copy", "deepcopy", deepcopy}, {true, "inspect", "signature", signature},
        {true, "narthex._from_numpy", "array_over", array_over}, {true, "narthex._from_numpy", "from_numpy", nxpy__from_numpy},
        {true, "functools", "singledispatch.<locals>.dispatch", dispatch},
        {false, "random", "Random.uniform", nxpy__special_draw}, {false, "random", "Random.gauss", nxpy__special_draw},
        {false, "random", "Random.normalvariate", nxpy__special_draw}, {false, "dataclasses", "_process_class", nxpy__special_dataclass}};
    const PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    for (int k = 0; !kw_names && k < NX_COUNT(known); k++) {
        if (known[k].one != (n == 1) || PyUnicode_CompareWithASCIIString(code->co_qualname, known[k].name) != 0) continue;
        PyObject *module = PyDict_GetItemString(PyFunction_GET_GLOBALS(function), "__name__");
        if (module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, known[k].module) == 0) return known[k].special;
    }
    return NULL;
}
