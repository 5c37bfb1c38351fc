/* Attributes read and written as the language does it, with a guard for each thing that decided it.
 *
 * In: an object in use and a name. Out: the attribute, or a function to be called with the object first; stores into what
 * was born in the trace, or effects on what existed before.
 * What must hold: only lookups whose every step is known are followed (modules, types, functions, super, instances with
 * the ordinary __getattribute__, descriptors and __getattr__ written in Python, metadata of tensors); the rest ends the
 * graph. What decides is guarded: the type's own attribute, what the instance holds, and that something is not there.
 * Tensors, classes and functions are never written.
 * Next: effects.c, specials.c. */
#include "loop/private.h"

#include <structmember.h>

static int stop_attribute(nxpy_trace *trace, PyObject *object, PyObject *name) {
    return nxpy__stop(trace, NXPY_BREAK_ATTRIBUTE, "%.200s.%U", Py_TYPE(object)->tp_name, name);
}

static int give(PyObject *value, PyObject **out) {
    Py_INCREF(value);
    *out = value;
    return 0;
}

/* What C code gave: admitted. */
static int give_new(nxpy_trace *trace, PyObject *value, PyObject **out) {
    *out = value;
    if (!value) return nxpy__stop_error(trace);
    if (nxpy__admit(trace, value) == 0) return 0;
    Py_CLEAR(*out);
    return -1;
}

static int give_fixed(nxpy_trace *trace, PyObject *value, PyObject **out) {
    return nxpy__fixed(trace, value) == 0 ? give(value, out) : -1;
}

/* The program asks for what is not there; it may catch that. */
static int no_attribute(nxpy_trace *trace, PyObject *object, PyObject *name) {
    if (PyModule_Check(object)) {
        const char *of = PyModule_GetName(object); /* NULL with an exception: the program took __name__ away */
        if (of) PyErr_Format(PyExc_AttributeError, "module '%s' has no attribute '%U'", of, name);
        else PyErr_Format(PyExc_AttributeError, "module has no attribute '%U'", name);
    } else if (PyType_Check(object)) {
        PyErr_Format(PyExc_AttributeError, "type object '%.50s' has no attribute '%U'", ((PyTypeObject *)object)->tp_name, name);
    } else {
        PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", Py_TYPE(object)->tp_name, name);
    }
    return nxpy__stop_error(trace);
}

static bool is_tuple_getter(PyObject *o) { return Py_TYPE(o) == nxpy__tuple_getter_type; }

/* Whether the trace has made the class, or has written what it or a base of it holds under the name. */
static bool is_of_trace(nxpy_trace *trace, PyTypeObject *type, PyObject *name) {
    bool own = nxpy__is_born(trace, (PyObject *)type);
    for (Py_ssize_t k = 0; trace->effects.n && !own && k < PyTuple_GET_SIZE(type->tp_mro); k++) {
        PyObject *dict = nxpy_type_dict((PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, k));
        own = dict && nxpy__was_written(trace, dict, name);
    }
    return own;
}

/* The order of the classes of one that existed before stays what it is. */
static int note_order(nxpy_trace *trace, PyTypeObject *type) {
    PyObject *name = nxpy__name("__mro__");
    int slot = name && nxpy__fixed(trace, (PyObject *)type) == 0 ? nxpy__slot_of(trace, (PyObject *)type) : -1, row;
    if (slot < 0) return name ? -1 : nxpy__stop_error(trace);
    int64_t offset = offsetof(PyTypeObject, tp_mro);
    if (nxpy__fetch(trace, NXPY_ROW_FIELD, slot, name, NULL, offset, type->tp_mro) < 0) return -1;
    row = nxpy_guards_find(&trace->segment->guards, NXPY_ROW_FIELD, slot, name, NULL, offset);
    return nxpy__check(trace, NXPY_ROW_ID, trace->segment->guards.rows.at[row].slot, type->tp_mro, 0);
}

/* Class by class: what the trace put there needs no guard, what was there before it does. */
static int value_by_classes(nxpy_trace *trace, PyTypeObject *type, PyObject *name, PyObject **out) {
    PyObject *order = type->tp_mro;
    int done = nxpy__is_born(trace, (PyObject *)type) ? 0 : note_order(trace, type);
    *out = NULL;
    for (Py_ssize_t k = 0; done == 0 && !*out && k < PyTuple_GET_SIZE(order); k++) {
        PyTypeObject *at = (PyTypeObject *)PyTuple_GET_ITEM(order, k);
        PyObject *dict = nxpy_type_dict(at);
        bool guarded = nxpy__may_change(at) && !nxpy__is_born(trace, (PyObject *)at);
        if (!guarded) *out = PyDict_GetItemWithError(dict, name);
        else done = nxpy__fixed(trace, dict) < 0 ? -1 : nxpy__dict_value(trace, dict, name, out);
        bool own = nxpy__is_born(trace, (PyObject *)at); /* type.__new__ has wrapped some functions */
        if (!guarded && *out) done = own ? nxpy__born(trace, *out) : nxpy__fixed(trace, *out);
    }
    return done;
}

/* Guards what the class or its bases hold under the name, *out. It may become an open number. */
static int note_type_value(nxpy_trace *trace, PyTypeObject *type, PyObject *name, PyObject **out) {
    if (is_of_trace(trace, type, name)) return value_by_classes(trace, type, name, out);
    return nxpy__fetch_number(trace, NXPY_ROW_TYPE_VALUE, -1, name, (PyObject *)type, 0, out);
}

int nxpy__note_type_value(nxpy_trace *trace, PyTypeObject *type, PyObject *name) {
    PyObject *found = nxpy_type_lookup(type, name);
    return note_type_value(trace, type, name, &found);
}

/* What type holds under name, guarded. Lent in *out, NULL when nothing. */
static int type_value(nxpy_trace *trace, PyTypeObject *type, PyObject *name, PyObject **out) {
    *out = nxpy_type_lookup(type, name);
    /* static types cannot change */
    if (!nxpy__may_change(type) && type != &nxpy_tensor_type) {
        return *out ? nxpy__fixed(trace, *out) : 0;
    }
    if (note_type_value(trace, type, name, out) < 0) return -1;
    PyTypeObject *kind = *out ? Py_TYPE(*out) : NULL;
    bool settled = !kind || kind == &PyMemberDescr_Type || kind == &PyGetSetDescr_Type || is_tuple_getter(*out);
    if (settled && *out) { /* the very descriptor; what it gives is guarded by whoever reads it */
        const nxpy_note *note = nxpy__note_find(trace, *out);
        return note && note->slot >= 0 ? nxpy__check(trace, NXPY_ROW_ID, note->slot, *out, 0) : 0;
    }
    return *out && !nxpy__use(trace, *out) ? -1 : 0;
}

