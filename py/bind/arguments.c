/* From Python arguments to values, driven by an operator's parameters.
 * A parameter that does not fit makes the caller try its next overload, so conversions set no exception; they only say
 * what they expected. Integers, lists and floats follow PyTorch's parser: a bool is an int, an int is a float, a float is
 * no int, one int stands for a list of ints where the schema says int[1], and a call may spread the sizes of its first
 * list: view(3, 4). */
#include "bind/private.h"

static const char *const expected_text[] = {[NX_TYPE_TENSOR] = "Tensor",
                                            [NX_TYPE_TENSORS] = "tuple of Tensors",
                                            [NX_TYPE_INT] = "int",
                                            [NX_TYPE_INTS] = "tuple of ints",
                                            [NX_TYPE_FLOAT] = "float",
                                            [NX_TYPE_BOOL] = "bool",
                                            [NX_TYPE_SCALAR] = "Number",
                                            [NX_TYPE_STR] = "str",
                                            [NX_TYPE_DTYPE] = "torch.dtype",
                                            [NX_TYPE_DEVICE] = "torch.device",
                                            [NX_TYPE_LAYOUT] = "torch.layout",
                                            [NX_TYPE_MEMORY_FORMAT] = "torch.memory_format",
                                            [NX_TYPE_GENERATOR] = "torch.Generator",
                                            [NX_TYPE_BOOLS] = "tuple of bools",
                                            [NX_TYPE_NUMBERS] = "tuple of Numbers",
                                            [NX_TYPE_GRAPH] = "Graph"};

const char *nxpy_type_text(PyObject *o) {
    if (nxpy_tensor_check(o)) return "Tensor";
    return Py_TYPE(o)->tp_name;
}

bool nxpy_is_numpy_array(PyObject *o) { return strcmp(Py_TYPE(o)->tp_name, "numpy.ndarray") == 0; }

static bool is_integer(PyObject *o) {
    return PyLong_Check(o) || (!PyFloat_Check(o) && !nxpy_tensor_check(o) && PyIndex_Check(o) && !nxpy_is_numpy_array(o));
}

/* numpy's float64 is a Python float, its integers are indices; these are neither. */
bool nxpy_numpy_number(PyObject *o, nx_value *out) {
    const char *name = Py_TYPE(o)->tp_name;
    if (strncmp(name, "numpy.", 6) != 0) return false;
    if (strncmp(name + 6, "bool", 4) == 0) *out = nx_value_float(PyObject_IsTrue(o) == 1); /* as PyTorch */
    else if (strncmp(name + 6, "float", 5) == 0) *out = nx_value_float(PyFloat_AsDouble(o));
    else return false;
    return true;
}

/* 1, 0 (no integer), -1 (too large). */
static int read_int(PyObject *o, int64_t *out) {
    if (NX_LIKELY(PyLong_CheckExact(o))) {
        *out = PyLong_AsLongLong(o);
    } else {
        if (!is_integer(o)) return 0;
        PyObject *index = PyNumber_Index(o);
        if (index == NULL) return -1;
        *out = PyLong_AsLongLong(index);
        Py_DECREF(index);
    }
    if (NX_LIKELY(*out != -1) || !PyErr_Occurred()) return 1;
    PyErr_Clear();
    PyErr_SetString(PyExc_RuntimeError, "Overflow when unpacking long");
    return -1;
}

static int read_number(PyObject *o, nx_value *out) {
    if (nxpy_symnumber_value(o, out)) return 1;
    if (PyFloat_Check(o)) *out = nx_value_float(PyFloat_AS_DOUBLE(o));
    else if (PyBool_Check(o)) *out = nx_value_bool(o == Py_True);
    else if (PyComplex_Check(o)) *out = nxpy_complex_value(o);
    else if (!PyLong_Check(o) && nxpy_numpy_number(o, out)) return 1;
    else {
        int64_t i;
        int read = read_int(o, &i);
        if (read != 1) return read;
        *out = nx_value_int(i);
    }
    return 1;
}

