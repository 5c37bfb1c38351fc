/* Graphs as Python sees them: narthex._C.Graph, and GraphNode, a view of one node that keeps its graph alive.
 * A Graph is not changed from Python, so a view stays good. Argument values become what FX shows: node
 * references are Nodes, parameters that have their default are left out, keyword-only ones stand in kwargs.
 * Next: compiled.c (Aot, CompiledGraph). */
#include "graphs/private.h"

#include <structmember.h>

typedef struct node_object {
    PyObject_HEAD
    nxpy_graph *graph;
    nx_node *node;
    int result;              /* which of several that a reference means; -1: the node */
} node_object;
static PyTypeObject node_type;

static PyObject *wrap_result(nxpy_graph *graph, nx_node *node, int result) {
    node_object *o = PyObject_New(node_object, &node_type);
    if (o == NULL) return NULL;
    o->result = result;
    o->graph = (nxpy_graph *)Py_NewRef((PyObject *)graph);
    o->node = node;
    return (PyObject *)o;
}

static PyObject *wrap_node(nxpy_graph *graph, nx_node *node) { return wrap_result(graph, node, -1); }

/* Whether the call gives Python a tuple or list. */
static bool gives_several(const nx_node *node) { return node->n_results > 1 || (node->op && node->op->def->flags & NX_OP_LIST); }

/* ---- values ------------------------------------------------------------------------------------------- */
static PyObject *wrap_value(nxpy_graph *graph, const nx_value *value) {
    if (value->tag == NX_TAG_NODE) return wrap_result(graph, value->node, gives_several(value->node) ? value->n : -1);
    if (value->tag != NX_TAG_LIST) return nxpy_value_object(value);
    PyObject *list = PyList_New(value->n);
    for (int i = 0; list && i < value->n; i++) {
        PyObject *item = wrap_value(graph, &value->list[i]);
        if (item) PyList_SET_ITEM(list, i, item);
        else Py_CLEAR(list);
    }
    return list;
}

static bool is_initial(const nx_node *node, int i) {
    const nx_param *param = &node->op->def->params[i];
    return param->has_initial && nx_value_equal(&node->args[i], &param->initial);
}

/* How many arguments are written by position. */
static int count_positional(const nx_node *node) {
    int n = node->n_args;
    while (node->op && n > 0 && (node->op->def->params[n - 1].keyword_only || is_initial(node, n - 1))) n--;
    return n;
}

static PyObject *wrap_args(nxpy_graph *graph, const nx_node *node, int n) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++) {
        PyObject *item = wrap_value(graph, &node->args[i]);
        if (item) PyTuple_SET_ITEM(tuple, i, item);
        else Py_CLEAR(tuple);
    }
    return tuple;
}

/* ---- Node --------------------------------------------------------------------------------------------- */
static nx_node *node_of(PyObject *self) { return ((node_object *)self)->node; }
static PyObject *node_result(PyObject *self, void *unused) {
    int result = ((node_object *)self)->result;
    return result < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(result);
}
static nxpy_graph *graph_of(PyObject *self) { return ((node_object *)self)->graph; }

static PyObject *text_or_none(const char *text) {
    if (text == NULL) Py_RETURN_NONE;
    return PyUnicode_FromString(text);
}

static PyObject *node_op(PyObject *self, void *unused) {
    static const char *const names[] = {
        [NX_NODE_PLACEHOLDER] = "placeholder", [NX_NODE_GET_ATTR] = "get_attr",
        [NX_NODE_CALL_FUNCTION] = "call_function", [NX_NODE_CALL_METHOD] = "call_method",
        [NX_NODE_CALL_MODULE] = "call_module", [NX_NODE_OUTPUT] = "output"};
    return PyUnicode_FromString(names[node_of(self)->kind]);
}

static PyObject *node_name(PyObject *self, void *unused) { return PyUnicode_FromString(node_of(self)->name); }

