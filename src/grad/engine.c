/* The backward engine: gradients of roots along the edges to the leaves, or to chosen inputs.
 * 1. find: walk from the roots, give each node a task, count how many edges lead to it.
 * 2. mark: with chosen inputs, a node runs only when a path leads from it to one of them.
 * 3. run: of the nodes that have all their gradients, the one made last goes first.
 * A task is found from its node: a run writes its mark and the task's number into the nodes that it walks. One run
 * of the process may do that at a time; those that begin meanwhile (in another thread, or inside of it) use a map.
 * Scratch belongs to the run; small graphs need no allocation for it. */
#include "grad/private.h"

enum { FEW = 24 };
typedef struct task {
    nx_grad_node *node;      /* lent: the roots hold the graph */
    int pending;             /* edges that have not delivered yet */
    int first_capture;       /* of the chosen inputs, -1 */
    bool reached, runs;      /* from the roots; leads to what is asked for */
    bool is_root;            /* nothing leads to it, and it is ready */
    nx_tensor *one, **many;  /* gradients so far: one when the node has one result */
} task;
typedef struct visit { int task, edge; } visit;
typedef struct nx__run {
    task *tasks, few_tasks[FEW];
    int n_tasks, room;
    visit *stack, few_visits[FEW];  /* of the walk; its room grows */
    int n_stack, stack_room;
    int *ready, few_ready[FEW];     /* heap of task numbers by sequence */
    int n_ready;
    bool use_map;
    nx_map map;                     /* node -> task number + 1 */
    bool retain_graph, chosen;
    nx_edge *inputs;                /* of the chosen inputs */
    int *next_capture;
    nx_tensor **out;
} nx__run;

static _Atomic bool nodes_taken; /* a run writes its marks into nodes */

static nx_tensor **gradients_of(task *t) { return t->many ? t->many : &t->one; }

/* ---- tasks -------------------------------------------------------------------------------------------- */
static int find_task(const nx__run *run, const nx_grad_node *node) {
    const nx__node *own = (const nx__node *)node;
    assert(node);
    if (NX_LIKELY(!run->use_map)) return own->run == run ? own->task : -1;
    return (int)(intptr_t)nx_map_get(&run->map, node) - 1;
}

static nx_status grow(void **at, void *few, int *room, size_t element) {
    int larger = 2 * *room;
    bool was_few = *at == few;
    void *block = nx_realloc(was_few ? NULL : *at, element * (size_t)*room, element * (size_t)larger);
    if (block == NULL) return nx_fail_memory(element * (size_t)larger);
    if (was_few) memcpy(block, few, element * (size_t)*room);
    *at = block;
    *room = larger;
    return NX_OK;
}

static nx_status add_task(nx__run *run, nx_grad_node *node, int *out) {
    nx__node *own = nx__node_of(node);
    if (run->n_tasks == run->room)
        NX_TRY(grow((void **)&run->tasks, run->few_tasks, &run->room, sizeof(task)));
    task *t = &run->tasks[run->n_tasks];
    *t = (task){.node = node, .first_capture = -1};
    if (node->n_inputs > 1 && (t->many = nx_alloc_zeroed(sizeof *t->many * (size_t)node->n_inputs)) == NULL) {
        return nx_fail_memory(sizeof *t->many * (size_t)node->n_inputs);
    }
    *out = run->n_tasks++;
    if (NX_UNLIKELY(run->use_map)) return nx_map_set(&run->map, node, (void *)(intptr_t)(*out + 1));
    assert(own->run == NULL);
    own->run = run;
    own->task = *out;
    return NX_OK;
}

static nx_status find_or_add(nx__run *run, nx_grad_node *node, int *out) {
    *out = find_task(run, node);
    return *out >= 0 ? NX_OK : add_task(run, node, out);
}

