/* Recipes: how to make again, at every call, the values that outlive a trace.
 *
 * In: a value of the trace. Out: steps for a small stack machine; running them gives new references.
 * What must hold: what was born in the trace never leaves it; an object that existed before comes from the slot that the
 * guards fetched, an input's fake becomes that input itself; one object made twice in a recipe is made once and
 * remembered, so that identity is kept.
 * Next: segment.c, which runs them. */
#include "notes/notes.h"

#include <structmember.h>

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
static int add_elements(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *sequence, Py_ssize_t from, int depth);

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

/* What lies in an instance by the name of a slot (the classes' __slots__). Lent; NULL: `found` is none, or it is empty. */
static PyObject *in_slot(PyObject *instance, PyObject *found) {
    if (Py_TYPE(found) != &PyMemberDescr_Type || !nxpy__may_change(PyDescr_TYPE(found))) return NULL;
    return *(PyObject **)((char *)instance + ((PyMemberDescrObject *)found)->d_member->offset);
}

/* How many slots its classes have beside those of the class of C. */
static int count_slots(PyTypeObject *type) {
    PyObject *key, *found;
    int n = 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(type->tp_mro); k++) {
        PyTypeObject *at = (PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, k);
        for (Py_ssize_t next = 0; nxpy__may_change(at) && PyDict_Next(nxpy_type_dict(at), &next, &key, &found);) {
            n += Py_TYPE(found) == &PyMemberDescr_Type && PyDescr_TYPE(found) == at;
        }
    }
    return n;
}

static int add_slots(ADD_ARGS) {
    PyObject *order = Py_TYPE(value)->tp_mro, *key, *found, *part;
    int done = 1;
    for (Py_ssize_t k = 0; done == 1 && k < PyTuple_GET_SIZE(order); k++) {
        PyTypeObject *at = (PyTypeObject *)PyTuple_GET_ITEM(order, k);
        for (Py_ssize_t next = 0; done == 1 && nxpy__may_change(at) && PyDict_Next(nxpy_type_dict(at), &next, &key, &found);) {
            if (!(part = in_slot(value, found)) || PyDescr_TYPE(found) != at) continue;
            done = nxpy_type_lookup(Py_TYPE(value), key) == found ? add_value(trace, recipe, results, part, depth + 1) : 0;
            if (done == 1) done = add_step(recipe, NXPY_MAKE_ATTRIBUTE, 0, key);
        }
    }
    return done;
}

/* An exception that was never raised holds its arguments and no more. */
static int add_exception_args(ADD_ARGS) {
    const PyBaseExceptionObject *error = (PyBaseExceptionObject *)value;
    bool more = error->traceback || error->context || error->cause || error->notes || error->suppress_context;
    if (more || base_of(Py_TYPE(value))->tp_basicsize != (Py_ssize_t)sizeof *error) return 0;
    PyObject *name = nxpy__name("args");
    int done = name ? add_elements(trace, recipe, results, error->args, 0, depth) : -1;
    return done == 1 ? add_step(recipe, NXPY_MAKE_ATTRIBUTE, 0, name) : done;
}

