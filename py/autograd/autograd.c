/* Autograd on Python tensors: requires_grad, grad, grad_fn, the engine, grad mode. */
#include "autograd/autograd.h"

#define SELF nxpy_tensor_get(self)
#define WHOLE nx_tensor_whole(nxpy_tensor_get(self)) /* whose history it is */

/* ---- nodes --------------------------------------------------------------------------------------------------------- */
typedef struct node_object {
    PyObject_HEAD nx_grad_node *node;
} node_object;

/* The class of nodes of that name, made once: programs ask type(x.grad_fn).__name__. Borrowed. */
static PyObject *node_class(const char *name) {
    static PyObject *classes;
    if (classes == NULL && (classes = PyDict_New()) == NULL) return NULL;
    PyObject *known = PyDict_GetItemString(classes, name);
    if (known) return known;
    PyObject *made = PyObject_CallFunction((PyObject *)&PyType_Type, "s(O){s()ss}", name, &nxpy_grad_node_type, "__slots__",
                                           "__module__", "builtins");
    int failed = made ? PyDict_SetItemString(classes, name, made) : -1;
    Py_XDECREF(made);
    return failed ? NULL : made;
}
/* The objects that stand for nodes, by the nodes' addresses: a node has one object as long as that lives. */
static PyObject *node_objects;

PyObject *nxpy_grad_node_object(nx_grad_node *node) {
    if (node_objects == NULL && (node_objects = PyDict_New()) == NULL) return NULL;
    PyObject *place = PyLong_FromVoidPtr(node), *known = place ? PyDict_GetItemWithError(node_objects, place) : NULL;
    if (known) {
        Py_DECREF(place);
        return Py_NewRef(PyLong_AsVoidPtr(known));
    }
    PyTypeObject *type = place && !PyErr_Occurred() ? (PyTypeObject *)node_class(nx_grad_node_name(node)) : NULL;
    PyObject *o = type ? type->tp_alloc(type, 0) : NULL, *address = o ? PyLong_FromVoidPtr(o) : NULL;
    if (o) {
        nx_grad_node_ref(node);
        ((node_object *)o)->node = node;
    }
    if (address == NULL || PyDict_SetItem(node_objects, place, address) < 0) Py_CLEAR(o);
    Py_XDECREF(address);
    Py_XDECREF(place);
    return o;
}
nx_grad_node *nxpy_grad_node_get(PyObject *object) { return ((node_object *)object)->node; }
static void node_dealloc(PyObject *self) {
    nx_grad_node *node = ((node_object *)self)->node;
    PyObject *type, *value, *trace, *place;
    PyErr_Fetch(&type, &value, &trace);
    if ((place = PyLong_FromVoidPtr(node)) && PyDict_DelItem(node_objects, place) < 0) PyErr_Clear();
    Py_XDECREF(place);
    PyErr_Restore(type, value, trace);
    nx_grad_node_unref(node);
    Py_TYPE(self)->tp_free(self);
}
static PyObject *node_repr(PyObject *self) {
    return PyUnicode_FromFormat("<%s object at %p>", nx_grad_node_name(((node_object *)self)->node),
                                ((node_object *)self)->node);
}
static PyObject *node_name(PyObject *self, PyObject *unused) {
    const nx_grad_node *node = ((node_object *)self)->node;
    const char *name = nx_grad_node_name(node);
    bool is_engines = strcmp(name, "AccumulateGrad") == 0 || strcmp(name, "CopySlices") == 0;
    return PyUnicode_FromFormat("%s%s", is_engines ? "torch::autograd::" : "", name);
}
static PyObject *node_next(PyObject *self, void *unused) {
    nx_grad_node *node = ((node_object *)self)->node;
    PyObject *tuple = PyTuple_New(node->n_edges);
    for (int i = 0; tuple && i < node->n_edges; i++) {
        nx_edge edge = node->edges[i];
        PyObject *next = edge.node ? nxpy_grad_node_object(edge.node) : Py_NewRef(Py_None);
        PyObject *pair = next ? Py_BuildValue("(Ni)", next, edge.input) : NULL;
        if (pair) PyTuple_SET_ITEM(tuple, i, pair);
        else Py_CLEAR(tuple);
    }
    return tuple;
}
static PyObject *node_variable(PyObject *self, void *unused) {
    const nx_grad_node *node = ((node_object *)self)->node;
    if (strcmp(nx_grad_node_name(node), "AccumulateGrad") != 0)
        return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'", nx_grad_node_name(node));
    if (node->context == NULL) Py_RETURN_NONE;
    return nxpy_tensor_wrap(node->context);
}
/* Later nodes have higher numbers; leaves the highest, since they run first. */
static PyObject *node_sequence(PyObject *self, PyObject *unused) {
    return PyLong_FromUnsignedLongLong(((node_object *)self)->node->sequence);
}
static PyObject *node_requires_grad(PyObject *self, void *unused) { Py_RETURN_TRUE; }
static PyObject *node_compare(PyObject *a, PyObject *b, int how) {
    if (!PyObject_TypeCheck(b, &nxpy_grad_node_type) || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((node_object *)a)->node == ((node_object *)b)->node) == (how == Py_EQ));
}
static Py_hash_t node_hash(PyObject *self) {
    return (Py_hash_t)((uintptr_t)((node_object *)self)->node >> 4);
}
static PyMethodDef node_methods[] = {{"name", node_name, METH_NOARGS,
                                      "What it differentiates: AddBackward0."},
                                     {"_sequence_nr", node_sequence, METH_NOARGS,
                                      "Nodes that were made later have higher numbers."},
                                     {"register_hook", nxpy_register_hook, METH_O,
                                      "register_hook(fn): `fn(grad_inputs, grad_outputs)` is called when the node has run; a tuple\n"
                                      "that it returns goes on in the place of grad_inputs."},
                                     {"register_prehook", nxpy_register_prehook, METH_O,
                                      "register_prehook(fn): `fn(grad_outputs)` is called before the node runs; a tuple that it\n"
                                      "returns goes into the node instead."},
                                     {NULL}};
