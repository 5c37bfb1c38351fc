/* Launches: a kernel call, run at once or packed as data.
 * The CPU runs the kernel on the calling thread. For other devices, and while the CPU's launches are recorded,
 * nx_launch_new() copies the whole call into one block: values, lists, arrays, dims, strings; it holds the storages,
 * so that memory cannot go before the work is done. A one-element CPU tensor beside another device travels by value.
 * Block: struct block | values of lists | arrays | holds | generators | hold_of | dims, ints, strings, elements. */
#include "device/private.h"

typedef struct block {
    nx_launch launch; /* first */
    int *hold_of;     /* n_arrays */
    int n_generators;
    nx_generator **generators;
    bool is_pooled;
    struct block *next_free;
} block;

typedef struct packer {
    block *b;
    bool on_cpu;            /* all arrays are the CPU's */
    int n_values, n_arrays, n_generators;
    size_t bytes;           /* of dims, ints, strings and elements */
    nx_value *values;       /* room for the next list */
    char *at;               /* room for the next bytes */
    nx_map held;            /* of the holds behind the first FEW: their numbers plus one */
} packer;
enum { FEW = 16 };

static size_t round8(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static bool travels_by_value(const packer *p, const nx_array *a) { return !p->on_cpu && a->device.type == 0; }

static nx_status measure_array(packer *p, const nx_array *a) {
    p->n_arrays++;
    p->bytes += 2 * sizeof(int64_t) * a->ndim;
    if (!travels_by_value(p, a)) return NX_OK;
    if (a->ndim != 0) {
        return nx_fail(
            NX_RUNTIME,
            "Expected all tensors to be on the same device, but a cpu tensor with %d dimensions was given to a "
            "kernel of another device: move it with .to(device)",
            a->ndim);
    }
    p->bytes += round8(nx_dtype_bytes(a->dtype));
    return NX_OK;
}

static nx_status measure(packer *p, const nx_value *value) {
    switch (value->tag) {
    case NX_TAG_TENSOR: return measure_array(p, value->array);
    case NX_TAG_INTS: p->bytes += sizeof(int64_t) * (size_t)value->n; return NX_OK;
    case NX_TAG_COMPLEX: p->bytes += 2 * sizeof(double); return NX_OK;
    case NX_TAG_STR: p->bytes += round8(strlen(value->str) + 1); return NX_OK;
    case NX_TAG_GENERATOR: p->n_generators++; return NX_OK;
    case NX_TAG_LIST:
        p->n_values += value->n;
        for (int i = 0; i < value->n; i++) NX_TRY(measure(p, &value->list[i]));
        return NX_OK;
    case NX_TAG_NODE:
    case NX_TAG_OPAQUE:
    case NX_TAG_GRAPH:
        return nx_fail(NX_TYPE,
                       "launch: a graph's node or a foreign object cannot be an argument of a kernel");
    default: return NX_OK;
    }
}

static void *take_bytes(packer *p, const void *from, size_t bytes) {
    void *to = p->at;
    if (bytes) memcpy(to, from, bytes);
    p->at += round8(bytes);
    return to;
}

/* Each storage once; of many, one that finds no room among those to look up may be held twice. */
static int hold(packer *p, nx_storage *storage) {
    nx_launch *launch = &p->b->launch;
    bool is_looked_up = launch->n_holds >= FEW;
    for (int i = 0; i < launch->n_holds && i < FEW; i++) {
        if (launch->holds[i] == storage) return i;
    }
    intptr_t found = is_looked_up ? (intptr_t)nx_map_get(&p->held, storage) : 0;
    if (found) return (int)found - 1;
    launch->holds[launch->n_holds] = nx_storage_ref(storage);
    found = ++launch->n_holds;
    if (is_looked_up) (void)!nx_map_set(&p->held, storage, (void *)found);
    return (int)found - 1;
}

static nx_array *pack_array(packer *p, nx_tensor *tensor) {
    nx_launch *launch = &p->b->launch;
    int k = launch->n_arrays++;
    nx_array *a = &launch->arrays[k];
    nx_array_copy(a, &tensor->a, (int64_t *)p->at);
    p->at += 2 * sizeof(int64_t) * a->ndim;
    p->b->hold_of[k] = -1;
    if (travels_by_value(p, a)) a->data = take_bytes(p, a->data, nx_dtype_bytes(a->dtype));
    else if (tensor->storage) p->b->hold_of[k] = hold(p, tensor->storage);
    return a;
}

static void pack(packer *p, const nx_value *value, nx_value *to) {
    *to = *value;
    switch (value->tag) {
    case NX_TAG_TENSOR: to->array = pack_array(p, value->tensor); break;
    case NX_TAG_INTS: to->ints = take_bytes(p, value->ints, sizeof(int64_t) * (size_t)value->n); break;
    case NX_TAG_COMPLEX: to->parts = take_bytes(p, value->parts, 2 * sizeof(double)); break;
    case NX_TAG_STR: to->str = take_bytes(p, value->str, strlen(value->str) + 1); break;
    case NX_TAG_GENERATOR: p->b->generators[p->b->n_generators++] = nx_generator_ref(value->generator); break;
    case NX_TAG_LIST: {
        nx_value *list = p->values;
        p->values += value->n;
        to->list = list;
        for (int i = 0; i < value->n; i++) pack(p, &value->list[i], &list[i]);
        break;
    }
    default: break;
    }
}

/* Blocks of ordinary calls are used again: they are made on one thread and freed on another, where malloc is slow.
 * Whoever frees pushes onto `freed`; whoever makes takes all of it at once, so that no block is seen twice. */
static struct {
    pthread_mutex_t lock;
    block *ready;             /* under lock */
    _Atomic(block *) freed;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};
enum { POOLED = 512 };

static block *take_block(size_t bytes) {
    if (bytes > POOLED || nx_alloc_watched()) return nx_alloc(bytes);
    pthread_mutex_lock(&pool.lock);
    if (pool.ready == NULL) pool.ready = atomic_exchange_explicit(&pool.freed, NULL, memory_order_acquire);
    block *b = pool.ready;
    if (b) pool.ready = b->next_free;
    pthread_mutex_unlock(&pool.lock);
    return b ? b : nx_alloc(POOLED);
}

static void give_block(block *b) {
    if (!b->is_pooled || nx_alloc_watched()) {
        nx_free(b);
        return;
    }
    b->next_free = atomic_load_explicit(&pool.freed, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&pool.freed, &b->next_free, b, memory_order_release,
                                                  memory_order_relaxed)) {}
}

