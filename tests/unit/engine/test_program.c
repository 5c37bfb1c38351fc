/* Programs against the interpreter: the same graph run node by node (nx_graph_run) must give the same bits,
 * whatever was fused, placed in the arena or taken in place. Random graphs print their seed. */
#include "engine_test.h"

#include <pthread.h>

/* ---- graphs ---------------------------------------------------------------------------------- */
static nx_graph *new_graph(void) {
    nx_graph *graph;
    OK(nx_graph_new(&graph));
    graph->level = NX_GRAPH_FUNCTIONAL;
    return graph;
}

static nx_value input(nx_graph *graph, nx_dtype dtype, int ndim, const int64_t *sizes) {
    nx_node *node;
    OK(nx_graph_input(graph, "x", dtype, ndim, sizes, NX_CPU, &node));
    return nx_value_node(node, 0);
}

static void finish(nx_graph *graph, int n, const nx_value *results) {
    OK(nx_graph_output(graph, results, n));
    OK(nx_graph_verify(graph));
}
#define FINISH(graph, ...) finish(graph, NX_COUNT(((nx_value[]){__VA_ARGS__})), (nx_value[]){__VA_ARGS__})

/* ---- tensors --------------------------------------------------------------------------------- */
static uint64_t random_state;
static uint32_t next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}
static int below(int n) { return (int)(next_random() % (uint32_t)n); }

static nx_tensor *fill(nx_tensor *tensor) {
    int64_t bytes = (int64_t)nx_dtype_bytes(tensor->a.dtype);
    for (int64_t i = 0; i < (int64_t)tensor->storage->bytes / bytes; i++) {
        double value = (below(2001) - 1000) / 64.0;
        nx_cast(tensor->a.dtype, (char *)tensor->storage->data + i * bytes, bytes, NX_F64, (char *)&value, 8,
                1);
    }
    return tensor;
}

static nx_tensor *new_tensor(nx_dtype dtype, int ndim, const int64_t *sizes) {
    nx_tensor *tensor;
    OK(nx_tensor_new(dtype, ndim, sizes, NX_CPU, &tensor));
    return fill(tensor);
}

static nx_tensor *like_input(const nx_array *a) {
    nx_meta meta = {.dtype = a->dtype, .device = a->device, .ndim = a->ndim, .view_of = -1};
    nx_tensor *tensor;
    memcpy(meta.size, a->sizes, sizeof *meta.size * a->ndim);
    memcpy(meta.stride, a->strides, sizeof *meta.stride * a->ndim);
    OK(nx_tensor_new_meta(&meta, false, &tensor));
    return fill(tensor);
}

static void assert_same(const nx_tensor *a, const nx_tensor *b) {
    assert_non_null(a);
    assert_non_null(b);
    assert_true(nx__same_layout(&a->a, &b->a));
    nx_tensor *packed[2];
    const nx_tensor *both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        OK(nx_tensor_new(a->a.dtype, a->a.ndim, a->a.sizes, NX_CPU, &packed[i]));
        nx_copy_cast(&packed[i]->a, &both[i]->a);
    }
    assert_memory_equal(packed[0]->a.data, packed[1]->a.data,
                        (size_t)a->a.numel * nx_dtype_bytes(a->a.dtype));
    nx_tensor_unref(packed[0]);
    nx_tensor_unref(packed[1]);
}

enum { MAX = 16 };

/* Intermediates that live at the same time lie apart, but for one that takes the memory of one that dies there. */
static void check_memory(const nx_program *p) {
    for (int i = 0; i < p->buffers.n; i++) {
        const nx__buffer *a = &p->buffers.at[i];
        if (a->space != NX__FEATURE || a->bytes == 0) continue;
        assert_true(a->offset + a->bytes <= p->feature_bytes);
        for (int k = 0; k < i; k++) {
            const nx__buffer *b = &p->buffers.at[k];
            bool together = b->space == NX__FEATURE && b->bytes && a->first <= b->last && b->first <= a->last;
            bool apart = a->offset >= b->offset + b->bytes || b->offset >= a->offset + a->bytes;
            if (together && !apart) assert_true(a->in_place_of == k && a->first == b->last);
        }
    }
    assert_true(p->live_bytes <= p->feature_bytes);
    assert_true(p->feature_bytes <= 2 * p->live_bytes);
}

