/* The reference accelerator through the framework: registration, memory, streams, errors, capture, faults on demand. */
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OK(expr) assert_int_equal((expr), NX_OK)

const nx_device_api *narthex_device(void); /* plugins/npu, linked in */

static nx_device npu;

static const nx_device_api *api(void) { return nx_device_get_api(npu.type); }

static nx_tensor *host(int64_t n, float first) {
    nx_tensor *t;
    OK(nx_tensor_new(NX_F32, 1, &n, NX_CPU, &t));
    for (int64_t i = 0; i < n; i++) ((float *)t->a.data)[i] = first + (float)i;
    return t;
}

static nx_tensor *device(int64_t n, float first) {
    nx_tensor *from = host(n, first), *t;
    OK(nx_tensor_new(NX_F32, 1, &n, npu, &t));
    OK(nx_device_copy(t, from));
    nx_tensor_unref(from);
    return t;
}

static float read_at(nx_tensor *t, int i) {
    nx_tensor *to = host(t->a.numel, 0);
    OK(nx_device_copy(to, t));
    float value = ((float *)to->a.data)[i];
    nx_tensor_unref(to);
    return value;
}

static nx_status add(nx_run *run, const nx_value *in, nx_value *out) {
    const float *a = in[0].array->data, *b = in[1].array->data;
    float *to = out[0].array->data;
    for (int64_t i = 0; i < out[0].array->numel; i++) to[i] = a[i] + b[i];
    return NX_OK;
}

static nx_status slow_add(nx_run *run, const nx_value *in, nx_value *out) {
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    return add(run, in, out);
}

static nx_status refuse(nx_run *run, const nx_value *in, nx_value *out) {
    return nx_fail(NX_VALUE, "this kernel fails");
}

static nx_status launch(nx_kernel_fn *kernel, nx_tensor *a, nx_tensor *b, nx_tensor *to) {
    nx_run run = {.device = npu};
    OK(nx_op_find("aten::fill_.Scalar", &run.op)); /* some name for messages */
    nx_value in[2] = {nx_value_tensor(a), nx_value_tensor(b)}, out[1] = {nx_value_tensor(to)};
    return nx_device_launch(kernel, &run, in, 2, out, 1);
}

static void test_names(void **state) {
    nx_device d;
    OK(nx_device_parse("npu:0", &d));
    assert_true(d.type == npu.type && d.index == 0);
    OK(nx_device_parse("npu", &d));
    assert_true(d.type == npu.type && d.index == 0);
    OK(nx_device_parse("cpu", &d));
    assert_true(d.type == 0);
    assert_int_equal(nx_device_parse("npu:1", &d), NX_RUNTIME);
    assert_int_equal(nx_device_parse("npu:x", &d), NX_RUNTIME);
    assert_int_equal(nx_device_parse("cuda", &d), NX_RUNTIME);
    assert_non_null(
        strstr(nx_error_message(), "Expected one of cpu, npu device type at start of device string: cuda"));
}

static void test_registration_checks_the_table(void **state) {
    nx_device_api broken = *narthex_device();
    int type;
    broken.name = "broken";
    broken.version = 99;
    assert_int_equal(nx_device_register(&broken, &type), NX_RUNTIME);
    assert_non_null(strstr(nx_error_message(), "version 99"));
    broken.version = NX_DEVICE_API_VERSION;
    broken.size = 8;
    assert_int_equal(nx_device_register(&broken, &type), NX_RUNTIME);
    broken.size = sizeof broken;
    broken.copy_out = NULL;
    assert_int_equal(nx_device_register(&broken, &type), NX_RUNTIME);
    assert_non_null(strstr(nx_error_message(), "required slot copy_out is empty"));
    broken = *narthex_device();
    broken.name = "broken";
    broken.graph_replay = NULL;
    assert_int_equal(nx_device_register(&broken, &type), NX_RUNTIME);
    broken = *narthex_device();
    assert_int_equal(nx_device_register(&broken, &type), NX_RUNTIME); /* another table with the name npu */
    assert_int_equal(nx_device_n_types(), 2);
    OK(nx_device_register(narthex_device(), &type)); /* again is no harm */
    assert_int_equal(type, npu.type);
    assert_int_equal(nx_device_load_plugin("/nonexistent/plugin.so"), NX_IO);
}

