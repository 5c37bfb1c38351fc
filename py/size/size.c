/* torch.SymInt, torch.SymFloat: numbers that are nodes of the graph that is being recorded.
 *
 * In: operators of the language on it. Out: SymInts, and nodes behind the others in the graph; or plain numbers, with a check
 * that the number is the same where the graph is used again.
 * What must hold: a number never leaves a SymInt of a live trace without a check; outside its trace nothing is recorded and
 * it is the number that it was. Next: src/ir/ints.c, which computes the nodes. */
#include "size/size.h"

static PyObject *raise(nx_status status) {
    if (!PyErr_Occurred()) PyErr_SetString(status == NX_NO_MEMORY ? PyExc_MemoryError : PyExc_RuntimeError, nx_error_message());
    return NULL;
}

static PyObject *new_size(nx_tracer *tracer, nx_node *node, nx_value now) {
    nx_status status = nx_vec_push(&tracer->ints, node);
    if (status != NX_OK) return raise(status);
    nxpy_symint *size = PyObject_New(nxpy_symint, now.tag == NX_TAG_FLOAT ? &nxpy_symfloat_type : &nxpy_symint_type);
    if (!size) return NULL;
    size->now = now;
    size->tracer = tracer;
    size->serial = tracer->serial;
    size->number = tracer->ints.n - 1;
    return (PyObject *)size;
}

/* The user's line stands on the nodes of sizes as on those of calls. */
static nx_status append(nx_tracer *tracer, nx_int_code code, const nx_value *args, nx_node **out) {
    NX_TRY(nx_graph_append_int(tracer->graph, code, args, out));
    return nx_node_set_source(*out, &nx_thread_get()->source);
}

/* A number of the trace around it is one that the tracer's graph is given: it becomes the input of that graph, once. -1: none. */
static int import(nx_tracer *tracer, const nxpy_symint *size) {
    nx_node *node;
    for (int k = 0; k < tracer->imports.n; k++) {
        if (tracer->imports.at[k].n == size->number + 1) return tracer->imported.at[k];
    }
    nx_int_code code = size->now.tag == NX_TAG_FLOAT ? NX_INT_FLOAT : NX_INT_INPUT;
    nx_status status = append(tracer, code, (nx_value[]){nx_value_int(tracer->imports.n)}, &node);
    if (status == NX_OK) status = nx_vec_push(&tracer->ints, node);
    if (status == NX_OK) status = nx_vec_push(&tracer->imported, tracer->ints.n - 1);
    if (status == NX_OK) status = nx_vec_push(&tracer->imports, nx_value_size(size->now, size->number));
    return status == NX_OK ? tracer->ints.n - 1 : -1;
}

/* The number's place among those of the tracer that records now; -1: it is no number of that one. */
static int place_in(nx_tracer *tracer, const nxpy_symint *size) {
    if (!tracer) return -1;
    if (tracer == size->tracer && tracer->serial == size->serial) return size->number;
    bool around = tracer->is_inner && tracer->outer == size->tracer && size->serial == tracer->outer->serial;
    return around ? import(tracer, size) : -1;
}

static bool is_live(const nxpy_symint *size) { return place_in(nxpy_size_tracer(), size) >= 0; }

nx_node *nxpy_symint_node(PyObject *o, const nx_tracer *tracer) {
    const nxpy_symint *size = (nxpy_symint *)o;
    if (!nxpy_symnumber_check(o) || size->tracer != tracer || size->serial != tracer->serial) return NULL;
    return tracer->ints.at[size->number];
}

bool nxpy_symint_argument(PyObject *o, nx_value *out) {
    const nxpy_symint *size = (nxpy_symint *)o;
    const nx_thread *thread = nx_thread_get();
    bool recorded = (thread->keys_included & ~thread->keys_excluded & NX_KEY(CAPTURE)) != 0;
    int place = recorded ? place_in(nxpy_size_tracer(), size) : -1;
    if (place < 0) return false;
    *out = nx_value_size(size->now, place);
    return true;
}

