/* Blocks of lines from arrays and back: fourier_rows.c includes this file for parts of type `real` and numbers of type
 * `element`. NAME: of functions, of which bring_lines and take_lines are there already: from lines whose numbers lie side
 * by side they move as many as whole vectors have, and say how many. */
enum { NAME(LANES) = NX__FOURIER_BYTES / sizeof(real) };

/* The elements from one line to the next; 0: it is not the same from all. */
static int64_t NAME(between)(const nx__fourier_side *side) {
    int64_t bytes = side->line[1] - side->line[0];
    for (int j = 1; j + 1 < NAME(LANES); j++) {
        if (side->line[j + 1] - side->line[j] != bytes) return 0;
    }
    return bytes % (int64_t)sizeof(element) == 0 ? bytes / (int64_t)sizeof(element) : 0;
}

static void NAME(bring)(const nx__fourier_side *from, int64_t n, void *re_, void *im_) {
    enum { LANES = NAME(LANES) };
    real *restrict re = re_, *restrict im = im_;
    int64_t step = from->step, apart = from->apart, k = 0, between = NAME(between)(from);
    const element *x = (const element *)(const void *)from->line[0];
    if (between == 2 && apart == 1) {
        for (; k < n; k++, x += step) {
            for (int j = 0; j < LANES; j++) {
                re[k * LANES + j] = (real)x[2 * j];
                im[k * LANES + j] = (real)x[2 * j + 1];
            }
        }
    } else if (between == 1) {
        for (; k < n; k++, x += step) {
            for (int j = 0; j < LANES; j++) re[k * LANES + j] = (real)x[j];
            for (int j = 0; j < LANES; j++) im[k * LANES + j] = apart ? (real)x[apart + j] : 0;
        }
    } else {
        if (step == 2 && apart == 1) k = NAME(bring_lines)(from, n, re, im);
        for (; k < n; k++) {
            for (int j = 0; j < LANES; j++) {
                const element *at = (const element *)(const void *)from->line[j] + k * step;
                re[k * LANES + j] = (real)at[0];
                im[k * LANES + j] = apart ? (real)at[apart] : 0;
            }
        }
    }
}

static void NAME(take)(const nx__fourier_side *to, int64_t n, double scale_, const void *re_, const void *im_) {
    enum { LANES = NAME(LANES) };
    const real *restrict re = re_, *restrict im = im_, scale = (real)scale_;
    int64_t step = to->step, apart = to->apart, k = 0, between = to->n_lines == LANES ? NAME(between)(to) : 0;
    element *x = (element *)(void *)to->line[0];
    if (between == 2 && apart == 1) {
        for (; k < n; k++, x += step) {
            for (int j = 0; j < LANES; j++) {
                x[2 * j] = (element)(re[k * LANES + j] * scale);
                x[2 * j + 1] = (element)(im[k * LANES + j] * scale);
            }
        }
    } else if (between == 1) {
        for (; k < n; k++, x += step) {
            for (int j = 0; j < LANES; j++) x[j] = (element)(re[k * LANES + j] * scale);
            for (int j = 0; apart && j < LANES; j++) x[apart + j] = (element)(im[k * LANES + j] * scale);
        }
    } else {
        if (step == 2 && apart == 1 && to->n_lines == LANES) k = NAME(take_lines)(to, n, scale, re, im);
        for (; k < n; k++) {
            for (int j = 0; j < to->n_lines; j++) {
                element *at = (element *)(void *)to->line[j] + k * step;
                at[0] = (element)(re[k * LANES + j] * scale);
                if (apart) at[apart] = (element)(im[k * LANES + j] * scale);
            }
        }
    }
}
