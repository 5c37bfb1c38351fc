/* The caching allocator of each device: blocks of segments for storages, from what earlier ones let go where that fits.
 * Fresh memory costs a page fault for each 4 KiB, or a call of the driver; a block that serves again costs neither.
 * take: a free block of the stream's pool (pool.c), else a new segment. Before a new one is asked for, idle segments that do
 * not fit go back, oldest first, while they make up more than a part of the most that was ever in use: so sizes that change
 * at each call leave no trail. When the device refuses, all idle ones go back and it is asked again.
 * give: into the pool, at once, or when the streams recorded beside the pool's have done their work.
 * On the CPU what is smaller than LEAST_POOLED comes from the C library; a thread counts it by itself and adds it up later.
 * While a test watches (nx_alloc_watch) each storage has a segment of its own. Next: storage.c. */
#include "core/private.h"

#include <pthread.h>
#include <stdlib.h>

enum { LEAST_POOLED = 64 << 10, MAX_DEVICES = 16, LOT = 64, OFTEN = 4096 };
static const int64_t much = 256 << 10, slack = 64 << 20;

typedef struct nx__use {
    nx_stream *stream;
    void *mark;        /* NULL: not yet made */
    struct nx__use *next;
} nx__use;

typedef struct nx__allocator {
    pthread_mutex_t lock;
    nx_device device;
    const nx_memory_source *source;
    nx__pool *pools, first_pool;
    nx__segment *oldest, *newest;  /* of which nothing is in use */
    nx__block *lots;               /* the first of each lot of blocks that was made; the next one by `next` */
    nx__block *spare, *waiting;    /* waiting: given back, and recorded streams may still use it */
    size_t idle_bytes;
    nx_memory_stats stats;
} nx__allocator;

static nx__allocator *allocators[NX_MAX_DEVICE_TYPES][MAX_DEVICES];

/* ---- counting: under the lock ----------------------------------------------------------------------------- */
static void add(nx_memory_count *count, int64_t allocated, int64_t freed) {
    count->allocated += allocated;
    count->freed += freed;
    count->current += allocated - freed;
    if (count->current > count->peak) count->peak = count->current;
}

static void count(nx__allocator *a, nx_memory_row row, int kind, int64_t change) {
    int64_t allocated = change > 0 ? change : 0, freed = change < 0 ? -change : 0;
    add(&a->stats.counts[row][NX_MEMORY_ALL], allocated, freed);
    add(&a->stats.counts[row][kind], allocated, freed);
}

void nx__count_split(nx__allocator *a, const nx__block *block, int change) {
    count(a, NX_MEMORY_inactive_split, block->segment->kind, change);
    count(a, NX_MEMORY_inactive_split_bytes, block->segment->kind, change * (int64_t)block->bytes);
}

static void count_storage(nx__allocator *a, const nx__block *block, int sign) {
    int kind = block->segment->kind;
    count(a, NX_MEMORY_allocation, kind, sign);
    count(a, NX_MEMORY_allocated_bytes, kind, sign * (int64_t)block->bytes);
    count(a, NX_MEMORY_requested_bytes, kind, sign * (int64_t)block->asked);
}

static void count_active(nx__allocator *a, const nx__block *block, int sign) {
    count(a, NX_MEMORY_active, block->segment->kind, sign);
    count(a, NX_MEMORY_active_bytes, block->segment->kind, sign * (int64_t)block->bytes);
}

static void count_segment(nx__allocator *a, const nx__segment *segment, int sign) {
    count(a, NX_MEMORY_segment, segment->kind, sign);
    count(a, NX_MEMORY_reserved_bytes, segment->kind, sign * (int64_t)segment->bytes);
    if (sign > 0) a->stats.n_device_alloc++;
    else a->stats.n_device_free++;
}

