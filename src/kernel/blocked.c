/* Products of float32 matrices of any size out of panels (panel.c). Blocks of b, DEPTH by COLUMNS, are packed panel by
 * panel; each panel stays in the first-level cache while all rows of a meet it. Where the lines of a would fall on top of
 * each other there, a strip of rows is packed instead and meets all panels. Sums go on from one block of DEPTH to the
 * next in c, so that a row of the result does not depend on how the rows are split over threads. */
#include "kernel/panel.h"

NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__panels nx__panels)

const nx__panels *nx__panels_get(void) {
    static const nx__panels *const panels[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__panels)};
    return panels[nx_level()];
}

enum { DEPTH = 256, COLUMNS = 512, BAD_STEP = 1024 }; /* in elements: 4 KiB apart, lines share a set of the cache */

typedef struct blocks {
    const nx_product *p;
    const nx__panels *panels;
    float *b, *strip;        /* room for packed panels and for a packed strip */
    int64_t first_k, k, first_column, columns;
} blocks;

static bool must_pack(const nx_product *p) {
    if (p->a_k_step == 1) return p->a_row_step % BAD_STEP == 0;
    return p->a_row_step != 1 || p->a_k_step % BAD_STEP == 0;
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

static void multiply_block(const blocks *w) {
    const nx_product *p = w->p;
    if (must_pack(p)) {
        for (int64_t row = 0; row < p->m; row += w->panels->rows)
            multiply_strip(w, row, nx_least(w->panels->rows, p->m - row));
        return;
    }
    for (int64_t j = 0; j < w->columns; j += w->panels->columns) {
        nx__panel panel = panel_at(w, 0, j);
        panel.packed = w->b; /* done with before the next one */
        w->panels->multiply(&panel, p->m, nx_least(w->panels->columns, w->columns - j));
    }
}

bool nx_product_runs(void) { return nx__panels_get()->fused; }

size_t nx_product_room(int64_t n, int64_t k) {
    int64_t widest = nx__panels_get()->columns, columns = (nx_least(n, COLUMNS) + widest - 1) / widest * widest;
    return (size_t)(nx_least(k, DEPTH) * (columns + NX__PANEL_MOST_ROWS));
}

nx_status nx_product_run(const nx_product *p) {
    size_t room = nx_product_room(p->n, p->k);
    blocks w = {.p = p, .panels = nx__panels_get(), .b = p->room ? p->room : nx_alloc(sizeof(float) * room)};
    if (w.b == NULL) return nx_fail_memory(sizeof(float) * room);
    w.strip = w.b + room - nx_least(p->k, DEPTH) * NX__PANEL_MOST_ROWS;
    for (w.first_column = 0; w.first_column < p->n; w.first_column += w.columns) {
        w.columns = nx_least(COLUMNS, p->n - w.first_column);
        for (w.first_k = 0; w.first_k < p->k; w.first_k += w.k) {
            w.k = nx_least(DEPTH, p->k - w.first_k);
            multiply_block(&w);
        }
    }
    if (p->room == NULL) nx_free(w.b);
    return NX_OK;
}
