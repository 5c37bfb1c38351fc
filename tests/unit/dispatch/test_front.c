/* The front: new results, written arguments and what is refused, views, fakes, devices without kernels. */
#include "../hand_ops.h"

static nx_value number(double f) { return nx_value_float(f); }

static nx_status add(nx_tensor *a, nx_tensor *b, nx_tensor **out) {
    return call("test::add", (nx_value[]){nx_value_tensor(a), nx_value_tensor(b), nx_value_int(1)}, out);
}
static nx_status add_in_place(nx_tensor *a, nx_value b) {
    nx_tensor *result;
    NX_TRY(call("test::add_", (nx_value[]){nx_value_tensor(a), b, nx_value_int(1)}, &result));
    assert_ptr_equal(result, a);
    nx_tensor_unref(result);
    return NX_OK;
}
static nx_status add_out(nx_tensor *a, nx_tensor *b, nx_tensor *to) {
    nx_tensor *result;
    NX_TRY(call("test::add.out",
                (nx_value[]){nx_value_tensor(a), nx_value_tensor(b), nx_value_int(1), nx_value_tensor(to)},
                &result));
    assert_ptr_equal(result, to);
    nx_tensor_unref(result);
    return NX_OK;
}

static nx_tensor *view_of(nx_tensor *t, int ndim, const int64_t *size, const int64_t *stride,
                          int64_t offset) {
    nx_meta meta = {
        .dtype = t->a.dtype, .device = t->a.device, .ndim = ndim, .offset = t->offset + offset, .view_of = 0};
    nx_tensor *view;
    for (int d = 0; d < ndim; d++) {
        meta.size[d] = size[d];
        meta.stride[d] = stride[d];
    }
    OK(nx_tensor_new_view(t->storage, &meta, t->keys, t, &view));
    return view;
}

static void test_new_result(void **state) {
    nx_tensor *a = counted(NX_F32, 2, SIZES(2, 3), 1), *b = counted(NX_F32, 2, SIZES(2, 3), 10), *c;
    OK(add(a, b, &c));
    for (int i = 0; i < 6; i++) assert_true(element(c, i) == 11 + 2 * i);
    assert_true(c->a.contiguous);
    assert_int_equal(nx_tensor_version(c), 0);
    nx_tensor_unref(a);
    nx_tensor_unref(b);
    nx_tensor_unref(c);
}

static void test_write_counts(void **state) {
    nx_tensor *a = counted(NX_F32, 1, SIZES(3), 1), *b = counted(NX_F64, 1, SIZES(3), 1);
    OK(add_in_place(a, nx_value_tensor(b)));
    OK(add_in_place(a, number(0.5)));
    assert_int_equal(nx_tensor_version(a), 2);
    assert_true(element(a, 2) == 6.5);
    assert_int_equal(a->a.dtype, NX_F32);
    nx_tensor_unref(a);
    nx_tensor_unref(b);
}

static void test_refused_writes(void **state) {
    nx_tensor *a = counted(NX_F32, 1, SIZES(2), 0), *b = counted(NX_F32, 2, SIZES(2, 2), 0),
              *i = counted(NX_I64, 1, SIZES(2), 0);
    FAILS(add_in_place(a, nx_value_tensor(b)), NX_RUNTIME,
          "output with shape [2] doesn't match the broadcast shape [2, 2]");
    FAILS(add_in_place(i, number(1.5)), NX_RUNTIME,
          "result type Float can't be cast to the desired output type Long");
    nx_tensor *spread = view_of(a, 2, SIZES(3, 2), SIZES(0, 1), 0);
    FAILS(add_in_place(spread, nx_value_int(1)), NX_RUNTIME,
          "more than one element of the written-to tensor refers to a single memory");
    nx_tensor *low = view_of(b, 1, SIZES(3), SIZES(1), 0), *high = view_of(b, 1, SIZES(3), SIZES(1), 1);
    FAILS(add_in_place(high, nx_value_tensor(low)), NX_RUNTIME,
          "some elements of the input tensor and the written-to tensor refer");
    nx_tensor *turned = view_of(b, 2, SIZES(2, 2), SIZES(1, 2), 0);
    FAILS(add_in_place(b, nx_value_tensor(turned)), NX_RUNTIME,
          "some elements of the input tensor and the written-to tensor refer");
    assert_int_equal(nx_tensor_version(b), 0);
    OK(add_in_place(b, nx_value_tensor(b)));
    assert_true(element(b, 3) == 6);
    nx_tensor *all[] = {a, b, i, spread, low, high, turned};
    for (int k = 0; k < NX_COUNT(all); k++) nx_tensor_unref(all[k]);
}

