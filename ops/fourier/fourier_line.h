/* One line alone, whose parts are of type `real`: fourier_rows.c includes this file behind fourier_real.h. A vector holds
 * ALONG numbers that follow each other. The first stage is of radix 8 and reads neighbours, for ALONG places p at once; its
 * results are transposed on their way into memory. Of the stages behind it the same numbers of 8 neighbours are read and
 * written together, as are the rows of a block. */
#define SHUFFLE(a, b, how) __builtin_shuffle(a, b, (NX_PASTE(places, real)) {NX_PASTE(how, ALONG)})
#define LOOSE(at) (*(NX_PASTE(loose, real) *)(void *)(at))
#define LOOSE_CONST(at) (*(const NX_PASTE(loose, real) *)(const void *)(at))

static void OF(bring_line)(const void *from_, int64_t n, void *re_, void *im_) {
    const real *restrict from = from_;
    real *restrict re = re_, *restrict im = im_;
    int64_t k = 0;
    for (; k + ALONG <= n; k += ALONG) {
        const NX_PASTE(vector, real) a = LOOSE_CONST(from + 2 * k), b = LOOSE_CONST(from + 2 * k + ALONG);
        LOOSE(re + k) = SHUFFLE(a, b, EVEN);
        LOOSE(im + k) = SHUFFLE(a, b, ODD);
    }
    for (; k < n; k++) {
        re[k] = from[2 * k];
        im[k] = from[2 * k + 1];
    }
}

static void OF(take_line)(void *to_, int64_t n, double scale_, const void *re_, const void *im_) {
    real *restrict to = to_, scale = (real)scale_;
    const real *restrict re = re_, *restrict im = im_;
    int64_t k = 0;
    for (; k + ALONG <= n; k += ALONG) {
        const NX_PASTE(vector, real) a = LOOSE_CONST(re + k) * scale, b = LOOSE_CONST(im + k) * scale;
        LOOSE(to + 2 * k) = SHUFFLE(a, b, FIRST);
        LOOSE(to + 2 * k + ALONG) = SHUFFLE(a, b, SECOND);
    }
    for (; k < n; k++) {
        to[2 * k] = re[k] * scale;
        to[2 * k + 1] = im[k] * scale;
    }
}

static void OF(first_along)(const nx__fourier_plan *plan, const wide *restrict re, const wide *restrict im, wide *restrict to_re,
                            wide *restrict to_im) {
    const int64_t m = plan->n / 8 / ALONG, pieces = 8 / ALONG; /* vectors */
    const wide *turn_re = plan->along_re, *turn_im = plan->along_im;
    for (int64_t p = 0; p < m; p++) {
        NX_PASTE(vector, real) yr[ALONG < 8 ? 8 : ALONG], yi[ALONG < 8 ? 8 : ALONG];
        OF(radix8)(re + p, im + p, (wide *)yr, (wide *)yi, 1, m, NULL, NULL, false);
        UNROLL for (int j = 1; j < 8; j++) {
            const wide a = yr[j], b = yi[j], wr = turn_re[(j - 1) * m + p], wi = turn_im[(j - 1) * m + p];
            yr[j] = a * wr - b * wi;
            yi[j] = a * wi + b * wr;
        }
        UNROLL for (int group = 0; group < 8; group += ALONG) {
            NX_PASTE(turn, real)(yr + group);
            NX_PASTE(turn, real)(yi + group);
            UNROLL for (int i = 0; i < ALONG; i++) {
                to_re[(p * ALONG + i) * pieces + group / ALONG] = yr[group + i];
                to_im[(p * ALONG + i) * pieces + group / ALONG] = yi[group + i];
            }
        }
    }
}

static bool OF(run_line)(const nx__fourier_plan *plan, void *re, void *im, void *re2, void *im2) {
    OF(first_along)(plan, re, im, re2, im2);
    OF(stages)(plan, 1, 8, 8 / ALONG, re2, im2, re, im);
    return plan->n_stages % 2 == 1;
}

