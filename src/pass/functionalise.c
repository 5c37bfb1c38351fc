/* Writes become new values. In: a flat graph of operators with views and in-place calls. Out: the same
 * results without writes, but for copy_ into the inputs that were written, at the end.
 * Every tensor of the old graph is a place: memory (root) and the views that lead to it. A write to a
 * place gives it a new value, and through the inverse of each view a new value to the root; other places
 * over the same root are stale then and their views are taken again when they are next read. Which inverse
 * a view has is the table `inverses`. */
#include "pass/private.h"

typedef struct place {
    int root;               /* index of the place that owns the memory; itself for new memory */
    int parent;             /* place that this is a view of, -1 */
    const nx_node *view;    /* old node that made the view */
    int result;             /* which of its results */
    nx_value value;         /* newest value in the new graph */
    int version;            /* of the root when it was right */
    bool is_result;         /* its value was made for a result, at the end */
} place;
typedef struct worker {
    nx_graph *graph;        /* the new one */
    NX_VEC(place) places;
    NX_VEC(int) versions;   /* by place: of roots, how often they were written */
    int *first;             /* by order of the old node: where its results stand in place_of */
    int *place_of;          /* place of each result */
    NX_VEC(nx_node *) inputs; /* new placeholders, in order; place i is input i */
    NX_VEC(int) chain;      /* places that are being read */
    const nx_node *node;    /* old node at work */
} worker;

/* ---- emitting into the new graph ---- */
static nx_status emit(worker *w, const nx_op *op, const nx_value *in, const char *name, nx_value *out) {
    nx_node *node;
    NX_TRY(nx_graph_call_named(w->graph, op, in, name, &node));
    node->no_grad = w->node->no_grad;
    NX_TRY(nx_node_set_source(node, w->node->file, w->node->line, w->node->function, w->node->code));
    *out = nx_value_node(node, 0);
    return NX_OK;
}

/* A call of `name` with the given arguments, the rest by default. */
static nx_status emit_named(worker *w, const char *name, const nx_value *given, int n, nx_value *out) {
    const nx_op *op;
    nx_value in[64];
    NX_TRY(nx_op_find(name, &op));
    if (op->def->n_in > NX_COUNT(in) || n > op->def->n_in)
        return nx_fail(NX_RUNTIME, "%s: too many arguments", name);
    for (int i = 0; i < op->def->n_in; i++) in[i] = i < n ? given[i] : op->def->params[i].initial;
    return emit(w, op, in, NULL, out);
}

static const nx_tensor *fake_of(const nx_value *v) { return v->node->fakes[v->n]; }

/* ---- inverses: the base's new value from the view's ---- */
typedef struct undo {
    const nx_node *view;    /* old node that made the view */
    int result;             /* which of its results */
    const nx_value *base;   /* the viewed tensor's value */
    const nx_value *value;  /* the view's new one */
} undo;

static nx_status invert_t(worker *w, const undo *u, nx_value *out) {
    return emit_named(w, "aten::t", u->value, 1, out);
}

static nx_status invert_same(worker *w, const undo *u, nx_value *out) {
    *out = *u->value;
    return NX_OK;
}

static nx_status invert_view(worker *w, const undo *u, nx_value *out) {
    const nx_array *base = &fake_of(u->base)->a;
    nx_value in[] = {*u->value, nx_value_ints(base->sizes, base->ndim)};
    int64_t strides[NX_MAX_DIMS];
    if (!nx_regroup(&fake_of(u->value)->a, base->sizes, base->ndim, strides)) {
        nx_value args[] = {*u->value, {.tag = NX_TAG_MEMORY_FORMAT, .i = 0}};
        NX_TRY(emit_named(w, "aten::clone", args, 2, &in[0]));
    }
    return emit_named(w, "aten::view", in, 2, out);
}

static nx_status refuse_view(const worker *w, const nx_node *view) {
    return nx_fail(NX_NOT_IMPLEMENTED,
                   "%s: writing through %s in a compiled function is not there yet: write to a copy",
                   w->node->op->def->name, view->op->def->name);
}

/* Where elements lie in one place several times, the value does not tell which of them was written. */
static nx_status invert_expand(worker *w, const undo *u, nx_value *out) {
    bool repeats = fake_of(u->base)->a.numel != fake_of(u->value)->a.numel;
    return repeats ? refuse_view(w, u->view) : invert_view(w, u, out);
}

