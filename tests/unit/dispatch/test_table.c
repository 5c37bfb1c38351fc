/* Registration: names, rows, fallbacks, siblings, dissolving entries; the order of keys in a call. */
#include "../hand_ops.h"

static nx_param one_tensor[] = {TENSOR("self")};
static char order[64]; /* what was called, in order */
static void note(char c) { order[strlen(order)] = c; }

static nx_status at_capture(nx_run *run, const nx_value *in, nx_value *out) {
    note('c');
    return nx_redispatch(run->op, run->keys, NX_N_KEYS, in, out);
}
static nx_status at_autograd(nx_run *run, const nx_value *in, nx_value *out) {
    note('a');
    return nx_redispatch(run->op, run->keys, NX_N_KEYS, in, out);
}
static nx_status at_cpu(nx_run *run, const nx_value *in, nx_value *out) {
    note('k');
    out[0] = nx_value_tensor(nx_tensor_ref(in[0].tensor));
    return NX_OK;
}

static void test_names(void **state) {
    static const nx_op_def def = {
        .name = "test::names", .n_in = 1, .n_out = 1, .params = one_tensor, .source = "a:1"};
    const nx_op *op;
    int n = nx_op_count();
    OK(nx_library_def(&def));
    assert_int_equal(nx_op_count(), n + 1);
    OK(nx_op_find("test::names", &op));
    assert_ptr_equal(op, nx_op_get("test::names"));
    assert_ptr_equal(op, nx_op_at(n));
    assert_string_equal(nx_op_name(op), "test::names");
    assert_int_equal(nx_op_n_in(op), 1);
    assert_null(nx_op_at(n + 1));
    assert_null(nx_op_at(-1));
    FAILS(nx_library_def(&def), NX_RUNTIME, "defined twice");
    FAILS(nx_op_find("test::nowhere", &op), NX_KEY, "no such operator");
    FAILS(nx_library_impl("test::nowhere", 0, at_cpu), NX_KEY, "no such operator");
    FAILS(nx_library_impl("test::names", NX_N_KEYS, at_cpu), NX_VALUE, "dispatch key");
    FAILS(nx_library_fallback(0, NULL), NX_VALUE, "no function");
}

/* Enough names to make the table grow, all found again. */
static void test_many_names(void **state) {
    enum { N = 600 };
    static nx_op_def defs[N];
    static char names[N][24];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "test::many_%d", i);
        defs[i] = (nx_op_def){.name = names[i], .n_in = 1, .n_out = 1, .params = one_tensor};
        OK(nx_library_def(&defs[i]));
    }
    for (int i = 0; i < N; i++) assert_ptr_equal(nx_op_get(names[i])->def, &defs[i]);
}

static void test_keys_from_high_to_low(void **state) {
    static const nx_op_def def = {.name = "test::keys", .n_in = 1, .n_out = 1, .params = one_tensor};
    nx_thread *thread = nx_thread_get();
    nx_tensor *x = counted(NX_F32, 1, SIZES(2), 0), *y;
    OK(nx_library_def(&def));
    OK(nx_library_impl("test::keys", 0, at_cpu));
    OK(nx_library_impl("test::keys", NX_KEY_AT_CAPTURE, at_capture));
    OK(nx_library_impl("test::keys", NX_KEY_AT_AUTOGRAD, at_autograd));
    const nx_value in[] = {nx_value_tensor(x)};
    memset(order, 0, sizeof order);
    OK(call("test::keys", in, &y));
    nx_tensor_unref(y);
    x->keys |= NX_KEY(AUTOGRAD);
    thread->keys_included = NX_KEY(CAPTURE);
    OK(call("test::keys", in, &y));
    nx_tensor_unref(y);
    thread->keys_included = 0;
    thread->keys_excluded = NX_KEY(AUTOGRAD);
    OK(call("test::keys", in, &y));
    nx_tensor_unref(y);
    thread->keys_excluded = ~UINT64_C(0);
    FAILS(call("test::keys", in, &y), NX_RUNTIME, "no device is left");
    thread->keys_excluded = 0;
    x->keys &= ~NX_KEY(AUTOGRAD);
    assert_string_equal(order, "kcakk");
    nx_tensor_unref(x);
}

static void test_fallback_fills_rows_that_nobody_took(void **state) {
    static const nx_op_def def = {.name = "test::rows", .n_in = 1, .n_out = 1, .params = one_tensor};
    OK(nx_library_def(&def));
    const nx_op *op = nx_op_get("test::rows");
    nx_op_fn *before = op->table[NX_KEY_AT_TRACE];
    OK(nx_library_impl("test::rows", NX_KEY_AT_CAPTURE, at_cpu));
    OK(nx_library_fallback(NX_KEY_AT_TRACE, at_capture));
    assert_ptr_equal(op->table[NX_KEY_AT_TRACE], at_capture);
    assert_ptr_equal(op->table[NX_KEY_AT_CAPTURE], at_cpu);
    OK(nx_library_fallback(NX_KEY_AT_TRACE, before));
    assert_ptr_equal(op->table[0], nx_front);
    assert_ptr_equal(op->table[NX_KEY_AT_FAKE], nx_front_fake);
}

static void test_siblings_in_any_order(void **state) {
    static const nx_op_def inplace = {
        .name = "test::s_", .n_in = 1, .n_out = 1, .params = one_tensor, .functional = "test::s"};
    static const nx_op_def functional = {
        .name = "test::s", .n_in = 1, .n_out = 1, .params = one_tensor, .inplace = "test::s_"};
    OK(nx_library_def(&inplace));
    OK(nx_library_def(&functional));
    assert_ptr_equal(nx_op_get("test::s")->inplace, nx_op_get("test::s_"));
    assert_ptr_equal(nx_op_get("test::s_")->functional, nx_op_get("test::s"));
}

static void test_dissolving_entry_is_its_composition(void **state) {
    static const nx_op_def empty = {
        .name = "test::nothing", .n_in = 1, .n_out = 1, .params = one_tensor, .dissolves = true};
    const nx_op *op = nx_op_get("test::twice");
    for (int key = 0; key < NX_N_KEYS; key++) {
        if (key >= NX_KEY_AT_CAPTURE) assert_ptr_not_equal(op->table[key], twice_compose);
        else assert_ptr_equal(op->table[key], twice_compose);
    }
    nx_tensor *x = counted(NX_F32, 1, SIZES(2), 3), *y;
    OK(call("test::twice", (nx_value[]){nx_value_tensor(x)}, &y));
    assert_true(element(y, 1) == 8);
    nx_tensor_unref(x);
    nx_tensor_unref(y);
    FAILS(nx_library_def(&empty), NX_VALUE, "without a composition");
}

static void test_cpu_kernel(void **state) {
    nx_kernel_fn *kernel;
    OK(nx_op_cpu_kernel("test::add", &kernel));
    assert_ptr_equal(kernel, nx_point_kernel);
    FAILS(nx_op_cpu_kernel("test::t", &kernel), NX_NOT_IMPLEMENTED, "no kernel");
    FAILS(nx_op_cpu_kernel("test::nowhere", &kernel), NX_KEY, "no such operator");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_keys_from_high_to_low),
        cmocka_unit_test(test_fallback_fills_rows_that_nobody_took),
        cmocka_unit_test(test_siblings_in_any_order),
        cmocka_unit_test(test_dissolving_entry_is_its_composition),
        cmocka_unit_test(test_cpu_kernel),
    };
    return cmocka_run_group_tests(tests, define_hand_ops, NULL);
}
