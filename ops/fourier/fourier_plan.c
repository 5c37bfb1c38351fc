/* How a length is transformed, see fourier_plan.h: its radices, its roots to the last digit, the chirp of lengths with a
 * large prime. */
#include "fourier_plan.h"

#include <math.h>

/* The radices of n up to `most`, or false: a prime is larger. Powers of two are eights with as few fours as it takes. */
static bool factor(int64_t n, int most, nx__fourier_plan *plan) {
    int twos = 0;
    plan->n = n;
    plan->n_stages = 0;
    for (; n % 2 == 0; n /= 2) twos++;
    for (; twos % 3 != 0 && twos > 1; twos -= 2) plan->radix[plan->n_stages++] = 4;
    for (; twos > 1; twos -= 3) plan->radix[plan->n_stages++] = 8;
    if (twos == 1) plan->radix[plan->n_stages++] = 2;
    for (int prime = 3; prime <= most && n > 1; prime += 2) {
        for (; n % prime == 0; n /= prime) plan->radix[plan->n_stages++] = prime;
    }
    return n == 1;
}

/* From an angle of at most an eighth of the circle. */
void nx__fourier_root(int64_t k, int64_t n, double *re, double *im) {
    int64_t eighth = 8 * k / n, rest = 8 * k - eighth * n; /* angle: (eighth + rest/n) * pi/4 */
    bool falls = eighth % 2 == 1;
    double angle = (double)(falls ? n - rest : rest) / (double)n * 0.78539816339744830962, c = cos(angle), s = sin(angle);
    int64_t quarter = (eighth + 1) / 2 % 4; /* the axis that the angle is measured from */
    if (falls) s = -s;
    *re = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
    *im = -(quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c);
}

static void set_root(bool wide, void *re, void *im, int64_t k, double c, double s) {
    if (wide) {
        ((double *)re)[k] = c;
        ((double *)im)[k] = s;
    } else {
        ((float *)re)[k] = (float)c;
        ((float *)im)[k] = (float)s;
    }
}

/* Roots 0 .. count of n; those of the other eighths follow from the first where all are asked for. */
static void fill_roots(int64_t n, int64_t count, bool wide, void *re, void *im) {
    bool mirrors = n % 8 == 0 && count == n;
    for (int64_t k = 0; k < (mirrors ? n / 8 + 1 : count); k++) {
        double c, s;
        nx__fourier_root(k, n, &c, &s);
        set_root(wide, re, im, k, c, s);
        if (!mirrors) continue;
        set_root(wide, re, im, n / 4 - k, -s, -c);
        set_root(wide, re, im, n / 4 + k, s, -c);
        set_root(wide, re, im, n / 2 - k, -c, s);
        set_root(wide, re, im, n / 2 + k, -c, -s);
        set_root(wide, re, im, n / 4 * 3 - k, s, c);
        set_root(wide, re, im, n / 4 * 3 + k, -s, c);
        if (k > 0) set_root(wide, re, im, n - k, c, -s);
    }
}

static const nx__fourier_rows *rows_here(void) {
    static const nx__fourier_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, &nx__fourier_rows)};
    return rows[nx_level()];
}

size_t nx__fourier_part_bytes(const nx__fourier *fourier) { return (size_t)fourier->room * NX__FOURIER_BYTES; }

/* The chirp and the transform of what it is divided by, of which the block's first line is taken. */
static nx_status fill_chirp(nx__fourier *f) {
    int64_t n = f->n, m = f->plan.n, lanes = nx__fourier_lanes(true);
    size_t part = nx__fourier_part_bytes(f);
    char *memory = nx_alloc(4 * part);
    if (memory == NULL) return nx_fail_memory(4 * part);
    memset(memory, 0, 2 * part);
    double *re = (double *)(void *)memory, *im = (double *)(void *)(memory + part);
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        nx__fourier_root(square, 2 * n, &f->chirp_re[k], &f->chirp_im[k]);
        re[k * lanes] = f->chirp_re[k] / (double)m;
        im[k * lanes] = -f->chirp_im[k] / (double)m;
        if (k == 0) continue;
        re[(m - k) * lanes] = re[k * lanes];
        im[(m - k) * lanes] = im[k * lanes];
    }
    if (f->fns->run(&f->plan, re, im, memory + 2 * part, memory + 3 * part)) {
        re = (double *)(void *)(memory + 2 * part);
        im = (double *)(void *)(memory + 3 * part);
    }
    for (int64_t k = 0; k < m; k++) {
        f->response_re[k] = re[k * lanes];
        f->response_im[k] = im[k * lanes];
    }
    nx_free(memory);
    return NX_OK;
}

