/* Kinds of objects.
 *
 * In: any object. Out: its row of kinds.def; whether it may be a key; names as strings that are interned once.
 * What must hold: nothing here runs code of the program's, and no answer depends on what may change, but on the type alone
 * (and on whether all that a tuple or slice holds are constants, which is for ever).
 * Next: sources.c. */
#include "notes/notes.h"

PyTypeObject *nxpy__cached_property_type, *nxpy__lru_cache_type, *nxpy__enum_type, *nxpy__tuple_getter_type, *nxpy__local_type;
static nx_map types; /* type -> its row; filled once, holds its types for ever */
static nx_map names; /* address of a literal -> the interned string; the same */

#define NXPY_KIND_ROW(code, guard, holds, walked, operators, compared, shown, made, again) \
    [NXPY_KIND_##code] = {NXPY_KIND_##code, NXPY_GUARD_##guard, NXPY_HOLDS_##holds, NXPY_BY_##walked, NXPY_BY_##operators, \
                          NXPY_BY_##compared, NXPY_BY_##shown, made},
static const nxpy_kind rows[] = {
#include "notes/kinds.def"
};
#undef NXPY_KIND_ROW

PyObject *nxpy__name(const char *literal) {
    PyObject *name = nx_map_get(&names, literal);
    if (NX_LIKELY(name != NULL)) return name;
    if (!(name = PyUnicode_InternFromString(literal))) return NULL;
    if (nx_map_set(&names, literal, name) == NX_OK) return name;
    Py_DECREF(name);
    return PyErr_NoMemory();
}

/* ---- the table ----------------------------------------------------------------------------------------------------------- */
static int add_type(nxpy_kind_code code, PyObject *type) { /* keeps it */
    if (nx_map_set(&types, type, (void *)&rows[code]) != NX_OK) return PyErr_NoMemory(), -1;
    Py_INCREF(type);
    return 0;
}

/* Every class of the module that makes iterators. */
static int add_iterators(nxpy_kind_code code, PyObject *module) {
    PyObject *key, *value;
    int done = 0;
    for (Py_ssize_t at = 0; done == 0 && PyDict_Next(PyModule_GetDict(module), &at, &key, &value);) {
        if (PyType_Check(value) && ((PyTypeObject *)value)->tp_iternext) done = add_type(code, value);
    }
    return done;
}

/* What an expression means in a module. New reference. */
static PyObject *value_in(PyObject *module, const char *expression) {
    PyObject *space = PyDict_Copy(PyModule_GetDict(module));
    PyObject *value = space ? PyRun_String(expression, Py_eval_input, space, space) : NULL;
    Py_XDECREF(space);
    return value;
}

static int add_named(nxpy_kind_code code, const char *name, const char *expression) {
    PyObject *module = PyImport_ImportModule(name);
    if (!module) return -1;
    PyObject *type = strcmp(expression, "*") ? value_in(module, expression) : Py_NewRef(module);
    int done = !type ? -1 : type == module ? add_iterators(code, module) : add_type(code, type);
    Py_XDECREF(type);
    Py_DECREF(module);
    return done;
}

static int find_types(void) {
    static const struct { const char *module, *name; PyTypeObject **to; } found[] = {
        {"functools", "cached_property", &nxpy__cached_property_type}, {"functools", "_lru_cache_wrapper", &nxpy__lru_cache_type},
        {"enum", "EnumMeta", &nxpy__enum_type}, {"_collections", "_tuplegetter", &nxpy__tuple_getter_type},
        {"_thread", "_local", &nxpy__local_type}};
    for (int k = 0; k < NX_COUNT(found); k++) {
        PyObject *module = PyImport_ImportModule(found[k].module);
        if (module) *found[k].to = (PyTypeObject *)PyObject_GetAttrString(module, found[k].name); /* kept */
        Py_XDECREF(module);
        if (!*found[k].to) return -1;
    }
    return 0;
}

/* What id() gives for an object of the trace: it is another number when the object is made. */
PyTypeObject nxpy__id_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "int", .tp_base = &PyLong_Type, .tp_flags = Py_TPFLAGS_DEFAULT};

/* Stands for a number that the graph does not have: whoever uses one ends the try. */
PyTypeObject nxpy__drawn_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "random number", .tp_basicsize = sizeof(PyObject),
                                 .tp_dealloc = (destructor)PyObject_Free, .tp_flags = Py_TPFLAGS_DEFAULT};

static void free_shown(PyObject *object) {
    nxpy_shown *shown = (nxpy_shown *)object;
    Py_XDECREF(shown->tensor);
    Py_XDECREF(shown->like);
    Py_XDECREF(shown->make);
    PyObject_Free(object);
}
PyTypeObject nxpy__shown_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "numpy.ndarray", .tp_basicsize = sizeof(nxpy_shown),
                                 .tp_dealloc = free_shown, .tp_flags = Py_TPFLAGS_DEFAULT};

