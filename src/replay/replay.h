/* replay: mode reduce-overhead. A graph's launches are recorded once on a stream and replayed without dispatch, shape
 * rules or allocation. Inputs and results are rebound by address; intermediates live in a private pool. */
#ifndef NX_REPLAY_H
#define NX_REPLAY_H

#include "engine/engine.h"

typedef struct nx_replay nx_replay;
/* Records `graph` (functional level) on `device` with fresh memory for intermediates. */
NX_MUST_USE nx_status nx_replay_new(const nx_graph *graph, nx_device device, nx_replay **out);
void nx_replay_free(nx_replay *replay);
int nx_replay_n_launches(const nx_replay *replay);
size_t nx_replay_pool_bytes(const nx_replay *replay); /* memory that it keeps: intermediates and constants */
/* As nx_program_run. */
NX_MUST_USE nx_status nx_replay_run(nx_replay *replay, nx_tensor *const *inputs, nx_tensor **out);

#endif