/* The user's word; for an operator called as such "torch.ops.aten.add.Tensor". */
static PyObject *node_target(PyObject *self, void *unused) {
    const nx_node *node = node_of(self);
    if (node->kind == NX_NODE_OUTPUT) return PyUnicode_FromString("output");
    if (node->target) return PyUnicode_FromString(node->target);
    if (node->op == NULL) return PyUnicode_FromString(node->name);
    const char *name = node->op->def->name, *colons = strstr(name, "::");
    if (colons == NULL) return PyUnicode_FromString(name);
    char space[64];
    snprintf(space, sizeof space, "%.*s", (int)(colons - name), name);
    return PyUnicode_FromFormat("torch.ops.%s.%s%s", space, colons + 2, strchr(colons, '.') ? "" : ".default");
}

/* The operator behind a call, whichever word the user had for it. */
static PyObject *node_operator(PyObject *self, void *unused) {
    const nx_node *node = node_of(self);
    return text_or_none(node->op ? node->op->def->name : NULL);
}

static PyObject *node_args(PyObject *self, void *unused) {
    const nx_node *node = node_of(self);
    if (node->kind != NX_NODE_OUTPUT) return wrap_args(graph_of(self), node, count_positional(node));
    PyObject *results = wrap_args(graph_of(self), node, node->n_args);
    return results ? Py_BuildValue("(N)", results) : NULL;
}

static PyObject *node_kwargs(PyObject *self, void *unused) {
    const nx_node *node = node_of(self);
    PyObject *kwargs = PyDict_New();
    int first = node->op ? count_positional(node) : node->n_args;
    for (int i = first; kwargs && i < node->n_args; i++) {
        if (is_initial(node, i)) continue;
        PyObject *value = wrap_value(graph_of(self), &node->args[i]);
        if (value == NULL || PyDict_SetItemString(kwargs, node->op->def->params[i].name, value) < 0)
            Py_CLEAR(kwargs);
        Py_XDECREF(value);
    }
    return kwargs;
}

/* As FX: a dict whose keys are the nodes that mention this one. */
static PyObject *node_users(PyObject *self, void *unused) {
    PyObject *users = PyDict_New();
    for (const nx_use *use = node_of(self)->uses; users && use; use = use->next) {
        PyObject *user = wrap_node(graph_of(self), use->user);
        if (user == NULL || PyDict_SetItem(users, user, Py_None) < 0) Py_CLEAR(users);
        Py_XDECREF(user);
    }
    return users;
}

/* What Python sees of a call is the node's own, which it may change. */
static PyObject *wrap_fake(nx_node *node, int result) {
    nx_tensor **fake = &node->fakes[result], *own;
    if (*fake == NULL) Py_RETURN_NONE;
    if (node->op && (*fake)->python == NULL && atomic_load(&(*fake)->refs) > 1) {
        NXPY_TRY(nx_fake_like(*fake, &own));
        nx_tensor_unref(*fake);
        *fake = own;
    }
    return nxpy_tensor_wrap(*fake);
}

