/* Random numbers: Philox4x32-10, a counter-based generator (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
 * easy as 1, 2, 3", SC 2011). A generator is a key (the seed) and a counter; an operator takes as many counter values as
 * it needs when it runs on its stream, so a replay draws the numbers that the same operators would draw eagerly.
 * Element i in logical order is made of half i % 2 of counter value start + i / 2, whatever the strides. Next: random.c. */
#include "npu.h"

#include <stdlib.h>
#include <string.h>

typedef struct state {
    pthread_mutex_t lock;
    uint64_t key, counter;
    bool seeded;
} state;

void npu_philox(uint64_t key, uint64_t counter, uint32_t out[4]) {
    uint32_t x[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * x[0], b = (uint64_t)0xCD9E8D57u * x[2];
        uint32_t y[4] = {(uint32_t)(b >> 32) ^ x[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ x[3] ^ k1,
                         (uint32_t)a};
        memcpy(x, y, sizeof x);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, x, sizeof x);
}

/* Work that was given before a seed draws from the old one. The first seed comes before any work. */
static void seed(void *at, uint64_t key) {
    state *s = at;
    if (s->seeded) npu_wait_for_all_streams();
    pthread_mutex_lock(&s->lock);
    s->key = key;
    s->counter = 0;
    s->seeded = true;
    pthread_mutex_unlock(&s->lock);
}

static void get_words(void *at, uint64_t words[2]) {
    state *s = at;
    npu_wait_for_all_streams();
    pthread_mutex_lock(&s->lock);
    words[0] = s->key;
    words[1] = s->counter;
    pthread_mutex_unlock(&s->lock);
}

static void set_words(void *at, const uint64_t words[2]) {
    state *s = at;
    npu_wait_for_all_streams();
    pthread_mutex_lock(&s->lock);
    s->key = words[0];
    s->counter = words[1];
    s->seeded = true;
    pthread_mutex_unlock(&s->lock);
}

static void free_state(void *at) {
    pthread_mutex_destroy(&((state *)at)->lock);
    free(at);
}

nx_status npu_generator_new(void *context, int index, nx_generator **out) {
    static const nx_generator_calls calls = {sizeof calls, seed, free_state, get_words, set_words};
    state *s = calloc(1, sizeof *s);
    if (s == NULL) return nx_fail(NX_NO_MEMORY, "npu: no host memory for a generator");
    pthread_mutex_init(&s->lock, NULL);
    nx_status status = nx_generator_new_device(&calls, s, out);
    if (status != NX_OK) free_state(s);
    return status;
}

nx_status npu_take_counter(const char *op, const nx_value *value, nx_device device, int64_t n, uint64_t *key,
                           uint64_t *start) {
    nx_generator *g = value && value->tag == NX_TAG_GENERATOR ? value->generator : nx_device_generator(device);
    state *s = g ? nx_generator_get_state(g) : NULL;
    if (s == NULL) {
        return nx_fail(NX_RUNTIME, "%s: Expected a 'npu' device type for generator but found another: pass a generator "
                       "of this device", op);
    }
    pthread_mutex_lock(&s->lock);
    *key = s->key;
    *start = s->counter;
    s->counter += ((uint64_t)n + 1) / 2;
    pthread_mutex_unlock(&s->lock);
    return NX_OK;
}
