/* Shared by the files of py/bind alone. */
#ifndef NXPY_BIND_PRIVATE_H
#define NXPY_BIND_PRIVATE_H

#include "bind/bind.h"

enum { NXPY_MAX_PARAMS = 32, NXPY_MAX_INTS = 256, NXPY_MAX_LIST = 256 };

typedef struct nxpy_block { struct nxpy_block *next; PyObject *owned; nx_value values[]; } nxpy_block; /* owned: NULL or kept */
/* The arguments of one call, converted. Lists of integers and of values lie in the buffers, long lists of values in
 * blocks: nxpy_args_end() frees them. */
typedef struct nxpy_args {
    nx_value in[NXPY_MAX_PARAMS];
    int n_ints, n_list;
    int at;                        /* the argument that is read, self not counted */
    bool requires_grad;            /* keyword of factories */
    bool tensors_count;            /* a tensor without dimensions is read where a number is asked for */
    const char *function;          /* what is called; the operator itself ("aten::index_put") takes None among tensors, which PyTorch's
                                      functions do not */
    int64_t ints[NXPY_MAX_INTS];
    nx_value list[NXPY_MAX_LIST];
    nxpy_block *blocks;
} nxpy_args;
void nxpy_args_end(nxpy_args *args);

/* ---- override.c: __torch_function__, classes and modes that answer calls in the place of functions ------------------------ */
extern int nxpy_n_function_modes;            /* of all threads: while there are none no call looks for one */
extern PyTypeObject *nxpy_parameter_class;   /* nn.Parameter, once it is registered */
/* A tensor whose class has no protocol, so that nobody answers for it. */
static inline bool nxpy_is_plain(PyObject *o) {
    return NX_LIKELY(Py_IS_TYPE(o, nxpy_tensor_class)) || Py_IS_TYPE(o, nxpy_parameter_class);
}
bool nxpy_asks(PyObject *o);                 /* so it is, or a mode answers */
/* What may be asked of a tensor: the commonest answer at once. */
#define NXPY_ASKS(o) (NX_UNLIKELY(!Py_IS_TYPE(o, nxpy_tensor_class) || nxpy_n_function_modes != 0) && nxpy_asks(o))
/* What modes and the arguments answer to a call. 1: *answer is it, NULL with an exception; 0: nobody answers. Of a method of
 * Tensor by its name, with self in front of n arguments; of arguments as a tuple, behind self (NULL), and a dict (NULL). */
int nxpy_ask(PyObject *function, PyObject *const *given, Py_ssize_t n, PyObject *keywords, PyObject **answer);
int nxpy_ask_method(const char *name, PyObject *self, PyObject *const *given, Py_ssize_t n, PyObject *keywords, PyObject **answer);
int nxpy_ask_tuple(PyObject *function, PyObject *self, PyObject *args, PyObject *keywords, PyObject **answer);
/* At the head of a method without arguments, and of one with a tuple of them. */
#define NXPY_ASK(self, name) \
    do { \
        PyObject *answer_; \
        if (NXPY_ASKS(self) && nxpy_ask_method(name, self, NULL, 0, NULL, &answer_)) return answer_; \
    } while (0)
#define NXPY_ASK_CALLED(self, name, args, keywords) \
    do { \
        PyObject *answer_; \
        if (NXPY_ASKS(self) && nxpy_ask_called(name, self, args, keywords, &answer_)) return answer_; \
    } while (0)
/* What is answered to a call of `asked`, which tells all its arguments by the names of a Python function. */
PyObject *nxpy_ask_python(PyObject *asked, PyObject *function, PyObject *args, PyObject *keywords);
PyObject *nxpy_tuple_of(PyObject *const *given, Py_ssize_t n);
PyObject *nxpy_dict_of(PyObject *const *values, PyObject *keywords); /* keywords NULL: an empty one */
int nxpy_mode_push(void **modes, int *n_modes, PyObject *mode); /* a thread's list of modes, and how many there are of all threads */
int nxpy_mode_pop(void **modes, int *n_modes);
int nxpy_add_overrides(PyObject *module);
int nxpy_add_asked(PyObject *asked, PyObject *o);   /* to a list: one of each class, before those that it derives from */
PyObject *nxpy_types_of(PyObject *asked);           /* their classes, a tuple */
/* dispatch.c: __torch_dispatch__, the same for operators. tensor.c: the object of class `type` of a tensor that nobody knows. */
int nxpy_add_dispatch(PyObject *module);
int nxpy_add_outside(PyObject *module); /* outside.c: operators of Python as graphs hold them */
PyObject *nxpy_object_of(PyTypeObject *type, nx_tensor *tensor); /* takes it, also on failure */
/* functions.c: what a function is called where it is used, "torch.add", and where it is, "torch."; NULL, "": none of ours. */
const char *nxpy_function_target(PyObject *function);
const char *nxpy_function_place(PyObject *function);

