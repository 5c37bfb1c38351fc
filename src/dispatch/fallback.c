/* Between devices. Two things: copies from one device to another, and operators that a device lacks, which
 * run on the CPU: the arguments' memory is brought over as bytes, so that this needs no kernel of the device,
 * the CPU's kernel runs, and what was written goes back. Each such call is counted (nx_fallback_name). */
#include "dispatch/private.h"

/* ---- copies -------------------------------------------------------------------------------------------- */
static bool same_layout(const nx_array *a, const nx_array *b) {
    return a->dtype == b->dtype && a->numel == b->numel && a->contiguous && b->contiguous;
}

static nx_status new_contiguous(const nx_array *like, nx_device device, nx_tensor **out) {
    return nx_tensor_new(like->dtype, like->ndim, like->sizes, device, out);
}

/* copy_ within one device, through its kernel. */
static nx_status copy_within(nx_tensor *to, nx_tensor *from) {
    const nx_op *op;
    NX_TRY(nx_op_find("aten::copy_", &op));
    nx_value in[NX__MAX_IN] = {nx_value_tensor(to), nx_value_tensor(from)}, out[1];
    for (int i = 2; i < op->def->n_in; i++) in[i] = op->def->params[i].initial;
    NX_TRY(nx_redispatch(op, NX_DEVICE_KEY(to->a.device), NX_N_KEYS, in, out));
    nx_tensor_unref(out[0].tensor);
    return NX_OK;
}

nx_status nx__copy_new(nx_tensor *from, nx_tensor **out) {
    NX_TRY(new_contiguous(&from->a, from->a.device, out));
    nx_status status = copy_within(*out, from);
    if (status != NX_OK) nx_tensor_unref(*out);
    return status;
}

/* Row-major on its own device, moved as bytes, then cast, broadcast or spread where it is going. */
nx_status nx__copy_between(nx_tensor *to, nx_tensor *from) {
    nx_tensor *packed = from->a.contiguous ? nx_tensor_ref(from) : NULL, *moved = NULL;
    nx_status status;
    if (packed == NULL) NX_TRY(nx__copy_new(from, &packed));
    if (same_layout(&to->a, &from->a)) {
        NX_TRY_FAIL(nx_device_copy(to, packed));
    } else {
        NX_TRY_FAIL(new_contiguous(&from->a, to->a.device, &moved));
        NX_TRY_FAIL(nx_device_copy(moved, packed));
        NX_TRY_FAIL(copy_within(to, moved));
    }
fail:
    nx_tensor_unref(packed);
    nx_tensor_unref(moved);
    return status;
}

/* ---- on the CPU instead -------------------------------------------------------------------------------- */
typedef struct twin { nx_tensor *theirs, *ours; } twin;
typedef struct twins { /* the call's tensors and what stands for them on the CPU */
    NX_VEC(twin) all;
} twins;

static void describe(const nx_tensor *tensor, nx_device device, int64_t offset, nx_meta *meta) {
    *meta = (nx_meta){.dtype = tensor->a.dtype, .device = device, .ndim = tensor->a.ndim, .view_of = -1};
    meta->offset = offset;
    for (int d = 0; d < tensor->a.ndim; d++) {
        meta->size[d] = tensor->a.sizes[d];
        meta->stride[d] = tensor->a.strides[d];
    }
}

/* The bytes that `tensor` touches, as a tensor of bytes over the same storage. */
static nx_status bytes_of(nx_tensor *tensor, const char *low, const char *high, nx_tensor **out) {
    nx_meta meta = {.dtype = NX_U8, .device = tensor->a.device, .ndim = 1, .view_of = -1};
    meta.offset = low - (const char *)tensor->storage->data;
    meta.size[0] = high - low;
    meta.stride[0] = 1;
    return nx_tensor_new_view(tensor->storage, &meta, tensor->keys, NULL, out);
}

static nx_status move_bytes(nx_tensor *to, nx_tensor *from) {
    const char *low, *high;
    nx_tensor *a = NULL, *b = NULL;
    nx_status status;
    nx_array_extent(&to->a, &low, &high);
    if (low == high) return NX_OK;
    NX_TRY_FAIL(bytes_of(to, low, high, &a));
    nx_array_extent(&from->a, &low, &high);
    NX_TRY_FAIL(bytes_of(from, low, high, &b));
    NX_TRY_FAIL(nx_device_copy(a, b));
fail:
    nx_tensor_unref(a);
    nx_tensor_unref(b);
    return status;
}