/* A tensor without dimensions stands for its number, where no gradient would be lost. */
static int read_tensor_number(PyObject *o, nx_value *out) {
    const nx_tensor *tensor = nxpy_tensor_get(o);
    if (tensor->a.ndim != 0 || nx_tensor_requires_grad(tensor)) return 0;
    PyObject *number = nxpy_tensor_item(o, NULL);
    int read = number ? read_number(number, out) : -1;
    Py_XDECREF(number);
    return read;
}

/* The same where no overload takes the arguments as they are: floats from any number, ints from whole ones. */
static int read_counted(const nx_param *param, PyObject *o, nx_value *out) {
    bool whole = nx_is_int(nxpy_tensor_get(o)->a.dtype) && nxpy_tensor_get(o)->a.dtype != NX_BOOL;
    if (param->type == NX_TYPE_INT && !whole) return 0;
    int read = read_tensor_number(o, out);
    if (read == 1 && param->type == NX_TYPE_FLOAT && out->tag == NX_TAG_INT) *out = nx_value_float((double)out->i);
    return read == 1 && param->type == NX_TYPE_FLOAT && out->tag != NX_TAG_FLOAT ? 0 : read;
}

static bool is_whole_tensor(const nxpy_args *args, PyObject *o) {
    if (NX_LIKELY(!args->tensors_count) || !nxpy_tensor_check(o)) return false;
    const nx_array *a = &nxpy_tensor_get(o)->a;
    return nx_is_int(a->dtype) && a->dtype != NX_BOOL;
}

static bool is_counted(const nxpy_args *args, PyObject *o) { return is_whole_tensor(args, o) && nxpy_tensor_get(o)->a.ndim == 0; }

/* An array of numpy without dimensions, in a list. */
static int read_array_index(PyObject *o, int64_t *out) {
    PyObject *index = PyNumber_Index(o);
    int read = index ? read_int(index, out) : 0;
    if (index == NULL) PyErr_Clear();
    Py_XDECREF(index);
    return read;
}

/* In a list a tensor of one element does as well. */
static int read_index(const nxpy_args *args, PyObject *o, int64_t *out) {
    nx_value number;
    if (NX_UNLIKELY(args->tensors_count) && nxpy_is_numpy_array(o)) return read_array_index(o, out);
    if (NX_LIKELY(!is_whole_tensor(args, o))) return read_int(o, out);
    if (nxpy_tensor_get(o)->a.numel != 1) return 0;
    PyObject *item = nxpy_tensor_item(o, NULL);
    int read = item ? read_number(item, &number) : -1;
    Py_XDECREF(item);
    *out = number.i;
    return read == 1 && number.tag != NX_TAG_INT ? 0 : read;
}

/* A list with sizes in it that a trace does not fix. */
static int read_sizes(PyObject *const *items, Py_ssize_t n, nxpy_args *args, nx_value *out) {
    if (n > NXPY_MAX_LIST - args->n_list) return 0;
    nx_value *at = args->list + args->n_list;
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t known;
        if (nxpy_symint_value(items[i], &at[i])) continue;
        int read = read_index(args, items[i], &known);
        if (read != 1) return read;
        at[i] = nx_value_int(known);
    }
    args->n_list += (int)n;
    *out = nx_value_list(at, (int)n);
    return 1;
}

static int read_ints(PyObject *const *items, Py_ssize_t n, nxpy_args *args, nx_value *out) {
    if (n > NXPY_MAX_INTS - args->n_ints) return 0;
    int64_t *at = args->ints + args->n_ints;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (NX_UNLIKELY(nxpy_symint_check(items[i]))) return read_sizes(items, n, args, out);
        int read = read_index(args, items[i], &at[i]);
        if (read != 1) return read;
    }
    args->n_ints += (int)n;
    *out = nx_value_ints(at, (int)n);
    return 1;
}

/* Room for n values: in the buffer while that lasts, then in blocks that nxpy_args_end frees. */
static nx_value *list_room(nxpy_args *args, Py_ssize_t n) {
    if (n <= NXPY_MAX_LIST - args->n_list) {
        args->n_list += (int)n;
        return args->list + args->n_list - n;
    }
    nxpy_block *block = PyMem_Malloc(sizeof *block + sizeof(nx_value) * (size_t)n);
    if (block == NULL) return (nx_value *)PyErr_NoMemory();
    block->next = args->blocks;
    block->owned = NULL;
    args->blocks = block;
    return block->values;
}

