/* Stages of transforms of lines of `real`: fourier_rows.c includes this file for float and for double. */
#define OF(name) OF_(name, real)
#define OF_(name, type) OF__(name, type)
#define OF__(name, type) name##_of_##type
#define LINE OF(line)
#define TURN(yr, yi, k, wr, wi) /* times a root */ \
    do {                                           \
        real a = (yr), b = (yi);                   \
        to_re[k] = a * (wr) - b * (wi);            \
        to_im[k] = a * (wi) + b * (wr);            \
    } while (0)

/* One group of a stage: parts of `s` numbers, `apart` from each other where they are read, side by side where they are
 * written; wr, wi: the roots by which results 1, 2, ... are multiplied. */
typedef struct LINE { const real *re, *im; real *to_re, *to_im; int64_t s, apart; const real *wr, *wi; } LINE;

static void OF(radix2)(LINE g) {
    const real *restrict re = g.re, *restrict im = g.im;
    real *restrict to_re = g.to_re, *restrict to_im = g.to_im;
    int64_t s = g.s, m = g.apart;
    real wr = g.wr[1], wi = g.wi[1];
    for (int64_t q = 0; q < s; q++) {
        real ar = re[q], ai = im[q], br = re[q + m], bi = im[q + m];
        to_re[q] = ar + br;
        to_im[q] = ai + bi;
        TURN(ar - br, ai - bi, q + s, wr, wi);
    }
}

static void OF(radix3)(LINE g) {
    const real *restrict re = g.re, *restrict im = g.im;
    real *restrict to_re = g.to_re, *restrict to_im = g.to_im;
    const real h = (real)0.86602540378443864676;
    int64_t s = g.s, m = g.apart;
    real wr1 = g.wr[1], wi1 = g.wi[1], wr2 = g.wr[2], wi2 = g.wi[2];
    for (int64_t q = 0; q < s; q++) {
        real sr = re[q + m] + re[q + 2 * m], si = im[q + m] + im[q + 2 * m];
        real dr = (im[q + m] - im[q + 2 * m]) * h, di = (re[q + 2 * m] - re[q + m]) * h; /* -i sin(60) times the difference */
        real mr = re[q] - sr * (real)0.5, mi = im[q] - si * (real)0.5;
        to_re[q] = re[q] + sr;
        to_im[q] = im[q] + si;
        TURN(mr + dr, mi + di, q + s, wr1, wi1);
        TURN(mr - dr, mi - di, q + 2 * s, wr2, wi2);
    }
}

static void OF(radix4)(LINE g) {
    const real *restrict re = g.re, *restrict im = g.im;
    real *restrict to_re = g.to_re, *restrict to_im = g.to_im;
    int64_t s = g.s, m = g.apart;
    real wr1 = g.wr[1], wi1 = g.wi[1], wr2 = g.wr[2], wi2 = g.wi[2], wr3 = g.wr[3], wi3 = g.wi[3];
    for (int64_t q = 0; q < s; q++) {
        real ar = re[q] + re[q + 2 * m], ai = im[q] + im[q + 2 * m], br = re[q] - re[q + 2 * m], bi = im[q] - im[q + 2 * m];
        real cr = re[q + m] + re[q + 3 * m], ci = im[q + m] + im[q + 3 * m];
        real dr = im[q + m] - im[q + 3 * m], di = re[q + 3 * m] - re[q + m]; /* -i times the difference */
        to_re[q] = ar + cr;
        to_im[q] = ai + ci;
        TURN(br + dr, bi + di, q + s, wr1, wi1);
        TURN(ar - cr, ai - ci, q + 2 * s, wr2, wi2);
        TURN(br - dr, bi - di, q + 3 * s, wr3, wi3);
    }
}

