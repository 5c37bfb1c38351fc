/* What the tests of src/ir and src/pass share: random tensors for a graph's inputs, running, comparing. */
#ifndef NX_IR_TEST_H
#define NX_IR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pass/pass.h"

#define OK(expr)                                                                             \
    do {                                                                                     \
        nx_status ok_ = (expr);                                                              \
        if (ok_ != NX_OK) fail_msg("%s: %s: %s", #expr, nx_status_name(ok_), nx_error_message()); \
    } while (0)

static inline uint32_t draw(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* Small whole numbers: sums and products of them are exact, so that two orders of work must agree to the
 * bit. */
static inline void fill_random(nx_tensor *t, uint32_t *seed) {
    for (int64_t i = 0; i < t->a.numel; i++) {
        int64_t at = 0, rest = i;
        for (int d = t->a.ndim - 1; d >= 0; d--) {
            at += rest % t->a.sizes[d] * t->a.strides[d];
            rest /= t->a.sizes[d];
        }
        int v = (int)(draw(seed) % 5) - 2;
        if (t->a.dtype == NX_F32) ((float *)t->a.data)[at] = (float)v;
        else if (t->a.dtype == NX_F64) ((double *)t->a.data)[at] = v;
        else if (t->a.dtype == NX_I64) ((int64_t *)t->a.data)[at] = v;
    }
}

static inline double element(const nx_tensor *t, int64_t i) {
    int64_t at = 0;
    for (int d = t->a.ndim - 1; d >= 0; d--) {
        at += i % t->a.sizes[d] * t->a.strides[d];
        i /= t->a.sizes[d];
    }
    if (t->a.dtype == NX_F32) return ((const float *)t->a.data)[at];
    if (t->a.dtype == NX_F64) return ((const double *)t->a.data)[at];
    return (double)((const int64_t *)t->a.data)[at];
}

static inline nx_tensor *real_like(const nx_tensor *fake) {
    nx_meta meta = {.dtype = (nx_dtype)fake->a.dtype, .device = NX_CPU, .ndim = fake->a.ndim, .view_of = -1};
    nx_tensor *t;
    memcpy(meta.size, fake->a.sizes, sizeof(int64_t) * fake->a.ndim);
    memcpy(meta.stride, fake->a.strides, sizeof(int64_t) * fake->a.ndim);
    OK(nx_tensor_new_meta(&meta, false, &t));
    return t;
}

enum { MAX_TENSORS = 64 };
typedef struct tensors { nx_tensor *at[MAX_TENSORS]; int n; } tensors;

static inline void drop_tensors(tensors *t) {
    for (int i = 0; i < t->n; i++) nx_tensor_unref(t->at[i]);
    t->n = 0;
}

/* The same numbers for the same seed. */
static inline tensors inputs_of(const nx_graph *graph, uint32_t seed) {
    tensors t = {.n = 0};
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->kind != NX_NODE_PLACEHOLDER) continue;
        t.at[t.n] = real_like(node->fakes[0]);
        fill_random(t.at[t.n++], &seed);
    }
    return t;
}

static inline tensors run_graph(const nx_graph *graph, const tensors *inputs) {
    tensors out = {.n = nx_graph_output_node(graph)->n_args};
    nx_manual_seed(7); /* random operators draw the same numbers */
    OK(nx_graph_run(graph, inputs->at, inputs->n, out.at, out.n));
    return out;
}

static inline void assert_same_elements(const nx_tensor *a, const nx_tensor *b, const char *what, int index) {
    if (a->a.ndim != b->a.ndim || a->a.dtype != b->a.dtype) fail_msg("%s %d: shapes or dtypes differ", what,
                                                                     index);
    for (int d = 0; d < a->a.ndim; d++) assert_int_equal(a->a.sizes[d], b->a.sizes[d]);
    for (int64_t i = 0; i < a->a.numel; i++) {
        if (element(a, i) != element(b, i))
            fail_msg("%s %d: element %lld is %g and %g", what, index, (long long)i, element(a, i),
                     element(b, i));
    }
}

