/* How many processors control groups allow, read from a folder made for it, and the team. */
#include "base/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>

static char root[64];

static void write_file(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        mkdir(path, 0700);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state) {
    strcpy(root, "/tmp/nx_cgroup_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void test_no_groups(void **state) { assert_true(nx__cpu_quota(root) == 0); }

static void test_version_2(void **state) {
    write_file("proc/self/cgroup", "0::/jobs/one\n");
    write_file("sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
    assert_true(nx__cpu_quota(root) == 0);
    write_file("sys/fs/cgroup/jobs/cpu.max", "150000 100000\n"); /* the group above allows less */
    assert_true(nx__cpu_quota(root) == 1.5);
    write_file("sys/fs/cgroup/jobs/one/cpu.max", "50000 100000\n");
    assert_true(nx__cpu_quota(root) == 0.5);
}

static void test_path_of_the_host(void **state) { /* in a container the group's folder may be out of sight */
    write_file("proc/self/cgroup", "0::/docker/abc\n");
    write_file("sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_true(nx__cpu_quota(root) == 2);
}

static void test_version_1(void **state) {
    write_file("proc/self/cgroup", "5:memory:/m\n4:cpuset:/s\n3:cpu,cpuacct:/jobs\n");
    write_file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    write_file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_true(nx__cpu_quota(root) == 0);
    write_file("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "300000\n");
    write_file("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
    assert_true(nx__cpu_quota(root) == 3);
}

/* ---- the team ---- */
typedef struct sum { _Atomic int64_t total; int64_t inner; int64_t fails_at; } sum;

static nx_status add(void *arg, int64_t begin, int64_t end) {
    sum *s = arg;
    for (int64_t i = begin; i < end; i++) {
        if (i == s->fails_at) return nx_fail(NX_INDEX, "at %lld", (long long)i);
        atomic_fetch_add(&s->total, i);
        sum nested = {.fails_at = -1};
        if (s->inner) assert_int_equal(nx_parallel(s->inner, 1, add, &nested), NX_OK);
        assert_true(nested.total == s->inner * (s->inner - 1) / 2);
    }
    return NX_OK;
}

static void test_all_is_done_once(void **state) {
    for (int threads = 1; threads <= 9; threads += 4) {
        nx_set_num_threads(threads);
        for (int64_t n = 0; n < 200; n += 7) {
            sum s = {.inner = 20, .fails_at = -1};
            assert_int_equal(nx_parallel(n, 1 + n % 3, add, &s), NX_OK);
            assert_true(s.total == n * (n - 1) / 2);
        }
    }
}

static void test_failure(void **state) {
    nx_set_num_threads(4);
    for (int k = 0; k < 100; k++) {
        sum s = {.fails_at = k};
        assert_int_equal(nx_parallel(100, 1, add, &s), NX_INDEX);
        char text[32];
        snprintf(text, sizeof text, "at %d", k);
        assert_string_equal(nx_error_message(), text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_groups, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_path_of_the_host, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_version_1, make_root, remove_root),
        cmocka_unit_test(test_all_is_done_once),
        cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
