/* size: integers that a trace does not fix, as Python objects (torch.SymInt). While a trace records with sizes that may
 * change (nx_tracer.varies), reading a size of one of its tensors gives such an integer: it has the value of now, and it is a
 * node of the graph. Sums, products and quotients of it are nodes again. A comparison answers for now and leaves a check in
 * the graph; whoever asks for the plain number (__index__) fixes it, with a check as well. After its trace it is the number
 * that it was. Everything here runs with the interpreter's lock held. */
#ifndef NXPY_SIZE_H
#define NXPY_SIZE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ir/ir.h"

typedef struct nxpy_symint {
    PyObject_HEAD
    nx_value now;          /* INT, of a SymFloat FLOAT */
    nx_tracer *tracer;     /* lent: compared with the thread's, used only when it is that one */
    uint64_t serial;       /* of the trace: a tracer's address may come again */
    int number;            /* its place in tracer->ints */
} nxpy_symint;
extern PyTypeObject nxpy_symint_type, nxpy_symfloat_type;
static inline bool nxpy_symint_check(PyObject *o) { return Py_IS_TYPE(o, &nxpy_symint_type); }
static inline bool nxpy_symfloat_check(PyObject *o) { return Py_IS_TYPE(o, &nxpy_symfloat_type); }
static inline bool nxpy_symnumber_check(PyObject *o) { return nxpy_symint_check(o) || nxpy_symfloat_check(o); }
/* The class that the program sees: int or float for an open number, else the object's. */
static inline PyTypeObject *nxpy_class_of(PyObject *o) {
    return nxpy_symint_check(o) ? &PyLong_Type : nxpy_symfloat_check(o) ? &PyFloat_Type : Py_TYPE(o);
}

/* The tracer that records with varying sizes on this thread now; NULL: none does. */
static inline nx_tracer *nxpy_size_tracer(void) {
    nx_tracer *tracer = nx_thread_get()->tracer;
    return NX_LIKELY(!tracer || !tracer->varies) ? NULL : tracer;
}
/* What `code` reads of a tensor (SIZE, STRIDE of dimension `dim`; NUMEL, OFFSET, CONTIGUOUS) whose value now is `now`: a
 * SymInt where it may change, else an int. New reference; NULL with an exception. */
PyObject *nxpy_size_read(nx_tensor *tensor, nx_int_code code, int dim, int64_t now);
/* All sizes of a tensor in a torch.Size or tuple `like` of ndim ints: its own elements are replaced. Takes and returns it. */
PyObject *nxpy_sizes_read(nx_tensor *tensor, nx_int_code code, PyObject *like);
/* The number, fixed from here on. 0, or -1 with an exception. */
int nxpy_size_fix(nx_tensor *tensor, nx_int_code code, int dim, int64_t now);
/* Number `k` of those that the graph is given beside its tensors, an int or a float. New reference; NULL with an exception. */
PyObject *nxpy_size_given(nx_tracer *tracer, int k, PyObject *now);
/* As an argument of a call that is about to be recorded; false: it is no SymInt of the trace that records now (its number
 * counts then). */
bool nxpy_symint_argument(PyObject *o, nx_value *out);
static inline bool nxpy_symint_value(PyObject *o, nx_value *out) {
    return NX_UNLIKELY(nxpy_symint_check(o)) && nxpy_symint_argument(o, out);
}
/* The same where any number is taken, of another trace as well. */
bool nxpy_symnumber_argument(PyObject *o, nx_value *out);
static inline bool nxpy_symnumber_value(PyObject *o, nx_value *out) {
    return NX_UNLIKELY(nxpy_symnumber_check(o)) && nxpy_symnumber_argument(o, out);
}
/* The number itself, fixed from here on. New reference; NULL with an exception. */
PyObject *nxpy_symnumber_fix(PyObject *o);
/* The node of a SymInt of this tracer; NULL: it is none. */
nx_node *nxpy_symint_node(PyObject *o, const nx_tracer *tracer);
int nxpy_add_size(PyObject *module); /* narthex._C.SymInt */

#endif
