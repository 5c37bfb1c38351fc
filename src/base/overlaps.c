/* Which of many intervals of whole numbers overlap one more. A tree over the numbers: an interval stands at the few nodes
 * whose numbers together are it. What overlaps [first, last] stands at a node above either end, or in a tree below the nodes
 * that make up [first, last]. So a question costs what it finds, and a logarithm. */
#include "base/base.h"

typedef struct entry { int interval, next; } entry;
struct nx_overlaps {
    int size;                /* leaves; node n has the children 2n and 2n + 1, leaves begin at `size` */
    int *head, *below;       /* by node: its list of entries, -1; entries in the tree from it down */
    int *seen, question;     /* by interval: the last question that it answers */
    NX_VEC(entry) entries;
    uint64_t n_steps;
};

nx_status nx_overlaps_new(int n_steps, int n_intervals, nx_overlaps **out) {
    int size = 1;
    while (size < n_steps) size *= 2;
    size_t n = 2 * (size_t)size, bytes = sizeof(nx_overlaps) + sizeof(int) * (2 * n + (size_t)n_intervals);
    nx_overlaps *overlaps = nx_alloc_zeroed(bytes);
    if (overlaps == NULL) return nx_fail_memory(bytes);
    overlaps->size = size;
    overlaps->head = (int *)(overlaps + 1);
    overlaps->below = overlaps->head + n;
    overlaps->seen = overlaps->below + n;
    for (size_t i = 0; i < n; i++) overlaps->head[i] = -1;
    *out = overlaps;
    return NX_OK;
}

void nx_overlaps_free(nx_overlaps *overlaps) {
    if (overlaps == NULL) return;
    nx_vec_free(&overlaps->entries);
    nx_free(overlaps);
}

static nx_status add_at(nx_overlaps *overlaps, int node, int interval) {
    entry e = {interval, overlaps->head[node]};
    NX_TRY(nx_vec_push(&overlaps->entries, e));
    overlaps->head[node] = overlaps->entries.n - 1;
    for (int n = node; n > 0; n /= 2) overlaps->below[n]++;
    return NX_OK;
}

nx_status nx_overlaps_add(nx_overlaps *overlaps, int interval, int first, int last) {
    int a = first + overlaps->size, b = last + overlaps->size + 1;
    for (; a < b; a /= 2, b /= 2) {
        if (a & 1) NX_TRY(add_at(overlaps, a++, interval));
        if (b & 1) NX_TRY(add_at(overlaps, --b, interval));
    }
    return NX_OK;
}

static int take(nx_overlaps *overlaps, int node, int *found, int n) {
    for (int i = overlaps->head[node]; i >= 0; i = overlaps->entries.at[i].next) {
        int interval = overlaps->entries.at[i].interval;
        overlaps->n_steps++;
        if (overlaps->seen[interval] == overlaps->question) continue;
        overlaps->seen[interval] = overlaps->question;
        found[n++] = interval;
    }
    return n;
}

static int take_below(nx_overlaps *overlaps, int node, int *found, int n) {
    overlaps->n_steps++;
    if (overlaps->below[node] == 0) return n;
    n = take(overlaps, node, found, n);
    if (node >= overlaps->size) return n;
    n = take_below(overlaps, 2 * node, found, n);
    return take_below(overlaps, 2 * node + 1, found, n);
}

int nx_overlaps_find(nx_overlaps *overlaps, int first, int last, int *found) {
    int a = first + overlaps->size, b = last + overlaps->size + 1, n = 0;
    overlaps->question++;
    for (int node = a; node > 0; node /= 2) n = take(overlaps, node, found, n);
    for (int node = b - 1; node > 0; node /= 2) n = take(overlaps, node, found, n);
    for (; a < b; a /= 2, b /= 2) {
        if (a & 1) n = take_below(overlaps, a++, found, n);
        if (b & 1) n = take_below(overlaps, --b, found, n);
    }
    return n;
}

uint64_t nx_overlaps_steps(const nx_overlaps *overlaps) { return overlaps->n_steps; }
