/* Regions for the engine: point operators and casts over one index space that become one tile program, ending in an
 * optional reduction over all or the last dimensions (form.c says which). Greedy, in order of the nodes: a node makes one of
 * the regions of its operands, as far as these may be one, and joins it when sizes agree and it still runs
 * as one step. For that every node has a stage above those of its operands, and a region has one stage: a
 * member's operands from outside must lie below it. A region that nobody outside has used yet may be raised
 * to make this so.
 * Afterwards the nodes are put in an order, as near as possible to the old one, in which every region
 * stands in one piece (schedule.c). */
#include "pass/private.h"

typedef struct region {
    int n_nodes, n_inputs, stage;
    bool closed;                  /* ends in a reduction */
    bool used;                    /* a node outside takes a result: the stage is fixed */
    const nx_node *shape;         /* a member whose result has the region's size */
    int first, last;              /* members, by order */
} region;
typedef struct fuser {
    uint8_t *form;                /* by order: nx_form_kind */
    int *group, *stage, *next;    /* by order: region, -1; stage of nodes outside regions; next member, -1 */
    int effects;                  /* stage of the last call that draws or writes: the next one comes behind it */
    NX_VEC(region) regions;
} fuser;

/* ---- what may be a member ---- */
static bool same_space(const nx_tensor *a, const nx_tensor *b) {
    return nx_same_size(&a->a, &b->a) && nx_device_same(a->a.device, b->a.device);
}

static bool is_point(const fuser *f, const nx_node *node) {
    return f->form[node->order] == NX_FORM_POINT || f->form[node->order] == NX_FORM_CAST;
}

/* ---- joining ---- */
static int stage_of(const fuser *f, const nx_node *node) {
    int r = f->group[node->order];
    return r < 0 ? f->stage[node->order] : f->regions.at[r].stage;
}

/* Operands that do not come from region `r`: how many, and their highest stage. */
typedef struct outside { const fuser *f; int r, n, stage; } outside;
static void look_outside(void *arg, nx_node *input, int result) {
    outside *o = arg;
    if (o->r >= 0 && o->f->group[input->order] == o->r) return;
    int stage = stage_of(o->f, input);
    o->n++;
    if (stage > o->stage) o->stage = stage;
}

static outside outside_of(const fuser *f, const nx_node *node, int r) {
    outside o = {f, r, 0, -1};
    nx_node_each_input(node, look_outside, &o);
    return o;
}

/* Tiles of many elements should stay in the first-level cache. Those of few always do, and every program costs as much as some of
 * their instructions: as many as the engine finds room for. */
enum { FEW = 512, USUAL_NODES = 64, USUAL_INPUTS = 16 };
static bool has_room(const nx_node *shape, int n_nodes, int n_inputs) {
    if (shape->fakes[0]->a.numel <= FEW) return n_nodes <= NX_REGION_MAX_NODES;
    return n_nodes <= USUAL_NODES && n_inputs <= USUAL_INPUTS;
}

static bool fits(const fuser *f, const nx_node *node, int r) {
    const region *g = &f->regions.at[r];
    const nx_value *x = &node->args[0];
    if (g->closed) return false;
    const nx_tensor *over = is_point(f, node) ? node->fakes[0] : x->node->fakes[x->n];
    if (!same_space(over, g->shape->fakes[0])) return false;
    outside o = outside_of(f, node, r);
    return has_room(g->shape, g->n_nodes + 1, g->n_inputs + o.n) && (o.stage < g->stage || !g->used);
}

/* Whether two regions that a node takes operands from may be one. The lower one is raised: nobody outside may have used
 * it. When both have one stage, nothing lies between them. */
static bool may_be_one(const region *a, const region *b) {
    const region *lower = a->stage < b->stage ? a : b;
    return !a->closed && !b->closed && has_room(a->shape, a->n_nodes + b->n_nodes + 1, a->n_inputs + b->n_inputs) &&
           (a->stage == b->stage || !lower->used) && same_space(a->shape->fakes[0], b->shape->fakes[0]);
}

static void unite(fuser *f, int to, int from) {
    region *r = &f->regions.at[to], *q = &f->regions.at[from];
    for (int i = q->first; i >= 0; i = f->next[i]) f->group[i] = to;
    f->next[r->last] = q->first;
    r->last = q->last;
    r->n_nodes += q->n_nodes;
    r->n_inputs += q->n_inputs;
    r->used |= q->used;
    if (r->stage < q->stage) r->stage = q->stage;
    *q = (region){.closed = true, .first = -1};
}

