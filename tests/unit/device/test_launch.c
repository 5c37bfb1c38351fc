/* Launches as data, launch lists, capture on the CPU: with hand-made kernels. */
#include "device/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define OK(expr) assert_int_equal((expr), NX_OK)

/* out = a + b, elementwise, float32 */
static nx_status add(nx_run *run, const nx_value *in, nx_value *out) {
    const float *a = in[0].array->data, *b = in[1].array->data;
    float *to = out[0].array->data;
    for (int64_t i = 0; i < out[0].array->numel; i++) to[i] = a[i] + b[i];
    return NX_OK;
}

static nx_status refuse(nx_run *run, const nx_value *in, nx_value *out) {
    return nx_fail(NX_VALUE, "this kernel fails");
}

static nx_tensor *vector(int64_t n, float first) {
    nx_tensor *t;
    OK(nx_tensor_new(NX_F32, 1, &n, NX_CPU, &t));
    for (int64_t i = 0; i < n; i++) ((float *)t->a.data)[i] = first + (float)i;
    return t;
}

static float at(const nx_tensor *t, int i) { return ((float *)t->a.data)[i]; }

static nx_status launch_add(nx_tensor *a, nx_tensor *b, nx_tensor *to) {
    nx_run run = {.device = NX_CPU};
    nx_value in[2] = {nx_value_tensor(a), nx_value_tensor(b)}, out[1] = {nx_value_tensor(to)};
    return nx_device_launch(add, &run, in, 2, out, 1);
}

static void test_block_owns_its_arguments(void **state) {
    nx_tensor *a = vector(4, 1), *b = vector(4, 10);
    char text[] = "mode";
    int64_t dims[] = {0, 1};
    nx_value list[] = {nx_value_tensor(b), nx_value_float(0.5),
                       nx_value_list((nx_value[]){nx_value_int(7)}, 1)};
    nx_value in[] = {nx_value_tensor(a), nx_value_list(list, 3), nx_value_ints(dims, 2),
                     nx_value_str(text), nx_value_bool(true),    NX_VALUE_NONE};
    nx_value out[] = {nx_value_tensor(a), nx_value_tensor(b)};
    nx_run run = {.device = NX_CPU};
    nx_launch *l;
    OK(nx_launch_new(add, &run, in, 6, out, 2, &l));
    memset(text, 'x', 4);
    dims[0] = dims[1] = 9;
    list[1] = list[2] = NX_VALUE_NONE;
    assert_int_equal(l->n_arrays, 3); /* a once: the first result is the first argument */
    assert_int_equal(l->n_holds, 2);
    assert_ptr_equal(l->out[0].array, l->in[0].array);
    assert_ptr_equal(l->in[0].array->data, a->a.data);
    assert_ptr_not_equal(l->in[0].array->sizes, a->a.sizes);
    assert_int_equal(l->in[0].array->sizes[0], 4);
    assert_int_equal(l->in[1].n, 3);
    assert_ptr_equal(l->in[1].list[0].array->data, b->a.data);
    assert_true(l->in[1].list[1].f == 0.5);
    assert_int_equal(l->in[1].list[2].list[0].i, 7);
    assert_int_equal(l->in[2].ints[1], 1);
    assert_string_equal(l->in[3].str, "mode");
    assert_int_equal(l->in[4].i, 1);
    assert_int_equal(l->in[5].tag, NX_TAG_NONE);
    nx_storage *kept = a->storage;
    assert_int_equal(kept->refs, 2);
    nx_tensor_unref(a);
    assert_int_equal(kept->refs, 1); /* the launch's */
    nx_launch_free(l);
    nx_tensor_unref(b);
    nx_launch_free(NULL);
}

