/* engine, inside: what a compiled program is made of.
 * Words: a buffer is a piece of memory (an input, a constant, an intermediate, a result); an operand is an
 * array in a buffer, views included; a step is one kernel call with operands; a reference is an address that a
 * run fills in; an event is what happens between two steps. */
#ifndef NX_ENGINE_PROGRAM_H
#define NX_ENGINE_PROGRAM_H

#include "engine/engine.h"
#include "iter/iter.h"

#include <assert.h>

/* ---- buffers --------------------------------------------------------------------------------- */
typedef enum nx__space { NX__INPUT, NX__CONST, NX__FEATURE, NX__RESULT } nx__space;
typedef struct nx__buffer {
    nx__space space;
    int index;               /* which input, constant or result */
    size_t bytes, offset;    /* offset: in feature or const memory */
    int first, last;         /* steps that make it and use it last */
    int in_place_of; /* an intermediate that dies where this one is made and whose memory it takes; -1 */
    int new_of, output;      /* of a result that the caller copies into an input: one more than that input, else 0; which output */
    const nx_tensor *fake;   /* its layout; lent by the graph, NULL after lowering */
} nx__buffer;

/* An address to fill in: *where = base of `buffer` + offset. tensor: the operand that it belongs to, NULL for
 * the bare pointers of direct steps. In a program that is done they stand in the order in which a run on the CPU fills
 * them in: those of inputs, those of each result (nx__event), then those that stay, or that bare pointers stand in for. */
typedef struct nx__reference {
    void **where;
    nx_tensor *tensor;
    int64_t offset;          /* bytes */
    int buffer, step;        /* the step that it is of */
    int index;               /* of the input or result that the buffer is; in a program that is done */
    bool by_pointer;         /* of an operand whose step takes bare pointers on the CPU */
} nx__reference;

/* ---- tile programs: a fused region as data --------------------------------------------------- */
enum {
    NX__MAX_ARRAYS = 64,
    NX__MAX_REGISTERS = 24,
    NX__MAX_NUMBERS = 32,
    NX__MAX_TILE_DIMS = 6,
    NX__MAX_TILE_ELEMENTS = 4096,
    NX__MAX_TILE_INS = 8
};
typedef enum nx__tile_code {
#define NX_TILE_ROW(code, meaning) NX__TILE_##code,
#include "engine/tile.def"
#undef NX_TILE_ROW
    NX__N_TILE_CODES
} nx__tile_code;

/* How the address of an array follows the row-major index of an element. */
typedef enum nx__pattern { NX__FLAT, NX__SCALAR, NX__ROWS } nx__pattern;
typedef struct nx__tile_array {
    uint8_t dtype, pattern;
    bool written;
    int64_t step[NX__MAX_TILE_DIMS]; /* bytes along each dimension of the tile program */
} nx__tile_array;

/* Slots: first the arrays, then registers, then numbers, then the fold buffer. */
typedef struct nx__tile_instr {
    uint8_t code, dtype, from, n_in;   /* from: dtype of a cast's operand */
    int16_t out, in[NX__MAX_TILE_INS];
    int16_t constants;                 /* first of them */
    int64_t step[1 + NX__MAX_TILE_INS];/* bytes from one element to the next, of the result and the operands: nx__tile_new */
    const nx_op *op;
    nx_loop_fn *loop;                  /* of POINT */
    nx_pair_fn *pair;                  /* of a product that is computed with the next instruction: nx__tile_new */
    const nx_reduce_loop *fold;        /* of FOLD */
} nx__tile_instr;

/* One block without addresses into itself, so that it travels as an argument of a launch, by value. */
typedef struct nx__tile {
    int ndim;                  /* of the index space after merging, in row-major order */
    int elements;              /* of a tile */
    int64_t size[NX__MAX_TILE_DIMS];
    int64_t outer, inner; /* a fold makes `outer` results of `inner` elements each; else 1 and all elements */
    int n_arrays, n_registers, n_numbers, n_instrs;
    bool cut_rows;             /* tiles end where rows end, so that arrays of pattern ROWS need no LOAD */
    bool folds;                /* the last instruction is a FOLD */
    uint32_t instrs, constants, numbers; /* where these begin, in 8-byte words; the arrays: at once */
    uint32_t words;            /* of the whole block */
} nx__tile;
static inline const nx__tile_array *nx__tile_arrays(const nx__tile *t) {
    return (const nx__tile_array *)(t + 1);
}
static inline const nx__tile_instr *nx__tile_instrs(const nx__tile *t) {
    return (const nx__tile_instr *)((const uint64_t *)t + t->instrs);
}

/* ---- steps ----------------------------------------------------------------------------------- */
/* A point operator on whole contiguous operands of one dtype: one call of its loop. */
typedef struct nx__direct {
    nx_loop_fn *loop;
    int64_t n;
    const nx_const *constants;
    char *ptrs[1 + NX_MAX_OPERANDS];
    int64_t steps[1 + NX_MAX_OPERANDS];
} nx__direct;

