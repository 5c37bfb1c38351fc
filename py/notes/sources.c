/* The side table: what the tracer knows of each object, and the guards that follow from using it.
 *
 * In: objects that the loop meets. Out: notes (where it came from, born in the trace or before it, the fake that stands
 * for a tensor), guard rows, graph inputs.
 * What must hold: stack and locals hold bare objects; an object that is neither a constant nor noted stops the trace;
 * constants carry no note, their guard is made where they are fetched. A note holds its object, so that no address is
 * used twice; a tensor that the program has no more is let go. A tensor that existed before is replaced by its fake wherever it is
 * used, the same one each time.
 * Next: recipe.c for the way back. */
#include "notes/notes.h"

#include <ctype.h>
#include <structmember.h>

/* ---- notes ------------------------------------------------------------------------------------------------------- */
static PyObject *opened_at(const nxpy_trace *trace, int slot);

nxpy_note *nxpy__note_find(nxpy_trace *trace, PyObject *object) {
    intptr_t number = (intptr_t)nx_map_get(&trace->index, object);
    return number ? &trace->notes.at[number - 1] : NULL;
}

nxpy_note *nxpy__note_add(nxpy_trace *trace, PyObject *object, nxpy_note_kind kind, int slot) {
    nxpy_note note = {.object = object, .kind = kind, .slot = slot, .born_at = trace->root_at};
    if (nx_vec_push(&trace->notes, note) != NX_OK) goto fail;
    Py_INCREF(object);
    if (nx_map_set(&trace->index, object, (void *)(intptr_t)trace->notes.n) != NX_OK) goto fail;
    return &trace->notes.at[trace->notes.n - 1];
fail:
    nxpy_raise(NX_NO_MEMORY);
    nxpy__stop_error(trace);
    return NULL;
}

int nxpy__fixed(nxpy_trace *trace, PyObject *object) {
    if (nxpy_constant_check(object) || nxpy__note_find(trace, object)) return 0;
    return nxpy__note_add(trace, object, NXPY_NOTE_FIXED, -1) ? 0 : -1;
}

int nxpy__born(nxpy_trace *trace, PyObject *object) {
    if (!object || nxpy__note_find(trace, object) || nxpy_constant_check(object)) return 0;
    return nxpy__note_add(trace, object, NXPY_NOTE_BORN, -1) ? 0 : -1;
}

int nxpy__forget(nxpy_trace *trace, PyObject *object) {
    if (nx_map_set(&trace->index, object, NULL) == NX_OK) return 0;
    nxpy_raise(NX_NO_MEMORY);
    return nxpy__stop_error(trace);
}

void nxpy__notes_free(nxpy_trace *trace) {
    for (int k = 0; k < trace->notes.n; k++) {
        if (nxpy_is_generator(trace->notes.at[k].object) && trace->notes.at[k].kind == NXPY_NOTE_BORN) {
            nxpy_generator_drop(trace->notes.at[k].object);
        }
        Py_XDECREF(trace->notes.at[k].fake);
        Py_XDECREF(trace->notes.at[k].made);
        Py_DECREF(trace->notes.at[k].object);
    }
    nx_vec_free(&trace->notes);
    nx_map_free(&trace->index);
}

bool nxpy__is_born(nxpy_trace *trace, PyObject *object) {
    const nxpy_note *note = nxpy__note_find(trace, object);
    return note && note->kind == NXPY_NOTE_BORN;
}

