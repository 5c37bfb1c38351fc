/* The process: seeds, default dtype, devices, threads, flags, what tests need of the allocator. */
#include "bind/memory.h"
#include "bind/private.h"
#include "iter/iter.h"

#include <signal.h>

static PyObject *manual_seed(PyObject *module, PyObject *seed) {
    PyObject *number = PyNumber_Long(seed);
    if (number == NULL) return NULL;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    uint64_t bits = (uint64_t)value;
    if (overflow) { /* 2^63 .. 2^64-1 are accepted as they are, anything else is refused */
        bits = PyLong_AsUnsignedLongLong(number);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            Py_DECREF(number);
            return PyErr_Format(PyExc_ValueError, "Overflow when unpacking long long");
        }
    }
    Py_DECREF(number);
    nx_manual_seed(bits);
    return PyObject_GetAttrString(module, "default_generator");
}
static PyObject *initial_seed(PyObject *module, PyObject *unused) {
    return PyLong_FromUnsignedLongLong(nx_generator_default()->seed);
}
static PyObject *get_default_dtype(PyObject *module, PyObject *unused) {
    return nxpy_dtype_object(nx_default_dtype());
}
static PyObject *dtype_from(PyObject *module, PyObject *from) {
    nx_dtype dtype;
    if (!nxpy_dtype_from(from, &dtype)) Py_RETURN_NONE;
    return nxpy_dtype_object(dtype);
}
static PyObject *set_default_dtype(PyObject *module, PyObject *dtype) {
    if (!nxpy_dtype_check(dtype))
        return PyErr_Format(
            PyExc_TypeError,
            "invalid dtype object: only floating-point types are supported as the default type");
    NXPY_TRY(nx_set_default_dtype(nxpy_dtype_get(dtype)));
    Py_RETURN_NONE;
}

/* ---- devices ---------------------------------------------------------------------------------------------------------- */
static PyObject *load_plugin(PyObject *module, PyObject *path) {
    const char *text = PyUnicode_AsUTF8(path);
    if (text == NULL) return NULL;
    NXPY_TRY(nx_device_load_plugin(text));
    Py_RETURN_NONE;
}
static PyObject *device_types(PyObject *module, PyObject *unused) {
    PyObject *list = PyList_New(nx_device_n_types());
    for (int i = 0; list && i < nx_device_n_types(); i++) {
        PyObject *name = PyUnicode_FromString(nx_device_type_name(i));
        if (name) PyList_SET_ITEM(list, i, name);
        else Py_CLEAR(list);
    }
    return list;
}
static PyObject *device_count(PyObject *module, PyObject *type) {
    nx_device device;
    if (nxpy_device_from(type, &device) < 0) return NULL;
    const nx_device_api *api = nx_device_get_api(device.type);
    return PyLong_FromLong(api->device_count(api->context));
}
static PyObject *device_generator(PyObject *module, PyObject *of) {
    nx_device device;
    if (nxpy_device_from(of, &device) < 0) return NULL;
    nx_generator *generator = nx_device_generator(device);
    if (generator == NULL) return PyErr_Format(PyExc_RuntimeError, "device_generator: %R has no generator", of);
    return nxpy_generator_object(nx_generator_ref(generator));
}
static PyObject *synchronize(PyObject *module, PyObject *where) {
    nx_device device;
    if (nxpy_device_from(where, &device) < 0) return NULL;
    NXPY_TRY(nx_device_synchronize(device));
    Py_RETURN_NONE;
}
static PyObject *device_control(PyObject *module, PyObject *args) {
    const char *type, *name;
    long long value;
    nx_device device;
    if (!PyArg_ParseTuple(args, "ssL:device_control", &type, &name, &value)) return NULL;
    NXPY_TRY(nx_device_parse(type, &device));
    const nx_device_api *api = nx_device_get_api(device.type);
    if (api->control == NULL)
        return PyErr_Format(PyExc_RuntimeError, "device_control: %s has no test hooks", type);
    NXPY_TRY(api->control(api->context, name, value));
    Py_RETURN_NONE;
}
static PyObject *set_device(PyObject *module, PyObject *where) {
    nx_device device;
    if (nxpy_device_from(where, &device) < 0) return NULL;
    NXPY_TRY(nx_device_set_current(device));
    Py_RETURN_NONE;
}
static PyObject *current_device(PyObject *module, PyObject *type) {
    nx_device device;
    if (nxpy_device_from(type, &device) < 0) return NULL;
    return nxpy_device_object(nx_device_current(device.type));
}
static PyObject *fallbacks(PyObject *module, PyObject *unused) {
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < nx_fallback_count(); i++) {
        int64_t calls;
        const char *name = nx_fallback_name(i, &calls);
        PyObject *n = PyLong_FromLongLong(calls);
        if (n == NULL || PyDict_SetItemString(dict, name, n) < 0) Py_CLEAR(dict);
        Py_XDECREF(n);
    }
    return dict;
}
static PyObject *fallbacks_clear(PyObject *module, PyObject *unused) {
    nx_fallback_clear();
    Py_RETURN_NONE;
}

