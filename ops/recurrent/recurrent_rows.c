/* The rows of a recurrent layer's steps, see recurrent_rows.h. Compiled once a level with NX_LEVEL_NAME set. What waits for
 * other gates is computed in a loop of its own: the processor would not look far enough ahead to work on several units. */
#include "recurrent_rows.h"

static void lstm(float *restrict kept, float *restrict c, float *restrict h, int64_t n) {
    float *restrict i = kept, *restrict f = kept + n, *restrict g = kept + 2 * n, *restrict o = kept + 3 * n;
    float *restrict cell = kept + 4 * n;
    for (int64_t k = 0; k < n; k++) {
        float in = nx_element_sigmoidf(i[k]), forget = nx_element_sigmoidf(f[k]), new = nx_element_tanhf(g[k]);
        float out = nx_element_sigmoidf(o[k]), now = forget * c[k] + in * new;
        i[k] = in;
        f[k] = forget;
        g[k] = new;
        o[k] = out;
        c[k] = cell[k] = now;
    }
    for (int64_t k = 0; k < n; k++) h[k] = o[k] * nx_element_tanhf(cell[k]);
}

static void gru(float *restrict kept, const float *restrict state, float *restrict h, int64_t n) {
    float *restrict r = kept, *restrict z = kept + n, *restrict m = kept + 2 * n, *restrict part = kept + 3 * n;
    for (int64_t k = 0; k < n; k++) {
        r[k] = nx_element_sigmoidf(r[k] + state[k]);
        z[k] = nx_element_sigmoidf(z[k] + state[n + k]);
        part[k] = state[2 * n + k];
    }
    for (int64_t k = 0; k < n; k++) {
        float new = nx_element_tanhf(m[k] + r[k] * part[k]);
        m[k] = new;
        h[k] = (h[k] - new) * z[k] + new;
    }
}

static void tanh_row(float *restrict sums, float *restrict h, int64_t n) {
    for (int64_t k = 0; k < n; k++) h[k] = nx_element_tanhf(sums[k]);
}

static void relu_row(float *restrict sums, float *restrict h, int64_t n) {
    for (int64_t k = 0; k < n; k++) h[k] = sums[k] < 0 ? 0 : sums[k]; /* NaN stays */
}

static void lstm_backward(float *restrict grad, float *restrict dc, const float *restrict dh, const float *restrict kept,
                          const float *restrict c, float *restrict hidden, int64_t n) {
    const float *restrict i = kept, *restrict f = kept + n, *restrict g = kept + 2 * n, *restrict o = kept + 3 * n;
    const float *restrict cell = kept + 4 * n;
    for (int64_t k = 0; k < n; k++) {
        float t = nx_element_tanhf(cell[k]), d = dc[k] + dh[k] * o[k] * (1 - t * t);
        grad[k] = d * g[k] * i[k] * (1 - i[k]);
        grad[n + k] = d * c[k] * f[k] * (1 - f[k]);
        grad[2 * n + k] = d * i[k] * (1 - g[k] * g[k]);
        grad[3 * n + k] = dh[k] * t * o[k] * (1 - o[k]);
        dc[k] = d * f[k];
        if (hidden) hidden[k] = o[k] * t;
    }
}

static void gru_backward(float *restrict grad, float *restrict state_grad, float *restrict dh, const float *restrict kept,
                         const float *restrict h, int64_t n) {
    const float *restrict r = kept, *restrict z = kept + n, *restrict m = kept + 2 * n, *restrict part = kept + 3 * n;
    for (int64_t k = 0; k < n; k++) {
        float dm = dh[k] * (1 - z[k]) * (1 - m[k] * m[k]), dz = dh[k] * (h[k] - m[k]) * z[k] * (1 - z[k]);
        float dr = dm * part[k] * r[k] * (1 - r[k]);
        grad[k] = state_grad[k] = dr;
        grad[n + k] = state_grad[n + k] = dz;
        grad[2 * n + k] = dm;
        state_grad[2 * n + k] = dm * r[k];
        dh[k] *= z[k];
    }
}

static void tanh_backward(float *restrict g, const float *restrict dh, const float *restrict h, int64_t n) {
    for (int64_t k = 0; k < n; k++) g[k] = dh[k] * (1 - h[k] * h[k]);
}

static void relu_backward(float *restrict g, const float *restrict dh, const float *restrict h, int64_t n) {
    for (int64_t k = 0; k < n; k++) g[k] = h[k] <= 0 ? 0 : dh[k];
}

static void add(float *restrict x, const float *restrict y, int64_t n) {
    for (int64_t k = 0; k < n; k++) x[k] += y[k];
}

static void sum_rows(double *restrict x, const float *restrict y, int64_t step, int64_t rows, int64_t n) {
    for (; rows >= 4; rows -= 4, y += 4 * step) {
        for (int64_t k = 0; k < n; k++) x[k] = x[k] + y[k] + y[step + k] + y[2 * step + k] + y[3 * step + k];
    }
    for (; rows > 0; rows--, y += step) {
        for (int64_t k = 0; k < n; k++) x[k] += y[k];
    }
}

const nx__recurrent_rows NX_AT_LEVEL(nx__recurrent_rows) = {
    lstm, gru, tanh_row, relu_row, lstm_backward, gru_backward, tanh_backward, relu_backward, add, sum_rows};
