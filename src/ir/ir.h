/* ir: the one graph. Nodes in a list, arguments as values, users as intrusive lists, meta on each node.
 * Levels: captured (dynamo's graph: calls as the user wrote them), functional (ATen operators, no writes to anything
 * that lives on, one exception: copy_ into inputs at the end), lowered (src/engine's own). No optimisation here. */
#ifndef NX_IR_H
#define NX_IR_H

#include "grad/grad.h"

typedef enum nx_node_kind { NX_NODE_PLACEHOLDER, NX_NODE_GET_ATTR, NX_NODE_CALL_FUNCTION, NX_NODE_CALL_METHOD, NX_NODE_CALL_MODULE,
                            NX_NODE_OUTPUT } nx_node_kind;
typedef enum nx_graph_level { NX_GRAPH_CAPTURED, NX_GRAPH_FUNCTIONAL } nx_graph_level;

/* One for each mention, in no order; at: in the user's arguments, also inside lists. */
typedef struct nx_use { nx_node *user; nx_value *at; struct nx_use *next; } nx_use;

/* What the size of a dimension that varies may be; max: INT64_MAX where there is no bound. */
typedef struct nx_size_range {
    int64_t min, max;
    const int64_t *gears;    /* the only sizes, rising; NULL: all from min to max */
    int n_gears;
} nx_size_range;

struct nx_node {
    nx_graph *graph;
    nx_node *previous, *next;
    nx_node_kind kind;
    int8_t int_code;         /* of a call that gives an integer (ints.def), -1 */
    char *name;              /* unique in the graph: "add_1" */
    const char *target;      /* as the user wrote it: "torch.add", "t", "operator.matmul", "L_x_"; NULL: op's name */
    const nx_op *op;         /* call_function and call_method of operators; NULL otherwise */
    nx_value *args;          /* kept values; node references as NX_TAG_NODE, also inside lists. For calls of `op`: all
                                parameters in schema order. Output: the results */
    int n_args;
    uint64_t apart;          /* a bit for each argument in whose memory no result lies, as it was recorded; 0: not known */
    nx_use *uses;
    int n_results;
    nx_tensor **fakes;       /* n_results, each owned or NULL: shape, dtype, device (may be real constants for get_attr). Other nodes
                                may have the same one: nobody changes it */
    nx_tensor *constant;     /* get_attr: the tensor; owned */
    uint64_t varying;        /* placeholder of a captured graph: dimensions, by bit, whose size may be another one each time */
    nx_size_range *ranges;   /* by dimension, of those that vary; NULL: no bounds are known */
    nx_value number;         /* of a call that gives an integer: its value for the sizes that the inputs have; NONE: not known */
    nx_source source;        /* its texts lie in the graph's arena */
    void *data;              /* scratch of whoever works on the graph; NULL between passes */
    int order;               /* position, valid after nx_graph_number() */
};
struct nx_graph {
    nx_node *first, *last;
    int n_nodes;
    nx_graph_level level;
    int n_inputs;
    nx_node *last_input;     /* of the placeholders at the beginning, which keep their order; NULL: none */
    void *name_table;        /* of name.c */
    nx_arena arena;          /* nodes and all that they consist of; lists, strings and tensors in arguments have owners */
    nx_use *free_uses;       /* given back, to be used again */
    char *recent[4];         /* file, function, code and target set last: most nodes of a line come one after the other */
};

/* ---- building ------------------------------------------------------------------------------------------------------- */
NX_MUST_USE nx_status nx_graph_append(nx_graph *graph, nx_node_kind kind, const char *name_hint, const nx_op *op, const char *target,
                                      const nx_value *args, int n_args, nx_node **out); /* args are copied */
NX_MUST_USE nx_status nx_graph_insert_before(nx_node *where, nx_node_kind kind, const char *name_hint, const nx_op *op,
                                             const char *target, const nx_value *args, int n_args, nx_node **out);
