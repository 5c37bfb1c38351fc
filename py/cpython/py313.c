/* CPython 3.13: frames, instructions and instances.
 *
 * In: frames of the running thread. Out: views of them.
 * What must hold: the layouts are those of 3.13's internal headers.
 * Next: since312.c, for single instructions and the end of a frame. */
#define Py_BUILD_CORE 1
#define NEED_OPCODE_METADATA 1
#include <Python.h>

#include <frameobject.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_opcode_metadata.h>

#include "cpython/private.h"

const char *const nxpy__version_name = "3.13";
const unsigned nxpy__version = 0x030d;
const int nxpy__stop_opcode = INTERPRETER_EXIT, nxpy__return_opcode = RETURN_VALUE, nxpy__return_const_opcode = RETURN_CONST,
          nxpy__prefix_opcode = EXTENDED_ARG;

bool nxpy_thread_is_traced(PyThreadState *thread) {
    const uint8_t *tools = thread->interp->monitors.tools; /* those that watch all code */
    uint64_t first, last;
    memcpy(&first, tools, sizeof first);
    memcpy(&last, tools + sizeof thread->interp->monitors.tools - sizeof last, sizeof last);
    return thread->c_tracefunc || thread->c_profilefunc || (first | last) != 0;
}

/* ---- frames ------------------------------------------------------------------------------------------------ */
static PyCodeObject *code_of(const nxpy_frame *frame) { return (PyCodeObject *)frame->f_executable; }

void nxpy_frame_view(nxpy_frame *frame, nxpy_view *out) {
    out->code = code_of(frame);
    out->function = (PyFunctionObject *)frame->f_funcobj;
    out->globals = frame->f_globals;
    out->builtins = frame->f_builtins;
    out->locals = frame->f_locals;
    out->slots = (nxpy_slot *)frame->localsplus;
    out->n_locals = out->code->co_nlocalsplus;
    out->n_units = (int)Py_SIZE(out->code);
}

PyFunctionObject *nxpy_frame_function(nxpy_frame *frame) { return (PyFunctionObject *)frame->f_funcobj; }
int nxpy_frame_next(nxpy_frame *frame) { return nxpy__frame_at(frame); }
int nxpy_frame_depth(nxpy_frame *frame) { return frame->stacktop - code_of(frame)->co_nlocalsplus; }

void nxpy_frame_set(nxpy_frame *frame, int next, int depth) { /* one pointer for what runs and for what comes next */
    frame->instr_ptr = _PyCode_CODE(code_of(frame)) + next;
    frame->stacktop = code_of(frame)->co_nlocalsplus + depth;
}

void nxpy_frame_at(nxpy_frame *frame, int unit, int depth) { nxpy_frame_set(frame, unit, depth); }

int nxpy_frame_enter(PyThreadState *thread, nxpy_frame *frame, nxpy_link *link) {
    if (Py_EnterRecursiveCall("")) return -1;
    if (thread->py_recursion_remaining <= 0) {
        Py_LeaveRecursiveCall();
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
        return -1;
    }
    thread->py_recursion_remaining--;
    link->words[0] = frame;
    link->words[1] = frame->previous = thread->current_frame;
    thread->current_frame = frame;
    return 0;
}

void nxpy_frame_leave(PyThreadState *thread, nxpy_link *link) {
    nxpy_frame *frame = link->words[0];
    if (frame->owner == FRAME_OWNED_BY_GENERATOR) frame->previous = NULL;
    thread->current_frame = link->words[1];
    thread->py_recursion_remaining++;
    Py_LeaveRecursiveCall();
}

PyCodeObject *nxpy__frame_code(nxpy_frame *frame) { return code_of(frame); }
void nxpy__frame_code_set(nxpy_frame *frame, PyCodeObject *code) {
    int unit = nxpy__frame_at(frame);
    frame->f_executable = (PyObject *)code;
    frame->instr_ptr = _PyCode_CODE(code) + unit;
}
int nxpy__frame_at(nxpy_frame *frame) { return (int)(frame->instr_ptr - _PyCode_CODE(code_of(frame))); }
void *nxpy__chain(PyThreadState *thread) { return thread->current_frame; }
void nxpy__chain_back(PyThreadState *thread, void *chain) { thread->current_frame = chain; }

/* ---- instructions ------------------------------------------------------------------------------------------- */
/* The forms that tell tools of what they do, and what they stand for. */
static const uint8_t told[256] = {
    [INSTRUMENTED_RESUME] = RESUME, [INSTRUMENTED_CALL] = CALL, [INSTRUMENTED_RETURN_VALUE] = RETURN_VALUE,
    [INSTRUMENTED_YIELD_VALUE] = YIELD_VALUE, [INSTRUMENTED_CALL_FUNCTION_EX] = CALL_FUNCTION_EX,
    [INSTRUMENTED_JUMP_FORWARD] = JUMP_FORWARD, [INSTRUMENTED_JUMP_BACKWARD] = JUMP_BACKWARD,
    [INSTRUMENTED_RETURN_CONST] = RETURN_CONST, [INSTRUMENTED_FOR_ITER] = FOR_ITER, [INSTRUMENTED_END_FOR] = END_FOR,
    [INSTRUMENTED_END_SEND] = END_SEND, [INSTRUMENTED_LOAD_SUPER_ATTR] = LOAD_SUPER_ATTR, [INSTRUMENTED_CALL_KW] = CALL_KW,
    [INSTRUMENTED_POP_JUMP_IF_NONE] = POP_JUMP_IF_NONE, [INSTRUMENTED_POP_JUMP_IF_NOT_NONE] = POP_JUMP_IF_NOT_NONE,
    [INSTRUMENTED_POP_JUMP_IF_FALSE] = POP_JUMP_IF_FALSE, [INSTRUMENTED_POP_JUMP_IF_TRUE] = POP_JUMP_IF_TRUE};

