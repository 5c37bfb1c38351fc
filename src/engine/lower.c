/* From a functional graph to a program: steps in order, operands as buffer + offset, results as recipes.
 * Views make no step: they only change the address and the layout of an operand. Nodes of one region
 * (src/pass) become one step if region.c can say them as a tile program, else several; a region runs
 * where its last node stands. In: a verified functional graph with fakes. Out: an nx_program that needs the
 * graph no more. Next: node.c (one operator), region.c (fused), plan.c (memory), run.c. */
#include "engine/program.h"

bool nx_program_writes(const nx_program *p, int input) { return p->input_written[input]; }

void nx_program_free(nx_program *p) {
    if (p == NULL) return;
    for (int i = 0; i < p->n_constants; i++) nx_tensor_unref(p->constants[i]);
    nx_storage_unref(p->const_memory);
    nx_storage_unref(p->feature_memory);
    nx_vec_free(&p->steps);
    nx_vec_free(&p->events);
    nx_vec_free(&p->buffers);
    nx_vec_free(&p->references);
    nx_arena_free(&p->arena);
    nx_free(p);
}

/* ---- what the graph says --------------------------------------------------------------------- */
static nx_status fail_node(const nx_node *node, const char *what) {
    return nx_fail(NX_NOT_IMPLEMENTED, "compile: node %s (%s): %s", node->name ? node->name : "?",
                   node->op ? nx_op_name(node->op) : node->target ? node->target : "?", what);
}

static const nx_value *view_base(const nx_node *view) {
    for (int i = 0; i < view->n_args; i++) {
        if (view->args[i].tag == NX_TAG_NODE) return &view->args[i];
    }
    return NULL;
}

static nx_status number_nodes(nx__lower *l, nx_graph *graph) {
    nx_graph_number(graph);
    int n = graph->n_nodes, n_values = 0;
    for (const nx_node *node = graph->first; node; node = node->next) n_values += node->n_results;
    l->n_nodes = n;
    l->nodes = nx_alloc_zeroed(sizeof *l->nodes * (size_t)n);
    l->first_value = nx_alloc_zeroed(3 * sizeof *l->first_value * (size_t)n);
    l->values = nx_alloc_zeroed(sizeof *l->values * (size_t)n_values);
    if (!l->nodes || !l->first_value || !l->values)
        return nx_fail_memory(sizeof *l->values * (size_t)n_values);
    l->root = l->first_value + n;
    l->root_result = l->root + n;
    n_values = 0;
    for (nx_node *node = graph->first; node; node = node->next) {
        int at = node->order;
        l->nodes[at] = node;
        l->first_value[at] = n_values;
        l->root[at] = at;
        for (int r = 0; r < node->n_results; r++) l->values[n_values++].buffer = -1;
        if (!nx__is_view(node)) continue;
        const nx_value *base = view_base(node);
        if (base == NULL)
            return fail_node(node, "a view of something that is not a node");
        l->root[at] = l->root[base->node->order];
        l->root_result[at] = nx__is_view(base->node) ? l->root_result[base->node->order] : base->n;
    }
    return NX_OK;
}

/* Of an empty view the offset may be any number. */
static uint64_t bytes_before(const nx_tensor *fake) { return (uint64_t)fake->offset * (uint64_t)nx_dtype_sizes[fake->a.dtype]; }

nx__value nx__value_of(const nx__lower *l, const nx_value *ref) {
    const nx_node *node = ref->node;
    int root = l->root[node->order];
    if (root == node->order) return l->values[l->first_value[root] + ref->n];
    nx__value value = l->values[l->first_value[root] + l->root_result[node->order]];
    const nx_tensor *fake = node->fakes[ref->n];
    if (value.buffer < 0) return value;
    value.offset = (int64_t)((uint64_t)value.offset + bytes_before(fake) - bytes_before(value.fake));
    if (fake->a.numel == 0 && (value.offset < 0 || (size_t)value.offset > l->program->buffers.at[value.buffer].bytes)) value.offset = 0;
    value.fake = fake;
    return value;
}

