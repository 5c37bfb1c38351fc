/* Kernels of conv.op. float32, and the halves as float32, by src/kernel/convolve/convolve.c over operands that lie row by row, or, where
 * the input's channels lie side by side and beside.c knows the kind, over images that all lie so. Other dtypes: windows are
 * unfolded into the columns of a matrix, of one image and group at a time, and the products are those of matrices. All ways see
 * a big side, through whose windows the places of a small side look; transposed, the result is the big side. */
#include "gen/kernels.h"
#include "window/beside.h"

typedef struct conv {
    nx_windows w;
    nx_dtype computing;
    bool beside;                /* images are laid with their channels side by side */
    nx__laid laid;
} conv;

static void describe(conv *c, const nx_array *big, const nx_array *small, const nx_array *weight, const int64_t *stride, int n_stride,
                     const int64_t *padding, int n_padding, const int64_t *dilation, int n_dilation, int64_t groups) {
    int dims = weight->ndim - 2;
    *c = (conv){.w = {.images = big->sizes[0], .groups = groups, .big_channels = weight->sizes[1],
                      .small_channels = weight->sizes[0] / groups}};
    for (int d = 0; d < NX__SPACE; d++) {
        int k = d - (NX__SPACE - dims);
        c->w.big[d] = k < 0 ? 1 : big->sizes[k + 2];
        c->w.small[d] = k < 0 ? 1 : small->sizes[k + 2];
        c->w.kernel[d] = k < 0 ? 1 : weight->sizes[k + 2];
        c->w.stride[d] = k < 0 ? 1 : nx__space_at(stride, n_stride, k);
        c->w.padding[d] = k < 0 ? 0 : nx__space_at(padding, n_padding, k);
        c->w.dilation[d] = k < 0 ? 1 : nx__space_at(dilation, n_dilation, k);
        if (c->w.small[d] <= 1) c->w.stride[d] = 1; /* nothing is as far as that: it may be any number */
        if (c->w.kernel[d] <= 1) c->w.dilation[d] = 1;
    }
    c->computing = !nx_is_float((nx_dtype)big->dtype) ? NX_I64 : big->dtype == NX_F64 ? NX_F64 : NX_F32;
}

static bool suits_beside(const conv *c, const nx_array *input, const nx_array *weight) {
    const bool beside = nx_is_channels_last(input) && !input->contiguous && input->numel && weight->numel;
    return beside && c->computing == NX_F32 && nx__beside_suits(&c->w);
}

/* Images: nx__lay and nx__lay_back of what lies as c->beside says. */
static nx_status lay_image(conv *c, const nx_array *a, bool reads, void *out) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array turned;
    if (a && c->beside) nx__turn_channels(a, &turned, dims);
    return nx__lay(&c->laid, a && c->beside ? &turned : a, c->computing, reads, out);
}

static void put_image(const conv *c, const nx_array *to, const void *at) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array turned;
    if (to && c->beside) nx__turn_channels(to, &turned, dims);
    nx__lay_back(&c->laid, to && c->beside ? &turned : to, at);
}

static void fill_zero(const nx_array *a) {
    double zero = 0;
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array from;
    nx_array_copy(&from, a, dims);
    for (int d = 0; d < a->ndim; d++) from.strides[d] = 0;
    from.dtype = NX_F64;
    from.data = &zero;
    nx_array_refresh(&from);
    nx_copy_cast(a, &from);
}

/* ---- windows as columns: every number type ---------------------------------------------------------------------- */
typedef struct matrix { nx_array a; int64_t dims[4]; } matrix;

static void make_matrix(matrix *m, nx_dtype dtype, void *data, int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) {
    *m = (matrix){.a = {.data = data, .dtype = (uint8_t)dtype, .ndim = 2}, .dims = {rows, columns, row_step, column_step}};
    m->a.sizes = m->dims;
    m->a.strides = m->dims + 2;
    nx_array_refresh(&m->a);
}

