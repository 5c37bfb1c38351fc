/* CPython 3.14: frames, instructions and instances.
 *
 * In: frames of the running thread. Out: views of them.
 * What must hold: the layouts are those of 3.14's internal headers, where a frame's values are marked pointers (see nxpy_slot)
 * and may be lent by the frame's caller or by a local: a view makes them the frame's own.
 * Next: steps314.c and since312.c, for single instructions and the end of a frame. */
#define Py_BUILD_CORE 1
#define NEED_OPCODE_METADATA 1
#include <Python.h>

#include <frameobject.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_genobject.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_interpframe.h>
#include <internal/pycore_long.h>
#include <internal/pycore_object.h>
#include <internal/pycore_opcode_metadata.h>
#include <internal/pycore_optimizer.h>
#include <internal/pycore_stackref.h>

#include "cpython/private.h"

const char *const nxpy__version_name = "3.14";
const unsigned nxpy__version = 0x030e;
const int nxpy__stop_opcode = INTERPRETER_EXIT, nxpy__return_opcode = RETURN_VALUE, nxpy__return_const_opcode = -1,
          nxpy__prefix_opcode = EXTENDED_ARG;

bool nxpy_thread_is_traced(PyThreadState *thread) {
    const uint8_t *tools = thread->interp->monitors.tools; /* those that watch all code */
    uint64_t first, last;
    memcpy(&first, tools, sizeof first);
    memcpy(&last, tools + sizeof thread->interp->monitors.tools - sizeof last, sizeof last);
    return thread->c_tracefunc || thread->c_profilefunc || (first | last) != 0;
}

/* ---- frames ------------------------------------------------------------------------------------------------ */
static PyCodeObject *code_of(const nxpy_frame *frame) { return (PyCodeObject *)PyStackRef_AsPyObjectBorrow(frame->f_executable); }
static PyObject *function_of(const nxpy_frame *frame) { return PyStackRef_AsPyObjectBorrow(frame->f_funcobj); }

_Static_assert(sizeof(nxpy_slot) == sizeof(_PyStackRef), "a slot is the interpreter's");

void nxpy_frame_view(nxpy_frame *frame, nxpy_view *out) {
    out->code = code_of(frame);
    out->function = (PyFunctionObject *)function_of(frame);
    out->globals = frame->f_globals;
    out->builtins = frame->f_builtins;
    out->locals = frame->f_locals;
    out->slots = (nxpy_slot *)frame->localsplus;
    out->n_locals = out->code->co_nlocalsplus;
    out->n_units = (int)Py_SIZE(out->code);
    for (_PyStackRef *at = frame->localsplus; at < frame->stackpointer; at++) *at = PyStackRef_MakeHeapSafe(*at);
}

/* Ints like those that never die, in blocks that stay. */
enum { BLOCK = 4096, MOST_BLOCKS = 4096 };
static PyLongObject *unit_blocks[MOST_BLOCKS];

PyObject *nxpy__unit_object(uintptr_t unit) {
    PyLongObject **block = &unit_blocks[unit / BLOCK];
    if (unit / BLOCK >= MOST_BLOCKS) Py_FatalError("narthex: a code object of more than 2^24 units");
    if (!*block && !(*block = PyMem_RawCalloc(BLOCK, sizeof **block))) Py_FatalError("narthex: no memory");
    PyLongObject *object = &(*block)[unit % BLOCK];
    if (!object->ob_base.ob_type) {
        *object = (PyLongObject){PyObject_HEAD_INIT(&PyLong_Type) {TAG_FROM_SIGN_AND_SIZE(unit != 0, unit != 0), {(digit)unit}}};
    }
    return (PyObject *)object;
}

bool nxpy__unit_is(PyObject *value, uintptr_t *unit) {
    *unit = ((PyLongObject *)value)->long_value.ob_digit[0];
    const PyLongObject *block = *unit / BLOCK < MOST_BLOCKS ? unit_blocks[*unit / BLOCK] : NULL;
    return block && (PyObject *)&block[*unit % BLOCK] == value;
}

PyObject *nxpy_catcher_unit(int unit) { return nxpy__unit_object((uintptr_t)unit); }

PyFunctionObject *nxpy_frame_function(nxpy_frame *frame) { return (PyFunctionObject *)function_of(frame); }
int nxpy_frame_next(nxpy_frame *frame) { return nxpy__frame_at(frame); }
int nxpy_frame_depth(nxpy_frame *frame) { return (int)(frame->stackpointer - frame->localsplus) - code_of(frame)->co_nlocalsplus; }

