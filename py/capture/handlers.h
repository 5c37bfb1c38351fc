/* Shared by the files of handlers. */
#ifndef NXPY_CAPTURE_HANDLERS_H
#define NXPY_CAPTURE_HANDLERS_H

#include "capture/capture.h"

/* The stack entry k places below the top, replaced by what stands for it in the trace. Lent; NULL: stopped. */
static inline PyObject *nxpy__use_top(nxpy_loop *loop, int k) {
    PyObject *value = loop->top[-k];
    if (!value) {
        nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "an empty stack entry");
        return NULL;
    }
    PyObject *use = nxpy__use(loop->trace, value);
    if (use && use != value) {
        Py_INCREF(use);
        loop->top[-k] = use;
        Py_DECREF(value);
    }
    return use;
}
#define USE(k) nxpy__use_top(loop, k)

/* Replaces the top n values by `result` (taken); admits it. -1: stopped, nothing changed but effects may remain. */
int nxpy__finish(nxpy_loop *loop, int n, PyObject *result);
/* 1: the class of this instance defines the special method in Python, guarded: calling it inlines it. 0: no. -1. */
int nxpy__python_special(nxpy_trace *trace, PyObject *object, const char *special);
int nxpy__truth(nxpy_trace *trace, PyObject *value);

#define NXPY_OPCODE_ROW(name, handler, argument) nxpy_handler op_##handler;
#include "capture/opcodes.def"
#undef NXPY_OPCODE_ROW

#endif
