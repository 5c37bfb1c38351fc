/* What is said of code objects: whether frames of theirs are captured, and what a frame callback has made of them.
 *
 * In: a code object. Out: its state, which goes when the code object goes.
 * Next: capture/callback.c. */
#include "notes/notes.h"

static Py_ssize_t place = -1;   /* where the interpreter keeps ours; taken once */
static bool asked;

static void forget(void *extra) {
    nxpy_code_state *state = extra;
    if (!state) return;
    Py_XDECREF(state->entries);
    Py_XDECREF(state->kept);
    nx_free(state);
}

nxpy_code_state *nxpy__code_state(PyObject *code, bool make) {
    void *extra = NULL;
    if (!asked && make) {
        asked = true;
        place = nxpy_code_index(forget);
    }
    if (place >= 0 && nxpy_code_get(code, place, &extra) < 0) return PyErr_Clear(), NULL;
    if (extra || !make) return extra;
    nxpy_code_state *state = nx_alloc_zeroed(sizeof *state);
    if (!state) return nxpy_raise(nx_fail_memory(sizeof *state)), NULL;
    if (place >= 0 && nxpy_code_set(code, place, state) == 0) return state;
    nx_free(state);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "this CPython keeps nothing for code objects");
    return NULL;
}
