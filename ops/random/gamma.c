/* Kernels of gamma.op. The samplers are Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26,
 * 2000), and Hoermann, "The generation of binomial random variates" (J. Stat. Comp. Sim. 46, 1993), in the order of draws of
 * PyTorch's. The slopes are integrals without cancellation, which a substitution makes smooth and short. */
#include "gen/kernels.h"
#include "draw.h"
#include "kernel/special.h"

#include <float.h>

/* ---- walking ------------------------------------------------------------------------------------------------------- */
typedef struct drawing {
    nx_dtype dtype;
    nx_generator *g;
    double (*of)(struct drawing *d, const double *x);
    int n_in;
} drawing;

static void draw_run(void *arg, char *const *ptrs, const int64_t *steps, int64_t n) {
    drawing *d = arg;
    for (int64_t i = 0; i < n; i++) {
        double x[3];
        for (int k = 0; k < d->n_in; k++) nx_cast(NX_F64, (char *)&x[k], 0, d->dtype, ptrs[k + 1] + i * steps[k + 1], 0, 1);
        double y = d->of(d, x);
        nx_cast(d->dtype, ptrs[0] + i * steps[0], 0, NX_F64, (const char *)&y, 0, 1);
    }
}

static nx_status draw(nx_run *run, drawing *d, const nx_array *out, const nx_array *const *in) {
    nx_walk walk;
    if (d->g) NX_TRY(nx__check_generator(run, d->g));
    nx_walk_start(&walk, out->ndim, out->sizes);
    nx_walk_add(&walk, out);
    for (int k = 0; k < d->n_in; k++) nx_walk_add(&walk, in[k]);
    nx_walk_merge(&walk);
    if (d->g) nx_generator_lock(d->g);
    nx_walk_run(&walk, draw_run, d);
    if (d->g) nx_generator_unlock(d->g);
    return NX_OK;
}

/* ---- gamma --------------------------------------------------------------------------------------------------------- */
/* `alpha` and what follows from it alone are rounded as numbers of the sampled type are. */
static double next_gamma(nx_generator *g, double alpha, bool is_double) {
    double scale = 1;
    if (!(alpha > 0)) return alpha == 0 ? 0 : NAN;
    if (alpha < 1) {
        double power = is_double ? 1 / alpha : (double)(1 / (float)alpha);
        scale = pow(1 - nx__uniform_53(g), power);
        alpha = is_double ? alpha + 1 : (double)((float)alpha + 1);
    }
    double d = is_double ? alpha - (double)(1.0f / 3.0f) : (double)((float)alpha - 1.0f / 3.0f), c = 1 / sqrt(9 * d);
    for (;;) {
        double x, y;
        do {
            x = nx__next_normal(g);
            y = 1 + c * x;
        } while (y <= 0);
        double v = y * y * y, u = 1 - nx__uniform_53(g), xx = x * x;
        if (u < 1 - (double)0.0331f * xx * xx || log(u) < 0.5 * xx + d * (1 - v + log(v))) return scale * d * v;
    }
}

static double least_of(nx_dtype dtype) {
    return dtype == NX_F64 ? DBL_MIN : dtype == NX_F16 ? 0x1p-14 : FLT_MIN;
}

static double gamma_at(drawing *d, const double *x) {
    double y = next_gamma(d->g, x[0], d->dtype == NX_F64), least = least_of(d->dtype);
    return y < least ? least : y;
}

nx_status nx__gamma_elements(nx_run *run, const nx_array *self, nx_generator *generator, nx_array *out) {
    return draw(run, &(drawing){(nx_dtype)self->dtype, generator, gamma_at, 1}, out, (const nx_array *const[]){self});
}

