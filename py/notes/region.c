/* Parts of a trace that go into graphs of their own: the backward of an autograd.Function, a branch of a condition, the condition and
 * the body of a loop.
 *
 * In: of a backward the forward's results, whose gradients it gets as fakes; of a loop what is carried. Out: of the gradients that a
 * backward gave a call of narthex::function, which ties the results to that graph (src/ir/function.c); of two graphs a call of
 * narthex::cond or narthex::while_loop (src/pass/control.c).
 * What must hold: between open and close a second tracer stands before the one around it, the trace's own or that of another part. A
 * tensor that it does not know and the other one does becomes an input of the inner graph, a number likewise; nothing that runs
 * between the two may be seen afterwards, since it will run in its call: writes into what was there before stop the trace. However
 * the trace ends, its regions end before it. Next: python/narthex/autograd/function.py, python/narthex/_higher_order_ops/control.py. */
#include "notes/notes.h"
#include "pass/pass.h"

struct nxpy_region {
    nx_tracer tracer;           /* first: read_outer finds the region by it */
    nxpy_region *around;        /* NULL: the trace's own graph is around it */
    nx_graph *graph;            /* owned until a value has it */
    NX_VEC(nx_tensor *) reads;  /* of the graph around, in the order of their inputs; owned */
    PyObject *context;          /* what the function may write; lent */
    int n_results, n_notes, n_effects;
    bool is_branch;             /* or a part of a loop: what runs there runs in its place, not in the backward */
    nxpy_autocast autocast;
};

static void drop_part(nxpy_part *part) {
    for (int k = 0; k < part->n_reads; k++) nx_tensor_unref(part->reads[k]);
    nx_free(part->reads);
    nx_graph_free(part->graph);
}

static void end(nxpy_trace *trace) {
    nxpy_region *region = trace->region;
    trace->region = region->around;
    nx_tracer_pop(&region->tracer);
    nxpy__autocast_put(&region->autocast);
    for (int k = 0; k < region->reads.n; k++) nx_tensor_unref(region->reads.at[k]);
    nx_vec_free(&region->reads);
    nx_graph_free(region->graph);
    nx_free(region);
}

void nxpy__regions_drop(nxpy_trace *trace) {
    while (trace->region) end(trace);
    while (trace->parts.n > 0) drop_part(&trace->parts.at[--trace->parts.n]);
    nx_vec_free(&trace->parts);
}

void nxpy__trace_varies(nxpy_trace *trace) {
    trace->tracer.varies = true;
    for (nxpy_region *region = trace->region; region; region = region->around) region->tracer.varies = true;
}

bool nxpy__in_branch(const nxpy_trace *trace) {
    const nxpy_region *region = trace->region;
    while (region && !region->is_branch) region = region->around;
    return region != NULL;
}

/* A branch that cannot be traced is followed as Python follows it, from the next try on. */
static int refuse(nxpy_trace *trace, const char *why) {
    if (nxpy__in_branch(trace)) nxpy__ask_for(trace, NXPY_ASK_NO_BRANCHES);
    nxpy__stop(trace, NXPY_BREAK_BACKWARD, "%s", why);
    trace->clean = false;
    return -1;
}

int nxpy__region_changes(nxpy_trace *trace, PyObject *object) {
    const nxpy_region *region = trace->region;
    const nxpy_note *note = region && object != region->context ? nxpy__note_find(trace, object) : NULL;
    bool before = note && note - trace->notes.at < region->n_notes;
    return before ? refuse(trace, "it writes into an object that is there before it runs") : 0;
}

/* A tensor of the graph around is one that the part reads; the graph around may have to read it first. */
static nx_status read_outer(nx_tracer *tracer, nx_tensor *tensor, nx_value *out) {
    nxpy_trace *trace = tracer->context;
    nxpy_region *region = (nxpy_region *)tracer;
    nx_value outer;
    nx_tensor *fake;
    nx_node *node;
    if (!nx_tracer_find(tracer->outer, tensor, &outer)) {
        if (!region->around) return nxpy__stop_unknown(tracer->outer, tensor, out);
        NX_TRY(read_outer(tracer->outer, tensor, &outer));
    }
    NX_TRY(nx_fake_like(tensor, &fake));
    nx_status status = nx_graph_input_like(tracer->graph, outer.node->name, outer.node->name, fake, &node);
    nx_tensor_unref(fake);
    NX_TRY(status);
    bool given = outer.node->kind == NX_NODE_PLACEHOLDER;
    node->varying = given ? outer.node->varying : trace->tracer.varies ? UINT64_MAX : 0;
    NX_TRY(nx_tracer_bind(tracer, tensor, node, 0));
    NX_TRY(nx_vec_push(&region->reads, tensor));
    nx_tensor_ref(tensor);
    *out = nx_value_node(node, 0);
    return NX_OK;
}

