/* What a device must do before it is used: memory, copies, events, a kernel, order within a stream, capture and replay.
 * Each step is one function; the first that fails says what was expected. Runs on the new type's default stream through
 * the same functions as everything else, while nobody else can see the type. */
#include "device/private.h"

enum { N = 64 };

typedef struct bench {
    nx_device device;
    const nx_device_api *api;
    nx_tensor *a, *b, *host;
    float elements[N];
    const nx_op *op;      /* fill_.Scalar; NULL: the device has no such kernel */
    nx_kernel_fn *kernel;
} bench;

static nx_status fail_step(const char *step, const char *what) {
    return nx_fail(NX_RUNTIME, "self-test: %s: %s", step, what);
}

static nx_status expect(bench *t, nx_tensor *from, float first, float step, const char *name,
                        const char *what) {
    memset(t->host->a.data, 0xff, N * sizeof(float));
    NX_TRY(nx_device_copy(t->host, from));
    const float *got = t->host->a.data;
    for (int i = 0; i < N; i++) {
        if (got[i] == first + step * (float)i) continue;
        return nx_fail(NX_RUNTIME, "self-test: %s: %s: element %d is %g, expected %g", name, what, i, got[i],
                       first + step * (float)i);
    }
    return NX_OK;
}

static nx_status test_memory(bench *t) {
    void *block[4];
    static const size_t bytes[4] = {1, 64, 4096, 100000};
    int n = 0;
    nx_status status = NX_OK;
    for (; n < 4 && status == NX_OK; n += status == NX_OK) {
        status = t->api->memory_alloc(t->api->context, 0, NULL, bytes[n], &block[n]);
        if (status != NX_OK) break;
        if (block[n] == NULL || (uintptr_t)block[n] % 64 != 0)
            status = fail_step("memory_alloc", "a block is NULL or not 64-byte aligned");
        for (int k = 0; k < n && status == NX_OK; k++) {
            char *low = block[n], *other = block[k];
            if (low < other + bytes[k] && other < low + bytes[n])
                status = fail_step("memory_alloc", "two blocks overlap");
        }
    }
    for (int k = 0; k < n; k++) t->api->memory_free(t->api->context, 0, NULL, block[k]);
    return status;
}

static nx_status test_copies(bench *t) {
    float *at = t->host->a.data;
    for (int i = 0; i < N; i++) at[i] = 1 + 2 * (float)i;
    NX_TRY(nx_device_copy(t->a, t->host));
    memset(at, 0, N * sizeof *at); /* copy_in has returned, so the host may write here */
    NX_TRY(expect(t, t->a, 1, 2, "copy_in, copy_out", "what went in did not come out"));
    NX_TRY(nx_device_copy(t->b, t->a));
    return expect(t, t->b, 1, 2, "copy_within", "the copy differs");
}

static nx_status test_events(bench *t) {
    nx_stream *stream = nx_stream_current(t->device), *other = NULL;
    void *event = NULL, *context = t->api->context;
    NX_TRY(t->api->event_new(context, 0, &event));
    nx_status status = t->api->stream_new(context, 0, &other);
    if (status == NX_OK) status = t->api->event_record(context, event, stream);
    if (status == NX_OK) status = t->api->event_wait(context, event, other);
    if (status == NX_OK) status = t->api->event_synchronize(context, event);
    if (status == NX_OK) status = t->api->stream_synchronize(context, other);
    if (other) t->api->stream_free(context, other);
    t->api->event_free(context, event);
    return status;
}

static nx_status fill(bench *t, nx_tensor *tensor, double with) {
    nx_run run = {.op = t->op, .device = t->device};
    nx_value in[2] = {nx_value_tensor(tensor), nx_value_float(with)}, out[1] = {nx_value_tensor(tensor)};
    return nx_device_launch(t->kernel, &run, in, 2, out, 1);
}

static nx_status test_launch(bench *t) {
    NX_TRY(fill(t, t->a, 3));
    NX_TRY(fill(t, t->b, 4));
    NX_TRY(nx_device_copy(t->b, t->a));
    NX_TRY(fill(t, t->a, 5));
    NX_TRY(expect(t, t->b, 3, 0, "launch", "work did not run in the order in which it was given"));
    return expect(t, t->a, 5, 0, "launch", "the last launch was lost");
}

static nx_status test_capture(bench *t) {
    nx_span slot = {t->a->a.data, N * sizeof(float)};
    void *graph = NULL, *base = t->b->a.data;
    NX_TRY(nx_capture_begin(t->device));
    nx_status status = fill(t, t->a, 7), ended = nx_capture_end(t->device, &slot, 1, &graph);
    if (status == NX_OK) status = ended;
    if (status == NX_OK) status = expect(t, t->a, 5, 0, "capture", "a captured launch ran at once");
    if (status == NX_OK) status = nx_capture_replay(t->device, graph, &base, NULL);
    if (status == NX_OK)
        status = expect(t, t->b, 7, 0, "graph_replay", "the operand did not follow its slot");
    if (status == NX_OK)
        status = expect(t, t->a, 5, 0, "graph_replay", "memory outside the slot's new base was written");
    if (ended == NX_OK) nx_capture_destroy(t->device, graph);
    return status;
}

static nx_status run_steps(bench *t) {
    int64_t size[1] = {N};
    NX_TRY(test_memory(t));
    NX_TRY(nx_tensor_new(NX_F32, 1, size, t->device, &t->a));
    NX_TRY(nx_tensor_new(NX_F32, 1, size, t->device, &t->b));
    NX_TRY(nx_tensor_from_memory(t->elements, NX_F32, 1, size, NULL, NULL, NULL, &t->host));
    NX_TRY(test_copies(t));
    NX_TRY(test_events(t));
    t->kernel = t->api->find_kernel(t->api->context, "aten::fill_.Scalar");
    if (t->kernel == NULL || nx_op_find("aten::fill_.Scalar", &t->op) != NX_OK)
        return NX_OK; /* nothing to launch */
    NX_TRY(test_launch(t));
    return t->api->capture_begin ? test_capture(t) : NX_OK;
}

nx_status nx__device_self_test(nx_device device) {
    bench t = {.device = device, .api = nx_device_get_api(device.type)};
    nx_status status = run_steps(&t);
    if (status != NX_OK) status = nx_fail(status, "device %s: %s", t.api->name, nx_error_message());
    nx_tensor_unref(t.a);
    nx_tensor_unref(t.b);
    nx_tensor_unref(t.host);
    return status;
}
