/* What a listener hears of an instruction.
 *
 * In: a loop at an instruction. Out: an event with its name, its argument and the stack as PyTorch's logs print them.
 * Next: py/notes/log.c. */
#include "loop/private.h"

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
    const char *kind = nxpy__may_change(Py_TYPE(value)) ? "UserDefinedObjectVariable" : "BuiltinVariable";
    return PyUnicode_FromFormat("%s(%s)", kind, Py_TYPE(value)->tp_name);
}

static PyObject *argument_object(PyCodeObject *code, const nxpy_instr *in) {
    static const char *const comparisons[] = {"<", "<=", "==", "!=", ">", ">="};
    switch (in->means) {
    case NXPY_MEANS_NAME:
    case NXPY_MEANS_ATTRIBUTE:
    case NXPY_MEANS_SUPER:
    case NXPY_MEANS_GLOBAL: return Py_NewRef(PyTuple_GET_ITEM(code->co_names, in->arg));
    case NXPY_MEANS_CONST: return PyObject_Repr(PyTuple_GET_ITEM(code->co_consts, in->arg));
    case NXPY_MEANS_LOCALS:
    case NXPY_MEANS_LOCAL: return Py_NewRef(nxpy_local_name(code, in->arg));
    case NXPY_MEANS_JUMP:
    case NXPY_MEANS_JUMP_BACK: return PyUnicode_FromFormat("to %d", 2 * in->arg);
    case NXPY_MEANS_COMPARE: return PyUnicode_FromString(comparisons[in->arg]);
    case NXPY_MEANS_OPERATOR:
    case NXPY_MEANS_INTRINSIC:
    case NXPY_MEANS_INT: return PyLong_FromLong(in->arg);
    case NXPY_MEANS_NONE: return Py_NewRef(Py_None);
    }
    return Py_NewRef(Py_None);
}

void nxpy__log_instruction(nxpy_loop *loop) {
    nxpy_aside a = nxpy__aside_begin();
    PyObject *stack = PyList_New(0);
    for (int k = loop->depth; stack && k > 0; k--) {
        PyObject *value = nxpy__at(loop, k);
        PyObject *text = short_repr(loop->trace, value);
        if (!text || PyList_Append(stack, text) < 0) Py_CLEAR(stack);
        Py_XDECREF(text);
    }
    for (nxpy_instr in = {.next = loop->in.start}; stack && in.next < loop->in.next;) { /* CPython's own, one by one */
        in = nxpy_instr_own(&loop->view, in.next);
        PyObject *argument = argument_object(loop->view.code, &in);
        if (argument) nxpy__log_event("opcode", "{sssOsO}", "name", nxpy_opcode_name(in.own), "argrepr", argument, "stack", stack);
        Py_XDECREF(argument);
    }
    Py_XDECREF(stack);
    nxpy__aside_end(a);
}
