/* What a tensor tells about itself: attributes and the methods that are no operators. */
#include "bind/private.h"

#define SELF nxpy_tensor_get(self)

static PyObject *get_shape(PyObject *self, void *unused) {
    return nxpy_sizes_read(SELF, NX_INT_SIZE, nxpy_size_object(SELF->a.ndim, SELF->a.sizes));
}
static PyObject *get_dtype(PyObject *self, void *unused) { return nxpy_dtype_object(SELF->a.dtype); }
static PyObject *get_device(PyObject *self, void *unused) { return nxpy_device_object(SELF->a.device); }
static PyObject *get_layout(PyObject *self, void *unused) { return nxpy_word_object(NX_TAG_LAYOUT, 0); }
static PyObject *get_ndim(PyObject *self, void *unused) { return PyLong_FromLong(SELF->a.ndim); }
static PyObject *get_itemsize(PyObject *self, void *unused) {
    return PyLong_FromSize_t(nx_dtype_bytes(SELF->a.dtype));
}
static PyObject *get_nbytes(PyObject *self, void *unused) {
    if (nxpy_size_fix(SELF, NX_INT_NUMEL, 0, SELF->a.numel) < 0) return NULL;
    return PyLong_FromLongLong(SELF->a.numel * (long long)nx_dtype_bytes(SELF->a.dtype));
}
static PyObject *get_version(PyObject *self, void *unused) {
    return PyLong_FromUnsignedLong(nx_tensor_version(nx_tensor_whole(SELF)));
}
static PyObject *get_fake(PyObject *self, void *unused) { return PyBool_FromLong(nx_tensor_is_fake(SELF)); }
static PyObject *get_is_cpu(PyObject *self, void *unused) {
    return PyBool_FromLong(SELF->a.device.type == 0);
}
static PyObject *get_is_cuda(PyObject *self, void *unused) { Py_RETURN_FALSE; }
static PyObject *get_is_parameter(PyObject *self, void *unused) {
    return PyBool_FromLong(SELF->is_parameter);
}
/* Classes of tensors that are parameters as well say so of what they made. */
static int set_is_parameter(PyObject *self, PyObject *value, void *unused) {
    const int truth = value ? PyObject_IsTrue(value) : -1;
    if (value == NULL) PyErr_SetString(PyExc_AttributeError, "_is_param cannot be deleted");
    if (truth < 0) return -1;
    SELF->is_parameter = truth;
    return 0;
}
static PyObject *get_base(PyObject *self, void *unused) {
    if (SELF->base == NULL) Py_RETURN_NONE;
    return nxpy_tensor_wrap(SELF->base);
}
static PyObject *get_data(PyObject *self, void *unused) {
    nx_tensor *alias;
    if (NX_UNLIKELY(SELF->whole != NULL)) return PyErr_Format(PyExc_RuntimeError, "accessing `data` under vmap transform is not allowed");
    if (NX_UNLIKELY(SELF->keys & NX_KEY(PYTHON))) return PyObject_CallMethod(self, "detach", NULL); /* its class makes it */
    NXPY_TRY(nx_tensor_apart(SELF, 0, &alias));
    return nxpy_tensor_take(alias);
}
void nxpy_take_over(nx_tensor *to, nx_tensor *alias) {
    nx_storage *storage = to->storage;
    nx_tensor *whole = to->whole;
    int64_t *block = to->a.sizes != to->dims ? to->a.sizes : NULL;
    int64_t *taken = alias->a.sizes != alias->dims ? alias->a.sizes : NULL;
    to->a = alias->a;
    if (taken == NULL) {
        memcpy(to->dims, alias->dims, sizeof to->dims);
        to->a.sizes = to->dims;
        to->a.strides = to->dims + to->a.ndim;
    }
    to->storage = alias->storage;
    to->whole = alias->whole;
    to->levels = alias->levels;
    alias->whole = whole;
    to->offset = alias->offset;
    to->keys = alias->keys | (to->keys & NX_KEYS_OWN);
    alias->storage = storage;
    alias->a.sizes = block ? block : alias->dims;
    nx_tensor_unref(alias);
}