/* The program that its text says, in its place; the text reads back to itself. */
static void read_back(nx_program **program) {
    nx_program *again;
    char *text, *second;
    OK(nx_program_print(*program, &text));
    if (nx_program_parse(text, &again) != NX_OK) fail_msg("%s\n%s", nx_error_message(), text);
    OK(nx_program_print(again, &second));
    assert_string_equal(text, second);
    nx_free(text);
    nx_free(second);
    nx_program_free(*program);
    *program = again;
}

/* Compiles, runs three times, the last time from the program's text, and compares the runs with the interpreter. */
static void check(const nx_graph *graph, nx_summary *summary) {
    nx_program *program;
    nx_tensor *inputs[MAX], *expected[MAX] = {0}, *out[MAX];
    OK(nx_program_new(graph, NX_CPU, &program));
    check_memory(program);
    for (int i = 0; i < program->n_inputs; i++) inputs[i] = like_input(&program->inputs[i]);
    for (int run = 0; run < 3; run++) {
        if (run == 2) read_back(&program);
        OK(nx_graph_run(graph, inputs, program->n_inputs, expected, program->n_outputs));
        memset(out, 0, sizeof out);
        OK(nx_program_run(program, inputs, out));
        for (int k = 0; k < program->n_outputs; k++) {
            assert_same(out[k], expected[k]);
            nx_tensor_unref(out[k]);
            nx_tensor_unref(expected[k]);
        }
        if (program->n_inputs) fill(inputs[0]);
    }
    if (summary) {
        summary->size = sizeof *summary;
        nx_program_get_summary(program, summary);
    }
    for (int i = 0; i < program->n_inputs; i++) nx_tensor_unref(inputs[i]);
    nx_program_free(program);
}

/* ---- the line -------------------------------------------------------------------------------- */
static nx_graph *line_graph(int64_t rows, int64_t n_in, int64_t n_out) {
    nx_graph *g = new_graph();
    nx_value x = input(g, NX_F32, 2, (int64_t[]){rows, n_in}),
             w = input(g, NX_F32, 2, (int64_t[]){n_out, n_in});
    nx_value b = input(g, NX_F32, 1, (int64_t[]){n_out});
    nx_value mm = CALL(g, "aten::mm", x, CALL(g, "aten::t", w));
    nx_value y = CALL(g, "aten::add.Tensor", CALL(g, "aten::mul.Tensor", mm, b), b);
    FINISH(g, CALL(g, "aten::sum", y));
    return g;
}

static void test_line(void **state) {
    static const int64_t sizes[][3] = {{2, 3, 4},     {1, 1, 1},     {7, 5, 300},
                                       {64, 8, 1000}, {300, 4, 300}, {5, 3, 0}};
    for (int i = 0; i < NX_COUNT(sizes); i++) {
        nx_graph *graph = line_graph(sizes[i][0], sizes[i][1], sizes[i][2]);
        nx_summary summary;
        check(graph, &summary);
        if (sizes[i][2] && !nx_flag.reference) {
            assert_int_equal(summary.n_launches, 2);
            assert_int_equal(summary.n_tile_programs, 1);
        }
        nx_graph_free(graph);
    }
}

static void test_sum_of_rows(void **state) {
    static const int64_t shapes[][2] = {{3, 10}, {2, 4096}, {4, 5000}, {100, 4097}, {1, 20000}, {33, 1}};
    for (int i = 0; i < NX_COUNT(shapes); i++) {
        nx_graph *g = new_graph();
        nx_value x = input(g, NX_F32, 2, shapes[i]), b = input(g, NX_F32, 1, &shapes[i][1]);
        int64_t dim = -1;
        nx_value y = CALL(g, "aten::mul.Tensor", CALL(g, "aten::add.Tensor", x, b), x);
        FINISH(g, CALL(g, "aten::sum.dim_IntList", y, nx_value_ints(&dim, 1)), y);
        check(g, NULL);
        nx_graph_free(g);
    }
}

/* Results that are inputs, views of inputs, views of other results, and one result twice. */
static void test_results(void **state) {
    nx_graph *g = new_graph();
    nx_value x = input(g, NX_F32, 2, (int64_t[]){3, 4});
    nx_value t = CALL(g, "aten::t", x), y = CALL(g, "aten::add.Tensor", x, nx_value_int(2));
    FINISH(g, x, t, y, CALL(g, "aten::t", y), y, CALL(g, "aten::t", CALL(g, "aten::mul.Tensor", y, y)));
    check(g, NULL);
    nx_program *program;
    nx_tensor *in = new_tensor(NX_F32, 2, (int64_t[]){3, 4}), *out[6] = {0};
    OK(nx_program_new(g, NX_CPU, &program));
    OK(nx_program_run(program, &in, out));
    assert_ptr_equal(out[0], in);
    assert_ptr_equal(out[1]->storage, in->storage);
    assert_ptr_equal(out[2], out[4]);
    assert_ptr_equal(out[3]->storage, out[2]->storage);
    for (int i = 0; i < 6; i++) nx_tensor_unref(out[i]);
    nx_tensor_unref(in);
    nx_program_free(program);
    nx_graph_free(g);
}

