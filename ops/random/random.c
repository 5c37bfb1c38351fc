/* Kernels of random.op: PyTorch's numbers, bit for bit, as its CPU kernels with AVX2 make them. Two routes,
 * which draw differently: sixteen and more row-major elements go by blocks of sixteen (Box-Muller on the
 * whole block, in float32 with a fixed pattern of fused multiply-adds), everything else one by one in order
 * of memory, in float64 with a second normal kept by the generator. float64 blocks take log, sin and cos from
 * the C library. Next: random_block.c, order.h. */
#include "gen/kernels.h"
#include "draw.h"
#include "random_block.h"
#include "shared/order.h"

#include <math.h>

enum { BLOCK = 16 };
static const double two_pi = 2 * 3.14159265358979323846;

enum { DRAWS = 512 }; /* made at once */

static void draw_24(nx_generator *g, double *x, int64_t n) {
    uint32_t bits[DRAWS];
    nx_generator_fill(g, bits, n);
    for (int64_t i = 0; i < n; i++) x[i] = (int32_t)(bits[i] & 0xffffff) * 0x1p-24;
}
/* As many numbers of nx__uniform_53 as said, up to DRAWS; as sums of two halves, which are exact. */
static void draw_53(nx_generator *g, double *x, int64_t n) {
    uint32_t bits[2 * DRAWS];
    nx_generator_fill(g, bits, 2 * n);
    for (int64_t i = 0; i < n; i++) {
        double high = (int32_t)(bits[2 * i] & 0x1fffff), low = (int32_t)(bits[2 * i + 1] ^ 0x80000000);
        x[i] = (high * 0x1p32 + (low + 0x1p31)) * 0x1p-53;
    }
}
/* ---- one by one ---------------------------------------------------------------------------------------- */
typedef struct normals { nx_dtype dtype; double mean, std; nx_generator *g; } normals;

static void fill_singly(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const normals *p = arg;
    for (int64_t i = 0; i < n; i++) {
        double x = __builtin_fma(nx__next_normal(p->g), p->std, p->mean);
        nx_cast(p->dtype, ptrs[0] + i * steps[0], 0, NX_F64, (const char *)&x, 0, 1);
    }
}

/* ---- float32 by blocks, see random_block.c ------------------------------------------------------------- */
static nx__normal_blocks_fn *const normal_blocks[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, nx__normal_blocks)};
static nx__uniform_block_fn *const uniform_block[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, nx__uniform_block)};

static void block_f32(float *x, int64_t n_blocks, const normals *p) {
    normal_blocks[nx_level()](x, n_blocks, (float)p->mean, (float)p->std);
}

static void draw_range(nx_generator *g, float *x, int64_t n, float low, float high) {
    uint32_t bits[DRAWS];
    for (int64_t at = 0, count; at < n; at += count) {
        count = n - at < DRAWS ? n - at : DRAWS;
        nx_generator_fill(g, bits, count);
        uniform_block[nx_level()](x + at, bits, count, low, high);
    }
}

static void draw_f32(nx_generator *g, float *x, int64_t n) { draw_range(g, x, n, 0, 1); }

/* A tail is made of sixteen new numbers that end with the last element. */
static void fill_f32(float *x, int64_t n, const normals *p) {
    int64_t whole = n / BLOCK * BLOCK;
    draw_f32(p->g, x, n);
    block_f32(x, whole / BLOCK, p);
    if (whole == n) return;
    draw_f32(p->g, x + n - BLOCK, BLOCK);
    block_f32(x + n - BLOCK, 1, p);
}

/* Half types: in float32 block by block, so nothing is drawn for the part of a block. */
static void fill_half(uint16_t *x, int64_t n, const normals *p) {
    float block[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t at = i + BLOCK <= n ? i : n - BLOCK;
        draw_f32(p->g, block, BLOCK);
        block_f32(block, 1, p);
        nx_cast(p->dtype, (char *)(x + at), sizeof *x, NX_F32, (const char *)block, sizeof *block, BLOCK);
    }
}

/* ---- float64 by blocks --------------------------------------------------------------------------------- */
static void block_f64(double *x, double mean, double std) {
    for (int i = 0; i < BLOCK / 2; i++) {
        double radius = sqrt(-2 * log(1 - x[i])), theta = two_pi * x[i + BLOCK / 2];
        x[i] = __builtin_fma(radius * cos(theta), std, mean);
        x[i + BLOCK / 2] = __builtin_fma(radius * sin(theta), std, mean);
    }
}

static void draw_f64(nx_generator *g, double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = nx__uniform_53(g);
}

