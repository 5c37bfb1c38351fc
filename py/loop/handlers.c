/* Handlers of the simple instructions: stack, locals, cells, constants, jumps, iteration.
 *
 * In: a loop at an instruction and its argument. Out: 0 go on, 1 the frame returns, -1 stopped.
 * What must hold: nothing is popped before the last thing that can fail. USE(k) is the value k places below the top as
 * one works with it: guarded, a tensor as its fake; bare peeks serve instructions that only move values.
 * Next: handlers_data.c (operators and containers), calls.c. */
#include "loop/private.h"

int op_nothing(nxpy_loop *loop, int arg) { return 0; }

int op_push_null(nxpy_loop *loop, int arg) {
    nxpy__push(loop, NULL);
    return 0;
}

/* Whether the frame's last hold on something with a finaliser may go here: that runs now, not behind the graph. */
static bool drops_finalised(nxpy_loop *loop, PyObject *value) {
    const PyTypeObject *type = value ? Py_TYPE(value) : NULL;
    if (NX_LIKELY(!type || !loop->written || (!type->tp_finalize && !type->tp_del) || nxpy_is_generator(value))) return false;
    const nxpy_note *note = nxpy__note_find(loop->trace, value);
    return !note || note->kind == NXPY_NOTE_SOURCE;
}

static int stop_drop(nxpy_loop *loop, PyObject *value) {
    return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "%.200s, which has a finaliser, is let go", Py_TYPE(value)->tp_name);
}

int op_pop_top(nxpy_loop *loop, int arg) {
    if (drops_finalised(loop, nxpy__at(loop, 1))) return stop_drop(loop, nxpy__at(loop, 1));
    nxpy__drop(loop, 1);
    return 0;
}

int op_copy(nxpy_loop *loop, int arg) {
    PyObject *value = nxpy__at(loop, arg);
    Py_XINCREF(value);
    nxpy__push(loop, value);
    return 0;
}

int op_swap(nxpy_loop *loop, int arg) {
    PyObject *value = nxpy__at(loop, 1);
    nxpy__set(loop, 1, nxpy__at(loop, arg));
    nxpy__set(loop, arg, value);
    return 0;
}

int op_load_const(nxpy_loop *loop, int arg) {
    PyObject *value = PyTuple_GET_ITEM(loop->view.code->co_consts, arg);
    if (nxpy__fixed(loop->trace, value) < 0) return -1;
    Py_INCREF(value);
    nxpy__push(loop, value);
    return 0;
}

int op_load_small_int(nxpy_loop *loop, int arg) {
    PyObject *value = PyLong_FromLong(arg);
    if (!value || nxpy__fixed(loop->trace, value) < 0) return Py_XDECREF(value), nxpy__stop_error(loop->trace);
    nxpy__push(loop, value);
    return 0;
}

/* ---- locals and cells ------------------------------------------------------------------------------------------------ */
/* A root's local that is still what it was when the trace began is fetched by the guards. */
int nxpy__fetch_local(nxpy_loop *loop, int index, PyObject *value) {
    if (!loop->written || loop->written[index]) return 0;
    PyObject *name = nxpy_local_name(loop->view.code, index);
    return nxpy__fetch(loop->trace, NXPY_ROW_ROOT, -1, name, NULL, index, value);
}

static int unbound(nxpy_loop *loop, int index) {
    PyErr_Format(PyExc_UnboundLocalError, "cannot access local variable '%U' where it is not associated with a value",
                 nxpy_local_name(loop->view.code, index));
    return nxpy__stop_error(loop->trace);
}

int op_load_fast(nxpy_loop *loop, int arg) {
    PyObject *value = nxpy_value(&loop->view, arg);
    if (!value) return unbound(loop, arg);
    if (nxpy__fetch_local(loop, arg, value) < 0) return -1;
    Py_INCREF(value);
    nxpy__push(loop, value);
    return 0;
}

/* From here on the local is the trace's, not the frame's. */
static void mark_written(nxpy_loop *loop, int index) {
    if (loop->written) loop->written[index] = true;
}

/* A tensor that goes into a variable is called by its name in graphs. */
static void name_top(nxpy_loop *loop, int index) {
    PyObject *value = nxpy__at(loop, 1); /* NULL: behind a comprehension, of a variable that had none */
    if (value && nxpy_tensor_check(value)) nxpy__spell_name(loop->trace, value, nxpy_local_name(loop->view.code, index));
}

