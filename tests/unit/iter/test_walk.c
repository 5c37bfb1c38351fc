/* Walks, casts, point and reduce kernels over odd layouts. */
#include "../hand_ops.h"

#include <math.h>

static nx_tensor *view_of(nx_tensor *t, int ndim, const int64_t *size, const int64_t *stride) {
    nx_meta meta = {.dtype = t->a.dtype, .device = t->a.device, .ndim = ndim, .view_of = 0};
    nx_tensor *view;
    for (int d = 0; d < ndim; d++) {
        meta.size[d] = size[d];
        meta.stride[d] = stride[d];
    }
    OK(nx_tensor_new_view(t->storage, &meta, t->keys, t, &view));
    return view;
}

typedef struct seen { int calls; int64_t n; double first[8]; } seen;
static void look(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    seen *s = arg;
    if (s->calls < 8) s->first[s->calls] = *(float *)ptrs[0];
    s->calls++;
    s->n += n;
}

static void test_walk_merges_and_orders(void **state) {
    nx_tensor *a = counted(NX_F32, 3, SIZES(2, 3, 4), 0), *row = counted(NX_F32, 1, SIZES(4), 0);
    nx_tensor *turned = view_of(a, 3, SIZES(4, 3, 2), SIZES(1, 4, 12)),
              *empty = counted(NX_F32, 2, SIZES(3, 0), 0);
    nx_walk walk;
    nx_walk_start(&walk, 3, a->a.sizes);
    nx_walk_add(&walk, &a->a);
    nx_walk_merge(&walk);
    assert_int_equal(walk.ndim, 1);
    assert_int_equal(walk.size[0], 24);
    nx_walk_start(&walk, 3, turned->a.sizes);
    nx_walk_add(&walk, &turned->a);
    nx_walk_merge(&walk);
    assert_int_equal(walk.ndim, 1); /* one piece of memory, whatever the order of dimensions */
    nx_walk_start(&walk, 3, a->a.sizes);
    nx_walk_add(&walk, &a->a);
    nx_walk_add(&walk, &row->a);
    nx_walk_merge(&walk);
    assert_int_equal(walk.ndim, 2);
    seen s = {0};
    nx_walk_run(&walk, look, &s);
    assert_int_equal(s.calls, 6);
    assert_int_equal(s.n, 24);
    assert_true(s.first[1] == 4);
    nx_walk_start(&walk, 2, empty->a.sizes);
    nx_walk_add(&walk, &empty->a);
    nx_walk_merge(&walk);
    s = (seen){0};
    nx_walk_run(&walk, look, &s);
    assert_int_equal(s.calls, 0);
    nx_tensor *all[] = {a, row, turned, empty};
    for (int k = 0; k < NX_COUNT(all); k++) nx_tensor_unref(all[k]);
}

static double cast_one(nx_dtype from, double x, nx_dtype to) {
    _Alignas(16) char a[NX_MAX_ELEMENT_BYTES], b[NX_MAX_ELEMENT_BYTES];
    double out;
    nx_cast(from, a, 8, NX_F64, (char *)&x, 8, 1);
    nx_cast(to, b, 8, from, a, 8, 1);
    nx_cast(NX_F64, (char *)&out, 8, to, b, 8, 1);
    return out;
}

static void test_casts(void **state) {
    for (int from = 0; from < NX_N_DTYPES; from++) {
        for (int to = 0; to < NX_N_DTYPES; to++) assert_true(cast_one((nx_dtype)from, 1, (nx_dtype)to) == 1);
    }
    assert_true(cast_one(NX_F32, -1.9, NX_I32) == -1);
    assert_true(cast_one(NX_F32, 0.5, NX_BOOL) == 1);
    assert_true(cast_one(NX_F32, NAN, NX_BOOL) == 1);
    assert_true(cast_one(NX_I32, 300, NX_U8) == 44);
    assert_true(cast_one(NX_F32, -1, NX_U8) == 255);
    assert_true(cast_one(NX_F32, 65519.9, NX_F16) == 65504);
    assert_true(isinf(cast_one(NX_F32, 65520, NX_F16)));
    assert_true(cast_one(NX_F32, 0x1p-24, NX_F16) == 0x1p-24); /* the smallest subnormal */
    assert_true(cast_one(NX_F32, 0x1p-25, NX_F16) == 0);       /* a tie goes to even */
    assert_true(cast_one(NX_F32, 0x1.8p-24, NX_F16) == 0x1p-23);
    assert_true(cast_one(NX_F32, 1.00390625, NX_BF16) == 1);
    assert_true(isnan(cast_one(NX_F32, NAN, NX_F16)) && isnan(cast_one(NX_F32, NAN, NX_BF16)));
    assert_true(signbit(cast_one(NX_F32, -0.0, NX_F16)));
}

