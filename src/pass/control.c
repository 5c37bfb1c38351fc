/* Control flow that elements decide: calls that hold graphs.
 *   narthex::cond(pred, inputs, others, then, otherwise) -> results
 *   narthex::while_loop(carried, inputs, others, condition, body) -> carried
 *   narthex::gradients(inputs, tangents, place, beside, wanted, graph) -> gradients
 * On tensors the branch that is taken is run as a graph, or the body as long as the condition says; what these call is recorded and
 * differentiated as anything else. Without elements (a trace, AOT) the call stands in the graph, at every level, and has one node of
 * the backward graph, whose backward is a call as well: `gradients` runs a graph again, which is the first call alone, with its
 * history recorded and its random numbers drawn again from `place`, and gives the gradients of inputs[wanted[k]] for `tangents`, one
 * for each result that can have one. Its own derivative is another one. Nothing is computed of the branch that is not taken.
 * What must hold: the graphs write nothing that is not theirs; branches give as many results as each other, of the same sizes and
 * dtypes, a body gives what it was given; results are new memory, row by row. Read next: py/notes/region.c. */
#include "pass/private.h"

enum { INPUTS, TANGENTS, PLACE, BESIDE, WANTED, GRAPH, N_ARGS };
static const char gradients_name[] = "narthex::gradients";

const nx_op *nx__draw_from(void) { return nx_op_get("narthex::draw_from"); } /* ops/random/place.c */

/* ---- lists of tensors ------------------------------------------------------------------------------------------------------ */
static void drop(nx_tensor **at, int n) {
    for (int k = 0; k < n; k++) {
        nx_tensor_unref(at[k]);
        at[k] = NULL;
    }
}

/* Room for n results; the next one is taken, or a fake of that size, row by row. */
static nx_status results_new(int n, nx_value *out) {
    nx_value *list = nx_alloc_zeroed(sizeof *list * (size_t)(n + 1));
    *out = nx_value_list(list, 0);
    return list ? NX_OK : nx_fail_memory(sizeof *list * (size_t)n);
}

static void results_take(nx_value *list, nx_tensor **tensor) {
    ((nx_value *)list->list)[list->n++] = nx_value_tensor(*tensor);
    *tensor = NULL;
}

static nx_status results_add_fake(nx_value *list, const nx_tensor *like) {
    nx_meta meta;
    nx_tensor *fake;
    nx_meta_of(&like->a, &meta);
    nx_meta_contiguous(&meta);
    NX_TRY(nx_fake_new(&meta, 0, &fake));
    results_take(list, &fake);
    return NX_OK;
}

static bool is_alone(nx_count *refs) { return atomic_load_explicit(refs, memory_order_acquire) == 1; }

/* It lies row by row, and is_result: in memory that nothing else has. Else a copy takes its place. */
static nx_status make_new(nx_tensor **tensor, bool is_result) {
    nx_tensor *before = *tensor;
    bool alone = !is_result || (is_alone(&before->refs) && before->storage && is_alone(&before->storage->refs) && !before->storage->shown);
    nx_value made;
    if (alone && before->a.contiguous) return NX_OK;
    NX_TRY(nx_op_call(nx_known(NX_KNOWN_CLONE), (nx_value[]){nx_value_tensor(before), {.tag = NX_TAG_MEMORY_FORMAT, .i = 0}}, &made));
    *tensor = made.tensor;
    nx_tensor_unref(before);
    return NX_OK;
}

/* ---- gradients, on tensors ---------------------------------------------------------------------------------------------------------- */
/* All that one call works with; tensors are owned but for the seeds. */
typedef struct way {
    bool again;                  /* gradients are differentiated again */
    int n, n_out, n_wanted, n_roots;
    nx_tensor **inputs, **results, **wanted, **found, **roots, **seeds;
    nx_tensor **room;
} way;

