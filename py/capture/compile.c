/* narthex._C.CapturedFunction: what torch.compile returns for a function.
 *
 * In: the user's call. Out: its result. On a hit the guards are checked on the arguments where they lie and the graph
 * runs: no Python frame, no hook, no allocation but the results.
 * What must hold: whatever is not a hit that returns goes through the function's own frame with the hook on
 * (segment.c); inside another trace the function is simply called, which inlines it; without a CPython that capture
 * knows it is simply called, too.
 * Next: segment.c. */
#include "capture/capture.h"
#include "graphs/graphs.h"
#include "nn/nn.h"

#include <structmember.h>

PyObject *nxpy__unsupported;
nxpy_stance nxpy__stance;
PyObject *nxpy__late;
PyObject *nxpy__listener;
static PyObject *extension; /* narthex._C, lent: it lives as long as the process */

/* ---- arguments as the frame would have them ------------------------------------------------------------------------------ */
enum { MAX_BOUND = 64, FAST_SLOTS = 512 }; /* lie on the stack of a call that hits; more slots are allocated */
typedef struct bound {
    PyObject *at[MAX_BOUND];  /* lent, but for the tuple and the dict */
    PyObject *tuple, *dict;
} bound;

static int find_parameter(const PyCodeObject *code, PyObject *name) {
    int n = code->co_argcount + code->co_kwonlyargcount;
    for (int pass = 0; pass < 2; pass++) { /* names are nearly always interned */
        for (int k = code->co_posonlyargcount; k < n; k++) {
            PyObject *mine = nxpy_local_name(code, k);
            if (mine == name || (pass && PyUnicode_Compare(mine, name) == 0)) return k;
        }
    }
    return -1;
}

static bool bind_keywords(bound *b, const PyCodeObject *code, PyObject *const *values, PyObject *names) {
    bool takes_any = code->co_flags & CO_VARKEYWORDS;
    if (takes_any && !(b->dict = PyDict_New())) return false;
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); k++) {
        PyObject *name = PyTuple_GET_ITEM(names, k);
        int at = find_parameter(code, name);
        if (at >= 0 && !b->at[at]) b->at[at] = values[k];
        else if (at >= 0 || !takes_any || PyDict_SetItem(b->dict, name, values[k]) < 0) return false;
    }
    return true;
}

/* False: they do not fit; the call itself will say why. */
static bool bind_arguments(bound *b, const PyFunctionObject *function, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    const PyCodeObject *code = (PyCodeObject *)function->func_code;
    int n_named = code->co_argcount + code->co_kwonlyargcount, at = n_named;
    if (n_named + 2 > MAX_BOUND) return false;
    memset(b->at, 0, sizeof(PyObject *) * (size_t)(n_named + 2));
    Py_ssize_t n_taken = n < code->co_argcount ? n : code->co_argcount;
    for (Py_ssize_t k = 0; k < n_taken; k++) b->at[k] = args[k];
    if (code->co_flags & CO_VARARGS) {
        if (!(b->tuple = PyTuple_New(n - n_taken))) return false;
        for (Py_ssize_t k = n_taken; k < n; k++) PyTuple_SET_ITEM(b->tuple, k - n_taken, Py_NewRef(args[k]));
        b->at[at++] = b->tuple;
    } else if (n > n_taken) {
        return false;
    }
    if (!bind_keywords(b, code, args + n, names)) return false;
    if (b->dict) b->at[at] = b->dict;
    PyObject *defaults = function->func_defaults, *kwdefaults = function->func_kwdefaults;
    Py_ssize_t first = code->co_argcount - (defaults ? PyTuple_GET_SIZE(defaults) : 0);
    for (int k = 0; k < n_named; k++) {
        if (b->at[k]) continue;
        if (k < code->co_argcount) b->at[k] = k >= first ? PyTuple_GET_ITEM(defaults, k - first) : NULL;
        else b->at[k] = kwdefaults ? PyDict_GetItemWithError(kwdefaults, nxpy_local_name(code, k)) : NULL;
        if (!b->at[k]) return false;
    }
    return true;
}

