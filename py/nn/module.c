/* The two special methods of nn.Module that every layer of a model goes through, without Python frames of their own.
 * What they mean is said by Module.__call__ and Module.__getattr__ in python/narthex/nn/modules/module.py, which capture
 * must follow: the slots here do the common cases of the same, and leave all others to them, and all while this thread
 * traces. A class has a slot only while the method that it inherits is Module's: who assigns another one later makes
 * CPython set its own slot again. */
#include "cpython/cpython.h"

#include "bind/bind.h"
#include "core/core.h"

enum { FEW = 8, N_PLACES = 3, N_KEPT = 256 }; /* arguments; dictionaries that __getattr__ looks into; last results */
static const char *const place_names[N_PLACES] = {"_parameters", "_buffers", "_modules"};
static PyObject *places[N_PLACES], *has_hooks, *forward, *call_name, *getattr_name, *getattribute_name; /* interned */
static PyObject *python_call, *python_getattr; /* of Module */

static bool is_traced(void) { return nx_thread_get()->tracer != NULL; }

static PyObject *call_method(PyObject *function, PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *stack[1 + FEW] = {self}, *result;
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n > FEW) {
        PyObject *bound = PyMethod_New(function, self);
        result = bound ? PyObject_Call(bound, args, kwargs) : NULL;
        Py_XDECREF(bound);
        return result;
    }
    for (Py_ssize_t k = 0; k < n; k++) stack[1 + k] = PyTuple_GET_ITEM(args, k);
    Py_INCREF(function); /* the call may take it out of its class */
    if (kwargs) result = PyObject_VectorcallDict(function, stack, (size_t)n + 1, kwargs);
    else result = PyObject_Vectorcall(function, stack, (size_t)n + 1, NULL);
    Py_DECREF(function);
    return result;
}

static PyObject *module_getattr(PyObject *self, PyObject *name);

/* Whether an instance has no hooks and no forward of its own. No two states of dicts have one version, so that a dict that
 * was found to be plain need not be looked into again. */
static bool is_plain(PyObject *self) {
    static uint64_t plain_versions[N_KEPT];
    PyObject *dict = nxpy_instance_dict(self);
    uint64_t version = dict ? nxpy_dict_version(dict) : 0, *kept = &plain_versions[version % N_KEPT];
    if (NX_LIKELY(dict && *kept == version)) return true;
    bool plain = nxpy_instance_value(self, has_hooks) == Py_False && !nxpy_instance_value(self, forward);
    if (plain && dict) *kept = version;
    return plain;
}

/* Attributes are read in the ordinary way, there are no hooks, and forward is a function of the class: it is called. */
static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *function = _PyType_Lookup(Py_TYPE(self), forward);
    bool quick = Py_TYPE(self)->tp_getattro == module_getattr && function && PyFunction_Check(function) && !is_traced() &&
                 is_plain(self);
    return call_method(quick ? function : python_call, self, args, kwargs);
}

/* What was found last: `value` under `name` in `members`, which the instance's dict holds while it has its version. */
typedef struct found {
    uint64_t version, members_version;
    PyObject *name;            /* owned: another string may not come to lie there */
    PyObject *members, *value; /* lent */
} found;

static void keep_found(found *kept, PyObject *dict, PyObject *name, PyObject *members, PyObject *value) {
    PyObject *before = kept->name;
    *kept = (found){nxpy_dict_version(dict), nxpy_dict_version(members), Py_NewRef(name), members, value};
    Py_XDECREF(before); /* a string: nothing runs */
}

/* Borrowed; NULL without an exception when no dictionary holds it, or one is not there or not an ordinary one. */
static PyObject *find_member(PyObject *self, PyObject *name) {
    static found all[N_KEPT];
    PyObject *value = NULL, *dict = nxpy_instance_dict(self), *members = NULL;
    found *kept = dict ? &all[(nxpy_dict_version(dict) ^ (uintptr_t)name >> 4) % N_KEPT] : NULL;
    if (NX_LIKELY(kept && kept->name == name && kept->version == nxpy_dict_version(dict) &&
                  kept->members_version == nxpy_dict_version(kept->members))) return kept->value;
    value = nxpy_instance_value(self, name);
    if (value) return value;
    for (int k = 0; !value && k < N_PLACES; k++) {
        members = nxpy_instance_value(self, places[k]);
        if (!members || (!PyDict_CheckExact(members) && !PyODict_CheckExact(members))) return NULL;
        value = PyDict_GetItemWithError(members, name);
        if (!value && PyErr_Occurred()) PyErr_Clear(); /* Module.__getattr__ meets it again */
    }
    if (value && kept) keep_found(kept, dict, name, members, value);
    return value;
}

static PyObject *module_getattr(PyObject *self, PyObject *name) {
    if (PyUnicode_CheckExact(name) && !_PyType_Lookup(Py_TYPE(self), name) && !is_traced()) {
        PyObject *value = find_member(self, name);
        if (value) return Py_NewRef(value);
    } else {
        PyObject *value = PyObject_GenericGetAttr(self, name);
        if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
        PyErr_Clear();
    }
    return PyObject_CallFunctionObjArgs(python_getattr, self, name, NULL);
}

/* ---- which classes ---------------------------------------------------------------------------------------- */
static PyObject *quicken(PyObject *module, PyObject *object) {
    PyTypeObject *type = (PyTypeObject *)object;
    if (!PyType_Check(object)) return PyErr_Format(PyExc_TypeError, "quicken_module: expected a class, got %R", object);
    PyObject *ordinary = PyDict_GetItemWithError(PyBaseObject_Type.tp_dict, getattribute_name);
    if (_PyType_Lookup(type, call_name) == python_call) type->tp_call = module_call;
    if (_PyType_Lookup(type, getattr_name) == python_getattr && _PyType_Lookup(type, getattribute_name) == ordinary) {
        type->tp_getattro = module_getattr;
    }
    Py_RETURN_NONE;
}

static PyObject *define(PyObject *module, PyObject *object) {
    PyObject *call = PyObject_GetAttr(object, call_name), *get = PyObject_GetAttr(object, getattr_name);
    if (!call || !get || !PyFunction_Check(call) || !PyFunction_Check(get)) {
        Py_XDECREF(call);
        Py_XDECREF(get);
        return PyErr_Format(PyExc_TypeError, "define_module: %R must have __call__ and __getattr__ of its own", object);
    }
    Py_XSETREF(python_call, call);
    Py_XSETREF(python_getattr, get);
    return quicken(module, object);
}

static PyMethodDef functions[] = {
    {"define_module", define, METH_O, "define_module(Module): its __call__ and __getattr__ are the ones that quicken_module knows."},
    {"quicken_module", quicken, METH_O, "quicken_module(cls): C code for __call__ and __getattr__ where a class inherits Module's."},
    {NULL}};

int nxpy_add_modules(PyObject *module) {
    for (int k = 0; k < N_PLACES; k++) {
        if (!(places[k] = PyUnicode_InternFromString(place_names[k]))) return -1;
    }
    const struct { PyObject **to; const char *text; } names[] = {
        {&has_hooks, "_has_hooks"},      {&forward, "forward"}, {&call_name, "__call__"},
        {&getattr_name, "__getattr__"}, {&getattribute_name, "__getattribute__"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (!(*names[k].to = PyUnicode_InternFromString(names[k].text))) return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
