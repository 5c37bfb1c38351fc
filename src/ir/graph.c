/* The graph as a data structure: making, changing, copying and freeing nodes. Arguments are kept values;
 * each mention of a node in them has one entry in that node's list of uses, and every function here keeps
 * the two in step. A function does all or nothing. What a level allows is not checked here but in
 * verify.c; the C interface that checks arguments and infers shapes stands in build.c. */
#include "ir/private.h"

nx_status nx_graph_new(nx_graph **out) {
    nx_graph *graph = nx_alloc_zeroed(sizeof *graph);
    if (graph == NULL) return nx_fail_memory(sizeof *graph);
    *out = graph;
    return NX_OK;
}

/* ---- uses ---- */
static void remove_use(nx_node *input, const nx_value *mention) {
    nx_use **at = &input->uses;
    while (*at && (*at)->at != mention) at = &(*at)->next;
    nx_use *use = *at;
    if (use == NULL) return;
    *at = use->next;
    use->next = input->graph->free_uses;
    input->graph->free_uses = use;
}

/* The newest use stands first. */
static void drop_uses(const nx_value *args, int n) {
    for (int i = n - 1; i >= 0; i--) {
        if (args[i].tag == NX_TAG_LIST) drop_uses(args[i].list, args[i].n);
        else if (args[i].tag == NX_TAG_NODE) remove_use(args[i].node, &args[i]);
    }
}

static nx_status add_uses(nx_node *user, const nx_value *args, int n) {
    for (int i = 0; i < n; i++) {
        if (args[i].tag == NX_TAG_LIST) {
            NX_TRY(add_uses(user, args[i].list, args[i].n));
        } else if (args[i].tag == NX_TAG_NODE) {
            nx_graph *graph = args[i].node->graph;
            nx_use *use = graph->free_uses;
            if (use) graph->free_uses = use->next;
            else if ((use = nx_arena_take(&graph->arena, sizeof *use)) == NULL) return NX_NO_MEMORY;
            *use = (nx_use){user, (nx_value *)&args[i], args[i].node->uses};
            args[i].node->uses = use;
        }
    }
    return NX_OK;
}

static nx_status check_args(const nx_graph *graph, const nx_value *args, int n, int depth) {
    if (depth > NX__MAX_LIST_DEPTH)
        return nx_fail(NX_RUNTIME, "graph: lists are nested deeper than %d", NX__MAX_LIST_DEPTH);
    for (int i = 0; i < n; i++) {
        if (args[i].tag == NX_TAG_NODE && args[i].node->graph != graph)
            return nx_fail(NX_RUNTIME, "graph: %s belongs to another graph", args[i].node->name);
        if (args[i].tag == NX_TAG_LIST) NX_TRY(check_args(graph, args[i].list, args[i].n, depth + 1));
    }
    return NX_OK;
}

static nx_status keep_args(const nx_value *args, int n, nx_value *to) {
    for (int i = 0; i < n; i++) {
        nx_status status = nx_value_keep(&args[i], &to[i]);
        if (status != NX_OK) {
            while (i > 0) nx_value_drop(&to[--i]);
            return status;
        }
    }
    return NX_OK;
}

static void drop_args(nx_value *args, int n) {
    for (int i = 0; i < n; i++) nx_value_drop(&args[i]);
}

/* ---- nodes ---- */
/* What a node owns outside its graph's memory. */
static void release_node(nx_node *node) {
    drop_args(node->args, node->n_args);
    for (int k = 0; k < node->n_results; k++) nx_tensor_unref(node->fakes[k]);
    nx_tensor_unref(node->constant);
}

static int count_results(nx_node_kind kind, const nx_op *op) {
    if (op && (op->def->flags & NX_OP_LIST)) return 0; /* nx_node_set_fakes tells */
    return kind == NX_NODE_OUTPUT ? 0 : op ? op->def->n_out : 1;
}

/* Texts stay as long as the graph, so equal ones in a row are one. */
static nx_status set_text(nx_graph *graph, int which, const char **at, const char *text) {
    char **recent = &graph->recent[which];
    if (text == NULL) {
        *at = NULL;
        return NX_OK;
    }
    if (*recent == NULL || strcmp(*recent, text) != 0) {
        char *copy = nx_arena_text(&graph->arena, text);
        if (copy == NULL) return NX_NO_MEMORY;
        *recent = copy;
    }
    *at = *recent;
    return NX_OK;
}

