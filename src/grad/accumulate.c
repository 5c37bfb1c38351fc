/* The node at a leaf: adds what arrives to the leaf's gradient.
 * The first gradient becomes leaf.grad itself when nobody else sees it and it lies in memory as the leaf
 * does; else a copy in the leaf's layout does. Later ones are added in place, or, when the backward is
 * itself recorded (create_graph), out of place. The leaf keeps its node, which forgets the leaf when that
 * goes: what nobody can see any more needs no gradient. */
#include "grad/private.h"

static bool has_layout_of(const nx_array *g, const nx_array *leaf) {
    return leaf->contiguous || !nx_is_dense(leaf) ? g->contiguous : nx_same_strides(g, leaf);
}

static nx_status copy_in_layout(nx_tensor *g, nx_tensor *leaf, nx_tensor **out) {
    if (leaf->a.contiguous || !nx_is_dense(&leaf->a)) return nx__clone(g, false, out);
    return nx__copy_like(g, leaf, out);
}

/* *g as a plain tensor: without base and history, which would keep other memory alive. */
static nx_status take_plain(nx_tensor **g, nx_tensor **out) {
    if ((*g)->base || (*g)->autograd) return nx_tensor_alias(*g, out);
    *out = *g;
    *g = NULL;
    return NX_OK;
}

static nx_status add_to(nx_tensor *leaf, nx_tensor **g) {
    nx_autograd *autograd = leaf->autograd;
    bool recorded = nx_grad_enabled();
    nx_tensor *sum = NULL;
    if (autograd->grad && !recorded && nx__takes(autograd->grad, g[0])) return nx__add_in_place(autograd->grad, g[0]);
    if (autograd->grad) {
        NX_TRY(nx__add(autograd->grad, g[0], &sum));
    } else if (!recorded && nx__is_sole(g[0]) && has_layout_of(&g[0]->a, &leaf->a)) {
        NX_TRY(take_plain(&g[0], &sum));
    } else {
        NX_TRY(copy_in_layout(g[0], leaf, &sum));
    }
    nx_tensor *before = autograd->grad;
    autograd->grad = sum;
    nx_tensor_unref(before);
    return NX_OK;
}

/* Backwards of several threads meet here, and others may set the gradient: nobody gets the interpreter's lock before the sum is
 * in its place. */
static nx_status accumulate(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    nx_tensor *leaf = node->context;
    if (leaf == NULL || !nx_tensor_requires_grad(leaf)) return NX_OK; /* switched off since */
    bool kept = nx__keep_lock(true);
    nx_status status = add_to(leaf, g);
    nx__keep_lock(kept);
    return status;
}

static const nx_grad_class accumulator_class = {"AccumulateGrad", accumulate, NULL, NULL};

nx_status nx__accumulator_new(nx_tensor *leaf, nx_grad_node **out) {
    nx__node *node;
    NX_TRY(nx__node_new(&accumulator_class, 1, 0, 0, &node));
    node->node.sequence = UINT64_MAX; /* runs as soon as it is complete, so that gradients do not pile up */
    node->node.context = leaf;
    *out = &node->node;
    return NX_OK;
}