static nx_status make_room(way *w, const nx_value *in) {
    w->n = in[INPUTS].n;
    w->n_out = nx_graph_output_node(nx_graph_of_value(&in[GRAPH]))->n_args;
    w->n_wanted = in[WANTED].n;
    size_t n = (size_t)(w->n + 3 * w->n_out + 2 * w->n_wanted + 1);
    if (!(w->room = nx_alloc_zeroed(sizeof *w->room * n))) return nx_fail_memory(sizeof *w->room * n);
    w->inputs = w->room;
    w->results = w->inputs + w->n;
    w->roots = w->results + w->n_out;
    w->seeds = w->roots + w->n_out;
    w->wanted = w->seeds + w->n_out;
    w->found = w->wanted + w->n_wanted;
    return NX_OK;
}

/* The input apart from its history: a leaf, or, where gradients are differentiated again, what depends on it and on nothing else. */
static nx_status stand_apart(const way *w, nx_tensor *input, bool is_wanted, nx_tensor **out) {
    nx_value of = nx_value_tensor(input), made = NX_VALUE_NONE;
    if (w->again && nx_tensor_requires_grad(input)) {
        NX_TRY(nx_op_call(nx_known(NX_KNOWN_ALIAS), &of, &made));
        *out = made.tensor;
        return NX_OK;
    }
    NX_TRY(nx_tensor_alias(input, out));
    return is_wanted ? nx_tensor_set_requires_grad(*out, true) : NX_OK;
}

static nx_status run_again(way *w, const nx_value *in) {
    const nx_value *wanted = &in[WANTED];
    for (int k = 0, at = 0; k < w->n; k++) {
        bool is_wanted = at < wanted->n && wanted->ints[at] == k;
        NX_TRY(stand_apart(w, in[INPUTS].list[k].tensor, is_wanted, &w->inputs[k]));
        if (is_wanted) w->wanted[at++] = w->inputs[k];
    }
    NX_TRY(nx_graph_run(nx_graph_of_value(&in[GRAPH]), w->inputs, w->n, w->results, w->n_out));
    for (int k = 0, at = 0; k < w->n_out; k++) {
        if (!nx_is_differentiable((nx_dtype)w->results[k]->a.dtype)) continue;
        nx_tensor *seed = in[TANGENTS].list[at++].tensor;
        if (!nx_tensor_requires_grad(w->results[k])) continue;
        w->roots[w->n_roots] = w->results[k];
        w->seeds[w->n_roots++] = seed;
    }
    return NX_OK;
}

/* The draws between two such calls are the forward's. */
static nx_status set_place(const nx_value *place, const nx_value *beside, nx_value *before) {
    if (place->tag == NX_TAG_NONE) return NX_OK;
    return nx_op_call(nx__draw_from(), (nx_value[]){*place, *beside}, before);
}

static nx_status differentiate(way *w, const nx_value *in) {
    nx_value before = NX_VALUE_NONE, end = NX_VALUE_NONE;
    NX_TRY(set_place(&in[PLACE], &in[BESIDE], &before));
    nx_status status = run_again(w, in);
    if (status == NX_OK) status = set_place(&before, &in[BESIDE], &end);
    nx_value_drop(&before);
    nx_value_drop(&end);
    if (status == NX_OK && w->n_roots && w->n_wanted)
        status = nx_grad_run(w->roots, w->seeds, w->n_roots, false, w->again, w->wanted, w->n_wanted, w->found);
    drop(w->results, w->n_out);
    drop(w->inputs, w->n);
    return status;
}

static nx_status take_found(const way *w, const nx_value *in, nx_value *out) {
    for (int k = 0; k < w->n_wanted; k++) {
        if (!w->found[k]) NX_TRY(nx_fake_zeros(in[INPUTS].list[in[WANTED].ints[k]].tensor, &w->found[k]));
        NX_TRY(make_new(&w->found[k], true));
        results_take(out, &w->found[k]);
    }
    return NX_OK;
}

static bool any_requires_grad(const nx_value *in, int n) {
    for (int k = 0; k < n; k++) {
        if (in[k].tag == NX_TAG_TENSOR && nx_tensor_requires_grad(in[k].tensor)) return true;
        if (in[k].tag == NX_TAG_LIST && any_requires_grad(in[k].list, in[k].n)) return true;
    }
    return false;
}

