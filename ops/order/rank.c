/* Kernels of rank.op. As in order.c each row along one dimension is brought into a buffer of float, double or int64_t,
 * in which every dtype is exact; rows are independent and are split over threads. NaN is the largest. Next: order.h. */

#include "gen/kernels.h"
#include "shared/order.h"
#include "shared/packed.h"

/* ---- one element of each row: number k, the middle one, the most frequent one -------------------------------- */
typedef enum rank { RANK_KTH, RANK_MEDIAN, RANK_NANMEDIAN, RANK_MODE } rank;
typedef struct job {
    const nx_array *self;
    char *values; /* row by row, of self's dtype */
    int64_t *indices;
    int dim;
    rank rank;
    int64_t k;
} job;

enum { MANY = 4096, SAMPLE = 512, AROUND = 40 }; /* AROUND: between three and four standard deviations of a place in a sample */
#define DEFINE(real, code)                                                                                       \
    /* The number that stands at place k, from 0, once the n of x, none NaN, are in order; x is left half in order. */ \
    static real part_##real(real *x, int64_t n, int64_t k) {                                                     \
        for (int64_t low = 0, high = n - 1; low < high;) {                                                       \
            const real a = x[low], b = x[low + (high - low) / 2], c = x[high];                                   \
            const real middle = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);               \
            int64_t i = low, j = high;                                                                           \
            while (i <= j) {                                                                                     \
                while (x[i] < middle) i++;                                                                       \
                while (middle < x[j]) j--;                                                                       \
                if (i > j) break;                                                                                \
                const real kept = x[i];                                                                          \
                x[i++] = x[j];                                                                                   \
                x[j--] = kept;                                                                                   \
            }                                                                                                    \
            if (k <= j) high = j;                                                                                \
            else if (k >= i) low = i;                                                                            \
            else break;                                                                                          \
        }                                                                                                        \
        return x[k];                                                                                             \
    }                                                                                                            \
    /* The same of many: those between two numbers of a sample, around where number k should be, are kept. */    \
    static real select_##real(real *x, int64_t n, int64_t k) {                                                   \
        while (n > MANY) {                                                                                       \
            real sample[SAMPLE];                                                                                 \
            for (int64_t i = 0; i < SAMPLE; i++) sample[i] = x[n / SAMPLE * i];                                  \
            const int64_t at = (int64_t)((double)k / (double)n * SAMPLE);                                        \
            const real a = part_##real(sample, SAMPLE, at < AROUND ? 0 : at - AROUND);                           \
            const real b = part_##real(sample, SAMPLE, at + AROUND < SAMPLE ? at + AROUND : SAMPLE - 1);         \
            const bool lowest = at < AROUND, highest = at + AROUND >= SAMPLE;                                    \
            int64_t below = 0, among = 0, kept = 0;                                                              \
            for (int64_t i = 0; i < n; i++) {                                                                    \
                const bool is_above = lowest | (x[i] >= a);                                                      \
                below += !is_above;                                                                              \
                among += is_above & (highest | (x[i] <= b));                                                     \
            }                                                                                                    \
            if (k < below || k >= below + among || among > n / 2) break;                                         \
            for (int64_t i = 0; i < n; i++) {                                                                    \
                const real number = x[i];                                                                        \
                x[kept] = number;                                                                                \
                kept += (lowest | (number >= a)) & (highest | (number <= b));                                    \
            }                                                                                                    \
            k -= below;                                                                                          \
            n = among;                                                                                           \
        }                                                                                                        \
        return part_##real(x, n, k);                                                                             \
    }                                                                                                            \
    /* Which element of x is at place k, from 1, in order: of equal ones the first come first, NaN come last. */ \
    static int64_t kth_##real(const real *x, int64_t n, int64_t n_nan, int64_t k, real *room) {                  \
        int64_t made = 0, i = 0;                                                                                 \
        for (int64_t q = 0; q < n; q++) {                                                                        \
            room[made] = x[q];                                                                                   \
            made += x[q] == x[q];                                                                                \
        }                                                                                                        \
        if (k > n - n_nan) {                                                                                     \
            for (int64_t left = k - (n - n_nan); left > 0; i++) left -= x[i] != x[i];                            \
            return i - 1;                                                                                        \
        }                                                                                                        \
        const real found = select_##real(room, made, k - 1);                                                     \
        for (int64_t q = 0; q < n; q++) k -= x[q] < found;                                                       \
        for (; k > 0; i++) k -= x[i] == found;                                                                   \
        return i - 1;                                                                                            \
    }                                                                                                            \
    /* Which of the n elements of x is meant; `at` has room for four times as many. */                           \
    static int64_t find_##real(const job *j, const real *x, int64_t n, int64_t *at) {                            \
        int64_t k = j->k, n_nan = 0, first_nan = 0;                                                              \
        for (int64_t i = n - 1; i >= 0; i--) {                                                                   \
            if (x[i] == x[i]) continue;                                                                          \
            first_nan = i;                                                                                       \
            n_nan++;                                                                                             \
        }                                                                                                        \
        if (n_nan && (j->rank == RANK_MEDIAN || n_nan == n)) return first_nan;                                   \
        if (j->rank == RANK_MEDIAN || j->rank == RANK_NANMEDIAN) k = (n - n_nan - 1) / 2 + 1;                    \
        if (j->rank != RANK_MODE) return kth_##real(x, n, n_nan, k, (real *)at);                                 \
        at = nx__order_all_##real(x, n, false, at);                                                              \
        int64_t best = at[0], most = 0;                                                                          \
        for (int64_t i = 0, run = 0; i < n; i++) {                                                               \
            run++;                                                                                               \
            if (i + 1 < n && x[at[i + 1]] == x[at[i]]) continue;                                                 \
            if (run > most) {                                                                                    \
                most = run;                                                                                      \
                best = at[i];                                                                                    \
            }                                                                                                    \
            run = 0;                                                                                             \
        }                                                                                                        \
        return best;                                                                                             \
    }                                                                                                            \
    static void rank_row_##real(const job *j, int64_t row, real *x, int64_t *at) {                               \
        int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)j->self->dtype);                                       \
        nx__order_load(code, (char *)x, j->self, j->dim, row);                                                   \
        int64_t found = find_##real(j, x, nx__row_length(j->self, j->dim), at);                                  \
        j->indices[row] = found;                                                                                 \
        nx_cast((nx_dtype)j->self->dtype, j->values + row * bytes, 0, code, (const char *)&x[found], 0, 1);      \
    }