/* What a thread took from the C library and gave back to it since it last said so. */
static void count_of_thread(nx__allocator *a, nx_thread *thread) {
    static const nx_memory_row numbers[] = {NX_MEMORY_allocation, NX_MEMORY_active};
    static const nx_memory_row sizes[] = {NX_MEMORY_allocated_bytes, NX_MEMORY_active_bytes, NX_MEMORY_requested_bytes};
    static const int kinds[] = {NX_MEMORY_ALL, NX_MEMORY_SMALL};
    for (int k = 0; k < NX_COUNT(kinds); k++) {
        for (int i = 0; i < NX_COUNT(numbers); i++)
            add(&a->stats.counts[numbers[i]][kinds[k]], thread->memory.n_taken, thread->memory.n_given);
        for (int i = 0; i < NX_COUNT(sizes); i++)
            add(&a->stats.counts[sizes[i]][kinds[k]], thread->memory.taken, thread->memory.given);
    }
    memset(&thread->memory, 0, sizeof thread->memory);
}

static void tell(nx_thread *thread) {
    nx__allocator *a = allocators[0][0];
    pthread_mutex_lock(&a->lock);
    count_of_thread(a, thread);
    pthread_mutex_unlock(&a->lock);
}

void nx__memory_end_thread(nx_thread *thread) { tell(thread); }

static inline void tell_often(nx_thread *thread) {
    int64_t more = thread->memory.taken - thread->memory.given;
    bool is_much = more > much || more < -much || thread->memory.n_taken + thread->memory.n_given > OFTEN;
    if (NX_UNLIKELY(is_much)) tell(thread);
}

/* ---- the CPU's segments ----------------------------------------------------------------------------------- */
static nx_status take_pages(nx_device device, nx_stream *stream, size_t bytes, void **out) {
    *out = nx_alloc_pages(bytes);
    return *out ? NX_OK : nx_fail_memory(bytes);
}
static void give_pages(nx_device device, nx_stream *stream, void *at, size_t bytes) { nx_free_pages(at, bytes); }

static const nx_memory_source cpu_source = {.take = take_pages, .give = give_pages, .populate = nx_alloc_populate};

/* ---- allocators ------------------------------------------------------------------------------------------- */
static void start(nx__allocator *a, nx_device device, const nx_memory_source *source) {
    a->device = device;
    a->source = source;
    a->pools = &a->first_pool;
    a->first_pool.owner = a;
    a->stats.limit = a->stats.cache_limit = SIZE_MAX;
    pthread_mutex_init(&a->lock, NULL);
}

/* A forked child must find no lock taken. The CPU's comes last: who holds another's may take it. Constructed before all
 * other handlers, this one locks after them, since who holds one of theirs may ask for memory. */
static void for_each_lock(int (*act)(pthread_mutex_t *)) {
    for (int type = NX_MAX_DEVICE_TYPES - 1; type >= 0; type--) {
        for (int i = MAX_DEVICES - 1; i >= 0; i--)
            if (allocators[type][i]) (void)act(&allocators[type][i]->lock);
    }
}
static void lock_all(void) { for_each_lock(pthread_mutex_lock); }
static void unlock_all(void) { for_each_lock(pthread_mutex_unlock); }

/* Of the CPU a quarter of the machine's memory, or of what the process may have, is kept idle at most. */
__attribute__((constructor(103))) static void start_cpu(void) { /* after flags.c's */
    static nx__allocator cpu;
    start(&cpu, NX_CPU, &cpu_source);
    cpu.stats.total = nx_memory_of_machine();
    if (cpu.stats.total) cpu.stats.cache_limit = cpu.stats.total / 4;
    if (nx_flag.memory_limit) cpu.stats.limit = strtoull(nx_flag.memory_limit, NULL, 10);
    if (nx_flag.memory_cache) cpu.stats.cache_limit = strtoull(nx_flag.memory_cache, NULL, 10);
    allocators[0][0] = &cpu;
    pthread_atfork(lock_all, unlock_all, unlock_all);
}

nx_status nx_memory_attach(int type, int n_devices, const nx_memory_source *source) {
    for (int i = 0; i < n_devices && i < MAX_DEVICES; i++) {
        nx__allocator *a = nx_alloc_zeroed(sizeof *a);
        if (a == NULL) {
            nx_memory_detach(type);
            return nx_fail_memory(sizeof *a);
        }
        start(a, (nx_device){(int8_t)type, (int8_t)i}, source);
        allocators[type][i] = a;
    }
    return NX_OK;
}

