/* The operators of the language on tensors: + * @ and their in-place forms, bool(), int(), float(). */
#include "bind/private.h"

static const nx_op *op_add, *op_mul, *op_matmul, *op_add_in_place, *op_mul_in_place;

int nxpy_find_number_ops(void) {
    op_add = nx_op_get("aten::add.Tensor");
    op_mul = nx_op_get("aten::mul.Tensor");
    op_matmul = nx_op_get("aten::matmul");
    op_add_in_place = nx_op_get("aten::add_.Tensor");
    op_mul_in_place = nx_op_get("aten::mul_.Tensor");
    if (op_add && op_mul && op_matmul && op_add_in_place && op_mul_in_place) return 0;
    PyErr_SetString(PyExc_SystemError, "an operator behind + * or @ is missing");
    return -1;
}

/* A tensor or a Python number; anything else is somebody else's operator. */
static bool read_operand(PyObject *o, nx_value *out) {
    if (nxpy_tensor_check(o)) *out = nx_value_tensor(nxpy_tensor_get(o));
    else if (PyFloat_Check(o)) *out = nx_value_float(PyFloat_AS_DOUBLE(o));
    else if (PyBool_Check(o)) *out = nx_value_bool(o == Py_True);
    else if (PyLong_Check(o)) {
        int overflow;
        long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow) return false;
        *out = nx_value_int(i);
    } else return false;
    return true;
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

static PyObject *add(PyObject *a, PyObject *b) {
    nx_value in[3];
    if (!read_operand(a, &in[0]) || !read_operand(b, &in[1])) Py_RETURN_NOTIMPLEMENTED;
    if (in[0].tag != NX_TAG_TENSOR) { /* 2 + x: addition commutes, and the first argument must be a tensor */
        nx_value number = in[0];
        in[0] = in[1];
        in[1] = number;
    }
    in[2] = nx_value_int(1);
    return call_named(op_add, in, "operator.add");
}
static PyObject *multiply(PyObject *a, PyObject *b) {
    nx_value in[2];
    if (!read_operand(a, &in[0]) || !read_operand(b, &in[1])) Py_RETURN_NOTIMPLEMENTED;
    if (in[0].tag != NX_TAG_TENSOR) {
        nx_value number = in[0];
        in[0] = in[1];
        in[1] = number;
    }
    return call_named(op_mul, in, "operator.mul");
}
static PyObject *matrix_multiply(PyObject *a, PyObject *b) {
    if (!nxpy_tensor_check(a) || !nxpy_tensor_check(b)) Py_RETURN_NOTIMPLEMENTED;
    nx_value in[2] = {nx_value_tensor(nxpy_tensor_get(a)), nx_value_tensor(nxpy_tensor_get(b))};
    return call_named(op_matmul, in, "operator.matmul");
}
static PyObject *add_in_place(PyObject *a, PyObject *b) {
    nx_value in[3] = {NX_VALUE_NONE, NX_VALUE_NONE, nx_value_int(1)};
    if (!read_operand(a, &in[0]) || !read_operand(b, &in[1])) Py_RETURN_NOTIMPLEMENTED;
    return call_named(op_add_in_place, in, "operator.iadd");
}
static PyObject *multiply_in_place(PyObject *a, PyObject *b) {
    nx_value in[2];
    if (!read_operand(a, &in[0]) || !read_operand(b, &in[1])) Py_RETURN_NOTIMPLEMENTED;
    return call_named(op_mul_in_place, in, "operator.imul");
}

/* ---- one element as a number --------------------------------------------------------------------------------------- */
static int truth(PyObject *self) {
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
static PyObject *to_float(PyObject *self) { return converted(self, PyNumber_Float); }
static PyObject *to_int(PyObject *self) { return converted(self, PyNumber_Long); }
static PyObject *to_index(PyObject *self) {
    nx_tensor *t = nxpy_tensor_get(self);
    if (t->a.numel != 1 || nx_is_float(t->a.dtype)) {
        PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
        return NULL;
    }
    return converted(self, PyNumber_Index);
}

PyNumberMethods nxpy_tensor_numbers = {.nb_add = add, .nb_multiply = multiply, .nb_matrix_multiply = matrix_multiply,
                                       .nb_inplace_add = add_in_place, .nb_inplace_multiply = multiply_in_place, .nb_bool = truth,
                                       .nb_float = to_float, .nb_int = to_int, .nb_index = to_index};