/* ---- the call --------------------------------------------------------------------------------------------------------------- */
/* A call under way: what runs, which for an object is found anew each time, and its arguments with self in front. */
typedef struct call {
    PyObject *function, *const *args, *names;
    Py_ssize_t n;
} call;

static nxpy_root *find_root(const nxpy_captured *captured, const PyObject *function) {
    for (int k = 0; k < captured->roots.n; k++) {
        if (captured->roots.at[k]->function == function) return captured->roots.at[k];
    }
    return NULL;
}

typedef enum fast { MISS, HIT, PLAIN } fast; /* PLAIN: its graph failed and changed nothing */
/* A hit that returns: *out. */
static __attribute__((noinline)) fast try_fast(nxpy_captured *captured, const call *c, PyObject **out) {
    nxpy_root *root = find_root(captured, c->function);
    nxpy_point *point = root && root->points.n ? root->points.at[0] : NULL;
    if (!point || !point->segments.n || point->next != 0) return MISS;
    const PyFunctionObject *function = (PyFunctionObject *)c->function;
    PyObject *const *args = c->args, *names = c->names;
    Py_ssize_t n = c->n;
    const PyCodeObject *code = (PyCodeObject *)function->func_code;
    PyObject *local[FAST_SLOTS], **room = local, **values, *const *roots = args;
    bound b; /* its array is filled when it is used: clearing it would cost as much as the guards */
    b.tuple = b.dict = NULL;
    bool simple = !names && n == code->co_argcount && !code->co_kwonlyargcount && !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
    bool fits = simple || bind_arguments(&b, function, args, n, names);
    if (!simple) roots = b.at;
    size_t n_slots = (size_t)point->n_slots;
    if (NX_UNLIKELY(n_slots > FAST_SLOTS) && !(room = nx_alloc(sizeof *room * n_slots))) fits = false;
    nxpy_segment *segment = fits ? nxpy__point_find(point, roots, room, &values, NULL, 0) : NULL;
    fast hit = segment && segment->returns ? HIT : MISS;
    if (hit) {
        captured->running++;
        int done = nxpy__segment_values(segment, values, out);
        captured->running--;
        if (NX_UNLIKELY(done < 0)) *out = NULL;
        if (NX_UNLIKELY(done == NXPY_UNDONE)) {
            PyErr_Clear();
            hit = PLAIN;
        } else if (NX_UNLIKELY(done == NXPY_OTHER)) {
            hit = MISS;
        }
    }
    if (NX_UNLIKELY(room != local)) nx_free(room);
    Py_XDECREF(b.tuple);
    Py_XDECREF(b.dict);
    if (!fits) nxpy_forget_error();
    return hit;
}

static PyObject *run_frame(nxpy_captured *captured, const call *c) {
    nxpy_doing before = nxpy__doing;
    nxpy__doing = (nxpy_doing){.entering = captured, .function = c->function};
    Py_INCREF(captured);
    Py_INCREF(c->function); /* its class may get another one meanwhile */
    captured->running++;
    nxpy__hook_hold(true);
    PyObject *result = PyObject_Vectorcall(c->function, c->args, (size_t)c->n, c->names);
    nxpy__hook_hold(false);
    captured->running--;
    Py_DECREF(c->function);
    Py_DECREF(captured);
    nxpy__doing = before;
    return result;
}

static PyObject *call_bound(nxpy_captured *captured, PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *result;
    const call c = {function, args, names, n};
    fast hit = try_fast(captured, &c, &result);
    if (NX_LIKELY(hit == HIT)) return result;
    if (hit == MISS) return run_frame(captured, &c);
    nxpy__pass_by(function);
    return PyObject_Vectorcall(function, args, (size_t)n, names);
}

/* A generator or coroutine runs later, in pieces. */
static bool can_follow(const PyObject *function) {
    int flags = ((PyCodeObject *)((const PyFunctionObject *)function)->func_code)->co_flags;
    return !(flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR));
}

