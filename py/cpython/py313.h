/* CPython 3.13: what is read at every call. */
typedef struct nxpy_lines { PyCodeAddressRange range; bool ready; } nxpy_lines;

/* One value of a frame. */
typedef struct nxpy_slot { PyObject *value; } nxpy_slot;
enum { NXPY_SLOTS_ARE_MARKED = 0 };
static inline PyObject *nxpy_slot_get(const nxpy_slot *slot) { return slot->value; }
static inline void nxpy_slot_set(nxpy_slot *slot, PyObject *value) { slot->value = value; }
static inline PyObject *const *nxpy_slots_read(const nxpy_slot *slots, int n, PyObject **room) {
    return (PyObject *const *)slots;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* of ma_version_tag, which this version keeps */
/* Another number whenever the dict has changed. What shares its values with an instance may change without one: it has a number
 * of its own each time. Below the twelfth bit stands something else. */
extern uint64_t nxpy_last_version;
static inline uint64_t nxpy_dict_version(PyObject *dict) {
    const PyDictObject *of = (const PyDictObject *)dict;
    return __builtin_expect(!of->ma_values, 1) ? of->ma_version_tag >> 12 : ++nxpy_last_version;
}
#pragma GCC diagnostic pop
/* Lent; NULL, maybe with an exception. */
static inline PyObject *nxpy_dict_get(PyObject *dict, PyObject *key, Py_hash_t hash) {
    return _PyDict_GetItem_KnownHash(dict, key, hash);
}
PyAPI_FUNC(int) _PySet_NextEntry(PyObject *set, Py_ssize_t *at, PyObject **key, Py_hash_t *hash);
/* As PyDict_Next. */
static inline bool nxpy_set_next(PyObject *set, Py_ssize_t *at, PyObject **key) {
    Py_hash_t hash;
    return _PySet_NextEntry(set, at, key, &hash);
}
/* The name of a local, cell or free variable; lent. */
static inline PyObject *nxpy_local_name(const PyCodeObject *code, int index) {
    return PyTuple_GET_ITEM(code->co_localsplusnames, index);
}

/* In a call on the stack NULL, where there is no self, stands before the callable (1) or behind it (0). */
enum { NXPY_NULL_FIRST = 0 };
/* The __dict__ whose place nxpy_instance_dict_offset told, lent; NULL: there is none yet. */
static inline PyObject *nxpy_dict_at(PyObject *object, int offset) { return *(PyObject **)((char *)object + offset); }
/* What a class itself holds; lent: those of the interpreter's own classes are its own. */
static inline PyObject *nxpy_type_dict(PyTypeObject *type) {
    PyObject *dict = PyType_GetDict(type);
    Py_XDECREF(dict);
    return dict;
}
/* Another number whenever the class or one of its bases has changed; 0: it has none now. */
static inline unsigned nxpy_type_version(PyTypeObject *type) {
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}
/* Where a function keeps its type parameters, and what computes its annotations; 0: it has none. */
enum { NXPY_TYPE_PARAMS = offsetof(PyFunctionObject, func_typeparams), NXPY_ANNOTATE = 0 };
/* What hangs on a code object under `index`, forgotten with it; *out NULL: nothing. */
static inline Py_ssize_t nxpy_code_index(freefunc forget) { return PyUnstable_Eval_RequestCodeExtraIndex(forget); }
static inline int nxpy_code_get(PyObject *code, Py_ssize_t index, void **out) { return PyUnstable_Code_GetExtra(code, index, out); }
static inline int nxpy_code_set(PyObject *code, Py_ssize_t index, void *extra) { return PyUnstable_Code_SetExtra(code, index, extra); }
/* What the interpreter says of a class that `await` does not take. */
#define NXPY_AWAIT_TEXT "object %.100s can't be used in 'await' expression"
