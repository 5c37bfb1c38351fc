/* The pool as OpenMP's: libgomp keeps its threads between calls. */
#include "base/base.h"

#include <omp.h>

int nx__pool_threads(void) { return omp_get_max_threads(); }

nx_status nx__pool_run(int64_t n, int pieces, nx_parallel_fn *body, void *arg) {
    nx_status first = NX_OK;
    char message[sizeof nx_thread_get()->message];
#pragma omp parallel for num_threads(pieces) schedule(static, 1)
    for (int p = 0; p < pieces; p++) {
        nx_thread *thread = nx_thread_get();
        thread->inside_parallel = true;
        nx_status status = body(arg, n * p / pieces, n * (p + 1) / pieces);
        thread->inside_parallel = false;
#pragma omp critical(nx_parallel_failure)
        if (status != NX_OK && first == NX_OK) {
            first = status;
            memcpy(message, thread->message, sizeof message);
        }
    }
    return first == NX_OK ? NX_OK : nx_fail(first, "%s", message);
}
