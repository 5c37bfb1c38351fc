/* Effects: changes of objects that existed before.
 *
 * In: what the traced program writes. Out: the change, done for real, and an entry that tells how to undo it; at the end
 * of the trace the steps that do it again at every run.
 * What must hold: every change is undone when the trace ends, however it ends; what was written is read without a guard,
 * and a guard never sees it, so whatever a reader of the whole object needs is guarded before its first change. A list
 * that is only appended to is not read by that.
 * Next: recipe.c, segment.c. */
#include "notes/notes.h"

/* ---- what was written ---------------------------------------------------------------------------------------------- */
/* Where the attributes of an instance or module lie: its dict when it has one. */
static PyObject *place_of(PyObject *object) {
    PyObject *dict = PyDict_Check(object) ? object : nxpy_instance_dict(object);
    return dict ? dict : object;
}

static nxpy_effect *find(nxpy_trace *trace, PyObject *place, PyObject *key) {
    for (int k = 0; k < trace->effects.n; k++) {
        nxpy_effect *effect = &trace->effects.at[k];
        if (effect->place != place) continue;
        if (effect->key == key || (effect->key && key && nxpy_constant_equal(effect->key, key))) return effect;
    }
    return NULL;
}

bool nxpy__was_written(nxpy_trace *trace, PyObject *object, PyObject *key) {
    if (!trace->effects.n) return false;
    PyObject *place = place_of(object);
    return find(trace, place, key) || find(trace, object, key) || (key && find(trace, place, NULL));
}

bool nxpy__was_written_key(nxpy_trace *trace, PyObject *dict, PyObject *key) {
    for (int k = 0; k < trace->effects.n; k++) {
        const nxpy_effect *effect = &trace->effects.at[k];
        bool field = effect->kind == NXPY_EFFECT_FIELD && effect->holder == dict; /* an attribute of a subclass of dict */
        if (effect->place == dict && !field && (!effect->key || effect->key == key || nxpy_constant_equal(effect->key, key))) return true;
    }
    return false;
}

bool nxpy__has_written_fields(nxpy_trace *trace, PyObject *object) {
    for (int k = 0; k < trace->effects.n; k++) {
        if (trace->effects.at[k].place == object && trace->effects.at[k].key) return true;
    }
    return false;
}

Py_ssize_t nxpy__size_before(nxpy_trace *trace, PyObject *list) {
    const nxpy_effect *effect = trace->effects.n ? find(trace, list, NULL) : NULL;
    return effect && effect->kind == NXPY_EFFECT_APPEND ? effect->n : Py_SIZE(list);
}