/* The items of a tuple or list. A list's are kept until nxpy_args_end: another thread may change it during a long call. */
static PyObject **keep_items(nxpy_args *args, PyObject *o) {
    if (PyTuple_Check(o)) return PySequence_Fast_ITEMS(o);
    PyObject *kept = PyList_AsTuple(o);
    nxpy_block *block = kept ? PyMem_Malloc(sizeof *block) : NULL;
    if (block == NULL) {
        Py_XDECREF(kept);
        PyErr_NoMemory();
        return NULL;
    }
    *block = (nxpy_block){.next = args->blocks, .owned = kept};
    args->blocks = block;
    return PySequence_Fast_ITEMS(kept);
}

void nxpy_args_end(nxpy_args *args) {
    for (nxpy_block *block = args->blocks, *next; block; block = next) {
        next = block->next;
        Py_XDECREF(block->owned);
        PyMem_Free(block);
    }
}

static int read_element(const nx_param *param, const nxpy_args *args, PyObject *o, Py_ssize_t i, nx_value *out) {
    if (param->type == NX_TYPE_BOOLS) {
        *out = nx_value_bool(o == Py_True);
        return PyBool_Check(o);
    }
    if (param->type == NX_TYPE_NUMBERS) return read_number(o, out);
    bool takes = nxpy_is_plain(o) || (nxpy_tensor_check(o) && !nxpy_overrides(o));
    *out = takes ? nx_value_tensor(nxpy_tensor_get(o)) : NX_VALUE_NONE;
    bool none = o == Py_None && param->optional_elements;
    if (out->tag == NX_TAG_TENSOR || (none && strchr(args->function, ':'))) return 1;
    if ((i == 0 && !none) || nxpy_overrides(o)) return 0;
    PyErr_Format(PyExc_TypeError, "expected Tensor as element %zd in argument %d, but got %s", i, args->at, Py_TYPE(o)->tp_name);
    return -1;
}

static int read_list(const nx_param *param, PyObject *o, nxpy_args *args, nx_value *out) {
    if (!PyList_Check(o) && !PyTuple_Check(o)) return 0;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    if (param->type == NX_TYPE_BOOLS && param->int_list_of && n != param->int_list_of) {
        PyErr_Format(PyExc_RuntimeError, "Tried to convert a List with %zd elements to a fixed-size array of size %d", n,
                     param->int_list_of);
        return -1;
    }
    PyObject **items = keep_items(args, o);
    nx_value *at = items ? list_room(args, n) : NULL;
    if (at == NULL) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        int read = read_element(param, args, items[i], i, &at[i]);
        if (read != 1) return read;
    }
    *out = nx_value_list(at, (int)n);
    return 1;
}

static int read_dtype(PyObject *o, nx_value *out) {
    nx_dtype dtype;
    if (!nxpy_dtype_from(o, &dtype)) return 0;
    *out = nx_value_dtype(dtype);
    return 1;
}

static int read_device(PyObject *o, nx_value *out) {
    nx_device device;
    if (Py_TYPE(o) != &nxpy_device_type && !PyUnicode_Check(o)) return 0;
    if (nxpy_device_from(o, &device) < 0) return -1;
    *out = nx_value_device(device);
    return 1;
}

static int read_float(PyObject *o, nx_value *out) {
    PyObject *number = nxpy_symnumber_check(o) ? nxpy_symnumber_fix(o) : Py_NewRef(o);
    int read = !number ? -1 : PyBool_Check(o) ? 0 : read_number(number, out);
    Py_XDECREF(number);
    if (read == 1 && out->tag == NX_TAG_COMPLEX) return 0;
    if (read == 1 && out->tag == NX_TAG_INT) *out = nx_value_float((double)out->i);
    return read;
}