static void test_out_is_resized(void **state) {
    nx_tensor *a = counted(NX_F32, 2, SIZES(2, 3), 0), *to = counted(NX_F64, 1, SIZES(0), 0),
              *shared = counted(NX_F32, 1, SIZES(1), 0);
    OK(add_out(a, a, to));
    assert_int_equal(to->a.ndim, 2);
    assert_int_equal(to->a.sizes[1], 3);
    assert_int_equal(to->a.strides[0], 3);
    assert_int_equal(to->a.dtype, NX_F64);
    assert_true(element(to, 5) == 10);
    nx_tensor *other = view_of(shared, 1, SIZES(1), SIZES(1), 0);
    FAILS(add_out(a, a, shared), NX_RUNTIME, "other tensors share its storage");
    nx_tensor *whole = counted(NX_I64, 2, SIZES(2, 3), 0);
    FAILS(add_out(a, a, whole), NX_RUNTIME,
          "result type Float can't be cast to the desired output type Long");
    nx_tensor *all[] = {a, to, shared, other, whole};
    for (int k = 0; k < NX_COUNT(all); k++) nx_tensor_unref(all[k]);
}

static void test_view(void **state) {
    nx_tensor *a = counted(NX_F32, 2, SIZES(3, 4), 0), *part = view_of(a, 2, SIZES(2, 3), SIZES(4, 1), 5), *t;
    OK(call("test::t", (nx_value[]){nx_value_tensor(part)}, &t));
    assert_ptr_equal(t->storage, a->storage);
    assert_int_equal(t->offset, 5);
    assert_ptr_equal(t->a.data, part->a.data);
    assert_int_equal(t->a.sizes[0], 3);
    assert_true(element(t, 1) == 9);
    assert_null(t->base); /* it has no derivative, so it is no view to autograd */
    nx_tensor_unref(t);
    nx_tensor_unref(part);
    nx_tensor_unref(a);
}

static void test_fake(void **state) {
    nx_meta meta = {.dtype = NX_F32, .ndim = 1, .view_of = -1, .size = {1 << 20}, .stride = {1}};
    nx_tensor *fake, *b = counted(NX_F64, 2, SIZES(2, 1), 0), *c;
    OK(nx_tensor_new_meta(&meta, true, &fake));
    OK(add(fake, b, &c));
    assert_true(nx_tensor_is_fake(c));
    assert_null(c->a.data);
    assert_int_equal(c->a.dtype, NX_F64);
    assert_int_equal(c->a.sizes[0], 2);
    assert_int_equal(c->a.sizes[1], 1 << 20);
    OK(add_in_place(fake, nx_value_int(1)));
    assert_int_equal(nx_tensor_version(fake), 1);
    nx_thread_get()->keys_included = NX_KEY(FAKE);
    nx_tensor *t;
    OK(call("test::t", (nx_value[]){nx_value_tensor(b)}, &t)); /* a real tensor under FAKE */
    nx_thread_get()->keys_included = 0;
    assert_true(nx_tensor_is_fake(t));
    nx_tensor *all[] = {fake, b, c, t};
    for (int k = 0; k < NX_COUNT(all); k++) nx_tensor_unref(all[k]);
}

static void test_metas(void **state) {
    nx_tensor *a = counted(NX_I32, 2, SIZES(2, 3), 0);
    nx_value in[] = {nx_value_tensor(a), number(1.5), nx_value_int(1), nx_value_tensor(a)};
    nx_meta meta;
    OK(nx_op_meta(nx_op_get("test::add"), in, &meta));
    assert_int_equal(meta.dtype, NX_F32);
    assert_int_equal(meta.view_of, -1);
    in[1] = nx_value_int(1);
    OK(nx_op_meta(nx_op_get("test::add_"), in, &meta));
    assert_int_equal(meta.dtype, NX_I32);
    assert_int_equal(meta.view_of, 0);
    OK(nx_op_meta(nx_op_get("test::t"), in, &meta));
    assert_int_equal(meta.size[0], 3);
    assert_int_equal(meta.view_of, 0);
    FAILS(nx_op_meta(nx_op_get("test::twice"), in, &meta), NX_NOT_IMPLEMENTED, "no shape rule");
    nx_tensor_unref(a);
}

/* ---- a device with memory and no kernel ---------------------------------------------------------------- */
static nx_kernel_fn *find_none(void *context, const char *name) { return NULL; }
static nx_device lacking;

