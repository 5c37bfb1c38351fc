/* Narthex from C, without Python: f(x, w, b) = (x @ w.t() * b + b).sum(), its gradients, one training step,
 * the same function as a compiled graph, and that graph as a model file.
 *     ./line            f by eager calls and by the graph engine, compared; gradients; a training step
 *     ./line save FILE  compiles the graph of f and writes it as a model file
 *     ./line run FILE   loads a model file and runs it
 * Build: make, or
 *     cc -std=c11 line.c -I"$NARTHEX/include" -L"$NARTHEX/lib" -lnarthex -Wl,-rpath,"$NARTHEX/lib" -o line
 * where NARTHEX is the folder of the Python package; narthex.include_dir() and narthex.lib_dir() tell. */
#include <narthex/narthex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2, IN = 3, OUT = 4 };

/* A call that must succeed. A larger program would return the status instead. */
static void must(nx_status status) {
    if (status == NX_OK) return;
    fprintf(stderr, "line: %s\n", nx_error_message());
    exit(1);
}

static const nx_op *find(const char *name) {
    const nx_op *op;
    must(nx_op_find(name, &op));
    return op;
}

/* ---- tensors --------------------------------------------------------------------------------- */
/* Row-major float32 with the values from, from + step, ... */
static nx_tensor *ramp(int ndim, const int64_t *sizes, float from, float step) {
    nx_tensor *tensor;
    must(nx_tensor_new(NX_F32, ndim, sizes, NX_CPU, &tensor));
    const nx_array *a = nx_tensor_array(tensor);
    for (int64_t i = 0; i < a->numel; i++) ((float *)a->data)[i] = from + step * (float)i;
    return tensor;
}

typedef struct inputs { nx_tensor *x, *w, *b; } inputs;

static inputs make_inputs(void) {
    return (inputs){
        ramp(2, (int64_t[]){ROWS, IN}, 0.5f, 0.25f),
        ramp(2, (int64_t[]){OUT, IN}, -1.0f, 0.125f),
        ramp(1, (int64_t[]){OUT}, 1.0f, 0.5f),
    };
}

static void free_inputs(inputs in) {
    nx_tensor_unref(in.x);
    nx_tensor_unref(in.w);
    nx_tensor_unref(in.b);
}

static float item(const nx_tensor *scalar) { return *(const float *)nx_tensor_array(scalar)->data; }

static void print_values(const char *name, const nx_tensor *tensor) {
    const nx_array *a = nx_tensor_array(tensor);
    printf("%s", name);
    for (int64_t i = 0; i < a->numel; i++) printf(" %.9g", ((const float *)a->data)[i]);
    printf("\n");
}

/* ---- eager ----------------------------------------------------------------------------------- */
/* One operator with all its arguments in schema order; the result belongs to the caller. */
static nx_tensor *call(const char *op, const nx_value *in) {
    nx_value out[1];
    must(nx_op_call(find(op), in, out));
    return out[0].tensor;
}

static nx_tensor *f_eager(inputs in) {
    nx_tensor *wt = call("aten::t", (nx_value[]){nx_value_tensor(in.w)});
    nx_tensor *mm = call("aten::mm", (nx_value[]){nx_value_tensor(in.x), nx_value_tensor(wt)});
    nx_tensor *scaled = call("aten::mul.Tensor", (nx_value[]){nx_value_tensor(mm), nx_value_tensor(in.b)});
    nx_tensor *shifted = call("aten::add.Tensor",
                              (nx_value[]){nx_value_tensor(scaled), nx_value_tensor(in.b), nx_value_int(1)});
    nx_tensor *sum = call("aten::sum", (nx_value[]){nx_value_tensor(shifted), NX_VALUE_NONE});
    nx_tensor_unref(wt);
    nx_tensor_unref(mm);
    nx_tensor_unref(scaled);
    nx_tensor_unref(shifted);
    return sum;
}

/* Gradients of f, then parameter -= 0.01 * gradient for w and b. */
static void train_step(inputs in) {
    nx_tensor *all[] = {in.x, in.w, in.b};
    static const char *const names[] = {"grad x", "grad w", "grad b"};
    for (int i = 0; i < 3; i++) must(nx_tensor_set_requires_grad(all[i], true));
    nx_tensor *loss = f_eager(in);
    must(nx_tensor_backward(loss));
    for (int i = 0; i < 3; i++) print_values(names[i], nx_tensor_get_grad(all[i]));
    for (int i = 1; i < 3; i++) {
        /* A detached tensor shares the memory, and writing to it is not part of the gradient. */
        nx_tensor *parameter = call("aten::detach", (nx_value[]){nx_value_tensor(all[i])});
        nx_tensor *updated =
            call("aten::add_.Tensor",
                 (nx_value[]){nx_value_tensor(parameter), nx_value_tensor(nx_tensor_get_grad(all[i])),
                              nx_value_float(-0.01)});
        nx_tensor_unref(updated);
        nx_tensor_unref(parameter);
    }
    nx_tensor_unref(loss);
    for (int i = 0; i < 3; i++) must(nx_tensor_set_requires_grad(all[i], false));
    loss = f_eager(in);
    print_values("after a step", loss);
    nx_tensor_unref(loss);
}

