/* Graphs with open sizes in sessions: every run gives what the interpreter gives for the same sizes, plans are kept and let go,
 * constants lie once, and what the graph does not take is refused by name. */
#include "engine_test.h"

#include "engine/session.h"

#include <stdio.h>

/* ---- graphs ---------------------------------------------------------------------------------- */
static nx_tensor *ramp(int ndim, const int64_t *sizes) {
    nx_tensor *t;
    OK(nx_tensor_new(NX_F32, ndim, sizes, NX_CPU, &t));
    for (int64_t i = 0; i < t->a.numel; i++) ((float *)t->a.data)[i] = 0.25f * (float)(i % 37) - 3;
    return t;
}

static nx_value size_of(nx_graph *g, nx_value of, int dim) {
    nx_node *node;
    OK(nx_graph_size(g, of, dim, &node));
    return nx_value_node(node, 0);
}

static nx_value compute(nx_graph *g, const char *what, nx_value a, nx_value b) {
    nx_node *node;
    OK(nx_graph_compute(g, what, (nx_value[]){a, b}, &node));
    return nx_value_node(node, 0);
}

/* x[batch, length, 4] -> tanh(x.view(batch * length, 4) @ w).view(batch, length, 6) * mask[length, 1], its sums over 6 and over the length.
 * Open: both of x and the first of mask; at least two along the length. */
static nx_graph *make_graph(int64_t max_batch, int64_t max_length) {
    nx_graph *g;
    nx_node *x, *mask, *w, *two;
    nx_tensor *weight = ramp(2, (int64_t[]){4, 6});
    int64_t dim = 1;
    OK(nx_graph_new(&g));
    OK(nx_graph_input(g, "x", NX_F32, 3, (int64_t[]){2, 5, 4}, NX_CPU, &x));
    OK(nx_graph_input(g, "mask", NX_F32, 2, (int64_t[]){5, 1}, NX_CPU, &mask));
    OK(nx_graph_open_size(g, x, 0, 1, max_batch));
    OK(nx_graph_open_size(g, x, 1, 0, max_length));
    OK(nx_graph_open_size(g, mask, 0, 0, -1));
    OK(nx_graph_constant(g, "w", weight, &w));
    nx_tensor_unref(weight);
    nx_value in = nx_value_node(x, 0), batch = size_of(g, in, 0), length = size_of(g, in, 1);
    OK(nx_graph_compute(g, "check", (nx_value[]){compute(g, "ge", length, nx_value_int(2))}, &two));
    nx_value rows = compute(g, "mul", batch, length);
    nx_value flat = CALL(g, "aten::view", in, nx_value_list((nx_value[]){rows, nx_value_int(4)}, 2));
    nx_value y = CALL(g, "aten::tanh", CALL(g, "aten::mm", flat, nx_value_node(w, 0)));
    nx_value whole = CALL(g, "aten::view", y, nx_value_list((nx_value[]){batch, length, nx_value_int(6)}, 3));
    nx_value masked = CALL(g, "aten::mul.Tensor", whole, nx_value_node(mask, 0));
    nx_value sum = CALL(g, "aten::sum.dim_IntList", masked, nx_value_ints(&dim, 1), nx_value_bool(false));
    dim = 2;
    nx_value other = CALL(g, "aten::sum.dim_IntList", masked, nx_value_ints(&dim, 1), nx_value_bool(false));
    OK(nx_graph_output(g, (nx_value[]){other, sum}, 2));
    return g;
}

static nx_session *make_session(const nx_graph *g) {
    nx_session *session;
    OK(nx_session_new(NX_CPU, &session));
    OK(nx_session_add_graph(session, 1, g));
    OK(nx_session_compile_graph(session, 1));
    return session;
}

/* Runs for these sizes and compares with the interpreter. */
static void run_and_compare(nx_session *session, const nx_graph *g, int64_t batch, int64_t length) {
    nx_tensor *in[] = {ramp(3, (int64_t[]){batch, length, 4}), ramp(2, (int64_t[]){length, 1})}, *a[2] = {0}, *b[2];
    OK(nx_session_run(session, 1, NULL, in, 2, a, 2));
    OK(nx_graph_run(g, in, 2, b, 2));
    for (int i = 0; i < 2; i++) {
        assert_true(nx_same_size(&a[i]->a, &b[i]->a));
        assert_memory_equal(a[i]->a.data, b[i]->a.data, (size_t)a[i]->a.numel * 4);
        nx_tensor_unref(a[i]);
        nx_tensor_unref(b[i]);
        nx_tensor_unref(in[i]);
    }
}

