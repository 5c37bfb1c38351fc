/* iter: the one place of type promotion, broadcasting, overlap checks, and of walking strided operands.
 * Generated shape rules and kernels call it. */
#ifndef NX_ITER_H
#define NX_ITER_H

#include "dispatch/dispatch.h"

/* ---- promotion: ATen's classes tensor > 0-dim tensor > Python number ----------------------------------- */
/* NX_N_DTYPES: PyTorch has no common type of these, and nx_fail_promotion() says so. */
nx_dtype nx_promote_types(nx_dtype a, nx_dtype b);
/* Common dtype of the given arguments (tensors, numbers, lists of them), or NX_N_DTYPES. */
nx_dtype nx_promote(const nx_value *const *args, int n);
nx_status nx_fail_promotion(const nx_value *const *args, int n);
nx_dtype nx_default_dtype(void);
NX_MUST_USE nx_status nx_set_default_dtype(nx_dtype dtype);

/* ---- shape rules --------------------------------------------------------------------------------------- */
/* Broadcast of the tensor arguments into meta->size; strides follow the operands' order as in PyTorch. `op`
 * for the message. The device is the one of the operands (0-dim CPU tensors are allowed beside another
 * device). */
NX_MUST_USE nx_status nx_meta_broadcast(const char *op, const nx_value *const *args, int n, nx_meta *meta);
/* Size of a reduction over `dims` (NONE or empty: all). Wraps and checks dims; fills mask with the reduced
 * ones. */
NX_MUST_USE nx_status nx_meta_reduce(const char *op, const nx_array *self, const nx_value *dims, bool keepdim,
                                     nx_meta *meta, bool *mask);
NX_MUST_USE nx_status nx_wrap_dim(const char *op, int64_t dim, int ndim, int *out);
NX_MUST_USE nx_status nx_infer_size(const char *op, const int64_t *size, int n, int64_t numel, int64_t *out);
/* Strides of a view of `self` with the new sizes; false: not possible without a copy. */
bool nx_regroup(const nx_array *self, const int64_t *size, int n, int64_t *stride);
bool nx_expandable(const int64_t *from, int n_from, const int64_t *to, int n_to);

/* ---- walking ------------------------------------------------------------------------------------------- */
enum { NX_MAX_OPERANDS = 8 };
/* Operands over one index space: dimensions are merged and ordered so that the innermost is long. */
typedef struct nx_walk {
    int n, ndim;
    char *ptr[NX_MAX_OPERANDS];
    int64_t size[NX_MAX_DIMS];
    int64_t step[NX_MAX_OPERANDS][NX_MAX_DIMS]; /* bytes; 0 where broadcast */
} nx_walk;
void nx_walk_start(nx_walk *walk, int ndim, const int64_t *size);
void nx_walk_add(nx_walk *walk, const nx_array *array);      /* broadcasts to the walk's size */
void nx_walk_merge(nx_walk *walk);
typedef void nx_walk_fn(void *arg, char *const *ptrs, const int64_t *steps, int64_t n);
void nx_walk_run(const nx_walk *walk, nx_walk_fn *inner, void *arg);
/* The same on several threads, if it is long; an element costs as much as moving `cost` bytes. `inner` may run on any of
 * them, and gets parts of the innermost dimension too. */
void nx_walk_spread(const nx_walk *walk, int64_t cost, nx_walk_fn *inner, void *arg);

/* Kernels for the kinds that are made of loops; run->op->def says which. */
/* The dtype whose loop a point operator takes, and the loop; NULL: it has none. `in` are all arguments. */
nx_dtype nx_point_dtype(const nx_point *point, const nx_value *in);
nx_loop_fn *nx_point_loop(const nx_point *point, const nx_value *in, nx_dtype dtype);
nx_status nx_point_kernel(nx_run *run, const nx_value *in, nx_value *out);
nx_status nx_reduce_kernel(nx_run *run, const nx_value *in, nx_value *out);
/* ---- folding in chunks of NX_REDUCE_CHUNK elements; eager and tile programs do it with these, hence the same bits -------- */
typedef struct nx_reduce_state { _Alignas(64) char bytes[64]; } nx_reduce_state; /* room for a state of any loop */
/* The states of chunks are merged in pairs, pairs of pairs and so on, so that what is lost to rounding grows with the
 * logarithm of their number. levels[k*width ..] holds `width` states, each of 2^k chunks; it needs no init. */
enum { NX_REDUCE_LEVELS = 48 };
void nx_reduce_push(const nx_reduce_loop *loop, nx_reduce_state *levels, int width, int64_t nth, nx_reduce_state *part);
/* All of n > 0 pushed chunks together: `width` states in `levels`. */
nx_reduce_state *nx_reduce_finish(const nx_reduce_loop *loop, nx_reduce_state *levels, int width, int64_t n);
typedef struct uint128_t { uint64_t low, high; } uint128_t; /* as complex128 is moved */
/* n elements, steps in bytes; the same address is allowed for one dtype, otherwise no overlap. */
void nx_cast(nx_dtype to_dtype, char *to, int64_t to_step, nx_dtype from_dtype, const char *from,
             int64_t from_step, int64_t n);
