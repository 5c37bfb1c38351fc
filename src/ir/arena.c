/* Memory that lives as long as its graph: nodes, their argument arrays, uses and texts. Blocks grow from a
 * page to 64 KB, so that a small graph takes little and a large one few allocations; what a changed node no
 * longer needs is not given back before the graph goes. Values kept in arguments (lists, strings) and
 * tensors have owners of their own. */
#include "ir/private.h"

typedef struct block { struct block *next; size_t used, room; } block;
enum { FIRST_BYTES = 4096 - 64, MOST_BYTES = 65536 };
#define ALIGN(bytes) (((bytes) + 15) & ~(size_t)15)

void *nx__arena_new(nx_graph *graph, size_t bytes) {
    block *b = graph->arena;
    bytes = ALIGN(bytes ? bytes : 1);
    if (b == NULL || b->room - b->used < bytes) {
        size_t room = b == NULL ? FIRST_BYTES : b->room < MOST_BYTES ? 2 * b->room : MOST_BYTES;
        if (room < bytes) room = bytes;
        block *fresh = nx_alloc(ALIGN(sizeof(block)) + room);
        if (fresh == NULL) {
            nx_fail_memory(room);
            return NULL;
        }
        *fresh = (block){b, 0, room};
        graph->arena = b = fresh;
    }
    void *at = (char *)b + ALIGN(sizeof(block)) + b->used;
    b->used += bytes;
    return memset(at, 0, bytes);
}

char *nx__arena_text(nx_graph *graph, const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = nx__arena_new(graph, n);
    return copy ? memcpy(copy, text, n) : NULL;
}

void nx__arena_free(nx_graph *graph) {
    for (block *b = graph->arena, *next; b; b = next) {
        next = b->next;
        nx_free(b);
    }
    graph->arena = NULL;
}
