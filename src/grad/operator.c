/* Nodes of operators: what a call leaves behind for its derivative. Edges: one for each argument up to the last
 * that is differentiable; if that one is a list, one for each of its tensors.
 * A slot holds one argument or result. Tensors that the needed formulas read are kept whole, with the
 * version that their storage had; of the others only the shape is copied, into the node's own block, and a
 * tensor without storage is put together when the formula runs. A saved result is an alias without history,
 * so that no node holds itself.
 * The formula's gradients are fitted to the arguments (summed over broadcast dimensions, cast) after it has
 * run. */
#include "grad/private.h"

typedef struct nx__slot {
    nx_value value;    /* kept; a tensor that is not whole: .opaque is a shape */
    uint32_t version;  /* of a whole tensor's storage */
} nx__slot;

enum { MAX_SLOTS = 64 }; /* bits of nx__node.whole */
typedef struct shape {
    int64_t numel;
    uint8_t dtype, ndim;
    bool contiguous;
    nx_device device;
    int64_t dims[]; /* sizes, then strides */
} shape;

#define FEW_DIMS 4
_Static_assert(FEW_DIMS <= NX_INLINE_DIMS, "copied from a tensor as a whole");
static size_t shape_bytes(int ndim) {
    return sizeof(shape) + 2 * sizeof(int64_t) * (size_t)(ndim > FEW_DIMS ? ndim : FEW_DIMS);
}

static shape *put_shape(char **at, const nx_tensor *tensor) {
    const nx_array *a = &tensor->a;
    shape *s = (shape *)*at;
    s->numel = a->numel;
    s->dtype = a->dtype;
    s->ndim = a->ndim;
    s->contiguous = a->contiguous;
    s->device = a->device;
    if (NX_LIKELY(a->ndim <= FEW_DIMS && a->sizes == tensor->dims)) { /* without a loop: strides follow the sizes */
        memcpy(s->dims, tensor->dims, sizeof(int64_t) * 2 * FEW_DIMS);
    } else {
        int64_t *dims = s->dims;
        for (int d = 0; d < a->ndim; d++) *dims++ = a->sizes[d];
        for (int d = 0; d < a->ndim; d++) *dims++ = a->strides[d];
    }
    *at += shape_bytes(a->ndim);
    return s;
}

/* Lives as long as the node; nobody may keep it. */
static void tensor_of_shape(const shape *s, nx_tensor *out) {
    nx_tensor_start(out, (int64_t *)s->dims, s->ndim, (nx_dtype)s->dtype, s->device, NX_DEVICE_KEY(s->device));
    out->a.data = NULL;
    out->a.numel = s->numel;
    out->a.contiguous = s->contiguous;
    out->storage = NULL;
}

/* ---- saving ------------------------------------------------------------------------------------------- */
static void reads_of(const nx_derivative *d, uint64_t needed, uint64_t *in, uint64_t *out) {
    if (d->saves_in_of == NULL || d->saves_out_of == NULL) {
        *in = d->saves_in;
        *out = d->saves_out;
        return;
    }
    *in = *out = 0;
    for (uint64_t rest = needed; rest; rest &= rest - 1) {
        int k = __builtin_ctzll(rest);
        *in |= d->saves_in_of[k];
        *out |= d->saves_out_of[k];
    }
}

bool nx__operator_reads(const nx_derivative *derivative, uint64_t needed, int argument) {
    uint64_t in, out;
    reads_of(derivative, needed, &in, &out);
    return in >> argument & 1;
}

static void drop_slots(nx__node *node, uint64_t which) {
    for (uint64_t rest = which; rest; rest &= rest - 1) {
        nx_value *value = &node->slots[__builtin_ctzll(rest)].value;
        if (NX_UNLIKELY(node->packed & rest & -rest)) nx_saved_free((void *)value->opaque);
        else nx_value_drop(value);
    }
    node->packed &= ~which;
    node->whole &= ~which;
    node->kept &= ~which;
}

static void drop_all(nx__node *node) { drop_slots(node, node->kept); }

static void release_whole(nx_grad_node *node) { drop_slots(nx__node_of(node), nx__node_of(node)->whole); }

