/* Handlers of the simple instructions: stack, locals, cells, constants, jumps, iteration.
 *
 * In: a loop at an instruction and its argument. Out: 0 go on, 1 the frame returns, -1 stopped.
 * What must hold: nothing is popped before the last thing that can fail. USE(k) is the value k places below the top as
 * one works with it: guarded, a tensor as its fake; bare peeks serve instructions that only move values.
 * Next: handlers_data.c (operators and containers), handlers_call.c. */
#include "capture/handlers.h"

#include <opcode.h>

int op_nothing(nxpy_loop *loop, int arg) { return 0; }

int op_push_null(nxpy_loop *loop, int arg) {
    *loop->top++ = NULL;
    return 0;
}

int op_pop_top(nxpy_loop *loop, int arg) {
    Py_XDECREF(*--loop->top);
    return 0;
}

int op_copy(nxpy_loop *loop, int arg) {
    PyObject *value = loop->top[-arg];
    Py_XINCREF(value);
    *loop->top++ = value;
    return 0;
}

int op_swap(nxpy_loop *loop, int arg) {
    PyObject *value = loop->top[-1];
    loop->top[-1] = loop->top[-arg];
    loop->top[-arg] = value;
    return 0;
}

int op_load_const(nxpy_loop *loop, int arg) {
    PyObject *value = PyTuple_GET_ITEM(loop->view.code->co_consts, arg);
    if (!nxpy_constant_check(value) && !nxpy__note_find(loop->trace, value) &&
        !nxpy__note_add(loop->trace, value, NXPY_NOTE_FIXED, -1)) return -1;
    Py_INCREF(value);
    *loop->top++ = value;
    return 0;
}

/* ---- locals and cells ------------------------------------------------------------------------------------------------ */
/* A root's local that is still what it was when the trace began is fetched by the guards. */
static int fetch_local(nxpy_loop *loop, int index, PyObject *value) {
    if (!loop->written || loop->written[index]) return 0;
    PyObject *name = PyTuple_GET_ITEM(loop->view.code->co_localsplusnames, index);
    return nxpy__fetch(loop->trace, NXPY_ROW_ROOT, -1, name, NULL, index, value);
}

int op_load_fast(nxpy_loop *loop, int arg) {
    PyObject *value = loop->view.locals[arg];
    if (!value) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "an unbound local variable");
    if (fetch_local(loop, arg, value) < 0) return -1;
    Py_INCREF(value);
    *loop->top++ = value;
    return 0;
}

/* From here on the local is the trace's, not the frame's. */
static void mark_written(nxpy_loop *loop, int index) {
    if (loop->written) loop->written[index] = true;
}

int op_store_fast(nxpy_loop *loop, int arg) {
    mark_written(loop, arg);
    PyObject *old = loop->view.locals[arg];
    loop->view.locals[arg] = *--loop->top;
    Py_XDECREF(old);
    return 0;
}

int op_delete_fast(nxpy_loop *loop, int arg) {
    PyObject *old = loop->view.locals[arg];
    if (!old) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "an unbound local variable");
    mark_written(loop, arg);
    loop->view.locals[arg] = NULL;
    Py_DECREF(old);
    return 0;
}

int op_make_cell(nxpy_loop *loop, int arg) {
    PyObject *value = loop->view.locals[arg];
    if (value && fetch_local(loop, arg, value) < 0) return -1;
    PyObject *cell = PyCell_New(value);
    if (!cell || !nxpy__note_add(loop->trace, cell, NXPY_NOTE_BORN, -1)) {
        Py_XDECREF(cell);
        return nxpy__stop_error(loop->trace);
    }
    mark_written(loop, arg);
    loop->view.locals[arg] = cell;
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
        loop->view.locals[offset + k] = cell;
    }
    return 0;
}

int op_load_deref(nxpy_loop *loop, int arg) {
    PyObject *cell = loop->view.locals[arg], *value = cell && PyCell_Check(cell) ? PyCell_GET(cell) : NULL;
    if (!value) return nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "an unbound closure variable");
    if (fetch_local(loop, arg, cell) < 0) return -1;
    if (!nxpy__is_born(loop->trace, cell)) {
        int slot = nxpy__use(loop->trace, cell) ? nxpy__slot_of(loop->trace, cell) : -1;
        if (slot < 0 || nxpy__fetch(loop->trace, NXPY_ROW_CELL, slot, NULL, NULL, 0, value) < 0) return -1;
    }
    Py_INCREF(value);
    *loop->top++ = value;
    return 0;
}

