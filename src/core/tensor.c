/* Tensors: making, sharing, freeing. The struct is in core.h. Sizes and strides lie in the tensor up to six dimensions,
 * else in a block of their own. Freed tensors wait in a list of their thread. */
#include "core/private.h"

enum { MAX_FREE = 128 };

void (*nx_autograd_free)(struct nx_autograd *autograd);
void (*nx_python_free)(void *python);

static nx_tensor *take_listed(void) {
    nx_thread *thread = nx_thread_get();
    nx_tensor *tensor = thread->free_tensors;
    if (tensor == NULL || nx_alloc_watched()) return nx_alloc(sizeof *tensor);
    thread->free_tensors = tensor->base;
    thread->n_free_tensors--;
    return tensor;
}

static void give_listed(nx_tensor *tensor) {
    nx_thread *thread = nx_thread_get();
    if (thread->n_free_tensors >= MAX_FREE || nx_alloc_watched()) {
        nx_free(tensor);
        return;
    }
    tensor->base = thread->free_tensors;
    thread->free_tensors = tensor;
    thread->n_free_tensors++;
}

static void free_thread_lists(nx_thread *thread) {
    nx__free_storages(thread);
    for (nx_tensor *tensor = thread->free_tensors, *next; tensor; tensor = next) {
        next = tensor->base;
        nx_free(tensor);
    }
    thread->free_tensors = NULL;
}

__attribute__((constructor)) static void watch_thread_ends(void) { nx__thread_end = free_thread_lists; }

/* A tensor with room for ndim dimensions and nothing else filled in. */
static nx_status new_bare(int ndim, nx_dtype dtype, nx_device device, uint64_t keys, nx_tensor **out) {
    if (ndim > NX_MAX_DIMS) return nx_fail(NX_RUNTIME, "tensor: %d dimensions, at most %d are possible", ndim, NX_MAX_DIMS);
    nx_tensor *tensor = take_listed();
    if (tensor == NULL) return nx_fail_memory(sizeof *tensor);
    int64_t *dims = tensor->dims;
    if (ndim > NX_INLINE_DIMS && (dims = nx_alloc(2 * sizeof *dims * (size_t)ndim)) == NULL) {
        give_listed(tensor);
        return nx_fail_memory(2 * sizeof *dims * (size_t)ndim);
    }
    tensor->a.data = NULL;
    tensor->a.sizes = dims;
    tensor->a.strides = dims + ndim;
    tensor->a.dtype = (uint8_t)dtype;
    tensor->a.ndim = (uint8_t)ndim;
    tensor->a.device = device;
    nx_count_start(&tensor->refs);
    tensor->keys = keys;
    tensor->storage = NULL;
    tensor->offset = 0;
    tensor->base = NULL;
    tensor->autograd = NULL;
    tensor->python = NULL;
    tensor->python_owned = tensor->is_parameter = false;
    *out = tensor;
    return NX_OK;
}

static void fill_dims(nx_tensor *tensor, const int64_t *sizes, const int64_t *strides) {
    for (int d = 0; d < tensor->a.ndim; d++) {
        tensor->a.sizes[d] = sizes[d];
        tensor->a.strides[d] = strides[d];
    }
    nx_array_refresh(&tensor->a);
}

static nx_status fail_size(const nx_meta *meta) {
    nx_text text = {0};
    nx_text_add_ints(&text, meta->size, meta->ndim);
    nx_status status = nx_fail(NX_RUNTIME, "Storage size calculation overflowed with sizes=%s", text.failed ? "" : text.at);
    nx_text_free(&text);
    return status;
}

nx_status nx_tensor_new_meta(const nx_meta *meta, bool fake, nx_tensor **out) {
    nx_tensor *tensor;
    size_t bytes = nx_meta_bytes(meta);
    if (bytes == SIZE_MAX) return fail_size(meta);
    NX_TRY(new_bare(meta->ndim, meta->dtype, meta->device, NX_DEVICE_KEY(meta->device) | (fake ? NX_KEY(FAKE) : 0), &tensor));
    fill_dims(tensor, meta->size, meta->stride);
    nx_status status = fake ? nx_storage_new_fake(meta->device, bytes, &tensor->storage)
                            : nx_storage_new(meta->device, bytes, &tensor->storage);
    if (status != NX_OK) {
        nx_tensor_unref(tensor);
        return status;
    }
    tensor->a.data = tensor->storage->data;
    *out = tensor;
    return NX_OK;
}

nx_status nx_tensor_new_like(const nx_array *like, nx_tensor **out) {
    nx_tensor *tensor;
    NX_TRY(new_bare(like->ndim, like->dtype, like->device, NX_DEVICE_KEY(like->device), &tensor));
    int64_t stride = 1;
    for (int d = like->ndim - 1; d >= 0; d--) { /* as nx_meta_contiguous */
        int64_t size = tensor->a.sizes[d] = like->sizes[d];
        tensor->a.strides[d] = stride;
        stride *= size > 1 ? size : 1;
    }
    tensor->a.numel = like->numel;
    tensor->a.contiguous = true;
    nx_status status = nx_storage_new(like->device, (size_t)like->numel * nx_dtype_bytes(like->dtype), &tensor->storage);
    if (NX_UNLIKELY(status != NX_OK)) {
        nx_tensor_unref(tensor);
        return status;
    }
    tensor->a.data = tensor->storage->data;
    *out = tensor;
    return NX_OK;
}

