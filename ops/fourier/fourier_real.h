/* Blocks of lines whose parts are of type `real`: fourier_rows.c includes this file for float and for double. A vector is
 * what the level holds; a row, an element of all lines, is PIECES of them. The macros stay for fourier_line.h. */
#undef OF
#undef OF_
#undef OF__
#undef wide
#undef PIECES
#undef STAGE
#undef TURN
#undef SUM
#undef DIFFERENCE
#undef TURNED_DIFFERENCE
#define OF(name) OF_(name, real)
#define OF_(name, type) OF__(name, type)
#define OF__(name, type) name##_of_##type
#define wide OF(wide)
#define PIECES (NX__FOURIER_BYTES / (4 * NX_LANES))
typedef real wide __attribute__((vector_size(4 * NX_LANES), may_alias));

/* A stage reads r parts of `s` vectors, `m` vectors apart, and writes them side by side, result j times root j; `turns` is
 * false where all those roots are 1. */
#define STAGE(name)                                                                                                      \
    static inline __attribute__((always_inline)) void OF(name)(const wide *restrict re, const wide *restrict im,           \
                                                               wide *restrict to_re, wide *restrict to_im, int64_t s,      \
                                                               int64_t m, const real *turn_re, const real *turn_im, bool turns)
#define TURN(j, yr, yi)                                   \
    do {                                                  \
        const wide a = (yr), b = (yi);                    \
        if (turns) {                                      \
            to_re[q + (j) * s] = a * turn_re[j] - b * turn_im[j];   \
            to_im[q + (j) * s] = a * turn_im[j] + b * turn_re[j];   \
        } else {                                          \
            to_re[q + (j) * s] = a;                       \
            to_im[q + (j) * s] = b;                       \
        }                                                 \
    } while (0)
#define SUM(to, a, b) const wide to##r = a##r + b##r, to##i = a##i + b##i
#define DIFFERENCE(to, a, b) const wide to##r = a##r - b##r, to##i = a##i - b##i
#define TURNED_DIFFERENCE(to, a, b) const wide to##r = a##i - b##i, to##i = b##r - a##r /* times -i */
#define READ(to, k) const wide to##r = re[q + (k) * m], to##i = im[q + (k) * m]

STAGE(radix2) {
    for (int64_t q = 0; q < s; q++) {
        READ(a, 0); READ(b, 1);
        to_re[q] = ar + br;
        to_im[q] = ai + bi;
        TURN(1, ar - br, ai - bi);
    }
}

STAGE(radix3) {
    const real h = (real)0.86602540378443864676;
    for (int64_t q = 0; q < s; q++) {
        READ(x, 0); READ(y, 1); READ(z, 2);
        SUM(s, y, z);
        TURNED_DIFFERENCE(t, y, z);
        const wide dr = tr * h, di = ti * h, mr = xr - sr * (real)0.5, mi = xi - si * (real)0.5;
        to_re[q] = xr + sr;
        to_im[q] = xi + si;
        TURN(1, mr + dr, mi + di);
        TURN(2, mr - dr, mi - di);
    }
}

STAGE(radix4) {
    for (int64_t q = 0; q < s; q++) {
        READ(w, 0); READ(x, 1); READ(y, 2); READ(z, 3);
        SUM(a, w, y);
        DIFFERENCE(b, w, y);
        SUM(c, x, z);
        TURNED_DIFFERENCE(d, x, z);
        to_re[q] = ar + cr;
        to_im[q] = ai + ci;
        TURN(1, br + dr, bi + di);
        TURN(2, ar - cr, ai - ci);
        TURN(3, br - dr, bi - di);
    }
}

STAGE(radix5) {
    const real c1 = (real)0.30901699437494742410, c2 = (real)-0.80901699437494742410;
    const real s1 = (real)0.95105651629515357212, s2 = (real)0.58778525229247312917;
    for (int64_t q = 0; q < s; q++) {
        READ(v, 0); READ(w, 1); READ(x, 2); READ(y, 3); READ(z, 4);
        SUM(a, w, z);
        SUM(b, x, y);
        DIFFERENCE(c, w, z);
        DIFFERENCE(d, x, y);
        const wide mr = vr + c1 * ar + c2 * br, mi = vi + c1 * ai + c2 * bi;
        const wide nr = vr + c2 * ar + c1 * br, ni = vi + c2 * ai + c1 * bi;
        const wide er = s1 * ci + s2 * di, ei = -(s1 * cr + s2 * dr), fr = s2 * ci - s1 * di, fi = s1 * dr - s2 * cr;
        to_re[q] = vr + ar + br;
        to_im[q] = vi + ai + bi;
        TURN(1, mr + er, mi + ei);
        TURN(2, nr + fr, ni + fi);
        TURN(3, nr - fr, ni - fi);
        TURN(4, mr - er, mi - ei);
    }
}

