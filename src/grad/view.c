/* Views and what writing them does to gradients. A tensor and its views are one memory. When an operator
 * writes one of them while gradients are recorded, the tensor that owns the memory (the base) gets the
 * history: a node CopySlices, which hands the part of the base's gradient that belongs to the written view
 * to the operator's own node and the rest to the base's history of before. Every view, the written one too,
 * is then out of date: when it is next used it gets a new node, AsStridedBackward0, whose gradient is the
 * view's laid into zeros of the base's size. Both nodes know the tensors by their geometry alone. What they
 * compute goes through the dispatcher, so that it can be differentiated in its turn. Next: call.c, which
 * makes these nodes. */
#include "grad/private.h"

typedef struct geometry {
    nx_dtype dtype;
    nx_device device;
    int ndim;
    int64_t offset;  /* elements from the storage's start */
    int64_t *dims;   /* sizes, then strides; behind the struct that holds this one */
} geometry;
typedef struct pair {
    geometry base, view;
    const void *traced; /* the views that lead from the one to the other, while a graph is traced; NULL */
} pair;

const void *(*nx_trace_views)(const nx_tensor *view);
nx_status (*nx_trace_retake)(const void *views, nx_tensor *of, nx_tensor **out);

static const void *traced_views(const nx_tensor *view) {
    return nx_thread_get()->tracer && nx_trace_views ? nx_trace_views(view) : NULL;
}

static size_t pair_bytes(const nx_tensor *base, const nx_tensor *view) {
    return sizeof(pair) + 2 * sizeof(int64_t) * (size_t)(base->a.ndim + view->a.ndim);
}

static void describe(const nx_tensor *tensor, int64_t *dims, geometry *out) {
    const nx_array *a = &tensor->a;
    *out = (geometry){(nx_dtype)a->dtype, a->device, a->ndim, tensor->offset, dims};
    memcpy(dims, a->sizes, sizeof *dims * a->ndim);
    memcpy(dims + a->ndim, a->strides, sizeof *dims * a->ndim);
}

/* Where in the storage its elements lie, in bytes: [low, high). */
static void span_of(const nx_tensor *tensor, int64_t *low, int64_t *high) {
    const nx_array *a = &tensor->a;
    int64_t bytes = nx_dtype_sizes[a->dtype];
    *low = tensor->offset * bytes;
    *high = *low + bytes;
    for (int d = 0; d < a->ndim; d++) *high += (a->sizes[d] - 1) * a->strides[d] * bytes;
    if (a->numel == 0) *high = *low;
}

/* A base that was resized, or shows another part of its storage since, may have views that lie outside of it: what stands for
 * the base in backward would have no room for their gradients. */
static nx_status check_inside(const nx_tensor *view) {
    int64_t low, high, base_low, base_high;
    if (view->a.numel == 0 || view->storage == NULL) return NX_OK;
    span_of(view, &low, &high);
    span_of(view->base, &base_low, &base_high);
    if (base_low <= low && high <= base_high) return NX_OK;
    return nx_fail(NX_NOT_IMPLEMENTED, "a view that reaches outside of what its base shows by now has no gradient there: "
                   "take the view again");
}

static void describe_pair(const nx_tensor *view, pair *out) {
    int64_t *dims = (int64_t *)(out + 1);
    describe(view->base, dims, &out->base);
    describe(view, dims + 2 * view->base->a.ndim, &out->view);
    out->traced = traced_views(view);
}

static void meta_of(const geometry *from, int64_t offset, nx_meta *out) {
    out->dtype = from->dtype;
    out->device = from->device;
    out->ndim = from->ndim;
    out->absent = false;
    out->view_of = -1;
    out->offset = offset;
    memcpy(out->size, from->dims, sizeof(int64_t) * (size_t)from->ndim);
    memcpy(out->stride, from->dims + from->ndim, sizeof(int64_t) * (size_t)from->ndim);
}

