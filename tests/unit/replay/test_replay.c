/* Replay against the interpreter: every kind of result, on the CPU and on the reference accelerator. */
#include "replay/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define OK(expr) assert_int_equal((expr), NX_OK)
enum { MAX_RESULTS = 16, MAX_ELEMENTS = 1024 };

const nx_device_api *narthex_device(void); /* plugins/npu, linked in */
static nx_device npu;

/* The graph of `text`, where @ stands for a device. */
static nx_graph *parse(const char *text, nx_device device) {
    char full[4096], *to = full;
    nx_graph *graph;
    for (const char *c = text; *c; c++) {
        if (*c == '@') to += sprintf(to, device.type ? "npu:0" : "cpu");
        else *to++ = *c;
    }
    *to = '\0';
    if (nx_graph_parse(full, &graph) != NX_OK) fail_msg("%s", nx_error_message());
    return graph;
}

static nx_tensor *tensor(nx_device device, int ndim, const int64_t *sizes, float first) {
    nx_tensor *host, *t;
    OK(nx_tensor_new(NX_F32, ndim, sizes, NX_CPU, &host));
    for (int64_t i = 0; i < host->a.numel; i++) ((float *)host->a.data)[i] = first + (float)i;
    if (device.type == 0) return host;
    OK(nx_tensor_new(NX_F32, ndim, sizes, device, &t));
    OK(nx_device_copy(t, host));
    nx_tensor_unref(host);
    return t;
}

static nx_tensor *matrix(nx_device device, float first) {
    return tensor(device, 2, (int64_t[]){2, 3}, first);
}

/* The elements of the tensor's memory, from element 0 on, in memory order. */
static void read_all(nx_tensor *t, float *to) {
    nx_tensor *host, *flat;
    nx_meta meta = {.dtype = NX_F32,
                    .device = t->a.device,
                    .ndim = 1,
                    .size = {t->a.numel},
                    .stride = {1},
                    .offset = t->offset,
                    .view_of = -1};
    OK(nx_tensor_new_view(t->storage, &meta, NX_DEVICE_KEY(t->a.device), NULL, &flat));
    OK(nx_tensor_new(NX_F32, 1, meta.size, NX_CPU, &host));
    OK(nx_device_copy(host, flat));
    memcpy(to, host->a.data, sizeof(float) * (size_t)t->a.numel);
    nx_tensor_unref(host);
    nx_tensor_unref(flat);
}

static void check_same(nx_tensor *a, nx_tensor *b) {
    float x[MAX_ELEMENTS], y[MAX_ELEMENTS];
    assert_true(a->a.numel <= MAX_ELEMENTS);
    assert_int_equal(a->a.ndim, b->a.ndim);
    for (int d = 0; d < a->a.ndim; d++) {
        assert_int_equal(a->a.sizes[d], b->a.sizes[d]);
        assert_int_equal(a->a.strides[d], b->a.strides[d]);
    }
    read_all(a, x);
    read_all(b, y);
    assert_memory_equal(x, y, sizeof(float) * (size_t)a->a.numel);
}

static void drop(nx_tensor **tensors, int n) {
    for (int i = 0; i < n; i++) nx_tensor_unref(tensors[i]);
}

/* What a replay gives on `in` is what the interpreter gives, in `again`. */
static void run_both(nx_replay *replay, const nx_graph *graph, nx_tensor **in, int n_in, nx_tensor **out, nx_tensor **again, int n) {
    OK(nx_replay_run(replay, in, out));
    OK(nx_graph_run(graph, in, n_in, again, n));
    for (int k = 0; k < n; k++) check_same(out[k], again[k]);
}

static const char every_kind[] = "graph functional {\n"
                                 "  %x = placeholder \"x\" : f32[2, 3] @\n"
                                 "  %y = placeholder \"y\" : f32[2, 3] @\n"
                                 "  %mul = call aten::mul.Tensor(%x, %y) : f32[2, 3] @\n"
                                 "  %add = call aten::add.Tensor(%mul, %x) : f32[2, 3] @\n"
                                 "  %t = call aten::t(%x) : f32[3, 2]{1, 3} @\n"
                                 "  %t_1 = call aten::t(%mul) : f32[3, 2]{1, 3} @\n"
                                 "  %mm = call aten::mm(%add, %t) : f32[2, 2] @\n"
                                 "  %sum = call aten::sum(%mm) : f32[] @\n"
                                 "  %t_2 = call aten::t(%sum) : f32[] @\n"
                                 "  return (%add, %mul, %t, %x, %t_1, %mul, %t_2)\n"
                                 "}\n";

