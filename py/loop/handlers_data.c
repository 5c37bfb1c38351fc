/* Handlers of operators and containers.
 *
 * In: a loop at an instruction. Out: as in handlers.c.
 * What must hold: an operator runs only on fakes, on constants and on lists, tuples and dicts, whose slots are CPython's
 * own code; containers that existed before are read, never written (that ends the graph).
 * Next: calls.c. */
#include "loop/private.h"

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
    nxpy__drop(loop, n);
    nxpy__push(loop, result);
    return 0;
}

/* ---- operators ------------------------------------------------------------------------------------------------------ */
/* A container in C that the trace made, with methods in C: OrderedDict, defaultdict, deque. */
static bool is_own(nxpy_trace *trace, PyObject *o) {
    nxpy_kind_code kind = nxpy__kind(o)->code;
    bool like = kind == NXPY_KIND_DICTLIKE || kind == NXPY_KIND_LISTLIKE;
    return (like || kind == NXPY_KIND_ORDERED || kind == NXPY_KIND_DEFAULTS || kind == NXPY_KIND_DEQUE) && nxpy__is_born(trace, o);
}

/* A dict, which is read by key. */
static bool is_keyed(PyObject *o) { return nxpy__is_dict(o) || nxpy__is_a(o, NXPY_KIND_DEFAULTS); }

/* A constant, or a size that the trace leaves open. */
static bool is_plain(PyObject *o) { return nxpy_constant_check(o) || nxpy_symnumber_check(o); }

/* Whether the operators of o are code that we know. */
static bool knows_operand(nxpy_trace *trace, PyObject *o) {
    int operators = nxpy__kind(o)->operators;
    bool own = operators == NXPY_BY_OWN || (operators == NXPY_BY_BORN && nxpy__is_born(trace, o));
    if (own || Py_TYPE(o) == &PyType_Type || nxpy__is_fake(trace, o)) return true; /* int | float */
    const PyNumberMethods *numbers = Py_TYPE(o)->tp_as_number;
    bool number = nxpy__is_enum(o) && PyLong_Check(o) && numbers && numbers->nb_add == PyLong_Type.tp_as_number->nb_add;
    if (number) return nxpy__use_as_key(trace, o) == 0;
    return is_plain(o);
}

/* An instance whose methods of these names are Python code, which is inlined, or not there; all guarded. 1, 0, -1. */
static int has_python_methods(nxpy_trace *trace, PyObject *o, const char *const *names, int n) {
    if (!nxpy__is_instance(o)) return 0;
    for (int k = 0; k < n; k++) {
        PyObject *found;
        if (nxpy__type_value(trace, Py_TYPE(o), names[k], &found) < 0) return -1;
        if (found && !PyFunction_Check(found)) return 0;
    }
    return 1;
}

/* A tensor's class has the operators that it has now: methods of C, or Python's, which are inlined. 0 or -1. */
static int note_operators(nxpy_trace *trace, PyObject *tensor, const char *const *names, int n) {
    for (int k = 0; k < n; k++) {
        if (nxpy__note_operator(trace, Py_TYPE(tensor), names[k]) < 0) return -1;
    }
    return 0;
}

/* 0: the operator may run; -1: stopped. */
static int check_operands(nxpy_trace *trace, PyObject *x, PyObject *y, const char *const *names, int n) {
    PyObject *const both[] = {x, y};
    for (int k = 0; k < 2; k++) {
        if (nxpy__is_fake(trace, both[k]) && note_operators(trace, both[k], names, n) < 0) return -1;
        if (knows_operand(trace, both[k])) continue;
        int python = has_python_methods(trace, both[k], names, n);
        if (python < 0) return -1;
        if (python) continue;
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "%.100s and %.100s", Py_TYPE(x)->tp_name, Py_TYPE(y)->tp_name);
    }
    return 0;
}

/* Names of the methods behind each operator: its own, reflected, in place. */
#define METHODS(name) {"__" name "__", "__r" name "__", "__i" name "__"}
static const char *const methods[][3] = {
    [NXPY_BINARY_ADD] = METHODS("add"), [NXPY_BINARY_AND] = METHODS("and"),
    [NXPY_BINARY_FLOOR_DIVIDE] = METHODS("floordiv"), [NXPY_BINARY_LSHIFT] = METHODS("lshift"),
    [NXPY_BINARY_MATRIX_MULTIPLY] = METHODS("matmul"), [NXPY_BINARY_MULTIPLY] = METHODS("mul"),
    [NXPY_BINARY_REMAINDER] = METHODS("mod"), [NXPY_BINARY_OR] = METHODS("or"), [NXPY_BINARY_POWER] = METHODS("pow"),
    [NXPY_BINARY_RSHIFT] = METHODS("rshift"), [NXPY_BINARY_SUBTRACT] = METHODS("sub"),
    [NXPY_BINARY_TRUE_DIVIDE] = METHODS("truediv"), [NXPY_BINARY_XOR] = METHODS("xor")};

