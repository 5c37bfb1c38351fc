/* CPython 3.12 and later: single instructions run by the interpreter's own loop, and the end of a frame.
 *
 * In: frames of the running thread. Out: the frame behind the instruction, or cleared.
 * What must hold, as the interpreter has it since 3.12:
 * - who evaluates a frame clears it and takes it off the thread's stack, with a result as with an exception;
 * - INTERPRETER_EXIT returns from the loop and leaves the frame as it is, but for its depth. A copy of the code in which that
 *   follows one instruction, wherever it jumps and whatever handler an exception finds, runs just that one and stops; the depth
 *   follows from the instruction and from where it stopped.
 * Next: steps312.c and steps314.c, for such copies. */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <frameobject.h>
#include <opcode.h>
#include <internal/pycore_frame.h>

#include "cpython/private.h"

void nxpy__units_copy(PyCodeObject *copy, PyCodeObject *code, int first, int last) {
    for (int k = first; k < last;) {
        int opcode = nxpy__base_opcode(code, k);
        nxpy__unit_set(copy, k, opcode, nxpy__opcode_argument(code, k));
        k += 1 + nxpy__opcode_caches(opcode);
    }
}

/* The opcode at `unit` with its prefixes: its own unit and whole argument. */
static int whole_opcode(PyCodeObject *code, int *unit, int *argument) {
    int opcode;
    *argument = 0;
    while ((opcode = nxpy__base_opcode(code, *unit)) == nxpy__prefix_opcode) {
        *argument = (*argument | nxpy__opcode_argument(code, *unit)) << 8;
        ++*unit;
    }
    *argument |= nxpy__opcode_argument(code, *unit);
    return opcode;
}

/* What the instructions in units [first, last) add to the stack. */
static int stack_effect(PyCodeObject *code, int first, int last, bool jumped) {
    int effect = 0, argument;
    for (int unit = first; unit < last;) {
        int opcode = whole_opcode(code, &unit, &argument);
        unit += 1 + nxpy__opcode_caches(opcode);
        int with_argument = opcode >= HAVE_ARGUMENT ? argument : 0;
        effect += PyCompile_OpcodeStackEffectWithJump(opcode, with_argument, unit >= last && jumped);
    }
    return effect;
}

int nxpy__depth_after(const nxpy_view *view, int first, int last, int at, int depth) {
    nxpy_catcher catcher;
    if (nxpy_catcher_find(view, first, &catcher) && at == catcher.unit) return catcher.depth + catcher.pushes_unit + 1;
    return depth + stack_effect(view->code, first, last, at != last);
}

/* The most values that the instructions may leave on the stack. */
static int most_depth(const nxpy_view *view, int first, int last, int depth) {
    nxpy_catcher catcher;
    int on = depth + stack_effect(view->code, first, last, false), jumped = depth + stack_effect(view->code, first, last, true);
    int caught = nxpy_catcher_find(view, first, &catcher) ? catcher.depth + catcher.pushes_unit + 1 : 0;
    int most = on > jumped ? on : jumped;
    return most > caught ? most : caught;
}

PyObject *nxpy_frame_step(PyThreadState *thread, nxpy_frame *frame, int first, int last, PyObject **stepper, bool *stopped) {
    nxpy_view view;
    int depth = nxpy_frame_depth(frame);
    nxpy_frame_view(frame, &view);
    *stopped = false;
    if (!nxpy__may_step(thread, &view, frame, most_depth(&view, first, last, depth))) { /* the interpreter runs the rest */
        nxpy_frame_set(frame, first, depth);
        return _PyEval_EvalFrameDefault(thread, frame, 0);
    }
    if (!*stepper && !(*stepper = nxpy__stepper_new(&view, first, last, depth))) return NULL;
    PyCodeObject *copy = (PyCodeObject *)Py_NewRef(*stepper);
    nxpy__frame_code_set(frame, copy); /* it owns this one, and we meanwhile the other */
    nxpy_frame_set(frame, first, depth);
    void *chain = nxpy__chain(thread);
    PyObject *result = _PyEval_EvalFrameDefault(thread, frame, 0);
    if (nxpy__frame_is_over(thread, frame)) {
        Py_DECREF(view.code);
        return result;
    }
    nxpy__chain_back(thread, chain);
    thread->py_recursion_remaining++; /* a return would have done it */
    int at = nxpy__stepped_to(thread, &view, frame, first, last, depth, result);
    nxpy__frame_code_set(frame, view.code);
    Py_DECREF(copy);
    nxpy_frame_set(frame, at, nxpy__depth_after(&view, first, last, at, depth));
    nxpy_frame_view(frame, &view); /* what the instruction has left is the frame's own */
    *stopped = true;
    return NULL;
}

