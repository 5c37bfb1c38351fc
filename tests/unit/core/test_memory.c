/* The caching allocator, over a device made here whose memory is a counted arena: what is kept, what goes back, what streams
 * may use, what is counted, and what happens when the device refuses. */
#include "core/core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(expr) assert_int_equal((expr), NX_OK)
enum { TYPE = 5, MB = 1 << 20 };
static const nx_device device = {TYPE, 0};

static size_t held, room;      /* what the device gave and has */
static nx_stream *now;         /* the current stream */
static bool reached;           /* what a mark says when nobody waits */
static int n_marks;

static nx_status take(nx_device of, nx_stream *stream, size_t bytes, void **out) {
    if (held + bytes > room) return nx_fail(NX_NO_MEMORY, "the device is full");
    *out = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(*out);
    held += bytes;
    return NX_OK;
}
static void give(nx_device of, nx_stream *stream, void *segment, size_t bytes) {
    held -= bytes;
    free(segment);
}
static nx_stream *current(nx_device of) { return now; }
static nx_status mark(nx_device of, nx_stream *stream, void **out) {
    n_marks++;
    *out = stream;
    return NX_OK;
}
static bool is_reached(nx_device of, void *at, bool wait) {
    n_marks -= reached || wait;
    return reached || wait;
}
static const nx_memory_source source = {.take = take, .give = give, .stream = current, .mark = mark, .is_reached = is_reached};

static int start(void **state) {
    held = 0;
    room = (size_t)1 << 40;
    now = NULL;
    return nx_memory_attach(TYPE, 1, &source);
}
static int stop(void **state) {
    nx_memory_detach(TYPE);
    assert_int_equal(held, 0);
    return 0;
}

static nx_storage *new_storage(size_t bytes) {
    nx_storage *storage;
    OK(nx_storage_new(device, bytes, &storage));
    assert_int_equal((uintptr_t)storage->data % 64, 0);
    return storage;
}

static nx_memory_stats stats(void) {
    nx_memory_stats now_stats = {.size = sizeof now_stats};
    OK(nx_memory_get_stats(device, &now_stats));
    return now_stats;
}
#define COUNT(row, kind, metric) (stats().counts[NX_MEMORY_##row][NX_MEMORY_##kind].metric)

static void test_blocks_serve_again(void **state) {
    nx_storage *a = new_storage(100), *b = new_storage(40 * MB);
    void *small = a->data, *large = b->data;
    assert_int_equal(COUNT(allocation, ALL, current), 2);
    assert_int_equal(COUNT(requested_bytes, ALL, current), 100 + 40 * MB);
    assert_int_equal(COUNT(allocated_bytes, SMALL, current), 512);
    assert_int_equal(COUNT(reserved_bytes, ALL, current), (int64_t)held);
    assert_int_equal(COUNT(segment, LARGE, current), 1);
    assert_int_equal(COUNT(inactive_split, SMALL, current), 1);
    nx_storage_unref(a);
    nx_storage_unref(b);
    assert_int_equal(COUNT(allocated_bytes, ALL, current), 0);
    assert_int_equal(COUNT(allocated_bytes, ALL, peak), 512 + 40 * MB);
    assert_int_equal(COUNT(inactive_split, ALL, current), 0);
    a = new_storage(300);
    b = new_storage(39 * MB);
    assert_ptr_equal(a->data, small);
    assert_ptr_equal(b->data, large); /* what is a little larger serves */
    assert_int_equal(stats().n_device_alloc, 2);
    nx_storage_unref(a);
    nx_storage_unref(b);
    OK(nx_memory_reset_peaks(device));
    assert_int_equal(COUNT(allocated_bytes, ALL, peak), 0);
    OK(nx_memory_reset_accumulated(device));
    assert_int_equal(COUNT(allocation, ALL, allocated), 0);
    OK(nx_memory_empty_cache(device));
    assert_int_equal(held, 0);
    assert_int_equal(COUNT(reserved_bytes, ALL, current), 0);
    assert_int_equal(stats().n_device_free, 2);
}

/* Forty large sizes, none twice: every one fits what the ones before left, or takes their place. */
static void test_changing_sizes_leave_no_trail(void **state) {
    size_t most = 0;
    for (int i = 0; i < 400; i++) {
        size_t bytes = (size_t)(13 + i * 37 % 100) * MB;
        if (bytes > most) most = bytes;
        nx_storage *one = new_storage(bytes), *two = new_storage(bytes / 3);
        assert_true(held <= (most + most / 3) * 5 / 4 + 128 * MB);
        nx_storage_unref(one);
        nx_storage_unref(two);
    }
}

static void test_a_full_device_gets_back_what_is_idle(void **state) {
    room = 100 * MB;
    nx_storage *a = new_storage(60 * MB), *b, *none;
    nx_storage_unref(a);
    assert_int_equal(held, 60 * MB);
    b = new_storage(90 * MB); /* only beside nothing */
    assert_int_equal(held, 90 * MB);
    assert_int_equal(nx_storage_new(device, 20 * MB, &none), NX_NO_MEMORY);
    assert_string_equal(nx_error_message(), "the device is full");
    assert_int_equal(stats().n_failures, 1);
    a = new_storage(MB); /* no shared segment fits any more: one of its own does */
    assert_int_equal(held, 91 * MB);
    nx_storage_unref(a);
    nx_storage_unref(b);
}

