/* What a listener hears of an instruction.
 *
 * In: a loop at an instruction. Out: an event with its name, its argument and the stack as PyTorch's logs print them.
 * Next: py/notes/log.c. */
#include "loop/private.h"

#include <opcode.h>

/* What dynamo would call the stack entry. */
static PyObject *short_repr(nxpy_trace *trace, PyObject *value) {
    if (!value) return PyUnicode_FromString("NullVariable");
    if (nxpy_tensor_check(value)) return PyUnicode_FromString(nxpy__is_fake(trace, value) ? "TensorVariable()" : "LazyVariableTracker()");
    if (PyModule_Check(value)) {
        const char *name = PyModule_GetName(value);
        if (!name) PyErr_Clear();
        return PyUnicode_FromFormat("PythonModuleVariable(<module '%s'>)", name ? name : "?");
    }
    if (nxpy_constant_check(value)) return PyUnicode_FromFormat("ConstantVariable(%s: %R)", Py_TYPE(value)->tp_name, value);
    if (nxpy_function_check(value)) return PyUnicode_FromFormat("TorchInGraphFunctionVariable(%R)", value);
    if (PyFunction_Check(value)) return PyUnicode_FromString("UserFunctionVariable()");
    if (PyMethod_Check(value)) return PyUnicode_FromString("UserMethodVariable()");
    if (PyList_CheckExact(value)) return PyUnicode_FromFormat("ListVariable(length=%zd)", Py_SIZE(value));
    if (PyTuple_CheckExact(value)) return PyUnicode_FromFormat("TupleVariable(length=%zd)", Py_SIZE(value));
    if (PyDict_CheckExact(value)) return PyUnicode_FromString("ConstDictVariable()");
    const char *kind = PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) ? "UserDefinedObjectVariable" : "BuiltinVariable";
    return PyUnicode_FromFormat("%s(%s)", kind, Py_TYPE(value)->tp_name);
}

typedef enum argument_kind { NONE = 1, INT, NAME, GLOBAL, CONST, LOCAL, JUMP, JUMP_BACK, COMPARE } argument_kind;
static const uint8_t argument_kinds[256] = {
#define NXPY_OPCODE_ROW(name, handler, argument) [name] = argument,
#include "loop/opcodes.def"
#undef NXPY_OPCODE_ROW
};

static PyObject *argument_object(const nxpy_loop *loop) {
    static const char *const comparisons[] = {"<", "<=", "==", "!=", ">", ">="};
    PyCodeObject *code = loop->view.code;
    int arg = loop->in.arg;
    switch ((argument_kind)argument_kinds[loop->in.op]) {
    case NAME: return Py_NewRef(PyTuple_GET_ITEM(code->co_names, arg));
    case GLOBAL: return Py_NewRef(PyTuple_GET_ITEM(code->co_names, arg >> 1));
    case CONST: return PyObject_Repr(PyTuple_GET_ITEM(code->co_consts, arg));
    case LOCAL: return Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, arg));
    case JUMP: return PyUnicode_FromFormat("to %d", 2 * (loop->in.next + arg));
    case JUMP_BACK: return PyUnicode_FromFormat("to %d", 2 * (loop->in.next - arg));
    case COMPARE: return PyUnicode_FromString(comparisons[arg]);
    case INT: return PyLong_FromLong(arg);
    case NONE: return Py_NewRef(Py_None);
    }
    return Py_NewRef(Py_None);
}

void nxpy__log_instruction(nxpy_loop *loop) {
    nxpy_aside a = nxpy__aside_begin();
    PyObject *stack = PyList_New(0), *argument = argument_object(loop);
    for (PyObject **at = loop->view.locals + loop->view.n_locals; stack && at < loop->top; at++) {
        PyObject *text = short_repr(loop->trace, *at);
        if (!text || PyList_Append(stack, text) < 0) Py_CLEAR(stack);
        Py_XDECREF(text);
    }
    if (stack && argument) {
        nxpy__log_event("opcode", "{sssOsO}", "name", nxpy_opcode_name(loop->in.op), "argrepr", argument, "stack", stack);
    }
    Py_XDECREF(stack);
    Py_XDECREF(argument);
    nxpy__aside_end(a);
}
