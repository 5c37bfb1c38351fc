/* One model file for every batch and length, without Python: a layer over the elements of sequences, summed over the length.
 *     ./sizes MODEL
 * Where MODEL is not there, it is made: a graph whose sizes are open is built and saved. A session loads it and runs it with
 * batches of 1, 3 and 8 and two lengths, each in memory of this program; weights lie in one place for all. Prints a line a run:
 * what its plan needs, and the sum of its results. A model that Python wrote, from float32 (batch, length, 8) to one tensor,
 * runs as well. Build: make. */
#include <narthex/narthex.h>
#include <stdio.h>
#include <stdlib.h>

enum { GRAPH = 1, WIDTH = 8, OUT = 4 };

/* A call that must succeed. A larger program would return the status instead. */
static void must(nx_status status) {
    if (status == NX_OK) return;
    fprintf(stderr, "sizes: %s\n", nx_error_message());
    exit(1);
}

static void *must_have(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "sizes: no memory\n");
    exit(1);
}

/* A call of an operator in the graph, with all its arguments in schema order (ops.txt). */
static nx_value call(nx_graph *graph, const char *name, const nx_value *in) {
    const nx_op *op;
    nx_node *node;
    must(nx_op_find(name, &op));
    must(nx_graph_call(graph, op, in, &node));
    return nx_value_node(node, 0);
}

/* x (batch, length, 8) -> tanh(x * 0.5).sum over 2, of every group of two: view(batch * length, 4, 2).sum(2), then over the length. */
static void write_model(const char *path) {
    nx_graph *graph;
    nx_node *x, *batch, *length, *rows;
    nx_session *session;
    nx_value no = nx_value_bool(false), none = NX_VALUE_NONE;
    must(nx_graph_new(&graph));
    must(nx_graph_input(graph, "x", NX_F32, 3, (int64_t[]){2, 5, WIDTH}, NX_CPU, &x));
    must(nx_graph_open_size(graph, x, 0, 1, -1));
    must(nx_graph_open_size(graph, x, 1, 1, 512));
    must(nx_graph_size(graph, nx_value_node(x, 0), 0, &batch));
    must(nx_graph_size(graph, nx_value_node(x, 0), 1, &length));
    must(nx_graph_compute(graph, "mul", (nx_value[]){nx_value_node(batch, 0), nx_value_node(length, 0)}, &rows));
    nx_value pairs = nx_value_list((nx_value[]){nx_value_node(rows, 0), nx_value_int(OUT), nx_value_int(WIDTH / OUT)}, 3);
    nx_value whole = nx_value_list((nx_value[]){nx_value_node(batch, 0), nx_value_node(length, 0), nx_value_int(OUT)}, 3);
    nx_value half = call(graph, "aten::mul.Scalar", (nx_value[]){nx_value_node(x, 0), nx_value_float(0.5)});
    nx_value flat = call(graph, "aten::view", (nx_value[]){call(graph, "aten::tanh", (nx_value[]){half}), pairs});
    nx_value sums = call(graph, "aten::sum.dim_IntList", (nx_value[]){flat, nx_value_ints((int64_t[]){2}, 1), no, none});
    nx_value back = call(graph, "aten::view", (nx_value[]){sums, whole});
    nx_value y = call(graph, "aten::sum.dim_IntList", (nx_value[]){back, nx_value_ints((int64_t[]){1}, 1), no, none});
    must(nx_graph_output(graph, &y, 1));
    must(nx_session_new(NX_CPU, &session));
    must(nx_session_add_graph(session, GRAPH, graph));
    must(nx_session_compile_graph(session, GRAPH));
    must(nx_session_save(session, GRAPH, path));
    nx_session_free(session);
    nx_graph_free(graph);
}

/* The largest sizes tell what memory all runs need at most. */
static void take_memory(nx_session *session, int64_t batch, int64_t length, void **weights, void **features) {
    nx_summary most = {.size = sizeof most};
    int64_t sizes[] = {batch, length, WIDTH};
    must(nx_session_get_summary_for(session, GRAPH, (const int64_t *const[]){sizes}, 1, &most));
    *weights = must_have(aligned_alloc(64, (most.const_bytes / 64 + 1) * 64));
    *features = must_have(aligned_alloc(64, (most.feature_bytes / 64 + 1) * 64));
    must(nx_session_set_const_base(session, GRAPH, *weights, most.const_bytes));
    must(nx_session_update_feature_base(session, GRAPH, *features, most.feature_bytes));
}

static void run(nx_session *session, int64_t batch, int64_t length) {
    nx_tensor *x, *y = NULL;
    nx_summary summary = {.size = sizeof summary};
    double sum = 0;
    must(nx_tensor_new(NX_F32, 3, (int64_t[]){batch, length, WIDTH}, NX_CPU, &x));
    const nx_array *a = nx_tensor_array(x);
    for (int64_t i = 0; i < a->numel; i++) ((float *)a->data)[i] = (float)(i % 13 - 6) / 8;
    must(nx_session_run(session, GRAPH, NULL, &x, 1, &y, 1));
    must(nx_session_get_summary(session, GRAPH, &summary));
    const nx_array *b = nx_tensor_array(y);
    for (int64_t i = 0; i < b->numel; i++) sum += ((const float *)b->data)[i];
    printf("batch %lld, length %lld: %lld results, sum %.5f", (long long)batch, (long long)length, (long long)b->numel, sum);
    printf("  (%d launches, %zu bytes of weights, %zu of intermediates)\n", summary.n_launches, summary.const_bytes, summary.feature_bytes);
    nx_tensor_unref(x);
    nx_tensor_unref(y);
}

int main(int argc, char **argv) {
    static const int64_t batches[] = {1, 3, 8}, lengths[] = {5, 20};
    nx_session *session;
    void *weights, *features;
    if (argc != 2) {
        fprintf(stderr, "use: %s MODEL (made where it is not there)\n", argv[0]);
        return 2;
    }
    FILE *there = fopen(argv[1], "rb");
    if (there) fclose(there);
    else write_model(argv[1]);
    must(nx_session_new(NX_CPU, &session));
    must(nx_session_load(session, GRAPH, argv[1]));
    take_memory(session, batches[2], lengths[1], &weights, &features);
    for (int b = 0; b < 3; b++) {
        for (int l = 0; l < 2; l++) run(session, batches[b], lengths[l]);
    }
    nx_session_free(session);
    free(weights);
    free(features);
    return 0;
}