DEFINE(float, NX_F32)
DEFINE(double, NX_F64)
DEFINE(int64_t, NX_I64)
#undef DEFINE

static nx_status rank_rows(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    int64_t n = nx__row_length(j->self, j->dim);
    size_t bytes;
    NX_TRY(nx_bytes_of(n, 40, &bytes));
    char *room = nx_room_new(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    int64_t *at = (int64_t *)(room + n * 8);
    nx_dtype dtype = nx__order_dtype(j->self->dtype);
    for (int64_t row = begin; row < end; row++) {
        if (dtype == NX_F32) rank_row_float(j, row, (float *)room, at);
        else if (dtype == NX_F64) rank_row_double(j, row, (double *)room, at);
        else rank_row_int64_t(j, row, (int64_t *)room, at);
    }
    nx_room_free(room);
    return NX_OK;
}

/* What lies row by row at `data` in `dtype`, copied into `out`, whose sizes it has. */
static void copy_rows_into(nx_array *out, nx_dtype dtype, void *data) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array rows;
    nx__packed_over(&rows, dims, out, dtype, data);
    nx_copy_cast(out, &rows);
}

static nx_status run_rank(rank rank, const nx_array *self, int64_t k, int64_t dim, nx_array *values,
                          nx_array *indices) {
    if (values->numel == 0) return NX_OK;
    int64_t n = nx__row_length(self, (int)dim), rows = self->numel / n;
    size_t bytes;
    NX_TRY(nx_bytes_of(rows, 24, &bytes));
    char *room = nx_room_new(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    job j = {self, room + rows * 8, (int64_t *)room, (int)dim, rank, k};
    nx_status status = nx_parallel(rows, nx__row_grain(n), rank_rows, &j);
    if (status == NX_OK) {
        copy_rows_into(values, (nx_dtype)self->dtype, j.values);
        copy_rows_into(indices, NX_I64, j.indices);
    }
    nx_room_free(room);
    return status;
}

nx_status nx__kth_rows(nx_run *run, const nx_array *self, int64_t k, int64_t dim, nx_array *values, nx_array *indices) {
    return run_rank(RANK_KTH, self, k, dim, values, indices);
}
nx_status nx__median_rows(nx_run *run, const nx_array *self, int64_t dim, bool leaves_nan, nx_array *values, nx_array *indices) {
    return run_rank(leaves_nan ? RANK_NANMEDIAN : RANK_MEDIAN, self, 0, dim, values, indices);
}
nx_status nx__mode_rows(nx_run *run, const nx_array *self, int64_t dim, nx_array *values, nx_array *indices) {
    return run_rank(RANK_MODE, self, 0, dim, values, indices);
}

/* ---- searchsorted: by halving; a NaN goes behind all --------------------------------------------------------- */
typedef struct search {
    const char *sequence, *values;
    const int64_t *sorter; /* NULL: the sequence is sorted itself */
    int64_t *places;
    int64_t n, per_row; /* elements of a row of the sequence; values that are looked up in it, 0: there is one row */
    bool right, integers;
} search;

/* Whether a stands in front of the place of b, on the right or the left of its equals. */
#define RIGHT(a, b) (!((a) > (b)))
#define LEFT(a, b) (!((a) >= (b)))
#define IN_FRONT(a, b) (s->right ? RIGHT(a, b) : LEFT(a, b))
/* How many of n > 0 sorted numbers stand in front of each of some values: halves are taken or left without a branch, for several
 * values in turn, whose loads do not wait for each other. */
enum { ABREAST = 8 };
#define COUNT(name, real, in_front)                                                                              \
    static void name(const real *x, int64_t n, const real *b, int64_t n_values, int64_t *places) {               \
        int64_t at[ABREAST] = {0};                                                                               \
        for (; n > 1 && n_values == ABREAST; n -= n / 2) {                                                       \
            for (int k = 0; k < ABREAST; k++) at[k] += n / 2 * (int64_t)in_front(x[at[k] + n / 2 - 1], b[k]);    \
        }                                                                                                        \
        for (; n > 1; n -= n / 2) {                                                                              \
            for (int k = 0; k < n_values; k++) at[k] += n / 2 * (int64_t)in_front(x[at[k] + n / 2 - 1], b[k]);   \
        }                                                                                                        \
        for (int k = 0; k < n_values; k++) places[k] = at[k] + in_front(x[at[k]], b[k]);                         \
    }
COUNT(count_right, double, RIGHT)
COUNT(count_left, double, LEFT)
COUNT(count_whole_right, int64_t, RIGHT)
COUNT(count_whole_left, int64_t, LEFT)
#undef COUNT

/* Values begin to end of a sequence that is sorted, piece by piece of values that are looked up in the same row. */
static void search_sorted(const search *s, int64_t begin, int64_t end) {
    for (int64_t i = begin, count; i < end; i += count) {
        int64_t row = s->per_row ? i / s->per_row : 0, last = s->per_row ? nx_least(end, (row + 1) * s->per_row) : end;
        count = nx_least(last - i, ABREAST);
        if (s->integers)
            (s->right ? count_whole_right : count_whole_left)((const int64_t *)s->sequence + row * s->n, s->n,
                                                              (const int64_t *)s->values + i, count, s->places + i);
        else
            (s->right ? count_right : count_left)((const double *)s->sequence + row * s->n, s->n, (const double *)s->values + i, count,
                                                  s->places + i);
    }
}

static nx_status search_values(void *arg, int64_t begin, int64_t end) {
    const search *s = arg;
    if (s->sorter == NULL && s->n > 0) return search_sorted(s, begin, end), NX_OK;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = s->per_row ? i / s->per_row * s->n : 0, low = 0, high = s->n;
        while (low < high) {
            int64_t middle = low + (high - low) / 2, k = row + (s->sorter ? s->sorter[row + middle] : middle);
            bool in_front = s->integers ? IN_FRONT(((const int64_t *)s->sequence)[k], ((const int64_t *)s->values)[i])
                                        : IN_FRONT(((const double *)s->sequence)[k], ((const double *)s->values)[i]);
            if (in_front) low = middle + 1;
            else high = middle;
        }
        s->places[i] = low;
    }
    return NX_OK;
}