/* The caller's tensors, among them one that an input shares. */
static void test_given_results(void **state) {
    nx_graph *g = new_graph();
    int64_t n = 5;
    nx_value x = input(g, NX_F32, 1, &n), y = input(g, NX_F32, 1, &n);
    nx_value a = CALL(g, "aten::add.Tensor", x, y);
    FINISH(g, a, CALL(g, "aten::mul.Tensor", x, y), x);
    nx_program *program;
    nx_tensor *in[2] = {new_tensor(NX_F32, 1, &n), new_tensor(NX_F32, 1, &n)}, *expected[3] = {0};
    OK(nx_graph_run(g, in, 2, expected, 3));
    nx_tensor *copy = new_tensor(NX_F32, 1, &n), *given = new_tensor(NX_F32, 1, &n);
    memcpy(copy->a.data, in[0]->a.data, 20);
    OK(nx_program_new(g, NX_CPU, &program));
    nx_tensor *out[3] = {copy, given, NULL}, *aliased[2] = {copy, in[1]};
    OK(nx_program_run(program, aliased, out)); /* the first result goes where the first input is */
    assert_ptr_equal(out[0], copy);
    assert_ptr_equal(out[1], given);
    assert_ptr_equal(out[2], copy);
    assert_same(out[0], expected[0]);
    assert_same(out[1], expected[1]);
    assert_int_equal(given->storage->version, 1);
    nx_tensor_unref(out[2]);
    for (int i = 0; i < 3; i++) nx_tensor_unref(expected[i]);
    for (int i = 0; i < 2; i++) nx_tensor_unref(in[i]);
    nx_tensor_unref(copy);
    nx_tensor_unref(given);
    nx_program_free(program);
    nx_graph_free(g);
}

static void test_constants_and_written_inputs(void **state) {
    nx_graph *g = new_graph();
    nx_node *constant;
    int64_t n = 6;
    nx_tensor *c = new_tensor(NX_F32, 1, &n), *in = new_tensor(NX_F32, 1, &n),
              *before = new_tensor(NX_F32, 1, &n), *out[2] = {0};
    nx_value x = input(g, NX_F32, 1, &n);
    OK(nx_graph_constant(g, "c", c, &constant));
    nx_value y = CALL(g, "aten::add.Tensor", x, nx_value_node(constant, 0));
    nx_value z = CALL(g, "aten::mul.Tensor", y, y);
    CALL(g, "aten::copy_", x, y);
    FINISH(g, z, nx_value_node(constant, 0));
    nx_program *program;
    OK(nx_program_new(g, NX_CPU, &program));
    memcpy(before->a.data, in->a.data, 24);
    OK(nx_program_run(program, &in, out));
    for (int i = 0; i < 6; i++) {
        float sum = ((float *)before->a.data)[i] + ((float *)c->a.data)[i];
        assert_true(((float *)in->a.data)[i] == sum);
        assert_true(((float *)out[0]->a.data)[i] == sum * sum);
    }
    assert_int_equal(in->storage->version, 1);
    assert_same(out[1], c);
    assert_ptr_not_equal(out[1]->storage, c->storage);
    for (int i = 0; i < 2; i++) nx_tensor_unref(out[i]);
    nx_tensor_unref(in);
    nx_tensor_unref(before);
    nx_tensor_unref(c);
    nx_program_free(program);
    nx_graph_free(g);
}

static void test_wrong_strides(void **state) {
    nx_graph *g = new_graph();
    nx_value x = input(g, NX_F32, 2, (int64_t[]){3, 4});
    FINISH(g, CALL(g, "aten::add.Tensor", x, x));
    nx_program *program;
    OK(nx_program_new(g, NX_CPU, &program));
    nx_meta meta = {.dtype = NX_F32, .ndim = 2, .view_of = -1, .size = {3, 4}, .stride = {1, 3}};
    nx_tensor *in, *out[1] = {0};
    OK(nx_tensor_new_meta(&meta, false, &in));
    FAILS(nx_program_run(program, &in, out), NX_RUNTIME, "input 0 has strides [1, 3]");
    nx_tensor_unref(in);
    nx_program_free(program);
    nx_graph_free(g);
}

