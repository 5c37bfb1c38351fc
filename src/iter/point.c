/* Point operators on the CPU: operands broadcast, cast to the common dtype, through the operator's loop, cast
 * to the result's dtype. First the plain case, which is most calls: one dtype, row-major, equal sizes; then a
 * walk, whose inner part casts what differs in pieces of PIECE elements, so that nothing is allocated. Next:
 * walk.c, cast.c. Where the entry says so (nx_point.exact), a number beside a half type is not rounded to it:
 * everything is computed in float32 and rounded once, as PyTorch multiplies; beside complex32 it is rounded. */
#include "iter/private.h"

enum { PIECE = 512, TILE = 32, FEW = 48, SHORT = 8, FAR = 64, CAST = 8 }; /* elements; bytes; what casting one costs */

nx_dtype nx_point_dtype(const nx_point *point, const nx_value *in) {
    const nx_value *operands[NX_COUNT(point->promoting_param)];
    for (int k = 0; k < point->n_promoting; k++) operands[k] = &in[point->promoting_param[k]];
    nx_dtype dtype = nx_promote(operands, point->n_promoting);
    bool divides = point->result == NX_POINT_FLOAT ||
                   (point->result == NX_POINT_ARM && in[point->arm_param].tag == NX_TAG_NONE);
    if (NX_UNLIKELY(point->result == NX_POINT_COMPLEX)) return nx_dtype_complex(dtype);
    return divides && !nx_is_differentiable(dtype) ? nx_default_dtype() : dtype;
}

/* A text that is none of the arms has been refused by the shape rule. */
static inline nx_loop_fn *const (*rows_of(const nx_point *point, const nx_value *in))[NX_N_DTYPES] {
    if (NX_LIKELY(point->arms == NULL)) return point->loop;
    if (in[point->arm_param].tag != NX_TAG_STR) return point->arm_loop[0];
    for (int k = 1; k < point->n_arms; k++) {
        if (strcmp(point->arms[k], in[point->arm_param].str) == 0) return point->arm_loop[k];
    }
    return point->arm_loop[0];
}

static inline nx_loop_fn *find_loop(const nx_point *point, const nx_value *in, nx_dtype dtype) {
    nx_loop_fn *const (*rows)[NX_N_DTYPES] = rows_of(point, in);
    nx_loop_fn *loop = rows[nx_level()][dtype];
    return loop ? loop : rows[NX_LEVEL_BASE][dtype];
}

nx_loop_fn *nx_point_loop(const nx_point *point, const nx_value *in, nx_dtype dtype) { return find_loop(point, in, dtype); }

static nx_status fail_dtype(const nx_run *run, nx_dtype dtype) {
    return nx_fail(NX_NOT_IMPLEMENTED, "%s: not implemented for '%s'", run->op->def->name,
                   nx_dtype_kind(dtype));
}

static inline void cast_constants(const nx_point *point, const nx_value *in, nx_dtype computing,
                                  nx_const *constants) {
    for (int c = 0; c < point->n_constants; c++) {
        const nx_value *number = &in[point->constant_param[c]];
        bool one = number->tag == NX_TAG_INT && number->i == 1; /* alpha, mostly */
        if (NX_LIKELY(one && nx_is_float(computing))) constants[c].f = 1;
        else nx_point_constant(point, c, number, computing, &constants[c]);
    }
}

