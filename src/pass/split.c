/* The joint graph cut into forward and backward. What depends on a tangent is backward; what results need
 * is forward; for the rest of what the backward needs, the cut decides what is saved and what is computed
 * a second time. Each result of a call is an arc whose capacity is its bytes, behind the call that makes it;
 * the smallest cut saves the fewest bytes. Only calls that cost about as much as reading their operands are computed again: cheap point
 * operators and views (PyTorch's compilers that cut likewise also repeat products in some modes; reading one product
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
    WANTED = 128,
    INSIDE = 256, /* of a checkpoint, or computed in the backward from such: never saved */
    DONE = 512    /* stands in the backward */
};

/* Additions: a point operator whose functions cost more (silu, gelu, pow) takes longer than writing and reading its result. */
enum { WORTH_SAVING = 20 };

typedef struct splitter {
    const nx_graph *joint;
    int n_inputs, n_forward, n_values;
    uint16_t *marks;      /* by order */
    nx_node **nodes;      /* by order */
    int *first;           /* by order: its first result among the values */
    unsigned char *kept;  /* by value: SAVED, USED_BY_BACKWARD */
    nx_value *copies;     /* by value: what it is in the graph that is being made */
    nx__flow *flow;
    bool has_checkpoints;
    NX_VEC(nx_node *) draws; /* that the backward repeats, in order */
    NX_VEC(nx_value) places; /* from where each drew: in the graph that is being made */
    nx_status status;     /* of callbacks */
} splitter;

static int value_of(const splitter *s, const nx_node *node, int result) {
    return s->first[node->order] + result;
}

/* ---- who needs what ---- */
typedef struct spread { splitter *s; int from, to; bool any; } spread;
static void mark_input(void *arg, nx_node *input, int result) {
    spread *p = arg;
    p->s->marks[input->order] |= (uint16_t)p->to;
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

/* The backward, which cannot be in the forward's place, reads this result. */
static void mark_used(void *arg, nx_node *input, int result) {
    splitter *s = arg;
    if (!(s->marks[input->order] & DEPENDS)) s->kept[value_of(s, input, result)] |= USED_BY_BACKWARD;
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
        const nx_value *v = &output->args[i];
        s->marks[v->node->order] |= i < s->n_forward ? FOR_FORWARD : FOR_BACKWARD;
        if (i >= s->n_forward) mark_used(s, v->node, v->n);
    }
    mark_ancestors(s, FOR_FORWARD);
    mark_ancestors(s, FOR_BACKWARD);
    for (int i = 0; i < s->joint->n_nodes; i++) {
        if ((s->marks[i] & DEPENDS) && (s->marks[i] & FOR_BACKWARD))
            nx_node_each_input(s->nodes[i], mark_used, s);
    }
}

/* ---- checkpoints ---- */
/* A value of a checkpoint that other parts of the forward read, or the caller: it is there anyway, or what the next one starts from. */
static bool leaves(const splitter *s, const nx_node *node) {
    const nx_node *output = nx_graph_output_node(s->joint);
    for (const nx_use *use = node->uses; use; use = use->next) {
        int m = s->marks[use->user->order];
        if (use->user == output ? use->at - output->args < s->n_forward
                                : !(m & DEPENDS) && (m & FOR_FORWARD) && use->user->source.recompute != node->source.recompute)
            return true;
    }
    return false;
}

/* A draw that the backward can repeat: of the CPU's own generator, whose place is saved before it. */
static bool draws_again(const nx_node *node) {
    nx_draws draws = {0};
    nx_node_add_draws(node, &draws);
    return nx_draws_from_cpu(&draws);
}

