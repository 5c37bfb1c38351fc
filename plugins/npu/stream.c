/* Streams: each has a thread and a bounded queue of work that the thread does in order. Failures on the thread are kept,
 * the first one until the next wait. Idle threads and waiters spin for a moment before they sleep, so that short work
 * given back to back never pays for a wake-up.
 * Rules: `given` changes only under the lock, `done` only on the thread; a sleeper looks at them under the lock. */
#include "npu.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1024, SPIN_NS = 30000, STAGED = 256 << 10 };

struct nx_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, progress;        /* work was given; work was done */
    npu_work work[ROOM];
    _Atomic uint64_t given, done;
    _Atomic int n_waiting;                /* on progress */
    bool asleep, stop;                    /* under lock */
    nx_status error;                      /* under lock, with its text */
    char message[1024];
    _Atomic(nx_launch_list *) capture;    /* NULL: none; changes and grows under lock */
    nx_stream *next;                      /* of all streams, under streams_lock */
};

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static nx_stream *streams;

/* A mark in a stream. The event points to its latest; those who wait hold theirs. */
typedef struct mark {
    _Atomic int refs;
    _Atomic bool done;
} mark;
typedef struct event {
    mark *latest; /* NULL: never recorded */
} event;
static pthread_mutex_t marks_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t marks_changed = PTHREAD_COND_INITIALIZER;

static uint64_t now_done(nx_stream *s) { return atomic_load_explicit(&s->done, memory_order_acquire); }
static uint64_t now_given(nx_stream *s) { return atomic_load_explicit(&s->given, memory_order_acquire); }

/* Whether `count` reaches `target` while we look at it for a moment. With one processor looking only delays it. */
static bool spin(_Atomic uint64_t *count, uint64_t target) {
    static _Atomic int n_processors;
    if (atomic_load_explicit(count, memory_order_acquire) >= target) return true;
    if (n_processors == 0) n_processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (n_processors == 1) return false;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (int64_t end = now.tv_sec * INT64_C(1000000000) + now.tv_nsec + SPIN_NS;;) {
        for (int i = 0; i < 100; i++) {
            if (atomic_load_explicit(count, memory_order_acquire) >= target) return true;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec * INT64_C(1000000000) + now.tv_nsec > end) return false;
    }
}

/* ---- the thread ---------------------------------------------------------------------------------------- */

static void keep_error(nx_stream *s, nx_status status) {
    pthread_mutex_lock(&s->lock);
    if (s->error == NX_OK) {
        s->error = status;
        strncpy(s->message, nx_error_message(), sizeof s->message - 1);
    }
    pthread_mutex_unlock(&s->lock);
}

/* True when there is work, false when the stream ends. */
static bool wait_for_work(nx_stream *s, uint64_t done) {
    if (spin(&s->given, done + 1)) return true;
    pthread_mutex_lock(&s->lock);
    s->asleep = true;
    while (now_given(s) == done && !s->stop) pthread_cond_wait(&s->more, &s->lock);
    s->asleep = false;
    pthread_mutex_unlock(&s->lock);
    return now_given(s) != done;
}

static void *run_stream(void *arg) {
    nx_stream *s = arg;
    for (uint64_t done = 0; wait_for_work(s, done);) {
        npu_work *work = &s->work[done % ROOM];
        nx_status status = work->run(work);
        if (status != NX_OK) keep_error(s, status);
        atomic_store_explicit(&s->done, ++done, memory_order_release);
        /* Pairs with sleep_until: either it sees `done` or we see it waiting. */
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&s->n_waiting, memory_order_relaxed) == 0) continue;
        pthread_mutex_lock(&s->lock);
        pthread_cond_broadcast(&s->progress);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