int nxpy__type_value(nxpy_trace *trace, PyTypeObject *type, const char *text, PyObject **out) {
    PyObject *name = nxpy__name(text);
    return name ? type_value(trace, type, name, out) : nxpy__stop_error(trace);
}

/* Python code of the class runs: it is inlined by the ordinary call. */
static int call_getter(nxpy_trace *trace, PyObject *getter, PyObject *const *args, int n, PyObject **out) {
    PyObject *value = PyObject_Vectorcall(getter, args, (size_t)n, NULL);
    if (!value || trace->stop) {
        Py_XDECREF(value);
        return nxpy__stop_error(trace);
    }
    if (nxpy__admit(trace, value) < 0) {
        Py_DECREF(value);
        trace->clean = false;
        return -1;
    }
    *out = value;
    return 0;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------------- */
static int of_property(nxpy_trace *trace, PyObject *found, PyObject *object, PyObject *name, PyObject **out) {
    PyObject *getter = PyObject_GetAttrString(found, "fget");
    bool python = getter && PyFunction_Check(getter);
    int result = python ? call_getter(trace, getter, &object, 1, out) : stop_attribute(trace, object, name);
    Py_XDECREF(getter);
    return result;
}

/* A descriptor whose class is written in Python. 1: it is none. */
static int of_user_descriptor(nxpy_trace *trace, PyObject *found, PyObject *object, PyTypeObject *owner, PyObject **out) {
    PyObject *getter;
    if (!nxpy__may_change(Py_TYPE(found))) return 1;
    if (nxpy__type_value(trace, Py_TYPE(found), "__get__", &getter) < 0) return -1;
    if (!getter || !PyFunction_Check(getter)) return 1;
    bool known = nxpy__fixed(trace, (PyObject *)owner) == 0;
    PyObject *args[] = {found, object ? object : Py_None, (PyObject *)owner};
    return known ? call_getter(trace, getter, args, 3, out) : -1;
}

/* functools.cached_property of an instance that does not hold the value yet: computed, and held from now on. */
static int of_cached_property(nxpy_trace *trace, PyObject *found, PyObject *object, PyObject *name, PyObject **out) {
    PyObject *getter = PyObject_GetAttrString(found, "func");
    int done = getter && PyFunction_Check(getter) ? call_getter(trace, getter, &object, 1, out) : stop_attribute(trace, object, name);
    Py_XDECREF(getter); /* found has it */
    if (done == 0 && nxpy__store_plain(trace, object, name, *out) < 0) {
        Py_CLEAR(*out);
        trace->clean = false;
        done = -1;
    }
    return done;
}

/* Something found in a class, seen from an instance (or, with object NULL, from the class). *bound false: it is no
 * descriptor. */
static int bind(nxpy_trace *trace, PyObject *found, PyObject *object, PyTypeObject *owner, bool method_too, PyObject **out, bool *bound) {
    PyTypeObject *type = Py_TYPE(found);
    *bound = true;
    if (type == &PyStaticMethod_Type || type == &PyClassMethod_Type) {
        PyObject *inner = PyObject_GetAttrString(found, "__func__");
        if (!inner) return nxpy__stop_error(trace);
        bool ok = nxpy__fixed(trace, inner) == 0;
        PyObject *made = !ok ? NULL : type == &PyStaticMethod_Type ? Py_NewRef(inner) : PyMethod_New(inner, (PyObject *)owner);
        Py_DECREF(inner);
        return give_new(trace, made, out);
    }
    if (type == &PyClassMethodDescr_Type) { /* dict.fromkeys */
        PyObject *made = Py_TYPE(found)->tp_descr_get(found, object, (PyObject *)owner);
        if (!made) return nxpy__stop_error(trace);
        *out = made;
        return nxpy__fixed(trace, made);
    }
    bool method = type == &PyFunction_Type || type == &nxpy_method_type || type == &PyMethodDescr_Type || type == &nxpy_captured_type ||
                  type == &PyWrapperDescr_Type || type == nxpy__lru_cache_type;
    bool getter = type == &PyProperty_Type || type == &PyGetSetDescr_Type;
    if ((method || getter) && !object) return give(found, out);
    if (method && method_too) return give(found, out) + 1;
    if (method) return give_new(trace, PyMethod_New(found, object), out);
    int user = of_user_descriptor(trace, found, object, owner, out);
    if (user <= 0) return user;
    *bound = type->tp_descr_get != NULL;
    return *bound ? nxpy__stop(trace, NXPY_BREAK_ATTRIBUTE, "a descriptor of type %.200s", type->tp_name) : 0;
}

/* A field of a C layout, as a row reads it. */
static int of_field(nxpy_trace *trace, PyObject *object, PyObject *name, Py_ssize_t offset, PyObject **out) {
    PyObject *value = *(PyObject **)((char *)object + offset);
    if (!nxpy__is_born(trace, object)) {
        int slot = nxpy__slot_of(trace, object);
        if (slot < 0 || nxpy__fetch_number(trace, NXPY_ROW_FIELD, slot, name, NULL, offset, &value) < 0) return -1;
    }
    if (!value) return no_attribute(trace, object, name);
    return give(value, out);
}

static int of_tuple_field(nxpy_trace *trace, PyObject *found, PyObject *object, PyObject *name, PyObject **out) {
    PyObject *reduced = PyObject_CallMethod(found, "__reduce__", NULL); /* (class, (index, doc)) */
    PyObject *args = reduced ? PyTuple_GetItem(reduced, 1) : NULL, *index = args ? PyTuple_GetItem(args, 0) : NULL;
    Py_ssize_t at = index ? PyLong_AsSsize_t(index) : -1;
    Py_XDECREF(reduced);
    if (at < 0 || at >= Py_SIZE(object)) return stop_attribute(trace, object, name);
    if (nxpy__note_elements(trace, object) < 0) return -1;
    return give(PyTuple_GET_ITEM(object, at), out);
}

/* Descriptors in C that read the instance. 1: not one of them. */
static int of_c_descriptor(nxpy_trace *trace, PyObject *found, PyObject *object, PyObject *name, PyObject **out) {
    if (Py_TYPE(found) == &PyMemberDescr_Type) {
        const PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
        bool object_like = member->type == T_OBJECT_EX || (member->type == T_OBJECT && *(PyObject **)((char *)object + member->offset));
        if (object_like) return of_field(trace, object, name, member->offset, out);
    }
    if (Py_TYPE(found) == &PyGetSetDescr_Type && nxpy__is_exception(object) && nxpy__is_born(trace, object)) {
        return give_new(trace, PyObject_GetAttr(object, name), out);
    }
    if (is_tuple_getter(found) && nxpy__is_sequence(object)) {
        return of_tuple_field(trace, found, object, name, out);
    }
    return 1;
}

int nxpy__special(nxpy_trace *trace, PyObject *object, const char *text, PyObject **out) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject *found;
    bool bound;
    if (nxpy_tensor_check(object) || nxpy__type_value(trace, type, text, &found) < 0) {
        return trace->stop ? -1 : nxpy__stop(trace, NXPY_BREAK_ATTRIBUTE, "Tensor.%s", text);
    }
    if (!found) {
        bool waits = strncmp(text, "__a", 3) == 0, leaves = strcmp(text + 2 + waits, "exit__") == 0;
        if (!leaves && strcmp(text + 2 + waits, "enter__") != 0) {
            PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the %s protocol", type->tp_name, text);
        } else {
            PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the %scontext manager protocol%s%s%s", type->tp_name,
                         waits ? "asynchronous " : "", leaves ? " (missed " : "", leaves ? text : "", leaves ? " method)" : "");
        }
        return nxpy__stop_error(trace);
    }
    int kind = bind(trace, found, object, type, false, out, &bound);
    return kind < 0 || bound ? kind : give(found, out);
}