static int record(nxpy_trace *trace, nxpy_effect effect) {
    if (nx_vec_push(&trace->effects, effect) != NX_OK) {
        Py_XDECREF(effect.old);
        nxpy_raise(NX_NO_MEMORY);
        return nxpy__stop_error(trace);
    }
    Py_INCREF(effect.holder);
    Py_INCREF(effect.place);
    Py_XINCREF(effect.key);
    return 0;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */
int nxpy__write_field(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject *value) {
    PyObject *place = place_of(object), *type_value = nxpy_type_lookup(Py_TYPE(object), name);
    bool slotted = type_value && Py_TYPE(type_value) == &PyMemberDescr_Type;
    if (!find(trace, place, name)) {
        PyObject *old = slotted ? PyObject_GenericGetAttr(object, name) : Py_XNewRef(nxpy_instance_value(object, name));
        if (slotted && !old) PyErr_Clear();
        if (nxpy__slot_of(trace, object) < 0) return Py_XDECREF(old), -1;
        nxpy_effect effect = {.kind = NXPY_EFFECT_FIELD, .holder = object, .place = place, .key = name, .old = old};
        if (record(trace, effect) < 0) return -1;
    }
    return PyObject_GenericSetAttr(object, name, value) < 0 ? nxpy__stop_error(trace) : 0;
}

static int write_key(nxpy_trace *trace, PyObject *dict, PyObject *key, PyObject *value) {
    if (nxpy_tensor_check(key) && nxpy__is_made(key)) return nxpy__stop(trace, NXPY_BREAK_STORE, "under a tensor of the graph as key");
    if (!find(trace, dict, key)) {
        PyObject *old = PyDict_GetItemWithError(dict, key);
        nxpy_effect effect = {.kind = NXPY_EFFECT_KEY, .holder = dict, .place = dict, .key = key, .old = Py_XNewRef(old)};
        if (record(trace, effect) < 0) return -1;
    }
    int done = value ? PyDict_SetItem(dict, key, value) : PyDict_DelItem(dict, key);
    return done < 0 ? nxpy__stop_error(trace) : 0;
}

int nxpy__write_class(nxpy_trace *trace, PyObject *type, PyObject *name, PyObject *value) {
    PyObject *dict = nxpy_type_dict((PyTypeObject *)type);
    if (!find(trace, dict, name)) {
        if (nxpy__fixed(trace, type) < 0 || nxpy__slot_of(trace, type) < 0) return -1;
        PyObject *old = PyDict_GetItemWithError(dict, name);
        nxpy_effect effect = {.kind = NXPY_EFFECT_CLASS, .holder = type, .place = dict, .key = name, .old = Py_XNewRef(old)};
        if (record(trace, effect) < 0) return -1;
    }
    return PyObject_SetAttr(type, name, value) < 0 ? nxpy__stop_error(trace) : 0;
}

int nxpy__write_global(nxpy_trace *trace, PyObject *globals, PyObject *name, PyObject *value) {
    nxpy_note *note = nxpy__note_find(trace, globals);
    if (!note && !(note = nxpy__note_add(trace, globals, NXPY_NOTE_FIXED, -1))) return -1;
    note->is_namespace = true;
    return write_key(trace, globals, name, value);
}

int nxpy__write_cell(nxpy_trace *trace, PyObject *cell, PyObject *value) {
    if (!find(trace, cell, NULL)) {
        nxpy_effect effect = {.kind = NXPY_EFFECT_CELL, .holder = cell, .place = cell, .old = Py_XNewRef(PyCell_GET(cell))};
        if (record(trace, effect) < 0) return -1;
    }
    PyCell_Set(cell, value);
    return 0;
}

static int put_grad(PyObject *tensor, PyObject *value) {
    bool none = !value || value == Py_None;
    nx_status status = nx_tensor_set_grad(nx_tensor_whole(nxpy_tensor_get(tensor)), none ? NULL : nxpy_tensor_get(value));
    return status == NX_OK ? 0 : (nxpy_raise(status), -1);
}

int nxpy__grad_of(nxpy_trace *trace, PyObject *fake, PyObject **out) {
    nxpy_note *note = nxpy__note_find(trace, fake);
    nx_tensor *own = nx_tensor_whole(nxpy_tensor_get(fake)), *grad;
    *out = NULL;
    if (!note || !(note->is_input || note->knows_grad)) return nxpy__stop(trace, NXPY_BREAK_METHOD, "Tensor.grad");
    if (!note->knows_grad && !(grad = nx_tensor_get_grad(nxpy_tensor_get(note->real)))) {
        if (nxpy__check(trace, NXPY_ROW_GRADLESS, note->slot, NULL, 0) < 0) return -1;
    } else if (!note->knows_grad) {
        PyObject *held = nxpy_tensor_lend(grad), *use;
        if (!held) return nxpy__stop_error(trace);
        if (nxpy__fetch(trace, NXPY_ROW_GRAD, note->slot, NULL, NULL, 0, held) < 0 || !(use = nxpy__use(trace, held))) return -1;
        if (put_grad(fake, use) < 0) return nxpy__stop_error(trace);
    }
    nxpy__note_find(trace, fake)->knows_grad = true;
    grad = nx_tensor_get_grad(own);
    *out = grad ? nxpy_tensor_wrap(grad) : Py_NewRef(Py_None);
    return *out ? nxpy__admit(trace, *out) : nxpy__stop_error(trace);
}

int nxpy__write_grad(nxpy_trace *trace, PyObject *fake, PyObject *value) {
    PyObject *use = value ? nxpy__use(trace, value) : Py_None;
    nxpy_note *note = use ? nxpy__note_find(trace, fake) : NULL;
    if (!use) return -1;
    bool own_leaf = note && !note->is_input && note->knows_grad;
    if (!note || !(note->is_input || own_leaf) || trace->region) return nxpy__stop(trace, NXPY_BREAK_STORE, "Tensor.grad");
    if (PyObject_SetAttrString(fake, "grad", use) < 0) return nxpy__stop_error(trace); /* with its checks */
    note->knows_grad = true;
    if (own_leaf || find(trace, fake, NULL)) return 0;
    return record(trace, (nxpy_effect){.kind = NXPY_EFFECT_GRAD, .holder = fake, .place = fake});
}

int nxpy__write_data(nxpy_trace *trace, PyObject *fake, PyObject *shown) {
    PyObject *name = nxpy__name("data");
    nxpy_effect *before = name ? find(trace, fake, name) : NULL;
    if (!name || nxpy__admit(trace, shown) < 0) return nxpy__stop_error(trace);
    if (before) {
        Py_SETREF(before->old, Py_NewRef(shown));
        return 0;
    }
    uint32_t n = nx_tensor_version(nxpy_tensor_get(fake));
    return record(trace, (nxpy_effect){NXPY_EFFECT_DATA, .holder = fake, .place = fake, .key = name, .old = Py_NewRef(shown), .n = n});
}

int nxpy__write_item(nxpy_trace *trace, PyObject *container, PyObject *key, PyObject *value) {
    const nxpy_note *note = nxpy__note_find(trace, container);
    if (note && note->is_namespace && PyDict_CheckExact(container)) {
        if (PyUnicode_CheckExact(key)) return write_key(trace, container, key, value);
        return nxpy__stop(trace, NXPY_BREAK_STORE, "a namespace");
    }
    bool counts = PyDict_CheckExact(container) && value && !find(trace, container, NULL);
    if (counts && (find(trace, container, key) || nxpy__is_open(trace, container, key))) return write_key(trace, container, key, value);
    if (nxpy__is_a(container, NXPY_KIND_DEFAULTS) && note && note->kind == NXPY_NOTE_SOURCE) return write_key(trace, container, key, value);
    if (nxpy__before_change(trace, container, false) < 0) return -1;
    int done = value ? PyObject_SetItem(container, key, value) : PyObject_DelItem(container, key);
    return done < 0 ? nxpy__stop_error(trace) : 0;
}

int nxpy__later(nxpy_trace *trace, PyObject *function, PyObject *args) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args); k++) {
        if (nxpy__fixed(trace, PyTuple_GET_ITEM(args, k)) < 0) return -1;
    }
    if (nxpy__fixed(trace, function) < 0 || nxpy__born(trace, args) < 0) return -1;
    return record(trace, (nxpy_effect){.kind = NXPY_EFFECT_CALL, .holder = function, .place = args});
}