static void test_limit(void **state) {
    nx_storage *none, *a = new_storage(50 * MB);
    OK(nx_memory_set_limit(device, 64 * MB));
    assert_int_equal(nx_storage_new(device, 20 * MB, &none), NX_NO_MEMORY);
    assert_non_null(strstr(nx_error_message(), "out of memory. Tried to allocate 20971520 bytes"));
    nx_storage_unref(a);
    a = new_storage(20 * MB); /* a part of the idle one */
    nx_storage_unref(a);
    OK(nx_memory_set_limit(device, 32 * MB));
    assert_int_equal(held, 0);
    OK(nx_memory_set_limit(device, 0));
}

static void test_streams(void **state) {
    static char first, second;
    now = (nx_stream *)&first;
    nx_storage *a = new_storage(MB), *b;
    void *data = a->data;
    nx_storage_unref(a);
    now = (nx_stream *)&second;
    b = new_storage(MB);
    assert_ptr_not_equal(b->data, data); /* the first stream may still be at work there */
    now = (nx_stream *)&first;
    a = new_storage(MB);
    assert_ptr_equal(a->data, data);
    OK(nx_storage_record_stream(a, now)); /* its own: nothing to wait for */
    OK(nx_storage_record_stream(a, (nx_stream *)&second));
    OK(nx_storage_record_stream(a, (nx_stream *)&second));
    reached = false;
    nx_storage_unref(a);
    assert_int_equal(n_marks, 1);
    assert_int_equal(COUNT(allocation, ALL, current), 1);
    assert_int_equal(COUNT(active, ALL, current), 2);
    a = new_storage(MB);
    assert_ptr_not_equal(a->data, data);
    nx_storage_unref(a);
    reached = true;
    a = new_storage(MB);
    assert_int_equal(n_marks, 0);
    assert_int_equal(COUNT(active, ALL, current), 2);
    nx_storage_unref(a);
    OK(nx_storage_record_stream(b, (nx_stream *)&first));
    reached = false;
    nx_storage_unref(b);
    nx_memory_forget_stream(device, (nx_stream *)&second);
    OK(nx_memory_empty_cache(device)); /* waits for the mark */
    assert_int_equal(n_marks, 0);
    assert_int_equal(held, 0);
}

/* What the C library gives is counted too. */
static void test_small_blocks_of_the_cpu_are_counted(void **state) {
    nx_memory_stats before = {.size = sizeof before}, after = before;
    nx_storage *storage[10];
    OK(nx_memory_get_stats(NX_CPU, &before));
    for (int i = 0; i < 10; i++) OK(nx_storage_new(NX_CPU, 5000, &storage[i]));
    OK(nx_memory_get_stats(NX_CPU, &after));
    for (int i = 0; i < 10; i++) nx_storage_unref(storage[i]);
    nx_memory_row row = NX_MEMORY_allocated_bytes;
    assert_int_equal(after.counts[row][0].current - before.counts[row][0].current, 50000);
    assert_int_equal(after.counts[NX_MEMORY_allocation][0].current - before.counts[NX_MEMORY_allocation][0].current, 10);
    OK(nx_memory_get_stats(NX_CPU, &after));
    assert_int_equal(after.counts[row][0].current, before.counts[row][0].current);
    assert_true(after.total > 0 && after.cache_limit <= after.total);
}

static _Atomic bool stops;
static void *take_and_give(void *unused) {
    for (nx_storage *storage; !atomic_load(&stops); nx_storage_unref(storage)) OK(nx_storage_new(NX_CPU, MB, &storage));
    return NULL;
}

/* A child that is made while another thread takes memory finds the lock open. */
static void test_a_forked_child_takes_memory(void **state) {
    pthread_t thread;
    atomic_store(&stops, false);
    assert_int_equal(pthread_create(&thread, NULL, take_and_give, NULL), 0);
    for (int i = 0; i < 300; i++) {
        nx_storage *storage;
        int how;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(10);
            if (nx_storage_new(NX_CPU, MB, &storage) != NX_OK) _exit(1);
            nx_storage_unref(storage);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(how, 0);
    }
    atomic_store(&stops, true);
    pthread_join(thread, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_blocks_serve_again, start, stop),
        cmocka_unit_test_setup_teardown(test_changing_sizes_leave_no_trail, start, stop),
        cmocka_unit_test_setup_teardown(test_a_full_device_gets_back_what_is_idle, start, stop),
        cmocka_unit_test_setup_teardown(test_limit, start, stop),
        cmocka_unit_test_setup_teardown(test_streams, start, stop),
        cmocka_unit_test(test_small_blocks_of_the_cpu_are_counted),
        cmocka_unit_test(test_a_forked_child_takes_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
