/* The float32 blocks of normal_ and uniform_, at each instruction-set level: see random_block.c. */
#ifndef NX_RANDOM_BLOCK_H
#define NX_RANDOM_BLOCK_H

#include "iter/iter.h"

typedef void nx__normal_blocks_fn(float *x, int64_t n_blocks, float mean, float std);
NX_EACH_LEVEL(NX_LEVEL_DECLARE, nx__normal_blocks_fn nx__normal_blocks)
/* x = low + bits*(high - low), where the lower 24 bits are a number in [0, 1); what rounds up to high becomes low. */
typedef void nx__uniform_block_fn(float *x, const uint32_t *bits, int64_t n, float low, float high);
NX_EACH_LEVEL(NX_LEVEL_DECLARE, nx__uniform_block_fn nx__uniform_block)

#endif
