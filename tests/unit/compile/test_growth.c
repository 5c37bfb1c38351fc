/* What compiling and running costs a node must not grow with the number of nodes. Graphs of many shapes, of 100 and of 4,000
 * nodes, go through all phases in both modes, with gradients and without. Nothing is timed: count.c counts the steps that the
 * library takes. With NX_GROWTH set the table of steps a node is printed. */
#include "compile/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

extern _Thread_local uint64_t nx_count_steps;

#define OK(expr)                                                                         \
    do {                                                                                 \
        if ((expr) != NX_OK) fail_msg("%s: %s", #expr, nx_error_message());              \
    } while (0)
enum { FEW = 100, MANY = 4000 };

/* ---- shapes ------------------------------------------------------------------------------------------- */
/* A shape says n nodes one by one; "@" in `node` is i, "~" is i - 1. */
typedef struct shape {
    const char *name;
    const char *inputs;      /* each a line; "#" is n */
    const char *input;       /* one for each i, NULL */
    const char *node;        /* for each i */
    const char *results;     /* "%x", or with "@" one for each i */
    bool all;                /* of the results: i = 0 .. n - 1, else the last */
} shape;

#define M "f32[2, 2] cpu grad\n"
static const shape shapes[] = {
    {"chain of additions", "%a_ = placeholder \"x\" : " M "%y = placeholder \"y\" : " M, NULL,
     "%a@ = call f aten::add.Tensor(%a~, %y) : " M, "%a@", false},
    {"chain of products", "%a_ = placeholder \"x\" : " M "%y = placeholder \"y\" : " M, NULL,
     "%b@ = call f aten::mm(%a~, %y) : " M "%a@ = call f aten::tanh(%b@) : " M, "%a@", false},
    {"many inputs", "%a_ = placeholder \"x\" : " M, "%x@ = placeholder \"x@\" : " M, "%a@ = call f aten::add.Tensor(%a~, %x@) : " M,
     "%a@", false},
    {"inputs and results", "", "%x@ = placeholder \"x@\" : " M, "%a@ = call f aten::mm(%x@, %x@) : " M, "%a@", true},
    {"many results", "%x = placeholder \"x\" : " M, NULL, "%a@ = call f aten::mul.Tensor(%x, @) : " M, "%a@", true},
    {"a chain of results", "%a_ = placeholder \"x\" : " M, NULL, "%a@ = call f aten::mm(%a~, %a~) : " M, "%a@", true},
    {"many saved", "%a_ = placeholder \"x\" : " M "%y = placeholder \"y\" : " M, NULL,
     "%b@ = call f aten::tanh(%a~) : " M "%a@ = call f aten::mul.Tensor(%b@, %y) : " M, "%a@", false},
    {"views of one base", "%x = placeholder \"x\" : f32[#, 2] cpu grad\n%a_ = placeholder \"y\" : f32[2] cpu grad\n"
     "%t = call f aten::tanh(%x) : f32[#, 2] cpu grad\n", NULL,
     "%v@ = call f aten::select.int(%t, 0, @) : f32[2] cpu grad\n%a@ = call f aten::add.Tensor(%a~, %v@) : f32[2] cpu grad\n", "%a@", false},
    {"views as results", "%x = placeholder \"x\" : f32[#, 2] cpu grad\n%t = call f aten::tanh(%x) : f32[#, 2] cpu grad\n", NULL,
     "%v@ = call f aten::select.int(%t, 0, @) : f32[2] cpu grad\n", "%v@", true},
    {"views of an input", "%x = placeholder \"x\" : f32[#, 2] cpu grad\n", NULL,
     "%v@ = call f aten::select.int(%x, 0, @) : f32[2] cpu grad\n", "%v@", true},
    {"views of views", "%a_ = placeholder \"x\" : " M, NULL, "%a@ = call f aten::t(%a~) : " M, "%a@", false},
    {"views of views as results", "%a_ = placeholder \"x\" : " M, NULL, "%a@ = call f aten::t(%a~) : " M, "%a@", true},
    {"writes of parts", "%x = placeholder \"x\" : f32[#, 2] cpu grad\n%y = placeholder \"y\" : f32[2] cpu grad\n"
     "%c = call f aten::clone(%x) : f32[#, 2] cpu grad\n", NULL,
     "%v@ = call f aten::select.int(%c, 0, @) : f32[2] cpu grad\n%w@ = call f aten::copy_(%v@, %y) : f32[2] cpu grad\n", "%c", false},
    {"writes of parts of an input", "%x = placeholder \"x\" : f32[#, 2] cpu\n%y = placeholder \"y\" : f32[2] cpu grad\n", NULL,
     "%v@ = call f aten::select.int(%x, 0, @) : f32[2] cpu\n%w@ = call f aten::copy_(%v@, %y) : f32[2] cpu grad\n", "%y", false},
    {"written inputs", "%y = placeholder \"y\" : " M, "%x@ = placeholder \"x@\" : f32[2, 2] cpu\n",
     "%w@ = method add_ aten::add_.Tensor(%x@, %y) : " M, "%y", false},
    {"writes of one tensor", "%x = placeholder \"x\" : " M "%c = call f aten::clone(%x) : " M, NULL,
     "%w@ = method mul_ aten::mul_.Tensor(%c, 1) : " M, "%c", false},
    {"parts of inputs written", "%y = placeholder \"y\" : f32[2] cpu grad\n", "%x@ = placeholder \"x@\" : f32[2, 2] cpu\n",
     "%v@ = call f aten::select.int(%x@, 0, 0) : f32[2] cpu\n%w@ = call f aten::copy_(%v@, %y) : f32[2] cpu grad\n", "%y", false},
    {"a list of all", "%x = placeholder \"x\" : " M, NULL, "%a@ = call f aten::mm(%x, %x) : " M "%d@ = call f aten::detach(%a@) : f32[2, 2] cpu\n",
     "%d@", true},
    {"one value of many users", "%a_ = placeholder \"x\" : " M, NULL, "%a@ = call f aten::mul.Tensor(%a~, %a_) : " M, "%a@", false},
    {"new tensors", "%a_ = placeholder \"x\" : " M, NULL,
     "%z@ = call f aten::zeros([2, 2]) : f32[2, 2] cpu\n%a@ = call f aten::add.Tensor(%a~, %z@) : " M, "%a@", false},
};

/* The text with i for "@", i - 1 for "~" (at the beginning "_") and n for "#". */
static void add(nx_text *text, const char *pattern, int i, int n) {
    for (; *pattern; pattern++) {
        if (*pattern == '@') nx_text_add(text, "%d", i);
        else if (*pattern == '#') nx_text_add(text, "%d", n);
        else if (*pattern == '~' && i == 0) nx_text_add(text, "_");
        else if (*pattern == '~') nx_text_add(text, "%d", i - 1);
        else nx_text_add_char(text, *pattern);
    }
}

static nx_graph *make(const shape *s, int n) {
    nx_text text = {0};
    nx_graph *graph;
    nx_text_add(&text, "graph captured {\n");
    for (int i = 0; i < n && s->input; i++) add(&text, s->input, i, n);
    add(&text, s->inputs, 0, n);
    for (int i = 0; i < n; i++) add(&text, s->node, i, n);
    nx_text_add(&text, "return (");
    for (int i = s->all ? 0 : n - 1; i < n; i++) {
        add(&text, s->results, i, n);
        if (i < n - 1) nx_text_add(&text, ", ");
    }
    nx_text_add(&text, ")\n}\n");
    assert_false(text.failed);
    OK(nx_graph_parse(text.at, &graph));
    nx_text_free(&text);
    return graph;
}

/* ---- phases ------------------------------------------------------------------------------------------- */
enum { AOT, COMPILE, RUN, BACKWARD, PHASES };
static const char *const phase_names[] = {"aot", "compile", "run", "backward"};

static uint64_t since(uint64_t *last) {
    uint64_t steps = nx_count_steps - *last;
    *last = nx_count_steps;
    return steps;
}

static nx_tensor **make_inputs(const nx_graph *graph, bool gradients) {
    nx_tensor **inputs = calloc((size_t)graph->n_inputs + 1, sizeof *inputs);
    int n = 0;
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->kind != NX_NODE_PLACEHOLDER) continue;
        const nx_tensor *fake = node->fakes[0];
        OK(nx_tensor_new(NX_F32, fake->a.ndim, fake->a.sizes, NX_CPU, &inputs[n]));
        for (int64_t i = 0; i < fake->a.numel; i++) ((float *)inputs[n]->a.data)[i] = 1;
        OK(nx_tensor_set_requires_grad(inputs[n++], gradients && nx_tensor_requires_grad(fake)));
    }
    return inputs;
}