static void test_memory_is_reused(void **state) {
    nx_graph *g = new_graph();
    int64_t sizes[2] = {40, 40};
    nx_value x = input(g, NX_F32, 2, sizes), y = x;
    for (int i = 0; i < 12; i++) y = CALL(g, "aten::mm", y, x);
    FINISH(g, y);
    nx_summary summary;
    check(g, &summary);
    assert_int_equal(summary.feature_bytes, 2 * 6400);
    assert_int_equal(summary.n_launches, 12);
    nx_graph_free(g);
}

/* n products of different sizes, of which the earlier ones live long: the work of placing them grows with what lives
 * at once, not with n. */
static uint64_t steps_of_plan(int n) {
    nx_graph *g = new_graph();
    nx_value x = input(g, NX_F32, 2, (int64_t[]){2, 2}), early = CALL(g, "aten::mm", x, x), y = x;
    for (int i = 0; i < n; i++) {
        nx_value wide[] = {y, y, y};
        nx_value both = CALL(g, "aten::cat", nx_value_list(wide, 2 + i % 2), nx_value_int(0));
        y = CALL(g, "aten::mm", CALL(g, "aten::slice.Tensor", both, nx_value_int(0), nx_value_int(0), nx_value_int(2)), x);
    }
    FINISH(g, CALL(g, "aten::mm", early, y));
    nx_program *p;
    OK(nx_program_new(g, NX_CPU, &p));
    assert_true(p->feature_bytes == p->live_bytes);
    uint64_t steps = p->plan_steps;
    nx_program_free(p);
    nx_graph_free(g);
    return steps;
}

static void test_planning_is_nearly_linear(void **state) {
    uint64_t some = steps_of_plan(200), many = steps_of_plan(1600);
    assert_true(some >= 200 && many < 8 * some * 3 / 2);
}

/* So many live at once that not each is compared with each: those of one size share places, and none overlap. */
static void test_many_live_at_once(void **state) {
    enum { N = 1200 };
    nx_graph *g = new_graph();
    nx_value x = input(g, NX_F32, 2, (int64_t[]){6, 6}), y = input(g, NX_F32, 2, (int64_t[]){6, 2}), *all = calloc(N, sizeof *all);
    for (int i = 0; i < N; i++) /* every second one is 64 bytes, the others are 144 */
        all[i] = CALL(g, "aten::mm", i ? CALL(g, "aten::mul.Scalar", x, nx_value_float(1.0 / (i + 1))) : x, i & 1 ? y : x);
    nx_value sum = all[N - 1];
    for (int i = N - 3; i > 0; i -= 2) sum = CALL(g, "aten::add.Tensor", sum, all[i]);
    nx_value other = all[0];
    for (int i = 2; i < N; i += 2) other = CALL(g, "aten::mm", other, CALL(g, "aten::tanh", all[i]));
    FINISH(g, CALL(g, "aten::mm", other, sum));
    nx_summary summary;
    check(g, &summary);
    nx_program *p;
    OK(nx_program_new(g, NX_CPU, &p));
    assert_true(p->plan_steps > 256 * N && p->feature_bytes < p->live_bytes * 3 / 2);
    nx_program_free(p);
    free(all);
    nx_graph_free(g);
}