bool nxpy__is_fake(nxpy_trace *trace, PyObject *object) {
    return nxpy_tensor_check(object) && nx_tensor_is_fake(nxpy_tensor_get(object));
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */
static int add_row(nxpy_trace *trace, nxpy_row row) {
    nxpy_place place = {.file = trace->file, .function = trace->function, .line = trace->line};
    int index = nxpy_guards_add(&trace->segment->guards, row, place);
    return index < 0 ? nxpy__stop_error(trace) : index;
}

int nxpy__check(nxpy_trace *trace, nxpy_row_code code, int from, PyObject *a, int64_t n) {
    if (nxpy_guards_find(&trace->segment->guards, code, from, a, NULL, n) >= 0) return 0;
    return add_row(trace, (nxpy_row){.code = (uint8_t)code, .from = from, .a = a, .n = n}) < 0 ? -1 : 0;
}

/* What a slot's value needs as soon as it is fetched: constants their guard, other objects a note. */
static int note_fetched(nxpy_trace *trace, int slot, PyObject *value) {
    if (!value) return nxpy__check(trace, NXPY_ROW_ABSENT, slot, NULL, 0);
    if (nxpy_constant_check(value)) return nxpy__check(trace, NXPY_ROW_EQUALS, slot, value, 0);
    nxpy_note *note = nxpy__note_find(trace, value);
    if (!note) return nxpy__note_add(trace, value, NXPY_NOTE_SOURCE, slot) ? 0 : -1;
    if (note->kind == NXPY_NOTE_SOURCE && note->slot != slot) return nxpy__check(trace, NXPY_ROW_SAME, slot, NULL, note->slot);
    if (note->kind == NXPY_NOTE_FIXED) return nxpy__check(trace, NXPY_ROW_ID, slot, value, 0);
    if (note->kind == NXPY_NOTE_SOURCE) return 0;
    return nxpy__stop(trace, NXPY_BREAK_LEAK, "a value of the trace lies in an object that existed before");
}

int nxpy__fetch(nxpy_trace *trace, nxpy_row_code code, int from, PyObject *a, PyObject *b, int64_t n, PyObject *value) {
    int row = nxpy_guards_find(&trace->segment->guards, code, from, a, b, n);
    if (row >= 0) {
        int slot = trace->segment->guards.rows.at[row].slot;
        return value && opened_at(trace, slot) ? nxpy__check(trace, NXPY_ROW_EQUALS, slot, value, 0) : 0;
    }
    int index = add_row(trace, (nxpy_row){.code = (uint8_t)code, .present = value != NULL, .from = from, .a = a, .b = b, .n = n});
    return index < 0 ? -1 : note_fetched(trace, trace->segment->guards.rows.at[index].slot, value);
}

/* A number in a slot that is left open is one for the program; whoever takes the object as it is fixes it. */
static PyObject *opened_at(const nxpy_trace *trace, int slot) {
    for (int k = 0; k < trace->opened.n; k++) {
        if (trace->opened.at[k].slot == slot) return trace->opened.at[k].number;
    }
    return NULL;
}

bool nxpy__is_open(nxpy_trace *trace, PyObject *dict, PyObject *key) {
    const nxpy_note *note = nxpy__note_find(trace, dict);
    int row = note && note->slot >= 0 ? nxpy_guards_find(&trace->segment->guards, NXPY_ROW_KEY, note->slot, key, NULL, 0) : -1;
    return row >= 0 && opened_at(trace, trace->segment->guards.rows.at[row].slot) != NULL;
}

/* Whether an earlier trace from here found another number at this place. */
static bool number_varies(const nxpy_trace *trace, int slot, PyObject *value) {
    nx_text source = {0};
    bool varies = false;
    nxpy_guards_source(&trace->segment->guards, slot, &source);
    for (int k = 0; k < trace->point->segments.n && !source.failed && !varies; k++) {
        varies = nxpy_guards_number_varies(&trace->point->segments.at[k]->guards, source.at, value);
    }
    nx_text_free(&source);
    return varies;
}

static int open_number(nxpy_trace *trace, int slot, PyObject **value) {
    PyTypeObject *type = Py_TYPE(*value);
    bool real = PyFloat_CheckExact(*value);
    nx_value traced = real ? nx_value_float(PyFloat_AS_DOUBLE(*value)) : nx_value_int(PyLong_AsLongLong(*value));
    if (nxpy__check(trace, NXPY_ROW_TYPE, slot, (PyObject *)type, 0) < 0) return -1;
    trace->segment->fitted = true;
    nxpy__trace_varies(trace);
    nxpy_given given = {.slot = slot, .keyed = true, .traced = traced};
    if (nx_vec_push(&trace->segment->given, given) != NX_OK) return nxpy__stop_error(trace);
    PyObject *number = nxpy_size_given(&trace->tracer, trace->segment->given.n - 1, *value);
    bool noted = number && nxpy__note_add(trace, number, NXPY_NOTE_BORN, -1);
    if (noted && nx_vec_push(&trace->opened, ((nxpy_opened){slot, number})) != NX_OK) noted = (nxpy_raise(NX_NO_MEMORY), false);
    Py_XDECREF(number); /* its note has it */
    *value = number;
    return noted ? 0 : nxpy__stop_error(trace);
}

int nxpy__fetch_number(nxpy_trace *trace, nxpy_row_code code, int from, PyObject *a, PyObject *b, int64_t n, PyObject **value) {
    int row = nxpy_guards_find(&trace->segment->guards, code, from, a, b, n), overflow = 0;
    bool number = *value && (PyFloat_CheckExact(*value) || PyLong_CheckExact(*value));
    bool keeps = number && (PyLong_CheckExact(*value) ? nxpy__settings.keeps_ints : nxpy__settings.keeps_floats);
    bool may = number && !keeps && !trace->tracer.flat && trace->point->segments.n && nxpy__settings.automatic &&
               trace->owner->dynamic != 0 && trace->segment->given.n < 64;
    if (row >= 0) {
        int slot = trace->segment->guards.rows.at[row].slot;
        PyObject *open = number ? opened_at(trace, slot) : NULL;
        if (open && PyFloat_CheckExact(open)) return nxpy__check(trace, NXPY_ROW_EQUALS, slot, *value, 0); /* in a tensor, too */
        if (open) *value = open;
        return 0;
    }
    if (may && PyLong_CheckExact(*value)) (void)PyLong_AsLongLongAndOverflow(*value, &overflow);
    if (!may || overflow) return nxpy__fetch(trace, code, from, a, b, n, *value);
    int index = add_row(trace, (nxpy_row){.code = (uint8_t)code, .present = true, .from = from, .a = a, .b = b, .n = n});
    if (index < 0) return -1;
    int slot = trace->segment->guards.rows.at[index].slot;
    if (!number_varies(trace, slot, *value)) return note_fetched(trace, slot, *value);
    return open_number(trace, slot, value);
}

/* ---- inputs that are made of what the guards fetch: floats of settings, arrays of numpy's ---- */
/* The tensor that a row of this code holds of the slot's value, lent; NULL: there is no such row. */
static PyObject *made_of(const nxpy_guards *guards, nxpy_row_code code, int slot) {
    for (int k = slot; k < guards->rows.n; k++) { /* no row stands before the one that fills the slot */
        const nxpy_row *row = &guards->rows.at[k];
        if (row->code == code && row->from == slot) return row->b;
    }
    return NULL;
}

/* What stands for the tensor (taken), which a new row holds of the slot's value. Lent; NULL: stopped. */
static PyObject *add_made(nxpy_trace *trace, nxpy_row_code code, int slot, PyObject *tensor) {
    int row = add_row(trace, (nxpy_row){.code = (uint8_t)code, .present = true, .from = slot, .b = tensor});
    const nxpy_note *note = row < 0 ? NULL : nxpy__note_add(trace, tensor, NXPY_NOTE_SOURCE, trace->segment->guards.rows.at[row].slot);
    PyObject *use = note ? nxpy__use(trace, tensor) : NULL;
    Py_DECREF(tensor); /* the row has it */
    return use;
}

int nxpy__number_input(nxpy_trace *trace, PyObject *dict, PyObject *key, PyObject **out) {
    const nxpy_note *note = nxpy__note_find(trace, dict);
    bool source = note && note->kind == NXPY_NOTE_SOURCE && !note->elements && !nxpy__was_written_key(trace, dict, key);
    PyObject *value = source ? PyDict_GetItemWithError(dict, key) : NULL, *tensor;
    int slot = value && PyFloat_CheckExact(value) && !trace->region ? nxpy__slot_of(trace, dict) : -1;
    if (slot < 0) return trace->stop ? -1 : 1;
    const nxpy_guards *guards = &trace->segment->guards;
    int row = nxpy_guards_find(guards, NXPY_ROW_KEY, slot, key, NULL, 0);
    if (row >= 0 && !(tensor = made_of(guards, NXPY_ROW_NUMBER, guards->rows.at[row].slot))) return 1; /* read as it is before */
    if (row >= 0) return (*out = nxpy__use(trace, tensor)) ? 0 : -1;
    if ((row = add_row(trace, (nxpy_row){.code = NXPY_ROW_KEY, .present = true, .from = slot, .a = key})) < 0) return -1;
    slot = guards->rows.at[row].slot;
    if (!number_varies(trace, slot, value)) { /* a constant, until it is another one */
        *out = value;
        return nxpy__check(trace, NXPY_ROW_EQUALS, slot, value, 0);
    }
    if (nxpy__check(trace, NXPY_ROW_TYPE, slot, (PyObject *)&PyFloat_Type, 0) < 0) return -1;
    if (nx_vec_push(&trace->opened, ((nxpy_opened){slot, value})) != NX_OK) return nxpy_raise(NX_NO_MEMORY), nxpy__stop_error(trace);
    if (!(tensor = nxpy_setting_tensor(PyFloat_AS_DOUBLE(value)))) return nxpy__stop_error(trace);
    return (*out = add_made(trace, NXPY_ROW_NUMBER, slot, tensor)) ? 0 : -1;
}

int nxpy__array_input(nxpy_trace *trace, PyObject *array, PyObject **out) {
    if (nxpy__shown(array)) return *out = nxpy__shown(array)->tensor, 1;
    const nxpy_note *note = nxpy__is_a(array, NXPY_KIND_ARRAY) ? nxpy__note_find(trace, array) : NULL;
    if (!note || (note->kind != NXPY_NOTE_SOURCE && note->kind != NXPY_NOTE_FIXED)) return 0;
    int slot = nxpy__slot_of(trace, array);
    if (slot < 0) return -1;
    PyObject *tensor = made_of(&trace->segment->guards, NXPY_ROW_ARRAY, slot);
    if (tensor) return (*out = nxpy__use(trace, tensor)) ? 1 : -1;
    if (!(tensor = nxpy_tensor_over(array))) {
        PyErr_Clear();
        return nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "an array of numpy's that has no tensor over its memory");
    }
    return (*out = add_made(trace, NXPY_ROW_ARRAY, slot, tensor)) ? 1 : -1;
}

