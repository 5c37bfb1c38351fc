/* Removes calls and constants that nobody uses, last first, so that what only they used goes as well. What
 * draws random numbers stays, since the numbers that others draw later depend on it; so does what writes,
 * and what is no operator. */
#include "pass/private.h"

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
