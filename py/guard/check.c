/* Guards: checking rows, and the steps that a call takes instead.
 *
 * In: rows; at each call, the roots (arguments, or a frame's locals and stack).
 * Out: whether everything the trace relied on is still so, and the values it read, in slots.
 * What must hold: a check allocates nothing, runs no Python code and leaves no exception; whatever goes wrong means
 * that the guard failed. Lookups are remembered under the version of the dict or type, so that a change of another
 * global costs one lookup and no recompilation.
 * A model has hundreds of rows, and most of them follow from the state of a few dicts. So rows become fewer steps, with the
 * same verdict: a watch is a dict (or a type, or the thread's state) with the rows that cannot change while its version is
 * the same; they are checked again when it is another. What their slots held then lies in guards->seen.
 * Next: explain.c for the text of the rows. */
#include "guard/private.h"

/* ---- fetching --------------------------------------------------------------------------------------------------- */
/* Looks `a` up in `dict`, once for each state of the dict. */
static inline PyObject *dict_lookup(nxpy_row *row, PyObject *dict) {
    uint64_t version = nxpy_dict_version(dict);
    if (NX_LIKELY(version == row->version)) return row->seen;
    PyObject *value = nxpy_dict_get(dict, row->a, row->hash);
    if (!value && PyErr_Occurred()) {
        nxpy_forget_error();
        return NULL;
    }
    row->version = version;
    return row->seen = value;
}

