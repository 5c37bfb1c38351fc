/* __torch_function__: classes and modes that answer calls in the place of functions.
 * Who is asked: the innermost mode of the thread, which is out of the way meanwhile, then the arguments whose class has a
 * protocol of its own, subclasses before their bases, else in the order of the call. Tensor and Parameter themselves have none,
 * so a call looks at the exact types of its arguments and at one number and goes on. What is asked is the function that the
 * program knows: torch.add, torch.Tensor.add, torch.Tensor.shape.__get__. Next: functions.c, numbers.c, attributes.c. */
#include "bind/private.h"

int nxpy_n_function_modes;
PyTypeObject *nxpy_parameter_class;
int (*nxpy_before_question)(PyObject *question);
PyObject *(*nxpy_call_hook)(PyObject *function, PyObject *value);
static PyObject *protocol_name, *disabled; /* "__torch_function__"; what a class has that takes no part */

/* ---- who has a protocol -------------------------------------------------------------------------------------------------- */
/* The protocol of an argument, a new reference; NULL without an error: none. */
static PyObject *protocol_of(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (type == nxpy_tensor_class || type == nxpy_parameter_class || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_Check(o))
        return NULL;
    PyObject *method = PyObject_GetAttr(o, protocol_name); /* of what is no tensor, the object's own counts as well */
    if (method == NULL) PyErr_Clear();
    if (method == disabled) Py_CLEAR(method);
    return method;
}

bool nxpy_overrides(PyObject *o) {
    if (nx_thread_get()->function_state != NXPY_ASK_ALL) return false;
    PyObject *method = protocol_of(o);
    Py_XDECREF(method);
    return method != NULL;
}

bool nxpy_asks(PyObject *o) {
    const nx_thread *thread = nx_thread_get();
    bool mode = thread->function_modes && thread->function_state != NXPY_ASK_NOBODY;
    return mode || nxpy_overrides(o);
}

static bool is_many(PyObject *o) { return PyList_Check(o) || PyTuple_Check(o); }

/* Among n arguments and what their lists hold. */
static bool any_overrides(PyObject *const *given, Py_ssize_t n) {
    for (Py_ssize_t k = 0; k < n; k++) {
        PyTypeObject *type = Py_TYPE(given[k]);
        if (type == nxpy_tensor_class || type == nxpy_parameter_class) continue;
        if (NX_UNLIKELY(is_many(given[k]))) {
            if (any_overrides(PySequence_Fast_ITEMS(given[k]), PySequence_Fast_GET_SIZE(given[k]))) return true;
        } else if (NX_UNLIKELY(PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) && nxpy_overrides(given[k])) {
            return true;
        }
    }
    return false;
}

bool nxpy_any_asks(PyObject *const *given, Py_ssize_t n) {
    if (NX_UNLIKELY(nxpy_n_function_modes != 0)) {
        const nx_thread *thread = nx_thread_get();
        if (thread->function_modes && thread->function_state != NXPY_ASK_NOBODY) return true;
    }
    return any_overrides(given, n);
}

/* ---- asking -------------------------------------------------------------------------------------------------------------------- */
/* Puts `o` among those to be asked: one of each class, before the first whose class it derives from. */
int nxpy_add_asked(PyObject *asked, PyObject *o) {
    Py_ssize_t at = PyList_GET_SIZE(asked);
    for (Py_ssize_t k = PyList_GET_SIZE(asked) - 1; k >= 0; k--) {
        PyTypeObject *type = Py_TYPE(PyList_GET_ITEM(asked, k));
        if (type == Py_TYPE(o)) return 0;
        if (PyType_IsSubtype(Py_TYPE(o), type)) at = k;
    }
    return PyList_Insert(asked, at, o);
}

/* Those among n arguments and in their lists. plain: Tensor's own protocol counts, as functions written in Python have it. */
static int find_asked(PyObject *asked, PyObject *const *given, Py_ssize_t n, bool plain) {
    for (Py_ssize_t k = 0; k < n; k++) {
        int done = 0;
        PyObject *method = NULL;
        if (is_many(given[k])) done = find_asked(asked, PySequence_Fast_ITEMS(given[k]), PySequence_Fast_GET_SIZE(given[k]), plain);
        else if (plain && Py_IS_TYPE(given[k], nxpy_tensor_class)) done = nxpy_add_asked(asked, given[k]);
        else if ((method = protocol_of(given[k]))) done = nxpy_add_asked(asked, given[k]);
        Py_XDECREF(method);
        if (done < 0) return -1;
    }
    return 0;
}

