/* Guards: making steps of rows (check.c says what steps are).
 *
 * In: the rows of a finished trace and the values with which they have just held. Out: steps in the order of the rows.
 * What must hold: a row goes to a watch only if it cannot fail, and its slot cannot change, while what is watched has the
 * same version. Versions of dicts are never given twice, so one tells the dict as well as what it holds; a type is kept by
 * a row. A watch stands where the first of its rows stood, behind whatever fills its slot. */
#include "guard/private.h"

enum { NOBODY = -1, NOTHING = -2 }; /* who settles a slot: no watch does; it never changes */

typedef struct arranger {
    nxpy_guards *guards;
    PyObject *const *values;
    int *settled;       /* by slot: the watch that settles what it holds, NOBODY, NOTHING */
    int *watch;         /* by slot: the watch of the dict that the slot's object has or is, -1 */
    const nxpy_row **type; /* by slot: its TYPE row when something of its instance dict is read, else NULL */
    int *home;          /* by row: the watch that checks it, NOBODY: it is a step of its own */
    nx_map held;        /* what is watched that is in no slot: its watch, plus one */
    int state;          /* the watch of the thread's state, -1 */
    nxpy_tensor_like *likes[16]; /* what tensors were like, each once */
    int n_likes;
} arranger;

static nx_status add_step(arranger *a, nxpy_guard_step step, int *out) {
    *out = a->guards->steps.n;
    return nx_vec_push(&a->guards->steps, step);
}

static nx_status watch_held(arranger *a, nxpy_guard_step_code code, PyObject *of, int *out) {
    *out = (int)(intptr_t)nx_map_get(&a->held, of) - 1;
    if (*out >= 0) return NX_OK;
    NX_TRY(add_step(a, (nxpy_guard_step){.code = code, .from = -1, .of = of}, out));
    return nx_map_set(&a->held, of, (void *)(intptr_t)(*out + 1));
}

/* Where the dict of an instance lies; 0: nowhere that a step can tell. */
static int dict_offset(PyObject *type) {
    int offset = nxpy_instance_dict_offset((PyTypeObject *)type);
    return offset >= INT16_MIN && offset <= INT16_MAX ? offset : 0;
}

static nx_status watch_state(arranger *a, int *out) {
    if (a->state < 0) NX_TRY(add_step(a, (nxpy_guard_step){.code = NXPY_STEP_STATE, .from = -1}, &a->state));
    *out = a->state;
    return NX_OK;
}

static nx_status watch_slot(arranger *a, int slot, int *out) {
    const nxpy_row *type = a->type[slot];
    nxpy_guard_step step = {.code = type ? NXPY_STEP_INSTANCE : NXPY_STEP_DICT, .from = slot};
    *out = a->watch[slot];
    if (*out >= 0) return NX_OK;
    if (type) {
        step.of = type->a;
        step.offset = (int16_t)dict_offset(type->a);
    }
    NX_TRY(add_step(a, step, out));
    a->watch[slot] = *out;
    return NX_OK;
}

/* The TYPE rows of instances of which something is read that lies in a dict now. */
static void find_instances(arranger *a) {
    const nxpy_guards *guards = a->guards;
    for (int k = 0; k < guards->rows.n; k++) {
        const nxpy_row *row = &guards->rows.at[k];
        bool reads = row->code == NXPY_ROW_VALUE || row->code == NXPY_ROW_NAMESPACE;
        PyObject *object = reads ? a->values[row->from] : NULL;
        if (!object || a->type[row->from] || !nxpy_instance_dict(object) || PyDict_Check(object)) continue;
        for (int j = guards->places.at[k].before; j >= 0 && !a->type[row->from]; j = guards->places.at[j].before) {
            const nxpy_row *before = &guards->rows.at[j];
            bool is_type = before->code == NXPY_ROW_TYPE;
            if (is_type && dict_offset(before->a)) a->type[row->from] = before;
        }
    }
}

/* Whether an object of this type stays of it. */
static bool is_fixed_type(PyObject *type) {
    return PyType_HasFeature((PyTypeObject *)type, Py_TPFLAGS_IMMUTABLETYPE) && !PyType_IsSubtype((PyTypeObject *)type, &PyModule_Type);
}

/* The dict in a slot: that of an instance is watched with the instance. */
static nx_status watch_dict(arranger *a, int slot, int *out) {
    const nxpy_guards *guards = a->guards;
    const nxpy_row *row = &guards->rows.at[guards->row_of_slot.at[slot]];
    if (row->code == NXPY_ROW_NAMESPACE && a->settled[slot] >= 0) {
        *out = a->settled[slot];
        return NX_OK;
    }
    return watch_slot(a, slot, out);
}

static nx_status find_home(arranger *a, const nxpy_row *row, int *out) {
    PyObject *from = row->from >= 0 ? a->values[row->from] : NULL;
    int settled = row->from >= 0 ? a->settled[row->from] : NOBODY;
    *out = NOBODY;
    switch (row->code) {
    case NXPY_ROW_FIXED: *out = NOTHING; break;
    case NXPY_ROW_DICT: return watch_held(a, NXPY_STEP_DICT, row->b, out);
    case NXPY_ROW_TYPE_VALUE: return watch_held(a, NXPY_STEP_TYPE, row->b, out);
    case NXPY_ROW_TYPE:
        if (a->type[row->from]) return watch_slot(a, row->from, out);
        if (is_fixed_type(row->a)) *out = settled;
        break;
    case NXPY_ROW_VALUE:
    case NXPY_ROW_NAMESPACE:
        if (a->type[row->from]) return watch_slot(a, row->from, out);
        break;
    case NXPY_ROW_KEYS:
        if (PyODict_Check(from)) break; /* its order has no version */
        return watch_dict(a, row->from, out);
    case NXPY_ROW_KEY: return watch_dict(a, row->from, out);
    case NXPY_ROW_LENGTH:
    case NXPY_ROW_ITEM:
        if (PyTuple_Check(from)) *out = settled;
        break;
    case NXPY_ROW_ABSENT:
    case NXPY_ROW_ID:
    case NXPY_ROW_EQUALS: *out = settled; break;
    case NXPY_ROW_SAME:
        if (settled == a->settled[row->n]) *out = settled;
        break;
    case NXPY_ROW_GRAD_MODE:
    case NXPY_ROW_AUTOCAST:
    case NXPY_ROW_DEFAULT_DTYPE:
    case NXPY_ROW_DEVICE:
        return watch_state(a, out);
    case NXPY_ROW_OPERATOR: { /* the thread's state has the version of Tensor */
        PyObject *type = PyTuple_GET_ITEM(row->b, 0);
        return type == (PyObject *)nxpy_tensor_class ? watch_state(a, out) : watch_held(a, NXPY_STEP_TYPE, type, out);
    }
    default: break;
    }
    return NX_OK;
}

