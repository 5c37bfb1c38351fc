/* Promotion, broadcasting, sizes of reductions and views: the cases and texts are PyTorch's. */
#include "../hand_ops.h"

/* An array without elements, for shape rules. */
typedef struct shape { nx_array a; int64_t dims[2 * NX_MAX_DIMS]; } shape;

static nx_value describe(shape *s, nx_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides) {
    nx_meta meta = {.ndim = ndim};
    for (int d = 0; d < ndim; d++) meta.size[d] = sizes[d];
    nx_meta_contiguous(&meta);
    s->a = (nx_array){
        .sizes = s->dims, .strides = s->dims + ndim, .dtype = (uint8_t)dtype, .ndim = (uint8_t)ndim};
    for (int d = 0; d < ndim; d++) {
        s->a.sizes[d] = sizes[d];
        s->a.strides[d] = strides ? strides[d] : meta.stride[d];
    }
    nx_array_refresh(&s->a);
    return (nx_value){.tag = NX_TAG_TENSOR, .array = &s->a};
}

static nx_dtype promoted(nx_value a, nx_value b) { return nx_promote((const nx_value *[]){&a, &b}, 2); }

static void test_promotion(void **state) {
    shape s[5];
    nx_value i32 = describe(&s[0], NX_I32, 1, SIZES(2), NULL),
             f16 = describe(&s[1], NX_F16, 1, SIZES(2), NULL);
    nx_value f64_0 = describe(&s[2], NX_F64, 0, NULL, NULL), i64_0 = describe(&s[3], NX_I64, 0, NULL, NULL);
    nx_value b8 = describe(&s[4], NX_BOOL, 1, SIZES(2), NULL);
    assert_int_equal(nx_promote_types(NX_U8, NX_I8), NX_I16);
    assert_int_equal(nx_promote_types(NX_F16, NX_BF16), NX_F32);
    assert_int_equal(nx_promote_types(NX_I64, NX_F16), NX_F16);
    assert_int_equal(promoted(i32, f16), NX_F16);
    assert_int_equal(promoted(f16, f64_0), NX_F16); /* a 0-dim tensor adds no width */
    assert_int_equal(promoted(i32, f64_0), NX_F64); /* but its category counts */
    assert_int_equal(promoted(i32, i64_0), NX_I32);
    assert_int_equal(promoted(i64_0, f64_0), NX_F64);
    assert_int_equal(promoted(i32, nx_value_float(1)), NX_F32);
    assert_int_equal(promoted(b8, nx_value_int(1)), NX_I64);
    assert_int_equal(promoted(b8, nx_value_bool(true)), NX_BOOL);
    assert_int_equal(promoted(f16, nx_value_float(1)), NX_F16);
    assert_int_equal(promoted(i64_0, nx_value_int(1)), NX_I64);
    OK(nx_set_default_dtype(NX_F64));
    assert_int_equal(promoted(i32, nx_value_float(1)), NX_F64);
    OK(nx_set_default_dtype(NX_F32));
    FAILS(nx_set_default_dtype(NX_I32), NX_TYPE,
          "only floating-point types are supported as the default type");
}

static void expect_broadcast(nx_value a, nx_value b, int ndim, const int64_t *size, const int64_t *stride) {
    nx_meta meta;
    OK(nx_meta_broadcast("add", (const nx_value *[]){&a, &b}, 2, &meta));
    assert_int_equal(meta.ndim, ndim);
    for (int d = 0; d < ndim; d++) {
        assert_int_equal(meta.size[d], size[d]);
        assert_int_equal(meta.stride[d], stride[d]);
    }
}

static void test_broadcast(void **state) {
    shape s[2];
    nx_value row = describe(&s[0], NX_F32, 1, SIZES(4), NULL),
             column = describe(&s[1], NX_F32, 2, SIZES(3, 1), NULL);
    expect_broadcast(row, column, 2, SIZES(3, 4), SIZES(4, 1));
    expect_broadcast(column, row, 2, SIZES(3, 4), SIZES(4, 1));
    expect_broadcast(row, nx_value_int(2), 1, SIZES(4), SIZES(1));
    nx_value empty = describe(&s[1], NX_F32, 2, SIZES(0, 1), NULL);
    expect_broadcast(empty, row, 2, SIZES(0, 4), SIZES(4, 1));
}

