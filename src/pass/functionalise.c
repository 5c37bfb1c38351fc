/* Writes become new values. In: a flat graph of operators with views and in-place calls. Out: the same
 * results without writes, but for copy_ into the inputs that were written, at the end.
 * Every tensor of the old graph is a place: memory (root) and the views that lead to it. A write to a
 * place gives it a new value; other places over the same root are stale then. When one of them is next read,
 * the inverses of the views above the written place (`inverse` in their entries) give the new values there,
 * and the views that lead to the read one are taken again. */
#include "pass/private.h"

typedef struct place {
    int root;               /* index of the place that owns the memory; itself for new memory */
    int parent;             /* place that this is a view of, -1 */
    const nx_node *view;    /* old node that made the view */
    int result;             /* which of its results */
    nx_value value;         /* newest value in the new graph */
    int version;            /* of the root when it was right */
    int depth;              /* views between it and the root */
    const nx_node *writer;  /* old node that wrote it, or a view of it that its value has taken up */
    bool is_result;         /* its value was made for a result, at the end */
} place;
typedef struct worker {
    nx_graph *graph;        /* the new one */
    NX_VEC(place) places;
    NX_VEC(int) versions;   /* by place: of roots, how often they were written */
    NX_VEC(int) tops;       /* by place: of roots, the place that holds all writes, so that only views of it can be right */
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
    NX_TRY(nx_node_set_source(node, &w->node->source));
    *out = nx_value_node(node, 0);
    return NX_OK;
}

/* A call with the given arguments, the rest by default. */
static nx_status emit_known(worker *w, nx_known_op which, const nx_value *given, int n, nx_value *out) {
    const nx_op *op = nx_known(which);
    nx_value in[16];
    assert(op->def->n_in <= NX_COUNT(in) && n <= op->def->n_in);
    for (int i = 0; i < op->def->n_in; i++) in[i] = i < n ? given[i] : op->def->params[i].initial;
    return emit(w, op, in, NULL, out);
}

static const nx_tensor *fake_of(const nx_value *v) { return v->node->fakes[v->n]; }

/* ---- inverses: the base's new value from the view's ---- */
/* Whether no two elements of the view lie in one place: each dimension's step passes over all of the smaller ones. Else the
 * value does not tell which of the elements there was written. */
static bool lies_apart(const nx_array *a) {
    bool taken[NX_MAX_DIMS] = {0};
    int64_t reach = 0; /* of the dimensions that are taken */
    if (a->numel == 0) return true;
    for (int n = 0; n < a->ndim; n++) {
        int least = -1;
        for (int d = 0; d < a->ndim; d++) {
            if (!taken[d] && (least < 0 || a->strides[d] < a->strides[least])) least = d;
        }
        taken[least] = true;
        if (a->sizes[least] <= 1) continue;
        if (a->strides[least] <= reach) return false;
        reach += a->strides[least] * (a->sizes[least] - 1);
    }
    return true;
}

/* Runs the inverse that the view's entry says on fakes of the two values; what it calls is recorded into the new graph. */
static nx_status run_inverse(nx_tracer *tracer, const place *p, const nx_value *base, const nx_value *value, nx_value *out) {
    const nx_node *view = p->view;
    nx_value in[64];
    nx_tensor *viewed = NULL, *changed = NULL, *made = NULL;
    nx_status status;
    if (view->n_args > NX_COUNT(in)) return nx_fail(NX_RUNTIME, "%s: too many arguments", view->op->def->name);
    NX_TRY_FAIL(nx_fake_like(fake_of(base), &viewed));
    NX_TRY_FAIL(nx_fake_like(fake_of(value), &changed));
    NX_TRY_FAIL(nx_tracer_bind(tracer, viewed, base->node, base->n));
    NX_TRY_FAIL(nx_tracer_bind(tracer, changed, value->node, value->n));
    for (int i = 0; i < view->n_args; i++) in[i] = view->args[i];
    in[0] = nx_value_tensor(viewed);
    NX_TRY_FAIL(view->op->def->inverse(in, p->result, changed, &made));
    if (!nx_tracer_find(tracer, made, out)) status = nx_fail(NX_RUNTIME, "%s: its inverse is no call", view->op->def->name);
fail:
    if (viewed) nx_tensor_unref(viewed);
    if (changed) nx_tensor_unref(changed);
    if (made) nx_tensor_unref(made);
    return status;
}