static void run_backward(nx_tensor *const *out, int n) {
    nx_tensor **roots = calloc(2 * (size_t)n + 1, sizeof *roots), **gradients = roots + n;
    int n_roots = 0;
    for (int i = 0; i < n; i++) {
        if (!nx_tensor_requires_grad(out[i])) continue;
        roots[n_roots] = out[i];
        OK(nx_tensor_new(NX_F32, out[i]->a.ndim, out[i]->a.sizes, NX_CPU, &gradients[n_roots++]));
    }
    uint64_t before = nx_count_steps;
    OK(nx_grad_run(roots, gradients, n_roots, false, false, NULL, 0, NULL));
    for (int i = 0; i < n_roots; i++) nx_tensor_unref(gradients[i]);
    free(roots);
    (void)before;
}

static void count(const shape *s, int n, nx_mode mode, bool gradients, uint64_t *steps) {
    nx_graph *graph = make(s, n);
    nx_aot *aot;
    nx_compiled *compiled;
    nx_tensor **inputs = make_inputs(graph, gradients);
    int n_inputs = graph->n_inputs, n_out = nx_graph_output_node(graph)->n_args;
    nx_tensor **out = calloc((size_t)n_out + 1, sizeof *out);
    uint64_t last = nx_count_steps;
    OK(nx_aot_compile(graph, gradients, &aot));
    steps[AOT] = since(&last);
    OK(nx_compiled_new(aot, mode, NX_CPU, &compiled));
    steps[COMPILE] = since(&last);
    OK(nx_compiled_run(compiled, inputs, n_inputs, out, n_out));
    steps[RUN] = since(&last);
    if (gradients) run_backward(out, n_out);
    steps[BACKWARD] = since(&last);
    for (int i = 0; i < n_out; i++) nx_tensor_unref(out[i]);
    for (int i = 0; i < n_inputs; i++) nx_tensor_unref(inputs[i]);
    nx_compiled_unref(compiled);
    nx_graph_free(graph);
    free(inputs);
    free(out);
}

