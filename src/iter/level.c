/* Which instruction-set level's loops run: what the processor has, unless the flag says less. What it has is known to
 * level_x86_64.c or, for other processors, level_base.c. */
#include "iter/private.h"

_Atomic int nx__level = -1;

int nx__level_find(void) {
    if (nx_flag.reference) return NX_LEVEL_BASE;
    const char *wanted = nx_flag.level;
    bool base = wanted && strcmp(wanted, "base") == 0;
    return nx__level = base || !nx__has_v4() ? NX_LEVEL_BASE : NX_LEVEL_V4;
}