static void drop_gradients(task *t) {
    nx_tensor **g = gradients_of(t);
    for (int k = 0; k < t->node->n_inputs; k++) {
        if (g[k]) nx_tensor_unref(g[k]);
        g[k] = NULL;
    }
}

static void finish(nx__run *run) {
    for (int i = 0; i < run->n_tasks; i++) {
        drop_gradients(&run->tasks[i]);
        if (run->tasks[i].many) nx_free(run->tasks[i].many);
        if (!run->use_map) nx__node_of(run->tasks[i].node)->run = NULL;
    }
    if (run->tasks != run->few_tasks) nx_free(run->tasks);
    if (run->stack != run->few_visits) nx_free(run->stack);
    if (run->ready != run->few_ready) nx_free(run->ready);
    nx_map_free(&run->map);
    if (!run->use_map) atomic_store_explicit(&nodes_taken, false, memory_order_release);
}

/* ---- 1. find, 2. mark --------------------------------------------------------------------------------- */
static bool is_asked_for(const task *t) { return t->runs || t->first_capture >= 0; }

static nx_status push_visit(nx__run *run, int task) {
    if (run->n_stack == run->stack_room)
        NX_TRY(grow((void **)&run->stack, run->few_visits, &run->stack_room, sizeof(visit)));
    run->tasks[task].reached = true;
    run->stack[run->n_stack++] = (visit){task, 0};
    return NX_OK;
}

/* All edges of a task are walked: does it lead anywhere? */
static void mark(nx__run *run, task *t) {
    t->runs = !run->chosen;
    for (int e = 0; e < t->node->n_edges && !t->runs; e++) {
        const nx_grad_node *next = t->node->edges[e].node;
        t->runs = next && is_asked_for(&run->tasks[find_task(run, next)]);
    }
}

static nx_status walk_from(nx__run *run, int root) {
    if (run->tasks[root].reached) return NX_OK;
    NX_TRY(push_visit(run, root));
    while (run->n_stack > 0) {
        visit *top = &run->stack[run->n_stack - 1];
        nx_grad_node *node = run->tasks[top->task].node;
        if (top->edge == node->n_edges) {
            mark(run, &run->tasks[top->task]);
            run->n_stack--;
            continue;
        }
        nx_grad_node *next = node->edges[top->edge++].node;
        if (next == NULL) continue;
        int found;
        NX_TRY(find_or_add(run, next, &found));
        task *t = &run->tasks[found];
        t->pending++;
        if (t->reached) continue;
        if (next->n_edges > 0) {
            NX_TRY(push_visit(run, found));
        } else { /* a leaf: nothing to walk */
            t->reached = true;
            mark(run, t);
        }
    }
    return NX_OK;
}

/* ---- 3. run ------------------------------------------------------------------------------------------- */
static bool goes_first(const nx__run *run, int a, int b) {
    return run->tasks[a].node->sequence > run->tasks[b].node->sequence;
}

static void push_ready(nx__run *run, int task) {
    int at = run->n_ready++;
    for (; at > 0 && goes_first(run, task, run->ready[(at - 1) / 2]); at = (at - 1) / 2)
        run->ready[at] = run->ready[(at - 1) / 2];
    run->ready[at] = task;
}

static int pop_ready(nx__run *run) {
    int first = run->ready[0], last = run->ready[--run->n_ready], at = 0;
    for (int child; (child = 2 * at + 1) < run->n_ready; at = child) {
        if (child + 1 < run->n_ready && goes_first(run, run->ready[child + 1], run->ready[child])) child++;
        if (!goes_first(run, run->ready[child], last)) break;
        run->ready[at] = run->ready[child];
    }
    run->ready[at] = last;
    return first;
}

/* Adds `g`, which it takes, to what is there. The sum is made in place when nobody else sees it and nobody
 * records. */
