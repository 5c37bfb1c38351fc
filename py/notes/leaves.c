/* Gradients that the traced program asks for itself: torch.autograd.grad, and leaves that it makes for that.
 *
 * In: fakes with the history that autograd gave them. Out: the engine is run on them while the trace records, so that the graph
 * holds the operators of the formulas; those that are differentiated again are as any others.
 * What must hold: a formula reads what operators saved, also inside of composed ones, so the trace is one that records these by
 * their parts (nx_tracer.flat), which it is from its beginning: the first call ends the try, and the next one is flat. Sizes are
 * numbers there. A leaf of the trace's own is none in the graph: its gradient is a value of the trace. One that lives on, or that
 * the history of a result leads to, is an input that each run makes anew: the next try knows it where it is made, and writes its
 * elements there. Only memory that no other tensor with a history shows can be such a leaf's.
 * Next: specials of py/loop/functions.c. */
#include "notes/notes.h"

static PyObject *question(nxpy_ask_code what) {
    static const char *const words[] = {[NXPY_ASK_PARTS] = "parts", [NXPY_ASK_NO_BRANCHES] = "no branches", [NXPY_ASK_LEAVES] = "leaves",
                                        [NXPY_ASK_NO_DRAWS] = "no draws"};
    PyObject *type = (PyObject *)&PyUnicode_Type;
    return Py_BuildValue("O(s)O(O)", type, words[what], Py_None, type);
}

int nxpy__was_asked_for(nxpy_trace *trace, nxpy_ask_code what) {
    PyObject *asked = question(what);
    int before = asked ? PyDict_Contains(trace->answers, asked) : -1;
    Py_XDECREF(asked);
    return before;
}

void nxpy__ask_for(nxpy_trace *trace, nxpy_ask_code what) {
    if (!trace->ask) trace->ask = question(what);
    if (!trace->ask) PyErr_Clear(); /* the graph ends here then */
}

/* A backward is one call of the graph (src/ir/backward.c) where sizes are open: for a backend that gets a graph of each shape, and
 * where it calls nothing of the program's. Leaves that the trace makes are calls, too, from there on. */
static bool may_be_call(const nxpy_trace *trace) {
    const nx_thread *thread = nx_thread_get();
    bool open = trace->tracer.varies && !trace->tracer.flat && trace->grad_at_start && !thread->n_levels && !thread->saved_hooks;
    return open && !trace->hooked.n && !trace->region && !trace->owner->shares;
}
static bool is_one_call(const nxpy_trace *trace) { return may_be_call(trace) && trace->n_leaf_calls == trace->n_leaves; }

int nxpy__want_backward(nxpy_trace *trace, const char *what) { return is_one_call(trace) ? 0 : nxpy__want_flat(trace, what); }

int nxpy__want_flat(nxpy_trace *trace, const char *what) {
    if (trace->tracer.flat) return 0;
    nxpy__ask_for(trace, NXPY_ASK_PARTS);
    nxpy__stop(trace, NXPY_BREAK_METHOD, "%s", what);
    trace->clean = false;
    return -1;
}

/* Where the histories of these fakes begin: node -> fake. */
static nx_status mark(nxpy_trace *trace, const int *numbers, int n, nx_map *begins) {
    nx_status status = NX_OK;
    for (int k = 0; k < n && status == NX_OK; k++) {
        const nxpy_note *note = &trace->notes.at[numbers[k]];
        nx_tensor *fake = nx_tensor_whole(nxpy_tensor_get(note->fake ? note->fake : note->object));
        nx_edge edge = {NULL, 0};
        if (!nx_tensor_requires_grad(fake)) continue;
        status = nx_grad_edge(fake, &edge);
        if (status == NX_OK && edge.node) status = nx_map_set(begins, edge.node, fake);
        nx_grad_node_unref(edge.node); /* the fake holds it */
    }
    return status;
}

static bool is_write(const nx_grad_node *node) {
    return node->op ? nx_op_written(node->op) != 0 : strcmp(nx_grad_node_name(node), "CopySlices") == 0;
}

static bool is_leaf(const nx_grad_node *node) { return strcmp(nx_grad_node_name(node), "AccumulateGrad") == 0; }