STAGE(radix8) {
    const real h = (real)0.70710678118654752440;
    for (int64_t q = 0; q < s; q++) {
        READ(x0, 0); READ(x1, 1); READ(x2, 2); READ(x3, 3); READ(x4, 4); READ(x5, 5); READ(x6, 6); READ(x7, 7);
        SUM(b0, x0, x4);
        SUM(b1, x1, x5);
        SUM(b2, x2, x6);
        SUM(b3, x3, x7);
        SUM(c0, b0, b2);
        DIFFERENCE(c2, b0, b2);
        SUM(c1, b1, b3);
        TURNED_DIFFERENCE(c3, b1, b3);
        to_re[q] = c0r + c1r;
        to_im[q] = c0i + c1i;
        TURN(4, c0r - c1r, c0i - c1i);
        TURN(2, c2r + c3r, c2i + c3i);
        TURN(6, c2r - c3r, c2i - c3i);
        DIFFERENCE(d0, x0, x4);
        DIFFERENCE(y1, x1, x5);
        TURNED_DIFFERENCE(d2, x2, x6);
        DIFFERENCE(y3, x3, x7);
        const wide d1r = (y1r + y1i) * h, d1i = (y1i - y1r) * h, d3r = (y3i - y3r) * h, d3i = -(y3r + y3i) * h;
        SUM(e0, d0, d2);
        DIFFERENCE(e2, d0, d2);
        SUM(e1, d1, d3);
        TURNED_DIFFERENCE(e3, d1, d3);
        TURN(1, e0r + e1r, e0i + e1i);
        TURN(5, e0r - e1r, e0i - e1i);
        TURN(3, e2r + e3r, e2i + e3i);
        TURN(7, e2r - e3r, e2i - e3i);
    }
}

/* An odd radix r by its definition, from sums and differences of what lies opposite; cr, ci: its own roots. */
static void OF(radix_any)(const wide *restrict re, const wide *restrict im, wide *restrict to_re, wide *restrict to_im, int64_t s,
                          int64_t m, const real *turn_re, const real *turn_im, int r, const real *cr, const real *ci) {
    enum { HALF = NX__FOURIER_PRIME / 2 + 1 };
    const int half = r / 2;
    const bool turns = true;
    wide sum_re[HALF], sum_im[HALF], apart_re[HALF], apart_im[HALF];
    for (int64_t q = 0; q < s; q++) {
        wide all_re = re[q], all_im = im[q];
        for (int k = 1; k <= half; k++) {
            READ(a, k); READ(b, r - k);
            all_re += sum_re[k] = ar + br;
            all_im += sum_im[k] = ai + bi;
            apart_re[k] = ar - br;
            apart_im[k] = ai - bi;
        }
        to_re[q] = all_re;
        to_im[q] = all_im;
        for (int j = 1; j <= half; j++) {
            wide er = re[q], ei = im[q], fr = er * 0, fi = fr;
            for (int k = 1, at = j; k <= half; k++, at = at + j < r ? at + j : at + j - r) {
                er += cr[at] * sum_re[k];
                ei += cr[at] * sum_im[k];
                fr -= ci[at] * apart_im[k];
                fi += ci[at] * apart_re[k];
            }
            TURN(j, er + fr, ei + fi);
            TURN(r - j, er - fr, ei - fi);
        }
    }
}
#undef READ

