/* Guards: making rows and checking them.
 *
 * In: rows recorded by the tracer; at each call, the roots (arguments, or a frame's locals and stack).
 * Out: whether everything the trace relied on is still so, and the values it read, in slots.
 * What must hold: a check allocates nothing, runs no Python code and leaves no exception; whatever goes wrong means
 * that the guard failed. Lookups are remembered under the version of the dict or type, so that a change of another
 * global costs one lookup and no recompilation.
 * Next: explain.c for the text of the same rows. */
#include "guard/private.h"

/* ---- constants ------------------------------------------------------------------------------------------------ */
static bool is_plain_constant(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    return o == Py_None || type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type || type == &PyBool_Type ||
           type == &PyBytes_Type || type == &PyComplex_Type || o == Py_Ellipsis || o == Py_NotImplemented || nxpy_dtype_check(o) ||
           type == &nxpy_device_type || type == &nxpy_word_type;
}

bool nxpy_constant_check(PyObject *o) {
    if (is_plain_constant(o)) return true;
    if (PySlice_Check(o)) {
        const PySliceObject *slice = (PySliceObject *)o;
        return is_plain_constant(slice->start) && is_plain_constant(slice->stop) && is_plain_constant(slice->step);
    }
    if (Py_TYPE(o) != &PyTuple_Type && Py_TYPE(o) != &nxpy_size_type) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(o); k++) {
        if (!nxpy_constant_check(PyTuple_GET_ITEM(o, k))) return false;
    }
    return true;
}

static bool tuples_equal(PyObject *x, PyObject *y) {
    if (PyTuple_GET_SIZE(x) != PyTuple_GET_SIZE(y)) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(x); k++) {
        if (!nxpy_constant_equal(PyTuple_GET_ITEM(x, k), PyTuple_GET_ITEM(y, k))) return false;
    }
    return true;
}

bool nxpy_constant_equal(PyObject *x, PyObject *y) {
    if (x == y) return true;
    if (!x || !y || Py_TYPE(x) != Py_TYPE(y) || !nxpy_constant_check(y)) return false;
    if (Py_TYPE(x) == &PyFloat_Type) { /* bits: 0.0 and -0.0 differ, NaN equals itself */
        double a = PyFloat_AS_DOUBLE(x), b = PyFloat_AS_DOUBLE(y);
        return memcmp(&a, &b, sizeof a) == 0;
    }
    if (Py_TYPE(x) == &PyComplex_Type) {
        Py_complex a = ((PyComplexObject *)x)->cval, b = ((PyComplexObject *)y)->cval;
        return memcmp(&a, &b, sizeof a) == 0;
    }
    if (PyTuple_Check(x)) return tuples_equal(x, y);
    if (PySlice_Check(x)) {
        const PySliceObject *a = (PySliceObject *)x, *b = (PySliceObject *)y;
        return nxpy_constant_equal(a->start, b->start) && nxpy_constant_equal(a->stop, b->stop) && nxpy_constant_equal(a->step, b->step);
    }
    int equal = PyObject_RichCompareBool(x, y, Py_EQ);
    if (equal < 0) nxpy_forget_error();
    return equal > 0;
}

/* ---- making ---------------------------------------------------------------------------------------------------- */
static void row_release(nxpy_row *row) {
    Py_XDECREF(row->a);
    Py_XDECREF(row->b);
    nx_free(row->block);
}

static bool is_fetch(int code) {
    static const bool fetch[] = {
#define FETCH true
#define CHECK false
#define NXPY_GUARD_ROW(code, kind, meaning) [NXPY_ROW_##code] = kind,
#include "guard/guards.def"
#undef NXPY_GUARD_ROW
#undef FETCH
#undef CHECK
    };
    return fetch[code];
}

static int *root_of(const nxpy_guards *guards, PyObject *a) {
    uint64_t number = a && PyUnicode_CheckExact(a) ? (uint64_t)PyObject_Hash(a) : 0; /* equal constants of others: one place */
    if (a && !number && !nxpy_constant_check(a)) number = (uint64_t)(uintptr_t)a >> 4;
    return (int *)&guards->roots[(number ^ number >> 7 ^ number >> 21) % NX_COUNT(guards->roots)];
}

