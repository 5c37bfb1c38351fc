/* Tensors and sizes that a function makes of numbers and arrays, what it asks of elements, and where a tensor begins.
 *
 * In: arguments from the stack. Out: what the function returns, not yet admitted. An array of numpy's that existed before is
 * an input of the graph, the tensor over its memory.
 * Next: calls.def, which says which functions come here. */
#include "loop/private.h"

#define ARGS nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names
#define USE_ALL(least, most) \
    if (!nxpy__use_all(loop, function, args, n, kw_names, least, most)) return NULL

/* ---- from numbers --------------------------------------------------------------------------------------------------- */
/* Numbers and lists of them, guarded; *open: the graph computes some of them. 1, 0, -1: stopped. */
static int is_data(nxpy_trace *trace, PyObject *o, int depth, bool *open) {
    bool computed = nxpy_symnumber_check(o) || nxpy_tensor_check(o);
    *open |= computed;
    if (computed || nxpy_constant_check(o)) return 1;
    if (depth == 0 && (nxpy__is_a(o, NXPY_KIND_ARRAY) || nxpy_dtype_from(o, &(nx_dtype){0}))) return 1;
    if (depth > 16 || !(PyList_CheckExact(o) || PyTuple_CheckExact(o) || Py_IS_TYPE(o, &nxpy_size_type))) return 0;
    int done = nxpy__note_elements(trace, o) < 0 ? -1 : 1;
    for (Py_ssize_t k = 0; done == 1 && k < Py_SIZE(o); k++) done = is_data(trace, PySequence_Fast_GET_ITEM(o, k), depth + 1, open);
    return done;
}

static PyObject *copy_constant(nxpy_trace *trace, nx_tensor *constant) {
    nx_tensor *fake = NULL;
    nx_node *node;
    nx_status status = nx_graph_constant(trace->graph, "_tensor_constant", constant, &node);
    if (status == NX_OK) status = nxpy__fake_new(constant, &fake);
    if (status == NX_OK) status = nx_tracer_bind(&trace->tracer, fake, node, 0);
    if (status != NX_OK) {
        nx_tensor_unref(fake); /* NULL is allowed */
        return nxpy_raise(status);
    }
    PyObject *object = nxpy_tensor_take(fake), *result = object ? PyObject_CallMethod(object, "clone", NULL) : NULL;
    Py_XDECREF(object);
    return result;
}

/* What a graph computes is made a tensor by Python code of ours, `function`. */
static PyObject *made_in_graph(nxpy_loop *loop, const char *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    PyObject *name = nxpy__name("narthex._from_numpy"), *module = name ? nxpy__loaded(loop->trace, name) : NULL;
    PyObject *maker = module ? PyObject_GetAttrString(module, function) : NULL;
    bool known = maker && nxpy__fixed(loop->trace, maker) == 0;
    PyObject *result = known ? nxpy__call(loop, maker, args, n, kw_names) : NULL;
    Py_XDECREF(maker);
    return result;
}

PyObject *nxpy__constant_of(nxpy_trace *trace, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names) {
    PyObject *error[3];
    nxpy_aside aside = nxpy__aside_begin();
    nx_tracer *tracer = nx_thread_get()->tracer;
    nx_thread_get()->tracer = NULL;
    PyObject *made = PyObject_Vectorcall(function, args, (size_t)(n - (kw_names ? PyTuple_GET_SIZE(kw_names) : 0)), kw_names);
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    nx_thread_get()->tracer = tracer;
    nxpy__aside_end(aside);
    PyErr_Restore(error[0], error[1], error[2]);
    PyObject *result = made ? copy_constant(trace, nxpy_tensor_get(made)) : NULL;
    Py_XDECREF(made);
    if (!result) nxpy__stop_error(trace);
    return result;
}

PyObject *nxpy__special_tensor(ARGS) {
    nxpy_trace *trace = loop->trace;
    Py_ssize_t n_names = kw_names ? PyTuple_GET_SIZE(kw_names) : 0;
    bool open = false, array = false;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *use = nxpy__use(trace, args[k]), *input = NULL;
        PyObject *name = k < n - n_names ? NULL : PyTuple_GET_ITEM(kw_names, k - (n - n_names));
        if (!use || nxpy__array_input(trace, use, &input) < 0) return NULL;
        if (input) Py_SETREF(args[k], Py_NewRef(use = input));
        array |= input != NULL;
        int data = is_data(trace, use, 0, &open);
        if (data < 0) return NULL;
        bool history = name && PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0 && args[k] != Py_False;
        if (!data || history) return nxpy__stopped(loop, function);
    }
    const char *maker = array ? "array_in_graph" : "tensor_in_graph";
    return open ? made_in_graph(loop, maker, args, n, kw_names) : nxpy__constant_of(trace, function, args, n, kw_names);
}

PyObject *nxpy__special_size(ARGS) {
    USE_ALL(1, 1);
    PyObject *tuple = nxpy__sequence(loop, args[0], true);
    PyObject *made = tuple ? PyObject_CallOneArg(function, tuple) : NULL;
    Py_XDECREF(tuple);
    if (!made) nxpy__stop_error(loop->trace);
    return made;
}

