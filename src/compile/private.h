/* Shared by the files of src/compile alone. */
#ifndef NX_COMPILE_PRIVATE_H
#define NX_COMPILE_PRIVATE_H

#include "compile/compile.h"

/* ---- plan.c: one functional graph, made runnable ------------------------------------------------------ */
/* Where a result comes from. */
typedef enum nx__origin { NX__FROM_NOTHING, NX__FROM_INPUT, NX__FROM_COMPUTED, NX__FROM_LEFT_OUT } nx__origin;
/* index: of the input, or among the computed */
typedef struct nx__result { nx__origin origin; int index; } nx__result;
/* The graph without what need not be computed: results that are inputs, that stand twice, or that the caller
 * makes itself (left out). */
typedef struct nx__check nx__check;
/* A program and whether it runs. It runs once at a time: who comes meanwhile, from another thread or from within, takes a twin. */
typedef struct nx__twin {
    nx_program *program;
    _Atomic bool busy;
    struct nx__twin *_Atomic next;
} nx__twin;
typedef struct nx__plan {
    nx_graph *graph;
    nx_mode mode;
    nx_program *program;     /* max-autotune; the first twin's */
    nx__twin *twins;
    nx_replay *replay;       /* reduce-overhead */
    int n_inputs, n_results, n_computed;
    nx__result *results;     /* n_results */
    bool is_direct;          /* results are the computed ones, in order */
    bool is_empty;           /* nothing to run */
    const nx_node *apart;    /* computes on another device than the graph: the interpreter runs it all; NULL */
    bool lacks_kernel;       /* apart: the graph's device has none for it */
    nx__check *check;        /* NARTHEX_VERIFY; NULL: runs are not compared */
    nx_runner runner;        /* run: not NULL when somebody else runs it; then there is no graph */
} nx__plan;
/* left_out: n_results flags, or NULL. copied_into: by result, the input that the caller copies it into, -1; such an
 * input may be written at once and be the result itself; NULL: none. A plan that is to be compared makes another one of
 * its graph, which is not. */
NX_MUST_USE nx_status nx__plan_new(const nx_graph *graph, const bool *left_out, const int *copied_into, nx_mode mode,
                                   nx_device device, nx__plan **out);
NX_MUST_USE nx_status nx__plan_new_run(const nx_runner *runner, int n_inputs, int n_results, nx__plan **out); /* takes it if NX_OK */
void nx__plan_free(nx__plan *plan); /* NULL is allowed */
/* out: n_results new references; NULL for nothing and for what is left out. */
NX_MUST_USE nx_status nx__plan_run(const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **out);
/* The same, and inputs, which it may let go as soon as nothing reads them any more: what is gone is NULL. */
NX_MUST_USE nx_status nx__plan_run_taking(const nx__plan *plan, nx_tensor **inputs, nx_tensor **out);
bool nx__plan_writes(const nx__plan *plan, int input); /* where it lies: its new value is the result itself */
int nx__plan_n_launches(const nx__plan *plan);
nx_node *nx__graph_input_at(const nx_graph *graph, int index);
int nx__graph_input_index(const nx_node *placeholder);

nx_status nx__plan_new_unchecked(const nx_graph *graph, const bool *left_out, const int *copied_into, nx_mode mode,
                                 nx_device device, nx__plan **out);
nx_status nx__plan_run_unchecked(const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **out);

/* ---- twins.c ------------------------------------------------------------------------------------------ */
NX_MUST_USE nx_status nx__twins_start(nx__plan *plan); /* of plan->program, which it takes */
void nx__twins_free(nx__twin *twins);                  /* NULL is allowed */
NX_MUST_USE nx_status nx__twins_take(const nx__plan *plan, nx__twin **out); /* one that does not run */
static inline void nx__twins_give(nx__twin *twin) { atomic_store_explicit(&twin->busy, false, memory_order_release); }

/* ---- check.c: runs compared with eager mode ----------------------------------------------------------- */
struct nx__check {
    nx_graph *graph;         /* the plan's, with the results of every call behind its own */
    nx__plan *all;           /* that, made runnable */
    int n_results, n_all;
    bool draws;              /* random numbers: a second run would have others */
};
NX_MUST_USE nx_status nx__check_new(const nx_graph *graph, nx_mode mode, nx_device device, nx__check **out);
void nx__check_free(nx__check *check); /* NULL is allowed */
/* As nx__plan_run of the plan that has it. */
NX_MUST_USE nx_status nx__check_run(const nx__check *check, const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **out);

/* ---- alias.c: results that are an input or a view of one ---------------------------------------------- */
/* A view operator that a call takes again, once: of a tensor that one before it gave, or (from -1) of an input. Its results are
 * first .. first + node->n_results - 1 of those that all give. */
typedef struct nx__view { const nx_node *node; int from, input, first; } nx__view;
typedef struct nx__alias {
    int input;               /* -1: it is none */
    int view;                /* which of the tensors that the views give; -1: the input itself */
} nx__alias;
typedef struct nx__views {
    nx__alias *of;           /* n_outputs */
    NX_VEC(nx__view) views;  /* in the order in which they are taken */
    NX_VEC(bool) given;      /* by tensor that they give: an output is it */
} nx__views;
NX_MUST_USE nx_status nx__views_find(const nx_aot *aot, nx__views *out);
void nx__views_free(nx__views *aliases);
/* out: given.n tensors, new references; all NULL when it fails. */
NX_MUST_USE nx_status nx__views_take(const nx__views *aliases, nx_tensor *const *inputs, nx_tensor **out);

/* ---- the compiled function ---------------------------------------------------------------------------- */
struct nx_compiled {
    nx_count refs;
    nx_aot *aot;
    nx_mode mode;
    nx_device device;
    nx__plan *forward;
    nx__plan *_Atomic backward;   /* made at the first backward call */
    nx__views aliases;
    int n_saved;                  /* aot's, or a runner's */
    int *saved_input;             /* n_saved: the input that a saved value is, -1 */
    bool *is_mutated;             /* n_inputs */
    bool *is_another;             /* forward's results: the same value as an output before it or as an input */
    int *at_once, n_at_once;      /* inputs that the forward writes where they lie: of those that are mutated */
    /* the forward's results are the outputs: nothing written, saved or aliased */
    bool is_plain;
    bool measures;                /* steps are timed when a plan is made */
};

/* A new tensor of the same layout and elements. */
NX_MUST_USE nx_status nx__copy_of(nx_tensor *tensor, nx_tensor **out);

/* ---- backward.c --------------------------------------------------------------------------------------- */
/* Makes the node of one call: edges to inputs, values saved. results are those of the forward (aot.h). */
NX_MUST_USE nx_status nx__backward_node(nx_compiled *compiled, nx_tensor *const *inputs,
                                        nx_tensor *const *results, nx_grad_node **out);

#endif