typedef struct nx__step {
    nx_kernel_fn *kernel;
    nx_run run;
    int n_in, n_out;
    nx_value *in, *out;
    nx__direct *direct;        /* NULL: call the kernel */
    const nx__tile *tile;      /* NULL: an operator */
} nx__step;

/* What measuring found of a step. Times of the best of its calls. */
typedef struct nx__note {
    int rule;                  /* the choice that the rules make: elements of a tile */
    int64_t ns, rule_ns;       /* with what was chosen; with the rule's choice */
    bool kept;                 /* read from the file */
} nx__note;
enum { NX__MACHINE_ROOM = 160 };

/* What happens before `step`. By step, and in this order where several happen. */
typedef struct nx__event {
    enum { NX__RELEASE, NX__POLL, NX__MAKE } what;
    int step;
    int index;                 /* RELEASE: the input that nothing reads from here on; MAKE: the result that is written from here on */
    int begin, end;            /* MAKE: the references that are its addresses */
} nx__event;

/* ---- results --------------------------------------------------------------------------------- */
/* What the caller gets: a tensor of its own for what a run made, or an input. */
typedef struct nx__output {
    nx_meta *meta;             /* layout; offset counts from the start of the buffer; NULL: the caller gets nothing */
    nx__space space;           /* RESULT or INPUT */
    int index;                 /* which */
    bool view;                 /* of it; else that tensor, and the same one where several outputs are */
} nx__output;

struct nx_program {
    nx_device device;
    int n_inputs, n_outputs, n_fresh;
    nx_array *inputs;          /* what they must look like */
    bool *input_written;
    bool writes_inputs;
    nx__output *outputs;
    nx_layout *fresh;          /* of the tensors that a run makes */
    nx_tensor **constants;     /* owned */
    int *constant_buffers;
    int n_constants, n_tile_programs;
    NX_VEC(nx__step) steps;
    NX_VEC(nx__event) events;
    NX_VEC(nx__buffer) buffers;
    NX_VEC(nx__reference) references;
    int n_input_references;    /* the first of them */
    size_t const_bytes, feature_bytes;
    uint64_t plan_steps;       /* that planning the memory took: tests hold it to be nearly linear */
    size_t live_bytes;         /* the most that intermediates need at one step: no plan has less feature memory */
    nx_storage *const_memory;  /* NULL: none yet */
    nx_storage *feature_memory;/* the caller's, or a small arena that stays; NULL: each run leases one */
    bool feature_given;        /* it is the caller's */
    bool bound;                /* addresses of constants are filled in */
    const void *feature_at;    /* those of intermediates are filled in for an arena here; NULL: for none */
    nx_tensor **made, **given; /* room for a run: fresh results; tensors of the caller for the results */
    nx__note *notes;           /* by step; NULL: not measured */
    int64_t measures_since;    /* while a run measures its steps: nx_now() at its beginning; else 0 */
    nx_stream *stream;         /* of the last run on a device */
    bool launched;
    nx_arena arena;           /* nx__keep */
};

/* Zeroed memory that lives as long as the program. NULL without memory. */
static inline void *nx__keep(nx_program *program, size_t bytes) {
    return nx_arena_take(&program->arena, bytes);
}
/* The output before `at` that is the same tensor; -1: none is. */
int nx__output_find_same(const nx_program *program, int at);