/* The fake result; of several a tuple; None when it is not known. */
static PyObject *node_value(PyObject *self, void *unused) {
    nx_node *node = node_of(self);
    bool is_list = node->op && (node->op->def->flags & NX_OP_LIST);
    if (node->n_results == 1 && !is_list) return wrap_fake(node, 0);
    if (node->n_results == 0) Py_RETURN_NONE;
    PyObject *tuple = PyTuple_New(node->n_results);
    for (int k = 0; tuple && k < node->n_results; k++) {
        PyObject *fake = wrap_fake(node, k);
        if (fake) PyTuple_SET_ITEM(tuple, k, fake);
        else Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *node_spelling(PyObject *self, void *unused) { return PyLong_FromLong(node_of(self)->source.spelling); }
static PyObject *node_file(PyObject *self, void *unused) { return text_or_none(node_of(self)->source.file); }
static PyObject *node_line(PyObject *self, void *unused) { return PyLong_FromLong(node_of(self)->source.line); }
static PyObject *node_function(PyObject *self, void *unused) { return text_or_none(node_of(self)->source.function); }
static PyObject *node_code(PyObject *self, void *unused) { return text_or_none(node_of(self)->source.code); }

static int put(PyObject *dict, const char *key, PyObject *value) { /* takes value */
    int failed = value == NULL || PyDict_SetItemString(dict, key, value) < 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

static int put_source(PyObject *meta, const nx_node *node) {
    const char *function = node->source.function ? node->source.function : "<module>", *code = node->source.code ? node->source.code : "";
    if (node->source.scope && put(meta, "scope", PyLong_FromLong(node->source.scope)) < 0) return -1;
    if (node->source.file == NULL) return 0;
    if (put(meta, "source", Py_BuildValue("(siss)", node->source.file, node->source.line, function, code)) < 0) return -1;
    PyObject *trace = PyUnicode_FromFormat("  File \"%s\", line %d, in %s\n    %s\n", node->source.file, node->source.line,
                                           function, code);
    return put(meta, "stack_trace", trace);
}

/* val, source, stack_trace, scope (what enter_scope was told when it was recorded): each where it is known. */
static PyObject *node_meta(PyObject *self, void *unused) {
    const nx_node *node = node_of(self);
    PyObject *meta = PyDict_New();
    if (meta == NULL) return NULL;
    bool has_value = node->n_results > 1 || (node->n_results == 1 && node->fakes[0]);
    if ((has_value && put(meta, "val", node_value(self, NULL)) < 0) || put_source(meta, node) < 0)
        Py_CLEAR(meta);
    return meta;
}

static PyObject *node_repr(PyObject *self) { return PyUnicode_FromString(node_of(self)->name); }
static Py_hash_t node_hash(PyObject *self) { return (Py_hash_t)((uintptr_t)node_of(self) >> 4); }
static PyObject *node_compare(PyObject *a, PyObject *b, int how) {
    if (Py_TYPE(b) != &node_type || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((node_of(a) == node_of(b)) == (how == Py_EQ));
}
static void node_dealloc(PyObject *self) {
    Py_DECREF(((node_object *)self)->graph);
    PyObject_Free(self);
}
static PyGetSetDef node_getset[] = {
    {"op", node_op, NULL, "placeholder, get_attr, call_function, call_method, call_module or output.", NULL},
    {"name", node_name, NULL, "Unique in the graph.", NULL},
    {"target", node_target, NULL, "What is called, as the user wrote it, or "
     "torch.ops.NAMESPACE.NAME.OVERLOAD.", NULL},
    {"operator", node_operator, NULL, "The operator's name, as \"aten::add.Tensor\"; None: the node calls none.", NULL},
    {"args", node_args, NULL, "Arguments by position, without trailing defaults; of the output one tuple.",
     NULL},
    {"kwargs", node_kwargs, NULL, "Arguments by name, without defaults.", NULL},
    {"users", node_users, NULL, "A dict whose keys are the nodes that mention this one.", NULL},
    {"result", node_result, NULL, "Which of the node's several results an argument means, or None.", NULL},
    {"value", node_value, NULL, "The fake result, or None.", NULL},
    {"meta", node_meta, NULL, "A new dict: val (the fake result), source (file, line, function, code), "
     "stack_trace, scope.", NULL},
    {"spelling", node_spelling, NULL, "Which call of Graph.spellings, from 1, the node is a part of; 0: none.", NULL},
    {"file", node_file, NULL, "File of the user's line, or None.", NULL},
    {"line", node_line, NULL, "Number of the user's line.", NULL},
    {"function", node_function, NULL, "Function that the user's line is in, or None.", NULL},
    {"code", node_code, NULL, "Text of the user's line, or None.", NULL},
    {NULL}};
static PyTypeObject node_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "narthex._C.GraphNode", .tp_basicsize = sizeof(node_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = node_dealloc, .tp_repr = node_repr, .tp_hash = node_hash, .tp_richcompare = node_compare,
    .tp_getset = node_getset,
    .tp_doc = "A node of a Graph. Equal to other views of the same node."};

/* ---- Graph -------------------------------------------------------------------------------------------- */
static nx_graph *get_graph(PyObject *self) { return ((nxpy_graph *)self)->graph; }

static nxpy_graph *new_object(nx_graph *graph) {
    nxpy_graph *o = PyObject_New(nxpy_graph, &nxpy_graph_type);
    if (o == NULL) return NULL;
    o->graph = graph;
    o->value = NX_VALUE_NONE;
    o->spellings = o->attributes = o->weak = NULL;
    return o;
}

PyObject *nxpy_graph_take(nx_graph *graph) {
    nxpy_graph *o = new_object(graph);
    if (o == NULL) nx_graph_free(graph);
    return (PyObject *)o;
}

/* The graph that is an argument of a call, as an object; and back. */
static PyObject *object_of_value(const nx_value *value) {
    nxpy_graph *o = new_object((nx_graph *)nx_graph_of_value(value));
    if (o == NULL) return NULL;
    nx_status status = nx_value_keep(value, &o->value);
    if (status == NX_OK) return (PyObject *)o;
    o->graph = NULL; /* the value's */
    Py_DECREF(o);
    return nxpy_raise(status);
}
static bool value_of_object(PyObject *o, nx_value *out) {
    if (!Py_IS_TYPE(o, &nxpy_graph_type) || ((nxpy_graph *)o)->value.tag != NX_TAG_GRAPH) return false;
    *out = ((nxpy_graph *)o)->value;
    return true;
}

static PyObject *graph_as_argument(PyObject *self, PyObject *unused) {
    nx_graph *copy;
    nx_value value;
    NXPY_TRY(nx_graph_copy(get_graph(self), &copy));
    NXPY_TRY(nx_value_of_graph(copy, &value));
    PyObject *o = object_of_value(&value);
    nx_value_drop(&value);
    return o;
}

static PyObject *take_text(char *text) {
    PyObject *o = PyUnicode_FromString(text);
    nx_free(text);
    return o;
}

static PyObject *graph_python(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"shapes", "lines", NULL};
    int shapes = 1, lines = 1;
    char *text;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|pp:python", names, &shapes, &lines)) return NULL;
    NXPY_TRY(nx_graph_print_python(get_graph(self), shapes, lines, &text));
    return take_text(text);
}

static PyObject *graph_text(PyObject *self, PyObject *unused) {
    char *text;
    NXPY_TRY(nx_graph_print(get_graph(self), &text));
    return take_text(text);
}

static PyObject *graph_parse(PyObject *unused, PyObject *text) {
    nx_graph *graph;
    const char *utf8 = PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    if (utf8 == NULL && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "Graph.parse: expected str, not %s", Py_TYPE(text)->tp_name);
    if (utf8 == NULL) return NULL;
    NXPY_TRY(nx_graph_parse(utf8, &graph));
    return nxpy_graph_take(graph);
}

static PyObject *graph_verify(PyObject *self, PyObject *unused) {
    NXPY_TRY(nx_graph_verify(get_graph(self)));
    Py_RETURN_NONE;
}

static PyObject *graph_nodes(PyObject *self, void *unused) {
    PyObject *list = PyList_New(0);
    for (nx_node *node = get_graph(self)->first; list && node; node = node->next) {
        PyObject *o = wrap_node((nxpy_graph *)self, node);
        if (o == NULL || PyList_Append(list, o) < 0) Py_CLEAR(list);
        Py_XDECREF(o);
    }
    return list;
}

static PyObject *graph_spellings(PyObject *self, void *unused) {
    PyObject *rows = ((nxpy_graph *)self)->spellings;
    return Py_NewRef(rows ? rows : Py_None);
}

static PyObject *graph_has_numbers(PyObject *self, void *unused) {
    const nx_node *node = get_graph(self)->first;
    while (node && nx_node_int_code(node) < 0) node = node->next;
    return PyBool_FromLong(node != NULL);
}

static PyObject *graph_level(PyObject *self, void *unused) {
    return PyUnicode_FromString(get_graph(self)->level == NX_GRAPH_CAPTURED ? "captured" : "functional");
}

static PyObject *graph_n_calls(PyObject *self, void *unused) {
    long n = 0;
    for (const nx_node *node = get_graph(self)->first; node; node = node->next)
        n += node->kind == NX_NODE_CALL_FUNCTION || node->kind == NX_NODE_CALL_METHOD || node->kind == NX_NODE_CALL_MODULE;
    return PyLong_FromLong(n);
}

/* Interprets the graph. */
static PyObject *graph_call(PyObject *self, PyObject *args, PyObject *keywords) {
    const nx_graph *graph = get_graph(self);
    const nx_node *output = nx_graph_output_node(graph);
    if (keywords && PyDict_GET_SIZE(keywords))
        return PyErr_Format(PyExc_TypeError, "Graph: takes no keyword arguments");
    if (output == NULL) return PyErr_Format(PyExc_RuntimeError, "Graph: it has no output");
    int n_in = (int)PyTuple_GET_SIZE(args), n_out = output->n_args;
    nx_tensor **room = PyMem_Calloc((size_t)(n_in + n_out + 1), sizeof *room);
    if (room == NULL) return PyErr_NoMemory();
    PyObject *result = NULL;
    if (nxpy_tensors_from("Graph", &PyTuple_GET_ITEM(args, 0), n_in, graph->n_inputs, room) == 0) {
        nx_status status = nx_graph_run(graph, room, n_in, room + n_in, n_out);
        result = status == NX_OK ? nxpy_tensors_take(room + n_in, n_out) : nxpy_raise(status);
    }
    PyMem_Free(room);
    return result;
}

static PyObject *graph_aot(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"grad_mode", NULL};
    int grad_mode;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "p:aot", names, &grad_mode)) return NULL;
    return nxpy_aot_new((nxpy_graph *)self, grad_mode);
}