/* What the backward computes from inner values of a checkpoint belongs to them: else it would be saved in their place. */
static void mark_inside(splitter *s) {
    for (int i = 0; i < s->joint->n_nodes; i++) {
        const nx_node *node = s->nodes[i];
        spread p = {s, INSIDE, 0, false};
        bool forward = s->marks[i] & FOR_FORWARD;
        if (node->op == NULL || (s->marks[i] & DEPENDS)) continue;
        bool repeats = nx__is_pure(node) || draws_again(node);
        if (node->source.recompute && forward && repeats && !leaves(s, node)) s->marks[i] |= INSIDE;
        if (!forward) nx_node_each_input(node, look_at_input, &p);
        if (p.any) s->marks[i] |= INSIDE;
        s->has_checkpoints = s->has_checkpoints || (s->marks[i] & INSIDE);
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
    if (s->marks[node->order] & INSIDE) return true;
    if (node->op == NULL || !nx__is_pure(node)) return false;
    if (!(s->marks[node->order] & FOR_FORWARD)) return true; /* not repeated: computed in the backward only */
    if (node->source.recompute) return false; /* it leaves its checkpoint: what is before it is not repeated for it */
    if (node->op->def->kind == NX_KIND_VIEW) return true;
    return node->op->def->kind == NX_KIND_POINT && node->op->def->point && node->op->def->point->cost <= WORTH_SAVING;
}

/* Elements that differ: what an expanded tensor would take if it were saved. */
static int64_t saved_bytes(const nx_tensor *fake) {
    if (fake == NULL) return 1;
    int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)fake->a.dtype);
    for (int d = 0; d < fake->a.ndim; d++) bytes *= fake->a.strides[d] == 0 ? 1 : fake->a.sizes[d];
    return bytes < 1 ? 1 : bytes < (INT64_C(1) << 50) ? bytes : INT64_C(1) << 50;
}

static int64_t cost_of(const nx_node *node, int result) {
    bool is_view = node->op && node->op->def->kind == NX_KIND_VIEW;
    return 8 * saved_bytes(node->fakes[result]) + (node->kind == NX_NODE_PLACEHOLDER ? 0 : is_view ? 2 : 1);
}

/* A value is an arc from `in` to `out`. A call of one result is where its value's arc begins; the others have
 * a point of their own, from which their values' arcs are reached. */
static int point_in(int value) { return 2 * value; }
static int point_out(int value) { return 2 * value + 1; }
static int point_of(const splitter *s, const nx_node *node) {
    return node->n_results == 1 ? point_in(value_of(s, node, 0)) : 2 * s->n_values + node->order;
}
static int point_source(const splitter *s) { return 2 * s->n_values + s->joint->n_nodes; }
static int point_sink(const splitter *s) { return point_source(s) + 1; }

typedef struct joiner { splitter *s; const nx_node *user; } joiner;
static void join_input(void *arg, nx_node *input, int result) {
    joiner *j = arg;
    splitter *s = j->s;
    if (s->status != NX_OK || !is_free(s, input)) return;
    s->status = nx__flow_edge(s->flow, point_out(value_of(s, input, result)), point_of(s, j->user),
                              nx__flow_unlimited);
}

static nx_status add_to_flow(splitter *s, nx_node *node) {
    int own = point_of(s, node);
    if (!may_repeat(s, node)) NX_TRY(nx__flow_edge(s->flow, point_source(s), own, nx__flow_unlimited));
    for (int k = 0; k < node->n_results; k++) {
        int value = value_of(s, node, k);
        if (own != point_in(value)) NX_TRY(nx__flow_edge(s->flow, own, point_in(value), nx__flow_unlimited));
        int64_t cost = s->marks[node->order] & INSIDE ? nx__flow_unlimited : cost_of(node, k);
        NX_TRY(nx__flow_edge(s->flow, point_in(value), point_out(value), cost));
        if (s->kept[value] & USED_BY_BACKWARD)
            NX_TRY(nx__flow_edge(s->flow, point_out(value), point_sink(s), nx__flow_unlimited));
    }
    nx_node_each_input(node, join_input, &(joiner){s, node});
    return s->status;
}

