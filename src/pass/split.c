/* The joint graph cut into forward and backward. What depends on a tangent is backward; what results need
 * is forward; for the rest of what the backward needs, the cut decides what is saved and what is computed
 * a second time. Each value is an arc whose capacity is its bytes; the smallest cut saves the fewest
 * bytes. Only calls that cost about as much as reading their operands are computed again: point operators
 * and views (PyTorch's compilers that cut likewise also repeat products in some modes; reading one product
 * is always cheaper than a second product here). Random calls never are. Of equally small cuts: an input
 * rather than a computed value (it is alive anyway), a base rather than its view, then the cut nearest to
 * the backward, which repeats least. So t(t(weight)) is not saved, as PyTorch's default does: the weight
 * is, and the backward takes the view. Constants (get_attr) are on both sides. */
#include "pass/private.h"

enum {
    DEPENDS = 1,
    FOR_FORWARD = 2,
    FOR_BACKWARD = 4,
    SAVED = 8,
    AGAIN = 16,
    TANGENT = 32,
    USED_BY_BACKWARD = 64,
    WANTED = 128
};

typedef struct splitter {
    const nx_graph *joint;
    int n_inputs, n_forward;
    unsigned char *marks; /* by order */
    nx_node **nodes;      /* by order */
    nx__flow *flow;
    nx_status status;     /* of callbacks */
} splitter;

static int point_in(const nx_node *node) { return 2 * node->order; }
static int point_out(const nx_node *node) { return 2 * node->order + 1; }
static int point_source(const splitter *s) { return 2 * s->joint->n_nodes; }
static int point_sink(const splitter *s) { return 2 * s->joint->n_nodes + 1; }

/* ---- who needs what ---- */
typedef struct spread { splitter *s; int from, to; bool any; } spread;
static void mark_input(void *arg, nx_node *input, int result) {
    spread *p = arg;
    p->s->marks[input->order] |= (unsigned char)p->to;
}
static void look_at_input(void *arg, nx_node *input, int result) {
    spread *p = arg;
    p->any = p->any || (p->s->marks[input->order] & p->from);
}

/* Hands `mark` from every node that has it to its inputs, from the last node to the first. */
static void mark_ancestors(splitter *s, int mark) {
    for (int i = s->joint->n_nodes - 1; i >= 0; i--) {
        spread p = {s, mark, mark, false};
        if (s->marks[i] & mark) nx_node_each_input(s->nodes[i], mark_input, &p);
    }
}

static void mark_nodes(splitter *s) {
    const nx_node *output = nx_graph_output_node(s->joint);
    int n = 0;
    for (int i = 0; i < s->joint->n_nodes; i++) {
        const nx_node *node = s->nodes[i];
        spread p = {s, DEPENDS, 0, false};
        if (node->kind == NX_NODE_PLACEHOLDER && n++ >= s->n_inputs) s->marks[i] |= DEPENDS | TANGENT;
        if (node->kind != NX_NODE_OUTPUT) nx_node_each_input(node, look_at_input, &p);
        if (p.any) s->marks[i] |= DEPENDS;
        if (!(s->marks[i] & DEPENDS) && node->op && !nx__is_pure(node))
            s->marks[i] |= FOR_FORWARD; /* drawn once, in order */
    }
    for (int i = 0; i < output->n_args; i++) {
        int order = output->args[i].node->order;
        s->marks[order] |= i < s->n_forward
                               ? FOR_FORWARD
                               : FOR_BACKWARD | (s->marks[order] & DEPENDS ? 0 : USED_BY_BACKWARD);
    }
    mark_ancestors(s, FOR_FORWARD);
    mark_ancestors(s, FOR_BACKWARD);
    for (int i = 0; i < s->joint->n_nodes; i++) {
        spread p = {s, 0, USED_BY_BACKWARD, false};
        if ((s->marks[i] & DEPENDS) && (s->marks[i] & FOR_BACKWARD))
            nx_node_each_input(s->nodes[i], mark_input, &p);
    }
}

/* ---- the cut ---- */
/* Takes part in the cut: the backward may have it from the forward, or compute it. */
static bool is_free(const splitter *s, const nx_node *node) {
    int m = s->marks[node->order];
    return (m & FOR_BACKWARD) && !(m & DEPENDS) && node->kind != NX_NODE_GET_ATTR &&
           node->kind != NX_NODE_OUTPUT;
}