/* From stage `stage` on, before which the product of the radices is `before`, in memory s vectors. */
static void OF(stages)(const nx__fourier_plan *plan, int stage, int64_t before, int64_t s, void *re_, void *im_, void *re2_,
                       void *im2_) {
    const real *root_re = plan->root_re, *root_im = plan->root_im;
    wide *re = re_, *im = im_, *re2 = re2_, *im2 = im2_;
    int64_t n = plan->n;
    for (; stage < plan->n_stages; stage++) {
        int r = plan->radix[stage];
        int64_t m = n / before / r;
        real cr[NX__FOURIER_PRIME], ci[NX__FOURIER_PRIME], wr[NX__FOURIER_PRIME], wi[NX__FOURIER_PRIME];
        for (int j = 0; j < r; j++) {
            cr[j] = root_re[j * (n / r)];
            ci[j] = root_im[j * (n / r)];
        }
        for (int64_t p = 0; p < m; p++) {
            for (int j = 1; j < r; j++) {
                wr[j] = root_re[p * j * before];
                wi[j] = root_im[p * j * before];
            }
            const wide *from_re = re + p * s, *from_im = im + p * s;
            wide *to_re = re2 + p * r * s, *to_im = im2 + p * r * s;
#define CASE(number)                                                                                                     \
    case number:                                                                                                         \
        if (p == 0) OF(radix##number)(from_re, from_im, to_re, to_im, s, m * s, wr, wi, false);                             \
        else OF(radix##number)(from_re, from_im, to_re, to_im, s, m * s, wr, wi, true);                                     \
        break;
            switch (r) {
                CASE(2)
                CASE(3)
                CASE(4)
                CASE(5)
                CASE(8)
            default: OF(radix_any)(from_re, from_im, to_re, to_im, s, m * s, wr, wi, r, cr, ci);
            }
#undef CASE
        }
        before *= r;
        s *= r;
        wide *other_re = re, *other_im = im;
        re = re2;
        im = im2;
        re2 = other_re;
        im2 = other_im;
    }
}

static bool OF(run)(const nx__fourier_plan *plan, void *re, void *im, void *re2, void *im2) {
    OF(stages)(plan, 0, 1, PIECES, re, im, re2, im2);
    return plan->n_stages % 2 == 1;
}

/* ---- between a line of real numbers and the complex line of half its length ------------------------------ */
static void OF(unpack)(int64_t h, const void *root_re_, const void *root_im_, void *re_, void *im_) {
    const real *root_re = root_re_, *root_im = root_im_;
    wide *re = re_, *im = im_;
    for (int64_t k = 0; k <= h / 2; k++) {
        real wr = root_re[k], wi = root_im[k];
        for (int p = 0; p < PIECES; p++) {
            int64_t at = k * PIECES + p, to = (h - k) * PIECES + p, from = k == 0 ? p : to;
            const wide zr = re[at], zi = im[at], cr = re[from], ci = im[from];
            const wide er = (zr + cr) * (real)0.5, ei = (zi - ci) * (real)0.5; /* of the even numbers */
            const wide odd_r = (zi + ci) * (real)0.5, odd_i = (cr - zr) * (real)0.5;
            const wide tr = wr * odd_r - wi * odd_i, ti = wr * odd_i + wi * odd_r;
            re[at] = er + tr;
            im[at] = ei + ti;
            re[to] = er - tr;
            im[to] = ti - ei;
        }
    }
}

static void OF(pack)(int64_t h, const void *root_re_, const void *root_im_, void *re_, void *im_) {
    const real *root_re = root_re_, *root_im = root_im_;
    wide *re = re_, *im = im_;
    for (int p = 0; p < PIECES; p++) im[p] = im[h * PIECES + p] = (wide) {0};
    for (int64_t k = 0; k <= h / 2; k++) {
        real wr = root_re[k], wi = root_im[k];
        for (int p = 0; p < PIECES; p++) {
            int64_t at = k * PIECES + p, to = (h - k) * PIECES + p;
            const wide xr = re[at], xi = im[at], cr = re[to], ci = im[to];
            const wide er = xr + cr, ei = xi - ci, dr = xr - cr, di = xi + ci;
            const wide odd_r = wr * dr + wi * di, odd_i = wr * di - wi * dr;
            re[at] = er - odd_i;
            im[at] = ei + odd_r;
            re[to] = er + odd_i;
            im[to] = odd_r - ei;
        }
    }
}

static void OF(multiply)(int64_t n, const void *root_re_, const void *root_im_, void *re_, void *im_) {
    const real *root_re = root_re_, *root_im = root_im_;
    wide *re = re_, *im = im_;
    for (int64_t k = 0; k < n; k++) {
        real wr = root_re[k], wi = root_im[k];
        for (int64_t p = k * PIECES; p < (k + 1) * PIECES; p++) {
            const wide a = re[p], b = im[p];
            re[p] = a * wr - b * wi;
            im[p] = a * wi + b * wr;
        }
    }
}

static void OF(turn)(int64_t n, int64_t n_low, const double *power, const double *low, void *re_, void *im_) {
    enum { LANES = NX__FOURIER_BYTES / sizeof(real) };
    real *restrict re = re_, *restrict im = im_;
    for (int64_t k = 0; k < n; k++) {
        const double *high = power + k / n_low * 2 * LANES, *rest = low + k % n_low * 2 * LANES;
        for (int j = 0; j < LANES; j++) {
            double hr = high[j], hi = high[j + LANES], lr = rest[j], li = rest[j + LANES];
            real wr = (real)(hr * lr - hi * li), wi = (real)(hr * li + hi * lr), a = re[k * LANES + j], b = im[k * LANES + j];
            re[k * LANES + j] = a * wr - b * wi;
            im[k * LANES + j] = a * wi + b * wr;
        }
    }
}
