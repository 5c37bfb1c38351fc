/* cpython: what capture needs of CPython's insides. A version has pyNNN.c, .def and .h; none.c and none.h serve those that have
 * none of their own, where functions run uncompiled. No other folder names what CPython keeps to itself.
 * Everything is called with the interpreter's lock held. */
#ifndef NXPY_CPYTHON_H
#define NXPY_CPYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>

#include "cpython/version.h" /* nxpy_lines, nxpy_slot, and what is read at every call: of pyNNN.h or none.h */

typedef struct _PyInterpreterFrame nxpy_frame;
typedef PyObject *nxpy_eval_fn(PyThreadState *thread, nxpy_frame *frame, int throwing);

/* NULL when this interpreter is one that capture knows, else one sentence that says which ones are. */
const char *nxpy_cpython_problem(void);
/* The frame hook of PEP 523. NULL: the interpreter's own loop. */
void nxpy_hook_set(nxpy_eval_fn *fn);
PyObject *nxpy_eval_default(PyThreadState *thread, nxpy_frame *frame, int throwing);
/* Puts off Python's signal handlers, which CPython's C code may run at many places (repr of anything); true: they are put
 * off now, and nxpy_signals_back must follow, then PyErr_CheckSignals for those that came meanwhile. The lock is kept. */
bool nxpy_signals_hold(void);
void nxpy_signals_back(void);
bool nxpy_thread_is_traced(PyThreadState *thread); /* sys.settrace or a profiler is on */

/* ---- frames --------------------------------------------------------------------------------------------- */
/* What the loop needs of a frame; lent, valid while the frame runs. */
typedef struct nxpy_view {
    PyCodeObject *code;
    PyFunctionObject *function;
    PyObject *globals, *builtins;
    PyObject *locals;    /* the namespace of a class body; NULL: of a function, or not made yet */
    nxpy_slot *slots;    /* locals, cells and free variables, then the stack; only the functions below look into them */
    int n_locals;
    int n_units;         /* length of the code in code units */
} nxpy_view;
void nxpy_frame_view(nxpy_frame *frame, nxpy_view *out);
/* Value number k; lent, NULL when there is none. Setting takes the new value and forgets the old one, putting lets it go. */
static inline PyObject *nxpy_value(const nxpy_view *view, int k) { return nxpy_slot_get(&view->slots[k]); }
static inline void nxpy_value_set(nxpy_view *view, int k, PyObject *value) { nxpy_slot_set(&view->slots[k], value); }
static inline void nxpy_value_put(nxpy_view *view, int k, PyObject *value) {
    PyObject *old = nxpy_value(view, k);
    nxpy_value_set(view, k, value);
    Py_XDECREF(old);
}
/* The first n values as guards read them: in `room` (of n) where the frame's own are marked, and else in the frame; lent until that
 * goes on. */
static inline PyObject *const *nxpy_values(const nxpy_view *view, int n, PyObject **room) { return nxpy_slots_read(view->slots, n, room); }
PyFunctionObject *nxpy_frame_function(nxpy_frame *frame);
int nxpy_frame_next(nxpy_frame *frame);                  /* code unit of the next instruction */
int nxpy_frame_depth(nxpy_frame *frame);                 /* values on the stack */
void nxpy_frame_set(nxpy_frame *frame, int next, int depth);
void nxpy_frame_at(nxpy_frame *frame, int unit, int depth); /* while the instruction at `unit` runs */
/* What the hook returns, from its frame with that result (taken), or with the exception that is set: some versions want
 * the frame cleared by then. */
PyObject *nxpy_frame_end(PyThreadState *thread, nxpy_frame *frame, PyObject *result);

/* Puts the frame on the thread's chain while our loop runs it, as the interpreter's loop would. */
typedef struct nxpy_link { void *words[4]; } nxpy_link;
int nxpy_frame_enter(PyThreadState *thread, nxpy_frame *frame, nxpy_link *link); /* -1: too deep, with an exception */
void nxpy_frame_leave(PyThreadState *thread, nxpy_link *link);

/* The line of each instruction, for readers that walk a code object forward and backward in small steps. */
int nxpy_line_at(nxpy_lines *lines, PyCodeObject *code, int unit);