static nx_status try_run(nx_session *session, int ndim, const int64_t *x, int64_t mask) {
    nx_tensor *in[] = {ramp(ndim, x), ramp(2, (int64_t[]){mask, 1})}, *out[2] = {0};
    nx_status status = nx_session_run(session, 1, NULL, in, 2, out, 2);
    for (int i = 0; i < 2; i++) {
        nx_tensor_unref(in[i]);
        nx_tensor_unref(out[i]);
    }
    return status;
}

static nx_summary summary_of(nx_session *session) {
    nx_summary summary = {.size = sizeof summary};
    OK(nx_session_get_summary(session, 1, &summary));
    return summary;
}

/* ---- tests ----------------------------------------------------------------------------------- */
static void test_sizes_of_a_run(void **state) {
    nx_graph *g = make_graph(64, 100);
    nx_session *session = make_session(g);
    static const int64_t sizes[][2] = {{2, 5}, {1, 5}, {3, 7}, {8, 2}, {2, 5}, {64, 100}, {1, 2}, {3, 7}};
    assert_false(summary_of(session).is_static);
    for (int i = 0; i < NX_COUNT(sizes); i++) run_and_compare(session, g, sizes[i][0], sizes[i][1]);
    assert_int_equal(summary_of(session).n_plans, 6);
    nx_session_free(session);
    nx_graph_free(g);
}

static void test_what_is_refused(void **state) {
    nx_graph *g = make_graph(64, 100);
    nx_session *session = make_session(g);
    FAILS(try_run(session, 3, (int64_t[]){65, 5, 4}, 5), NX_RUNTIME,
          "input 0 (x) has size 65 in dimension 0, and the graph takes 1 to 64 there");
    FAILS(try_run(session, 3, (int64_t[]){0, 5, 4}, 5), NX_RUNTIME,
          "input 0 (x) has size 0 in dimension 0, and the graph takes 1 to 64 there");
    FAILS(try_run(session, 3, (int64_t[]){2, 5, 3}, 5), NX_RUNTIME,
          "input 0 (x) has size 3 in dimension 2, and the graph takes 4 there");
    FAILS(try_run(session, 3, (int64_t[]){2, 1, 4}, 1), NX_RUNTIME,
          "does not hold for x[2, 1, 4], mask[1, 1]: size 1 of x is 1, and the trace went by >= 2");
    FAILS(try_run(session, 3, (int64_t[]){2, 5, 4}, 6), NX_RUNTIME,
          "does not hold for x[2, 5, 4], mask[6, 1]: ");
    FAILS(try_run(session, 2, (int64_t[]){2, 4}, 5), NX_RUNTIME, "input 0 is float32[2, 4]");
    assert_int_equal(summary_of(session).n_plans, 1);
    run_and_compare(session, g, 4, 9);
    nx_session_free(session);
    nx_graph_free(g);
}

static void test_a_graph_is_refused(void **state) {
    nx_graph *g;
    nx_node *x, *n;
    OK(nx_graph_new(&g));
    OK(nx_graph_input(g, "x", NX_F32, 1, (int64_t[]){4}, NX_CPU, &x));
    FAILS(nx_graph_open_size(g, x, 1, 0, -1), NX_INDEX, "none of number 1");
    FAILS(nx_graph_open_size(g, x, 0, 5, -1), NX_VALUE, "is 4, which is not from 5");
    FAILS(nx_graph_open_size(g, x, 0, 0, 3), NX_VALUE, "is 4, which is not from 0 to 3");
    FAILS(nx_graph_set_gears(g, x, 0, (int64_t[]){8, 4}, 2), NX_VALUE, "must rise");
    FAILS(nx_graph_set_gears(g, x, 0, NULL, 0), NX_VALUE, "1 to 64 are possible");
    FAILS(nx_graph_size(g, nx_value_node(x, 0), 1, &n), NX_INDEX, "no such dimension");
    FAILS(nx_graph_compute(g, "sym_size_int", (nx_value[]){nx_value_int(1)}, &n), NX_VALUE, "'sym_size_int' is nothing");
    FAILS(nx_graph_compute(g, "floordiv", (nx_value[]){nx_value_int(1), nx_value_int(0)}, &n), NX_VALUE, "no such result");
    FAILS(nx_graph_compute(g, "add", (nx_value[]){nx_value_int(1), nx_value_bool(true)}, &n), NX_TYPE, "neither");
    nx_graph_free(g);
}