static nx_status apply(nx_grad_node *node, nx_tensor *const *g, nx_tensor **grads);
static const nx_grad_class operator_class = {"Operator", apply, NULL, NULL}; /* saves nothing that backward frees */
static const nx_grad_class saving_class = {"Operator", apply, release_whole, NULL};

static nx_status save_whole(nx__node *node, int at, nx_tensor *tensor) {
    nx_saved *saved = NULL;
    if (NX_UNLIKELY(nx_thread_get()->saved_hooks != NULL)) NX_TRY(nx_saved_new(tensor, at >= node->n_in, &saved));
    if (NX_LIKELY(saved == NULL)) {
        node->slots[at] = (nx__slot){nx_value_tensor(nx_tensor_ref(tensor)), nx_tensor_version(tensor)};
    } else {
        node->slots[at].value = (nx_value){.tag = NX_TAG_OPAQUE, .opaque = saved};
        node->packed |= UINT64_C(1) << at;
    }
    node->whole |= UINT64_C(1) << at;
    node->kept |= UINT64_C(1) << at;
    node->node.class = &saving_class;
    node->destroy = drop_all;
    return NX_OK;
}

static nx_status keep_value(nx__node *node, int at, const nx_value *value) {
    NX_TRY(nx_value_keep(value, &node->slots[at].value));
    node->kept |= UINT64_C(1) << at;
    node->destroy = drop_all;
    return NX_OK;
}

/* Changes when one of the tensors is written. */
static uint32_t list_version(const nx_value *list) {
    uint32_t sum = 0;
    for (int i = 0; i < list->n; i++) sum += list->list[i].tag == NX_TAG_TENSOR ? nx_tensor_version(list->list[i].tensor) : 0;
    return sum;
}

/* Bytes of what save_arguments puts into the node's block. */
static size_t shapes_bytes(const nx_value *value) {
    if (value->tag == NX_TAG_TENSOR) return shape_bytes(value->array->ndim);
    size_t bytes = value->tag == NX_TAG_LIST ? sizeof(nx_value) * (size_t)value->n : 0;
    for (int i = 0; value->tag == NX_TAG_LIST && i < value->n; i++) bytes += shapes_bytes(&value->list[i]);
    return bytes;
}

/* The list with a shape for each tensor. */
static nx_value put_list(char **room, const nx_value *from) {
    nx_value *to = (nx_value *)*room;
    *room += sizeof *to * (size_t)from->n;
    for (int i = 0; i < from->n; i++) {
        to[i] = from->list[i];
        if (to[i].tag == NX_TAG_TENSOR) to[i].opaque = put_shape(room, from->list[i].tensor);
    }
    return nx_value_list(to, from->n);
}

static nx_status save_arguments(nx__node *node, const nx_value *in, uint64_t reads, nx_tensor *original,
                                char **room) {
    for (int k = 0; k < node->n_in; k++) {
        if (k == node->list_at && !(reads >> k & 1)) {
            node->slots[k].value = put_list(room, &in[k]);
        } else if (in[k].tag == NX_TAG_LIST) {
            NX_TRY(keep_value(node, k, &in[k]));
            node->slots[k].version = list_version(&in[k]);
        } else if (in[k].tag != NX_TAG_TENSOR) {
            if (in[k].tag <= NX_TAG_BOOL) node->slots[k].value = in[k];
            else NX_TRY(keep_value(node, k, &in[k]));
        } else if (reads >> k & 1) {
            NX_TRY(save_whole(node, k, original && in[k].tensor == in[0].tensor ? original : in[k].tensor));
        } else {
            node->slots[k].value = (nx_value){.tag = NX_TAG_TENSOR, .opaque = put_shape(room, in[k].tensor)};
        }
    }
    return NX_OK;
}

static nx_status list_edges(const nx_value *list, nx_edge *edges) {
    for (int i = 0; i < list->n; i++) {
        if (list->list[i].tag == NX_TAG_TENSOR) NX_TRY(nx_grad_edge(list->list[i].tensor, &edges[i]));
    }
    return NX_OK;
}

