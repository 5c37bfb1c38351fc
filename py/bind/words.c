/* Small immutable objects: dtypes, devices, sizes, layouts, memory formats, generators; values as objects. */
#include "bind/memory.h"

/* ---- dtype: one object each -------------------------------------------------------------------------------- */
typedef struct dtype_object {
    PyObject_HEAD nx_dtype dtype;
} dtype_object;
static dtype_object *dtypes[NX_N_DTYPES];

static PyObject *dtype_repr(PyObject *self) {
    return PyUnicode_FromFormat("torch.%s", nx_dtype_name(((dtype_object *)self)->dtype));
}
static PyObject *dtype_floating(PyObject *self, void *unused) {
    return PyBool_FromLong(nx_is_float(((dtype_object *)self)->dtype));
}
static PyObject *dtype_complex(PyObject *self, void *unused) {
    return PyBool_FromLong(nx_is_complex(((dtype_object *)self)->dtype));
}
static PyObject *dtype_signed(PyObject *self, void *unused) {
    nx_dtype d = ((dtype_object *)self)->dtype;
    nx_category category = nx__dtype_facts[d].category;
    return PyBool_FromLong(category != NX_CATEGORY_BOOL && category != NX_CATEGORY_UNSIGNED && d != NX_F8_E8M0FNU);
}
static PyObject *dtype_itemsize(PyObject *self, void *unused) {
    return PyLong_FromSize_t(nx_dtype_bytes(((dtype_object *)self)->dtype));
}
static PyObject *dtype_brief(PyObject *self, void *unused) {
    return PyUnicode_FromString(nx_dtype_brief(((dtype_object *)self)->dtype));
}
/* The numbers of torch.finfo, of a complex type those of its parts. */
static PyObject *dtype_limits(PyObject *self, void *unused) {
    const nx_dtype_facts *facts = &nx__dtype_facts[((dtype_object *)self)->dtype];
    return Py_BuildValue("(ddd)", facts->highest, facts->eps, facts->smallest);
}
static PyObject *dtype_real(PyObject *self, PyObject *unused) {
    return nxpy_dtype_object(nx_dtype_real(((dtype_object *)self)->dtype));
}
static PyObject *dtype_to_complex(PyObject *self, PyObject *unused) {
    return nxpy_dtype_object(nx_dtype_complex(((dtype_object *)self)->dtype));
}
static PyObject *dtype_promote(PyObject *self, PyObject *other) {
    if (!nxpy_dtype_check(other)) return PyErr_Format(PyExc_TypeError, "promote_types: expected torch.dtype");
    nx_dtype a = nxpy_dtype_get(self), b = nxpy_dtype_get(other), made = nx_promote_types(a, b);
    if (made == NX_N_DTYPES) {
        nx_array first = {.dtype = (uint8_t)a, .ndim = 1}, second = {.dtype = (uint8_t)b, .ndim = 1};
        const nx_value values[] = {{.tag = NX_TAG_TENSOR, .array = &first}, {.tag = NX_TAG_TENSOR, .array = &second}};
        return nxpy_raise(nx_fail_promotion((const nx_value *const[]){&values[0], &values[1]}, 2));
    }
    return nxpy_dtype_object(made);
}
static PyObject *dtype_casts_to(PyObject *self, PyObject *other) {
    if (!nxpy_dtype_check(other)) return PyErr_Format(PyExc_TypeError, "casts_to: expected torch.dtype");
    return PyBool_FromLong(nx_can_cast(nxpy_dtype_get(self), nxpy_dtype_get(other)));
}
static PyObject *dtype_kind(PyObject *self, void *unused) {
    return PyUnicode_FromString(nx_dtype_kind(((dtype_object *)self)->dtype));
}
static PyObject *dtype_reduce(PyObject *self, PyObject *unused) {
    return PyUnicode_FromString(nx_dtype_name(((dtype_object *)self)->dtype));
}
static PyGetSetDef dtype_getset[] = {
    {"is_floating_point", dtype_floating, NULL, "Whether it is a floating point type.", NULL},
    {"is_complex", dtype_complex, NULL, "Whether it is a complex type.", NULL},
    {"is_signed", dtype_signed, NULL, "Whether it has negative numbers.", NULL},
    {"itemsize", dtype_itemsize, NULL, "Bytes of one element.", NULL},
    {"kind", dtype_kind, NULL, "Its name in messages: Float.", NULL},
    {"abbr", dtype_brief, NULL, "Its name in texts of graphs: \"f32\".", NULL},
    {"limits", dtype_limits, NULL, "Highest value, eps and smallest normal value of a floating type.", NULL},
    {NULL}};
static PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, NULL},
    {"to_real", dtype_real, METH_NOARGS, "The type of a complex type's parts, else itself."},
    {"promote", dtype_promote, METH_O, "The type that results of this and another have."},
    {"casts_to", dtype_casts_to, METH_O, "Whether a result of this type may be written to a tensor of another."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex type of such parts, else itself."},
    {NULL}};
PyTypeObject nxpy_dtype_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.dtype",
                                .tp_basicsize = sizeof(dtype_object),
                                .tp_flags = Py_TPFLAGS_DEFAULT,
                                .tp_repr = dtype_repr,
                                .tp_getset = dtype_getset,
                                .tp_methods = dtype_methods,
                                .tp_doc = "The type of a tensor's elements."};

PyObject *nxpy_dtype_object(nx_dtype dtype) { return Py_NewRef((PyObject *)dtypes[dtype]); }
bool nxpy_dtype_check(PyObject *o) { return Py_TYPE(o) == &nxpy_dtype_type; }
nx_dtype nxpy_dtype_get(PyObject *o) { return ((dtype_object *)o)->dtype; }
bool nxpy_dtype_from(PyObject *o, nx_dtype *out) {
    if (nxpy_dtype_check(o)) *out = nxpy_dtype_get(o);
    else if (o == (PyObject *)&PyFloat_Type) *out = NX_F64;
    else if (o == (PyObject *)&PyComplex_Type) *out = NX_C128;
    else if (o == (PyObject *)&PyLong_Type) *out = NX_I64;
    else if (o == (PyObject *)&PyBool_Type) *out = NX_BOOL;
    else return false;
    return true;
}

/* ---- device ---------------------------------------------------------------------------------------------------- */
typedef struct device_object {
    PyObject_HEAD nx_device device;
    bool has_index;
} device_object;

static PyObject *new_device(nx_device device, bool has_index) {
    device_object *o = PyObject_New(device_object, &nxpy_device_type);
    if (o == NULL) return NULL;
    o->device = device;
    o->has_index = has_index;
    return (PyObject *)o;
}
/* Device types that PyTorch knows and nothing here computes on: torch.device("cuda") is a value that programs compare,
 * of the type -1, -2, ...; whoever asks for such a device gets an error. */
static const char *const absent_types[] = {"cuda", "mps", "xpu", "xla", "hpu", "mtia", "ipu", "hip", "maia",
                                           "vulkan", "mkldnn", "lazy", "ve", "fpga", "privateuseone"};

static const char *device_type_text(nx_device device) {
    return device.type < 0 ? absent_types[-1 - device.type] : nx_device_type_name(device.type);
}

/* Whether `text` is the name of an absent type, with a number or without. */
static bool find_absent(const char *text, nx_device *out) {
    size_t n = strcspn(text, ":");
    for (int k = 0; k < NX_COUNT(absent_types); k++) {
        if (strlen(absent_types[k]) != n || memcmp(absent_types[k], text, n) != 0) continue;
        char *end = NULL;
        long index = text[n] ? strtol(text + n + 1, &end, 10) : 0;
        if (text[n] && (end == text + n + 1 || *end || index < 0 || index > 127)) return false;
        *out = (nx_device){(int8_t)(-1 - k), (int8_t)index};
        return true;
    }
    return false;
}

static int raise_absent(nx_device device) {
    const char *name = device_type_text(device);
    if (strcmp(name, "cuda") == 0) {
        PyErr_SetString(PyExc_AssertionError, "Torch not compiled with CUDA enabled: Narthex has no CUDA device");
    } else {
        PyErr_Format(PyExc_RuntimeError, "there is no device of type %s: Narthex has none, and no plugin is one", name);
    }
    return -1;
}

/* A tensor's device: on the CPU and on meta it has no index, as in PyTorch. */
PyObject *nxpy_device_object(nx_device device) { return new_device(device, device.type != 0 && !nx_is_meta(device)); }

