/* Instances of classes, at every version that is known.
 *
 * In: objects. Out: what they hold, and where.
 * What must hold: a managed dict stands three words before its object; values that lie in an instance lie in the order of their
 * class's keys.
 * Next: pyNNN.c, for where a version keeps such values. */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <internal/pycore_dict.h>

#include "cpython/private.h"

static PyObject *inline_value(PyTypeObject *type, PyDictValues *values, PyObject *name) {
    PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
    PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    for (Py_ssize_t k = 0; k < keys->dk_nentries; k++) {
        if (entries[k].me_key == name) return values->values[k];
    }
    for (Py_ssize_t k = 0; k < keys->dk_nentries; k++) { /* names made at run time are not interned */
        if (entries[k].me_key && PyUnicode_Compare(entries[k].me_key, name) == 0) return values->values[k];
    }
    return NULL;
}

PyObject *nxpy__inline_value(PyObject *object, PyObject *name, bool *inside) {
    PyDictValues *values = nxpy__inline_values(object);
    *inside = values != NULL;
    return values ? inline_value(Py_TYPE(object), values, name) : NULL;
}

PyObject *nxpy_instance_dict(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) return nxpy__managed_dict(object);
    if (type->tp_dictoffset < 0) { /* behind an instance of variable size */
        PyObject **at = _PyObject_GetDictPtr(object);
        return at ? *at : NULL;
    }
    if (type->tp_dictoffset == 0) return NULL;
    return *(PyObject **)((char *)object + type->tp_dictoffset);
}

int nxpy_instance_dict_offset(PyTypeObject *type) { /* see nxpy_dict_at */
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) return -3 * (int)sizeof(PyObject *);
    return type->tp_dictoffset > 0 && type->tp_dictoffset < INT_MAX ? (int)type->tp_dictoffset : 0;
}

Py_ssize_t nxpy_instance_size(PyTypeObject *type) { /* the dict lies before the object, and mostly weak references too */
    return (Py_ssize_t)(sizeof(PyObject) + (type->tp_weaklistoffset > 0 ? sizeof(PyObject *) : 0));
}