/* Every argument's slot is filled before it is read. Results that the formulas do not read whole are not saved. */
nx_status nx__operator_new(const nx_op *op, const nx_value *in, uint64_t needed, nx_tensor *original,
                           nx__node **out) {
    const nx_op_def *def = op->def;
    const nx_derivative *derivative = nx__derivative_of(op);
    int n_edges = 64 - __builtin_clzll(derivative->inputs);
    int list_at = in[n_edges - 1].tag == NX_TAG_LIST ? n_edges - 1 : -1;
    uint64_t reads_in, reads_out;
    reads_of(derivative, needed, &reads_in, &reads_out);
    size_t more = sizeof(nx__slot) * (size_t)(def->n_in + def->n_out);
    for (int k = 0; k < def->n_in; k++) {
        if ((in[k].tag == NX_TAG_TENSOR || k == list_at) && !(reads_in >> k & 1)) more += shapes_bytes(&in[k]);
    }
    if (NX_UNLIKELY(list_at >= 0)) n_edges += in[list_at].n - 1;
    if (def->n_in + def->n_out > MAX_SLOTS) {
        return nx_fail(NX_NOT_IMPLEMENTED, "%s: %d arguments and results are too many to be differentiated, "
                       "at most %d are possible",
                       def->name, def->n_in + def->n_out, MAX_SLOTS);
    }
    nx__node *node;
    NX_TRY(nx__node_new(&operator_class, def->n_out, n_edges, more, &node));
    node->node.op = op;
    node->n_in = def->n_in;
    node->n_out = def->n_out;
    node->list_at = list_at;
    node->slots = nx__node_more(node);
    for (int k = 0; k < def->n_out; k++) node->slots[def->n_in + k] = (nx__slot){NX_VALUE_NONE, 0};
    char *room = (char *)(node->slots + def->n_in + def->n_out);
    nx_status status = save_arguments(node, in, reads_in, original, &room);
    for (uint64_t rest = needed; rest && status == NX_OK; rest &= rest - 1) {
        int k = __builtin_ctzll(rest);
        if (NX_LIKELY(k != list_at)) status = nx_grad_edge(in[k].tensor, &node->node.edges[k]);
        else status = list_edges(&in[k], &node->node.edges[k]);
    }
    if (status != NX_OK) {
        nx_grad_node_unref(&node->node);
        return status;
    }
    node->wanted = reads_out; /* until nx__operator_save_results */
    *out = node;
    return NX_OK;
}

/* While calls are recorded, the alias is made by an operator, so that the recorder knows it. */
static nx_status alias_of(nx_tensor *result, nx_tensor **out) {
    nx_thread *thread = nx_thread_get();
    if (thread->tracer == NULL) return nx_tensor_alias(result, out);
    bool disabled = thread->grad_disabled;
    thread->grad_disabled = true;
    nx_status status = nx__detach(result, out);
    thread->grad_disabled = disabled;
    return status;
}

nx_status nx__operator_save_results(nx__node *node, nx_value *out) {
    for (int k = 0; k < node->n_out && node->wanted; k++) {
        int at = node->n_in + k;
        if (!(node->wanted >> k & 1) || out[k].tag != NX_TAG_TENSOR) continue;
        nx_tensor *alias;
        NX_TRY(alias_of(out[k].tensor, &alias));
        nx_status status = save_whole(node, at, alias);
        nx_tensor_unref(alias);
        if (status != NX_OK) return status;
    }
    return NX_OK;
}

/* ---- running ------------------------------------------------------------------------------------------ */
static nx_status fail_version(const nx_tensor *saved, uint32_t expected, const nx_grad_node *maker,
                              int output) {
    nx_text sizes = {0};
    char which[96] = "";
    nx_text_add_ints(&sizes, saved->a.sizes, saved->a.ndim);
    if (maker) {
        int n;
        const char *name = nx__short_name(maker, &n);
        snprintf(which, sizeof which, ", which is output %d of %.*s,", output, n, name);
    }
    const char *device = saved->a.device.type ? nx_device_type_name(saved->a.device.type) : "";
    nx_status status = nx_fail(
        NX_RUNTIME, "one of the variables needed for gradient computation has been modified by an inplace "
            "operation: [torch.%s%s%sTensor %s]%s is at version %u; expected version %u instead. Hint: %s", device, *device ? "." : "",
        nx_dtype_kind((nx_dtype)saved->a.dtype), sizes.failed ? "" : sizes.at, which,
            nx_tensor_version(saved), expected,
            nx_thread_get()->anomaly ? "the backtrace further above shows the operation that failed to compute its gradient. The "
            "variable in question was changed in there or anywhere later. Good luck!"
            : "enable anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False).");
    nx_text_free(&sizes);
    return status;
}

