/* Names as FX numbers them, uses that follow every change, the interpreter, the tracer, and damaged texts. */
#include "ir_test.h"

static const nx_op *op(const char *name) {
    const nx_op *found;
    OK(nx_op_find(name, &found));
    return found;
}

static nx_value use(nx_node *node) { return nx_value_node(node, 0); }

static nx_node *input(nx_graph *graph, const char *name) {
    nx_node *node;
    OK(nx_graph_input(graph, name, NX_F32, 2, (int64_t[]){2, 2}, NX_CPU, &node));
    return node;
}

static nx_node *add(nx_graph *graph, nx_node *a, nx_node *b) {
    nx_node *node;
    OK(nx_graph_call(graph, op("aten::add.Tensor"), (nx_value[]){use(a), use(b), nx_value_int(1)}, &node));
    return node;
}

static void test_names(void **state) {
    /* What torch.fx gives for these hints, one after the other. */
    static const char *const pairs[][2] = {
        {"add", "add"}, {"add", "add_1"}, {"sum", "sum_1"}, {"sum", "sum_2"}, {"add_", "add_"},
            {"add_", "add__1"}, {"x_3", "x_3"},
        {"x_3", "x_4"}, {"x", "x"}, {"x", "x_5"}, {"L['x']", "L_x_"}, {"2d", "_2d"}, {"", "_unnamed"},
            {"for", "for_1"}, {"add_1", "add_2"},
    };
    nx_graph *graph;
    nx_node *node;
    OK(nx_graph_new(&graph));
    for (int i = 0; i < NX_COUNT(pairs); i++) {
        OK(nx_graph_append(graph, NX_NODE_GET_ATTR, pairs[i][0], NULL, "t", NULL, 0, &node));
        assert_string_equal(node->name, pairs[i][1]);
        assert_ptr_equal(nx_graph_find(graph, node->name), node);
    }
    nx_graph_free(graph);
}

/* A copy has the names of its original's nodes, and what is added to it gets others. */
static void test_names_of_a_copy(void **state) {
    nx_graph *graph, *copy;
    OK(nx_graph_new(&graph));
    nx_node *x = input(graph, "x"), *a = add(graph, x, x), *b = add(graph, a, x), *node;
    OK(nx_graph_output(graph, (nx_value[]){use(b)}, 1));
    OK(nx_graph_copy(graph, &copy));
    node = copy->first;
    for (const nx_node *from = graph->first; from; from = from->next, node = node->next) {
        assert_string_equal(node->name, from->name);
        assert_ptr_not_equal(node->name, from->name);
        assert_ptr_equal(nx_graph_find(copy, from->name), node);
    }
    assert_null(nx_graph_find(copy, "add_2"));
    assert_null(node);
    nx_node *last = nx_graph_output_node(copy);
    OK(nx_graph_insert_before(last, NX_NODE_GET_ATTR, "add", NULL, "t", NULL, 0, &node));
    assert_string_equal(node->name, "add_2");
    assert_ptr_equal(nx_graph_find(copy, "add_1"), last->args[0].node);
    OK(nx_graph_insert_before(last, NX_NODE_GET_ATTR, "x", NULL, "t", NULL, 0, &node));
    assert_string_equal(node->name, "x_1");
    assert_null(nx_graph_find(graph, "add_2"));
    nx_graph_free(graph);
    nx_node_erase(node);
    assert_null(nx_graph_find(copy, "x_1"));
    OK(nx_graph_insert_before(last, NX_NODE_GET_ATTR, "x", NULL, "t", NULL, 0, &node));
    assert_string_equal(node->name, "x_2");
    OK(nx_graph_verify(copy));
    nx_graph_free(copy);
}

static int n_uses(const nx_node *node) {
    int n = 0;
    for (const nx_use *u = node->uses; u; u = u->next) n++;
    return n;
}

static void test_uses(void **state) {
    nx_graph *graph;
    OK(nx_graph_new(&graph));
    nx_node *x = input(graph, "x"), *y = input(graph, "y"), *a = add(graph, x, x), *b = add(graph, a, x);
    OK(nx_graph_output(graph, (nx_value[]){use(b)}, 1));
    assert_int_equal(n_uses(x), 3);
    OK(nx_node_set_args(a, (nx_value[]){use(x), use(y), nx_value_int(1)}, 3));
    assert_int_equal(n_uses(x), 2);
    assert_int_equal(n_uses(y), 1);
    OK(nx_node_replace_uses(x, y));
    assert_int_equal(n_uses(x), 0);
    assert_int_equal(n_uses(y), 3);
    OK(nx_graph_verify(graph));
    OK(nx_node_replace_uses(a, y));
    nx_node_erase(a);
    assert_int_equal(n_uses(y), 2);
    OK(nx_graph_verify(graph));
    nx_graph *other;
    OK(nx_graph_new(&other));
    nx_node *z = input(other, "z");
    assert_int_equal(nx_node_set_args(b, (nx_value[]){use(z), use(y), nx_value_int(1)}, 3), NX_RUNTIME);
    assert_int_equal(n_uses(y), 2);
    nx_graph_free(other);
    nx_graph_free(graph);
}

