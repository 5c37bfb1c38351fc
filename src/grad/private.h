/* Shared by the files of src/grad alone. */
#ifndef NX_GRAD_PRIVATE_H
#define NX_GRAD_PRIVATE_H

#include "grad/grad.h"

/* The edges of one argument of an operator node: one, or as many as a list has tensors. */
typedef struct nx__edges {
    int argument, start, n;
    int gradient;            /* where the formula puts theirs: at the argument's number, of lists behind all arguments */
} nx__edges;

/* Every nx_grad_node is the head of one of these; edges and whatever else the node holds follow in the same
 * block. */
typedef struct nx__node {
    nx_grad_node node;
    struct nx__node *next;                  /* in the free list, or among the dead */
    size_t bytes;                           /* of the block */
    /* results that keep their gradient; they leave the list when they go */
    nx_autograd *retained;
    void (*destroy)(struct nx__node *node); /* releases what stays until the node goes; NULL: nothing */
    /* scratch of the engine: a run claims the nodes that it walks */
    struct nx__run *run;
    int task;
    int n_running;                          /* runs that are in its apply now: what it saves stays for them */
    bool stops;                             /* the last of them releases it */
    /* edges whose gradients the run asks for, by bit (operator nodes): read before anything lets another run begin */
    uint64_t wanted;
    nx_grad_hook *hooks;                    /* owned */
    void *made_at;                          /* what anomaly mode noted, NULL; owned */
    nx_grad_node *outer;                    /* CopySlices around this operator's node, lent; NULL */
    /* operator nodes (operator.c) */
    int n_in, n_out;
    int n_edges_of;                         /* 0: no list is differentiable, and edge k is of argument k */
    nx__edges *edges_of;                    /* else a row an argument, up to the last differentiable one */
    uint64_t lists;                         /* the differentiable arguments that are lists */
    uint64_t whole;                         /* slots that hold a tensor */
    uint64_t shapes;                        /* slots that hold a tensor's shape */
    uint64_t kept;                          /* slots with something to drop */
    uint64_t packed;                        /* of the whole ones: those that hold an nx_saved */
    struct nx__slot *slots;                 /* n_in arguments, then n_out results */
} nx__node;
/* As nx_tensor_requires_grad, where a call would cost. */
static inline bool nx__requires_grad(const nx_tensor *tensor) { return (tensor->keys & NX_KEY(AUTOGRAD)) != 0; }
static inline nx__node *nx__node_of(nx_grad_node *node) { return (nx__node *)node; }

/* The argument of an operator node that an edge belongs to. */
static inline int nx__edge_argument(const nx__node *node, int edge) {
    int k = 0;
    if (NX_LIKELY(node->n_edges_of == 0)) return edge;
    while (edge >= node->edges_of[k].start + node->edges_of[k].n) k++;
    assert(k < node->n_edges_of);
    return k;
}

/* Blocks of nodes: small ones come from a list of the thread. */
enum { NX__NODE_BYTES = 768 }; /* an operator of three tensors and two numbers, addmm above all */
nx__node *nx__node_block(size_t bytes); /* not from the list; NULL without memory */
static inline nx__node *nx__node_take(nx_thread *thread, size_t bytes) {
    nx__node *node = thread->free_nodes;
    if (NX_UNLIKELY(node == NULL || bytes > NX__NODE_BYTES || nx_alloc_watched())) return nx__node_block(bytes);
    thread->free_nodes = node->next;
    thread->n_free_nodes--;
    return node;
}

/* A node in a block of `bytes`: every field but `task`, `wanted` and `slots`, and no edge yet. Field by field: gcc
 * clears a struct of this size by `rep stos`, which takes longer than all the rest. */
static inline void nx__node_start(nx__node *node, nx_thread *thread, const nx_grad_class *class, size_t bytes) {
    nx_count_start(&node->node.refs);
    node->node.class = class;
    node->node.sequence = ++thread->grad_sequence;
    node->node.n_inputs = node->node.n_edges = 0;
    node->node.edges = (nx_edge *)(node + 1);
    node->node.released = false;
    node->node.is_last = false;
    node->node.op = NULL;
    node->node.context = NULL;
    node->bytes = bytes;
    node->retained = NULL;
    node->destroy = NULL;
    node->run = NULL;
    node->n_running = 0;
    node->stops = false;
    node->hooks = NULL;
    node->made_at = NX_UNLIKELY(thread->anomaly) && thread->tracer == NULL ? nx_anomaly_note() : NULL;
    node->outer = NULL;
    node->n_in = node->n_out = 0;
    node->n_edges_of = 0;
    node->lists = 0;
    node->whole = node->shapes = node->kept = node->packed = 0;
}

