/* The tensor's Python object and how it lives.
 * A tensor and its object point at each other; either may go first. While the object lives it holds a count on the tensor.
 * When Python lets go of an object that has state of its own (attributes, weak references, a subclass) and C still holds
 * the tensor, the object stays and the tensor owns it (tensor->python_owned); when Python meets the tensor again the
 * ownership turns back. An object without state is simply made again. Dead plain objects wait in a list.
 * The collector follows an object only once it has attributes, hooks or a history in Python, since no cycle can run through
 * it before. */
#include "bind/private.h"

enum { MAX_FREE = 128 };
PyTypeObject *nxpy_tensor_class;
static nxpy_tensor *free_objects[MAX_FREE];
static int n_free_objects;

static bool has_state(nxpy_tensor *o) {
    return Py_TYPE(o) != nxpy_tensor_class || o->stays || o->weak || (o->dict && PyDict_GET_SIZE(o->dict) > 0);
}

/* ---- from C to Python ---------------------------------------------------------------------------------------------- */
static nxpy_tensor *new_object(PyTypeObject *type) {
    nxpy_tensor *o;
    if (type == nxpy_tensor_class && n_free_objects > 0) {
        o = free_objects[--n_free_objects];
        PyObject_Init((PyObject *)o, type);
    } else if ((o = PyObject_GC_New(nxpy_tensor, type)) == NULL) {
        return NULL;
    }
    o->dict = o->weak = NULL;
    o->stays = false;
    return o;
}

PyObject *nxpy_tensor_take(nx_tensor *tensor) {
    nxpy_tensor *o = tensor->python;
    if (o == NULL) {
        if ((o = new_object(nxpy_tensor_class)) == NULL) {
            nx_tensor_unref(tensor);
            return NULL;
        }
        o->tensor = tensor;
        tensor->python = o;
        return (PyObject *)o;
    }
    if (tensor->python_owned) {
        tensor->python_owned = false; /* its count on the object becomes the caller's, the caller's on it the object's */
        return (PyObject *)o;
    }
    Py_INCREF(o);
    nx_tensor_unref(tensor);
    return (PyObject *)o;
}

PyObject *nxpy_tensor_wrap(nx_tensor *tensor) { return nxpy_tensor_take(nx_tensor_ref(tensor)); }

PyObject *nxpy_tensor_lend(nx_tensor *tensor) {
    nxpy_tensor *o = tensor->python;
    if (NX_LIKELY(o && o->stays)) return (PyObject *)o;
    o = (nxpy_tensor *)nxpy_tensor_wrap(tensor);
    if (!o) return NULL;
    o->stays = true;
    Py_DECREF(o);
    return tensor->python;
}

/* ---- the end ----------------------------------------------------------------------------------------------------------- */
static void free_object(nxpy_tensor *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (PyObject_GC_IsTracked((PyObject *)o)) PyObject_GC_UnTrack(o);
    if (o->weak) PyObject_ClearWeakRefs((PyObject *)o);
    Py_CLEAR(o->dict);
    if (type == nxpy_tensor_class && n_free_objects < MAX_FREE) free_objects[n_free_objects++] = o;
    else PyObject_GC_Del(o);
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_DECREF(type);
}

static void tensor_dealloc(PyObject *self) {
    nxpy_tensor *o = (nxpy_tensor *)self;
    nx_tensor *tensor = o->tensor;
    if (tensor) {
        if (atomic_load_explicit(&tensor->refs, memory_order_relaxed) > 1 && has_state(o)) {
            Py_SET_REFCNT(self, 1);
            tensor->python_owned = true;
            nx_tensor_unref(tensor);
            return;
        }
        o->tensor = NULL;
        tensor->python = NULL;
        nx_tensor_unref(tensor);
    }
    free_object(o);
}

/* The tensor goes and owned its object: called from whatever thread drops the last count. */
static void free_owned(void *python) {
    PyGILState_STATE state = PyGILState_Ensure();
    ((nxpy_tensor *)python)->tensor = NULL;
    Py_DECREF((PyObject *)python);
    PyGILState_Release(state);
}

int (*nxpy_visit_owned)(const nx_grad_node *node, const nx_grad_hook *hook, const nxpy_visitor *visitor);

static int visit_owned(const nx_grad_node *node, const nx_grad_hook *hook, void *visitor) {
    return nxpy_visit_owned ? nxpy_visit_owned(node, hook, visitor) : 0;
}
/* What C still holds is reachable, whatever Python's own counts say: its members are not shown. Of the graph behind the tensor
 * that is shown which goes with it; the rest is not, so that a cycle through several tensors of one graph may stay. */
