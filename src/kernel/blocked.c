/* Products of float32 matrices of any size out of panels (panel.c). DEPTH numbers of each row of a are packed in strips, as
 * many rows as the second-level cache holds; DEPTH numbers of each column of b are packed panel by panel, and a panel stays
 * in the first-level cache while those rows meet it and the next one is brought near. Where a has more rows, a block of b,
 * DEPTH by COLUMNS, stays packed for all of them. A product of few columns takes a as it lies. Sums go on from one block of
 * DEPTH to the next in c, so that an element of the result does not depend on how the product is split over threads: then
 * all of b is packed first, by all threads, and each of them multiplies rectangles of the result. Halves become float32
 * where they are packed, and what the last block gives is rounded while it is near. */
#include "kernel/panel.h"

NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__panels nx__panels)

const nx__panels *nx__panels_get(void) {
    static const nx__panels *const panels[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__panels)};
    return panels[nx_level()];
}

enum { DEPTH = 384, DEEPEST = 512, COLUMNS = 1024, NEAR_ROWS = 264 };
enum { BAD_STEP = 1024 }; /* in elements: 4 KiB apart, lines share a set of the cache */
/* Columns for which a is not packed: where its rows lie in memory, at most DEPTH from one to the next or more; where its columns do. */
enum { FEW_NEAR = 512, FEW = 256, FEW_BY_COLUMNS = 64 };
enum { LINE_OF_HALVES = 32 }; /* as many columns are packed at a time, where they lie by rows */

typedef struct blocks {
    const nx_product *p;
    const nx__panels *panels;
    float *b, *a;            /* room for packed panels, and for packed strips of a; a NULL: it is taken as it lies */
    int64_t first_k, k, first_column, columns, first_row, rows;
    bool keeps;              /* the block's panels, for the rows after these */
    nx_dtype dtype;          /* of a and b */
    const nx_halves *out;    /* where the result is rounded to; NULL: it is p->c */
} blocks;

/* How many of k sums go on in registers. A few more than DEPTH are no reason to come back to c. */
static int64_t depth_of(int64_t k) { return k <= DEEPEST ? k : DEPTH; }

/* Whether `columns` columns of the product pay for packing a. */
static bool pays_to_pack(const nx_product *p, int64_t columns) {
    bool is_bad = p->a_k_step != 1 && (p->a_row_step != 1 || p->a_k_step % BAD_STEP == 0);
    const int64_t few = p->a_k_step != 1 ? FEW_BY_COLUMNS : p->a_row_step <= DEPTH ? FEW_NEAR : FEW;
    return is_bad || (columns > few && p->m > NX__PANEL_MOST_ROWS);
}

/* Rows of a that are packed at once: blocks of about the same height. */
static int64_t rows_near(const nx_product *p, int64_t strip) {
    int64_t blocks = (p->m + NEAR_ROWS - 1) / NEAR_ROWS, strips = (p->m + strip - 1) / strip;
    return nx_least(p->m, (strips + blocks - 1) / blocks * strip);
}

/* p->seen, counted from the row, the column and the first of the sums that a panel begins with. */
static int64_t seen_from(const nx_product *p, int64_t row, int64_t column, int64_t k) {
    const int64_t seen[] = {[NX_SEEN_RESULT] = row - column, [NX_SEEN_ROWS] = row - k, [NX_SEEN_COLUMNS] = k - row};
    return p->seen + seen[p->part];
}

/* Numbers of a and b, from one on. */
static const void *of_a(const blocks *w, int64_t row, int64_t k) {
    return (const char *)w->p->a + (row * w->p->a_row_step + k * w->p->a_k_step) * nx_dtype_sizes[w->dtype];
}

static const void *of_b(const blocks *w, int64_t k, int64_t column) {
    return (const char *)w->p->b + (k * w->p->b_k_step + column * w->p->b_column_step) * nx_dtype_sizes[w->dtype];
}

