/* Recipes: how to make again, at every call, the values that outlive a trace.
 *
 * In: a value of the trace. Out: steps for a small stack machine; running them gives new references.
 * What must hold: what was born in the trace never leaves it; an object that existed before comes from the slot that the
 * guards fetched, an input's fake becomes that input itself; one object made twice in a recipe is made once and
 * remembered, so that identity is kept.
 * Next: segment.c, which runs them. */
#include "notes/notes.h"

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

#define ADD_ARGS nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *value, int depth
typedef int add_fn(ADD_ARGS);
static add_fn add_value;

/* ---- kinds ---------------------------------------------------------------------------------------------------------- */
/* The value that leaves the graph has no history: nothing of the forward is kept for it. One result for each value. */
static nx_status detach(nxpy_trace *trace, nxpy_results *results, nx_value *value) {
    nx_node *made = results->detached; /* the first of those made here, which stand last */
    const nx_op *op = nx_known(NX_KNOWN_DETACH);
    while (made && (made->op != op || !nx_value_equal(&made->args[0], value))) made = made->next;
    if (!made) NX_TRY(nx_graph_call_named(trace->graph, op, value, NULL, &made));
    if (!results->detached) results->detached = made;
    *value = nx_value_node(made, 0);
    return NX_OK;
}

static int add_result(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *fake) {
    nx_value node;
    int lives = nxpy__may_live_on(trace, nxpy_tensor_get(fake));
    if (lives < 1) return lives;
    if (lives == 3) {
        results->asks = true; /* nothing is made of this try */
        return add_step(recipe, NXPY_MAKE_NULL, 0, NULL);
    }
    if (nxpy_tensor_get(fake)->whole) {
        trace->unmakeable_at = nxpy__note_find(trace, fake)->born_at;
        trace->unmakeable = "a slice that outlives its map";
        return 0;
    }
    if (!nx_tracer_find(&trace->tracer, nxpy_tensor_get(fake), &node)) return 0;
    if (lives == 2 && detach(trace, results, &node) != NX_OK) return nxpy_raise(NX_NO_MEMORY), -1;
    int k = 0;
    while (k < results->nodes.n && (results->nodes.at[k].node != node.node || results->nodes.at[k].n != node.n)) k++;
    if (k == results->nodes.n && nx_vec_push(&results->nodes, node) != NX_OK) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    int done = add_step(recipe, NXPY_MAKE_RESULT, k, NULL);
    if (done == 1 && lives == 2) done = add_step(recipe, NXPY_MAKE_OVER, 0, NULL);
    bool parameter = nxpy_tensor_get(fake)->is_parameter, usual = Py_TYPE(fake) == nxpy_tensor_class && !parameter;
    return done != 1 || usual ? done : add_step(recipe, NXPY_MAKE_CLASS, parameter, (PyObject *)Py_TYPE(fake));
}

static int add_dict(ADD_ARGS) {
    PyObject *key, *part;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &part);) {
        int done = add_value(trace, recipe, results, key, depth + 1);
        if (done == 1) done = add_value(trace, recipe, results, part, depth + 1);
        if (done != 1) return done;
    }
    return add_step(recipe, NXPY_MAKE_DICT, (int)PyDict_GET_SIZE(value), NULL);
}

/* An iterator says through __reduce__ how it is made: (callable, arguments[, state]). */
static int add_iterator(ADD_ARGS) {
    if (PyGen_CheckExact(value)) return 0;
    PyObject *reduced = PyObject_CallMethod(value, "__reduce__", NULL);
    if (!reduced) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
        PyErr_Clear(); /* itertools.tee and such have none */
        return 0;
    }
    PyObject *args = PyTuple_GET_ITEM(reduced, 1), *state = PyTuple_GET_SIZE(reduced) > 2 ? PyTuple_GET_ITEM(reduced, 2) : Py_None;
    int done = PyTuple_Check(args) ? 1 : 0;
    for (Py_ssize_t k = 0; done == 1 && k < PyTuple_GET_SIZE(args); k++) {
        done = add_value(trace, recipe, results, PyTuple_GET_ITEM(args, k), depth + 1);
    }
    if (done == 1) done = add_step(recipe, NXPY_MAKE_CALL, (int)PyTuple_GET_SIZE(args), PyTuple_GET_ITEM(reduced, 0));
    if (done == 1 && state != Py_None) done = nxpy_constant_check(state) ? add_step(recipe, NXPY_MAKE_STATE, 0, state) : 0;
    Py_DECREF(reduced);
    return done;
}

