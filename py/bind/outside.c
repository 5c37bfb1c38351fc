/* Operators whose kernels and shape rules are Python functions (torch.library), as the dispatcher has them: so that a graph holds a
 * call of one as a node, whatever its Python does. Who is asked is a PythonOperator (library.py): its shape rule for fakes, its
 * kernel for tensors, of the values of its schema's arguments in order. Such an operator has no derivative here: an
 * autograd.Function around the call has it (library.py).
 * What must hold: a definition lives as long as the process; another operator of the same signature takes its place. The graph
 * engine lends memory that is another value's later, so that its kernels are given copies. Next: dispatch.c, which asks classes. */
#include "bind/private.h"
#include "iter/iter.h"

enum { MOST_RESULTS = 8 };
typedef struct outside {
    nx_op_def def;      /* first */
    PyObject *answers;  /* the PythonOperator */
} outside;

static outside *outside_of(const nx_op *op) { return (outside *)op->def; }

void (*nxpy_pause)(bool on);

/* ---- asking ---------------------------------------------------------------------------------------------------------- */
static PyObject *list_of(const nx_value *values, int n) {
    PyObject *list = PyList_New(n);
    for (int k = 0; list && k < n; k++) {
        PyObject *value = nxpy_value_object(&values[k]);
        if (value) PyList_SET_ITEM(list, k, value);
        else Py_CLEAR(list);
    }
    return list;
}

static nx_status take(const nx_op *op, PyObject *o, nx_value *out) {
    if (!nxpy_tensor_check(o))
        return nx_fail(NX_RUNTIME, "%s: its Python function gave a %s where its signature has a Tensor", op->def->name,
                       Py_TYPE(o)->tp_name);
    *out = nx_value_tensor(nx_tensor_ref(nxpy_tensor_get(o)));
    return NX_OK;
}

static nx_status take_all(const nx_op *op, PyObject *answer, nx_value *out) {
    const int n = op->def->n_out;
    if (n == 1) return take(op, answer, out);
    bool fits = (PyTuple_Check(answer) || PyList_Check(answer)) && PySequence_Fast_GET_SIZE(answer) == n;
    if (!fits)
        return nx_fail(NX_RUNTIME, "%s: its Python function gave a %s, expected %d tensors", op->def->name, Py_TYPE(answer)->tp_name, n);
    for (int k = 0; k < n; k++) {
        nx_status status = take(op, PySequence_Fast_ITEMS(answer)[k], &out[k]);
        if (status == NX_OK) continue;
        while (k-- > 0) nx_value_drop(&out[k]);
        return status;
    }
    return NX_OK;
}

/* Operators called meanwhile record nothing for autograd, as below it. */
static nx_status ask(const nx_op *op, bool fake, const nx_value *in, nx_value *out) {
    PyGILState_STATE state = PyGILState_Ensure();
    nx_thread *thread = nx_thread_get();
    uint64_t excluded = nx_keys_exclude(NX_KEYS_OWN), included = thread->keys_included;
    if (fake) thread->keys_included |= NX_KEY(FAKE); /* tensors that a shape rule makes of sizes alone */
    PyObject *values = list_of(in, op->def->n_in);
    if (nxpy_pause) nxpy_pause(true);
    PyObject *answer = values ? PyObject_CallMethod(outside_of(op)->answers, fake ? "shape" : "compute", "O", values) : NULL;
    if (nxpy_pause) nxpy_pause(false);
    thread->keys_included = included;
    nx_keys_restore(excluded);
    nx_status status = answer ? take_all(op, answer, out) : nxpy_caught();
    Py_XDECREF(answer);
    Py_XDECREF(values);
    PyGILState_Release(state);
    return status;
}

/* ---- of copies --------------------------------------------------------------------------------------------------------- */
static nx_status copy_new(const nx_array *from, bool fake, nx_value *out) {
    nx_meta meta;
    nx_tensor *tensor;
    nx_meta_of(from, &meta);
    NX_TRY(nx_tensor_new_meta(&meta, fake, &tensor));
    if (!fake) nx_copy_cast(&tensor->a, from);
    *out = nx_value_tensor(tensor);
    return NX_OK;
}