/* The panel that begins at column j of the block. */
static nx__panel panel_at(const blocks *w, int64_t j) {
    const nx_product *p = w->p;
    int64_t column = w->first_column + j;
    const bool is_last = w->first_k + w->k == p->k, starts = p->start && is_last;
    nx__panel panel = {.a = w->a ? w->a : of_a(w, w->first_row, w->first_k),
                       .in_strips = w->a != NULL,
                       .a_row_step = p->a_row_step,
                       .a_k_step = p->a_k_step,
                       .b = of_b(w, w->first_k, column),
                       .b_k_step = p->b_k_step,
                       .b_column_step = p->b_column_step,
                       .packed = w->keeps ? w->b + j * w->k : w->b,
                       .is_packed = w->first_row > 0,
                       .packed_step = w->panels->columns * w->k,
                       .k = w->k,
                       .part = p->part,
                       .seen = seen_from(p, w->first_row, column, w->first_k),
                       .c = p->c + w->first_row * p->c_row_step + column,
                       .c_row_step = p->c_row_step,
                       .start = starts ? p->start + w->first_row * p->start_row_step + column : NULL,
                       .start_row_step = starts ? p->start_row_step : 0,
                       .add = p->add || w->first_k > 0,
                       .dtype = w->dtype};
    if (w->out && is_last) {
        panel.rounded = w->out->data + w->first_row * w->out->row_step + column * w->out->column_step;
        panel.rounded_row_step = w->out->row_step, panel.rounded_column_step = w->out->column_step;
    }
    return panel;
}

static void pack_rows(const blocks *w) {
    const nx_product *p = w->p;
    if (w->a) w->panels->pack_a(w->a, of_a(w, w->first_row, w->first_k), w->dtype, p->a_row_step, p->a_k_step, w->k, w->rows);
}

/* Where b of the whole panel after that at column j lies; NULL: there is none. */
static const void *panel_after(const blocks *w, int64_t j, int64_t width) {
    const nx_product *p = w->p;
    if (w->first_column + j + 2 * width <= p->n) return of_b(w, w->first_k, w->first_column + j + width);
    bool goes_on = w->first_k + w->k < p->k && p->n >= width;
    return goes_on ? of_b(w, w->first_k + w->k, w->first_column) : NULL;
}

/* All rows of the block meet the panels from column j on. Returns how many columns these have. */
static int64_t multiply_panels(const blocks *w, int64_t j) {
    const int64_t width = w->panels->columns;
    nx__panel panel = panel_at(w, j);
    if (w->first_row > 0) { /* the rows before these have packed all panels */
        w->panels->multiply(&panel, w->rows, w->columns);
        return w->columns;
    }
    const bool is_single = w->dtype == NX_F32;
    const int64_t together = is_single || w->p->b_k_step == 1 || width > LINE_OF_HALVES ? width : LINE_OF_HALVES;
    const int64_t columns = nx_least(together, w->columns - j);
    panel.ahead = panel_after(w, j, together);
    panel.ahead_bytes = nx_dtype_sizes[w->dtype];
    if (!is_single) w->panels->pack_b(panel.packed, panel.b, w->dtype, w->p->b_k_step, w->p->b_column_step, w->k, columns);
    panel.is_packed = !is_single;
    w->panels->multiply(&panel, w->rows, columns);
    return columns;
}

static void multiply_block(const blocks *w) {
    pack_rows(w);
    for (int64_t j = 0; j < w->columns;) j += multiply_panels(w, j);
}

bool nx_product_runs(void) { return nx__panels_get()->fused; }

static int64_t whole_panels(int64_t columns) {
    int64_t width = nx__panels_get()->columns;
    return (columns + width - 1) / width * width;
}

size_t nx_product_room(int64_t m, int64_t n, int64_t k) {
    return (size_t)(depth_of(k) * (whole_panels(nx_least(n, COLUMNS)) + nx_least(m, NEAR_ROWS)));
}

