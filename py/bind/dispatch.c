/* What stands at the key PYTHON: __torch_dispatch__, operators answered by modes and by classes of tensors, below autograd.
 * In: a call as ATen knows it, with the schema's arguments. Who is asked: the innermost mode of the thread, which is out of the way
 * meanwhile, then the classes of the arguments, subclasses before their bases. A call for which nobody is there goes on below.
 * The thread has the key while it has modes, a tensor while its class answers. Results are the call's, but a written argument
 * stays what it is. Next: override.c, where functions are answered before any operator is called. */
#include "bind/private.h"

static PyObject *dispatch_name, *disabled, *overloads; /* "__torch_dispatch__"; of who takes no part; objects of torch.ops by name */
static int n_dispatch_modes;

bool nxpy_class_dispatches(PyTypeObject *type) {
    PyObject *found = type == nxpy_tensor_class ? NULL : PyObject_GetAttr((PyObject *)type, dispatch_name);
    if (found == NULL) PyErr_Clear();
    Py_XDECREF(found);
    return found && found != disabled;
}

/* ---- from the call to Python ------------------------------------------------------------------------------------------------- */
/* torch.ops.aten.add.Tensor, lent. */
static PyObject *overload_of(const nx_op *op) {
    PyObject *known = overloads ? PyDict_GetItemString(overloads, op->def->name) : NULL;
    if (known || (overloads == NULL && (overloads = PyDict_New()) == NULL)) return known;
    char text[160];
    snprintf(text, sizeof text, "%s", op->def->name);
    char *name = strstr(text, "::"), *overload = strchr(text, '.');
    if (overload) *overload++ = 0;
    *name = 0;
    PyObject *module = PyImport_ImportModule("narthex._ops");
    PyObject *found = module ? PyObject_CallMethod(module, "_find", "sss", text, name + 2, overload ? overload : "default") : NULL;
    int done = found ? PyDict_SetItemString(overloads, op->def->name, found) : -1;
    Py_XDECREF(found); /* the dict has it */
    Py_XDECREF(module);
    return done < 0 ? NULL : found;
}

static bool same_value(const nx_value *a, const nx_value *b) {
    if (a->tag != b->tag) return false;
    switch (a->tag) {
    case NX_TAG_NONE: return true;
    case NX_TAG_INT:
    case NX_TAG_BOOL:
    case NX_TAG_DTYPE:
    case NX_TAG_LAYOUT:
    case NX_TAG_MEMORY_FORMAT: return a->i == b->i;
    case NX_TAG_FLOAT: return a->f == b->f;
    case NX_TAG_STR: return strcmp(a->str, b->str) == 0;
    case NX_TAG_INTS: return a->n == b->n && memcmp(a->ints, b->ints, sizeof(int64_t) * (size_t)a->n) == 0;
    case NX_TAG_LIST: return a->n == 0 && b->n == 0;
    default: return false;
    }
}

static bool is_initial(const nx_param *param, const nx_value *value) {
    if (param->has_initial) return same_value(value, &param->initial);
    return param->optional && param->keyword_only && value->tag == NX_TAG_NONE;
}

/* Arguments by position up to the last that is not what it would be if left out; of those by name the ones that are not. */
static PyObject *make_args(const nx_op_def *def, const nx_value *in, PyObject **keywords) {
    int n = 0;
    for (int k = 0; k < def->n_in; k++) {
        if (!def->params[k].keyword_only && !is_initial(&def->params[k], &in[k])) n = k + 1;
    }
    PyObject *args = PyTuple_New(n);
    if ((*keywords = args ? PyDict_New() : NULL) == NULL) return Py_XDECREF(args), NULL;
    for (int k = 0; k < def->n_in; k++) {
        const nx_param *param = &def->params[k];
        if (k >= n && (!param->keyword_only || is_initial(param, &in[k]))) continue;
        PyObject *value = nxpy_value_object(&in[k]);
        int done = value ? 0 : -1;
        if (value && k < n) PyTuple_SET_ITEM(args, k, value);
        else if (value) {
            done = PyDict_SetItemString(*keywords, param->name, value);
            Py_DECREF(value);
        }
        if (done == 0) continue;
        Py_CLEAR(*keywords);
        Py_DECREF(args);
        return NULL;
    }
    return args;
}

static int find_asked(PyObject *asked, const nx_value *values, int n) {
    for (int k = 0; k < n; k++) {
        int done = 0;
        if (values[k].tag == NX_TAG_LIST) done = find_asked(asked, values[k].list, values[k].n);
        else if (values[k].tag == NX_TAG_TENSOR && NX_UNLIKELY(values[k].tensor->keys & NX_KEY(PYTHON))) {
            PyObject *object = nxpy_tensor_wrap(values[k].tensor);
            done = !object ? -1 : nxpy_class_dispatches(Py_TYPE(object)) ? nxpy_add_asked(asked, object) : 0;
            Py_XDECREF(object);
        }
        if (done < 0) return -1;
    }
    return 0;
}

