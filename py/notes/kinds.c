/* Kinds of objects.
 *
 * In: any object. Out: whether capture reads it as an iterator, a tuple, a view, a key.
 * What must hold: nothing here runs code of the program's, and no answer depends on what may change, but on the type alone.
 * Next: sources.c. */
#include "notes/notes.h"

PyTypeObject *nxpy__partial_type, *nxpy__cached_property_type, *nxpy__lru_cache_type;
PyTypeObject *nxpy__enum_type, *nxpy__union_type, *nxpy__namespace_type;
PyTypeObject *nxpy__deque_type, *nxpy__default_dict_type, *nxpy__tuple_getter_type;
static PyTypeObject *iterators[40]; /* of itertools and collections; CPython's own have names in C */
static PyTypeObject *views[3];      /* of OrderedDict */
static PyObject *tuple_names[3];

/* The type of what object.method() returns, kept. */
static PyTypeObject *type_of_call(PyObject *object, const char *method) {
    PyObject *made = object ? PyObject_CallMethod(object, method, NULL) : NULL;
    PyTypeObject *type = made ? (PyTypeObject *)Py_NewRef(Py_TYPE(made)) : NULL;
    Py_XDECREF(made);
    return type;
}

static void collections_init(int n) {
    PyObject *collections = PyImport_ImportModule("collections");
    if (!collections) return;
    nxpy__deque_type = (PyTypeObject *)PyObject_GetAttrString(collections, "deque"); /* kept */
    nxpy__default_dict_type = (PyTypeObject *)PyObject_GetAttrString(collections, "defaultdict");
    PyObject *c = PyImport_ImportModule("_collections");
    nxpy__tuple_getter_type = c ? (PyTypeObject *)PyObject_GetAttrString(c, "_tuplegetter") : NULL; /* kept */
    Py_XDECREF(c);
    PyObject *deque = PyObject_CallMethod(collections, "deque", NULL), *ordered = PyODict_New();
    iterators[n++] = type_of_call(deque, "__iter__");
    iterators[n++] = type_of_call(deque, "__reversed__");
    iterators[n++] = type_of_call(ordered, "__iter__");
    static const char *const strings[] = {"a", "\xc3\xa9"}; /* ASCII and others have iterators of their own */
    for (int k = 0; k < NX_COUNT(strings); k++) {
        PyObject *string = PyUnicode_FromString(strings[k]);
        iterators[n++] = type_of_call(string, "__iter__");
        Py_XDECREF(string);
    }
    const char *const names[] = {"keys", "values", "items"};
    for (int k = 0; k < 3; k++) views[k] = type_of_call(ordered, names[k]);
    Py_XDECREF(deque);
    Py_XDECREF(ordered);
    Py_DECREF(collections);
}

int nxpy__kinds_init(void) {
    static const char *const names[] = {"chain", "islice", "repeat", "product", "count", "zip_longest", "accumulate", "starmap",
                                        "takewhile", "dropwhile", "pairwise", "combinations", "permutations", "cycle",
                                        "compress", "filterfalse", "combinations_with_replacement"};
    PyObject *functools = PyImport_ImportModule("functools"), *itertools = PyImport_ImportModule("itertools");
    if (functools) nxpy__partial_type = (PyTypeObject *)PyObject_GetAttrString(functools, "partial"); /* kept */
    for (int k = 0; itertools && k < NX_COUNT(names); k++) iterators[k] = (PyTypeObject *)PyObject_GetAttrString(itertools, names[k]);
    if (functools) nxpy__cached_property_type = (PyTypeObject *)PyObject_GetAttrString(functools, "cached_property");
    if (functools) nxpy__lru_cache_type = (PyTypeObject *)PyObject_GetAttrString(functools, "_lru_cache_wrapper");
    PyObject *enumeration = PyImport_ImportModule("enum");
    if (enumeration) nxpy__enum_type = (PyTypeObject *)PyObject_GetAttrString(enumeration, "EnumMeta");
    PyObject *types = PyImport_ImportModule("types");
    if (types) nxpy__union_type = (PyTypeObject *)PyObject_GetAttrString(types, "UnionType");
    if (types) nxpy__namespace_type = (PyTypeObject *)PyObject_GetAttrString(types, "SimpleNamespace");
    Py_XDECREF(types);
    Py_XDECREF(enumeration);
    Py_XDECREF(functools);
    Py_XDECREF(itertools);
    static const char *const methods[] = {"__iter__", "__len__", "__getitem__"};
    for (int k = 0; k < NX_COUNT(methods); k++) tuple_names[k] = PyUnicode_InternFromString(methods[k]);
    if (!PyErr_Occurred()) collections_init(NX_COUNT(names));
    return PyErr_Occurred() ? -1 : 0;
}

