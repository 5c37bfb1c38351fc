/* Shared by the files of graphs. */
#ifndef NXPY_GRAPHS_PRIVATE_H
#define NXPY_GRAPHS_PRIVATE_H

#include "graphs/graphs.h"

PyObject *nxpy_aot_new(nxpy_graph *source, bool grad_mode);
int nxpy_add_compiled(PyObject *module);

#endif