/* The view's own arguments undo it. */
static nx_status invert_transpose(worker *w, const undo *u, nx_value *out) {
    nx_value in[] = {*u->value, u->view->args[1], u->view->args[2]};
    return emit_named(w, "aten::transpose.int", in, 3, out);
}

static nx_status invert_permute(worker *w, const undo *u, nx_value *out) {
    const nx_value *dims = &u->view->args[1];
    int64_t back[NX_MAX_DIMS];
    for (int k = 0; k < dims->n; k++) back[dims->ints[k] < 0 ? dims->ints[k] + dims->n : dims->ints[k]] = k;
    nx_value in[] = {*u->value, nx_value_ints(back, dims->n)};
    return emit_named(w, "aten::permute", in, 2, out);
}

static nx_status invert_unsqueeze(worker *w, const undo *u, nx_value *out) {
    nx_value in[] = {*u->value, u->view->args[1]};
    return emit_named(w, "aten::squeeze.dim", in, 2, out);
}

static nx_status invert_squeeze(worker *w, const undo *u, nx_value *out) {
    if (fake_of(u->base)->a.ndim == fake_of(u->value)->a.ndim) return invert_same(w, u, out);
    nx_value in[] = {*u->value, u->view->args[1]};
    return emit_named(w, "aten::unsqueeze", in, 2, out);
}

/* The base with the part written that the view shows: the scatter takes the view's arguments behind the part. */
static nx_status scatter(worker *w, const char *name, const undo *u, nx_value *out) {
    nx_value in[8] = {*u->base, *u->value};
    for (int k = 1; k < u->view->n_args; k++) in[k + 1] = u->view->args[k];
    return emit_named(w, name, in, u->view->n_args + 1, out);
}
static nx_status invert_select(worker *w, const undo *u, nx_value *out) {
    return scatter(w, "aten::select_scatter", u, out);
}
static nx_status invert_slice(worker *w, const undo *u, nx_value *out) {
    return scatter(w, "aten::slice_scatter", u, out);
}
static nx_status invert_diagonal(worker *w, const undo *u, nx_value *out) {
    return scatter(w, "aten::diagonal_scatter", u, out);
}

static nx_status invert_pairs(worker *w, const undo *u, nx_value *out) {
    nx_value pairs = *u->value, args[] = {*u->value, {.tag = NX_TAG_MEMORY_FORMAT, .i = 0}};
    if (!fake_of(u->value)->a.contiguous) NX_TRY(emit_named(w, "aten::clone", args, 2, &pairs));
    return emit_named(w, "aten::view_as_complex", &pairs, 1, out);
}
static nx_status invert_complex(worker *w, const undo *u, nx_value *out) {
    return emit_named(w, "aten::view_as_real", u->value, 1, out);
}

/* One of several parts along a dimension. */
static nx_status invert_part(worker *w, const undo *u, nx_value *out) {
    const nx_value *dim = &u->view->args[2];
    int64_t start = 0;
    for (int k = 0; k < u->result; k++) {
        const nx_array *part = &u->view->fakes[k]->a;
        start += part->sizes[dim->i < 0 ? dim->i + part->ndim : dim->i];
    }
    const nx_array *own = &u->view->fakes[u->result]->a;
    int64_t end = start + own->sizes[dim->i < 0 ? dim->i + own->ndim : dim->i];
    nx_value in[] = {*u->base, *u->value, *dim, nx_value_int(start), nx_value_int(end), nx_value_int(1)};
    return emit_named(w, "aten::slice_scatter", in, 6, out);
}
static nx_status invert_unbind(worker *w, const undo *u, nx_value *out) {
    nx_value in[] = {*u->base, *u->value, u->view->args[1], nx_value_int(u->result)};
    return emit_named(w, "aten::select_scatter", in, 4, out);
}