/* ---- instructions ------------------------------------------------------------------------------------------ */
typedef enum nxpy_op {
    NXPY_OP_UNKNOWN = 0, /* capture does not follow it */
#define NXPY_INSTRUCTION_ROW(name) NXPY_OP_##name,
#include "cpython/instructions.def"
#undef NXPY_INSTRUCTION_ROW
    NXPY_OP_part         /* of the call that follows */
} nxpy_op;
typedef enum nxpy_unary { NXPY_MINUS, NXPY_INVERT, NXPY_PLUS } nxpy_unary;
typedef enum nxpy_binary {
    NXPY_BINARY_ADD, NXPY_BINARY_AND, NXPY_BINARY_FLOOR_DIVIDE, NXPY_BINARY_LSHIFT, NXPY_BINARY_MATRIX_MULTIPLY,
    NXPY_BINARY_MULTIPLY, NXPY_BINARY_REMAINDER, NXPY_BINARY_OR, NXPY_BINARY_POWER, NXPY_BINARY_RSHIFT, NXPY_BINARY_SUBTRACT,
    NXPY_BINARY_TRUE_DIVIDE, NXPY_BINARY_XOR,
    NXPY_BINARY_INPLACE_ADD, NXPY_BINARY_INPLACE_AND, NXPY_BINARY_INPLACE_FLOOR_DIVIDE, NXPY_BINARY_INPLACE_LSHIFT,
    NXPY_BINARY_INPLACE_MATRIX_MULTIPLY, NXPY_BINARY_INPLACE_MULTIPLY, NXPY_BINARY_INPLACE_REMAINDER, NXPY_BINARY_INPLACE_OR,
    NXPY_BINARY_INPLACE_POWER, NXPY_BINARY_INPLACE_RSHIFT, NXPY_BINARY_INPLACE_SUBTRACT, NXPY_BINARY_INPLACE_TRUE_DIVIDE,
    NXPY_BINARY_INPLACE_XOR
} nxpy_binary;
/* What the argument of one of CPython's own instructions is. */
typedef enum nxpy_means {
    NXPY_MEANS_NONE, NXPY_MEANS_INT, NXPY_MEANS_NAME, NXPY_MEANS_GLOBAL, NXPY_MEANS_CONST, NXPY_MEANS_LOCAL, NXPY_MEANS_JUMP,
    NXPY_MEANS_JUMP_BACK, NXPY_MEANS_COMPARE, NXPY_MEANS_OPERATOR,
    NXPY_MEANS_ATTRIBUTE, NXPY_MEANS_SUPER, NXPY_MEANS_LOCALS, NXPY_MEANS_INTRINSIC
} nxpy_means;
typedef struct nxpy_instr {
    nxpy_op op;
    int arg, flag;       /* as instructions.def says */
    int own;             /* number in this version's opcode.h, never a specialised form */
    nxpy_means means;    /* arg, to a reader of the log */
    int start;           /* unit of the first prefix */
    int next;            /* unit after the inline caches */
} nxpy_instr;
nxpy_instr nxpy_instr_at(const nxpy_view *view, int unit);  /* with all that belongs to it: never a `part` */
nxpy_instr nxpy_instr_own(const nxpy_view *view, int unit); /* one of CPython's */
/* The names of this version's opcodes; NULL for holes. */
const char *nxpy_opcode_name(int op);

/* Where an exception that the instruction at `unit` raises is caught in its own frame; false: nowhere. */
typedef struct nxpy_catcher { int unit, depth; bool pushes_unit; } nxpy_catcher; /* the stack is cut to depth first */
bool nxpy_catcher_find(const nxpy_view *view, int unit, nxpy_catcher *out);
PyObject *nxpy_catcher_unit(int unit); /* what it pushes then; NULL with an exception */
/* What load_common_constant pushes; lent. NULL: none. */
PyObject *nxpy_common_constant(PyThreadState *thread, int which);
/* The method that load_special means. */
static inline const char *nxpy_special_name(int which) {
    static const char *const names[] = {"__enter__", "__exit__", "__aenter__", "__aexit__"};
    return names[which];
}
/* The exception that is being handled; replaced: takes `value` (NULL: none), returns the one before. */
PyObject *nxpy_handled(PyThreadState *thread); /* lent; NULL or None: none */
PyObject *nxpy_handled_swap(PyThreadState *thread, PyObject *value);

