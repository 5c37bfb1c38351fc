/* Tensors from Python data and back: tensor(), item(), tolist(), DLPack. */
#include "bind/private.h"

/* ---- one element ------------------------------------------------------------------------------------------------------- */
static PyObject *read_element(const char *at, nx_dtype dtype) {
    switch (dtype) {
    case NX_BOOL: return PyBool_FromLong(*(const uint8_t *)at);
    case NX_U8: return PyLong_FromLong(*(const uint8_t *)at);
    case NX_I8: return PyLong_FromLong(*(const int8_t *)at);
    case NX_I16: return PyLong_FromLong(*(const int16_t *)at);
    case NX_I32: return PyLong_FromLong(*(const int32_t *)at);
    case NX_I64: return PyLong_FromLongLong(*(const int64_t *)at);
    case NX_U16: return PyLong_FromLong(*(const uint16_t *)at);
    case NX_U32: return PyLong_FromUnsignedLong(*(const uint32_t *)at);
    case NX_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
    case NX_F32: return PyFloat_FromDouble(*(const float *)at);
    case NX_F64: return PyFloat_FromDouble(*(const double *)at);
    case NX_C32: {
        float parts[2];
        nx_cast(NX_C64, (char *)parts, 0, dtype, at, 0, 1);
        return PyComplex_FromDoubles(parts[0], parts[1]);
    }
    case NX_C64: return PyComplex_FromDoubles(((const float *)at)[0], ((const float *)at)[1]);
    case NX_C128: return PyComplex_FromDoubles(((const double *)at)[0], ((const double *)at)[1]);
    default: { /* halves and float8 */
        double value;
        nx_cast(NX_F64, (char *)&value, 0, dtype, at, 0, 1);
        return PyFloat_FromDouble(value);
    }
    }
}

/* `tensor` itself when the CPU can read it row by row, else a copy that can be. New reference. */
static nx_status readable(nx_tensor *tensor, nx_tensor **out) {
    NX_TRY(nx_tensor_check_item(tensor));
    if (nx_is_meta(tensor->a.device)) return nx_fail(NX_RUNTIME, "Tensor.item() cannot be called on meta tensors");
    if (nx_tensor_is_fake(tensor) && nx_thread_get()->tell) return nx_thread_get()->tell(tensor, out);
    if (nx_tensor_is_fake(tensor)) {
        PyErr_SetString(nxpy_fake_error, "item: the tensor has no elements while a graph is being captured");
        return NX_PYTHON;
    }
    if (tensor->a.device.type == 0) {
        *out = nx_tensor_ref(tensor);
        return NX_OK;
    }
    nx_tensor *dense = NULL, *copy = NULL;
    nx_value result;
    const nx_op *clone = nx_op_get("aten::clone");
    if (tensor->a.contiguous) dense = nx_tensor_ref(tensor);
    else {
        NX_TRY(nx_op_call(clone, (nx_value[]){nx_value_tensor(tensor), {.tag = NX_TAG_MEMORY_FORMAT, .i = 0}},
                          &result));
        dense = result.tensor;
    }
    nx_status status = nx_tensor_new(dense->a.dtype, dense->a.ndim, dense->a.sizes, NX_CPU, &copy);
    if (status == NX_OK) status = nx_device_copy(copy, dense);
    nx_tensor_unref(dense);
    if (status != NX_OK) nx_tensor_unref(copy);
    else *out = copy;
    return status;
}

PyObject *nxpy_tensor_item(PyObject *self, PyObject *unused) {
    NXPY_ASK(self, "item");
    nx_tensor *tensor = nxpy_tensor_get(self), *host;
    if (tensor->a.numel != 1) {
        return PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar",
                            (long long)tensor->a.numel);
    }
    NXPY_TRY(readable(tensor, &host));
    PyObject *item = read_element(host->a.data, host->a.dtype);
    nx_tensor_unref(host);
    return item;
}

static PyObject *list_of(const nx_array *a, int dim, const char *at) {
    if (dim == a->ndim) return read_element(at, a->dtype);
    PyObject *list = PyList_New(a->sizes[dim]);
    for (int64_t i = 0; list && i < a->sizes[dim]; i++) {
        PyObject *item = list_of(a, dim + 1, at + i * a->strides[dim] * (int64_t)nx_dtype_bytes(a->dtype));
        if (item) PyList_SET_ITEM(list, i, item);
        else Py_CLEAR(list);
    }
    return list;
}
PyObject *nxpy_tensor_tolist(PyObject *self, PyObject *unused) {
    NXPY_ASK(self, "tolist");
    if (nx_is_meta(nxpy_tensor_get(self)->a.device)) {
        PyErr_SetString(PyExc_NotImplementedError, "Cannot copy out of meta tensor; no data!");
        return NULL;
    }
    nx_tensor *host;
    NXPY_TRY(readable(nxpy_tensor_get(self), &host));
    PyObject *list = list_of(&host->a, 0, host->a.data);
    nx_tensor_unref(host);
    return list;
}