static PyObject *power(PyObject *x, PyObject *y) { return PyNumber_Power(x, y, Py_None); }
static PyObject *power_inplace(PyObject *x, PyObject *y) { return PyNumber_InPlacePower(x, y, Py_None); }
nxpy_binary_fn *const nxpy__binary_fns[] = {
    [NXPY_BINARY_ADD] = PyNumber_Add, [NXPY_BINARY_AND] = PyNumber_And,
    [NXPY_BINARY_FLOOR_DIVIDE] = PyNumber_FloorDivide, [NXPY_BINARY_LSHIFT] = PyNumber_Lshift,
    [NXPY_BINARY_MATRIX_MULTIPLY] = PyNumber_MatrixMultiply, [NXPY_BINARY_MULTIPLY] = PyNumber_Multiply,
    [NXPY_BINARY_REMAINDER] = PyNumber_Remainder, [NXPY_BINARY_OR] = PyNumber_Or, [NXPY_BINARY_POWER] = power,
    [NXPY_BINARY_RSHIFT] = PyNumber_Rshift, [NXPY_BINARY_SUBTRACT] = PyNumber_Subtract,
    [NXPY_BINARY_TRUE_DIVIDE] = PyNumber_TrueDivide, [NXPY_BINARY_XOR] = PyNumber_Xor,
    [NXPY_BINARY_INPLACE_ADD] = PyNumber_InPlaceAdd, [NXPY_BINARY_INPLACE_AND] = PyNumber_InPlaceAnd,
    [NXPY_BINARY_INPLACE_FLOOR_DIVIDE] = PyNumber_InPlaceFloorDivide,
    [NXPY_BINARY_INPLACE_LSHIFT] = PyNumber_InPlaceLshift,
    [NXPY_BINARY_INPLACE_MATRIX_MULTIPLY] = PyNumber_InPlaceMatrixMultiply,
    [NXPY_BINARY_INPLACE_MULTIPLY] = PyNumber_InPlaceMultiply,
    [NXPY_BINARY_INPLACE_REMAINDER] = PyNumber_InPlaceRemainder, [NXPY_BINARY_INPLACE_OR] = PyNumber_InPlaceOr,
    [NXPY_BINARY_INPLACE_POWER] = power_inplace, [NXPY_BINARY_INPLACE_RSHIFT] = PyNumber_InPlaceRshift,
    [NXPY_BINARY_INPLACE_SUBTRACT] = PyNumber_InPlaceSubtract,
    [NXPY_BINARY_INPLACE_TRUE_DIVIDE] = PyNumber_InPlaceTrueDivide, [NXPY_BINARY_INPLACE_XOR] = PyNumber_InPlaceXor};

/* How module operator names them. */
static const char *const operator_names[] = {
    [NXPY_BINARY_ADD] = "operator.add", [NXPY_BINARY_AND] = "operator.and_", [NXPY_BINARY_FLOOR_DIVIDE] = "operator.floordiv",
    [NXPY_BINARY_LSHIFT] = "operator.lshift", [NXPY_BINARY_MATRIX_MULTIPLY] = "operator.matmul",
    [NXPY_BINARY_MULTIPLY] = "operator.mul", [NXPY_BINARY_REMAINDER] = "operator.mod", [NXPY_BINARY_OR] = "operator.or_",
    [NXPY_BINARY_POWER] = "operator.pow", [NXPY_BINARY_RSHIFT] = "operator.rshift", [NXPY_BINARY_SUBTRACT] = "operator.sub",
    [NXPY_BINARY_TRUE_DIVIDE] = "operator.truediv", [NXPY_BINARY_XOR] = "operator.xor"};

int op_binary_op(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *x = USE(2), *y = x ? USE(1) : NULL;
    bool refuses = y && nxpy__shown(y) && nxpy_tensor_check(x) && nx_tensor_requires_grad(nxpy_tensor_get(x)); /* as eager mode does */
    if (y && !refuses && nxpy_tensor_check(x) && nxpy__array_input(trace, y, &y) < 0) return -1;
    bool array = y && (nxpy__is_a(x, NXPY_KIND_ARRAY) || nxpy__is_a(y, NXPY_KIND_ARRAY)) && arg < NXPY_BINARY_INPLACE_ADD;
    if (array && !nxpy_tensor_check(x) && !nxpy_tensor_check(y)) {
        return nxpy__finish(loop, 2, nxpy__array_operator(loop, methods[arg][0], x, y));
    }
    if (!y || check_operands(trace, x, y, methods[arg % NXPY_BINARY_INPLACE_ADD], 3) < 0) return -1;
    bool text = PyUnicode_CheckExact(x) && arg % NXPY_BINARY_INPLACE_ADD == NXPY_BINARY_REMAINDER; /* "%s" % y */
    if (text && nxpy__is_printable(trace, y) < 0) return -1;
    if (nxpy__note_elements(trace, y) < 0) return -1;
    bool changes = arg >= NXPY_BINARY_INPLACE_ADD && (PyList_Check(x) || PyDict_Check(x) || PySet_Check(x));
    if (changes && nxpy__before_change(trace, x, arg == NXPY_BINARY_INPLACE_ADD) < 0) return -1;
    if (!changes && nxpy__note_elements(trace, x) < 0) return -1;
    PyObject *const both[] = {x, y};
    bool turned = is_plain(x) && nxpy__is_fake(trace, y) && arg < NXPY_BINARY_INPLACE_ADD;
    int spelling = turned ? nxpy__spell_operator(trace, operator_names[arg], both, 2) : 0;
    return nxpy__finish(loop, 2, nxpy__spell_end(trace, spelling, nxpy__binary_fns[arg](x, y)));
}

int op_unary(nxpy_loop *loop, int arg) {
    PyObject *x = USE(1);
    if (!x) return -1;
    static const char *const names[] = {"__neg__", "__invert__", "__pos__"};
    if (check_operands(loop->trace, x, Py_None, names, 3) < 0) return -1;
    static const unaryfunc fns[] = {[NXPY_MINUS] = PyNumber_Negative, [NXPY_INVERT] = PyNumber_Invert, [NXPY_PLUS] = PyNumber_Positive};
    return nxpy__finish(loop, 1, fns[loop->in.flag](x));
}

int op_unary_not(nxpy_loop *loop, int arg) {
    PyObject *x = USE(1);
    int truth = x ? nxpy__truth(loop->trace, x) : -1;
    if (truth < 0) return -1;
    return nxpy__finish(loop, 1, PyBool_FromLong(!truth));
}

