/* Which instruction-set level's loops run: what the processor has, unless the flag says less. What it has is known to
 * level_x86_64.c or, for other processors, level_base.c. */
#include "iter/private.h"

static _Atomic int level = -1;

static int find_level(void) {
    const char *wanted = nx_flag.level;
    bool base = wanted && strcmp(wanted, "base") == 0;
    return level = base || !nx__has_v4() ? NX_LEVEL_BASE : NX_LEVEL_V4;
}

int nx_level(void) {
    if (NX_UNLIKELY(nx_flag.reference)) return NX_LEVEL_BASE;
    int known = atomic_load_explicit(&level, memory_order_relaxed);
    return NX_LIKELY(known >= 0) ? known : find_level();
}