int nxpy_device_from(PyObject *o, nx_device *out) {
    if (Py_TYPE(o) == &nxpy_device_type) {
        *out = ((device_object *)o)->device;
        if (out->type < 0) return raise_absent(*out);
        if (!((device_object *)o)->has_index && out->type != 0) *out = nx_device_current(out->type);
        return 0;
    }
    if (PyUnicode_Check(o)) {
        const char *text = PyUnicode_AsUTF8(o);
        if (text == NULL) return -1;
        nx_status status = nx_device_parse(text, out);
        if (status != NX_OK && find_absent(text, out)) return raise_absent(*out);
        if (status != NX_OK) nxpy_raise(status);
        return status == NX_OK ? 0 : -1;
    }
    PyErr_Format(PyExc_TypeError, "device: expected torch.device or str, not %s", Py_TYPE(o)->tp_name);
    return -1;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"type", "index", NULL};
    PyObject *given, *index = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:device", names, &given, &index)) return NULL;
    nx_device device;
    const char *text = PyUnicode_Check(given) ? PyUnicode_AsUTF8(given) : NULL;
    if (PyUnicode_Check(given) && text == NULL) return NULL;
    if (Py_TYPE(given) == &nxpy_device_type) {
        device = ((device_object *)given)->device;
    } else if (text == NULL || nx_device_parse(text, &device) != NX_OK) {
        if ((text == NULL || !find_absent(text, &device)) && nxpy_device_from(given, &device) < 0) return NULL;
    }
    bool has_index = Py_TYPE(given) == &nxpy_device_type ? ((device_object *)given)->has_index
                                                         : strchr(PyUnicode_AsUTF8(given), ':') != NULL;
    if (index != Py_None) {
        long k = PyLong_AsLong(index);
        if (k == -1 && PyErr_Occurred()) return NULL;
        if (k < 0 || k > 127) return PyErr_Format(PyExc_RuntimeError, "device: index %ld is out of range", k);
        device.index = (int8_t)k;
        has_index = true;
    }
    return new_device(device, has_index);
}
static PyObject *device_repr(PyObject *self) {
    device_object *o = (device_object *)self;
    const char *name = device_type_text(o->device);
    return o->has_index ? PyUnicode_FromFormat("device(type='%s', index=%d)", name, o->device.index)
                        : PyUnicode_FromFormat("device(type='%s')", name);
}
static PyObject *device_str(PyObject *self) {
    device_object *o = (device_object *)self;
    const char *name = device_type_text(o->device);
    return o->has_index ? PyUnicode_FromFormat("%s:%d", name, o->device.index) : PyUnicode_FromString(name);
}
static Py_hash_t device_hash(PyObject *self) {
    device_object *o = (device_object *)self;
    return o->device.type * 1000 + (o->has_index ? o->device.index + 1 : 0) + 1;
}
static PyObject *device_compare(PyObject *a, PyObject *b, int how) {
    if (Py_TYPE(b) != &nxpy_device_type || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((device_hash(a) == device_hash(b)) == (how == Py_EQ));
}
static PyObject *device_type(PyObject *self, void *unused) {
    return PyUnicode_FromString(device_type_text(((device_object *)self)->device));
}
static PyObject *device_index(PyObject *self, void *unused) {
    device_object *o = (device_object *)self;
    if (!o->has_index) Py_RETURN_NONE;
    return PyLong_FromLong(o->device.index);
}
static PyObject *device_reduce(PyObject *self, PyObject *unused) {
    return Py_BuildValue("O(N)", &nxpy_device_type, device_str(self));
}
/* `with device:` tensors are made there unless something else is said. */
enum { MAX_NESTED = 64 };
static _Thread_local nx_device outer[MAX_NESTED];
static _Thread_local int n_outer;
static PyObject *device_enter(PyObject *self, PyObject *unused) {
    nx_device device;
    if (nxpy_device_from(self, &device) < 0) return NULL;
    if (n_outer == MAX_NESTED) return PyErr_Format(PyExc_RecursionError, "device: %d nested contexts, no more are possible", n_outer);
    outer[n_outer++] = nx_device_default();
    nx_device_set_default(device);
    return Py_NewRef(self);
}
static PyObject *device_exit(PyObject *self, PyObject *unused) {
    if (n_outer > 0) nx_device_set_default(outer[--n_outer]);
    Py_RETURN_NONE;
}
static PyGetSetDef device_getset[] = {{"type", device_type, NULL, "\"cpu\", \"npu\", ...", NULL},
                                      {"index", device_index, NULL, "Which one of its type, or None.", NULL},
                                      {NULL}};
static PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, NULL},
                                       {"__enter__", device_enter, METH_NOARGS, "Tensors are made here from now on."},
                                       {"__exit__", device_exit, METH_VARARGS, NULL},
                                       {NULL}};