static void fill_f64(double *x, int64_t n, const normals *p) {
    int64_t whole = n / BLOCK * BLOCK;
    draw_f64(p->g, x, n);
    for (int64_t i = 0; i < whole; i += BLOCK) block_f64(x + i, p->mean, p->std);
    if (whole == n) return;
    draw_f64(p->g, x + n - BLOCK, BLOCK);
    block_f64(x + n - BLOCK, p->mean, p->std);
}

/* One element after the other, in order of memory. */
static nx_status fill_in_order(nx_run *run, const nx_array *self, nx_generator *g, nx_walk_fn *fill,
                               void *arg) {
    nx_walk walk;
    NX_TRY(nx__check_generator(run, g));
    nx_walk_start(&walk, self->ndim, self->sizes);
    nx_walk_add(&walk, self);
    nx_walk_merge(&walk);
    nx_generator_lock(g);
    nx_walk_run(&walk, fill, arg);
    nx_generator_unlock(g);
    return NX_OK;
}

/* The parts of complex numbers as numbers of a dimension more, which lies innermost; room: NX_MAX_DIMS twice. */
static nx_status parts_of(const nx_array *self, int64_t *room, nx_array *parts) {
    int64_t *sizes = room, *strides = room + NX_MAX_DIMS;
    if (self->ndim == NX_MAX_DIMS) return nx_fail(NX_RUNTIME, "complex numbers in %d dimensions, of which one must be free", NX_MAX_DIMS);
    *parts = *self;
    for (int d = 0; d < self->ndim; d++) {
        sizes[d] = self->sizes[d];
        strides[d] = self->strides[d] * 2;
    }
    sizes[self->ndim] = 2;
    strides[self->ndim] = 1;
    parts->ndim++;
    parts->dtype = (uint8_t)nx_dtype_real((nx_dtype)self->dtype);
    parts->sizes = sizes;
    parts->strides = strides;
    nx_array_refresh(parts);
    return NX_OK;
}

/* A complex number has the variance; each of its parts half of it. */
nx_status nx__normal_fill(nx_run *run, nx_array *self, double mean, double std, nx_generator *generator) {
    int64_t room[2 * NX_MAX_DIMS];
    nx_array parts;
    if (nx_is_complex((nx_dtype)self->dtype)) {
        NX_TRY(parts_of(self, room, &parts));
        return nx__normal_fill(run, &parts, mean, std / sqrt(2), generator);
    }
    normals p = {(nx_dtype)self->dtype, mean, std, generator};
    NX_TRY(nx__check_generator(run, generator));
    if (self->numel >= BLOCK && self->contiguous) {
        nx_generator_lock(generator);
        if (p.dtype == NX_F32) fill_f32(self->data, self->numel, &p);
        else if (p.dtype == NX_F64) fill_f64(self->data, self->numel, &p);
        else fill_half(self->data, self->numel, &p);
        nx_generator_unlock(generator);
        return NX_OK;
    }
    return fill_in_order(run, self, generator, fill_singly, &p);
}

/* ---- the others: each element by itself ----------------------------------------------------------------- */
typedef struct draws { nx_dtype dtype; double low, high; int64_t from; uint64_t range; nx_generator *g; } draws;

/* A value that rounds up to `high` becomes `low`. */
static void fill_uniform(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const draws *p = arg;
    float low = (float)p->low, high = (float)p->high, numbers[DRAWS];
    double doubles[DRAWS];
    char *to = ptrs[0];
    uint16_t top, bottom; /* of a half type */
    if (p->dtype == NX_F32 && steps[0] == (int64_t)sizeof(float)) {
        draw_range(p->g, (float *)to, n, low, high);
        return;
    }
    if (p->dtype != NX_F64 && p->dtype != NX_F32) {
        nx_cast(p->dtype, (char *)&top, 0, NX_F64, (const char *)&p->high, 0, 1);
        nx_cast(p->dtype, (char *)&bottom, 0, NX_F64, (const char *)&p->low, 0, 1);
    }
    for (int64_t part; n > 0; n -= part, to += part * steps[0]) {
        part = nx_least(n, DRAWS);
        if (p->dtype == NX_F64) {
            draw_53(p->g, doubles, part);
            for (int64_t i = 0; i < part; i++) {
                double x = __builtin_fma(doubles[i], p->high - p->low, p->low);
                doubles[i] = x == p->high ? p->low : x;
            }
            nx_cast(NX_F64, to, steps[0], NX_F64, (const char *)doubles, sizeof *doubles, part);
            continue;
        }
        draw_range(p->g, numbers, part, low, high);
        nx_cast(p->dtype, to, steps[0], NX_F32, (const char *)numbers, sizeof *numbers, part);
        for (int64_t i = 0; i < part && p->dtype != NX_F32; i++) {
            uint16_t *x = (uint16_t *)(to + i * steps[0]);
            *x = *x == top ? bottom : *x;
        }
    }
}

