/* support: what the generated shape rules, kernels and formulas share. Only generated code includes it. */
#ifndef NX_GEN_SUPPORT_H
#define NX_GEN_SUPPORT_H

#include "iter/iter.h"
#include "gen/ops.h"

#include <math.h>

/* ---- small values --------------------------------------------------------------------------------- */
/* Sum, difference and product of two Python numbers, conjugate and logarithm of one, as Python has them; `parts` is room
 * for a complex result. */
nx_value nx__number_add(nx_value a, nx_value b, double parts[2]);
nx_value nx__number_sub(nx_value a, nx_value b, double parts[2]);
nx_value nx__number_mul(nx_value a, nx_value b, double parts[2]);
nx_value nx__number_conj(nx_value a, double parts[2]);
nx_value nx__number_log(nx_value a, double parts[2]);
static inline bool nx__number_is(const nx_value *a, double f) {
    return nx_value_as_float(a) == f && (a->tag != NX_TAG_COMPLEX || a->parts[1] == 0);
}
bool nx__ints_equal(const int64_t *a, int n_a, const int64_t *b, int n_b);
bool nx__ints_have(const int64_t *at, int n, int64_t x);
/* A list of n integers into `out`: with two places changed over (nothing happens to an empty list), with place k set to x,
 * with x put in before place k, without place k, the inverse of a permutation, with another list behind it. */
void nx__ints_swap(const int64_t *at, int n, int64_t i, int64_t j, int64_t *out);
void nx__ints_set(const int64_t *at, int n, int64_t k, int64_t x, int64_t *out);
void nx__ints_insert(const int64_t *at, int n, int64_t k, int64_t x, int64_t *out);
void nx__ints_remove(const int64_t *at, int n, int64_t k, int64_t *out);
int nx__ints_without_ones(const int64_t *at, const int64_t *size, int n, const int64_t *dims, int n_dims, int64_t *out);
void nx__ints_inverse(const int64_t *at, int n, int64_t *out);
/* Number k of n, 0 where there is none, and how many of n are numbers first .. end - 1: a model file's lists may be shorter than
 * their operator's checks expect. */
static inline int64_t nx__int_at(const int64_t *at, int64_t n, int64_t k) { return k >= 0 && k < n ? at[k] : 0; }
static inline int64_t nx__part_length(int64_t n, int64_t first, int64_t end) {
    if (end > n) end = n;
    return first >= 0 && first < end ? end - first : 0;
}
void nx__ints_join(const int64_t *at, int n, const int64_t *behind, int n_behind, int64_t *out);
/* The size that two sizes broadcast to. */
NX_MUST_USE nx_status nx__ints_broadcast(const char *op, const int64_t *a, int n_a, const int64_t *b, int n_b,
                                         int64_t *out, int *n);
/* The sum, or the largest number instead of what is larger: no memory has such a size. */
static inline int64_t nx__plus(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}
static inline int64_t nx__clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
/* "[2, 3]" with separator ", ", "2x3" with "x". Returns `room`'s text, cut if it does not fit. */
const char *nx__ints_text(char *room, size_t bytes, const int64_t *at, int n, const char *separator);

/* ---- shape rules ---------------------------------------------------------------------------------- */
NX_MUST_USE nx_status nx__check_ndim(const char *op, int64_t n);
NX_MUST_USE nx_status nx__check_list(const char *op, int64_t n);
/* The dimensions that `dims` names, wrapped, in the order given; all of them for NONE and the empty list. */
NX_MUST_USE nx_status nx__dims_of(const char *op, const nx_value *dims, int ndim, int64_t *out, int *n);
nx_status nx__fail_dtype(const char *op, nx_dtype dtype);
nx_status nx__fail_same_dtype(const char *op, const nx_array *a, const char *a_name, const nx_array *b,
                              const char *b_name);
nx_status nx__fail_same_device(const char *op, const nx_array *a, const nx_array *b);
/* Fails unless `dtype` is in `admitted`, a bit a dtype. */
NX_MUST_USE static inline nx_status nx__check_dtype(const char *op, nx_dtype dtype, uint32_t admitted) {
    return NX_LIKELY(admitted >> dtype & 1) ? NX_OK : nx__fail_dtype(op, dtype);
}
NX_MUST_USE static inline nx_status nx__check_same_dtype(const char *op, const nx_array *a, const char *a_name,
                                                         const nx_array *b, const char *b_name) {
    return NX_LIKELY(a->dtype == b->dtype) ? NX_OK : nx__fail_same_dtype(op, a, a_name, b, b_name);
}
NX_MUST_USE static inline nx_status nx__check_same_device(const char *op, const nx_array *a, const nx_array *b) {
    return NX_LIKELY(nx_device_same(a->device, b->device)) ? NX_OK : nx__fail_same_device(op, a, b);
}
/* A text must be one of `words`; NONE where it may be absent. */
NX_MUST_USE nx_status nx__check_choice(const char *op, const char *name, const nx_value *value, const char *const *words,
                                       int n_words);
