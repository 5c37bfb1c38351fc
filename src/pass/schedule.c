/* An order of the nodes in which every region stands in one piece: a topological sort of items (a region,
 * or a node outside of all) that always takes the ready item that came first in the old order, a region
 * counting as its last member. Calls that draw or write keep their order among each other, and copies into
 * inputs and the output stay at the end. */
#include "pass/private.h"

typedef struct scheduler {
    nx_graph *graph;
    const nx_regions *regions;
    nx_node **nodes;       /* by order */
    int *first, *next;     /* by item, by node: the nodes of an item in order, -1 ends */
    int *key, *pending;    /* by item: old place; mentions from outside that are still to come */
    int *after;            /* by node: the next node that draws or writes, -1 */
    int *heap, n_heap;
    void *block;
} scheduler;

/* Nodes are the items 0 .. n_nodes - 1, regions follow. */
static int item_of(const scheduler *s, const nx_node *node) {
    int r = s->regions->of_node[node->order];
    return r < 0 ? node->order : s->graph->n_nodes + r;
}

static void push(scheduler *s, int item) {
    int at = s->n_heap++;
    for (; at > 0 && s->key[s->heap[(at - 1) / 2]] > s->key[item]; at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = item;
}

static int pop(scheduler *s) {
    int top = s->heap[0], last = s->heap[--s->n_heap], at = 0;
    for (int child; (child = 2 * at + 1) < s->n_heap; at = child) {
        if (child + 1 < s->n_heap && s->key[s->heap[child + 1]] < s->key[s->heap[child]]) child++;
        if (s->key[s->heap[child]] >= s->key[last]) break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = last;
    return top;
}

static void look_for_input(void *arg, nx_node *written, int result) {
    bool *copies_back = arg;
    *copies_back = *copies_back || written->kind == NX_NODE_PLACEHOLDER;
}
/* The end of the graph: copies into inputs, which must come after every read of them, and the output. */
static const nx_node *find_end(const nx_graph *graph) {
    const nx_node *end = NULL;
    for (const nx_node *node = graph->last; node; node = node->previous) {
        bool copies_back = false;
        nx_node_each_written(node, look_for_input, &copies_back);
        if (node->kind != NX_NODE_OUTPUT && !copies_back) break;
        end = node;
    }
    return end;
}

static nx_status prepare(scheduler *s) {
    size_t n = (size_t)s->graph->n_nodes, n_items = n + (size_t)s->regions->n + 1;
    size_t bytes = sizeof(nx_node *) * n + sizeof(int) * (2 * n + 4 * n_items);
    if ((s->block = nx_alloc(bytes)) == NULL) return nx_fail_memory(bytes);
    s->nodes = s->block;
    s->next = (int *)(s->nodes + n);
    s->after = s->next + n;
    s->first = s->after + n;
    s->key = s->first + n_items;
    s->pending = s->key + n_items;
    s->heap = s->pending + n_items;
    for (size_t i = 0; i < n_items; i++) {
        s->first[i] = s->key[i] = -1;
        s->pending[i] = 0;
    }
    return NX_OK;
}

typedef struct counter { scheduler *s; int item; } counter;
static void count_outside(void *arg, nx_node *input, int result) {
    counter *c = arg;
    c->s->pending[c->item] += item_of(c->s, input) != c->item;
}

static void collect(scheduler *s, const nx_node *end) {
    int impure = -1;
    for (nx_node *node = s->graph->first; node != end; node = node->next) {
        int item = item_of(s, node);
        s->nodes[node->order] = node;
        s->after[node->order] = -1;
        if (s->key[item] < node->order) s->key[item] = node->order;
        nx_node_each_input(node, count_outside, &(counter){s, item});
        if (node->op == NULL || nx__is_pure(node)) continue;
        if (impure >= 0) {
            s->after[impure] = node->order;
            s->pending[item]++;
        }
        impure = node->order;
    }
    for (int i = s->graph->n_nodes - 1; i >= 0; i--) { /* lists in order: built from the back */
        if (end && i >= end->order) continue;
        int item = item_of(s, s->nodes[i]);
        s->next[i] = s->first[item];
        s->first[item] = i;
    }
}

static void release(scheduler *s, int item) {
    if (--s->pending[item] == 0) push(s, item);
}

static void emit(scheduler *s, int item, nx_node *end) {
    for (int i = s->first[item]; i >= 0; i = s->next[i]) {
        nx_node_move_before(s->nodes[i], end);
        for (const nx_use *use = s->nodes[i]->uses; use; use = use->next) {
            bool at_end = end && use->user->order >= end->order;
            if (!at_end && item_of(s, use->user) != item) release(s, item_of(s, use->user));
        }
        if (s->after[i] >= 0) release(s, s->after[i]);
    }
}

nx_status nx__schedule(nx_graph *graph, nx_regions *regions) {
    scheduler s = {.graph = graph, .regions = regions};
    nx_node *end = (nx_node *)find_end(graph);
    int *moved, n_items = graph->n_nodes + regions->n, at = 0;
    NX_TRY(prepare(&s));
    if ((moved = nx_alloc(sizeof(int) * (size_t)(graph->n_nodes + 1))) == NULL) {
        nx_free(s.block);
        return nx_fail_memory(sizeof(int) * (size_t)graph->n_nodes);
    }
    collect(&s, end);
    for (int item = 0; item < n_items; item++) {
        if (s.first[item] >= 0 && s.pending[item] == 0) push(&s, item);
    }
    while (s.n_heap > 0) emit(&s, pop(&s), end);
    for (const nx_node *node = graph->first; node; node = node->next)
        moved[at++] = regions->of_node[node->order];
    memcpy(regions->of_node, moved, sizeof(int) * (size_t)at);
    nx_graph_number(graph);
    nx_free(moved);
    nx_free(s.block);
    return NX_OK;
}