/* ---- whole division of integers ------------------------------------------------------------------------ */
#define DEFINE_FIND(bits)                                                                                \
    static void find_zero_##bits(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {        \
        const uint##bits##_t *x = (const uint##bits##_t *)ptrs[0];                                       \
        const int64_t step = steps[0] / (int64_t)sizeof *x;                                              \
        uint##bits##_t found = 0; /* its highest bit: less 1 a number gets it that had it not */         \
        if (step == 1) for (int64_t i = 0; i < n; i++) found |= (uint##bits##_t)((x[i] - 1) & ~x[i]);    \
        else for (int64_t i = 0; i < n; i++) found |= (uint##bits##_t)((x[i * step] - 1) & ~x[i * step]); \
        if (found >> (bits - 1)) atomic_store_explicit((_Atomic bool *)arg, true, memory_order_relaxed); \
    }
DEFINE_FIND(8)
DEFINE_FIND(16)
DEFINE_FIND(32)
DEFINE_FIND(64)

static nx_status check_divisor(const nx_run *run, const nx_value *by) {
    _Atomic bool found = false;
    if (by->tag == NX_TAG_TENSOR) {
        static nx_walk_fn *const finds[9] = {[1] = find_zero_8, [2] = find_zero_16, [4] = find_zero_32, [8] = find_zero_64};
        nx_walk walk;
        nx_walk_start(&walk, by->array->ndim, by->array->sizes);
        nx_walk_add(&walk, by->array);
        nx_walk_merge(&walk);
        const int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)by->array->dtype);
        nx_walk_spread(&walk, bytes, finds[bytes], &found);
    } else found = by->i == 0; /* a float would have made it a division of floats */
    if (!found) return NX_OK;
    return nx_fail(NX_RUNTIME, "%s: ZeroDivisionError: an integer is divided by 0", nx_op_name(run->op));
}

/* Of an element, as for nx_grain: what is moved and the functions. */
static inline int64_t cost_of(const nx_point *point, nx_dtype dtype) {
    return (point->n_out + point->n_in) * (int64_t)nx_dtype_sizes[dtype] + 2 * point->cost;
}

/* ---- plain --------------------------------------------------------------------------------------------- */
typedef struct plain {
    nx_loop_fn *loop;
    char **ptrs;
    int64_t *steps;
    const nx_const *constants;
    int n;
} plain;

static nx_status run_part(void *arg, int64_t begin, int64_t end) {
    const plain *call = arg;
    char *ptrs[NX_MAX_OPERANDS];
    for (int k = 0; k < call->n; k++) ptrs[k] = call->ptrs[k] + call->steps[k] * begin;
    call->loop(ptrs, call->steps, end - begin, call->constants);
    return NX_OK;
}

/* Equal numel and row-major means equal order: sizes can then differ by dimensions of size 1 only. */
static inline bool plain_operand(const nx_value *value, nx_dtype dtype, int64_t numel) {
    return value->tag == NX_TAG_TENSOR && value->array->dtype == dtype && value->array->contiguous &&
           value->array->numel == numel;
}

/* One element in every place, as the gradient of a sum. */
static inline bool spread_operand(const nx_value *value, nx_dtype dtype) {
    return value->tag == NX_TAG_TENSOR && value->array->dtype == dtype && nx_is_expanded_number(value->array);
}

typedef struct number { _Alignas(8) char element[NX_MAX_ELEMENT_BYTES]; } number;
/* A number takes its place as one element of step 0. */
static inline bool place_number(const nx_point *point, int k, const nx_value *value, nx_dtype dtype,
                                char *to) {
    if (value->tag == NX_TAG_TENSOR) return false;
    float f = value->tag == NX_TAG_FLOAT ? (float)value->f : (float)value->i;
    if (dtype == NX_F32 && NX_LIKELY(value->tag != NX_TAG_COMPLEX)) memcpy(to, &f, sizeof f);
    else if (point->exact >> k & 1 && (dtype == NX_F16 || dtype == NX_BF16)) return false;
    else nx_number_store(dtype, value, to);
    return true;
}

static inline bool gather_plain(const nx_point *point, const nx_value *in, const nx_value *out, char **ptrs,
                                int64_t *steps, number *numbers) {
    nx_dtype dtype = (nx_dtype)out[0].array->dtype;
    int64_t numel = out[0].array->numel, bytes = nx_dtype_sizes[dtype];
    int n = 0;
    for (int k = 0; k < point->n_out; k++, n++) {
        if (!plain_operand(&out[k], dtype, numel)) return false;
        ptrs[n] = out[k].array->data;
        steps[n] = bytes;
    }
    for (int k = 0; k < point->n_in; k++, n++) {
        const nx_value *value = &in[point->in_param[k]];
        if (NX_LIKELY(plain_operand(value, dtype, numel))) {
            ptrs[n] = value->array->data;
            steps[n] = bytes;
            continue;
        }
        steps[n] = 0;
        if (spread_operand(value, dtype)) ptrs[n] = value->array->data;
        else if (place_number(point, k, value, dtype, (char *)&numbers[n])) ptrs[n] = (char *)&numbers[n];
        else return false;
    }
    return true;
}

