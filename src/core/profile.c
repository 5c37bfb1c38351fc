/* The log of a profile: events in the order in which they began, each with its parent, one growing array. The profile belongs to
 * one thread, which alone writes it; what has no room is left out and noted. While memory is counted, the thread's list of
 * small tensors with their storages stands aside, so that the commonest way of making a tensor needs not look for a profile.
 * In: begin and end from all layers. Next: src/dispatch/profile.c for operators, py/autograd/profile.c for reading it. */
#include "core/private.h"

#include <limits.h>

int (*nx_profile_stack)(nx_profile *profile);

nx_profile *nx_profile_new(void) {
    static _Atomic uint32_t serials;
    nx_profile *profile = nx_alloc_zeroed(sizeof *profile);
    if (profile == NULL) return NULL;
    profile->open = -1;
    profile->serial = atomic_fetch_add(&serials, 1) + 1;
    return profile;
}

void nx_profile_free(nx_profile *profile) {
    if (profile == NULL) return;
    nx_vec_free(&profile->events);
    nx_vec_free(&profile->words);
    nx_arena_free(&profile->names);
    nx_free(profile);
}

void nx_profile_start(nx_profile *profile) {
    nx_thread *thread = nx_thread_get();
    profile->outer = thread->profile;
    if (profile->with_memory) profile->n_free_whole = nx__whole_stop(thread);
    thread->profile = profile;
    thread->keys_included |= NX_KEY(PROFILE);
}

nx_status nx_profile_stop(nx_profile *profile) {
    nx_thread *thread = nx_thread_get();
    if (thread->profile != profile) return nx_fail(NX_RUNTIME, "profile: it is not the one that is on in this thread");
    thread->profile = profile->outer;
    profile->outer = NULL;
    if (profile->with_memory) nx__whole_go_on(thread, profile->n_free_whole);
    if (thread->profile == NULL) thread->keys_included &= ~NX_KEY(PROFILE);
    for (; profile->open >= 0; profile->open = profile->events.at[profile->open].parent) {
        nx_event *event = &profile->events.at[profile->open];
        if (event->end == 0) event->end = nx_now();
    }
    return NX_OK;
}

const char *nx_profile_name(nx_profile *profile, const char *name) {
    const char *copy = nx_arena_text(&profile->names, name);
    if (copy == NULL) profile->ran_out = true;
    return copy;
}

int nx_profile_begin(nx_profile *profile, nx_event_kind kind, const char *name) {
    nx_event event = {.kind = kind, .name = name, .parent = profile->open, .sequence = -1, .stack = -1};
    event.bytes[0] = -profile->bytes[0];
    event.bytes[1] = -profile->bytes[1];
    if (profile->with_stacks && nx_profile_stack) event.stack = nx_profile_stack(profile);
    if (profile->events.n == INT_MAX / 2 || nx_vec_push(&profile->events, event) != NX_OK) {
        profile->ran_out = true;
        return -1;
    }
    profile->open = profile->events.n - 1;
    profile->events.at[profile->open].begin = nx_now();
    return profile->open;
}

void nx_profile_end(const nx_profile *of, int number) {
    nx_profile *profile = nx_thread_get()->profile;
    if (profile != of || number < 0 || number >= profile->events.n) return;
    nx_event *event = &profile->events.at[number];
    event->end = nx_now();
    for (int k = 0; k < 2; k++) event->bytes[k] += profile->bytes[k];
    while (profile->open >= 0 && profile->events.at[profile->open].end) /* ranges may end in any order */
        profile->open = profile->events.at[profile->open].parent;
}

/* ---- arguments ---------------------------------------------------------------------------------------- */
static nx_status add_words(nx_profile *profile, const int64_t *words, int n) {
    for (int i = 0; i < n; i++) NX_TRY(nx_vec_push(&profile->words, words[i]));
    return NX_OK;
}

static nx_status add_argument(nx_profile *profile, const nx_value *value) {
    int64_t head[3] = {value->tag};
    NX_TRY(add_words(profile, head, 1));
    switch (value->tag) {
    case NX_TAG_TENSOR:
        head[0] = value->array->dtype;
        head[1] = value->array->ndim;
        NX_TRY(add_words(profile, head, 2));
        NX_TRY(add_words(profile, value->array->sizes, value->array->ndim));
        return add_words(profile, value->array->strides, value->array->ndim);
    case NX_TAG_INTS:
        head[0] = value->n;
        NX_TRY(add_words(profile, head, 1));
        return add_words(profile, value->ints, value->n);
    case NX_TAG_INT:
    case NX_TAG_BOOL:
    case NX_TAG_FLOAT: return add_words(profile, &value->i, 1);
    default: return NX_OK;
    }
}

void nx_profile_arguments(nx_profile *profile, int event, const nx_value *in, int n_in) {
    if (!profile->with_arguments || event < 0) return;
    int first = profile->words.n;
    for (int i = 0; i < n_in; i++) {
        if (first < INT_MAX / 2 && add_argument(profile, &in[i]) == NX_OK) continue;
        profile->words.n = first;
        profile->ran_out = true;
        return;
    }
    nx_event *own = &profile->events.at[event];
    own->words = first;
    own->n_words = profile->words.n - first;
}
