/* Threads that use one tensor at once, when nobody writes it, only borrow it: what they count up and down must come out even.
 * A lost count shows as a wrong one at the end, or as memory that is freed twice, which the sanitizers see. */
#include "../calls.h"
#include "grad/grad.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include <pthread.h>

#define OK(expr)                                                            \
    do {                                                                    \
        if ((expr) != NX_OK) fail_msg("%s: %s", #expr, nx_error_message()); \
    } while (0)
enum { THREADS = 4, ROUNDS = 100000 };

static pthread_barrier_t start;
static nx_tensor *shared;
static nx_generator *generator;
static _Atomic int n_failed;

static void *views(void *arg) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        nx_tensor *view;
        if (call("aten::t", (nx_value[]){nx_value_tensor(shared)}, &view) != NX_OK) n_failed++;
        else nx_tensor_unref(view);
    }
    return NULL;
}

/* The first round makes what stands for the leaf in all graphs: one for all threads. */
static void *graphs(void *arg) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        nx_tensor *product;
        nx_value in[] = {nx_value_tensor(shared), nx_value_tensor(shared)};
        if (call("aten::mul.Tensor", in, &product) != NX_OK) n_failed++;
        else nx_tensor_unref(product);
    }
    return NULL;
}

/* Graphs of their own that meet in one leaf: nobody writes it, since its gradient is a result. */
static void *backwards(void *arg) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS / 10; i++) {
        nx_tensor *product = NULL, *seed = NULL, *gradient = NULL;
        nx_value in[] = {nx_value_tensor(shared), nx_value_tensor(shared)};
        if (call("aten::mul.Tensor", in, &product) != NX_OK || nx_tensor_new(NX_F32, 1, (int64_t[]){4}, NX_CPU, &seed) != NX_OK) {
            n_failed++;
            break;
        }
        for (int k = 0; k < 4; k++) ((float *)seed->a.data)[k] = 1;
        if (nx_grad_run(&product, &seed, 1, false, false, &shared, 1, &gradient) != NX_OK) n_failed++;
        else if (((const float *)gradient->a.data)[3] != 6) n_failed++;
        nx_tensor_unref(gradient);
        nx_tensor_unref(seed);
        nx_tensor_unref(product);
    }
    return NULL;
}

static void *kept_values(void *arg) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        nx_value list[] = {nx_value_tensor(shared), {.tag = NX_TAG_GENERATOR, .generator = generator}}, kept;
        nx_value given = nx_value_list(list, 2);
        if (nx_value_keep(&given, &kept) != NX_OK) n_failed++;
        else nx_value_drop(&kept);
    }
    return NULL;
}

static void run(void *(*body)(void *arg)) {
    pthread_t threads[THREADS];
    n_failed = 0;
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, body, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(n_failed, 0);
}

static void test_views(void **state) {
    OK(nx_tensor_new(NX_F32, 2, (int64_t[]){64, 64}, NX_CPU, &shared));
    run(views);
    assert_int_equal(shared->refs, 1);
    assert_int_equal(shared->storage->refs, 1);
    assert_null(shared->next_view);
    nx_tensor_unref(shared);
}

static void test_graphs(void **state) {
    OK(nx_tensor_new(NX_F32, 2, (int64_t[]){4, 4}, NX_CPU, &shared));
    OK(nx_tensor_set_requires_grad(shared, true));
    run(graphs);
    assert_int_equal(shared->refs, 1);
    assert_int_equal(shared->autograd->accumulator->refs, 1);
    nx_tensor_unref(shared);
}

static void test_backwards(void **state) {
    OK(nx_tensor_new(NX_F32, 1, (int64_t[]){4}, NX_CPU, &shared));
    for (int k = 0; k < 4; k++) ((float *)shared->a.data)[k] = 3;
    OK(nx_tensor_set_requires_grad(shared, true));
    run(backwards);
    assert_null(shared->autograd->grad);
    assert_int_equal(shared->refs, 1);
    assert_int_equal(shared->autograd->accumulator->refs, 1);
    nx_tensor_unref(shared);
}

static void test_kept_values(void **state) {
    OK(nx_tensor_new(NX_F32, 1, (int64_t[]){4}, NX_CPU, &shared));
    OK(nx_generator_new(&generator));
    run(kept_values);
    assert_int_equal(shared->refs, 1);
    assert_int_equal(generator->refs, 1);
    nx_tensor_unref(shared);
    nx_generator_unref(generator);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_views), cmocka_unit_test(test_graphs), cmocka_unit_test(test_backwards),
                                       cmocka_unit_test(test_kept_values)};
    pthread_barrier_init(&start, NULL, THREADS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