int op_store_fast(nxpy_loop *loop, int arg) {
    PyObject *old = nxpy_value(&loop->view, arg);
    if (drops_finalised(loop, old)) return stop_drop(loop, old);
    mark_written(loop, arg);
    name_top(loop, arg);
    nxpy_value_set(&loop->view, arg, nxpy__pop(loop));
    Py_XDECREF(old);
    return 0;
}

int op_load_fast_and_clear(nxpy_loop *loop, int arg) { /* of a comprehension's variable, whose value comes back behind it */
    PyObject *value = nxpy_value(&loop->view, arg);
    if (value && nxpy__fetch_local(loop, arg, value) < 0) return -1;
    mark_written(loop, arg);
    nxpy_value_set(&loop->view, arg, NULL);
    nxpy__push(loop, value);
    return 0;
}

int op_load_fast_load_fast(nxpy_loop *loop, int arg) {
    if (op_load_fast(loop, arg) < 0) return -1;
    if (op_load_fast(loop, loop->in.flag) == 0) return 0;
    nxpy__drop(loop, 1);
    return -1;
}

int op_store_fast_store_fast(nxpy_loop *loop, int arg) {
    PyObject *second = nxpy_value(&loop->view, loop->in.flag);
    if (drops_finalised(loop, second)) return stop_drop(loop, second);
    return op_store_fast(loop, arg) < 0 ? -1 : op_store_fast(loop, loop->in.flag);
}

int op_store_fast_load_fast(nxpy_loop *loop, int arg) { /* in one step: the stack may be full */
    int load = loop->in.flag;
    PyObject *value = load == arg ? nxpy__at(loop, 1) : nxpy_value(&loop->view, load), *old = nxpy_value(&loop->view, arg);
    if (!value) return unbound(loop, load);
    if (load != arg && nxpy__fetch_local(loop, load, value) < 0) return -1;
    if (drops_finalised(loop, old)) return stop_drop(loop, old);
    mark_written(loop, arg);
    name_top(loop, arg);
    nxpy_value_set(&loop->view, arg, nxpy__at(loop, 1));
    nxpy__set(loop, 1, Py_NewRef(value));
    Py_XDECREF(old);
    return 0;
}

int op_delete_fast(nxpy_loop *loop, int arg) {
    PyObject *old = nxpy_value(&loop->view, arg);
    if (!old) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "an unbound local variable");
    if (drops_finalised(loop, old)) return stop_drop(loop, old);
    mark_written(loop, arg);
    nxpy_value_set(&loop->view, arg, NULL);
    Py_DECREF(old);
    return 0;
}

int op_make_cell(nxpy_loop *loop, int arg) {
    PyObject *value = nxpy_value(&loop->view, arg);
    if (value && nxpy__fetch_local(loop, arg, value) < 0) return -1;
    PyObject *cell = PyCell_New(value);
    if (!cell || !nxpy__note_add(loop->trace, cell, NXPY_NOTE_BORN, -1)) {
        Py_XDECREF(cell);
        return nxpy__stop_error(loop->trace);
    }
    mark_written(loop, arg);
    nxpy_value_set(&loop->view, arg, cell);
    Py_XDECREF(value);
    return 0;
}

int op_copy_free_vars(nxpy_loop *loop, int arg) {
    PyObject *closure = loop->view.function->func_closure;
    int offset = loop->view.n_locals - arg;
    for (int k = 0; k < arg; k++) {
        PyObject *cell = PyTuple_GET_ITEM(closure, k);
        if (!nxpy__note_find(loop->trace, cell)) { /* of a function that existed before: it is guarded and keeps its cells */
            bool born = nxpy__is_born(loop->trace, (PyObject *)loop->view.function);
            if (born) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "a closure");
            if (!nxpy__note_add(loop->trace, cell, NXPY_NOTE_FIXED, -1)) return -1;
        }
        Py_INCREF(cell);
        mark_written(loop, offset + k);
        nxpy_value_set(&loop->view, offset + k, cell);
    }
    return 0;
}