PyTypeObject nxpy_device_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.device",
                                 .tp_basicsize = sizeof(device_object),
                                 .tp_flags = Py_TPFLAGS_DEFAULT,
                                 .tp_new = device_new,
                                 .tp_repr = device_repr,
                                 .tp_str = device_str,
                                 .tp_hash = device_hash,
                                 .tp_richcompare = device_compare,
                                 .tp_getset = device_getset,
                                 .tp_methods = device_methods,
                                 .tp_doc = "device(type, index=None): where a tensor's elements are."};

/* ---- Size: a tuple that prints as PyTorch's -------------------------------------------------------------------------- */
static PyObject *size_repr(PyObject *self) {
    PyObject *list = PySequence_List(self);
    PyObject *text = list ? PyUnicode_FromFormat("torch.Size(%R)", list) : NULL;
    Py_XDECREF(list);
    return text;
}
static PyObject *size_numel(PyObject *self, PyObject *unused) {
    PyObject *n = PyLong_FromLong(1);
    for (Py_ssize_t i = 0; n && i < PyTuple_GET_SIZE(self); i++) {
        PyObject *product = PyNumber_Multiply(n, PyTuple_GET_ITEM(self, i)); /* of sizes that a graph leaves open, one such */
        Py_SETREF(n, product);
    }
    return n;
}
/* A Size of what tuples' own slots make of sizes; takes the tuple over. */
static PyObject *size_of(PyObject *tuple) {
    if (tuple == NULL || !PyTuple_CheckExact(tuple)) return tuple;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    PyObject *size = nxpy_size_type.tp_alloc(&nxpy_size_type, n);
    for (Py_ssize_t i = 0; size && i < n; i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        PyTuple_SET_ITEM(size, i, Py_NewRef(item));
        if (PyIndex_Check(item)) continue;
        PyErr_Format(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i, Py_TYPE(item)->tp_name);
        Py_CLEAR(size);
    }
    Py_DECREF(tuple);
    return size;
}
static PyObject *size_item(PyObject *self, PyObject *key) {
    PyObject *item = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
    return NX_LIKELY(!PySlice_Check(key)) ? item : size_of(item);
}
static PyObject *size_add(PyObject *left, PyObject *right) {
    if (!PyTuple_Check(left) || !PyTuple_Check(right)) Py_RETURN_NOTIMPLEMENTED;
    return size_of(PyTuple_Type.tp_as_sequence->sq_concat(left, right));
}
static PyObject *size_repeat(PyObject *left, PyObject *right) {
    PyObject *size = PyTuple_Check(left) ? left : right, *times = size == left ? right : left;
    if (!PyIndex_Check(times)) Py_RETURN_NOTIMPLEMENTED;
    Py_ssize_t n = PyNumber_AsSsize_t(times, PyExc_OverflowError);
    if (n == -1 && PyErr_Occurred()) return NULL;
    return size_of(PyTuple_Type.tp_as_sequence->sq_repeat(size, n));
}
static PyMappingMethods size_mapping = {.mp_subscript = size_item};
static PyNumberMethods size_number = {.nb_add = size_add, .nb_multiply = size_repeat}; /* a tuple's own slots ask only the left one */
static PyMethodDef size_methods[] = {{"numel", size_numel, METH_NOARGS, "The product of the sizes."}, {NULL}};
PyTypeObject nxpy_size_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.Size",
                               .tp_base = NULL,
                               .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                               .tp_repr = size_repr,
                               .tp_as_mapping = &size_mapping,
                               .tp_as_number = &size_number,
                               .tp_methods = size_methods,
                               .tp_doc = "The sizes of a tensor, a tuple of ints."};

PyObject *nxpy_size_object(int n, const int64_t *at) {
    PyObject *size = nxpy_size_type.tp_alloc(&nxpy_size_type, n);
    for (int i = 0; size && i < n; i++) {
        PyObject *k = PyLong_FromLongLong(at[i]);
        if (k == NULL) Py_CLEAR(size);
        else PyTuple_SET_ITEM(size, i, k);
    }
    return size;
}