/* x.data = y: x keeps its identity, history and version and takes over y's elements and shape. */
static int set_data(PyObject *self, PyObject *value, void *unused) {
    if (value == NULL || !nxpy_tensor_check(value)) {
        PyErr_SetString(PyExc_TypeError, "data must be set to a Tensor");
        return -1;
    }
    nx_tensor *to = SELF, *from = nxpy_tensor_get(value), *alias;
    if (to->whole || from->whole) {
        PyErr_SetString(PyExc_RuntimeError, "mutating directly with `.data` under vmap transform is not allowed.");
        return -1;
    }
    if (nx_is_meta(to->a.device) != nx_is_meta(from->a.device)) {
        PyErr_SetString(PyExc_RuntimeError, "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
                                            "incompatible tensor type.");
        return -1;
    }
    if (nx_tensor_is_fake(to) != nx_tensor_is_fake(from)) {
        PyErr_SetString(PyExc_RuntimeError, "data: cannot be set while a graph is being captured");
        return -1;
    }
    if ((to->keys & NX_KEY(AUTOGRAD)) && !nx_is_float((nx_dtype)from->a.dtype)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "data set to a tensor that requires gradients must be floating point or complex dtype");
        return -1;
    }
    nx_status status = nx_tensor_apart(from, nx_tensor_version(to), &alias);
    if (status != NX_OK) return nxpy_raise(status), -1;
    nxpy_take_over(to, alias);
    return 0;
}

/* Tensor.set_ behind the checks: self shows what `from` shows, and both hear of each other's writes. */
static PyObject *take_place(PyObject *self, PyObject *from) {
    nx_tensor *alias, *to = SELF;
    if (!nxpy_tensor_check(from)) return PyErr_Format(PyExc_TypeError, "set_: expected a Tensor, not %s", Py_TYPE(from)->tp_name);
    const nx_thread *thread = nx_thread_get();
    if (to->base || thread->tracer || ((to->keys & NX_KEY(AUTOGRAD)) && !thread->grad_disabled))
        return PyErr_Format(PyExc_NotImplementedError, "set_: not there yet for views, with gradients and in captured functions");
    NXPY_TRY(nx_tensor_alias(nxpy_tensor_get(from), &alias));
    nxpy_take_over(to, alias);
    return Py_NewRef(self);
}

static PyObject *size_or_stride(PyObject *self, PyObject *args, nx_int_code code) {
    long long dim;
    const nx_array *a = &SELF->a;
    const int64_t *at = code == NX_INT_SIZE ? a->sizes : a->strides;
    if (PyTuple_GET_SIZE(args) == 0) {
        if (code == NX_INT_SIZE) return get_shape(self, NULL);
        PyObject *size = nxpy_size_object(a->ndim, at),
                 *tuple = size ? PyTuple_GetSlice(size, 0, a->ndim) : NULL;
        PyObject *plain = tuple ? PySequence_List(tuple) : NULL;
        Py_XDECREF(size);
        Py_XDECREF(tuple);
        PyObject *result = plain ? PyList_AsTuple(plain) : NULL;
        Py_XDECREF(plain);
        return nxpy_sizes_read(SELF, code, result);
    }
    if (!PyArg_ParseTuple(args, "L", &dim)) return NULL;
    if (a->ndim == 0 || dim < -a->ndim || dim >= a->ndim) {
        int low = a->ndim ? -a->ndim : -1, high = a->ndim ? a->ndim - 1 : 0;
        return PyErr_Format(PyExc_IndexError,
                            "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", low,
                            high, dim);
    }
    if (dim < 0) dim += a->ndim;
    return nxpy_size_read(SELF, code, (int)dim, at[dim]);
}
static PyObject *size(PyObject *self, PyObject *args) {
    NXPY_ASK_CALLED(self, "size", args, NULL);
    return size_or_stride(self, args, NX_INT_SIZE);
}
static PyObject *stride(PyObject *self, PyObject *args) {
    NXPY_ASK_CALLED(self, "stride", args, NULL);
    return size_or_stride(self, args, NX_INT_STRIDE);
}
static PyObject *dim(PyObject *self, PyObject *unused) {
    NXPY_ASK(self, "dim");
    return PyLong_FromLong(SELF->a.ndim);
}
static PyObject *numel(PyObject *self, PyObject *unused) {
    NXPY_ASK(self, "numel");
    return nxpy_size_read(SELF, NX_INT_NUMEL, 0, SELF->a.numel);
}
static PyObject *data_ptr(PyObject *self, PyObject *unused) {
    NXPY_ASK(self, "data_ptr");
    NXPY_TRY(nx_batch_check_data(SELF));
    return PyLong_FromVoidPtr(SELF->a.data);
}
static PyObject *storage_offset(PyObject *self, PyObject *unused) {
    NXPY_ASK(self, "storage_offset");
    return nxpy_size_read(SELF, NX_INT_OFFSET, 0, SELF->offset);
}
static PyObject *element_size(PyObject *self, PyObject *unused) {
    NXPY_ASK(self, "element_size");
    return get_itemsize(self, NULL);
}
int nxpy_size_fix_format(nx_tensor *x, int64_t format) {
    if (format < NX_CHANNELS_LAST) return nxpy_size_fix(x, NX_INT_CONTIGUOUS, 0, x->a.contiguous);
    for (int d = 0; d < x->a.ndim; d++) {
        if (nxpy_size_fix(x, NX_INT_SIZE, d, x->a.sizes[d]) < 0) return -1;
        if (nxpy_size_fix(x, NX_INT_STRIDE, d, x->a.strides[d]) < 0) return -1;
    }
    return 0;
}
static PyObject *is_contiguous(PyObject *self, PyObject *args, PyObject *keywords) {
    NXPY_ASK_CALLED(self, "is_contiguous", args, keywords);
    static char *names[] = {"memory_format", NULL};
    PyObject *word = NULL;
    int64_t format = NX_CONTIGUOUS_FORMAT;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O!:is_contiguous", names, &nxpy_word_type, &word)) return NULL;
    if (word && ((nxpy_word *)word)->tag != NX_TAG_MEMORY_FORMAT)
        return PyErr_Format(PyExc_TypeError, "is_contiguous(): memory_format must be torch.memory_format, not %R", word);
    if (word) format = ((nxpy_word *)word)->value;
    if (nxpy_size_fix_format(SELF, format) < 0) return NULL;
    return PyBool_FromLong(nx_lies_in_format(&SELF->a, format));
}
static PyObject *is_floating_point(PyObject *self, PyObject *unused) {
    NXPY_ASK(self, "is_floating_point");
    return PyBool_FromLong(nx_is_float(SELF->a.dtype));
}

