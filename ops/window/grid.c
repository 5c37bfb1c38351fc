/* Kernels of grid.op. A grid holds places between -1 and 1, the last dimension of the image first. Along each dimension a
 * place becomes a few taps with weights, and their derivatives by the place; a sample is the sum over the taps of all
 * dimensions. Computed in double; where a place lies is decided in float for what is not float64, as PyTorch does. Images are
 * independent: they are split over threads. */
#include "gen/kernels.h"
#include "window/window.h"

#include <math.h>

enum { LINEAR, CLOSEST, CUBIC };
enum { ZEROS, BORDER, REFLECTED };
enum { MOST_TAPS = 4 };

typedef struct sampling {
    int dims, mode, padding;
    bool align, is_double;
    int64_t images, channels, in[NX__SPACE], places, volume; /* places: of the result */
    const double *image, *grid, *g;
    double *out, *to_image, *to_grid;
} sampling;

/* The taps of one place along one dimension: -1 is outside; slopes are the weights' derivatives by the grid's number. */
typedef struct taps { int n; int64_t at[MOST_TAPS]; double weight[MOST_TAPS], slope[MOST_TAPS]; } taps;

static double rounded(const sampling *s, double x) { return s->is_double ? x : (double)(float)x; }

/* A number of the grid as a place; *by: its derivative. */
static double place_of(const sampling *s, double x, int64_t n, double *by) {
    *by = (s->align ? (double)(n - 1) : (double)n) / 2;
    if (s->is_double) return s->align ? (x + 1) / 2 * (double)(n - 1) : ((x + 1) * (double)n - 1) / 2;
    float f = (float)x;
    return s->align ? (f + 1) / 2 * (float)(n - 1) : ((f + 1) * (float)n - 1) / 2;
}

static double clipped(double x, int64_t n, double *by) {
    if (x > 0 && x < (double)(n - 1)) return x;
    *by = 0;
    return x >= (double)(n - 1) ? (double)(n - 1) : 0; /* NaN: 0 */
}

static double reflected(const sampling *s, double x, int64_t n, double *by) {
    double low = s->align ? 0 : -0.5, span = s->align ? (double)(n - 1) : (double)n;
    if (span == 0) {
        *by = 0;
        return 0;
    }
    x -= low;
    if (x < 0) {
        x = -x;
        *by = -*by;
    }
    double rest = fmod(x, span), flips = floor(x / span);
    if (fmod(flips, 2) == 0) return rounded(s, rest + low);
    *by = -*by;
    return rounded(s, span - rest + low);
}

static double bounded(const sampling *s, double x, int64_t n, double *by) {
    if (s->padding == REFLECTED) x = reflected(s, x, n, by);
    if (s->padding != ZEROS) x = clipped(x, n, by);
    if (!(x > -1e9 && x < 1e9)) x = -100; /* outside, whatever it was */
    return x;
}

static void add_tap(const sampling *s, taps *t, int64_t at, int64_t n, double weight, double slope) {
    t->at[t->n] = at >= 0 && at < n ? at : -1;
    t->weight[t->n] = weight;
    t->slope[t->n++] = slope;
}

static void find_cubic(const sampling *s, double x, int64_t n, double by, taps *t) {
    const double A = -0.75;
    double part = x - floor(x);
    for (int k = -1; k < 3; k++) {
        double d = part - k, sign = d < 0 ? -1 : 1, unused = 1, weight, slope;
        d = fabs(d);
        if (k == 0 || k == 1) {
            weight = ((A + 2) * d - (A + 3)) * d * d + 1;
            slope = (3 * (A + 2) * d - 2 * (A + 3)) * d;
        } else {
            weight = ((A * d - 5 * A) * d + 8 * A) * d - 4 * A;
            slope = (3 * A * d - 10 * A) * d + 8 * A;
        }
        double at = bounded(s, floor(x) + k, n, &unused);
        add_tap(s, t, (int64_t)at, n, weight, slope * sign * by);
    }
}

