/* How a node can stand in a tile program: the one place that says what may be fused. The pass that makes regions asks
 * it, and so does the engine, which makes programs of them. What must hold: a member's elements are computed as
 * eager mode's kernel computes them (src/iter/point.c, reduce.c), by the same loop in the same dtypes.
 * Next: fuse.c; src/engine/region.c, which knows the machine's own limits. */
#include "iter/iter.h"
#include "pass/private.h"

/* In a step of a program operands stand as tensors. */
static const nx_tensor *operand(const nx_value *v) {
    return v->tag == NX_TAG_NODE ? v->node->fakes[v->n] : v->tag == NX_TAG_TENSOR ? v->tensor : NULL;
}

/* The machine holds numbers in 8 bytes and computes in the types that have loops. */
static bool fits_type(nx_dtype dtype) { return !nx_is_complex(dtype) && !nx_is_stored(dtype); }

/* Beside a result on a device a number of the CPU may stand, which the machine cannot read. */
static bool reads(const nx_value *v, const nx_array *result) {
    if (!fits_type(result->dtype)) return false;
    if (v->tag == NX_TAG_INT || v->tag == NX_TAG_FLOAT || v->tag == NX_TAG_BOOL) return true;
    const nx_tensor *fake = operand(v);
    return fake && fits_type(fake->a.dtype) && nx_device_same(fake->a.device, result->device) && fake->a.ndim <= result->ndim;
}

static void find_point(const nx_node *node, nx_form *form) {
    const nx_op_def *def = node->op->def;
    const nx_point *point = def->point;
    const nx_array *result = &node->fakes[0]->a;
    nx_value in[2 * NX_MAX_OPERANDS];
    if (point == NULL || point->n_out != 1 || point->n_in > NX_FORM_MAX_OPERANDS || def->n_in > NX_COUNT(in)) return;
    memcpy(in, node->args, sizeof *in * (size_t)def->n_in);
    for (int k = 0; k < def->n_in; k++) {
        if (in[k].tag == NX_TAG_NODE) in[k] = nx_value_tensor(in[k].node->fakes[in[k].n]);
    }
    for (int k = 0; k < point->n_in; k++) {
        if (!reads(&node->args[point->in_param[k]], result)) return;
    }
    form->common = nx_point_dtype(point, in);
    form->computing = nx__point_computing(point, in, form->common);
    form->loop = nx_point_loop(point, in, form->computing);
    if (form->loop && !nx_point_may_fail(point, form->common)) form->kind = NX_FORM_POINT;
}

/* A copy with another dtype. */
static void find_cast(const nx_node *node, nx_form *form) {
    if (node->args[0].tag != NX_TAG_NODE || !reads(&node->args[0], &node->fakes[0]->a)) return;
    form->kind = NX_FORM_CAST;
    form->common = form->computing = (nx_dtype)node->fakes[0]->a.dtype;
}

bool nx__folded_dims(const nx_node *node, int ndim, uint64_t *out) {
    const nx_value *dims = node->op->def->reduce->dim_param >= 0 ? &node->args[node->op->def->reduce->dim_param] : NULL;
    *out = ~UINT64_C(0);
    if (dims == NULL || dims->tag == NX_TAG_NONE || (dims->tag == NX_TAG_INTS && dims->n == 0)) return true;
    if (dims->tag != NX_TAG_INTS && dims->tag != NX_TAG_INT) return false;
    *out = 0;
    for (int i = 0, n = dims->tag == NX_TAG_INTS ? dims->n : 1; i < n; i++) {
        int64_t dim = dims->tag == NX_TAG_INTS ? dims->ints[i] : dims->i;
        *out |= UINT64_C(1) << (dim < 0 ? dim + ndim : dim);
    }
    return true;
}

/* Whether all dimensions are folded that have more than one element, or the last of them. */
static bool folds_last(const nx_node *node, const nx_array *a) {
    uint64_t folded;
    if (a->ndim == 0) return true;
    if (!nx__folded_dims(node, a->ndim, &folded)) return false;
    bool kept = false; /* from the last dimension on, one is kept */
    for (int d = a->ndim - 1; d >= 0; d--) {
        if (a->sizes[d] == 1) continue;
        if (folded >> d & 1 && kept) return false;
        kept = kept || !(folded >> d & 1);
    }
    return true;
}

/* A fold goes over its operand in row-major order, as the kernel does where the operand lies so. */
static void find_fold(const nx_node *node, nx_form *form) {
    const nx_tensor *from = operand(&node->args[0]);
    const nx_array *result = &node->fakes[0]->a;
    if (from == NULL || !fits_type(from->a.dtype) || !from->a.contiguous || !result->contiguous || !folds_last(node, &from->a)) return;
    const nx_reduce_loop *const(*loops)[NX_N_DTYPES] = node->op->def->reduce->loop;
    form->fold = loops[nx_level()][result->dtype];
    if (form->fold == NULL) form->fold = loops[NX_LEVEL_BASE][result->dtype];
    if (form->fold && nx_device_same(from->a.device, result->device)) form->kind = NX_FORM_FOLD;
}

nx_form nx_node_form(const nx_node *node) {
    nx_form form = {.kind = NX_FORM_NONE};
    const nx_op_def *def = node->op ? node->op->def : NULL;
    if (def == NULL || node->n_args != def->n_in || node->n_results != 1 || node->fakes[0] == NULL) return form;
    if (def->variant != NX_FUNCTIONAL || !nx__is_pure(node) || node->fakes[0]->a.numel == 0) return form;
    if (def->kind == NX_KIND_POINT) find_point(node, &form);
    else if (def->kind == NX_KIND_REDUCE && def->reduce) find_fold(node, &form);
    else if (node->op == nx_known(NX_KNOWN_CAST)) find_cast(node, &form);
    return form;
}

const nx_value *nx_form_operand(const nx_form *form, const nx_node *node, int k) {
    assert(k >= 0 && k < nx_form_n_operands(form, node));
    return form->kind == NX_FORM_POINT ? &node->args[node->op->def->point->in_param[k]] : &node->args[0];
}

int nx_form_n_operands(const nx_form *form, const nx_node *node) {
    return form->kind == NX_FORM_POINT ? node->op->def->point->n_in : form->kind != NX_FORM_NONE;
}