/* ---- by kind ----------------------------------------------------------------------------------------------------------- */
/* How often its elements were written: before the trace, of an input or a view of one, guarded; and since it began. */
static int of_version(nxpy_trace *trace, PyObject *object, PyObject **out) {
    const nx_tensor *fake = nx_tensor_whole(nxpy_tensor_get(object));
    const nxpy_note *input = nxpy__input_of(trace, fake->storage);
    uint32_t before = input && input->real ? nx_tensor_version(nxpy_tensor_get(input->real)) : 0;
    if (input && input->real && nxpy__check(trace, NXPY_ROW_VERSION, input->slot, NULL, before) < 0) return -1;
    bool made = input && !input->real; /* whose first elements the graph has written */
    return give_new(trace, PyLong_FromUnsignedLong(before + nx_tensor_version(fake) - made), out);
}

/* What a tensor has from autograd, where a guard tells it. */
static int of_history(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    const nxpy_note *note = nxpy__note_find(trace, object);
    const nx_tensor *real = note && note->is_input && note->real ? nxpy_tensor_get(note->real) : NULL;
    if (PyUnicode_CompareWithASCIIString(name, "_version") == 0) return of_version(trace, object, out);
    if (PyUnicode_CompareWithASCIIString(name, "grad") == 0) return nxpy__grad_of(trace, object, out);
    bool node = PyUnicode_CompareWithASCIIString(name, "grad_fn") == 0;
    if (PyUnicode_CompareWithASCIIString(name, "data") == 0) return give_new(trace, PyObject_CallMethod(object, "detach", NULL), out);
    const nx_tensor *own = nx_tensor_whole(nxpy_tensor_get(object));
    bool begins = real ? real->is_parameter || !nx_tensor_requires_grad(real) : nx_tensor_is_leaf(own) && nxpy__is_fake(trace, object);
    if (node && begins) return give(Py_None, out);
    return nxpy__stop(trace, NXPY_BREAK_METHOD, "Tensor.%U", name);
}

static int of_tensor(nxpy_trace *trace, PyObject *object, PyObject *name, bool method_too, PyObject **out) {
    static const char *const metadata[] = {"shape", "dtype", "device", "layout", "ndim", "itemsize", "nbytes", "is_cpu", "is_cuda",
                                           "requires_grad", "_is_param", "is_leaf"};
    PyTypeObject *type = Py_TYPE(object);
    PyObject *found;
    bool bound;
    if (type_value(trace, type, name, &found) < 0) return -1;
    if (!found) { /* attributes of the tensor itself */
        const nxpy_note *note = nxpy__note_find(trace, object);
        PyObject *real = note && note->is_input ? note->real : NULL, *value = real ? nxpy_instance_value(real, name) : NULL;
        if (real && nxpy__fetch(trace, NXPY_ROW_VALUE, note->slot, name, NULL, 0, value) < 0) return -1;
        return value ? give(value, out) : no_attribute(trace, object, name);
    }
    if (Py_TYPE(found) == &PyGetSetDescr_Type) {
        const char *text = PyUnicode_AsUTF8(name);
        if (nxpy_overrides(object)) return give_new(trace, PyObject_GetAttr(object, name), out); /* its class is asked */
        if (text && strcmp(text, "_is_fake") == 0) return give(Py_False, out); /* the one that the program has is none */
        for (int k = 0; text && k < NX_COUNT(metadata); k++) {
            if (strcmp(text, metadata[k]) != 0) continue;
            const nxpy_note *note = nxpy__note_find(trace, object);
            const nx_tensor *real = note && note->is_input && note->real ? nxpy_tensor_get(note->real) : NULL;
            bool may_differ = real && !real->is_parameter && nx_tensor_requires_grad(real); /* no guard tells an input's history */
            bool told = strcmp(text, "is_leaf") != 0 || !may_differ;
            if (told) return give_new(trace, PyObject_GetAttr(object, name), out);
        }
        return of_history(trace, object, name, out);
    }
    if (Py_TYPE(found) == &PyProperty_Type) return of_property(trace, found, object, name, out);
    int kind = bind(trace, found, object, type, method_too, out, &bound);
    return kind < 0 || bound ? kind : give(found, out);
}

