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
    if (a->dtype < NX_F16 || a->dtype > NX_F64)
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

/* ---- places by weights ----------------------------------------------------------------------------------- */
static double load(const void *from, uint8_t dtype) {
    if (dtype == NX_F64) return *(const double *)from;
    if (dtype == NX_F32) return *(const float *)from;
    uint16_t bits = *(const uint16_t *)from;
    if (dtype == NX_BF16) {
        uint32_t wide = (uint32_t)bits << 16;
        float f;
        memcpy(&f, &wide, sizeof f);
        return f;
    }
    int exponent = bits >> 10 & 31, digits = bits & 1023;
    double f = exponent == 0    ? ldexp(digits, -24)
               : exponent == 31 ? (digits ? NAN : INFINITY)
                                : ldexp(1024 + digits, exponent - 25);
    return bits >> 15 ? -f : f;
}

/* One row of weights; their sum in *total. */
static nx_status load_weights(const nx_array *a, int64_t row, double *weights, int64_t n, double *total) {
    int last = a->ndim - 1;
    size_t bytes = nx_dtype_bytes(a->dtype);
    *total = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * a->strides[last] + (a->ndim == 2 ? row * a->strides[0] : 0);
        weights[i] = load((const char *)a->data + at * (int64_t)bytes, a->dtype);
        if (!(weights[i] >= 0 && weights[i] < INFINITY))
            return nx_fail(NX_RUNTIME, "multinomial: probability tensor contains either `inf`, `nan` or element < 0");
        *total += weights[i];
    }
    if (*total > 0) return NX_OK;
    return nx_fail(NX_RUNTIME, "multinomial: invalid multinomial distribution (sum of probabilities <= 0)");
}

/* The place at which the running sum passes u of the total; never one without weight. */
static int64_t place_of(const double *weights, int64_t n, double u, double total) {
    double sum = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < n; i++) {
        if (weights[i] <= 0) continue;
        sum += weights[i];
        last = i;
        if (u * total < sum) break;
    }
    return last;
}

/* Uniform number i * samples + k is draw k of row i. Without replacement a place that was drawn loses its weight; when
 * none is left, the places without weight follow in their order. */
nx_status npu_multinomial(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_array *a = in[0].array, *to = out[0].array;
    int64_t n = a->sizes[a->ndim - 1], rows = a->ndim == 2 ? a->sizes[0] : 1, samples = in[1].i, drawn = 0;
    uint64_t key = 0, counter = 0;
    double pair[2] = {0, 0}, total;
    TRY(take_counter("multinomial", &in[3], run->device, rows * samples, &key, &counter));
    double *weights = malloc(sizeof *weights * (size_t)(n ? n : 1));
    if (weights == NULL) return nx_fail(NX_NO_MEMORY, "multinomial: no host memory for %lld weights", (long long)n);
    nx_status status = NX_OK;
    for (int64_t row = 0; row < rows && status == NX_OK; row++) {
        status = load_weights(a, row, weights, n, &total);
        for (int64_t k = 0; k < samples && status == NX_OK; k++, drawn++) {
            if (drawn % 2 == 0) uniform_pair(key, counter++, pair);
            int64_t place = place_of(weights, n, pair[drawn % 2], total);
            if (!in[2].i && weights[place] <= 0) { /* all weight is gone; drawn places are marked by -1 */
                for (place = 0; weights[place] < 0; place++) continue;
            }
            int64_t at = k * to->strides[to->ndim - 1] + (to->ndim == 2 ? row * to->strides[0] : 0);
            ((int64_t *)to->data)[at] = place;
            if (in[2].i) continue;
            total -= weights[place] > 0 ? weights[place] : 0;
            weights[place] = -1;
        }
    }
    free(weights);
    return status;
}
