/* Streams and copies: default streams made at first use, the list of all streams of a device, waiting, and elements
 * moved between devices. Whatever waits gives the interpreter's lock away meanwhile, and asks from time to time whether
 * the user wants to stop: the work goes on, only the wait ends. */
#include "device/private.h"

enum { WAIT_US = 20000 }; /* between two polls */

static bool is_known(nx_device device) {
    return device.type >= 0 && device.type < NX_MAX_DEVICE_TYPES && nx__devices.type[device.type].api &&
           device.index >= 0 && device.index < nx__devices.type[device.type].n_devices;
}

static nx_status fail_unknown(nx_device device) {
    return nx_fail(NX_RUNTIME, "device %d of type %d is not loaded: load its plugin first", device.index,
                   device.type);
}

/* Under the lock. */
static nx_status new_stream(nx_device device, nx_stream **out) {
    nx__device_type *row = &nx__devices.type[device.type];
    nx_stream *stream;
    NX_TRY(row->api->stream_new(row->api->context, device.index, &stream));
    nx_status status = nx_vec_push(&row->streams, ((struct nx__stream_row){stream, device.index, false, 0}));
    if (status == NX_OK) *out = stream;
    else row->api->stream_free(row->api->context, stream);
    return status;
}

nx_status nx_stream_new(nx_device device, nx_stream **out) {
    if (!is_known(device)) return fail_unknown(device);
    nx__device_type *row = &nx__devices.type[device.type];
    pthread_mutex_lock(&row->lock);
    nx_status status = new_stream(device, out);
    pthread_mutex_unlock(&row->lock);
    nx_device_generator(device);
    return status;
}

/* Under the lock: its row; NULL: there is none. */
static struct nx__stream_row *find_stream(nx__device_type *row, const nx_stream *stream) {
    for (int i = 0; i < row->streams.n; i++) {
        if (row->streams.at[i].stream == stream) return &row->streams.at[i];
    }
    return NULL;
}

void nx_stream_free(nx_device device, nx_stream *stream) {
    if (stream == NULL) return;
    nx__device_type *row = &nx__devices.type[device.type];
    struct nx__stream_row *at;
    pthread_mutex_lock(&row->lock);
    while ((at = find_stream(row, stream)) != NULL && at->n_waiting > 0) pthread_cond_wait(&row->waited, &row->lock);
    if (at) *at = row->streams.at[--row->streams.n];
    pthread_mutex_unlock(&row->lock);
    /* Its blocks may serve others when its work is done, and before a new stream can have its address. */
    (void)!row->api->stream_synchronize(row->api->context, stream);
    nx_memory_forget_stream(device, stream);
    row->api->stream_free(row->api->context, stream);
}

static nx_stream *make_default(nx_device device) {
    nx__device_type *row = &nx__devices.type[device.type];
    pthread_mutex_lock(&row->lock);
    nx_stream *stream = row->stream[device.index];
    if (stream == NULL && new_stream(device, &stream) == NX_OK) {
        atomic_store_explicit(&row->stream[device.index], stream, memory_order_release);
    }
    pthread_mutex_unlock(&row->lock);
    nx_device_generator(device); /* before work is queued that draws: a later seed must not reach it */
    return stream;
}

/* NULL for the CPU, and with a message when the device's default stream could not be made. */
nx_stream *nx_stream_current(nx_device device) {
    if (device.type == 0) return NULL;
    nx_thread *thread = nx_thread_get();
    if (thread->stream[device.type] && thread->device_index[device.type] == device.index)
        return thread->stream[device.type];
    if (!is_known(device)) {
        (void)fail_unknown(device);
        return NULL;
    }
    nx_stream *stream =
        atomic_load_explicit(&nx__devices.type[device.type].stream[device.index], memory_order_acquire);
    return NX_LIKELY(stream != NULL) ? stream : make_default(device);
}

nx_status nx_stream_set_current(nx_device device, nx_stream *stream) {
    NX_TRY(nx_device_set_current(device));
    nx_thread_get()->stream[device.type] = device.type == 0 ? NULL : stream;
    return NX_OK;
}

