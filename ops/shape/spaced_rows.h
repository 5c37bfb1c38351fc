/* Numbers at equal steps, dense, at each instruction-set level: see spaced_rows.c. */
#ifndef NX_SHAPE_SPACED_ROWS_H
#define NX_SHAPE_SPACED_ROWS_H

#include "iter/iter.h"

/* From `first` by `step`; of linspace to `last`, which is number n - 1, and `step` is in the type of the numbers. */
typedef struct nx__spaced {
    double first, step, last;
    int64_t n;
} nx__spaced;
/* Numbers begin .. end, at x. */
typedef void nx__spaced_fn(const nx__spaced *s, void *x, int64_t begin, int64_t end);
typedef struct nx__spaced_rows {
    nx__spaced_fn *count[NX_N_DTYPES];   /* arange: of floating dtypes */
    nx__spaced_fn *between[NX_N_DTYPES]; /* linspace: likewise */
} nx__spaced_rows;
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__spaced_rows nx__spaced_rows)

#endif
