/* Several threads train and run at once, on the CPU and on the reference accelerator: eager, in both compiled modes,
 * through a session that they share, with streams and random numbers of their own. Numbers are those of one thread.
 * Under the thread sanitizer (make check-hostile) this is where races would show. */
#include "../calls.h"
#include "compile/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include <pthread.h>

#define OK(expr)                                                            \
    do {                                                                    \
        if ((expr) != NX_OK) fail_msg("%s: %s", #expr, nx_error_message()); \
    } while (0)
#define T(t) nx_value_tensor(t)
#define N(node) nx_value_node(node, 0)
enum { THREADS = 4, ROUNDS = 6, ROWS = 24, INNER = 40, COLUMNS = 32, STEPS = 3, SHARED = 7 };

const nx_device_api *narthex_device(void); /* plugins/npu, linked in */
static nx_device npu;
static nx_session *session;                /* all threads run its graph SHARED */
static nx_tensor *shared_weights[2];       /* on the CPU and on npu:0, read by all threads */

/* ---- tensors ------------------------------------------------------------------------------------------ */
static nx_status ramp(nx_device device, int ndim, const int64_t *sizes, nx_tensor **out) {
    nx_tensor *host;
    NX_TRY(nx_tensor_new(NX_F32, ndim, sizes, NX_CPU, &host));
    for (int64_t i = 0; i < host->a.numel; i++) ((float *)host->a.data)[i] = (float)(i % 7 - 3) / 8;
    *out = host;
    if (device.type == 0) return NX_OK;
    nx_status status = nx_tensor_new(NX_F32, ndim, sizes, device, out);
    if (status == NX_OK) status = nx_device_copy(*out, host);
    nx_tensor_unref(host);
    return status;
}

typedef struct parameters { nx_tensor *x, *w, *b; } parameters;

static void drop_parameters(parameters *p) {
    nx_tensor_unref(p->x);
    nx_tensor_unref(p->w);
    nx_tensor_unref(p->b);
}

static nx_status new_parameters(nx_device device, bool requires_grad, parameters *out) {
    *out = (parameters){0};
    NX_TRY(ramp(device, 2, (int64_t[]){ROWS, INNER}, &out->x));
    NX_TRY(ramp(device, 2, (int64_t[]){COLUMNS, INNER}, &out->w));
    NX_TRY(ramp(device, 1, (int64_t[]){COLUMNS}, &out->b));
    NX_TRY(nx_tensor_set_requires_grad(out->w, requires_grad));
    return nx_tensor_set_requires_grad(out->b, requires_grad);
}

/* ---- loss(x, w, b) = (tanh(x @ w.t()) * b + b).sum() --------------------------------------------------- */
static nx_status eager_loss(const parameters *p, nx_tensor **out) {
    nx_tensor *t[5] = {0};
    nx_status status;
    NX_TRY_FAIL(call("aten::t", (nx_value[]){T(p->w)}, &t[0]));
    NX_TRY_FAIL(call("aten::mm", (nx_value[]){T(p->x), T(t[0])}, &t[1]));
    NX_TRY_FAIL(call("aten::tanh", (nx_value[]){T(t[1])}, &t[2]));
    NX_TRY_FAIL(call("aten::mul.Tensor", (nx_value[]){T(t[2]), T(p->b)}, &t[3]));
    NX_TRY_FAIL(call("aten::add.Tensor", (nx_value[]){T(t[3]), T(p->b), nx_value_int(1)}, &t[4]));
    NX_TRY_FAIL(call("aten::sum", (nx_value[]){T(t[4]), NX_VALUE_NONE}, out));
fail:
    for (int i = 0; i < NX_COUNT(t); i++) nx_tensor_unref(t[i]);
    return status;
}

static nx_status node(nx_graph *graph, const char *name, const nx_value *in, nx_node **out) {
    const nx_op *op;
    NX_TRY(nx_op_find(name, &op));
    return nx_graph_call(graph, op, in, out);
}

static nx_status input(nx_graph *graph, const char *name, int ndim, const int64_t *sizes, nx_device device,
                       bool requires_grad, nx_node **out) {
    NX_TRY(nx_graph_input(graph, name, NX_F32, ndim, sizes, device, out));
    return nx_tensor_set_requires_grad((*out)->fakes[0], requires_grad);
}

static nx_status graph_of_loss(nx_device device, bool grad, nx_graph **out) {
    nx_node *x, *w, *b, *t, *mm, *tanh, *scaled, *shifted, *sum;
    nx_graph *graph;
    nx_status status;
    NX_TRY(nx_graph_new(&graph));
    NX_TRY_FAIL(input(graph, "x", 2, (int64_t[]){ROWS, INNER}, device, false, &x));
    NX_TRY_FAIL(input(graph, "w", 2, (int64_t[]){COLUMNS, INNER}, device, grad, &w));
    NX_TRY_FAIL(input(graph, "b", 1, (int64_t[]){COLUMNS}, device, grad, &b));
    NX_TRY_FAIL(node(graph, "aten::t", (nx_value[]){N(w)}, &t));
    NX_TRY_FAIL(node(graph, "aten::mm", (nx_value[]){N(x), N(t)}, &mm));
    NX_TRY_FAIL(node(graph, "aten::tanh", (nx_value[]){N(mm)}, &tanh));
    NX_TRY_FAIL(node(graph, "aten::mul.Tensor", (nx_value[]){N(tanh), N(b)}, &scaled));
    NX_TRY_FAIL(node(graph, "aten::add.Tensor", (nx_value[]){N(scaled), N(b), nx_value_int(1)}, &shifted));
    NX_TRY_FAIL(node(graph, "aten::sum", (nx_value[]){N(shifted), NX_VALUE_NONE}, &sum));
    NX_TRY_FAIL(nx_graph_output(graph, (nx_value[]){N(sum)}, 1));
    *out = graph;
    return NX_OK;
fail:
    nx_graph_free(graph);
    return status;
}

static nx_status compile_loss(nx_device device, nx_mode mode, nx_compiled **out) {
    nx_graph *graph;
    nx_aot *aot;
    NX_TRY(graph_of_loss(device, true, &graph));
    nx_status status = nx_aot_compile(graph, true, &aot);
    nx_graph_free(graph);
    return status == NX_OK ? nx_compiled_new(aot, mode, device, out) : status;
}

/* ---- what a thread does ------------------------------------------------------------------------------- */
static nx_status update(nx_tensor *p) {
    nx_tensor *same = NULL;
    bool before = nx_grad_enabled();
    nx_grad_set_enabled(false);
    nx_value in[] = {T(p), T(nx_tensor_get_grad(p)), nx_value_float(-0.01)};
    nx_status status = call("aten::add_.Tensor", in, &same);
    nx_grad_set_enabled(before);
    nx_tensor_unref(same);
    return status == NX_OK ? nx_tensor_set_grad(p, NULL) : status;
}

/* Three steps; gives the last loss. `compiled` NULL: eager. */
static nx_status train(nx_device device, nx_compiled *compiled, float *out) {
    parameters p;
    nx_tensor *loss = NULL;
    nx_status status;
    NX_TRY_FAIL(new_parameters(device, true, &p));
    for (int i = 0; i < STEPS; i++) {
        if (compiled) NX_TRY_FAIL(nx_compiled_run(compiled, (nx_tensor *[]){p.x, p.w, p.b}, 3, &loss, 1));
        else NX_TRY_FAIL(eager_loss(&p, &loss));
        NX_TRY_FAIL(nx_tensor_backward(loss));
        NX_TRY_FAIL(update(p.w));
        NX_TRY_FAIL(update(p.b));
        NX_TRY_FAIL(item(loss, out));
        nx_tensor_unref(loss);
        loss = NULL;
    }
fail:
    nx_tensor_unref(loss);
    drop_parameters(&p);
    return status;
}

static nx_status train_in(nx_device device, nx_mode mode, float *out) {
    nx_compiled *compiled;
    NX_TRY(compile_loss(device, mode, &compiled));
    nx_status status = train(device, compiled, out);
    nx_compiled_unref(compiled);
    return status;
}

/* Another thread may have the graph: then there is nothing to compare. */
static nx_status run_shared(float *out) {
    parameters p;
    nx_tensor *loss = NULL;
    nx_status status = new_parameters(npu, false, &p);
    if (status == NX_OK) status = nx_session_run(session, SHARED, NULL, (nx_tensor *[]){p.x, p.w, p.b}, 3, &loss, 1);
    bool busy = status == NX_RUNTIME && strstr(nx_error_message(), "run by another thread");
    if (status == NX_OK) status = item(loss, out);
    nx_tensor_unref(loss);
    drop_parameters(&p);
    return busy ? NX_OK : status;
}

/* On a stream of the thread's own, over weights that all threads hold and let go. */
static nx_status on_own_stream(nx_device device, float *out) {
    nx_stream *stream, *before = nx_stream_current(device);
    nx_tensor *twice = NULL, *sum = NULL, *weights = nx_tensor_ref(shared_weights[device.type != 0]);
    nx_status status = nx_stream_new(device, &stream);
    if (status != NX_OK) return status;
    NX_TRY_FAIL(nx_stream_set_current(device, stream));
    NX_TRY_FAIL(call("aten::mul.Tensor", (nx_value[]){T(weights), T(weights)}, &twice));
    NX_TRY_FAIL(call("aten::sum", (nx_value[]){T(twice), NX_VALUE_NONE}, &sum));
    NX_TRY_FAIL(item(sum, out));
    NX_TRY_FAIL(nx_device_synchronize(device));
fail:
    nx_tensor_unref(twice);
    nx_tensor_unref(sum);
    nx_tensor_unref(weights);
    if (nx_stream_set_current(device, before) == NX_OK) nx_stream_free(device, stream);
    return status;
}

/* All threads draw from the device's generator: which numbers a thread gets is not said, that there are some is. */
static nx_status draw(float *out) {
    nx_tensor *t, *same = NULL, *sum = NULL, *finite = NULL;
    float n = 0;
    nx_status status = ramp(npu, 1, (int64_t[]){5000}, &t);
    if (status != NX_OK) return status;
    nx_value in[] = {T(t), nx_value_float(0), nx_value_float(1), NX_VALUE_NONE};
    NX_TRY_FAIL(call("aten::normal_", in, &same));
    NX_TRY_FAIL(call("aten::abs", (nx_value[]){T(t)}, &finite));
    NX_TRY_FAIL(call("aten::sum", (nx_value[]){T(finite), NX_VALUE_NONE}, &sum));
    NX_TRY_FAIL(item(sum, &n));
    *out = n > 3500 && n < 4500; /* 5000 * sqrt(2 / pi) = 3989 */
fail:
    nx_tensor_unref(sum);
    nx_tensor_unref(finite);
    nx_tensor_unref(same);
    nx_tensor_unref(t);
    return status;
}

typedef nx_status job(float *out);
static nx_status eager_cpu(float *out) { return train(NX_CPU, NULL, out); }
static nx_status eager_npu(float *out) { return train(npu, NULL, out); }
static nx_status engine_cpu(float *out) { return train_in(NX_CPU, NX_MODE_MAX_AUTOTUNE, out); }
static nx_status engine_npu(float *out) { return train_in(npu, NX_MODE_MAX_AUTOTUNE, out); }
static nx_status replay_cpu(float *out) { return train_in(NX_CPU, NX_MODE_REDUCE_OVERHEAD, out); }
static nx_status replay_npu(float *out) { return train_in(npu, NX_MODE_REDUCE_OVERHEAD, out); }
static nx_status stream_npu(float *out) { return on_own_stream(npu, out); }
static nx_status stream_cpu(float *out) { return on_own_stream(NX_CPU, out); }
static job *const jobs[] = {eager_cpu,  eager_npu,  engine_cpu, engine_npu, replay_cpu,
                            replay_npu, stream_npu, stream_cpu, run_shared, draw};
static float expected[NX_COUNT(jobs)];

typedef struct worker {
    pthread_t thread;
    int number;
    char failure[512]; /* empty: all was right */
} worker;

static void *work(void *at) {
    worker *w = at;
    for (int i = 0; i < ROUNDS * NX_COUNT(jobs) && !w->failure[0]; i++) {
        int j = (i + 2 * w->number) % NX_COUNT(jobs);
        float got = expected[j];
        if (jobs[j](&got) != NX_OK) snprintf(w->failure, sizeof w->failure, "job %d: %s", j, nx_error_message());
        else if (got != expected[j]) snprintf(w->failure, sizeof w->failure, "job %d: %g, not %g", j, got, expected[j]);
    }
    return NULL;
}

static void test_threads(void **state) {
    worker workers[THREADS] = {0};
    for (int j = 0; j < NX_COUNT(jobs); j++) OK(jobs[j](&expected[j]));
    for (int k = 0; k < THREADS; k++) {
        workers[k].number = k;
        assert_int_equal(pthread_create(&workers[k].thread, NULL, work, &workers[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) pthread_join(workers[k].thread, NULL);
    for (int k = 0; k < THREADS; k++) {
        if (workers[k].failure[0]) fail_msg("thread %d: %s", k, workers[k].failure);
    }
}

/* ---- set-up ------------------------------------------------------------------------------------------- */
static int start(void **state) {
    nx_graph *graph;
    int type;
    OK(nx_device_register(narthex_device(), &type));
    OK(nx_device_parse("npu:0", &npu));
    nx_set_num_threads(2);
    OK(ramp(NX_CPU, 2, (int64_t[]){300, 300}, &shared_weights[0]));
    OK(ramp(npu, 2, (int64_t[]){300, 300}, &shared_weights[1]));
    OK(nx_session_new(npu, &session));
    OK(graph_of_loss(npu, false, &graph));
    OK(nx_session_add_graph(session, SHARED, graph));
    OK(nx_session_compile_graph(session, SHARED));
    nx_graph_free(graph);
    return 0;
}

static int stop(void **state) {
    nx_session_free(session);
    for (int i = 0; i < 2; i++) nx_tensor_unref(shared_weights[i]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, start, stop);
}
