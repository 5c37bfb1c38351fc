/* Measuring: choices are made, kept in the file, found again, and passed over where they are another machine's or make no sense;
 * results keep their bits, and nothing outside of the program hears of it. */
#include "engine_test.h"

enum { ROWS = 200, COLUMNS = 3000 };
static char folder[] = P_tmpdir "/narthex-measure-XXXXXX", path[64];

static nx_value input(nx_graph *g, const char *name, nx_dtype dtype, int ndim, const int64_t *sizes) {
    nx_node *node;
    OK(nx_graph_input(g, name, dtype, ndim, sizes, NX_CPU, &node));
    return nx_value_node(node, 0);
}

/* (tanh(x) * x + 1).sum(-1): one tile program with a fold; exp(x) * x: one without. */
static nx_graph *make_graph(void) {
    nx_graph *g;
    int64_t dim = -1;
    OK(nx_graph_new(&g));
    g->level = NX_GRAPH_FUNCTIONAL;
    nx_value x = input(g, "x", NX_F32, 2, (int64_t[]){ROWS, COLUMNS});
    nx_value product = CALL(g, "aten::mul.Tensor", CALL(g, "aten::tanh", x), x);
    nx_value y = CALL(g, "aten::add.Scalar", product, nx_value_float(1), nx_value_int(1));
    nx_value sum = CALL(g, "aten::sum.dim_IntList", y, nx_value_ints(&dim, 1), nx_value_bool(false));
    nx_value other = CALL(g, "aten::mul.Tensor", CALL(g, "aten::exp", x), x);
    OK(nx_graph_output(g, (nx_value[]){sum, other}, 2));
    return g;
}

static nx_program *make_program(void) {
    nx_graph *g = make_graph();
    nx_program *p;
    OK(nx_program_new(g, NX_CPU, &p));
    nx_graph_free(g);
    assert_true(p->n_tile_programs > 0);
    return p;
}

static nx_program *measured_program(void) {
    nx_program *p = make_program();
    OK(nx_program_measure(p));
    assert_non_null(p->notes);
    return p;
}

static int first_tile(const nx_program *p) {
    for (int i = 0; i < p->steps.n; i++) {
        if (p->steps.at[i].tile) return i;
    }
    return -1;
}
static int elements_of(const nx_program *p) { return p->steps.at[first_tile(p)].tile->elements; }

static int count_kept(const nx_program *p) {
    int n = 0;
    for (int i = 0; i < p->steps.n; i++) n += p->notes[i].kept;
    return n;
}

static void run(nx_program *p, nx_tensor **out) {
    nx_tensor *x;
    OK(nx_tensor_new(NX_F32, 2, (int64_t[]){ROWS, COLUMNS}, NX_CPU, &x));
    for (int64_t i = 0; i < x->a.numel; i++) ((float *)x->a.data)[i] = (float)(i % 211 - 105) / 64;
    out[0] = out[1] = NULL;
    OK(nx_program_run(p, &x, out));
    nx_tensor_unref(x);
}

