/* What one stream may use again: free blocks of segments, by size. One function finds a block, cuts off what is not needed
 * and leaves the rest free; the other joins what comes back with its free neighbours.
 * In: rooms that nx__room_of() has rounded. Small ones share segments and have exactly the room of a class, so that every
 * block of that class or a later one fits; large ones are cut from segments that were made for one request.
 * Holds: under the allocator's lock; `before` and `after` of a block are its neighbours in the segment; no two free ones
 * touch; a bit of `filled` is set when its list is not empty. Next: memory.c. */
#include "core/private.h"

enum { TRIED = 16 }; /* blocks of a large room's own class, which may be too small */

static const size_t least_rest[NX_N_MEMORY_KINDS] = {[NX__LARGE] = NX__MOST_SHARED, [NX__SMALL] = NX__BLOCK_UNIT};

size_t nx__room_of(size_t bytes, int kind) {
    size_t step = NX__BLOCK_UNIT;
    if (kind == NX__LARGE) step = NX__OWN_STEP;
    else while (step * 16 <= bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

/* The class with the longest room that is not longer than `bytes`: eight for each power of two. */
static int class_of(size_t bytes) {
    size_t units = bytes / NX__BLOCK_UNIT;
    int log = 63 - __builtin_clzll(units);
    if (log < 3) return (int)units - 1;
    int class = 8 * (log - 3) + (int)(units >> (log - 3)) - 1;
    return class < NX__N_CLASSES ? class : NX__N_CLASSES - 1;
}

static nx__classes *classes_of(const nx__block *block) { return &block->segment->pool->kinds[block->segment->kind]; }

static bool is_whole(const nx__block *block) { return block->before == NULL && block->after == NULL; }

static void list(nx__block *block) {
    nx__classes *classes = classes_of(block);
    int class = class_of(block->bytes);
    block->is_free = true;
    block->previous = NULL;
    block->next = classes->list[class];
    if (block->next) block->next->previous = block;
    classes->list[class] = block;
    classes->filled[class / 64] |= UINT64_C(1) << class % 64;
    if (!is_whole(block)) nx__count_split(block->segment->pool->owner, block, 1);
}

static void unlist(nx__block *block) {
    nx__classes *classes = classes_of(block);
    int class = class_of(block->bytes);
    if (block->previous) block->previous->next = block->next;
    else classes->list[class] = block->next;
    if (block->next) block->next->previous = block->previous;
    if (classes->list[class] == NULL) classes->filled[class / 64] &= ~(UINT64_C(1) << class % 64);
    block->is_free = false;
    if (!is_whole(block)) nx__count_split(block->segment->pool->owner, block, -1);
}

static nx__block *find(const nx__classes *classes, size_t room) {
    int class = class_of(room), tried = 0;
    for (nx__block *block = classes->list[class]; block && tried < TRIED; block = block->next, tried++) {
        if (block->bytes >= room) return block;
    }
    for (int word = ++class / 64; word < NX__N_CLASSES / 64; word++, class = 64 * word) {
        uint64_t larger = classes->filled[word] & ~UINT64_C(0) << class % 64;
        if (larger) return classes->list[64 * word + __builtin_ctzll(larger)];
    }
    return NULL;
}

/* What a request leaves of a block becomes free, if it can serve another. Without memory for that the block stays long. */
static void split(nx__block *block, size_t room) {
    nx__segment *segment = block->segment;
    if (block->bytes < room + least_rest[segment->kind]) return;
    nx__block *rest = nx__block_new(segment->pool->owner);
    if (rest == NULL) return;
    *rest = (nx__block){.data = block->data + room, .bytes = block->bytes - room, .segment = segment,
                        .before = block, .after = block->after};
    if (rest->after) rest->after->before = rest;
    block->after = rest;
    block->bytes = room;
    list(rest);
}

/* `after` goes: it touches `block`, and neither is in a list. */
static void join(nx__block *block, nx__block *after) {
    block->bytes += after->bytes;
    block->after = after->after;
    if (block->after) block->after->before = block;
    nx__block_drop(block->segment->pool->owner, after);
}

nx__block *nx__pool_take(nx__pool *pool, size_t room, int kind) {
    nx__block *block = find(&pool->kinds[kind], room);
    if (block == NULL) return NULL;
    unlist(block);
    split(block, room);
    return block;
}

nx__block *nx__pool_give(nx__block *block) {
    nx__block *after = block->after, *before = block->before;
    if (after && after->is_free) {
        unlist(after);
        join(block, after);
    }
    if (before && before->is_free) {
        unlist(before);
        join(before, block);
        block = before;
    }
    list(block);
    return block;
}

void nx__pool_add(nx__segment *segment) { list(&segment->first); }
void nx__pool_remove(nx__segment *segment) { unlist(&segment->first); }