/* A place in the base in elements of the view, whose type may be another. */
static int64_t in_view(const pair *p, int64_t elements) {
    return elements * nx_dtype_sizes[p->base.dtype] / nx_dtype_sizes[p->view.dtype];
}

/* A tensor with the base's layout; its elements are not set. */
static nx_status new_base(const pair *p, nx_tensor *like, nx_tensor **out) {
    nx_meta meta;
    meta_of(&p->base, 0, &meta);
    if (NX_UNLIKELY(like->whole != NULL)) {
        const nx_value none = NX_VALUE_NONE;
        nx_value in[] = {nx_value_tensor(like), nx_value_ints(meta.size, meta.ndim), nx_value_ints(meta.stride, meta.ndim),
                         nx_value_dtype(meta.dtype), none, none, none};
        return nx__call_named("aten::new_empty_strided", in, out);
    }
    return nx_tensor_new_meta(&meta, nx_tensor_is_fake(like), out);
}

/* The view's place in `base`, which has the layout of p->base. */
static nx_status view_at(const pair *p, nx_tensor *base, nx_tensor **out) {
    nx_meta meta;
    if (p->traced) return nx_trace_retake(p->traced, base, out);
    meta_of(&p->view, p->view.offset + in_view(p, base->offset - p->base.offset), &meta);
    if (NX_UNLIKELY(base->whole != NULL)) {
        nx_value in[] = {nx_value_tensor(base), nx_value_ints(meta.size, meta.ndim), nx_value_ints(meta.stride, meta.ndim),
                         nx_value_int(meta.offset)};
        if (meta.dtype != base->a.dtype) return nx_fail(NX_NOT_IMPLEMENTED, "vmap: the gradient of a written view of another dtype");
        return nx__call_named("aten::as_strided", in, out);
    }
    NX_TRY(nx_tensor_new_view(base->storage, &meta, base->keys, base, out));
    nx_status status = nx__requires_grad(base) ? nx__view_renew(*out) : NX_OK;
    if (status == NX_OK) return NX_OK;
    nx_tensor_unref(*out);
    *out = NULL;
    return status;
}

static nx_status new_zeros(const pair *p, nx_tensor *like, nx_tensor **out) {
    NX_TRY(new_base(p, like, out));
    nx_status status = nx__zero(*out);
    if (status == NX_OK) return NX_OK;
    nx_tensor_unref(*out);
    *out = NULL;
    return status;
}

/* ---- a view of a base that has been written: AsStridedBackward0 ------------------------------------------- */
/* Elements that the view shows several times get the sum of their gradients: dimensions of stride 0 are
 * summed. */
static nx_status fold_repeats(const pair *p, nx_tensor *g, nx_meta *meta, nx_tensor **out) {
    int64_t sizes[NX_MAX_DIMS];
    meta_of(&p->view, p->view.offset - in_view(p, p->base.offset), meta);
    for (int d = 0; d < meta->ndim; d++) {
        sizes[d] = meta->size[d] = meta->stride[d] == 0 && meta->size[d] > 1 ? 1 : meta->size[d];
    }
    const nx_array like = {.sizes = sizes, .ndim = (uint8_t)meta->ndim, .numel = nx_numel(meta->ndim, sizes)};
    return nx_grad_sum_to(g, &like, out);
}

static nx_status lay_into_zeros(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    const pair *p = nx__node_more(nx__node_of(node));
    nx_tensor *whole = NULL, *part = NULL, *folded = NULL;
    nx_meta meta;
    nx_status status;
    NX_TRY_FAIL(fold_repeats(p, g[0], &meta, &folded));
    NX_TRY_FAIL(new_zeros(p, g[0], &whole));
    NX_TRY_FAIL(nx_tensor_new_view(whole->storage, &meta, whole->keys, whole, &part));
    NX_TRY_FAIL(nx__copy_into(part, folded));
    grads[0] = nx_tensor_ref(whole);
fail:
    nx_tensor_unref(part);
    nx_tensor_unref(whole);
    nx_tensor_unref(folded);
    return status;
}
static const nx_grad_class as_strided_class = {"AsStridedBackward0", lay_into_zeros, NULL, NULL};