/* The function as the program knows it: of torch.ops the object there. A new reference. */
static PyObject *known_function(PyObject *function) {
    const char *target = nxpy_function_target(function);
    if (target == NULL || strncmp(target, "torch.ops.", 10) != 0) return Py_NewRef(function);
    PyObject *ops = PyImport_ImportModule("narthex._ops"), *find = ops ? PyObject_GetAttrString(ops, "_find") : NULL;
    PyObject *text = find ? PyUnicode_FromString(target + 10) : NULL, *dot = text ? PyUnicode_FromString(".") : NULL;
    PyObject *names = dot ? PyUnicode_Split(text, dot, -1) : NULL, *args = names ? PyList_AsTuple(names) : NULL;
    PyObject *found = args ? PyObject_CallObject(find, args) : NULL;
    PyObject *const parts[] = {ops, find, text, dot, names, args};
    for (int k = 0; k < NX_COUNT(parts); k++) Py_XDECREF(parts[k]);
    return found;
}

/* What one of those asked says; `question` is (function, types, args[, kwargs]). */
static PyObject *ask_one(PyObject *o, PyObject *question) {
    PyObject *method = PyObject_GetAttr(o, protocol_name);
    PyObject *answer = NULL;
    bool of_instance = method && PyMethod_Check(method) && PyMethod_GET_SELF(method) == o && nxpy_tensor_check(o);
    if (of_instance && PyErr_WarnEx(PyExc_DeprecationWarning, "Defining your `__torch_function__` as a plain method is deprecated and "
                                    "will be an error in future, please define it as a classmethod.", 1) < 0) {
        Py_DECREF(method);
        return NULL;
    }
    if (method) answer = PyObject_CallObject(method, question);
    Py_XDECREF(method);
    return answer;
}

/* The innermost mode, which the calls that it makes do not meet. */
static PyObject *ask_mode(nx_thread *thread, PyObject *question) {
    PyObject *modes = thread->function_modes;
    Py_ssize_t n = PyList_GET_SIZE(modes);
    PyObject *mode = Py_NewRef(PyList_GET_ITEM(modes, n - 1)), *answer = NULL;
    if (nxpy_mode_pop(&thread->function_modes, &nxpy_n_function_modes) == 0) {
        answer = ask_one(mode, question);
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        if (nxpy_mode_push(&thread->function_modes, &nxpy_n_function_modes, mode) < 0) Py_CLEAR(answer);
        else PyErr_Restore(type, value, trace);
    }
    Py_DECREF(mode);
    return answer;
}

static PyObject *fail_asked(PyObject *function, PyObject *asked, PyObject *mode) {
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    PyObject *text = name ? PyUnicode_FromFormat("Multiple dispatch failed for '%s%U'; all __torch_function__ handlers returned "
                                                 "NotImplemented:\n\n", nxpy_function_place(function), name) : NULL;
    if (text && mode) Py_SETREF(text, PyUnicode_FromFormat("%U  - mode object %R\n", text, mode));
    for (Py_ssize_t k = 0; text && k < PyList_GET_SIZE(asked); k++) {
        Py_SETREF(text, PyUnicode_FromFormat("%U  - tensor subclass %R\n", text, (PyObject *)Py_TYPE(PyList_GET_ITEM(asked, k))));
    }
    if (text) Py_SETREF(text, PyUnicode_FromFormat("%U\nFor more information, try re-running with TORCH_LOGS=not_implemented", text));
    if (text) PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(text);
    Py_XDECREF(name);
    return NULL;
}

static PyObject *ask_all(PyObject *function, PyObject *asked, PyObject *question) {
    nx_thread *thread = nx_thread_get();
    PyObject *mode = NULL, *answer = NULL;
    if (thread->function_modes && thread->function_state != NXPY_ASK_NOBODY) {
        mode = Py_NewRef(PyList_GET_ITEM((PyObject *)thread->function_modes, PyList_GET_SIZE((PyObject *)thread->function_modes) - 1));
        answer = ask_mode(thread, question);
        if (answer != Py_NotImplemented) goto done;
        Py_CLEAR(answer);
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(asked); k++) {
        answer = ask_one(PyList_GET_ITEM(asked, k), question);
        if (answer != Py_NotImplemented) goto done;
        Py_CLEAR(answer);
    }
    fail_asked(function, asked, mode);
done:
    Py_XDECREF(mode);
    return answer;
}

