/* Threads that draw from one generator at once: every number is drawn once, so that the generator stands where as many numbers
 * drawn by one thread would leave it; what one operator draws is a piece of the one sequence. */
#include "../calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include <pthread.h>

#define OK(expr)                                                            \
    do {                                                                    \
        if ((expr) != NX_OK) fail_msg("%s: %s", #expr, nx_error_message()); \
    } while (0)
enum { THREADS = 4, ROUNDS = 2000, N = 37, SEED = 7 };

static pthread_barrier_t start;
static float drawn[THREADS][ROUNDS];       /* the first number of each call */

static void *draw(void *arg) {
    float *to = arg;
    nx_tensor *x, *same;
    if (nx_tensor_new(NX_F32, 1, (int64_t[]){N}, NX_CPU, &x) != NX_OK) return arg;
    nx_value in[] = {nx_value_tensor(x), nx_value_float(0), nx_value_float(1), NX_VALUE_NONE};
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        if (call("aten::uniform_", in, &same) != NX_OK) return arg;
        nx_tensor_unref(same);
        to[i] = *(float *)x->a.data;
    }
    nx_tensor_unref(x);
    return NULL;
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void test_default_is_shared(void **state) {
    static float expected[THREADS * ROUNDS];
    pthread_t threads[THREADS];
    nx_generator *alone;
    nx_manual_seed(SEED);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, draw, drawn[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    OK(nx_generator_new(&alone));
    nx_generator_seed(alone, SEED);
    for (int i = 0; i < THREADS * ROUNDS; i++) {
        expected[i] = (float)(nx_generator_u32(alone) & 0xffffff) * 0x1p-24f;
        for (int k = 1; k < N; k++) nx_generator_u32(alone);
    }
    assert_int_equal(nx_generator_u32(nx_generator_default()), nx_generator_u32(alone));
    qsort(expected, THREADS * ROUNDS, sizeof *expected, compare);
    qsort(drawn, THREADS * ROUNDS, sizeof **drawn, compare);
    for (int i = 0; i < THREADS * ROUNDS; i++) assert_true(expected[i] == drawn[i / ROUNDS][i % ROUNDS]);
    nx_generator_unref(alone);
}

static void test_places(void **state) {
    nx_generator *g;
    nx_generator_place place = {0};
    assert_false(nx_generator_is_place(&place));
    OK(nx_generator_new(&g));
    for (int k = 0; k < 2 * 624 + 2; k++) {
        nx_generator_mark(g, &place);
        assert_true(nx_generator_is_place(&place));
        nx_generator_u32(g);
    }
    uint32_t some[700], again[700];
    nx_generator_mark(g, &place);
    nx_generator_fill(g, some, 700);
    nx_generator_return(g, &place);
    nx_generator_fill(g, again, 700);
    assert_memory_equal(some, again, sizeof some);
    place.next++;
    assert_false(nx_generator_is_place(&place));
    nx_generator_unref(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_default_is_shared), cmocka_unit_test(test_places)};
    pthread_barrier_init(&start, NULL, THREADS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
