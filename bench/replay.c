/* Nanoseconds an operator of a recorded chain of 100 additions of 16 floats: replayed back to back and waited for at the
 * end, and waited for at each replay; beside them the same graph interpreted. Budgets: 60 on the CPU, 150 on npu.
 * Usage: replay [rounds] */
#include "replay/replay.h"

#include <stdlib.h>
#include <time.h>

enum { N_OPS = 100 };
const nx_device_api *narthex_device(void); /* plugins/npu, linked in */

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

static nx_graph *chain(nx_device device) {
    const nx_op *add;
    nx_graph *graph;
    nx_node *x, *y, *at;
    int64_t size = 16;
    MUST(nx_op_find("aten::add.Tensor", &add));
    MUST(nx_graph_new(&graph));
    MUST(nx_graph_input(graph, "x", NX_F32, 1, &size, device, &x));
    MUST(nx_graph_input(graph, "y", NX_F32, 1, &size, device, &y));
    at = x;
    for (int i = 0; i < N_OPS; i++) {
        nx_value in[3] = {nx_value_node(at, 0), nx_value_node(y, 0), nx_value_int(1)};
        MUST(nx_graph_call(graph, add, in, &at));
    }
    nx_value result = nx_value_node(at, 0);
    MUST(nx_graph_output(graph, &result, 1));
    return graph;
}

static double time_replay(nx_replay *replay, nx_device device, nx_tensor **in, int rounds, bool wait_each) {
    nx_tensor *out;
    double start = now();
    for (int r = 0; r < rounds; r++) {
        MUST(nx_replay_run(replay, in, &out));
        nx_tensor_unref(out);
        if (wait_each) MUST(nx_device_synchronize(device));
    }
    MUST(nx_device_synchronize(device));
    return (now() - start) / rounds / N_OPS;
}

static double time_interpreter(const nx_graph *graph, nx_device device, nx_tensor **in, int rounds) {
    nx_tensor *out;
    double start = now();
    for (int r = 0; r < rounds; r++) {
        MUST(nx_graph_run(graph, in, 2, &out, 1));
        nx_tensor_unref(out);
    }
    MUST(nx_device_synchronize(device));
    return (now() - start) / rounds / N_OPS;
}

static void measure(nx_device device, int rounds) {
    nx_graph *graph = chain(device);
    nx_replay *replay;
    nx_tensor *in[2], *host;
    int64_t size = 16;
    double recorded = now(), best[3] = {1e9, 1e9, 1e9};
    MUST(nx_replay_new(graph, NULL, device, &replay));
    recorded = now() - recorded;
    MUST(nx_tensor_new(NX_F32, 1, &size, NX_CPU, &host));
    for (int i = 0; i < 16; i++) ((float *)host->a.data)[i] = (float)i;
    for (int i = 0; i < 2; i++) {
        MUST(nx_tensor_new(NX_F32, 1, &size, device, &in[i]));
        MUST(nx_device_copy(in[i], host));
    }
    for (int k = 0; k < 5; k++) {
        double t[3] = {time_replay(replay, device, in, rounds, false),
                       time_replay(replay, device, in, rounds, true),
                       time_interpreter(graph, device, in, rounds / 10 + 1)};
        for (int i = 0; i < 3; i++) best[i] = t[i] < best[i] ? t[i] : best[i];
    }
    printf(
        "%-4s replay %6.1f ns/op, waited each %6.1f ns/op, interpreted %6.1f ns/op, %d launches recorded in %.0f us\n",
        nx_device_type_name(device.type), best[0], best[1], best[2], nx_replay_n_launches(replay),
        recorded / 1000);
    nx_tensor_unref(host);
    for (int i = 0; i < 2; i++) nx_tensor_unref(in[i]);
    nx_replay_free(replay);
    nx_graph_free(graph);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 2000, type;
    MUST(nx_device_register(narthex_device(), &type));
    measure(NX_CPU, rounds);
    measure((nx_device){(int8_t)type, 0}, rounds);
    return 0;
}