static PyObject *call_late(nxpy_captured *captured, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *positional = PyTuple_New(n), *keywords = PyDict_New(), *result = NULL;
    for (Py_ssize_t k = 0; positional && k < n; k++) PyTuple_SET_ITEM(positional, k, Py_NewRef(args[k]));
    for (Py_ssize_t k = 0; keywords && names && k < PyTuple_GET_SIZE(names); k++) {
        if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, k), args[n + k]) < 0) Py_CLEAR(keywords);
    }
    if (positional && keywords) result = PyObject_CallFunctionObjArgs(nxpy__late, captured, positional, keywords, NULL);
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    return result;
}

static PyObject *captured_call(PyObject *object, PyObject *const *args, size_t flags, PyObject *names) {
    nxpy_captured *captured = (nxpy_captured *)object;
    PyObject *function = captured->function, *self = captured->self;
    if (self) {
        function = captured->is_object ? nxpy_called_function(self) : nxpy_called_method(self, function);
        if (function && !can_follow(function)) function = NULL;
    }
    const nx_thread *thread = nx_thread_get();
    bool asks = thread->function_modes || thread->dispatch_modes || thread->function_state;
    bool watched = thread->tracer || asks || nx_tangents_open() || thread->n_levels;
    bool refused = nxpy__doing.for_fx && nxpy__settings.refuses_traced;
    bool plain = !function || nxpy__stance == NXPY_STANCE_EAGER || nxpy__doing.trace || refused || watched;
    if (NX_UNLIKELY(plain && !nxpy__doing.trace)) {
        if (refused) {
            return PyErr_Format(PyExc_RuntimeError, "Detected that you are using FX to symbolically trace a dynamo-optimized function. "
                                "This is not supported at the moment.");
        }
        if (!function && captured->fullgraph && !nxpy_cpython_problem()) {
            return PyErr_Format(nxpy__unsupported, "torch.compile(fullgraph=True): %S is a generator or coroutine function or not made of "
                                "Python code, and is not captured; how to mend it: call it inside of a compiled function",
                                captured->name);
        }
    }
    if (NX_UNLIKELY(plain || nxpy_thread_is_traced(PyThreadState_Get()))) {
        nxpy__pass_by(function);
        return PyObject_Vectorcall(captured->fn, args, flags, names);
    }
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    if (NX_UNLIKELY(nxpy__stance == NXPY_STANCE_THEN && nxpy__late && !captured->warm && !captured->roots.n)) {
        return call_late(captured, args, n, names);
    }
    if (!self) return call_bound(captured, function, args, n, names);
    Py_ssize_t n_all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *local[16], **with_self = local;
    if (n_all + 1 > NX_COUNT(local) && !(with_self = nx_alloc(sizeof *with_self * (size_t)(n_all + 1)))) {
        return nxpy_raise(nx_fail_memory(sizeof *with_self));
    }
    with_self[0] = self;
    memcpy(with_self + 1, args, sizeof *args * (size_t)n_all);
    PyObject *result = call_bound(captured, function, with_self, n + 1, names);
    if (with_self != local) nx_free(with_self);
    return result;
}

/* ---- the object ---------------------------------------------------------------------------------------------------------------- */
static void drop_roots(nxpy_captured *captured) {
    while (captured->roots.n > 0) nxpy__root_free(captured->roots.at[--captured->roots.n]);
    nx_vec_free(&captured->roots);
}

/* The Python function behind a callable, and what it is bound to. What a call of an object runs may change. */
static void find_function(nxpy_captured *captured) {
    PyObject *fn = captured->fn, *self = NULL;
    if (Py_TYPE(fn) == &nxpy_captured_type) fn = ((nxpy_captured *)fn)->fn;
    if (PyMethod_Check(fn)) {
        self = PyMethod_GET_SELF(fn);
        fn = PyMethod_GET_FUNCTION(fn);
        if (Py_TYPE(fn) == &nxpy_captured_type) fn = ((nxpy_captured *)fn)->fn;
    } else if (!PyFunction_Check(fn) && nxpy__may_change(Py_TYPE(fn)) && !PyType_Check(fn)) {
        captured->is_object = true;
        captured->self = Py_NewRef(fn);
        return;
    }
    if (!PyFunction_Check(fn) || !can_follow(fn)) return;
    captured->function = Py_NewRef(fn);
    captured->self = Py_XNewRef(self);
}

