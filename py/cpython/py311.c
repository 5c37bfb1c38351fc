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

#include "cpython/cpython.h"

const char *nxpy_cpython_problem(void) {
    return Py_Version >> 16 == 0x030b ? NULL : "torch.compile: Narthex was built for CPython 3.11; functions run uncompiled";
}

void nxpy_hook_set(nxpy_eval_fn *fn) {
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), fn ? (_PyFrameEvalFunction)fn : _PyEval_EvalFrameDefault);
}

PyObject *nxpy_eval_default(PyThreadState *thread, nxpy_frame *frame, int throwing) {
    return _PyEval_EvalFrameDefault(thread, frame, throwing);
}

static unsigned long main_thread; /* the only one that runs handlers, while none shall */

bool nxpy_signals_hold(void) {
    if (PyThread_get_thread_ident() != _PyRuntime.main_thread) return false;
    main_thread = _PyRuntime.main_thread;
    _PyRuntime.main_thread = 0;
    return true;
}

void nxpy_signals_back(void) { _PyRuntime.main_thread = main_thread; }

bool nxpy_thread_is_traced(PyThreadState *thread) { return thread->cframe->use_tracing != 0; }

/* ---- frames ------------------------------------------------------------------------------------------------ */
void nxpy_frame_view(nxpy_frame *frame, nxpy_view *out) {
    out->code = frame->f_code;
    out->function = frame->f_func;
    out->globals = frame->f_globals;
    out->builtins = frame->f_builtins;
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

void nxpy_frame_leave(PyThreadState *thread, nxpy_link *link) {
    _PyCFrame *mine = (_PyCFrame *)link;
    thread->cframe = mine->previous;
    thread->cframe->use_tracing = mine->use_tracing;
    Py_LeaveRecursiveCall();
}

int nxpy_line_at(nxpy_lines *lines, PyCodeObject *code, int unit) {
    PyCodeAddressRange *range = &lines->range;
    int byte = unit * (int)sizeof(_Py_CODEUNIT);
    if (!lines->ready) { /* before the table's first entry */
        range->opaque.lo_next = (const uint8_t *)PyBytes_AS_STRING(code->co_linetable);
        range->opaque.limit = range->opaque.lo_next + PyBytes_GET_SIZE(code->co_linetable);
        range->opaque.computed_line = code->co_firstlineno;
        range->ar_start = -1;
        range->ar_end = 0;
        range->ar_line = -1;
        lines->ready = true;
    }
    return byte >= range->ar_start && byte < range->ar_end ? range->ar_line : _PyCode_CheckLineNumber(byte, range);
}

/* ---- instructions ------------------------------------------------------------------------------------------- */
typedef struct opcode { uint8_t op, flag, means; } opcode;
static const opcode opcodes[256] = {
#define NXPY_OPCODE_ROW(name, instruction, flag, argument) [name] = {NXPY_OP_##instruction, flag, NXPY_MEANS_##argument},
#include "cpython/py311.def"
#undef NXPY_OPCODE_ROW
};
_Static_assert(NB_ADD == (int)NXPY_BINARY_ADD && NB_XOR == (int)NXPY_BINARY_XOR && NB_INPLACE_XOR == (int)NXPY_BINARY_INPLACE_XOR,
               "3.11 numbers its operators like nxpy_binary");

nxpy_instr nxpy_instr_own(const nxpy_view *view, int unit) {
    const _Py_CODEUNIT *code = _PyCode_CODE(view->code);
    nxpy_instr in = {.start = unit};
    while ((in.own = _PyOpcode_Deopt[_Py_OPCODE(code[unit])]) == EXTENDED_ARG) {
        in.arg = (in.arg | _Py_OPARG(code[unit])) << 8;
        unit++;
    }
    const opcode *row = &opcodes[in.own];
    in.arg |= _Py_OPARG(code[unit]);
    in.next = unit + 1 + _PyOpcode_Caches[in.own];
    in.op = row->op;
    in.flag = row->flag;
    in.means = row->means;
    if (in.means == NXPY_MEANS_JUMP) in.arg = in.next + in.arg;
    if (in.means == NXPY_MEANS_JUMP_BACK) in.arg = in.next - in.arg;
    if (in.means == NXPY_MEANS_GLOBAL) {
        in.flag = in.arg & 1;
        in.arg >>= 1;
    }
    return in;
}

nxpy_instr nxpy_instr_at(const nxpy_view *view, int unit) { /* KW_NAMES, PRECALL, CALL */
    nxpy_instr in = nxpy_instr_own(view, unit);
    int names = 0;
    while (in.op == NXPY_OP_part) {
        if (in.own == KW_NAMES) names = in.arg + 1;
        in = nxpy_instr_own(view, in.next);
    }
    in.start = unit;
    if (in.op == NXPY_OP_call) in.flag = names;
    return in;
}

const char *nxpy_opcode_name(int op) {
    static const char *names[256];
    static bool filled;
    if (!filled) {
        PyObject *module = PyImport_ImportModule("opcode"), *list = module ? PyObject_GetAttrString(module, "opname") : NULL;
        for (int k = 0; list && k < 256 && k < PyList_GET_SIZE(list); k++) {
            /* the strings live as long as the module `opcode`, which is never let go: `list` is kept */
            names[k] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, k));
        }
        Py_XDECREF(module);
        if (!list) PyErr_Clear();
        filled = list != NULL;
    }
    return op >= 0 && op < 256 && names[op] ? names[op] : "?";
}