static PyGetSetDef node_getset[] = {{"next_functions", node_next, NULL,
                                     "((node, input), ...) that its gradients go to.", NULL},
                                    {"metadata", nxpy_node_metadata, NULL,
                                     "A dict for whoever walks the graph: it lives as long as the node.", NULL},
                                    {"requires_grad", node_requires_grad, NULL, "True.", NULL},
                                    {"variable", node_variable, NULL,
                                     "Of AccumulateGrad: the leaf, or None when it has gone.", NULL},
                                    {NULL}};
PyTypeObject nxpy_grad_node_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.autograd.Node",
                                    .tp_basicsize = sizeof(node_object),
                                    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                    .tp_dealloc = node_dealloc,
                                    .tp_repr = node_repr,
                                    .tp_methods = node_methods,
                                    .tp_getset = node_getset,
                                    .tp_richcompare = node_compare,
                                    .tp_hash = node_hash,
                                    .tp_doc = "A step of the backward graph."};

/* ---- attributes of tensors -------------------------------------------------------------------------------------------- */
static PyObject *get_requires_grad(PyObject *self, void *unused) {
    return PyBool_FromLong(nx_tensor_requires_grad(WHOLE));
}
static int set_requires_grad(PyObject *self, PyObject *value, void *unused) {
    int truth = value ? PyObject_IsTrue(value) : -1;
    if (value == NULL) PyErr_SetString(PyExc_AttributeError, "requires_grad cannot be deleted");
    if (truth < 0) return -1;
    if (!nx_tensor_is_leaf(WHOLE)) {
        PyErr_Format(PyExc_RuntimeError, "you can only change requires_grad flags of leaf variables.%s",
                     truth ? ""
                           : " If you want to use a computed variable in a subgraph that doesn't require "
                             "differentiation use "
                             "var_no_grad = var.detach().");
        return -1;
    }
    nx_status status = nx_tensor_set_requires_grad(WHOLE, truth);
    return status == NX_OK ? 0 : (nxpy_raise(status), -1);
}
static PyObject *requires_grad_(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"requires_grad", NULL};
    int on = 1;
    PyObject *answer;
    if (nxpy_ask_called("requires_grad_", self, args, keywords, &answer)) return answer;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p:requires_grad_", names, &on)) return NULL;
    NXPY_TRY(nx_tensor_set_requires_grad(WHOLE, on));
    return Py_NewRef(self);
}
static PyObject *get_grad(PyObject *self, void *unused) {
    nx_tensor *grad = nx_tensor_get_grad(WHOLE), *slice;
    if (grad == NULL) Py_RETURN_NONE;
    if (NX_LIKELY(SELF->whole == NULL)) return nxpy_tensor_wrap(grad);
    NXPY_TRY(nx_batch_hide(grad, SELF->levels, &slice));
    return nxpy_tensor_take(slice);
}
static int set_grad(PyObject *self, PyObject *value, void *unused) {
    if (value && value != Py_None && !nxpy_tensor_check(value)) {
        PyErr_Format(PyExc_TypeError,
                     "assigned grad expected to be a Tensor or None but got grad of type '%s'",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    nx_tensor *grad = value && value != Py_None ? nxpy_tensor_get(value) : NULL, *shown = NULL;
    nx_status status = grad && SELF->whole ? nx_batch_show(grad, SELF->levels, &shown) : NX_OK;
    if (status == NX_OK) status = nx_tensor_set_grad(WHOLE, shown ? shown : grad);
    nx_tensor_unref(shown);
    return status == NX_OK ? 0 : (nxpy_raise(status), -1);
}
static PyObject *get_grad_fn(PyObject *self, void *unused) {
    nx_grad_node *node;
    NXPY_TRY(nx_grad_node_of(WHOLE, &node));
    if (node == NULL) Py_RETURN_NONE;
    nxpy_tensor_track(self); /* whoever asks for the node may put a hook there that knows the tensor */
    return nxpy_grad_node_object(node);
}
static PyObject *get_is_leaf(PyObject *self, void *unused) {
    return PyBool_FromLong(nx_tensor_is_leaf(WHOLE));
}
static PyObject *get_output_nr(PyObject *self, void *unused) {
    const nx_autograd *autograd = WHOLE->autograd;
    return PyLong_FromLong(autograd && autograd->node ? autograd->output : 0);
}
static PyObject *retain_grad(PyObject *self, PyObject *unused) {
    PyObject *answer;
    if (nxpy_ask_before("retain_grad", self, NULL, 0, NULL, &answer)) return answer;
    NXPY_TRY(nx_tensor_retain_grad(WHOLE));
    Py_RETURN_NONE;
}
static PyObject *get_retains_grad(PyObject *self, void *unused) {
    const nx_autograd *autograd = WHOLE->autograd;
    return PyBool_FromLong(autograd && autograd->retains_grad);
}
static PyObject *is_view(PyObject *self, PyObject *unused) { return PyBool_FromLong(WHOLE->base != NULL); }
static PyObject *detach_(PyObject *self, PyObject *unused) {
    PyObject *answer;
    if (nxpy_ask_before("detach_", self, NULL, 0, NULL, &answer)) return answer;
    if (WHOLE->base)
        return PyErr_Format(PyExc_RuntimeError, "Can't detach views in-place. Use detach() instead. If you are using "
                            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, "
                            "gradients are views of DDP buckets, and hence detach_() cannot be called on these gradients. "
                            "To fix this error, please refer to the Optimizer.zero_grad() function in "
                            "torch/optim/optimizer.py as the solution.");
    nx_grad_drop(WHOLE);
    nx_tangent_drop(WHOLE);
    return Py_NewRef(self);
}

/* backward(): the call that training makes stays in C; gradients, inputs and flags are sorted by narthex.autograd. */
static PyObject *backward(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
    PyObject *answer;
    if (nxpy_ask_spelled("backward", "narthex.autograd", "_tensor_backward", self, args, n, keywords, &answer)) return answer;
    if (n == 0 && keywords == NULL && SELF->whole == NULL) {
        NXPY_TRY(nx_tensor_backward(SELF));
        Py_RETURN_NONE;
    }
    PyObject *autograd = PyImport_ImportModule("narthex.autograd");
    PyObject *function = autograd ? PyObject_GetAttrString(autograd, "_tensor_backward") : NULL;
    Py_ssize_t n_all = n + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
    PyObject **all = function ? PyMem_Malloc(sizeof *all * (size_t)(n_all + 1)) : NULL, *result = NULL;
    if (all) {
        all[0] = self;
        memcpy(all + 1, args, sizeof *all * (size_t)n_all);
        result = PyObject_Vectorcall(function, all, (size_t)n + 1, keywords);
    }
    PyMem_Free(all);
    Py_XDECREF(function);
    Py_XDECREF(autograd);
    return result;
}

static PyGetSetDef getset[] = {{"requires_grad", get_requires_grad, set_requires_grad,
                                "Whether gradients are computed for it.", NULL},
                               {"grad", get_grad, set_grad, "The accumulated gradient, or None.", NULL},
                               {"grad_fn", get_grad_fn, NULL, "The node that made it, or None.", NULL},
                               {"is_leaf", get_is_leaf, NULL, "Whether gradients stop at it.", NULL},
                               {"output_nr", get_output_nr, NULL, "Which result of grad_fn it is.", NULL},
                               {"retains_grad", get_retains_grad, NULL,
                                "Whether a non-leaf keeps its gradient.", NULL},
                               {NULL}};
static PyMethodDef methods[] = {
    {"requires_grad_", (PyCFunction)(void (*)(void))requires_grad_, METH_VARARGS | METH_KEYWORDS,
     "requires_grad_(requires_grad=True)"},
    {"backward", (PyCFunction)(void (*)(void))backward, METH_FASTCALL | METH_KEYWORDS,
     "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)\n\nAdds the gradients of "
     "this tensor with respect to "
     "the leaves that it came from to their .grad.\n`gradient` may be left out for a one-element tensor; "
     "`inputs` limits the leaves. "
     "The graph is freed\nafterwards unless `retain_graph` (or `create_graph`) is set."},
    {"_is_view", is_view, METH_NOARGS, "Whether it shows the memory of another tensor, as autograd knows it."},
    {"retain_grad", retain_grad, METH_NOARGS, "Keeps the gradient of a non-leaf in .grad."},
    {"detach_", detach_, METH_NOARGS, "Takes it out of the graph that made it."},
    {NULL}};

/* ---- the engine ------------------------------------------------------------------------------------------------------------ */
/* Borrowed tensors of a sequence, None as NULL; the array belongs to the caller. */
static nx_tensor **tensors_of(PyObject *sequence, Py_ssize_t n, const char *what) {
    nx_tensor **tensors = PyMem_Calloc((size_t)n + 1, sizeof *tensors);
    if (tensors == NULL) return (void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(sequence, i);
        if (item == Py_None) continue;
        if (!nxpy_tensor_check(item)) {
            PyErr_Format(PyExc_TypeError, "backward: %s must be Tensors, not %s", what,
                         Py_TYPE(item)->tp_name);
            PyMem_Free(tensors);
            return NULL;
        }
        tensors[i] = nxpy_tensor_get(item);
    }
    return tensors;
}

static PyObject *autograd_run(PyObject *module, PyObject *args) {
    PyObject *roots, *grads, *inputs;
    int retain, create;
    if (!PyArg_ParseTuple(args, "O!O!ppO:autograd_run", &PyTuple_Type, &roots, &PyTuple_Type, &grads, &retain,
                          &create, &inputs))
        return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(roots), n_in = inputs == Py_None       ? 0
                                                   : PyTuple_Check(inputs) ? PyTuple_GET_SIZE(inputs)
                                                                           : -1;
    if (PyTuple_GET_SIZE(grads) != n || n_in < 0)
        return PyErr_Format(PyExc_ValueError,
                            "autograd_run: one gradient for each root, inputs a tuple or None");
    nx_tensor **r = tensors_of(roots, n, "roots"), **g = r ? tensors_of(grads, n, "gradients") : NULL;
    nx_tensor **in = g && n_in ? tensors_of(inputs, n_in, "inputs") : NULL;
    nx_tensor **out = g ? PyMem_Calloc((size_t)n_in + 1, sizeof *out) : NULL;
    PyObject *result = NULL;
    if (out && (in || n_in == 0)) {
        nx_status status = nxpy_grad_run(r, g, (int)n, retain, create, inputs == Py_None ? NULL : in, (int)n_in, out);
        result = status != NX_OK     ? nxpy_raise(status)
                 : inputs == Py_None ? Py_NewRef(Py_None)
                                     : nxpy_tensors_take(out, (int)n_in);
    }
    PyMem_Free(r);
    PyMem_Free(g);
    PyMem_Free(in);
    PyMem_Free(out);
    return result;
}

static PyObject *is_grad_enabled(PyObject *module, PyObject *unused) {
    return PyBool_FromLong(nx_grad_enabled());
}
static PyObject *set_grad_enabled(PyObject *module, PyObject *on) {
    int truth = PyObject_IsTrue(on);
    if (truth < 0) return NULL;
    nx_grad_set_enabled(truth);
    Py_RETURN_NONE;
}
/* Whether torch.inference_mode is on, which is asked and no more: gradients are switched for themselves. */
static _Thread_local bool inference;
static PyObject *is_inference_mode_enabled(PyObject *module, PyObject *unused) { return PyBool_FromLong(inference); }
static PyObject *set_inference_mode(PyObject *module, PyObject *on) {
    int truth = PyObject_IsTrue(on), before = inference;
    if (truth < 0) return NULL;
    inference = truth;
    return PyBool_FromLong(before);
}
static PyMethodDef functions[] = {{"autograd_run", autograd_run, METH_VARARGS,
                                   "autograd_run(roots, grads, retain_graph, create_graph, inputs): "
                                   "backward; inputs None adds into leaves."},
                                  {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
                                   "Whether operators record how to differentiate them."},
                                  {"set_grad_enabled", set_grad_enabled, METH_O,
                                   "set_grad_enabled(on), for this thread."},
                                  {"is_inference_mode_enabled", is_inference_mode_enabled, METH_NOARGS,
                                   "Whether this thread is inside of torch.inference_mode."},
                                  {"set_inference_mode", set_inference_mode, METH_O,
                                   "set_inference_mode(on), for this thread; whether it was on."},
                                  {NULL}};

int nxpy_add_autograd(PyObject *module) {
    if (PyType_Ready(&nxpy_grad_node_type) < 0 ||
        PyModule_AddObjectRef(module, "Node", (PyObject *)&nxpy_grad_node_type) < 0)
        return -1;
    if (nxpy_add_getset(getset) < 0) return -1;
    for (PyMethodDef *def = methods; def->ml_name; def++) {
        PyObject *descriptor = PyDescr_NewMethod(&nxpy_tensor_type, def);
        if (descriptor == NULL ||
            PyDict_SetItemString(nxpy_tensor_type.tp_dict, def->ml_name, descriptor) < 0)
            return -1;
        Py_DECREF(descriptor);
    }
    if (PyModule_AddFunctions(module, functions) < 0 || nxpy_add_edges(module) < 0 || nxpy_add_hooks(module) < 0 ||
        nxpy_add_profile(module) < 0 || nxpy_add_forward(module) < 0 || nxpy_add_batch(module) < 0)
        return -1;
    return nxpy_add_function(module);
}
