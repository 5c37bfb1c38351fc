/* How a length is transformed, see fourier_plan.h: its radices, its roots to the last digit, the chirp of lengths with a
 * large prime. */
#include "fourier_plan.h"

#include <assert.h>
#include <math.h>

/* The radices of n up to `most`, or false: a prime is larger. Powers of two are eights with as few fours as it takes. */
static bool factor(int64_t n, int most, nx__fourier_plan *plan) {
    int twos = 0, fours = 0;
    plan->n = n;
    plan->n_stages = 0;
    for (; n % 2 == 0; n /= 2) twos++;
    for (; twos % 3 != 0 && twos > 1; twos -= 2) fours++;
    for (; twos > 1; twos -= 3) plan->radix[plan->n_stages++] = 8;
    for (; fours > 0; fours--) plan->radix[plan->n_stages++] = 4;
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

/* Bytes of one number of a block or of a line alone. */
static size_t row_bytes(const nx__fourier *f, bool alone) {
    return !alone ? NX__FOURIER_BYTES : f->wide ? sizeof(double) : sizeof(float);
}

size_t nx__fourier_part_bytes(const nx__fourier *fourier, bool alone) {
    size_t bytes = (size_t)fourier->room * row_bytes(fourier, alone);
    return (bytes + NX__FOURIER_BYTES - 1) / NX__FOURIER_BYTES * NX__FOURIER_BYTES;
}

static bool goes_along(const nx__fourier_plan *plan, const nx__fourier_fns *fns) {
    return fns->along > 0 && plan->n % (8 * fns->along) == 0 && plan->radix[0] == 8;
}

bool nx__fourier_along(int64_t n, bool of_double) {
    nx__fourier_plan plan;
    return factor(n, NX__FOURIER_SMALL, &plan) && goes_along(&plan, &rows_here()->of[of_double ? NX__FOURIER_WIDE : NX__FOURIER_NARROW]);
}

/* The chirp, and the transform of what it is divided by, which is made in double: its length is a power of two of 256 or
 * more, which goes along at every level. */
static nx_status fill_chirp(nx__fourier *f) {
    int64_t n = f->n, m = f->plan.n;
    nx__fourier exact;
    NX_TRY(nx__fourier_new(m, true, false, &exact));
    assert(exact.along);
    size_t part = nx__fourier_part_bytes(&exact, true);
    char *memory = nx_alloc(4 * part);
    if (memory == NULL) {
        nx__fourier_free(&exact);
        return nx_fail_memory(4 * part);
    }
    memset(memory, 0, 2 * part);
    double *re = (double *)(void *)memory, *im = (double *)(void *)(memory + part);
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        double c, s;
        nx__fourier_root(square, 2 * n, &c, &s);
        set_root(f->wide, f->chirp_re, f->chirp_im, k, c, s);
        re[k] = re[(m - k) % m] = c / (double)m;
        im[k] = im[(m - k) % m] = -s / (double)m;
    }
    void *found[2];
    nx__fourier_run(&exact, true, re, im, memory + 2 * part, &found[0], &found[1]);
    for (int64_t k = 0; k < m; k++)
        set_root(f->wide, f->response_re, f->response_im, k, ((double *)found[0])[k], ((double *)found[1])[k]);
    nx_free(memory);
    nx__fourier_free(&exact);
    return NX_OK;
}

/* See nx__fourier_plan. */
static void fill_along(const nx__fourier_plan *plan, bool wide, void *along_re, void *along_im) {
    const void *re = plan->root_re, *im = plan->root_im;
    int64_t m = plan->n / 8;
    for (int64_t at = 0; at < 7 * m; at++) {
        int64_t k = at % m * (at / m + 1);
        double c = wide ? ((const double *)re)[k] : (double)((const float *)re)[k];
        double s = wide ? ((const double *)im)[k] : (double)((const float *)im)[k];
        set_root(wide, along_re, along_im, at, c, s);
    }
}