/* Under the lock. `end`: when to give up; NULL: never. */
static void sleep_until(nx_stream *s, uint64_t target, const struct timespec *end) {
    int late = 0;
    atomic_fetch_add_explicit(&s->n_waiting, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    while (now_done(s) < target && late == 0) {
        if (end) late = pthread_cond_clockwait(&s->progress, &s->lock, CLOCK_MONOTONIC, end);
        else pthread_cond_wait(&s->progress, &s->lock);
    }
    atomic_fetch_sub_explicit(&s->n_waiting, 1, memory_order_relaxed);
}

static void wait_until(nx_stream *s, uint64_t target) {
    if (spin(&s->done, target)) return;
    pthread_mutex_lock(&s->lock);
    sleep_until(s, target, NULL);
    pthread_mutex_unlock(&s->lock);
}

nx_status npu_stream_give(nx_stream *s, npu_work work) {
    TRY(npu_check());
    pthread_mutex_lock(&s->lock);
    uint64_t given; /* read again after each sleep: another thread may have given work meanwhile */
    while ((given = now_given(s)) - now_done(s) >= ROOM) {
        if (pthread_equal(pthread_self(), s->thread)) { /* it would wait for itself */
            pthread_mutex_unlock(&s->lock);
            return nx_fail(NX_RUNTIME, "npu: a stream's own thread gives it more work than there is room for");
        }
        sleep_until(s, given - ROOM / 2, NULL);
    }
    s->work[given % ROOM] = work;
    atomic_store_explicit(&s->given, given + 1, memory_order_release);
    if (s->asleep) pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    return NX_OK;
}

/* ---- streams ------------------------------------------------------------------------------------------- */

/* Signals belong to the host's threads. */
static int start_thread(nx_stream *s) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&s->thread, NULL, run_stream, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

nx_status npu_stream_new(void *context, int index, nx_stream **out) {
    TRY(npu_check());
    npu_mark_used();
    nx_stream *s = calloc(1, sizeof *s);
    if (s == NULL) return nx_fail(NX_NO_MEMORY, "npu: no host memory for a stream");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    pthread_cond_init(&s->progress, NULL);
    int failure = start_thread(s);
    if (failure) {
        free(s);
        return nx_fail(NX_RUNTIME, "npu: no thread for a stream: %s", strerror(failure));
    }
    pthread_mutex_lock(&streams_lock);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&streams_lock);
    *out = s;
    return NX_OK;
}

static void end_thread(nx_stream *s) {
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
}

/* After a fork the thread does not exist, and the block may be in any state: it is left alone. */
void npu_stream_free(void *context, nx_stream *s) {
    if (npu_is_child()) return;
    pthread_mutex_lock(&streams_lock);
    for (nx_stream **link = &streams; *link; link = &(*link)->next) {
        if (*link != s) continue;
        *link = s->next;
        break;
    }
    pthread_mutex_unlock(&streams_lock);
    end_thread(s);
    nx_launch_list_free(s->capture);
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->progress);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The process ends: no thread may run on while libraries are taken down. */
__attribute__((destructor)) static void end_all(void) {
    for (nx_stream *s = npu_is_child() ? NULL : streams; s; s = s->next) end_thread(s);
}

void npu_wait_for_all_streams(void) {
    if (npu_is_child()) return;
    pthread_mutex_lock(&streams_lock);
    for (nx_stream *s = streams; s; s = s->next) wait_until(s, now_given(s));
    pthread_mutex_unlock(&streams_lock);
}

bool npu_stream_captures(nx_stream *s) { return s->capture != NULL; }

nx_status npu_stream_begin_capture(nx_stream *s, nx_launch_list *list) {
    nx_launch_list *other = NULL;
    pthread_mutex_lock(&s->lock);
    bool begins = atomic_compare_exchange_strong(&s->capture, &other, list);
    pthread_mutex_unlock(&s->lock);
    return begins ? NX_OK : nx_fail(NX_RUNTIME, "npu: the stream captures already");
}

nx_launch_list *npu_stream_end_capture(nx_stream *s) {
    pthread_mutex_lock(&s->lock);
    nx_launch_list *list = atomic_exchange(&s->capture, NULL);
    pthread_mutex_unlock(&s->lock);
    return list;
}

static nx_status refuse_in_capture(nx_stream *s, const char *what) {
    if (s->capture == NULL) return NX_OK;
    return nx_fail(NX_RUNTIME, "npu: %s is not permitted when the stream is capturing", what);
}

