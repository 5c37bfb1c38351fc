/* Device types: the registry, plugins, device names, the current device.
 * Type 0 is the CPU; plugins get 1, 2, ... in the order in which they load. A type is counted (visible to others) only
 * after its table was checked and its self-test passed. */
#include "device/private.h"

#include <dlfcn.h>
#include <stddef.h>

nx__device_table nx__devices = {.generator_lock = PTHREAD_MUTEX_INITIALIZER,
                                .n_types = 1,
                                .type = {[0 ... NX_MAX_DEVICE_TYPES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                                                            .waited = PTHREAD_COND_INITIALIZER},
                                         [0].api = &nx__cpu_api, [0].given = &nx__cpu_api, [0].n_devices = 1,
                                         [NX_META_TYPE].n_devices = 1}};

int nx_device_n_types(void) { return atomic_load_explicit(&nx__devices.n_types, memory_order_acquire); }

const nx_device_api *nx_device_get_api(int type) {
    return type >= 0 && type < NX_MAX_DEVICE_TYPES ? nx__devices.type[type].api : NULL;
}

const char *nx_device_type_name(int type) {
    const nx_device_api *api = nx_device_get_api(type);
    return api ? api->name : type == NX_META_TYPE ? "meta" : "unknown";
}

/* ---- registration -------------------------------------------------------------------------------------- */

static nx_status check_slots(const nx_device_api *api) {
    const struct {
        const char *name, *does;
        bool is_required, is_empty;
    } slots[] = {
#define REQUIRED true
#define OPTIONAL false
#define X(slot, result, parameters, need, text) {#slot, text, need, api->slot == NULL},
        NX_DEVICE_SLOTS(X)
#undef X
#undef REQUIRED
#undef OPTIONAL
    };
    for (int i = 0; i < NX_COUNT(slots); i++) {
        if (!slots[i].is_required || !slots[i].is_empty) continue;
        return nx_fail(NX_RUNTIME, "device %s: required slot %s is empty (%s)", api->name, slots[i].name, slots[i].does);
    }
    int n_capture = (api->capture_begin != NULL) + (api->capture_end != NULL) + (api->graph_replay != NULL) +
                    (api->graph_destroy != NULL);
    if (n_capture == 0 || n_capture == 4) return NX_OK;
    return nx_fail(NX_RUNTIME, "device %s: capture_begin, capture_end, graph_replay and graph_destroy are filled together "
                   "or not at all", api->name);
}

static bool is_device_name(const char *name) {
    size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    return n > 0 && n < 32 && name[n] == '\0' && !(name[0] >= '0' && name[0] <= '9');
}

/* A table from older headers lacks the last slots, which are then empty; one from newer headers has some that this library does
 * not know. */
static nx_status copy_table(const nx_device_api *given, nx_device_api *out) {
    if (given == NULL) return nx_fail(NX_RUNTIME, "device: the plugin returned no table");
    if (given->size < offsetof(nx_device_api, device_count)) {
        return nx_fail(NX_RUNTIME, "device: the table says that it has %zu bytes, which is less than its head: set .size to "
                       "sizeof(nx_device_api)", given->size);
    }
    memset(out, 0, sizeof *out);
    memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    return NX_OK;
}

static nx_status check_table(const nx_device_api *api) {
    if (api->version != NX_DEVICE_API_VERSION) {
        return nx_fail(
            NX_RUNTIME,
            "device: the table has version %u, this library expects %d: build the plugin against its headers",
            api->version, NX_DEVICE_API_VERSION);
    }
    if (!is_device_name(api->name)) {
        return nx_fail(NX_RUNTIME, "device: the name must be a lower-case word");
    }
    NX_TRY(check_slots(api));
    int n = api->device_count(api->context);
    if (n < 1 || n > NX__MAX_DEVICES) {
        return nx_fail(NX_RUNTIME, "device %s: device_count says %d, 1 to %d are possible", api->name, n,
                       NX__MAX_DEVICES);
    }
    return NX_OK;
}

/* The type of `given` if it is registered, of another with its name as -2, -1 if neither. */
static int find_type(const nx_device_api *given) {
    for (int t = 0; t < nx_device_n_types(); t++) {
        if (nx__devices.type[t].given == given) return t;
        if (strcmp(nx__devices.type[t].api->name, given->name) == 0) return -2;
    }
    return -1;
}

/* What the self-test left in the row; it makes default streams and generators. */
static void clear_row(nx__device_type *row, int t) {
    const nx_device_api *api = row->api;
    for (int i = 0; i < NX__MAX_DEVICES; i++) nx_generator_unref(row->generator[i]);
    for (int i = 0; i < row->streams.n; i++) api->stream_free(api->context, row->streams.at[i].stream);
    nx_vec_free(&row->streams);
    nx_memory_detach(t);
    for (int i = 0; i < NX__MAX_DEVICES; i++) {
        row->stream[i] = NULL;
        row->generator[i] = NULL;
    }
    row->api = row->given = NULL;
    row->n_devices = 0;
    nx_thread_get()->stream[t] = NULL;
    nx_thread_get()->device_index[t] = 0;
}

