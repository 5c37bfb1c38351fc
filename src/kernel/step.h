/* Steps of optimizers on rows of numbers, at each instruction-set level: step.c. */
#ifndef NX_KERNEL_STEP_H
#define NX_KERNEL_STEP_H

#include "iter/iter.h"

/* What is the same for all elements of a tensor. */
typedef struct nx__step_facts {
    bool amsgrad, decoupled, nesterov, first;
    double sign;                    /* of the gradient: -1 when what was differentiated is to grow */
    double scale;                   /* gradients are divided by it first and written; 1: they stay */
    double rate;                    /* the change is added times this */
    double decay;                   /* what is added to the gradient; decoupled: the parameter's factor */
    double beta1, beta2, root, eps; /* Adam; `root` of the second bias correction */
    double momentum, dampening;     /* SGD */
} nx__step_facts;

/* n elements of parameter, gradient and state, all float or all double; NULL: state that is not read. */
typedef void nx__step_fn(const nx__step_facts *f, void *parameter, void *grad, void *first, void *second,
                         void *most, int64_t n);
typedef struct nx__step_rows { nx__step_fn *adam, *sgd; } nx__step_rows;
typedef nx__step_rows nx__step_pair[2]; /* float, double */
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__step_pair nx__step_rows)

#endif
