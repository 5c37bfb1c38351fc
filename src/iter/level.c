/* Which instruction-set level's code runs: the best that the processor has, unless the flag says less. */
#include "iter/private.h"

_Atomic int nx__level = -1;

#define NAME(of, code, name, has) #name,
static const char *const names[NX_N_LEVELS] = {NX_EACH_LEVEL(NAME, )};

static bool has_level(int level) {
#define HAS(of, code, name, has) [NX_LEVEL_##code] = (has) != 0,
    const bool all[NX_N_LEVELS] = {NX_EACH_LEVEL(HAS, )};
    return all[level];
}

const char *nx_level_name(int level) { return names[level]; }

int nx__level_find(void) {
    if (nx_flag.reference) return NX_LEVEL_BASE;
    int level = NX_N_LEVELS - 1;
    while (level > NX_LEVEL_BASE && !has_level(level)) level--;
    for (int lower = NX_LEVEL_BASE; nx_flag.level && lower < level; lower++) {
        if (strcmp(nx_flag.level, names[lower]) == 0) level = lower;
    }
    return nx__level = level;
}