static void test_bases(void **state) {
    nx_graph *g = line_graph(2, 3, 4);
    nx_session *session;
    nx_summary summary = {.size = sizeof summary};
    nx_tensor *in[3] = {new_tensor(NX_F32, 2, (int64_t[]){2, 3}), new_tensor(NX_F32, 2, (int64_t[]){4, 3}),
                        new_tensor(NX_F32, 1, (int64_t[]){4})};
    nx_tensor *out[2] = {0}, *bad = new_tensor(NX_F64, 1, (int64_t[]){4});
    OK(nx_session_new(NX_CPU, &session));
    FAILS(nx_session_compile_graph(session, 7), NX_KEY, "no graph 7");
    OK(nx_session_add_graph(session, 7, g));
    FAILS(nx_session_add_graph(session, 7, g), NX_VALUE, "there already");
    FAILS(nx_session_get_summary(session, 7, &summary), NX_RUNTIME, "not compiled");
    OK(nx_session_compile_graph(session, 7));
    OK(nx_session_get_summary(session, 7, &summary));
    assert_true(summary.feature_bytes > 0);
    void *base = aligned_alloc(64, summary.feature_bytes);
    FAILS(nx_session_update_feature_base(session, 7, base, 1), NX_VALUE, "are needed");
    FAILS(nx_session_update_feature_base(session, 7, (char *)base + 1, 1 << 20), NX_VALUE, "multiple of 64");
    OK(nx_session_update_feature_base(session, 7, base, summary.feature_bytes));
    OK(nx_session_run(session, 7, NULL, in, 3, &out[0], 1));
    OK(nx_session_update_feature_base(session, 7, NULL, 0));
    OK(nx_session_run(session, 7, NULL, in, 3, &out[1], 1));
    assert_same(out[0], out[1]);
    nx_tensor_unref(out[1]);
    out[1] = NULL;
    FAILS(nx_session_run(session, 7, NULL, in, 2, &out[1], 1), NX_TYPE, "2 inputs and 1 results");
    nx_tensor *wrong[3] = {in[0], in[1], bad};
    FAILS(nx_session_run(session, 7, NULL, wrong, 3, &out[1], 1), NX_RUNTIME,
          "input 2 is float64[4] on cpu:0, and the graph was compiled for float32[4]");
    OK(nx_session_remove_graph(session, 7));
    nx_session_free(session);
    free(base);
    nx_tensor_unref(bad);
    nx_tensor_unref(out[0]);
    for (int i = 0; i < 3; i++) nx_tensor_unref(in[i]);
    nx_graph_free(g);
}

/* Regions move what is around them, but numbers are drawn in the order of the graph. */
static void test_draws_in_order(void **state) {
    nx_graph *g = new_graph();
    int64_t n = 40;
    nx_value x = input(g, NX_F32, 1, &n), a = CALL(g, "aten::add.Tensor", x, x);
    nx_value first = CALL(g, "aten::normal_functional", x), second = CALL(g, "aten::normal_functional", x);
    nx_value y = CALL(g, "aten::mul.Tensor", a, second);
    FINISH(g, CALL(g, "aten::add.Tensor", y, first), y);
    nx_program *program;
    nx_tensor *in = new_tensor(NX_F32, 1, &n), *out[2] = {0}, *expected[2] = {0};
    OK(nx_program_new(g, NX_CPU, &program));
    nx_manual_seed(7);
    OK(nx_program_run(program, &in, out));
    nx_manual_seed(7);
    OK(nx_graph_run(g, &in, 1, expected, 2));
    for (int i = 0; i < 2; i++) {
        assert_same(out[i], expected[i]);
        nx_tensor_unref(out[i]);
        nx_tensor_unref(expected[i]);
    }
    nx_tensor_unref(in);
    nx_program_free(program);
    nx_graph_free(g);
}

/* A compiled program inside a recording of the CPU's launches: it is recorded like any other work, tile
 * programs too, and the replay follows the inputs' and the result's new places. */
static void test_recorded(void **state) {
    nx_graph *g = line_graph(2, 3, 4);
    nx_program *program;
    nx_tensor *in[3] = {new_tensor(NX_F32, 2, (int64_t[]){2, 3}), new_tensor(NX_F32, 2, (int64_t[]){4, 3}),
                        new_tensor(NX_F32, 1, (int64_t[]){4})};
    nx_tensor *moved = new_tensor(NX_F32, 2, (int64_t[]){2, 3}), *out = NULL, *again = NULL, *expected = NULL;
    void *recorded;
    OK(nx_program_new(g, NX_CPU, &program));
    OK(nx_capture_begin(NX_CPU));
    OK(nx_program_run(program, in, &out));
    nx_span slots[2] = {{in[0]->a.data, 24}, {out->a.data, 4}};
    OK(nx_capture_end(NX_CPU, slots, 2, &recorded));
    nx_program_free(program);
    OK(nx_tensor_new(NX_F32, 0, NULL, NX_CPU, &again));
    void *bases[2] = {moved->a.data, again->a.data};
    OK(nx_capture_replay(NX_CPU, recorded, bases, NULL));
    nx_tensor *others[3] = {moved, in[1], in[2]};
    OK(nx_graph_run(g, others, 3, &expected, 1));
    assert_same(again, expected);
    nx_capture_destroy(NX_CPU, recorded);
    for (int i = 0; i < 3; i++) nx_tensor_unref(in[i]);
    nx_tensor_unref(moved);
    nx_tensor_unref(out);
    nx_tensor_unref(again);
    nx_tensor_unref(expected);
    nx_graph_free(g);
}