static bool may_repeat(const splitter *s, const nx_node *node) {
    if (node->op == NULL || !nx__is_pure(node)) return false;
    if (!(s->marks[node->order] & FOR_FORWARD)) return true; /* not repeated: computed in the backward only */
    return node->op->def->kind == NX_KIND_POINT || node->op->def->kind == NX_KIND_VIEW;
}

/* Elements that differ: what an expanded tensor would take if it were saved. */
static int64_t saved_bytes(const nx_node *node) {
    int64_t bytes = 0;
    for (int k = 0; k < node->n_results; k++) {
        const nx_array *a = node->fakes[k] ? &node->fakes[k]->a : NULL;
        int64_t n = a ? (int64_t)nx_dtype_bytes((nx_dtype)a->dtype) : 0;
        for (int d = 0; a && d < a->ndim; d++) n *= a->strides[d] == 0 ? 1 : a->sizes[d];
        bytes += n;
    }
    return bytes < 1 ? 1 : bytes < (INT64_C(1) << 50) ? bytes : INT64_C(1) << 50;
}

static int64_t cost_of(const nx_node *node) {
    bool is_view = node->op && node->op->def->kind == NX_KIND_VIEW;
    return 8 * saved_bytes(node) + (node->kind == NX_NODE_PLACEHOLDER ? 0 : is_view ? 2 : 1);
}

typedef struct joiner { splitter *s; const nx_node *user; } joiner;
static void join_input(void *arg, nx_node *input, int result) {
    joiner *j = arg;
    if (j->s->status != NX_OK || !is_free(j->s, input)) return;
    j->s->status = nx__flow_edge(j->s->flow, point_out(input), point_in(j->user), nx__flow_unlimited);
}

static nx_status add_to_flow(splitter *s, nx_node *node) {
    NX_TRY(nx__flow_edge(s->flow, point_in(node), point_out(node), cost_of(node)));
    if (!may_repeat(s, node))
        NX_TRY(nx__flow_edge(s->flow, point_source(s), point_in(node), nx__flow_unlimited));
    if (s->marks[node->order] & USED_BY_BACKWARD)
        NX_TRY(nx__flow_edge(s->flow, point_out(node), point_sink(s), nx__flow_unlimited));
    nx_node_each_input(node, join_input, &(joiner){s, node});
    return s->status;
}

static nx_status cut(splitter *s) {
    int n_points = 2 * s->joint->n_nodes + 2;
    bool *behind = NULL;
    nx_status status;
    NX_TRY_FAIL(nx__flow_new(n_points, &s->flow));
    for (int i = 0; i < s->joint->n_nodes; i++) {
        if (is_free(s, s->nodes[i])) NX_TRY_FAIL(add_to_flow(s, s->nodes[i]));
    }
    if ((behind = nx_alloc((size_t)n_points)) == NULL) NX_TRY_FAIL(nx_fail_memory((size_t)n_points));
    NX_TRY_FAIL(nx__flow_cut(s->flow, point_source(s), point_sink(s), behind));
    for (int i = 0; i < s->joint->n_nodes; i++) {
        const nx_node *node = s->nodes[i];
        if (!is_free(s, node) || !behind[point_out(node)]) continue;
        s->marks[i] |= behind[point_in(node)] ? AGAIN : SAVED;
        if ((s->marks[i] & SAVED) && node->n_results != 1)
            NX_TRY_FAIL(nx_fail(NX_NOT_IMPLEMENTED,
                                "%s: saving one of several results for the backward is not there yet",
                                node->name));
    }
fail:
    nx__flow_free(s->flow);
    s->flow = NULL;
    nx_free(behind);
    return status;
}

/* ---- the two graphs ---- */
static nx_status finish(nx_graph *graph, const nx_map *map, const nx_value *outputs, int n, splitter *s,
                        bool with_saved, int *n_saved) {
    NX_VEC(nx_value) results = {0};
    nx_status status = NX_OK;
    for (int i = 0; i < n; i++) {
        nx_node *node = nx_map_get(map, outputs[i].node);
        if (node == NULL)
            NX_TRY_FAIL(nx_fail(NX_RUNTIME, "split: %s is not where it is needed", outputs[i].node->name));
        NX_TRY_FAIL(nx_vec_push(&results, nx_value_node(node, outputs[i].n)));
    }
    for (int i = 0; with_saved && i < s->joint->n_nodes; i++) {
        if (!(s->marks[i] & SAVED)) continue;
        NX_TRY_FAIL(nx_vec_push(&results, nx_value_node(nx_map_get(map, s->nodes[i]), 0)));
        ++*n_saved;
    }
    status = nx_graph_output(graph, results.at, results.n);
fail:
    nx_vec_free(&results);
    return status;
}