static nx_status collect(nx_tensor **sum, nx_tensor *g) {
    if (*sum == NULL) {
        *sum = g;
        return NX_OK;
    }
    nx_tensor *both = NULL;
    bool in_place = !nx_grad_enabled() && nx__is_sole(*sum) && (*sum)->a.contiguous && (*sum)->a.dtype == g->a.dtype &&
                    nx_same_size(&(*sum)->a, &g->a) && nx__takes(*sum, g);
    nx_status status = in_place ? nx__add_in_place(*sum, g) : nx__add(*sum, g, &both);
    nx_tensor_unref(g);
    if (status != NX_OK || in_place) return status;
    nx_tensor_unref(*sum);
    *sum = both;
    return NX_OK;
}

static void capture(nx__run *run, task *t) {
    for (int i = t->first_capture; i >= 0; i = run->next_capture[i]) {
        nx_tensor *g = gradients_of(t)[run->inputs[i].input];
        run->out[i] = g ? nx_tensor_ref(g) : NULL;
    }
}

/* Results of the node that keep their gradient get theirs. Another thread may let one of them go, or add to the same one, as
 * soon as it gets the interpreter's lock. */
static nx_status add_retained(task *t) {
    for (nx_autograd *at = nx__node_of(t->node)->retained; at; at = at->next_retained) {
        nx_tensor *g = gradients_of(t)[at->output], *sum = NULL;
        if (g == NULL) continue;
        if (at->grad) NX_TRY(nx__add(at->grad, g, &sum));
        else NX_TRY(nx__clone(g, false, &sum));
        nx_tensor *before = at->grad;
        at->grad = sum;
        nx_tensor_unref(before);
    }
    return NX_OK;
}

static nx_status keep_retained(task *t) {
    bool kept = nx__keep_lock(true);
    nx_status status = add_retained(t);
    nx__keep_lock(kept);
    return status;
}

static nx_status deliver(nx__run *run, const nx_grad_node *node, nx_tensor **grads) {
    for (int e = 0; e < node->n_edges; e++) {
        const nx_edge *edge = &node->edges[e];
        if (edge->node == NULL) continue;
        int at = find_task(run, edge->node);
        assert(at >= 0 && edge->input < edge->node->n_inputs); /* the walk met every edge */
        task *next = &run->tasks[at];
        assert(next->pending > 0);
        if (grads[e] && is_asked_for(next)) {
            nx_tensor *g = grads[e];
            grads[e] = NULL;
            NX_TRY(collect(&gradients_of(next)[edge->input], g));
        }
        if (--next->pending == 0) push_ready(run, at);
    }
    return NX_OK;
}

static uint64_t wanted_edges(const nx__run *run, const nx_grad_node *node) {
    uint64_t wanted = 0;
    for (int e = 0; e < node->n_edges; e++) {
        int argument = nx__edge_argument((const nx__node *)node, e);
        const nx_grad_node *next = node->edges[e].node;
        if (argument >= 64) break; /* compiled graphs look at their edges themselves */
        if (next && (!run->chosen || is_asked_for(&run->tasks[find_task(run, next)])))
            wanted |= UINT64_C(1) << argument;
    }
    return wanted;
}

static bool has_any(const nx_tensor *const *g, int n) {
    for (int k = 0; k < n; k++) {
        if (g[k]) return true;
    }
    return false;
}

void *(*nx_anomaly_note)(void);
nx_status (*nx_anomaly_check)(const char *name, void *note, nx_tensor *const *grads, int n);
void (*nx_anomaly_free)(void *note);

/* An error of the node itself stays, whatever the check says of it. */
static nx_status check_anomaly(nx_grad_node *node, nx_tensor *const *grads, nx_status status) {
    nx_thread *thread = nx_thread_get();
    char message[sizeof thread->message];
    if (thread->tracer) return status;
    void *note = nx__node_of(node)->made_at;
    if (status == NX_OK) return nx_anomaly_check(nx_grad_node_name(node), note, grads, node->n_edges);
    memcpy(message, thread->message, sizeof message);
    nx_status checked = nx_anomaly_check(nx_grad_node_name(node), note, NULL, 0);
    (void)checked; /* it warns; what has failed already is said instead */
    memcpy(thread->message, message, sizeof message);
    thread->error = status;
    return status;
}

