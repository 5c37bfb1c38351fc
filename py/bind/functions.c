/* PyTorch's functions and tensor methods as callables over operators.
 * One C function serves nearly all: it tries the overloads in order (arguments.c), calls the operator, wraps the results.
 * While a trace records, the thread is told under which name the user knows the call. A shortcut is such a callable that
 * stands for a Python function; equal, allclose and nonzero, which are more than one operator, are functions of their own. */
#include "bind/private.h"

#include <structmember.h>

typedef struct function_object {
    PyObject_HEAD
    vectorcallfunc call;
    const nxpy_function_def *def;
    nxpy_overload *overloads;
    PyObject *name;
    PyObject *python;       /* a shortcut or shell: what it means, NULL; a shell has no overloads */
    Py_ssize_t n_shared;    /* arguments by position that both take alike */
    bool spells;            /* a shell: who answers for it is told all arguments, those left out as well */
} function_object;

/* ---- results with names: torch.return_types.max(values=..., indices=...) ----------------------------------------------- */
static PyTypeObject **named_types; /* by the operator's index, made at the first such result */

static PyObject *named_repr(PyObject *self) {
    PyObject *text = PyUnicode_FromFormat("%s(", Py_TYPE(self)->tp_name);
    for (Py_ssize_t i = 0; text && i < PyTuple_GET_SIZE(self); i++) {
        const char *name = Py_TYPE(self)->tp_members[i].name;
        PyObject *before = text;
        text = PyUnicode_FromFormat("%U%s\n%s=%R", before, i ? "," : "", name, PyTuple_GET_ITEM(self, i));
        Py_DECREF(before);
    }
    PyObject *whole = text ? PyUnicode_FromFormat("%U)", text) : NULL;
    Py_XDECREF(text);
    return whole;
}

static int length_of_name(const nx_op *op) { return (int)strcspn(op->def->name, "."); }

/* The type that another overload of the name has. */
static PyTypeObject *overloads_type(const nx_op *op) {
    int n = length_of_name(op);
    for (int k = 0; k < nx_op_count(); k++) {
        const nx_op *other = nx_op_at(k);
        bool same = named_types[k] && length_of_name(other) == n && strncmp(other->def->name, op->def->name, (size_t)n) == 0;
        if (same && other->def->n_out == op->def->n_out) return named_types[k];
    }
    return NULL;
}

static PyTypeObject *named_type(const nx_op *op) {
    PyStructSequence_Field fields[9] = {{NULL}};
    char name[96];
    if (named_types == NULL && (named_types = PyMem_Calloc((size_t)nx_op_count(), sizeof *named_types)) == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    PyTypeObject **type = &named_types[op->index];
    if (*type || (*type = overloads_type(op)) != NULL) return *type;
    for (int i = 0; i < op->def->n_out; i++) fields[i].name = op->def->result_names[i];
    const char *base = strstr(op->def->name, "::") + 2;
    snprintf(name, sizeof name, "torch.return_types.%.*s", (int)strcspn(base, "."), base);
    PyStructSequence_Desc desc = {.name = name, .fields = fields, .n_in_sequence = op->def->n_out};
    if ((*type = PyStructSequence_NewType(&desc)) == NULL) return NULL;
    (*type)->tp_repr = (*type)->tp_str = named_repr;
    return *type;
}

static PyObject *named_result(PyObject *module, PyObject *name) {
    const char *wanted = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    if (wanted == NULL) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "named_result: expected a name");
    for (int k = 0; k < nx_op_count(); k++) {
        const nx_op *op = nx_op_at(k);
        if (op->def->result_names == NULL || strncmp(op->def->name, "aten::", 6) != 0) continue;
        bool same = (size_t)length_of_name(op) == strlen(wanted) + 6 && strncmp(op->def->name + 6, wanted, strlen(wanted)) == 0;
        if (same) return Py_XNewRef((PyObject *)named_type(op));
    }
    Py_RETURN_NONE;
}

static PyObject *new_named(const nx_op *op) {
    PyTypeObject *type = named_type(op);
    return type ? PyStructSequence_New(type) : NULL;
}

/* ---- calling ------------------------------------------------------------------------------------------------------ */
static PyObject *wrap_results(const nx_op *op, nx_value *out) {
    int n = op->def->n_out;
    if (NX_LIKELY(n == 1)) {
        if (out[0].tag == NX_TAG_TENSOR) return nxpy_tensor_take(out[0].tensor);
        if (!(op->def->flags & NX_OP_LIST)) return nxpy_value_object(&out[0]);
    }
    if (n == 0) Py_RETURN_NONE;
    nx_value *results;
    int n_results = nx_results_of(op, out, &results);
    PyObject *tuple = op->def->result_names ? new_named(op) : PyTuple_New(n_results);
    for (int i = 0; tuple && i < n_results; i++) {
        PyObject *item = nxpy_value_object(&results[i]);
        if (item) PyTuple_SET_ITEM(tuple, i, item);
        else Py_CLEAR(tuple);
    }
    for (int i = 0; i < n; i++) nx_value_drop(&out[i]);
    return tuple;
}