/* A traceback of one frame of this code, which runs nowhere. */
PyObject *nxpy_traceback_new(PyCodeObject *code, PyObject *globals, int line);

/* ---- generators, coroutines and asynchronous generators ---------------------------------------------------- */
static inline bool nxpy_is_generator(PyObject *o) { return PyGen_CheckExact(o) || PyCoro_CheckExact(o) || PyAsyncGen_CheckExact(o); }
PyObject *nxpy_frame_generator(nxpy_frame *frame);       /* whose frame it is, lent; NULL: no generator's */
nxpy_frame *nxpy_generator_frame(PyObject *generator);
void nxpy_generator_suspend(nxpy_frame *frame, int how); /* the frame has yielded, by an instruction with that argument */
bool nxpy_generator_is_suspended(PyObject *generator);   /* inside its body */
bool nxpy_generator_is_new(PyObject *generator);         /* before its body */
/* Whether somebody (an event loop) wants to hear of each asynchronous generator that begins. */
static inline bool nxpy_generators_are_told(PyThreadState *thread) { return thread->async_gen_firstiter || thread->async_gen_finalizer; }
void nxpy_generator_drop(PyObject *generator);           /* it ends without running any (more) of its body */

/* Runs the instructions in units [first, last) of a frame in the interpreter's own loop and stops wherever it goes next.
 * `stepper` keeps the code object made for that (first, last), NULL at the first time. Returns a result only when the
 * frame has returned; else NULL, with an exception when the frame has ended with it; `*stopped` tells that it goes on. */
PyObject *nxpy_frame_step(PyThreadState *thread, nxpy_frame *frame, int first, int last, PyObject **stepper, bool *stopped);

/* The set exception is thrown into the frame where it stands: at its handler there the frame goes on (`*stopped`), or it has ended.
 * `thrower` is kept like nxpy_frame_step's. */
PyObject *nxpy_frame_throw(PyThreadState *thread, nxpy_frame *frame, PyObject **thrower, bool *stopped);

/* ---- objects ----------------------------------------------------------------------------------------------- */
/* The value that an instance itself holds under `name` (an exact, hashed str), without making its __dict__. Borrowed;
 * NULL without an exception when it has none. */
PyObject *nxpy_instance_value(PyObject *object, PyObject *name);
/* The __dict__ of an instance or module if it exists already; NULL: values lie in the instance. */
PyObject *nxpy_instance_dict(PyObject *object);
/* The dict that this thread has in a threading.local, lent; NULL with an exception. */
static inline PyObject *nxpy_local_dict(PyObject *local) {
    PyObject *dict = PyObject_GetAttrString(local, "__dict__");
    Py_XDECREF(dict); /* the thread has it */
    return dict;
}
/* Where nxpy_dict_at finds that __dict__, from the address of an instance of `type`; 0: nowhere that is known. */
int nxpy_instance_dict_offset(PyTypeObject *type);
Py_ssize_t nxpy_instance_size(PyTypeObject *type); /* bytes of an instance that has nothing but a __dict__ and weak references */
/* How often a class was registered with an abstract base class (abc.get_cache_token); NULL before nxpy_abc_init, and where it
 * cannot be read. */
extern const unsigned long long *nxpy_abc_count;
int nxpy_abc_init(void); /* once; 0, or -1 with an exception */
/* What a class or its bases hold under an interned name, lent; NULL without an exception. */
static inline PyObject *nxpy_type_lookup(PyTypeObject *type, PyObject *name) { return _PyType_Lookup(type, name); }
static inline PyTypeObject *nxpy_weakref_type(void) { return &_PyWeakref_RefType; }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* with the interpreter's lock a lent reference will do */
static inline PyObject *nxpy_weakref_object(PyObject *weak) { return PyWeakref_GET_OBJECT(weak); } /* None: it is gone */
#pragma GCC diagnostic pop

#endif
