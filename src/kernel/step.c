/* Steps of optimizers, one pass over parameter, gradient and state; see step.h. Compiled once a level with
 * NX_LEVEL_NAME set; ops/train/optim.c calls it. Where the level can, a product and its sum are rounded once, as in
 * PyTorch's operators lerp_, addcmul_ and add_: a step gives the numbers of the loop over operators that it
 * stands for. Everything stands here twice, for float and for double. */
#include "kernel/element.h"
#include "kernel/step.h"

#include <math.h>

#define ADD_float nx__fmaf
#define ADD_double nx__fma
#define ROOT_float sqrtf
#define ROOT_double sqrt
#define ALONG(n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); i++)

#define DEFINE_ADAM(real)                                                                                   \
    static inline __attribute__((always_inline)) void adam_as_##real(                                       \
        const nx__step_facts *f, real *restrict p, const real *restrict grad, real *restrict m,             \
        real *restrict v, real *restrict most, int64_t n, bool amsgrad, bool decoupled) {                   \
        const real sign = (real)f->sign, decay = (real)f->decay, shrink = (real)f->decay;                   \
        const real beta2 = (real)f->beta2, rest2 = (real)(1 - f->beta2), eps = (real)f->eps;                \
        const real rate = (real)f->rate, root = (real)f->root, rest1 = (real)(1 - f->beta1);                \
        const bool small = fabs((double)rest1) < 0.5;                                                       \
        const real weight = small ? rest1 : rest1 - 1;                                                      \
        ALONG(n) {                                                                                          \
            real x = p[i], g = sign * grad[i], mean = m[i], square = v[i];                                  \
            if (decoupled) x *= shrink;                                                                     \
            else g = ADD_##real(x, decay, g);                                                               \
            mean = ADD_##real(weight, g - mean, small ? mean : g);                                          \
            square = ADD_##real(rest2 * g, g, square * beta2);                                              \
            m[i] = mean;                                                                                    \
            v[i] = square;                                                                                  \
            if (amsgrad) square = most[i] = square > most[i] || square != square ? square : most[i];        \
            p[i] = x + rate * mean / (ROOT_##real(square) / root + eps);                                    \
        }                                                                                                   \
    }                                                                                                       \
    static void adam_##real(const nx__step_facts *f, void *p, void *g, void *m, void *v, void *most,        \
                            int64_t n) {                                                                    \
        if (f->amsgrad) adam_as_##real(f, p, g, m, v, most, n, true, f->decoupled);                         \
        else if (f->decoupled) adam_as_##real(f, p, g, m, v, most, n, false, true);                         \
        else adam_as_##real(f, p, g, m, v, most, n, false, false);                                          \
    }
DEFINE_ADAM(float)
DEFINE_ADAM(double)

#define DEFINE_SGD(real)                                                                                    \
    static inline __attribute__((always_inline)) void sgd_as_##real(                                        \
        const nx__step_facts *f, real *restrict p, const real *restrict grad, real *restrict running,       \
        int64_t n, bool moves, bool first, bool nesterov) {                                                 \
        const real sign = (real)f->sign, decay = (real)f->decay, rate = (real)f->rate;                      \
        const real momentum = (real)f->momentum, rest = (real)(1 - f->dampening);                           \
        ALONG(n) {                                                                                          \
            real x = p[i], g = ADD_##real(x, decay, sign * grad[i]);                                        \
            if (moves) {                                                                                    \
                real sum = first ? g : ADD_##real(g, rest, running[i] * momentum);                          \
                running[i] = sum;                                                                           \
                g = nesterov ? ADD_##real(sum, momentum, g) : sum;                                          \
            }                                                                                               \
            p[i] = ADD_##real(g, rate, x);                                                                  \
        }                                                                                                   \
    }                                                                                                       \
    static void sgd_##real(const nx__step_facts *f, void *p, void *g, void *running, void *unused, void *no,\
                           int64_t n) {                                                                     \
        if (f->momentum == 0) sgd_as_##real(f, p, g, NULL, n, false, false, false);                         \
        else if (f->first) sgd_as_##real(f, p, g, running, n, true, true, f->nesterov);                     \
        else sgd_as_##real(f, p, g, running, n, true, false, f->nesterov);                                  \
    }
DEFINE_SGD(float)
DEFINE_SGD(double)

const nx__step_rows NX_AT_LEVEL(nx__step_rows)[2] = {{adam_float, sgd_float}, {adam_double, sgd_double}};