nx_status nx__uniform_fill(nx_run *run, nx_array *self, double from, double to, nx_generator *generator) {
    int64_t room[2 * NX_MAX_DIMS];
    nx_array parts;
    if (nx_is_complex((nx_dtype)self->dtype)) {
        NX_TRY(parts_of(self, room, &parts));
        return nx__uniform_fill(run, &parts, from, to, generator);
    }
    draws p = {.dtype = (nx_dtype)self->dtype, .low = from, .high = to, .g = generator};
    return fill_in_order(run, self, generator, fill_uniform, &p);
}

static void fill_bernoulli(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const draws *p = arg;
    uint8_t hits[DRAWS];
    double x[DRAWS];
    for (int64_t at = 0, count; at < n; at += count) {
        count = n - at < DRAWS ? n - at : DRAWS;
        draw_53(p->g, x, count);
        for (int64_t i = 0; i < count; i++) hits[i] = x[i] < p->low;
        nx_cast(p->dtype, ptrs[0] + at * steps[0], steps[0], NX_BOOL, (const char *)hits, 1, count);
    }
}

nx_status nx__bernoulli_fill(nx_run *run, nx_array *self, double p, nx_generator *generator) {
    draws all = {.dtype = (nx_dtype)self->dtype, .low = p, .g = generator};
    return fill_in_order(run, self, generator, fill_bernoulli, &all);
}

/* Uniform numbers, and what is made of them where they go. */
typedef struct exponentials { nx_dtype dtype; double over; const double *x; char *to; int64_t step; } exponentials;
enum { LOGARITHM = 128 }; /* what one costs */

static nx_status make_exponential(void *arg, int64_t begin, int64_t end) {
    const exponentials *p = arg;
    double x[DRAWS];
    float singles[DRAWS];
    for (int64_t at = begin, count; at < end; at += count) {
        count = nx_least(end - at, DRAWS);
        for (int64_t i = 0; i < count; i++) x[i] = p->over * log1p(-p->x[at + i]);
        for (int64_t i = 0; i < count; i++) singles[i] = (float)x[i]; /* to the half types by way of float32, as PyTorch does */
        char *to = p->to + at * p->step;
        if (p->dtype == NX_F64) nx_cast(NX_F64, to, p->step, NX_F64, (const char *)x, sizeof *x, count);
        else nx_cast(p->dtype, to, p->step, NX_F32, (const char *)singles, sizeof *singles, count);
    }
    return NX_OK;
}

/* What is drawn comes in order; the logarithms are made by several threads. */
static void fill_exponential(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const draws *p = arg;
    double x[16 * DRAWS];
    for (int64_t at = 0, count; at < n; at += count) {
        count = nx_least(n - at, NX_COUNT(x));
        for (int64_t i = 0; i < count; i += DRAWS) draw_53(p->g, x + i, nx_least(count - i, DRAWS));
        exponentials made = {p->dtype, -1 / p->low, x, ptrs[0] + at * steps[0], steps[0]};
        nx_status status = nx_parallel(count, nx_grain(LOGARITHM), make_exponential, &made);
        assert(status == NX_OK); /* make_exponential cannot fail */
        (void)status;
    }
}

nx_status nx__exponential_fill(nx_run *run, nx_array *self, double lambd, nx_generator *generator) {
    draws p = {.dtype = (nx_dtype)self->dtype, .low = lambd, .g = generator};
    return fill_in_order(run, self, generator, fill_exponential, &p);
}

/* The width of a draw depends on the range alone. Of 32 bits the rest is the upper half of what their product with 2^64 over
 * the range leaves, times the range: exact, and no division. */
static void draw_whole(const draws *p, int64_t *x, int64_t n) {
    uint32_t bits[2 * DRAWS];
    uint64_t from = (uint64_t)p->from, range = p->range;
    bool is_wide = range >= UINT64_C(1) << 28;
    nx_generator_fill(p->g, bits, is_wide ? 2 * n : n);
    if (!is_wide) {
        uint64_t over = UINT64_MAX / range + 1;
        for (int64_t i = 0; i < n; i++)
            x[i] = (int64_t)(from + (uint64_t)((unsigned __int128)(over * bits[i]) * range >> 64));
    } else if ((range & (range - 1)) == 0) {
        for (int64_t i = 0; i < n; i++)
            x[i] = (int64_t)(from + (((uint64_t)bits[2 * i] << 32 | bits[2 * i + 1]) & (range - 1)));
    } else {
        for (int64_t i = 0; i < n; i++)
            x[i] = (int64_t)(from + ((uint64_t)bits[2 * i] << 32 | bits[2 * i + 1]) % range);
    }
}
static void fill_range(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const draws *p = arg;
    int64_t x[DRAWS];
    for (int64_t at = 0, count; at < n; at += count) {
        count = n - at < DRAWS ? n - at : DRAWS;
        draw_whole(p, x, count);
        nx_cast(p->dtype, ptrs[0] + at * steps[0], steps[0], NX_I64, (const char *)x, sizeof *x, count);
    }
}

