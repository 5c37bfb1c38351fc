/* Shared by the files of cpython: what known.c and since312.c ask a version. */
#ifndef NXPY_CPYTHON_PRIVATE_H
#define NXPY_CPYTHON_PRIVATE_H

#include "cpython/cpython.h"

/* ---- of every version that is known (pyNNN.c) ---------------------------------------------------------------------- */
extern const char *const nxpy__version_name;             /* "3.11" */
extern const unsigned nxpy__version;                     /* Py_Version >> 16 */
int nxpy__base_opcode(PyCodeObject *code, int unit);     /* never a specialised or watched form */
int nxpy__opcode_caches(int opcode);                     /* units behind it */
int nxpy__opcode_argument(PyCodeObject *code, int unit);
/* What an instance holds in itself; *inside tells that its values lie there and not in a dict. Lent. */
PyObject *nxpy__inline_value(PyObject *object, PyObject *name, bool *inside);

/* ---- from 3.12 on (since312.c, where whoever runs a frame clears it) ------------------------------------------------ */
PyCodeObject *nxpy__frame_code(nxpy_frame *frame);
void nxpy__frame_code_set(nxpy_frame *frame, PyCodeObject *code); /* takes a reference, forgets the old one */
int nxpy__frame_at(nxpy_frame *frame);                   /* the unit at which the interpreter stopped */
bool nxpy__frame_is_over(PyThreadState *thread, nxpy_frame *frame); /* cleared, or yielded */
void *nxpy__chain(PyThreadState *thread);                /* the thread's chain of frames, and as it was before */
void nxpy__chain_back(PyThreadState *thread, void *chain);
void nxpy__unit_set(PyCodeObject *code, int unit, int opcode, int argument);
extern const int nxpy__stop_opcode, nxpy__return_opcode, nxpy__return_const_opcode, nxpy__prefix_opcode;

#endif