static int keep(nxpy_recipe *recipe, nxpy_results *results, int number) {
    if (nx_vec_push(&results->kept, number) != NX_OK) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    return add_step(recipe, NXPY_MAKE_KEEP, recipe->n_kept++, NULL);
}

/* The class of C below a class of Python. */
static PyTypeObject *base_of(PyTypeObject *type) {
    while (nxpy__may_change(type)) type = type->tp_base;
    return type;
}

/* Bytes of an instance that has no slots of its own. */
static Py_ssize_t room_of(PyTypeObject *type, const PyTypeObject *base) {
    if (base == &PyBaseObject_Type) return nxpy_instance_size(type);
    Py_ssize_t more = (type->tp_weaklistoffset && !base->tp_weaklistoffset) + (type->tp_dictoffset > 0 && !base->tp_dictoffset);
    return base->tp_basicsize + more * (Py_ssize_t)sizeof(PyObject *);
}

/* An instance that the traced code made: its class without any constructor, then its attributes. It may hold itself. */
static int add_instance(ADD_ARGS) {
    PyTypeObject *type = Py_TYPE(value), *base = base_of(type);
    if (type->tp_new == NULL || type->tp_itemsize || type->tp_basicsize > room_of(type, base)) return 0;
    PyObject *dict = PyObject_GenericGetDict(value, NULL), *key, *part;
    if (!dict) return PyErr_Clear(), 0;
    int number = (int)(nxpy__note_find(trace, value) - trace->notes.at);
    int done = add_step(recipe, NXPY_MAKE_INSTANCE, 0, (PyObject *)type);
    if (done == 1) done = keep(recipe, results, number);
    for (Py_ssize_t at = 0; done == 1 && PyDict_Next(dict, &at, &key, &part);) {
        PyObject *found = PyUnicode_Check(key) ? nxpy_type_lookup(type, key) : NULL;
        bool by_hand = !PyUnicode_Check(key) || (found && Py_TYPE(found)->tp_descr_set); /* a store would not put it there */
        if (by_hand) done = 0;
        if (done == 1) done = add_value(trace, recipe, results, part, depth + 1);
        if (done == 1) done = add_step(recipe, NXPY_MAKE_ATTRIBUTE, 0, key);
    }
    Py_DECREF(dict);
    return done;
}

/* What it holds goes into the new instance. */
static int add_dictlike(ADD_ARGS) {
    int done = add_instance(trace, recipe, results, value, depth);
    PyObject *items = done == 1 ? PyObject_CallMethod(value, "items", NULL) : NULL, *pairs = items ? PySequence_List(items) : NULL;
    if (done == 1 && !pairs) done = -1;
    for (Py_ssize_t k = 0; done == 1 && k < PyList_GET_SIZE(pairs); k++) {
        PyObject *pair = PyList_GET_ITEM(pairs, k);
        for (int j = 0; done == 1 && j < 2; j++) done = add_value(trace, recipe, results, PyTuple_GET_ITEM(pair, j), depth + 1);
        if (done == 1) done = add_step(recipe, NXPY_MAKE_ENTRY, 2, NULL);
    }
    Py_XDECREF(items);
    Py_XDECREF(pairs);
    return done;
}

static int add_listlike(ADD_ARGS) {
    int done = add_instance(trace, recipe, results, value, depth);
    for (Py_ssize_t k = 0; done == 1 && k < PyList_GET_SIZE(value); k++) {
        done = add_value(trace, recipe, results, PyList_GET_ITEM(value, k), depth + 1);
        if (done == 1) done = add_step(recipe, NXPY_MAKE_ENTRY, 1, NULL);
    }
    return done;
}

