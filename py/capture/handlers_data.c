/* Handlers of operators and containers.
 *
 * In: a loop at an instruction. Out: as in handlers.c.
 * What must hold: an operator runs only on fakes, on constants and on lists, tuples and dicts, whose slots are CPython's
 * own code; containers that existed before are read, never written (that ends the graph).
 * Next: handlers_call.c. */
#include "capture/handlers.h"

#include <opcode.h>

int nxpy__finish(nxpy_loop *loop, int n, PyObject *result) {
    nxpy_trace *trace = loop->trace;
    if (!result || trace->stop) {
        Py_XDECREF(result);
        return nxpy__stop_error(trace);
    }
    if (nxpy__admit(trace, result) < 0) {
        trace->clean = false; /* what made the result has happened */
        Py_DECREF(result);
        return -1;
    }
    for (int k = 0; k < n; k++) Py_XDECREF(*--loop->top);
    *loop->top++ = result;
    return 0;
}

/* ---- operators ------------------------------------------------------------------------------------------------------ */
static bool is_container(PyObject *o) { return PyList_CheckExact(o) || nxpy__is_tuple(o) || PyDict_CheckExact(o); }

/* A constant, or a size that the trace leaves open. */
static bool is_plain(PyObject *o) { return nxpy_constant_check(o) || nxpy_symint_check(o); }

/* Whether the slots of both operands are code that we know. */
static bool knows_operands(nxpy_trace *trace, PyObject *x, PyObject *y) {
    bool fake_x = nxpy__is_fake(trace, x), fake_y = nxpy__is_fake(trace, y);
    if (fake_x || fake_y) return (fake_x || is_plain(x)) && (fake_y || is_plain(y));
    return (is_plain(x) || is_container(x)) && (is_plain(y) || is_container(y));
}

typedef PyObject *binary_fn(PyObject *x, PyObject *y);
static PyObject *power(PyObject *x, PyObject *y) { return PyNumber_Power(x, y, Py_None); }
static PyObject *power_inplace(PyObject *x, PyObject *y) { return PyNumber_InPlacePower(x, y, Py_None); }
static binary_fn *const binary_fns[] = {
    [NB_ADD] = PyNumber_Add, [NB_AND] = PyNumber_And, [NB_FLOOR_DIVIDE] = PyNumber_FloorDivide, [NB_LSHIFT] = PyNumber_Lshift,
    [NB_MATRIX_MULTIPLY] = PyNumber_MatrixMultiply, [NB_MULTIPLY] = PyNumber_Multiply, [NB_REMAINDER] = PyNumber_Remainder,
    [NB_OR] = PyNumber_Or, [NB_POWER] = power, [NB_RSHIFT] = PyNumber_Rshift, [NB_SUBTRACT] = PyNumber_Subtract,
    [NB_TRUE_DIVIDE] = PyNumber_TrueDivide, [NB_XOR] = PyNumber_Xor, [NB_INPLACE_ADD] = PyNumber_InPlaceAdd,
    [NB_INPLACE_AND] = PyNumber_InPlaceAnd, [NB_INPLACE_FLOOR_DIVIDE] = PyNumber_InPlaceFloorDivide,
    [NB_INPLACE_LSHIFT] = PyNumber_InPlaceLshift, [NB_INPLACE_MATRIX_MULTIPLY] = PyNumber_InPlaceMatrixMultiply,
    [NB_INPLACE_MULTIPLY] = PyNumber_InPlaceMultiply, [NB_INPLACE_REMAINDER] = PyNumber_InPlaceRemainder,
    [NB_INPLACE_OR] = PyNumber_InPlaceOr, [NB_INPLACE_POWER] = power_inplace, [NB_INPLACE_RSHIFT] = PyNumber_InPlaceRshift,
    [NB_INPLACE_SUBTRACT] = PyNumber_InPlaceSubtract, [NB_INPLACE_TRUE_DIVIDE] = PyNumber_InPlaceTrueDivide,
    [NB_INPLACE_XOR] = PyNumber_InPlaceXor};

int op_binary_op(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *x = USE(2), *y = x ? USE(1) : NULL;
    if (!y) return -1;
    if (!knows_operands(trace, x, y)) {
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "%.100s and %.100s", Py_TYPE(x)->tp_name, Py_TYPE(y)->tp_name);
    }
    bool inplace = arg >= NB_INPLACE_ADD;
    if (inplace && (PyList_CheckExact(x) || PyDict_CheckExact(x)) && !nxpy__is_born(trace, x)) {
        return nxpy__stop(trace, NXPY_BREAK_STORE, "%.100s", Py_TYPE(x)->tp_name);
    }
    if (nxpy__note_elements(trace, x) < 0 || nxpy__note_elements(trace, y) < 0) return -1;
    return nxpy__finish(loop, 2, binary_fns[arg](x, y));
}

