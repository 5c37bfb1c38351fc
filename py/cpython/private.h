/* Shared by the files of cpython: what known.c, instances.c and since312.c ask a version. */
#ifndef NXPY_CPYTHON_PRIVATE_H
#define NXPY_CPYTHON_PRIVATE_H

#include "cpython/cpython.h"

/* ---- of every version that is known (pyNNN.c) ---------------------------------------------------------------------- */
extern const char *const nxpy__version_name;             /* "3.11" */
extern const unsigned nxpy__version;                     /* Py_Version >> 16 */
int nxpy__base_opcode(PyCodeObject *code, int unit);     /* never a specialised or watched form */
int nxpy__opcode_caches(int opcode);                     /* units behind it */
int nxpy__opcode_argument(PyCodeObject *code, int unit);
PyDictValues *nxpy__inline_values(PyObject *object);     /* what an instance holds in itself; NULL: it does not */
PyObject *nxpy__managed_dict(PyObject *object);          /* of an instance whose class has such; lent. NULL: there is none yet */
/* What an instance holds in itself; *inside tells that its values lie there and not in a dict. Lent (instances.c). */
PyObject *nxpy__inline_value(PyObject *object, PyObject *name, bool *inside);

/* ---- from 3.12 on (since312.c, where whoever runs a frame clears it) ------------------------------------------------ */
PyCodeObject *nxpy__frame_code(nxpy_frame *frame);
void nxpy__frame_code_set(nxpy_frame *frame, PyCodeObject *code); /* takes a reference, forgets the old one */
int nxpy__frame_at(nxpy_frame *frame);                   /* the unit at which the interpreter stopped */
bool nxpy__frame_is_over(PyThreadState *thread, nxpy_frame *frame); /* cleared, or yielded */
void *nxpy__chain(PyThreadState *thread);                /* the thread's chain of frames, and as it was before */
void nxpy__chain_back(PyThreadState *thread, void *chain);
void nxpy__unit_set(PyCodeObject *code, int unit, int opcode, int argument);
void nxpy__units_copy(PyCodeObject *copy, PyCodeObject *code, int first, int last); /* units [first, last), not specialised */
/* How many values are on the stack when units [first, last), begun with `depth`, have gone to unit `at`. */
int nxpy__depth_after(const nxpy_view *view, int first, int last, int at, int depth);
/* Whether the interpreter can be stopped in the frame where it holds that many values on its stack. */
bool nxpy__may_step(PyThreadState *thread, const nxpy_view *view, nxpy_frame *frame, int depth);
/* A copy of the code in which units [first, last), begun with `depth`, run and all else stops. */
PyObject *nxpy__stepper_new(const nxpy_view *view, int first, int last, int depth);
/* The unit behind them where it has stopped, and given `result`. */
int nxpy__stepped_to(PyThreadState *thread, const nxpy_view *view, nxpy_frame *frame, int first, int last, int depth, PyObject *result);
extern const int nxpy__stop_opcode, nxpy__return_opcode, nxpy__return_const_opcode, nxpy__prefix_opcode;

#endif