/* ---- leaves that the trace makes ----------------------------------------------------------------------------------------- */
static bool is_same_place(const nx_tensor *a, const nx_tensor *b) {
    return a->offset == b->offset && a->a.dtype == b->a.dtype && nx_same_size(&a->a, &b->a) && nx_same_strides(&a->a, &b->a);
}

/* Whether the program still has another tensor that shows the leaf's memory. */
static bool shares(const nxpy_trace *trace, int k, const nx_tensor *own) {
    PyObject *object = trace->notes.at[k].object;
    if (Py_REFCNT(object) == 1) return false; /* the note's */
    return trace->notes.at[k].kind == NXPY_NOTE_FAKE && nxpy_tensor_get(object) != own && nxpy_tensor_get(object)->storage == own->storage;
}

/* Whoever else shows its memory can stand for the leaf without its history. */
static bool can_be_input(const nxpy_trace *trace, const nx_tensor *own) {
    bool can = !trace->region && !nx_thread_get()->n_levels && !own->base && !own->whole && nx_is_dense(&own->a) && own->offset == 0;
    can = can && !nxpy__input_of(trace, own->storage);
    for (int k = 0; can && k < trace->notes.n; k++) {
        if (!shares(trace, k, own)) continue;
        const nx_tensor *other = nxpy_tensor_get(trace->notes.at[k].object);
        can = !nx_tensor_requires_grad(other) && is_same_place(other, own);
    }
    return can;
}

/* An alias of the leaf is written with what it was made of, and stands for it where it is used without history. */
static nx_status write_leaf(nxpy_trace *trace, nx_tensor *own, nx_tensor *value) {
    nx_value in = nx_value_tensor(own), alias, same = NX_VALUE_NONE, node;
    NX_TRY(nx_op_call(nx_known(NX_KNOWN_DETACH), &in, &alias));
    nx_value copy[] = {alias, nx_value_tensor(value), nx_value_bool(false)};
    nx_status status = nx_op_call(nx_known(NX_KNOWN_COPY_INTO), copy, &same);
    nx_value_drop(&same);
    bool found = status == NX_OK && nx_tracer_find(&trace->tracer, alias.tensor, &node);
    for (int k = 0; found && status == NX_OK && k < trace->notes.n; k++) {
        if (!shares(trace, k, own)) continue;
        status = nx_tracer_bind(&trace->tracer, nxpy_tensor_get(trace->notes.at[k].object), node.node, node.n);
    }
    nx_value_drop(&alias);
    return status;
}

static int become_input(nxpy_trace *trace, int number) {
    nx_thread *thread = nx_thread_get();
    nx_tensor *own = nxpy_tensor_get(trace->notes.at[number].object), *value = NULL;
    const char *target = thread->target;
    char name[32];
    nx_value node;
    snprintf(name, sizeof name, "leaf %d", trace->n_leaves);
    if (!nx_tracer_find(&trace->tracer, own, &node)) return nxpy__stop(trace, NXPY_BREAK_LEAK, "a leaf that nothing makes");
    thread->target = NULL;
    nx_status status = trace->tracer.varies ? nxpy__fix_sizes(&trace->tracer, own) : NX_OK;
    if (status == NX_OK) status = nx_fake_like(own, &value);
    if (status == NX_OK) status = nx_tracer_bind(&trace->tracer, value, node.node, node.n);
    int done = status == NX_OK ? nxpy__become_input(trace, number, name) : -1;
    if (done == 0) status = write_leaf(trace, own, value);
    thread->target = target;
    nx_tensor_unref(value);
    if (status != NX_OK) nxpy_raise(status);
    return done == 0 && status == NX_OK ? 0 : nxpy__stop_error(trace);
}

/* Whether an earlier try met the leaf in what lives on: 1, 0, -1. What it is asked by: a new reference in *out. */
static int was_met(nxpy_trace *trace, int leaf, PyObject **out) {
    *out = Py_BuildValue("(si)", "leaf", leaf);
    return *out ? PyDict_Contains(trace->answers, *out) : -1;
}