/* ---- layouts and memory formats ------------------------------------------------------------------------------------------ */
static nxpy_word words[] = {
    {.name = "strided", .tag = NX_TAG_LAYOUT, .value = 0}, /* the one of tensors that operators know; next: Python's class */
    {.name = "sparse_coo", .tag = NX_TAG_LAYOUT, .value = 1},
    {.name = "sparse_csr", .tag = NX_TAG_LAYOUT, .value = 2},
    {.name = "sparse_csc", .tag = NX_TAG_LAYOUT, .value = 3},
    {.name = "sparse_bsr", .tag = NX_TAG_LAYOUT, .value = 4},
    {.name = "sparse_bsc", .tag = NX_TAG_LAYOUT, .value = 5},
    {.name = "contiguous_format", .tag = NX_TAG_MEMORY_FORMAT, .value = 0},
    {.name = "preserve_format", .tag = NX_TAG_MEMORY_FORMAT, .value = 1},
    {.name = "channels_last", .tag = NX_TAG_MEMORY_FORMAT, .value = 2},
    {.name = "channels_last_3d", .tag = NX_TAG_MEMORY_FORMAT, .value = 3},
};
static PyObject *word_repr(PyObject *self) {
    return PyUnicode_FromFormat("torch.%s", ((nxpy_word *)self)->name);
}
PyTypeObject nxpy_word_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.memory_format",
                               .tp_basicsize = sizeof(nxpy_word), .tp_flags = Py_TPFLAGS_DEFAULT,
                               .tp_repr = word_repr, .tp_str = word_repr};

PyObject *nxpy_word_object(uint32_t tag, int value) {
    for (int i = 0; i < NX_COUNT(words); i++) {
        if (words[i].tag == tag && words[i].value == value) return Py_NewRef((PyObject *)&words[i]);
    }
    return PyErr_Format(PyExc_SystemError, "no such layout or memory format: %d", value);
}

/* ---- generators --------------------------------------------------------------------------------------------------------------- */
nx_generator *nxpy_generator_get(PyObject *o) { return ((nxpy_generator *)o)->generator; }
PyObject *nxpy_generator_object(nx_generator *generator) {
    nxpy_generator *o = PyObject_New(nxpy_generator, &nxpy_generator_type);
    if (o == NULL) nx_generator_unref(generator);
    else o->generator = generator;
    return (PyObject *)o;
}
static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"device", NULL};
    PyObject *where = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:Generator", names, &where)) return NULL;
    nx_device device = NX_CPU;
    if (where && nxpy_device_from(where, &device) < 0) return NULL;
    nx_generator *generator;
    if (device.type == 0) {
        NXPY_TRY(nx_generator_new(&generator));
        return nxpy_generator_object(generator);
    }
    const nx_device_api *api = nx_device_get_api(device.type);
    if (api->generator_new == NULL)
        return PyErr_Format(PyExc_RuntimeError, "Generator: device %s has none", api->name);
    NXPY_TRY(api->generator_new(api->context, device.index, &generator));
    return nxpy_generator_object(generator);
}
static void generator_dealloc(PyObject *self) {
    nx_generator_unref(nxpy_generator_get(self));
    PyObject_Free(self);
}
static PyObject *generator_manual_seed(PyObject *self, PyObject *seed) {
    if (!PyLong_CheckExact(seed))
        return PyErr_Format(PyExc_RuntimeError, "manual_seed expected a long, but got %s",
                            Py_TYPE(seed)->tp_name);
    uint64_t value = PyLong_AsUnsignedLongLongMask(seed);
    if (PyErr_Occurred()) return NULL;
    nx_generator_seed(nxpy_generator_get(self), value);
    return Py_NewRef(self);
}
static PyObject *generator_initial_seed(PyObject *self, PyObject *unused) {
    return PyLong_FromUnsignedLongLong(nxpy_generator_get(self)->seed);
}
static PyObject *generator_device(PyObject *self, void *unused) {
    return nxpy_device_object(nxpy_generator_get(self)->device);
}
static PyMethodDef generator_methods[] = {
    {"manual_seed", generator_manual_seed, METH_O,
     "manual_seed(seed): starts the numbers again; returns the generator."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, "The seed that it was started with."},
    {"get_state", nxpy_generator_get_state, METH_NOARGS, "Where it stands, as a tensor of bytes."},
    {"set_state", nxpy_generator_set_state, METH_O, "set_state(state): goes where get_state was called."},
    {NULL}};