/* Allocates the block and lays its parts out, all empty. */
static nx_status new_block(packer *p, int n_in, int n_out) {
    size_t n_values = (size_t)(n_in + n_out + p->n_values), n_arrays = (size_t)p->n_arrays;
    size_t bytes = round8(sizeof(block)) + sizeof(nx_value) * n_values +
                   (sizeof(nx_array) + sizeof(void *)) * n_arrays + sizeof(void *) * (size_t)p->n_generators +
                   round8(sizeof(int) * n_arrays) + p->bytes;
    block *b = p->b = take_block(bytes);
    if (b == NULL) return nx_fail_memory(bytes);
    char *at = (char *)b;
    *b = (block){.launch = {.n_in = n_in, .n_out = n_out},
                 .is_pooled = bytes <= POOLED && !nx_alloc_watched()};
    at += round8(sizeof *b);
    b->launch.in = (nx_value *)at;
    b->launch.out = b->launch.in + n_in;
    p->values = b->launch.out + n_out;
    at += sizeof(nx_value) * n_values;
    b->launch.arrays = (nx_array *)at;
    at += sizeof(nx_array) * n_arrays;
    b->launch.holds = (void **)at;
    at += sizeof(void *) * n_arrays;
    b->generators = (nx_generator **)at;
    at += sizeof(void *) * (size_t)p->n_generators;
    b->hold_of = (int *)at;
    p->at = at + round8(sizeof(int) * n_arrays);
    return NX_OK;
}

/* A result that is an argument (in-place forms) stays one array, as the kernel would see it in a direct call. */
static void pack_out(packer *p, const nx_value *in, int n_in, const nx_value *value, nx_value *to) {
    for (int i = 0; i < n_in && value->tag == NX_TAG_TENSOR; i++) {
        if (in[i].tag != NX_TAG_TENSOR || in[i].tensor != value->tensor) continue;
        *to = p->b->launch.in[i];
        return;
    }
    pack(p, value, to);
}