static void test_text_keeps_open_sizes(void **state) {
    nx_graph *g = make_graph(64, -1), *back;
    char *text, *again;
    OK(nx_graph_set_gears(g, g->first->next, 0, (int64_t[]){5, 9}, 2));
    OK(nx_graph_print(g, &text));
    assert_non_null(strstr(text, "f32[2, 5, 4] cpu open(0: 1..64, 1)\n"));
    assert_non_null(strstr(text, "f32[5, 1] cpu open(0: 5..9 [5, 9])\n"));
    OK(nx_graph_parse(text, &back));
    OK(nx_graph_print(back, &again));
    assert_string_equal(text, again);
    static const char *const wrong[] = {
        "open(3)", "open(0: 5..4)", "open(0: -1..)", "open(0: 1..9 [4, 4])", "open(0: 1..9 [10])", "open(0"};
    for (int i = 0; i < NX_COUNT(wrong); i++) {
        char bad[256];
        nx_graph *none;
        snprintf(bad, sizeof bad, "graph captured {\n  %%x = placeholder \"x\" : f32[2] cpu %s\n  return (%%x)\n}\n", wrong[i]);
        assert_int_equal(nx_graph_parse(bad, &none), NX_VALUE);
    }
    nx_free(text);
    nx_free(again);
    nx_graph_free(g);
    nx_graph_free(back);
}

static void test_bases_and_summaries(void **state) {
    nx_graph *g = make_graph(-1, -1);
    nx_session *session = make_session(g);
    nx_summary small = summary_of(session), large = {.size = sizeof large};
    int64_t x[] = {30, 50, 4}, mask[] = {50, 1};
    OK(nx_session_get_summary_for(session, 1, (const int64_t *const[]){x, mask}, 2, &large));
    assert_int_equal(large.n_plans, 2);
    assert_int_equal(large.const_bytes, small.const_bytes);
    assert_true(large.feature_bytes > small.feature_bytes);
    void *weights = aligned_alloc(64, (large.const_bytes + 63) / 64 * 64);
    void *features = aligned_alloc(64, (large.feature_bytes + 63) / 64 * 64);
    OK(nx_session_set_const_base(session, 1, weights, large.const_bytes));
    OK(nx_session_update_feature_base(session, 1, features, large.feature_bytes));
    run_and_compare(session, g, 30, 50);
    run_and_compare(session, g, 2, 5);
    FAILS(try_run(session, 3, (int64_t[]){60, 50, 4}, 50), NX_VALUE, "feature base");
    ((float *)weights)[0] += 1; /* all plans read their constants here */
    nx_tensor *in[] = {ramp(3, (int64_t[]){2, 5, 4}), ramp(2, (int64_t[]){5, 1})}, *out[2] = {0}, *right[2];
    OK(nx_session_run(session, 1, NULL, in, 2, out, 2));
    OK(nx_graph_run(g, in, 2, right, 2));
    assert_memory_not_equal(out[1]->a.data, right[1]->a.data, (size_t)out[1]->a.numel * 4);
    for (int i = 0; i < 2; i++) nx_tensor_unref(in[i]), nx_tensor_unref(out[i]), nx_tensor_unref(right[i]);
    OK(nx_session_set_const_base(session, 1, NULL, 0));
    OK(nx_session_update_feature_base(session, 1, NULL, 0));
    run_and_compare(session, g, 60, 50);
    run_and_compare(session, g, 30, 50);
    FAILS(nx_session_get_summary_for(session, 1, NULL, 1, &large), NX_TYPE, "the graph has 2");
    FAILS(nx_session_get_summary_for(session, 1, (const int64_t *const[]){(int64_t[]){2, 5, 9}, NULL}, 2, &large), NX_RUNTIME,
          "takes 4 there");
    FAILS(nx_session_get_summary_for(session, 1, (const int64_t *const[]){(int64_t[]){2, -5, 4}, NULL}, 2, &large), NX_VALUE, "negative");
    nx_session_free(session);
    nx_graph_free(g);
    free(weights);
    free(features);
}

static void test_gears(void **state) {
    nx_graph *g = make_graph(-1, -1);
    nx_node *x = g->first, *mask = x->next;
    OK(nx_graph_set_gears(g, x, 0, (int64_t[]){1, 2, 8}, 3));
    OK(nx_graph_set_gears(g, x, 1, (int64_t[]){1, 5, 16}, 3));
    OK(nx_graph_set_gears(g, mask, 0, (int64_t[]){5, 16}, 2));
    nx_session *session = make_session(g);
    assert_int_equal(summary_of(session).n_plans, 6); /* of 18: where both have one length, and that is two or more */
    for (int k = 0; k < 2; k++) {
        run_and_compare(session, g, 8, 16);
        run_and_compare(session, g, 1, 5);
    }
    FAILS(try_run(session, 3, (int64_t[]){3, 5, 4}, 5), NX_RUNTIME,
          "input 0 (x) has size 3 in dimension 0, and the graph takes [1, 2, 8] alone there");
    assert_int_equal(summary_of(session).n_plans, 6);
    nx_session_free(session);
    nx_graph_free(g);
}

