/* Products of bfloat16 matrices of any size out of tiles (tiles.c), where the level in use and the processor have
 * instructions for them. Both operands are packed, then cells of the result are multiplied:
 * cut by the shape alone, whatever the number of threads. Where few rows meet b, each panel of it is packed just before. */
#include "kernel/tiles.h"

#include <pthread.h>

NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__tile_ways nx__tiles)

static const nx__tiles *const ways[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, nx__tiles)};
static const nx__tiles *found;
static void find_way(void) {
    const nx__tiles *own = ways[nx_level()];
    for (int k = 0; k < NX__TILE_WAYS && found == NULL; k++) found = own[k].runs && own[k].runs() ? &own[k] : NULL;
}

static const nx__tiles *find_tiles(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_way);
    return found;
}

bool nx_tiled_runs(void) { return find_tiles() != NULL; }

enum { LINES = 16, DEPTH = 32, PANEL = 2 * LINES, CELL_ROWS = 128, CELL_COLUMNS = 256, WORTH_PACKING = 1 << 17, WORTH_A_THREAD = 1 << 23 };

typedef struct tiled { const nx__tiles *tiles; nx__tile_side a, b; nx__tile_result out; } tiled;

static nx_status pack_a(void *arg, int64_t begin, int64_t end) {
    const tiled *p = arg;
    p->tiles->pack(&p->a, begin, end);
    return NX_OK;
}

static nx_status pack_b(void *arg, int64_t begin, int64_t end) {
    const tiled *p = arg;
    p->tiles->pack(&p->b, begin, end);
    return NX_OK;
}

static nx_status run_cells(void *arg, int64_t begin, int64_t end) {
    const tiled *p = arg;
    const int64_t across = (p->b.lines + CELL_COLUMNS - 1) / CELL_COLUMNS;
    for (int64_t cell = begin; cell < end; cell++) {
        int64_t row = cell / across * CELL_ROWS, column = cell % across * CELL_COLUMNS;
        p->tiles->multiply(&p->a, &p->b, &p->out, row, nx_least(CELL_ROWS, p->a.lines - row), column,
                           nx_least(CELL_COLUMNS, p->b.lines - column));
    }
    return NX_OK;
}

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Room for so many packed lines of one side and so many of another, in one block: what belongs to `one` is freed. */
static nx_status new_room(nx__tile_side *one, int64_t lines, nx__tile_side *other, int64_t other_lines) {
    const size_t line = (size_t)round_up(one->k, DEPTH) * sizeof *one->packed;
    size_t bytes;
    NX_TRY(nx_bytes_of(round_up(lines, LINES) + round_up(other_lines, LINES), line, &bytes));
    one->packed = nx_room_new(bytes);
    if (one->packed == NULL) return nx_fail_memory(bytes);
    if (other) other->packed = one->packed + round_up(lines, LINES) * round_up(one->k, DEPTH);
    return NX_OK;
}

/* The columns of one panel after the other meet all rows. */
static nx_status run_panels(void *arg, int64_t begin, int64_t end) {
    const tiled *p = arg;
    nx__tile_side b = p->b;
    NX_TRY(new_room(&b, PANEL, NULL, 0));
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t column = panel * PANEL;
        nx__tile_result part = p->out;
        b.data = p->b.data + column * b.line_step;
        b.lines = part.columns = nx_least(PANEL, p->b.lines - column);
        part.data = (char *)part.data + column * part.column_step * nx_dtype_sizes[part.dtype];
        if (part.start) part.start += column * part.start_column_step;
        p->tiles->pack(&b, 0, (b.lines + LINES - 1) / LINES);
        p->tiles->multiply(&p->a, &b, &part, 0, p->a.lines, 0, b.lines);
    }
    nx_room_free(b.packed);
    return NX_OK;
}

static nx_status multiply_cells(tiled *p, int64_t grain) {
    const int64_t m = p->a.lines, n = p->b.lines, work = nx_least(m, CELL_ROWS) * nx_least(n, CELL_COLUMNS) * p->a.k;
    const int64_t cells = round_up(m, CELL_ROWS) / CELL_ROWS * (round_up(n, CELL_COLUMNS) / CELL_COLUMNS);
    NX_TRY(nx_parallel(round_up(n, LINES) / LINES, grain, pack_b, p));
    return nx_parallel(cells, 1 + WORTH_A_THREAD / work, run_cells, p);
}

/* A product is the transpose of that of the transposes, the other way round. */
static void turn(tiled *p) {
    nx__tile_side a = p->a;
    nx__tile_result out = p->out;
    p->a = p->b;
    p->b = a;
    p->out.rows = out.columns;
    p->out.columns = out.rows;
    p->out.row_step = out.column_step;
    p->out.column_step = out.row_step;
    p->out.start_row_step = out.start_column_step;
    p->out.start_column_step = out.start_row_step;
}

nx_status nx_tiled_product(const nx_array *start, const nx_array *a, const nx_array *b, const nx_array *out) {
    const int64_t m = a->sizes[0], n = b->sizes[1], k = a->sizes[1], grain = 1 + WORTH_PACKING / (LINES * k);
    tiled p = {find_tiles(), {a->data, m, k, a->strides[0], a->strides[1], false, NULL},
               {b->data, n, k, b->strides[1], b->strides[0], false, NULL},
               {out->data, (nx_dtype)out->dtype, m, n, out->strides[0], out->strides[1], NULL, 0, 0}};
    if (start) {
        p.out.start = start->data;
        p.out.start_row_step = nx_start_step(start, 0);
        p.out.start_column_step = nx_start_step(start, 1);
    }
    if (n < m && n <= CELL_ROWS) turn(&p);
    p.b.by_pairs = true;
    const bool in_cells = p.a.lines > CELL_ROWS;
    NX_TRY(new_room(&p.a, p.a.lines, &p.b, in_cells ? p.b.lines : 0));
    nx_status status = nx_parallel(round_up(p.a.lines, LINES) / LINES, grain, pack_a, &p);
    if (status == NX_OK && in_cells) status = multiply_cells(&p, grain);
    else if (status == NX_OK) status = nx_parallel(round_up(p.b.lines, PANEL) / PANEL, 1 + WORTH_PACKING / (PANEL * k), run_panels, &p);
    nx_room_free(p.a.packed);
    return status;
}