/* The first of the likes that says what this one says: what the parameters of a model's blocks are compared with stays near. */
static nxpy_tensor_like *shared_like(arranger *a, nxpy_tensor_like *like) {
    for (int k = 0; k < a->n_likes; k++) {
        nxpy_tensor_like *other = a->likes[k];
        size_t bytes = sizeof *like + sizeof(int64_t) * 2 * like->ndim;
        if (other->ndim == like->ndim && memcmp(other, like, bytes) == 0) return other;
    }
    if (a->n_likes < (int)NX_COUNT(a->likes)) a->likes[a->n_likes++] = like;
    return like;
}

/* A row that is checked at each call; roots in a row are one step. */
static nx_status keep_row(arranger *a, int index) {
    nxpy_guards *guards = a->guards;
    const nxpy_row *row = &guards->rows.at[index];
    nxpy_guard_step *last = guards->steps.n ? &guards->steps.at[guards->steps.n - 1] : NULL;
    int at;
    if (row->code == NXPY_ROW_TENSOR) {
        void *like = shared_like(a, row->like);
        return add_step(a, (nxpy_guard_step){.code = NXPY_STEP_TENSOR, .from = row->from, .first = index, .of = like}, &at);
    }
    if (row->code != NXPY_ROW_ROOT) return add_step(a, (nxpy_guard_step){.code = row->code, .from = row->from, .first = index}, &at);
    if (last && last->code == NXPY_STEP_ROOTS && last->first + last->n == row->n && last->from + last->n == row->slot) {
        last->n++;
        return NX_OK;
    }
    return add_step(a, (nxpy_guard_step){.code = NXPY_STEP_ROOTS, .from = row->slot, .first = (int)row->n, .n = 1}, &at);
}

/* The rows of each watch side by side, and its version. */
static nx_status list_watched(arranger *a) {
    nxpy_guards *guards = a->guards;
    int next = 0;
    guards->watched = nx_alloc(sizeof *guards->watched * (size_t)(guards->rows.n + 1));
    if (!guards->watched) return nx_fail_memory(sizeof *guards->watched);
    for (int k = 0; k < guards->rows.n; k++) {
        if (a->home[k] >= 0) guards->steps.at[a->home[k]].n++;
    }
    for (int k = 0; k < guards->steps.n; k++) {
        nxpy_guard_step *step = &guards->steps.at[k];
        if (step->code < NXPY_STEP_STATE) continue;
        step->first = next;
        next += step->n;
        step->n = 0;
    }
    for (int k = 0; k < guards->rows.n; k++) {
        if (a->home[k] < 0) continue;
        nxpy_guard_step *step = &guards->steps.at[a->home[k]];
        guards->watched[step->first + step->n++] = k;
    }
    return NX_OK;
}

static nx_status arrange(arranger *a) {
    nxpy_guards *guards = a->guards;
    bool settles = false;
    find_instances(a);
    for (int k = 0; k < guards->rows.n; k++) {
        const nxpy_row *row = &guards->rows.at[k];
        NX_TRY(find_home(a, row, &a->home[k]));
        if (a->home[k] == NOBODY) NX_TRY(keep_row(a, k));
        if (row->slot < 0) continue;
        a->settled[row->slot] = a->home[k];
        settles = settles || a->home[k] != NOBODY;
    }
    if (settles) {
        size_t bytes = sizeof *guards->seen * (size_t)guards->n_slots;
        if (!(guards->seen = nx_alloc(bytes))) return nx_fail_memory(bytes);
        memcpy(guards->seen, a->values, bytes);
    }
    return list_watched(a);
}

void nxpy__guard_steps_free(nxpy_guards *guards) {
    nx_vec_free(&guards->steps);
    nx_free(guards->watched);
    nx_free(guards->seen);
    guards->watched = NULL;
    guards->seen = NULL;
}

void nxpy_guards_arrange(nxpy_guards *guards, PyObject *const *values) {
    size_t n_slots = (size_t)guards->n_slots + 1, n_rows = (size_t)guards->rows.n + 1;
    arranger a = {.guards = guards, .values = values, .state = -1};
    a.type = nx_alloc_zeroed(n_slots * (sizeof *a.type + sizeof *a.settled + sizeof *a.watch) + n_rows * sizeof *a.home);
    if (!a.type) return;
    a.settled = (int *)(a.type + n_slots);
    a.watch = a.settled + n_slots;
    a.home = a.watch + n_slots;
    for (size_t k = 0; k < n_slots; k++) a.settled[k] = NOBODY, a.watch[k] = -1;
    if (arrange(&a) != NX_OK) nxpy__guard_steps_free(guards);
    nx_map_free(&a.held);
    nx_free(a.type);
}