static int add_device(void **state) {
    static nx_device_api api;
    int type;
    api = *nx_device_get_api(0);
    api.name = "lacking";
    api.find_kernel = find_none;
    api.capture_begin = NULL;
    api.capture_end = NULL;
    api.graph_replay = NULL;
    api.graph_destroy = NULL;
    if (nx_device_register(&api, &type) != NX_OK) return -1;
    lacking = (nx_device){(int8_t)type, 0};
    return 0;
}

static nx_tensor *moved(nx_tensor *host) {
    nx_tensor *t;
    OK(nx_tensor_new(host->a.dtype, host->a.ndim, host->a.sizes, lacking, &t));
    OK(nx_device_copy(t, host));
    return t;
}

static void test_lacking_kernel_runs_on_the_cpu(void **state) {
    assert_int_equal(add_device(state), 0);
    nx_tensor *host = counted(NX_F32, 2, SIZES(2, 3), 1), *a = moved(host), *c, *back,
              *scalar = counted(NX_F64, 0, NULL, 2);
    nx_tensor *turned = view_of(a, 2, SIZES(3, 2), SIZES(1, 3), 0);
    int64_t calls = 0;
    nx_fallback_clear();
    OK(call("test::add", (nx_value[]){nx_value_tensor(turned), nx_value_tensor(scalar), nx_value_int(1)},
            &c));
    assert_int_equal(c->a.device.type, lacking.type);
    assert_int_equal(c->a.strides[1], 3);
    OK(nx_tensor_new(NX_F32, 2, SIZES(2, 3), NX_CPU, &back)); /* c's memory order */
    nx_tensor *c_rows = view_of(c, 2, SIZES(2, 3), SIZES(3, 1), 0);
    OK(nx_device_copy(back, c_rows));
    for (int i = 0; i < 6; i++) assert_true(element(back, i) == 3 + i);
    OK(add_in_place(turned, nx_value_int(10))); /* written through a view */
    OK(nx_device_copy(back, a));
    for (int i = 0; i < 6; i++) assert_true(element(back, i) == 11 + i);
    assert_int_equal(nx_fallback_count(), 2);
    assert_string_equal(nx_fallback_name(0, &calls), "test::add");
    assert_int_equal(calls, 1);
    assert_null(nx_fallback_name(2, &calls));
    nx_tensor *none;
    FAILS(add(a, host, &none), NX_RUNTIME, "Expected all tensors to be on the same device");
    nx_fallback_clear();
    assert_int_equal(nx_fallback_count(), 0);
    nx_tensor *all[] = {host, a, c, c_rows, back, scalar, turned};
    for (int k = 0; k < NX_COUNT(all); k++) nx_tensor_unref(all[k]);
}

/* Every allocation of a call fails once: an error, nothing left over, and the next call is right. */
static void test_failed_allocations(void **state) {
    nx_tensor *a = counted(NX_F32, 2, SIZES(64, 64), 1), *b = counted(NX_F64, 1, SIZES(64), 1), *c;
    nx_tensor *far = moved(a);
    const nx_value in[] = {nx_value_tensor(a), nx_value_tensor(b), nx_value_int(1)};
    const nx_value far_in[] = {nx_value_tensor(far), nx_value_int(1), nx_value_int(1)};
    const nx_value sum_in[] = {nx_value_tensor(a), NX_VALUE_NONE, nx_value_bool(false), NX_VALUE_NONE};
    const struct {
        const char *name;
        const nx_value *in;
    } calls[] = {{"test::add", in}, {"test::add", far_in}, {"test::sum", sum_in}};
    nx_alloc_watch(true);
    for (int k = 0; k < NX_COUNT(calls); k++) {
        bool failed = true;
        for (int n = 1; failed; n++) {
            nx_alloc_fail_at(n);
            int64_t live = nx_alloc_live();
            nx_status status = call(calls[k].name, calls[k].in, &c);
            failed = nx_alloc_failed();
            if (failed) assert_int_equal(status, NX_NO_MEMORY);
            else OK(status);
            if (status == NX_OK) nx_tensor_unref(c);
            assert_int_equal(nx_alloc_live(), live);
            nx_alloc_fail_at(0);
        }
    }
    nx_alloc_watch(false);
    nx_tensor_unref(a);
    nx_tensor_unref(b);
    nx_tensor_unref(far);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_result),
        cmocka_unit_test(test_write_counts),
        cmocka_unit_test(test_refused_writes),
        cmocka_unit_test(test_out_is_resized),
        cmocka_unit_test(test_view),
        cmocka_unit_test(test_fake),
        cmocka_unit_test(test_metas),
        cmocka_unit_test(test_lacking_kernel_runs_on_the_cpu),
        cmocka_unit_test(test_failed_allocations),
    };
    return cmocka_run_group_tests(tests, define_hand_ops, NULL);
}