/* Waits for what was given so far, then takes the first failure since the last wait. */
static nx_status wait_and_tell(nx_stream *s) {
    char message[sizeof s->message];
    wait_until(s, now_given(s));
    pthread_mutex_lock(&s->lock);
    nx_status status = s->error;
    if (status != NX_OK) memcpy(message, s->message, sizeof message);
    s->error = NX_OK;
    pthread_mutex_unlock(&s->lock);
    TRY(npu_check());
    return status == NX_OK ? NX_OK : nx_fail(status, "%s", message);
}

nx_status npu_stream_synchronize(void *context, nx_stream *s) {
    if (npu_is_child()) return npu_check();
    TRY(refuse_in_capture(s, "synchronize"));
    return wait_and_tell(s);
}

nx_status npu_stream_wait(void *context, nx_stream *s, int64_t microseconds, bool *done) {
    if (npu_is_child()) return npu_check();
    uint64_t target = now_given(s);
    if (!spin(&s->done, target)) {
        struct timespec end;
        clock_gettime(CLOCK_MONOTONIC, &end);
        int64_t ns = end.tv_nsec + 1000 * microseconds;
        end.tv_sec += ns / 1000000000;
        end.tv_nsec = ns % 1000000000;
        pthread_mutex_lock(&s->lock);
        sleep_until(s, target, &end);
        pthread_mutex_unlock(&s->lock);
    }
    *done = now_done(s) >= target;
    return NX_OK;
}

/* ---- launches ------------------------------------------------------------------------------------------ */

static nx_status run_launch(npu_work *work) {
    nx_launch *launch = work->a;
    nx_status status = npu_check();
    if (status == NX_OK) status = nx_launch_run(launch);
    nx_launch_free(launch);
    return status;
}

/* The kernel runs on a thread of the device: it gets reachable addresses. */
static void translate(nx_launch *launch) {
    for (int k = 0; k < launch->n_arrays; k++) {
        nx_array *a = &launch->arrays[k];
        if (npu_is_device(a->data, 0)) a->data = npu_reachable(a->data);
    }
}

static nx_status record(nx_stream *s, nx_launch *launch, bool *recorded) {
    pthread_mutex_lock(&s->lock);
    *recorded = s->capture != NULL;
    nx_status status = *recorded ? nx_launch_list_append(s->capture, launch) : NX_OK;
    pthread_mutex_unlock(&s->lock);
    return status;
}

nx_status npu_launch(void *context, nx_stream *s, nx_launch *launch) {
    translate(launch);
    bool recorded = false;
    if (s->capture) {
        nx_status status = record(s, launch, &recorded);
        if (recorded) return status;
    }
    nx_status status = npu_stream_give(s, (npu_work){.run = run_launch, .a = launch});
    if (status != NX_OK) nx_launch_free(launch);
    return status;
}

/* ---- copies -------------------------------------------------------------------------------------------- */

static nx_status check_range(const char *what, const void *at, size_t bytes) {
    if (npu_is_device(at, bytes)) return NX_OK;
    return nx_fail(NX_RUNTIME, "npu: %s: %zu bytes at %p are not device memory", what, bytes, at);
}

static void copy(void *to, const void *from, size_t bytes) {
    int64_t us = npu_slow_copy_us();
    if (us > 0) {
        struct timespec time = {us / 1000000, us % 1000000 * 1000};
        nanosleep(&time, NULL);
    }
    memmove(to, from, bytes);
}

static nx_status run_copy(npu_work *work) {
    nx_status status = npu_check();
    if (status == NX_OK) copy(work->a, work->b, work->bytes);
    free(work->c); /* the staged elements */
    return status;
}

nx_status npu_copy_in(void *context, nx_stream *s, void *to, const void *from, size_t bytes) {
    TRY(npu_check());
    TRY(refuse_in_capture(s, "a copy from the host"));
    TRY(check_range("copy_in", to, bytes));
    npu_work work = {.run = run_copy, .a = npu_reachable(to), .b = (void *)from, .bytes = bytes};
    if (now_done(s) == now_given(s)) {
        copy(work.a, from, bytes); /* nothing is before it */
        return NX_OK;
    }
    if (bytes <= STAGED && (work.c = malloc(bytes)) != NULL) work.b = memcpy(work.c, from, bytes);
    nx_status status = npu_stream_give(s, work);
    if (status == NX_OK && work.c == NULL) wait_until(s, now_given(s));
    if (status != NX_OK) free(work.c);
    return status;
}