static int64_t volume(const int64_t *n) { return n[0] * n[1] * n[2]; }

/* What of a row of the small side sees something of a row of the big one at tap `t`: places *begin .. *end; the first of them
 * sees place *at. */
static void seen_at(const nx_windows *w, int64_t t, int64_t *begin, int64_t *end, int64_t *at) {
    const int64_t d = NX__SPACE - 1, first = t * w->dilation[d] - w->padding[d], stride = w->stride[d];
    int64_t beyond = w->big[d] - first; /* places from here on are outside */
    *begin = nx_least(first < 0 ? (-first + stride - 1) / stride : 0, w->small[d]);
    *end = nx_least(beyond > 0 ? (beyond + stride - 1) / stride : 0, w->small[d]);
    *at = first + *begin * stride;
}

/* The row of the big side that row `s` (of all but the last dimension) of the small one sees at tap `t`; -1: outside. */
static int64_t row_seen(const nx_windows *w, int64_t s, int64_t t) {
    int64_t sees[2], rest_s = s, rest_t = t / w->kernel[NX__SPACE - 1];
    for (int d = NX__SPACE - 2; d >= 0; d--) {
        sees[d] = rest_s % w->small[d] * w->stride[d] - w->padding[d] + rest_t % w->kernel[d] * w->dilation[d];
        if (sees[d] < 0 || sees[d] >= w->big[d]) return -1;
        rest_s /= w->small[d];
        rest_t /= w->kernel[d];
    }
    return sees[0] * w->big[1] + sees[1];
}
_Static_assert(NX__SPACE == 3, "two dimensions of rows");

/* Integers wrap: they are added as `wrapping`. */
#define DEFINE_COLUMNS(name, type, wrapping)                                                                             \
    static void unfold_row_##name(type *to, const type *from, int64_t stride, int64_t n) {                               \
        if (stride == 1) memcpy(to, from, sizeof *to * (size_t)n);                                                       \
        else for (int64_t i = 0; i < n; i++) to[i] = from[i * stride];                                                   \
    }                                                                                                                    \
    static void fold_row_##name(type *restrict to, const type *restrict from, int64_t stride, int64_t n) {               \
        if (stride == 1) for (int64_t i = 0; i < n; i++) to[i] = (type)((wrapping)to[i] + (wrapping)from[i]);            \
        else for (int64_t i = 0; i < n; i++) to[i * stride] = (type)((wrapping)to[i * stride] + (wrapping)from[i]);      \
    }                                                                                                                    \
    static void unfold_##name(const nx_windows *w, type *columns, const type *big) {                                     \
        int64_t taps = volume(w->kernel), rows = w->small[0] * w->small[1], length = w->small[2], begin, end, at;        \
        for (int64_t k = 0; k < w->big_channels * taps; k++, big += k % taps ? 0 : volume(w->big)) {                     \
            seen_at(w, k % taps % w->kernel[2], &begin, &end, &at);                                                      \
            for (int64_t s = 0; s < rows; s++, columns += length) {                                                      \
                int64_t row = begin < end ? row_seen(w, s, k % taps) : -1;                                               \
                memset(columns, 0, sizeof *columns * (size_t)(row < 0 ? length : begin));                                \
                if (row < 0) continue;                                                                                   \
                unfold_row_##name(columns + begin, big + row * w->big[2] + at, w->stride[2], end - begin);               \
                memset(columns + end, 0, sizeof *columns * (size_t)(length - end));                                      \
            }                                                                                                            \
        }                                                                                                                \
    }                                                                                                                    \
    static void fold_##name(const nx_windows *w, const type *columns, type *big) {                                       \
        int64_t taps = volume(w->kernel), rows = w->small[0] * w->small[1], length = w->small[2], begin, end, at;        \
        memset(big, 0, sizeof(type) * (size_t)(w->big_channels * volume(w->big)));                                       \
        for (int64_t k = 0; k < w->big_channels * taps; k++, big += k % taps ? 0 : volume(w->big)) {                     \
            seen_at(w, k % taps % w->kernel[2], &begin, &end, &at);                                                      \
            for (int64_t s = 0; s < rows; s++, columns += length) {                                                      \
                int64_t row = begin < end ? row_seen(w, s, k % taps) : -1;                                               \
                if (row >= 0) fold_row_##name(big + row * w->big[2] + at, columns + begin, w->stride[2], end - begin);   \
            }                                                                                                            \
        }                                                                                                                \
    }