int op_load_deref(nxpy_loop *loop, int arg) {
    PyObject *cell = nxpy_value(&loop->view, arg), *value = cell && PyCell_Check(cell) ? PyCell_GET(cell) : NULL;
    if (!value) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "an unbound closure variable");
    if (nxpy__fetch_local(loop, arg, cell) < 0) return -1;
    if (!nxpy__is_born(loop->trace, cell) && !nxpy__was_written(loop->trace, cell, NULL)) {
        PyObject *name = nxpy_local_name(loop->view.code, arg);
        int slot = nxpy__use(loop->trace, cell) ? nxpy__slot_called(loop->trace, cell, name) : -1;
        if (slot < 0 || nxpy__fetch_number(loop->trace, NXPY_ROW_CELL, slot, NULL, NULL, 0, &value) < 0) return -1;
    }
    Py_INCREF(value);
    nxpy__push(loop, value);
    return 0;
}

int op_store_deref(nxpy_loop *loop, int arg) {
    PyObject *cell = nxpy_value(&loop->view, arg);
    if (!cell || !PyCell_Check(cell)) return nxpy__stop(loop->trace, NXPY_BREAK_STORE, "a closure variable");
    if (loop == loop->trace->root_loop) name_top(loop, arg);
    if (nxpy__fetch_local(loop, arg, cell) < 0) return -1;
    if (!nxpy__is_born(loop->trace, cell)) {
        if (!nxpy__use(loop->trace, cell) || nxpy__write_cell(loop->trace, cell, nxpy__at(loop, 1)) < 0) return -1;
        nxpy__drop(loop, 1);
        return 0;
    }
    if (nxpy__region_changes(loop->trace, cell) < 0) return -1;
    PyObject *old = PyCell_GET(cell);
    PyCell_SET(cell, nxpy__pop(loop));
    Py_XDECREF(old);
    return 0;
}

int op_delete_deref(nxpy_loop *loop, int arg) {
    PyObject *cell = nxpy_value(&loop->view, arg), *value = cell && PyCell_Check(cell) ? PyCell_GET(cell) : NULL;
    if (!value) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "an unbound closure variable");
    if (drops_finalised(loop, value)) return stop_drop(loop, value);
    if (nxpy__fetch_local(loop, arg, cell) < 0) return -1;
    if (nxpy__is_born(loop->trace, cell)) return nxpy__region_changes(loop->trace, cell) < 0 ? -1 : PyCell_Set(cell, NULL);
    return nxpy__use(loop->trace, cell) ? nxpy__write_cell(loop->trace, cell, NULL) : -1;
}

int op_store_attr(nxpy_loop *loop, int arg) {
    PyObject *object = USE(1);
    PyObject *value = object ? nxpy__at(loop, 2) : NULL;
    if (!object || nxpy__store_attribute(loop, object, PyTuple_GET_ITEM(loop->view.code->co_names, arg), value) < 0) return -1;
    nxpy__drop(loop, 2);
    return 0;
}

int op_delete_attr(nxpy_loop *loop, int arg) {
    PyObject *object = USE(1);
    if (!object || nxpy__store_attribute(loop, object, PyTuple_GET_ITEM(loop->view.code->co_names, arg), NULL) < 0) return -1;
    nxpy__drop(loop, 1);
    return 0;
}

int op_store_global(nxpy_loop *loop, int arg) {
    PyObject *name = PyTuple_GET_ITEM(loop->view.code->co_names, arg);
    if (nxpy__write_global(loop->trace, loop->view.globals, name, nxpy__at(loop, 1)) < 0) return -1;
    nxpy__drop(loop, 1);
    return 0;
}

int op_delete_global(nxpy_loop *loop, int arg) {
    PyObject *name = PyTuple_GET_ITEM(loop->view.code->co_names, arg), *globals = loop->view.globals, *value;
    if (!PyDict_CheckExact(globals)) return nxpy__stop(loop->trace, NXPY_BREAK_STORE, "globals of a class of the user's own");
    value = PyDict_GetItemWithError(globals, name);
    if (!value && PyErr_Occurred()) return nxpy__stop_error(loop->trace);
    if (!nxpy__was_written(loop->trace, globals, name) &&
        nxpy__fetch(loop->trace, NXPY_ROW_DICT, -1, name, globals, 0, value) < 0) return -1;
    if (value) return drops_finalised(loop, value) ? stop_drop(loop, value) : nxpy__write_global(loop->trace, globals, name, NULL);
    PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
    return nxpy__stop_error(loop->trace);
}

