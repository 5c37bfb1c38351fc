/* One number of a generator, as PyTorch's CPU kernels draw it. */
#ifndef NX_RANDOM_DRAW_H
#define NX_RANDOM_DRAW_H

#include "iter/iter.h"

#include <math.h>

static inline double nx__uniform_53(nx_generator *g) {
    return (double)(nx_generator_u64(g) & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

/* Of a pair the second is kept for the next call. */
static inline double nx__next_normal(nx_generator *g) {
    if (g->has_normal) {
        g->has_normal = false;
        return g->normal;
    }
    double u1 = nx__uniform_53(g), u2 = nx__uniform_53(g);
    double radius = sqrt(-2 * log1p(-u2)), theta = 2 * 3.14159265358979323846 * u1;
    g->normal = radius * sin(theta);
    g->has_normal = true;
    return radius * cos(theta);
}

static inline nx_status nx__check_generator(const nx_run *run, const nx_generator *generator) {
    if (!generator->class) return NX_OK;
    return nx_fail(NX_RUNTIME, "%s: Expected a 'cpu' device type for generator but found another device's",
                   nx_op_name(run->op));
}

#endif
