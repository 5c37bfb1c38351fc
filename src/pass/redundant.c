/* Calls that a graph does without: equal ones, unused ones, views that show what is there.
 * One node for equal calls: the same operator on the same arguments. Not merged: what draws or writes,
 * what is written by a user, and what the caller gets (also through views), because two results must not
 * become one memory. A first walk decides and can fail; the second changes uses and cannot. */
#include "pass/private.h"

typedef struct merger {
    nx_node **same;      /* by order: the earlier equal node, or itself */
    bool *kept_apart;    /* by order */
    nx_map first;        /* hash of a call -> the first node with it; an unequal call of that hash stays */
} merger;

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15) >> 7 | hash << 57;
}

static uint64_t hash_args(const merger *m, const nx_value *args, int n, uint64_t hash) {
    for (int i = 0; i < n; i++) {
        const nx_value *v = &args[i];
        hash = mix(hash, v->tag + UINT64_C(977) * (uint64_t)v->n);
        if (v->tag == NX_TAG_NODE) hash = mix(hash, (uint64_t)m->same[v->node->order]->order);
        else if (v->tag == NX_TAG_LIST) hash = hash_args(m, v->list, v->n, hash);
        else if (v->tag == NX_TAG_INTS) for (int k = 0; k < v->n; k++) hash = mix(hash, (uint64_t)v->ints[k]);
        else if (v->tag == NX_TAG_DEVICE)
            hash = mix(hash, (uint64_t)(v->device.type * 256 + v->device.index));
        else if (v->tag != NX_TAG_STR && v->tag != NX_TAG_COMPLEX) hash = mix(hash, (uint64_t)v->i);
    }
    return hash;
}

static bool equal_args(const merger *m, const nx_value *a, const nx_value *b, int n) {
    for (int i = 0; i < n; i++) {
        bool equal;
        if (a[i].tag == NX_TAG_NODE && b[i].tag == NX_TAG_NODE)
            equal = a[i].n == b[i].n && m->same[a[i].node->order] == m->same[b[i].node->order];
        else if (a[i].tag == NX_TAG_LIST && b[i].tag == NX_TAG_LIST)
            equal = a[i].n == b[i].n && equal_args(m, a[i].list, b[i].list, a[i].n);
        else
            equal = nx_value_equal(&a[i], &b[i]);
        if (!equal) return false;
    }
    return true;
}

static void keep_apart(void *arg, nx_node *input, int result) {
    ((merger *)arg)->kept_apart[input->order] = true;
}

/* From the last node to the first, so that a view hands its mark on to what it is a view of. */
static void find_apart(merger *m, const nx_graph *graph) {
    for (nx_node *node = graph->last; node; node = node->previous) {
        bool is_view = node->op && node->op->def->kind == NX_KIND_VIEW;
        if (node->kind == NX_NODE_OUTPUT || (is_view && m->kept_apart[node->order]))
            nx_node_each_input(node, keep_apart, m);
        nx_node_each_written(node, keep_apart, m);
        if (node->op == NULL || !nx__is_pure(node)) m->kept_apart[node->order] = true;
    }
}

static nx_status find_same(merger *m, const nx_graph *graph) {
    for (nx_node *node = graph->first; node; node = node->next) {
        m->same[node->order] = node;
        if (m->kept_apart[node->order]) continue;
        uint64_t hash = hash_args(m, node->args, node->n_args, (uint64_t)node->op->index + 1);
        const void *key = (const void *)(uintptr_t)(hash | 1);
        nx_node *first = nx_map_get(&m->first, key);
        if (first == NULL) NX_TRY(nx_map_set(&m->first, key, node));
        else if (first->op == node->op && equal_args(m, first->args, node->args, node->n_args))
            m->same[node->order] = first;
    }
    return NX_OK;
}

nx_status nx__do_cse(nx_graph *graph) {
    merger m = {0};
    size_t n = (size_t)graph->n_nodes + 1;
    nx_graph_number(graph);
    m.same = nx_alloc_zeroed(sizeof *m.same * n);
    m.kept_apart = nx_alloc_zeroed(sizeof *m.kept_apart * n);
    nx_status status = m.same && m.kept_apart ? NX_OK : nx_fail_memory(sizeof *m.same * n);
    if (status == NX_OK) {
        find_apart(&m, graph);
        status = find_same(&m, graph);
    }
    for (nx_node *node = graph->first; node && status == NX_OK; node = node->next) {
        if (m.same[node->order] != node) status = nx_node_replace_uses(node, m.same[node->order]);
    }
    nx_map_free(&m.first);
    nx_free(m.same);
    nx_free(m.kept_apart);
    return status;
}

/* ---- unused ones ------------------------------------------------------------------------------------------------------ */
/* Removes calls and constants that nobody uses, last first, so that what only they used goes as well. What
 * draws random numbers stays, since the numbers that others draw later depend on it; so does what writes,
 * and what is no operator. */
