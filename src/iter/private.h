/* Shared by the files of src/iter alone. */
#ifndef NX_ITER_PRIVATE_H
#define NX_ITER_PRIVATE_H

#include "iter/iter.h"

/* Loops of moves.c at one instruction-set level; steps in bytes. */
typedef void nx__cast_fn(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n);
typedef void nx__plane_fn(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows,
                          int64_t columns);
typedef struct nx__moves {
    nx__cast_fn *cast[NX_N_DTYPES][NX_N_DTYPES]; /* from, to; NULL: see nx__rare_cast */
    nx__cast_fn *move[NX_MAX_ELEMENT_BYTES + 1]; /* of one dtype, by its size */
    void (*bytes)(char *to, const char *from, int64_t n); /* side by side; they may overlap */
    nx__plane_fn *rows;                          /* rows of `columns` bytes */
    nx__plane_fn *back[NX_MAX_ELEMENT_BYTES + 1];/* rows of `columns` elements, each from its end, by the elements' size */
    nx__plane_fn *turn[NX_MAX_ELEMENT_BYTES + 1];/* element (row, column) from element (column, row), by size */
} nx__moves;
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__moves nx__moves)
const nx__moves *nx__moves_get(void);
enum { NX__NARROW = 16, NX__WORTH = 16 }; /* elements: rows of fewer are short; as many are worth bringing side by side */
void nx__walk_swap(nx_walk *walk, int a, int b); /* two dimensions */
/* Whether rows are short and the dimension before them is longer. */
static inline bool nx__walk_is_narrow(const nx_walk *walk) {
    int last = walk->ndim - 1;
    return last > 0 && walk->size[last] < NX__NARROW && walk->size[last - 1] > walk->size[last];
}
/* Casts from and to the types that are stored or complex, one loop or several by way of others; see cast_rare.c. */
void nx__rare_cast(const nx__moves *moves, nx_dtype to_dtype, char *to, int64_t to_step, nx_dtype from_dtype,
                   const char *from, int64_t from_step, int64_t n);
#endif