/* ---- settings ---- */
int nxpy__settings_vary(nxpy_trace *trace, PyObject *dict, PyObject *but) {
    const nxpy_note *note = nxpy__note_find(trace, dict);
    PyObject *key, *value;
    bool varies = false;
    if (!note || note->kind != NXPY_NOTE_SOURCE) return 0;
    for (Py_ssize_t at = 0; !varies && PyDict_Next(dict, &at, &key, &value);) {
        nx_text source = {0};
        if (!PyUnicode_CheckExact(key) || !nxpy_constant_check(value) || nxpy_constant_equal(key, but)) continue;
        nxpy_guards_source(&trace->segment->guards, note->slot, &source);
        nx_text_add(&source, "['%s']", PyUnicode_AsUTF8(key));
        for (int k = 0; k < trace->point->segments.n && !source.failed && !varies; k++) {
            varies = nxpy_guards_number_varies(&trace->point->segments.at[k]->guards, source.at, value);
        }
        nx_text_free(&source);
    }
    return varies;
}

int nxpy__note_operator(nxpy_trace *trace, PyTypeObject *type, const char *text) {
    PyObject *name = nxpy__name(text), *found = name ? nxpy_type_lookup(type, name) : NULL, *pair = NULL;
    int done = name ? 0 : nxpy__stop_error(trace);
    if (name && !nxpy_guards_know_operator(&trace->segment->guards, (PyObject *)type, name)) {
        pair = PyTuple_Pack(2, type, found ? found : Py_None);
        done = !pair ? nxpy__stop_error(trace) : add_row(trace, (nxpy_row){.code = NXPY_ROW_OPERATOR, .from = -1, .a = name, .b = pair});
    }
    Py_XDECREF(pair);
    return done < 0 ? -1 : 0;
}

int nxpy__slot_of(nxpy_trace *trace, PyObject *object) { return nxpy__slot_called(trace, object, NULL); }

int nxpy__slot_called(nxpy_trace *trace, PyObject *object, PyObject *name) {
    nxpy_note *note = nxpy__note_find(trace, object);
    if (note && note->slot >= 0) return note->slot;
    if (!note || note->kind != NXPY_NOTE_FIXED) return nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "%.200s", Py_TYPE(object)->tp_name);
    PyObject *text = name ? PyUnicode_FromFormat("L[%R]", name) : PyUnicode_FromFormat("<%s>", Py_TYPE(object)->tp_name);
    if (!text) return nxpy__stop_error(trace);
    int index = add_row(trace, (nxpy_row){.code = NXPY_ROW_FIXED, .from = -1, .a = object, .b = text});
    Py_DECREF(text);
    if (index < 0) return -1;
    return nxpy__note_find(trace, object)->slot = trace->segment->guards.rows.at[index].slot;
}

/* ---- tensors become inputs ------------------------------------------------------------------------------------------- */
/* "L['x']" -> "L_x_": what dynamo calls the input. */
static void input_name(const char *source, nx_text *out) {
    for (const char *c = source; *c; c++) {
        if (isalnum((unsigned char)*c)) nx_text_add_char(out, *c);
        else if (out->n && out->at[out->n - 1] != '_') nx_text_add_char(out, '_');
    }
}

nx_status nxpy__fake_new(const nx_tensor *real, nx_tensor **out) {
    nx_meta meta;
    nx_meta_of(&real->a, &meta);
    nx_tensor *fake;
    NX_TRY(nx_tensor_new_meta(&meta, true, &fake));
    fake->is_parameter = real->is_parameter;
    nx_status status = NX_OK;
    if (nx_tensor_requires_grad(real) && nx_tensor_is_leaf(real)) status = nx_tensor_set_requires_grad(fake, true);
    else if (nx_tensor_requires_grad(real)) status = nx_grad_stand_in(fake, NULL);
    if (status != NX_OK) nx_tensor_unref(fake);
    else *out = fake;
    return status;
}

