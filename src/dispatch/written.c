/* What must hold of a tensor that an operator writes: it does not overlap itself; it has the result's size (an out= tensor is
 * resized); the result's dtype may be cast to its own. An argument may share its memory element by element where the operator
 * works element by element, never where PyTorch refuses it (nx_param.no_overlap), and else is read from a copy. The texts are
 * PyTorch's. It stands below src/iter because every front needs it before anything is launched. */
#include "dispatch/private.h"

bool nx_can_cast(nx_dtype from, nx_dtype to) {
    if (nx_is_complex(from) && !nx_is_complex(to)) return false;
    if (nx_is_float(from) && nx_is_int(to)) return false;
    return to != NX_BOOL || from == NX_BOOL;
}

static nx_status check_own_overlap(const nx_op *op, const nx_array *a) {
    for (int d = 0; d < a->ndim && a->numel > 0; d++) {
        if (a->sizes[d] <= 1 || a->strides[d] != 0) continue;
        return nx_fail(
            NX_RUNTIME,
            "%s: unsupported operation: more than one element of the written-to tensor refers to a single "
            "memory location. Please clone() the tensor before performing the operation.",
            nx__op_of(op)->label);
    }
    return NX_OK;
}

/* ---- memory that is shared ------------------------------------------------------------------------------ */
typedef enum overlap { NONE, WHOLE, PARTLY, UNKNOWN } overlap; /* WHOLE: element by element */

static overlap overlap_of(const nx_tensor *written, const nx_tensor *input) {
    if (written == input) return WHOLE;
    if (written->storage == NULL || nx_storage_memory(written->storage) != nx_storage_memory(input->storage)) return NONE;
    if (written->a.numel == 0 || input->a.numel == 0) return NONE;
    if (!nx_is_dense(&written->a) || !nx_is_dense(&input->a)) return UNKNOWN;
    int64_t begin = written->offset * (int64_t)nx_dtype_bytes(written->a.dtype);
    int64_t end = begin + written->a.numel * (int64_t)nx_dtype_bytes(written->a.dtype);
    int64_t input_begin = input->offset * (int64_t)nx_dtype_bytes(input->a.dtype);
    int64_t input_end = input_begin + input->a.numel * (int64_t)nx_dtype_bytes(input->a.dtype);
    if (begin != input_begin || end != input_end) return begin < input_end && input_begin < end ? PARTLY : NONE;
    if (written->a.ndim != input->a.ndim) return PARTLY;
    for (int d = 0; d < written->a.ndim; d++) {
        if (written->a.strides[d] != input->a.strides[d]) return PARTLY;
    }
    return WHOLE;
}

static bool is_elementwise(const nx_op *op) { return op->def->kind == NX_KIND_POINT || op->def->flags & NX_OP_ELEMENTWISE; }

static bool is_refused(const nx_op *op, int i, bool listed, overlap how) {
    const nx_param *p = &op->def->params[i];
    if (how == PARTLY) return is_elementwise(op) || p->no_overlap || p->no_part_overlap || p->written || listed;
    return how == WHOLE && (p->no_overlap || (listed && !is_elementwise(op)));
}

static bool any_refused(const nx_op *op, int i, const nx_tensor *written, const nx_value *value, bool listed) {
    if (value->tag == NX_TAG_TENSOR) return is_refused(op, i, listed, overlap_of(written, value->tensor));
    for (int k = 0; value->tag == NX_TAG_LIST && k < value->n; k++) {
        if (any_refused(op, i, written, &value->list[k], true)) return true;
    }
    return false;
}

nx_status nx__check_overlap(const nx_op *op, const nx_value *in, int param) {
    const nx__op *own = nx__op_of(op);
    for (int k = 0; k < op->n_tensors; k++) {
        int i = own->tensors[k];
        if (i == param || !any_refused(op, i, in[param].tensor, &in[i], false)) continue;
        return nx_fail(
            NX_RUNTIME,
            "%s: unsupported operation: some elements of the input tensor and the written-to tensor refer to "
            "a single memory location. Please clone() the tensor before performing the operation.",
            own->label);
    }
    return NX_OK;
}