/* ---- plain, many times --------------------------------------------------------------------------------- */
typedef struct bound_plain {
    nx_bound bound; /* first */
    nx_loop_fn *loop;
    int64_t numel;
    int n;
    void *const *at[NX_MAX_OPERANDS]; /* where the address of each operand stands */
    char *ptrs[NX_MAX_OPERANDS];
    int64_t steps[NX_MAX_OPERANDS];
    number numbers[NX_MAX_OPERANDS];
    nx_const constants[8];
} bound_plain;

static void run_bound(nx_bound *bound) {
    bound_plain *call = (bound_plain *)bound;
    for (int k = 0; k < call->n; k++) call->ptrs[k] = *call->at[k];
    call->loop(call->ptrs, call->steps, call->numel, call->constants);
}

static nx_status bind_plain(nx_kernel_fn *kernel, const nx_run *run, const nx_value *in, const nx_value *out, nx_bound **bound) {
    *bound = NULL;
    if (kernel != nx_point_kernel) return NX_OK;
    const nx_point *point = run->op->def->point;
    int n = point->n_out + point->n_in;
    nx_dtype dtype = (nx_dtype)out[0].array->dtype;
    bool is_short = !nx_is_long(out[0].array->numel, cost_of(point, dtype));
    bool fits = n <= NX_MAX_OPERANDS && point->n_constants <= NX_COUNT(((bound_plain *)0)->constants);
    if (point->divisor || point->result == NX_POINT_BOOL || !fits || !is_short) return NX_OK;
    bound_plain *call = nx_alloc(sizeof *call);
    if (call == NULL) return nx_fail_memory(sizeof *call);
    *call = (bound_plain){.bound = {run_bound}, .numel = out[0].array->numel, .n = n, .loop = nx_point_loop(point, in, dtype)};
    if (call->loop == NULL || !gather_plain(point, in, out, call->ptrs, call->steps, call->numbers)) {
        nx_free(call);
        return NX_OK;
    }
    cast_constants(point, in, dtype, call->constants);
    for (int k = 0; k < n; k++) {
        const nx_value *value = k < point->n_out ? &out[k] : &in[point->in_param[k - point->n_out]];
        call->at[k] = value->tag == NX_TAG_TENSOR ? &value->array->data : (void *const *)&call->ptrs[k];
    }
    *bound = &call->bound;
    return NX_OK;
}

__attribute__((constructor)) static void offer_binding(void) { nx_kernel_bind = bind_plain; }

/* ---- general ------------------------------------------------------------------------------------------- */
typedef struct general {
    nx_loop_fn *loop;
    nx_const constants[8];
    nx_dtype computing, rounding;   /* rounding: operands of other dtypes go through it first */
    int n, n_out;                   /* operands, outputs among them first */
    bool casts;                     /* some operand is of another dtype */
    bool takes_apart;               /* the loop takes elements that lie apart as quickly as they are brought together */
    int64_t width;                  /* the innermost size, where several rows are worked on together; the walk is over the others */
    int64_t column_step[NX_MAX_OPERANDS]; /* of a walked operand there */
    nx_dtype dtype[NX_MAX_OPERANDS];
    int8_t walked[NX_MAX_OPERANDS]; /* place in the walk, -1: a number */
    bool exact[NX_MAX_OPERANDS];    /* not rounded to `rounding` */
    _Alignas(16) char number[NX_MAX_OPERANDS][NX_MAX_ELEMENT_BYTES];
} general;

