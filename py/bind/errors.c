/* Statuses as Python exceptions, and back. */
#include "bind/bind.h"

static PyObject *exception_of(nx_status status) {
    switch (status) {
#define NX_ERROR_ROW(code, exception, meaning) \
    case NX_##code: return PyExc_##exception;
#include "narthex/errors.def"
#undef NX_ERROR_ROW
    default: return PyExc_SystemError;
    }
}

PyObject *nxpy_raise(nx_status status) {
    if (status == NX_PYTHON && PyErr_Occurred()) return NULL;
    PyErr_SetString(exception_of(status), nx_error_message());
    return NULL;
}

nx_status nxpy_caught(void) { return nx_fail(NX_PYTHON, "a Python exception was raised"); }