static nx_status call_gradients(nx_run *run, const nx_value *in, nx_value *out) {
    nx_thread *thread = nx_thread_get();
    uint64_t excluded = thread->keys_excluded;
    bool enabled = nx_grad_enabled();
    way w = {.again = enabled && !(excluded & NX_KEY(AUTOGRAD)) && any_requires_grad(in, N_ARGS)};
    nx_status status = results_new(in[WANTED].n, out);
    if (status == NX_OK) status = make_room(&w, in);
    thread->keys_excluded = (excluded & ~NX_KEY(AUTOGRAD)) | NX_KEY(AUTOCAST);
    nx_grad_set_enabled(true);
    if (status == NX_OK) status = differentiate(&w, in);
    nx_grad_set_enabled(w.again);
    if (status == NX_OK) status = take_found(&w, in, out);
    nx_grad_set_enabled(enabled);
    thread->keys_excluded = excluded;
    if (w.room) drop(w.found, w.n_wanted);
    nx_free(w.room);
    if (status != NX_OK) nx_value_drop(out);
    return status;
}

static nx_status fake_gradients(nx_run *run, const nx_value *in, nx_value *out) {
    nx_status status = results_new(in[WANTED].n, out);
    for (int k = 0; k < in[WANTED].n && status == NX_OK; k++) {
        status = results_add_fake(out, in[INPUTS].list[in[WANTED].ints[k]].tensor);
    }
    if (status != NX_OK) nx_value_drop(out);
    return status;
}

/* ---- the node of the backward graph ---------------------------------------------------------------------------------------- */
/* What it keeps: the tensors of the call in order, whose edges it has, where they drew, and the call as a graph. They are fakes of a
 * trace, which packs nothing. */
typedef struct held { nx_tensor *tensor; uint32_t version; } held;
typedef struct kept {
    nx_grad_class class;      /* of this node alone: it carries the name */
    nx_value graph, place, beside;
    char name[64];
    int n_held;
    held held[];
} kept;

static void release(nx_grad_node *node) {
    kept *own = node->context;
    while (own->n_held > 0) nx_tensor_unref(own->held[--own->n_held].tensor);
    nx_value_drop(&own->graph);
    nx_value_drop(&own->place);
    nx_value_drop(&own->beside);
}

static void end(nx_grad_node *node) { nx_free(node->context); }

typedef struct back { nx_value *inputs, *tangents; int64_t *wanted; int n_tangents, n_wanted; } back;

/* The tangents are owned. */
static nx_status gather(nx_grad_node *node, nx_tensor *const *g, back *b) {
    const kept *own = node->context;
    const nx_graph *graph = nx_graph_of_value(&own->graph);
    for (int e = 0; e < node->n_edges; e++) {
        const held *at = &own->held[e];
        const nx_autograd *made = at->tensor->autograd;
        NX_TRY(nx_grad_check_version(at->tensor, at->version, made ? made->node : NULL, made ? made->output : 0));
        b->inputs[e] = nx_value_tensor(at->tensor);
        if (node->edges[e].node) b->wanted[b->n_wanted++] = e;
    }
    for (int k = 0; k < node->n_inputs; k++) {
        const nx_tensor *like = nx_graph_output_fake(graph, k);
        nx_tensor *tangent;
        if (!nx_is_differentiable((nx_dtype)like->a.dtype)) continue;
        if (g[k]) tangent = nx_tensor_ref(g[k]);
        else NX_TRY(nx_fake_zeros(like, &tangent));
        b->tangents[b->n_tangents++] = nx_value_tensor(tangent);
    }
    return NX_OK;
}