int nxpy__instance_holds(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    *out = nxpy_instance_value(object, name);
    if (nxpy__is_born(trace, object) || nxpy__was_written(trace, object, name)) return 0;
    int slot = nxpy__slot_of(trace, object);
    return slot < 0 ? -1 : nxpy__fetch_number(trace, NXPY_ROW_VALUE, slot, name, NULL, 0, out);
}

static int of_namespace(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    if (nxpy__is_born(trace, object)) { /* what lies in it was noted when it was put there */
        *out = PyObject_GenericGetAttr(object, name);
        if (!*out) return nxpy__stop_error(trace);
        nxpy_note *note = nxpy__born(trace, *out) == 0 ? nxpy__note_find(trace, *out) : NULL;
        if (note) note->is_own_dict = true;
        else Py_CLEAR(*out);
        return note ? 0 : -1;
    }
    if (nxpy__has_written_fields(trace, object)) return nxpy__stop(trace, NXPY_BREAK_STORE, "__dict__ of what was written");
    PyObject *dict = PyObject_GenericGetAttr(object, name);
    int slot = dict ? nxpy__slot_of(trace, object) : -1;
    if (slot < 0 || nxpy_instance_dict(object) != dict || nxpy__fetch(trace, NXPY_ROW_NAMESPACE, slot, NULL, NULL, 0, dict) < 0) {
        Py_XDECREF(dict);
        return trace->stop ? -1 : stop_attribute(trace, object, name);
    }
    nxpy_note *note = nxpy__note_find(trace, dict);
    if (note) note->is_namespace = true;
    *out = dict;
    return 0;
}

/* A module of this package loads some of its names when they are first asked for; that is done here, once and for all. */
static int load_lazy_name(nxpy_trace *trace, PyObject *module, PyObject *name) {
    PyObject *package = PyDict_GetItemString(PyModule_GetDict(module), "__package__"), *value;
    const char *text = package && PyUnicode_Check(package) ? PyUnicode_AsUTF8(package) : NULL;
    if (!text || strncmp(text, "narthex", 7) != 0 || nxpy_instance_value(module, name)) return 0;
    nxpy__doing.paused++;
    value = PyObject_GetAttr(module, name);
    nxpy__doing.paused--;
    if (!value) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return nxpy__stop_error(trace);
        PyErr_Clear(); /* the trace comes to the same end */
    }
    Py_XDECREF(value);
    return 0;
}

static int of_module(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    PyObject *value, *getter = NULL;
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) return of_namespace(trace, object, name, out);
    if (load_lazy_name(trace, object, name) < 0 || nxpy__instance_holds(trace, object, name, &value) < 0) return -1;
    if (value) return give(value, out);
    PyObject *found = nxpy_type_lookup(Py_TYPE(object), name), *hook = nxpy__name("__getattr__");
    int done = !hook ? nxpy__stop_error(trace) : found ? stop_attribute(trace, object, name)
                                                        : nxpy__instance_holds(trace, object, hook, &getter);
    if (done < 0) return -1;
    if (getter && PyFunction_Check(getter) && nxpy__use(trace, getter)) return call_getter(trace, getter, &name, 1, out);
    return getter ? stop_attribute(trace, object, name) : no_attribute(trace, object, name);
}

/* The __dict__ of a class: a new view of a dict that is read by key, or as a whole. */
static int of_class_dict(nxpy_trace *trace, PyTypeObject *type, PyObject **out) {
    PyObject *dict = nxpy_type_dict(type);
    if (!nxpy__is_born(trace, (PyObject *)type) && nxpy__fixed(trace, dict) < 0) return -1;
    nxpy_note *note = nxpy__note_find(trace, dict);
    if (!note && !(note = nxpy__note_add(trace, dict, NXPY_NOTE_BORN, -1))) return -1;
    note->is_namespace = true;
    *out = PyDictProxy_New(dict);
    note = *out && nxpy__born(trace, *out) == 0 ? nxpy__note_find(trace, *out) : NULL;
    if (note) note->real = dict;
    else Py_CLEAR(*out);
    return note ? 0 : nxpy__stop_error(trace);
}

static bool is_one_of(PyObject *name, const char *const *names) {
    for (; *names; names++) {
        if (PyUnicode_CompareWithASCIIString(name, *names) == 0) return true;
    }
    return false;
}

/* What the class alone holds under the name, no base of it. */
static int of_class_itself(nxpy_trace *trace, PyTypeObject *type, PyObject *name, PyObject **out) {
    PyObject *dict = nxpy_type_dict(type), *value = NULL;
    bool born = nxpy__is_born(trace, (PyObject *)type);
    if (!born && nxpy__fixed(trace, dict) < 0) return -1;
    if (born) value = PyDict_GetItemWithError(dict, name);
    else if (nxpy__dict_value(trace, dict, name, &value) < 0) return -1;
    if (!value && PyUnicode_CompareWithASCIIString(name, "__doc__") == 0) value = Py_None;
    bool plain = value && !Py_TYPE(value)->tp_descr_get;
    if (plain && born && nxpy__born(trace, value) < 0) return -1;
    return plain ? give(value, out) : stop_attribute(trace, (PyObject *)type, name);
}

