/* One compiled function that several threads run at the same time, forward and backward: each gets its own numbers. */
#include "../calls.h"
#include "compile/private.h"

#include <pthread.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define OK(expr)                                                            \
    do {                                                                    \
        if ((expr) != NX_OK) fail_msg("%s: %s", #expr, nx_error_message()); \
    } while (0)
#define N(node) nx_value_node(node, 0)
enum { ROWS = 120, COLUMNS = 250, LAYERS = 3, THREADS = 4, RUNS = 40 };

static nx_compiled *compile_loss(void) {
    nx_graph *graph;
    nx_node *x, *now, *sum;
    nx_aot *aot;
    nx_compiled *compiled;
    OK(nx_graph_new(&graph));
    OK(nx_graph_input(graph, "x", NX_F32, 2, (int64_t[]){ROWS, COLUMNS}, NX_CPU, &x));
    OK(nx_tensor_set_requires_grad(x->fakes[0], true));
    now = x;
    for (int i = 0; i < LAYERS; i++) {
        OK(nx_graph_call(graph, nx_op_get("aten::tanh"), (nx_value[]){N(now)}, &now));
        OK(nx_graph_call(graph, nx_op_get("aten::_softmax"), (nx_value[]){N(now), nx_value_int(1), nx_value_bool(false)}, &now));
    }
    OK(nx_graph_call(graph, nx_op_get("aten::mul.Tensor"), (nx_value[]){N(now), N(x)}, &now));
    OK(nx_graph_call(graph, nx_op_get("aten::sum"), (nx_value[]){N(now), NX_VALUE_NONE}, &sum));
    OK(nx_graph_output(graph, (nx_value[]){N(sum)}, 1));
    OK(nx_aot_compile(graph, true, &aot));
    nx_graph_free(graph);
    OK(nx_compiled_new(aot, NX_MODE_MAX_AUTOTUNE, NX_CPU, &compiled));
    return compiled;
}

typedef struct task {
    nx_compiled *compiled;
    nx_tensor *x;
    float loss, *grad; /* what one thread alone computes */
    nx_status status;
    int n_wrong;
} task;

static nx_status run_once(task *t, float *loss, const float **grad) {
    nx_tensor *result;
    NX_TRY(nx_compiled_run(t->compiled, &t->x, 1, &result, 1));
    memcpy(loss, result->a.data, sizeof *loss);
    nx_status status = nx_tensor_backward(result);
    nx_tensor_unref(result);
    if (status == NX_OK) *grad = nx_tensor_get_grad(t->x)->a.data;
    return status;
}

static void *work(void *at) {
    task *t = at;
    for (int i = 0; i < RUNS && t->status == NX_OK; i++) {
        float loss;
        const float *grad;
        t->status = run_once(t, &loss, &grad);
        if (t->status != NX_OK) break;
        t->n_wrong += loss != t->loss || memcmp(grad, t->grad, sizeof(float) * ROWS * COLUMNS) != 0;
        t->status = nx_tensor_set_grad(t->x, NULL);
    }
    return NULL;
}

static void prepare(task *t, nx_compiled *compiled, int seed) {
    const float *grad;
    *t = (task){.compiled = compiled, .grad = malloc(sizeof(float) * ROWS * COLUMNS)};
    OK(nx_tensor_new(NX_F32, 2, (int64_t[]){ROWS, COLUMNS}, NX_CPU, &t->x));
    for (int64_t i = 0; i < t->x->a.numel; i++) ((float *)t->x->a.data)[i] = (float)((i * (seed + 3) + seed) % 17 - 8) / 8;
    OK(nx_tensor_set_requires_grad(t->x, true));
    OK(run_once(t, &t->loss, &grad));
    memcpy(t->grad, grad, sizeof(float) * ROWS * COLUMNS);
    OK(nx_tensor_set_grad(t->x, NULL));
}

static void test_threads_run_one_compiled_function(void **state) {
    nx_compiled *compiled = compile_loss();
    pthread_t thread[THREADS];
    task tasks[THREADS];
    for (int i = 0; i < THREADS; i++) prepare(&tasks[i], compiled, i);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, work, &tasks[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(tasks[i].status, NX_OK);
        assert_int_equal(tasks[i].n_wrong, 0);
        nx_tensor_unref(tasks[i].x);
        free(tasks[i].grad);
    }
    nx_compiled_unref(compiled);
}

/* A call that comes while all programs run gets one more, once. */
static void test_a_busy_program_has_a_twin(void **state) {
    nx_compiled *compiled = compile_loss();
    nx__twin *first, *second, *again;
    OK(nx__twins_take(compiled->forward, &first));
    OK(nx__twins_take(compiled->forward, &second));
    assert_ptr_not_equal(first->program, second->program);
    nx__twins_give(second);
    OK(nx__twins_take(compiled->forward, &again));
    assert_ptr_equal(again, second);
    nx__twins_give(again);
    nx__twins_give(first);
    nx_compiled_unref(compiled);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_busy_program_has_a_twin),
                                       cmocka_unit_test(test_threads_run_one_compiled_function)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