nx_status nx__fourier_new(int64_t n, bool of_double, bool halves, nx__fourier *out) {
    *out = (nx__fourier){.n = n, .room = (halves ? 2 * n : n) + 1, .wide = of_double};
    if (!factor(n, NX__FOURIER_SMALL, &out->plan)) {
        out->by_chirp = !factor(n, NX__FOURIER_PRIME, &out->plan);
        out->wide = of_double || !out->by_chirp;
    }
    if (out->by_chirp) {
        int64_t m = 1;
        while (m < 2 * n - 1) m *= 2;
        if (out->room < m) out->room = m;
        if (!factor(m, 2, &out->plan)) return nx_fail(NX_RUNTIME, "fft: a length is too large");
    }
    out->fns = &rows_here()->of[of_double ? NX__FOURIER_WIDE : out->wide ? NX__FOURIER_WIDENED : NX__FOURIER_NARROW];
    out->along = goes_along(&out->plan, out->fns);
    size_t m = (size_t)out->plan.n, one = out->wide ? sizeof(double) : sizeof(float), half = halves ? (size_t)n / 2 + 1 : 0;
    size_t along = out->along ? m / 8 * 7 : 0, chirp = out->by_chirp ? (size_t)n : 0, response = out->by_chirp ? m : 0;
    size_t bytes = one * 2 * (along + m + half + chirp + response);
    char *at = out->memory = nx_alloc(bytes);
    if (at == NULL) return nx_fail_memory(bytes);
    char *root = at + one * 2 * along, *half_at = root + one * 2 * m, *chirp_at = half_at + one * 2 * half;
    char *response_at = chirp_at + one * 2 * chirp;
    out->plan.root_re = root;
    out->plan.root_im = root + one * m;
    out->half_re = halves ? half_at : NULL;
    out->half_im = half_at + one * half;
    out->chirp_re = chirp_at;
    out->chirp_im = chirp_at + one * chirp;
    out->response_re = response_at;
    out->response_im = response_at + one * m;
    fill_roots(out->plan.n, out->plan.n, out->wide, root, root + one * m);
    if (halves) fill_roots(2 * n, n / 2 + 1, out->wide, out->half_re, out->half_im);
    if (out->along) { /* whole vectors, hence in front */
        out->plan.along_re = at;
        out->plan.along_im = at + one * along;
        fill_along(&out->plan, out->wide, at, at + one * along);
    }
    out->cost = out->plan.n * (out->wide ? 16 : 8) * (out->plan.n_stages + 1) * (out->by_chirp ? 2 : 1);
    if (!out->by_chirp) return NX_OK;
    nx_status status = fill_chirp(out);
    if (status != NX_OK) nx__fourier_free(out);
    return status;
}

void nx__fourier_free(nx__fourier *fourier) { nx_free(fourier->memory); }

static void convolve(const nx__fourier *f, bool alone, char *re, char *im, char *more, void **found_re, void **found_im) {
    size_t part = nx__fourier_part_bytes(f, alone), from = (size_t)f->n * row_bytes(f, alone);
    size_t rest = (size_t)f->plan.n * row_bytes(f, alone) - from;
    char *re2 = more, *im2 = more + part;
    void (*multiply)(int64_t, const void *, const void *, void *, void *) = alone ? f->fns->multiply_line : f->fns->multiply;
    bool (*run)(const nx__fourier_plan *, void *, void *, void *, void *) = alone ? f->fns->run_line : f->fns->run;
    multiply(f->n, f->chirp_re, f->chirp_im, re, im);
    memset(re + from, 0, rest);
    memset(im + from, 0, rest);
    if (run(&f->plan, re, im, re2, im2)) {
        char *other_re = re, *other_im = im;
        re = re2;
        im = im2;
        re2 = other_re;
        im2 = other_im;
    }
    multiply(f->plan.n, f->response_re, f->response_im, re, im);
    if (run(&f->plan, im, re, im2, re2)) re = re2, im = im2; /* backward */
    multiply(f->n, f->chirp_re, f->chirp_im, re, im);
    *found_re = re;
    *found_im = im;
}

void nx__fourier_run(const nx__fourier *f, bool alone, void *re, void *im, void *more, void **found_re, void **found_im) {
    if (f->by_chirp) {
        convolve(f, alone, re, im, more, found_re, found_im);
        return;
    }
    char *more_im = (char *)more + nx__fourier_part_bytes(f, alone);
    bool moved = (alone ? f->fns->run_line : f->fns->run)(&f->plan, re, im, more, more_im);
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