static void test_builder_checks(void **state) {
    nx_graph *graph;
    nx_node *node;
    OK(nx_graph_new(&graph));
    nx_node *x = input(graph, "x");
    assert_int_equal(nx_graph_call(graph, op("aten::add.Tensor"),
                                   (nx_value[]){use(x), nx_value_str("y"), nx_value_int(1)}, &node), NX_TYPE);
    assert_int_equal(nx_graph_call(graph, op("aten::view"),
                                   (nx_value[]){use(x), nx_value_ints((int64_t[]){3}, 1)}, &node),
                                       NX_RUNTIME);
    assert_int_equal(graph->n_nodes, 1); /* a call that does not fit leaves nothing behind */
    assert_int_equal(nx_graph_input(graph, "z", NX_F32, 1, (int64_t[]){-1}, NX_CPU, &node), NX_VALUE);
    assert_int_equal(nx_graph_output(graph, (nx_value[]){nx_value_int(1)}, 1), NX_TYPE);
    nx_tensor *out[1], *in[1] = {NULL};
    assert_int_equal(nx_graph_run(graph, in, 1, out, 1), NX_VALUE);
    assert_int_equal(nx_graph_run(graph, in, 0, out, 1), NX_RUNTIME);
    nx_graph_free(graph);
}

/* Records a call as py/capture does, on real tensors. */
static void test_tracer(void **state) {
    nx_thread *thread = nx_thread_get();
    nx_graph *graph;
    nx_tensor *x, *unknown;
    char *text;
    OK(nx_graph_new(&graph));
    nx_node *node = input(graph, "l_x_");
    nx_tracer tracer = {.graph = graph, .key = NX_KEY_AT_CAPTURE};
    OK(nx_tensor_new(NX_F32, 2, (int64_t[]){2, 2}, NX_CPU, &x));
    OK(nx_tensor_new(NX_F32, 2, (int64_t[]){2, 2}, NX_CPU, &unknown));
    fill_random(x, &(uint32_t){1});
    OK(nx_tracer_push(&tracer));
    OK(nx_tracer_bind(&tracer, x, node, 0));
    nx_value product, sum, refused = NX_VALUE_NONE, last;
    thread->target = "operator.matmul";
    thread->source.file = "a.py";
    thread->source.line = 3;
    OK(nx_op_call(op("aten::matmul"), (nx_value[]){nx_value_tensor(x), nx_value_tensor(x)}, &product));
    thread->target = "add_";
    thread->target_is_method = true;
    OK(nx_op_call(op("aten::add_.Tensor"), (nx_value[]){nx_value_tensor(x), nx_value_int(2), nx_value_int(1)},
                  &sum));
    assert_ptr_equal(sum.tensor, x);
    assert_int_equal(nx_op_call(op("aten::t"), (nx_value[]){nx_value_tensor(unknown)}, &refused), NX_RUNTIME);
    thread->target_is_method = false;
    thread->target = NULL;
    OK(nx_op_call(op("aten::mul.Tensor"), (nx_value[]){nx_value_tensor(x), product}, &last));
    thread->source.file = NULL;
    assert_true(nx_tracer_find(&tracer, last.tensor, &refused));
    OK(nx_graph_output(graph, &refused, 1));
    nx_tracer_pop(&tracer);
    assert_null(thread->tracer);
    assert_int_equal(thread->keys_included, 0);
    OK(nx_graph_print(graph, &text));
    assert_string_equal(text, "graph captured {\n"
                              "  %l_x_ = placeholder \"l_x_\" : f32[2, 2] cpu\n"
                              "  %matmul = call operator.matmul aten::matmul(%l_x_, %l_x_) : f32[2, 2] cpu  "
                                  "# a.py:3\n"
                              "  %add_ = method add_ aten::add_.Tensor(%l_x_, 2) : f32[2, 2] cpu  # a.py:3\n"
                              "  %mul = call aten::mul.Tensor(%add_, %matmul) : f32[2, 2] cpu  # a.py:3\n"
                              "  return (%mul)\n"
                              "}\n");
    nx_free(text);
    OK(nx_graph_verify(graph));
    nx_value_drop(&product);
    nx_value_drop(&sum);
    nx_value_drop(&last);
    nx_tensor_unref(x);
    nx_tensor_unref(unknown);
    nx_graph_free(graph);
}

/* An intermediate is freed when its last user has run. */
static void test_frees_early(void **state) {
    nx_graph *graph;
    OK(nx_graph_new(&graph));
    nx_node *at = input(graph, "x");
    for (int i = 0; i < 50; i++) at = add(graph, at, at);
    OK(nx_graph_output(graph, (nx_value[]){use(at)}, 1));
    tensors in = inputs_of(graph, 1), out = {.n = 1};
    int64_t live = nx_alloc_live();
    OK(nx_graph_run(graph, in.at, 1, out.at, 1));
    assert_true(nx_alloc_live() - live <= 2); /* the result: a tensor and its storage */
    drop_tensors(&in);
    drop_tensors(&out);
    nx_graph_free(graph);
}

