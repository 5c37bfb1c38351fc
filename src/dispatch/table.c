/* The operator table: every operator by number and by name, and its row of functions, one for each dispatch
 * key. A row is filled, from strongest to weakest: by nx_library_impl, by the operator's own nature (an entry
 * that dissolves is its composition everywhere below CAPTURE), by the key's fallback, else by a function
 * that goes on to the next key. Operators are never removed, so a `const nx_op *` stays good. Looking up and
 * registering take a lock; calling does not. */
#include "dispatch/private.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static NX_VEC(nx__op *) ops, waiting; /* of the latter a sibling is not defined yet */
static int *slots;     /* open addressing: index of the operator + 1, 0 when free */
static int n_slots;    /* a power of two, at least twice ops.n */

static nx_status go_on(nx_run *run, const nx_value *in, nx_value *out) {
    return nx_redispatch(run->op, run->keys, NX_N_KEYS, in, out);
}

static nx_op_fn *fallbacks[NX_N_KEYS] = {
    [NX_KEY_AT_DEVICE0 ... NX_META_TYPE - 1] = nx_front,
    [NX_META_TYPE] = nx_front_fake,
    [NX_KEY_AT_FAKE] = nx_front_fake,
    [NX_KEY_AT_LAST_DEVICE + 2 ... NX_N_KEYS - 1] = go_on,
};
_Static_assert(NX_N_KEYS <= 64, "keys are bits of a word");
_Static_assert(NX_KEY_AT_FAKE == NX_KEY_AT_LAST_DEVICE + 1, "FAKE is the lowest key above the devices'");

