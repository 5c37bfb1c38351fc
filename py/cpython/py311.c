/* CPython 3.11: frames, instructions and instances.
 *
 * In: frames of the running thread. Out: views of them, and single instructions run by the interpreter's own loop.
 * What must hold: the layouts are those of 3.11's internal headers (3.11.2 and 3.11.7 share them). Facts used:
 * - the hook's caller clears the frame, so a result or an exception is all that we hand back;
 * - RETURN_VALUE of an entry frame pops one value and leaves the rest of the frame as it is. A copy of the code in
 *   which every instruction but one is RETURN_VALUE therefore runs just that one and stops, wherever it jumps and
 *   whatever handler an exception finds; the popped value is put back.
 * Next: py/loop/eval.c. */
#define Py_BUILD_CORE 1
#define NEED_OPCODE_TABLES 1
#include <Python.h>

#include <frameobject.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>
#include <internal/pycore_opcode.h>
#include <internal/pycore_runtime.h>

#include "cpython/private.h"

const char *const nxpy__version_name = "3.11";
const unsigned nxpy__version = 0x030b;

bool nxpy_thread_is_traced(PyThreadState *thread) { return thread->cframe->use_tracing != 0; }

/* ---- frames ------------------------------------------------------------------------------------------------ */
void nxpy_frame_view(nxpy_frame *frame, nxpy_view *out) {
    out->code = frame->f_code;
    out->function = frame->f_func;
    out->globals = frame->f_globals;
    out->builtins = frame->f_builtins;
    out->locals = frame->f_locals;
    out->slots = (nxpy_slot *)frame->localsplus;
    out->n_locals = frame->f_code->co_nlocalsplus;
    out->n_units = (int)Py_SIZE(frame->f_code);
}

PyFunctionObject *nxpy_frame_function(nxpy_frame *frame) { return frame->f_func; }
int nxpy_frame_next(nxpy_frame *frame) { return _PyInterpreterFrame_LASTI(frame) + 1; }
int nxpy_frame_depth(nxpy_frame *frame) { return frame->stacktop - frame->f_code->co_nlocalsplus; }

void nxpy_frame_set(nxpy_frame *frame, int next, int depth) {
    frame->prev_instr = _PyCode_CODE(frame->f_code) + next - 1;
    frame->stacktop = frame->f_code->co_nlocalsplus + depth;
}

_Static_assert(sizeof(_PyCFrame) <= sizeof(nxpy_link), "a link has room for CPython's");

int nxpy_frame_enter(PyThreadState *thread, nxpy_frame *frame, nxpy_link *link) {
    if (Py_EnterRecursiveCall("")) return -1;
    _PyCFrame *mine = (_PyCFrame *)link;
    mine->use_tracing = thread->cframe->use_tracing;
    mine->previous = thread->cframe;
    frame->is_entry = true;
    frame->previous = thread->cframe->current_frame;
    mine->current_frame = frame;
    thread->cframe = mine;
    return 0;
}

void nxpy_frame_at(nxpy_frame *frame, int unit, int depth) { nxpy_frame_set(frame, unit + 1, depth); }
PyObject *nxpy_frame_end(PyThreadState *thread, nxpy_frame *frame, PyObject *result) { return result; }

void nxpy_frame_leave(PyThreadState *thread, nxpy_link *link) {
    _PyCFrame *mine = (_PyCFrame *)link;
    thread->cframe = mine->previous;
    thread->cframe->use_tracing = mine->use_tracing;
    Py_LeaveRecursiveCall();
}

/* ---- instructions ------------------------------------------------------------------------------------------- */
int nxpy__base_opcode(PyCodeObject *code, int unit) { return _PyOpcode_Deopt[_Py_OPCODE(_PyCode_CODE(code)[unit])]; }
int nxpy__opcode_caches(int opcode) { return _PyOpcode_Caches[opcode]; }
int nxpy__opcode_argument(PyCodeObject *code, int unit) { return _Py_OPARG(_PyCode_CODE(code)[unit]); }

PyObject *nxpy_catcher_unit(int unit) { return PyLong_FromLong(unit); }
PyObject *nxpy_common_constant(PyThreadState *thread, int which) { return PyExc_AssertionError; }

/* ---- generators -------------------------------------------------------------------------------------------- */
PyObject *nxpy_frame_generator(nxpy_frame *frame) {
    return frame->owner == FRAME_OWNED_BY_GENERATOR ? (PyObject *)_PyFrame_GetGenerator(frame) : NULL;
}

