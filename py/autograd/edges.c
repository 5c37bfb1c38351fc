/* Places in the graph from Python: the edge that a tensor's gradient arrives by, a tensor that stands for one, whether the
 * backward that runs will come by a node, whether a history has other leaves; versions that are counted up by hand; two tensors
 * that change places. */
#include "autograd/autograd.h"

/* gradient_edge(tensor): (node, which of its results). */
static PyObject *gradient_edge(PyObject *module, PyObject *of) {
    nx_edge edge;
    if (!nxpy_tensor_check(of)) return PyErr_Format(PyExc_TypeError, "gradient_edge: expected a Tensor, not %s", Py_TYPE(of)->tp_name);
    NXPY_TRY(nx_grad_edge(nxpy_tensor_get(of), &edge));
    if (edge.node == NULL) Py_RETURN_NONE;
    PyObject *node = nxpy_grad_node_object(edge.node);
    nx_grad_node_unref(edge.node);
    return node ? Py_BuildValue("Ni", node, edge.input) : NULL;
}

/* stand_for(tensor, node, output): makes a tensor that nobody else knows that result of the node. */
static PyObject *stand_for(PyObject *module, PyObject *args) {
    PyObject *object, *node;
    int output;
    if (!PyArg_ParseTuple(args, "OO!i:stand_for", &object, &nxpy_grad_node_type, &node, &output)) return NULL;
    nx_grad_node *of = nxpy_grad_node_get(node);
    if (!nxpy_tensor_check(object) || output < 0 || output >= of->n_inputs)
        return PyErr_Format(PyExc_ValueError, "stand_for: %s has %d results, there is no result %d", nx_grad_node_name(of),
                            of->n_inputs, output);
    NXPY_TRY(nx_grad_set_node(nxpy_tensor_get(object), of, output));
    return Py_NewRef(object);
}

static PyObject *will_run(PyObject *module, PyObject *node) {
    bool will;
    if (!PyObject_TypeCheck(node, &nxpy_grad_node_type))
        return PyErr_Format(PyExc_TypeError, "will_run: expected a Node, not %s", Py_TYPE(node)->tp_name);
    NXPY_TRY(nx_grad_will_run(nxpy_grad_node_get(node), &will));
    return PyBool_FromLong(will);
}

/* Whether the history from `from` on ends anywhere but at the nodes of `mine`. */
static nx_status find_others(nx_grad_node *from, nx_map *mine, bool *others) {
    NX_VEC(nx_grad_node *) waiting = {0};
    nx_map seen = {0};
    nx_status status = nx_vec_push(&waiting, from);
    while (status == NX_OK && waiting.n > 0 && !*others) {
        nx_grad_node *node = waiting.at[--waiting.n];
        if (nx_map_get(&seen, node) || nx_map_get(mine, node)) continue;
        status = nx_map_set(&seen, node, node);
        bool last = true;
        for (int e = 0; e < node->n_edges && status == NX_OK; e++) {
            if (node->edges[e].node == NULL) continue;
            last = false;
            status = nx_vec_push(&waiting, node->edges[e].node);
        }
        *others = last;
    }
    nx_vec_free(&waiting);
    nx_map_free(&seen);
    return status;
}

/* The node of a leaf, which the leaf holds. */
static nx_status add_leaf(nx_tensor *tensor, nx_map *mine) {
    nx_edge edge = {NULL, 0};
    if (!nx_tensor_requires_grad(tensor) || !nx_tensor_is_leaf(tensor)) return NX_OK;
    nx_status status = nx_grad_edge(tensor, &edge);
    if (status == NX_OK && edge.node) status = nx_map_set(mine, edge.node, edge.node);
    nx_grad_node_unref(edge.node);
    return status;
}