static nx_status new_as_strided(const pair *p, size_t bytes, nx_edge base, nx_tensor *view) {
    nx__node *node;
    NX_TRY(nx__node_new(&as_strided_class, 1, 1, bytes, &node));
    pair *own = nx__node_more(node);
    if (p) {
        memcpy(own, p, bytes);
        own->base.dims = (int64_t *)(own + 1);
        own->view.dims = own->base.dims + 2 * own->base.ndim;
    } else {
        describe_pair(view, own);
    }
    nx_grad_node_ref(base.node);
    node->node.edges[0] = base;
    return nx_grad_take_node(view, &node->node, 0);
}

nx_status nx__view_check(const nx_tensor *view, const char *what) {
    const nx_autograd *autograd = view->autograd;
    char made[96] = "A view was created in no_grad mode";
    int n;
    if (view->creation_meta == NX_CREATION_DEFAULT) return NX_OK;
    if (view->creation_meta == NX_CREATION_NO_GRAD) return nx_fail_unrecorded_view(what);
    bool has_node = autograd && autograd->node;
    if (has_node) {
        const char *name = nx__short_name(autograd->node, &n);
        snprintf(made, sizeof made, "Output %d of %.*s is a view", autograd->output, n, name);
    }
    return nx_fail(NX_RUNTIME, "%s and %s modified inplace%s. This view is the output of a function that returns multiple "
                   "views. Such functions do not allow the output views to be modified inplace. You should replace the "
                   "inplace operation by an out-of-place one.", made, what, has_node ? "" : " with grad mode enabled");
}

bool nx__view_is_stale(const nx_tensor *tensor) {
    const nx_tensor *base = tensor->base;
    return base && nx__requires_grad(tensor) && base->attr_version != tensor->attr_version;
}

/* In a trace the view is taken again, and its history is that of the new one. */
static nx_status renew_traced(const void *traced, nx_tensor *view) {
    nx_thread *thread = nx_thread_get();
    bool disabled = thread->grad_disabled;
    nx_tensor *again;
    nx_grad_node *node;
    thread->grad_disabled = false; /* also where a backward begins at the view */
    nx_status status = nx_trace_retake(traced, view->base, &again);
    thread->grad_disabled = disabled;
    if (status != NX_OK) return status;
    status = nx_grad_node_of(again, &node);
    if (status == NX_OK && node) status = nx_grad_set_node(view, node, again->autograd->output);
    nx_tensor_unref(again);
    return status;
}

nx_status nx__view_renew(nx_tensor *view) {
    nx_edge edge;
    NX_TRY(nx__view_check(view, "its base or another view of its base has been"));
    const void *traced = traced_views(view);
    if (traced) return renew_traced(traced, view);
    NX_TRY(check_inside(view));
    NX_TRY(nx_grad_edge(view->base, &edge));
    if (edge.node == NULL) return NX_OK;
    nx_status status = new_as_strided(NULL, pair_bytes(view->base, view), edge, view);
    nx_grad_node_unref(edge.node);
    return status;
}

/* ---- the base of a view that has been written: CopySlices ------------------------------------------------------ */
typedef struct slices {
    nx__node *inner; /* the operator's own node; its first edge leads nowhere */
    pair p;          /* dims follow */
} slices;

static nx_status move_grads(const nx__node *inner, nx_tensor *part, nx_tensor **inner_grads, nx_tensor **grads) {
    for (int k = 1; k < inner->node.n_edges; k++) {
        grads[k] = inner_grads[k];
        inner_grads[k] = NULL;
    }
    if (inner_grads[0]) return nx__copy_into(part, inner_grads[0]);
    return nx__zero(part);
}

