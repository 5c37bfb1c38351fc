/* Which instruction-set level's loops run: what the processor has, unless the flag says less. */
#include "iter/private.h"

#if defined(__x86_64__)
static bool has_v4(void) { /* x86-64-v4 of the psABI */
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}
#else
static bool has_v4(void) { return false; }
#endif

static _Atomic int level = -1;

static int find_level(void) {
    const char *wanted = nx_flag.level;
    level = wanted && strcmp(wanted, "base") == 0 ? NX_LEVEL_BASE : has_v4() ? NX_LEVEL_V4 : NX_LEVEL_BASE;
    return level;
}

int nx_level(void) {
    if (NX_UNLIKELY(nx_flag.reference)) return NX_LEVEL_BASE;
    return NX_LIKELY(level >= 0) ? level : find_level();
}
