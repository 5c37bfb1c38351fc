/* Recipes: how to make again, at every call, the values that outlive a trace.
 *
 * In: a value of the trace. Out: steps for a small stack machine; running them gives new references.
 * What must hold: what was born in the trace never leaves it; an object that existed before comes from the slot that the
 * guards fetched, an input's fake becomes that input itself; one object made twice in a recipe is made once and
 * remembered, so that identity is kept.
 * Next: segment.c, which runs them. */
#include "capture/capture.h"

enum { MAX_NESTED = 50 };

static int add_step(nxpy_recipe *recipe, nxpy_make make, int n, PyObject *object) {
    nxpy_step step = {.make = (uint8_t)make, .n = n, .object = object};
    if (nx_vec_push(&recipe->steps, step) != NX_OK) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    Py_XINCREF(object);
    return 1;
}

static int add_value(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *value, int depth);

/* ---- kinds ---------------------------------------------------------------------------------------------------------- */
static int add_result(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *fake) {
    nx_value node;
    if (!nx_tracer_find(&trace->tracer, nxpy_tensor_get(fake), &node)) return 0;
    for (int k = 0; k < results->nodes.n; k++) {
        if (results->nodes.at[k].node == node.node && results->nodes.at[k].n == node.n) return add_step(recipe, NXPY_MAKE_RESULT, k, NULL);
    }
    if (nx_vec_push(&results->nodes, node) != NX_OK) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    return add_step(recipe, NXPY_MAKE_RESULT, results->nodes.n - 1, NULL);
}

static int add_dict(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *dict, int depth) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        int done = add_value(trace, recipe, results, key, depth + 1);
        if (done == 1) done = add_value(trace, recipe, results, value, depth + 1);
        if (done != 1) return done;
    }
    return add_step(recipe, NXPY_MAKE_DICT, (int)PyDict_GET_SIZE(dict), NULL);
}

/* An iterator says through __reduce__ which sequence it walks and where it is: (iter, (sequence,), index). */
static int add_iterator(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *iterator, int depth) {
    PyObject *reduced = PyObject_CallMethod(iterator, "__reduce__", NULL);
    if (!reduced) return -1;
    PyObject *args = PyTuple_GET_SIZE(reduced) == 3 ? PyTuple_GET_ITEM(reduced, 1) : NULL;
    PyObject *index = args ? PyTuple_GET_ITEM(reduced, 2) : NULL;
    int done = 0;
    if (args && PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 1 && PyLong_Check(index)) {
        PyObject *sequence = PyTuple_GET_ITEM(args, 0);
        if (PyRange_Check(sequence)) done = add_step(recipe, NXPY_MAKE_CONST, 0, sequence);
        else done = add_value(trace, recipe, results, sequence, depth + 1);
        if (done == 1) done = add_step(recipe, NXPY_MAKE_ITERATOR, (int)PyLong_AsLong(index), NULL);
    }
    Py_DECREF(reduced);
    return done;
}

/* A function made by the traced code. Annotations and attributes of its own are not made again. */
static int add_function(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyFunctionObject *function, int depth) {
    PyObject *const parts[] = {function->func_closure, function->func_kwdefaults, function->func_defaults};
    if (function->func_annotations || function->func_dict) return 0;
    for (int k = 0; k < NX_COUNT(parts); k++) {
        int done = add_value(trace, recipe, results, parts[k], depth + 1);
        if (done != 1) return done;
    }
    PyObject *fixed = PyTuple_Pack(2, function->func_code, function->func_globals);
    int done = fixed ? add_step(recipe, NXPY_MAKE_FUNCTION, 0, fixed) : -1;
    Py_XDECREF(fixed);
    return done;
}

/* A size that the trace left open: the fit knows it. */
static int add_size(nxpy_trace *trace, nxpy_recipe *recipe, PyObject *size) {
    nx_node *node = nxpy_symint_node(size, &trace->tracer);
    if (!node) return add_step(recipe, NXPY_MAKE_CONST, 0, PyLong_FromLongLong(((nxpy_symint *)size)->now));
    if (nx_vec_push(&trace->segment->sizes, node) != NX_OK) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    return add_step(recipe, NXPY_MAKE_INT, trace->segment->sizes.n - 1, NULL);
}

