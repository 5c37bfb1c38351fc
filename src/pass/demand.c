/* What nobody reads is not computed: where only some places along a dimension of a value are read (the last token's logits, the
 * first token's class), what makes it is done for these alone, back through operators that treat such places apart: those of
 * elements, products by their rows, norms and softmax along other dimensions, views. A product of one row would be a product
 * with a vector, which sums in another order, so that at least LEAST rows are computed; then the bits stay. At the lowest level a
 * library multiplies, which promises nothing.
 * In: a functional graph. One walk from the output says which places are read, one from the inputs makes the calls anew. */
#include "pass/private.h"

enum {
    LEAST = 8,             /* rows */
    WORTH = 1 << 20,       /* multiplications that are saved */
    MOST_ARGS = 16
};

/* Places begin .. begin + n of `size` along dimension `dim`, whose size is outer times `size`: in each of these parts. Without
 * padding, since it is compared as bytes. */
typedef struct demand {
    enum { NOTHING, PART, ALL } what;
    int dim;
    int64_t outer, size, begin, n;
} demand;

typedef struct demands {
    nx_graph *graph;
    demand *of;            /* by order: of result 0 */
    bool *passes;          /* by order: the call can be made for a part */
    nx_node **made;        /* by order: the call for that part */
    int64_t saved;         /* multiplications */
    bool lies_otherwise;   /* what was made, row by row as a whole; its sums might be made in another order */
} demands;

static const nx_array *array_of(const nx_value *v) {
    return v->tag == NX_TAG_NODE && v->node->fakes[v->n] ? &v->node->fakes[v->n]->a : NULL;
}

/* ---- which places are read ------------------------------------------------------------------------------------------ */
static void add_demand(demand *to, const demand *more) {
    if (to->what == NOTHING) *to = *more;
    else if (memcmp(to, more, sizeof *to) != 0) *to = (demand){.what = ALL};
}

static void demand_all(void *arg, nx_node *input, int result) { ((demands *)arg)->of[input->order] = (demand){.what = ALL}; }

/* Where a slice, or what is selected, begins. */
static int64_t first_place(const nx_value *args, int64_t size) {
    const int64_t given = args[2].tag == NX_TAG_INT ? args[2].i : 0, begin = given < 0 ? given + size : given;
    return begin < 0 ? 0 : begin;
}

/* Whether what shows the node, or what shows that, picks places of its memory. */
static bool is_shown_by_places(const nx_node *node) {
    for (const nx_use *use = node->uses; use; use = use->next) {
        const nx_op *op = use->user->op;
        if (op == NULL || op->def->kind != NX_KIND_VIEW) continue;
        if (op->def->flags & NX_OP_BY_PLACES || is_shown_by_places(use->user)) return true;
    }
    return false;
}

/* What a slice, or one place that is selected, reads of its first argument. */
static bool read_by(const nx_node *node, demand *out) {
    const nx_value *args = node->args;
    bool is_slice = node->op == nx_known(NX_KNOWN_SLICED), is_one = node->op == nx_known(NX_KNOWN_SELECTED);
    const nx_array *from = is_slice || is_one ? array_of(&args[0]) : NULL;
    if (from == NULL || args[0].n != 0 || args[1].tag != NX_TAG_INT || node->data) return false;
    int dim = (int)(args[1].i < 0 ? args[1].i + from->ndim : args[1].i);
    const int64_t size = from->sizes[dim], n = is_one ? 1 : node->fakes[0]->a.sizes[dim];
    if (is_one ? args[2].tag != NX_TAG_INT : args[4].tag != NX_TAG_INT || args[4].i != 1) return false;
    const int64_t begin = first_place(args, size);
    const int64_t parts = nx_numel(dim, from->sizes), least = parts ? (LEAST + parts - 1) / parts : 0;
    *out = (demand){.what = PART, .dim = dim, .outer = 1, .size = size, .n = n < least ? least : n};
    out->begin = nx_least(begin, size - out->n);
    return n > 0 && 2 * out->n <= size && !is_shown_by_places(node);
}

/* The dimension of a viewed tensor along which the same places lie. */
static bool through_view(const nx_array *from, const nx_array *to, demand *d) {
    const int64_t behind = nx_numel(to->ndim - d->dim - 1, to->sizes + d->dim + 1);
    int64_t passed = 1;
    for (int k = from->ndim - 1; k >= 0 && passed <= behind; passed *= from->sizes[k--]) {
        if (passed != behind || from->sizes[k] % d->size != 0) continue;
        d->dim = k;
        d->outer = from->sizes[k] / d->size;
        return true;
    }
    return false;
}

