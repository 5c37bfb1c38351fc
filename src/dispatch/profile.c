/* Operators for a profile: the key PROFILE stands above all others and is on in a thread as long as a profile is. What is
 * captured or traced is not run, so that it is no event. Next: src/core/profile.c. */
#include "dispatch/private.h"

static nx_status record(nx_run *run, const nx_value *in, nx_value *out) {
    nx_thread *thread = nx_thread_get();
    nx_profile *profile = nx_profile_of(thread);
    if (profile == NULL) return nx_redispatch(run->op, run->keys, NX_KEY_AT_PROFILE, in, out);
    int event = nx_profile_begin(profile, NX_EVENT_OPERATOR, run->op->def->name);
    nx_profile_arguments(profile, event, in, run->op->def->n_in);
    if (event >= 0 && !thread->grad_disabled) profile->events.at[event].sequence = (int64_t)thread->grad_sequence + 1;
    nx_status status = nx_redispatch(run->op, run->keys, NX_KEY_AT_PROFILE, in, out);
    nx_profile_end(profile, event);
    return status;
}

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_fallback(NX_KEY_AT_PROFILE, record);
    (void)status; /* a fixed key and function: cannot fail */
}
