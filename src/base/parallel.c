/* Work in pieces. How it is cut may depend on the number of threads, so no body may give other bits for other cuts. Long
 * work gives the interpreter's lock away. After a fork the child runs serially: its parent's team does not exist there.
 * Next: team.c, cpus.c. */
#include "base/private.h"

#include <pthread.h>

enum { LONG = 8 /* pieces whose work is worth giving the lock away for: about 0.1 ms */ };
static _Atomic bool forked;
static _Atomic int n_chosen, n_usable; /* by the program; by the machine and the flags, 0: not known yet */
_Atomic int64_t nx__piece_bytes = NX_PIECE;

static void after_fork(void) { atomic_store(&forked, true); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

int nx_num_threads(void) {
    int n = atomic_load_explicit(&n_chosen, memory_order_relaxed);
    if (NX_LIKELY(n > 0 || (n = atomic_load_explicit(&n_usable, memory_order_relaxed)) > 0)) return n;
    char why[160];
    atomic_store(&n_usable, n = nx__cpus_usable(why, sizeof why));
    return n;
}

void nx_set_num_threads(int n) { atomic_store(&n_chosen, n); }
void nx_set_piece(int64_t bytes) { atomic_store(&nx__piece_bytes, bytes > 0 ? bytes : NX_PIECE); }

int nx_explain_threads(char *text, size_t bytes) {
    if (atomic_load(&n_chosen) > 0) snprintf(text, bytes, "set_num_threads(%d)", atomic_load(&n_chosen));
    else nx__cpus_usable(text, bytes);
    return nx_num_threads();
}

void *nx_long_begin(int64_t bytes) {
    bool is_long = bytes >= (int64_t)LONG * NX_PIECE;
    return is_long && !nx_thread_get()->keeps_lock ? nx_block_begin() : NULL;
}

/* Pieces no smaller than a grain; twice as many as threads where there is enough, so that nobody waits long for the last. */
static nx_status run_pieces(int64_t n, int64_t grain, int threads, nx_parallel_fn *body, void *arg) {
    int64_t most = n / grain, pieces = nx_least(most, most >= 4 * (int64_t)threads ? 2 * threads : threads);
    if (pieces <= 1) return body(arg, 0, n);
    if (NX_LIKELY(!atomic_load_explicit(&forked, memory_order_relaxed)))
        return nx__team_run(n, (int)pieces, threads, body, arg);
    for (int64_t p = 0; p < pieces; p++) NX_TRY(body(arg, n * p / pieces, n * (p + 1) / pieces));
    return NX_OK;
}

nx_status nx_parallel(int64_t n, int64_t grain, nx_parallel_fn *body, void *arg) {
    if (n <= 0) return NX_OK;
    if (n < 2 * grain) return body(arg, 0, n);
    int threads = nx_num_threads();
    void *token = nx_long_begin(n / grain * NX_PIECE);
    nx_status status = threads == 1 ? body(arg, 0, n) : run_pieces(n, grain, threads, body, arg);
    if (token) nx_block_end(token);
    return status;
}
