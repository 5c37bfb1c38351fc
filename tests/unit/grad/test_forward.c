/* Forward mode from C: tangents of results by each rule, of views and written tensors, recorded tangents, the end of a level, and
 * an allocation that fails anywhere. */
#include "grad_test.h"

static nx_tensor *dual(nx_tensor *primal, double start) {
    nx_tensor *tangent = counting(primal->a.sizes, primal->a.ndim, start), *made;
    OK(nx_forward_make_dual(primal, tangent, &made));
    nx_tensor_unref(tangent);
    return made;
}

static void assert_tangent(nx_tensor *tensor, const double *expected, int n) {
    nx_tensor *tangent, *rows;
    OK(nx_tangent_of(tensor, &tangent));
    assert_non_null(tangent);
    rows = CALL("aten::clone", T(tangent), (nx_value){.tag = NX_TAG_MEMORY_FORMAT, .i = NX_CONTIGUOUS_FORMAT});
    assert_values(rows, expected, n);
    DROP(rows, tangent);
}
#define TANGENT(tensor, ...) assert_tangent(tensor, VALUES(__VA_ARGS__))

static int open_level(void **state) { return nx_forward_enter() == NX_OK ? 0 : -1; }
static int close_level(void **state) { return nx_forward_exit() == NX_OK ? 0 : -1; }

static void test_rules(void **state) {
    nx_tensor *x = counting(SIZES(2, 2), 1), *d = dual(x, 1), *y;
    y = mul(d, d); /* a formula with the tangent in g's place */
    TANGENT(y, 2, 8, 18, 32);
    nx_tensor_unref(y);
    y = CALL("aten::mm", T(d), T(x)); /* linear in one */
    TANGENT(y, 7, 10, 15, 22);
    nx_tensor_unref(y);
    y = CALL("aten::mm", T(d), T(d)); /* and in the other */
    TANGENT(y, 14, 20, 30, 44);
    nx_tensor_unref(y);
    y = CALL("aten::cumprod", T(d), nx_value_int(1), NX_VALUE_NONE); /* the formula's derivative */
    TANGENT(y, 1, 4, 3, 24);
    nx_tensor_unref(y);
    y = CALL("aten::sign", T(d));
    TANGENT(y, 0, 0, 0, 0);
    nx_tensor_unref(y);
    nx_tensor_unref(d);
    nx_tensor_unref(x);
}

static void test_lists(void **state) {
    nx_tensor *x = counting(SIZES(2), 1), *d = dual(x, 5);
    nx_value list[] = {T(x), T(d)};
    nx_tensor *y = CALL("aten::cat", nx_value_list(list, 2), nx_value_int(0));
    TANGENT(y, 0, 0, 5, 6);
    nx_tensor_unref(y);
    nx_tensor_unref(d);
    nx_tensor_unref(x);
}

static void test_written_views(void **state) {
    nx_tensor *x = counting(SIZES(2), 3), *d = dual(x, 1), *base = counting(SIZES(2, 2), 1);
    nx_tensor *row = CALL("aten::select.int", T(base), nx_value_int(0), nx_value_int(0));
    nx_tensor *column = CALL("aten::select.int", T(base), nx_value_int(1), nx_value_int(1));
    nx_tensor *same = CALL("aten::mul_.Tensor", T(row), T(d));
    TANGENT(base, 1, 4, 0, 0);
    TANGENT(column, 4, 0);
    nx_tensor_unref(same);
    same = CALL("aten::zero_", T(column));
    TANGENT(row, 1, 0);
    DROP(same, column, row, base, d, x);
}

static void test_recorded(void **state) {
    nx_tensor *x = leaf(SIZES(2), 3), *d = dual(x, 1), *y = mul(mul(d, d), d), *tangent, *gradient, *none = NULL;
    OK(nx_tangent_of(y, &tangent));
    nx_tensor *total = sum(tangent);
    OK(nx_grad_run(&total, &none, 1, false, false, &x, 1, &gradient));
    assert_values(gradient, VALUES(18, 48)); /* 6 x t */
    DROP(gradient, total, tangent, y, d, x);
}

static void test_end(void **state) {
    nx_tensor *x = counting(SIZES(2), 1), *d = dual(x, 1), *tangent;
    FAILS(nx_forward_enter(), RUNTIME, "Nested forward mode AD");
    OK(nx_forward_exit());
    OK(nx_tangent_of(d, &tangent));
    assert_null(tangent);
    assert_int_equal(d->keys & NX_KEY(FORWARD), 0);
    FAILS(nx_forward_exit(), RUNTIME, "Exiting a forward AD level");
    OK(nx_forward_enter());
    nx_tensor_unref(d);
    nx_tensor_unref(x);
}

static nx_status some_calls(void) {
    nx_tensor *x = NULL, *t = NULL, *d = NULL, *y = NULL, *z = NULL;
    nx_status status, ended;
    NX_TRY(nx_forward_enter());
    NX_TRY_FAIL(nx_tensor_new(NX_F32, 1, (int64_t[]){2}, NX_CPU, &x));
    NX_TRY_FAIL(nx_tensor_new(NX_F32, 1, (int64_t[]){2}, NX_CPU, &t));
    memset(x->a.data, 0, 8);
    memset(t->a.data, 0, 8);
    NX_TRY_FAIL(nx_tensor_set_requires_grad(x, true));
    NX_TRY_FAIL(nx_forward_make_dual(x, t, &d));
    NX_TRY_FAIL(call("aten::mul.Tensor", (nx_value[]){T(d), T(d)}, &y));
    NX_TRY_FAIL(call("aten::cumprod", (nx_value[]){T(y), nx_value_int(0), NX_VALUE_NONE}, &z));
    nx_tensor_unref(z);
    z = NULL;
    status = call("aten::mul_.Tensor", (nx_value[]){T(y), T(d)}, &z);
fail:
    drop(5, z, y, d, t, x);
    ended = nx_forward_exit();
    return status == NX_OK ? ended : status;
}

static void test_no_memory(void **state) { fail_every_allocation(some_calls); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rules, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_lists, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_written_views, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_recorded, open_level, close_level),
        cmocka_unit_test_setup_teardown(test_end, open_level, close_level),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