static PyObject *graph_functionalise(PyObject *self, PyObject *unused) {
    NXPY_TRY(nx_pass_functionalise(get_graph(self)));
    Py_RETURN_NONE;
}

/* split(n_inputs, n_forward): a joint graph's forward and backward, and how many values the first saves for the second. */
static PyObject *graph_split(PyObject *self, PyObject *args) {
    int n_inputs, n_forward, n_saved;
    nx_graph *forward, *backward;
    if (!PyArg_ParseTuple(args, "ii:split", &n_inputs, &n_forward)) return NULL;
    NXPY_TRY(nx_pass_split(get_graph(self), n_inputs, n_forward, &forward, &backward, &n_saved));
    nx_status status = nx_pass_run(forward, NULL);
    if (status == NX_OK) status = nx_pass_run(backward, NULL);
    if (status != NX_OK) {
        nx_graph_free(forward);
        nx_graph_free(backward);
        return nxpy_raise(status);
    }
    return Py_BuildValue("(NNi)", nxpy_graph_take(forward), nxpy_graph_take(backward), n_saved);
}

/* with_constants(values): a copy in which input k is the tensor values[k]; where that is an int, it is input number values[k]
 * of the copy. */
static PyObject *graph_with_constants(PyObject *self, PyObject *values) {
    nx_graph *graph = get_graph(self), *copy;
    PyObject *list = PySequence_Fast(values, "with_constants: a list of tensors and ints is needed");
    if (list == NULL) return NULL;
    int n = (int)PySequence_Fast_GET_SIZE(list), n_kept = 0;
    nx_tensor **tensors = nx_alloc_zeroed((sizeof *tensors + sizeof(int)) * (size_t)(n + 1));
    int *order = (int *)(tensors + n + 1); /* behind them */
    nx_status status = tensors ? NX_OK : nx_fail_memory(sizeof *tensors * (size_t)n);
    if (status == NX_OK && n != graph->n_inputs)
        status = nx_fail(NX_VALUE, "with_constants: the graph has %d inputs, %d values were given", graph->n_inputs, n);
    for (int k = 0; status == NX_OK && k < n; k++) {
        PyObject *value = PySequence_Fast_GET_ITEM(list, k);
        long place = PyLong_CheckExact(value) ? PyLong_AsLong(value) : -1;
        if (nxpy_tensor_check(value)) tensors[k] = nxpy_tensor_get(value);
        else if (place >= 0 && place < n) order[place] = k, n_kept++;
        else status = nx_fail(NX_TYPE, "with_constants: value %d is neither a tensor nor a place", k);
    }
    if (status == NX_OK) status = nx_graph_with_constants(graph, tensors, order, n_kept, &copy);
    nx_free(tensors);
    Py_DECREF(list);
    return status == NX_OK ? nxpy_graph_take(copy) : nxpy_raise(status);
}