static nx_status check_sorter(const nx_run *run, const search *s, int64_t numel) {
    for (int64_t i = 0; s->sorter && i < numel; i++) {
        if (s->sorter[i] >= 0 && s->sorter[i] < s->n) continue;
        return nx_fail(NX_RUNTIME, "%s: sorter index out of range", nx_op_name(run->op));
    }
    return NX_OK;
}

nx_status nx__search_rows(nx_run *run, const nx_array *sequence, const nx_array *values, bool right, nx_value side,
                          const nx_array *sorter, nx_array *out) {
    bool named = side.tag == NX_TAG_STR;
    bool integers = !nx_is_float((nx_dtype)sequence->dtype) && !nx_is_float((nx_dtype)values->dtype);
    if (named && strcmp(side.str, "left") != 0 && strcmp(side.str, "right") != 0)
        return nx_fail(NX_RUNTIME, "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side.str);
    if (named && right && strcmp(side.str, "left") == 0)
        return nx_fail(NX_RUNTIME, "torch.searchsorted(): side and right can't be set to opposites, got side of left "
                                   "while right was True");
    if (values->numel == 0) return NX_OK;
    nx_dtype in = integers ? NX_I64 : NX_F64;
    search s = {.n = sequence->sizes[sequence->ndim - 1], .integers = integers};
    s.right = right || (named && side.str[0] == 'r');
    if (sequence->ndim > 1) s.per_row = values->sizes[values->ndim - 1];
    size_t bytes;
    nx_status status = nx_bytes_of(values->numel, sizeof(int64_t), &bytes);
    if (status == NX_OK && (s.places = nx_room_new(bytes)) == NULL) status = nx_fail_memory(bytes);
    if (status == NX_OK) status = nx__packed_new(sequence, in, &s.sequence);
    if (status == NX_OK) status = nx__packed_new(values, in, &s.values);
    if (status == NX_OK && sorter) status = nx__packed_new(sorter, NX_I64, &s.sorter);
    if (status == NX_OK) status = check_sorter(run, &s, sequence->numel);
    if (status == NX_OK) status = nx_parallel(values->numel, 512, search_values, &s);
    if (status == NX_OK) copy_rows_into(out, NX_I64, s.places);
    nx_room_free((void *)s.sequence);
    nx_room_free((void *)s.values);
    nx_room_free((void *)s.sorter);
    nx_room_free(s.places);
    return status;
}

/* ---- how often each number is there --------------------------------------------------------------------------------- */
enum { COUNTED = 512, COUNTING = 32 }; /* numbers that are checked together; what counting one costs */
typedef struct counting { const nx_run *run; const int64_t *x; int64_t numel, n; int64_t *counts; } counting;

/* Each part counts for itself, the only one where the counts shall be; whole numbers may be added up in any order. */
static nx_status count_part(void *arg, int64_t begin, int64_t end) {
    const counting *c = arg;
    const uint64_t most = (uint64_t)(c->n - 1);
    const bool only = end - begin == c->numel;
    size_t bytes;
    NX_TRY(nx_bytes_of(c->n, sizeof(int64_t), &bytes));
    int64_t *own = only ? c->counts : nx_room_new(bytes + 1);
    if (own == NULL) return nx_fail_memory(bytes);
    if (!only) memset(own, 0, bytes);
    uint64_t bad = c->n == 0 ? 1 : 0;
    for (int64_t i = begin, count; i < end && !bad; i += count) {
        count = nx_least(end - i, COUNTED);
        for (int64_t q = i; q < i + count; q++) bad |= (uint64_t)c->x[q] | (most - (uint64_t)c->x[q]);
        bad >>= 63; /* one is negative or above the last */
        for (int64_t q = i; !bad && q < i + count; q++) own[c->x[q]]++;
    }
    for (int64_t k = 0; k < c->n && !bad && !only; k++)
        if (own[k]) atomic_fetch_add_explicit((_Atomic int64_t *)&c->counts[k], own[k], memory_order_relaxed);
    if (!only) nx_room_free(own);
    if (!bad) return NX_OK;
    return nx_fail(NX_RUNTIME, "%s: bincount only supports 1-d non-negative integral inputs.", nx_op_name(c->run->op));
}

nx_status nx__count_numbers(nx_run *run, const nx_array *self, nx_array *out) {
    counting c = {run, NULL, self->numel, out->numel, out->data};
    int64_t *packed = NULL, grain = nx_grain(COUNTING);
    memset(out->data, 0, (size_t)out->numel * sizeof(int64_t));
    if (!self->contiguous) NX_TRY(nx__packed_new(self, NX_I64, &packed));
    c.x = packed ? packed : self->data;
    nx_status status = nx_parallel(self->numel, grain > c.n ? grain : c.n, count_part, &c);
    nx_room_free(packed);
    return status;
}
