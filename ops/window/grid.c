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

/* What a call reads and what it writes; NULL: nothing. */
typedef struct read { const nx_array *input, *grid, *g, *g_image, *g_grid; } read;
typedef struct written { nx_array *out, *to_image, *to_grid; } written;

static nx_status run_sampling(const read *from, int64_t mode, int64_t padding, bool align, const written *to) {
    static const nx__grid_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__grid_rows)};
    const nx_array *input = from->input, *grid = from->grid;
    nx_status status = NX_OK;
    nx__laid laid = {0};
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
    NX_TRY_FAIL(nx__lay(&laid, input, computing, true, &s->image));
    NX_TRY_FAIL(nx__lay(&laid, grid, computing, true, &s->grid));
    NX_TRY_FAIL(nx__lay(&laid, from->g, computing, true, &s->g));
    NX_TRY_FAIL(nx__lay(&laid, from->g_image, computing, true, &s->g_image));
    NX_TRY_FAIL(nx__lay(&laid, from->g_grid, computing, true, &s->g_grid));
    NX_TRY_FAIL(nx__lay(&laid, to->out, computing, false, &s->out));
    NX_TRY_FAIL(nx__lay(&laid, to->to_image, computing, false, &s->to_image));
    NX_TRY_FAIL(nx__lay(&laid, to->to_grid, computing, false, &s->to_grid));
    if (to->to_image) memset(s->to_image, 0, nx_dtype_bytes(computing) * (size_t)to->to_image->numel);
    bool samples = !from->g;
    int64_t cost = (s->channels + 4) * 64;
    j.run = (samples ? rows[nx_level()]->sample : from->g_grid ? rows[nx_level()]->spread_twice : rows[nx_level()]->spread)[is_double];
    j.blocks = (s->places + NX__GRID_TOGETHER - 1) / NX__GRID_TOGETHER;
    if (s->places) {
        if (samples) NX_TRY_FAIL(nx_parallel(j.images * j.blocks, nx_grain(cost * NX__GRID_TOGETHER), run_blocks, &j));
        else NX_TRY_FAIL(nx_parallel(j.images, nx_grain(cost * s->places), run_images, &j));
    }
    nx__lay_back(&laid, to->out, s->out);
    nx__lay_back(&laid, to->to_image, s->to_image);
    nx__lay_back(&laid, to->to_grid, s->to_grid);
fail:
    nx__lay_end(&laid);
    return status;
}

nx_status nx__grid_sample(nx_run *run, const nx_array *input, const nx_array *grid, int64_t interpolation_mode, int64_t padding_mode,
                          bool align_corners, nx_array *out) {
    return run_sampling(&(read){input, grid}, interpolation_mode, padding_mode, align_corners, &(written){.out = out});
}

nx_status nx__grid_sample_back(nx_run *run, const nx_array *grad_output, const nx_array *input, const nx_array *grid,
                               int64_t interpolation_mode, int64_t padding_mode, bool align_corners, nx_value output_mask,
                               nx_array *result0, nx_array *result1) {
    return run_sampling(&(read){input, grid, grad_output}, interpolation_mode, padding_mode, align_corners,
                        &(written){.to_image = result0, .to_grid = result1});
}

nx_status nx__grid_sample_twice(nx_run *run, const nx_array *grad_input, const nx_array *grad_grid, const nx_array *grad_output,
                                const nx_array *input, const nx_array *grid, int64_t interpolation_mode, int64_t padding_mode,
                                bool align_corners, nx_array *result0, nx_array *result1, nx_array *result2) {
    return run_sampling(&(read){input, grid, grad_output, grad_input, grad_grid}, interpolation_mode, padding_mode, align_corners,
                        &(written){result0, result1, result2});
}
