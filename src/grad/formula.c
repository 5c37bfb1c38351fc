/* The operators that backward itself needs: adding gradients, fitting one to a size, copying, ones.
 * All go through the dispatcher, so that they are recorded in a joint graph and can be differentiated. */
#include "grad/private.h"

#define OPERATORS(X)                                                                              \
    X(ADD, "aten::add.Tensor") X(ADD_IN_PLACE, "aten::add_.Tensor") X(SUM, "aten::sum.dim_IntList") \
    X(VIEW, "aten::view") X(CAST, "aten::_to_copy") X(ONES_LIKE, "aten::ones_like")               \
    X(CLONE, "aten::clone") X(EMPTY_LIKE, "aten::empty_like") X(COPY, "aten::copy_") X(ZERO, "aten::zero_")    \
    X(DETACH, "aten::detach") X(ZEROS_LIKE, "aten::zeros_like")
enum {
#define X(code, name) OP_##code,
    OPERATORS(X)
#undef X
    N_OPERATORS
};
static const char *const operator_names[N_OPERATORS] = {
#define X(code, name) name,
    OPERATORS(X)
#undef X
};
static const nx_op *_Atomic operators[N_OPERATORS]; /* looked up once; operators are never removed */

static nx_status call(int which, const nx_value *in, nx_tensor **out) {
    const nx_op *op = atomic_load_explicit(&operators[which], memory_order_relaxed);
    if (NX_UNLIKELY(op == NULL)) {
        NX_TRY(nx_op_find(operator_names[which], &op));
        atomic_store_explicit(&operators[which], op, memory_order_relaxed);
    }
    nx_value result = NX_VALUE_NONE;
    NX_TRY(nx_op_call(op, in, &result));
    *out = result.tensor;
    return NX_OK;
}

nx_status nx__call_named(const char *name, const nx_value *in, nx_tensor **out) {
    const nx_op *op;
    nx_value result = NX_VALUE_NONE;
    NX_TRY(nx_op_find(name, &op));
    NX_TRY(nx_op_call(op, in, &result));
    *out = result.tensor;
    return NX_OK;
}

enum { CONTIGUOUS = 0, PRESERVE = 1 }; /* nx_value.i of NX_TAG_MEMORY_FORMAT */
static nx_value format_value(int format) { return (nx_value){.tag = NX_TAG_MEMORY_FORMAT, .i = format}; }

nx_status nx__add(nx_tensor *a, nx_tensor *b, nx_tensor **out) {
    nx_value in[] = {nx_value_tensor(nx__takes(a, b) ? a : b), nx_value_tensor(nx__takes(a, b) ? b : a), nx_value_int(1)};
    return call(OP_ADD, in, out);
}

nx_status nx__add_in_place(nx_tensor *a, nx_tensor *b) {
    nx_tensor *same;
    NX_TRY(call(OP_ADD_IN_PLACE, (nx_value[]){nx_value_tensor(a), nx_value_tensor(b), nx_value_int(1)},
                &same));
    nx_tensor_unref(same);
    return NX_OK;
}

/* The seed of nearly every backward: one number, and nobody who would record the call. */
static bool is_plain_seed(const nx_tensor *like) {
    const nx_thread *thread = nx_thread_get();
    bool is_cpu = (like->keys & ~NX_KEY(AUTOGRAD)) == NX_DEVICE_KEY(NX_CPU);
    return is_cpu && like->a.numel == 1 && like->a.dtype == NX_F32 && thread->keys_included == 0 &&
           thread->recorder == NULL;
}

nx_status nx__ones_like(nx_tensor *like, nx_tensor **out) {
    const nx_value none = NX_VALUE_NONE;
    if (NX_LIKELY(is_plain_seed(like))) {
        NX_TRY(nx_tensor_new_like(&like->a, out));
        *(float *)(*out)->a.data = 1;
        return NX_OK;
    }
    return call(OP_ONES_LIKE,
                (nx_value[]){nx_value_tensor(like), none, none, none, none, format_value(PRESERVE)}, out);
}

nx_status nx__clone(nx_tensor *from, bool preserve_strides, nx_tensor **out) {
    return call(OP_CLONE, (nx_value[]){nx_value_tensor(from),
                                       format_value(preserve_strides ? PRESERVE : CONTIGUOUS)}, out);
}

nx_status nx__copy_into(nx_tensor *to, nx_tensor *from) {
    nx_tensor *same;
    NX_TRY(call(OP_COPY, (nx_value[]){nx_value_tensor(to), nx_value_tensor(from), nx_value_bool(false)}, &same));
    nx_tensor_unref(same);
    return NX_OK;
}

