/* nn: calls and attributes of nn.Module in C. Everything runs with the interpreter's lock held. */
#ifndef NXPY_NN_H
#define NXPY_NN_H

#include "bind/bind.h"

/* The Python function that a call of `object` comes to, with the object as its first argument: of a module without hooks
 * and without a forward of its own its class's forward, of other modules and objects their class's __call__. Lent; NULL:
 * no Python function. */
PyObject *nxpy_called_function(PyObject *object);
/* The same for a call of the method `function` of an object: Module._call_impl comes to a forward as well. */
PyObject *nxpy_called_method(PyObject *object, PyObject *function);

bool nxpy_is_module(PyObject *object); /* an instance of Module, or of a class with its __call__ */

#endif