/* One Python number as an element of `dtype`; `to` has room for NX_MAX_ELEMENT_BYTES. */
void nx_number_store(nx_dtype dtype, const nx_value *number, char *to);
/* Elements of `from` cast into `to`, which has the broadcast size. */
void nx_copy_cast(const nx_array *to, const nx_array *from);
/* ---- what the row `elements` of an entry says ------------------------------------------------------------ */
/* Whether a dtype has a number, or at least rounds it; and the error where it does not. */
bool nx_number_fits(nx_dtype dtype, const nx_value *number);
nx_status nx_fail_number(const nx_run *run, nx_dtype dtype);
NX_MUST_USE nx_status nx_fill(const nx_run *run, const nx_array *to, nx_value number); /* into every element */
/* The part of an array that a view of it shows: over the same memory. */
typedef struct nx_part { nx_array array; int64_t dims[2 * NX_MAX_DIMS]; } nx_part;
/* `view` is the view's shape rule, `in` are its arguments, the first of them `whole`. */
NX_MUST_USE nx_status nx_part_of(const nx_array *whole, nx_meta_fn *view, const nx_value *in, nx_part *out);
/* The level in use. */
extern _Atomic int nx__level; /* -1: not known yet */
int nx__level_find(void);
const char *nx_level_name(int level);
NX_API bool nx_set_level(const char *name); /* tests: what runs eagerly from now on; false: this processor has no such */
static inline int nx_level(void) {
    int known = atomic_load_explicit(&nx__level, memory_order_relaxed);
    return NX_LIKELY(known >= 0 && !nx_flag.reference) ? known : nx__level_find();
}
/* Constant k of a point operator, the dtype's limit where `number` is NONE. */
void nx_point_constant(const nx_point *point, int k, const nx_value *number, nx_dtype computing, nx_const *to);
void nx_const_cast(nx_const *to, const nx_value *number,
                   nx_dtype computing); /* half types compute in float: .f */

/* ---- x[indices] ----------------------------------------------------------------------------------------- */
/* `indices` is a list of tensors and NONE, one for each leading dimension of x. */
typedef struct nx_indexed {
    int n_joint, n_rest;         /* dimensions that the indices broadcast to; dimensions of x without an index */
    int start;                   /* before which of the latter the former come: where they were, or in front */
    int64_t joint[NX_MAX_DIMS];
    int rest[NX_MAX_DIMS];
    int ndim;                    /* the result's */
    int64_t size[NX_MAX_DIMS];
} nx_indexed;
/* Refuses what is no index; looks at no element. */
NX_MUST_USE nx_status nx_index_shape(const char *op, const nx_array *x, const nx_value *indices, nx_indexed *out);
/* The size of what `values` are put into: without memory masks pick as many as there are. */
NX_MUST_USE nx_status nx_index_put_shape(const char *op, const nx_array *x, const nx_value *indices, const nx_array *values,
                                         nx_indexed *out);

/* ---- a product and a sum ---------------------------------------------------------------------------------------- */
typedef enum nx_pair { NX_PAIR_ADD, NX_PAIR_SUB, NX_PAIR_RSUB, NX_N_PAIRS } nx_pair; /* a*b + c, a*b - c, c - a*b */
/* n elements; a lies dense, b and c likewise or are one number. Each operation is rounded. `out` may be an operand. */
typedef void nx_pair_fn(char *out, const char *a, const char *b, bool b_held, const char *c, bool c_held, int64_t n);
nx_pair_fn *nx_pair_get(nx_pair pair, nx_dtype dtype); /* of float32 and float64; NULL: there is none */

/* ---- in the code of one level: NX_LANES vectors x of NX_LANES numbers of 32 bits, transposed in registers --------------------- */
/* One round: of rows `step` apart, the blocks off the diagonal change places. */
#define NX__KEEP(j, step) ((j) & (step) ? NX_LANES + (j) - (step) : (j))
#define NX__MOVE(j, step) ((j) & (step) ? NX_LANES + (j) : (j) + (step))
#define NX__PLACES_4(of, s) of(0, s), of(1, s), of(2, s), of(3, s)
#define NX__PLACES_8(of, s) NX__PLACES_4(of, s), of(4, s), of(5, s), of(6, s), of(7, s)
#define NX__PLACES_16(of, s)                                                                                  \
    NX__PLACES_8(of, s), of(8, s), of(9, s), of(10, s), of(11, s), of(12, s), of(13, s), of(14, s), of(15, s)
#define NX__PLACES(of, s) (places) {NX_PASTE(NX__PLACES, NX_LANES)(of, s)}
#define NX__ROUND(x, step)                                                                                    \
    _Pragma("GCC unroll 16") for (int r = 0; r < NX_LANES; r++) {                                             \
        if (r & (step)) continue;                                                                             \
        const __typeof__((x)[0]) low = __builtin_shuffle((x)[r], (x)[r + (step)], NX__PLACES(NX__KEEP, step)); \
        (x)[r + (step)] = __builtin_shuffle((x)[r], (x)[r + (step)], NX__PLACES(NX__MOVE, step));             \
        (x)[r] = low;                                                                                         \
    }
#define NX__ROUNDS_4(x) NX__ROUND(x, 1) NX__ROUND(x, 2)
#define NX__ROUNDS_8(x) NX__ROUNDS_4(x) NX__ROUND(x, 4)
#define NX__ROUNDS_16(x) NX__ROUNDS_8(x) NX__ROUND(x, 8)
#define NX_TURN(x)                                                                                            \
    {                                                                                                         \
        typedef int32_t places __attribute__((vector_size(4 * NX_LANES)));                                    \
        NX_PASTE(NX__ROUNDS, NX_LANES)(x)                                                                     \
    }

#endif
