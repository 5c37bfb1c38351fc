/* Profiles from Python: one is made, is on in the thread that starts it, and is read when it has been stopped. The capsule of
 * one that is on is kept alive by its thread. With stacks, the frames of each event are kept as (code, line) from the innermost
 * outwards. Next: src/core/profile.c. */
#include "autograd/autograd.h"
#include "grad/grad.h"

static const char capsule_name[] = "narthex.profile";
enum { MOST_FRAMES = 256 };

static nx_profile *get(PyObject *capsule) { return PyCapsule_GetPointer(capsule, capsule_name); }

static void end(PyObject *capsule) {
    nx_profile *profile = get(capsule);
    Py_XDECREF((PyObject *)profile->context);
    nx_profile_free(profile);
}

/* ---- stacks ------------------------------------------------------------------------------------------- */
static int add_frame(PyObject *frames, PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *pair = Py_BuildValue("Ni", code, PyFrame_GetLineNumber(frame));
    int done = pair ? PyList_Append(frames, pair) : -1;
    Py_XDECREF(pair);
    return done;
}

static PyObject *take_frames(void) {
    PyObject *frames = PyList_New(0);
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    int done = frames ? 0 : -1;
    for (int n = 0; frame && n < MOST_FRAMES && done == 0; n++) {
        done = add_frame(frames, frame);
        Py_SETREF(frame, PyFrame_GetBack(frame));
    }
    Py_XDECREF(frame);
    if (done < 0) Py_CLEAR(frames);
    return frames;
}

/* What cannot be noted has no stack; an error that is set already stays. */
static int note_stack(nx_profile *profile) {
    if (!PyGILState_Check()) return -1;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *stacks = profile->context, *frames = take_frames();
    int n = frames && PyList_Append(stacks, frames) == 0 ? (int)PyList_GET_SIZE(stacks) - 1 : -1;
    Py_XDECREF(frames);
    if (n < 0) profile->ran_out = true;
    PyErr_Restore(type, value, traceback);
    return n;
}

/* ---- on and off --------------------------------------------------------------------------------------- */
static PyObject *profile_start(PyObject *module, PyObject *args) {
    int with_arguments, with_memory, with_stacks;
    if (!PyArg_ParseTuple(args, "ppp:profile_start", &with_arguments, &with_memory, &with_stacks)) return NULL;
    nx_profile *profile = nx_profile_new();
    PyObject *capsule = profile ? PyCapsule_New(profile, capsule_name, end) : PyErr_NoMemory();
    if (capsule == NULL) {
        nx_profile_free(profile);
        return NULL;
    }
    profile->with_arguments = with_arguments;
    profile->with_memory = with_memory;
    profile->with_stacks = with_stacks;
    if (with_stacks && (profile->context = PyList_New(0)) == NULL) {
        Py_DECREF(capsule);
        return NULL;
    }
    nx_profile_start(profile);
    return Py_NewRef(capsule);
}

static PyObject *profile_stop(PyObject *module, PyObject *capsule) {
    nx_profile *profile = get(capsule);
    if (profile == NULL) return NULL;
    NXPY_TRY(nx_profile_stop(profile));
    Py_DECREF(capsule); /* the thread's */
    Py_RETURN_NONE;
}

/* False in what is captured, whose ranges nobody would run through. */
static PyObject *is_profiling(PyObject *module, PyObject *unused) {
    const nx_thread *thread = nx_thread_get();
    return PyBool_FromLong(thread->profile && thread->tracer == NULL);
}

/* ---- ranges ------------------------------------------------------------------------------------------- */
static PyObject *profile_begin(PyObject *module, PyObject *name) {
    nx_profile *profile = nx_thread_get()->profile;
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL) return NULL;
    if (profile == NULL) Py_RETURN_NONE;
    const char *copy = nx_profile_name(profile, text);
    int event = copy ? nx_profile_begin(profile, NX_EVENT_RANGE, copy) : -1;
    if (event < 0) Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong((unsigned long long)profile->serial << 32 | (uint32_t)event);
}