/* ---- inputs and constants -------------------------------------------------------------------- */
nx_status nx__buffer_add(nx_program *p, nx__space space, int index, size_t bytes, const nx_tensor *fake) {
    nx__buffer buffer = {.space = space, .index = index, .bytes = bytes, .fake = fake, .in_place_of = -1,
                         .first = p->steps.n, .last = p->steps.n};
    return nx_vec_push(&p->buffers, buffer);
}

size_t nx__bytes_of(const nx_array *a) {
    int64_t last = 0;
    if (a->numel == 0) return 0; /* then sizes and strides may be any numbers */
    for (int d = 0; d < a->ndim; d++) last += (a->sizes[d] - 1) * a->strides[d];
    return (size_t)(last + 1) * nx_dtype_bytes(a->dtype);
}

nx_status nx__buffer_new(nx__lower *l, const nx_node *node, int result) {
    const nx_tensor *fake = node->fakes[result];
    NX_TRY(nx__buffer_add(l->program, NX__FEATURE, -1, nx__bytes_of(&fake->a), fake));
    l->values[l->first_value[node->order] + result] = (nx__value){l->program->buffers.n - 1, 0, fake};
    return NX_OK;
}

static nx_status lower_input(nx__lower *l, const nx_node *node, int index) {
    nx_program *p = l->program;
    const nx_tensor *fake = node->n_results ? node->fakes[0] : NULL;
    if (fake == NULL) return fail_node(node, "an input without a shape");
    int64_t *dims = nx__keep(p, 2 * sizeof *dims * fake->a.ndim);
    if (dims == NULL) return NX_NO_MEMORY;
    nx_array_copy(&p->inputs[index], &fake->a, dims);
    NX_TRY(nx__buffer_add(p, NX__INPUT, index, nx__bytes_of(&fake->a), fake));
    l->values[l->first_value[node->order]] = (nx__value){p->buffers.n - 1, 0, fake};
    return NX_OK;
}

nx_status nx__constant_add(nx_program *p, nx_tensor *constant, const nx_tensor *fake) {
    size_t bytes = nx__bytes_of(&constant->a);
    NX_TRY(nx__buffer_add(p, NX__CONST, p->n_constants, bytes, fake));
    p->buffers.at[p->buffers.n - 1].offset = p->const_bytes;
    p->const_bytes += (bytes + 63) & ~(size_t)63;
    p->constant_buffers[p->n_constants] = p->buffers.n - 1;
    p->constants[p->n_constants++] = nx_tensor_ref(constant);
    return NX_OK;
}

static nx_status lower_constant(nx__lower *l, const nx_node *node) {
    nx_program *p = l->program;
    if (node->constant == NULL || nx_tensor_is_fake(node->constant) || node->n_results != 1) {
        return fail_node(node, "an attribute without a tensor");
    }
    const nx_tensor *fake = node->fakes[0] ? node->fakes[0] : node->constant;
    NX_TRY(nx__constant_add(p, node->constant, fake));
    l->values[l->first_value[node->order]] = (nx__value){p->buffers.n - 1, 0, fake};
    return NX_OK;
}

/* ---- regions: which stay whole --------------------------------------------------------------- */
typedef struct span { int first, last; } span;
typedef struct order_check {
    nx__lower *l;
    const span *spans;
    int own, position; /* of the consumer: its region, where it runs */
    bool changed;
} order_check;

static void drop_region(nx__lower *l, const span *s, int region) {
    for (int i = s->first; i <= s->last; i++) {
        if (l->regions.of_node[i] == region) l->regions.of_node[i] = -1;
    }
}

/* A region runs at its last node. Whoever needs one of its values must come later. */
static void check_input(void *arg, nx_node *input, int result) {
    order_check *check = arg;
    int region = check->l->regions.of_node[check->l->root[input->order]];
    if (region < 0 || region == check->own || check->spans[region].last < check->position) return;
    drop_region(check->l, &check->spans[region], region);
    check->changed = true;
}

static void drop_regions_around_effects(nx__lower *l, const span *spans) {
    for (int i = 0; i < l->n_nodes; i++) {
        const nx_node *node = l->nodes[i];
        if (node->op == NULL || !(node->op->def->flags & NX_OP_MUTATES)) continue;
        for (int r = 0; r < l->regions.n; r++) {
            if (spans[r].first <= i && i <= spans[r].last) drop_region(l, &spans[r], r);
        }
    }
}