/* An instance that the traced code made: its class without any constructor, then its attributes. It may hold itself. */
static int add_instance(ADD_ARGS) {
    PyTypeObject *type = Py_TYPE(value), *base = base_of(type);
    Py_ssize_t n_slots = count_slots(type), room = room_of(type, base) + n_slots * (Py_ssize_t)sizeof(PyObject *);
    if (type->tp_new == NULL || type->tp_itemsize || type->tp_basicsize > room) return 0;
    PyObject *dict = PyObject_GenericGetDict(value, NULL), *key, *part;
    if (!dict) PyErr_Clear();
    if (!dict && !n_slots) return 0;
    int number = (int)(nxpy__note_find(trace, value) - trace->notes.at);
    bool of_trace = nxpy__is_born(trace, (PyObject *)type); /* its class is another one at each call */
    int done = of_trace ? add_value(trace, recipe, results, (PyObject *)type, depth + 1) : 1;
    if (done == 1) done = add_step(recipe, NXPY_MAKE_INSTANCE, of_trace, of_trace ? NULL : (PyObject *)type);
    if (done == 1) done = keep(recipe, results, number);
    if (done == 1 && nxpy__is_exception(value)) done = add_exception_args(trace, recipe, results, value, depth);
    if (done == 1 && n_slots) done = add_slots(trace, recipe, results, value, depth);
    for (Py_ssize_t at = 0; dict && done == 1 && PyDict_Next(dict, &at, &key, &part);) {
        PyObject *found = PyUnicode_Check(key) ? nxpy_type_lookup(type, key) : NULL;
        bool by_hand = !PyUnicode_Check(key) || (found && Py_TYPE(found)->tp_descr_set); /* a store would not put it there */
        if (by_hand) done = 0;
        if (done == 1) done = add_value(trace, recipe, results, part, depth + 1);
        if (done == 1) done = add_step(recipe, NXPY_MAKE_ATTRIBUTE, 0, key);
    }
    Py_XDECREF(dict);
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

/* A function made by the traced code. */
static int add_function(ADD_ARGS) {
    const PyFunctionObject *function = (PyFunctionObject *)value;
    PyObject *annotate = NXPY_ANNOTATE ? *(PyObject **)((char *)function + NXPY_ANNOTATE) : NULL;
    PyObject *const parts[] = {function->func_closure, function->func_kwdefaults, function->func_defaults, function->func_annotations,
                               annotate};
    PyObject *const words[] = {function->func_name, function->func_qualname, function->func_doc, function->func_module};
    for (int k = 0; k < NX_COUNT(words); k++) {
        if (words[k] && !nxpy_constant_check(words[k])) return 0;
    }
    for (int k = 0; k < NX_COUNT(parts); k++) {
        bool asked = parts[k] && PyDict_CheckExact(parts[k]) && !nxpy__note_find(trace, parts[k]); /* by a staticmethod: made by that */
        int done = (asked ? add_dict : add_value)(trace, recipe, results, parts[k], depth + 1);
        if (done != 1) return done;
    }
    PyObject *dict = function->func_dict;
    int done = !dict || !PyDict_GET_SIZE(dict) ? add_step(recipe, NXPY_MAKE_NULL, 0, NULL) : add_dict(trace, recipe, results, dict, depth);
    if (done != 1) return done;
    PyObject *fixed = PyTuple_Pack(6, function->func_code, function->func_globals, words[0], words[1], words[2] ? words[2] : Py_None,
                                   words[3] ? words[3] : Py_None);
    done = fixed ? add_step(recipe, NXPY_MAKE_FUNCTION, 0, fixed) : -1;
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

/* Over the memory of the tensor that is made, too. */
static int add_shown(ADD_ARGS) {
    int done = add_value(trace, recipe, results, nxpy__shown(value)->tensor, depth + 1);
    return done == 1 ? add_step(recipe, NXPY_MAKE_CALL, 1, nxpy__shown(value)->make) : done;
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

static bool is_making(const nxpy_results *results, PyObject *value) {
    for (int k = 0; k < results->making.n; k++) {
        if (results->making.at[k] == value) return true;
    }
    return false;
}

/* The class that is being made and has this dict, NULL: none. */
static PyObject *owner_of(const nxpy_results *results, PyObject *dict) {
    for (int k = 0; k < results->making.n; k++) {
        if (nxpy_type_dict((PyTypeObject *)results->making.at[k]) == dict) return results->making.at[k];
    }
    return NULL;
}

/* One that holds a class, or the dict of one, is made before it, whose methods may have the cell. */
static int add_cell(ADD_ARGS) {
    PyObject *held = PyCell_GET(value), *owner = held && PyDict_CheckExact(held) ? owner_of(results, held) : NULL;
    bool class = held && PyType_Check(held) && nxpy__is_born(trace, held), empty = class || owner;
    int number = (int)(nxpy__note_find(trace, value) - trace->notes.at), cell = recipe->n_kept;
    int done = empty ? add_step(recipe, NXPY_MAKE_NULL, 0, NULL) : add_value(trace, recipe, results, held, depth + 1); /* NULL: empty */
    if (done == 1) done = add_step(recipe, NXPY_MAKE_CELL, 0, NULL);
    if (done == 1) done = keep(recipe, results, number);
    if (done != 1 || !empty) return done;
    if (owner || is_making(results, held)) {
        nxpy_waiting waiting = {cell, owner ? owner : held, owner != NULL};
        return nx_vec_push(&results->waiting, waiting) == NX_OK ? 1 : (nxpy_raise(NX_NO_MEMORY), -1);
    }
    done = add_step(recipe, NXPY_MAKE_AGAIN, cell, NULL);
    if (done == 1) done = add_value(trace, recipe, results, held, depth + 1);
    return done == 1 ? add_step(recipe, NXPY_MAKE_FILL, 0, NULL) : done;
}

/* property(get, set, delete), staticmethod(function), classmethod(function). */
static int add_descriptor(ADD_ARGS) {
    static const char *const of_property[] = {"fget", "fset", "fdel"}, *const of_method[] = {"__func__"};
    bool property = Py_TYPE(value) == &PyProperty_Type;
    int n = property ? NX_COUNT(of_property) : NX_COUNT(of_method), done = 1;
    for (int k = 0; done == 1 && k < n; k++) {
        PyObject *part = PyObject_GetAttrString(value, property ? of_property[k] : of_method[k]);
        done = part ? add_value(trace, recipe, results, part, depth + 1) : -1;
        Py_XDECREF(part); /* value has it */
    }
    return done == 1 ? add_step(recipe, NXPY_MAKE_CALL, n, (PyObject *)Py_TYPE(value)) : done;
}

/* Whether making the class again runs no code of the program's: no metaclass but abc's, no __init_subclass__, no __set_name__. */
static bool is_made_in_c(PyTypeObject *type, PyObject *held) {
    PyObject *module = nxpy_type_lookup(Py_TYPE(type), nxpy__name("__module__")), *key, *value;
    bool abc = module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "abc") == 0;
    bool plain = Py_TYPE(type) == &PyType_Type || abc;
    PyObject *name = nxpy__name("__init_subclass__"), *ordinary = nxpy_type_lookup(&PyBaseObject_Type, name);
    for (Py_ssize_t k = 0; plain && k < PyTuple_GET_SIZE(type->tp_bases); k++) {
        plain = nxpy_type_lookup((PyTypeObject *)PyTuple_GET_ITEM(type->tp_bases, k), name) == ordinary;
    }
    for (Py_ssize_t at = 0; plain && PyDict_Next(held, &at, &key, &value);) {
        plain = !nxpy__may_change(Py_TYPE(value)) || nxpy_tensor_check(value) ||
                !nxpy_type_lookup(Py_TYPE(value), nxpy__name("__set_name__"));
    }
    return plain;
}

/* What type.__new__ puts there by itself. */
static bool is_of_making(PyObject *type, PyObject *key, PyObject *value) {
    static const char *const names[] = {"__dict__", "__weakref__", "__abstractmethods__", "_abc_impl"};
    bool own = Py_TYPE(value) == &PyMemberDescr_Type && (PyObject *)PyDescr_TYPE(value) == type;
    for (int k = 0; !own && k < NX_COUNT(names); k++) own = PyUnicode_CompareWithASCIIString(key, names[k]) == 0;
    return own;
}

/* Whether nothing was written into the class since dataclasses filled it. */
static bool is_as_made(const nxpy_note *note) {
    PyObject *after = PyTuple_GET_ITEM(note->made, 3), *now = nxpy_type_dict((PyTypeObject *)note->object), *key, *value;
    bool same = PyDict_GET_SIZE(after) == PyDict_GET_SIZE(now);
    for (Py_ssize_t at = 0; same && PyDict_Next(now, &at, &key, &value);) same = PyDict_GetItemWithError(after, key) == value;
    return same;
}

/* The namespace of a class, as it is given to its metaclass. */
static int add_namespace(ADD_ARGS) {
    const nxpy_note *note = nxpy__note_find(trace, value);
    PyObject *held = note->made ? PyTuple_GET_ITEM(note->made, 2) : nxpy_type_dict((PyTypeObject *)value), *key, *part;
    int n = 0, done = 1;
    if ((note->made && !is_as_made(note)) || !is_made_in_c((PyTypeObject *)value, held)) return 0;
    PyObject *name = nxpy__name("__qualname__");
    if (!name) return -1;
    if (add_step(recipe, NXPY_MAKE_CONST, 0, name) < 0) return -1;
    if (add_step(recipe, NXPY_MAKE_CONST, 0, ((PyHeapTypeObject *)value)->ht_qualname) < 0) return -1;
    for (Py_ssize_t at = 0; done == 1 && PyDict_Next(held, &at, &key, &part);) {
        if (is_of_making(value, key, part)) continue;
        done = add_step(recipe, NXPY_MAKE_CONST, 0, key);
        if (done == 1) done = add_value(trace, recipe, results, part, depth + 1);
        n++;
    }
    for (int k = 0; done == 1 && k < results->waiting.n; k++) { /* type.__new__ fills the one that shall hold its dict */
        if (results->waiting.at[k].class != value || !results->waiting.at[k].of_dict) continue;
        if (!(name = nxpy__name("__classdictcell__"))) return -1;
        done = add_step(recipe, NXPY_MAKE_CONST, 0, name);
        if (done == 1) done = add_step(recipe, NXPY_MAKE_AGAIN, results->waiting.at[k].cell, NULL);
        n++;
    }
    return done == 1 ? add_step(recipe, NXPY_MAKE_DICT, n + 1, NULL) : done;
}

/* dataclasses' own call, again. */
static int add_dataclass(nxpy_recipe *recipe, const nxpy_note *note) {
    PyObject *rest = PyTuple_GET_ITEM(note->made, 1);
    int n = (int)PyTuple_GET_SIZE(rest), done = 1;
    for (int k = 0; done == 1 && k < n; k++) done = add_step(recipe, NXPY_MAKE_CONST, 0, PyTuple_GET_ITEM(rest, k));
    return done == 1 ? add_step(recipe, NXPY_MAKE_CALL, n + 1, PyTuple_GET_ITEM(note->made, 0)) : done;
}

/* metaclass(name, bases, namespace) of a class that the traced code made. Its methods may have it in their closures. */
static int add_class(ADD_ARGS) {
    PyTypeObject *type = (PyTypeObject *)value;
    int done = add_step(recipe, NXPY_MAKE_CONST, 0, ((PyHeapTypeObject *)type)->ht_name);
    if (is_making(results, value)) return 0;
    if (nx_vec_push(&results->making, value) != NX_OK) return nxpy_raise(NX_NO_MEMORY), -1;
    for (Py_ssize_t k = 0; done == 1 && k < PyTuple_GET_SIZE(type->tp_bases); k++) {
        PyObject *base = PyTuple_GET_ITEM(type->tp_bases, k);
        bool known = nxpy__note_find(trace, base) != NULL;
        done = known ? add_value(trace, recipe, results, base, depth + 1) : add_step(recipe, NXPY_MAKE_CONST, 0, base);
    }
    if (done == 1) done = add_step(recipe, NXPY_MAKE_TUPLE, (int)PyTuple_GET_SIZE(type->tp_bases), NULL);
    if (done == 1) done = add_namespace(trace, recipe, results, value, depth);
    if (done == 1) done = add_step(recipe, NXPY_MAKE_CALL, 3, (PyObject *)Py_TYPE(type));
    results->making.n--;
    int number = (int)(nxpy__note_find(trace, value) - trace->notes.at), kept = recipe->n_kept;
    if (done == 1) done = keep(recipe, results, number);
    for (int k = 0; done == 1 && k < results->waiting.n; k++) {
        if (results->waiting.at[k].class != value || results->waiting.at[k].of_dict) continue;
        done = add_step(recipe, NXPY_MAKE_AGAIN, results->waiting.at[k].cell, NULL);
        if (done == 1) done = add_step(recipe, NXPY_MAKE_AGAIN, kept, NULL);
        if (done == 1) done = add_step(recipe, NXPY_MAKE_FILL, 0, NULL);
    }
    const nxpy_note *note = nxpy__note_find(trace, value);
    return done == 1 && note->made ? add_dataclass(recipe, note) : done;
}

static int add_constant(ADD_ARGS) { return add_step(recipe, NXPY_MAKE_CONST, 0, value); }
static int add_nothing(ADD_ARGS) { return 0; }
static int add_drawn(ADD_ARGS) {
    nxpy__ask_for(trace, NXPY_ASK_NO_DRAWS);
    results->asks = true; /* nothing is made of this try */
    return add_step(recipe, NXPY_MAKE_NULL, 0, NULL);
}

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
        bool inner = nxpy__is_iterator(value) || PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyRange_Check(value) ||
                     nxpy__is_a(value, NXPY_KIND_DESCRIPTOR);
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
    nxpy_kind_code kind = nxpy__kind(value)->code;
    bool of_trace = kind != NXPY_KIND_INSTANCE && nxpy__is_born(trace, (PyObject *)Py_TYPE(value));
    int done = (of_trace ? add_nothing : note->is_own_dict ? add_own_dict : by_kind[kind])(trace, recipe, results, value, depth);
    if (done == 0 && trace->unmakeable_at < 0) {
        trace->unmakeable_at = born_at;
        trace->unmakeable = Py_TYPE(value)->tp_name;
    }
    bool kept = kind == NXPY_KIND_INSTANCE || kind == NXPY_KIND_DICTLIKE || kind == NXPY_KIND_LISTLIKE ||
                kind == NXPY_KIND_CLASS || kind == NXPY_KIND_CELL;
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
    function->func_annotations = Py_XNewRef(parts[3]);
    if (NXPY_ANNOTATE) *(PyObject **)((char *)function + NXPY_ANNOTATE) = Py_XNewRef(parts[4]);
    function->func_dict = Py_XNewRef(parts[5]);
    PyObject **const words[] = {&function->func_name, &function->func_qualname, &function->func_doc, &function->func_module};
    for (int k = 0; k < NX_COUNT(words); k++) Py_XSETREF(*words[k], Py_NewRef(PyTuple_GET_ITEM(fixed, 2 + k)));
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
    case NXPY_MAKE_FUNCTION: used = 6; made = make_function(step->object, at - 6); break;
    case NXPY_MAKE_CELL: used = 1; made = PyCell_New(at[-1]); break;
    case NXPY_MAKE_FILL:
        PyCell_Set(at[-2], at[-1]);
        for (int k = 0; k < 2; k++) Py_DECREF(*--*top);
        return 0;
    case NXPY_MAKE_OVER: {
        nx_status status = nx_grad_stand_over(nxpy_tensor_get(at[-1]));
        return status == NX_OK ? 0 : (nxpy_raise(status), -1);
    }
    case NXPY_MAKE_CLASS: return make_class((PyTypeObject *)step->object, step->n, &at[-1]);
    case NXPY_MAKE_STATE:
    case NXPY_MAKE_ENTRY:
    case NXPY_MAKE_ATTRIBUTE: return run_change(step, top);
    case NXPY_MAKE_INSTANCE:
        used = step->n;
        made = make_instance((PyTypeObject *)(used ? at[-1] : step->object));
        break;
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
