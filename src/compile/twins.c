/* Programs of one plan that run at the same time: one for each call at work. The first is the plan's own; another is made from
 * the plan's graph when all others are busy, and stays. A program knows where its operands lie while it runs, so two calls
 * cannot share one; they share nothing here but the graph, which nobody changes. */
#include "compile/private.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void nx__compile_lock(void) {
    if (pthread_mutex_trylock(&lock) == 0) return;
    void *token = nx_block_begin();
    pthread_mutex_lock(&lock);
    nx_block_end(token);
}
void nx__compile_unlock(void) { pthread_mutex_unlock(&lock); }

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
    nx__compile_lock();
    nx_status status = nx_program_new(plan->graph, device, &twin->program);
    if (status == NX_OK) {
        twin->next = plan->twins->next;
        plan->twins->next = twin;
    }
    nx__compile_unlock();
    if (status == NX_OK) *out = twin;
    else nx_free(twin);
    return status;
}

nx_status nx__twins_take(const nx__plan *plan, nx__twin **out) {
    for (nx__twin *twin = plan->twins; twin; twin = twin->next) {
        if (NX_UNLIKELY(!take(twin))) continue;
        *out = twin;
        return NX_OK;
    }
    return add(plan, nx_program_device(plan->program), out);
}
