/* Random captured programs, with views, writes, random numbers and reductions: what is compiled must agree
 * with the
 * program run eagerly, to the bit (the numbers are small and whole), in results, written inputs and
 * gradients; and
 * fusing must not change the meaning. Each program is named by its seed:  test_pass_random SEED  runs one
 * and prints it. */
#include "../ir/ir_test.h"

enum { N_PROGRAMS = 300, MAX_NODES = 24 };

static uint32_t running; /* seed, for the message of a failure */
static int n_compiled, n_joint, n_written;

typedef struct maker {
    uint32_t seed;
    nx_graph *graph;
    nx_node *at[MAX_NODES + 8];
    int n;
    bool writes;                 /* with gradients eager mode refuses writes through views */
} maker;

static int pick(maker *m, int n) { return (int)(draw(&m->seed) % (uint32_t)n); }
static nx_value node(nx_node *n) { return nx_value_node(n, 0); }
static nx_array *array(const maker *m, int i) { return &m->at[i]->fakes[0]->a; }

static bool call(maker *m, const char *name, const nx_value *given, int n) {
    const nx_op *op;
    nx_value in[16];
    OK(nx_op_find(name, &op));
    for (int i = 0; i < op->def->n_in; i++) in[i] = i < n ? given[i] : op->def->params[i].initial;
    nx_status status = nx_graph_call(m->graph, op, in, &m->at[m->n]);
    m->n += status == NX_OK;
    return status == NX_OK; /* sizes may not fit: then the step is left out */
}

static void step(maker *m) {
    static const char *const point[] = {"aten::add.Tensor", "aten::mul.Tensor"};
    static const char *const written[] = {"aten::add_.Tensor", "aten::mul_.Tensor"};
    int a = pick(m, m->n), b = pick(m, m->n), kind = pick(m, 14);
    nx_value two[] = {node(m->at[a]), node(m->at[b])};
    nx_array *x = array(m, a);
    int64_t flat[] = {x->numel}, back[] = {2, 3}, dim[] = {pick(m, 2) - 1};
    if (kind < 4) call(m, point[kind & 1], two, 2);
    else if (kind == 4) call(m, point[pick(m, 2)], (nx_value[]){two[0], nx_value_int(pick(m, 3) - 1)}, 2);
    else if (kind == 5) call(m, "aten::t", two, 1);
    else if (kind == 6) call(m, "aten::view",
                             (nx_value[]){two[0], nx_value_ints(x->ndim == 1 ? back : flat, x->ndim == 1 ? 2
                                                                : 1)}, 2);
    else if (kind == 7) call(m, "aten::matmul", two, 2);
    else if (kind == 8) call(m, "aten::sum.dim_IntList",
                             (nx_value[]){two[0], nx_value_ints(dim, 1), nx_value_bool(pick(m, 2))}, 3);
    else if (kind == 9) call(m, "aten::sum", two, 1);
    else if (kind == 10) call(m, "aten::clone", two, 1);
    else if (kind == 11) call(m, "aten::detach", two, 1);
    else if (m->writes && kind == 12) call(m, written[pick(m, 2)], two, 2);
    else if (m->writes) call(m, "aten::copy_", two, 2);
}

static nx_graph *make(uint32_t seed, bool grads) {
    maker m = {.seed = seed, .writes = !grads};
    static const int64_t shapes[][2] = {{2, 3}, {3, 2}, {3, 3}, {3, 0}};
    OK(nx_graph_new(&m.graph));
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        OK(nx_graph_input(m.graph, name, NX_F32, i == 3 ? 1 : 2, shapes[i], NX_CPU, &m.at[i]));
        if (grads && pick(&m, 3)) OK(nx_tensor_set_requires_grad(m.at[i]->fakes[0], true));
        m.n++;
    }
    int n = 3 + pick(&m, MAX_NODES - 4);
    while (m.n < n + 4 && m.n < MAX_NODES) {
        int before = m.n;
        for (int tries = 0; m.n == before && tries < 20; tries++) step(&m);
        if (m.n == before) break;
    }
    nx_value results[4];
    int n_results = 1 + pick(&m, 4);
    for (int i = 0; i < n_results; i++) results[i] = node(m.at[m.n - 1 - pick(&m, m.n < 8 ? m.n : 8)]);
    OK(nx_graph_output(m.graph, results, n_results));
    return m.graph;
}

static void check(uint32_t seed, bool grads, bool print) {
    running = seed;
    nx_graph *graph = make(seed, grads);
    nx_aot *aot;
    char *text;
    nx_regions regions;
    if (print) {
        OK(nx_graph_print(graph, &text));
        fputs(text, stderr); /* print_message cuts */
        nx_free(text);
    }
    nx_status status = nx_aot_compile(graph, true, &aot);
    if (status != NX_OK && status != NX_NOT_IMPLEMENTED) fail_msg("seed %u: %s", seed, nx_error_message());
    if (status == NX_OK) {
        n_compiled++;
        n_joint += aot->joint != NULL;
        n_written += aot->n_mutated > 0;
        assert_compiled_meaning(graph, aot);
        OK(nx_pass_fuse(aot->forward, &regions));
        nx_regions_free(&regions);
        OK(nx_graph_verify(aot->forward));
        if (aot->backward) {
            OK(nx_pass_fuse(aot->backward, &regions));
            nx_regions_free(&regions);
            OK(nx_graph_verify(aot->backward));
        }
        assert_compiled_meaning(graph, aot);
        nx_aot_free(aot);
    }
    nx_graph_free(graph);
}

static uint32_t only;
static void test_writes(void **state) {
    for (uint32_t seed = 1; seed <= N_PROGRAMS; seed++) check(seed, false, false);
    /* the programs are worth something */
    assert_true(n_compiled > N_PROGRAMS / 2 && n_written > N_PROGRAMS / 8);
}
static void test_gradients(void **state) {
    for (uint32_t seed = 1; seed <= N_PROGRAMS; seed++) check(seed, true, false);
    assert_true(n_joint > N_PROGRAMS / 2);
}
static int name_seed(void **state) {
    if (running) print_message("last seed: %u\n", running);
    return 0;
}
static void test_one(void **state) {
    check(only, false, true);
    check(only, true, true);
}

int main(int argc, char **argv) {
    const struct CMUnitTest all[] = {cmocka_unit_test_teardown(test_writes, name_seed),
                                    cmocka_unit_test_teardown(test_gradients, name_seed)};
    const struct CMUnitTest one[] = {cmocka_unit_test(test_one)};
    nx_flag.verify = true;
    if (argc > 1) only = (uint32_t)strtoul(argv[1], NULL, 10);
    return argc > 1 ? cmocka_run_group_tests(one, NULL, NULL) : cmocka_run_group_tests(all, NULL, NULL);
}