/* ---- modes ------------------------------------------------------------------------------------------------------------------------ */
static void set_key(nx_thread *thread) {
    if (thread->dispatch_modes) thread->keys_included |= NX_KEY(PYTHON);
    else thread->keys_included &= ~NX_KEY(PYTHON);
}
static int push(PyObject *mode) {
    nx_thread *thread = nx_thread_get();
    int done = nxpy_mode_push(&thread->dispatch_modes, &n_dispatch_modes, mode);
    set_key(thread);
    return done;
}
static PyObject *pop(void) {
    nx_thread *thread = nx_thread_get();
    PyObject *modes = thread->dispatch_modes, *mode = modes ? Py_NewRef(PyList_GET_ITEM(modes, PyList_GET_SIZE(modes) - 1)) : NULL;
    if (nxpy_mode_pop(&thread->dispatch_modes, &n_dispatch_modes) < 0) Py_CLEAR(mode);
    set_key(thread);
    return mode;
}

/* ---- asking ------------------------------------------------------------------------------------------------------------------------ */
static PyObject *ask_one(PyObject *o, PyObject *question) {
    PyObject *method = PyObject_GetAttr(o, dispatch_name), *answer = method ? PyObject_CallObject(method, question) : NULL;
    Py_XDECREF(method);
    return answer;
}

static PyObject *ask_mode(PyObject *question) {
    PyObject *type, *value, *trace, *mode = pop(), *answer = mode ? ask_one(mode, question) : NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (mode && push(mode) < 0) Py_CLEAR(answer);
    else PyErr_Restore(type, value, trace);
    Py_XDECREF(mode);
    return answer;
}

static PyObject *fail_asked(const nx_op *op, PyObject *asked) {
    PyObject *text = PyUnicode_FromFormat("Multiple dispatch failed for 'torch._ops.%S'; all __torch_dispatch__ handlers returned "
                                          "NotImplemented:\n\n", overload_of(op));
    if (text && nx_thread_get()->dispatch_modes) {
        PyObject *modes = nx_thread_get()->dispatch_modes;
        Py_SETREF(text, PyUnicode_FromFormat("%U  - mode object %R\n", text, PyList_GET_ITEM(modes, PyList_GET_SIZE(modes) - 1)));
    }
    for (Py_ssize_t k = 0; text && k < PyList_GET_SIZE(asked); k++) {
        Py_SETREF(text, PyUnicode_FromFormat("%U  - tensor subclass %R\n", text, (PyObject *)Py_TYPE(PyList_GET_ITEM(asked, k))));
    }
    if (text) Py_SETREF(text, PyUnicode_FromFormat("%U\nFor more information, try re-running with TORCH_LOGS=not_implemented", text));
    if (text) PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(text);
    return NULL;
}

static PyObject *ask_all(const nx_op *op, PyObject *asked, PyObject *question) {
    PyObject *answer = nx_thread_get()->dispatch_modes ? ask_mode(question) : Py_NewRef(Py_NotImplemented);
    for (Py_ssize_t k = 0; answer == Py_NotImplemented && k < PyList_GET_SIZE(asked); k++) {
        Py_DECREF(answer);
        answer = ask_one(PyList_GET_ITEM(asked, k), question);
    }
    if (answer != Py_NotImplemented) return answer;
    Py_DECREF(answer);
    return fail_asked(op, asked);
}

static PyObject *ask(const nx_op *op, PyObject *asked, const nx_value *in) {
    PyObject *keywords = NULL, *args = make_args(op->def, in, &keywords), *types = args ? nxpy_types_of(asked) : NULL;
    PyObject *function = types ? overload_of(op) : NULL, *question = function ? PyTuple_Pack(4, function, types, args, keywords) : NULL;
    PyObject *answer = question ? ask_all(op, asked, question) : NULL;
    PyObject *const parts[] = {keywords, args, types, question};
    for (int k = 0; k < NX_COUNT(parts); k++) Py_XDECREF(parts[k]);
    return answer;
}

/* ---- from Python to the call's results ------------------------------------------------------------------------------------------ */
static nx_status take_one(const nx_op *op, PyObject *o, nx_value *out) {
    if (nxpy_tensor_check(o)) *out = nx_value_tensor(nx_tensor_ref(nxpy_tensor_get(o)));
    else if (o == Py_None) *out = NX_VALUE_NONE;
    else if (PyBool_Check(o)) *out = nx_value_bool(o == Py_True);
    else if (PyLong_Check(o)) *out = nx_value_int(PyLong_AsLongLong(o));
    else if (PyFloat_Check(o)) *out = nx_value_float(PyFloat_AS_DOUBLE(o));
    else return nx_fail(NX_TYPE, "%s: __torch_dispatch__ gave a %s where a Tensor is the result", op->def->name, Py_TYPE(o)->tp_name);
    return NX_OK;
}