int nxpy__before_change(nxpy_trace *trace, PyObject *container, bool appends) {
    const nxpy_note *note = nxpy__note_find(trace, container);
    if (note && note->kind == NXPY_NOTE_BORN) return nxpy__region_changes(trace, container);
    bool list = PyList_CheckExact(container), dict = PyDict_CheckExact(container);
    bool known = note && (note->kind == NXPY_NOTE_SOURCE || note->kind == NXPY_NOTE_FIXED) && !note->is_namespace;
    if (!known || !(list || dict || PySet_CheckExact(container))) {
        return nxpy__stop(trace, NXPY_BREAK_STORE, "%.200s", Py_TYPE(container)->tp_name);
    }
    if (nxpy__slot_of(trace, container) < 0) return -1;
    nxpy_effect *effect = find(trace, container, NULL);
    if (effect && (effect->kind != NXPY_EFFECT_APPEND || appends)) return 0;
    if (!effect && list && appends) {
        nxpy_effect append = {.kind = NXPY_EFFECT_APPEND, .holder = container, .place = container, .n = Py_SIZE(container)};
        return record(trace, append);
    }
    if (nxpy__note_elements(trace, container) < 0) return -1;
    PyObject *old = list ? PyList_GetSlice(container, 0, nxpy__size_before(trace, container)) : NULL;
    if (!list) old = dict ? PyDict_Copy(container) : PySet_New(container);
    if (!old) return nxpy__stop_error(trace);
    nxpy_effect_kind kind = list ? NXPY_EFFECT_LIST : dict ? NXPY_EFFECT_DICT : NXPY_EFFECT_SET;
    if (!effect) return record(trace, (nxpy_effect){.kind = kind, .holder = container, .place = container, .old = old});
    effect->kind = kind; /* appended to so far */
    effect->old = old;
    return 0;
}