static nx_status find_allocator(nx_device device, nx__allocator **out) {
    bool is_possible = device.type >= 0 && device.type < NX_MAX_DEVICE_TYPES && device.index >= 0 && device.index < MAX_DEVICES;
    *out = is_possible ? allocators[device.type][device.index] : NULL;
    if (NX_LIKELY(*out != NULL)) return NX_OK;
    return nx_fail(NX_RUNTIME, "storage: device %d of type %d is not loaded", device.index, device.type);
}

static nx_stream *stream_of(const nx__allocator *a) { return a->source->stream ? a->source->stream(a->device) : NULL; }

/* The pool of a stream; one whose stream has ended serves the next, for its work is done. NULL without memory. */
static nx__pool *find_pool(nx__allocator *a, nx_stream *stream) {
    nx__pool *left = NULL, *pool = a->pools;
    for (; pool; pool = pool->next) {
        if (pool->has_stream && pool->stream == stream) return pool;
        if (!pool->has_stream) left = pool;
    }
    if (left == NULL) {
        left = nx_alloc_zeroed(sizeof *left);
        if (left == NULL) return NULL;
        left->owner = a;
        left->next = a->pools;
        a->pools = left;
    }
    left->has_stream = true;
    left->stream = stream;
    return left;
}

void nx_memory_forget_stream(nx_device device, nx_stream *stream) {
    nx__allocator *a;
    if (find_allocator(device, &a) != NX_OK) return;
    pthread_mutex_lock(&a->lock);
    for (nx__pool *pool = a->pools; pool; pool = pool->next)
        if (pool->stream == stream) pool->has_stream = false;
    pthread_mutex_unlock(&a->lock);
}

/* ---- descriptors ------------------------------------------------------------------------------------------ */
nx__block *nx__block_new(nx__allocator *a) {
    if (a->spare == NULL) {
        nx__block *lot = nx_alloc(LOT * sizeof *lot); /* stays for as long as the allocator */
        if (lot == NULL) return NULL;
        lot->next = a->lots;
        a->lots = lot;
        for (int i = 1; i < LOT; i++) nx__block_drop(a, &lot[i]);
    }
    nx__block *block = a->spare;
    a->spare = block->next;
    return block;
}

void nx__block_drop(nx__allocator *a, nx__block *block) {
    block->next = a->spare;
    a->spare = block;
}

/* ---- idle segments: under the lock ------------------------------------------------------------------------ */
static void note_idle(nx__allocator *a, nx__segment *segment) {
    segment->is_idle = true;
    segment->newer = NULL;
    segment->older = a->newest;
    if (a->newest) a->newest->newer = segment;
    else a->oldest = segment;
    a->newest = segment;
    a->idle_bytes += segment->bytes;
}

static void unnote_idle(nx__allocator *a, nx__segment *segment) {
    segment->is_idle = false;
    if (segment->older) segment->older->newer = segment->newer;
    else a->oldest = segment->newer;
    if (segment->newer) segment->newer->older = segment->older;
    else a->newest = segment->older;
    a->idle_bytes -= segment->bytes;
}

static void free_oldest(nx__allocator *a) {
    nx__segment *segment = a->oldest;
    unnote_idle(a, segment);
    nx__pool_remove(segment);
    count_segment(a, segment, -1);
    nx_stream *stream = segment->pool->has_stream ? segment->pool->stream : NULL; /* an ended one is nobody's to name */
    a->source->give(a->device, stream, segment->base, segment->bytes);
    nx_free(segment);
}

static size_t reserved_by(const nx__allocator *a) {
    return (size_t)a->stats.counts[NX_MEMORY_reserved_bytes][NX_MEMORY_ALL].current;
}

/* ---- blocks that recorded streams may still use ------------------------------------------------------------ */
/* wait: for the device, where a mark is not reached; then not under the lock, which the device's threads may need. */
static bool is_unused(nx__allocator *a, nx__block *block, bool wait) {
    while (block->uses) {
        nx__use *use = block->uses;
        if (!a->source->is_reached(a->device, use->mark, wait)) return false;
        block->uses = use->next;
        nx_free(use);
    }
    return true;
}

static void make_free(nx__allocator *a, nx__block *block) {
    count_active(a, block, -1);
    nx__segment *segment = nx__pool_give(block)->segment;
    if (!segment->first.is_free || segment->first.after) return;
    note_idle(a, segment);
    while (a->idle_bytes > a->stats.cache_limit) free_oldest(a);
}

