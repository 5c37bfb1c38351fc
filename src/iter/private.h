/* Shared by the files of src/iter alone. */
#ifndef NX_ITER_PRIVATE_H
#define NX_ITER_PRIVATE_H

#include "iter/iter.h"

/* Loops of moves.c at one instruction-set level; steps in bytes. */
typedef void nx__cast_fn(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n);
typedef void nx__plane_fn(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows,
                          int64_t columns);
typedef struct nx__moves {
    nx__cast_fn *cast[NX_N_DTYPES][NX_N_DTYPES]; /* from, to */
    nx__cast_fn *move[9];                        /* of one dtype, by its size */
    nx__plane_fn *rows;                          /* rows of `columns` bytes */
    nx__plane_fn *turn[9];                       /* element (row, column) from element (column, row), by size */
} nx__moves;
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__moves nx__moves)
const nx__moves *nx__moves_get(void);
/* One Python number as an element of `dtype`; `to` has room for 8 bytes. */
void nx__number_store(nx_dtype dtype, const nx_value *number, char *to);

#endif