static int of_type(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    PyTypeObject *type = (PyTypeObject *)object;
    PyObject *meta = nxpy_type_lookup(Py_TYPE(object), name), *found;
    bool bound, heap = nxpy__may_change(type);
    static const char *const names[] = {"__name__", "__qualname__", "__module__", NULL};
    if (!heap && is_one_of(name, names)) return give_new(trace, PyObject_GetAttr(object, name), out);
    if (PyUnicode_CompareWithASCIIString(name, "__name__") == 0) {
        return of_field(trace, object, name, offsetof(PyHeapTypeObject, ht_name), out);
    }
    if (PyUnicode_CompareWithASCIIString(name, "__qualname__") == 0) {
        return of_field(trace, object, name, offsetof(PyHeapTypeObject, ht_qualname), out);
    }
    if (heap && PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) return of_class_dict(trace, type, out);
    if (PyUnicode_CompareWithASCIIString(name, "__mro__") == 0) return of_field(trace, object, name, offsetof(PyTypeObject, tp_mro), out);
    if (PyUnicode_CompareWithASCIIString(name, "__bases__") == 0) {
        return of_field(trace, object, name, offsetof(PyTypeObject, tp_bases), out);
    }
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) return give_fixed(trace, (PyObject *)Py_TYPE(object), out);
    static const char *const own[] = {"__doc__", "__annotations__", NULL};
    if (heap && meta && Py_TYPE(meta) == &PyGetSetDescr_Type && is_one_of(name, own)) return of_class_itself(trace, type, name, out);
    bool module = PyUnicode_CompareWithASCIIString(name, "__module__") == 0; /* its dict has it */
    if (meta && Py_TYPE(meta) == &PyProperty_Type) {
        return type_value(trace, Py_TYPE(object), name, &found) < 0 ? -1 : of_property(trace, found, object, name, out);
    }
    if (meta && Py_TYPE(meta)->tp_descr_set && !module) return stop_attribute(trace, object, name); /* __dict__ and such */
    if (type_value(trace, type, name, &found) < 0) return -1;
    if (!found && meta) { /* of the metaclass */
        if (type_value(trace, Py_TYPE(object), name, &found) < 0) return -1;
        int kind = bind(trace, found, object, Py_TYPE(object), false, out, &bound);
        return kind < 0 || bound ? kind : give(found, out);
    }
    if (!found) return no_attribute(trace, object, name);
    int kind = bind(trace, found, NULL, type, false, out, &bound);
    return kind < 0 || bound ? kind : give(found, out);
}

/* What the thread has in a threading.local: a dict that is a namespace. Lent, NULL: stopped. */
static PyObject *dict_of_local(nxpy_trace *trace, PyObject *local) {
    PyObject *dict = nxpy_local_dict(local);
    int slot = dict ? nxpy__slot_of(trace, local) : nxpy__stop_error(trace);
    if (slot < 0 || nxpy__fetch(trace, NXPY_ROW_LOCAL, slot, NULL, NULL, 0, dict) < 0) return NULL;
    nxpy_note *note = nxpy__note_find(trace, dict);
    note->is_namespace = true;
    return dict;
}

static int of_local(nxpy_trace *trace, PyObject *local, PyObject *name, PyObject **out) {
    PyObject *dict = dict_of_local(trace, local), *value;
    if (!dict) return -1;
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) return give(dict, out);
    if (nxpy_type_lookup(Py_TYPE(local), name)) return stop_attribute(trace, local, name);
    if (nxpy__dict_value(trace, dict, name, &value) < 0) return -1;
    return value ? give(value, out) : no_attribute(trace, local, name);
}

static bool has_ordinary_lookup(nxpy_trace *trace, PyTypeObject *type) {
    PyObject *found;
    if (nxpy__type_value(trace, type, "__getattribute__", &found) < 0 || !found) return false;
    PyObject *const ordinary[] = {PyDict_GetItemString(nxpy_type_dict(&PyBaseObject_Type), "__getattribute__"),
                                  PyDict_GetItemString(nxpy_type_dict((PyTypeObject *)PyExc_BaseException), "__getattribute__")};
    return found == ordinary[0] || found == ordinary[1] || type->tp_getattro == PyObject_GenericGetAttr;
}

static int of_missing(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    PyObject *getter, *args[] = {object, name};
    if (nxpy__type_value(trace, Py_TYPE(object), "__getattr__", &getter) < 0) return -1;
    if (!getter) return no_attribute(trace, object, name);
    if (!PyFunction_Check(getter)) return stop_attribute(trace, object, name);
    return call_getter(trace, getter, args, 2, out);
}

/* As object.__getattribute__ looks it up, which no class has replaced or whose own calls it; then __getattr__ (`missing`). */
static int of_ordinary(nxpy_trace *trace, PyObject *object, PyObject *name, bool method_too, bool missing, PyObject **out) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject *found, *value;
    bool bound;
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) return of_namespace(trace, object, name, out);
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) return give_fixed(trace, (PyObject *)type, out);
    if (type_value(trace, type, name, &found) < 0) return -1;
    if (found && Py_TYPE(found) == &PyProperty_Type) return of_property(trace, found, object, name, out);
    if (found && Py_TYPE(found)->tp_descr_set) {
        int done = of_c_descriptor(trace, found, object, name, out);
        if (done == 1) done = of_user_descriptor(trace, found, object, type, out);
        return done == 1 ? stop_attribute(trace, object, name) : done;
    }
    if (nxpy__instance_holds(trace, object, name, &value) < 0) return -1;
    if (value) return give(value, out);
    if (!found) return missing ? of_missing(trace, object, name, out) : no_attribute(trace, object, name);
    if (Py_TYPE(found) == nxpy__cached_property_type) return of_cached_property(trace, found, object, name, out);
    int kind = bind(trace, found, object, type, method_too, out, &bound);
    return kind < 0 || bound ? kind : give(found, out);
}

/* The class has a __getattribute__ of its own, written in Python: inlined, and __getattr__ behind it where it finds nothing. */
static int of_own_lookup(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    PyObject *own, *missing, *args[] = {object, name};
    if (nxpy__type_value(trace, Py_TYPE(object), "__getattribute__", &own) < 0) return -1;
    if (!own || !PyFunction_Check(own)) return stop_attribute(trace, object, name);
    int done = call_getter(trace, own, args, 2, out);
    if (done == 0 || trace->stop || !PyErr_ExceptionMatches(PyExc_AttributeError)) return done;
    PyObject *error[3];
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    done = nxpy__type_value(trace, Py_TYPE(object), "__getattr__", &missing);
    if (done == 0 && !missing) {
        PyErr_Restore(error[0], error[1], error[2]);
        return -1;
    }
    for (int k = 0; k < 3; k++) Py_XDECREF(error[k]);
    return done < 0 ? -1 : of_missing(trace, object, name, out);
}

static int of_instance(nxpy_trace *trace, PyObject *object, PyObject *name, bool method_too, PyObject **out) {
    if (has_ordinary_lookup(trace, Py_TYPE(object))) return of_ordinary(trace, object, name, method_too, true, out);
    return trace->stop ? -1 : of_own_lookup(trace, object, name, out);
}

