/* Where the allocator (src/core/memory.c) gets the memory of plugins' devices: their slots behind its calls. */
#include "device/private.h"

#include <unistd.h>

static const nx_device_api *api_of(nx_device device) { return nx__devices.type[device.type].api; }

static nx_status take(nx_device device, nx_stream *stream, size_t bytes, void **out) {
    const nx_device_api *api = api_of(device);
    return api->memory_alloc(api->context, device.index, stream, bytes, out);
}

static void give(nx_device device, nx_stream *stream, void *segment, size_t bytes) {
    const nx_device_api *api = api_of(device);
    api->memory_free(api->context, device.index, stream, segment);
}

static nx_status check(nx_device device) {
    const nx_device_api *api = api_of(device);
    return api->memory_check ? api->memory_check(api->context, device.index) : NX_OK;
}

static nx_status mark(nx_device device, nx_stream *stream, void **out) {
    const nx_device_api *api = api_of(device);
    NX_TRY(api->event_new(api->context, device.index, out));
    nx_status status = api->event_record(api->context, *out, stream);
    if (status != NX_OK) api->event_free(api->context, *out);
    return status;
}

/* A failed wait is the failure of work, which its stream tells; the mark is behind it all the same. */
static bool is_reached(nx_device device, void *mark, bool wait) {
    const nx_device_api *api = api_of(device);
    bool reached = wait;
    if (wait) (void)!api->event_synchronize(api->context, mark);
    else if (api->event_query && api->event_query(api->context, mark, &reached) != NX_OK) reached = false;
    if (reached) api->event_free(api->context, mark);
    return reached;
}

const nx_memory_source nx__memory_source = {
    .take = take, .give = give, .stream = nx_stream_current, .check = check, .mark = mark, .is_reached = is_reached};

nx_status nx_device_memory_info(nx_device device, size_t *free_bytes, size_t *total_bytes) {
    const nx_device_api *api = nx_device_get_api(device.type);
    if (api == NULL) return nx_fail(NX_RUNTIME, "mem_get_info: device type %d is not loaded", device.type);
    if (api->memory_info) return api->memory_info(api->context, device.index, free_bytes, total_bytes);
    if (device.type != 0) return nx_fail(NX_NOT_IMPLEMENTED, "mem_get_info: device %s does not tell", api->name);
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    *free_bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
    *total_bytes = nx_memory_of_machine();
    if (*free_bytes > *total_bytes) *free_bytes = *total_bytes;
    return NX_OK;
}