/* ---- fitting ------------------------------------------------------------------------------------------ */
static int read_given(PyObject *given, nx_value *out) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(given); k++) {
        PyObject *item = PyTuple_GET_ITEM(given, k);
        if (PyFloat_Check(item)) out[k] = nx_value_float(PyFloat_AS_DOUBLE(item));
        else out[k] = nx_value_int(PyLong_AsLongLong(item));
        if (PyErr_Occurred()) return -1;
    }
    return 0;
}

static PyObject *take_fitted(nx_graph *fitted, const nx_value *values, int n) {
    PyObject *graph = nxpy_graph_take(fitted), *tuple = graph ? PyTuple_New(n) : NULL;
    for (int k = 0; tuple && k < n; k++) {
        PyObject *item = nxpy_value_object(&values[k]);
        if (item) PyTuple_SET_ITEM(tuple, k, item);
        else Py_CLEAR(tuple);
    }
    if (tuple) return Py_BuildValue("(NN)", graph, tuple);
    Py_XDECREF(graph);
    return NULL;
}

/* fit(tensors, numbers): the graph for inputs like these, every size a number, and the value of each node that gives one. */
static PyObject *graph_fit(PyObject *self, PyObject *args) {
    PyObject *tensors, *given, *result = NULL;
    nx_graph *graph = get_graph(self), *fitted;
    if (!PyArg_ParseTuple(args, "O!O!:fit", &PyTuple_Type, &tensors, &PyTuple_Type, &given)) return NULL;
    int n_inputs = (int)PyTuple_GET_SIZE(tensors), n_given = (int)PyTuple_GET_SIZE(given), n_wanted = 0;
    size_t n_nodes = (size_t)graph->n_nodes + 1, n_values = n_nodes + (size_t)n_given;
    nx_tensor **inputs = PyMem_Calloc((size_t)n_inputs + 1, sizeof *inputs);
    nx_node **wanted = PyMem_Calloc(n_nodes, sizeof *wanted);
    nx_value *values = PyMem_Calloc(n_values, sizeof *values);
    for (nx_node *node = graph->first; wanted && node; node = node->next)
        if (nx_node_int_code(node) >= 0) wanted[n_wanted++] = node;
    if (!inputs || !wanted || !values) {
        PyErr_NoMemory();
    } else if (nxpy_tensors_from("fit", &PyTuple_GET_ITEM(tensors, 0), n_inputs, graph->n_inputs, inputs) == 0 &&
               read_given(given, values + n_nodes) == 0) {
        nx_fit to = {.inputs = inputs, .n_inputs = n_inputs, .given = values + n_nodes, .n_given = n_given,
                     .wanted = wanted, .n_wanted = n_wanted};
        nx_status status = nx_graph_fit(graph, &to, values, &fitted);
        result = status == NX_OK ? take_fitted(fitted, values, n_wanted) : nxpy_raise(status);
    }
    PyMem_Free(inputs);
    PyMem_Free(wanted);
    PyMem_Free(values);
    return result;
}