bool nx__is_pure(const nx_node *node) {
    if (node->op == NULL) return node->kind == NX_NODE_GET_ATTR;
    return !(node->op->def->flags & NX_OP_MUTATES) && !nx_node_draws(node);
}

static void look_at_written(void *arg, nx_node *written, int result) {
    bool *lost = arg;
    *lost = *lost && written->op && written->op->def->kind != NX_KIND_VIEW && written->uses->next == NULL;
}
/* A write into memory of which nobody reads anything afterwards is as dead as that memory. */
static bool writes_lost_memory(const nx_node *node) {
    bool lost = node->graph->level == NX_GRAPH_FUNCTIONAL && !nx_node_draws(node);
    nx_node_each_written(node, look_at_written, &lost);
    return lost;
}

nx_status nx__do_dce(nx_graph *graph) {
    for (nx_node *node = graph->last, *previous; node; node = previous) {
        previous = node->previous;
        if (node->uses || node->kind == NX_NODE_PLACEHOLDER || node->kind == NX_NODE_OUTPUT) continue;
        if (nx__is_pure(node) || (node->op && writes_lost_memory(node))) nx_node_erase(node);
    }
    nx_graph_number(graph);
    return NX_OK;
}

/* ---- views of a value that are that value: exact rules --------------------------------------------------------------- */
/* A rule says that a call is what it views; users are changed over, except the output and views that lead to it: what a result
 * shares memory with, and by which views, is part of what the caller is told. Rules shorten chains only, so one walk in order
 * of the nodes ends and leaves nothing to do. */
static const nx_tensor *fake_of(const nx_value *v) {
    return v->tag == NX_TAG_NODE && v->n < v->node->n_results ? v->node->fakes[v->n] : NULL;
}

/* Dimensions of one element count, too: results' strides are part of what they are. */
static bool same_layout(const nx_tensor *a, const nx_tensor *b) {
    if (a == NULL || b == NULL || a->a.ndim != b->a.ndim || a->a.dtype != b->a.dtype) return false;
    for (int d = 0; d < a->a.ndim; d++) {
        if (a->a.sizes[d] != b->a.sizes[d] || a->a.strides[d] != b->a.strides[d]) return false;
    }
    return true;
}

/* The value that a view shows, NULL: it is none, or one of several. */
static const nx_value *viewed(const nx_node *node) {
    bool is_view = node->op && node->op->def->kind == NX_KIND_VIEW && node->n_results == 1;
    return is_view && node->args[0].tag == NX_TAG_NODE ? &node->args[0] : NULL;
}

static void mark_view(void *arg, nx_node *input, int result) {
    if (input->op && input->op->def->kind == NX_KIND_VIEW) input->data = input;
}

void nx__mark_results(nx_graph *graph) {
    for (nx_node *node = graph->last; node; node = node->previous) {
        if (node->kind == NX_NODE_OUTPUT) node->data = node;
        if (node->data) nx_node_each_input(node, mark_view, NULL);
    }
}

static bool is_unmarked(const nx_node *user) { return user->data == NULL; }

/* What a view is in the end, NULL: something of its own. x viewed, once or twice, in the layout that x has, is x: views show
 * elements of x alone, and equal sizes and strides reach equally far, so that both begin at the same one. In a functional graph
 * there is no history that the view could cut off. */
static const nx_value *folded(const nx_node *node) {
    const nx_value *x = viewed(node), *y = x ? viewed(x->node) : NULL;
    if (x && same_layout(node->fakes[0], fake_of(x))) return x;
    return y && same_layout(node->fakes[0], fake_of(y)) ? y : NULL;
}

/* is: by order, what a node before it is in the end. */
static nx_status fold_node(nx_node *node, nx_value *is) {
    const nx_value *with = folded(node);
    if (with == NULL) return NX_OK;
    nx_value *own = &is[node->order];
    *own = is[with->node->order].tag == NX_TAG_NODE ? is[with->node->order] : *with;
    return nx_node_replace_result_if(node, 0, own->node, own->n, is_unmarked);
}

nx_status nx__do_fold(nx_graph *graph) {
    nx_graph_number(graph);
    size_t bytes = sizeof(nx_value) * (size_t)(graph->n_nodes + 1);
    nx_value *is = nx_alloc_zeroed(bytes);
    nx_status status = is ? NX_OK : nx_fail_memory(bytes);
    nx__mark_results(graph);
    for (nx_node *node = graph->first; node && status == NX_OK; node = node->next) {
        if (node->op && node->uses) status = fold_node(node, is);
    }
    for (nx_node *node = graph->first; node; node = node->next) node->data = NULL;
    nx_free(is);
    return status;
}