/* Whether operand k goes through the dtype `rounding`: it is of another, and what computes is wider. */
static inline bool rounds(const general *call, int k) {
    nx_dtype dtype = call->dtype[k], rounding = call->rounding;
    bool is_number_of_it = dtype == rounding || dtype == NX_BOOL || nx_dtype_complex(dtype) == rounding; /* float8 may have no 0 */
    return rounding != call->computing && !is_number_of_it && !call->exact[k];
}

/* Whether the loop reads or writes elements of operand k as they are. */
static inline bool is_plain(const general *call, int k) { return call->dtype[k] == call->computing && !rounds(call, k); }

/* n elements of operand k to `to`, whose elements lie `to_step` apart. */
static void load_piece(const general *call, int k, char *to, int64_t to_step, const char *from, int64_t step, int64_t n) {
    if (rounds(call, k)) {
        _Alignas(16) char rounded[PIECE * NX_MAX_ELEMENT_BYTES];
        int64_t width = nx_dtype_sizes[call->rounding];
        nx_cast(call->rounding, rounded, width, call->dtype[k], from, step, n);
        nx_cast(call->computing, to, to_step, call->rounding, rounded, width, n);
        return;
    }
    nx_cast(call->computing, to, to_step, call->dtype[k], from, step, n);
}

/* n elements of output k from `from`, whose elements lie `from_step` apart. */
static void store_piece(const general *call, int k, char *to, int64_t step, const char *from, int64_t from_step, int64_t n) {
    if (rounds(call, k)) {
        _Alignas(16) char rounded[PIECE * NX_MAX_ELEMENT_BYTES];
        int64_t width = nx_dtype_sizes[call->rounding];
        nx_cast(call->rounding, rounded, width, call->computing, from, from_step, n);
        nx_cast(call->dtype[k], to, step, call->rounding, rounded, width, n);
        return;
    }
    nx_cast(call->dtype[k], to, step, call->computing, from, from_step, n);
}

/* Elements with others between them, which a loop takes one by one, are brought side by side; what only adds and multiplies is
 * as quick one by one, unless every other element is taken. */
static inline bool lies_apart(const general *call, int64_t step, int64_t bytes) {
    return step != 0 && step != bytes && !(call->takes_apart && step != 2 * bytes);
}

typedef char buffers[NX_MAX_OPERANDS][PIECE * NX_MAX_ELEMENT_BYTES];

static void run_piece(const general *call, char *const *walk_ptrs, const int64_t *walk_steps, int64_t done, int64_t n, buffers room) {
    int64_t bytes = (int64_t)nx_dtype_bytes(call->computing);
    char *ptrs[NX_MAX_OPERANDS];
    int64_t steps[NX_MAX_OPERANDS];
    for (int k = 0; k < call->n; k++) {
        int w = call->walked[k];
        char *at = w < 0 ? (char *)call->number[k] : walk_ptrs[w] + walk_steps[w] * done;
        int64_t step = w < 0 ? 0 : walk_steps[w];
        bool direct = w < 0 || (is_plain(call, k) && !lies_apart(call, step, bytes));
        if (!direct && k >= call->n_out) load_piece(call, k, room[k], bytes, at, step, step ? n : 1);
        ptrs[k] = direct ? at : room[k];
        steps[k] = direct ? step : k < call->n_out || step ? bytes : 0;
    }
    call->loop(ptrs, steps, n, call->constants);
    for (int k = 0; k < call->n_out; k++) {
        if (ptrs[k] != room[k]) continue;
        int w = call->walked[k];
        store_piece(call, k, walk_ptrs[w] + walk_steps[w] * done, walk_steps[w], room[k], bytes, n);
    }
}

static void run_buffered(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    _Alignas(64) buffers room;
    for (int64_t done = 0; done < n; done += PIECE)
        run_piece(arg, ptrs, steps, done, n - done < PIECE ? n - done : PIECE, room);
}

