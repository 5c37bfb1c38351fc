/* Storages from Python: tensors over a buffer, several tensors over one storage, bytes of a storage, and the
 * state of generators as bytes. What reads and writes files (serialization.py) stands on these.
 * A state is the 5056 bytes of PyTorch's CPU generator, little endian: seed at 0, left at 8, seeded at 12,
 * next at 16, 624 words of 64 bits at 24, the cached normal at 5024, whether there is one at 5040; else 0. */
#include "bind/memory.h"

enum { STATE_BYTES = 5056, N_WORDS = 624 };
enum { AT_LEFT = 8, AT_SEEDED = 12, AT_NEXT = 16, AT_WORDS = 24, AT_NORMAL = 5024, AT_HAS_NORMAL = 5040 };

static nx_tensor *tensor_of(PyObject *o, const char *what) {
    if (nxpy_tensor_check(o)) return nxpy_tensor_get(o);
    return (void *)PyErr_Format(PyExc_TypeError, "%s: expected a Tensor, not %s", what, Py_TYPE(o)->tp_name);
}

static void release_buffer(void *context) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(context);
    PyMem_RawFree(context);
    PyGILState_Release(state);
}

/* tensor_over(buffer, dtype): a vector over the memory of a buffer that can be written to, which it keeps. */
static PyObject *tensor_over(PyObject *module, PyObject *args) {
    PyObject *from, *dtype;
    if (!PyArg_ParseTuple(args, "OO:tensor_over", &from, &dtype)) return NULL;
    if (!nxpy_dtype_check(dtype)) {
        return PyErr_Format(PyExc_TypeError, "tensor_over: argument 'dtype' must be torch.dtype");
    }
    Py_buffer *buffer = PyMem_RawMalloc(sizeof *buffer);
    if (buffer == NULL) return PyErr_NoMemory();
    if (PyObject_GetBuffer(from, buffer, PyBUF_WRITABLE) < 0) {
        PyMem_RawFree(buffer);
        return NULL;
    }
    nx_dtype type = nxpy_dtype_get(dtype);
    int64_t bytes = nx_dtype_bytes(type), n = buffer->len / bytes;
    nx_tensor *tensor;
    nx_status status;
    if (buffer->len % bytes == 0) {
        status = nx_tensor_from_memory(buffer->buf, type, 1, &n, NULL, release_buffer, buffer, &tensor);
    } else {
        status = nx_fail(NX_VALUE, "tensor_over: %lld bytes are no multiple of the element size %lld",
                         (long long)buffer->len, (long long)bytes);
    }
    if (status == NX_OK) return nxpy_tensor_take(tensor);
    PyBuffer_Release(buffer);
    PyMem_RawFree(buffer);
    return nxpy_raise(status);
}

static int read_ints(PyObject *from, const char *what, int64_t *out) {
    PyObject *list = PySequence_Fast(from, "tensor_on_storage: size and stride must be sequences");
    if (list == NULL) return -1;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
    for (Py_ssize_t i = 0; i < n && n <= NX_MAX_DIMS; i++) {
        out[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(list, i));
        if (out[i] == -1 && PyErr_Occurred()) break;
    }
    Py_DECREF(list);
    if (n > NX_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "tensor_on_storage: %s has %zd entries, at most %d are possible", what,
                     n, NX_MAX_DIMS);
    }
    return PyErr_Occurred() ? -1 : (int)n;
}

/* Whether all elements lie in `bytes`; sizes come from files, so that nothing may overflow. */
static bool fits_storage(const nx_meta *meta, size_t bytes) {
    int64_t last = meta->offset, room = (int64_t)(bytes / nx_dtype_bytes(meta->dtype));
    bool empty = false;
    for (int d = 0; d < meta->ndim; d++) {
        int64_t span;
        if (meta->size[d] < 0 || meta->stride[d] < 0) return false;
        empty |= meta->size[d] == 0;
        if (meta->size[d] == 0) continue;
        if (__builtin_mul_overflow(meta->size[d] - 1, meta->stride[d], &span)) return false;
        if (__builtin_add_overflow(last, span, &last)) return false;
    }
    return meta->offset >= 0 && (empty ? meta->offset <= room : last < room);
}