#define CHECK_ARGS nxpy_row *row, PyObject *const *roots, PyObject **values
/* What a fetch found, where there may be nothing: something as little as nothing may be found in the other's place. */
static inline bool fetched(const nxpy_row *row, PyObject **values, PyObject *value) {
    return (values[row->slot] = value) != NULL || !row->present;
}
static inline bool check_ROOT(CHECK_ARGS) { return (values[row->slot] = roots[row->n]) != NULL; }
static inline bool check_FIXED(CHECK_ARGS) { return (values[row->slot] = row->a) != NULL; }
static inline bool check_DICT(CHECK_ARGS) {
    return fetched(row, values, dict_lookup(row, row->b));
}
static inline bool check_VALUE(CHECK_ARGS) {
    PyObject *object = values[row->from], *dict;
    if (!object) return false;
    dict = nxpy_instance_dict(object);
    return fetched(row, values, dict ? dict_lookup(row, dict) : nxpy_instance_value(object, row->a));
}
static inline bool check_TYPE_VALUE(CHECK_ARGS) {
    PyTypeObject *type = (PyTypeObject *)row->b;
    unsigned version = nxpy_type_version(type);
    if (NX_UNLIKELY(!version || row->version != version)) {
        row->seen = nxpy_type_lookup(type, row->a);
        row->version = nxpy_type_version(type);
    }
    return fetched(row, values, row->seen);
}
static inline bool check_NAMESPACE(CHECK_ARGS) {
    return values[row->from] && (values[row->slot] = nxpy_instance_dict(values[row->from])) != NULL;
}
static bool check_LOCAL(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (of && (values[row->slot] = nxpy_local_dict(of))) return true;
    nxpy_forget_error();
    return false;
}
static inline bool check_ITEM(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (!of || !(PyList_Check(of) || PyTuple_Check(of)) || row->n >= Py_SIZE(of)) return false;
    values[row->slot] = PySequence_Fast_GET_ITEM(of, row->n);
    return true;
}
static inline bool check_KEY(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (!of || !PyDict_Check(of)) return false;
    return fetched(row, values, dict_lookup(row, of));
}
static inline bool check_FIELD(CHECK_ARGS) {
    PyObject *object = values[row->from];
    if (!object) return false;
    return fetched(row, values, *(PyObject **)((char *)object + row->n));
}
PyObject *nxpy_setting_tensor(double number) {
    nx_meta meta = {.dtype = NX_F64, .device = NX_CPU, .view_of = -1};
    nx_tensor *tensor;
    NXPY_TRY(nx_tensor_new_meta(&meta, false, &tensor));
    *(double *)tensor->a.data = number;
    return nxpy_tensor_take(tensor);
}
static bool check_NUMBER(CHECK_ARGS) {
    PyObject *of = values[row->from], *other;
    if (!of || !PyFloat_CheckExact(of)) return false;
    const double number = PyFloat_AS_DOUBLE(of);
    if (NX_UNLIKELY(memcmp(nxpy_tensor_get(row->b)->a.data, &number, sizeof number) != 0)) { /* a run may still hold the one before */
        if (!(other = nxpy_setting_tensor(number))) return nxpy_forget_error(), false;
        Py_SETREF(row->b, other);
    }
    return (values[row->slot] = row->b) != NULL;
}
static bool check_ARRAY(CHECK_ARGS) {
    PyObject *of = values[row->from], *over = of && nxpy_is_numpy_array(of) ? nxpy_tensor_over(of) : NULL;
    if (!over) return nxpy_forget_error(), false;
    Py_SETREF(row->b, over); /* a run may still hold the one before */
    values[row->slot] = over;
    return true;
}
static bool check_GRAD(CHECK_ARGS) {
    PyObject *of = values[row->from];
    nx_tensor *grad = of && nxpy_tensor_check(of) ? nx_tensor_get_grad(nxpy_tensor_get(of)) : NULL;
    if (grad && (values[row->slot] = nxpy_tensor_lend(grad))) return true;
    nxpy_forget_error();
    return false;
}
static inline bool check_CELL(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (!of || !PyCell_Check(of)) return false;
    return fetched(row, values, PyCell_GET(of));
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */
static inline bool check_ABSENT(CHECK_ARGS) { return values[row->from] == NULL; }
static inline bool check_SAME(CHECK_ARGS) { return values[row->from] == values[row->n]; }
static inline bool check_ID(CHECK_ARGS) { return values[row->from] == row->a; }
static inline bool check_TYPE(CHECK_ARGS) { return values[row->from] && Py_TYPE(values[row->from]) == (PyTypeObject *)row->a; }
static inline bool check_EQUALS(CHECK_ARGS) { return nxpy_constant_equal(values[row->from], row->a); }
static inline bool check_LENGTH(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (!of) return false;
    return PyDict_Check(of) ? PyDict_GET_SIZE(of) == row->n : Py_SIZE(of) == row->n;
}
/* In the order that it gives them, which is not that of the dict inside. */
static bool ordered_keys_are(PyObject *ordered, PyObject *keys) {
    PyObject *iterator = PyObject_GetIter(ordered), *key;
    Py_ssize_t k = 0, n = PyTuple_GET_SIZE(keys);
    bool same = iterator != NULL;
    while (same && (key = PyIter_Next(iterator))) {
        same = k < n && nxpy_constant_equal(key, PyTuple_GET_ITEM(keys, k++));
        Py_DECREF(key);
    }
    Py_XDECREF(iterator);
    nxpy_forget_error();
    return same && k == n;
}
static bool keys_are(PyObject *dict, PyObject *keys) {
    PyObject *key;
    Py_ssize_t at = 0, k = 0, n = PyTuple_GET_SIZE(keys);
    while (PyDict_Next(dict, &at, &key, NULL)) {
        if (k >= n || !nxpy_constant_equal(key, PyTuple_GET_ITEM(keys, k++))) return false;
    }
    return k == n;
}
static bool check_KEYS(CHECK_ARGS) {
    PyObject *of = values[row->from];
    if (!of || !PyDict_Check(of) || PyDict_GET_SIZE(of) != PyTuple_GET_SIZE(row->a)) return false;
    if (NX_UNLIKELY(PyODict_Check(of))) return ordered_keys_are(of, row->a); /* its order has no version */
    if (NX_LIKELY(nxpy_dict_version(of) == row->version)) return true;
    if (!keys_are(of, row->a)) return false;
    row->version = nxpy_dict_version(of);
    return true;
}
static bool check_MEMBERS(CHECK_ARGS) {
    PyObject *of = values[row->from], *key;
    Py_ssize_t at = 0, k = 0, n = PyTuple_GET_SIZE(row->a);
    if (!of || !PyAnySet_Check(of) || PySet_GET_SIZE(of) != n) return false;
    while (nxpy_set_next(of, &at, &key)) {
        if (k >= n || !nxpy_constant_equal(key, PyTuple_GET_ITEM(row->a, k++))) return false;
    }
    return k == n;
}
bool nxpy__tensor_fits(const nxpy_tensor_like *like, const nx_array *a, int dim) {
    return like->varying && (like->varying >> dim & 1 || a->sizes[dim] == like->dims[dim]);
}
int nxpy__new_mark(const nxpy_tensor_like *like, PyObject *tensor) {
    for (int k = 0; k < NXPY_N_MARKS; k++) {
        if (nxpy_marked_dims(tensor, k) & ~like->marked[k]) return k;
    }
    return -1;
}
static inline bool is_like(PyObject *object, const nxpy_tensor_like *like) {
    if (!object || Py_TYPE(object) != like->type) return false;
    const nx_tensor *tensor = nxpy_tensor_get(object);
    const nx_array *a = &tensor->a;
    if (tensor->keys != like->keys || ((nxpy__array_head(a) ^ like->head) & like->head_mask) != 0 ||
        tensor->is_parameter != like->is_parameter) return false;
    for (int k = 0; k < like->ndim; k++) {
        if (NX_UNLIKELY(a->sizes[k] != like->dims[k]) && !nxpy__tensor_fits(like, a, k)) return false;
    }
    for (int k = 0; k < like->n_strides; k++) {
        if (NX_UNLIKELY(a->strides[k] != like->dims[like->ndim + k])) return false;
    }
    return NX_LIKELY(((nxpy_tensor *)object)->dict == NULL) || nxpy__new_mark(like, object) < 0;
}
static inline bool check_TENSOR(CHECK_ARGS) { return is_like(values[row->from], row->like); }
static bool check_ELEMENT(CHECK_ARGS) {
    int64_t bits;
    return values[row->from] && nxpy_element_bits(values[row->from], &bits) && bits == row->n;
}
static bool check_GRADLESS(CHECK_ARGS) {
    PyObject *of = values[row->from];
    return of && nxpy_tensor_check(of) && !nx_tensor_get_grad(nxpy_tensor_get(of));
}
static bool check_OFFSET(CHECK_ARGS) {
    PyObject *of = values[row->from];
    return of && nxpy_tensor_check(of) && nxpy_tensor_get(of)->offset == row->n;
}
static bool check_VERSION(CHECK_ARGS) {
    PyObject *of = values[row->from];
    return of && nxpy_tensor_check(of) && nx_tensor_version(nxpy_tensor_get(of)) == (uint32_t)row->n;
}
static inline bool check_FUNCTION(CHECK_ARGS) {
    const PyFunctionObject *function = (PyFunctionObject *)row->a;
    PyObject *const was[] = {PyTuple_GET_ITEM(row->b, 0), PyTuple_GET_ITEM(row->b, 1), PyTuple_GET_ITEM(row->b, 2)};
    PyObject *defaults = function->func_defaults ? function->func_defaults : Py_None;
    PyObject *kwdefaults = function->func_kwdefaults ? function->func_kwdefaults : Py_None;
    return function->func_code == was[0] && defaults == was[1] && kwdefaults == was[2];
}
static inline const void *address_of(const nxpy_row *row, PyObject *const *values, int k) {
    const nxpy_apart_part *part = &row->apart->at[k];
    PyObject *object = values[part->slot];
    return NX_UNLIKELY(part->dict) && object ? nxpy_instance_dict(object) : object;
}
static bool is_alone(const nxpy_row *row, PyObject *const *values, int k) {
    const void *mine = address_of(row, values, k);
    int n = k < row->apart->n_first ? row->apart->n : row->apart->n_first;
    for (int j = 0; mine && j < n; j++) {
        if (j != k && address_of(row, values, j) == mine) return false;
    }
    return true;
}
/* Only what lies elsewhere than at the last check that held is compared with others. */
static bool are_apart(nxpy_row *row, PyObject *const *values) {
    bool moved = false;
    int n = row->apart->n;
    if (n == 2) return address_of(row, values, 0) != address_of(row, values, 1) || !address_of(row, values, 0);
    for (int k = 0; k < n; k++) {
        if (NX_LIKELY(address_of(row, values, k) == row->apart->at[k].was)) continue;
        if (!is_alone(row, values, k)) return false;
        moved = true;
    }
    for (int k = 0; moved && k < n; k++) row->apart->at[k].was = address_of(row, values, k);
    return true;
}
static bool check_DISTINCT(CHECK_ARGS) { return are_apart(row, values); }

static inline const nx_storage *storage_of(const nxpy_row *row, PyObject *const *values, int k) {
    return nxpy_tensor_get(values[row->apart->at[k].slot])->storage;
}
static bool lies_alone(const nxpy_row *row, PyObject *const *values, int k) {
    for (int j = 0; j < row->apart->n; j++) {
        if (j != k && nxpy_memories_meet(storage_of(row, values, j), storage_of(row, values, k))) return false;
    }
    return true;
}
static bool check_STORAGES(CHECK_ARGS) { /* as are_apart(), of memory */
    int n = row->apart->n, n_moved = 0;
    if (n == 2) return lies_alone(row, values, 0);
    for (int k = 0; k < n; k++) {
        const nxpy_apart_part *part = &row->apart->at[k];
        const nx_storage *mine = storage_of(row, values, k);
        if (NX_LIKELY(mine && mine->data && mine->data == part->was && mine->bytes == part->was_bytes)) continue;
        if (!lies_alone(row, values, k)) return false;
        n_moved++;
    }
    for (int k = 0; n_moved && k < n; k++) {
        const nx_storage *mine = storage_of(row, values, k);
        row->apart->at[k].was = mine ? mine->data : NULL;
        row->apart->at[k].was_bytes = mine ? mine->bytes : 0;
    }
    return true;
}
static inline bool check_GRAD_MODE(CHECK_ARGS) { return nx_thread_get()->grad_disabled == (row->n == 0); }
static inline bool check_AUTOCAST(CHECK_ARGS) { return nx_thread_autocast(nx_thread_get()) == row->n; }
static inline bool check_DEFAULT_DTYPE(CHECK_ARGS) { return nx_default_dtype() == (nx_dtype)row->n; }
static inline bool check_DEVICE(CHECK_ARGS) {
    return memcmp(nx_thread_get()->device_index, &row->n, sizeof row->n) == 0;
}
_Static_assert(sizeof ((nx_thread *)0)->device_index == sizeof(int64_t), "a row's n holds the current devices");
static bool check_OPERATOR(CHECK_ARGS) {
    PyObject *found = nxpy_type_lookup((PyTypeObject *)PyTuple_GET_ITEM(row->b, 0), row->a);
    return (found ? found : Py_None) == PyTuple_GET_ITEM(row->b, 1);
}
static inline bool check_ABC(CHECK_ARGS) { return (int64_t)*nxpy_abc_count == row->n; }
static inline bool check_BACKEND(CHECK_ARGS) { return *(PyObject **)(intptr_t)row->n == row->a; } /* where its owner keeps it */

bool nxpy__guard_row_holds(nxpy_row *row, PyObject *const *roots, PyObject **values) {
    switch (row->code) {
#define NXPY_GUARD_ROW(code, kind, meaning) case NXPY_ROW_##code: return check_##code(row, roots, values);
#include "guard/guards.def"
#undef NXPY_GUARD_ROW
    default: return false;
    }
}

int nxpy_guards_check(nxpy_guards *guards, PyObject *const *roots, PyObject **values) {
    nxpy_row *row = guards->rows.at;
    for (int k = 0; k < guards->rows.n; k++, row++) {
        bool holds = false;
        switch (row->code) {
#define NXPY_GUARD_ROW(code, kind, meaning) case NXPY_ROW_##code: holds = check_##code(row, roots, values); break;
#include "guard/guards.def"
#undef NXPY_GUARD_ROW
        }
        if (NX_UNLIKELY(!holds)) return k;
    }
    return -1;
}

/* ---- steps: checking -------------------------------------------------------------------------------------------------- */
static inline bool same_state(const nxpy_state *was) {
    const nx_thread *thread = nx_thread_get();
    return thread->grad_disabled == was->grad_disabled && thread->autocast_enabled == was->autocast_enabled &&
           nx_default_dtype() == was->dtype && nxpy_tensor_class->tp_version_tag == was->tensor_class &&
           memcmp(thread->autocast_dtype, was->autocast_dtype, sizeof was->autocast_dtype) == 0 &&
           memcmp(thread->device_index, was->device_index, sizeof was->device_index) == 0;
}

static void take_state(nxpy_state *state) {
    const nx_thread *thread = nx_thread_get();
    *state = (nxpy_state){.grad_disabled = thread->grad_disabled, .autocast_enabled = thread->autocast_enabled,
                          .dtype = nx_default_dtype(), .tensor_class = nxpy_tensor_class->tp_version_tag};
    memcpy(state->autocast_dtype, thread->autocast_dtype, sizeof state->autocast_dtype);
    memcpy(state->device_index, thread->device_index, sizeof state->device_index);
}

/* The version of what a step watches as it is now; 0, which none has: it cannot be told. Where it lies is noted. */
static inline uint64_t watched_version(nxpy_guard_step *step, PyObject *const *values) {
    PyObject *of = step->from < 0 ? step->of : values[step->from];
    if (!of) return 0;
    switch (step->code) {
    case NXPY_STEP_TYPE:
        return nxpy_type_version((PyTypeObject *)of);
    case NXPY_STEP_INSTANCE:
        of = Py_TYPE(of) == (PyTypeObject *)step->of ? nxpy_dict_at(of, step->offset) : NULL;
        step->near = of;
        return of ? nxpy_dict_version(of) : 0;
    default:
        step->near = of;
        return PyDict_Check(of) ? nxpy_dict_version(of) : 0;
    }
}

/* The rows of a watch once more. While they are checked, and when one of them fails, nothing is known of it. */
static __attribute__((noinline)) bool watch_again(nxpy_guards *guards, nxpy_guard_step *step, PyObject *const *roots, PyObject **values) {
    const int *rows = guards->watched + step->first;
    step->version = 0;
    guards->state_known &= step->code != NXPY_STEP_STATE;
    for (int k = 0; k < step->n; k++) {
        if (!nxpy__guard_row_holds(&guards->rows.at[rows[k]], roots, values)) return false;
    }
    if (guards->is_read) return true; /* it stays unknown */
    for (int k = 0; k < step->n; k++) {
        int slot = guards->rows.at[rows[k]].slot;
        if (slot >= 0) guards->seen[slot] = values[slot];
    }
    if (step->code == NXPY_STEP_STATE) {
        take_state(&guards->state);
        guards->state_known = guards->state.tensor_class != 0; /* 0: its next state would have the same */
    } else {
        step->version = watched_version(step, values);
    }
    return true;
}

static inline bool watch_holds(nxpy_guards *guards, nxpy_guard_step *step, PyObject *const *roots, PyObject **values) {
    uint64_t version = watched_version(step, values);
    if (NX_LIKELY(version == step->version && version != 0)) return true;
    return watch_again(guards, step, roots, values);
}

/* A model's guards wait for memory: what a step will read is asked for while those before it are at work. */
enum { AHEAD = 8 };
static inline void ask_for(const nxpy_guard_step *step) {
    __builtin_prefetch(step->near);
    __builtin_prefetch((const char *)step->near + (offsetof(nx_tensor, dims) - offsetof(nx_tensor, keys)));
}

PyObject **nxpy_guards_hold(nxpy_guards *guards, PyObject *const *roots, PyObject **room, bool copied) {
    PyObject **values = room;
    if (NX_UNLIKELY(guards->steps.n == 0)) return nxpy_guards_check(guards, roots, values) < 0 ? values : NULL;
    if (NX_LIKELY(guards->seen && !copied && !guards->is_read)) values = guards->seen; /* of a large model 72 KB */
    else if (guards->seen) memcpy(values, guards->seen, sizeof *values * (size_t)guards->n_slots);
    for (nxpy_guard_step *step = guards->steps.at, *end = step + guards->steps.n; step < end; step++) {
        bool holds = true;
        if (step + AHEAD < end) ask_for(&step[AHEAD]);
        switch (step->code) {
        case NXPY_STEP_ROOTS:
            for (int k = 0; k < step->n; k++) holds &= (values[step->from + k] = roots[step->first + k]) != NULL;
            break;
        case NXPY_STEP_TENSOR:
            holds = is_like(values[step->from], step->of);
            if (holds) step->near = &nxpy_tensor_get(values[step->from])->keys;
            break;
        case NXPY_STEP_STATE:
            holds = NX_LIKELY(guards->state_known && same_state(&guards->state)) || watch_again(guards, step, roots, values);
            break;
        case NXPY_STEP_TYPE: case NXPY_STEP_DICT: case NXPY_STEP_INSTANCE: holds = watch_holds(guards, step, roots, values); break;
#define NXPY_GUARD_ROW(code, kind, meaning) \
    case NXPY_ROW_##code: holds = check_##code(&guards->rows.at[step->first], roots, values); break;
#include "guard/guards.def"
#undef NXPY_GUARD_ROW
        default: __builtin_unreachable();
        }
        if (NX_UNLIKELY(!holds)) return NULL;
    }
    return values;
}
