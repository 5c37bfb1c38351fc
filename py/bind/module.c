/* narthex._C: the extension module. Each part adds its names. Statuses as Python exceptions, and back. */
#include "bind/memory.h"

#define PyExc_LinAlgError nxpy_linalg_error

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
    PyErr_SetString(status == NX_DATA ? nxpy_fake_error : exception_of(status), nx_error_message());
    return NULL;
}

nx_status nxpy_caught(void) { return nx_fail(NX_PYTHON, "a Python exception was raised"); }

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "narthex._C", .m_size = -1,
                                        .m_doc = "Narthex's C side. Use the package narthex instead."};

PyMODINIT_FUNC PyInit__C(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
    int (*const parts[])(PyObject *) = {nxpy_add_size, nxpy_add_tensor, nxpy_add_autograd, nxpy_add_memory, nxpy_add_functions,
                                        nxpy_add_runtime, nxpy_add_graph, nxpy_add_modules, nxpy_add_capture};
    for (int i = 0; i < NX_COUNT(parts); i++) {
        if (parts[i](module) == 0) continue;
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
