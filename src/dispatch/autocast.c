/* What stands at the AUTOCAST key: casts the arguments of operators whose entry has an `autocast` row, then
 * calls them again with the key masked. `lower`: to the dtype that autocast has for the device; `float32`:
 * to float32; `promote`: to the widest of the arguments. Only float16, bfloat16 and float32 tensors of the
 * call's device are cast. The casts of parameters are kept until the outermost autocast ends, so that a
 * weight that is used several times is cast once. A kept cast is used while its parameter's version is the
 * one that was cast. */
#include "dispatch/private.h"

typedef struct kept { nx_tensor *parameter, *cast; uint32_t version; } kept;
struct nx_autocast_cache { NX_VEC(kept) casts; nx_map index; /* parameter -> its place in casts + 1 */ };

/* ---- the thread's state ------------------------------------------------------------------------------------ */
static nx_dtype initial_dtype(int type) { return type == 0 ? NX_BF16 : NX_F16; }

nx_dtype nx_autocast_dtype(int type) {
    uint8_t dtype = nx_thread_get()->autocast_dtype[type];
    return dtype ? (nx_dtype)dtype : initial_dtype(type);
}

bool nx_autocast_enabled(int type) { return nx_thread_get()->autocast_enabled >> type & 1; }

void nx_autocast_set(int type, bool enabled, nx_dtype dtype) {
    nx_thread *thread = nx_thread_get();
    thread->autocast_dtype[type] = dtype == initial_dtype(type) ? 0 : (uint8_t)dtype;
    thread->autocast_enabled = (uint8_t)((thread->autocast_enabled & ~(1 << type)) | enabled << type);
    if (thread->autocast_enabled) thread->keys_included |= NX_KEY(AUTOCAST);
    else thread->keys_included &= ~NX_KEY(AUTOCAST);
}

void nx_autocast_clear(void) {
    struct nx_autocast_cache *cache = nx_thread_get()->autocast_cache;
    if (cache == NULL) return;
    nx_thread_get()->autocast_cache = NULL;
    for (int i = 0; i < cache->casts.n; i++) {
        nx_tensor_unref(cache->casts.at[i].parameter);
        nx_tensor_unref(cache->casts.at[i].cast);
    }
    nx_vec_free(&cache->casts);
    nx_map_free(&cache->index);
    nx_free(cache);
}

/* ---- casting one tensor --------------------------------------------------------------------------------------- */
static nx_status cast(nx_tensor *tensor, nx_dtype dtype, nx_tensor **out) {
    static const nx_op *_Atomic op;
    nx_thread *thread = nx_thread_get();
    const nx_op *to_copy = atomic_load_explicit(&op, memory_order_relaxed);
    if (to_copy == NULL) {
        NX_TRY(nx_op_find("aten::_to_copy", &to_copy));
        atomic_store_explicit(&op, to_copy, memory_order_relaxed);
    }
    const nx_value none = NX_VALUE_NONE;
    nx_value in[] = {nx_value_tensor(tensor), nx_value_dtype(dtype), none, none, none, nx_value_bool(false), none};
    nx_value result = NX_VALUE_NONE;
    const char *target = thread->target;
    thread->target = NULL; /* a capture records the cast as what it is, not as the user's call */
    nx_status status = nx_op_call(to_copy, in, &result);
    thread->target = target;
    *out = result.tensor;
    return status;
}

static bool is_kept(const nx_tensor *tensor, nx_dtype dtype, int type) {
    const nx_thread *thread = nx_thread_get();
    bool is_weight = tensor->a.dtype == NX_F32 && (tensor->keys & NX_KEY(AUTOGRAD)) && tensor->is_parameter;
    if (!is_weight || dtype != nx_autocast_dtype(type) || thread->autocast_uncached || thread->grad_disabled) return false;
    return thread->autocast_nesting > 0 && thread->tracer == NULL;
}

static nx_status keep(nx_tensor *parameter, nx_tensor *made) {
    nx_thread *thread = nx_thread_get();
    struct nx_autocast_cache *cache = thread->autocast_cache;
    if (cache == NULL) {
        if ((cache = nx_alloc_zeroed(sizeof *cache)) == NULL) return nx_fail_memory(sizeof *cache);
        thread->autocast_cache = cache;
    }
    kept entry = {parameter, made, nx_tensor_version(parameter)};
    NX_TRY(nx_vec_push(&cache->casts, entry));
    nx_status status = nx_map_set(&cache->index, parameter, (void *)(intptr_t)cache->casts.n);
    if (status != NX_OK) {
        cache->casts.n--;
        return status;
    }
    nx_tensor_ref(parameter);
    nx_tensor_ref(made);
    return NX_OK;
}