static void check_every_kind(nx_device device) {
    enum { N = 7 };
    nx_graph *graph = parse(every_kind, device);
    nx_replay *replay;
    if (nx_replay_new(graph, NULL, device, &replay) != NX_OK) fail_msg("%s", nx_error_message());
    assert_int_equal(nx_replay_n_launches(replay), 3); /* mul and add are one */
    assert_int_equal(nx_replay_pool_bytes(replay), 64); /* mm alone is no result: an arena of one line */
    nx_tensor *first[N], *expected[N];
    for (int round = 0; round < 3; round++) {
        nx_tensor *in[2] = {matrix(device, 1 + (float)round), matrix(device, 2)}, *out[N], *again[N];
        run_both(replay, graph, in, 2, out, again, N);
        assert_ptr_equal(out[3], in[0]);
        assert_ptr_equal(out[5], out[1]);
        assert_ptr_equal(out[2]->storage, in[0]->storage);
        assert_ptr_equal(out[4]->storage, out[1]->storage);
        assert_ptr_not_equal(out[0]->storage, out[1]->storage);
        if (round == 0) {
            memcpy(first, out, sizeof first);
            memcpy(expected, again, sizeof expected);
        } else {
            drop(out, N);
            drop(again, N);
        }
        drop(in, 2);
    }
    for (int k = 0; k < N; k++) check_same(first[k], expected[k]); /* later replays left them alone */
    drop(first, N);
    drop(expected, N);
    nx_replay_free(replay);
    nx_graph_free(graph);
}

/* Large enough not to lie behind a storage's head. Each sum but the first and the last dies before the next but one. */
static const char long_chain[] = "graph functional {\n"
                                 "  %x = placeholder \"x\" : f32[32, 32] @\n"
                                 "  %a = call aten::mul.Tensor(%x, %x) : f32[32, 32] @\n"
                                 "  %b = call aten::add.Tensor(%a, %x) : f32[32, 32] @\n"
                                 "  %c = call aten::add.Tensor(%b, %a) : f32[32, 32] @\n"
                                 "  %d = call aten::add.Tensor(%c, %x) : f32[32, 32] @\n"
                                 "  %e = call aten::add.Tensor(%d, %x) : f32[32, 32] @\n"
                                 "  %f = call aten::add.Tensor(%e, %d) : f32[32, 32] @\n"
                                 "  %g = call aten::add.Tensor(%f, %x) : f32[32, 32] @\n"
                                 "  %sum = call aten::sum(%g) : f32[] @\n"
                                 "  return (%a, %f, %sum)\n"
                                 "}\n";

/* Memory that is free again during the capture is used again: for what is dropped later, and for a result. */
static void check_memory(nx_device device) {
    enum { N = 3 };
    nx_graph *graph = parse(long_chain, device);
    nx_replay *replay;
    if (nx_replay_new(graph, NULL, device, &replay) != NX_OK) fail_msg("%s", nx_error_message());
    assert_true(nx_replay_pool_bytes(replay) <= 2 * 4096);
    nx_tensor *first = NULL, *expected = NULL;
    for (int round = 0; round < 3; round++) {
        nx_tensor *in[1] = {tensor(device, 2, (int64_t[]){32, 32}, (float)round)}, *out[N], *again[N];
        run_both(replay, graph, in, 1, out, again, N);
        if (round == 0) {
            first = nx_tensor_ref(out[1]);
            expected = nx_tensor_ref(again[1]);
        }
        drop(out, N);
        drop(again, N);
        drop(in, 1);
    }
    check_same(first, expected); /* later replays left it alone */
    drop(&first, 1);
    drop(&expected, 1);
    nx_replay_free(replay);
    nx_graph_free(graph);
}

