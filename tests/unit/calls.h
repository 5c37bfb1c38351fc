/* For tests that call operators by name, or look at one number on any device. */
#ifndef CALLS_H
#define CALLS_H

#include "device/device.h"
#include "dispatch/dispatch.h"

static inline nx_status call(const char *name, const nx_value *in, nx_tensor **out) {
    const nx_op *op;
    nx_value result = NX_VALUE_NONE;
    NX_TRY(nx_op_find(name, &op));
    NX_TRY(nx_op_call(op, in, &result));
    *out = result.tensor;
    return NX_OK;
}

/* The number in a float32 tensor without dimensions. */
static inline nx_status item(nx_tensor *tensor, float *out) {
    nx_tensor *host;
    NX_TRY(nx_tensor_new(NX_F32, 0, NULL, NX_CPU, &host));
    nx_status status = nx_device_copy(host, tensor);
    if (status == NX_OK) *out = *(float *)host->a.data;
    nx_tensor_unref(host);
    return status;
}

#endif