static nx_status find_regions(nx__lower *l, span **out) {
    if (l->regions.n == 0) return NX_OK;
    span *spans = nx_alloc(sizeof *spans * (size_t)l->regions.n);
    if (spans == NULL) return nx_fail_memory(sizeof *spans * (size_t)l->regions.n);
    *out = spans;
    for (int r = 0; r < l->regions.n; r++) spans[r] = (span){l->n_nodes, -1};
    for (int i = 0; i < l->n_nodes; i++) {
        int r = nx__is_view(l->nodes[i]) ? (l->regions.of_node[i] = -1) : l->regions.of_node[i];
        if (r < 0) continue;
        if (spans[r].first > i) spans[r].first = i;
        spans[r].last = i;
    }
    drop_regions_around_effects(l, spans);
    order_check check = {.l = l, .spans = spans};
    do {
        check.changed = false;
        for (int i = 0; i < l->n_nodes; i++) {
            if (nx__is_view(l->nodes[i])) continue;
            check.own = l->regions.of_node[i];
            check.position = check.own >= 0 ? spans[check.own].last : i;
            nx_node_each_input(l->nodes[i], check_input, &check);
        }
    } while (check.changed);
    return NX_OK;
}

/* What does not fit the machine as one program is two: the first half of the members, which stand in order, and the rest. */
static nx_status lower_members(nx__lower *l, nx_node *const *members, int n) {
    bool fused = false;
    if (n == 1) return nx__node_lower(l, members[0]);
    NX_TRY(nx__region_lower(l, members, n, &fused));
    if (fused) return NX_OK;
    NX_TRY(lower_members(l, members, n / 2));
    return lower_members(l, members + n / 2, n - n / 2);
}

static nx_status lower_region(nx__lower *l, const span *s, int region) {
    int n = 0;
    nx_node **members = nx_alloc(sizeof *members * (size_t)(s->last - s->first + 1));
    if (members == NULL) return nx_fail_memory(sizeof *members * (size_t)(s->last - s->first + 1));
    for (int i = s->first; i <= s->last; i++) {
        if (l->regions.of_node[i] == region) members[n++] = l->nodes[i];
    }
    nx_status status = lower_members(l, members, n);
    nx_free(members);
    return status;
}

/* ---- results --------------------------------------------------------------------------------- */
/* A constant may not leave the program: the user could write to it. */
static nx_status copy_constant(nx__lower *l, nx__value *value) {
    const nx_op *clone = nx_known(NX_KNOWN_CLONE);
    nx_program *p = l->program;
    nx_value in[8] = {{0}}, out[1] = {{0}};
    const nx_tensor *fake = value->fake;
    NX_TRY(nx__buffer_add(p, NX__FEATURE, -1, nx__bytes_of(&fake->a), fake));
    int buffer = p->buffers.n - 1;
    in[0] = nx_value_tensor(nx__operand_new(l->program, &fake->a, value->buffer, value->offset));
    out[0] = nx_value_tensor(nx__operand_new(l->program, &fake->a, buffer, 0));
    if (!in[0].tensor || !out[0].tensor) return NX_NO_MEMORY;
    *value = (nx__value){buffer, 0, fake};
    return nx__call_lower(l, clone, in, out);
}

static nx_status lower_output(nx__lower *l, const nx_node *node, int at) {
    nx_program *p = l->program;
    const nx_value *ref = &node->args[at];
    nx__output *output = &p->outputs[at];
    if (ref->tag == NX_TAG_NONE) return NX_OK;
    if (ref->tag != NX_TAG_NODE)
        return nx_fail(NX_NOT_IMPLEMENTED, "compile: result %d of the graph is not a tensor", at);
    nx__value value = nx__value_of(l, ref);
    if (value.buffer < 0)
        return nx_fail(NX_NOT_IMPLEMENTED, "compile: result %d of the graph has no value", at);
    if (p->buffers.at[value.buffer].space == NX__CONST) NX_TRY(copy_constant(l, &value));
    nx__buffer *buffer = &p->buffers.at[value.buffer];
    if (buffer->space == NX__FEATURE) {
        buffer->space = NX__RESULT;
        buffer->index = p->n_fresh;
        nx_meta *meta = nx__keep(p, sizeof *meta);
        if (meta == NULL) return NX_NO_MEMORY;
        nx_meta_of(&buffer->fake->a, meta);
        NX_TRY(nx_layout_start(&p->fresh[p->n_fresh++], meta));
    }
    bool whole = value.offset == 0 && nx__same_layout(&value.fake->a, &buffer->fake->a);
    output->space = buffer->space;
    output->index = buffer->index;
    if (whole && buffer->space == NX__RESULT) {
        int *first = &l->whole_output[buffer->index]; /* plus one: the output that is this whole buffer */
        if (*first == 0) *first = at + 1;
        const nx_value *other = &node->args[*first - 1];
        whole = other->node == ref->node && other->n == ref->n; /* else: a view of it */
    }
    output->view = !whole;
    if ((output->meta = nx__keep(p, sizeof *output->meta)) == NULL) return NX_NO_MEMORY;
    nx_meta_of(&value.fake->a, output->meta);
    output->meta->offset = value.offset / (int64_t)nx_dtype_bytes(value.fake->a.dtype);
    return NX_OK;
}