/* Vectors of pairs k and h - k for all k up to h/2; the last vector may meet some that another has met. */
#define EACH_PAIR(k) for (int64_t last = h / 2 - ALONG + 1, k = 0; k <= last; k = k < last && k + ALONG > last ? last : k + ALONG)
#define PAIR(x, c, at)                                                                                                \
    const wide x##r = LOOSE_CONST(re + (at)), x##i = LOOSE_CONST(im + (at));                                              \
    const NX_PASTE(vector, real) c##r_ = LOOSE_CONST(re + h - (at) - ALONG + 1), c##i_ = LOOSE_CONST(im + h - (at) - ALONG + 1); \
    const wide c##r = SHUFFLE(c##r_, c##r_, REVERSED), c##i = SHUFFLE(c##i_, c##i_, REVERSED)
#define SET_PAIR(at, ar, ai, br, bi)                                                                                  \
    do {                                                                                                              \
        const NX_PASTE(vector, real) low_re = (br), low_im = (bi);                                                    \
        LOOSE(re2 + (at)) = (ar);                                                                                     \
        LOOSE(im2 + (at)) = (ai);                                                                                     \
        LOOSE(re2 + h - (at) - ALONG + 1) = SHUFFLE(low_re, low_re, REVERSED);                                        \
        LOOSE(im2 + h - (at) - ALONG + 1) = SHUFFLE(low_im, low_im, REVERSED);                                        \
    } while (0)

static void OF(unpack_line)(int64_t h, const void *root_re_, const void *root_im_, void *re_, void *im_, void *re2_, void *im2_) {
    const real *root_re = root_re_, *root_im = root_im_;
    real *restrict re = re_, *restrict im = im_, *restrict re2 = re2_, *restrict im2 = im2_;
    re[h] = re[0];
    im[h] = im[0];
    EACH_PAIR(k) {
        PAIR(z, c, k);
        const wide wr = LOOSE_CONST(root_re + k), wi = LOOSE_CONST(root_im + k);
        const wide er = (zr + cr) * (real)0.5, ei = (zi - ci) * (real)0.5; /* of the even numbers */
        const wide odd_r = (zi + ci) * (real)0.5, odd_i = (cr - zr) * (real)0.5;
        const wide tr = wr * odd_r - wi * odd_i, ti = wr * odd_i + wi * odd_r;
        SET_PAIR(k, er + tr, ei + ti, er - tr, ti - ei);
    }
}

static void OF(pack_line)(int64_t h, const void *root_re_, const void *root_im_, void *re_, void *im_, void *re2_, void *im2_) {
    const real *root_re = root_re_, *root_im = root_im_;
    real *restrict re = re_, *restrict im = im_, *restrict re2 = re2_, *restrict im2 = im2_;
    im[0] = im[h] = 0;
    EACH_PAIR(k) {
        PAIR(x, c, k);
        const wide wr = LOOSE_CONST(root_re + k), wi = LOOSE_CONST(root_im + k);
        const wide er = xr + cr, ei = xi - ci, dr = xr - cr, di = xi + ci;
        const wide odd_r = wr * dr + wi * di, odd_i = wr * di - wi * dr;
        SET_PAIR(k, er - odd_i, ei + odd_r, er + odd_i, odd_r - ei);
    }
}

static void OF(multiply_line)(int64_t n, const void *by_re_, const void *by_im_, void *re_, void *im_) {
    const real *restrict by_re = by_re_, *restrict by_im = by_im_;
    real *restrict re = re_, *restrict im = im_;
    for (int64_t k = 0; k < n; k++) {
        const real a = re[k], b = im[k];
        re[k] = a * by_re[k] - b * by_im[k];
        im[k] = a * by_im[k] + b * by_re[k];
    }
}

#undef SHUFFLE
#undef LOOSE
#undef LOOSE_CONST
#undef EACH_PAIR
#undef PAIR
#undef SET_PAIR
