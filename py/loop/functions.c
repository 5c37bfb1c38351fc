/* What python/narthex/autograd/function.py calls while a function with a backward of its own is traced.
 *
 * In: arguments as the traced program has them, tensors among them. Out: py/notes/region.c does it with what stands for them. */
#include "loop/private.h"

#define ARGS nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names

/* A tuple of tensors and None, or of what stands for them in the trace. New reference; NULL: stopped. */
static PyObject *use_tensors(nxpy_trace *trace, PyObject *tuple) {
    tuple = nxpy__use(trace, tuple);
    Py_ssize_t n = tuple && PyTuple_CheckExact(tuple) ? PyTuple_GET_SIZE(tuple) : -1;
    if (tuple && n < 0) nxpy__stop(trace, NXPY_BREAK_BACKWARD, "arguments of type %.200s", Py_TYPE(tuple)->tp_name);
    PyObject *made = n < 0 ? NULL : PyTuple_New(n);
    for (Py_ssize_t k = 0; made && k < n; k++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, k), *use = nxpy_tensor_check(item) ? nxpy__use(trace, item) : Py_None;
        if (use) PyTuple_SET_ITEM(made, k, Py_NewRef(use));
        else Py_CLEAR(made);
    }
    return made;
}

static PyObject *ended(nxpy_trace *trace, PyObject *result) {
    if (!result) nxpy__stop_error(trace);
    return result;
}

static PyObject *refuse_map(nxpy_trace *trace, const char *why) {
    nxpy__stop(trace, NXPY_BREAK_METHOD, "vmap: %s", why);
    return NULL;
}

/* function_follows(): not in a frame that is a root, which may end in the middle, and not in a map, whose slices have no node. */
PyObject *nxpy__special_function_follows(ARGS) {
    const nxpy_trace *trace = loop->trace;
    return PyBool_FromLong((loop != trace->root_loop || trace->owner->fullgraph) && nx_thread_get()->n_levels == 0);
}

/* autograd_leaves(roots): which tensors of the caller's a backward of the roots fills. */
PyObject *nxpy__special_autograd_leaves(ARGS) {
    nxpy_trace *trace = loop->trace;
    if (n != 1 || trace->region) return nxpy__stop(trace, NXPY_BREAK_METHOD, "a backward into leaves"), NULL;
    if (nxpy__want_backward(trace, "Tensor.backward") < 0) return NULL;
    PyObject *roots = use_tensors(trace, args[0]), *leaves = roots ? nxpy__leaves_of(trace, roots) : NULL;
    Py_XDECREF(roots);
    return leaves || trace->stop ? leaves : ended(trace, NULL);
}

/* autograd_takes(leaf, gradient): whether it lies as the leaf does, and no other tensor that the program may have in its memory. */
PyObject *nxpy__special_autograd_takes(ARGS) {
    nxpy_trace *trace = loop->trace;
    PyObject *leaf = n == 2 ? nxpy__use(trace, args[0]) : NULL, *gradient = leaf ? nxpy__use(trace, args[1]) : NULL;
    if (!gradient) return ended(trace, NULL);
    nx_tensor *own = nxpy_tensor_get(gradient);
    nx_value value, of_other;
    bool fresh = nxpy__note_find(trace, gradient) - trace->notes.at >= trace->n_before; /* the backward has made it */
    if (!fresh || !nx_tracer_find(&trace->tracer, own, &value)) return PyBool_FromLong(false);
    bool takes = nx_same_strides(&own->a, &nxpy_tensor_get(leaf)->a) && own->base == NULL;
    for (int k = 0; takes && k < trace->notes.n; k++) {
        PyObject *object = trace->notes.at[k].object;
        if (object == gradient || !nxpy__is_fake(trace, object)) continue;
        nx_tensor *other = nxpy_tensor_get(object);
        bool same_value = nx_tracer_find(&trace->tracer, other, &of_other) && nx_value_equal(&of_other, &value);
        bool taken = trace->notes.at[k].knows_grad && nx_tensor_get_grad(other) == own;
        takes = other->storage != own->storage && !same_value && !taken;
    }
    return PyBool_FromLong(takes);
}

