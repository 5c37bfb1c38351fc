/* guard: what was true when a trace was made, as flat rows that are checked without allocation.
 * Slots are numbers: a fetching row fills one from its parent slot, a checking row looks at one. Rows stand in the
 * order in which they were made, so a parent is always filled and checked before its children. */
#ifndef NXPY_GUARD_H
#define NXPY_GUARD_H

#include "cpython/cpython.h"

#include "bind/bind.h"
#include "base/base.h"
#include "core/core.h"

typedef enum nxpy_row_code {
#define NXPY_GUARD_ROW(code, kind, meaning) NXPY_ROW_##code,
#include "guard/guards.def"
#undef NXPY_GUARD_ROW
    NXPY_N_ROW_CODES
} nxpy_row_code;

/* What torch._dynamo.mark_dynamic, maybe_mark_dynamic and mark_static say of sizes: sets of dimensions in attributes of the tensor. */
typedef enum nxpy_mark_kind { NXPY_MARK_OPEN, NXPY_MARK_MAY_OPEN, NXPY_MARK_STATIC, NXPY_N_MARKS } nxpy_mark_kind;
extern const char *const nxpy_mark_names[NXPY_N_MARKS];
uint64_t nxpy_marked_dims(PyObject *tensor, nxpy_mark_kind mark); /* by bit */
/* What a tensor was like; dims are the sizes, then the strides. Of a tensor whose sizes vary the other sizes count alone. */
typedef struct nxpy_tensor_like {
    PyTypeObject *type;   /* held by the row's `a` */
    uint64_t keys;
    nx_device device;
    uint8_t dtype, ndim;
    bool is_parameter;
    uint8_t n_strides;    /* that are compared: 0 where the rest says what they are, and where sizes vary */
    uint64_t varying;     /* dimensions, by bit, of any size */
    uint64_t marked[NXPY_N_MARKS]; /* dimensions that were said to be so, of which all that are must be; of no Parameter */
    uint64_t head, head_mask; /* nxpy__array_head, and its bits that count */
    int64_t dims[];
} nxpy_tensor_like;

/* Objects each of which shall be another one than others, or lie elsewhere: the first n_first differ from each other and
 * from all that follow. */
typedef struct nxpy_apart_part {
    const void *was;      /* its address, or that of its memory, when it last was so; NULL: never yet */
    size_t was_bytes;     /* of that memory */
    int slot;
    bool dict;            /* not the object in the slot, but its __dict__ */
} nxpy_apart_part;
/* Whether two tensors lie in one memory, or in parts of one that somebody else owns (an array of numpy's). */
static inline bool nxpy_memories_meet(const nx_storage *x, const nx_storage *y) {
    if (!x || !y || !x->data || !y->data) return x && x == y;
    return (char *)x->data < (char *)y->data + y->bytes && (char *)y->data < (char *)x->data + x->bytes;
}
typedef struct nxpy_apart { int n, n_first; nxpy_apart_part at[]; } nxpy_apart;

typedef struct nxpy_row {
    uint8_t code;
    bool present;         /* of a fetch: the trace found something */
    int from, slot;       /* parent slot, -1: none; slot that a fetch fills, -1: a check */
    PyObject *a, *b;      /* owned or NULL */
    int64_t n;
    uint64_t version;     /* of the dict or type at the last lookup, 0: none yet */
    PyObject *seen;       /* what that lookup gave: valid while the version is the same; lent */
    union {
        Py_hash_t hash;   /* of a: DICT, KEY, VALUE */
        nxpy_tensor_like *like; /* TENSOR */
        nxpy_apart *apart; /* DISTINCT, STORAGES */
    };
} nxpy_row;
_Static_assert(sizeof(nxpy_row) == 64, "a row is one cache line: models have hundreds");

/* Where the user's code needed a row. */
typedef struct nxpy_place {
    PyObject *file, *function; /* owned or NULL */
    int line;
    int before;                /* the row before it of the same parent (or place in roots), -1; nxpy_guards_add says it */
} nxpy_place;

/* What a call checks: a row that stands by itself, or one of these. */
typedef enum nxpy_guard_step_code {
    NXPY_STEP_ROOTS = NXPY_N_ROW_CODES, /* n ROOT rows from slot `from`, root `first` on */
    NXPY_STEP_TENSOR,                   /* a TENSOR row: what is in slot `from` is as `of` says, which rows that say the same share */
    NXPY_STEP_STATE,                    /* the thread's state */
    NXPY_STEP_TYPE,                     /* the state of the type `of` */
    NXPY_STEP_DICT,                     /* the dict in slot `from`, or `of` */
    NXPY_STEP_INSTANCE                  /* the object in slot `from`: of type `of`, its dict is at `offset` */
} nxpy_guard_step_code;
typedef struct nxpy_guard_step {
    uint8_t code;
    int16_t offset;
    int from;             /* -1: no slot */
    int first, n;         /* of a watch: its rows in `watched`; else `first` is the row */
    void *of;             /* lent by a row */
    uint64_t version;     /* of what is watched when its rows last held, 0: they did not */
    const void *near;     /* where it read last, or NULL: asked for ahead, and maybe nothing any more */
} nxpy_guard_step;
typedef struct nxpy_state {
    bool grad_disabled;
    uint8_t autocast_enabled, autocast_dtype[NX_MAX_DEVICE_TYPES];
    int8_t device_index[NX_MAX_DEVICE_TYPES];
    nx_dtype dtype;       /* the default one */
    unsigned tensor_class; /* version of Tensor, whose operators are looked up in no slot */
} nxpy_state;

