/* places: what gathers, scatters and folds by an index have in common. Element (i, .. at .. , j) of `followed`, whose
 * coordinate along `dim` the index says, and element (i, .., j) of `other` belong together; both may be larger than the index,
 * which may be expanded. They are met in the order of the index. An index out of range fails before it is followed, and where
 * `in_place` says that what is written is an argument, before anything is written. */
#ifndef NX_OPS_PLACES_H
#define NX_OPS_PLACES_H

#include "iter/iter.h"

typedef struct nx__places nx__places;
/* What is done: to n places that `at` names, and to n elements side by side at one place. */
typedef struct nx__place_fns {
    void (*each)(const nx__places *p, char *followed, char *other, const int64_t *at, int64_t n);
    void (*row)(const nx__places *p, char *followed, char *other, int64_t n);
} nx__place_fns;
struct nx__places {
    const nx_run *run;
    const nx_array *index, *followed, *other; /* other NULL: one element, `number` */
    char *number;
    const nx__place_fns *fns;
    nx_status (*fail)(const nx__places *p, int64_t at); /* NULL: the usual text */
    double f;                                           /* what is added is multiplied by these; else unused */
    int64_t i;
    double _Complex c;
    bool in_place;
    int dim;
    /* nx__places_run fills these. Dimensions that lie one behind the other everywhere are one. */
    int ndim, at_dim, cut;   /* at_dim: the one that is followed, -1: of one element; cut: the one that threads cut, -1: places */
    int64_t size[NX_MAX_DIMS], index_step[NX_MAX_DIMS], followed_step[NX_MAX_DIMS], other_step[NX_MAX_DIMS]; /* bytes */
    int64_t limit, k_step;   /* size and step of the dimension that is followed */
    int64_t row_followed, row_other; /* steps along a row */
    int64_t begin, end;      /* places that are meant */
    bool whole;              /* all of them */
};

/* `writes`: to `followed`. */
NX_MUST_USE nx_status nx__places_run(nx__places *p, int64_t dim, bool writes);
const nx__place_fns *nx__place_move(nx_dtype dtype, bool writes);
const nx__place_fns *nx__place_sum(nx_dtype dtype); /* followed += (f, i or c) * other */
/* The grain of n parts of work, `grain` as their cost has it, where each piece of them goes through everything: no more pieces than
 * `threads`. */
static inline int64_t nx__grain_of_all(int64_t n, int64_t grain, int64_t threads) {
    const int64_t share = (n + threads - 1) / threads;
    return grain > share ? grain : share;
}
/* `index`, a vector or a number, the same for all but dimension `dim` of `like`. */
void nx__index_along(const nx_array *index, const nx_array *like, int64_t dim, nx_array *out, int64_t *dims);

enum { NX__PLACES_PIECE = 512 }; /* the most places that are named at once */
/* Bytes that a cache holds: what comes from no farther one thread does sooner than several that go through all indices. */
enum { NX__NEAR = 1 << 20 };
#define NX__EACH_PLACE(type, here_step, what)                                                                              \
    for (int64_t q = 0; q < n; q++) {                                                                                      \
        type *there = (type *)(followed + q * to_step + at[q] * k_step), *here = (type *)(other + q * (here_step));        \
        what;                                                                                                              \
    }
/* Which q below n is_meant, as an expression of q that has no branch: nobody can foresee which. `meant` gets them in order. */
#define NX__PICK(meant, picked, n, is_meant)                                                                               \
    int16_t meant[NX__PLACES_PIECE];                                                                                       \
    int64_t picked = 0;                                                                                                    \
    for (int64_t q = 0; q < (n); q++) {                                                                                    \
        meant[picked] = (int16_t)q;                                                                                        \
        picked += (is_meant);                                                                                              \
    }
#define NX__EACH_MEANT(type, here_step, what)                                                                              \
    NX__PICK(meant, picked, n, (at[q] >= p->begin) & (at[q] < p->end))                                                     \
    for (int64_t m = 0; m < picked; m++) {                                                                                 \
        const int64_t q = meant[m];                                                                                        \
        type *there = (type *)(followed + q * to_step + at[q] * k_step), *here = (type *)(other + q * (here_step));        \
        what;                                                                                                              \
    }
#define NX__EACH_OF_ROW(type, there_step, here_step, what)                                                                 \
    for (int64_t q = 0; q < n; q++) {                                                                                      \
        type *there = (type *)(followed + q * (there_step)), *here = (type *)(other + q * (here_step));                    \
        what;                                                                                                              \
    }
/* Defines fns_<name>, which does `what` with the `type` numbers *there, of what is followed, and *here, of the other; `p` is at
 * hand. */
#define NX__PLACE_FNS(name, type, what)                                                                                    \
    static void each_##name(const nx__places *p, char *followed, char *other, const int64_t *at, int64_t n) {              \
        const int64_t to_step = p->row_followed, k_step = p->k_step, by = p->row_other, size = sizeof(type);               \
        if (p->whole && by == size && to_step == 0 && k_step == size) {                                                    \
            for (int64_t q = 0; q < n; q++) {                                                                              \
                type *there = (type *)followed + at[q], *here = (type *)other + q;                                         \
                what;                                                                                                      \
            }                                                                                                              \
        } else if (p->whole) {                                                                                             \
            NX__EACH_PLACE(type, by, what)                                                                                 \
        } else {                                                                                                           \
            NX__EACH_MEANT(type, by, what)                                                                                 \
        }                                                                                                                  \
    }                                                                                                                      \
    static void row_##name(const nx__places *p, char *followed, char *other, int64_t n) {                                  \
        const int64_t to_step = p->row_followed, from_step = p->row_other, size = sizeof(type);                            \
        if (to_step == size && from_step == size) NX__EACH_OF_ROW(type, (int64_t)sizeof(type), (int64_t)sizeof(type), what) \
        else if (to_step == size && from_step == 0) NX__EACH_OF_ROW(type, (int64_t)sizeof(type), 0, what)                  \
        else NX__EACH_OF_ROW(type, to_step, from_step, what)                                                               \
    }                                                                                                                      \
    static const nx__place_fns fns_##name = {each_##name, row_##name};

/* A copy of an array row by row in another dtype. */
typedef struct nx__wide { nx_array array; int64_t dims[2 * NX_MAX_DIMS]; } nx__wide;
NX_MUST_USE nx_status nx__wide_both(const nx_array *a, const nx_array *b, nx_dtype dtype, nx__wide *wide_a, nx__wide *wide_b);
void nx__wide_end(const nx_array *out, nx__wide *a, nx__wide *b); /* writes out from a, frees both; out NULL: frees */

#endif
