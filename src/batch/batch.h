/* batch: one call for all slices (torch.vmap; decision 0019).
 * A map over slices opens a level. Inside, a tensor that is mapped over is one slice: it has a slice's shape and stands for all of
 * them, which lie in its `whole`, an ordinary tensor with a leading dimension for each of its levels. Its history, gradient and
 * tangent are those of the whole. What is called with a slice arrives at the key BATCHED, above all keys that record, where a rule
 * calls operators with the wholes; so autograd, forward mode, capture and devices see ordinary calls. What has no rule is called
 * with one slice after the other.
 * Levels are the thread's; a tensor may be used after its level has ended, as what it was. */
#ifndef NX_BATCH_H
#define NX_BATCH_H

#include "dispatch/dispatch.h"

/* What a level's slices draw: nothing may be drawn; each its own numbers; all the same. */
typedef enum nx_randomness { NX_RANDOM_ERROR, NX_RANDOM_DIFFERENT, NX_RANDOM_SAME } nx_randomness;

/* Opens a level of `size` slices in this thread; *level is its number. nx_batch_leave() closes the innermost one. */
NX_MUST_USE nx_status nx_batch_enter(int64_t size, nx_randomness randomness, int *level);
void nx_batch_leave(void);
static inline int nx_batch_depth(void) { return nx_thread_get()->n_levels; }

/* One slice along dimension `dim` (not negative) of what `tensor` shows, for all of them. A new reference. */
NX_MUST_USE nx_status nx_batch_take(nx_tensor *tensor, int dim, int level, nx_tensor **out);
/* The other way: all slices of the level, along `dim` of the result; where it is no slice, as often as there are slices. */
NX_MUST_USE nx_status nx_batch_give(nx_tensor *tensor, int dim, int level, nx_tensor **out);
/* The same for several levels at once, in front and in their order, and back. */
NX_MUST_USE nx_status nx_batch_show(nx_tensor *tensor, uint64_t levels, nx_tensor **out);
NX_MUST_USE nx_status nx_batch_hide(nx_tensor *tensor, uint64_t levels, nx_tensor **out);

/* "Cannot access data pointer ..." where the tensor is a slice, else NX_OK. */
nx_status nx_batch_check_data(const nx_tensor *tensor);

#endif