/* What the in-place form reads in the places that it writes. */
static bool is_read_in_place(const nx_op *op, int i) {
    const nx_op *whole = op->functional ? op->functional : op;
    return i == 0 && (op->def->variant == NX_INPLACE || whole->inplace);
}

static bool touch(const nx_array *a, const nx_array *b) {
    const char *low[2], *high[2];
    nx_array_extent(a, &low[0], &high[0]);
    nx_array_extent(b, &low[1], &high[1]);
    return low[0] < high[1] && low[1] < high[0];
}

bool nx__reads_what_it_writes(const nx_op *op, const nx_value *in, int i) {
    const nx__op *own = nx__op_of(op);
    if (in[i].tag != NX_TAG_TENSOR || op->def->params[i].written || is_elementwise(op)) return false;
    for (int k = 0; k < op->def->n_out; k++) {
        int param = own->written[k];
        if (param < 0 || in[param].tag != NX_TAG_TENSOR) continue;
        overlap how = overlap_of(in[param].tensor, in[i].tensor);
        if (how == NONE || (how == WHOLE && is_read_in_place(op, i))) continue;
        if (how != UNKNOWN || touch(in[param].array, in[i].array)) return true;
    }
    return false;
}

/* ---- sizes and dtypes ----------------------------------------------------------------------------------- */
static bool same_size(const nx_meta *meta, const nx_array *a) {
    if (meta->ndim != a->ndim) return false;
    for (int d = 0; d < a->ndim; d++) {
        if (meta->size[d] != a->sizes[d]) return false;
    }
    return true;
}

static nx_status fail_size(const nx_op *op, const nx_meta *meta, const nx_array *a, const char *hint) {
    nx_text text = {0};
    nx_text_add(&text, "%s: output with shape ", nx__op_of(op)->label);
    nx_text_add_ints(&text, a->sizes, a->ndim);
    nx_text_add(&text, " doesn't match the broadcast shape ");
    nx_text_add_ints(&text, meta->size, meta->ndim);
    nx_status status = nx_fail(NX_RUNTIME, "%s%s", text.failed ? nx__op_of(op)->label : text.at, hint);
    nx_text_free(&text);
    return status;
}

/* As PyTorch: the tensor takes the result's size and strides, its storage grows if it must. Storage that
 * others share cannot move under them. */
static nx_status resize(const nx_op *op, const nx_meta *meta, nx_tensor *tensor) {
    if (tensor->a.sizes != tensor->dims || meta->ndim > NX_INLINE_DIMS) {
        return fail_size(op, meta, &tensor->a,
                         " and cannot be resized beyond 6 dimensions; give an empty one");
    }
    if (tensor->storage == NULL) return fail_size(op, meta, &tensor->a, " and has no storage");
    nx_meta sized = *meta;
    sized.dtype = tensor->a.dtype;
    size_t bytes = nx_meta_bytes(&sized) + (size_t)tensor->offset * nx_dtype_bytes(sized.dtype);
    if (bytes > tensor->storage->bytes) {
        nx_storage *grown;
        bool fake = nx_tensor_is_fake(tensor);
        if (tensor->base || tensor->offset || tensor->storage->shown || atomic_load(&tensor->storage->refs) > 1) {
            return fail_size(op, meta, &tensor->a,
                             " and cannot grow, because other tensors share its storage");
        }
        NX_TRY(fake ? nx_storage_new_fake(tensor->a.device, bytes, &grown)
                    : nx_storage_new(tensor->a.device, bytes, &grown));
        grown->version = tensor->storage->version;
        nx_storage_unref(tensor->storage);
        tensor->storage = grown;
        tensor->a.data = grown->data;
    }
    tensor->a.ndim = (uint8_t)meta->ndim;
    tensor->a.strides = tensor->dims + meta->ndim;
    for (int d = 0; d < meta->ndim; d++) {
        tensor->a.sizes[d] = meta->size[d];
        tensor->a.strides[d] = meta->stride[d];
    }
    nx_array_refresh(&tensor->a);
    return NX_OK;
}