static nx_status apply(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    const kept *own = node->context;
    size_t n = (size_t)(node->n_edges + node->n_inputs + 1);
    size_t bytes = sizeof(nx_value) * n + sizeof(int64_t) * (size_t)(node->n_edges + 1);
    back b = {.inputs = nx_alloc_zeroed(bytes)};
    nx_value out;
    if (!b.inputs) return nx_fail_memory(bytes);
    b.tangents = b.inputs + node->n_edges;
    b.wanted = (int64_t *)(b.inputs + n);
    nx_status status = gather(node, g, &b);
    if (status == NX_OK) {
        const nx_value in[N_ARGS] = {[INPUTS] = nx_value_list(b.inputs, node->n_edges),
                                     [TANGENTS] = nx_value_list(b.tangents, b.n_tangents),
                                     [PLACE] = own->place,
                                     [BESIDE] = own->beside,
                                     [WANTED] = nx_value_ints(b.wanted, b.n_wanted),
                                     [GRAPH] = own->graph};
        status = nx_op_call(nx_op_get(gradients_name), in, &out);
    }
    if (status == NX_OK) {
        for (int k = 0; k < b.n_wanted; k++) grads[b.wanted[k]] = nx_tensor_ref(out.list[k].tensor);
        nx_value_drop(&out);
    }
    for (int k = 0; k < b.n_tangents; k++) nx_tensor_unref(b.tangents[k].tensor);
    nx_free(b.inputs);
    return status;
}

/* Of `n` values, each tensor in order, also inside lists. */
typedef nx_status each_fn(void *context, const nx_value *tensor, nx_value *to);
static nx_status each_tensor(const nx_value *in, int n, each_fn *fn, void *context, nx_value *to, nx_value **spare) {
    for (int k = 0; k < n; k++) {
        to[k] = in[k];
        if (in[k].tag == NX_TAG_TENSOR) NX_TRY(fn(context, &in[k], &to[k]));
        if (in[k].tag != NX_TAG_LIST) continue;
        nx_value *list = *spare;
        *spare += in[k].n;
        NX_TRY(each_tensor(in[k].list, in[k].n, fn, context, list, spare));
        to[k] = nx_value_list(list, in[k].n);
    }
    return NX_OK;
}

static nx_status count_tensor(void *context, const nx_value *tensor, nx_value *to) { return ++*(int *)context, NX_OK; }

static nx_status hold(void *context, const nx_value *tensor, nx_value *to) {
    nx_grad_node *node = context;
    kept *own = node->context;
    int e = own->n_held++;
    own->held[e] = (held){nx_tensor_ref(tensor->tensor), nx_tensor_version(tensor->tensor)};
    return nx_tensor_requires_grad(tensor->tensor) ? nx_grad_edge(tensor->tensor, &node->edges[e]) : NX_OK;
}

static nx_status add_input(void *context, const nx_value *tensor, nx_value *to) {
    nx_graph *graph = context;
    nx_node *node;
    nx_tensor *fake;
    NX_TRY(nx_fake_like(tensor->tensor, &fake));
    nx_status status = nx_graph_input_like(graph, "primals", "primals", fake, &node);
    nx_tensor_unref(fake);
    if (status == NX_OK) *to = nx_value_node(node, 0);
    return status;
}

/* The call as a graph whose inputs are its tensors. */
static nx_status graph_of_call(const nx_op *op, const nx_value *in, nx_value *to, nx_value *out) {
    nx_graph *graph = NULL;
    nx_node *call;
    nx_value *spare = to + op->def->n_in;
    NX_TRY(nx_graph_new(&graph));
    graph->level = NX_GRAPH_FUNCTIONAL;
    nx_status status = each_tensor(in, op->def->n_in, add_input, graph, to, &spare);
    if (status == NX_OK) status = nx_graph_call_named(graph, op, to, NULL, &call);
    nx_value *results = status == NX_OK ? nx_alloc(sizeof *results * (size_t)(call->n_results + 1)) : NULL;
    if (status == NX_OK && !results) status = nx_fail_memory(sizeof *results);
    for (int k = 0; results && k < call->n_results; k++) results[k] = nx_value_node(call, k);
    if (status == NX_OK) status = nx_graph_output(graph, results, call->n_results);
    nx_free(results);
    if (status == NX_OK) return nx_value_of_graph(graph, out);
    nx_graph_free(graph);
    return status;
}

