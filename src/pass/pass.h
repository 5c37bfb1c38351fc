/* pass: from a captured graph to functional forward and backward graphs, and the passes over them.
 * pass.def is the pipeline as a table. */
#ifndef NX_PASS_H
#define NX_PASS_H

#include "ir/ir.h"

/* Whether a product with such a result comes out of own panels, where a row does not depend on how many there are and what is added
 * is added last: libraries promise neither, and halves are rounded before it. */
static inline bool nx_has_own_product(const nx_array *result) {
    return result->device.type == 0 && result->dtype == NX_F32 && nx_level() != NX_LEVEL_BASE;
}

/* How a captured graph became functional ones. Inputs of `forward`: the captured graph's inputs, in order. */
typedef struct nx_aot {
    nx_graph *joint;         /* primals then tangents -> outputs then gradients; NULL without gradients; for logs */
    nx_graph *forward;       /* inputs -> outputs, then new values of mutated inputs, then saved values */
    nx_graph *backward;      /* saved values, then tangents -> gradients of inputs; NULL without gradients */
    int n_inputs, n_outputs; /* of the captured graph */
    int n_mutated;           /* results n_outputs.. of forward are copied into inputs mutated[i] */
    int *mutated;
    bool *keeps_history;     /* n_mutated: the input requires grad and is written through detach() only */
    int n_saved;
    int *alias_of;           /* n_outputs: the input that an output is or is a view of, -1: none. The forward then returns
                                nothing useful there for identity: the runtime returns the input itself when same_as_input */
    bool *same_as_input;
    int *same_as_output;     /* n_outputs: the earlier output that it is the very tensor of, -1: none */
    uint32_t *writes;        /* n_outputs, then n_inputs: how often the memory of an output that the graph makes, of an input is written */
    bool any_writes;         /* of an output's */
    bool *output_requires_grad; /* n_outputs + n_mutated: has a tangent, in order */
    int *grad_of;            /* n_inputs: index of its gradient in backward's results, -1: none */
    uint64_t *grad_from;     /* n_grads: the tangents, by nx_tangent_bit(), that it is computed from; NULL where there is but one */
    int n_grads, n_tangents; /* the runtime gives a tangent the strides of its placeholder's fake */
    char *refusal;           /* what the backward says instead of running, with `refused`: then joint and backward are NULL; owned */
    nx_status refused;
} nx_aot;
static inline uint64_t nx_tangent_bit(int k) { return UINT64_C(1) << (k < 63 ? k : 63); } /* the last ones share a bit */
/* grad_mode: whether gradients are wanted, of the inputs whose fakes require grad; without any there is no joint graph. */
NX_MUST_USE nx_status nx_aot_compile(const nx_graph *captured, bool grad_mode, nx_aot **out);
void nx_aot_free(nx_aot *aot);
static inline bool nx_aot_has_history(const nx_aot *aot) { return aot->backward || aot->refusal; } /* outputs depend on inputs */

/* joint: primals (n_inputs), then tangents -> n_forward results, then gradients. Cuts it where the fewest bytes are saved. */
NX_MUST_USE nx_status nx_pass_split(const nx_graph *joint, int n_inputs, int n_forward, nx_graph **forward,
                                    nx_graph **backward, int *n_saved);

/* What is called from begin to end, recorded as a flat graph of operators, with writes as they are: record.c. Inputs stand for
 * fakes like `like`; calls are to be made with these, and nothing of the caller's modes is on meanwhile. */
typedef struct nx_recording nx_recording;
NX_MUST_USE nx_status nx_recording_begin(nx_tensor *const *like, const char *const *names, int n, nx_recording **out);
nx_tensor *nx_recording_input(const nx_recording *recording, int i); /* lent */
/* results: NULL among them is nothing. Frees the recording, also on failure. */
NX_MUST_USE nx_status nx_recording_end(nx_recording *recording, nx_tensor *const *results, int n, nx_graph **out);
void nx_recording_free(nx_recording *recording); /* NULL is allowed; ends it */

/* narthex::cond(pred, inputs, others, then, otherwise) -> results: the graph `then` on `inputs`, or `otherwise` on `others`, as the one
 * element of pred says; control.c. */
