/* Handlers of exceptions, with blocks and generators' own instructions.
 *
 * In: a loop at an instruction. Out: as in handlers.c.
 * What must hold: exceptions of the traced program are real exception objects, born in the trace; the thread's handled
 * exception is kept as the interpreter keeps it, and counted for the root, since no recipe can make it. eval.c finds the
 * handler of an exception that an instruction leaves set.
 * Next: specials.c. */
#include "loop/private.h"

/* ---- raising ------------------------------------------------------------------------------------------------------- */
int op_load_assertion_error(nxpy_loop *loop, int arg) {
    PyObject *error = PyExc_AssertionError;
    if (nxpy__fixed(loop->trace, error) < 0) return -1;
    nxpy__push(loop, Py_NewRef(error));
    return 0;
}

/* The exception object that `raise what` raises. New reference; NULL: stopped or another exception. */
static PyObject *exception_of(nxpy_loop *loop, PyObject *what) {
    nxpy_trace *trace = loop->trace;
    if (PyExceptionClass_Check(what)) {
        PyObject *made = nxpy__call(loop, what, NULL, 0, NULL);
        if (made && nxpy__admit(trace, made) < 0) Py_CLEAR(made);
        return made;
    }
    if (!PyExceptionInstance_Check(what)) {
        PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
        nxpy__stop_error(trace);
    } else if (!nxpy__is_born(trace, what)) {
        nxpy__stop(trace, NXPY_BREAK_STORE, "raising an exception that existed before");
    } else {
        return Py_NewRef(what);
    }
    return NULL;
}

static int raise_again(nxpy_trace *trace, PyThreadState *thread) {
    PyObject *handled = nxpy_handled(thread);
    if (!handled || handled == Py_None) {
        PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
    } else if (!nxpy__is_born(trace, handled)) {
        return nxpy__stop(trace, NXPY_BREAK_STORE, "raising an exception that existed before");
    } else {
        PyErr_SetObject((PyObject *)Py_TYPE(handled), handled);
    }
    return nxpy__stop_error(trace);
}

int op_raise_varargs(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    if (arg == 0) return raise_again(trace, PyThreadState_Get());
    PyObject *cause = arg == 2 ? USE(1) : NULL, *what = arg == 2 && !cause ? NULL : USE(arg);
    PyObject *value = what ? exception_of(loop, what) : NULL, *fixed = NULL;
    if (value && cause) {
        fixed = cause == Py_None ? Py_NewRef(cause) : exception_of(loop, cause);
        if (!fixed) Py_CLEAR(value);
        else PyException_SetCause(value, fixed == Py_None ? (Py_DECREF(fixed), NULL) : fixed);
    }
    if (!value) return -1;
    PyErr_SetObject((PyObject *)Py_TYPE(value), value);
    Py_DECREF(value);
    return nxpy__stop_error(trace);
}

int op_reraise(nxpy_loop *loop, int arg) {
    PyObject *value = nxpy__pop(loop);
    PyErr_Restore(Py_NewRef(Py_TYPE(value)), value, NULL);
    return nxpy__stop_error(loop->trace);
}

/* ---- handling ------------------------------------------------------------------------------------------------------ */
int op_push_exc_info(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *value = nxpy__at(loop, 1);
    if (!nxpy__is_born(trace, value)) return nxpy__stop(trace, NXPY_BREAK_EXCEPTION, "one that was raised before the graph began");
    PyObject *before = nxpy_handled_swap(PyThreadState_Get(), Py_NewRef(value));
    nxpy__set(loop, 1, before ? before : Py_NewRef(Py_None));
    if (before && before != Py_None && nxpy__fixed(trace, before) < 0) return -1;
    nxpy__push(loop, value);
    trace->n_handling += loop == trace->root_loop;
    return 0;
}

int op_pop_except(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    if (loop == trace->root_loop && !trace->n_handling) {
        return nxpy__stop(trace, NXPY_BREAK_EXCEPTION, "one that was raised before the graph began");
    }
    Py_XDECREF(nxpy_handled_swap(PyThreadState_Get(), nxpy__pop(loop)));
    trace->n_handling -= loop == trace->root_loop;
    return 0;
}

int op_check_exc_match(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *value = nxpy__at(loop, 2), *classes = USE(1);
    if (!classes || nxpy__note_elements(trace, classes) < 0) return -1;
    Py_ssize_t n = PyTuple_Check(classes) ? PyTuple_GET_SIZE(classes) : 1;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *one = PyTuple_Check(classes) ? nxpy__use(trace, PyTuple_GET_ITEM(classes, k)) : classes;
        if (!one) return -1;
        if (PyExceptionClass_Check(one)) continue;
        PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
        return nxpy__stop_error(trace);
    }
    PyObject *result = PyErr_GivenExceptionMatches(value, classes) ? Py_True : Py_False;
    nxpy__put(loop, 1, Py_NewRef(result));
    return 0;
}