int op_unary(nxpy_loop *loop, int arg) {
    PyObject *x = USE(1);
    if (!x) return -1;
    if (!nxpy__is_fake(loop->trace, x) && !is_plain(x)) {
        return nxpy__stop(loop->trace, NXPY_BREAK_OPERATOR, "%.200s", Py_TYPE(x)->tp_name);
    }
    int op = loop->in.op;
    unaryfunc fn = op == UNARY_NEGATIVE ? PyNumber_Negative : op == UNARY_INVERT ? PyNumber_Invert : PyNumber_Positive;
    return nxpy__finish(loop, 1, fn(x));
}

int op_unary_not(nxpy_loop *loop, int arg) {
    PyObject *x = USE(1);
    int truth = x ? nxpy__truth(loop->trace, x) : -1;
    if (truth < 0) return -1;
    return nxpy__finish(loop, 1, PyBool_FromLong(!truth));
}

int op_compare_op(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *x = USE(2), *y = x ? USE(1) : NULL;
    if (!y) return -1;
    bool fixed = PyType_Check(x) && PyType_Check(y) && Py_TYPE(x)->tp_richcompare == PyType_Type.tp_richcompare;
    if (!fixed && (!knows_operands(trace, x, y) || is_container(x) || is_container(y))) {
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "%.100s and %.100s", Py_TYPE(x)->tp_name, Py_TYPE(y)->tp_name);
    }
    return nxpy__finish(loop, 2, PyObject_RichCompare(x, y, arg));
}

int op_is_op(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *x = USE(2), *y = x ? USE(1) : NULL;
    if (!y) return -1;
    /* lists and such that existed before are not guarded by identity, unless the answer is seen from the kind */
    bool told = x == Py_None || y == Py_None || PyBool_Check(x) || PyBool_Check(y) || nxpy__is_born(trace, x) || nxpy__is_born(trace, y);
    if (!told && is_container(x) && is_container(y)) return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "identity of lists, tuples or dicts");
    for (int k = 0; !told && k < 2; k++) { /* instances are guarded by their class alone so far */
        PyObject *o = k ? y : x;
        const nxpy_note *note = nxpy__note_find(trace, o);
        if (note && note->kind == NXPY_NOTE_SOURCE && !note->fake && nxpy__check(trace, NXPY_ROW_ID, note->slot, o, 0) < 0) return -1;
    }
    PyObject *result = (x == y) != (arg == 1) ? Py_True : Py_False;
    Py_INCREF(result);
    return nxpy__finish(loop, 2, result);
}

int op_contains_op(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *x = USE(2), *in = x ? USE(1) : NULL;
    if (!in) return -1;
    if (!nxpy_constant_check(x) || !(is_container(in) || nxpy_constant_check(in))) {
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "%.100s in %.100s", Py_TYPE(x)->tp_name, Py_TYPE(in)->tp_name);
    }
    if (PyDict_CheckExact(in) && !nxpy__is_born(trace, in) && PyUnicode_CheckExact(x)) { /* only this key matters */
        int slot = nxpy__slot_of(trace, in);
        if (slot < 0 || nxpy__fetch(trace, NXPY_ROW_KEY, slot, x, NULL, 0, PyDict_GetItemWithError(in, x)) < 0) return -1;
    } else if (nxpy__note_elements(trace, in) < 0) {
        return -1;
    }
    if (!PyDict_CheckExact(in) && is_container(in) && !nxpy_constant_check(in)) { /* elements of other kinds have their own __eq__ */
        for (Py_ssize_t k = 0; k < Py_SIZE(in); k++) {
            if (nxpy_constant_check(PySequence_Fast_GET_ITEM(in, k))) continue;
            return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "in a list of other objects");
        }
    }
    int found = PySequence_Contains(in, x);
    if (found < 0) return nxpy__stop_error(trace);
    return nxpy__finish(loop, 2, PyBool_FromLong(found != arg));
}

/* An index that a captured tensor may be asked with: constants, slices of constants, captured tensors, tuples of them. */
static bool is_index(nxpy_trace *trace, PyObject *key) {
    if (nxpy_constant_check(key) || nxpy__is_fake(trace, key)) return true;
    if (PySlice_Check(key)) {
        const PySliceObject *slice = (PySliceObject *)key;
        return is_plain(slice->start) && is_plain(slice->stop) && is_plain(slice->step);
    }
    if (!PyTuple_CheckExact(key)) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(key); k++) {
        if (!is_index(trace, PyTuple_GET_ITEM(key, k))) return false;
    }
    return true;
}