static void test_other_layouts(void **state) {
    nx_graph *g;
    nx_node *x;
    nx_tensor *rows = ramp(2, (int64_t[]){6, 3}), *turned, *out[1] = {0};
    OK(nx_graph_new(&g));
    OK(nx_graph_input(g, "x", NX_F32, 2, (int64_t[]){2, 3}, NX_CPU, &x));
    OK(nx_graph_open_size(g, x, 0, 0, -1));
    OK(nx_graph_open_size(g, x, 1, 0, -1));
    nx_value y = CALL(g, "aten::neg", CALL(g, "aten::clone", nx_value_node(x, 0)));
    OK(nx_graph_output(g, &y, 1));
    nx_session *session = make_session(g);
    nx_meta meta = {.dtype = NX_F32, .ndim = 2, .view_of = -1, .size = {3, 6}, .stride = {1, 3}};
    OK(nx_tensor_new_view(rows->storage, &meta, NX_DEVICE_KEY(NX_CPU), NULL, &turned));
    OK(nx_session_run(session, 1, NULL, &turned, 1, out, 1));
    for (int i = 0; i < 18; i++) {
        const nx_array *a = &out[0]->a;
        assert_true(((float *)a->data)[i / 6 * a->strides[0] + i % 6 * a->strides[1]] == -((float *)rows->a.data)[i % 6 * 3 + i / 6]);
    }
    nx_tensor_unref(out[0]);
    nx_tensor_unref(turned);
    nx_tensor_unref(rows);
    nx_session_free(session);
    nx_graph_free(g);
}

/* What a sanitizer keeps of freed memory is none of ours. */
#ifdef __SANITIZE_ADDRESS__
static size_t resident(void) { return 0; }
#else
static size_t resident(void) {
    long whole, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &whole, &pages) != 2) pages = 0;
    if (file) fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}
#endif

static void test_a_thousand_shapes(void **state) {
    nx_graph *g = make_graph(-1, -1);
    nx_session *session = make_session(g);
    size_t before = 0;
    int64_t live = 0;
    nx_alloc_watch(true);
    for (int i = 0; i < 1000; i++) {
        run_and_compare(session, g, 1 + i % 40, 2 + i / 40);
        if (i == 100) before = resident(), live = nx_alloc_live();
    }
    assert_true(nx_alloc_live() <= live + 2 * NX__MAX_PLANS); /* plans of more steps take a block more */
    nx_alloc_watch(false);
    assert_true(resident() <= before + (size_t)4 * 1024 * 1024);
    assert_int_equal(summary_of(session).n_plans, NX__MAX_PLANS + 1); /* and the example's */
    nx_session_free(session);
    nx_graph_free(g);
}

static nx_status compile_and_run(const nx_graph *g, nx_tensor *const *in, int n) {
    nx_session *session;
    NX_TRY(nx_session_new(NX_CPU, &session));
    nx_status status = nx_session_add_graph(session, 1, g);
    if (status == NX_OK) status = nx_session_compile_graph(session, 1);
    for (int i = 0; i < n && status == NX_OK; i++) {
        nx_tensor *out[2] = {0};
        status = nx_session_run(session, 1, NULL, in + 2 * i, 2, out, 2);
        if (status != NX_OK) break;
        nx_tensor_unref(out[0]);
        nx_tensor_unref(out[1]);
    }
    nx_session_free(session);
    return status;
}

static void test_every_allocation_fails_once(void **state) {
    nx_graph *g = make_graph(-1, -1);
    nx_tensor *in[] = {ramp(3, (int64_t[]){3, 7, 4}), ramp(2, (int64_t[]){7, 1}),
                        ramp(3, (int64_t[]){1, 2, 4}), ramp(2, (int64_t[]){2, 1})};
    OK(nx_graph_set_gears(g, g->first->next, 0, (int64_t[]){2, 5, 7}, 3));
    nx_alloc_watch(true);
    OK(compile_and_run(g, in, 2));
    int64_t live = nx_alloc_live(), at = 1;
    for (;; at++) {
        nx_alloc_fail_at(at);
        nx_status status = compile_and_run(g, in, 2);
        bool failed = nx_alloc_failed();
        nx_alloc_fail_at(0);
        assert_int_equal(nx_alloc_live(), live);
        if (!failed) break;
        if (status != NX_NO_MEMORY) fail_msg("allocation %lld: status %d, %s", (long long)at, status, nx_error_message());
    }
    assert_true(at > 10);
    nx_alloc_watch(false);
    for (int i = 0; i < 4; i++) nx_tensor_unref(in[i]);
    nx_graph_free(g);
}

static int start(void **state) { return nx_op_count() || nx__register_ops() == NX_OK ? 0 : 1; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_of_a_run),      cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_a_graph_is_refused),
        cmocka_unit_test(test_text_keeps_open_sizes), cmocka_unit_test(test_bases_and_summaries), cmocka_unit_test(test_gears),
        cmocka_unit_test(test_other_layouts),       cmocka_unit_test(test_a_thousand_shapes),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