static bool along_other(const nx_value *dim, int ndim, const demand *d) {
    return dim->tag == NX_TAG_INT && (dim->i < 0 ? dim->i + ndim : dim->i) != d->dim;
}

/* Whether a fold keeps all dimensions, and folds others than this one. */
static bool keeps_apart(const nx_node *node, int dim) {
    const nx_reduce *reduce = node->op->def->reduce;
    const int ndim = node->fakes[0]->a.ndim;
    if (reduce->keepdim_param < 0 || !node->args[reduce->keepdim_param].i) return false;
    uint64_t folded;
    return nx__folded_dims(node, ndim, &folded) && !(folded >> dim & 1);
}

/* Whether a product and its sum have factors, which are left to a library too. */
static bool is_scaled(const nx_node *node) {
    const double beta = nx_value_as_float(&node->args[3]), alpha = nx_value_as_float(&node->args[4]);
    return alpha != 1 || (beta != 0 && beta != 1);
}

/* Whether `d` of the node's result asks for as many places of argument k, then in *d; else all of it is read. false in *passes:
 * the call cannot be made for a part. */
static bool asks_for_part(const nx_node *node, int k, demand *d, bool *passes) {
    const nx_op *op = node->op;
    const nx_array *result = &node->fakes[0]->a, *x = array_of(&node->args[k]);
    *passes = true;
    if (x == NULL) return false;
    if (op->def->kind == NX_KIND_POINT || op == nx_known(NX_KNOWN_CAST) || op == nx_known(NX_KNOWN_CLONE)) {
        d->dim -= result->ndim - x->ndim;
        return d->dim >= 0 && x->sizes[d->dim] != 1;
    }
    if (op == nx_known(NX_KNOWN_MULTIPLIED) || op == nx_known(NX_KNOWN_MULTIPLIED_SUM)) {
        const int first = op == nx_known(NX_KNOWN_MULTIPLIED_SUM);
        *passes = d->dim == 0 && nx_has_own_product(result) && !(first && is_scaled(node));
        return *passes && (k == first || (k == 0 && x->ndim == 2 && x->sizes[0] != 1));
    }
    if (op->def->kind == NX_KIND_REDUCE && op->def->reduce) return *passes = k == 0 && keeps_apart(node, d->dim);
    if (op == nx_known(NX_KNOWN_NORMED)) {
        *passes = node->args[1].tag == NX_TAG_INTS && d->dim < result->ndim - node->args[1].n;
        return *passes && k == 0;
    }
    if (op == nx_known(NX_KNOWN_SOFTENED)) return *passes = along_other(&node->args[1], result->ndim, d);
    if (op == nx_known(NX_KNOWN_VIEWED)) return *passes = through_view(x, result, d);
    if (op == nx_known(NX_KNOWN_TURNED) && node->args[1].tag == NX_TAG_INT && node->args[2].tag == NX_TAG_INT) {
        int a = (int)((node->args[1].i + x->ndim) % x->ndim), b = (int)((node->args[2].i + x->ndim) % x->ndim);
        d->dim = d->dim == a ? b : d->dim == b ? a : d->dim;
        return true;
    }
    return *passes = false;
}

static bool only_first_result(const nx_node *node) {
    for (const nx_use *use = node->uses; use; use = use->next) {
        if (use->at->n != 0) return false;
    }
    return true;
}

static bool passes(const demands *all, const nx_node *node) {
    const demand *asked = &all->of[node->order];
    if (asked->what != PART || node->op == NULL || node->fakes[0] == NULL || !nx__is_pure(node) || node->data) return false;
    if (node->n_args != node->op->def->n_in || node->n_args > MOST_ARGS || !only_first_result(node)) return false;
    bool is_view = node->op->def->kind == NX_KIND_VIEW, passes = true;
    if (!is_view && !node->fakes[0]->a.contiguous) return false;
    for (int k = 0; k < node->n_args && passes; k++) {
        demand d = *asked;
        if (node->args[k].tag == NX_TAG_NODE) (void)asks_for_part(node, k, &d, &passes);
        else passes = node->args[k].tag != NX_TAG_TENSOR && node->args[k].tag != NX_TAG_LIST;
    }
    return passes;
}

static void count_saved(demands *all, const nx_node *node) {
    bool has_sum = node->op == nx_known(NX_KNOWN_MULTIPLIED_SUM);
    const nx_array *a = has_sum || node->op == nx_known(NX_KNOWN_MULTIPLIED) ? array_of(&node->args[has_sum]) : NULL;
    const demand *d = &all->of[node->order];
    if (a) all->saved += d->outer * (d->size - d->n) * a->sizes[1] * node->fakes[0]->a.sizes[1];
}

