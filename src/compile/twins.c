/* Programs of one plan that run at the same time: one for each call at work. The first is the plan's own; another is made from
 * the plan's graph when all others are busy, and stays. A program knows where its operands lie while it runs, so two calls
 * cannot share one; they share nothing here but the graph, which nobody changes: the first program has numbered its nodes.
 * There is no lock: a list that only grows at its second place, and a flag for each program. */
#include "compile/private.h"

nx_status nx__twins_start(nx__plan *plan) {
    plan->twins = nx_alloc_zeroed(sizeof *plan->twins);
    if (plan->twins == NULL) return nx_fail_memory(sizeof *plan->twins);
    plan->twins->program = plan->program;
    return NX_OK;
}

void nx__twins_free(nx__twin *twin) {
    for (nx__twin *next; twin; twin = next) {
        next = twin->next;
        nx_program_free(twin->program);
        nx_free(twin);
    }
}

static bool take(nx__twin *twin) { return !atomic_exchange_explicit(&twin->busy, true, memory_order_acquire); }

static nx_status add(const nx__plan *plan, nx_device device, nx__twin **out) {
    nx__twin *twin = nx_alloc_zeroed(sizeof *twin);
    if (twin == NULL) return nx_fail_memory(sizeof *twin);
    twin->busy = true;
    nx_status status = nx_program_new(plan->graph, device, &twin->program);
    if (status != NX_OK) {
        nx_free(twin);
        return status;
    }
    nx__twin *next = plan->twins->next;
    do {
        twin->next = next;
    } while (!atomic_compare_exchange_weak(&plan->twins->next, &next, twin));
    *out = twin;
    return NX_OK;
}

nx_status nx__twins_take(const nx__plan *plan, nx__twin **out) {
    for (nx__twin *twin = plan->twins; twin; twin = twin->next) {
        if (NX_UNLIKELY(!take(twin))) continue;
        *out = twin;
        return NX_OK;
    }
    return add(plan, nx_program_device(plan->program), out);
}
