/* Kernels of edges.op. Each place of the padded dimensions shows one of the input's, of which a map is made for each dimension; a
 * row of the result is then the middle of a row of the input, moved at once, with single elements around it. */
#include "gen/kernels.h"
#include "iter/iter.h"
#include "shared/packed.h"
#include "window/window.h"

#include <complex.h>

/* The small array is padded to the large one; dimensions in front that there are not have one place. */
typedef struct edges {
    const nx_array *small, *large;
    int64_t small_step[5], large_step[5]; /* bytes */
    int64_t size[5];                      /* of the large one */
    int64_t *at[NX__SPACE];               /* which place of the small one each place shows */
    int64_t begin, end;                   /* of the last dimension: places that show their neighbours side by side */
    int64_t bytes;                        /* of an element */
    nx_dtype computing;
} edges;

static int64_t mirrored(int64_t i, int64_t n) {
    int64_t from_end = (n - 1) - (i < 0 ? -i : i);
    return (n - 1) - (from_end < 0 ? -from_end : from_end);
}
static int64_t held(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

/* `room` has an entry for each place of the padded dimensions. */
static void lay_edges(edges *e, const nx_array *small, const nx_array *large, const int64_t *padding, int dims, bool reflects,
                      int64_t *room) {
    int missing = 5 - small->ndim;
    e->small = small;
    e->large = large;
    e->bytes = (int64_t)nx_dtype_bytes((nx_dtype)small->dtype);
    for (int d = 0; d < 5; d++) {
        bool is_there = d >= missing;
        e->size[d] = is_there ? large->sizes[d - missing] : 1;
        e->small_step[d] = is_there ? small->strides[d - missing] * e->bytes : 0;
        e->large_step[d] = is_there ? large->strides[d - missing] * e->bytes : 0;
    }
    for (int k = 0; k < NX__SPACE; k++) {
        int64_t before = k < dims ? padding[2 * k] : 0, *at = e->at[NX__SPACE - 1 - k] = room;
        int64_t n = k < small->ndim ? small->sizes[small->ndim - 1 - k] : 1, made = e->size[4 - k];
        for (int64_t i = 0; i < made; i++) at[i] = reflects ? mirrored(i - before, n) : held(i - before, n);
        room += made;
        if (k > 0) continue;
        e->begin = nx_least(before > 0 ? before : 0, made);
        e->end = nx_least(n + before > 0 ? n + before : 0, made);
        if (e->end < e->begin) e->end = e->begin;
    }
}

/* A row of the large array: its place in the dimensions before the last, where it begins there, and where the row that it shows
 * begins in the small one. */
typedef struct row { int64_t place[4], large, small; } row;

static int64_t shown(const edges *e, int d, int64_t i) { return (d < 2 ? i : e->at[d - 2][i]) * e->small_step[d]; }

static row row_at(const edges *e, int64_t nth) {
    row r = {0};
    for (int d = 3; d >= 0; d--) {
        r.place[d] = nth % e->size[d];
        nth /= e->size[d];
        r.large += r.place[d] * e->large_step[d];
        r.small += shown(e, d, r.place[d]);
    }
    return r;
}

static void next_row(const edges *e, row *r) {
    for (int d = 3; d >= 0; d--) {
        int64_t before = r->place[d], now = before + 1 < e->size[d] ? before + 1 : 0;
        r->place[d] = now;
        r->large += (now - before) * e->large_step[d];
        r->small += shown(e, d, now) - shown(e, d, before);
        if (now) return;
    }
}

static nx_status take_rows(void *arg, int64_t first, int64_t last) {
    const edges *e = arg;
    const nx_dtype dtype = (nx_dtype)e->small->dtype;
    const int64_t *at = e->at[2], to_step = e->large_step[4], from_step = e->small_step[4], n = e->end - e->begin;
    const bool dense = to_step == e->bytes && from_step == e->bytes;
    row r = row_at(e, first);
    for (int64_t k = first; k < last; k++, next_row(e, &r)) {
        char *to = (char *)e->large->data + r.large;
        const char *from = (const char *)e->small->data + r.small;
        if (n > 0 && dense) memcpy(to + e->begin * to_step, from + at[e->begin] * from_step, (size_t)(n * e->bytes));
        else if (n > 0)
            nx_cast(dtype, to + e->begin * to_step, to_step, dtype, from + at[e->begin] * from_step, from_step, n);
#define TAKE(type, begin, end) \
    for (int64_t x = (begin); x < (end); x++) memcpy(to + x * to_step, from + at[x] * from_step, sizeof(type))
#define TAKE_BOTH(type) { TAKE(type, 0, e->begin); TAKE(type, e->end, e->size[4]); }
        switch (e->bytes) {
        case 1: TAKE_BOTH(uint8_t) break;
        case 2: TAKE_BOTH(uint16_t) break;
        case 4: TAKE_BOTH(uint32_t) break;
        case 8: TAKE_BOTH(uint64_t) break;
        default: TAKE_BOTH(double complex) break;
        }
    }
    return NX_OK;
}

/* Adds the rows of planes first .. last, one after the other, so that the sums do not depend on the number of threads. */
#define ADD_ROW(type)                                                                                                  \
    {                                                                                                                  \
        type *to = (type *)((char *)e->small->data + r.small);                                                         \
        const type *from = (const type *)((const char *)e->large->data + r.large);                                     \
        for (int64_t x = 0; x < e->begin; x++) to[at[x]] += from[x];                                                   \
        for (int64_t x = e->begin, shown = e->begin < e->end ? at[e->begin] - e->begin : 0; x < e->end; x++)           \
            to[x + shown] += from[x];                                                                                  \
        for (int64_t x = e->end; x < e->size[4]; x++) to[at[x]] += from[x];                                            \
    }
static nx_status add_planes(void *arg, int64_t first, int64_t last) {
    const edges *e = arg;
    const int64_t *at = e->at[2], rows = e->size[2] * e->size[3];
    row r = row_at(e, first * rows);
    for (int64_t k = first * rows; k < last * rows; k++, next_row(e, &r)) {
        if (e->computing == NX_F32) ADD_ROW(float)
        else if (e->computing == NX_F64) ADD_ROW(double)
        else if (e->computing == NX_C64) ADD_ROW(float complex)
        else ADD_ROW(double complex)
    }
    return NX_OK;
}

/* Room for the maps of `large`. */
static nx_status room_for_maps(const nx_array *large, int64_t **out) {
    int64_t n = NX__SPACE;
    for (int k = 0; k < NX__SPACE && k < large->ndim; k++) n += large->sizes[large->ndim - 1 - k];
    *out = nx_room_new((size_t)n * sizeof **out);
    return *out ? NX_OK : nx_fail_memory((size_t)n * sizeof **out);
}

nx_status nx__edges_taken(nx_run *run, const nx_array *self, const int64_t *padding, int n_padding, nx_value reflects, nx_array *out) {
    edges e;
    int64_t *maps;
    if (out->numel == 0) return NX_OK;
    NX_TRY(room_for_maps(out, &maps));
    lay_edges(&e, self, out, padding, n_padding / 2, nx_value_as_int(&reflects) != 0, maps);
    nx_status status = nx_parallel(out->numel / e.size[4], nx_grain(2 * e.size[4] * e.bytes + 32), take_rows, &e);
    nx_room_free(maps);
    return status;
}

/* Sums of halves are made in float. */
nx_status nx__edges_summed(nx_run *run, const nx_array *grad_output, const int64_t *padding, int n_padding, nx_value reflects,
                           nx_array *out) {
    edges e;
    int64_t *maps = NULL, dims[2][2 * NX_MAX_DIMS];
    void *sums = NULL, *grad = NULL;
    nx_array small, large;
    nx_dtype dtype = (nx_dtype)out->dtype, computing = dtype == NX_F16 || dtype == NX_BF16 ? NX_F32 : dtype;
    size_t bytes = (size_t)out->numel * nx_dtype_bytes(computing);
    nx_status status = NX_OK;
    if (out->numel == 0) return NX_OK;
    NX_TRY_FAIL(nx__packed_new(grad_output, computing, &grad));
    NX_TRY_FAIL(room_for_maps(grad_output, &maps));
    if ((sums = nx_room_new(bytes)) == NULL) NX_TRY_FAIL(nx_fail_memory(bytes));
    memset(sums, 0, bytes);
    nx__packed_over(&small, dims[0], out, computing, sums);
    nx__packed_over(&large, dims[1], grad_output, computing, grad);
    lay_edges(&e, &small, &large, padding, n_padding / 2, nx_value_as_int(&reflects) != 0, maps);
    e.computing = computing;
    if (large.numel) {
        int64_t planes = e.size[0] * e.size[1];
        NX_TRY_FAIL(nx_parallel(planes, nx_grain(4 * (large.numel / planes) * e.bytes), add_planes, &e));
    }
    nx_copy_cast(out, &small);
fail:
    nx_room_free(sums);
    nx_room_free(grad);
    nx_room_free(maps);
    return status;
}
