/* Operators that draw: each element from its place in the generator's numbers (generator.c). */
#include "npu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    npu_philox(key, counter, x);
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
/* Two numbers from a counter value; an element from one of them and what the operator was given. */
typedef void pair_fn(uint64_t key, uint64_t counter, double pair[2]);
typedef double element_fn(double u, const double *given);

static nx_status draw_each(const char *op, nx_run *run, const nx_value *generator, const nx_array *a, pair_fn *pairs,
                           element_fn *element, const double *given) {
    uint64_t key = 0, counter = 0;
    int64_t index[NX_MAX_DIMS] = {0}, at = 0;
    size_t bytes = nx_dtype_bytes(a->dtype);
    double pair[2];
    TRY(npu_take_counter(op, generator, run->device, a->numel, &key, &counter));
    for (int64_t i = 0; i < a->numel; i++) {
        if (i % 2 == 0) pairs(key, counter++, pair);
        store((char *)a->data + at * (int64_t)bytes, a->dtype, element(pair[i % 2], given));
        at = a->contiguous ? at + 1 : step(a, index, at);
    }
    return NX_OK;
}

static double scaled(double z, const double *given) { return given[0] + given[1] * z; }
nx_status npu_normal(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_array *a = out[0].array;
    if (a->dtype < NX_F16 || a->dtype > NX_F64)
        return nx_fail(NX_NOT_IMPLEMENTED, "normal_: not implemented for '%s'", nx_dtype_kind(a->dtype));
    double mean = number(&in[1]), std = number(&in[2]);
    if (!(std >= 0)) return nx_fail(NX_RUNTIME, "normal_ expects std >= 0.0, but found std %g", std);
    return draw_each("normal_", run, &in[3], a, normal_pair, scaled, (double[]){mean, std});
}

static double is_below(double u, const double *p) { return u < p[0]; }
nx_status npu_bernoulli(nx_run *run, const nx_value *in, nx_value *out) {
    return draw_each("bernoulli_", run, &in[2], out[0].array, uniform_pair, is_below, (double[]){number(&in[1])});
}

static double between(double u, const double *ends) { return ends[0] + u * (ends[1] - ends[0]); }
nx_status npu_uniform(nx_run *run, const nx_value *in, nx_value *out) {
    double low = number(&in[1]), high = number(&in[2]);
    if (!(low <= high))
        return nx_fail(NX_RUNTIME, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", low, high);
    return draw_each("uniform_", run, &in[3], out[0].array, uniform_pair, between, (double[]){low, high});
}

static double waiting_time(double u, const double *rate) { return -log1p(-u) / rate[0]; }
nx_status npu_exponential(nx_run *run, const nx_value *in, nx_value *out) {
    double rate = number(&in[1]);
    if (!(rate > 0)) return nx_fail(NX_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g", rate);
    return draw_each("exponential_", run, &in[2], out[0].array, uniform_pair, waiting_time, (double[]){rate});
}

static double trials(double u, const double *p) { return fmax(1, ceil(log1p(-u) / log1p(-p[0]))); }
nx_status npu_geometric(nx_run *run, const nx_value *in, nx_value *out) {
    double p = number(&in[1]);
    if (!(p > 0 && p < 1)) return nx_fail(NX_RUNTIME, "geometric_ expects p to be in (0, 1), but got p=%g", p);
    return draw_each("geometric_", run, &in[2], out[0].array, uniform_pair, trials, (double[]){p});
}

static double far_away(double u, const double *given) { return given[0] + given[1] * tan(3.141592653589793 * (u - 0.5)); }
nx_status npu_cauchy(nx_run *run, const nx_value *in, nx_value *out) {
    double sigma = number(&in[2]);
    if (!(sigma > 0)) return nx_fail(NX_RUNTIME, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma);
    return draw_each("cauchy_", run, &in[3], out[0].array, uniform_pair, far_away, (double[]){number(&in[1]), sigma});
}

/* Integers of [low, low + range), range 0 meaning 2^64: the remainder of 64 bits. */
static nx_status draw_integers(nx_run *run, const nx_value *generator, const nx_array *a, int64_t low, uint64_t range) {
    uint64_t key = 0, counter = 0;
    int64_t index[NX_MAX_DIMS] = {0}, at = 0;
    size_t bytes = nx_dtype_bytes(a->dtype);
    uint32_t x[4] = {0};
    TRY(npu_take_counter("random_", generator, run->device, a->numel, &key, &counter));
    for (int64_t i = 0; i < a->numel; i++) {
        if (i % 2 == 0) npu_philox(key, counter++, x);
        uint64_t bits = (uint64_t)x[2 * (i % 2)] << 32 | x[2 * (i % 2) + 1];
        int64_t value = (int64_t)((uint64_t)low + (range ? bits % range : bits));
        void *to = (char *)a->data + at * (int64_t)bytes;
        if (a->dtype == NX_I64) *(int64_t *)to = value;
        else store(to, a->dtype, (double)value);
        at = a->contiguous ? at + 1 : step(a, index, at);
    }
    return NX_OK;
}

/* The integers that a dtype has from 0 on, as many as it can tell apart; one less than the last is the largest drawn. */
static uint64_t whole_numbers(uint8_t dtype) {
    switch (dtype) {
    case NX_BOOL: return 2;
    case NX_U8: return 256;
    case NX_I8: return 128;
    case NX_I16: return UINT64_C(1) << 15;
    case NX_I32: return UINT64_C(1) << 31;
    case NX_F16: return (1 << 11) + 1;
    case NX_BF16: return (1 << 8) + 1;
    case NX_F32: return (1 << 24) + 1;
    case NX_F64: return (UINT64_C(1) << 53) + 1;
    default: return UINT64_C(1) << 63;
    }
}

nx_status npu_random(nx_run *run, const nx_value *in, nx_value *out) {
    return draw_integers(run, &in[1], out[0].array, 0, whole_numbers(out[0].array->dtype));
}

nx_status npu_random_to(nx_run *run, const nx_value *in, nx_value *out) {
    if (in[1].i <= 0)
        return nx_fail(NX_RUNTIME, "random_ expects 'from' to be less than 'to', but got from=0 >= to=%lld", (long long)in[1].i);
    return draw_integers(run, &in[2], out[0].array, 0, (uint64_t)in[1].i);
}

nx_status npu_random_from(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_array *a = out[0].array;
    int64_t low = in[1].i;
    bool open = in[2].tag == NX_TAG_NONE; /* up to what the dtype has */
    uint64_t end = open ? whole_numbers(a->dtype) : (uint64_t)in[2].i;
    if (!open && low >= in[2].i)
        return nx_fail(NX_RUNTIME, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld", (long long)low,
                       (long long)in[2].i);
    return draw_integers(run, &in[3], a, low, end - (uint64_t)low);
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
    TRY(npu_take_counter("multinomial", &in[3], run->device, rows * samples, &key, &counter));
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