DEFINE_COLUMNS(f64, double, double)
DEFINE_COLUMNS(i64, int64_t, uint64_t)

typedef enum way { GATHER, SPREAD, WEIGH } way;
typedef struct unfolded {
    const conv *c;
    way way;
    char *big, *small, *weight;
} unfolded;

static nx_status multiply(const conv *c, const matrix *a, const matrix *b, const matrix *out) {
    if (c->computing == NX_F64 && nx_blas_get()) return nx_gemm_blas(&a->a, &b->a, &out->a);
    return nx_gemm_plain(&a->a, &b->a, &out->a);
}

static void unfold(const conv *c, void *columns, const void *big) {
    if (c->computing == NX_F64) unfold_f64(&c->w, columns, big);
    else unfold_i64(&c->w, columns, big);
}

/* Whether the big side's channels are the columns: windows of one place that are side by side. */
static bool are_columns(const nx_windows *w) {
    bool same = volume(w->kernel) == 1;
    for (int d = 0; d < NX__SPACE; d++) same = same && w->stride[d] == 1 && w->padding[d] == 0 && w->big[d] == w->small[d];
    return same;
}

/* One image and group; WEIGH adds to `sum`, room for a group's weights. */
static nx_status run_one(const unfolded *u, int64_t image, int64_t group, char *columns, char *sum) {
    const nx_windows *w = &u->c->w;
    int64_t k = w->big_channels * volume(w->kernel), places = volume(w->small), at = image * w->groups + group;
    char *big = u->big + at * w->big_channels * volume(w->big) * 8, *small = u->small + at * w->small_channels * places * 8;
    char *weight = u->weight + group * w->small_channels * k * 8;
    bool same = are_columns(w);
    if (same) columns = big;
    matrix cols, turned, s, a, a_turned;
    make_matrix(&cols, u->c->computing, columns, k, places, places, 1);
    make_matrix(&turned, u->c->computing, columns, places, k, 1, places);
    make_matrix(&s, u->c->computing, small, w->small_channels, places, places, 1);
    make_matrix(&a, u->c->computing, u->way == WEIGH ? sum : weight, w->small_channels, k, k, 1);
    make_matrix(&a_turned, u->c->computing, weight, k, w->small_channels, 1, k);
    if (u->way == SPREAD) {
        NX_TRY(multiply(u->c, &a_turned, &s, &cols));
        if (same) return NX_OK;
        if (u->c->computing == NX_F64) fold_f64(w, (double *)columns, (double *)big);
        else fold_i64(w, (int64_t *)columns, (int64_t *)big);
        return NX_OK;
    }
    if (!same) unfold(u->c, columns, big);
    if (u->way == GATHER) return multiply(u->c, &a, &cols, &s);
    NX_TRY(multiply(u->c, &s, &turned, &a));
    for (int64_t i = 0; i < w->small_channels * k; i++) {
        if (u->c->computing == NX_F64) ((double *)weight)[i] += ((double *)sum)[i];
        else ((uint64_t *)weight)[i] += ((uint64_t *)sum)[i];
    }
    return NX_OK;
}

