/* Products of matrices, fills, normal numbers: kernels called as the dispatcher calls them. The vectors of
 * normal numbers are PyTorch's. */
#include "../hand_ops.h"
#include "kernel/kernel.h"

/* The operator `name`, whose result is its first argument or `out`. */
static nx_status compute(const char *name, const nx_value *in) {
    nx_value result;
    NX_TRY(nx_op_call(nx_op_get(name), in, &result));
    nx_tensor_unref(result.tensor);
    return NX_OK;
}

static nx_tensor *view_of(nx_tensor *t, const int64_t *size, const int64_t *stride) {
    nx_meta meta = {.dtype = t->a.dtype,
                    .ndim = 2,
                    .view_of = 0,
                    .size = {size[0], size[1]},
                    .stride = {stride[0], stride[1]}};
    nx_tensor *view;
    OK(nx_tensor_new_view(t->storage, &meta, t->keys, t, &view));
    return view;
}

/* rows x columns with small integers, row-major, column-major or with gaps. */
static nx_tensor *matrix(nx_dtype dtype, int64_t rows, int64_t columns, int layout) {
    nx_tensor *memory = counted(dtype, 1, SIZES(2 * rows * columns + 1), 0);
    int64_t n = memory->a.numel, bytes = (int64_t)nx_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++) {
        double x = (double)(i * 7 % 11) - (dtype == NX_U8 ? 0 : 5);
        nx_cast(dtype, (char *)memory->a.data + i * bytes, bytes, NX_F64, (char *)&x, 8, 1);
    }
    const int64_t strides[3][2] = {{columns, 1}, {1, rows}, {2 * columns, 2}};
    nx_tensor *view = view_of(memory, SIZES(rows, columns), strides[layout]);
    nx_tensor_unref(memory);
    return view;
}

typedef nx_status product(const nx_array *a, const nx_array *b, const nx_array *out);

static void check_product(product *multiply, nx_dtype dtype, const int64_t *mnk, int layout) {
    nx_tensor *a = matrix(dtype, mnk[0], mnk[2], layout % 3),
              *b = matrix(dtype, mnk[2], mnk[1], layout / 3 % 3);
    nx_tensor *out = matrix(dtype, mnk[0], mnk[1], layout / 9);
    OK(multiply(&a->a, &b->a, &out->a));
    for (int64_t i = 0; i < mnk[0]; i++) {
        for (int64_t j = 0; j < mnk[1]; j++) {
            double want = 0;
            for (int64_t k = 0; k < mnk[2]; k++)
                want += element(a, i * mnk[2] + k) * element(b, k * mnk[1] + j);
            nx_cast(dtype, (char *)&want, 8, NX_F64, (char *)&want, 8,
                    1); /* wraps and rounds as the result does */
            nx_cast(NX_F64, (char *)&want, 8, dtype, (char *)&want, 8, 1);
            assert_true(element(out, i * mnk[1] + j) == want);
        }
    }
    nx_tensor_unref(a);
    nx_tensor_unref(b);
    nx_tensor_unref(out);
}

static nx_status multiply_tiny(const nx_array *a, const nx_array *b, const nx_array *out) {
    return nx_gemm_tiny(NULL, a, b, out) ? NX_OK : nx_gemm_plain(a, b, out);
}

static void test_products(void **state) {
    static const int64_t shapes[][3] = {{1, 1, 1},  {3, 5, 4}, {17, 33, 9}, {5, 1, 16},
                                        {1, 20, 3}, {4, 4, 0}, {0, 3, 2}};
    for (int dtype = NX_U8; dtype <= NX_F64; dtype++) {
        for (int s = 0; s < NX_COUNT(shapes); s++) {
            for (int layout = 0; layout < 27; layout++) {
                check_product(nx_gemm_plain, (nx_dtype)dtype, shapes[s], layout);
                check_product(nx_gemm_ref, (nx_dtype)dtype, shapes[s], layout);
                check_product(multiply_tiny, (nx_dtype)dtype, shapes[s], layout);
                if (dtype >= NX_F32) check_product(nx_gemm_blas, (nx_dtype)dtype, shapes[s], layout);
            }
        }
    }
}