static nx_status take_many(const nx_op *op, PyObject *answer, int n, nx_value *out) {
    bool many = PyTuple_Check(answer) || PyList_Check(answer);
    if (!many || (n >= 0 && PySequence_Fast_GET_SIZE(answer) != n))
        return nx_fail(NX_TYPE, "%s: __torch_dispatch__ gave a %s, expected a tuple of its results", op->def->name,
                       Py_TYPE(answer)->tp_name);
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(answer); k++) {
        nx_status status = take_one(op, PySequence_Fast_ITEMS(answer)[k], &out[k]);
        if (status == NX_OK) continue;
        while (k-- > 0) nx_value_drop(&out[k]);
        return status;
    }
    return NX_OK;
}

static nx_status take_list(const nx_op *op, PyObject *answer, nx_value *out) {
    Py_ssize_t n = PySequence_Check(answer) ? PySequence_Size(answer) : 0;
    nx_value *parts = nx_alloc(sizeof *parts * (size_t)(n + 1));
    if (parts == NULL) return nx_fail_memory(sizeof *parts);
    nx_status status = take_many(op, answer, -1, parts);
    if (status == NX_OK) {
        nx_value list = nx_value_list(parts, (int)n);
        status = nx_value_keep(&list, out);
        for (Py_ssize_t k = 0; k < n; k++) nx_value_drop(&parts[k]);
    }
    nx_free(parts);
    return status;
}

static nx_status take_results(const nx_op *op, const nx_value *in, PyObject *answer, nx_value *out) {
    const nx_op_def *def = op->def;
    bool in_place = (def->flags & NX_OP_MUTATES) && def->variant != NX_OUT && def->n_out == 1;
    int first = in_place ? 0 : def->n_in - def->n_out;
    if (def->n_out == 0) return NX_OK;
    if (in_place || def->variant == NX_OUT) {
        for (int k = 0; k < def->n_out; k++) NX_TRY(nx_value_keep(&in[first + k], &out[k]));
        return NX_OK;
    }
    if (def->flags & NX_OP_LIST) return take_list(op, answer, out);
    return def->n_out == 1 ? take_one(op, answer, out) : take_many(op, answer, def->n_out, out);
}

/* Operators called meanwhile record nothing for autograd: this is below it. */
static nx_status call_python(nx_run *run, const nx_value *in, nx_value *out) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *asked = PyList_New(0), *answer = NULL;
    bool found = asked && find_asked(asked, in, run->op->def->n_in) == 0;
    bool nobody = found && PyList_GET_SIZE(asked) == 0 && !nx_thread_get()->dispatch_modes;
    nx_status status;
    if (nobody) {
        status = nx_redispatch(run->op, run->keys, NX_KEY_AT_PYTHON, in, out);
    } else {
        uint64_t excluded = nx_keys_exclude(NX_KEYS_OWN);
        if (found) answer = ask(run->op, asked, in);
        nx_keys_restore(excluded);
        status = answer ? take_results(run->op, in, answer, out) : nxpy_caught();
    }
    Py_XDECREF(answer);
    Py_XDECREF(asked);
    PyGILState_Release(state);
    return status;
}

/* ---- for Python -------------------------------------------------------------------------------------------------------------------- */
static PyObject *push_dispatch_mode(PyObject *module, PyObject *mode) {
    if (push(mode) < 0) return NULL;
    Py_RETURN_NONE;
}
static PyObject *pop_dispatch_mode(PyObject *module, PyObject *unused) { return pop(); }
static PyObject *dispatch_modes(PyObject *module, PyObject *unused) {
    PyObject *modes = nx_thread_get()->dispatch_modes;
    return modes ? PyList_GetSlice(modes, 0, PY_SSIZE_T_MAX) : PyList_New(0);
}
static PyObject *disabled_dispatch(PyObject *module, PyObject *given) {
    PyObject *function, *types, *args = NULL, *named = NULL;
    if (!PyArg_ParseTuple(given, "OO|O!O:_disabled_torch_dispatch_impl", &function, &types, &PyTuple_Type, &args, &named))
        return NULL;
    PyObject *all = args ? Py_NewRef(args) : PyTuple_New(0);
    uint64_t excluded = nx_keys_exclude(NX_KEY(PYTHON));
    PyObject *result = all ? PyObject_Call(function, all, named && named != Py_None ? named : NULL) : NULL;
    nx_keys_restore(excluded);
    Py_XDECREF(all);
    return result;
}

