/* The user wants to stop (nx_poll): long work ends between its parts as if a part had failed, nothing is lost, and the
 * next run is right. Every poll of a run is the one that stops it once. */
#include "../calls.h"
#include "compile/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <time.h>

#define OK(expr)                                                            \
    do {                                                                    \
        if ((expr) != NX_OK) fail_msg("%s: %s", #expr, nx_error_message()); \
    } while (0)
#define T(t) nx_value_tensor(t)
#define N(node) nx_value_node(node, 0)
enum { ROWS = 300, COLUMNS = 250, LAYERS = 4 };

const nx_device_api *narthex_device(void); /* plugins/npu, linked in */
static nx_device npu;
static int64_t polls, stop_at; /* stop_at 0: never */

static nx_status poll(void) {
    polls++;
    return polls == stop_at ? nx_fail(NX_PYTHON, "stopped") : NX_OK;
}

static nx_tensor *ramp(nx_device device, bool requires_grad) {
    nx_tensor *host, *t;
    int64_t sizes[] = {ROWS, COLUMNS};
    OK(nx_tensor_new(NX_F32, 2, sizes, NX_CPU, &host));
    for (int64_t i = 0; i < host->a.numel; i++) ((float *)host->a.data)[i] = (float)(i % 7 - 3) / 4;
    if (device.type == 0) {
        t = host;
    } else {
        OK(nx_tensor_new(NX_F32, 2, sizes, device, &t));
        OK(nx_device_copy(t, host));
        nx_tensor_unref(host);
    }
    OK(nx_tensor_set_requires_grad(t, requires_grad));
    return t;
}

static float number(nx_tensor *tensor) {
    float value;
    OK(item(tensor, &value));
    return value;
}

/* ---- loss(x) = sum(cumsum(tanh(x) * x, 0) ...), in layers that fusing keeps apart ------------------------ */
static nx_status eager_loss(nx_tensor *x, nx_tensor **out) {
    nx_tensor *now = nx_tensor_ref(x), *next;
    nx_status status = NX_OK;
    for (int i = 0; i < LAYERS && status == NX_OK; i++) {
        nx_tensor *tanh = NULL;
        next = NULL;
        status = call("aten::tanh", (nx_value[]){T(now)}, &tanh);
        if (status == NX_OK)
            status = call("aten::_softmax", (nx_value[]){T(tanh), nx_value_int(1), nx_value_bool(false)}, &next);
        nx_tensor_unref(tanh);
        nx_tensor_unref(now);
        now = next;
    }
    if (status == NX_OK) status = call("aten::mul.Tensor", (nx_value[]){T(now), T(x)}, &next);
    nx_tensor_unref(now);
    if (status != NX_OK) return status;
    status = call("aten::sum", (nx_value[]){T(next), NX_VALUE_NONE}, out);
    nx_tensor_unref(next);
    return status;
}

static nx_compiled *compile_loss(nx_device device, nx_mode mode) {
    nx_graph *graph;
    nx_node *x, *now, *sum;
    nx_aot *aot;
    nx_compiled *compiled;
    OK(nx_graph_new(&graph));
    OK(nx_graph_input(graph, "x", NX_F32, 2, (int64_t[]){ROWS, COLUMNS}, device, &x));
    OK(nx_tensor_set_requires_grad(x->fakes[0], true));
    now = x;
    for (int i = 0; i < LAYERS; i++) {
        OK(nx_graph_call(graph, nx_op_get("aten::tanh"), (nx_value[]){N(now)}, &now));
        OK(nx_graph_call(graph, nx_op_get("aten::_softmax"),
                         (nx_value[]){N(now), nx_value_int(1), nx_value_bool(false)}, &now));
    }
    OK(nx_graph_call(graph, nx_op_get("aten::mul.Tensor"), (nx_value[]){N(now), N(x)}, &now));
    OK(nx_graph_call(graph, nx_op_get("aten::sum"), (nx_value[]){N(now), NX_VALUE_NONE}, &sum));
    OK(nx_graph_output(graph, (nx_value[]){N(sum)}, 1));
    OK(nx_aot_compile(graph, true, &aot));
    nx_graph_free(graph);
    OK(nx_compiled_new(aot, mode, device, &compiled));
    return compiled;
}

/* ---- every poll stops the run once ------------------------------------------------------------------------ */
typedef struct numbers { float loss, grad; } numbers;

static nx_status train(nx_compiled *compiled, nx_tensor *x, numbers *out) {
    nx_tensor *loss = NULL, *sum = NULL;
    nx_status status = compiled ? nx_compiled_run(compiled, &x, 1, &loss, 1) : eager_loss(x, &loss);
    if (status == NX_OK) status = nx_tensor_backward(loss);
    if (status == NX_OK) {
        nx_value in[] = {T(nx_tensor_get_grad(x)), NX_VALUE_NONE};
        OK(call("aten::sum", in, &sum));
        *out = (numbers){number(loss), number(sum)};
    }
    nx_tensor_unref(sum);
    nx_tensor_unref(loss);
    OK(nx_tensor_set_grad(x, NULL));
    return status;
}

static void stop_at_every_poll(nx_device device, nx_compiled *compiled, int least) {
    nx_tensor *x = ramp(device, true);
    numbers expected, got;
    int64_t n = 0;
    nx_alloc_watch(true);
    for (int i = 0; i < 2; i++) OK(train(compiled, x, &expected)); /* the first makes the backward */
    OK(nx_device_synchronize(device));
    int64_t live = nx_alloc_live();
    nx_set_block_hooks(NULL, NULL, poll);
    for (bool stopped = true; stopped; n += stopped) {
        polls = 0;
        stop_at = n + 1;
        nx_status status = train(compiled, x, &got);
        stopped = status != NX_OK;
        if (stopped) assert_int_equal(status, NX_PYTHON);
        stop_at = 0;
        OK(train(compiled, x, &got));
        assert_true(got.loss == expected.loss && got.grad == expected.grad);
        OK(nx_device_synchronize(device));
        if (nx_alloc_live() != live)
            fail_msg("stopped at poll %d: %+d blocks", (int)n + 1, (int)(nx_alloc_live() - live));
    }
    nx_set_block_hooks(NULL, NULL, NULL);
    nx_alloc_watch(false);
    if (n < least) fail_msg("%d polls, at least %d are expected", (int)n, least);
    nx_tensor_unref(x);
}

static void test_eager_backward(void **state) { stop_at_every_poll(NX_CPU, NULL, LAYERS); }

static void test_compiled(void **state) {
    static const nx_mode modes[] = {NX_MODE_MAX_AUTOTUNE, NX_MODE_REDUCE_OVERHEAD};
    for (int i = 0; i < 2; i++) {
        nx_compiled *compiled = compile_loss(NX_CPU, modes[i]);
        stop_at_every_poll(NX_CPU, compiled, LAYERS);
        nx_compiled_unref(compiled);
    }
}

/* ---- waiting ---------------------------------------------------------------------------------------------- */
static nx_status slow_fill(nx_run *run, const nx_value *in, nx_value *out) {
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    *(float *)out[0].array->data += 1;
    return NX_OK;
}

static nx_tensor *give_slow_work(int n) {
    nx_tensor *host, *t;
    nx_run run = {.device = npu, .op = nx_op_get("aten::fill_.Scalar")};
    OK(nx_tensor_new(NX_F32, 0, NULL, NX_CPU, &host));
    *(float *)host->a.data = 1;
    OK(nx_tensor_new(NX_F32, 0, NULL, npu, &t));
    OK(nx_device_copy(t, host));
    nx_tensor_unref(host);
    nx_value value = nx_value_tensor(t);
    for (int i = 0; i < n; i++) OK(nx_device_launch(slow_fill, &run, &value, 1, &value, 1));
    return t;
}

/* The first poll comes long before the work is done; the work goes on. */
static void test_wait_ends(void **state) {
    nx_tensor *host;
    OK(nx_tensor_new(NX_F32, 0, NULL, NX_CPU, &host));
    for (int which = 0; which < 2; which++) {
        nx_tensor *t = give_slow_work(3);
        polls = 0;
        stop_at = 1;
        nx_set_block_hooks(NULL, NULL, poll);
        nx_status status = which ? nx_device_copy(host, t) : nx_device_synchronize(npu);
        nx_set_block_hooks(NULL, NULL, NULL);
        assert_int_equal(status, NX_PYTHON);
        assert_true(number(t) == 4);
        nx_tensor_unref(t);
    }
    nx_tensor_unref(host);
}

static int start(void **state) {
    int type;
    OK(nx_device_register(narthex_device(), &type));
    OK(nx_device_parse("npu:0", &npu));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eager_backward),
        cmocka_unit_test(test_compiled),
        cmocka_unit_test(test_wait_ends),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