static const struct {
    const char *view;
    nx_status (*invert)(worker *w, const undo *u, nx_value *out);
} inverses[] = {
    {"aten::t", invert_t},
    {"aten::view", invert_view},
    {"aten::expand", invert_expand},
    {"aten::detach", invert_same},
    {"aten::alias", invert_same},
    {"aten::transpose.int", invert_transpose},
    {"aten::permute", invert_permute},
    {"aten::unsqueeze", invert_unsqueeze},
    {"aten::squeeze.dim", invert_squeeze},
    {"aten::select.int", invert_select},
    {"aten::slice.Tensor", invert_slice},
    {"aten::diagonal", invert_diagonal},
    {"aten::view_as_real", invert_pairs},
    {"aten::view_as_complex", invert_complex},
    {"aten::split.Tensor", invert_part},
    {"aten::split_with_sizes", invert_part},
    {"aten::unbind.int", invert_unbind},
};

static nx_status invert(worker *w, const undo *u, nx_value *out) {
    const char *name = u->view->op->def->name;
    for (int i = 0; i < NX_COUNT(inverses); i++) {
        if (strcmp(inverses[i].view, name) == 0) return inverses[i].invert(w, u, out);
    }
    return refuse_view(w, u->view);
}

/* ---- places ---- */
static nx_status new_place(worker *w, int parent, const nx_node *view, nx_value value, int *out) {
    int index = w->places.n, root = parent < 0 ? index : w->places.at[parent].root;
    place p = {root, parent, view, value.n, value, parent < 0 ? 0 : w->versions.at[root], false};
    NX_TRY(nx_vec_push(&w->places, p));
    nx_status status = nx_vec_push(&w->versions, 0);
    if (status != NX_OK) w->places.n--;
    *out = index;
    return status;
}

static int place_index(const worker *w, const nx_node *node, int result) {
    return w->place_of[w->first[node->order] + result];
}

static nx_status read_place(worker *w, int index, nx_value *out);

/* Arguments of an old node as values of the new graph. */
static nx_status resolve(void *context, nx_node *node, int result, nx_value *out) {
    worker *w = context;
    int index = place_index(w, node, result);
    return index < 0 ? nx_fail(NX_RUNTIME, "functionalise: %s has no result %d", node->name, result)
                     : read_place(w, index, out);
}

static nx_status view_anew(worker *w, const place *p, const nx_value *base, nx_value *out) {
    nx_value in[64];
    if (p->view->n_args > NX_COUNT(in)) return nx_fail(NX_RUNTIME, "%s: too many arguments", p->view->op->def->name);
    for (int i = 0; i < p->view->n_args; i++) in[i] = p->view->args[i];
    in[0] = *base;
    NX_TRY(emit(w, p->view->op, in, NULL, out));
    out->n = p->result;
    return NX_OK;
}

/* From a place up to the first one that is still right, then down again: chains may be long. */
static nx_status read_place(worker *w, int index, nx_value *out) {
    int begin = w->chain.n;
    nx_status status = NX_OK;
    for (int at = index; status == NX_OK;) {
        const place *p = &w->places.at[at];
        if (p->parent < 0 || p->version == w->versions.at[p->root]) break;
        status = nx_vec_push(&w->chain, at);
        at = p->parent;
    }
    for (; w->chain.n > begin && status == NX_OK; w->chain.n--) {
        place *p = &w->places.at[w->chain.at[w->chain.n - 1]];
        status = view_anew(w, p, &w->places.at[p->parent].value, &p->value);
        p->version = w->versions.at[p->root];
    }
    *out = w->places.at[index].value;
    return status;
}

static nx_status write_place(worker *w, int index, nx_value value) {
    int version = w->versions.at[w->places.at[index].root] + 1;
    for (int at = index; at >= 0; at = w->places.at[at].parent) {
        const place *p = &w->places.at[at];
        nx_value base, above = value;
        if (p->parent >= 0) {
            NX_TRY(read_place(w, p->parent, &base));
            NX_TRY(invert(w, &(undo){p->view, p->result, &base, &value}, &above));
        }
        w->places.at[at].value = value;
        value = above;
    }
    for (int at = index; at >= 0; at = w->places.at[at].parent) w->places.at[at].version = version;
    w->versions.at[w->places.at[index].root] = version;
    return NX_OK;
}

