/* Products of float32 matrices of any size out of panels (panel.c). DEPTH numbers of each column of b are packed panel by
 * panel; a panel stays in the first-level cache while all rows of a meet it, and what lies in plain rows of the next one
 * is brought near meanwhile. Where the lines of a would fall on top of each other there, a block of b, DEPTH by COLUMNS,
 * is packed and strips of a are packed as well, each of which meets all panels; a large a, which would be fetched from memory
 * for each panel, meets such a block by rows that stay near. Sums go on from one block of DEPTH to the
 * next in c, so that an element of the result does not depend on how the product is split over threads: then all of b is
 * packed first, by all threads, and each of them multiplies rectangles of the result. */
#include "kernel/panel.h"

NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__panels nx__panels)

const nx__panels *nx__panels_get(void) {
    static const nx__panels *const panels[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__panels)};
    return panels[nx_level()];
}

enum { DEPTH = 384, COLUMNS = 512, BAD_STEP = 1024 }; /* in elements: 4 KiB apart, lines share a set of the cache */
enum { NEAR_ROWS = 240, FAR = 1 << 21 };              /* of a: rows that the second-level cache holds; numbers that the third does not */

typedef struct blocks {
    const nx_product *p;
    const nx__panels *panels;
    float *b, *strip;        /* room for packed panels, and for a packed strip of a */
    int64_t first_k, k, first_column, columns;
} blocks;

static bool must_pack(const nx_product *p) {
    return p->a_k_step != 1 && (p->a_row_step != 1 || p->a_k_step % BAD_STEP == 0);
}

/* The panel that begins at column j of the block, with rows from `row` on. */
static nx__panel panel_at(const blocks *w, int64_t row, int64_t j) {
    const nx_product *p = w->p;
    int64_t column = w->first_column + j;
    bool starts = p->start && w->first_k + w->k == p->k;
    return (nx__panel){.a = p->a + row * p->a_row_step + w->first_k * p->a_k_step,
                       .a_row_step = p->a_row_step,
                       .a_k_step = p->a_k_step,
                       .b = p->b + w->first_k * p->b_k_step + column * p->b_column_step,
                       .b_k_step = p->b_k_step,
                       .b_column_step = p->b_column_step,
                       .packed = w->b + j * w->k,
                       .is_packed = row > 0,
                       .k = w->k,
                       .c = p->c + row * p->c_row_step + column,
                       .c_row_step = p->c_row_step,
                       .start = starts ? p->start + row * p->start_row_step + column : NULL,
                       .start_row_step = starts ? p->start_row_step : 0,
                       .add = p->add || w->first_k > 0};
}

static void multiply_strip(const blocks *w, int64_t row, int64_t rows) {
    const nx_product *p = w->p;
    for (int64_t j = 0; j < w->columns; j += w->panels->columns) {
        nx__panel panel = panel_at(w, row, j);
        if (j == 0) w->panels->pack_a(w->strip, panel.a, p->a_row_step, p->a_k_step, w->k, rows);
        panel.a = w->strip;
        panel.a_row_step = 1;
        panel.a_k_step = rows;
        w->panels->multiply(&panel, rows, nx_least(w->panels->columns, w->columns - j));
    }
}

/* Rows of a that stay near meet all panels of the block. */
static void multiply_near_rows(const blocks *w) {
    const nx_product *p = w->p;
    for (int64_t row = 0; row < p->m; row += NEAR_ROWS) {
        for (int64_t j = 0; j < w->columns; j += w->panels->columns) {
            nx__panel panel = panel_at(w, row, j);
            w->panels->multiply(&panel, nx_least(NEAR_ROWS, p->m - row), nx_least(w->panels->columns, w->columns - j));
        }
    }
}

static void multiply_strips(const blocks *w) {
    const nx_product *p = w->p;
    for (int64_t row = 0; row < p->m; row += w->panels->rows)
        multiply_strip(w, row, nx_least(w->panels->rows, p->m - row));
}

static void multiply_panels(const blocks *w) {
    const nx_product *p = w->p;
    const int64_t width = w->panels->columns;
    for (int64_t j = 0; j < p->n; j += width) {
        nx__panel panel = panel_at(w, 0, j);
        panel.packed = w->b; /* done with before the next one */
        if (p->b_column_step == 1 && j + width < p->n) panel.ahead = panel.b + width;
        else if (p->b_column_step == 1 && w->first_k + w->k < p->k) panel.ahead = panel.b - j + w->k * p->b_k_step;
        w->panels->multiply(&panel, p->m, nx_least(width, p->n - j));
    }
}