/* From where the call's graphs are about to draw; nothing where they do not. */
static nx_status note_place(const nx_op *op, const nx_value *in, nx_value *place, nx_value *beside) {
    nx_draws draws = {0};
    nx_text text = {0};
    char *name = NULL;
    for (int k = 0; k < op->def->n_in; k++)
        if (in[k].tag == NX_TAG_GRAPH) nx_graph_add_draws(nx_graph_of_value(&in[k]), &draws);
    if (!draws.any) return NX_OK;
    if (draws.given || draws.several)
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: gradients of numbers that a generator of the program's own, or several devices draw",
                       op->def->name);
    if (draws.device.type) {
        nx_text_device(&text, draws.device);
        NX_TRY(nx_text_take(&text, &name));
    }
    nx_value named = name ? nx_value_str(name) : NX_VALUE_NONE;
    nx_status status = nx_value_keep(&named, beside);
    nx_free(name);
    return status == NX_OK ? nx_op_call(nx__draw_from(), (nx_value[]){NX_VALUE_NONE, *beside}, place) : status;
}

/* place, beside: kept values that it takes. */
static nx_status make_node(const nx_op *op, const nx_value *in, int n_results, nx_value place, nx_value beside, nx_grad_node **out) {
    int n = 0, room = nx_args_room(in, op->def->n_in);
    nx_value *to = nx_alloc(sizeof *to * (size_t)(room + 1)), *spare = to + op->def->n_in;
    nx_status status = to ? each_tensor(in, op->def->n_in, count_tensor, &n, to, &spare) : nx_fail_memory(sizeof *to * (size_t)room);
    size_t bytes = sizeof(kept) + sizeof(held) * (size_t)(n + 1);
    kept *own = status == NX_OK ? nx_alloc_zeroed(bytes) : NULL;
    nx_grad_node *node = NULL;
    if (status == NX_OK && !own) status = nx_fail_memory(bytes);
    if (status == NX_OK) {
        own->class = (nx_grad_class){own->name, apply, release, end};
        snprintf(own->name, sizeof own->name, "%sBackward", strrchr(op->def->name, ':') + 1);
        status = nx_grad_node_new(&own->class, n_results, n, own, &node);
        if (status != NX_OK) nx_free(own);
    }
    if (node) {
        own->place = place;
        own->beside = beside;
        status = graph_of_call(op, in, to, &own->graph);
        spare = to + op->def->n_in;
        if (status == NX_OK) status = each_tensor(in, op->def->n_in, hold, node, to, &spare);
    } else {
        nx_value_drop(&place);
        nx_value_drop(&beside);
    }
    nx_free(to);
    if (status == NX_OK) *out = node;
    else nx_grad_node_unref(node);
    return status;
}

/* At AUTOGRAD. A call whose tensors are fakes is recorded with one node. */
static nx_status call_recorded(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_op *op = run->op;
    nx_value place = NX_VALUE_NONE, beside = NX_VALUE_NONE;
    nx_grad_node *node = NULL;
    if (!nx_any_fake(in, op->def->n_in)) return op->def->compose(run, in, out);
    bool recorded = nx_grad_enabled() && any_requires_grad(in, op->def->n_in);
    nx_status status = recorded ? note_place(op, in, &place, &beside) : NX_OK;
    if (status == NX_OK) status = nx_redispatch(op, run->keys, NX_KEY_AT_AUTOGRAD, in, out);
    if (status != NX_OK || !recorded) {
        nx_value_drop(&place);
        nx_value_drop(&beside);
        return status;
    }
    status = make_node(op, in, out->n, place, beside, &node);
    for (int k = 0; k < out->n && status == NX_OK; k++) {
        nx_tensor *result = out->list[k].tensor;
        if (nx_is_differentiable((nx_dtype)result->a.dtype)) status = nx_grad_set_node(result, node, k);
    }
    nx_grad_node_unref(node);
    if (status != NX_OK) nx_value_drop(out);
    return status;
}