static nx_node *input_at(const nx_graph *graph, long number) {
    nx_node *node = graph->first;
    while (number-- > 0 && node && node->kind == NX_NODE_PLACEHOLDER) node = node->next;
    return node && node->kind == NX_NODE_PLACEHOLDER ? node : NULL;
}

static PyObject *graph_open_size(PyObject *self, PyObject *args) {
    int input, dim;
    long long min = 0, max = -1;
    if (!PyArg_ParseTuple(args, "ii|LL:open_size", &input, &dim, &min, &max)) return NULL;
    nx_node *node = input_at(get_graph(self), input);
    if (!node) return PyErr_Format(PyExc_IndexError, "open_size: the graph has no input %d", input);
    NXPY_TRY(nx_graph_open_size(get_graph(self), node, dim, min, max));
    Py_RETURN_NONE;
}

static PyObject *graph_set_gears(PyObject *self, PyObject *args) {
    int input, dim;
    int64_t sizes[NX_MAX_GEARS];
    PyObject *list;
    if (!PyArg_ParseTuple(args, "iiO!:set_gears", &input, &dim, &PyList_Type, &list)) return NULL;
    nx_node *node = input_at(get_graph(self), input);
    if (!node) return PyErr_Format(PyExc_IndexError, "set_gears: the graph has no input %d", input);
    int n = PyList_GET_SIZE(list) <= NX_MAX_GEARS ? (int)PyList_GET_SIZE(list) : 0; /* 0 is refused, too */
    for (int k = 0; k < n; k++) {
        sizes[k] = PyLong_AsLongLong(PyList_GET_ITEM(list, k));
        if (sizes[k] == -1 && PyErr_Occurred()) return NULL;
    }
    NXPY_TRY(nx_graph_set_gears(get_graph(self), node, dim, sizes, n));
    Py_RETURN_NONE;
}

