/* The frame hook: which frames the second evaluation loop runs.
 *
 * In: every Python frame of the process that begins while the hook is held. Out: its result.
 * What must hold: frames of other threads, and of our own Python code, pass by. A frame that begins while a trace runs belongs
 * to it; the first frame of the function that a compiled one enters is a root.
 * Next: segment.c. */
#include "capture/capture.h"

static PyObject *enter_frame(PyThreadState *thread, nxpy_frame *frame, int throwing) {
    nxpy_doing *doing = &nxpy__doing;
    if (doing->paused) return nxpy_eval_default(thread, frame, throwing);
    if (doing->trace) {
        return nxpy_frame_end(thread, frame, nxpy__loop_inline(doing->trace, thread, frame, throwing));
    }
    if (!doing->entering) {
        return nxpy__callback ? nxpy__frame_offered(thread, frame, throwing) : nxpy_eval_default(thread, frame, throwing);
    }
    PyFunctionObject *function = nxpy_frame_function(frame);
    nxpy_captured *owner = doing->entering;
    nxpy_view view;
    nxpy_frame_view(frame, &view);
    bool fits = !throwing && nxpy_frame_next(frame) == 0 && !nxpy_thread_is_traced(thread) && (view.code->co_flags & CO_OPTIMIZED) &&
                view.code->co_stacksize > 0 && /* else there is nothing to gain and no room for a result */
                !(view.code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR));
    if (!fits || (doing->function && doing->function != (PyObject *)function)) return nxpy_eval_default(thread, frame, throwing);
    if (nxpy__code_skips((PyObject *)view.code)) {
        doing->function = NULL; /* what it calls are roots */
        return nxpy_eval_default(thread, frame, throwing);
    }
    nxpy_root *root = nxpy__root_get(owner, function);
    if (!root) return PyErr_Occurred() ? nxpy_frame_end(thread, frame, NULL) : nxpy_eval_default(thread, frame, throwing);
    nxpy_doing before = *doing;
    *doing = (nxpy_doing){0};
    PyObject *result = nxpy__drive(owner, root, thread, frame);
    *doing = before;
    if (doing->function) doing->entering = NULL; /* that one function's first frame only */
    return nxpy_frame_end(thread, frame, result);
}

void nxpy__hook_hold(bool hold) {
    static int n_holds; /* of all threads: under the interpreter's lock */
    n_holds += hold ? 1 : -1;
    if (hold && n_holds == 1) nxpy_hook_set(enter_frame);
    else if (!hold && n_holds == 0) nxpy_hook_set(NULL);
}