nxpy_frame *nxpy_generator_frame(PyObject *generator) { return (nxpy_frame *)((PyGenObject *)generator)->gi_iframe; }
void nxpy_generator_suspend(nxpy_frame *frame, int how) { _PyFrame_GetGenerator(frame)->gi_frame_state = FRAME_SUSPENDED; }
bool nxpy_generator_is_suspended(PyObject *generator) { return ((PyGenObject *)generator)->gi_frame_state == FRAME_SUSPENDED; }

bool nxpy_generator_is_new(PyObject *generator) { return ((PyGenObject *)generator)->gi_frame_state == FRAME_CREATED; }

void nxpy_generator_drop(PyObject *generator) { /* its finaliser then closes nothing, its deallocation clears the frame */
    bool ends = nxpy_generator_is_suspended(generator) || nxpy_generator_is_new(generator);
    if (ends) ((PyGenObject *)generator)->gi_frame_state = FRAME_COMPLETED;
}

/* A copy of `code` in which all but units [first, last) is RETURN_VALUE. */
static PyObject *stepper_new(PyCodeObject *code, int first, int last) {
    PyObject *copy = PyObject_CallMethod((PyObject *)code, "replace", NULL); /* not yet specialised */
    if (!copy) return NULL;
    _Py_CODEUNIT *units = _PyCode_CODE((PyCodeObject *)copy);
    _Py_CODEUNIT stop = _Py_MAKECODEUNIT(RETURN_VALUE, 0);
    for (int k = 0; k < Py_SIZE(copy); k++) {
        if (k < first || k >= last) units[k] = stop;
    }
    return copy;
}

/* Runs the frame with the code object `copy`, whose instructions but units [first, last) are RETURN_VALUE. */
static PyObject *run_stepper(PyThreadState *thread, nxpy_frame *frame, PyCodeObject *copy, int first, int last, int throwing,
                             bool *stopped) {
    PyCodeObject *code = frame->f_code;
    int now = (int)(frame->prev_instr - _PyCode_CODE(code));
    Py_INCREF(copy); /* the frame owns its code: this count stands for the one of `code`, which we keep meanwhile */
    frame->f_code = copy;
    frame->prev_instr = _PyCode_CODE(copy) + now;
    PyObject *result = _PyEval_EvalFrameDefault(thread, frame, throwing);
    int at = (int)(frame->prev_instr - _PyCode_CODE(copy));
    frame->f_code = code;
    frame->prev_instr = _PyCode_CODE(code) + at;
    Py_DECREF(copy);
    if (!result && PyErr_Occurred()) return NULL; /* without an exception the stack (or a local) had an empty entry */
    if (at >= first && at < last) return result; /* the instruction itself was a return */
    frame->localsplus[frame->stacktop++] = result;
    frame->prev_instr--;                         /* the stop is where the frame goes on */
    *stopped = true;
    return NULL;
}

PyObject *nxpy_frame_step(PyThreadState *thread, nxpy_frame *frame, int first, int last, PyObject **stepper, bool *stopped) {
    *stopped = false;
    if (!*stepper && !(*stepper = stepper_new(frame->f_code, first, last))) return NULL;
    frame->prev_instr = _PyCode_CODE(frame->f_code) + first - 1;
    return run_stepper(thread, frame, (PyCodeObject *)*stepper, first, last, 0, stopped);
}

PyObject *nxpy_frame_throw(PyThreadState *thread, nxpy_frame *frame, PyObject **thrower, bool *stopped) {
    *stopped = false;
    if (thread->cframe->use_tracing) return _PyEval_EvalFrameDefault(thread, frame, 1); /* a debugger sees the rest */
    PyObject *error[3];
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    if (!*thrower && !(*thrower = stepper_new(frame->f_code, 0, 0))) return NULL;
    PyErr_Restore(error[0], error[1], error[2]);
    return run_stepper(thread, frame, (PyCodeObject *)*thrower, 0, 0, 1, stopped);
}

/* ---- objects ------------------------------------------------------------------------------------------------- */
PyDictValues *nxpy__inline_values(PyObject *object) {
    return Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT ? *_PyObject_ValuesPointer(object) : NULL;
}

PyObject *nxpy__managed_dict(PyObject *object) {
    return *_PyObject_ValuesPointer(object) ? NULL : *_PyObject_ManagedDictPointer(object);
}