/* ---- open -------------------------------------------------------------------------------------------------------------- */
/* An input of the inner graph: the gradient of a result, or what is carried. */
static nx_status add_given(nxpy_trace *trace, const char *what, const nx_tensor *like, nx_tensor **out) {
    nxpy_region *region = trace->region;
    nx_meta meta;
    nx_tensor *kept = NULL;
    nx_node *node;
    nx_meta_of(&like->a, &meta);
    if (!nx_is_dense(&like->a)) nx_meta_contiguous(&meta);
    NX_TRY(nx_tensor_new_meta(&meta, true, out));
    char name[32];
    snprintf(name, sizeof name, "%s_%d", what, region->n_results);
    nx_status status = nx_fake_like(*out, &kept);
    if (status == NX_OK) status = nx_graph_input_like(region->graph, name, name, kept, &node);
    if (status == NX_OK) status = nx_tracer_bind(&region->tracer, *out, node, 0);
    if (status == NX_OK) node->varying = trace->tracer.varies ? UINT64_MAX : 0;
    nx_tensor_unref(kept);
    if (status != NX_OK) nx_tensor_unref(*out);
    else region->n_results++;
    return status;
}

static nx_status begin(nxpy_trace *trace, PyObject *context, bool is_branch) {
    nxpy_region *region = nx_alloc_zeroed(sizeof *region);
    if (!region) return nx_fail_memory(sizeof *region);
    nx_status status = nx_graph_new(&region->graph);
    if (status != NX_OK) {
        nx_free(region);
        return status;
    }
    region->context = context;
    region->is_branch = is_branch;
    region->n_notes = trace->notes.n;
    region->n_effects = trace->effects.n;
    region->around = trace->region;
    region->autocast = nxpy__autocast_now();
    nxpy_autocast off = region->autocast;
    if (!is_branch) off.enabled = 0;
    nxpy__autocast_put(&off);
    region->tracer = (nx_tracer){.graph = region->graph, .key = NX_KEY_AT_CAPTURE, .unknown = read_outer,
                                 .refuse = nxpy__stop_refused, .fix = nxpy__fix_sizes, .context = trace, .is_inner = true,
                                 .varies = trace->tracer.varies};
    trace->region = region;
    return nx_tracer_push(&region->tracer);
}

PyObject *nxpy__region_open(nxpy_trace *trace, PyObject *context, PyObject *results) {
    Py_ssize_t n = PyTuple_GET_SIZE(results);
    if (trace->region && !nxpy__in_branch(trace))
        return refuse(trace, "it calls a function with a backward of its own, recorded"), NULL;
    nx_status status = begin(trace, context, false);
    if (status != NX_OK) return nxpy_raise(status);
    PyObject *gradients = PyTuple_New(n);
    for (Py_ssize_t k = 0; gradients && k < n; k++) {
        PyObject *result = PyTuple_GET_ITEM(results, k);
        nx_tensor *gradient;
        PyObject *item = result == Py_None ? Py_NewRef(Py_None) : NULL;
        if (!item) {
            const nxpy_note *note = nxpy__note_find(trace, result);
            if (!note || note->kind != NXPY_NOTE_FAKE || note->is_input) {
                Py_DECREF(gradients);
                return refuse(trace, "its forward gives a tensor that existed before"), NULL;
            }
            status = add_given(trace, "gradient", nxpy_tensor_get(result), &gradient);
            item = status == NX_OK ? nxpy_tensor_take(gradient) : nxpy_raise(status);
        }
        if (item) PyTuple_SET_ITEM(gradients, k, item);
        else Py_CLEAR(gradients);
    }
    return gradients;
}

/* ---- close ------------------------------------------------------------------------------------------------------------- */
/* What a call of the inner graph writes must be its own: inputs and views of them belong to others. */
static void look_at_written(void *arg, nx_node *written, int result) {
    bool *own = arg;
    for (const nx_node *node = written; *own; ) {
        bool handed = node->op && (node->op->def->kind == NX_KIND_VIEW || nx_op_written(node->op) != 0 || node->op->def->dissolves);
        if (node->kind == NX_NODE_PLACEHOLDER) *own = false;
        if (!handed || node->n_args == 0 || node->args[0].tag != NX_TAG_NODE) break;
        node = node->args[0].node;
    }
}