int nxpy_guards_add(nxpy_guards *guards, nxpy_row row, nxpy_place place) {
    Py_XINCREF(row.a);
    Py_XINCREF(row.b);
    row.slot = is_fetch(row.code) ? (int16_t)guards->n_slots : -1;
    row.hash = row.a && (row.code == NXPY_ROW_DICT || row.code == NXPY_ROW_KEY || row.code == NXPY_ROW_VALUE) ? PyObject_Hash(row.a) : 0;
    nx_status status = row.hash == -1 ? NX_PYTHON : NX_OK;
    while (status == NX_OK && guards->last.n < guards->n_slots + 2) status = nx_vec_push(&guards->last, -1);
    if (status == NX_OK && row.slot >= 0) status = nx_vec_push(&guards->row_of_slot, guards->rows.n);
    if (status == NX_OK) {
        place.before = row.from < 0 ? *root_of(guards, row.a) - 1 : guards->last.at[row.from + 1];
        status = nx_vec_push(&guards->places, place);
    }
    if (status == NX_OK && (status = nx_vec_push(&guards->rows, row)) != NX_OK) guards->places.n--;
    if (status != NX_OK) {
        guards->row_of_slot.n = guards->n_slots;
        row_release(&row);
        nxpy_raise(status);
        return -1;
    }
    Py_XINCREF(place.file);
    Py_XINCREF(place.function);
    if (row.slot >= 0) guards->n_slots++;
    if (row.from < 0) *root_of(guards, row.a) = guards->rows.n;
    else guards->last.at[row.from + 1] = guards->rows.n - 1;
    return guards->rows.n - 1;
}

int nxpy_guards_find(const nxpy_guards *guards, nxpy_row_code code, int from, PyObject *a, PyObject *b, int64_t n) {
    int last = from < 0 ? *root_of(guards, a) - 1 : from + 1 < guards->last.n ? guards->last.at[from + 1] : -1;
    for (int k = last; k >= 0; k = guards->places.at[k].before) {
        const nxpy_row *row = &guards->rows.at[k];
        if (row->code == code && row->from == from && row->b == b && row->n == n &&
            (row->a == a || (a && row->a && nxpy_constant_equal(row->a, a)))) return k;
    }
    return -1;
}

bool nxpy_guards_know_function(const nxpy_guards *guards, PyObject *function) {
    for (int k = *root_of(guards, function) - 1; k >= 0; k = guards->places.at[k].before) {
        if (guards->rows.at[k].code == NXPY_ROW_FUNCTION && guards->rows.at[k].a == function) return true;
    }
    return false;
}

void nxpy_guards_free(nxpy_guards *guards) {
    for (int k = 0; k < guards->rows.n; k++) row_release(&guards->rows.at[k]);
    nx_vec_free(&guards->rows);
    for (int k = 0; k < guards->places.n; k++) {
        Py_XDECREF(guards->places.at[k].file);
        Py_XDECREF(guards->places.at[k].function);
    }
    nx_vec_free(&guards->places);
    nx_vec_free(&guards->last);
    nx_vec_free(&guards->row_of_slot);
    guards->n_slots = 0;
}

nxpy_tensor_like *nxpy_tensor_like_new(PyObject *object, uint64_t varying) {
    const nx_tensor *tensor = nxpy_tensor_get(object);
    int ndim = tensor->a.ndim;
    nxpy_tensor_like *like = nx_alloc(sizeof *like + sizeof(int64_t) * 2 * (size_t)ndim);
    if (!like) {
        nxpy_raise(nx_fail_memory(sizeof *like));
        return NULL;
    }
    *like = (nxpy_tensor_like){.type = Py_TYPE(object), .keys = tensor->keys, .device = tensor->a.device, .dtype = tensor->a.dtype,
                               .ndim = (uint8_t)ndim, .is_parameter = tensor->is_parameter, .varying = varying};
    memcpy(like->dims, tensor->a.sizes, sizeof(int64_t) * (size_t)ndim);
    memcpy(like->dims + ndim, tensor->a.strides, sizeof(int64_t) * (size_t)ndim);
    return like;
}

/* ---- fetching --------------------------------------------------------------------------------------------------- */
/* Looks `a` up in `dict`, once for each state of the dict. */
static inline PyObject *dict_lookup(nxpy_row *row, PyObject *dict) {
    uint64_t version = nxpy_dict_version(dict);
    if (NX_LIKELY(version == row->version)) return row->seen;
    PyObject *value = _PyDict_GetItem_KnownHash(dict, row->a, row->hash);
    if (!value && PyErr_Occurred()) {
        nxpy_forget_error();
        return NULL;
    }
    row->version = version;
    return row->seen = value;
}

