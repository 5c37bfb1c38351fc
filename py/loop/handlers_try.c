/* Handlers of exceptions, with blocks and the own instructions of generators, coroutines and asynchronous generators.
 *
 * In: a loop at an instruction. Out: as in handlers.c.
 * What must hold: exceptions of the traced program are real exception objects, born in the trace; the thread's handled
 * exception is kept as the interpreter keeps it, and counted for the root, since no recipe can make it. eval.c finds the
 * handler of an exception that an instruction leaves set. A coroutine's frame runs like a generator's, through the interpreter's
 * own send(); what waits for an event loop leaves the trace as any yield does. Where an event loop wants to hear of each
 * asynchronous generator, none begins in a trace.
 * Next: specials.c. */
#include "loop/private.h"

/* ---- raising ------------------------------------------------------------------------------------------------------- */
int op_load_common_constant(nxpy_loop *loop, int arg) {
    PyObject *value = nxpy_common_constant(PyThreadState_Get(), arg);
    if (!value) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "common constant %d", arg);
    if (nxpy__fixed(loop->trace, value) < 0) return -1;
    nxpy__push(loop, Py_NewRef(value));
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

/* A method of the manager's class, bound, in the two entries of what is called. */
int op_load_special(nxpy_loop *loop, int arg) {
    PyObject *manager = USE(1), *method;
    if (!manager || nxpy__special(loop->trace, manager, nxpy_special_name(arg), &method) < 0) return -1;
    nxpy__put(loop, 1, method);
    nxpy__push(loop, NULL);
    return 0;
}