/* Two threads, each with tensors of its own, run one graph: each run is right or is refused. */
typedef struct part {
    nx_session *session;
    nx_tensor *in[3];
    float expected;
    int n_run, n_refused, n_wrong;
} part;
static void *run_often(void *arg) {
    part *s = arg;
    for (int i = 0; i < 2000; i++) {
        nx_tensor *out = NULL;
        nx_status status = nx_session_run(s->session, 1, NULL, s->in, 3, &out, 1);
        if (status == NX_OK) s->n_run++;
        else if (status == NX_RUNTIME && strstr(nx_error_message(), "another thread")) s->n_refused++;
        else s->n_wrong++;
        if (status == NX_OK && *(float *)out->a.data != s->expected) s->n_wrong++;
        nx_tensor_unref(out);
    }
    return NULL;
}

static void test_two_threads(void **state) {
    nx_graph *g = line_graph(8, 30, 40);
    part parts[2] = {0};
    nx_tensor *out = NULL;
    nx_session *session;
    pthread_t other;
    OK(nx_session_new(NX_CPU, &session));
    OK(nx_session_add_graph(session, 1, g));
    OK(nx_session_compile_graph(session, 1));
    for (int i = 0; i < 2; i++) {
        parts[i].session = session;
        parts[i].in[0] = new_tensor(NX_F32, 2, (int64_t[]){8, 30});
        parts[i].in[1] = new_tensor(NX_F32, 2, (int64_t[]){40, 30});
        parts[i].in[2] = new_tensor(NX_F32, 1, (int64_t[]){40});
        OK(nx_session_run(session, 1, NULL, parts[i].in, 3, &out, 1));
        parts[i].expected = *(float *)out->a.data;
        nx_tensor_unref(out);
        out = NULL;
    }
    assert_int_equal(pthread_create(&other, NULL, run_often, &parts[1]), 0);
    run_often(&parts[0]);
    pthread_join(other, NULL);
    int n_done = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(parts[i].n_wrong, 0);
        n_done += parts[i].n_run + parts[i].n_refused;
        for (int k = 0; k < 3; k++) nx_tensor_unref(parts[i].in[k]);
    }
    assert_int_equal(n_done, 4000);
    nx_session_free(session);
    nx_graph_free(g);
}

static void test_print(void **state) {
    nx_graph *g = line_graph(2, 3, 4);
    nx_program *program;
    char *text;
    OK(nx_program_new(g, NX_CPU, &program));
    OK(nx_program_print(program, &text));
    assert_non_null(
        strstr(text, "0: feature+0:f32[2, 4] = aten::mm(in0:f32[2, 3], in1:f32[3, 4]{1, 3})"));
    if (!nx_flag.reference) assert_non_null(strstr(text, "a2 = FOLD.f32 aten::sum f"));
    assert_non_null(strstr(text, "out0 is result0"));
    nx_free(text);
    nx_program_free(program);
    nx_graph_free(g);
}

/* ---- random graphs --------------------------------------------------------------------------- */
typedef struct pool { nx_value at[64]; int n; } pool;

static nx_value random_input(nx_graph *g, const int64_t *full, int ndim) {
    static const nx_dtype dtypes[] = {NX_F32, NX_F32, NX_F32, NX_F32, NX_F64, NX_I32, NX_BF16,
                                      NX_F16, NX_I64, NX_U8,  NX_I8,  NX_I16, NX_BOOL};
    int64_t sizes[4];
    int skip = below(ndim + 2);
    if (skip > ndim) skip = 0;
    for (int d = skip; d < ndim; d++) sizes[d - skip] = below(4) ? full[d] : 1;
    return input(g, dtypes[below(NX_COUNT(dtypes))], ndim - skip, sizes);
}