static void look_at_waiting(nx__allocator *a) {
    for (nx__block **link = &a->waiting; *link;) {
        nx__block *block = *link;
        if (!is_unused(a, block, false)) {
            link = &block->next;
            continue;
        }
        *link = block->next;
        make_free(a, block);
    }
}

/* Opens the lock while it waits. */
static void wait_for_waiting(nx__allocator *a) {
    while (a->waiting) {
        nx__block *block = a->waiting;
        a->waiting = block->next;
        pthread_mutex_unlock(&a->lock);
        (void)is_unused(a, block, true);
        pthread_mutex_lock(&a->lock);
        make_free(a, block);
    }
}

/* ---- taking ----------------------------------------------------------------------------------------------- */
static void empty(nx__allocator *a) {
    wait_for_waiting(a);
    while (a->oldest) free_oldest(a);
}

/* Room for a segment of `bytes`, under the limit, and beside idle ones only while these are few. */
static nx_status make_room(nx__allocator *a, size_t bytes) {
    const nx_memory_count *active = &a->stats.counts[NX_MEMORY_active_bytes][NX_MEMORY_ALL];
    int64_t most = active->peak > active->current + (int64_t)bytes ? active->peak : active->current + (int64_t)bytes;
    size_t enough = (size_t)(most + most / 4 + slack);
    while (a->oldest && reserved_by(a) + bytes > enough) free_oldest(a);
    if (bytes <= a->stats.limit && reserved_by(a) <= a->stats.limit - bytes) return NX_OK;
    empty(a);
    if (bytes <= a->stats.limit && reserved_by(a) <= a->stats.limit - bytes) return NX_OK;
    return nx_fail(NX_NO_MEMORY, "out of memory. Tried to allocate %zu bytes; the limit is %zu bytes, and %zu are in use", bytes,
                   a->stats.limit, reserved_by(a));
}

static nx_status take_segment(nx__allocator *a, nx_stream *stream, size_t bytes, void **out) {
    NX_TRY(make_room(a, bytes));
    nx_status status = a->source->take(a->device, stream, bytes, out);
    if (status == NX_OK || nx_alloc_watched() || (a->oldest == NULL && a->waiting == NULL)) return status;
    empty(a);
    a->stats.n_retries++;
    return a->source->take(a->device, stream, bytes, out);
}

/* pool NULL: for one storage. The whole segment is its first block, in no list. */
static nx_status new_segment(nx__allocator *a, nx__pool *pool, nx_stream *stream, size_t bytes, int kind, nx__segment **out) {
    void *base;
    nx__segment *segment = nx_alloc(sizeof *segment);
    if (segment == NULL) return nx_fail_memory(sizeof *segment);
    nx_status status = take_segment(a, stream, bytes, &base);
    if (status != NX_OK) {
        nx_free(segment);
        return status;
    }
    *segment = (nx__segment){.first = {.data = base, .bytes = bytes, .segment = segment}, .pool = pool, .base = base,
                             .bytes = bytes, .kind = (uint8_t)kind};
    count_segment(a, segment, 1);
    *out = segment;
    return NX_OK;
}

/* A shared segment; where there is no room for one, a segment of the request alone. */
static nx_status add_segment(nx__allocator *a, nx__pool *pool, size_t room, int kind) {
    nx__segment *segment;
    size_t bytes = kind == NX__SMALL ? NX__SHARED_BYTES : room;
    nx_status status = new_segment(a, pool, pool->stream, bytes, kind, &segment);
    if (status == NX_NO_MEMORY && bytes > room) status = new_segment(a, pool, pool->stream, room, kind, &segment);
    if (status != NX_OK) return status;
    nx__pool_add(segment);
    note_idle(a, segment);
    return NX_OK;
}

static nx_status take_pooled(nx__allocator *a, nx_stream *stream, size_t bytes, nx__block **out) {
    int kind = bytes > NX__MOST_SHARED ? NX__LARGE : NX__SMALL;
    size_t room = nx__room_of(bytes, kind);
    nx__pool *pool = find_pool(a, stream);
    if (pool == NULL) return nx_fail_memory(sizeof *pool);
    if (NX_UNLIKELY(a->waiting != NULL)) look_at_waiting(a);
    *out = nx__pool_take(pool, room, kind);
    if (*out == NULL) {
        NX_TRY(add_segment(a, pool, room, kind));
        *out = nx__pool_take(pool, room, kind);
    }
    nx__segment *segment = (*out)->segment;
    if (segment->is_idle) unnote_idle(a, segment);
    return NX_OK;
}

