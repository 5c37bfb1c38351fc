/* The same guards as text: which part failed, and what each one says.
 *
 * In: rows of guard.c. Out: an explanation of one failure ("L['x'] size mismatch at dim 0: expected 3, got 5"), the
 * list that logs print, and sources as the user would write them.
 * What must hold: a row of guards.def has all three functions, or this file and check.c do not compile; explaining
 * asks check.c whether the row holds and never decides by itself.
 * Next: py/notes/log.c. */
#include "guard/private.h"

/* ---- sources ------------------------------------------------------------------------------------------------------ */
static const nxpy_row *row_of_slot(const nxpy_guards *guards, int slot) {
    return slot >= 0 && slot < guards->n_slots ? &guards->rows.at[guards->row_of_slot.at[slot]] : NULL;
}

/* Objects whose text is C's; no code of the user's runs for another. */
static bool has_own_text(PyObject *object) {
    static PyTypeObject *const types[] = {&PyFunction_Type, &PyCFunction_Type, &PyMethodDescr_Type, &PyWrapperDescr_Type, &PyCode_Type};
    for (int k = 0; k < NX_COUNT(types); k++) {
        if (Py_TYPE(object) == types[k]) return true;
    }
    return nxpy_constant_check(object) || Py_TYPE(object) == &PyType_Type;
}

static void add_object(nx_text *text, PyObject *object, bool repr) {
    if (object && PyTuple_CheckExact(object) && !nxpy_constant_check(object)) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(object); k++) {
            nx_text_add(text, k ? ", " : "(");
            add_object(text, PyTuple_GET_ITEM(object, k), true);
        }
        nx_text_add(text, PyTuple_GET_SIZE(object) == 1 ? ",)" : ")");
        return;
    }
    bool own = object && has_own_text(object);
    PyObject *string = !object ? NULL : !own ? PyUnicode_FromFormat("<%s object at %p>", Py_TYPE(object)->tp_name, object)
                       : repr ? PyObject_Repr(object) : PyObject_Str(object);
    const char *utf8 = string ? PyUnicode_AsUTF8(string) : NULL;
    nx_text_add(text, "%s", utf8 ? utf8 : "?");
    Py_XDECREF(string);
    nxpy_forget_error();
}

void nxpy_guards_source(const nxpy_guards *guards, int slot, nx_text *text) {
    const nxpy_row *row = row_of_slot(guards, slot);
    if (!row) {
        nx_text_add(text, "?");
        return;
    }
    const nxpy_row *from = row->code == NXPY_ROW_KEY ? row_of_slot(guards, row->from) : NULL;
    bool attribute = from && (from->code == NXPY_ROW_LOCAL || from->code == NXPY_ROW_NAMESPACE) && PyUnicode_Check(row->a);
    if (attribute) { /* an attribute, which no __getattr__ gives */
        nxpy_guards_source(guards, from->from, text);
        nx_text_add(text, ".");
        add_object(text, row->a, false);
        return;
    }
    if (row->from >= 0) nxpy_guards_source(guards, row->from, text);
    switch (row->code) {
    case NXPY_ROW_ROOT:
        nx_text_add(text, "L[");
        add_object(text, row->a, true);
        nx_text_add(text, "]");
        break;
    case NXPY_ROW_FIXED: add_object(text, row->b, false); break;
    case NXPY_ROW_DICT:
        nx_text_add(text, "G[");
        add_object(text, row->a, true);
        nx_text_add(text, "]");
        break;
    case NXPY_ROW_VALUE:
    case NXPY_ROW_FIELD:
        nx_text_add(text, ".");
        add_object(text, row->a, false);
        break;
    case NXPY_ROW_TYPE_VALUE:
        nx_text_add(text, "%s.", ((PyTypeObject *)row->b)->tp_name);
        add_object(text, row->a, false);
        break;
    case NXPY_ROW_NAMESPACE:
    case NXPY_ROW_LOCAL: nx_text_add(text, ".__dict__"); break;
    case NXPY_ROW_ITEM: nx_text_add(text, "[%lld]", (long long)row->n); break;
    case NXPY_ROW_KEY:
        nx_text_add(text, "[");
        add_object(text, row->a, true);
        nx_text_add(text, "]");
        break;
    case NXPY_ROW_CELL: break; /* its cell goes by the variable's name */
    case NXPY_ROW_NUMBER:
    case NXPY_ROW_ARRAY: break; /* what they stand for has the name */
    case NXPY_ROW_GRAD: nx_text_add(text, ".grad"); break;
    default: nx_text_add(text, "?");
    }
}