/* Whether comparing o runs only code that is known: 1, 0, -1. Identity decides for classes, functions and plain instances. */
static int is_comparable(nxpy_trace *trace, PyObject *o, int depth) {
    static const char *const names[] = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"};
    if (is_plain(o) || nxpy__is_a(o, NXPY_KIND_VALUELIKE)) return 1;
    if (nxpy__is_fake(trace, o)) return note_operators(trace, o, names, NX_COUNT(names)) < 0 ? -1 : 1;
    if (nxpy_tensor_check(o) || depth > 8) return 0;
    if (PyType_Check(o)) return Py_TYPE(o)->tp_richcompare == PyType_Type.tp_richcompare;
    bool like = nxpy__is_container(o) && nxpy__may_change(Py_TYPE(o));
    int python = like ? nxpy__python_special(trace, o, "__eq__") : 0;
    if (python) return python;
    if (nxpy__is_container(o)) {
        if (nxpy__note_elements(trace, o) < 0) return -1;
        PyObject *parts = nxpy__is_dict(o) ? PyDict_Values(o) : PySequence_List(o);
        int done = parts ? 1 : nxpy__stop_error(trace);
        for (Py_ssize_t k = 0; done == 1 && k < PyList_GET_SIZE(parts); k++) {
            done = nxpy__use(trace, PyList_GET_ITEM(parts, k)) ? is_comparable(trace, PyList_GET_ITEM(parts, k), depth + 1) : -1;
        }
        Py_XDECREF(parts);
        return done;
    }
    const nxpy_note *note = nxpy__note_find(trace, o);
    bool plain = Py_TYPE(o)->tp_richcompare == PyBaseObject_Type.tp_richcompare || !Py_TYPE(o)->tp_richcompare || nxpy__is_enum(o);
    if (plain && note && note->kind == NXPY_NOTE_SOURCE) return nxpy__check(trace, NXPY_ROW_ID, note->slot, o, 0) < 0 ? -1 : 1;
    if (plain && nxpy__is_instance(o)) return 1;
    if (PyMethod_Check(o) && note && note->by_parts && nxpy__check(trace, NXPY_ROW_ID, note->slot, o, 0) < 0) return -1;
    bool method = PyFunction_Check(o) || PyMethod_Check(o) || nxpy_function_check(o) || PyRange_Check(o);
    for (int k = 0; nxpy__is_instance(o) && k < NX_COUNT(names); k++) { /* object's own for those that it lacks */
        PyObject *found;
        if (nxpy__type_value(trace, Py_TYPE(o), names[k], &found) < 0) return -1;
        if (found && !PyFunction_Check(found) && Py_TYPE(found) != &PyWrapperDescr_Type) return 0;
        method |= found && PyFunction_Check(found);
    }
    return method;
}

int op_compare_op(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *x = USE(2), *y = x ? USE(1) : NULL;
    if (!y) return -1;
    int known = is_comparable(trace, x, 0);
    if (known == 1) known = is_comparable(trace, y, 0);
    if (known < 0) return -1;
    if (!known) return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "%.100s and %.100s", Py_TYPE(x)->tp_name, Py_TYPE(y)->tp_name);
    PyObject *result = PyObject_RichCompare(x, y, arg);
    bool as_bool = result && loop->in.flag && !trace->stop;
    if (as_bool) { /* what stands between is seen by nobody else, and has its place in the table for the code behind its truth */
        int truth = nxpy__admit(trace, result) < 0 ? -1 : nxpy__truth(trace, result);
        if (truth < 0) return Py_DECREF(result), -1;
        Py_SETREF(result, PyBool_FromLong(truth));
    }
    return nxpy__finish(loop, 2, result);
}

/* Wherever this constant was fetched, it is the very object: one value may be several objects. 0 or -1. */
static int note_very(nxpy_trace *trace, PyObject *constant) {
    for (int k = 0; k < trace->segment->guards.rows.n; k++) {
        const nxpy_row *row = &trace->segment->guards.rows.at[k];
        bool same = row->code == NXPY_ROW_EQUALS && row->a == constant;
        if (same && nxpy__check(trace, NXPY_ROW_ID, row->from, constant, 0) < 0) return -1;
    }
    return 0;
}

/* Of which there is only one. */
static bool is_single(PyObject *o) {
    return o == Py_None || PyBool_Check(o) || o == Py_Ellipsis || o == Py_NotImplemented || nxpy_dtype_check(o);
}

int nxpy__is(nxpy_trace *trace, PyObject *x, PyObject *y) {
    /* lists and such that existed before are not guarded by identity, unless the answer is seen from the kind */
    bool told = is_single(x) || is_single(y) || nxpy__is_born(trace, x) || nxpy__is_born(trace, y);
    if (!told && nxpy__is_container(x) && nxpy__is_container(y) && !nxpy_constant_check(x) && !nxpy_constant_check(y)) {
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "identity of lists, tuples or dicts");
    }
    if (!is_single(x) && !is_single(y) && (nxpy_symnumber_check(x) || nxpy_symnumber_check(y))) {
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "identity of a size");
    }
    if (!told && nxpy_constant_equal(x, y) && (note_very(trace, x) < 0 || note_very(trace, y) < 0)) return -1;
    for (int k = 0; !told && k < 2; k++) { /* instances are guarded by their class alone so far */
        PyObject *o = k ? y : x;
        const nxpy_note *note = nxpy__note_find(trace, o);
        if (note && note->kind == NXPY_NOTE_SOURCE && !note->fake && nxpy__check(trace, NXPY_ROW_ID, note->slot, o, 0) < 0) return -1;
    }
    return x == y;
}

int op_is_op(nxpy_loop *loop, int arg) {
    PyObject *x = USE(2), *y = x ? USE(1) : NULL;
    int same = y ? nxpy__is(loop->trace, x, y) : -1;
    return same < 0 ? -1 : nxpy__finish(loop, 2, PyBool_FromLong(same != arg));
}

/* A tensor is a key by its identity: the very tensor that the caller has, or the one that the trace makes. Lent; NULL: there is
 * none, or stopped. */
static PyObject *real_key(nxpy_trace *trace, PyObject *key) {
    PyObject *use = nxpy__use(trace, key);
    const nxpy_note *note = use ? nxpy__note_find(trace, use) : NULL;
    if (use && nxpy__is_made(use)) return use;
    if (note && note->is_input && nxpy__check(trace, NXPY_ROW_ID, note->slot, note->real, 0) == 0) return note->real;
    if (!trace->stop) nxpy__stop(trace, NXPY_BREAK_OPERATOR, "a key that is a tensor of the graph");
    return NULL;
}