/* A result behind the cut is saved when the call before it is not behind the cut, and else made again. */
static void decide(splitter *s, const nx_node *node, const bool *behind) {
    bool again = behind[point_of(s, node)];
    for (int k = 0; k < node->n_results; k++) {
        int value = value_of(s, node, k);
        if (!behind[point_out(value)]) continue;
        if (again) s->marks[node->order] |= AGAIN;
        else s->kept[value] |= SAVED;
    }
}

static nx_status cut(splitter *s) {
    int n_points = point_sink(s) + 1;
    bool *behind = NULL;
    nx_status status;
    NX_TRY_FAIL(nx__flow_new(n_points, &s->flow));
    for (int i = 0; i < s->joint->n_nodes; i++) {
        if (is_free(s, s->nodes[i])) NX_TRY_FAIL(add_to_flow(s, s->nodes[i]));
    }
    if ((behind = nx_alloc((size_t)n_points)) == NULL) NX_TRY_FAIL(nx_fail_memory((size_t)n_points));
    NX_TRY_FAIL(nx__flow_cut(s->flow, point_source(s), point_sink(s), behind));
    for (int i = 0; i < s->joint->n_nodes; i++) {
        if (is_free(s, s->nodes[i])) decide(s, s->nodes[i], behind);
    }
fail:
    nx__flow_free(s->flow);
    s->flow = NULL;
    nx_free(behind);
    return status;
}

/* ---- the two graphs ---- */
static nx_status find_copy(void *context, nx_node *node, int result, nx_value *out) {
    splitter *s = context;
    *out = s->copies[value_of(s, node, result)];
    if (out->tag == NX_TAG_NODE) return NX_OK;
    return nx_fail(NX_RUNTIME, "split: result %d of %s is not where it is needed", result, node->name);
}

/* A call, input or constant in the new graph, whose results stand for the old ones unless they are there. */
static nx_status copy_node(splitter *s, nx_graph *graph, const nx_node *node) {
    nx_node *copy;
    NX_TRY(nx_graph_copy_with(graph, node, find_copy, s, &copy));
    for (int k = 0; k < node->n_results; k++) {
        nx_value *at = &s->copies[value_of(s, node, k)];
        if (at->tag == NX_TAG_NONE) *at = nx_value_node(copy, k);
    }
    return NX_OK;
}

static nx_status end_graph(splitter *s, nx_graph *graph, const nx_value *outputs, int n, int *n_saved) {
    NX_VEC(nx_value) results = {0};
    nx_status status = NX_OK;
    for (int i = 0; i < n; i++) {
        nx_value copy;
        NX_TRY_FAIL(find_copy(s, outputs[i].node, outputs[i].n, &copy));
        NX_TRY_FAIL(nx_vec_push(&results, copy));
    }
    for (int i = 0; n_saved && i < s->n_values; i++) {
        if (!(s->kept[i] & SAVED)) continue;
        NX_TRY_FAIL(nx_vec_push(&results, s->copies[i]));
        ++*n_saved;
    }
    for (int i = 0; n_saved && i < s->places.n; i++, ++*n_saved) NX_TRY_FAIL(nx_vec_push(&results, s->places.at[i]));
    status = nx_graph_output(graph, results.at, results.n);
fail:
    nx_vec_free(&results);
    return status;
}

static bool has_saved(const splitter *s, const nx_node *node) {
    for (int k = 0; k < node->n_results; k++) {
        if (s->kept[value_of(s, node, k)] & SAVED) return true;
    }
    return false;
}

/* From where the draw draws, a value that is saved. */
static nx_status note_draw(splitter *s, nx_graph *graph, nx_node *node) {
    nx_node *place;
    const nx_value in[] = {NX_VALUE_NONE, NX_VALUE_NONE};
    NX_TRY(nx_graph_call_named(graph, nx__draw_from(), in, "draws_from", &place));
    NX_TRY(nx_vec_push(&s->draws, node));
    return nx_vec_push(&s->places, nx_value_node(place, 0));
}

