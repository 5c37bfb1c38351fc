/* The operators of the language on tensors: arithmetic, comparisons, bits, their in-place forms, bool(), int(),
 * float(). A number on the left is turned round (2 + x is x + 2) or has an operator of its own (2 - x is rsub). */
#include "bind/private.h"

enum { TENSOR, SCALAR, N_OTHERS }; /* what stands on the right */
/* Every operator: its name here, as tracers write it, as an ATen operator on a tensor and on a number; the method of Tensor that
 * it is to who answers for its operands, with the tensor on the left and on the right (__torch_function__). */
#define NUMBER_OPS(row)                                                            \
    row(ADD, "operator.add", "add.Tensor", "add.Tensor", "add", "add")                                               \
    row(SUB, "operator.sub", "sub.Tensor", "sub.Tensor", "sub", "__rsub__")                                          \
    row(MUL, "operator.mul", "mul.Tensor", "mul.Tensor", "mul", "mul")                                               \
    row(DIV, "operator.truediv", "div.Tensor", "div.Tensor", "div", "__rdiv__")                                      \
    row(POW, "operator.pow", "pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow", "__rpow__")                            \
    row(FLOORDIV, "operator.floordiv", "floor_divide", "floor_divide.Scalar", "__floordiv__", "__rfloordiv__")       \
    row(MOD, "operator.mod", "remainder.Tensor", "remainder.Scalar", "remainder", "__rmod__")                        \
    row(LSHIFT, "operator.lshift", "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__",\
        "__rlshift__") \
    row(RSHIFT, "operator.rshift", "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__",\
        "__rrshift__") \
    row(RSUB, "torch.rsub", NULL, "rsub.Scalar", "__rsub__", NULL)                                                   \
    row(MATMUL, "operator.matmul", "matmul", NULL, "matmul", "__rmatmul__")                                          \
    row(AND, "operator.and_", "bitwise_and.Tensor", "bitwise_and.Scalar", "__and__", "bitwise_and")                  \
    row(OR, "operator.or_", "bitwise_or.Tensor", "bitwise_or.Scalar", "__or__", "bitwise_or")                        \
    row(XOR, "operator.xor", "bitwise_xor.Tensor", "bitwise_xor.Scalar", "__xor__", "bitwise_xor")                   \
    row(LT, "operator.lt", "lt.Tensor", "lt.Scalar", "lt", NULL)                                                     \
    row(LE, "operator.le", "le.Tensor", "le.Scalar", "le", NULL)                                                     \
    row(EQ, "operator.eq", "eq.Tensor", "eq.Scalar", "__eq__", NULL)                                                 \
    row(NE, "operator.ne", "ne.Tensor", "ne.Scalar", "ne", NULL)                                                     \
    row(GT, "operator.gt", "gt.Tensor", "gt.Scalar", "gt", NULL)                                                     \
    row(GE, "operator.ge", "ge.Tensor", "ge.Scalar", "ge", NULL)                                                     \
    row(NEG, "operator.neg", "neg", NULL, "neg", NULL)                                                               \
    row(ABS, "torch.abs", "abs", NULL, "abs", NULL)                                                                  \
    row(NOT, "operator.invert", "bitwise_not", NULL, "__invert__", NULL)                                             \
    row(RECIPROCAL, "torch.reciprocal", "reciprocal", NULL, "reciprocal", NULL)                                      \
    row(IADD, "operator.iadd", "add_.Tensor", "add_.Tensor", "add_", NULL)                                           \
    row(ISUB, "operator.isub", "sub_.Tensor", "sub_.Tensor", "sub_", NULL)                                           \
    row(IMUL, "operator.imul", "mul_.Tensor", "mul_.Tensor", "mul_", NULL)                                           \
    row(IDIV, "operator.itruediv", "div_.Tensor", "div_.Tensor", "div_", NULL)                                       \
    row(IPOW, "operator.ipow", "pow_.Tensor", "pow_.Scalar", "pow_", NULL)                                           \
    row(IFLOORDIV, "operator.ifloordiv", "floor_divide_.Tensor", "floor_divide_.Scalar", "floor_divide_", NULL)      \
    row(IMOD, "operator.imod", "remainder_.Tensor", "remainder_.Scalar", "remainder_", NULL)                         \
    row(ILSHIFT, "operator.ilshift", "bitwise_left_shift_.Tensor", "bitwise_left_shift_.Tensor_Scalar",\
        "__ilshift__", NULL) \
    row(IRSHIFT, "operator.irshift", "bitwise_right_shift_.Tensor", "bitwise_right_shift_.Tensor_Scalar",\
        "__irshift__", NULL) \
    row(IAND, "operator.iand", "bitwise_and_.Tensor", "bitwise_and_.Scalar", "__iand__", NULL)                       \
    row(IOR, "operator.ior", "bitwise_or_.Tensor", "bitwise_or_.Scalar", "__ior__", NULL)                            \
    row(IXOR, "operator.ixor", "bitwise_xor_.Tensor", "bitwise_xor_.Scalar", "__ixor__", NULL)
