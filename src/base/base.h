/* base: status, memory, vectors, strings, threads. No tensors yet.
 * Also the one list of thread-local state (struct nx_thread). Process state is what must be there once: the flags below,
 * the allocator's counters, tables of devices and operators (src/device, src/dispatch), the default generator. */
#ifndef NX_BASE_H
#define NX_BASE_H

#include "base/half.h"
#include "base/levels.h"
#include "narthex/narthex.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define NX_TRY(expr)                          \
    do {                                      \
        nx_status nx_try_ = (expr);           \
        if (nx_try_ != NX_OK) return nx_try_; \
    } while (0)
/* As NX_TRY, for functions with things to release: sets `status` and goes to `fail`. */
#define NX_TRY_FAIL(expr)                          \
    do {                                           \
        if ((status = (expr)) != NX_OK) goto fail; \
    } while (0)
#define NX_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
static inline int64_t nx_least(int64_t a, int64_t b) { return a < b ? a : b; }
#define NX_LIKELY(x) __builtin_expect(!!(x), 1)
#define NX_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- thread-local state: all of it is here ------------------------------------------------------- */
/* Where a node comes from. */
typedef struct nx_source {
    const char *file, *code, *function; /* the user's line and the function that it is in; NULL: unknown */
    int line;
    bool no_grad;                       /* gradients are off for it, in a graph that has them: written under torch.no_grad() */
    int recompute;                      /* the checkpoint that it is in, whose inner values the backward computes again; 0: none */
    int spelling;                       /* the call of the program's that it is a part of, as a trace counts them; 0: none */
    int scope;                          /* what the front says that it belongs to: the call of a module; 0: nothing */
} nx_source;

typedef struct nx_thread {
    nx_status error;            /* code of the last failure */
    char message[2048];         /* its text */
    uint64_t keys_included;     /* dispatch keys added to every call (src/dispatch) */
    uint64_t keys_excluded;     /* dispatch keys removed from every call */
    bool grad_disabled;         /* torch.no_grad (src/grad) */
    uint8_t autocast_enabled, autocast_dtype[NX_MAX_DEVICE_TYPES]; /* by device type; 0: its initial dtype (src/dispatch) */
    bool autocast_uncached;
    int autocast_nesting;
    struct nx_autocast_cache *autocast_cache;
    bool keeps_lock;            /* long work does not give the interpreter's lock away: what runs here is not re-entrant */
    int8_t device_index[NX_MAX_DEVICE_TYPES];      /* current device of each type (src/device) */
    nx_stream *stream[NX_MAX_DEVICE_TYPES];        /* current stream of the current device, NULL: default */
    struct nx_recorder *recorder;                  /* CPU launches are recorded here (src/device) */
    struct nx_tracer *tracer;                      /* innermost tracer (src/ir) */
    struct nx_profile *profile;                    /* notes what runs here, NULL: nothing does (src/core) */
    void *free_tensors, *free_whole, *free_storages; /* free lists (src/core) */
    int n_free_tensors, n_free_whole, n_free_storages;
    struct { int64_t taken, given; int n_taken, n_given; } memory; /* of the C library, for storages, not yet told (src/core) */
    void *free_nodes, *free_autograds, *dead_nodes; /* free lists, nodes being freed (src/grad) */
    int n_free_nodes, n_free_autograds;
    bool freeing_nodes;
    uint64_t grad_sequence;                        /* of the last node made here (src/grad) */
    uint64_t grad_run;                             /* the backward that runs here, 0: none; no two have one number (src/grad) */
    uint64_t grad_runs;                            /* the last number that a backward got here (src/grad) */
    void *grad_running;                            /* its scratch, NULL: none (src/grad) */
    bool grad_run_chosen;                          /* it was asked for certain inputs (src/grad) */
    void *function_modes;                          /* modes that answer functions, NULL: none; its owner's (py/bind) */
    void *dispatch_modes;                          /* modes that answer operators, NULL: none; its owner's (py/bind) */
    uint8_t function_state;                        /* who answers functions: 0 classes and modes, 1 modes, 2 nobody (py/bind) */
    bool anomaly;                                  /* nodes note where they are made, backward checks them (src/grad) */
    void *saved_hooks;                             /* what saved tensors go through, NULL: nothing; its owner's (src/grad) */
    uint8_t for_tangent;                           /* what runs here computes a tangent, or a formula for one; 0 (src/grad) */
    char node_name[64];                            /* what nx_grad_node_name returned last (src/grad) */
    nx_source source;                              /* of the nodes that are recorded now; lent (src/ir) */
    struct { int64_t size; uint8_t number, randomness; } levels[16]; /* of vmap that are open, the outermost first (src/batch) */
    int n_levels;
    uint8_t last_level;                            /* the number that a level got last (src/batch) */
    const char *target;                            /* Python-level name of the call being captured, lent (src/ir) */
    bool target_is_method;
    /* The elements of a fake, where a trace knows them: a tensor in the host's memory, row by row, a new reference (py/notes);
     * NULL: nobody does. */
    nx_status (*tell)(struct nx_tensor *fake, struct nx_tensor **out);
} nx_thread;
extern _Thread_local nx_thread *nx__thread __attribute__((tls_model("initial-exec")));
nx_thread *nx__thread_new(void);
nx_thread *nx__thread_spare(void); /* for a thread that no block could be made for; it goes back when the thread ends */
extern void (*nx__thread_end)(nx_thread *thread); /* src/core: empties the free lists of a thread that ends */
/* Which device types autocast is on for, and the dtypes that were set, as one number. */
int64_t nx_thread_autocast(const nx_thread *thread);
static inline nx_thread *nx_thread_get(void) { return NX_LIKELY(nx__thread != NULL) ? nx__thread : nx__thread_new(); }

