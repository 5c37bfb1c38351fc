/* One operator of a graph as one step: its kernel, its arguments with operands in place of node references.
 * On the CPU a point operator on whole contiguous operands becomes a bare call of its loop ("direct"). A sum that
 * alone takes a product becomes one step with it. Next: region.c for several operators in one step. */
#include "engine/program.h"

enum { MAX_DIRECT = 65535 }; /* elements; above, the kernel may split the work over threads */

/* ---- point operators: what node.c and region.c both ask -------------------------------------- */
void nx__point_constants(const nx_node *node, nx_dtype computing, nx_const *out) {
    const nx_point *point = node->op->def->point;
    for (int k = 0; k < point->n_constants; k++)
        nx_point_constant(point, k, &node->args[point->constant_param[k]], computing, &out[k]);
}

uint64_t nx__number_bits(const nx_value *number, nx_dtype dtype) {
    uint64_t bits = 0;
    nx_cast(dtype, (char *)&bits, 0, number->tag == NX_TAG_FLOAT ? NX_F64 : NX_I64, (const char *)&number->i,
            0, 1);
    return bits;
}

/* ---- operands and arguments ------------------------------------------------------------------ */
nx_tensor *nx__operand_new(nx_program *p, const nx_array *layout, int buffer, int64_t offset) {
    nx_tensor *t = nx__keep(p, sizeof *t);
    int64_t *dims = t ? t->dims : NULL;
    if (t && layout->ndim > NX_INLINE_DIMS) dims = nx__keep(p, 2 * sizeof *dims * layout->ndim);
    if (dims == NULL) return NULL;
    nx_array_copy(&t->a, layout, dims);
    t->a.data = NULL;
    t->refs = 1;
    t->keys = NX_DEVICE_KEY(layout->device);
    p->buffers.at[buffer].last = p->steps.n;
    nx__reference reference = {.where = &t->a.data,
                               .tensor = t,
                               .buffer = buffer,
                               .step = p->steps.n,
                               .offset = offset};
    return nx_vec_push(&p->references, reference) == NX_OK ? t : NULL;
}

static nx_status fail_argument(const nx_node *node, const char *what) {
    return nx_fail(NX_NOT_IMPLEMENTED, "compile: %s: %s", nx_op_name(node->op), what);
}

/* Constants lie on the program's device; a 0-dim CPU tensor may stand beside tensors of another one. */
static nx_status check_device(const nx__lower *l, const nx_node *node, const nx__buffer *buffer,
                              nx_tensor *operand) {
    nx_device device = l->program->device, *own = &operand->a.device;
    if (buffer->space == NX__CONST) *own = device;
    if (own->type == device.type && own->index == device.index) return NX_OK;
    if (own->type == 0 && operand->a.ndim == 0 && node->op->def->kind == NX_KIND_POINT) return NX_OK;
    return fail_argument(
        node,
        "the graph engine cannot move tensors between devices inside a graph: move them before the call");
}

static nx_status lower_reference(nx__lower *l, const nx_node *node, const nx_value *from, nx_value *to) {
    nx__value value = nx__value_of(l, from);
    if (value.buffer < 0 || value.fake == NULL)
        return fail_argument(node, "an argument is not a tensor in memory");
    const nx__buffer *buffer = &l->program->buffers.at[value.buffer];
    int64_t end; /* of the view, in bytes */
    bool inside = value.offset >= 0 && !__builtin_add_overflow(value.offset, (int64_t)nx__bytes_of(&value.fake->a), &end) &&
                  end <= (int64_t)buffer->bytes;
    if (value.fake->a.numel && !inside && buffer->space != NX__INPUT) {
        return fail_argument(node, "a view reaches out of the memory that it lies in");
    }
    to->tensor = nx__operand_new(l->program, &value.fake->a, value.buffer, value.offset);
    to->tag = NX_TAG_TENSOR;
    return to->tensor ? check_device(l, node, buffer, to->tensor) : NX_NO_MEMORY;
}