nx_status nx__fail_argument_dtype(const char *op, const char *name, const nx_array *given, nx_dtype expected);
/* Elements that one result of a reduction over `dims` takes. */
NX_MUST_USE nx_status nx__count(const char *op, const int64_t *size, int n, const nx_value *dims, int64_t *out);
/* How many of start, start + step ... lie before `end`. */
NX_MUST_USE nx_status nx__arange_size(const char *op, nx_value start, nx_value end, nx_value step, int64_t *out);
/* layout must be strided or absent, pin_memory false or absent. */
NX_MUST_USE nx_status nx__check_options(const char *op, const nx_value *layout, const nx_value *pin_memory);
/* New memory of these sizes, row-major or as `format` says (NONE: row-major). */
NX_MUST_USE nx_status nx__meta_new(const char *op, nx_dtype dtype, nx_device device, const int64_t *size,
                                   int n, nx_value format, nx_meta *out);
/* The strides become those of row-major order. */
NX_MUST_USE nx_status nx__meta_contiguous(nx_meta *out);
/* New memory like `array`; NONE and preserve keep the order of its dimensions in memory. */
NX_MUST_USE nx_status nx__meta_like(const char *op, const nx_array *array, nx_value format, nx_meta *out);
/* channels_last (of rank 5: channels_last_3d) if all tensors of the list lie so and not row by row. */
nx_value nx__common_format(const nx_value *tensors);
/* The same of the first of n tensors for which it is not row by row. */
nx_value nx__any_format(int n, const nx_array *const *tensors);
nx_value nx__dense_format(const nx_array *a);
/* Two dimensions change places, in memory they stay where they are. */
void nx__meta_swap(int i, int j, nx_meta *out);
void nx__meta_order(const int64_t *order, int n, nx_meta *out); /* from the slowest dimension to the fastest */
/* Exactly `array`: for operators that write it. */
void nx__meta_same(const nx_array *array, nx_meta *out);
/* A view of argument `of`; size and stride follow. Offsets count from the viewed array's element 0. */
void nx__meta_view(const nx_array *array, int of, nx_meta *out);
/* What a view of a tensor of these sizes has: `in` are the arguments of the view's shape rule, whose first one is set. */
NX_MUST_USE nx_status nx__meta_part(const char *op, const int64_t *size, int n, nx_meta_fn *view, nx_value *in, nx_meta *out);

/* ---- kernels -------------------------------------------------------------------------------------- */
/* The generator to draw from: the argument, or the device's own. */
NX_MUST_USE nx_status nx__run_generator(nx_run *run, const nx_value *argument, nx_generator **out);
/* Leaves the results as they are. */
nx_status nx__kernel_nothing(nx_run *run, const nx_value *in, nx_value *out);

/* ---- formulas: results are new references --------------------------------------------------------- */
NX_MUST_USE nx_status nx__sum_to(nx_tensor *g, const int64_t *size, int n, nx_tensor **out);
NX_MUST_USE nx_status nx__to_like(nx_tensor *g, const nx_array *like, nx_tensor **out); /* dtype and device */
NX_MUST_USE nx_status nx__zeros_as(const nx_array *like, const int64_t *size, int n, nx_tensor **out); /* dtype and device */
NX_MUST_USE nx_status nx__real_part(nx_tensor *x, nx_tensor **out); /* of a complex tensor */
NX_MUST_USE nx_status nx__to_dtype(nx_tensor *x, nx_dtype dtype, nx_tensor **out);
NX_MUST_USE nx_status nx__zeros_like(nx_tensor *g, nx_tensor **out);
/* The one element of a contiguous tensor of int64, wherever it lies. */
NX_MUST_USE nx_status nx__number_of(const char *op, nx_tensor *x, int64_t *out);
/* The gradient of an argument gets its dtype, and its size if `sums`. Replaces *grad; NULL stays. */
NX_MUST_USE nx_status nx__grad_finish(nx_tensor **grad, const nx_value *argument, bool sums);
/* The tensor at `t`, which then holds none. */
static inline nx_tensor *nx__hand_on(nx_tensor **t) {
    nx_tensor *tensor = *t;
    *t = NULL;
    return tensor;
}
/* Puts a reference to `tensor` behind the others of a list that is made here; starts as {0}. */
NX_MUST_USE nx_status nx__list_add(nx_value *list, nx_tensor *tensor);
void nx__drop_lists(nx_value *lists, int n);
/* Drops n temporaries. */
void nx__release(nx_tensor **t, int n);
/* Releases the temporaries `t`; after a failure also the gradients. Returns `status`. */
static inline nx_status nx__grad_end(nx_status status, nx_tensor **t, int n, nx_tensor **grads, int n_grads) {
    for (int k = 0; k < n; k++) {
        if (t[k]) nx_tensor_unref(t[k]);
    }
    if (NX_UNLIKELY(status != NX_OK)) nx__release(grads, n_grads);
    return status;
}

#endif
