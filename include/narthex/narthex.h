/* Narthex from C: tensors, operators, graphs, the graph engine. Link with -lnarthex; no Python needed.
 *
 * Conventions. A function that can fail returns nx_status, 0 for success; nx_error_message() then tells
 * what happened on this thread. The verb says who owns: `new`/`free`, `ref`/`unref` manage a count,
 * `get` lends, `take` consumes its argument. Results come through the last pointer, `out`.
 * Pointers that a function returns in `out` belong to the caller unless the comment says otherwise. */
#ifndef NARTHEX_H
#define NARTHEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NX_API __attribute__((visibility("default")))
#define NX_MUST_USE __attribute__((warn_unused_result))

/* ---- status ------------------------------------------------------------------------------------ */
typedef enum nx_status_code {
    NX_OK = 0,
#define NX_ERROR_ROW(code, exception, meaning) NX_##code,
#include "narthex/errors.def"
#undef NX_ERROR_ROW
    NX_N_STATUS
} nx_status_code;

typedef int nx_status; /* an nx_status_code */

/* The text of the last failure on this thread; lent until the next failure on this thread. */
NX_API const char *nx_error_message(void);
/* Sets the failure of this thread and returns `code`. `format` as in printf. */
NX_API nx_status nx_fail(nx_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- element types, devices -------------------------------------------------------------------- */
typedef enum nx_dtype {
#define NX_DTYPE_ROW(code, ...) NX_##code,
#include "narthex/dtypes.def"
#undef NX_DTYPE_ROW
    NX_N_DTYPES
} nx_dtype;

NX_API size_t nx_dtype_bytes(nx_dtype dtype);
NX_API const char *nx_dtype_name(nx_dtype dtype);  /* "float32" */
NX_API const char *nx_dtype_brief(nx_dtype dtype); /* "f32" */
NX_API const char *nx_dtype_kind(nx_dtype dtype);  /* "Float", as in PyTorch's messages */
#define NX_MAX_ELEMENT_BYTES 16                    /* of a complex128 */

#define NX_MAX_DEVICE_TYPES 8 /* 0 is the CPU, the last one has no memory ("meta"), plugins get the others as they load */
typedef struct nx_device {
    int8_t type;
    int8_t index;
} nx_device;
#define NX_CPU ((nx_device){0, 0})

/* ---- arrays: what a kernel sees ---------------------------------------------------------------- */
#define NX_MAX_DIMS 32
/* A strided block of elements. `data` is the address of element 0 in the device's own terms; strides
 * count elements. Lent to a kernel for the time of its call. Also the head of every nx_tensor. */
typedef struct nx_array {
    void *data;
    int64_t *sizes;
    int64_t *strides;
    int64_t numel;
    uint8_t dtype; /* nx_dtype */
    uint8_t ndim;
    bool contiguous; /* row-major without gaps */
    nx_device device;
} nx_array;

typedef struct nx_tensor nx_tensor;
typedef struct nx_generator nx_generator;
typedef struct nx_op nx_op;
typedef struct nx_stream nx_stream;

/* ---- values: what an operator call carries ------------------------------------------------------ */
typedef enum nx_tag {
    NX_TAG_NONE = 0,  /* an optional argument that is absent */
    NX_TAG_TENSOR,    /* .tensor (or .array inside a kernel) */
    NX_TAG_INT,       /* .i */
    NX_TAG_FLOAT,     /* .f */
    NX_TAG_BOOL,      /* .i, 0 or 1 */
    NX_TAG_STR,       /* .str, NUL-terminated */
    NX_TAG_INTS,      /* .ints, n of them */
    NX_TAG_LIST,      /* .list, n values (tensors, optional tensors, bools, floats) */
    NX_TAG_DTYPE,     /* .i, an nx_dtype */
    NX_TAG_DEVICE,    /* .device */
    NX_TAG_LAYOUT,    /* .i, 0 = strided */
    NX_TAG_MEMORY_FORMAT, /* .i: 0 contiguous, 1 preserve, 2 channels_last, 3 channels_last_3d */
    NX_TAG_GENERATOR, /* .generator */
    NX_TAG_NODE,      /* .node: result n of a graph's node (only inside graphs) */
    NX_TAG_OPAQUE,    /* .opaque: a foreign object (only inside graphs) */
    NX_TAG_COMPLEX,   /* .parts, a real and an imaginary part */
    NX_TAG_GRAPH      /* .shared: a graph that never changes, counted */
} nx_tag;

/* 16 bytes. Plain data: copying a value copies no count. Arguments of a call are lent for the call;
 * what a call puts into its results belongs to the caller. */
typedef struct nx_value {
    uint32_t tag;
    int32_t n;
    union {
        nx_tensor *tensor;
        nx_array *array;
        int64_t i;
        double f;
        const char *str;
        const int64_t *ints;
        const double *parts;
        const struct nx_value *list;
        nx_device device;
        nx_generator *generator;
        struct nx_node *node;
        void *opaque;
        struct nx_shared *shared;
    };
} nx_value;

#define NX_VALUE_NONE ((nx_value){.tag = NX_TAG_NONE})
static inline nx_value nx_value_tensor(nx_tensor *t) { return (nx_value){.tag = t ? NX_TAG_TENSOR : NX_TAG_NONE, .tensor = t}; }
static inline nx_value nx_value_int(int64_t i) { return (nx_value){.tag = NX_TAG_INT, .i = i}; }
static inline nx_value nx_value_float(double f) { return (nx_value){.tag = NX_TAG_FLOAT, .f = f}; }
static inline nx_value nx_value_complex(const double parts[2]) { return (nx_value){.tag = NX_TAG_COMPLEX, .parts = parts}; }
static inline nx_value nx_value_bool(bool b) { return (nx_value){.tag = NX_TAG_BOOL, .i = b}; }
static inline nx_value nx_value_str(const char *s) { return (nx_value){.tag = NX_TAG_STR, .str = s}; }
static inline nx_value nx_value_ints(const int64_t *at, int n) { return (nx_value){.tag = NX_TAG_INTS, .n = n, .ints = at}; }
static inline nx_value nx_value_list(const nx_value *at, int n) { return (nx_value){.tag = NX_TAG_LIST, .n = n, .list = at}; }
static inline nx_value nx_value_dtype(nx_dtype d) { return (nx_value){.tag = NX_TAG_DTYPE, .i = d}; }
static inline nx_value nx_value_device(nx_device d) { return (nx_value){.tag = NX_TAG_DEVICE, .device = d}; }
static inline nx_value nx_value_node(struct nx_node *node, int result) { return (nx_value){.tag = NX_TAG_NODE, .n = result, .node = node}; }

/* ---- memory ---------------------------------------------------------------------------------------
 * One caching allocator for all devices. On the CPU, storages of up to 2,048 bytes lie in their header and are not counted, and
 * what lies under 64 KiB comes from the C library: it is counted as used and not as reserved. */
typedef enum nx_memory_row {
#define NX_MEMORY_ROW(name, meaning) NX_MEMORY_##name,
#include "narthex/memory.def"
#undef NX_MEMORY_ROW
    NX_N_MEMORY_ROWS
} nx_memory_row;
typedef enum nx_memory_kind { NX_MEMORY_ALL, NX_MEMORY_LARGE, NX_MEMORY_SMALL, NX_N_MEMORY_KINDS } nx_memory_kind;
typedef struct nx_memory_count { int64_t current, peak, allocated, freed; } nx_memory_count;
typedef struct nx_memory_stats {
    size_t size;                          /* set to sizeof(nx_memory_stats) before the call */
    nx_memory_count counts[NX_N_MEMORY_ROWS][NX_N_MEMORY_KINDS];
    int64_t n_retries, n_failures;        /* the cache was emptied for a segment; a request was refused */
    int64_t n_device_alloc, n_device_free; /* segments ever taken from the device and given back */
    size_t limit, cache_limit, total;     /* bytes: that segments may take; of idle segments that are kept; of the machine, 0: unknown */
} nx_memory_stats;
NX_API NX_MUST_USE nx_status nx_memory_get_stats(nx_device device, nx_memory_stats *out);
NX_API NX_MUST_USE nx_status nx_memory_reset_peaks(nx_device device);
NX_API NX_MUST_USE nx_status nx_memory_reset_accumulated(nx_device device); /* allocated and freed begin at 0 */
NX_API NX_MUST_USE nx_status nx_memory_empty_cache(nx_device device);       /* idle segments go back to the device */
NX_API NX_MUST_USE nx_status nx_memory_set_limit(nx_device device, size_t bytes); /* 0: none; what is there already stays */

/* ---- tensors ------------------------------------------------------------------------------------ */
/* A new uninitialised row-major tensor on `device`. */
NX_API NX_MUST_USE nx_status nx_tensor_new(nx_dtype dtype, int ndim, const int64_t *sizes, nx_device device, nx_tensor **out);
/* A CPU tensor over memory that the caller keeps: `release(context)` is called once when the last
 * user is gone (NULL: nothing to release). `strides` NULL means row-major. */
NX_API NX_MUST_USE nx_status nx_tensor_from_memory(void *data, nx_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides,
                                                   void (*release)(void *context), void *context, nx_tensor **out);
NX_API nx_tensor *nx_tensor_ref(nx_tensor *tensor); /* returns its argument */
NX_API void nx_tensor_unref(nx_tensor *tensor);     /* NULL is allowed */
static inline const nx_array *nx_tensor_array(const nx_tensor *tensor) { return (const nx_array *)tensor; }

NX_API NX_MUST_USE nx_status nx_tensor_set_requires_grad(nx_tensor *tensor, bool requires_grad);
NX_API nx_tensor *nx_tensor_get_grad(const nx_tensor *tensor); /* lent; NULL when there is none */
/* Gradients of the scalar `tensor` added into the leaves it came from. */
NX_API NX_MUST_USE nx_status nx_tensor_backward(nx_tensor *tensor);

/* ---- operators ---------------------------------------------------------------------------------- */
/* Looks up "aten::add.Tensor" ("aten::mm" has no overload). Lent, lives as long as the process. */
NX_API NX_MUST_USE nx_status nx_op_find(const char *name, const nx_op **out);
NX_API int nx_op_n_in(const nx_op *op);
NX_API int nx_op_n_out(const nx_op *op);
/* Calls an operator through the dispatcher with all its arguments in schema order. */
NX_API NX_MUST_USE nx_status nx_op_call(const nx_op *op, const nx_value *in, nx_value *out);
NX_API void nx_value_drop(nx_value *value); /* releases a result: a tensor, or a list of tensors; sets NONE */
NX_API void nx_manual_seed(uint64_t seed);

/* ---- graphs ------------------------------------------------------------------------------------- */
typedef struct nx_graph nx_graph;
typedef struct nx_node nx_node;
NX_API NX_MUST_USE nx_status nx_graph_new(nx_graph **out);
NX_API void nx_graph_free(nx_graph *graph);
/* An input of the graph. dtype, sizes and device are what the graph may be compiled for. */
NX_API NX_MUST_USE nx_status nx_graph_input(nx_graph *graph, const char *name, nx_dtype dtype, int ndim, const int64_t *sizes,
                                            nx_device device, nx_node **out);
/* A call of `op`; arguments in schema order, tensors as nx_value_node(). Shapes are inferred and checked. */
NX_API NX_MUST_USE nx_status nx_graph_call(nx_graph *graph, const nx_op *op, const nx_value *in, nx_node **out);
/* Open sizes. Dimension `dim` of an input may be from `min` to `max` (-1: no bound) at a run; the sizes that nx_graph_input() was
 * given are those of the example by which shapes are checked while the graph is built. All others stay as they are. */
NX_API NX_MUST_USE nx_status nx_graph_open_size(nx_graph *graph, nx_node *input, int dim, int64_t min, int64_t max);
/* Gears: the only sizes that the dimension may have, rising, the example's among them. Compiling makes the plans of all
 * combinations that the graph holds for. */
#define NX_MAX_GEARS 64
NX_API NX_MUST_USE nx_status nx_graph_set_gears(nx_graph *graph, nx_node *input, int dim, const int64_t *sizes, int n);
/* Size `dim` of a result, and what is computed of sizes, as numbers of the graph: nx_value_node(number, 0) stands where an operator
 * takes an int, also among the values of an nx_value_list() where it takes several. what: "add", "sub", "mul", "floordiv", "mod",
 * "neg", "eq", "ne", "lt", "le", "gt", "ge", and "check", which refuses sizes for which its argument is 0; in: ints and numbers. */
NX_API NX_MUST_USE nx_status nx_graph_size(nx_graph *graph, nx_value of, int dim, nx_node **out);
NX_API NX_MUST_USE nx_status nx_graph_compute(nx_graph *graph, const char *what, const nx_value *in, nx_node **out);
NX_API NX_MUST_USE nx_status nx_graph_output(nx_graph *graph, const nx_value *results, int n);
/* The graph as text that nx_graph_parse() reads back. The string belongs to the caller: nx_free(). */
NX_API NX_MUST_USE nx_status nx_graph_print(const nx_graph *graph, char **out);
NX_API NX_MUST_USE nx_status nx_graph_parse(const char *text, nx_graph **out);
NX_API void nx_free(void *block);

/* ---- the graph engine --------------------------------------------------------------------------- */
typedef struct nx_session nx_session;
typedef struct nx_summary {
    size_t size; /* set to sizeof(nx_summary) before the call */
    bool is_static;
    bool feature_base_refreshable; /* the feature-memory base can be moved between runs */
    int n_inputs, n_outputs;
    int n_launches, n_tile_programs;
    size_t const_bytes, fixed_feature_bytes, feature_bytes;
    int n_plans; /* that are kept now; a graph without open sizes has one */
    int64_t measured_ns; /* what its launches take together, one by one; 0: not measured */
} nx_summary;
NX_API NX_MUST_USE nx_status nx_session_new(nx_device device, nx_session **out);
NX_API void nx_session_free(nx_session *session);
/* Adds a copy of `graph` under `id`. */
NX_API NX_MUST_USE nx_status nx_session_add_graph(nx_session *session, uint32_t id, const nx_graph *graph);
/* Plans and lowers; takes no device memory except for constants. */
NX_API NX_MUST_USE nx_status nx_session_compile_graph(nx_session *session, uint32_t id);
NX_API NX_MUST_USE nx_status nx_session_get_summary(nx_session *session, uint32_t id, nx_summary *out);
/* The same of the plan for other sizes of the inputs, which is made and kept if it is not there: sizes[i] are all sizes of input i,
 * NULL: those of the example. nx_session_get_summary() tells of the plan that was compiled or used last. Constants lie once. */
NX_API NX_MUST_USE nx_status nx_session_get_summary_for(nx_session *session, uint32_t id, const int64_t *const *sizes, int n_inputs,
                                                        nx_summary *out);
/* Times the choices of the graph's plans, and of those that are made later, on inputs of the engine's own, and keeps the quickest
 * (on the CPU; elsewhere, and where a plan takes no such inputs, the rules hold). Results keep their bits. At most two seconds a plan. */
NX_API NX_MUST_USE nx_status nx_session_measure_graph(nx_session *session, uint32_t id);
/* Each launch's time and its part of what this machine could do, for people; empty: not measured. The caller's: nx_free(). */
NX_API NX_MUST_USE nx_status nx_session_get_report(nx_session *session, uint32_t id, char **out);
/* Memory bases: device addresses of at least the summary's sizes, kept by the caller while the graph may run.
 * Without them the session allocates its own at the first run. */
NX_API NX_MUST_USE nx_status nx_session_set_const_base(nx_session *session, uint32_t id, void *base, size_t bytes);
NX_API NX_MUST_USE nx_status nx_session_set_fixed_feature_base(nx_session *session, uint32_t id, void *base, size_t bytes);
NX_API NX_MUST_USE nx_status nx_session_update_feature_base(nx_session *session, uint32_t id, void *base, size_t bytes);
/* Of a graph with open sizes, inputs may have others at each run: the first run with new ones plans, later ones find the plan again
 * (the sixteen that were used last, and those of gears, are kept). Sizes out of bounds or that break a check of the graph are refused.
 * Runs on `stream` (NULL: the device's current one). out[i] non-NULL: result i is written there and
 * stays the caller's; NULL: a new tensor is put there and belongs to the caller. */
NX_API NX_MUST_USE nx_status nx_session_run(nx_session *session, uint32_t id, nx_stream *stream, nx_tensor *const *inputs, int n_inputs,
                                            nx_tensor **out, int n_outputs);
NX_API NX_MUST_USE nx_status nx_session_remove_graph(nx_session *session, uint32_t id);
/* Model files: graph, constants and plan, with what was measured, which holds on the same machine. Loading verifies and never executes. */
NX_API NX_MUST_USE nx_status nx_session_save(nx_session *session, uint32_t id, const char *path);
NX_API NX_MUST_USE nx_status nx_session_load(nx_session *session, uint32_t id, const char *path);

/* ---- devices ------------------------------------------------------------------------------------ */
NX_API NX_MUST_USE nx_status nx_device_load_plugin(const char *path);
NX_API NX_MUST_USE nx_status nx_device_parse(const char *text, nx_device *out); /* "npu:0" */
NX_API NX_MUST_USE nx_status nx_device_synchronize(nx_device device);

#ifdef __cplusplus
}
#endif
#endif