/* The attributes that the trace gave to an object, behind it. */
static int add_attributes(ADD_ARGS) {
    PyObject *attributes = nxpy_instance_dict(value), *name, *part;
    int done = 1;
    for (Py_ssize_t at = 0; attributes && done == 1 && PyDict_Next(attributes, &at, &name, &part);) {
        done = add_value(trace, recipe, results, part, depth + 1);
        if (done == 1) done = add_step(recipe, NXPY_MAKE_ATTRIBUTE, 0, name);
    }
    return done;
}

static int add_partial(ADD_ARGS) {
    PyObject *parts[3] = {PyObject_GetAttrString(value, "func"), PyObject_GetAttrString(value, "args"),
                          PyObject_GetAttrString(value, "keywords")};
    int done = parts[0] && parts[1] && parts[2] ? PyDict_GET_SIZE(parts[2]) == 0 : -1;
    if (done == 1) done = add_value(trace, recipe, results, parts[0], depth + 1);
    Py_ssize_t n = done == 1 ? PyTuple_GET_SIZE(parts[1]) : 0;
    for (Py_ssize_t k = 0; done == 1 && k < n; k++) done = add_value(trace, recipe, results, PyTuple_GET_ITEM(parts[1], k), depth + 1);
    if (done == 1) done = add_step(recipe, NXPY_MAKE_CALL, (int)n + 1, (PyObject *)Py_TYPE(value));
    if (done == 1) done = add_attributes(trace, recipe, results, value, depth);
    for (int k = 0; k < 3; k++) Py_XDECREF(parts[k]);
    return done;
}

/* A function made by the traced code. Annotations and attributes of its own are not made again. */
static int add_function(ADD_ARGS) {
    const PyFunctionObject *function = (PyFunctionObject *)value;
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
static int add_number(ADD_ARGS) {
    nx_node *node = nxpy_symint_node(value, &trace->tracer);
    if (!node) return nxpy__stop(trace, NXPY_BREAK_LEAK, "a size of another trace");
    if (nx_vec_push(&trace->segment->sizes, node) != NX_OK) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    return add_step(recipe, NXPY_MAKE_INT, trace->segment->sizes.n - 1, NULL);
}

/* Its bounds may be sizes. */
static int add_slice(ADD_ARGS) {
    const PySliceObject *slice = (PySliceObject *)value;
    PyObject *const parts[] = {slice->start, slice->stop, slice->step};
    for (int k = 0; k < 3; k++) {
        int done = add_value(trace, recipe, results, parts[k], depth + 1);
        if (done != 1) return done;
    }
    return add_step(recipe, NXPY_MAKE_CALL, 3, (PyObject *)&PySlice_Type);
}

static int add_elements(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *sequence, Py_ssize_t from, int depth) {
    Py_ssize_t n = Py_SIZE(sequence);
    for (Py_ssize_t k = from; k < n; k++) {
        int done = add_value(trace, recipe, results, PySequence_Fast_GET_ITEM(sequence, k), depth + 1);
        if (done != 1) return done;
    }
    bool size = Py_TYPE(sequence) == &nxpy_size_type;
    nxpy_make make = size ? NXPY_MAKE_SIZE : PyTuple_Check(sequence) ? NXPY_MAKE_TUPLE : NXPY_MAKE_LIST;
    return add_step(recipe, make, (int)(n - from), NULL);
}

static int add_sequence(ADD_ARGS) { return add_elements(trace, recipe, results, value, 0, depth); }

/* A tuple of a class of its own, which has no attributes. */
static int add_named(ADD_ARGS) {
    int done = add_sequence(trace, recipe, results, value, depth);
    if (done != 1) return done;
    return nxpy_instance_dict(value) ? 0 : add_step(recipe, NXPY_MAKE_NAMED, 0, (PyObject *)Py_TYPE(value));
}

static int add_set(ADD_ARGS) {
    PyObject *key;
    for (Py_ssize_t at = 0; nxpy_set_next(value, &at, &key);) {
        int done = add_value(trace, recipe, results, key, depth + 1);
        if (done != 1) return done;
    }
    return add_step(recipe, NXPY_MAKE_SET, (int)PySet_GET_SIZE(value), NULL);
}

/* OrderedDict(pairs), in its own order, and its attributes. */
static int add_ordered(ADD_ARGS) {
    PyObject *items = PyObject_CallMethod(value, "items", NULL), *pairs = items ? PySequence_List(items) : NULL;
    int done = pairs ? add_sequence(trace, recipe, results, pairs, depth) : -1;
    if (done == 1) done = add_step(recipe, NXPY_MAKE_CALL, 1, (PyObject *)Py_TYPE(value));
    if (done == 1) done = add_attributes(trace, recipe, results, value, depth);
    Py_XDECREF(items);
    Py_XDECREF(pairs);
    return done;
}

/* A copy of what the trace has, unless it shows the memory of another one. */
static int add_array(ADD_ARGS) {
    PyObject *base = PyObject_GetAttrString(value, "base"), *copy = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "copy");
    int done = !base || !copy ? -1 : base == Py_None ? add_step(recipe, NXPY_MAKE_CONST, 0, value) : 0;
    if (done == 1) done = add_step(recipe, NXPY_MAKE_CALL, 1, copy);
    Py_XDECREF(base);
    Py_XDECREF(copy);
    return done;
}

