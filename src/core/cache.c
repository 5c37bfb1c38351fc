/* CPU memory for large storages. Fresh pages cost a fault each, which doubles the time of a simple operator on a large
 * tensor, so freed blocks serve again: those of middle size are pieces of a pool (pool.c), and larger ones are kept for
 * the next request of their size class, up to a cap. A block has a head in the 64 bytes before what the caller gets. */
#include "core/private.h"

#include <pthread.h>

enum { MOST_PIECE = 12 << 20, MAX_BLOCKS = 32 };
static const size_t max_cached_bytes = (size_t)512 << 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nx__piece *cached[MAX_BLOCKS];
static int n_cached;
static size_t cached_bytes;

/* Room in steps of an eighth of the next power of two, so that similar sizes meet. */
static size_t class_of(size_t bytes) {
    size_t step = (size_t)1 << 13;
    while (step * 16 < bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

static nx__piece *take_cached(size_t room) {
    nx__piece *block = NULL;
    pthread_mutex_lock(&lock);
    for (int i = n_cached - 1; i >= 0 && block == NULL; i--) {
        if (cached[i]->room != room) continue;
        block = cached[i];
        cached[i] = cached[--n_cached];
        cached_bytes -= room;
    }
    pthread_mutex_unlock(&lock);
    return block;
}

static bool give_cached(nx__piece *block) {
    pthread_mutex_lock(&lock);
    bool kept = n_cached < MAX_BLOCKS && cached_bytes + block->room <= max_cached_bytes;
    if (kept) {
        cached[n_cached++] = block;
        cached_bytes += block->room;
    }
    pthread_mutex_unlock(&lock);
    return kept;
}

nx_status nx__cache_new(nx_device device, size_t bytes, void **out) {
    if (bytes > PTRDIFF_MAX / 2) return nx_fail_memory(bytes);
    bool kept = bytes >= NX__LEAST_PIECE && !nx_alloc_watched();
    size_t room = bytes >= NX__LEAST_PIECE ? class_of(bytes) : bytes;
    nx__piece *block = NULL;
    if (kept) block = room > MOST_PIECE ? take_cached(room) : nx__pool_take(room);
    if (block == NULL) {
        block = nx_alloc(sizeof *block + room);
        if (block == NULL) return nx_fail_memory(bytes);
        *block = (nx__piece){.room = room};
    }
    *out = block + 1;
    return NX_OK;
}

void nx__cache_free(nx_device device, void *data) {
    nx__piece *block = (nx__piece *)data - 1;
    if (block->is_pooled) nx__pool_give(block);
    else if (block->room <= MOST_PIECE || nx_alloc_watched() || !give_cached(block)) nx_free(block);
}