static nx_status build_forward(splitter *s, nx_graph *graph, int *n_saved) {
    const nx_node *output = nx_graph_output_node(s->joint);
    int n = 0;
    for (int i = 0; i < s->joint->n_nodes; i++) {
        bool wanted = (s->marks[i] & FOR_FORWARD) || has_saved(s, s->nodes[i]);
        s->marks[i] = (uint16_t)((s->marks[i] & ~WANTED) | (wanted ? WANTED : 0));
    }
    mark_ancestors(s, WANTED);
    for (int i = 0; i < s->joint->n_nodes; i++) {
        const nx_node *node = s->nodes[i];
        bool is_input = node->kind == NX_NODE_PLACEHOLDER && n++ < s->n_inputs;
        bool wanted = (s->marks[i] & WANTED) && !(s->marks[i] & DEPENDS) && node->kind != NX_NODE_OUTPUT;
        if (wanted && (s->marks[i] & AGAIN) && !nx__is_pure(node)) NX_TRY(note_draw(s, graph, s->nodes[i]));
        if (is_input || wanted) NX_TRY(copy_node(s, graph, node));
    }
    return end_graph(s, graph, output->args, s->n_forward, n_saved);
}

static nx_status add_input(splitter *s, nx_graph *graph, const nx_node *node, int result) {
    char name[160];
    nx_node *input;
    if (result == 0) snprintf(name, sizeof name, "%s", node->name);
    else snprintf(name, sizeof name, "%.120s_result%d", node->name, result);
    NX_TRY(nx_graph_input_like(graph, name, name, node->fakes[result], &input));
    s->copies[value_of(s, node, result)] = nx_value_node(input, 0);
    return NX_OK;
}

typedef struct missing { const splitter *s; nx_node *found; } missing;

static void look_at_missing(void *arg, nx_node *input, int result) {
    missing *m = arg;
    int marks = m->s->marks[input->order];
    if (m->found == NULL && (marks & AGAIN) && !(marks & DONE)) m->found = input;
}

/* An input of the node that is computed again and is not there yet; NULL: all are. */
static nx_node *missing_input(splitter *s, const nx_node *node) {
    missing m = {s, NULL};
    nx_node_each_input(node, look_at_missing, &m);
    return m.found;
}

/* Between two calls that set from where numbers are drawn: there, and back. */
static nx_status draw_again(splitter *s, nx_graph *graph, nx_node *node) {
    const nx_op *op = nx__draw_from();
    nx_node *before, *after;
    int at = 0;
    while (s->draws.at[at] != node) at++;
    NX_TRY(nx_graph_call_named(graph, op, (nx_value[]){s->places.at[at], NX_VALUE_NONE}, "drew_from", &before));
    NX_TRY(copy_node(s, graph, node));
    return nx_graph_call_named(graph, op, (nx_value[]){nx_value_node(before, 0), NX_VALUE_NONE}, "draws_from", &after);
}

/* A call of the forward in the backward, behind what it reads. */
static nx_status repeat(splitter *s, nx_graph *graph, nx_node *node) {
    NX_VEC(nx_node *) stack = {0};
    nx_status status = s->marks[node->order] & DONE ? NX_OK : nx_vec_push(&stack, node);
    while (status == NX_OK && stack.n > 0) {
        nx_node *top = stack.at[stack.n - 1], *missing = missing_input(s, top);
        if (missing) {
            status = nx_vec_push(&stack, missing);
            continue;
        }
        stack.n--;
        if (s->marks[top->order] & DONE) continue;
        status = nx__is_pure(top) ? copy_node(s, graph, top) : draw_again(s, graph, top);
        s->marks[top->order] |= DONE;
    }
    nx_vec_free(&stack);
    return status;
}

/* What a checkpoint's part of the backward reads is computed right before it, so that one checkpoint after the other is in memory. */
static nx_status repeat_inputs(splitter *s, nx_graph *graph, const nx_node *node) {
    for (nx_node *input; (input = missing_input(s, node));) NX_TRY(repeat(s, graph, input));
    return NX_OK;
}

