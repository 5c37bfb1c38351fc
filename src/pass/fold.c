/* Exact rules between views. A rule says that a call is what it views; users are changed over,
 * except the output and views that lead to it: what a result shares memory with, and by which views, is
 * part of what the caller is told. Rules shorten chains only, so one walk in order of the nodes ends and
 * leaves nothing to do. */
#include "pass/private.h"

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

/* Marks the output and the views that lead to it. */
static void mark_results(nx_graph *graph) {
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
    mark_results(graph);
    for (nx_node *node = graph->first; node && status == NX_OK; node = node->next) {
        if (node->op && node->uses) status = fold_node(node, is);
    }
    for (nx_node *node = graph->first; node; node = node->next) node->data = NULL;
    nx_free(is);
    return status;
}