int nxpy__base_opcode(PyCodeObject *code, int unit) {
    int opcode = _Py_OPCODE(_PyCode_CODE(code)[unit]);
    if (opcode == INSTRUMENTED_LINE) opcode = code->_co_monitoring->lines[unit].original_opcode;
    if (opcode == INSTRUMENTED_INSTRUCTION) opcode = code->_co_monitoring->per_instruction_opcodes[unit];
    return told[opcode] ? told[opcode] : _PyOpcode_Deopt[opcode];
}
int nxpy__opcode_caches(int opcode) { return _PyOpcode_Caches[opcode]; }
int nxpy__opcode_argument(PyCodeObject *code, int unit) { return _Py_OPARG(_PyCode_CODE(code)[unit]); }
void nxpy__unit_set(PyCodeObject *code, int unit, int opcode, int argument) {
    _PyCode_CODE(code)[unit] = (_Py_CODEUNIT){.op = {.code = (uint8_t)opcode, .arg = (uint8_t)argument}};
}

PyObject *nxpy_catcher_unit(int unit) { return PyLong_FromLong(unit); }
PyObject *nxpy_common_constant(PyThreadState *thread, int which) { return PyExc_AssertionError; }

/* ---- generators -------------------------------------------------------------------------------------------- */
PyObject *nxpy_frame_generator(nxpy_frame *frame) {
    return frame->owner == FRAME_OWNED_BY_GENERATOR ? (PyObject *)_PyFrame_GetGenerator(frame) : NULL;
}

/* A frame of the thread's own lies on its stack until it is cleared; a generator's says how it is. */
bool nxpy__frame_is_over(PyThreadState *thread, nxpy_frame *frame) {
    PyObject **at = (PyObject **)frame;
    if (thread->datastack_chunk && at >= thread->datastack_chunk->data && at < thread->datastack_top) return false;
    return frame->owner != FRAME_OWNED_BY_GENERATOR || _PyFrame_GetGenerator(frame)->gi_frame_state != FRAME_EXECUTING;
}

nxpy_frame *nxpy_generator_frame(PyObject *generator) { return (nxpy_frame *)((PyGenObject *)generator)->gi_iframe; }

void nxpy_generator_suspend(nxpy_frame *frame, int how) {
    PyGenObject *generator = _PyFrame_GetGenerator(frame);
    PyThreadState *thread = PyThreadState_Get();
    generator->gi_frame_state = how ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED;
    thread->exc_info = generator->gi_exc_state.previous_item;
    generator->gi_exc_state.previous_item = NULL;
}

bool nxpy_generator_is_suspended(PyObject *generator) {
    int state = ((PyGenObject *)generator)->gi_frame_state;
    return FRAME_STATE_SUSPENDED(state);
}

bool nxpy_generator_is_new(PyObject *generator) { return ((PyGenObject *)generator)->gi_frame_state == FRAME_CREATED; }

void nxpy_generator_drop(PyObject *generator) { /* its finaliser then closes nothing, its deallocation clears the frame */
    bool ends = nxpy_generator_is_suspended(generator) || nxpy_generator_is_new(generator);
    if (ends) ((PyGenObject *)generator)->gi_frame_state = FRAME_COMPLETED;
}

/* ---- objects ------------------------------------------------------------------------------------------------- */
PyDictValues *nxpy__inline_values(PyObject *object) {
    if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_INLINE_VALUES)) return NULL;
    PyDictValues *values = _PyObject_InlineValues(object);
    return values->valid ? values : NULL;
}

/* The values of a dict that shares them with its instance change without another version. popitem() takes such a dict apart
 * from its instance, and it stays so; the item comes back where it was. */
static bool make_apart(PyObject *dict) {
    PyObject *item = PyDict_GET_SIZE(dict) ? PyObject_CallMethod(dict, "popitem", NULL) : NULL;
    int done = item ? PyDict_SetItem(dict, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1)) : -1;
    Py_XDECREF(item);
    if (done < 0) PyErr_Clear();
    return ((PyDictObject *)dict)->ma_values == NULL;
}

uint64_t nxpy_last_version = UINT64_C(1) << 60; /* never that of a dict */

PyObject *nxpy__managed_dict(PyObject *object) {
    PyObject *dict = (PyObject *)_PyObject_GetManagedDict(object);
    if (dict && ((PyDictObject *)dict)->ma_values) (void)make_apart(dict);
    return dict;
}
