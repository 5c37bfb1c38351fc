/* What a differentiated call leaves behind: history, saved values, in-place and out= forms, errors. */
#include "grad_test.h"

static void test_history(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *c = counting(SIZES(2), 1), *p = mul(x, c), *q = add(p, p),
        *n = mul(c, c);
    assert_false(nx_tensor_is_leaf(p));
    assert_true(nx_tensor_requires_grad(q));
    assert_true(nx_tensor_is_leaf(n) && !nx_tensor_requires_grad(n));
    assert_string_equal(nx_grad_node_name(p->autograd->node), "MulBackward0");
    assert_int_equal(p->autograd->node->n_edges, 2);
    assert_string_equal(nx_grad_node_name(p->autograd->node->edges[0].node), "AccumulateGrad");
    assert_null(p->autograd->node->edges[1].node);
    assert_ptr_equal(q->autograd->node->edges[1].node, p->autograd->node);
    nx_tensor *r = CALL("aten::sum.dim_IntList", T(q), NX_VALUE_NONE, nx_value_bool(false), NX_VALUE_NONE);
    assert_string_equal(nx_grad_node_name(r->autograd->node), "SumBackward1");
    nx_tensor *d = CALL("aten::_to_copy", T(q), nx_value_dtype(NX_F64), NX_VALUE_NONE, NX_VALUE_NONE,
                        NX_VALUE_NONE, nx_value_bool(false), NX_VALUE_NONE);
    assert_string_equal(nx_grad_node_name(d->autograd->node), "ToCopyBackward0");
    DROP(x, c, p, q, n, r, d);
}

static void test_no_history_without_grad_mode(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1);
    nx_grad_set_enabled(false);
    nx_tensor *p = mul(x, x);
    nx_grad_set_enabled(true);
    assert_false(nx_tensor_requires_grad(p));
    nx_tensor *d = CALL("aten::detach", T(x));
    assert_false(nx_tensor_requires_grad(d));
    DROP(x, p, d);
}

static void test_requires_grad(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *p = mul(x, x), *k;
    OK(nx_tensor_new(NX_I64, 1, (int64_t[]){2}, NX_CPU, &k));
    FAILS(nx_tensor_set_requires_grad(k, true), RUNTIME, "only Tensors of floating point dtype can require "
          "gradients");
    FAILS(nx_tensor_set_requires_grad(p, false), RUNTIME, "you can only change requires_grad flags of leaf "
          "variables");
    OK(nx_tensor_set_requires_grad(x, false));
    nx_tensor *q = mul(x, x);
    assert_false(nx_tensor_requires_grad(q));
    DROP(x, p, k, q);
}

static void test_changed_saved_value(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *p = mul(x, x), *s = sum(p), *one = counting(SIZES(2), 1);
    nx_grad_set_enabled(false);
    DROP(CALL("aten::add_.Tensor", T(x), T(one), nx_value_int(1)));
    nx_grad_set_enabled(true);
    FAILS(nx_tensor_backward(s), RUNTIME,
          "one of the variables needed for gradient computation has been modified by an inplace operation: "
              "[torch.FloatTensor [2]] is at version 1; expected version 0 instead. Hint: enable anomaly "
              "detection");
    nx_tensor *q = add(x, x), *r = mul(q, q), *t = sum(r);
    DROP(CALL("aten::add_.Tensor", T(q), T(one), nx_value_int(1)));
    FAILS(nx_tensor_backward(t), RUNTIME, "[torch.FloatTensor [2]], which is output 0 of Add, is at version "
          "1; expected version 0 instead.");
    DROP(x, p, s, one, q, r, t);
}

static void test_in_place(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *y = leaf(SIZES(2), 5), *p = mul(x, x);
    nx_tensor *same = CALL("aten::mul_.Tensor", T(p), T(y)); /* x^2*y, both gradients */
    assert_ptr_equal(same, p);
    assert_int_equal(nx_tensor_version(p), 1);
    nx_tensor *s = sum(p);
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(x), VALUES(10, 24));
    assert_values(nx_tensor_get_grad(y), VALUES(1, 4));
    DROP(x, y, p, same, s);
}

