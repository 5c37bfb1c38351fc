/* What all known versions of CPython share: the hook, lines, instructions, handlers and classes.
 *
 * In: code objects and the running thread. Out: instructions as instructions.def has them.
 * What must hold: the headers are those of the version that this is built for; version.def is its table.
 * Next: pyNNN.c, for what is a version's own. */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <frameobject.h>
#include <opcode.h>
#include <internal/pycore_runtime.h>

#include "cpython/private.h"

const char *nxpy_cpython_problem(void) {
    static char text[128];
    if (Py_Version >> 16 == nxpy__version) return NULL;
    snprintf(text, sizeof text, "torch.compile: Narthex was built for CPython %s; functions run uncompiled", nxpy__version_name);
    return text;
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
#include "cpython/version.def"
#undef NXPY_OPCODE_ROW
};
_Static_assert(NB_ADD == (int)NXPY_BINARY_ADD && NB_XOR == (int)NXPY_BINARY_XOR && NB_INPLACE_XOR == (int)NXPY_BINARY_INPLACE_XOR,
               "CPython numbers its operators like nxpy_binary");

/* CALL_INTRINSIC_1: an instruction of ours, by argument. */
static void decode_intrinsic(nxpy_instr *in) {
    switch (in->arg) {
    case 3: in->op = NXPY_OP_stop_iteration_error; break;
    case 4: in->op = NXPY_OP_async_gen_wrap; break;
    case 5: in->op = NXPY_OP_unary; in->flag = NXPY_PLUS; break;
    case 6: in->op = NXPY_OP_list_to_tuple; break;
    default: in->op = NXPY_OP_UNKNOWN;
    }
}

static void decode(nxpy_instr *in) {
    int flag = in->flag;
    switch (in->means) {
    case NXPY_MEANS_JUMP: in->arg = in->next + in->arg + (in->op == NXPY_OP_for_iter ? flag : 0); break;
    case NXPY_MEANS_JUMP_BACK: in->arg = in->next - in->arg; break;
    case NXPY_MEANS_GLOBAL:
        in->flag = in->arg & 1;
        in->arg >>= 1;
        break;
    case NXPY_MEANS_ATTRIBUTE:
        if (in->arg & 1) in->op = NXPY_OP_load_method;
        in->arg >>= 1;
        break;
    case NXPY_MEANS_SUPER:
        in->flag = in->arg & 1;
        in->arg >>= 2;
        break;
    case NXPY_MEANS_LOCALS:
        in->flag = in->arg & 15;
        in->arg >>= 4;
        break;
    case NXPY_MEANS_COMPARE: /* the flag of the row: how far up the argument stands; a bit below that asks for a truth */
        in->flag = flag == 5 && (in->arg & 16) != 0;
        in->arg >>= flag;
        break;
    case NXPY_MEANS_OPERATOR: /* nxpy_binary, and behind the last of them x[y] */
        if (in->arg > NXPY_BINARY_INPLACE_XOR) in->op = NXPY_OP_binary_subscr;
        break;
    case NXPY_MEANS_INTRINSIC: decode_intrinsic(in); break;
    default: break;
    }
}

nxpy_instr nxpy_instr_own(const nxpy_view *view, int unit) {
    nxpy_instr in = {.start = unit};
    while ((in.own = nxpy__base_opcode(view->code, unit)) == EXTENDED_ARG) {
        in.arg = (in.arg | nxpy__opcode_argument(view->code, unit)) << 8;
        unit++;
    }
    const opcode *row = &opcodes[in.own];
    in.arg |= nxpy__opcode_argument(view->code, unit);
    in.next = unit + 1 + nxpy__opcode_caches(in.own);
    in.op = row->op;
    in.flag = row->flag;
    in.means = row->means;
    decode(&in);
    return in;
}

nxpy_instr nxpy_instr_at(const nxpy_view *view, int unit) { /* KW_NAMES, PRECALL, CALL */
    nxpy_instr in = nxpy_instr_own(view, unit);
    int names = 0;
    while (in.op == NXPY_OP_part) {
        if (in.means == NXPY_MEANS_CONST) names = in.arg + 1;
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

/* ---- objects ------------------------------------------------------------------------------------------------- */
PyObject *nxpy_instance_value(PyObject *object, PyObject *name) {
    bool inside = false;
    PyObject *value = nxpy__inline_value(object, name, &inside);
    if (inside) return value;
    PyObject *dict = nxpy_instance_dict(object);
    if (!dict) return NULL;
    value = _PyDict_GetItem_KnownHash(dict, name, PyObject_Hash(name));
    if (!value && PyErr_Occurred()) PyErr_Clear();
    return value;
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