/* ---- tiles: many rows of few elements, or rows of one operand that are columns of another: brought side by side -------------- */
static void load_tile(const general *call, int k, char *to, const char *from, int64_t step, int64_t rows, int64_t columns) {
    const nx__moves *moves = nx__moves_get();
    int64_t bytes = (int64_t)nx_dtype_bytes(call->computing), row = columns * bytes, column = call->column_step[k];
    bool moves_only = is_plain(call, k);
    if (moves_only && column == bytes) moves->rows(to, row, from, step, rows, row);
    else if (moves_only && step == bytes) moves->turn[bytes](to, row, from, column, rows, columns);
    else for (int64_t j = 0; j < columns; j++) load_piece(call, k, to + j * bytes, row, from + j * column, step, rows);
}

static void store_tile(const general *call, int k, const char *from, char *to, int64_t step, int64_t rows, int64_t columns) {
    int64_t bytes = (int64_t)nx_dtype_bytes(call->computing), row = columns * bytes, column = call->column_step[k];
    int64_t out_bytes = (int64_t)nx_dtype_bytes(call->dtype[k]);
    if (is_plain(call, k) && column == bytes) nx__moves_get()->rows(to, step, from, row, rows, row);
    else if (column == out_bytes && columns >= SHORT) for (int64_t i = 0; i < rows; i++)
        store_piece(call, k, to + i * step, column, from + i * row, bytes, columns);
    else for (int64_t j = 0; j < columns; j++)
        store_piece(call, k, to + j * column, step, from + j * bytes, row, rows);
}

static void run_tile(const general *call, char *const *at, const int64_t *walk_steps, int64_t rows, int64_t columns, buffers room) {
    int64_t bytes = (int64_t)nx_dtype_bytes(call->computing);
    char *ptrs[NX_MAX_OPERANDS];
    int64_t steps[NX_MAX_OPERANDS];
    for (int k = 0; k < call->n; k++) {
        int64_t step = call->walked[k] < 0 ? 0 : walk_steps[call->walked[k]];
        bool held = call->walked[k] < 0 || (step == 0 && call->column_step[k] == 0);
        ptrs[k] = call->walked[k] < 0 ? (char *)call->number[k] : room[k];
        steps[k] = held ? 0 : bytes;
        if (k < call->n_out || call->walked[k] < 0) continue;
        if (held) load_piece(call, k, room[k], bytes, at[k], 0, 1);
        else load_tile(call, k, room[k], at[k], step, rows, columns);
    }
    call->loop(ptrs, steps, rows * columns, call->constants);
    for (int k = 0; k < call->n_out; k++)
        store_tile(call, k, room[k], at[k], walk_steps[call->walked[k]], rows, columns);
}

static void run_tiles(void *arg, char *const *walk_ptrs, const int64_t *walk_steps, int64_t n_rows) {
    const general *call = arg;
    _Alignas(64) buffers room;
    int64_t widest = nx_least(call->width, TILE), most = PIECE / widest;
    for (int64_t row = 0, rows; row < n_rows; row += rows) {
        rows = nx_least(n_rows - row, most);
        for (int64_t column = 0, columns; column < call->width; column += columns) {
            char *at[NX_MAX_OPERANDS];
            columns = nx_least(call->width - column, widest);
            for (int k = 0; k < call->n; k++) {
                int w = call->walked[k];
                if (w >= 0) at[k] = walk_ptrs[w] + walk_steps[w] * row + call->column_step[k] * column;
            }
            run_tile(call, at, walk_steps, rows, columns, room);
        }
    }
}

/* ---- short rows that follow each other, beside a row or an element of each row that is the same throughout: as many rows at a
 * time as fit, for which that is written down as often ---------------------------------------------------------------------- */
/* One element a row. */
static void repeat_elements(const general *call, int k, const char *at, int64_t row_step, int64_t n, char *room) {
    _Alignas(16) char column[PIECE / 2 * NX_MAX_ELEMENT_BYTES];
    int64_t bytes = (int64_t)nx_dtype_bytes(call->computing), row = call->width * bytes;
    nx__cast_fn *move = nx__moves_get()->move[bytes];
    load_piece(call, k, column, bytes, at, row_step, n);
    for (int64_t j = 0; call->width < SHORT && j < call->width; j++) move(room + j * bytes, row, column, bytes, n);
    for (int64_t r = 0; call->width >= SHORT && r < n; r++) move(room + r * row, bytes, column + r * bytes, 0, call->width);
}

