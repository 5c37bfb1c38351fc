/* Graphs whose sizes are open, from C (narthex.h): which dimensions of an input may have another size at each run, within what
 * bounds; sizes as numbers of the graph and what is computed of them (ints.def). Such a number carries its value for the sizes
 * that the inputs have now, so that shapes are inferred and checked on the way as everywhere. Only captured graphs have them:
 * nx_graph_fit() in ints.c makes numbers of all for a run. */
#include "ir/private.h"

/* ---- ranges ---------------------------------------------------------------------------------- */
nx_size_range nx_node_range(const nx_node *input, int dim) {
    int64_t size = input->fakes[0]->a.sizes[dim];
    if (!(input->varying >> dim & 1)) return (nx_size_range){size, size, NULL, 0};
    return input->ranges ? input->ranges[dim] : (nx_size_range){0, INT64_MAX, NULL, 0};
}

bool nx_size_range_is_sane(const nx_size_range *range) {
    int64_t least = range->min;
    for (int k = 0; k < range->n_gears; k++) {
        if (range->gears[k] < least) return false;
        least = range->gears[k] + (k + 1 < range->n_gears);
    }
    return range->min >= 0 && least <= range->max;
}

bool nx_size_range_takes(const nx_size_range *range, int64_t size) {
    bool is_gear = range->n_gears == 0;
    for (int k = 0; k < range->n_gears; k++) is_gear |= range->gears[k] == size;
    return is_gear && size >= range->min && size <= range->max && nx_size_range_is_sane(range);
}

bool nx_graph_is_open(const nx_graph *graph) {
    for (const nx_node *node = graph->first; node && node->kind == NX_NODE_PLACEHOLDER; node = node->next) {
        if (node->varying) return true;
    }
    return false;
}

nx_status nx_node_open_size(nx_node *input, int dim, const nx_size_range *range) {
    nx_arena *arena = &input->graph->arena;
    int ndim = input->fakes[0]->a.ndim;
    int64_t *gears = NULL;
    assert(dim >= 0 && dim < ndim && ndim <= NX_MAX_DIMS);
    if (range->n_gears) {
        if ((gears = nx_arena_take(arena, sizeof *gears * (size_t)range->n_gears)) == NULL) return NX_NO_MEMORY;
        memcpy(gears, range->gears, sizeof *gears * (size_t)range->n_gears);
    }
    if (input->ranges == NULL) {
        nx_size_range *ranges = nx_arena_take(arena, sizeof *ranges * (size_t)ndim);
        if (ranges == NULL) return NX_NO_MEMORY;
        for (int d = 0; d < ndim; d++) ranges[d] = (nx_size_range){0, INT64_MAX, NULL, 0};
        input->ranges = ranges;
    }
    input->ranges[dim] = (nx_size_range){range->min, range->max, gears, range->n_gears};
    input->varying |= UINT64_C(1) << dim;
    return NX_OK;
}

nx_status nx_node_copy_open(nx_node *to, const nx_node *from) {
    for (int d = 0; from->varying && from->ranges && d < from->fakes[0]->a.ndim; d++) {
        if (from->varying >> d & 1) NX_TRY(nx_node_open_size(to, d, &from->ranges[d]));
    }
    to->varying = from->varying;
    return NX_OK;
}

static nx_status check_dim(const nx_graph *graph, const nx_node *input, int dim, const char *what) {
    if (graph == NULL || input == NULL) return nx_fail(NX_VALUE, "graph %s: a graph and an input are needed", what);
    if (input->graph != graph || input->kind != NX_NODE_PLACEHOLDER || input->fakes[0] == NULL)
        return nx_fail(NX_VALUE, "graph %s: %s is no input of this graph", what, input->name);
    if (dim < 0 || dim >= input->fakes[0]->a.ndim)
        return nx_fail(NX_INDEX, "graph %s: %s has %d dimensions and none of number %d", what, input->name, input->fakes[0]->a.ndim, dim);
    return NX_OK;
}

