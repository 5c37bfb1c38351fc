/* A recorded sequence of launches whose operands can be rebound.
 * nx_launch_list_bind() works out, for each slot, which array addresses lie inside it: one pass over the arrays, each
 * looked for by halving among the slots in order of address. A run rewrites only those whose slot has moved, then calls
 * the kernels in a row: no lock, no allocation, no dispatch. A launch that has all arrays of a storage in slots stops
 * holding that storage: the caller brings the memory at each run. Slots must not overlap. */
#include "device/private.h"

#include <stdlib.h>

typedef struct patch {
    void **at;        /* an nx_array's data */
    ptrdiff_t offset; /* from the slot's base */
} patch;

typedef struct slot {
    void *base;       /* where the patches point now; NULL: nowhere yet */
    int n;
    patch *patches;
} slot;

struct nx_launch_list {
    NX_VEC(nx_launch *) launches;
    NX_VEC(int) parts; /* a run polls between them: the number of launches up to the end of each but the last */
    int64_t elements;  /* of the last part */
    bool bound;
    int n_slots;
    uint64_t n_steps; /* that binding took: comparisons of addresses, and arrays looked at */
    slot *slots;      /* one block, their patches behind them */
    nx_bound **bound_calls; /* of the launches; NULL where the kernel is called */
};

nx_status (*nx_kernel_bind)(nx_kernel_fn *kernel, const nx_run *run, const nx_value *in, const nx_value *out, nx_bound **bound);

nx_status nx_launch_list_new(nx_launch_list **out) {
    nx_launch_list *list = nx_alloc_zeroed(sizeof *list);
    if (list == NULL) return nx_fail_memory(sizeof *list);
    *out = list;
    return NX_OK;
}

void nx_launch_list_free(nx_launch_list *list) {
    if (list == NULL) return;
    for (int i = 0; i < list->launches.n; i++) {
        if (list->bound_calls) nx_free(list->bound_calls[i]);
        nx_launch_free(list->launches.at[i]);
    }
    nx_free(list->bound_calls);
    nx_vec_free(&list->launches);
    nx_vec_free(&list->parts);
    nx_free(list->slots);
    nx_free(list);
}

/* A new part begins when the last one is long. */
static nx_status count_elements(nx_launch_list *list, const nx_launch *launch) {
    if (list->elements >= NX_POLL_ELEMENTS) {
        NX_TRY(nx_vec_push(&list->parts, list->launches.n));
        list->elements = 0;
    }
    list->elements += NX_POLL_CALL;
    for (int k = 0; k < launch->n_arrays; k++) list->elements += launch->arrays[k].numel;
    return NX_OK;
}

nx_status nx_launch_list_append(nx_launch_list *list, nx_launch *launch) {
    nx_status status =
        list->bound ? nx_fail(NX_RUNTIME, "launch list: nothing can be appended after nx_launch_list_bind()")
                    : count_elements(list, launch);
    if (status == NX_OK) status = nx_vec_push(&list->launches, launch);
    if (status != NX_OK) nx_launch_free(launch);
    return status;
}

int nx_launch_list_count(const nx_launch_list *list) { return list->launches.n; }

/* ---- binding ------------------------------------------------------------------------------------------ */
typedef struct range { const char *begin, *end; int slot; } range;
typedef enum follows { UNSEEN, FOLLOWS, STAYS } follows; /* of a hold: all its arrays lie in slots, or one does not */
typedef struct binder {
    nx_launch_list *list;
    range *ranges;    /* of the slots that are not empty, by address */
    int n_ranges;
    int *slot_of;     /* of all arrays of all launches, -1: none */
    follows *holds;   /* scratch: of one launch */
} binder;

