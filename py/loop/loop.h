/* loop: the second evaluation loop. It runs the user's frames with fake tensors in place of tensors, instruction by
 * instruction; the dispatcher's CAPTURE key records what they compute. Everything runs with the interpreter's lock held. */
#ifndef NXPY_LOOP_H
#define NXPY_LOOP_H

#include "notes/notes.h"

/* One frame in the loop. */
struct nxpy_loop {
    nxpy_trace *trace;
    nxpy_frame *frame;
    nxpy_view view;
    nxpy_lines lines;
    int depth;                  /* values on the stack */
    nxpy_instr in;
    int next;                   /* unit to go on at */
    PyObject *result;
    nxpy_loop *outer;
    PyObject **start;           /* root: the frame's values when the trace began */
    bool *written;              /* root: locals that were stored into since; NULL in inlined frames */
};

/* 1: returned, result set; -1: stopped, or (not in the root) an exception that the frame does not catch. `throwing`: the
 * set exception is thrown into the frame. */
int nxpy__loop_run(nxpy_loop *loop, bool throwing);
/* A frame that a traced program has entered, run as the interpreter would: its result, or NULL with an exception. */
PyObject *nxpy__loop_inline(nxpy_trace *trace, PyThreadState *thread, nxpy_frame *frame, bool throwing);
typedef PyObject *nxpy_binary_fn(PyObject *x, PyObject *y);
extern nxpy_binary_fn *const nxpy__binary_fns[]; /* by nxpy_binary */
extern int64_t nxpy__stop_at;   /* for tests: every trace stops before its instruction of this number; 0: none does */
int nxpy__calls_init(PyObject *extension); /* calls.c: the table of calls.def, once */
extern PyTypeObject *nxpy__graph_class; /* narthex._C.Graph: a call of a graph is recorded as what it calls */
int nxpy__abc_init(void);   /* specials.c */
int nxpy__add_rules(PyObject *module); /* rules.c: into narthex._C */
/* Python code that may not run while a trace runs is asked when it is over, and the trace begins again. A question: (class, abstract
 * base class), or (function, what stands for its arguments, names or None, more), and the arguments. Its answer, lent; NULL: stopped. */
PyObject *nxpy__ask(nxpy_trace *trace, PyObject *question, PyObject *arguments);
int nxpy__answer(nxpy_trace *trace);        /* with the trace over: 0, or -1 with an exception */

#endif