/* ---- the graph ------------------------------------------------------------------------------- */
static nx_node *node(nx_graph *graph, const char *op, const nx_value *in) {
    nx_node *made;
    must(nx_graph_call(graph, find(op), in, &made));
    return made;
}

static nx_graph *f_graph(void) {
    nx_graph *graph;
    nx_node *x, *w, *b;
    must(nx_graph_new(&graph));
    must(nx_graph_input(graph, "x", NX_F32, 2, (int64_t[]){ROWS, IN}, NX_CPU, &x));
    must(nx_graph_input(graph, "w", NX_F32, 2, (int64_t[]){OUT, IN}, NX_CPU, &w));
    must(nx_graph_input(graph, "b", NX_F32, 1, (int64_t[]){OUT}, NX_CPU, &b));
    nx_node *wt = node(graph, "aten::t", (nx_value[]){nx_value_node(w, 0)});
    nx_node *mm = node(graph, "aten::mm", (nx_value[]){nx_value_node(x, 0), nx_value_node(wt, 0)});
    nx_node *scaled =
        node(graph, "aten::mul.Tensor", (nx_value[]){nx_value_node(mm, 0), nx_value_node(b, 0)});
    nx_node *shifted = node(graph, "aten::add.Tensor",
                            (nx_value[]){nx_value_node(scaled, 0), nx_value_node(b, 0), nx_value_int(1)});
    nx_node *sum = node(graph, "aten::sum", (nx_value[]){nx_value_node(shifted, 0), NX_VALUE_NONE});
    must(nx_graph_output(graph, (nx_value[]){nx_value_node(sum, 0)}, 1));
    return graph;
}

static nx_session *compile(void) {
    nx_session *session;
    nx_graph *graph = f_graph();
    must(nx_session_new(NX_CPU, &session));
    must(nx_session_add_graph(session, 1, graph));
    must(nx_session_compile_graph(session, 1));
    nx_graph_free(graph);
    return session;
}

static float run(nx_session *session, inputs in) {
    nx_tensor *given[] = {in.x, in.w, in.b}, *out[] = {NULL};
    must(nx_session_run(session, 1, NULL, given, 3, out, 1));
    float value = item(out[0]);
    nx_tensor_unref(out[0]);
    return value;
}

/* ---- the three programs ---------------------------------------------------------------------- */
static int demo(void) {
    inputs in = make_inputs();
    nx_tensor *eager = f_eager(in);
    nx_session *session = compile();
    nx_summary summary = {.size = sizeof summary};
    must(nx_session_get_summary(session, 1, &summary));
    float compiled = run(session, in);
    printf("eager %.9g\n", item(eager));
    printf("engine %.9g\n", compiled);
    printf("launches %d tile_programs %d feature_bytes %zu\n", summary.n_launches, summary.n_tile_programs,
           summary.feature_bytes);
    bool agree = item(eager) == compiled;
    printf("%s\n", agree ? "agree" : "DIFFER");
    train_step(in);
    nx_session_free(session);
    nx_tensor_unref(eager);
    free_inputs(in);
    return agree ? 0 : 1;
}

static int save(const char *path) {
    nx_session *session = compile();
    must(nx_session_save(session, 1, path));
    printf("saved %s\n", path);
    nx_session_free(session);
    return 0;
}

static int load(const char *path) {
    nx_session *session;
    inputs in = make_inputs();
    must(nx_session_new(NX_CPU, &session));
    must(nx_session_load(session, 1, path));
    printf("loaded %.9g\n", run(session, in));
    nx_session_free(session);
    free_inputs(in);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 1) return demo();
    if (argc == 3 && strcmp(argv[1], "save") == 0) return save(argv[2]);
    if (argc == 3 && strcmp(argv[1], "run") == 0) return load(argv[2]);
    fprintf(stderr, "use: %s [save FILE | run FILE]\n", argv[0]);
    return 2;
}
