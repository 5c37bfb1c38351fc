/* narthex.autograd.Function.apply in the usual case: forward takes the context and tensors, or setup_context takes the context
 * after it, and forward gives new tensors or some of these; and what its backward finds and gives, in the usual case.
 *
 * In: the class and its arguments. Out: forward's results, with a node that calls the class's backward as their history.
 * What must hold: it does what _apply in python/narthex/autograd/function.py does, and leaves to that, or to its second half
 * (_finish), whatever is anything else: keywords, defaults beside a setup_context, maps, tangents, hooks of saved tensors,
 * classes of tensors of the program's own, and what the context says of arguments and results.
 * Next: function.c for the node. */
#include "autograd/autograd.h"

/* What belongs to it in Python, told once: function_parts(). */
static PyObject *context_class, *backward_class, *plain_setup, *apply_slow, *finish_slow, *no_tuple;
#define NAMES(name) name(forward) name(setup_context) name(needs_input_grad) name(detach) name(view_as) \
                    name(_to_save) name(_dirty) name(_constant) name(_results) name(_saved) name(_n_saved)
#define DECLARE(name) static PyObject *str_##name;
NAMES(DECLARE)

typedef struct application {
    PyObject *class, *args, *context;
    PyObject *forward, *setup; /* setup: NULL, forward takes the context */
    nx_grad_node *node;      /* NULL: nothing is recorded */
} application;

static bool is_usual(PyObject *o) { return Py_IS_TYPE(o, nxpy_tensor_class) || Py_TYPE(o)->tp_base == nxpy_tensor_class; }

/* Whether it takes n arguments, none of which has another name or way. */
static bool takes(PyObject *forward, Py_ssize_t n) {
    if (!PyFunction_Check(forward)) return false;
    const PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(forward);
    return code->co_argcount == n && !code->co_kwonlyargcount && !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
}

/* Finds forward and setup_context. */
static bool is_plain(application *a, PyObject *keywords) {
    PyObject *args = a->args;
    const nx_thread *thread = nx_thread_get();
    bool special = thread->n_levels || thread->saved_hooks || thread->tracer || thread->function_modes || thread->dispatch_modes;
    if (!context_class || PyDict_GET_SIZE(keywords) || special || nx_tangents_open()) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args); k++) {
        PyObject *arg = PyTuple_GET_ITEM(args, k);
        if (nxpy_tensor_check(arg) && (!is_usual(arg) || nxpy_overrides(arg))) return false;
    }
    a->forward = PyObject_GetAttr(a->class, str_forward);
    a->setup = a->forward ? PyObject_GetAttr(a->class, str_setup_context) : NULL;
    if (!a->setup) return PyErr_Clear(), false;
    if (a->setup == plain_setup) Py_CLEAR(a->setup);
    return !a->setup || takes(a->forward, PyTuple_GET_SIZE(args));
}

/* (shape, dtype, device) of a tensor, or for results (..., requires_grad, levels); None of anything else. */
static PyObject *facts_of(PyObject *o, bool of_result) {
    if (!nxpy_tensor_check(o)) return Py_NewRef(Py_None);
    const nx_tensor *tensor = nxpy_tensor_get(o);
    PyObject *facts = PyTuple_New(of_result ? 5 : 3);
    if (!facts) return NULL;
    PyTuple_SET_ITEM(facts, 0, nxpy_size_object(tensor->a.ndim, tensor->a.sizes));
    PyTuple_SET_ITEM(facts, 1, nxpy_dtype_object(tensor->a.dtype));
    PyTuple_SET_ITEM(facts, 2, nxpy_device_object(tensor->a.device));
    if (of_result) {
        PyTuple_SET_ITEM(facts, 3, PyBool_FromLong(nx_tensor_requires_grad(tensor)));
        PyTuple_SET_ITEM(facts, 4, PyLong_FromLong(0));
    }
    for (int k = 0; facts && k < 3; k++) if (!PyTuple_GET_ITEM(facts, k)) Py_CLEAR(facts);
    return facts;
}

/* A tuple of the facts of each. */
static PyObject *all_facts(PyObject *const *values, Py_ssize_t n, bool of_results) {
    PyObject *all = PyTuple_New(n);
    for (Py_ssize_t k = 0; all && k < n; k++) {
        PyObject *facts = facts_of(values[k], of_results);
        if (facts) PyTuple_SET_ITEM(all, k, facts);
        else Py_CLEAR(all);
    }
    return all;
}