typedef struct uniter { fuser *f; const nx_node *node; int with; } uniter;
static void unite_operand(void *arg, nx_node *input, int result) {
    uniter *u = arg;
    const region *all = u->f->regions.at;
    int r = u->f->group[input->order], q = u->with;
    if (r < 0 || r == q || all[r].closed || !same_space(u->node->fakes[0], all[r].shape->fakes[0])) return;
    if (q >= 0 && !may_be_one(&all[r], &all[q])) return;
    u->with = q < 0 || all[r].n_nodes > all[q].n_nodes ? r : q;
    if (q >= 0) unite(u->f, u->with, r + q - u->with);
}

typedef struct chooser { const fuser *f; const nx_node *node; int best; } chooser;
static void consider(void *arg, nx_node *input, int result) {
    chooser *c = arg;
    int r = c->f->group[input->order];
    if (r < 0 || r == c->best || !fits(c->f, c->node, r)) return;
    if (c->best < 0 || c->f->regions.at[r].n_nodes > c->f->regions.at[c->best].n_nodes) c->best = r;
}

static void note_use(void *arg, nx_node *input, int result) {
    outside *o = arg;
    int r = o->f->group[input->order];
    if (r >= 0 && r != o->r) o->f->regions.at[r].used = true;
}

static nx_status place_node(fuser *f, nx_node *node) {
    f->form[node->order] = (uint8_t)nx_node_form(node).kind;
    bool point = is_point(f, node), tail = f->form[node->order] == NX_FORM_FOLD;
    chooser c = {f, node, -1};
    if (point) {
        nx_node_each_input(node, unite_operand, &(uniter){f, node, -1});
        nx_node_each_input(node, consider, &c);
    } else if (tail) {
        consider(&c, node->args[0].node, 0); /* a reduction closes the region that makes its operand */
    }
    if (c.best < 0 && point) {
        region fresh = {.shape = node, .first = -1};
        c.best = f->regions.n;
        NX_TRY(nx_vec_push(&f->regions, fresh));
    }
    outside o = outside_of(f, node, c.best);
    nx_node_each_input(node, note_use, &o);
    bool has_effect = node->op && !nx__is_pure(node);
    if (has_effect && o.stage < f->effects) o.stage = f->effects;
    if (has_effect) f->effects = o.stage + 1;
    f->group[node->order] = c.best;
    f->stage[node->order] = o.stage + 1;
    if (c.best < 0) return NX_OK;
    region *r = &f->regions.at[c.best];
    if (r->first < 0) r->first = node->order;
    else f->next[r->last] = node->order;
    r->last = node->order;
    f->next[node->order] = -1;
    r->n_nodes++;
    r->n_inputs += o.n;
    r->closed = tail;
    if (r->stage <= o.stage) r->stage = o.stage + 1;
    return NX_OK;
}

/* Regions of one node are none; the others are numbered in order. */
static nx_status number_regions(fuser *f, int n_nodes, nx_regions *out) {
    int *number = nx_alloc(sizeof(int) * (size_t)(f->regions.n + 1));
    if (number == NULL) return nx_fail_memory(sizeof(int) * (size_t)f->regions.n);
    for (int r = 0; r < f->regions.n; r++) number[r] = f->regions.at[r].n_nodes > 1 ? out->n++ : -1;
    for (int i = 0; i < n_nodes; i++) out->of_node[i] = f->group[i] < 0 ? -1 : number[f->group[i]];
    nx_free(number);
    return NX_OK;
}

nx_status nx__do_fuse(nx_graph *graph, nx_regions *out) {
    fuser f = {0};
    size_t n = (size_t)graph->n_nodes + 1;
    nx_status status = NX_OK;
    nx_graph_number(graph);
    *out = (nx_regions){0};
    f.group = nx_alloc(sizeof(int) * n);
    f.stage = nx_alloc_zeroed(2 * sizeof(int) * n);
    f.next = f.stage + n;
    f.form = nx_alloc(n);
    out->of_node = nx_alloc(sizeof(int) * n);
    if (!f.group || !f.stage || !f.form || !out->of_node) NX_TRY_FAIL(nx_fail_memory(sizeof(int) * n));
    for (nx_node *node = graph->first; node; node = node->next) NX_TRY_FAIL(place_node(&f, node));
    NX_TRY_FAIL(number_regions(&f, graph->n_nodes, out));
    NX_TRY_FAIL(nx__schedule(graph, out));
fail:
    nx_free(f.group);
    nx_free(f.stage);
    nx_free(f.form);
    nx_vec_free(&f.regions);
    if (status != NX_OK) nx_regions_free(out);
    return status;
}

void nx_regions_free(nx_regions *regions) {
    nx_free(regions->of_node);
    *regions = (nx_regions){0};
}