/* tensor_on_storage(like, size, stride, offset, dtype of like): another tensor on like's storage, no view of it. */
static PyObject *tensor_on_storage(PyObject *module, PyObject *args) {
    PyObject *like, *size, *stride, *dtype = NULL;
    long long offset;
    if (!PyArg_ParseTuple(args, "OOOL|O:tensor_on_storage", &like, &size, &stride, &offset, &dtype)) return NULL;
    if (dtype && !nxpy_dtype_check(dtype))
        return PyErr_Format(PyExc_TypeError, "tensor_on_storage: argument 'dtype' must be torch.dtype");
    nx_tensor *from = tensor_of(like, "tensor_on_storage"), *made;
    if (from == NULL) return NULL;
    nx_meta meta = {.dtype = from->a.dtype, .device = from->a.device, .view_of = -1, .offset = offset};
    if (dtype) meta.dtype = nxpy_dtype_get(dtype);
    meta.ndim = read_ints(size, "size", meta.size);
    int n_strides = meta.ndim < 0 ? -1 : read_ints(stride, "stride", meta.stride);
    if (n_strides < 0) return NULL;
    bool known = from->storage != NULL && (!nx_tensor_is_fake(from) || nx_is_meta(from->a.device));
    if (!known || n_strides != meta.ndim || !fits_storage(&meta, from->storage->bytes)) {
        return PyErr_Format(PyExc_RuntimeError,
                            "tensor_on_storage: size %R, stride %R, offset %lld are out of bounds",
                            size, stride, offset);
    }
    NXPY_TRY(nx_tensor_new_view(from->storage, &meta, from->keys & ~NX_KEYS_OWN, NULL, &made));
    return nxpy_tensor_take(made);
}

/* storage_key(tensor): (number, bytes); living tensors with the same number share a storage. */
static PyObject *storage_key(PyObject *module, PyObject *of) {
    nx_tensor *tensor = tensor_of(of, "storage_key");
    if (tensor == NULL) return NULL;
    const nx_storage *storage = nx_storage_memory(tensor->storage);
    Py_ssize_t bytes = storage ? (Py_ssize_t)storage->bytes : 0;
    return Py_BuildValue("Kn", (unsigned long long)(uintptr_t)storage, bytes);
}

/* storage_users(tensor): how many tensors and others hold its memory. */
static PyObject *storage_users(PyObject *module, PyObject *of) {
    nx_tensor *tensor = tensor_of(of, "storage_users");
    if (tensor == NULL) return NULL;
    const nx_storage *storage = tensor->storage;
    long more = storage && storage->shown ? (long)atomic_load(&storage->shown->refs) : 0; /* one of them is the storage itself */
    return PyLong_FromLong(storage ? (long)atomic_load(&storage->refs) + more : 0);
}

/* storage_bytes(tensor): a copy of all bytes of its storage, which must be the CPU's. */
static PyObject *storage_bytes(PyObject *module, PyObject *of) {
    nx_tensor *tensor = tensor_of(of, "storage_bytes");
    if (tensor == NULL) return NULL;
    if (nx_tensor_is_fake(tensor) || tensor->storage == NULL || tensor->a.device.type != 0) {
        return PyErr_Format(PyExc_RuntimeError, "storage_bytes: only CPU tensors with elements have bytes");
    }
    return PyBytes_FromStringAndSize(tensor->storage->data, (Py_ssize_t)tensor->storage->bytes);
}

/* ---- generators ---------------------------------------------------------------------------------------- */
static nx_generator *twister_of(PyObject *self) {
    nx_generator *g = nxpy_generator_get(self);
    if (g->class == NULL) return g;
    PyErr_SetString(PyExc_NotImplementedError, "Generator.draw: only the CPU's draws for Python so far");
    return NULL;
}

enum { WORDS_BYTES = 2 * sizeof(uint64_t) };
static PyObject *get_words(nx_generator *g) {
    const int64_t n = WORDS_BYTES;
    nx_tensor *state;
    uint64_t words[2];
    NXPY_TRY(nx_tensor_new(NX_U8, 1, &n, NX_CPU, &state));
    nx_generator_get_words(g, words);
    memcpy(state->a.data, words, WORDS_BYTES);
    return nxpy_tensor_take(state);
}
static PyObject *set_words(PyObject *self, const nx_tensor *state) {
    uint64_t words[2];
    if (state->a.numel != WORDS_BYTES)
        return PyErr_Format(PyExc_RuntimeError, "RNG state is wrong size: expected the %d bytes of get_state", WORDS_BYTES);
    memcpy(words, state->a.data, WORDS_BYTES);
    nx_generator_set_words(nxpy_generator_get(self), words);
    return Py_NewRef(self);
}