nx_status nx__random_fill(nx_run *run, nx_array *out, int64_t low, int64_t high, nx_generator *generator) {
    draws p = {.dtype = (nx_dtype)out->dtype, .from = low, .range = (uint64_t)high - (uint64_t)low,
               .g = generator};
    return fill_in_order(run, out, generator, fill_range, &p);
}

/* ---- randperm: PyTorch's order from the same seed: each place takes one of the places from itself on; of very many
 * elements each comes to one of the places up to its own --------------------------------------------------- */
static void shuffle(int64_t *order, int64_t n, nx_generator *generator) {
    bool many = n >= UINT32_MAX / 20;
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = 0; i < (many ? n : n - 1); i++) {
        int64_t other = many ? (int64_t)(nx_generator_u64(generator) % (uint64_t)(i + 1))
                             : i + (int64_t)(nx_generator_u32(generator) % (uint64_t)(n - i));
        int64_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

nx_status nx__random_order(nx_run *run, nx_array *out, nx_generator *generator) {
    int64_t n = out->numel;
    NX_TRY(nx__check_generator(run, generator));
    if (out->dtype == NX_BOOL) return nx_fail(NX_NOT_IMPLEMENTED, "\"randperm\" not implemented for 'Bool'");
    static const int64_t most[NX_N_DTYPES] = {
        [NX_U8] = 256, [NX_I8] = 128, [NX_I16] = 1 << 15, [NX_I32] = INT64_C(1) << 31, [NX_I64] = INT64_MAX,
        [NX_F16] = (1 << 11) + 1, [NX_BF16] = (1 << 8) + 1, [NX_F32] = (1 << 24) + 1,
        [NX_F64] = (INT64_C(1) << 53) + 1}; /* what it can tell apart, as PyTorch counts */
    if (n > most[out->dtype])
        return nx_fail(NX_RUNTIME, "randperm: n cannot be greater than %lld for type %s", (long long)most[out->dtype],
                       nx_dtype_name((nx_dtype)out->dtype));
    int64_t *order = nx_room_new((size_t)n * sizeof *order + 1);
    if (order == NULL) return nx_fail_memory((size_t)n * sizeof *order);
    nx_generator_lock(generator);
    shuffle(order, n, generator);
    nx_generator_unlock(generator);
    nx_dtype dtype = (nx_dtype)out->dtype;
    nx_cast(dtype, out->data, (int64_t)nx_dtype_bytes(dtype), NX_I64, (const char *)order, sizeof *order, n);
    nx_room_free(order);
    return NX_OK;
}

/* ---- multinomial: PyTorch's places from the same seed --------------------------------------------------- */
/* One draw a row, and draws without replacement, divide each probability by an exponential number of its own
 * and take the largest quotients; otherwise a uniform number is looked up in the running sum of the row. */
typedef struct draw {
    const nx_array *p;
    nx_array *out;
    int64_t n, rows, samples;
    bool largest; /* by quotients */
    nx_dtype dtype; /* computed in: float32 for the half types */
} draw;

static nx_status fail_probability(const nx_run *run, const draw *d, double x) {
    const char *op = nx_op_name(run->op);
    if (d->largest) return nx_fail(NX_RUNTIME, "%s: probability tensor contains either `inf`, `nan` or element < 0", op);
    return nx_fail(NX_RUNTIME, "%s: invalid multinomial distribution (encountering probability entry %s)", op,
                   x >= 0 ? "= infinity or NaN" : "< 0");
}

static nx_status check_row(const nx_run *run, const draw *d, const double *x) {
    uint64_t odd = 0, any = 0; /* by the bits: one has a sign or no finite exponent; one is not 0 */
    for (int64_t i = 0; i < d->n; i++) {
        uint64_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        odd |= bits | (bits + (UINT64_C(1) << 52));
        any |= bits << 1;
    }
    for (int64_t i = 0; odd >> 63 && i < d->n; i++) {
        if (!(x[i] >= 0 && x[i] < INFINITY)) return fail_probability(run, d, x[i]);
    }
    if (any) return NX_OK;
    return nx_fail(NX_RUNTIME, "%s: invalid multinomial distribution (sum of probabilities <= 0)", nx_op_name(run->op));
}

static nx_status check_rows(const nx_run *run, const draw *d, double *x) {
    for (int64_t row = 0; row < d->rows; row++) {
        nx__order_load(NX_F64, x, d->p, d->p->ndim - 1, row);
        NX_TRY(check_row(run, d, x));
    }
    return NX_OK;
}

static void store(const draw *d, int64_t row, const int64_t *at) {
    nx__row_store(NX_I64, at, d->out, d->out->ndim - 1, row);
}

/* ---- the largest quotients ------------------------------------------------------------------------------------------ */
/* An array in the memory order of `p`, without gaps. */
static void dense_like(const nx_array *p, nx_array *q, int64_t *dims) {
    nx_array_copy(q, p, dims);
    bool columns = p->ndim == 2 && p->strides[0] < p->strides[1] && p->sizes[0] > 1 && p->sizes[1] > 1;
    q->strides[p->ndim - 1] = columns ? p->sizes[0] : 1;
    if (p->ndim == 2) q->strides[0] = columns ? 1 : p->sizes[1];
    nx_array_refresh(q);
}

#define DEFINE(real, code)                                                                                       \
    static void take_largest_##real(const draw *d, const nx_array *q, int64_t row, real *x, real *y, int64_t *at) { \
        int dim = d->p->ndim - 1;                                                                                \
        nx__order_load(code, x, d->p, dim, row);                                                                   \
        nx__order_load(code, y, q, dim, row);                                                                      \
        for (int64_t i = 0; i < d->n; i++) x[i] /= y[i];                                                         \
        nx__row_store(code, x, q, dim, row); /* rounds the half types */                                         \
        nx__order_load(code, x, q, dim, row);                                                                      \
        if (d->samples == 1) at[0] = nx__order_best_##real(x, d->n, false);                                      \
        else nx__order_first_##real(x, d->n, d->samples, true, at);                                              \
    }