/* ---- from Python data ------------------------------------------------------------------------------------------------------ */
typedef struct shape {
    int ndim;
    bool is_known; /* the first number was met: no more dimensions */
    int64_t size[NX_MAX_DIMS];
    bool has_complex, has_float, has_int;
} shape;

/* numpy's float64 is a Python float that says its dtype: it is left to make_from_other(). */
static bool is_plain_float(PyObject *data) {
    return PyFloat_CheckExact(data) || (PyFloat_Check(data) && strncmp(Py_TYPE(data)->tp_name, "numpy.", 6) != 0);
}

static int find_shape(PyObject *data, int dim, shape *s) {
    if (is_plain_float(data)) s->has_float = true;
    else if (PyComplex_CheckExact(data)) s->has_complex = true;
    else if (PyLong_Check(data) && !PyBool_Check(data)) s->has_int = true;
    else if (PyList_Check(data) || PyTuple_Check(data)) {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(data);
        if (dim == s->ndim && s->is_known) {
            PyErr_Format(PyExc_TypeError, s->has_float || s->has_complex ? "must be real number, not %s"
                                                                         : "'%s' object cannot be interpreted as an integer",
                         Py_TYPE(data)->tp_name);
            return -1;
        }
        if (dim >= NX_MAX_DIMS) return PyErr_Format(PyExc_ValueError, "tensor(): too many dimensions"), -1;
        if (dim == s->ndim) s->size[s->ndim++] = n;
        s->is_known |= n == 0;
        if (s->size[dim] != n) {
            PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)",
                         (long long)s->size[dim], dim, n);
            return -1;
        }
        for (Py_ssize_t i = 0; i < n; i++) {
            if (find_shape(PySequence_Fast_ITEMS(data)[i], dim + 1, s) < 0) return -1;
        }
        return 0;
    } else if (!PyBool_Check(data)) {
        PyErr_Format(PyExc_TypeError,
                     "tensor(): data must be a number or nested sequences of numbers, not %s",
                     Py_TYPE(data)->tp_name);
        return -1;
    }
    s->is_known = true;
    if (dim != s->ndim) return PyErr_Format(PyExc_TypeError, "not a sequence"), -1;
    return 0;
}

/* The numbers one after the other as elements of `wide`: complex128, float64, uint64 or int64. */
static int fill_values(PyObject *data, nx_dtype wide, char **to) {
    if (PyList_Check(data) || PyTuple_Check(data)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(data); i++) {
            if (fill_values(PySequence_Fast_ITEMS(data)[i], wide, to) < 0) return -1;
        }
        return 0;
    }
    if (wide == NX_C128) {
        Py_complex value = PyComplex_AsCComplex(data);
        memcpy(*to, &value, sizeof value);
    } else if (wide == NX_F64) *(double *)*to = PyFloat_AsDouble(data);
    else if (wide == NX_U64) *(uint64_t *)*to = PyLong_AsUnsignedLongLong(data);
    else *(int64_t *)*to = PyLong_AsLongLong(data);
    *to += nx_dtype_bytes(wide);
    return PyErr_Occurred() ? -1 : 0;
}

/* Takes `result`, which may be NULL with an exception. */
static PyObject *with_grad(PyObject *result, bool requires_grad) {
    if (result == NULL || !requires_grad) return result;
    nx_status status = nx_tensor_set_requires_grad(nxpy_tensor_get(result), true);
    if (status != NX_OK) return Py_DECREF(result), nxpy_raise(status);
    return result;
}

PyObject *nxpy_from_numpy(PyObject *array) {
    PyObject *maker = PyImport_ImportModule("narthex._from_numpy");
    PyObject *made = maker ? PyObject_CallMethod(maker, "from_numpy", "O", array) : NULL;
    Py_XDECREF(maker);
    return made;
}

/* Data that is no nested list of numbers, with the TypeError set that says so: what Python makes of arrays,
 * tensors and lists of them; the error stays where it makes nothing. */
