/* For grid_rows.c, once with `real` float and `whole` int32_t, once with double and int64_t. No guard: it is a template. */
#define OF_(name, type) name##_##type
#define OF__(name, type) OF_(name, type)
#define OF(name) OF__(name, real)

/* Taps of a block along one dimension: at -1 is outside; slopes are the weights' derivatives by the grid's number, curves the
 * slopes', where those of lines are 0. */
typedef struct OF(taps) {
    int n;
    whole at[MOST_TAPS][TOGETHER];
    real weight[MOST_TAPS][TOGETHER], slope[MOST_TAPS][TOGETHER], curve[MOST_TAPS][TOGETHER];
} OF(taps);
typedef struct OF(corners) {
    int n;
    bool inside; /* all of them */
    whole at[MOST_CORNERS][TOGETHER];
    real weight[MOST_CORNERS][TOGETHER];
} OF(corners);

static inline whole OF(below)(real x) { /* |x| <= 1e9 */
    whole i = (whole)x;
    return i - ((real)i > x);
}

static inline bool OF(is_near)(real x) { return x > (real)-1e9 && x < (real)1e9; }

/* Brings a place of a dimension of n inside as the padding says; *by: the derivative is multiplied by it. */
static inline real OF(bounded)(int padding, bool align, real x, real n, real *by) {
    const real low = align ? 0 : (real)-0.5, span = align ? n - 1 : n;
    if (padding == REFLECTED) {
        real from_low = (OF(is_near)(x) ? x : 0) - low, far = from_low < 0 ? -from_low : from_low;
        real flips = (real)OF(below)(span > 0 ? far / span : 0), rest = far - flips * span;
        bool odd = flips - 2 * (real)OF(below)(flips / 2) != 0;
        x = span > 0 ? (odd ? span - rest : rest) + low : 0;
        *by *= span > 0 ? ((from_low < 0) != odd ? -1 : 1) : 0;
    }
    if (padding != ZEROS) {
        bool inside = x > 0 && x < n - 1;
        *by = inside ? *by : 0;
        x = inside ? x : x >= n - 1 ? n - 1 : 0; /* NaN: 0 */
    }
    return OF(is_near)(x) ? x : -100; /* outside, whatever it was */
}

static inline whole OF(tap)(whole at, whole n) { return at >= 0 && at < n ? at : -1; }

/* What loops ask of `s` lies in variables: they store numbers that might be a part of it. */
static void OF(find_cubic)(const nx__sampling *s, const real *place, const real *by, whole size, int64_t n, OF(taps) *t) {
    const real A = (real)-0.75;
    const int padding = s->padding;
    const bool align = s->align, bends = s->g != NULL;
    t->n = 4;
    for (int k = 0; k < 4; k++) {
        const bool near = k == 1 || k == 2;
        real low[TOGETHER], d[TOGETHER];
        for (int64_t q = 0; q < n; q++) {
            real part = place[q] - (low[q] = (real)OF(below)(place[q]));
            d[q] = k < 2 ? part - (real)(k - 1) : (real)(k - 1) - part;
            t->weight[k][q] = near ? ((A + 2) * d[q] - (A + 3)) * d[q] * d[q] + 1 : ((A * d[q] - 5 * A) * d[q] + 8 * A) * d[q] - 4 * A;
        }
        for (int64_t q = 0; q < n; q++) {
            real unused = 1;
            t->at[k][q] = OF(tap)((whole)OF(bounded)(padding, align, low[q] + (real)(k - 1), (real)size, &unused), size);
        }
        for (int64_t q = 0; bends && q < n; q++) {
            real sign = k < 2 ? by[q] : -by[q];
            t->slope[k][q] = (near ? (3 * (A + 2) * d[q] - 2 * (A + 3)) * d[q] : (3 * A * d[q] - 10 * A) * d[q] + 8 * A) * sign;
            t->curve[k][q] = (near ? 6 * (A + 2) * d[q] - 2 * (A + 3) : 6 * A * d[q] - 10 * A) * by[q] * by[q];
        }
    }
}