/* A node, its arguments and its fakes are one block. */
static nx_status new_node(nx_graph *graph, nx_node_kind kind, const nx_op *op, const char *target,
                          const nx_value *args, int n_args, nx_node **out) {
    size_t n = (size_t)n_args, n_results = (size_t)count_results(kind, op);
    nx_node *node = nx_arena_take(&graph->arena, sizeof *node + sizeof *node->args * n + sizeof *node->fakes * n_results);
    if (node == NULL) return NX_NO_MEMORY;
    node->graph = graph;
    node->kind = kind;
    node->op = op;
    node->args = (nx_value *)(node + 1);
    node->fakes = (nx_tensor **)(node->args + n);
    node->n_results = (int)n_results;
    NX_TRY(set_text(graph, 3, &node->target, target));
    NX_TRY(keep_args(args, n_args, node->args));
    node->n_args = n_args;
    nx__node_set_int_code(node);
    nx_status status = add_uses(node, node->args, n_args);
    if (status != NX_OK) {
        drop_uses(node->args, n_args);
        release_node(node);
        return status;
    }
    *out = node;
    return NX_OK;
}

/* Links `node` before `where`, or at the end when that is NULL. */
static void link_node(nx_graph *graph, nx_node *node, nx_node *where) {
    node->next = where;
    node->previous = where ? where->previous : graph->last;
    *(node->previous ? &node->previous->next : &graph->first) = node;
    *(where ? &where->previous : &graph->last) = node;
}

static void unlink_node(nx_graph *graph, nx_node *node) {
    *(node->previous ? &node->previous->next : &graph->first) = node->next;
    *(node->next ? &node->next->previous : &graph->last) = node->previous;
}

/* How a node gets its name from a text: one of name.c. */
typedef nx_status name_fn(nx_graph *graph, const char *from, nx_node *node);

static nx_status make_node(nx_graph *graph, nx_node *where, nx_node_kind kind, const char *hint, name_fn *name,
                           const nx_op *op, const char *target, const nx_value *args, int n_args,
                           nx_node **out) {
    char base[200];
    nx_node *node = NULL;
    NX_TRY(check_args(graph, args, n_args, 0));
    if (op && n_args != op->def->n_in)
        return nx_fail(NX_TYPE, "%s: %d arguments were given, it has %d", op->def->name, n_args,
                       op->def->n_in);
    if (hint == NULL && op) {
        nx__op_base(op->def->name, base, sizeof base);
        hint = base;
    }
    NX_TRY(new_node(graph, kind, op, target, args, n_args, &node));
    if (hint == NULL) hint = target ? target : "output";
    nx_status status = name(graph, hint, node);
    if (status != NX_OK) {
        drop_uses(node->args, node->n_args);
        release_node(node);
        return status;
    }
    link_node(graph, node, where);
    node->order = graph->n_nodes++;
    if (kind == NX_NODE_PLACEHOLDER) {
        graph->n_inputs++;
        if (node->previous == graph->last_input) graph->last_input = node;
    }
    *out = node;
    return NX_OK;
}

nx_status nx_graph_append(nx_graph *graph, nx_node_kind kind, const char *name_hint, const nx_op *op,
                          const char *target, const nx_value *args, int n_args, nx_node **out) {
    return make_node(graph, NULL, kind, name_hint, nx__name_make, op, target, args, n_args, out);
}

nx_status nx__graph_append_named(nx_graph *graph, nx_node_kind kind, const char *name, const nx_op *op,
                                 const char *target, const nx_value *args, int n_args, nx_node **out) {
    return make_node(graph, NULL, kind, name, nx__name_claim, op, target, args, n_args, out);
}

nx_status nx_graph_insert_before(nx_node *where, nx_node_kind kind, const char *name_hint, const nx_op *op,
                                 const char *target, const nx_value *args, int n_args, nx_node **out) {
    return make_node(where->graph, where, kind, name_hint, nx__name_make, op, target, args, n_args, out);
}

void nx_node_erase(nx_node *node) {
    nx_graph *graph = node->graph;
    drop_uses(node->args, node->n_args);
    unlink_node(graph, node);
    nx__name_release(node);
    graph->n_nodes--;
    if (node->kind == NX_NODE_PLACEHOLDER) graph->n_inputs--;
    if (node == graph->last_input) graph->last_input = node->previous;
    release_node(node);
}

void nx_node_move_before(nx_node *node, nx_node *where) {
    if (node == where) return;
    unlink_node(node->graph, node);
    link_node(node->graph, node, where);
}

void nx_graph_free(nx_graph *graph) {
    if (graph == NULL) return;
    for (nx_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        release_node(node);
    }
    nx__names_free(graph);
    nx_arena_free(&graph->arena);
    nx_free(graph);
}

