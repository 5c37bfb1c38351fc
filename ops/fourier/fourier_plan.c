/* How a length is transformed, see fourier_plan.h: its radices, its roots to the last digit, the chirp of lengths with a
 * large prime. */
#include "fourier_plan.h"

#include <math.h>

/* The radices of n, or false: a prime is too large. */
static bool factor(int64_t n, nx__fourier_plan *plan) {
    static const int primes[] = {4, 2, 3, 5, 7, 11, 13, 17, 19, NX__FOURIER_PRIME};
    plan->n = n;
    plan->n_stages = 0;
    for (size_t k = 0; k < sizeof primes / sizeof *primes; k++) {
        for (; n % primes[k] == 0; n /= primes[k]) plan->radix[plan->n_stages++] = primes[k];
    }
    return n == 1;
}

/* exp(-2 pi i k / n), from an angle of at most an eighth of the circle. */
static void root(int64_t k, int64_t n, double *re, double *im) {
    int64_t eighth = 8 * k / n, rest = 8 * k - eighth * n; /* angle: (eighth + rest/n) * pi/4 */
    bool falls = eighth % 2 == 1;
    double angle = (double)(falls ? n - rest : rest) / (double)n * 0.78539816339744830962, c = cos(angle), s = sin(angle);
    int64_t quarter = (eighth + 1) / 2 % 4; /* the axis that the angle is measured from */
    if (falls) s = -s;
    *re = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
    *im = -(quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c);
}

static void fill_roots(nx__fourier_plan *plan, bool wide, void *re, void *im) {
    plan->root_re = re;
    plan->root_im = im;
    for (int64_t k = 0; k < plan->n; k++) {
        double c, s;
        root(k, plan->n, &c, &s);
        if (wide) {
            ((double *)re)[k] = c;
            ((double *)im)[k] = s;
        } else {
            ((float *)re)[k] = (float)c;
            ((float *)im)[k] = (float)s;
        }
    }
}

static const nx__fourier_rows *rows_here(void) {
    static const nx__fourier_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__fourier_rows)};
    return rows[nx_level()];
}

/* The chirp and the transform of what it is divided by; `room` has four times the plan's length. */
static void fill_chirp(nx__fourier *f, double *room) {
    int64_t n = f->n, m = f->plan.n;
    double *re = room, *im = room + m;
    memset(room, 0, sizeof *room * 2 * (size_t)m);
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        root(square, 2 * n, &f->chirp_re[k], &f->chirp_im[k]);
        re[k] = f->chirp_re[k] / (double)m;
        im[k] = -f->chirp_im[k] / (double)m;
        if (k == 0) continue;
        re[m - k] = re[k];
        im[m - k] = im[k];
    }
    bool swapped = rows_here()->of_double(&f->plan, 1, re, im, room + 2 * m, room + 3 * m);
    memcpy(f->response_re, swapped ? room + 2 * m : re, sizeof *re * (size_t)m);
    memcpy(f->response_im, swapped ? room + 3 * m : im, sizeof *im * (size_t)m);
}

nx_status nx__fourier_new(int64_t n, bool wide, nx__fourier *out) {
    *out = (nx__fourier){.n = n, .room = n, .wide = wide};
    out->by_chirp = !factor(n, &out->plan);
    if (out->by_chirp) {
        int64_t m = 1;
        while (m < 2 * n - 1) m *= 2;
        out->room = m;
        out->wide = true;
        if (!factor(m, &out->plan)) return nx_fail(NX_RUNTIME, "fft: a length is too large");
    }
    size_t m = (size_t)out->plan.n, bytes = (out->wide ? sizeof(double) : sizeof(float)) * 2 * m;
    size_t more = out->by_chirp ? sizeof(double) * (2 * (size_t)n + 6 * m) : 0;
    char *at = out->memory = nx_alloc(bytes + more);
    if (at == NULL) return nx_fail_memory(bytes + more);
    fill_roots(&out->plan, out->wide, at, at + bytes / 2);
    out->cost = out->room * (out->wide ? 16 : 8) * (out->plan.n_stages + 1) * (out->by_chirp ? 2 : 1);
    if (!out->by_chirp) return NX_OK;
    double *tables = (double *)(void *)(at + bytes);
    out->chirp_re = tables;
    out->chirp_im = tables + n;
    out->response_re = tables + 2 * n;
    out->response_im = out->response_re + m;
    fill_chirp(out, out->response_im + m);
    return NX_OK;
}

void nx__fourier_free(nx__fourier *fourier) { nx_free(fourier->memory); }

/* (re, im) times (wr, wi), number by number of each line. */
static void multiply(double *re, double *im, const double *wr, const double *wi, int64_t n, int64_t width) {
    for (int64_t k = 0; k < n; k++) {
        for (int64_t j = k * width; j < (k + 1) * width; j++) {
            double a = re[j], b = im[j];
            re[j] = a * wr[k] - b * wi[k];
            im[j] = a * wi[k] + b * wr[k];
        }
    }
}

static void convolve(const nx__fourier *f, int64_t width, double *re, double *im, double *more, void **found_re, void **found_im) {
    int64_t n = f->n, m = f->plan.n;
    double *re2 = more, *im2 = more + m * width;
    multiply(re, im, f->chirp_re, f->chirp_im, n, width);
    memset(re + n * width, 0, sizeof *re * (size_t)((m - n) * width));
    memset(im + n * width, 0, sizeof *im * (size_t)((m - n) * width));
    if (rows_here()->of_double(&f->plan, width, re, im, re2, im2)) {
        double *other_re = re, *other_im = im;
        re = re2;
        im = im2;
        re2 = other_re;
        im2 = other_im;
    }
    multiply(re, im, f->response_re, f->response_im, m, width);
    bool moved = rows_here()->of_double(&f->plan, width, im, re, im2, re2); /* backward */
    if (moved) re = re2, im = im2;
    multiply(re, im, f->chirp_re, f->chirp_im, n, width);
    *found_re = re;
    *found_im = im;
}

void nx__fourier_run(const nx__fourier *f, int64_t width, void *re, void *im, void *more, void **found_re, void **found_im) {
    if (f->by_chirp) {
        convolve(f, width, re, im, more, found_re, found_im);
        return;
    }
    bool moved;
    char *more_im = (char *)more + (f->wide ? sizeof(double) : sizeof(float)) * (size_t)(f->room * width);
    if (f->wide) moved = rows_here()->of_double(&f->plan, width, re, im, more, (double *)(void *)more_im);
    else moved = rows_here()->of_float(&f->plan, width, re, im, more, (float *)(void *)more_im);
    *found_re = moved ? more : re;
    *found_im = moved ? more_im : im;
}