static const char mutating[] = "graph functional {\n"
                               "  %x = placeholder \"x\" : f32[2, 3] @\n"
                               "  %add = call aten::add.Tensor(%x, %x) : f32[2, 3] @\n"
                               "  %copy_ = call aten::copy_(%x, %add) : f32[2, 3] @\n"
                               "  return (%add)\n"
                               "}\n";

static void check_mutation(nx_device device) {
    nx_graph *graph = parse(mutating, device);
    nx_replay *replay;
    OK(nx_replay_new(graph, NULL, device, &replay));
    nx_tensor *x = matrix(device, 1), *out[1];
    uint32_t version = nx_tensor_version(x);
    float got[6];
    for (int round = 1; round <= 2; round++) {
        OK(nx_replay_run(replay, &x, out));
        drop(out, 1);
        read_all(x, got);
        assert_true(got[0] == (float)(1 << round) && got[5] == (float)(6 << round));
        assert_int_equal(nx_tensor_version(x), version + (uint32_t)round);
    }
    nx_tensor_unref(x);
    nx_replay_free(replay);
    nx_graph_free(graph);
}

static const char drawing[] = "graph functional {\n"
                              "  %x = placeholder \"x\" : f32[2, 3] @\n"
                              "  %a = call aten::normal_functional(%x) : f32[2, 3] @\n"
                              "  %b = call aten::normal_functional(%x) : f32[2, 3] @\n"
                              "  return (%a, %b)\n"
                              "}\n";

static void check_random(nx_device device) {
    nx_graph *graph = parse(drawing, device);
    nx_replay *replay;
    nx_tensor *x = matrix(device, 0), *eager[4], *replayed[4];
    OK(nx_replay_new(graph, NULL, device, &replay));
    nx_manual_seed(3);
    OK(nx_graph_run(graph, &x, 1, eager, 2));
    OK(nx_graph_run(graph, &x, 1, eager + 2, 2));
    nx_manual_seed(3);
    OK(nx_replay_run(replay, &x, replayed));
    OK(nx_replay_run(replay, &x, replayed + 2));
    float one[6], other[6];
    for (int k = 0; k < 4; k++) check_same(eager[k], replayed[k]);
    read_all(replayed[0], one);
    read_all(replayed[2], other);
    assert_memory_not_equal(one, other, sizeof one);
    drop(eager, 4);
    drop(replayed, 4);
    nx_tensor_unref(x);
    nx_replay_free(replay);
    nx_graph_free(graph);
}

/* An input that begins inside its storage. */
static void check_offset(nx_device device) {
    nx_graph *graph = parse(every_kind, device);
    nx_replay *replay;
    OK(nx_replay_new(graph, NULL, device, &replay));
    nx_tensor *base = tensor(device, 1, (int64_t[]){12}, 0), *in[2], *out[7], *again[7];
    nx_meta meta = {.dtype = NX_F32,
                    .device = device,
                    .ndim = 2,
                    .size = {2, 3},
                    .stride = {3, 1},
                    .offset = 5,
                    .view_of = -1};
    OK(nx_tensor_new_view(base->storage, &meta, NX_DEVICE_KEY(device), base, &in[0]));
    in[1] = matrix(device, 1);
    OK(nx_replay_run(replay, in, out));
    OK(nx_graph_run(graph, in, 2, again, 7));
    for (int k = 0; k < 7; k++) check_same(out[k], again[k]);
    assert_int_equal(out[2]->offset, 5);
    drop(out, 7);
    drop(again, 7);
    drop(in, 2);
    nx_tensor_unref(base);
    nx_replay_free(replay);
    nx_graph_free(graph);
}

static const char mixed[] = "graph functional {\n"
                            "  %x = placeholder \"x\" : f32[2, 3] npu:0\n"
                            "  %s = placeholder \"s\" : f32[] cpu\n"
                            "  %mul = call aten::mul.Tensor(%x, %s) : f32[2, 3] npu:0\n"
                            "  return (%mul)\n"
                            "}\n";

