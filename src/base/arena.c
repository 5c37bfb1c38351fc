/* Arenas: memory that is freed as a whole. Blocks grow from two kilobytes to 64, so that a small owner takes little and a
 * large one few allocations. */
#include "base/private.h"

typedef struct nx_arena_block {
    struct nx_arena_block *next;
    size_t used, room;
} block;
enum { HEAD = 32, FIRST = 2048 - HEAD, MOST = 65536 };
_Static_assert(sizeof(block) <= HEAD && HEAD % 8 == 0, "what is taken begins at a multiple of 8");

static block *add_block(nx_arena *arena, size_t bytes) {
    size_t room = !arena->blocks ? FIRST : arena->blocks->room < MOST ? 2 * arena->blocks->room : MOST;
    if (room < bytes) room = bytes;
    block *fresh = nx_alloc(HEAD + room);
    if (fresh == NULL) {
        nx_fail_memory(HEAD + room);
        return NULL;
    }
    *fresh = (block){arena->blocks, 0, room};
    return arena->blocks = fresh;
}

void *nx_arena_take(nx_arena *arena, size_t bytes) {
    bytes = ((bytes ? bytes : 1) + 7) & ~(size_t)7;
    block *b = arena->blocks;
    if ((b == NULL || b->room - b->used < bytes) && (b = add_block(arena, bytes)) == NULL) return NULL;
    void *at = (char *)b + HEAD + b->used;
    b->used += bytes;
    return memset(at, 0, bytes);
}

char *nx_arena_text(nx_arena *arena, const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = nx_arena_take(arena, n);
    return copy ? memcpy(copy, text, n) : NULL;
}

void nx_arena_free(nx_arena *arena) {
    for (block *b = arena->blocks, *next; b; b = next) {
        next = b->next;
        nx_free(b);
    }
    arena->blocks = NULL;
}