static void OF(radix5)(LINE g) {
    const real *restrict re = g.re, *restrict im = g.im;
    real *restrict to_re = g.to_re, *restrict to_im = g.to_im;
    const real c1 = (real)0.30901699437494742410, c2 = (real)-0.80901699437494742410;
    const real s1 = (real)0.95105651629515357212, s2 = (real)0.58778525229247312917;
    int64_t s = g.s, m = g.apart;
    real wr1 = g.wr[1], wi1 = g.wi[1], wr2 = g.wr[2], wi2 = g.wi[2], wr3 = g.wr[3], wi3 = g.wi[3], wr4 = g.wr[4], wi4 = g.wi[4];
    for (int64_t q = 0; q < s; q++) {
        real ar = re[q + m] + re[q + 4 * m], ai = im[q + m] + im[q + 4 * m];
        real br = re[q + 2 * m] + re[q + 3 * m], bi = im[q + 2 * m] + im[q + 3 * m];
        real cr = re[q + m] - re[q + 4 * m], ci = im[q + m] - im[q + 4 * m];
        real dr = re[q + 2 * m] - re[q + 3 * m], di = im[q + 2 * m] - im[q + 3 * m];
        real mr = re[q] + c1 * ar + c2 * br, mi = im[q] + c1 * ai + c2 * bi;
        real nr = re[q] + c2 * ar + c1 * br, ni = im[q] + c2 * ai + c1 * bi;
        real xr = s1 * ci + s2 * di, xi = -(s1 * cr + s2 * dr), yr = s2 * ci - s1 * di, yi = s1 * dr - s2 * cr;
        to_re[q] = re[q] + ar + br;
        to_im[q] = im[q] + ai + bi;
        TURN(mr + xr, mi + xi, q + s, wr1, wi1);
        TURN(nr + yr, ni + yi, q + 2 * s, wr2, wi2);
        TURN(nr - yr, ni - yi, q + 3 * s, wr3, wi3);
        TURN(mr - xr, mi - xi, q + 4 * s, wr4, wi4);
    }
}

/* Any radix, by its definition; cr, ci: its own roots. */
static void OF(radix_any)(LINE g, int r, const real *cr, const real *ci) {
    const real *restrict re = g.re, *restrict im = g.im;
    int64_t s = g.s, m = g.apart;
    for (int j = 0; j < r; j++) {
        real *restrict to_re = g.to_re + j * s, *restrict to_im = g.to_im + j * s;
        for (int64_t q = 0; q < s; q++) {
            to_re[q] = re[q];
            to_im[q] = im[q];
        }
        for (int k = 1; k < r; k++) {
            real wr = cr[j * k % r], wi = ci[j * k % r];
            const real *restrict from_re = re + k * m, *restrict from_im = im + k * m;
            for (int64_t q = 0; q < s; q++) {
                to_re[q] += from_re[q] * wr - from_im[q] * wi;
                to_im[q] += from_re[q] * wi + from_im[q] * wr;
            }
        }
        if (j == 0) continue;
        for (int64_t q = 0; q < s; q++) TURN(to_re[q], to_im[q], q, g.wr[j], g.wi[j]);
    }
}

static bool OF(transform)(const nx__fourier_plan *plan, int64_t width, real *re, real *im, real *re2, real *im2) {
    const real *root_re = plan->root_re, *root_im = plan->root_im;
    int64_t n = plan->n, before = 1;
    for (int stage = 0; stage < plan->n_stages; stage++) {
        int r = plan->radix[stage];
        int64_t m = n / before / r, s = before * width;
        real cr[NX__FOURIER_PRIME], ci[NX__FOURIER_PRIME], wr[NX__FOURIER_PRIME], wi[NX__FOURIER_PRIME];
        for (int j = 0; j < r; j++) {
            cr[j] = root_re[j * (n / r)];
            ci[j] = root_im[j * (n / r)];
        }
        for (int64_t p = 0; p < m; p++) {
            for (int j = 0; j < r; j++) {
                wr[j] = root_re[p * j * before];
                wi[j] = root_im[p * j * before];
            }
            LINE g = {re + p * s, im + p * s, re2 + p * r * s, im2 + p * r * s, s, m * s, wr, wi};
            if (r == 2) OF(radix2)(g);
            else if (r == 3) OF(radix3)(g);
            else if (r == 4) OF(radix4)(g);
            else if (r == 5) OF(radix5)(g);
            else OF(radix_any)(g, r, cr, ci);
        }
        before *= r;
        real *other_re = re, *other_im = im;
        re = re2;
        im = im2;
        re2 = other_re;
        im2 = other_im;
    }
    return plan->n_stages % 2 == 1;
}

#undef OF
#undef OF_
#undef OF__
#undef LINE
#undef TURN