int nx__output_find_same(const nx_program *p, int at) {
    const nx__output *output = &p->outputs[at];
    for (int i = 0; i < at && output->meta && output->space == NX__RESULT && !output->view; i++) {
        const nx__output *other = &p->outputs[i];
        if (other->meta && other->space == NX__RESULT && !other->view && other->index == output->index) return i;
    }
    return -1;
}

/* ---- addresses ------------------------------------------------------------------------------- */
/* When a run on the CPU fills it in: 0: at once, 1 + k: when the k-th result is made, -1: it does not. Operands of direct
 * steps are left out: their loops are given bare pointers. */
static int filled_in(const nx_program *p, const nx__reference *reference, const int *rank) {
    const nx__buffer *buffer = &p->buffers.at[reference->buffer];
    if (reference->by_pointer || buffer->space == NX__CONST || buffer->space == NX__FEATURE) return -1;
    return buffer->space == NX__INPUT ? 0 : 1 + rank[buffer->index];
}

/* rank, begin: room for as many numbers as there are results, and two more. */
static void place_references(nx_program *p, int *rank, int *begin, nx__reference *to) {
    int n = 0, n_made = 0, last = p->n_fresh + 1;
    for (int i = 0; i < p->events.n; i++) {
        if (p->events.at[i].what == NX__MAKE) rank[p->events.at[i].index] = n_made++;
    }
    for (int i = 0; i < p->references.n; i++) {
        int group = filled_in(p, &p->references.at[i], rank);
        begin[group < 0 ? last : group]++;
    }
    p->n_input_references = begin[0];
    for (int group = 0; group <= last; group++) {
        int own = begin[group];
        begin[group] = n;
        n += own;
    }
    for (int i = 0; i < p->events.n; i++) {
        nx__event *event = &p->events.at[i];
        if (event->what != NX__MAKE) continue;
        event->begin = begin[1 + rank[event->index]];
        event->end = begin[2 + rank[event->index]];
    }
    for (int i = 0; i < p->references.n; i++) {
        int group = filled_in(p, &p->references.at[i], rank);
        nx__reference *reference = &to[begin[group < 0 ? last : group]++];
        *reference = p->references.at[i];
        reference->index = p->buffers.at[reference->buffer].index;
    }
}

static nx_status sort_references(nx_program *p) {
    size_t n = (size_t)p->references.n, bytes = sizeof(nx__reference) * n + 2 * sizeof(int) * (size_t)(p->n_fresh + 2);
    char *room = nx_alloc_zeroed(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    nx__reference *sorted = (nx__reference *)room;
    int *rank = (int *)(sorted + n);
    place_references(p, rank, rank + p->n_fresh + 2, sorted);
    if (n) memcpy(p->references.at, sorted, sizeof *sorted * n);
    nx_free(room);
    return NX_OK;
}

nx_status nx__program_finish(nx_program *p) {
    p->made = nx__keep(p, sizeof *p->made * (size_t)p->n_fresh);
    p->given = nx__keep(p, sizeof *p->given * (size_t)p->n_outputs);
    if (!p->made || !p->given) return NX_NO_MEMORY;
    NX_TRY(nx__plan_events(p));
    NX_TRY(sort_references(p));
    for (int i = 0; i < p->buffers.n; i++) p->buffers.at[i].fake = NULL;
    return NX_OK;
}

/* ---- fusing ---------------------------------------------------------------------------------- */
/* Whether there may be something to fuse, point operators or one behind a convolution, or rows that nobody reads: nodes move. */
static bool may_fuse(const nx_graph *graph) {
    int n_points = 0, n_convolutions = 0, n_parts = 0;
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->op == NULL) continue;
        n_points += node->op->def->kind == NX_KIND_POINT || node->op->def->kind == NX_KIND_REDUCE;
        n_convolutions += node->op == nx_known(NX_KNOWN_CONVOLUTION);
        n_parts += node->op == nx_known(NX_KNOWN_SLICED) || node->op == nx_known(NX_KNOWN_SELECTED);
    }
    return (n_points >= 2 || (n_points && n_convolutions) || n_parts) && !nx_flag.reference;
}