/* ---- flags, threads, operators ---------------------------------------------------------------------------------------------- */
static PyObject *flag_bool(bool value) { return PyBool_FromLong(value); }
static PyObject *flag_text(const char *value) {
    return value ? PyUnicode_FromString(value) : Py_NewRef(Py_None);
}
static PyObject *flags(PyObject *module, PyObject *unused) {
    PyObject *list = PyList_New(0), *row;
#define NX_FLAG_ROW(name, type, initial, variable, meaning)                                                  \
    row =                                                                                                    \
        Py_BuildValue("(ssNs)", #name, variable,                                                             \
                      _Generic((type){0}, bool: flag_bool, const char *: flag_text)(nx_flag.name), meaning); \
    if (row == NULL || PyList_Append(list, row) < 0) return NULL;                                            \
    Py_DECREF(row);
#include "base/flags.def"
#undef NX_FLAG_ROW
    return list;
}
static PyObject *level_name(PyObject *module, PyObject *unused) { return PyUnicode_FromString(nx_level_name(nx_level())); }
static PyObject *log_settings(PyObject *module, PyObject *unused) { return flag_text(nx_flag.logs); }
static PyObject *get_num_threads(PyObject *module, PyObject *unused) {
    return PyLong_FromLong(nx_num_threads());
}
static PyObject *set_num_threads(PyObject *module, PyObject *n) {
    long value = PyLong_AsLong(n);
    if (value == -1 && PyErr_Occurred()) return NULL;
    if (value <= 0) return PyErr_Format(PyExc_RuntimeError, "set_num_threads expects a positive integer");
    nx_set_num_threads((int)value);
    Py_RETURN_NONE;
}
static PyObject *op_info(PyObject *module, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL) return NULL;
    const nx_op *op = nx_op_get(text);
    if (op == NULL) return PyErr_Format(PyExc_KeyError, "no operator %s", text);
    static const char *const kinds[] = {"kernel", "point", "reduce", "view", "composed"};
    static const char *const variants[] = {"functional", "in-place", "out"};
    const nx_op_def *def = op->def;
    return Py_BuildValue("{ssssssssssszsOsO}", "name", def->name, "schema", def->schema, "kind",
                         kinds[def->kind], "variant", variants[def->variant], "source", def->source, "nograd",
                         def->nograd, "differentiable", def->derivative ? Py_True : Py_False,
                         "data_sized", def->flags & NX_OP_DATA_SIZED ? Py_True : Py_False);
}
static PyObject *op_names(PyObject *module, PyObject *unused) {
    PyObject *list = PyList_New(nx_op_count());
    for (int i = 0; list && i < nx_op_count(); i++) {
        PyObject *name = PyUnicode_FromString(nx_op_at(i)->def->name);
        if (name) PyList_SET_ITEM(list, i, name);
        else Py_CLEAR(list);
    }
    return list;
}

