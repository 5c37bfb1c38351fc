/* x[...] and x[...] = y. Integers, slices, None and ... are views: select, slice and unsqueeze, one after the other.
 * Tensors and lists among them are gathered last, by index.Tensor and index_put_; how much a mask of bools picks only its
 * elements say, so a trace ends there, but one number for all that a mask picks is written by masked_fill_.
 * In: the key as Python has it. Every intermediate view is owned here; `dim` counts the dimensions of the view so
 * far that are done. Next: ops/shape/view.op. */
#include "bind/private.h"

static const nx_op *op_select, *op_slice, *op_unsqueeze, *op_alias, *op_copy, *op_fill, *op_expand;
static const nx_op *op_index, *op_index_put, *op_stack, *op_full, *op_masked_fill[2], *op_nonzero;

int nxpy_find_index_ops(void) {
    op_select = nx_op_get("aten::select.int");
    op_slice = nx_op_get("aten::slice.Tensor");
    op_unsqueeze = nx_op_get("aten::unsqueeze");
    op_alias = nx_op_get("aten::alias");
    op_copy = nx_op_get("aten::copy_");
    op_expand = nx_op_get("aten::expand");
    op_fill = nx_op_get("aten::fill_.Scalar");
    op_index = nx_op_get("aten::index.Tensor");
    op_index_put = nx_op_get("aten::index_put_");
    op_stack = nx_op_get("aten::stack");
    op_full = nx_op_get("aten::full");
    op_masked_fill[0] = nx_op_get("aten::masked_fill_.Scalar");
    op_masked_fill[1] = nx_op_get("aten::masked_fill_.Tensor");
    op_nonzero = nx_op_get("aten::nonzero_numpy");
    bool views = op_select && op_slice && op_unsqueeze && op_alias && op_copy && op_fill && op_expand;
    bool indices = op_nonzero && op_index && op_index_put && op_stack && op_full && op_masked_fill[0] && op_masked_fill[1];
    if (views && indices) return 0;
    PyErr_SetString(PyExc_SystemError, "an operator behind x[...] is missing");
    return -1;
}

typedef struct place {
    nx_tensor *tensor;      /* owned */
    int dim;
    int read;               /* dimensions of the indexed tensor that are done, for messages */
    bool changed;           /* whether it is a view already */
    int n_indices;          /* tensors of indices: of the leading dimensions of `tensor`, NONE where there is none */
    int n_indexed;          /* the dimensions that they and the NONEs stand for: a mask for as many as it has */
    bool masked;            /* a mask is among them */
    nx_value indices[NX_MAX_DIMS]; /* owned */
} place;

static void place_end(place *p) {
    nx_tensor_unref(p->tensor);
    for (int k = 0; k < p->n_indices; k++) nx_value_drop(&p->indices[k]);
}

static int apply(place *p, const nx_op *op, const nx_value *in) {
    nx_value out;
    nx_status status = nx_op_call(op, in, &out);
    if (status != NX_OK) return nxpy_raise(status), -1;
    nx_tensor_unref(p->tensor);
    p->tensor = out.tensor;
    p->changed = true;
    return 0;
}

static int apply_integer(place *p, PyObject *key) {
    nx_value size;
    if (nxpy_symint_value(key, &size)) {
        p->read++;
        return apply(p, op_select, (nx_value[]){nx_value_tensor(p->tensor), nx_value_int(p->dim), size});
    }
    Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred()) return -1;
    if (p->tensor->a.ndim == 0) {
        PyErr_SetString(PyExc_IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                        "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
        return -1;
    }
    if (p->dim < p->tensor->a.ndim) {
        int64_t n = p->tensor->a.sizes[p->dim];
        if (index < -n || index >= n) {
            PyErr_Format(PyExc_IndexError, "index %zd is out of bounds for dimension %d with size %lld", index, p->read,
                         (long long)n);
            return -1;
        }
    }
    p->read++;
    return apply(p, op_select, (nx_value[]){nx_value_tensor(p->tensor), nx_value_int(p->dim), nx_value_int(index)});
}