nx_status nx__fourier_new(int64_t n, bool of_double, bool halves, nx__fourier *out) {
    *out = (nx__fourier){.n = n, .room = (halves ? 2 * n : n) + 1, .wide = of_double};
    if (!factor(n, NX__FOURIER_SMALL, &out->plan)) {
        out->wide = true;
        out->by_chirp = !factor(n, NX__FOURIER_PRIME, &out->plan);
    }
    if (out->by_chirp) {
        int64_t m = 1;
        while (m < 2 * n - 1) m *= 2;
        if (out->room < m) out->room = m;
        if (!factor(m, 2, &out->plan)) return nx_fail(NX_RUNTIME, "fft: a length is too large");
    }
    out->fns = &rows_here()->of[of_double ? NX__FOURIER_WIDE : out->wide ? NX__FOURIER_WIDENED : NX__FOURIER_NARROW];
    size_t m = (size_t)out->plan.n, one = out->wide ? sizeof(double) : sizeof(float), half = halves ? (size_t)n / 2 + 1 : 0;
    size_t bytes = one * 2 * (m + half) + sizeof(double), more = out->by_chirp ? sizeof(double) * 2 * ((size_t)n + m) : 0;
    char *at = out->memory = nx_alloc(bytes + more);
    if (at == NULL) return nx_fail_memory(bytes + more);
    out->plan.root_re = at;
    out->plan.root_im = at + one * m;
    out->half_re = halves ? at + one * 2 * m : NULL;
    out->half_im = at + one * (2 * m + half);
    fill_roots(out->plan.n, out->plan.n, out->wide, at, at + one * m);
    if (halves) fill_roots(2 * n, n / 2 + 1, out->wide, out->half_re, out->half_im);
    out->cost = out->plan.n * (out->wide ? 16 : 8) * (out->plan.n_stages + 1) * (out->by_chirp ? 2 : 1);
    if (!out->by_chirp) return NX_OK;
    out->chirp_re = (double *)(void *)(at + bytes / sizeof(double) * sizeof(double));
    out->chirp_im = out->chirp_re + n;
    out->response_re = out->chirp_im + n;
    out->response_im = out->response_re + m;
    nx_status status = fill_chirp(out);
    if (status != NX_OK) nx__fourier_free(out);
    return status;
}

void nx__fourier_free(nx__fourier *fourier) { nx_free(fourier->memory); }

static void convolve(const nx__fourier *f, char *re, char *im, char *more, void **found_re, void **found_im) {
    size_t part = nx__fourier_part_bytes(f), from = (size_t)f->n * NX__FOURIER_BYTES;
    size_t rest = (size_t)f->plan.n * NX__FOURIER_BYTES - from;
    char *re2 = more, *im2 = more + part;
    f->fns->multiply(f->n, f->chirp_re, f->chirp_im, re, im);
    memset(re + from, 0, rest);
    memset(im + from, 0, rest);
    if (f->fns->run(&f->plan, re, im, re2, im2)) {
        char *other_re = re, *other_im = im;
        re = re2;
        im = im2;
        re2 = other_re;
        im2 = other_im;
    }
    f->fns->multiply(f->plan.n, f->response_re, f->response_im, re, im);
    if (f->fns->run(&f->plan, im, re, im2, re2)) re = re2, im = im2; /* backward */
    f->fns->multiply(f->n, f->chirp_re, f->chirp_im, re, im);
    *found_re = re;
    *found_im = im;
}

void nx__fourier_run(const nx__fourier *f, void *re, void *im, void *more, void **found_re, void **found_im) {
    if (f->by_chirp) {
        convolve(f, re, im, more, found_re, found_im);
        return;
    }
    char *more_im = (char *)more + nx__fourier_part_bytes(f);
    bool moved = f->fns->run(&f->plan, re, im, more, more_im);
    *found_re = moved ? more : re;
    *found_im = moved ? more_im : im;
}

int64_t nx__fourier_split(int64_t n, bool of_double, int64_t least, int64_t *columns) {
    nx__fourier_plan plan;
    if (!factor(n, of_double ? NX__FOURIER_PRIME : NX__FOURIER_SMALL, &plan)) return 0;
    int64_t best = 0;
    for (int64_t rows = (int64_t)sqrt((double)n); rows >= least && best == 0; rows--) {
        if (n % rows == 0) best = rows;
    }
    if (best == 0 || n / best < least) return 0;
    *columns = n / best;
    return best;
}