PyObject *nxpy_generator_get_state(PyObject *self, PyObject *unused) {
    nx_generator *g = nxpy_generator_get(self);
    if (g->class) return get_words(g);
    const int64_t n = STATE_BYTES;
    nx_tensor *state;
    NXPY_TRY(nx_tensor_new(NX_U8, 1, &n, NX_CPU, &state));
    char *to = state->a.data;
    memset(to, 0, STATE_BYTES);
    nx_generator_lock(g);
    const int32_t yes = 1, has_normal = g->has_normal;
    const uint64_t next = (uint64_t)g->next;
    memcpy(to, &g->seed, sizeof g->seed);
    memcpy(to + AT_LEFT, &g->left, sizeof g->left);
    memcpy(to + AT_SEEDED, &yes, sizeof yes);
    memcpy(to + AT_NEXT, &next, sizeof next);
    for (int i = 0; i < N_WORDS; i++) memcpy(to + AT_WORDS + 8 * i, &g->state[i], sizeof g->state[i]);
    if (g->has_normal) memcpy(to + AT_NORMAL, &g->normal, sizeof g->normal);
    memcpy(to + AT_HAS_NORMAL, &has_normal, sizeof has_normal);
    nx_generator_unlock(g);
    return nxpy_tensor_take(state);
}

PyObject *nxpy_generator_set_state(PyObject *self, PyObject *from) {
    nx_generator *g = nxpy_generator_get(self);
    const nx_tensor *state = tensor_of(from, "Generator.set_state");
    if (state == NULL) return NULL;
    bool real = state->a.device.type == 0 && !nx_tensor_is_fake(state);
    if (!real || state->a.dtype != NX_U8 || !state->a.contiguous) {
        return PyErr_Format(PyExc_TypeError, "RNG state must be a torch.ByteTensor");
    }
    if (g->class) return set_words(self, state);
    const char *at = state->a.data;
    int32_t left, seeded, has_normal;
    uint32_t next;
    if (state->a.numel == STATE_BYTES) {
        memcpy(&left, at + AT_LEFT, sizeof left);
        memcpy(&seeded, at + AT_SEEDED, sizeof seeded);
        memcpy(&next, at + AT_NEXT, sizeof next);
        memcpy(&has_normal, at + AT_HAS_NORMAL, sizeof has_normal);
    }
    /* An output comes from word `next` unless `left` is used up: both must stay within the words. */
    if (state->a.numel != STATE_BYTES || seeded == 0 || left < 1 || left > N_WORDS || next > N_WORDS
        || next + left - 1 > N_WORDS) {
        return PyErr_Format(PyExc_RuntimeError,
                            "Generator.set_state: invalid mt19937 state (expected the %d bytes of get_state)",
                            STATE_BYTES);
    }
    nx_generator_lock(g);
    memcpy(&g->seed, at, sizeof g->seed);
    g->left = left;
    g->next = (int32_t)next;
    for (int i = 0; i < N_WORDS; i++) memcpy(&g->state[i], at + AT_WORDS + 8 * i, sizeof g->state[i]);
    g->has_normal = has_normal != 0;
    memcpy(&g->normal, at + AT_NORMAL, sizeof g->normal);
    nx_generator_unlock(g);
    return Py_NewRef(self);
}

/* None: the default one. */
static nx_generator *generator_to_draw(PyObject *o) {
    if (o == Py_None) return nx_generator_default();
    if (PyObject_TypeCheck(o, &nxpy_generator_type)) return twister_of(o);
    return (void *)PyErr_Format(PyExc_TypeError, "expected a torch.Generator, not %s", Py_TYPE(o)->tp_name);
}

/* draw_seed(generator): the number that random_() would put into an int64. */
static PyObject *draw_seed(PyObject *module, PyObject *from) {
    nx_generator *g = generator_to_draw(from);
    if (g == NULL) return NULL;
    nx_generator_lock(g);
    uint64_t seed = nx_generator_u64(g) & INT64_MAX;
    nx_generator_unlock(g);
    return PyLong_FromUnsignedLongLong(seed);
}