static void set_choices(nx_program *p, int elements) {
    for (int i = 0; i < p->steps.n; i++) {
        if (p->steps.at[i].tile) ((nx__tile *)p->steps.at[i].tile)->elements = elements;
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */
static void test_every_choice_gives_the_same_bits(void **state) {
    nx_program *rules = make_program(), *p = measured_program();
    nx_tensor *a[2], *b[2];
    run(rules, a);
    for (int elements = 128; elements <= 2048; elements *= 2) {
        if (elements > 128) set_choices(p, elements); /* first: what was measured */
        run(p, b);
        for (int i = 0; i < 2; i++) {
            assert_memory_equal(a[i]->a.data, b[i]->a.data, 4 * (size_t)a[i]->a.numel);
            nx_tensor_unref(b[i]);
        }
    }
    for (int i = 0; i < 2; i++) nx_tensor_unref(a[i]);
    for (int i = 0; i < p->steps.n; i++) assert_true(p->notes[i].ns > 0 && p->notes[i].rule_ns >= p->notes[i].ns);
    nx_program_free(rules);
    nx_program_free(p);
}

static void test_report(void **state) {
    nx_program *p = make_program();
    char *text;
    OK(nx_program_report(p, &text));
    assert_null(text);
    OK(nx_program_measure(p));
    OK(nx_program_report(p, &text));
    assert_int_equal(strncmp(text, "measured on ", 12), 0);
    assert_non_null(strstr(text, "GFLOP/s\n  0: "));
    assert_non_null(strstr(text, "aten::tanh + aten::mul.Tensor"));
    assert_non_null(strstr(text, "% of the roofline\n"));
    nx_free(text);
    nx_program_free(p);
}

/* The lines of the file, every choice of a tile replaced. */
static void rewrite(const char *choice) {
    char lines[64][128];
    int n = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (n < 64 && fgets(lines[n], sizeof lines[n], file)) n++;
    fclose(file);
    file = fopen(path, "w");
    fputs("what is no line\n\xff\xfe\nffffffffffffffff 9\n", file);
    for (int i = 0; i < n; i++) {
        char key[17], own[32], ns[32];
        unsigned long long number;
        if (sscanf(lines[i], "%16s %31s %31s", key, own, ns) != 3 || sscanf(key, "%llx", &number) != 1) continue;
        fprintf(file, "%s %s %s %s\n", key, strcmp(own, "0") == 0 ? own : choice, ns, ns);
    }
    fclose(file);
}

static void test_kept_in_the_file(void **state) {
    nx_flag.cache = folder;
    nx_program *p = measured_program();
    assert_int_equal(count_kept(p), 0);
    nx_program_free(p);
    static const char *const choices[] = {"256", "4096", "300", "8192", "-512", "99999999999999999999"};
    static const int kept[] = {256, 4096, 0, 0, 0, 0};
    for (int i = 0; i < NX_COUNT(choices); i++) {
        rewrite(choices[i]);
        p = measured_program();
        assert_int_equal(count_kept(p) == p->steps.n, kept[i] != 0);
        if (kept[i]) assert_int_equal(elements_of(p), kept[i]);
        nx_program_free(p);
    }
    unlink(path);
    nx_flag.cache = "0";
}

static void test_another_machine(void **state) {
    int threads = nx_num_threads();
    nx_flag.cache = folder;
    nx_program *p = measured_program();
    nx_program_free(p);
    nx_set_num_threads(threads == 3 ? 2 : 3);
    p = measured_program();
    assert_int_equal(count_kept(p), 0);
    nx_program_free(p);
    nx_set_num_threads(threads);
    p = measured_program();
    assert_int_equal(count_kept(p), p->steps.n);
    nx_program_free(p);
    unlink(path);
    nx_flag.cache = "/proc/no/such/folder"; /* nowhere to keep it: measured all the same */
    p = measured_program();
    nx_program_free(p);
    nx_flag.cache = "0";
}

static void test_random_numbers_stay(void **state) {
    nx_graph *g;
    nx_program *p;
    OK(nx_graph_new(&g));
    g->level = NX_GRAPH_FUNCTIONAL;
    nx_value x = input(g, "x", NX_F32, 1, (int64_t[]){1000});
    nx_value y = CALL(g, "aten::native_dropout", x, nx_value_float(0.5), nx_value_bool(true));
    OK(nx_graph_output(g, &y, 1));
    OK(nx_program_new(g, NX_CPU, &p));
    nx_tensor *ones, *drawn[2] = {NULL};
    OK(nx_tensor_new(NX_F32, 1, (int64_t[]){1000}, NX_CPU, &ones));
    for (int i = 0; i < 1000; i++) ((float *)ones->a.data)[i] = 1;
    for (int k = 0; k < 2; k++) {
        nx_manual_seed(7);
        if (k) OK(nx_program_measure(p));
        OK(nx_program_run(p, &ones, &drawn[k]));
    }
    assert_memory_equal(drawn[0]->a.data, drawn[1]->a.data, 4 * 1000);
    for (int k = 0; k < 2; k++) nx_tensor_unref(drawn[k]);
    nx_tensor_unref(ones);
    nx_program_free(p);
    nx_graph_free(g);
}

static void test_inputs_that_are_not_taken(void **state) {
    nx_graph *g;
    nx_program *p;
    OK(nx_graph_new(&g));
    g->level = NX_GRAPH_FUNCTIONAL;
    nx_value table = input(g, "table", NX_F32, 2, (int64_t[]){0, 4}), at = input(g, "at", NX_I64, 1, (int64_t[]){3});
    nx_value y = CALL(g, "aten::embedding", table, at);
    OK(nx_graph_output(g, &y, 1));
    OK(nx_program_new(g, NX_CPU, &p));
    OK(nx_program_measure(p)); /* no row is there: the rules hold */
    assert_null(p->notes);
    nx_program_free(p);
    nx_graph_free(g);
}

static void test_every_allocation_fails_once(void **state) {
    nx_program *p = measured_program();
    nx_program_free(p);
    nx_alloc_watch(true);
    int64_t live = nx_alloc_live();
    for (int64_t at = 1;; at++) {
        p = make_program();
        nx_alloc_fail_at(at);
        nx_status status = nx_program_measure(p);
        bool failed = nx_alloc_failed();
        nx_alloc_fail_at(0);
        nx_program_free(p);
        assert_int_equal(nx_alloc_live(), live);
        if (!failed) break;
        assert_true(status == NX_NO_MEMORY);
    }
    nx_alloc_watch(false);
}

static int start(void **state) {
    if (!nx_op_count() && nx__register_ops() != NX_OK) return 1;
    if (mkdtemp(folder) == NULL) return 1;
    snprintf(path, sizeof path, "%s/measured", folder);
    nx_flag.cache = "0";
    return 0;
}

static int end(void **state) { return rmdir(folder); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_choice_gives_the_same_bits), cmocka_unit_test(test_report),
        cmocka_unit_test(test_kept_in_the_file),                 cmocka_unit_test(test_another_machine),
        cmocka_unit_test(test_random_numbers_stay),              cmocka_unit_test(test_inputs_that_are_not_taken),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, start, end);
}