/* ---- autocast ------------------------------------------------------------------------------------------------------ */
static PyObject *autocast_get(PyObject *module, PyObject *type) {
    nx_device device;
    if (nxpy_device_from(type, &device) < 0) return NULL;
    return Py_BuildValue("(NN)", PyBool_FromLong(nx_autocast_enabled(device.type)),
                         nxpy_dtype_object(nx_autocast_dtype(device.type)));
}
static PyObject *autocast_set(PyObject *module, PyObject *args) {
    PyObject *type, *dtype;
    int enabled;
    nx_device device;
    if (!PyArg_ParseTuple(args, "OpO:autocast_set", &type, &enabled, &dtype) || nxpy_device_from(type, &device) < 0) return NULL;
    if (!nxpy_dtype_check(dtype)) return PyErr_Format(PyExc_TypeError, "autocast_set: expected a dtype");
    nx_autocast_set(device.type, enabled, nxpy_dtype_get(dtype));
    Py_RETURN_NONE;
}
static PyObject *autocast_cache(PyObject *module, PyObject *args) {
    int enabled = -1;
    if (!PyArg_ParseTuple(args, "|p:autocast_cache", &enabled)) return NULL;
    if (enabled >= 0) nx_thread_get()->autocast_uncached = !enabled;
    return PyBool_FromLong(!nx_thread_get()->autocast_uncached);
}
static PyObject *autocast_nesting(PyObject *module, PyObject *args) {
    int change = 0;
    if (!PyArg_ParseTuple(args, "|i:autocast_nesting", &change)) return NULL;
    return PyLong_FromLong(nx_thread_get()->autocast_nesting += change);
}
static PyObject *clear_autocast_cache(PyObject *module, PyObject *unused) {
    nx_autocast_clear();
    Py_RETURN_NONE;
}

static PyObject *explain_threads(PyObject *module, PyObject *unused) {
    char text[256];
    int n = nx_explain_threads(text, sizeof text);
    return Py_BuildValue("is", n, text);
}
static PyObject *set_piece(PyObject *module, PyObject *bytes) {
    long long value = PyLong_AsLongLong(bytes);
    if (value == -1 && PyErr_Occurred()) return NULL;
    nx_set_piece(value);
    Py_RETURN_NONE;
}
static PyObject *set_level(PyObject *module, PyObject *name) {
    const char *wanted = PyUnicode_AsUTF8(name);
    return wanted ? PyBool_FromLong(nx_set_level(wanted)) : NULL;
}
static PyObject *set_reference(PyObject *module, PyObject *on) {
    int wanted = PyObject_IsTrue(on);
    if (wanted < 0) return NULL;
    nx_flag.reference = wanted;
    Py_RETURN_NONE;
}

/* ---- memory: python/narthex/_memory.py gives it PyTorch's names ------------------------------------------------------------------ */
static int set_number(PyObject *dict, const char *key, long long value) {
    PyObject *number = PyLong_FromLongLong(value);
    int failed = number ? PyDict_SetItemString(dict, key, number) : -1;
    Py_XDECREF(number);
    return failed;
}

static int set_counts(PyObject *dict, const char *row, const nx_memory_count *counts) {
    static const char *const pools[] = {"all", "large_pool", "small_pool"};
    for (int kind = 0; kind < NX_N_MEMORY_KINDS; kind++) {
        const nx_memory_count *c = &counts[kind];
        const struct { const char *name; int64_t value; } metrics[] = {
            {"current", c->current}, {"peak", c->peak}, {"allocated", c->allocated}, {"freed", c->freed}};
        for (int i = 0; i < NX_COUNT(metrics); i++) {
            char key[96];
            snprintf(key, sizeof key, "%s.%s.%s", row, pools[kind], metrics[i].name);
            if (set_number(dict, key, metrics[i].value) < 0) return -1;
        }
    }
    return 0;
}

static int set_stats(PyObject *dict, const nx_memory_stats *stats) {
    static const char *const rows[] = {
#define NX_MEMORY_ROW(name, meaning) #name,
#include "narthex/memory.def"
#undef NX_MEMORY_ROW
    };
    const struct { const char *name; int64_t value; } others[] = {
        {"num_alloc_retries", stats->n_retries}, {"num_ooms", stats->n_failures}, {"num_device_alloc", stats->n_device_alloc},
        {"num_device_free", stats->n_device_free}, {"limit", stats->limit == SIZE_MAX ? -1 : (int64_t)stats->limit},
        {"cache_limit", stats->cache_limit == SIZE_MAX ? -1 : (int64_t)stats->cache_limit}};
    for (int row = 0; row < NX_N_MEMORY_ROWS; row++)
        if (set_counts(dict, rows[row], stats->counts[row]) < 0) return -1;
    for (int i = 0; i < NX_COUNT(others); i++)
        if (set_number(dict, others[i].name, others[i].value) < 0) return -1;
    return 0;
}

static PyObject *memory_stats(PyObject *module, PyObject *of) {
    nx_device device;
    nx_memory_stats stats = {.size = sizeof stats};
    if (nxpy_device_from(of, &device) < 0) return NULL;
    NXPY_TRY(nx_memory_get_stats(device, &stats));
    PyObject *dict = PyDict_New();
    if (dict && set_stats(dict, &stats) < 0) Py_CLEAR(dict);
    return dict;
}