/* With a bound that a trace does not fix; what is left out stays so. */
static int apply_sizes(place *p, PySliceObject *key) {
    PyObject *const parts[] = {key->start, key->stop, key->step};
    nx_value in[] = {nx_value_tensor(p->tensor), nx_value_int(p->dim++), NX_VALUE_NONE, NX_VALUE_NONE, nx_value_int(1)};
    for (int k = 0; k < 3; k++) {
        if (parts[k] == Py_None || nxpy_symint_value(parts[k], &in[2 + k])) continue;
        Py_ssize_t bound = PyNumber_AsSsize_t(parts[k], NULL); /* too large is as large as can be */
        if (bound == -1 && PyErr_Occurred()) return -1;
        in[2 + k] = nx_value_int(bound);
    }
    p->read++;
    return apply(p, op_slice, in);
}

static int apply_slice(place *p, PyObject *key) {
    Py_ssize_t start, stop, step;
    const PySliceObject *slice = (PySliceObject *)key;
    if (nxpy_symint_check(slice->start) || nxpy_symint_check(slice->stop)) return apply_sizes(p, (PySliceObject *)key);
    if (PySlice_Unpack(key, &start, &stop, &step) < 0) return -1;
    if (step <= 0) return PyErr_SetString(PyExc_ValueError, "step must be greater than zero"), -1;
    int64_t n = p->dim < p->tensor->a.ndim ? p->tensor->a.sizes[p->dim] : 0;
    bool whole = start == 0 && (stop == PY_SSIZE_T_MAX || (stop >= n && !nxpy_size_tracer())) && step == 1 && p->dim < p->tensor->a.ndim;
    int dim = p->dim++;
    p->read++;
    if (whole) return 0;
    return apply(p, op_slice, (nx_value[]){nx_value_tensor(p->tensor), nx_value_int(dim), nx_value_int(start),
                                           nx_value_int(stop), nx_value_int(step)});
}

static int apply_none(place *p) {
    nx_value in[] = {nx_value_tensor(p->tensor), nx_value_int(p->dim++)};
    return apply(p, op_unsqueeze, in);
}

/* ---- tensors and lists as indices ------------------------------------------------------------------------- */
/* A new tensor without dimensions, or with one of `size`; an operator makes it, so that a graph can hold it. */
static nx_tensor *new_filled(nx_value number, nx_dtype dtype, nx_device device, const int64_t *size) {
    nx_value out, in[] = {nx_value_ints(size, size != NULL), number, nx_value_dtype(dtype), NX_VALUE_NONE,
                          {.tag = NX_TAG_DEVICE, .device = device}, NX_VALUE_NONE};
    nx_status status = nx_op_call(op_full, in, &out);
    return status == NX_OK ? out.tensor : (nxpy_raise(status), NULL);
}

static nx_tensor *index_of(PyObject *key, nx_device device);

/* Of a list or a tuple that is one element of a key. */
static nx_tensor *index_of_list(PyObject *list, nx_device device) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(list), done = 0;
    if (n == 0) return new_filled(nx_value_int(0), NX_I64, device, &(int64_t){0});
    nx_value *parts = PyMem_Malloc(sizeof *parts * (size_t)n), out = NX_VALUE_NONE;
    if (parts == NULL) return (nx_tensor *)PyErr_NoMemory();
    for (; done < n; done++) {
        nx_tensor *part = index_of(PySequence_Fast_GET_ITEM(list, done), device);
        if (part == NULL) goto end;
        parts[done] = nx_value_tensor(part);
    }
    nx_status status = nx_op_call(op_stack, (nx_value[]){nx_value_list(parts, (int)n), nx_value_int(0)}, &out);
    if (status != NX_OK) nxpy_raise(status), out = NX_VALUE_NONE;
end:
    for (Py_ssize_t k = 0; k < done; k++) nx_tensor_unref(parts[k].tensor);
    PyMem_Free(parts);
    return out.tag == NX_TAG_TENSOR ? out.tensor : NULL;
}