enum { NX_COND_PRED, NX_COND_INPUTS, NX_COND_OTHERS, NX_COND_THEN, NX_COND_ELSE, NX_COND_N_ARGS };
const nx_op *nx_cond_op(void);
/* narthex::while_loop(carried, inputs, others, condition, body) -> carried: the graph `body` on what is carried and `others`, as long
 * as the one element says that the graph `condition` gives for what is carried and `inputs`. */
enum { NX_LOOP_CARRIED, NX_LOOP_INPUTS, NX_LOOP_OTHERS, NX_LOOP_CONDITION, NX_LOOP_BODY, NX_LOOP_N_ARGS };
const nx_op *nx_loop_op(void);
bool nx_op_holds_graphs(const nx_op *op); /* that one, or their gradients; NULL is none */

/* The passes, each usable alone; `graph` is changed in place and stays as it was on failure. */
NX_MUST_USE nx_status nx_pass_functionalise(nx_graph *graph); /* writes become new values; copy_ into inputs at the end */
NX_MUST_USE nx_status nx_pass_dce(nx_graph *graph);           /* removes nodes that nothing needs; random ones stay */
NX_MUST_USE nx_status nx_pass_fold(nx_graph *graph);          /* views of x that are x: t(t(x)), detach(x) */
NX_MUST_USE nx_status nx_pass_cse(nx_graph *graph);           /* equal calls become one; never random or returned ones */
/* The pipeline of pass.def on a functional graph: runs, verifies when asked. letters NULL: all. */
NX_MUST_USE nx_status nx_pass_run(nx_graph *graph, const char *letters);

/* Lets calls on the CPU that depend on nothing outside, and whose values go to `device`, compute there. */
NX_MUST_USE nx_status nx_pass_place(nx_graph *graph, nx_device device);

/* Computes only those places along a dimension that are read: x[:, -1] moves before what makes x. */
NX_MUST_USE nx_status nx_pass_demand(nx_graph *graph);

/* For programs of the CPU: convolutions take what follows them element by element. */
NX_MUST_USE nx_status nx_pass_follow(nx_graph *graph);
const nx_op *nx_convolution_point_op(void); /* what they become: ops/window/conv.c */

/* How a node can stand in a tile program: form.c. */
typedef enum nx_form_kind { NX_FORM_NONE, NX_FORM_POINT, NX_FORM_CAST, NX_FORM_FOLD } nx_form_kind;
typedef struct nx_form {
    nx_form_kind kind;
    nx_dtype common, computing;  /* operands become `common`, then `computing`, whose loop makes the result, which is cast */
    nx_loop_fn *loop;            /* of POINT */
    const nx_reduce_loop *fold;  /* of FOLD: takes elements of the result's dtype */
} nx_form;
enum { NX_FORM_MAX_OPERANDS = 8 };
nx_form nx_node_form(const nx_node *node);
int nx_form_n_operands(const nx_form *form, const nx_node *node);
const nx_value *nx_form_operand(const nx_form *form, const nx_node *node, int k);

/* Scatters that may write into the memory of their first argument, by order of the node: WRITE copies the part to where
 * it belongs, DONE finds it there, SKIP is a copy that WRITE makes
 * itself, of its second argument. result_of: by input, the result that the caller copies into it, so that it may
 * be written at once, -1: none; NULL: none at all. The order of the nodes must be the one in which they run. */
typedef enum nx_reuse { NX_REUSE_NONE, NX_REUSE_WRITE, NX_REUSE_DONE, NX_REUSE_SKIP } nx_reuse;
NX_MUST_USE nx_status nx_pass_reinplace(const nx_graph *graph, const int *result_of, uint8_t *reuse);

/* The plan of memory for the graph's program, which the engine makes by `make`: shares is false when the pass is left out. */
NX_MUST_USE nx_status nx_pass_plan(const nx_graph *graph, nx_status (*make)(void *program, bool shares), void *program);

/* Fusion groups for the engine: each node gets group[node->order] >= 0 when it belongs to a fused region. */
enum { NX_REGION_MAX_NODES = 512 };
typedef struct nx_regions { int n; int *of_node; } nx_regions;
/* Point chains ending in an optional full or trailing reduction. Nodes move so that a region's stand together, and are
 * numbered anew; members other than the reduction have one size, and what comes from outside broadcasts to it. */
NX_MUST_USE nx_status nx_pass_fuse(nx_graph *graph, nx_regions *out);
void nx_regions_free(nx_regions *regions);

#endif