/* The context, which knows who needs a gradient; 1: somebody does; 0; -1 with an exception. */
static int make_context(application *a) {
    Py_ssize_t n = PyTuple_GET_SIZE(a->args);
    PyObject *needs = PyTuple_New(n);
    int any = 0;
    for (Py_ssize_t k = 0; needs && k < n; k++) {
        PyObject *arg = PyTuple_GET_ITEM(a->args, k);
        bool does = nxpy_tensor_check(arg) && nx_tensor_requires_grad(nxpy_tensor_get(arg));
        PyTuple_SET_ITEM(needs, k, PyBool_FromLong(does));
        any |= does;
    }
    a->context = needs ? PyObject_CallNoArgs(context_class) : NULL;
    int done = a->context ? PyObject_SetAttr(a->context, str_needs_input_grad, needs) : -1;
    Py_XDECREF(needs);
    return done < 0 ? -1 : any;
}

static int make_node(application *a) {
    PyObject *facts = all_facts(((PyTupleObject *)a->args)->ob_item, PyTuple_GET_SIZE(a->args), false);
    PyObject *call = facts ? PyObject_CallFunctionObjArgs(backward_class, a->class, a->context, facts, NULL) : NULL;
    char name[256];
    snprintf(name, sizeof name, "%sBackward", ((PyTypeObject *)a->class)->tp_name);
    nx_status status = call ? nxpy_function_node(a->args, name, call, &a->node) : nxpy_caught();
    Py_XDECREF(call);
    Py_XDECREF(facts);
    return status == NX_OK ? 0 : (nxpy_raise(status), -1);
}

static PyObject *call_with_context(const application *a) {
    PyObject *local[16], **all = local;
    Py_ssize_t n = PyTuple_GET_SIZE(a->args);
    if (n + 1 > NX_COUNT(local) && !(all = nx_alloc(sizeof *all * (size_t)(n + 1)))) return nxpy_raise(NX_NO_MEMORY);
    all[0] = a->context;
    memcpy(all + 1, ((PyTupleObject *)a->args)->ob_item, sizeof *all * (size_t)n);
    PyObject *given = PyObject_Vectorcall(a->forward, all, (size_t)(n + 1), NULL);
    if (all != local) nx_free(all);
    return given;
}

/* forward, then setup_context. */
static PyObject *call_and_set_up(const application *a) {
    PyObject *given = PyObject_Call(a->forward, a->args, NULL);
    PyObject *done = given ? PyObject_CallFunctionObjArgs(a->setup, a->context, a->args, given, NULL) : NULL;
    if (!done) Py_CLEAR(given);
    Py_XDECREF(done);
    return given;
}

static PyObject *run_forward(const application *a) {
    bool recorded = nx_grad_enabled(), tangents = nx_forward_enabled();
    nx_grad_set_enabled(false);
    nx_forward_set_enabled(false);
    PyObject *given = a->setup ? call_and_set_up(a) : call_with_context(a);
    nx_forward_set_enabled(tangents);
    nx_grad_set_enabled(recorded);
    return given;
}

/* Whether the context's tuple of that name is empty: 1, 0, or -1 with an exception. */
static int says_nothing(PyObject *context, PyObject *name) {
    PyObject *value = PyObject_GetAttr(context, name);
    int nothing = !value ? -1 : PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 0;
    Py_XDECREF(value);
    return nothing;
}

static Py_ssize_t place_of(PyObject *const *values, Py_ssize_t n, PyObject *wanted) {
    for (Py_ssize_t k = 0; k < n; k++) if (values[k] == wanted) return k;
    return -1;
}

static bool is_argument(const application *a, PyObject *o) {
    return place_of(((PyTupleObject *)a->args)->ob_item, PyTuple_GET_SIZE(a->args), o) >= 0;
}

/* All results, or views of those that are arguments, may simply get the node: 1, 0, or -1 with an exception. */
static int are_simple(const application *a, PyObject *const *results, Py_ssize_t n) {
    for (Py_ssize_t k = 0; k < n; k++) {
        if (!nxpy_tensor_check(results[k])) continue;
        const nx_tensor *tensor = nxpy_tensor_get(results[k]);
        if (!is_usual(results[k]) || nxpy_overrides(results[k])) return 0;
        bool gets = a->node && (nx_is_float(tensor->a.dtype) || nx_is_complex(tensor->a.dtype));
        if (!gets && nx_tensor_requires_grad(tensor)) return 0;
        if (place_of(results, k, results[k]) >= 0) return 0;
    }
    int quiet = says_nothing(a->context, str__dirty);
    return quiet == 1 ? says_nothing(a->context, str__constant) : quiet;
}