/* self + a b for every way in which self can lie: rows, columns, gaps, one row, one column, the result itself. */
static void check_sum(const int64_t *mnk, int layout, int way, bool tiny) {
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    nx_tensor *a = matrix(NX_F32, m, k, layout % 2), *b = matrix(NX_F32, k, n, layout / 2 % 2);
    nx_tensor *out = matrix(NX_F32, m, n, layout / 4), *self = matrix(NX_F32, way == 3 ? 1 : m, way == 4 ? 1 : n, way % 3);
    nx_tensor *first = matrix(NX_F32, m, n, layout / 4);
    const nx_array *from = way == 5 ? &out->a : &self->a;
    if (!tiny || !nx_gemm_tiny(from, &a->a, &b->a, &out->a)) OK(nx_gemm_add(from, &a->a, &b->a, 1, 1, &out->a));
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double want = way == 5 ? element(first, i * n + j) : element(self, way == 3 ? j : way == 4 ? i : i * n + j);
            for (int64_t l = 0; l < k; l++) want += element(a, i * k + l) * element(b, l * n + j);
            assert_true(element(out, i * n + j) == want);
        }
    }
    nx_tensor *all[] = {a, b, out, self, first};
    for (int i = 0; i < NX_COUNT(all); i++) nx_tensor_unref(all[i]);
}

static void test_sums_with_products(void **state) {
    static const int64_t shapes[][3] = {{13, 33, 4}, {2, 2, 3}, {4, 4, 6}, {9, 6, 3}, {27, 64, 300}, {12, 530, 5}, {40, 31, 513},
                                        {29, 530, 7}};
    for (int s = 0; s < NX_COUNT(shapes); s++) {
        for (int layout = 0; layout < 8; layout++) {
            for (int way = 0; way < 12; way++) check_sum(shapes[s], layout, way / 2, way % 2);
        }
    }
    for (int64_t rows = 1; rows <= 30; rows++) { /* panels of every height, one after the other */
        for (int layout = 0; layout < 8; layout++) check_sum((int64_t[]){rows, 37, 19}, layout, 0, false);
    }
}

/* Whoever splits a product into small ones sees no difference. */
static void test_tiny_products_have_the_same_bits(void **state) {
    static const int64_t shapes[][3] = {{4, 4, 4}, {2, 9, 7}, {5, 3, 16}, {4, 4, 5}, {8, 4, 7}, {1, 6, 12}, {12, 2, 3}};
    if (!nx_product_runs()) return;
    for (int s = 0; s < NX_COUNT(shapes); s++) {
        int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        if (m == 1 && nx_blas_get() == NULL) continue; /* the products of vectors are BLAS's, where there is one */
        nx_tensor *a = matrix(NX_F32, m, k, s % 3), *b = matrix(NX_F32, k, n, 1 - s % 2), *self = matrix(NX_F32, 1, n, 0);
        nx_tensor *tiny = matrix(NX_F32, m, n, 0), *large = matrix(NX_F32, m, n, 0), *all[] = {a, b, self, tiny, large};
        for (int t = 0; t < 3; t++) {
            float *at = all[t]->storage->data;
            for (size_t i = 0; i < all[t]->storage->bytes / sizeof *at; i++) at[i] = 1 / (at[i] + 7.3f);
        }
        OK(nx_gemm_add(&self->a, &a->a, &b->a, 1, 1, &large->a));
        assert_true(nx_gemm_tiny(&self->a, &a->a, &b->a, &tiny->a));
        assert_memory_equal(tiny->a.data, large->a.data, (size_t)(m * n) * sizeof(float));
        for (int i = 0; i < NX_COUNT(all); i++) nx_tensor_unref(all[i]);
    }
}

static bool counts(nx_counts part, int64_t seen, int64_t row, int64_t column) {
    return part == NX_SEEN_COLUMNS ? row < seen + column : column < seen + row;
}

