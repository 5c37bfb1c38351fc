/* Which scatters may write into the memory of what they are given, as the program did that was made functional.
 * In: a functional graph whose order is final. Out: a mark for each node; the graph stays as it is.
 * What must hold: once a scatter has written, nobody reads what was there before. So all that lies in the memory (the
 * value itself, views of it, what earlier scatters made of it) must have its last reader in the scatter. One other
 * reader is allowed: of a part of a part, x[i][j] = y, the scatter that puts the part back where it was taken from,
 * which then has nothing left to do. Next: src/engine/node.c, nx__scatter_lower. */
#include "pass/private.h"

enum { LATEST = 4 }; /* readers that are remembered: parts of parts go no deeper */

typedef struct memory { int latest[LATEST]; bool may_write; } memory; /* its last readers, the latest first, -1 ends */
typedef struct worker {
    const nx_graph *graph;
    uint8_t *reuse;
    int *memory_of;     /* by order: the node that owns the memory, -1: unknown */
    memory *memories;   /* by order of that node */
    int *result_of;     /* by input: the result that the caller copies into it, -1: it must stay as it is */
} worker;

static bool is_view(const nx_node *node) { return node->op && node->op->def->kind == NX_KIND_VIEW; }

/* The view that shows what a scatter writes, from its entry's `inverse`; NULL: the node is no scatter. */
static const nx_op *part_of(const nx_node *node) { return node->op ? node->op->part : NULL; }

static void add_reader(memory *m, int order) {
    for (int i = 0; i < LATEST; i++) {
        if (m->latest[i] == order) return;
        if (m->latest[i] > order) continue;
        int next = m->latest[i];
        m->latest[i] = order;
        order = next;
    }
}

static void join(worker *w, const nx_node *node, int owner) {
    w->memory_of[node->order] = owner;
    for (const nx_use *use = node->uses; use; use = use->next) add_reader(&w->memories[owner], use->user->order);
}

/* The scatter that puts `part`, which is what `scatter` made, back into what scatter's base is a view of; NULL. */
static const nx_node *find_outer(const nx_node *scatter) {
    const nx_node *outer = scatter->uses ? scatter->uses->user : NULL;
    const nx_op *part = outer && scatter->uses->next == NULL ? part_of(outer) : NULL;
    if (part == NULL || scatter->args[0].tag != NX_TAG_NODE || outer->args[0].tag != NX_TAG_NODE) return NULL;
    const nx_node *view = scatter->args[0].node;
    if (outer->args[1].tag != NX_TAG_NODE || outer->args[1].node != scatter || view->op == NULL) return NULL;
    if (view->op != part || !nx_value_equal(&view->args[0], &outer->args[0])) return NULL;
    for (int i = 1; i < view->n_args; i++) {
        if (!nx_value_equal(&view->args[i], &outer->args[i + 1])) return NULL;
    }
    return outer;
}

static bool is_last_reader(const worker *w, const nx_node *scatter) {
    const memory *m = &w->memories[w->memory_of[scatter->args[0].node->order]];
    const nx_node *outer[LATEST];
    int n = 0;
    for (const nx_node *at = scatter; n < LATEST && (outer[n] = find_outer(at)) != NULL; n++) at = outer[n];
    for (int i = 0; i < LATEST && m->latest[i] > scatter->order; i++) {
        bool allowed = false;
        for (int k = 0; k < n; k++) allowed = allowed || outer[k]->order == m->latest[i];
        if (!allowed) return false;
    }
    return m->latest[LATEST - 1] <= scatter->order;
}

static bool same_layout(const nx_tensor *a, const nx_tensor *b) {
    for (int d = 0; d < a->a.ndim; d++) {
        if (a->a.sizes[d] > 1 && a->a.strides[d] != b->a.strides[d]) return false;
    }
    return true;
}

static nx_reuse decide(const worker *w, const nx_node *node) {
    if (part_of(node) == NULL || node->args[0].tag != NX_TAG_NODE || node->args[1].tag != NX_TAG_NODE) return NX_REUSE_NONE;
    const nx_node *base = node->args[0].node, *part = node->args[1].node;
    int owner = w->memory_of[base->order];
    if (owner < 0 || base->n_results != 1 || part->fakes[node->args[1].n]->a.dtype != base->fakes[0]->a.dtype)
        return NX_REUSE_NONE;
    if (w->reuse[part->order] != NX_REUSE_NONE && w->memory_of[part->order] == owner && find_outer(part) == node)
        return NX_REUSE_DONE;
    if (!w->memories[owner].may_write || w->memory_of[part->order] == owner || !is_last_reader(w, node)) return NX_REUSE_NONE;
    /* Of a part of a part nobody but the outer scatter sees the layout. */
    const nx_node *last = node;
    for (const nx_node *outer = node; outer; outer = find_outer(outer)) last = outer;
    return same_layout(last->args[0].node->fakes[0], last->fakes[0]) ? NX_REUSE_WRITE : NX_REUSE_NONE;
}