/* ---- status --------------------------------------------------------------------------------------- */
const char *nx_status_name(nx_status status);      /* "RUNTIME" */
nx_status nx_fail_memory(size_t bytes);            /* NX_NO_MEMORY with the size */

/* ---- memory ---------------------------------------------------------------------------------------
 * Every allocation of the library goes through here, so that tests can fail the N-th and count what is left. */
void *nx_alloc(size_t bytes);                      /* NULL without memory; 64-byte aligned from 64 bytes on */
void *nx_alloc_zeroed(size_t bytes);
void nx_alloc_populate(void *at, size_t bytes);    /* brings pages into memory that are written to soon */
void *nx_alloc_pages(size_t bytes);                /* whole pages, which go back to the system at once; NULL without memory */
void nx_free_pages(void *pages, size_t bytes);     /* NULL is allowed */
size_t nx_memory_of_machine(void);                 /* bytes, or what the control group allows if that is less; 0: unknown */
void *nx_realloc(void *block, size_t old_bytes, size_t bytes);
char *nx_strdup(const char *text);
NX_API void nx_alloc_fail_at(int64_t n);           /* the n-th allocation from now on fails (1 = next); 0: none. All threads */
NX_API bool nx_alloc_failed(void);                 /* whether that failure has happened */
NX_API int64_t nx_alloc_live(void);                /* blocks not yet freed */
NX_API void nx_alloc_watch(bool on);               /* tests: free lists stand aside, so that the count is exact */
extern _Atomic bool nx__watched;
static inline bool nx_alloc_watched(void) { return atomic_load_explicit(&nx__watched, memory_order_relaxed); }

/* ---- arenas: memory that is freed as a whole; zeroed, at multiples of 8 ------------------------------- */
typedef struct nx_arena { struct nx_arena_block *blocks; } nx_arena;
void *nx_arena_take(nx_arena *arena, size_t bytes);           /* NULL without memory, which is then this thread's failure */
char *nx_arena_text(nx_arena *arena, const char *text);       /* a copy; likewise */
void nx_arena_free(nx_arena *arena);                          /* empty again */

/* ---- growing arrays: NX_VEC(int) v = {0}; ---------------------------------------------------------- */
#define NX_VEC(type) struct { type *at; int n, room; }
#define nx_vec_push(vec, value)                                                                                  \
    (NX_LIKELY((vec)->n < (vec)->room) || nx__vec_grow((void **)&(vec)->at, &(vec)->room, sizeof *(vec)->at)     \
         ? ((vec)->at[(vec)->n++] = (value), NX_OK) : nx_fail_memory(sizeof *(vec)->at * 2 * (size_t)(vec)->room))
#define nx_vec_free(vec) (nx_free((vec)->at), (vec)->at = NULL, (vec)->n = (vec)->room = 0)
bool nx__vec_grow(void **at, int *room, size_t element);

/* ---- pointer map: pointer -> pointer ---------------------------------------------------------------- */
typedef struct nx_map { struct nx_map_slot { const void *key; void *value; } *slots; int room, n; } nx_map;
void *nx_map_get(const nx_map *map, const void *key); /* NULL when absent */
nx_status nx_map_set(nx_map *map, const void *key, void *value);
void nx_map_free(nx_map *map);
/* Which of many intervals of the numbers 0 .. n - 1 overlap one more (overlaps.c). */
typedef struct nx_overlaps nx_overlaps;
nx_status nx_overlaps_new(int n, int n_intervals, nx_overlaps **out);
void nx_overlaps_free(nx_overlaps *overlaps); /* NULL is allowed */
nx_status nx_overlaps_add(nx_overlaps *overlaps, int interval, int first, int last); /* interval: 0 .. n_intervals - 1 */
/* The added ones that have a number in [first, last], each once, in no order; found: room for all. How many. */
int nx_overlaps_find(nx_overlaps *overlaps, int first, int last, int *found);
uint64_t nx_overlaps_steps(const nx_overlaps *overlaps); /* that questions took so far */
/* Which number a pointer was given first. A few pointers need no memory, so that what lies on a stack costs a run little. */
enum { NX_NUMBERS_FEW = 16 };
typedef struct nx_numbers { nx_map more; int n, numbers[NX_NUMBERS_FEW]; const void *few[NX_NUMBERS_FEW]; } nx_numbers;
static inline void nx_numbers_start(nx_numbers *numbers) {
    numbers->n = 0;
    numbers->more = (nx_map){0};
}
int nx_numbers_find(const nx_numbers *numbers, const void *key); /* -1: none */
nx_status nx_numbers_add(nx_numbers *numbers, const void *key, int number, int *first); /* first: which it has now; NULL: whatever */
static inline void nx_numbers_free(nx_numbers *numbers) {
    if (numbers->more.room) nx_map_free(&numbers->more);
}

