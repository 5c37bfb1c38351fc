/* CPython 3.14: the copy of a code object that runs one instruction.
 *
 * In: code. Out: a copy in which INTERPRETER_EXIT follows the instruction, wherever it goes.
 * What must hold: INTERPRETER_EXIT is made for frames of the interpreter's own. It wants a value on top, of which it takes a
 * reference where that is lent, and lets the frame's first value go: what runs beneath, for the just-in-time compiler. So each
 * place that the instruction may go to jumps to units which put the first value away onto the stack, push the place's number and
 * exit with it.
 * Next: since312.c, which runs the copy. */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <frameobject.h>
#include <opcode.h>
#include <internal/pycore_interpframe.h>

#include "cpython/private.h"

enum { MOST_TARGETS = 3, UNITS = 3, VALUES = 2 };

static int find_targets(const nxpy_view *view, int first, int last, int *out) {
    int n = 0;
    nxpy_catcher catcher;
    nxpy_instr in = nxpy_instr_own(view, first);
    out[n++] = last;
    if (in.means == NXPY_MEANS_JUMP || in.means == NXPY_MEANS_JUMP_BACK) out[n++] = in.arg - (in.op == NXPY_OP_for_iter); /* POP_ITER */
    if (nxpy_catcher_find(view, first, &catcher)) out[n++] = catcher.unit;
    return n;
}

bool nxpy__may_step(PyThreadState *thread, const nxpy_view *view, nxpy_frame *frame, int depth) {
    if (thread->current_executor) return false; /* the interpreter's entry would keep it */
    bool last = frame->owner == FRAME_OWNED_BY_THREAD; /* on the thread's stack */
    return depth + VALUES <= view->code->co_stacksize || (last && thread->datastack_limit - thread->datastack_top >= VALUES);
}

/* UNITS units behind `unit` of which none is in [first, last) or among the taken ones, which they are from then on. */
static int take_units(int unit, int first, int last, int *taken, int *n) {
    for (int j = 0; j < UNITS;) {
        bool free = unit + j < first || unit + j >= last;
        for (int k = 0; k < *n; k++) free = free && unit + j != taken[k];
        j = free ? j + 1 : (unit += j + 1, 0);
    }
    for (int j = 0; j < UNITS; j++) taken[(*n)++] = unit + j;
    return unit;
}

/* As many units longer as those of all places and what may stand between them want. */
static PyObject *longer_copy(PyCodeObject *code) {
    PyObject *text = PyObject_GetAttrString((PyObject *)code, "co_code"), *copy = NULL;
    Py_ssize_t n = text ? PyBytes_GET_SIZE(text) : 0, spare = (Py_ssize_t)sizeof(_Py_CODEUNIT) * 2 * UNITS * MOST_TARGETS;
    PyObject *longer = text ? PyBytes_FromStringAndSize(NULL, n + spare) : NULL;
    PyObject *replace = longer ? PyObject_GetAttrString((PyObject *)code, "replace") : NULL, *names = Py_BuildValue("(s)", "co_code");
    if (replace && names) {
        memcpy(PyBytes_AS_STRING(longer), PyBytes_AS_STRING(text), (size_t)n);
        memset(PyBytes_AS_STRING(longer) + n, 0, (size_t)spare);
        copy = PyObject_Vectorcall(replace, &longer, 0, names);
    }
    Py_XDECREF(names);
    Py_XDECREF(replace);
    Py_XDECREF(longer);
    Py_XDECREF(text);
    return copy;
}

static bool has_values(const nxpy_view *view, int first, int last, int at, int depth) {
    return view->n_locals + nxpy__depth_after(view, first, last, at, depth) > 0;
}

PyObject *nxpy__stepper_new(const nxpy_view *view, int first, int last, int depth) {
    int targets[MOST_TARGETS], n = find_targets(view, first, last, targets), taken[MOST_TARGETS * (1 + UNITS)], n_taken = n;
    PyCodeObject *copy = (PyCodeObject *)longer_copy(view->code);
    if (!copy) return NULL;
    for (int k = 0; k < Py_SIZE(copy); k++) {
        if (k < first || k >= last) nxpy__unit_set(copy, k, nxpy__stop_opcode, 0);
    }
    nxpy__units_copy(copy, view->code, first, last);
    memcpy(taken, targets, sizeof targets);
    for (int k = 0; k < n; k++) {
        int at = take_units(targets[k] + 1, first, last, taken, &n_taken);
        nxpy__unit_set(copy, targets[k], JUMP_FORWARD, at - targets[k] - 1);
        nxpy__unit_set(copy, at, has_values(view, first, last, targets[k], depth) ? LOAD_FAST_AND_CLEAR : NOP, 0);
        nxpy__unit_set(copy, at + 1, LOAD_SMALL_INT, k);
    }
    return (PyObject *)copy;
}

int nxpy__stepped_to(PyThreadState *thread, const nxpy_view *view, nxpy_frame *frame, int first, int last, int depth, PyObject *result) {
    int targets[MOST_TARGETS], k = (int)PyLong_AsLong(result);
    (void)find_targets(view, first, last, targets);
    thread->current_executor = NULL;
    if (has_values(view, first, last, targets[k], depth)) {
        frame->localsplus[0] = frame->localsplus[view->n_locals + nxpy__depth_after(view, first, last, targets[k], depth)];
    }
    return targets[k];
}
