/* The pool without OpenMP, for the thread sanitizer, which does not see how libgomp's threads wait for each other and
 * reports races that are none. A thread a piece, made for the call: slow and simple. A piece for which there is no
 * thread runs on the caller's. */
#include "base/base.h"

#include <pthread.h>
#include <unistd.h>

enum { MOST = 64 };
typedef struct piece {
    nx_parallel_fn *body;
    void *arg;
    int64_t begin, end;
    nx_status status;
    char message[sizeof(((nx_thread *)NULL)->message)];
    pthread_t thread;
    bool has_thread;
} piece;

int nx__pool_threads(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

static void *run_piece(void *at) {
    piece *p = at;
    nx_thread *thread = nx_thread_get();
    thread->inside_parallel = true;
    p->status = p->body(p->arg, p->begin, p->end);
    thread->inside_parallel = false;
    if (p->status != NX_OK) memcpy(p->message, thread->message, sizeof p->message);
    return NULL;
}

nx_status nx__pool_run(int64_t n, int pieces, nx_parallel_fn *body, void *arg) {
    piece *all = nx_alloc_zeroed(sizeof *all * (size_t)pieces);
    if (all == NULL) return nx_fail_memory(sizeof *all * (size_t)pieces);
    for (int i = 0; i < pieces; i++) {
        all[i].body = body;
        all[i].arg = arg;
        all[i].begin = n * i / pieces;
        all[i].end = n * (i + 1) / pieces;
        if (i > 0) all[i].has_thread = pthread_create(&all[i].thread, NULL, run_piece, &all[i]) == 0;
    }
    for (int i = 0; i < pieces; i++) {
        if (all[i].has_thread) pthread_join(all[i].thread, NULL);
        else run_piece(&all[i]);
    }
    nx_status status = NX_OK;
    for (int i = 0; i < pieces && status == NX_OK; i++) {
        if (all[i].status != NX_OK) status = nx_fail(all[i].status, "%s", all[i].message);
    }
    nx_free(all);
    return status;
}