bool nxpy__is_iterator(PyObject *object) {
    static PyTypeObject *const types[] = {&PyRangeIter_Type, &PyListIter_Type, &PyListRevIter_Type, &PyTupleIter_Type, &PyEnum_Type,
        &PyZip_Type, &PyReversed_Type, &PyMap_Type, &PyFilter_Type, &PyDictIterKey_Type, &PyDictIterValue_Type, &PyDictIterItem_Type,
        &PyDictRevIterKey_Type, &PyDictRevIterValue_Type, &PyDictRevIterItem_Type, &PySetIter_Type, &PyGen_Type, &PySeqIter_Type,
        &PyLongRangeIter_Type};
    for (int k = 0; k < NX_COUNT(types); k++) {
        if (Py_TYPE(object) == types[k]) return true;
    }
    for (int k = 0; iterators[k]; k++) {
        if (Py_TYPE(object) == iterators[k]) return true;
    }
    return false;
}

bool nxpy__plain_tuple(PyObject *object) {
    if (nxpy__is_tuple(object)) return true;
    if (!PyTuple_Check(object)) return false;
    for (int k = 0; k < NX_COUNT(tuple_names); k++) {
        if (nxpy_type_lookup(Py_TYPE(object), tuple_names[k]) != nxpy_type_lookup(&PyTuple_Type, tuple_names[k])) return false;
    }
    return true;
}

bool nxpy__is_view(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    return type == &PyDictKeys_Type || type == &PyDictItems_Type || type == &PyDictValues_Type || type == views[0] || type == views[1] ||
           type == views[2];
}

bool nxpy__is_c_container(PyObject *o) {
    return Py_TYPE(o) == nxpy__deque_type || PyODict_CheckExact(o) || Py_TYPE(o) == nxpy__default_dict_type;
}

int nxpy__set_update(PyObject *set, PyObject *from) {
    PyObject *members = PySequence_Tuple(from);
    int done = members ? 0 : -1;
    for (Py_ssize_t k = 0; done == 0 && k < PyTuple_GET_SIZE(members); k++) done = PySet_Add(set, PyTuple_GET_ITEM(members, k));
    Py_XDECREF(members);
    return done;
}

bool nxpy__is_exception(PyObject *object) { return PyExceptionInstance_Check(object); }

/* ---- keys of dicts ------------------------------------------------------------------------------------------------------- */
bool nxpy__is_enum(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (!PyObject_TypeCheck(type, nxpy__enum_type)) return false;
    richcmpfunc compare = type->tp_richcompare;
    return compare == PyBaseObject_Type.tp_richcompare || compare == PyUnicode_Type.tp_richcompare || compare == PyLong_Type.tp_richcompare;
}

/* A key of dicts and members of sets: a constant, or what is told by its address (classes, plain instances, members of
 * enumerations), or a tuple of such. */
bool nxpy__is_key(PyObject *object) {
    const PyTypeObject *type = Py_TYPE(object);
    if (nxpy_constant_check(object) || nxpy__is_enum(object)) return true;
    if (PyTuple_CheckExact(object)) return nxpy__are_keys(object);
    if (PyType_Check(object)) return type->tp_hash == PyType_Type.tp_hash && type->tp_richcompare == PyType_Type.tp_richcompare;
    return PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) && type->tp_hash == PyBaseObject_Type.tp_hash &&
           type->tp_richcompare == PyBaseObject_Type.tp_richcompare && !nxpy_tensor_check(object);
}

bool nxpy__are_keys(PyObject *tuple) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++) {
        if (!nxpy__is_key(PyTuple_GET_ITEM(tuple, k))) return false;
    }
    return true;
}