static PyObject *do_with_device(PyObject *of, nx_status (*what)(nx_device device)) {
    nx_device device;
    if (nxpy_device_from(of, &device) < 0) return NULL;
    NXPY_TRY(what(device));
    Py_RETURN_NONE;
}
static PyObject *memory_reset_peaks(PyObject *module, PyObject *of) { return do_with_device(of, nx_memory_reset_peaks); }
static PyObject *memory_reset_accumulated(PyObject *module, PyObject *of) {
    return do_with_device(of, nx_memory_reset_accumulated);
}
static PyObject *memory_empty_cache(PyObject *module, PyObject *of) { return do_with_device(of, nx_memory_empty_cache); }

static PyObject *memory_set_limit(PyObject *module, PyObject *args) {
    PyObject *of;
    Py_ssize_t bytes;
    nx_device device;
    if (!PyArg_ParseTuple(args, "On:memory_set_limit", &of, &bytes) || nxpy_device_from(of, &device) < 0) return NULL;
    if (bytes < 0) return PyErr_Format(PyExc_ValueError, "memory_set_limit: %zd bytes: 0 means no limit", bytes);
    NXPY_TRY(nx_memory_set_limit(device, (size_t)bytes));
    Py_RETURN_NONE;
}

static PyObject *memory_info(PyObject *module, PyObject *of) {
    nx_device device;
    size_t free_bytes, total_bytes;
    if (nxpy_device_from(of, &device) < 0) return NULL;
    NXPY_TRY(nx_device_memory_info(device, &free_bytes, &total_bytes));
    return Py_BuildValue("nn", (Py_ssize_t)free_bytes, (Py_ssize_t)total_bytes);
}