/* defaultdict(factory, pairs). */
static int add_defaults(ADD_ARGS) {
    PyObject *factory = PyObject_GetAttrString(value, "default_factory");
    int done = factory ? add_value(trace, recipe, results, factory, depth + 1) : -1;
    if (done == 1) done = add_dict(trace, recipe, results, value, depth);
    if (done == 1) done = add_step(recipe, NXPY_MAKE_CALL, 2, (PyObject *)Py_TYPE(value));
    Py_XDECREF(factory);
    return done;
}

/* deque(list, maxlen). */
static int add_deque(ADD_ARGS) {
    PyObject *parts = PySequence_List(value), *most = PyObject_GetAttrString(value, "maxlen");
    int done = parts && most ? add_sequence(trace, recipe, results, parts, depth) : -1;
    if (done == 1) done = add_step(recipe, NXPY_MAKE_CONST, 0, most);
    if (done == 1) done = add_step(recipe, NXPY_MAKE_CALL, 2, (PyObject *)Py_TYPE(value));
    Py_XDECREF(parts);
    Py_XDECREF(most);
    return done;
}

static int add_method(ADD_ARGS) {
    int done = add_value(trace, recipe, results, PyMethod_GET_FUNCTION(value), depth + 1);
    if (done == 1) done = add_value(trace, recipe, results, PyMethod_GET_SELF(value), depth + 1);
    return done == 1 ? add_step(recipe, NXPY_MAKE_METHOD, 0, NULL) : done;
}

static int add_cell(ADD_ARGS) {
    int done = add_value(trace, recipe, results, PyCell_GET(value), depth + 1); /* an empty cell: NULL */
    return done == 1 ? add_step(recipe, NXPY_MAKE_CELL, 0, NULL) : done;
}

static int add_constant(ADD_ARGS) { return add_step(recipe, NXPY_MAKE_CONST, 0, value); }
static int add_nothing(ADD_ARGS) { return 0; }

static add_fn *const by_kind[] = {
#define NXPY_KIND_ROW(code, guard, holds, walked, operators, compared, shown, made, again) [NXPY_KIND_##code] = add_##again,
#include "notes/kinds.def"
#undef NXPY_KIND_ROW
};

