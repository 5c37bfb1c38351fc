/* Shared by the files of src/ir alone. */
#ifndef NX_IR_PRIVATE_H
#define NX_IR_PRIVATE_H

#include "ir/ir.h"

#include <assert.h>

enum { NX__MAX_LIST_DEPTH = 16 }; /* lists within lists in arguments; bounds every recursion over them */

/* ---- names (name.c): unique in a graph, numbered as FX numbers them --------------------------------- */
/* node->name becomes a new name made from `hint`, the graph's string. */
nx_status nx__name_make(nx_graph *graph, const char *hint, nx_node *node);
nx_status nx__name_claim(nx_graph *graph, const char *exact, nx_node *node); /* fails when it is taken */
nx_status nx__name_claim_or_make(nx_graph *graph, const char *exact, nx_node *node);
nx_status nx__name_copy(nx_graph *graph, const char *exact, nx_node *node); /* into a graph that is nothing but a copy so far */
void nx__name_release(nx_node *node); /* the node goes, its name stays taken where names were asked for */
void nx__names_free(nx_graph *graph);

/* nx_graph_append with this very name. */
nx_status nx__graph_append_named(nx_graph *graph, nx_node_kind kind, const char *name, const nx_op *op,
                                 const char *target, const nx_value *args, int n_args, nx_node **out);

/* ints.c: from its target and the number of its arguments. */
void nx__node_set_int_code(nx_node *node);

/* ---- arguments (args.c) ------------------------------------------------------------------------------ */
/* Results of a call on the arguments' fakes, by the operator's shape rule. */
typedef struct nx__fakes {
    int n;
    nx_tensor **at, *few[8];  /* owned; NULL where a result is absent */
    bool resized;             /* the call gives an argument that it writes another size */
} nx__fakes;
nx_status nx__infer(const nx_op *op, const nx_value *args, int n, nx__fakes *out); /* on failure nothing is left in out */
void nx__fakes_end(nx__fakes *fakes);
/* Of the last node of its graph, a narthex::backward (backward.c): the graph is run on fakes. */
nx_status nx__infer_backward(nx_node *node, nx__fakes *out);
/* Whether a call has as many results as its operator; those of a list are counted by the call. */
static inline bool nx__count_fits(const nx_op *op, int n) {
    return (op->def->flags & NX_OP_LIST) != 0 || n == op->def->n_out;
}
/* ---- sizes as values (ints.c) ---- */
/* In place: the LIST that stands for a list of ints becomes INTS, its numbers in room[n_room]. */
nx_status nx__ints_plain(const nx_op *op, nx_value *in, int64_t *room, int n_room);

/* "add" of "aten::add.Tensor" into `out`. */
void nx__op_base(const char *op_name, char *out, size_t room);

/* A node of a list, without fakes so far, gets room for n. */
nx_status nx__node_set_count(nx_node *node, int n);

/* ---- text ---- */
/* "captured {" and what follows, to the closing brace, behind the word "graph": a graph of its own (parse.c). */
nx_status nx__read_graph(nx_reader *r, nx_graph **out);

#endif