static void test_scalars_of_the_cpu_travel_by_value(void **state) {
    nx_tensor *scalar, *vector4 = vector(4, 0);
    OK(nx_tensor_new(NX_F32, 0, NULL, NX_CPU, &scalar));
    *(float *)scalar->a.data = 3;
    nx_run run = {.device = {1, 0}};
    nx_value in[1] = {nx_value_tensor(scalar)};
    nx_launch *l;
    OK(nx_launch_new(add, &run, in, 1, NULL, 0, &l));
    *(float *)scalar->a.data = 4;
    assert_true(*(float *)l->in[0].array->data == 3);
    assert_int_equal(l->n_holds, 0);
    nx_launch_free(l);
    in[0] = nx_value_tensor(vector4);
    assert_int_equal(nx_launch_new(add, &run, in, 1, NULL, 0, &l), NX_RUNTIME);
    assert_non_null(strstr(nx_error_message(), "Expected all tensors to be on the same device"));
    nx_tensor_unref(scalar);
    nx_tensor_unref(vector4);
}

static void test_capture_and_replay(void **state) {
    nx_tensor *x = vector(4, 1), *y = vector(4, 10), *middle = vector(4, 0), *z = vector(4, 0);
    nx_span slots[3] = {{x->a.data, 16}, {y->a.data, 16}, {z->a.data, 16}};
    void *graph;
    OK(nx_capture_begin(NX_CPU));
    assert_true(nx_capture_active(NX_CPU));
    assert_int_equal(nx_capture_begin(NX_CPU), NX_RUNTIME);
    OK(launch_add(x, y, middle));
    OK(launch_add(middle, middle, z));
    assert_int_equal(nx_capture_n_launches(), 2);
    size_t kept;
    OK(nx_capture_kept_bytes(slots, 3, &kept));
    assert_int_equal(kept, 16);
    OK(nx_capture_end(NX_CPU, slots, 3, &graph));
    assert_false(nx_capture_active(NX_CPU));
    assert_true(at(z, 0) == 0);
    assert_int_equal(x->storage->refs, 1); /* operands in slots are not held */
    assert_int_equal(middle->storage->refs, 3);
    nx_tensor *x2 = vector(4, 5), *z2 = vector(4, 0);
    void *bases[3] = {x2->a.data, y->a.data, z2->a.data};
    OK(nx_capture_replay(NX_CPU, graph, bases, NULL));
    assert_true(at(z2, 0) == 30 && at(z2, 3) == 42 && at(z, 0) == 0);
    bases[0] = x->a.data;
    bases[2] = z->a.data;
    OK(nx_capture_replay(NX_CPU, graph, bases, NULL));
    assert_true(at(z, 0) == 22 && at(z2, 0) == 30);
    nx_capture_destroy(NX_CPU, graph);
    nx_tensor *all[] = {x, y, middle, z, x2, z2};
    for (int i = 0; i < 6; i++) nx_tensor_unref(all[i]);
}

static void test_views_follow_their_slot(void **state) {
    nx_tensor *x = vector(8, 0), *half, *z = vector(4, 0), *x2 = vector(8, 100);
    nx_meta meta = {.dtype = NX_F32, .ndim = 1, .size = {4}, .stride = {1}, .offset = 4, .view_of = 0};
    OK(nx_tensor_new_view(x->storage, &meta, x->keys, NULL, &half));
    nx_span slots[2] = {{x->a.data, 32}, {z->a.data, 16}};
    void *graph, *bases[2] = {x2->a.data, z->a.data};
    OK(nx_capture_begin(NX_CPU));
    OK(launch_add(half, half, z));
    OK(nx_capture_end(NX_CPU, slots, 2, &graph));
    OK(nx_capture_replay(NX_CPU, graph, bases, NULL));
    assert_true(at(z, 0) == 208);
    nx_capture_destroy(NX_CPU, graph);
    nx_tensor_unref(half);
    nx_tensor_unref(x);
    nx_tensor_unref(x2);
    nx_tensor_unref(z);
}