/* ---- the whole ------------------------------------------------------------------------------- */
nx_status nx__program_room(nx_program *p, int n_inputs, int n_constants, int n_outputs) {
    p->inputs = nx__keep(p, sizeof *p->inputs * (size_t)n_inputs);
    p->input_written = nx__keep(p, sizeof *p->input_written * (size_t)n_inputs);
    p->constants = nx__keep(p, sizeof *p->constants * (size_t)n_constants);
    p->constant_buffers = nx__keep(p, sizeof *p->constant_buffers * (size_t)n_constants);
    p->outputs = nx__keep(p, sizeof *p->outputs * (size_t)n_outputs);
    p->fresh = nx__keep(p, sizeof *p->fresh * (size_t)n_outputs);
    bool all = p->inputs && p->input_written && p->constants && p->constant_buffers && p->outputs && p->fresh;
    return all ? NX_OK : NX_NO_MEMORY;
}

static nx_status prepare(nx__lower *l, nx_graph *graph) {
    nx_program *p = l->program;
    NX_TRY(number_nodes(l, graph));
    int n_constants = 0;
    for (const nx_node *node = graph->first; node; node = node->next) {
        p->n_inputs += node->kind == NX_NODE_PLACEHOLDER;
        n_constants += node->kind == NX_NODE_GET_ATTR;
        if (node->kind == NX_NODE_OUTPUT) p->n_outputs = node->n_args;
    }
    NX_TRY(nx__program_room(p, p->n_inputs, n_constants, p->n_outputs));
    if ((l->whole_output = nx_alloc_zeroed(sizeof(int) * (size_t)p->n_outputs + 1)) == NULL)
        return nx_fail_memory(sizeof(int) * (size_t)p->n_outputs);
    return NX_OK;
}

/* Of a sum that was lowered with the product before it. */
static bool has_value(const nx__lower *l, const nx_node *node) {
    return node->n_results == 1 && l->values[l->first_value[node->order]].buffer >= 0;
}

static nx_status lower_node(nx__lower *l, const nx_node *node) {
    bool done;
    NX_TRY(nx__sum_lower(l, node, &done));
    return done ? NX_OK : nx__node_lower(l, node);
}

static nx_status lower_nodes(nx__lower *l, const span *spans) {
    int n_inputs = 0;
    for (int i = 0; i < l->n_nodes; i++) {
        const nx_node *node = l->nodes[i];
        int region = l->regions.n ? l->regions.of_node[i] : -1;
        switch (node->kind) {
        case NX_NODE_PLACEHOLDER: NX_TRY(lower_input(l, node, n_inputs++)); break;
        case NX_NODE_GET_ATTR: NX_TRY(lower_constant(l, node)); break;
        case NX_NODE_OUTPUT:
            for (int k = 0; k < node->n_args; k++) NX_TRY(lower_output(l, node, k));
            break;
        default:
            if (node->op == NULL) return fail_node(node, "not an operator; make the graph functional first");
            if (nx__is_view(node) || has_value(l, node)) break;
            if (l->reuse[i] != NX_REUSE_NONE) NX_TRY(nx__scatter_lower(l, node));
            else if (region < 0) NX_TRY(lower_node(l, node));
            else if (i == spans[region].last) NX_TRY(lower_region(l, &spans[region], region));
        }
    }
    return NX_OK;
}