/* One argument: 1 converted, 0 does not fit, -1 exception. */
static int read_argument(const nx_param *param, PyObject *o, nxpy_args *args, nx_value *out) {
    if (o == Py_None && (param->optional || (param->has_initial && param->initial.tag == NX_TAG_NONE))) {
        *out = NX_VALUE_NONE;
        return 1;
    }
    bool is_number = param->type == NX_TYPE_SCALAR || param->type == NX_TYPE_INT || param->type == NX_TYPE_FLOAT;
    if (NX_UNLIKELY(args->tensors_count) && is_number && nxpy_tensor_check(o)) return read_counted(param, o, out);
    switch (param->type) {
    case NX_TYPE_TENSOR:
        if (nxpy_tensor_check(o)) {
            *out = nx_value_tensor(nxpy_tensor_get(o));
            return nxpy_is_plain(o) || !nxpy_overrides(o); /* else its class answers */
        }
        return param->number_too ? read_number(o, out) : 0;
    case NX_TYPE_SCALAR: return param->keyword_only && nxpy_tensor_check(o) ? read_tensor_number(o, out) : read_number(o, out);
    case NX_TYPE_INT: {
        int64_t i;
        if (!PyLong_CheckExact(o) && nxpy_symint_value(o, out)) return 1;
        int read = read_int(o, &i);
        if (read == 1) *out = nx_value_int(i);
        return read;
    }
    case NX_TYPE_FLOAT: return read_float(o, out);
    case NX_TYPE_BOOL:
        if (!PyBool_Check(o)) return 0;
        *out = nx_value_bool(o == Py_True);
        return 1;
    case NX_TYPE_INTS:
        if (param->int_list_of && (is_integer(o) || is_counted(args, o))) { /* it stands for all */
            PyObject *const same[] = {o, o, o, o, o, o};
            return read_ints(same, nx_least(param->int_list_of, NX_COUNT(same)), args, out);
        }
        if (!PyList_Check(o) && !PyTuple_Check(o)) return 0;
        return read_ints(PySequence_Fast_ITEMS(o), PySequence_Fast_GET_SIZE(o), args, out);
    case NX_TYPE_TENSORS:
    case NX_TYPE_BOOLS:
    case NX_TYPE_NUMBERS: return read_list(param, o, args, out);
    case NX_TYPE_GRAPH: return nxpy_graph_value_read(o, out);
    case NX_TYPE_STR:
        if (!PyUnicode_Check(o)) return 0;
        *out = nx_value_str(PyUnicode_AsUTF8(o));
        return out->str ? 1 : -1;
    case NX_TYPE_DTYPE: return read_dtype(o, out);
    case NX_TYPE_DEVICE: return read_device(o, out);
    case NX_TYPE_LAYOUT:
    case NX_TYPE_MEMORY_FORMAT:
        if (Py_TYPE(o) != &nxpy_word_type) return 0;
        *out = (nx_value){.tag = ((nxpy_word *)o)->tag, .i = ((nxpy_word *)o)->value};
        return out->tag == (param->type == NX_TYPE_LAYOUT ? NX_TAG_LAYOUT : NX_TAG_MEMORY_FORMAT);
    case NX_TYPE_GENERATOR:
        if (Py_TYPE(o) != &nxpy_generator_type) return 0;
        *out = (nx_value){.tag = NX_TAG_GENERATOR, .generator = nxpy_generator_get(o)};
        return 1;
    }
    return 0;
}

/* Says in `why` that `o` does not fit parameter `at`. `place`: which positional argument of the call it was; 0 by name. */
static int refuse(const nxpy_overload *overload, int at, int place, PyObject *o, char *why, size_t why_bytes) {
    const nx_param *param = &overload->op->def->params[at];
    const char *expected = expected_text[param->type], *name = PyUnicode_AsUTF8(overload->names[at]);
    char position[32] = "";
    if (why == NULL) return 0;
    if (place) snprintf(position, sizeof position, " (position %d)", place);
    if (param->type == NX_TYPE_INTS && (PyList_Check(o) || PyTuple_Check(o))) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++) {
            PyObject *item = PySequence_Fast_ITEMS(o)[i];
            if (is_integer(item) || nxpy_symint_check(item)) continue;
            snprintf(why, why_bytes, "argument '%s'%s must be %s, but found element of type %s at pos %zd", name,
                     position, expected, nxpy_type_text(item), i);
            return 0;
        }
    }
    snprintf(why, why_bytes, "argument '%s'%s must be %s, not %s", name, position, expected, nxpy_type_text(o));
    return 0;
}