NX_MUST_USE nx_status nx_node_set_args(nx_node *node, const nx_value *args, int n_args); /* use lists follow */
NX_MUST_USE nx_status nx_node_set_fakes(nx_node *node, nx_tensor *const *fakes, int n);  /* references are taken */
NX_MUST_USE nx_status nx_node_set_source(nx_node *node, const nx_source *source); /* texts are copied */
NX_MUST_USE nx_status nx_node_replace_uses(nx_node *node, nx_node *with); /* result k of one becomes result k of the other */
void nx_node_erase(nx_node *node);                                      /* has no users */
/* Result `result` of node becomes result `with_result` of the other, everywhere. */
NX_MUST_USE nx_status nx_node_replace_result(nx_node *node, int result, nx_node *with, int with_result);
/* The same for the users that `wanted` holds of. */
NX_MUST_USE nx_status nx_node_replace_result_if(nx_node *node, int result, nx_node *with, int with_result,
                                                bool (*wanted)(const nx_node *user));
void nx_node_move_before(nx_node *node, nx_node *where);                /* NULL: to the end; numbers are stale then */
/* A placeholder behind the others; its fake is referenced. */
NX_MUST_USE nx_status nx_graph_input_like(nx_graph *graph, const char *name, const char *target, nx_tensor *fake,
                                          nx_node **out);
/* nx_graph_call with a name of the caller's choice (NULL: the operator's). */
NX_MUST_USE nx_status nx_graph_call_named(nx_graph *graph, const nx_op *op, const nx_value *in, const char *name, nx_node **out);
/* Copies args to `to`, which has room for nx_args_room() values, every node reference replaced by what `resolve` gives. */
typedef nx_status nx_resolve_fn(void *context, nx_node *node, int result, nx_value *out);
int nx_args_room(const nx_value *args, int n);
NX_MUST_USE nx_status nx_args_resolve(const nx_value *args, int n, nx_resolve_fn *resolve, void *context, nx_value *to);
bool nx_value_equal(const nx_value *a, const nx_value *b); /* the same kind and content; nodes and tensors by identity */
/* The tags that `op` accepts; tensor: what a tensor stands as, a NODE in graphs. */
nx_status nx_args_check(const nx_op *op, const nx_value *args, int n, nx_tag tensor);
uint64_t nx_op_written(const nx_op *op);                /* a bit for each parameter that it writes */
/* Calls fn for every node reference that `node` writes, also inside lists. */
void nx_node_each_written(const nx_node *node, void (*fn)(void *arg, nx_node *written, int result), void *arg);
/* For every one in whose memory a result may lie. */
void nx_node_each_shown(const nx_node *node, void (*fn)(void *arg, nx_node *shown, int result), void *arg);
/* A get_attr with a value of its own (referenced). */
NX_MUST_USE nx_status nx_graph_constant(nx_graph *graph, const char *name, nx_tensor *constant, nx_node **out);
/* A copy whose inputs are inputs order[n] of the other, each once, and in which any other input k is the constant
 * values[k] (referenced). */
NX_MUST_USE nx_status nx_graph_with_constants(const nx_graph *graph, nx_tensor *const *values, const int *order, int n,
                                              nx_graph **out);
nx_node *nx_graph_output_node(const nx_graph *graph);   /* NULL: none yet */
static inline const nx_tensor *nx_graph_output_fake(const nx_graph *graph, int k) { /* of result k; NULL: it is no tensor, or unknown */
    const nx_value *value = &nx_graph_output_node(graph)->args[k];
    return value->tag == NX_TAG_NODE ? value->node->fakes[value->n] : NULL;
}
nx_node *nx_graph_find(const nx_graph *graph, const char *name); /* NULL: no such node */
/* A copy of `node` at the end of `graph`: its inputs through `map` (old node -> new node), which gains the copy. */
NX_MUST_USE nx_status nx_graph_copy_node(nx_graph *graph, const nx_node *node, nx_map *map, nx_node **out);
/* A copy of `node` at the end of `graph`, its inputs replaced by what `resolve` gives. */
NX_MUST_USE nx_status nx_graph_copy_with(nx_graph *graph, const nx_node *node, nx_resolve_fn *resolve, void *context,
                                         nx_node **out);
