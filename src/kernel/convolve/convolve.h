/* kernel, inside: planes, what convolutions read with the padding around it (convolve.c); channels that are read
 * alone (alone.c); Winograd's way (winograd.c). */
#ifndef NX_KERNEL_CONVOLVE_H
#define NX_KERNEL_CONVOLVE_H

#include "kernel/kernel.h"

enum {
    NX__SUMS_A_BYTE = 2, /* multiplications that take as long as moving a byte, in which nx_grain() counts */
    NX__FEW_ROWS = 2     /* of weights in a group, which are summed without packing */
};
static inline int64_t nx__volume(const int64_t *n) { return n[0] * n[1] * n[2]; }

typedef struct nx__planes {
    const float *source;   /* images x channels x size */
    int64_t channels;      /* of all groups */
    int64_t size[3];
    int64_t origin[3];     /* the source's place that padded place 0 is */
    int64_t extent[3];     /* padded places */
    int64_t split, kept;   /* padded places of a row lie apart by their rest by `split`; so many rests are kept */
    int64_t skip[2];       /* only each such row and layer is read */
    int64_t part, row, layer, plane; /* numbers: of one rest of a row, of a row, of a layer, of a plane */
    bool direct;           /* the source itself will do */
    float *at;             /* made here; NULL: direct */
    const float *end;      /* of what may be read */
    int64_t first_image;   /* that lies at `at` */
} nx__planes;
void nx__planes_lay(nx__planes *p, bool may_be_direct); /* part to plane from the rest */
/* Room for as many images as are padded together, which *images says. */
NX_MUST_USE nx_status nx__planes_new(nx__planes *p, int64_t n_images, int64_t *images);
/* Pads `images` images from p->first_image on. */
NX_MUST_USE nx_status nx__planes_pad(nx__planes *p, int64_t images);
const float *nx__plane_of(const nx__planes *p, int64_t image, int64_t channel);

/* n numbers of a channel (of all groups), which go to `to` in the result, with what is to become of them. */
static inline void nx__put(const nx_tail *t, int64_t channel, const float *result, float *to, const float *from, int64_t n) {
    if (t) {
        const float *other = t->other ? t->other + (to - result) : NULL;
        const double factor = t->factor ? t->factor[channel] : 1, offset = t->factor ? t->offset[channel] : 0;
        nx_rows_get(NX_F32)->tail(to, from, other, t->factor != NULL, factor, offset, t->low, t->high, n);
    } else if (to != from) {
        memcpy(to, from, (size_t)n * sizeof *to);
    }
}

/* Groups of one channel of the big side, where it lies (alone.c). `back`: the big side from the small one. */
bool nx__alone_suits(const nx_windows *w);
bool nx__alone_suits_back(const nx_windows *w);
bool nx__alone_suits_weights(const nx_windows *w);
NX_MUST_USE nx_status nx__alone(const nx_windows *w, const float *big, const float *weight, const float *bias, const nx_tail *tail,
                                float *small);
NX_MUST_USE nx_status nx__alone_back(const nx_windows *w, const float *small, const float *weight, const float *bias, float *big);
NX_MUST_USE nx_status nx__alone_weigh(const nx_windows *w, const float *big, const float *small, float *weight);

/* Whether a convolution is quicker by Winograd's way, and that way, which has bits of its own.
 * `back`: the big side from the small one, with the weights turned round. */
bool nx__winograd_suits(const nx_windows *w);
bool nx__winograd_suits_weights(const nx_windows *w);
NX_MUST_USE nx_status nx__winograd(const nx_windows *w, bool back, const float *from, const float *weight, const float *bias,
                                   const nx_tail *tail, float *to);
NX_MUST_USE nx_status nx__winograd_weigh(const nx_windows *w, const float *big, const float *small, float *weight);

#endif