/* A key of something that is no tensor: a size that the trace left open is fixed. Lent; NULL: stopped. */
static PyObject *use_key(nxpy_loop *loop, int k) {
    PyObject *key = nxpy_tensor_check(nxpy__at(loop, k)) ? real_key(loop->trace, nxpy__at(loop, k)) : USE(k);
    if (key && nxpy__use_as_key(loop->trace, key) < 0) return NULL;
    if (!key || !nxpy_symnumber_check(key)) return key;
    PyObject *number = nxpy_symnumber_fix(key);
    if (!number) return nxpy__stop_error(loop->trace), NULL;
    nxpy__put(loop, k, number);
    return number;
}

/* Of a sequence or in a slice: in a tensor's place its one element. */
static PyObject *use_index(nxpy_loop *loop, int k) {
    PyObject *index = USE(k);
    if (!index || !nxpy__is_fake(loop->trace, index)) return index;
    int python = nxpy__python_special(loop->trace, index, "__index__");
    PyObject *number = python >= 0 ? PyNumber_Index(index) : NULL;
    if (number) nxpy__put(loop, k, number);
    else if (!loop->trace->stop) nxpy__stop_error(loop->trace);
    return number;
}

int op_contains_op(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *in = USE(1), *x, *value;
    if (in) in = nxpy__behind(trace, in);
    x = !in ? NULL : is_keyed(in) || PyAnySet_CheckExact(in) ? use_key(loop, 2) : USE(2);
    if (!x) return -1;
    int found;
    if (is_keyed(in) && nxpy__is_key(x)) { /* only this key matters */
        if (nxpy__dict_value(trace, in, x, &value) < 0) return -1;
        return nxpy__finish(loop, 2, PyBool_FromLong((value != NULL) != arg));
    }
    bool keyed = (PyAnySet_CheckExact(in) || nxpy__is_a(in, NXPY_KIND_VIEW)) && nxpy__is_key(x);
    bool text = nxpy_constant_check(in) || PyRange_Check(in) || nxpy__is_fixed_view(trace, in);
    int known = keyed || (text && nxpy_constant_check(x)) ? 1 : 0;
    if (!known && (nxpy__is_sequence(in))) {
        known = is_comparable(trace, x, 0);
        if (known == 1) known = is_comparable(trace, in, 0);
    }
    if (!known && nxpy__is_instance(in)) {
        static const char *const names[] = {"__contains__"};
        known = has_python_methods(trace, in, names, 1);
        if (known == 1 && nxpy__type_value(trace, Py_TYPE(in), names[0], &value) == 0 && !value) known = 0;
    }
    if (known < 0) return -1;
    if (!known) return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "%.100s in %.100s", Py_TYPE(x)->tp_name, Py_TYPE(in)->tp_name);
    if (nxpy__note_elements(trace, in) < 0) return -1;
    found = PySequence_Contains(in, x);
    if (found < 0 || trace->stop) return nxpy__stop_error(trace);
    return nxpy__finish(loop, 2, PyBool_FromLong(found != arg));
}

/* An index that a captured tensor may be asked with: constants, slices of constants, tensors, lists and tuples of them; real
 * tensors become their fakes. New reference; NULL: stopped. */
PyObject *nxpy__index(nxpy_trace *trace, PyObject *key) {
    if (nxpy_tensor_check(key)) return Py_XNewRef(nxpy__use(trace, key));
    if (is_plain(key)) return Py_NewRef(key);
    PyObject *input = NULL;
    int before = nxpy__array_input(trace, key, &input);
    if (before) return before < 0 ? NULL : Py_NewRef(input);
    const PySliceObject *slice = (PySliceObject *)key;
    if (PySlice_Check(key) && is_plain(slice->start) && is_plain(slice->stop) && is_plain(slice->step)) {
        return Py_NewRef(key);
    }
    if (!PyTuple_CheckExact(key) && !PyList_CheckExact(key)) {
        nxpy__stop(trace, NXPY_BREAK_OPERATOR, "an index of type %.200s", Py_TYPE(key)->tp_name);
        return NULL;
    }
    if (nxpy__note_elements(trace, key) < 0) return NULL;
    PyObject *list = PySequence_List(key), *result = NULL;
    for (Py_ssize_t k = 0; list && k < PyList_GET_SIZE(list); k++) {
        PyObject *part = nxpy__index(trace, PyList_GET_ITEM(list, k));
        if (part) PyList_SetItem(list, k, part);
        else Py_CLEAR(list);
    }
    if (list) result = PyList_CheckExact(key) ? Py_NewRef(list) : PyList_AsTuple(list);
    Py_XDECREF(list);
    return result;
}

/* One element of a list or tuple, guarded alone if it existed before. Lent in *out: NULL where the lookup itself tells. 0 or -1. */
static int note_item(nxpy_trace *trace, PyObject *of, PyObject *key, PyObject **out) {
    Py_ssize_t at = PyLong_AsSsize_t(key);
    bool plain = at >= 0 && at < Py_SIZE(of) && !nxpy__was_written(trace, of, NULL);
    const nxpy_note *note = nxpy__note_find(trace, of);
    PyErr_Clear(); /* a huge one: the lookup itself will say so */
    if (!plain || !note || note->kind == NXPY_NOTE_BORN || note->elements) return nxpy__note_elements(trace, of);
    int slot = nxpy__slot_of(trace, of);
    *out = PySequence_Fast_GET_ITEM(of, at);
    return slot < 0 ? -1 : nxpy__fetch_number(trace, NXPY_ROW_ITEM, slot, NULL, NULL, at, out);
}