static void test_strides_follow_the_operands(void **state) {
    shape s[2];
    nx_value turned = describe(&s[0], NX_F32, 2, SIZES(3, 4), SIZES(1, 3)),
             row = describe(&s[1], NX_F32, 1, SIZES(4), NULL);
    expect_broadcast(turned, nx_value_int(1), 2, SIZES(3, 4), SIZES(1, 3));
    expect_broadcast(turned, row, 2, SIZES(3, 4), SIZES(1, 3));
    nx_value plain = describe(&s[1], NX_F32, 2, SIZES(3, 4), NULL);
    expect_broadcast(turned, plain, 2, SIZES(3, 4), SIZES(1, 3));
    expect_broadcast(plain, turned, 2, SIZES(3, 4), SIZES(4, 1));
    nx_value gaps = describe(&s[0], NX_F32, 2, SIZES(3, 4), SIZES(2, 8));
    expect_broadcast(gaps, gaps, 2, SIZES(3, 4), SIZES(1, 3));
    nx_value image = describe(&s[0], NX_F32, 4, SIZES(2, 3, 4, 5), SIZES(60, 1, 15, 3));
    expect_broadcast(image, image, 4, SIZES(2, 3, 4, 5), SIZES(60, 1, 15, 3));
    nx_value spread = describe(&s[0], NX_I64, 2, SIZES(2, 2), SIZES(2, 0)),
             half = describe(&s[1], NX_BF16, 2, SIZES(2, 2), SIZES(1, 2));
    expect_broadcast(spread, half, 2, SIZES(2, 2), SIZES(2, 1)); /* the cast of the first is row-major */
}

static void test_broadcast_errors(void **state) {
    shape s[2];
    nx_meta meta;
    nx_value a = describe(&s[0], NX_F32, 2, SIZES(3, 4), NULL),
             b = describe(&s[1], NX_F32, 1, SIZES(5), NULL);
    const nx_value *both[] = {&a, &b};
    FAILS(nx_meta_broadcast("add", both, 2, &meta), NX_RUNTIME,
          "add: The size of tensor a (4) must match the size of tensor b (5) at non-singleton dimension 1");
}

static void test_reduced_size(void **state) {
    shape s;
    nx_meta meta;
    bool mask[NX_MAX_DIMS];
    nx_value x = describe(&s, NX_F32, 3, SIZES(2, 3, 4), NULL), none = NX_VALUE_NONE;
    nx_value dims = nx_value_ints(SIZES(-1, 0), 2), twice = nx_value_ints(SIZES(0, -3), 2),
             far = nx_value_ints(SIZES(3), 1);
    OK(nx_meta_reduce("sum", x.array, &dims, false, &meta, mask));
    assert_int_equal(meta.ndim, 1);
    assert_int_equal(meta.size[0], 3);
    assert_true(mask[0] && !mask[1] && mask[2]);
    OK(nx_meta_reduce("sum", x.array, &dims, true, &meta, mask));
    assert_int_equal(meta.ndim, 3);
    assert_int_equal(meta.stride[0], 3);
    OK(nx_meta_reduce("sum", x.array, &none, false, &meta, mask));
    assert_int_equal(meta.ndim, 0);
    nx_value empty = nx_value_ints(NULL, 0);
    OK(nx_meta_reduce("sum", x.array, &empty, false, &meta, mask));
    assert_int_equal(meta.ndim, 0);
    FAILS(nx_meta_reduce("sum", x.array, &twice, false, &meta, mask), NX_RUNTIME,
          "dim 0 appears multiple times in the list of dims");
    FAILS(nx_meta_reduce("sum", x.array, &far, false, &meta, mask), NX_INDEX,
          "Dimension out of range (expected to be in range of [-3, 2], but got 3)");
    x = describe(&s, NX_F32, 0, NULL, NULL);
    nx_value zero = nx_value_ints(SIZES(-1), 1);
    OK(nx_meta_reduce("sum", x.array, &zero, true, &meta, mask));
    FAILS(nx_meta_reduce("sum", x.array, &far, true, &meta, mask), NX_INDEX, "[-1, 0], but got 3");
}

