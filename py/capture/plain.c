/* Plain mode: one instruction of a frame done for real, by us, as the interpreter would do it.
 *
 * In: a frame that a segment has filled, at the instruction that ended the graph. Out: the frame behind that instruction, or its
 * exception.
 * What must hold: whoever looks meanwhile (sys._getframe, a debugger or profiler that begins in the call, locals()) sees the
 * frame with its own code, line and values, and no event that the program did not cause. What may not be done here is left
 * to nxpy_frame_step, which puts another code object into the frame for a moment: every instruction that a debugger is
 * likely to begin in stands here.
 * Next: segment.c, which goes on with the next graph, or, where the thread is traced now, leaves the frame to the interpreter. */
#include "capture/capture.h"

typedef struct plain {
    nxpy_view *view;
    nxpy_instr in;
    int depth, next;
} plain;

static PyObject *at(const plain *p, int k) { return nxpy_value(p->view, p->view->n_locals + p->depth - k); }
static PyObject *name_of(const plain *p) { return PyTuple_GET_ITEM(p->view->code->co_names, p->in.arg); }

/* The top n values change places with this one, which is taken; NULL: nothing happens. 1, or -1: an exception. */
static int finish(plain *p, int n, PyObject *value) {
    if (!value) return -1;
    for (; n > 0; n--) nxpy_value_put(p->view, p->view->n_locals + --p->depth, NULL);
    nxpy_value_set(p->view, p->view->n_locals + p->depth++, value);
    return 1;
}

static int finish_without(plain *p, int n, int status) {
    if (status < 0) return -1;
    for (; n > 0; n--) nxpy_value_put(p->view, p->view->n_locals + --p->depth, NULL);
    return 1;
}

static int finish_truth(plain *p, int n, int truth) { return truth < 0 ? -1 : finish(p, n, PyBool_FromLong(truth)); }

/* ---- by instruction: 1 done, 0 not here, -1 an exception ------------------------------------------------------------ */
static int call(plain *p, int above, PyObject *names) {
    bool method = at(p, above + p->in.arg + 1 + NXPY_NULL_FIRST) != NULL;
    int n = p->in.arg + method;
    PyObject *function = at(p, above + p->in.arg + 1 + (method || !NXPY_NULL_FIRST));
    PyObject *local[16] = {NULL}, **args = n <= NX_COUNT(local) ? local : nx_alloc(sizeof *args * (size_t)n);
    if (!args) return nxpy_raise(NX_NO_MEMORY), -1;
    for (int k = 0; k < n; k++) args[k] = at(p, above + n - k); /* the stack holds them */
    size_t n_plain = (size_t)(n - (names ? PyTuple_GET_SIZE(names) : 0));
    PyObject *result = PyObject_Vectorcall(function, args, n_plain, names);
    if (args != local) nx_free(args);
    return finish(p, above + p->in.arg + 2, result);
}

static int call_unpacked(plain *p) {
    int has_dict = p->in.arg & 1 || p->in.flag;
    PyObject *keywords = has_dict ? at(p, 1) : NULL, *args = at(p, 1 + has_dict);
    if (!PyTuple_CheckExact(args) || (keywords && !PyDict_CheckExact(keywords))) return 0;
    return finish(p, 3 + has_dict, PyObject_Call(at(p, 2 + has_dict + !NXPY_NULL_FIRST), args, keywords));
}

/* A special method of the class, bound. New reference; NULL, maybe with an exception: there is none. */
static PyObject *special(PyObject *object, const char *literal) {
    PyObject *name = nxpy__name(literal), *found = name ? nxpy_type_lookup(Py_TYPE(object), name) : NULL;
    if (!found) return NULL;
    descrgetfunc get = Py_TYPE(found)->tp_descr_get;
    return get ? get(found, object, (PyObject *)Py_TYPE(object)) : Py_NewRef(found);
}

static int enter(plain *p) {
    PyObject *enter = special(at(p, 1), "__enter__"), *leave = enter ? special(at(p, 1), "__exit__") : NULL;
    PyObject *result = leave ? PyObject_CallNoArgs(enter) : NULL;
    Py_XDECREF(enter);
    if (!leave) return PyErr_Occurred() ? -1 : 0;
    if (!result) return Py_DECREF(leave), -1;
    nxpy_value_put(p->view, p->view->n_locals + p->depth - 1, leave);
    return finish(p, 0, result);
}