PyObject *nxpy_call(const nx_op *op, const nx_value *in) {
    nx_value out[8];
    nx_status status = nx_op_call(op, in, out);
    if (NX_UNLIKELY(status != NX_OK)) return nxpy_raise(status);
    return wrap_results(op, out);
}

/* Operators that give their own argument back, or a new tensor, as its shape is: that is fixed where sizes are left open. */
static int fix_identity(const nx_op *op, const nx_value *in) {
    nx_tensor *x = in[0].tensor;
    if (strcmp(op->def->name, "aten::contiguous") == 0) return nxpy_size_fix_format(x, in[1].i);
    if (strncmp(op->def->name, "aten::dropout", 13) != 0) return 0;
    PyObject *numel = nxpy_size_read(x, NX_INT_NUMEL, 0, x->a.numel);
    int some = numel ? PyObject_IsTrue(numel) : -1; /* leaves the check */
    Py_XDECREF(numel);
    return some < 0 ? -1 : 0;
}

static PyObject *call_overload(function_object *self, const nx_op *op, nxpy_args *args) {
    nx_thread *thread = nx_thread_get();
    if (NX_UNLIKELY(thread->tracer != NULL)) {
        if (NX_UNLIKELY(thread->tracer->varies) && fix_identity(op, args->in) < 0) return NULL;
        thread->target = self->def->is_method ? self->def->name : self->def->target;
        thread->target_is_method = self->def->is_method;
    }
    PyObject *result = nxpy_call(op, args->in);
    thread->target = NULL;
    if (result && args->requires_grad && nxpy_tensor_check(result)) {
        nx_status status = nx_tensor_set_requires_grad(nxpy_tensor_get(result), true);
        if (status != NX_OK) {
            Py_DECREF(result);
            return nxpy_raise(status);
        }
    }
    return result;
}

static void add_given(nx_text *text, PyObject *const *given, Py_ssize_t n, PyObject *keywords) {
    for (Py_ssize_t i = 0; i < n; i++) nx_text_add(text, i ? ", %s" : "%s", nxpy_type_text(given[i]));
    for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); i++) {
        nx_text_add(text, n + i ? ", %s=%s" : "%s=%s", PyUnicode_AsUTF8(PyTuple_GET_ITEM(keywords, i)), nxpy_type_text(given[n + i]));
    }
}

/* Whether the i-th overload is another operator than those before: under an old name some stand twice. */
static bool is_form(const function_object *self, int i) {
    bool is_new = true;
    for (int j = 0; j < i; j++) is_new = is_new && self->overloads[j].op != self->overloads[i].op;
    return is_new;
}

/* The functions of PyTorch whose one form takes numbers for tensors, also at the beginning. */
static bool takes_numbers(const char *name) {
    static const char *const names[] = {"add",      "bitwise_and", "bitwise_or", "bitwise_xor", "div",        "divide", "floor_divide",
                                        "mul",      "multiply",    "sub",        "subtract",    "true_divide"};
    const char *base = strncmp(name, "aten::", 6) == 0 ? name + 6 : name; /* the operator itself, by an overload */
    size_t length = strcspn(base, ".");
    bool found = false;
    if (length && base[length - 1] == '_') length--; /* in place */
    for (int i = 0; i < NX_COUNT(names); i++) found = found || (strlen(names[i]) == length && strncmp(base, names[i], length) == 0);
    return found;
}

/* Whether one overload stands for PyTorch's two, of which one has a number behind the tensor. */
static bool takes_number_second(const char *name, const nx_op_def *def) {
    for (int k = 1; k < def->n_in && !takes_numbers(name); k++) {
        if (def->params[k].number_too) return true;
    }
    return false;
}

static PyObject *raise_mismatch(function_object *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords, const char *why) {
    const nxpy_function_def *def = self->def;
    int n_forms = 0;
    for (int i = 0; i < def->n_overloads; i++) {
        const nx_op_def *own = self->overloads[i].op->def;
        if (is_form(self, i) && own->variant != NX_OUT) n_forms += 1 + takes_number_second(def->name, own);
    }
    const char *between = strncmp(why, "argument '", 10) == 0 ? ": " : " ";
    if (n_forms == 1) return PyErr_Format(PyExc_TypeError, "%s()%s%s", def->name, between, why);
    nx_text text = {0};
    nx_text_add(&text, "%s() received an invalid combination of arguments - got (", def->name);
    Py_ssize_t skip = def->is_method ? 1 : 0;
    add_given(&text, given + skip, n - skip, keywords);
    nx_text_add(&text, "), but expected one of:\n");
    for (int i = 0; i < def->n_overloads; i++) {
        if (is_form(self, i)) nx_text_add(&text, " * %s\n", self->overloads[i].op->def->schema);
    }
    char *message;
    NXPY_TRY(nx_text_take(&text, &message));
    PyErr_SetString(PyExc_TypeError, message);
    nx_free(message);
    return NULL;
}