/* Of n places along a dimension whose numbers lie `step` apart. */
static void OF(find_taps)(const nx__sampling *s, const real *grid, int64_t step, whole size, int64_t n, OF(taps) *t) {
    real place[TOGETHER], by[TOGETHER];
    const int padding = s->padding;
    const bool align = s->align, cubic = s->mode == NX__GRID_CUBIC, closest = s->mode == NX__GRID_CLOSEST;
    for (int64_t q = 0; q < n; q++) {
        real x = grid[q * step], m = (real)size;
        by[q] = (align ? m - 1 : m) / 2;
        place[q] = align ? (x + 1) / 2 * (m - 1) : ((x + 1) * m - 1) / 2;
        if (cubic) place[q] = OF(is_near)(place[q]) ? place[q] : -100;
    }
    if (cubic) {
        OF(find_cubic)(s, place, by, size, n, t);
        return;
    }
    for (int64_t q = 0; q < n; q++) place[q] = OF(bounded)(padding, align, place[q], (real)size, &by[q]);
    t->n = closest ? 1 : 2;
    for (int64_t q = 0; closest && q < n; q++) { /* of two as near the even one */
        whole low = OF(below)(place[q]);
        real part = place[q] - (real)low;
        t->at[0][q] = OF(tap)(low + ((part > (real)0.5) | ((part == (real)0.5) & (low & 1))), size);
        t->weight[0][q] = 1;
        t->slope[0][q] = 0;
    }
    for (int64_t q = 0; !closest && q < n; q++) {
        whole low = OF(below)(place[q]);
        real part = place[q] - (real)low;
        t->at[0][q] = OF(tap)(low, size);
        t->at[1][q] = OF(tap)(low + 1, size);
        t->weight[0][q] = 1 - part;
        t->weight[1][q] = part;
        t->slope[0][q] = -by[q];
        t->slope[1][q] = by[q];
    }
}

/* Taps of the three dimensions; one that the image does not have has a tap at 0. */
static void OF(find_all)(const nx__sampling *s, int64_t image, int64_t place, int64_t n, OF(taps) *t) {
    const real *grid = (const real *)s->grid + (image * s->places + place) * s->dims;
    for (int d = 0; d < NX__SPACE; d++) {
        int k = NX__SPACE - 1 - d; /* the grid has the last dimension first */
        if (k < s->dims) {
            OF(find_taps)(s, grid + k, s->dims, (whole)s->in[d], n, &t[d]);
            continue;
        }
        t[d].n = 1;
        for (int64_t q = 0; q < n; q++) t[d].at[0][q] = 0, t[d].weight[0][q] = 1, t[d].slope[0][q] = 0;
    }
}

static void OF(join_taps)(const nx__sampling *s, const OF(taps) *t, int64_t n, OF(corners) *c) {
    const whole height = (whole)s->in[1], width = (whole)s->in[2];
    whole outside = 0;
    c->n = 0;
    for (int k = 0; k < t[0].n * t[1].n * t[2].n; k++) {
        const int i = k / (t[1].n * t[2].n), j = k / t[2].n % t[1].n, l = k % t[2].n;
        for (int64_t q = 0; q < n; q++) {
            whole z = t[0].at[i][q], y = t[1].at[j][q], x = t[2].at[l][q], out = (z | y | x) >> (8 * sizeof(whole) - 1); /* -1: out */
            c->at[k][q] = out | ((z * height + y) * width + x);
            c->weight[k][q] = t[0].weight[i][q] * t[1].weight[j][q] * t[2].weight[l][q];
            outside |= out;
        }
        c->n++;
    }
    c->inside = outside == 0;
}

/* sums[q] += factor[q] times what lies at a corner, 0 where that is outside. */
static inline void OF(add_corner)(const real *from, const whole *at, bool inside, const real *factor, int64_t n, real *restrict sums) {
    for (int64_t q = 0; inside && q < n; q++) sums[q] += from[at[q]] * factor[q];
    for (int64_t q = 0; !inside && q < n; q++) {
        real part = from[at[q] < 0 ? 0 : at[q]] * factor[q];
        sums[q] += at[q] < 0 ? 0 : part;
    }
}

/* Sixteen places of an image of two dimensions: what a row of them gives, times the row's weight. `rows`: where a row begins, -1 is
 * outside. */
static void OF(sample_cubic)(const OF(taps) *t, whole rows[4][TOGETHER], bool inside, const real *from, int64_t n, real *restrict to) {
    const OF(taps) *x = &t[2];
    real sum[TOGETHER] = {0};
    for (int j = 0; j < 4; j++) {
        const whole *row = rows[j];
        const real *weight = t[1].weight[j];
#define ROW(PART) sum[q] += (PART(0) + PART(1) + PART(2) + PART(3)) * weight[q]
#define THERE(k) (x->weight[k][q] * from[row[q] + x->at[k][q]])
#define PERHAPS(k) (x->weight[k][q] * ((row[q] | x->at[k][q]) < 0 ? 0 : from[(row[q] | x->at[k][q]) < 0 ? 0 : row[q] + x->at[k][q]]))
        for (int64_t q = 0; inside && q < n; q++) ROW(THERE);
        for (int64_t q = 0; !inside && q < n; q++) ROW(PERHAPS);
#undef ROW
#undef THERE
#undef PERHAPS
    }
    memcpy(to, sum, sizeof *to * (size_t)n);
}