PyObject *nxpy__shown_new(PyObject *tensor, PyObject *like, PyObject *make) {
    nxpy_shown *shown = PyObject_New(nxpy_shown, &nxpy__shown_type);
    if (!shown) return NULL;
    shown->tensor = Py_NewRef(tensor);
    shown->like = Py_NewRef(like);
    shown->make = Py_NewRef(make);
    return (PyObject *)shown;
}

int nxpy__kinds_init(void) {
    int done = find_types();
    PyTypeObject *const own[] = {&nxpy__id_type, &nxpy__drawn_type, &nxpy__shown_type};
    for (int k = 0; k < NX_COUNT(own) && done == 0; k++) done = PyType_Ready(own[k]);
#define NXPY_KIND_ROW(...)
#define NXPY_TYPE_ROW(code, type) if (done == 0) done = add_type(NXPY_KIND_##code, (PyObject *)&type);
#define NXPY_NAMED_ROW(code, module, expression) if (done == 0) done = add_named(NXPY_KIND_##code, module, expression);
#include "notes/kinds.def"
#undef NXPY_KIND_ROW
#undef NXPY_TYPE_ROW
#undef NXPY_NAMED_ROW
    return done;
}

/* Whether the methods of these names are those of its base, which is C code. */
static bool has_methods_of(const PyTypeObject *type, PyTypeObject *base, const char *const *list) {
    for (; *list; list++) {
        PyObject *name = nxpy__name(*list);
        if (!name || nxpy_type_lookup((PyTypeObject *)type, name) != nxpy_type_lookup(base, name)) return false;
    }
    return true;
}

/* An instance of a class of Python that is read as the C class below it, whose methods it has. */
static nxpy_kind_code kind_below(PyObject *o) {
    static const char *const of_dicts[] = {"__iter__", "__len__", "__contains__", "keys", NULL};
    static const char *const of_lists[] = {"__iter__", "__len__", "__contains__", "__add__", "__iadd__", NULL};
    static const char *const of_values[] = {"__add__", "__radd__", "__sub__", "__mul__", "__rmul__", "__truediv__", "__floordiv__",
                                            "__mod__", "__pow__", "__neg__", "__int__", "__index__", "__float__", "__bool__", "__len__",
                                            "__iter__", "__getitem__", "__eq__", "__lt__", "__gt__", "__hash__", NULL};
    PyTypeObject *type = Py_TYPE(o), *base = PyLong_Check(o) ? &PyLong_Type : PyFloat_Check(o) ? &PyFloat_Type : &PyUnicode_Type;
    bool enumeration = PyObject_TypeCheck(type, nxpy__enum_type), value = PyLong_Check(o) || PyFloat_Check(o) || PyUnicode_Check(o);
    if (PyODict_Check(o)) return has_methods_of(type, &PyODict_Type, of_dicts) ? NXPY_KIND_DICTLIKE : NXPY_KIND_INSTANCE;
    if (PyDict_Check(o)) return has_methods_of(type, &PyDict_Type, of_dicts) ? NXPY_KIND_DICTLIKE : NXPY_KIND_INSTANCE;
    if (PyList_Check(o)) return has_methods_of(type, &PyList_Type, of_lists) ? NXPY_KIND_LISTLIKE : NXPY_KIND_INSTANCE;
    return value && !enumeration && has_methods_of(type, base, of_values) ? NXPY_KIND_VALUELIKE : NXPY_KIND_INSTANCE;
}

/* What a coroutine or an asynchronous generator gives, whose types have no name in Python. */
static bool is_of_coroutines(const PyTypeObject *type) {
    static const char *const of[] = {"coroutine_wrapper", "async_generator_asend", "async_generator_athrow", "anext_awaitable"};
    for (int k = 0; k < NX_COUNT(of); k++) {
        if (strcmp(type->tp_name, of[k]) == 0) return true;
    }
    return false;
}

static nxpy_kind_code kind_by_rule(PyObject *o) {
    static const char *const of_tuples[] = {"__iter__", "__len__", "__getitem__", NULL};
    PyTypeObject *type = Py_TYPE(o);
    bool heap = nxpy__may_change(type);
    if (nxpy_tensor_check(o)) return NXPY_KIND_TENSOR;
    if (nxpy_constant_check(o)) return NXPY_KIND_CONSTANT;
    if (nxpy_symnumber_check(o)) return NXPY_KIND_NUMBER;
    if (PyType_Check(o)) return NXPY_KIND_CLASS;
    if (strcmp(type->tp_name, "numpy.ndarray") == 0) return NXPY_KIND_ARRAY;
    if (PyModule_Check(o)) return NXPY_KIND_MODULE;
    if (PyTuple_Check(o) && !heap) return NXPY_KIND_STRUCT;
    if (PyTuple_Check(o) && has_methods_of(type, &PyTuple_Type, of_tuples)) return NXPY_KIND_NAMED;
    if (heap) return kind_below(o);
    if (strncmp(type->tp_name, "numpy.ufunc", 11) == 0 || strncmp(type->tp_name, "numpy._Array", 12) == 0) return NXPY_KIND_CALLABLE;
    if (is_of_coroutines(type)) return NXPY_KIND_COROUTINE;
    return PyExceptionInstance_Check(o) ? NXPY_KIND_EXCEPTION : NXPY_KIND_OTHER;
}

