/* A product and the sum or difference that takes it, in one pass, each rounded: what two loops of eager mode compute, without what
 * lies between them. Compiled once a level with NX_LEVEL_NAME set; the tile machine reaches them through nx_pair_get(). Operands
 * lie side by side or are one number throughout (`held`). */
#include "iter/iter.h"

#define ADD(product, c) ((product) + (c))
#define SUB(product, c) ((product) - (c))
#define RSUB(product, c) ((c) - (product))

#define DEFINE(name, real, WITH)                                                                                    \
    static inline __attribute__((always_inline)) void name##_run_##real(                                            \
        real *out, const real *a, const real *b, bool b_held, const real *c, bool c_held, int64_t n) {              \
        const real b_number = b_held ? *b : 0, c_number = c_held ? *c : 0;                                          \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {                                                      \
            out[i] = WITH(a[i] * (b_held ? b_number : b[i]), c_held ? c_number : c[i]);                             \
        }                                                                                                           \
    }                                                                                                               \
    static void name##_##real(char *to, const char *first, const char *second, bool b_held, const char *third,      \
                              bool c_held, int64_t n) {                                                             \
        real *out = (real *)to;                                                                                     \
        const real *a = (const real *)first, *b = (const real *)second, *c = (const real *)third;                   \
        if (b_held && c_held) name##_run_##real(out, a, b, true, c, true, n);                                       \
        else if (b_held) name##_run_##real(out, a, b, true, c, false, n);                                           \
        else if (c_held) name##_run_##real(out, a, b, false, c, true, n);                                           \
        else name##_run_##real(out, a, b, false, c, false, n);                                                      \
    }
#define DEFINE_ALL(real) DEFINE(add, real, ADD) DEFINE(sub, real, SUB) DEFINE(rsub, real, RSUB)
DEFINE_ALL(float)
DEFINE_ALL(double)

#define ROW(real) {[NX_PAIR_ADD] = add_##real, [NX_PAIR_SUB] = sub_##real, [NX_PAIR_RSUB] = rsub_##real}
nx_pair_fn *const NX_AT_LEVEL(nx__pairs)[2][NX_N_PAIRS] = {ROW(float), ROW(double)};