static void free_lower(nx__lower *l) {
    nx_regions_free(&l->regions);
    nx_free(l->nodes);
    nx_free(l->first_value);
    nx_free(l->values);
    nx_free(l->whole_output);
    nx_free(l->reuse);
}

/* Results that the caller copies into an input that no output shows, and wants for nothing else. */
static nx_status find_new_values(nx_program *p, const int *result_of) {
    if (result_of == NULL) return NX_OK;
    size_t bytes = sizeof(int) * (size_t)(2 * p->n_fresh + p->n_inputs + 1);
    int *wanted = nx_alloc_zeroed(bytes), *new_of = wanted + p->n_fresh, *shown = new_of + p->n_fresh; /* by result; by input */
    if (wanted == NULL) return nx_fail_memory(bytes);
    for (int k = 0; k < p->n_outputs; k++) {
        const nx__output *output = &p->outputs[k];
        if (output->meta) (output->space == NX__INPUT ? shown : wanted)[output->index]++;
    }
    for (int i = 0; i < p->n_inputs; i++) {
        const nx__output *output = result_of[i] < 0 || shown[i] ? NULL : &p->outputs[result_of[i]];
        bool whole = output && output->meta && output->space == NX__RESULT && !output->view;
        if (whole && wanted[output->index] == 1) new_of[output->index] = i + 1;
    }
    for (int k = 0; k < p->buffers.n; k++) {
        nx__buffer *buffer = &p->buffers.at[k];
        if (buffer->space != NX__RESULT || new_of[buffer->index] == 0) continue;
        buffer->new_of = new_of[buffer->index];
        buffer->output = result_of[buffer->new_of - 1];
    }
    nx_free(wanted);
    return NX_OK;
}

static nx_status lower(nx_graph *graph, nx_device device, bool fuse, bool constants, const int *result_of, nx_program **out) {
    nx__lower l = {0};
    span *spans = NULL;
    nx_status status;
    nx_program *p = l.program = nx_alloc_zeroed(sizeof *p);
    if (p == NULL) return nx_fail_memory(sizeof *p);
    p->device = device;
    if (device.type != 0 && (l.api = nx_device_get_api(device.type)) == NULL) {
        status = nx_fail(NX_RUNTIME, "compile: device type %d is not loaded", device.type);
        goto fail;
    }
    if (fuse) NX_TRY_FAIL(nx_pass_demand(graph));
    if (fuse && device.type == 0) NX_TRY_FAIL(nx_pass_follow(graph));
    if (fuse) NX_TRY_FAIL(nx_pass_fuse(graph, &l.regions));
    NX_TRY_FAIL(prepare(&l, graph));
    NX_TRY_FAIL(find_regions(&l, &spans));
    NX_TRY_FAIL(nx__scatters_find(&l, graph, result_of));
    NX_TRY_FAIL(lower_nodes(&l, spans));
    NX_TRY_FAIL(find_new_values(p, result_of));
    NX_TRY_FAIL(nx_pass_plan(graph, nx__do_plan, p));
    NX_TRY_FAIL(nx__program_finish(p));
    if (constants && p->n_constants) NX_TRY_FAIL(nx__program_set_const_base(p, NULL, 0));
    nx_free(spans);
    free_lower(&l);
    *out = p;
    return NX_OK;
fail:
    nx_free(spans);
    free_lower(&l);
    nx_program_free(p);
    return status;
}

nx_status nx_program_new_from_own(nx_graph *graph, const int *result_of, nx_device device, nx_program **out) {
    return lower(graph, device, may_fuse(graph), true, result_of, out);
}

nx_status nx__program_new_bare(nx_graph *graph, nx_device device, nx_program **out) {
    return lower(graph, device, may_fuse(graph), false, NULL, out);
}

/* Without fusing, nodes are numbered and their scratch field is used; what the graph says stays as it is. */
nx_status nx_program_new(const nx_graph *graph, nx_device device, nx_program **out) {
    nx_graph *own;
    if (!may_fuse(graph)) return lower((nx_graph *)graph, device, false, true, NULL, out);
    NX_TRY(nx_graph_copy(graph, &own));
    nx_status status = lower(own, device, true, true, NULL, out);
    nx_graph_free(own);
    return status;
}