void nx_graph_swap(nx_graph *a, nx_graph *b);           /* contents change places */
NX_MUST_USE nx_status nx_graph_copy(const nx_graph *graph, nx_graph **out);
void nx_graph_number(nx_graph *graph);
/* Calls fn for every node reference in the arguments of `node`. */
void nx_node_each_input(const nx_node *node, void (*fn)(void *arg, nx_node *input, int result), void *arg);

/* Tensors without elements: of a shape, or of the shape (strides, offset, device) of another; their storage is their own. */
NX_MUST_USE nx_status nx_fake_new(const nx_meta *meta, int64_t offset, nx_tensor **out);
NX_MUST_USE nx_status nx_fake_like(const nx_tensor *tensor, nx_tensor **out);
NX_MUST_USE nx_status nx_fake_of(const nx_tensor *tensor, nx_tensor **out); /* the same, from the start of its memory */
/* Zeros of a fake's size, by a call that does not read it: it need not be one of the trace that records. */
NX_MUST_USE nx_status nx_fake_zeros(const nx_tensor *like, nx_tensor **out);

/* ---- sizes as values (captured graphs only) -------------------------------------------------------------------------- */
typedef enum nx_int_code {
#define NX_INT_ROW(code, target, name, n_args) NX_INT_##code,
#include "ir/ints.def"
#undef NX_INT_ROW
} nx_int_code;
static inline int nx_node_int_code(const nx_node *node) { return node->int_code; } /* an nx_int_code, -1: it gives no integer */
/* A call that gives an integer; its users have NX_TAG_NODE where an INT is expected, or in a LIST where INTS are. */
NX_MUST_USE nx_status nx_graph_append_int(nx_graph *graph, nx_int_code code, const nx_value *args, nx_node **out);
/* Its value (INT or FLOAT) for arguments that are known: tensors, INTs, FLOATs. NX_VALUE: there is none that is exactly Python's,
 * or a check does not hold. */
NX_MUST_USE nx_status nx_int_compute(nx_int_code code, const nx_value *args, nx_value *out);
/* A number that calls of the fitted graph have as a tensor of no dimensions: an input behind the others. */
typedef struct nx_open_number { nx_node *node; nx_dtype dtype; } nx_open_number;
/* The dtype of such a tensor in the place of argument `arg` of `node`, a number: with it the call gives the same bits; NX_N_DTYPES:
 * there is none, and the call needs the number itself. */
nx_dtype nx_number_dtype(const nx_node *node, int arg);
typedef struct nx_fit {
    nx_tensor *const *inputs; /* like those of the calls; n_inputs, then n_open fakes of no dimensions */
    const nx_value *given;    /* INPUT and FLOAT k is given[k] */
    nx_node *const *wanted;   /* nodes whose values are asked for */
    const nx_open_number *open;
    int n_inputs, n_given, n_wanted, n_open;
} nx_fit;
/* The same graph for these inputs and these numbers, every other number a constant; values[n_wanted].
 * NX_VALUE or what an operator says: the graph does not hold for such inputs. */
NX_MUST_USE nx_status nx_graph_fit(const nx_graph *graph, const nx_fit *to, nx_value *values, nx_graph **out);

