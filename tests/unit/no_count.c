/* In place of count.c in builds that do not count: none. */
#include <stdint.h>

extern _Thread_local uint64_t nx_count_steps;
_Thread_local uint64_t nx_count_steps;
