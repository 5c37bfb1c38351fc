/* Calls as the program spells them, where operators are not called as such: F.relu(x), 2 - x, x[0], torch.norm(x).
 *
 * In: a callable with its arguments before it is called, and what it gave. Out: nodes that are a part of the call say its number; a
 * row for each number, for who looks at the graph from Python (fx/_captured.py): the callable, arguments by place and by name, the
 * graph's values among these, the result, the graph's values in it. In both NotImplemented, which is no argument of anything, stands
 * for a value of the graph; a value is the name of its node and which of its results it is.
 * A row of two is a variable that a value was given: its name, the value. One of four is a call of a module, whose number is the scope
 * of what is recorded in it: where the module was found, its class, its address, the scope around it.
 * What must hold: rows are for show. The graph is what runs, and a call that cannot be told has no row. */
#include "notes/notes.h"

/* Where the value of a tensor or of a size comes from; NULL: the graph does not know it, or the trace has stopped. New reference. */
static PyObject *place_of(nxpy_trace *trace, PyObject *object) {
    nx_value value;
    if (nxpy_symnumber_check(object)) {
        const nx_node *node = nxpy_symint_node(object, &trace->tracer);
        return node ? Py_BuildValue("(si)", node->name, 0) : NULL;
    }
    bool used = nxpy__is_fake(trace, object);
    PyObject *fake = used ? object : nxpy__note_find(trace, object) ? nxpy__use(trace, object) : NULL;
    bool known = fake && nxpy__is_fake(trace, fake) && nx_tracer_find(&trace->tracer, nxpy_tensor_get(fake), &value);
    return known ? Py_BuildValue("(si)", value.node->name, value.n) : NULL;
}

/* What is shown of an argument; its values of the graph are added to `places`. NULL: nothing can be. */
static PyObject *told(nxpy_trace *trace, PyObject *o, PyObject *places) {
    if (nxpy_tensor_check(o) || nxpy_symnumber_check(o)) {
        PyObject *place = place_of(trace, o);
        bool added = place && PyList_Append(places, place) == 0;
        Py_XDECREF(place);
        return added ? Py_NewRef(Py_NotImplemented) : NULL;
    }
    if (nxpy_constant_check(o)) return Py_NewRef(o);
    if (PySlice_Check(o)) {
        const PySliceObject *slice = (PySliceObject *)o;
        PyObject *start = told(trace, slice->start, places), *stop = start ? told(trace, slice->stop, places) : NULL;
        PyObject *step = stop ? told(trace, slice->step, places) : NULL, *made = step ? PySlice_New(start, stop, step) : NULL;
        Py_XDECREF(start);
        Py_XDECREF(stop);
        Py_XDECREF(step);
        return made;
    }
    if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) return NULL;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    PyObject *list = PyList_New(n), *made;
    for (Py_ssize_t k = 0; list && k < n; k++) {
        PyObject *item = told(trace, PySequence_Fast_GET_ITEM(o, k), places);
        if (item) PyList_SET_ITEM(list, k, item);
        else Py_CLEAR(list);
    }
    if (!list || PyList_CheckExact(o)) return list;
    made = PyList_AsTuple(list);
    Py_DECREF(list);
    return made;
}

/* (callable, arguments, keywords, places) */
static PyObject *row_of(nxpy_trace *trace, PyObject *callable, PyObject *const *args, Py_ssize_t n, PyObject *kw_names) {
    Py_ssize_t n_plain = n - (kw_names ? PyTuple_GET_SIZE(kw_names) : 0);
    PyObject *places = PyList_New(0), *plain = PyTuple_New(n_plain), *named = PyDict_New();
    bool whole = places && plain && named;
    for (Py_ssize_t k = 0; whole && k < n; k++) {
        PyObject *item = told(trace, args[k], places);
        whole = item != NULL;
        if (item && k < n_plain) PyTuple_SET_ITEM(plain, k, Py_NewRef(item));
        if (item && k >= n_plain) whole = PyDict_SetItem(named, PyTuple_GET_ITEM(kw_names, k - n_plain), item) == 0;
        Py_XDECREF(item);
    }
    PyObject *row = whole ? PyTuple_Pack(4, callable, plain, named, places) : NULL;
    Py_XDECREF(places);
    Py_XDECREF(plain);
    Py_XDECREF(named);
    return row;
}