int op_load_build_class(nxpy_loop *loop, int arg) {
    PyObject *builtins = loop->view.builtins, *value, *name = nxpy__name("__build_class__");
    if (!name) return nxpy__stop_error(loop->trace);
    if (!PyDict_CheckExact(builtins)) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "builtins of a class of the user's own");
    if (!(value = PyDict_GetItemWithError(builtins, name))) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_NameError, "__build_class__ not found");
        return nxpy__stop_error(loop->trace);
    }
    if (nxpy__fetch(loop->trace, NXPY_ROW_DICT, -1, name, builtins, 0, value) < 0) return -1;
    nxpy__push(loop, Py_NewRef(value));
    return 0;
}

int op_load_global(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *name = PyTuple_GET_ITEM(loop->view.code->co_names, arg), *globals = loop->view.globals;
    PyObject *builtins = loop->view.builtins;
    if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) {
        return nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "globals of a class of the user's own");
    }
    PyObject *value = PyDict_GetItemWithError(globals, name);
    bool written = nxpy__was_written(trace, globals, name);
    if (PyErr_Occurred()) return nxpy__stop_error(trace);
    if (!written && nxpy__fetch_number(trace, NXPY_ROW_DICT, -1, name, globals, 0, &value) < 0) return -1;
    if (!value) {
        value = PyDict_GetItemWithError(builtins, name);
        if (PyErr_Occurred()) return nxpy__stop_error(trace);
        if (nxpy__fetch(trace, NXPY_ROW_DICT, -1, name, builtins, 0, value) < 0) return -1;
        if (!value) {
            PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
            return nxpy__stop_error(trace);
        }
    }
    if (loop->in.flag && NXPY_NULL_FIRST) nxpy__push(loop, NULL);
    Py_INCREF(value);
    nxpy__push(loop, value);
    if (loop->in.flag && !NXPY_NULL_FIRST) nxpy__push(loop, NULL);
    return 0;
}

/* ---- jumps -------------------------------------------------------------------------------------------------------------- */
int op_jump(nxpy_loop *loop, int arg) {
    loop->next = arg;
    return 0;
}

/* Truth of an instance: by __bool__ or __len__ of Python, which are inlined, or because it has neither. */
static int truth_of_instance(nxpy_trace *trace, PyObject *value) {
    static const char *const names[] = {"__bool__", "__len__"};
    PyObject *found;
    for (int k = 0; k < NX_COUNT(names); k++) {
        if (nxpy__type_value(trace, Py_TYPE(value), names[k], &found) < 0) return -1;
        if (!found) continue;
        bool known = PyFunction_Check(found) || (nxpy__is_sequence(value) && k == 1);
        if (!known) return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "truth of %.200s", Py_TYPE(value)->tp_name);
        if (PyTuple_Check(value) && nxpy__note_elements(trace, value) < 0) return -1;
        int truth = PyObject_IsTrue(value);
        return truth < 0 || trace->stop ? nxpy__stop_error(trace) : truth;
    }
    return 1;
}

/* Truth: 0, 1, or -1 (stopped, or an exception). */
int nxpy__truth(nxpy_trace *trace, PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (nxpy_tensor_check(value)) {
        PyObject *number;
        bool few = nxpy_tensor_get(value)->a.dtype == NX_BOOL;
        int known = nxpy__element(trace, value, few, &number), truth = known == 1 ? PyObject_IsTrue(number) : -1;
        if (known == 1) Py_DECREF(number);
        if (known == 0 && nx_thread_get()->tell) {
            truth = PyObject_IsTrue(value);
            return truth < 0 ? nxpy__stop_error(trace) : truth;
        }
        return known == 0 ? nxpy__stop(trace, NXPY_BREAK_BRANCH, NULL) : truth;
    }
    if (PyType_Check(value)) return type == &PyType_Type ? 1 : truth_of_instance(trace, value);
    bool instance = nxpy__may_change(type) && !nxpy__is_a(value, NXPY_KIND_DEQUE) && !nxpy__is_a(value, NXPY_KIND_DEFAULTS);
    if (instance && !nxpy_constant_check(value)) return truth_of_instance(trace, value);
    const nxpy_note *note = nxpy__note_find(trace, value);
    bool foreign = note && note->kind != NXPY_NOTE_BORN && !note->elements;
    if (foreign && nxpy__is_dict(value) && !nxpy__has_written_fields(trace, value)) {
        int slot = nxpy__slot_of(trace, value);
        if (slot < 0 || nxpy__check(trace, NXPY_ROW_LENGTH, slot, NULL, PyDict_GET_SIZE(value)) < 0) return -1;
    } else if (foreign && nxpy__note_elements(trace, value) < 0) {
        return -1;
    }
    int truth = PyObject_IsTrue(value);
    return truth < 0 ? nxpy__stop_error(trace) : truth;
}