/* ---- changing nodes ---- */
nx_status nx_node_set_args(nx_node *node, const nx_value *args, int n_args) {
    NX_TRY(check_args(node->graph, args, n_args, 0));
    if (node->op && n_args != node->op->def->n_in)
        return nx_fail(NX_TYPE, "%s: %d arguments were given, it has %d", node->op->def->name, n_args,
                       node->op->def->n_in);
    nx_value *kept = nx_arena_take(&node->graph->arena, sizeof *kept * (size_t)n_args);
    if (kept == NULL) return NX_NO_MEMORY;
    NX_TRY(keep_args(args, n_args, kept));
    drop_uses(node->args, node->n_args);
    nx_status status = add_uses(node, kept, n_args);
    if (status != NX_OK) {
        drop_uses(kept, n_args);
        drop_args(kept, n_args);
        nx_status again = add_uses(node, node->args, node->n_args); /* finds what was dropped */
        assert(again == NX_OK);
        (void)again;
        return status;
    }
    drop_args(node->args, node->n_args);
    node->args = kept;
    node->n_args = n_args;
    nx__node_set_int_code(node);
    return NX_OK;
}

nx_status nx__node_set_count(nx_node *node, int n) {
    nx_tensor **fakes = nx_arena_take(&node->graph->arena, sizeof *fakes * (size_t)n);
    if (fakes == NULL) return NX_NO_MEMORY;
    node->fakes = fakes;
    node->n_results = n;
    return NX_OK;
}

nx_status nx_node_set_fakes(nx_node *node, nx_tensor *const *fakes, int n) {
    nx_tensor **kept = n == node->n_results ? node->fakes
        : nx_arena_take(&node->graph->arena, sizeof *kept * (size_t)n);
    if (kept == NULL) return NX_NO_MEMORY;
    for (int k = 0; k < n; k++) {
        nx_tensor *before = kept[k];
        kept[k] = fakes[k] ? nx_tensor_ref(fakes[k]) : NULL;
        nx_tensor_unref(before);
    }
    for (int k = 0; kept != node->fakes && k < node->n_results; k++) nx_tensor_unref(node->fakes[k]);
    node->fakes = kept;
    node->n_results = n;
    return NX_OK;
}

nx_status nx_node_set_source(nx_node *node, const nx_source *source) {
    nx_source kept = *source;
    NX_TRY(set_text(node->graph, 0, &kept.file, source->file));
    NX_TRY(set_text(node->graph, 1, &kept.function, source->function));
    NX_TRY(set_text(node->graph, 2, &kept.code, source->code));
    node->source = kept;
    return NX_OK;
}

/* Result `from` (-1: every result k) of node becomes result `to` (k) of `with` for the users that are wanted. Arguments change
 * in place and use entries move over, in their order, so this cannot run out of memory. */
static void replace(nx_node *node, int from, nx_node *with, int to, bool (*wanted)(const nx_node *)) {
    if (node == with && (from < 0 || from == to)) return;
    nx_use *moved = NULL, **end = &moved;
    for (nx_use **at = &node->uses; *at;) {
        nx_use *use = *at;
        bool moves = use->user != with && (from < 0 || use->at->n == from) && (wanted == NULL || wanted(use->user));
        if (!moves) {
            at = &use->next;
            continue;
        }
        use->at->node = with;
        if (from >= 0) use->at->n = to;
        *at = use->next;
        *end = use;
        end = &use->next;
    }
    *end = with->uses;
    with->uses = moved;
}

nx_status nx_node_replace_uses(nx_node *node, nx_node *with) {
    if (node->graph != with->graph)
        return nx_fail(NX_RUNTIME, "graph: %s belongs to another graph", with->name);
    replace(node, -1, with, 0, NULL);
    return NX_OK;
}

nx_status nx_node_replace_result_if(nx_node *node, int result, nx_node *with, int with_result,
                                    bool (*wanted)(const nx_node *user)) {
    if (node->graph != with->graph)
        return nx_fail(NX_RUNTIME, "graph: %s belongs to another graph", with->name);
    replace(node, result, with, with_result, wanted);
    return NX_OK;
}

nx_status nx_node_replace_result(nx_node *node, int result, nx_node *with, int with_result) {
    return nx_node_replace_result_if(node, result, with, with_result, NULL);
}

/* ---- the whole graph ---- */
nx_node *nx_graph_output_node(const nx_graph *graph) {
    return graph->last && graph->last->kind == NX_NODE_OUTPUT ? graph->last : NULL;
}

/* Writes only what changes, so that threads may share a graph that is numbered already. */
void nx_graph_number(nx_graph *graph) {
    int order = 0;
    for (nx_node *node = graph->first; node; node = node->next, order++) {
        if (node->order != order) node->order = order;
    }
}

static nx_status map_node(void *context, nx_node *node, int result, nx_value *out) {
    nx_node *copy = nx_map_get(context, node);
    if (copy == NULL) return nx_fail(NX_RUNTIME, "graph: %s is used before it is defined", node->name);
    *out = nx_value_node(copy, result);
    return NX_OK;
}