/* ---- reading a tensor -------------------------------------------------------------------------------------------- */
static nx_node *find_read(const nx_node *node, int result, nx_int_code code, int dim) {
    for (const nx_use *use = node->uses; use; use = use->next) {
        const nx_node *user = use->user;
        if (nx_node_int_code(user) != (int)code || user->args[0].n != result) continue;
        if (user->n_args == 1 || user->args[1].i == dim) return use->user;
    }
    return NULL;
}

/* Whether it is the same at every call: an input's dimension that the guards compare. */
static bool is_fixed(const nx_node *node, nx_int_code code, int dim) {
    if (node->kind != NX_NODE_PLACEHOLDER) return node->kind == NX_NODE_GET_ATTR;
    return node->varying == 0 || (code == NX_INT_SIZE && !(node->varying >> dim & 1));
}

/* A tensor of the graph around becomes one that the inner graph reads. */
static bool find_tensor(nx_tracer *tracer, nx_tensor *tensor, nx_value *out) {
    nx_value outer;
    if (nx_tracer_find(tracer, tensor, out)) return true;
    return tracer->is_inner && nx_tracer_find(tracer->outer, tensor, &outer) && tracer->unknown(tracer, tensor, out) == NX_OK;
}

PyObject *nxpy_size_read(nx_tensor *tensor, nx_int_code code, int dim, int64_t now) {
    nx_tracer *tracer = nxpy_size_tracer();
    nx_value of;
    if (NX_LIKELY(!tracer) || !find_tensor(tracer, tensor, &of) || is_fixed(of.node, code, dim)) return PyLong_FromLongLong(now);
    nx_node *node = find_read(of.node, of.n, code, dim);
    nx_status status = node ? NX_OK : append(tracer, code, (nx_value[]){of, nx_value_int(dim)}, &node);
    return status == NX_OK ? new_size(tracer, node, nx_value_int(now)) : raise(status);
}

PyObject *nxpy_size_given(nx_tracer *tracer, int k, PyObject *now) {
    nx_node *node;
    bool real = PyFloat_CheckExact(now);
    nx_value value = real ? nx_value_float(PyFloat_AS_DOUBLE(now)) : nx_value_int(PyLong_AsLongLong(now));
    nx_status status = append(tracer, real ? NX_INT_FLOAT : NX_INT_INPUT, (nx_value[]){nx_value_int(k)}, &node);
    return status == NX_OK ? new_size(tracer, node, value) : raise(status);
}

PyObject *nxpy_sizes_read(nx_tensor *tensor, nx_int_code code, PyObject *like) {
    if (NX_LIKELY(!nxpy_size_tracer()) || !like) return like;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(like); k++) {
        PyObject *old = PyTuple_GET_ITEM(like, k), *size = nxpy_size_read(tensor, code, (int)k, PyLong_AsLongLong(old));
        if (!size) {
            Py_DECREF(like);
            return NULL;
        }
        PyTuple_SET_ITEM(like, k, size);
        Py_DECREF(old);
    }
    return like;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */
/* Leaves "node CODE other" as a check. */
static int check(nx_tracer *tracer, nx_int_code code, nx_value left, nx_value right) {
    nx_node *compared, *checked;
    nx_status status = append(tracer, code, (nx_value[]){left, right}, &compared);
    if (status == NX_OK) status = append(tracer, NX_INT_CHECK, (nx_value[]){nx_value_node(compared, 0)}, &checked);
    if (status != NX_OK) raise(status);
    return status == NX_OK ? 0 : -1;
}

/* Of a live one. */
static nx_value node_of(const nxpy_symint *size) {
    nx_tracer *tracer = nxpy_size_tracer();
    return nx_value_node(tracer->ints.at[place_in(tracer, size)], 0);
}

static PyObject *number_of(nx_value now) { return now.tag == NX_TAG_FLOAT ? PyFloat_FromDouble(now.f) : PyLong_FromLongLong(now.i); }

