/* Attribute lookup as the language does it, with a guard for each thing that decided it.
 *
 * In: an object in use and a name. Out: the attribute, or a function to be called with the object first.
 * What must hold: only lookups whose every step is known are followed (modules, types, instances with the ordinary
 * __getattribute__, properties and __getattr__ written in Python, metadata of tensors); the rest ends the graph. What
 * decides is guarded: the type's own attribute, what the instance holds, and that something is not there.
 * Next: handlers_call.c. */
#include "capture/capture.h"

static int stop_attribute(nxpy_trace *trace, PyObject *object, PyObject *name) {
    return nxpy__stop(trace, NXPY_BREAK_ATTRIBUTE, "%.200s.%U", Py_TYPE(object)->tp_name, name);
}

static int give(PyObject *value, PyObject **out) {
    Py_INCREF(value);
    *out = value;
    return 0;
}

/* What type holds under name, guarded. Lent in *out, NULL when nothing. */
static int type_value(nxpy_trace *trace, PyTypeObject *type, PyObject *name, PyObject **out) {
    *out = _PyType_Lookup(type, name);
    /* static types cannot change */
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type != &nxpy_tensor_type) {
        if (!*out || nxpy_constant_check(*out) || nxpy__note_find(trace, *out)) return 0;
        return nxpy__note_add(trace, *out, NXPY_NOTE_FIXED, -1) ? 0 : -1;
    }
    if (nxpy__fetch(trace, NXPY_ROW_TYPE_VALUE, -1, name, (PyObject *)type, 0, *out) < 0) return -1;
    return *out && !nxpy__use(trace, *out) ? -1 : 0;
}

/* A function found in a class, seen from an instance (or, with owner NULL, from the class). */
static int bind(nxpy_trace *trace, PyObject *found, PyObject *object, PyTypeObject *owner, bool method_too, PyObject **out, bool *bound) {
    PyTypeObject *type = Py_TYPE(found);
    *bound = true;
    if (type == &PyStaticMethod_Type || type == &PyClassMethod_Type) {
        PyObject *inner = PyObject_GetAttrString(found, "__func__");
        if (!inner) return nxpy__stop_error(trace);
        bool ok = nxpy__note_find(trace, inner) || nxpy__note_add(trace, inner, NXPY_NOTE_FIXED, -1);
        *out = !ok ? NULL : type == &PyStaticMethod_Type ? Py_NewRef(inner) : PyMethod_New(inner, (PyObject *)owner);
        Py_DECREF(inner);
        return *out && nxpy__admit(trace, *out) == 0 ? 0 : nxpy__stop_error(trace);
    }
    bool method = type == &PyFunction_Type || type == &nxpy_function_type || type == &PyMethodDescr_Type || type == &nxpy_captured_type;
    if (method && !object) return give(found, out);
    if (method && method_too) return give(found, out) + 1;
    if (type == &PyMethodDescr_Type) return nxpy__stop(trace, NXPY_BREAK_ATTRIBUTE, "a bound C method");
    if (method) {
        *out = PyMethod_New(found, object);
        return *out && nxpy__admit(trace, *out) == 0 ? 0 : nxpy__stop_error(trace);
    }
    *bound = type->tp_descr_get != NULL;
    return *bound ? nxpy__stop(trace, NXPY_BREAK_ATTRIBUTE, "a descriptor of type %.200s", type->tp_name) : 0;
}

/* Lookup that runs Python code of the class: it is inlined by the ordinary call. */
static int call_getter(nxpy_trace *trace, PyObject *getter, PyObject *object, PyObject *name, PyObject **out) {
    PyObject *args[] = {object, name};
    PyObject *value = PyObject_Vectorcall(getter, args, name ? 2 : 1, NULL);
    if (!value || trace->stop) {
        Py_XDECREF(value);
        return nxpy__stop_error(trace);
    }
    if (nxpy__admit(trace, value) < 0) {
        Py_DECREF(value);
        trace->clean = false;
        return -1;
    }
    *out = value;
    return 0;
}

static int of_property(nxpy_trace *trace, PyObject *found, PyObject *object, PyObject *name, PyObject **out) {
    PyObject *getter = PyObject_GetAttrString(found, "fget");
    bool python = getter && PyFunction_Check(getter);
    int result = python ? call_getter(trace, getter, object, NULL, out) : stop_attribute(trace, object, name);
    Py_XDECREF(getter);
    return result;
}

/* ---- by kind ----------------------------------------------------------------------------------------------------------- */
static int of_tensor(nxpy_trace *trace, PyObject *object, PyObject *name, bool method_too, PyObject **out) {
    static const char *const metadata[] = {"shape", "dtype", "device", "layout", "ndim", "itemsize", "nbytes", "is_cpu", "is_cuda",
                                           "requires_grad", "_is_param"};
    PyTypeObject *type = Py_TYPE(object);
    PyObject *found;
    bool bound;
    if (type_value(trace, type, name, &found) < 0) return -1;
    if (!found) return stop_attribute(trace, object, name);
    if (Py_TYPE(found) == &PyGetSetDescr_Type) {
        const char *text = PyUnicode_AsUTF8(name);
        for (int k = 0; text && k < NX_COUNT(metadata); k++) {
            if (strcmp(text, metadata[k])) continue;
            *out = PyObject_GetAttr(object, name);
            return *out && nxpy__admit(trace, *out) == 0 ? 0 : nxpy__stop_error(trace);
        }
        return nxpy__stop(trace, NXPY_BREAK_METHOD, "Tensor.%U", name);
    }
    if (Py_TYPE(found) == &PyProperty_Type) return of_property(trace, found, object, name, out);
    int kind = bind(trace, found, object, type, method_too, out, &bound);
    if (kind < 0 || bound) return kind;
    return give(found, out);
}