/* Its name is made when the profile is read, where the operator has it. */
static int begin_event(nx_profile *profile, nx_event_kind kind, const nx_grad_node *node) {
    int event = nx_profile_begin(profile, kind, node->op ? NULL : nx_profile_name(profile, node->class->name));
    if (event < 0) return event;
    profile->events.at[event].op = node->op;
    profile->events.at[event].sequence = (int64_t)node->sequence;
    return event;
}

static nx_status apply_node(nx__run *run, task *t, nx_tensor **grads) {
    nx_grad_node *node = t->node;
    nx_tensor **g = gradients_of(t);
    if (!has_any((const nx_tensor *const *)g, node->n_inputs)) return NX_OK;
    if (node->released) {
        return nx_fail(NX_RUNTIME, "Trying to backward through the graph a second time (or directly access "
                       "saved tensors after they have already been freed). Saved intermediate values of the "
                       "graph are freed when you call .backward() or autograd.grad(). Specify "
                       "retain_graph=True if you need to backward through the graph a second time or if you "
                       "need to access saved tensors after calling backward.");
    }
    nx__node_of(node)->wanted = wanted_edges(run, node);
    node->is_last = !run->retain_graph;
    nx__node_of(node)->n_running++;
    const nx_thread *thread = nx_thread_get();
    nx_profile *profile = nx_profile_of(thread);
    int event = NX_UNLIKELY(profile != NULL) ? begin_event(profile, NX_EVENT_NODE, node) : -1;
    nx_status status = node->class->apply(node, g, grads);
    if (NX_UNLIKELY(profile != NULL)) nx_profile_end(profile, event);
    nx__node_leave(node);
    if (NX_UNLIKELY(thread->anomaly)) status = check_anomaly(node, grads, status);
    if (status != NX_OK) return status;
    if (!run->retain_graph) nx__node_stop(node);
    return NX_OK;
}

/* Those of its results, one after the other. */
static nx_status call_result_hooks(task *t) {
    for (nx_grad_hook *hook = nx__node_of(t->node)->hooks; hook; hook = hook->next) {
        nx_tensor **g = &gradients_of(t)[hook->output];
        if (hook->kind == NX_HOOK_GRADIENT && hook->context && *g) NX_TRY(hook->call(hook, g, 1, NULL, 0));
    }
    return NX_OK;
}

/* The node's own hook of that kind; NULL. */
static nx_grad_hook *find_hook(const task *t, nx_hook_kind kind) {
    nx_grad_hook *hook = nx__node_of(t->node)->hooks;
    while (hook && (hook->kind != kind || hook->context == NULL)) hook = hook->next;
    return hook;
}

/* The node is a leaf's: its context is the leaf, NULL when that has gone. */
static nx_status tell_accumulated(const nx_grad_node *node) {
    for (nx_grad_hook *hook = nx__node_of((nx_grad_node *)node)->hooks; hook; hook = hook->next) {
        nx_tensor *leaf = node->context;
        if (hook->kind == NX_HOOK_ACCUMULATED && hook->context && leaf) NX_TRY(hook->call(hook, &leaf, 1, NULL, 0));
    }
    return NX_OK;
}

