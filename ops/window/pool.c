/* Kernels of pool.op. Along each dimension a table says which places each window has, so that plain, adaptive and fractional
 * pooling are one walk; plain windows of floats and doubles are walked by rows (pool_rows.h). Planes, of an image and a channel,
 * lie row by row in the computing type: float, double or int64; they are split over threads. */
#include "gen/kernels.h"
#include "window/pool_rows.h"

#include <math.h>

typedef nx__pool_axis axis;

typedef struct pool {
    axis axes[NX__SPACE];
    const nx__pool_rows *rows;      /* NULL: the walk */
    int64_t planes, in, out;        /* places of a plane */
    nx_dtype computing;
    const void *from;
    void *to;
    const int64_t *indices;
    bool adds;                      /* numbers that are sent to one place; else the last one stays */
    int64_t *made;                  /* indices that are made */
    int64_t divisor;                /* of averages; 0: the number of places */
    const double *samples;          /* planes x dims, of fractional windows */
    int64_t channels;               /* that lie side by side */
    const int64_t *kernel;
    int n_kernel, dims;
    nx__laid laid;
} pool;

static void finish(pool *p) {
    for (int d = 0; d < NX__SPACE; d++) nx_free(p->axes[d].low);
    nx__lay_end(&p->laid);
}

static nx_dtype computing_type(const nx_array *a) {
    return !nx_is_float((nx_dtype)a->dtype) ? NX_I64 : a->dtype == NX_F64 ? NX_F64 : NX_F32;
}

/* Sizes from the two tensors whose last dimensions are `in` and `out`, and room for the tables. */
static nx_status start(pool *p, const nx_array *in, const nx_array *out, int64_t dims) {
    *p = (pool){.planes = 1, .in = 1, .out = 1, .computing = computing_type(in), .dims = (int)dims};
    for (int k = 0; k < in->ndim - dims; k++) p->planes *= in->sizes[k];
    for (int d = 0; d < NX__SPACE; d++) {
        int k = d - (NX__SPACE - (int)dims);
        axis *a = &p->axes[d];
        a->in = k < 0 ? 1 : in->sizes[in->ndim - dims + k];
        a->out = k < 0 ? 1 : out->sizes[out->ndim - dims + k];
        a->step = 1;
        p->in *= a->in;
        p->out *= a->out;
        a->low = nx_alloc(sizeof(int64_t) * 3 * (size_t)(a->out + 1));
        if (a->low == NULL) return nx_fail_memory(sizeof(int64_t) * 3 * (size_t)(a->out + 1));
        a->high = a->low + a->out;
        a->count = a->high + a->out;
        if (k < 0) a->low[0] = 0, a->high[0] = a->count[0] = 1;
    }
    return NX_OK;
}

static const nx__pool_rows *rows_of_level(void) {
    static const nx__pool_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__pool_rows)};
    return rows[nx_level()];
}

static void plan_plain(pool *p, int64_t dims, const int64_t *kernel, int n_kernel, const int64_t *stride, int n_stride,
                       const int64_t *padding, int n_padding, const int64_t *dilation, int n_dilation, bool counts_padding) {
    if (n_stride == 0) stride = kernel, n_stride = n_kernel;
    for (int k = 0; k < dims; k++) {
        axis *a = &p->axes[NX__SPACE - dims + k];
        int64_t w = nx__space_at(kernel, n_kernel, k), s = nx__space_at(stride, n_stride, k), pad = nx__space_at(padding, n_padding, k);
        a->step = n_dilation ? nx__space_at(dilation, n_dilation, k) : 1;
        a->width = w;
        a->stride = s;
        a->padding = pad;
        for (int64_t i = 0; i < a->out; i++) {
            int64_t first = i * s - pad, end = first + (w - 1) * a->step + 1;
            int64_t whole = nx_least(first + w, a->in + pad) - first;
            a->high[i] = nx_least(end, a->in);
            if (first < 0) first += (a->step - 1 - first) / a->step * a->step;
            a->low[i] = first;
            a->count[i] = counts_padding ? whole : a->high[i] - first;
        }
    }
    if (p->computing != NX_I64 && p->in < INT32_MAX) p->rows = rows_of_level();
}

static void plan_adaptive(pool *p, int64_t dims) {
    for (int64_t d = NX__SPACE - dims; d < NX__SPACE; d++) {
        axis *a = &p->axes[d];
        for (int64_t i = 0; i < a->out; i++) {
            a->low[i] = i * a->in / a->out;
            a->high[i] = ((i + 1) * a->in + a->out - 1) / a->out;
            a->count[i] = a->high[i] - a->low[i];
        }
    }
}

