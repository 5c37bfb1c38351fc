/* The thread-local block, status and error text.
 * One pointer of initial-exec storage per thread (the loader's surplus for late libraries is small), the rest on the
 * heap. When even that block cannot be had, a thread takes one of a few spare ones that are always there, for itself. Only when
 * those are taken, too, do threads share the last of them: then not only messages mix but also what a thread has switched (grad
 * mode, keys, autocast). The block lives until its thread ends. */
#include "base/base.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

_Thread_local nx_thread *nx__thread __attribute__((tls_model("initial-exec")));

static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;
enum { N_SPARE = 16 };
static nx_thread spare[N_SPARE];
static _Atomic int spare_users[N_SPARE];
void (*nx__thread_end)(nx_thread *thread); /* src/core empties the free lists */

/* Nothing may join its free lists, which count as full: the last one may be shared. */
nx_thread *nx__thread_spare(void) {
    static const nx_thread empty = {.n_free_tensors = INT_MAX, .n_free_whole = INT_MAX, .n_free_storages = INT_MAX,
                                    .n_free_nodes = INT_MAX, .n_free_autograds = INT_MAX};
    int at = 0, nobody = 0;
    while (at < N_SPARE - 1 && !atomic_compare_exchange_strong(&spare_users[at], &nobody, 1)) {
        nobody = 0;
        at++;
    }
    if (at < N_SPARE - 1 || atomic_fetch_add(&spare_users[at], 1) == 0) spare[at] = empty;
    return &spare[at];
}

static void free_thread(void *block) {
    nx_thread *thread = block;
    nx__thread = thread;
    if (nx__thread_end) nx__thread_end(thread);
    nx__thread = NULL;
    if (thread < spare || thread >= spare + N_SPARE) free(thread);
    else atomic_fetch_sub(&spare_users[thread - spare], 1);
}

static void make_thread_key(void) { pthread_key_create(&thread_key, free_thread); }

/* Not through nx_alloc: an allocation that a test fails must find a place for its message. */
nx_thread *nx__thread_new(void) {
    pthread_once(&thread_key_once, make_thread_key);
    nx_thread *thread = calloc(1, sizeof *thread);
    if (thread == NULL) thread = nx__thread_spare();
    pthread_setspecific(thread_key, thread);
    return nx__thread = thread;
}

const char *nx_error_message(void) {
    nx_thread *thread = nx_thread_get();
    return thread->error == NX_OK ? "" : thread->message;
}

nx_status nx_fail(nx_status code, const char *format, ...) {
    nx_thread *thread = nx_thread_get();
    char message[sizeof thread->message]; /* an argument may be the previous message */
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    memcpy(thread->message, message, sizeof message);
    thread->error = code;
    return code;
}

nx_status nx_fail_memory(size_t bytes) {
    return nx_fail(NX_NO_MEMORY, "out of memory: %zu bytes could not be allocated", bytes);
}

static const char *const status_names[NX_N_STATUS] = {
    [NX_OK] = "OK",
#define NX_ERROR_ROW(code, exception, meaning) [NX_##code] = #code,
#include "narthex/errors.def"
#undef NX_ERROR_ROW
};
const char *nx_status_name(nx_status status) {
    return status >= 0 && status < NX_N_STATUS ? status_names[status] : "UNKNOWN";
}

void *(*nx_before_block)(void);
void (*nx_after_block)(void *token);
nx_status (*nx_poll_hook)(void);

void nx_set_block_hooks(void *(*before)(void), void (*after)(void *token), nx_status (*poll)(void)) {
    nx_before_block = before;
    nx_after_block = after;
    nx_poll_hook = poll;
}

int64_t nx_thread_autocast(const nx_thread *thread) {
    uint64_t dtypes; /* one in each byte: they are moved together to four bits each */
    memcpy(&dtypes, thread->autocast_dtype, sizeof dtypes);
    dtypes = (dtypes | dtypes >> 4) & UINT64_C(0x00FF00FF00FF00FF);
    dtypes = (dtypes | dtypes >> 8) & UINT64_C(0x0000FFFF0000FFFF);
    dtypes = (dtypes | dtypes >> 16) & UINT64_C(0x00000000FFFFFFFF);
    return thread->autocast_enabled | (int64_t)(dtypes << 8);
}
_Static_assert(sizeof ((nx_thread *)0)->autocast_dtype == sizeof(uint64_t), "the state is one number");