static void find_demands(demands *all) {
    for (nx_node *node = all->graph->last; node; node = node->previous) {
        demand d;
        if (read_by(node, &d)) {
            add_demand(&all->of[node->args[0].node->order], &d);
            continue;
        }
        all->passes[node->order] = passes(all, node);
        if (!all->passes[node->order]) {
            nx_node_each_input(node, demand_all, all);
            continue;
        }
        count_saved(all, node);
        for (int k = 0; k < node->n_args; k++) {
            bool unused;
            if (node->args[k].tag != NX_TAG_NODE) continue;
            d = all->of[node->order];
            bool part = node->args[k].n == 0 && asks_for_part(node, k, &d, &unused);
            if (part) add_demand(&all->of[node->args[k].node->order], &d);
            else demand_all(all, node->args[k].node, 0);
        }
    }
}

/* ---- the calls for these places ---------------------------------------------------------------------------------------- */
/* A call behind `after`, which becomes it. */
static nx_status call_behind(demands *all, nx_node **after, const nx_op *op, const nx_value *args, nx_node **out) {
    NX_TRY(nx_graph_call(all->graph, op, args, out));
    if ((*after)->next != *out) nx_node_move_before(*out, (*after)->next);
    NX_TRY(nx_node_set_source(*out, &(*after)->source));
    *after = *out;
    return NX_OK;
}

static nx_status call_view(demands *all, nx_node **after, nx_value x, const int64_t *sizes, int ndim, nx_node **out) {
    const nx_value args[] = {x, nx_value_ints(sizes, ndim)};
    const nx_value copy[] = {x, {.tag = NX_TAG_MEMORY_FORMAT, .i = NX_CONTIGUOUS_FORMAT}};
    if (array_of(&x)->contiguous) return call_behind(all, after, nx_known(NX_KNOWN_VIEWED), args, out);
    NX_TRY(call_behind(all, after, nx_known(NX_KNOWN_CLONE), copy, out));
    const nx_value again[] = {nx_value_node(*out, 0), args[1]};
    return call_behind(all, after, nx_known(NX_KNOWN_VIEWED), again, out);
}

/* The places of a value that is computed as a whole. */
static nx_status cut_out(demands *all, nx_node **after, nx_value x, const demand *d, nx_node **out) {
    const nx_array *a = array_of(&x);
    int64_t sizes[NX_MAX_DIMS + 1];
    int dim = d->dim, ndim = a->ndim;
    memcpy(sizes, a->sizes, sizeof *sizes * (size_t)ndim);
    if (d->outer > 1) {
        if (ndim == NX_MAX_DIMS) return nx_fail(NX_RUNTIME, "a part of %d dimensions", ndim);
        memmove(sizes + dim + 1, sizes + dim, sizeof *sizes * (size_t)(ndim - dim));
        sizes[dim] = d->outer;
        sizes[dim + 1] = d->size;
        NX_TRY(call_view(all, after, x, sizes, ndim + 1, out));
        x = nx_value_node(*out, 0);
        dim++;
    }
    const nx_value args[] = {x, nx_value_int(dim), nx_value_int(d->begin), nx_value_int(d->begin + d->n), nx_value_int(1)};
    NX_TRY(call_behind(all, after, nx_known(NX_KNOWN_SLICED), args, out));
    if (d->outer == 1) return NX_OK;
    memcpy(sizes, a->sizes, sizeof *sizes * (size_t)ndim);
    sizes[d->dim] = d->outer * d->n;
    return call_view(all, after, nx_value_node(*out, 0), sizes, ndim, out);
}

