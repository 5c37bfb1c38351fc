/* What the row `elements` of an entry asks for: numbers in every place, and parts that a view shows. */
#include "../hand_ops.h"

#include <math.h>

/* Every second element of a line, on several threads where it is long; what lies between stays. */
static void test_fill_between(void **state) {
    nx_run run = {nx_op_get("test::add"), 0, NULL, NX_CPU};
    static const int64_t lengths[] = {0, 1, 2, 1000, 3 << 20};
    const double numbers[] = {0, 1, 3};
    for (int k = 0; k < NX_COUNT(lengths); k++) {
        nx_tensor *line = counted(NX_I16, 1, SIZES(2 * lengths[k] + 1), 0);
        int16_t *x = line->a.data;
        for (int i = 0; i < NX_COUNT(numbers); i++) {
            int64_t dims[] = {lengths[k], 2};
            nx_array every = line->a;
            every.sizes = dims;
            every.strides = dims + 1;
            nx_array_refresh(&every);
            for (int64_t at = 0; at <= 2 * lengths[k]; at++) x[at] = 7;
            OK(nx_fill(&run, &every, nx_value_float(numbers[i])));
            int64_t wrong = 0;
            for (int64_t at = 0; at <= 2 * lengths[k]; at++) wrong += x[at] != (at % 2 || at == 2 * lengths[k] ? 7 : numbers[i]);
            assert_int_equal(wrong, 0);
        }
        nx_tensor_unref(line);
    }
}

/* Side by side, of every size of element: those of which all bytes are equal, and others. */
static void test_fill_dense(void **state) {
    nx_run run = {nx_op_get("test::add"), 0, NULL, NX_CPU};
    static const nx_dtype dtypes[] = {NX_BOOL, NX_U8, NX_I8, NX_I16, NX_BF16, NX_F16, NX_I32, NX_F32, NX_I64, NX_F64, NX_C64, NX_C128};
    for (int k = 0; k < NX_COUNT(dtypes); k++) {
        for (int number = 0; number < 2; number++) {
            enum { N = 5000 };
            nx_tensor *x = counted(dtypes[k], 1, SIZES(N), 0);
            size_t bytes = nx_dtype_bytes(dtypes[k]);
            OK(nx_fill(&run, &x->a, nx_value_int(number)));
            for (int64_t i = 0; i < N; i++) {
                double parts[2];
                nx_cast(NX_C128, (char *)parts, 16, dtypes[k], (char *)x->a.data + (size_t)i * bytes, (int64_t)bytes, 1);
                assert_true(parts[0] == number && parts[1] == 0);
            }
            nx_tensor_unref(x);
        }
    }
}

static void test_numbers_that_do_not_fit(void **state) {
    nx_run run = {nx_op_get("test::add"), 0, NULL, NX_CPU};
    nx_tensor *x = counted(NX_I8, 1, SIZES(3), 0);
    FAILS(nx_fill(&run, &x->a, nx_value_int(128)), NX_RUNTIME, "value cannot be converted to type int8_t without overflow");
    FAILS(nx_fill(&run, &x->a, nx_value_float(INFINITY)), NX_RUNTIME, "without overflow");
    assert_true(element(x, 1) == 1); /* nothing was written */
    OK(nx_fill(&run, &x->a, nx_value_int(-128)));
    assert_true(element(x, 1) == -128);
    nx_tensor_unref(x);
}

/* Nothing lies anywhere: the undefined behaviour sanitizer sees what is done with the address. One element of a half is rounded. */
static void test_fill_none_and_one(void **state) {
    nx_run run = {nx_op_get("test::add"), 0, NULL, NX_CPU};
    nx_tensor *none = counted(NX_I8, 1, SIZES(0), 0), *one = counted(NX_F16, 1, SIZES(1), 0), *two = counted(NX_F16, 1, SIZES(2), 0);
    nx_array nowhere = none->a;
    nowhere.data = NULL;
    OK(nx_fill(&run, &nowhere, nx_value_int(1)));
    FAILS(nx_fill(&run, &nowhere, nx_value_int(128)), NX_RUNTIME, "value cannot be converted to type int8_t without overflow");
    OK(nx_fill(&run, &one->a, nx_value_float(1e39)));
    assert_true(isinf(element(one, 0)));
    FAILS(nx_fill(&run, &two->a, nx_value_float(1e39)), NX_RUNTIME, "without overflow");
    nx_tensor_unref(none);
    nx_tensor_unref(one);
    nx_tensor_unref(two);
}

/* A matrix's transpose is written by way of the rule of a view; so is a part of one element, whatever its step. */
static nx_status far_meta(const nx_value *in, nx_meta *out) {
    *out = (nx_meta){.dtype = (nx_dtype)in[0].array->dtype, .ndim = 1, .offset = in[1].i, .size = {1}, .stride = {INT64_MAX}};
    return NX_OK;
}
static nx_status no_meta(const nx_value *in, nx_meta *out) {
    (void)in, (void)out;
    return nx_fail(NX_INDEX, "no such part");
}
static void test_parts(void **state) {
    nx_run run = {nx_op_get("test::add"), 0, NULL, NX_CPU};
    nx_tensor *x = counted(NX_F32, 2, SIZES(2, 3), 0), *y = counted(NX_F32, 2, SIZES(3, 2), 0);
    nx_value in[] = {nx_value_tensor(x), nx_value_int(4)};
    nx_part part;
    OK(nx_part_of(&x->a, t_meta, in, &part));
    assert_int_equal(part.array.ndim, 2);
    assert_int_equal(part.array.sizes[0], 3);
    assert_int_equal(part.array.strides[0], 1);
    assert_int_equal(part.array.numel, 6);
    assert_false(part.array.contiguous);
    nx_copy_cast(&part.array, &y->a);
    assert_true(element(x, 1) == 2 && element(x, 3) == 1); /* of [[0, 1], [2, 3], [4, 5]] */
    OK(nx_part_of(&x->a, far_meta, in, &part));
    OK(nx_fill(&run, &part.array, nx_value_int(9)));
    assert_true(element(x, 4) == 9 && element(x, 5) == 5 && element(x, 3) == 1);
    FAILS(nx_part_of(&x->a, no_meta, in, &part), NX_INDEX, "no such part");
    nx_tensor_unref(x);
    nx_tensor_unref(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill_between),
        cmocka_unit_test(test_fill_dense),
        cmocka_unit_test(test_numbers_that_do_not_fit),
        cmocka_unit_test(test_fill_none_and_one),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, define_hand_ops, NULL);
}
