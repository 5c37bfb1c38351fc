/* What a tensor says about its gradient: requires_grad, grad, is it a leaf, where its history starts,
 * backward().
 * The AUTOGRAD key of a tensor is set exactly when it requires grad. A view that was not recorded requires grad when its
 * base does, as in PyTorch, and is a leaf whose gradient goes nowhere. Next: engine.c. */
#include "grad/private.h"

bool nx_grad_enabled(void) { return !nx_thread_get()->grad_disabled; }
void nx_grad_set_enabled(bool enabled) { nx_thread_get()->grad_disabled = !enabled; }
bool nx_tensor_requires_grad(const nx_tensor *tensor) { return nx__requires_grad(tensor); }
bool nx_tensor_is_leaf(const nx_tensor *tensor) {
    if (tensor->base && nx__view_is_stale(tensor)) return false; /* gets its node when it is used */
    return tensor->autograd == NULL || tensor->autograd->node == NULL;
}
nx_tensor *nx_tensor_get_grad(const nx_tensor *tensor) {
    return tensor->autograd ? tensor->autograd->grad : NULL;
}

nx_status nx_tensor_set_requires_grad(nx_tensor *tensor, bool requires_grad) {
    if (!nx_tensor_is_leaf(tensor)) {
        if (requires_grad) return NX_OK;
        return nx_fail(NX_RUNTIME, "you can only change requires_grad flags of leaf variables. If you want "
                       "to use a computed variable in a subgraph that doesn't require differentiation use "
                       "var_no_grad = var.detach().");
    }
    if (requires_grad && !nx_is_differentiable((nx_dtype)tensor->a.dtype)) {
        return nx_fail(NX_RUNTIME, "only Tensors of floating point dtype can require gradients");
    }
    nx_autograd *autograd = tensor->autograd;
    if (requires_grad) NX_TRY(nx__autograd_of(tensor, &autograd));
    if (autograd) autograd->requires_grad = requires_grad;
    if (requires_grad) tensor->keys |= NX_KEY(AUTOGRAD);
    if (requires_grad && tensor->base == NULL && tensor->next_view) nx_tensor_key_views(tensor, NX_KEY(AUTOGRAD));
    if (!requires_grad) tensor->keys &= ~NX_KEY(AUTOGRAD);
    return NX_OK;
}

nx_status nx_grad_node_of(nx_tensor *tensor, nx_grad_node **out) {
    if (tensor->base && nx__view_is_stale(tensor)) NX_TRY(nx__view_renew(tensor));
    *out = tensor->autograd ? tensor->autograd->node : NULL;
    return NX_OK;
}

static nx_status accumulator_of(nx_tensor *leaf, nx_grad_node **out) {
    nx_grad_node *_Atomic *at = &leaf->autograd->accumulator;
    nx_grad_node *made, *other = NULL;
    if ((*out = atomic_load_explicit(at, memory_order_acquire)) != NULL) return NX_OK;
    NX_TRY(nx__accumulator_new(leaf, &made));
    if (atomic_compare_exchange_strong(at, &other, made)) {
        *out = made;
        return NX_OK;
    }
    nx_grad_node_unref(made); /* another thread was first */
    *out = other;
    return NX_OK;
}

nx_status nx_grad_edge(nx_tensor *tensor, nx_edge *out) {
    *out = (nx_edge){NULL, 0};
    if (!nx__requires_grad(tensor)) return NX_OK;
    if (NX_UNLIKELY(tensor->base != NULL) && nx__view_is_stale(tensor)) NX_TRY(nx__view_renew(tensor));
    nx_autograd *autograd = tensor->autograd;
    if (autograd == NULL) return NX_OK; /* a view that nobody recorded: its gradient goes nowhere */
    if (autograd->node) {
        nx_grad_node_ref(autograd->node);
        *out = (nx_edge){autograd->node, autograd->output};
        return NX_OK;
    }
    if (!autograd->requires_grad) return NX_OK;
    NX_TRY(accumulator_of(tensor, &out->node));
    nx_grad_node_ref(out->node);
    return NX_OK;
}

