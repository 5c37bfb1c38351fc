/* bind: tensors, operators, graphs and errors as Python objects. Everything runs with the interpreter's lock held. */
#ifndef NXPY_BIND_H
#define NXPY_BIND_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "size/size.h"

#include "batch/batch.h"
#include "compile/compile.h"

/* ---- errors ------------------------------------------------------------------------------------------------ */
/* Sets the Python exception that `status` stands for, with nx_error_message(). Returns NULL for `return nxpy_raise(s);` */
PyObject *nxpy_raise(nx_status status);
/* The other way: a Python exception is set; passes it through C as NX_PYTHON. */
nx_status nxpy_caught(void);
/* Whether Ctrl-C was pressed; KeyboardInterrupt is then set. With the interpreter's lock. */
bool nxpy_interrupted(void);
/* Clears an error that means nothing here. Ctrl-C means something everywhere: it is raised again later. */
void nxpy_forget_error(void);
#define NXPY_TRY(expr)                                                  \
    do {                                                                \
        nx_status nxpy_try_ = (expr);                                   \
        if (nxpy_try_ != NX_OK) return (void *)nxpy_raise(nxpy_try_);   \
    } while (0)

/* ---- tensors: one Python object per nx_tensor while either lives ----------------------------------------------- */
typedef struct nxpy_tensor {
    PyObject_HEAD
    nx_tensor *tensor;      /* owned, unless tensor->python_owned */
    PyObject *dict, *weak;
    bool stays;             /* as long as the tensor, whether Python holds it or not */
} nxpy_tensor;
extern PyTypeObject nxpy_tensor_type;     /* narthex._C.TensorBase; narthex.Tensor is its only direct subclass in use */
extern PyTypeObject *nxpy_tensor_class;   /* what new tensors are made of: narthex.Tensor once it is registered */
static inline bool nxpy_tensor_check(PyObject *o) {
    bool is_usual = Py_IS_TYPE(o, nxpy_tensor_class) || Py_TYPE(o)->tp_base == nxpy_tensor_class; /* Parameter */
    return NX_LIKELY(is_usual) || PyObject_TypeCheck(o, &nxpy_tensor_type);
}
static inline nx_tensor *nxpy_tensor_get(PyObject *o) { return ((nxpy_tensor *)o)->tensor; } /* lent */
/* The Python object of `tensor`; takes the caller's reference. New reference; NULL with an exception. */
PyObject *nxpy_tensor_take(nx_tensor *tensor);
PyObject *nxpy_tensor_lend(nx_tensor *tensor); /* the same, lent: it stays as long as the tensor. NULL with an exception */
bool nxpy_is_numpy_array(PyObject *o);
/* A tensor over the memory of an array of numpy's, by numpy's C code alone. New reference; NULL with an exception: it is not
 * writable, or of a dtype or strides that no tensor has. */
PyObject *nxpy_tensor_over(PyObject *array);
/* Values of the tag GRAPH: set by py/graphs. The value is lent by the object. */
extern PyObject *(*nxpy_graph_value_object)(const nx_value *value);
extern bool (*nxpy_graph_value_read)(PyObject *o, nx_value *out);
/* The same for a lent tensor. */
PyObject *nxpy_tensor_wrap(nx_tensor *tensor);

enum { NXPY_ASK_ALL, NXPY_ASK_MODES, NXPY_ASK_NOBODY }; /* nx_thread.function_state: who answers functions */
bool nxpy_overrides(PyObject *o);        /* its class has a __torch_function__ of its own, and the thread lets it answer */
bool nxpy_any_asks(PyObject *const *given, Py_ssize_t n); /* a mode, or one of the arguments of a call, those in lists too */
/* Called with (function, types, args[, kwargs]) before a class or mode is asked that; -1 with an exception. Set by py/notes. */
extern int (*nxpy_before_question)(PyObject *question);
/* A hook at a fake is called with it: set by what follows programs. New reference; NULL: an exception. */
extern PyObject *(*nxpy_call_hook)(PyObject *function, PyObject *value);
/* Between on and off Python code runs that no trace of this thread follows; NULL: nothing is ever traced. */
extern void (*nxpy_pause)(bool on);
/* The same of a method that tells all its arguments, by the names that a Python function has. */
int nxpy_ask_spelled(const char *name, const char *module, const char *function, PyObject *self, PyObject *const *given, Py_ssize_t n,
                     PyObject *keywords, PyObject **answer);