/* ---- doing, and undoing ------------------------------------------------------------------------------------------------- */
static int put_key(PyObject *dict, PyObject *key, PyObject *value) {
    if (value) return PyDict_SetItem(dict, key, value);
    int there = PyDict_Contains(dict, key);
    return there > 0 ? PyDict_DelItem(dict, key) : there;
}

static int put_field(PyObject *object, PyObject *name, PyObject *value) {
    if (PyObject_GenericSetAttr(object, name, value) == 0) return 0;
    if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear(); /* it is not there already */
    return 0;
}

static int put_class(PyObject *type, PyObject *name, PyObject *value) {
    if (!value && !PyDict_GetItemWithError(nxpy_type_dict((PyTypeObject *)type), name)) return 0;
    return PyObject_SetAttr(type, name, value);
}

static int call(PyObject *function, PyObject *args) {
    PyObject *result = PyObject_Call(function, args, NULL);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int put(nxpy_effect_kind kind, PyObject *holder, PyObject *key, PyObject *value) {
    switch (kind) {
    case NXPY_EFFECT_FIELD: return put_field(holder, key, value);
    case NXPY_EFFECT_KEY: return put_key(holder, key, value);
    case NXPY_EFFECT_CLASS: return put_class(holder, key, value);
    case NXPY_EFFECT_CELL: return PyCell_Set(holder, value);
    case NXPY_EFFECT_GRAD: return put_grad(holder, value);
    case NXPY_EFFECT_DATA: return PyObject_SetAttr(holder, key, value);
    case NXPY_EFFECT_APPEND: return PyList_SetSlice(holder, PyList_GET_SIZE(holder), PyList_GET_SIZE(holder), value);
    case NXPY_EFFECT_LIST: return PyList_SetSlice(holder, 0, PyList_GET_SIZE(holder), value);
    case NXPY_EFFECT_DICT: PyDict_Clear(holder); return PyDict_Update(holder, value);
    case NXPY_EFFECT_SET: return PySet_Clear(holder) < 0 ? -1 : nxpy__set_update(holder, value);
    case NXPY_EFFECT_CALL: return value ? call(holder, value) : 0; /* nothing undoes it, and nothing was done */
    }
    return 0;
}

void nxpy__effects_undo(nxpy_trace *trace) {
    PyObject *error[3];
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    while (trace->effects.n > 0) {
        nxpy_effect *effect = &trace->effects.at[--trace->effects.n];
        bool appended = effect->kind == NXPY_EFFECT_APPEND;
        int done = appended ? PyList_SetSlice(effect->holder, effect->n, PyList_GET_SIZE(effect->holder), NULL)
                            : put(effect->kind, effect->holder, effect->key, effect->old);
        if (done < 0) PyErr_WriteUnraisable(effect->holder);
        Py_DECREF(effect->holder);
        Py_DECREF(effect->place);
        Py_XDECREF(effect->key);
        Py_XDECREF(effect->old);
    }
    nx_vec_free(&trace->effects);
    PyErr_Restore(error[0], error[1], error[2]);
}

/* ---- in a segment ---------------------------------------------------------------------------------------------------------- */
/* What the effect leaves in its holder, as one value of the recipe. 1, 0, -1 as nxpy__recipe_add. */
static int add_value(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, const nxpy_effect *effect) {
    PyObject *holder = effect->holder, *value;
    int done;
    switch ((nxpy_effect_kind)effect->kind) {
    case NXPY_EFFECT_FIELD:
        value = nxpy_instance_value(holder, effect->key);
        if (value) return nxpy__recipe_add(trace, recipe, results, value);
        value = PyObject_GenericGetAttr(holder, effect->key); /* in a slot of its layout */
        if (!value || nxpy_type_lookup(Py_TYPE(holder), effect->key) == value) Py_CLEAR(value);
        PyErr_Clear();
        done = nxpy__recipe_add(trace, recipe, results, value);
        Py_XDECREF(value);
        return done;
    case NXPY_EFFECT_KEY: return nxpy__recipe_add(trace, recipe, results, PyDict_GetItemWithError(holder, effect->key));
    case NXPY_EFFECT_CALL: return nxpy__recipe_add(trace, recipe, results, effect->place);
    case NXPY_EFFECT_CLASS: return nxpy__recipe_add(trace, recipe, results, PyDict_GetItemWithError(effect->place, effect->key));
    case NXPY_EFFECT_CELL: return nxpy__recipe_add(trace, recipe, results, PyCell_GET(holder));
    case NXPY_EFFECT_GRAD:
        done = nxpy__grad_of(trace, holder, &value);
        if (done == 0) done = nxpy__recipe_add(trace, recipe, results, value);
        Py_XDECREF(value);
        return done;
    case NXPY_EFFECT_DATA: return nxpy__recipe_add(trace, recipe, results, effect->old);
    case NXPY_EFFECT_APPEND: return nxpy__recipe_add_contents(trace, recipe, results, holder, effect->n);
    default: return nxpy__recipe_add_contents(trace, recipe, results, holder, 0);
    }
}

/* ---- aliases ------------------------------------------------------------------------------------------------------------- */
/* What the trace read of one object it would not find changed when that is the object that it writes: so whatever was
 * written is kept apart from every other object of its type that was used, and dicts from the attributes of instances. */
typedef struct apart_list {
    NX_VEC(nxpy_apart_part) parts;
    int n_first;
    bool moves;         /* one of the written ones may be another object at the next call */
} apart_list;

static int list_part(nxpy_trace *trace, apart_list *list, PyObject *object, bool dict) {
    nxpy_apart_part part = {.slot = nxpy__slot_of(trace, object), .dict = dict};
    for (int k = 0; k < list->parts.n; k++) {
        if (list->parts.at[k].slot == part.slot && list->parts.at[k].dict == dict) return 0;
    }
    list->moves |= dict || nxpy__note_find(trace, object)->kind != NXPY_NOTE_FIXED;
    if (part.slot < 0) return -1;
    return nx_vec_push(&list->parts, part) != NX_OK ? (nxpy_raise(NX_NO_MEMORY), -1) : 0;
}

static bool is_used(const apart_list *list, const nxpy_note *note) {
    if (!note->touched || nxpy_tensor_check(note->object)) return false;
    return note->kind == NXPY_NOTE_SOURCE || (note->kind == NXPY_NOTE_FIXED && list->moves);
}

static int list_type(nxpy_trace *trace, const PyTypeObject *type, apart_list *list) {
    int done = 0;
    for (int k = 0; done == 0 && k < trace->effects.n; k++) {
        PyObject *holder = trace->effects.at[k].holder;
        if (Py_TYPE(holder) == type) done = list_part(trace, list, holder, false);
    }
    list->n_first = list->parts.n;
    for (int k = 0; done == 0 && k < trace->notes.n; k++) {
        const nxpy_note *note = &trace->notes.at[k];
        if (Py_TYPE(note->object) == type && (note->is_input || is_used(list, note))) done = list_part(trace, list, note->object, false);
    }
    return done;
}

/* Whether `dict` is one of the written ones under another name: that it is the same stays so by a guard. 1, 0, -1. */
static int is_written_dict(nxpy_trace *trace, PyObject *instance, PyObject *dict) {
    for (int k = 0; k < trace->effects.n; k++) {
        const nxpy_effect *effect = &trace->effects.at[k];
        if (effect->place != dict || (effect->holder == dict) == !instance) continue;
        int slot = nxpy__slot_of(trace, instance ? instance : effect->holder);
        return slot < 0 || nxpy__fetch(trace, NXPY_ROW_NAMESPACE, slot, NULL, NULL, 0, dict) < 0 ? -1 : 1;
    }
    return 0;
}

static int list_dicts(nxpy_trace *trace, apart_list *list) {
    bool writes = false; /* a dict of the program's own, which may be the attributes of an instance */
    int done = 0;
    for (int k = 0; done == 0 && k < trace->effects.n; k++) {
        const nxpy_effect *effect = &trace->effects.at[k];
        bool dict = PyDict_CheckExact(effect->holder);
        if (!dict && effect->kind != NXPY_EFFECT_FIELD) continue;
        done = list_part(trace, list, effect->holder, !dict);
        const nxpy_note *note = nxpy__note_find(trace, effect->holder);
        writes |= dict && !(note && note->kind == NXPY_NOTE_FIXED && note->is_namespace);
    }
    list->n_first = list->parts.n;
    for (int k = 0; done == 0 && k < trace->notes.n; k++) {
        PyObject *object = trace->notes.at[k].object;
        bool dict = PyDict_CheckExact(object), instance = nxpy__may_change(Py_TYPE(object));
        if (!is_used(list, &trace->notes.at[k]) || PyType_Check(object) || !(dict || (instance && writes))) continue;
        PyObject *now = dict ? object : nxpy_instance_dict(object);
        done = now ? is_written_dict(trace, dict ? NULL : object, now) : 0;
        if (done == 0) done = list_part(trace, list, object, !dict);
        else if (done == 1) done = 0;
    }
    return done;
}

int nxpy__apart_row(nxpy_trace *trace, nxpy_row_code code, const nxpy_apart_part *parts, int n, int n_first) {
    if (n < 2) return 0;
    nxpy_apart *apart = nx_alloc(sizeof *apart + sizeof *parts * (size_t)n);
    if (!apart) return nxpy_raise(nx_fail_memory(sizeof *parts * (size_t)n)), -1;
    *apart = (nxpy_apart){.n = n, .n_first = n_first};
    memcpy(apart->at, parts, sizeof *parts * (size_t)n);
    nxpy_row row = {.code = (uint8_t)code, .from = -1, .apart = apart};
    return nxpy_guards_add(&trace->segment->guards, row, (nxpy_place){0}) < 0 ? -1 : 0;
}

/* Dicts, with the attributes of instances, once; every other type of which something was written once. */
static int keep_apart(nxpy_trace *trace) {
    bool dicts = false;
    int done = 0;
    for (int k = 0; done == 0 && k < trace->effects.n; k++) {
        const PyTypeObject *type = Py_TYPE(trace->effects.at[k].holder);
        int kind = trace->effects.at[k].kind;
        bool known = type == &PyDict_Type || kind == NXPY_EFFECT_CALL || kind == NXPY_EFFECT_GRAD;
        dicts |= known || kind == NXPY_EFFECT_FIELD;
        for (int j = 0; j < k; j++) known |= Py_TYPE(trace->effects.at[j].holder) == type;
        apart_list list = {0};
        if (!known) done = list_type(trace, type, &list);
        if (done == 0 && list.moves) done = nxpy__apart_row(trace, NXPY_ROW_DISTINCT, list.parts.at, list.parts.n, list.n_first);
        nx_vec_free(&list.parts);
    }
    apart_list list = {0};
    if (done == 0 && dicts) done = list_dicts(trace, &list);
    if (done == 0 && list.moves) done = nxpy__apart_row(trace, NXPY_ROW_DISTINCT, list.parts.at, list.parts.n, list.n_first);
    nx_vec_free(&list.parts);
    return done;
}

int nxpy__effects_finish(nxpy_trace *trace, nxpy_results *results) {
    nxpy_segment *segment = trace->segment;
    for (int k = 0; k < trace->effects.n; k++) {
        const nxpy_effect *effect = &trace->effects.at[k];
        nxpy_change change = {.kind = effect->kind, .key = effect->key};
        int done = nxpy__recipe_add(trace, &segment->recipe, results, effect->holder);
        if (done == 1) done = add_value(trace, &segment->recipe, results, effect);
        if (done != 1) return done;
        if (change.kind == NXPY_EFFECT_DATA) change.n_writes = nx_tensor_version(nxpy_tensor_get(effect->holder)) - (uint32_t)effect->n;
        if (nx_vec_push(&segment->changes, change) != NX_OK) return nxpy_raise(NX_NO_MEMORY), -1;
        Py_XINCREF(change.key);
    }
    return keep_apart(trace) < 0 ? -1 : 1;
}

int nxpy__changes_apply(const nxpy_segment *segment, PyObject **made) {
    int done = 0;
    for (int k = 0; k < segment->changes.n; k++) {
        const nxpy_change *change = &segment->changes.at[k];
        if (done == 0) done = put((nxpy_effect_kind)change->kind, made[2 * k], change->key, made[2 * k + 1]);
        if (done == 0 && change->n_writes) nxpy_tensor_get(made[2 * k])->storage->version += change->n_writes;
        Py_XDECREF(made[2 * k]);
        Py_XDECREF(made[2 * k + 1]);
    }
    return done;
}