static void pop_and_jump(nxpy_loop *loop, bool jump, int to) {
    nxpy__drop(loop, 1);
    if (jump) loop->next = to;
}

int op_pop_jump(nxpy_loop *loop, int arg) {
    PyObject *value = USE(1);
    int truth = value ? nxpy__truth(loop->trace, value) : -1;
    if (truth < 0) return -1;
    pop_and_jump(loop, truth == loop->in.flag, arg);
    return 0;
}

int op_pop_jump_none(nxpy_loop *loop, int arg) {
    PyObject *value = USE(1);
    if (!value) return -1;
    pop_and_jump(loop, (value == Py_None) == loop->in.flag, arg);
    return 0;
}

int op_to_bool(nxpy_loop *loop, int arg) {
    PyObject *value = USE(1);
    int truth = value ? nxpy__truth(loop->trace, value) : -1;
    if (truth < 0) return -1;
    nxpy__put(loop, 1, PyBool_FromLong(truth));
    return 0;
}

int op_jump_or_pop(nxpy_loop *loop, int arg) {
    PyObject *value = USE(1);
    int truth = value ? nxpy__truth(loop->trace, value) : -1;
    if (truth < 0) return -1;
    if (truth == loop->in.flag) loop->next = arg;
    else nxpy__drop(loop, 1);
    return 0;
}

/* ---- iteration ------------------------------------------------------------------------------------------------------------ */
PyObject *nxpy__iterator(nxpy_loop *loop, PyObject *of) {
    nxpy_trace *trace = loop->trace;
    PyTypeObject *type = Py_TYPE(of);
    int walked = nxpy__kind(of)->walked;
    bool own = walked == NXPY_BY_OWN || (walked == NXPY_BY_BORN && nxpy__is_born(trace, of));
    if (nxpy__is_fake(trace, of)) { /* its parts along the first dimension */
        PyObject *parts = PyObject_GetIter(of);
        if (parts && nxpy__admit(trace, parts) < 0) Py_CLEAR(parts);
        if (!parts) nxpy__stop_error(trace);
        return parts;
    }
    if (!own && !nxpy_constant_check(of)) {
        int python = nxpy__python_special(trace, of, "__iter__");
        if (python < 0) return NULL;
        if (python == 0 && !nxpy__may_change(type)) {
            nxpy__stop(trace, NXPY_BREAK_ITERATOR, "%.200s", type->tp_name);
            return NULL;
        }
        if (python == 0) { /* by __getitem__, or not at all */
            python = nxpy__python_special(trace, of, "__getitem__");
            if (python == 0) nxpy__stop(trace, NXPY_BREAK_ITERATOR, "%.200s", type->tp_name);
            if (python != 1) return NULL;
        }
    }
    if (nxpy__note_elements(trace, of) < 0) return NULL;
    PyObject *iterator = PyObject_GetIter(of);
    if (!iterator || trace->stop) {
        Py_XDECREF(iterator);
        nxpy__stop_error(trace);
        return NULL;
    }
    if (iterator != of && !nxpy__note_find(trace, iterator) && !nxpy__note_add(trace, iterator, NXPY_NOTE_BORN, -1)) Py_CLEAR(iterator);
    return iterator;
}

int op_get_iter(nxpy_loop *loop, int arg) {
    PyObject *of = USE(1), *iterator = of ? nxpy__iterator(loop, of) : NULL;
    if (!iterator) return -1;
    nxpy__put(loop, 1, iterator);
    return 0;
}

