/* Which of many pieces of memory live at the same time as one more. A tree over the steps: a piece stands at the few
 * nodes whose steps together are its life. What lives at the same time as [first, last] stands at a node above
 * either end, or in a tree below the nodes that make up [first, last]. So a question costs what it finds, and a
 * logarithm. Used by plan.c alone. */
#include "engine/program.h"

typedef struct entry { int piece, next; } entry;
struct nx__alive {
    int size;                /* leaves; node n has the children 2n and 2n + 1, leaves begin at `size` */
    int *head, *below;       /* by node: its list of entries, -1; entries in the tree from it down */
    int *seen, question;     /* by piece: the last question that it answers */
    NX_VEC(entry) entries;
    uint64_t n_steps;
};

nx_status nx__alive_new(int n_steps, int n_pieces, nx__alive **out) {
    int size = 1;
    while (size < n_steps) size *= 2;
    size_t n = 2 * (size_t)size, bytes = sizeof(nx__alive) + sizeof(int) * (2 * n + (size_t)n_pieces);
    nx__alive *alive = nx_alloc_zeroed(bytes);
    if (alive == NULL) return nx_fail_memory(bytes);
    alive->size = size;
    alive->head = (int *)(alive + 1);
    alive->below = alive->head + n;
    alive->seen = alive->below + n;
    for (size_t i = 0; i < n; i++) alive->head[i] = -1;
    *out = alive;
    return NX_OK;
}

void nx__alive_free(nx__alive *alive) {
    if (alive == NULL) return;
    nx_vec_free(&alive->entries);
    nx_free(alive);
}

static nx_status add_at(nx__alive *alive, int node, int piece) {
    entry e = {piece, alive->head[node]};
    NX_TRY(nx_vec_push(&alive->entries, e));
    alive->head[node] = alive->entries.n - 1;
    for (int n = node; n > 0; n /= 2) alive->below[n]++;
    return NX_OK;
}

nx_status nx__alive_add(nx__alive *alive, int piece, int first, int last) {
    int a = first + alive->size, b = last + alive->size + 1;
    for (; a < b; a /= 2, b /= 2) {
        if (a & 1) NX_TRY(add_at(alive, a++, piece));
        if (b & 1) NX_TRY(add_at(alive, --b, piece));
    }
    return NX_OK;
}

static int take(nx__alive *alive, int node, int *found, int n) {
    for (int i = alive->head[node]; i >= 0; i = alive->entries.at[i].next) {
        int piece = alive->entries.at[i].piece;
        alive->n_steps++;
        if (alive->seen[piece] == alive->question) continue;
        alive->seen[piece] = alive->question;
        found[n++] = piece;
    }
    return n;
}

static int take_below(nx__alive *alive, int node, int *found, int n) {
    alive->n_steps++;
    if (alive->below[node] == 0) return n;
    n = take(alive, node, found, n);
    if (node >= alive->size) return n;
    n = take_below(alive, 2 * node, found, n);
    return take_below(alive, 2 * node + 1, found, n);
}

int nx__alive_find(nx__alive *alive, int first, int last, int *found) {
    int a = first + alive->size, b = last + alive->size + 1, n = 0;
    alive->question++;
    for (int node = a; node > 0; node /= 2) n = take(alive, node, found, n);
    for (int node = b - 1; node > 0; node /= 2) n = take(alive, node, found, n);
    for (; a < b; a /= 2, b /= 2) {
        if (a & 1) n = take_below(alive, a++, found, n);
        if (b & 1) n = take_below(alive, --b, found, n);
    }
    return n;
}

uint64_t nx__alive_steps(const nx__alive *alive) { return alive->n_steps; }