NX_MUST_USE nx_status nx__node_new(const nx_grad_class *class, int n_inputs, int n_edges, size_t more_bytes,
                                   nx__node **out);
static inline void *nx__node_more(nx__node *node) { return node->node.edges + node->node.n_edges; }
/* releases what is saved, once, when no run is at the node any more; nodes that save nothing can be run again */
void nx__node_stop(nx_grad_node *node);
void nx__node_leave(nx_grad_node *node); /* a run is no longer at it */
/* Whether long work of this thread keeps the interpreter's lock from now on; returns whether it did before. */
static inline bool nx__keep_lock(bool keeps) {
    nx_thread *thread = nx_thread_get();
    bool before = thread->keeps_lock;
    thread->keeps_lock = keeps;
    return before;
}

/* The autograd record of `tensor`, made if there is none. */
NX_MUST_USE nx_status nx__autograd_of(nx_tensor *tensor, nx_autograd **out);
/* As nx_grad_edge, where a call would cost: the commonest tensors, which are no views and have been used before. */
static inline nx_status nx__edge_of(nx_tensor *tensor, nx_edge *out) {
    nx_autograd *autograd = tensor->autograd;
    if (NX_UNLIKELY(tensor->base != NULL || autograd == NULL)) return nx_grad_edge(tensor, out);
    nx_grad_node *node = autograd->node;
    if (node == NULL) node = atomic_load_explicit(&autograd->accumulator, memory_order_acquire);
    if (NX_UNLIKELY(node == NULL || !nx__requires_grad(tensor))) return nx_grad_edge(tensor, out);
    nx_count_up(&node->refs);
    *out = (nx_edge){node, autograd->node ? autograd->output : 0};
    return NX_OK;
}

/* A record that waits in the thread's list; NULL: there is none, or the list stands aside. */
static inline nx_autograd *nx__record_take(nx_thread *thread) {
    nx_autograd *record = thread->free_autograds;
    if (NX_UNLIKELY(record == NULL || nx_alloc_watched())) return NULL;
    thread->free_autograds = record->next_free;
    thread->n_free_autograds--;
    return record;
}

/* Makes `tensor` the one result of `node`, whose reference it takes. As nx_grad_take_node, without a call for the
 * commonest result: a new tensor. */
static inline nx_status nx__history_take(nx_tensor *tensor, nx_grad_node *node) {
    nx_autograd *record = NX_LIKELY(tensor->autograd == NULL) ? nx__record_take(nx_thread_get()) : NULL;
    if (NX_UNLIKELY(record == NULL)) return nx_grad_take_node(tensor, node, 0);
    *record = (nx_autograd){.node = node};
    tensor->autograd = record;
    if (tensor->base) tensor->attr_version = tensor->base->attr_version;
    tensor->keys |= NX_KEY(AUTOGRAD);
    return NX_OK;
}

void nx__tangent_drop(nx_autograd *autograd);
void nx__retain_stop(nx_autograd *autograd); /* takes it out of its node's list */
NX_MUST_USE nx_status nx__accumulator_new(nx_tensor *leaf, nx_grad_node **out);

/* ---- operator nodes ----------------------------------------------------------------------------------- */
/* A node for a call of `op` whose arguments in `needed` want gradients. Saves arguments. `original` stands
 * for the tensor in[0] when that is about to be overwritten (NULL: it is not, or not read). */
NX_MUST_USE nx_status nx__operator_new(const nx_op *op, const nx_value *in, uint64_t needed,
                                       nx_tensor *original, nx__node **out);
NX_MUST_USE nx_status nx__operator_save_results(nx__node *node, nx_value *out);
/* ---- views (view.c) ------------------------------------------------------------------------------------- */
/* An error when `view` was taken so that it cannot follow: "... and `what` modified inplace ...". */
NX_MUST_USE nx_status nx__view_check(const nx_tensor *view, const char *what);
/* Its base has a newer history than when the view got its own. */
bool nx__view_is_stale(const nx_tensor *tensor);
NX_MUST_USE nx_status nx__view_renew(nx_tensor *view);
/* The history of view->base after an operator has written `view`. Takes `inner`, the operator's node, when
 * it succeeds. */
