/* Storages and states as bytes, for the other files of py/bind. */
#ifndef NXPY_BIND_MEMORY_H
#define NXPY_BIND_MEMORY_H

#include "bind/private.h"

PyObject *nxpy_generator_object(nx_generator *generator); /* takes it */
PyObject *nxpy_generator_get_state(PyObject *self, PyObject *unused);
PyObject *nxpy_generator_set_state(PyObject *self, PyObject *state);
int nxpy_add_memory(PyObject *module);

#endif