/* Whether the view means the same of a new value of its base: a view by places does where that lies as the old one did. */
static bool holds_of(const nx_node *view, const nx_value *base) {
    const nx_tensor *new = fake_of(base), *old = fake_of(&view->args[0]);
    if (!(view->op->def->flags & NX_OP_BY_PLACES)) return true;
    return new->offset == old->offset && nx_same_size(&new->a, &old->a) && nx_same_strides(&new->a, &old->a);
}

static nx_status invert(worker *w, const place *p, const nx_value *base, const nx_value *value, nx_value *out) {
    const nx_op_def *view = p->view->op->def;
    if (!lies_apart(&p->view->fakes[p->result]->a))
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: writing through %s, whose elements share their memory, in a compiled function is "
                       "not there yet: write to a copy", p->writer->op->def->name, view->name);
    if (view->inverse == NULL || !holds_of(p->view, base))
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: writing through %s in a compiled function is not there yet: write to a copy",
                       p->writer->op->def->name, view->name);
    nx_tracer tracer = {.key = NX_KEY_AT_TRACE, .graph = w->graph};
    nx__calm before = nx__calm_begin(false);
    nx_thread *thread = nx_thread_get();
    const nx_source source = thread->source;
    thread->source = p->writer->source;
    nx_status status = nx_tracer_push(&tracer);
    if (status == NX_OK) status = run_inverse(&tracer, p, base, value, out);
    nx_tracer_pop(&tracer);
    thread->source = source;
    nx__calm_end(before);
    return status;
}

/* ---- places ---- */
static nx_status new_place(worker *w, int parent, const nx_node *view, nx_value value, int *out) {
    int index = w->places.n, root = parent < 0 ? index : w->places.at[parent].root;
    place p = {root, parent, view, value.n, value, parent < 0 ? 0 : w->versions.at[root],
               parent < 0 ? 0 : w->places.at[parent].depth + 1, NULL, false};
    NX_TRY(nx_vec_push(&w->places, p));
    nx_status status = nx_vec_push(&w->versions, 0);
    if (status == NX_OK && (status = nx_vec_push(&w->tops, index)) != NX_OK) w->versions.n--;
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
    if (!holds_of(p->view, base))
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: its base was written in a compiled function and lies in another way since then: "
                       "take it of a copy", p->view->op->def->name);
    for (int i = 0; i < p->view->n_args; i++) in[i] = p->view->args[i];
    in[0] = *base;
    NX_TRY(emit(w, p->view->op, in, NULL, out));
    out->n = p->result;
    return NX_OK;
}

/* Where dimensions of one place leave open whether an array lies row by row or channels last, their steps tell which is meant, and
 * convolutions ask. The new value keeps them. */
static nx_status keep_format(worker *w, const nx_value *old, nx_value *value) {
    const nx_array *before = &fake_of(old)->a, *after = &fake_of(value)->a;
    bool as_before = memcmp(before->strides, after->strides, sizeof *before->strides * (size_t)before->ndim) == 0;
    if (as_before || before->numel == 0 || !nx_is_channels_last(before)) return NX_OK;
    nx_value in[] = {*old, *value};
    return emit_known(w, NX_KNOWN_COPY, in, 2, value);
}

/* The top's parent takes up what was written below it: it was right but for what the top shows. */
static nx_status lift_top(worker *w, int root) {
    const place *top = &w->places.at[w->tops.at[root]];
    place *parent = &w->places.at[top->parent];
    nx_value value;
    NX_TRY(invert(w, top, &parent->value, &top->value, &value));
    NX_TRY(keep_format(w, &parent->value, &value));
    parent->value = value;
    parent->version = w->versions.at[root];
    parent->writer = top->writer;
    w->tops.at[root] = top->parent;
    return NX_OK;
}

/* Lifts the top until the place is a view of it, or it itself. */
static nx_status lift_to(worker *w, int index) {
    int root = w->places.at[index].root, at = index;
    for (;;) {
        int top = w->tops.at[root];
        while (w->places.at[at].depth > w->places.at[top].depth) at = w->places.at[at].parent;
        if (at == top) return NX_OK;
        NX_TRY(lift_top(w, root));
    }
}