static void random_step(nx_graph *g, pool *values) {
    nx_value a = values->at[below(values->n)], b = values->at[below(values->n)], made;
    const nx_array *shape = &nx__fake_of(&a)->a;
    int64_t dim = shape->ndim ? -1 - below(shape->ndim) : 0;
    switch (below(12)) {
    case 0: made = CALL(g, "aten::add.Tensor", a, nx_value_float(0.5 * below(5))); break;
    case 1: made = CALL(g, "aten::mul.Tensor", a, nx_value_int(below(4))); break;
    case 2: made = shape->ndim == 2 ? CALL(g, "aten::t", a) : CALL(g, "aten::mul.Tensor", a, a); break;
    case 3:
        made = shape->ndim
                   ? CALL(g, "aten::sum.dim_IntList", a, nx_value_ints(&dim, 1), nx_value_bool(below(2)))
                   : a;
        break;
    case 4: made = CALL(g, "aten::sum", a); break;
    case 5: made = CALL(g, "aten::clone", a); break;
    case 6: made = CALL(g, "aten::add.Tensor", a, b, nx_value_int(below(3))); break;
    case 7: case 8: made = CALL(g, "aten::mul.Tensor", a, b); break;
    default: made = CALL(g, "aten::add.Tensor", a, b);
    }
    values->at[values->n++] = made;
}

static bool broadcast(const nx_array *a, const nx_array *b) {
    for (int d = 1; d <= a->ndim && d <= b->ndim; d++) {
        int64_t x = a->sizes[a->ndim - d], y = b->sizes[b->ndim - d];
        if (x != y && x != 1 && y != 1) return false;
    }
    return true;
}

static nx_graph *random_graph(uint64_t seed) {
    static const int64_t shapes[][3] = {{2, 3, 4},    {1, 5, 300}, {3, 40, 70},
                                        {2, 1, 9000}, {20, 30, 5}, {4, 4, 4}};
    random_state = seed;
    const int64_t *full = shapes[below(NX_COUNT(shapes))];
    nx_graph *g = new_graph();
    pool values = {.n = 0};
    int n_inputs = 1 + below(4), n_steps = 1 + below(14), ndim = 1 + below(3);
    for (int i = 0; i < n_inputs; i++) values.at[values.n++] = random_input(g, full + 3 - ndim, ndim);
    for (int i = 0; i < n_steps; i++) {
        /* Two random values need not broadcast; then this step works on one. */
        uint64_t saved = random_state;
        nx_value a = values.at[below(values.n)], b = values.at[below(values.n)];
        random_state = saved;
        pool one = {.at = {a}, .n = 1};
        if (broadcast(&nx__fake_of(&a)->a, &nx__fake_of(&b)->a)) random_step(g, &values);
        else {
            random_step(g, &one);
            values.at[values.n++] = one.at[1];
        }
    }
    nx_value results[3];
    int n = 1 + below(3);
    for (int i = 0; i < n; i++) results[i] = values.at[i == 0 ? values.n - 1 : below(values.n)];
    finish(g, n, results);
    return g;
}

static void test_random_graphs(void **state) {
    int n = getenv("NARTHEX_TEST_GRAPHS") ? atoi(getenv("NARTHEX_TEST_GRAPHS")) : 400, n_fused = 0;
    for (int seed = 1; seed <= n; seed++) {
        nx_graph *graph = random_graph((uint64_t)seed);
        nx_summary summary;
        char *text = NULL;
        if (getenv("NARTHEX_TEST_VERBOSE")) {
            OK(nx_graph_print(graph, &text));
            print_message("seed %d\n%s", seed, text);
            nx_free(text);
        }
        check(graph, &summary);
        n_fused += summary.n_tile_programs;
        nx_graph_free(graph);
    }
    assert_true(n_fused > n / 4 || nx_flag.reference);
}

/* ---- damaged texts --------------------------------------------------------------------------- */
static bool is_small(const nx_program *p) {
    int64_t numel = (int64_t)p->feature_bytes;
    for (int i = 0; i < p->n_inputs; i++) numel += p->inputs[i].numel + (int64_t)nx__bytes_of(&p->inputs[i]);
    for (int i = 0; i < p->n_fresh; i++) numel += p->fresh[i].array.numel + (int64_t)p->fresh[i].bytes;
    return numel < 1 << 22;
}

static void run_anyhow(nx_program *p) {
    nx_tensor *inputs[MAX], *out[MAX] = {0};
    if (p->n_inputs > MAX || p->n_outputs > MAX || !is_small(p)) return;
    for (int i = 0; i < p->n_inputs; i++) inputs[i] = like_input(&p->inputs[i]);
    nx_status status = nx_program_run(p, inputs, out);
    for (int i = 0; i < p->n_outputs && status == NX_OK; i++) nx_tensor_unref(out[i]);
    for (int i = 0; i < p->n_inputs; i++) nx_tensor_unref(inputs[i]);
}

