/* Programs on the reference accelerator: the same numbers as eager mode there, tile programs included; memory
 * that goes while work is pending stays alive. */
#include "../calls.h"
#include "engine_test.h"

const nx_device_api *narthex_device(void); /* plugins/npu, linked in */
static nx_device npu;

static nx_graph *line_graph(nx_device device, int64_t rows, int64_t n_in, int64_t n_out) {
    nx_graph *g;
    nx_node *x, *w, *b;
    OK(nx_graph_new(&g));
    g->level = NX_GRAPH_FUNCTIONAL;
    OK(nx_graph_input(g, "x", NX_F32, 2, (int64_t[]){rows, n_in}, device, &x));
    OK(nx_graph_input(g, "w", NX_F32, 2, (int64_t[]){n_out, n_in}, device, &w));
    OK(nx_graph_input(g, "b", NX_F32, 1, (int64_t[]){n_out}, device, &b));
    nx_value mm = CALL(g, "aten::mm", nx_value_node(x, 0), CALL(g, "aten::t", nx_value_node(w, 0)));
    nx_value y = CALL(g, "aten::add.Tensor", CALL(g, "aten::mul.Tensor", mm, nx_value_node(b, 0)),
                      nx_value_node(b, 0));
    nx_value result = CALL(g, "aten::sum", y);
    OK(nx_graph_output(g, &result, 1));
    return g;
}

static nx_tensor *ramp(nx_device device, int ndim, const int64_t *sizes) {
    nx_tensor *host, *there;
    OK(nx_tensor_new(NX_F32, ndim, sizes, NX_CPU, &host));
    for (int64_t i = 0; i < host->a.numel; i++) ((float *)host->a.data)[i] = 0.01f * (float)(i % 97) - 0.3f;
    if (device.type == 0) return host;
    OK(nx_tensor_new(NX_F32, ndim, sizes, device, &there));
    OK(nx_device_copy(there, host));
    nx_tensor_unref(host);
    return there;
}

static float take_number(nx_tensor *tensor) {
    float value;
    OK(item(tensor, &value));
    nx_tensor_unref(tensor);
    return value;
}

static void make_inputs(nx_device device, nx_tensor **in) {
    in[0] = ramp(device, 2, (int64_t[]){20, 30});
    in[1] = ramp(device, 2, (int64_t[]){300, 30});
    in[2] = ramp(device, 1, (int64_t[]){300});
}

static void drop_inputs(nx_tensor **in) {
    for (int i = 0; i < 3; i++) nx_tensor_unref(in[i]);
}

static void test_line(void **state) {
    nx_tensor *in[3], *out = NULL, *eager = NULL;
    nx_graph *g = line_graph(npu, 20, 30, 300);
    nx_program *program;
    nx_summary summary = {.size = sizeof summary};
    OK(nx_program_new(g, npu, &program));
    nx_program_get_summary(program, &summary);
    assert_int_equal(summary.n_tile_programs, 1);
    make_inputs(npu, in);
    for (int i = 0; i < 3; i++) {
        out = eager = NULL;
        OK(nx_program_run(program, in, &out));
        OK(nx_graph_run(g, in, 3, &eager, 1));
        assert_true(take_number(out) == take_number(eager));
    }
    drop_inputs(in);
    nx_program_free(program);
    nx_graph_free(g);
}

/* The program and the inputs go while the launches wait in the stream. */
static void test_memory_outlives_its_owner(void **state) {
    nx_tensor *in[3], *out[50] = {0}, *cpu[3], *expected = NULL;
    nx_graph *g = line_graph(npu, 20, 30, 300), *same = line_graph(NX_CPU, 20, 30, 300);
    make_inputs(NX_CPU, cpu);
    OK(nx_graph_run(same, cpu, 3, &expected, 1));
    float value = take_number(expected);
    for (int i = 0; i < 50; i++) {
        nx_program *program;
        OK(nx_program_new(g, npu, &program));
        make_inputs(npu, in);
        OK(nx_program_run(program, in, &out[i]));
        drop_inputs(in);
        nx_program_free(program);
    }
    for (int i = 0; i < 50; i++) assert_true(take_number(out[i]) == value);
    drop_inputs(cpu);
    nx_graph_free(g);
    nx_graph_free(same);
}