/* number_input(dict, key): a float as a tensor that is an input of the graph. */
PyObject *nxpy__special_number_input(ARGS) {
    nxpy_trace *trace = loop->trace;
    PyObject *dict = n == 2 ? nxpy__use(trace, args[0]) : NULL, *value = NULL;
    if (dict && !(PyDict_CheckExact(dict) && PyUnicode_CheckExact(args[1]))) return nxpy__stopped(loop, function);
    int done = dict ? nxpy__number_input(trace, dict, args[1], &value) : -1;
    if (done == 1) done = nxpy__dict_value(trace, dict, args[1], &value);
    if (done == 0 && !value) PyErr_SetObject(PyExc_KeyError, args[1]);
    return done == 0 && value ? Py_NewRef(value) : trace->stop ? NULL : ended(trace, NULL);
}

/* must_be_whole(): whether the function is to be one graph. */
PyObject *nxpy__special_must_be_whole(ARGS) { return PyBool_FromLong(loop->trace->owner->fullgraph); }

/* settings_vary(owner, dict, but): whether a constant in the dict, under another key than `but`, was another one in an earlier
 * trace. The owner knows it from then on, also where its own methods are traced. */
PyObject *nxpy__special_settings_vary(ARGS) {
    PyObject *dict = n == 3 ? nxpy__use(loop->trace, args[1]) : NULL;
    if (!dict) return ended(loop->trace, NULL);
    if (!PyDict_CheckExact(dict) || !nxpy__settings_vary(loop->trace, dict, args[2])) return PyBool_FromLong(false);
    return PyObject_SetAttrString(args[0], "_settings_change", Py_True) < 0 ? ended(loop->trace, NULL) : PyBool_FromLong(true);
}

/* Tensor.backward(...): as narthex.autograd has it in Python. */
PyObject *nxpy__special_tensor_backward(ARGS) {
    nxpy__doing.paused++;
    PyObject *module = PyImport_ImportModule("narthex.autograd"), *own = module ? PyObject_GetAttrString(module, "_tensor_backward") : NULL;
    nxpy__doing.paused--;
    Py_XDECREF(module);
    PyObject *result = own && nxpy__fixed(loop->trace, own) == 0 ? nxpy__call(loop, own, args, n, kw_names) : NULL;
    Py_XDECREF(own); /* the module has it */
    return result || loop->trace->stop ? result : ended(loop->trace, NULL);
}

/* autograd_run(roots, gradients, retain, create, inputs): of tensors that are asked for, into no leaf. */
PyObject *nxpy__special_autograd_run(ARGS) {
    nxpy_trace *trace = loop->trace;
    PyObject *inputs = n == 5 ? nxpy__use(trace, args[4]) : NULL, *given[5] = {NULL}, *result = NULL;
    if (!inputs || inputs == Py_None || trace->region) {
        nxpy__stop(trace, NXPY_BREAK_METHOD, "a backward into leaves");
        return NULL;
    }
    if (nxpy__want_backward(trace, "autograd.grad") < 0) return NULL;
    static const int tensors[] = {0, 1, 4};
    bool whole = true;
    for (int k = 0; whole && k < 3; k++) whole = (given[tensors[k]] = use_tensors(trace, args[tensors[k]])) != NULL;
    given[2] = args[2];
    given[3] = args[3];
    if (whole) result = nxpy__run_recorded(trace, function, given, 5);
    for (int k = 0; k < 3; k++) Py_XDECREF(given[tensors[k]]);
    return ended(trace, result);
}

/* _batch_enter(size, randomness): a map over slices begins, whose level the thread has until the trace ends. No graph ends
 * inside of it, and sizes are numbers there. */
PyObject *nxpy__special_batch_enter(ARGS) {
    nxpy_trace *trace = loop->trace;
    PyObject *given[2] = {NULL};
    if (trace->region) return refuse_map(trace, "in the backward of an autograd.Function");
    if (nxpy__want_flat(trace, "vmap") < 0) return NULL;
    for (int k = 0; k < n && k < 2; k++) {
        if (!(given[k] = nxpy__use(trace, args[k]))) return NULL;
    }
    if (nx_thread_get()->n_levels == 0) trace->map_at = trace->root_loop->in.start;
    return ended(trace, PyObject_Vectorcall(function, given, (size_t)n, NULL));
}