/* Whether all of them are inside; where the rows begin that the taps name. */
static bool OF(find_rows)(const nx__sampling *s, const OF(taps) *t, int64_t n, whole rows[4][TOGETHER]) {
    const whole width = (whole)s->in[2];
    whole outside = 0;
    for (int k = 0; k < 4; k++) {
        for (int64_t q = 0; q < n; q++) {
            whole y = t[1].at[k][q];
            rows[k][q] = y < 0 ? -1 : y * width;
            outside |= y | t[2].at[k][q];
        }
    }
    return outside >= 0;
}

/* Nothing is stored between the loads of a place: a store that lies 4096 bytes from a load holds that up, and planes often do. */
static void OF(sample)(const nx__sampling *s, int64_t image, int64_t place, int64_t n) {
    OF(taps) t[NX__SPACE];
    OF(corners) c;
    whole rows[4][TOGETHER];
    const bool cubic = s->mode == NX__GRID_CUBIC;
    OF(find_all)(s, image, place, n, t);
    if (cubic) c.inside = OF(find_rows)(s, t, n, rows);
    else OF(join_taps)(s, t, n, &c);
    for (int64_t channel = image * s->channels; channel < (image + 1) * s->channels; channel++) {
        const real *from = (const real *)s->image + channel * s->volume;
        real *restrict to = (real *)s->out + channel * s->places + place, sum[TOGETHER] = {0};
        if (cubic) {
            OF(sample_cubic)(t, rows, c.inside, from, n, to);
        } else if (s->mode == NX__GRID_CLOSEST) {
            for (int64_t q = 0; c.inside && q < n; q++) to[q] = from[c.at[0][q]];
            for (int64_t q = 0; !c.inside && q < n; q++) {
                real found = from[c.at[0][q] < 0 ? 0 : c.at[0][q]];
                to[q] = c.at[0][q] < 0 ? 0 : found;
            }
        } else if (c.n == 4) {
#define PART(k) (c.at[k][q] < 0 ? 0 : from[c.at[k][q] < 0 ? 0 : c.at[k][q]] * c.weight[k][q])
            for (int64_t q = 0; q < n; q++) to[q] = PART(0) + PART(1) + PART(2) + PART(3);
#undef PART
        } else {
            for (int k = 0; k < c.n; k++) OF(add_corner)(from, c.at[k], c.inside, c.weight[k], n, sum);
            memcpy(to, sum, sizeof *to * (size_t)n);
        }
    }
}

/* The gradient of the grid: what g meets at each corner, over all channels, times the corner's slopes. */
static void OF(join_slopes)(const nx__sampling *s, int64_t image, int64_t place, int64_t n, const OF(taps) *t,
                            real met[MOST_CORNERS][TOGETHER]) {
    real *to = (real *)s->to_grid + (image * s->places + place) * s->dims;
    for (int d = 0; d < s->dims; d++) {
        const int own = NX__SPACE - 1 - d;
        real sum[TOGETHER] = {0};
        for (int k = 0; k < t[0].n * t[1].n * t[2].n; k++) {
            const int tap[NX__SPACE] = {k / (t[1].n * t[2].n), k / t[2].n % t[1].n, k % t[2].n};
            for (int64_t q = 0; q < n; q++) {
                real slope = met[k][q];
                for (int e = 0; e < NX__SPACE; e++) slope *= e == own ? t[e].slope[tap[e]][q] : t[e].weight[tap[e]][q];
                sum[q] += slope;
            }
        }
        for (int64_t q = 0; q < n; q++) to[q * s->dims + d] = sum[q];
    }
}

static void OF(spread)(const nx__sampling *s, int64_t image, int64_t place, int64_t n) {
    OF(taps) t[NX__SPACE];
    OF(corners) c;
    real met[MOST_CORNERS][TOGETHER];
    OF(find_all)(s, image, place, n, t);
    OF(join_taps)(s, t, n, &c);
    memset(met, 0, sizeof met);
    for (int64_t channel = image * s->channels; channel < (image + 1) * s->channels; channel++) {
        const real *from = (const real *)s->image + channel * s->volume, *g = (const real *)s->g + channel * s->places + place;
        real *to = s->to_image ? (real *)s->to_image + channel * s->volume : NULL;
        for (int k = 0; k < c.n; k++) {
            const whole *at = c.at[k];
            const real *weight = c.weight[k];
            if (s->to_grid && s->mode != NX__GRID_CLOSEST) OF(add_corner)(from, at, c.inside, g, n, met[k]);
            for (int64_t q = 0; to && q < n; q++) {
                if (at[q] >= 0) to[at[q]] += g[q] * weight[q];
            }
        }
    }
    if (s->to_grid) OF(join_slopes)(s, image, place, n, t, met);
}