/* ---- numbers and tensors in each other's place, when no overload fits ---------------------------------------------------- */
/* The functions that PyTorch's parser lets a number begin: torch.div(7, 2). bitwise_: before a tensor alone. */
static bool takes_first_number(const nxpy_function_def *def, PyObject *second) {
    return !def->is_method && takes_numbers(def->name) && (strncmp(def->name, "bitwise_", 8) != 0 || nxpy_tensor_check(second));
}

static PyObject *try_overloads(function_object *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords, nxpy_args *args) {
    for (int i = 0; i < self->def->n_overloads; i++) {
        int parsed = nxpy_parse(&self->overloads[i], self->def->is_method, given, n, keywords, args, NULL, 0);
        if (parsed == 1) return call_overload(self, self->overloads[i].op, args);
        if (parsed < 0) return NULL;
    }
    return NULL;
}

/* Whether `o` is a tensor or a list with one, or with an array of numpy. */
static bool holds_tensor(PyObject *o) {
    if (!PyList_Check(o) && !PyTuple_Check(o)) return nxpy_tensor_check(o);
    bool found = false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o) && !found; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(o, i);
        found = nxpy_tensor_check(item) || nxpy_is_numpy_array(item);
    }
    return found;
}

/* NULL without an error: it fits nowhere. */
static PyObject *call_relaxed(function_object *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords, nxpy_args *args) {
    Py_ssize_t n_all = n + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
    bool counts = false;
    for (Py_ssize_t i = self->def->is_method; i < n_all; i++) counts = counts || holds_tensor(given[i]);
    if (counts) {
        args->tensors_count = true;
        PyObject *result = try_overloads(self, given, n, keywords, args);
        args->tensors_count = false;
        if (result || PyErr_Occurred()) return result;
    }
    if (n < 2 || n_all > NXPY_MAX_PARAMS || nxpy_tensor_check(given[0]) || !PyNumber_Check(given[0])) return NULL;
    if (!takes_first_number(self->def, given[1])) return NULL;
    PyObject *all[NXPY_MAX_PARAMS], *result = NULL;
    memcpy(all, given, sizeof *all * (size_t)n_all);
    if ((all[0] = nxpy_number_tensor(given[0], given[1])) == NULL) return NULL;
    result = try_overloads(self, all, n, keywords, args);
    Py_DECREF(all[0]);
    return result;
}

/* Deprecated: numbers stand before the tensors that they are for: x.add_(0.5, y), torch.addmm(beta, x, alpha, a, b). */
static const struct {
    const char *names, *factors[2];
    const char *function[2], *method[2]; /* what stands where, numbers (n) and tensors (T) */
} deprecated[] = {
    {" add sub ", {"alpha"}, {"TnT"}, {"TnT"}},
    {" addcmul addcdiv ", {"value"}, {"TnTT"}, {"TnTT"}},
    {" addbmm addmm addmv addr baddbmm sspaddmm ", {"beta", "alpha"}, {"nTTT", "nTnTT"}, {"TnTT", "TnnTT"}}};

/* Whether `name`, with or without the mark of in-place, is one of the words of `names`. */
static bool is_among(const char *names, const char *name) {
    char word[32];
    int length = (int)strlen(name);
    if (length > 0 && name[length - 1] == '_') length--;
    snprintf(word, sizeof word, " %.*s ", length, name);
    return strstr(names, word) != NULL;
}

static bool stand_so(const char *pattern, PyObject *const *given, Py_ssize_t n) {
    bool fits = pattern != NULL && (Py_ssize_t)strlen(pattern) == n;
    for (Py_ssize_t i = 0; i < n && fits; i++) {
        bool tensor = nxpy_tensor_check(given[i]);
        fits = pattern[i] == 'T' ? tensor : !tensor && PyNumber_Check(given[i]);
    }
    return fits;
}

