/* kernel, inside: products of float32 panels that stay in registers, for processors of level v4 (panel.c). */
#ifndef NX_KERNEL_PANEL_H
#define NX_KERNEL_PANEL_H

#include "kernel/kernel.h"

enum { NX__PANEL_ROWS = 12, NX__PANEL_COLUMNS = 32 };

/* k x columns of b, at most NX__PANEL_COLUMNS, as [k][NX__PANEL_COLUMNS]; missing columns are 0. Steps count elements. */
void nx__panel_pack_b(float *to, const float *b, int64_t k_step, int64_t column_step, int64_t k, int64_t columns);
/* rows x k of a as [k][rows]. */
void nx__panel_pack_a(float *to, const float *a, int64_t row_step, int64_t k_step, int64_t k, int64_t rows);

/* c = a b + start, with `add` c += a b + start; sums in order of k, start last. */
typedef struct nx__panel {
    const float *a;          /* steps count elements; one of them is 1 */
    int64_t a_row_step, a_k_step;
    const float *b;          /* as it lies */
    int64_t b_k_step, b_column_step;
    float *packed;           /* room for k x NX__PANEL_COLUMNS; with is_packed it holds b already */
    bool is_packed;
    int64_t k;
    float *c;
    int64_t c_row_step;
    const float *start;      /* NULL: 0 */
    int64_t start_row_step;
    bool add;
} nx__panel;
void nx__panel_multiply(const nx__panel *p, int64_t rows, int64_t columns);

/* out = a b, or self + a b, element by element: for at most NX__PANEL_TINY multiplications and elements packing would take
 * longer. The same bits. self is broadcast; whatever may lie over whatever. */
enum { NX__PANEL_TINY = 256 };
void nx__panel_tiny(const nx_array *self, const nx_array *a, const nx_array *b, const nx_array *out);

#endif
