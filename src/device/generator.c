/* Generators of devices: what a plugin keeps, counted as the CPU's are; one default generator a device, made at its
 * first use and seeded as torch.manual_seed said last. */
#include "device/private.h"

typedef struct device_generator {
    nx_generator g; /* first */
    nx_generator_calls calls;
    void *state;
} device_generator;

static void seed_state(nx_generator *g, uint64_t seed) {
    device_generator *own = (device_generator *)g;
    own->calls.seed(own->state, seed);
}

static void free_state(nx_generator *g) {
    device_generator *own = (device_generator *)g;
    own->calls.free(own->state);
    pthread_mutex_destroy(&g->lock);
    nx_free(own);
}

static const nx_generator_class device_class = {seed_state, free_state};

nx_status nx_generator_new_device(const nx_generator_calls *calls, void *state, nx_generator **out) {
    nx_generator_calls known = {0}; /* an older plugin's calls are fewer, a newer one's more */
    memcpy(&known, calls, calls->size < sizeof known ? calls->size : sizeof known);
    if (known.seed == NULL || known.free == NULL || known.get == NULL || known.set == NULL) {
        return nx_fail(NX_RUNTIME, "generator: the calls have the wrong size or an empty slot: build the plugin "
                       "against this library's headers");
    }
    device_generator *own = nx_alloc_zeroed(sizeof *own);
    if (own == NULL) return nx_fail_memory(sizeof *own);
    own->g.refs = 1;
    pthread_mutex_init(&own->g.lock, NULL);
    own->g.class = &device_class;
    own->calls = known;
    own->state = state;
    *out = &own->g;
    return NX_OK;
}

void *nx_generator_get_state(nx_generator *generator) {
    return generator->class == &device_class ? ((device_generator *)generator)->state : NULL;
}

void nx_generator_get_words(nx_generator *generator, uint64_t words[2]) {
    device_generator *own = (device_generator *)generator;
    void *token = nx_block_begin();
    own->calls.get(own->state, words);
    nx_block_end(token);
}

void nx_generator_set_words(nx_generator *generator, const uint64_t words[2]) {
    device_generator *own = (device_generator *)generator;
    void *token = nx_block_begin();
    own->calls.set(own->state, words);
    nx_block_end(token);
}

/* Under the lock. Without manual_seed a device starts with a seed of its own choice, as the CPU does. */
static nx_generator *make_default(nx_device device) {
    nx__device_type *row = &nx__devices.type[device.type];
    nx_generator *g = row->generator[device.index];
    if (g || row->api->generator_new == NULL ||
        row->api->generator_new(row->api->context, device.index, &g) != NX_OK)
        return g;
    g->device = device;
    nx_generator_seed(g, nx__devices.seeded ? nx__devices.seed : nx_generator_default()->seed);
    atomic_store_explicit(&row->generator[device.index], g, memory_order_release);
    return g;
}

nx_generator *nx_device_generator(nx_device device) {
    if (device.type == 0) return nx_generator_default();
    nx__device_type *row = &nx__devices.type[device.type];
    if (row->api == NULL || device.index < 0 || device.index >= row->n_devices) return NULL;
    nx_generator *g = atomic_load_explicit(&row->generator[device.index], memory_order_acquire);
    if (NX_LIKELY(g != NULL)) return g;
    pthread_mutex_lock(&nx__devices.generator_lock);
    g = make_default(device);
    pthread_mutex_unlock(&nx__devices.generator_lock);
    return g;
}

void nx_device_seed_all(uint64_t seed) {
    nx_generator_seed(nx_generator_default(), seed);
    pthread_mutex_lock(&nx__devices.generator_lock);
    nx__devices.seeded = true;
    nx__devices.seed = seed;
    nx_generator *made[NX_MAX_DEVICE_TYPES * NX__MAX_DEVICES];
    int n = 0;
    for (int t = 1; t < nx_device_n_types(); t++) {
        for (int i = 0; i < nx__devices.type[t].n_devices; i++) {
            nx_generator *g = nx__devices.type[t].generator[i];
            if (g) made[n++] = g;
        }
    }
    /* A seed waits for the work before it, which may ask for a generator: not under the lock. */
    pthread_mutex_unlock(&nx__devices.generator_lock);
    void *token = n ? nx_block_begin() : NULL;
    for (int i = 0; i < n; i++) nx_generator_seed(made[i], seed);
    if (n) nx_block_end(token);
}

void nx_manual_seed(uint64_t seed) { nx_device_seed_all(seed); }