DEFINE(float, NX_F32)
DEFINE(double, NX_F64)
#undef DEFINE

static nx_status draw_largest(nx_run *run, const draw *d, nx_generator *generator, double *x, int64_t *at) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array q;
    size_t bytes;
    NX_TRY(nx_array_bytes(d->p, (nx_dtype)d->p->dtype, &bytes));
    dense_like(d->p, &q, dims);
    if ((q.data = nx_alloc(bytes + 1)) == NULL) return nx_fail_memory(bytes);
    nx_status status = nx__exponential_fill(run, &q, 1, generator);
    for (int64_t row = 0; row < d->rows && status == NX_OK; row++) {
        if (d->dtype == NX_F64) take_largest_double(d, &q, row, x, x + d->n, at);
        else take_largest_float(d, &q, row, (float *)x, (float *)(x + d->n), at);
        store(d, row, at);
    }
    nx_free(q.data);
    return status;
}

/* ---- by the running sum --------------------------------------------------------------------------------------------- */
#define DEFINE(real, code)                                                                                       \
    static void sum_row_##real(const draw *d, int64_t row, real *x) {                                            \
        nx__order_load(code, x, d->p, d->p->ndim - 1, row);                                                        \
        for (int64_t i = 1; i < d->n; i++) x[i] += x[i - 1];                                                     \
        real total = x[d->n - 1];                                                                                \
        for (int64_t i = 0; i < d->n; i++) x[i] /= total;                                                        \
        x[d->n - 1] = 1;                                                                                         \
    }
DEFINE(float, NX_F32)
DEFINE(double, NX_F64)
#undef DEFINE