int op_binary_subscr(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *of = USE(2), *key = of ? USE(1) : NULL;
    if (!key) return -1;
    bool plain_key = nxpy_constant_check(key) || PySlice_Check(key);
    if (nxpy_constant_check(of) && plain_key) return nxpy__finish(loop, 2, PyObject_GetItem(of, key));
    if (nxpy__is_fake(trace, of)) {
        if (!is_index(trace, key)) return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "an index that is no constant");
        return nxpy__finish(loop, 2, PyObject_GetItem(of, key));
    }
    if (!is_container(of) && plain_key && !nxpy__is_born(trace, of)) {
        int python = nxpy__python_special(trace, of, "__getitem__");
        if (python < 0) return -1;
        if (python == 1) return nxpy__finish(loop, 2, PyObject_GetItem(of, key));
    }
    if (!is_container(of) || !plain_key) {
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "%.100s[%.100s]", Py_TYPE(of)->tp_name, Py_TYPE(key)->tp_name);
    }
    if (PyDict_CheckExact(of) && !nxpy__is_born(trace, of)) {
        PyObject *value = PyDict_GetItemWithError(of, key);
        int slot = value ? nxpy__slot_of(trace, of) : nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "no such key");
        if (slot < 0 || nxpy__fetch(trace, NXPY_ROW_KEY, slot, key, NULL, 0, value) < 0) return -1;
    } else if (PyLong_CheckExact(key) && !nxpy__is_born(trace, of)) { /* only this element matters */
        Py_ssize_t at = PyLong_AsSsize_t(key);
        at = at < 0 ? at + Py_SIZE(of) : at;
        if (at < 0 || at >= Py_SIZE(of)) return nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "index out of range");
        int slot = nxpy__slot_of(trace, of);
        if (slot < 0 || nxpy__fetch(trace, NXPY_ROW_ITEM, slot, NULL, NULL, at, PySequence_Fast_GET_ITEM(of, at)) < 0) return -1;
    } else if (nxpy__note_elements(trace, of) < 0) {
        return -1;
    }
    return nxpy__finish(loop, 2, PyObject_GetItem(of, key));
}

int op_store_subscr(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *of = USE(2), *key = of ? USE(1) : NULL;
    if (!key) return -1;
    PyObject *value = USE(3);
    if (!value) return -1;
    if (nxpy__is_fake(trace, of) && is_index(trace, key) && (nxpy__is_fake(trace, value) || nxpy_constant_check(value))) {
        if (PyObject_SetItem(of, key, loop->top[-3]) < 0) return nxpy__stop_error(trace);
        for (int k = 0; k < 3; k++) Py_DECREF(*--loop->top);
        return 0;
    }
    if (!nxpy__is_born(trace, of) || !(PyList_CheckExact(of) || PyDict_CheckExact(of)) || !nxpy_constant_check(key)) {
        return nxpy__stop(trace, NXPY_BREAK_STORE, "%.200s", Py_TYPE(of)->tp_name);
    }
    if (PyObject_SetItem(of, key, loop->top[-3]) < 0) return nxpy__stop_error(trace);
    for (int k = 0; k < 3; k++) Py_DECREF(*--loop->top);
    return 0;
}

/* ---- building -------------------------------------------------------------------------------------------------------- */
/* Something new of the top n values: noted as born. */
static int finish_born(nxpy_loop *loop, int n, PyObject *result) {
    if (!result) return nxpy__stop_error(loop->trace);
    if (!nxpy__note_find(loop->trace, result) && !(PyTuple_CheckExact(result) && !Py_SIZE(result)) &&
        !nxpy__note_add(loop->trace, result, NXPY_NOTE_BORN, -1)) {
        Py_DECREF(result);
        return -1;
    }
    for (int k = 0; k < n; k++) Py_XDECREF(*--loop->top);
    *loop->top++ = result;
    return 0;
}

int op_build_tuple(nxpy_loop *loop, int arg) {
    PyObject *tuple = PyTuple_New(arg);
    for (int k = 0; tuple && k < arg; k++) {
        PyObject *value = loop->top[k - arg];
        Py_INCREF(value);
        PyTuple_SET_ITEM(tuple, k, value);
    }
    return finish_born(loop, arg, tuple);
}