/* The graph knows it as a leaf, too. */
static nx_status call_leaf(nxpy_trace *trace, nx_tensor *own) {
    nx_thread *thread = nx_thread_get();
    const char *target = thread->target;
    nx_value in = nx_value_tensor(own), made, node;
    if (!may_be_call(trace)) return NX_OK;
    thread->target = NULL;
    nx_status status = nx_op_call(nx_leaf_op(), &in, &made);
    thread->target = target;
    if (status != NX_OK) return status;
    if (nx_tracer_find(&trace->tracer, made.tensor, &node)) status = nx_tracer_bind(&trace->tracer, own, node.node, node.n);
    trace->n_leaf_calls++;
    nx_value_drop(&made);
    return status;
}

int nxpy__note_leaf(nxpy_trace *trace, PyObject *fake) {
    nxpy_note *note = nxpy__note_find(trace, fake);
    int number = (int)(note - trace->notes.at);
    PyObject *asked;
    if (note->leaf) return 0; /* it is one again */
    note->knows_grad = true;
    note->born_at = trace->root_at;
    note->leaf = ++trace->n_leaves;
    int met = was_met(trace, note->leaf, &asked);
    Py_XDECREF(asked);
    if (met < 0) return nxpy__stop_error(trace);
    if (met && can_be_input(trace, nxpy_tensor_get(fake))) {
        trace->n_leaf_calls++; /* the graph knows this one as well */
        return become_input(trace, number);
    }
    nx_status status = nx_vec_push(&trace->leaves, number);
    if (status == NX_OK) status = call_leaf(trace, nxpy_tensor_get(fake));
    if (status != NX_OK) nxpy_raise(status);
    return status == NX_OK ? 0 : nxpy__stop_error(trace);
}

/* ---- hooks of what the trace makes --------------------------------------------------------------------------------------- */
bool nxpy__may_hook(nxpy_trace *trace, PyObject *tensor) {
    return nxpy_tensor_check(tensor) && nxpy__is_fake(trace, tensor) && !trace->region && !nxpy_tensor_get(tensor)->whole;
}

int nxpy__note_hooks(nxpy_trace *trace, PyObject *tensor, PyObject *functions) {
    nxpy_note *note = functions && !nxpy__note_find(trace, functions) ? nxpy__note_add(trace, functions, NXPY_NOTE_BORN, -1) : NULL;
    if (note) note->is_own_dict = true; /* of nobody who can be asked for it: it does not live on */
    note = nxpy__note_find(trace, tensor);
    note->knows_grad |= !functions;
    nxpy_hooked hooked = {.note = (int)(note - trace->notes.at), .functions = functions, .at = trace->root_at};
    for (int k = 0; k < trace->hooked.n; k++) {
        if (trace->hooked.at[k].note == hooked.note && trace->hooked.at[k].functions == functions) return 0;
    }
    return nx_vec_push(&trace->hooked, hooked) == NX_OK ? 0 : (nxpy_raise(NX_NO_MEMORY), -1);
}

static bool has_any(const nxpy_hooked *hooked) { return !hooked->functions || PyDict_GET_SIZE(hooked->functions) > 0; }

static bool has_hooks(const nxpy_trace *trace, const nxpy_note *note) {
    for (int k = 0; k < trace->hooked.n; k++) {
        const nxpy_hooked *hooked = &trace->hooked.at[k];
        if (&trace->notes.at[hooked->note] == note && hooked->functions && has_any(hooked)) return true;
    }
    return false;
}

static int register_later(nxpy_trace *trace, PyObject *leaf, bool accumulated, PyObject *function) {
    const char *name = accumulated ? "register_post_accumulate_grad_hook" : "register_hook";
    PyObject *method = PyObject_GetAttrString((PyObject *)nxpy_tensor_class, name), *args = PyTuple_Pack(2, leaf, function);
    int done = method && args ? nxpy__later(trace, method, args) : -1;
    Py_XDECREF(method);
    Py_XDECREF(args);
    return done;
}

int nxpy__hooks_finish(nxpy_trace *trace) {
    int done = 0;
    for (int k = 0; k < trace->hooked.n && done == 0; k++) {
        const nxpy_hooked *hooked = &trace->hooked.at[k];
        const nxpy_note *note = &trace->notes.at[hooked->note];
        PyObject *leaf = note->object, *key, *function;
        nx_grad_hook *hook;
        if (!note->is_input || !hooked->functions) continue;
        nx_status status = nx_grad_hook_of(nxpy_tensor_get(leaf), NX_HOOK_ACCUMULATED, &hook);
        if (status != NX_OK) return nxpy_raise(status), -1;
        bool accumulated = hook->context == hooked->functions;
        for (Py_ssize_t at = 0; done == 0 && PyDict_Next(hooked->functions, &at, &key, &function);)
            done = register_later(trace, leaf, accumulated, function);
    }
    return done;
}