/* `n` values with copies of the tensors among them; lists in `lists`, which has room for all their elements. */
static nx_status copy_values(const nx_value *from, int n, bool fake, nx_value *to, nx_value **lists) {
    for (int k = 0; k < n; k++) {
        if (from[k].tag == NX_TAG_LIST) {
            nx_value *list = *lists;
            *lists += from[k].n;
            to[k] = nx_value_list(list, from[k].n);
            NX_TRY(copy_values(from[k].list, from[k].n, fake, list, lists));
        } else if (from[k].tag == NX_TAG_TENSOR) {
            NX_TRY(copy_new(from[k].array, fake, &to[k]));
        } else {
            to[k] = from[k];
        }
    }
    return NX_OK;
}

static void drop_values(nx_value *values, int n) {
    for (int k = 0; k < n; k++) {
        if (values[k].tag == NX_TAG_LIST) drop_values((nx_value *)values[k].list, values[k].n);
        else if (values[k].tag == NX_TAG_TENSOR) nx_tensor_unref(values[k].tensor);
    }
}

static nx_status store(const nx_op *op, nx_value *made, const nx_value *out) {
    nx_status status = NX_OK;
    for (int k = 0; k < op->def->n_out; k++) {
        const nx_array *a = made[k].array, *to = out[k].array;
        bool fits = a->dtype == to->dtype && nx_same_size(a, to);
        if (fits && status == NX_OK) nx_copy_cast(to, a);
        else if (status == NX_OK)
            status = nx_fail(NX_RUNTIME, "%s: result %d has another size or dtype than its shape rule (register_fake) says",
                             op->def->name, k);
        nx_tensor_unref(made[k].tensor);
    }
    return status;
}

static int count_elements(const nx_value *values, int n) {
    int found = 0;
    for (int k = 0; k < n; k++) found += values[k].tag == NX_TAG_LIST ? values[k].n : 0;
    return found;
}

static nx_status ask_of_copies(const nx_op *op, bool fake, const nx_value *in, nx_value *out) {
    const int n = op->def->n_in;
    nx_value *own = nx_alloc_zeroed(sizeof *own * (size_t)(n + count_elements(in, n) + 1)), *lists = own + n;
    if (own == NULL) return nx_fail_memory(sizeof *own * (size_t)n);
    nx_status status = copy_values(in, n, fake, own, &lists);
    if (status == NX_OK) status = ask(op, fake, own, out);
    drop_values(own, n);
    nx_free(own);
    return status;
}

/* At the keys of devices, and at FAKE, where the rule gets fakes that no trace knows: their sizes are numbers. */
static nx_status compose(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_thread *thread = nx_thread_get();
    bool fake = (thread->keys_included & ~thread->keys_excluded & NX_KEY(FAKE)) || nx_any_fake(in, run->op->def->n_in);
    return fake ? ask_of_copies(run->op, true, in, out) : ask(run->op, false, in, out);
}

/* As a step of the graph engine. */
static nx_status kernel(nx_run *run, const nx_value *in, nx_value *out) {
    nx_value made[MOST_RESULTS];
    nx_status status = ask_of_copies(run->op, false, in, made);
    return status == NX_OK ? store(run->op, made, out) : status;
}

/* ---- defining ------------------------------------------------------------------------------------------------------------ */
static char *keep_text(PyObject *o) {
    const char *text = PyUnicode_AsUTF8(o);
    char *own = text ? PyMem_Malloc(strlen(text) + 1) : NULL;
    if (text && own == NULL) PyErr_NoMemory();
    return own ? strcpy(own, text) : NULL;
}

/* "Tensor?[]", "int?"; false: graphs do not hold such values. */
static bool read_type(const char *text, nx_param *out) {
    static const struct { const char *text; nx_type type; } types[] = {
        {"Tensor[]", NX_TYPE_TENSORS}, {"Tensor?[]", NX_TYPE_TENSORS}, {"Tensor", NX_TYPE_TENSOR}, {"SymInt[]", NX_TYPE_INTS},
        {"int[]", NX_TYPE_INTS}, {"SymInt", NX_TYPE_INT}, {"int", NX_TYPE_INT}, {"float", NX_TYPE_FLOAT}, {"bool", NX_TYPE_BOOL},
        {"Scalar", NX_TYPE_SCALAR}, {"str", NX_TYPE_STR}, {"ScalarType", NX_TYPE_DTYPE}, {"Device", NX_TYPE_DEVICE}};
    for (int k = 0; k < NX_COUNT(types); k++) {
        size_t n = strlen(types[k].text);
        if (strncmp(text, types[k].text, n) || (text[n] && strcmp(text + n, "?"))) continue;
        out->type = types[k].type;
        out->optional = text[n] == '?';
        out->optional_elements = strcmp(types[k].text, "Tensor?[]") == 0;
        return true;
    }
    return false;
}

