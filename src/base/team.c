/* The team: threads that are made once, when the first work of several pieces comes, and stay. Callers put jobs into one
 * list and take pieces of their own job until none is left; members take pieces of whatever job has some. So every caller
 * gets on by itself at least, several callers share the team, and a piece may be a caller again. A member without work
 * looks for some for SPIN nanoseconds, then it sleeps. */
#include "base/private.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { SPIN = 100000, LOOKS = 64 }; /* nanoseconds; looks between two looks at the clock */

typedef struct job {
    nx_parallel_fn *body;
    void *arg;
    int64_t n;
    int pieces, room;            /* room: for so many more members; under the lock */
    _Atomic int next, at_it;     /* the first piece that nobody has taken; members that may be at one */
    nx_status status;            /* of piece `failed`, the first one that failed; under the lock, as the message */
    int failed;
    char message[sizeof ((nx_thread *)NULL)->message];
    struct job *after;
} job;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;   /* there is a job; a job's last member has left it */
    job *first;
    int n, n_asleep, n_at_work;  /* members */
    _Atomic unsigned published;  /* how many jobs there have been */
} team = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

/* A look takes about as long as a pause of the processor then, which is another instruction on each kind of them. */
static inline void pause_briefly(void) { atomic_thread_fence(memory_order_seq_cst); }

int64_t nx_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- a job's pieces -------------------------------------------------------------------------------------------------- */
static void keep_failure(job *j, int piece, nx_status status) {
    pthread_mutex_lock(&team.lock);
    if (j->status == NX_OK || piece < j->failed) {
        j->status = status;
        j->failed = piece;
        memcpy(j->message, nx_thread_get()->message, sizeof j->message);
    }
    pthread_mutex_unlock(&team.lock);
    atomic_store(&j->next, j->pieces); /* what lies before it has been taken and will be done */
}

static void work_at(job *j) {
    int p;
    while ((p = atomic_fetch_add(&j->next, 1)) < j->pieces) {
        nx_status status = j->body(j->arg, j->n * p / j->pieces, j->n * (p + 1) / j->pieces);
        if (NX_UNLIKELY(status != NX_OK)) keep_failure(j, p, status);
    }
}

/* ---- members ------------------------------------------------------------------------------------------------------------ */
static job *find_job(void) { /* under the lock */
    for (job *j = team.first; j; j = j->after) {
        if (j->room > 0 && atomic_load(&j->next) < j->pieces) return j;
    }
    return NULL;
}

static void join_job(job *j) { /* under the lock, which it gives up meanwhile */
    j->room--;
    atomic_fetch_add(&j->at_it, 1);
    team.n_at_work++;
    pthread_mutex_unlock(&team.lock);
    work_at(j);
    pthread_mutex_lock(&team.lock);
    team.n_at_work--;
    if (atomic_fetch_sub(&j->at_it, 1) == 1) pthread_cond_broadcast(&team.done); /* j may be gone from here on */
}

/* Whether a job was published after `seen` within the time that a member looks for one. */
static bool look_for_work(unsigned seen) {
    for (int64_t end = nx_now() + SPIN; nx_now() < end;) {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&team.published, memory_order_relaxed) != seen) return true;
            pause_briefly();
        }
    }
    return false;
}

static void *be_member(void *unused) {
    nx_thread_get()->keeps_lock = true; /* it has none */
    pthread_mutex_lock(&team.lock);
    for (;;) {
        job *j = find_job();
        if (j) {
            join_job(j);
            continue;
        }
        unsigned seen = atomic_load(&team.published);
        pthread_mutex_unlock(&team.lock);
        bool found = look_for_work(seen);
        pthread_mutex_lock(&team.lock);
        if (found || atomic_load(&team.published) != seen) continue;
        team.n_asleep++;
        pthread_cond_wait(&team.work, &team.lock);
        team.n_asleep--;
    }
    return NULL;
}

/* Signals are for the program's own threads. A thread that cannot be had is done without. */
static void grow_team(int n) { /* under the lock */
    sigset_t all, kept;
    pthread_attr_t attributes;
    if (team.n >= n || pthread_attr_init(&attributes) != 0) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    pthread_t thread;
    while (team.n < n && pthread_create(&thread, &attributes, be_member, NULL) == 0) team.n++;
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    pthread_attr_destroy(&attributes);
}

/* ---- callers ------------------------------------------------------------------------------------------------------------ */
static void publish(job *j, int threads) {
    pthread_mutex_lock(&team.lock);
    grow_team(threads - 1);
    j->after = team.first;
    team.first = j;
    atomic_fetch_add(&team.published, 1);
    int looking = team.n - team.n_asleep - team.n_at_work, wanted = j->room - (looking > 0 ? looking : 0);
    if (wanted >= team.n_asleep) pthread_cond_broadcast(&team.work);
    else for (int i = 0; i < wanted; i++) pthread_cond_signal(&team.work);
    pthread_mutex_unlock(&team.lock);
}

static void withdraw(job *j) {
    pthread_mutex_lock(&team.lock);
    job **at = &team.first;
    while (*at != j) at = &(*at)->after;
    *at = j->after;
    pthread_mutex_unlock(&team.lock);
    for (int64_t end = nx_now() + SPIN; atomic_load(&j->at_it) > 0 && nx_now() < end;) {
        for (int i = 0; i < LOOKS && atomic_load(&j->at_it) > 0; i++) pause_briefly();
    }
    pthread_mutex_lock(&team.lock);
    while (atomic_load(&j->at_it) > 0) pthread_cond_wait(&team.done, &team.lock);
    pthread_mutex_unlock(&team.lock);
}

nx_status nx__team_run(int64_t n, int pieces, int threads, nx_parallel_fn *body, void *arg) {
    job j = {.body = body, .arg = arg, .n = n, .pieces = pieces, .room = (int)nx_least(pieces, threads) - 1};
    publish(&j, threads);
    work_at(&j);
    withdraw(&j);
    return j.status == NX_OK ? NX_OK : nx_fail(j.status, "%s", j.message);
}