void nx__stream_set_captures(nx_device device, const nx_stream *stream, bool captures) {
    nx__device_type *row = &nx__devices.type[device.type];
    pthread_mutex_lock(&row->lock);
    struct nx__stream_row *at;
    while ((at = find_stream(row, stream)) != NULL && captures && at->n_waiting > 0) /* who waits for it would be refused */
        pthread_cond_wait(&row->waited, &row->lock);
    if (at) at->captures = captures;
    pthread_mutex_unlock(&row->lock);
}

/* Another thread's capture is none of the caller's work; within its own the device refuses to wait. */
static bool is_waited_for(const struct nx__stream_row *row, nx_device device) {
    const struct nx_recorder *recorder = nx_thread_get()->recorder;
    return row->index == device.index && (!row->captures || (recorder && recorder->stream == row->stream));
}

/* One wait for a while; *done stays as it is when the work is done. */
static nx_status wait_a_while(const nx_device_api *api, nx_stream *stream, bool *done) {
    bool this_one = true;
    if (api->stream_wait) NX_TRY(api->stream_wait(api->context, stream, WAIT_US, &this_one));
    *done = *done && this_one;
    return NX_OK;
}

/* The streams that a wait is for, which nobody frees meanwhile. */
typedef struct waiting { nx_stream *few[16], **at; int n; } waiting;

static nx_status begin_waiting(nx_device device, waiting *out) {
    nx__device_type *row = &nx__devices.type[device.type];
    out->at = out->few;
    out->n = 0;
    pthread_mutex_lock(&row->lock);
    size_t bytes = sizeof *out->at * (size_t)row->streams.n;
    if (row->streams.n > NX_COUNT(out->few)) out->at = nx_alloc(bytes);
    for (int i = 0; out->at && i < row->streams.n; i++) {
        if (!is_waited_for(&row->streams.at[i], device)) continue;
        row->streams.at[i].n_waiting++;
        out->at[out->n++] = row->streams.at[i].stream;
    }
    pthread_mutex_unlock(&row->lock);
    return out->at ? NX_OK : nx_fail_memory(bytes);
}

static void end_waiting(nx_device device, waiting *w) {
    nx__device_type *row = &nx__devices.type[device.type];
    pthread_mutex_lock(&row->lock);
    for (int i = 0; i < w->n; i++) {
        struct nx__stream_row *at = find_stream(row, w->at[i]);
        assert(at && at->n_waiting > 0);
        at->n_waiting--;
    }
    pthread_cond_broadcast(&row->waited);
    pthread_mutex_unlock(&row->lock);
    if (w->at != w->few) nx_free(w->at);
}

/* Waits for every one of them, also after one has failed; the first failure is told. */
static nx_status wait_all(const nx_device_api *api, const waiting *w) {
    nx_status first = NX_OK;
    char message[sizeof nx_thread_get()->message];
    for (int i = 0; i < w->n; i++) {
        nx_status status = api->stream_synchronize(api->context, w->at[i]);
        if (status == NX_OK || first != NX_OK) continue;
        first = status;
        snprintf(message, sizeof message, "%s", nx_error_message());
    }
    return first == NX_OK ? NX_OK : nx_fail(first, "%s", message);
}

/* One round of nx_device_synchronize(). */
static nx_status synchronize_a_while(nx_device device, bool *done) {
    const nx_device_api *api = nx__devices.type[device.type].api;
    nx_status status = NX_OK;
    waiting w;
    NX_TRY(begin_waiting(device, &w));
    void *token = nx_block_begin();
    *done = true;
    for (int i = 0; i < w.n && *done && status == NX_OK; i++) status = wait_a_while(api, w.at[i], done);
    if (*done && status == NX_OK) status = wait_all(api, &w);
    end_waiting(device, &w); /* before the interpreter's lock is taken: who frees a stream may hold that */
    nx_block_end(token);
    return status;
}