/* Where i sees j no further than seen + i: the bits of the whole product. What is not seen of a is 0; of b no two numbers are alike. */
static void check_seen(nx_counts part, int64_t seen, const int64_t *mnk, int layout) {
    enum { ROOM = 1 << 16 };
    static float a[ROOM], b[ROOM], whole[ROOM], partly[ROOM];
    const int64_t m = mnk[0], n = mnk[1], k = mnk[2], a_row = layout & 1 ? 1 : k, a_k = layout & 1 ? m : 1;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t q = 0; q < k; q++)
            a[i * a_row + q * a_k] = part == NX_SEEN_RESULT || counts(part, seen, i, q) ? 1 + (float)((i + q) % 5) : 0;
    }
    for (int64_t i = 0; i < n * k; i++) b[i] = 1 / (7.3f + (float)i);
    for (int64_t i = 0; i < m * n; i++) whole[i] = partly[i] = (float)i;
    nx_product p = {.m = m, .n = n, .k = k, .a = a, .b = b, .a_row_step = a_row, .a_k_step = a_k, .c = whole, .c_row_step = n,
                    .b_k_step = layout & 2 ? 1 : n, .b_column_step = layout & 2 ? k : 1, .add = layout & 4};
    OK(nx_product_run(&p));
    p.part = part;
    p.seen = seen;
    p.c = partly;
    OK(nx_product_run(&p));
    for (int64_t i = 0; i < m * n; i++) {
        if (part != NX_SEEN_RESULT || counts(part, seen, i / n, i % n)) assert_true(whole[i] == partly[i]);
    }
}

static void test_products_of_what_is_seen(void **state) {
    static const int64_t shapes[][3] = {{64, 64, 32}, {64, 32, 64}, {13, 100, 9}, {7, 48, 50}, {290, 33, 20}, {20, 70, 400}, {3, 16, 5}};
    static const int64_t seen[] = {1, 0, -5, -40, 17, 300};
    if (!nx_product_runs()) return;
    for (int s = 0; s < NX_COUNT(shapes); s++) {
        for (int way = 0; way < 24 * NX_COUNT(seen); way++)
            check_seen(NX_SEEN_RESULT + way % 3, seen[way / 24], shapes[s], way / 3 % 8);
    }
}

/* A matrix packed once gives the bits of one that is packed on the way, and nothing behind a row is written. */
static void check_packed(int64_t m, int64_t n, int64_t k, bool add) {
    enum { GAP = 5 };
    nx_tensor *a = matrix(NX_F32, m, k, 0), *b = matrix(NX_F32, k, n, 1), *start = matrix(NX_F32, 1, n, 0);
    nx_tensor *one = matrix(NX_F32, m, n + GAP, 0), *other = matrix(NX_F32, m, n + GAP, 0), *all[] = {a, b, start, one, other};
    for (int t = 0; t < 3; t++) {
        float *at = all[t]->storage->data;
        for (size_t i = 0; i < all[t]->storage->bytes / sizeof *at; i++) at[i] = 1 / (at[i] + 7.3f);
    }
    nx_product p = {.m = m, .n = n, .k = k, .a = a->a.data, .b = b->a.data, .a_row_step = k, .a_k_step = 1, .b_k_step = 1,
                    .b_column_step = k, .c = one->a.data, .c_row_step = n + GAP, .start = add ? NULL : start->a.data, .add = add};
    float *packed = nx_room_new(nx_product_packed(n, k) * sizeof *packed);
    assert_non_null(packed);
    nx_product_pack(&p, packed);
    OK(nx_product_run(&p));
    p.c = other->a.data;
    nx_product_run_packed(&p, packed);
    assert_memory_equal(one->a.data, other->a.data, (size_t)(m * (n + GAP)) * sizeof(float));
    nx_room_free(packed);
    for (int i = 0; i < NX_COUNT(all); i++) nx_tensor_unref(all[i]);
}

static void test_packed_products_have_the_same_bits(void **state) {
    static const int64_t rows[] = {1, 4, 6, 8, 16, 19, 300}, columns[] = {1, 16, 33, 64, 130, 530}, depths[] = {3, 64, 385};
    for (int i = 0; i < NX_COUNT(rows); i++) {
        for (int j = 0; j < NX_COUNT(columns); j++) {
            for (int way = 0; way < 2 * NX_COUNT(depths); way++) check_packed(rows[i], columns[j], depths[way / 2], way % 2);
        }
    }
}