/* ---- writing calls ---- */
/* The functional form's result; without such a form the call itself, on memory that nobody else sees. */
static nx_status emit_functional(worker *w, const nx_op *op, nx_value *in, int written, nx_value *out) {
    if (op->functional && op->def->variant != NX_OUT) return emit(w, op->functional, in, NULL, out);
    if (op->functional && op->functional->def->n_in == op->def->n_in - 1 && written == op->def->n_in - 1)
        return emit(w, op->functional, in, NULL, out);
    if (op->def->n_out != 1)
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: not there yet in a compiled function", op->def->name);
    NX_TRY(emit_named(w, op->def->flags & NX_OP_OVERWRITES ? "aten::empty_like" : "aten::clone", &in[written],
                      1, &in[written]));
    return emit(w, op, in, NULL, out);
}

/* The written tensor keeps its dtype and layout, whatever the functional form gives; later views rely on it. */
static nx_status fit_written(worker *w, const nx_op *op, const nx_value *old, nx_value *value) {
    const nx_tensor *fake = fake_of(value), *before = fake_of(old);
    bool same = fake->a.ndim == before->a.ndim;
    for (int d = 0; same && d < fake->a.ndim; d++) same = fake->a.sizes[d] == before->a.sizes[d];
    if (!same)
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: resizing a tensor in a compiled function is not there yet",
                       op->def->name);
    if (fake->a.numel > 0 && nx_is_dense(&before->a) && !nx_same_strides(&fake->a, &before->a)) {
        nx_value in[] = {*old, *value};
        return emit_named(w, "aten::copy", in, 2, value);
    }
    if (fake->a.dtype == before->a.dtype) return NX_OK;
    nx_value in[] = {*value, nx_value_dtype((nx_dtype)before->a.dtype)};
    return emit_named(w, "aten::_to_copy", in, 2, value);
}

static nx_status do_write(worker *w, const nx_node *node, nx_value *in, uint64_t mask) {
    int written = __builtin_ctzll(mask);
    if ((mask & (mask - 1)) || node->args[written].tag != NX_TAG_NODE || node->n_results != 1)
        return nx_fail(NX_NOT_IMPLEMENTED,
                       "%s: writing several tensors in a compiled function is not there yet",
                       node->op->def->name);
    int index = place_index(w, node->args[written].node, node->args[written].n);
    nx_value value, old = in[written];
    NX_TRY(emit_functional(w, node->op, in, written, &value));
    NX_TRY(fit_written(w, node->op, &old, &value));
    NX_TRY(write_place(w, index, value));
    w->place_of[w->first[node->order]] = index; /* the result is the written tensor itself */
    return NX_OK;
}

static nx_status call_resolved(worker *w, const nx_node *node, nx_value *in) {
    const nx_op *op = node->op;
    nx_value value;
    NX_TRY(nx_args_resolve(node->args, node->n_args, resolve, w, in));
    uint64_t written = nx_op_written(op);
    if (written) return do_write(w, node, in, written);
    NX_TRY(emit(w, op, in, node->name, &value));
    bool is_view = op->def->kind == NX_KIND_VIEW && node->args[0].tag == NX_TAG_NODE;
    int parent = is_view ? place_index(w, node->args[0].node, node->args[0].n) : -1;
    for (int k = 0; k < node->n_results; k++)
        NX_TRY(new_place(w, parent, is_view ? node : NULL, nx_value_node(value.node, k),
                         &w->place_of[w->first[node->order] + k]));
    return NX_OK;
}

static nx_status do_call(worker *w, const nx_node *node) {
    nx_value few[64], *in = few;
    if (node->op == NULL) return nx_fail(NX_NOT_IMPLEMENTED, "functionalise: %s calls no operator", node->name);
    int room = nx_args_room(node->args, node->n_args);
    if (room > NX_COUNT(few)) in = nx_alloc(sizeof *in * (size_t)room);
    if (in == NULL) return nx_fail_memory(sizeof *in * (size_t)room);
    nx_status status = call_resolved(w, node, in);
    if (in != few) nx_free(in);
    return status;
}

static nx_status do_leaf(worker *w, const nx_node *node) {
    nx_map map = {0};
    nx_node *copy;
    nx_status status = nx_graph_copy_node(w->graph, node, &map, &copy);
    nx_map_free(&map);
    if (status != NX_OK) return status;
    if (node->kind == NX_NODE_PLACEHOLDER) {
        if (w->places.n != w->inputs.n)
            return nx_fail(NX_RUNTIME, "functionalise: %s stands behind what is no input", node->name);
        NX_TRY(nx_vec_push(&w->inputs, copy));
    }
    return new_place(w, -1, NULL, nx_value_node(copy, 0), &w->place_of[w->first[node->order]]);
}