static void find_taps(const sampling *s, double x, int64_t n, taps *t) {
    double by, place = place_of(s, x, n, &by);
    t->n = 0;
    if (s->mode == CUBIC) {
        if (!(place > -1e9 && place < 1e9)) place = -100;
        find_cubic(s, place, n, by, t);
        return;
    }
    place = bounded(s, place, n, &by);
    if (s->mode == CLOSEST) {
        add_tap(s, t, (int64_t)nearbyint(place), n, 1, 0);
        return;
    }
    double low = floor(place), part = place - low;
    add_tap(s, t, (int64_t)low, n, 1 - part, -by);
    add_tap(s, t, (int64_t)low + 1, n, part, by);
}

/* Calls for each tap of a place: where it lies and its weight; `slope`: by each dimension. */
typedef struct corner { int64_t at; double weight, slope[NX__SPACE]; } corner;
static int find_corners(const sampling *s, const double *place, corner *out) {
    taps t[NX__SPACE];
    int made = 0;
    for (int d = 0; d < NX__SPACE; d++) {
        int k = NX__SPACE - 1 - d; /* the grid has the last dimension first */
        if (k < s->dims) find_taps(s, place[k], s->in[d], &t[d]);
        else t[d] = (taps){.n = 1, .weight = {1}};
    }
    for (int a = 0; a < t[0].n; a++) {
        for (int b = 0; b < t[1].n; b++) {
            for (int c = 0; c < t[2].n; c++) {
                if (t[0].at[a] < 0 || t[1].at[b] < 0 || t[2].at[c] < 0) continue;
                double x = t[0].weight[a], y = t[1].weight[b], z = t[2].weight[c];
                out[made++] = (corner){(t[0].at[a] * s->in[1] + t[1].at[b]) * s->in[2] + t[2].at[c], x * y * z,
                                       {t[0].slope[a] * y * z, x * t[1].slope[b] * z, x * y * t[2].slope[c]}};
            }
        }
    }
    return made;
}

enum { MOST_CORNERS = 16, TOGETHER = 64 /* places of an image whose corners are found before the channels are gone through */ };

static nx_status sample_images(void *arg, int64_t begin, int64_t end) {
    const sampling *s = arg;
    corner corners[TOGETHER][MOST_CORNERS];
    int n_corners[TOGETHER];
    for (int64_t at = begin, n; at < end; at += n) {
        int64_t image = at / s->places, place = at % s->places;
        n = nx_least(nx_least(TOGETHER, end - at), s->places - place);
        for (int64_t q = 0; q < n; q++) n_corners[q] = find_corners(s, s->grid + (at + q) * s->dims, corners[q]);
        for (int64_t c = 0; c < s->channels; c++) {
            const double *from = s->image + (image * s->channels + c) * s->volume;
            double *to = s->out + (image * s->channels + c) * s->places + place;
            for (int64_t q = 0; q < n; q++) {
                double sum = 0;
                for (int k = 0; k < n_corners[q]; k++) sum += from[corners[q][k].at] * corners[q][k].weight;
                to[q] = sum;
            }
        }
    }
    return NX_OK;
}

static nx_status spread_images(void *arg, int64_t begin, int64_t end) {
    const sampling *s = arg;
    corner corners[MOST_CORNERS];
    for (int64_t at = begin * s->places; at < end * s->places; at++) {
        int64_t image = at / s->places, place = at % s->places;
        int n = find_corners(s, s->grid + at * s->dims, corners);
        double slope[NX__SPACE] = {0};
        for (int64_t c = 0; c < s->channels; c++) {
            int64_t first = (image * s->channels + c) * s->volume;
            double g = s->g[(image * s->channels + c) * s->places + place];
            for (int k = 0; k < n; k++) {
                if (s->to_image) s->to_image[first + corners[k].at] += g * corners[k].weight;
                for (int d = 0; d < NX__SPACE; d++) slope[d] += g * s->image[first + corners[k].at] * corners[k].slope[d];
            }
        }
        for (int k = 0; s->to_grid && k < s->dims; k++) s->to_grid[at * s->dims + k] = slope[NX__SPACE - 1 - k];
    }
    return NX_OK;
}