int nxpy__set_requires_grad(nxpy_trace *trace, PyObject *tensor, bool wanted) {
    nx_tensor *own = nx_tensor_whole(nxpy_tensor_get(tensor));
    const nxpy_note *note = nxpy__note_find(trace, tensor);
    if (nx_tensor_requires_grad(own) == wanted) return 1;
    bool made = note && note->kind == NXPY_NOTE_FAKE && !trace->region;
    bool may = made && (wanted ? !note->is_input && nx_is_differentiable((nx_dtype)own->a.dtype) && !own->base : note->leaf != 0);
    if (!may) return nxpy__stop(trace, NXPY_BREAK_METHOD, "requires_grad_, which makes a leaf");
    if (!wanted && trace->n_leaf_calls && nxpy__want_flat(trace, "requires_grad_") < 0) return -1;
    nx_status status = nx_tensor_set_requires_grad(own, wanted); /* what was computed keeps its history */
    if (status != NX_OK) {
        nxpy_raise(status);
        return nxpy__stop_error(trace);
    }
    return wanted && nxpy__note_leaf(trace, tensor) < 0 ? -1 : 1;
}

/* x.requires_grad_(wanted=True) */
PyObject *nxpy__special_requires_grad(ARGS) {
    nxpy_trace *trace = loop->trace;
    PyObject *tensor = nxpy__use(trace, args[0]), *wanted = !tensor ? NULL : n == 1 ? Py_True : nxpy__use(trace, args[1]);
    if (!tensor || !wanted) return NULL;
    bool named = kw_names && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw_names, 0), "requires_grad") != 0;
    if (!PyBool_Check(wanted) || !nxpy_tensor_check(tensor) || n > 2 || named) return nxpy__stopped(loop, function);
    return nxpy__set_requires_grad(trace, tensor, wanted == Py_True) < 0 ? NULL : Py_NewRef(tensor);
}

/* x._hooks_of(accumulated): the dict of hooks that the trace puts at what stands for a tensor. */
PyObject *nxpy__special_hooks_of(ARGS) {
    if (!nxpy__use_all(loop, function, args, n, kw_names, 2, 2)) return NULL;
    if (!nxpy__may_hook(loop->trace, args[0])) return nxpy__stopped(loop, function);
    PyObject *made = PyObject_CallFunctionObjArgs(function, args[0], args[1], NULL);
    if (made && nxpy__note_hooks(loop->trace, args[0], made) < 0) Py_CLEAR(made);
    return ended(loop->trace, made);
}

/* x.retain_grad(), where the trace makes x. */
PyObject *nxpy__special_retain_grad(ARGS) {
    if (!nxpy__use_all(loop, function, args, n, kw_names, 1, 1)) return NULL;
    if (!nxpy__may_hook(loop->trace, args[0]) || !nxpy__is_made(args[0])) return nxpy__stopped(loop, function);
    PyObject *done = PyObject_CallOneArg(function, args[0]);
    if (done && nxpy__note_hooks(loop->trace, args[0], NULL) < 0) Py_CLEAR(done);
    return ended(loop->trace, done);
}

/* recompute_begin(): the number of the checkpoint that what was recorded so far is in. What follows is in one of its own. */
PyObject *nxpy__special_recompute_begin(ARGS) {
    nx_thread *thread = nx_thread_get();
    int before = thread->source.recompute;
    thread->source.recompute = ++loop->trace->n_checkpoints;
    return PyLong_FromLong(before);
}

/* recompute_end(before) */
PyObject *nxpy__special_recompute_end(ARGS) {
    PyObject *before = nxpy__use(loop->trace, args[0]);
    if (before) nx_thread_get()->source.recompute = (int)PyLong_AsLong(before);
    return Py_XNewRef(before ? Py_None : NULL);
}

/* enter_call(what): its number. */
PyObject *nxpy__special_enter_call(ARGS) {
    nxpy_captured *owner = loop->trace->owner;
    nx_source *source = &nx_thread_get()->source;
    PyObject *what = nxpy__use(loop->trace, args[0]), *row = what ? Py_BuildValue("(Oi)", what, source->scope) : NULL;
    if (row && !owner->calls) owner->calls = PyList_New(0);
    bool whole = row && owner->calls && PyList_Append(owner->calls, row) == 0;
    Py_XDECREF(row);
    if (!whole) return ended(loop->trace, NULL);
    return PyLong_FromLong(source->scope = (int)PyList_GET_SIZE(owner->calls));
}