int nxpy__made_finish(nxpy_trace *trace) {
    nx_status status = NX_OK;
    for (int k = 0; k < trace->inputs.n && status == NX_OK; k++) {
        const nxpy_note *note = &trace->notes.at[trace->inputs.at[k]];
        nxpy_made made = {.slot = note->slot, .frozen = !nx_tensor_requires_grad(nxpy_tensor_get(note->object))};
        if (!note->real) status = nx_vec_push(&trace->segment->made, made);
    }
    return status == NX_OK ? 0 : (nxpy_raise(status), -1);
}

PyObject *nxpy__leaf_new(PyObject *like) {
    const nx_tensor *of = nxpy_tensor_get(like);
    nx_tensor *made;
    nx_meta meta;
    nx_meta_of(&of->a, &meta);
    NXPY_TRY(nx_tensor_new_meta(&meta, false, &made));
    made->is_parameter = of->is_parameter;
    if (made->storage) made->storage->version = nx_tensor_version(of) - 1; /* the graph's first write is none of the program's */
    nx_status status = nx_tensor_set_requires_grad(made, true);
    if (status != NX_OK) return nx_tensor_unref(made), nxpy_raise(status);
    PyObject *object = nxpy_tensor_take(made);
    if (!object || Py_TYPE(object) == Py_TYPE(like)) return object;
    PyTypeObject *now = Py_TYPE(object);
    Py_INCREF((PyObject *)Py_TYPE(like));
    Py_SET_TYPE(object, Py_TYPE(like));
    Py_DECREF(now);
    return object;
}

/* ---- histories ----------------------------------------------------------------------------------------------------------- */
/* What a walk through a history looks for. */
typedef struct search {
    bool is_marked;
    nx_map inputs, leaves;      /* where the inputs and the leaves of the trace's own begin -> their fakes */
    nx_map met;                 /* fakes of both that were met */
    nx_map hooked;              /* where other tensors with hooks begin -> what is known of these */
    const nxpy_hooked *hook;    /* met */
    bool any_input;             /* met */
    bool unknown_leaf, over;    /* met: a leaf that is none of them; what a backward has used up */
    bool written;               /* met: a write, whose formula may read what is gone */
    int n_older;                /* of the inputs: those that have a history of their own, */
    const nx_tensor *older;     /* and the last one */
} search;

static nx_status walk(nx_grad_node *from, search *s) {
    NX_VEC(nx_grad_node *) stack = {0};
    nx_map seen = {0};
    nx_status status = nx_vec_push(&stack, from);
    while (status == NX_OK && stack.n > 0) {
        nx_grad_node *node = stack.at[--stack.n];
        if (nx_map_get(&seen, node)) continue;
        const nx_tensor *input = nx_map_get(&s->inputs, node), *own = nx_map_get(&s->leaves, node), *begin = input ? input : own;
        s->over |= node->released;
        if (nx_map_get(&s->hooked, node)) s->hook = nx_map_get(&s->hooked, node);
        s->any_input |= input != NULL;
        s->unknown_leaf |= !begin && is_leaf(node);
        if (begin) status = nx_map_set(&s->met, begin, (void *)begin);
        if (input && nx_grad_is_stand_in(input)) s->older = input, s->n_older++;
        s->written |= is_write(node);
        if (status == NX_OK) status = nx_map_set(&seen, node, node);
        for (int e = 0; e < node->n_edges && status == NX_OK; e++)
            if (node->edges[e].node) status = nx_vec_push(&stack, node->edges[e].node);
    }
    nx_vec_free(&stack);
    nx_map_free(&seen);
    return status;
}