PyGetSetDef nxpy_tensor_getset[] = {
    {"shape", get_shape, NULL, "The sizes.", NULL},
    {"dtype", get_dtype, NULL, "The elements' type.", NULL},
    {"device", get_device, NULL, "Where the elements are.", NULL},
    {"layout", get_layout, NULL, "Always torch.strided.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of one element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"data", get_data, set_data, "The same elements without autograd history, with a version of their own.", NULL},
    {"is_cpu", get_is_cpu, NULL, "Whether the elements are on the CPU.", NULL},
    {"is_cuda", get_is_cuda, NULL, "Always False.", NULL},
    {"_version", get_version, NULL, "How often the elements were written in place.", NULL},
    {"_base", get_base, NULL, "The tensor that this is a view of, or None.", NULL},
    {"_is_fake", get_fake, NULL, "Whether it has a shape and no elements.", NULL},
    {"_is_param", get_is_parameter, set_is_parameter, "Whether it is a parameter.", NULL},
    {NULL}};

#define IN_PLACE(view, doc) \
    {#view "_", (PyCFunction)(void (*)(void))nxpy_tensor_##view##_, METH_VARARGS | METH_KEYWORDS, doc}
PyMethodDef nxpy_tensor_methods[] = {
    IN_PLACE(t, "t_(): has its two dimensions in the other order from now on."),
    IN_PLACE(transpose, "transpose_(dim0, dim1): has those dimensions in each other's place from now on."),
    IN_PLACE(swapaxes, "swapaxes_(axis0, axis1): as transpose_()."),
    IN_PLACE(swapdims, "swapdims_(dim0, dim1): as transpose_()."),
    IN_PLACE(squeeze, "squeeze_(dim=None): is without those dimensions of size 1 from now on."),
    IN_PLACE(unsqueeze, "unsqueeze_(dim): has a dimension of size 1 there from now on."),
    IN_PLACE(as_strided, "as_strided_(size, stride, storage_offset=None): shows those places of its storage from now on."),
    {"size", size, METH_VARARGS, "size(dim=None): the sizes, or one of them."},
    {"stride", stride, METH_VARARGS, "stride(dim=None): the strides in elements, or one of them."},
    {"_take_place", take_place, METH_O, "_take_place(tensor): shows from now on what `tensor` shows."},
    {"dim", dim, METH_NOARGS, "The number of dimensions."},
    {"numel", numel, METH_NOARGS, "The number of elements."},
    {"nelement", numel, METH_NOARGS, "The number of elements."},
    {"data_ptr", data_ptr, METH_NOARGS, "The address of the first element."},
    {"storage_offset", storage_offset, METH_NOARGS, "Elements before the first one in the storage."},
    {"element_size", element_size, METH_NOARGS, "Bytes of one element."},
    {"is_contiguous", (PyCFunction)(void (*)(void))is_contiguous, METH_VARARGS | METH_KEYWORDS,
     "is_contiguous(memory_format=torch.contiguous_format): whether the elements lie so, without gaps."},
    {"is_floating_point", is_floating_point, METH_NOARGS, "Whether the dtype is a floating point type."},
    {"item", nxpy_tensor_item, METH_NOARGS, "The value of a tensor with one element as a Python number."},
    {"tolist", nxpy_tensor_tolist, METH_NOARGS, "The elements as nested lists of Python numbers."},
    {"__dlpack__", (PyCFunction)(void (*)(void))nxpy_tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "The elements, shared through DLPack."},
    {"__dlpack_device__", nxpy_tensor_dlpack_device, METH_NOARGS,
     "(device type, index) as DLPack numbers them."},
    {NULL}};