static nx_status run_images(void *arg, int64_t begin, int64_t end) {
    const unfolded *u = arg;
    const nx_windows *w = &u->c->w;
    int64_t k = w->big_channels * volume(w->kernel);
    size_t columns = (size_t)(k * volume(w->small)) * 8, bytes = columns + (size_t)(w->small_channels * k) * 8;
    char *room = nx_room_new(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    nx_status status = NX_OK;
    for (int64_t at = begin; at < end && status == NX_OK; at++) {
        for (int64_t image = 0; u->way == WEIGH && image < w->images && status == NX_OK; image++)
            status = run_one(u, image, at, room, room + columns);
        if (u->way != WEIGH) status = run_one(u, at / w->groups, at % w->groups, room, NULL);
    }
    nx_room_free(room);
    return status;
}

static nx_status run_unfolded(const conv *c, way way, void *big, void *small, void *weight) {
    const nx_windows *w = &c->w;
    unfolded u = {c, way, big, small, weight};
    int64_t k = w->big_channels * volume(w->kernel);
    if (way == WEIGH) memset(weight, 0, (size_t)(w->groups * w->small_channels * k) * 8);
    return nx_parallel(way == WEIGH ? w->groups : w->images * w->groups, nx_grain(k * volume(w->small) * (w->small_channels + 8)),
                       run_images, &u);
}

/* ---- convolution ---------------------------------------------------------------------------------------------------- */
/* Adds a number to each channel of images x channels x plane. */
static void add_bias(const conv *c, void *to, const void *bias, int64_t channels, int64_t plane) {
    for (int64_t row = 0; bias && row < c->w.images * channels; row++) {
        double *x = (double *)to + row * plane, b = ((const double *)bias)[row % channels];
        uint64_t *whole = (uint64_t *)to + row * plane, n = ((const uint64_t *)bias)[row % channels];
        if (c->computing == NX_F64) for (int64_t i = 0; i < plane; i++) x[i] += b;
        else for (int64_t i = 0; i < plane; i++) whole[i] += n;
    }
}

static nx_status convolve(const conv *c, bool spreads, void *big, void *small, void *weight, const void *bias, const nx_tail *tail) {
    const nx_windows *w = &c->w;
    assert(tail == NULL || (c->computing == NX_F32 && !spreads));
    if (c->beside)
        return spreads ? nx__beside_spread(w, small, weight, bias, big) : nx__beside_gather(w, big, weight, bias, tail, small);
    if (c->computing == NX_F32)
        return spreads ? nx_convolve_spread(w, small, weight, bias, big) : nx_convolve_gather(w, big, weight, bias, tail, small);
    NX_TRY(run_unfolded(c, spreads ? SPREAD : GATHER, big, small, weight));
    if (spreads) add_bias(c, big, bias, w->groups * w->big_channels, volume(w->big));
    else add_bias(c, small, bias, w->groups * w->small_channels, volume(w->small));
    return NX_OK;
}

/* What follows a convolution, as nx_tail, of tensors. */
typedef struct following { const nx_array *factor, *offset, *other; float low, high; } following;

/* follows: NULL: nothing. */
static nx_status run_convolution(conv *c, bool transposed, const nx_array *input, const nx_array *weight, const nx_array *bias,
                                 const following *follows, const nx_array *out) {
    nx_status status = NX_OK;
    nx_tail tail = {0};
    void *x, *y, *w, *b;
    c->beside = suits_beside(c, input, weight);
    NX_TRY_FAIL(lay_image(c, out, false, &y));
    if (follows) {
        tail = (nx_tail){.low = follows->low, .high = follows->high};
        NX_TRY_FAIL(nx__lay(&c->laid, follows->factor, c->computing, true, &tail.factor));
        NX_TRY_FAIL(nx__lay(&c->laid, follows->offset, c->computing, true, &tail.offset));
        NX_TRY_FAIL(lay_image(c, follows->other, true, &tail.other));
    }
    if (input->numel == 0 || weight->numel == 0) {
        memset(y, 0, (size_t)out->numel * nx_dtype_bytes(c->computing));
        if (follows) nx_convolve_follow(&c->w, &tail, y);
    } else {
        NX_TRY_FAIL(lay_image(c, input, true, &x));
        NX_TRY_FAIL(nx__lay(&c->laid, weight, c->computing, true, &w));
        NX_TRY_FAIL(nx__lay(&c->laid, bias, c->computing, true, &b));
        NX_TRY_FAIL(convolve(c, transposed, transposed ? y : x, transposed ? x : y, w, b, follows ? &tail : NULL));
    }
    put_image(c, out, y);
fail:
    nx__lay_end(&c->laid);
    return status;
}

nx_status nx__convolution(nx_run *run, const nx_array *input, const nx_array *weight, const nx_array *bias, const int64_t *stride,
                          int n_stride, const int64_t *padding, int n_padding, const int64_t *dilation, int n_dilation,
                          bool transposed, const int64_t *output_padding, int n_output_padding, int64_t groups, nx_array *out) {
    conv c;
    if (out->numel == 0) return NX_OK;
    describe(&c, transposed ? out : input, transposed ? input : out, weight, stride, n_stride, padding, n_padding, dilation,
             n_dilation, groups);
    return run_convolution(&c, transposed, input, weight, bias, NULL, out);
}

/* ---- with what follows it ------------------------------------------------------------------------------------------ */
/* narthex::convolution_point: a convolution of float32 on the CPU, and what follows it element by element while its numbers are near:
 * times `factor` plus `offset`, numbers of each channel, plus `other`, no less than `low` and no more than `high`. The bits are those
 * of aten::addcmul, add and hardtanh. Passes make it (src/pass/follow.c). */
static bool is_float_on_cpu(const nx_value *v) {
    return v->tag == NX_TAG_NONE || (v->array->dtype == NX_F32 && v->array->device.type == 0);
}

static nx_status shape_point(const nx_value *in, nx_meta *out) {
    NX_TRY(nx_op_get("aten::convolution")->def->meta(in, out));
    bool fits = !in[NX_POINT_TRANSPOSED].i && out->dtype == NX_F32 && out->device.type == 0;
    fits = fits && is_float_on_cpu(&in[1]) && is_float_on_cpu(&in[2]);
    fits = fits && (in[NX_POINT_FACTOR].tag == NX_TAG_NONE) == (in[NX_POINT_OFFSET].tag == NX_TAG_NONE);
    for (int k = NX_POINT_FACTOR; k <= NX_POINT_OTHER; k++) fits = fits && is_float_on_cpu(&in[k]);
    for (int k = NX_POINT_FACTOR; k <= NX_POINT_OFFSET; k++)
        fits = fits && (in[k].tag == NX_TAG_NONE || in[k].array->numel == out->size[1]);
    if (fits && in[NX_POINT_OTHER].tag == NX_TAG_TENSOR) {
        const nx_array *other = in[NX_POINT_OTHER].array;
        fits = other->ndim == out->ndim;
        for (int d = 0; fits && d < out->ndim; d++) fits = other->sizes[d] == out->size[d];
    }
    return fits ? NX_OK : nx_fail(NX_VALUE, "convolution_point: it takes a convolution of float32 on the CPU and what may follow it");
}

static const nx_array *array_of(const nx_value *v) { return v->tag == NX_TAG_TENSOR ? v->array : NULL; }

static nx_status run_point(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_value *low = &in[NX_POINT_LOW], *high = &in[NX_POINT_HIGH];
    conv c;
    if (out[0].array->numel == 0) return NX_OK;
    describe(&c, in[0].array, out[0].array, in[1].array, in[3].ints, in[3].n, in[4].ints, in[4].n, in[5].ints, in[5].n, in[8].i);
    const following follows = {array_of(&in[NX_POINT_FACTOR]), array_of(&in[NX_POINT_OFFSET]), array_of(&in[NX_POINT_OTHER]),
                               low->tag == NX_TAG_NONE ? -INFINITY : (float)low->f,
                               high->tag == NX_TAG_NONE ? INFINITY : (float)high->f};
    return run_convolution(&c, false, in[0].array, in[1].array, array_of(&in[2]), &follows, out[0].array);
}

static const nx_param point_params[NX_POINT_N_ARGS] = {
    {.name = "input", .type = NX_TYPE_TENSOR},        {.name = "weight", .type = NX_TYPE_TENSOR},
    {.name = "bias", .type = NX_TYPE_TENSOR, .optional = true},
    {.name = "stride", .type = NX_TYPE_INTS},         {.name = "padding", .type = NX_TYPE_INTS},
    {.name = "dilation", .type = NX_TYPE_INTS},       {.name = "transposed", .type = NX_TYPE_BOOL},
    {.name = "output_padding", .type = NX_TYPE_INTS}, {.name = "groups", .type = NX_TYPE_INT},
    {.name = "factor", .type = NX_TYPE_TENSOR, .optional = true}, {.name = "offset", .type = NX_TYPE_TENSOR, .optional = true},
    {.name = "other", .type = NX_TYPE_TENSOR, .optional = true},
    {.name = "low", .type = NX_TYPE_FLOAT, .optional = true}, {.name = "high", .type = NX_TYPE_FLOAT, .optional = true}};
static const nx_op_def point_def = {
    .name = "narthex::convolution_point",
    .schema = "narthex::convolution_point(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
              "bool transposed, SymInt[] output_padding, SymInt groups, Tensor? factor, Tensor? offset, Tensor? other, float? low, "
              "float? high) -> Tensor",
    .kind = NX_KIND_KERNEL,
    .n_in = NX_POINT_N_ARGS,
    .n_out = 1,
    .params = point_params,
    .meta = shape_point,
    .kernel = run_point,
    .nograd = "what it is made of has gradients"};

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_def(&point_def);
    (void)status; /* a fixed entry, defined once */
}

