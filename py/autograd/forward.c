/* Forward mode for Python: the level, dual tensors, tangents. narthex.autograd.forward_ad has the names that users know. */
#include "autograd/autograd.h"
#include "batch/batch.h"

static int check_level(int level, const char *name) {
    if (level == 0) return 0;
    PyErr_Format(PyExc_RuntimeError, "Invalid level given to %s", name);
    return -1;
}

static PyObject *enter_dual_level(PyObject *module, PyObject *unused) {
    NXPY_TRY(nx_forward_enter());
    return PyLong_FromLong(0);
}
static PyObject *exit_dual_level(PyObject *module, PyObject *args, PyObject *keywords) {
    static char *names[] = {"level", NULL};
    int level;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i:_exit_dual_level", names, &level)) return NULL;
    if (level < 0) return PyErr_Format(PyExc_RuntimeError, "Dual level must be a positive number.");
    NXPY_TRY(nx_forward_exit());
    Py_RETURN_NONE;
}

/* ---- under vmap tangents are those of all slices --------------------------------------------------------------------- */
/* One slice of `all`, which it takes, at the levels of `like`. */
static PyObject *take_slice(nx_tensor *all, const nx_tensor *like) {
    nx_tensor *slice;
    nx_status status = nx_batch_hide(all, nx_tensor_levels(like), &slice);
    nx_tensor_unref(all);
    return status == NX_OK ? nxpy_tensor_take(slice) : nxpy_raise(status);
}
static nx_status show_as(nx_tensor *tangent, const nx_tensor *like, nx_tensor **out) {
    return nx_batch_show(tangent, nx_tensor_levels(like), out);
}

/* What is the same for all slices, for each of them: their tangents differ, and a tangent lies in memory as its tensor does. */
static nx_status show_apart(nx_tensor *primal, uint64_t levels, nx_tensor **out) {
    const nx_op *clone;
    nx_value result;
    nx_tensor *shown;
    if (nx_tensor_levels(primal) == levels) return nx_batch_show(primal, levels, out);
    NX_TRY(nx_op_find("aten::clone", &clone));
    NX_TRY(nx_batch_show(primal, levels, &shown));
    nx_value in[] = {nx_value_tensor(shown), {.tag = NX_TAG_MEMORY_FORMAT, .i = NX_CONTIGUOUS_FORMAT}};
    nx_status status = nx_op_call(clone, in, &result);
    nx_tensor_unref(shown);
    if (status == NX_OK) *out = result.tensor;
    return status;
}

static nx_status make_dual_of(nx_tensor *primal, nx_tensor *tangent, nx_tensor **out) {
    uint64_t levels = nx_tensor_levels(primal) | nx_tensor_levels(tangent);
    nx_tensor *p = NULL, *t = NULL, *dual = NULL;
    nx_status status;
    if (NX_LIKELY(levels == 0)) return nx_forward_make_dual(primal, tangent, out);
    NX_TRY_FAIL(show_apart(primal, levels, &p));
    NX_TRY_FAIL(nx_batch_show(tangent, levels, &t));
    NX_TRY_FAIL(nx_forward_make_dual(p, t, &dual));
    status = nx_batch_hide(dual, levels, out);
fail:
    nx_tensor_unref(dual);
    nx_tensor_unref(t);
    nx_tensor_unref(p);
    return status;
}