/* Of a profile that is on no more, or that waits for another one, nothing is ended. */
static PyObject *profile_end(PyObject *module, PyObject *token) {
    nx_profile *profile = nx_thread_get()->profile;
    unsigned long long number = PyLong_AsUnsignedLongLong(token);
    if (number == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
    if (profile && profile->serial == number >> 32) nx_profile_end(profile, (int)(uint32_t)number);
    Py_RETURN_NONE;
}

/* ---- reading ------------------------------------------------------------------------------------------ */
static PyObject *ints_of(const int64_t *at, Py_ssize_t n) {
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(at[i]);
        if (number) PyList_SET_ITEM(list, i, number);
        else Py_CLEAR(list);
    }
    return list;
}

/* (sizes, strides, dtype) of a tensor, else the number or list of numbers; of others None. Moves *at behind it. */
static PyObject *argument_of(const int64_t **at) {
    const int64_t *from = *at;
    double number;
    switch (from[0]) {
    case NX_TAG_TENSOR:
        *at += 3 + 2 * from[2];
        return Py_BuildValue("NNs", ints_of(from + 3, from[2]), ints_of(from + 3 + from[2], from[2]), nx_dtype_name((nx_dtype)from[1]));
    case NX_TAG_INTS: *at += 2 + from[1]; return ints_of(from + 2, from[1]);
    case NX_TAG_INT: *at += 2; return PyLong_FromLongLong(from[1]);
    case NX_TAG_BOOL: *at += 2; return PyBool_FromLong(from[1] != 0);
    case NX_TAG_FLOAT:
        *at += 2;
        memcpy(&number, from + 1, sizeof number);
        return PyFloat_FromDouble(number);
    default: *at += 1; Py_RETURN_NONE;
    }
}

static PyObject *arguments_of(const nx_profile *profile, const nx_event *event) {
    const int64_t *at = profile->words.at + event->words, *last = at + event->n_words;
    PyObject *list = PyList_New(0);
    while (list && at < last) {
        PyObject *argument = argument_of(&at);
        if (argument == NULL || PyList_Append(list, argument) < 0) Py_CLEAR(list);
        Py_XDECREF(argument);
    }
    return list;
}

static const char *name_of(const nx_event *event) {
    if (event->name) return event->name;
    return event->op ? nx_grad_node_name(&(nx_grad_node){.op = event->op}) : "";
}

static PyObject *event_of(const nx_profile *profile, const nx_event *event) {
    PyObject *stack = event->stack < 0 ? Py_None : PyList_GET_ITEM((PyObject *)profile->context, event->stack);
    return Py_BuildValue("siiLLLLLNO", name_of(event), (int)event->kind, event->parent, (long long)event->begin,
                         (long long)event->end, (long long)event->sequence, (long long)event->bytes[0],
                         (long long)event->bytes[1], arguments_of(profile, event), stack);
}

static PyObject *profile_events(PyObject *module, PyObject *capsule) {
    nx_profile *profile = get(capsule);
    if (profile == NULL) return NULL;
    if (nx_thread_get()->profile == profile) return PyErr_Format(PyExc_RuntimeError, "profile_events: the profile is still on");
    if (profile->ran_out) return PyErr_NoMemory();
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < profile->events.n; i++) {
        PyObject *event = event_of(profile, &profile->events.at[i]);
        if (event == NULL || PyList_Append(list, event) < 0) Py_CLEAR(list);
        Py_XDECREF(event);
    }
    return list;
}

static PyMethodDef functions[] = {
    {"profile_start", profile_start, METH_VARARGS,
     "profile_start(with_arguments, with_memory, with_stacks): a profile that is on in this thread."},
    {"profile_stop", profile_stop, METH_O, "profile_stop(profile): it must be on in this thread."},
    {"is_profiling", is_profiling, METH_NOARGS, "Whether a profile is on in this thread and what calls this is not captured."},
    {"profile_begin", profile_begin, METH_O, "profile_begin(name): a range begins; None where no profile is on."},
    {"profile_end", profile_end, METH_O, "profile_end(what profile_begin gave)."},
    {"profile_events", profile_events, METH_O,
     "profile_events(profile): of one that has been stopped, each (name, kind, parent, begin, end, sequence, bytes on the "
     "CPU, bytes elsewhere, arguments, stack); kinds as in src/core/core.h."},
    {NULL}};

int nxpy_add_profile(PyObject *module) {
    nx_profile_stack = note_stack;
    return PyModule_AddFunctions(module, functions);
}