/* Ranges from 2^28 on take 64 bits, as in PyTorch. */
static uint64_t draw_one(nx_generator *g, uint64_t below) {
    return below >= (UINT64_C(1) << 28) ? nx_generator_u64(g) % below : nx_generator_u32(g) % below;
}

/* draw_below(n, count, generator): a list of `count` numbers below n, as randint gives them. */
static PyObject *draw_below(PyObject *module, PyObject *args) {
    long long n;
    Py_ssize_t count;
    PyObject *from;
    if (!PyArg_ParseTuple(args, "LnO:draw_below", &n, &count, &from)) return NULL;
    nx_generator *g = generator_to_draw(from);
    if (g == NULL) return NULL;
    if (n <= 0 || count < 0) return PyErr_Format(PyExc_ValueError, "draw_below: n=%lld must be positive", n);
    PyObject *list = PyList_New(count);
    nx_generator_lock(g); /* making a number runs nobody else's code */
    for (Py_ssize_t i = 0; list && i < count; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(draw_one(g, (uint64_t)n));
        if (number) PyList_SET_ITEM(list, i, number);
        else Py_CLEAR(list);
    }
    nx_generator_unlock(g);
    return list;
}

/* draw_order(n, generator): a list of the numbers below n in the order of randperm: each changes places with
 * one at or behind it. */
static PyObject *draw_order(PyObject *module, PyObject *args) {
    Py_ssize_t n;
    PyObject *from;
    if (!PyArg_ParseTuple(args, "nO:draw_order", &n, &from)) return NULL;
    nx_generator *g = generator_to_draw(from);
    if (g == NULL) return NULL;
    if (n >= 214748364) {
        return PyErr_Format(PyExc_NotImplementedError, "draw_order: more than 214748363 are not there yet");
    }
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *number = PyLong_FromSsize_t(i);
        if (number) PyList_SET_ITEM(list, i, number);
        else Py_CLEAR(list);
    }
    nx_generator_lock(g);
    for (Py_ssize_t i = 0; list && i < n - 1; i++) {
        Py_ssize_t other = i + (Py_ssize_t)(nx_generator_u32(g) % (uint64_t)(n - i));
        PyObject *here = PyList_GET_ITEM(list, i);
        PyList_SET_ITEM(list, i, PyList_GET_ITEM(list, other));
        PyList_SET_ITEM(list, other, here);
    }
    nx_generator_unlock(g);
    return list;
}

static PyObject *set_default_device(PyObject *module, PyObject *to) {
    nx_device device = NX_CPU;
    if (to != Py_None && nxpy_device_from(to, &device) < 0) return NULL;
    nx_device_set_default(device);
    Py_RETURN_NONE;
}
static PyObject *get_default_device(PyObject *module, PyObject *unused) { return nxpy_device_object(nx_device_default()); }

static PyMethodDef functions[] = {
    {"set_default_device", set_default_device, METH_O, "set_default_device(device): where tensors are made; None: the CPU."},
    {"get_default_device", get_default_device, METH_NOARGS, "Where tensors are made of which nobody says it."},
    {"draw_seed", draw_seed, METH_O, "draw_seed(generator): 63 random bits; None: the default generator."},
    {"draw_below", draw_below, METH_VARARGS, "draw_below(n, count, generator): random numbers below n."},
    {"draw_order", draw_order, METH_VARARGS, "draw_order(n, generator): the numbers below n, shuffled."},
    {"tensor_over", tensor_over, METH_VARARGS,
     "tensor_over(buffer, dtype): a vector over the memory of a buffer that can be written to."},
    {"tensor_on_storage", tensor_on_storage, METH_VARARGS,
     "tensor_on_storage(like, size, stride, offset, dtype=like's): another tensor on like's storage."},
    {"storage_key", storage_key, METH_O, "storage_key(tensor): (number of its storage, bytes)."},
    {"storage_users", storage_users, METH_O, "storage_users(tensor): how many hold its memory."},
    {"storage_bytes", storage_bytes, METH_O, "storage_bytes(tensor): a copy of its storage's bytes."},
    {NULL}};

int nxpy_add_memory(PyObject *module) {
    PyObject *generator = nxpy_generator_object(nx_generator_ref(nx_generator_default()));
    int added = generator ? PyModule_AddObjectRef(module, "default_generator", generator) : -1;
    Py_XDECREF(generator);
    return added < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