static void test_a_number_from_the_cpu(void **state) {
    nx_graph *graph = parse(mixed, npu);
    nx_replay *replay;
    OK(nx_replay_new(graph, NULL, npu, &replay));
    for (int round = 2; round < 5; round++) {
        nx_tensor *in[2] = {matrix(npu, 1), tensor(NX_CPU, 0, NULL, (float)round)}, *out[1];
        float got[6];
        OK(nx_replay_run(replay, in, out));
        read_all(out[0], got);
        assert_true(got[0] == (float)round && got[5] == 6 * (float)round);
        drop(in, 2);
        drop(out, 1);
    }
    nx_replay_free(replay);
    nx_graph_free(graph);
}

static const char with_constant[] = "graph functional {\n"
                                    "  %x = placeholder \"x\" : f32[2, 3] @\n"
                                    "  %k = get_attr \"k\" : f32[] cpu = [0.5]\n"
                                    "  %mul = call aten::mul.Tensor(%x, %k) : f32[2, 3] @\n"
                                    "  return (%mul)\n"
                                    "}\n";

static void check_constant(nx_device device) {
    nx_graph *graph = parse(with_constant, device);
    nx_replay *replay;
    nx_tensor *x = matrix(device, 1), *out[1];
    float got[6];
    if (nx_replay_new(graph, NULL, device, &replay) != NX_OK) fail_msg("%s", nx_error_message());
    OK(nx_replay_run(replay, &x, out));
    read_all(out[0], got);
    assert_true(got[0] == 0.5f && got[5] == 3);
    drop(out, 1);
    nx_tensor_unref(x);
    nx_replay_free(replay);
    nx_graph_free(graph);
}

static void test_inputs_are_checked(void **state) {
    nx_graph *graph = parse(every_kind, npu);
    nx_replay *replay;
    OK(nx_replay_new(graph, NULL, npu, &replay));
    nx_tensor *in[2] = {matrix(NX_CPU, 1), matrix(npu, 1)}, *out[7];
    assert_int_equal(nx_replay_run(replay, in, out), NX_RUNTIME);
    assert_null(out[0]);
    drop(in, 2);
    nx_replay_free(replay);
    nx_graph_free(graph);
}

static bool record_and_run(nx_graph *graph, nx_tensor **in) {
    nx_replay *replay = NULL;
    nx_tensor *out[7];
    bool done = nx_replay_new(graph, NULL, NX_CPU, &replay) == NX_OK;
    if (done && nx_replay_run(replay, in, out) == NX_OK) drop(out, 7);
    else done = false;
    nx_replay_free(replay);
    return done;
}

static void test_every_allocation_may_fail(void **state) {
    nx_graph *graph = parse(every_kind, NX_CPU);
    nx_tensor *in[2] = {matrix(NX_CPU, 1), matrix(NX_CPU, 1)};
    bool done = false;
    nx_alloc_watch(true);
    for (int n = 1; !done; n++) {
        int64_t before = nx_alloc_live();
        nx_alloc_fail_at(n);
        done = record_and_run(graph, in);
        nx_alloc_fail_at(0);
        assert_int_equal(nx_alloc_live(), before);
        assert_true(n < 1000);
    }
    nx_alloc_watch(false);
    drop(in, 2);
    nx_graph_free(graph);
}

static void test_every_kind(void **state) {
    check_every_kind(NX_CPU);
    check_every_kind(npu);
}
static void test_mutation(void **state) {
    check_mutation(NX_CPU);
    check_mutation(npu);
}
static void test_memory(void **state) {
    check_memory(NX_CPU);
    check_memory(npu);
}
static void test_random(void **state) {
    check_random(NX_CPU);
    check_random(npu);
}
static void test_constant(void **state) {
    check_constant(NX_CPU);
    check_constant(npu);
}
static void test_offset(void **state) {
    check_offset(NX_CPU);
    check_offset(npu);
}

static int load(void **state) {
    int type;
    OK(nx_device_register(narthex_device(), &type));
    npu = (nx_device){(int8_t)type, 0};
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_mutation),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_offset),
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_a_number_from_the_cpu),
        cmocka_unit_test(test_inputs_are_checked),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
