/* CPython 3.14: what is read at every call. */
typedef struct nxpy_lines { PyCodeAddressRange range; bool ready; } nxpy_lines;

/* One value of a frame: a pointer whose lowest bit says that it holds no reference of its own, that bit alone: NULL; with the two
 * lowest bits a unit that a handler of exceptions has pushed, for which an object stands that is no other int. */
typedef struct nxpy_slot { uintptr_t bits; } nxpy_slot;
enum { NXPY_SLOTS_ARE_MARKED = 1 };
PyObject *nxpy__unit_object(uintptr_t unit); /* lent: it never dies */
bool nxpy__unit_is(PyObject *value, uintptr_t *unit);
static inline PyObject *nxpy_slot_get(const nxpy_slot *slot) {
    return __builtin_expect((slot->bits & 3) == 3, 0) ? nxpy__unit_object(slot->bits >> 2) : (PyObject *)(slot->bits & ~(uintptr_t)1);
}
static inline void nxpy_slot_set(nxpy_slot *slot, PyObject *value) { /* of what never dies nobody holds a reference */
    uintptr_t unit;
    if (value && PyLong_CheckExact(value) && nxpy__unit_is(value, &unit)) slot->bits = unit << 2 | 3;
    else slot->bits = value ? (uintptr_t)value | (value->ob_flags & 1) : 1;
}
static inline PyObject *const *nxpy_slots_read(const nxpy_slot *slots, int n, PyObject **room) {
    for (int k = 0; k < n; k++) room[k] = nxpy_slot_get(&slots[k]);
    return room;
}

/* Another number whenever the dict has changed; never 0. This version keeps none of its own: a dict that was asked for one is
 * watched until it changes, and has its number above the bits that the interpreter uses. */
uint64_t nxpy__dict_watch(PyObject *dict);
static inline uint64_t nxpy_dict_version(PyObject *dict) {
    uint64_t version = ((PyDictObject *)dict)->_ma_watcher_tag >> 12;
    return __builtin_expect(version != 0, 1) ? version : nxpy__dict_watch(dict);
}
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
static inline unsigned nxpy_type_version(PyTypeObject *type) { return type->tp_version_tag; }
/* Where a function keeps its type parameters, and what computes its annotations; 0: it has none. */
enum { NXPY_TYPE_PARAMS = offsetof(PyFunctionObject, func_typeparams), NXPY_ANNOTATE = offsetof(PyFunctionObject, func_annotate) };
/* What hangs on a code object under `index`, forgotten with it; *out NULL: nothing. */
static inline Py_ssize_t nxpy_code_index(freefunc forget) { return PyUnstable_Eval_RequestCodeExtraIndex(forget); }
static inline int nxpy_code_get(PyObject *code, Py_ssize_t index, void **out) { return PyUnstable_Code_GetExtra(code, index, out); }
static inline int nxpy_code_set(PyObject *code, Py_ssize_t index, void *extra) { return PyUnstable_Code_SetExtra(code, index, extra); }
/* What the interpreter says of a class that `await` does not take. */
#define NXPY_AWAIT_TEXT "'%.100s' object can't be awaited"