/* The call with its tensors first, then the numbers by name, then what was given by name. */
static PyObject *call_sorted(function_object *self, PyObject *const *given, Py_ssize_t n, PyObject *out, const char *const *factors,
                             nxpy_args *args) {
    PyObject *all[NXPY_MAX_PARAMS], *result = NULL;
    Py_ssize_t n_tensors = 0, n_all = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (nxpy_tensor_check(given[i])) all[n_tensors++] = given[i];
    }
    n_all = n_tensors;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!nxpy_tensor_check(given[i])) all[n_all++] = given[i];
    }
    Py_ssize_t n_factors = n_all - n_tensors;
    PyObject *words = PyTuple_New(n_factors + (out != NULL));
    for (Py_ssize_t i = 0; i < n_factors && words; i++) {
        PyObject *word = PyUnicode_FromString(factors[i]);
        if (word) PyTuple_SET_ITEM(words, i, word);
        else Py_CLEAR(words);
    }
    if (words && out) {
        PyTuple_SET_ITEM(words, n_factors, Py_NewRef(out));
        all[n_all] = given[n];
    }
    if (words) result = try_overloads(self, all, n_tensors, words, args);
    Py_XDECREF(words);
    return result;
}

static PyObject *call_deprecated(function_object *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords, nxpy_args *args) {
    PyObject *out = keywords ? PyTuple_GET_ITEM(keywords, 0) : NULL;
    if (out && (PyTuple_GET_SIZE(keywords) != 1 || PyUnicode_CompareWithASCIIString(out, "out") != 0)) return NULL;
    for (int k = 0; k < NX_COUNT(deprecated); k++) {
        const char *const *orders = self->def->is_method ? deprecated[k].method : deprecated[k].function;
        if (!is_among(deprecated[k].names, self->def->name)) continue;
        if (!stand_so(orders[0], given, n) && !stand_so(orders[1], given, n)) return NULL;
        if (PyErr_WarnFormat(PyExc_UserWarning, 1, "This overload of %s is deprecated: a number comes last, as %s=", self->def->name,
                             deprecated[k].factors[0]) < 0) return NULL;
        return call_sorted(self, given, n, out, deprecated[k].factors, args);
    }
    return NULL;
}

/* What fits no overload: somebody's whose class answers, or a mistake. */
static __attribute__((noinline)) PyObject *call_unfit(function_object *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords,
                                                      nxpy_args *args) {
    PyObject *answer;
    if (nxpy_ask((PyObject *)self, given, n, keywords, &answer)) return answer;
    answer = call_relaxed(self, given, n, keywords, args);
    if (answer == NULL && !PyErr_Occurred()) answer = call_deprecated(self, given, n, keywords, args);
    if (answer || PyErr_Occurred()) return answer;
    char why[256] = "";
    if (nxpy_parse(&self->overloads[0], self->def->is_method, given, n, keywords, args, why, sizeof why) < 0) return NULL;
    return raise_mismatch(self, given, n, keywords, why);
}

static PyObject *call_fitting(function_object *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords, nxpy_args *args) {
    for (int i = 0; i < self->def->n_overloads; i++) {
        int parsed = nxpy_parse(&self->overloads[i], self->def->is_method, given, n, keywords, args, NULL, 0);
        if (NX_LIKELY(parsed == 1)) return call_overload(self, self->overloads[i].op, args);
        if (parsed < 0) return NULL;
    }
    return call_unfit(self, given, n, keywords, args);
}

/* Who answers for a Python function that spells is told all its arguments, and hears of plain tensors as well: narthex.overrides. */
static int ask_meaning(function_object *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords, PyObject **answer) {
    if (!self->spells) return nxpy_ask((PyObject *)self, given, n, keywords, answer);
    PyObject *args = nxpy_tuple_of(given, n), *named = args ? nxpy_dict_of(given + n, keywords) : NULL;
    *answer = named ? nxpy_ask_python((PyObject *)self, self->python, args, named) : NULL;
    Py_XDECREF(named);
    Py_XDECREF(args);
    return 1;
}

/* The Python function behind it, unless somebody answers for that. */
static PyObject *call_meaning(function_object *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords) {
    Py_ssize_t n_all = n + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
    PyObject *answer;
    if (NX_UNLIKELY(nxpy_any_asks(given, n_all)) && ask_meaning(self, given, n, keywords, &answer)) return answer;
    return PyObject_Vectorcall(self->python, given, (size_t)n, keywords);
}

/* What fits no overload is the Python function's, and so is every call while a trace records, which shows what that calls. */
static PyObject *call_shortcut(PyObject *callable, PyObject *const *given, size_t flags, PyObject *keywords) {
    function_object *self = (function_object *)callable;
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    nxpy_args args;
    PyObject *result = NULL;
    args.blocks = NULL;
    args.tensors_count = false;
    args.function = self->def->name;
    bool quick = self->overloads && n <= self->n_shared && nx_thread_get()->tracer == NULL && nxpy_n_function_modes == 0;
    int parsed = quick ? nxpy_parse(self->overloads, false, given, n, keywords, &args, NULL, 0) : 0;
    if (NX_LIKELY(parsed == 1)) result = nxpy_call(self->overloads->op, args.in);
    else if (parsed == 0) result = call_meaning(self, given, n, keywords);
    if (NX_UNLIKELY(args.blocks != NULL)) nxpy_args_end(&args);
    return result;
}