/* Runs a node that has hooks, which may look at what arrived when it has run: references keep that. */
static nx_status apply_hooked(nx__run *run, task *t, nx_tensor **grads) {
    nx_grad_node *node = t->node;
    nx_grad_hook *before = find_hook(t, NX_HOOK_BEFORE), *after = find_hook(t, NX_HOOK_AFTER);
    nx_tensor *few[8], **arrived = few;
    nx_status status = NX_OK;
    int n = after ? node->n_inputs : 0;
    if (before) NX_TRY(before->call(before, gradients_of(t), node->n_inputs, NULL, 0));
    if (n > NX_COUNT(few)) arrived = nx_alloc(sizeof *arrived * (size_t)n);
    if (arrived == NULL) return nx_fail_memory(sizeof *arrived * (size_t)n);
    for (int k = 0; k < n; k++) arrived[k] = gradients_of(t)[k] ? nx_tensor_ref(gradients_of(t)[k]) : NULL;
    NX_TRY_FAIL(apply_node(run, t, grads));
    drop_gradients(t);
    NX_TRY_FAIL(tell_accumulated(node));
    if (after) NX_TRY_FAIL(after->call(after, grads, node->n_edges, arrived, n));
fail:
    for (int k = 0; k < n; k++) nx_tensor_unref(arrived[k]);
    if (arrived != few) nx_free(arrived);
    return status;
}

static nx_status do_task(nx__run *run, int number) {
    task *t = &run->tasks[number];
    nx_grad_node *node = t->node;
    nx_tensor *few[8], **grads = few;
    nx_status status = NX_OK;
    bool has_hooks = nx__node_of(node)->hooks != NULL;
    if (t->runs) capture(run, t); /* as PyTorch: a node that goes on is asked for before its hooks */
    if (NX_UNLIKELY(has_hooks)) NX_TRY(call_result_hooks(t));
    if (!t->runs) capture(run, t);
    if (NX_UNLIKELY(nx__node_of(node)->retained != NULL)) NX_TRY(keep_retained(t));
    if (!t->runs) {
        drop_gradients(t);
        return NX_OK;
    }
    if (node->n_edges > NX_COUNT(few)) grads = nx_alloc(sizeof *grads * (size_t)node->n_edges);
    if (grads == NULL) return nx_fail_memory(sizeof *grads * (size_t)node->n_edges);
    for (int e = 0; e < node->n_edges; e++) grads[e] = NULL;
    NX_TRY_FAIL(NX_UNLIKELY(has_hooks) ? apply_hooked(run, t, grads) : apply_node(run, t, grads));
    drop_gradients(t);
    NX_TRY_FAIL(deliver(run, node, grads));
fail:
    for (int e = 0; e < node->n_edges; e++) {
        if (grads[e]) nx_tensor_unref(grads[e]);
    }
    if (grads != few) nx_free(grads);
    return status;
}

static nx_status run_task(nx__run *run, int number) {
    nx_profile *profile = nx_profile_of(nx_thread_get());
    if (NX_LIKELY(profile == NULL)) return do_task(run, number);
    int event = begin_event(profile, NX_EVENT_EVALUATE, run->tasks[number].node);
    nx_status status = do_task(run, number);
    nx_profile_end(profile, event);
    return status;
}

/* ---- roots and inputs --------------------------------------------------------------------------------- */
static nx_status fail_seed_size(const nx_array *g, const nx_array *root, int i) {
    nx_text text = {0};
    nx_text_add(&text, "Mismatch in shape: grad_output[%d] has a shape of torch.Size(", i);
    nx_text_add_ints(&text, g->sizes, g->ndim);
    nx_text_add(&text, ") and output[%d] has a shape of torch.Size(", i);
    nx_text_add_ints(&text, root->sizes, root->ndim);
    nx_status status = nx_fail(NX_RUNTIME, "%s).", text.failed ? "Mismatch in shape: (" : text.at);
    nx_text_free(&text);
    return status;
}

static nx_status make_seed(nx_tensor *root, nx_tensor *g, int i, nx_tensor **out) {
    if (g == NULL) {
        if (root->a.numel != 1)
            return nx_fail(NX_RUNTIME, "grad can be implicitly created only for scalar outputs");
        if (nx_is_complex((nx_dtype)root->a.dtype))
            return nx_fail(NX_RUNTIME, "grad can be implicitly created only for real scalar outputs but got torch.%s",
                           nx_dtype_name((nx_dtype)root->a.dtype));
        return nx__ones_like(root, out);
    }
    if (!nx_same_size(&g->a, &root->a)) return fail_seed_size(&g->a, &root->a, i);
    *out = nx_tensor_ref(g);
    nx_status status = nx__fit(out, &root->a);
    if (status != NX_OK) nx_tensor_unref(*out);
    return status;
}