/* Also one of a plugin that is newer than the library, or older: it lacks the last slot, which is optional. */
static int count_one(void *context) { return 1; }
static void test_tables_of_other_sizes(void **state) {
    static struct { nx_device_api known; void *slots[3]; } newer;
    static _Alignas(nx_device_api) char older[offsetof(nx_device_api, stream_wait)]; /* a sanitizer sees who reads behind it */
    nx_device_api whole = *narthex_device();
    int type;
    newer.known = whole;
    newer.known.name = "newer";
    newer.known.size = sizeof newer;
    for (int i = 0; i < NX_COUNT(newer.slots); i++) newer.slots[i] = &newer;
    OK(nx_device_register(&newer.known, &type));
    assert_string_equal(nx_device_get_api(type)->name, "newer");
    whole.name = "older";
    whole.size = sizeof older;
    memcpy(older, &whole, sizeof older);
    OK(nx_device_register((const nx_device_api *)older, &type));
    assert_null(nx_device_get_api(type)->stream_wait);
    assert_non_null(nx_device_get_api(type)->control);
    OK(nx_device_synchronize((nx_device){(int8_t)type, 0}));
    nx_device_api few = {.size = offsetof(nx_device_api, memory_alloc), .version = NX_DEVICE_API_VERSION, .name = "few",
                         .device_count = count_one};
    assert_int_equal(nx_device_register(&few, &type), NX_RUNTIME);
    assert_non_null(strstr(nx_error_message(), "required slot memory_alloc is empty"));
}

/* Streams come and go while another thread waits for the device; the one that it waits for stays until the wait has ended. */
static _Atomic bool released;
static nx_status wait_for_release(nx_run *run, const nx_value *in, nx_value *out) {
    while (!released) nanosleep(&(struct timespec){0, 1000000}, NULL);
    return NX_OK;
}
static void *synchronize(void *arg) { return nx_device_synchronize(npu) == NX_OK ? NULL : arg; }
static void *free_stream(void *stream) {
    nx_stream_free(npu, stream);
    return NULL;
}
static void test_streams_come_and_go_beside_a_wait(void **state) {
    nx_tensor *a = device(4, 1);
    nx_stream *waited, *other;
    pthread_t waits, frees;
    void *failed;
    OK(nx_stream_new(npu, &waited));
    OK(nx_stream_set_current(npu, waited));
    OK(launch(wait_for_release, a, a, a));
    OK(nx_stream_set_current(npu, NULL));
    assert_int_equal(pthread_create(&waits, NULL, synchronize, state), 0);
    for (int i = 0; i < 20; i++) {
        OK(nx_stream_new(npu, &other));
        nanosleep(&(struct timespec){0, 3000000}, NULL);
        nx_stream_free(npu, other);
    }
    assert_int_equal(pthread_create(&frees, NULL, free_stream, waited), 0);
    released = true;
    pthread_join(waits, &failed);
    assert_null(failed);
    pthread_join(frees, NULL);
    nx_tensor_unref(a);
}

static nx_status copy_nothing(void *context, nx_stream *stream, void *to, const void *from, size_t bytes) {
    return NX_OK;
}

static void test_self_test_finds_a_wrong_device(void **state) {
    static nx_device_api broken;
    broken = *narthex_device();
    broken.name = "broken";
    broken.copy_within = copy_nothing;
    int type;
    assert_int_equal(nx_device_register(&broken, &type), NX_RUNTIME);
    assert_non_null(strstr(nx_error_message(), "self-test: copy_within"));
    assert_int_equal(nx_device_n_types(), 2);
}