static PyObject *grad_reaches(PyObject *module, PyObject *args) {
    PyObject *x, *own;
    nx_map mine = {0};
    nx_edge from = {NULL, 0};
    bool others = false;
    if (!PyArg_ParseTuple(args, "O!O!:grad_reaches", &nxpy_tensor_type, &x, &PyList_Type, &own)) return NULL;
    nx_tensor *whole = nx_tensor_whole(nxpy_tensor_get(x));
    if (!nx_tensor_requires_grad(whole)) Py_RETURN_FALSE;
    nx_status status = NX_OK;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(own) && status == NX_OK; k++) {
        PyObject *leaf = PyList_GET_ITEM(own, k);
        if (nxpy_tensor_check(leaf)) status = add_leaf(nx_tensor_whole(nxpy_tensor_get(leaf)), &mine);
    }
    if (status == NX_OK) status = nx_grad_edge(whole, &from);
    if (status == NX_OK && from.node) status = find_others(from.node, &mine, &others);
    nx_grad_node_unref(from.node);
    nx_map_free(&mine);
    NXPY_TRY(status);
    return PyBool_FromLong(others);
}

static PyObject *increment_version(PyObject *module, PyObject *tensors) {
    PyObject *list = PySequence_Fast(tensors, "increment_version expects each element of the iterable to be a tensor");
    for (Py_ssize_t k = 0; list && k < PySequence_Fast_GET_SIZE(list); k++) {
        PyObject *object = PySequence_Fast_GET_ITEM(list, k);
        if (!nxpy_tensor_check(object)) {
            PyErr_SetString(PyExc_RuntimeError, "increment_version expects each element of the iterable to be a tensor");
            Py_CLEAR(list);
            break;
        }
        nx_storage *storage = nxpy_tensor_get(object)->storage;
        if (storage) storage->version++;
    }
    if (list == NULL) return NULL;
    Py_DECREF(list);
    Py_RETURN_NONE;
}

/* Somebody besides its Python object holds the tensor, or a graph waits to add into it. */
static bool is_held(const nx_tensor *tensor) {
    const nx_grad_node *accumulator = tensor->autograd ? tensor->autograd->accumulator : NULL;
    return atomic_load(&tensor->refs) > 1 || (accumulator && atomic_load(&accumulator->refs) > 1);
}

/* swap_tensors(a, b): the objects get each other's tensor and dict; their classes are Python's to change. */
static PyObject *swap_tensors(PyObject *module, PyObject *args) {
    PyObject *objects[2];
    if (!PyArg_ParseTuple(args, "OO:swap_tensors", &objects[0], &objects[1])) return NULL;
    for (int k = 0; k < 2; k++) {
        if (!nxpy_tensor_check(objects[k]))
            return PyErr_Format(PyExc_TypeError, "swap_tensors: expected a Tensor, not %s", Py_TYPE(objects[k])->tp_name);
        if (is_held(nxpy_tensor_get(objects[k])))
            return PyErr_Format(PyExc_RuntimeError, "Expected use_count of t%d to be 1 or 2 with an AccumulateGrad node but others "
                                "hold it: a view, a graph that waits for its backward, a saved tensor", k + 1);
    }
    nxpy_tensor *a = (nxpy_tensor *)objects[0], *b = (nxpy_tensor *)objects[1];
    nx_tensor *between = a->tensor;
    a->tensor = b->tensor;
    b->tensor = between;
    a->tensor->python = a;
    b->tensor->python = b;
    PyObject *dict = a->dict;
    a->dict = b->dict;
    b->dict = dict;
    nxpy_tensor_track(objects[0]);
    nxpy_tensor_track(objects[1]);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"gradient_edge", gradient_edge, METH_O, "gradient_edge(tensor): (node, result) that its gradient goes to, or None."},
    {"stand_for", stand_for, METH_VARARGS, "stand_for(tensor, node, output): makes a new tensor that result of the node."},
    {"will_run", will_run, METH_O, "will_run(node): whether the backward that runs comes by the node."},
    {"grad_reaches", grad_reaches, METH_VARARGS, "grad_reaches(x, own): whether its history has leaves beside those of the list own."},
    {"increment_version", increment_version, METH_O, "increment_version(tensors): counts a write of each."},
    {"swap_tensors", swap_tensors, METH_VARARGS, "swap_tensors(a, b): the two objects get each other's tensor and dict."},
    {NULL}};

int nxpy_add_edges(PyObject *module) { return PyModule_AddFunctions(module, functions); }