/* What a dimension of a placeholder may be: itself where it does not vary. */
nx_size_range nx_node_range(const nx_node *input, int dim);
bool nx_size_range_takes(const nx_size_range *range, int64_t size); /* false also where the range is not sane */
bool nx_size_range_is_sane(const nx_size_range *range); /* 0 <= min <= gears, rising <= max */
/* The same ranges and dimensions that vary, for a placeholder of as many dimensions. */
NX_MUST_USE nx_status nx_node_copy_open(nx_node *to, const nx_node *from);
NX_MUST_USE nx_status nx_node_open_size(nx_node *input, int dim, const nx_size_range *range); /* gears are copied */
bool nx_graph_is_open(const nx_graph *graph); /* a size of an input may be another one at each run */
/* The call of ints.def whose node is named so ("sym_size_int", "add"); -1: there is none. */
int nx_int_code_find(const char *name);
const char *nx_int_code_name(nx_int_code code);
int nx_int_code_n_args(nx_int_code code);
/* A call that gives an integer whose value is known: arguments are numbers, nodes of numbers and nodes of tensors. */
NX_MUST_USE nx_status nx_graph_call_int(nx_graph *graph, nx_int_code code, const nx_value *args, nx_node **out);

/* ---- functions with a backward of their own (function.c) ------------------------------------------------------------------ */
/* narthex::function(name, inputs, results, reads, checked, gives, numbers, once, backward) -> results: ties what a forward has
 * computed to the graph of its backward. That graph's inputs are the gradients of the results, then `reads`; the numbers that it
 * is given are `numbers`; its result gives[k] is the gradient of inputs[k] (-1: there is none). Reads with 1 in `checked` may not
 * have been written when it runs. With `once` the backward may not be differentiated. */
enum { NX_FUNCTION_NAME, NX_FUNCTION_INPUTS, NX_FUNCTION_RESULTS, NX_FUNCTION_READS, NX_FUNCTION_CHECKED, NX_FUNCTION_GIVES,
       NX_FUNCTION_NUMBERS, NX_FUNCTION_ONCE, NX_FUNCTION_BACKWARD, NX_FUNCTION_N_ARGS };
const nx_op *nx_function_op(void);
bool nx_op_is_function(const nx_op *op); /* NULL is none */
/* A value that holds `graph`, which it takes, also on failure; nobody changes it from here on. */
NX_MUST_USE nx_status nx_value_of_graph(nx_graph *graph, nx_value *out);
const nx_graph *nx_graph_of_value(const nx_value *value); /* lent */

/* ---- a backward that the program runs itself (backward.c) ----------------------------------------------------------------- */
/* narthex::backward(roots, seeds, wanted, retain, create) -> the gradients of `wanted`, as autograd.grad gives them. */
enum { NX_BACKWARD_ROOTS, NX_BACKWARD_SEEDS, NX_BACKWARD_WANTED, NX_BACKWARD_RETAIN, NX_BACKWARD_CREATE, NX_BACKWARD_N_ARGS };
const nx_op *nx_backward_op(void);
const nx_op *nx_leaf_op(void); /* narthex::leaf(source) -> a leaf over its memory that the program makes */
bool nx_op_is_backward(const nx_op *op); /* NULL is none */
/* `input`, a fake without a history, depends from here on on a new leaf as on itself: it may be written. */
NX_MUST_USE nx_status nx_fake_leaf(nx_tensor *input, nx_tensor **leaf);

/* ---- random numbers (graph.c) --------------------------------------------------------------------------------------------- */
typedef struct nx_draws {
    bool any, given, several; /* numbers are drawn; from a generator of the program's own; on several devices beside the CPU */
    nx_device device;         /* such a device; the CPU: there is none */
} nx_draws;
void nx_node_add_draws(const nx_node *node, nx_draws *draws); /* also of the graphs among its arguments */
void nx_graph_add_draws(const nx_graph *graph, nx_draws *draws);
bool nx_node_draws(const nx_node *node);
static inline bool nx_draws_from_cpu(const nx_draws *draws) { /* all of them from the CPU's own generator */
    return draws->any && !draws->given && draws->device.type == 0;
}