PyObject *nxpy_symnumber_fix(PyObject *o) {
    const nxpy_symint *size = (nxpy_symint *)o;
    if (is_live(size) && check(nxpy_size_tracer(), NX_INT_EQ, node_of(size), size->now) < 0) return NULL;
    return number_of(size->now);
}
static PyObject *fix(PyObject *o) { return nxpy_symnumber_fix(o); }

bool nxpy_symnumber_argument(PyObject *o, nx_value *out) {
    if (nxpy_symint_argument(o, out)) return true;
    PyObject *number = fix(o); /* the call is not recorded */
    Py_XDECREF(number);
    *out = ((nxpy_symint *)o)->now;
    return number != NULL;
}

int nxpy_size_fix(nx_tensor *tensor, nx_int_code code, int dim, int64_t now) {
    if (NX_LIKELY(!nxpy_size_tracer())) return 0;
    PyObject *size = nxpy_size_read(tensor, code, dim, now), *fixed = size ? PyNumber_Index(size) : NULL;
    Py_XDECREF(size);
    Py_XDECREF(fixed);
    return fixed ? 0 : -1;
}

/* ---- operators ----------------------------------------------------------------------------------------------------- */
typedef struct operand { nx_value now, value; } operand;

/* A number of the live trace, a float, or an int that fits. */
static bool read_operand(PyObject *o, operand *out) {
    int overflow = 0;
    if (nxpy_symnumber_check(o)) {
        const nxpy_symint *size = (nxpy_symint *)o;
        if (!is_live(size)) return false;
        *out = (operand){size->now, node_of(size)};
        return true;
    }
    if (PyFloat_CheckExact(o)) {
        out->now = out->value = nx_value_float(PyFloat_AS_DOUBLE(o));
        return true;
    }
    if (!PyLong_CheckExact(o)) return false;
    out->now = out->value = nx_value_int(PyLong_AsLongLongAndOverflow(o, &overflow));
    return !overflow;
}

/* The number in the place of a SymInt; what else stands there as it is. New reference. */
static PyObject *plain(PyObject *o) { return nxpy_symnumber_check(o) ? fix(o) : Py_NewRef(o); }

static bool is_number(PyObject *o) { return nxpy_symnumber_check(o) || PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o); }

/* What `fn` makes of the number. */
static PyObject *on_fixed(PyObject *o, unaryfunc fn) {
    PyObject *number = fix(o), *result = number ? fn(number) : NULL;
    Py_XDECREF(number);
    return result;
}

static PyObject *on_plain(PyObject *a, PyObject *b, binaryfunc fn) {
    if (!is_number(a) || !is_number(b)) Py_RETURN_NOTIMPLEMENTED; /* a tensor knows what to do */
    PyObject *x = plain(a), *y = x ? plain(b) : NULL, *result = y ? fn(x, y) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return result;
}

static PyObject *binary(PyObject *a, PyObject *b, nx_int_code code, binaryfunc fn) {
    operand x, y;
    nx_value now;
    nx_node *node;
    if (!read_operand(a, &x) || !read_operand(b, &y)) return on_plain(a, b, fn);
    nx_tracer *tracer = nxpy_size_tracer();
    if (nx_int_compute(code, (nx_value[]){x.now, y.now}, &now) != NX_OK) return on_plain(a, b, fn);
    nx_status status = append(tracer, code, (nx_value[]){x.value, y.value}, &node);
    return status == NX_OK ? new_size(tracer, node, now) : raise(status);
}

