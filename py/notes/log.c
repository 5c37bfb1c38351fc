/* What capture tells a listener: one call log(event, **info) for each step. Costs one test when nobody listens. And the
 * text of the user's lines, for graphs, guards and logs.
 *
 * In: the tracer's state. Out: events whose names and fields narthex/compile turns into lines of PyTorch's logs.
 * What must hold: the listener is called with the hook paused, and when no trace runs; what it raises is printed as unraisable
 * and ignored.
 * Next: python/narthex. */
#include "notes/notes.h"

#include <stdarg.h>

PyObject *nxpy__log;

/* ---- reasons ------------------------------------------------------------------------------------------------------- */
static const struct { const char *name, *why, *mend; } breaks[] = {
    {"NOTHING", "", ""},
#define NXPY_BREAK_ROW(code, why, mend) {#code, why, mend},
#include "notes/breaks.def"
#undef NXPY_BREAK_ROW
};
const char *nxpy__break_name(nxpy_break why) { return breaks[why].name; }
const char *nxpy__break_why(nxpy_break why) { return breaks[why].why; }
const char *nxpy__break_mend(nxpy_break why) { return breaks[why].mend; }

/* ---- calling out ----------------------------------------------------------------------------------------------------- */
/* Python code of ours runs in the middle of a trace: not traced, not recorded. */
nxpy_aside nxpy__aside_begin(void) {
    nx_thread *thread = nx_thread_get();
    nxpy_aside a = {.included = thread->keys_included, .excluded = thread->keys_excluded};
    PyErr_Fetch(&a.error[0], &a.error[1], &a.error[2]);
    if (nxpy__doing.trace) thread->keys_included = nxpy__doing.trace->included_before;
    nxpy__doing.paused++;
    return a;
}

void nxpy__aside_end(nxpy_aside a) {
    nx_thread *thread = nx_thread_get();
    if (PyErr_Occurred()) PyErr_WriteUnraisable(nxpy__log);
    nxpy__doing.paused--;
    thread->keys_included = a.included;
    thread->keys_excluded = a.excluded;
    PyErr_Restore(a.error[0], a.error[1], a.error[2]);
}

static void tell(PyObject *event, PyObject *info) {
    nxpy_aside a = nxpy__aside_begin();
    PyObject *args = PyTuple_Pack(1, event), *result = args && nxpy__log ? PyObject_Call(nxpy__log, args, info) : NULL;
    Py_XDECREF(result);
    Py_XDECREF(args);
    nxpy__aside_end(a);
}

void nxpy__log_event(const char *event, const char *format, ...) {
    nxpy_trace *trace = nxpy__doing.trace;
    PyObject *error[3], *name = NULL, *pair = NULL;
    if (!nxpy__log) return;
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    va_list list;
    va_start(list, format);
    PyObject *info = Py_VaBuildValue(format, list);
    va_end(list);
    if (info && (name = PyUnicode_FromString(event))) {
        if (!trace) tell(name, info);
        else if (!trace->events) trace->events = PyList_New(0);
        pair = trace && trace->events ? PyTuple_Pack(2, name, info) : NULL;
        if (pair) (void)PyList_Append(trace->events, pair);
    }
    if (PyErr_Occurred()) PyErr_WriteUnraisable(nxpy__log);
    Py_XDECREF(pair);
    Py_XDECREF(name);
    Py_XDECREF(info);
    PyErr_Restore(error[0], error[1], error[2]);
}