/* sizes spread over the call: the k-th parameter, if it is the only one by position, takes all arguments that are left */
static bool spreads(const nx_op_def *def, int k, bool is_method, PyObject *const *given, Py_ssize_t n_given,
                    const nxpy_args *args) {
    return k == (is_method ? 1 : 0) && k < n_given && def->params[k].type == NX_TYPE_INTS &&
           !def->params[k].keyword_only && !def->params[k].optional && (is_integer(given[k]) || is_counted(args, given[k])) &&
           (k + 1 == def->n_in || def->params[k + 1].keyword_only || (def->flags & NX_OP_FACTORY)) &&
           (n_given - k > 1 || !def->params[k].int_list_of);
}

/* The parameter that NumPy calls `name`; n_in: none. */
static int numpy_parameter(const nxpy_overload *overload, PyObject *name) {
    static const char *const names[][2] = {{"axis", "dim"}, {"keepdims", "keepdim"}, {"x", "input"}, {"a", "input"},
                                           {"x1", "input"}, {"x2", "other"}};
    int n_in = overload->op->def->n_in;
    for (int j = 0; j < NX_COUNT(names); j++) {
        if (PyUnicode_CompareWithASCIIString(name, names[j][0]) != 0) continue;
        for (int k = 0; k < n_in; k++) {
            if (PyUnicode_CompareWithASCIIString(overload->names[k], names[j][1]) == 0) return k;
        }
    }
    return n_in;
}

/* out=(values, indices): the written arguments, which stand last. */
static int read_outs(const nxpy_overload *overload, PyObject *given, nxpy_args *args, uint64_t *filled) {
    const nx_op_def *def = overload->op->def;
    if (!(PyTuple_Check(given) || PyList_Check(given)) || PySequence_Fast_GET_SIZE(given) != def->n_out) return 0;
    for (int i = 0, k = def->n_in - def->n_out; i < def->n_out; i++, k++) {
        PyObject *item = PySequence_Fast_ITEMS(given)[i];
        if (!nxpy_tensor_check(item) || *filled >> k & 1 || nxpy_overrides(item)) return 0;
        args->in[k] = nx_value_tensor(nxpy_tensor_get(item));
        *filled |= UINT64_C(1) << k;
    }
    return 1;
}

/* ones, and ones_like: what says where the new tensor lies, says whether it requires gradients. */
static bool makes_tensor(const nx_op_def *def) {
    bool makes = def->flags & NX_OP_FACTORY;
    for (int k = 0; k < def->n_in && !makes; k++) makes = strcmp(def->params[k].name, "pin_memory") == 0;
    return makes;
}

static bool may_miss(const nx_param *param) { return param->has_initial || (param->optional && param->keyword_only); }

/* 0 with all that is missing as the reason. PyTorch's texts have their plural where one is missing. */
static int refuse_missing(const nxpy_overload *overload, uint64_t filled, char *why, size_t why_bytes) {
    const nx_op_def *def = overload->op->def;
    int n = 0;
    for (int k = 0; k < def->n_in; k++) n += !(filled >> k & 1) && !may_miss(&def->params[k]);
    int length = snprintf(why, why_bytes, "missing %d required positional argument%s", n, n == 1 ? "s" : "");
    const char *before = ": ";
    for (int k = 0; k < def->n_in && (size_t)length < why_bytes; k++) {
        if (filled >> k & 1 || may_miss(&def->params[k])) continue;
        length += snprintf(why + length, why_bytes - (size_t)length, "%s\"%s\"", before, PyUnicode_AsUTF8(overload->names[k]));
        before = ", ";
    }
    return 0;
}

