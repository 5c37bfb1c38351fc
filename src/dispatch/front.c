/* What stands at the devices' keys and at FAKE. From a call to its results: the shape rule says what they
 * will be, each one is allocated, is a view, or is the argument that the operator writes; then the kernel is
 * launched (not for fakes, not for views). In: tensors. Out: new references; on failure none. Next:
 * written.c, fallback.c. */
#include "dispatch/private.h"

static inline nx_status shape_rule(const nx_op *op, const nx_value *in, nx_meta *metas) {
    const nx_op_def *def = op->def;
    for (int k = 0; k < def->n_out; k++) {
        metas[k].absent = false;
        metas[k].view_of = -1;
        metas[k].offset = 0;
    }
    return def->meta(in, metas);
}

static nx_status fail_meta(const nx_op *op) {
    return nx_fail(NX_NOT_IMPLEMENTED, "%s: no shape rule and no composition", op->def->name);
}

static inline nx_status make_view(const nx_op *op, nx_meta *meta, nx_tensor *source, nx_value *out) {
    nx_tensor *view;
    if (source->storage == NULL) {
        return nx_fail(NX_RUNTIME, "%s: argument %d was saved as a shape only", op->def->name, meta->view_of);
    }
    /* A view that carries no gradient (detach) is no view to autograd: writing to it does not touch its
     * base's history. */
    nx_tensor *base = op->def->derivative ? source : NULL;
    if (NX_LIKELY(meta->dtype == source->a.dtype)) meta->offset += source->offset; /* the rule counts from its element 0 */
    else {
        int64_t at = source->offset * nx_dtype_sizes[source->a.dtype], bytes = nx_dtype_sizes[meta->dtype];
        if (at % bytes)
            return nx_fail(NX_RUNTIME, "Tensor must have a storage_offset divisible by %d",
                           (int)(bytes / nx_dtype_sizes[source->a.dtype]));
        meta->offset += at / bytes;
    }
    NX_TRY(nx_tensor_new_view(source->storage, meta, source->keys & ~NX_KEYS_OWN, base, &view));
    *out = nx_value_tensor(view);
    return NX_OK;
}

static nx_status make_result(const nx_op *op, const nx_value *in, int k, nx_meta *meta, bool fake,
                             nx_value *out) {
    int written = nx__op_of(op)->written[k];
    if (written >= 0) {
        nx_tensor *tensor = in[written].tensor;
        if (in[written].tag != NX_TAG_TENSOR) {
            return nx_fail(NX_TYPE, "%s: argument '%s' must be a tensor", op->def->name,
                           op->def->params[written].name);
        }
        NX_TRY(nx__write_into(op, in, written, meta));
        *out = nx_value_tensor(nx_tensor_ref(tensor));
        return NX_OK;
    }
    if (NX_UNLIKELY(meta->absent)) {
        *out = NX_VALUE_NONE;
        return NX_OK;
    }
    if (meta->view_of >= 0) return make_view(op, meta, in[meta->view_of].tensor, out);
    nx_tensor *tensor;
    NX_TRY(nx_tensor_new_meta(meta, fake, &tensor));
    *out = nx_value_tensor(tensor);
    return NX_OK;
}

static void drop_results(int n, nx_value *out) {
    for (int k = 0; k < n; k++) {
        if (out[k].tag == NX_TAG_TENSOR) nx_tensor_unref(out[k].tensor);
        out[k] = NX_VALUE_NONE;
    }
}

/* What an operator without results writes are the tensors of its lists. */
static nx_status write_lists(const nx_op *op, const nx_value *in) {
    for (int i = 0; i < op->def->n_in; i++) {
        bool written = op->def->params[i].written && in[i].tag == NX_TAG_LIST;
        for (int k = 0; written && k < in[i].n; k++) NX_TRY(nx__write_listed(in[i].list[k].tensor));
    }
    return NX_OK;
}

static nx_status make_results(const nx_op *op, const nx_value *in, nx_meta *metas, bool fake, nx_value *out) {
    if (NX_UNLIKELY(op->def->n_out == 0)) return write_lists(op, in);
    for (int k = 0; k < op->def->n_out; k++) {
        nx_status status = make_result(op, in, k, &metas[k], fake, &out[k]);
        if (NX_LIKELY(status == NX_OK)) continue;
        drop_results(k, out);
        return status;
    }
    return NX_OK;
}

