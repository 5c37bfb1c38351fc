/* Masks among the indices of x[...]: at a device's key each mask of bools (or bytes) gives way to the integers of its
 * places, a tensor for each of its dimensions; then the front goes on as if they had been given. How many they are
 * only the mask's elements say, so on fakes the shape rule refuses masks. In: a call whose first argument is indexed.
 * Next: src/iter/index.c, ops/index/index.c. */
#include "dispatch/private.h"

typedef struct indices { nx_value at[NX_MAX_DIMS]; int n; } indices; /* owned */

static void indices_end(indices *p) {
    for (int k = 0; k < p->n; k++) nx_value_drop(&p->at[k]);
}

static bool is_mask(const nx_value *index) {
    return index->tag == NX_TAG_TENSOR && (index->array->dtype == NX_BOOL || index->array->dtype == NX_U8);
}

static nx_status add(indices *p, const nx_array *x, nx_tensor *index) {
    if (p->n == NX_MAX_DIMS) return nx_fail(NX_INDEX, "too many indices for tensor of dimension %d", x->ndim);
    p->at[p->n++] = index ? nx_value_tensor(nx_tensor_ref(index)) : NX_VALUE_NONE;
    return NX_OK;
}

static nx_status fail_sizes(const nx_array *x, int dim, const nx_array *mask, int d) {
    nx_text text = {0};
    nx_text_add(&text, "The shape of the mask ");
    nx_text_add_ints(&text, mask->sizes, mask->ndim);
    nx_text_add(&text, " at index %d does not match the shape of the indexed tensor ", d);
    nx_text_add_ints(&text, x->sizes, x->ndim);
    nx_text_add(&text, " at index %d", dim + d);
    nx_status status = nx_fail(NX_INDEX, "%s", text.failed ? "The shape of a mask does not match the indexed tensor's" : text.at);
    nx_text_free(&text);
    return status;
}

nx_status nx_mask_check(const nx_array *x, int dim, const nx_array *mask) {
    if (dim + mask->ndim > x->ndim)
        return nx_fail(NX_INDEX, "too many indices for tensor of dimension %d", x->ndim);
    for (int d = 0; d < mask->ndim; d++) {
        if (mask->sizes[d] != x->sizes[dim + d]) return fail_sizes(x, dim, mask, d);
    }
    return NX_OK;
}

static nx_status add_mask(indices *p, const nx_array *x, nx_tensor *mask) {
    nx_value places;
    if (mask->a.ndim == 0) return NX_OK; /* PyTorch's list, too, loses it */
    NX_TRY(nx_mask_check(x, p->n, &mask->a));
    NX_TRY(nx_op_call(nx_known(NX_KNOWN_PLACES), (nx_value[]){nx_value_tensor(mask)}, &places));
    nx_status status = NX_OK;
    for (int k = 0; k < places.n && status == NX_OK; k++) status = add(p, x, places.list[k].tensor);
    nx_value_drop(&places);
    return status;
}

static nx_status expand(indices *p, const nx_array *x, const nx_value *given) {
    for (int k = 0; k < given->n; k++) {
        nx_tensor *index = given->list[k].tag == NX_TAG_TENSOR ? given->list[k].tensor : NULL;
        NX_TRY(is_mask(&given->list[k]) ? add_mask(p, x, index) : add(p, x, index));
    }
    return NX_OK;
}

/* ---- one number at the places of one mask: masked_fill does that, in one pass ------------------------------------------- */
/* The place of the only index that is not None, if it is a mask; else -1. */
static int only_mask(const nx_value *list) {
    int found = -1;
    for (int k = 0; k < list->n; k++) {
        if (list->list[k].tag != NX_TAG_TENSOR) continue;
        if (found >= 0 || !is_mask(&list->list[k])) return -1;
        found = k;
    }
    return found;
}

/* Whether `op` fills the places of a mask of x: a copy of x where it does not write into x itself. */
static bool is_fill(const nx_op *op, const nx_value *in) {
    if (op != nx_known(NX_KNOWN_PUT_INTO) && op != nx_known(NX_KNOWN_PUT)) return false;
    const nx_array *x = in[0].array, *value = in[2].array;
    int at = only_mask(&in[1]);
    if (at < 0 || in[3].i || value->numel != 1 || value->dtype != x->dtype || !nx_device_same(value->device, x->device)) return false;
    return in[1].list[at].array->dtype == NX_BOOL && in[1].list[at].array->ndim > 0;
}

static nx_status viewed(nx_tensor *t, const int64_t *size, int ndim, nx_value *out) {
    nx_value in[] = {nx_value_tensor(t), nx_value_ints(size, ndim)};
    return nx_redispatch(nx_known(NX_KNOWN_RESHAPE), NX_DEVICE_KEY(t->a.device), NX_N_KEYS, in, out);
}

/* The mask with dimensions of size 1 behind its own, for those of x that it does not name. */
static nx_status fill_by_mask(const nx_op *op, const nx_value *in, nx_value *out) {
    const nx_array *x = in[0].array;
    int at = only_mask(&in[1]), ndim = x->ndim - at;
    nx_tensor *mask = in[1].list[at].tensor;
    bool copies = op == nx_known(NX_KNOWN_PUT), in_one = copies && x->contiguous; /* the results of both lie like x */
    nx_value spread, number = NX_VALUE_NONE, to = in[0];
    int64_t size[NX_MAX_DIMS];
    NX_TRY(nx_mask_check(x, at, &mask->a));
    for (int d = 0; d < ndim; d++) size[d] = d < mask->a.ndim ? mask->a.sizes[d] : 1;
    NX_TRY(viewed(mask, size, ndim, &spread));
    nx_status status = viewed(in[2].tensor, size, 0, &number);
    if (status == NX_OK && copies && !in_one) {
        nx_value copy[] = {in[0], NX_VALUE_NONE};
        status = nx_redispatch(nx_known(NX_KNOWN_CLONE), NX_DEVICE_KEY(x->device), NX_N_KEYS, copy, &to);
    }
    if (status == NX_OK) {
        const nx_op *fill = nx_known(in_one ? NX_KNOWN_FILL : NX_KNOWN_FILL_INTO);
        status = nx_redispatch(fill, NX_DEVICE_KEY(x->device), NX_N_KEYS, (nx_value[]){to, spread, number}, out);
        if (to.tensor != in[0].tensor) nx_value_drop(&to);
    }
    nx_value_drop(&number);
    nx_value_drop(&spread);
    return status;
}

static int indices_param(const nx_op_def *def) {
    for (int i = 0; i < def->n_in; i++)
        if (def->params[i].type == NX_TYPE_TENSORS) return i;
    return 0;
}

nx_status nx__front_masks(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_op_def *def = run->op->def;
    int at = indices_param(def);
    bool masks = false;
    for (int k = 0; in[at].tag == NX_TAG_LIST && k < in[at].n; k++) masks |= is_mask(&in[at].list[k]);
    if (!masks) return nx_front(run, in, out);
    if (is_fill(run->op, in)) return fill_by_mask(run->op, in, out);
    indices own = {.n = 0};
    nx_value call[NX__MAX_IN];
    memcpy(call, in, sizeof *in * (size_t)def->n_in);
    nx_status status = expand(&own, in[0].array, &in[at]);
    call[at] = nx_value_list(own.at, own.n);
    if (status == NX_OK) status = nx_front(run, call, out);
    indices_end(&own);
    return status;
}