/* ---- what cond and while_loop share ---------------------------------------------------------------------------------------- */
/* Whether an element is 0, or -0. */
static bool is_zero(const uint8_t *bytes, nx_dtype dtype) {
    size_t n = nx_dtype_bytes(dtype);
    for (size_t k = 0; k < n; k++) {
        bool has_sign = k == n - 1 && nx_is_float(dtype);
        if (bytes[k] & (has_sign ? 0x7f : 0xff)) return false;
    }
    return true;
}

static nx_status truth_of(const char *what, nx_tensor *pred, bool *out) {
    nx_tensor *host = NULL;
    if (pred->a.numel != 1)
        return nx_fail(NX_RUNTIME, "%s: the condition is a tensor of %lld elements, it must have one", what, (long long)pred->a.numel);
    if (pred->a.device.type == 0) return *out = !is_zero(pred->a.data, (nx_dtype)pred->a.dtype), NX_OK;
    NX_TRY(nx_tensor_new(pred->a.dtype, pred->a.ndim, pred->a.sizes, NX_CPU, &host));
    nx_status status = nx_device_copy(host, pred);
    if (status == NX_OK) *out = !is_zero(host->a.data, (nx_dtype)pred->a.dtype);
    nx_tensor_unref(host);
    return status;
}

static void lend(const nx_value *list, nx_tensor **to) {
    for (int k = 0; k < list->n; k++) to[k] = list->list[k].tensor;
}

/* The tensors as results, which it takes. */
static nx_status give(nx_tensor **results, int n, nx_value *out) {
    nx_status status = results_new(n, out);
    for (int k = 0; k < n && status == NX_OK; k++) {
        status = make_new(&results[k], true);
        if (status == NX_OK) results_take(out, &results[k]);
    }
    if (status != NX_OK) nx_value_drop(out);
    return status;
}

/* The graph is for tensors of these dtypes and sizes, `first` and then `more`. */
static nx_status check_given(const nx_op *op, const nx_graph *graph, const nx_value *first, const nx_value *more) {
    const nx_node *node = graph->first;
    bool fits = graph->n_inputs == first->n + more->n;
    for (int k = 0; fits && k < graph->n_inputs; k++, node = node->next) {
        const nx_array *given = k < first->n ? first->list[k].array : more->list[k - first->n].array;
        const nx_tensor *fake = node->fakes[0];
        fits = fake && given->dtype == fake->a.dtype && nx_same_size(given, &fake->a);
    }
    return fits ? NX_OK : nx_fail(NX_VALUE, "%s: a graph that it holds is for tensors of other sizes or dtypes", op->def->name);
}

/* Results like those of the graph. */
static nx_status give_fakes(const nx_graph *like, nx_value *out) {
    int n = nx_graph_output_node(like)->n_args;
    nx_status status = results_new(n, out);
    for (int k = 0; k < n && status == NX_OK; k++) {
        const nx_tensor *fake = nx_graph_output_fake(like, k);
        status = fake ? results_add_fake(out, fake) : nx_fail(NX_VALUE, "graph: result %d of a graph in it is no tensor", k);
    }
    if (status != NX_OK) nx_value_drop(out);
    return status;
}

/* ---- cond ------------------------------------------------------------------------------------------------------------------ */
static nx_status call_cond(nx_run *run, const nx_value *in, nx_value *out) {
    bool taken;
    NX_TRY(truth_of("cond", in[NX_COND_PRED].tensor, &taken));
    const nx_graph *branch = nx_graph_of_value(&in[taken ? NX_COND_THEN : NX_COND_ELSE]);
    const nx_value *given = &in[taken ? NX_COND_INPUTS : NX_COND_OTHERS];
    int n = given->n, n_out = nx_graph_output_node(branch)->n_args;
    nx_tensor **inputs = nx_alloc_zeroed(sizeof *inputs * (size_t)(n + n_out + 1)), **results = inputs + n;
    if (inputs == NULL) return nx_fail_memory(sizeof *inputs * (size_t)(n + n_out));
    lend(given, inputs);
    nx_status status = nx_graph_run(branch, inputs, n, results, n_out);
    if (status == NX_OK) status = give(results, n_out, out);
    drop(results, n_out);
    nx_free(inputs);
    return status;
}