const char *nxpy_function_target(PyObject *function) {
    return nxpy_function_check(function) ? ((function_object *)function)->def->target : NULL;
}
const char *nxpy_function_place(PyObject *function) {
    if (!nxpy_function_check(function) || ((function_object *)function)->python) return "";
    return ((function_object *)function)->def->is_method ? "torch._C.TensorBase." : "torch.";
}
PyObject *nxpy_function_meaning(PyObject *function) {
    return nxpy_function_check(function) ? ((function_object *)function)->python : NULL;
}

static PyObject *call_operator(PyObject *callable, PyObject *const *given, Py_ssize_t n, PyObject *keywords) {
    function_object *self = (function_object *)callable;
    if (self->def->is_method && (n == 0 || !nxpy_tensor_check(given[0]))) {
        return PyErr_Format(PyExc_TypeError, "unbound method Tensor.%s() needs a tensor argument", self->def->name);
    }
    nxpy_args args;
    args.blocks = NULL;
    args.tensors_count = false;
    args.function = self->def->name;
    PyObject *result = call_fitting(self, given, n, keywords, &args);
    if (NX_UNLIKELY(args.blocks != NULL)) nxpy_args_end(&args);
    if (NX_UNLIKELY(result == Py_None) && n > 0 && strncmp(self->def->name, "_foreach_", 9) == 0) { /* the list, as PyTorch */
        Py_DECREF(result);
        return Py_NewRef(given[0]);
    }
    return result;
}

/* Somewhere there is a mode, perhaps here. */
static __attribute__((noinline)) PyObject *call_in_mode(PyObject *callable, PyObject *const *given, Py_ssize_t n, PyObject *keywords) {
    PyObject *answer;
    return nxpy_ask(callable, given, n, keywords, &answer) ? answer : call_operator(callable, given, n, keywords);
}

static PyObject *call_function(PyObject *callable, PyObject *const *given, size_t flags, PyObject *keywords) {
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    if (NX_UNLIKELY(nxpy_n_function_modes != 0)) return call_in_mode(callable, given, n, keywords);
    return call_operator(callable, given, n, keywords);
}

/* ---- the objects ------------------------------------------------------------------------------------------------------ */
static PyObject *bind_method(PyObject *self, PyObject *instance, PyObject *owner) {
    if (instance == NULL || instance == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, instance);
}
static PyObject *function_repr(PyObject *self) {
    const nxpy_function_def *def = ((function_object *)self)->def;
    if (((function_object *)self)->python) return PyObject_Repr(((function_object *)self)->python);
    return PyUnicode_FromFormat(def->is_method ? "<method '%s' of 'torch._C.TensorBase' objects>" : "<built-in method %s of type object>",
                                def->name);
}
static PyObject *function_name(PyObject *self, void *unused) { return Py_NewRef(((function_object *)self)->name); }
static PyObject *function_module(PyObject *self, void *unused) { return PyUnicode_FromString(((function_object *)self)->def->module); }
static PyObject *function_doc(PyObject *self, void *unused) {
    const char *doc = ((function_object *)self)->def->doc;
    return PyUnicode_FromString(doc ? doc : "");
}
static PyObject *function_wrapped(PyObject *self, void *unused) {
    PyObject *python = ((function_object *)self)->python;
    return python ? Py_NewRef(python) : PyErr_Format(PyExc_AttributeError, "an operator's function wraps nothing");
}
static PyObject *function_reduce(PyObject *self, PyObject *unused) { return Py_NewRef(((function_object *)self)->name); }
static PyGetSetDef function_getset[] = {{"__name__", function_name, NULL, NULL, NULL},
                                        {"__qualname__", function_name, NULL, NULL, NULL},
                                        {"__module__", function_module, NULL, NULL, NULL},
                                        {"__doc__", function_doc, NULL, NULL, NULL},
                                        {"__wrapped__", function_wrapped, NULL, NULL, NULL},
                                        {NULL}};
static PyMethodDef function_methods[] = {{"__reduce__", function_reduce, METH_NOARGS, NULL}, {NULL}};
PyTypeObject nxpy_function_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.Function", .tp_basicsize = sizeof(function_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, .tp_vectorcall_offset = offsetof(function_object, call),
    .tp_call = PyVectorcall_Call, .tp_repr = function_repr, .tp_getset = function_getset, .tp_methods = function_methods};
PyTypeObject nxpy_method_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.Method", .tp_basicsize = sizeof(function_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(function_object, call), .tp_call = PyVectorcall_Call, .tp_descr_get = bind_method,
    .tp_repr = function_repr, .tp_getset = function_getset, .tp_methods = function_methods};