typedef struct nxpy_guards {
    NX_VEC(nxpy_row) rows;
    NX_VEC(nxpy_place) places; /* of the rows, in order */
    NX_VEC(int) last;          /* by parent slot plus one: the last row that has it, -1 */
    int roots[128];            /* rows without a parent, by what `a` is: the last one plus one, 0 */
    NX_VEC(int) row_of_slot;
    int n_slots;
    NX_VEC(nxpy_guard_step) steps;   /* none: the rows are checked */
    int *watched;              /* rows of the watches */
    PyObject **seen;           /* by slot: what a row of a watch fetched; lent, valid while its version is; NULL: there are none */
    bool is_read;              /* a run reads `seen`, which stays as it is */
    nxpy_state state;          /* when the rows of the state last held */
    bool state_known;
} nxpy_guards;

/* Adds a row like `row`, whose a and b get a reference each, and whose like or apart are taken, also on failure. A fetch
 * gets the next slot. `place` is copied. Returns the row's index, -1 with a Python exception without memory. */
int nxpy_guards_add(nxpy_guards *guards, nxpy_row row, nxpy_place place);
/* The row that fetches the same, -1: none. */
int nxpy_guards_find(const nxpy_guards *guards, nxpy_row_code code, int from, PyObject *a, PyObject *b, int64_t n);
/* Whether there is a FUNCTION row of this function. */
bool nxpy_guards_know_function(const nxpy_guards *guards, PyObject *function);
/* Whether there is an OPERATOR row of this class and name. */
bool nxpy_guards_know_operator(const nxpy_guards *guards, PyObject *type, PyObject *name);
void nxpy_guards_free(nxpy_guards *guards);
/* The description of `tensor` for a TENSOR row: its `like` (nx_free), NULL without memory. */
nxpy_tensor_like *nxpy_tensor_like_new(PyObject *tensor, uint64_t varying);
/* The dimensions whose size differs from what a TENSOR row of these guards says of the source, or varies there. */
uint64_t nxpy_guards_varying(const nxpy_guards *guards, const char *source, const nx_array *tensor);

/* Whether these guards want another object than this one at the source. */
bool nxpy_guards_want_other(const nxpy_guards *guards, const char *source, PyObject *object);

/* Whether these guards want another int or float than `value` in the ROOT place n (at the source), or any of its type. */
bool nxpy_guards_root_varies(const nxpy_guards *guards, int64_t n, PyObject *value);
PyObject *nxpy_setting_tensor(double number); /* float64, without dimensions; NULL with an exception */
bool nxpy_guards_number_varies(const nxpy_guards *guards, const char *source, PyObject *value);

/* Fills values[n_slots] (lent references) from roots; -1 when all holds, else the index of the first row that fails.
 * Runs no Python code and sets no exception. */
int nxpy_guards_check(nxpy_guards *guards, PyObject *const *roots, PyObject **values);
/* The same by steps, once there are any: most of what a model's rows say follows from the versions of a few dicts. Where the
 * values lie; NULL: they do not hold. That is room[n_slots] or, unless they are `copied` or is_read, in the guards themselves:
 * then they are valid until the next check, and is_read is on while other code runs. */
PyObject **nxpy_guards_hold(nxpy_guards *guards, PyObject *const *roots, PyObject **room, bool copied);
/* Makes steps of rows to which nothing is added any more; `values` is what a check that held has filled. Without memory
 * there are none. */
void nxpy_guards_arrange(nxpy_guards *guards, PyObject *const *values);
/* Why row `index` failed just now: "L['x'] size mismatch at dim 0: expected 3, got 5". New reference. */
PyObject *nxpy_guards_explain(nxpy_guards *guards, int index, PyObject *const *roots);
/* The checking rows as a list of (text, code line, where), in order. New reference. `line_of` gives the code. */
typedef PyObject *nxpy_line_fn(void *context, PyObject *file, int line);
PyObject *nxpy_guards_print(const nxpy_guards *guards, nxpy_line_fn *line_of, void *context);
/* The source of a slot as the user would write it: "L['self'].weight". */
/* The checking rows as a list of (kind, source, text, whether the row may be left out: it keeps no memory safe). New reference. */
PyObject *nxpy_guards_list(const nxpy_guards *guards);
/* Takes away those of them, in that order, for which `keep` is false and which may be. 0, or -1 with an exception. */
int nxpy_guards_filter(nxpy_guards *guards, PyObject *keep);
void nxpy_guards_source(const nxpy_guards *guards, int slot, nx_text *text);

/* The only element of a tensor in the host's memory, as the bits of an int64 or a double; false: it is no such tensor. */
bool nxpy_element_bits(PyObject *tensor, int64_t *out);
/* Whether these guards want another number than n at the source, as an ELEMENT. */
bool nxpy_guards_element_varies(const nxpy_guards *guards, const char *source, int64_t n);

/* Same type and value, for constants; runs no Python code. */
bool nxpy_constant_equal(PyObject *x, PyObject *y);
bool nxpy_is_numpy_number(PyObject *object);
/* None, numbers, those of numpy's too, strings, bytes, dtypes, devices, sizes, slices and tuples of constants. */
bool nxpy_constant_check(PyObject *object);

#endif
