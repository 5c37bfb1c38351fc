/* Tensors: making, sharing, freeing. The struct is in core.h. Sizes and strides lie in the tensor up to six dimensions,
 * else in a block of their own. Freed tensors wait in lists of their thread, with their storage if that is small. */
#include "core/private.h"

enum { MAX_FREE = 128 };

void (*nx_autograd_free)(struct nx_autograd *autograd);
void (*nx_python_free)(void *python);

static inline nx_tensor *take_listed(void) {
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

/* A dead tensor that was the last user of a small storage waits together with it. */
static bool keep_whole(nx_tensor *tensor) {
    nx_thread *thread = nx_thread_get();
    const nx_storage *storage = tensor->storage;
    if (storage == NULL || !storage->is_inline || storage->bytes > NX__LISTED_BYTES) return false;
    if (atomic_load_explicit(&storage->refs, memory_order_acquire) != 1 || nx_alloc_watched()) return false;
    if (thread->n_free_whole >= MAX_FREE) return false;
    tensor->base = thread->free_whole;
    thread->free_whole = tensor;
    thread->n_free_whole++;
    return true;
}

static inline nx_tensor *take_whole(size_t bytes) {
    nx_thread *thread = nx_thread_get();
    nx_tensor *tensor = thread->free_whole;
    if (tensor == NULL || bytes > NX__LISTED_BYTES || nx_alloc_watched()) return NULL;
    thread->free_whole = tensor->base;
    thread->n_free_whole--;
    tensor->storage->version = 0;
    tensor->storage->bytes = bytes;
    return tensor;
}

static void free_whole(nx_thread *thread) {
    for (nx_tensor *tensor = thread->free_whole, *next; tensor; tensor = next) {
        next = tensor->base;
        nx_free(tensor->storage);
        nx_free(tensor);
        thread->n_free_whole--;
    }
    thread->free_whole = NULL;
}

int nx__whole_stop(nx_thread *thread) {
    free_whole(thread);
    int before = thread->n_free_whole;
    if (before < MAX_FREE) thread->n_free_whole = MAX_FREE;
    return before;
}
void nx__whole_go_on(nx_thread *thread, int n) { thread->n_free_whole = n; }

static void free_thread_lists(nx_thread *thread) {
    nx_tensor *next;
    free_whole(thread);
    for (nx_tensor *tensor = thread->free_tensors; tensor; tensor = next) {
        next = tensor->base;
        nx_free(tensor);
    }
    thread->free_tensors = NULL;
    thread->n_free_tensors = 0;
    nx__free_storages(thread);
    nx__memory_end_thread(thread);
}

__attribute__((constructor)) static void watch_thread_ends(void) { nx__thread_end = free_thread_lists; }

/* A tensor with room for ndim dimensions and nothing else filled in. */
static inline nx_status new_bare(int ndim, nx_dtype dtype, nx_device device, uint64_t keys, nx_tensor **out) {
    if (ndim > NX_MAX_DIMS) return nx_fail(NX_RUNTIME, "tensor: %d dimensions, at most %d are possible", ndim, NX_MAX_DIMS);
    nx_tensor *tensor = take_listed();
    if (tensor == NULL) return nx_fail_memory(sizeof *tensor);
    int64_t *dims = tensor->dims;
    if (ndim > NX_INLINE_DIMS && (dims = nx_alloc(2 * sizeof *dims * (size_t)ndim)) == NULL) {
        give_listed(tensor);
        return nx_fail_memory(2 * sizeof *dims * (size_t)ndim);
    }
    nx_tensor_start(tensor, dims, ndim, dtype, device, keys);
    tensor->a.data = NULL;
    tensor->storage = NULL;
    *out = tensor;
    return NX_OK;
}

/* The same with a storage of `bytes`. */
static inline nx_status new_stored(int ndim, nx_dtype dtype, nx_device device, bool fake, size_t bytes, nx_tensor **out) {
    nx_tensor *tensor;
    fake |= nx_is_meta(device);
    uint64_t keys = NX_DEVICE_KEY(device) | (fake ? NX_KEY(FAKE) : 0);
    bool is_small = !fake && device.type == 0 && ndim <= NX_INLINE_DIMS;
    if (NX_LIKELY(is_small && (tensor = take_whole(bytes)) != NULL)) {
        nx_tensor_start(tensor, tensor->dims, ndim, dtype, device, keys);
        tensor->a.data = tensor->storage->data;
        *out = tensor;
        return NX_OK;
    }
    NX_TRY(new_bare(ndim, dtype, device, keys, &tensor));
    nx_status status = fake ? nx_storage_new_fake(device, bytes, &tensor->storage) : nx_storage_new(device, bytes, &tensor->storage);
    if (status != NX_OK) {
        nx_tensor_unref(tensor);
        return status;
    }
    tensor->a.data = tensor->storage->data;
    *out = tensor;
    return NX_OK;
}

/* False: there are more elements than can be counted. */
static bool fill_dims(nx_tensor *tensor, const int64_t *sizes, const int64_t *strides) {
    nx_array *a = &tensor->a;
    int64_t numel = 1;
    bool contiguous = true, overflows = false;
    for (int d = a->ndim - 1; d >= 0; d--) { /* with nx_array_refresh in one pass */
        a->sizes[d] = sizes[d];
        a->strides[d] = strides[d];
        contiguous = contiguous && (sizes[d] == 1 || strides[d] == numel);
        overflows |= __builtin_mul_overflow(numel, sizes[d], &numel);
    }
    a->numel = numel;
    a->contiguous = contiguous || numel == 0;
    return !overflows;
}

nx_status nx_tensor_new_meta(const nx_meta *meta, bool fake, nx_tensor **out) {
    size_t bytes = nx_meta_bytes(meta);
    if (bytes == SIZE_MAX) return nx_fail_bytes(meta->ndim, meta->size);
    NX_TRY(new_stored(meta->ndim, meta->dtype, meta->device, fake, bytes, out));
    fill_dims(*out, meta->size, meta->stride);
    return NX_OK;
}

nx_status nx_layout_start(nx_layout *layout, nx_meta *meta) {
    layout->array = (nx_array){.sizes = meta->size, .strides = meta->stride, .dtype = (uint8_t)meta->dtype,
                               .ndim = (uint8_t)meta->ndim, .device = meta->device};
    layout->bytes = nx_meta_bytes(meta);
    if (layout->bytes == SIZE_MAX) return nx_fail_bytes(meta->ndim, meta->size);
    nx_array_refresh(&layout->array);
    return NX_OK;
}

nx_status nx_tensor_new_layout(const nx_layout *layout, nx_tensor **out) {
    const nx_array *like = &layout->array;
    NX_TRY(new_stored(like->ndim, like->dtype, like->device, false, layout->bytes, out));
    nx_array *a = &(*out)->a;
    for (int d = 0; d < like->ndim; d++) {
        a->sizes[d] = like->sizes[d];
        a->strides[d] = like->strides[d];
    }
    a->numel = like->numel;
    a->contiguous = like->contiguous;
    return NX_OK;
}

nx_status nx_tensor_new_like(const nx_array *like, nx_tensor **out) {
    size_t bytes = (size_t)like->numel * nx_dtype_sizes[like->dtype];
    NX_TRY(new_stored(like->ndim, like->dtype, like->device, false, bytes, out));
    nx_array *a = &(*out)->a;
    int64_t stride = 1;
    for (int d = like->ndim - 1; d >= 0; d--) { /* as nx_meta_contiguous */
        int64_t size = a->sizes[d] = like->sizes[d];
        a->strides[d] = stride;
        stride *= size > 1 ? size : 1;
    }
    a->numel = like->numel;
    a->contiguous = true;
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

void nx_tensor_set_base(nx_tensor *view, nx_tensor *base) {
    bool unrecorded = nx_thread_get()->grad_disabled, may_have_grad = nx_is_differentiable(view->a.dtype);
    nx_tensor *root = base->base ? base->base : base;
    bool has_grad = (root->keys & NX_KEY(AUTOGRAD)) != 0;
    view->creation_meta = unrecorded ? NX_CREATION_NO_GRAD : base->creation_meta;
    view->base = nx_tensor_ref(root);
    view->attr_version = root->attr_version;
    view->is_apart = base->is_apart;
    if (!may_have_grad) return;
    if (!view->is_apart) view->keys |= root->keys & NX_KEY(FORWARD);
    if (!has_grad || NX_UNLIKELY(nx_tangents_open())) nx__view_list(view);
    if (has_grad && unrecorded) view->keys |= NX_KEY(AUTOGRAD); /* else src/grad sets it, with the history */
}

nx_status nx_tensor_new_view(nx_storage *storage, const nx_meta *meta, uint64_t keys, nx_tensor *base, nx_tensor **out) {
    nx_tensor *tensor;
    NX_TRY(new_bare(meta->ndim, meta->dtype, meta->device, keys, &tensor));
    if (NX_UNLIKELY(!fill_dims(tensor, meta->size, meta->stride))) {
        nx_tensor_unref(tensor);
        return nx_fail(NX_RUNTIME, "numel: integer multiplication overflow");
    }
    tensor->storage = nx_storage_ref(storage);
    tensor->offset = meta->offset;
    if (storage->data) tensor->a.data = (char *)storage->data + meta->offset * (int64_t)nx_dtype_bytes(meta->dtype);
    if (base) nx_tensor_set_base(tensor, base);
    *out = tensor;
    return NX_OK;
}

nx_status nx_tensor_new_shape(const nx_meta *meta, uint64_t keys, nx_tensor **out) {
    NX_TRY(new_bare(meta->ndim, meta->dtype, meta->device, keys, out));
    fill_dims(*out, meta->size, meta->stride); /* overflow: what it is a part of would have more elements */
    (*out)->offset = meta->offset;
    return NX_OK;
}

nx_status nx_tensor_alias(nx_tensor *from, nx_tensor **out) {
    nx_tensor *tensor;
    NX_TRY(new_bare(from->a.ndim, from->a.dtype, from->a.device, from->keys & ~NX_KEYS_OWN, &tensor));
    fill_dims(tensor, from->a.sizes, from->a.strides);
    tensor->storage = from->storage ? nx_storage_ref(from->storage) : NULL;
    tensor->whole = from->whole ? nx_tensor_ref(from->whole) : NULL;
    tensor->levels = from->levels;
    tensor->offset = from->offset;
    tensor->a.data = from->a.data;
    *out = tensor;
    return NX_OK;
}

nx_status nx_tensor_apart(nx_tensor *from, uint32_t version, nx_tensor **out) {
    nx_storage *storage = NULL;
    NX_TRY(nx_tensor_alias(from, out));
    if (from->storage == NULL) return NX_OK;
    nx_status status = nx_storage_share(from->storage, &storage);
    if (status != NX_OK) {
        nx_tensor_unref(*out);
        return status;
    }
    storage->version = version;
    nx_storage_unref((*out)->storage);
    (*out)->storage = storage;
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
    if (nx_meta_bytes(&meta) == SIZE_MAX) return nx_fail_bytes(meta.ndim, meta.size);
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
    if (tensor->is_listed) nx__view_unlist(tensor);
    if (tensor->base) nx_tensor_unref(tensor->base);
    if (tensor->whole) nx_tensor_unref(tensor->whole);
    if (tensor->a.sizes != tensor->dims) nx_free(tensor->a.sizes);
    if (NX_LIKELY(keep_whole(tensor))) return;
    nx_storage_unref(tensor->storage);
    give_listed(tensor);
}

nx_status nx_tensor_check_item(const nx_tensor *tensor) {
    if (NX_LIKELY(tensor->whole == NULL)) return NX_OK;
    return nx_fail(NX_RUNTIME, "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on "
                   "a Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere inside "
                   "PyTorch internals, please file a bug report.");
}