/* The node's own fake, which tells what the input was before the function wrote it. */
static nx_status add_placeholder(nxpy_trace *trace, const char *name, const char *target, nx_tensor *fake, nx_node **out) {
    nx_tensor *kept;
    NX_TRY(nx_fake_like(fake, &kept));
    nx_status status = nx_tensor_requires_grad(fake) ? nx_tensor_set_requires_grad(kept, true) : NX_OK;
    if (status == NX_OK) status = nx_graph_input_like(trace->graph, name, target, kept, out);
    nx_tensor_unref(kept);
    return status;
}

/* The placeholder of a fake and what ties them. */
static nx_status place_input(nxpy_trace *trace, const char *source, nx_tensor *fake, uint64_t varying, nx_text *target) {
    input_name(source, target);
    nx_text name = {0};
    for (size_t k = 0; k < target->n; k++) nx_text_add_char(&name, (char)tolower((unsigned char)target->at[k]));
    nx_status status = target->failed || name.failed ? nx_fail_memory(64) : NX_OK;
    nx_node *node = NULL;
    if (status == NX_OK) status = add_placeholder(trace, name.at, target->at, fake, &node);
    if (status == NX_OK) status = nx_tracer_bind(&trace->tracer, fake, node, 0);
    if (status == NX_OK && varying) {
        node->varying = varying;
        nxpy__trace_varies(trace);
    }
    nx_text_free(&name);
    return status;
}

/* Which sizes of an input are left open: those that were others before at this place (dynamic=None), all (True), none. */
static uint64_t varying_dims(const nxpy_trace *trace, const char *source, PyObject *real) {
    const nx_array *a = &nxpy_tensor_get(real)->a;
    uint64_t varying = 0;
    if (trace->owner->dynamic == 0 || nxpy_tensor_get(real)->is_parameter) return 0;
    bool open = trace->owner->dynamic == 1 || nxpy__settings.open_first;
    if (open) varying = a->ndim < 64 ? (UINT64_C(1) << a->ndim) - 1 : UINT64_MAX;
    for (int k = 0; nxpy__settings.automatic && !open && k < trace->point->segments.n; k++) {
        varying |= nxpy_guards_varying(&trace->point->segments.at[k]->guards, source, a);
    }
    varying |= nxpy_marked_dims(real, NXPY_MARK_OPEN) | nxpy_marked_dims(real, NXPY_MARK_MAY_OPEN);
    return trace->tracer.flat ? 0 : varying & ~nxpy_marked_dims(real, NXPY_MARK_STATIC);
}

static int tensor_row(nxpy_trace *trace, int slot, PyObject *real, uint64_t varying) {
    nxpy_tensor_like *like = nxpy_tensor_like_new(real, varying);
    if (!like) return nxpy__stop_error(trace);
    return add_row(trace, (nxpy_row){.code = NXPY_ROW_TENSOR, .from = slot, .a = (PyObject *)Py_TYPE(real), .like = like});
}

int nxpy__take_class(nxpy_trace *trace, PyObject *fake, PyTypeObject *wanted) {
    PyTypeObject *now = Py_TYPE(fake);
    if (now == wanted) return 0;
    if (now->tp_basicsize != wanted->tp_basicsize || !nxpy__may_change(wanted) || !nxpy__may_change(now)) {
        return nxpy__stop(trace, NXPY_BREAK_TENSOR_CLASS, "%.200s", wanted->tp_name);
    }
    Py_INCREF(wanted);
    Py_SET_TYPE(fake, wanted);
    Py_DECREF(now);
    return 0;
}

/* Makes the fake that stands for the tensor of note number `number`. */
static PyObject *make_input(nxpy_trace *trace, int number) {
    PyObject *real = trace->notes.at[number].object;
    nx_tensor *fake = NULL;
    nx_text source = {0}, target = {0};
    if (nxpy_tensor_get(real)->keys & NX_KEY(PYTHON)) {
        nxpy__stop(trace, NXPY_BREAK_TENSOR_CLASS, "%.200s", Py_TYPE(real)->tp_name);
        return NULL;
    }
    bool usual = Py_TYPE(real) == nxpy_tensor_class || !nxpy__may_change(Py_TYPE(real));
    if (!usual && nxpy__note_operator(trace, Py_TYPE(real), "__torch_function__") < 0) return NULL;
    int slot = nxpy__slot_of(trace, real);
    if (slot < 0) return NULL;
    nxpy_guards_source(&trace->segment->guards, slot, &source);
    uint64_t varying = source.failed ? 0 : varying_dims(trace, source.at, real);
    if (tensor_row(trace, slot, real, varying) < 0) return nx_text_free(&source), NULL;
    nx_status status = source.failed ? nx_fail_memory(64) : nxpy__fake_new(nxpy_tensor_get(real), &fake);
    PyObject *object = NULL;
    if (status == NX_OK) status = place_input(trace, source.at, fake, varying, &target);
    if (status == NX_OK) object = nxpy_tensor_take(fake);
    else nx_tensor_unref(fake);
    if (object && nxpy__take_class(trace, object, Py_TYPE(real)) < 0) Py_CLEAR(object);
    nxpy_note *note = object ? nxpy__note_add(trace, object, NXPY_NOTE_FAKE, slot) : NULL;
    if (note && (status = nx_vec_push(&trace->inputs, trace->notes.n - 1)) == NX_OK) {
        note->is_input = true;
        note->real = real;
        trace->notes.at[number].fake = object;
        nxpy__log_input(trace, slot, target.at, object, varying);
    } else {
        if (status != NX_OK && !PyErr_Occurred()) nxpy_raise(status);
        if (!trace->stop) nxpy__stop_error(trace);
        Py_CLEAR(object);
    }
    nx_text_free(&source);
    nx_text_free(&target);
    return object;
}

