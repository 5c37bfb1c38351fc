/* Shared by the files of src/base alone. */
#ifndef NX_BASE_PRIVATE_H
#define NX_BASE_PRIVATE_H

#include "base/base.h"

/* cpus.c: how many threads nobody but the machine asks for, and the reason. */
int nx__cpus_usable(char *why, size_t bytes);
/* What the control groups of this process allow, in processors, 0: no limit. `root` stands before /proc and /sys. */
double nx__cpu_quota(const char *root);

/* team.c: pieces 0 .. pieces of 0..n, on at most `threads` threads, the caller's among them. Any number of callers, one
 * inside the other too. */
nx_status nx__team_run(int64_t n, int pieces, int threads, nx_parallel_fn *body, void *arg);

#endif