int op_store_deref(nxpy_loop *loop, int arg) {
    PyObject *cell = loop->view.locals[arg];
    if (!cell || !nxpy__is_born(loop->trace, cell)) return nxpy__stop(loop->trace, NXPY_BREAK_STORE, "a closure variable");
    PyObject *old = PyCell_GET(cell);
    PyCell_SET(cell, *--loop->top);
    Py_XDECREF(old);
    return 0;
}

int op_load_global(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *name = PyTuple_GET_ITEM(loop->view.code->co_names, arg >> 1), *globals = loop->view.globals;
    PyObject *builtins = loop->view.builtins;
    if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) {
        return nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "globals of a class of the user's own");
    }
    PyObject *value = PyDict_GetItemWithError(globals, name);
    if (PyErr_Occurred() || nxpy__fetch(trace, NXPY_ROW_DICT, -1, name, globals, 0, value) < 0) return nxpy__stop_error(trace);
    if (!value) {
        value = PyDict_GetItemWithError(builtins, name);
        if (!value) return nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "no global %U", name);
        if (nxpy__fetch(trace, NXPY_ROW_DICT, -1, name, builtins, 0, value) < 0) return -1;
    }
    if (arg & 1) *loop->top++ = NULL;
    Py_INCREF(value);
    *loop->top++ = value;
    return 0;
}

/* ---- jumps -------------------------------------------------------------------------------------------------------------- */
int op_jump_forward(nxpy_loop *loop, int arg) {
    loop->next += arg;
    return 0;
}

int op_jump_backward(nxpy_loop *loop, int arg) {
    loop->next -= arg;
    if ((loop->trace->n_instructions & 1023) == 0 && PyErr_CheckSignals() < 0) return nxpy__stop_error(loop->trace);
    return 0;
}

/* Truth of what cannot run code of the user's: 0, 1, or -1 stopped. */
int nxpy__truth(nxpy_trace *trace, PyObject *value) {
    if (nxpy_tensor_check(value)) return nxpy__stop(trace, NXPY_BREAK_BRANCH, NULL);
    if (PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) && !nxpy_constant_check(value)) {
        if (Py_TYPE(value)->tp_as_number && Py_TYPE(value)->tp_as_number->nb_bool) goto unknown;
        if (Py_TYPE(value)->tp_as_mapping && Py_TYPE(value)->tp_as_mapping->mp_length) goto unknown;
        if (Py_TYPE(value)->tp_as_sequence && Py_TYPE(value)->tp_as_sequence->sq_length) goto unknown;
        static const char *const names[] = {"__bool__", "__len__"}; /* that the class gains none */
        for (int k = 0; k < NX_COUNT(names); k++) {
            PyObject *name = PyUnicode_InternFromString(names[k]), *type = (PyObject *)Py_TYPE(value);
            int done = name ? nxpy__fetch(trace, NXPY_ROW_TYPE_VALUE, -1, name, type, 0, _PyType_Lookup(Py_TYPE(value), name)) : -1;
            Py_XDECREF(name);
            if (done < 0) return -1;
        }
        return 1;
    }
    const nxpy_note *note = PyDict_CheckExact(value) ? nxpy__note_find(trace, value) : NULL;
    bool foreign = note && note->kind == NXPY_NOTE_SOURCE;
    if (foreign && nxpy__check(trace, NXPY_ROW_LENGTH, note->slot, NULL, PyDict_GET_SIZE(value)) < 0) return -1;
    int truth = PyObject_IsTrue(value);
    return truth < 0 ? nxpy__stop_error(trace) : truth;
unknown:
    return nxpy__stop(trace, NXPY_BREAK_OPERATOR, "truth of %.200s", Py_TYPE(value)->tp_name);
}

static bool jumps_backward(int op) {
    return op == POP_JUMP_BACKWARD_IF_TRUE || op == POP_JUMP_BACKWARD_IF_FALSE || op == POP_JUMP_BACKWARD_IF_NONE ||
           op == POP_JUMP_BACKWARD_IF_NOT_NONE;
}

static void pop_and_jump(nxpy_loop *loop, bool jump, int arg) {
    Py_DECREF(*--loop->top);
    if (jump) loop->next += jumps_backward(loop->in.op) ? -arg : arg;
}

int op_pop_jump(nxpy_loop *loop, int arg) {
    PyObject *value = USE(1);
    int truth = value ? nxpy__truth(loop->trace, value) : -1, op = loop->in.op;
    if (truth < 0) return -1;
    bool when = op == POP_JUMP_FORWARD_IF_TRUE || op == POP_JUMP_BACKWARD_IF_TRUE;
    pop_and_jump(loop, truth == when, arg);
    return 0;
}