/* Makes `table` the next type. */
static nx_status add_type(const nx_device_api *given, const nx_device_api *table, int *type) {
    int t = nx_device_n_types();
    if (t == NX_META_TYPE)
        return nx_fail(NX_RUNTIME, "device %s: %d device types are loaded, no more are possible", table->name, t);
    nx__device_type *row = &nx__devices.type[t];
    row->table = *table;
    row->api = &row->table;
    row->given = given;
    row->n_devices = table->device_count(table->context);
    nx_status status = nx_memory_attach(t, row->n_devices, &nx__memory_source);
    if (status == NX_OK) status = nx__device_self_test((nx_device){(int8_t)t, 0});
    if (status == NX_OK) atomic_store_explicit(&nx__devices.n_types, t + 1, memory_order_release);
    else clear_row(row, t);
    *type = t;
    return status;
}

nx_status nx_device_register(const nx_device_api *given, int *type) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    nx_device_api table;
    NX_TRY(copy_table(given, &table));
    NX_TRY(check_table(&table));
    pthread_mutex_lock(&one_at_a_time);
    nx_status status = NX_OK;
    int t = find_type(given);
    if (t == -2) status = nx_fail(NX_RUNTIME, "device %s: another device of this name is loaded", table.name);
    else if (t == -1) status = add_type(given, &table, &t);
    pthread_mutex_unlock(&one_at_a_time);
    if (status == NX_OK) *type = t;
    return status;
}

nx_status nx_device_load_plugin(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return nx_fail(NX_IO, "device plugin %s: %s", path, dlerror());
    nx_device_entry_fn *entry = (nx_device_entry_fn *)dlsym(library, NX_DEVICE_ENTRY);
    int type;
    nx_status status =
        entry ? nx_device_register(entry(), &type)
              : nx_fail(NX_IO, "no function %s() is exported: see narthex/device.h", NX_DEVICE_ENTRY);
    if (status == NX_OK) return NX_OK; /* the library stays for as long as the process lives */
    status = nx_fail(status, "device plugin %s: %s", path, nx_error_message());
    dlclose(library);
    return status;
}

nx_status nx_device_start(void) {
    const char *at = nx_flag.plugins;
    while (at && *at) {
        size_t n = strcspn(at, ":");
        if (n > 0) {
            char path[4096];
            if (n >= sizeof path)
                return nx_fail(NX_IO, "NARTHEX_PLUGINS: a path is longer than %zu bytes", sizeof path - 1);
            memcpy(path, at, n);
            path[n] = '\0';
            NX_TRY(nx_device_load_plugin(path));
        }
        at += n + (at[n] == ':');
    }
    return NX_OK;
}

/* ---- names, the current device ------------------------------------------------------------------------- */

static nx_status fail_type(const char *text, size_t n_name) {
    nx_text known = {0};
    for (int t = 0; t < nx_device_n_types(); t++)
        nx_text_add(&known, t ? ", %s" : "%s", nx_device_type_name(t));
    nx_status status = nx_fail(NX_RUNTIME, "Expected one of %s device type at start of device string: %.*s",
                               known.failed ? "cpu" : known.at, (int)n_name, text);
    nx_text_free(&known);
    return status;
}

static int find_name(const char *name, size_t n) {
    for (int t = 0; t < nx_device_n_types(); t++) {
        const char *own = nx_device_type_name(t);
        if (strlen(own) == n && memcmp(own, name, n) == 0) return t;
    }
    return n == 4 && memcmp(name, "meta", n) == 0 ? NX_META_TYPE : -1;
}

nx_status nx_device_parse(const char *text, nx_device *out) {
    size_t n_name = strcspn(text, ":");
    int type = find_name(text, n_name);
    if (type < 0 && nx_flag.plugins) {
        NX_TRY(nx_device_start());
        type = find_name(text, n_name);
    }
    if (type < 0) return fail_type(text, n_name);
    if (text[n_name] == '\0') {
        *out = nx_device_current(type);
        return NX_OK;
    }
    const char *digits = text + n_name + 1;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 3 || digits[n] != '\0' || (n > 1 && digits[0] == '0')) {
        return nx_fail(NX_RUNTIME, "Invalid device string: '%s': expected a type and a number, as in '%s:0'",
                       text, nx_device_type_name(type));
    }
    int index = 0;
    for (size_t i = 0; i < n; i++) index = 10 * index + (digits[i] - '0');
    if (index >= nx__devices.type[type].n_devices) {
        return nx_fail(NX_RUNTIME, "%s: invalid device ordinal: there are %d %s devices, the first is %s:0",
                       text, nx__devices.type[type].n_devices, nx_device_type_name(type),
                       nx_device_type_name(type));
    }
    *out = (nx_device){(int8_t)type, (int8_t)index};
    return NX_OK;
}

nx_device nx_device_current(int type) {
    return (nx_device){(int8_t)type, type == NX_META_TYPE ? 0 : nx_thread_get()->device_index[type]};
}

nx_status nx_device_set_current(nx_device device) {
    if (device.type < 0 || device.type >= nx_device_n_types() || device.index < 0 ||
        device.index >= nx__devices.type[device.type].n_devices) {
        return nx_fail(NX_RUNTIME, "set_device: invalid device ordinal: there is no device %d of type %d",
                       device.index, device.type);
    }
    nx_thread *thread = nx_thread_get();
    if (thread->device_index[device.type] == device.index) return NX_OK;
    thread->device_index[device.type] = device.index;
    thread->stream[device.type] = NULL; /* back to the new device's default */
    return NX_OK;
}
