/* A call's way to a function: the keys of its tensors and of the thread, then the row of the highest one.
 * Nothing here allocates or looks at a shape. Next: front.c, which stands at the devices' keys. */
#include "dispatch/private.h"

static uint64_t keys_of_value(const nx_value *value) {
    uint64_t keys = 0;
    if (value->tag == NX_TAG_TENSOR) return value->tensor->keys;
    if (value->tag == NX_TAG_LIST) {
        for (int i = 0; i < value->n; i++) keys |= keys_of_value(&value->list[i]);
    }
    return keys;
}

uint64_t nx_keys_of(const nx_op *op, const nx_value *in) {
    const nx__op *own = nx__op_of(op);
    uint64_t keys = 0;
    for (int i = 0; i < op->n_tensors; i++) {
        const nx_value *value = &in[own->tensors[i]];
        keys |= NX_LIKELY(value->tag == NX_TAG_TENSOR) ? value->tensor->keys : keys_of_value(value);
    }
    return NX_LIKELY(keys != 0) ? keys : NX_DEVICE_KEY(nx_call_device(op, in));
}

static const nx_array *first_array(const nx_value *value) {
    if (value->tag == NX_TAG_TENSOR) return value->array;
    for (int i = 0; value->tag == NX_TAG_LIST && i < value->n; i++) {
        const nx_array *array = first_array(&value->list[i]);
        if (array) return array;
    }
    return NULL;
}

/* A 0-dim CPU tensor may stand beside tensors of another device, which then decide. */
nx_device nx_call_device(const nx_op *op, const nx_value *in) {
    const nx__op *own = nx__op_of(op);
    const nx_array *first = NULL;
    for (int i = 0; i < op->n_tensors; i++) {
        const nx_array *array = first_array(&in[own->tensors[i]]);
        if (array == NULL) continue;
        if (first == NULL) first = array;
        if (array->device.type != 0 || array->ndim > 0) {
            if (first->device.type == 0 && first->ndim == 0) first = array;
            break;
        }
    }
    if (first) return first->device;
    if (own->device_param < 0) return NX_CPU;
    return in[own->device_param].tag == NX_TAG_DEVICE ? in[own->device_param].device : nx_device_default();
}

nx_status nx_fail_keys(const nx_op *op) {
    return nx_fail(NX_RUNTIME, "%s: no device is left to compute it", op->def->name);
}

nx_status nx_op_call(const nx_op *op, const nx_value *in, nx_value *out) {
    const nx_thread *thread = nx_thread_get();
    uint64_t keys = (nx_keys_of(op, in) | thread->keys_included) & ~thread->keys_excluded;
    return nx_redispatch(op, keys, NX_N_KEYS, in, out);
}