static void test_product_over_an_operand(void **state) {
    nx_tensor *a = counted(NX_F32, 2, SIZES(2, 2), 1);
    OK(compute("aten::mm.out", (nx_value[]){nx_value_tensor(a), nx_value_tensor(a), nx_value_tensor(a)}));
    const double want[] = {7, 10, 15, 22};
    for (int i = 0; i < 4; i++) assert_true(element(a, i) == want[i]);
    nx_tensor_unref(a);
}

/* Several tiles and cells of them, whole and in part, in every layout; where the processor has a matrix unit, in it. */
static void test_tiles(void **state) {
    static const int64_t shapes[][3] = {{33, 65, 47}, {129, 34, 33}, {40, 270, 64}, {131, 257, 32}, {2, 100, 70}, {100, 1, 40}};
    for (int s = 0; s < NX_COUNT(shapes); s++) {
        for (int layout = 0; layout < 27; layout++) check_product(nx_gemm_blas, NX_BF16, shapes[s], layout);
    }
}

static void check_failed_allocations(nx_dtype dtype, int64_t n_rows) {
    nx_tensor *a = matrix(dtype, n_rows, n_rows, 2), *out = matrix(dtype, n_rows, n_rows, 2);
    product *const ways[] = {nx_gemm_blas, nx_gemm_plain, nx_gemm_ref};
    OK(nx_gemm_blas(&a->a, &a->a, &out->a)); /* what the BLAS library keeps */
    for (int w = 0; w < NX_COUNT(ways); w++) {
        bool failed = true;
        for (int n = 1; failed; n++) {
            nx_alloc_fail_at(n);
            int64_t live = nx_alloc_live();
            nx_status status = ways[w](&a->a, &a->a, &out->a);
            failed = nx_alloc_failed();
            assert_int_equal(status, failed ? NX_NO_MEMORY : NX_OK);
            assert_int_equal(nx_alloc_live(), live);
            nx_alloc_fail_at(0);
        }
    }
    nx_tensor_unref(a);
    nx_tensor_unref(out);
}

static void test_failed_allocations(void **state) {
    check_failed_allocations(NX_F32, 9);
    check_failed_allocations(NX_BF16, 9);
    check_failed_allocations(NX_BF16, 150);
}

static nx_status fill(nx_tensor *x, nx_value value) {
    return compute("aten::fill_.Scalar", (nx_value[]){nx_value_tensor(x), value});
}

static void test_fill(void **state) {
    nx_tensor *x = counted(NX_F32, 2, SIZES(3, 4), 0), *part = view_of(x, SIZES(3, 2), SIZES(4, 2)),
              *b = counted(NX_U8, 1, SIZES(2), 0);
    OK(fill(part, nx_value_float(1.5)));
    for (int i = 0; i < 12; i++) assert_true(element(x, i) == (i % 2 ? i : 1.5));
    OK(fill(b, nx_value_int(-1)));
    assert_true(element(b, 1) == 255);
    FAILS(fill(b, nx_value_int(256)), NX_RUNTIME,
          "value cannot be converted to type uint8_t without overflow");
    FAILS(fill(b, nx_value_float(-1)), NX_RUNTIME,
          "value cannot be converted to type uint8_t without overflow");
    FAILS(fill(x, nx_value_float(1e300)), NX_RUNTIME,
          "value cannot be converted to type float without overflow");
    nx_tensor_unref(x);
    nx_tensor_unref(part);
    nx_tensor_unref(b);
}

/* ---- normal numbers ------------------------------------------------------------------------------------ */
static void draw(nx_tensor *x, uint64_t seed) {
    nx_generator_seed(nx_generator_default(), seed);
    OK(compute("aten::normal_",
               (nx_value[]){nx_value_tensor(x), nx_value_float(0), nx_value_float(1), NX_VALUE_NONE}));
}

static nx_tensor *normals(nx_dtype dtype, int64_t n, uint64_t seed) {
    nx_tensor *x = counted(dtype, 1, &n, 0);
    draw(x, seed);
    return x;
}

