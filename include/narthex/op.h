/* Kernels: what computes an operator on a device. For device plugins and operator libraries. */
#ifndef NARTHEX_OP_H
#define NARTHEX_OP_H

#include "narthex/narthex.h"

/* What a kernel is told besides its arguments. Lives for the call. */
typedef struct nx_run {
    const nx_op *op;
    uint64_t keys;     /* dispatch keys that are still to come (src/dispatch) */
    nx_stream *stream; /* NULL on the CPU */
    nx_device device;
} nx_run;

/* The one calling convention. `in` holds all arguments in schema order, `out` the results.
 *  - As a kernel (below the device's key): tensors are nx_array (.array); out[i].array is allocated, has its
 *    final shape and dtype and may be written at once. For an operator that writes its argument (copy_, normal_)
 *    out[0] is that argument. A kernel allocates nothing that outlives it and never resizes.
 *  - As a boxed operator function (dispatch table): tensors are nx_tensor; out[i] is filled with new references. */
typedef nx_status nx_kernel_fn(nx_run *run, const nx_value *in, nx_value *out);
typedef nx_kernel_fn nx_op_fn;

/* The CPU's kernel of an operator, for devices whose memory the host can reach. Lent. */
NX_API NX_MUST_USE nx_status nx_op_cpu_kernel(const char *name, nx_kernel_fn **out);
/* "aten::add.Tensor"; lent. */
NX_API const char *nx_op_name(const nx_op *op);

#endif