/* A tensor of indices from an element of a key; a new reference. */
static nx_tensor *index_of(PyObject *key, nx_device device) {
    nx_value size;
    if (nxpy_tensor_check(key)) return nx_tensor_ref(nxpy_tensor_get(key));
    if (PyList_Check(key) || PyTuple_Check(key)) return index_of_list(key, device);
    if (PyBool_Check(key)) return new_filled(nx_value_bool(key == Py_True), NX_BOOL, device, NULL);
    if (nxpy_symint_value(key, &size)) return new_filled(size, NX_I64, device, NULL);
    if (PyIndex_Check(key)) {
        Py_ssize_t number = PyNumber_AsSsize_t(key, PyExc_IndexError);
        return number == -1 && PyErr_Occurred() ? NULL : new_filled(nx_value_int(number), NX_I64, device, NULL);
    }
    PyErr_Format(PyUnicode_Check(key) ? PyExc_TypeError : PyExc_IndexError, "only integers, slices (`:`), ellipsis (`...`), "
                 "None and long or byte Variables are valid indices (got %.100s)", Py_TYPE(key)->tp_name);
    return NULL;
}

static bool is_mask(const nx_tensor *index) { return index->a.dtype == NX_BOOL || index->a.dtype == NX_U8; }

static int warn_of_bytes(const nx_tensor *index) {
    if (index->a.dtype != NX_U8 || nx_tensor_is_fake(index)) return 0;
    return PyErr_WarnEx(PyExc_UserWarning,
                        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.", 1);
}

/* Takes over `index`, which stands for the next n dimensions. */
static int put_index(place *p, nx_tensor *index, int n) {
    if (p->dim + n > p->tensor->a.ndim || p->n_indices + p->dim - p->n_indexed >= NX_MAX_DIMS) {
        PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", p->tensor->a.ndim);
        nx_tensor_unref(index);
        return -1;
    }
    for (; p->n_indexed < p->dim; p->n_indexed++) p->indices[p->n_indices++] = NX_VALUE_NONE;
    p->indices[p->n_indices++] = nx_value_tensor(index);
    p->masked |= is_mask(index);
    p->n_indexed = p->dim += n;
    p->read += n;
    return 0;
}

/* A mask whose elements only the trace knows: the places where it is True, for each dimension. Takes it over. */
static int put_places(place *p, nx_tensor *mask) {
    nx_value out, in = nx_value_tensor(mask);
    nx_status status = nx_mask_check(&p->tensor->a, p->dim, &mask->a);
    if (status == NX_OK) status = nx_op_call(op_nonzero, &in, &out);
    nx_tensor_unref(mask);
    if (status != NX_OK) return nxpy_raise(status), -1;
    int done = 0;
    for (int k = 0; done == 0 && k < out.n; k++) done = put_index(p, nx_tensor_ref(out.list[k].tensor), 1);
    nx_value_drop(&out);
    return done;
}

static int add_index(place *p, PyObject *key) {
    nx_tensor *index = index_of(key, p->tensor->a.device);
    if (index == NULL) return -1;
    if (is_mask(index) && nx_tensor_is_fake(index) && nx_thread_get()->tell) return put_places(p, index);
    if (warn_of_bytes(index) < 0) return nx_tensor_unref(index), -1;
    return put_index(p, index, is_mask(index) ? index->a.ndim : 1);
}

/* One bool for everything there is: a new dimension, taken once or not at all. */
static int apply_bool(place *p, PyObject *key) {
    int all = PyObject_IsTrue(key);
    if (all < 0) return -1;
    nx_value in[] = {nx_value_tensor(p->tensor), nx_value_int(p->dim)};
    if (apply(p, op_unsqueeze, in) < 0) return -1;
    nx_tensor *index = new_filled(nx_value_int(0), NX_I64, p->tensor->a.device, &(int64_t){all});
    return index ? put_index(p, index, 1) : -1;
}

/* How many dimensions an element of the key takes. */
static int takes(PyObject *key) {
    if (nxpy_tensor_check(key)) return is_mask(nxpy_tensor_get(key)) ? nxpy_tensor_get(key)->a.ndim : 1;
    return key == Py_None || key == Py_Ellipsis || PyBool_Check(key) ? 0 : 1;
}

static int apply_one(place *p, PyObject *key, int n_after) {
    if (key == Py_None) return apply_none(p);
    if (key == Py_Ellipsis) {
        p->read += p->tensor->a.ndim - n_after - p->dim;
        p->dim = p->tensor->a.ndim - n_after;
        return 0;
    }
    if (PySlice_Check(key)) return apply_slice(p, key);
    bool scalar = nxpy_tensor_check(key) && nxpy_tensor_get(key)->a.ndim == 0;
    if (PyBool_Check(key) || (scalar && is_mask(nxpy_tensor_get(key)))) return apply_bool(p, key);
    bool plain = !nxpy_tensor_check(key) && PyIndex_Check(key);
    bool one = scalar && nx_is_int(nxpy_tensor_get(key)->a.dtype);
    if (plain || one) return apply_integer(p, key);
    return add_index(p, key);
}

static int apply_tuple(place *p, PyObject *key) {
    int n_after = 0;
    Py_ssize_t n = PyTuple_GET_SIZE(key);
    for (Py_ssize_t i = 0; i < n; i++) n_after += takes(PyTuple_GET_ITEM(key, i));
    if (n_after > p->tensor->a.ndim) {
        PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", p->tensor->a.ndim);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = PyTuple_GET_ITEM(key, i);
        n_after -= takes(one);
        if (apply_one(p, one, n_after) < 0) return -1;
    }
    return 0;
}

/* A short list that holds more than numbers is read as a tuple, as PyTorch does. */
static bool list_is_tuple(PyObject *key) {
    if (!PyList_Check(key) || PyList_GET_SIZE(key) >= 32) return false;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(key); k++) {
        PyObject *one = PyList_GET_ITEM(key, k);
        if (one == Py_None || one == Py_Ellipsis || PySlice_Check(one) || PySequence_Check(one)) return true;
    }
    return false;
}