/* ---- text ------------------------------------------------------------------------------------------------------------ */
/* nx_graph_print / nx_graph_parse of narthex.h: the .nx form. Python form, as FX prints it: */
NX_MUST_USE nx_status nx_graph_print_python(const nx_graph *graph, bool shapes, bool source_lines, char **out);
/* NX_OK or NX_RUNTIME with "verify: node: what is wrong". */
NX_MUST_USE nx_status nx_graph_verify(const nx_graph *graph);

/* Pieces of a text, for the graphs of this folder and the programs of src/engine. Values, layouts (dtype[sizes]{strides,
 * where not row-major}) and elements are written so that they read back. */
void nx_text_float(nx_text *text, double f, bool is_single); /* the shortest that reads back, with a point */
void nx_text_device(nx_text *text, nx_device device);        /* as Python writes it: type and index */
void nx_write_value(nx_text *text, const nx_value *value);
void nx_write_layout(nx_text *text, const nx_array *array);
void nx_write_elements(nx_text *text, const nx_array *array); /* row-major, on the CPU */

/* Any text at all may be read: every length, depth and product is bounded. Errors are NX_VALUE with line and column. */
typedef struct nx_reader {
    const char *what;       /* of the text: "graph" */
    const char *at, *line_start;
    int line;
    nx_graph *graph;        /* whose nodes a value may name; NULL: none */
    int depth;              /* of lists being read */
} nx_reader;
enum { NX_MAX_WORD = 256 };
typedef struct nx_word { char at[NX_MAX_WORD]; } nx_word;

