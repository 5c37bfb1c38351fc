/* src/base/arena.c: zeroed, apart, aligned, any size; texts; nothing is left when memory runs out. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void test_pieces(void **state) {
    nx_arena arena = {0};
    char *at[400];
    for (int i = 0; i < 400; i++) {
        size_t bytes = (size_t)(i * i);
        at[i] = nx_arena_take(&arena, bytes);
        assert_non_null(at[i]);
        assert_int_equal((uintptr_t)at[i] % 8, 0);
        for (size_t k = 0; k < bytes; k++) assert_int_equal(at[i][k], 0);
        memset(at[i], i, bytes);
    }
    for (int i = 0; i < 400; i++)
        for (int k = 0; k < i * i; k++) assert_int_equal((unsigned char)at[i][k], i & 255);
    char *text = nx_arena_text(&arena, "a word");
    assert_string_equal(text, "a word");
    nx_arena_free(&arena);
    assert_null(arena.blocks);
    assert_non_null(nx_arena_take(&arena, 0));
    nx_arena_free(&arena);
}

static void test_no_memory(void **state) {
    nx_arena arena = {0};
    nx_alloc_watch(true);
    int64_t live = nx_alloc_live();
    nx_alloc_fail_at(1);
    assert_null(nx_arena_take(&arena, 10));
    nx_alloc_fail_at(0);
    assert_non_null(nx_arena_take(&arena, 10));
    nx_alloc_fail_at(1);
    assert_null(nx_arena_text(&arena, "x") ? NULL : nx_arena_take(&arena, 1 << 20));
    nx_alloc_fail_at(0);
    nx_arena_free(&arena);
    assert_int_equal(nx_alloc_live(), live);
    nx_alloc_watch(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
