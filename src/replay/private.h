/* What the files of src/replay share: how a recording's inputs and results are bound. */
#ifndef NX_REPLAY_PRIVATE_H
#define NX_REPLAY_PRIVATE_H

#include "replay/replay.h"

enum { NX__FEW = 256 }; /* slots that need no allocation of their own */

/* An input: slot i of the recording is where its element 0 lies. */
typedef struct nx__replay_input {
    size_t bytes;     /* from element 0 to the last */
    bool is_moved;    /* a 0-dim CPU tensor of a graph on another device: copied over at each run */
    bool is_written;  /* the graph writes it */
    nx_dtype dtype;
} nx__replay_input;

/* New memory that results lie in: a slot after those of the inputs. */
typedef struct nx__replay_block {
    size_t bytes;
    int n_results;
    bool is_shared;     /* made as a storage, then viewed; else it is the memory of one result */
} nx__replay_block;

typedef enum nx__result_kind {
    NX__RESULT_NONE,    /* None */
    NX__RESULT_INPUT,   /* input `of` itself */
    NX__RESULT_VIEW,    /* a view of input `of`; meta.offset counts from the input's element 0 */
    NX__RESULT_BLOCK,   /* in block `of`; meta.offset counts from its start */
    NX__RESULT_SAME     /* result `of` once more */
} nx__result_kind;

typedef struct nx__replay_result {
    nx__result_kind kind;
    int of;
    bool is_whole;      /* RESULT_BLOCK: from its start to its end */
    nx_meta meta;
    nx_layout layout;   /* RESULT_BLOCK: of meta */
} nx__replay_result;

struct nx_replay {
    nx_device device;
    void *graph;        /* the device's */
    nx_program *program;/* whose launches were recorded: it holds the constants, and can be printed */
    int n_inputs, n_blocks, n_results;
    nx__replay_input *inputs;
    nx__replay_block *blocks;
    nx__replay_result *results;
    int n_launches;
    size_t pool_bytes;
    bool has_moved, has_written, has_shared;
    bool is_plain;      /* on the CPU, every result the memory of one block, few slots */
};

#endif