nx_status nx_device_synchronize(nx_device device) {
    if (device.type == 0) return NX_OK;
    if (!is_known(device)) return fail_unknown(device);
    for (bool done = false; !done;) {
        NX_TRY(synchronize_a_while(device, &done));
        if (!done) NX_TRY(nx_poll());
    }
    return NX_OK;
}

/* ---- copies -------------------------------------------------------------------------------------------- */

static nx_status copy_in(nx_device device, void *to, const void *from, size_t bytes) {
    enum { SHORT = 64 << 10 }; /* up to here giving the lock away costs more than the copy */
    const nx_device_api *api = nx_device_get_api(device.type);
    nx_stream *stream = nx_stream_current(device);
    if (stream == NULL) return nx_thread_get()->error;
    void *token = bytes > SHORT ? nx_block_begin() : NULL;
    nx_status status = api->copy_in(api->context, stream, to, from, bytes);
    if (bytes > SHORT) nx_block_end(token);
    return status;
}

static nx_status copy_out(nx_device device, void *to, const void *from, size_t bytes) {
    const nx_device_api *api = nx_device_get_api(device.type);
    nx_stream *stream = nx_stream_current(device);
    if (stream == NULL) return nx_thread_get()->error;
    for (bool done = false; !done;) {
        void *token = nx_block_begin();
        done = true;
        nx_status status = nx_capture_active(device) ? NX_OK : wait_a_while(api, stream, &done);
        if (done && status == NX_OK) status = api->copy_out(api->context, stream, to, from, bytes);
        nx_block_end(token);
        if (status == NX_OK && !done) status = nx_poll();
        if (status != NX_OK) return status;
    }
    return NX_OK;
}

/* Between two devices that know nothing of each other: through host memory. */
static nx_status copy_across(nx_device to_device, void *to, nx_device from_device, const void *from,
                             size_t bytes) {
    void *block = nx_alloc(bytes);
    if (block == NULL) return nx_fail_memory(bytes);
    nx_status status = copy_out(from_device, block, from, bytes);
    if (status == NX_OK) status = copy_in(to_device, to, block, bytes);
    nx_free(block);
    return status;
}

static nx_status check_copy(const nx_tensor *to, const nx_tensor *from) {
    if (to->a.dtype != from->a.dtype || to->a.numel != from->a.numel || !to->a.contiguous ||
        !from->a.contiguous) {
        return nx_fail(
            NX_RUNTIME,
            "copy_: elements move between devices only between contiguous tensors of one dtype and size");
    }
    if (to->a.numel && (to->a.data == NULL || from->a.data == NULL)) {
        return nx_fail(NX_RUNTIME, "copy_: a tensor has no memory (it is fake)");
    }
    struct nx_recorder *recorder = nx_thread_get()->recorder;
    if (recorder == NULL) return NX_OK;
    return nx_fail(NX_RUNTIME,
                   "copy_: a copy between %s and %s cannot be captured: keep a captured graph on one device",
                   nx_device_type_name(from->a.device.type), nx_device_type_name(to->a.device.type));
}

nx_status nx_device_copy(nx_tensor *to, nx_tensor *from) {
    NX_TRY(check_copy(to, from));
    nx_device d = to->a.device, s = from->a.device;
    size_t bytes;
    NX_TRY(nx_array_bytes(&to->a, (nx_dtype)to->a.dtype, &bytes));
    if (bytes == 0) return NX_OK;
    if (!is_known(d)) return fail_unknown(d);
    if (!is_known(s)) return fail_unknown(s);
    if (d.type == 0 && s.type == 0) {
        memmove(to->a.data, from->a.data, bytes);
        return NX_OK;
    }
    if (d.type == 0) return copy_out(s, to->a.data, from->a.data, bytes);
    if (s.type == 0) return copy_in(d, to->a.data, from->a.data, bytes);
    if (d.type != s.type || d.index != s.index) return copy_across(d, to->a.data, s, from->a.data, bytes);
    const nx_device_api *api = nx_device_get_api(d.type);
    nx_stream *stream = nx_stream_current(d);
    if (stream == NULL) return nx_thread_get()->error;
    return api->copy_within(api->context, stream, to->a.data, from->a.data, bytes);
}