/* A defaultdict that existed before gets a value: a new one of a type that makes empty ones. */
static PyObject *make_default(nxpy_trace *trace, PyObject *of, PyObject *key) {
    PyObject *factory, *made;
    int slot = nxpy__slot_of(trace, of);
    if (slot < 0 || nxpy__note_member(trace, of, slot, "default_factory", true, &factory) < 0) return NULL;
    if (factory != (PyObject *)&PyDict_Type && factory != (PyObject *)&PyList_Type && factory != (PyObject *)&PySet_Type) {
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "a defaultdict that makes %.100s", factory ? "values of its own" : "none"), NULL;
    }
    if (!(made = PyObject_CallNoArgs(factory))) return NULL;
    if (nxpy__born(trace, made) < 0 || nxpy__write_item(trace, of, key, made) < 0) Py_CLEAR(made);
    return made;
}

/* Class[key], by a __class_getitem__ of Python that the class has. 1: it has none. */
static int subscript_of_class(nxpy_loop *loop, PyObject *class, PyObject *key) {
    nxpy_trace *trace = loop->trace;
    PyObject *found, *bound, *args[] = {key}, *name = nxpy__name("__class_getitem__");
    if (!name || nxpy_type_lookup(Py_TYPE(class), nxpy__name("__getitem__"))) return 1;
    if (nxpy__type_value(trace, (PyTypeObject *)class, "__class_getitem__", &found) < 0) return -1;
    PyObject *inner = found && Py_TYPE(found) == &PyClassMethod_Type ? PyObject_GetAttrString(found, "__func__") : NULL;
    bool python = inner && PyFunction_Check(inner);
    Py_XDECREF(inner); /* found has it */
    if (!python) return 1;
    if (nxpy__attribute(trace, class, name, false, &bound) < 0) return -1;
    Py_INCREF(key);
    PyObject *result = nxpy__call(loop, bound, args, 1, NULL);
    Py_DECREF(args[0]);
    Py_DECREF(bound);
    return result ? nxpy__finish(loop, 2, result) : nxpy__stop_error(trace);
}

/* A part of an array over a tensor, in the same memory: with ints and slices, and not down to a number. */
static int part_of_shown(nxpy_loop *loop, const nxpy_shown *shown, PyObject *key) {
    nxpy_trace *trace = loop->trace;
    bool plain = nxpy_constant_check(key);
    for (Py_ssize_t k = 0; plain && PyTuple_Check(key) && k < PyTuple_GET_SIZE(key); k++) plain = !PyBool_Check(PyTuple_GET_ITEM(key, k));
    PyObject *part = plain && !PyBool_Check(key) ? PyObject_GetItem(shown->tensor, key) : NULL;
    bool view = part && nxpy_tensor_get(part)->a.ndim > 0;
    PyObject *made = view && nxpy__admit(trace, part) == 0 ? nxpy__shown_new(part, shown->like, shown->make) : NULL;
    if (!plain || (part && !view)) nxpy__stop(trace, NXPY_BREAK_OPERATOR, "numpy.ndarray[...]");
    Py_XDECREF(part);
    return nxpy__finish(loop, 2, made);
}

int op_binary_subscr(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *of = USE(2), *value, *key;
    if (!of || (nxpy__is_sequence(of) && !use_index(loop, 1))) return -1;
    key = nxpy__is_fake(trace, of) ? USE(1) : use_key(loop, 1);
    if (!key) return -1;
    of = nxpy__behind(trace, of);
    bool plain_key = nxpy_constant_check(key) || PySlice_Check(key);
    if ((nxpy_constant_check(of) || PyRange_Check(of)) && plain_key) return nxpy__finish(loop, 2, PyObject_GetItem(of, key));
    if (nxpy__shown(of)) return part_of_shown(loop, nxpy__shown(of), key);
    bool array = nxpy__is_a(of, NXPY_KIND_ARRAY);
    bool known = array && nxpy__is_born(trace, of) && nxpy_constant_check(key);
    if (array && !known) return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "numpy.ndarray[...]");
    if (array) return nxpy__finish(loop, 2, PyObject_GetItem(of, key));
    if (nxpy__is_fake(trace, of)) {
        static const char *const names[] = {"__getitem__"};
        PyObject *index = note_operators(trace, of, names, 1) < 0 ? NULL : nxpy__index(trace, key);
        if (!index) return trace->stop ? -1 : nxpy__stop_error(trace);
        PyObject *const both[] = {of, index};
        int spelling = nxpy__spell_operator(trace, "operator.getitem", both, 2);
        PyObject *result = nxpy__spell_end(trace, spelling, PyObject_GetItem(of, index));
        Py_DECREF(index);
        return nxpy__finish(loop, 2, result);
    }
    bool walks = nxpy__may_change(Py_TYPE(of)) && !PyType_Check(of);
    if (PyType_Check(of) && nxpy__may_change((PyTypeObject *)of)) {
        int done = subscript_of_class(loop, of, key);
        if (done <= 0) return done;
    }
    int python = walks ? nxpy__python_special(trace, of, "__getitem__") : 0;
    if (python == 0 && walks && PyDict_Check(of)) python = nxpy__python_special(trace, of, "__missing__");
    if (python < 0) return -1;
    if (python == 1) return nxpy__finish(loop, 2, PyObject_GetItem(of, key));
    bool keyed = nxpy__is_key(key) || (PyList_Check(of) && PySlice_Check(key));
    if (is_own(trace, of) && keyed) return nxpy__finish(loop, 2, PyObject_GetItem(of, key));
    if (is_keyed(of) && nxpy__is_key(key)) {
        if (nxpy__dict_value(trace, of, key, &value) < 0) return -1;
        if (!value && nxpy__is_a(of, NXPY_KIND_DEFAULTS)) return nxpy__finish(loop, 2, make_default(trace, of, key));
        if (!value) {
            PyErr_SetObject(PyExc_KeyError, key);
            return nxpy__stop_error(trace);
        }
        return nxpy__finish(loop, 2, Py_NewRef(value));
    }
    if (!(nxpy__is_sequence(of)) || !plain_key) {
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "%.100s[%.100s]", Py_TYPE(of)->tp_name, Py_TYPE(key)->tp_name);
    }
    value = NULL;
    if (PyLong_CheckExact(key) ? note_item(trace, of, key, &value) < 0 : nxpy__note_elements(trace, of) < 0) return -1;
    return nxpy__finish(loop, 2, value ? Py_NewRef(value) : PyObject_GetItem(of, key));
}

