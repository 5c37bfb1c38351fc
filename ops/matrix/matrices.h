/* matrices: an operator of batches of matrices as a function of one. Each matrix of each operand is brought column by
 * column into memory of its own, the function is called, and what it wrote goes where the results lie. Batches are split
 * over threads; a matrix is computed by one, so the bits do not depend on how many there are. */
#ifndef NX_OPS_MATRICES_H
#define NX_OPS_MATRICES_H

#include "kernel/kernel.h"

enum { NX__OPERANDS = 8 };
/* One operand's matrix, column by column without gaps, in the operand's dtype. A vector is one column; a number has one
 * row and one column. What an input holds may be overwritten. */
typedef struct nx__matrix { void *at; int rows, columns; } nx__matrix;
typedef struct nx__matrices nx__matrices;
/* `room` has all->room bytes; `nth` counts the batch, -1 where there is none, for messages. */
typedef nx_status nx__matrix_fn(const nx__matrices *all, nx__matrix *m, void *room, int64_t nth);
typedef struct nx__operand { const nx_array *array; int rank; } nx__operand; /* rank 2, 1 or 0 behind the batch's dimensions */
struct nx__matrices {
    nx__matrix_fn *of[4];                /* of the first operand's dtype: float32, float64, complex64, complex128 */
    int n_in, n;                         /* inputs stand in front; their batches broadcast to the results' */
    nx__operand operand[NX__OPERANDS];
    int64_t cost;                        /* of one matrix, in multiplications */
    size_t room;
    const char *op, *check;              /* for messages; check: the name under which a failure is told, "": it is not */
    bool flag[4];                        /* the function's own */
    char letter;
    double epsilon;
};
NX_MUST_USE nx_status nx__matrices_run(const nx__matrices *all);

/* The leading dimension that LAPACK wants. */
static inline int nx__leading(const nx__matrix *m) { return m->rows > 1 ? m->rows : 1; }

#endif
