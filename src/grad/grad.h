/* grad: reverse-mode differentiation. One boxed function at the AUTOGRAD key serves all operators, driven by
 * nx_op_def.derivative. Nodes form a graph from results to leaves; the engine walks it in reverse order of
 * making. */
#ifndef NX_GRAD_H
#define NX_GRAD_H

#include "iter/iter.h"

typedef struct nx_grad_node nx_grad_node;
typedef struct nx_edge { nx_grad_node *node; int input; } nx_edge; /* node owned; NULL: no gradient wanted */

/* What a node does. `g` has node->n_inputs gradients (NULL: undefined), and it may take one, by leaving NULL there; grads has room
 * for node->n_edges. */
typedef struct nx_grad_class {
    const char *name;                 /* "AddBackward0" */
    nx_status (*apply)(nx_grad_node *node, nx_tensor **g, nx_tensor **grads);
    /* drops what is saved; called once, after backward or at the end */
    void (*release)(nx_grad_node *node);
    void (*end)(nx_grad_node *node);  /* drops the context, as the last thing; NULL: nothing to drop */
} nx_grad_class;
struct nx_grad_node {
    nx_count refs;
    const nx_grad_class *class;
    uint64_t sequence;
    int n_inputs, n_edges;            /* results of the forward call; arguments that it had */
    nx_edge *edges;
    bool released;                    /* saved values are gone: a second backward fails */
    bool is_last;                     /* while apply runs: what is saved is not needed after it; see nx_grad_node_is_last */
    const nx_op *op;                  /* for operator nodes */
    void *context;                    /* the class's own */
};
/* A new node with room for edges; its own apply and context. For compiled graphs and Python functions. */
NX_MUST_USE nx_status nx_grad_node_new(const nx_grad_class *class, int n_inputs, int n_edges, void *context,
                                       nx_grad_node **out);
void nx_grad_node_ref(nx_grad_node *node);
void nx_grad_node_unref(nx_grad_node *node);
const char *nx_grad_node_name(const nx_grad_node *node);
/* Asked by apply: what is saved may go now; nothing needs it later, and no other thread's backward is at this node. */
bool nx_grad_node_is_last(const nx_grad_node *node);

typedef struct nx_autograd {          /* of a tensor */
    bool requires_grad;               /* of a leaf */
    nx_tensor *grad;                  /* accumulated; owned */
    nx_grad_node *node;               /* what made it; owned; NULL for leaves */
    int output;                       /* which of node's results */
    /* of a leaf that a graph has used; owned, knows the leaf as its context. Threads that use one leaf at once agree on it. */
    nx_grad_node *_Atomic accumulator;
    bool retains_grad;
    struct nx__tangent *tangent;      /* of forward mode, while its level is open (tangent.c); owned; NULL */
    union {
        struct nx_autograd *next_retained;/* of node's results that retain their gradient (lent) */
        struct nx_autograd *next_free;    /* of the thread's free records */
    };
} nx_autograd;

bool nx_grad_enabled(void);
void nx_grad_set_enabled(bool enabled);
bool nx_tensor_requires_grad(const nx_tensor *tensor);
bool nx_tensor_is_leaf(const nx_tensor *tensor);
/* Edge into the graph for an input: its node, or its accumulator. node NULL when it needs no gradient. */
NX_MUST_USE nx_status nx_grad_edge(nx_tensor *tensor, nx_edge *out);
/* The node that made `tensor` (lent; NULL: a leaf). Of a view that is out of date, a new one. */
NX_MUST_USE nx_status nx_grad_node_of(nx_tensor *tensor, nx_grad_node **out);
/* As nx_grad_set_node, but takes the caller's reference, also on failure. */
NX_MUST_USE nx_status nx_grad_take_node(nx_tensor *tensor, nx_grad_node *node, int output);
/* Makes `tensor` result `output` of `node` (a reference is taken). */
NX_MUST_USE nx_status nx_grad_set_node(nx_tensor *tensor, nx_grad_node *node, int output);
/* Makes a fresh tensor a result that depends on `leaf` as on itself (NULL: on nothing whose gradient is wanted),
 * for traces, whose inputs must not be leaves where the caller's are none. */
