/* The float32 block of normal_, at each instruction-set level: see normal_block.c. */
#ifndef NX_NORMAL_BLOCK_H
#define NX_NORMAL_BLOCK_H

#include "iter/iter.h"

typedef void nx__normal_blocks_fn(float *x, int64_t n_blocks, float mean, float std);
nx__normal_blocks_fn nx__normal_blocks_base, nx__normal_blocks_v4;
/* By level. A processor family without the v4 level builds that one with the base flags. */
static nx__normal_blocks_fn *const nx__normal_blocks[NX_N_LEVELS] = {nx__normal_blocks_base,
                                                                     nx__normal_blocks_v4};

#endif