/* ---- the end: results, copies back, what the caller is told ---- */
static bool is_written(const worker *w, int input) { return w->versions.at[input] > 0; }

static nx_status new_aliases(int n_outputs, int n_inputs, nx__aliases *aliases) {
    size_t n = (size_t)n_outputs + 1;
    aliases->alias_of = nx_alloc(sizeof(int) * n);
    aliases->same_as_input = nx_alloc_zeroed(n);
    aliases->mutated = nx_alloc(sizeof(int) * ((size_t)n_inputs + 1));
    if (!aliases->alias_of || !aliases->same_as_input || !aliases->mutated)
        return nx_fail_memory(sizeof(int) * n);
    aliases->n_outputs = n_outputs;
    return NX_OK;
}

static nx_status describe(const worker *w, const nx_node *output, nx__aliases *aliases) {
    NX_TRY(new_aliases(output->n_args, w->inputs.n, aliases));
    for (int i = 0; i < output->n_args; i++) {
        int index = place_index(w, output->args[i].node, output->args[i].n), root = w->places.at[index].root;
        aliases->alias_of[i] = root < w->inputs.n ? root : -1;
        aliases->same_as_input[i] = root < w->inputs.n && index == root;
    }
    for (int i = 0; i < w->inputs.n; i++) {
        if (is_written(w, i)) aliases->mutated[aliases->n_mutated++] = i;
    }
    return NX_OK;
}

/* The newest value of a place as views of its root's, however it was written; each view once. */
static nx_status view_again(worker *w, int index, nx_value *out) {
    nx_status status = NX_OK;
    int begin = w->chain.n;
    for (int at = index; w->places.at[at].parent >= 0 && !w->places.at[at].is_result && status == NX_OK; at = w->places.at[at].parent)
        status = nx_vec_push(&w->chain, at);
    for (; w->chain.n > begin && status == NX_OK; w->chain.n--) {
        place *p = &w->places.at[w->chain.at[w->chain.n - 1]];
        status = view_anew(w, p, &w->places.at[p->parent].value, &p->value);
        p->is_result = true;
    }
    *out = w->places.at[index].value;
    return status;
}

/* A result that shares written memory is a chain of views of its newest value, so that results share it as in
 * eager mode, in eager mode's layout; of an input's the caller takes the same views of the real input. */
static nx_status result_value(worker *w, const nx_value *result, nx_value *out) {
    int index = place_index(w, result->node, result->n), root = w->places.at[index].root;
    return w->versions.at[root] > 0 ? view_again(w, index, out) : read_place(w, index, out);
}

static nx_status do_output(worker *w, const nx_node *output) {
    size_t bytes = sizeof(nx_value) * (size_t)(output->n_args + 1);
    nx_value *results = nx_alloc(bytes), copy;
    nx_status status = NX_OK;
    if (results == NULL) return nx_fail_memory(bytes);
    for (int i = 0; i < output->n_args && status == NX_OK; i++) {
        if (output->args[i].tag != NX_TAG_NODE)
            status = nx_fail(NX_RUNTIME, "functionalise: result %d is not a node", i);
        else status = result_value(w, &output->args[i], &results[i]);
    }
    for (int i = 0; i < w->inputs.n && status == NX_OK; i++) {
        nx_value in[] = {nx_value_node(w->inputs.at[i], 0), w->places.at[i].value};
        if (is_written(w, i)) status = emit_named(w, "aten::copy_", in, 2, &copy);
    }
    if (status == NX_OK) status = nx_graph_output(w->graph, results, output->n_args);
    nx_free(results);
    return status;
}

static nx_status do_nodes(worker *w, const nx_graph *graph) {
    for (const nx_node *node = graph->first; node; node = node->next) {
        w->node = node;
        if (node->kind == NX_NODE_OUTPUT) NX_TRY(do_output(w, node));
        else if (node->kind == NX_NODE_PLACEHOLDER || node->kind == NX_NODE_GET_ATTR)
            NX_TRY(do_leaf(w, node));
        else NX_TRY(do_call(w, node));
    }
    return NX_OK;
}

