/* dispatch: what an operator is at run time, and the way of a call to its kernel.
 * A call: keys of its tensors | thread's included keys & ~excluded; the highest key's row of op->table is called;
 * it does its part and goes on with nx_redispatch(). At a device's key stands the front: shape rule, allocation,
 * launch. The generator (gen/) fills one nx_op_def an operator. */
#ifndef NX_DISPATCH_H
#define NX_DISPATCH_H

#include "device/device.h"
#include "dispatch/loop.h"

typedef enum nx_type { /* of a parameter, as in the schema */
    NX_TYPE_TENSOR, NX_TYPE_TENSORS, NX_TYPE_INT, NX_TYPE_INTS, NX_TYPE_FLOAT, NX_TYPE_BOOL, NX_TYPE_SCALAR, NX_TYPE_STR,
    NX_TYPE_DTYPE, NX_TYPE_DEVICE, NX_TYPE_LAYOUT, NX_TYPE_MEMORY_FORMAT, NX_TYPE_GENERATOR, NX_TYPE_BOOLS,
    NX_TYPE_NUMBERS, NX_TYPE_GRAPH /* of operators that src/ir defines */
} nx_type;

typedef struct nx_param {
    const char *name;
    nx_type type;
    bool optional;       /* None is allowed */
    bool keyword_only;
    bool has_initial;    /* may be left out */
    bool written;        /* (a!) */
    bool number_too;     /* a Tensor parameter of a point operator that a Python number may take the place of */
    bool complex_too;    /* a number there may be complex */
    bool optional_elements; /* Tensor?[] */
    bool is_dim;         /* an int or ints that are dimensions of a tensor, or of a result */
    bool no_overlap;     /* may not share memory with what is written, as PyTorch refuses it */
    bool no_part_overlap; /* so where it is not all of it, element by element */
    int8_t int_list_of;  /* int[1]: a single int is allowed; bool[3]: exactly so many; 0 otherwise */
    nx_value initial;
} nx_param;
/* out=: a tensor that says nothing of the others. */
static inline bool nx_param_is_out(const nx_param *p) { return p->written && p->keyword_only; }

typedef enum nx_kind { NX_KIND_KERNEL, NX_KIND_POINT, NX_KIND_REDUCE, NX_KIND_VIEW, NX_KIND_COMPOSED } nx_kind;
/* Under autocast: computes in the lower dtype, in float32, in the widest of its arguments. */
typedef enum nx_autocast_policy {
    NX_AUTOCAST_NONE, NX_AUTOCAST_LOWER, NX_AUTOCAST_FLOAT32, NX_AUTOCAST_PROMOTE
} nx_autocast_policy;
typedef enum nx_variant { NX_FUNCTIONAL, NX_INPLACE, NX_OUT } nx_variant;
enum { /* nx_op_def.flags */
    NX_OP_MUTATES = 1,   /* writes in[0] (kinds mutate, in-place forms) or the last argument (out forms) */
    NX_OP_RANDOM = 2,    /* draws numbers: ordered, never merged or removed */
    NX_OP_FACTORY = 4,   /* no tensor decides the device; dtype, layout, device, pin_memory are its last but one arguments */
    NX_OP_OVERWRITES = 8,/* a mutating operator that never reads in[0]'s elements */
    NX_OP_COMMUTES = 16,
    NX_OP_COPIES_DEVICES = 32, /* arguments may lie on different devices (copy_) */
    NX_OP_DATA_SIZED = 64,   /* a result's size depends on elements: no graph can hold it */
    NX_OP_ELEMENTWISE = 512, /* each element written depends on those in its own place alone (point operators all do) */
    NX_OP_ONE_VALUE = 2048,  /* all that is written becomes the same: it may overlap itself */
    NX_OP_BY_PLACES = 1024,  /* a view that picks places of the storage, from the last argument on, however what it views lies */
    NX_OP_OUTSIDE = 4096,    /* its kernel is code of the program's: called when the program says so, never to try something */
    NX_OP_MASKS = 256,       /* a list of indices may hold masks: integers take their place at a device's key */
    NX_OP_LIST = 128         /* its one result is a list of tensors, as long as the arguments say; views, or composed */
};

/* Checks the arguments and says what the results will be. Tensors are read as arrays. */
typedef nx_status nx_meta_fn(const nx_value *in, nx_meta *out);
/* Gradients of the inputs whose bit is set in `needed`, as new references in grads[k] (NULL: none). `in` are the
 * call's arguments and `results` its results: those that the formula reads are whole, the others have only a shape.
 * Of lists the tensors with the key AUTOGRAD want gradients, one behind the other after the arguments': grads[n_in + i].
 * `g` has n_out gradients, of a list one for each tensor; NULL where undefined. */
typedef nx_status nx_backward_fn(const nx_value *in, nx_tensor *const *results, nx_tensor *const *g, uint64_t needed, nx_tensor **grads);
typedef struct nx_derivative {
    uint64_t inputs;        /* arguments that can carry gradients */
    uint64_t saves_in;      /* arguments whose elements the formulas read, by bit */
    uint64_t saves_out;     /* results likewise */
    /* saves of one input's formula, so that only what is needed is kept: */
    const uint64_t *saves_in_of, *saves_out_of; /* indexed by argument */
    nx_backward_fn *backward;
    uint64_t bare;          /* results that carry no gradient although their dtype could */
} nx_derivative;

