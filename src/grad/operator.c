/* Nodes of operators: what a call leaves behind for its derivative. Edges: one for each argument up to the last
 * that is differentiable; of a differentiable list, one for each of its tensors.
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
    nx_array a;     /* without data, sizes and strides */
    int64_t offset; /* of the tensor in its storage */
    int64_t dims[]; /* sizes, then strides */
} shape;

enum { FEW_DIMS = 4, SHAPE_BYTES = sizeof(shape) + 2 * FEW_DIMS * sizeof(int64_t) }; /* larger ones have a block of their own */
_Static_assert(FEW_DIMS <= NX_INLINE_DIMS, "copied from a tensor as a whole");

/* `room` is for SHAPE_BYTES. Piece by piece, as they were written: a wider read of a tensor that was made just now would wait
 * until all its parts have reached the cache. */
static inline shape *put_shape(char *room, const nx_tensor *tensor) {
    shape *s = (shape *)room;
    s->offset = tensor->offset;
    s->a.numel = tensor->a.numel;
    s->a.dtype = tensor->a.dtype;
    s->a.ndim = tensor->a.ndim;
    s->a.contiguous = tensor->a.contiguous;
    s->a.device = tensor->a.device;
    const volatile int64_t *dims = tensor->dims; /* strides lie behind sizes */
    for (int d = 0; d < 2 * FEW_DIMS; d++) s->dims[d] = dims[d];
    return s;
}

static size_t shape_bytes(int ndim) { return sizeof(shape) + 2 * sizeof(int64_t) * (size_t)ndim; }

/* Of any number of dimensions; `room` is for shape_bytes. */
static shape *put_any_shape(void *room, const nx_array *a) {
    shape *s = room;
    s->a = *a;
    s->offset = ((const nx_tensor *)a)->offset; /* a tensor begins with its array */
    memcpy(s->dims, a->sizes, sizeof(int64_t) * a->ndim);
    memcpy(s->dims + a->ndim, a->strides, sizeof(int64_t) * a->ndim);
    return s;
}

/* Lives as long as the node; nobody may keep it. */
static void tensor_of_shape(const shape *s, nx_tensor *out) {
    nx_tensor_start(out, (int64_t *)s->dims, s->a.ndim, (nx_dtype)s->a.dtype, s->a.device, NX_DEVICE_KEY(s->a.device));
    out->a.data = NULL;
    out->a.numel = s->a.numel;
    out->a.contiguous = s->a.contiguous;
    out->storage = NULL;
    out->offset = s->offset;
}

/* ---- saving ------------------------------------------------------------------------------------------- */
static inline void reads_of(const nx_derivative *d, uint64_t needed, uint64_t *in, uint64_t *out) {
    if ((d->saves_in | d->saves_out) == 0 || d->saves_in_of == NULL || d->saves_out_of == NULL) {
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
        uint64_t bit = rest & -rest;
        if (NX_UNLIKELY(node->packed & bit)) nx_saved_free(value->opaque);
        else if (NX_UNLIKELY(node->shapes & bit)) nx_free(value->opaque);
        else nx_value_drop(value);
    }
    node->packed &= ~which;
    node->whole &= ~which;
    node->kept &= ~which;
}

static void drop_all(nx__node *node) { drop_slots(node, node->kept); }

static void release_whole(nx_grad_node *node) { drop_slots(nx__node_of(node), nx__node_of(node)->whole); }

static nx_status apply(nx_grad_node *node, nx_tensor **g, nx_tensor **grads);
static const nx_grad_class operator_class = {"Operator", apply, NULL, NULL}; /* saves nothing that backward frees */
static const nx_grad_class saving_class = {"Operator", apply, release_whole, NULL};

nx_status nx__placed_alias(nx_tensor *tensor, nx_tensor **out) {
    nx_edge edge;
    nx_tensor *alias;
    NX_TRY(nx_tensor_alias(tensor, &alias));
    nx_status status = nx_grad_edge(tensor, &edge);
    if (status == NX_OK && edge.node) status = nx_grad_take_node(alias, edge.node, edge.input);
    if (status == NX_OK) *out = alias;
    else nx_tensor_unref(alias);
    return status;
}