/* ---- explaining: the row has just failed --------------------------------------------------------------------------- */
#define EXPLAIN_ARGS const nxpy_guards *guards, const nxpy_row *row, PyObject **values, nx_text *text
#define SUBJECT() nxpy_guards_source(guards, row->from, text)
static void explain_unreadable(EXPLAIN_ARGS) {
    nxpy_guards_source(guards, row->slot, text);
    nx_text_add(text, " is not there");
}
#define explain_ROOT explain_unreadable
#define explain_FIXED explain_unreadable
#define explain_DICT explain_unreadable
#define explain_VALUE explain_unreadable
#define explain_TYPE_VALUE explain_unreadable
#define explain_NAMESPACE explain_unreadable
#define explain_LOCAL explain_unreadable
#define explain_ITEM explain_unreadable
#define explain_KEY explain_unreadable
#define explain_FIELD explain_unreadable
#define explain_CELL explain_unreadable
#define explain_GRAD explain_unreadable
#define explain_NUMBER explain_unreadable
#define explain_ARRAY explain_unreadable
static void explain_ABSENT(EXPLAIN_ARGS) {
    SUBJECT();
    nx_text_add(text, " is there now");
}
static void explain_change(EXPLAIN_ARGS, const char *what) {
    PyObject *value = values[row->from];
    SUBJECT();
    nx_text_add(text, "%s: expected ", what);
    add_object(text, row->a, true);
    nx_text_add(text, ", got ");
    if (value) add_object(text, value, true);
    else nx_text_add(text, "nothing");
}
static void explain_SAME(EXPLAIN_ARGS) {
    SUBJECT();
    nx_text_add(text, " is no longer the same object as ");
    nxpy_guards_source(guards, (int)row->n, text);
}
static void explain_ID(EXPLAIN_ARGS) { explain_change(guards, row, values, text, " is another object"); }
static void explain_EQUALS(EXPLAIN_ARGS) { explain_change(guards, row, values, text, " changed"); }
static void explain_TYPE(EXPLAIN_ARGS) {
    PyObject *value = values[row->from];
    SUBJECT();
    const char *expected = ((PyTypeObject *)row->a)->tp_name;
    nx_text_add(text, " type mismatch: expected %s, got %s", expected, value ? Py_TYPE(value)->tp_name : "nothing");
}
static void explain_LENGTH(EXPLAIN_ARGS) {
    SUBJECT();
    nx_text_add(text, " length mismatch: expected %lld, got %lld", (long long)row->n,
                values[row->from] ? (long long)PyObject_Size(values[row->from]) : -1LL);
}
static void explain_KEYS(EXPLAIN_ARGS) {
    SUBJECT();
    nx_text_add(text, " has other keys than ");
    add_object(text, row->a, true);
}
static void explain_MEMBERS(EXPLAIN_ARGS) {
    SUBJECT();
    nx_text_add(text, " has other members than ");
    add_object(text, row->a, true);
}
static void explain_dims(const nxpy_tensor_like *like, const nx_array *a, nx_text *text) {
    int ndim = like->ndim;
    for (int k = 0; k < 2 * ndim; k++) {
        int64_t now = k < ndim ? a->sizes[k] : a->strides[k - ndim];
        if (now == like->dims[k] || nxpy__tensor_fits(like, a, k % ndim)) continue;
        nx_text_add(text, " %s mismatch at dim %d: expected %lld, got %lld", k < ndim ? "size" : "stride", k % ndim,
                    (long long)like->dims[k], (long long)now);
        return;
    }
}
static void explain_TENSOR(EXPLAIN_ARGS) {
    PyObject *object = values[row->from];
    const nxpy_tensor_like *like = row->like;
    SUBJECT();
    if (!object || Py_TYPE(object) != like->type) {
        nx_text_add(text, " type mismatch: expected %s, got %s", like->type->tp_name, object ? Py_TYPE(object)->tp_name : "nothing");
        return;
    }
    const nx_tensor *tensor = nxpy_tensor_get(object);
    uint64_t keys = tensor->keys ^ like->keys;
    if (tensor->a.dtype != like->dtype) {
        nx_text_add(text, " dtype mismatch: expected %s, got %s", nx_dtype_name(like->dtype), nx_dtype_name(tensor->a.dtype));
    } else if (!nx_device_same(tensor->a.device, like->device)) {
        nx_text_add(text, " device mismatch: expected type %d index %d, got type %d index %d", like->device.type, like->device.index,
                    tensor->a.device.type, tensor->a.device.index);
    } else if (keys & NX_KEY(AUTOGRAD)) {
        nx_text_add(text, " requires_grad mismatch: expected requires_grad=%s", like->keys & NX_KEY(AUTOGRAD) ? "True" : "False");
    } else if (keys) {
        nx_text_add(text, " dispatch key set mismatch: expected %#llx, got %#llx", (unsigned long long)like->keys,
                    (unsigned long long)tensor->keys);
    } else if (tensor->a.ndim != like->ndim) {
        nx_text_add(text, " rank mismatch: expected %d, got %d", like->ndim, tensor->a.ndim);
    } else if (tensor->is_parameter != like->is_parameter) {
        nx_text_add(text, " is %s a Parameter", tensor->is_parameter ? "now" : "no longer");
    } else if (nxpy__new_mark(like, object) >= 0) {
        nx_text_add(text, " has other sizes marked in %s", nxpy_mark_names[nxpy__new_mark(like, object)]);
    } else {
        explain_dims(like, &tensor->a, text);
    }
}
static void explain_ELEMENT(EXPLAIN_ARGS) {
    SUBJECT();
    nx_text_add(text, " has another element: expected ");
    add_object(text, row->a, true);
}
static void explain_GRADLESS(EXPLAIN_ARGS) {
    SUBJECT();
    nx_text_add(text, " has a gradient");
}
static void explain_OFFSET(EXPLAIN_ARGS) {
    SUBJECT();
    nx_text_add(text, " storage offset mismatch: expected %lld", (long long)row->n);
}
static void explain_VERSION(EXPLAIN_ARGS) {
    SUBJECT();
    nx_text_add(text, " was written in place since: its version is not %lld", (long long)row->n);
}
static void explain_FUNCTION(EXPLAIN_ARGS) {
    add_object(text, ((PyFunctionObject *)row->a)->func_qualname, false);
    nx_text_add(text, " has another __code__, __defaults__ or __kwdefaults__");
}
static void add_part(const nxpy_guards *guards, const nxpy_apart_part *part, nx_text *text) {
    nxpy_guards_source(guards, part->slot, text);
    if (part->dict) nx_text_add(text, ".__dict__");
}
static const void *address_of(const nxpy_apart_part *part, PyObject *const *values) {
    PyObject *object = values[part->slot];
    return part->dict && object ? nxpy_instance_dict(object) : object;
}
static bool are_one(const nxpy_apart_part *x, const nxpy_apart_part *y, PyObject *const *values, bool memory) {
    if (!memory) return address_of(x, values) && address_of(x, values) == address_of(y, values);
    return nxpy_memories_meet(nxpy_tensor_get(values[x->slot])->storage, nxpy_tensor_get(values[y->slot])->storage);
}
static void explain_pair(EXPLAIN_ARGS, bool memory) {
    const nxpy_apart_part *parts = row->apart->at;
    for (int k = 1; k < row->apart->n; k++) {
        for (int j = 0; j < k && j < row->apart->n_first; j++) {
            if (!are_one(&parts[j], &parts[k], values, memory)) continue;
            bool tensors = !parts[j].dict && nxpy_tensor_check(values[parts[j].slot]);
            add_part(guards, &parts[j], text);
            nx_text_add(text, " and ");
            add_part(guards, &parts[k], text);
            nx_text_add(text, memory ? " share memory" : tensors ? " are the same tensor" : " are the same object");
            return;
        }
    }
}
static void explain_DISTINCT(EXPLAIN_ARGS) { explain_pair(guards, row, values, text, false); }
static void explain_STORAGES(EXPLAIN_ARGS) { explain_pair(guards, row, values, text, true); }
static void explain_GRAD_MODE(EXPLAIN_ARGS) { nx_text_add(text, "grad mode changed: expected %s", row->n & 0xff ? "on" : "off"); }
static void explain_AUTOCAST(EXPLAIN_ARGS) {
    nx_text_add(text, "autocast changed: it was %s, or on with other dtypes", row->n & 0xff ? "on" : "off");
}
static void explain_DEFAULT_DTYPE(EXPLAIN_ARGS) {
    nx_text_add(text, "the default dtype changed: expected %s", nx_dtype_name((nx_dtype)row->n));
}
static void explain_DEVICE(EXPLAIN_ARGS) { nx_text_add(text, "the current device changed"); }
static void explain_OPERATOR(EXPLAIN_ARGS) {
    nx_text_add(text, "%s.", ((PyTypeObject *)PyTuple_GET_ITEM(row->b, 0))->tp_name);
    add_object(text, row->a, false);
    nx_text_add(text, " is another object");
}
static void explain_ABC(EXPLAIN_ARGS) { nx_text_add(text, "a class was registered with an abstract base class"); }
static void explain_BACKEND(EXPLAIN_ARGS) { nx_text_add(text, "the backend changed"); }