/* The windows of one plane: the last one ends at the end. */
static void plan_fractional(const pool *p, int64_t plane, axis *axes) {
    for (int k = 0; k < p->dims; k++) {
        axis *a = &axes[NX__SPACE - p->dims + k];
        int64_t w = nx__space_at(p->kernel, p->n_kernel, k);
        /* Of two dimensions the last one's sample comes first, of three the first one's. */
        float sample = (float)p->samples[plane * p->dims + (p->dims == 2 ? 1 - k : k)];
        float apart = a->out > 1 ? (float)(a->in - w) / (float)(a->out - 1) : 0;
        for (int64_t i = 0; i < a->out; i++) {
            double low = (double)truncf(((float)i + sample) * apart) - (double)truncf(sample * apart);
            bool inside = low >= 0 && low <= (double)(a->in - w); /* a sample may be any number */
            a->low[i] = i == a->out - 1 ? a->in - w : inside ? (int64_t)low : 0;
            a->high[i] = a->low[i] + w;
        }
    }
}

#define EACH_WINDOW(axes)                                                              \
    for (int64_t z = 0, o = 0; z < (axes)[0].out; z++)                                 \
        for (int64_t y = 0; y < (axes)[1].out; y++)                                    \
            for (int64_t x = 0; x < (axes)[2].out; x++, o++)
#define EACH_PLACE(axes)                                                                                             \
    for (int64_t d = (axes)[0].low[z]; d < (axes)[0].high[z]; d += (axes)[0].step)                                   \
        for (int64_t h = (axes)[1].low[y]; h < (axes)[1].high[y]; h += (axes)[1].step)                               \
            for (int64_t w = (axes)[2].low[x], i = (d * (axes)[1].in + h) * (axes)[2].in + w; w < (axes)[2].high[x]; \
                 w += (axes)[2].step, i += (axes)[2].step)

static int64_t divisor_at(const pool *p, int64_t z, int64_t y, int64_t x) {
    return p->divisor ? p->divisor : p->axes[0].count[z] * p->axes[1].count[y] * p->axes[2].count[x];
}

static float over_f32(float sum, int64_t n) { return sum / (float)n; }
static double over_f64(double sum, int64_t n) { return sum / (double)n; }
static int64_t over_i64(int64_t sum, int64_t n) { return n == -1 ? (int64_t)-(uint64_t)sum : sum / n; }

/* Integers wrap: they are added as `wrapping`. */
#define DEFINE_POOLS(name, type, wrapping, lowest)                                                             \
    static void max_##name(const pool *p, const axis *axes, const type *from, type *to, int64_t *made) {       \
        EACH_WINDOW(axes) {                                                                                    \
            type best = lowest;                                                                                \
            int64_t at = (axes[0].low[z] * axes[1].in + axes[1].low[y]) * axes[2].in + axes[2].low[x];         \
            EACH_PLACE(axes) {                                                                                 \
                if (from[i] > best || from[i] != from[i]) best = from[i], at = i;                              \
            }                                                                                                  \
            to[o] = best;                                                                                      \
            made[o] = at;                                                                                      \
        }                                                                                                      \
    }                                                                                                          \
    static void average_##name(const pool *p, const type *from, type *to) {                                    \
        EACH_WINDOW(p->axes) {                                                                                 \
            wrapping sum = 0;                                                                                  \
            EACH_PLACE(p->axes) sum += (wrapping)from[i];                                                      \
            int64_t n = divisor_at(p, z, y, x);                                                                \
            to[o] = n ? over_##name((type)sum, n) : 0;                                                         \
        }                                                                                                      \
    }                                                                                                          \
    static void average_back_##name(const pool *p, const type *from, type *to) {                               \
        memset(to, 0, sizeof(type) * (size_t)p->in);                                                           \
        EACH_WINDOW(p->axes) {                                                                                 \
            int64_t n = divisor_at(p, z, y, x);                                                                \
            type part = n ? over_##name(from[o], n) : 0;                                                       \
            EACH_PLACE(p->axes) to[i] = (type)((wrapping)to[i] + (wrapping)part);                              \
        }                                                                                                      \
    }                                                                                                          \
    static bool put_##name(const pool *p, const type *from, const int64_t *at, type *to, bool adds) {          \
        memset(to, 0, sizeof(type) * (size_t)p->in);                                                           \
        for (int64_t o = 0; o < p->out; o++) {                                                                 \
            if (at[o] < 0 || at[o] >= p->in) return false;                                                     \
            to[at[o]] = adds ? (type)((wrapping)to[at[o]] + (wrapping)from[o]) : from[o];                      \
        }                                                                                                      \
        return true;                                                                                           \
    }