static int load_special(plain *p) {
    PyObject *method = special(at(p, 1), nxpy_special_name(p->in.arg));
    if (!method) return PyErr_Occurred() ? -1 : 0;
    (void)finish(p, 1, method);
    nxpy_value_set(p->view, p->view->n_locals + p->depth++, NULL);
    return 1;
}

static int step_iterator(plain *p) {
    PyObject *iterator = at(p, 1), *value = Py_TYPE(iterator)->tp_iternext(iterator);
    if (value) return finish(p, 0, value);
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return -1;
        PyErr_Clear();
    }
    p->next = p->in.arg;
    return finish_without(p, 1, 0);
}

static int jump_on(plain *p) {
    int truth = PyObject_IsTrue(at(p, 1));
    if (truth == p->in.flag) p->next = p->in.arg;
    return finish_without(p, 1, truth);
}

static int compare(plain *p) {
    PyObject *result = PyObject_RichCompare(at(p, 2), at(p, 1), p->in.arg);
    int truth = result && p->in.flag ? PyObject_IsTrue(result) : 0;
    if (truth < 0) Py_CLEAR(result);
    if (result && p->in.flag) Py_SETREF(result, PyBool_FromLong(truth));
    return finish(p, 2, result);
}

static int run(plain *p) {
    switch (p->in.op) {
    case NXPY_OP_call: return call(p, 0, p->in.flag ? PyTuple_GET_ITEM(p->view->code->co_consts, p->in.flag - 1) : NULL);
    case NXPY_OP_call_kw: return call(p, 1, at(p, 1));
    case NXPY_OP_to_bool: return finish_truth(p, 1, PyObject_IsTrue(at(p, 1)));
    case NXPY_OP_call_function_ex: return call_unpacked(p);
    case NXPY_OP_before_with: return enter(p);
    case NXPY_OP_load_special: return load_special(p);
    case NXPY_OP_load_attr: return finish(p, 1, PyObject_GetAttr(at(p, 1), name_of(p)));
    case NXPY_OP_store_attr: return finish_without(p, 2, PyObject_SetAttr(at(p, 1), name_of(p), at(p, 2)));
    case NXPY_OP_delete_attr: return finish_without(p, 1, PyObject_SetAttr(at(p, 1), name_of(p), NULL));
    case NXPY_OP_binary_op: return finish(p, 2, nxpy__binary_fns[p->in.arg](at(p, 2), at(p, 1)));
    case NXPY_OP_binary_subscr: return finish(p, 2, PyObject_GetItem(at(p, 2), at(p, 1)));
    case NXPY_OP_store_subscr: return finish_without(p, 3, PyObject_SetItem(at(p, 2), at(p, 1), at(p, 3)));
    case NXPY_OP_delete_subscr: return finish_without(p, 2, PyObject_DelItem(at(p, 2), at(p, 1)));
    case NXPY_OP_compare_op: return compare(p);
    case NXPY_OP_unary_not: return finish_truth(p, 1, PyObject_Not(at(p, 1)));
    case NXPY_OP_get_iter: return finish(p, 1, PyObject_GetIter(at(p, 1)));
    case NXPY_OP_for_iter: return step_iterator(p);
    case NXPY_OP_pop_jump: return jump_on(p);
    default: return 0;
    }
}

PyObject *nxpy__plain_step(PyThreadState *thread, nxpy_frame *frame, nxpy_view *view, nxpy_segment *segment, bool *stopped) {
    plain p = {.view = view, .in = nxpy_instr_at(view, segment->first), .depth = segment->depth};
    nxpy_link link;
    *stopped = false;
    p.next = p.in.next;
    nxpy_frame_at(frame, segment->first, segment->depth);
    if (nxpy_frame_enter(thread, frame, &link) < 0) return NULL;
    int done = run(&p);
    nxpy_frame_leave(thread, &link);
    if (done == 1) {
        nxpy_frame_set(frame, p.next, p.depth);
        *stopped = true;
        return NULL;
    }
    if (done < 0) return nxpy_frame_throw(thread, frame, &segment->thrower, stopped);
    nxpy_frame_set(frame, segment->first, segment->depth);
    return nxpy_frame_step(thread, frame, segment->first, segment->last, &segment->stepper, stopped);
}