nx_status nx_launch_new(nx_kernel_fn *kernel, const nx_run *run, const nx_value *in, int n_in,
                        const nx_value *out, int n_out, nx_launch **launch) {
    packer p = {.on_cpu = run->device.type == 0};
    for (int i = 0; i < n_in; i++) NX_TRY(measure(&p, &in[i]));
    for (int i = 0; i < n_out; i++) NX_TRY(measure(&p, &out[i]));
    NX_TRY(new_block(&p, n_in, n_out));
    nx_launch *l = &p.b->launch;
    l->kernel = kernel;
    l->run = *run;
    for (int i = 0; i < n_in; i++) pack(&p, &in[i], &l->in[i]);
    for (int i = 0; i < n_out; i++) pack_out(&p, in, n_in, &out[i], &l->out[i]);
    nx_map_free(&p.held);
    *launch = l;
    return NX_OK;
}

static nx_status run_nothing(nx_run *run, const nx_value *in, nx_value *out) { return NX_OK; }

nx_status nx_launch_new_keep(nx_storage *const *storages, int n, nx_launch **out) {
    packer p = {.n_arrays = n};
    NX_TRY(new_block(&p, 0, 0));
    nx_launch *launch = &p.b->launch;
    launch->kernel = run_nothing;
    for (; launch->n_holds < n; launch->n_holds++)
        launch->holds[launch->n_holds] = nx_storage_ref(storages[launch->n_holds]);
    *out = launch;
    return NX_OK;
}

void nx_launch_free(nx_launch *launch) {
    if (launch == NULL) return;
    block *b = (block *)launch;
    for (int i = 0; i < launch->n_holds; i++) nx_storage_unref(launch->holds[i]);
    for (int i = 0; i < b->n_generators; i++) nx_generator_unref(b->generators[i]);
    give_block(b);
}

int nx__launch_hold_of(const nx_launch *launch, int k) { return ((const block *)launch)->hold_of[k]; }

nx_status nx__launch_failed(const nx_launch *launch, nx_status status) {
    const char *name = launch->run.op ? nx_op_name(launch->run.op) : NULL, *message = nx_error_message();
    if (name == NULL || strstr(message, name)) return status;
    return nx_fail(status, "%s: %s", name, message);
}

nx_status nx_launch_run(nx_launch *launch) {
    nx_status status = launch->kernel(&launch->run, launch->in, launch->out);
    return NX_LIKELY(status == NX_OK) ? NX_OK : nx__launch_failed(launch, status);
}

/* Work beside a capture would be done once, now, and be missing in every replay. */
static nx_status fail_beside_capture(const nx_run *run, const struct nx_recorder *recorder) {
    return nx_fail(
        NX_RUNTIME,
        "%s: computes on %s:%d while launches of %s:%d are captured: keep a captured graph on one device",
        run->op ? nx_op_name(run->op) : "kernel", nx_device_type_name(run->device.type), run->device.index,
        nx_device_type_name(recorder->device.type), recorder->device.index);
}

static nx_status launch_on(nx_kernel_fn *kernel, const nx_run *run, struct nx_recorder *recorder,
                           const nx_value *in, int n_in, const nx_value *out, int n_out) {
    if (recorder && !nx_device_same(recorder->device, run->device)) return fail_beside_capture(run, recorder);
    const nx_device_api *api = nx_device_get_api(run->device.type);
    if (api == NULL) return nx_fail(NX_RUNTIME, "launch: device type %d is not loaded", run->device.type);
    nx_stream *stream = nx_stream_current(run->device);
    if (stream == NULL && run->device.type != 0) return nx_thread_get()->error;
    nx_launch *launch;
    NX_TRY(nx_launch_new(kernel, run, in, n_in, out, n_out, &launch));
    launch->run.stream = stream;
    if (NX_LIKELY(recorder == NULL || recorder->stream != stream))
        return api->launch(api->context, stream, launch);
    nx_status status = nx__record(recorder, launch);
    if (status == NX_OK) status = api->launch(api->context, stream, launch);
    else nx_launch_free(launch);
    recorder->failed |= status != NX_OK;
    return status;
}

nx_status nx_device_launch(nx_kernel_fn *kernel, const nx_run *run, const nx_value *in, int n_in,
                           nx_value *out, int n_out) {
    struct nx_recorder *recorder = nx_thread_get()->recorder;
    if (NX_LIKELY(run->device.type == 0 && recorder == NULL)) {
        nx_run own = *run;
        return kernel(&own, in, out);
    }
    return launch_on(kernel, run, recorder, in, n_in, out, n_out);
}