static bool is_foreign(PyObject *part) { return nxpy_is_numpy_array(part) || PyRange_Check(part); }

/* A part of a key: an array as a tensor, a range as a list. */
static PyObject *read_part(PyObject *part) {
    return nxpy_is_numpy_array(part) ? nxpy_from_numpy(part) : PyRange_Check(part) ? PySequence_List(part) : Py_NewRef(part);
}

/* A new reference to the key as apply_tuple and apply_one take it. */
static PyObject *read_key(PyObject *key) {
    if (list_is_tuple(key)) return PyList_AsTuple(key);
    if (!PyTuple_Check(key)) return read_part(key);
    Py_ssize_t n = PyTuple_GET_SIZE(key), foreign = 0;
    for (Py_ssize_t k = 0; k < n; k++) foreign += is_foreign(PyTuple_GET_ITEM(key, k));
    if (foreign == 0) return Py_NewRef(key);
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t k = 0; tuple && k < n; k++) {
        PyObject *part = read_part(PyTuple_GET_ITEM(key, k));
        if (part) PyTuple_SET_ITEM(tuple, k, part);
        else Py_CLEAR(tuple);
    }
    return tuple;
}

/* The view that the key names, and the tensors of indices that stand in the key. */
static int find_place(PyObject *self, PyObject *given, place *p) {
    *p = (place){.tensor = nx_tensor_ref(nxpy_tensor_get(self))};
    int done;
    PyObject *key = read_key(given);
    if (key == NULL) done = -1;
    else if (PyTuple_Check(key)) done = apply_tuple(p, key);
    else if (takes(key) && p->tensor->a.ndim == 0 && PySlice_Check(key)) {
        PyErr_SetString(PyExc_IndexError, "slice() cannot be applied to a 0-dim tensor.");
        done = -1;
    } else done = apply_one(p, key, 0);
    Py_XDECREF(key);
    if (done < 0) place_end(p);
    return done;
}

PyObject *nxpy_tensor_getitem(PyObject *self, PyObject *key) {
    PyObject *answer;
    if (NXPY_ASKS(self) && nxpy_ask_method("__getitem__", self, &key, 1, NULL, &answer)) return answer;
    if (NX_LIKELY(PyLong_CheckExact(key))) {
        nx_tensor *t = nxpy_tensor_get(self);
        int overflow;
        long long index = PyLong_AsLongLongAndOverflow(key, &overflow);
        bool fits = !overflow && t->a.ndim > 0 && index >= -t->a.sizes[0] && index < t->a.sizes[0];
        if (NX_LIKELY(fits))
            return nxpy_call(op_select, (nx_value[]){nx_value_tensor(t), nx_value_int(0), nx_value_int(index)});
    }
    place p;
    if (find_place(self, key, &p) < 0) return NULL;
    int done = 0;
    if (p.n_indices) done = apply(&p, op_index, (nx_value[]){nx_value_tensor(p.tensor), nx_value_list(p.indices, p.n_indices)});
    else if (!p.changed) done = apply(&p, op_alias, (nx_value[]){nx_value_tensor(p.tensor)});
    nx_tensor *result = done < 0 ? NULL : nx_tensor_ref(p.tensor);
    place_end(&p);
    return result ? nxpy_tensor_take(result) : NULL;
}