/* What forward gave as the caller gets it: an argument as a view that may not be written, as what forward takes a view of. */
static PyObject *without_arguments(const application *a, PyObject *given, PyObject *const *results, Py_ssize_t n) {
    bool some = false, recorded = nx_grad_enabled();
    for (Py_ssize_t k = 0; k < n; k++) some |= nxpy_tensor_check(results[k]) && is_argument(a, results[k]);
    if (!some) return Py_NewRef(given);
    PyObject *made = PyTuple_New(n), *one;
    nx_grad_set_enabled(false);
    for (Py_ssize_t k = 0; made && k < n; k++) {
        bool shown = nxpy_tensor_check(results[k]) && is_argument(a, results[k]);
        one = shown ? PyObject_CallMethodOneArg(results[k], str_view_as, results[k]) : Py_NewRef(results[k]);
        if (one) PyTuple_SET_ITEM(made, k, one);
        else Py_CLEAR(made);
    }
    nx_grad_set_enabled(recorded);
    if (!made || PyTuple_Check(given)) return made;
    one = Py_NewRef(PyTuple_GET_ITEM(made, 0));
    Py_DECREF(made);
    return one;
}

static int give_history(const application *a, PyObject *const *results, Py_ssize_t n) {
    for (Py_ssize_t k = 0; k < n; k++) {
        nx_tensor *tensor = nxpy_tensor_check(results[k]) ? nxpy_tensor_get(results[k]) : NULL;
        if (!tensor || !(nx_is_float(tensor->a.dtype) || nx_is_complex(tensor->a.dtype))) continue;
        nx_status status = nxpy_function_tie(results[k], a->node, (int)k, false);
        if (status != NX_OK) return nxpy_raise(status), -1;
    }
    return 0;
}

/* (tensor, its version, number of the result that it is, without history, or -1), as FunctionCtx._unpack takes it. */
static PyObject *saved_entry(const application *a, PyObject *tensor, PyObject *const *results, Py_ssize_t n) {
    if (tensor == Py_None) return Py_BuildValue("Oii", Py_None, 0, -1);
    Py_ssize_t at = is_argument(a, tensor) ? -1 : place_of(results, n, tensor);
    PyObject *kept = at >= 0 ? PyObject_CallMethodNoArgs(tensor, str_detach) : Py_NewRef(tensor);
    return kept ? Py_BuildValue("NIn", kept, (unsigned)nx_tensor_version(nxpy_tensor_get(kept)), at) : NULL;
}

static int save(const application *a, PyObject *const *results, Py_ssize_t n) {
    PyObject *wanted = PyObject_GetAttr(a->context, str__to_save), *saved = NULL, *count = NULL;
    Py_ssize_t n_saved = wanted ? PyTuple_GET_SIZE(wanted) : 0;
    if (wanted) saved = PyList_New(n_saved);
    for (Py_ssize_t k = 0; saved && k < n_saved; k++) {
        PyObject *entry = saved_entry(a, PyTuple_GET_ITEM(wanted, k), results, n);
        if (entry) PyList_SET_ITEM(saved, k, entry);
        else Py_CLEAR(saved);
    }
    int done = saved ? PyObject_SetAttr(a->context, str__saved, saved) : -1;
    if (done == 0 && n_saved) {
        done = (count = PyLong_FromSsize_t(n_saved)) ? PyObject_SetAttr(a->context, str__n_saved, count) : -1;
        if (done == 0) nxpy_function_keep(a->node, saved);
    }
    Py_XDECREF(count);
    Py_XDECREF(saved);
    Py_XDECREF(wanted);
    return done;
}

static PyObject *finish(const application *a, PyObject *given) {
    bool tuple = PyTuple_Check(given), usual = !tuple || PyTuple_CheckExact(given);
    PyObject *const *results = tuple ? ((PyTupleObject *)given)->ob_item : &given;
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(given) : 1;
    int simple = usual ? are_simple(a, results, n) : 0;
    if (simple < 0) return NULL;
    if (!simple) {
        PyObject *node = a->node ? nxpy_grad_node_object(a->node) : Py_NewRef(Py_None), *result = NULL;
        if (node) result = PyObject_CallFunctionObjArgs(finish_slow, a->class, a->context, node, a->args, given, NULL);
        Py_XDECREF(node);
        return result;
    }
    PyObject *made = without_arguments(a, given, results, n);
    if (!made || !a->node) return made;
    PyObject *const *all = tuple ? ((PyTupleObject *)made)->ob_item : &made;
    PyObject *facts = give_history(a, all, n) == 0 ? all_facts(all, n, true) : NULL;
    int done = facts ? PyObject_SetAttr(a->context, str__results, facts) : -1;
    Py_XDECREF(facts);
    if (done == 0 && save(a, results, n) == 0) return made;
    Py_DECREF(made);
    return NULL;
}