static nx_status make(demands *all, nx_node *node) {
    const demand *asked = &all->of[node->order];
    nx_value args[MOST_ARGS];
    nx_node *after = node, *part;
    memcpy(args, node->args, sizeof *args * (size_t)node->n_args);
    for (int k = 0; k < node->n_args; k++) {
        bool unused;
        demand d = *asked;
        if (args[k].tag != NX_TAG_NODE || !asks_for_part(node, k, &d, &unused)) continue;
        nx_node *made = all->made[args[k].node->order];
        if (made == NULL) NX_TRY(cut_out(all, &after, args[k], &d, &made));
        args[k] = nx_value_node(made, 0);
    }
    const nx_array *whole = &node->fakes[0]->a;
    int64_t sizes[NX_MAX_DIMS];
    memcpy(sizes, whole->sizes, sizeof *sizes * (size_t)whole->ndim);
    sizes[asked->dim] = asked->outer * asked->n;
    if (node->op == nx_known(NX_KNOWN_VIEWED)) NX_TRY(call_view(all, &after, args[0], sizes, whole->ndim, &part));
    else NX_TRY(call_behind(all, &after, node->op, args, &part));
    const nx_array *got = &part->fakes[0]->a;
    assert(got->ndim == whole->ndim && memcmp(got->sizes, sizes, sizeof *sizes * (size_t)got->ndim) == 0 && got->dtype == whole->dtype);
    all->lies_otherwise = all->lies_otherwise || (node->op->def->kind != NX_KIND_VIEW && !got->contiguous);
    all->made[node->order] = part;
    return NX_OK;
}

/* A user of the node that shows it otherwise and was not made anew; NULL: there is none. */
static nx_node *view_of(const nx_node *node) {
    for (const nx_use *use = node->uses; use; use = use->next) {
        if (use->user->op && use->user->op->def->kind == NX_KIND_VIEW && use->user->data == NULL) return use->user;
    }
    return NULL;
}

/* The part's rows lie nearer to each other than the whole's did, and so do views of them. */
static nx_status show_anew(demands *all, nx_node *shown) {
    for (nx_node *view, *made; (view = view_of(shown)) != NULL; view->data = view) {
        nx_node *after = view;
        NX_TRY(call_behind(all, &after, view->op, view->args, &made));
        made->data = made;
        NX_TRY(nx_node_replace_uses(view, made));
        NX_TRY(show_anew(all, made));
    }
    return NX_OK;
}

/* A slice of a value that is made for a part. */
static nx_status change_over(demands *all, nx_node *slice) {
    demand read;
    if (!read_by(slice, &read)) return NX_OK;
    const nx_value *is = slice->args;
    nx_node *made = all->made[is[0].node->order], *after = slice;
    if (made == NULL) return NX_OK;
    const bool is_one = slice->op == nx_known(NX_KNOWN_SELECTED);
    const int64_t begin = first_place(is, read.size) - all->of[is[0].node->order].begin;
    nx_value args[] = {nx_value_node(made, 0), is[1], nx_value_int(begin), nx_value_int(0), nx_value_int(1)};
    if (!is_one) args[3] = nx_value_int(begin + slice->fakes[0]->a.sizes[read.dim]);
    NX_TRY(call_behind(all, &after, slice->op, args, &made));
    NX_TRY(nx_node_replace_uses(slice, made));
    return show_anew(all, made);
}

static nx_status make_parts(demands *all, nx_node **nodes, int n) {
    for (int i = 0; i < n; i++) {
        if (all->passes[i]) NX_TRY(make(all, nodes[i]));
    }
    for (int i = n - 1; i >= 0 && !all->lies_otherwise; i--) /* the last first: its argument is as it was */
        NX_TRY(change_over(all, nodes[i]));
    return NX_OK;
}

static bool any_read(const nx_graph *graph) {
    demand d;
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (read_by(node, &d)) return true;
    }
    return false;
}

static nx_status compute_parts(nx_graph *graph) {
    const int n = graph->n_nodes;
    size_t bytes = (size_t)n * (sizeof(demand) + 2 * sizeof(nx_node *) + sizeof(bool));
    char *room = nx_alloc_zeroed(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    demands all = {.graph = graph, .of = (demand *)room};
    all.made = (nx_node **)(all.of + n);
    nx_node **nodes = all.made + n;
    all.passes = (bool *)(nodes + n);
    nx_graph_number(graph);
    for (nx_node *node = graph->first; node; node = node->next) nodes[node->order] = node;
    find_demands(&all);
    nx_status status = all.saved >= WORTH ? make_parts(&all, nodes, n) : NX_OK;
    nx_free(room);
    return status;
}

nx_status nx__do_demand(nx_graph *graph) {
    if (graph->level != NX_GRAPH_FUNCTIONAL) return NX_OK;
    nx__mark_results(graph);
    bool any = any_read(graph);
    const int before = graph->n_nodes;
    nx_status status = any ? compute_parts(graph) : NX_OK;
    for (nx_node *node = graph->first; node; node = node->next) node->data = NULL;
    if (status != NX_OK || graph->n_nodes == before) return status;
    NX_TRY(nx__do_dce(graph)); /* first: what was replaced is equal to what replaces it, but for its layout */
    return nx__do_cse(graph);
}
