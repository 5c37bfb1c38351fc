/* compile: one captured graph made callable in either mode, with its backward: what torch.compile keeps. */
#ifndef NX_COMPILE_H
#define NX_COMPILE_H

#include "replay/replay.h"

typedef enum nx_mode { NX_MODE_EAGER, NX_MODE_REDUCE_OVERHEAD, NX_MODE_MAX_AUTOTUNE } nx_mode;
typedef struct nx_compiled nx_compiled;
/* Takes `aot`. device: where the graph computes. The backward is compiled at the first backward call. */
NX_MUST_USE nx_status nx_compiled_new(nx_aot *aot, nx_mode mode, nx_device device, nx_compiled **out);
/* A graph that somebody else runs: inputs are lent, out gets a new reference, or NULL for nothing, for each result; none of
 * these is an input, none stands twice. */
typedef struct nx_runner {
    nx_status (*run)(void *context, nx_tensor *const *inputs, nx_tensor **out);
    void (*free)(void *context);
    void *context;
} nx_runner;
/* forward: outputs, new values of written inputs, n_saved values of its own choice. backward: these and the tangents -> one
 * gradient, or nothing, for each input. saved_input: n_saved, the input that a saved value is, -1. */
typedef struct nx_runners {
    nx_runner forward, backward;
    int n_saved;
    const int *saved_input;
} nx_runners;
/* The same, run by others in place of aot's graphs. Takes aot and the contexts, also on failure. */
NX_MUST_USE nx_status nx_compiled_new_run(nx_aot *aot, const nx_runners *runners, nx_compiled **out);
/* Times the choices of the engine's steps (nx_program_measure): those of the forward now, of the backward when it is compiled. */
NX_MUST_USE nx_status nx_compiled_measure(nx_compiled *compiled);
/* nx_program_report of what there is so far; empty: nothing was measured. The caller's string. */
NX_MUST_USE nx_status nx_compiled_report(const nx_compiled *compiled, char **out);
void nx_compiled_ref(nx_compiled *compiled);
void nx_compiled_unref(nx_compiled *compiled);
const nx_aot *nx_compiled_aot(const nx_compiled *compiled);   /* lent */
int nx_compiled_n_launches(const nx_compiled *compiled);      /* of the forward */
bool nx_compiled_is_run(const nx_compiled *compiled);         /* by a runner: nx_compiled_new_run() made it */
/* How it runs and what memory that takes, for people; the backward once it has run. The caller's string. */
NX_MUST_USE nx_status nx_compiled_print(const nx_compiled *compiled, char **out);
/* Runs forward, copies mutated inputs back, builds the autograd node when gradients are wanted. out has
 * n_outputs entries, filled with new references. */
NX_MUST_USE nx_status nx_compiled_run(nx_compiled *compiled, nx_tensor *const *inputs, int n_inputs,
                                      nx_tensor **out, int n_outputs);

#endif