int op_for_iter(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *iterator = nxpy__at(loop, 1);
    int python = nxpy__is_iterator(iterator) ? 0 : nxpy__python_special(trace, iterator, "__next__");
    if (python < 0) return -1;
    if (!python && !(nxpy__is_born(trace, iterator) && nxpy__is_iterator(iterator))) {
        return nxpy__stop(trace, NXPY_BREAK_ITERATOR, "%.200s", Py_TYPE(iterator)->tp_name);
    }
    PyObject *value = Py_TYPE(iterator)->tp_iternext(iterator);
    if (value) {
        if (!nxpy__note_find(trace, value) && nxpy__admit(trace, value) < 0) {
            Py_DECREF(value);
            trace->clean = false; /* the iterator has moved */
            return -1;
        }
        nxpy__push(loop, value);
        return 0;
    }
    if (PyErr_Occurred()) {
        if (trace->stop || !PyErr_ExceptionMatches(PyExc_StopIteration)) return nxpy__stop_error(trace);
        PyErr_Clear();
    }
    nxpy__drop(loop, 1);
    loop->next = arg;
    return 0;
}

/* What is unpacked, as a list or tuple whose elements are noted. New reference; NULL: stopped, or an exception. */
static PyObject *unpacked(nxpy_loop *loop, PyObject *of) {
    if (!nxpy__is_sequence(of)) return nxpy__sequence(loop, of, false);
    return nxpy__note_elements(loop->trace, of) < 0 ? NULL : Py_NewRef(of);
}

int op_unpack_sequence(nxpy_loop *loop, int arg) {
    PyObject *of = USE(1), *parts = of ? unpacked(loop, of) : NULL;
    if (!parts) return of ? nxpy__stop_error(loop->trace) : -1;
    Py_ssize_t n = Py_SIZE(parts);
    if (n != arg) {
        if (n < arg) PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %zd)", arg, n);
        else PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", arg);
        Py_DECREF(parts);
        return nxpy__stop_error(loop->trace);
    }
    nxpy__drop(loop, 1);
    for (int k = arg - 1; k >= 0; k--) nxpy__push(loop, Py_NewRef(PySequence_Fast_GET_ITEM(parts, k)));
    Py_DECREF(parts);
    return 0;
}

int op_unpack_ex(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    Py_ssize_t before = arg & 0xff, after = arg >> 8;
    PyObject *of = USE(1), *parts = of ? unpacked(loop, of) : NULL;
    if (!parts) return of ? nxpy__stop_error(trace) : -1;
    Py_ssize_t n = Py_SIZE(parts), middle = n - before - after;
    if (middle < 0) {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %zd, got %zd)", before + after, n);
        Py_DECREF(parts);
        return nxpy__stop_error(trace);
    }
    PyObject *list = PyList_New(middle);
    for (Py_ssize_t k = 0; list && k < middle; k++) PyList_SET_ITEM(list, k, Py_NewRef(PySequence_Fast_GET_ITEM(parts, before + k)));
    if (!list || !nxpy__note_add(trace, list, NXPY_NOTE_BORN, -1)) {
        Py_XDECREF(list);
        Py_DECREF(parts);
        return nxpy__stop_error(trace);
    }
    nxpy__drop(loop, 1);
    for (Py_ssize_t k = after; k > 0; k--) nxpy__push(loop, Py_NewRef(PySequence_Fast_GET_ITEM(parts, n - 1 - (after - k))));
    nxpy__push(loop, list);
    for (Py_ssize_t k = before; k > 0; k--) nxpy__push(loop, Py_NewRef(PySequence_Fast_GET_ITEM(parts, k - 1)));
    Py_DECREF(parts);
    return 0;
}

int op_get_len(nxpy_loop *loop, int arg) {
    PyObject *of = USE(1);
    if (!of || nxpy__note_elements(loop->trace, of) < 0) return -1;
    Py_ssize_t n = PyObject_Size(of);
    PyObject *size = n < 0 ? NULL : PyLong_FromSsize_t(n);
    if (!size) return nxpy__stop_error(loop->trace);
    nxpy__push(loop, size);
    return 0;
}

/* ---- imports --------------------------------------------------------------------------------------------------------------- */
/* A module of ours is loaded when the trace is over, which then begins again. */
static void ask_for_module(nxpy_trace *trace, PyObject *name) {
    PyObject *library = PyImport_ImportModule("importlib"), *load = library ? PyObject_GetAttrString(library, "import_module") : NULL;
    PyObject *given = load ? PyTuple_Pack(1, name) : NULL, *question = given ? PyTuple_Pack(3, load, given, Py_None) : NULL;
    if (!question) nxpy__stop_error(trace);
    else if (nxpy__ask(trace, question, given)) nxpy__stop(trace, NXPY_BREAK_FUNCTION, "import of %U, which is no module", name);
    Py_XDECREF(question);
    Py_XDECREF(given);
    Py_XDECREF(load);
    Py_XDECREF(library);
}

