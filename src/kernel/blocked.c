/* Products of float32 matrices of any size out of panels (panel.c). Blocks of b, DEPTH by COLUMNS, are packed; each
 * strip of rows of a then meets all panels of the block while it stays in the first-level cache. Strips are read where
 * they lie, unless their lines would fall on top of each other there. Sums go on from one block of DEPTH to the next
 * in c, so that a row of the result does not depend on how the rows are split over threads. */
#include "kernel/panel.h"

enum { DEPTH = 256, COLUMNS = 512, BAD_STEP = 1024 }; /* in elements: 4 KiB apart, lines share a set of the cache */

typedef struct blocks {
    const nx__blocked *p;
    float *b, *strip;        /* room for packed panels and for a packed strip */
    int64_t first_k, k, first_column, columns;
} blocks;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static bool must_pack(const nx__blocked *p) {
    if (p->a_k_step == 1) return p->a_row_step % BAD_STEP == 0;
    return p->a_row_step != 1 || p->a_k_step % BAD_STEP == 0;
}

static void pack_block(const blocks *w) {
    const nx__blocked *p = w->p;
    for (int64_t j = 0; j < w->columns; j += NX__PANEL_COLUMNS) {
        const float *from = p->b + w->first_k * p->b_k_step + (w->first_column + j) * p->b_column_step;
        nx__panel_pack_b(w->b + j * w->k, from, p->b_k_step, p->b_column_step, w->k,
                         min64(NX__PANEL_COLUMNS, w->columns - j));
    }
}

static void multiply_strip(const blocks *w, int64_t row, int64_t rows) {
    const nx__blocked *p = w->p;
    nx__panel panel = {.a = p->a + row * p->a_row_step + w->first_k * p->a_k_step,
                       .a_row_step = p->a_row_step,
                       .a_k_step = p->a_k_step,
                       .k = w->k,
                       .c_row_step = p->c_row_step,
                       .add = p->add || w->first_k > 0};
    if (must_pack(p)) {
        nx__panel_pack_a(w->strip, panel.a, p->a_row_step, p->a_k_step, w->k, rows);
        panel.a = w->strip;
        panel.a_row_step = 1;
        panel.a_k_step = rows;
    }
    for (int64_t j = 0; j < w->columns; j += NX__PANEL_COLUMNS) {
        panel.b = w->b + j * w->k;
        panel.c = p->c + row * p->c_row_step + w->first_column + j;
        panel.row = p->row ? p->row + w->first_column + j : NULL;
        nx__panel_multiply(&panel, rows, min64(NX__PANEL_COLUMNS, w->columns - j));
    }
}

nx_status nx__blocked_multiply(const nx__blocked *p) {
    int64_t depth = min64(p->k, DEPTH), columns = min64(p->n, COLUMNS);
    columns = (columns + NX__PANEL_COLUMNS - 1) / NX__PANEL_COLUMNS * NX__PANEL_COLUMNS;
    size_t bytes = sizeof(float) * (size_t)(depth * (columns + NX__PANEL_ROWS));
    blocks w = {.p = p, .b = nx_alloc(bytes)};
    if (w.b == NULL) return nx_fail_memory(bytes);
    w.strip = w.b + depth * columns;
    for (w.first_column = 0; w.first_column < p->n; w.first_column += w.columns) {
        w.columns = min64(COLUMNS, p->n - w.first_column);
        for (w.first_k = 0; w.first_k < p->k; w.first_k += w.k) {
            w.k = min64(DEPTH, p->k - w.first_k);
            pack_block(&w);
            for (int64_t row = 0; row < p->m; row += NX__PANEL_ROWS)
                multiply_strip(&w, row, min64(NX__PANEL_ROWS, p->m - row));
        }
    }
    nx_free(w.b);
    return NX_OK;
}