/* One overload with its parameter names interned, so that keywords compare by address. */
typedef struct nxpy_overload {
    const nx_op *op;
    PyObject *names[NXPY_MAX_PARAMS];
} nxpy_overload;

/* Fills `args` for op from a call's arguments. 1: done; 0: they do not fit this overload, the reason is in `why`
 * (which may be NULL); -1: a Python exception is set. */
int nxpy_parse(const nxpy_overload *overload, bool is_method, PyObject *const *given, Py_ssize_t n_given, PyObject *keywords,
               nxpy_args *args, char *why, size_t why_bytes);

/* Calls op and wraps what it returns. */
PyObject *nxpy_call(const nx_op *op, const nx_value *in);

extern PyTypeObject nxpy_dtype_type, nxpy_generator_type;
/* Layouts and memory formats: named constants. */
typedef struct nxpy_word { PyObject_HEAD const char *name; uint32_t tag; int value; } nxpy_word;
typedef struct nxpy_generator { PyObject_HEAD nx_generator *generator; } nxpy_generator;
nx_generator *nxpy_generator_get(PyObject *o);
PyObject *nxpy_word_object(uint32_t tag, int value);
int nxpy_size_fix_format(nx_tensor *x, int64_t format); /* fixes what nx_lies_in_format() reads; 0, or -1 with an exception */
const char *nxpy_type_text(PyObject *o);              /* "Tensor", "int" ... as PyTorch's messages name it */
PyObject *nxpy_from_numpy(PyObject *array); /* a tensor over its memory */
/* Lent: the parts lie in the object. */
static inline nx_value nxpy_complex_value(PyObject *o) { return nx_value_complex((const double *)&((PyComplexObject *)o)->cval); }
bool nxpy_numpy_number(PyObject *o, nx_value *out); /* a bool or float of numpy's that is no Python float */

int nxpy_add_words(PyObject *module);
int nxpy_add_make(PyObject *module);                  /* tensor(), from_dlpack() */
extern PyMethodDef nxpy_tensor_methods[];
/* `to` gets the storage, layout and keys of `alias`, which nobody else knows and which goes. */
void nxpy_take_over(nx_tensor *to, nx_tensor *alias);
/* reshape.c: the in-place forms of views */
#define NXPY_IN_PLACE(view) PyObject *nxpy_tensor_##view##_(PyObject *self, PyObject *args, PyObject *keywords)
NXPY_IN_PLACE(t);
NXPY_IN_PLACE(transpose);
NXPY_IN_PLACE(swapaxes);
NXPY_IN_PLACE(swapdims);
NXPY_IN_PLACE(squeeze);
NXPY_IN_PLACE(unsqueeze);
NXPY_IN_PLACE(as_strided);
#undef NXPY_IN_PLACE
extern PyGetSetDef nxpy_tensor_getset[];
extern PyNumberMethods nxpy_tensor_numbers;
/* Without dimensions, of the dtype that the number has beside `other`, if that is a tensor. */
PyObject *nxpy_number_tensor(PyObject *number, PyObject *other);
PyObject *nxpy_tensor_compare(PyObject *a, PyObject *b, int word);
int nxpy_find_number_ops(void);                       /* looks up the operators behind + * @ < and the like */
/* index.c: x[key], x[key] = value */
int nxpy_find_index_ops(void);
PyObject *nxpy_tensor_getitem(PyObject *self, PyObject *key);
int nxpy_tensor_setitem(PyObject *self, PyObject *key, PyObject *value);
PyObject *nxpy_tensor_tolist(PyObject *self, PyObject *unused);
PyObject *nxpy_tensor_item(PyObject *self, PyObject *unused);
PyObject *nxpy_tensor_dlpack(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *nxpy_tensor_dlpack_device(PyObject *self, PyObject *unused);

#endif