/* The functional graph of the sizes that the inputs have. */
static nx_status aot_of_example(const nx_graph *graph, nx_aot **out) {
    if (!nx_graph_is_open(graph)) return nx_aot_compile(graph, false, out);
    nx_tensor **fakes = nx_alloc(sizeof *fakes * (size_t)(graph->n_inputs + 1));
    nx_graph *fitted;
    if (fakes == NULL) return nx_fail_memory(sizeof *fakes * (size_t)graph->n_inputs);
    nx_node *node = graph->first;
    for (int i = 0; i < graph->n_inputs; i++, node = node->next) fakes[i] = node->fakes[0];
    nx_status status = nx_graph_fit(graph, &(nx_fit){.inputs = fakes, .n_inputs = graph->n_inputs}, NULL, &fitted);
    nx_free(fakes);
    if (status != NX_OK) return status;
    status = nx_aot_compile(fitted, false, out);
    nx_graph_free(fitted);
    return status;
}

/* save_model(path, device): compiles the graph with the engine and writes it as a model file. A graph with open sizes goes as
 * it was captured: it is made functional for each set of sizes. */
static PyObject *graph_save_model(PyObject *self, PyObject *args) {
    const char *path;
    PyObject *where;
    nx_device device;
    nx_session *session;
    nx_aot *aot;
    if (!PyArg_ParseTuple(args, "sO:save_model", &path, &where) || nxpy_device_from(where, &device) < 0) return NULL;
    NXPY_TRY(nx_session_new(device, &session));
    nx_status status = aot_of_example(get_graph(self), &aot);
    if (status == NX_OK && aot->n_mutated) {
        status = nx_fail(NX_NOT_IMPLEMENTED, "a graph that writes into its inputs is not saved as a model file");
        nx_aot_free(aot);
    } else if (status == NX_OK) {
        status = nx_session_add_graph(session, 0, nx_graph_is_open(get_graph(self)) ? get_graph(self) : aot->forward);
        if (status == NX_OK) status = nx_session_compile_graph(session, 0);
        if (status == NX_OK) status = nx_session_save(session, 0, path);
        nx_aot_free(aot);
    }
    nx_session_free(session);
    NXPY_TRY(status);
    Py_RETURN_NONE;
}