static void test_in_place_with_itself(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *p = add(x, x);
    DROP(CALL("aten::mul_.Tensor", T(p), T(p))); /* (2x)^2 */
    nx_tensor *s = sum(p);
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(x), VALUES(8, 16));
    DROP(x, p, s);
}

static void test_constant_gets_history(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *c = counting(SIZES(2), 3);
    DROP(CALL("aten::mul_.Tensor", T(c), T(x)));
    assert_true(nx_tensor_requires_grad(c));
    nx_tensor *s = sum(c);
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(x), VALUES(3, 4));
    DROP(x, c, s);
}

static void test_overwritten(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *p = mul(x, x), *to = counting(SIZES(2, 2), 0);
    DROP(CALL("aten::copy_", T(to), T(x), nx_value_bool(false)));
    nx_tensor *s = sum(to);
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(x), VALUES(2, 2)); /* x was broadcast */
    DROP(CALL("aten::zero_", T(p)));
    assert_true(nx_tensor_requires_grad(p));
    nx_tensor *t = sum(p);
    OK(nx_tensor_backward(t));
    assert_values(nx_tensor_get_grad(x), VALUES(2, 2));
    DROP(x, p, to, s, t);
}

static void test_refused_in_place(void **state) {
    nx_tensor *x = leaf(SIZES(2, 2), 1), *v = CALL("aten::t", T(x)), *p = mul(x, x), *out;
    const nx_value in[] = {T(x), nx_value_int(1), nx_value_int(1)},
        view[] = {T(v), nx_value_int(1), nx_value_int(1)};
    FAILS(call("aten::add_.Tensor", in, &out), RUNTIME, "a leaf Variable that requires grad is being used in "
          "an in-place operation.");
    FAILS(call("aten::add_.Tensor", view, &out), RUNTIME, "a view of a leaf Variable that requires grad is "
          "being used in an in-place operation.");
    assert_int_equal(nx_tensor_version(x), 0);
    nx_grad_set_enabled(false);
    nx_tensor *unseen = CALL("aten::t", T(p));
    nx_grad_set_enabled(true);
    FAILS(call("aten::add_.Tensor", (nx_value[]){T(unseen), nx_value_int(1), nx_value_int(1)}, &out), RUNTIME,
          "A view was created in no_grad mode and is being modified inplace with grad mode enabled.");
    DROP(x, v, p, unseen);
}

static nx_tensor *row(nx_tensor *x, int i) { return CALL("aten::select.int", T(x), nx_value_int(0), nx_value_int(i)); }

static void test_written_view(void **state) {
    nx_tensor *x = leaf(SIZES(2, 2), 1), *y = leaf(SIZES(2), 5), *p = mul(x, x), *before = row(p, 1), *written = row(p, 1);
    DROP(CALL("aten::mul_.Tensor", T(written), T(y))); /* x^2, its second row times y */
    assert_string_equal(nx_grad_node_name(p->autograd->node), "CopySlices");
    assert_false(nx_tensor_is_leaf(before));
    nx_tensor *s = sum(p), *t = sum(before);
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(x), VALUES(2, 4, 30, 48));
    assert_values(nx_tensor_get_grad(y), VALUES(9, 16));
    assert_string_equal(nx_grad_node_name(before->autograd->node), "AsStridedBackward0");
    DROP(x, y, p, before, written, s, t);
}

static void test_constant_with_views(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *c = counting(SIZES(2, 2), 0), *before = row(c, 1), *other = row(c, 0), *v = row(c, 1);
    nx_tensor *gone = row(c, 0);
    DROP(gone);
    DROP(CALL("aten::copy_", T(v), T(x), nx_value_bool(false)));
    assert_true(nx_tensor_requires_grad(c) && nx_tensor_requires_grad(before) && nx_tensor_requires_grad(other));
    nx_tensor *p = mul(before, before), *q = mul(p, other), *s = sum(q);
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(x), VALUES(0, 4)); /* 2x times the first row */
    DROP(x, c, before, other, v, p, q, s);
}