/* Elements of n rows of operand k, width each, side by side: where they are, or in `room`. */
static char *load_rows(const general *call, int k, char *at, int64_t row_step, int64_t n, char *room) {
    int64_t bytes = (int64_t)nx_dtype_bytes(call->computing), item = (int64_t)nx_dtype_bytes(call->dtype[k]), width = call->width;
    if (call->column_step[k] == 0 && row_step == 0) load_piece(call, k, room, bytes, at, 0, 1);
    else if (call->column_step[k] == 0) repeat_elements(call, k, at, row_step, n, room);
    else if (row_step == 0) {
        load_piece(call, k, room, bytes, at, item, width);
        for (int64_t r = 1; r < n; r++) memcpy(room + r * width * bytes, room, (size_t)(width * bytes));
    } else if (is_plain(call, k)) return at;
    else load_piece(call, k, room, bytes, at, item, n * width);
    return room;
}

static void run_rows(void *arg, char *const *walk_ptrs, const int64_t *walk_steps, int64_t n_rows) {
    const general *call = arg;
    _Alignas(64) buffers room;
    int64_t bytes = (int64_t)nx_dtype_bytes(call->computing), together = nx_least(n_rows, PIECE / call->width);
    char *ptrs[NX_MAX_OPERANDS];
    int64_t steps[NX_MAX_OPERANDS];
    for (int64_t done = 0, n; done < n_rows; done += n) {
        n = nx_least(n_rows - done, together);
        for (int k = 0; k < call->n; k++) {
            int w = call->walked[k];
            int64_t step = w < 0 ? 0 : walk_steps[w];
            char *at = w < 0 ? (char *)call->number[k] : walk_ptrs[w] + done * step;
            bool writes = k < call->n_out, same = step == 0 && done > 0; /* it is there from the rows before */
            steps[k] = step == 0 && (w < 0 || call->column_step[k] == 0) ? 0 : bytes;
            if (writes) ptrs[k] = is_plain(call, k) ? at : room[k];
            else if (!same) ptrs[k] = w < 0 ? at : load_rows(call, k, at, step, n, room[k]);
        }
        call->loop(ptrs, steps, n * call->width, call->constants);
        for (int k = 0; k < call->n_out; k++) {
            int w = call->walked[k];
            if (ptrs[k] != room[k]) continue;
            store_piece(call, k, walk_ptrs[w] + done * walk_steps[w], (int64_t)nx_dtype_bytes(call->dtype[k]), room[k], bytes,
                        n * call->width);
        }
    }
}

static void run_direct(void *arg, char *const *walk_ptrs, const int64_t *walk_steps, int64_t n) {
    const general *call = arg;
    char *ptrs[NX_MAX_OPERANDS];
    int64_t steps[NX_MAX_OPERANDS];
    for (int k = 0; k < call->n; k++) {
        int w = call->walked[k];
        ptrs[k] = w < 0 ? (char *)call->number[k] : walk_ptrs[w];
        steps[k] = w < 0 ? 0 : walk_steps[w];
    }
    call->loop(ptrs, steps, n, call->constants);
}

/* The same, row by row. */
static void run_direct_rows(void *arg, char *const *walk_ptrs, const int64_t *walk_steps, int64_t n_rows) {
    const general *call = arg;
    char *ptrs[NX_MAX_OPERANDS];
    int64_t steps[NX_MAX_OPERANDS], down[NX_MAX_OPERANDS];
    for (int k = 0; k < call->n; k++) {
        int w = call->walked[k];
        ptrs[k] = w < 0 ? (char *)call->number[k] : walk_ptrs[w];
        steps[k] = w < 0 ? 0 : call->column_step[k];
        down[k] = w < 0 ? 0 : walk_steps[w];
    }
    for (int64_t r = 0; r < n_rows; r++) {
        call->loop(ptrs, steps, call->width, call->constants);
        for (int k = 0; k < call->n; k++) ptrs[k] += down[k];
    }
}