nx_status nx_graph_open_size(nx_graph *graph, nx_node *input, int dim, int64_t min, int64_t max) {
    NX_TRY(check_dim(graph, input, dim, "open size"));
    int64_t size = input->fakes[0]->a.sizes[dim], most = max < 0 ? INT64_MAX : max;
    if (min < 0 || size < min || size > most) {
        return nx_fail(NX_VALUE, "graph open size: size %d of %s is %lld, which is not from %lld to %lld", dim, input->name,
                       (long long)size, (long long)min, (long long)most);
    }
    return nx_node_open_size(input, dim, &(nx_size_range){min, most, NULL, 0});
}

nx_status nx_graph_set_gears(nx_graph *graph, nx_node *input, int dim, const int64_t *sizes, int n) {
    NX_TRY(check_dim(graph, input, dim, "gears"));
    if (sizes == NULL || n < 1 || n > NX_MAX_GEARS)
        return nx_fail(NX_VALUE, "graph gears: %d sizes of dimension %d of %s, 1 to %d are possible", n, dim, input->name, NX_MAX_GEARS);
    nx_size_range range = {sizes[0], sizes[n - 1], sizes, n};
    if (!nx_size_range_is_sane(&range))
        return nx_fail(NX_VALUE, "graph gears: the sizes of dimension %d of %s must rise, none below 0", dim, input->name);
    return nx_node_open_size(input, dim, &range);
}

/* ---- numbers --------------------------------------------------------------------------------- */
static nx_status known_value(const nx_graph *graph, const nx_value *arg, nx_value *out) {
    *out = *arg;
    if (arg->tag == NX_TAG_INT || arg->tag == NX_TAG_FLOAT) return NX_OK;
    if (arg->tag != NX_TAG_NODE || arg->node == NULL) return nx_fail(NX_TYPE, "graph number: an argument is neither a number nor a node");
    const nx_node *node = arg->node;
    if (node->graph != graph) return nx_fail(NX_RUNTIME, "graph number: %s belongs to another graph", node->name);
    *out = node->number;
    if (out->tag != NX_TAG_NONE) return NX_OK;
    if (arg->n < 0 || arg->n >= node->n_results || node->fakes[arg->n] == NULL)
        return nx_fail(NX_RUNTIME, "graph number: the shape of %s is not known", node->name);
    *out = nx_value_tensor(node->fakes[arg->n]);
    return NX_OK;
}

nx_status nx_graph_call_int(nx_graph *graph, nx_int_code code, const nx_value *args, nx_node **out) {
    nx_value known[2], value;
    nx_node *node;
    for (int k = 0; k < nx_int_code_n_args(code); k++) NX_TRY(known_value(graph, &args[k], &known[k]));
    NX_TRY(nx_int_compute(code, known, &value));
    NX_TRY(nx_graph_append_int(graph, code, args, &node));
    node->number = value;
    *out = node;
    return NX_OK;
}

nx_status nx_graph_size(nx_graph *graph, nx_value of, int dim, nx_node **out) {
    if (graph == NULL || of.tag != NX_TAG_NODE) return nx_fail(NX_VALUE, "graph size: a graph and a result of one of its nodes are needed");
    return nx_graph_call_int(graph, NX_INT_SIZE, (nx_value[]){of, nx_value_int(dim)}, out);
}

nx_status nx_graph_compute(nx_graph *graph, const char *what, const nx_value *in, nx_node **out) {
    int code = what ? nx_int_code_find(strcmp(what, "check") == 0 ? "_check" : what) : -1;
    if (graph == NULL || in == NULL || code <= NX_INT_CONTIGUOUS || code == NX_INT_INPUT || code == NX_INT_FLOAT)
        return nx_fail(NX_VALUE, "graph compute: '%s' is nothing that is computed of numbers: see narthex.h", what ? what : "");
    return nx_graph_call_int(graph, (nx_int_code)code, in, out);
}
