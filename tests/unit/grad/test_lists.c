/* An operator with two lists among its differentiable arguments, a tensor between them and one behind: which edge and which
 * gradient belong to which. out = 2 sum(first) + 3 between + 5 sum(second) + 7 last, where `last` is kept whole. */
#include "grad_test.h"

enum { FIRST, BETWEEN, SECOND, LAST, N_IN };
static const float factors[N_IN] = {2, 3, 5, 7};

static nx_status meta(const nx_value *in, nx_meta *out) {
    *out = (nx_meta){.dtype = NX_F32, .device = NX_CPU, .ndim = 1, .view_of = -1, .size = {1}, .stride = {1}};
    return NX_OK;
}

static float sum_of(const nx_value *value) {
    float total = 0;
    for (int i = 0; value->tag == NX_TAG_LIST && i < value->n; i++) total += sum_of(&value->list[i]);
    return value->tag == NX_TAG_TENSOR ? *(float *)value->array->data : total;
}

static nx_status kernel(nx_run *run, const nx_value *in, nx_value *out) {
    float total = 0;
    for (int k = 0; k < N_IN; k++) total += factors[k] * sum_of(&in[k]);
    *(float *)out[0].array->data = total;
    return NX_OK;
}

/* The gradient of element i of a list is that of its factor, times i + 1; that of `last` reads what was kept of it. */
static nx_status backward(const nx_value *in, nx_tensor *const *results, nx_tensor *const *g, uint64_t needed, nx_tensor **grads) {
    int behind = N_IN;
    for (int k = 0; k < N_IN; k++) {
        bool is_list = in[k].tag == NX_TAG_LIST;
        for (int i = 0; i < (is_list ? in[k].n : 1); i++) {
            const nx_value *value = is_list ? &in[k].list[i] : &in[k];
            nx_tensor **to = &grads[is_list ? behind + i : k];
            if (!(needed >> k & 1) || value->tag != NX_TAG_TENSOR || (is_list && !(value->tensor->keys & NX_KEY(AUTOGRAD)))) continue;
            NX_TRY(nx_tensor_new(NX_F32, 1, (int64_t[]){1}, NX_CPU, to));
            float kept = k == LAST ? *(float *)value->array->data : 1;
            *(float *)(*to)->a.data = *(float *)g[0]->a.data * factors[k] * (float)(i + 1) * kept;
        }
        behind += is_list ? in[k].n : 0;
    }
    return NX_OK;
}

static const nx_param params[N_IN] = {{.name = "first", .type = NX_TYPE_TENSORS}, {.name = "between", .type = NX_TYPE_TENSOR},
                                      {.name = "second", .type = NX_TYPE_TENSORS}, {.name = "last", .type = NX_TYPE_TENSOR}};
static const uint64_t saves_in_of[N_IN] = {0, 0, 0, 1 << LAST}, saves_out_of[N_IN];
static const nx_derivative derivative = {.inputs = 0xf, .saves_in = 1 << LAST, .saves_in_of = saves_in_of, .saves_out_of = saves_out_of,
                                         .backward = backward};
static const nx_op_def def = {.name = "test::lists",
                              .schema = "test::lists(Tensor[] first, Tensor between, Tensor[] second, Tensor last) -> Tensor",
                              .kind = NX_KIND_KERNEL, .n_in = N_IN, .n_out = 1, .params = params, .meta = meta, .kernel = kernel,
                              .derivative = &derivative, .source = "tests/unit/grad/test_lists.c"};

static int define(void **state) { return nx_library_def(&def) == NX_OK ? 0 : -1; }

static nx_tensor *one(bool requires_grad, float value) {
    nx_tensor *t = counting((int64_t[]){1}, 1, value);
    OK(nx_tensor_set_requires_grad(t, requires_grad));
    return t;
}

static void assert_grad(nx_tensor *t, bool wanted, float expected) {
    if (!wanted) assert_null(nx_tensor_get_grad(t));
    else assert_values(nx_tensor_get_grad(t), VALUES(expected));
}

/* Whichever tensors require gradients, each gets its own. `n_second`: how long the second list is. */
static void run(unsigned wanted, int n_second) {
    nx_tensor *x[6], *y;
    nx_value first[2], second[2];
    for (int i = 0; i < NX_COUNT(x); i++) x[i] = one(wanted >> i & 1, (float)(i + 1));
    for (int i = 0; i < 2; i++) first[i] = T(x[i]);
    for (int i = 0; i < 2; i++) second[i] = T(x[3 + i]);
    y = CALL("test::lists", nx_value_list(first, 2), T(x[2]), nx_value_list(second, n_second), T(x[5]));
    assert_values(y, VALUES(2 * (1 + 2) + 3 * 3 + 5 * (n_second > 0 ? 4 : 0) + 5 * (n_second > 1 ? 5 : 0) + 7 * 6));
    assert_true(nx_tensor_requires_grad(y));
    nx_grad_node *node;
    OK(nx_grad_node_of(y, &node));
    assert_int_equal(node->n_edges, 2 + 1 + n_second + 1); /* in the order of the arguments */
    assert_true((node->edges[2].node != NULL) == (wanted >> 2 & 1));
    assert_true((node->edges[3 + n_second].node != NULL) == (wanted >> 5 & 1));
    OK(nx_tensor_backward(y));
    assert_grad(x[0], wanted >> 0 & 1, 2);
    assert_grad(x[1], wanted >> 1 & 1, 4);
    assert_grad(x[2], wanted >> 2 & 1, 3);
    assert_grad(x[3], (wanted >> 3 & 1) && n_second > 0, 5);
    assert_grad(x[4], (wanted >> 4 & 1) && n_second > 1, 10);
    assert_grad(x[5], wanted >> 5 & 1, 7 * 6);
    nx_tensor_unref(y);
    for (int i = 0; i < NX_COUNT(x); i++) nx_tensor_unref(x[i]);
}

static void test_two_lists(void **state) {
    for (unsigned wanted = 1; wanted < 64; wanted++) run(wanted, 2);
    for (unsigned wanted = 1; wanted < 8; wanted++) run(wanted, 0);
    for (unsigned wanted = 1; wanted < 8; wanted++) run(wanted | 1 << 5, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_lists)};
    return cmocka_run_group_tests(tests, define, NULL);
}