static int read_sizes(PyObject *given, int n, int64_t *out) { /* n < 0: as many as there are, which it returns */
    PyObject *list = PySequence_Fast(given, "_make_wrapper_subclass: expected a sequence of ints");
    Py_ssize_t found = list ? PySequence_Fast_GET_SIZE(list) : -1;
    if (list && (found > NX_MAX_DIMS || (n >= 0 && found != n))) {
        PyErr_Format(PyExc_RuntimeError, "_make_wrapper_subclass: %zd sizes or strides", found);
        found = -1;
    }
    for (Py_ssize_t d = 0; d < found; d++) {
        out[d] = PyLong_AsLongLong(PySequence_Fast_ITEMS(list)[d]);
        if ((out[d] == -1 && PyErr_Occurred())) found = -1;
        else if (out[d] < 0) found = (PyErr_SetString(PyExc_RuntimeError, "_make_wrapper_subclass: a negative size or stride"), -1);
    }
    Py_XDECREF(list);
    return (int)found;
}

/* A tensor of a class that answers for it: a shape, a dtype and a device, and no elements. */
static PyObject *make_wrapper(PyObject *unused, PyObject *args, PyObject *keywords) {
    static char *names[] = {"cls", "size", "strides", "storage_offset", "memory_format", "dtype", "layout", "device", "pin_memory",
                            "requires_grad", "dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout", NULL};
    PyObject *cls, *size, *strides = Py_None, *offset, *format, *dtype = Py_None, *layout, *where = Py_None, *policy;
    int pinned, requires_grad = 0, flags[2];
    nx_meta meta = {.view_of = -1, .device = NX_CPU, .dtype = nx_default_dtype()};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|O$OOOOOppOpp:_make_wrapper_subclass", names, &cls, &size, &strides,
                                     &offset, &format, &dtype, &layout, &where, &pinned, &requires_grad, &policy, &flags[0], &flags[1]))
        return NULL;
    if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject *)cls, &nxpy_tensor_type) || !nxpy_class_dispatches((PyTypeObject *)cls))
        return PyErr_Format(PyExc_TypeError, "%s must define __torch_dispatch__",
                            PyType_Check(cls) ? ((PyTypeObject *)cls)->tp_name : "cls");
    if (dtype != Py_None && !nxpy_dtype_check(dtype))
        return PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass: dtype must be torch.dtype");
    if (dtype != Py_None) meta.dtype = nxpy_dtype_get(dtype);
    if (where != Py_None && nxpy_device_from(where, &meta.device) < 0) return NULL;
    if ((meta.ndim = read_sizes(size, -1, meta.size)) < 0) return NULL;
    nx_meta_contiguous(&meta);
    if (strides != Py_None && read_sizes(strides, meta.ndim, meta.stride) < 0) return NULL;
    nx_tensor *tensor;
    NXPY_TRY(nx_tensor_new_meta(&meta, true, &tensor));
    nx_status status = requires_grad ? nx_tensor_set_requires_grad(tensor, true) : NX_OK;
    if (status == NX_OK) return nxpy_object_of((PyTypeObject *)cls, tensor);
    nx_tensor_unref(tensor);
    return nxpy_raise(status);
}

static PyMethodDef functions[] = {
    {"_disabled_torch_dispatch_impl", disabled_dispatch, METH_VARARGS, "The __torch_dispatch__ of a class that takes no part."},
    {"push_dispatch_mode", push_dispatch_mode, METH_O, "push_dispatch_mode(mode): it answers the operators of this thread."},
    {"pop_dispatch_mode", pop_dispatch_mode, METH_NOARGS, "pop_dispatch_mode(): the innermost mode, which ends."},
    {"dispatch_modes", dispatch_modes, METH_NOARGS, "dispatch_modes(): a list, the innermost last."},
    {"make_wrapper_subclass", (PyCFunction)(void (*)(void))make_wrapper, METH_VARARGS | METH_KEYWORDS,
     "make_wrapper_subclass(cls, size, strides=None, *, dtype, device, requires_grad): a tensor without elements of its own."},
    {NULL}};

int nxpy_add_dispatch(PyObject *module) {
    if ((dispatch_name = PyUnicode_InternFromString("__torch_dispatch__")) == NULL) return -1;
    if (PyModule_AddFunctions(module, functions) < 0) return -1;
    if ((disabled = PyObject_GetAttrString(module, "_disabled_torch_dispatch_impl")) == NULL) return -1;
    nx_status status = nx_library_fallback(NX_KEY_AT_PYTHON, call_python);
    return status == NX_OK ? 0 : (nxpy_raise(status), -1);
}
