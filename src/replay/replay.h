/* replay: mode reduce-overhead. The launches of a graph's program are recorded once on a stream and replayed without dispatch, shape
 * rules or allocation. Inputs and results are rebound by address; intermediates live in a private pool. */
#ifndef NX_REPLAY_H
#define NX_REPLAY_H

#include "engine/engine.h"

typedef struct nx_replay nx_replay;
/* Records what a program of `graph` launches on `device`. The graph is the caller's alone, and result_of what
 * nx_program_new_from_own() has it for; numbers of the CPU among its inputs lie on the device afterwards. */
NX_MUST_USE nx_status nx_replay_new(nx_graph *graph, const int *result_of, nx_device device, nx_replay **out);
bool nx_replay_writes(const nx_replay *replay, int input);          /* its runs write that input */
const nx_program *nx_replay_program(const nx_replay *replay);      /* whose launches it has; lent */
void nx_replay_free(nx_replay *replay);
int nx_replay_n_launches(const nx_replay *replay);
size_t nx_replay_pool_bytes(const nx_replay *replay); /* memory that it keeps: intermediates and constants */
/* As nx_program_run. */
NX_MUST_USE nx_status nx_replay_run(nx_replay *replay, nx_tensor *const *inputs, nx_tensor **out);

#endif
