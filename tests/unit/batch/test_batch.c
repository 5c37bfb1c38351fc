/* vmap from C: calls with slices by each way, what is refused, levels inside of levels, gradients through wholes, and an
 * allocation that fails anywhere. */
#include "../grad/grad_test.h"

#include "batch/batch.h"

static int level; /* of the test, over two slices */

static int open_level(void **state) { return nx_batch_enter(2, NX_RANDOM_ERROR, &level) == NX_OK ? 0 : -1; }
static int close_level(void **state) {
    nx_batch_leave();
    return nx_batch_depth();
}

static nx_tensor *slice(const int64_t *sizes, int ndim, double start) {
    nx_tensor *all = counting(sizes, ndim, start), *made;
    OK(nx_batch_take(all, 0, level, &made));
    nx_tensor_unref(all);
    return made;
}

/* All slices, in rows. */
static void assert_all(nx_tensor *slice, const double *expected, int n) {
    nx_tensor *all;
    OK(nx_batch_give(slice, 0, level, &all));
    nx_tensor *rows = CALL("aten::clone", T(all), (nx_value){.tag = NX_TAG_MEMORY_FORMAT, .i = NX_CONTIGUOUS_FORMAT});
    assert_values(rows, expected, n);
    DROP(rows, all);
}
#define ALL(slice, ...) assert_all(slice, VALUES(__VA_ARGS__))

static void test_point(void **state) {
    nx_tensor *x = slice(SIZES(2, 3), 1), *shared = counting(SIZES(3), 1), *number = slice(SIZES(2), 10), *y;
    assert_int_equal(x->a.ndim, 1);
    assert_null(x->a.data);
    ALL(y = mul(x, shared), 1, 4, 9, 4, 10, 18);
    nx_tensor_unref(y);
    ALL(y = add(shared, number), 11, 12, 13, 12, 13, 14); /* a number of each slice */
    nx_tensor_unref(y);
    nx_value none = NX_VALUE_NONE;
    nx_tensor *wide = CALL("aten::_to_copy", T(number), nx_value_dtype(NX_F64), none, none, none, nx_value_bool(false), none);
    y = add(x, wide); /* which takes no part in promotion */
    assert_int_equal(y->a.dtype, NX_F32);
    DROP(y, wide, number, shared, x);
}

static void test_folds_and_views(void **state) {
    nx_tensor *x = slice(SIZES(2, 2, 2), 1), *y, *z;
    ALL(y = sum(x), 10, 26);
    nx_tensor_unref(y);
    y = CALL("aten::sum.dim_IntList", T(x), nx_value_ints(SIZES(-1)), nx_value_bool(false), NX_VALUE_NONE);
    ALL(y, 3, 7, 11, 15);
    nx_tensor_unref(y);
    ALL(y = CALL("aten::t", T(x)), 1, 3, 2, 4, 5, 7, 6, 8);
    ALL(z = CALL("aten::reshape", T(y), nx_value_ints(SIZES(-1))), 1, 3, 2, 4, 5, 7, 6, 8);
    DROP(z, y);
    y = CALL("aten::select.int", T(x), nx_value_int(0), nx_value_int(1));
    z = CALL("aten::zero_", T(y)); /* a view's write is seen */
    ALL(x, 1, 2, 0, 0, 5, 6, 0, 0);
    DROP(z, y);
    FAILS(call("aten::select.int", (nx_value[]){T(x), nx_value_int(2), nx_value_int(0)}, &y), INDEX, "range of [-2, 1]");
    nx_tensor_unref(x);
}

static void test_products(void **state) {
    nx_tensor *x = slice(SIZES(2, 1, 2), 1), *w = counting(SIZES(2, 2), 1), *y;
    ALL(y = CALL("aten::mm", T(x), T(w)), 7, 10, 15, 22);
    nx_tensor_unref(y);
    nx_tensor *index;
    OK(nx_tensor_new(NX_I64, 1, (int64_t[]){2}, NX_CPU, &index));
    memcpy(index->a.data, (int64_t[]){1, 0}, 16);
    nx_tensor *place;
    OK(nx_batch_take(index, 0, level, &place)); /* another place in each slice */
    nx_value list[] = {T(place)};
    ALL(y = CALL("aten::index.Tensor", T(w), nx_value_list(list, 1)), 3, 4, 1, 2);
    DROP(y, place, index, w, x);
}

static void test_slice_by_slice(void **state) {
    nx_tensor *x = slice(SIZES(2, 2, 2), 1), *diagonal = counting(SIZES(2), 0), *y;
    nx_value size = nx_value_ints(SIZES(2)), stride = nx_value_ints(SIZES(3));
    ALL(y = CALL("aten::as_strided_scatter", T(x), T(diagonal), size, stride, NX_VALUE_NONE), 0, 2, 3, 1, 0, 6, 7, 1);
    DROP(y, diagonal, x);
}

