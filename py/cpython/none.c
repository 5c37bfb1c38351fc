/* A CPython that capture does not know, or a build without capture.
 *
 * In: objects. Out: what public functions tell of them. nxpy_cpython_problem() says that nothing is captured, so that whatever
 * concerns frames, instructions and generators is never asked; it answers as if there were none.
 * Next: py311.c, to see what a version tells. */
#include "cpython/cpython.h"

const char *nxpy_cpython_problem(void) {
    return "torch.compile: this build of Narthex captures no functions (it does under CPython 3.11 to 3.14 with a global interpreter "
           "lock); they run uncompiled";
}

void nxpy_hook_set(nxpy_eval_fn *fn) {}
PyObject *nxpy_eval_default(PyThreadState *thread, nxpy_frame *frame, int throwing) { return NULL; }
bool nxpy_signals_hold(void) { return false; }
void nxpy_signals_back(void) {}
bool nxpy_thread_is_traced(PyThreadState *thread) { return false; }

/* ---- frames ------------------------------------------------------------------------------------------------ */
void nxpy_frame_view(nxpy_frame *frame, nxpy_view *out) { *out = (nxpy_view){0}; }
PyFunctionObject *nxpy_frame_function(nxpy_frame *frame) { return NULL; }
int nxpy_frame_next(nxpy_frame *frame) { return 0; }
int nxpy_frame_depth(nxpy_frame *frame) { return 0; }
void nxpy_frame_set(nxpy_frame *frame, int next, int depth) {}
void nxpy_frame_at(nxpy_frame *frame, int unit, int depth) {}
PyObject *nxpy_frame_end(PyThreadState *thread, nxpy_frame *frame, PyObject *result) { return result; }
int nxpy_frame_enter(PyThreadState *thread, nxpy_frame *frame, nxpy_link *link) { return 0; }
void nxpy_frame_leave(PyThreadState *thread, nxpy_link *link) {}
int nxpy_line_at(nxpy_lines *lines, PyCodeObject *code, int unit) { return -1; }
nxpy_instr nxpy_instr_at(const nxpy_view *view, int unit) { return (nxpy_instr){.start = unit, .next = unit + 1}; }
nxpy_instr nxpy_instr_own(const nxpy_view *view, int unit) { return nxpy_instr_at(view, unit); }
const char *nxpy_opcode_name(int op) { return "?"; }
bool nxpy_catcher_find(const nxpy_view *view, int unit, nxpy_catcher *out) { return false; }
PyObject *nxpy_catcher_unit(int unit) { return NULL; }
PyObject *nxpy_common_constant(PyThreadState *thread, int which) { return NULL; }
PyObject *nxpy_handled(PyThreadState *thread) { return NULL; }
PyObject *nxpy_handled_swap(PyThreadState *thread, PyObject *value) { return value; }
PyObject *nxpy_traceback_new(PyCodeObject *code, PyObject *globals, int line) { return Py_NewRef(Py_None); }

PyObject *nxpy_frame_step(PyThreadState *thread, nxpy_frame *frame, int first, int last, PyObject **stepper, bool *stopped) {
    return NULL;
}

PyObject *nxpy_frame_throw(PyThreadState *thread, nxpy_frame *frame, PyObject **stepper, bool *stopped) { return NULL; }

/* ---- generators -------------------------------------------------------------------------------------------- */
PyObject *nxpy_frame_generator(nxpy_frame *frame) { return NULL; }
nxpy_frame *nxpy_generator_frame(PyObject *generator) { return NULL; }
void nxpy_generator_suspend(nxpy_frame *frame, int how) {}
bool nxpy_generator_is_suspended(PyObject *generator) { return false; }
bool nxpy_generator_is_new(PyObject *generator) { return false; }
void nxpy_generator_drop(PyObject *generator) {}

/* ---- objects ------------------------------------------------------------------------------------------------- */
PyObject *nxpy_instance_dict(PyObject *object) { /* makes it: there is no public way to ask whether it exists */
    PyObject *dict = PyObject_GenericGetDict(object, NULL);
    if (!dict) PyErr_Clear();
    Py_XDECREF(dict); /* the object has it */
    return dict;
}

PyObject *nxpy_instance_value(PyObject *object, PyObject *name) {
    PyObject *dict = nxpy_instance_dict(object), *value = dict ? PyDict_GetItemWithError(dict, name) : NULL;
    if (!value && PyErr_Occurred()) PyErr_Clear();
    return value;
}

int nxpy_instance_dict_offset(PyTypeObject *type) { return 0; }
Py_ssize_t nxpy_instance_size(PyTypeObject *type) { return 0; }

const unsigned long long *nxpy_abc_count;
int nxpy_abc_init(void) { return 0; }
