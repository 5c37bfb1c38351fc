/* Levels, and what takes and gives slices. A slice is made of views of its whole by operators, so that gradients run through.
 * Next: call.c, where calls with slices arrive. */
#include "batch/private.h"

/* A number that no open level has. They go round, so that what outlives its level is not taken for a slice of the next one. */
static int next_number(nx_thread *thread) {
    bool taken = true;
    while (taken) {
        thread->last_level = (thread->last_level + 1) % 64;
        taken = false;
        for (int k = 0; k < thread->n_levels; k++) taken |= thread->levels[k].number == thread->last_level;
    }
    return thread->last_level;
}

nx_status nx_batch_enter(int64_t size, nx_randomness randomness, int *level) {
    nx_thread *thread = nx_thread_get();
    NX_TRY(nx__rules_start());
    if (thread->n_levels == NX_COUNT(thread->levels))
        return nx_fail(NX_RUNTIME, "vmap: %d maps inside of one another, no more are possible", thread->n_levels);
    *level = next_number(thread);
    int k = thread->n_levels++;
    thread->levels[k].size = size;
    thread->levels[k].number = (uint8_t)*level;
    thread->levels[k].randomness = (uint8_t)randomness;
    thread->keys_included |= NX_KEY(BATCHED);
    return NX_OK;
}

void nx_batch_leave(void) {
    nx_thread *thread = nx_thread_get();
    assert(thread->n_levels > 0);
    if (--thread->n_levels == 0) thread->keys_included &= ~NX_KEY(BATCHED);
}

/* 1 of a level that has ended. */
static int64_t size_of(int level) {
    const nx_thread *thread = nx_thread_get();
    for (int k = 0; k < thread->n_levels; k++) {
        if (thread->levels[k].number == level) return thread->levels[k].size;
    }
    return 1;
}

nx_status nx__slice_of(nx_tensor *whole, uint64_t levels, nx_tensor **out) {
    int n = __builtin_popcountll(levels);
    const nx_array *a = &whole->a;
    if (levels == 0) return *out = whole, NX_OK;
    assert(a->ndim >= n);
    nx_meta meta = {.dtype = (nx_dtype)a->dtype, .device = a->device, .ndim = a->ndim - n, .view_of = -1, .offset = whole->offset};
    for (int d = 0; d < meta.ndim; d++) {
        meta.size[d] = a->sizes[n + d];
        meta.stride[d] = a->strides[n + d];
    }
    uint64_t keys = NX_KEY(BATCHED) | (whole->keys & (NX_DEVICE_KEY(a->device) | NX_KEY(FAKE)));
    nx_tensor *slice;
    nx_status status = nx_tensor_new_shape(&meta, keys, &slice);
    if (status != NX_OK) return nx_tensor_unref(whole), status;
    slice->whole = whole;
    slice->levels = levels;
    *out = slice;
    return NX_OK;
}

/* ---- moving dimensions ----------------------------------------------------------------------------------------- */
static nx_status call_named(const char *name, const nx_value *in, nx_tensor **out) {
    nx_value result = NX_VALUE_NONE;
    uint64_t excluded = nx_keys_exclude(NX_KEY(BATCHED));
    nx_status status = nx__call_op(name, in, &result);
    nx_keys_restore(excluded);
    if (status == NX_OK) *out = result.tensor;
    return status;
}

/* Dimension `from` at the place `to`, the others in their order. */
static nx_status move(nx_tensor *x, int from, int to, nx_tensor **out) {
    int64_t dims[NX_MAX_DIMS];
    int n = x->a.ndim, at = 0;
    if (from == to) return *out = nx_tensor_ref(x), NX_OK;
    for (int d = 0; d < n; d++) {
        if (d == to) dims[d] = from;
        else dims[d] = (at += at == from, at++);
    }
    return call_named("aten::permute", (nx_value[]){nx_value_tensor(x), nx_value_ints(dims, n)}, out);
}

/* How many of a tensor's levels are outside of `level`: where its dimension is in the whole. */
static int place_of(uint64_t levels, int level) { return __builtin_popcountll(levels & ((UINT64_C(1) << level) - 1)); }

nx_status nx_batch_take(nx_tensor *tensor, int dim, int level, nx_tensor **out) {
    nx_tensor *moved, *whole = nx_tensor_whole(tensor);
    uint64_t before = nx_tensor_levels(tensor);
    assert(!(before >> level & 1));
    NX_TRY(move(whole, __builtin_popcountll(before) + dim, place_of(before, level), &moved));
    return nx__slice_of(moved, before | UINT64_C(1) << level, out);
}

/* Of no slice: `size` times the same. */
static nx_status repeat(nx_tensor *tensor, int dim, int64_t size, nx_tensor **out) {
    int64_t sizes[NX_MAX_DIMS];
    nx_tensor *whole = nx_tensor_whole(tensor), *one, *many;
    uint64_t levels = nx_tensor_levels(tensor);
    int at = __builtin_popcountll(levels) + dim, n = whole->a.ndim + 1;
    if (n > NX_MAX_DIMS) return nx_fail(NX_RUNTIME, "vmap: a result of %d dimensions", n);
    NX_TRY(call_named("aten::unsqueeze", (nx_value[]){nx_value_tensor(whole), nx_value_int(at)}, &one));
    for (int d = 0; d < n; d++) sizes[d] = d == at ? size : one->a.sizes[d];
    nx_value in[] = {nx_value_tensor(one), nx_value_ints(sizes, n), nx_value_bool(false)};
    nx_status status = call_named("aten::expand", in, &many);
    nx_tensor_unref(one);
    return status == NX_OK ? nx__slice_of(many, levels, out) : status;
}

nx_status nx_batch_give(nx_tensor *tensor, int dim, int level, nx_tensor **out) {
    uint64_t levels = nx_tensor_levels(tensor);
    nx_tensor *moved;
    if (!(levels >> level & 1)) return repeat(tensor, dim, size_of(level), out);
    NX_TRY(move(tensor->whole, place_of(levels, level), __builtin_popcountll(levels) - 1 + dim, &moved));
    return nx__slice_of(moved, levels & ~(UINT64_C(1) << level), out);
}

nx_status nx_batch_show(nx_tensor *tensor, uint64_t levels, nx_tensor **out) {
    nx_tensor *at = nx_tensor_ref(tensor), *next;
    for (int level = 63; level >= 0; level--) {
        if (!(levels >> level & 1)) continue;
        nx_status status = nx_batch_give(at, 0, level, &next);
        nx_tensor_unref(at);
        if (status != NX_OK) return status;
        at = next;
    }
    *out = at;
    return NX_OK;
}

nx_status nx_batch_hide(nx_tensor *tensor, uint64_t levels, nx_tensor **out) {
    nx_tensor *at = nx_tensor_ref(tensor), *next;
    for (int level = 0; level < 64; level++) {
        if (!(levels >> level & 1)) continue;
        nx_status status = nx_batch_take(at, 0, level, &next);
        nx_tensor_unref(at);
        if (status != NX_OK) return status;
        at = next;
    }
    *out = at;
    return NX_OK;
}

nx_status nx_batch_check_data(const nx_tensor *tensor) {
    if (NX_LIKELY(tensor->whole == NULL)) return NX_OK;
    return nx_fail(NX_RUNTIME, "Cannot access data pointer of Tensor that doesn't have storage");
}