static int fill_initials(const nxpy_overload *overload, uint64_t filled, nxpy_args *args, char *why,
                         size_t why_bytes) {
    const nx_op_def *def = overload->op->def;
    for (int k = 0; k < def->n_in; k++) {
        if (filled >> k & 1) continue;
        const nx_param *param = &def->params[k];
        if (!may_miss(param)) return why ? refuse_missing(overload, filled, why, why_bytes) : 0;
        args->in[k] = param->has_initial ? param->initial : NX_VALUE_NONE;
    }
    return 1;
}

/* What is missing is told before a keyword that is not known. */
static int refuse_keyword(const nxpy_overload *overload, PyObject *unknown, uint64_t filled, nxpy_args *args, char *why,
                          size_t why_bytes) {
    if (fill_initials(overload, filled, args, why, why_bytes) == 0) return 0;
    snprintf(why, why_bytes, "got an unexpected keyword argument '%s'", PyUnicode_AsUTF8(unknown));
    return 0;
}

/* Option j of a factory that has out=, whose tensor must be so already. 1: it is; 0: no such option; -1: it is not. */
static int read_option(const nxpy_overload *overload, PyObject *const *values, PyObject *keywords, Py_ssize_t j, nxpy_args *args) {
    const nx_op *made_by = overload->op->def->variant == NX_OUT ? overload->op->functional : NULL;
    const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(keywords, j));
    const nx_array *out = NULL;
    nx_value given;
    if (made_by == NULL || name == NULL || !makes_tensor(made_by->def)) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); i++) {
        bool is_out = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, i), "out") == 0;
        if (is_out && nxpy_tensor_check(values[i])) out = &nxpy_tensor_get(values[i])->a;
    }
    if (out == NULL) return 0;
    if (strcmp(name, "requires_grad") == 0) {
        int truth = PyObject_IsTrue(values[j]);
        args->requires_grad = truth == 1;
        return truth < 0 ? -1 : 1;
    }
    if (strcmp(name, "layout") == 0 || strcmp(name, "pin_memory") == 0) return 1;
    if (strcmp(name, "dtype") != 0 && strcmp(name, "device") != 0) return 0;
    if (values[j] == Py_None) return 1;
    if (name[1] == 't') {
        int read = read_dtype(values[j], &given);
        if (read != 1 || given.i == out->dtype) return read;
        PyErr_Format(PyExc_RuntimeError, "dtype %s does not match dtype of out parameter (%s)", nx_dtype_kind((nx_dtype)given.i),
                     nx_dtype_kind((nx_dtype)out->dtype));
        return -1;
    }
    int read = read_device(values[j], &given);
    if (read != 1 || given.device.type == out->device.type) return read;
    PyObject *device = nxpy_device_object(given.device), *type = device ? PyObject_GetAttrString(device, "type") : NULL;
    if (type)
        PyErr_Format(PyExc_RuntimeError, "device type %U does not match device type of out parameter (%s)", type,
                     nx_device_type_name(out->device.type));
    Py_XDECREF(type);
    Py_XDECREF(device);
    return -1;
}

static int read_keywords(const nxpy_overload *overload, bool is_method, PyObject *const *values, PyObject *keywords, nxpy_args *args,
                         uint64_t *filled, char *why, size_t why_bytes) {
    const nx_op_def *def = overload->op->def;
    PyObject *unknown = NULL;
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(keywords); j++) {
        PyObject *name = PyTuple_GET_ITEM(keywords, j);
        int k = 0;
        while (k < def->n_in && overload->names[k] != name) k++;
        for (int i = 0; k == def->n_in && i < def->n_in; i++) { /* a name that was not interned */
            if (PyUnicode_Compare(overload->names[i], name) == 0) k = i;
        }
        if (k == def->n_in) k = numpy_parameter(overload, name);
        if (k == def->n_in) {
            if (PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0 && makes_tensor(def)) {
                int truth = PyObject_IsTrue(values[j]);
                if (truth < 0) return -1;
                args->requires_grad = truth;
                continue;
            }
            int option = read_option(overload, values, keywords, j, args);
            if (option < 0) return -1;
            if (option) continue;
            if (def->variant == NX_OUT && def->n_out > 1 && PyUnicode_CompareWithASCIIString(name, "out") == 0) {
                if (read_outs(overload, values[j], args, filled)) continue;
                if (why) snprintf(why, why_bytes, "argument 'out' must be tuple of Tensors, not %s", nxpy_type_text(values[j]));
                return 0;
            }
            if (values[j] == Py_None && PyUnicode_CompareWithASCIIString(name, "out") == 0) continue; /* none is given */
            if (why == NULL) return 0;
            if (unknown == NULL) unknown = name;
            continue;
        }
        if (*filled >> k & 1) {
            if (why)
                snprintf(why, why_bytes, "got multiple values for argument '%s'", PyUnicode_AsUTF8(name));
            return 0;
        }
        args->at = k - is_method;
        int read = read_argument(&def->params[k], values[j], args, &args->in[k]);
        if (read == 1 && NX_UNLIKELY(args->in[k].tag == NX_TAG_COMPLEX)) read = def->params[k].complex_too;
        if (read == 0) return refuse(overload, k, 0, values[j], why, why_bytes);
        if (read < 0) return -1;
        *filled |= UINT64_C(1) << k;
    }
    return unknown ? refuse_keyword(overload, unknown, *filled, args, why, why_bytes) : 1;
}

