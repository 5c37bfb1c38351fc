/* Kernels of grid.op: blocks of places, see grid_rows.h. In float, or in double for float64 and for images whose places int32_t
 * does not count. Results are split over threads by blocks, gradients by images. */
#include "gen/kernels.h"
#include "window/grid_rows.h"

typedef struct job { nx__sampling s; nx__sample_fn *run; int64_t images, blocks; } job; /* blocks: of an image */

static void run_block(const job *j, int64_t image, int64_t block) {
    int64_t place = block * NX__GRID_TOGETHER;
    j->run(&j->s, image, place, nx_least(NX__GRID_TOGETHER, j->s.places - place));
}

static nx_status run_blocks(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    for (int64_t k = begin; k < end; k++) run_block(j, k / j->blocks, k % j->blocks);
    return NX_OK;
}

static nx_status run_images(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    for (int64_t k = begin * j->blocks; k < end * j->blocks; k++) run_block(j, k / j->blocks, k % j->blocks);
    return NX_OK;
}

/* `a` row by row in that dtype: itself, or a new tensor, which has its elements where it `reads`. */
static nx_status lay(const nx_array *a, nx_dtype dtype, bool reads, nx_tensor **owned, void *out) {
    if (a == NULL) return NX_OK;
    *(void **)out = a->data;
    if (a->contiguous && a->dtype == dtype) return NX_OK;
    NX_TRY(nx_tensor_new(dtype, a->ndim, a->sizes, NX_CPU, owned));
    *(void **)out = nx_arr(*owned)->data;
    if (reads) nx_copy_cast(nx_arr(*owned), a);
    return NX_OK;
}

static nx_status run_sampling(const nx_array *input, const nx_array *grid, const nx_array *g, int64_t mode, int64_t padding, bool align,
                              nx_array *out, nx_array *to_image, nx_array *to_grid) {
    static const nx__grid_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__grid_rows)};
    nx_status status = NX_OK;
    nx_tensor *owned[6] = {NULL};
    job j = {.images = input->sizes[0]};
    nx__sampling *s = &j.s;
    *s = (nx__sampling){.dims = input->ndim - 2, .mode = (int)mode, .padding = (int)padding, .align = align,
                        .channels = input->sizes[1], .places = 1, .volume = 1};
    for (int d = 0; d < NX__SPACE; d++) {
        int k = d - (NX__SPACE - s->dims);
        s->in[d] = k < 0 ? 1 : input->sizes[k + 2];
        s->places *= k < 0 ? 1 : grid->sizes[k + 1];
        s->volume *= s->in[d];
    }
    bool is_double = input->dtype == NX_F64 || s->volume > INT32_MAX;
    nx_dtype computing = is_double ? NX_F64 : NX_F32;
    NX_TRY_FAIL(lay(input, computing, true, &owned[0], &s->image));
    NX_TRY_FAIL(lay(grid, computing, true, &owned[1], &s->grid));
    NX_TRY_FAIL(lay(g, computing, true, &owned[2], &s->g));
    NX_TRY_FAIL(lay(out, computing, false, &owned[3], &s->out));
    NX_TRY_FAIL(lay(to_image, computing, false, &owned[4], &s->to_image));
    NX_TRY_FAIL(lay(to_grid, computing, false, &owned[5], &s->to_grid));
    if (to_image) memset(s->to_image, 0, nx_dtype_bytes(computing) * (size_t)to_image->numel);
    int64_t cost = (s->channels + 4) * 64;
    j.run = (out ? rows[nx_level()]->sample : rows[nx_level()]->spread)[is_double];
    j.blocks = (s->places + NX__GRID_TOGETHER - 1) / NX__GRID_TOGETHER;
    if (s->places) {
        if (out) NX_TRY_FAIL(nx_parallel(j.images * j.blocks, nx_grain(cost * NX__GRID_TOGETHER), run_blocks, &j));
        else NX_TRY_FAIL(nx_parallel(j.images, nx_grain(cost * s->places), run_images, &j));
    }
    if (owned[3]) nx_copy_cast(out, nx_arr(owned[3]));
    if (owned[4]) nx_copy_cast(to_image, nx_arr(owned[4]));
    if (owned[5]) nx_copy_cast(to_grid, nx_arr(owned[5]));
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