/* ---- its derivative ------------------------------------------------------------------------------------------------ */
typedef struct bias_sum { const conv *c; const void *g; void *out; int64_t channels, plane; } bias_sum;

/* The sums of channels begin .. end over images and places: in strands, which go on in double. */
static nx_status sum_channels(void *arg, int64_t begin, int64_t end) {
    const bias_sum *s = arg;
    enum { STRANDS = 16, TOGETHER = 4096 };
    for (int64_t channel = begin; channel < end; channel++) {
        double total = 0;
        uint64_t whole = 0;
        for (int64_t image = 0; image < s->c->w.images; image++) {
            int64_t first = (image * s->channels + channel) * s->plane;
            for (int64_t at = 0; at < s->plane; at += TOGETHER) {
                int64_t n = nx_least(TOGETHER, s->plane - at), k = 0;
                float strands[STRANDS] = {0};
                const float *g = (const float *)s->g + first + at;
                if (s->c->computing == NX_F32) {
                    for (; k + STRANDS <= n; k += STRANDS) {
                        for (int j = 0; j < STRANDS; j++) strands[j] += g[k + j];
                    }
                    for (int j = 0; j < STRANDS; j++) total += strands[j];
                    for (; k < n; k++) total += g[k];
                } else if (s->c->computing == NX_F64) {
                    for (; k < n; k++) total += ((const double *)s->g)[first + at + k];
                } else {
                    for (; k < n; k++) whole += ((const uint64_t *)s->g)[first + at + k];
                }
            }
        }
        if (s->c->computing == NX_F32) ((float *)s->out)[channel] = (float)total;
        else if (s->c->computing == NX_F64) ((double *)s->out)[channel] = total;
        else ((uint64_t *)s->out)[channel] = whole;
    }
    return NX_OK;
}

