/* Shared by the files of loop. */
#ifndef NXPY_LOOP_PRIVATE_H
#define NXPY_LOOP_PRIVATE_H

#include "loop/loop.h"

/* Handlers return 0 to go on, 1 when the frame returns, -1 when the trace stops. */
typedef int nxpy_handler(nxpy_loop *loop, int arg);
void nxpy__log_instruction(nxpy_loop *loop);

/* ---- the stack --------------------------------------------------------------------------------------------- */
/* The value k places below the top (1: the topmost), lent. */
static inline PyObject *nxpy__at(const nxpy_loop *loop, int k) { return nxpy_value(&loop->view, loop->view.n_locals + loop->depth - k); }
/* Takes a value for that place; what was there is let go, or (set) forgotten. */
static inline void nxpy__put(nxpy_loop *loop, int k, PyObject *value) {
    nxpy_value_put(&loop->view, loop->view.n_locals + loop->depth - k, value);
}
static inline void nxpy__set(nxpy_loop *loop, int k, PyObject *value) {
    nxpy_value_set(&loop->view, loop->view.n_locals + loop->depth - k, value);
}
static inline void nxpy__push(nxpy_loop *loop, PyObject *value) { /* takes it */
    loop->depth++;
    nxpy__set(loop, 1, value);
}
static inline PyObject *nxpy__pop(nxpy_loop *loop) { /* a reference of the caller's */
    PyObject *value = nxpy__at(loop, 1);
    loop->depth--;
    return value;
}
static inline void nxpy__drop(nxpy_loop *loop, int n) {
    for (int k = 0; k < n; k++) Py_XDECREF(nxpy__pop(loop));
}

/* The stack entry k places below the top, replaced by what stands for it in the trace. Lent; NULL: stopped. */
static inline PyObject *nxpy__use_top(nxpy_loop *loop, int k) {
    PyObject *value = nxpy__at(loop, k);
    if (!value) {
        nxpy__stop(loop->trace, NXPY_BREAK_UNKNOWN, "an empty stack entry");
        return NULL;
    }
    PyObject *use = nxpy__use(loop->trace, value);
    if (use && use != value) {
        nxpy__put(loop, k, Py_NewRef(use));
    }
    return use;
}
#define USE(k) nxpy__use_top(loop, k)

/* Replaces the top n values by `result` (taken); admits it. -1: stopped, nothing changed but effects may remain. */
int nxpy__finish(nxpy_loop *loop, int n, PyObject *result);
/* 1: the class of this instance defines the special method in Python, guarded: calling it inlines it. 0: no. -1. */
int nxpy__python_special(nxpy_trace *trace, PyObject *object, const char *special);
/* The parameters of a signature: a mapping that never changes. */
static inline bool nxpy__is_fixed_view(nxpy_trace *trace, PyObject *o) {
    const nxpy_note *note = Py_TYPE(o) == &PyDictProxy_Type ? nxpy__note_find(trace, o) : NULL;
    return note && note->kind == NXPY_NOTE_FIXED;
}
/* The dict behind the __dict__ of a class; anything else as it is. Lent. */
static inline PyObject *nxpy__behind(nxpy_trace *trace, PyObject *o) {
    const nxpy_note *note = Py_TYPE(o) == &PyDictProxy_Type ? nxpy__note_find(trace, o) : NULL;
    return note && note->real ? note->real : o;
}
int nxpy__truth(nxpy_trace *trace, PyObject *value);
int nxpy__enter_with(nxpy_loop *loop, const char *enter_name, const char *leave_name); /* handlers_try.c: a manager's methods */

/* ---- calls: new references; NULL: stopped, or an exception of the program's is set ------------------------------------ */
/* function(args ..., names[...]=...) as the tracer may do it; entries of args may be replaced by what stands for them. */
PyObject *nxpy__call(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names);
PyObject *nxpy__construct(nxpy_loop *loop, PyTypeObject *type, PyObject **args, Py_ssize_t n, PyObject *kw_names);
PyObject *nxpy__sequence(nxpy_loop *loop, PyObject *of, bool as_tuple); /* list(of) or tuple(of), admitted */
PyObject *nxpy__iterator(nxpy_loop *loop, PyObject *of);                /* iter(of), noted */
/* Functions of C that are more than a row of calls.def (specials.c). */
typedef PyObject *nxpy_special_fn(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names);
#define NXPY_CALL_ROW(owner, name, does)
#define NXPY_SPECIAL_ROW(owner, name, special) nxpy_special_fn nxpy__special_##special;
#include "loop/calls.def"
#undef NXPY_CALL_ROW
#undef NXPY_SPECIAL_ROW
nxpy_special_fn nxpy__special_dataclass;
nxpy_special_fn nxpy__make_class; /* type(name, bases, namespace) */
/* specials.c, for special functions: NULL, stopped at `function`. The arguments in use; false: stopped: their number must lie in
 * [least, most] and none may be named. */
