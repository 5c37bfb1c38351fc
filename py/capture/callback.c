/* The callback of a thread for its frames: torch._C._dynamo.eval_frame.set_eval_frame.
 *
 * In: a frame that begins while the thread has a callback. Out: its result, from its own code or from another code object that the
 * callback gave for it, now or earlier. False in the callback's place: what was made earlier runs, nothing is asked.
 * What must hold: the callback, the guards of what it made and whatever else is ours run with no callback set; it stays unset
 * when the callback raises. Frames of generators that go on, and frames into which an exception is thrown, are not offered.
 * What the callback says is read in Python: narthex._dynamo.types.
 * Next: hook.c, notes/code.c. */
#include "capture/capture.h"

_Thread_local PyObject *nxpy__callback;
static _Thread_local bool holds;              /* this thread keeps the hook, once */
static _Thread_local PyObject *passing;       /* the code of the frame that passes by next; lent */
static PyObject *ask, *find;                  /* of narthex._dynamo.types; set once */

static void set_callback(PyObject *taken) {
    PyObject *before = nxpy__callback;
    nxpy__callback = taken;
    if (taken && !holds) nxpy__hook_hold(holds = true);
    Py_XDECREF(before);
}

PyObject *nxpy__callback_aside(void) {
    PyObject *before = nxpy__callback;
    nxpy__callback = NULL;
    return before;
}

void nxpy__callback_back(PyObject *before) { set_callback(before); }

void nxpy__pass_by(PyObject *function) {
    if (nxpy__callback && function && PyFunction_Check(function)) passing = PyFunction_GET_CODE(function);
}

/* ---- another code object in a frame's place --------------------------------------------------------------------------- */
enum { TAKES_MORE = CO_VARARGS | CO_VARKEYWORDS };

static PyObject *closure_for(const nxpy_view *view, PyObject *names) {
    PyObject *mine = view->function->func_closure, *own = PyCode_GetFreevars(view->code);
    PyObject *closure = own ? PyTuple_New(PyTuple_GET_SIZE(names)) : NULL;
    for (Py_ssize_t k = 0; closure && k < PyTuple_GET_SIZE(names); k++) {
        Py_ssize_t at = PySequence_Index(own, PyTuple_GET_ITEM(names, k));
        if (at >= 0) {
            PyTuple_SET_ITEM(closure, k, Py_NewRef(PyTuple_GET_ITEM(mine, at)));
            continue;
        }
        PyErr_Format(PyExc_RuntimeError, "set_eval_frame: the code given for %U has a free variable %R, and %U has none of that name",
                     view->code->co_name, PyTuple_GET_ITEM(names, k), view->code->co_name);
        Py_CLEAR(closure);
    }
    Py_XDECREF(own);
    return closure;
}

static PyObject *function_for(const nxpy_view *view, PyCodeObject *code) {
    const PyCodeObject *own = view->code;
    bool same = own->co_argcount == code->co_argcount && own->co_kwonlyargcount == code->co_kwonlyargcount &&
                ((own->co_flags ^ code->co_flags) & TAKES_MORE) == 0;
    if (!(own->co_flags & CO_OPTIMIZED) || !same) {
        return PyErr_Format(PyExc_RuntimeError, "set_eval_frame: the code given for %U must take the arguments of %U, a function's",
                            own->co_name, own->co_name);
    }
    PyObject *names = PyCode_GetFreevars(code), *function = names ? PyFunction_New((PyObject *)code, view->globals) : NULL;
    PyObject *closure = function && PyTuple_GET_SIZE(names) ? closure_for(view, names) : NULL;
    if (function && PyTuple_GET_SIZE(names) && (!closure || PyFunction_SetClosure(function, closure) < 0)) Py_CLEAR(function);
    Py_XDECREF(closure);
    Py_XDECREF(names);
    return function;
}

/* The frame's arguments, as a call gives them. 0, or -1 with an exception. */
static int arguments_of(const nxpy_view *view, PyObject **args, PyObject **keywords) {
    const PyCodeObject *code = view->code;
    int n = code->co_argcount, n_named = n + code->co_kwonlyargcount;
    PyObject *more = code->co_flags & CO_VARARGS ? nxpy_value(view, n_named) : NULL;
    PyObject *rest = code->co_flags & CO_VARKEYWORDS ? nxpy_value(view, n_named + (more != NULL)) : NULL;
    Py_ssize_t n_more = more ? PyTuple_GET_SIZE(more) : 0;
    *args = PyTuple_New(n + n_more);
    *keywords = rest ? PyDict_Copy(rest) : PyDict_New();
    if (!*args || !*keywords) return -1;
    for (int k = 0; k < n; k++) PyTuple_SET_ITEM(*args, k, Py_NewRef(nxpy_value(view, k)));
    for (Py_ssize_t k = 0; k < n_more; k++) PyTuple_SET_ITEM(*args, n + k, Py_NewRef(PyTuple_GET_ITEM(more, k)));
    for (int k = n; k < n_named; k++) {
        if (PyDict_SetItem(*keywords, nxpy_local_name(code, k), nxpy_value(view, k)) < 0) return -1;
    }
    return 0;
}

