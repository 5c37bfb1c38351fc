/* capture: torch.compile's front. The first call of a function runs its own frame in the second evaluation loop (py/loop); what
 * was learnt becomes a segment, and later calls check its guards and run its graph. Words: py/notes/notes.h. Everything here
 * runs with the interpreter's lock held. */
#ifndef NXPY_CAPTURE_H
#define NXPY_CAPTURE_H

#include "loop/loop.h"

/* The graph of a segment for inputs of given shapes. A segment whose sizes do not vary has one. */
struct nxpy_fit {
    PyObject *call;             /* what the backend made of it, owned; NULL: nothing to compute */
    nx_compiled *compiled;      /* of call, lent; NULL: call it as a Python object */
    bool draws;                 /* random numbers, from the CPU's own generator alone */
    bool called;                /* as a Python object, at least once */
    bool refused;               /* the segment does not hold for these shapes: */
    PyObject *why;              /* the check that failed, owned */
    int users;                  /* the segment, and runs that are under way */
    nx_value *numbers;          /* what the recipe's INT steps make, and what `steps` of the segment read; owned */
    int64_t key[];              /* the numbers that the graph has as constants, then sizes and strides of the inputs that vary */
};

/* What compiled functions do, on all threads: torch.compiler.set_stance. */
typedef enum nxpy_stance {
    NXPY_STANCE_DEFAULT, NXPY_STANCE_EAGER, NXPY_STANCE_EAGER_ON_RECOMPILE, NXPY_STANCE_FAIL,
    NXPY_STANCE_SKIP_GUARDS,    /* as FAIL: whoever set it said that nothing would be compiled any more */
    NXPY_STANCE_THEN            /* a function that was never compiled: its call is nxpy__late's */
} nxpy_stance;
extern PyObject *nxpy__late;    /* called with (function, arguments, keywords); NULL: no function is */
extern nxpy_stance nxpy__stance;
extern PyObject *nxpy__listener; /* called at each end of a trace; NULL: none */
extern PyObject *nxpy__unsupported; /* narthex._C.Unsupported, a RuntimeError */

/* ---- hook.c ------------------------------------------------------------------------------------- */
void nxpy__hook_hold(bool hold); /* counted */

/* ---- callback.c: torch._C._dynamo.eval_frame ---------------------------------------------------- */
extern _Thread_local PyObject *nxpy__callback; /* of this thread: a callable or False; NULL: none. Owned */
/* A frame that begins or goes on while there is one. As the hook. */
PyObject *nxpy__frame_offered(PyThreadState *thread, nxpy_frame *frame, int throwing);
PyObject *nxpy__callback_aside(void);             /* what backends and compiled graphs call is not offered */
void nxpy__callback_back(PyObject *before);       /* takes what nxpy__callback_aside gave */
void nxpy__pass_by(PyObject *function);           /* its frame that begins next is not offered */
int nxpy__add_eval_frame(PyObject *module);       /* narthex._C._dynamo.eval_frame */

/* ---- trace.c, segment.c ------------------------------------------------------------------------- */
/* Traces from the frame's place and compiles. The frame is left as it was. *out NULL: nothing to gain, run uncompiled.
 * -1 with an exception: from the backend, or fullgraph. */
int nxpy__trace_segment(nxpy_captured *owner, nxpy_root *root, nxpy_point *point, PyThreadState *thread, nxpy_frame *frame,
                        nxpy_segment **out);
void nxpy__segment_free(nxpy_segment *segment);
/* Computes the graph from values (the guards' slots) and makes what the recipe says: out[recipe.n_values], new references.
 * 0; -1 with an exception; NXPY_UNDONE with an exception of the graph's, which has left everything as it was. */
enum { NXPY_UNDONE = -2, NXPY_OTHER = -3 }; /* OTHER: no exception, and nothing was done: it is a graph for other elements */
int nxpy__segment_values(nxpy_segment *segment, PyObject **values, PyObject **out);
nxpy_root *nxpy__root_get(nxpy_captured *owner, PyFunctionObject *function); /* NULL: none free, or an exception */
void nxpy__root_free(nxpy_root *root);
nxpy_point *nxpy__point_get(nxpy_root *root, nxpy_frame *frame, const nxpy_view *view);
/* The first segment whose guards hold, moved to the front, and the values, for nxpy__segment_values(), before which nothing
 * may run: in room[point->n_slots] or in the segment. NULL: none. */
nxpy_segment *nxpy__point_find(nxpy_point *point, PyObject *const *roots, PyObject **room, PyObject ***values,
                               nxpy_segment *const *but, int n_but); /* others than those */
/* Runs a frame of `root` from its beginning: segments, breaks, and traces where there is none. */
PyObject *nxpy__drive(nxpy_captured *owner, nxpy_root *root, PyThreadState *thread, nxpy_frame *frame);

/* ---- plain.c ------------------------------------------------------------------------------------ */
/* The instruction at which the segment ended, for real. As nxpy_frame_step. */
PyObject *nxpy__plain_step(PyThreadState *thread, nxpy_frame *frame, nxpy_view *view, nxpy_segment *segment, bool *stopped);

/* ---- fit.c: the graph of a segment as it runs ------------------------------------------------------ */
/* The fit for the shapes in `values`, moved to the front. 1; 0: there is none yet; -1: the segment does not hold for them. */
int nxpy__fit_find(nxpy_segment *segment, PyObject **values);
/* Makes one, with the hook off. 1; 0: the segment does not hold for these shapes; -1 with an exception. */
int nxpy__fit_make(nxpy_captured *owner, nxpy_segment *segment, PyObject **values);
/* The only one of a segment in which nothing varies; `inputs` is the list of fakes. 0, or -1 with an exception. */
int nxpy__shows_graph(const nxpy_captured *owner); /* the backend is the program's and gets the graph: 1, 0; -1: it does not say */
int nxpy__fit_first(nxpy_captured *owner, nxpy_segment *segment, PyObject *inputs);
void nxpy__fit_drop(nxpy_fit *fit);
/* Computes the graph: results[n_results] are new references. 0, -1, NXPY_UNDONE. */
int nxpy__fit_run(const nxpy_segment *segment, nxpy_fit *fit, PyObject **values, const nx_value *numbers, PyObject **results);

/* When a trace has ended: which of the given numbers its graph needs as constants, and how a call computes the others.
 * 0, or -1 with an exception. */
int nxpy__numbers_finish(nxpy_trace *trace);
/* The numbers of a call: in room[n_room], or to be freed. NULL: a check does not hold, or an exception. */
bool nxpy__numbers_are_traced(const nxpy_segment *segment, PyObject *const *values); /* the very ones that the trace read */
nx_value *nxpy__numbers_of(const nxpy_segment *segment, const nxpy_fit *fit, PyObject *const *values, nx_value *room, int n_room);

#endif