static int by_address(const void *a, const void *b, void *steps) {
    const range *x = a, *y = b;
    ++*(uint64_t *)steps;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static nx_status sort_slots(binder *b, const nx_span *slots, int n_slots) {
    for (int s = 0; s < n_slots; s++) {
        const char *base = slots[s].base;
        if (base && slots[s].bytes) b->ranges[b->n_ranges++] = (range){base, base + slots[s].bytes, s};
    }
    qsort_r(b->ranges, (size_t)b->n_ranges, sizeof *b->ranges, by_address, &b->list->n_steps);
    for (int i = 1; i < b->n_ranges; i++) {
        const range *one = &b->ranges[i - 1], *next = &b->ranges[i];
        if (next->begin < one->end) return nx_fail(NX_VALUE, "launch list: slots %d and %d overlap", one->slot, next->slot);
    }
    return NX_OK;
}

static int find_slot(const binder *b, const nx_array *a) {
    int low = 0, high = b->n_ranges;
    const char *data = a->data;
    b->list->n_steps++;
    if (a->numel == 0 || data == NULL) return -1;
    while (low < high) { /* the first range that begins behind data */
        int middle = (low + high) / 2;
        b->list->n_steps++;
        if (b->ranges[middle].begin <= data) low = middle + 1;
        else high = middle;
    }
    return low > 0 && data < b->ranges[low - 1].end ? b->ranges[low - 1].slot : -1;
}

/* Drops the holds of `launch` whose arrays all follow slots. */
static void release_bound(binder *b, nx_launch *launch, const int *slot_of) {
    for (int h = 0; h < launch->n_holds; h++) b->holds[h] = UNSEEN;
    for (int k = 0; k < launch->n_arrays; k++) {
        int h = nx__launch_hold_of(launch, k);
        if (h >= 0 && b->holds[h] != STAYS) b->holds[h] = slot_of[k] >= 0 ? FOLLOWS : STAYS;
    }
    for (int h = 0; h < launch->n_holds; h++) {
        if (b->holds[h] != FOLLOWS) continue;
        nx_storage_unref(launch->holds[h]);
        launch->holds[h] = NULL; /* the others keep their index */
    }
}

static nx_status bind_calls(nx_launch_list *list) {
    size_t bytes = sizeof *list->bound_calls * (size_t)list->launches.n;
    if (list->bound_calls == NULL) list->bound_calls = nx_alloc_zeroed(bytes + 1); /* else a binding failed after this */
    if (list->bound_calls == NULL) return nx_fail_memory(bytes);
    for (int i = 0; i < list->launches.n && nx_kernel_bind; i++) {
        const nx_launch *launch = list->launches.at[i];
        if (list->bound_calls[i]) continue;
        NX_TRY(nx_kernel_bind(launch->kernel, &launch->run, launch->in, launch->out, &list->bound_calls[i]));
    }
    return NX_OK;
}

/* Where every array lies; how many do in each slot. */
static int find_slots(binder *b, slot *made) {
    int n = 0, n_bound = 0;
    for (int i = 0; i < b->list->launches.n; i++) {
        const nx_launch *launch = b->list->launches.at[i];
        for (int k = 0; k < launch->n_arrays; k++) {
            int s = b->slot_of[n++] = find_slot(b, &launch->arrays[k]);
            if (s < 0) continue;
            made[s].n++;
            n_bound++;
        }
    }
    return n_bound;
}

static void make_patches(binder *b, const nx_span *slots, slot *made, patch *next, int n_slots) {
    int n = 0;
    for (int s = 0; s < n_slots; s++) {
        made[s].patches = next;
        next += made[s].n;
        made[s].n = 0;
    }
    for (int i = 0; i < b->list->launches.n; i++) {
        nx_launch *launch = b->list->launches.at[i];
        const int *slot_of = b->slot_of + n;
        for (int k = 0; k < launch->n_arrays; k++, n++) {
            nx_array *a = &launch->arrays[k];
            slot *to = slot_of[k] < 0 ? NULL : &made[slot_of[k]];
            if (to) to->patches[to->n++] = (patch){&a->data, (char *)a->data - (char *)slots[slot_of[k]].base};
        }
        release_bound(b, launch, slot_of);
    }
}

static nx_status bind_slots(binder *b, const nx_span *slots, int n_slots) {
    slot *counts = nx_alloc_zeroed(sizeof *counts * (size_t)n_slots + 1), *made;
    if (counts == NULL) return nx_fail_memory(sizeof *counts * (size_t)n_slots);
    nx_status status;
    NX_TRY_FAIL(sort_slots(b, slots, n_slots));
    size_t bytes = sizeof(slot) * (size_t)n_slots + sizeof(patch) * (size_t)find_slots(b, counts);
    if ((made = nx_alloc(bytes + 1)) == NULL) NX_TRY_FAIL(nx_fail_memory(bytes));
    memcpy(made, counts, sizeof *made * (size_t)n_slots);
    make_patches(b, slots, made, (patch *)(made + n_slots), n_slots);
    b->list->slots = made;
    b->list->n_slots = n_slots;
    b->list->bound = true;
fail:
    nx_free(counts);
    return status;
}

nx_status nx_launch_list_bind(nx_launch_list *list, const nx_span *slots, int n_slots) {
    size_t n_arrays = 0, n_holds = 0;
    if (list->bound) return nx_fail(NX_RUNTIME, "launch list: it is bound already");
    for (int i = 0; i < list->launches.n; i++) {
        const nx_launch *launch = list->launches.at[i];
        n_arrays += (size_t)launch->n_arrays;
        if ((size_t)launch->n_holds > n_holds) n_holds = (size_t)launch->n_holds;
    }
    NX_TRY(bind_calls(list));
    size_t bytes = sizeof(range) * (size_t)n_slots + sizeof(int) * n_arrays + sizeof(follows) * n_holds;
    char *room = nx_alloc(bytes + 1);
    if (room == NULL) return nx_fail_memory(bytes);
    binder b = {.list = list, .ranges = (range *)room};
    b.slot_of = (int *)(b.ranges + n_slots);
    b.holds = (follows *)(b.slot_of + n_arrays);
    nx_status status = bind_slots(&b, slots, n_slots);
    nx_free(room);
    return status;
}

uint64_t nx__launch_list_steps(const nx_launch_list *list) { return list->n_steps; }

static void move_slot(slot *slot, void *base) {
    for (int i = 0; i < slot->n; i++) *slot->patches[i].at = (char *)base + slot->patches[i].offset;
    slot->base = base;
}

static nx_status note_part(nx_profile *profile, nx_launch_list *list, int begin, int end) {
    for (int i = begin; i < end; i++) {
        nx_bound *bound = list->bound_calls[i];
        nx_launch *launch = list->launches.at[i];
        nx_status status = NX_OK;
        int event = nx_profile_begin(profile, NX_EVENT_STEP, launch->run.op ? nx_op_name(launch->run.op) : "fused");
        if (bound) bound->run(bound);
        else status = launch->kernel(&launch->run, launch->in, launch->out);
        nx_profile_end(profile, event);
        if (status != NX_OK) return nx__launch_failed(launch, status);
    }
    return NX_OK;
}

static inline nx_status run_part(nx_launch_list *list, int begin, int end) {
    nx_profile *profile = nx_thread_get()->profile;
    if (NX_UNLIKELY(profile != NULL)) return note_part(profile, list, begin, end);
    for (int i = begin; i < end; i++) {
        nx_bound *bound = list->bound_calls[i];
        if (bound) {
            bound->run(bound);
            continue;
        }
        nx_launch *launch = list->launches.at[i];
        nx_status status = launch->kernel(&launch->run, launch->in, launch->out);
        if (NX_UNLIKELY(status != NX_OK)) return nx__launch_failed(launch, status);
    }
    return NX_OK;
}

nx_status nx_launch_list_run(nx_launch_list *list, void *const *bases) {
    for (int s = 0; s < list->n_slots; s++) {
        if (list->slots[s].base != bases[s]) move_slot(&list->slots[s], bases[s]);
    }
    int begin = 0;
    for (int i = 0; i < list->parts.n; begin = list->parts.at[i++]) {
        NX_TRY(run_part(list, begin, list->parts.at[i]));
        NX_TRY(nx_poll());
    }
    return run_part(list, begin, list->launches.n);
}
