/* Moves to an accelerator what a graph computes on the CPU from nothing: torch.arange(n).to(x.device) becomes an arange on
 * the device. A call may move when it draws and writes nothing, all its tensors come from calls that move (or it has none),
 * everybody who uses it moves too or computes on the device already, and the device has a kernel for it. So no value goes
 * from one device to the other any more, and results of the graph stay where they were.
 * In: a functional graph. Afterwards its numbers are new. Next: src/compile/plan.c, which runs what stays mixed by the
 * interpreter. */
#include "pass/private.h"

#include "device/device.h"

typedef struct mover {
    nx_device device;
    const nx_device_api *api;
    bool *moves;       /* by order */
    bool fits;         /* of the node that is looked at */
} mover;

static bool on_device(const nx_node *node, nx_device device) {
    for (int r = 0; r < node->n_results; r++) {
        const nx_tensor *fake = node->fakes[r];
        if (fake == NULL || !nx_device_same(fake->a.device, device)) return false;
    }
    return node->n_results > 0;
}

static int device_param(const nx_op_def *def) {
    for (int k = 0; k < def->n_in; k++) {
        if (strcmp(def->params[k].name, "device") == 0) return k;
    }
    return -1;
}

static void check_input(void *arg, nx_node *input, int result) {
    mover *m = arg;
    m->fits = m->fits && m->moves[input->order];
}

/* A call without tensors makes something only if it can be told where. */
static bool may_move(mover *m, const nx_node *node) {
    if (node->op == NULL || !nx__is_pure(node) || !on_device(node, NX_CPU) || node->uses == NULL) return false;
    const nx_op_def *def = node->op->def;
    bool has_kernel = def->kind == NX_KIND_VIEW || m->api->find_kernel(m->api->context, def->name);
    bool reads = false;
    for (int k = 0; k < node->n_args; k++) reads = reads || node->args[k].tag == NX_TAG_NODE || node->args[k].tag == NX_TAG_LIST;
    m->fits = has_kernel && (reads || device_param(def) >= 0);
    nx_node_each_input(node, check_input, m);
    return m->fits;
}

static bool users_follow(const mover *m, const nx_node *node) {
    for (const nx_use *use = node->uses; use; use = use->next) {
        if (!m->moves[use->user->order] && !on_device(use->user, m->device)) return false;
    }
    return true;
}

/* From the first node on, what could move; then what must stay after all, until nothing changes. */
static void find_moving(mover *m, const nx_graph *graph) {
    for (const nx_node *node = graph->first; node; node = node->next) m->moves[node->order] = may_move(m, node);
    for (bool changed = true; changed;) {
        changed = false;
        for (const nx_node *node = graph->last; node; node = node->previous) {
            if (!m->moves[node->order] || (users_follow(m, node) && may_move(m, node))) continue;
            m->moves[node->order] = false;
            changed = true;
        }
    }
}

static nx_status move_fakes(const mover *m, nx_node *node) {
    for (int r = 0; r < node->n_results; r++) {
        const nx_tensor *fake = node->fakes[r];
        nx_meta meta;
        nx_meta_of(&fake->a, &meta);
        meta.device = m->device;
        nx_tensor *moved;
        NX_TRY(nx_fake_new(&meta, fake->offset, &moved));
        nx_tensor_unref(node->fakes[r]);
        node->fakes[r] = moved;
    }
    return NX_OK;
}

/* A copy of what has just been made on the device, and for nobody else. */
static bool is_copy_of_moved(const mover *m, const nx_node *node) {
    if (node->op != nx_known(NX_KNOWN_CAST) || node->args[0].tag != NX_TAG_NODE) return false;
    const nx_node *from = node->args[0].node;
    if (from->n_results != 1 || from->uses->next || !on_device(from, m->device)) return false;
    const nx_array *a = &from->fakes[0]->a, *b = &node->fakes[0]->a;
    return m->moves[from->order] && from->op->def->kind != NX_KIND_VIEW && a->dtype == b->dtype && nx_same_size(a, b) &&
           nx_same_strides(a, b);
}

static nx_status move_nodes(const mover *m, nx_graph *graph) {
    for (nx_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (is_copy_of_moved(m, node)) {
            NX_TRY(nx_node_replace_uses(node, node->args[0].node));
            nx_node_erase(node);
            continue;
        }
        if (!m->moves[node->order]) continue;
        int at = device_param(node->op->def);
        if (at >= 0) node->args[at] = nx_value_device(m->device);
        NX_TRY(move_fakes(m, node));
    }
    return NX_OK;
}

nx_status nx__do_place(nx_graph *graph, nx_device device) {
    mover m = {.device = device, .api = nx_device_get_api(device.type)};
    if (device.type == 0 || m.api == NULL) return NX_OK;
    nx_graph_number(graph);
    m.moves = nx_alloc_zeroed((size_t)graph->n_nodes + 1);
    if (m.moves == NULL) return nx_fail_memory((size_t)graph->n_nodes + 1);
    find_moving(&m, graph);
    nx_status status = move_nodes(&m, graph);
    nx_free(m.moves);
    nx_graph_number(graph);
    return status;
}
