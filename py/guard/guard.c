/* Guards: making rows.
 *
 * In: rows recorded by the tracer. Out: rows, their places in the user's code, and what a call needs to check them.
 * Next: check.c for what a call does, explain.c for the text of the same rows. */
#include "guard/private.h"

#include <ctype.h>

/* ---- constants ------------------------------------------------------------------------------------------------ */
/* Bytes of a number of numpy's, which lie behind the object's head and never change; 0: it is none. numpy is not asked: it may
 * not be there. */
static size_t numpy_bytes(const PyTypeObject *type) {
    if (NX_LIKELY(strncmp(type->tp_name, "numpy.", 6) != 0) || !type->tp_mro) return 0;
    if (strstr(type->tp_name, "longdouble")) return 0; /* part of its bytes are nothing */
    bool number = strcmp(type->tp_name, "numpy.bool") == 0 || strcmp(type->tp_name, "numpy.bool_") == 0;
    if (number) return 1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(type->tp_mro); k++) {
        number |= strcmp(((PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, k))->tp_name, "numpy.number") == 0;
    }
    const char *digits = type->tp_name + 6;
    while (*digits && !isdigit((unsigned char)*digits)) digits++;
    return !number ? 0 : *digits ? (size_t)atoi(digits) / 8 : sizeof(long long);
}

bool nxpy_is_numpy_number(PyObject *o) { return numpy_bytes(Py_TYPE(o)) != 0; }

/* A dtype of numbers of numpy's, which never changes. */
static bool is_numpy_dtype(PyObject *o) {
    const char *name = Py_TYPE(o)->tp_name;
    if (NX_LIKELY(strncmp(name, "numpy.dtypes.", 13) != 0)) return false;
    return !strstr(name, "Void") && !strstr(name, "Str") && !strstr(name, "Bytes") && !strstr(name, "Object") && !strstr(name, "Date") &&
           !strstr(name, "Time");
}

static bool is_plain_constant(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    return o == Py_None || type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type || type == &PyBool_Type ||
           type == &PyBytes_Type || type == &PyComplex_Type || o == Py_Ellipsis || o == Py_NotImplemented || nxpy_dtype_check(o) ||
           type == &nxpy_device_type || type == &nxpy_word_type || numpy_bytes(type) ||
           is_numpy_dtype(o);
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
    size_t bytes = numpy_bytes(Py_TYPE(x));
    if (bytes) return memcmp((char *)x + sizeof(PyObject), (char *)y + sizeof(PyObject), bytes) == 0;
    int equal = PyObject_RichCompareBool(x, y, Py_EQ);
    if (equal < 0) nxpy_forget_error();
    return equal > 0;
}

bool nxpy_element_bits(PyObject *tensor, int64_t *out) {
    const nx_tensor *t = nxpy_tensor_check(tensor) ? nxpy_tensor_get(tensor) : NULL;
    if (!t || nx_tensor_is_fake(t) || t->a.device.type != 0 || t->a.numel != 1 || !t->a.data) return false;
    double real;
    switch (t->a.dtype) {
    case NX_BOOL: *out = *(const bool *)t->a.data; return true;
    case NX_U8: *out = *(const uint8_t *)t->a.data; return true;
    case NX_I8: *out = *(const int8_t *)t->a.data; return true;
    case NX_I16: *out = *(const int16_t *)t->a.data; return true;
    case NX_I32: *out = *(const int32_t *)t->a.data; return true;
    case NX_I64: *out = *(const int64_t *)t->a.data; return true;
    case NX_F32: real = *(const float *)t->a.data; break;
    case NX_F64: real = *(const double *)t->a.data; break;
    default: return false;
    }
    memcpy(out, &real, sizeof real);
    return true;
}