int nxpy__become_input(nxpy_trace *trace, int number, const char *name) {
    PyObject *object = trace->notes.at[number].object, *like;
    nx_tensor *fake;
    nx_text target = {0};
    nx_status status = nxpy__fake_new(nxpy_tensor_get(object), &fake);
    if (status != NX_OK) return nxpy_raise(status), -1;
    if (!(like = nxpy_tensor_take(fake))) return -1;
    if (fake->storage) fake->storage->version = nx_tensor_version(nxpy_tensor_get(object)); /* a run counts on from there */
    int done = nxpy__take_class(trace, like, Py_TYPE(object));
    int slot = done == 0 && nxpy__note_add(trace, like, NXPY_NOTE_FIXED, -1) ? nxpy__slot_of(trace, like) : -1;
    Py_DECREF(like); /* its note has it */
    if (slot < 0) return -1;
    status = place_input(trace, name, nxpy_tensor_get(object), 0, &target);
    if (status == NX_OK) status = nx_vec_push(&trace->inputs, number);
    nxpy_note *note = &trace->notes.at[number];
    note->is_input = true;
    note->slot = slot;
    if (status == NX_OK) nxpy__log_input(trace, slot, target.at, object, 0);
    nx_text_free(&target);
    return status == NX_OK ? 0 : (nxpy_raise(status), -1);
}

const nxpy_note *nxpy__input_of(const nxpy_trace *trace, const nx_storage *storage) {
    for (int k = 0; storage && k < trace->inputs.n; k++) {
        const nxpy_note *note = &trace->notes.at[trace->inputs.at[k]];
        if (nxpy_tensor_get(note->object)->storage == storage) return note;
    }
    return NULL;
}

/* ---- using -------------------------------------------------------------------------------------------------------------- */
/* Whether an earlier trace from here found another object at this place: a lambda, a bound method, a partial that is made
 * anew for each call. */
static bool is_made_anew(nxpy_trace *trace, PyObject *object, int slot) {
    nx_text source = {0};
    bool anew = false;
    if (!trace->point->segments.n) return false;
    nxpy_guards_source(&trace->segment->guards, slot, &source);
    for (int k = 0; k < trace->point->segments.n && !source.failed && !anew; k++) {
        anew = nxpy_guards_want_other(&trace->point->segments.at[k]->guards, source.at, object);
    }
    nx_text_free(&source);
    return anew;
}

/* A part of an object's layout, with its elements, or (`very`) the very object. */
static int note_field(nxpy_trace *trace, PyObject *object, int slot, const char *text, Py_ssize_t offset, bool very) {
    PyObject *value = *(PyObject **)((char *)object + offset), *name = nxpy__name(text);
    int done = name ? nxpy__fetch(trace, NXPY_ROW_FIELD, slot, name, NULL, offset, value) : nxpy__stop_error(trace);
    int row = done == 0 ? nxpy_guards_find(&trace->segment->guards, NXPY_ROW_FIELD, slot, name, NULL, offset) : -1;
    if (row < 0 || !value) return done;
    if (very) return nxpy__check(trace, NXPY_ROW_ID, trace->segment->guards.rows.at[row].slot, value, 0);
    return nxpy__note_elements(trace, value);
}

static int note_function_parts(nxpy_trace *trace, PyObject *function, int slot) {
    static const struct { const char *name; Py_ssize_t offset; bool very; } parts[] = {
        {"__code__", offsetof(PyFunctionObject, func_code), true}, {"__globals__", offsetof(PyFunctionObject, func_globals), true},
        {"__defaults__", offsetof(PyFunctionObject, func_defaults), false},
        {"__kwdefaults__", offsetof(PyFunctionObject, func_kwdefaults), false},
        {"__closure__", offsetof(PyFunctionObject, func_closure), false}};
    for (int k = 0; k < NX_COUNT(parts); k++) {
        if (note_field(trace, function, slot, parts[k].name, parts[k].offset, parts[k].very) < 0) return -1;
    }
    return 0;
}

static int note_method_parts(nxpy_trace *trace, PyObject *method, int slot) {
    if (note_field(trace, method, slot, "__func__", offsetof(PyMethodObject, im_func), false) < 0) return -1;
    if (note_field(trace, method, slot, "__self__", offsetof(PyMethodObject, im_self), false) < 0) return -1;
    return nxpy__use(trace, PyMethod_GET_FUNCTION(method)) ? 0 : -1;
}

/* What the very method is made of never changes. */
static int note_very_parts(nxpy_trace *trace, PyObject *object) {
    if (!PyMethod_Check(object)) return 0;
    PyObject *const parts[] = {PyMethod_GET_FUNCTION(object), PyMethod_GET_SELF(object)};
    return nxpy__fixed(trace, parts[0]) < 0 ? -1 : nxpy__fixed(trace, parts[1]);
}

int nxpy__note_member(nxpy_trace *trace, PyObject *object, int slot, const char *text, bool very, PyObject **out) {
    PyObject *name = nxpy__name(text), *descriptor = name ? nxpy_type_lookup(Py_TYPE(object), name) : NULL;
    if (!descriptor || Py_TYPE(descriptor) != &PyMemberDescr_Type) {
        return nxpy__stop(trace, NXPY_BREAK_FUNCTION, "%.200s.%s", Py_TYPE(object)->tp_name, text);
    }
    Py_ssize_t offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    *out = *(PyObject **)((char *)object + offset);
    return note_field(trace, object, slot, text, offset, very);
}

int nxpy__note_partial(nxpy_trace *trace, PyObject *partial) {
    PyObject *part;
    nxpy_note *note = nxpy__note_find(trace, partial);
    int slot = note->slot;
    if (note->kind != NXPY_NOTE_SOURCE || note->by_parts) return 0;
    if (!is_made_anew(trace, partial, slot)) return nxpy__check(trace, NXPY_ROW_ID, slot, partial, 0);
    note->by_parts = true;
    static const char *const names[] = {"func", "args", "keywords"};
    for (int k = 0; k < NX_COUNT(names); k++) {
        if (nxpy__note_member(trace, partial, slot, names[k], false, &part) < 0) return -1;
    }
    return 0;
}