/* Results among what the context was told would hold the node, which holds the context. */
static void forget(PyObject *context) {
    PyObject *const names[] = {str__to_save, str__dirty, str__constant};
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    for (int k = 0; k < NX_COUNT(names); k++) {
        if (says_nothing(context, names[k]) == 0 && PyObject_SetAttr(context, names[k], no_tuple) == 0) continue;
        PyErr_Clear();
    }
    PyErr_Restore(type, value, trace);
}

static PyObject *apply(application *a) {
    PyObject *result = NULL;
    int differentiated = make_context(a);
    bool ready = differentiated >= 0 && (!differentiated || !nx_grad_enabled() || make_node(a) == 0);
    PyObject *given = ready ? run_forward(a) : NULL;
    if (given) result = finish(a, given);
    Py_XDECREF(given);
    if (a->context) forget(a->context);
    if (a->node) nx_grad_node_unref(a->node);
    Py_XDECREF(a->context);
    return result;
}

static PyObject *function_apply(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    application a = {0};
    if (n != 3 || !PyType_Check(given[0]) || !PyTuple_Check(given[1]) || !PyDict_Check(given[2])) {
        return PyErr_Format(PyExc_TypeError, "function_apply: expected a class, a tuple and a dict");
    }
    a.class = given[0];
    a.args = given[1];
    PyObject *result = is_plain(&a, given[2]) ? apply(&a) : PyObject_CallFunctionObjArgs(apply_slow, a.class, a.args, given[2], NULL);
    Py_XDECREF(a.forward);
    Py_XDECREF(a.setup);
    return result;
}

/* ---- backward: each gives None where it is no usual case, which Python then does ------------------------------------------- */
/* function_gradients(gradients, results' facts): the gradients, if there is one for each result, and no map. */
static PyObject *function_gradients(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    PyObject *grads = given[0], *results = n == 2 ? given[1] : NULL;
    bool usual = results && PyTuple_CheckExact(grads) && PyTuple_CheckExact(results) && !nx_thread_get()->n_levels;
    usual = usual && PyTuple_GET_SIZE(grads) == PyTuple_GET_SIZE(results);
    for (Py_ssize_t k = 0; usual && k < PyTuple_GET_SIZE(grads); k++) {
        PyObject *facts = PyTuple_GET_ITEM(results, k);
        usual = facts == Py_None || (PyTuple_GET_ITEM(grads, k) != Py_None && PyObject_Not(PyTuple_GET_ITEM(facts, 4)) == 1);
    }
    return Py_NewRef(usual ? grads : Py_None);
}

static PyObject *take_saved(PyObject *entry, nx_grad_node *node, PyObject *results) {
    PyObject *tensor = PyTuple_GET_ITEM(entry, 0);
    if (tensor == Py_None) return Py_NewRef(tensor);
    int at = (int)PyLong_AsLong(PyTuple_GET_ITEM(entry, 2));
    uint32_t version = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(entry, 1));
    NXPY_TRY(nxpy_check_saved(tensor, version, at >= 0 ? node : NULL, at > 0 ? at : 0));
    if (at < 0) return Py_NewRef(tensor);
    PyObject *alias = PyObject_CallMethodNoArgs(tensor, str_detach);
    bool tied = alias && node && PyTuple_GET_ITEM(PyTuple_GET_ITEM(results, at), 3) == Py_True;
    nx_status status = tied ? nxpy_function_tie(alias, node, at, false) : NX_OK;
    if (status == NX_OK) return alias;
    Py_DECREF(alias);
    return nxpy_raise(status);
}

/* function_saved(entries, node or None, results' facts): the tensors, if no hooks have packed them. */
static PyObject *function_saved(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    if (n != 3 || !PyList_CheckExact(given[0]) || !PyTuple_CheckExact(given[2])) Py_RETURN_NONE;
    PyObject *entries = PyList_AsTuple(given[0]), *tensors = entries ? PyTuple_New(PyTuple_GET_SIZE(entries)) : NULL;
    nx_grad_node *node = PyObject_TypeCheck(given[1], &nxpy_grad_node_type) ? nxpy_grad_node_get(given[1]) : NULL;
    bool usual = tensors != NULL;
    for (Py_ssize_t k = 0; usual && k < PyTuple_GET_SIZE(entries); k++) {
        PyObject *tensor = PyTuple_GET_ITEM(PyTuple_GET_ITEM(entries, k), 0);
        usual = tensor == Py_None || nxpy_tensor_check(tensor);
    }
    for (Py_ssize_t k = 0; usual && tensors && k < PyTuple_GET_SIZE(entries); k++) {
        PyObject *tensor = take_saved(PyTuple_GET_ITEM(entries, k), node, given[2]);
        if (tensor) PyTuple_SET_ITEM(tensors, k, tensor);
        else Py_CLEAR(tensors);
    }
    Py_XDECREF(entries);
    if (usual || !tensors) return tensors;
    Py_DECREF(tensors);
    Py_RETURN_NONE;
}