static int tensor_traverse(PyObject *self, visitproc visit, void *arg) {
    const nx_tensor *tensor = ((nxpy_tensor *)self)->tensor;
    if (Py_TYPE(self)->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_VISIT(Py_TYPE(self));
    if (tensor && atomic_load_explicit(&tensor->refs, memory_order_relaxed) > 1) return 0;
    Py_VISIT(((nxpy_tensor *)self)->dict);
    return tensor ? nx_grad_each_owned(tensor, visit_owned, &(nxpy_visitor){visit, arg}) : 0;
}
static int tensor_clear(PyObject *self) {
    nxpy_tensor *o = (nxpy_tensor *)self;
    if (o->tensor == NULL || atomic_load(&o->tensor->refs) == 1) Py_CLEAR(o->dict);
    return 0;
}
void nxpy_tensor_track(PyObject *tensor) {
    if (!PyObject_GC_IsTracked(tensor)) PyObject_GC_Track(tensor);
}
static int tensor_setattro(PyObject *self, PyObject *name, PyObject *value) {
    if (PyObject_GenericSetAttr(self, name, value) < 0) return -1;
    if (((nxpy_tensor *)self)->dict) nxpy_tensor_track(self);
    return 0;
}

/* Tensor(tensor): the same elements as an object of a subclass (nn.Parameter); without autograd history. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *from = NULL;
    int requires_grad = 0, is_parameter = 0;
    static char *names[] = {"data", "requires_grad", "is_parameter", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O!pp:Tensor", names, &nxpy_tensor_type, &from, &requires_grad, &is_parameter)) {
        return NULL;
    }
    nx_tensor *tensor;
    if (from) NXPY_TRY(nx_tensor_alias(nxpy_tensor_get(from), &tensor));
    else NXPY_TRY(nx_tensor_new(nx_default_dtype(), 1, (int64_t[]){0}, NX_CPU, &tensor));
    tensor->is_parameter = is_parameter;
    nx_status status = requires_grad ? nx_tensor_set_requires_grad(tensor, true) : NX_OK;
    nxpy_tensor *o = status == NX_OK ? new_object(type) : NULL;
    if (o == NULL) {
        nx_tensor_unref(tensor);
        return status == NX_OK ? NULL : nxpy_raise(status);
    }
    o->tensor = tensor;
    tensor->python = o;
    if (!is_parameter && nxpy_class_dispatches(type)) tensor->keys |= NX_KEY(PYTHON);
    return (PyObject *)o;
}

/* A class of tensors that an object may have; NULL with an exception. */
static PyTypeObject *class_of(const char *function, PyObject *type) {
    bool fits = PyType_Check(type) && PyType_IsSubtype((PyTypeObject *)type, &nxpy_tensor_type);
    if (fits) return (PyTypeObject *)type;
    PyErr_Format(PyExc_TypeError, "%s(): argument 'cls' must be a subclass of Tensor, not %R", function, type);
    return NULL;
}

/* The object of class `type` of a tensor that nobody else knows, which it takes. */
PyObject *nxpy_object_of(PyTypeObject *type, nx_tensor *tensor) {
    nxpy_tensor *o = new_object(type);
    if (o == NULL) {
        nx_tensor_unref(tensor);
        return NULL;
    }
    o->tensor = tensor;
    tensor->python = o;
    if (nxpy_class_dispatches(type)) tensor->keys |= NX_KEY(PYTHON);
    else tensor->keys &= ~NX_KEY(PYTHON);
    if (tensor->autograd) nxpy_tensor_track((PyObject *)o);
    return (PyObject *)o;
}

/* The same elements as a tensor of another class, with its history. */
static PyObject *as_subclass(PyObject *self, PyObject *type) {
    const nx_op *alias;
    nx_value out;
    PyTypeObject *class = class_of("as_subclass", type);
    if (class == NULL) return NULL;
    NXPY_TRY(nx_op_find("aten::alias", &alias));
    NXPY_TRY(nx_op_call(alias, (nx_value[]){nx_value_tensor(nxpy_tensor_get(self))}, &out));
    return nxpy_object_of(class, out.tensor);
}

/* The same elements as a tensor of another class, without history. */
static PyObject *make_subclass(PyObject *unused, PyObject *args, PyObject *keywords) {
    static char *names[] = {"cls", "data", "require_grad", "dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout",
                            "device_for_backend_keys", NULL};
    PyObject *type, *data, *ignored;
    int requires_grad = 0, flags[2];
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO!|pOppO:_make_subclass", names, &type, &nxpy_tensor_type, &data, &requires_grad,
                                     &ignored, &flags[0], &flags[1], &ignored)) return NULL;
    PyTypeObject *class = class_of("_make_subclass", type);
    nx_tensor *tensor;
    if (class == NULL) return NULL;
    NXPY_TRY(nx_tensor_alias(nxpy_tensor_get(data), &tensor));
    nx_status status = requires_grad ? nx_tensor_set_requires_grad(tensor, true) : NX_OK;
    if (status == NX_OK) return nxpy_object_of(class, tensor);
    nx_tensor_unref(tensor);
    return nxpy_raise(status);
}