/* float64 += int32 spread over rows, through a turned destination: every operand is cast. */
static void test_point_casts_in_pieces(void **state) {
    enum { N = 1500 };
    nx_tensor *a = counted(NX_F32, 2, SIZES(3, N), 0), *turned = view_of(a, 2, SIZES(N, 3), SIZES(1, N)),
              *b = counted(NX_I32, 1, SIZES(3), 100);
    nx_tensor *c = NULL;
    OK(call("test::add", (nx_value[]){nx_value_tensor(turned), nx_value_tensor(b), nx_value_int(2)}, &c));
    assert_int_equal(c->a.dtype, NX_F32);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < 3; j++) assert_true(element(c, i * 3 + j) == j * N + i + 2 * (100 + j));
    }
    nx_tensor_unref(c);
    nx_tensor *wide = counted(NX_F64, 2, SIZES(N, 3), 0.25);
    OK(call("test::add_", (nx_value[]){nx_value_tensor(turned), nx_value_tensor(wide), nx_value_int(1)}, &c));
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < 3; j++) assert_true(element(turned, i * 3 + j) == j * N + i + 0.25 + i * 3 + j);
    }
    nx_tensor *all[] = {a, turned, b, c, wide};
    for (int k = 0; k < NX_COUNT(all); k++) nx_tensor_unref(all[k]);
}

static void test_point_numbers(void **state) {
    nx_tensor *i = counted(NX_I32, 1, SIZES(3), 1), *half = counted(NX_BF16, 1, SIZES(3), 1),
              *to = counted(NX_F64, 1, SIZES(3), 0), *c;
    OK(call("test::add", (nx_value[]){nx_value_tensor(i), nx_value_float(0.5), nx_value_int(1)}, &c));
    assert_int_equal(c->a.dtype, NX_F32);
    assert_true(element(c, 2) == 3.5);
    nx_tensor_unref(c);
    OK(call("test::add", (nx_value[]){nx_value_int(7), nx_value_tensor(i), nx_value_int(-1)}, &c));
    assert_int_equal(c->a.dtype, NX_I32);
    assert_true(element(c, 2) == 4);
    nx_tensor_unref(c);
    OK(call("test::mul_number.out",
            (nx_value[]){nx_value_tensor(i), nx_value_float(0.1), nx_value_tensor(to)}, &c));
    assert_true(element(c, 0) == (double)0.1f); /* computed in float32 as promotion says, then cast */
    nx_tensor_unref(c);
    OK(call("test::mul_number", (nx_value[]){nx_value_tensor(half), nx_value_float(2.1)}, &c));
    assert_true(element(c, 2) == cast_one(NX_F32, 3 * 2.1f, NX_BF16));
    nx_tensor_unref(c);
    nx_tensor *flag = counted(NX_BOOL, 1, SIZES(1), 1);
    FAILS(call("test::add", (nx_value[]){nx_value_tensor(flag), nx_value_tensor(flag), nx_value_int(1)}, &c),
          NX_NOT_IMPLEMENTED, "'Bool'");
    nx_tensor *all[] = {i, half, to, flag};
    for (int k = 0; k < NX_COUNT(all); k++) nx_tensor_unref(all[k]);
}