NX_MUST_USE nx_status nx_grad_stand_in(nx_tensor *tensor, nx_tensor *leaf);
/* Makes `tensor` a non-leaf whose history a backward has used up: the next one fails. */
NX_MUST_USE nx_status nx_grad_stand_over(nx_tensor *tensor);
bool nx_grad_is_stand_in(const nx_tensor *tensor); /* its history is still that one */
/* `tensor`, which is no view, has been written by what `node` stands for: it and its views get a new history. */
NX_MUST_USE nx_status nx_grad_set_written(nx_tensor *tensor, nx_grad_node *node, int output);
/* An error when autograd refuses that an operator writes `tensor` while gradients are recorded: a leaf, a view of one ... */
NX_MUST_USE nx_status nx_grad_check_written(const nx_tensor *tensor);
/* An error when `saved` has been written since its version was `expected`; it is result `output` of `maker` (NULL). */
NX_MUST_USE nx_status nx_grad_check_version(const nx_tensor *saved, uint32_t expected, const nx_grad_node *maker,
                                            int output);
void nx_grad_drop(nx_tensor *tensor);                   /* detach_ */
NX_MUST_USE nx_status nx_tensor_set_grad(nx_tensor *tensor, nx_tensor *grad); /* NULL clears */
/* The gradient of a non-leaf is added into its grad as well; on a leaf this does nothing. */
NX_MUST_USE nx_status nx_tensor_retain_grad(nx_tensor *tensor);

/* Whether the backward that runs in this thread comes by `node`, or captures what arrives there. An error outside of one. */
NX_MUST_USE nx_status nx_grad_will_run(const nx_grad_node *node, bool *out);
/* Gradients of roots (seeds g[i], NULL: ones of a one-element root) with respect to the leaves, or, when
 * inputs is not NULL, of just these: into out[i] (new references, NULL if unused). */
NX_MUST_USE nx_status nx_grad_run(nx_tensor *const *roots, nx_tensor *const *g, int n_roots,
                                  bool retain_graph, bool create_graph,
                                  nx_tensor *const *inputs, int n_inputs, nx_tensor **out);

/* An error that names the first entry of `grads` that is NULL: what autograd.grad says without
 * allow_unused. */
NX_MUST_USE nx_status nx_grad_check_used(nx_tensor *const *grads, int n);

/* While a graph is traced views are known by the operators that made them; src/ir fills these in. What stands for the
 * views that lead to `view` (lent; NULL: nothing is traced), and those views taken of `of`. */
extern const void *(*nx_trace_views)(const nx_tensor *view);
extern nx_status (*nx_trace_retake)(const void *views, nx_tensor *of, nx_tensor **out);

/* ---- forward mode: tangents, which operators compute as they compute their results (forward.c) ---- */
NX_MUST_USE nx_status nx_forward_enter(void);           /* opens the one level that there is */
NX_MUST_USE nx_status nx_forward_exit(void);            /* all tangents go */
bool nx_forward_enabled(void);                          /* of this thread: the key FORWARD is not excluded */
void nx_forward_set_enabled(bool enabled);
/* A view of `primal` with that tangent, which no other view of it shares. */
NX_MUST_USE nx_status nx_forward_make_dual(nx_tensor *primal, nx_tensor *tangent, nx_tensor **out);
/* Both new references: a view of `dual` without a tangent, and its tangent (NULL: it has none). */
NX_MUST_USE nx_status nx_forward_unpack(nx_tensor *dual, nx_tensor **primal, nx_tensor **tangent);
NX_MUST_USE nx_status nx_tangent_of(nx_tensor *tensor, nx_tensor **out); /* a new reference; NULL: it has none */
/* Of a tensor that has none. It lies in memory as the tensor does, or is copied so. */
NX_MUST_USE nx_status nx_tangent_set(nx_tensor *tensor, nx_tensor *tangent);
/* Of one that has been written, or may have one: into the tangent that it has, or that of what it is a view of. NULL: zeros. */
NX_MUST_USE nx_status nx_tangent_write(nx_tensor *tensor, nx_tensor *tangent);
void nx_tangent_drop(nx_tensor *tensor);
/* An error when one of the tensors (NULL: none) carries a tangent that what is about to run would lose: a compiled graph. */
NX_MUST_USE nx_status nx_forward_refuse(nx_tensor *const *tensors, int n);
nx_status nx_forward_call(nx_run *run, const nx_value *in, nx_value *out); /* at FORWARD */