int op_with_except_start(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    bool pair = loop->in.flag;
    PyObject *leave = USE(4 + pair), *self = pair ? nxpy__at(loop, 4) : NULL, *value = nxpy__at(loop, 1);
    if (!leave) return -1;
    PyObject *type = (PyObject *)Py_TYPE(value);
    if (nxpy__fixed(trace, type) < 0) return -1;
    PyObject *traceback = PyException_GetTraceback(value);
    PyObject *args[] = {Py_XNewRef(self), Py_NewRef(type), Py_NewRef(value), traceback ? traceback : Py_NewRef(Py_None)};
    PyObject *result = nxpy__call(loop, leave, args + !self, 3 + (self != NULL), NULL);
    for (int k = 0; k < NX_COUNT(args); k++) Py_XDECREF(args[k]);
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

/* ---- coroutines and asynchronous generators ------------------------------------------------------------------------- */
#define ARGS nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names

static PyObject *refuse(nxpy_loop *loop, PyObject *what) {
    nxpy__stop(loop->trace, NXPY_BREAK_GENERATOR, "%.200s", Py_TYPE(what)->tp_name);
    return NULL;
}

/* The program's own error. */
static PyObject *fail(nxpy_loop *loop, PyObject *error, const char *format, PyObject *of) {
    PyErr_Format(error, format, Py_TYPE(of)->tp_name);
    nxpy__stop_error(loop->trace);
    return NULL;
}

/* What the method of object's class gives, admitted. *missing: there is no such method. */
static PyObject *ask(nxpy_loop *loop, PyObject *object, const char *method, bool *missing) {
    nxpy_trace *trace = loop->trace;
    PyObject *found, *bound = NULL;
    *missing = false;
    if (nxpy_tensor_check(object)) return *missing = true, NULL;
    if (nxpy__type_value(trace, Py_TYPE(object), method, &found) < 0) return NULL;
    if (!found) return *missing = true, NULL;
    if (nxpy__special(trace, object, method, &bound) < 0) return NULL;
    PyObject *result = nxpy__call(loop, bound, NULL, 0, NULL);
    Py_DECREF(bound);
    if (result && nxpy__admit(trace, result) < 0) Py_CLEAR(result);
    if (!result) nxpy__stop_error(trace);
    return result;
}

/* A slot that C code fills, of a coroutine, an asynchronous generator or what such a one gave. */
static unaryfunc own_slot(PyObject *object, size_t offset) {
    const PyAsyncMethods *slots = nxpy__is_a(object, NXPY_KIND_COROUTINE) ? Py_TYPE(object)->tp_as_async : NULL;
    return slots ? *(unaryfunc *)((char *)slots + offset) : NULL;
}
#define OWN_SLOT(object, name) own_slot(object, offsetof(PyAsyncMethods, name))

/* Such a slot's result, admitted. */
static PyObject *call_slot(nxpy_loop *loop, PyObject *object, unaryfunc slot) {
    nxpy_trace *trace = loop->trace;
    if (!nxpy__is_born(trace, object)) return refuse(loop, object);
    if (PyAsyncGen_CheckExact(object) && nxpy_generators_are_told(PyThreadState_Get())) return refuse(loop, object);
    PyObject *result = slot(object);
    if (result && nxpy__admit(trace, result) < 0) Py_CLEAR(result);
    if (!result) nxpy__stop_error(trace);
    return result;
}

/* ---- await ----------------------------------------------------------------------------------------------------------- */
/* A coroutine, or a generator that types.coroutine has made one. */
static bool is_coroutine(PyObject *o) {
    if (!PyGen_CheckExact(o)) return PyCoro_CheckExact(o);
    PyObject *code = PyObject_GetAttrString(o, "gi_code");
    bool is = code && ((PyCodeObject *)code)->co_flags & CO_ITERABLE_COROUTINE;
    Py_XDECREF(code);
    return is;
}

static bool is_awaited(PyObject *coroutine) {
    PyObject *by = PyCoro_CheckExact(coroutine) ? PyObject_GetAttrString(coroutine, "cr_await") : NULL;
    Py_XDECREF(by);
    return by && by != Py_None;
}

/* The iterator that `await of` runs. New reference; NULL: stopped, or an exception. `text`: of the error for what cannot be awaited. */
static PyObject *awaited(nxpy_loop *loop, PyObject *of, const char *text) {
    if (is_coroutine(of)) {
        if (!nxpy__is_born(loop->trace, of)) return refuse(loop, of);
        if (!is_awaited(of)) return Py_NewRef(of);
        PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
        return nxpy__stop_error(loop->trace), NULL;
    }
    unaryfunc slot = OWN_SLOT(of, am_await);
    if (slot) return call_slot(loop, of, slot);
    bool missing;
    PyObject *iterator = ask(loop, of, "__await__", &missing);
    if (missing) return fail(loop, PyExc_TypeError, text, of);
    const char *wrong = !iterator                ? NULL
                        : is_coroutine(iterator) ? "__await__() returned a coroutine"
                        : !PyIter_Check(iterator) ? "__await__() returned non-iterator of type '%.100s'"
                                                  : NULL;
    if (!wrong) return iterator;
    (void)fail(loop, PyExc_TypeError, wrong, iterator);
    Py_DECREF(iterator);
    return NULL;
}

int op_get_awaitable(nxpy_loop *loop, int arg) { /* 1, 2: of an __aenter__, of an __aexit__ */
    static const char *const texts[] = {
        NXPY_AWAIT_TEXT,
        "'async with' received an object from __aenter__ that does not implement __await__: %.100s",
        "'async with' received an object from __aexit__ that does not implement __await__: %.100s"};
    PyObject *of = USE(1), *iterator = of ? awaited(loop, of, texts[arg]) : NULL;
    if (!iterator) return -1;
    nxpy__put(loop, 1, iterator);
    return 0;
}

/* ---- async for ------------------------------------------------------------------------------------------------------- */
static bool is_async_iterator(PyObject *o) { return Py_TYPE(o)->tp_as_async && Py_TYPE(o)->tp_as_async->am_anext; }

/* aiter(of). `text`, `wrong`: of the errors for what has no __aiter__, and whose __aiter__ gives no iterator. */
static PyObject *async_iterator(nxpy_loop *loop, PyObject *of, const char *text, const char *wrong) {
    unaryfunc slot = OWN_SLOT(of, am_aiter);
    bool missing = false;
    PyObject *iterator = slot ? call_slot(loop, of, slot) : ask(loop, of, "__aiter__", &missing);
    if (missing) return fail(loop, PyExc_TypeError, text, of);
    if (!iterator || is_async_iterator(iterator)) return iterator;
    (void)fail(loop, PyExc_TypeError, wrong, iterator);
    Py_DECREF(iterator);
    return NULL;
}

/* What anext(of) gives, which is to be awaited. */
static PyObject *async_next(nxpy_loop *loop, PyObject *of, const char *text) {
    unaryfunc slot = OWN_SLOT(of, am_anext);
    bool missing = false;
    PyObject *next = slot ? call_slot(loop, of, slot) : ask(loop, of, "__anext__", &missing);
    return missing ? fail(loop, PyExc_TypeError, text, of) : next;
}

int op_get_aiter(nxpy_loop *loop, int arg) {
    PyObject *of = USE(1), *iterator = NULL;
    if (of) {
        iterator = async_iterator(loop, of, "'async for' requires an object with __aiter__ method, got %.100s",
                                  "'async for' received an object from __aiter__ that does not implement __anext__: %.100s");
    }
    if (!iterator) return -1;
    nxpy__put(loop, 1, iterator);
    return 0;
}

int op_get_anext(nxpy_loop *loop, int arg) {
    PyObject *of = USE(1), *next = of ? async_next(loop, of, "'async for' requires an iterator with __anext__ method, got %.100s") : NULL;
    PyObject *iterator = next ? awaited(loop, next, "'async for' received an invalid object from __anext__: %.100s") : NULL;
    Py_XDECREF(next);
    if (!iterator) return -1;
    nxpy__push(loop, iterator);
    return 0;
}

int op_end_async_for(nxpy_loop *loop, int arg) { /* the iterator and an exception, which may be its end */
    if (!PyErr_GivenExceptionMatches(nxpy__at(loop, 1), PyExc_StopAsyncIteration)) return op_reraise(loop, 0);
    nxpy__drop(loop, 2);
    return 0;
}

PyObject *nxpy__special_aiter(ARGS) {
    if (!nxpy__use_all(loop, function, args, n, kw_names, 1, 1)) return NULL;
    return async_iterator(loop, args[0], "'%.200s' object is not an async iterable",
                          "aiter() returned not an async iterator of type '%.200s'");
}

PyObject *nxpy__special_anext(ARGS) {
    if (!nxpy__use_all(loop, function, args, n, kw_names, 1, 2)) return NULL;
    if (n == 1) return async_next(loop, args[0], "'%.200s' object is not an async iterator");
    if (!PyAsyncGen_CheckExact(args[0]) || nxpy_generators_are_told(PyThreadState_Get())) return nxpy__stopped(loop, function);
    PyObject *made = nxpy__is_born(loop->trace, args[0]) ? PyObject_Vectorcall(function, args, 2, NULL) : refuse(loop, args[0]);
    if (!made) nxpy__stop_error(loop->trace);
    return made;
}

/* agen.asend(x), athrow and aclose, which give what is to be awaited. */
PyObject *nxpy__special_async_method(ARGS) {
    if (!nxpy__use_all(loop, function, args, n, kw_names, 1, 4)) return NULL;
    bool begins = PyAsyncGen_CheckExact(args[0]) && nxpy_generators_are_told(PyThreadState_Get());
    if (begins || !nxpy__is_born(loop->trace, args[0])) return refuse(loop, args[0]);
    PyObject *made = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    if (!made) nxpy__stop_error(loop->trace);
    return made;
}

/* ---- async with ------------------------------------------------------------------------------------------------------ */
int op_before_async_with(nxpy_loop *loop, int arg) { return nxpy__enter_with(loop, "__aenter__", "__aexit__"); }

/* ---- asynchronous generators ----------------------------------------------------------------------------------------- */
/* What one yields comes wrapped to the object that it is awaited through. The interpreter wraps it: in another one. */
int op_async_gen_wrap(nxpy_loop *loop, int arg) {
    static PyObject *wrapper; /* async def wrap(value): yield value; kept */
    nxpy_trace *trace = loop->trace;
    PyObject *value = nxpy__at(loop, 1), *wrapped = NULL;
    if (nxpy_tensor_check(value) && !(value = USE(1))) return -1;
    nxpy__doing.paused++;
    if (!wrapper) {
        PyObject *space = PyDict_New();
        PyObject *done = space ? PyRun_String("async def wrap(value): yield value", Py_file_input, space, space) : NULL;
        wrapper = done ? Py_XNewRef(PyDict_GetItemString(space, "wrap")) : NULL;
        Py_XDECREF(done);
        Py_XDECREF(space);
    }
    PyObject *generator = wrapper ? PyObject_CallOneArg(wrapper, value) : NULL;
    if (generator && Py_TYPE(generator)->tp_as_async->am_send(generator, Py_None, &wrapped) != PYGEN_NEXT) Py_CLEAR(wrapped);
    if (generator) nxpy_generator_drop(generator);
    Py_XDECREF(generator);
    nxpy__doing.paused--;
    if (!wrapped) return nxpy__stop_error(trace);
    nxpy__put(loop, 1, wrapped);
    return 0;
}