/* FNV-1a; http://www.isthe.com/chongo/tech/comp/fnv */
static uint32_t hash_name(const char *name) {
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static int *find_slot(const char *name) {
    uint32_t at = hash_name(name) & (uint32_t)(n_slots - 1);
    while (slots[at] && strcmp(ops.at[slots[at] - 1]->op.def->name, name) != 0)
        at = (at + 1) & (uint32_t)(n_slots - 1);
    return &slots[at];
}

static nx__op *find_locked(const char *name) {
    if (name == NULL || n_slots == 0) return NULL;
    int *slot = find_slot(name);
    return *slot ? ops.at[*slot - 1] : NULL;
}

static nx_status grow_slots(void) {
    int room = n_slots ? 2 * n_slots : 256;
    int *old = slots, *grown = nx_alloc_zeroed(sizeof *grown * (size_t)room);
    if (grown == NULL) return nx_fail_memory(sizeof *grown * (size_t)room);
    slots = grown;
    n_slots = room;
    for (int i = 0; i < ops.n; i++) *find_slot(ops.at[i]->op.def->name) = i + 1;
    nx_free(old);
    return NX_OK;
}

static void fill_row(nx__op *op, int key) {
    if (op->explicit_rows >> key & 1) return;
    bool is_node = key == NX_KEY_AT_AUTOGRAD && op->op.def->derivative;
    bool composed = op->op.def->dissolves && key < NX_KEY_AT_CAPTURE && !is_node;
    bool masks = (op->op.def->flags & NX_OP_MASKS) && key <= NX_KEY_AT_LAST_DEVICE;
    op->op.table[key] = composed ? op->op.def->compose : masks ? nx__front_masks : fallbacks[key];
}

static bool is_name(const char *a, const char *b) { return a && strcmp(a, b) == 0; }

static bool is_linked(const nx_op *op) {
    return (op->def->functional == NULL || op->functional) && (op->def->inplace == NULL || op->inplace);
}

/* Sibling forms may be defined in any order; those that name one which is not there yet wait for it. */
static nx_status link_siblings(nx__op *op) {
    const nx_op_def *def = op->op.def;
    nx__op *functional = find_locked(def->functional), *inplace = find_locked(def->inplace);
    op->op.functional = functional ? &functional->op : NULL;
    op->op.inplace = inplace ? &inplace->op : NULL;
    if (!is_linked(&op->op)) NX_TRY(nx_vec_push(&waiting, op));
    for (int i = 0; i < waiting.n; i++) {
        nx_op *other = &waiting.at[i]->op;
        if (is_name(other->def->functional, def->name)) other->functional = &op->op;
        if (is_name(other->def->inplace, def->name)) other->inplace = &op->op;
        if (is_linked(other)) waiting.at[i--] = waiting.at[--waiting.n];
    }
    return NX_OK;
}

static void read_schema(nx__op *op) {
    const nx_op_def *def = op->op.def;
    const char *colons = strstr(def->name, "::"), *label = colons ? colons + 2 : def->name;
    int n_written = 0;
    snprintf(op->label, sizeof op->label, "%.*s", (int)strcspn(label, "."), label);
    op->device_param = -1;
    for (int k = 0; k < def->n_out; k++) op->written[k] = -1;
    for (int i = 0; i < def->n_in; i++) {
        nx_type type = def->params[i].type;
        if (type == NX_TYPE_TENSOR || type == NX_TYPE_TENSORS) op->tensors[op->op.n_tensors++] = (int8_t)i;
        if (type == NX_TYPE_DEVICE) op->device_param = (int8_t)i;
        if (def->params[i].written && n_written < def->n_out) op->written[n_written++] = (int8_t)i;
    }
}

static bool is_plain(const nx__op *op) {
    const nx_op_def *def = op->op.def;
    bool computes = def->kind == NX_KIND_POINT || def->kind == NX_KIND_REDUCE || def->kind == NX_KIND_KERNEL;
    bool computed = def->meta && def->kernel && def->kernel != nx__kernel_nothing;
    return computes && computed && def->n_out == 1 && op->written[0] < 0 && op->device_param < 0 &&
           !(def->flags & (NX_OP_COPIES_DEVICES | NX_OP_MUTATES));
}

static bool is_like(const nx__op *op) {
    const nx_op_def *def = op->op.def;
    return (op->is_plain || def->variant == NX_INPLACE) && def->point && def->point->likes_floats && def->kernel;
}

static nx_status define_locked(const nx_op_def *def) {
    nx__op *other = find_locked(def->name);
    if (other)
        return nx_fail(NX_RUNTIME, "%s: defined twice, in %s and %s", def->name, other->op.def->source,
                       def->source);
    if (2 * (ops.n + 1) > n_slots) NX_TRY(grow_slots());
    nx__op *op = nx_alloc_zeroed(sizeof *op);
    if (op == NULL) return nx_fail_memory(sizeof *op);
    op->op.def = def;
    op->op.index = ops.n;
    nx_status status = nx_vec_push(&ops, op);
    if (status == NX_OK && (status = link_siblings(op)) != NX_OK) ops.n--;
    if (status != NX_OK) {
        nx_free(op);
        return status;
    }
    *find_slot(def->name) = ops.n;
    read_schema(op);
    op->is_plain = is_plain(op);
    op->is_like = is_like(op);
    for (int key = 0; key < NX_N_KEYS; key++) fill_row(op, key);
    return NX_OK;
}

nx_status nx_library_def(const nx_op_def *def) {
    if (def->n_in > NX__MAX_IN || def->n_out > NX__MAX_OUT) {
        return nx_fail(NX_VALUE, "%s: %d parameters and %d results, at most %d and %d are possible",
                       def->name, def->n_in, def->n_out, NX__MAX_IN, NX__MAX_OUT);
    }
    if (def->dissolves && def->compose == NULL)
        return nx_fail(NX_VALUE, "%s: dissolves without a composition", def->name);
    pthread_mutex_lock(&lock);
    nx_status status = define_locked(def);
    pthread_mutex_unlock(&lock);
    return status;
}

static nx_status check_row(const char *what, int key, nx_op_fn *fn) {
    if (key < 0 || key >= NX_N_KEYS)
        return nx_fail(NX_VALUE, "%s: dispatch key %d, there are 0 to %d", what, key, NX_N_KEYS - 1);
    if (fn == NULL) return nx_fail(NX_VALUE, "%s: no function for dispatch key %d", what, key);
    return NX_OK;
}

nx_status nx_library_impl(const char *op_name, int key, nx_op_fn *fn) {
    NX_TRY(check_row(op_name, key, fn));
    pthread_mutex_lock(&lock);
    nx__op *op = find_locked(op_name);
    if (op) {
        op->explicit_rows |= UINT64_C(1) << key;
        op->op.table[key] = fn;
    }
    pthread_mutex_unlock(&lock);
    return op ? NX_OK : nx_fail(NX_KEY, "%s: no such operator; define it before implementing it", op_name);
}

nx_status nx_library_fallback(int key, nx_op_fn *fn) {
    NX_TRY(check_row("fallback", key, fn));
    pthread_mutex_lock(&lock);
    fallbacks[key] = fn;
    for (int i = 0; i < ops.n; i++) fill_row(ops.at[i], key);
    pthread_mutex_unlock(&lock);
    return NX_OK;
}

int nx_op_count(void) {
    pthread_mutex_lock(&lock);
    int n = ops.n;
    pthread_mutex_unlock(&lock);
    return n;
}

const nx_op *nx_op_at(int index) {
    pthread_mutex_lock(&lock);
    const nx_op *op = index >= 0 && index < ops.n ? &ops.at[index]->op : NULL;
    pthread_mutex_unlock(&lock);
    return op;
}

const nx_op *nx_op_get(const char *name) {
    pthread_mutex_lock(&lock);
    nx__op *op = find_locked(name);
    pthread_mutex_unlock(&lock);
    return op ? &op->op : NULL;
}

/* The library's start: the generated operators are there before anyone can ask for one. */
static nx_status start_status;
/* ---- rules between operators ---- */
static const nx_op *known[NX_N_KNOWN];

const nx_op *nx_known(nx_known_op which) { return known[which]; }

static nx_status find_known(void) {
    static const char *const names[] = {
#define NX_KNOWN_ROW(code, name, use) name,
#include "dispatch/known.def"
#undef NX_KNOWN_ROW
    };
    for (int k = 0; k < NX_N_KNOWN; k++) NX_TRY(nx_op_find(names[k], &known[k]));
    return NX_OK;
}

static nx_status link_rules(nx_op *op) {
    const char *const *joins = op->def->joins;
    const nx_op *other;
    if (op->def->scatter) {
        NX_TRY(nx_op_find(op->def->scatter, &op->scatter));
        ((nx__op *)op->scatter)->op.part = op;
    }
    if (joins[0] == NULL) return NX_OK;
    NX_TRY(nx_op_find(joins[0], &op->sum));
    NX_TRY(nx_op_find(joins[1], &other));
    ((nx__op *)other)->op.joined = op;
    return NX_OK;
}

__attribute__((constructor)) static void start(void) {
    start_status = nx__register_ops();
    for (int i = 0; i < ops.n && start_status == NX_OK; i++) start_status = link_rules(&ops.at[i]->op);
    if (start_status == NX_OK) start_status = find_known();
}

nx_status nx_op_find(const char *name, const nx_op **out) {
    *out = NULL;
    if (start_status != NX_OK) { /* also when this one is there: formulas and compositions call others by position */
        return nx_fail(start_status, "%s: the operators could not be registered when the library was loaded", name ? name : "(none)");
    }
    *out = nx_op_get(name);
    return *out ? NX_OK
                : nx_fail(NX_KEY, "%s: no such operator; names look like aten::add.Tensor or aten::mm",
                          name ? name : "(none)");
}

int nx_op_n_in(const nx_op *op) { return op->def->n_in; }
int nx_op_n_out(const nx_op *op) { return op->def->n_out; }
const char *nx_op_name(const nx_op *op) { return op->def->name; }

/* ---- kernels ------------------------------------------------------------------------------------------- */
nx_status nx_op_cpu_kernel(const char *name, nx_kernel_fn **out) {
    const nx_op *op;
    NX_TRY(nx_op_find(name, &op));
    *out = nx__cpu_kernel(op);
    return *out ? NX_OK : nx_fail(NX_NOT_IMPLEMENTED, "%s: the CPU has no kernel for it", name);
}

/* In-place and out forms compute what the functional form computes, so a device names its kernels by that. */
nx_kernel_fn *nx__device_kernel(const nx_op *op, int type) {
    nx__op *own = nx__op_of(op);
    if (NX_LIKELY(atomic_load_explicit(&own->asked[type], memory_order_acquire))) return own->kernel[type];
    const nx_device_api *api = nx_device_get_api(type);
    if (api == NULL || api->find_kernel == NULL) return NULL;
    nx_kernel_fn *kernel = api->find_kernel(api->context, op->def->name);
    if (kernel == NULL && op->def->functional) kernel = api->find_kernel(api->context, op->def->functional);
    own->kernel[type] = kernel;
    atomic_store_explicit(&own->asked[type], true, memory_order_release);
    return kernel;
}

/* ---- operators that ran on the CPU for another device -------------------------------------------------- */
int nx_fallback_count(void) {
    int n = 0, n_ops = nx_op_count();
    for (int i = 0; i < n_ops; i++) n += atomic_load(&nx__op_of(nx_op_at(i))->fallbacks) > 0;
    return n;
}

const char *nx_fallback_name(int k, int64_t *calls) {
    int n_ops = nx_op_count();
    for (int i = 0; i < n_ops; i++) {
        nx__op *op = nx__op_of(nx_op_at(i));
        int64_t n = atomic_load(&op->fallbacks);
        if (n == 0 || k-- > 0) continue;
        if (calls) *calls = n;
        return op->op.def->name;
    }
    return NULL;
}

void nx_fallback_clear(void) {
    int n_ops = nx_op_count();
    for (int i = 0; i < n_ops; i++) atomic_store(&nx__op_of(nx_op_at(i))->fallbacks, 0);
}
