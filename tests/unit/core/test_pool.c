/* The memory of storages: blocks of random sizes, from inline to larger than a chunk, taken and given back in random
 * order; none overlaps another, and every one is aligned and keeps what was written to it. */
#include "core/core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#define OK(expr) assert_int_equal((expr), NX_OK)

enum { N = 200, ROUNDS = 20000 };

static size_t random_bytes(unsigned *seed) {
    static const size_t most[] = {4000, 100 << 10, 1 << 20, 3 << 20, 13 << 20, 40 << 20};
    int kind = rand_r(seed) % 64;
    return 1 + (size_t)rand_r(seed) % most[kind < 20 ? 0 : kind < 50 ? 1 : kind < 60 ? 2 : kind < 62 ? 3 : kind - 58];
}

/* A mark at each end and every 64 KB: what overlaps overwrites one. */
static void mark(const nx_storage *storage, int with, bool write) {
    unsigned char *data = storage->data;
    for (size_t at = 0; at < storage->bytes + (64 << 10); at += 64 << 10) {
        size_t here = at < storage->bytes ? at : storage->bytes - 1;
        if (write) data[here] = (unsigned char)with;
        else assert_int_equal(data[here], (unsigned char)with);
    }
}

static void test_random_blocks(void **state) {
    unsigned first = (unsigned)time(NULL), seed = first;
    nx_storage *storages[N] = {0};
    printf("seed %u\n", first);
    for (int i = 0; i < ROUNDS; i++) {
        int at = rand_r(&seed) % (i / 1000 % 2 ? N : N / 8); /* many at a time, then few */
        if (storages[at]) {
            mark(storages[at], at, false);
            nx_storage_unref(storages[at]);
            storages[at] = NULL;
            continue;
        }
        OK(nx_storage_new(NX_CPU, random_bytes(&seed), &storages[at]));
        assert_int_equal((uintptr_t)storages[at]->data % 64, 0);
        mark(storages[at], at, true);
    }
    for (int at = 0; at < N; at++) {
        if (storages[at]) mark(storages[at], at, false);
        nx_storage_unref(storages[at]);
    }
}

/* Nothing was taken before: forty pieces stand one behind the other, and given back they are one. */
static void test_memory_serves_again(void **state) {
    nx_storage *small[40], *large;
    for (int i = 0; i < 40; i++) OK(nx_storage_new(NX_CPU, 128 << 10, &small[i]));
    void *first = small[0]->data;
    for (int i = 0; i < 40; i++) nx_storage_unref(small[(i * 7) % 40]);
    OK(nx_storage_new(NX_CPU, 5 << 20, &large));
    assert_ptr_equal(large->data, first);
    nx_storage_unref(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_serves_again), cmocka_unit_test(test_random_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
