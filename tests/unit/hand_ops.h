/* Operators written by hand, for tests below the generator: test::add (point, with alpha, all dtypes), its
 * in-place and out forms, test::mul_number (point with a Scalar), test::sum (reduce), test::t (view),
 * test::twice (dissolves). */
#ifndef HAND_OPS_H
#define HAND_OPS_H

#include "iter/iter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define OK(expr) assert_int_equal((expr), NX_OK)
#define FAILS(expr, code, phrase)                                                                          \
    do {                                                                                                   \
        assert_int_equal((expr), code);                                                                    \
        if (!strstr(nx_error_message(), phrase)) fail_msg("'%s' lacks '%s'", nx_error_message(), phrase);  \
    } while (0)

/* ---- loops --------------------------------------------------------------------------------------------- */
#define DEFINE_LOOPS(code, type, as, k)                                                                      \
    static void add_##code(char *const *p, const int64_t *s, int64_t n, const nx_const *c) {                 \
        for (int64_t i = 0; i < n; i++)                                                                      \
            *(type *)(p[0] + i * s[0]) =                                                                     \
                (type)(*(type *)(p[1] + i * s[1]) + (as)c[0].k * *(type *)(p[2] + i * s[2]));                \
    }                                                                                                        \
    static void mul_##code(char *const *p, const int64_t *s, int64_t n, const nx_const *c) {                 \
        for (int64_t i = 0; i < n; i++)                                                                      \
            *(type *)(p[0] + i * s[0]) = (type)(*(type *)(p[1] + i * s[1]) * (as)c[0].k);                    \
    }
DEFINE_LOOPS(U8, uint8_t, uint8_t, i)
DEFINE_LOOPS(I8, int8_t, int8_t, i)
DEFINE_LOOPS(I16, int16_t, int16_t, i)
DEFINE_LOOPS(I32, int32_t, int32_t, i)
DEFINE_LOOPS(I64, int64_t, int64_t, i)
DEFINE_LOOPS(F32, float, float, f)
DEFINE_LOOPS(F64, double, double, f)

static float hand_load(nx_dtype d, const char *p) {
    float f;
    nx_cast(NX_F32, (char *)&f, 4, d, p, 2, 1);
    return f;
}
#define DEFINE_HALF_LOOPS(code)                                                                              \
    static void add_##code(char *const *p, const int64_t *s, int64_t n, const nx_const *c) {                 \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            float x = hand_load(NX_##code, p[1] + i * s[1]), y = hand_load(NX_##code, p[2] + i * s[2]);      \
            float f = x + (float)c[0].f * y;                                                                 \
            nx_cast(NX_##code, p[0] + i * s[0], 2, NX_F32, (char *)&f, 4, 1);                                \
        }                                                                                                    \
    }                                                                                                        \
    static void mul_##code(char *const *p, const int64_t *s, int64_t n, const nx_const *c) {                 \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            float f = hand_load(NX_##code, p[1] + i * s[1]) * (float)c[0].f;                                 \
            nx_cast(NX_##code, p[0] + i * s[0], 2, NX_F32, (char *)&f, 4, 1);                                \
        }                                                                                                    \
    }
DEFINE_HALF_LOOPS(F16)
DEFINE_HALF_LOOPS(BF16)
#define LOOP_ROWS(name)                                                     \
    {[NX_U8] = name##_U8,     [NX_I8] = name##_I8,   [NX_I16] = name##_I16, \
     [NX_I32] = name##_I32,   [NX_I64] = name##_I64, [NX_F16] = name##_F16, \
     [NX_BF16] = name##_BF16, [NX_F32] = name##_F32, [NX_F64] = name##_F64}
static const nx_point add_point = {.n_out = 1, .n_in = 2, .n_constants = 1, .n_promoting = 2,
                                   .in_param = {0, 1}, .constant_param = {2}, .promoting_param = {0, 1},
                                   .loop = {LOOP_ROWS(add)}};
static const nx_point mul_point = {.n_out = 1, .n_in = 1, .n_constants = 1, .n_promoting = 2,
                                   .in_param = {0}, .constant_param = {1}, .promoting_param = {0, 1},
                                   .loop = {LOOP_ROWS(mul)}}; /* its number is a constant: never rounded to a half */

#define DEFINE_SUM(code, type)                                                                               \
    static void init_##code(void *s) { *(type *)s = 0; }                                                     \
    static void fold_##code(void *s, const char *x, int64_t step, int64_t n) {                               \
        for (int64_t i = 0; i < n; i++) *(type *)s += *(type *)(x + i * step);                               \
    }                                                                                                        \
    static void merge_##code(void *s, const void *o) { *(type *)s += *(type *)o; }                           \
    static void done_##code(const void *s, int64_t n, char *out) { *(type *)out = *(type *)s; }              \
    static const nx_reduce_loop sum_##code = {init_##code, fold_##code, merge_##code, done_##code};