nx_status nx__zeros_of(nx_tensor *like, nx_tensor **out) {
    const nx_value none = NX_VALUE_NONE;
    return call(OP_ZEROS_LIKE, (nx_value[]){nx_value_tensor(like), none, none, none, none, format_value(PRESERVE)}, out);
}

nx_status nx__zero(nx_tensor *tensor) {
    nx_tensor *same;
    NX_TRY(call(OP_ZERO, (nx_value[]){nx_value_tensor(tensor)}, &same));
    nx_tensor_unref(same);
    return NX_OK;
}

nx_status nx__copy_like(nx_tensor *from, nx_tensor *like, nx_tensor **out) {
    const nx_value none = NX_VALUE_NONE;
    nx_tensor *made;
    NX_TRY(call(OP_EMPTY_LIKE,
                (nx_value[]){nx_value_tensor(like), none, none, none, none, format_value(PRESERVE)}, &made));
    nx_status status = nx__copy_into(made, from);
    if (status == NX_OK) *out = made;
    else nx_tensor_unref(made);
    return status;
}

nx_status nx__detach(nx_tensor *from, nx_tensor **out) {
    return call(OP_DETACH, (nx_value[]){nx_value_tensor(from)}, out);
}

/* A view counts together with its base, which holds the storage as well. */
bool nx__is_sole(const nx_tensor *tensor) {
    if (atomic_load_explicit(&tensor->refs, memory_order_relaxed) != 1 || tensor->python ||
        tensor->storage == NULL || tensor->storage->shown) return false;
    int32_t holders = atomic_load_explicit(&tensor->storage->refs, memory_order_relaxed);
    const nx_tensor *base = tensor->base;
    if (base == NULL) return holders == 1;
    return holders == 2 && atomic_load_explicit(&base->refs, memory_order_relaxed) == 1 &&
        base->python == NULL;
}

nx_status nx_grad_sum_to(nx_tensor *g, const nx_array *like, nx_tensor **out) {
    int64_t dims[NX_MAX_DIMS];
    int n = 0, leading = g->a.ndim - like->ndim;
    if (nx_same_size(&g->a, like)) {
        *out = nx_tensor_ref(g);
        return NX_OK;
    }
    if (leading < 0 || !nx_expandable(like->sizes, like->ndim, g->a.sizes, g->a.ndim)) {
        return nx_fail(NX_RUNTIME, "backward: a gradient of %d dimensions cannot be summed to the size of "
                       "its %d-dimensional input: the sizes do not broadcast", g->a.ndim, like->ndim);
    }
    for (int d = 0; d < g->a.ndim; d++) {
        if (d < leading || (like->sizes[d - leading] == 1 && g->a.sizes[d] != 1)) dims[n++] = d;
    }
    nx_tensor *sum = nx_tensor_ref(g);
    if (n > 0) {
        nx_tensor_unref(sum);
        nx_value in[] = {nx_value_tensor(g), nx_value_ints(dims, n), nx_value_bool(true), NX_VALUE_NONE};
        NX_TRY(call(OP_SUM, in, &sum));
    }
    if (leading == 0) {
        *out = sum;
        return NX_OK;
    }
    nx_status status = call(OP_VIEW,
                            (nx_value[]){nx_value_tensor(sum), nx_value_ints(like->sizes, like->ndim)}, out);
    nx_tensor_unref(sum);
    return status;
}

static void replace(nx_tensor **at, nx_tensor *with) {
    nx_tensor_unref(*at);
    *at = with;
}

nx_status nx__fit(nx_tensor **g, const nx_array *like) {
    const nx_array *a = &(*g)->a;
    nx_tensor *fitted;
    if (!nx_same_size(a, like)) {
        NX_TRY(nx_grad_sum_to(*g, like, &fitted));
        replace(g, fitted);
        a = &fitted->a;
    }
    bool same_device = nx_device_same(a->device, like->device);
    if (a->dtype == like->dtype && same_device) return NX_OK;
    const nx_value none = NX_VALUE_NONE;
    nx_value device = same_device ? none : nx_value_device(like->device);
    nx_value dtype = a->dtype == like->dtype ? none : nx_value_dtype((nx_dtype)like->dtype);
    nx_value in[] = {nx_value_tensor(*g), dtype, none, device, none, nx_value_bool(false), none};
    NX_TRY(call(OP_CAST, in, &fitted));
    replace(g, fitted);
    return NX_OK;
}
