/* Shared by the files of src/pass alone. */
#ifndef NX_PASS_PRIVATE_H
#define NX_PASS_PRIVATE_H

#include "pass/pass.h"

#include <assert.h>

/* What functionalisation finds out about the results and inputs of a flat graph. */
typedef struct nx__aliases {
    int n_outputs, n_mutated;
    int *alias_of;          /* n_outputs: input whose memory the result is in, -1 */
    bool *same_as_input;    /* n_outputs: it is that very tensor */
    int *mutated;           /* room for every input; the written ones in order */
} nx__aliases;
void nx__aliases_free(nx__aliases *aliases);
/* nx_pass_functionalise; `aliases` may be NULL. */
nx_status nx__functionalise(nx_graph *graph, nx__aliases *aliases);

const nx_op *nx__draw_from(void); /* ops/random/place.c, found by control.c */

/* The thread as a trace needs it, nothing of the caller's own recording or modes: aot.c. */
typedef struct nx__calm { uint64_t included, excluded; bool grad; } nx__calm;
nx__calm nx__calm_begin(bool grad);
void nx__calm_end(nx__calm before);

/* What the gate in driver.c lets run, as the functions of pass.h. */
nx_status nx__do_functionalise(nx_graph *graph, nx__aliases *aliases);
nx_status nx__do_split(const nx_graph *joint, int n_inputs, int n_forward, nx_graph **forward, nx_graph **backward, int *n_saved);
nx_status nx__do_fold(nx_graph *graph);
nx_status nx__do_cse(nx_graph *graph);
nx_status nx__do_dce(nx_graph *graph);
nx_status nx__do_place(nx_graph *graph, nx_device device);
nx_status nx__do_demand(nx_graph *graph);
nx_status nx__do_follow(nx_graph *graph);
nx_status nx__do_fuse(nx_graph *graph, nx_regions *out);
nx_status nx__do_reinplace(const nx_graph *graph, const int *result_of, uint8_t *reuse);
nx_status nx__find_writes(const nx_graph *graph, bool *any);
/* form.c: the dimensions that a fold folds, by bit, all where it names none. false: they are no plain numbers. */
bool nx__folded_dims(const nx_node *node, int ndim, uint64_t *out);
/* node->data of the output and of the views that lead to it is set; whoever asked clears it. */
void nx__mark_results(nx_graph *graph);
/* Whether the pass may merge, move or drop a call: no draw of random numbers, no write. */
bool nx__is_pure(const nx_node *node);

/* src/iter/point.c: the dtype in which a point operator's kernel computes where the operands' common one is `common`:
 * float32 for half types beside exact numbers. */
nx_dtype nx__point_computing(const nx_point *point, const nx_value *in, nx_dtype common);

/* schedule.c: puts each region's nodes together, moves of_node along and numbers the nodes. */
nx_status nx__schedule(nx_graph *graph, nx_regions *regions);

/* flow.c: the smallest cut between `source` and `sink` of a directed graph with capacities. */
typedef struct nx__flow nx__flow;
nx_status nx__flow_new(int n_points, nx__flow **out);
void nx__flow_free(nx__flow *flow);
nx_status nx__flow_edge(nx__flow *flow, int from, int to, int64_t capacity);
extern const int64_t nx__flow_unlimited;
/* behind[p] is set for the points that still reach the sink: of all smallest cuts the one nearest to it. */
nx_status nx__flow_cut(nx__flow *flow, int source, int sink, bool *behind);

#endif