nx_status npu_copy_out(void *context, nx_stream *s, void *to, const void *from, size_t bytes) {
    TRY(npu_check());
    TRY(refuse_in_capture(s, "a copy to the host"));
    TRY(check_range("copy_out", from, bytes));
    TRY(wait_and_tell(s));
    copy(to, npu_reachable(from), bytes);
    return NX_OK;
}

nx_status npu_copy_within(void *context, nx_stream *s, void *to, const void *from, size_t bytes) {
    TRY(refuse_in_capture(s, "a copy that is not an operator"));
    TRY(check_range("copy_within", to, bytes));
    TRY(check_range("copy_within", from, bytes));
    return npu_stream_give(
        s, (npu_work){.run = run_copy, .a = npu_reachable(to), .b = npu_reachable(from), .bytes = bytes});
}

/* ---- events -------------------------------------------------------------------------------------------- */

static void drop_mark(mark *m) {
    if (m && atomic_fetch_sub(&m->refs, 1) == 1) free(m);
}

static void wait_for_mark(mark *m) {
    pthread_mutex_lock(&marks_lock);
    while (!atomic_load(&m->done)) pthread_cond_wait(&marks_changed, &marks_lock);
    pthread_mutex_unlock(&marks_lock);
}

static mark *take_latest(event *e) {
    pthread_mutex_lock(&marks_lock);
    mark *m = e->latest;
    if (m) atomic_fetch_add(&m->refs, 1);
    pthread_mutex_unlock(&marks_lock);
    return m;
}

static nx_status run_record(npu_work *work) {
    mark *m = work->a;
    pthread_mutex_lock(&marks_lock);
    atomic_store(&m->done, true);
    pthread_cond_broadcast(&marks_changed);
    pthread_mutex_unlock(&marks_lock);
    drop_mark(m);
    return NX_OK;
}

static nx_status run_wait(npu_work *work) {
    wait_for_mark(work->a);
    drop_mark(work->a);
    return NX_OK;
}

nx_status npu_event_new(void *context, int index, void **out) {
    event *e = calloc(1, sizeof *e);
    if (e == NULL) return nx_fail(NX_NO_MEMORY, "npu: no host memory for an event");
    *out = e;
    return NX_OK;
}

void npu_event_free(void *context, void *at) {
    event *e = at;
    if (e == NULL || npu_is_child()) return;
    drop_mark(e->latest);
    free(e);
}

nx_status npu_event_record(void *context, void *at, nx_stream *s) {
    event *e = at;
    TRY(refuse_in_capture(s, "an event"));
    mark *m = calloc(1, sizeof *m);
    if (m == NULL) return nx_fail(NX_NO_MEMORY, "npu: no host memory for an event");
    m->refs = 2; /* the stream's and the event's */
    nx_status status = npu_stream_give(s, (npu_work){.run = run_record, .a = m});
    if (status != NX_OK) {
        free(m);
        return status;
    }
    pthread_mutex_lock(&marks_lock);
    mark *before = e->latest;
    e->latest = m;
    pthread_mutex_unlock(&marks_lock);
    drop_mark(before);
    return NX_OK;
}

nx_status npu_event_wait(void *context, void *at, nx_stream *s) {
    TRY(refuse_in_capture(s, "an event"));
    mark *m = take_latest(at);
    if (m == NULL) return NX_OK;
    nx_status status = npu_stream_give(s, (npu_work){.run = run_wait, .a = m});
    if (status != NX_OK) drop_mark(m);
    return status;
}

nx_status npu_event_query(void *context, void *at, bool *reached) {
    TRY(npu_check());
    mark *m = take_latest(at);
    *reached = m == NULL || atomic_load_explicit(&m->done, memory_order_acquire);
    drop_mark(m);
    return NX_OK;
}

nx_status npu_event_synchronize(void *context, void *at) {
    TRY(npu_check());
    mark *m = take_latest(at);
    if (m == NULL) return NX_OK;
    wait_for_mark(m);
    drop_mark(m);
    return NX_OK;
}