PyObject *nxpy_types_of(PyObject *asked) {
    PyObject *types = PyTuple_New(PyList_GET_SIZE(asked));
    for (Py_ssize_t k = 0; types && k < PyList_GET_SIZE(asked); k++) {
        PyTuple_SET_ITEM(types, k, Py_NewRef(Py_TYPE(PyList_GET_ITEM(asked, k))));
    }
    return types;
}

/* `asked` and the arguments of the call: what they say of it. */
static PyObject *ask(PyObject *given_function, PyObject *asked, PyObject *args, PyObject *named) {
    PyObject *function = known_function(given_function), *types = function ? nxpy_types_of(asked) : NULL, *answer = NULL;
    PyObject *question = !types ? NULL : named ? PyTuple_Pack(4, function, types, args, named) : PyTuple_Pack(3, function, types, args);
    bool refused = question && nxpy_before_question && nxpy_before_question(question) < 0;
    if (question && !refused) answer = ask_all(function, asked, question);
    Py_XDECREF(question);
    Py_XDECREF(types);
    Py_XDECREF(function);
    return answer;
}

PyObject *nxpy_tuple_of(PyObject *const *given, Py_ssize_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t k = 0; tuple && k < n; k++) PyTuple_SET_ITEM(tuple, k, Py_NewRef(given[k]));
    return tuple;
}

PyObject *nxpy_dict_of(PyObject *const *values, PyObject *keywords) {
    PyObject *dict = PyDict_New();
    for (Py_ssize_t k = 0; dict && keywords && k < PyTuple_GET_SIZE(keywords); k++) {
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(keywords, k), values[k]) < 0) Py_CLEAR(dict);
    }
    return dict;
}

/* alone: what has no other arguments tells a mode the class of its tensor, whichever that is. */
static int ask_call(PyObject *function, PyObject *const *given, Py_ssize_t n, PyObject *keywords, bool alone, PyObject **answer) {
    const nx_thread *thread = nx_thread_get();
    Py_ssize_t n_named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    bool subclasses = thread->function_state == NXPY_ASK_ALL, mode = thread->function_modes && thread->function_state != NXPY_ASK_NOBODY;
    PyObject *asked = PyList_New(0), *args = NULL, *named = NULL;
    *answer = NULL;
    if (asked == NULL || (subclasses && find_asked(asked, given, n + n_named, alone && mode) < 0)) goto done;
    if (!mode && PyList_GET_SIZE(asked) == 0) {
        Py_DECREF(asked);
        return 0;
    }
    args = nxpy_tuple_of(given, n);
    named = keywords ? nxpy_dict_of(given + n, keywords) : NULL;
    if (args && (named || !keywords)) *answer = ask(function, asked, args, named);
done:
    Py_XDECREF(named);
    Py_XDECREF(args);
    Py_XDECREF(asked);
    return 1;
}

int nxpy_ask(PyObject *function, PyObject *const *given, Py_ssize_t n, PyObject *keywords, PyObject **answer) {
    return ask_call(function, given, n, keywords, false, answer);
}

/* A method or getter of Tensor by its name: "shape", "__get__". */
static PyObject *of_tensor(const char *name, const char *access) {
    PyObject *found = PyObject_GetAttrString((PyObject *)nxpy_tensor_class, name);
    if (found && access) Py_SETREF(found, PyObject_GetAttrString(found, access));
    return found;
}

int nxpy_ask_method(const char *name, PyObject *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords, PyObject **answer) {
    Py_ssize_t n_all = n + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
    PyObject *function = of_tensor(name, NULL), **all = function ? PyMem_Malloc(sizeof *all * (size_t)(n_all + 1)) : NULL;
    int asked = 1;
    *answer = NULL;
    if (all) {
        all[0] = self;
        for (Py_ssize_t k = 0; k < n_all; k++) all[k + 1] = given[k];
        asked = ask_call(function, all, n + 1, keywords, n_all == 0, answer);
    }
    PyMem_Free(all);
    Py_XDECREF(function);
    return asked;
}

int nxpy_ask_before(const char *name, PyObject *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords, PyObject **answer) {
    return NXPY_ASKS(self) ? nxpy_ask_method(name, self, given, n, keywords, answer) : 0;
}