/* All blocks. w->b has room for panels and strips. */
static void run_blocks(blocks w, bool packs) {
    const nx_product *p = w.p;
    int64_t near = rows_near(p, w.panels->rows);
    w.keeps = near < p->m;
    if (packs) w.a = w.b + depth_of(p->k) * whole_panels(nx_least(p->n, COLUMNS));
    for (w.first_column = 0; w.first_column < p->n; w.first_column += w.columns) {
        w.columns = w.keeps ? nx_least(COLUMNS, p->n - w.first_column) : p->n;
        for (w.first_k = 0; w.first_k < p->k; w.first_k += w.k) {
            w.k = nx_least(depth_of(p->k), p->k - w.first_k);
            for (w.first_row = 0; w.first_row < p->m; w.first_row += w.rows) {
                w.rows = nx_least(near, p->m - w.first_row);
                multiply_block(&w);
            }
        }
    }
}

nx_status nx_product_run(const nx_product *p) {
    size_t room = nx_product_room(p->m, p->n, p->k);
    blocks w = {.p = p, .panels = nx__panels_get(), .b = p->room ? p->room : nx_room_new(sizeof(float) * room), .dtype = NX_F32};
    if (w.b == NULL) return nx_fail_memory(sizeof(float) * room);
    run_blocks(w, pays_to_pack(p, p->n));
    if (p->room == NULL) nx_room_free(w.b);
    return NX_OK;
}

nx_status nx_product_run_halves(const nx_product *p, const nx_halves *out) {
    const bool goes_on = depth_of(p->k) < p->k;
    const size_t packed = nx_product_room(p->m, p->n, p->k), room = packed + (goes_on ? (size_t)(p->m * p->n) : 0);
    nx_product whole = *p;
    blocks w = {.p = &whole, .panels = nx__panels_get(), .b = nx_room_new(sizeof(float) * room), .dtype = out->dtype, .out = out};
    if (w.b == NULL) return nx_fail_memory(sizeof(float) * room);
    whole.c = goes_on ? w.b + packed : w.b; /* of one block nothing is written there */
    whole.c_row_step = goes_on ? p->n : 0;
    run_blocks(w, true);
    nx_room_free(w.b);
    return NX_OK;
}

/* ---- on several threads ------------------------------------------------------------------------------------------ */
enum {
    WORTH_SPLITTING = 1 << 21,   /* multiplications */
    PACKED = 1 << 20,            /* numbers of b that are packed at a time */
    LEAST_PARTS = 2              /* of a cell: panels side by side, and as many rows as a panel has at most */
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
        w->level->pack_b(w->b + column * w->k, from, NX_F32, p->b_k_step, p->b_column_step, w->k,
                         nx_least(w->level->columns, w->columns - column));
    }
    return NX_OK;
}

/* Rows row .. row + rows meet panels panel .. end. `strips` is room for them, packed; NULL: they are taken as they lie. */
static void multiply_rows(const spread *w, int64_t row, int64_t rows, int64_t panel, int64_t end, float *strips) {
    blocks block = {.p = w->p, .panels = w->level, .a = strips, .first_row = row, .rows = rows, .dtype = NX_F32};
    const int64_t column = panel * w->level->columns;
    for (block.first_k = w->first_k; block.first_k < w->first_k + w->k; block.first_k += block.k) {
        block.k = nx_least(depth_of(w->p->k), w->p->k - block.first_k);
        pack_rows(&block);
        nx__panel at = panel_at(&block, w->first + column);
        at.packed = w->b + column * w->k + (block.first_k - w->first_k) * w->level->columns;
        at.packed_step = w->level->columns * w->k;
        at.is_packed = true;
        w->level->multiply(&at, rows, nx_least(end * w->level->columns, w->columns) - column);
    }
}

