/* Nanoseconds a run of compiled programs on the CPU, result tensors and their freeing included: x + y on 16
 * floats and a chain of 50 additions of 16 floats (as one tile program); then the line (x @ w.t() * b +
 * b).sum() small and large, and the time of compiling x + y and a function of 5000 additions. Budgets: x + y
 * 80 ns; compiling 5000 additions 30 ms with capture, of which this is a part. Beside each: the interpreter,
 * which calls every operator through the dispatcher. Usage: engine [rounds] */
#include "engine/engine.h"

#include <stdlib.h>
#include <time.h>

#define MUST(expr)                                          \
    do {                                                    \
        if ((expr) != NX_OK) {                              \
            fprintf(stderr, "%s\n", nx_error_message());    \
            exit(1);                                        \
        }                                                   \
    } while (0)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- graphs ---------------------------------------------------------------------------------- */
static nx_value call(nx_graph *graph, const char *name, nx_value a, nx_value b) {
    const nx_op *op;
    nx_node *node;
    nx_value in[8] = {a, b};
    MUST(nx_op_find(name, &op));
    for (int i = 2; i < op->def->n_in; i++) in[i] = op->def->params[i].initial;
    MUST(nx_graph_call(graph, op, in, &node));
    return nx_value_node(node, 0);
}

static nx_value input(nx_graph *graph, const char *name, int ndim, const int64_t *sizes) {
    nx_node *node;
    MUST(nx_graph_input(graph, name, NX_F32, ndim, sizes, NX_CPU, &node));
    return nx_value_node(node, 0);
}

static nx_graph *new_graph(void) {
    nx_graph *graph;
    MUST(nx_graph_new(&graph));
    graph->level = NX_GRAPH_FUNCTIONAL;
    return graph;
}

static nx_graph *additions(int n) {
    nx_graph *g = new_graph();
    int64_t size = 16;
    nx_value x = input(g, "x", 1, &size), y = input(g, "y", 1, &size), at = x;
    for (int i = 0; i < n; i++) at = call(g, "aten::add.Tensor", at, y);
    MUST(nx_graph_output(g, &at, 1));
    return g;
}

static nx_graph *line(int64_t rows, int64_t n_in, int64_t n_out) {
    nx_graph *g = new_graph();
    nx_value x = input(g, "x", 2, (int64_t[]){rows, n_in}), w = input(g, "w", 2, (int64_t[]){n_out, n_in}),
             b = input(g, "b", 1, &n_out);
    nx_value mm = call(g, "aten::mm", x, call(g, "aten::t", w, NX_VALUE_NONE));
    nx_value y = call(g, "aten::add.Tensor", call(g, "aten::mul.Tensor", mm, b), b);
    nx_value sum = call(g, "aten::sum", y, NX_VALUE_NONE);
    MUST(nx_graph_output(g, &sum, 1));
    return g;
}

/* ---- timing ---------------------------------------------------------------------------------- */
static void make_inputs(const nx_graph *graph, nx_tensor **in) {
    int i = 0;
    for (const nx_node *node = graph->first; node && node->kind == NX_NODE_PLACEHOLDER;
         node = node->next, i++) {
        const nx_array *a = &node->fakes[0]->a;
        MUST(nx_tensor_new(NX_F32, a->ndim, a->sizes, NX_CPU, &in[i]));
        for (int64_t k = 0; k < a->numel; k++) ((float *)in[i]->a.data)[k] = 0.001f * (float)(k % 100);
    }
}

static void report(const char *what, const nx_graph *graph, int rounds) {
    nx_program *program;
    nx_tensor *in[4], *out = NULL;
    double best[2] = {1e18, 1e18};
    MUST(nx_program_new(graph, NX_CPU, &program));
    make_inputs(graph, in);
    for (int part = 0; part < 10; part++) {
        for (int way = 0; way < 2; way++) {
            int n = rounds / 10 > 0 ? rounds / 10 : 1;
            double start = now();
            for (int r = 0; r < n; r++) {
                out = NULL;
                MUST(way ? nx_graph_run(graph, in, graph->n_inputs, &out, 1)
                         : nx_program_run(program, in, &out));
                nx_tensor_unref(out);
            }
            double each = (now() - start) / n;
            if (each < best[way]) best[way] = each;
        }
    }
    printf("%-44s %12.1f ns   interpreter %12.1f ns\n", what, best[0], best[1]);
    for (int i = 0; i < graph->n_inputs; i++) nx_tensor_unref(in[i]);
    nx_program_free(program);
}

static void report_compile(const char *what, const nx_graph *graph, int rounds) {
    nx_program *program;
    double best = 1e18;
    for (int r = 0; r < rounds; r++) {
        double start = now();
        MUST(nx_program_new(graph, NX_CPU, &program));
        double each = now() - start;
        if (each < best) best = each;
        nx_program_free(program);
    }
    printf("%-44s %12.1f us\n", what, best / 1e3);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000000;
    if (nx_op_count() == 0) MUST(nx__register_ops());
    nx_set_num_threads(1);
    nx_graph *add = additions(1), *chain = additions(50), *long_chain = additions(5000),
             *small = line(2, 3, 4), *large = line(256, 256, 1024);
    report("x + y, 16 floats", add, rounds);
    report("50 additions, 16 floats", chain, rounds / 20);
    report("the line, 2x3 @ 3x4", small, rounds / 4);
    report("the line, 256x256 @ 256x1024", large, rounds / 20000);
    report_compile("compile x + y", add, 1000);
    report_compile("compile the line", small, 1000);
    report_compile("compile 5000 additions", long_chain, 10);
    nx_graph_free(add);
    nx_graph_free(chain);
    nx_graph_free(long_chain);
    nx_graph_free(small);
    nx_graph_free(large);
    return 0;
}