static nx_status copy_with(nx_graph *graph, const nx_node *node, name_fn *name, nx_resolve_fn *resolve, void *context,
                           nx_node **out) {
    nx_node *copy = NULL;
    nx_value few[32];
    int room = nx_args_room(node->args, node->n_args);
    nx_value *args = room <= NX_COUNT(few) ? few : nx_alloc(sizeof *args * (size_t)room);
    if (args == NULL) return nx_fail_memory(sizeof *args * (size_t)room);
    nx_status status;
    NX_TRY_FAIL(nx_args_resolve(node->args, node->n_args, resolve, context, args));
    NX_TRY_FAIL(make_node(graph, NULL, node->kind, node->name, name, node->op, node->target, args, node->n_args, &copy));
    NX_TRY_FAIL(nx_node_set_fakes(copy, node->fakes, node->n_results));
    copy->number = node->number;
    NX_TRY_FAIL(nx_node_copy_open(copy, node));
    NX_TRY_FAIL(nx_node_set_source(copy, &node->source));
    if (node->constant) copy->constant = nx_tensor_ref(node->constant);
    if (args != few) nx_free(args);
    *out = copy;
    return NX_OK;
fail:
    if (copy) nx_node_erase(copy);
    if (args != few) nx_free(args);
    return status;
}

nx_status nx_graph_copy_with(nx_graph *graph, const nx_node *node, nx_resolve_fn *resolve, void *context,
                             nx_node **out) {
    return copy_with(graph, node, nx__name_claim_or_make, resolve, context, out);
}

nx_status nx_graph_copy_node(nx_graph *graph, const nx_node *node, nx_map *map, nx_node **out) {
    nx_node *copy;
    NX_TRY(nx_graph_copy_with(graph, node, map_node, map, &copy));
    nx_status status = nx_map_set(map, node, copy);
    if (status == NX_OK) *out = copy;
    else nx_node_erase(copy);
    return status;
}

static nx_status copy_at(void *context, nx_node *node, int result, nx_value *out) {
    nx_node *copy = ((nx_node **)context)[node->order];
    if (copy == NULL) return nx_fail(NX_RUNTIME, "graph: %s is used before it is defined", node->name);
    *out = nx_value_node(copy, result);
    return NX_OK;
}

nx_status nx_graph_copy(const nx_graph *graph, nx_graph **out) {
    nx_graph *copy = NULL;
    size_t bytes = sizeof(nx_node *) * (size_t)(graph->n_nodes + 1);
    nx_node **copies = nx_alloc_zeroed(bytes); /* by order */
    nx_status status;
    if (copies == NULL) return nx_fail_memory(bytes);
    NX_TRY_FAIL(nx_graph_new(&copy));
    copy->level = graph->level;
    nx_graph_number((nx_graph *)graph);
    for (const nx_node *node = graph->first; node; node = node->next)
        NX_TRY_FAIL(copy_with(copy, node, nx__name_copy, copy_at, copies, &copies[node->order]));
    nx_free(copies);
    *out = copy;
    return NX_OK;
fail:
    nx_free(copies);
    nx_graph_free(copy);
    return status;
}

void nx_graph_swap(nx_graph *a, nx_graph *b) {
    nx_graph whole = *a;
    *a = *b;
    *b = whole;
    for (nx_node *node = a->first; node; node = node->next) node->graph = a;
    for (nx_node *node = b->first; node; node = node->next) node->graph = b;
}

/* ---- random numbers: an operator that draws them, or one that is given a graph that has such a call ------------------------- */
static void add_device(nx_draws *draws, nx_device device) {
    if (device.type == 0) return;
    draws->several |= draws->device.type != 0 && !nx_device_same(draws->device, device);
    draws->device = device;
}

void nx_node_add_draws(const nx_node *node, nx_draws *draws) {
    if (!node->op) return;
    bool own = (node->op->def->flags & NX_OP_RANDOM) != 0;
    draws->any |= own;
    for (int k = 0; own && k < node->n_results; k++)
        if (node->fakes[k]) add_device(draws, node->fakes[k]->a.device);
    for (int k = 0; k < node->n_args; k++) {
        draws->given |= own && node->args[k].tag == NX_TAG_GENERATOR;
        if (node->args[k].tag == NX_TAG_GRAPH) nx_graph_add_draws(nx_graph_of_value(&node->args[k]), draws);
    }
}

void nx_graph_add_draws(const nx_graph *graph, nx_draws *draws) {
    for (const nx_node *node = graph->first; node; node = node->next) nx_node_add_draws(node, draws);
}

bool nx_node_draws(const nx_node *node) {
    nx_draws draws = {0};
    nx_node_add_draws(node, &draws);
    return draws.any;
}