/* The first place whose sum reaches u. */
static int64_t look_up(const draw *d, const double *x, double u) {
    int64_t low = 0, high = d->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        double sum = d->dtype == NX_F64 ? x[middle] : ((const float *)x)[middle];
        if (sum < u) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void draw_each(const draw *d, nx_generator *generator, double *x, int64_t *at) {
    for (int64_t row = 0; row < d->rows; row++) {
        if (d->dtype == NX_F64) sum_row_double(d, row, x);
        else sum_row_float(d, row, (float *)x);
        for (int64_t i = 0; i < d->samples; i++) {
            at[i] = look_up(d, x, nx__uniform_53(generator));
        }
        store(d, row, at);
    }
}

nx_status nx__multinomial_draw(nx_run *run, const nx_array *self, int64_t num_samples, bool replacement,
                               nx_generator *generator, nx_array *out) {
    int64_t n = self->sizes[self->ndim - 1], rows = self->ndim == 2 ? self->sizes[0] : 1;
    draw d = {self, out, n, rows, num_samples, num_samples == 1 || !replacement, self->dtype == NX_F64 ? NX_F64 : NX_F32};
    size_t row_bytes, bytes;
    NX_TRY(nx__check_generator(run, generator));
    NX_TRY(nx_bytes_of(n, 16, &row_bytes));
    NX_TRY(nx_bytes_of(num_samples, 8, &bytes));
    bytes += row_bytes;
    double *x = nx_room_new(bytes);
    if (x == NULL) return nx_fail_memory(bytes);
    int64_t *at = (int64_t *)(x + 2 * n);
    nx_status status = check_rows(run, &d, x);
    if (status == NX_OK && d.largest) status = draw_largest(run, &d, generator, x, at);
    else if (status == NX_OK) {
        nx_generator_lock(generator);
        draw_each(&d, generator, x, at);
        nx_generator_unlock(generator);
    }
    nx_room_free(x);
    return status;
}

/* ---- one number of a distribution for each element, in double ------------------------------------------------------ */
static void store_double(nx_dtype dtype, char *to, double x) {
    float single = (float)x; /* to the half types by way of float32 */
    bool is_half = dtype == NX_F16 || dtype == NX_BF16;
    if (is_half) nx_cast(dtype, to, 0, NX_F32, (const char *)&single, 0, 1);
    else nx_cast(dtype, to, 0, NX_F64, (const char *)&x, 0, 1);
}

enum { GEOMETRIC, CAUCHY, LOG_NORMAL };
typedef struct distribution { nx_dtype dtype; int kind; double a, b; nx_generator *g; } distribution;

static void fill_geometric(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const distribution *d = arg;
    double x[DRAWS], over = log1p(-d->a);
    float singles[DRAWS]; /* to the half types by way of float32 */
    bool is_half = d->dtype == NX_F16 || d->dtype == NX_BF16;
    for (int64_t at = 0, count; at < n; at += count) {
        count = n - at < DRAWS ? n - at : DRAWS;
        draw_53(d->g, x, count);
        for (int64_t i = 0; i < count; i++) x[i] = ceil(log(x[i]) / over);
        for (int64_t i = 0; i < count && is_half; i++) singles[i] = (float)x[i];
        char *to = ptrs[0] + at * steps[0];
        if (is_half) nx_cast(d->dtype, to, steps[0], NX_F32, (const char *)singles, sizeof *singles, count);
        else nx_cast(d->dtype, to, steps[0], NX_F64, (const char *)x, sizeof *x, count);
    }
}

static void fill_doubles(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const distribution *d = arg;
    for (int64_t i = 0; i < n; i++) {
        double x;
        if (d->kind == CAUCHY) x = __builtin_fma(tan(two_pi / 2 * (nx__uniform_53(d->g) - 0.5)), d->b, d->a);
        else x = exp(__builtin_fma(nx__next_normal(d->g), d->b, d->a));
        store_double(d->dtype, ptrs[0] + i * steps[0], x);
    }
}

static nx_status draw_doubles(nx_run *run, nx_array *self, int kind, double a, double b, nx_generator *generator) {
    distribution d = {(nx_dtype)self->dtype, kind, a, b, generator};
    return fill_in_order(run, self, generator, kind == GEOMETRIC ? fill_geometric : fill_doubles, &d);
}
nx_status nx__geometric_fill(nx_run *run, nx_array *self, double p, nx_generator *generator) {
    return draw_doubles(run, self, GEOMETRIC, p, 0, generator);
}
nx_status nx__cauchy_fill(nx_run *run, nx_array *self, double median, double sigma, nx_generator *generator) {
    return draw_doubles(run, self, CAUCHY, median, sigma, generator);
}
nx_status nx__log_normal_fill(nx_run *run, nx_array *self, double mean, double std, nx_generator *generator) {
    return draw_doubles(run, self, LOG_NORMAL, mean, std, generator);
}

/* ---- bernoulli with a probability for each element ------------------------------------------------------------------ */
typedef struct chances { nx_dtype dtype, p_dtype; nx_generator *g; bool outside; } chances;

/* Nothing is drawn for what is no chance, nor behind it. */
static void fill_chances(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    chances *c = arg;
    double p[DRAWS], u[DRAWS];
    uint8_t hits[DRAWS];
    for (int64_t at = 0, count; at < n && !c->outside; at += count) {
        count = n - at < DRAWS ? n - at : DRAWS;
        nx_cast(NX_F64, (char *)p, sizeof *p, c->p_dtype, ptrs[1] + at * steps[1], steps[1], count);
        for (int64_t i = 0; i < count; i++) {
            if (p[i] >= 0 && p[i] <= 1) continue;
            c->outside = true;
            count = i;
        }
        if (c->p_dtype == NX_F64) draw_53(c->g, u, count);
        else draw_24(c->g, u, count);
        for (int64_t i = 0; i < count; i++) hits[i] = u[i] < p[i];
        nx_cast(c->dtype, ptrs[0] + at * steps[0], steps[0], NX_BOOL, (const char *)hits, 1, count);
    }
}

nx_status nx__bernoulli_elements(nx_run *run, nx_array *self, const nx_array *p, nx_generator *generator) {
    chances c = {(nx_dtype)self->dtype, (nx_dtype)p->dtype, generator, false};
    nx_walk walk;
    NX_TRY(nx__check_generator(run, generator));
    nx_walk_start(&walk, self->ndim, self->sizes);
    nx_walk_add(&walk, self);
    nx_walk_add(&walk, p);
    nx_walk_merge(&walk);
    nx_generator_lock(generator);
    nx_walk_run(&walk, fill_chances, &c);
    nx_generator_unlock(generator);
    if (!c.outside) return NX_OK;
    return nx_fail(NX_RUNTIME, "%s: Expected p_in >= 0 && p_in <= 1 to be true, but got false.", nx_op_name(run->op));
}

/* ---- integers --------------------------------------------------------------------------------------------------------- */
/* From 0 to `top` an element of the dtype tells all integers apart; 0: it is no number. */
static uint64_t dtype_top(nx_dtype dtype) {
    static const uint64_t top[NX_N_DTYPES] = {
        [NX_BOOL] = 1, [NX_U8] = UINT8_MAX, [NX_I8] = INT8_MAX, [NX_I16] = INT16_MAX, [NX_I32] = INT32_MAX,
        [NX_I64] = INT64_MAX, [NX_F16] = 1 << 11, [NX_BF16] = 1 << 8, [NX_F32] = 1 << 24, [NX_F64] = UINT64_C(1) << 53};
    return top[dtype];
}

/* What a whole number is in a floating dtype; and how far apart the numbers are there that the dtype tells apart. */
static double as_dtype(nx_dtype dtype, int64_t x) {
    double rounded;
    _Alignas(8) char stored[8];
    nx_cast(dtype, stored, 0, NX_I64, (const char *)&x, 0, 1);
    nx_cast(NX_F64, (char *)&rounded, 0, dtype, stored, 0, 1);
    return rounded;
}

static uint64_t apart(nx_dtype dtype, int64_t x) {
    const int digits = dtype == NX_F64 ? 53 : dtype == NX_F32 ? 24 : dtype == NX_F16 ? 11 : 8;
    return UINT64_C(1) << (ilogb((double)x) - digits + 1);
}

/* Ends of [from, to) that the dtype has: where the last number before `to` would be rounded up to it, an earlier end; where `from`
 * would be rounded down, a later beginning. */
static int64_t below_end(nx_dtype dtype, int64_t to) {
    if (!nx_is_float(dtype) || to == INT64_MIN) return to;
    const double rounded = as_dtype(dtype, to - 1);
    if (rounded < (double)to) return to;
    const uint64_t above = rounded >= 0x1p63 ? UINT64_C(1) << 63 : (uint64_t)(int64_t)rounded;
    return (int64_t)(above - apart(dtype, to - 1));
}

static int64_t above_beginning(nx_dtype dtype, int64_t from) {
    if (!nx_is_float(dtype) || from == INT64_MAX) return from;
    const double rounded = as_dtype(dtype, from + 1);
    return rounded < (double)from ? (int64_t)((uint64_t)(int64_t)rounded + apart(dtype, from + 1)) : from;
}

static nx_status check_ends(nx_dtype dtype, int64_t from, int64_t last) {
    static const struct { const char *name; int64_t low, high; } limits[NX_N_DTYPES] = {
        [NX_BOOL] = {"bool", 0, 1}, [NX_U8] = {"unsigned char", 0, UINT8_MAX}, [NX_I8] = {"signed char", INT8_MIN, INT8_MAX},
        [NX_I16] = {"short", INT16_MIN, INT16_MAX}, [NX_I32] = {"int", INT32_MIN, INT32_MAX},
        [NX_F16] = {"c10::Half", -65504, 65504}};
    if (limits[dtype].name == NULL) return NX_OK;
    if (from < limits[dtype].low || from > limits[dtype].high)
        return nx_fail(NX_RUNTIME, "from is out of bounds for %s", limits[dtype].name);
    if (last < limits[dtype].low || last > limits[dtype].high)
        return nx_fail(NX_RUNTIME, "to - 1 is out of bounds for %s", limits[dtype].name);
    return NX_OK;
}

static void fill_bits(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const draws *p = arg;
    for (int64_t i = 0; i < n; i++) {
        int64_t x = (int64_t)(nx_generator_u32(p->g) % p->range);
        nx_cast(p->dtype, ptrs[0] + i * steps[0], 0, NX_I64, (const char *)&x, 0, 1);
    }
}

static void fill_words(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const draws *p = arg;
    for (int64_t i = 0; i < n; i++) {
        int64_t x = (int64_t)nx_generator_u64(p->g);
        nx_cast(p->dtype, ptrs[0] + i * steps[0], 0, NX_I64, (const char *)&x, 0, 1);
    }
}

nx_status nx__random_whole(nx_run *run, nx_array *self, nx_generator *generator) {
    draws p = {.dtype = (nx_dtype)self->dtype, .g = generator};
    p.range = dtype_top(p.dtype) + 1;
    if (p.range == 1)
        return nx_fail(NX_NOT_IMPLEMENTED, "\"random_\" not implemented for '%s'", nx_dtype_name((nx_dtype)self->dtype));
    bool is_wide = p.dtype == NX_I64 || p.dtype == NX_F64; /* two words of the generator */
    return fill_in_order(run, self, generator, is_wide ? fill_range : fill_bits, &p);
}

nx_status nx__random_from(nx_run *run, nx_array *self, int64_t from, nx_value to, nx_generator *generator) {
    draws p = {.dtype = (nx_dtype)self->dtype, .from = from, .g = generator};
    uint64_t top = dtype_top(p.dtype);
    if (top == 0)
        return nx_fail(NX_NOT_IMPLEMENTED, "\"random_\" not implemented for '%s'", nx_dtype_name((nx_dtype)self->dtype));
    if (to.tag != NX_TAG_NONE) {
        if (from >= to.i)
            return nx_fail(NX_RUNTIME, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
                           (long long)from, (long long)to.i);
        NX_TRY(check_ends(p.dtype, from, to.i - 1));
        int64_t end = below_end(p.dtype, to.i);
        p.from = from = above_beginning(p.dtype, from);
        if (from >= end)
            return nx_fail(NX_RUNTIME, "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from=%lld "
                           ">= to=%lld", (long long)from, (long long)end);
        p.range = (uint64_t)end - (uint64_t)from;
    } else {
        NX_TRY(check_ends(p.dtype, from, (int64_t)top));
        p.from = from = above_beginning(p.dtype, from);
        if (from > (int64_t)top)
            return nx_fail(NX_RUNTIME, "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, "
                           "but got from=%lld > to_inc=%lld", (long long)from, (long long)top);
        p.range = top - (uint64_t)from + 1;
        if (from == INT64_MIN) return fill_in_order(run, self, generator, fill_words, &p);
    }
    return fill_in_order(run, self, generator, fill_range, &p);
}

/* ---- poisson: products of uniform numbers for small rates, else transformed rejection (Hoermann, 1993) -------------- */
static double next_poisson(nx_generator *g, double rate) {
    if (rate < 10) {
        double product = 1, end = exp(-rate);
        for (int64_t k = 0; rate > 0; k++)
            if ((product *= nx__uniform_53(g)) <= end) return (double)k;
        return 0;
    }
    double root = sqrt(rate), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double inverse = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = nx__uniform_53(g) - 0.5, v = nx__uniform_53(g), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= v_r) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v) + log(inverse) - log(a / (us * us) + b) <= -rate + k * log(rate) - lgamma(k + 1)) return k;
    }
}

static void fill_poisson(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    chances *c = arg;
    for (int64_t i = 0; i < n; i++) {
        double rate;
        nx_cast(NX_F64, (char *)&rate, 0, c->p_dtype, ptrs[1] + i * steps[1], 0, 1);
        if (!(rate >= 0)) {
            c->outside = true;
            return;
        }
        store_double(c->dtype, ptrs[0] + i * steps[0], next_poisson(c->g, rate));
    }
}

nx_status nx__poisson_elements(nx_run *run, const nx_array *self, nx_generator *generator, nx_array *out) {
    chances c = {(nx_dtype)out->dtype, (nx_dtype)self->dtype, generator, false};
    nx_walk walk;
    NX_TRY(nx__check_generator(run, generator));
    nx_walk_start(&walk, out->ndim, out->sizes);
    nx_walk_add(&walk, out);
    nx_walk_add(&walk, self);
    nx_walk_merge(&walk);
    nx_generator_lock(generator);
    nx_walk_run(&walk, fill_poisson, &c);
    nx_generator_unlock(generator);
    if (!c.outside) return NX_OK;
    return nx_fail(NX_RUNTIME, "%s: invalid Poisson rate, expected rate to be non-negative", nx_op_name(run->op));
}
