/* Storages. Small ones carry their payload behind the header in one block, and the smallest come from a list of the
 * thread; all others' memory, of whatever device, comes from memory.c. */
#include "core/core.h"

#include "core/private.h"

enum { MAX_INLINE = 2048, MAX_FREE = 64 };
_Static_assert(sizeof(nx_storage) == 64, "an inline payload must be 64-byte aligned");

nx_storage *(*nx_storage_of_capture)(nx_device device, size_t bytes, uint32_t *capture);

static nx_storage *take_listed(void) {
    nx_thread *thread = nx_thread_get();
    nx_storage *storage = thread->free_storages;
    if (storage == NULL || nx_alloc_watched()) return nx_alloc(sizeof(nx_storage) + NX__LISTED_BYTES);
    thread->free_storages = storage->context;
    thread->n_free_storages--;
    return storage;
}

static void give_listed(nx_storage *storage) {
    nx_thread *thread = nx_thread_get();
    if (thread->n_free_storages >= MAX_FREE || nx_alloc_watched()) {
        nx_free(storage);
        return;
    }
    storage->context = thread->free_storages;
    thread->free_storages = storage;
    thread->n_free_storages++;
}

static void init(nx_storage *storage, nx_device device, size_t bytes) {
    nx_count_start(&storage->refs);
    storage->version = 0;
    storage->data = NULL;
    storage->bytes = bytes;
    storage->device = device;
    storage->is_inline = false;
    storage->release = NULL;
    storage->context = NULL;
    storage->shown = NULL;
    storage->capture = 0;
}

static nx_status new_inline(size_t bytes, nx_storage **out) {
    nx_storage *storage = bytes <= NX__LISTED_BYTES ? take_listed() : nx_alloc(sizeof(nx_storage) + bytes);
    if (storage == NULL) return nx_fail_memory(bytes);
    init(storage, NX_CPU, bytes);
    storage->is_inline = true;
    storage->data = storage + 1;
    nx__profile_bytes(NX_CPU, (int64_t)bytes);
    *out = storage;
    return NX_OK;
}

static void release_memory(nx_storage *storage) {
    if (storage->data == NULL) return;
    nx__memory_give(storage->device, storage->bytes, storage->data, storage->context);
    nx__profile_bytes(storage->device, -(int64_t)storage->bytes);
}

nx_status nx_storage_new(nx_device device, size_t bytes, nx_storage **out) {
    if (device.type == 0 && bytes <= MAX_INLINE) return new_inline(bytes, out);
    uint32_t capture = 0;
    if (NX_UNLIKELY(nx_thread_get()->recorder != NULL) && (*out = nx_storage_of_capture(device, bytes, &capture)) != NULL)
        return NX_OK;
    nx_storage *storage = nx_alloc(sizeof *storage);
    if (storage == NULL) return nx_fail_memory(sizeof *storage);
    init(storage, device, bytes);
    storage->capture = capture;
    storage->release = release_memory;
    nx__block *block = NULL;
    nx_status status = bytes ? nx__memory_take(device, bytes, &storage->data, &block) : NX_OK;
    if (status != NX_OK) {
        nx_free(storage);
        return status;
    }
    storage->context = block;
    nx__profile_bytes(device, (int64_t)bytes);
    *out = storage;
    return NX_OK;
}

nx_status nx_storage_new_fake(nx_device device, size_t bytes, nx_storage **out) {
    nx_storage *storage = nx_alloc(sizeof *storage);
    if (storage == NULL) return nx_fail_memory(sizeof *storage);
    init(storage, device, bytes);
    *out = storage;
    return NX_OK;
}

static void release_shown(nx_storage *storage) { nx_storage_unref(storage->shown); }

nx_status nx_storage_share(nx_storage *of, nx_storage **out) {
    NX_TRY(nx_storage_new_fake(of->device, of->bytes, out));
    (*out)->data = of->data;
    (*out)->shown = nx_storage_ref(of->shown ? of->shown : of);
    (*out)->release = release_shown;
    return NX_OK;
}

nx_status nx_storage_record_stream(nx_storage *storage, nx_stream *stream) {
    nx_storage *of = storage->shown ? storage->shown : storage;
    if (of->release != release_memory || of->context == NULL) return NX_OK; /* not the allocator's, or without streams */
    return nx__memory_record_stream(of->device, of->context, stream);
}

nx_storage *nx_storage_ref(nx_storage *storage) {
    nx_count_up(&storage->refs);
    return storage;
}

void nx_storage_unref(nx_storage *storage) {
    if (storage == NULL || !nx_count_down(&storage->refs)) return;
    if (storage->release) storage->release(storage);
    if (storage->is_inline) nx__profile_bytes(NX_CPU, -(int64_t)storage->bytes);
    if (storage->is_inline && storage->bytes <= NX__LISTED_BYTES) give_listed(storage);
    else nx_free(storage);
}

void nx__free_storages(nx_thread *thread) {
    for (nx_storage *storage = thread->free_storages, *next; storage; storage = next) {
        next = storage->context;
        nx_free(storage);
    }
    thread->free_storages = NULL;
}

/* ---- rooms ------------------------------------------------------------------------------------------------ */
enum { ROOM_HEAD = 64 };
typedef struct room { nx__block *block; size_t bytes; } room; /* in front of a room */

void *nx_room_new(size_t bytes) {
    void *data;
    nx__block *block;
    if (bytes > PTRDIFF_MAX - ROOM_HEAD) return NULL;
    bytes += ROOM_HEAD;
    if (nx__memory_take(NX_CPU, bytes, &data, &block) != NX_OK) return NULL;
    *(room *)data = (room){block, bytes};
    nx__profile_bytes(NX_CPU, (int64_t)bytes);
    return (char *)data + ROOM_HEAD;
}

void nx_room_free(void *at) {
    if (at == NULL) return;
    room *r = (room *)((char *)at - ROOM_HEAD);
    nx__profile_bytes(NX_CPU, -(int64_t)r->bytes);
    nx__memory_give(NX_CPU, r->bytes, r, r->block);
}