/* ---- Dirichlet ----------------------------------------------------------------------------------------------------- */
nx_status nx__dirichlet_rows(nx_run *run, const nx_array *self, nx_generator *generator, nx_array *out) {
    nx_dtype dtype = (nx_dtype)self->dtype;
    int64_t n = self->ndim ? self->sizes[self->ndim - 1] : 1;
    nx_tensor *alpha, *gamma;
    NX_TRY(nx__check_generator(run, generator));
    NX_TRY(nx_tensor_new(NX_F64, self->ndim, self->sizes, NX_CPU, &alpha));
    nx_status status = nx_tensor_new(NX_F64, self->ndim, self->sizes, NX_CPU, &gamma);
    if (status != NX_OK) {
        nx_tensor_unref(alpha);
        return status;
    }
    nx_copy_cast(nx_arr(alpha), self);
    const double *a = nx_arr(alpha)->data;
    double *y = nx_arr(gamma)->data, least = least_of(dtype);
    double most = dtype == NX_F64 ? 1 - 0x1p-53 : dtype == NX_F32 ? 1 - 0x1p-24 : dtype == NX_F16 ? 1 - 0x1p-11 : 1 - 0x1p-8;
    nx_generator_lock(generator);
    for (int64_t i = 0; i < self->numel; i++) y[i] = fmax(next_gamma(generator, a[i], true), DBL_MIN);
    nx_generator_unlock(generator);
    for (int64_t row = 0; row < self->numel; row += n) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++) sum += y[row + k];
        for (int64_t k = 0; k < n; k++) y[row + k] = fmin(most, fmax(least, y[row + k] / sum));
    }
    nx_copy_cast(out, nx_arr(gamma));
    nx_tensor_unref(alpha);
    nx_tensor_unref(gamma);
    return NX_OK;
}

/* ---- slopes -------------------------------------------------------------------------------------------------------- */
/* The integral over s > 0 of f, which decays within some `width`s: s = width*exp(t - exp(-t)), equal steps of t. Where a
 * parameter is below 1 it may go on over all scales up to `longest`: s = exp(t). */
typedef struct integrand { double a, b, x, c, width, longest; } integrand;
static double integral(const integrand *p, double (*f)(const integrand *p, double s)) {
    const double step = 1.0 / 16, wide = 1.0 / 5;
    double sum = 0;
    if (p->longest > 0) {
        for (double t = log(fmax(p->width, DBL_MIN)) - 20, end = log(45 * fmin(p->longest, DBL_MAX / 45)); t < end; t += wide) {
            double s = exp(t), y = f(p, s) * s;
            sum += isfinite(y) ? y : 0;
        }
        return sum * wide;
    }
    for (int k = -64; k <= 80; k++) {
        double t = k * step, e = exp(-t), s = p->width * exp(t - e);
        double y = s > 0 ? f(p, s) * s * (1 + e) : 0;
        sum += isfinite(y) ? y : 0;
    }
    return sum * step;
}

/* Above x: t = x + s. Below: t = x*exp(-s). The factor ln t - digamma(a) keeps its sign on the side that is taken. */
static double gamma_above(const integrand *p, double s) {
    return exp((p->a - 1) * log1p(s / p->x) - s) * (log(p->x + s) - p->c);
}
static double gamma_below(const integrand *p, double s) {
    return p->x * exp(-p->a * s - p->x * expm1(-s)) * (p->c + s - log(p->x));
}

static double gamma_slope_at(drawing *d, const double *in) {
    integrand p = {.a = in[0], .x = in[1], .c = nx__value_digamma(in[0])};
    (void)d;
    if (!(p.x > 0) || !(p.a > 0)) return p.x == 0 ? 0 : NAN;
    bool above = log(p.x) > p.c;
    double rate = above ? 1 - (p.a - 1) / p.x : p.a - p.x;
    p.width = above ? 1 / (fmax(rate, 0) + 1 / sqrt(p.x)) : 1 / (fmax(rate, 0) + sqrt(p.a < 1 ? p.a * p.a : p.a));
    p.longest = p.a >= 1 ? 0 : above ? 1 : 1 / p.a;
    return integral(&p, above ? gamma_above : gamma_below);
}

nx_status nx__gamma_slope(nx_run *run, const nx_array *self, const nx_array *output, nx_array *out) {
    return draw(run, &(drawing){(nx_dtype)self->dtype, NULL, gamma_slope_at, 2}, out, (const nx_array *const[]){self, output});
}