PyObject *nxpy_ask_python(PyObject *asked, PyObject *function, PyObject *args, PyObject *keywords) {
    PyObject *types = PyTuple_New(0), *module = NULL;
    bool refused = !types;
    for (int k = 0; k < 2 && !refused; k++) {
        PyObject *question = PyTuple_Pack(4, k ? asked : function, types, args, keywords);
        refused = !question || (nxpy_before_question && nxpy_before_question(question) < 0);
        Py_XDECREF(question);
    }
    Py_XDECREF(types);
    if (!refused) module = PyImport_ImportModule("narthex.overrides");
    PyObject *answer = module ? PyObject_CallMethod(module, "_ask_spelled", "OOOO", asked, function, args, keywords) : NULL;
    Py_XDECREF(module);
    return answer;
}

int nxpy_ask_spelled(const char *name, const char *module, const char *function, PyObject *self, PyObject *const *given, Py_ssize_t n,
                     PyObject *keywords, PyObject **answer) {
    if (!NXPY_ASKS(self)) return 0;
    PyObject *of = PyImport_ImportModule(module), *python = of ? PyObject_GetAttrString(of, function) : NULL;
    PyObject *asked = python ? of_tensor(name, NULL) : NULL, *first = asked ? PyTuple_Pack(1, self) : NULL;
    PyObject *rest = first ? nxpy_tuple_of(given, n) : NULL, *args = rest ? PySequence_Concat(first, rest) : NULL;
    PyObject *named = args ? nxpy_dict_of(given + n, keywords) : NULL;
    *answer = named ? nxpy_ask_python(asked, python, args, named) : NULL;
    PyObject *const parts[] = {of, python, asked, first, rest, args, named};
    for (int k = 0; k < NX_COUNT(parts); k++) Py_XDECREF(parts[k]);
    return 1;
}

int nxpy_ask_tuple(PyObject *function, PyObject *self, PyObject *args, PyObject *keywords, PyObject **answer) {
    Py_ssize_t n = PyTuple_GET_SIZE(args) + (self != NULL), n_named = keywords ? PyDict_GET_SIZE(keywords) : 0;
    PyObject *names = n_named ? PySequence_Tuple(keywords) : NULL, *list = PyList_New(0);
    int asked = 1, done = list && self ? PyList_Append(list, self) : list ? 0 : -1;
    *answer = NULL;
    for (Py_ssize_t k = 0; done == 0 && k < PyTuple_GET_SIZE(args); k++) done = PyList_Append(list, PyTuple_GET_ITEM(args, k));
    for (Py_ssize_t k = 0; done == 0 && names && k < n_named; k++) {
        done = PyList_Append(list, PyDict_GetItem(keywords, PyTuple_GET_ITEM(names, k)));
    }
    if (done == 0 && (names || !n_named)) asked = nxpy_ask(function, PySequence_Fast_ITEMS(list), n, names, answer);
    Py_XDECREF(list);
    Py_XDECREF(names);
    return asked;
}

int nxpy_ask_called(const char *name, PyObject *self, PyObject *args, PyObject *keywords, PyObject **answer) {
    if (!NXPY_ASKS(self)) return 0;
    PyObject *function = of_tensor(name, NULL);
    int asked = function ? nxpy_ask_tuple(function, self, args, keywords, answer) : (*answer = NULL, 1);
    Py_XDECREF(function);
    return asked;
}

/* ---- getters and setters: those of the tables, behind the question ------------------------------------------------------------ */
static PyObject *guarded_get(PyObject *self, void *closure) {
    const PyGetSetDef *def = closure;
    if (NXPY_ASKS(self)) {
        PyObject *answer, *function = of_tensor(def->name, "__get__");
        int asked = function ? ask_call(function, &self, 1, NULL, true, &answer) : (answer = NULL, 1);
        Py_XDECREF(function);
        if (asked) return answer;
    }
    return def->get(self, def->closure);
}

static int guarded_set(PyObject *self, PyObject *value, void *closure) {
    const PyGetSetDef *def = closure;
    if (NXPY_ASKS(self)) {
        PyObject *answer, *given[] = {self, value}, *function = of_tensor(def->name, value ? "__set__" : "__delete__");
        int asked = function ? nxpy_ask(function, given, value ? 2 : 1, NULL, &answer) : (answer = NULL, 1);
        Py_XDECREF(function);
        Py_XDECREF(asked ? answer : NULL);
        if (asked) return answer ? 0 : -1;
    }
    return def->set(self, value, def->closure);
}