/* A segment for one storage, given back with it. */
static nx_status take_alone(nx__allocator *a, nx_stream *stream, size_t bytes, nx__block **out) {
    nx__segment *segment;
    NX_TRY(new_segment(a, NULL, stream, bytes, NX__LARGE, &segment));
    *out = &segment->first;
    return NX_OK;
}

/* What of the block was never used before: the rest of its segment from `touched` on. */
static size_t note_touched(nx__segment *segment, const nx__block *block, char **from) {
    size_t begin = (size_t)(block->data - segment->base), end = begin + block->bytes;
    if (end <= segment->touched) return 0;
    if (begin < segment->touched) begin = segment->touched;
    segment->touched = end;
    *from = segment->base + begin;
    return end - begin;
}

static nx_status take_block(nx__allocator *a, size_t bytes, nx__block **out) {
    nx_stream *stream = stream_of(a);
    char *fresh = NULL;
    size_t fresh_bytes = 0;
    if (a->source->check) NX_TRY(a->source->check(a->device));
    pthread_mutex_lock(&a->lock);
    nx_status status = nx_alloc_watched() ? take_alone(a, stream, bytes, out) : take_pooled(a, stream, bytes, out);
    if (NX_LIKELY(status == NX_OK)) {
        nx__block *block = *out;
        block->asked = bytes;
        block->uses = NULL;
        if (block->segment->kind == NX__SMALL) fresh_bytes = note_touched(block->segment, block, &fresh);
        count_storage(a, block, 1);
        count_active(a, block, 1);
    } else {
        a->stats.n_failures++;
    }
    pthread_mutex_unlock(&a->lock);
    if (fresh_bytes && a->source->populate) a->source->populate(fresh, fresh_bytes);
    return status;
}

nx_status nx__memory_take(nx_device device, size_t bytes, void **data, nx__block **block) {
    if (bytes > PTRDIFF_MAX / 2) return nx_fail_memory(bytes);
    *block = NULL;
    if (device.type == 0 && (bytes < LEAST_POOLED || nx_alloc_watched())) {
        *data = nx_alloc(bytes);
        if (*data == NULL) return nx_fail_memory(bytes);
        nx_thread *thread = nx_thread_get();
        thread->memory.taken += (int64_t)bytes;
        thread->memory.n_taken++;
        tell_often(thread);
        return NX_OK;
    }
    nx__allocator *a;
    NX_TRY(find_allocator(device, &a));
    NX_TRY(take_block(a, bytes, block));
    *data = (*block)->data;
    return NX_OK;
}

/* ---- giving back ------------------------------------------------------------------------------------------ */
/* Marks behind the work that recorded streams were given. Where none can be made (the device is lost, the stream's own thread
 * is here), nothing of that work is left to wait for. */
static void mark_uses(nx__allocator *a, nx__block *block) {
    for (nx__use **link = &block->uses; *link;) {
        nx__use *use = *link;
        if (a->source->mark(a->device, use->stream, &use->mark) == NX_OK) {
            link = &use->next;
            continue;
        }
        *link = use->next;
        nx_free(use);
    }
}

static void give_block(nx__allocator *a, nx__block *block) {
    nx__segment *segment = block->segment;
    if (NX_UNLIKELY(block->uses != NULL)) mark_uses(a, block);
    if (NX_UNLIKELY(segment->pool == NULL)) (void)is_unused(a, block, true);
    pthread_mutex_lock(&a->lock);
    count_storage(a, block, -1);
    if (NX_UNLIKELY(block->uses != NULL)) {
        block->next = a->waiting;
        a->waiting = block;
    } else if (NX_LIKELY(segment->pool != NULL)) {
        make_free(a, block);
    } else {
        count_active(a, block, -1);
        count_segment(a, segment, -1);
        a->source->give(a->device, NULL, segment->base, segment->bytes);
        nx_free(segment);
    }
    pthread_mutex_unlock(&a->lock);
}