static void graph_dealloc(PyObject *self) {
    nxpy_graph *o = (nxpy_graph *)self;
    if (o->weak) PyObject_ClearWeakRefs(self);
    Py_CLEAR(o->attributes);
    Py_CLEAR(o->spellings);
    if (o->value.tag == NX_TAG_GRAPH) nx_value_drop(&o->value);
    else nx_graph_free(o->graph);
    PyObject_Free(self);
}
static PyMethodDef graph_methods[] = {
    {"python", (PyCFunction)(void (*)(void))graph_python, METH_VARARGS | METH_KEYWORDS,
     "python(shapes=True, lines=True): as FX prints it."},
    {"text", graph_text, METH_NOARGS, "The text that Graph.parse reads back."},
    {"parse", graph_parse, METH_O | METH_STATIC, "parse(text): the graph that text() wrote."},
    {"as_argument", graph_as_argument, METH_NOARGS, "A copy that calls take as an argument: of torch.ops.narthex.cond."},
    {"verify", graph_verify, METH_NOARGS, "Raises RuntimeError if the graph is not well formed."},
    {"aot", (PyCFunction)(void (*)(void))graph_aot, METH_VARARGS | METH_KEYWORDS,
     "aot(grad_mode): functional forward and, with gradients, backward graph."},
    {"functionalise", graph_functionalise, METH_NOARGS, "Makes new values of writes; what is written into inputs is copied at the end."},
    {"split", graph_split, METH_VARARGS,
     "split(n_inputs, n_forward): forward and backward of a joint graph, cut where the fewest bytes are saved, and n_saved."},
    {"with_constants", graph_with_constants, METH_O,
     "with_constants(values): a copy in which input k is the tensor values[k], or its input number values[k]."},
    {"fit", graph_fit, METH_VARARGS,
     "fit(tensors, numbers): the graph for inputs like these tensors and its open numbers, and the value of each node that gives one."},
    {"open_size", graph_open_size, METH_VARARGS,
     "open_size(input, dim, min=0, max=-1): that size may be another one, within bounds, whenever the model runs."},
    {"set_gears", graph_set_gears, METH_VARARGS, "set_gears(input, dim, sizes): it may be one of these, for which plans are made at once."},
    {"save_model", graph_save_model, METH_VARARGS,
     "save_model(path, device): compiled by the engine, as a model file that C programs load."},
    {NULL}};
static PyGetSetDef graph_getset[] = {
    {"nodes", graph_nodes, NULL, "Views of the nodes, in order.", NULL},
    {"n_calls", graph_n_calls, NULL, "How many nodes are calls.", NULL},
    {"level", graph_level, NULL, "captured or functional.", NULL},
    {"has_numbers", graph_has_numbers, NULL, "Whether it has calls that give a number: it holds for more than one size then.", NULL},
    {"spellings", graph_spellings, NULL, "List of calls as the program spelled them (py/notes/spelling.c), or None.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL}};
PyTypeObject nxpy_graph_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "narthex._C.Graph", .tp_basicsize = sizeof(nxpy_graph),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = graph_dealloc, .tp_call = graph_call, .tp_methods = graph_methods,
    .tp_getset = graph_getset,
    .tp_dictoffset = offsetof(nxpy_graph, attributes), .tp_weaklistoffset = offsetof(nxpy_graph, weak),
    .tp_doc = "A graph of operators. Calling it runs it operator by operator and returns a tuple."};

static PyObject *enter_scope(PyObject *module, PyObject *number) {
    nx_source *source = &nx_thread_get()->source;
    int before = source->scope;
    long scope = PyLong_AsLong(number);
    if (scope == -1 && PyErr_Occurred()) return NULL;
    if (scope < 0 || scope > INT32_MAX) return PyErr_Format(PyExc_ValueError, "enter_scope: %ld is no number of a scope", scope);
    source->scope = (int)scope;
    return PyLong_FromLong(before);
}

static PyMethodDef functions[] = {
    {"enter_scope", enter_scope, METH_O, "enter_scope(number): what this thread records from here on has it; what it was before."},
    {"record", nxpy_record, METH_VARARGS,
     "record(function, tensors, names): the Graph of the operators that function(*stand-ins for the tensors) calls. It returns a "
     "sequence of tensors and None."},
    {"set_fake", nxpy_set_fake, METH_O, "set_fake(on): whether what this thread computes has no elements; what it was before."},
    {NULL}};

int nxpy_add_graph(PyObject *module) {
    nxpy_graph_value_object = object_of_value;
    nxpy_graph_value_read = value_of_object;
    if (PyModule_AddFunctions(module, functions) < 0) return -1;
    if (PyType_Ready(&node_type) < 0 || PyType_Ready(&nxpy_graph_type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "Graph", (PyObject *)&nxpy_graph_type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "GraphNode", (PyObject *)&node_type) < 0) return -1;
    return nxpy_add_compiled(module);
}