/* Attributes of TensorBase, each behind the question whether somebody answers for the tensor (__torch_function__). */
int nxpy_add_getset(PyGetSetDef *defs);
/* At the head of a method: 1: somebody answers, *answer is the call's. */
int nxpy_ask_before(const char *name, PyObject *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords, PyObject **answer);
int nxpy_ask_called(const char *name, PyObject *self, PyObject *args, PyObject *keywords, PyObject **answer); /* of a tuple and a dict */
bool nxpy_class_dispatches(PyTypeObject *type);           /* it has a __torch_dispatch__ of its own */
void nxpy_tensor_track(PyObject *tensor);                 /* the collector follows it from now on */
/* The tensors behind `given`, lent; -1 with an exception that names `what`. */
int nxpy_tensors_from(const char *what, PyObject *const *given, int n_given, int n_expected, nx_tensor **out);
PyObject *nxpy_tensors_take(nx_tensor *const *tensors, int n); /* a tuple; takes them, also on failure */
/* For the collector: shows what a node or hook (NULL: none) of src/grad holds of Python. Set by py/autograd. */
typedef struct nxpy_visitor { visitproc visit; void *arg; } nxpy_visitor;
extern int (*nxpy_visit_owned)(const nx_grad_node *node, const nx_grad_hook *hook, const nxpy_visitor *visitor);

extern PyTypeObject nxpy_device_type, nxpy_size_type, nxpy_word_type; /* word: layouts and memory formats */

extern PyObject *nxpy_fake_error;         /* narthex._C.FakeTensorError, a NotImplementedError: a fake was asked for its elements */
extern PyObject *nxpy_linalg_error;       /* narthex._C._LinAlgError, a RuntimeError: torch.linalg.LinAlgError */

/* ---- small values -------------------------------------------------------------------------------------------------- */
PyObject *nxpy_dtype_object(nx_dtype dtype);              /* narthex.float32; new reference */
bool nxpy_dtype_check(PyObject *o);
bool nxpy_dtype_from(PyObject *o, nx_dtype *out);         /* a dtype, or what stands for one: float, int, bool, complex */
nx_dtype nxpy_dtype_get(PyObject *o);
PyObject *nxpy_device_object(nx_device device);
int nxpy_device_from(PyObject *o, nx_device *out);        /* device object, string or int; -1 with an exception */
PyObject *nxpy_size_object(int n, const int64_t *at);     /* narthex.Size, a tuple */
PyObject *nxpy_value_object(const nx_value *value);       /* tensors, numbers, lists ... as Python has them; new reference */

/* ---- operators ------------------------------------------------------------------------------------------------------- */
/* A function or method of PyTorch with its overloads, generated from `forms` (gen/functions.c). */
typedef struct nxpy_function_def {
    const char *name;              /* "add" */
    const char *target;            /* "torch.add": what a captured graph prints */
    const char *module;            /* "torch", "torch._C._nn", "torch.Tensor" */
    bool is_method;
    int n_overloads;
    const char *const *overloads;  /* operator names, tried in order */
    const char *doc;
} nxpy_function_def;
extern const nxpy_function_def nxpy_function_defs[];
extern const int nxpy_n_function_defs;
/* Builtin function objects of this type call one nxpy_function_def; capture lets calls of them through to the dispatcher. */
extern PyTypeObject nxpy_function_type, nxpy_method_type; /* a method binds where it is found in a class; a function does not */
static inline bool nxpy_function_check(PyObject *o) { return Py_TYPE(o) == &nxpy_function_type || Py_TYPE(o) == &nxpy_method_type; }
/* The Python function that a shortcut to an operator stands for, lent; NULL: of anything else. */
PyObject *nxpy_function_meaning(PyObject *function);

/* ---- parts of the module, each adds its names to narthex._C ------------------------------------------------------------- */
int nxpy_add_tensor(PyObject *module);
int nxpy_add_functions(PyObject *module);
int nxpy_add_autograd(PyObject *module); /* py/autograd */
int nxpy_add_graph(PyObject *module);    /* py/graphs */
int nxpy_add_runtime(PyObject *module);  /* seeds, grad mode, devices and their memory, flags, allocation hooks */
int nxpy_add_modules(PyObject *module);  /* py/nn */
int nxpy_add_capture(PyObject *module);  /* py/capture */

#endif
