/* graphs: captured graphs and what is compiled of them, as Python objects. Everything runs with the interpreter's lock held. */
#ifndef NXPY_GRAPHS_H
#define NXPY_GRAPHS_H

#include "bind/bind.h"

typedef struct nxpy_graph { /* narthex._C.Graph */
    PyObject_HEAD
    nx_graph *graph;
    nx_value value;       /* GRAPH: it is the graph of this one, which never changes; owned */
    PyObject *spellings;  /* list: rows of calls as the program spelled them (py/notes/spelling.c); owned or NULL */
    PyObject *attributes; PyObject *weak;
} nxpy_graph;
extern PyTypeObject nxpy_graph_type;
PyObject *nxpy_graph_take(nx_graph *graph);               /* takes it, also on failure */
typedef struct nxpy_compiled { /* narthex._C.CompiledGraph */
    PyObject_HEAD
    nx_compiled *compiled;
    PyObject *attributes;
    vectorcallfunc call;
} nxpy_compiled;
extern PyTypeObject nxpy_compiled_type;

#endif