/* ---- devices ------------------------------------------------------------------------------------------- */
nx_status nx_fail_devices(const char *op, nx_device a, nx_device b) {
    char text[2][48];
    const nx_device both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        const char *name = nx_device_type_name(both[i].type);
        if (both[i].type == 0) snprintf(text[i], sizeof text[i], "%s", name);
        else snprintf(text[i], sizeof text[i], "%s:%d", name, both[i].index);
    }
    return nx_fail(NX_RUNTIME,
                   "%s: Expected all tensors to be on the same device, but found at least two devices, "
                   "%s and %s! Move one with .to()",
                   op, text[0], text[1]);
}

static nx_status check_devices(const nx_op *op, const nx_value *in, nx_device device) {
    const nx__op *own = nx__op_of(op);
    for (int i = 0; i < op->n_tensors; i++) {
        const nx_value *value = &in[own->tensors[i]];
        const nx_value *at = value->tag == NX_TAG_LIST ? value->list : value;
        for (int n = value->tag == NX_TAG_LIST ? value->n : 1; n > 0; n--, at++) {
            if (at->tag != NX_TAG_TENSOR || nx_device_same(at->array->device, device)) continue;
            bool beside = op->def->kind == NX_KIND_POINT || op->def->n_out == 0; /* steps of an optimizer */
            bool scalar = beside && at->array->ndim == 0 && at->array->device.type == 0;
            if (!scalar) return nx_fail_devices(nx__op_of(op)->label, device, at->array->device);
        }
    }
    return NX_OK;
}

/* Where the results will be: on the CPU nothing has to be looked up. */
static nx_device result_device(const nx_value *out, int n) {
    for (int k = 0; k < n; k++) {
        if (out[k].tag == NX_TAG_TENSOR) return out[k].array->device;
    }
    return NX_CPU;
}

static nx_status launch_elsewhere(nx_run *run, const nx_value *in, nx_value *out) {
    nx_kernel_fn *kernel = nx__device_kernel(run->op, run->device.type);
    if (kernel == NULL) return nx__run_on_cpu(run, in, out);
    run->stream = nx_stream_current(run->device);
    return nx_device_launch(kernel, run, in, run->op->def->n_in, out, run->op->def->n_out);
}

/* The source of an operator that copies between devices is its last tensor argument: copy_(self, src),
 * _to_copy(self). */
static nx_tensor *copy_source(const nx_op *op, const nx_value *in) {
    const nx__op *own = nx__op_of(op);
    const nx_value *last = op->n_tensors ? &in[own->tensors[op->n_tensors - 1]] : NULL;
    return last && last->tag == NX_TAG_TENSOR ? last->tensor : NULL;
}

static bool has_meta(const nx_op *op, const nx_value *in, const nx_tensor **other) {
    const nx__op *own = nx__op_of(op);
    bool found = false;
    *other = NULL;
    for (int i = 0; i < op->n_tensors; i++) {
        const nx_value *value = &in[own->tensors[i]];
        const nx_value *at = value->tag == NX_TAG_LIST ? value->list : value;
        for (int n = value->tag == NX_TAG_LIST ? value->n : 1; n > 0; n--, at++) {
            if (at->tag != NX_TAG_TENSOR) continue;
            if (nx_is_meta(at->array->device)) found = true;
            else if (at->array->device.type != 0 || at->array->ndim > 0) *other = at->tensor;
        }
    }
    return found;
}

/* Beside a tensor without memory there are such tensors, numbers, and where elements are only moved, others. */
static nx_status check_meta(const nx_op *op, const nx_tensor *other) {
    bool may = other == NULL || nx__op_of(op)->device_param >= 0 || (op->def->flags & NX_OP_COPIES_DEVICES);
    return may ? NX_OK : nx_fail(NX_RUNTIME, "Tensor on device %s is not on the expected device meta!",
                                 nx_device_type_name(other->a.device.type));
}

static nx_status launch(const nx_op *op, const nx_value *in, nx_value *out) {
    nx_run run = {op, 0, NULL, op->def->n_out ? result_device(out, op->def->n_out) : nx_call_device(op, in)};
    if (NX_UNLIKELY(nx_is_meta(run.device))) return NX_OK;
    nx_kernel_fn *kernel = nx__cpu_kernel(op);
    if (op->def->flags & NX_OP_COPIES_DEVICES) {
        nx_tensor *from = copy_source(op, in);
        if (from && !nx_device_same(from->a.device, run.device)) return nx__copy_between(out[0].tensor, from);
    } else if (nx__op_of(op)->device_param < 0) { /* ones_like(x, device=...) may leave x's device */
        NX_TRY(check_devices(op, in, run.device));
    }
    if (kernel == NULL || kernel == nx__kernel_nothing) return NX_OK; /* empty */
    if (run.device.type != 0) return launch_elsewhere(&run, in, out);
    if (NX_LIKELY(nx_thread_get()->recorder == NULL))
        return kernel(&run, in, out); /* a tensor begins with its array */
    return nx_device_launch(kernel, &run, in, op->def->n_in, out, op->def->n_out);
}