/* Guards on what an object that is no tensor and no constant was: its type where its parts are guarded as they are read. */
static int touch(nxpy_trace *trace, PyObject *object, int slot) {
    PyTypeObject *type = Py_TYPE(object);
    int guard = nxpy__kind(object)->guard;
    if (guard == NXPY_GUARD_NEVER) { /* iterators, files, super: new or changed at each call */
        return nxpy__stop(trace, PyCallable_Check(object) ? NXPY_BREAK_FUNCTION : NXPY_BREAK_UNKNOWN, "%.200s", type->tp_name);
    }
    if (guard == NXPY_GUARD_MEMORY) return nxpy__array_input(trace, object, &(PyObject *){NULL}) < 0 ? -1 : 0;
    bool parts = guard == NXPY_GUARD_PARTS && is_made_anew(trace, object, slot);
    if (guard == NXPY_GUARD_TYPE || parts) {
        if (nxpy__check(trace, NXPY_ROW_TYPE, slot, (PyObject *)type, 0) < 0) return -1;
        if (!parts) return 0;
        nxpy__note_find(trace, object)->by_parts = true;
        return type == &PyMethod_Type ? note_method_parts(trace, object, slot) : note_function_parts(trace, object, slot);
    }
    return nxpy__check(trace, NXPY_ROW_ID, slot, object, 0) < 0 ? -1 : note_very_parts(trace, object);
}

PyObject *nxpy__use(nxpy_trace *trace, PyObject *object) {
    nxpy_note *note = nxpy__note_find(trace, object);
    if (!note) {
        if (nxpy_constant_check(object)) return object;
        if (trace->n_making && PyType_Check(object) && nxpy__may_change((PyTypeObject *)object)) {
            return nxpy__born(trace, object) < 0 ? NULL : object;
        }
        nx_value value; /* what C code computes on its way (max() of two tensors compares them) */
        if (nxpy_tensor_check(object) && nx_tracer_find(&trace->tracer, nxpy_tensor_get(object), &value)) {
            return nxpy__admit(trace, object) < 0 ? NULL : object;
        }
        nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "%.200s", Py_TYPE(object)->tp_name);
        return NULL;
    }
    if (note->fake) return note->fake;
    if (NX_UNLIKELY(Py_IS_TYPE(object, &nxpy__drawn_type))) {
        nxpy__ask_for(trace, NXPY_ASK_NO_DRAWS);
        nxpy__stop(trace, NXPY_BREAK_FUNCTION, "what a random number decides");
        trace->clean = false;
        return NULL;
    }
    if (note->kind == NXPY_NOTE_BORN || note->kind == NXPY_NOTE_FAKE || note->touched) return object;
    note->touched = true;
    if (nxpy_tensor_check(object)) return make_input(trace, (int)(note - trace->notes.at));
    if (note->kind == NXPY_NOTE_FIXED) return object;
    return touch(trace, object, note->slot) < 0 ? NULL : object;
}

static bool graph_writes(const nx_graph *graph) {
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->op && nx_op_written(node->op)) return true;
    }
    return false;
}

int nxpy__element(nxpy_trace *trace, PyObject *fake, bool few, PyObject **out) {
    const nxpy_note *note = nxpy__note_find(trace, fake);
    PyObject *real = note && note->is_input ? note->real : NULL;
    int64_t bits;
    if (!real || !nxpy_element_bits(real, &bits) || graph_writes(trace->graph)) return 0;
    nx_text source = {0};
    bool varies = false;
    nxpy_guards_source(&trace->segment->guards, note->slot, &source);
    for (int k = 0; !few && k < trace->point->segments.n && !source.failed && !varies; k++) {
        varies = nxpy_guards_element_varies(&trace->point->segments.at[k]->guards, source.at, bits);
    }
    nx_text_free(&source);
    if (varies) return 0;
    nx_dtype dtype = nxpy_tensor_get(real)->a.dtype;
    double value;
    memcpy(&value, &bits, sizeof value);
    *out = dtype == NX_BOOL ? PyBool_FromLong((long)bits) : nx_is_float(dtype) ? PyFloat_FromDouble(value) : PyLong_FromLongLong(bits);
    if (!*out) return nxpy__stop_error(trace);
    if (nxpy__check(trace, NXPY_ROW_ELEMENT, note->slot, *out, bits) == 0) return 1;
    Py_CLEAR(*out);
    return -1;
}

static int note_frozen(nxpy_trace *trace, PyObject *object);

int nxpy__note_elements(nxpy_trace *trace, PyObject *container) {
    nxpy_note *note = nxpy__note_find(trace, container);
    if (note && Py_TYPE(container) == &PyDictProxy_Type && note->real) return nxpy__note_elements(trace, note->real);
    if (!note || note->elements || (note->kind != NXPY_NOTE_SOURCE && note->kind != NXPY_NOTE_FIXED)) return 0;
    int holds = nxpy__kind(container)->holds;
    bool sequence = holds == NXPY_HOLDS_ITEMS, set = holds == NXPY_HOLDS_MEMBERS;
    if (holds == NXPY_HOLDS_NONE) return 0;
    note->elements = true;
    if (nxpy__has_written_fields(trace, container)) return nxpy__stop(trace, NXPY_BREAK_STORE, "all of a dict that was written");
    int slot = nxpy__slot_of(trace, container);
    if (slot < 0 || !nxpy__use(trace, container)) return -1;
    if (sequence) {
        Py_ssize_t n = nxpy__size_before(trace, container); /* what was appended is the trace's */
        if (nxpy__check(trace, NXPY_ROW_LENGTH, slot, NULL, n) < 0) return -1;
        for (Py_ssize_t k = 0; k < n; k++) {
            if (nxpy__fetch(trace, NXPY_ROW_ITEM, slot, NULL, NULL, k, PySequence_Fast_GET_ITEM(container, k)) < 0) return -1;
        }
        return 0;
    }
    PyObject *keys = PySequence_Tuple(container), *key, *value;
    if (!keys) return nxpy__stop_error(trace);
    int bad = !nxpy__are_keys(keys) ? nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "a dict or set with keys that are no constants")
                                    : nxpy__check(trace, set ? NXPY_ROW_MEMBERS : NXPY_ROW_KEYS, slot, keys, 0);
    for (Py_ssize_t k = 0; !bad && k < PyTuple_GET_SIZE(keys); k++) {
        key = PyTuple_GET_ITEM(keys, k);
        if (nxpy__fixed(trace, key) < 0) bad = -1;
        if (!bad && note_frozen(trace, key) < 0) bad = -1; /* before its hash is asked for */
    }
    Py_DECREF(keys);
    for (Py_ssize_t at = 0; !bad && !set && PyDict_Next(container, &at, &key, &value);) {
        bad = nxpy__fetch(trace, NXPY_ROW_KEY, slot, key, NULL, 0, value);
    }
    return bad;
}

