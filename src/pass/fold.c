/* Exact rules between operators. A rule says that a call is one of its operands; users are changed over,
 * except the output and views that lead to it: what a result shares memory with, and by which views, is
 * part of what the caller is told. Rules shorten chains only, so one walk in order of the nodes ends and
 * leaves nothing to do. */
#include "pass/private.h"

static bool is_call(const nx_value *v, const char *name) {
    return v->tag == NX_TAG_NODE && v->node->op && strcmp(v->node->op->def->name, name) == 0;
}

/* fold t(t(x)) -> x */
static const nx_value *fold_t(const nx_node *node) {
    return is_call(&node->args[0], "aten::t") ? &node->args[0].node->args[0] : NULL;
}

/* fold detach(x) -> x: in a functional graph there is no history to cut off */
static const nx_value *fold_detach(const nx_node *node) { return &node->args[0]; }

/* fold view(x, size) -> x when x has that size, expand likewise: strides are the same then as well */
static const nx_value *fold_same_size(const nx_node *node) {
    const nx_value *x = &node->args[0];
    const nx_tensor *from = x->tag == NX_TAG_NODE ? x->node->fakes[x->n] : NULL, *to = node->fakes[0];
    if (from == NULL || to == NULL || from->a.ndim != to->a.ndim) return NULL;
    for (int d = 0; d < from->a.ndim; d++) {
        if (from->a.sizes[d] != to->a.sizes[d] || from->a.strides[d] != to->a.strides[d]) return NULL;
    }
    return x;
}

static const struct { const char *op; const nx_value *(*rule)(const nx_node *); } rules[] = {
    {"aten::t", fold_t},
    {"aten::detach", fold_detach},
    {"aten::view", fold_same_size},
    {"aten::expand", fold_same_size},
};

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

/* What a rule says that `node` is, NULL: nothing. */
static const nx_value *folded(const nx_node *node) {
    for (int i = 0; node->op && i < NX_COUNT(rules); i++) {
        if (strcmp(rules[i].op, node->op->def->name) != 0) continue;
        const nx_value *with = rules[i].rule(node);
        return with && with->tag == NX_TAG_NODE ? with : NULL;
    }
    return NULL;
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