int nxpy_add_getset(PyGetSetDef *defs) {
    int n = 0;
    while (defs[n].name) n++;
    PyGetSetDef *guarded = PyMem_Calloc((size_t)n, sizeof *guarded); /* as long as the process */
    if (guarded == NULL) return PyErr_NoMemory(), -1;
    for (int k = 0; k < n; k++) {
        guarded[k] = (PyGetSetDef){defs[k].name, defs[k].get ? guarded_get : NULL, defs[k].set ? guarded_set : NULL, defs[k].doc, &defs[k]};
        bool own = strncmp(defs[k].name, "_is_", 4) == 0; /* PyTorch has no such attribute */
        PyObject *descriptor = PyDescr_NewGetSet(&nxpy_tensor_type, own ? &defs[k] : &guarded[k]);
        int done = descriptor ? PyDict_SetItemString(nxpy_tensor_type.tp_dict, defs[k].name, descriptor) : -1;
        Py_XDECREF(descriptor);
        if (done < 0) return -1;
    }
    return 0;
}

/* ---- the thread's state, for Python ---------------------------------------------------------------------------------------------- */
int nxpy_mode_push(void **modes, int *n_modes, PyObject *mode) {
    if (*modes == NULL && (*modes = PyList_New(0)) == NULL) return -1;
    if (PyList_Append(*modes, mode) < 0) return -1;
    ++*n_modes;
    return 0;
}

/* The list goes with its last mode, so that a thread that is in no mode has none. */
int nxpy_mode_pop(void **modes, int *n_modes) {
    PyObject *list = *modes;
    Py_ssize_t n = list ? PyList_GET_SIZE(list) : 0;
    if (n == 0) return PyErr_SetString(PyExc_RuntimeError, "no mode is there to be popped"), -1;
    if (n == 1) *modes = NULL;
    else Py_INCREF(list);
    int done = PyList_SetSlice(list, n - 1, n, NULL);
    Py_DECREF(list);
    --*n_modes;
    return done;
}

static PyObject *push_function_mode(PyObject *module, PyObject *mode) {
    if (nxpy_mode_push(&nx_thread_get()->function_modes, &nxpy_n_function_modes, mode) < 0) return NULL;
    Py_RETURN_NONE;
}
static PyObject *pop_function_mode(PyObject *module, PyObject *unused) {
    nx_thread *thread = nx_thread_get();
    PyObject *modes = thread->function_modes, *mode = modes ? Py_NewRef(PyList_GET_ITEM(modes, PyList_GET_SIZE(modes) - 1)) : NULL;
    if (nxpy_mode_pop(&thread->function_modes, &nxpy_n_function_modes) < 0) Py_CLEAR(mode);
    return mode;
}
static PyObject *function_modes(PyObject *module, PyObject *unused) {
    PyObject *modes = nx_thread_get()->function_modes;
    return modes ? PyList_GetSlice(modes, 0, PY_SSIZE_T_MAX) : PyList_New(0);
}
static PyObject *swap_function_state(PyObject *module, PyObject *state) {
    nx_thread *thread = nx_thread_get();
    long wanted = PyLong_AsLong(state), before = thread->function_state;
    if (wanted == -1 && PyErr_Occurred()) return NULL;
    if (wanted < NXPY_ASK_ALL || wanted > NXPY_ASK_NOBODY)
        return PyErr_Format(PyExc_ValueError, "swap_function_state: 0, 1 or 2, not %ld", wanted);
    thread->function_state = (uint8_t)wanted;
    return PyLong_FromLong(before);
}
static PyObject *function_state(PyObject *module, PyObject *unused) { return PyLong_FromLong(nx_thread_get()->function_state); }

/* Lends the arguments of a list or tuple; of another iterable a list that is made of it. */
static PyObject *has_torch_function(PyObject *module, PyObject *of) {
    PyObject *list = PySequence_Fast(of, "has_torch_function: expected a sequence");
    if (list == NULL) return NULL;
    bool asks = nxpy_any_asks(PySequence_Fast_ITEMS(list), PySequence_Fast_GET_SIZE(list));
    Py_DECREF(list);
    return PyBool_FromLong(asks);
}
static PyObject *has_torch_function_unary(PyObject *module, PyObject *of) { return PyBool_FromLong(nxpy_any_asks(&of, 1)); }
static PyObject *has_torch_function_variadic(PyObject *module, PyObject *const *of, Py_ssize_t n) {
    return PyBool_FromLong(nxpy_any_asks(of, n));
}