/* The product of a corner's weights where dimensions `one` and `two` (-1: none) stand with their slopes, one that is both with
 * its curve; s->mode decides whether there are curves. */
static inline real OF(bent)(const nx__sampling *s, const OF(taps) *t, int k, int one, int two, int64_t q) {
    const int tap[NX__SPACE] = {k / (t[1].n * t[2].n), k / t[2].n % t[1].n, k % t[2].n};
    real product = 1;
    for (int e = 0; e < NX__SPACE; e++) {
        const real curve = s->mode == NX__GRID_CUBIC ? t[e].curve[tap[e]][q] : 0;
        product *= e == one && e == two ? curve : e == one || e == two ? t[e].slope[tap[e]][q] : t[e].weight[tap[e]][q];
    }
    return product;
}

/* The gradient of the grid by what g meets of the gradient's image (`met`) and of the image (`seen`), which moves by g_grid. */
static void OF(join_curves)(const nx__sampling *s, int64_t image, int64_t place, int64_t n, const OF(taps) *t, int n_corners,
                            real met[MOST_CORNERS][TOGETHER], real seen[MOST_CORNERS][TOGETHER]) {
    const int64_t first = (image * s->places + place) * s->dims;
    const real *move = (const real *)s->g_grid + first;
    real *to = (real *)s->to_grid + first;
    for (int64_t q = 0; q < n; q++) {
        for (int d = 0; d < s->dims; d++) {
            real sum = 0;
            for (int k = 0; k < n_corners; k++) {
                sum += met[k][q] * OF(bent)(s, t, k, NX__SPACE - 1 - d, -1, q);
                for (int e = 0; e < s->dims; e++)
                    sum += seen[k][q] * move[q * s->dims + e] * OF(bent)(s, t, k, NX__SPACE - 1 - d, NX__SPACE - 1 - e, q);
            }
            to[q * s->dims + d] = sum;
        }
    }
}

/* From the gradients g_image and g_grid of what spread() gives to those of g, which is s->out, of image and grid. */
static void OF(spread_twice)(const nx__sampling *s, int64_t image, int64_t place, int64_t n) {
    OF(taps) t[NX__SPACE];
    OF(corners) c;
    real met[MOST_CORNERS][TOGETHER], seen[MOST_CORNERS][TOGETHER], moved[MOST_CORNERS][TOGETHER];
    const real *move = (const real *)s->g_grid + (image * s->places + place) * s->dims;
    OF(find_all)(s, image, place, n, t);
    OF(join_taps)(s, t, n, &c);
    memset(met, 0, sizeof met);
    memset(seen, 0, sizeof seen);
    for (int k = 0; k < c.n; k++) {
        for (int64_t q = 0; q < n; q++) {
            moved[k][q] = 0;
            for (int d = 0; d < s->dims; d++) moved[k][q] += move[q * s->dims + d] * OF(bent)(s, t, k, NX__SPACE - 1 - d, -1, q);
        }
    }
    for (int64_t channel = image * s->channels; channel < (image + 1) * s->channels; channel++) {
        const real *from = (const real *)s->image + channel * s->volume, *of_image = (const real *)s->g_image + channel * s->volume;
        const real *g = (const real *)s->g + channel * s->places + place;
        real *to = (real *)s->to_image + channel * s->volume, sum[TOGETHER] = {0};
        for (int k = 0; k < c.n; k++) {
            OF(add_corner)(of_image, c.at[k], c.inside, c.weight[k], n, sum);
            OF(add_corner)(from, c.at[k], c.inside, moved[k], n, sum);
            OF(add_corner)(of_image, c.at[k], c.inside, g, n, met[k]);
            OF(add_corner)(from, c.at[k], c.inside, g, n, seen[k]);
            for (int64_t q = 0; q < n; q++) {
                if (c.at[k][q] >= 0) to[c.at[k][q]] += g[q] * moved[k][q];
            }
        }
        memcpy((real *)s->out + channel * s->places + place, sum, sizeof *sum * (size_t)n);
    }
    OF(join_curves)(s, image, place, n, t, c.n, met, seen);
}

#undef OF_
#undef OF__
#undef OF