static const char *const sound =
    "graph captured {\n"
    "  %l_x_ = placeholder \"L_x_\" : f32[2, 2] cpu grad\n"
    "  %l_y_ = placeholder \"L_y_\" : f32[2, 2]{1, 2}+3 cpu\n"
    "  %k = get_attr \"k\" : f32[2] cpu = [0.5, 1e-7]\n"
    "  %h = get_attr \"h\" : bf16[] cpu = [0x3c00]\n"
    "  %t = method t aten::t(%l_x_) : f32[2, 2]{1, 2} cpu\n"
    "  %add = call torch.add aten::add.Tensor(%t, %l_y_, alpha=2.5) : f32[2, 2] cpu  # a.py:3 in f: return "
        "torch.add(x, y)\n"
    "  %sum_1 = method sum aten::sum(%add, dtype=float64) : f64[] cpu\n"
    "  %foo = call \"my thing\\\"x\"(%add, (1, 2.0, None, %k), [1, 2], \"a\\x0ab\", device(cpu))\n"
    "  return (%sum_1, %add)\n"
    "}\n";

/* Bytes and pieces changed at random: an error or a graph that reads back, whatever verify says of it. */
static void test_damaged_texts(void **state) {
    static const char *const pieces[] =
        {"%", "[", ")", "{", "}", "=", ".", "99999999999999999999", "-1", "\"", "\\", "\n", "#", "f32[",
         "aten::t",
                                         "+", "4611686018427387904", "call ", "cpu", "%t", "1e999", "nan",
                                             "((((((((((((((((((", "\x80\xff"};
    uint32_t seed = 1;
    int n_parsed = 0;
    for (int round = 0; round < 4000; round++) {
        char text[4096];
        strcpy(text, sound);
        for (int n = 1 + (int)(draw(&seed) % 3); n > 0; n--) {
            size_t length = strlen(text), at = draw(&seed) % length, cut = draw(&seed) % 6;
            const char *piece = pieces[draw(&seed) % NX_COUNT(pieces)];
            if (cut > length - at) cut = length - at;
            memmove(text + at + strlen(piece), text + at + cut, length - at - cut + 1);
            memcpy(text + at, piece, strlen(piece));
        }
        nx_graph *graph;
        if (nx_graph_parse(text, &graph) != NX_OK) {
            assert_non_null(strstr(nx_error_message(), "graph text, line "));
            continue;
        }
        nx_graph *again;
        char *a, *b;
        n_parsed++;
        OK(nx_graph_print(graph, &a));
        OK(nx_graph_parse(a, &again));
        OK(nx_graph_print(again, &b));
        assert_string_equal(a, b);
        (void)(nx_graph_verify(graph) == NX_OK);
        nx_graph_free(graph);
        nx_graph_free(again);
        nx_free(a);
        nx_free(b);
    }
    assert_true(n_parsed > 20);
}

/* Aliases of n tensors, each found by its place. */
static void test_aliases_are_found_by_place(void **state) {
    enum { N = 600 };
    nx_graph *graph;
    nx_tensor *made[N], *alias;
    nx_node *nodes[N];
    nx_value at;
    OK(nx_graph_new(&graph));
    nx_tracer tracer = {.graph = graph, .key = NX_KEY_AT_TRACE};
    OK(nx_tracer_push(&tracer));
    for (int i = 0; i < N; i++) {
        nodes[i] = input(graph, "x");
        OK(nx_tensor_new(NX_F32, 2, (int64_t[]){2, 2}, NX_CPU, &made[i]));
        OK(nx_tracer_bind(&tracer, made[i], nodes[i], 0));
    }
    for (int i = 0; i < N; i++) {
        OK(nx_tensor_alias(made[i], &alias));
        assert_true(nx_tracer_find(&tracer, alias, &at));
        assert_ptr_equal(at.node, nodes[i]);
        OK(nx_tracer_bind(&tracer, alias, nodes[N - 1], 0)); /* newer than the other one of its place */
        nx_tensor_unref(alias);
        OK(nx_tensor_alias(made[i], &alias));
        assert_true(nx_tracer_find(&tracer, alias, &at));
        assert_ptr_equal(at.node, nodes[N - 1]);
        nx_tensor_unref(alias);
    }
    assert_true(tracer.n_compared >= N && tracer.n_compared < 4 * N);
    nx_tracer_pop(&tracer);
    for (int i = 0; i < N; i++) nx_tensor_unref(made[i]);
    nx_graph_free(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names), cmocka_unit_test(test_names_of_a_copy), cmocka_unit_test(test_uses),
            cmocka_unit_test(test_builder_checks), cmocka_unit_test(test_tracer),
            cmocka_unit_test(test_aliases_are_found_by_place),
        cmocka_unit_test(test_frees_early), cmocka_unit_test(test_damaged_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