/* Which loop a point operator takes: of the dtype T that its promoting arguments have in common; of T's float type
 * (division); of T, whose 0 and 1 become bool (comparisons). */
typedef enum nx_point_result {
    NX_POINT_COMMON, NX_POINT_FLOAT, NX_POINT_BOOL,
    NX_POINT_COMPLEX, /* of the complex type whose parts are T */
    NX_POINT_ARM /* FLOAT where the text that chooses the loop is absent, else COMMON */
} nx_point_result;
/* What an absent number of a point operator is: a limit of the dtype, infinite where that has infinities, or 0. */
typedef enum nx_absent {
    NX_ABSENT_LOWEST, NX_ABSENT_HIGHEST, NX_ABSENT_LOWEST_FINITE, NX_ABSENT_HIGHEST_FINITE, NX_ABSENT_ZERO
} nx_absent;
typedef nx_loop_fn *nx_loop_row[NX_N_LEVELS][NX_N_DTYPES];
typedef struct nx_point {
    int n_out, n_in, n_constants, n_promoting;
    int8_t in_param[8], constant_param[8];          /* which argument each operand and constant is */
    int8_t promoting_param[8];                      /* the arguments, numbers among them, that make T */
    nx_point_result result;
    bool likes_floats;  /* operands of one floating dtype give one result of it, and no check of the entry can then
                         * fail unless a constant is a bool or complex */
    nx_loop_row loop;                               /* by that dtype; NULL: not implemented */
    int arm_param, n_arms;                          /* a text chooses the loop: which argument, its texts, their loops */
    const char *const *arms;                        /* NULL: none */
    nx_loop_fn *const (*arm_loop)[NX_N_LEVELS][NX_N_DTYPES];
    uint8_t absent[8];  /* what each constant is where it is absent, an nx_absent */
    uint8_t divisor;    /* 1 + the argument that may hold no 0 when integers are computed; 0: none */
    uint16_t cost;      /* of the functions in it, for an element, in additions; of arms together */
    uint8_t exact;      /* operands by bit: a number or single element there keeps its digits beside a half type (mul's other) */
    bool arithmetic;    /* it only adds, subtracts and multiplies */
} nx_point;
/* Then its loop must not be run without the check that nx_point_kernel makes. */
static inline bool nx_point_may_fail(const nx_point *point, nx_dtype dtype) { return point->divisor && !nx_is_differentiable(dtype); }
typedef struct nx_reduce {
    int dim_param;       /* index of the dim argument, -1: all dimensions */
    int keepdim_param;   /* -1: False */
    const nx_reduce_loop *loop[NX_N_LEVELS][NX_N_DTYPES]; /* by the result's dtype */
} nx_reduce;

/* The viewed tensor's new value of the changed result `k` of a view: in are the view's arguments. *out is a new reference. */
typedef nx_status nx_inverse_fn(const nx_value *in, int k, nx_tensor *v, nx_tensor **out);

/* Fails, since a tensor of dtype `out` was given for a result of dtype `result`. */
typedef nx_status nx_into_fn(const char *op, nx_dtype result, nx_dtype out);

typedef struct nx_op_def {
    const char *name;       /* "aten::add.Tensor" */
    const char *schema;     /* in ATen's form */
    nx_kind kind;
    nx_variant variant;
    uint32_t flags;
    int n_in, n_out;
    const nx_param *params;
    const char *const *result_names; /* NULL: unnamed */
    nx_meta_fn *meta;       /* NULL for composed entries that dissolve */
    nx_kernel_fn *kernel;   /* the CPU's best */
    nx_kernel_fn *ref;      /* the meaning; NULL: kernel is it */
    nx_op_fn *compose;      /* `as`: calls other operators */
    bool dissolves;         /* composed, never seen below Autograd */
    bool casts;             /* so, and autocast casts what one of its parts is given */
    const nx_point *point;
    const nx_reduce *reduce;
    const nx_derivative *derivative; /* NULL: none (not differentiable, or dissolves) */
    const char *nograd;     /* why there is none */
    nx_inverse_fn *inverse; /* of views: `inverse` of the entry */
    const char *scatter;    /* of a view: the operator that is its inverse, on the base, the view and the view's other arguments */
    const uint64_t *linear; /* sets of arguments, by bit, that it is linear in, each taken together; forward mode reads it */
    int n_linear;
    const char *joins[2];   /* a sum and a product that it is in one call: `props joins(add.Tensor, mm)` */
    nx_autocast_policy autocast;
    nx_into_fn *into;       /* of an out form that casts to no other dtype; NULL: it does as its kind does */
    const char *functional, *inplace; /* names of the sibling forms, NULL: none */
    const char *source;     /* "ops/element/point.op:12" */
} nx_op_def;