/* From a place up to the first one that is still right, then down again: chains may be long. */
static nx_status read_place(worker *w, int index, nx_value *out) {
    int begin = w->chain.n;
    nx_status status = NX_OK;
    if (w->places.at[index].version != w->versions.at[w->places.at[index].root]) status = lift_to(w, index);
    for (int at = index; status == NX_OK;) {
        const place *p = &w->places.at[at];
        if (p->version == w->versions.at[p->root]) break;
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

/* The place was read just before, so that what lies above it is right but for what is written now; it takes that up when it is
 * read (lift_top): n writes through a chain of k views take n + k calls. */
static void write_place(worker *w, int index, nx_value value) {
    place *p = &w->places.at[index];
    p->value = value;
    p->writer = w->node;
    p->version = ++w->versions.at[p->root];
    w->tops.at[p->root] = index;
}

/* ---- writing calls ---- */
/* The functional form's result; without such a form the call itself, on memory that nobody else sees. */
static nx_status emit_functional(worker *w, const nx_op *op, nx_value *in, int written, nx_value *out) {
    if (op->functional && op->def->variant != NX_OUT) return emit(w, op->functional, in, NULL, out);
    if (op->functional && op->functional->def->n_in == op->def->n_in - 1 && written == op->def->n_in - 1)
        return emit(w, op->functional, in, NULL, out);
    if (op->def->n_out != 1)
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: not there yet in a compiled function", op->def->name);
    NX_TRY(emit_known(w, op->def->flags & NX_OP_OVERWRITES ? NX_KNOWN_EMPTY : NX_KNOWN_CLONE, &in[written], 1, &in[written]));
    return emit(w, op, in, NULL, out);
}

/* Whether the dimensions of two arrays of one size lie in the same order in memory. */
static bool same_order(const nx_array *a, const nx_array *b) {
    for (int d = 0; d < a->ndim; d++) {
        for (int k = 0; k < d; k++) {
            bool counts = a->sizes[d] > 1 && a->sizes[k] > 1;
            if (counts && (a->strides[d] < a->strides[k]) != (b->strides[d] < b->strides[k])) return false;
        }
    }
    return true;
}

/* The written tensor keeps its dtype and layout, whatever the functional form gives; later views rely on it. A part of a tensor, which
 * has gaps, keeps the order of its dimensions, which results that are computed from it have, too. */
static nx_status fit_written(worker *w, const nx_op *op, const nx_value *old, nx_value *value) {
    const nx_tensor *fake = fake_of(value), *before = fake_of(old);
    bool same = fake->a.ndim == before->a.ndim;
    for (int d = 0; same && d < fake->a.ndim; d++) same = fake->a.sizes[d] == before->a.sizes[d];
    if (!same)
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: resizing a tensor in a compiled function is not there yet",
                       op->def->name);
    bool lies_right = nx_is_dense(&before->a) ? nx_same_strides(&fake->a, &before->a) : same_order(&fake->a, &before->a);
    if (fake->a.numel > 0 && !lies_right) {
        nx_value in[] = {*old, *value};
        return emit_known(w, NX_KNOWN_COPY, in, 2, value);
    }
    if (fake->a.dtype != before->a.dtype) {
        nx_value in[] = {*value, nx_value_dtype((nx_dtype)before->a.dtype)};
        NX_TRY(emit_known(w, NX_KNOWN_CAST, in, 2, value));
    }
    return keep_format(w, old, value);
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
    write_place(w, index, value);
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
    if (w->versions.at[root] == 0) return read_place(w, index, out);
    NX_TRY(read_place(w, root, out));
    return view_again(w, index, out);
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
    for (int i = 0; i < w->inputs.n && status == NX_OK; i++) status = read_place(w, i, &copy); /* no call between the copies */
    for (int i = 0; i < w->inputs.n && status == NX_OK; i++) {
        nx_value in[] = {nx_value_node(w->inputs.at[i], 0), w->places.at[i].value};
        if (is_written(w, i)) status = emit_known(w, NX_KNOWN_COPY_INTO, in, 2, &copy);
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
    nx_vec_free(&w.tops);
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