int nxpy__spell_begin(nxpy_trace *trace, PyObject *callable, PyObject *const *args, Py_ssize_t n, PyObject *kw_names) {
    nx_thread *thread = nx_thread_get();
    if (!trace->spells || thread->source.spelling || trace->region || thread->n_levels || trace->stop || nxpy_any_asks(args, n)) return 0;
    if (!trace->spellings && !(trace->spellings = PyList_New(0))) goto forget;
    PyObject *row = row_of(trace, callable, args, n, kw_names);
    bool added = row && !trace->stop && PyList_Append(trace->spellings, row) == 0;
    Py_XDECREF(row);
    if (added) return thread->source.spelling = (int)PyList_GET_SIZE(trace->spellings);
forget:
    nxpy_forget_error();
    return 0;
}

void nxpy__spell_name(nxpy_trace *trace, PyObject *value, PyObject *name) {
    if (!trace->spells || nx_thread_get()->source.spelling || trace->region || nx_thread_get()->n_levels || trace->stop) return;
    if (!nxpy__is_fake(trace, value)) return;
    if (!trace->spellings) trace->spellings = PyList_New(0);
    PyObject *place = place_of(trace, value), *row = place ? PyTuple_Pack(2, name, place) : NULL;
    if (row && trace->spellings) (void)PyList_Append(trace->spellings, row);
    Py_XDECREF(place);
    Py_XDECREF(row);
    nxpy_forget_error(); /* it is for show */
}

int nxpy__spell_enter(nxpy_trace *trace, PyObject *module) {
    nx_source *source = &nx_thread_get()->source;
    const nxpy_note *note = nxpy__note_find(trace, module);
    nx_text path = {0};
    int before = source->scope;
    if (!trace->tells_modules || !note || note->slot < 0 || trace->stop) return before;
    nxpy_guards_source(&trace->segment->guards, note->slot, &path);
    if (!trace->spellings) trace->spellings = PyList_New(0);
    PyObject *row = path.failed ? NULL : Py_BuildValue("(sOni)", path.at, Py_TYPE(module), (Py_ssize_t)module, before);
    if (row && trace->spellings && PyList_Append(trace->spellings, row) == 0) source->scope = (int)PyList_GET_SIZE(trace->spellings);
    Py_XDECREF(row);
    nx_text_free(&path);
    nxpy_forget_error(); /* it is for show */
    return before;
}

void nxpy__spell_leave(nxpy_trace *trace, int before) {
    if (trace->tells_modules) nx_thread_get()->source.scope = before;
}

int nxpy__spell_operator(nxpy_trace *trace, const char *name, PyObject *const *args, Py_ssize_t n) {
    PyObject *text = PyUnicode_FromString(name);
    int number = text ? nxpy__spell_begin(trace, text, args, n, NULL) : 0;
    Py_XDECREF(text);
    if (!text) nxpy_forget_error();
    return number;
}

/* The row with what came of the call. */
static PyObject *finished(nxpy_trace *trace, PyObject *row, PyObject *result) {
    PyObject *parts = PyList_New(0), *made = NULL;
    PyObject *plain = PyTuple_Check(result) ? PyTuple_GetSlice(result, 0, PY_SSIZE_T_MAX) : Py_NewRef(result); /* of named parts */
    PyObject *shown = parts && plain ? told(trace, plain, parts) : NULL;
    if (shown) made = Py_BuildValue("(OOOOOO)", PyTuple_GET_ITEM(row, 0), PyTuple_GET_ITEM(row, 1), PyTuple_GET_ITEM(row, 2),
                                    PyTuple_GET_ITEM(row, 3), shown, parts);
    Py_XDECREF(shown);
    Py_XDECREF(plain);
    Py_XDECREF(parts);
    return made;
}

PyObject *nxpy__spell_end(nxpy_trace *trace, int number, PyObject *result) {
    if (number == 0) return result;
    nx_thread_get()->source.spelling = 0;
    PyObject *kind, *value, *where, *row = NULL;
    PyErr_Fetch(&kind, &value, &where);
    if (result && !trace->stop) row = finished(trace, PyList_GET_ITEM(trace->spellings, number - 1), result);
    nxpy_forget_error();
    PyList_SetItem(trace->spellings, number - 1, row ? row : Py_NewRef(Py_None));
    PyErr_Restore(kind, value, where);
    return result;
}