/* Arguments that lie where the kernel writes are read from copies. */
static nx_status launch_written(const nx_op *op, const nx_value *in, nx_value *out) {
    nx_value own[NX__MAX_IN];
    nx_tensor *copies[NX__MAX_IN];
    nx_status status = NX_OK;
    int n = 0;
    for (int i = 0; i < op->def->n_in; i++) {
        own[i] = in[i];
        if (NX_LIKELY(!nx__reads_what_it_writes(op, in, i))) continue;
        NX_TRY_FAIL(nx__copy_new(in[i].tensor, &copies[n]));
        own[i] = nx_value_tensor(copies[n++]);
    }
    status = launch(op, own, out);
fail:
    while (n > 0) nx_tensor_unref(copies[--n]);
    return status;
}

/* ---- the functions of the table ------------------------------------------------------------------------ */
/* Most calls: one new result on the CPU. No key is left and the result is on the CPU, so all operands are
 * too. */
static inline nx_status front_plain(nx_run *run, const nx_value *in, nx_tensor *tensor, nx_value *out) {
    *out = nx_value_tensor(tensor);
    nx_status status = nx__cpu_kernel(run->op)(run, in, out);
    if (NX_UNLIKELY(status != NX_OK)) drop_results(1, out);
    return status;
}

/* A dimension of size 1 may have any stride, and no stride means anything without elements. */
static inline bool has_usual_strides(const nx_array *a) {
    int64_t stride = 1;
    for (int d = a->ndim - 1; d >= 0; d--) {
        if (a->strides[d] != stride) return false;
        stride *= a->sizes[d];
    }
    return a->contiguous;
}

static inline bool is_number(const nx_value *value) { return value->tag >= NX_TAG_INT && value->tag <= NX_TAG_BOOL; }

/* The operand that the result of a point operator will be like, when all have its floating dtype and its size
 * and are row-major or one element in every place; then no shape rule has to run. NULL: not so. Beside a
 * number, or something spread, the stride of a dimension of size 1 would have a say in the result's. */
static inline const nx_array *operand_like(const nx_point *point, const nx_value *in) {
    const nx_array *like = NULL, *first = NULL;
    bool usual = true;
    for (int k = 0; k < point->n_in; k++) {
        const nx_value *value = &in[point->in_param[k]];
        const nx_array *a = value->array;
        if (NX_UNLIKELY(value->tag != NX_TAG_TENSOR)) {
            if (!is_number(value)) return NULL;
            usual = false;
            continue;
        }
        if (first == NULL) first = a;
        else if (a->dtype != first->dtype || !nx_same_size(a, first)) return NULL;
        if (!((NX_DTYPES_FLOAT & ~NX_DTYPES_STORED) >> a->dtype & 1)) return NULL;
        if (NX_LIKELY(a->contiguous)) like = like ? like : a;
        else if (nx_is_expanded_number(a)) usual = false;
        else return NULL;
    }
    for (int k = 0; k < point->n_constants; k++) {
        uint32_t tag = in[point->constant_param[k]].tag;
        if (tag == NX_TAG_BOOL || tag == NX_TAG_COMPLEX) return NULL;
    }
    return like && like->device.type == 0 && (usual || has_usual_strides(like)) ? like : NULL;
}

static inline nx_status make_like(const nx__op *own, const nx_value *in, const nx_array *like,
                                  nx_tensor **out) {
    int written = own->written[0];
    if (written < 0) return nx_tensor_new_like(like, out);
    NX_TRY(nx__write_over(&own->op, in, written));
    *out = nx_tensor_ref(in[written].tensor);
    return NX_OK;
}

/* Parts of one tensor that were taken at once may not be written while gradients are recorded. */
static nx_status compose(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_op_def *def = run->op->def;
    NX_TRY(def->compose(run, in, out));
    for (int k = 0; def->kind == NX_KIND_VIEW && k < out[0].n; k++) {
        nx_tensor *part = out[0].list[k].tensor;
        if (part->creation_meta == NX_CREATION_DEFAULT) part->creation_meta = NX_CREATION_MULTI_OUTPUT;
    }
    return NX_OK;
}

