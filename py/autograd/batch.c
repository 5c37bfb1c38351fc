/* Levels of vmap for narthex._vmap, and slices at the engine's door: what is asked for the gradient of a slice is asked of all
 * slices (src/batch). */
#include "autograd/autograd.h"
#include "batch/batch.h"

static PyObject *enter(PyObject *module, PyObject *args) {
    long long size;
    int randomness, level;
    if (!PyArg_ParseTuple(args, "Li:_batch_enter", &size, &randomness)) return NULL;
    NXPY_TRY(nx_batch_enter(size, (nx_randomness)randomness, &level));
    return PyLong_FromLong(level);
}
static PyObject *leave(PyObject *module, PyObject *unused) {
    nx_batch_leave();
    Py_RETURN_NONE;
}
/* [(number, size, randomness), ...] of the open levels, the outermost first. */
static PyObject *open_levels(PyObject *module, PyObject *unused) {
    const nx_thread *thread = nx_thread_get();
    PyObject *list = PyList_New(thread->n_levels);
    for (int k = 0; list && k < thread->n_levels; k++) {
        PyObject *pair = Py_BuildValue("iLi", thread->levels[k].number, (long long)thread->levels[k].size, thread->levels[k].randomness);
        if (pair) PyList_SET_ITEM(list, k, pair);
        else Py_CLEAR(list);
    }
    return list;
}

typedef nx_status moves(nx_tensor *tensor, int dim, int level, nx_tensor **out);
static PyObject *moved(PyObject *args, moves *move) {
    PyObject *tensor;
    int dim, level;
    nx_tensor *out;
    if (!PyArg_ParseTuple(args, "O!ii", &nxpy_tensor_type, &tensor, &dim, &level)) return NULL;
    NXPY_TRY(move(nxpy_tensor_get(tensor), dim, level, &out));
    return nxpy_tensor_take(out);
}
static PyObject *take(PyObject *module, PyObject *args) { return moved(args, nx_batch_take); }
static PyObject *give(PyObject *module, PyObject *args) { return moved(args, nx_batch_give); }

static PyObject *levels(PyObject *module, PyObject *tensor) {
    if (!nxpy_tensor_check(tensor)) return PyErr_Format(PyExc_TypeError, "_batch_levels: expected a Tensor");
    return PyLong_FromUnsignedLongLong(nx_tensor_levels(nxpy_tensor_get(tensor)));
}
static PyObject *whole(PyObject *module, PyObject *tensor) {
    if (!nxpy_tensor_check(tensor)) return PyErr_Format(PyExc_TypeError, "_batch_whole: expected a Tensor");
    return nxpy_tensor_wrap(nx_tensor_whole(nxpy_tensor_get(tensor)));
}
/* show, hide: several levels, by bit, in front. */
typedef nx_status moves_all(nx_tensor *tensor, uint64_t levels, nx_tensor **out);
static PyObject *moved_all(PyObject *args, moves_all *move) {
    PyObject *tensor;
    unsigned long long mask;
    nx_tensor *out;
    if (!PyArg_ParseTuple(args, "O!K", &nxpy_tensor_type, &tensor, &mask)) return NULL;
    NXPY_TRY(move(nxpy_tensor_get(tensor), mask, &out));
    return nxpy_tensor_take(out);
}
static PyObject *show(PyObject *module, PyObject *args) { return moved_all(args, nx_batch_show); }
static PyObject *hide(PyObject *module, PyObject *args) { return moved_all(args, nx_batch_hide); }

/* ---- the engine ---------------------------------------------------------------------------------------------------- */
static bool any_slice(nx_tensor *const *tensors, int n) {
    bool any = false;
    for (int k = 0; k < n; k++) any |= tensors[k] && tensors[k]->whole;
    return any;
}

/* The gradient of a root's slices: what was given for them, or ones where each is a number. */
static nx_status seed_of(nx_tensor *root, nx_tensor *g, int i, nx_tensor **out) {
    const nx_op *ones;
    nx_value result;
    const nx_value none = NX_VALUE_NONE, in[] = {nx_value_tensor(root->whole), none, none, none, none, none};
    *out = NULL;
    if (g && !nx_same_size(&g->a, &root->a))
        return nx_fail(NX_RUNTIME, "Mismatch in shape: grad_output[%d] and output[%d] have slices of different shapes under vmap", i, i);
    if (g) return nx_batch_show(g, root->levels, out);
    if (root->a.numel != 1) return nx_fail(NX_RUNTIME, "grad can be implicitly created only for scalar outputs");
    NX_TRY(nx_op_find("aten::ones_like", &ones));
    NX_TRY(nx_op_call(ones, in, &result));
    *out = result.tensor;
    return NX_OK;
}