/* 0, or -1 when the warning became an exception. */
static int check_interpreter(void) {
    static bool told;
    const char *problem = nxpy_cpython_problem();
    if (!problem || told) return 0;
    told = true;
    return PyErr_WarnEx(PyExc_UserWarning, problem, 2);
}

static PyObject *captured_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"fn", "backend", "fullgraph", "dynamic", "name", NULL};
    PyObject *fn, *backend, *dynamic = Py_None, *name = NULL;
    int fullgraph = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|pOO:CapturedFunction", names, &fn, &backend, &fullgraph, &dynamic, &name)) {
        return NULL;
    }
    if (!PyCallable_Check(fn) || !PyCallable_Check(backend)) {
        return PyErr_Format(PyExc_TypeError, "torch.compile: got %s and backend %s, expected two callables", Py_TYPE(fn)->tp_name,
                            Py_TYPE(backend)->tp_name);
    }
    nxpy__graph_class = &nxpy_graph_type;
    if (check_interpreter() < 0 || (!nxpy_cpython_problem() && nxpy__calls_init(extension) < 0)) return NULL;
    nxpy_captured *captured = (nxpy_captured *)type->tp_alloc(type, 0);
    if (!captured) return NULL;
    captured->call = captured_call;
    captured->fn = Py_NewRef(fn);
    captured->backend = Py_NewRef(backend);
    captured->fullgraph = fullgraph;
    captured->dynamic = dynamic == Py_None ? -1 : PyObject_IsTrue(dynamic);
    PyObject *shares = PyObject_GetAttrString(backend, "shares_graph");
    captured->shares = shares ? PyObject_IsTrue(shares) == 1 : true;
    Py_XDECREF(shares);
    nxpy_forget_error();
    captured->name = name && name != Py_None ? Py_NewRef(name) : PyObject_GetAttrString(fn, "__qualname__");
    if (!captured->name) {
        PyErr_Clear();
        captured->name = PyUnicode_FromString(Py_TYPE(fn)->tp_name);
    }
    captured->graphs = PyList_New(0);
    captured->recompiles = PyList_New(0);
    if (!captured->name || !captured->graphs || !captured->recompiles) {
        Py_DECREF(captured);
        return NULL;
    }
    if (!nxpy_cpython_problem()) find_function(captured);
    return (PyObject *)captured;
}

static int visit_guards(const nxpy_guards *guards, visitproc visit, void *arg) {
    for (int k = 0; k < guards->rows.n; k++) {
        const nxpy_row *row = &guards->rows.at[k];
        Py_VISIT(row->a);
        Py_VISIT(row->b);
    }
    return 0;
}

static int captured_traverse(PyObject *object, visitproc visit, void *arg) {
    nxpy_captured *c = (nxpy_captured *)object;
    PyObject *const parts[] = {c->fn, c->function, c->self, c->backend, c->name, c->dict, c->graphs, c->recompiles, c->told, c->calls};
    for (int k = 0; k < NX_COUNT(parts); k++) Py_VISIT(parts[k]);
    for (int r = 0; r < c->roots.n; r++) {
        const nxpy_root *root = c->roots.at[r];
        Py_VISIT(root->function);
        Py_VISIT(root->defaults);
        Py_VISIT(root->kwdefaults);
        for (int p = 0; p < root->points.n; p++) {
            for (int s = 0; s < root->points.at[p]->segments.n; s++) {
                const nxpy_segment *segment = root->points.at[p]->segments.at[s];
                for (int f = 0; f < segment->n_fits; f++) Py_VISIT(segment->fits[f]->call);
                Py_VISIT(segment->graph);
                Py_VISIT(segment->shared);
                int stop = visit_guards(&segment->guards, visit, arg);
                if (stop) return stop;
            }
        }
    }
    return 0;
}

