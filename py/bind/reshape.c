/* The in-place forms of views: x.t_() and its like give a tensor itself the sizes and strides of the view.
 *
 * In: the tensor and the view's arguments. Out: the same tensor.
 * What must hold: no element moves, so other views and the base stay right as they are; the tensor's history is the view's own
 * node from then on, recorded as the view was taken; a write is counted, as in PyTorch. A tensor whose history nobody
 * would be told of (gradients are off), one that a graph is being made of, and one whose class answers for operators are
 * refused before anything changes. Next: attributes.c for what takes the place over, src/grad/view.c for views. */
#include "bind/private.h"

/* What autograd says of writing it: as of an operator that works in place. */
static nx_status check(nx_tensor *tensor, const char *name) {
    const nx_thread *thread = nx_thread_get();
    if (thread->tracer)
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: a graph that is being made cannot hold another size of a tensor: take the view", name);
    if (tensor->keys & NX_KEY(PYTHON))
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: not there yet for tensors whose class has __torch_dispatch__", name);
    if (!thread->grad_disabled) return nx_grad_check_written(tensor);
    if (!nx_tensor_requires_grad(tensor) || nx_tensor_is_leaf(tensor)) return NX_OK;
    return nx_fail(NX_NOT_IMPLEMENTED, "%s: a tensor with a history cannot get another size while gradients are off: its gradient "
                   "would have the old one", name);
}

/* "t() expects ..." becomes "t_() expects ...". */
static void rename_error(const char *view, const char *name) {
    PyObject *type, *value, *trace;
    size_t n = strlen(view);
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *at = text ? PyUnicode_AsUTF8(text) : NULL;
    if (at && strncmp(at, view, n) == 0 && at[n] == '(') {
        PyErr_Format(type, "%s%s", name, at + n);
        Py_DECREF(type);
        Py_DECREF(value);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(type, value, trace);
    }
    Py_XDECREF(text);
}

static nx_status become(nx_tensor *self, nx_tensor *view) {
    nx_tensor *alias = NULL, *tangent;
    nx_grad_node *node = NULL;
    NX_TRY(nx_tangent_of(view, &tangent));
    nx_status status = nx_tensor_alias(view, &alias);
    if (status == NX_OK && nx_tensor_requires_grad(view)) status = nx_grad_node_of(view, &node);
    if (status == NX_OK && node) status = nx_grad_set_node(self, node, view->autograd->output);
    if (status != NX_OK) {
        nx_tensor_unref(alias);
        nx_tensor_unref(tangent);
        return status;
    }
    nxpy_take_over(self, alias);
    if (self->storage) self->storage->version++;
    if (tangent) nx_tangent_drop(self);
    status = tangent ? nx_tangent_set(self, tangent) : NX_OK;
    nx_tensor_unref(tangent);
    return status;
}

static PyObject *in_place(const char *name, const char *view_name, PyObject *self, PyObject *args, PyObject *keywords) {
    NXPY_ASK_CALLED(self, name, args, keywords);
    nx_tensor *tensor = nxpy_tensor_get(self);
    NXPY_TRY(check(tensor, name));
    PyObject *method = PyObject_GetAttrString((PyObject *)nxpy_tensor_class, view_name), *all = PyTuple_New(1 + PyTuple_GET_SIZE(args));
    for (Py_ssize_t k = 0; all && k < PyTuple_GET_SIZE(all); k++)
        PyTuple_SET_ITEM(all, k, Py_NewRef(k ? PyTuple_GET_ITEM(args, k - 1) : self));
    PyObject *view = method && all ? PyObject_Call(method, all, keywords) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(all);
    if (view == NULL) {
        rename_error(view_name, name);
        return NULL;
    }
    bool shown = nxpy_tensor_check(view) && nxpy_tensor_get(view)->storage == tensor->storage;
    nx_status status = shown ? become(tensor, nxpy_tensor_get(view))
                             : nx_fail(NX_NOT_IMPLEMENTED, "%s: what a mode answered is no view of the tensor", name);
    Py_DECREF(view);
    return status == NX_OK ? Py_NewRef(self) : nxpy_raise(status);
}

#define IN_PLACE(view)                                                                              \
    PyObject *nxpy_tensor_##view##_(PyObject *self, PyObject *args, PyObject *keywords) {           \
        return in_place(#view "_", #view, self, args, keywords);                                    \
    }
IN_PLACE(t)
IN_PLACE(transpose)
IN_PLACE(swapaxes)
IN_PLACE(swapdims)
IN_PLACE(squeeze)
IN_PLACE(unsqueeze)
IN_PLACE(as_strided)