static nx_status front_general(nx_run *run, bool is_direct, const nx_value *in, nx_value *out) {
    const nx_op *op = run->op;
    const nx_op_def *def = op->def;
    nx_meta metas[NX__MAX_OUT];
    nx_tensor *tensor;
    if (NX_UNLIKELY(def->meta == NULL)) return def->compose ? compose(run, in, out) : fail_meta(op);
    NX_TRY(shape_rule(op, in, metas));
    if (def->kind == NX_KIND_VIEW && def->n_out == 1 && metas[0].view_of >= 0 && !metas[0].absent)
        return make_view(op, metas, in[metas[0].view_of].tensor, out);
    bool is_plain = nx__op_of(op)->is_plain && metas[0].device.type == 0 && metas[0].view_of < 0;
    if (NX_LIKELY(is_plain && is_direct && !metas[0].absent)) {
        NX_TRY(nx_tensor_new_meta(metas, false, &tensor));
        return front_plain(run, in, tensor, out);
    }
    if (NX_UNLIKELY(def->kernel == NULL && def->compose)) return def->compose(run, in, out);
    NX_TRY(make_results(op, in, metas, false, out));
    if (def->kind == NX_KIND_VIEW) return NX_OK;
    bool may_share = def->kind != NX_KIND_POINT && (def->flags & NX_OP_MUTATES) && def->n_out > 0;
    nx_status status = NX_UNLIKELY(may_share) ? launch_written(op, in, out) : launch(op, in, out);
    if (NX_UNLIKELY(status != NX_OK)) drop_results(def->n_out, out);
    return status;
}

nx_status nx_front(nx_run *run, const nx_value *in, nx_value *out) {
    const nx__op *own = nx__op_of(run->op);
    bool is_direct = run->keys == 0 && nx_thread_get()->recorder == NULL;
    if (NX_LIKELY(is_direct && own->is_like)) {
        const nx_array *like = operand_like(own->op.def->point, in);
        if (NX_LIKELY(like && (own->written[0] < 0 || like == in[own->written[0]].array))) {
            nx_tensor *tensor;
            NX_TRY(make_like(own, in, like, &tensor));
            return front_plain(run, in, tensor, out);
        }
    }
    return front_general(run, is_direct, in, out);
}

nx_status nx_front_fake(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_op *op = run->op;
    nx_meta metas[NX__MAX_OUT];
    if (op->def->meta == NULL) return op->def->compose ? compose(run, in, out) : fail_meta(op);
    const nx_tensor *other;
    bool is_meta = has_meta(op, in, &other);
    if (NX_UNLIKELY(is_meta)) NX_TRY(check_meta(op, other));
    NX_TRY(shape_rule(op, in, metas));
    if (NX_UNLIKELY(is_meta && op->def->n_out > 0)) {
        int written = nx__op_of(op)->written[0];
        bool into = written >= 0 && in[written].tag == NX_TAG_TENSOR;
        const nx_tensor *from = op->def->flags & NX_OP_COPIES_DEVICES ? copy_source(op, in) : NULL;
        if (!nx_is_meta(into ? in[written].array->device : metas[0].device)) {
            if (from && nx_is_meta(from->a.device)) return nx_fail(NX_NOT_IMPLEMENTED, "Cannot copy out of meta tensor; no data!");
            bool traces = nx_thread_get()->keys_included & NX_KEY(FAKE);
            if (!traces && nx__op_of(op)->device_param < 0)
                return nx_fail(NX_RUNTIME, "%s: Tensor on device meta is not on the expected device!", nx__op_of(op)->label);
            if (!traces) return front_general(run, false, in, out); /* ones_like(x, device=...) */
        }
    }
    NX_TRY(make_results(op, in, metas, true, out));
    for (int k = 0; k < op->def->n_out; k++) { /* a view of a real tensor is fake as well */
        if (out[k].tag == NX_TAG_TENSOR && metas[k].view_of >= 0) out[k].tensor->keys |= NX_KEY(FAKE);
    }
    return NX_OK;
}

static void describe_written(const nx_array *array, int param, nx_meta *meta) {
    meta->dtype = array->dtype;
    meta->device = array->device;
    meta->ndim = array->ndim;
    meta->absent = false;
    meta->view_of = param;
    meta->offset = 0;
    for (int d = 0; d < array->ndim; d++) {
        meta->size[d] = array->sizes[d];
        meta->stride[d] = array->strides[d];
    }
}

/* An out= argument of another size will be resized, so its shape is the rule's. */
nx_status nx_op_meta(const nx_op *op, const nx_value *in, nx_meta *out) {
    if (op->def->meta == NULL) return fail_meta(op);
    NX_TRY(shape_rule(op, in, out));
    for (int k = 0; k < op->def->n_out; k++) {
        int written = nx__op_of(op)->written[k];
        if (written < 0 || in[written].tag != NX_TAG_TENSOR) continue;
        if (op->def->variant != NX_OUT) describe_written(in[written].array, written, &out[k]);
        else out[k].dtype = in[written].array->dtype;
    }
    return NX_OK;
}