static PyObject *make_from_other(PyObject *data, PyObject *dtype, PyObject *where, bool requires_grad) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return NULL;
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyObject *maker = PyImport_ImportModule("narthex._from_numpy");
    PyObject *made = maker ? PyObject_CallMethod(maker, "tensor_of", "OOO", data, dtype, where) : NULL;
    Py_XDECREF(maker);
    if (made == Py_None) {
        Py_CLEAR(made);
        PyErr_Restore(kind, error, trace);
        return NULL;
    }
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    return with_grad(made, requires_grad);
}


/* Numbers are read as float64 or int64, then the operator _to_copy makes the wanted dtype and device. */
static PyObject *make_tensor(PyObject *module, PyObject *args, PyObject *keywords) {
    static char *names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", NULL};
    PyObject *data, *dtype = Py_None, *where = Py_None;
    int requires_grad = 0, pinned = 0;
    if (NX_UNLIKELY(nxpy_n_function_modes != 0)) {
        PyObject *function = PyObject_GetAttrString(module, "tensor"), *answer = NULL;
        int asked = function ? nxpy_ask_tuple(function, NULL, args, keywords, &answer) : 1;
        Py_XDECREF(function);
        if (asked) return answer;
    }
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$OOpp:tensor", names, &data, &dtype, &where,
                                     &requires_grad, &pinned))
        return NULL;
    nx_dtype asked = NX_N_DTYPES;
    if (dtype != Py_None && !nxpy_dtype_from(dtype, &asked))
        return PyErr_Format(PyExc_TypeError, "tensor(): argument 'dtype' must be torch.dtype, not %s", Py_TYPE(dtype)->tp_name);
    nx_device device = nx_device_default();
    if (where != Py_None && nxpy_device_from(where, &device) < 0) return NULL;
    shape s = {0};
    if (find_shape(data, 0, &s) < 0) return make_from_other(data, dtype, where, requires_grad);
    if (s.has_complex && asked != NX_N_DTYPES && !nx_is_complex(asked) && asked != NX_BOOL) {
        return PyErr_Format(PyExc_TypeError, nx_is_float(asked) ? "must be real number, not complex"
                                                                : "'complex' object cannot be interpreted as an integer");
    }
    nx_dtype wide_dtype = s.has_complex ? NX_C128 : s.has_float ? NX_F64 : asked == NX_U64 ? NX_U64 : NX_I64;
    bool empty = !s.has_complex && !s.has_float && !s.has_int && s.ndim > 0 && nx_numel(s.ndim, s.size) == 0;
    nx_dtype natural = s.has_complex         ? nx_dtype_complex(nx_default_dtype())
                       : s.has_float || empty ? nx_default_dtype()
                       : s.has_int            ? NX_I64
                                              : NX_BOOL;
    nx_tensor *wide;
    NXPY_TRY(nx_tensor_new(wide_dtype, s.ndim, s.size, NX_CPU, &wide));
    char *to = wide->a.data;
    PyObject *result = NULL;
    if (fill_values(data, wide_dtype, &to) == 0) {
        nx_value in[7] = {nx_value_tensor(wide),
                          nx_value_dtype(asked == NX_N_DTYPES ? natural : asked),
                          NX_VALUE_NONE,
                          nx_value_device(device),
                          NX_VALUE_NONE,
                          nx_value_bool(false),
                          NX_VALUE_NONE};
        result = nxpy_call(nx_op_get("aten::_to_copy"), in);
    }
    nx_tensor_unref(wide);
    return with_grad(result, requires_grad);
}

/* ---- DLPack: sharing memory with other frameworks. Structures as in the specification, version 0.8 ------------------------------ */
typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;
enum { DL_CPU = 1 };
static int bits_of(nx_dtype dtype) { return 8 * (int)nx_dtype_bytes(dtype); }

static void delete_ours(dl_managed *managed) {
    nx_tensor_unref(managed->context);
    nx_free(managed);
}
static void end_capsule(PyObject *capsule) { /* nobody took it */
    dl_managed *managed =
        PyCapsule_IsValid(capsule, "dltensor") ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
    if (managed) managed->deleter(managed);
}

