/* A recorded sequence of launches whose operands can be rebound.
 * nx_launch_list_bind() works out, for each slot, which array addresses lie inside it; a run rewrites only those whose
 * slot has moved, then calls the kernels in a row: no lock, no allocation, no dispatch. A launch that has all arrays of
 * a storage in slots stops holding that storage: the caller brings the memory at each run. */
#include "device/private.h"

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

/* The slot that holds `data`, -1: none. */
static int slot_of(const void *data, const nx_span *slots, int n_slots) {
    for (int s = 0; s < n_slots; s++) {
        if ((const char *)data >= (const char *)slots[s].base &&
            (const char *)data < (const char *)slots[s].base + slots[s].bytes) {
            return s;
        }
    }
    return -1;
}

static int array_slot(const nx_array *a, const nx_span *slots, int n_slots) {
    return a->numel == 0 || a->data == NULL ? -1 : slot_of(a->data, slots, n_slots);
}

/* Drops the holds of `launch` whose arrays all follow slots. */
static void release_bound(nx_launch *launch, const nx_span *slots, int n_slots) {
    for (int h = 0; h < launch->n_holds; h++) {
        bool follows = false;
        for (int k = 0; k < launch->n_arrays; k++) {
            if (nx__launch_hold_of(launch, k) != h) continue;
            follows = array_slot(&launch->arrays[k], slots, n_slots) >= 0;
            if (!follows) break;
        }
        if (!follows) continue;
        nx_storage_unref(launch->holds[h]);
        launch->holds[h] = NULL; /* the others keep their index */
    }
}

static int count_patches(const nx_launch_list *list, const nx_span *slots, int n_slots) {
    int n = 0;
    for (int i = 0; i < list->launches.n; i++) {
        const nx_launch *launch = list->launches.at[i];
        for (int k = 0; k < launch->n_arrays; k++) n += array_slot(&launch->arrays[k], slots, n_slots) >= 0;
    }
    return n;
}

static nx_status bind_calls(nx_launch_list *list) {
    size_t bytes = sizeof *list->bound_calls * (size_t)list->launches.n;
    if ((list->bound_calls = nx_alloc_zeroed(bytes + 1)) == NULL) return nx_fail_memory(bytes);
    for (int i = 0; i < list->launches.n && nx_kernel_bind; i++) {
        const nx_launch *launch = list->launches.at[i];
        NX_TRY(nx_kernel_bind(launch->kernel, &launch->run, launch->in, launch->out, &list->bound_calls[i]));
    }
    return NX_OK;
}

nx_status nx_launch_list_bind(nx_launch_list *list, const nx_span *slots, int n_slots) {
    if (list->bound) return nx_fail(NX_RUNTIME, "launch list: it is bound already");
    size_t bytes =
        sizeof(slot) * (size_t)n_slots + sizeof(patch) * (size_t)count_patches(list, slots, n_slots);
    NX_TRY(bind_calls(list));
    slot *made = nx_alloc_zeroed(bytes);
    if (made == NULL) return nx_fail_memory(bytes);
    patch *next = (patch *)(made + n_slots);
    for (int s = 0; s < n_slots; s++) {
        made[s].patches = next;
        for (int i = 0; i < list->launches.n; i++) {
            nx_launch *launch = list->launches.at[i];
            for (int k = 0; k < launch->n_arrays; k++) {
                nx_array *a = &launch->arrays[k];
                if (array_slot(a, slots, n_slots) != s) continue;
                *next++ = (patch){&a->data, (char *)a->data - (char *)slots[s].base};
                made[s].n++;
            }
        }
    }
    for (int i = 0; i < list->launches.n; i++) release_bound(list->launches.at[i], slots, n_slots);
    list->slots = made;
    list->n_slots = n_slots;
    list->bound = true;
    return NX_OK;
}

static void move_slot(slot *slot, void *base) {
    for (int i = 0; i < slot->n; i++) *slot->patches[i].at = (char *)base + slot->patches[i].offset;
    slot->base = base;
}

static inline nx_status run_part(nx_launch_list *list, int begin, int end) {
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
