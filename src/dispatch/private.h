/* Shared by the files of src/dispatch alone. */
#ifndef NX_DISPATCH_PRIVATE_H
#define NX_DISPATCH_PRIVATE_H

#include "dispatch/dispatch.h"

enum { NX__MAX_IN = 64, NX__MAX_OUT = 8 };

/* What stands behind every nx_op: facts about the schema that a call would otherwise look up again. */
typedef struct nx__op {
    nx_op op;                                    /* first */
    uint64_t explicit_rows;                      /* keys that nx_library_impl filled */
    int8_t tensors[NX__MAX_IN];                  /* op.n_tensors parameters that may hold tensors */
    int8_t written[NX__MAX_OUT];                 /* argument that result k is, -1: a new one */
    int8_t device_param;                         /* -1: none */
    bool is_plain; /* one new result, computed by a kernel where its operands are */
    bool is_like; /* a point operator with nx_point.likes_floats; new result or in-place */
    char label[48];                              /* for messages: "add_" of "aten::add_.Tensor" */
    nx_kernel_fn *kernel[NX_MAX_DEVICE_TYPES];   /* of other devices, once asked for */
    _Atomic bool asked[NX_MAX_DEVICE_TYPES];
    _Atomic int64_t fallbacks;                   /* calls that ran on the CPU for another device */
} nx__op;
static inline nx__op *nx__op_of(const nx_op *op) { return (nx__op *)op; }

nx_status nx__kernel_nothing(nx_run *run, const nx_value *in,
                             nx_value *out); /* generated: of operators that only allocate */
/* NULL: nothing to compute. */
static inline nx_kernel_fn *nx__cpu_kernel(const nx_op *op) {
    return NX_UNLIKELY(nx_flag.reference) && op->def->ref ? op->def->ref : op->def->kernel;
}
nx_kernel_fn *nx__device_kernel(const nx_op *op, int type); /* NULL: the device has none */

/* written.c */
/* Whether result `meta` may go into argument `param` of the call, a tensor; an out= tensor of another size is resized. Counts
 * the write. */
nx_status nx__write_into(const nx_op *op, const nx_value *in, int param, const nx_meta *meta);
/* That no argument shares memory with the one that is written, `param`, where that is refused. */
NX_MUST_USE nx_status nx__check_overlap(const nx_op *op, const nx_value *in, int param);
/* As nx__write_into for what is copied when all results are there: inputs may be shared, and the copy counts the write. */
nx_status nx__fit_written(const nx_op *op, const nx_value *in, int param, const nx_meta *meta);

/* The same where the result is known to have the tensor's size and dtype. */
nx_status nx__write_over(const nx_op *op, const nx_value *in, int param);

/* Whether the call may write elements of argument `i`, which is no written one, before it has read them. */
bool nx__reads_what_it_writes(const nx_op *op, const nx_value *in, int i);

/* A tensor of a list that is written, whatever shape it has. */
nx_status nx__write_listed(nx_tensor *tensor);

/* fallback.c */
nx_status nx__run_on_cpu(const nx_run *run, const nx_value *in, nx_value *out);
nx_status nx__copy_between(nx_tensor *to, nx_tensor *from); /* devices, dtypes and layouts may differ */
nx_status nx__copy_new(nx_tensor *from, nx_tensor **out);   /* row-major, on the same device */

/* mask.c: nx_front for an operator with a list of indices. */
nx_status nx__front_masks(nx_run *run, const nx_value *in, nx_value *out);

#endif