static void test_refused_out(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *to = counting(SIZES(2), 0), *out;
    FAILS(call("aten::add.out", (nx_value[]){T(x), T(x), nx_value_int(1), T(to)}, &out), RUNTIME,
          "add(): functions with out=... arguments don't support automatic differentiation, but one of the "
              "arguments requires grad.");
    DROP(x, to);
}

static void test_number_operand(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *p = CALL("aten::mul.Tensor", T(x), nx_value_float(3)),
        *q = CALL("aten::add.Tensor", T(p), nx_value_int(2), nx_value_int(1));
    nx_tensor *s = sum(q);
    assert_values(q, VALUES(5, 8));
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(x), VALUES(3, 3));
    DROP(x, p, q, s);
}

/* ---- a formula that reads the result: r(x) = 1/x, dr = -g*r*r ------------------------------------------ */
static nx_status inverse_meta(const nx_value *in, nx_meta *out) {
    out->dtype = (nx_dtype)in[0].array->dtype;
    out->device = in[0].array->device;
    out->ndim = in[0].array->ndim;
    memcpy(out->size, in[0].array->sizes, sizeof(int64_t) * (size_t)out->ndim);
    nx_meta_contiguous(out);
    return NX_OK;
}
static nx_status inverse_kernel(nx_run *run, const nx_value *in, nx_value *out) {
    for (int64_t i = 0; i < out[0].array->numel; i++) {
        ((float *)out[0].array->data)[i] = 1 / ((float *)in[0].array->data)[i];
    }
    return NX_OK;
}
static nx_status inverse_backward(const nx_value *in, nx_tensor *const *results, nx_tensor *const *g,
                                  uint64_t needed, nx_tensor **grads) {
    assert_null(in[0].tensor->storage); /* only its shape was saved */
    nx_tensor *square, *product;
    NX_TRY(call("aten::mul.Tensor", (nx_value[]){T(results[0]), T(results[0])}, &square));
    nx_status status = call("aten::mul.Tensor", (nx_value[]){T(g[0]), T(square)}, &product);
    nx_tensor_unref(square);
    if (status != NX_OK) return status;
    status = call("aten::mul.Tensor", (nx_value[]){T(product), nx_value_float(-1)}, &grads[0]);
    nx_tensor_unref(product);
    return status;
}
static void define_inverse(void) {
    static const nx_param param = {.name = "self", .type = NX_TYPE_TENSOR};
    static const uint64_t none = 0, result = 1;
    static const nx_derivative derivative = {1, 0, 1, &none, &result, inverse_backward};
    static const nx_op_def def = {.name = "test::inverse", .schema = "test::inverse(Tensor self) -> "
                                  "Tensor", .n_in = 1,
                                  .n_out = 1, .params = &param, .meta = inverse_meta, .kernel =
                                      inverse_kernel,
                                  .derivative = &derivative, .source = "test_call.c"};
    if (nx_op_get(def.name) == NULL) OK(nx_library_def(&def));
}
static void test_saved_result(void **state) {
    define_inverse();
    nx_alloc_watch(true);
    int64_t before = nx_alloc_live();
    nx_tensor *x = leaf(SIZES(2), 1), *r = CALL("test::inverse", T(x)), *s = sum(r), *g, *gg;
    OK(nx_grad_run(&s, (nx_tensor *[]){NULL}, 1, true, true, &x, 1, &g));
    assert_values(g, VALUES(-1, -0.25));
    nx_tensor *t = sum(g);
    OK(nx_grad_run(&t, (nx_tensor *[]){NULL}, 1, true, false, &x, 1, &gg)); /* 2/x^3 */
    assert_values(gg, VALUES(2, 0.25));
    DROP(t, g, gg);
    DROP(CALL("aten::add_.Tensor", T(r), nx_value_int(1), nx_value_int(1)));
    FAILS(nx_tensor_backward(s), RUNTIME, "which is output 0 of Inverse, is at version 1; expected version "
          "0");
    DROP(x, r, s);
    assert_int_equal(nx_alloc_live(), before);
    nx_alloc_watch(false);
}