static nx_status build_backward(splitter *s, nx_graph *graph) {
    const nx_node *output = nx_graph_output_node(s->joint);
    memset(s->copies, 0, sizeof *s->copies * (size_t)s->n_values);
    for (int i = 0; i < s->joint->n_nodes; i++) {
        for (int k = 0; k < s->nodes[i]->n_results; k++) {
            if (s->kept[value_of(s, s->nodes[i], k)] & SAVED) NX_TRY(add_input(s, graph, s->nodes[i], k));
        }
    }
    for (int i = 0; i < s->draws.n; i++) {
        nx_node *input, *from = s->places.at[i].node;
        NX_TRY(nx_graph_input_like(graph, from->name, from->name, from->fakes[0], &input));
        s->places.at[i] = nx_value_node(input, 0);
    }
    for (int i = 0; i < s->joint->n_nodes; i++) {
        if (s->marks[i] & TANGENT) NX_TRY(add_input(s, graph, s->nodes[i], 0));
    }
    for (int i = 0; i < s->joint->n_nodes; i++) {
        const nx_node *node = s->nodes[i];
        int m = s->marks[i];
        bool constant = node->kind == NX_NODE_GET_ATTR && (m & FOR_BACKWARD);
        bool call = node->op && ((m & DEPENDS) || ((m & AGAIN) && !s->has_checkpoints));
        if (call && s->has_checkpoints) NX_TRY(repeat_inputs(s, graph, node));
        if (constant || call) NX_TRY(copy_node(s, graph, node));
    }
    for (int i = s->n_forward; s->has_checkpoints && i < output->n_args; i++) {
        nx_node *node = output->args[i].node;
        if (s->marks[node->order] & AGAIN) NX_TRY(repeat(s, graph, node));
    }
    return end_graph(s, graph, output->args + s->n_forward, output->n_args - s->n_forward, NULL);
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

static nx_status prepare(splitter *s) {
    size_t n = (size_t)s->joint->n_nodes + 1;
    nx_graph_number((nx_graph *)s->joint);
    s->marks = nx_alloc_zeroed(sizeof *s->marks * n);
    s->nodes = nx_alloc(sizeof *s->nodes * n);
    s->first = nx_alloc(sizeof *s->first * n);
    if (!s->marks || !s->nodes || !s->first) return nx_fail_memory(sizeof *s->nodes * n);
    for (nx_node *node = s->joint->first; node; node = node->next) {
        s->nodes[node->order] = node;
        s->first[node->order] = s->n_values;
        s->n_values += node->n_results;
    }
    size_t n_values = (size_t)s->n_values + 1;
    s->kept = nx_alloc_zeroed(n_values);
    s->copies = nx_alloc_zeroed(sizeof *s->copies * n_values);
    return s->kept && s->copies ? NX_OK : nx_fail_memory(sizeof *s->copies * n_values);
}

nx_status nx__do_split(const nx_graph *joint, int n_inputs, int n_forward, nx_graph **forward,
                        nx_graph **backward, int *n_saved) {
    splitter s = {.joint = joint, .n_inputs = n_inputs, .n_forward = n_forward};
    const nx_node *output = nx_graph_output_node(joint);
    nx_status status;
    *forward = *backward = NULL;
    if (output == NULL || output->n_args < n_forward)
        return nx_fail(NX_RUNTIME, "split: the joint graph lacks results");
    NX_TRY_FAIL(prepare(&s));
    mark_nodes(&s);
    mark_inside(&s);
    NX_TRY_FAIL(cut(&s));
    NX_TRY_FAIL(build(&s, forward, backward, n_saved));
fail:
    nx_free(s.marks);
    nx_free(s.nodes);
    nx_free(s.first);
    nx_free(s.kept);
    nx_free(s.copies);
    nx_vec_free(&s.draws);
    nx_vec_free(&s.places);
    if (status != NX_OK) {
        nx_graph_free(*forward);
        nx_graph_free(*backward);
        *forward = *backward = NULL;
    }
    return status;
}
