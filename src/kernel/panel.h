/* kernel, inside: products of float32 panels that stay in registers, at each instruction-set level (panel.c). */
#ifndef NX_KERNEL_PANEL_H
#define NX_KERNEL_PANEL_H

#include "kernel/kernel.h"

/* c = a b + start, with `add` c += a b + start; sums in order of k, start last. With `factor` c = a b factor + offset, each rounded,
 * no less than low and no more than high; NaN stays. */
typedef struct nx__panel {
    const float *a;          /* steps count elements; one of them is 1 */
    int64_t a_row_step, a_k_step;
    bool in_strips;          /* a is as pack_a makes it; its steps are not read */
    const float *b;          /* as it lies */
    int64_t b_k_step, b_column_step;
    float *packed;           /* room for k x the level's columns; with is_packed it holds b already */
    bool is_packed;
    int64_t packed_step;     /* from one packed panel to the next, where there are more columns than one has */
    int64_t k;
    nx_counts part;          /* with the columns and the sums that begin here */
    int64_t seen;
    float *c;
    int64_t c_row_step;
    uint16_t *rounded;       /* the result as halves of `dtype`, in the place of c; NULL: c. b is packed then, nothing is seen in part */
    int64_t rounded_row_step, rounded_column_step;
    nx_dtype dtype;
    const float *start;      /* NULL: 0 */
    int64_t start_row_step;
    bool add;
    const float *factor, *offset; /* a number of each row; NULL: none, otherwise there is no start and no `add` */
    float low, high;
    const char *ahead;       /* b of the whole panel after this one, which is brought near meanwhile; NULL: there is none */
    int64_t ahead_bytes;     /* of its elements */
    const char *next;        /* panel.c's own: the lines that a kernel asks for */
    int64_t next_step;
} nx__panel;
/* out = a b, or self + a b, element by element: for at most NX__PANEL_TINY multiplications and elements packing would take
 * longer. The same bits. self is broadcast; whatever may lie over whatever. */
enum { NX__PANEL_TINY = 256 };
typedef void nx__panel_tiny_fn(const nx_array *self, const nx_array *a, const nx_array *b, const nx_array *out);

/* Of one level. Sums are rounded once a product where the level is fused, so that such levels have the same bits. */
typedef struct nx__panels {
    bool fused;
    int rows, columns;       /* of the largest panel: its sums and one row of b fill the registers */
    /* k x n_columns of b as panels, one behind the other, [k][columns] each; missing columns are 0. float32, NX_BF16 or NX_F16 becomes
     * float32. Steps count elements. */
    void (*pack_b)(float *to, const void *b, nx_dtype dtype, int64_t k_step, int64_t column_step, int64_t k, int64_t n_columns);
    /* n_rows x k of a in strips of `rows` rows, each of them as [k][rows]; the last one has as many rows as are left, where these
     * are one or two `rows` more. */
    void (*pack_a)(float *to, const void *a, nx_dtype dtype, int64_t row_step, int64_t k_step, int64_t k, int64_t n_rows);
    /* At most the columns of one panel; of a packed b any number. */
    void (*multiply)(const nx__panel *p, int64_t n_rows, int64_t n_columns);
    nx__panel_tiny_fn *tiny;
    /* A matrix, whose rows lie row_step apart, by a vector: c[r] = the sum over k of a[r][k] x[k]; and a vector by a matrix:
     * c[j] = the sum over k of x[k] a[k][j]. With `add`, c is added to. Same bits at all fused levels. */
    void (*dots)(float *c, int64_t c_step, const float *a, int64_t row_step, const float *x, int64_t rows, int64_t k, bool add);
    void (*blend)(float *c, const float *a, int64_t row_step, const float *x, int64_t columns, int64_t k, bool add);
} nx__panels;
enum { NX__PANEL_MOST_ROWS = 12 };
/* In the code of one level: the vectors of a whole panel's columns. */
#define NX__PANEL_VECTORS NX_PASTE(NX__PANEL_VECTORS, NX_REGISTERS)
#define NX__PANEL_VECTORS_16 2
#define NX__PANEL_VECTORS_32 4
const nx__panels *nx__panels_get(void); /* those of the level in use */

#endif