nx_status nx__value_keep(nx_program *p, const nx_value *from, nx_value *to) {
    *to = *from;
    switch (from->tag) {
    case NX_TAG_NODE:
    case NX_TAG_TENSOR:
    case NX_TAG_OPAQUE:
    case NX_TAG_GENERATOR:
    case NX_TAG_GRAPH:
        return nx_fail(NX_NOT_IMPLEMENTED, "compile: a tensor, generator, graph or object that is no node cannot be an argument");
    case NX_TAG_COMPLEX: {
        double *parts = nx__keep(p, 2 * sizeof *parts);
        if (parts == NULL) return NX_NO_MEMORY;
        memcpy(parts, from->parts, 2 * sizeof *parts);
        to->parts = parts;
        return NX_OK;
    }
    case NX_TAG_STR: {
        char *text = nx__keep(p, strlen(from->str) + 1);
        if (text == NULL) return NX_NO_MEMORY;
        to->str = strcpy(text, from->str);
        return NX_OK;
    }
    case NX_TAG_INTS: {
        int64_t *ints = nx__keep(p, sizeof *ints * (size_t)from->n);
        if (ints == NULL) return NX_NO_MEMORY;
        if (from->n) memcpy(ints, from->ints, sizeof *ints * (size_t)from->n);
        to->ints = ints;
        return NX_OK;
    }
    case NX_TAG_LIST: {
        nx_value *list = nx__keep(p, sizeof *list * (size_t)from->n);
        if (list == NULL) return NX_NO_MEMORY;
        to->list = list;
        for (int i = 0; i < from->n; i++) NX_TRY(nx__value_keep(p, &from->list[i], &list[i]));
        return NX_OK;
    }
    default: return NX_OK;
    }
}