/* ---- lowering (lower.c, node.c) -------------------------------------------------------------- */
/* Where a node's result lies. buffer -1: nowhere yet. */
typedef struct nx__value {
    int buffer;
    int64_t offset;            /* bytes from the buffer's first element */
    const nx_tensor *fake;
} nx__value;
typedef struct nx__lower {
    nx_program *program;
    int n_nodes;
    nx_node **nodes;           /* by order */
    int *first_value;          /* by order */
    int *root; /* by order: the node whose memory a view's result lies in; other nodes: themselves */
    int *root_result;          /* by order, of views: which of its results */
    nx__value *values;         /* of all results of all nodes */
    uint8_t *reuse;            /* by order: nx_reuse */
    int *whole_output;         /* by fresh result: the output that is all of it, plus one */
    const nx_device_api *api;  /* NULL on the CPU */
    nx_regions regions;
} nx__lower;
static inline const nx_tensor *nx__fake_of(const nx_value *node) { return node->node->fakes[node->n]; }
static inline bool nx__is_view(const nx_node *node) {
    return node->op && node->op->def->kind == NX_KIND_VIEW;
}
/* Where a node reference lies, views followed; buffer -1 when it has not been lowered. */
nx__value nx__value_of(const nx__lower *lower, const nx_value *node);
/* An operand of the step being made: an nx_tensor head whose address comes later. NULL without memory. */
nx_tensor *nx__operand_new(nx_program *program, const nx_array *layout, int buffer, int64_t offset);
/* A new intermediate for result `result` of `node`, made by the step being made. */
nx_status nx__buffer_new(nx__lower *lower, const nx_node *node, int result);
/* Room for as many inputs, constants, results; a buffer; a constant and its buffer; bytes from its first element to its last. */
nx_status nx__program_room(nx_program *program, int n_inputs, int n_constants, int n_outputs);
nx_status nx__buffer_add(nx_program *program, nx__space space, int index, size_t bytes, const nx_tensor *fake);
nx_status nx__constant_add(nx_program *program, nx_tensor *constant, const nx_tensor *fake);
size_t nx__bytes_of(const nx_array *array);
/* A copy of an argument without tensors, in the program's memory. */
nx_status nx__value_keep(nx_program *program, const nx_value *from, nx_value *to);
nx_status nx__kernel_find(const nx_device_api *api, const nx_op *op, nx_kernel_fn **out); /* api NULL: the CPU's */
/* Makes a step that is being added direct, if it can be. */
nx_status nx__direct_make(nx_program *program, nx__step *step);
/* nx_program_new_from_own without memory for constants: nx__program_set_const_base or _share_consts comes next. */
nx_status nx__program_new_bare(nx_graph *graph, nx_device device, nx_program **out);
/* What follows from steps and buffers that lie where they shall: events, the order of references. */
nx_status nx__program_finish(nx_program *program);
/* One step for one operator. */
nx_status nx__node_lower(nx__lower *lower, const nx_node *node);
/* One step for a product of matrices and the only call that takes it, a sum. *done false: there is no such sum, nothing was
 * done; else the sum has its value, and the product none. */
nx_status nx__sum_lower(nx__lower *lower, const nx_node *product, bool *done);
/* Which scatters write into the memory of their first argument; and such a scatter as a step, or as none. */
nx_status nx__scatters_find(nx__lower *lower, const nx_graph *graph, const int *result_of);
nx_status nx__scatter_lower(nx__lower *lower, const nx_node *node);
/* A call of `op` on an operand into a new buffer: copies of constants that are results. */
nx_status nx__call_lower(nx__lower *lower, const nx_op *op, const nx_value *in, nx_value *out);
/* Scalar parameters of a point operator, as its loops take them. */
void nx__point_constants(const nx_node *node, nx_dtype computing, nx_const *out);
/* One element with the value of a number. */
uint64_t nx__number_bits(const nx_value *number, nx_dtype dtype);

/* ---- regions (region.c) ---------------------------------------------------------------------- */
/* Makes one step of the nodes of a region, which stand in order. *fused false: it does not fit, nothing was
 * done. */
nx_status nx__region_lower(nx__lower *lower, nx_node *const *members, int n, bool *fused);

/* ---- the tile machine (tile.c) --------------------------------------------------------------- */
/* A block in the program's memory; `head` without what says where its parts begin. NULL without memory. */
nx__tile *nx__tile_new(nx_program *program, const nx__tile *head, const nx__tile_array *arrays, const nx__tile_instr *instrs,
                       const nx_const *constants, int n_constants, const uint64_t *numbers);
nx_kernel_fn nx__tile_kernel;  /* in: the nx__tile (as INTS), arrays read; out: arrays written */

/* Equal but for the strides of dimensions of size 1. */
bool nx__same_layout(const nx_array *a, const nx_array *b);

/* ---- memory plan (plan.c) -------------------------------------------------------------------- */
nx_status nx__do_plan(void *program, bool shares); /* an nx_program; shares: places that are free again are taken */
nx_status nx__plan_events(nx_program *program);   /* after the memory */

/* ---- running (run.c) ------------------------------------------------------------------------- */
nx_status nx__program_set_feature_base(nx_program *program, void *base,
                                       size_t bytes); /* base NULL: the program's own */
nx_status nx__program_set_const_base(nx_program *program, void *base,
                                     size_t bytes); /* base NULL: the program's own */
/* Its constants are in this memory already, where its buffers say; NULL: it has none. */
void nx__program_share_consts(nx_program *program, nx_storage *memory);
/* What times depend on beside the step: "AMD EPYC, v4, 2 threads". */
void nx__machine_name(char *out, size_t room);
/* What was measured before, by step: taken where it is of this machine and fits, else the rules hold. */
nx_status nx__measured_take(nx_program *program, const char *machine, const nx__note *notes, const int64_t *choices, int n);
nx_status nx__step_call(const nx__step *step); /* on the CPU, its addresses being filled in */
/* Calls a step of a run that measures, and chooses for it (measure.c). */
nx_status nx__measure_step(nx_program *program, const nx__step *step);
/* Memory of the caller, at least `needed` bytes, or new memory when base is NULL. */
nx_status nx__base_take(nx_device device, const char *what, void *base, size_t bytes, size_t needed, nx_storage **out);
/* The bytes of a constant from its first element to its last, gaps included. */
nx_status nx__constant_copy(nx_device device, nx_storage *memory, size_t offset, nx_tensor *constant);

#endif