static nx_status check_version(const nx__node *node, int at) {
    const nx_tensor *saved = node->slots[at].value.tensor;
    uint32_t expected = node->slots[at].version;
    if (NX_LIKELY(nx_tensor_version(saved) == expected)) return NX_OK;
    if (at >= node->n_in) return fail_version(saved, expected, &node->node, at - node->n_in);
    return fail_version(saved, expected, saved->autograd ? saved->autograd->node : NULL,
                        saved->autograd ? saved->autograd->output : 0);
}

nx_status nx_grad_check_version(const nx_tensor *saved, uint32_t expected, const nx_grad_node *maker, int output) {
    if (nx_tensor_version(saved) == expected) return NX_OK;
    return fail_version(saved, expected, maker, output);
}

/* Everything that one run of a formula needs on the stack. */
typedef struct scratch {
    nx_value in[MAX_SLOTS];
    nx_tensor *results[MAX_SLOTS], *few_grads[MAX_SLOTS];
    nx_tensor **grads;          /* of the arguments, then of the list's tensors */
    int n_grads;
    nx_tensor *shapes;          /* tensors that have no storage */
    nx_tensor few[6];
    int n_shapes;
    void *block;                /* NULL: what is above was room enough */
    uint64_t made;              /* results that were made for this run; the others are lent */
    uint64_t unpacked;          /* slots whose tensors were unpacked for this run */
    nx_tensor *taken[MAX_SLOTS];/* those tensors */
} scratch;

/* A saved result gets its history back when the backward is itself recorded. */
static nx_status restore_result(nx__node *node, int k, nx_tensor *alias, scratch *s) {
    s->results[k] = alias;
    if (!nx_grad_enabled()) return NX_OK;
    NX_TRY(nx_tensor_alias(alias, &s->results[k]));
    s->made |= UINT64_C(1) << k;
    if (node->outer) return nx__slices_restore(node->outer, s->results[k]);
    return nx_grad_set_node(s->results[k], &node->node, k);
}

static nx_status make_room(const nx__node *node, scratch *s, nx_value **list) {
    int n_listed = node->list_at >= 0 ? node->slots[node->list_at].value.n : 0, n_shapes = n_listed;
    for (int at = 0; at < node->n_in + node->n_out; at++)
        n_shapes += node->slots[at].value.tag == NX_TAG_TENSOR && !(node->whole >> at & 1);
    s->n_grads = node->n_in + n_listed;
    if (NX_LIKELY(n_listed == 0 && n_shapes <= NX_COUNT(s->few))) return NX_OK;
    size_t bytes = sizeof(nx_tensor) * (size_t)n_shapes + sizeof **list * (size_t)n_listed;
    bytes += sizeof *s->grads * (size_t)s->n_grads;
    if ((s->block = nx_alloc_zeroed(bytes)) == NULL) return nx_fail_memory(bytes);
    s->shapes = s->block;
    *list = (nx_value *)(s->shapes + n_shapes);
    s->grads = (nx_tensor **)(*list + n_listed);
    return NX_OK;
}

/* The list argument: shapes as tensors; those whose gradient may be wanted have AUTOGRAD among their keys. */
static nx_value unpack_list(const nx__node *node, const nx_value *from, scratch *s, nx_value *to) {
    for (int i = 0; i < from->n; i++) {
        to[i] = from->list[i];
        if (to[i].tag != NX_TAG_TENSOR) continue;
        tensor_of_shape(to[i].opaque, &s->shapes[s->n_shapes]);
        to[i].tensor = &s->shapes[s->n_shapes++];
        if (node->node.edges[node->list_at + i].node) to[i].tensor->keys |= NX_KEY(AUTOGRAD);
    }
    return nx_value_list(to, from->n);
}