/* ---- the allocator, for tests -------------------------------------------------------------------------------------------- */
static PyObject *alloc_fail_at(PyObject *module, PyObject *n) {
    long long value = PyLong_AsLongLong(n);
    if (value == -1 && PyErr_Occurred()) return NULL;
    nx_alloc_fail_at(value);
    Py_RETURN_NONE;
}
static PyObject *alloc_failed(PyObject *module, PyObject *unused) { return PyBool_FromLong(nx_alloc_failed()); }
static PyObject *alloc_live(PyObject *module, PyObject *unused) { return PyLong_FromLongLong(nx_alloc_live()); }
static PyObject *alloc_watch(PyObject *module, PyObject *on) {
    int truth = PyObject_IsTrue(on);
    if (truth < 0) return NULL;
    nx_alloc_watch(truth);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"manual_seed", manual_seed, METH_O, "manual_seed(seed): all devices draw the same numbers again; the CPU's generator."},
    {"initial_seed", initial_seed, METH_NOARGS, "The seed of the CPU's generator."},
    {"dtype_from", dtype_from, METH_O, "The dtype that something is or stands for: float, int, bool, complex; None."},
    {"get_default_dtype", get_default_dtype, METH_NOARGS, "The dtype of new floating point tensors."},
    {"set_default_dtype", set_default_dtype, METH_O, "set_default_dtype(dtype)"},
    {"load_plugin", load_plugin, METH_O, "load_plugin(path): adds the devices of a shared library."},
    {"device_types", device_types, METH_NOARGS, "['cpu', ...]"},
    {"device_count", device_count, METH_O, "device_count(type)"},
    {"device_generator", device_generator, METH_O, "device_generator(device): what its operators draw from."},
    {"synchronize", synchronize, METH_O, "synchronize(device): waits for its current stream."},
    {"device_control", device_control, METH_VARARGS,
     "device_control(type, name, value): a test hook of the device."},
    {"set_device", set_device, METH_O, "set_device(device): current for its type on this thread."},
    {"current_device", current_device, METH_O, "current_device(type)"},
    {"fallbacks", fallbacks, METH_NOARGS,
     "Operators that a device lacked and the CPU computed: {name: calls}."},
    {"fallbacks_clear", fallbacks_clear, METH_NOARGS, "Forgets them."},
    {"flags", flags, METH_NOARGS, "[(name, environment variable, value, meaning), ...]"},
    {"level_name", level_name, METH_NOARGS, "The instruction-set level of the kernels that run."},
    {"log_settings", log_settings, METH_NOARGS, "What TORCH_LOGS said when the library was loaded, or None."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "Threads that an operator may use."},
    {"set_num_threads", set_num_threads, METH_O, "set_num_threads(n)"},
    {"explain_threads", explain_threads, METH_NOARGS, "explain_threads(): (get_num_threads(), why so many)"},
    {"set_piece", set_piece, METH_O, "set_piece(bytes): tests: from how little on work is split; 0: as always."},
    {"set_level", set_level, METH_O, "set_level(name): tests: whose kernels run eagerly; False: the processor lacks it."},
    {"set_reference", set_reference, METH_O, "set_reference(on): tests: reference kernels in the place of all others."},
    {"op_info", op_info, METH_O, "op_info(name): what is known of an operator."},
    {"op_names", op_names, METH_NOARGS, "The names of all operators."},
    {"autocast_get", autocast_get, METH_O, "autocast_get(device_type): (is it on, its dtype)"},
    {"autocast_set", autocast_set, METH_VARARGS, "autocast_set(device_type, enabled, dtype), for this thread."},
    {"autocast_cache", autocast_cache, METH_VARARGS, "autocast_cache([enabled]): whether casts of parameters are kept."},
    {"autocast_nesting", autocast_nesting, METH_VARARGS, "autocast_nesting([change]): autocasts that are entered."},
    {"clear_autocast_cache", clear_autocast_cache, METH_NOARGS, "Drops the casts that are kept."},
    {"memory_stats", memory_stats, METH_O, "memory_stats(device): what the allocator counts, by PyTorch's names."},
    {"memory_reset_peaks", memory_reset_peaks, METH_O, "memory_reset_peaks(device): they begin at what is in use now."},
    {"memory_reset_accumulated", memory_reset_accumulated, METH_O, "memory_reset_accumulated(device): what was ever counted is 0."},
    {"memory_empty_cache", memory_empty_cache, METH_O, "memory_empty_cache(device): unused memory goes back to the device."},
    {"memory_set_limit", memory_set_limit, METH_VARARGS, "memory_set_limit(device, bytes): what it may take; 0: no limit."},
    {"memory_info", memory_info, METH_O, "memory_info(device): (free bytes, bytes in all)"},
    {"alloc_fail_at", alloc_fail_at, METH_O, "alloc_fail_at(n): the n-th allocation from now on fails; 0: none."},
    {"alloc_failed", alloc_failed, METH_NOARGS, "Whether it has failed."},
    {"alloc_live", alloc_live, METH_NOARGS, "Blocks that are allocated."},
    {"alloc_watch", alloc_watch, METH_O, "alloc_watch(on): free lists stand aside, so that alloc_live() is exact."},
    {NULL}};

/* ---- the interpreter's lock: given away while the library waits, but never inside a trace ------------------- */
static void *give_lock(void) {
    return PyGILState_Check() && nx_thread_get()->tracer == NULL ? PyEval_SaveThread() : NULL;
}
static void take_lock(void *token) {
    if (token) PyEval_RestoreThread(token);
}

/* ---- Ctrl-C ------------------------------------------------------------------------------------------------- */
static bool raises_interrupt(void) {
    PyObject *module = PyImport_ImportModule("_signal");
    PyObject *own = module ? PyObject_GetAttrString(module, "default_int_handler") : NULL;
    PyObject *now = own ? PyObject_CallMethod(module, "getsignal", "i", SIGINT) : NULL;
    bool same = now && now == own;
    PyErr_Clear();
    Py_XDECREF(now);
    Py_XDECREF(own);
    Py_XDECREF(module);
    return same;
}

/* A handler of the user's own runs when the call at work returns: it may call the library, which is not done here. */
bool nxpy_interrupted(void) {
    if (NX_LIKELY(!PyOS_InterruptOccurred())) return false;
    if (raises_interrupt()) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        return true;
    }
    PyErr_SetInterrupt();
    return false;
}

void nxpy_forget_error(void) {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
    PyErr_Clear();
}

static nx_status poll(void) {
    if (!PyGILState_Check() || nx_thread_get()->tracer != NULL || !nxpy_interrupted()) return NX_OK;
    return nxpy_caught();
}

int nxpy_add_runtime(PyObject *module) {
    nx_set_block_hooks(give_lock, take_lock, poll);
    return PyModule_AddFunctions(module, functions);
}