/* An argument with operands in the place of nodes; it needs the graph no more. */
static nx_status lower_value(nx__lower *l, const nx_node *node, const nx_value *from, nx_value *to) {
    if (from->tag == NX_TAG_NODE) {
        *to = *from;
        return lower_reference(l, node, from, to);
    }
    if (from->tag == NX_TAG_TENSOR || from->tag == NX_TAG_OPAQUE || from->tag == NX_TAG_GENERATOR)
        return fail_argument(node, "a tensor, generator or object that is no node cannot be an argument");
    if (from->tag != NX_TAG_LIST) return nx__value_keep(l->program, from, to);
    nx_value *list = nx__keep(l->program, sizeof *list * (size_t)from->n);
    if (list == NULL) return NX_NO_MEMORY;
    *to = nx_value_list(list, from->n);
    for (int i = 0; i < from->n; i++) NX_TRY(lower_value(l, node, &from->list[i], &list[i]));
    return NX_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */
nx_status nx__kernel_find(const nx_device_api *api, const nx_op *op, nx_kernel_fn **out) {
    const nx_op_def *def = op->def;
    if (api) {
        *out = api->find_kernel(api->context, def->name);
        if (*out == NULL) {
            return nx_fail(
                NX_NOT_IMPLEMENTED,
                "compile: device '%s' has no kernel for %s, and the graph engine cannot fall back to "
                "the CPU inside a graph: supply one, or make that call outside of the graph",
                api->name, def->name);
        }
        return NX_OK;
    }
    *out = nx_flag.reference && def->ref ? def->ref : def->kernel;
    if (*out) return NX_OK;
    return nx_fail(NX_NOT_IMPLEMENTED, "compile: %s has no kernel; make the graph functional first",
                   def->name);
}

/* ---- direct steps ---------------------------------------------------------------------------- */
static nx_status add_pointer(nx_program *p, nx__direct *direct, int k, const nx_value *operand) {
    for (int i = p->references.n - 1; i >= 0; i--) { /* the operand was made a moment ago */
        nx__reference *reference = &p->references.at[i];
        if (reference->tensor != operand->tensor) continue;
        reference->by_pointer = true;
        nx__reference bare = {.where = (void **)&direct->ptrs[k],
                              .buffer = reference->buffer,
                              .step = p->steps.n,
                              .offset = reference->offset};
        return nx_vec_push(&p->references, bare);
    }
    return NX_OK;
}

static bool fits_direct(const nx_node *step, const nx_form *form) {
    if (form->kind != NX_FORM_POINT) return false;
    const nx_array *out = &step->fakes[0]->a;
    const nx_point *point = step->op->def->point;
    if (form->common != out->dtype || form->computing != out->dtype) return false;
    if (!out->contiguous || out->numel > MAX_DIRECT || out->device.type != 0) return false;
    for (int k = 0; k < point->n_in; k++) {
        const nx_value *value = &step->args[point->in_param[k]];
        if (value->tag != NX_TAG_TENSOR) continue;
        const nx_array *a = value->array;
        if (a->dtype != out->dtype || a->device.type != 0) return false;
        if (a->numel != 1 && !(a->contiguous && a->numel == out->numel)) return false;
    }
    return true;
}

nx_status nx__direct_make(nx_program *p, nx__step *step) {
    if (p->device.type != 0 || nx_flag.reference || step->n_out != 1 || step->out[0].tag != NX_TAG_TENSOR) return NX_OK;
    /* The form is that of a node; the step as one, its operands in the place of fakes. */
    nx_node as_node = {.op = step->run.op, .args = step->in, .n_args = step->n_in, .fakes = &step->out[0].tensor, .n_results = 1};
    nx_form form = nx_node_form(&as_node);
    if (!fits_direct(&as_node, &form)) return NX_OK;
    const nx_point *point = step->run.op->def->point;
    const nx_array *out = step->out[0].array;
    nx__direct *direct = nx__keep(p, sizeof *direct);
    nx_const *constants = nx__keep(p, sizeof *constants * (size_t)point->n_constants);
    uint64_t *numbers = nx__keep(p, sizeof *numbers * (size_t)point->n_in);
    if (!direct || !constants || !numbers) return NX_NO_MEMORY;
    int64_t item = (int64_t)nx_dtype_bytes(out->dtype);
    nx__point_constants(&as_node, form.computing, constants);
    direct->loop = form.loop;
    direct->n = out->numel;
    direct->constants = constants;
    direct->steps[0] = item;
    NX_TRY(add_pointer(p, direct, 0, &step->out[0]));
    for (int k = 0; k < point->n_in; k++) {
        const nx_value *value = &step->in[point->in_param[k]];
        if (value->tag == NX_TAG_TENSOR) {
            direct->steps[k + 1] = value->array->numel == out->numel ? item : 0;
            NX_TRY(add_pointer(p, direct, k + 1, value));
        } else {
            numbers[k] = nx__number_bits(value, out->dtype);
            direct->ptrs[k + 1] = (char *)&numbers[k];
        }
    }
    step->direct = direct;
    return NX_OK;
}

/* ---- one step -------------------------------------------------------------------------------- */
/* The operator writes arguments: result k is the k-th of them. */
static nx_status lower_written(nx__lower *l, const nx_node *node, nx__step *step) {
    nx_program *p = l->program;
    int k = 0;
    for (uint64_t left = nx_op_written(node->op); left; left &= left - 1, k++) {
        int at = __builtin_ctzll(left);
        if (node->args[at].tag != NX_TAG_NODE) return fail_argument(node, "writes something that is not a node");
        nx__value value = nx__value_of(l, &node->args[at]);
        const nx__buffer *buffer = &p->buffers.at[value.buffer];
        if (buffer->space == NX__CONST)
            return fail_argument(node, "writes a constant of the graph: make it an input");
        if (buffer->space == NX__INPUT) p->input_written[buffer->index] = p->writes_inputs = true;
        if (k < node->n_results) l->values[l->first_value[node->order] + k] = value;
        if (k < step->n_out) step->out[k] = step->in[at];
    }
    return k > 0 ? NX_OK : fail_argument(node, "writes nothing that is an argument");
}

static nx_status lower_results(nx__lower *l, const nx_node *node, nx__step *step) {
    for (int r = 0; r < step->n_out && r < node->n_results; r++) {
        if (node->fakes[r] == NULL) continue;
        NX_TRY(nx__buffer_new(l, node, r));
        nx_tensor *operand = nx__operand_new(l->program, &node->fakes[r]->a, l->program->buffers.n - 1, 0);
        if (operand == NULL) return NX_NO_MEMORY;
        step->out[r] = nx_value_tensor(operand);
        NX_TRY(check_device(l, node, &l->program->buffers.at[l->program->buffers.n - 1], operand));
    }
    return NX_OK;
}

nx_status nx__call_lower(nx__lower *l, const nx_op *op, const nx_value *in, nx_value *out) {
    nx_program *p = l->program;
    nx__step step = {.n_in = op->def->n_in, .n_out = op->def->n_out};
    NX_TRY(nx__kernel_find(l->api, op, &step.kernel));
    step.run = (nx_run){.op = op, .device = p->device};
    step.in = nx__keep(p, sizeof *step.in * (size_t)(step.n_in + step.n_out));
    if (step.in == NULL) return NX_NO_MEMORY;
    step.out = step.in + step.n_in;
    memcpy(step.in, in, sizeof *in * (size_t)step.n_in);
    memcpy(step.out, out, sizeof *out * (size_t)step.n_out);
    return nx_vec_push(&p->steps, step);
}

nx_status nx__node_lower(nx__lower *l, const nx_node *node) {
    const nx_op *op = node->op;
    const nx_op_def *def = op->def;
    nx_program *p = l->program;
    if (def->flags & NX_OP_DATA_SIZED)
        return fail_argument(node,
                             "the size of its result depends on data, which the graph engine cannot plan");
    if (node->n_args != def->n_in) return fail_argument(node, "the node has not all arguments of the schema");
    nx__step step = {.n_in = def->n_in, .n_out = def->n_out};
    if (!def->kernel && !def->ref && !def->compose)
        return lower_results(l, node, &step); /* nothing to compute: empty */
    NX_TRY(nx__kernel_find(l->api, op, &step.kernel));
    step.run = (nx_run){.op = op, .device = p->device};
    step.in = nx__keep(p, sizeof *step.in * (size_t)(step.n_in + step.n_out));
    if (step.in == NULL) return NX_NO_MEMORY;
    step.out = step.in + step.n_in;
    for (int i = 0; i < step.n_in; i++) NX_TRY(lower_value(l, node, &node->args[i], &step.in[i]));
    NX_TRY(def->flags & NX_OP_MUTATES ? lower_written(l, node, &step) : lower_results(l, node, &step));
    NX_TRY(nx__direct_make(p, &step));
    return nx_vec_push(&p->steps, step);
}

/* ---- a product and its sum ------------------------------------------------------------------- */
/* Whether `a` has the elements of `b` one behind the other as b has. */
static bool same_row(const nx_array *a, const nx_array *b) {
    return a->contiguous && b->contiguous && a->numel == b->numel && a->dtype == b->dtype &&
           nx_device_same(a->device, b->device);
}

/* The call that alone takes a product, views of the whole between them. NULL: there are several. */
static const nx_node *only_user(const nx_node *product) {
    const nx_node *at = product;
    while (at->uses && at->uses->next == NULL) {
        const nx_node *user = at->uses->user;
        if (!nx__is_view(user) || !user->fakes[0]) return user;
        if (!same_row(&user->fakes[0]->a, &product->fakes[0]->a)) return NULL;
        at = user;
    }
    return NULL;
}

/* Whether `sum` is add(product, other) or add(other, product) of equal sizes, whose other operand is there already. */
static bool find_addend(const nx__lower *l, const nx_node *product, const nx_node *sum, nx__value *addend) {
    if (sum == NULL || sum->op != product->op->joined->sum) return false;
    const nx_value *alpha = &sum->args[2];
    if (alpha->tag != NX_TAG_INT || alpha->i != 1 || (l->regions.n && l->regions.of_node[sum->order] >= 0)) return false;
    for (int k = 0; k < 2; k++) {
        const nx_value *other = &sum->args[k], *own = &sum->args[1 - k];
        if (other->tag != NX_TAG_NODE || own->tag != NX_TAG_NODE) return false;
        if (l->nodes[l->root[own->node->order]] != product) continue;
        *addend = nx__value_of(l, other);
        return addend->buffer >= 0 && same_row(&addend->fake->a, &product->fakes[0]->a) &&
               same_row(&sum->fakes[0]->a, &product->fakes[0]->a);
    }
    return false;
}

/* The sum is computed where the product stands; what is written between them might be its operand. */
static bool writes_between(const nx__lower *l, const nx_node *product, const nx_node *sum) {
    for (int i = product->order + 1; i < sum->order; i++) {
        if (l->nodes[i]->op && l->nodes[i]->op->def->flags & NX_OP_MUTATES) return true;
    }
    return false;
}

/* Whether a product takes its sum as a sum behind it is taken: halves would be rounded before it too, and what a library
 * multiplies may begin with what is added. */
static bool rounds_alike(const nx_array *a) {
    return a->device.type == 0 ? nx_has_own_product(a) : a->dtype == NX_F32 || a->dtype == NX_F64;
}

nx_status nx__sum_lower(nx__lower *l, const nx_node *product, bool *done) {
    const nx_op *op = product->op->joined;
    nx__value addend;
    nx_value in[5], out;
    *done = false;
    if (nx_flag.reference || op == NULL || product->fakes[0] == NULL) return NX_OK;
    const nx_array *layout = &product->fakes[0]->a;
    const nx_node *sum = only_user(product);
    if (!rounds_alike(layout) || !find_addend(l, product, sum, &addend) || writes_between(l, product, sum)) return NX_OK;
    if (l->api && l->api->find_kernel(l->api->context, op->def->name) == NULL) return NX_OK;
    in[0] = nx_value_tensor(nx__operand_new(l->program, layout, addend.buffer, addend.offset));
    if (in[0].tensor == NULL) return NX_NO_MEMORY;
    for (int k = 0; k < 2; k++) NX_TRY(lower_reference(l, product, &product->args[k], &in[1 + k]));
    for (int k = 3; k < 5; k++) in[k] = op->def->params[k].initial;
    NX_TRY(nx__buffer_new(l, sum, 0));
    out = nx_value_tensor(nx__operand_new(l->program, layout, l->program->buffers.n - 1, 0));
    if (out.tensor == NULL) return NX_NO_MEMORY;
    *done = true;
    return nx__call_lower(l, op, in, &out);
}

/* ---- a scatter into what it is given --------------------------------------------------------- */
nx_status nx__scatters_find(nx__lower *l, const nx_graph *graph, const int *result_of) {
    l->reuse = nx_alloc_zeroed((size_t)l->n_nodes + 1);
    if (l->reuse == NULL) return nx_fail_memory((size_t)l->n_nodes);
    bool can_copy = l->api == NULL || l->api->find_kernel(l->api->context, nx_known(NX_KNOWN_COPY_INTO)->def->name);
    return can_copy && !nx_flag.reference ? nx_pass_reinplace(graph, result_of, l->reuse) : NX_OK;
}

/* Where the part lies in `base`, as the view says that shows it. */
static nx_status lay_part(const nx_node *scatter, const nx_tensor *base, nx_array *part, int64_t *offset) {
    nx_value in[16];
    nx_meta meta;
    assert(scatter->n_args <= NX_COUNT(in));
    in[0] = nx_value_tensor((nx_tensor *)base); /* read alone */
    for (int i = 2; i < scatter->n_args; i++) in[i - 1] = scatter->args[i];
    NX_TRY(nx_op_meta(scatter->op->part, in, &meta));
    part->ndim = meta.ndim;
    memcpy(part->sizes, meta.size, sizeof(int64_t) * (size_t)meta.ndim);
    memcpy(part->strides, meta.stride, sizeof(int64_t) * (size_t)meta.ndim);
    part->dtype = base->a.dtype;
    part->device = base->a.device;
    nx_array_refresh(part);
    *offset = meta.offset * (int64_t)nx_dtype_bytes(base->a.dtype);
    return NX_OK;
}

nx_status nx__scatter_lower(nx__lower *l, const nx_node *node) {
    nx_program *p = l->program;
    if (l->reuse[node->order] == NX_REUSE_SKIP) return NX_OK;
    nx__value value = nx__value_of(l, &node->args[0]);
    assert(value.buffer >= 0);
    const nx__buffer *buffer = &p->buffers.at[value.buffer];
    if (l->reuse[node->order] == NX_REUSE_WRITE) {
        nx_value in[3], out;
        int64_t dims[2 * NX_MAX_DIMS];
        nx_array part = {.sizes = dims, .strides = dims + NX_MAX_DIMS};
        const nx_node *from = node->args[1].node;
        bool skips = l->reuse[from->order] == NX_REUSE_SKIP;
        NX_TRY(lower_reference(l, node, skips ? &from->args[1] : &node->args[1], &in[1]));
        int64_t offset;
        NX_TRY(lay_part(node, value.fake, &part, &offset));
        in[0] = out = nx_value_tensor(nx__operand_new(l->program, &part, value.buffer, value.offset + offset));
        if (in[0].tensor == NULL) return NX_NO_MEMORY;
        in[2] = nx_value_bool(false);
        if (buffer->space == NX__INPUT) p->input_written[buffer->index] = p->writes_inputs = true;
        NX_TRY(nx__call_lower(l, nx_known(NX_KNOWN_COPY_INTO), in, &out));
    }
    value.fake = node->fakes[0]; /* of a part of a part nobody reads it but the outer scatter, which is done then */
    l->values[l->first_value[node->order]] = value;
    return NX_OK;
}
