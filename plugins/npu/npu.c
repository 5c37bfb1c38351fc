/* The reference accelerator: the table that the framework reads, kernels by name, faults on demand.
 * A real device in software: its memory cannot be touched by the host, its streams run on threads of their own, it
 * captures and replays. Kernels are the CPU library's, called on the second mapping of the memory; what draws numbers is
 * its own, because its random numbers are. Read next: memory.c, stream.c, capture.c, generator.c. */
#include "npu.h"

#include <stdlib.h>
#include <string.h>

static _Atomic bool used, child, lost;
static _Atomic int64_t slow_copy_us;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

static void after_fork(void) { atomic_store(&child, atomic_load(&used)); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

void npu_mark_used(void) {
    pthread_once(&watch_once, watch_forks);
    atomic_store_explicit(&used, true, memory_order_relaxed);
}

bool npu_is_child(void) { return atomic_load_explicit(&child, memory_order_relaxed); }
int64_t npu_slow_copy_us(void) { return atomic_load_explicit(&slow_copy_us, memory_order_relaxed); }

nx_status npu_check(void) {
    if (__builtin_expect(npu_is_child(), 0)) {
        return nx_fail(NX_RUNTIME,
                       "Cannot re-initialize npu in forked subprocess: the device was used before the fork. "
                       "Use the 'spawn' start method");
    }
    if (__builtin_expect(atomic_load_explicit(&lost, memory_order_relaxed), 0)) {
        return nx_fail(NX_RUNTIME,
                       "npu: the device is lost; its results cannot be trusted: restart the process");
    }
    return NX_OK;
}

static int device_count(void *context) { return 1; }

static int compare_names(const void *key, const void *row) { return strcmp(key, *(const char *const *)row); }

/* What draws numbers draws them from this device's generator. */
static const struct { const char *name; nx_kernel_fn *kernel; } own[] = {
    {"normal_", npu_normal},
    {"normal_functional", npu_normal},
    {"bernoulli_.float", npu_bernoulli},
    {"multinomial", npu_multinomial},
    {"uniform_", npu_uniform},
    {"uniform", npu_uniform},
    {"exponential_", npu_exponential},
    {"exponential", npu_exponential},
    {"geometric_", npu_geometric},
    {"geometric", npu_geometric},
    {"cauchy_", npu_cauchy},
    {"cauchy", npu_cauchy},
    {"random_", npu_random},
    {"random", npu_random},
    {"random_.to", npu_random_to},
    {"random_.from", npu_random_from},
    {"random.from", npu_random_from},
};

static nx_kernel_fn *find_kernel(void *context, const char *op_name) {
    if (strncmp(op_name, "aten::", 6) != 0) return NULL;
    const char *name = op_name + 6;
    size_t n = (size_t)npu_n_official;
    if (bsearch(name, npu_official, n, sizeof *npu_official, compare_names) == NULL) return NULL;
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
        if (strcmp(name, own[k].name) == 0) return own[k].kernel;
    }
    nx_kernel_fn *kernel;
    return nx_op_cpu_kernel(op_name, &kernel) == NX_OK ? kernel : NULL;
}

static nx_status fail_control(const char *name) {
    return nx_fail(NX_VALUE, "npu: control: unknown name %s; there are fail_alloc_at, lose_device, slow_copy_us and "
                   "memory_limit", name);
}

/* Faults and limits for tests. */
static nx_status control(void *context, const char *name, int64_t value) {
    if (value < 0) return nx_fail(NX_VALUE, "npu: control %s: the value must not be negative", name);
    if (strcmp(name, "fail_alloc_at") == 0) npu_memory_fail_at(value);
    else if (strcmp(name, "lose_device") == 0) atomic_store(&lost, value != 0);
    else if (strcmp(name, "slow_copy_us") == 0) atomic_store(&slow_copy_us, value);
    else if (strcmp(name, "memory_limit") == 0) return npu_memory_set_limit((size_t)value);
    else return fail_control(name);
    return NX_OK;
}

static const nx_device_api api = {
    .size = sizeof(nx_device_api),
    .version = NX_DEVICE_API_VERSION,
    .name = "npu",
    .device_count = device_count,
    .memory_alloc = npu_memory_alloc,
    .memory_free = npu_memory_free,
    .copy_in = npu_copy_in,
    .copy_out = npu_copy_out,
    .copy_within = npu_copy_within,
    .stream_new = npu_stream_new,
    .stream_free = npu_stream_free,
    .stream_synchronize = npu_stream_synchronize,
    .event_new = npu_event_new,
    .event_free = npu_event_free,
    .event_record = npu_event_record,
    .event_wait = npu_event_wait,
    .event_synchronize = npu_event_synchronize,
    .find_kernel = find_kernel,
    .launch = npu_launch,
    .capture_begin = npu_capture_begin,
    .capture_end = npu_capture_end,
    .graph_replay = npu_graph_replay,
    .graph_destroy = npu_graph_destroy,
    .generator_new = npu_generator_new,
    .control = control,
    .stream_wait = npu_stream_wait,
    .event_query = npu_event_query,
    .memory_check = npu_memory_check,
    .memory_info = npu_memory_info,
};

NX_API nx_device_entry_fn narthex_device;
const nx_device_api *narthex_device(void) { return &api; }