/* The table's numbers: six bits a byte, the highest first, 0x40 says that more follow, 0x80 begins an entry. */
static const uint8_t *read_number(const uint8_t *at, int *out) {
    int number = *at & 63;
    while (*at & 64) number = number << 6 | (*++at & 63);
    *out = number;
    return at + 1;
}

bool nxpy_catcher_find(const nxpy_view *view, int unit, nxpy_catcher *out) {
    const uint8_t *at = (uint8_t *)PyBytes_AS_STRING(view->code->co_exceptiontable);
    const uint8_t *end = at + PyBytes_GET_SIZE(view->code->co_exceptiontable);
    while (at < end) {
        int first, n, rest;
        at = read_number(at, &first);
        at = read_number(at, &n);
        at = read_number(at, &out->unit);
        at = read_number(at, &rest);
        out->depth = rest >> 1;
        out->pushes_unit = rest & 1;
        if (unit >= first && unit < first + n) return true;
    }
    return false;
}

PyObject *nxpy_handled(PyThreadState *thread) { return thread->exc_info->exc_value; }

PyObject *nxpy_handled_swap(PyThreadState *thread, PyObject *value) {
    PyObject *before = thread->exc_info->exc_value;
    thread->exc_info->exc_value = value;
    return before;
}

PyObject *nxpy_traceback_new(PyCodeObject *code, PyObject *globals, int line) {
    PyFrameObject *frame = PyFrame_New(PyThreadState_Get(), code, globals, NULL);
    PyObject *made = frame ? PyObject_CallFunction((PyObject *)&PyTraceBack_Type, "OOii", Py_None, frame, 0, line) : NULL;
    Py_XDECREF(frame);
    return made;
}

/* ---- generators -------------------------------------------------------------------------------------------- */
PyObject *nxpy_frame_generator(nxpy_frame *frame) {
    return frame->owner == FRAME_OWNED_BY_GENERATOR ? (PyObject *)_PyFrame_GetGenerator(frame) : NULL;
}

nxpy_frame *nxpy_generator_frame(PyObject *generator) { return (nxpy_frame *)((PyGenObject *)generator)->gi_iframe; }
void nxpy_generator_suspend(nxpy_frame *frame) { _PyFrame_GetGenerator(frame)->gi_frame_state = FRAME_SUSPENDED; }
bool nxpy_generator_is_suspended(PyObject *generator) { return ((PyGenObject *)generator)->gi_frame_state == FRAME_SUSPENDED; }

void nxpy_generator_drop(PyObject *generator) { /* its finaliser then closes nothing, its deallocation clears the frame */
    if (nxpy_generator_is_suspended(generator)) ((PyGenObject *)generator)->gi_frame_state = FRAME_COMPLETED;
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
static PyObject *inline_value(PyTypeObject *type, PyDictValues *values, PyObject *name) {
    PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
    PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    for (Py_ssize_t k = 0; k < keys->dk_nentries; k++) {
        if (entries[k].me_key == name) return values->values[k];
    }
    for (Py_ssize_t k = 0; k < keys->dk_nentries; k++) { /* names made at run time are not interned */
        if (entries[k].me_key && PyUnicode_Compare(entries[k].me_key, name) == 0) return values->values[k];
    }
    return NULL;
}

PyObject *nxpy_instance_dict(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        return *_PyObject_ValuesPointer(object) ? NULL : *_PyObject_ManagedDictPointer(object);
    }
    if (type->tp_dictoffset < 0) { /* behind an instance of variable size */
        PyObject **at = _PyObject_GetDictPtr(object);
        return at ? *at : NULL;
    }
    if (type->tp_dictoffset == 0) return NULL;
    return *(PyObject **)((char *)object + type->tp_dictoffset);
}

int nxpy_instance_dict_offset(PyTypeObject *type) { /* NULL lies there while the values lie in the instance */
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) return -3 * (int)sizeof(PyObject *);
    return type->tp_dictoffset > 0 && type->tp_dictoffset < INT_MAX ? (int)type->tp_dictoffset : 0;
}

PyObject *nxpy_instance_value(PyObject *object, PyObject *name) {
    PyTypeObject *type = Py_TYPE(object);
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        PyDictValues *values = *_PyObject_ValuesPointer(object);
        if (values) return inline_value(type, values, name);
    }
    PyObject *dict = nxpy_instance_dict(object);
    if (!dict) return NULL;
    PyObject *value = _PyDict_GetItem_KnownHash(dict, name, PyObject_Hash(name));
    if (!value && PyErr_Occurred()) PyErr_Clear();
    return value;
}

Py_ssize_t nxpy_instance_size(PyTypeObject *type) { /* the dict lies before the object */
    return (Py_ssize_t)(sizeof(PyObject) + (type->tp_weaklistoffset ? sizeof(PyObject *) : 0));
}

/* ---- abstract base classes ------------------------------------------------------------------------------------- */
const unsigned long long *nxpy_abc_count;
typedef struct abc_state { PyTypeObject *data_type; unsigned long long count; } abc_state; /* of the module _abc */

int nxpy_abc_init(void) {
    PyObject *module = PyImport_ImportModule("_abc"), *token = module ? PyObject_CallMethod(module, "get_cache_token", NULL) : NULL;
    const abc_state *state = module ? PyModule_GetState(module) : NULL;
    unsigned long long count = token ? PyLong_AsUnsignedLongLong(token) : 0;
    if (state && token && PyModule_GetDef(module)->m_size == (Py_ssize_t)sizeof *state && state->count == count) {
        nxpy_abc_count = &state->count; /* the module stays loaded */
    }
    Py_XDECREF(module);
    Py_XDECREF(token);
    return PyErr_Occurred() ? -1 : 0;
}