nx_status nx_tensor_new(nx_dtype dtype, int ndim, const int64_t *sizes, nx_device device, nx_tensor **out) {
    if (ndim < 0 || ndim > NX_MAX_DIMS) return nx_fail(NX_RUNTIME, "tensor: %d dimensions, 0 to %d are possible", ndim, NX_MAX_DIMS);
    nx_meta meta = {.dtype = dtype, .device = device, .ndim = ndim, .view_of = -1};
    for (int d = 0; d < ndim; d++) {
        if (sizes[d] < 0) return nx_fail(NX_RUNTIME, "tensor: size %lld of dimension %d is negative", (long long)sizes[d], d);
        meta.size[d] = sizes[d];
    }
    nx_meta_contiguous(&meta);
    return nx_tensor_new_meta(&meta, false, out);
}

nx_status nx_tensor_new_shape(const nx_array *like, nx_tensor **out) {
    NX_TRY(new_bare(like->ndim, like->dtype, like->device, NX_DEVICE_KEY(like->device), out));
    fill_dims(*out, like->sizes, like->strides);
    return NX_OK;
}

nx_status nx_tensor_new_view(nx_storage *storage, const nx_meta *meta, uint64_t keys, nx_tensor *base, nx_tensor **out) {
    nx_tensor *tensor;
    NX_TRY(new_bare(meta->ndim, meta->dtype, meta->device, keys, &tensor));
    fill_dims(tensor, meta->size, meta->stride);
    tensor->storage = nx_storage_ref(storage);
    tensor->offset = meta->offset;
    if (storage->data) tensor->a.data = (char *)storage->data + meta->offset * (int64_t)nx_dtype_bytes(meta->dtype);
    if (base) tensor->base = nx_tensor_ref(base->base ? base->base : base);
    *out = tensor;
    return NX_OK;
}

nx_status nx_tensor_alias(nx_tensor *from, nx_tensor **out) {
    nx_tensor *tensor;
    NX_TRY(new_bare(from->a.ndim, from->a.dtype, from->a.device, from->keys & ~NX_KEY(AUTOGRAD), &tensor));
    fill_dims(tensor, from->a.sizes, from->a.strides);
    tensor->storage = from->storage ? nx_storage_ref(from->storage) : NULL;
    tensor->offset = from->offset;
    tensor->a.data = from->a.data;
    *out = tensor;
    return NX_OK;
}

typedef struct memory_owner {
    void (*release)(void *context);
    void *context;
} memory_owner;

static void release_foreign(nx_storage *storage) {
    memory_owner *owner = storage->context;
    if (owner->release) owner->release(owner->context);
    nx_free(owner);
}

nx_status nx_tensor_from_memory(void *data, nx_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides,
                                void (*release)(void *context), void *context, nx_tensor **out) {
    if (ndim < 0 || ndim > NX_MAX_DIMS) return nx_fail(NX_RUNTIME, "tensor: %d dimensions, 0 to %d are possible", ndim, NX_MAX_DIMS);
    nx_meta meta = {.dtype = dtype, .device = NX_CPU, .ndim = ndim, .view_of = -1};
    for (int d = 0; d < ndim; d++) {
        meta.size[d] = sizes[d];
        if (strides) meta.stride[d] = strides[d];
    }
    if (strides == NULL) nx_meta_contiguous(&meta);
    if (nx_meta_bytes(&meta) == SIZE_MAX) return fail_size(&meta);
    nx_storage *storage;
    memory_owner *owner = nx_alloc(sizeof *owner);
    if (owner == NULL) return nx_fail_memory(sizeof *owner);
    nx_status status = nx_storage_new_fake(NX_CPU, nx_meta_bytes(&meta), &storage);
    if (status != NX_OK) goto fail;
    storage->data = data;
    status = nx_tensor_new_view(storage, &meta, NX_DEVICE_KEY(NX_CPU), NULL, out);
    if (status == NX_OK) {
        *owner = (memory_owner){release, context};
        storage->context = owner;
        storage->release = release_foreign;
    }
    nx_storage_unref(storage);
    if (status == NX_OK) return NX_OK;
fail:
    nx_free(owner);
    return status;
}

nx_tensor *nx_tensor_ref(nx_tensor *tensor) {
    nx_count_up(&tensor->refs);
    return tensor;
}

void nx_tensor_unref(nx_tensor *tensor) {
    if (tensor == NULL || !nx_count_down(&tensor->refs)) return;
    if (tensor->python_owned) nx_python_free(tensor->python);
    if (tensor->autograd) nx_autograd_free(tensor->autograd);
    nx_storage_unref(tensor->storage);
    if (tensor->base) nx_tensor_unref(tensor->base);
    if (tensor->a.sizes != tensor->dims) nx_free(tensor->a.sizes);
    give_listed(tensor);
}