static PyObject *run_code(PyThreadState *thread, nxpy_frame *frame, const nxpy_view *view, PyObject *code) {
    PyObject *args = NULL, *keywords = NULL, *result = NULL;
    PyObject *function = PyCode_Check(code) ? function_for(view, (PyCodeObject *)code) : NULL;
    if (!PyCode_Check(code)) PyErr_Format(PyExc_TypeError, "set_eval_frame: expected code, got %s", Py_TYPE(code)->tp_name);
    if (function && arguments_of(view, &args, &keywords) == 0) {
        passing = code;
        result = PyObject_Call(function, args, keywords);
        passing = NULL;
    }
    Py_XDECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    return nxpy_frame_end(thread, frame, result);
}

/* ---- what is done with a frame ------------------------------------------------------------------------------------------- */
/* Its arguments and free variables by name. */
static PyObject *locals_of(const nxpy_view *view) {
    PyObject *locals = PyDict_New(), *closure = view->function->func_closure;
    int n_free = closure ? (int)PyTuple_GET_SIZE(closure) : 0;
    for (int k = 0; locals && k < view->n_locals; k++) {
        int free = k - (view->n_locals - n_free);
        PyObject *value = free >= 0 ? PyCell_GET(PyTuple_GET_ITEM(closure, free)) : nxpy_value(view, k);
        if (value && PyDict_SetItem(locals, nxpy_local_name(view->code, k), value) < 0) Py_CLEAR(locals);
    }
    return locals;
}

/* The callback for frames that begin in one; a new reference. */
static PyObject *inner_callback(PyObject *callback, nxpy_action action) {
    if (action == NXPY_ACTION_SKIP) return NULL;
    return Py_NewRef(action == NXPY_ACTION_RUN_ONLY ? Py_False : callback);
}

/* The callback says what becomes of the frame: *inner as its frames then have it, the code to run, new, or NULL: its own. 0, -1. */
static int ask_callback(const nxpy_view *view, PyObject *callback, PyObject *locals, PyObject **inner, PyObject **code) {
    nxpy_code_state *state = nxpy__code_state((PyObject *)view->code, true);
    if (!state || (!state->kept && !(state->kept = PyDict_New()))) return -1;
    PyObject *newest = state->entries && PyList_GET_SIZE(state->entries) ? PyList_GET_ITEM(state->entries, 0) : Py_None, *entry;
    PyObject *said = PyObject_CallFunctionObjArgs(ask, callback, view->code, view->function, locals, view->globals, view->builtins, newest,
                                                  state->kept, NULL);
    int own, below, applies;
    if (!said || !PyArg_ParseTuple(said, "iipO", &own, &below, &applies, &entry)) return Py_XDECREF(said), -1;
    if (state->inner == NXPY_ACTION_DEFAULT) *inner = inner_callback(callback, (nxpy_action)below);
    else *inner = inner_callback(callback, state->inner);
    if (applies && own != NXPY_ACTION_DEFAULT) state->own = (nxpy_action)own;
    if (applies && below != NXPY_ACTION_DEFAULT) state->inner = (nxpy_action)below;
    int done = 0;
    if (entry != Py_None) {
        if (!state->entries) state->entries = PyList_New(0);
        done = state->entries ? PyList_Insert(state->entries, 0, entry) : -1;
        *code = done == 0 ? PyObject_GetAttrString(entry, "code") : NULL;
        if (!*code) done = -1;
    }
    Py_DECREF(said);
    return done;
}

/* With no callback set. 0, or -1 with an exception. */
static int find_or_ask(const nxpy_view *view, nxpy_code_state *state, PyObject *callback, bool only_runs, PyObject **inner,
                       PyObject **code) {
    PyObject *locals = locals_of(view);
    int done = locals ? 0 : -1;
    if (done == 0 && state && state->entries && PyList_GET_SIZE(state->entries)) {
        PyObject *found = PyObject_CallFunctionObjArgs(find, state->entries, only_runs ? Py_False : callback, locals, view->code,
                                                       view->function, NULL);
        if (found && found != Py_None) *code = Py_NewRef(found);
        Py_XDECREF(found);
        if (!found) done = -1;
    }
    if (done == 0 && !*code && !only_runs) done = ask_callback(view, callback, locals, inner, code);
    else if (done == 0) *inner = inner_callback(callback, state ? state->inner : NXPY_ACTION_DEFAULT);
    Py_XDECREF(locals);
    return done;
}