static nx_status multiply_cells(void *arg, int64_t begin, int64_t end) {
    const spread *w = arg;
    float *strips = NULL;
    if (pays_to_pack(w->p, w->panels * w->level->columns)) {
        size_t bytes = sizeof(float) * (size_t)(depth_of(w->p->k) * w->rows);
        strips = nx_room_new(bytes);
        if (strips == NULL) return nx_fail_memory(bytes);
    }
    for (int64_t cell = begin; cell < end; cell++) {
        int64_t row = cell / w->across * w->rows, rows = nx_least(w->rows, w->p->m - row), panel = cell % w->across * w->panels;
        multiply_rows(w, row, rows, panel, nx_least(panel + w->panels, n_panels(w)), strips);
    }
    nx_room_free(strips);
    return NX_OK;
}

/* Large cells of about the same size, but enough of them for all threads. Returns how many. */
static int64_t cut_cells(spread *w) {
    const int64_t m = w->p->m, height = w->level->rows, width = w->level->columns;
    int64_t down = (m + NEAR_ROWS - 1) / NEAR_ROWS, across = 1;
    for (;;) {
        w->rows = ((m + down - 1) / down + height - 1) / height * height;
        w->panels = (n_panels(w) + across - 1) / across;
        w->across = (n_panels(w) + w->panels - 1) / w->panels;
        int64_t cells = (m + w->rows - 1) / w->rows * w->across;
        bool is_tall = w->rows > LEAST_PARTS * height, is_wide = w->panels > LEAST_PARTS;
        if (cells >= 2 * nx_num_threads() || (!is_tall && !is_wide)) return cells;
        if (is_wide && (!is_tall || w->panels * width >= w->rows)) across++;
        else down++;
    }
}

static nx_status multiply_packed(spread *w) {
    int64_t cells = cut_cells(w);
    NX_TRY(nx_parallel(n_panels(w), nx_least(n_panels(w), 4), pack_panels, w));
    return nx_parallel(cells, 1, multiply_cells, w);
}

/* As many columns and sums at a time as there is room for their panels. */
static nx_status multiply_in_turns(const nx_product *p) {
    spread w = {.p = p, .level = nx__panels_get()};
    const int64_t width = w.level->columns;
    int64_t most = PACKED / p->k / width * width;
    if (most < COLUMNS) most = COLUMNS;
    most = nx_least(most, whole_panels(p->n));
    const int64_t depth = depth_of(p->k);
    const int64_t deepest = most * p->k <= PACKED ? p->k : nx_least(p->k, PACKED / most / depth * depth);
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

nx_status nx_product_spread(const nx_product *p) {
    const int64_t work = p->m * p->n * p->k;
    const bool is_split = nx_num_threads() > 1 && work >= 2 * WORTH_SPLITTING;
    void *token = nx_long_begin(work / (WORTH_SPLITTING / NX_PIECE));
    nx_status status = is_split ? multiply_in_turns(p) : nx_product_run(p);
    if (token) nx_block_end(token);
    return status;
}

/* ---- by a matrix that was packed once ------------------------------------------------------------------------------ */
size_t nx_product_packed(int64_t n, int64_t k) { return (size_t)(whole_panels(n) * k); }

void nx_product_pack(const nx_product *p, float *to) {
    spread w = {.p = p, .level = nx__panels_get(), .b = to, .columns = p->n, .k = p->k};
    (void)pack_panels(&w, 0, n_panels(&w)); /* cannot fail */
}

void nx_product_run_packed(const nx_product *p, float *packed) {
    spread w = {.p = p, .level = nx__panels_get(), .b = packed, .columns = p->n, .k = p->k};
    int64_t near = rows_near(p, w.level->rows);
    float *strips = pays_to_pack(p, p->n) ? nx_room_new(sizeof(float) * (size_t)(depth_of(p->k) * near)) : NULL;
    for (int64_t row = 0; row < p->m; row += near)
        multiply_rows(&w, row, nx_least(near, p->m - row), 0, n_panels(&w), strips);
    nx_room_free(strips);
}