static const char schema_module[] = "torch.ops";

/* PyTorch calls the first tensor of a function `input` where the schema says `self`; torch.ops keeps the schema's names. */
static int intern_names(nxpy_overload *overload, bool by_schema) {
    const nx_op_def *def = overload->op->def;
    if (def->n_in > NXPY_MAX_PARAMS) {
        PyErr_Format(PyExc_SystemError, "%s has %d parameters, at most %d are possible", def->name, def->n_in, NXPY_MAX_PARAMS);
        return -1;
    }
    for (int k = 0; k < def->n_in; k++) {
        const char *name = !by_schema && strcmp(def->params[k].name, "self") == 0 ? "input" : def->params[k].name;
        if ((overload->names[k] = PyUnicode_InternFromString(name)) == NULL) return -1;
    }
    return 0;
}

static PyObject *new_function(const nxpy_function_def *def, PyTypeObject *type) {
    function_object *o = PyObject_New(function_object, type);
    if (o == NULL) return NULL;
    o->call = call_function;
    o->def = def;
    o->python = NULL;
    o->spells = false;
    o->name = PyUnicode_InternFromString(def->name);
    o->overloads = PyMem_Calloc((size_t)def->n_overloads, sizeof *o->overloads);
    if (o->name == NULL || o->overloads == NULL) return PyErr_NoMemory();
    for (int i = 0; i < def->n_overloads; i++) {
        o->overloads[i].op = nx_op_get(def->overloads[i]);
        if (o->overloads[i].op == NULL) return PyErr_Format(PyExc_SystemError, "%s: no operator %s", def->target, def->overloads[i]);
        if (intern_names(&o->overloads[i], def->is_method || strcmp(def->module, schema_module) == 0) < 0) return NULL;
    }
    return (PyObject *)o;
}

/* A function of one operator that no `forms` asked for. It and what it points to live as long as the process. */
static PyObject *new_of_operator(const char *operator, const char *name, const char *target, const char *module, const char *doc) {
    const nx_op *op = nx_op_get(operator);
    if (op == NULL) return PyErr_Format(PyExc_AttributeError, "no operator %s", operator);
    struct { nxpy_function_def def; const char *overloads[1]; char target[]; } *own = PyMem_Calloc(1, sizeof *own + strlen(target) + 1);
    if (own == NULL) return PyErr_NoMemory();
    strcpy(own->target, target);
    own->overloads[0] = op->def->name;
    own->def = (nxpy_function_def){.name = name ? name : op->def->name, .target = own->target, .module = module, .n_overloads = 1,
                                   .overloads = own->overloads, .doc = doc ? doc : op->def->schema};
    return new_function(&own->def, &nxpy_function_type);
}

/* An operator by its schema alone, torch.ops.aten.add.Tensor. */
static PyObject *op_function(PyObject *module, PyObject *args) {
    const char *name, *target;
    if (!PyArg_ParseTuple(args, "ss:op_function", &name, &target)) return NULL;
    return new_of_operator(name, NULL, target, schema_module, NULL);
}

static const char *text_of(PyObject *function, const char *attribute) { /* as long as the function lives */
    PyObject *text = PyObject_GetAttrString(function, attribute);
    const char *at = text ? PyUnicode_AsUTF8(text) : NULL;
    Py_XDECREF(text);
    return at;
}

static const char *function_texts(PyObject *python, const char **place, const char **doc) { /* its name */
    const char *name = text_of(python, "__name__");
    *place = name ? text_of(python, "__module__") : NULL;
    *doc = *place && ((PyFunctionObject *)python)->func_doc != Py_None ? text_of(python, "__doc__") : "";
    return *place && *doc ? name : NULL;
}

/* A Python function behind the question who answers for its arguments. It and what it points to live as long as the process. */
static PyObject *shell(PyObject *module, PyObject *args) {
    PyObject *python;
    const char *place, *doc, *name;
    int spells = 0;
    if (!PyArg_ParseTuple(args, "O!|p:shell", &PyFunction_Type, &python, &spells)) return NULL;
    if ((name = function_texts(python, &place, &doc)) == NULL) return NULL;
    nxpy_function_def *def = PyMem_Calloc(1, sizeof *def);
    if (def == NULL) return PyErr_NoMemory();
    *def = (nxpy_function_def){.name = name, .target = name, .module = place, .doc = doc};
    function_object *o = (function_object *)new_function(def, &nxpy_method_type); /* in a class it binds, as the Python function does */
    if (o == NULL) return NULL;
    PyMem_Free(o->overloads);
    o->overloads = NULL;
    o->python = Py_NewRef(python);
    o->spells = spells;
    o->call = call_shortcut;
    return (PyObject *)o;
}