nx_status nx_read_error(const nx_reader *r, const char *at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void nx_read_spaces(nx_reader *r);                     /* not newlines */
void nx_read_line(nx_reader *r);                       /* to its end */
void nx_read_blank(nx_reader *r);                      /* to what is neither space, newline nor a comment on a line of its own */
bool nx_read_accept(nx_reader *r, char c);             /* after spaces */
nx_status nx_read_expect(nx_reader *r, char c);
bool nx_read_peek(const nx_reader *r);                 /* whether a word stands next */
nx_status nx_read_word(nx_reader *r, bool dots, nx_word *out); /* dots: "torch.add", "aten::add.Tensor" */
nx_status nx_read_int(nx_reader *r, int64_t *out);
nx_status nx_read_string(nx_reader *r, char **out);    /* the caller's */
nx_status nx_read_ints(nx_reader *r, char close, int64_t *out, int room, int *n); /* behind the opening bracket */
nx_status nx_read_device(nx_reader *r, nx_device *out);
nx_status nx_read_value(nx_reader *r, nx_value *out);  /* kept: nx_value_drop() */
nx_status nx_read_dtype(nx_reader *r, nx_dtype *out);  /* "f32" */
nx_status nx_read_layout(nx_reader *r, nx_meta *out);  /* on the CPU, from the first element of its memory on */
nx_status nx_read_type(nx_reader *r, nx_tensor **out); /* a layout, offset, device, "grad": a fake */
nx_status nx_read_elements(nx_reader *r, nx_array *to);
nx_status nx_read_constant(nx_reader *r, const nx_array *like, nx_tensor **out);

/* ---- running ----------------------------------------------------------------------------------------------------------- */
/* Interprets: each node through the dispatcher. Results are new references. */
NX_MUST_USE nx_status nx_graph_run(const nx_graph *graph, nx_tensor *const *inputs, int n_inputs, nx_tensor **out, int n_out);
/* The same while a tracer watches: get_attr nodes give what `attribute` says (a new reference), and the user's line of each
 * node stands in the thread while it runs, so that what is recorded keeps it, and that it is no_grad. */
typedef nx_status nx_attribute_fn(void *context, const nx_node *node, nx_tensor **out);
NX_MUST_USE nx_status nx_graph_retrace(const nx_graph *graph, nx_tensor *const *inputs, int n_inputs, nx_attribute_fn *attribute,
                                       void *context, nx_tensor **out, int n_out);

/* The same where a call may be given instead of made: its results (new references) in values, and true in *given. */
typedef nx_status nx_given_fn(void *context, const nx_node *node, nx_tensor **values, bool *given);
NX_MUST_USE nx_status nx_graph_run_given(const nx_graph *graph, nx_tensor *const *inputs, int n_inputs, nx_given_fn *give,
                                         void *context, nx_tensor **out, int n_out);

/* ---- recording: what stands at the CAPTURE and TRACE keys ----------------------------------------------------------------- */
/* While a tracer is on (nx_tracer_push .. nx_tracer_pop), calls at its key are appended to its graph; tensors are known by
 * address (the tracer holds them, but those that nobody else has any more). A tensor that it does not know becomes what `unknown`
 * says: an error, or a get_attr. */
typedef struct nx_tracer {
    nx_graph *graph;              /* lent */
    int key;                      /* NX_KEY_AT_CAPTURE or NX_KEY_AT_TRACE */
    nx_map nodes;                 /* tensor -> tracked */
    nx_map places;                /* storage and offset -> the tracked there, newest binding first; TRACE and flat tracers alone */
    uint64_t n_compared;          /* of these, while aliases were looked for */
    nx_tensor *recent[16];        /* fakes that nodes have, by a hash of their shape; owned */
    struct tracked *young[64];    /* bound last, in a ring, unless it was let go */
    unsigned n_bound;
    struct nx_tracer *outer;
    nx_status (*unknown)(struct nx_tracer *tracer, nx_tensor *tensor, nx_value *node); /* NULL: error */
    /* Fails for a call that no pass makes functional: one that writes several tensors, or gives one another size. NULL: all are taken. */
    nx_status (*refuse)(struct nx_tracer *tracer, const nx_op *op, const char *why);
    /* CAPTURE: the sizes of a tensor are numbers from there on, for a composed call that is recorded by its parts. */
    nx_status (*fix)(struct nx_tracer *tracer, nx_tensor *tensor);
    bool asks_elements;           /* so are those that fail with NX_DATA */
    void *context;
    uint64_t included_before;
    bool varies;                  /* CAPTURE: sizes are read as values, not as numbers */
    bool flat;                    /* CAPTURE: composed calls are recorded by their parts; sizes do not vary */
    bool is_inner;                /* its graph is a part of what `outer` records, which may read the tensors and numbers of that */
    NX_VEC(nx_node *) ints;       /* CAPTURE: the nodes of integers; see nx_value_size() */
    NX_VEC(nx_value) imports;     /* integers of `outer`, as its calls have them, that its own graph is given as numbers */
    NX_VEC(int) imported;         /* which of `ints` these are */
    uint64_t serial;              /* no other tracer of the thread has it */
    bool no_grad_before;          /* gradients were off when it began */
} nx_tracer;
/* An integer of the graph as an argument of a call while a tracer records at CAPTURE: `number` is its place in tracer.ints.
 * In the place of a list of ints a LIST of such and of plain INTs may stand. Only the recorder ever sees it. */
static inline nx_value nx_value_size(nx_value now, int number) {
    now.n = number + 1;
    return now;
}
NX_MUST_USE nx_status nx_tracer_push(nx_tracer *tracer); /* adds its key to the thread's included keys */
void nx_tracer_pop(nx_tracer *tracer);                   /* and forgets all tensors */
NX_MUST_USE nx_status nx_tracer_bind(nx_tracer *tracer, nx_tensor *tensor, nx_node *node, int result);
bool nx_tracer_find(nx_tracer *tracer, const nx_tensor *tensor, nx_value *out); /* NX_TAG_NODE */
/* Of a flat tracer: what stands for the tensor that was bound last over the same place of the same storage. */
bool nx_tracer_find_place(nx_tracer *tracer, const nx_tensor *tensor, nx_value *out); /* NX_TAG_NODE */
nx_status nx_tracer_record(nx_run *run, const nx_value *in, nx_value *out);

#endif
