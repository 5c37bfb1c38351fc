/* What a thread does, and how a trace stops.
 *
 * In: a reason, or the set exception. Out: the sticky `stop` of the trace, and an exception that no Python handler catches,
 * which stands for it while C code is on the way back.
 * What must hold: the first reason stays; `clean` says that the root's own frame is as it was before its instruction.
 * Next: sources.c. */
#include "notes/notes.h"

#include <stdarg.h>

_Thread_local nxpy_doing nxpy__doing;
_Thread_local bool nxpy__whole;
nxpy_settings nxpy__settings = {.max_segments = 8, .automatic = true, .refuses_traced = true};

void nxpy__stop_exception(void) {
    static PyObject *type; /* no Python handler may catch it: not an Exception */
    if (!type) type = PyErr_NewException("narthex._C.TraceStopped", PyExc_BaseException, NULL);
    if (type && !PyErr_Occurred()) PyErr_SetNone(type);
}

int nxpy__stop(nxpy_trace *trace, nxpy_break why, const char *format, ...) {
    if (trace->stop) return -1;
    va_list list;
    va_start(list, format);
    PyObject *text = format ? PyUnicode_FromFormatV(format, list) : NULL;
    va_end(list);
    if (!text) PyErr_Clear();
    trace->stop = why;
    trace->stop_text = text;
    trace->clean = trace->loop == trace->root_loop;
    nxpy__stop_exception();
    return -1;
}

PyObject *nxpy__traceback(nxpy_trace *trace) {
    if (trace->traceback) return trace->traceback;
    PyObject *globals = PyFunction_GET_GLOBALS(trace->root->function);
    PyObject *made = nxpy_traceback_new((PyCodeObject *)trace->root->code, globals, trace->line);
    if (made && !nxpy__note_add(trace, made, NXPY_NOTE_BORN, -1)) Py_CLEAR(made);
    return trace->traceback = made;
}

/* An exception that the traced program does not catch, or that is none of its own, stops the trace. */
int nxpy__stop_uncaught(nxpy_trace *trace) {
    trace->stop = NXPY_BREAK_EXCEPTION;
    trace->clean = false;
    PyErr_Fetch(&trace->error[0], &trace->error[1], &trace->error[2]);
    PyErr_NormalizeException(&trace->error[0], &trace->error[1], &trace->error[2]);
    if (trace->traceback && trace->error[1]) PyException_SetTraceback(trace->error[1], Py_None); /* it may have been caught before */
    trace->stop_text = trace->error[1] ? PyObject_Str(trace->error[1]) : NULL;
    if (!trace->stop_text) nxpy_forget_error();
    nxpy__stop_exception();
    return -1;
}

int nxpy__stop_error(nxpy_trace *trace) {
    PyObject *const foreign[] = {PyExc_MemoryError, PyExc_KeyboardInterrupt, PyExc_RecursionError, PyExc_SystemError};
    bool own = PyErr_Occurred() != NULL;
    if (trace->stop) {
        nxpy__stop_exception();
        return -1;
    }
    if (own && PyErr_ExceptionMatches(nxpy_fake_error)) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyObject *said = value ? PyObject_Str(value) : NULL;
        PyErr_Clear();
        if (said) nxpy__stop(trace, NXPY_BREAK_METHOD, "the elements of a tensor; %U", said);
        else nxpy__stop(trace, NXPY_BREAK_METHOD, "the elements of a tensor");
        Py_XDECREF(said);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        trace->clean = false;
        return -1;
    }
    for (int k = 0; own && k < NX_COUNT(foreign); k++) own = !PyErr_ExceptionMatches(foreign[k]);
    return own ? -1 : nxpy__stop_uncaught(trace);
}

nx_status nxpy__stop_unknown(nx_tracer *tracer, nx_tensor *tensor, nx_value *node) {
    nxpy_trace *trace = tracer->context;
    nxpy__stop(trace, NXPY_BREAK_LEAK, NULL);
    trace->clean = false;
    return nxpy_caught();
}

nx_status nxpy__stop_refused(nx_tracer *tracer, const nx_op *op, const char *why) {
    nxpy_trace *trace = tracer->context;
    nxpy__stop(trace, NXPY_BREAK_WRITE, "%s: %s", op->def->name, why);
    trace->clean = false;
    return nxpy_caught();
}

/* ---- autocast ---- */
nxpy_autocast nxpy__autocast_now(void) {
    const nx_thread *thread = nx_thread_get();
    nxpy_autocast now;
    memset(&now, 0, sizeof now); /* compared as bytes */
    now.enabled = thread->autocast_enabled;
    memcpy(now.dtype, thread->autocast_dtype, sizeof now.dtype);
    now.uncached = thread->autocast_uncached;
    now.nesting = thread->autocast_nesting;
    return now;
}

void nxpy__autocast_put(const nxpy_autocast *state) {
    nx_thread *thread = nx_thread_get();
    memcpy(thread->autocast_dtype, state->dtype, sizeof state->dtype);
    thread->autocast_enabled = state->enabled;
    if (state->enabled) thread->keys_included |= NX_KEY(AUTOCAST);
    else thread->keys_included &= ~NX_KEY(AUTOCAST);
    thread->autocast_uncached = state->uncached;
    thread->autocast_nesting = state->nesting;
    if (state->nesting == 0) nx_autocast_clear();
}