static PyObject *add(PyObject *a, PyObject *b) { return binary(a, b, NX_INT_ADD, PyNumber_Add); }
static PyObject *subtract(PyObject *a, PyObject *b) { return binary(a, b, NX_INT_SUB, PyNumber_Subtract); }
static PyObject *multiply(PyObject *a, PyObject *b) { return binary(a, b, NX_INT_MUL, PyNumber_Multiply); }
static PyObject *floor_divide(PyObject *a, PyObject *b) { return binary(a, b, NX_INT_FLOORDIV, PyNumber_FloorDivide); }
static PyObject *modulo(PyObject *a, PyObject *b) { return binary(a, b, NX_INT_MOD, PyNumber_Remainder); }
static PyObject *divide(PyObject *a, PyObject *b) { return binary(a, b, NX_INT_TRUEDIV, PyNumber_TrueDivide); }
static PyObject *divmod_(PyObject *a, PyObject *b) { return on_plain(a, b, PyNumber_Divmod); }
static PyObject *shift_left(PyObject *a, PyObject *b) { return on_plain(a, b, PyNumber_Lshift); }
static PyObject *shift_right(PyObject *a, PyObject *b) { return on_plain(a, b, PyNumber_Rshift); }
static PyObject *and_(PyObject *a, PyObject *b) { return on_plain(a, b, PyNumber_And); }
static PyObject *or_(PyObject *a, PyObject *b) { return on_plain(a, b, PyNumber_Or); }
static PyObject *xor_(PyObject *a, PyObject *b) { return on_plain(a, b, PyNumber_Xor); }

static PyObject *plain_power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }
static PyObject *power(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus == Py_None) return binary(a, b, NX_INT_POW, plain_power);
    if (!is_number(a) || !is_number(b)) Py_RETURN_NOTIMPLEMENTED;
    PyObject *x = plain(a), *y = x ? plain(b) : NULL, *result = y ? PyNumber_Power(x, y, modulus) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return result;
}

static PyObject *negative(PyObject *o) {
    const nxpy_symint *size = (nxpy_symint *)o;
    nx_node *node;
    nx_value now;
    if (!is_live(size) || nx_int_compute(NX_INT_NEG, &size->now, &now) != NX_OK) return on_fixed(o, PyNumber_Negative);
    nx_tracer *tracer = nxpy_size_tracer();
    nx_status status = append(tracer, NX_INT_NEG, (nx_value[]){node_of(size)}, &node);
    return status == NX_OK ? new_size(tracer, node, now) : raise(status);
}
static PyObject *positive(PyObject *o) { return Py_NewRef(o); }
static PyObject *absolute(PyObject *o) { return on_fixed(o, PyNumber_Absolute); }
static PyObject *invert(PyObject *o) { return on_fixed(o, PyNumber_Invert); }
static PyObject *to_float(PyObject *o) { return on_fixed(o, PyNumber_Float); }
static PyObject *text(PyObject *o) { return on_fixed(o, PyObject_Str); }

static PyObject *compare_plain(PyObject *a, PyObject *b, int op) {
    PyObject *p = plain(a), *q = p ? plain(b) : NULL, *result = q ? PyObject_RichCompare(p, q, op) : NULL;
    Py_XDECREF(p);
    Py_XDECREF(q);
    return result;
}

/* Answers for now and leaves what it answered as a check: the comparison itself or its opposite. */
static PyObject *compare(PyObject *a, PyObject *b, int op) {
    static const struct { nx_int_code yes, no; } codes[] = {
        [Py_LT] = {NX_INT_LT, NX_INT_GE}, [Py_LE] = {NX_INT_LE, NX_INT_GT}, [Py_EQ] = {NX_INT_EQ, NX_INT_NE},
        [Py_NE] = {NX_INT_NE, NX_INT_EQ}, [Py_GT] = {NX_INT_GT, NX_INT_LE}, [Py_GE] = {NX_INT_GE, NX_INT_LT}};
    operand x, y;
    if (!read_operand(a, &x) || !read_operand(b, &y)) {
        if (!is_number(b)) Py_RETURN_NOTIMPLEMENTED;
        return compare_plain(a, b, op);
    }
    nx_value holds;
    nx_status status = nx_int_compute(codes[op].yes, (nx_value[]){x.now, y.now}, &holds);
    if (status != NX_OK) return compare_plain(a, b, op);
    if (check(nxpy_size_tracer(), holds.i ? codes[op].yes : codes[op].no, x.value, y.value) < 0) return NULL;
    return PyBool_FromLong((long)holds.i);
}