/* One character or one number becomes another, or a piece goes. */
static void damage(char *text) {
    static const char pieces[] = "0123456789[]{}():=,+. anrf\n";
    size_t n = strlen(text), at = (size_t)below((int)n), gone = (size_t)below(6);
    if (below(4)) {
        while (below(8) && (text[at] < '0' || text[at] > '9')) at = (size_t)below((int)n);
        text[at] = pieces[below(3) ? below(10) : below((int)sizeof pieces - 1)];
    } else {
        if (gone > n - at) gone = n - at;
        memmove(text + at, text + at + gone, n - at - gone + 1);
    }
}

/* Any text is an error with a line, or a program that stays within its memory (the address sanitizer looks on). */
static void test_damaged_texts(void **state) {
    int n = getenv("NARTHEX_TEST_GRAPHS") ? atoi(getenv("NARTHEX_TEST_GRAPHS")) : 100, n_read = 0, n_refused = 0;
    for (int seed = 1; seed <= n; seed++) {
        nx_graph *graph = random_graph((uint64_t)seed);
        nx_program *program, *damaged;
        char *text;
        OK(nx_program_new(graph, NX_CPU, &program));
        OK(nx_program_print(program, &text));
        char *copy = malloc(strlen(text) + 1);
        for (int k = 0; k < 40; k++) {
            strcpy(copy, text);
            for (int left = 1 + below(3); left > 0; left--) damage(copy);
            if (nx_program_parse(copy, &damaged) != NX_OK) {
                if (strncmp(nx_error_message(), "program text, line", 18)) fail_msg("%s\n%s", nx_error_message(), copy);
                n_refused++;
                continue;
            }
            n_read++;
            run_anyhow(damaged);
            nx_program_free(damaged);
        }
        free(copy);
        nx_free(text);
        nx_program_free(program);
        nx_graph_free(graph);
    }
    assert_true(n_refused > n && n_read > n / 10);
}

/* ---- failures -------------------------------------------------------------------------------- */
static nx_status compile_and_run(const nx_graph *graph, nx_tensor *const *in) {
    nx_program *program;
    nx_tensor *out[2] = {0};
    char *text;
    NX_TRY(nx_program_new(graph, NX_CPU, &program));
    nx_status status = nx_program_run(program, in, out);
    if (status == NX_OK) status = nx_program_run(program, in, &out[1]);
    if (status == NX_OK && (status = nx_program_print(program, &text)) == NX_OK) {
        nx_program *again;
        status = nx_program_parse(text, &again);
        if (status == NX_OK) nx_program_free(again);
        nx_free(text);
    }
    nx_tensor_unref(out[0]);
    nx_tensor_unref(out[1]);
    nx_program_free(program);
    return status;
}

static void test_every_allocation_fails_once(void **state) {
    nx_graph *g = line_graph(2, 3, 400);
    nx_tensor *in[3] = {new_tensor(NX_F32, 2, (int64_t[]){2, 3}), new_tensor(NX_F32, 2, (int64_t[]){400, 3}),
                        new_tensor(NX_F32, 1, (int64_t[]){400})};
    nx_alloc_watch(true);
    OK(compile_and_run(g, in));
    int64_t live = nx_alloc_live(), at = 1;
    for (;; at++) {
        nx_alloc_fail_at(at);
        nx_status status = compile_and_run(g, in);
        bool failed = nx_alloc_failed();
        nx_alloc_fail_at(0);
        assert_int_equal(nx_alloc_live(), live);
        if (!failed) break;
        assert_int_equal(status, NX_NO_MEMORY);
    }
    assert_true(at > 10);
    OK(compile_and_run(g, in));
    nx_alloc_watch(false);
    for (int i = 0; i < 3; i++) nx_tensor_unref(in[i]);
    nx_graph_free(g);
}

static int start(void **state) { return nx_op_count() || nx__register_ops() == NX_OK ? 0 : 1; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_sum_of_rows),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_given_results),
        cmocka_unit_test(test_constants_and_written_inputs),
        cmocka_unit_test(test_wrong_strides),
        cmocka_unit_test(test_memory_is_reused),
        cmocka_unit_test(test_planning_is_nearly_linear), cmocka_unit_test(test_many_live_at_once),
        cmocka_unit_test(test_bases),
        cmocka_unit_test(test_draws_in_order), cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_random_graphs), cmocka_unit_test(test_damaged_texts),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