struct nx_op {
    const nx_op_def *def;
    int index;
    nx_op_fn *table[NX_N_KEYS];
    const nx_op *functional, *inplace; /* siblings, NULL: none */
    int n_tensors;                     /* parameters that may hold tensors */
    /* Rules between operators, from the entries; NULL: there is none. */
    const nx_op *scatter;              /* of a view: its inverse, def->scatter */
    const nx_op *part;                 /* of such an inverse: the view */
    const nx_op *joined, *sum;         /* of a product: what it is in one call with a sum; of that: the sum */
};

/* ---- registration: def / impl / fallback ------------------------------------------------------------------ */
NX_MUST_USE nx_status nx_library_def(const nx_op_def *def);   /* `def` lives as long as the process */
NX_MUST_USE nx_status nx_library_impl(const char *op_name, int key, nx_op_fn *fn);
NX_MUST_USE nx_status nx_library_fallback(int key, nx_op_fn *fn); /* rows of `key` that nobody filled */
/* Operators that the graph's passes call or look for: known.def. None is NULL once the library has started. */
typedef enum nx_known_op {
#define NX_KNOWN_ROW(code, name, use) NX_KNOWN_##code,
#include "dispatch/known.def"
#undef NX_KNOWN_ROW
    NX_N_KNOWN
} nx_known_op;
const nx_op *nx_known(nx_known_op which);
/* Arguments of narthex::convolution_point (ops/window/conv.c), which begin with those of aten::convolution. */
enum { NX_POINT_TRANSPOSED = 6, NX_POINT_FACTOR = 9, NX_POINT_OFFSET, NX_POINT_OTHER, NX_POINT_LOW, NX_POINT_HIGH, NX_POINT_N_ARGS };
int nx_op_count(void);
const nx_op *nx_op_at(int index);
const nx_op *nx_op_get(const char *name);                     /* NULL when unknown */
/* Generated: defines every entry of ops/. Called once by the library's start. */
nx_status nx__register_ops(void);

/* ---- the call ------------------------------------------------------------------------------------------------ */
uint64_t nx_keys_of(const nx_op *op, const nx_value *in);     /* of the arguments alone */
/* The tensors that a call gave: its results, or those of its list. Returns how many. */
static inline int nx_results_of(const nx_op *op, nx_value *out, nx_value **results) {
    bool is_list = (op->def->flags & NX_OP_LIST) != 0;
    *results = is_list ? (nx_value *)out->list : out;
    return is_list ? out->n : op->def->n_out;
}
nx_status nx_fail_keys(const nx_op *op);
/* Goes on below key `at`: the highest key of `keys` under it. */
NX_MUST_USE static inline nx_status nx_redispatch(const nx_op *op, uint64_t keys, int at, const nx_value *in, nx_value *out) {
    keys &= (UINT64_C(1) << at) - 1;
    if (NX_UNLIKELY(keys == 0)) return nx_fail_keys(op);
    int highest = 63 - __builtin_clzll(keys);
    nx_run run = {op, keys ^ (UINT64_C(1) << highest), NULL, NX_CPU};
    return op->table[highest](&run, in, out);
}
/* The front: shape rule, allocation (or the written argument), launch. Stands at every device's key. */
nx_status nx_front(nx_run *run, const nx_value *in, nx_value *out);
/* Composition of the out form of a composed operator or a factory: the functional form's results are copied. */
nx_status nx_compose_out(nx_run *run, const nx_value *in, nx_value *out);
nx_status nx_front_fake(nx_run *run, const nx_value *in, nx_value *out); /* at FAKE */
/* Results' metas of a call without making them; view, new or written alike. A view's offset counts from the viewed
 * tensor's element 0; a written argument's meta has view_of set to it. */
NX_MUST_USE nx_status nx_op_meta(const nx_op *op, const nx_value *in, nx_meta *out);
/* Device that a call computes on: of the first tensor, of the device argument, else the CPU. */
nx_device nx_call_device(const nx_op *op, const nx_value *in);

/* A mask among indices, before dimension `dim` of x, must have x's sizes from there on. */
NX_MUST_USE nx_status nx_mask_check(const nx_array *x, int dim, const nx_array *mask);

/* "op: Expected all tensors to be on the same device ..." */
nx_status nx_fail_devices(const char *op, nx_device a, nx_device b);

/* ---- autocast, of this thread; `type` is a device type ----------------------------------------------------------- */
bool nx_autocast_enabled(int type);
nx_dtype nx_autocast_dtype(int type);
void nx_autocast_set(int type, bool enabled, nx_dtype dtype);
void nx_autocast_clear(void);     /* drops the casts that are kept */

/* ---- what may be written ---------------------------------------------------------------------------------------- */
bool nx_can_cast(nx_dtype from, nx_dtype to); /* as out= and in-place results allow */
/* "A view was created in no_grad mode and `what` modified inplace ..." */
nx_status nx_fail_unrecorded_view(const char *what);

/* Operators that a device lacks and that ran on the CPU instead: names and counts, for reports. */
int nx_fallback_count(void);
const char *nx_fallback_name(int k, int64_t *calls);
void nx_fallback_clear(void);

#endif