static nx_status mark_hooked(nxpy_trace *trace, nx_map *begins) {
    nx_status status = NX_OK;
    for (int k = 0; k < trace->hooked.n && status == NX_OK; k++) {
        nxpy_hooked *hooked = &trace->hooked.at[k];
        const nxpy_note *note = &trace->notes.at[hooked->note];
        nx_edge edge = {NULL, 0};
        if (note->leaf || note->is_input || !has_any(hooked)) continue;
        status = nx_grad_edge(nxpy_tensor_get(note->object), &edge);
        if (status == NX_OK && edge.node) status = nx_map_set(begins, edge.node, hooked);
        nx_grad_node_unref(edge.node);
    }
    return status;
}

static nx_status search_from(nxpy_trace *trace, nx_tensor *tensor, search *s) {
    nx_edge edge = {NULL, 0};
    if (!nx_tensor_requires_grad(tensor)) return NX_OK;
    nx_status status = s->is_marked ? NX_OK : mark(trace, trace->inputs.at, trace->inputs.n, &s->inputs);
    if (status == NX_OK && !s->is_marked) status = mark(trace, trace->leaves.at, trace->leaves.n, &s->leaves);
    if (status == NX_OK && !s->is_marked) status = mark_hooked(trace, &s->hooked);
    s->is_marked = true;
    if (status == NX_OK) status = nx_grad_edge(tensor, &edge);
    if (status == NX_OK && edge.node) status = walk(edge.node, s);
    nx_grad_node_unref(edge.node);
    return status;
}

static nx_status search_roots(nxpy_trace *trace, PyObject *roots, search *s) {
    nx_status status = NX_OK;
    for (Py_ssize_t k = 0; status == NX_OK && k < PyTuple_GET_SIZE(roots); k++) {
        PyObject *root = PyTuple_GET_ITEM(roots, k);
        if (nxpy_tensor_check(root)) status = search_from(trace, nx_tensor_whole(nxpy_tensor_get(root)), s);
    }
    return status;
}

static void search_end(search *s) {
    nx_map_free(&s->inputs);
    nx_map_free(&s->leaves);
    nx_map_free(&s->met);
    nx_map_free(&s->hooked);
}

/* A hook at a leaf of the caller's that is asked for changes its gradient. */
static nx_status find_hooks(nxpy_trace *trace, PyObject *wanted, bool *any) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(wanted); k++) {
        const nxpy_note *note = nxpy__note_find(trace, PyTuple_GET_ITEM(wanted, k));
        nx_grad_hook *hook;
        if (!note || !note->real || !nx_tensor_requires_grad(nxpy_tensor_get(note->real))) continue;
        NX_TRY(nx_grad_hook_of(nxpy_tensor_get(note->real), NX_HOOK_GRADIENT, &hook));
        *any |= hook->context != NULL;
    }
    return NX_OK;
}

/* Whether what was there before the graph may lead from an input of it to one that is asked for. */
static bool may_lead_to(nxpy_trace *trace, const search *s, PyObject *wanted) {
    PyObject *first = PyTuple_GET_SIZE(wanted) == 1 ? PyTuple_GET_ITEM(wanted, 0) : NULL;
    bool same = s->n_older == 1 && first && nxpy_tensor_check(first) && nxpy_tensor_get(first) == s->older;
    for (Py_ssize_t k = 0; s->n_older && !same && k < PyTuple_GET_SIZE(wanted); k++) {
        const nxpy_note *note = nxpy__note_find(trace, PyTuple_GET_ITEM(wanted, k));
        if (!note || note->is_input) return true;
    }
    return false;
}

/* Why gradients of the roots would not be the program's. *why NULL: there is no reason. */
static nx_status find_obstacle(nxpy_trace *trace, PyObject *roots, PyObject *wanted, const char **why) {
    search s = {0};
    bool hooked = false;
    nx_status status = find_hooks(trace, wanted, &hooked);
    if (status == NX_OK) status = search_roots(trace, roots, &s);
    search_end(&s);
    bool older = may_lead_to(trace, &s, wanted);
    *why = hooked ? "of a tensor with hooks" : older ? "a history from before the graph" : s.written ? "of tensors that are written" : NULL;
    return status;
}

