/* Shared by the files of graphs. */
#ifndef NXPY_GRAPHS_PRIVATE_H
#define NXPY_GRAPHS_PRIVATE_H

#include "graphs/graphs.h"

PyObject *nxpy_aot_new(nxpy_graph *source, bool grad_mode);
int nxpy_add_compiled(PyObject *module);
/* runner.c. saved: a tuple; saved_input: room for its numbers, which out refers to. */
int nxpy_runners_from(const nx_aot *aot, PyObject *forward, PyObject *backward, PyObject *saved, int *saved_input,
                      nx_runners *out);
PyObject *nxpy_record(PyObject *module, PyObject *args);
PyObject *nxpy_set_fake(PyObject *module, PyObject *on);

#endif
