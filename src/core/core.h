/* core: storages, tensors, layouts, values that are kept, generators. */
#ifndef NX_CORE_H
#define NX_CORE_H

#include "base/base.h"

#include <pthread.h>

/* ---- element types: the facts of dtypes.def ------------------------------------------------------------ */
typedef enum nx_category {
    NX_CATEGORY_BOOL, NX_CATEGORY_UNSIGNED, NX_CATEGORY_SIGNED, NX_CATEGORY_FLOAT, NX_CATEGORY_FLOAT8, NX_CATEGORY_COMPLEX
} nx_category;
typedef struct nx_dtype_facts {
    const char *name, *brief, *kind, *c_type, *cpp;
    double highest, eps, smallest;
    nx_category category;
    uint8_t dlpack;
} nx_dtype_facts;
extern const nx_dtype_facts nx__dtype_facts[NX_N_DTYPES];
const char *nx_dtype_cpp(nx_dtype dtype);    /* "long int", "c10::Half": as C++ tells of a type */
const char *nx_dtype_c_type(nx_dtype dtype); /* "int64_t", "c10::Half": as its sources write it */
bool nx_dtype_find(const char *name, nx_dtype *out);
nx_dtype nx_dtype_real(nx_dtype dtype);    /* of a complex type its parts' type, else itself */
nx_dtype nx_dtype_complex(nx_dtype dtype); /* the complex type that holds a floating type's elements */