static int captured_clear(PyObject *object) {
    nxpy_captured *c = (nxpy_captured *)object;
    drop_roots(c);
    Py_CLEAR(c->fn);
    Py_CLEAR(c->function);
    Py_CLEAR(c->self);
    Py_CLEAR(c->backend);
    Py_CLEAR(c->name);
    Py_CLEAR(c->dict);
    Py_CLEAR(c->graphs);
    Py_CLEAR(c->told);
    Py_CLEAR(c->calls);
    Py_CLEAR(c->recompiles);
    return 0;
}

static void captured_dealloc(PyObject *object) {
    nxpy_captured *captured = (nxpy_captured *)object;
    PyObject_GC_UnTrack(object);
    if (captured->weak) PyObject_ClearWeakRefs(object);
    captured_clear(object);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *captured_bind(PyObject *object, PyObject *instance, PyObject *owner) {
    return instance && instance != Py_None ? PyMethod_New(object, instance) : Py_NewRef(object);
}

static PyObject *captured_reset(PyObject *object, PyObject *unused) {
    nxpy_captured *captured = (nxpy_captured *)object;
    if (captured->running) return PyErr_Format(PyExc_RuntimeError, "reset: %S is running; reset it when it has returned", captured->name);
    drop_roots(captured);
    captured->warned = false;
    if (PyList_SetSlice(captured->graphs, 0, PY_SSIZE_T_MAX, NULL) < 0) return NULL;
    if (PyList_SetSlice(captured->recompiles, 0, PY_SSIZE_T_MAX, NULL) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *get_entries(PyObject *object, void *unused) {
    const nxpy_captured *captured = (nxpy_captured *)object;
    long n = 0;
    for (int r = 0; r < captured->roots.n; r++) {
        for (int p = 0; p < captured->roots.at[r]->points.n; p++) n += captured->roots.at[r]->points.at[p]->segments.n;
    }
    return PyLong_FromLong(n);
}

/* Of the pieces at the beginning of its functions. */
static PyObject *get_guards(PyObject *object, void *unused) {
    const nxpy_captured *captured = (nxpy_captured *)object;
    PyObject *list = PyList_New(0);
    for (int r = 0; list && r < captured->roots.n; r++) {
        const nxpy_point *point = captured->roots.at[r]->points.n ? captured->roots.at[r]->points.at[0] : NULL;
        for (int k = 0; list && point && point->next == 0 && k < point->segments.n; k++) {
            PyObject *guards = nxpy_guards_list(&point->segments.at[k]->guards);
            if (!guards || PyList_Append(list, guards) < 0) Py_CLEAR(list);
            Py_XDECREF(guards);
        }
    }
    return list;
}

static PyObject *captured_repr(PyObject *object) { return PyUnicode_FromFormat("<compiled function %S>", ((nxpy_captured *)object)->name); }

/* What functools.wraps() was given is in the dict, as an attribute of a function is. */
static PyObject *captured_wrapped(PyObject *self, void *unused) {
    PyObject *dict = ((nxpy_captured *)self)->dict, *set = dict ? PyDict_GetItemString(dict, "__wrapped__") : NULL;
    return Py_NewRef(set ? set : ((nxpy_captured *)self)->fn);
}
static int captured_set_wrapped(PyObject *self, PyObject *value, void *unused) {
    PyObject *dict = PyObject_GenericGetDict(self, NULL);
    int failed = !dict ? -1 : value ? PyDict_SetItemString(dict, "__wrapped__", value) : PyDict_DelItemString(dict, "__wrapped__");
    Py_XDECREF(dict);
    return failed;
}

static PyMemberDef captured_members[] = {
    {"fn", T_OBJECT, offsetof(nxpy_captured, fn), READONLY, "What was given to torch.compile."},
    {"backend", T_OBJECT, offsetof(nxpy_captured, backend), READONLY, "Makes a callable of a graph and example inputs."},
    {"graphs", T_OBJECT, offsetof(nxpy_captured, graphs), READONLY, "The graphs of the latest compilation, in order."},
    {"recompiles", T_OBJECT, offsetof(nxpy_captured, recompiles), READONLY, "Why it was compiled again, each time."},
    {"_torchdynamo_orig_callable", T_OBJECT, offsetof(nxpy_captured, fn), READONLY, "The same, as PyTorch names it."},
    {"recompile_limit", T_INT, offsetof(nxpy_captured, limit), 0, "The pieces that are compiled for one place; 0: config's."},
    {"warm", T_BOOL, offsetof(nxpy_captured, warm), 0, "Its calls are compiled at once, whatever the stance says of first ones."},
    {"of_frames", T_BOOL, offsetof(nxpy_captured, of_frames), 0,
     "Made for a frame callback: where set_eval_frame says False, nothing more is compiled."},
    {"guards_listener", T_OBJECT, offsetof(nxpy_captured, told), 0,
     "Called with a list of (kind, name, text, may be left out) when a piece is compiled; may give one of bools: those that count."},
    {"calls", T_OBJECT, offsetof(nxpy_captured, calls), READONLY,
     "Of the latest trace (what, number of the call that it was made in, or 0) of each enter_call, by number, from 1; or None."},
    {"no_elements", T_BOOL, offsetof(nxpy_captured, no_elements), 0, "Whether what elements decide is a graph break, always."},
    {"fullgraph", T_BOOL, offsetof(nxpy_captured, fullgraph), READONLY, "Whether a graph break is an error."},
    {NULL}};
static PyGetSetDef captured_getset[] = {{"entries", get_entries, NULL, "How many pieces are compiled.", NULL},
                                        {"guards", get_guards, NULL,
                                         "Of each piece at the function's beginning: a list of (kind, name, text, may be left out).", NULL},
                                        {"__wrapped__", captured_wrapped, captured_set_wrapped, "What wraps() was given, or fn.", NULL},
                                        {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                                        {NULL}};
/* As functions: a copy is the same one, a pickle says where to find it. */
static PyObject *captured_reduce(PyObject *object, PyObject *unused) {
    PyObject *name = PyObject_GetAttrString(object, "__qualname__");
    if (name || !PyErr_ExceptionMatches(PyExc_AttributeError)) return name;
    return PyUnicode_FromString("<compiled>");
}

static PyMethodDef captured_methods[] = {
    {"__reduce__", captured_reduce, METH_NOARGS, "Where it is found."},
    {"reset", captured_reset, METH_NOARGS, "Forgets everything that was compiled."},
    {NULL}};

PyTypeObject nxpy_captured_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "narthex._C.CapturedFunction", .tp_basicsize = sizeof(nxpy_captured),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_doc = "CapturedFunction(fn, backend, fullgraph=False, dynamic=None, name=None): fn, compiled when it is called.",
    .tp_vectorcall_offset = offsetof(nxpy_captured, call), .tp_call = PyVectorcall_Call, .tp_descr_get = captured_bind,
    .tp_new = captured_new, .tp_dealloc = captured_dealloc, .tp_traverse = captured_traverse, .tp_clear = captured_clear,
    .tp_repr = captured_repr, .tp_members = captured_members, .tp_getset = captured_getset, .tp_methods = captured_methods,
    .tp_dictoffset = offsetof(nxpy_captured, dict), .tp_weaklistoffset = offsetof(nxpy_captured, weak)};

static PyObject *set_stop(PyObject *module, PyObject *number) {
    nxpy__stop_at = PyLong_AsLongLong(number);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *can_capture(PyObject *module, PyObject *unused) { return PyBool_FromLong(!nxpy_cpython_problem()); }
static PyObject *is_capturing(PyObject *module, PyObject *unused) { return PyBool_FromLong(nxpy__doing.trace != NULL); }

static PyObject *is_followed(PyObject *module, PyObject *unused) { Py_RETURN_FALSE; }
static PyObject *takes_none(PyObject *module, PyObject *args) { Py_RETURN_FALSE; }
static PyObject *get_setting(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    return n == 2 ? PyObject_GetItem(args[0], args[1]) : PyErr_Format(PyExc_TypeError, "number_input: a dict and a key");
}
static PyObject *all_leaves(PyObject *module, PyObject *roots) { Py_RETURN_NONE; }
/* For what the loop does itself when a traced program calls it. */
static PyObject *only_traced(PyObject *module, PyObject *args) {
    return PyErr_Format(PyExc_RuntimeError, "this is called where a function is captured, and nowhere else");
}

static PyObject *set_stance(PyObject *module, PyObject *number) {
    long stance = PyLong_AsLong(number);
    if (PyErr_Occurred()) return NULL;
    if (stance < NXPY_STANCE_DEFAULT || stance > NXPY_STANCE_THEN) {
        return PyErr_Format(PyExc_ValueError, "set_capture_stance: got %ld, expected 0 to %d", stance, NXPY_STANCE_THEN);
    }
    long before = nxpy__stance;
    nxpy__stance = (nxpy_stance)stance;
    return PyLong_FromLong(before);
}

static PyObject *set_for_fx(PyObject *module, PyObject *is_on) {
    bool before = nxpy__doing.for_fx;
    nxpy__doing.for_fx = is_on == Py_True;
    return PyBool_FromLong(before);
}

static PyObject *set_late(PyObject *module, PyObject *callable) {
    Py_XSETREF(nxpy__late, Py_NewRef(callable));
    Py_RETURN_NONE;
}

static PyObject *set_setting(PyObject *module, PyObject *args) {
    const char *name;
    int value;
    nxpy_settings *s = &nxpy__settings;
    if (!PyArg_ParseTuple(args, "si:set_capture_setting", &name, &value)) return NULL;
    if (strcmp(name, "recompile_limit") == 0) s->max_segments = value < 1 ? 1 : value;
    else if (strcmp(name, "automatic_dynamic_shapes") == 0) s->automatic = value;
    else if (strcmp(name, "assume_static_by_default") == 0) s->open_first = !value;
    else if (strcmp(name, "fail_on_recompile_limit_hit") == 0) s->fails_at_limit = value;
    else if (strcmp(name, "error_on_recompile") == 0) s->fails_at_recompile = value;
    else if (strcmp(name, "specialize_int") == 0) s->keeps_ints = value;
    else if (strcmp(name, "specialize_float") == 0) s->keeps_floats = value;
    else if (strcmp(name, "error_on_nested_fx_trace") == 0) s->refuses_traced = value;
    else return PyErr_Format(PyExc_ValueError, "set_capture_setting: there is no setting '%s'", name);
    Py_RETURN_NONE;
}

static PyObject *set_whole(PyObject *module, PyObject *on) {
    int truth = PyObject_IsTrue(on);
    if (truth < 0) return NULL;
    bool before = nxpy__whole;
    nxpy__whole = truth;
    return PyBool_FromLong(before);
}

static PyObject *set_listener(PyObject *module, PyObject *callable) {
    Py_XSETREF(nxpy__listener, callable == Py_None ? NULL : Py_NewRef(callable));
    Py_RETURN_NONE;
}

/* Capture knows no such function, and so ends the graph before it. */
static PyObject *graph_break(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names) { Py_RETURN_NONE; }

static PyObject *skip_frame(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names) { Py_RETURN_NONE; }
static PyObject *step_unsupported(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names) { Py_RETURN_NONE; }

static PyMethodDef functions[] = {
    {"set_capture_setting", set_setting, METH_VARARGS, "set_capture_setting(name, number): torch._dynamo.config's."},
    {"set_capture_whole", set_whole, METH_O,
     "set_capture_whole(on): whether a graph break is an error on this thread; what it was before."},
    {"set_capture_listener", set_listener, METH_O,
     "set_capture_listener(callable or None): called at each end of a trace with (code, reason, detail, file, line, function)."},
    {"graph_break", (PyCFunction)(void (*)(void))graph_break, METH_FASTCALL | METH_KEYWORDS,
     "graph_break(msg='')\n--\n\nEnds the graph that is being captured."},
    {"skip_frame", (PyCFunction)(void (*)(void))skip_frame, METH_FASTCALL | METH_KEYWORDS,
     "skip_frame(msg='')\n--\n\nThe function that calls it runs uncompiled from where its last graph ended."},
    {"step_unsupported", (PyCFunction)(void (*)(void))step_unsupported, METH_FASTCALL | METH_KEYWORDS,
     "step_unsupported(msg='')\n--\n\nThe same as skip_frame."},
    {"set_fx_tracing", set_for_fx, METH_O, "set_fx_tracing(on): whether torch.fx records proxies in this thread; what it was before."},
    {"set_capture_stance", set_stance, METH_O,
     "set_capture_stance(n): compiled functions 0: do the usual, 1: run uncompiled, 2: so where none fits, 3: fail there, 4: fail there "
     "in other words, 5: leave first calls to set_capture_late's. Gives the last."},
    {"set_capture_late", set_late, METH_O,
     "set_capture_late(callable): called with (function, arguments, keywords) for calls of functions that were never compiled."},
    {"can_capture", can_capture, METH_NOARGS, "Whether functions are captured under this CPython."},
    {"is_capturing", is_capturing, METH_NOARGS, "Whether what calls it is being captured."},
    {"function_follows", is_followed, METH_NOARGS, "Whether a function with a backward of its own stands whole in what is captured."},
    {"autograd_leaves", all_leaves, METH_O,
     "autograd_leaves(roots): the leaves that a backward of the roots fills, where it is captured; else None, which means all."},
    {"autograd_takes", takes_none, METH_VARARGS,
     "autograd_takes(leaf, gradient): whether what is captured may make `gradient` itself the leaf's: nothing else has its memory."},
    {"must_be_whole", is_followed, METH_NOARGS, "Whether what is captured is to be one graph."},
    {"number_input", (PyCFunction)(void (*)(void))get_setting, METH_FASTCALL,
     "number_input(dict, key): dict[key]; where it is captured a float is a tensor, so that another one is no other graph."},
    {"settings_vary", takes_none, METH_VARARGS,
     "settings_vary(owner, dict, but): whether a constant in it, but for key `but`, was another one when this was captured before; the "
     "owner's _settings_change is True from then on."},
    {"recompute_begin", only_traced, METH_VARARGS, "recompute_begin(): what is recorded from here on is computed again in the backward."},
    {"recompute_end", only_traced, METH_VARARGS, "recompute_end(before)"},
    {"enter_call", only_traced, METH_VARARGS,
     "enter_call(what): what is recorded from here on has the number of this call as its scope, which is given back."},
    {"leave_call", only_traced, METH_VARARGS, "leave_call(number): to here."},
    {"parts_follow", is_followed, METH_NOARGS, "parts_follow(): whether branches and loops are traced into graphs of their own here."},
    {"part_open", only_traced, METH_VARARGS, "part_open(given): a branch, a condition or a body is recorded from here on; what it gets."},
    {"part_close", only_traced, METH_VARARGS, "part_close(results): to here."},
    {"parts_join", only_traced, METH_VARARGS, "parts_join(pred or carried): the results of the last two parts: one of them, or a loop."},
    {"function_open", only_traced, METH_VARARGS,
     "function_open(ctx, results): the gradients of results, from which on the backward is recorded in a graph of its own."},
    {"function_close", only_traced, METH_VARARGS,
     "function_close(name, once, inputs, results, saved, gradients): the results, tied to what was recorded."},
    {"function_refuse", only_traced, METH_VARARGS, "function_refuse(why): the graph ends before the function."},
    {"set_capture_stop", set_stop, METH_O, "set_capture_stop(n): for tests: every trace stops before its n-th instruction; 0: none does."},
    {"set_capture_log", nxpy__set_log, METH_O,
     "set_capture_log(callable or None): called as log(event, **info) at each step of a capture."},
    {NULL}};

int nxpy_add_capture(PyObject *module) {
    if (PyType_Ready(&nxpy_captured_type) < 0) return -1;
    extension = module;
    nxpy__unsupported = PyErr_NewExceptionWithDoc("narthex._C.Unsupported", "Capture met what it cannot follow, under fullgraph=True.",
                                                  PyExc_RuntimeError, NULL);
    if (!nxpy__unsupported || PyModule_AddObjectRef(module, "Unsupported", nxpy__unsupported) < 0) return -1;
    if (PyModule_AddObjectRef(module, "CapturedFunction", (PyObject *)&nxpy_captured_type) < 0) return -1;
    return nxpy__add_eval_frame(module) < 0 || nxpy__add_rules(module) < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