static PyObject *shortcut(PyObject *module, PyObject *args) {
    PyObject *python;
    const char *operator;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "O!sn:shortcut", &PyFunction_Type, &python, &operator, &n)) return NULL;
    const char *name = text_of(python, "__name__"), *place = text_of(python, "__module__"), *doc = text_of(python, "__doc__");
    if (!name || !place || !doc) return NULL;
    function_object *o = (function_object *)new_of_operator(operator, name, name, place, doc);
    if (o == NULL) return NULL;
    o->python = Py_NewRef(python);
    o->n_shared = n;
    o->spells = true;
    o->call = call_shortcut;
    Py_SET_TYPE((PyObject *)o, &nxpy_method_type); /* in a class it binds, as the Python function does */
    return (PyObject *)o;
}

/* ---- equal, allclose, nonzero: more than a call of one operator; their answers depend on elements, so a trace ends there */
/* A tensor that operator `name` gives, as a Python object. */
static PyObject *made_by(const char *name, const nx_value *in) {
    const nx_op *op;
    NXPY_TRY(nx_op_find(name, &op));
    return nxpy_call(op, in);
}

static int expect_tensors(const char *function, PyObject *input, PyObject *other) {
    PyObject *const given[] = {input, other};
    for (int k = 0; k < 2; k++) {
        if (nxpy_tensor_check(given[k])) continue;
        PyErr_Format(PyExc_TypeError, "%s(): argument '%s' (position %d) must be Tensor, not %s", function, k ? "other" : "input", k + 1,
                     nxpy_type_text(given[k]));
        return -1;
    }
    return 0;
}

/* Whether all elements are True, of a tensor that is taken over. */
static PyObject *all_true(PyObject *tensor) {
    PyObject *all = tensor ? made_by("aten::all", (nx_value[]){nx_value_tensor(nxpy_tensor_get(tensor))}) : NULL;
    PyObject *result = all ? nxpy_tensor_item(all, NULL) : NULL;
    Py_XDECREF(all);
    Py_XDECREF(tensor);
    return result;
}

/* A function of the module: 1: *answer is the call's. */
static int asked_of(PyObject *module, const char *name, PyObject *args, PyObject *keywords, PyObject **answer) {
    *answer = NULL;
    if (NX_LIKELY(nxpy_n_function_modes == 0 && !nxpy_any_asks(PySequence_Fast_ITEMS(args), PyTuple_GET_SIZE(args)))) return 0;
    PyObject *function = PyObject_GetAttrString(module, name);
    int asked = function ? nxpy_ask_tuple(function, NULL, args, keywords, answer) : 1;
    Py_XDECREF(function);
    return asked;
}

static PyObject *equal(PyObject *module, PyObject *args, PyObject *keywords) {
    PyObject *answer;
    if (module && asked_of(module, "equal", args, keywords, &answer)) return answer;
    static char *names[] = {"input", "other", NULL};
    PyObject *input, *other;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:equal", names, &input, &other)) return NULL;
    if (expect_tensors("equal", input, other) < 0) return NULL;
    nx_tensor *a = nxpy_tensor_get(input), *b = nxpy_tensor_get(other);
    if (!nx_same_size(&a->a, &b->a)) Py_RETURN_FALSE;
    return all_true(made_by("aten::eq.Tensor", (nx_value[]){nx_value_tensor(a), nx_value_tensor(b)}));
}

static PyObject *allclose(PyObject *module, PyObject *args, PyObject *keywords) {
    PyObject *answer;
    if (module && asked_of(module, "allclose", args, keywords, &answer)) return answer;
    static char *names[] = {"input", "other", "rtol", "atol", "equal_nan", NULL};
    PyObject *a, *b;
    double relative = 1e-5, absolute = 1e-8;
    int nan = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|ddp:allclose", names, &a, &b, &relative, &absolute, &nan)) return NULL;
    if (expect_tensors("allclose", a, b) < 0) return NULL;
    return all_true(made_by("aten::isclose", (nx_value[]){nx_value_tensor(nxpy_tensor_get(a)), nx_value_tensor(nxpy_tensor_get(b)),
                                                          nx_value_float(relative), nx_value_float(absolute), nx_value_bool(nan)}));
}

static PyObject *nonzero(PyObject *module, PyObject *args, PyObject *keywords) {
    PyObject *answer;
    if (module && asked_of(module, "nonzero", args, keywords, &answer)) return answer;
    static char *names[] = {"input", "as_tuple", "out", NULL};
    PyObject *x, *out = Py_None;
    int as_tuple = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!|$pO:nonzero", names, &nxpy_tensor_type, &x, &as_tuple, &out)) return NULL;
    if (out != Py_None) {
        if (expect_tensors("nonzero", x, out) < 0) return NULL;
        return made_by("aten::nonzero.out", (nx_value[]){nx_value_tensor(nxpy_tensor_get(x)), nx_value_tensor(nxpy_tensor_get(out))});
    }
    return made_by(as_tuple ? "aten::nonzero_numpy" : "aten::nonzero", (nx_value[]){nx_value_tensor(nxpy_tensor_get(x))});
}