PyObject *nxpy_guards_explain(nxpy_guards *guards, int index, PyObject *const *roots) {
    PyObject **values = nx_alloc_zeroed(sizeof *values * (size_t)(guards->n_slots + 1));
    if (!values) return nxpy_raise(nx_fail_memory(sizeof *values));
    for (int k = 0; k <= index; k++) nxpy__guard_row_holds(&guards->rows.at[k], roots, values); /* fills the slots again */
    nx_text text = {0};
    const nxpy_row *row = &guards->rows.at[index];
    switch (row->code) {
#define NXPY_GUARD_ROW(code, kind, meaning) case NXPY_ROW_##code: explain_##code(guards, row, values, &text); break;
#include "guard/guards.def"
#undef NXPY_GUARD_ROW
    }
    PyObject *result = PyUnicode_FromString(text.at ? text.at : "?");
    nx_text_free(&text);
    nx_free(values);
    return result;
}

/* ---- printing -------------------------------------------------------------------------------------------------------- */
#define PRINT_ARGS const nxpy_guards *guards, const nxpy_row *row, nx_text *text
static void print_call(PRINT_ARGS, const char *function, long long n) {
    nx_text_add(text, "%s(", function);
    SUBJECT();
    nx_text_add(text, ", %lld)", n);
}
static void print_nothing(PRINT_ARGS) {}
#define print_ROOT print_nothing
#define print_FIXED print_nothing
#define print_DICT print_nothing
#define print_VALUE print_nothing
#define print_TYPE_VALUE print_nothing
#define print_NAMESPACE print_nothing
#define print_LOCAL print_nothing
#define print_GRAD print_nothing
#define print_NUMBER print_nothing
#define print_ARRAY print_nothing
#define print_ITEM print_nothing
#define print_KEY print_nothing
#define print_FIELD print_nothing
#define print_CELL print_nothing
static void print_ABSENT(PRINT_ARGS) {
    nx_text_add(text, "___is_absent(");
    SUBJECT();
    nx_text_add(text, ")");
}
static void print_SAME(PRINT_ARGS) {
    SUBJECT();
    nx_text_add(text, " is ");
    nxpy_guards_source(guards, (int)row->n, text);
}
static void print_ID(PRINT_ARGS) { print_call(guards, row, text, "___check_obj_id", (long long)(intptr_t)row->a); }
static void print_TYPE(PRINT_ARGS) { print_call(guards, row, text, "___check_type_id", (long long)(intptr_t)row->a); }
static void print_EQUALS(PRINT_ARGS) {
    SUBJECT();
    nx_text_add(text, " == ");
    add_object(text, row->a, true);
}
static void print_LENGTH(PRINT_ARGS) {
    nx_text_add(text, "len(");
    SUBJECT();
    nx_text_add(text, ") == %lld", (long long)row->n);
}
static void print_KEYS(PRINT_ARGS) {
    nx_text_add(text, "tuple(");
    SUBJECT();
    nx_text_add(text, ") == ");
    add_object(text, row->a, true);
}
#define print_MEMBERS print_KEYS
/* A device's key, which stands for those that PyTorch gives a tensor on it; the first accelerator is PrivateUse1. */
static void print_device_keys(int type, const char *comma, nx_text *text) {
    char name[24] = "CPU";
    if (type > 0) snprintf(name, sizeof name, "PrivateUse%d", type);
    nx_text_add(text, "%s%s, BackendSelect, ADInplaceOrView, Autograd%s", comma, name, name);
}
static void print_keys(uint64_t keys, nx_text *text) {
    static const char *const above[] = {
#define NX_KEY_ROW(code, meaning) [NX_KEY_AT_##code] = #code,
#include "core/keys.def"
#undef NX_KEY_ROW
    };
    const char *comma = "";
    nx_text_add(text, "DispatchKeySet(");
    for (int k = 0; k < NX_N_KEYS; k++) {
        if (!(keys >> k & 1)) continue;
        if (k < NX_MAX_DEVICE_TYPES) print_device_keys(k, comma, text);
        else nx_text_add(text, "%s%s", comma, above[k]);
        comma = ", ";
    }
    nx_text_add(text, ")");
}
static void print_dims(const nxpy_tensor_like *like, int first, uint64_t unknown, nx_text *text) {
    nx_text_add(text, "[");
    for (int k = 0; k < like->ndim; k++) {
        if (unknown >> k & 1) nx_text_add(text, k ? ", None" : "None");
        else nx_text_add(text, k ? ", %lld" : "%lld", (long long)like->dims[first + k]);
    }
    nx_text_add(text, "]");
}
static void print_TENSOR(PRINT_ARGS) {
    const nxpy_tensor_like *like = row->like;
    const char *type = strrchr(like->type->tp_name, '.');
    nx_text_add(text, "check_tensor(");
    SUBJECT();
    nx_text_add(text, ", %s, ", type ? type + 1 : like->type->tp_name);
    print_keys(like->keys, text);
    nx_text_add(text, ", torch.%s, device=", nx_dtype_name(like->dtype));
    if (like->device.type == 0) nx_text_add(text, "None");
    else nx_text_add(text, "%d", like->device.index);
    nx_text_add(text, ", requires_grad=%s, size=", like->keys & NX_KEY(AUTOGRAD) ? "True" : "False");
    print_dims(like, 0, like->varying, text);
    nx_text_add(text, ", stride=");
    print_dims(like, like->ndim, like->varying ? UINT64_MAX : 0, text);
    nx_text_add(text, ")");
}
static void print_ELEMENT(PRINT_ARGS) {
    SUBJECT();
    nx_text_add(text, ".item() == ");
    add_object(text, row->a, true);
}
static void print_GRADLESS(PRINT_ARGS) {
    SUBJECT();
    nx_text_add(text, ".grad is None");
}
static void print_OFFSET(PRINT_ARGS) {
    SUBJECT();
    nx_text_add(text, ".storage_offset() == %lld", (long long)row->n);
}
static void print_VERSION(PRINT_ARGS) {
    SUBJECT();
    nx_text_add(text, "._version == %lld", (long long)row->n);
}
static void print_FUNCTION(PRINT_ARGS) {
    nx_text_add(text, "___check_function(");
    add_object(text, ((PyFunctionObject *)row->a)->func_qualname, false);
    nx_text_add(text, ", %lld)", (long long)(intptr_t)PyTuple_GET_ITEM(row->b, 0));
}
static void print_slots(PRINT_ARGS, const char *function) {
    nx_text_add(text, "%s(", function);
    for (int k = 0; k < row->apart->n; k++) {
        nx_text_add(text, k ? ", " : "");
        add_part(guards, &row->apart->at[k], text);
    }
    nx_text_add(text, ")");
}
static void print_DISTINCT(PRINT_ARGS) { print_slots(guards, row, text, "___check_no_aliasing"); }
static void print_STORAGES(PRINT_ARGS) { print_slots(guards, row, text, "___check_no_overlap"); }
static void print_GRAD_MODE(PRINT_ARGS) { nx_text_add(text, "torch.is_grad_enabled() == %s", row->n ? "True" : "False"); }
static void print_AUTOCAST(PRINT_ARGS) { nx_text_add(text, "autocast state == %#llx", (long long)row->n); }
static void print_DEFAULT_DTYPE(PRINT_ARGS) {
    nx_text_add(text, "torch.get_default_dtype() == torch.%s", nx_dtype_name((nx_dtype)row->n));
}
static void print_DEVICE(PRINT_ARGS) {
    if (row->n == 0) nx_text_add(text, "utils_device.CURRENT_DEVICE == None");
    else nx_text_add(text, "utils_device.CURRENT_DEVICE == %#llx", (unsigned long long)row->n);
}
static void print_OPERATOR(PRINT_ARGS) {
    nx_text_add(text, "___check_operator(%s.", ((PyTypeObject *)PyTuple_GET_ITEM(row->b, 0))->tp_name);
    add_object(text, row->a, false);
    nx_text_add(text, ")");
}
static void print_ABC(PRINT_ARGS) { nx_text_add(text, "_abc.get_cache_token() == %lld", (long long)row->n); }
static void print_BACKEND(PRINT_ARGS) { nx_text_add(text, "___check_current_backend(%lld)", (long long)(intptr_t)row->a); }