static nx_status fake_cond(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_value none = nx_value_list(NULL, 0);
    NX_TRY(check_given(run->op, nx_graph_of_value(&in[NX_COND_THEN]), &in[NX_COND_INPUTS], &none));
    NX_TRY(check_given(run->op, nx_graph_of_value(&in[NX_COND_ELSE]), &in[NX_COND_OTHERS], &none));
    return give_fakes(nx_graph_of_value(&in[NX_COND_THEN]), out);
}

/* ---- while_loop ------------------------------------------------------------------------------------------------------------ */
/* state: what is carried, owned; for_condition and for_body begin with it and go on with what they read. */
typedef struct loop {
    const nx_graph *condition, *body;
    int n, n_inputs, n_others;
    nx_tensor **state, **for_condition, **for_body, **next;
} loop;

static nx_status goes_on(const loop *l, bool *out) {
    nx_tensor *pred = NULL;
    bool recorded = nx_grad_enabled();
    nx_grad_set_enabled(false);
    memcpy(l->for_condition, l->state, sizeof *l->state * (size_t)l->n);
    nx_status status = nx_graph_run(l->condition, l->for_condition, l->n + l->n_inputs, &pred, 1);
    nx_grad_set_enabled(recorded);
    if (status == NX_OK) status = truth_of("while_loop", pred, out);
    nx_tensor_unref(pred);
    return status;
}

static nx_status step(const loop *l) {
    memcpy(l->for_body, l->state, sizeof *l->state * (size_t)l->n);
    nx_status status = nx_graph_run(l->body, l->for_body, l->n + l->n_others, l->next, l->n);
    for (int k = 0; k < l->n && status == NX_OK; k++) status = make_new(&l->next[k], false);
    for (int k = 0; k < l->n && status == NX_OK; k++) {
        nx_tensor_unref(l->state[k]);
        l->state[k] = l->next[k];
        l->next[k] = NULL;
    }
    return status == NX_OK ? nx_poll() : status;
}

static nx_status call_loop(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_value *carried = &in[NX_LOOP_CARRIED];
    loop l = {nx_graph_of_value(&in[NX_LOOP_CONDITION]), nx_graph_of_value(&in[NX_LOOP_BODY]),
              .n = carried->n, .n_inputs = in[NX_LOOP_INPUTS].n, .n_others = in[NX_LOOP_OTHERS].n};
    size_t room = sizeof *l.state * (size_t)(4 * l.n + l.n_inputs + l.n_others + 1);
    if (!(l.state = nx_alloc_zeroed(room))) return nx_fail_memory(room);
    l.next = l.state + l.n;
    l.for_condition = l.next + l.n;
    l.for_body = l.for_condition + l.n + l.n_inputs;
    lend(&in[NX_LOOP_INPUTS], l.for_condition + l.n);
    lend(&in[NX_LOOP_OTHERS], l.for_body + l.n);
    for (int k = 0; k < l.n; k++) l.state[k] = nx_tensor_ref(carried->list[k].tensor);
    bool more = false;
    nx_status status = NX_OK;
    for (int k = 0; k < l.n && status == NX_OK; k++) status = make_new(&l.state[k], false);
    if (status == NX_OK) status = goes_on(&l, &more);
    while (status == NX_OK && more) {
        status = step(&l);
        if (status == NX_OK) status = goes_on(&l, &more);
    }
    if (status == NX_OK) status = give(l.state, l.n, out);
    drop(l.state, 2 * l.n);
    nx_free(l.state);
    return status;
}

static nx_status fake_loop(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_value *carried = &in[NX_LOOP_CARRIED];
    const nx_graph *body = nx_graph_of_value(&in[NX_LOOP_BODY]);
    NX_TRY(check_given(run->op, nx_graph_of_value(&in[NX_LOOP_CONDITION]), carried, &in[NX_LOOP_INPUTS]));
    NX_TRY(check_given(run->op, body, carried, &in[NX_LOOP_OTHERS]));
    return give_fakes(body, out);
}