/* A Python number as a value, a complex one with its parts in `parts`. 0, or -1 with an exception. */
static int number_of(PyObject *value, double parts[2], nx_value *out) {
    if (nxpy_symnumber_value(value, out)) return 0;
    if (PyFloat_Check(value)) *out = nx_value_float(PyFloat_AS_DOUBLE(value));
    else if (PyBool_Check(value)) *out = nx_value_bool(value == Py_True);
    else if (PyLong_Check(value)) *out = nx_value_int(PyLong_AsLongLong(value));
    else if (PyComplex_Check(value)) {
        parts[0] = PyComplex_RealAsDouble(value);
        parts[1] = PyComplex_ImagAsDouble(value);
        *out = nx_value_complex(parts);
    } else if (PyIndex_Check(value) && !PySequence_Check(value)) { /* numpy's integers */
        PyObject *whole = PyNumber_Index(value);
        if (whole == NULL) return -1;
        *out = nx_value_int(PyLong_AsLongLong(whole));
        Py_DECREF(whole);
    } else return PyErr_Format(PyExc_TypeError, "can't assign a %.100s to a tensor", Py_TYPE(value)->tp_name), -1;
    return PyErr_Occurred() ? -1 : 0;
}

/* A tensor to write into one of `ndim` dimensions: leading dimensions of size 1 are dropped where it has too many.
 * A new reference; NULL with an exception. */
static nx_tensor *drop_leading(nx_tensor *from, int ndim) {
    place p = {.tensor = nx_tensor_ref(from)};
    while (p.tensor->a.ndim > ndim && p.tensor->a.sizes[0] == 1) {
        if (nxpy_size_fix(p.tensor, NX_INT_SIZE, 0, 1) == 0 &&
            apply(&p, op_select, (nx_value[]){nx_value_tensor(p.tensor), nx_value_int(0), nx_value_int(0)}) == 0) continue;
        place_end(&p);
        return NULL;
    }
    return p.tensor;
}

/* What expand says of a value that does not fit, whose reference ends here. */
static int refuse(nx_tensor *from, const nx_tensor *to) {
    nx_value out, size = nx_value_ints(to->a.sizes, to->a.ndim), in[3] = {nx_value_tensor(from), size, nx_value_bool(false)};
    nx_status status = nx_op_call(op_expand, in, &out);
    nx_tensor_unref(from);
    if (status == NX_OK) nx_tensor_unref(out.tensor);
    return status == NX_OK ? 0 : (nxpy_raise(status), -1);
}

/* A number is filled in, a tensor is copied. */
static int write_value(nx_tensor *to, PyObject *value) {
    nx_value out, in[3] = {nx_value_tensor(to), NX_VALUE_NONE, nx_value_bool(false)};
    nx_tensor *from = NULL;
    double parts[2];
    if (!nxpy_tensor_check(value)) {
        if (number_of(value, parts, &in[1]) < 0) return -1;
    } else {
        from = drop_leading(nxpy_tensor_get(value), to->a.ndim);
        if (from == NULL) return -1;
        in[1] = nx_value_tensor(from);
        if (!nx_expandable(from->a.sizes, from->a.ndim, to->a.sizes, to->a.ndim)) return refuse(from, to);
    }
    nx_status status = nx_op_call(from ? op_copy : op_fill, in, &out);
    nx_tensor_unref(from);
    if (status != NX_OK) return nxpy_raise(status), -1;
    nx_tensor_unref(out.tensor);
    return 0;
}