PyObject *nxpy_tensor_dlpack(PyObject *self, PyObject *args, PyObject *keywords) {
    nx_tensor *t = nxpy_tensor_get(self);
    NXPY_TRY(nx_batch_check_data(t));
    if (nx_tensor_requires_grad(t))
        return PyErr_Format(PyExc_BufferError,
                            "__dlpack__: Can't export tensors that require gradient, use tensor.detach()");
    if (t->a.device.type != 0)
        return PyErr_Format(PyExc_BufferError, "__dlpack__: only CPU tensors can be shared");
    if (nx_tensor_is_fake(t)) return PyErr_Format(PyExc_BufferError, "__dlpack__: a fake tensor has no memory to share");
    dl_managed *managed = nx_alloc_zeroed(sizeof *managed);
    if (managed == NULL) return nxpy_raise(nx_fail_memory(sizeof *managed));
    managed->tensor = (dl_tensor){.data = t->a.data,
                                  .device = {DL_CPU, 0},
                                  .ndim = t->a.ndim,
                                  .shape = t->a.sizes,
                                  .strides = t->a.strides,
                                  .dtype = {nx__dtype_facts[t->a.dtype].dlpack, (uint8_t)bits_of(t->a.dtype), 1}};
    managed->context = nx_tensor_ref(t);
    managed->deleter = delete_ours;
    PyObject *capsule = PyCapsule_New(managed, "dltensor", end_capsule);
    if (capsule == NULL) delete_ours(managed);
    return capsule;
}
PyObject *nxpy_tensor_dlpack_device(PyObject *self, PyObject *unused) {
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

static void release_foreign(void *context) {
    dl_managed *managed = context;
    PyGILState_STATE state = PyGILState_Ensure();
    if (managed->deleter) managed->deleter(managed);
    PyGILState_Release(state);
}

static PyObject *take_capsule(PyObject *capsule) {
    dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    if (managed == NULL) return NULL;
    dl_tensor *t = &managed->tensor;
    int dtype = 0;
    while (dtype < NX_N_DTYPES &&
           (nx__dtype_facts[dtype].dlpack != t->dtype.code || bits_of((nx_dtype)dtype) != t->dtype.bits))
        dtype++;
    if (dtype == NX_N_DTYPES || t->dtype.lanes != 1 || t->device.type != DL_CPU) {
        return PyErr_Format(PyExc_BufferError,
                            "from_dlpack: dtype (code %d, %d bits) on device type %d is not supported",
                            t->dtype.code, t->dtype.bits, t->device.type);
    }
    nx_tensor *tensor;
    NXPY_TRY(nx_tensor_from_memory((char *)t->data + t->byte_offset, (nx_dtype)dtype, t->ndim, t->shape,
                                   t->strides, release_foreign, managed, &tensor));
    PyCapsule_SetName(capsule, "used_dltensor");
    return nxpy_tensor_take(tensor);
}

static PyObject *from_dlpack(PyObject *module, PyObject *from) {
    PyObject *capsule =
        PyCapsule_CheckExact(from) ? Py_NewRef(from) : PyObject_CallMethod(from, "__dlpack__", NULL);
    PyObject *result = capsule ? take_capsule(capsule) : NULL;
    Py_XDECREF(capsule);
    return result;
}

PyObject *nxpy_tensor_over(PyObject *array) {
    PyObject *made = from_dlpack(NULL, array);
    const nx_array *a = made ? nx_tensor_array(nxpy_tensor_get(made)) : NULL;
    for (int d = 0; a && d < a->ndim; d++) {
        if (a->strides[d] >= 0) continue;
        Py_DECREF(made);
        return PyErr_Format(PyExc_ValueError, "tensor: an array with a negative stride has no tensor over its memory");
    }
    return made;
}

/* The same shape, dtype and device without elements. */
static PyObject *fake_like(PyObject *module, PyObject *like) {
    if (!nxpy_tensor_check(like))
        return PyErr_Format(PyExc_TypeError, "fake_like: expected a Tensor, not %s", Py_TYPE(like)->tp_name);
    const nx_array *a = nx_tensor_array(nxpy_tensor_get(like));
    nx_meta meta;
    nx_meta_of(a, &meta);
    nx_tensor *fake;
    NXPY_TRY(nx_tensor_new_meta(&meta, true, &fake));
    return nxpy_tensor_take(fake);
}

static PyMethodDef functions[] = {
    {"fake_like", fake_like, METH_O, "fake_like(tensor): its shape, dtype and device without elements."},
    {"tensor", (PyCFunction)(void (*)(void))make_tensor, METH_VARARGS | METH_KEYWORDS,
     "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False): a new tensor from "
     "numbers in nested sequences."},
    {"from_dlpack", from_dlpack, METH_O,
     "from_dlpack(x): a tensor over x's memory; x offers __dlpack__ or is a capsule."},
    {NULL}};
int nxpy_add_make(PyObject *module) { return PyModule_AddFunctions(module, functions); }
