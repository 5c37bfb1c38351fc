/* Every allocation of parsing, printing, running and compiling a graph fails once: the call reports it,
 * nothing leaks,
 * and the next call is right. */
#include "../ir/ir_test.h"

static const char *const programs[] = {
    "graph captured {\n"
    "  %w = placeholder \"w\" : f32[5, 4] cpu grad\n"
    "  %x = placeholder \"x\" : f32[3, 4] cpu grad\n"
    "  %b = placeholder \"b\" : f32[5] cpu grad\n"
    "  %k = get_attr \"k\" : f32[] cpu = [2.0]\n"
    "  %t = method t aten::t(%w) : f32[4, 5]{1, 4} cpu  # g.py:2 in f: code\n"
    "  %matmul = call operator.matmul aten::matmul(%x, %t) : f32[3, 5] cpu\n"
    "  %mul = call operator.mul aten::mul.Tensor(%matmul, %b) : f32[3, 5] cpu\n"
    "  %add = call operator.add aten::add.Tensor(%mul, %k) : f32[3, 5] cpu\n"
    "  %sum_1 = method sum aten::sum(%add) : f32[] cpu\n"
    "  return (%sum_1, %mul)\n"
    "}\n",
    "graph captured {\n"
    "  %x = placeholder \"x\" : f32[2, 3] cpu\n"
    "  %t = method t aten::t(%x) : f32[3, 2]{1, 3} cpu\n"
    "  %view = method view aten::view(%x, [6]) : f32[6] cpu\n"
    "  %add_ = method add_ aten::add_.Tensor(%t, 1) : f32[3, 2]{1, 3} cpu\n"
    "  %mul_ = method mul_ aten::mul_.Tensor(%view, 2.5) : f32[6] cpu\n"
    "  %add = call torch.add aten::add.Tensor(%x, %x) : f32[2, 3] cpu\n"
    "  %add_1 = call torch.add aten::add.Tensor(%x, %x) : f32[2, 3] cpu\n"
    "  return (%x, %t, %view, %add, %add_1)\n"
    "}\n",
};

typedef nx_status step_fn(const nx_graph *graph, const tensors *inputs);

static nx_status do_parse(const nx_graph *graph, const tensors *inputs) {
    nx_graph *parsed;
    for (int i = 0; i < NX_COUNT(programs); i++) {
        NX_TRY(nx_graph_parse(programs[i], &parsed));
        nx_graph_free(parsed);
    }
    return NX_OK;
}

static nx_status do_print(const nx_graph *graph, const tensors *inputs) {
    char *text;
    NX_TRY(nx_graph_print(graph, &text));
    nx_free(text);
    NX_TRY(nx_graph_print_python(graph, true, true, &text));
    nx_free(text);
    return nx_graph_verify(graph);
}

static nx_status do_copy(const nx_graph *graph, const tensors *inputs) {
    nx_graph *copy;
    NX_TRY(nx_graph_copy(graph, &copy));
    nx_graph_free(copy);
    return NX_OK;
}

static nx_status do_run(const nx_graph *graph, const tensors *inputs) {
    tensors out = {.n = nx_graph_output_node(graph)->n_args};
    nx_status status = nx_graph_run(graph, inputs->at, inputs->n, out.at, out.n);
    if (status == NX_OK) drop_tensors(&out);
    return status;
}

static nx_status do_compile(const nx_graph *graph, const tensors *inputs) {
    nx_aot *aot;
    nx_regions regions;
    NX_TRY(nx_aot_compile(graph, true, &aot));
    nx_status status = nx_pass_fuse(aot->forward, &regions);
    if (status == NX_OK) nx_regions_free(&regions);
    nx_aot_free(aot);
    return status;
}

static step_fn *const steps[] = {do_parse, do_print, do_copy, do_run, do_compile};
static const char *const names[] = {"parse", "print", "copy", "run", "compile"};

static void fail_each(step_fn *step, const char *name, const nx_graph *graph, const tensors *inputs) {
    OK(step(graph, inputs));
    for (int n = 1; n < 100000; n++) {
        int64_t live = nx_alloc_live();
        nx_alloc_fail_at(n);
        nx_status status = step(graph, inputs);
        bool failed = nx_alloc_failed();
        nx_alloc_fail_at(0);
        if (nx_alloc_live() != live) fail_msg("%s: allocation %d failed and %lld blocks are left", name, n,
                                              (long long)(nx_alloc_live() - live));
        if (failed && status != NX_NO_MEMORY) fail_msg("%s: allocation %d failed and the status is %s: %s",
                                                       name, n, nx_status_name(status), nx_error_message());
        if (!failed) {
            OK(status);
            return;
        }
    }
    fail_msg("%s: no end", name);
}

static void test_each_allocation(void **state) {
    for (int i = 0; i < NX_COUNT(programs); i++) {
        nx_graph *graph;
        OK(nx_graph_parse(programs[i], &graph));
        tensors inputs = inputs_of(graph, 3);
        for (int k = 0; k < NX_COUNT(steps); k++) fail_each(steps[k], names[k], graph, &inputs);
        drop_tensors(&inputs);
        nx_graph_free(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
