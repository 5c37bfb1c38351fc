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
    bool requires_grad;            /* keyword of factories */
    int64_t ints[NXPY_MAX_INTS];
    nx_value list[NXPY_MAX_LIST];
    nxpy_block *blocks;
} nxpy_args;
void nxpy_args_end(nxpy_args *args);

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
bool nxpy_is_numpy_array(PyObject *o);
PyObject *nxpy_from_numpy(PyObject *array); /* a tensor over its memory */
/* Lent: the parts lie in the object. */
static inline nx_value nxpy_complex_value(PyObject *o) { return nx_value_complex(&((PyComplexObject *)o)->cval.real); }
bool nxpy_numpy_number(PyObject *o, nx_value *out); /* a bool or float of numpy's that is no Python float */

int nxpy_add_words(PyObject *module);
int nxpy_add_make(PyObject *module);                  /* tensor(), from_dlpack() */
extern PyMethodDef nxpy_tensor_methods[];
extern PyGetSetDef nxpy_tensor_getset[];
extern PyNumberMethods nxpy_tensor_numbers;
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
