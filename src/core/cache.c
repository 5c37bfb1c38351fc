/* CPU memory for large storages. A freed block of at least 64 KB is kept for the next request of its size class, up to
 * a cap: fresh pages cost a fault each, which doubles the time of a simple operator on a large tensor. Blocks carry
 * their size in the 64 bytes before them. */
#include "core/private.h"

#include <pthread.h>

enum { MIN_CACHED = 64 << 10, MAX_BLOCKS = 32, HEAD = 64 };
static const size_t max_cached_bytes = (size_t)512 << 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { char *block; size_t bytes; } cached[MAX_BLOCKS];
static int n_cached;
static size_t cached_bytes;

/* Room in steps of an eighth of the next power of two, so that similar sizes meet. */
static size_t class_of(size_t bytes) {
    size_t step = (size_t)1 << 13;
    while (step * 16 < bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

static char *take_cached(size_t room) {
    char *block = NULL;
    pthread_mutex_lock(&lock);
    for (int i = n_cached - 1; i >= 0 && block == NULL; i--) {
        if (cached[i].bytes != room) continue;
        block = cached[i].block;
        cached[i] = cached[--n_cached];
        cached_bytes -= room;
    }
    pthread_mutex_unlock(&lock);
    return block;
}

static bool give_cached(char *block, size_t room) {
    pthread_mutex_lock(&lock);
    bool kept = n_cached < MAX_BLOCKS && cached_bytes + room <= max_cached_bytes;
    if (kept) {
        cached[n_cached].block = block;
        cached[n_cached++].bytes = room;
        cached_bytes += room;
    }
    pthread_mutex_unlock(&lock);
    return kept;
}

nx_status nx__cache_new(nx_device device, size_t bytes, void **out) {
    bool large = bytes >= MIN_CACHED;
    if (bytes > PTRDIFF_MAX / 2) return nx_fail_memory(bytes);
    size_t room = large ? class_of(bytes) : bytes;
    char *block = large && !nx_alloc_watched() ? take_cached(room) : NULL;
    if (block == NULL) block = nx_alloc(HEAD + room);
    if (block == NULL) return nx_fail_memory(bytes);
    *(size_t *)block = room;
    *out = block + HEAD;
    return NX_OK;
}

void nx__cache_free(nx_device device, void *data) {
    char *block = (char *)data - HEAD;
    size_t room = *(size_t *)block;
    if (room >= MIN_CACHED && !nx_alloc_watched() && give_cached(block, room)) return;
    nx_free(block);
}
