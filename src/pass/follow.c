/* Convolutions take what follows them, so that it happens while their numbers are near: a factor and an offset of each channel (what
 * batch_norm is at inference), a summand of the same layout (a residual), bounds (relu, hardtanh), in this order, each at most
 * once. What is taken has one user, the next of them; the bits stay. In: a functional graph of a program of the CPU.
 * The operator that they become: ops/window/conv.c. */
#include "pass/private.h"

const nx_op *nx_convolution_point_op(void) { return nx_op_get("narthex::convolution_point"); }

typedef struct taking {
    nx_node *taken[1 + NX_POINT_N_ARGS - NX_POINT_FACTOR]; /* the convolution and what follows it, in order */
    int n;
    nx_value args[NX_POINT_N_ARGS];
} taking;

static nx_node *last_of(const taking *t) { return t->taken[t->n - 1]; }

static bool same_layout(const nx_tensor *a, const nx_tensor *b) {
    return a && b && a->a.dtype == b->a.dtype && nx_same_size(&a->a, &b->a) && nx_same_strides(&a->a, &b->a) &&
           nx_device_same(a->a.device, b->a.device);
}

static bool is_node(const nx_value *v, const nx_node *node) { return v->tag == NX_TAG_NODE && v->node == node; }

static bool is_one(const nx_value *v) { return (v->tag == NX_TAG_INT && v->i == 1) || (v->tag == NX_TAG_FLOAT && v->f == 1); }

static bool is_number(const nx_value *v, double *out) {
    if (v->tag == NX_TAG_INT) *out = (double)v->i;
    if (v->tag == NX_TAG_FLOAT) *out = v->f;
    return v->tag == NX_TAG_INT || v->tag == NX_TAG_FLOAT;
}

/* Whether a value has a number for each channel of x, beside whose other dimensions it is the same. */
static bool is_of_channels(const nx_value *v, const nx_array *x) {
    const nx_tensor *fake = v->tag == NX_TAG_NODE ? v->node->fakes[v->n] : NULL;
    if (fake == NULL || fake->a.dtype != NX_F32 || fake->a.device.type != 0 || fake->a.numel != x->sizes[1]) return false;
    const int channels = 1 - (x->ndim - fake->a.ndim);
    return channels >= 0 && channels < fake->a.ndim && fake->a.sizes[channels] == x->sizes[1];
}

static bool take_factor(taking *t, const nx_node *next) {
    const nx_value *args = next->args;
    const nx_array *x = &last_of(t)->fakes[0]->a;
    const bool taken = t->args[NX_POINT_FACTOR].tag != NX_TAG_NONE || t->args[NX_POINT_OTHER].tag != NX_TAG_NONE;
    if (next->op != nx_known(NX_KNOWN_SCALED) || taken) return false;
    const int factor = is_node(&args[1], last_of(t)) ? 2 : 1;
    if (!is_node(&args[3 - factor], last_of(t)) || !is_one(&args[3])) return false;
    if (!is_of_channels(&args[0], x) || !is_of_channels(&args[factor], x)) return false;
    t->args[NX_POINT_OFFSET] = args[0];
    t->args[NX_POINT_FACTOR] = args[factor];
    return true;
}

static bool take_other(taking *t, const nx_node *next) {
    const nx_value *args = next->args;
    if (next->op != nx_known(NX_KNOWN_SUM) || t->args[NX_POINT_OTHER].tag != NX_TAG_NONE || !is_one(&args[2])) return false;
    const nx_value *other = &args[is_node(&args[0], last_of(t))];
    if (other->tag != NX_TAG_NODE || other->node == last_of(t)) return false;
    if (!same_layout(other->node->fakes[other->n], last_of(t)->fakes[0])) return false;
    t->args[NX_POINT_OTHER] = *other;
    return true;
}

static bool take_bounds(taking *t, const nx_node *next) {
    double low = 0, high;
    if (next->op == nx_known(NX_KNOWN_RELU)) {
        t->args[NX_POINT_LOW] = (nx_value){.tag = NX_TAG_FLOAT, .f = 0};
        return true;
    }
    if (next->op != nx_known(NX_KNOWN_BOUNDED) || !is_number(&next->args[1], &low) || !is_number(&next->args[2], &high)) return false;
    if (!(low <= high)) return false;
    t->args[NX_POINT_LOW] = (nx_value){.tag = NX_TAG_FLOAT, .f = low};
    t->args[NX_POINT_HIGH] = (nx_value){.tag = NX_TAG_FLOAT, .f = high};
    return true;
}

/* The only user of what has been taken, if its result is laid as the convolution's. */
static nx_node *next_of(const taking *t) {
    const nx_use *use = last_of(t)->uses;
    nx_node *next = use && use->next == NULL ? use->user : NULL;
    return next && next->op && next->n_results == 1 && same_layout(next->fakes[0], last_of(t)->fakes[0]) ? next : NULL;
}

static nx_status follow(nx_node *node) {
    const nx_tensor *made = node->fakes[0];
    taking t = {.taken = {node}, .n = 1};
    const nx_value *transposed = &node->args[NX_POINT_TRANSPOSED];
    if (transposed->tag != NX_TAG_BOOL || transposed->i || made == NULL) return NX_OK;
    if (made->a.dtype != NX_F32 || made->a.device.type != 0) return NX_OK;
    if (!made->a.contiguous && !nx_is_channels_last(&made->a)) return NX_OK;
    bool bounded = false;
    for (nx_node *next; !bounded && (next = next_of(&t)); t.taken[t.n++] = next) {
        bounded = take_bounds(&t, next);
        if (!bounded && !take_factor(&t, next) && !take_other(&t, next)) break;
    }
    if (t.n == 1) return NX_OK;
    nx_node *last = last_of(&t), *one;
    memcpy(t.args, node->args, sizeof *t.args * NX_POINT_FACTOR);
    NX_TRY(nx_graph_insert_before(last, NX_NODE_CALL_FUNCTION, NULL, nx_convolution_point_op(), NULL, t.args, NX_POINT_N_ARGS, &one));
    NX_TRY(nx_node_set_fakes(one, last->fakes, 1));
    NX_TRY(nx_node_set_source(one, &node->source));
    NX_TRY(nx_node_replace_uses(last, one));
    while (t.n) nx_node_erase(t.taken[--t.n]);
    return NX_OK;
}

nx_status nx__do_follow(nx_graph *graph) {
    if (graph->level != NX_GRAPH_FUNCTIONAL) return NX_OK;
    for (nx_node *node = graph->last, *previous; node; node = previous) {
        previous = node->previous;
        if (node->op == nx_known(NX_KNOWN_CONVOLUTION)) NX_TRY(follow(node));
    }
    nx_graph_number(graph);
    return NX_OK;
}
