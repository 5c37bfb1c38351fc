/* autograd: backward, hooks and nodes written in Python. Everything runs with the interpreter's lock held. */
#ifndef NXPY_AUTOGRAD_H
#define NXPY_AUTOGRAD_H

#include "bind/bind.h"

extern PyTypeObject nxpy_grad_node_type;
nx_grad_node *nxpy_grad_node_get(PyObject *object);   /* of an nxpy_grad_node_type; lent */
PyObject *nxpy_grad_node_object(nx_grad_node *node);  /* lent node; new reference */
int nxpy_add_function(PyObject *module);              /* nodes that call back into Python */
int nxpy_add_apply(PyObject *module);                 /* Function.apply */
/* A node whose gradients call(node, *gradients) computes, with an edge for each of the tuple. Its list of what is saved is
 * emptied when the graph is freed. */
NX_MUST_USE nx_status nxpy_function_node(PyObject *inputs, const char *name, PyObject *call, nx_grad_node **out);
void nxpy_function_keep(nx_grad_node *node, PyObject *saved);
NX_MUST_USE nx_status nxpy_function_tie(PyObject *tensor, nx_grad_node *node, int output, bool written); /* the tensor is its result */
/* Fails where the tensor was written since its version was `expected`. node, output: what made it; NULL: it tells. */
NX_MUST_USE nx_status nxpy_check_saved(PyObject *tensor, uint32_t expected, nx_grad_node *node, int output);
int nxpy_add_forward(PyObject *module);               /* tangents */
int nxpy_add_batch(PyObject *module);                 /* levels of vmap */
/* As nx_grad_run, also of slices. */
NX_MUST_USE nx_status nxpy_grad_run(nx_tensor **roots, nx_tensor **grads, int n, bool retain, bool create, nx_tensor **inputs, int n_in,
                                    nx_tensor **out);
int nxpy_add_edges(PyObject *module);                 /* places in the graph */
int nxpy_add_hooks(PyObject *module);                 /* functions that a backward calls */
PyObject *nxpy_register_hook(PyObject *node, PyObject *function);    /* after the node has run */
PyObject *nxpy_register_prehook(PyObject *node, PyObject *function); /* before it runs */
PyObject *nxpy_node_metadata(PyObject *node, void *unused);             /* the dict that a program keeps at it */
int nxpy_add_profile(PyObject *module);               /* profiles */
int nxpy_visit_function(const nx_grad_node *node, const nxpy_visitor *visitor);

#endif