PyObject *nxpy__stopped(nxpy_loop *loop, PyObject *function);
bool nxpy__use_all(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names, Py_ssize_t least,
                   Py_ssize_t most);

/* rules.c: what a program has said of a callable. True: *out is what the call gives; NULL: stopped, or an exception. */
extern bool nxpy__has_rules;
bool nxpy__by_rule(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names, PyObject **out);

/* The same of a Python function of Python's library that is done otherwise (library.c); NULL: it is entered. */
nxpy_special_fn *nxpy__library_special(PyObject *function, Py_ssize_t n, PyObject *kw_names);

/* Functions that are asked when the trace is over (asked.c): Python's; C's, of these arguments. */
bool nxpy__asks(PyObject *function);
bool nxpy__asks_c(PyObject *function, PyObject **args, Py_ssize_t n);
nxpy_special_fn nxpy__call_asked, nxpy__from_numpy;
/* Tensor.shape.__get__(tensor), which a __torch_function__ is asked (classes.c): the attribute. NULL without a stop or exception: it
 * is another function. */
bool nxpy__is_tensor_getter(PyObject *function);
PyObject *nxpy__call_tensor_getter(nxpy_loop *loop, PyObject *function, PyObject **args, Py_ssize_t n);
/* operator.method(x, y), of which one is an array of the trace. */
PyObject *nxpy__array_operator(nxpy_loop *loop, const char *method, PyObject *x, PyObject *y);
bool nxpy__is_array_operator(PyObject *function);
/* The tensor that a function makes of what hangs on no input, called outside of the trace: a copy of a constant of the graph. */
PyObject *nxpy__constant_of(nxpy_trace *trace, PyObject *function, PyObject **args, Py_ssize_t n, PyObject *kw_names);
PyObject *nxpy__loaded(nxpy_trace *trace, PyObject *name); /* the module of that name, lent; NULL: stopped */
PyObject *nxpy__index(nxpy_trace *trace, PyObject *key); /* of a captured tensor */
bool nxpy__is_element(nxpy_trace *trace, PyObject *value);
int nxpy__is(nxpy_trace *trace, PyObject *x, PyObject *y); /* x is y, of values in use; guarded. 1, 0, -1: stopped */
int nxpy__is_printable(nxpy_trace *trace, PyObject *o); /* its text runs no code that is not followed; 0 or -1 */

/* ---- attributes that are read (attributes.c) ----------------------------------------------------------- */
/* object.name as the language has it. 0: *out is it (new reference); 1: *out is an unbound method to be called with
 * `object` first (only when method_too); -1: stopped. */
int nxpy__attribute(nxpy_trace *trace, PyObject *object, PyObject *name, bool method_too, PyObject **out);

/* A special method of object's class, bound to it. New reference in *out; 0, or -1: stopped, or AttributeError is set. */
int nxpy__special(nxpy_trace *trace, PyObject *object, const char *name, PyObject **out);
/* What type or its bases hold under name, guarded; lent, NULL when nothing. 0 or -1. */
int nxpy__type_value(nxpy_trace *trace, PyTypeObject *type, const char *name, PyObject **out);
int nxpy__note_type_value(nxpy_trace *trace, PyTypeObject *type, PyObject *name); /* guards that alone; 0 or -1 */
/* What an instance or module itself holds under name, guarded if it existed before; lent, NULL when nothing. 0 or -1. */
int nxpy__instance_holds(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out);

/* ---- attributes that are written (attributes.c) ---------------------------------------------------------------------------- */
/* object.name = value, or del with value NULL, by the class's own __setattr__, or by object's. 0 or -1. */
int nxpy__store_attribute(nxpy_loop *loop, PyObject *object, PyObject *name, PyObject *value);
/* tensor.grad, requires_grad and data, of what stands for one (tensors.c). 0, -1: stopped, 1: another attribute or value. */
int nxpy__store_of_tensor(nxpy_trace *trace, PyObject *tensor, PyObject *name, PyObject *value);
/* x.requires_grad = wanted: nothing changes, or it makes a leaf of a tensor of the trace's own, or such a leaf none. 1, or -1: stopped. */
int nxpy__set_requires_grad(nxpy_trace *trace, PyObject *tensor, bool wanted);
int nxpy__store_plain(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject *value);
int nxpy__plain_attribute(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject **out); /* as object.__getattribute__ */
int nxpy__fetch_local(nxpy_loop *loop, int index, PyObject *value); /* a root's local, guarded when it is still the caller's */

#define NXPY_INSTRUCTION_ROW(name) nxpy_handler op_##name;
#include "cpython/instructions.def"
#undef NXPY_INSTRUCTION_ROW

#endif