DEFINE_POOLS(f32, float, float, -INFINITY)
DEFINE_POOLS(f64, double, double, -INFINITY)
DEFINE_POOLS(i64, int64_t, uint64_t, INT64_MIN)

/* The function of the computing type, on plane `k`. */
#define CALL(function, p, from_step, to_step, k, ...)                                                                        \
    switch ((p)->computing) {                                                                                                \
    case NX_F32: function##_f32(p, __VA_ARGS__(float, from_step, to_step, p, k)); break;                                     \
    case NX_F64: function##_f64(p, __VA_ARGS__(double, from_step, to_step, p, k)); break;                                    \
    default: function##_i64(p, __VA_ARGS__(int64_t, from_step, to_step, p, k));                                              \
    }
#define BOTH(type, from_step, to_step, p, k) (const type *)(p)->from + (k) * (from_step), (type *)(p)->to + (k) * (to_step)
#define BOTH_AND_MADE(type, from_step, to_step, p, k) axes, BOTH(type, from_step, to_step, p, k), (p)->made + (k) * (to_step)

static nx_status run_max(void *arg, int64_t begin, int64_t end) {
    const pool *p = arg;
    axis axes[NX__SPACE];
    int64_t *room = NULL;
    memcpy(axes, p->axes, sizeof axes);
    if (p->samples) { /* tables of this thread */
        int64_t n = 0, used = 0;
        for (int d = 0; d < NX__SPACE; d++) n += 2 * axes[d].out;
        room = nx_alloc(sizeof(int64_t) * (size_t)n);
        if (room == NULL) return nx_fail_memory(sizeof(int64_t) * (size_t)n);
        for (int d = 0; d < NX__SPACE; used += 2 * axes[d++].out) {
            memcpy(room + used, axes[d].low, 2 * sizeof(int64_t) * (size_t)axes[d].out);
            axes[d].low = room + used;
            axes[d].high = axes[d].low + axes[d].out;
        }
    }
    for (int64_t k = begin; k < end; k++) {
        if (p->samples) plan_fractional(p, k, axes);
        if (p->rows == NULL) { CALL(max, p, p->in, p->out, k, BOTH_AND_MADE) }
        else if (p->computing == NX_F32) p->rows->of_float.max(BOTH_AND_MADE(float, p->in, p->out, p, k));
        else p->rows->of_double.max(BOTH_AND_MADE(double, p->in, p->out, p, k));
    }
    nx_free(room);
    return NX_OK;
}

static nx_status run_average(void *arg, int64_t begin, int64_t end) {
    const pool *p = arg;
    for (int64_t k = begin; k < end; k++) {
        if (p->rows == NULL) { CALL(average, p, p->in, p->out, k, BOTH) }
        else if (p->computing == NX_F32) p->rows->of_float.average(p->axes, p->divisor, BOTH(float, p->in, p->out, p, k));
        else p->rows->of_double.average(p->axes, p->divisor, BOTH(double, p->in, p->out, p, k));
    }
    return NX_OK;
}

static nx_status run_average_back(void *arg, int64_t begin, int64_t end) {
    const pool *p = arg;
    for (int64_t k = begin; k < end; k++) {
        if (p->rows == NULL) { CALL(average_back, p, p->out, p->in, k, BOTH) }
        else if (p->computing == NX_F32) p->rows->of_float.average_back(p->axes, p->divisor, BOTH(float, p->out, p->in, p, k));
        else p->rows->of_double.average_back(p->axes, p->divisor, BOTH(double, p->out, p->in, p, k));
    }
    return NX_OK;
}

/* Says which of the places at `at` lies outside. */
static nx_status fail_place(const pool *p, const int64_t *at) {
    char size[96] = "";
    size_t used = 0;
    int64_t bad = 0;
    for (int64_t i = 0; i < p->out; i++) {
        if (at[i] >= 0 && at[i] < p->in) continue;
        bad = at[i];
        break;
    }
    for (int d = NX__SPACE - p->dims; d < NX__SPACE; d++)
        used += (size_t)snprintf(size + used, sizeof size - used, "%s%lld", used ? "x" : "", (long long)p->axes[d].in);
    return nx_fail(NX_RUNTIME, "Found an invalid max index: %lld (output volumes are of size %s)", (long long)bad, size);
}

