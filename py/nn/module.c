/* The two special methods of nn.Module that every layer of a model goes through, without Python frames of their own.
 * What they mean is said by Module.__call__ and Module.__getattr__ in python/narthex/nn/modules/module.py, which capture
 * must follow: the slots here do the common cases of the same, and leave all others to them, and all while this thread
 * traces. A class has a slot only while the method that it inherits is Module's: who assigns another one later makes
 * CPython set its own slot again. */
#include "nn/nn.h"

#include "core/core.h"
#include "cpython/cpython.h"

enum { FEW = 8, N_PLACES = 3, N_KEPT = 256 }; /* arguments; dictionaries that __getattr__ looks into; last results */
static const char *const place_names[N_PLACES] = {"_parameters", "_buffers", "_modules"};
static PyObject *places[N_PLACES], *has_hooks, *forward, *compiled_name, *call_name;
static PyObject *getattr_name, *getattribute_name, *hook_names[2], *impl_name; /* interned, as those above */
static PyObject *python_call, *python_impl, *python_getattr; /* of Module */

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

/* What an instance has itself does not bind. */
static PyObject *call_own(PyObject *own, PyObject *args, PyObject *kwargs) {
    Py_INCREF(own); /* the call may take it away */
    PyObject *result = kwargs ? PyObject_Call(own, args, kwargs)
                              : PyObject_Vectorcall(own, ((PyTupleObject *)args)->ob_item, (size_t)PyTuple_GET_SIZE(args), NULL);
    Py_DECREF(own);
    return result;
}

/* An instance whose calls run no hooks here: *own is what it has itself to be called instead, lent, or NULL. No two states
 * of dicts have one version, so that a dict that was found to be plain need not be looked into again. */
static bool is_plain(PyObject *self, PyObject **own) {
    static struct { uint64_t version; PyObject *own; } plain[N_KEPT]; /* own: in the dict that has this version */
    PyObject *dict = nxpy_instance_dict(self);
    uint64_t version = dict ? nxpy_dict_version(dict) : 0, at = version % N_KEPT;
    if (NX_LIKELY(dict && plain[at].version == version)) return *own = plain[at].own, true;
    *own = nxpy_instance_value(self, compiled_name); /* Module.compile: hooks included */
    if (!*own && nxpy_instance_value(self, has_hooks) != Py_False) return false;
    if (!*own) *own = nxpy_instance_value(self, forward);
    if (dict) {
        plain[at].version = version;
        plain[at].own = *own;
    }
    return true;
}

/* The function of the class that a call of a module comes to when attributes are read in the ordinary way; NULL: none. */
static PyObject *class_forward(PyObject *self) {
    PyObject *function = nxpy_type_lookup(Py_TYPE(self), forward);
    return Py_TYPE(self)->tp_getattro == module_getattr && function && PyFunction_Check(function) ? function : NULL;
}

/* Without hooks forward is called: the instance's own, or the function of its class. */
static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *own;
    if (NX_LIKELY(!is_traced() && is_plain(self, &own))) {
        PyObject *function = own ? NULL : class_forward(self);
        if (function) return call_method(function, self, args, kwargs);
        if (own) return call_own(own, args, kwargs);
    }
    return call_method(python_call, self, args, kwargs);
}

static bool is_empty(PyObject *hooks) { return hooks && PyDict_Check(hooks) && PyDict_GET_SIZE(hooks) == 0; }

PyObject *nxpy_called_method(PyObject *object, PyObject *function) {
    if (function != python_impl || nxpy_instance_value(object, forward)) return function;
    bool hooked = false;
    for (int k = 0; k < 2; k++) hooked = hooked || !is_empty(nxpy_instance_value(object, hook_names[k]));
    PyObject *quick = hooked ? NULL : class_forward(object);
    return quick ? quick : function;
}

bool nxpy_is_module(PyObject *object) {
    PyObject *found = python_call ? nxpy_type_lookup(Py_TYPE(object), call_name) : NULL;
    return found && found == python_call;
}

PyObject *nxpy_called_function(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject *own, *function = NULL;
    if (type->tp_call == module_call && is_plain(object, &own) && !own) function = class_forward(object);
    if (!function) function = nxpy_type_lookup(type, call_name);
    return function && PyFunction_Check(function) ? function : NULL;
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
    if (PyUnicode_CheckExact(name) && !nxpy_type_lookup(Py_TYPE(self), name) && !is_traced()) {
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
    PyObject *ordinary = nxpy_type_lookup(&PyBaseObject_Type, getattribute_name);
    if (nxpy_type_lookup(type, call_name) == python_call) type->tp_call = module_call;
    if (nxpy_type_lookup(type, getattr_name) == python_getattr && nxpy_type_lookup(type, getattribute_name) == ordinary) {
        type->tp_getattro = module_getattr;
    }
    Py_RETURN_NONE;
}

static PyObject *define(PyObject *module, PyObject *object) {
    const struct { PyObject *name, **to; } parts[] = {
        {call_name, &python_call}, {impl_name, &python_impl}, {getattr_name, &python_getattr}};
    for (int k = 0; k < NX_COUNT(parts); k++) {
        PyObject *part = PyObject_GetAttr(object, parts[k].name);
        if (!part) return NULL;
        Py_XSETREF(*parts[k].to, part);
        if (PyFunction_Check(part)) continue;
        return PyErr_Format(PyExc_TypeError, "define_module: %R.%U is no function", object, parts[k].name);
    }
    return quicken(module, object);
}

static PyMethodDef functions[] = {
    {"define_module", define, METH_O, "define_module(Module): its __call__, _call_impl and __getattr__ are the ones that are known here."},
    {"quicken_module", quicken, METH_O, "quicken_module(cls): C code for __call__ and __getattr__ where a class inherits Module's."},
    {NULL}};

int nxpy_add_modules(PyObject *module) {
    for (int k = 0; k < N_PLACES; k++) {
        if (!(places[k] = PyUnicode_InternFromString(place_names[k]))) return -1;
    }
    const struct { PyObject **to; const char *text; } names[] = {
        {&has_hooks, "_has_hooks"},      {&forward, "forward"}, {&call_name, "__call__"},
        {&compiled_name, "_compiled_call_impl"},
        {&impl_name, "_call_impl"},      {&hook_names[0], "_forward_hooks"}, {&hook_names[1], "_forward_pre_hooks"},
        {&getattr_name, "__getattr__"}, {&getattribute_name, "__getattribute__"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (!(*names[k].to = PyUnicode_InternFromString(names[k].text))) return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