static void cut_stack(nxpy_view *view, int depth, int to) {
    for (; depth > to; depth--) nxpy_value_put(view, view->n_locals + depth - 1, NULL);
}

PyObject *nxpy_frame_throw(PyThreadState *thread, nxpy_frame *frame, PyObject **thrower, bool *stopped) {
    nxpy_view view;
    nxpy_link link;
    nxpy_catcher catcher;
    int at = nxpy__frame_at(frame), depth = nxpy_frame_depth(frame);
    nxpy_frame_view(frame, &view);
    *stopped = false;
    if (nxpy_thread_is_traced(thread)) { /* a debugger sees the rest */
        nxpy_frame_set(frame, at + 1, depth);
        return _PyEval_EvalFrameDefault(thread, frame, 1);
    }
    PyObject *error = PyErr_GetRaisedException();
    if (nxpy_frame_enter(thread, frame, &link) < 0) return Py_XDECREF(error), NULL;
    PyFrameObject *object = PyEval_GetFrame(); /* this one's */
    PyErr_SetRaisedException(error);
    if (object) (void)PyTraceBack_Here(object);
    nxpy_frame_leave(thread, &link);
    if (!nxpy_catcher_find(&view, at, &catcher)) return NULL;
    PyObject *unit = catcher.pushes_unit ? nxpy_catcher_unit(at) : NULL;
    if (catcher.pushes_unit && !unit) return NULL;
    error = PyErr_GetRaisedException();
    cut_stack(&view, depth, catcher.depth);
    depth = catcher.depth;
    if (unit) nxpy_value_set(&view, view.n_locals + depth++, unit);
    nxpy_value_set(&view, view.n_locals + depth++, error);
    nxpy_frame_set(frame, catcher.unit, depth);
    *stopped = true;
    return NULL;
}

/* A unit that returns: the value on the stack, or (only if there is no such) a constant. */
static int find_return(PyCodeObject *code, bool *takes) {
    int found = -1, argument;
    for (int unit = 0; unit < Py_SIZE(code);) {
        int first = unit, opcode = whole_opcode(code, &unit, &argument);
        unit += 1 + nxpy__opcode_caches(opcode);
        if (opcode == nxpy__return_opcode) return *takes = true, first;
        if (opcode == nxpy__return_const_opcode) found = first;
    }
    *takes = false;
    return found;
}

static PyObject *end_with(PyThreadState *thread, nxpy_frame *frame, nxpy_view *view, PyObject *result) {
    bool takes;
    int unit = find_return(view->code, &takes);
    if (unit < 0) return result; /* not a function that returns: its frame stays */
    nxpy_frame_set(frame, unit, 0);
    if (takes) {
        nxpy_value_set(view, view->n_locals, result);
        nxpy_frame_set(frame, unit, 1);
        return _PyEval_EvalFrameDefault(thread, frame, 0);
    }
    PyObject *constant = _PyEval_EvalFrameDefault(thread, frame, 0);
    if (!constant) Py_CLEAR(result);
    Py_XDECREF(constant);
    return result;
}

PyObject *nxpy_frame_end(PyThreadState *thread, nxpy_frame *frame, PyObject *result) {
    if (nxpy__frame_is_over(thread, frame)) return result;
    nxpy_view view;
    nxpy_frame_view(frame, &view);
    PyObject *error = result ? NULL : PyErr_GetRaisedException();
    cut_stack(&view, nxpy_frame_depth(frame), 0);
    if (result) return end_with(thread, frame, &view, result);
    PyObject *traceback = PyException_GetTraceback(error); /* it has this frame, if it shall */
    nxpy_frame_set(frame, -1, 0); /* before the code: no handler is there */
    PyErr_SetRaisedException(Py_NewRef(error));
    (void)_PyEval_EvalFrameDefault(thread, frame, 1);
    (void)PyException_SetTraceback(error, traceback ? traceback : Py_None);
    Py_XDECREF(traceback);
    Py_DECREF(error);
    return NULL;
}
