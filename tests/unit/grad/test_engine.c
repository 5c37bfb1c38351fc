/* The backward engine: gradients, seeds, chosen inputs, retained graphs, second gradients, deep graphs. */
#include "grad_test.h"

static void test_product_and_sum(void **state) {
    nx_tensor *x = leaf(SIZES(2, 2), 1), *y = leaf(SIZES(2, 2), 10), *p = mul(x, y), *s = sum(p);
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(x), VALUES(10, 11, 12, 13));
    assert_values(nx_tensor_get_grad(y), VALUES(1, 2, 3, 4));
    DROP(x, y, p, s);
}

static void test_gradients_add_up(void **state) {
    nx_tensor *x = leaf(SIZES(3), 1), *p = mul(x, x), *s = sum(p);
    OK(nx_grad_run(&s, (nx_tensor *[]){NULL}, 1, true, false, NULL, 0, NULL));
    nx_tensor *grad = nx_tensor_get_grad(x);
    assert_values(grad, VALUES(2, 4, 6));
    OK(nx_tensor_backward(s));
    assert_ptr_equal(grad, nx_tensor_get_grad(x)); /* in place */
    assert_values(grad, VALUES(4, 8, 12));
    DROP(x, p, s);
}

static void test_first_gradient_is_not_shared(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *y = leaf(SIZES(2), 1), *z = add(x, y), *seed = counting(SIZES(2), 5);
    OK(nx_grad_run(&z, &seed, 1, false, false, NULL, 0, NULL));
    nx_tensor *gx = nx_tensor_get_grad(x), *gy = nx_tensor_get_grad(y);
    assert_values(gx, VALUES(5, 6));
    assert_values(gy, VALUES(5, 6));
    assert_true(gx->storage != gy->storage && gx->storage != seed->storage && gy->storage != seed->storage);
    DROP(x, y, z, seed);
}

static void test_broadcast_is_summed(void **state) {
    nx_tensor *x = leaf(SIZES(2, 3), 1), *b = leaf(SIZES(3), 1), *c = leaf(SIZES(2, 1), 1), *p = mul(x, b),
        *q = add(p, c), *s = sum(q);
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(b), VALUES(5, 7, 9));
    assert_values(nx_tensor_get_grad(c), VALUES(3, 3));
    assert_int_equal(nx_tensor_get_grad(c)->a.ndim, 2);
    DROP(x, b, c, p, q, s);
}

static void test_dtype_of_the_argument(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *d;
    OK(nx_tensor_new(NX_F64, 1, (int64_t[]){2}, NX_CPU, &d));
    ((double *)d->a.data)[0] = 3, ((double *)d->a.data)[1] = 4;
    nx_tensor *p = mul(x, d), *s = sum(p);
    assert_int_equal(p->a.dtype, NX_F64);
    OK(nx_tensor_backward(s));
    assert_int_equal(nx_tensor_get_grad(x)->a.dtype, NX_F32);
    assert_values(nx_tensor_get_grad(x), VALUES(3, 4));
    DROP(x, d, p, s);
}

static void test_matrix_product(void **state) {
    nx_tensor *x = leaf(SIZES(2, 3), 1), *w = leaf(SIZES(2, 3), 1), *wt = CALL("aten::t", T(w)),
        *y = CALL("aten::mm", T(x), T(wt)), *s = sum(y);
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(x), VALUES(5, 7, 9, 5, 7, 9));
    assert_values(nx_tensor_get_grad(w), VALUES(5, 7, 9, 5, 7, 9));
    assert_null(nx_tensor_get_grad(w)->base);
    DROP(x, w, wt, y, s);
}

static void test_second_backward(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *p = mul(x, x), *s = sum(p), *d = add(x, x), *t = sum(d);
    OK(nx_tensor_backward(s));
    FAILS(nx_tensor_backward(s), RUNTIME, "Trying to backward through the graph a second time");
    OK(nx_tensor_backward(t)); /* saves nothing that could be gone */
    OK(nx_tensor_backward(t));
    DROP(x, p, s, d, t);
}

static void test_errors_of_roots(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *p = mul(x, x), *seed = counting(SIZES(3), 0), *none = NULL,
        *c = counting(SIZES(1), 0);
    FAILS(nx_tensor_backward(p), RUNTIME, "grad can be implicitly created only for scalar outputs");
    FAILS(nx_tensor_backward(c), RUNTIME, "element 0 of tensors does not require grad and does not have a "
          "grad_fn");
    FAILS(nx_grad_run(&p, &seed, 1, false, false, NULL, 0, NULL), RUNTIME,
          "Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a shape of "
              "torch.Size([2]).");
    FAILS(nx_grad_run(&p, &seed, 1, false, false, &c, 1, &none), RUNTIME, "One of the differentiated Tensors "
          "does not require grad");
    assert_true(nx_grad_enabled());
    DROP(x, p, seed, c);
}

static void test_chosen_inputs(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *y = leaf(SIZES(2), 3), *unused = leaf(SIZES(2), 0);
    nx_tensor *p = mul(x, y), *q = mul(p, p), *s = sum(q), *out[4], *inputs[] = {p, x, unused, x};
    OK(nx_grad_run(&s, (nx_tensor *[]){NULL}, 1, false, false, inputs, 4, out));
    assert_values(out[0], VALUES(6, 16));
    assert_values(out[1], VALUES(18, 64));
    assert_null(out[2]);
    assert_ptr_equal(out[1], out[3]);
    FAILS(nx_grad_check_used(out, 4), RUNTIME, "The differentiated Tensor at index 2 appears to not have "
          "been used in the graph");
    assert_null(nx_tensor_get_grad(x));
    assert_null(nx_tensor_get_grad(y));
    DROP(out[0], out[1], out[3], x, y, unused, p, q, s);
}

