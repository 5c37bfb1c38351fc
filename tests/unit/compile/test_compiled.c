/* Compiled functions in the three modes: numbers and gradients as eager, written inputs, aliases, errors. */
#include "../calls.h"
#include "compile/private.h"
#include "engine/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define OK(expr) assert_int_equal((expr), NX_OK)
#define FAILS(expr, code, part)                                              \
    do {                                                                     \
        assert_int_equal((expr), NX_##code);                                 \
        if (strstr(nx_error_message(), (part)) == NULL) fail_msg("%s", nx_error_message()); \
    } while (0)
#define T(t) nx_value_tensor(t)
#define N(node) nx_value_node(node, 0)
static const nx_mode modes[] = {NX_MODE_EAGER, NX_MODE_REDUCE_OVERHEAD, NX_MODE_MAX_AUTOTUNE};

/* ---- tensors and graphs ------------------------------------------------------------------------------- */
static nx_status counting(int ndim, const int64_t *sizes, double start, bool requires_grad, nx_tensor **out) {
    NX_TRY(nx_tensor_new(NX_F32, ndim, sizes, NX_CPU, out));
    for (int64_t i = 0; i < (*out)->a.numel; i++) ((float *)(*out)->a.data)[i] = (float)(start + (double)i);
    nx_status status = nx_tensor_set_requires_grad(*out, requires_grad);
    if (status == NX_OK) return NX_OK;
    nx_tensor_unref(*out);
    *out = NULL;
    return status;
}
static nx_tensor *matrix(int64_t rows, int64_t columns, double start, bool requires_grad) {
    nx_tensor *t;
    OK(counting(2, (int64_t[]){rows, columns}, start, requires_grad, &t));
    return t;
}
static nx_tensor *vector(int64_t n, double start, bool requires_grad) {
    nx_tensor *t;
    OK(counting(1, &n, start, requires_grad, &t));
    return t;
}
static nx_status input(nx_graph *graph, const char *name, int ndim, const int64_t *sizes, bool requires_grad,
                       nx_node **out) {
    NX_TRY(nx_graph_input(graph, name, NX_F32, ndim, sizes, NX_CPU, out));
    return nx_tensor_set_requires_grad((*out)->fakes[0], requires_grad);
}
static nx_status node(nx_graph *graph, const char *name, const nx_value *in, nx_node **out) {
    const nx_op *op;
    NX_TRY(nx_op_find(name, &op));
    return nx_graph_call(graph, op, in, out);
}
static void assert_equal(const nx_tensor *a, const nx_tensor *b) {
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(a->a.ndim, b->a.ndim);
    assert_int_equal(a->a.numel, b->a.numel);
    assert_true(a->a.contiguous && b->a.contiguous);
    for (int d = 0; d < a->a.ndim; d++) assert_int_equal(a->a.sizes[d], b->a.sizes[d]);
    for (int64_t i = 0; i < a->a.numel; i++) {
        float x = ((float *)a->a.data)[i], y = ((float *)b->a.data)[i];
        if (x != y) fail_msg("element %d: %g and %g", (int)i, x, y);
    }
}
static void assert_values(const nx_tensor *t, const float *expected, int n) {
    assert_non_null(t);
    assert_int_equal(t->a.numel, n);
    assert_true(t->a.contiguous);
    for (int i = 0; i < n; i++) {
        if (((float *)t->a.data)[i] != expected[i])
            fail_msg("element %d is %g, expected %g", i, ((float *)t->a.data)[i], expected[i]);
    }
}
#define VALUES(...) (const float[]){__VA_ARGS__}, NX_COUNT(((const float[]){__VA_ARGS__}))

/* f(x, w, b) = (x @ w.t() * b + b).sum(), and the product as a second result when `product` */
static nx_status graph_of_f(bool requires_grad, bool product, nx_graph **out) {
    nx_node *x, *w, *b, *wt, *mm, *scaled, *shifted, *sum;
    nx_graph *graph;
    nx_status status;
    NX_TRY(nx_graph_new(&graph));
    NX_TRY_FAIL(input(graph, "x", 2, (int64_t[]){2, 3}, requires_grad, &x));
    NX_TRY_FAIL(input(graph, "w", 2, (int64_t[]){4, 3}, requires_grad, &w));
    NX_TRY_FAIL(input(graph, "b", 1, (int64_t[]){4}, requires_grad, &b));
    NX_TRY_FAIL(node(graph, "aten::t", (nx_value[]){N(w)}, &wt));
    NX_TRY_FAIL(node(graph, "aten::mm", (nx_value[]){N(x), N(wt)}, &mm));
    NX_TRY_FAIL(node(graph, "aten::mul.Tensor", (nx_value[]){N(mm), N(b)}, &scaled));
    NX_TRY_FAIL(node(graph, "aten::add.Tensor", (nx_value[]){N(scaled), N(b), nx_value_int(1)}, &shifted));
    NX_TRY_FAIL(node(graph, "aten::sum", (nx_value[]){N(shifted), NX_VALUE_NONE}, &sum));
    NX_TRY_FAIL(nx_graph_output(graph, (nx_value[]){N(sum), N(mm)}, 1 + product));
    *out = graph;
    return NX_OK;
fail:
    nx_graph_free(graph);
    return status;
}
/* takes graph */
static nx_status compile_graph(nx_graph *graph, bool grad_mode, nx_mode mode, nx_compiled **out) {
    nx_aot *aot;
    nx_status status = nx_aot_compile(graph, grad_mode, &aot);
    nx_graph_free(graph);
    return status == NX_OK ? nx_compiled_new(aot, mode, NX_CPU, out) : status;
}
static nx_compiled *compiled_f(bool requires_grad, bool product, nx_mode mode) {
    nx_graph *graph;
    nx_compiled *compiled;
    OK(graph_of_f(requires_grad, product, &graph));
    OK(compile_graph(graph, requires_grad, mode, &compiled));
    return compiled;
}
static nx_tensor *eager_f(nx_tensor *x, nx_tensor *w, nx_tensor *b, nx_tensor **product) {
    nx_tensor *wt, *scaled, *shifted, *sum;
    OK(call("aten::t", (nx_value[]){T(w)}, &wt));
    OK(call("aten::mm", (nx_value[]){T(x), T(wt)}, product));
    OK(call("aten::mul.Tensor", (nx_value[]){T(*product), T(b)}, &scaled));
    OK(call("aten::add.Tensor", (nx_value[]){T(scaled), T(b), nx_value_int(1)}, &shifted));
    OK(call("aten::sum", (nx_value[]){T(shifted), NX_VALUE_NONE}, &sum));
    nx_tensor_unref(wt);
    nx_tensor_unref(scaled);
    nx_tensor_unref(shifted);
    return sum;
}

/* ---- numbers ------------------------------------------------------------------------------------------ */
typedef struct arguments { nx_tensor *x, *w, *b; } arguments;
static arguments new_arguments(bool requires_grad) {
    return (arguments){matrix(2, 3, 1, requires_grad), matrix(4, 3, -2, requires_grad),
                       vector(4, 3, requires_grad)};
}
static void drop_arguments(arguments *a) {
    nx_tensor_unref(a->x);
    nx_tensor_unref(a->w);
    nx_tensor_unref(a->b);
}

static void test_as_eager(void **state) {
    for (int m = 0; m < NX_COUNT(modes); m++) {
        arguments a = new_arguments(true), e = new_arguments(true);
        nx_compiled *compiled = compiled_f(true, true, modes[m]);
        nx_tensor *out[2], *product, *expected = eager_f(e.x, e.w, e.b, &product);
        for (int round = 0; round < 2; round++) { /* the second adds to the gradients */
            OK(nx_compiled_run(compiled, (nx_tensor *[]){a.x, a.w, a.b}, 3, out, 2));
            assert_equal(out[0], expected);
            assert_equal(out[1], product);
            assert_string_equal(nx_grad_node_name(out[0]->autograd->node), "CompiledFunctionBackward");
            assert_int_equal(out[1]->autograd->output, 1);
            OK(nx_grad_run(out, (nx_tensor *[]){NULL, NULL}, 1, false, false, NULL, 0, NULL));
            FAILS(nx_tensor_backward(out[0]), RUNTIME, "Trying to backward through the graph a second time");
            OK(nx_grad_run(&expected, (nx_tensor *[]){NULL}, 1, true, false, NULL, 0, NULL));
            assert_equal(nx_tensor_get_grad(a.x), nx_tensor_get_grad(e.x));
            assert_equal(nx_tensor_get_grad(a.w), nx_tensor_get_grad(e.w));
            assert_equal(nx_tensor_get_grad(a.b), nx_tensor_get_grad(e.b));
            nx_tensor_unref(out[0]);
            nx_tensor_unref(out[1]);
        }
        nx_tensor_unref(expected);
        nx_tensor_unref(product);
        drop_arguments(&a);
        drop_arguments(&e);
        nx_compiled_unref(compiled);
    }
}

static void test_gradients_of_both_results(void **state) {
    for (int m = 0; m < NX_COUNT(modes); m++) {
        arguments a = new_arguments(true), e = new_arguments(true);
        nx_compiled *compiled = compiled_f(true, true, modes[m]);
        nx_tensor *out[2], *expected[2], *one, *spread, *seeds[2] = {NULL};
        expected[0] = eager_f(e.x, e.w, e.b, &expected[1]);
        one = vector(1, 2, false);
        OK(call("aten::expand",
                (nx_value[]){T(one), nx_value_ints((int64_t[]){2, 4}, 2), nx_value_bool(false)}, &spread));
        seeds[1] = spread; /* without strides */
        OK(nx_compiled_run(compiled, (nx_tensor *[]){a.x, a.w, a.b}, 3, out, 2));
        OK(nx_grad_run(out, seeds, 2, false, false, NULL, 0, NULL));
        OK(nx_grad_run(expected, seeds, 2, false, false, NULL, 0, NULL));
        assert_equal(nx_tensor_get_grad(a.x), nx_tensor_get_grad(e.x));
        assert_equal(nx_tensor_get_grad(a.w), nx_tensor_get_grad(e.w));
        for (int i = 0; i < 2; i++) {
            nx_tensor_unref(out[i]);
            nx_tensor_unref(expected[i]);
        }
        nx_tensor_unref(one);
        nx_tensor_unref(spread);
        drop_arguments(&a);
        drop_arguments(&e);
        nx_compiled_unref(compiled);
    }
}

static void test_without_gradients(void **state) {
    for (int m = 0; m < NX_COUNT(modes); m++) {
        arguments a = new_arguments(false), g = new_arguments(true);
        nx_compiled *plain = compiled_f(false, false, modes[m]), *trained = compiled_f(true, false, modes[m]);
        nx_tensor *out, *same;
        assert_null(nx_compiled_aot(plain)->backward);
        assert_true(nx_compiled_n_launches(plain) > 0);
        OK(nx_compiled_run(plain, (nx_tensor *[]){a.x, a.w, a.b}, 3, &out, 1));
        assert_false(nx_tensor_requires_grad(out));
        nx_grad_set_enabled(false);
        OK(nx_compiled_run(trained, (nx_tensor *[]){g.x, g.w, g.b}, 3, &same, 1));
        nx_grad_set_enabled(true);
        assert_false(nx_tensor_requires_grad(same));
        assert_equal(out, same);
        FAILS(nx_compiled_run(plain, (nx_tensor *[]){a.x, a.w, a.b}, 2, &same, 1), TYPE, "2 inputs");
        nx_tensor_unref(out);
        nx_tensor_unref(same);
        drop_arguments(&a);
        drop_arguments(&g);
        nx_compiled_unref(plain);
        nx_compiled_unref(trained);
    }
}

/* ---- errors of the backward --------------------------------------------------------------------------- */
static void test_changed_saved_value(void **state) {
    for (int m = 0; m < NX_COUNT(modes); m++) {
        arguments a = new_arguments(true);
        nx_compiled *compiled = compiled_f(true, false, modes[m]);
        nx_tensor *out, *same;
        OK(nx_compiled_run(compiled, (nx_tensor *[]){a.x, a.w, a.b}, 3, &out, 1));
        nx_grad_set_enabled(false);
        OK(call("aten::add_.Tensor", (nx_value[]){T(a.x), nx_value_int(1), nx_value_int(1)}, &same));
        nx_grad_set_enabled(true);
        FAILS(nx_tensor_backward(out), RUNTIME, "one of the variables needed for gradient computation has "
              "been modified by an inplace operation");
        nx_tensor_unref(same);
        nx_tensor_unref(out);
        drop_arguments(&a);
        nx_compiled_unref(compiled);
    }
}

static void test_second_gradient_is_refused(void **state) {
    arguments a = new_arguments(true);
    nx_compiled *compiled = compiled_f(true, false, NX_MODE_EAGER);
    nx_tensor *out, *grad;
    OK(nx_compiled_run(compiled, (nx_tensor *[]){a.x, a.w, a.b}, 3, &out, 1));
    FAILS(nx_grad_run(&out, (nx_tensor *[]){NULL}, 1, true, true, &a.x, 1, &grad), RUNTIME,
          "does not currently support double backward");
    nx_tensor_unref(out);
    drop_arguments(&a);
    nx_compiled_unref(compiled);
}

/* ---- written inputs and aliases ----------------------------------------------------------------------- */
/* x.add_(y); return x, x.t(), x*y, y */
static nx_status graph_of_write(bool requires_grad, nx_graph **out) {
    nx_node *x, *y, *written, *t, *product;
    nx_graph *graph;
    nx_status status;
    NX_TRY(nx_graph_new(&graph));
    NX_TRY_FAIL(input(graph, "x", 2, (int64_t[]){2, 3}, false, &x));
    NX_TRY_FAIL(input(graph, "y", 2, (int64_t[]){2, 3}, requires_grad, &y));
    NX_TRY_FAIL(node(graph, "aten::add_.Tensor", (nx_value[]){N(x), nx_value_int(10), nx_value_int(1)},
                     &written));
    NX_TRY_FAIL(node(graph, "aten::t", (nx_value[]){N(x)}, &t));
    NX_TRY_FAIL(node(graph, "aten::mul.Tensor", (nx_value[]){N(written), N(y)}, &product));
    NX_TRY_FAIL(nx_graph_output(graph, (nx_value[]){N(written), N(t), N(product), N(y)}, 4));
    *out = graph;
    return NX_OK;
fail:
    nx_graph_free(graph);
    return status;
}

static void test_written_input_and_aliases(void **state) {
    for (int m = 0; m < NX_COUNT(modes); m++) {
        nx_graph *graph;
        nx_compiled *compiled;
        nx_tensor *x = matrix(2, 3, 1, false), *y = matrix(2, 3, 0, true), *out[4], *sum;
        OK(graph_of_write(true, &graph));
        OK(compile_graph(graph, true, modes[m], &compiled));
        OK(nx_compiled_run(compiled, (nx_tensor *[]){x, y}, 2, out, 4));
        assert_ptr_equal(out[0], x);
        assert_ptr_equal(out[3], y);
        assert_int_equal(nx_tensor_version(x), 1);
        assert_values(x, VALUES(11, 12, 13, 14, 15, 16));
        assert_ptr_equal(out[1]->storage, x->storage);
        assert_int_equal(out[1]->a.sizes[0], 3);
        assert_int_equal(out[1]->a.strides[0], 1);
        assert_values(out[2], VALUES(0, 12, 26, 42, 60, 80));
        OK(call("aten::sum", (nx_value[]){T(out[2]), NX_VALUE_NONE}, &sum));
        OK(nx_tensor_backward(sum));
        assert_values(nx_tensor_get_grad(y), VALUES(11, 12, 13, 14, 15, 16));
        for (int i = 0; i < 4; i++) nx_tensor_unref(out[i]);
        nx_tensor_unref(sum);
        OK(nx_tensor_set_requires_grad(x, true));
        FAILS(nx_compiled_run(compiled, (nx_tensor *[]){x, y}, 2, out, 4), RUNTIME,
              "a leaf Variable that requires grad");
        nx_tensor_unref(x);
        nx_tensor_unref(y);
        nx_compiled_unref(compiled);
    }
}

static void test_view_has_the_history_of_its_input(void **state) {
    nx_graph *graph;
    nx_node *x, *t;
    nx_compiled *compiled;
    nx_tensor *a = matrix(2, 3, 1, true), *out, *weights = matrix(3, 2, 1, false), *product, *sum;
    OK(nx_graph_new(&graph));
    OK(input(graph, "x", 2, (int64_t[]){2, 3}, true, &x));
    OK(node(graph, "aten::t", (nx_value[]){N(x)}, &t));
    OK(nx_graph_output(graph, (nx_value[]){N(t)}, 1));
    OK(compile_graph(graph, true, NX_MODE_MAX_AUTOTUNE, &compiled));
    OK(nx_compiled_run(compiled, &a, 1, &out, 1));
    assert_ptr_equal(out->storage, a->storage);
    assert_string_equal(nx_grad_node_name(out->autograd->node), "TBackward0");
    OK(call("aten::mul.Tensor", (nx_value[]){T(out), T(weights)}, &product));
    OK(call("aten::sum", (nx_value[]){T(product), NX_VALUE_NONE}, &sum));
    OK(nx_tensor_backward(sum));
    assert_values(nx_tensor_get_grad(a), VALUES(1, 3, 5, 2, 4, 6));
    nx_tensor_unref(a);
    nx_tensor_unref(out);
    nx_tensor_unref(weights);
    nx_tensor_unref(product);
    nx_tensor_unref(sum);
    nx_compiled_unref(compiled);
}

/* ---- lack of memory ----------------------------------------------------------------------------------- */
static nx_mode mode_now;
static nx_status train(void) {
    arguments a = {0};
    nx_graph *graph;
    nx_compiled *compiled = NULL;
    nx_tensor *out = NULL;
    nx_status status;
    NX_TRY_FAIL(counting(2, (int64_t[]){2, 3}, 1, true, &a.x));
    NX_TRY_FAIL(counting(2, (int64_t[]){4, 3}, 1, true, &a.w));
    NX_TRY_FAIL(counting(1, (int64_t[]){4}, 1, true, &a.b));
    NX_TRY_FAIL(graph_of_f(true, false, &graph));
    NX_TRY_FAIL(compile_graph(graph, true, mode_now, &compiled));
    NX_TRY_FAIL(nx_compiled_run(compiled, (nx_tensor *[]){a.x, a.w, a.b}, 3, &out, 1));
    NX_TRY_FAIL(nx_tensor_backward(out));
fail:
    nx_tensor_unref(out);
    drop_arguments(&a);
    nx_compiled_unref(compiled);
    return status;
}
static nx_status write(void) {
    nx_graph *graph;
    nx_compiled *compiled = NULL;
    nx_tensor *x = NULL, *y = NULL, *out[4] = {NULL};
    nx_status status;
    NX_TRY_FAIL(counting(2, (int64_t[]){2, 3}, 1, false, &x));
    NX_TRY_FAIL(counting(2, (int64_t[]){2, 3}, 1, true, &y));
    NX_TRY_FAIL(graph_of_write(true, &graph));
    NX_TRY_FAIL(compile_graph(graph, true, mode_now, &compiled));
    NX_TRY_FAIL(nx_compiled_run(compiled, (nx_tensor *[]){x, y}, 2, out, 4));
fail:
    for (int i = 0; i < 4; i++) nx_tensor_unref(out[i]);
    nx_tensor_unref(x);
    nx_tensor_unref(y);
    nx_compiled_unref(compiled);
    return status;
}

static void fail_every_allocation(nx_status (*body)(void)) {
    OK(body());
    nx_alloc_watch(true);
    OK(body());
    int64_t before = nx_alloc_live();
    for (int n = 1;; n++) {
        nx_alloc_fail_at(n);
        nx_status status = body();
        bool failed = nx_alloc_failed();
        nx_alloc_fail_at(0);
        if (nx_alloc_live() != before)
            fail_msg("mode %d, allocation %d failed: %lld blocks are left", mode_now, n,
                     (long long)(nx_alloc_live() - before));
        assert_int_equal(status, failed ? NX_NO_MEMORY : NX_OK);
        if (!failed) break;
    }
    OK(body());
    nx_alloc_watch(false);
}
static void test_every_allocation_fails(void **state) {
    for (int m = 0; m < NX_COUNT(modes); m++) {
        mode_now = modes[m];
        fail_every_allocation(train);
        fail_every_allocation(write);
    }
}

/* ---- NARTHEX_VERIFY ----------------------------------------------------------------------------------- */
/* In place of a kernel: the numbers are those of another one. */
static nx_status wrong_kernel(nx_run *run, const nx_value *in, nx_value *out) {
    for (int64_t i = 0; i < out[0].array->numel; i++) ((float *)out[0].array->data)[i] = 41;
    return NX_OK;
}

static nx_program *break_product(nx_program *program) {
    for (int i = 0; i < program->steps.n; i++) {
        nx__step *step = &program->steps.at[i];
        if (step->tile == NULL && strcmp(step->run.op->def->name, "aten::mm") == 0) step->kernel = wrong_kernel;
    }
    return program;
}

static nx_status run_f(nx_compiled *compiled) {
    arguments a = new_arguments(false);
    nx_tensor *out[2] = {NULL};
    nx_status status = nx_compiled_run(compiled, (nx_tensor *[]){a.x, a.w, a.b}, 3, out, compiled->aot->n_outputs);
    drop_arguments(&a);
    for (int i = 0; i < 2; i++) nx_tensor_unref(out[i]);
    return status;
}

/* The first node that differs is named, whether its kernel is wrong always or only in the plan itself. */
static void test_runs_are_compared(void **state) {
    nx_graph *graph;
    nx_compiled *compiled;
    nx_flag.compare = true;
    for (int m = 1; m < NX_COUNT(modes); m++) {
        OK(graph_of_f(false, true, &graph));
        OK(compile_graph(graph, false, modes[m], &compiled));
        assert_non_null(compiled->forward->check);
        OK(run_f(compiled));
        if (modes[m] == NX_MODE_MAX_AUTOTUNE) {
            break_product(compiled->forward->program);
            FAILS(run_f(compiled), RUNTIME, "though no call alone differs, the result of ");
            break_product(compiled->forward->check->all->program);
            FAILS(run_f(compiled), RUNTIME, "max-autotune, mm (aten::mm) is not what eager mode gives: element [0, 0] "
                  "of [2, 4] is 41, not -4");
        }
        nx_compiled_unref(compiled);
    }
    nx_flag.compare = false;
}

/* Of a recording the kernels are the device's: here eager mode is made to differ, from the sum on. */
static void test_recordings_are_compared(void **state) {
    nx_graph *graph;
    nx_compiled *compiled;
    nx_flag.compare = true;
    OK(graph_of_f(false, true, &graph));
    OK(compile_graph(graph, false, NX_MODE_REDUCE_OVERHEAD, &compiled));
    for (nx_node *at = compiled->forward->check->graph->first; at; at = at->next) {
        if (at->op == NULL || strcmp(at->op->def->name, "aten::add.Tensor") != 0) continue;
        nx_value in[] = {at->args[0], at->args[1], nx_value_int(2)};
        OK(nx_node_set_args(at, in, 3));
    }
    FAILS(run_f(compiled), RUNTIME, "reduce-overhead, add (aten::add.Tensor) is not what eager mode gives");
    nx_compiled_unref(compiled);
    nx_flag.compare = false;
}

static void test_comparing_and_allocations(void **state) {
    nx_flag.compare = true;
    test_every_allocation_fails(state);
    nx_flag.compare = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_eager), cmocka_unit_test(test_gradients_of_both_results),
            cmocka_unit_test(test_without_gradients),
        cmocka_unit_test(test_changed_saved_value), cmocka_unit_test(test_second_gradient_is_refused),
        cmocka_unit_test(test_written_input_and_aliases),
            cmocka_unit_test(test_view_has_the_history_of_its_input),
        cmocka_unit_test(test_every_allocation_fails), cmocka_unit_test(test_runs_are_compared),
        cmocka_unit_test(test_recordings_are_compared), cmocka_unit_test(test_comparing_and_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