static bool fits(PyObject *o, PyObject *facts) {
    if (!is_usual(o) || !PyTuple_CheckExact(facts)) return false;
    const nx_tensor *grad = nxpy_tensor_get(o);
    PyObject *shape = PyTuple_GET_ITEM(facts, 0);
    nx_device device;
    bool same = PyTuple_GET_SIZE(shape) == grad->a.ndim && nxpy_dtype_get(PyTuple_GET_ITEM(facts, 1)) == grad->a.dtype;
    for (int k = 0; same && k < grad->a.ndim; k++) same = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, k)) == grad->a.sizes[k];
    if (!same || nxpy_device_from(PyTuple_GET_ITEM(facts, 2), &device) < 0) return nxpy_forget_error(), false;
    return device.type == grad->a.device.type && device.index == grad->a.device.index;
}

/* function_fit(what backward gave, arguments' facts, needs): a gradient of its argument's shape, dtype and device for each. */
static PyObject *function_fit(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    if (n != 3 || !PyTuple_CheckExact(given[1]) || !PyTuple_CheckExact(given[2]) || nx_thread_get()->n_levels) Py_RETURN_NONE;
    PyObject *const *grads = PyTuple_Check(given[0]) ? ((PyTupleObject *)given[0])->ob_item : given;
    Py_ssize_t n_inputs = PyTuple_GET_SIZE(given[1]), n_grads = PyTuple_Check(given[0]) ? PyTuple_GET_SIZE(given[0]) : 1;
    if (n_grads != n_inputs || PyTuple_GET_SIZE(given[2]) != n_inputs) Py_RETURN_NONE;
    for (Py_ssize_t k = 0; k < n_inputs; k++) {
        if (grads[k] != Py_None && !fits(grads[k], PyTuple_GET_ITEM(given[1], k))) Py_RETURN_NONE;
    }
    PyObject *fitted = PyTuple_New(n_inputs);
    for (Py_ssize_t k = 0; fitted && k < n_inputs; k++) {
        PyTuple_SET_ITEM(fitted, k, Py_NewRef(PyTuple_GET_ITEM(given[2], k) == Py_True ? grads[k] : Py_None));
    }
    return fitted;
}

static PyObject *function_parts(PyObject *module, PyObject *args) {
    PyObject *parts[5];
    if (!PyArg_ParseTuple(args, "OOOOO:function_parts", &parts[0], &parts[1], &parts[2], &parts[3], &parts[4])) return NULL;
    Py_XSETREF(context_class, Py_NewRef(parts[0]));
    Py_XSETREF(backward_class, Py_NewRef(parts[1]));
    Py_XSETREF(plain_setup, Py_NewRef(parts[2]));
    Py_XSETREF(apply_slow, Py_NewRef(parts[3]));
    Py_XSETREF(finish_slow, Py_NewRef(parts[4]));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"function_apply", (PyCFunction)(void (*)(void))function_apply, METH_FASTCALL,
     "function_apply(class, args, keywords): Function.apply."},
    {"function_gradients", (PyCFunction)(void (*)(void))function_gradients, METH_FASTCALL,
     "function_gradients(gradients, results' facts): the gradients, or None: they are to be made."},
    {"function_saved", (PyCFunction)(void (*)(void))function_saved, METH_FASTCALL,
     "function_saved(entries, node or None, results' facts): the tensors, or None: hooks have packed one."},
    {"function_fit", (PyCFunction)(void (*)(void))function_fit, METH_FASTCALL,
     "function_fit(given, arguments' facts, needs): a gradient for each argument, or None: they are to be looked at."},
    {"function_parts", function_parts, METH_VARARGS,
     "function_parts(context class, backward class, Function.setup_context, _apply, _finish): what function_apply needs of Python."},
    {NULL}};

int nxpy_add_apply(PyObject *module) {
#define INTERN(name) if (!(str_##name = PyUnicode_InternFromString(#name))) return -1;
    NAMES(INTERN)
    return (no_tuple = PyTuple_New(0)) ? PyModule_AddFunctions(module, functions) : -1;
}