static void test_streams(void **state) {
    nx_session *session;
    nx_tensor *in[3], *out[2] = {0};
    nx_graph *g = line_graph(npu, 20, 30, 300);
    nx_stream *stream;
    OK(nx_stream_new(npu, &stream)); /* known to the framework: a run on another stream waits for it */
    OK(nx_session_new(npu, &session));
    OK(nx_session_add_graph(session, 1, g));
    OK(nx_session_compile_graph(session, 1));
    make_inputs(npu, in);
    OK(nx_session_run(session, 1, stream, in, 3, &out[0], 1));
    OK(nx_session_run(session, 1, NULL, in, 3, &out[1], 1));
    OK(nx_device_synchronize(npu));
    assert_true(take_number(out[0]) == take_number(out[1]));
    drop_inputs(in);
    nx_session_free(session);
    nx_stream_free(npu, stream);
    nx_graph_free(g);
}

/* A constant that lies on the device: in const memory, in the caller's const memory, and in a model file. */
static void test_constants(void **state) {
    nx_graph *g;
    nx_node *x, *c;
    nx_session *session, *loaded;
    nx_summary summary = {.size = sizeof summary};
    nx_tensor *constant = ramp(npu, 2, (int64_t[]){20, 30}), *in = ramp(npu, 2, (int64_t[]){20, 30});
    nx_tensor *out[3] = {0}, *base;
    char path[] = P_tmpdir "/narthex-device-XXXXXX";
    close(mkstemp(path));
    OK(nx_graph_new(&g));
    g->level = NX_GRAPH_FUNCTIONAL;
    OK(nx_graph_input(g, "x", NX_F32, 2, (int64_t[]){20, 30}, npu, &x));
    OK(nx_graph_constant(g, "c", constant, &c));
    nx_value y = CALL(g, "aten::mul.Tensor", nx_value_node(x, 0), nx_value_node(c, 0));
    nx_value result = CALL(g, "aten::sum", CALL(g, "aten::add.Tensor", y, nx_value_node(c, 0)));
    OK(nx_graph_output(g, &result, 1));
    OK(nx_session_new(npu, &session));
    OK(nx_session_add_graph(session, 1, g));
    OK(nx_session_compile_graph(session, 1));
    OK(nx_session_get_summary(session, 1, &summary));
    assert_int_equal(summary.const_bytes, 2432);
    OK(nx_session_run(session, 1, NULL, &in, 1, &out[0], 1));
    OK(nx_tensor_new(NX_U8, 1, (int64_t[]){2432}, npu, &base));
    OK(nx_session_set_const_base(session, 1, base->a.data, 2432));
    OK(nx_session_run(session, 1, NULL, &in, 1, &out[1], 1));
    OK(nx_session_save(session, 1, path));
    OK(nx_session_new(npu, &loaded));
    OK(nx_session_load(loaded, 1, path));
    OK(nx_session_run(loaded, 1, NULL, &in, 1, &out[2], 1));
    float value = take_number(out[0]);
    assert_true(value != 0 && take_number(out[1]) == value && take_number(out[2]) == value);
    nx_session_free(session);
    OK(nx_session_new(NX_CPU, &session));
    assert_int_equal(nx_session_load(session, 1, path), NX_VALUE);
    assert_non_null(strstr(nx_error_message(), "make a session on that device"));
    unlink(path);
    nx_session_free(session);
    nx_session_free(loaded);
    nx_tensor_unref(base);
    nx_tensor_unref(constant);
    nx_tensor_unref(in);
    nx_graph_free(g);
}

/* What the engine cannot do inside a graph is said when it compiles. */
static void test_no_kernel(void **state) {
    nx_graph *g = line_graph(NX_CPU, 2, 3, 4);
    nx_program *program;
    assert_int_equal(nx_program_new(g, npu, &program), NX_NOT_IMPLEMENTED);
    assert_non_null(strstr(nx_error_message(), "between devices"));
    nx_graph_free(g);
}

static int start(void **state) {
    int type;
    if (!nx_op_count() && nx__register_ops() != NX_OK) return 1;
    if (nx_device_register(narthex_device(), &type) != NX_OK) return 1;
    npu = (nx_device){(int8_t)type, 0};
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_memory_outlives_its_owner),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_constants), cmocka_unit_test(test_no_kernel),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
