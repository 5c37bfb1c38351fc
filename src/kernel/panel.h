/* kernel, inside: products of float32 panels that stay in registers, for processors of level v4 (panel.c). */
#ifndef NX_KERNEL_PANEL_H
#define NX_KERNEL_PANEL_H

#include "kernel/kernel.h"

enum { NX__PANEL_ROWS = 12, NX__PANEL_COLUMNS = 32 };

/* k x columns of b, at most NX__PANEL_COLUMNS, as [k][NX__PANEL_COLUMNS]; missing columns are 0. Steps count elements. */
void nx__panel_pack_b(float *to, const float *b, int64_t k_step, int64_t column_step, int64_t k, int64_t columns);
/* rows x k of a as [k][rows]. */
void nx__panel_pack_a(float *to, const float *a, int64_t row_step, int64_t k_step, int64_t k, int64_t rows);

/* c[row][column] = start + sum over k of a[row][k]*b[k][column], in order of k. */
typedef struct nx__panel {
    const float *a;          /* steps count elements; one of them is 1 */
    int64_t a_row_step, a_k_step;
    const float *b;          /* packed */
    int64_t k;
    float *c;
    int64_t c_row_step;
    const float *row;        /* start: this row for every row of c; NULL: 0, or with `add` what c holds */
    bool add;
} nx__panel;
void nx__panel_multiply(const nx__panel *p, int64_t rows, int64_t columns);

/* c = a b, from `row` or with `add` from c, at any size but m, n or k = 0 (blocked.c). Steps count elements; those of
 * the rows of c, 1 from column to column. c lies over neither a nor b. */
typedef struct nx__blocked {
    int64_t m, n, k;
    const float *a, *b, *row;
    float *c;
    int64_t a_row_step, a_k_step, b_k_step, b_column_step, c_row_step;
    bool add;
} nx__blocked;
NX_MUST_USE nx_status nx__blocked_multiply(const nx__blocked *p);
static inline bool nx__blocked_runs(void) { return nx_level() == NX_LEVEL_V4; }

#endif