static nx_status cast_kept(nx_tensor *tensor, nx_dtype dtype, int type, nx_tensor **out) {
    const struct nx_autocast_cache *cache = nx_thread_get()->autocast_cache;
    if (!is_kept(tensor, dtype, type)) return cast(tensor, dtype, out);
    int at = cache ? (int)(intptr_t)nx_map_get(&cache->index, tensor) : 0;
    if (at > 0 && cache->casts.at[at - 1].version == nx_tensor_version(tensor)) {
        *out = nx_tensor_ref(cache->casts.at[at - 1].cast);
        return NX_OK;
    }
    NX_TRY(cast(tensor, dtype, out));
    nx_status status = keep(tensor, *out);
    if (status != NX_OK) nx_tensor_unref(*out);
    return status;
}

/* ---- a call -------------------------------------------------------------------------------------------------------- */
enum { FEW = 64 };
typedef struct worker {
    nx_value *in;           /* arguments, then the elements of lists */
    int n;
    nx_tensor **made;       /* to be released */
    int n_made;
    nx_dtype dtype;
    int type;               /* of the device */
} worker;

static bool is_castable(const nx_value *value, int type) {
    if (value->tag != NX_TAG_TENSOR || value->array->device.type != type) return false;
    nx_dtype dtype = (nx_dtype)value->array->dtype;
    return dtype == NX_F16 || dtype == NX_BF16 || dtype == NX_F32;
}

static bool has_float32(const nx_value *in, int n, int type) {
    for (int i = 0; i < n; i++) {
        if (in[i].tag == NX_TAG_LIST && has_float32(in[i].list, in[i].n, type)) return true;
        if (is_castable(&in[i], type) && in[i].array->dtype == NX_F32) return true;
    }
    return false;
}

static nx_status cast_values(worker *w, const nx_value *in, int n, nx_value *to) {
    for (int i = 0; i < n; i++) {
        to[i] = in[i];
        if (in[i].tag == NX_TAG_LIST) {
            to[i].list = &w->in[w->n];
            w->n += in[i].n;
            NX_TRY(cast_values(w, in[i].list, in[i].n, (nx_value *)to[i].list));
        } else if (is_castable(&in[i], w->type) && in[i].array->dtype != w->dtype) {
            NX_TRY(cast_kept(in[i].tensor, w->dtype, w->type, &w->made[w->n_made]));
            to[i] = nx_value_tensor(w->made[w->n_made++]);
        }
    }
    return NX_OK;
}

static int count_values(const nx_value *in, int n) {
    int all = n;
    for (int i = 0; i < n; i++) all += in[i].tag == NX_TAG_LIST ? count_values(in[i].list, in[i].n) : 0;
    return all;
}

static nx_status call_cast(nx_run *run, int type, const nx_value *in, nx_value *out) {
    const nx_op_def *def = run->op->def;
    nx_value few[FEW];
    nx_tensor *few_made[FEW];
    worker w = {.in = few, .n = def->n_in, .made = few_made, .type = type, .dtype = nx_autocast_dtype(type)};
    size_t n = (size_t)count_values(in, def->n_in), bytes = n * (sizeof *w.in + sizeof *w.made);
    if (NX_UNLIKELY(n > FEW)) {
        if ((w.in = nx_alloc(bytes)) == NULL) return nx_fail_memory(bytes);
        w.made = (nx_tensor **)(w.in + n);
    }
    bool is_wide = def->autocast == NX_AUTOCAST_FLOAT32 ||
        (def->autocast == NX_AUTOCAST_PROMOTE && has_float32(in, def->n_in, type));
    if (is_wide) w.dtype = NX_F32;
    uint64_t excluded = nx_keys_exclude(NX_KEY(AUTOCAST));
    nx_status status = cast_values(&w, in, def->n_in, w.in);
    if (status == NX_OK) status = nx_op_call(run->op, w.in, out);
    nx_keys_restore(excluded);
    for (int i = 0; i < w.n_made; i++) nx_tensor_unref(w.made[i]);
    if (w.in != few) nx_free(w.in);
    return status;
}

static nx_status autocast(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_op_def *def = run->op->def;
    if (def->autocast != NX_AUTOCAST_NONE && def->variant == NX_FUNCTIONAL) {
        int type = nx_call_device(run->op, in).type;
        if (nx_autocast_enabled(type)) return call_cast(run, type, in, out);
    }
    return nx_redispatch(run->op, run->keys, NX_KEY_AT_AUTOCAST, in, out);
}

static void (*end_before)(nx_thread *thread);
static void end_thread(nx_thread *thread) {
    nx_autocast_clear();
    if (end_before) end_before(thread);
}

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_fallback(NX_KEY_AT_AUTOCAST, autocast);
    (void)status; /* a fixed key and function: cannot fail */
    end_before = nx__thread_end;
    nx__thread_end = end_thread;
}