static void test_second_gradient(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *p = mul(x, x), *q = mul(p, x), *s = sum(q), *g, *gg; /* x^3 */
    OK(nx_grad_run(&s, (nx_tensor *[]){NULL}, 1, true, true, &x, 1, &g));
    assert_values(g, VALUES(3, 12));
    assert_true(nx_tensor_requires_grad(g));
    nx_tensor *t = sum(g);
    OK(nx_grad_run(&t, (nx_tensor *[]){NULL}, 1, false, false, &x, 1, &gg));
    assert_values(gg, VALUES(6, 12));
    assert_false(nx_tensor_requires_grad(gg));
    DROP(x, p, q, s, g, t, gg);
}

static void test_several_roots(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *p = mul(x, x), *q = mul(p, x), *roots[] = {p, q, p},
        *one = counting(SIZES(2), 1), *g[] = {one, one, one};
    OK(nx_grad_run(roots, g, 3, false, false, NULL, 0, NULL));
    assert_values(nx_tensor_get_grad(x), VALUES(2 * 2 + 3, 2 * 2 * 2 * 2 + 3 * 4 * 2));
    DROP(x, p, q, one);
}

static void test_leaf_as_root(void **state) {
    nx_tensor *x = leaf(SIZES(1), 1);
    OK(nx_tensor_backward(x));
    assert_values(nx_tensor_get_grad(x), VALUES(1));
    DROP(x);
}

static void test_retained_gradient(void **state) {
    nx_tensor *x = leaf(SIZES(2), 1), *p = mul(x, x), *s = sum(p);
    OK(nx_tensor_retain_grad(p));
    OK(nx_tensor_backward(s));
    assert_values(nx_tensor_get_grad(p), VALUES(1, 1));
    DROP(p);
    DROP(x, s);
}

/* Neither running nor freeing may use the C stack for depth. */
static void test_deep_chain(void **state) {
    nx_tensor *x = leaf(SIZES(1), 1), *at = nx_tensor_ref(x), *one = counting(SIZES(1), 1);
    for (int i = 0; i < 100000; i++) take(add(at, one), &at);
    OK(nx_tensor_backward(at));
    assert_values(nx_tensor_get_grad(x), VALUES(1));
    DROP(at, x, one);
}

/* A node whose backward runs another backward through nodes of the same graph. */
static nx_tensor *inner_root;
static nx_status run_inner(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    OK(nx_grad_run(&inner_root, (nx_tensor *[]){NULL}, 1, true, false, NULL, 0, NULL));
    grads[0] = nx_tensor_ref(g[0]);
    return NX_OK;
}
static void test_backward_inside_backward(void **state) {
    static const nx_grad_class class = {"Inner", run_inner, NULL, NULL};
    nx_tensor *x = leaf(SIZES(1), 3), *p = mul(x, x), *y = counting(SIZES(1), 9);
    nx_grad_node *node;
    OK(nx_grad_node_new(&class, 1, 1, NULL, &node));
    OK(nx_grad_edge(p, &node->edges[0]));
    OK(nx_grad_set_node(y, node, 0));
    nx_grad_node_unref(node);
    inner_root = p;
    OK(nx_tensor_backward(y));
    assert_values(nx_tensor_get_grad(x), VALUES(12));
    DROP(x, p, y);
}

static nx_status train_once(void) {
    nx_tensor *x = NULL, *w = NULL, *wt = NULL, *y = NULL, *p = NULL, *s = NULL;
    nx_status status;
    NX_TRY_FAIL(nx_tensor_new(NX_F32, 2, (int64_t[]){2, 3}, NX_CPU, &x));
    NX_TRY_FAIL(nx_tensor_new(NX_F32, 2, (int64_t[]){2, 3}, NX_CPU, &w));
    for (int i = 0; i < 6; i++) ((float *)x->a.data)[i] = ((float *)w->a.data)[i] = (float)i;
    NX_TRY_FAIL(nx_tensor_set_requires_grad(w, true));
    NX_TRY_FAIL(call("aten::t", (nx_value[]){T(w)}, &wt));
    NX_TRY_FAIL(call("aten::mm", (nx_value[]){T(x), T(wt)}, &y));
    NX_TRY_FAIL(call("aten::mul.Tensor", (nx_value[]){T(y), T(y)}, &p));
    NX_TRY_FAIL(call("aten::sum", (nx_value[]){T(p), NX_VALUE_NONE}, &s));
    NX_TRY_FAIL(nx_grad_run(&s, (nx_tensor *[]){NULL}, 1, true, false, NULL, 0, NULL));
    NX_TRY_FAIL(nx_tensor_backward(s));
fail:
    DROP(x, w, wt, y, p, s);
    return status;
}
static void test_every_allocation_fails(void **state) { fail_every_allocation(train_once); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_and_sum), cmocka_unit_test(test_gradients_add_up),
            cmocka_unit_test(test_first_gradient_is_not_shared),
        cmocka_unit_test(test_broadcast_is_summed), cmocka_unit_test(test_dtype_of_the_argument),
            cmocka_unit_test(test_matrix_product),
        cmocka_unit_test(test_second_backward), cmocka_unit_test(test_errors_of_roots),
            cmocka_unit_test(test_chosen_inputs),
        cmocka_unit_test(test_second_gradient), cmocka_unit_test(test_several_roots),
            cmocka_unit_test(test_leaf_as_root),
        cmocka_unit_test(test_retained_gradient), cmocka_unit_test(test_deep_chain),
            cmocka_unit_test(test_backward_inside_backward),
        cmocka_unit_test(test_every_allocation_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