/* A frozen dataclass is the key that it is by its class's methods and by what it holds. 0; 1: it is none; -1. */
static int note_frozen(nxpy_trace *trace, PyObject *object) {
    PyObject *names = nxpy__is_instance(object) ? nxpy__frozen_names(object) : NULL;
    bool born = nxpy__is_born(trace, object);
    int slot = !names || born ? 0 : nxpy__fixed(trace, object) < 0 ? -1 : nxpy__slot_of(trace, object), done = names ? slot : 1;
    if (done >= 0 && names) done = nxpy__note_operator(trace, Py_TYPE(object), "__eq__");
    if (done == 0 && names) done = nxpy__note_operator(trace, Py_TYPE(object), "__hash__");
    for (Py_ssize_t k = 0; done == 0 && names && k < PyList_GET_SIZE(names); k++) {
        PyObject *name = PyList_GET_ITEM(names, k), *value = nxpy_instance_value(object, name);
        if (!value) done = nxpy__stop(trace, NXPY_BREAK_OPERATOR, "a key that has lost its field %U", name);
        if (done == 0 && !born) done = nxpy__fetch(trace, NXPY_ROW_VALUE, slot, name, NULL, 0, value);
        if (done == 0) done = nxpy__use(trace, value) ? nxpy__use_as_key(trace, value) : -1;
    }
    Py_XDECREF(names);
    return done;
}

static int frozen_equal(PyObject *x, PyObject *y) {
    PyObject *names = Py_TYPE(x) == Py_TYPE(y) ? nxpy__frozen_names(x) : NULL;
    int equal = names != NULL;
    for (Py_ssize_t k = 0; equal == 1 && k < PyList_GET_SIZE(names); k++) {
        PyObject *name = PyList_GET_ITEM(names, k), *of_x = nxpy_instance_value(x, name), *of_y = nxpy_instance_value(y, name);
        equal = of_x && of_y ? PyObject_RichCompareBool(of_x, of_y, Py_EQ) : 0;
    }
    Py_XDECREF(names);
    return x == y ? 1 : equal;
}

/* What a dict that existed before holds under a frozen dataclass: its keys stay the very objects, and what they are, so that no
 * call has to ask them. Lent. 0 or -1. */
static int frozen_value(nxpy_trace *trace, PyObject *dict, PyObject *key, PyObject **out) {
    PyObject *stored, *value;
    *out = NULL;
    if (nxpy__note_elements(trace, dict) < 0) return -1;
    for (Py_ssize_t at = 0; !*out && PyDict_Next(dict, &at, &stored, &value);) {
        int equal = Py_TYPE(stored) == Py_TYPE(key) ? frozen_equal(key, stored) : 0;
        if (equal < 0) return nxpy__stop_error(trace);
        if (equal) *out = value;
    }
    return 0;
}

int nxpy__dict_value(nxpy_trace *trace, PyObject *dict, PyObject *key, PyObject **out) {
    const nxpy_note *note = nxpy__note_find(trace, dict);
    bool stored = note && (note->kind == NXPY_NOTE_SOURCE || note->kind == NXPY_NOTE_FIXED);
    PyObject *names = stored && nxpy__is_instance(key) ? nxpy__frozen_names(key) : NULL;
    Py_XDECREF(names);
    if (names) return frozen_value(trace, dict, key, out);
    *out = PyDict_GetItemWithError(dict, key);
    if (!*out && PyErr_Occurred()) return nxpy__stop_error(trace);
    note = nxpy__note_find(trace, dict); /* the key's __hash__ and __eq__ may have made others */
    if (nxpy_tensor_check(key) && nxpy__is_made(key)) return 0; /* nothing that existed before holds it */
    if (!note || note->kind == NXPY_NOTE_BORN || note->elements || nxpy__was_written_key(trace, dict, key)) return 0;
    int slot = nxpy__slot_of(trace, dict);
    return slot < 0 ? -1 : nxpy__fetch_number(trace, NXPY_ROW_KEY, slot, key, NULL, 0, out);
}

int nxpy__use_as_key(nxpy_trace *trace, PyObject *object) {
    if (nxpy_constant_check(object)) return 0;
    if (PyTuple_CheckExact(object)) {
        int done = nxpy__note_elements(trace, object);
        for (Py_ssize_t k = 0; done == 0 && k < PyTuple_GET_SIZE(object); k++) done = nxpy__use_as_key(trace, PyTuple_GET_ITEM(object, k));
        return done;
    }
    int frozen = note_frozen(trace, object);
    const nxpy_note *note = nxpy__note_find(trace, object);
    if (frozen < 1 || !note || note->kind != NXPY_NOTE_SOURCE) return frozen < 0 ? -1 : 0;
    return nxpy__check(trace, NXPY_ROW_ID, note->slot, object, 0);
}