int op_build_list(nxpy_loop *loop, int arg) {
    PyObject *list = PyList_New(arg);
    for (int k = 0; list && k < arg; k++) {
        PyObject *value = loop->top[k - arg];
        Py_INCREF(value);
        PyList_SET_ITEM(list, k, value);
    }
    return finish_born(loop, arg, list);
}

int op_build_map(nxpy_loop *loop, int arg) {
    for (int k = 0; k < arg; k++) {
        PyObject *key = USE(2 * (arg - k));
        if (!key) return -1;
        if (!nxpy_constant_check(key)) return nxpy__stop(loop->trace, NXPY_BREAK_OPERATOR, "a dict key that is no constant");
    }
    PyObject *dict = PyDict_New();
    for (int k = 0; dict && k < arg; k++) {
        if (PyDict_SetItem(dict, loop->top[2 * (k - arg)], loop->top[2 * (k - arg) + 1]) < 0) Py_CLEAR(dict);
    }
    return finish_born(loop, 2 * arg, dict);
}

int op_build_const_key_map(nxpy_loop *loop, int arg) {
    PyObject *keys = loop->top[-1], *dict = PyDict_New();
    for (int k = 0; dict && k < arg; k++) {
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(keys, k), loop->top[k - arg - 1]) < 0) Py_CLEAR(dict);
    }
    return finish_born(loop, arg + 1, dict);
}

int op_build_slice(nxpy_loop *loop, int arg) {
    for (int k = arg; k > 0; k--) {
        PyObject *part = USE(k);
        if (!part) return -1;
        if (!is_plain(part)) return nxpy__stop(loop->trace, NXPY_BREAK_OPERATOR, "a slice of %.200s", Py_TYPE(part)->tp_name);
    }
    return finish_born(loop, arg, PySlice_New(loop->top[-arg], loop->top[1 - arg], arg == 3 ? loop->top[-1] : NULL));
}

/* ---- changing what was born ----------------------------------------------------------------------------------------------- */
int op_list_append(nxpy_loop *loop, int arg) {
    PyObject *list = loop->top[-1 - arg];
    if (!nxpy__is_born(loop->trace, list)) return nxpy__stop(loop->trace, NXPY_BREAK_STORE, "a list");
    if (PyList_Append(list, loop->top[-1]) < 0) return nxpy__stop_error(loop->trace);
    Py_DECREF(*--loop->top);
    return 0;
}

int op_map_add(nxpy_loop *loop, int arg) {
    PyObject *dict = loop->top[-2 - arg], *key = USE(2);
    if (!key) return -1;
    if (!nxpy__is_born(loop->trace, dict)) return nxpy__stop(loop->trace, NXPY_BREAK_STORE, "a dict");
    if (!nxpy_constant_check(key)) return nxpy__stop(loop->trace, NXPY_BREAK_OPERATOR, "a dict key that is no constant");
    if (PyDict_SetItem(dict, key, loop->top[-1]) < 0) return nxpy__stop_error(loop->trace);
    for (int k = 0; k < 2; k++) Py_DECREF(*--loop->top);
    return 0;
}

int op_list_extend(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *list = loop->top[-1 - arg], *from = USE(1);
    if (!from) return -1;
    if (!nxpy__is_born(trace, list)) return nxpy__stop(trace, NXPY_BREAK_STORE, "a list");
    if (!PyList_CheckExact(from) && !nxpy__is_tuple(from)) {
        return nxpy__stop(trace, NXPY_BREAK_ITERATOR, "%.200s", Py_TYPE(from)->tp_name);
    }
    if (nxpy__note_elements(trace, from) < 0) return -1;
    if (PyList_SetSlice(list, PyList_GET_SIZE(list), PyList_GET_SIZE(list), from) < 0) return nxpy__stop_error(trace);
    Py_DECREF(*--loop->top);
    return 0;
}

int op_list_to_tuple(nxpy_loop *loop, int arg) { return finish_born(loop, 1, PyList_AsTuple(loop->top[-1])); }

int op_dict_merge(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *dict = loop->top[-1 - arg], *from = USE(1);
    if (!from) return -1;
    if (!nxpy__is_born(trace, dict)) return nxpy__stop(trace, NXPY_BREAK_STORE, "a dict");
    if (!PyDict_CheckExact(from)) return nxpy__stop(trace, NXPY_BREAK_ITERATOR, "%.200s", Py_TYPE(from)->tp_name);
    if (nxpy__note_elements(trace, from) < 0) return -1;
    if (loop->in.op == DICT_MERGE ? _PyDict_MergeEx(dict, from, 2) < 0 : PyDict_Update(dict, from) < 0) return nxpy__stop_error(trace);
    Py_DECREF(*--loop->top);
    return 0;
}