/* ---- elements --------------------------------------------------------------------------------------------------------- */
/* Elements that the graph computes, where it may not end (elements.c). */
static PyObject *told(nxpy_loop *loop, PyObject *function, PyObject *tensor) {
    PyObject *value = PyObject_CallOneArg(function, tensor);
    if (!value) nxpy__stop_error(loop->trace);
    return value;
}

/* The element of an input is read and guarded; one that is computed ends the graph. */
PyObject *nxpy__special_item(ARGS) {
    USE_ALL(1, 1);
    PyObject *number = NULL;
    bool few = nxpy_tensor_check(args[0]) && nxpy_tensor_get(args[0])->a.dtype == NX_BOOL;
    int known = nxpy_tensor_check(args[0]) ? nxpy__element(loop->trace, args[0], few, &number) : 0;
    if (known == 0 && nx_thread_get()->tell) return told(loop, function, args[0]);
    return known < 0 ? NULL : known ? number : nxpy__stopped(loop, function);
}

/* torch.nonzero, equal, allclose: the same. */
PyObject *nxpy__special_by_elements(ARGS) {
    if (!nx_thread_get()->tell) return nxpy__stopped(loop, function);
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *used = nxpy__use(loop->trace, args[k]);
        if (!used) return NULL;
        Py_SETREF(args[k], Py_NewRef(used));
    }
    PyObject *value = PyObject_Vectorcall(function, args, (size_t)(n - (kw_names ? PyTuple_GET_SIZE(kw_names) : 0)), kw_names);
    if (!value) nxpy__stop_error(loop->trace);
    return value;
}

PyObject *nxpy__special_tolist(ARGS) {
    USE_ALL(1, 1);
    return nx_thread_get()->tell ? told(loop, function, args[0]) : nxpy__stopped(loop, function);
}

/* ---- where a tensor begins ------------------------------------------------------------------------------------------ */
/* An input's place in its storage is guarded; what stands for it begins at 0. */
PyObject *nxpy__special_storage_offset(ARGS) {
    USE_ALL(1, 1);
    const nx_tensor *fake = nx_tensor_whole(nxpy_tensor_get(args[0]));
    const nxpy_note *input = nxpy__input_of(loop->trace, fake->storage);
    int64_t before = input && input->real ? nxpy_tensor_get(input->real)->offset : 0;
    if (input && input->real && nxpy__check(loop->trace, NXPY_ROW_OFFSET, input->slot, NULL, before) < 0) return NULL;
    PyObject *own = PyObject_CallOneArg(function, args[0]), *first = PyLong_FromLongLong(before);
    PyObject *sum = own && first && before ? PyNumber_Add(own, first) : Py_XNewRef(own);
    Py_XDECREF(own);
    Py_XDECREF(first);
    if (!sum) nxpy__stop_error(loop->trace);
    return sum;
}

/* ---- attributes that are written ------------------------------------------------------------------------------------- */
/* x.data = value: what the trace has made, or an input without a gradient, shows from here on what the value shows. */
static int write_data(nxpy_trace *trace, PyObject *tensor, PyObject *value) {
    const nxpy_note *note = nxpy__note_find(trace, tensor);
    nx_tensor *own = nxpy_tensor_get(tensor);
    bool alone = !nx_tensor_requires_grad(own) || note->leaf; /* nothing leads to it but the tensor itself */
    bool given = note && note->is_input && note->real, made = !given && nxpy__is_made(tensor) && !note->is_input;
    nx_value node;
    if (!(made || given) || trace->region || own->whole || !alone) return 1;
    PyObject *use = nxpy__use(trace, value), *shown = use ? PyObject_CallMethod(use, "detach", NULL) : NULL;
    if (!use) return -1;
    bool found = shown && nx_tracer_find(&trace->tracer, nxpy_tensor_get(shown), &node);
    int done = found ? PyObject_SetAttrString(tensor, "data", shown) : -1;
    if (done == 0 && given) done = nxpy__write_data(trace, tensor, shown);
    Py_XDECREF(shown);
    if (done < 0) return nxpy__stop_error(trace);
    nx_status status = nx_tracer_bind(&trace->tracer, own, node.node, node.n);
    return status == NX_OK ? 0 : (nxpy_raise(status), nxpy__stop_error(trace));
}

int nxpy__store_of_tensor(nxpy_trace *trace, PyObject *tensor, PyObject *name, PyObject *value) {
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return nxpy__stop_error(trace);
    if (strcmp(text, "grad") == 0) return nxpy__write_grad(trace, tensor, value);
    bool requires = strcmp(text, "requires_grad") == 0 && value && PyBool_Check(value);
    if (requires) return nxpy__set_requires_grad(trace, tensor, value == Py_True) < 0 ? -1 : 0;
    return strcmp(text, "data") == 0 && value && nxpy_tensor_check(value) ? write_data(trace, tensor, value) : 1;
}