/* What may be stored into a tensor. */
bool nxpy__is_element(nxpy_trace *trace, PyObject *value) {
    return nxpy__is_fake(trace, value) || nxpy_constant_check(value) || nxpy_symnumber_check(value);
}

static int store_item(nxpy_loop *loop, PyObject *of, PyObject *key, PyObject *value) {
    nxpy_trace *trace = loop->trace;
    bool number = value && (PyLong_CheckExact(value) || PyFloat_CheckExact(value)); /* into the memory that it shows */
    if (nxpy__shown(of) && number && nxpy_constant_check(key)) of = nxpy__shown(of)->tensor;
    if (nxpy__is_fake(trace, of)) {
        static const char *const names[] = {"__setitem__"};
        PyObject *index = note_operators(trace, of, names, 1) < 0 ? NULL : nxpy__index(trace, key);
        PyObject *use = index ? nxpy__use(trace, value) : NULL;
        bool plain = use && nxpy__is_element(trace, use);
        if (use && !plain) nxpy__stop(trace, NXPY_BREAK_STORE, "%.200s", Py_TYPE(of)->tp_name);
        int done = plain ? PyObject_SetItem(of, index, use) : -1;
        Py_XDECREF(index);
        return done < 0 ? nxpy__stop_error(trace) : 0;
    }
    if (nxpy__may_change(Py_TYPE(of)) && !PyType_Check(of)) {
        int python = nxpy__python_special(trace, of, value ? "__setitem__" : "__delitem__");
        if (python < 0) return -1;
        if (python == 1) {
            int done = value ? PyObject_SetItem(of, key, value) : PyObject_DelItem(of, key);
            return done < 0 || trace->stop ? nxpy__stop_error(trace) : 0;
        }
    }
    if (is_own(trace, of) && nxpy__is_key(key)) {
        int done = value ? PyObject_SetItem(of, key, value) : PyObject_DelItem(of, key);
        return done < 0 ? nxpy__stop_error(trace) : 0;
    }
    bool dict = (PyDict_CheckExact(of) || nxpy__is_a(of, NXPY_KIND_DEFAULTS)) && nxpy__is_key(key);
    bool list = PyList_CheckExact(of) && (PyLong_CheckExact(key) || (PySlice_Check(key) && (!value || nxpy__is_container(value))));
    if (!dict && !list) return nxpy__stop(trace, NXPY_BREAK_STORE, "%.200s", Py_TYPE(of)->tp_name);
    if (value && PySlice_Check(key) && nxpy__note_elements(trace, value) < 0) return -1;
    return nxpy__write_item(trace, of, key, value);
}

int op_store_subscr(nxpy_loop *loop, int arg) {
    PyObject *of = USE(2), *key = !of ? NULL : nxpy__is_fake(loop->trace, of) ? USE(1) : use_key(loop, 1);
    if (!key || store_item(loop, of, key, nxpy__at(loop, 3)) < 0) return -1;
    nxpy__drop(loop, 3);
    return 0;
}

/* The top two values as a slice, or back. */
static int fold_slice(nxpy_loop *loop) {
    PyObject *slice = op_build_slice(loop, 2) < 0 ? NULL : nxpy__at(loop, 1);
    return slice ? 0 : -1;
}

static int unfold_slice(nxpy_loop *loop, PyObject *slice) { /* taken */
    nxpy__push(loop, Py_NewRef(((PySliceObject *)slice)->start));
    nxpy__push(loop, Py_NewRef(((PySliceObject *)slice)->stop));
    Py_DECREF(slice);
    return -1;
}

int op_binary_slice(nxpy_loop *loop, int arg) {
    if (fold_slice(loop) < 0) return -1;
    return op_binary_subscr(loop, 0) == 0 ? 0 : unfold_slice(loop, nxpy__pop(loop));
}

int op_store_slice(nxpy_loop *loop, int arg) {
    if (fold_slice(loop) < 0) return -1;
    return op_store_subscr(loop, 0) == 0 ? 0 : unfold_slice(loop, nxpy__pop(loop));
}

int op_delete_subscr(nxpy_loop *loop, int arg) {
    PyObject *of = USE(2), *key = of ? use_key(loop, 1) : NULL;
    if (!key || store_item(loop, of, key, NULL) < 0) return -1;
    nxpy__drop(loop, 2);
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
    nxpy__drop(loop, n);
    nxpy__push(loop, result);
    return 0;
}

int op_build_tuple(nxpy_loop *loop, int arg) {
    PyObject *tuple = PyTuple_New(arg);
    for (int k = 0; tuple && k < arg; k++) {
        PyObject *value = nxpy__at(loop, arg - k);
        Py_INCREF(value);
        PyTuple_SET_ITEM(tuple, k, value);
    }
    return finish_born(loop, arg, tuple);
}

int op_build_list(nxpy_loop *loop, int arg) {
    PyObject *list = PyList_New(arg);
    for (int k = 0; list && k < arg; k++) {
        PyObject *value = nxpy__at(loop, arg - k);
        Py_INCREF(value);
        PyList_SET_ITEM(list, k, value);
    }
    return finish_born(loop, arg, list);
}

int op_build_map(nxpy_loop *loop, int arg) {
    for (int k = 0; k < arg; k++) {
        PyObject *key = use_key(loop, 2 * (arg - k));
        if (!key) return -1;
        if (!nxpy__is_key(key)) return nxpy__stop(loop->trace, NXPY_BREAK_OPERATOR, "a dict key that is no constant");
    }
    PyObject *dict = PyDict_New();
    for (int k = 0; dict && k < arg; k++) {
        if (PyDict_SetItem(dict, nxpy__at(loop, 2 * (arg - k)), nxpy__at(loop, 2 * (arg - k) - 1)) < 0) Py_CLEAR(dict);
    }
    return finish_born(loop, 2 * arg, dict);
}