static nx_status write_view(void) {
    nx_tensor *x = NULL, *p = NULL, *v = NULL, *before = NULL, *same = NULL, *s = NULL, *t = NULL, *sum = NULL;
    nx_status status;
    NX_TRY_FAIL(nx_tensor_new(NX_F32, 2, (int64_t[]){2, 2}, NX_CPU, &x));
    NX_TRY_FAIL(nx_tensor_set_requires_grad(x, true));
    NX_TRY_FAIL(call("aten::mul.Tensor", (nx_value[]){T(x), T(x)}, &p));
    NX_TRY_FAIL(call("aten::t", (nx_value[]){T(p)}, &before));
    NX_TRY_FAIL(call("aten::select.int", (nx_value[]){T(p), nx_value_int(0), nx_value_int(1)}, &v));
    NX_TRY_FAIL(call("aten::exp_", (nx_value[]){T(v)}, &same));
    NX_TRY_FAIL(call("aten::sum", (nx_value[]){T(p), NX_VALUE_NONE}, &s));
    NX_TRY_FAIL(call("aten::sum", (nx_value[]){T(before), NX_VALUE_NONE}, &t));
    NX_TRY_FAIL(call("aten::add.Tensor", (nx_value[]){T(s), T(t), nx_value_int(1)}, &sum));
    NX_TRY_FAIL(nx_tensor_backward(sum));
fail:
    DROP(x, p, v, before, same, s, t, sum);
    return status;
}
static void test_written_view_every_allocation_fails(void **state) { fail_every_allocation(write_view); }

/* Results are freed in any order; a graph that is never run is freed as well. */
static void test_nothing_is_left(void **state) {
    nx_alloc_watch(true);
    int64_t before = nx_alloc_live();
    nx_tensor *x = leaf(SIZES(2), 1), *p = mul(x, x), *q = mul(p, p), *s = sum(q);
    DROP(x, q, p, s);
    assert_int_equal(nx_alloc_live(), before);
    x = leaf(SIZES(2), 1), p = mul(x, x), q = add(p, p);
    DROP(CALL("aten::mul_.Tensor", T(q), T(p)));
    s = sum(q);
    OK(nx_tensor_backward(s));
    DROP(s, q, p, x);
    assert_int_equal(nx_alloc_live(), before);
    nx_alloc_watch(false);
}

static nx_status change_in_place(void) {
    nx_tensor *x = NULL, *p = NULL, *same = NULL, *s = NULL;
    nx_status status;
    NX_TRY_FAIL(nx_tensor_new(NX_F32, 1, (int64_t[]){2}, NX_CPU, &x));
    NX_TRY_FAIL(nx_tensor_set_requires_grad(x, true));
    NX_TRY_FAIL(call("aten::mul.Tensor", (nx_value[]){T(x), T(x)}, &p));
    NX_TRY_FAIL(call("aten::mul_.Tensor", (nx_value[]){T(p), T(x)}, &same));
    NX_TRY_FAIL(call("aten::sum", (nx_value[]){T(p), NX_VALUE_NONE}, &s));
    NX_TRY_FAIL(nx_tensor_backward(s));
fail:
    DROP(x, p, same, s);
    return status;
}
static void test_every_allocation_fails(void **state) { fail_every_allocation(change_in_place); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history), cmocka_unit_test(test_no_history_without_grad_mode),
            cmocka_unit_test(test_requires_grad),
        cmocka_unit_test(test_changed_saved_value), cmocka_unit_test(test_in_place),
            cmocka_unit_test(test_in_place_with_itself),
        cmocka_unit_test(test_constant_gets_history), cmocka_unit_test(test_overwritten),
            cmocka_unit_test(test_refused_in_place), cmocka_unit_test(test_refused_out),
        cmocka_unit_test(test_number_operand), cmocka_unit_test(test_saved_result),
            cmocka_unit_test(test_nothing_is_left), cmocka_unit_test(test_written_view),
        cmocka_unit_test(test_constant_with_views), cmocka_unit_test(test_written_view_every_allocation_fails),
            cmocka_unit_test(test_every_allocation_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