static nx_status run_put(void *arg, int64_t begin, int64_t end) {
    const pool *p = arg;
    for (int64_t k = begin; k < end; k++) {
        const int64_t *at = p->indices + k * p->out;
        bool adds = p->adds, fits;
        if (p->computing == NX_F32) fits = put_f32(p, (const float *)p->from + k * p->out, at, (float *)p->to + k * p->in, adds);
        else if (p->computing == NX_F64) fits = put_f64(p, (const double *)p->from + k * p->out, at, (double *)p->to + k * p->in, adds);
        else fits = put_i64(p, (const int64_t *)p->from + k * p->out, at, (int64_t *)p->to + k * p->in, adds);
        if (!fits) return fail_place(p, at);
    }
    return NX_OK;
}

/* ---- channels side by side: rows of windows of all images, without copies ---------------------------------------------- */
static nx_status run_lanes(void *arg, int64_t begin, int64_t end) {
    const pool *p = arg;
    const nx__pool_rows *rows = rows_of_level();
    const axis *axes = p->axes;
    int64_t of_image = axes[0].out * axes[1].out;
    for (int64_t k = begin; k < end; k++) {
        int64_t image = k / of_image, row = k % of_image, from = image * p->in * p->channels, to = image * p->out * p->channels;
#define RUN(type)                                                                                                          \
    if (p->made) rows->of_##type.max_lanes(axes, row, p->channels, (const type *)p->from + from, (type *)p->to + to, p->made + to); \
    else rows->of_##type.average_lanes(axes, p->divisor, row, p->channels, (const type *)p->from + from, (type *)p->to + to)
        if (p->computing == NX_F32) RUN(float);
        else RUN(double);
#undef RUN
    }
    return NX_OK;
}

/* What is read and written, indices NULL: none; turned, where the channels of all lie side by side. */
typedef struct sides {
    const nx_array *self, *out, *indices;
    nx_array turned[3];
    int64_t dims[3][2 * NX_MAX_DIMS];
} sides;

static bool turn_sides(const pool *p, sides *s) {
    const nx_array **all[] = {&s->self, &s->out, &s->indices};
    if (p->samples || p->computing == NX_I64 || p->in >= INT32_MAX || p->dims != s->self->ndim - 2) return false;
    for (int k = 0; k < 3; k++) if (*all[k] && !nx__lies_by_channels(*all[k], &s->turned[k], s->dims[k])) return false;
    for (int k = 0; k < 3; k++) if (*all[k]) *all[k] = &s->turned[k];
    return true;
}

/* By `body`, a plane after the other, or by rows of channels where those lie side by side and `by_rows` is true. */
static nx_status run_windows(pool *p, const nx_array *self, const nx_array *out, const nx_array *indices, nx_parallel_fn *body,
                             bool by_rows) {
    sides s = {.self = self, .out = out, .indices = indices};
    bool turned = by_rows && turn_sides(p, &s);
    p->channels = turned ? self->sizes[1] : 1;
    NX_TRY(nx__lay(&p->laid, s.self, p->computing, true, &p->from));
    NX_TRY(nx__lay(&p->laid, s.out, p->computing, false, &p->to));
    NX_TRY(nx__lay(&p->laid, s.indices, NX_I64, false, &p->made));
    int64_t rows = p->axes[0].out * p->axes[1].out;
    if (turned) NX_TRY(nx_parallel(self->sizes[0] * rows, nx_grain((p->in + p->out) * p->channels * 8 / rows), run_lanes, p));
    else NX_TRY(nx_parallel(p->planes, nx_grain((p->in + p->out) * 32), body, p));
    nx__lay_back(&p->laid, s.out, p->to);
    nx__lay_back(&p->laid, s.indices, p->made);
    return NX_OK;
}

/* The largest numbers of windows that are planned. */
static nx_status find_max(pool *p, const nx_array *self, nx_array *out, nx_array *indices) {
    return run_windows(p, self, out, indices, run_max, true);
}

static nx_status walk(pool *p, const nx_array *from, nx_array *out, nx_parallel_fn *body) {
    return run_windows(p, from, out, NULL, body, body == run_average);
}

nx_status nx__pool_max(nx_run *run, const nx_array *self, const int64_t *kernel_size, int n_kernel_size, const int64_t *stride,
                       int n_stride, const int64_t *padding, int n_padding, const int64_t *dilation, int n_dilation, nx_value dims,
                       nx_array *result0, nx_array *result1) {
    pool p;
    if (result0->numel == 0) return NX_OK;
    nx_status status = start(&p, self, result0, dims.i);
    if (status == NX_OK) {
        plan_plain(&p, dims.i, kernel_size, n_kernel_size, stride, n_stride, padding, n_padding, dilation, n_dilation, false);
        status = find_max(&p, self, result0, result1);
    }
    finish(&p);
    return status;
}

