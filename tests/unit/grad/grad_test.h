/* Shared by the tests of src/grad: small float tensors, operators by name, allocations that fail. */
#ifndef NX_GRAD_TEST_H
#define NX_GRAD_TEST_H

#include "../calls.h"
#include "grad/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define OK(expr) assert_int_equal((expr), NX_OK)
#define FAILS(expr, code, part)                                              \
    do {                                                                     \
        assert_int_equal((expr), NX_##code);                                 \
        if (strstr(nx_error_message(), (part)) == NULL) fail_msg("%s", nx_error_message()); \
    } while (0)
#define SIZES(...) (const int64_t[]){__VA_ARGS__}, NX_COUNT(((const int64_t[]){__VA_ARGS__}))
#define T(t) nx_value_tensor(t)

/* start, start + 1, ... */
static inline nx_tensor *counting(const int64_t *sizes, int ndim, double start) {
    nx_tensor *t;
    OK(nx_tensor_new(NX_F32, ndim, sizes, NX_CPU, &t));
    for (int64_t i = 0; i < t->a.numel; i++) ((float *)t->a.data)[i] = (float)(start + (double)i);
    return t;
}
static inline nx_tensor *leaf(const int64_t *sizes, int ndim, double start) {
    nx_tensor *t = counting(sizes, ndim, start);
    OK(nx_tensor_set_requires_grad(t, true));
    return t;
}
#define CALL(name, ...)                                        \
    ({                                                         \
        nx_tensor *called_ = NULL;                                  \
        OK(call(name, (nx_value[]){__VA_ARGS__}, &called_));   \
        called_;                                               \
    })
static inline nx_tensor *add(nx_tensor *a, nx_tensor *b) {
    return CALL("aten::add.Tensor", T(a), T(b), nx_value_int(1));
}
static inline nx_tensor *mul(nx_tensor *a, nx_tensor *b) { return CALL("aten::mul.Tensor", T(a), T(b)); }
static inline nx_tensor *sum(nx_tensor *a) { return CALL("aten::sum", T(a), NX_VALUE_NONE); }
static inline nx_tensor *take(nx_tensor *made, nx_tensor **of) { /* frees the operand, too */
    nx_tensor_unref(*of);
    *of = made;
    return made;
}
static inline void assert_values(const nx_tensor *t, const double *expected, int n) {
    assert_non_null(t);
    assert_int_equal(t->a.numel, n);
    assert_true(t->a.contiguous);
    for (int i = 0; i < n; i++) {
        double value = t->a.dtype == NX_F64 ? ((double *)t->a.data)[i] : ((float *)t->a.data)[i];
        if (value != expected[i]) fail_msg("element %d is %g, expected %g", i, value, expected[i]);
    }
}
#define VALUES(...) (const double[]){__VA_ARGS__}, NX_COUNT(((const double[]){__VA_ARGS__}))
static inline void drop(int n, ...) {
    va_list list;
    va_start(list, n);
    while (n-- > 0) nx_tensor_unref(va_arg(list, nx_tensor *));
    va_end(list);
}
#define DROP(...) drop(NX_COUNT(((nx_tensor *[]){__VA_ARGS__})), __VA_ARGS__)

/* Runs `body` with every allocation failing once: it returns a status, loses nothing, and is right
 * afterwards. */
static inline void fail_every_allocation(nx_status (*body)(void)) {
    OK(body()); /* what is made once is made */
    nx_alloc_watch(true);
    OK(body());
    int64_t before = nx_alloc_live();
    for (int n = 1;; n++) {
        nx_alloc_fail_at(n);
        nx_status status = body();
        bool failed = nx_alloc_failed();
        nx_alloc_fail_at(0);
        if (nx_alloc_live() != before)
            fail_msg("allocation %d failed: %lld blocks are left", n, (long long)(nx_alloc_live() - before));
        assert_int_equal(status, failed ? NX_NO_MEMORY : NX_OK);
        if (!failed) break;
    }
    OK(body());
    nx_alloc_watch(false);
}

#endif