static void test_host_access_faults(void **state) {
    nx_tensor *t = device(4, 1);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile float *)t->a.data == 1 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_true(read_at(t, 0) == 1);
    nx_tensor_unref(t);
}

static void test_a_forked_child_is_told(void **state) {
    nx_tensor *t = device(4, 1);
    pid_t child = fork();
    if (child == 0) {
        nx_tensor *other;
        int64_t n = 4;
        bool told = nx_tensor_new(NX_F32, 1, &n, npu, &other) == NX_RUNTIME &&
                    strstr(nx_error_message(), "forked subprocess");
        told = told && launch(add, t, t, t) == NX_RUNTIME && nx_device_synchronize(npu) == NX_RUNTIME;
        nx_tensor_unref(t);
        _exit(told ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    nx_tensor_unref(t);
}

static void test_launches_run_in_order_and_later(void **state) {
    nx_tensor *a = device(4, 1), *b = device(4, 10), *c = device(4, 0);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    OK(launch(slow_add, a, b, c));
    clock_gettime(CLOCK_MONOTONIC, &end);
    OK(launch(add, c, c, c));
    nx_tensor_unref(a); /* the launch holds the memory */
    a = device(4, 1000);
    assert_true(read_at(c, 0) == 22 && read_at(c, 3) == 34);
    assert_true((end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec < 20000000);
    for (int i = 0; i < 5000; i++) OK(launch(add, a, b, c)); /* more than the queue holds */
    OK(nx_device_synchronize(npu));
    assert_true(read_at(c, 0) == 1010);
    nx_tensor_unref(a);
    nx_tensor_unref(b);
    nx_tensor_unref(c);
}

static void test_errors_come_at_the_next_wait(void **state) {
    nx_tensor *a = device(4, 1), *to = host(4, 0);
    OK(launch(refuse, a, a, a));
    assert_int_equal(nx_device_synchronize(npu), NX_VALUE);
    assert_non_null(strstr(nx_error_message(), "fill_.Scalar: this kernel fails"));
    OK(nx_device_synchronize(npu));
    OK(launch(refuse, a, a, a));
    assert_int_equal(nx_device_copy(to, a), NX_VALUE);
    OK(nx_device_copy(to, a));
    nx_tensor_unref(a);
    nx_tensor_unref(to);
}

static void test_events_order_streams(void **state) {
    nx_tensor *a = device(4, 1), *b = device(4, 0), *c = device(4, 0);
    nx_stream *side;
    void *event;
    OK(nx_stream_new(npu, &side));
    OK(api()->event_new(api()->context, 0, &event));
    OK(launch(slow_add, a, a, b));
    OK(api()->event_record(api()->context, event, nx_stream_current(npu)));
    OK(api()->event_wait(api()->context, event, side));
    OK(nx_stream_set_current(npu, side));
    assert_ptr_equal(nx_stream_current(npu), side);
    OK(launch(add, b, b, c));
    assert_true(read_at(c, 0) == 4);
    OK(nx_stream_set_current(npu, NULL));
    OK(api()->event_synchronize(api()->context, event));
    api()->event_free(api()->context, event);
    nx_stream_free(npu, side);
    nx_tensor_unref(a);
    nx_tensor_unref(b);
    nx_tensor_unref(c);
}

static void test_capture_and_replay(void **state) {
    nx_tensor *x = device(4, 1), *y = device(4, 10), *z = device(4, 0), *middle = device(4, 0),
              *z2 = device(4, 0);
    nx_span slots[2] = {{x->a.data, 16}, {z->a.data, 16}};
    void *graph, *bases[2] = {y->a.data, z2->a.data};
    OK(nx_capture_begin(npu));
    OK(launch(add, x, x, middle));
    OK(launch(add, middle, x, z));
    assert_int_equal(nx_capture_n_launches(), 2);
    nx_tensor *to = host(4, 0);
    assert_int_equal(nx_device_copy(to, x), NX_RUNTIME); /* nothing may be read while nothing runs */
    nx_run beside = {.device = NX_CPU};
    nx_value in[2] = {nx_value_tensor(to), nx_value_tensor(to)}, out[1] = {nx_value_tensor(to)};
    assert_int_equal(nx_device_launch(add, &beside, in, 2, out, 1), NX_RUNTIME);
    OK(nx_capture_end(npu, slots, 2, &graph));
    nx_tensor_unref(to);
    assert_true(read_at(z, 0) == 0);
    nx_launch *keep;
    OK(nx_launch_new_keep((nx_storage *[]){y->storage, z2->storage}, 2, &keep));
    OK(nx_capture_replay(npu, graph, bases, keep));
    nx_tensor_unref(middle); /* the graph holds it */
    nx_tensor_unref(y);
    assert_true(read_at(z2, 0) == 30 && read_at(z2, 3) == 39 && read_at(z, 0) == 0);
    bases[0] = x->a.data;
    OK(nx_capture_replay(npu, graph, bases, NULL));
    nx_capture_destroy(npu, graph); /* while the replay may still run */
    assert_true(read_at(z2, 0) == 3);
    nx_tensor_unref(x);
    nx_tensor_unref(z);
    nx_tensor_unref(z2);
}

static void test_memory_is_reused_and_limited(void **state) {
    void *block[200];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++) {
            OK(api()->memory_alloc(api()->context, 0, NULL, (size_t)(i * 37 % 5000), &block[i]));
            assert_true((uintptr_t)block[i] % 64 == 0);
        }
        for (int i = 0; i < 200; i++) api()->memory_free(api()->context, 0, NULL, block[i * 77 % 200]);
    }
    void *before, *after;
    OK(api()->memory_alloc(api()->context, 0, NULL, 1 << 20, &before));
    api()->memory_free(api()->context, 0, NULL, before);
    OK(api()->memory_alloc(api()->context, 0, NULL, 1 << 20, &after));
    assert_ptr_equal(before, after);
    api()->memory_free(api()->context, 0, NULL, after);
    nx_tensor *t;
    int64_t huge = INT64_C(1) << 40;
    assert_int_equal(nx_tensor_new(NX_F32, 1, &huge, npu, &t), NX_NO_MEMORY);
    assert_non_null(strstr(nx_error_message(), "out of memory"));
    nx_alloc_watch(true); /* each tensor has memory of its own from the device */
    OK(api()->control(api()->context, "fail_alloc_at", 2));
    int64_t n = 4;
    OK(nx_tensor_new(NX_F32, 1, &n, npu, &t));
    nx_tensor_unref(t);
    assert_int_equal(nx_tensor_new(NX_F32, 1, &n, npu, &t), NX_NO_MEMORY);
    OK(nx_tensor_new(NX_F32, 1, &n, npu, &t));
    nx_tensor_unref(t);
    nx_alloc_watch(false);
    OK(nx_memory_empty_cache(npu));
    OK(nx_tensor_new(NX_F32, 1, &n, npu, &t));
    nx_tensor *large;
    OK(api()->control(api()->context, "fail_alloc_at", 1)); /* refused once: what is idle goes back, and it is asked again */
    n = 4 << 20;
    OK(nx_memory_empty_cache(npu));
    nx_status status = nx_tensor_new(NX_F32, 1, &n, npu, &large);
    assert_int_equal(status, NX_NO_MEMORY); /* nothing was idle */
    OK(nx_tensor_new(NX_F32, 1, &n, npu, &large));
    nx_tensor_unref(large);
    OK(api()->control(api()->context, "fail_alloc_at", 1));
    n = 5 << 20;
    OK(nx_tensor_new(NX_F32, 1, &n, npu, &large));
    nx_tensor_unref(large);
    nx_tensor_unref(t);
}

static void test_a_lost_device_says_so(void **state) {
    nx_tensor *a = device(4, 1), *to = host(4, 0);
    OK(api()->control(api()->context, "lose_device", 1));
    assert_int_equal(launch(add, a, a, a), NX_RUNTIME);
    assert_non_null(strstr(nx_error_message(), "device is lost"));
    assert_int_equal(nx_device_copy(to, a), NX_RUNTIME);
    assert_int_equal(nx_device_synchronize(npu), NX_RUNTIME);
    OK(api()->control(api()->context, "lose_device", 0));
    OK(nx_device_copy(to, a));
    assert_int_equal(api()->control(api()->context, "no such thing", 1), NX_VALUE);
    nx_tensor_unref(a);
    nx_tensor_unref(to);
}

static nx_status draw(nx_tensor *to) {
    nx_run run = {.device = npu};
    nx_value in[4] = {nx_value_tensor(to), nx_value_float(0), nx_value_float(1), NX_VALUE_NONE},
             out[1] = {nx_value_tensor(to)};
    nx_kernel_fn *kernel = api()->find_kernel(api()->context, "aten::normal_");
    assert_non_null(kernel);
    return nx_device_launch(kernel, &run, in, 4, out, 1);
}

static void test_random_numbers_follow_the_seed(void **state) {
    nx_tensor *a = device(1000, 0), *b = device(1000, 0);
    nx_manual_seed(5);
    OK(draw(a));
    OK(draw(b));
    float first = read_at(a, 0), second = read_at(b, 0);
    assert_true(first != second);
    OK(draw(a));
    nx_manual_seed(5); /* what was given before draws from the old seed */
    OK(draw(b));
    assert_true(read_at(b, 0) == first && read_at(a, 0) != first);
    void *graph, *base = b->a.data;
    nx_span slot = {a->a.data, 4000};
    OK(nx_capture_begin(npu));
    OK(draw(a));
    OK(nx_capture_end(npu, &slot, 1, &graph));
    nx_manual_seed(5);
    OK(nx_capture_replay(npu, graph, &base, NULL));
    assert_true(read_at(b, 0) == first);
    OK(nx_capture_replay(npu, graph, &base, NULL)); /* a replay draws on */
    assert_true(read_at(b, 0) == second);
    nx_capture_destroy(npu, graph);
    double sum = 0, squares = 0;
    nx_tensor *to = host(1000, 0);
    OK(nx_device_copy(to, b));
    for (int i = 0; i < 1000; i++) {
        double x = ((float *)to->a.data)[i];
        sum += x;
        squares += x * x;
    }
    assert_true(sum / 1000 > -0.15 && sum / 1000 < 0.15 && squares / 1000 > 0.8 && squares / 1000 < 1.2);
    nx_tensor_unref(a);
    nx_tensor_unref(b);
    nx_tensor_unref(to);
}

static int load(void **state) {
    int type;
    OK(nx_device_register(narthex_device(), &type));
    npu = (nx_device){(int8_t)type, 0};
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_registration_checks_the_table),
        cmocka_unit_test(test_self_test_finds_a_wrong_device),
        cmocka_unit_test(test_host_access_faults),
        cmocka_unit_test(test_a_forked_child_is_told),
        cmocka_unit_test(test_launches_run_in_order_and_later),
        cmocka_unit_test(test_errors_come_at_the_next_wait),
        cmocka_unit_test(test_events_order_streams),
        cmocka_unit_test(test_capture_and_replay),
        cmocka_unit_test(test_memory_is_reused_and_limited),
        cmocka_unit_test(test_a_lost_device_says_so),
        cmocka_unit_test(test_random_numbers_follow_the_seed),
        cmocka_unit_test(test_streams_come_and_go_beside_a_wait),
        cmocka_unit_test(test_tables_of_other_sizes),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