static nx_status check_list_version(const nx__node *node, int at) {
    if (list_version(&node->slots[at].value) == node->slots[at].version) return NX_OK;
    return nx_fail(NX_RUNTIME, "one of the variables needed for gradient computation has been modified by an inplace "
                   "operation: a tensor in argument %d of %s", at, nx_op_name(node->node.op));
}

static nx_status take_packed(nx__node *node, int at, scratch *s, nx_value *out) {
    NX_TRY(nx_saved_take(node->slots[at].value.opaque, &s->taken[at]));
    s->unpacked |= UINT64_C(1) << at;
    *out = nx_value_tensor(s->taken[at]);
    return NX_OK;
}

static nx_status unpack(nx__node *node, scratch *s) {
    int n = node->n_in + node->n_out;
    nx_value *list = NULL;
    NX_TRY(make_room(node, s, &list));
    for (int at = 0; at < n; at++) {
        nx_value value = node->slots[at].value;
        if (NX_UNLIKELY(node->packed >> at & 1)) {
            NX_TRY(take_packed(node, at, s, &value));
        } else if (value.tag == NX_TAG_TENSOR && node->whole >> at & 1) {
            NX_TRY(check_version(node, at));
        } else if (value.tag == NX_TAG_LIST && node->kept >> at & 1) {
            NX_TRY(check_list_version(node, at));
        } else if (value.tag == NX_TAG_LIST) {
            value = unpack_list(node, &value, s, list);
        } else if (value.tag == NX_TAG_TENSOR) {
            tensor_of_shape(value.opaque, &s->shapes[s->n_shapes]);
            value.tensor = &s->shapes[s->n_shapes++];
        }
        if (at < node->n_in) s->in[at] = value;
        else if (value.tag == NX_TAG_TENSOR)
            NX_TRY(restore_result(node, at - node->n_in, value.tensor, s));
    }
    return NX_OK;
}

/* A result that is not saved has the shape of its gradient. */
static void stand_in(const nx__node *node, nx_tensor *const *g, nx_tensor **results) {
    for (int k = 0; k < node->n_out; k++) {
        if (results[k] == NULL && g[k]) results[k] = g[k];
    }
}

static nx_status apply(nx_grad_node *node, nx_tensor *const *g, nx_tensor **grads) {
    nx__node *own = nx__node_of(node);
    scratch s;
    s.shapes = s.few;
    s.grads = s.few_grads;
    s.n_shapes = 0;
    s.n_grads = 0;
    s.block = NULL;
    s.made = s.unpacked = 0;
    for (int k = 0; k < own->n_out; k++) s.results[k] = NULL;
    for (int k = 0; k < own->n_in; k++) s.grads[k] = NULL;
    nx_status status;
    NX_TRY_FAIL(unpack(own, &s));
    stand_in(own, g, s.results);
    NX_TRY_FAIL(nx__derivative_of(node->op)->backward(s.in, s.results, g, own->wanted, s.grads));
    for (int e = 0; e < node->n_edges; e++) {
        int at = nx__edge_argument(own, e), k = at == own->list_at ? own->n_in + e - at : at;
        if (s.grads[k] == NULL || !(own->wanted >> at & 1)) continue;
        NX_TRY_FAIL(nx__fit(&s.grads[k], at == own->list_at ? s.in[at].list[e - at].array : s.in[at].array));
        grads[e] = s.grads[k];
        s.grads[k] = NULL;
    }
fail:
    for (uint64_t rest = s.made; rest; rest &= rest - 1) nx_tensor_unref(s.results[__builtin_ctzll(rest)]);
    for (uint64_t rest = s.unpacked; rest; rest &= rest - 1) nx_tensor_unref(s.taken[__builtin_ctzll(rest)]);
    for (int k = 0; k < s.n_grads; k++) {
        if (s.grads[k]) nx_tensor_unref(s.grads[k]);
    }
    nx_free(s.block);
    return status;
}