/* Of what a walk through the history of the roots met; NULL without an exception: stopped. */
static PyObject *list_leaves(nxpy_trace *trace, search *s, const char **why) {
    PyObject *leaves = PyList_New(0), *all;
    for (int k = 0; leaves && k < trace->inputs.n + trace->leaves.n; k++) {
        bool given = k < trace->inputs.n;
        const nxpy_note *note = &trace->notes.at[given ? trace->inputs.at[k] : trace->leaves.at[k - trace->inputs.n]];
        nx_tensor *fake = nx_tensor_whole(nxpy_tensor_get(note->object));
        nx_grad_hook *hook = NULL;
        if (!nx_map_get(&s->met, fake)) continue;
        nx_status status = NX_OK; /* those of a leaf that the trace makes are followed */
        if (given && note->real) status = nx_grad_hook_of(nxpy_tensor_get(note->real), NX_HOOK_ACCUMULATED, &hook);
        if (status != NX_OK) nxpy_raise(status);
        else if (hook && hook->context) *why = "of a tensor with hooks";
        if (status != NX_OK || PyList_Append(leaves, note->object) < 0) Py_CLEAR(leaves);
    }
    all = leaves ? PyList_AsTuple(leaves) : NULL;
    Py_XDECREF(leaves);
    return all;
}

PyObject *nxpy__leaves_of(nxpy_trace *trace, PyObject *roots) {
    search s = {0};
    const char *why = NULL;
    PyObject *leaves = NULL;
    nx_status status = search_roots(trace, roots, &s);
    if (status != NX_OK) nxpy_raise(status);
    else leaves = list_leaves(trace, &s, &why);
    if (s.n_older) why = "a history from before the graph";
    if (s.unknown_leaf) why = "into a leaf that the graph makes";
    search_end(&s);
    if (!leaves || !why) return leaves;
    Py_DECREF(leaves);
    return nxpy__stop(trace, NXPY_BREAK_METHOD, "Tensor.backward: %s", why), NULL;
}

/* What autograd keeps is another tensor over the memory of the one that is known. */
static nx_status find_kept(nx_tracer *tracer, nx_tensor *tensor, nx_value *node) {
    return nx_tracer_find_place(tracer, tensor, node) ? NX_OK : nxpy__stop_unknown(tracer, tensor, node);
}

static nx_value tensors_of(PyObject *tuple, nx_value *room) {
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, k);
        room[k] = item == Py_None ? NX_VALUE_NONE : nx_value_tensor(nxpy_tensor_get(item));
    }
    return nx_value_list(room, (int)n);
}

/* roots, gradients, retain, create, inputs. */
static PyObject *call_backward(PyObject *const *args) {
    Py_ssize_t n = PyTuple_GET_SIZE(args[0]), n_wanted = PyTuple_GET_SIZE(args[4]);
    nx_value *room = nx_alloc(sizeof *room * (size_t)(2 * n + n_wanted + 1)), out = NX_VALUE_NONE;
    if (!room) return nxpy_raise(NX_NO_MEMORY);
    nx_value in[] = {[NX_BACKWARD_ROOTS] = tensors_of(args[0], room),
                     [NX_BACKWARD_SEEDS] = tensors_of(args[1], room + n),
                     [NX_BACKWARD_WANTED] = tensors_of(args[4], room + 2 * n),
                     [NX_BACKWARD_RETAIN] = nx_value_bool(args[2] == Py_True),
                     [NX_BACKWARD_CREATE] = nx_value_bool(args[3] == Py_True)};
    nx_status status = nx_op_call(nx_backward_op(), in, &out);
    PyObject *found = status == NX_OK ? PyTuple_New(n_wanted) : nxpy_raise(status);
    for (Py_ssize_t k = 0; found && k < n_wanted; k++) {
        const nx_value *one = &out.list[k];
        PyObject *item = one->tag == NX_TAG_TENSOR ? nxpy_tensor_take(nx_tensor_ref(one->tensor)) : Py_NewRef(Py_None);
        if (item) PyTuple_SET_ITEM(found, k, item);
        else Py_CLEAR(found);
    }
    nx_value_drop(&out);
    nx_free(room);
    return found;
}

