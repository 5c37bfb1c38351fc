/* How much the library computes, in steps that are the same at every run: this build calls the first function at each basic
 * block of src/. Tests hold with it what grows with what: tests/unit/compile/test_growth.c. */
#include <stdint.h>

extern _Thread_local uint64_t nx_count_steps;
_Thread_local uint64_t nx_count_steps;

void __sanitizer_cov_trace_pc(void);
__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void) { nx_count_steps++; }
