/* The CPU's row of the device table. Work runs on the calling thread, in the order in which it is given, so streams and
 * events have nothing to do; a capture collects launches in the thread's recorder. */
#include "device/private.h"

#include <sched.h>

static char the_stream; /* an address */

static int device_count(void *context) { return 1; }

static nx_status memory_alloc(void *context, int index, nx_stream *stream, size_t bytes, void **out) {
    *out = nx_alloc(bytes < 64 ? 64 : bytes);
    return *out ? NX_OK : nx_fail_memory(bytes);
}
static void memory_free(void *context, int index, nx_stream *stream, void *block) { nx_free(block); }

static nx_status copy_bytes(void *context, nx_stream *stream, void *to, const void *from, size_t bytes) {
    if (bytes) memmove(to, from, bytes);
    return NX_OK;
}

static nx_status stream_new(void *context, int index, nx_stream **out) {
    *out = (nx_stream *)&the_stream;
    return NX_OK;
}
static void stream_free(void *context, nx_stream *stream) {}
static nx_status stream_synchronize(void *context, nx_stream *stream) { return NX_OK; }

static nx_status event_new(void *context, int index, void **out) {
    *out = &the_stream;
    return NX_OK;
}
static void event_free(void *context, void *event) {}
static nx_status event_with_stream(void *context, void *event, nx_stream *stream) { return NX_OK; }
static nx_status event_synchronize(void *context, void *event) { return NX_OK; }

static nx_kernel_fn *find_kernel(void *context, const char *op_name) {
    nx_kernel_fn *kernel;
    return nx_op_cpu_kernel(op_name, &kernel) == NX_OK ? kernel : NULL;
}

static nx_status launch(void *context, nx_stream *stream, nx_launch *launch) {
    struct nx_recorder *recorder = nx_thread_get()->recorder;
    if (recorder && recorder->list) return nx_launch_list_append(recorder->list, launch);
    nx_status status = nx_launch_run(launch);
    nx_launch_free(launch);
    return status;
}

static nx_status capture_begin(void *context, nx_stream *stream) {
    struct nx_recorder *recorder = nx_thread_get()->recorder;
    if (recorder == NULL) {
        return nx_fail(NX_RUNTIME, "capture: nx_capture_begin() begins a capture on the CPU");
    }
    return nx_launch_list_new(&recorder->list);
}

typedef struct graph {
    nx_launch_list *list;
    atomic_flag busy; /* the list runs on one thread at a time */
} graph;

static nx_status capture_end(void *context, nx_stream *stream, const nx_span *slots, int n_slots,
                             void **out) {
    struct nx_recorder *recorder = nx_thread_get()->recorder;
    if (recorder == NULL || recorder->list == NULL) {
        return nx_fail(NX_RUNTIME, "capture: none is active on the CPU");
    }
    nx_launch_list *list = recorder->list;
    recorder->list = NULL;
    graph *g = nx_alloc_zeroed(sizeof *g);
    nx_status status = g ? nx_launch_list_bind(list, slots, n_slots) : nx_fail_memory(sizeof *g);
    if (status == NX_OK) {
        g->list = list;
        *out = g;
        return NX_OK;
    }
    nx_launch_list_free(list);
    nx_free(g);
    return status;
}

/* The thread before us may need the interpreter's lock to go on. */
static void wait_for_turn(graph *g) {
    void *token = nx_block_begin();
    while (atomic_flag_test_and_set_explicit(&g->busy, memory_order_acquire)) sched_yield();
    nx_block_end(token);
}

static nx_status graph_replay(void *context, void *at, nx_stream *stream, void *const *bases,
                              nx_launch *keep) {
    graph *g = at;
    if (NX_UNLIKELY(atomic_flag_test_and_set_explicit(&g->busy, memory_order_acquire))) wait_for_turn(g);
    nx_status status = nx_launch_list_run(g->list, bases);
    atomic_flag_clear_explicit(&g->busy, memory_order_release);
    nx_launch_free(keep);
    return status;
}

static void graph_destroy(void *context, void *at) {
    graph *g = at;
    nx_launch_list_free(g->list);
    nx_free(g);
}

static nx_status generator_new(void *context, int index, nx_generator **out) { return nx_generator_new(out); }

const nx_device_api nx__cpu_api = {
    .size = sizeof(nx_device_api),
    .version = NX_DEVICE_API_VERSION,
    .name = "cpu",
    .device_count = device_count,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .copy_in = copy_bytes,
    .copy_out = copy_bytes,
    .copy_within = copy_bytes,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .stream_synchronize = stream_synchronize,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_with_stream,
    .event_wait = event_with_stream,
    .event_synchronize = event_synchronize,
    .find_kernel = find_kernel,
    .launch = launch,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_replay = graph_replay,
    .graph_destroy = graph_destroy,
    .generator_new = generator_new,
};
