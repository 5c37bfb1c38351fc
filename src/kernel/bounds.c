/* The bounds of element.h, in a file that nothing else is compiled with: their values must stay unknown where they are used. */
#include "kernel/element.h"

const struct nx__bounds nx__bounds = {.exp_low = -176, .exp_high = 89, .sigmoid_low = -89.7f, .sigmoid_high = 87,
                                      .tanh_high = 10, .erf_high = 3.95f, .bell_low = -88, .long_exp_low = -1418.3, .long_exp_high = 710};