/* What is called during backward: for a tensor with its gradient before it goes on; with a leaf that has just got its gradient;
 * for a node with all that arrived, before it runs; with all that it gives, and what it gave that for, when it has run.
 * NX_HOOK_NOTES is never called: what a program keeps at a node. */
typedef enum nx_hook_kind {
    NX_HOOK_GRADIENT, NX_HOOK_ACCUMULATED, NX_HOOK_BEFORE, NX_HOOK_AFTER, NX_HOOK_NOTES
} nx_hook_kind;
typedef struct nx_grad_hook {
    struct nx_grad_hook *next;      /* of the node */
    nx_hook_kind kind;
    int output;                     /* of a tensor's: which result of the node it is */
    void *context;                  /* NULL: a hook that does nothing yet */
    /* May replace what it is given (NULL: no gradient), but no leaf: it takes a new reference and gives the old one up.
     * arrived: what the node has run for; NULL unless the kind is NX_HOOK_AFTER. */
    nx_status (*call)(struct nx_grad_hook *hook, nx_tensor **values, int n, nx_tensor *const *arrived, int n_arrived);
    void (*free)(void *context);
} nx_grad_hook;
/* The hook of that kind at `tensor`, which needs a gradient; made without a context if there is none. Lent: it lives as
 * long as the node that made the tensor, or as the leaf. */
NX_MUST_USE nx_status nx_grad_hook_of(nx_tensor *tensor, nx_hook_kind kind, nx_grad_hook **out);
/* The same of a node itself (output 0), or of one of its results. It lives as long as the node. */
NX_MUST_USE nx_status nx_grad_node_hook_of(nx_grad_node *node, nx_hook_kind kind, int output, nx_grad_hook **out);
/* For a collector of cycles: shows the nodes that go when `tensor` goes (hook NULL), and the hooks at them, until visit
 * gives something else than 0, which is returned. */
typedef int nx_grad_visit(const nx_grad_node *node, const nx_grad_hook *hook, void *context);
int nx_grad_each_owned(const nx_tensor *tensor, nx_grad_visit *visit, void *context);

/* Anomaly mode, set by py/bind: what a node that is made now keeps (NULL: nothing; freed by the last one); what looks at a node
 * that has run, and may turn its success into an error. grads is NULL when it has failed: that stays. */
extern void *(*nx_anomaly_note)(void);
extern nx_status (*nx_anomaly_check)(const char *name, void *note, nx_tensor *const *grads, int n);
extern void (*nx_anomaly_free)(void *note);

/* A saved tensor in a form of the user's own. */
typedef struct nx_packed {
    nx_status (*unpack)(struct nx_packed *packed, nx_tensor **out); /* a new reference */
    void (*free)(struct nx_packed *packed);
} nx_packed;
/* What packs tensors for nodes made on this thread, with its saved_hooks; set by their owner (py/bind). */
extern nx_status (*nx_grad_pack)(void *hooks, nx_tensor *tensor, nx_packed **out);
/* `tensor`, which a node is about to save, packed by the thread's hooks; *out is NULL when there are none, or while a graph is
 * traced. */
NX_MUST_USE nx_status nx_saved_pack(nx_tensor *tensor, nx_packed **out);

/* The same, together with the tensor's place in the graph. NULL: there are no hooks. A result of the node that saves it gets its
 * history from that node. */
typedef struct nx_saved { nx_packed *packed; nx_edge edge; } nx_saved;
NX_MUST_USE nx_status nx_saved_new(nx_tensor *tensor, bool is_result, nx_saved **out);
/* A new reference; with its history when gradients are recorded. */
NX_MUST_USE nx_status nx_saved_take(const nx_saved *saved, nx_tensor **out);
void nx_saved_free(nx_saved *saved);

/* Helpers that generated formulas call (they go through the dispatcher). */
/* takes nothing; new reference */
NX_MUST_USE nx_status nx_grad_sum_to(nx_tensor *g, const nx_array *like, nx_tensor **out);

nx_status nx_autograd_call(nx_run *run, const nx_value *in, nx_value *out); /* at AUTOGRAD */

#endif