/* Of a beta number x: below t = x*exp(-s), above 1 - t = (1 - x)*exp(-s). */
static double beta_below(const integrand *p, double s) {
    double t = p->x * exp(-s);
    return p->x * exp(-p->a * s + (p->b - 1) * (log1p(-t) - log1p(-p->x))) * (p->c - log(p->x) + s);
}
static double beta_above(const integrand *p, double s) {
    double left = (1 - p->x) * exp(-s), t = 1 - left;
    return (1 - p->x) * exp(-p->b * s + (p->a - 1) * (log1p(-left) - log(p->x))) * (log(t) - p->c);
}

static double beta_slope_at(drawing *d, const double *in) {
    integrand p = {.a = in[1], .b = in[2] - in[1], .x = in[0]};
    (void)d;
    if (!(p.x > 0 && p.x < 1 && p.a > 0 && p.b > 0)) return 0;
    p.c = nx__value_digamma(p.a) - nx__value_digamma(p.a + p.b);
    bool above = log(p.x) > p.c;
    double left = 1 - p.x, rate = above ? p.b - (p.a - 1) * left / p.x : p.a - (p.b - 1) * p.x / left;
    double least = above ? p.b : p.a;
    p.width = 1 / (fmax(rate, 0) + (least < 1 ? least : sqrt(least)));
    if (fmin(p.a, p.b) < 1) {
        p.longest = 1 / least;
        p.width = fmin(p.width, fmin(p.x, left));
    }
    return integral(&p, above ? beta_above : beta_below) / left;
}

nx_status nx__dirichlet_slope(nx_run *run, const nx_array *x, const nx_array *alpha, const nx_array *total, nx_array *out) {
    return draw(run, &(drawing){(nx_dtype)x->dtype, NULL, beta_slope_at, 3}, out, (const nx_array *const[]){x, alpha, total});
}

/* ---- binomial ------------------------------------------------------------------------------------------------------ */
/* What Stirling's formula leaves of ln(k!). */
static double tail_of(double k) {
    return lgamma(k + 1) - ((k + 0.5) * log(k + 1) - (k + 1) + 0.91893853320467274178);
}

static double binomial_rejecting(nx_generator *g, double n, double p) {
    double root = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * root, a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5;
    double v_r = 0.92 - 4.2 / b, r = p / (1 - p), alpha = (2.83 + 5.1 / b) * root, m = floor((n + 1) * p);
    for (;;) {
        double u = nx__uniform_53(g) - 0.5, v = nx__uniform_53(g), us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
        if (us >= 0.07 && v <= v_r) return k;
        if (k < 0 || k > n) continue;
        double bound = (m + 0.5) * log((m + 1) / (r * (n - m + 1))) + (n + 1) * log((n - m + 1) / (n - k + 1)) +
                       (k + 0.5) * log(r * (n - k + 1) / (k + 1)) + tail_of(m) + tail_of(n - m) - tail_of(k) - tail_of(n - k);
        if (log(v * alpha / (a / (us * us) + b)) <= bound) return k;
    }
}

/* The gaps between successes are geometric numbers. */
static double binomial_by_gaps(nx_generator *g, double n, double p) {
    double at = 0, found = 0, log_fail = log1p(-p);
    for (;;) {
        at += ceil(log(nx__uniform_53(g)) / log_fail);
        if (at > n) return found;
        found++;
    }
}

static double binomial_at(drawing *d, const double *x) {
    double n = x[0], p = x[1];
    if (n <= 0 || p <= 0) return 0;
    if (p >= 1) return n;
    if (isnan(p) || isnan(n)) return NAN;
    double q = p <= 0.5 ? p : 1 - p;
    double k = n * q >= 10 ? binomial_rejecting(d->g, n, q) : binomial_by_gaps(d->g, n, q);
    return p <= 0.5 ? k : n - k;
}

nx_status nx__binomial_elements(nx_run *run, const nx_array *count, const nx_array *prob, nx_generator *generator,
                                nx_array *out) {
    return draw(run, &(drawing){(nx_dtype)count->dtype, generator, binomial_at, 2}, out, (const nx_array *const[]){count, prob});
}