NX_MUST_USE nx_status nx__slices_new(nx_tensor *view, nx__node *inner, nx__node **out);
/* The operator's node in such a history; of another node itself. */
nx_grad_node *nx__slices_inner(nx_grad_node *node);
/* Gives a saved result of such an operator, which is the written view, its history again. */
NX_MUST_USE nx_status nx__slices_restore(nx_grad_node *outer, nx_tensor *result);
/* "Add" of "AddBackward0": its first n characters. */
const char *nx__short_name(const nx_grad_node *node, int *n);

/* The derivative of an operator, which its in-place form shares; NULL. */
static inline const nx_derivative *nx__derivative_of(const nx_op *op) {
    if (op->def->derivative || op->functional == NULL) return op->def->derivative;
    return op->functional->def->derivative;
}
bool nx__operator_reads(const nx_derivative *derivative, uint64_t needed, int argument);

/* ---- forward mode (forward.c, jvp.c, tangent.c) ----------------------------------------------------------- */
enum { NX__MAX_ARGUMENTS = 64, NX__MAX_RESULTS = 8, NX__FEW_TANGENTS = 8 };
/* nx_thread.for_tangent: tangents are computed; a formula is recorded to be differentiated at once. */
enum { NX__FOR_TANGENT = 1, NX__FOR_FORMULA = 2 };
/* The tangents of a call's arguments, by their number: NONE, a tensor, or a list of both; owned. */
typedef struct nx__duals {
    uint64_t which;                         /* arguments that carry one, or that are a list of which one does */
    int n;
    nx_value at[NX__MAX_ARGUMENTS];
} nx__duals;
NX_MUST_USE nx_status nx__jvp(const nx_op *op, const nx_value *in, nx_value *results, int n, const nx__duals *duals,
                              nx_tensor **tangents);
bool nx__carries_tangent(const nx_op *op, const nx_value *results, int k); /* result k of `op` */
nx_status nx__fail_forward(const nx_op *op);            /* "Trying to use forward AD with ..." */
/* An alias with tensor's place in the graph, and without its tangent. */
NX_MUST_USE nx_status nx__placed_alias(nx_tensor *tensor, nx_tensor **out);
/* What the node that made `result` has saved of it gets the tangent, too, for a backward that runs while the level is open. */
NX_MUST_USE nx_status nx__operator_tell_tangent(nx_tensor *result, nx_tensor *tangent);
/* `to`, which is a copy of `from`, or an alias of it, gets its tangent (a copy, or the same). */
NX_MUST_USE nx_status nx__tangent_hand_on(nx_tensor *from, bool copied, nx_tensor *to);

/* ---- operators that the engine itself calls ----------------------------------------------------------- */
NX_MUST_USE nx_status nx__call_named(const char *name, const nx_value *in, nx_tensor **out); /* an operator of one result */
NX_MUST_USE nx_status nx__add(nx_tensor *a, nx_tensor *b, nx_tensor **out); /* in the order that the next asks for */
NX_MUST_USE nx_status nx__add_in_place(nx_tensor *a, nx_tensor *b);
/* Whether b may be added to a in place: a tensor that a class answers for, such as a sparse one, does not become a plain one, and
 * what is the same for all slices does not become one slice's. */
static inline bool nx__takes(const nx_tensor *a, const nx_tensor *b) {
    bool of_class = !(a->keys & NX_KEY(PYTHON)) || (b->keys & NX_KEY(PYTHON));
    return of_class && (b->whole == NULL || (a->whole && (a->levels & b->levels) == b->levels));
}
NX_MUST_USE nx_status nx__ones_like(nx_tensor *like, nx_tensor **out);
NX_MUST_USE nx_status nx__clone(nx_tensor *from, bool preserve_strides, nx_tensor **out);
/* from's elements, like's strides */
NX_MUST_USE nx_status nx__copy_like(nx_tensor *from, nx_tensor *like, nx_tensor **out);
NX_MUST_USE nx_status nx__copy_into(nx_tensor *to, nx_tensor *from);
NX_MUST_USE nx_status nx__zero(nx_tensor *tensor);
NX_MUST_USE nx_status nx__zeros_of(nx_tensor *like, nx_tensor **out);
NX_MUST_USE nx_status nx__detach(nx_tensor *from, nx_tensor **out);
/* `g` as a gradient of `like`: summed to its size, cast to its dtype, moved to its device. Replaces *g. */
NX_MUST_USE nx_status nx__fit(nx_tensor **g, const nx_array *like);
/* Nobody but the caller, who holds one reference, sees the elements of `tensor`. */
bool nx__is_sole(const nx_tensor *tensor);

#endif