static nx_status build_forward(splitter *s, nx_graph *graph, int *n_saved) {
    const nx_node *output = nx_graph_output_node(s->joint);
    nx_map map = {0};
    nx_node *copy;
    nx_status status;
    int n = 0;
    for (int i = 0; i < s->joint->n_nodes; i++)
        s->marks[i] =
            (unsigned char)((s->marks[i] & ~WANTED) | (s->marks[i] & (SAVED | FOR_FORWARD) ? WANTED : 0));
    mark_ancestors(s, WANTED);
    for (int i = 0; i < s->joint->n_nodes; i++) {
        const nx_node *node = s->nodes[i];
        bool is_input = node->kind == NX_NODE_PLACEHOLDER && n++ < s->n_inputs;
        bool wanted = (s->marks[i] & WANTED) && !(s->marks[i] & DEPENDS) && node->kind != NX_NODE_OUTPUT;
        if (is_input || wanted) NX_TRY_FAIL(nx_graph_copy_node(graph, node, &map, &copy));
    }
    NX_TRY_FAIL(finish(graph, &map, output->args, s->n_forward, s, true, n_saved));
fail:
    nx_map_free(&map);
    return status;
}

static nx_status add_saved(splitter *s, nx_graph *graph, nx_map *map, int mark) {
    for (int i = 0; i < s->joint->n_nodes; i++) {
        nx_node *node = s->nodes[i], *input;
        if (!(s->marks[i] & mark)) continue;
        NX_TRY(nx_graph_input_like(graph, node->name, node->name, node->fakes[0], &input));
        NX_TRY(nx_map_set(map, node, input));
    }
    return NX_OK;
}

static nx_status build_backward(splitter *s, nx_graph *graph) {
    const nx_node *output = nx_graph_output_node(s->joint);
    nx_map map = {0};
    nx_node *copy;
    nx_status status;
    NX_TRY_FAIL(add_saved(s, graph, &map, SAVED));
    NX_TRY_FAIL(add_saved(s, graph, &map, TANGENT));
    for (int i = 0; i < s->joint->n_nodes; i++) {
        const nx_node *node = s->nodes[i];
        int m = s->marks[i];
        bool constant = node->kind == NX_NODE_GET_ATTR && (m & FOR_BACKWARD);
        bool call = node->op && ((m & DEPENDS) || (m & AGAIN));
        if (constant || call) NX_TRY_FAIL(nx_graph_copy_node(graph, node, &map, &copy));
    }
    NX_TRY_FAIL(
        finish(graph, &map, output->args + s->n_forward, output->n_args - s->n_forward, s, false, NULL));
fail:
    nx_map_free(&map);
    return status;
}

static nx_status build(splitter *s, nx_graph **forward, nx_graph **backward, int *n_saved) {
    *n_saved = 0;
    NX_TRY(nx_graph_new(forward));
    NX_TRY(nx_graph_new(backward));
    (*forward)->level = (*backward)->level = NX_GRAPH_FUNCTIONAL;
    NX_TRY(build_forward(s, *forward, n_saved));
    NX_TRY(build_backward(s, *backward));
    NX_TRY(nx_pass_dce(*forward));
    return nx_pass_dce(*backward);
}

nx_status nx_pass_split(const nx_graph *joint, int n_inputs, int n_forward, nx_graph **forward,
                        nx_graph **backward, int *n_saved) {
    splitter s = {.joint = joint, .n_inputs = n_inputs, .n_forward = n_forward};
    const nx_node *output = nx_graph_output_node(joint);
    size_t n = (size_t)joint->n_nodes + 1;
    nx_status status;
    *forward = *backward = NULL;
    if (output == NULL || output->n_args < n_forward)
        return nx_fail(NX_RUNTIME, "split: the joint graph lacks results");
    nx_graph_number((nx_graph *)joint);
    s.marks = nx_alloc_zeroed(n);
    s.nodes = nx_alloc(sizeof *s.nodes * n);
    if (!s.marks || !s.nodes) NX_TRY_FAIL(nx_fail_memory(sizeof *s.nodes * n));
    for (nx_node *node = joint->first; node; node = node->next) s.nodes[node->order] = node;
    mark_nodes(&s);
    NX_TRY_FAIL(cut(&s));
    NX_TRY_FAIL(build(&s, forward, backward, n_saved));
fail:
    nx_free(s.marks);
    nx_free(s.nodes);
    if (status != NX_OK) {
        nx_graph_free(*forward);
        nx_graph_free(*backward);
        *forward = *backward = NULL;
    }
    return status;
}
