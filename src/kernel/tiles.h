/* kernel, inside: products of bfloat16 tiles, at each instruction-set level (tiles.c). */
#ifndef NX_KERNEL_TILES_H
#define NX_KERNEL_TILES_H

#include "kernel/kernel.h"

/* One operand: lines of k numbers, those of the result's rows or of its columns. Steps count elements. */
typedef struct nx__tile_side {
    const uint16_t *data;
    int64_t lines, k, line_step, k_step;
    bool by_pairs;       /* b's packing */
    uint16_t *packed;    /* at a multiple of 64; lines and k rounded up to 16 and 32 */
} nx__tile_side;

/* The result, and what is added to each of its elements before that is rounded. Steps count elements; 0 where start is broadcast. */
typedef struct nx__tile_result {
    void *data;
    nx_dtype dtype;      /* bfloat16 or float32 */
    int64_t rows, columns, row_step, column_step;
    const uint16_t *start; /* NULL: nothing */
    int64_t start_row_step, start_column_step;
} nx__tile_result;

/* A way to multiply, of one level; a level has up to so many, the fastest first, NULL where it has none. */
enum { NX__TILE_WAYS = 2 };
typedef struct nx__tiles {
    bool (*runs)(void); /* whether the processor has the instructions and lends them to this process */
    void (*pack)(const nx__tile_side *side, int64_t begin, int64_t end); /* in units of 16 lines */
    /* Of the product of packed operands the rows row .. row + rows and the columns likewise, which begin at multiples of 32. */
    void (*multiply)(const nx__tile_side *a, const nx__tile_side *b, const nx__tile_result *out, int64_t row, int64_t rows,
                     int64_t column, int64_t columns);
} nx__tiles;
typedef nx__tiles nx__tile_ways[NX__TILE_WAYS];

#endif