/* The scatter that alone takes what `node` copies over an old part: it may copy the new elements itself, and so reads
 * them, unless they lie in the memory that it writes. */
static const nx_node *taker_of(const worker *w, const nx_node *node) {
    if (node->op == NULL || node->uses == NULL || node->uses->next || node->op != nx_known(NX_KNOWN_COPY)) return NULL;
    const nx_node *taker = node->uses->user;
    if (node->args[0].tag != NX_TAG_NODE || node->args[1].tag != NX_TAG_NODE || part_of(taker) == NULL) return NULL;
    bool takes = taker->args[1].tag == NX_TAG_NODE && taker->args[1].node == node;
    int from = w->memory_of[node->args[1].node->order], to = w->memory_of[node->args[0].node->order];
    return takes && (from < 0 || from != to) ? taker : NULL;
}

static void look_at(worker *w, const nx_node *node, int input) {
    int at = node->order;
    w->memory_of[at] = -1;
    w->reuse[at] = (uint8_t)decide(w, node);
    const nx_node *taker = taker_of(w, node);
    int source = taker ? w->memory_of[node->args[1].node->order] : -1;
    if (source >= 0) add_reader(&w->memories[source], taker->order);
    if (w->reuse[at] != NX_REUSE_NONE) {
        const nx_node *copy = node->args[1].node;
        if (w->reuse[at] == NX_REUSE_WRITE && taker_of(w, copy)) w->reuse[copy->order] = NX_REUSE_SKIP;
        join(w, node, w->memory_of[node->args[0].node->order]);
        return;
    }
    if (is_view(node) && node->args[0].tag == NX_TAG_NODE) {
        if (w->memory_of[node->args[0].node->order] >= 0) join(w, node, w->memory_of[node->args[0].node->order]);
        return;
    }
    bool is_input = node->kind == NX_NODE_PLACEHOLDER;
    bool makes = node->op && !(node->op->def->flags & NX_OP_MUTATES) && node->n_results == 1 && node->fakes[0];
    if (!is_input && !makes) return;
    for (int i = 0; i < LATEST; i++) w->memories[at].latest[i] = -1;
    w->memories[at].may_write = makes || w->result_of[input] >= 0;
    join(w, node, at);
}

/* Writes into an input are wanted only where they end in the result that is copied into it. */
static bool ends_in(const worker *w, int owner, const nx_value *result) {
    return result->tag == NX_TAG_NODE && w->reuse[result->node->order] != NX_REUSE_NONE &&
           w->memory_of[result->node->order] == owner;
}

/* Forgets an input whose writes do not end so; true: there was one, and the marks are not right. */
static bool forget_input(worker *w) {
    const nx_node *output = nx_graph_output_node(w->graph), *node = w->graph->first;
    bool any = false;
    for (int i = 0; node && node->kind == NX_NODE_PLACEHOLDER; node = node->next, i++) {
        if (w->result_of[i] < 0 || ends_in(w, node->order, &output->args[w->result_of[i]])) continue;
        w->result_of[i] = -1;
        for (const nx_node *at = node->next; at; at = at->next)
            any = any || (w->memory_of[at->order] == node->order && w->reuse[at->order] != NX_REUSE_NONE);
    }
    return any;
}

static void mark(worker *w) {
    do {
        int input = 0;
        for (const nx_node *node = w->graph->first; node; node = node->next) {
            bool is_input = node->kind == NX_NODE_PLACEHOLDER;
            look_at(w, node, is_input ? input++ : -1);
        }
    } while (forget_input(w));
}

nx_status nx__do_reinplace(const nx_graph *graph, const int *result_of, uint8_t *reuse) {
    size_t n = (size_t)graph->n_nodes + 1, n_inputs = (size_t)graph->n_inputs;
    size_t bytes = sizeof(memory) * n + sizeof(int) * (n + n_inputs);
    bool any = false;
    memset(reuse, NX_REUSE_NONE, n - 1);
    for (const nx_node *node = graph->first; node && !any; node = node->next) any = part_of(node) != NULL;
    if (!any) return NX_OK;
    worker w = {.graph = graph, .reuse = reuse, .memories = nx_alloc_zeroed(bytes)};
    if (w.memories == NULL) return nx_fail_memory(bytes);
    w.memory_of = (int *)(w.memories + n);
    w.result_of = w.memory_of + n;
    for (size_t i = 0; i < n_inputs; i++) w.result_of[i] = result_of ? result_of[i] : -1;
    mark(&w);
    nx_free(w.memories);
    return NX_OK;
}