/* leave_call(number) */
PyObject *nxpy__special_leave_call(ARGS) {
    PyObject *number = nxpy__use(loop->trace, args[0]), *calls = loop->trace->owner->calls;
    long last = number ? PyLong_AsLong(number) : -1;
    PyObject *row = calls && last > 0 && last <= PyList_GET_SIZE(calls) ? PyList_GET_ITEM(calls, last - 1) : NULL;
    if (row) nx_thread_get()->source.scope = (int)PyLong_AsLong(PyTuple_GET_ITEM(row, 1));
    return row ? Py_NewRef(Py_None) : ended(loop->trace, NULL);
}

/* function_open(ctx, results): the gradients of the results. */
PyObject *nxpy__special_function_open(ARGS) {
    nxpy_trace *trace = loop->trace;
    PyObject *context = nxpy__use(trace, args[0]), *results = context ? use_tensors(trace, args[1]) : NULL;
    PyObject *gradients = results ? nxpy__region_open(trace, context, results) : NULL;
    Py_XDECREF(results);
    return ended(trace, gradients);
}

/* function_close(name, once, inputs, results, saved, gradients): the results with a history. */
PyObject *nxpy__special_function_close(ARGS) {
    nxpy_trace *trace = loop->trace;
    PyObject *tuples[4] = {NULL}, *name = nxpy__use(trace, args[0]), *made = NULL;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    bool whole = text != NULL;
    for (int k = 0; whole && k < NX_COUNT(tuples); k++) whole = (tuples[k] = use_tensors(trace, args[2 + k])) != NULL;
    if (whole) made = nxpy__region_close(trace, &(nxpy_region_call){text, args[1] == Py_True, tuples[0], tuples[1], tuples[2], tuples[3]});
    for (int k = 0; k < NX_COUNT(tuples); k++) Py_XDECREF(tuples[k]);
    return ended(trace, made);
}

/* function_refuse(why) */
PyObject *nxpy__special_function_refuse(ARGS) {
    PyObject *why = nxpy__use(loop->trace, args[0]);
    if (why) nxpy__stop(loop->trace, NXPY_BREAK_BACKWARD, "%U", why);
    loop->trace->clean = false;
    return NULL;
}

/* ---- branches and loops (python/narthex/_higher_order_ops/control.py) ---------------------------------------------------- */
/* parts_follow(): whether they are traced into graphs of their own here. */
PyObject *nxpy__special_parts_follow(ARGS) {
    nxpy_trace *trace = loop->trace;
    int not = nxpy__was_asked_for(trace, NXPY_ASK_NO_BRANCHES);
    bool may_end = loop == trace->root_loop && !trace->owner->fullgraph;
    return not < 0 ? ended(trace, NULL) : PyBool_FromLong(!not && !may_end);
}

/* part_open(given): fakes like these, which what is recorded from here on is given. */
PyObject *nxpy__special_part_open(ARGS) {
    PyObject *given = use_tensors(loop->trace, args[0]), *fakes = given ? nxpy__part_open(loop->trace, given) : NULL;
    Py_XDECREF(given);
    return ended(loop->trace, fakes);
}

/* part_close(results) */
PyObject *nxpy__special_part_close(ARGS) {
    PyObject *results = use_tensors(loop->trace, args[0]);
    int done = results ? nxpy__part_close(loop->trace, results) : -1;
    Py_XDECREF(results);
    return ended(loop->trace, done < 0 ? NULL : Py_NewRef(Py_None));
}

/* parts_join(first): the results of the call. */
PyObject *nxpy__special_parts_join(ARGS) {
    PyObject *first = nxpy__use(loop->trace, args[0]);
    first = first && PyTuple_Check(first) ? use_tensors(loop->trace, first) : Py_XNewRef(first);
    PyObject *made = first ? nxpy__parts_join(loop->trace, first) : NULL;
    Py_XDECREF(first);
    return ended(loop->trace, made);
}