/* `type` becomes the class of new tensors. Its objects end in tensor_dealloc like those of the base. */
static PyObject *register_tensor_class(PyObject *module, PyObject *type) {
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, &nxpy_tensor_type)) {
        return PyErr_Format(PyExc_TypeError, "register_tensor_class: expected a subclass of TensorBase");
    }
    if (((PyTypeObject *)type)->tp_basicsize != sizeof(nxpy_tensor)) {
        return PyErr_Format(PyExc_TypeError, "register_tensor_class: the class must not add slots");
    }
    nxpy_tensor_class = (PyTypeObject *)Py_NewRef(type);
    nxpy_tensor_class->tp_dealloc = tensor_dealloc;
    while (n_free_objects > 0) PyObject_GC_Del(free_objects[--n_free_objects]);
    Py_RETURN_NONE;
}

static Py_ssize_t tensor_length(PyObject *self) {
    PyObject *answer;
    if (nxpy_ask_before("__len__", self, NULL, 0, NULL, &answer)) {
        Py_ssize_t n = answer ? PyNumber_AsSsize_t(answer, PyExc_OverflowError) : -1;
        Py_XDECREF(answer);
        return n;
    }
    const nx_array *a = nx_tensor_array(nxpy_tensor_get(self));
    if (a->ndim > 0) return nxpy_size_fix(nxpy_tensor_get(self), NX_INT_SIZE, 0, a->sizes[0]) < 0 ? -1 : (Py_ssize_t)a->sizes[0];
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
}
/* Over the parts along the first dimension, as unbind gives them. */
static PyObject *tensor_iter(PyObject *self) {
    if (NXPY_ASKS(self)) { /* they answer for what it calls */
        PyObject *dim = PyObject_CallMethod(self, "dim", NULL), *parts = dim ? PyObject_CallMethod(self, "unbind", "i", 0) : NULL;
        PyObject *iterator = parts ? PyObject_GetIter(parts) : NULL;
        Py_XDECREF(dim);
        Py_XDECREF(parts);
        return iterator;
    }
    const nx_op *unbind;
    nx_tensor *tensor = nxpy_tensor_get(self);
    if (tensor->a.ndim == 0) return PyErr_Format(PyExc_TypeError, "iteration over a 0-d tensor");
    NXPY_TRY(nx_op_find("aten::unbind.int", &unbind));
    PyObject *parts = nxpy_call(unbind, (nx_value[]){nx_value_tensor(tensor), nx_value_int(0)});
    PyObject *iterator = parts ? PyObject_GetIter(parts) : NULL;
    Py_XDECREF(parts);
    return iterator;
}
static PyMappingMethods as_mapping = {
    .mp_length = tensor_length, .mp_subscript = nxpy_tensor_getitem, .mp_ass_subscript = nxpy_tensor_setitem};
static Py_hash_t tensor_hash(PyObject *self) { return (Py_hash_t)((uintptr_t)self >> 4); }

/* Asked of the object itself, never of __torch_function__. */
static PyGetSetDef own_attributes[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, "Attributes of its own.", NULL},
                                       {NULL}};

PyTypeObject nxpy_tensor_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.TensorBase", .tp_basicsize = sizeof(nxpy_tensor),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, .tp_new = tensor_new, .tp_dealloc = tensor_dealloc,
    .tp_traverse = tensor_traverse, .tp_clear = tensor_clear, .tp_free = PyObject_GC_Del, .tp_setattro = tensor_setattro,
    .tp_getattro = PyObject_GenericGetAttr, .tp_dictoffset = offsetof(nxpy_tensor, dict), .tp_hash = tensor_hash,
    .tp_richcompare = nxpy_tensor_compare, .tp_iter = tensor_iter,
    .tp_weaklistoffset = offsetof(nxpy_tensor, weak), .tp_as_number = &nxpy_tensor_numbers, .tp_as_mapping = &as_mapping,
    .tp_methods = nxpy_tensor_methods, .tp_getset = own_attributes, .tp_doc = "A strided array of elements on a device."};