void nxpy__log_flush(nxpy_trace *trace) {
    PyObject *events = trace->events;
    trace->events = NULL;
    for (Py_ssize_t k = 0; events && k < PyList_GET_SIZE(events); k++) {
        PyObject *pair = PyList_GET_ITEM(events, k);
        tell(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    }
    Py_XDECREF(events);
}

PyObject *nxpy__set_log(PyObject *module, PyObject *callable) {
    if (callable != Py_None && !PyCallable_Check(callable)) {
        return PyErr_Format(PyExc_TypeError, "set_capture_log: got %s, expected a callable or None", Py_TYPE(callable)->tp_name);
    }
    Py_XSETREF(nxpy__log, callable == Py_None ? NULL : Py_NewRef(callable));
    Py_RETURN_NONE;
}

/* ---- events -------------------------------------------------------------------------------------------------------------- */
PyObject *nxpy__stack_summary(PyThreadState *thread) {
    PyObject *list = PyList_New(0);
    PyFrameObject *frame = list ? PyThreadState_GetFrame(thread) : NULL;
    while (list && frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        PyObject *entry = Py_BuildValue("(OiO)", code->co_filename, PyFrame_GetLineNumber(frame), code->co_name);
        if (!entry || PyList_Insert(list, 0, entry) < 0) Py_CLEAR(list);
        Py_XDECREF(entry);
        Py_DECREF(code);
        Py_SETREF(frame, PyFrame_GetBack(frame));
    }
    Py_XDECREF(frame);
    return list;
}

void nxpy__log_start(nxpy_trace *trace) {
    if (!nxpy__log) return;
    PyCodeObject *code = (PyCodeObject *)trace->root->code;
    PyObject *stack = nxpy__stack_summary(PyThreadState_Get());
    if (!stack) nxpy_forget_error();
    nxpy__log_event("start", "{sOsOsisOsO}", "code", code, "filename", code->co_filename, "line", code->co_firstlineno, "name",
                    code->co_name, "stack", stack ? stack : Py_None);
    Py_XDECREF(stack);
    nxpy__log_event("create_env", "{sO}", "name", code->co_name);
}

void nxpy__log_input(nxpy_trace *trace, int slot, const char *name, PyObject *fake, uint64_t varying) {
    if (!nxpy__log) return;
    nxpy_aside a = nxpy__aside_begin();
    nx_text source = {0};
    nxpy_guards_source(&trace->segment->guards, slot, &source);
    const nx_tensor *tensor = nxpy_tensor_get(fake);
    PyObject *shape = PyTuple_New(tensor->a.ndim);
    for (int k = 0; shape && k < tensor->a.ndim; k++) {
        PyObject *size = PyLong_FromLongLong(tensor->a.sizes[k]);
        if (!size) Py_CLEAR(shape);
        else PyTuple_SET_ITEM(shape, k, size);
    }
    PyObject *open = PyTuple_New(tensor->a.ndim); /* whether a size is left open */
    for (int k = 0; open && k < tensor->a.ndim; k++) PyTuple_SET_ITEM(open, k, PyBool_FromLong(varying >> (k < 63 ? k : 63) & 1));
    if (shape && open && source.at) {
        nxpy__log_event("input", "{ssss}", "name", name, "source", source.at);
        nxpy__log_event("fake", "{sssOsOsO}", "source", source.at, "shape", shape, "varying", open, "fake", fake);
    }
    Py_XDECREF(open);
    Py_XDECREF(shape);
    nx_text_free(&source);
    nxpy__aside_end(a);
}

void nxpy__log_guards(nxpy_trace *trace) {
    if (!nxpy__log) return;
    PyObject *list = nxpy_guards_print(&trace->segment->guards, nxpy__line_text, trace);
    if (list) nxpy__log_event("guards", "{sO}", "guards", list);
    else PyErr_WriteUnraisable(nxpy__log);
    Py_XDECREF(list);
}

/* ---- the user's lines ---------------------------------------------------------------------------------------------------- */
/* The lines of a source file, kept for one trace: it may be edited before the next. An empty list when it cannot be read.
 * Lent. */
static PyObject *lines_of(nxpy_trace *trace, PyObject *file) {
    if (!trace->sources && !(trace->sources = PyDict_New())) return NULL;
    PyObject *lines = PyDict_GetItemWithError(trace->sources, file);
    if (lines || PyErr_Occurred()) return lines;
    PyObject *io = PyImport_ImportModule("io"), *opened = NULL;
    if (io) opened = PyObject_CallMethod(io, "open", "Osiss", file, "r", -1, "utf-8", "replace");
    if (opened) {
        PyObject *error[3];
        lines = PyObject_CallMethod(opened, "readlines", NULL);
        PyErr_Fetch(&error[0], &error[1], &error[2]);
        Py_XDECREF(PyObject_CallMethod(opened, "close", NULL));
        if (error[0]) PyErr_Restore(error[0], error[1], error[2]);
    }
    Py_CLEAR(opened);
    nxpy_forget_error(); /* with the file gone: what its destructor meets is lost */
    if (!lines) lines = PyList_New(0);
    if (lines && PyDict_SetItem(trace->sources, file, lines) < 0) Py_CLEAR(lines);
    Py_XDECREF(io);
    Py_XDECREF(lines); /* the dict has it */
    return lines;
}

/* Sources that lie in no file (notebooks, doctests) are known to linecache, which whoever makes them has loaded.
 * Loading it just to read a file would take longer than a compilation. */
static PyObject *line_of_linecache(PyObject *file, int line) {
    PyObject *name = Py_XNewRef(nxpy__name("linecache")), *module = name ? PyImport_GetModule(name) : NULL;
    PyObject *text = module ? PyObject_CallMethod(module, "getline", "Oi", file, line) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(name);
    return text;
}

PyObject *nxpy__line_text(void *context, PyObject *file, int line) {
    nxpy_aside a = nxpy__aside_begin();
    PyObject *lines = lines_of(context, file), *text = NULL, *result = NULL;
    if (lines && line > 0 && line <= PyList_GET_SIZE(lines)) text = Py_NewRef(PyList_GET_ITEM(lines, line - 1));
    else if (lines) text = line_of_linecache(file, line);
    if (text) result = PyObject_CallMethod(text, "strip", NULL);
    Py_XDECREF(text);
    nxpy_forget_error(); /* a source that cannot be read is an empty line */
    nxpy__aside_end(a);
    return result ? result : PyUnicode_FromString("");
}
