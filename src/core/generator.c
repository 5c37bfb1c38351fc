/* The CPU's generator: mt19937 seeded and advanced as PyTorch's, so that a seeded script draws PyTorch's numbers.
 * Source: Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998); seeding by their 2002 recurrence.
 * Only the low 32 bits of a seed reach the state. What is drawn from it stands with the random operators. */
#include "core/core.h"

#include <pthread.h>
#include <sys/random.h>

enum { N = 624, M = 397 };
static const uint64_t fixed_seed = 67280421310721; /* of a fresh torch.Generator() */

static void seed_twister(nx_generator *g, uint64_t seed) {
    g->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < N; i++)
        g->state[i] = 1812433253u * (g->state[i - 1] ^ (g->state[i - 1] >> 30)) + i;
    g->left = 1;
    g->next = 0;
}

void nx_generator_seed(nx_generator *g, uint64_t seed) {
    nx_generator_lock(g);
    g->seed = seed;
    g->offset = 0;
    g->has_normal = false;
    if (!g->class) seed_twister(g, seed);
    nx_generator_unlock(g);
    if (g->class) g->class->seed(g, seed); /* may wait for the device's work */
}

static inline uint32_t twist(uint32_t high, uint32_t low, uint32_t with) {
    uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
    return with ^ (mixed >> 1) ^ (-(mixed & 1) & 0x9908b0dfu);
}

static void refill(nx_generator *g) {
    uint32_t *s = g->state;
    for (int i = 0; i < N - M; i++) s[i] = twist(s[i], s[i + 1], s[i + M]);
    for (int i = N - M; i < N - 1; i++) s[i] = twist(s[i], s[i + 1], s[i + M - N]);
    s[N - 1] = twist(s[N - 1], s[0], s[M - 1]);
    g->left = N;
    g->next = 0;
}

static inline uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint32_t nx_generator_u32(nx_generator *g) {
    if (--g->left == 0) refill(g);
    assert(g->next < N);
    return temper(g->state[g->next++]);
}

void nx_generator_fill(nx_generator *g, uint32_t *out, int64_t n) {
    while (n > 0) {
        if (g->left == 1) {
            refill(g);
            g->left++; /* the first number of a state is not counted */
        }
        int count = n < g->left - 1 ? (int)n : g->left - 1;
        const uint32_t *from = g->state + g->next;
        for (int i = 0; i < count; i++) out[i] = temper(from[i]);
        g->left -= count;
        g->next += count;
        out += count;
        n -= count;
    }
}

uint64_t nx_generator_u64(nx_generator *g) {
    uint64_t high = nx_generator_u32(g);
    return high << 32 | nx_generator_u32(g);
}

nx_status nx_generator_new(nx_generator **out) {
    nx_generator *g = nx_alloc_zeroed(sizeof *g);
    if (g == NULL) return nx_fail_memory(sizeof *g);
    g->refs = 1;
    pthread_mutex_init(&g->lock, NULL);
    nx_generator_seed(g, fixed_seed);
    *out = g;
    return NX_OK;
}

nx_generator *nx_generator_ref(nx_generator *g) {
    nx_count_up(&g->refs);
    return g;
}

void nx_generator_unref(nx_generator *g) {
    if (g == NULL || !nx_count_down(&g->refs)) return;
    if (g->class && g->class->free) {
        g->class->free(g);
        return;
    }
    pthread_mutex_destroy(&g->lock);
    nx_free(g);
}

static nx_generator default_generator = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t default_once = PTHREAD_ONCE_INIT;

/* A forked child must not find it locked, nor half advanced. */
static void lock_default(void) { nx_generator_lock(&default_generator); }
static void unlock_default(void) { nx_generator_unlock(&default_generator); }

/* As in PyTorch a process that sets no seed gets other numbers every time. */
static void make_default(void) {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = fixed_seed;
    default_generator.refs = 1;
    nx_generator_seed(&default_generator, seed);
    pthread_atfork(lock_default, unlock_default, unlock_default);
}

nx_generator *nx_generator_default(void) {
    pthread_once(&default_once, make_default);
    return &default_generator;
}

void nx_generator_mark(nx_generator *generator, nx_generator_place *out) {
    nx_generator_lock(generator);
    out->seed = generator->seed;
    out->left = generator->left;
    out->next = generator->next;
    memcpy(out->state, generator->state, sizeof out->state);
    out->has_normal = generator->has_normal;
    out->normal = generator->normal;
    nx_generator_unlock(generator);
}

void nx_generator_return(nx_generator *generator, const nx_generator_place *place) {
    nx_generator_lock(generator);
    generator->seed = place->seed;
    generator->left = place->left;
    generator->next = place->next;
    memcpy(generator->state, place->state, sizeof generator->state);
    generator->has_normal = place->has_normal;
    generator->normal = place->normal;
    nx_generator_unlock(generator);
}

bool nx_generator_is_place(const nx_generator_place *place) {
    const int64_t left = place->left, next = place->next;
    return left >= 1 && left <= N && next >= 0 && next <= N && (left == 1 || left - 1 + next == N);
}