static void test_steps_a_node(void **state) {
    uint64_t probe[PHASES];
    count(&shapes[0], 1, NX_MODE_MAX_AUTOTUNE, false, probe);
    if (probe[AOT] == 0) skip(); /* this build does not count */
    bool tells = getenv("NX_GROWTH") != NULL, grows = false;
    for (int at = 0; at < 4 * NX_COUNT(shapes); at++) {
        const shape *s = &shapes[at / 4];
        nx_mode mode = at & 1 ? NX_MODE_REDUCE_OVERHEAD : NX_MODE_MAX_AUTOTUNE;
        uint64_t few[PHASES], many[PHASES];
        if (tells && getenv("NX_GROWTH")[0] > '1' && strstr(s->name, getenv("NX_GROWTH")) == NULL) continue;
        count(s, FEW, mode, at & 2, few);
        count(s, MANY, mode, at & 2, many);
        for (int k = 0; k < PHASES; k++) {
            double one = (double)few[k] / FEW, other = (double)many[k] / MANY;
            bool bad = other > 1.35 * one + 60; /* what is sorted costs the logarithm more */
            grows = grows || bad;
            if (tells || bad)
                print_message("%-28s %-15s %-9s %-8s %9.0f %9.0f steps a node%s\n", s->name, at & 1 ? "reduce-overhead" : "max-autotune",
                              at & 2 ? "training" : "inference", phase_names[k], one, other, bad ? "  <-- grows" : "");
        }
    }
    assert_false(grows);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps_a_node)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