static nx_status add_root(nx__run *run, const nx_edge *edge, nx_tensor *root, nx_tensor *g, int i) {
    int at;
    nx_tensor *seed;
    NX_TRY(find_or_add(run, edge->node, &at));
    NX_TRY(make_seed(root, g, i, &seed));
    NX_TRY(collect(&gradients_of(&run->tasks[at])[edge->input], seed));
    return walk_from(run, at);
}

/* Where the gradients of chosen inputs arrive. A leaf without a node is not part of any graph. */
static nx_status add_inputs(nx__run *run, nx_tensor *const *inputs, int n) {
    for (int i = 0; i < n; i++) {
        nx_grad_node *node;
        if (!nx_tensor_requires_grad(inputs[i]))
            return nx_fail(NX_RUNTIME, "One of the differentiated Tensors does not require grad");
        NX_TRY(nx_grad_node_of(inputs[i], &node));
        const nx_autograd *autograd = inputs[i]->autograd;
        run->inputs[i] = (nx_edge){NULL, 0};
        if (autograd == NULL) continue; /* a view that nobody recorded */
        run->inputs[i] = (nx_edge){node ? node : atomic_load(&autograd->accumulator), node ? autograd->output : 0};
        if (run->inputs[i].node == NULL) continue;
        int at;
        NX_TRY(find_or_add(run, run->inputs[i].node, &at));
        run->next_capture[i] = run->tasks[at].first_capture;
        run->tasks[at].first_capture = i;
    }
    return NX_OK;
}

static nx_status run_all(nx__run *run, const nx_edge *roots, int n_roots) {
    if (run->n_tasks > FEW && (run->ready = nx_alloc(sizeof(int) * (size_t)run->n_tasks)) == NULL) {
        run->ready = run->few_ready;
        return nx_fail_memory(sizeof(int) * (size_t)run->n_tasks);
    }
    for (int i = 0; i < n_roots; i++) {
        int at = find_task(run, roots[i].node);
        if (run->tasks[at].pending > 0 || run->tasks[at].is_root) continue;
        run->tasks[at].is_root = true;
        push_ready(run, at);
    }
    int64_t elements = 0;
    while (run->n_ready > 0) {
        int next = pop_ready(run);
        const nx_tensor *g = gradients_of(&run->tasks[next])[0];
        elements += NX_POLL_CALL + (g ? g->a.numel : 0);
        if (NX_UNLIKELY(elements > NX_POLL_ELEMENTS)) {
            NX_TRY(nx_poll());
            elements = 0;
        }
        NX_TRY(run_task(run, next));
    }
    return NX_OK;
}

static nx_status run_engine(nx__run *run, const nx_edge *roots, nx_tensor *const *tensors,
                            nx_tensor *const *g, int n_roots,
                            nx_tensor *const *inputs, int n_inputs) {
    run->tasks = run->few_tasks;
    run->stack = run->few_visits;
    run->ready = run->few_ready;
    run->room = run->stack_room = FEW;
    run->n_tasks = run->n_stack = run->n_ready = 0;
    run->use_map = atomic_exchange_explicit(&nodes_taken, true, memory_order_acquire);
    run->map = (nx_map){0};
    nx_status status = add_inputs(run, inputs, n_inputs);
    for (int i = 0; i < n_roots && status == NX_OK; i++)
        status = add_root(run, &roots[i], tensors[i], g[i], i);
    if (status == NX_OK) status = run_all(run, roots, n_roots);
    finish(run);
    return status;
}