bool nx_product_runs(void) { return nx__panels_get()->fused; }

static int64_t strip_columns(int64_t n) {
    int64_t widest = nx__panels_get()->columns;
    return (nx_least(n, COLUMNS) + widest - 1) / widest * widest;
}

size_t nx_product_room(int64_t n, int64_t k) {
    return (size_t)(nx_least(k, DEPTH) * (strip_columns(n) + NX__PANEL_MOST_ROWS));
}

static void run_blocks(blocks *w, void (*multiply)(const blocks *)) {
    const nx_product *p = w->p;
    for (w->first_column = 0; w->first_column < p->n; w->first_column += w->columns) {
        w->columns = nx_least(COLUMNS, p->n - w->first_column);
        for (w->first_k = 0; w->first_k < p->k; w->first_k += w->k) {
            w->k = nx_least(DEPTH, p->k - w->first_k);
            multiply(w);
        }
    }
}

static void run_panels(blocks *w) {
    const nx_product *p = w->p;
    for (w->first_k = 0; w->first_k < p->k; w->first_k += w->k) {
        w->k = nx_least(DEPTH, p->k - w->first_k);
        multiply_panels(w);
    }
}

nx_status nx_product_run(const nx_product *p) {
    size_t room = nx_product_room(p->n, p->k);
    blocks w = {.p = p, .panels = nx__panels_get(), .b = p->room ? p->room : nx_room_new(sizeof(float) * room)};
    if (w.b == NULL) return nx_fail_memory(sizeof(float) * room);
    w.strip = w.b + room - nx_least(p->k, DEPTH) * NX__PANEL_MOST_ROWS;
    bool is_far = p->m > NEAR_ROWS && p->m * nx_least(p->k, DEPTH) > FAR;
    if (must_pack(p)) run_blocks(&w, multiply_strips);
    else if (is_far) run_blocks(&w, multiply_near_rows);
    else run_panels(&w);
    if (p->room == NULL) nx_room_free(w.b);
    return NX_OK;
}

/* ---- on several threads ------------------------------------------------------------------------------------------ */
enum {
    WORTH_SPLITTING = 1 << 21,   /* multiplications */
    PACKED = 1 << 20,            /* numbers of b that are packed at a time */
    MOST_PARTS = 16, LEAST_PARTS = 2 /* of a cell: panels side by side, and as many rows as a panel has at most */
};

/* Columns first .. first + columns of a product and first_k .. first_k + k of its sums, cut into cells of `rows` rows and
 * `panels` panels. */
typedef struct spread {
    const nx_product *p;
    const nx__panels *level;
    float *b;                     /* packed: panel after panel, each of them k deep */
    int64_t first, columns, first_k, k, rows, panels, across;
} spread;

static int64_t n_panels(const spread *w) { return (w->columns + w->level->columns - 1) / w->level->columns; }

static nx_status pack_panels(void *arg, int64_t begin, int64_t end) {
    const spread *w = arg;
    const nx_product *p = w->p;
    for (int64_t j = begin; j < end; j++) {
        int64_t column = j * w->level->columns;
        const float *from = p->b + w->first_k * p->b_k_step + (w->first + column) * p->b_column_step;
        w->level->pack_b(w->b + column * w->k, from, p->b_k_step, p->b_column_step, w->k,
                         nx_least(w->level->columns, w->columns - column));
    }
    return NX_OK;
}

/* Rows that meet all panels of a cell while a block of DEPTH of them stays in the second-level cache. `strip` is room for
 * as many of them as a panel has, packed, NULL: they need not be. */
static void multiply_rows(const spread *w, int64_t row, int64_t rows, int64_t panel, int64_t end, float *strip) {
    const nx_product *p = w->p;
    blocks block = {.p = p, .panels = w->level, .b = w->b};
    for (block.first_k = w->first_k; block.first_k < w->first_k + w->k; block.first_k += block.k) {
        block.k = nx_least(DEPTH, p->k - block.first_k);
        for (int64_t j = panel; j < end; j++) {
            int64_t column = j * w->level->columns;
            nx__panel at = panel_at(&block, row, w->first + column);
            at.packed = w->b + column * w->k + (block.first_k - w->first_k) * w->level->columns;
            at.is_packed = true;
            if (strip) {
                if (j == panel) w->level->pack_a(strip, at.a, p->a_row_step, p->a_k_step, block.k, rows);
                at.a = strip;
                at.a_row_step = 1;
                at.a_k_step = rows;
            }
            w->level->multiply(&at, rows, nx_least(w->level->columns, w->columns - column));
        }
    }
}