/* Fakes that the program has no more, when this many notes came after theirs: the trace would hold the memory of them all. */
enum { OLD = 32 };
static int let_go(nxpy_trace *trace) {
    for (; trace->n_looked + OLD < trace->notes.n; trace->n_looked++) {
        nxpy_note *note = &trace->notes.at[trace->n_looked];
        bool plain = note->kind == NXPY_NOTE_FAKE && note->slot < 0 && !note->fake && !note->leaf && !note->knows_grad;
        if (!plain || trace->region || trace->hooked.n || Py_REFCNT(note->object) > 1) continue;
        const nx_tensor *tensor = nxpy_tensor_get(note->object);
        bool lost = atomic_load(&tensor->refs) <= 2 && tensor->storage && atomic_load(&tensor->storage->refs) == 1;
        if (!lost) continue; /* two: its object's and the tracer's */
        if (nxpy__forget(trace, note->object) < 0) return -1;
        PyObject *gone = note->object;
        note->object = Py_NewRef(Py_None);
        note->kind = NXPY_NOTE_FIXED;
        Py_DECREF(gone);
    }
    return 0;
}

int nxpy__admit(nxpy_trace *trace, PyObject *object) {
    if (nxpy__note_find(trace, object)) return 0;
    if (nxpy_tensor_check(object)) {
        if (!nxpy__is_fake(trace, object)) return nxpy__stop(trace, NXPY_BREAK_LEAK, "a tensor with elements");
        if (let_go(trace) < 0 || !nxpy__note_add(trace, object, NXPY_NOTE_FAKE, -1)) return -1;
        nx_tensor *own = nx_tensor_whole(nxpy_tensor_get(object)); /* zeros(..., requires_grad=True) */
        bool leaf = NX_UNLIKELY(nx_tensor_requires_grad(own)) && nx_tensor_is_leaf(own) && !trace->region;
        return leaf ? nxpy__note_leaf(trace, object) : 0;
    }
    if (nxpy_constant_check(object)) return 0;
    const nxpy_kind *kind = nxpy__kind(object);
    bool very = kind->code == NXPY_KIND_CLASS || kind->code == NXPY_KIND_OPERATOR || Py_TYPE(object) == &PyMethodDescr_Type;
    if (very) return nxpy__fixed(trace, object);
    if (!kind->made && !nxpy__is_exception(object)) {
        return nxpy__stop(trace, NXPY_BREAK_UNKNOWN, "a result of type %.200s", Py_TYPE(object)->tp_name);
    }
    if (!nxpy__note_add(trace, object, NXPY_NOTE_BORN, -1)) return -1;
    if (kind->holds == NXPY_HOLDS_ITEMS) {
        for (Py_ssize_t k = 0; k < Py_SIZE(object); k++) {
            if (nxpy__admit(trace, PySequence_Fast_GET_ITEM(object, k)) < 0) return -1;
        }
    } else if (PyDict_Check(object)) { /* an ordered one too */
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);) {
            if (nxpy__admit(trace, key) < 0 || nxpy__admit(trace, value) < 0) return -1;
        }
    }
    return 0;
}

int nxpy__note_question(PyObject *question) {
    nxpy_trace *trace = nxpy__doing.trace;
    if (!trace || nxpy__doing.paused) return 0;
    PyObject *types = PyTuple_GET_ITEM(question, 1);
    int done = nxpy__fixed(trace, PyTuple_GET_ITEM(question, 0));
    if (done == 0 && PyTuple_GET_SIZE(types) == 0) { /* put by narthex.overrides, which is loaded once and for all */
        nxpy__doing.paused++;
        PyObject *module = PyImport_ImportModule("narthex.overrides");
        nxpy__doing.paused--;
        Py_XDECREF(module);
        if (!module) done = nxpy__stop_error(trace);
    }
    for (Py_ssize_t k = 0; done == 0 && k < PyTuple_GET_SIZE(types); k++) {
        done = nxpy__note_operator(trace, (PyTypeObject *)PyTuple_GET_ITEM(types, k), "__torch_function__");
    }
    for (Py_ssize_t k = 1; done == 0 && k < PyTuple_GET_SIZE(question); k++) done = nxpy__admit(trace, PyTuple_GET_ITEM(question, k));
    return done;
}

/* ---- functions that are inlined -------------------------------------------------------------------------------------------- */
static int function_row(nxpy_trace *trace, PyFunctionObject *function) {
    if (nxpy_guards_know_function(&trace->segment->guards, (PyObject *)function)) return 0;
    PyObject *defaults = function->func_defaults ? function->func_defaults : Py_None;
    PyObject *state = PyTuple_Pack(3, function->func_code, defaults, function->func_kwdefaults ? function->func_kwdefaults : Py_None);
    if (!state) return nxpy__stop_error(trace);
    int index = add_row(trace, (nxpy_row){.code = NXPY_ROW_FUNCTION, .from = -1, .a = (PyObject *)function, .b = state});
    Py_DECREF(state);
    return index < 0 ? -1 : 0;
}

int nxpy__note_function(nxpy_trace *trace, PyFunctionObject *function) {
    PyObject *closure = function->func_closure, *defaults = function->func_defaults, *kwdefaults = function->func_kwdefaults;
    const nxpy_note *note = nxpy__note_find(trace, (PyObject *)function);
    bool born = note && note->kind == NXPY_NOTE_BORN;
    if (note && note->by_parts) return 0;
    if (!born && function_row(trace, function) < 0) return -1;
    for (Py_ssize_t k = 0; !born && closure && k < PyTuple_GET_SIZE(closure); k++) {
        if (nxpy__fixed(trace, PyTuple_GET_ITEM(closure, k)) < 0) return -1;
    }
    for (Py_ssize_t k = 0; !born && defaults && k < PyTuple_GET_SIZE(defaults); k++) {
        if (nxpy__fixed(trace, PyTuple_GET_ITEM(defaults, k)) < 0) return -1;
    }
    PyObject *key, *value;
    for (Py_ssize_t at = 0; !born && kwdefaults && PyDict_Next(kwdefaults, &at, &key, &value);) {
        if (nxpy__fetch(trace, NXPY_ROW_DICT, -1, key, kwdefaults, 0, value) < 0) return -1;
    }
    return 0;
}