static int add_parts(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *value, int depth) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == &nxpy_symint_type) return add_size(trace, recipe, value);
    if (nxpy__is_tuple(value) || type == &PyList_Type) {
        Py_ssize_t n = Py_SIZE(value);
        for (Py_ssize_t k = 0; k < n; k++) {
            int done = add_value(trace, recipe, results, PySequence_Fast_GET_ITEM(value, k), depth + 1);
            if (done != 1) return done;
        }
        nxpy_make make = type == &PyTuple_Type ? NXPY_MAKE_TUPLE : type == &PyList_Type ? NXPY_MAKE_LIST : NXPY_MAKE_SIZE;
        return add_step(recipe, make, (int)n, NULL);
    }
    if (type == &PyDict_Type) return add_dict(trace, recipe, results, value, depth);
    if (type == &PyMethod_Type) {
        int done = add_value(trace, recipe, results, PyMethod_GET_FUNCTION(value), depth + 1);
        if (done == 1) done = add_value(trace, recipe, results, PyMethod_GET_SELF(value), depth + 1);
        return done == 1 ? add_step(recipe, NXPY_MAKE_METHOD, 0, NULL) : done;
    }
    if (type == &PyFunction_Type) return add_function(trace, recipe, results, (PyFunctionObject *)value, depth);
    if (type == &PyCell_Type) {
        int done = add_value(trace, recipe, results, PyCell_GET(value), depth + 1); /* an empty cell: NULL */
        return done == 1 ? add_step(recipe, NXPY_MAKE_CELL, 0, NULL) : done;
    }
    if (type == &PyRangeIter_Type || type == &PyListIter_Type || type == &PyTupleIter_Type) {
        return add_iterator(trace, recipe, results, value, depth);
    }
    if (type == &PyRange_Type || type == &PySlice_Type) return add_step(recipe, NXPY_MAKE_CONST, 0, value); /* of constants, immutable */
    return 0;
}

static int add_value(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *value, int depth) {
    if (!value) return add_step(recipe, NXPY_MAKE_NULL, 0, NULL);
    if (depth > MAX_NESTED) return 0;
    const nxpy_note *note = nxpy__note_find(trace, value);
    if (!note) return nxpy_constant_check(value) ? add_step(recipe, NXPY_MAKE_CONST, 0, value) : 0;
    if (note->kind == NXPY_NOTE_SOURCE || note->is_input) return add_step(recipe, NXPY_MAKE_SLOT, note->slot, NULL);
    if (note->kind == NXPY_NOTE_FIXED) return add_step(recipe, NXPY_MAKE_CONST, 0, value);
    if (note->kind == NXPY_NOTE_FAKE) return add_result(trace, recipe, results, value);
    int number = (int)(note - trace->notes.at);
    for (int k = 0; k < results->kept.n; k++) {
        if (results->kept.at[k] == number) return add_step(recipe, NXPY_MAKE_AGAIN, k, NULL);
    }
    int done = add_parts(trace, recipe, results, value, depth);
    if (done != 1) return done;
    if (nx_vec_push(&results->kept, number) != NX_OK) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    return add_step(recipe, NXPY_MAKE_KEEP, recipe->n_kept++, NULL);
}

int nxpy__recipe_add(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *value) {
    int done = add_value(trace, recipe, results, value, 0);
    if (done == 1) recipe->n_values++;
    return done;
}

void nxpy__recipe_free(nxpy_recipe *recipe) {
    for (int k = 0; k < recipe->steps.n; k++) Py_XDECREF(recipe->steps.at[k].object);
    nx_vec_free(&recipe->steps);
    recipe->n_kept = recipe->n_values = 0;
}

/* ---- running ------------------------------------------------------------------------------------------------------------ */
static PyObject *iterator_at(PyObject *sequence, int index) {
    PyObject *iterator = PyObject_GetIter(sequence);
    PyObject *done = iterator ? PyObject_CallMethod(iterator, "__setstate__", "i", index) : NULL;
    if (!done) Py_CLEAR(iterator);
    Py_XDECREF(done);
    return iterator;
}

