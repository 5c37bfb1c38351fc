/* Captures: between begin and end the calling thread's launches on the device's current stream are recorded and not
 * run. One capture a thread at a time. The recorder in the thread's block counts launches and notes the storages that
 * they mention; the launches themselves are kept by the device. */
#include "device/private.h"

#include <stdlib.h>

nx_status nx_capture_begin(nx_device device) {
    nx_thread *thread = nx_thread_get();
    const nx_device_api *api = nx_device_get_api(device.type);
    if (api == NULL) return nx_fail(NX_RUNTIME, "capture: device type %d is not loaded", device.type);
    if (thread->recorder) {
        return nx_fail(NX_RUNTIME, "capture: this thread captures already; end that capture first");
    }
    if (api->capture_begin == NULL) {
        return nx_fail(NX_NOT_IMPLEMENTED, "capture: device %s cannot capture: use mode max-autotune there",
                       api->name);
    }
    nx_stream *stream = nx_stream_current(device);
    if (stream == NULL && device.type != 0) return thread->error;
    static _Atomic uint32_t n_captures;
    struct nx_recorder *recorder = nx_alloc_zeroed(sizeof *recorder);
    if (recorder == NULL) return nx_fail_memory(sizeof *recorder);
    recorder->number = atomic_fetch_add(&n_captures, 1) + 1;
    recorder->device = device;
    recorder->stream = stream;
    thread->recorder = recorder;
    nx__stream_set_captures(device, stream, true);
    nx_status status = api->capture_begin(api->context, stream);
    if (status == NX_OK) return NX_OK;
    nx__stream_set_captures(device, stream, false);
    thread->recorder = NULL;
    nx_free(recorder);
    return status;
}

nx_status nx_capture_end(nx_device device, const nx_span *slots, int n_slots, void **graph) {
    nx_thread *thread = nx_thread_get();
    struct nx_recorder *recorder = thread->recorder;
    if (recorder == NULL || !nx_device_same(recorder->device, device)) {
        return nx_fail(NX_RUNTIME, "capture: none is active on this device");
    }
    const nx_device_api *api = nx_device_get_api(device.type);
    void *made;
    nx_status status = api->capture_end(api->context, recorder->stream, slots, n_slots, &made);
    nx__stream_set_captures(device, recorder->stream, false);
    if (status == NX_OK && recorder->failed) {
        api->graph_destroy(api->context, made);
        status = nx_fail(NX_RUNTIME, "capture: a launch could not be recorded, so there is no graph");
    }
    if (status == NX_OK) *graph = made;
    thread->recorder = NULL;
    nx_map_free(&recorder->storages);
    nx_free(recorder);
    return status;
}

nx_status nx_capture_replay(nx_device device, void *graph, void *const *bases, nx_launch *keep) {
    if (NX_LIKELY(device.type == 0 && nx_thread_get()->recorder == NULL)) /* where streams say nothing */
        return nx__cpu_api.graph_replay(nx__cpu_api.context, graph, NULL, bases, keep);
    const nx_device_api *api = nx_device_get_api(device.type);
    nx_stream *stream = nx_stream_current(device);
    nx_status status = NX_OK;
    if (nx_thread_get()->recorder) {
        status = nx_fail(NX_RUNTIME, "replay: this thread captures; a replay inside a capture is not possible");
    } else if (stream == NULL && device.type != 0) {
        status = nx_thread_get()->error;
    }
    if (NX_LIKELY(status == NX_OK)) return api->graph_replay(api->context, graph, stream, bases, keep);
    nx_launch_free(keep);
    return status;
}

void nx_capture_destroy(nx_device device, void *graph) {
    const nx_device_api *api = nx_device_get_api(device.type);
    if (graph && api) api->graph_destroy(api->context, graph);
}

bool nx_capture_active(nx_device device) {
    const struct nx_recorder *recorder = nx_thread_get()->recorder;
    return recorder && nx_device_same(recorder->device, device) && recorder->stream == nx_stream_current(device);
}

int nx_capture_n_launches(void) {
    const struct nx_recorder *recorder = nx_thread_get()->recorder;
    return recorder ? recorder->n_launches : 0;
}

nx_status nx__record(struct nx_recorder *recorder, nx_launch *launch) {
    for (int i = 0; i < launch->n_holds; i++) {
        nx_storage *storage = launch->holds[i];
        intptr_t mentions = (intptr_t)nx_map_get(&recorder->storages, storage);
        NX_TRY(nx_map_set(&recorder->storages, storage, (void *)(mentions + 1)));
        if (mentions == 0 && storage->capture == recorder->number) recorder->recent[recorder->n_recent++ % NX__RECENT] = storage;
    }
    recorder->n_launches++;
    return NX_OK;
}

/* What is recorded runs in the order of recording, so that memory which no tensor has any more may be used again by what is
 * recorded later, as it would be without a capture. Only for the same size: if it becomes the memory of a result, which is
 * new at each replay, all that is written there must fit. */
static nx_storage *find_unused(nx_device device, size_t bytes, uint32_t *capture) {
    struct nx_recorder *recorder = nx_thread_get()->recorder;
    if (recorder->failed) return NULL;
    *capture = recorder->number;
    int n = recorder->n_recent < NX__RECENT ? recorder->n_recent : NX__RECENT;
    for (int i = 1; i <= n; i++) {
        nx_storage *storage = recorder->recent[(recorder->n_recent - i) % NX__RECENT];
        if (storage->bytes != bytes || !nx_device_same(storage->device, device)) continue;
        intptr_t mentions = (intptr_t)nx_map_get(&recorder->storages, storage);
        if (atomic_load_explicit(&storage->refs, memory_order_acquire) != mentions) continue;
        storage->version = 0;
        return nx_storage_ref(storage);
    }
    return NULL;
}

__attribute__((constructor)) static void start(void) { nx_storage_of_capture = find_unused; }

static int by_base(const void *a, const void *b) {
    const char *x = ((const nx_span *)a)->base, *y = ((const nx_span *)b)->base;
    return x < y ? -1 : x > y;
}

/* slots: by address. */
static bool lies_in_slot(const nx_span *slots, int n_slots, const nx_storage *storage) {
    const char *data = storage->data;
    int low = 0, high = n_slots;
    while (low < high) { /* the first slot that begins behind data */
        int middle = (low + high) / 2;
        if ((const char *)slots[middle].base <= data) low = middle + 1;
        else high = middle;
    }
    return low > 0 && data + storage->bytes <= (const char *)slots[low - 1].base + slots[low - 1].bytes;
}

nx_status nx_capture_kept_bytes(const nx_span *slots, int n_slots, size_t *out) {
    const struct nx_recorder *recorder = nx_thread_get()->recorder;
    *out = 0;
    if (recorder == NULL || recorder->failed) return NX_OK;
    size_t room = sizeof *slots * (size_t)(n_slots + 1);
    nx_span *sorted = nx_alloc(room);
    if (sorted == NULL) return nx_fail_memory(room);
    if (n_slots) memcpy(sorted, slots, sizeof *slots * (size_t)n_slots);
    qsort(sorted, (size_t)n_slots, sizeof *sorted, by_base);
    for (int i = 0; i < recorder->storages.room; i++) {
        const nx_storage *storage = recorder->storages.slots[i].key;
        if (storage && !lies_in_slot(sorted, n_slots, storage)) *out += storage->bytes;
    }
    nx_free(sorted);
    return NX_OK;
}
