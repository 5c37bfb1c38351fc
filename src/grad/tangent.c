/* Tangents of forward mode: where they are kept, and how long. A tensor's record (nx_autograd) owns its tangent while a level is
 * open; all records that have one stand in a list, so that the end of the level takes every tangent away, wherever its tensor is:
 * a tangent's own history may hold the tensor whose it is. One level is possible, for all threads, as in PyTorch.
 * A tensor with a tangent has the key FORWARD, and so have the views of it, which show their part of its tangent. That is possible
 * because a tangent lies in memory as its tensor does. A view that is_apart (what make_dual gives, what unpack_dual gives) has a
 * tangent of its own or none. Next: forward.c, which gives the results of operators theirs. */
#include "grad/private.h"

#include <pthread.h>

struct nx__tangent {
    nx_tensor *of;                  /* whose it is; lent: its record unlinks this before the tensor goes */
    nx_tensor *tangent;             /* owned */
    struct nx__tangent *next, **at; /* all tangents of the level */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nx__tangent *all;     /* under the lock */
static bool open_level;             /* likewise */

/* ---- the level ---------------------------------------------------------------------------------------------- */
nx_status nx_forward_enter(void) {
    pthread_mutex_lock(&lock);
    bool was_open = open_level;
    open_level = true;
    atomic_store(&nx__tangents_are_open, true);
    pthread_mutex_unlock(&lock);
    return was_open ? nx_fail(NX_RUNTIME, "Nested forward mode AD is not supported at the moment") : NX_OK;
}

static void unlink_tangent(struct nx__tangent *record) {
    *record->at = record->next;
    if (record->next) record->next->at = record->at;
}

static struct nx__tangent *take_any(void) {
    pthread_mutex_lock(&lock);
    struct nx__tangent *record = all;
    if (record) {
        unlink_tangent(record);
        record->of->autograd->tangent = NULL;
        record->of->keys &= ~NX_KEY(FORWARD);
    }
    pthread_mutex_unlock(&lock);
    return record;
}

static void free_tangent(struct nx__tangent *record) {
    nx_tensor_unref(record->tangent);
    nx_free(record);
}

nx_status nx_forward_exit(void) {
    struct nx__tangent *record;
    pthread_mutex_lock(&lock);
    bool was_open = open_level;
    open_level = false;
    atomic_store(&nx__tangents_are_open, false);
    pthread_mutex_unlock(&lock);
    if (!was_open) {
        return nx_fail(NX_RUNTIME, "Exiting a forward AD level that is not the last that was created is not support. Ensure they "
                       "are released in the reverse order they were created.");
    }
    while ((record = take_any()) != NULL) free_tangent(record);
    return NX_OK;
}

bool nx_forward_enabled(void) { return !(nx_thread_get()->keys_excluded & NX_KEY(FORWARD)); }
void nx_forward_set_enabled(bool enabled) {
    nx_thread *thread = nx_thread_get();
    thread->keys_excluded = enabled ? thread->keys_excluded & ~NX_KEY(FORWARD) : thread->keys_excluded | NX_KEY(FORWARD);
}

/* ---- a tensor's own tangent --------------------------------------------------------------------------------- */
void nx__tangent_drop(nx_autograd *autograd) {
    pthread_mutex_lock(&lock);
    struct nx__tangent *record = autograd->tangent;
    if (record) unlink_tangent(record);
    autograd->tangent = NULL;
    pthread_mutex_unlock(&lock);
    if (record) free_tangent(record);
}

void nx_tangent_drop(nx_tensor *tensor) {
    tensor->keys &= ~NX_KEY(FORWARD);
    if (tensor->autograd) nx__tangent_drop(tensor->autograd);
}

static nx_tensor *own_tangent(const nx_tensor *tensor) {
    nx_tensor *tangent = NULL;
    if (tensor->autograd == NULL) return NULL;
    pthread_mutex_lock(&lock);
    if (tensor->autograd->tangent) tangent = nx_tensor_ref(tensor->autograd->tangent->tangent);
    pthread_mutex_unlock(&lock);
    return tangent;
}

/* `tangent` lies in memory as `tensor` does. */
static nx_status keep_tangent(nx_tensor *tensor, nx_tensor *tangent) {
    nx_autograd *autograd;
    NX_TRY(nx__autograd_of(tensor, &autograd));
    struct nx__tangent *record = nx_alloc(sizeof *record);
    if (record == NULL) return nx_fail_memory(sizeof *record);
    *record = (struct nx__tangent){tensor, nx_tensor_ref(tangent), NULL, &all};
    pthread_mutex_lock(&lock);
    bool fits = open_level && autograd->tangent == NULL;
    if (fits) {
        record->next = all;
        if (all) all->at = &record->next;
        all = record;
        autograd->tangent = record;
        tensor->keys |= NX_KEY(FORWARD);
    }
    pthread_mutex_unlock(&lock);
    if (!fits) free_tangent(record); /* the level has ended meanwhile */
    else if (tensor->next_view && tensor->base == NULL) nx_tensor_key_views(tensor, NX_KEY(FORWARD));
    return NX_OK;
}

/* ---- views ---------------------------------------------------------------------------------------------------- */
/* The part of `whole`, the tangent of view->base, that belongs to the view. */
static nx_status part_of(nx_tensor *whole, const nx_tensor *view, nx_tensor **out) {
    const nx_tensor *base = view->base;
    nx_tensor *shown = whole, *made = NULL;
    bool to_real = nx_is_complex(base->a.dtype) && !nx_is_complex(view->a.dtype);
    if (nx_dtype_sizes[view->a.dtype] != nx_dtype_sizes[base->a.dtype] && !to_real)
        return nx_fail(NX_NOT_IMPLEMENTED, "forward AD: a view of another dtype that was taken before its base was given a "
                       "tangent is not there yet: take the view again");
    if (to_real) {
        NX_TRY(nx__call_named("aten::view_as_real", (nx_value[]){nx_value_tensor(whole)}, &made));
        shown = made;
    }
    int64_t offset = view->offset - base->offset * (to_real ? 2 : 1) + shown->offset;
    nx_value in[] = {nx_value_tensor(shown), nx_value_ints(view->a.sizes, view->a.ndim),
                     nx_value_ints(view->a.strides, view->a.ndim), nx_value_int(offset)};
    nx_status status = nx__call_named("aten::as_strided", in, out);
    nx_tensor_unref(made);
    return status;
}

nx_status nx_tangent_of(nx_tensor *tensor, nx_tensor **out) {
    nx_tensor *whole;
    *out = NULL;
    if (NX_LIKELY(!(tensor->keys & NX_KEY(FORWARD)))) return NX_OK;
    if ((*out = own_tangent(tensor)) != NULL || tensor->base == NULL || tensor->is_apart) return NX_OK;
    if ((whole = own_tangent(tensor->base)) == NULL) return NX_OK;
    uint64_t excluded = nx_keys_exclude(NX_KEY(FORWARD));
    nx_status status = part_of(whole, tensor, out);
    nx_keys_restore(excluded);
    nx_tensor_unref(whole);
    if (status == NX_OK) status = keep_tangent(tensor, *out);
    if (status == NX_OK) return NX_OK;
    nx_tensor_unref(*out);
    *out = NULL;
    return status;
}

nx_status nx_forward_refuse(nx_tensor *const *tensors, int n) {
    if (NX_LIKELY(!nx_tangents_open()) || !nx_forward_enabled()) return NX_OK;
    for (int i = 0; i < n; i++) {
        nx_tensor *tangent = NULL;
        if (tensors[i]) NX_TRY(nx_tangent_of(tensors[i], &tangent));
        if (tangent == NULL) continue;
        nx_tensor_unref(tangent);
        return nx_fail(NX_NOT_IMPLEMENTED, "forward AD: a compiled graph computes no tangents: call the function uncompiled while a "
                       "level is open");
    }
    return NX_OK;
}

/* ---- setting ---------------------------------------------------------------------------------------------------- */
static nx_status fail_size(const nx_array *a, const nx_array *given) {
    nx_text text = {0};
    nx_text_add(&text, "Tensor is of size ");
    nx_text_add_ints(&text, a->sizes, a->ndim);
    nx_text_add(&text, " while the given forward gradient is of size ");
    nx_text_add_ints(&text, given->sizes, given->ndim);
    nx_status status = nx_fail(NX_RUNTIME, "Trying to set a forward gradient that has a different size than that of the original "
                               "Tensor, this is not supported. %s.", text.failed ? "" : text.at);
    nx_text_free(&text);
    return status;
}

/* A tensor of tangent's dtype that lies as `like` does. */
static nx_status new_lying_as(const nx_tensor *like, const nx_tensor *tangent, nx_tensor **out) {
    const nx_array *a = &like->a;
    nx_value in[] = {nx_value_ints(a->sizes, a->ndim), nx_value_ints(a->strides, a->ndim), nx_value_dtype(tangent->a.dtype),
                     NX_VALUE_NONE, nx_value_device(tangent->a.device), NX_VALUE_NONE};
    return nx__call_named("aten::empty_strided", in, out);
}

static nx_status copy_laid(nx_tensor *tensor, nx_tensor *tangent, nx_tensor **out) {
    NX_TRY(new_lying_as(tensor, tangent, out));
    nx_status status = nx__copy_into(*out, tangent);
    if (status != NX_OK) nx_tensor_unref(*out);
    return status;
}

/* The base of a view that is written: it has a tangent from now on. */
static nx_status start_base(nx_tensor *base, const nx_tensor *tangent) {
    nx_tensor *whole = own_tangent(base);
    if (whole) return nx_tensor_unref(whole), NX_OK;
    NX_TRY(new_lying_as(base, tangent, &whole));
    nx_status status = nx__zero(whole);
    if (status == NX_OK) status = keep_tangent(base, whole);
    nx_tensor_unref(whole);
    return status;
}

static nx_status set(nx_tensor *tensor, nx_tensor *tangent) {
    nx_tensor *laid;
    if (!nx_same_size(&tensor->a, &tangent->a)) return fail_size(&tensor->a, &tangent->a);
    if (nx_same_strides(&tensor->a, &tangent->a)) return keep_tangent(tensor, tangent);
    NX_TRY(copy_laid(tensor, tangent, &laid));
    nx_status status = keep_tangent(tensor, laid);
    nx_tensor_unref(laid);
    return status;
}

nx_status nx_tangent_set(nx_tensor *tensor, nx_tensor *tangent) {
    uint64_t excluded = nx_keys_exclude(NX_KEY(FORWARD));
    nx_status status = set(tensor, tangent);
    nx_keys_restore(excluded);
    return status;
}

static nx_status write(nx_tensor *tensor, nx_tensor *tangent) {
    nx_tensor *own;
    NX_TRY(nx_tangent_of(tensor, &own));
    if (own == NULL && tangent == NULL) return NX_OK;
    if (own == NULL && (tensor->base == NULL || tensor->is_apart)) return set(tensor, tangent);
    if (own == NULL) {
        NX_TRY(start_base(tensor->base, tangent));
        tensor->keys |= NX_KEY(FORWARD);
        NX_TRY(nx_tangent_of(tensor, &own));
        if (own == NULL) return NX_OK; /* the level has ended meanwhile */
    }
    nx_status status = tangent ? nx__copy_into(own, tangent) : nx__zero(own);
    nx_tensor_unref(own);
    return status;
}

nx_status nx_tangent_write(nx_tensor *tensor, nx_tensor *tangent) {
    uint64_t excluded = nx_keys_exclude(NX_KEY(FORWARD));
    nx_status status = write(tensor, tangent);
    nx_keys_restore(excluded);
    return status;
}

nx_status nx__tangent_hand_on(nx_tensor *from, bool copied, nx_tensor *to) {
    nx_tensor *tangent, *own = NULL;
    NX_TRY(nx_tangent_of(from, &tangent));
    if (tangent == NULL) return NX_OK;
    uint64_t excluded = nx_keys_exclude(NX_KEY(FORWARD));
    nx_status status = copied ? nx__clone(tangent, true, &own) : NX_OK;
    if (status == NX_OK) status = set(to, copied ? own : tangent);
    nx_keys_restore(excluded);
    nx_tensor_unref(own);
    nx_tensor_unref(tangent);
    return status;
}

/* ---- for users --------------------------------------------------------------------------------------------------- */
static nx_status new_apart(nx_tensor *tensor, nx_tensor **out) {
    uint64_t excluded = nx_keys_exclude(NX_KEY(FORWARD));
    nx_value in[] = {nx_value_tensor(tensor), nx_value_ints(tensor->a.sizes, tensor->a.ndim)};
    nx_status status = nx__call_named("aten::view", in, out);
    nx_keys_restore(excluded);
    if (status != NX_OK) return status;
    (*out)->is_apart = true;
    (*out)->keys &= ~NX_KEY(FORWARD);
    return NX_OK;
}

nx_status nx_forward_make_dual(nx_tensor *primal, nx_tensor *tangent, nx_tensor **out) {
    nx_tensor *before = NULL;
    NX_TRY(nx_tangent_of(primal, &before));
    nx_tensor_unref(before);
    if (before) {
        return nx_fail(NX_RUNTIME, "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 "
                       "is not supported.");
    }
    NX_TRY(nx_tangent_of(tangent, &before));
    nx_tensor_unref(before);
    if (before) {
        return nx_fail(NX_RUNTIME, "Setting a forward grad that itself has a forward gradient at the same level0 is not "
                       "supported.");
    }
    nx_tensor *dual;
    NX_TRY(new_apart(primal, &dual));
    nx_status status = nx_tangent_set(dual, tangent);
    if (status == NX_OK) *out = dual;
    else nx_tensor_unref(dual);
    return status;
}

nx_status nx_forward_unpack(nx_tensor *dual, nx_tensor **primal, nx_tensor **tangent) {
    *tangent = NULL;
    if (nx_forward_enabled()) NX_TRY(nx_tangent_of(dual, tangent));
    nx_status status = new_apart(dual, primal);
    if (status != NX_OK) nx_tensor_unref(*tangent);
    return status;
}