void nx__memory_give(nx_device device, size_t bytes, void *data, nx__block *block) {
    if (block) {
        give_block(allocators[device.type][device.index], block);
        return;
    }
    nx_free(data);
    nx_thread *thread = nx_thread_get();
    thread->memory.given += (int64_t)bytes;
    thread->memory.n_given++;
    tell_often(thread);
}

nx_status nx__memory_record_stream(nx_device device, nx__block *block, nx_stream *stream) {
    nx__allocator *a;
    NX_TRY(find_allocator(device, &a));
    if (a->source->mark == NULL) return NX_OK; /* one order of work */
    pthread_mutex_lock(&a->lock);
    bool is_known = block->segment->pool && block->segment->pool->stream == stream;
    for (const nx__use *use = block->uses; use && !is_known; use = use->next) is_known = use->stream == stream;
    nx__use *use = is_known ? NULL : nx_alloc(sizeof *use);
    if (use) {
        *use = (nx__use){.stream = stream, .next = block->uses};
        block->uses = use;
    }
    pthread_mutex_unlock(&a->lock);
    return use || is_known ? NX_OK : nx_fail_memory(sizeof *use);
}

/* ---- asking ----------------------------------------------------------------------------------------------- */
/* Locked, with what this thread has not told yet. */
static nx_status open_allocator(nx_device device, nx__allocator **out) {
    NX_TRY(find_allocator(device, out));
    pthread_mutex_lock(&(*out)->lock);
    if (device.type == 0) count_of_thread(*out, nx_thread_get());
    return NX_OK;
}

nx_status nx_memory_get_stats(nx_device device, nx_memory_stats *out) {
    nx__allocator *a;
    if (out == NULL || out->size < sizeof(size_t))
        return nx_fail(NX_VALUE, "memory: set the size to sizeof(nx_memory_stats) before the call");
    NX_TRY(open_allocator(device, &a));
    size_t size = out->size;
    memcpy(out, &a->stats, size < sizeof *out ? size : sizeof *out);
    out->size = size;
    pthread_mutex_unlock(&a->lock);
    return NX_OK;
}

static nx_status change_counts(nx_device device, bool accumulated) {
    nx__allocator *a;
    NX_TRY(open_allocator(device, &a));
    nx_memory_count *counts = &a->stats.counts[0][0];
    for (int i = 0; i < NX_N_MEMORY_ROWS * NX_N_MEMORY_KINDS; i++) {
        if (accumulated) counts[i].allocated = counts[i].freed = 0;
        else counts[i].peak = counts[i].current;
    }
    if (accumulated) a->stats.n_retries = a->stats.n_failures = a->stats.n_device_alloc = a->stats.n_device_free = 0;
    pthread_mutex_unlock(&a->lock);
    return NX_OK;
}

nx_status nx_memory_reset_peaks(nx_device device) { return change_counts(device, false); }
nx_status nx_memory_reset_accumulated(nx_device device) { return change_counts(device, true); }

nx_status nx_memory_empty_cache(nx_device device) {
    nx__allocator *a;
    NX_TRY(open_allocator(device, &a));
    empty(a);
    pthread_mutex_unlock(&a->lock);
    return NX_OK;
}

nx_status nx_memory_set_limit(nx_device device, size_t bytes) {
    nx__allocator *a;
    NX_TRY(open_allocator(device, &a));
    a->stats.limit = bytes ? bytes : SIZE_MAX;
    while (a->oldest && reserved_by(a) > a->stats.limit) free_oldest(a);
    pthread_mutex_unlock(&a->lock);
    return NX_OK;
}

void nx_memory_detach(int type) {
    for (int i = 0; i < MAX_DEVICES; i++) {
        nx__allocator *a = allocators[type][i];
        allocators[type][i] = NULL;
        if (a == NULL) continue;
        empty(a);
        for (nx__pool *pool = a->pools, *next; pool; pool = next) {
            next = pool->next;
            if (pool != &a->first_pool) nx_free(pool);
        }
        for (nx__block *lot = a->lots, *next; lot; lot = next) {
            next = lot->next;
            nx_free(lot);
        }
        pthread_mutex_destroy(&a->lock);
        nx_free(a);
    }
}