/* ---- non-leaves that keep their gradient: a list at the node that made them --------------------------- */
nx_status nx_tensor_retain_grad(nx_tensor *tensor) {
    nx_grad_node *node;
    if (!nx__requires_grad(tensor))
        return nx_fail(NX_RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
    NX_TRY(nx_grad_node_of(tensor, &node));
    nx_autograd *autograd = tensor->autograd;
    if (autograd == NULL || autograd->node == NULL || autograd->retains_grad) return NX_OK;
    autograd->retains_grad = true;
    autograd->next_retained = nx__node_of(autograd->node)->retained;
    nx__node_of(autograd->node)->retained = autograd;
    return NX_OK;
}

void nx__retain_stop(nx_autograd *autograd) {
    if (NX_LIKELY(!autograd->retains_grad)) return;
    nx_autograd **at = &nx__node_of(autograd->node)->retained;
    while (*at && *at != autograd) at = &(*at)->next_retained;
    if (*at) *at = autograd->next_retained;
    autograd->retains_grad = false;
}

nx_status nx_grad_set_node(nx_tensor *tensor, nx_grad_node *node, int output) {
    nx_grad_node_ref(node);
    return nx_grad_take_node(tensor, node, output);
}

nx_status nx_grad_take_node(nx_tensor *tensor, nx_grad_node *node, int output) {
    nx_autograd *autograd;
    nx_status status = nx__autograd_of(tensor, &autograd);
    if (status != NX_OK) {
        nx_grad_node_unref(node);
        return status;
    }
    bool retains = autograd->retains_grad; /* an operator that writes in place: its new value keeps its gradient */
    nx__retain_stop(autograd);
    nx_grad_node *before = autograd->node;
    autograd->node = node;
    autograd->output = output;
    autograd->requires_grad = false;
    if (tensor->base) tensor->attr_version = tensor->base->attr_version;
    tensor->keys |= NX_KEY(AUTOGRAD);
    nx_grad_node_unref(before);
    return retains ? nx_tensor_retain_grad(tensor) : NX_OK;
}

void nx_grad_drop(nx_tensor *tensor) {
    nx_autograd *autograd = tensor->autograd;
    tensor->keys &= ~NX_KEY(AUTOGRAD);
    if (autograd == NULL) return;
    nx_grad_node *node = autograd->node;
    nx__retain_stop(autograd);
    autograd->node = NULL;
    autograd->output = 0;
    autograd->requires_grad = false;
    nx_grad_node_unref(node);
}

static nx_status check_grad(const nx_tensor *tensor, const nx_tensor *grad) {
    const nx_array *a = &tensor->a, *g = &grad->a;
    if (grad == tensor) return nx_fail(NX_RUNTIME, "can't assign Variable as its own grad");
    if (g->dtype != a->dtype) {
        return nx_fail(NX_RUNTIME, "attempting to assign a gradient with dtype '%s' to a tensor with dtype "
                       "'%s': the gradient must have the tensor's dtype", nx_dtype_name(g->dtype),
                       nx_dtype_name(a->dtype));
    }
    if (!nx_device_same(g->device, a->device)) {
        return nx_fail(NX_RUNTIME, "assigned grad has data located on a different device");
    }
    if (nx_same_size(a, g)) return NX_OK;
    nx_text text = {0};
    nx_text_add(&text, "attempting to assign a gradient of size '");
    nx_text_add_ints(&text, g->sizes, g->ndim);
    nx_text_add(&text, "' to a tensor of size '");
    nx_text_add_ints(&text, a->sizes, a->ndim);
    nx_status status = nx_fail(NX_RUNTIME, "%s'. Please ensure that the gradient and the tensor are the "
                               "same size", text.failed ? "the size of the gradient is '?" : text.at);
    nx_text_free(&text);
    return status;
}

nx_status nx_tensor_set_grad(nx_tensor *tensor, nx_tensor *grad) {
    nx_autograd *autograd = tensor->autograd;
    if (grad) {
        NX_TRY(check_grad(tensor, grad));
        NX_TRY(nx__autograd_of(tensor, &autograd));
        nx_tensor_ref(grad);
    }
    if (autograd == NULL) return NX_OK;
    nx_tensor *before = autograd->grad;
    autograd->grad = grad;
    nx_tensor_unref(before);
    return NX_OK;
}

nx_status nx_tensor_backward(nx_tensor *tensor) {
    nx_tensor *seed = NULL;
    return nx_grad_run(&tensor, &seed, 1, false, false, NULL, 0, NULL);
}

/* ---- hooks -------------------------------------------------------------------------------------------- */
nx_status nx_grad_node_hook_of(nx_grad_node *node, nx_hook_kind kind, int output, nx_grad_hook **out) {
    nx_grad_hook **at = &nx__node_of(node)->hooks;
    while (*at && ((*at)->kind != kind || (*at)->output != output)) at = &(*at)->next;
    if (*at == NULL) {
        if ((*at = nx_alloc_zeroed(sizeof **at)) == NULL) return nx_fail_memory(sizeof **at);
        (*at)->kind = kind;
        (*at)->output = output;
    }
    *out = *at;
    return NX_OK;
}

nx_status nx_grad_hook_of(nx_tensor *tensor, nx_hook_kind kind, nx_grad_hook **out) {
    nx_edge edge;
    NX_TRY(nx_grad_edge(tensor, &edge));
    if (edge.node == NULL) return nx_fail(NX_RUNTIME, "cannot register a hook on a tensor that doesn't require gradient");
    nx_grad_node_unref(edge.node); /* the tensor holds it */
    return nx_grad_node_hook_of(edge.node, kind, edge.input, out);
}

/* ---- inputs of traces --------------------------------------------------------------------------------- */
static nx_status pass_on(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    if (node->edges[0].node == NULL) return NX_OK;
    grads[0] = g[0];
    g[0] = NULL;
    return NX_OK;
}
static const nx_grad_class input_class = {"InputBackward", pass_on, NULL, NULL};

nx_status nx_grad_stand_in(nx_tensor *tensor, nx_tensor *leaf) {
    nx_grad_node *node;
    NX_TRY(nx_grad_node_new(&input_class, 1, 1, NULL, &node));
    nx_status status = leaf ? nx_grad_edge(leaf, &node->edges[0]) : NX_OK;
    if (status == NX_OK) status = nx_grad_set_node(tensor, node, 0);
    nx_grad_node_unref(node);
    return status;
}

nx_status nx_grad_stand_over(nx_tensor *tensor) {
    NX_TRY(nx_grad_stand_in(tensor, NULL));
    tensor->autograd->node->released = true;
    return NX_OK;
}

bool nx_grad_is_stand_in(const nx_tensor *tensor) {
    const nx_grad_node *node = tensor->autograd ? tensor->autograd->node : NULL;
    return node && node->class == &input_class;
}
