/* Whole arrays into others, dtypes and layouts as they are. */
#include "iter/private.h"

typedef struct dtypes { nx_dtype to, from; } dtypes;

static void copy_inner(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    const dtypes *d = arg;
    nx_cast(d->to, ptrs[0], steps[0], d->from, ptrs[1], steps[1], n);
}

void nx_copy_cast(const nx_array *to, const nx_array *from) {
    dtypes both = {to->dtype, from->dtype};
    int64_t to_bytes = (int64_t)nx_dtype_bytes(to->dtype), from_bytes = (int64_t)nx_dtype_bytes(from->dtype);
    if (to->numel == 0 ||
        (to->data == from->data && both.to == both.from && to->contiguous && from->contiguous))
        return;
    if (to->contiguous && from->contiguous && to->numel == from->numel && to->numel < 2 * NX__SPLIT) {
        nx_cast(both.to, to->data, to_bytes, both.from, from->data, from_bytes, to->numel);
        return;
    }
    nx_walk walk;
    nx_walk_start(&walk, to->ndim, to->sizes);
    nx_walk_add(&walk, to);
    nx_walk_add(&walk, from);
    nx_walk_merge(&walk);
    nx__walk_spread(&walk, copy_inner, &both);
}