/* A field that is `absent` (taken) where nothing lies in it. */
static int of_field_or(nxpy_trace *trace, PyObject *function, PyObject *name, Py_ssize_t offset, PyObject *absent, PyObject **out) {
    if (*(PyObject **)((char *)function + offset)) {
        Py_XDECREF(absent);
        return of_field(trace, function, name, offset, out);
    }
    int slot = nxpy__is_born(trace, function) ? 0 : nxpy__slot_of(trace, function); /* NULL: none */
    bool guarded = slot >= 0 && (nxpy__is_born(trace, function) || nxpy__fetch(trace, NXPY_ROW_FIELD, slot, name, NULL, offset, NULL) == 0);
    if (guarded) return (*out = absent) ? 0 : nxpy__stop_error(trace);
    Py_XDECREF(absent);
    return -1;
}

/* Functions have no __getattr__: their own fields, then their __dict__. */
static int of_function(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    static const struct { const char *name; Py_ssize_t offset; } fields[] = {
        {"__name__", offsetof(PyFunctionObject, func_name)}, {"__qualname__", offsetof(PyFunctionObject, func_qualname)},
        {"__code__", offsetof(PyFunctionObject, func_code)},
        {"__doc__", offsetof(PyFunctionObject, func_doc)}, {"__module__", offsetof(PyFunctionObject, func_module)}};
    for (int k = 0; k < NX_COUNT(fields); k++) {
        if (PyUnicode_CompareWithASCIIString(name, fields[k].name) == 0) return of_field(trace, object, name, fields[k].offset, out);
    }
    PyObject *value;
    if (PyUnicode_CompareWithASCIIString(name, "__defaults__") == 0)
        return of_field_or(trace, object, name, offsetof(PyFunctionObject, func_defaults), Py_NewRef(Py_None), out);
    if (PyUnicode_CompareWithASCIIString(name, "__kwdefaults__") == 0)
        return of_field_or(trace, object, name, offsetof(PyFunctionObject, func_kwdefaults), Py_NewRef(Py_None), out);
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) {
        if (nxpy__is_born(trace, object)) return give_new(trace, PyObject_GenericGetDict(object, NULL), out);
        return of_namespace(trace, object, name, out);
    }
    if (PyUnicode_CompareWithASCIIString(name, "__annotations__") == 0) {
        value = PyObject_GetAttr(object, name); /* makes the dict */
        Py_XDECREF(value);
        if (!value) return nxpy__stop_error(trace);
        if (nxpy__is_born(trace, object) && nxpy__admit(trace, value) < 0) return -1;
        return of_field(trace, object, name, offsetof(PyFunctionObject, func_annotations), out);
    }
    if (NXPY_ANNOTATE && PyUnicode_CompareWithASCIIString(name, "__annotate__") == 0) {
        return of_field_or(trace, object, name, NXPY_ANNOTATE, Py_NewRef(Py_None), out);
    }
    if (NXPY_TYPE_PARAMS && PyUnicode_CompareWithASCIIString(name, "__type_params__") == 0) {
        return of_field_or(trace, object, name, NXPY_TYPE_PARAMS, PyTuple_New(0), out);
    }
    PyObject *own = nxpy_type_lookup(&PyFunction_Type, name);
    if (own && PyUnicode_CompareWithASCIIString(name, "__get__") == 0) return give_new(trace, PyMethod_New(own, object), out);
    if (own) return stop_attribute(trace, object, name);
    if (nxpy__instance_holds(trace, object, name, &value) < 0) return -1;
    return value ? give(value, out) : no_attribute(trace, object, name);
}

static int of_method(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    if (PyUnicode_CompareWithASCIIString(name, "__self__") == 0) return give_fixed(trace, PyMethod_GET_SELF(object), out);
    PyObject *function = PyMethod_GET_FUNCTION(object), *fixed;
    if (give_fixed(trace, function, &fixed) < 0) return -1;
    Py_DECREF(fixed); /* its note has it */
    if (PyUnicode_CompareWithASCIIString(name, "__func__") == 0) return give(function, out);
    return PyFunction_Check(function) ? of_function(trace, function, name, out) : stop_attribute(trace, object, name);
}

/* super().name: the classes behind its own in the order of the object's class. */
static int of_super(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    PyObject *parts[3] = {PyObject_GetAttrString(object, "__thisclass__"), PyObject_GetAttrString(object, "__self__"),
                          PyObject_GetAttrString(object, "__self_class__")};
    PyObject *self = parts[1], *order = parts[2] && PyType_Check(parts[2]) ? ((PyTypeObject *)parts[2])->tp_mro : NULL, *found = NULL;
    int done = !parts[0] || !self || !order ? stop_attribute(trace, object, name) : 0;
    bool behind = false, bound = false;
    for (Py_ssize_t k = 0; done == 0 && !found && k < PyTuple_GET_SIZE(order); k++) {
        PyObject *at = PyTuple_GET_ITEM(order, k), *seen;
        if (behind) {
            done = type_value(trace, (PyTypeObject *)at, name, &seen);
            found = PyDict_GetItemWithError(nxpy_type_dict((PyTypeObject *)at), name);
        }
        behind |= at == parts[0];
    }
    if (done == 0 && !found) done = no_attribute(trace, object, name);
    if (done == 0 && Py_TYPE(found) == &PyProperty_Type) {
        done = of_property(trace, found, self, name, out);
    } else if (done == 0) {
        done = bind(trace, found, self == parts[2] ? NULL : self, (PyTypeObject *)parts[2], false, out, &bound);
        if (done == 0 && !bound) done = give(found, out);
    }
    for (int k = 0; k < 3; k++) Py_XDECREF(parts[k]);
    return done;
}

/* What an array of numpy's that existed before has beside its elements: of the tensor over its memory, whose sizes may vary. */
static int of_array(nxpy_trace *trace, PyObject *array, PyObject *name, PyObject *input, PyObject **out) {
    bool shape = PyUnicode_CompareWithASCIIString(name, "shape") == 0, size = PyUnicode_CompareWithASCIIString(name, "size") == 0;
    bool nbytes = PyUnicode_CompareWithASCIIString(name, "nbytes") == 0;
    if (!shape && !size && !nbytes) return give_new(trace, PyObject_GetAttr(array, name), out);
    if (!shape) return give_new(trace, size ? PyObject_CallMethod(input, "numel", NULL) : PyObject_GetAttr(input, name), out);
    PyObject *sizes = PyObject_GetAttr(input, name);
    int done = give_new(trace, sizes ? PySequence_Tuple(sizes) : NULL, out);
    Py_XDECREF(sizes);
    return done;
}