/* The same where tensors of indices name the places. */
static int put_value(place *p, PyObject *value) {
    nx_value out, number, list = nx_value_list(p->indices, p->n_indices);
    nx_tensor *to = p->tensor, *from;
    double parts[2];
    if (nxpy_tensor_check(value)) {
        nx_indexed shape = {.ndim = 0}; /* behind masks: all leading dimensions of size 1 go */
        nx_status found = p->masked ? NX_OK : nx_index_shape("index_put_", &to->a, &list, &shape);
        if (found != NX_OK) return nxpy_raise(found), -1;
        from = drop_leading(nxpy_tensor_get(value), shape.ndim);
    } else {
        if (number_of(value, parts, &number) < 0) return -1;
        from = new_filled(number, (nx_dtype)to->a.dtype, to->a.device, NULL);
    }
    if (from == NULL) return -1;
    nx_value in[] = {nx_value_tensor(to), list, nx_value_tensor(from), nx_value_bool(false)};
    nx_status status = nx_op_call(op_index_put, in, &out);
    nx_tensor_unref(from);
    if (status != NX_OK) return nxpy_raise(status), -1;
    nx_tensor_unref(out.tensor);
    return 0;
}

/* x[mask] = number, or a tensor of one element: a new reference in *number. 1, 0: more elements, -1 with an exception. */
static int single_number(PyObject *value, double parts[2], nx_value *number) {
    if (!nxpy_tensor_check(value)) return number_of(value, parts, number) < 0 ? -1 : 1;
    nx_tensor *one = drop_leading(nxpy_tensor_get(value), 0);
    if (one == NULL) return -1;
    if (one->a.ndim > 0) return nx_tensor_unref(one), 0;
    *number = nx_value_tensor(one);
    return 1;
}

/* 1, 0: the value is more than one number, -1. */
static int fill_masked(nx_tensor *t, nx_tensor *mask, PyObject *value) {
    nx_value number = NX_VALUE_NONE, out;
    for (int d = 0; d < mask->a.ndim && d < t->a.ndim; d++)
        if (nxpy_size_fix(mask, NX_INT_SIZE, d, mask->a.sizes[d]) < 0 || nxpy_size_fix(t, NX_INT_SIZE, d, t->a.sizes[d]) < 0) return -1;
    nx_status status = nx_mask_check(&t->a, 0, &mask->a);
    if (status != NX_OK) return nxpy_raise(status), -1;
    double parts[2];
    int done = single_number(value, parts, &number);
    if (done != 1) return done;
    place p = {.tensor = nx_tensor_ref(mask)};
    while (done == 1 && p.tensor->a.ndim < t->a.ndim) {
        if (apply(&p, op_unsqueeze, (nx_value[]){nx_value_tensor(p.tensor), nx_value_int(p.tensor->a.ndim)}) < 0) done = -1;
    }
    if (done == 1) {
        const nx_op *op = op_masked_fill[number.tag == NX_TAG_TENSOR];
        status = nx_op_call(op, (nx_value[]){nx_value_tensor(t), nx_value_tensor(p.tensor), number}, &out);
        if (status == NX_OK) nx_tensor_unref(out.tensor);
        else done = -1, nxpy_raise(status);
    }
    nx_tensor_unref(p.tensor);
    if (number.tag == NX_TAG_TENSOR) nx_tensor_unref(number.tensor);
    return done;
}

int nxpy_tensor_setitem(PyObject *self, PyObject *key, PyObject *value) {
    place p;
    PyObject *answer, *given[] = {key, value};
    if (NXPY_ASKS(self) && value && nxpy_ask_method("__setitem__", self, given, 2, NULL, &answer)) {
        Py_XDECREF(answer);
        return answer ? 0 : -1;
    }
    if (value == NULL) return PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items"), -1;
    nx_tensor *mask = nxpy_tensor_check(key) ? nxpy_tensor_get(key) : NULL;
    if (mask && mask->a.dtype == NX_BOOL) {
        int filled = fill_masked(nxpy_tensor_get(self), mask, value);
        if (filled != 0) return filled < 0 ? -1 : 0;
    }
    if (find_place(self, key, &p) < 0) return -1;
    int done = p.n_indices ? put_value(&p, value) : write_value(p.tensor, value);
    place_end(&p);
    return done;
}