static PyGetSetDef generator_getset[] = {{"device", generator_device, NULL, "Where it draws.", NULL}, {NULL}};
PyTypeObject nxpy_generator_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.Generator",
                                    .tp_basicsize = sizeof(nxpy_generator),
                                    .tp_flags = Py_TPFLAGS_DEFAULT,
                                    .tp_new = generator_new,
                                    .tp_dealloc = generator_dealloc,
                                    .tp_methods = generator_methods,
                                    .tp_getset = generator_getset,
                                    .tp_doc = "Generator(device='cpu'): draws random numbers."};

static int add_dtypes(PyObject *module) {
    static const struct {
        const char *name;
        nx_dtype dtype;
    } also[] = {{"float", NX_F32}, {"double", NX_F64}, {"half", NX_F16},
                {"long", NX_I64},  {"int", NX_I32},    {"short", NX_I16},
                {"cfloat", NX_C64}, {"cdouble", NX_C128}, {"chalf", NX_C32}};
    for (int d = 0; d < NX_N_DTYPES; d++) {
        if ((dtypes[d] = PyObject_New(dtype_object, &nxpy_dtype_type)) == NULL) return -1;
        dtypes[d]->dtype = (nx_dtype)d;
        if (PyModule_AddObjectRef(module, nx_dtype_name(d), (PyObject *)dtypes[d]) < 0) return -1;
    }
    for (int i = 0; i < NX_COUNT(also); i++) {
        if (PyModule_AddObjectRef(module, also[i].name, (PyObject *)dtypes[also[i].dtype]) < 0) return -1;
    }
    return 0;
}

int nxpy_add_words(PyObject *module) {
    nxpy_size_type.tp_base = &PyTuple_Type;
    PyTypeObject *types[] = {&nxpy_dtype_type, &nxpy_device_type, &nxpy_size_type, &nxpy_word_type,
                             &nxpy_generator_type};
    static const char *const names[] = {"dtype", "device", "Size", "memory_format", "Generator"};
    for (int i = 0; i < NX_COUNT(types); i++) {
        if (PyType_Ready(types[i]) < 0 || PyModule_AddObjectRef(module, names[i], (PyObject *)types[i]) < 0)
            return -1;
    }
    for (int i = 0; i < NX_COUNT(words); i++) {
        PyObject_Init((PyObject *)&words[i], &nxpy_word_type);
        if (PyModule_AddObjectRef(module, words[i].name, (PyObject *)&words[i]) < 0) return -1;
    }
    return add_dtypes(module);
}

/* ---- any value ------------------------------------------------------------------------------------------------- */
PyObject *(*nxpy_graph_value_object)(const nx_value *value);
bool (*nxpy_graph_value_read)(PyObject *o, nx_value *out);

PyObject *nxpy_value_object(const nx_value *value) {
    switch (value->tag) {
    case NX_TAG_NONE: Py_RETURN_NONE;
    case NX_TAG_TENSOR: return nxpy_tensor_wrap(value->tensor);
    case NX_TAG_INT: return PyLong_FromLongLong(value->i);
    case NX_TAG_FLOAT: return PyFloat_FromDouble(value->f);
    case NX_TAG_COMPLEX: return PyComplex_FromDoubles(value->parts[0], value->parts[1]);
    case NX_TAG_BOOL: return PyBool_FromLong(value->i != 0);
    case NX_TAG_STR: return PyUnicode_FromString(value->str);
    case NX_TAG_DTYPE: return nxpy_dtype_object((nx_dtype)value->i);
    case NX_TAG_DEVICE: return nxpy_device_object(value->device);
    case NX_TAG_LAYOUT:
    case NX_TAG_MEMORY_FORMAT: return nxpy_word_object(value->tag, (int)value->i);
    case NX_TAG_OPAQUE: return Py_NewRef((PyObject *)value->opaque);
    case NX_TAG_GRAPH: return nxpy_graph_value_object(value);
    case NX_TAG_INTS:
    case NX_TAG_LIST: {
        PyObject *list = PyList_New(value->n);
        for (int i = 0; list && i < value->n; i++) {
            PyObject *item = value->tag == NX_TAG_INTS ? PyLong_FromLongLong(value->ints[i])
                                                       : nxpy_value_object(&value->list[i]);
            if (item) PyList_SET_ITEM(list, i, item);
            else Py_CLEAR(list);
        }
        return list;
    }
    default: return PyErr_Format(PyExc_TypeError, "a value of kind %d has no Python form", (int)value->tag);
    }
}