static PyObject *make_dual(PyObject *module, PyObject *args, PyObject *keywords) {
    static char *names[] = {"primal", "tangent", "level", NULL};
    PyObject *primal, *tangent;
    int level;
    nx_tensor *made;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O!i:_make_dual", names, &nxpy_tensor_type, &primal, &nxpy_tensor_type,
                                     &tangent, &level))
        return NULL;
    if (check_level(level, "_make_dual") < 0) return NULL;
    NXPY_TRY(make_dual_of(nxpy_tensor_get(primal), nxpy_tensor_get(tangent), &made));
    return nxpy_tensor_take(made);
}
static PyObject *unpack_dual(PyObject *module, PyObject *args, PyObject *keywords) {
    static char *names[] = {"dual", "level", NULL};
    PyObject *dual;
    int level;
    nx_tensor *primal, *tangent;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!i:_unpack_dual", names, &nxpy_tensor_type, &dual, &level)) return NULL;
    if (check_level(level, "_fw_primal") < 0) return NULL;
    const nx_tensor *of = nxpy_tensor_get(dual);
    NXPY_TRY(nx_forward_unpack(nx_tensor_whole(nxpy_tensor_get(dual)), &primal, &tangent));
    PyObject *first = take_slice(primal, of), *second = tangent ? take_slice(tangent, of) : Py_NewRef(Py_None);
    PyObject *pair = first && second ? PyTuple_Pack(2, first, second) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    return pair;
}

/* tangent_of(tensor): None where it has none, or forward mode is off. set_tangent(tensor, tangent): into the one that it has. */
static PyObject *tangent_of(PyObject *module, PyObject *tensor) {
    nx_tensor *tangent = NULL;
    if (!nxpy_tensor_check(tensor)) return PyErr_Format(PyExc_TypeError, "tangent_of: expected a Tensor");
    nx_tensor *of = nxpy_tensor_get(tensor);
    if (nx_forward_enabled()) NXPY_TRY(nx_tangent_of(nx_tensor_whole(of), &tangent));
    return tangent ? take_slice(tangent, of) : Py_NewRef(Py_None);
}
static PyObject *set_tangent(PyObject *module, PyObject *args) {
    PyObject *tensor, *tangent;
    if (!PyArg_ParseTuple(args, "O!O!:set_tangent", &nxpy_tensor_type, &tensor, &nxpy_tensor_type, &tangent)) return NULL;
    nx_tensor *of = nxpy_tensor_get(tensor), *all;
    NXPY_TRY(show_as(nxpy_tensor_get(tangent), of, &all));
    nx_status status = nx_tangent_write(nx_tensor_whole(of), all);
    nx_tensor_unref(all);
    if (status != NX_OK) return nxpy_raise(status);
    Py_RETURN_NONE;
}

static PyObject *set_fwd_grad_enabled(PyObject *module, PyObject *on) {
    int truth = PyObject_IsTrue(on);
    if (truth < 0) return NULL;
    nx_forward_set_enabled(truth);
    Py_RETURN_NONE;
}
static PyObject *is_fwd_grad_enabled(PyObject *module, PyObject *unused) { return PyBool_FromLong(nx_forward_enabled()); }

static PyMethodDef functions[] = {
    {"_enter_dual_level", enter_dual_level, METH_NOARGS, "_enter_dual_level(): opens the one level; its number."},
    {"_exit_dual_level", (PyCFunction)(void (*)(void))exit_dual_level, METH_VARARGS | METH_KEYWORDS,
     "_exit_dual_level(level): all tangents go."},
    {"_make_dual", (PyCFunction)(void (*)(void))make_dual, METH_VARARGS | METH_KEYWORDS,
     "_make_dual(primal, tangent, level): a view of primal that has the tangent."},
    {"_unpack_dual", (PyCFunction)(void (*)(void))unpack_dual, METH_VARARGS | METH_KEYWORDS,
     "_unpack_dual(dual, level): (a view of it without a tangent, the tangent or None)."},
    {"tangent_of", tangent_of, METH_O, "tangent_of(tensor): its tangent, or None."},
    {"set_tangent", set_tangent, METH_VARARGS, "set_tangent(tensor, tangent): of a result, in place of what it has."},
    {"_set_fwd_grad_enabled", set_fwd_grad_enabled, METH_O, "_set_fwd_grad_enabled(on), for this thread."},
    {"_is_fwd_grad_enabled", is_fwd_grad_enabled, METH_NOARGS, "Whether operators of this thread compute tangents."},
    {NULL}};

int nxpy_add_forward(PyObject *module) { return PyModule_AddFunctions(module, functions); }
