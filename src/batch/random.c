/* Drawing numbers. The levels that are open say what slices draw: nothing; each its own, which are drawn for all at once; all the
 * same, which are drawn once, or with the generator put back for each slice. */
#include "batch/private.h"

static bool draws_in_place(const nx__call *call) { return call->op->def->flags & NX_OP_MUTATES; }

/* Adds the levels whose slices draw numbers of their own; `none`: the slices of one may not draw. */
static void add_levels(nx__call *call, bool *none) {
    const nx_thread *thread = nx_thread_get();
    for (int k = 0; k < thread->n_levels; k++) {
        *none |= thread->levels[k].randomness == NX_RANDOM_ERROR;
        call->draws_same |= thread->levels[k].randomness == NX_RANDOM_SAME;
        if (thread->levels[k].randomness == NX_RANDOM_DIFFERENT) nx__add_level(call, thread->levels[k].number, thread->levels[k].size);
    }
}

static bool has_tensor(const nx__call *call) {
    for (int i = 0; i < call->op->def->n_in; i++) {
        if (call->in[i].tag == NX_TAG_TENSOR) return true;
    }
    return false;
}

static int size_argument(const nx_op_def *def) {
    for (int i = 0; i < def->n_in; i++) {
        if (def->params[i].type == NX_TYPE_INTS && strcmp(def->params[i].name, "size") == 0) return i;
    }
    return -1;
}

/* New numbers for all slices of a size. */
static nx_status draw_new(nx__call *call, nx_value *out, bool *fits) {
    nx_value own[NX__MOST_ARGUMENTS];
    int64_t sizes[NX_MAX_DIMS];
    int at = size_argument(call->op->def), n = nx__level_sizes(call, sizes);
    if (at < 0 || n + call->in[at].n > NX_MAX_DIMS) return *fits = false, NX_OK;
    for (int i = 0; i < call->op->def->n_in; i++) own[i] = call->in[i];
    for (int k = 0; k < call->in[at].n; k++) sizes[n++] = call->in[at].ints[k];
    own[at] = nx_value_ints(sizes, n);
    return nx_op_call(call->op, own, out);
}

static bool is_by_rows(const nx_op_def *def) { /* of which a row is more than its elements */
    return strncmp(def->name, "aten::multinomial", 17) == 0 || strncmp(def->name, "aten::randperm", 14) == 0;
}

static nx_status fail_drawn(void) {
    return nx_fail(NX_RUNTIME, "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                   "randomness flags on vmap or perform the randomness operation out of vmap");
}

static nx_status fail_unbatched(void) {
    return nx_fail(NX_RUNTIME, "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same "
                   "randomness. If this is necessary for your usage, please file an issue with functorch.");
}

nx_status nx__rule_random(nx__call *call, nx_value *out, bool *fits) {
    bool none = false;
    uint64_t own = call->levels;
    add_levels(call, &none);
    if (none) return fail_drawn();
    if (draws_in_place(call) && own != call->levels) return fail_unbatched();
    if (call->levels == 0) return nx_op_call(call->op, call->in, out); /* the same for all, of no slice: as if nobody mapped */
    if (call->draws_same && nx_thread_get()->tracer)
        return nx_fail(NX_DATA, "%s: a graph does not draw the same numbers for each slice", call->op->def->name);
    if (call->draws_same || is_by_rows(call->op->def)) return nx__rule_slices(call, out, fits);
    return has_tensor(call) ? nx__rule_front(call, out, fits) : draw_new(call, out, fits);
}