static void print_text(const nxpy_guards *guards, const nxpy_row *row, nx_text *text) {
    switch (row->code) {
#define NXPY_GUARD_ROW(code, kind, meaning) case NXPY_ROW_##code: print_##code(guards, row, text); break;
#include "guard/guards.def"
#undef NXPY_GUARD_ROW
    }
}

/* Which sizes of a tensor may be marked so. */
static void print_mark(const nxpy_guards *guards, const nxpy_row *row, nxpy_mark_kind mark, nx_text *text) {
    uint64_t dims = row->like->marked[mark];
    const char *comma = "";
    if (dims) {
        SUBJECT();
        nx_text_add(text, ".%s.issubset({", nxpy_mark_names[mark]);
        for (int d = 0; d < row->like->ndim; d++) {
            if (!(dims >> d & 1)) continue;
            nx_text_add(text, "%s%d", comma, d);
            comma = ", ";
        }
        nx_text_add(text, "}) if ");
    }
    nx_text_add(text, "hasattr(");
    SUBJECT();
    nx_text_add(text, ", '%s') %s", nxpy_mark_names[mark], dims ? "else True" : "== False");
}

/* The line of a row, or of one of the marks that a tensor's row looks at (mark >= 0). */
static PyObject *print_row(const nxpy_guards *guards, const nxpy_row *row, int mark, nxpy_line_fn *line_of, void *context) {
    nx_text text = {0};
    if (mark < 0) print_text(guards, row, &text);
    else print_mark(guards, row, mark, &text);
    const nxpy_place *place = &guards->places.at[row - guards->rows.at];
    PyObject *code = place->file ? line_of(context, place->file, place->line) : PyUnicode_FromString(""), *result = NULL;
    if (!code) goto done;
    if (place->file) {
        result = Py_BuildValue("(sNN)", text.at ? text.at : "", code,
                               PyUnicode_FromFormat("%U:%d in %U", place->file, place->line, place->function));
    } else {
        result = Py_BuildValue("(sNs)", text.at ? text.at : "", code, "");
    }
done:
    nx_text_free(&text);
    return result;
}

