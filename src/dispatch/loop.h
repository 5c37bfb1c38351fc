/* What an element loop is. Generated loops include this and kernel/element.h alone, so that no other change compiles them
 * again. */
#ifndef NX_LOOP_H
#define NX_LOOP_H

#include <stdbool.h>
#include <stdint.h>

/* The name of what is compiled once a level (meson.build): name_v3, for NX_LEVEL_NAME=v3. */
#define NX_PASTE_(a, b) a##_##b
#define NX_PASTE(a, b) NX_PASTE_(a, b)
#define NX_AT_LEVEL(name) NX_PASTE(name, NX_LEVEL_NAME)

/* Element loops of a point operator: ptrs and steps (bytes) first of the outputs, then of the tensor operands in
 * parameter order; constants are the Scalar parameters, already in the computing type. */
typedef union nx_const { double f; int64_t i; double parts[2]; } nx_const;
typedef void nx_loop_fn(char *const *ptrs, const int64_t *steps, int64_t n, const nx_const *constants);
/* Runs a loop of float32 for n_operands of a half type, at most 5, the first of which is its output. */
typedef enum nx_loop_half { NX_LOOP_F16, NX_LOOP_BF16 } nx_loop_half;
void nx_loop_by_floats(nx_loop_fn *loop, nx_loop_half half, int n_operands, char *const *ptrs, const int64_t *steps,
                       int64_t n, const nx_const *constants);
/* Runs a loop whose operands, n_operands of `bytes` bytes an element, must lie side by side, for such as lie anyhow. */
void nx_loop_side_by_side(nx_loop_fn *loop, int bytes, int n_operands, char *const *ptrs, const int64_t *steps, int64_t n,
                          const nx_const *constants);
/* A reduction. State is at most 64 bytes. fold takes n elements of the (already cast) dtype; merge adds the second
 * state to the first; done writes one result element; count is the number of elements folded. */
typedef struct nx_reduce_loop {
    void (*init)(void *state);
    void (*fold)(void *state, const char *x, int64_t step, int64_t n);
    void (*merge)(void *state, const void *other);
    void (*done)(const void *state, int64_t count, char *out);
    /* (optional) A state of several numbers, its strands: element i goes to strand i % strands. Folds n rows of
     * columns that lie side by side into `columns` states at once, given as [strand][NX_REDUCE_COLUMNS]. `fresh`: nothing
     * is in them yet, not even the state that init makes; fewer than NX_REDUCE_FEW rows a strand. */
    void (*fold_columns)(void *states, const char *x, int64_t step, int64_t n, int columns, bool fresh);
    /* The results of such states, `step` bytes apart; the states are lost. Strands that no element came to are not read. */
    void (*done_columns)(void *states, int64_t count, int columns, char *out, int64_t step);
    int strands;
} nx_reduce_loop;
enum { NX_REDUCE_COLUMNS = 64, NX_REDUCE_FEW = 4 };
/* Eager and tile programs fold and merge in chunks of this many elements. A piece of one is folded in turns with a piece of
 * another one (iter/reduce.c). */
enum { NX_REDUCE_CHUNK = 1024, NX_REDUCE_PIECE = NX_REDUCE_CHUNK / 4 };

#endif