/* The __dict__ of an object that was born here: the object is made, and asked for it. */
static int add_own_dict(ADD_ARGS) {
    for (int k = 0; k < trace->notes.n; k++) {
        PyObject *owner = trace->notes.at[k].object;
        if (trace->notes.at[k].kind != NXPY_NOTE_BORN || owner == value || nxpy_instance_dict(owner) != value) continue;
        PyObject *name = nxpy__name("__dict__"), *found = name ? nxpy_type_lookup(Py_TYPE(owner), name) : NULL;
        PyObject *ask = found ? PyObject_GetAttrString(found, "__get__") : NULL;
        int done = name && ask ? add_value(trace, recipe, results, owner, depth + 1) : -1;
        if (done == 1) done = add_step(recipe, NXPY_MAKE_CALL, 1, ask);
        Py_XDECREF(ask);
        return done;
    }
    return 0;
}

/* No mark helps: it is not known where it was made, or too deep in others. */
static int nothing_says(nxpy_trace *trace, PyObject *value) {
    if (!trace->unmakeable) trace->unmakeable = Py_TYPE(value)->tp_name;
    return 0;
}

static int add_value(ADD_ARGS) {
    if (!value) return add_step(recipe, NXPY_MAKE_NULL, 0, NULL);
    if (depth > MAX_NESTED) return nothing_says(trace, value);
    const nxpy_note *note = nxpy__note_find(trace, value);
    if (!note && nxpy_constant_check(value)) return add_step(recipe, NXPY_MAKE_CONST, 0, value);
    if (!note) { /* made by C code: an iterator inside another, the arguments that one is made of */
        bool inner = nxpy__is_iterator(value) || PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyRange_Check(value);
        return inner ? by_kind[nxpy__kind(value)->code](trace, recipe, results, value, depth) : nothing_says(trace, value);
    }
    if (note->kind == NXPY_NOTE_SOURCE || note->is_input) return add_step(recipe, NXPY_MAKE_SLOT, note->slot, NULL);
    if (note->kind == NXPY_NOTE_FIXED) return add_step(recipe, NXPY_MAKE_CONST, 0, value);
    if (note->kind == NXPY_NOTE_FAKE) return add_result(trace, recipe, results, value);
    int number = (int)(note - trace->notes.at);
    for (int k = 0; k < results->kept.n; k++) {
        if (results->kept.at[k] == number) return add_step(recipe, NXPY_MAKE_AGAIN, k, NULL);
    }
    int born_at = note->born_at;
    bool of_trace = nxpy__is_born(trace, (PyObject *)Py_TYPE(value)); /* its class is another one at each call */
    nxpy_kind_code kind = nxpy__kind(value)->code;
    int done = (of_trace ? add_nothing : note->is_own_dict ? add_own_dict : by_kind[kind])(trace, recipe, results, value, depth);
    if (done == 0 && trace->unmakeable_at < 0) {
        trace->unmakeable_at = born_at;
        trace->unmakeable = Py_TYPE(value)->tp_name;
    }
    bool kept = kind == NXPY_KIND_INSTANCE || kind == NXPY_KIND_DICTLIKE || kind == NXPY_KIND_LISTLIKE;
    return done != 1 || kept ? done : keep(recipe, results, number);
}