PyObject *nxpy_guards_print(const nxpy_guards *guards, nxpy_line_fn *line_of, void *context) {
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < guards->rows.n; k++) {
        if (guards->rows.at[k].slot >= 0) continue;
        const nxpy_row *row = &guards->rows.at[k];
        int n_marks = row->code == NXPY_ROW_TENSOR && !row->like->is_parameter ? NXPY_N_MARKS : 0;
        for (int mark = -1; list && mark < n_marks; mark++) {
            PyObject *line = print_row(guards, row, mark, line_of, context);
            if (!line || PyList_Append(list, line)) Py_CLEAR(list);
            Py_XDECREF(line);
        }
    }
    return list;
}

/* What is read through a row of these is guarded by rows of its own. */
static bool may_leave(const nxpy_row *row) {
    switch (row->code) {
    case NXPY_ROW_ABSENT: case NXPY_ROW_EQUALS: case NXPY_ROW_FUNCTION: case NXPY_ROW_OPERATOR: case NXPY_ROW_ABC: case NXPY_ROW_GRAD_MODE:
    case NXPY_ROW_AUTOCAST: case NXPY_ROW_DEFAULT_DTYPE: case NXPY_ROW_GRADLESS: return true;
    default: return false;
    }
}

PyObject *nxpy_guards_list(const nxpy_guards *guards) {
    static const char *const names[] = {
#define NXPY_GUARD_ROW(code, kind, meaning) #code,
#include "guard/guards.def"
#undef NXPY_GUARD_ROW
    };
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < guards->rows.n; k++) {
        const nxpy_row *row = &guards->rows.at[k];
        if (row->slot >= 0) continue;
        nx_text source = {0}, text = {0};
        if (row->from >= 0) nxpy_guards_source(guards, row->from, &source);
        print_text(guards, row, &text);
        PyObject *item = Py_BuildValue("(sssO)", names[row->code], source.at ? source.at : "", text.at ? text.at : "",
                                       may_leave(row) ? Py_True : Py_False);
        nx_text_free(&source);
        nx_text_free(&text);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

int nxpy_guards_filter(nxpy_guards *guards, PyObject *keep) {
    PyObject *items = PySequence_Fast(keep, "guard_filter_fn: expected a list of bools");
    Py_ssize_t n_asked = 0;
    for (int k = 0; items && k < guards->rows.n; k++) n_asked += guards->rows.at[k].slot < 0;
    if (items && PySequence_Fast_GET_SIZE(items) != n_asked) {
        PyErr_Format(PyExc_ValueError, "guard_filter_fn: got %zd bools for %zd guards", PySequence_Fast_GET_SIZE(items), n_asked);
        Py_CLEAR(items);
    }
    if (!items) return -1;
    Py_ssize_t at = 0;
    for (int k = 0; k < guards->rows.n; k++) {
        if (guards->rows.at[k].slot >= 0) continue;
        int truth = PyObject_IsTrue(PySequence_Fast_GET_ITEM(items, at++));
        if (truth < 0) return Py_DECREF(items), -1;
        if (truth || !may_leave(&guards->rows.at[k])) continue;
        nxpy__guards_remove(guards, k--);
    }
    Py_DECREF(items);
    return 0;
}

uint64_t nxpy_guards_varying(const nxpy_guards *guards, const char *source, const nx_array *tensor) {
    uint64_t varying = 0;
    for (int k = 0; k < guards->rows.n; k++) {
        const nxpy_row *row = &guards->rows.at[k];
        if (row->code != NXPY_ROW_TENSOR || row->like->ndim != tensor->ndim) continue;
        nx_text mine = {0};
        nxpy_guards_source(guards, row->from, &mine);
        bool same = !mine.failed && strcmp(mine.at, source) == 0;
        nx_text_free(&mine);
        for (int d = 0; same && d < tensor->ndim; d++) {
            if (tensor->sizes[d] != row->like->dims[d]) varying |= UINT64_C(1) << d;
        }
        if (same) varying |= row->like->varying;
    }
    return varying;
}

/* What a row says of the number in its parent's slot: it may be any, or is another one than `value`. */
static bool says_varies(const nxpy_row *row, PyObject *value) {
    if (row->code == NXPY_ROW_TYPE) return row->a == (PyObject *)Py_TYPE(value);
    return row->code == NXPY_ROW_EQUALS && Py_TYPE(row->a) == Py_TYPE(value) && !nxpy_constant_equal(row->a, value);
}

bool nxpy_guards_root_varies(const nxpy_guards *guards, int64_t n, PyObject *value) {
    int slot = -1;
    for (int k = 0; k < guards->rows.n; k++) {
        const nxpy_row *row = &guards->rows.at[k];
        if (row->code == NXPY_ROW_ROOT && row->n == n) slot = row->slot;
        if (slot >= 0 && row->from == slot && says_varies(row, value)) return true;
    }
    return false;
}

bool nxpy_guards_number_varies(const nxpy_guards *guards, const char *source, PyObject *value) {
    bool varies = false;
    for (int k = 0; k < guards->rows.n && !varies; k++) {
        const nxpy_row *row = &guards->rows.at[k];
        if (!says_varies(row, value)) continue;
        nx_text mine = {0};
        nxpy_guards_source(guards, row->from, &mine);
        varies = !mine.failed && strcmp(mine.at, source) == 0;
        nx_text_free(&mine);
    }
    return varies;
}

bool nxpy_guards_element_varies(const nxpy_guards *guards, const char *source, int64_t n) {
    bool varies = false;
    for (int k = 0; k < guards->rows.n && !varies; k++) {
        const nxpy_row *row = &guards->rows.at[k];
        if (row->code != NXPY_ROW_ELEMENT || row->n == n) continue;
        nx_text mine = {0};
        nxpy_guards_source(guards, row->from, &mine);
        varies = !mine.failed && strcmp(mine.at, source) == 0;
        nx_text_free(&mine);
    }
    return varies;
}

bool nxpy_guards_want_other(const nxpy_guards *guards, const char *source, PyObject *object) {
    bool other = false;
    for (int k = 0; k < guards->rows.n && !other; k++) {
        const nxpy_row *row = &guards->rows.at[k];
        if (row->code != NXPY_ROW_ID || row->a == object || Py_TYPE(row->a) != Py_TYPE(object)) continue;
        nx_text mine = {0};
        nxpy_guards_source(guards, row->from, &mine);
        other = !mine.failed && strcmp(mine.at, source) == 0;
        nx_text_free(&mine);
    }
    return other;
}