/* ---- with ------------------------------------------------------------------------------------------------------------ */
int nxpy__enter_with(nxpy_loop *loop, const char *enter_name, const char *leave_name) {
    nxpy_trace *trace = loop->trace;
    PyObject *manager = USE(1), *enter, *leave;
    if (!manager || nxpy__special(trace, manager, enter_name, &enter) < 0) return -1;
    if (nxpy__special(trace, manager, leave_name, &leave) < 0) {
        Py_DECREF(enter);
        return -1;
    }
    PyObject *result = nxpy__call(loop, enter, NULL, 0, NULL);
    Py_DECREF(enter);
    if (!result) {
        Py_DECREF(leave);
        return nxpy__stop_error(trace);
    }
    nxpy__put(loop, 1, leave);
    return nxpy__finish(loop, 0, result);
}

int op_before_with(nxpy_loop *loop, int arg) { return nxpy__enter_with(loop, "__enter__", "__exit__"); }

int op_with_except_start(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *leave = USE(4), *value = nxpy__at(loop, 1);
    if (!leave) return -1;
    PyObject *type = (PyObject *)Py_TYPE(value);
    if (nxpy__fixed(trace, type) < 0) return -1;
    PyObject *traceback = PyException_GetTraceback(value);
    PyObject *args[] = {Py_NewRef(type), Py_NewRef(value), traceback ? traceback : Py_NewRef(Py_None)};
    PyObject *result = nxpy__call(loop, leave, args, 3, NULL);
    for (int k = 0; k < 3; k++) Py_DECREF(args[k]);
    return nxpy__finish(loop, 0, result);
}

/* ---- generators ------------------------------------------------------------------------------------------------------- */
int op_yield_value(nxpy_loop *loop, int arg) {
    if (loop == loop->trace->root_loop) return nxpy__stop(loop->trace, NXPY_BREAK_GENERATOR, NULL);
    if (nxpy_tensor_check(nxpy__at(loop, 1)) && !USE(1)) return -1; /* C code may be who takes it */
    loop->result = nxpy__pop(loop);
    nxpy_generator_suspend(loop->frame, arg);
    return 1;
}

int op_get_yield_from_iter(nxpy_loop *loop, int arg) {
    PyObject *of = USE(1);
    if (!of) return -1;
    if (!PyCoro_CheckExact(of)) return PyGen_CheckExact(of) ? 0 : op_get_iter(loop, arg);
    if (loop->view.code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) return 0;
    PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
    return nxpy__stop_error(loop->trace);
}

int op_send(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *receiver = nxpy__at(loop, 2), *result;
    int python = nxpy__is_instance(receiver) ? nxpy__python_special(trace, receiver, "__next__") : 0;
    if (python < 0) return -1;
    if (python ? nxpy__at(loop, 1) != Py_None : !nxpy__is_born(trace, receiver)) {
        return nxpy__stop(trace, NXPY_BREAK_ITERATOR, "%.200s", Py_TYPE(receiver)->tp_name);
    }
    PySendResult how = PyIter_Send(receiver, nxpy__at(loop, 1), &result);
    if (how == PYGEN_ERROR) return nxpy__stop_error(trace);
    if (nxpy__admit(trace, result) < 0) {
        Py_DECREF(result);
        trace->clean = false;
        return -1;
    }
    bool keeps = loop->in.flag || how != PYGEN_RETURN; /* the receiver */
    nxpy__drop(loop, 1);
    if (keeps) nxpy__push(loop, result);
    else nxpy__put(loop, 1, result);
    if (how == PYGEN_RETURN) loop->next = arg;
    return 0;
}

int op_end_send(nxpy_loop *loop, int arg) { /* the receiver goes, the result stays */
    (void)op_swap(loop, 2);
    nxpy__drop(loop, 1);
    return 0;
}

/* An exception out of `yield from`: StopIteration ends it with its value, like a return of the receiver's. */
int op_cleanup_throw(nxpy_loop *loop, int arg) {
    PyObject *error = nxpy__at(loop, 1);
    if (!PyErr_GivenExceptionMatches(error, PyExc_StopIteration)) return op_reraise(loop, 0);
    PyObject *value = ((PyStopIterationObject *)error)->value;
    value = Py_NewRef(value ? value : Py_None);
    nxpy__put(loop, 3, Py_NewRef(Py_None));
    nxpy__put(loop, 2, value);
    nxpy__drop(loop, 1);
    return 0;
}

/* StopIteration may not leave a generator's body, nor StopAsyncIteration an asynchronous one's. */
int op_stop_iteration_error(nxpy_loop *loop, int arg) {
    PyObject *error = nxpy__at(loop, 1);
    int flags = loop->view.code->co_flags;
    const char *text = NULL;
    if (PyErr_GivenExceptionMatches(error, PyExc_StopIteration)) {
        text = flags & CO_ASYNC_GENERATOR ? "async generator raised StopIteration"
               : flags & CO_COROUTINE     ? "coroutine raised StopIteration"
                                          : "generator raised StopIteration";
    } else if (flags & CO_ASYNC_GENERATOR && PyErr_GivenExceptionMatches(error, PyExc_StopAsyncIteration)) {
        text = "async generator raised StopAsyncIteration";
    }
    if (!text) return 0;
    PyObject *made = PyObject_CallFunction(PyExc_RuntimeError, "s", text);
    if (!made || !nxpy__note_add(loop->trace, made, NXPY_NOTE_BORN, -1)) return Py_XDECREF(made), nxpy__stop_error(loop->trace);
    PyException_SetCause(made, Py_NewRef(error));
    PyException_SetContext(made, Py_NewRef(error));
    nxpy__put(loop, 1, made);
    return 0;
}
