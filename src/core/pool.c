/* CPU memory for storages of middle size: pieces of chunks. A fresh page costs a fault, and the first run of a small
 * model's training step touched ten thousand, a third of its time. So what one storage no longer needs serves the next
 * of any size, and what was never used is brought in by one call for each piece.
 * In: room, which cache.c has rounded up to a class. Out: a piece, whose head stands before what the caller gets.
 * Free pieces lie in lists by size: each of bin b is large enough for what is asked of bins up to b.
 * Holds: `before` and `after` are a piece's neighbours in its chunk; no two free ones touch. The tail, what was never
 * used of the newest chunk, is not free and in no list. A chunk of which nothing is in use is kept, up to a cap. */
#include "core/private.h"

#include <pthread.h>

enum { N_BINS = 64, CHUNK_BYTES = 32 << 20, MOST_IDLE = 256 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nx__piece *bins[N_BINS], *tail;
static uint64_t filled;   /* bit b: bins[b] is not empty */
static size_t idle_bytes; /* of chunks of which nothing is in use */

/* Eight bins for each power of two, the first begins at NX__LEAST_PIECE; the last has all that is larger. */
static int bin_of(size_t room) {
    size_t step = NX__LEAST_PIECE / 8;
    int bin = 0;
    for (; step * 16 <= room; step *= 2) bin += 8;
    bin += (int)(room / step) - 8;
    return bin < N_BINS ? bin : N_BINS - 1;
}

static void list(nx__piece *piece) {
    int bin = bin_of(piece->room);
    piece->is_free = true;
    piece->previous = NULL;
    piece->next = bins[bin];
    if (piece->next) piece->next->previous = piece;
    bins[bin] = piece;
    filled |= (uint64_t)1 << bin;
}

static void unlist(nx__piece *piece) {
    int bin = bin_of(piece->room);
    if (piece->previous) piece->previous->next = piece->next;
    else bins[bin] = piece->next;
    if (piece->next) piece->next->previous = piece->previous;
    if (bins[bin] == NULL) filled &= ~((uint64_t)1 << bin);
    piece->is_free = false;
}

/* What a request leaves of a piece, if it can serve another. */
static nx__piece *split(nx__piece *piece, size_t room) {
    if (piece->room < room + sizeof *piece + NX__LEAST_PIECE) return NULL;
    nx__piece *rest = (nx__piece *)(piece->data + room);
    *rest = (nx__piece){.room = piece->room - room - sizeof *rest, .before = piece, .after = piece->after,
                        .is_pooled = true};
    if (rest->after) rest->after->before = rest;
    piece->after = rest;
    piece->room = room;
    return rest;
}

/* Joins two that touch. */
static void join(nx__piece *piece, const nx__piece *after) {
    piece->room += sizeof *after + after->room;
    piece->after = after->after;
    if (piece->after) piece->after->before = piece;
}

/* Lists a piece that is no longer used, joined with what is free around it. */
static nx__piece *list_joined(nx__piece *piece) {
    nx__piece *after = piece->after, *before = piece->before;
    if (after && after->is_free) {
        unlist(after);
        join(piece, after);
    }
    if (before && before->is_free) {
        unlist(before);
        join(before, piece);
        piece = before;
    }
    list(piece);
    return piece;
}

/* Whether nothing of the chunk is in use, from a free piece of it. */
static bool is_idle(const nx__piece *piece) {
    return piece->is_free && piece->before == NULL && (piece->after == NULL || piece->after == tail);
}

static nx__piece *take_listed(size_t room) {
    uint64_t enough = filled & ~(uint64_t)0 << bin_of(room);
    if (enough == 0) return NULL;
    nx__piece *piece = bins[__builtin_ctzll(enough)];
    if (is_idle(piece)) idle_bytes -= CHUNK_BYTES;
    unlist(piece);
    nx__piece *rest = split(piece, room);
    if (rest) list(rest);
    return piece;
}

static nx__piece *take_from_tail(size_t room) {
    nx__piece *piece = tail;
    if (piece == NULL || piece->room < room) {
        piece = nx_alloc(CHUNK_BYTES);
        if (piece == NULL) return NULL;
        *piece = (nx__piece){.room = CHUNK_BYTES - sizeof *piece, .is_pooled = true};
        if (tail) list_joined(tail);
    } else if (piece->before && is_idle(piece->before)) {
        idle_bytes -= CHUNK_BYTES;
    }
    tail = split(piece, room);
    return piece;
}

nx__piece *nx__pool_take(size_t room) {
    pthread_mutex_lock(&lock);
    nx__piece *piece = take_listed(room);
    bool fresh = piece == NULL;
    if (fresh) piece = take_from_tail(room);
    pthread_mutex_unlock(&lock);
    if (fresh && piece) nx_alloc_populate(piece, sizeof *piece + room);
    return piece;
}

void nx__pool_give(nx__piece *piece) {
    pthread_mutex_lock(&lock);
    piece = list_joined(piece);
    bool kept = true;
    if (is_idle(piece)) {
        kept = idle_bytes + CHUNK_BYTES <= MOST_IDLE;
        if (kept) idle_bytes += CHUNK_BYTES;
        else unlist(piece);
        if (!kept && piece->after) tail = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (!kept) nx_free(piece);
}