static void expect_bits(int64_t n, uint64_t seed, int first, const uint32_t *bits, int n_bits) {
    nx_tensor *x = normals(NX_F32, n, seed);
    for (int i = 0; i < n_bits; i++) assert_int_equal(((uint32_t *)x->a.data)[first + i], bits[i]);
    nx_tensor_unref(x);
}

static void test_blocks_of_normals(void **state) {
    static const uint32_t seed_0[] = {0xbf901b85, 0xbf93808a, 0xbe804bd6, 0xbede255d, 0x3f594515, 0x3f312783,
                                      0xbea1cc6d, 0xc0075fc1, 0x3ea50138, 0xbfa1b4f4, 0x3eb330ff, 0x3e9dc3bb,
                                      0x3df56f77, 0x3f9e6b93, 0x3f8ef28e, 0xbe7d367c};
    static const uint32_t seed_1234[] = {
        0xbde4ccb4, 0xbefe410f, 0x3e26fccb, 0xbf61b64a, 0x3d5cc673, 0x3f2b1a8a, 0xbd745b89, 0xbeef5be4,
        0xbe5c6b44, 0x3f624b4f, 0xbf42279c, 0xbebcdc41, 0xbeaf4e37, 0xbfb373d0, 0x3ea42bf9, 0xbf82cc3a};
    for (int reference = 0; reference < 2; reference++) { /* at the best level and at base */
        nx_flag.reference = reference;
        expect_bits(16, 0, 0, seed_0, 16);
        expect_bits(16, 1234, 0, seed_1234, 16);
        expect_bits(20, 0, 0, seed_0, 4); /* what comes after is drawn again */
    }
    nx_flag.reference = false;
    nx_tensor *x = normals(NX_F32, 20, 0);
    const float tail[] = {-0.84367675f, 0.9318266f, 1.2590092f, 2.0049806f, 0.053736903f};
    for (int i = 0; i < 5; i++) assert_true(((float *)x->a.data)[15 + i] == tail[i]);
    nx_tensor_unref(x);
}

static void test_normals_of_other_dtypes(void **state) {
    const double half[] = {-1.125, -1.15625, -0.25, -0.43359375, -1.3515625},
                 f64[] = {-2.310411800234176, -0.3732508612577643};
    nx_tensor *x = normals(NX_BF16, 20, 0);
    for (int i = 0; i < 5; i++) assert_true(element(x, i) == half[i]);
    nx_tensor_unref(x);
    x = normals(NX_F64, 16, 0);
    for (int i = 0; i < 2; i++) assert_true(element(x, i) - f64[i] < 1e-15 && f64[i] - element(x, i) < 1e-15);
    nx_tensor_unref(x);
}

static void test_single_normals(void **state) {
    const float want[] = {1.5409961f, -0.2934289f, -2.1787894f, 0.56843126f, -1.0845224f};
    nx_tensor *x = normals(NX_F32, 5, 0);
    for (int i = 0; i < 5; i++) assert_true(((float *)x->a.data)[i] == want[i]);
    assert_true(nx_generator_default()->has_normal);
    nx_tensor_unref(x);
    x = counted(NX_F32, 2, SIZES(5, 4), 0); /* many, but not row-major: in order of memory */
    nx_tensor *turned = view_of(x, SIZES(4, 5), SIZES(1, 4));
    draw(turned, 0);
    for (int i = 0; i < 5; i++) assert_true(((float *)x->a.data)[i] == want[i]);
    nx_tensor_unref(x);
    nx_tensor_unref(turned);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),           cmocka_unit_test(test_tiny_products_have_the_same_bits),
        cmocka_unit_test(test_sums_with_products), cmocka_unit_test(test_products_of_what_is_seen),
        cmocka_unit_test(test_product_over_an_operand), cmocka_unit_test(test_packed_products_have_the_same_bits),
        cmocka_unit_test(test_tiles), cmocka_unit_test(test_failed_allocations), cmocka_unit_test(test_fill),
        cmocka_unit_test(test_blocks_of_normals),  cmocka_unit_test(test_normals_of_other_dtypes),
        cmocka_unit_test(test_single_normals),
    };
    return cmocka_run_group_tests(tests, define_hand_ops, NULL);
}