int nxpy__recipe_add_contents(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *container, Py_ssize_t from) {
    int done = PyList_Check(container)   ? add_elements(trace, recipe, results, container, from, 0)
               : PyDict_Check(container) ? add_dict(trace, recipe, results, container, 0)
                                         : add_set(trace, recipe, results, container, 0);
    if (done == 1) recipe->n_values++;
    return done;
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
static PyObject *make_set(PyObject **at, int n) {
    PyObject *set = PySet_New(NULL);
    for (int k = 0; set && k < n; k++) {
        if (PySet_Add(set, at[k]) < 0) Py_CLEAR(set);
    }
    return set;
}

static PyObject *make_instance(PyTypeObject *type) {
    PyObject *none = PyTuple_New(0), *made = none ? base_of(type)->tp_new(type, none, NULL) : NULL;
    Py_XDECREF(none);
    return made;
}

static PyObject *make_named(PyObject *type, PyObject *tuple) {
    PyObject *args = PyTuple_Pack(1, tuple), *made = args ? PyTuple_Type.tp_new((PyTypeObject *)type, args, NULL) : NULL;
    Py_XDECREF(args);
    return made;
}

/* A tensor that nobody but the run knows changes its class; of another one an alias has it. -1 with an exception. */
static int make_class(PyTypeObject *type, bool parameter, PyObject **value) {
    PyTypeObject *now = Py_TYPE(*value);
    if (now == type && nxpy_tensor_get(*value)->is_parameter == parameter) return 0;
    bool own = now == nxpy_tensor_class && type->tp_basicsize == now->tp_basicsize && Py_REFCNT(*value) == 2; /* here, the results */
    if (own) {
        Py_INCREF(type);
        Py_SET_TYPE(*value, type);
        Py_DECREF(now);
        nxpy_tensor_get(*value)->is_parameter = parameter;
        return 0;
    }
    PyObject *made = PyObject_CallMethod(*value, "as_subclass", "(O)", type);
    if (made) Py_SETREF(*value, made);
    if (made) nxpy_tensor_get(made)->is_parameter = parameter;
    return made ? 0 : -1;
}

/* Steps that change the value on top. -1 with an exception. */
static int run_change(const nxpy_step *step, PyObject ***top) {
    PyObject **at = *top, *done;
    int status;
    if (step->make == NXPY_MAKE_STATE) {
        done = PyObject_CallMethod(at[-1], "__setstate__", "(O)", step->object);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    if (step->make == NXPY_MAKE_ENTRY) {
        PyObject *holder = at[-1 - step->n];
        status = step->n == 1            ? PyList_Append(holder, at[-1])
                 : PyODict_Check(holder) ? PyODict_SetItem(holder, at[-2], at[-1])
                                         : PyDict_SetItem(holder, at[-2], at[-1]);
        for (int k = 0; k < step->n; k++) Py_DECREF(*--*top);
        return status;
    }
    status = PyObject_GenericSetAttr(at[-2], step->object, at[-1]);
    Py_DECREF(*--*top);
    return status;
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
static int run_step(const nxpy_step *step, PyObject **values, PyObject **results, const nx_value *numbers, PyObject **kept,
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
    case NXPY_MAKE_OVER: {
        nx_status status = nx_grad_stand_over(nxpy_tensor_get(at[-1]));
        return status == NX_OK ? 0 : (nxpy_raise(status), -1);
    }
    case NXPY_MAKE_CLASS: return make_class((PyTypeObject *)step->object, step->n, &at[-1]);
    case NXPY_MAKE_STATE:
    case NXPY_MAKE_ENTRY:
    case NXPY_MAKE_ATTRIBUTE: return run_change(step, top);
    case NXPY_MAKE_INSTANCE: made = make_instance((PyTypeObject *)step->object); break;
    case NXPY_MAKE_NAMED: used = 1; made = make_named(step->object, at[-1]); break;
    case NXPY_MAKE_CALL: used = step->n; made = PyObject_Vectorcall(step->object, at - used, (size_t)used, NULL); break;
    case NXPY_MAKE_SET: used = step->n; made = make_set(at - used, used); break;
    case NXPY_MAKE_DICT: used = 2 * step->n; made = make_dict(at - used, step->n); break;
    case NXPY_MAKE_INT: {
        const nx_value *number = &numbers[step->n];
        made = number->tag == NX_TAG_FLOAT ? PyFloat_FromDouble(number->f) : PyLong_FromLongLong(number->i);
        break;
    }
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

int nxpy__recipe_run(const nxpy_recipe *recipe, PyObject **values, PyObject **results, const nx_value *numbers, PyObject **out) {
    int n = recipe->steps.n;
    PyObject *local[64], **stack = local, **top;
    if (2 * n > NX_COUNT(local) && !(stack = nx_alloc(sizeof *stack * 2 * (size_t)n))) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    PyObject **kept = stack + n;
    int done = 0;
    top = stack;
    for (int k = 0; done == 0 && k < n; k++) done = run_step(&recipe->steps.at[k], values, results, numbers, kept, &top);
    if (done == 0) memcpy(out, stack, sizeof *out * (size_t)recipe->n_values);
    else while (top > stack) Py_XDECREF(*--top);
    if (stack != local) nx_free(stack);
    return done;
}