PyObject *nxpy__run_recorded(nxpy_trace *trace, PyObject *run, PyObject *const *args, Py_ssize_t n) {
    nx_thread *thread = nx_thread_get();
    const char *target = thread->target, *why = NULL;
    nx_status status = find_obstacle(trace, args[0], args[4], &why);
    if (status != NX_OK) return nxpy_raise(status);
    if (why) return nxpy__stop(trace, NXPY_BREAK_METHOD, "autograd.grad: %s", why), NULL;
    bool is_whole = is_one_call(trace);
    if (!is_whole) trace->tracer.unknown = find_kept;
    thread->target = NULL;
    trace->uses_up |= args[2] != Py_True;
    trace->n_before = trace->notes.n;
    PyObject *result = is_whole ? call_backward(args) : PyObject_Vectorcall(run, args, (size_t)n, NULL);
    thread->target = target;
    trace->tracer.unknown = nxpy__stop_unknown;
    return result;
}

/* ---- what lives on ------------------------------------------------------------------------------------------------------- */
/* A history that a part of a graph without gradients gave it. */
static bool has_lost_history(nxpy_trace *trace, nx_tensor *fake) {
    bool any = trace->grads_on_at >= 0 && nx_tensor_requires_grad(fake);
    if (!any || nx_tensor_is_leaf(fake) || nx_grad_is_stand_in(fake)) return false;
    trace->unmakeable_at = trace->grads_on_at;
    trace->unmakeable = "a tensor with a history, in a graph that began with gradients off";
    return true;
}

bool nxpy__inputs_may_live_on(nxpy_trace *trace) {
    bool lost = false;
    for (int k = 0; trace->grads_on_at >= 0 && k < trace->inputs.n && !lost; k++)
        lost = has_lost_history(trace, nx_tensor_whole(nxpy_tensor_get(trace->notes.at[trace->inputs.at[k]].object)));
    return !lost;
}

/* Leaves of the trace's own that were met, also as what is none any more, are inputs in the next try: 3; 1: there are none; 0: one
 * cannot be, which is known from an earlier try; -1. */
static int ask_for_leaves(nxpy_trace *trace, search *s) {
    int lives = 1;
    for (int k = 0; k < trace->leaves.n && lives > 0; k++) {
        const nxpy_note *note = &trace->notes.at[trace->leaves.at[k]];
        PyObject *asked;
        nx_tensor *own = nxpy_tensor_get(note->object);
        if (!nx_map_get(&s->met, own) && !(s->unknown_leaf && !nx_tensor_requires_grad(own))) continue;
        if (s->any_input && !has_hooks(trace, note)) continue; /* nobody can tell that it is not there */
        lives = 3;
        int met = was_met(trace, note->leaf, &asked);
        if (met == 0 && PyDict_SetItem(trace->answers, asked, Py_None) < 0) met = -1;
        Py_XDECREF(asked);
        if (met < 0) return -1;
        if (met == 0) continue;
        trace->unmakeable_at = note->born_at;
        trace->unmakeable = "a leaf that the graph makes over memory that is another tensor's, too";
        lives = 0;
    }
    if (lives == 3) nxpy__ask_for(trace, NXPY_ASK_LEAVES);
    return lives;
}

/* Where it was told to keep its gradient; NULL: it was not. */
static const nxpy_hooked *keeps_gradient(const nxpy_trace *trace, const nx_tensor *fake) {
    for (int k = 0; k < trace->hooked.n; k++) {
        const nxpy_hooked *hooked = &trace->hooked.at[k];
        if (!hooked->functions && nxpy_tensor_get(trace->notes.at[hooked->note].object) == fake) return hooked;
    }
    return NULL;
}

int nxpy__may_live_on(nxpy_trace *trace, nx_tensor *fake) {
    search s = {0};
    if (has_lost_history(trace, nx_tensor_whole(fake))) return 0;
    if (!(trace->leaves.n || trace->uses_up || trace->hooked.n) || !nx_tensor_requires_grad(fake)) return 1;
    nx_status status = search_from(trace, nx_tensor_whole(fake), &s);
    const nxpy_hooked *hook = s.over ? keeps_gradient(trace, fake) : s.hook;
    if (status == NX_OK && hook) {
        trace->unmakeable_at = hook->at;
        trace->unmakeable = "a tensor whose history has hooks of the graph's own";
    }
    int lives = status != NX_OK ? -1 : hook ? 0 : s.over ? 2 : ask_for_leaves(trace, &s);
    search_end(&s);
    if (status != NX_OK) nxpy_raise(status);
    return lives;
}