const nxpy_kind *nxpy__kind(PyObject *object) {
    const nxpy_kind *kind = nx_map_get(&types, Py_TYPE(object));
    return kind ? kind : &rows[kind_by_rule(object)];
}

int nxpy__set_update(PyObject *set, PyObject *from) {
    PyObject *members = PySequence_Tuple(from);
    int done = members ? 0 : -1;
    for (Py_ssize_t k = 0; done == 0 && k < PyTuple_GET_SIZE(members); k++) done = PySet_Add(set, PyTuple_GET_ITEM(members, k));
    Py_XDECREF(members);
    return done;
}

/* ---- keys of dicts ------------------------------------------------------------------------------------------------------- */
bool nxpy__is_enum(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (!PyObject_TypeCheck(type, nxpy__enum_type)) return false;
    richcmpfunc compare = type->tp_richcompare;
    return compare == PyBaseObject_Type.tp_richcompare || compare == PyUnicode_Type.tp_richcompare || compare == PyLong_Type.tp_richcompare;
}

/* Made by dataclasses, not written by the program. */
static bool is_generated(PyTypeObject *type, const char *text) {
    PyObject *name = nxpy__name(text), *found = name ? nxpy_type_lookup(type, name) : NULL;
    PyObject *file = found && PyFunction_Check(found) ? ((PyCodeObject *)PyFunction_GET_CODE(found))->co_filename : NULL;
    return file && PyUnicode_CompareWithASCIIString(file, "<string>") == 0;
}

static bool has_attribute(PyObject *object, const char *text, PyObject *wanted) { /* in a slot of its layout */
    PyObject *value = PyObject_GetAttrString(object, text);
    Py_XDECREF(value); /* object has it */
    if (!value) PyErr_Clear();
    return value == wanted;
}

PyObject *nxpy__frozen_names(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject *params = nxpy__name("__dataclass_params__"), *fields = nxpy__name("__dataclass_fields__"), *name, *field;
    if (!nxpy__is_instance(object) || !params || !fields || !is_generated(type, "__eq__") || !is_generated(type, "__hash__")) return NULL;
    params = nxpy_type_lookup(type, params);
    fields = nxpy_type_lookup(type, fields);
    if (!params || !fields || !PyDict_CheckExact(fields) || !has_attribute(params, "frozen", Py_True)) return NULL;
    PyObject *names = PyList_New(0);
    for (Py_ssize_t at = 0; names && PyDict_Next(fields, &at, &name, &field);) {
        bool known = has_attribute(field, "hash", Py_None) && PyUnicode_CheckExact(name);
        bool counts = has_attribute(field, "compare", Py_True);
        if (!known || (counts && (!nxpy_instance_value(object, name) || PyList_Append(names, name) < 0))) Py_CLEAR(names);
    }
    nxpy_forget_error();
    return names;
}

static bool is_frozen_key(PyObject *object) {
    PyObject *names = nxpy__frozen_names(object);
    bool key = names != NULL;
    for (Py_ssize_t k = 0; key && k < PyList_GET_SIZE(names); k++) {
        key = nxpy__is_key(nxpy_instance_value(object, PyList_GET_ITEM(names, k)));
    }
    Py_XDECREF(names);
    return key;
}

/* A key of dicts and members of sets: a constant, or what is told by its address (classes, plain instances, members of
 * enumerations, functions and methods of classes), a frozen dataclass of such, or a tuple of them. */
bool nxpy__is_key(PyObject *object) {
    const PyTypeObject *type = Py_TYPE(object);
    if (nxpy_constant_check(object) || nxpy__is_enum(object)) return true;
    if (nxpy_tensor_check(object)) {
        return type->tp_hash == nxpy_tensor_type.tp_hash && (!nx_tensor_is_fake(nxpy_tensor_get(object)) || nxpy__is_made(object));
    }
    if (PyTuple_CheckExact(object)) return nxpy__are_keys(object);
    if (PyType_Check(object)) return type->tp_hash == PyType_Type.tp_hash && type->tp_richcompare == PyType_Type.tp_richcompare;
    nxpy_kind_code kind = nxpy__kind(object)->code;
    if (kind == NXPY_KIND_FUNCTION || kind == NXPY_KIND_OPERATOR || kind == NXPY_KIND_CALLABLE ||
        kind == NXPY_KIND_DESCRIPTOR) return !nxpy__may_change(type);
    if (kind == NXPY_KIND_ID) return true;
    if (kind != NXPY_KIND_INSTANCE) return false;
    bool plain = type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
    return plain || is_frozen_key(object);
}

bool nxpy__is_made(PyObject *object) {
    const nxpy_note *note = nxpy__doing.trace ? nxpy__note_find(nxpy__doing.trace, object) : NULL;
    return note && note->kind == NXPY_NOTE_FAKE && !note->real;
}

bool nxpy__are_keys(PyObject *tuple) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++) {
        if (!nxpy__is_key(PyTuple_GET_ITEM(tuple, k))) return false;
    }
    return true;
}