static nx_status check_dtype(const nx_op *op, nx_dtype from, nx_dtype to) {
    if (op->def->into) return op->def->into(nx__op_of(op)->label, from, to);
    bool casts = op->def->kind == NX_KIND_POINT || op->def->kind == NX_KIND_REDUCE || op->def->kind == NX_KIND_COMPOSED;
    if (casts && !nx_can_cast(from, to)) {
        return nx_fail(NX_RUNTIME, "%s: result type %s can't be cast to the desired output type %s",
                       nx__op_of(op)->label, nx_dtype_kind(from), nx_dtype_kind(to));
    }
    if (!casts && op->def->variant == NX_OUT) {
        return nx_fail(NX_RUNTIME, "%s: Expected out tensor to have dtype %s, but got %s instead",
                       nx__op_of(op)->label, nx_dtype_cpp(from), nx_dtype_cpp(to));
    }
    return NX_OK;
}

nx_status nx_fail_unrecorded_view(const char *what) {
    return nx_fail(NX_RUNTIME, "A view was created in no_grad mode and %s modified inplace with grad mode enabled. Given that this use "
                   "case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and "
                   "the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both "
                   "outside (if you want the inplace to be tracked).", what);
}

/* A view that autograd did not see being taken cannot tell its base that it was written. */
static nx_status check_view(const nx_tensor *tensor) {
    const nx_tensor *base = tensor->base;
    bool unseen = base && (base->keys & NX_KEY(AUTOGRAD)) && !(tensor->keys & NX_KEY(AUTOGRAD));
    if (!unseen || nx_thread_get()->grad_disabled) return NX_OK;
    if (tensor->creation_meta == NX_CREATION_DEFAULT) {
        return nx_fail(NX_RUNTIME, "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    }
    return nx_fail_unrecorded_view("is being");
}

static bool is_other_argument(const nx_op *op, const nx_value *in, int param, const nx_tensor *tensor) {
    for (int k = 0; k < op->def->n_in; k++) {
        if (k != param && in[k].tag == NX_TAG_TENSOR && in[k].tensor == tensor) return true;
    }
    return false;
}

nx_status nx__write_over(const nx_op *op, const nx_value *in, int param) {
    nx_tensor *tensor = in[param].tensor;
    if (tensor->storage == NULL) return NX_OK;
    if (NX_UNLIKELY(tensor->base != NULL)) NX_TRY(check_view(tensor));
    if (atomic_load_explicit(&tensor->storage->refs, memory_order_relaxed) > 1 || tensor->storage->shown)
        NX_TRY(nx__check_overlap(op, in, param));
    tensor->storage->version++;
    return NX_OK;
}

nx_status nx__write_listed(nx_tensor *tensor) {
    if (NX_UNLIKELY(tensor->base != NULL)) NX_TRY(check_view(tensor));
    if (tensor->storage) tensor->storage->version++;
    return NX_OK;
}

nx_status nx__fit_written(const nx_op *op, const nx_value *in, int param, const nx_meta *meta) {
    nx_tensor *tensor = in[param].tensor;
    if (!tensor->a.contiguous && !(op->def->flags & NX_OP_ONE_VALUE)) NX_TRY(check_own_overlap(op, &tensor->a));
    bool fits = same_size(meta, &tensor->a);
    if (!fits && (op->def->variant != NX_OUT || is_other_argument(op, in, param, tensor)))
        return fail_size(op, meta, &tensor->a, "");
    if (NX_UNLIKELY(tensor->base != NULL)) NX_TRY(check_view(tensor));
    if (NX_UNLIKELY(meta->dtype != tensor->a.dtype)) NX_TRY(check_dtype(op, meta->dtype, tensor->a.dtype));
    return fits ? NX_OK : resize(op, meta, tensor);
}

nx_status nx__write_into(const nx_op *op, const nx_value *in, int param, const nx_meta *meta) {
    nx_tensor *tensor = in[param].tensor;
    NX_TRY(nx__check_overlap(op, in, param));
    if (NX_UNLIKELY(nx_is_complex((nx_dtype)tensor->a.dtype)) && op->def->variant == NX_INPLACE && nx_is_float(meta->dtype))
        return nx_fail(NX_RUNTIME, "In-place %s is not supported for complex tensors.", nx__op_of(op->functional)->label);
    NX_TRY(nx__fit_written(op, in, param, meta));
    if (tensor->storage) tensor->storage->version++;
    return NX_OK;
}