/* n launches, each of whose results is a slot, as a recording of a list of results has them. */
static uint64_t steps_of_binding(int n) {
    nx_launch_list *list;
    nx_tensor *a = vector(4, 1), **made = nx_alloc(sizeof *made * (size_t)n);
    nx_span *slots = nx_alloc(sizeof *slots * ((size_t)n + 1));
    void **bases = nx_alloc(sizeof *bases * ((size_t)n + 1));
    nx_run run = {.device = NX_CPU};
    OK(nx_launch_list_new(&list));
    slots[n] = (nx_span){a->a.data, 16};
    bases[n] = a->a.data;
    for (int i = 0; i < n; i++) {
        nx_launch *launch;
        nx_value in[2] = {nx_value_tensor(a), nx_value_tensor(a)}, out[1];
        made[i] = vector(4, 0);
        out[0] = nx_value_tensor(made[i]);
        OK(nx_launch_new(add, &run, in, 2, out, 1, &launch));
        OK(nx_launch_list_append(list, launch));
        slots[i] = (nx_span){made[i]->a.data, 16};
        bases[i] = made[i]->a.data;
    }
    OK(nx_launch_list_bind(list, slots, n + 1));
    OK(nx_launch_list_run(list, bases));
    uint64_t steps = nx__launch_list_steps(list);
    for (int i = 0; i < n; i++) {
        assert_true(at(made[i], 0) == 2 && at(made[i], 3) == 8);
        nx_tensor_unref(made[i]);
    }
    nx_launch_list_free(list);
    nx_tensor_unref(a);
    nx_free(bases);
    nx_free(slots);
    nx_free(made);
    return steps;
}

static void test_binding_is_nearly_linear(void **state) {
    uint64_t some = steps_of_binding(500), many = steps_of_binding(4000);
    assert_true(some > 500 && many < 8 * some * 3 / 2);
}

static void test_slots_do_not_overlap(void **state) {
    nx_launch_list *list;
    float memory[8];
    OK(nx_launch_list_new(&list));
    assert_int_equal(nx_launch_list_bind(list, (nx_span[]){{memory + 3, 16}, {memory, 16}}, 2), NX_VALUE);
    OK(nx_launch_list_bind(list, (nx_span[]){{memory + 4, 16}, {memory, 16}, {memory, 0}, {NULL, 8}}, 4));
    nx_launch_list_free(list);
}

static void test_replay_stops_at_a_failure(void **state) {
    nx_tensor *x = vector(4, 0);
    nx_run run = {.device = NX_CPU};
    nx_value in[1] = {nx_value_tensor(x)};
    void *graph;
    OK(nx_capture_begin(NX_CPU));
    OK(nx_device_launch(refuse, &run, in, 1, in, 1));
    OK(launch_add(x, x, x));
    OK(nx_capture_end(NX_CPU, NULL, 0, &graph));
    ((float *)x->a.data)[0] = 1;
    assert_int_equal(nx_capture_replay(NX_CPU, graph, NULL, NULL), NX_VALUE);
    assert_non_null(strstr(nx_error_message(), "this kernel fails"));
    assert_true(at(x, 0) == 1);
    nx_capture_destroy(NX_CPU, graph);
    nx_tensor_unref(x);
}

static void capture_once(bool *done) {
    *done = false;
    nx_tensor *x = NULL;
    void *graph = NULL;
    int64_t n = 4;
    if (nx_tensor_new(NX_F32, 1, &n, NX_CPU, &x) != NX_OK) return;
    nx_span slot = {x->a.data, 16};
    if (nx_capture_begin(NX_CPU) == NX_OK) {
        nx_status status = launch_add(x, x, x), ended = nx_capture_end(NX_CPU, &slot, 1, &graph);
        *done = status == NX_OK && ended == NX_OK;
        if (ended == NX_OK) nx_capture_destroy(NX_CPU, graph);
    }
    nx_tensor_unref(x);
}

static void test_every_allocation_may_fail(void **state) {
    bool done = false;
    nx_alloc_watch(true);
    for (int n = 1; !done; n++) {
        int64_t before = nx_alloc_live();
        nx_alloc_fail_at(n);
        capture_once(&done);
        nx_alloc_fail_at(0);
        assert_true(nx_alloc_live() == before);
        assert_false(nx_capture_active(NX_CPU));
        assert_true(n < 100);
    }
    nx_alloc_watch(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_owns_its_arguments),
        cmocka_unit_test(test_scalars_of_the_cpu_travel_by_value),
        cmocka_unit_test(test_capture_and_replay),
        cmocka_unit_test(test_views_follow_their_slot),
        cmocka_unit_test(test_binding_is_nearly_linear),
        cmocka_unit_test(test_slots_do_not_overlap),
        cmocka_unit_test(test_replay_stops_at_a_failure),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