/* Of (name, type, by keyword alone). */
static bool read_param(PyObject *row, nx_param *out) {
    out->name = keep_text(PyTuple_GET_ITEM(row, 0));
    out->keyword_only = PyTuple_GET_ITEM(row, 2) == Py_True;
    const char *type = PyUnicode_AsUTF8(PyTuple_GET_ITEM(row, 1));
    return out->name && type && read_type(type, out);
}

static void free_definition(outside *own) {
    nx_param *params = (nx_param *)own->def.params;
    for (int k = 0; params && k < own->def.n_in; k++) PyMem_Free((char *)params[k].name);
    PyMem_Free(params);
    PyMem_Free((char *)own->def.name);
    PyMem_Free((char *)own->def.schema);
    PyMem_Free(own);
}

/* False: an exception, or without one, graphs do not hold its arguments. */
static bool fill_definition(outside *own, PyObject *name, PyObject *schema, PyObject *rows) {
    const int n = (int)PyTuple_GET_SIZE(rows);
    nx_param *params = PyMem_Calloc((size_t)n + 1, sizeof *params);
    own->def.params = params;
    own->def.n_in = params ? n : 0;
    own->def.name = params ? keep_text(name) : NULL;
    own->def.schema = own->def.name ? keep_text(schema) : NULL;
    bool fits = own->def.schema != NULL;
    for (int k = 0; fits && k < n; k++) fits = read_param(PyTuple_GET_ITEM(rows, k), &params[k]);
    return fits;
}

static PyObject *define_operator(PyObject *module, PyObject *args) {
    PyObject *name, *schema, *rows, *answers;
    int n_out;
    if (!PyArg_ParseTuple(args, "UUO!iO:define_operator", &name, &schema, &PyTuple_Type, &rows, &n_out, &answers)) return NULL;
    const nx_op *known = nx_op_get(PyUnicode_AsUTF8(name));
    if (known) {
        bool same = known->def->compose == compose && strcmp(known->def->schema, PyUnicode_AsUTF8(schema)) == 0;
        if (same) Py_SETREF(outside_of(known)->answers, Py_NewRef(answers));
        return PyBool_FromLong(same);
    }
    if (n_out < 1 || n_out > MOST_RESULTS || PyTuple_GET_SIZE(rows) > NXPY_MAX_PARAMS) Py_RETURN_FALSE;
    outside *own = PyMem_Calloc(1, sizeof *own);
    if (own == NULL) return PyErr_NoMemory();
    own->def = (nx_op_def){.kind = NX_KIND_KERNEL, .flags = NX_OP_OUTSIDE | NX_OP_RANDOM /* it may draw */, .n_out = n_out,
                           .kernel = kernel, .compose = compose, .nograd = "register_autograd gives it a derivative",
                           .source = "torch.library"};
    bool fits = fill_definition(own, name, schema, rows);
    nx_status status = fits ? nx_library_def(&own->def) : NX_OK;
    if (fits && status == NX_OK) {
        own->answers = Py_NewRef(answers);
        Py_RETURN_TRUE;
    }
    free_definition(own);
    if (status != NX_OK) return nxpy_raise(status);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
}

static PyObject *shares_memory(PyObject *module, PyObject *args) {
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "O!O!:shares_memory", &nxpy_tensor_type, &a, &nxpy_tensor_type, &b)) return NULL;
    const nx_storage *memory = nx_storage_memory(nxpy_tensor_get(a)->storage);
    return PyBool_FromLong(memory && memory == nx_storage_memory(nxpy_tensor_get(b)->storage));
}

static PyMethodDef methods[] = {
    {"shares_memory", shares_memory, METH_VARARGS, "shares_memory(a, b): whether they lie in one storage, fakes as what they stand for."},
    {"define_operator", define_operator, METH_VARARGS,
     "define_operator(name, schema, ((argument, type, by_keyword), ...), n_results, operator): graphs hold its calls as nodes, whose "
     "shapes are operator.shape(values) and whose results are operator.compute(values). False: they do not, since they hold no such "
     "arguments or the name is another operator's."},
    {NULL}};

int nxpy_add_outside(PyObject *module) { return PyModule_AddFunctions(module, methods); }