static void test_refused(void **state) {
    nx_tensor *x = slice(SIZES(2, 2), 1), *shared = counting(SIZES(2), 1), *y;
    FAILS(call("aten::mul_.Tensor", (nx_value[]){T(shared), T(x)}, &y), RUNTIME, "inplace arithmetic");
    FAILS(call("aten::nonzero", (nx_value[]){T(x)}, &y), RUNTIME, "dynamic shape");
    FAILS(call("aten::bernoulli.Tensor", (nx_value[]){T(x), T(shared), NX_VALUE_NONE}, &y), RUNTIME, "randomness error mode");
    FAILS(nx_tensor_check_item(x), RUNTIME, "calling .item()");
    DROP(shared, x);
}

static void test_levels(void **state) {
    int inner, outer = level;
    nx_tensor *x = counting(SIZES(2, 3), 1), *square = counting(SIZES(3, 3), 1), *a, *b, *y, *z;
    OK(nx_batch_enter(3, NX_RANDOM_ERROR, &inner));
    OK(nx_batch_take(x, 0, outer, &a));
    OK(nx_batch_take(square, 1, inner, &b)); /* slices of other dimensions */
    y = mul(a, b);
    assert_int_equal(y->a.ndim, 1);
    nx_tensor_unref(y);
    nx_tensor *c;
    OK(nx_batch_take(a, 0, inner, &c)); /* one number of both */
    y = add(c, c);
    assert_int_equal(y->a.ndim, 0);
    OK(nx_batch_give(y, 0, inner, &z));
    nx_batch_leave();
    ALL(z, 2, 4, 6, 8, 10, 12);
    DROP(z, y, c, b, a, square, x);
}

static void test_gradients(void **state) {
    nx_tensor *x = leaf(SIZES(2, 2), 1), *a, *y, *all, *gradient, *none = NULL;
    OK(nx_batch_take(x, 0, level, &a));
    y = mul(a, a);
    take(sum(y), &y);
    OK(nx_batch_give(y, 0, level, &all));
    take(sum(all), &all);
    OK(nx_grad_run(&all, &none, 1, false, false, &x, 1, &gradient));
    assert_values(gradient, VALUES(2, 4, 6, 8));
    DROP(gradient, all, y, a, x);
}

static void test_drawing(void **state) {
    nx_tensor *y, *x = counting(SIZES(2), 1);
    nx_value none = NX_VALUE_NONE, size = nx_value_ints(SIZES(3));
    nx_batch_leave();
    OK(nx_batch_enter(2, NX_RANDOM_DIFFERENT, &level));
    y = CALL("aten::randn", size, none, none, none, none);
    assert_int_equal(y->whole ? y->whole->a.ndim : 0, 2);
    nx_tensor_unref(y);
    FAILS(call("aten::normal_", (nx_value[]){T(x), nx_value_float(0), nx_value_float(1), none}, &y), RUNTIME, "on an unbatched tensor");
    nx_batch_leave();
    OK(nx_batch_enter(2, NX_RANDOM_SAME, &level));
    y = CALL("aten::randn", size, none, none, none, none);
    assert_null(y->whole);
    DROP(y, x);
}

static nx_status some_calls(void) {
    nx_tensor *x = NULL, *a = NULL, *w = NULL, *y = NULL, *z = NULL, *all = NULL;
    nx_status status;
    int at;
    NX_TRY(nx_batch_enter(2, NX_RANDOM_ERROR, &at));
    NX_TRY_FAIL(nx_tensor_new(NX_F32, 3, (int64_t[]){2, 2, 2}, NX_CPU, &x));
    NX_TRY_FAIL(nx_tensor_new(NX_F32, 2, (int64_t[]){2, 2}, NX_CPU, &w));
    memset(x->a.data, 0, 32);
    memset(w->a.data, 0, 16);
    NX_TRY_FAIL(nx_tensor_set_requires_grad(x, true));
    NX_TRY_FAIL(nx_batch_take(x, 0, at, &a));
    NX_TRY_FAIL(call("aten::linear", (nx_value[]){T(a), T(w), NX_VALUE_NONE}, &y));
    nx_value in[] = {T(y), T(w), nx_value_ints(SIZES(2, 2)), nx_value_ints(SIZES(2, 1)), NX_VALUE_NONE};
    NX_TRY_FAIL(call("aten::as_strided_scatter", in, &z));
    NX_TRY_FAIL(nx_batch_give(z, 0, at, &all));
    nx_tensor_unref(z);
    z = NULL;
    NX_TRY_FAIL(call("aten::cumsum", (nx_value[]){T(y), nx_value_int(0), NX_VALUE_NONE}, &z));
    nx_tensor_unref(z);
    z = NULL;
    status = call("aten::mul_.Tensor", (nx_value[]){T(y), T(y)}, &z);
fail:
    drop(6, all, z, y, a, w, x);
    nx_batch_leave();
    return status;
}

static void test_no_memory(void **state) { fail_every_allocation(some_calls); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_point, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_folds_and_views, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_products, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_slice_by_slice, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_refused, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_levels, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_gradients, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_drawing, open_level, close_level),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
