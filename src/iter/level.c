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

/* The flag's level where it is one that the processor has, else `best` with a line on stderr: nobody could catch it. */
static int choose(const char *wanted, int best) {
    for (int level = NX_LEVEL_BASE; level <= best; level++) {
        if (strcmp(wanted, names[level]) == 0) return level;
    }
    fprintf(stderr, "narthex: NARTHEX_LEVEL=%s: this processor has", wanted);
    for (int level = NX_LEVEL_BASE; level <= best; level++) fprintf(stderr, "%s %s", level ? "," : "", names[level]);
    fprintf(stderr, "; %s is used\n", names[best]);
    return best;
}

static int best_level(void) {
    int best = NX_N_LEVELS - 1;
    while (best > NX_LEVEL_BASE && !has_level(best)) best--;
    return best;
}

int nx__level_find(void) {
    if (nx_flag.reference) return NX_LEVEL_BASE;
    int known = nx__level;
    if (known >= 0) return known;
    return nx__level = nx_flag.level ? choose(nx_flag.level, best_level()) : best_level();
}

bool nx_set_level(const char *name) {
    for (int level = NX_LEVEL_BASE; level <= best_level(); level++) {
        if (strcmp(name, names[level]) == 0) return nx__level = level, true;
    }
    return false;
}