static inline void assert_same_tensors(const tensors *a, const tensors *b, int n, const char *what) {
    for (int i = 0; i < n; i++) assert_same_elements(a->at[i], b->at[i], what, i);
}

/* Both graphs on equal inputs: results and what is left in the inputs agree. */
static inline void assert_same_meaning(const nx_graph *before, const nx_graph *after) {
    tensors in[2] = {inputs_of(before, 5), inputs_of(before, 5)}, out[2] =
        {run_graph(before, &in[0]), run_graph(after, &in[1])};
    assert_int_equal(out[0].n, out[1].n);
    assert_same_tensors(&out[0], &out[1], out[0].n, "result");
    assert_same_tensors(&in[0], &in[1], in[0].n, "input");
    for (int i = 0; i < 2; i++) {
        drop_tensors(&in[i]);
        drop_tensors(&out[i]);
    }
}

/* The compiled graphs against the captured one run eagerly with autograd: results, written inputs,
 * gradients. */
static inline void assert_compiled_meaning(const nx_graph *captured, const nx_aot *aot) {
    tensors in = inputs_of(captured, 5), eager_in = inputs_of(captured, 5), out =
        run_graph(aot->forward, &in);
    tensors leaves = {.n = 0}, wanted = {.n = 0}, grads = {.n = 0};
    int at = 0;
    for (const nx_node *node = captured->first; node; node = node->next) {
        if (node->kind != NX_NODE_PLACEHOLDER) continue;
        if (aot->joint && nx_tensor_requires_grad(node->fakes[0])) {
            OK(nx_tensor_set_requires_grad(eager_in.at[at], true));
            leaves.at[leaves.n++] = nx_tensor_ref(eager_in.at[at]);
        }
        at++;
    }
    tensors eager = run_graph(captured, &eager_in);
    assert_int_equal(out.n, aot->n_outputs + aot->n_mutated + aot->n_saved);
    assert_same_tensors(&out, &eager, aot->n_outputs, "result");
    for (int i = 0; i < aot->n_mutated; i++)
        assert_same_elements(out.at[aot->n_outputs + i], eager_in.at[aot->mutated[i]], "written input", i);
    if (aot->joint) {
        tensors roots = {.n = 0}, back = {.n = 0};
        uint32_t seed = 11;
        for (int i = 0; i < aot->n_saved; i++) back.at[back.n++] =
            nx_tensor_ref(out.at[aot->n_outputs + aot->n_mutated + i]);
        for (int i = 0; i < aot->n_outputs + aot->n_mutated; i++) {
            if (!aot->output_requires_grad[i]) continue;
            nx_tensor *root = i < aot->n_outputs ? eager.at[i] : eager_in.at[aot->mutated[i - aot->n_outputs]];
            nx_tensor *g = real_like(&(nx_tensor){.a = root->a});
            fill_random(g, &seed);
            roots.at[roots.n++] = nx_tensor_ref(root);
            back.at[back.n++] = g;
        }
        assert_int_equal(back.n - aot->n_saved, aot->n_tangents);
        wanted.n = leaves.n;
        OK(nx_grad_run(roots.at, back.at + aot->n_saved, roots.n, false, false, leaves.at, leaves.n,
                       wanted.at));
        grads = run_graph(aot->backward, &back);
        assert_int_equal(grads.n, aot->n_grads);
        for (int i = 0, k = 0; i < aot->n_inputs; i++) {
            if (!nx_tensor_requires_grad(eager_in.at[i]) || !nx_tensor_is_leaf(eager_in.at[i])) continue;
            assert_int_equal(wanted.at[k] != NULL, aot->grad_of[i] >= 0);
            if (wanted.at[k]) assert_same_elements(wanted.at[k], grads.at[aot->grad_of[i]],
                                                   "gradient of input", i);
            k++;
        }
        drop_tensors(&roots);
        drop_tensors(&back);
    }
    tensors *all[] = {&in, &eager_in, &out, &leaves, &wanted, &grads, &eager};
    for (int i = 0; i < NX_COUNT(all); i++) drop_tensors(all[i]);
}

#endif
