/* The list of a tensor's views: those that were taken while it required no gradient. An operator that writes
 * one view of a tensor may give that tensor a history, and with it every other view: they must be found.
 * Views of a tensor that requires grad already are not listed; they know by themselves when they are out of
 * date. While tangents are open all are: a write may give their base one. A list starts at its tensor and is
 * guarded by one of a few locks, chosen by the tensor's address. */
#include "core/private.h"

enum { N_LOCKS = 64 };
static struct { _Alignas(64) atomic_flag held; } locks[N_LOCKS];

_Atomic bool nx__tangents_are_open;

static atomic_flag *lock_of(const nx_tensor *base) {
    atomic_flag *lock = &locks[((uintptr_t)base >> 6) % N_LOCKS].held;
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire)) {}
    return lock;
}
static void unlock(atomic_flag *lock) { atomic_flag_clear_explicit(lock, memory_order_release); }

void nx__view_list(nx_tensor *view) {
    nx_tensor *base = view->base;
    view->is_listed = true;
    atomic_flag *lock = lock_of(base);
    view->next_view = base->next_view;
    view->at_view = &base->next_view;
    if (view->next_view) view->next_view->at_view = &view->next_view;
    base->next_view = view;
    unlock(lock);
}

void nx__view_unlist(nx_tensor *view) {
    atomic_flag *lock = lock_of(view->base);
    *view->at_view = view->next_view;
    if (view->next_view) view->next_view->at_view = view->at_view;
    unlock(lock);
}

void nx_tensor_key_views(nx_tensor *base, uint64_t keys) {
    atomic_flag *lock = lock_of(base);
    for (nx_tensor *view = base->next_view; view; view = view->next_view) view->keys |= keys;
    unlock(lock);
}