static void test_inferred_size(void **state) {
    int64_t out[2];
    OK(nx_infer_size("view", SIZES(3, -1), 2, 12, out));
    assert_int_equal(out[1], 4);
    FAILS(nx_infer_size("view", SIZES(-1, -1), 2, 12, out), NX_RUNTIME, "only one dimension can be inferred");
    FAILS(nx_infer_size("view", SIZES(-2, 3), 2, 12, out), NX_RUNTIME, "invalid shape dimension -2");
    FAILS(nx_infer_size("view", SIZES(5, -1), 2, 12, out), NX_RUNTIME,
          "shape '[5, -1]' is invalid for input of size 12");
    FAILS(nx_infer_size("view", SIZES(3, 5), 2, 12, out), NX_RUNTIME,
          "shape '[3, 5]' is invalid for input of size 12");
    FAILS(nx_infer_size("view", SIZES(0, -1), 2, 0, out), NX_RUNTIME,
          "cannot reshape tensor of 0 elements into shape [0, -1]");
    FAILS(nx_infer_size("view", SIZES(INT64_MAX, 3), 2, 12, out), NX_RUNTIME,
          "is invalid for input of size 12");
}

static void test_regrouping(void **state) {
    shape s;
    int64_t stride[4];
    nx_value x = describe(&s, NX_F32, 3, SIZES(2, 3, 4), SIZES(24, 8, 2));
    assert_true(nx_regroup(x.array, SIZES(6, 2, 2), 3, stride));
    assert_int_equal(stride[0], 8);
    assert_int_equal(stride[1], 4);
    assert_int_equal(stride[2], 2);
    x = describe(&s, NX_F32, 2, SIZES(3, 4), SIZES(1, 3));
    assert_false(nx_regroup(x.array, SIZES(12), 1, stride));
    assert_true(nx_regroup(x.array, SIZES(3, 1, 2, 2), 4, stride));
    assert_int_equal(stride[2], 6);
    x = describe(&s, NX_F32, 2, SIZES(3, 4), SIZES(0, 1));
    assert_false(nx_regroup(x.array, SIZES(12), 1, stride));
    x = describe(&s, NX_F32, 2, SIZES(0, 4), NULL);
    assert_true(nx_regroup(x.array, SIZES(4, 0), 2, stride));
}

static void test_small_predicates(void **state) {
    shape s;
    assert_true(nx_expandable(SIZES(1, 4), 2, SIZES(2, 3, 4), 3));
    assert_false(nx_expandable(SIZES(3, 4), 2, SIZES(5, 4), 2));
    assert_false(nx_expandable(SIZES(1, 4), 2, SIZES(4), 1));
    assert_true(nx_can_cast(NX_F64, NX_F16) && nx_can_cast(NX_I64, NX_U8) && nx_can_cast(NX_BOOL, NX_BOOL));
    assert_false(nx_can_cast(NX_F16, NX_I64) || nx_can_cast(NX_I64, NX_BOOL) || nx_can_cast(NX_F32, NX_BOOL));
    assert_true(nx_is_dense(describe(&s, NX_F32, 3, SIZES(2, 3, 4), SIZES(3, 1, 6)).array));
    assert_false(nx_is_dense(describe(&s, NX_F32, 2, SIZES(2, 3), SIZES(4, 1)).array));
    assert_false(nx_is_dense(describe(&s, NX_F32, 2, SIZES(2, 3), SIZES(0, 1)).array));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promotion),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_strides_follow_the_operands),
        cmocka_unit_test(test_broadcast_errors),
        cmocka_unit_test(test_reduced_size),
        cmocka_unit_test(test_inferred_size),
        cmocka_unit_test(test_regrouping),
        cmocka_unit_test(test_small_predicates),
    };
    return cmocka_run_group_tests(tests, define_hand_ops, NULL);
}