/* ---- the operators --------------------------------------------------------------------------------------------------------- */
static const nx_param cond_params[] = {
    [NX_COND_PRED] = {.name = "pred", .type = NX_TYPE_TENSOR},      [NX_COND_INPUTS] = {.name = "inputs", .type = NX_TYPE_TENSORS},
    [NX_COND_OTHERS] = {.name = "others", .type = NX_TYPE_TENSORS}, [NX_COND_THEN] = {.name = "then", .type = NX_TYPE_GRAPH},
    [NX_COND_ELSE] = {.name = "otherwise", .type = NX_TYPE_GRAPH},
};
static const nx_param loop_params[] = {
    [NX_LOOP_CARRIED] = {.name = "carried", .type = NX_TYPE_TENSORS},   [NX_LOOP_INPUTS] = {.name = "inputs", .type = NX_TYPE_TENSORS},
    [NX_LOOP_OTHERS] = {.name = "others", .type = NX_TYPE_TENSORS},     [NX_LOOP_BODY] = {.name = "body", .type = NX_TYPE_GRAPH},
    [NX_LOOP_CONDITION] = {.name = "condition", .type = NX_TYPE_GRAPH},
};
static const nx_param gradients_params[] = {
    [INPUTS] = {.name = "inputs", .type = NX_TYPE_TENSORS},
    [TANGENTS] = {.name = "tangents", .type = NX_TYPE_TENSORS},
    [PLACE] = {.name = "place", .type = NX_TYPE_TENSOR, .optional = true},
    [BESIDE] = {.name = "beside", .type = NX_TYPE_STR, .optional = true},
    [WANTED] = {.name = "wanted", .type = NX_TYPE_INTS},
    [GRAPH] = {.name = "graph", .type = NX_TYPE_GRAPH},
};
static const nx_op_def defs[] = {
    {.name = "narthex::cond",
     .schema = "narthex::cond(Tensor pred, Tensor[] inputs, Tensor[] others, Graph then, Graph otherwise) -> Tensor[]",
     .kind = NX_KIND_COMPOSED, .flags = NX_OP_LIST, .n_in = NX_COND_N_ARGS, .n_out = 1, .params = cond_params, .compose = call_cond},
    {.name = "narthex::while_loop",
     .schema = "narthex::while_loop(Tensor[] carried, Tensor[] inputs, Tensor[] others, Graph condition, Graph body) -> Tensor[]",
     .kind = NX_KIND_COMPOSED, .flags = NX_OP_LIST, .n_in = NX_LOOP_N_ARGS, .n_out = 1, .params = loop_params, .compose = call_loop},
    {.name = gradients_name,
     .schema = "narthex::gradients(Tensor[] inputs, Tensor[] tangents, Tensor? place, str? beside, int[] wanted, Graph graph) -> "
               "Tensor[]",
     .kind = NX_KIND_COMPOSED, .flags = NX_OP_LIST, .n_in = N_ARGS, .n_out = 1, .params = gradients_params, .compose = call_gradients},
};

const nx_op *nx_cond_op(void) { return nx_op_get(defs[0].name); }
const nx_op *nx_loop_op(void) { return nx_op_get(defs[1].name); }
bool nx_op_holds_graphs(const nx_op *op) {
    bool any = false;
    for (int k = 0; op && k < op->def->n_in; k++) any = any || op->def->params[k].type == NX_TYPE_GRAPH;
    return any;
}

__attribute__((constructor)) static void start(void) {
    static nx_op_fn *const fakes[] = {fake_cond, fake_loop, fake_gradients};
    nx_status status = NX_OK;
    for (int k = 0; k < NX_COUNT(defs) && status == NX_OK; k++) {
        status = nx_library_def(&defs[k]);
        if (status == NX_OK) status = nx_library_impl(defs[k].name, NX_KEY_AT_FAKE, fakes[k]);
        if (status == NX_OK) status = nx_library_impl(defs[k].name, NX_KEY_AT_AUTOGRAD, call_recorded);
    }
    (void)status; /* fixed entries, defined once */
}