/* Of channels side by side: so many at a time. */
static nx_status sum_columns(void *arg, int64_t begin, int64_t end) {
    const bias_sum *s = arg;
    for (int64_t first = begin * NX_ROW_LANES; first < end * NX_ROW_LANES; first += NX_ROW_LANES) {
        const int64_t n = nx_least(NX_ROW_LANES, s->channels - first);
        double total[NX_ROW_LANES] = {0};
        if (n <= 0) break;
        nx_rows_get(NX_F32)->channels.sums(total, (const float *)s->g + first, s->c->w.images * s->plane, s->channels, (int)n);
        for (int64_t k = 0; k < n; k++) ((float *)s->out)[first + k] = (float)total[k];
    }
    return NX_OK;
}

static nx_status sum_bias(const conv *c, const nx_array *g, const void *at, void *out) {
    int64_t channels = g->sizes[1], plane = channels && g->sizes[0] ? g->numel / channels / g->sizes[0] : 0;
    bias_sum s = {c, at, out, channels, plane};
    const int64_t blocks = (channels + NX_ROW_LANES - 1) / NX_ROW_LANES;
    if (c->beside) return nx_parallel(blocks, nx_grain(c->w.images * plane * NX_ROW_LANES), sum_columns, &s);
    return nx_parallel(channels, nx_grain(c->w.images * plane * 4), sum_channels, &s);
}