DEFINE_SUM(I64, int64_t)
DEFINE_SUM(F32, float)
DEFINE_SUM(F64, double)
static const nx_reduce sum_reduce = {1, 2, {{[NX_I64] = &sum_I64, [NX_F32] = &sum_F32, [NX_F64] = &sum_F64}}};

/* ---- shape rules --------------------------------------------------------------------------------------- */
static nx_status add_meta(const nx_value *in, nx_meta *out) {
    const nx_value *operands[] = {&in[0], &in[1]};
    NX_TRY(nx_meta_broadcast("add", operands, 2, out));
    out->dtype = nx_promote(operands, 2);
    return NX_OK;
}
static nx_status mul_meta(const nx_value *in, nx_meta *out) {
    const nx_value *operands[] = {&in[0], &in[1]};
    NX_TRY(nx_meta_broadcast("mul", operands, 2, out));
    out->dtype = nx_promote(operands, 2);
    return NX_OK;
}
static nx_status sum_meta(const nx_value *in, nx_meta *out) {
    bool mask[NX_MAX_DIMS];
    NX_TRY(nx_meta_reduce("sum", in[0].array, &in[1], in[2].i, out, mask));
    nx_dtype d = in[0].array->dtype;
    out->dtype = in[3].tag == NX_TAG_DTYPE ? (nx_dtype)in[3].i : nx_is_float(d) ? d : NX_I64;
    return NX_OK;
}
static nx_status t_meta(const nx_value *in, nx_meta *out) {
    const nx_array *a = in[0].array;
    *out = (nx_meta){.dtype = a->dtype, .device = a->device, .ndim = 2, .view_of = 0};
    for (int d = 0; d < 2; d++) {
        out->size[d] = a->sizes[1 - d];
        out->stride[d] = a->strides[1 - d];
    }
    return NX_OK;
}

/* ---- entries ------------------------------------------------------------------------------------------- */
#define TENSOR(n) {.name = n, .type = NX_TYPE_TENSOR, .number_too = true}
#define WRITTEN(n) {.name = n, .type = NX_TYPE_TENSOR, .written = true}
#define SCALAR(n) \
    {.name = n, .type = NX_TYPE_SCALAR, .has_initial = true, .initial = {.tag = NX_TAG_INT, .i = 1}}
static const nx_param add_params[] = {TENSOR("self"), TENSOR("other"), SCALAR("alpha"), WRITTEN("out")};
static const nx_param add_inplace_params[] = {WRITTEN("self"), TENSOR("other"), SCALAR("alpha")};
static const nx_param mul_params[] = {TENSOR("self"), SCALAR("other"), WRITTEN("out")};
static const nx_param sum_params[] = {TENSOR("self"),
                                      {.name = "dim", .type = NX_TYPE_INTS},
                                      {.name = "keepdim", .type = NX_TYPE_BOOL},
                                      {.name = "dtype", .type = NX_TYPE_DTYPE}};