static void add_operand(general *call, nx_walk *walk, const nx_value *value, bool exact) {
    int k = call->n++;
    call->walked[k] = -1;
    if (value->tag != NX_TAG_TENSOR) {
        nx_number_store(exact ? call->computing : call->rounding, value, call->number[k]);
        if (!exact && call->computing != call->rounding)
            nx_cast(call->computing, call->number[k], 0, call->rounding, call->number[k], 0, 1);
        return;
    }
    call->walked[k] = (int8_t)walk->n;
    call->dtype[k] = value->array->dtype;
    call->exact[k] = exact && value->array->numel == 1;
    call->casts = call->casts || !is_plain(call, k);
    nx_walk_add(walk, value->array);
}

static bool is_single(const nx_value *value) {
    return value->tag != NX_TAG_TENSOR || value->array->numel == 1;
}

static bool computes_wide(const nx_point *point, const nx_value *in, nx_dtype common) {
    if (common != NX_F16 && common != NX_BF16) return false;
    for (int k = 0; k < point->n_in; k++) {
        const nx_value *value = &in[point->in_param[k]];
        bool other = value->tag != NX_TAG_TENSOR || value->array->dtype != common;
        if (point->exact >> k & 1 && other && is_single(value)) return true;
    }
    return false;
}

/* The dtype in which the kernel computes; src/pass/private.h has it, so that fused calls compute in the same. */
nx_dtype nx__point_computing(const nx_point *point, const nx_value *in, nx_dtype common) {
    /* What is only stored computes in a wider type; the entry's `types` row says which operators do. */
    if (nx_is_stored(common)) return nx_is_float(common) ? NX_F32 : nx_is_complex(common) ? NX_C64 : NX_I64;
    return computes_wide(point, in, common) ? NX_F32 : common;
}

/* The dimension beside the last one that makes tiles: the one before it where rows are short; one along which the elements of an
 * operand lie side by side that are far from each other in a row. -1: none. */
static int tiled_with(const general *call, const nx_walk *walk) {
    int last = walk->ndim - 1;
    int64_t bytes = (int64_t)nx_dtype_bytes(call->computing);
    if (last < 1 || walk->size[last] == 0) return -1;
    if (walk->size[last] < NX__NARROW) return nx__walk_is_narrow(walk) ? last - 1 : -1;
    for (int k = call->n_out; k < call->n; k++) {
        int w = call->walked[k];
        if (w < 0 || call->dtype[k] != call->computing || walk->step[w][last] < FAR) continue;
        for (int d = last - 1; d >= 0; d--)
            if (walk->step[w][d] == bytes && walk->size[d] >= NX__NARROW) return d;
    }
    return -1;
}

/* Whether rows are short and follow each other in all operands but those that have one row, or one element of a row, for all. */
static bool are_rows(const general *call, const nx_walk *walk) {
    int last = walk->ndim - 1;
    if (last < 1 || walk->size[last] < 2 || walk->size[last] > PIECE / 4 || walk->size[last - 1] < 4) return false;
    for (int k = 0; k < call->n; k++) {
        int w = call->walked[k];
        if (w < 0) continue;
        int64_t item = (int64_t)nx_dtype_bytes(call->dtype[k]), row = walk->step[w][last - 1], column = walk->step[w][last];
        bool follows = column == item && row == walk->size[last] * item;
        if (column == 0 && row != 0 && walk->size[last] > FEW) return false; /* a loop over each row is as quick */
        if (!follows && (k < call->n_out || (column != 0 && (column != item || row != 0)))) return false;
    }
    return true;
}

/* The last dimension is the inner function's own. */
static void spread_rows(general *call, nx_walk *walk, int64_t cost, nx_walk_fn *inner) {
    int last = --walk->ndim;
    call->width = walk->size[last];
    for (int k = 0; k < call->n; k++)
        if (call->walked[k] >= 0) call->column_step[k] = walk->step[call->walked[k]][last];
    nx_walk_spread(walk, cost * call->width, inner, call);
}