/* `a` as doubles row by row, in a new tensor; zeros without `reads`. */
static nx_status as_double(const nx_array *a, bool reads, nx_tensor **owned, double **out) {
    if (a == NULL) return NX_OK;
    NX_TRY(nx_tensor_new(NX_F64, a->ndim, a->sizes, NX_CPU, owned));
    *out = nx_arr(*owned)->data;
    if (reads) nx_copy_cast(nx_arr(*owned), a);
    else memset(*out, 0, sizeof(double) * (size_t)a->numel);
    return NX_OK;
}

static nx_status run_sampling(const nx_array *input, const nx_array *grid, const nx_array *g, int64_t mode, int64_t padding, bool align,
                              nx_array *out, nx_array *to_image, nx_array *to_grid) {
    nx_status status = NX_OK;
    nx_tensor *owned[6] = {NULL};
    double *image = NULL, *places = NULL, *gradient = NULL;
    sampling s = {.dims = input->ndim - 2, .mode = (int)mode, .padding = (int)padding, .align = align,
                  .is_double = input->dtype == NX_F64, .images = input->sizes[0], .channels = input->sizes[1], .places = 1, .volume = 1};
    for (int d = 0; d < NX__SPACE; d++) {
        int k = d - (NX__SPACE - s.dims);
        s.in[d] = k < 0 ? 1 : input->sizes[k + 2];
        s.places *= k < 0 ? 1 : grid->sizes[k + 1];
        s.volume *= s.in[d];
    }
    NX_TRY_FAIL(as_double(input, true, &owned[0], &image));
    NX_TRY_FAIL(as_double(grid, true, &owned[1], &places));
    NX_TRY_FAIL(as_double(g, true, &owned[2], &gradient));
    NX_TRY_FAIL(as_double(out, false, &owned[3], &s.out));
    NX_TRY_FAIL(as_double(to_image, false, &owned[4], &s.to_image));
    NX_TRY_FAIL(as_double(to_grid, false, &owned[5], &s.to_grid));
    s.image = image;
    s.grid = places;
    s.g = gradient;
    int64_t cost = (s.channels + 4) * 64;
    if (s.places) {
        if (out) NX_TRY_FAIL(nx_parallel(s.images * s.places, nx_grain(cost), sample_images, &s));
        else NX_TRY_FAIL(nx_parallel(s.images, nx_grain(cost * s.places), spread_images, &s));
    }
    if (out) nx_copy_cast(out, nx_arr(owned[3]));
    if (to_image) nx_copy_cast(to_image, nx_arr(owned[4]));
    if (to_grid) nx_copy_cast(to_grid, nx_arr(owned[5]));
fail:
    for (int k = 0; k < NX_COUNT(owned); k++) nx_tensor_unref(owned[k]);
    return status;
}

nx_status nx__grid_sample(nx_run *run, const nx_array *input, const nx_array *grid, int64_t interpolation_mode, int64_t padding_mode,
                          bool align_corners, nx_array *out) {
    return run_sampling(input, grid, NULL, interpolation_mode, padding_mode, align_corners, out, NULL, NULL);
}

nx_status nx__grid_sample_back(nx_run *run, const nx_array *grad_output, const nx_array *input, const nx_array *grid,
                               int64_t interpolation_mode, int64_t padding_mode, bool align_corners, nx_value output_mask,
                               nx_array *result0, nx_array *result1) {
    return run_sampling(input, grid, grad_output, interpolation_mode, padding_mode, align_corners, NULL, result0, result1);
}