static bool writes_others(const nx_graph *graph) {
    bool own = true;
    for (const nx_node *node = graph->first; node; node = node->next) nx_node_each_written(node, look_at_written, &own);
    return !own;
}

/* The inner graph's results: which of them is the gradient of each input. */
static nx_status add_results(nxpy_trace *trace, PyObject *gradients, int64_t *gives) {
    nxpy_region *region = trace->region;
    NX_VEC(nx_value) results = {0};
    nx_status status = NX_OK;
    for (Py_ssize_t k = 0; status == NX_OK && k < PyTuple_GET_SIZE(gradients); k++) {
        PyObject *item = PyTuple_GET_ITEM(gradients, k);
        nx_value node;
        gives[k] = -1;
        if (item == Py_None) continue;
        bool known = nx_tracer_find(&region->tracer, nxpy_tensor_get(item), &node);
        if (!known) status = read_outer(&region->tracer, nxpy_tensor_get(item), &node);
        gives[k] = results.n;
        if (status == NX_OK) status = nx_vec_push(&results, node);
    }
    if (status == NX_OK) status = nx_graph_output(region->graph, results.at, results.n);
    nx_vec_free(&results);
    return status;
}

/* Room for all that the call is given. */
typedef struct call {
    int64_t *gives, *checked;
    nx_value *inputs, *results, *reads, *numbers;
    int n_inputs, n_results, n_reads, n_numbers;
    void *room;
} call;

static nx_status make_room(call *c) {
    size_t values = (size_t)(c->n_inputs + c->n_results + c->n_reads + c->n_numbers + 1);
    size_t bytes = sizeof(nx_value) * values + sizeof(int64_t) * (size_t)(c->n_reads + 1);
    nx_value *room = c->room = nx_alloc_zeroed(bytes);
    if (!room) return nx_fail_memory(bytes);
    c->inputs = room;
    c->results = c->inputs + c->n_inputs;
    c->reads = c->results + c->n_results;
    c->numbers = c->reads + c->n_reads;
    c->checked = (int64_t *)(room + values);
    return NX_OK;
}

static void set_tensors(PyObject *tuple, bool all, nx_value *to) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, k);
        if (nxpy_tensor_check(item)) *to++ = nx_value_tensor(nxpy_tensor_get(item));
        else if (all) *to++ = NX_VALUE_NONE;
    }
}

static bool holds(PyObject *tuple, const nx_tensor *tensor) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, k);
        if (nxpy_tensor_check(item) && nxpy_tensor_get(item) == tensor) return true;
    }
    return false;
}

/* The call of narthex::function, with the inner graph closed. */
static nx_status call_function(nxpy_trace *trace, const nxpy_region_call *given, call *c, nx_value *out) {
    nx_thread *thread = nx_thread_get();
    const char *target = thread->target;
    nx_value body, in[NX_FUNCTION_N_ARGS];
    nx_graph *graph = trace->region->graph;
    trace->region->graph = NULL;
    NX_TRY(nx_value_of_graph(graph, &body));
    set_tensors(given->inputs, true, c->inputs);
    set_tensors(given->results, false, c->results);
    for (int k = 0; k < c->n_reads; k++) c->checked[k] = holds(given->saved, c->reads[k].tensor);
    in[NX_FUNCTION_NAME] = nx_value_str(given->name);
    in[NX_FUNCTION_INPUTS] = nx_value_list(c->inputs, c->n_inputs);
    in[NX_FUNCTION_RESULTS] = nx_value_list(c->results, c->n_results);
    in[NX_FUNCTION_READS] = nx_value_list(c->reads, c->n_reads);
    in[NX_FUNCTION_CHECKED] = nx_value_ints(c->checked, c->n_reads);
    in[NX_FUNCTION_GIVES] = nx_value_ints(c->gives, c->n_inputs);
    in[NX_FUNCTION_NUMBERS] = nx_value_list(c->numbers, c->n_numbers);
    in[NX_FUNCTION_ONCE] = nx_value_bool(given->once);
    in[NX_FUNCTION_BACKWARD] = body;
    for (int k = 0; k < c->n_reads; k++) nx_tensor_ref(c->reads[k].tensor); /* the region goes */
    end(trace);
    thread->target = NULL;
    uint64_t excluded = nx_keys_exclude(NX_KEY(AUTOCAST)); /* which would take it apart */
    nx_status status = nx_op_call(nx_function_op(), in, out);
    nx_keys_restore(excluded);
    thread->target = target;
    for (int k = 0; k < c->n_reads; k++) nx_tensor_unref(c->reads[k].tensor);
    nx_value_drop(&body);
    return status;
}