int op_build_const_key_map(nxpy_loop *loop, int arg) {
    PyObject *keys = nxpy__at(loop, 1), *dict = PyDict_New();
    for (int k = 0; dict && k < arg; k++) {
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(keys, k), nxpy__at(loop, arg + 1 - k)) < 0) Py_CLEAR(dict);
    }
    return finish_born(loop, arg + 1, dict);
}

int op_build_slice(nxpy_loop *loop, int arg) {
    for (int k = arg; k > 0; k--) {
        PyObject *part = use_index(loop, k);
        if (!part) return -1;
        if (!is_plain(part)) return nxpy__stop(loop->trace, NXPY_BREAK_OPERATOR, "a slice of %.200s", Py_TYPE(part)->tp_name);
    }
    return finish_born(loop, arg, PySlice_New(nxpy__at(loop, arg), nxpy__at(loop, arg - 1), arg == 3 ? nxpy__at(loop, 1) : NULL));
}

int op_build_set(nxpy_loop *loop, int arg) {
    for (int k = arg; k > 0; k--) {
        PyObject *key = use_key(loop, k);
        if (!key) return -1;
        if (!nxpy__is_key(key)) return nxpy__stop(loop->trace, NXPY_BREAK_OPERATOR, "a member of a set that is no constant");
    }
    PyObject *set = PySet_New(NULL);
    for (int k = 0; set && k < arg; k++) {
        if (PySet_Add(set, nxpy__at(loop, arg - k)) < 0) Py_CLEAR(set);
    }
    return finish_born(loop, arg, set);
}

/* ---- text -------------------------------------------------------------------------------------------------------------------- */
int op_convert_value(nxpy_loop *loop, int arg) {
    PyObject *value = USE(1);
    if (!value || nxpy__is_printable(loop->trace, value) < 0) return -1;
    return nxpy__finish(loop, 1, arg == 1 ? PyObject_Str(value) : arg == 2 ? PyObject_Repr(value) : PyObject_ASCII(value));
}

int op_format_value(nxpy_loop *loop, int arg) {
    arg |= loop->in.flag;
    bool has_spec = (arg & 0x04) != 0;
    PyObject *spec = has_spec ? nxpy__at(loop, 1) : NULL, *value = USE(1 + has_spec), *text = NULL;
    if (!value || nxpy__is_printable(loop->trace, value) < 0) return -1;
    switch (arg & 0x03) {
    case 1: text = PyObject_Str(value); break;
    case 2: text = PyObject_Repr(value); break;
    case 3: text = PyObject_ASCII(value); break;
    default: text = Py_NewRef(value);
    }
    PyObject *result = text ? PyObject_Format(text, spec) : NULL;
    Py_XDECREF(text);
    return nxpy__finish(loop, 1 + has_spec, result);
}

int op_build_string(nxpy_loop *loop, int arg) {
    PyObject *empty = PyUnicode_New(0, 0), *parts = PyTuple_New(arg);
    for (int k = 0; parts && k < arg; k++) PyTuple_SET_ITEM(parts, k, Py_NewRef(nxpy__at(loop, arg - k)));
    PyObject *result = empty && parts ? PyUnicode_Join(empty, parts) : NULL;
    Py_XDECREF(parts);
    Py_XDECREF(empty);
    return nxpy__finish(loop, arg, result);
}

/* ---- match ------------------------------------------------------------------------------------------------------------------- */
int op_match_kind(nxpy_loop *loop, int arg) {
    PyObject *of = USE(1);
    if (!of) return -1;
    bool known = nxpy_constant_check(of) || nxpy__is_container(of) || nxpy_tensor_check(of) || nxpy__is_instance(of) || PyRange_Check(of);
    if (!known) return nxpy__stop(loop->trace, NXPY_BREAK_OPERATOR, "match of %.200s", Py_TYPE(of)->tp_name);
    unsigned long flag = loop->in.flag ? Py_TPFLAGS_MAPPING : Py_TPFLAGS_SEQUENCE;
    nxpy__push(loop, PyBool_FromLong(PyType_HasFeature(Py_TYPE(of), flag)));
    return 0;
}

/* Subject and a tuple of keys: pushes the tuple of values, or None. */
int op_match_keys(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *of = USE(2), *keys = nxpy__at(loop, 1), *value;
    if (!of) return -1;
    if (!PyDict_CheckExact(of) || !nxpy__are_keys(keys)) {
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "match of %.200s", Py_TYPE(of)->tp_name);
    }
    PyObject *values = PyTuple_New(PyTuple_GET_SIZE(keys));
    for (Py_ssize_t k = 0; values && k < PyTuple_GET_SIZE(keys); k++) {
        if (nxpy__dict_value(trace, of, PyTuple_GET_ITEM(keys, k), &value) < 0) return Py_DECREF(values), -1;
        if (!value) {
            Py_SETREF(values, Py_NewRef(Py_None));
            break;
        }
        PyTuple_SET_ITEM(values, k, Py_NewRef(value));
    }
    return nxpy__finish(loop, 0, values);
}