/* handle_torch_function(function, relevant, args, kwargs) */
static PyObject *ask_torch_function(PyObject *module, PyObject *given) {
    PyObject *function, *relevant, *args, *named, *answer = NULL;
    if (!PyArg_ParseTuple(given, "OOO!O!:ask_torch_function", &function, &relevant, &PyTuple_Type, &args, &PyDict_Type, &named))
        return NULL;
    PyObject *list = PySequence_Fast(relevant, "handle_torch_function: expected a sequence"), *asked = list ? PyList_New(0) : NULL;
    bool subclasses = nx_thread_get()->function_state == NXPY_ASK_ALL;
    int done = asked && subclasses ? find_asked(asked, PySequence_Fast_ITEMS(list), PySequence_Fast_GET_SIZE(list), true) : asked ? 0 : -1;
    if (done == 0) answer = ask(function, asked, args, named);
    Py_XDECREF(asked);
    Py_XDECREF(list);
    return answer;
}

/* The protocol of a class that takes no part: the call as it would be without protocols. */
static PyObject *disabled_function(PyObject *module, PyObject *given) {
    PyObject *function, *types, *args = NULL, *named = NULL;
    if (!PyArg_ParseTuple(given, "OO|OO:_disabled_torch_function_impl", &function, &types, &args, &named)) return NULL;
    nx_thread *thread = nx_thread_get();
    uint8_t before = thread->function_state;
    PyObject *tuple = args ? PySequence_Tuple(args) : PyTuple_New(0);
    thread->function_state = before == NXPY_ASK_ALL ? NXPY_ASK_MODES : before;
    PyObject *result = tuple ? PyObject_Call(function, tuple, named && named != Py_None ? named : NULL) : NULL;
    thread->function_state = before;
    Py_XDECREF(tuple);
    return result;
}

static PyObject *register_parameter_class(PyObject *module, PyObject *type) {
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, &nxpy_tensor_type))
        return PyErr_Format(PyExc_TypeError, "register_parameter_class: expected a subclass of TensorBase");
    Py_XSETREF(nxpy_parameter_class, (PyTypeObject *)Py_NewRef(type));
    Py_RETURN_NONE;
}

/* A tensor of another class that is used as a parameter. */
static PyObject *mark_parameter(PyObject *module, PyObject *tensor) {
    if (!nxpy_tensor_check(tensor)) return PyErr_Format(PyExc_TypeError, "mark_parameter: expected a Tensor");
    nxpy_tensor_get(tensor)->is_parameter = true;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_disabled_torch_function_impl", disabled_function, METH_VARARGS, "The __torch_function__ of a class that takes no part."},
    {"_has_torch_function", has_torch_function, METH_O, "Whether a mode or one of them answers calls."},
    {"_has_torch_function_unary", has_torch_function_unary, METH_O, "The same of one."},
    {"_has_torch_function_variadic", (PyCFunction)(void (*)(void))has_torch_function_variadic, METH_FASTCALL, "The same of all."},
    {"ask_torch_function", ask_torch_function, METH_VARARGS, "ask_torch_function(function, relevant, args, kwargs): what they answer."},
    {"push_function_mode", push_function_mode, METH_O, "push_function_mode(mode): it answers the calls of this thread."},
    {"pop_function_mode", pop_function_mode, METH_NOARGS, "pop_function_mode(): the innermost mode, which ends."},
    {"function_modes", function_modes, METH_NOARGS, "function_modes(): a list, the innermost last."},
    {"function_state", function_state, METH_NOARGS, "0: classes and modes answer calls, 1: modes alone, 2: nobody."},
    {"swap_function_state", swap_function_state, METH_O, "swap_function_state(n): gives the last one."},
    {"mark_parameter", mark_parameter, METH_O, "mark_parameter(tensor): it is a parameter, whatever its class."},
    {"register_parameter_class", register_parameter_class, METH_O, "register_parameter_class(cls): the class of parameters."},
    {NULL}};

int nxpy_add_overrides(PyObject *module) {
    if ((protocol_name = PyUnicode_InternFromString("__torch_function__")) == NULL) return -1;
    if (PyModule_AddFunctions(module, functions) < 0) return -1;
    return (disabled = PyObject_GetAttrString(module, "_disabled_torch_function_impl")) ? 0 : -1;
}