static int of_module(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    int slot = nxpy__slot_of(trace, object);
    PyObject *value = nxpy_instance_value(object, name);
    if (slot < 0) return -1;
    if (!value) return stop_attribute(trace, object, name);
    if (nxpy__fetch(trace, NXPY_ROW_VALUE, slot, name, NULL, 0, value) < 0) return -1;
    return give(value, out);
}

static int of_type(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    PyTypeObject *type = (PyTypeObject *)object;
    PyObject *meta = _PyType_Lookup(Py_TYPE(object), name), *found;
    if (meta && Py_TYPE(meta)->tp_descr_set) return stop_attribute(trace, object, name); /* __dict__, __name__ and such */
    bool bound;
    if (type_value(trace, type, name, &found) < 0) return -1;
    if (!found) return stop_attribute(trace, object, name);
    int kind = bind(trace, found, NULL, type, false, out, &bound);
    if (kind < 0 || bound) return kind;
    return give(found, out);
}

static bool has_ordinary_lookup(nxpy_trace *trace, PyTypeObject *type) {
    static PyObject *name;
    if (!name) name = PyUnicode_InternFromString("__getattribute__");
    PyObject *found = name ? _PyType_Lookup(type, name) : NULL, *ordinary = name ? _PyType_Lookup(&PyBaseObject_Type, name) : NULL;
    if (!found || found != ordinary) return false;
    return nxpy__fetch(trace, NXPY_ROW_TYPE_VALUE, -1, name, (PyObject *)type, 0, found) == 0 && nxpy__use(trace, found);
}

static int of_namespace(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    PyObject *dict = PyObject_GetAttr(object, name);
    int slot = dict ? nxpy__slot_of(trace, object) : -1;
    if (slot < 0 || nxpy_instance_dict(object) != dict || nxpy__fetch(trace, NXPY_ROW_NAMESPACE, slot, NULL, NULL, 0, dict) < 0) {
        Py_XDECREF(dict);
        return trace->stop ? -1 : stop_attribute(trace, object, name);
    }
    *out = dict;
    return 0;
}

static int of_missing(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    static PyObject *hook;
    PyObject *getter;
    if (!hook) hook = PyUnicode_InternFromString("__getattr__");
    if (!hook || type_value(trace, Py_TYPE(object), hook, &getter) < 0) return -1;
    if (!getter || !PyFunction_Check(getter)) return stop_attribute(trace, object, name);
    return call_getter(trace, getter, object, name, out);
}

static int of_instance(nxpy_trace *trace, PyObject *object, PyObject *name, bool method_too, PyObject **out) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject *found, *value;
    int slot = nxpy__slot_of(trace, object);
    if (slot < 0 || !has_ordinary_lookup(trace, type)) return trace->stop ? -1 : stop_attribute(trace, object, name);
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) return of_namespace(trace, object, name, out);
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) {
        if (!nxpy__note_find(trace, (PyObject *)type) && !nxpy__note_add(trace, (PyObject *)type, NXPY_NOTE_FIXED, -1)) return -1;
        return give((PyObject *)type, out);
    }
    if (type_value(trace, type, name, &found) < 0) return -1;
    if (found && Py_TYPE(found) == &PyProperty_Type) return of_property(trace, found, object, name, out);
    if (found && Py_TYPE(found)->tp_descr_set) return stop_attribute(trace, object, name);
    value = nxpy_instance_value(object, name);
    if (nxpy__fetch(trace, NXPY_ROW_VALUE, slot, name, NULL, 0, value) < 0) return -1;
    if (value) return give(value, out);
    if (!found) return of_missing(trace, object, name, out);
    bool bound;
    int kind = bind(trace, found, object, type, method_too, out, &bound);
    if (kind < 0 || bound) return kind;
    return give(found, out);
}

/* Constants, born containers and such: their types are CPython's own. */
static int of_builtin(nxpy_trace *trace, PyObject *object, PyObject *name, bool method_too, PyObject **out) {
    PyObject *found = _PyType_Lookup(Py_TYPE(object), name);
    bool data = found && (Py_TYPE(found) == &PyGetSetDescr_Type || Py_TYPE(found) == &PyMemberDescr_Type);
    if (data && nxpy_constant_check(object)) { /* device.type, dtype.itemsize: of what never changes */
        *out = PyObject_GetAttr(object, name);
        return *out && nxpy__admit(trace, *out) == 0 ? 0 : nxpy__stop_error(trace);
    }
    if (!found || Py_TYPE(found) != &PyMethodDescr_Type || !method_too) return stop_attribute(trace, object, name);
    if (!nxpy__note_find(trace, found) && !nxpy__note_add(trace, found, NXPY_NOTE_FIXED, -1)) return -1;
    return give(found, out) + 1;
}

int nxpy__attribute(nxpy_trace *trace, PyObject *object, PyObject *name, bool method_too, PyObject **out) {
    PyTypeObject *type = Py_TYPE(object);
    if (nxpy_tensor_check(object)) return of_tensor(trace, object, name, method_too, out);
    if (PyModule_CheckExact(object)) return of_module(trace, object, name, out);
    if (PyType_Check(object)) return of_type(trace, object, name, out);
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return of_builtin(trace, object, name, method_too, out);
    if (nxpy__is_born(trace, object)) return stop_attribute(trace, object, name);
    return of_instance(trace, object, name, method_too, out);
}