static nx_status find_roots(nx_tensor *const *roots, int n, nx_edge *edges) {
    for (int i = 0; i < n; i++) {
        NX_TRY(nx_grad_edge(roots[i], &edges[i])); /* leads nowhere from a view that was not recorded, too */
        if (edges[i].node) continue;
        return nx_fail(NX_RUNTIME, "element %d of tensors does not require grad and does not have a grad_fn", i);
    }
    return NX_OK;
}

/* A number that no other run has. A thread takes many at once: a locked addition would cost as much as an operator's call. */
static uint64_t next_run(nx_thread *thread) {
    enum { AT_ONCE = 1 << 16 };
    static _Atomic uint64_t taken;
    if (thread->grad_runs % AT_ONCE == 0) thread->grad_runs = atomic_fetch_add(&taken, AT_ONCE);
    return ++thread->grad_runs;
}

nx_status nx_grad_run(nx_tensor *const *roots, nx_tensor *const *g, int n_roots, bool retain_graph,
                      bool create_graph,
                      nx_tensor *const *inputs, int n_inputs, nx_tensor **out) {
    enum { FEW_EDGES = 4 };
    nx_edge few_edges[FEW_EDGES], *edges = few_edges;
    int few_next[FEW_EDGES], *next = few_next;
    nx__run run; /* filled by run_engine; its inline rooms need no clearing */
    nx_thread *thread = nx_thread_get();
    uint64_t outer = thread->grad_run;
    void *outer_running = thread->grad_running;
    bool disabled = thread->grad_disabled, outer_chosen = thread->grad_run_chosen;
    nx_status status = NX_OK;
    if (inputs == NULL) n_inputs = 0;
    int n = n_roots + n_inputs;
    if (n > FEW_EDGES) {
        edges = nx_alloc((sizeof *edges + sizeof *next) * (size_t)n);
        if (edges == NULL) return nx_fail_memory((sizeof *edges + sizeof *next) * (size_t)n);
        next = (int *)(edges + n);
    }
    for (int i = 0; i < n_roots; i++) edges[i] = (nx_edge){NULL, 0};
    for (int i = 0; i < n_inputs; i++) out[i] = NULL;
    run.retain_graph = retain_graph;
    run.chosen = inputs != NULL;
    run.inputs = edges + n_roots;
    run.next_capture = next;
    run.out = out;
    thread->grad_disabled = !create_graph;
    thread->grad_run = next_run(thread);
    thread->grad_run_chosen = inputs != NULL;
    thread->grad_running = &run;
    NX_TRY_FAIL(find_roots(roots, n_roots, edges));
    status = run_engine(&run, edges, roots, g, n_roots, inputs, n_inputs);
fail:
    thread->grad_disabled = disabled;
    thread->grad_run = outer;
    thread->grad_run_chosen = outer_chosen;
    thread->grad_running = outer_running;
    for (int i = 0; i < n_inputs && status != NX_OK; i++) {
        nx_tensor_unref(out[i]);
        out[i] = NULL;
    }
    for (int i = 0; i < n_roots; i++) nx_grad_node_unref(edges[i].node);
    if (edges != few_edges) nx_free(edges);
    return status;
}

nx_status nx_grad_will_run(const nx_grad_node *node, bool *out) {
    const nx__run *run = nx_thread_get()->grad_running;
    if (run == NULL)
        return nx_fail(NX_RUNTIME, "_get_backward_info_from_graph_task should only be called during backward: no backward runs here");
    int at = find_task(run, node);
    *out = at >= 0 && run->tasks[at].reached && (!run->chosen || is_asked_for(&run->tasks[at]));
    return NX_OK;
}

nx_status nx_grad_check_used(nx_tensor *const *grads, int n) {
    for (int i = 0; i < n; i++) {
        if (grads[i]) continue;
        return nx_fail(NX_RUNTIME, "The differentiated Tensor at index %d appears to not have been used in "
                       "the graph. Set allow_unused=True if this is the desired behavior.", i);
    }
    return NX_OK;
}