static int truth(PyObject *o) {
    const nxpy_symint *size = (nxpy_symint *)o;
    bool holds = size->now.tag == NX_TAG_FLOAT ? size->now.f != 0 : size->now.i != 0;
    if (is_live(size) && check(nxpy_size_tracer(), holds ? NX_INT_NE : NX_INT_EQ, node_of(size), nx_value_int(0)) < 0) return -1;
    return holds;
}

static Py_hash_t hash(PyObject *o) {
    PyObject *number = fix(o);
    Py_hash_t result = number ? PyObject_Hash(number) : -1;
    Py_XDECREF(number);
    return result;
}
static PyObject *format(PyObject *o, PyObject *spec) {
    PyObject *number = fix(o), *result = number ? PyObject_Format(number, spec) : NULL;
    Py_XDECREF(number);
    return result;
}
/* isinstance(size, int) holds, as it does under torch.compile. */
static PyObject *get_class(PyObject *o, void *unused) { return Py_NewRef(nxpy_class_of(o)); }
static PyObject *to_int(PyObject *o) { return on_fixed(o, PyNumber_Long); }

static PyNumberMethods numbers = {
    .nb_add = add, .nb_subtract = subtract, .nb_multiply = multiply, .nb_floor_divide = floor_divide, .nb_remainder = modulo,
    .nb_true_divide = divide, .nb_divmod = divmod_, .nb_power = power, .nb_negative = negative, .nb_positive = positive,
    .nb_absolute = absolute, .nb_invert = invert, .nb_bool = truth, .nb_lshift = shift_left, .nb_rshift = shift_right,
    .nb_and = and_, .nb_or = or_, .nb_xor = xor_, .nb_int = fix, .nb_index = fix, .nb_float = to_float};
static PyNumberMethods real_numbers = { /* a float has no __index__ */
    .nb_add = add, .nb_subtract = subtract, .nb_multiply = multiply, .nb_floor_divide = floor_divide, .nb_remainder = modulo,
    .nb_true_divide = divide, .nb_divmod = divmod_, .nb_power = power, .nb_negative = negative, .nb_positive = positive,
    .nb_absolute = absolute, .nb_bool = truth, .nb_int = to_int, .nb_float = to_float};
static PyObject *round_(PyObject *o, PyObject *const *args, Py_ssize_t n) {
    PyObject *number = fix(o), *rounded = number ? PyObject_GetAttrString(number, "__round__") : NULL;
    PyObject *result = rounded ? PyObject_Vectorcall(rounded, args, (size_t)n, NULL) : NULL;
    Py_XDECREF(number);
    Py_XDECREF(rounded);
    return result;
}
static PyMethodDef methods[] = {{"__format__", format, METH_O, "As the number's."},
                                {"__round__", (PyCFunction)(void (*)(void))round_, METH_FASTCALL, "As the number's."}, {NULL}};
static PyGetSetDef getset[] = {{"__class__", get_class, NULL, "int or float", NULL}, {NULL}};
PyTypeObject nxpy_symint_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.SymInt",
                                 .tp_basicsize = sizeof(nxpy_symint),
                                 .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .tp_doc = "An integer that a compiled graph does not fix: a size that may change.",
                                 .tp_as_number = &numbers, .tp_richcompare = compare, .tp_hash = hash, .tp_repr = text,
                                 .tp_str = text, .tp_methods = methods, .tp_getset = getset};

PyTypeObject nxpy_symfloat_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.SymFloat",
                                   .tp_basicsize = sizeof(nxpy_symint),
                                   .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   .tp_doc = "A float that a compiled graph does not fix: one that was another at an earlier call.",
                                   .tp_as_number = &real_numbers, .tp_richcompare = compare, .tp_hash = hash, .tp_repr = text,
                                   .tp_str = text, .tp_methods = methods, .tp_getset = getset};

int nxpy_add_size(PyObject *module) {
    if (PyType_Ready(&nxpy_symint_type) < 0 || PyType_Ready(&nxpy_symfloat_type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "SymFloat", (PyObject *)&nxpy_symfloat_type) < 0) return -1;
    return PyModule_AddObjectRef(module, "SymInt", (PyObject *)&nxpy_symint_type);
}