static nx_status prepare(worker *w, nx_graph *graph) {
    int n = 0;
    nx_graph_number(graph);
    size_t bytes = sizeof(int) * (size_t)(graph->n_nodes + 1);
    if ((w->first = nx_alloc(bytes)) == NULL) return nx_fail_memory(bytes);
    for (const nx_node *node = graph->first; node; node = node->next) {
        w->first[node->order] = n;
        n += node->n_results;
    }
    bytes = sizeof(int) * (size_t)(n + 1);
    if ((w->place_of = nx_alloc(bytes)) == NULL) return nx_fail_memory(bytes);
    for (int i = 0; i < n; i++) w->place_of[i] = -1;
    return nx_graph_new(&w->graph);
}

/* ---- a graph that writes nothing is functional already; only its results are looked at ---- */
nx_status nx__find_writes(const nx_graph *graph, bool *any) {
    *any = false;
    for (const nx_node *node = graph->first; node; node = node->next) {
        bool is_call = node->kind != NX_NODE_PLACEHOLDER && node->kind != NX_NODE_GET_ATTR &&
            node->kind != NX_NODE_OUTPUT;
        if (is_call && node->op == NULL)
            return nx_fail(NX_NOT_IMPLEMENTED, "functionalise: %s calls no operator", node->name);
        *any = *any || (node->op && nx_op_written(node->op));
    }
    return NX_OK;
}

static nx_status describe_unwritten(const nx_graph *graph, nx__aliases *aliases) {
    const nx_node *output = nx_graph_output_node(graph);
    NX_TRY(new_aliases(output->n_args, graph->n_inputs, aliases));
    size_t bytes = sizeof(int) * (size_t)graph->n_nodes;
    int *input_of = nx_alloc(bytes); /* by order: whose memory it lies in, -1 */
    if (input_of == NULL) return nx_fail_memory(bytes);
    for (const nx_node *node = graph->first; node; node = node->next) {
        bool is_view = node->op && node->op->def->kind == NX_KIND_VIEW && node->args[0].tag == NX_TAG_NODE;
        int own = node->kind == NX_NODE_PLACEHOLDER ? node->order : -1; /* they stand first */
        input_of[node->order] = is_view ? input_of[node->args[0].node->order] : own;
    }
    for (int i = 0; i < output->n_args; i++) {
        const nx_node *node = output->args[i].node;
        aliases->alias_of[i] = input_of[node->order];
        aliases->same_as_input[i] = node->kind == NX_NODE_PLACEHOLDER;
    }
    nx_free(input_of);
    return NX_OK;
}

nx_status nx__do_functionalise(nx_graph *graph, nx__aliases *aliases) {
    worker w = {0};
    bool writes;
    if (nx_graph_output_node(graph) == NULL)
        return nx_fail(NX_RUNTIME, "functionalise: the graph has no output");
    NX_TRY(nx__find_writes(graph, &writes));
    if (!writes) {
        nx_graph_number(graph);
        graph->level = NX_GRAPH_FUNCTIONAL;
        return aliases ? describe_unwritten(graph, aliases) : NX_OK;
    }
    nx_status status = prepare(&w, graph);
    if (status == NX_OK) status = do_nodes(&w, graph);
    if (status == NX_OK && aliases) status = describe(&w, nx_graph_output_node(graph), aliases);
    if (status == NX_OK) {
        w.graph->level = NX_GRAPH_FUNCTIONAL;
        nx_graph_swap(graph, w.graph);
    }
    nx_graph_free(w.graph);
    nx_vec_free(&w.places);
    nx_vec_free(&w.versions);
    nx_vec_free(&w.inputs);
    nx_vec_free(&w.chain);
    nx_free(w.first);
    nx_free(w.place_of);
    if (status != NX_OK && aliases) nx__aliases_free(aliases);
    return status;
}

void nx__aliases_free(nx__aliases *aliases) {
    nx_free(aliases->alias_of);
    nx_free(aliases->same_as_input);
    nx_free(aliases->mutated);
    *aliases = (nx__aliases){0};
}
