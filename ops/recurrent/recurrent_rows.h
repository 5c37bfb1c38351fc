/* What a step of a recurrent layer does with one row of the batch, at each instruction-set level: recurrent_rows.c.
 * n is the number of hidden units; rows are float and do not overlap unless said. */
#ifndef NX_RECURRENT_ROWS_H
#define NX_RECURRENT_ROWS_H

#include "kernel/kernel.h"

/* Forward a row of sums becomes what the derivative reads: of an LSTM the gates i f g o and then the cell; of a GRU r z n
 * and then the part of n that comes from the state. */
typedef struct nx__recurrent_rows {
    /* kept[5n]: four sums; c[n] is the cell, h[n] the new state. */
    void (*lstm)(float *kept, float *c, float *h, int64_t n);
    /* kept[4n]: three sums of the input; state[3n]: those of the state; h[n]: old and new state. */
    void (*gru)(float *kept, const float *state, float *h, int64_t n);
    void (*tanh)(float *sums, float *h, int64_t n);
    void (*relu)(float *sums, float *h, int64_t n);
    /* The gradients of the sums, g[4n] or g[3n] or g[n], from dh[n] of the new state; c: the cell before, dc[n]: the gradient
     * of the cell, after and then before the step. hidden[n], if not NULL: the state made again. */
    void (*lstm_backward)(float *g, float *dc, const float *dh, const float *kept, const float *c, float *hidden, int64_t n);
    /* g of the sums of the input, state_g of those of the state; dh becomes what goes on to the old state h directly. */
    void (*gru_backward)(float *g, float *state_g, float *dh, const float *kept, const float *h, int64_t n);
    void (*tanh_backward)(float *g, const float *dh, const float *h, int64_t n);
    void (*relu_backward)(float *g, const float *dh, const float *h, int64_t n);
    void (*add)(float *x, const float *y, int64_t n);
    /* Adds `rows` rows of y to x[n], one after the other. */
    void (*sum_rows)(double *x, const float *y, int64_t step, int64_t rows, int64_t n);
} nx__recurrent_rows;
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const nx__recurrent_rows nx__recurrent_rows)

#endif