static nx_status twice_compose(nx_run *run, const nx_value *in, nx_value *out) {
    return nx_op_call(nx_op_get("test::add"), (nx_value[]){in[0], in[0], nx_value_int(1)}, out);
}
static const nx_op_def hand_defs[] = {
    {.name = "test::add",
     .kind = NX_KIND_POINT,
     .n_in = 3,
     .n_out = 1,
     .params = add_params,
     .meta = add_meta,
     .kernel = nx_point_kernel,
     .point = &add_point,
     .inplace = "test::add_"},
    {.name = "test::add_",
     .kind = NX_KIND_POINT,
     .variant = NX_INPLACE,
     .flags = NX_OP_MUTATES,
     .n_in = 3,
     .n_out = 1,
     .params = add_inplace_params,
     .meta = add_meta,
     .kernel = nx_point_kernel,
     .point = &add_point,
     .functional = "test::add"},
    {.name = "test::add.out",
     .kind = NX_KIND_POINT,
     .variant = NX_OUT,
     .flags = NX_OP_MUTATES,
     .n_in = 4,
     .n_out = 1,
     .params = add_params,
     .meta = add_meta,
     .kernel = nx_point_kernel,
     .point = &add_point,
     .functional = "test::add"},
    {.name = "test::mul_number",
     .kind = NX_KIND_POINT,
     .n_in = 2,
     .n_out = 1,
     .params = mul_params,
     .meta = mul_meta,
     .kernel = nx_point_kernel,
     .point = &mul_point},
    {.name = "test::mul_number.out",
     .kind = NX_KIND_POINT,
     .variant = NX_OUT,
     .flags = NX_OP_MUTATES,
     .n_in = 3,
     .n_out = 1,
     .params = mul_params,
     .meta = mul_meta,
     .kernel = nx_point_kernel,
     .point = &mul_point,
     .functional = "test::mul_number"},
    {.name = "test::sum",
     .kind = NX_KIND_REDUCE,
     .n_in = 4,
     .n_out = 1,
     .params = sum_params,
     .meta = sum_meta,
     .kernel = nx_reduce_kernel,
     .reduce = &sum_reduce},
    {.name = "test::t", .kind = NX_KIND_VIEW, .n_in = 1, .n_out = 1, .params = add_params, .meta = t_meta},
    {.name = "test::twice",
     .kind = NX_KIND_COMPOSED,
     .n_in = 1,
     .n_out = 1,
     .params = add_params,
     .compose = twice_compose,
     .dissolves = true},
};

static int define_hand_ops(void **state) {
    for (int i = 0; i < NX_COUNT(hand_defs); i++) {
        if (nx_op_get(hand_defs[i].name) == NULL && nx_library_def(&hand_defs[i]) != NX_OK) return -1;
    }
    return 0;
}

/* ---- calls --------------------------------------------------------------------------------------------- */
static inline nx_status call(const char *name, const nx_value *in, nx_tensor **out) {
    nx_value result = NX_VALUE_NONE;
    nx_status status = nx_op_call(nx_op_get(name), in, &result);
    *out = status == NX_OK ? result.tensor : NULL;
    return status;
}

/* A row-major tensor of `dtype` with the elements first, first + 1, ... */
static inline nx_tensor *counted(nx_dtype dtype, int ndim, const int64_t *sizes, double first) {
    nx_tensor *t;
    OK(nx_tensor_new(dtype, ndim, sizes, NX_CPU, &t));
    for (int64_t i = 0; i < t->a.numel; i++) {
        double x = first + (double)i;
        nx_cast(dtype, (char *)t->a.data + i * (int64_t)nx_dtype_bytes(dtype), 8, NX_F64, (char *)&x, 8, 1);
    }
    return t;
}
#define SIZES(...) ((const int64_t[]){__VA_ARGS__})

/* Element i in order of indices, as a double. */
static inline double element(const nx_tensor *t, int64_t i) {
    int64_t offset = 0;
    double x;
    for (int d = t->a.ndim - 1; d >= 0; d--) {
        offset += i % t->a.sizes[d] * t->a.strides[d];
        i /= t->a.sizes[d];
    }
    nx_cast(NX_F64, (char *)&x, 8, t->a.dtype,
            (char *)t->a.data + offset * (int64_t)nx_dtype_bytes(t->a.dtype), 8, 1);
    return x;
}

#endif