/* A CPU tensor of the same sizes and strides; with the elements when `filled`. */
static nx_status make_twin(nx_tensor *tensor, bool filled, nx_tensor **out) {
    const char *low, *high;
    nx_storage *storage;
    nx_meta meta;
    nx_array_extent(&tensor->a, &low, &high);
    NX_TRY(nx_storage_new(NX_CPU, (size_t)(high - low), &storage));
    describe(tensor, NX_CPU,
             low ? ((const char *)tensor->a.data - low) / (int64_t)nx_dtype_bytes(tensor->a.dtype) : 0,
             &meta);
    nx_status status = nx_tensor_new_view(storage, &meta, NX_DEVICE_KEY(NX_CPU), NULL, out);
    nx_storage_unref(storage);
    if (status != NX_OK || !filled) return status;
    status = move_bytes(*out, tensor);
    if (status != NX_OK) nx_tensor_unref(*out);
    return status;
}

static nx_status twin_of(twins *t, nx_tensor *tensor, bool filled, nx_tensor **out) {
    for (int i = 0; i < t->all.n; i++) {
        if (t->all.at[i].theirs != tensor) continue;
        *out = t->all.at[i].ours;
        return NX_OK;
    }
    NX_TRY(make_twin(tensor, filled, out));
    nx_status status = nx_vec_push(&t->all, ((twin){tensor, *out}));
    if (status != NX_OK) nx_tensor_unref(*out);
    return status;
}

static nx_status twin_value(twins *all, nx_device device, const nx_value *value, nx_value *list,
                            nx_value *out) {
    *out = *value;
    if (value->tag == NX_TAG_LIST) {
        for (int i = 0; i < value->n; i++) NX_TRY(twin_value(all, device, &value->list[i], NULL, &list[i]));
        out->list = list;
    }
    if (value->tag != NX_TAG_TENSOR || value->array->device.type == 0) return NX_OK;
    return twin_of(all, value->tensor, true, &out->tensor);
}

static nx_status run_twins(const nx_run *run, const nx_value *in, nx_value *out, twins *all,
                           nx_value *lists) {
    const nx_op_def *def = run->op->def;
    nx_value ours_in[NX__MAX_IN], ours_out[NX__MAX_OUT];
    nx_run cpu = {run->op, 0, NULL, NX_CPU};
    for (int i = 0; i < def->n_in; i++) {
        NX_TRY(twin_value(all, run->device, &in[i], lists, &ours_in[i]));
        if (in[i].tag == NX_TAG_LIST) lists += in[i].n;
    }
    for (int k = 0; k < def->n_out; k++) {
        ours_out[k] = out[k];
        if (out[k].tag == NX_TAG_TENSOR) NX_TRY(twin_of(all, out[k].tensor, false, &ours_out[k].tensor));
    }
    NX_TRY(nx__cpu_kernel(run->op)(&cpu, ours_in, ours_out));
    for (int k = 0; k < def->n_out; k++) {
        if (out[k].tag == NX_TAG_TENSOR) NX_TRY(move_bytes(out[k].tensor, ours_out[k].tensor));
    }
    for (int i = 0; i < def->n_in && def->n_out == 0; i++) { /* lists that were written */
        for (int k = 0; def->params[i].written && in[i].tag == NX_TAG_LIST && k < in[i].n; k++)
            NX_TRY(move_bytes(in[i].list[k].tensor, ours_in[i].list[k].tensor));
    }
    return NX_OK;
}

nx_status nx__run_on_cpu(const nx_run *run, const nx_value *in, nx_value *out) {
    int n_listed = 0;
    if (nx_capture_active(run->device)) {
        return nx_fail(
            NX_RUNTIME,
            "%s: device %s has no kernel for it, and running it on the CPU cannot be captured; supply a "
            "kernel or leave the operator outside",
            run->op->def->name, nx_device_type_name(run->device.type));
    }
    for (int i = 0; i < run->op->def->n_in; i++) n_listed += in[i].tag == NX_TAG_LIST ? in[i].n : 0;
    nx_value *lists = n_listed ? nx_alloc(sizeof *lists * (size_t)n_listed) : NULL;
    if (n_listed && lists == NULL) return nx_fail_memory(sizeof *lists * (size_t)n_listed);
    twins t = {0};
    nx_status status = run_twins(run, in, out, &t, lists);
    if (status == NX_OK) atomic_fetch_add(&nx__op_of(run->op)->fallbacks, 1);
    for (int i = 0; i < t.all.n; i++) nx_tensor_unref(t.all.at[i].ours);
    nx_vec_free(&t.all);
    nx_free(lists);
    return status;
}