/* The base's gradient as memory that may be written: its own if nobody else sees it. */
static nx_status own_gradient(const pair *p, nx_tensor *g, nx_tensor **out) {
    int n = p->base.ndim;
    if (p->traced) return nx__clone(g, false, out);
    bool usable = !nx_grad_enabled() && nx__is_sole(g) && g->base == NULL && g->a.ndim == n;
    for (int d = 0; usable && d < n; d++)
        usable = g->a.sizes[d] == p->base.dims[d] && g->a.strides[d] == p->base.dims[n + d];
    if (usable) {
        *out = nx_tensor_ref(g);
        return NX_OK;
    }
    nx_tensor *made;
    NX_TRY(new_base(p, g, &made));
    nx_status status = nx__copy_into(made, g);
    if (status == NX_OK) *out = made;
    else nx_tensor_unref(made);
    return status;
}

static nx_status split_gradient(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    slices *s = node->context;
    nx_tensor *whole = NULL, *part = NULL, *copy = NULL, *few[8] = {NULL}, **inner_grads = few;
    nx_status status;
    int n = s->inner->node.n_edges;
    uint64_t wanted = nx__node_of(node)->wanted;
    if (n > NX_COUNT(few) && (inner_grads = nx_alloc_zeroed(sizeof *inner_grads * (size_t)n)) == NULL)
        return nx_fail_memory(sizeof *inner_grads * (size_t)n);
    NX_TRY_FAIL(own_gradient(&s->p, g[0], &whole));
    NX_TRY_FAIL(view_at(&s->p, whole, &part));
    NX_TRY_FAIL(nx__clone(part, false, &copy));
    s->inner->wanted = wanted;
    NX_TRY_FAIL(s->inner->node.class->apply(&s->inner->node, &copy, inner_grads));
    NX_TRY_FAIL(move_grads(s->inner, part, inner_grads, grads));
    grads[0] = nx_tensor_ref(whole);
fail:
    for (int k = 0; k < n; k++) nx_tensor_unref(inner_grads[k]);
    if (inner_grads != few) nx_free(inner_grads);
    nx_tensor_unref(copy);
    nx_tensor_unref(part);
    nx_tensor_unref(whole);
    return status;
}

static void release_inner(nx_grad_node *node) { nx__node_stop(&((slices *)node->context)->inner->node); }
static void drop_inner(nx__node *node) { nx_grad_node_unref(&((slices *)node->node.context)->inner->node); }
static const nx_grad_class copy_slices_class = {"CopySlices", split_gradient, release_inner, NULL};

nx_status nx__slices_new(nx_tensor *view, nx__node *inner, nx__node **out) {
    nx_edge base = {NULL, 0};
    nx__node *node;
    size_t bytes = sizeof(slices) - sizeof(pair) + pair_bytes(view->base, view);
    NX_TRY(check_inside(view));
    if (nx__requires_grad(view->base)) NX_TRY(nx_grad_edge(view->base, &base));
    nx_status status = nx__node_new(&copy_slices_class, 1, inner->node.n_edges, bytes, &node);
    if (status != NX_OK) {
        nx_grad_node_unref(base.node);
        return status;
    }
    slices *s = node->node.context = nx__node_more(node);
    s->inner = inner;
    describe_pair(view, &s->p);
    for (int k = 0; k < inner->node.n_edges; k++) {
        node->node.edges[k] = inner->node.edges[k];
        inner->node.edges[k] = (nx_edge){NULL, 0};
    }
    nx_grad_node_unref(node->node.edges[0].node);
    node->node.edges[0] = base;
    node->destroy = drop_inner;
    inner->outer = &node->node;
    *out = node;
    return NX_OK;
}

nx_grad_node *nx__slices_inner(nx_grad_node *node) {
    return node->class == &copy_slices_class ? &((slices *)node->context)->inner->node : node;
}

nx_status nx__slices_restore(nx_grad_node *outer, nx_tensor *result) {
    const pair *p = &((slices *)outer->context)->p;
    size_t bytes = sizeof(pair) + 2 * sizeof(int64_t) * (size_t)(p->base.ndim + p->view.ndim);
    return new_as_strided(p, bytes, (nx_edge){outer, 0}, result);
}
