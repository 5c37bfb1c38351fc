/* Work in pieces. libgomp makes a pool for each thread that asks, so one caller at a time gets the pool and every other
 * one (a stream, a session, a nested call) runs serially. Pieces are cut by n, grain and the thread count alone, so
 * results do not depend on who got the pool. After a fork the child runs serially, because libgomp's threads do not
 * exist there. Next: pool_openmp.c, the only parallel region of the library. */
#include "base/base.h"

#include <pthread.h>

static atomic_flag pool_taken = ATOMIC_FLAG_INIT;
static _Atomic bool forked;
static _Atomic int n_threads;

static void after_fork(void) { atomic_store(&forked, true); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

int nx_num_threads(void) {
    int n = atomic_load(&n_threads);
    return n > 0 ? n : nx__pool_threads();
}

void nx_set_num_threads(int n) { atomic_store(&n_threads, n); }

static nx_status run_serially(int64_t n, int pieces, nx_parallel_fn *body, void *arg) {
    for (int p = 0; p < pieces; p++) NX_TRY(body(arg, n * p / pieces, n * (p + 1) / pieces));
    return NX_OK;
}

nx_status nx_parallel(int64_t n, int64_t grain, nx_parallel_fn *body, void *arg) {
    if (n <= grain) return n > 0 ? body(arg, 0, n) : NX_OK;
    int64_t most = (n + grain - 1) / grain;
    int pieces = most < nx_num_threads() ? (int)most : nx_num_threads();
    if (pieces <= 1) return body(arg, 0, n);
    if (nx_thread_get()->inside_parallel || atomic_load(&forked) || atomic_flag_test_and_set(&pool_taken)) {
        return run_serially(n, pieces, body, arg);
    }
    nx_status status = nx__pool_run(n, pieces, body, arg);
    atomic_flag_clear(&pool_taken);
    return status;
}