#define CHECK_ARGS nxpy_row *row, PyObject *const *roots, PyObject **values
static inline bool check_ROOT(CHECK_ARGS) { return (values[row->slot] = roots[row->n]) != NULL; }
static inline bool check_FIXED(CHECK_ARGS) { return (values[row->slot] = row->a) != NULL; }
static inline bool check_DICT(CHECK_ARGS) {
    values[row->slot] = dict_lookup(row, row->b);
    return true;
}
static inline bool check_VALUE(CHECK_ARGS) {
    PyObject *object = values[row->from], *dict;
    if (!object) return false;
    dict = nxpy_instance_dict(object);
    values[row->slot] = dict ? dict_lookup(row, dict) : nxpy_instance_value(object, row->a);
    return true;
}
static inline bool check_TYPE_VALUE(CHECK_ARGS) {
    PyTypeObject *type = (PyTypeObject *)row->b;
    bool valid = PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG);
    if (NX_LIKELY(valid && row->version == type->tp_version_tag)) {
        values[row->slot] = row->seen;
        return true;
    }
    values[row->slot] = row->seen = _PyType_Lookup(type, row->a);
    row->version = PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
    return true;
}
static inline bool check_NAMESPACE(CHECK_ARGS) {
    return values[row->from] && (values[row->slot] = nxpy_instance_dict(values[row->from])) != NULL;
}
static inline bool check_ITEM(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (!of || !(PyList_Check(of) || PyTuple_Check(of)) || row->n >= Py_SIZE(of)) return false;
    values[row->slot] = PySequence_Fast_GET_ITEM(of, row->n);
    return true;
}
static inline bool check_KEY(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (!of || !PyDict_Check(of)) return false;
    values[row->slot] = dict_lookup(row, of);
    return true;
}
static inline bool check_FIELD(CHECK_ARGS) {
    PyObject *object = values[row->from];
    if (!object) return false;
    values[row->slot] = *(PyObject **)((char *)object + row->n);
    return true;
}
static inline bool check_CELL(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (!of || !PyCell_Check(of)) return false;
    values[row->slot] = PyCell_GET(of);
    return true;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */
static inline bool check_ABSENT(CHECK_ARGS) { return values[row->from] == NULL; }
static inline bool check_SAME(CHECK_ARGS) { return values[row->from] == values[row->n]; }
static inline bool check_ID(CHECK_ARGS) { return values[row->from] == row->a; }
static inline bool check_TYPE(CHECK_ARGS) { return values[row->from] && Py_TYPE(values[row->from]) == (PyTypeObject *)row->a; }
static inline bool check_EQUALS(CHECK_ARGS) { return nxpy_constant_equal(values[row->from], row->a); }
static inline bool check_LENGTH(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (!of) return false;
    return PyDict_Check(of) ? ((PyDictObject *)of)->ma_used == row->n : Py_SIZE(of) == row->n;
}
/* In the order that it gives them, which is not that of the dict inside. */
static bool ordered_keys_are(PyObject *ordered, PyObject *keys) {
    PyObject *iterator = PyObject_GetIter(ordered), *key;
    Py_ssize_t k = 0, n = PyTuple_GET_SIZE(keys);
    bool same = iterator != NULL;
    while (same && (key = PyIter_Next(iterator))) {
        same = k < n && nxpy_constant_equal(key, PyTuple_GET_ITEM(keys, k++));
        Py_DECREF(key);
    }
    Py_XDECREF(iterator);
    nxpy_forget_error();
    return same && k == n;
}
static bool keys_are(PyObject *dict, PyObject *keys) {
    PyObject *key;
    Py_ssize_t at = 0, k = 0, n = PyTuple_GET_SIZE(keys);
    while (PyDict_Next(dict, &at, &key, NULL)) {
        if (k >= n || !nxpy_constant_equal(key, PyTuple_GET_ITEM(keys, k++))) return false;
    }
    return k == n;
}
static bool check_KEYS(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (!of || !PyDict_Check(of) || PyDict_GET_SIZE(of) != PyTuple_GET_SIZE(row->a)) return false;
    if (NX_UNLIKELY(PyODict_CheckExact(of))) return ordered_keys_are(of, row->a); /* its order has no version */
    if (NX_LIKELY(nxpy_dict_version(of) == row->version)) return true;
    if (!keys_are(of, row->a)) return false;
    row->version = nxpy_dict_version(of);
    return true;
}
static bool check_MEMBERS(CHECK_ARGS) {
    PyObject *of = values[row->from], *key;
    Py_ssize_t at = 0, k = 0, n = PyTuple_GET_SIZE(row->a);
    Py_hash_t hash;
    if (!of || !PyAnySet_Check(of) || PySet_GET_SIZE(of) != n) return false;
    while (_PySet_NextEntry(of, &at, &key, &hash)) {
        if (k >= n || !nxpy_constant_equal(key, PyTuple_GET_ITEM(row->a, k++))) return false;
    }
    return k == n;
}
bool nx__tensor_fits(const nxpy_tensor_like *like, const nx_array *a, int dim) {
    return like->varying && (like->varying >> dim & 1 || a->sizes[dim] == like->dims[dim]);
}
static inline bool check_TENSOR(CHECK_ARGS) {
    PyObject *object = values[row->from];
    const nxpy_tensor_like *like = row->like;
    if (!object || Py_TYPE(object) != like->type) return false;
    const nx_tensor *tensor = nxpy_tensor_get(object);
    int ndim = tensor->a.ndim;
    if (tensor->keys != like->keys || tensor->a.dtype != like->dtype || ndim != like->ndim ||
        !nx_device_same(tensor->a.device, like->device) ||
        tensor->is_parameter != like->is_parameter) return false;
    for (int k = 0; k < ndim; k++) {
        bool same = tensor->a.sizes[k] == like->dims[k] && tensor->a.strides[k] == like->dims[ndim + k];
        if (NX_UNLIKELY(!same) && !nx__tensor_fits(like, &tensor->a, k)) return false;
    }
    return true;
}
static inline bool check_FUNCTION(CHECK_ARGS) {
    const PyFunctionObject *function = (PyFunctionObject *)row->a;
    PyObject *const was[] = {PyTuple_GET_ITEM(row->b, 0), PyTuple_GET_ITEM(row->b, 1), PyTuple_GET_ITEM(row->b, 2)};
    PyObject *defaults = function->func_defaults ? function->func_defaults : Py_None;
    PyObject *kwdefaults = function->func_kwdefaults ? function->func_kwdefaults : Py_None;
    return function->func_code == was[0] && defaults == was[1] && kwdefaults == was[2];
}
static inline const void *address_of(const nxpy_row *row, PyObject *const *values, int64_t k) {
    PyObject *tensor = values[row->apart[k].slot];
    return row->code == NXPY_ROW_STORAGES ? (const void *)nxpy_memory_of(tensor) : tensor;
}
static bool is_alone(const nxpy_row *row, PyObject *const *values, int64_t k) {
    const void *mine = address_of(row, values, k);
    for (int64_t j = 0; mine && j < row->n; j++) {
        if (j != k && address_of(row, values, j) == mine) return false;
    }
    return true;
}
/* Only what lies elsewhere than at the last check that held is compared with all others. */
static bool are_apart(nxpy_row *row, PyObject *const *values) {
    bool moved = false;
    for (int64_t k = 0; k < row->n; k++) {
        if (NX_LIKELY(address_of(row, values, k) == row->apart[k].was)) continue;
        if (!is_alone(row, values, k)) return false;
        moved = true;
    }
    for (int64_t k = 0; moved && k < row->n; k++) row->apart[k].was = address_of(row, values, k);
    return true;
}
static bool check_DISTINCT(CHECK_ARGS) { return are_apart(row, values); }
static bool check_STORAGES(CHECK_ARGS) { return are_apart(row, values); }
static inline bool check_GRAD_MODE(CHECK_ARGS) { return nx_thread_get()->grad_disabled == (row->n == 0); }
static inline bool check_AUTOCAST(CHECK_ARGS) { return nx_thread_autocast(nx_thread_get()) == row->n; }
static inline bool check_DEFAULT_DTYPE(CHECK_ARGS) { return nx_default_dtype() == (nx_dtype)row->n; }
static inline bool check_DEVICE(CHECK_ARGS) {
    return memcmp(nx_thread_get()->device_index, &row->n, sizeof row->n) == 0;
}
_Static_assert(sizeof ((nx_thread *)0)->device_index == sizeof(int64_t), "a row's n holds the current devices");
static inline bool check_BACKEND(CHECK_ARGS) { return *(PyObject **)(intptr_t)row->n == row->a; } /* where its owner keeps it */

bool nx__guard_row_holds(nxpy_row *row, PyObject *const *roots, PyObject **values) {
    switch (row->code) {
#define NXPY_GUARD_ROW(code, kind, meaning) case NXPY_ROW_##code: return check_##code(row, roots, values);
#include "guard/guards.def"
#undef NXPY_GUARD_ROW
    default: return false;
    }
}

int nxpy_guards_check(nxpy_guards *guards, PyObject *const *roots, PyObject **values) {
    nxpy_row *row = guards->rows.at;
    for (int k = 0; k < guards->rows.n; k++, row++) {
        bool holds = false;
        switch (row->code) {
#define NXPY_GUARD_ROW(code, kind, meaning) case NXPY_ROW_##code: holds = check_##code(row, roots, values); break;
#include "guard/guards.def"
#undef NXPY_GUARD_ROW
        }
        if (NX_UNLIKELY(!holds)) return k;
    }
    return -1;
}