/* As nx_dtype_bytes, where a call would cost. */
static const uint8_t nx_dtype_sizes[NX_N_DTYPES] = {
#define NX_DTYPE_ROW(code, type, ...) sizeof(type),
#include "narthex/dtypes.def"
#undef NX_DTYPE_ROW
};
/* Sets of dtypes, by bit. */
enum {
#define NX_DTYPE_ROW(code, type, category, ...) \
    | (NX_CATEGORY_##category == NX_CATEGORY_UNSIGNED || NX_CATEGORY_##category == NX_CATEGORY_SIGNED) << NX_##code
    NX_DTYPES_INT = 0
#include "narthex/dtypes.def"
#undef NX_DTYPE_ROW
#define NX_DTYPE_ROW(code, type, category, ...) \
    | (NX_CATEGORY_##category == NX_CATEGORY_FLOAT || NX_CATEGORY_##category == NX_CATEGORY_FLOAT8) << NX_##code
    , NX_DTYPES_FLOAT = 0
#include "narthex/dtypes.def"
#undef NX_DTYPE_ROW
#define NX_DTYPE_ROW(code, type, category, ...) | (NX_CATEGORY_##category == NX_CATEGORY_COMPLEX) << NX_##code
    , NX_DTYPES_COMPLEX = 0
#include "narthex/dtypes.def"
#undef NX_DTYPE_ROW
#define NX_DTYPE_ROW(code, type, category, computing, ...) | _Generic((computing *)0, void *: 1, default: 0) << NX_##code
    , NX_DTYPES_STORED = 0 /* without loops of their own */
#include "narthex/dtypes.def"
#undef NX_DTYPE_ROW
};
static inline bool nx_is_float(nx_dtype d) { return NX_DTYPES_FLOAT >> d & 1; }
static inline bool nx_is_int(nx_dtype d) { return NX_DTYPES_INT >> d & 1; }
static inline bool nx_is_complex(nx_dtype d) { return NX_DTYPES_COMPLEX >> d & 1; }
static inline bool nx_is_stored(nx_dtype d) { return NX_DTYPES_STORED >> d & 1; }
/* Whether its elements can have gradients. */
static inline bool nx_is_differentiable(nx_dtype d) { return (NX_DTYPES_FLOAT | NX_DTYPES_COMPLEX) >> d & 1; }
static inline bool nx_device_same(nx_device a, nx_device b) { return a.type == b.type && a.index == b.index; }

/* ---- storage: a block of device memory that tensors share -------------------------------------------- */
typedef struct nx_storage {
    nx_count refs;
    uint32_t version;  /* counts writes; saved tensors compare it */
    void *data;        /* NULL: fake, or 0 bytes */
    size_t bytes;
    nx_device device;
    bool is_inline;    /* data lies in this block */
    void (*release)(struct nx_storage *storage); /* frees data; NULL: nothing to free */
    void *context;     /* for release */
    struct nx_storage *shown; /* whose memory this one shows, with a version of its own; owned; NULL: it is its own */
    uint32_t capture;  /* during which it was made, 0: none */
    char fill[4];      /* makes 64 bytes, so that an inline payload is aligned */
} nx_storage;

/* ---- memory: one caching allocator for every device (memory.c) ---------------------------------------------
 * A device gives segments; storages get blocks of them, and what one lets go serves the next one of its stream. The CPU is
 * device type 0 and a source like the others; src/device attaches those of plugins. */
typedef struct nx_memory_source {
    /* A segment, 64-byte aligned; reports through nx_fail(). */
    nx_status (*take)(nx_device device, nx_stream *stream, size_t bytes, void **out);
    void (*give)(nx_device device, nx_stream *stream, void *segment, size_t bytes);
    void (*populate)(void *at, size_t bytes);               /* before the first use of a part of a segment; NULL: nothing to do */
    nx_stream *(*stream)(nx_device device);                 /* whose work will use the memory; NULL: there is one order of work */
    nx_status (*check)(nx_device device);                   /* whether the device can still be used; NULL: always */
    nx_status (*mark)(nx_device device, nx_stream *stream, void **out);    /* the work that was given so far */
    bool (*is_reached)(nx_device device, void *mark, bool wait);           /* frees the mark when it is */
} nx_memory_source;
NX_MUST_USE nx_status nx_memory_attach(int type, int n_devices, const nx_memory_source *source);
void nx_memory_detach(int type);                            /* nothing of it is in use */
void nx_memory_forget_stream(nx_device device, nx_stream *stream);  /* it ends, and its work is done */
/* Work of `stream`, which is not the one that the memory was made for, uses it: it serves nobody else before that is done. */
NX_MUST_USE nx_status nx_storage_record_stream(nx_storage *storage, nx_stream *stream);
/* Memory of the CPU for the time of one kernel: from 64 KiB on a block of the caching allocator, whose pages are there. The C
 * library gives the pages of large blocks back, and takes as long to get them again as the kernel takes. */
void *nx_room_new(size_t bytes);  /* as nx_alloc(): NULL without memory; 64-byte aligned from 64 bytes on */
void nx_room_free(void *room);    /* on any thread; NULL is allowed */

/* While a thread captures: a storage of that size that was made during the capture and that only the recorded launches still
 * use, with a new reference; NULL: none, and new storages bear the number that is left in *capture. src/device sets it. */
extern nx_storage *(*nx_storage_of_capture)(nx_device device, size_t bytes, uint32_t *capture);

NX_MUST_USE nx_status nx_storage_new(nx_device device, size_t bytes, nx_storage **out);
NX_MUST_USE nx_status nx_storage_new_fake(nx_device device, size_t bytes, nx_storage **out);
/* The memory of `of` with a version of its own: tensors here do not hear of writes there. */
NX_MUST_USE nx_status nx_storage_share(nx_storage *of, nx_storage **out);
/* Equal for storages that are one memory. */
static inline const nx_storage *nx_storage_memory(const nx_storage *s) { return s && s->shown ? s->shown : s; }
nx_storage *nx_storage_ref(nx_storage *storage);
void nx_storage_unref(nx_storage *storage);

/* ---- tensor -------------------------------------------------------------------------------------------- */
enum { NX_INLINE_DIMS = 6 };
struct nx_tensor {
    nx_array a;                  /* first: a tensor is an array; a.sizes and a.strides point into dims or a block */
    nx_count refs;
    uint64_t keys;               /* dispatch keys: its device, FAKE, AUTOGRAD when it requires grad, FORWARD with a tangent */
    nx_storage *storage;         /* NULL: only the shape is known */
    int64_t offset;              /* elements from the storage's start */
    nx_tensor *base;             /* the tensor that this is a view of, NULL; never itself a view */
    struct nx_autograd *autograd;/* NULL until autograd knows it (src/grad) */
    void *python;                /* its Python object, NULL; see py/bind */
    bool python_owned;           /* this tensor keeps its Python object alive */
    bool is_parameter : 1;
    bool is_apart : 1;           /* a view whose tangent is its own: it shows no part of its base's (src/grad/tangent.c) */
    bool is_listed;              /* a view, among those of its base (views.c) */
    uint8_t creation_meta;       /* of a view: an nx_creation_meta */
    uint32_t attr_version;       /* times a write has replaced the history; of a view: its base's count when its own was made */
    nx_tensor *next_view;        /* of a base: the first of its listed views; of such a view: the next */
    nx_tensor **at_view;         /* of a listed view: what points to it; under the list's lock */
    nx_tensor *whole;            /* of a tensor that is one slice of many: all of them, owned, and its data is NULL (src/batch); NULL */
    uint64_t levels;             /* the levels of vmap whose slices the leading dimensions of `whole` are, by number, in order */
    int64_t dims[2 * NX_INLINE_DIMS];
};
/* How a view was made: one that autograd did not follow, or one of several at once, may not be written with gradients. */
typedef enum nx_creation_meta { NX_CREATION_DEFAULT, NX_CREATION_NO_GRAD, NX_CREATION_MULTI_OUTPUT } nx_creation_meta;
/* Adds `keys` to the views of `base` that were taken while it required no gradient, or while tangents were open. */
void nx_tensor_key_views(nx_tensor *base, uint64_t keys);
/* Whether tensors may carry tangents now: src/grad says so. */
extern _Atomic bool nx__tangents_are_open;
static inline bool nx_tangents_open(void) { return atomic_load_explicit(&nx__tangents_are_open, memory_order_relaxed); }
/* Called before a tensor goes: set by src/grad and py/bind. */
extern void (*nx_autograd_free)(struct nx_autograd *autograd);
extern void (*nx_python_free)(void *python);

/* A tensor that nobody knows yet: every field but elements, sizes' values, storage and what follows from them. The one list
 * of a tensor's fields; field by field, since clearing the whole would cost as much as an operator's bookkeeping. */
static inline void nx_tensor_start(nx_tensor *tensor, int64_t *dims, int ndim, nx_dtype dtype, nx_device device, uint64_t keys) {
    tensor->a.sizes = dims;
    tensor->a.strides = dims + ndim;
    tensor->a.dtype = (uint8_t)dtype;
    tensor->a.ndim = (uint8_t)ndim;
    tensor->a.device = device;
    nx_count_start(&tensor->refs);
    tensor->keys = keys;
    tensor->offset = 0;
    tensor->base = NULL;
    tensor->autograd = NULL;
    tensor->python = NULL;
    tensor->python_owned = tensor->is_parameter = tensor->is_apart = tensor->is_listed = false;
    tensor->creation_meta = NX_CREATION_DEFAULT;
    tensor->attr_version = 0;
    tensor->next_view = NULL;
    tensor->whole = NULL;
}
static inline nx_array *nx_arr(nx_tensor *t) { return &t->a; }
/* Whose elements and history a tensor has: of a slice all slices, else itself. */
static inline nx_tensor *nx_tensor_whole(nx_tensor *t) { return NX_UNLIKELY(t->whole != NULL) ? t->whole : t; }
/* The levels whose slice it is, by number; 0: it is none. */
static inline uint64_t nx_tensor_levels(const nx_tensor *t) { return NX_UNLIKELY(t->whole != NULL) ? t->levels : 0; }
static inline bool nx_same_size(const nx_array *a, const nx_array *b) {
    bool same = a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++) same = a->sizes[d] == b->sizes[d];
    return same;
}
static inline bool nx_tensor_is_fake(const nx_tensor *t);

/* An error where the tensor is a slice of many, whose element nobody can say. */
nx_status nx_tensor_check_item(const nx_tensor *tensor);

/* What a tensor will be: the result of a shape rule. */
typedef struct nx_meta {
    nx_dtype dtype;
    nx_device device;
    int ndim;
    bool absent;                 /* the operator has no such result this time */
    int view_of;                 /* index of the argument that it is a view of, -1: new memory */
    int64_t offset;              /* of a view, elements: from a shape rule behind element 0 of what it views,
                                    for nx_tensor_new_view from the storage's start */
    int64_t size[NX_MAX_DIMS], stride[NX_MAX_DIMS];
} nx_meta;
void nx_meta_contiguous(nx_meta *meta);  /* fills stride from size, row-major */
/* New memory for an array that lies as this one, from its first element on. */
static inline void nx_meta_of(const nx_array *a, nx_meta *out) {
    *out = (nx_meta){.dtype = (nx_dtype)a->dtype, .device = a->device, .ndim = a->ndim, .view_of = -1};
    memcpy(out->size, a->sizes, sizeof *a->sizes * a->ndim);
    memcpy(out->stride, a->strides, sizeof *a->strides * a->ndim);
}
size_t nx_meta_bytes(const nx_meta *meta);

NX_MUST_USE nx_status nx_tensor_new_meta(const nx_meta *meta, bool fake, nx_tensor **out);  /* with storage */
/* What nx_tensor_new_meta works out, for who makes many tensors of one meta. */
typedef struct nx_layout {
    nx_array array;              /* its dims are those of the meta, which lives as long */
    size_t bytes;
} nx_layout;
NX_MUST_USE nx_status nx_layout_start(nx_layout *layout, nx_meta *meta);
NX_MUST_USE nx_status nx_tensor_new_layout(const nx_layout *layout, nx_tensor **out);      /* with storage */
/* Row-major, of the size, dtype and device of `like`. */
NX_MUST_USE nx_status nx_tensor_new_like(const nx_array *like, nx_tensor **out);
/* A tensor over `storage` (a new reference is taken). */
NX_MUST_USE nx_status nx_tensor_new_view(nx_storage *storage, const nx_meta *meta, uint64_t keys, nx_tensor *base, nx_tensor **out);
/* A tensor that is a shape, with no storage. */
NX_MUST_USE nx_status nx_tensor_new_shape(const nx_meta *meta, uint64_t keys, nx_tensor **out);
/* Makes a tensor without a base a view of `base`, whose storage it shares, or of what that is a view of. */
void nx_tensor_set_base(nx_tensor *view, nx_tensor *base);
/* Same storage and shape, no autograd, not a view. */
NX_MUST_USE nx_status nx_tensor_alias(nx_tensor *tensor, nx_tensor **out);
/* As nx_tensor_alias, but with a version of its own, from `version` on: neither hears of the other's writes. */
NX_MUST_USE nx_status nx_tensor_apart(nx_tensor *tensor, uint32_t version, nx_tensor **out);
static inline uint32_t nx_tensor_version(const nx_tensor *t) { return t->storage ? t->storage->version : 0; }

/* ---- layout --------------------------------------------------------------------------------------------- */
bool nx_is_contiguous(int ndim, const int64_t *sizes, const int64_t *strides);
int64_t nx_numel(int ndim, const int64_t *sizes);
/* A product that wraps: beside a dimension of 0, sizes, strides and offsets may be any numbers. */
static inline int64_t nx_times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
/* As PyTorch: the stride of a dimension counts empty inner dimensions as one. */
void nx_row_major(int ndim, const int64_t *sizes, int64_t *strides);
/* No gaps, no overlap: some permutation of it is row-major. */
bool nx_is_dense(const nx_array *a);
/* Of two arrays of one size; the stride of a dimension of size 1 says nothing. */
static inline bool nx_same_strides(const nx_array *a, const nx_array *b) {
    for (int d = 0; d < a->ndim; d++) {
        if (a->sizes[d] > 1 && a->strides[d] != b->strides[d]) return false;
    }
    return true;
}
/* All elements are one, as those of the gradient of a sum. */
static inline bool nx_is_expanded_number(const nx_array *a) {
    for (int d = 0; d < a->ndim; d++) {
        if (a->strides[d] != 0 && a->sizes[d] != 1) return false;
    }
    return true;
}
void nx_array_refresh(nx_array *a);      /* numel and contiguous from sizes and strides */
/* The bytes of all elements as `dtype`, side by side; an error when they cannot be counted, as those of an expanded tensor. Who
 * makes room for elements that have none yet asks this, or nx_bytes_of for `n` things of `each` bytes. */
NX_MUST_USE nx_status nx_array_bytes(const nx_array *a, nx_dtype dtype, size_t *out);
NX_MUST_USE nx_status nx_bytes_of(int64_t n, size_t each, size_t *out);
nx_status nx_fail_bytes(int ndim, const int64_t *sizes); /* "Storage size calculation overflowed with sizes=[...]", or the negative one */
enum { NX_CONTIGUOUS_FORMAT, NX_PRESERVE_FORMAT, NX_CHANNELS_LAST, NX_CHANNELS_LAST_3D }; /* .i of NX_TAG_MEMORY_FORMAT */
/* Whether an array of rank 4 or 5 lies without gaps with dimension 1 innermost, then the last ones, then the first. */
bool nx_is_channels_last(const nx_array *a);
/* Whether it lies as a memory format says: row by row, or channels_last (of 4 dimensions), channels_last_3d (of 5). */
bool nx_lies_in_format(const nx_array *a, int64_t format);
const char *nx_memory_format_name(int64_t format);
/* Copies an array head whose dims go to `dims` (room for 2*ndim). */
void nx_array_copy(nx_array *to, const nx_array *from, int64_t *dims);
/* The byte range [low, high) that the array touches; both NULL when it has no element. */
void nx_array_extent(const nx_array *a, const char **low, const char **high);

/* ---- values that are kept --------------------------------------------------------------------------------- */
/* What several values hold, at the head of what it is: values of the tag GRAPH. */
typedef struct nx_shared { nx_count refs; void (*free)(struct nx_shared *shared); } nx_shared;
/* A copy that owns: tensors and generators are referenced, lists and strings copied. */
NX_MUST_USE nx_status nx_value_keep(const nx_value *value, nx_value *out);
/* nx_value_drop of narthex.h releases what keep took. */
/* Of a number: a Scalar of any kind. */
/* Of a complex number the real part. */
static inline double nx_value_as_float(const nx_value *value) {
    return value->tag == NX_TAG_FLOAT ? value->f : value->tag == NX_TAG_COMPLEX ? value->parts[0] : (double)value->i;
}
static inline int64_t nx_value_as_int(const nx_value *value) {
    return value->tag == NX_TAG_INT || value->tag == NX_TAG_BOOL ? value->i : (int64_t)nx_value_as_float(value);
}
void nx_value_text(const nx_value *value, nx_text *text); /* Python-like; tensors as "tensor" */

/* ---- generators: mt19937 as PyTorch's CPU generator ---------------------------------------------------------- */
typedef struct nx_generator_class {
    void (*seed)(nx_generator *generator, uint64_t seed);
    void (*free)(nx_generator *generator);
} nx_generator_class;
struct nx_generator {
    nx_count refs;
    nx_device device;
    const nx_generator_class *class; /* NULL: the CPU's */
    pthread_mutex_t lock;            /* of the CPU's numbers and seed: held for as long as one operator draws */
    uint64_t seed;
    uint64_t offset;                 /* counter-based generators: draws so far */
    int32_t left, next;              /* mt19937 */
    uint32_t state[624];
    bool has_normal;
    double normal;                   /* the cached second normal */
};
NX_MUST_USE nx_status nx_generator_new(nx_generator **out); /* CPU, seed 67280421310721 */
nx_generator *nx_generator_default(void);                   /* the CPU's; lent */
void nx_generator_seed(nx_generator *generator, uint64_t seed); /* takes the lock */
static inline void nx_generator_lock(nx_generator *generator) { pthread_mutex_lock(&generator->lock); }
static inline void nx_generator_unlock(nx_generator *generator) { pthread_mutex_unlock(&generator->lock); }
/* Where the CPU's numbers stand, and back to there. Each takes the lock. */
typedef struct nx_generator_place {
    uint64_t seed;
    int32_t left, next;
    uint32_t state[624];
    bool has_normal;
    double normal;
} nx_generator_place;
void nx_generator_mark(nx_generator *generator, nx_generator_place *out);
void nx_generator_return(nx_generator *generator, const nx_generator_place *place);
/* Whether a generator may stand there; bytes from elsewhere may be no place. */
bool nx_generator_is_place(const nx_generator_place *place);
nx_generator *nx_generator_ref(nx_generator *generator);
void nx_generator_unref(nx_generator *generator);
/* Under the lock. */
uint32_t nx_generator_u32(nx_generator *generator);
uint64_t nx_generator_u64(nx_generator *generator);         /* high half first */
void nx_generator_fill(nx_generator *generator, uint32_t *out, int64_t n); /* what n calls of nx_generator_u32 give */

/* ---- dispatch keys are bits of a tensor; their meaning is in core/keys.def -------------------------------- */
#define NX_KEY_ROW(code, meaning) NX_KEY_AT_##code,
enum { NX_KEY_AT_DEVICE0 = 0, NX_KEY_AT_LAST_DEVICE = NX_MAX_DEVICE_TYPES - 1,
#include "core/keys.def"
       NX_N_KEYS };
#undef NX_KEY_ROW
#define NX_KEY(code) (UINT64_C(1) << NX_KEY_AT_##code)
/* Those of one tensor alone: what else shows its memory does not have them for that. */
#define NX_KEYS_OWN (NX_KEY(AUTOGRAD) | NX_KEY(FORWARD))
#define NX_DEVICE_KEY(device) (UINT64_C(1) << (device).type)
/* The device type of tensors without memory: they are fake for good. No plugin gets its number. */
enum { NX_META_TYPE = NX_KEY_AT_LAST_DEVICE };
/* Where this thread makes tensors of which nobody says it: kept in the place of meta's current device, which meta has not. */
static inline nx_device nx_device_default(void) {
    int8_t both = nx_thread_get()->device_index[NX_META_TYPE];
    return (nx_device){(int8_t)(both & (NX_MAX_DEVICE_TYPES - 1)), (int8_t)(both / NX_MAX_DEVICE_TYPES)};
}
static inline void nx_device_set_default(nx_device device) {
    nx_thread_get()->device_index[NX_META_TYPE] = (int8_t)(device.type + device.index * NX_MAX_DEVICE_TYPES);
}
static inline bool nx_is_meta(nx_device device) { return device.type == NX_META_TYPE; }
static inline bool nx_tensor_is_fake(const nx_tensor *t) { return (t->keys & NX_KEY(FAKE)) != 0; }
bool nx_any_fake(const nx_value *values, int n); /* lists are looked into */
/* Calls of this thread pass by the kernels of `keys` as well, until nx_keys_restore() is given what this returns. */
static inline uint64_t nx_keys_exclude(uint64_t keys) {
    nx_thread *thread = nx_thread_get();
    uint64_t before = thread->keys_excluded;
    thread->keys_excluded = before | keys;
    return before;
}
static inline void nx_keys_restore(uint64_t before) { nx_thread_get()->keys_excluded = before; }

/* ---- profiles: what one thread ran, with times, while a profile is on there ---------------------------------
 * Operators come from the key PROFILE (src/dispatch), nodes of a backward from src/grad, compiled graphs and their steps from
 * src/compile, src/engine and src/device, ranges that a program names from its caller. Each event lies inside of the one that
 * was open when it began. */
typedef enum nx_event_kind {
    NX_EVENT_OPERATOR,
    NX_EVENT_EVALUATE, /* a node of a backward with its hooks and the sums of its gradients */
    NX_EVENT_NODE,     /* its function alone */
    NX_EVENT_RANGE,    /* named by the program */
    NX_EVENT_GRAPH,    /* a call of a compiled graph */
    NX_EVENT_STEP      /* a launch of one */
} nx_event_kind;

typedef struct nx_event {
    nx_event_kind kind;
    const char *name;       /* NULL: `op` has it */
    const struct nx_op *op; /* of nodes: the operator that they are of */
    int parent;             /* an earlier event, -1: none */
    int64_t begin, end;     /* nanoseconds; end 0: it has not ended */
    int64_t sequence;       /* of the node of a backward, or of the next one when an operator began; -1: none */
    int64_t bytes[2];       /* of storages taken inside, less those given back; [0]: on the CPU, [1]: elsewhere */
    int words, n_words;     /* its arguments: words of the profile from here on */
    int stack;              /* what nx_profile_stack returned, -1 */
} nx_event;

/* Arguments as words, each its kind (nx_tag) first: TENSOR dtype ndim sizes strides; INTS n and they; INT, BOOL and FLOAT
 * (its bits) one word; of others nothing follows. */
typedef struct nx_profile {
    bool with_arguments, with_memory, with_stacks, ran_out; /* ran_out: of memory, so that something is missing */
    NX_VEC(nx_event) events;
    NX_VEC(int64_t) words;
    nx_arena names;
    int open;               /* the innermost event that has not ended, -1 */
    uint32_t serial;        /* no two profiles of a process have one */
    int64_t bytes[2];       /* taken less given back so far */
    int n_free_whole;       /* of the thread, before */
    void *context;          /* the caller's */
    struct nx_profile *outer; /* waits until this one is done, NULL: none */
} nx_profile;

nx_profile *nx_profile_new(void);                       /* NULL without memory */
void nx_profile_free(nx_profile *profile);              /* that records no more */
void nx_profile_start(nx_profile *profile);             /* of this thread; one that is on there waits */
NX_MUST_USE nx_status nx_profile_stop(nx_profile *profile); /* the one that is on in this thread, else NX_RUNTIME */

/* The event that begins, or -1 when there is no memory for it, which nx_profile_end() takes too. `name` is lent as long as
 * the profile lives. */
int nx_profile_begin(nx_profile *profile, nx_event_kind kind, const char *name);
const char *nx_profile_name(nx_profile *profile, const char *name); /* a copy for that; NULL without memory */
void nx_profile_arguments(nx_profile *profile, int event, const nx_value *in, int n_in);
/* `profile` must be on in this thread, else nothing is done: it was stopped inside of the event. */
void nx_profile_end(const nx_profile *profile, int event);

/* Where the program is, as a number of the caller's; -1: nobody knows. NULL: nobody is asked. */
extern int (*nx_profile_stack)(nx_profile *profile);

/* What notes the calls of this thread, NULL: nothing does, or they are traced and not run. */
static inline nx_profile *nx_profile_of(const nx_thread *thread) {
    uint64_t traced = NX_KEY(FAKE) | NX_KEY(TRACE) | NX_KEY(CAPTURE);
    return NX_LIKELY(thread->profile == NULL) || (thread->keys_included & traced) ? NULL : thread->profile;
}

/* A storage was taken (bytes > 0) or given back. */
static inline void nx__profile_bytes(nx_device device, int64_t bytes) {
    nx_profile *profile = nx_thread_get()->profile;
    if (NX_UNLIKELY(profile != NULL)) profile->bytes[device.type != 0] += bytes;
}

#endif