static nx_tensor *sum(nx_tensor *x, const int64_t *dims, int n, bool keepdim) {
    nx_tensor *out = NULL;
    OK(call("test::sum",
            (nx_value[]){nx_value_tensor(x), nx_value_ints(dims, n), nx_value_bool(keepdim), NX_VALUE_NONE},
            &out));
    return out;
}

/* Sums over every set of dimensions of a tensor in every order of memory, against plain additions. */
static void test_sums(void **state) {
    static const int64_t size[3] = {70, 3, 130}, orders[4][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    for (int o = 0; o < 4; o++) {
        int64_t stride[3], step = 1;
        for (int k = 2; k >= 0; k--) {
            stride[orders[o][k]] = step;
            step *= size[orders[o][k]];
        }
        nx_tensor *memory = counted(NX_I32, 1, SIZES(70 * 3 * 130), -1000),
                  *x = view_of(memory, 3, size, stride);
        for (int set = 1; set < 8; set++) {
            int64_t dims[3], want[70 * 3 * 130] = {0};
            int n = 0;
            for (int d = 0; d < 3; d++) {
                if (set >> d & 1) dims[n++] = d;
            }
            nx_tensor *s = sum(x, dims, n, true);
            for (int64_t i = 0, at = 0; i < size[0]; i++) {
                for (int64_t j = 0; j < size[1]; j++) {
                    for (int64_t k = 0; k < size[2]; k++, at++) {
                        want[i * s->a.strides[0] * (s->a.sizes[0] > 1) +
                             j * s->a.strides[1] * (s->a.sizes[1] > 1) +
                             k * s->a.strides[2] * (s->a.sizes[2] > 1)] += (int64_t)element(x, at);
                    }
                }
            }
            assert_int_equal(s->a.dtype, NX_I64);
            for (int64_t k = 0; k < s->a.numel; k++) assert_int_equal(((int64_t *)s->a.data)[k], want[k]);
            nx_tensor_unref(s);
        }
        nx_tensor_unref(x);
        nx_tensor_unref(memory);
    }
}

static void test_empty_sums(void **state) {
    nx_tensor *x = counted(NX_F32, 2, SIZES(0, 3), 0), *s = sum(x, SIZES(0), 1, false);
    assert_int_equal(s->a.numel, 3);
    for (int k = 0; k < 3; k++) assert_true(element(s, k) == 0);
    nx_tensor_unref(s);
    s = sum(x, SIZES(1), 1, false);
    assert_int_equal(s->a.numel, 0);
    nx_tensor_unref(s);
    s = sum(x, NULL, 0, false);
    assert_true(element(s, 0) == 0);
    nx_tensor_unref(s);
    nx_tensor_unref(x);
}

/* A full sum has the same bits however many threads there are: chunks are merged in pairs, these in pairs, and so on. */
static void test_sum_is_deterministic(void **state) {
    enum { N = 300001, CHUNKS = (N + NX_REDUCE_CHUNK - 1) / NX_REDUCE_CHUNK };
    nx_tensor *x = counted(NX_F32, 1, SIZES(N), 0);
    for (int i = 0; i < N; i++) ((float *)x->a.data)[i] = 1.0f / (float)(i + 1);
    float of_chunk[CHUNKS] = {0};
    for (int i = 0; i < N; i++) of_chunk[i / NX_REDUCE_CHUNK] += ((float *)x->a.data)[i];
    for (int step = 1; step < CHUNKS; step *= 2) {
        for (int k = 0; k + step < CHUNKS; k += 2 * step) of_chunk[k] += of_chunk[k + step];
    }
    float total = of_chunk[0];
    int threads = nx_num_threads();
    for (int n = 1; n <= 3; n++) {
        nx_set_num_threads(n);
        nx_tensor *s = sum(x, NULL, 0, false);
        assert_true(*(float *)s->a.data == total);
        nx_tensor_unref(s);
    }
    nx_set_num_threads(threads);
    nx_tensor_unref(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_merges_and_orders),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_point_casts_in_pieces),
        cmocka_unit_test(test_point_numbers),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_empty_sums),
        cmocka_unit_test(test_sum_is_deterministic),
    };
    return cmocka_run_group_tests(tests, define_hand_ops, NULL);
}