/* A sum over slices is not what each of them has for a gradient. */
static nx_status check_inputs(nx_tensor *const *roots, int n, nx_tensor *const *inputs, int n_in) {
    uint64_t levels = 0;
    for (int k = 0; k < n; k++) levels |= nx_tensor_levels(roots[k]);
    for (int k = 0; k < n_in; k++) {
        if ((levels & ~nx_tensor_levels(inputs[k])) == 0) continue;
        return nx_fail(NX_RUNTIME, "vmap: the gradients of what is mapped over, by a tensor that is not: torch.func.grad, vjp and jacrev "
                       "take such tensors as arguments");
    }
    return NX_OK;
}

typedef struct shown { nx_tensor **roots, **grads, **inputs; int n, n_in; } shown;

static nx_status show_all(nx_tensor **roots, nx_tensor **grads, nx_tensor **inputs, shown *s) {
    for (int k = 0; k < s->n; k++) {
        s->roots[k] = nx_tensor_whole(roots[k]);
        if (roots[k]->whole) NX_TRY(seed_of(roots[k], grads[k], k, &s->grads[k]));
        else s->grads[k] = grads[k] ? nx_tensor_ref(grads[k]) : NULL;
    }
    for (int k = 0; k < s->n_in; k++) s->inputs[k] = nx_tensor_whole(inputs[k]);
    return NX_OK;
}

static nx_status hide_gradients(nx_tensor *const *inputs, int n, nx_tensor **out) {
    nx_status status = NX_OK;
    for (int k = 0; k < n; k++) {
        nx_tensor *all = out[k];
        if (all == NULL || inputs[k]->whole == NULL) continue;
        out[k] = NULL;
        if (status == NX_OK) status = nx_batch_hide(all, inputs[k]->levels, &out[k]);
        nx_tensor_unref(all);
    }
    for (int k = 0; k < n && status != NX_OK; k++) {
        nx_tensor_unref(out[k]);
        out[k] = NULL;
    }
    return status;
}

nx_status nxpy_grad_run(nx_tensor **roots, nx_tensor **grads, int n, bool retain, bool create, nx_tensor **inputs, int n_in,
                        nx_tensor **out) {
    if (NX_LIKELY(!any_slice(roots, n) && !any_slice(inputs, n_in)))
        return nx_grad_run(roots, grads, n, retain, create, inputs, n_in, out);
    if (inputs) NX_TRY(check_inputs(roots, n, inputs, n_in));
    nx_tensor **room = nx_alloc_zeroed(sizeof *room * (size_t)(2 * n + n_in + 1));
    if (room == NULL) return nx_fail_memory(sizeof *room * (size_t)(2 * n + n_in + 1));
    shown s = {room, room + n, room + 2 * n, n, n_in};
    nx_status status = show_all(roots, grads, inputs, &s);
    if (status == NX_OK) status = nx_grad_run(s.roots, s.grads, n, retain, create, inputs ? s.inputs : NULL, n_in, out);
    if (status == NX_OK && inputs) status = hide_gradients(inputs, n_in, out);
    for (int k = 0; k < n; k++) nx_tensor_unref(s.grads[k]);
    nx_free(room);
    return status;
}

static PyMethodDef functions[] = {
    {"_batch_enter", enter, METH_VARARGS, "_batch_enter(size, randomness): opens a level of so many slices; its number."},
    {"_batch_leave", leave, METH_NOARGS, "_batch_leave(): the innermost level ends."},
    {"_batch_open", open_levels, METH_NOARGS, "_batch_open(): (number, size, randomness) of each level that is open in this thread."},
    {"_batch_take", take, METH_VARARGS, "_batch_take(tensor, dim, level): one slice along dim, for all of them."},
    {"_batch_give", give, METH_VARARGS, "_batch_give(tensor, dim, level): all slices of the level, along dim."},
    {"_batch_levels", levels, METH_O, "_batch_levels(tensor): the levels whose slice it is, by bit."},
    {"_batch_whole", whole, METH_O, "_batch_whole(tensor): what all its slices lie in; itself if it is none."},
    {"_batch_show", show, METH_VARARGS, "_batch_show(tensor, levels): all slices of those levels, in front, the outermost first."},
    {"_batch_hide", hide, METH_VARARGS, "_batch_hide(tensor, levels): the other way."},
    {NULL}};

int nxpy_add_batch(PyObject *module) { return PyModule_AddFunctions(module, functions); }