/* The same as methods: the tensor in front of the other arguments. */
static PyObject *with_self(PyObject *self, PyObject *args, PyObject *keywords, PyCFunctionWithKeywords function, const char *name) {
    NXPY_ASK_CALLED(self, name, args, keywords);
    PyObject *first = PyTuple_Pack(1, self), *all = first ? PySequence_Concat(first, args) : NULL;
    PyObject *result = all ? function(NULL, all, keywords) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(all);
    return result;
}
#define NXPY_AS_METHOD(name) \
    static PyObject *name##_method(PyObject *self, PyObject *args, PyObject *keywords) { \
        return with_self(self, args, keywords, name, #name); \
    }
NXPY_AS_METHOD(equal)
NXPY_AS_METHOD(allclose)
NXPY_AS_METHOD(nonzero)
#undef NXPY_AS_METHOD

#define NXPY_BY_KEYWORD(function) (PyCFunction)(void (*)(void))function, METH_VARARGS | METH_KEYWORDS
static const char equal_doc[] = "equal(input, other): whether two tensors have the same size and equal elements.";
static const char allclose_doc[] =
    "allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False): whether |input - other| <= atol + rtol*|other| everywhere.";
static const char nonzero_doc[] = "nonzero(input, *, as_tuple=False): the places of the elements that are not 0, a row each; "
                                  "as_tuple: a vector for each dimension.";
static PyMethodDef methods[] = {{"equal", NXPY_BY_KEYWORD(equal_method), equal_doc},
                                {"allclose", NXPY_BY_KEYWORD(allclose_method), allclose_doc},
                                {"nonzero", NXPY_BY_KEYWORD(nonzero_method), nonzero_doc}};
static PyMethodDef functions[] = {
    {"named_result", named_result, METH_O, "named_result(\"max\"): the class of what an operator returns, None if it has no names."},
    {"op_function", op_function, METH_VARARGS, "op_function(name, target): the operator as a function of its schema's arguments."},
    {"shortcut", shortcut, METH_VARARGS,
     "shortcut(f, operator, n): f, whose calls go straight to the operator where their arguments fit that, at most n by position."},
    {"shell", shell, METH_VARARGS, "shell(f, spells=False): f, for which modes and classes answer (__torch_function__)."},
    {"equal", NXPY_BY_KEYWORD(equal), equal_doc},
    {"allclose", NXPY_BY_KEYWORD(allclose), allclose_doc},
    {"nonzero", NXPY_BY_KEYWORD(nonzero), nonzero_doc},
    {NULL}};
#undef NXPY_BY_KEYWORD

static int add_methods(void) {
    for (int k = 0; k < NX_COUNT(methods); k++) {
        PyObject *method = PyDescr_NewMethod(&nxpy_tensor_type, &methods[k]);
        int done = method ? PyDict_SetItemString(nxpy_tensor_type.tp_dict, methods[k].ml_name, method) : -1;
        Py_XDECREF(method);
        if (done < 0) return -1;
    }
    return 0;
}

/* Methods go into the tensor type, functions into the module under their name; they live as long as the process. */
int nxpy_add_functions(PyObject *module) {
    if (PyType_Ready(&nxpy_function_type) < 0 || PyType_Ready(&nxpy_method_type) < 0) return -1;
    if (PyModule_AddFunctions(module, functions) < 0 || add_methods() < 0) return -1;
    PyObject *by_module = PyDict_New();
    if (by_module == NULL || PyModule_AddObjectRef(module, "functions", by_module) < 0) return -1;
    for (int i = 0; i < nxpy_n_function_defs; i++) {
        const nxpy_function_def *def = &nxpy_function_defs[i];
        PyObject *function = new_function(def, def->is_method ? &nxpy_method_type : &nxpy_function_type);
        if (function == NULL) return -1;
        if (def->is_method) {
            if (PyDict_SetItemString(nxpy_tensor_type.tp_dict, def->name, function) < 0) return -1;
        } else {
            PyObject *key = PyUnicode_FromFormat("%s.%s", def->module, def->name);
            if (key == NULL || PyDict_SetItem(by_module, key, function) < 0) return -1;
            Py_DECREF(key);
            if (strcmp(def->module, "torch") == 0 && PyModule_AddObjectRef(module, def->name, function) < 0) return -1;
        }
        Py_DECREF(function);
    }
    PyType_Modified(&nxpy_tensor_type);
    return nxpy_find_number_ops() < 0 ? -1 : nxpy_find_index_ops();
}