/* The history of a tangent keeps what has one without it: nothing is the tangent of a tangent. */
static nx_status save_whole(nx__node *node, int at, nx_tensor *tensor);
static nx_status save_without_tangent(nx__node *node, int at, nx_tensor *tensor) {
    nx_tensor *plain;
    NX_TRY(nx__placed_alias(tensor, &plain));
    nx_status status = save_whole(node, at, plain);
    nx_tensor_unref(plain);
    return status;
}

static inline nx_status save_whole(nx__node *node, int at, nx_tensor *tensor) {
    nx_saved *saved = NULL;
    if (NX_UNLIKELY(tensor->keys & NX_KEY(FORWARD)) && nx_thread_get()->for_tangent) return save_without_tangent(node, at, tensor);
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

/* What put_list takes of the node's block. */
static size_t list_bytes(const nx_value *list) {
    size_t bytes = sizeof *list * (size_t)list->n;
    for (int i = 0; i < list->n; i++) bytes += list->list[i].tag == NX_TAG_TENSOR ? shape_bytes(list->list[i].array->ndim) : 0;
    return bytes;
}

/* The list with a shape for each tensor. */
static nx_value put_list(char *room, const nx_value *from) {
    nx_value *to = (nx_value *)room;
    room += sizeof *to * (size_t)from->n;
    for (int i = 0; i < from->n; i++) {
        to[i] = from->list[i];
        if (to[i].tag != NX_TAG_TENSOR) continue;
        to[i].opaque = put_any_shape(room, from->list[i].array);
        room += shape_bytes(from->list[i].array->ndim);
    }
    return nx_value_list(to, from->n);
}

static nx_status save_large_shape(nx__node *node, int at, const nx_array *a) {
    void *block = nx_alloc(shape_bytes(a->ndim));
    if (block == NULL) return nx_fail_memory(shape_bytes(a->ndim));
    node->slots[at].value = (nx_value){.tag = NX_TAG_TENSOR, .opaque = put_any_shape(block, a)};
    node->shapes |= UINT64_C(1) << at;
    node->kept |= UINT64_C(1) << at;
    node->destroy = drop_all;
    return NX_OK;
}

/* A list, integers, a text. */
static nx_status save_other(nx__node *node, int at, const nx_value *value) {
    if (value->tag == NX_TAG_LIST) node->slots[at].version = list_version(value);
    return keep_value(node, at, value);
}

/* Every argument's slot is filled before it is read. `room` is for the shapes of tensors and of lists. */
static inline nx_status save_arguments(nx__node *node, const nx_value *in, uint64_t reads, nx_tensor *original) {
    char *room = (char *)(node->slots + node->n_in + node->n_out);
    for (int k = 0; k < node->n_in; k++) {
        const nx_value *value = &in[k];
        if (value->tag == NX_TAG_TENSOR) {
            if (reads >> k & 1) {
                NX_TRY(save_whole(node, k, original && value->tensor == in[0].tensor ? original : value->tensor));
            } else if (NX_LIKELY(value->array->ndim <= FEW_DIMS)) {
                node->slots[k].value = (nx_value){.tag = NX_TAG_TENSOR, .opaque = put_shape(room, value->tensor)};
                node->shapes |= UINT64_C(1) << k;
                room += SHAPE_BYTES;
            } else {
                NX_TRY(save_large_shape(node, k, value->array));
            }
        } else if (NX_LIKELY(value->tag <= NX_TAG_BOOL)) {
            node->slots[k].value = *value;
        } else if (node->lists >> k & 1 && !(reads >> k & 1)) {
            node->slots[k].value = put_list(room, value);
            room += list_bytes(value);
        } else {
            NX_TRY(save_other(node, k, value));
        }
    }
    return NX_OK;
}

/* One edge for each argument; those that `needed` does not name lead nowhere. */
static inline nx_status make_edges(nx__node *node, const nx_value *in, uint64_t needed, int n) {
    nx_edge *edges = node->node.edges;
    for (int k = 0; k < n; k++) {
        edges[k] = (nx_edge){NULL, 0};
        nx_status status = needed >> k & 1 ? nx__edge_of(in[k].tensor, &edges[k]) : NX_OK;
        if (status == NX_OK) continue;
        node->node.n_edges = k;
        return status;
    }
    node->node.n_edges = n;
    return NX_OK;
}

/* The differentiable arguments that are lists. */
static inline uint64_t find_lists(const nx_derivative *derivative, const nx_value *in) {
    uint64_t lists = 0;
    for (uint64_t rest = derivative->inputs; rest; rest &= rest - 1) {
        if (NX_UNLIKELY(in[__builtin_ctzll(rest)].tag == NX_TAG_LIST)) lists |= rest & -rest;
    }
    return lists;
}

/* What they take of the node's block beside the n edges that every argument has, and how many edges more. */
static size_t lists_bytes(uint64_t lists, const nx_value *in, int n, int *n_more) {
    size_t bytes = sizeof(nx__edges) * (size_t)n;
    for (uint64_t rest = lists; rest; rest &= rest - 1) {
        const nx_value *list = &in[__builtin_ctzll(rest)];
        *n_more += list->n - 1;
        bytes += list_bytes(list) + sizeof(nx_edge) * (size_t)list->n;
    }
    return bytes;
}

/* The same where there are lists. */
static nx_status make_listed_edges(nx__node *node, const nx_value *in, uint64_t needed, int n) {
    int n_edges = 0, n_gradients = node->n_in;
    for (int k = 0; k < n; k++) {
        bool is_list = node->lists >> k & 1;
        node->edges_of[k] = (nx__edges){k, n_edges, is_list ? in[k].n : 1, is_list ? n_gradients : k};
        n_edges += node->edges_of[k].n;
        n_gradients += is_list ? in[k].n : 0;
    }
    node->n_edges_of = n;
    node->node.n_edges = n_edges;
    for (int e = 0; e < n_edges; e++) node->node.edges[e] = (nx_edge){NULL, 0};
    for (int k = 0; k < n; k++) {
        if (!(needed >> k & 1)) continue;
        const nx_value *values = node->lists >> k & 1 ? in[k].list : &in[k];
        for (int i = 0; i < node->edges_of[k].n; i++) {
            if (values[i].tag == NX_TAG_TENSOR) NX_TRY(nx__edge_of(values[i].tensor, &node->node.edges[node->edges_of[k].start + i]));
        }
    }
    return NX_OK;
}

static nx_status fail_slots(const nx_op *op, int n) {
    return nx_fail(NX_NOT_IMPLEMENTED, "%s: %d arguments and results are too many to be differentiated, at most %d are possible",
                   op->def->name, n, MAX_SLOTS);
}

/* Results that the formulas do not read whole are not saved. */
nx_status nx__operator_new(const nx_op *op, const nx_value *in, uint64_t needed, nx_tensor *original,
                           nx__node **out) {
    const nx_op_def *def = op->def;
    const nx_derivative *derivative = nx__derivative_of(op);
    nx_thread *thread = nx_thread_get();
    int n_slots = def->n_in + def->n_out, n_edges = 64 - __builtin_clzll(derivative->inputs);
    int n_more = 0;
    uint64_t reads_in, reads_out;
    if (NX_UNLIKELY(n_slots > MAX_SLOTS)) return fail_slots(op, n_slots);
    size_t bytes = sizeof(nx__node) + sizeof(nx_edge) * (size_t)n_edges;
    bytes += sizeof(nx__slot) * (size_t)n_slots + SHAPE_BYTES * (size_t)op->n_tensors;
    uint64_t lists = find_lists(derivative, in);
    if (NX_UNLIKELY(lists != 0)) bytes += lists_bytes(lists, in, n_edges, &n_more);
    nx__node *node = nx__node_take(thread, bytes);
    if (node == NULL) return nx_fail_memory(bytes);
    reads_of(derivative, needed, &reads_in, &reads_out);
    nx__node_start(node, thread, &operator_class, bytes);
    node->node.op = op;
    node->node.n_inputs = def->n_out;
    node->n_in = def->n_in;
    node->n_out = def->n_out;
    node->lists = lists;
    node->slots = (nx__slot *)(node->node.edges + n_edges + n_more);
    if (NX_UNLIKELY(lists != 0)) {
        node->edges_of = (nx__edges *)node->slots;
        node->slots = (nx__slot *)(node->edges_of + n_edges);
    }
    node->wanted = reads_out; /* until nx__operator_save_results */
    nx_status status = save_arguments(node, in, reads_in, original);
    if (NX_LIKELY(status == NX_OK)) status = NX_LIKELY(lists == 0) ? make_edges(node, in, needed, n_edges)
                                                                  : make_listed_edges(node, in, needed, n_edges);
    if (NX_UNLIKELY(status != NX_OK)) nx_grad_node_unref(&node->node);
    else *out = node;
    return status;
}

/* While calls are recorded or answered by Python, the alias is made by an operator, so that the recorder knows it and it has its
 * class. */
static nx_status alias_of(nx_tensor *result, nx_tensor **out) {
    nx_thread *thread = nx_thread_get();
    bool is_answered = ((result->keys | thread->keys_included) & NX_KEY(PYTHON)) != 0;
    if (NX_LIKELY(thread->tracer == NULL && !is_answered)) return nx_tensor_alias(result, out);
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

/* ---- forward mode ------------------------------------------------------------------------------------------ */
nx_status nx__operator_tell_tangent(nx_tensor *result, nx_tensor *tangent) {
    nx_grad_node *made_by = result->autograd ? result->autograd->node : NULL;
    const nx__node *node = made_by ? nx__node_of(nx__slices_inner(made_by)) : NULL;
    if (node == NULL || node->node.op == NULL || node->n_out == 0) return NX_OK;
    int output = made_by == &node->node ? result->autograd->output : 0;
    if (output >= node->n_out) return NX_OK; /* one of a list */
    int at = node->n_in + output;
    if (!(node->whole >> at & 1) || node->packed >> at & 1) return NX_OK;
    return nx_tangent_set(node->slots[at].value.tensor, tangent);
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
    if (NX_UNLIKELY(alias->keys & NX_KEY(PYTHON))) NX_TRY(alias_of(alias, &s->results[k]));
    else NX_TRY(nx_tensor_alias(alias, &s->results[k]));
    s->made |= UINT64_C(1) << k;
    if (NX_UNLIKELY(alias->keys & NX_KEY(FORWARD))) NX_TRY(nx__tangent_hand_on(alias, false, s->results[k]));
    if (node->outer) return nx__slices_restore(node->outer, s->results[k]);
    return nx_grad_set_node(s->results[k], &node->node, k);
}

/* The lists of which only the shapes are saved. */
static inline uint64_t lists_of_shapes(const nx__node *node) { return node->lists & ~node->kept; }

static int count_listed(const nx__node *node, uint64_t lists) {
    int n = 0;
    for (uint64_t rest = lists; rest; rest &= rest - 1) n += node->slots[__builtin_ctzll(rest)].value.n;
    return n;
}

static nx_status make_room(const nx__node *node, scratch *s, nx_value **list) {
    int n_listed = count_listed(node, lists_of_shapes(node));
    int n_shapes = __builtin_popcountll(node->shapes) + n_listed;
    if (NX_LIKELY(node->lists == 0 && n_shapes <= NX_COUNT(s->few))) return NX_OK;
    int n_grads = node->n_in + count_listed(node, node->lists);
    size_t bytes = sizeof(nx_tensor) * (size_t)n_shapes + sizeof **list * (size_t)n_listed;
    bytes += sizeof *s->grads * (size_t)n_grads;
    if ((s->block = nx_alloc_zeroed(bytes)) == NULL) return nx_fail_memory(bytes);
    s->n_grads = n_grads;
    s->shapes = s->block;
    *list = (nx_value *)(s->shapes + n_shapes);
    s->grads = (nx_tensor **)(*list + n_listed);
    return NX_OK;
}

/* List argument k: shapes as tensors; those whose gradient may be wanted have AUTOGRAD among their keys. */
static nx_value unpack_list(const nx__node *node, int k, scratch *s, nx_value *to) {
    const nx_value *from = &node->slots[k].value;
    for (int i = 0; i < from->n; i++) {
        to[i] = from->list[i];
        if (to[i].tag != NX_TAG_TENSOR) continue;
        tensor_of_shape(to[i].opaque, &s->shapes[s->n_shapes]);
        to[i].tensor = &s->shapes[s->n_shapes++];
        if (node->node.edges[node->edges_of[k].start + i].node) to[i].tensor->keys |= NX_KEY(AUTOGRAD);
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

/* Tensors that the user's own functions had saved. */
static nx_status unpack_packed(nx__node *node, scratch *s) {
    for (uint64_t rest = node->packed; rest; rest &= rest - 1) {
        nx_value value;
        int at = __builtin_ctzll(rest);
        NX_TRY(take_packed(node, at, s, &value));
        if (at < node->n_in) s->in[at] = value;
        else NX_TRY(restore_result(node, at - node->n_in, value.tensor, s));
    }
    return NX_OK;
}

static nx_status unpack(nx__node *node, scratch *s) {
    nx_value *list = NULL;
    NX_TRY(make_room(node, s, &list));
    for (int k = 0; k < node->n_in; k++) s->in[k] = node->slots[k].value;
    for (uint64_t rest = node->shapes; rest; rest &= rest - 1) {
        nx_value *value = &s->in[__builtin_ctzll(rest)];
        tensor_of_shape(value->opaque, &s->shapes[s->n_shapes]);
        value->tensor = &s->shapes[s->n_shapes++];
    }
    for (uint64_t rest = node->whole & ~node->packed; rest; rest &= rest - 1) {
        int at = __builtin_ctzll(rest);
        NX_TRY(check_version(node, at));
        if (at >= node->n_in) NX_TRY(restore_result(node, at - node->n_in, node->slots[at].value.tensor, s));
    }
    for (uint64_t rest = node->kept & ~node->whole & ~node->shapes; rest; rest &= rest - 1) {
        int at = __builtin_ctzll(rest);
        if (s->in[at].tag == NX_TAG_LIST) NX_TRY(check_list_version(node, at));
    }
    for (uint64_t rest = lists_of_shapes(node); NX_UNLIKELY(rest != 0); rest &= rest - 1) {
        int k = __builtin_ctzll(rest);
        s->in[k] = unpack_list(node, k, s, list);
        list += s->in[k].n;
    }
    return NX_UNLIKELY(node->packed != 0) ? unpack_packed(node, s) : NX_OK;
}

/* A result that is not saved has the shape of its gradient. */
static void stand_in(const nx__node *node, nx_tensor *const *g, nx_tensor **results) {
    for (int k = 0; k < node->n_out; k++) {
        if (results[k] == NULL && g[k]) results[k] = g[k];
    }
}

static nx_status apply(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    nx__node *own = nx__node_of(node);
    uint64_t wanted = own->wanted;
    scratch s;
    s.shapes = s.few;
    s.grads = s.few_grads;
    s.n_shapes = 0;
    s.n_grads = own->n_in;
    s.block = NULL;
    s.made = s.unpacked = 0;
    for (int k = 0; k < own->n_out; k++) s.results[k] = NULL;
    for (int k = 0; k < own->n_in; k++) s.grads[k] = NULL;
    nx_status status;
    NX_TRY_FAIL(unpack(own, &s));
    stand_in(own, g, s.results);
    NX_TRY_FAIL(nx__derivative_of(node->op)->backward(s.in, s.results, g, wanted, s.grads));
    for (int e = 0; e < node->n_edges; e++) {
        int at = nx__edge_argument(own, e), nth = own->n_edges_of ? e - own->edges_of[at].start : 0;
        int k = own->n_edges_of ? own->edges_of[at].gradient + nth : at;
        if (s.grads[k] == NULL || !(wanted >> at & 1)) continue;
        NX_TRY_FAIL(nx__fit(&s.grads[k], own->lists >> at & 1 ? s.in[at].list[nth].array : s.in[at].array));
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