static nx_status multiply_cells(void *arg, int64_t begin, int64_t end) {
    const spread *w = arg;
    _Alignas(64) float strip[DEPTH * NX__PANEL_MOST_ROWS];
    bool packs = must_pack(w->p);
    for (int64_t cell = begin; cell < end; cell++) {
        int64_t row = cell / w->across * w->rows, last = nx_least(row + w->rows, w->p->m);
        int64_t panel = cell % w->across * w->panels, last_panel = nx_least(panel + w->panels, n_panels(w));
        int64_t step = packs ? w->level->rows : w->rows;
        for (; row < last; row += step) multiply_rows(w, row, nx_least(step, last - row), panel, last_panel, packs ? strip : NULL);
    }
    return NX_OK;
}

/* Large cells, but enough of them for all threads. Returns how many. */
static int64_t cut_cells(spread *w) {
    const int64_t least = LEAST_PARTS * w->level->rows;
    w->rows = MOST_PARTS * w->level->rows;
    w->panels = MOST_PARTS;
    for (;;) {
        w->across = (n_panels(w) + w->panels - 1) / w->panels;
        int64_t cells = (w->p->m + w->rows - 1) / w->rows * w->across;
        if (cells >= 2 * nx_num_threads() || (w->rows == least && w->panels == LEAST_PARTS)) return cells;
        bool is_wide = w->panels * w->level->columns >= w->rows || w->rows == least;
        if (w->panels > LEAST_PARTS && is_wide) w->panels /= 2;
        else w->rows /= 2;
    }
}

static nx_status multiply_packed(spread *w) {
    int64_t cells = cut_cells(w);
    NX_TRY(nx_parallel(n_panels(w), nx_least(n_panels(w), 4), pack_panels, w));
    return nx_parallel(cells, 1, multiply_cells, w);
}

nx_status nx_product_spread(const nx_product *p) {
    int64_t work = p->m * p->n * p->k;
    if (nx_num_threads() == 1 || work < 2 * WORTH_SPLITTING) {
        void *token = nx_long_begin(work / (WORTH_SPLITTING / NX_PIECE));
        nx_status status = nx_product_run(p);
        if (token) nx_block_end(token);
        return status;
    }
    spread w = {.p = p, .level = nx__panels_get()};
    const int64_t width = w.level->columns, whole = (p->n + width - 1) / width * width;
    int64_t most = PACKED / p->k / width * width;
    if (most < MOST_PARTS * width) most = MOST_PARTS * width;
    most = nx_least(most, whole);
    const int64_t deepest = most * p->k <= PACKED ? p->k : nx_least(p->k, PACKED / most / DEPTH * DEPTH); /* in turns */
    w.b = nx_room_new(sizeof(float) * (size_t)(most * deepest));
    if (w.b == NULL) return nx_fail_memory(sizeof(float) * (size_t)(most * deepest));
    nx_status status = NX_OK;
    for (; w.first < p->n && status == NX_OK; w.first += w.columns) {
        w.columns = nx_least(most, p->n - w.first);
        for (w.first_k = 0; w.first_k < p->k && status == NX_OK; w.first_k += w.k) {
            w.k = nx_least(deepest, p->k - w.first_k);
            status = multiply_packed(&w);
        }
    }
    nx_room_free(w.b);
    return status;
}

/* ---- by a matrix that was packed once ------------------------------------------------------------------------------ */
size_t nx_product_packed(int64_t n, int64_t k) {
    int64_t width = nx__panels_get()->columns;
    return (size_t)((n + width - 1) / width * width * k);
}

void nx_product_pack(const nx_product *p, float *to) {
    spread w = {.p = p, .level = nx__panels_get(), .b = to, .columns = p->n, .k = p->k};
    (void)pack_panels(&w, 0, n_panels(&w)); /* cannot fail */
}

void nx_product_run_packed(const nx_product *p, float *packed) {
    _Alignas(64) float strip[DEPTH * NX__PANEL_MOST_ROWS];
    spread w = {.p = p, .level = nx__panels_get(), .b = packed, .columns = p->n, .k = p->k};
    bool packs = must_pack(p);
    int64_t step = packs ? w.level->rows : p->m;
    for (int64_t row = 0; row < p->m; row += step)
        multiply_rows(&w, row, nx_least(step, p->m - row), 0, n_panels(&w), packs ? strip : NULL);
}