/* More than it takes by position: told before what is wrong with one of them. */
static bool refuse_many(const nx_op_def *def, bool is_method, PyObject *const *given, Py_ssize_t n_given, nxpy_args *args,
                        char *why, size_t why_bytes) {
    int n = 0;
    while (n < def->n_in && !def->params[n].keyword_only) n++;
    if (n_given <= n || spreads(def, is_method ? 1 : 0, is_method, given, n_given, args)) return false;
    snprintf(why, why_bytes, "takes %d positional argument%s but %d were given", n, n == 1 ? "" : "s", (int)n_given);
    return true;
}

/* Whether a number stands in a tensor's place, and no tensor beside it. */
static bool numbers_alone(const nx_op_def *def, const nxpy_args *args) {
    bool number = false;
    for (int k = 0; k < def->n_in; k++) {
        if (def->params[k].type != NX_TYPE_TENSOR || nx_param_is_out(&def->params[k])) continue;
        if (args->in[k].tag == NX_TAG_TENSOR) return false;
        number = number || def->params[k].number_too;
    }
    return number;
}

int nxpy_parse(const nxpy_overload *overload, bool is_method, PyObject *const *given, Py_ssize_t n_given,
               PyObject *keywords, nxpy_args *args, char *why, size_t why_bytes) {
    const nx_op_def *def = overload->op->def;
    uint64_t filled = 0;
    args->n_ints = args->n_list = 0;
    args->requires_grad = false;
    if (why && refuse_many(def, is_method, given, n_given, args, why, why_bytes)) return 0;
    for (Py_ssize_t k = 0; k < n_given; k++) {
        int read;
        if (k >= def->n_in || def->params[k].keyword_only) return 0;
        if (NX_LIKELY(def->params[k].type == NX_TYPE_TENSOR && nxpy_is_plain(given[k]))) {
            args->in[k] = nx_value_tensor(nxpy_tensor_get(given[k]));
            filled |= UINT64_C(1) << k;
            continue;
        }
        bool spread = spreads(def, (int)k, is_method, given, n_given, args);
        if (spread) read = read_ints(given + k, n_given - k, args, &args->in[k]);
        else {
            args->at = (int)k - is_method;
            read = read_argument(&def->params[k], given[k], args, &args->in[k]);
        }
        if (read == 1 && NX_UNLIKELY(args->in[k].tag == NX_TAG_COMPLEX)) read = def->params[k].complex_too;
        if (read == 0) return refuse(overload, (int)k, (int)k + !is_method, given[k], why, why_bytes);
        if (read < 0) return -1;
        filled |= UINT64_C(1) << k;
        if (spread) break;
    }
    if (keywords) {
        int read = read_keywords(overload, is_method, given + n_given, keywords, args, &filled, why, why_bytes);
        if (read != 1) return read;
    }
    if (!fill_initials(overload, filled, args, why, why_bytes)) return 0;
    if (NX_LIKELY(!numbers_alone(def, args))) return 1;
    return refuse(overload, 0, !is_method, n_given ? given[0] : Py_None, why, why_bytes);
}