nx_status nx__convolution_backward(nx_run *run, const nx_array *grad_output, const nx_array *input, const nx_array *weight,
                                   nx_value bias_sizes, const int64_t *stride, int n_stride, const int64_t *padding, int n_padding,
                                   const int64_t *dilation, int n_dilation, bool transposed, const int64_t *output_padding,
                                   int n_output_padding, int64_t groups, nx_value output_mask, nx_array *result0, nx_array *result1,
                                   nx_array *result2) {
    nx_status status = NX_OK;
    conv c;
    void *g, *x, *w, *gx, *gw, *gb;
    describe(&c, transposed ? grad_output : input, transposed ? input : grad_output, weight, stride, n_stride, padding, n_padding,
             dilation, n_dilation, groups);
    if (grad_output->numel == 0 || input->numel == 0 || weight->numel == 0) {
        nx_array *const results[] = {result0, result1, result2};
        for (int k = 0; k < 3; k++) if (results[k]) fill_zero(results[k]);
        return NX_OK;
    }
    c.beside = suits_beside(&c, input, weight);
    NX_TRY_FAIL(lay_image(&c, grad_output, true, &g));
    if (result0) {
        NX_TRY_FAIL(nx__lay(&c.laid, weight, c.computing, true, &w));
        NX_TRY_FAIL(lay_image(&c, result0, false, &gx));
        NX_TRY_FAIL(convolve(&c, !transposed, transposed ? g : gx, transposed ? gx : g, w, NULL, NULL));
        put_image(&c, result0, gx);
    }
    if (result1) {
        NX_TRY_FAIL(lay_image(&c, input, true, &x));
        NX_TRY_FAIL(nx__lay(&c.laid, result1, c.computing, false, &gw));
        const float *big = transposed ? g : x, *small = transposed ? x : g;
        if (c.beside) NX_TRY_FAIL(nx__beside_weigh(&c.w, big, small, gw));
        else if (c.computing == NX_F32) NX_TRY_FAIL(nx_convolve_weigh(&c.w, big, small, gw));
        else NX_TRY_FAIL(run_unfolded(&c, WEIGH, transposed ? g : x, transposed ? x : g, gw));
        nx__lay_back(&c.laid, result1, gw);
    }
    if (result2) {
        NX_TRY_FAIL(nx__lay(&c.laid, result2, c.computing, false, &gb));
        NX_TRY_FAIL(sum_bias(&c, grad_output, g, gb));
        nx__lay_back(&c.laid, result2, gb);
    }
fail:
    nx__lay_end(&c.laid);
    return status;
}
