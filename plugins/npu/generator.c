/* Random numbers: Philox4x32-10, a counter-based generator (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
 * easy as 1, 2, 3", SC 2011). A generator is a key (the seed) and a counter; an operator takes as many counter values as
 * it needs when it runs on its stream, so a replay draws the numbers that the same operators would draw eagerly.
 * Element i in logical order is made of half i % 2 of counter value start + i / 2, whatever the strides. */
#include "npu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct state {
    pthread_mutex_t lock;
    uint64_t key, counter;
    bool seeded;
} state;

static void philox(uint64_t key, uint64_t counter, uint32_t out[4]) {
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

static void free_state(void *at) {
    pthread_mutex_destroy(&((state *)at)->lock);
    free(at);
}

nx_status npu_generator_new(void *context, int index, nx_generator **out) {
    static const nx_generator_calls calls = {sizeof calls, seed, free_state};
    state *s = calloc(1, sizeof *s);
    if (s == NULL) return nx_fail(NX_NO_MEMORY, "npu: no host memory for a generator");
    pthread_mutex_init(&s->lock, NULL);
    nx_status status = nx_generator_new_device(&calls, s, out);
    if (status != NX_OK) free_state(s);
    return status;
}

/* Counter values for n elements, two from each, out of the given generator or the device's own (NULL). */
static nx_status take_counter(const char *op, const nx_value *value, nx_device device, int64_t n, uint64_t *key,
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

/* ---- elements ------------------------------------------------------------------------------------------ */
static uint16_t to_bfloat16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(f)) return 0x7fc0;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16); /* nearest even */
}

/* Nearest even. The last bit of the result is worth 2^lowest; the leading one of `steps` adds itself to the exponent. */
static uint16_t to_float16(float f) {
    unsigned sign = signbit(f) ? 0x8000 : 0;
    double magnitude = fabs((double)f);
    if (isnan(f)) return 0x7e00;
    if (magnitude >= 65520) return (uint16_t)(sign | 0x7c00);
    int exponent;
    frexp(magnitude, &exponent); /* magnitude < 2^exponent */
    int lowest = exponent - 11 > -24 ? exponent - 11 : -24;
    unsigned steps = (unsigned)nearbyint(ldexp(magnitude, -lowest));
    return (uint16_t)(sign | (((unsigned)(lowest + 24) << 10) + steps));
}

static void store(void *to, uint8_t dtype, double value) {
    switch (dtype) {
    case NX_F64: *(double *)to = value; break;
    case NX_F32: *(float *)to = (float)value; break;
    case NX_F16: *(uint16_t *)to = to_float16((float)value); break;
    case NX_BF16: *(uint16_t *)to = to_bfloat16((float)value); break;
    case NX_I64: *(int64_t *)to = (int64_t)value; break;
    case NX_I32: *(int32_t *)to = (int32_t)value; break;
    case NX_I16: *(int16_t *)to = (int16_t)value; break;
    default: *(uint8_t *)to = (uint8_t)value; break;
    }
}

/* Two numbers of [0, 1) of 53 bits. */
static void uniform_pair(uint64_t key, uint64_t counter, double pair[2]) {
    uint32_t x[4];
    philox(key, counter, x);
    for (int k = 0; k < 2; k++) pair[k] = (double)(((uint64_t)x[2 * k] << 32 | x[2 * k + 1]) >> 11) * 0x1p-53;
}

/* Two uniform numbers of 53 bits make two normal ones (Box and Muller). */
static void normal_pair(uint64_t key, uint64_t counter, double pair[2]) {
    uniform_pair(key, counter, pair);
    /* Never 0, so that the logarithm is finite. */
    double radius = sqrt(-2 * log(pair[0] + 0x1p-54)), angle = 6.283185307179586 * pair[1];
    pair[0] = radius * cos(angle);
    pair[1] = radius * sin(angle);
}

/* Goes to the next element in logical order; `at` counts elements. */
static int64_t step(const nx_array *a, int64_t *index, int64_t at) {
    for (int d = a->ndim - 1; d >= 0; d--) {
        at += a->strides[d];
        if (++index[d] < a->sizes[d]) return at;
        at -= a->strides[d] * a->sizes[d];
        index[d] = 0;
    }
    return at;
}

static double number(const nx_value *value) {
    return value->tag == NX_TAG_FLOAT ? value->f : (double)value->i;
}

/* ---- the kernels --------------------------------------------------------------------------------------- */
nx_status npu_normal(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_array *a = out[0].array;
    if (a->dtype < NX_F16)
        return nx_fail(NX_NOT_IMPLEMENTED, "normal_: not implemented for '%s'", nx_dtype_kind(a->dtype));
    double mean = number(&in[1]), std = number(&in[2]);
    if (!(std >= 0)) return nx_fail(NX_RUNTIME, "normal_ expects std >= 0.0, but found std %g", std);
    uint64_t key = 0, counter = 0;
    TRY(take_counter("normal_", &in[3], run->device, a->numel, &key, &counter));
    int64_t index[NX_MAX_DIMS] = {0}, at = 0;
    size_t bytes = nx_dtype_bytes(a->dtype);
    double pair[2];
    for (int64_t i = 0; i < a->numel; i++) {
        if (i % 2 == 0) normal_pair(key, counter++, pair);
        store((char *)a->data + at * (int64_t)bytes, a->dtype, mean + std * pair[i % 2]);
        at = a->contiguous ? at + 1 : step(a, index, at);
    }
    return NX_OK;
}

nx_status npu_bernoulli(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_array *a = out[0].array;
    double p = number(&in[1]), pair[2];
    uint64_t key = 0, counter = 0;
    int64_t index[NX_MAX_DIMS] = {0}, at = 0;
    size_t bytes = nx_dtype_bytes(a->dtype);
    TRY(take_counter("bernoulli_", &in[2], run->device, a->numel, &key, &counter));
    for (int64_t i = 0; i < a->numel; i++) {
        if (i % 2 == 0) uniform_pair(key, counter++, pair);
        store((char *)a->data + at * (int64_t)bytes, a->dtype, pair[i % 2] < p);
        at = a->contiguous ? at + 1 : step(a, index, at);
    }
    return NX_OK;
}