/* The tensors of a list, which it drops, as a tuple. */
static PyObject *take_list(nx_value *list) {
    PyObject *made = PyTuple_New(list->n);
    for (int k = 0; made && k < list->n; k++) {
        PyObject *item = nxpy_tensor_wrap(list->list[k].tensor);
        if (item) PyTuple_SET_ITEM(made, k, item);
        else Py_CLEAR(made);
    }
    nx_value_drop(list);
    return made;
}

PyObject *nxpy__region_close(nxpy_trace *trace, const nxpy_region_call *given) {
    nxpy_region *region = trace->region;
    nx_value out = NX_VALUE_NONE;
    if (trace->effects.n != region->n_effects) return refuse(trace, "it changes what existed before"), NULL;
    call c = {.n_inputs = (int)PyTuple_GET_SIZE(given->inputs), .n_results = region->n_results};
    c.gives = nx_alloc(sizeof *c.gives * (size_t)(c.n_inputs + 1));
    nx_status status = c.gives ? add_results(trace, given->gradients, c.gives) : nx_fail_memory(sizeof *c.gives);
    if (status == NX_OK && writes_others(region->graph)) {
        nx_free(c.gives);
        return refuse(trace, "it writes a tensor that is there before it runs"), NULL;
    }
    c.n_reads = region->reads.n;
    c.n_numbers = region->tracer.imports.n;
    if (status == NX_OK) status = make_room(&c);
    if (status == NX_OK) {
        for (int k = 0; k < c.n_reads; k++) c.reads[k] = nx_value_tensor(region->reads.at[k]);
        for (int k = 0; k < c.n_numbers; k++) c.numbers[k] = region->tracer.imports.at[k];
        status = call_function(trace, given, &c, &out);
    }
    nx_free(c.gives);
    nx_free(c.room);
    return status == NX_OK ? take_list(&out) : nxpy_raise(status);
}

/* ---- branches and loops ---------------------------------------------------------------------------------------------------- */
/* Why a part would not do in its call what it does in the trace; NULL: there is no reason. */
static const char *find_problem(const nxpy_trace *trace) {
    const nxpy_region *region = trace->region;
    nx_draws draws = {0};
    nx_graph_add_draws(region->graph, &draws);
    if (trace->effects.n != region->n_effects) return "a branch or loop changes what existed before";
    if (writes_others(region->graph)) return "a branch or loop writes a tensor that is there before it runs";
    if (region->tracer.imports.n) return "a branch or loop reads a number that may be another one";
    return draws.given || draws.several ? "a branch or loop draws random numbers from a generator that it is given" : NULL;
}

/* Fakes like those that the part is given, its first inputs. */
static nx_status add_all(nxpy_trace *trace, PyObject *given, PyObject *fakes) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(given); k++) {
        nx_tensor *like = nxpy_tensor_get(PyTuple_GET_ITEM(given, k)), *fake;
        NX_TRY(add_given(trace, "carried", like, &fake));
        nx_status status = nx_tensor_requires_grad(like) ? nx_tensor_set_requires_grad(fake, true) : NX_OK;
        PyObject *item = status == NX_OK ? nxpy_tensor_take(fake) : NULL;
        if (!item) return status == NX_OK ? nxpy_caught() : status;
        PyTuple_SET_ITEM(fakes, k, item);
    }
    return NX_OK;
}

PyObject *nxpy__part_open(nxpy_trace *trace, PyObject *given) {
    if (nx_thread_get()->n_levels > 0) nxpy__ask_for(trace, NXPY_ASK_NO_BRANCHES);
    if (nxpy__want_flat(trace, "cond or while_loop") < 0) return NULL;
    if (trace->ask) return refuse(trace, "a condition where none is traced"), NULL;
    PyObject *fakes = PyTuple_New(PyTuple_GET_SIZE(given));
    nx_status status = fakes ? begin(trace, NULL, true) : nxpy_caught();
    if (status == NX_OK) status = add_all(trace, given, fakes);
    if (status == NX_OK) return fakes;
    Py_XDECREF(fakes);
    return nxpy_raise(status);
}