void nxpy_frame_set(nxpy_frame *frame, int next, int depth) { /* one pointer for what runs and for what comes next */
    frame->instr_ptr = _PyCode_CODE(code_of(frame)) + next;
    frame->stackpointer = frame->localsplus + code_of(frame)->co_nlocalsplus + depth;
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
    frame->f_executable = PyStackRef_FromPyObjectSteal((PyObject *)code);
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
    [INSTRUMENTED_FOR_ITER] = FOR_ITER, [INSTRUMENTED_END_FOR] = END_FOR, [INSTRUMENTED_POP_ITER] = POP_ITER,
    [INSTRUMENTED_END_SEND] = END_SEND, [INSTRUMENTED_END_ASYNC_FOR] = END_ASYNC_FOR, [INSTRUMENTED_NOT_TAKEN] = NOT_TAKEN,
    [INSTRUMENTED_LOAD_SUPER_ATTR] = LOAD_SUPER_ATTR, [INSTRUMENTED_CALL_KW] = CALL_KW,
    [INSTRUMENTED_POP_JUMP_IF_NONE] = POP_JUMP_IF_NONE, [INSTRUMENTED_POP_JUMP_IF_NOT_NONE] = POP_JUMP_IF_NOT_NONE,
    [INSTRUMENTED_POP_JUMP_IF_FALSE] = POP_JUMP_IF_FALSE, [INSTRUMENTED_POP_JUMP_IF_TRUE] = POP_JUMP_IF_TRUE};

/* What the just-in-time compiler has put its own code for at that unit. */
static const _PyVMData *replaced(PyCodeObject *code, int unit) {
    return &code->co_executors->executors[_Py_OPARG(_PyCode_CODE(code)[unit])]->vm_data;
}

int nxpy__base_opcode(PyCodeObject *code, int unit) {
    int opcode = _Py_OPCODE(_PyCode_CODE(code)[unit]);
    if (opcode == ENTER_EXECUTOR) opcode = replaced(code, unit)->opcode;
    if (opcode == INSTRUMENTED_LINE) {
        const _PyCoLineInstrumentationData *lines = code->_co_monitoring->lines;
        opcode = lines->data[unit * lines->bytes_per_entry];
    }
    if (opcode == INSTRUMENTED_INSTRUCTION) opcode = code->_co_monitoring->per_instruction_opcodes[unit];
    return told[opcode] ? told[opcode] : _PyOpcode_Deopt[opcode];
}
int nxpy__opcode_caches(int opcode) { return _PyOpcode_Caches[opcode]; }
int nxpy__opcode_argument(PyCodeObject *code, int unit) {
    return _Py_OPCODE(_PyCode_CODE(code)[unit]) == ENTER_EXECUTOR ? replaced(code, unit)->oparg : _Py_OPARG(_PyCode_CODE(code)[unit]);
}
void nxpy__unit_set(PyCodeObject *code, int unit, int opcode, int argument) {
    _PyCode_CODE(code)[unit] = (_Py_CODEUNIT){.op = {.code = (uint8_t)opcode, .arg = (uint8_t)argument}};
}

PyObject *nxpy_common_constant(PyThreadState *thread, int which) {
    return which < NUM_COMMON_CONSTANTS ? thread->interp->common_consts[which] : NULL;
}

/* ---- generators -------------------------------------------------------------------------------------------- */
PyObject *nxpy_frame_generator(nxpy_frame *frame) {
    return frame->owner == FRAME_OWNED_BY_GENERATOR ? (PyObject *)_PyGen_GetGeneratorFromFrame(frame) : NULL;
}

/* A frame of the thread's own lies on its stack until it is cleared; a generator's says how it is. */
bool nxpy__frame_is_over(PyThreadState *thread, nxpy_frame *frame) {
    PyObject **at = (PyObject **)frame;
    if (thread->datastack_chunk && at >= thread->datastack_chunk->data && at < thread->datastack_top) return false;
    return frame->owner != FRAME_OWNED_BY_GENERATOR || _PyGen_GetGeneratorFromFrame(frame)->gi_frame_state != FRAME_EXECUTING;
}

nxpy_frame *nxpy_generator_frame(PyObject *generator) { return &((PyGenObject *)generator)->gi_iframe; }

void nxpy_generator_suspend(nxpy_frame *frame, int how) {
    PyGenObject *generator = _PyGen_GetGeneratorFromFrame(frame);
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

PyObject *nxpy__managed_dict(PyObject *object) { return (PyObject *)_PyObject_GetManagedDict(object); }

/* ---- versions of dicts ------------------------------------------------------------------------------------------ */
/* Above the bits for watchers and what the interpreter counts there, 52 are free where there is one lock for all. */
_Static_assert(DICT_VERSION_INCREMENT == 1 << 12, "as nxpy_dict_version reads it");
static int watcher = -1, watcher_failed;
static uint64_t last_version;

static int forget_version(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value) { /* before it changes */
    ((PyDictObject *)dict)->_ma_watcher_tag &= DICT_WATCHER_AND_MODIFICATION_MASK & ~(UINT64_C(1) << watcher);
    return 0;
}

uint64_t nxpy__dict_watch(PyObject *dict) {
    if (watcher < 0 && !watcher_failed) {
        PyObject *error = PyErr_GetRaisedException();
        watcher = PyDict_AddWatcher(forget_version);
        watcher_failed = watcher < 0; /* others have all of them: no number is one that was there before */
        PyErr_SetRaisedException(error);
    }
    last_version++;
    if (watcher >= 0) ((PyDictObject *)dict)->_ma_watcher_tag |= UINT64_C(1) << watcher | last_version * DICT_VERSION_INCREMENT;
    return last_version;
}