/* ---- making ---------------------------------------------------------------------------------------------------- */
static void row_release(nxpy_row *row) {
    Py_XDECREF(row->a);
    Py_XDECREF(row->b);
    if (row->code == NXPY_ROW_TENSOR) nx_free(row->like);
    if (row->code == NXPY_ROW_DISTINCT || row->code == NXPY_ROW_STORAGES) nx_free(row->apart);
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
    bool looks_up = row.code == NXPY_ROW_DICT || row.code == NXPY_ROW_KEY || row.code == NXPY_ROW_VALUE;
    if (looks_up) row.hash = PyObject_Hash(row.a); /* of an enumeration's member that is Python code, which may add rows itself */
    row.slot = is_fetch(row.code) ? guards->n_slots : -1;
    nx_status status = looks_up && row.hash == -1 ? NX_PYTHON : NX_OK;
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

bool nxpy_guards_know_operator(const nxpy_guards *guards, PyObject *type, PyObject *name) {
    for (int k = *root_of(guards, name) - 1; k >= 0; k = guards->places.at[k].before) {
        const nxpy_row *row = &guards->rows.at[k];
        if (row->code == NXPY_ROW_OPERATOR && row->a == name && PyTuple_GET_ITEM(row->b, 0) == type) return true;
    }
    return false;
}

void nxpy__guards_remove(nxpy_guards *guards, int row) {
    row_release(&guards->rows.at[row]);
    Py_XDECREF(guards->places.at[row].file);
    Py_XDECREF(guards->places.at[row].function);
    guards->rows.n--;
    guards->places.n--;
    for (int k = row; k < guards->rows.n; k++) {
        guards->rows.at[k] = guards->rows.at[k + 1];
        guards->places.at[k] = guards->places.at[k + 1];
    }
    for (int k = 0; k < guards->row_of_slot.n; k++) guards->row_of_slot.at[k] -= guards->row_of_slot.at[k] > row;
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
    nxpy__guard_steps_free(guards);
    guards->n_slots = 0;
}

const char *const nxpy_mark_names[NXPY_N_MARKS] = {"_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_indices"};

uint64_t nxpy_marked_dims(PyObject *tensor, nxpy_mark_kind mark) {
    static PyObject *names[NXPY_N_MARKS];
    PyObject *dict = ((nxpy_tensor *)tensor)->dict;
    if (!dict) return 0;
    if (!names[mark]) names[mark] = PyUnicode_InternFromString(nxpy_mark_names[mark]);
    PyObject *set = names[mark] ? PyDict_GetItemWithError(dict, names[mark]) : NULL;
    uint64_t dims = 0;
    for (int d = 0; set && PyAnySet_Check(set) && d < nxpy_tensor_get(tensor)->a.ndim; d++) {
        PyObject *number = PyLong_FromLong(d);
        if (number && PySet_Contains(set, number) == 1) dims |= UINT64_C(1) << d;
        Py_XDECREF(number);
    }
    nxpy_forget_error();
    return dims;
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
    for (int k = 0; k < NXPY_N_MARKS; k++) like->marked[k] = like->is_parameter ? UINT64_MAX : nxpy_marked_dims(object, k);
    nx_array counts; /* the members of a head that do */
    memset(&counts, 0, sizeof counts);
    counts.dtype = counts.ndim = UINT8_MAX;
    memset(&counts.device, UINT8_MAX, sizeof counts.device);
    bool told = varying != 0; /* strides follow from sizes, or do not matter */
    if (!varying) {
        memset(&counts.contiguous, UINT8_MAX, sizeof counts.contiguous);
        told = tensor->a.contiguous;
        for (int d = 0; d < ndim; d++) told = told && tensor->a.sizes[d] > 1;
    }
    like->head = nxpy__array_head(&tensor->a);
    like->head_mask = nxpy__array_head(&counts);
    like->n_strides = told ? 0 : (uint8_t)ndim;
    memcpy(like->dims, tensor->a.sizes, sizeof(int64_t) * (size_t)ndim);
    memcpy(like->dims + ndim, tensor->a.strides, sizeof(int64_t) * (size_t)ndim);
    return like;
}