/* Constants, born containers and such: their types are CPython's own. */
static int of_builtin(nxpy_trace *trace, PyObject *object, PyObject *name, bool method_too, PyObject **out) {
    const nxpy_shown *shown = nxpy__shown(object);
    static const char *const of_iterators[] = {"gi_frame", "gi_code", NULL};
    static const char *const of_arrays[] = {"shape", "dtype", "ndim", "size", "itemsize", "nbytes", NULL};
    static const char *const of_functions[] = {"__name__", "__qualname__", "__doc__", "__module__", NULL};
    bool function = nxpy_function_check(object) || PyCFunction_Check(object) || nxpy__is_a(object, NXPY_KIND_CALLABLE) ||
                    nxpy__is_a(object, NXPY_KIND_DESCRIPTOR);
    if (shown && (!is_one_of(name, of_arrays) || PyUnicode_CompareWithASCIIString(name, "ndim") == 0)) {
        bool ndim = PyUnicode_CompareWithASCIIString(name, "ndim") == 0;
        return ndim ? give_new(trace, PyObject_GetAttr(shown->tensor, name), out) : stop_attribute(trace, object, name);
    }
    if (shown) return of_array(trace, shown->like, name, shown->tensor, out);
    PyObject *found = nxpy_type_lookup(Py_TYPE(object), name);
    bool data = found && (Py_TYPE(found) == &PyGetSetDescr_Type || Py_TYPE(found) == &PyMemberDescr_Type);
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) return give_fixed(trace, (PyObject *)Py_TYPE(object), out);
    bool getter = Py_TYPE(object) == &PyProperty_Type || Py_TYPE(object) == &PyGetSetDescr_Type;
    if (getter && PyUnicode_CompareWithASCIIString(name, "__get__") == 0) { /* a __torch_function__ compares it */
        PyObject *made = PyObject_GetAttr(object, name);
        *out = made;
        return made ? nxpy__fixed(trace, made) : nxpy__stop_error(trace);
    }
    bool lasts = nxpy_constant_check(object) || PyRange_Check(object) || PySlice_Check(object) || PyCode_Check(object) ||
                 nxpy__is_a(object, NXPY_KIND_UNION) || (function && is_one_of(name, of_functions)) ||
                 (nxpy__is_a(object, NXPY_KIND_ARRAY) && is_one_of(name, of_arrays));
    PyObject *input = NULL;
    if (data && lasts && nxpy__array_input(trace, object, &input) < 0) return -1;
    if (input) return of_array(trace, object, name, input, out);
    if (data && lasts) { /* of what never changes */
        return give_new(trace, PyObject_GetAttr(object, name), out);
    }
    if (data && nxpy__is_exception(object)) {
        int done = of_c_descriptor(trace, found, object, name, out);
        if (done != 1) return done;
    }
    if (!found && !is_one_of(name, of_iterators) && Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr &&
        Py_TYPE(object)->tp_dictoffset == 0) return no_attribute(trace, object, name);
    if (!found || (Py_TYPE(found) != &PyMethodDescr_Type && Py_TYPE(found) != &PyWrapperDescr_Type)) {
        return stop_attribute(trace, object, name);
    }
    if (nxpy__fixed(trace, found) < 0) return -1;
    return method_too ? give(found, out) + 1 : give_new(trace, PyMethod_New(found, object), out);
}

/* Whether it may have attributes of its own. */
static bool has_attributes(PyObject *object) {
    nxpy_kind_code kind = nxpy__kind(object)->code;
    if (kind == NXPY_KIND_DEQUE || kind == NXPY_KIND_DEFAULTS) return false;
    return kind == NXPY_KIND_NAMESPACE || kind == NXPY_KIND_ORDERED || nxpy__may_change(Py_TYPE(object));
}

int nxpy__attribute(nxpy_trace *trace, PyObject *object, PyObject *name, bool method_too, PyObject **out) {
    PyTypeObject *type = Py_TYPE(object);
    if (nxpy_tensor_check(object)) return of_tensor(trace, object, name, method_too, out);
    if (PyModule_CheckExact(object)) return of_module(trace, object, name, out);
    if (PyType_Check(object)) return of_type(trace, object, name, out);
    if (type == &PyFunction_Type) return of_function(trace, object, name, out);
    if (type == &PyMethod_Type) return of_method(trace, object, name, out);
    if (type == &PySuper_Type) return of_super(trace, object, name, out);
    if (type == nxpy__local_type) return of_local(trace, object, name, out);
    if (!has_attributes(object)) return of_builtin(trace, object, name, method_too, out);
    return of_instance(trace, object, name, method_too, out);
}

int nxpy__plain_attribute(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out) {
    bool instance = has_attributes(object) && !nxpy_tensor_check(object) && !PyModule_Check(object) && !PyType_Check(object);
    if (instance && !PyFunction_Check(object)) return of_ordinary(trace, object, name, false, false, out);
    return stop_attribute(trace, object, name);
}

/* ---- writing attributes ---------------------------------------------------------------------------------------------- */
static int stop_store(nxpy_trace *trace, PyObject *object, PyObject *name) {
    return nxpy__stop(trace, NXPY_BREAK_STORE, "%.200s.%S", Py_TYPE(object)->tp_name, name);
}

/* Whether an attribute of it may be written: of an instance, a named tuple, an exception of the program's; of an OrderedDict that
 * the trace has made. */
static bool is_written(nxpy_trace *trace, PyObject *object) {
    nxpy_kind_code kind = nxpy__kind(object)->code;
    if (kind == NXPY_KIND_ORDERED) return nxpy__is_born(trace, object);
    return has_attributes(object) && kind != NXPY_KIND_CLASS && kind != NXPY_KIND_TENSOR && kind != NXPY_KIND_PARTIAL;
}