/* The attributes that a class pattern names: a tuple, None (no match), or NULL. New reference. */
static PyObject *matched_parts(nxpy_loop *loop, PyObject *subject, PyObject *type, PyObject *names, int n_positional) {
    nxpy_trace *trace = loop->trace;
    PyObject *positional = NULL, *parts = PyList_New(0), *value;
    bool self = n_positional && PyType_HasFeature((PyTypeObject *)type, 1UL << 22); /* _Py_TPFLAGS_MATCH_SELF: int, str ... */
    if (n_positional && !self && nxpy__type_value(trace, (PyTypeObject *)type, "__match_args__", &positional) < 0) Py_CLEAR(parts);
    if (parts && n_positional && !self && (!positional || !PyTuple_Check(positional) || PyTuple_GET_SIZE(positional) < n_positional)) {
        nxpy__stop(trace, NXPY_BREAK_OPERATOR, "match of %.200s by position", ((PyTypeObject *)type)->tp_name);
        Py_CLEAR(parts);
    }
    if (parts && self && PyList_Append(parts, subject) < 0) Py_CLEAR(parts);
    Py_ssize_t n = (self ? 0 : n_positional) + PyTuple_GET_SIZE(names);
    for (Py_ssize_t k = 0; parts && k < n; k++) {
        bool by_place = !self && k < n_positional;
        PyObject *name = by_place ? PyTuple_GET_ITEM(positional, k) : PyTuple_GET_ITEM(names, k - (self ? 0 : n_positional));
        if (nxpy__attribute(trace, subject, name, false, &value) >= 0) {
            if (PyList_Append(parts, value) < 0) Py_CLEAR(parts);
            Py_DECREF(value);
        } else if (!trace->stop && PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Clear();
            Py_SETREF(parts, Py_NewRef(Py_None));
            return parts;
        } else {
            Py_CLEAR(parts);
        }
    }
    if (parts) Py_SETREF(parts, PyList_AsTuple(parts));
    return parts;
}

int op_match_class(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *names = nxpy__at(loop, 1), *type = USE(2), *subject = type ? USE(3) : NULL;
    if (subject && nxpy_symnumber_check(subject)) subject = use_key(loop, 3); /* its number is what has the class */
    if (!subject) return -1;
    if (!PyType_Check(type) || Py_TYPE(type) != &PyType_Type) {
        return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "match of a class with a metaclass");
    }
    if (!PyType_IsSubtype(Py_TYPE(subject), (PyTypeObject *)type)) return nxpy__finish(loop, 3, Py_NewRef(Py_None));
    PyObject *parts = matched_parts(loop, subject, type, names, arg);
    return parts ? nxpy__finish(loop, 3, parts) : nxpy__stop_error(trace);
}

/* ---- changing what was born ----------------------------------------------------------------------------------------------- */
int op_list_append(nxpy_loop *loop, int arg) {
    PyObject *list = nxpy__at(loop, 1 + arg);
    if (!nxpy__is_born(loop->trace, list)) return nxpy__stop(loop->trace, NXPY_BREAK_STORE, "a list");
    if (PyList_Append(list, nxpy__at(loop, 1)) < 0) return nxpy__stop_error(loop->trace);
    nxpy__drop(loop, 1);
    return 0;
}

int op_set_add(nxpy_loop *loop, int arg) {
    PyObject *set = nxpy__at(loop, 1 + arg), *key = use_key(loop, 1);
    if (!key) return -1;
    if (!nxpy__is_born(loop->trace, set)) return nxpy__stop(loop->trace, NXPY_BREAK_STORE, "a set");
    if (!nxpy__is_key(key)) return nxpy__stop(loop->trace, NXPY_BREAK_OPERATOR, "a member of a set that is no constant");
    if (PySet_Add(set, key) < 0) return nxpy__stop_error(loop->trace);
    nxpy__drop(loop, 1);
    return 0;
}

int op_map_add(nxpy_loop *loop, int arg) {
    PyObject *dict = nxpy__at(loop, 2 + arg), *key = use_key(loop, 2);
    if (!key) return -1;
    if (!nxpy__is_born(loop->trace, dict)) return nxpy__stop(loop->trace, NXPY_BREAK_STORE, "a dict");
    if (!nxpy__is_key(key)) return nxpy__stop(loop->trace, NXPY_BREAK_OPERATOR, "a dict key that is no constant");
    if (PyDict_SetItem(dict, key, nxpy__at(loop, 1)) < 0) return nxpy__stop_error(loop->trace);
    nxpy__drop(loop, 2);
    return 0;
}

int op_list_extend(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *list = nxpy__at(loop, 1 + arg), *from = USE(1);
    if (!from) return -1;
    if (!nxpy__is_born(trace, list)) return nxpy__stop(trace, NXPY_BREAK_STORE, "a list");
    PyObject *parts = nxpy__sequence(loop, from, true);
    int done = parts ? PyList_SetSlice(list, PyList_GET_SIZE(list), PyList_GET_SIZE(list), parts) : -1;
    Py_XDECREF(parts);
    if (done < 0) return nxpy__stop_error(trace);
    nxpy__drop(loop, 1);
    return 0;
}

int op_set_update(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *set = nxpy__at(loop, 1 + arg), *from = USE(1), *parts = from ? nxpy__sequence(loop, from, true) : NULL;
    if (!parts) return from ? nxpy__stop_error(trace) : -1;
    int done = !nxpy__is_born(trace, set)  ? nxpy__stop(trace, NXPY_BREAK_STORE, "a set")
               : !nxpy__are_keys(parts)    ? nxpy__stop(trace, NXPY_BREAK_OPERATOR, "a member of a set that is no constant")
                                           : nxpy__set_update(set, parts);
    Py_DECREF(parts);
    if (done < 0) return nxpy__stop_error(trace);
    nxpy__drop(loop, 1);
    return 0;
}

int op_list_to_tuple(nxpy_loop *loop, int arg) { return finish_born(loop, 1, PyList_AsTuple(nxpy__at(loop, 1))); }

int op_dict_merge(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *dict = nxpy__at(loop, 1 + arg), *from = USE(1);
    if (!from) return -1;
    if (!nxpy__is_born(trace, dict)) return nxpy__stop(trace, NXPY_BREAK_STORE, "a dict");
    if (!PyDict_CheckExact(from)) return nxpy__stop(trace, NXPY_BREAK_ITERATOR, "%.200s", Py_TYPE(from)->tp_name);
    if (nxpy__note_elements(trace, from) < 0) return -1;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; loop->in.flag && PyDict_Next(from, &at, &key, &value);) { /* an error that names the function */
        if (PyDict_Contains(dict, key)) return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "a keyword that is given twice");
    }
    if (PyDict_Update(dict, from) < 0) return nxpy__stop_error(trace);
    nxpy__drop(loop, 1);
    return 0;
}