static PyMethodDef subclass_methods[] = {
    {"as_subclass", as_subclass, METH_O, "as_subclass(cls): the same elements as a tensor of that class, with its history."},
    {"_make_subclass", (PyCFunction)(void (*)(void))make_subclass, METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "_make_subclass(cls, data, require_grad=False): the elements of `data` as a tensor of class `cls`, a leaf."},
    {NULL}};

/* Beside those of attributes.c, as tp_methods would add them. */
static int add_subclass_methods(void) {
    for (PyMethodDef *def = subclass_methods; def->ml_name; def++) {
        bool is_static = def->ml_flags & METH_STATIC;
        PyObject *function = is_static ? PyCFunction_New(def, NULL) : PyDescr_NewMethod(&nxpy_tensor_type, def);
        if (function && is_static) Py_SETREF(function, PyStaticMethod_New(function));
        int done = function ? PyDict_SetItemString(nxpy_tensor_type.tp_dict, def->ml_name, function) : -1;
        Py_XDECREF(function);
        if (done < 0) return -1;
    }
    return 0;
}

static PyMethodDef functions[] = {
    {"register_tensor_class", register_tensor_class, METH_O, "register_tensor_class(cls): what new tensors are made of."}, {NULL}};

/* ---- several tensors ------------------------------------------------------------------------------- */
int nxpy_tensors_from(const char *what, PyObject *const *given, int n_given, int n_expected,
                      nx_tensor **out) {
    if (n_given != n_expected) {
        PyErr_Format(PyExc_TypeError, "%s: %d arguments were given, the graph has %d inputs", what, n_given,
                     n_expected);
        return -1;
    }
    for (int i = 0; i < n_given; i++) {
        if (!nxpy_tensor_check(given[i])) {
            PyErr_Format(PyExc_TypeError, "%s: argument %d must be Tensor, not %s", what, i,
                         Py_TYPE(given[i])->tp_name);
            return -1;
        }
        out[i] = nxpy_tensor_get(given[i]);
    }
    return 0;
}

PyObject *nxpy_tensors_take(nx_tensor *const *tensors, int n) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; i < n; i++) {
        if (tuple == NULL) {
            nx_tensor_unref(tensors[i]);
            continue;
        }
        PyObject *item = tensors[i] ? nxpy_tensor_take(tensors[i]) : Py_NewRef(Py_None);
        if (item) PyTuple_SET_ITEM(tuple, i, item);
        else Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *nxpy_fake_error, *nxpy_linalg_error;

int nxpy_add_tensor(PyObject *module) {
    nxpy_fake_error = PyErr_NewExceptionWithDoc("narthex._C.FakeTensorError", "The elements of a tensor that has none.",
                                                PyExc_NotImplementedError, NULL);
    if (nxpy_fake_error == NULL || PyModule_AddObjectRef(module, "FakeTensorError", nxpy_fake_error) < 0)
        return -1;
    nxpy_linalg_error = PyErr_NewExceptionWithDoc("torch._C._LinAlgError", "A matrix has not what an operator needs.",
                                                  PyExc_RuntimeError, NULL);
    if (nxpy_linalg_error == NULL || PyModule_AddObjectRef(module, "_LinAlgError", nxpy_linalg_error) < 0) return -1;
    nx_python_free = free_owned;
    nxpy_tensor_class = &nxpy_tensor_type;
    if (PyType_Ready(&nxpy_tensor_type) < 0 || add_subclass_methods() < 0) return -1;
    if (nxpy_add_getset(nxpy_tensor_getset) < 0 || nxpy_add_overrides(module) < 0) return -1;
    if (nxpy_add_dispatch(module) < 0 || nxpy_add_outside(module) < 0) return -1;
    if (PyModule_AddObjectRef(module, "TensorBase", (PyObject *)&nxpy_tensor_type) < 0) return -1;
    if (PyModule_AddFunctions(module, functions) < 0 || nxpy_add_words(module) < 0) return -1;
    return nxpy_add_make(module);
}
