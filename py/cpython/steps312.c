/* CPython 3.12 and 3.13: the copy of a code object that runs one instruction.
 *
 * In: code. Out: a copy in which INTERPRETER_EXIT stands everywhere else.
 * What must hold: INTERPRETER_EXIT gives the value on top to a caller that takes no reference, whatever that value is.
 * Next: since312.c, which runs the copy. */
#define Py_BUILD_CORE 1
#include <Python.h>

#include "cpython/private.h"

bool nxpy__may_step(PyThreadState *thread, const nxpy_view *view, nxpy_frame *frame, int depth) { return true; }

PyObject *nxpy__stepper_new(const nxpy_view *view, int first, int last, int depth) { /* quickened forms may do the next one, too */
    PyObject *copy = PyObject_CallMethod((PyObject *)view->code, "replace", NULL); /* not yet specialised */
    if (!copy) return NULL;
    for (int k = 0; k < Py_SIZE(copy); k++) {
        if (k < first || k >= last) nxpy__unit_set((PyCodeObject *)copy, k, nxpy__stop_opcode, 0);
    }
    nxpy__units_copy((PyCodeObject *)copy, view->code, first, last);
    return copy;
}

int nxpy__stepped_to(PyThreadState *thread, const nxpy_view *view, nxpy_frame *frame, int first, int last, int depth, PyObject *result) {
    return nxpy__frame_at(frame);
}
