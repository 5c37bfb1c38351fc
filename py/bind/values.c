/* Values as Python objects. */
#include "bind/private.h"

PyObject *nxpy_value_object(const nx_value *value) {
    switch (value->tag) {
    case NX_TAG_NONE: Py_RETURN_NONE;
    case NX_TAG_TENSOR: return nxpy_tensor_wrap(value->tensor);
    case NX_TAG_INT: return PyLong_FromLongLong(value->i);
    case NX_TAG_FLOAT: return PyFloat_FromDouble(value->f);
    case NX_TAG_BOOL: return PyBool_FromLong(value->i != 0);
    case NX_TAG_STR: return PyUnicode_FromString(value->str);
    case NX_TAG_DTYPE: return nxpy_dtype_object((nx_dtype)value->i);
    case NX_TAG_DEVICE: return nxpy_device_object(value->device);
    case NX_TAG_LAYOUT:
    case NX_TAG_MEMORY_FORMAT: return nxpy_word_object(value->tag, (int)value->i);
    case NX_TAG_OPAQUE: return Py_NewRef((PyObject *)value->opaque);
    case NX_TAG_INTS:
    case NX_TAG_LIST: {
        PyObject *list = PyList_New(value->n);
        for (int i = 0; list && i < value->n; i++) {
            PyObject *item = value->tag == NX_TAG_INTS ? PyLong_FromLongLong(value->ints[i])
                                                       : nxpy_value_object(&value->list[i]);
            if (item) PyList_SET_ITEM(list, i, item);
            else Py_CLEAR(list);
        }
        return list;
    }
    default: return PyErr_Format(PyExc_TypeError, "a value of kind %d has no Python form", (int)value->tag);
    }
}
