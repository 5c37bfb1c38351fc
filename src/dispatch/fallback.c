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
/* Memory of the device that the call's tensors lie in, and what stands for it: views of one tensor may interleave, so that what
 * is written goes back for all of them at once. */
typedef struct block {
    nx_storage *theirs;       /* lent */
    const char *low, *high;   /* what the tensors touch of it, from a multiple of 64 bytes on; NULL: no element */
    bool is_read, is_written;
    nx_storage *ours;         /* NULL: not yet made */
} block;
typedef struct twin { nx_tensor *theirs, *ours; } twin; /* the first is lent */
typedef struct twins { NX_VEC(block) blocks; NX_VEC(twin) tensors; } twins;

static block *find_block(const twins *t, const nx_tensor *tensor) {
    for (int i = 0; i < t->blocks.n; i++) {
        if (nx_storage_memory(t->blocks.at[i].theirs) == nx_storage_memory(tensor->storage)) return &t->blocks.at[i];
    }
    return NULL;
}

static nx_status note_tensor(twins *t, nx_tensor *tensor, bool is_read, bool is_written) {
    const char *low, *high, *start = tensor->storage->data;
    nx_array_extent(&tensor->a, &low, &high);
    block *at = find_block(t, tensor);
    if (at == NULL) {
        NX_TRY(nx_vec_push(&t->blocks, ((block){.theirs = tensor->storage})));
        at = &t->blocks.at[t->blocks.n - 1];
    }
    at->is_read |= is_read;
    at->is_written |= is_written;
    if (low == NULL) return NX_OK;
    low = start + (low - start) / 64 * 64;
    if (at->low == NULL || low < at->low) at->low = low;
    if (at->high == NULL || high > at->high) at->high = high;
    return NX_OK;
}

static nx_status note_value(twins *t, const nx_value *value, bool is_read, bool is_written) {
    if (value->tag == NX_TAG_LIST) {
        for (int i = 0; i < value->n; i++) NX_TRY(note_value(t, &value->list[i], is_read, is_written));
    }
    if (value->tag != NX_TAG_TENSOR || value->array->device.type == 0) return NX_OK;
    return note_tensor(t, value->tensor, is_read, is_written);
}

static nx_status bytes_of(nx_storage *storage, int64_t first, int64_t n, nx_tensor **out) {
    nx_meta meta = {.dtype = NX_U8, .device = storage->device, .ndim = 1, .view_of = -1, .offset = first};
    meta.size[0] = n;
    meta.stride[0] = 1;
    return nx_tensor_new_view(storage, &meta, NX_DEVICE_KEY(storage->device), NULL, out);
}

static nx_status move_block(const block *b, bool back) {
    nx_tensor *theirs = NULL, *ours = NULL;
    nx_status status;
    int64_t n = b->high - b->low;
    if (n == 0) return NX_OK;
    NX_TRY_FAIL(bytes_of(b->theirs, b->low - (const char *)b->theirs->data, n, &theirs));
    NX_TRY_FAIL(bytes_of(b->ours, 0, n, &ours));
    NX_TRY_FAIL(back ? nx_device_copy(theirs, ours) : nx_device_copy(ours, theirs));
fail:
    nx_tensor_unref(theirs);
    nx_tensor_unref(ours);
    return status;
}

static nx_status new_twin(const block *b, const nx_tensor *tensor, nx_tensor **out) {
    nx_meta meta = {.dtype = tensor->a.dtype, .device = NX_CPU, .ndim = tensor->a.ndim, .view_of = -1};
    if (tensor->a.numel) meta.offset = ((const char *)tensor->a.data - b->low) / (int64_t)nx_dtype_bytes(tensor->a.dtype);
    for (int d = 0; d < tensor->a.ndim; d++) {
        meta.size[d] = tensor->a.sizes[d];
        meta.stride[d] = tensor->a.strides[d];
    }
    return nx_tensor_new_view(b->ours, &meta, NX_DEVICE_KEY(NX_CPU), NULL, out);
}

static nx_status twin_of(twins *t, nx_tensor *tensor, nx_tensor **out) {
    for (int i = 0; i < t->tensors.n; i++) {
        if (t->tensors.at[i].theirs != tensor) continue;
        *out = t->tensors.at[i].ours;
        return NX_OK;
    }
    const block *b = find_block(t, tensor);
    assert(b && b->ours);
    NX_TRY(new_twin(b, tensor, out));
    nx_status status = nx_vec_push(&t->tensors, ((twin){tensor, *out}));
    if (status != NX_OK) nx_tensor_unref(*out);
    return status;
}

static nx_status twin_value(twins *all, const nx_value *value, nx_value *list, nx_value *out) {
    *out = *value;
    if (value->tag == NX_TAG_LIST) {
        for (int i = 0; i < value->n; i++) NX_TRY(twin_value(all, &value->list[i], NULL, &list[i]));
        out->list = list;
    }
    if (value->tag != NX_TAG_TENSOR || value->array->device.type == 0) return NX_OK;
    return twin_of(all, value->tensor, &out->tensor);
}

/* The results are written; those that are arguments, too, are read before. */
static nx_status bring(const nx_run *run, const nx_value *in, const nx_value *out, twins *all) {
    const nx_op_def *def = run->op->def;
    for (int i = 0; i < def->n_in; i++) NX_TRY(note_value(all, &in[i], true, def->params[i].written));
    for (int k = 0; k < def->n_out; k++) NX_TRY(note_value(all, &out[k], false, true));
    for (int i = 0; i < all->blocks.n; i++) {
        block *b = &all->blocks.at[i];
        NX_TRY(nx_storage_new(NX_CPU, (size_t)(b->high - b->low), &b->ours));
        if (b->is_read) NX_TRY(move_block(b, false));
    }
    return NX_OK;
}

static nx_status run_twins(const nx_run *run, const nx_value *in, nx_value *out, twins *all, nx_value *lists) {
    const nx_op_def *def = run->op->def;
    nx_value ours_in[NX__MAX_IN], ours_out[NX__MAX_OUT];
    nx_run cpu = {run->op, 0, NULL, NX_CPU};
    NX_TRY(bring(run, in, out, all));
    for (int i = 0; i < def->n_in; i++) {
        NX_TRY(twin_value(all, &in[i], lists, &ours_in[i]));
        if (in[i].tag == NX_TAG_LIST) lists += in[i].n;
    }
    for (int k = 0; k < def->n_out; k++) NX_TRY(twin_value(all, &out[k], NULL, &ours_out[k]));
    NX_TRY(nx__cpu_kernel(run->op)(&cpu, ours_in, ours_out));
    for (int i = 0; i < all->blocks.n; i++) {
        if (all->blocks.at[i].is_written) NX_TRY(move_block(&all->blocks.at[i], true));
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
    for (int i = 0; i < t.tensors.n; i++) nx_tensor_unref(t.tensors.at[i].ours);
    for (int i = 0; i < t.blocks.n; i++) nx_storage_unref(t.blocks.at[i].ours);
    nx_vec_free(&t.tensors);
    nx_vec_free(&t.blocks);
    nx_free(lists);
    return status;
}
