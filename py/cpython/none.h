/* A CPython that capture does not know: what is read at every call. */
typedef struct nxpy_lines { bool ready; } nxpy_lines;

typedef struct nxpy_slot { void *nothing; } nxpy_slot;
enum { NXPY_SLOTS_ARE_MARKED = 0 };
static inline PyObject *nxpy_slot_get(const nxpy_slot *slot) { return NULL; }
static inline void nxpy_slot_set(nxpy_slot *slot, PyObject *value) {}
static inline PyObject *const *nxpy_slots_read(const nxpy_slot *slots, int n, PyObject **room) { return NULL; }

/* Never the same number twice: nothing that hangs on one is found again. */
static inline uint64_t nxpy_dict_version(PyObject *dict) {
    static uint64_t last;
    return ++last;
}
static inline PyObject *nxpy_dict_get(PyObject *dict, PyObject *key, Py_hash_t hash) { return PyDict_GetItemWithError(dict, key); }
/* Frames are not followed, so there is no guard that would ask. */
static inline bool nxpy_set_next(PyObject *set, Py_ssize_t *at, PyObject **key) { return false; }
static inline PyObject *nxpy_local_name(const PyCodeObject *code, int index) { return NULL; }
static inline PyObject *nxpy_dict_at(PyObject *object, int offset) { return NULL; }
enum { NXPY_NULL_FIRST = 1 };
static inline PyObject *nxpy_type_dict(PyTypeObject *type) { return NULL; }
static inline unsigned nxpy_type_version(PyTypeObject *type) { return 0; }
/* Where a function keeps its type parameters, and what computes its annotations; 0: it has none. */
enum { NXPY_TYPE_PARAMS = 0, NXPY_ANNOTATE = 0 };
static inline Py_ssize_t nxpy_code_index(freefunc forget) { return -1; }
static inline int nxpy_code_get(PyObject *code, Py_ssize_t index, void **out) { return *out = NULL, 0; }
static inline int nxpy_code_set(PyObject *code, Py_ssize_t index, void *extra) { return -1; }
/* What the interpreter says of a class that `await` does not take. */
#define NXPY_AWAIT_TEXT "object %.100s can't be used in 'await' expression"