nx_status nx__pool_adaptive_max(nx_run *run, const nx_array *self, nx_value dims, nx_array *result0, nx_array *result1) {
    pool p;
    if (result0->numel == 0) return NX_OK;
    nx_status status = start(&p, self, result0, dims.i);
    if (status == NX_OK) {
        plan_adaptive(&p, dims.i);
        status = find_max(&p, self, result0, result1);
    }
    finish(&p);
    return status;
}

nx_status nx__pool_fractional(nx_run *run, const nx_array *self, const int64_t *kernel_size, int n_kernel_size,
                              const nx_array *random_samples, nx_value dims, nx_array *result0, nx_array *result1) {
    pool p;
    if (result0->numel == 0) return NX_OK;
    nx_status status = start(&p, self, result0, dims.i);
    void *samples;
    if (status == NX_OK) status = nx__lay(&p.laid, random_samples, NX_F64, true, &samples);
    if (status == NX_OK) {
        p.samples = samples;
        p.kernel = kernel_size;
        p.n_kernel = n_kernel_size;
        status = find_max(&p, self, result0, result1);
    }
    finish(&p);
    return status;
}

/* Averages forward, or their gradient back, over windows that are planned as `in` and `out` say. */
static nx_status average(const nx_array *from, const nx_array *in, const nx_array *out, nx_array *result, int64_t dims,
                         const int64_t *kernel, int n_kernel, const int64_t *stride, int n_stride, const int64_t *padding, int n_padding,
                         bool counts_padding, int64_t divisor) {
    pool p;
    if (result->numel == 0) return NX_OK;
    nx_status status = start(&p, in, out, dims);
    if (status == NX_OK) {
        p.divisor = divisor;
        if (kernel == NULL) plan_adaptive(&p, dims);
        else plan_plain(&p, dims, kernel, n_kernel, stride, n_stride, padding, n_padding, NULL, 0, counts_padding);
        status = walk(&p, from, result, from == in ? run_average : run_average_back);
    }
    finish(&p);
    return status;
}

static int64_t divisor_of(nx_value given) { return given.tag == NX_TAG_NONE ? 0 : given.i; }

nx_status nx__pool_average(nx_run *run, const nx_array *self, const int64_t *kernel_size, int n_kernel_size, const int64_t *stride,
                           int n_stride, const int64_t *padding, int n_padding, bool count_include_pad, nx_value divisor_override,
                           nx_value dims, nx_array *out) {
    return average(self, self, out, out, dims.i, kernel_size, n_kernel_size, stride, n_stride, padding, n_padding,
                   count_include_pad, divisor_of(divisor_override));
}

nx_status nx__pool_average_back(nx_run *run, const nx_array *grad_output, const nx_array *self, const int64_t *kernel_size,
                                int n_kernel_size, const int64_t *stride, int n_stride, const int64_t *padding, int n_padding,
                                bool count_include_pad, nx_value divisor_override, nx_value dims, nx_array *out) {
    return average(grad_output, self, grad_output, out, dims.i, kernel_size, n_kernel_size, stride, n_stride, padding, n_padding,
                   count_include_pad, divisor_of(divisor_override));
}

nx_status nx__pool_adaptive(nx_run *run, const nx_array *self, nx_value dims, nx_array *out) {
    return average(self, self, out, out, dims.i, NULL, 0, NULL, 0, NULL, 0, false, 0);
}

nx_status nx__pool_adaptive_back(nx_run *run, const nx_array *grad_output, const nx_array *self, nx_value dims, nx_array *out) {
    return average(grad_output, self, grad_output, out, dims.i, NULL, 0, NULL, 0, NULL, 0, false, 0);
}

/* Zeros with the numbers that `indices` send there: their sums, or the last one. */
static nx_status send(const nx_array *from, const nx_array *indices, int64_t dims, bool adds, nx_array *out) {
    pool p;
    void *at;
    if (out->numel == 0) return NX_OK;
    nx_status status = start(&p, out, from, dims);
    if (status == NX_OK) status = nx__lay(&p.laid, indices, NX_I64, true, &at);
    if (status == NX_OK) {
        p.indices = at;
        p.adds = adds;
        status = walk(&p, from, out, run_put);
    }
    finish(&p);
    return status;
}

nx_status nx__pool_put(nx_run *run, const nx_array *from, const nx_array *indices, nx_value dims, nx_array *out) {
    return send(from, indices, dims.i, true, out);
}

nx_status nx__pool_place(nx_run *run, const nx_array *from, const nx_array *indices, nx_value dims, nx_array *out) {
    return send(from, indices, dims.i, false, out);
}