int nxpy__part_close(nxpy_trace *trace, PyObject *results) {
    nxpy_region *region = trace->region;
    const char *problem = find_problem(trace);
    int64_t *gives = nx_alloc(sizeof *gives * (size_t)(PyTuple_GET_SIZE(results) + 1));
    nx_status status = gives ? NX_OK : nx_fail_memory(sizeof *gives);
    if (!problem && status == NX_OK) status = add_results(trace, results, gives);
    nx_free(gives);
    if (problem) return refuse(trace, problem);
    if (status == NX_OK) status = nx_vec_push(&trace->parts, ((nxpy_part){region->graph, region->reads.at, region->reads.n}));
    if (status != NX_OK) return nxpy_raise(status), nxpy__stop_error(trace);
    region->graph = NULL;
    region->reads.at = NULL;
    region->reads.n = 0;
    end(trace);
    return 0;
}

/* Both give as many tensors, of the same sizes and dtypes. */
static bool are_alike(const nx_graph *a, const nx_graph *b) {
    int n = nx_graph_output_node(a)->n_args;
    bool alike = n == nx_graph_output_node(b)->n_args;
    for (int k = 0; alike && k < n; k++) {
        const nx_tensor *p = nx_graph_output_fake(a, k), *q = nx_graph_output_fake(b, k);
        alike = p && q && p->a.dtype == q->a.dtype && nx_same_size(&p->a, &q->a) && nx_device_same(p->a.device, q->a.device);
    }
    return alike;
}

/* The last two parts as arguments: what they read at lists[2], their graphs at graphs[2], kept. Lists have owners: the parts. */
static nx_status use_parts(nxpy_part *parts, nx_value *lists, nx_value *graphs) {
    for (int b = 0; b < 2; b++) {
        nx_value *list = nx_alloc(sizeof *list * (size_t)(parts[b].n_reads + 1));
        if (!list) return nx_fail_memory(sizeof *list * (size_t)parts[b].n_reads);
        for (int k = 0; k < parts[b].n_reads; k++) list[k] = nx_value_tensor(parts[b].reads[k]);
        lists[b] = nx_value_list(list, parts[b].n_reads);
        nx_graph *graph = parts[b].graph;
        parts[b].graph = NULL; /* taken, also where that fails */
        NX_TRY(nx_value_of_graph(graph, &graphs[b]));
    }
    return NX_OK;
}

/* A call of `op`, whose first argument is given, the next four are of the parts. */
static nx_status call_parts(nxpy_trace *trace, const nx_op *op, nx_value first, nx_value *out) {
    nx_value in[5] = {first};
    nx_status status = use_parts(&trace->parts.at[trace->parts.n - 2], &in[1], &in[3]);
    nx_thread *thread = nx_thread_get();
    const char *target = thread->target;
    uint64_t excluded = nx_keys_exclude(NX_KEY(AUTOCAST));
    thread->target = NULL;
    if (status == NX_OK) status = nx_op_call(op, in, out);
    thread->target = target;
    nx_keys_restore(excluded);
    for (int b = 0; b < 2; b++) {
        nx_value_drop(&in[3 + b]);
        nx_free((void *)in[1 + b].list);
        drop_part(&trace->parts.at[--trace->parts.n]);
    }
    return status;
}

PyObject *nxpy__parts_join(nxpy_trace *trace, PyObject *first) {
    nx_value out = NX_VALUE_NONE;
    bool is_cond = !PyTuple_Check(first);
    _Static_assert(NX_COND_N_ARGS == 5 && NX_LOOP_N_ARGS == 5, "a first argument, and of each part what it reads and its graph");
    assert(trace->parts.n >= 2);
    const nxpy_part *parts = &trace->parts.at[trace->parts.n - 2];
    if (is_cond && !are_alike(parts[0].graph, parts[1].graph)) {
        nxpy__ask_for(trace, NXPY_ASK_NO_BRANCHES);
        return refuse(trace, "branches that give tensors of other sizes or dtypes"), NULL;
    }
    Py_ssize_t n = is_cond ? 0 : PyTuple_GET_SIZE(first);
    nx_value *carried = nx_alloc(sizeof *carried * (size_t)(n + 1));
    nx_status status = carried ? NX_OK : nx_fail_memory(sizeof *carried * (size_t)n);
    for (Py_ssize_t k = 0; carried && k < n; k++) carried[k] = nx_value_tensor(nxpy_tensor_get(PyTuple_GET_ITEM(first, k)));
    nx_value value = is_cond ? nx_value_tensor(nxpy_tensor_get(first)) : nx_value_list(carried, (int)n);
    if (status == NX_OK) status = call_parts(trace, is_cond ? nx_cond_op() : nx_loop_op(), value, &out);
    nx_free(carried);
    return status == NX_OK ? take_list(&out) : nxpy_raise(status);
}