/* Of a threading.local. */
static int store_local(nxpy_trace *trace, PyObject *local, PyObject *name, PyObject *value) {
    PyObject *dict = nxpy_type_lookup(Py_TYPE(local), name) ? NULL : dict_of_local(trace, local);
    if (!dict) return trace->stop ? -1 : stop_store(trace, local, name);
    if (!value && !PyDict_GetItemWithError(dict, name)) return no_attribute(trace, local, name);
    return nxpy__write_item(trace, dict, name, value);
}

/* Of a class: what nothing but a lookup of the name reads. */
static int store_class(nxpy_trace *trace, PyTypeObject *type, PyObject *name, PyObject *value) {
    const char *text = PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8(name) : NULL;
    bool plain = text && strncmp(text, "__", 2) != 0 && nxpy__may_change(type) && !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) &&
                 Py_TYPE(type)->tp_setattro == PyType_Type.tp_setattro;
    if (plain && PyType_IsSubtype(type, &nxpy_tensor_type)) plain = !nxpy_type_lookup(nxpy_tensor_class, name); /* C code calls those */
    PyObject *meta = NULL, *own;
    if (!plain) return stop_store(trace, (PyObject *)type, name);
    if (type_value(trace, Py_TYPE(type), name, &meta) < 0) return -1;
    if (meta && Py_TYPE(meta)->tp_descr_set) return stop_store(trace, (PyObject *)type, name);
    bool born = nxpy__is_born(trace, (PyObject *)type);
    if (!value && !born) { /* there must be something to take away */
        if (nxpy__fixed(trace, nxpy_type_dict(type)) < 0 || nxpy__dict_value(trace, nxpy_type_dict(type), name, &own) < 0) return -1;
        if (!own) return no_attribute(trace, (PyObject *)type, name);
    }
    if (!born) return nxpy__write_class(trace, (PyObject *)type, name, value);
    if (nxpy__region_changes(trace, (PyObject *)type) < 0) return -1;
    return PyObject_SetAttr((PyObject *)type, name, value) < 0 ? nxpy__stop_error(trace) : 0;
}

int nxpy__store_plain(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject *value) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == nxpy__local_type && PyUnicode_CheckExact(name)) return store_local(trace, object, name, value);
    bool module = PyModule_CheckExact(object);
    if ((!module && !is_written(trace, object)) || !PyUnicode_CheckExact(name)) return stop_store(trace, object, name);
    PyObject *found = NULL;
    if (!module && type_value(trace, type, name, &found) < 0) return -1;
    bool slot = found && Py_TYPE(found) == &PyMemberDescr_Type;
    if (found && Py_TYPE(found)->tp_descr_set && !slot) return stop_store(trace, object, name);
    if (!value && !slot && !nxpy_instance_value(object, name)) {
        PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", type->tp_name, name);
        return nxpy__stop_error(trace);
    }
    if (nxpy__is_born(trace, object)) {
        if (nxpy__region_changes(trace, object) < 0) return -1;
        return PyObject_GenericSetAttr(object, name, value) < 0 ? nxpy__stop_error(trace) : 0;
    }
    return nxpy__write_field(trace, object, name, value);
}

static int call_setter(nxpy_loop *loop, PyObject *setter, PyObject *const *given, int n) {
    PyObject *args[] = {Py_NewRef(given[0]), Py_XNewRef(given[1]), n > 2 ? Py_XNewRef(given[2]) : NULL};
    bool known = nxpy__fixed(loop->trace, setter) == 0;
    PyObject *result = known ? nxpy__call(loop, setter, args, n, NULL) : NULL;
    for (int k = 0; k < 3; k++) Py_XDECREF(args[k]);
    Py_XDECREF(result);
    return result ? 0 : nxpy__stop_error(loop->trace);
}

int nxpy__store_attribute(nxpy_loop *loop, PyObject *object, PyObject *name, PyObject *value) {
    nxpy_trace *trace = loop->trace;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *found, *args[] = {object, name, value};
    if (PyModule_CheckExact(object) || type == nxpy__local_type) return nxpy__store_plain(trace, object, name, value);
    if (PyType_Check(object)) return store_class(trace, (PyTypeObject *)object, name, value);
    bool own = PyFunction_Check(object) || nxpy__is_a(object, NXPY_KIND_PARTIAL) || (nxpy__is_exception(object) && value);
    if (own && nxpy__is_born(trace, object)) {
        if (nxpy__region_changes(trace, object) < 0) return -1;
        return PyObject_GenericSetAttr(object, name, value) < 0 ? nxpy__stop_error(trace) : 0;
    }
    bool tensor = nxpy_tensor_check(object) && nxpy__is_fake(trace, object) && !nxpy_overrides(object);
    int done = tensor ? nxpy__store_of_tensor(trace, object, name, value) : 1;
    if (done != 1) return done;
    if (!is_written(trace, object) || !PyUnicode_CheckExact(name)) return stop_store(trace, object, name);
    if (nxpy__type_value(trace, type, value ? "__setattr__" : "__delattr__", &found) < 0) return -1;
    if (found && PyFunction_Check(found)) return call_setter(loop, found, args, value ? 3 : 2);
    PyObject *plain_name = nxpy__name(value ? "__setattr__" : "__delattr__");
    bool plain = plain_name && found == nxpy_type_lookup(&PyBaseObject_Type, plain_name);
    if (!plain && type->tp_setattro != PyObject_GenericSetAttr) return stop_store(trace, object, name);
    if (type_value(trace, type, name, &found) < 0) return -1;
    if (found && Py_TYPE(found) == &PyProperty_Type) {
        PyObject *setter = PyObject_GetAttrString(found, value ? "fset" : "fdel");
        PyObject *given[] = {object, value};
        done = setter && PyFunction_Check(setter) ? call_setter(loop, setter, given, value ? 2 : 1) : stop_store(trace, object, name);
        Py_XDECREF(setter);
        return done;
    }
    if (found && nxpy__may_change(Py_TYPE(found)) && Py_TYPE(found)->tp_descr_set) {
        PyObject *setter, *given[] = {found, object, value};
        if (nxpy__type_value(trace, Py_TYPE(found), value ? "__set__" : "__delete__", &setter) < 0) return -1;
        if (setter && PyFunction_Check(setter)) return call_setter(loop, setter, given, value ? 3 : 2);
    }
    return nxpy__store_plain(trace, object, name, value);
}