int op_pop_jump_none(nxpy_loop *loop, int arg) {
    PyObject *value = USE(1);
    if (!value) return -1;
    bool when = loop->in.op == POP_JUMP_FORWARD_IF_NONE || loop->in.op == POP_JUMP_BACKWARD_IF_NONE;
    pop_and_jump(loop, (value == Py_None) == when, arg);
    return 0;
}

int op_jump_or_pop(nxpy_loop *loop, int arg) {
    PyObject *value = USE(1);
    int truth = value ? nxpy__truth(loop->trace, value) : -1;
    if (truth < 0) return -1;
    if (truth == (loop->in.op == JUMP_IF_TRUE_OR_POP)) loop->next += arg;
    else Py_DECREF(*--loop->top);
    return 0;
}

/* ---- iteration ------------------------------------------------------------------------------------------------------------ */
int op_get_iter(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *of = USE(1);
    if (!of) return -1;
    PyTypeObject *type = Py_TYPE(of);
    bool container = type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type;
    if (nxpy__is_fake(trace, of)) return nxpy__finish(loop, 1, PyObject_GetIter(of));
    if (!container && !nxpy_constant_check(of) && !nxpy__is_born(trace, of)) {
        int python = nxpy__python_special(trace, of, "__iter__");
        if (python == 1) return nxpy__finish(loop, 1, PyObject_GetIter(of));
        if (python < 0) return -1;
        return nxpy__stop(trace, NXPY_BREAK_ITERATOR, "%.200s", type->tp_name);
    }
    if (nxpy__note_elements(trace, of) < 0) return -1;
    PyObject *iterator = PyObject_GetIter(of);
    if (!iterator) return nxpy__stop_error(trace);
    if (iterator != of && !nxpy__note_find(trace, iterator) && !nxpy__note_add(trace, iterator, NXPY_NOTE_BORN, -1)) {
        Py_DECREF(iterator);
        return -1;
    }
    Py_SETREF(loop->top[-1], iterator);
    return 0;
}

int op_for_iter(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *iterator = loop->top[-1];
    if (!nxpy__is_born(trace, iterator)) return nxpy__stop(trace, NXPY_BREAK_ITERATOR, "%.200s", Py_TYPE(iterator)->tp_name);
    PyObject *value = Py_TYPE(iterator)->tp_iternext(iterator);
    if (value) {
        if (!nxpy__note_find(trace, value) && nxpy__admit(trace, value) < 0) {
            Py_DECREF(value);
            trace->clean = false; /* the iterator has moved */
            return -1;
        }
        *loop->top++ = value;
        return 0;
    }
    if (PyErr_Occurred()) {
        if (trace->stop || !PyErr_ExceptionMatches(PyExc_StopIteration)) return nxpy__stop_error(trace);
        PyErr_Clear();
    }
    Py_DECREF(*--loop->top);
    loop->next += arg;
    return 0;
}

int op_unpack_sequence(nxpy_loop *loop, int arg) {
    nxpy_trace *trace = loop->trace;
    PyObject *of = USE(1);
    if (!of) return -1;
    if (nxpy__is_fake(trace, of)) { /* its parts along the first dimension */
        PyObject *parts = PySequence_Tuple(of);
        if (!parts || nxpy__admit(trace, parts) < 0) return Py_XDECREF(parts), nxpy__stop_error(trace);
        Py_SETREF(loop->top[-1], parts);
        of = parts;
    }
    if (!(nxpy__is_tuple(of) || PyList_CheckExact(of) || (PyTuple_Check(of) && nxpy_constant_check(of))) || Py_SIZE(of) != arg) {
        return nxpy__stop(trace, NXPY_BREAK_ITERATOR, "unpacking %.200s", Py_TYPE(of)->tp_name);
    }
    if (nxpy__note_elements(trace, of) < 0) return -1;
    loop->top--;
    for (int k = arg - 1; k >= 0; k--) {
        PyObject *value = PySequence_Fast_GET_ITEM(of, k);
        Py_INCREF(value);
        *loop->top++ = value;
    }
    Py_DECREF(of);
    return 0;
}

int op_return_value(nxpy_loop *loop, int arg) {
    if (loop == loop->trace->root_loop) return 1; /* the value stays: trace.c takes it */
    loop->result = *--loop->top;
    return 1;
}