static bool is_ours(PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    return text && (strncmp(text, "torch.", 6) == 0 || strncmp(text, "narthex.", 8) == 0);
}

/* Modules that are loaded already are looked up in sys.modules, guarded; loading one runs its code, which ends the graph. */
PyObject *nxpy__loaded(nxpy_trace *trace, PyObject *name) {
    PyObject *modules = PyImport_GetModuleDict(), *module = PyDict_GetItemWithError(modules, name);
    if (!module && is_ours(name)) return ask_for_module(trace, name), NULL;
    if (!module || !PyModule_CheckExact(module)) {
        nxpy__stop(trace, NXPY_BREAK_FUNCTION, "import of %U, which is not loaded yet", name);
        return NULL;
    }
    return nxpy__fetch(trace, NXPY_ROW_DICT, -1, name, modules, 0, module) < 0 ? NULL : module;
}

static PyObject *absolute_name(nxpy_loop *loop, PyObject *name, long level) {
    if (level == 0) return Py_NewRef(name);
    PyObject *package = PyDict_GetItemString(loop->view.globals, "__package__");
    Py_ssize_t end = package && PyUnicode_Check(package) ? PyUnicode_GET_LENGTH(package) : -1;
    for (; level > 1 && end > 0; level--) end = PyUnicode_FindChar(package, '.', 0, end, -1);
    PyObject *base = end > 0 ? PyUnicode_Substring(package, 0, end) : NULL, *full = base;
    if (base && PyUnicode_GET_LENGTH(name)) {
        full = PyUnicode_FromFormat("%U.%U", base, name);
        Py_DECREF(base);
    }
    return full;
}

int op_import_name(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *name = PyTuple_GET_ITEM(loop->view.code->co_names, arg), *from = nxpy__at(loop, 1);
    PyObject *importer = PyDict_GetItemString(loop->view.builtins, "__import__");
    bool ordinary = importer && Py_TYPE(importer) == &PyCFunction_Type;
    PyObject *full = ordinary ? absolute_name(loop, name, PyLong_AsLong(nxpy__at(loop, 2))) : NULL;
    if (!full) return nxpy__stop(trace, NXPY_BREAK_FUNCTION, "import of %U", name);
    PyUnicode_InternInPlace(&full);
    PyObject *module = nxpy__loaded(trace, full);
    Py_ssize_t dot = from == Py_None ? PyUnicode_FindChar(full, '.', 0, PyUnicode_GET_LENGTH(full), 1) : -1;
    if (module && dot > 0) { /* import a.b binds a */
        PyObject *top = PyUnicode_Substring(full, 0, dot);
        if (top) PyUnicode_InternInPlace(&top);
        module = top ? nxpy__loaded(trace, top) : NULL;
        Py_XDECREF(top);
    }
    Py_DECREF(full);
    if (!module) return trace->stop ? -1 : nxpy__stop_error(trace);
    nxpy__drop(loop, 1);
    nxpy__put(loop, 1, Py_NewRef(module));
    return 0;
}

int op_import_from(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *module = USE(1), *name = PyTuple_GET_ITEM(loop->view.code->co_names, arg), *value;
    if (!module) return -1;
    if (!PyModule_CheckExact(module) || !nxpy_instance_value(module, name)) {
        return nxpy__stop(trace, NXPY_BREAK_FUNCTION, "import of %U", name);
    }
    if (nxpy__attribute(trace, module, name, false, &value) < 0) return -1;
    nxpy__push(loop, value);
    return 0;
}

int op_return_value(nxpy_loop *loop, int arg) {
    if (loop == loop->trace->root_loop) return 1; /* the value stays: trace.c takes it */
    if (nxpy_tensor_check(nxpy__at(loop, 1)) && !USE(1)) return -1; /* C code may be who takes it */
    loop->result = nxpy__pop(loop);
    return 1;
}

int op_return_const(nxpy_loop *loop, int arg) {
    PyObject *value = PyTuple_GET_ITEM(loop->view.code->co_consts, arg);
    if (loop == loop->trace->root_loop) return op_load_const(loop, arg) < 0 ? -1 : 1;
    if (nxpy__fixed(loop->trace, value) < 0) return -1;
    loop->result = Py_NewRef(value); /* the frame may have no room for it */
    return 1;
}