typedef enum number_op {
#define ROW(name, target, tensor, scalar, method, reflected) name,
    NUMBER_OPS(ROW)
#undef ROW
    N_NUMBER_OPS
} number_op;
static const struct { const char *target, *names[N_OTHERS], *method, *reflected; } rows[] = {
#define ROW(name, target, tensor, scalar, method, reflected) {target, {tensor, scalar}, method, reflected},
    NUMBER_OPS(ROW)
#undef ROW
};
static const nx_op *ops[N_NUMBER_OPS][N_OTHERS], *op_rpow, *op_full;

int nxpy_find_number_ops(void) {
    for (int k = 0; k < N_NUMBER_OPS; k++) {
        for (int other = 0; other < N_OTHERS; other++) {
            char name[64];
            if (rows[k].names[other] == NULL) continue;
            snprintf(name, sizeof name, "aten::%s", rows[k].names[other]);
            ops[k][other] = nx_op_get(name);
            if (ops[k][other]) continue;
            PyErr_Format(PyExc_SystemError, "%s, which stands behind %s, is missing", name, rows[k].target);
            return -1;
        }
    }
    op_rpow = nx_op_get("aten::pow.Scalar");
    op_full = nx_op_get("aten::full");
    if (op_rpow && op_full) return 0;
    PyErr_SetString(PyExc_SystemError, "aten::pow.Scalar or aten::full, which numbers on the left need, is missing");
    return -1;
}

/* A number of numpy's; its arrays have the operators for themselves. */
static bool read_numpy(PyObject *o, nx_value *out) {
    if (nxpy_numpy_number(o, out)) return true;
    if (strncmp(Py_TYPE(o)->tp_name, "numpy.", 6) != 0 || !PyIndex_Check(o) || nxpy_is_numpy_array(o)) return false;
    Py_ssize_t i = PyNumber_AsSsize_t(o, NULL);
    *out = nx_value_int(i);
    return true;
}

/* A tensor or a Python number; anything else is somebody else's operator. */
static bool read_operand(PyObject *o, nx_value *out) {
    if (NX_LIKELY(nxpy_is_plain(o))) *out = nx_value_tensor(nxpy_tensor_get(o));
    else if (nxpy_tensor_check(o)) {
        *out = nx_value_tensor(nxpy_tensor_get(o));
        return !nxpy_overrides(o);
    } else if (PyFloat_Check(o)) *out = nx_value_float(PyFloat_AS_DOUBLE(o));
    else if (PyBool_Check(o)) *out = nx_value_bool(o == Py_True);
    else if (PyLong_Check(o)) {
        int overflow;
        long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow) return false;
        *out = nx_value_int(i);
    } else if (PyComplex_Check(o)) *out = nxpy_complex_value(o);
    else return nxpy_symnumber_value(o, out) || read_numpy(o, out);
    return true;
}

/* Whether somebody answers for the operands: *answer. The tensor comes first. */
static bool asked(number_op k, PyObject *a, PyObject *b, PyObject **answer) {
    const char *name = nxpy_tensor_check(a) ? rows[k].method : rows[k].reflected;
    if (name == NULL) return false;
    return nxpy_tensor_check(a) ? nxpy_ask_method(name, a, &b, b != NULL, NULL, answer) : nxpy_ask_method(name, b, &a, 1, NULL, answer);
}
#define ASK_MODES(k, a, b)                                                                         \
    do {                                                                                           \
        PyObject *answer_;                                                                         \
        if (NX_UNLIKELY(nxpy_n_function_modes != 0) && asked(k, a, b, &answer_)) return answer_;   \
    } while (0)