static void spread(general *call, nx_walk *walk, int64_t cost) {
    int last = walk->ndim - 1, other = tiled_with(call, walk);
    bool buffers = call->casts, is_long = last >= 0 && walk->size[last] >= SHORT;
    if (are_rows(call, walk)) {
        spread_rows(call, walk, cost, run_rows);
        return;
    }
    if (other >= 0) {
        nx__walk_swap(walk, other, last - 1);
        spread_rows(call, walk, cost, run_tiles);
        return;
    }
    for (int k = 0; is_long && k < walk->n; k++)
        buffers = buffers || lies_apart(call, walk->step[k][last], (int64_t)nx_dtype_bytes(call->computing));
    if (!buffers && last > 0) spread_rows(call, walk, cost, run_direct_rows);
    else nx_walk_spread(walk, cost, buffers ? run_buffered : run_direct, call);
}

static nx_status run_general(const nx_run *run, const nx_point *point, const nx_value *in,
                             const nx_value *out) {
    general call;
    nx_walk walk;
    call.n = 0;
    call.n_out = point->n_out;
    call.casts = false;
    if (point->n_out + point->n_in > NX_MAX_OPERANDS || point->n_constants > NX_COUNT(call.constants)) {
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: more than %d operands", run->op->def->name, NX_MAX_OPERANDS);
    }
    call.rounding = nx_point_dtype(point, in);
    call.computing = nx__point_computing(point, in, call.rounding);
    call.loop = nx_point_loop(point, in, call.computing);
    if (call.loop == NULL) return fail_dtype(run, call.rounding);
    nx_walk_start(&walk, out[0].array->ndim, out[0].array->sizes);
    for (int k = 0; k < point->n_out; k++) add_operand(&call, &walk, &out[k], false);
    for (int k = 0; k < point->n_in; k++)
        add_operand(&call, &walk, &in[point->in_param[k]], (point->exact >> k & 1) && call.rounding != NX_C32);
    cast_constants(point, in, call.computing, call.constants);
    call.takes_apart = point->arithmetic && !call.casts && call.computing != NX_F16 && call.computing != NX_BF16;
    nx_walk_merge(&walk);
    spread(&call, &walk, cost_of(point, call.computing) + (call.casts ? CAST : 0));
    return NX_OK;
}

nx_status nx_point_kernel(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_point *point = run->op->def->point;
    char *ptrs[16];
    int64_t steps[16];
    number numbers[16];
    nx_const constants[8];
    if (NX_UNLIKELY(point->divisor) && nx_point_may_fail(point, nx_point_dtype(point, in)) && out[0].array->numel)
        NX_TRY(check_divisor(run, &in[point->divisor - 1]));
    if (NX_UNLIKELY(point->result == NX_POINT_BOOL || !gather_plain(point, in, out, ptrs, steps, numbers)))
        return run_general(run, point, in, out);
    nx_dtype dtype = (nx_dtype)out[0].array->dtype;
    int64_t numel = out[0].array->numel;
    nx_loop_fn *loop = find_loop(point, in, dtype);
    if (NX_UNLIKELY(loop == NULL)) return run_general(run, point, in, out);
    cast_constants(point, in, dtype, constants);
    if (NX_LIKELY(!nx_is_long(numel, cost_of(point, dtype)) || point->n_out + point->n_in > NX_MAX_OPERANDS)) {
        loop(ptrs, steps, numel, constants);
        return NX_OK;
    }
    plain call = {loop, ptrs, steps, constants, point->n_out + point->n_in};
    return nx_parallel(numel, nx_grain(cost_of(point, dtype)), run_part, &call);
}

/* ---- a product and a sum in one pass: pair.c ----------------------------------------------------------------- */
typedef nx_pair_fn *const pairs[2][NX_N_PAIRS]; /* float, double */
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern pairs nx__pairs)

nx_pair_fn *nx_pair_get(nx_pair pair, nx_dtype dtype) {
    static pairs *const of_level[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__pairs)};
    return dtype == NX_F32 || dtype == NX_F64 ? (*of_level[nx_level()])[dtype == NX_F64][pair] : NULL;
}