/* ---- text ------------------------------------------------------------------------------------------ */
/* A growing string. After a failed append `failed` stays set and the rest is ignored. */
typedef struct nx_text { char *at; size_t n, room; bool failed; } nx_text;
void nx_text_add(nx_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void nx_text_add_char(nx_text *text, char c);
void nx_text_add_ints(nx_text *text, const int64_t *at, int n); /* "[2, 3]" */
nx_status nx_text_take(nx_text *text, char **out);              /* the caller's; NX_NO_MEMORY if an append failed */
void nx_text_free(nx_text *text);

/* ---- threads ---------------------------------------------------------------------------------------- */
/* Splits 0..n into pieces of at least `grain` and calls body(arg, begin, end) for each, on several threads if there are any
 * to spare. Where the cuts lie may depend on the number of threads: no body may show that in its results. The failure of
 * the first piece that fails is kept. Work of many grains gives the interpreter's lock away meanwhile: a body uses
 * nothing but its arguments and arrays. */
typedef nx_status nx_parallel_fn(void *arg, int64_t begin, int64_t end);
nx_status nx_parallel(int64_t n, int64_t grain, nx_parallel_fn *body, void *arg);
/* A piece is worth a thread from about this many bytes moved on; where work is not moving, an addition counts as a byte. */
enum { NX_PIECE = 1 << 19 };
extern _Atomic int64_t nx__piece_bytes;
NX_API void nx_set_piece(int64_t bytes);           /* tests: from how little on work is split; 0: NX_PIECE */
/* How many items of `cost` bytes each make a piece; whether n of them are worth two. */
static inline int64_t nx_grain(int64_t cost) {
    int64_t piece = atomic_load_explicit(&nx__piece_bytes, memory_order_relaxed);
    return cost >= piece ? 1 : cost > 1 ? piece / cost : piece;
}
static inline bool nx_is_long(int64_t n, int64_t cost) {
    return n * cost >= 2 * atomic_load_explicit(&nx__piece_bytes, memory_order_relaxed);
}
/* Around work of that cost which one thread does: gives the interpreter's lock away where it is long. End with nx_block_end. */
void *nx_long_begin(int64_t bytes);
int64_t nx_now(void); /* nanoseconds, of a clock that never goes back */
NX_API int nx_num_threads(void);
NX_API void nx_set_num_threads(int n);
NX_API int nx_explain_threads(char *text, size_t bytes); /* nx_num_threads(), and why so many */

/* ---- reference counts -------------------------------------------------------------------------------- */
typedef _Atomic int32_t nx_count;
/* Of a new object, which no other thread knows yet: a plain `count = 1` would be a locked operation. */
static inline void nx_count_start(nx_count *count) { atomic_store_explicit(count, 1, memory_order_relaxed); }
/* Who counts up may have borrowed the object, as threads do that use one tensor at once: a count of 1 does not mean that nobody
 * else counts now, so this is always a locked operation. Where it matters, a reference is handed on instead of counted. */
static inline void nx_count_up(nx_count *count) {
    int32_t before = atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
}
/* true: that was the last. Who gives up the only reference lends it to nobody any more, so that none is counted up meanwhile. */
static inline bool nx_count_down(nx_count *count) {
    if (atomic_load_explicit(count, memory_order_acquire) == 1) return true;
    int32_t before = atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel);
    assert(before > 0);
    return before == 1;
}

/* ---- flags: the only place that reads the environment ------------------------------------------------- */
typedef struct nx_flags {
#define NX_FLAG_ROW(name, type, initial, variable, meaning) type name;
#include "base/flags.def"
#undef NX_FLAG_ROW
} nx_flags;
extern nx_flags nx_flag; /* filled once when the library is loaded */

/* ---- blocking and stopping: py/ sets these -------------------------------------------------------------
 * Before and after a wait the interpreter's lock is released and taken. Between the parts of long work nx_poll() asks
 * whether the user wants the program to stop (Ctrl-C); not NX_OK: the work ends as if its next part had failed. */
extern void *(*nx_before_block)(void);       /* returns a token */
extern void (*nx_after_block)(void *token);
static inline void *nx_block_begin(void) { return nx_before_block ? nx_before_block() : NULL; }
static inline void nx_block_end(void *token) {
    if (nx_after_block) nx_after_block(token);
}
extern nx_status (*nx_poll_hook)(void);
static inline nx_status nx_poll(void) { return nx_poll_hook ? nx_poll_hook() : NX_OK; }
NX_API void nx_set_block_hooks(void *(*before)(void), void (*after)(void *token), nx_status (*poll)(void));
/* How much lies between two polls: a call costs about as much as 1024 elements. */
enum { NX_POLL_CALL = 1 << 10, NX_POLL_ELEMENTS = 1 << 16 };

#endif