/* A TypeError of who answers lets the language go on: to the other operand, then to its own error. */
static bool goes_on(PyObject *answer) {
    if (answer || !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear();
    return true;
}

/* Operands that are no tensors or numbers, or whose class answers. */
static PyObject *foreign(number_op k, PyObject *a, PyObject *b) {
    PyObject *answer;
    if (!asked(k, a, b, &answer)) Py_RETURN_NOTIMPLEMENTED;
    if (!goes_on(answer)) return answer;
    bool reflects = rows[k].reflected && nxpy_tensor_check(a) && nxpy_tensor_check(b) && Py_TYPE(a) != Py_TYPE(b);
    if (reflects && nxpy_ask_method(rows[k].reflected, b, &a, 1, NULL, &answer) && !goes_on(answer)) return answer;
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *call_named(const nx_op *op, const nx_value *in, const char *target) {
    nx_thread *thread = nx_thread_get();
    if (NX_LIKELY(thread->tracer == NULL)) return nxpy_call(op, in);
    thread->target = target;
    thread->target_is_method = false;
    PyObject *result = nxpy_call(op, in);
    thread->target = NULL;
    return result;
}

/* a OP b with the tensor in front. */
static PyObject *call_on(number_op k, const nx_value *left, const nx_value *right) {
    int other = right->tag == NX_TAG_TENSOR ? TENSOR : SCALAR;
    if (ops[k][other] == NULL) {
        return PyErr_Format(PyExc_NotImplementedError, "%s: a %s on the right is not there yet", rows[k].target,
                            other == TENSOR ? "tensor" : "number");
    }
    nx_value in[3] = {*left, *right, nx_value_int(1)}; /* the last is alpha, where there is one */
    return call_named(ops[k][other], in, rows[k].target);
}

static PyObject *call_alone(number_op k, PyObject *self) {
    NXPY_ASK(self, rows[k].method);
    nx_value in[1] = {nx_value_tensor(nxpy_tensor_get(self))};
    return call_named(ops[k][TENSOR], in, rows[k].target);
}

/* A number on the left changes places with the tensor where the operator commutes. */
static PyObject *commuting(number_op k, PyObject *a, PyObject *b) {
    nx_value left, right;
    ASK_MODES(k, a, b);
    if (!read_operand(a, &left) || !read_operand(b, &right)) return foreign(k, a, b);
    return NX_LIKELY(left.tag == NX_TAG_TENSOR) ? call_on(k, &left, &right) : call_on(k, &right, &left);
}

static PyObject *in_place(number_op k, PyObject *a, PyObject *b) {
    nx_value left, right;
    ASK_MODES(k, a, b);
    if (!read_operand(a, &left) || !read_operand(b, &right)) return foreign(k, a, b);
    return call_on(k, &left, &right);
}

static PyObject *subtract(PyObject *a, PyObject *b) {
    nx_value left, right;
    ASK_MODES(SUB, a, b);
    if (!read_operand(a, &left) || !read_operand(b, &right)) return foreign(SUB, a, b);
    return left.tag == NX_TAG_TENSOR ? call_on(SUB, &left, &right) : call_on(RSUB, &right, &left);
}

/* 2 / x: as PyTorch, 2 times one over x; an array of numpy's likewise. */
static PyObject *divide(PyObject *a, PyObject *b) {
    nx_value left, right;
    ASK_MODES(DIV, a, b);
    bool reads = read_operand(a, &left) && read_operand(b, &right), is_array = !reads && nxpy_is_numpy_array(a) && nxpy_is_plain(b);
    if (!reads && !is_array) return foreign(DIV, a, b);
    if (NX_LIKELY(reads && left.tag == NX_TAG_TENSOR)) return call_on(DIV, &left, &right);
    PyObject *one_over = call_alone(RECIPROCAL, b);
    PyObject *result = !one_over ? NULL : is_array ? PyNumber_Multiply(one_over, a) : commuting(MUL, one_over, a);
    Py_XDECREF(one_over);
    return result;
}

static PyObject *power(PyObject *a, PyObject *b, PyObject *modulus) {
    nx_value left, right;
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    ASK_MODES(POW, a, b);
    if (!read_operand(a, &left) || !read_operand(b, &right)) return foreign(POW, a, b);
    if (left.tag == NX_TAG_TENSOR) return call_on(POW, &left, &right);
    return call_named(op_rpow, (nx_value[]){left, right}, "operator.pow");
}

/* A tensor of the number, in the dtype in which it takes part in promotion beside `other`. */
static nx_status tensor_beside(nx_value number, const nx_tensor *other, nx_value *out) {
    nx_dtype dtype = (nx_dtype)other->a.dtype;
    if (number.tag == NX_TAG_FLOAT && !nx_is_differentiable(dtype)) dtype = nx_default_dtype();
    else if (number.tag == NX_TAG_INT && dtype == NX_BOOL) dtype = NX_I64;
    else if (number.tag == NX_TAG_BOOL) dtype = NX_BOOL;
    else if (number.tag == NX_TAG_COMPLEX && !nx_is_complex(dtype))
        dtype = nx_dtype_complex(nx_is_float(dtype) ? dtype : nx_default_dtype());
    nx_value make[] = {nx_value_ints(NULL, 0), number, nx_value_dtype(dtype), NX_VALUE_NONE,
                       {.tag = NX_TAG_DEVICE, .device = other->a.device}, NX_VALUE_NONE};
    return nx_op_call(op_full, make, out);
}

/* number // x where the operator takes no number there. */
static PyObject *call_with_scalar_tensor(number_op k, nx_value number, const nx_value *right) {
    nx_value left;
    NXPY_TRY(tensor_beside(number, right->tensor, &left));
    PyObject *result = call_named(ops[k][TENSOR], (nx_value[]){left, *right}, rows[k].target);
    nx_value_drop(&left);
    return result;
}

PyObject *nxpy_number_tensor(PyObject *number, PyObject *other) {
    nx_value value, out;
    if (!read_operand(number, &value) || value.tag == NX_TAG_TENSOR) return PyErr_Format(PyExc_TypeError, "a number is expected");
    if (nxpy_tensor_check(other)) {
        NXPY_TRY(tensor_beside(value, nxpy_tensor_get(other), &out));
        return nxpy_tensor_take(out.tensor);
    }
    nx_dtype dtype = value.tag == NX_TAG_FLOAT ? nx_default_dtype() : value.tag == NX_TAG_BOOL ? NX_BOOL : NX_I64;
    if (value.tag == NX_TAG_COMPLEX) dtype = nx_dtype_complex(nx_default_dtype());
    nx_value make[] = {nx_value_ints(NULL, 0), value, nx_value_dtype(dtype), NX_VALUE_NONE, NX_VALUE_NONE, NX_VALUE_NONE};
    NXPY_TRY(nx_op_call(op_full, make, &out));
    return nxpy_tensor_take(out.tensor);
}

/* A number on the left is an operand like a tensor: 7 % x. */
static PyObject *ordered(number_op k, PyObject *a, PyObject *b) {
    nx_value left, right;
    ASK_MODES(k, a, b);
    if (!read_operand(a, &left) || !read_operand(b, &right)) return foreign(k, a, b);
    if (left.tag == NX_TAG_TENSOR) return call_on(k, &left, &right);
    if (ops[k][TENSOR]->def->params[0].number_too)
        return call_named(ops[k][TENSOR], (nx_value[]){left, right}, rows[k].target);
    return call_with_scalar_tensor(k, left, &right);
}
static PyObject *power_in_place(PyObject *a, PyObject *b, PyObject *modulus) {
    (void)modulus;
    return in_place(IPOW, a, b);
}

PyObject *nxpy_tensor_compare(PyObject *a, PyObject *b, int word) {
    static const number_op of[] = {[Py_LT] = LT, [Py_LE] = LE, [Py_EQ] = EQ, [Py_NE] = NE, [Py_GT] = GT, [Py_GE] = GE};
    if (NX_LIKELY(!nxpy_is_numpy_array(b))) return in_place(of[word], a, b);
    PyObject *other = nxpy_from_numpy(b), *result = other ? in_place(of[word], a, other) : NULL;
    Py_XDECREF(other);
    return result;
}

#define BINARY(function, rule, k) \
    static PyObject *function(PyObject *a, PyObject *b) { return rule(k, a, b); }
BINARY(add, commuting, ADD)
BINARY(multiply, commuting, MUL)
BINARY(and, commuting, AND)
BINARY(or, commuting, OR)
BINARY(xor, commuting, XOR)
BINARY(floor_divide, ordered, FLOORDIV)
BINARY(modulo, ordered, MOD)
BINARY(shift_left, ordered, LSHIFT)
BINARY(shift_right, ordered, RSHIFT)
BINARY(floor_divide_in_place, in_place, IFLOORDIV)
BINARY(modulo_in_place, in_place, IMOD)
BINARY(shift_left_in_place, in_place, ILSHIFT)
BINARY(shift_right_in_place, in_place, IRSHIFT)
BINARY(add_in_place, in_place, IADD)
BINARY(subtract_in_place, in_place, ISUB)
BINARY(multiply_in_place, in_place, IMUL)
BINARY(divide_in_place, in_place, IDIV)
BINARY(and_in_place, in_place, IAND)
BINARY(or_in_place, in_place, IOR)
BINARY(xor_in_place, in_place, IXOR)
#undef BINARY

static PyObject *matrix_multiply(PyObject *a, PyObject *b) {
    if (!nxpy_tensor_check(a) || !nxpy_tensor_check(b)) return foreign(MATMUL, a, b);
    return in_place(MATMUL, a, b);
}
static PyObject *negative(PyObject *self) { return call_alone(NEG, self); }
static PyObject *positive(PyObject *self) {
    NXPY_ASK(self, "positive");
    return Py_NewRef(self);
}
static PyObject *absolute(PyObject *self) { return call_alone(ABS, self); }
static PyObject *invert(PyObject *self) {
    nx_dtype dtype = (nx_dtype)nxpy_tensor_get(self)->a.dtype;
    if (!nx_is_float(dtype) && !nx_is_complex(dtype)) return call_alone(NOT, self);
    PyErr_SetString(PyExc_TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return NULL;
}

/* ---- one element as a number --------------------------------------------------------------------------------------- */
static int truth(PyObject *self) {
    PyObject *answer;
    if (nxpy_ask_before("__bool__", self, NULL, 0, NULL, &answer)) {
        int known = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        return known;
    }
    nx_tensor *t = nxpy_tensor_get(self);
    if (t->a.numel != 1) {
        PyErr_Format(PyExc_RuntimeError, "Boolean value of Tensor with %s is ambiguous",
                     t->a.numel == 0 ? "no values" : "more than one value");
        return -1;
    }
    PyObject *item = nxpy_tensor_item(self, NULL);
    int result = item ? PyObject_IsTrue(item) : -1;
    Py_XDECREF(item);
    return result;
}
static PyObject *converted(PyObject *self, PyObject *(*convert)(PyObject *)) {
    PyObject *item = nxpy_tensor_item(self, NULL), *result = item ? convert(item) : NULL;
    Py_XDECREF(item);
    return result;
}
static PyObject *to_float(PyObject *self) {
    NXPY_ASK(self, "__float__");
    return converted(self, PyNumber_Float);
}
static PyObject *to_int(PyObject *self) {
    NXPY_ASK(self, "__int__");
    return converted(self, PyNumber_Long);
}
static PyObject *to_index(PyObject *self) {
    NXPY_ASK(self, "__index__");
    nx_tensor *t = nxpy_tensor_get(self);
    if (t->a.numel != 1 || nx_is_differentiable(t->a.dtype)) {
        PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
        return NULL;
    }
    return converted(self, PyNumber_Index);
}

PyNumberMethods nxpy_tensor_numbers = {
    .nb_add = add, .nb_subtract = subtract, .nb_multiply = multiply, .nb_true_divide = divide, .nb_power = power,
    .nb_matrix_multiply = matrix_multiply, .nb_and = and, .nb_or = or, .nb_xor = xor, .nb_negative = negative,
    .nb_positive = positive, .nb_absolute = absolute, .nb_invert = invert, .nb_inplace_add = add_in_place,
    .nb_inplace_subtract = subtract_in_place, .nb_inplace_multiply = multiply_in_place,
    .nb_inplace_true_divide = divide_in_place, .nb_inplace_power = power_in_place, .nb_inplace_and = and_in_place,
    .nb_floor_divide = floor_divide, .nb_remainder = modulo, .nb_lshift = shift_left, .nb_rshift = shift_right,
    .nb_inplace_floor_divide = floor_divide_in_place, .nb_inplace_remainder = modulo_in_place,
    .nb_inplace_lshift = shift_left_in_place, .nb_inplace_rshift = shift_right_in_place,
    .nb_inplace_or = or_in_place, .nb_inplace_xor = xor_in_place, .nb_bool = truth, .nb_float = to_float,
    .nb_int = to_int, .nb_index = to_index};