static PyObject *make_dict(PyObject **at, int n) {
    PyObject *dict = PyDict_New();
    for (int k = 0; dict && k < n; k++) {
        if (PyDict_SetItem(dict, at[2 * k], at[2 * k + 1]) < 0) Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *make_function(PyObject *fixed, PyObject **parts) {
    PyFunctionObject *function = (PyFunctionObject *)PyFunction_New(PyTuple_GET_ITEM(fixed, 0), PyTuple_GET_ITEM(fixed, 1));
    if (!function) return NULL;
    function->func_closure = Py_XNewRef(parts[0]);
    function->func_kwdefaults = Py_XNewRef(parts[1]);
    function->func_defaults = Py_XNewRef(parts[2]);
    return (PyObject *)function;
}

/* One step on the stack at *top. -1 with an exception. */
static int run_step(const nxpy_step *step, PyObject **values, PyObject **results, const int64_t *ints, PyObject **kept,
                    PyObject ***top) {
    PyObject *made = NULL, **at = *top;
    int used = 0;
    switch ((nxpy_make)step->make) {
    case NXPY_MAKE_RESULT: made = Py_NewRef(results[step->n]); break;
    case NXPY_MAKE_SLOT: made = Py_XNewRef(values[step->n]); break;
    case NXPY_MAKE_CONST: made = Py_NewRef(step->object); break;
    case NXPY_MAKE_AGAIN: made = Py_NewRef(kept[step->n]); break;
    case NXPY_MAKE_KEEP: kept[step->n] = at[-1]; return 0; /* lives in what is being made */
    case NXPY_MAKE_NULL: *(*top)++ = NULL; return 0;
    case NXPY_MAKE_METHOD: used = 2; made = PyMethod_New(at[-2], at[-1]); break;
    case NXPY_MAKE_FUNCTION: used = 3; made = make_function(step->object, at - 3); break;
    case NXPY_MAKE_CELL: used = 1; made = PyCell_New(at[-1]); break;
    case NXPY_MAKE_ITERATOR: used = 1; made = iterator_at(at[-1], step->n); break;
    case NXPY_MAKE_DICT: used = 2 * step->n; made = make_dict(at - used, step->n); break;
    case NXPY_MAKE_INT: made = PyLong_FromLongLong(ints[step->n]); break;
    case NXPY_MAKE_TUPLE:
    case NXPY_MAKE_SIZE:
    case NXPY_MAKE_LIST:
        used = step->n;
        made = step->make == NXPY_MAKE_TUPLE ? PyTuple_New(used)
            : step->make == NXPY_MAKE_LIST   ? PyList_New(used)
                                             : nxpy_size_type.tp_alloc(&nxpy_size_type, used);
        for (int k = 0; made && k < used; k++) {
            PyObject *part = Py_NewRef(at[k - used]);
            if (step->make == NXPY_MAKE_LIST) PyList_SET_ITEM(made, k, part);
            else PyTuple_SET_ITEM(made, k, part);
        }
        break;
    }
    if (!made) return -1;
    for (int k = 0; k < used; k++) Py_XDECREF(*--*top);
    *(*top)++ = made;
    return 0;
}

int nxpy__recipe_run(const nxpy_recipe *recipe, PyObject **values, PyObject **results, const int64_t *ints, PyObject **out) {
    int n = recipe->steps.n;
    PyObject *local[64], **stack = local, **top;
    if (2 * n > NX_COUNT(local) && !(stack = nx_alloc(sizeof *stack * 2 * (size_t)n))) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    PyObject **kept = stack + n;
    int done = 0;
    top = stack;
    for (int k = 0; done == 0 && k < n; k++) done = run_step(&recipe->steps.at[k], values, results, ints, kept, &top);
    if (done == 0) memcpy(out, stack, sizeof *out * (size_t)recipe->n_values);
    else while (top > stack) Py_XDECREF(*--top);
    if (stack != local) nx_free(stack);
    return done;
}
