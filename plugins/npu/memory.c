/* Device memory. One reservation of address space without access rights is what the host sees; a second mapping of the
 * same pages, readable and writable, is what the device's threads see. The allocator cuts the reservation into blocks:
 * free blocks wait in lists by size class (four to a power of two, a bit map finds the next filled one), neighbours that
 * are free are joined. What it knows about blocks lies outside of them, so that no kernel can damage it. */
#include "npu.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { UNIT = 64, N_CLASSES = 256, N_BUCKETS = 1 << 12 };

typedef struct block {
    size_t at, bytes;                 /* offset in the reservation */
    bool used;
    struct block *previous, *next;    /* by address */
    struct block *before, *after;     /* in the list of its class, when free; `after` in the spare list */
    struct block *chain;              /* in its bucket, when used */
} block;

static struct {
    pthread_mutex_t lock;
    bool mapped;
    char *base;                       /* the reservation */
    ptrdiff_t shift;                  /* device address + shift = reachable address */
    size_t room, limit, in_use;
    int64_t until_failure;
    block *class[N_CLASSES];
    uint64_t filled[N_CLASSES / 64];
    block *bucket[N_BUCKETS];
    block *spare;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- classes ------------------------------------------------------------------------------------------- */

/* The class of blocks with at least this many units, rounded down; four classes to a power of two. */
static int class_below(size_t bytes) {
    size_t units = bytes / UNIT;
    int log = 63 - __builtin_clzll(units);
    return log < 2 ? (int)units - 1 : 4 * log - 4 + (int)(units >> (log - 2)) - 1;
}

/* The first class all of whose blocks have at least `bytes`. */
static int class_above(size_t bytes) {
    size_t units = bytes / UNIT;
    int log = 63 - __builtin_clzll(units);
    return log < 2 ? (int)units - 1 : class_below(bytes + (((size_t)1 << (log - 2)) - 1) * UNIT);
}

static void list_free(block *b) {
    int c = class_below(b->bytes);
    b->before = NULL;
    b->after = memory.class[c];
    if (b->after) b->after->before = b;
    memory.class[c] = b;
    memory.filled[c / 64] |= UINT64_C(1) << c % 64;
}

static void unlist_free(block *b) {
    int c = class_below(b->bytes);
    if (b->before) b->before->after = b->after;
    else memory.class[c] = b->after;
    if (b->after) b->after->before = b->before;
    if (memory.class[c] == NULL) memory.filled[c / 64] &= ~(UINT64_C(1) << c % 64);
}

static block *find_free(size_t bytes) {
    for (int c = class_above(bytes), w = c / 64; w < N_CLASSES / 64; w++, c = 64 * w) {
        uint64_t bits = memory.filled[w] & ~UINT64_C(0) << c % 64;
        if (bits) return memory.class[64 * w + __builtin_ctzll(bits)];
    }
    /* A block of the same class may still be large enough. */
    for (block *b = memory.class[class_below(bytes)]; b; b = b->after) {
        if (b->bytes >= bytes) return b;
    }
    return NULL;
}

/* ---- what is known about blocks ------------------------------------------------------------------------ */

static block **bucket_of(size_t at) {
    return &memory.bucket[(at / UNIT * UINT64_C(0x9E3779B97F4A7C15)) >> 52];
}

static block *new_block(void) {
    enum { LOT = 64 };
    if (memory.spare == NULL) {
        block *lot = calloc(LOT, sizeof *lot);
        for (int i = 0; lot && i < LOT; i++) {
            lot[i].after = memory.spare;
            memory.spare = &lot[i];
        }
    }
    block *b = memory.spare;
    if (b) memory.spare = b->after;
    return b;
}

static void drop_block(block *b) {
    b->after = memory.spare;
    memory.spare = b;
}

/* Cuts what is more than `bytes` off a block into a free one of its own. Without memory for that the block stays long. */
static void split(block *b, size_t bytes) {
    block *rest = b->bytes > bytes ? new_block() : NULL;
    if (rest == NULL) return;
    *rest = (block){.at = b->at + bytes, .bytes = b->bytes - bytes, .previous = b, .next = b->next};
    if (b->next) b->next->previous = rest;
    b->next = rest;
    b->bytes = bytes;
    list_free(rest);
}

/* Joins the free block `b` with its free successor. */
static void join(block *b, block *next) {
    b->bytes += next->bytes;
    b->next = next->next;
    if (b->next) b->next->previous = b;
    drop_block(next);
}

/* ---- the reservation ----------------------------------------------------------------------------------- */

/* Both mappings of `room` bytes; false leaves nothing behind. */
static bool map(size_t room) {
    int file = memfd_create("npu memory", MFD_CLOEXEC);
    if (file < 0) return false;
    char *base = MAP_FAILED, *reach = MAP_FAILED;
    if (ftruncate(file, (off_t)room) == 0) {
        base = mmap(NULL, room, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
        reach = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    }
    close(file); /* the mappings keep the pages */
    if (base != MAP_FAILED && reach != MAP_FAILED) {
        madvise(reach, room, MADV_DONTFORK); /* a child has no device */
        memory.base = base;
        memory.shift = reach - base;
        memory.room = room;
        return true;
    }
    if (base != MAP_FAILED) munmap(base, room);
    if (reach != MAP_FAILED) munmap(reach, room);
    return false;
}

/* 64 GiB of address space, less where the system allows less; the limit is three quarters of the machine's memory. */
static nx_status start(void) {
    block *all = new_block();
    if (all == NULL) return nx_fail(NX_NO_MEMORY, "npu: no host memory for the allocator");
    size_t room = (size_t)64 << 30;
    while (!map(room)) {
        room /= 2;
        if (room >= (size_t)64 << 20) continue;
        drop_block(all);
        return nx_fail(NX_NO_MEMORY, "npu: no address space for device memory");
    }
    size_t physical = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (memory.limit == 0) memory.limit = physical / 4 * 3;
    if (memory.limit > memory.room) memory.limit = memory.room;
    *all = (block){.bytes = memory.room};
    list_free(all);
    memory.mapped = true;
    return NX_OK;
}

bool npu_is_device(const void *at, size_t bytes) {
    size_t offset = (size_t)((const char *)at - memory.base);
    return memory.base && offset < memory.room && bytes <= memory.room - offset;
}

void *npu_reachable(const void *device_address) { return (char *)device_address + memory.shift; }

/* ---- allocation ---------------------------------------------------------------------------------------- */

static nx_status fail_full(size_t bytes, const char *why) {
    return nx_fail(NX_NO_MEMORY,
                   "npu out of memory. Tried to allocate %zu bytes; %zu of %zu bytes are in use%s", bytes,
                   memory.in_use, memory.limit, why);
}

static nx_status take(size_t bytes, void **out) {
    if (!memory.mapped) TRY(start());
    if (memory.until_failure > 0 && --memory.until_failure == 0)
        return fail_full(bytes, " (a failure that was asked for)");
    if (bytes > memory.limit) return fail_full(bytes, "");
    size_t rounded = bytes ? (bytes + UNIT - 1) / UNIT * UNIT : UNIT;
    block *b = memory.in_use + rounded <= memory.limit ? find_free(rounded) : NULL;
    if (b == NULL) return fail_full(bytes, "");
    unlist_free(b);
    split(b, rounded);
    b->used = true;
    block **bucket = bucket_of(b->at);
    b->chain = *bucket;
    *bucket = b;
    memory.in_use += b->bytes;
    *out = memory.base + b->at;
    return NX_OK;
}

nx_status npu_memory_alloc(void *context, int index, nx_stream *stream, size_t bytes, void **out) {
    TRY(npu_check());
    npu_mark_used();
    pthread_mutex_lock(&memory.lock);
    nx_status status = take(bytes, out);
    pthread_mutex_unlock(&memory.lock);
    return status;
}

static block *find_used(size_t at) {
    block **link = bucket_of(at);
    while (*link && (*link)->at != at) link = &(*link)->chain;
    block *b = *link;
    if (b) *link = b->chain;
    return b;
}

/* After a fork the child drops its tensors like any other; the memory is the parent's. */
void npu_memory_free(void *context, int index, nx_stream *stream, void *at) {
    if (at == NULL || npu_is_child()) return;
    pthread_mutex_lock(&memory.lock);
    block *b = find_used((size_t)((char *)at - memory.base));
    if (b) {
        memory.in_use -= b->bytes;
        b->used = false;
        if (b->next && !b->next->used) {
            unlist_free(b->next);
            join(b, b->next);
        }
        if (b->previous && !b->previous->used) {
            b = b->previous;
            unlist_free(b);
            join(b, b->next);
        }
        list_free(b);
    }
    pthread_mutex_unlock(&memory.lock);
}

void npu_memory_fail_at(int64_t n) {
    pthread_mutex_lock(&memory.lock);
    memory.until_failure = n;
    pthread_mutex_unlock(&memory.lock);
}

nx_status npu_memory_set_limit(size_t bytes) {
    pthread_mutex_lock(&memory.lock);
    nx_status status = memory.mapped ? NX_OK : start();
    if (status == NX_OK) memory.limit = bytes && bytes < memory.room ? bytes : memory.room;
    pthread_mutex_unlock(&memory.lock);
    return status;
}

nx_status npu_memory_info(void *context, int index, size_t *free_bytes, size_t *total_bytes) {
    pthread_mutex_lock(&memory.lock);
    nx_status status = memory.mapped ? NX_OK : start();
    *total_bytes = memory.limit;
    *free_bytes = memory.limit > memory.in_use ? memory.limit - memory.in_use : 0;
    pthread_mutex_unlock(&memory.lock);
    return status;
}

nx_status npu_memory_check(void *context, int index) { return npu_check(); }
