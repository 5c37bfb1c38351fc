/* The text of the user's lines, for graphs, guards and logs.
 *
 * In: a code object's file name and a line number. Out: the line, stripped; empty when nobody knows it.
 * What must hold: reading runs Python code in the middle of a trace, so it stands aside like the log (log.c). */
#include "capture/capture.h"

static PyObject *kept; /* file name -> its lines, for the time of one trace: a file may be edited before the next */

void nxpy__lines_forget(void) { Py_CLEAR(kept); }

/* The lines of a source file; an empty list when it cannot be read. Lent. */
static PyObject *lines_of(PyObject *file) {
    if (!kept && !(kept = PyDict_New())) return NULL;
    PyObject *lines = PyDict_GetItemWithError(kept, file);
    if (lines || PyErr_Occurred()) return lines;
    PyObject *io = PyImport_ImportModule("io"), *opened = NULL;
    if (io) opened = PyObject_CallMethod(io, "open", "Osiss", file, "r", -1, "utf-8", "replace");
    if (opened) {
        lines = PyObject_CallMethod(opened, "readlines", NULL);
        Py_XDECREF(PyObject_CallMethod(opened, "close", NULL));
    }
    PyErr_Clear();
    if (!lines) lines = PyList_New(0);
    if (lines && PyDict_SetItem(kept, file, lines) < 0) Py_CLEAR(lines);
    Py_XDECREF(opened);
    Py_XDECREF(io);
    Py_XDECREF(lines); /* the dict has it */
    return lines;
}

/* Sources that lie in no file (notebooks, doctests) are known to linecache, which whoever makes them has loaded.
 * Loading it just to read a file would take longer than a compilation. */
static PyObject *line_of_linecache(PyObject *file, int line) {
    PyObject *name = PyUnicode_InternFromString("linecache"), *module = name ? PyImport_GetModule(name) : NULL;
    PyObject *text = module ? PyObject_CallMethod(module, "getline", "Oi", file, line) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(name);
    return text;
}

PyObject *nxpy__line_text(PyObject *file, int line) {
    nxpy_aside a = nxpy__aside_begin();
    PyObject *lines = lines_of(file), *text = NULL, *result = NULL;
    if (lines && line > 0 && line <= PyList_GET_SIZE(lines)) text = Py_NewRef(PyList_GET_ITEM(lines, line - 1));
    else if (lines) text = line_of_linecache(file, line);
    if (text) result = PyObject_CallMethod(text, "strip", NULL);
    Py_XDECREF(text);
    PyErr_Clear(); /* a source that cannot be read is an empty line */
    nxpy__aside_end(a);
    return result ? result : PyUnicode_FromString("");
}