PyObject *nxpy__frame_offered(PyThreadState *thread, nxpy_frame *frame, int throwing) {
    nxpy_view view;
    nxpy_frame_view(frame, &view);
    bool passes = passing == (PyObject *)view.code;
    if (passes) passing = NULL;
    if (passes || throwing || nxpy_frame_next(frame) != 0) return nxpy_eval_default(thread, frame, throwing);
    nxpy_code_state *state = nxpy__code_state((PyObject *)view.code, false);
    bool only_runs = nxpy__callback == Py_False || (state && state->own == NXPY_ACTION_RUN_ONLY);
    bool runs_as_it_is = state && state->own == NXPY_ACTION_SKIP;
    PyObject *callback = nxpy__callback_aside(), *inner = NULL, *code = NULL, *result;
    if (runs_as_it_is || (only_runs && !(state && state->entries))) {
        inner = inner_callback(callback, state ? state->inner : NXPY_ACTION_DEFAULT);
    } else if (find_or_ask(&view, state, callback, only_runs, &inner, &code) < 0) {
        Py_XDECREF(inner);
        Py_XDECREF(code);
        Py_DECREF(callback);
        return nxpy_frame_end(thread, frame, NULL);
    }
    bool differs = inner != callback; /* else what the frame has set stays */
    set_callback(inner);
    if (code) result = run_code(thread, frame, &view, code);
    else result = nxpy_eval_default(thread, frame, 0);
    Py_XDECREF(code);
    if (differs) set_callback(callback);
    else Py_DECREF(callback);
    return result;
}

/* ---- torch._C._dynamo.eval_frame ------------------------------------------------------------------------------------------ */
static int load_helpers(void) {
    PyObject *types = ask ? NULL : PyImport_ImportModule("narthex._dynamo.types");
    if (!types) return ask ? 0 : -1;
    find = PyObject_GetAttrString(types, "_find");
    ask = find ? PyObject_GetAttrString(types, "_ask") : NULL;
    Py_DECREF(types);
    return ask ? 0 : -1;
}

static PyObject *get_callback(PyObject *module, PyObject *unused) { return Py_NewRef(nxpy__callback ? nxpy__callback : Py_None); }

static PyObject *set_eval_frame(PyObject *module, PyObject *callback) {
    bool none = callback == Py_None;
    if (!none && callback != Py_False && !PyCallable_Check(callback)) return PyErr_Format(PyExc_TypeError, "expected a callable");
    if (!none && nxpy_cpython_problem()) return PyErr_Format(PyExc_RuntimeError, "set_eval_frame: %s", nxpy_cpython_problem());
    if (!none && load_helpers() < 0) return NULL;
    PyObject *before = get_callback(module, NULL);
    set_callback(none ? NULL : Py_NewRef(callback));
    if (none && holds) {
        holds = false;
        nxpy__hook_hold(false);
    }
    return before;
}

static nxpy_code_state *state_of(PyObject *code, bool make) {
    if (PyCode_Check(code)) return nxpy__code_state(code, make);
    PyErr_Format(PyExc_TypeError, "expected a code object, got %s", Py_TYPE(code)->tp_name);
    return NULL;
}

static PyObject *reset_code(PyObject *module, PyObject *code) {
    nxpy_code_state *state = state_of(code, false);
    if (!state) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    nxpy_code_state was = *state;
    *state = (nxpy_code_state){.skips = was.skips};
    Py_XDECREF(was.entries);
    Py_XDECREF(was.kept);
    Py_RETURN_NONE;
}

static PyObject *set_code_actions(PyObject *module, PyObject *args) {
    PyObject *code;
    int own, inner;
    if (!PyArg_ParseTuple(args, "Oii:set_code_actions", &code, &own, &inner)) return NULL;
    nxpy_code_state *state = state_of(code, true);
    if (!state) return NULL;
    state->own = (nxpy_action)own;
    state->inner = (nxpy_action)inner;
    state->skips = own == NXPY_ACTION_SKIP;
    Py_RETURN_NONE;
}

static PyObject *code_entries(PyObject *module, PyObject *code) {
    nxpy_code_state *state = state_of(code, false);
    if (PyErr_Occurred()) return NULL;
    return state && state->entries ? PySequence_List(state->entries) : PyList_New(0);
}

static PyMethodDef functions[] = {
    {"set_eval_frame", set_eval_frame, METH_O,
     "set_eval_frame(None, False or callback): what is done with the frames of this thread that begin from here on. Gives the last."},
    {"get_eval_frame_callback", get_callback, METH_NOARGS, "What set_eval_frame has set on this thread."},
    {"reset_code", reset_code, METH_O, "reset_code(code): forgets what callbacks made of its frames, and what they said of them."},
    {"_set_code_actions", set_code_actions, METH_VARARGS, "_set_code_actions(code, own, inner): as set_code_exec_strategy."},
    {"_code_entries", code_entries, METH_O, "_code_entries(code): what callbacks made of it, the newest first."},
    {NULL}};

int nxpy__add_eval_frame(PyObject *module) {
    PyObject *outer = PyImport_AddModule("narthex._C._dynamo"); /* lent, as the next: a name that can be imported */
    PyObject *inner = outer ? PyImport_AddModule("narthex._C._dynamo.eval_frame") : NULL;
    if (!inner || PyModule_AddFunctions(inner, functions) < 0) return -1;
    if (PyModule_AddObjectRef(outer, "eval_frame", inner) < 0) return -1;
    return PyModule_AddObjectRef(module, "_dynamo", outer);
}
