/* The autograd node of a call of a compiled graph: values that the forward saved, and the backward graph
 * that turns them and the outputs' gradients into the inputs' gradients. The backward is compiled at its
 * first call, in the forward's mode.
 * Saved values are checked to be unchanged, as eager mode does; what lies in an input that the call itself overwrites is
 * saved as a copy. */
#include "compile/private.h"

typedef struct saved { nx_tensor *tensor; uint32_t version; nx_packed *packed; } saved; /* a tensor, or packed by hooks */
typedef struct call_record {
    nx_compiled *compiled;
    int n;
    saved values[];
} call_record;

static void release(nx_grad_node *node) {
    call_record *record = node->context;
    if (record == NULL) return;
    for (int i = 0; i < record->n; i++) {
        nx_tensor_unref(record->values[i].tensor);
        if (record->values[i].packed) record->values[i].packed->free(record->values[i].packed);
    }
    nx_compiled_unref(record->compiled);
    nx_free(record);
    node->context = NULL;
}

/* ---- tensors made here -------------------------------------------------------------------------------- */
static nx_status new_like(const nx_array *like, nx_tensor **out) {
    nx_meta meta;
    nx_meta_of(like, &meta);
    return nx_tensor_new_meta(&meta, false, out);
}

/* A new tensor of the layout `like`, written by copy_ from `from`, or zeros. */
static nx_status new_filled(const nx_array *like, nx_tensor *from, nx_tensor **out) {
    const nx_op *op = nx_known(from ? NX_KNOWN_COPY_INTO : NX_KNOWN_ZERO);
    nx_value same = NX_VALUE_NONE;
    NX_TRY(new_like(like, out));
    nx_value in[3] = {nx_value_tensor(*out), from ? nx_value_tensor(from) : NX_VALUE_NONE,
                      nx_value_bool(false)};
    nx_status status = nx_op_call(op, in, &same);
    nx_value_drop(&same);
    if (status == NX_OK) return NX_OK;
    nx_tensor_unref(*out);
    *out = NULL;
    return status;
}

nx_status nx__copy_of(nx_tensor *tensor, nx_tensor **out) { return new_filled(&tensor->a, tensor, out); }

static bool has_layout(const nx_array *a, const nx_array *like) {
    if (a->ndim != like->ndim || a->dtype != like->dtype) return false;
    for (int d = 0; d < a->ndim; d++) {
        if (a->sizes[d] != like->sizes[d]) return false;
        if (a->sizes[d] > 1 && a->strides[d] != like->strides[d]) return false;
    }
    return true;
}

/* The gradient of an output as the backward graph expects it. */
static nx_status fit_tangent(nx_tensor *g, const nx_array *expected, nx_tensor **out) {
    if (g == NULL || !has_layout(&g->a, expected)) return new_filled(expected, g, out);
    *out = nx_tensor_ref(g);
    return NX_OK;
}

/* ---- running ------------------------------------------------------------------------------------------ */
static nx_status check_unchanged(const call_record *record) {
    for (int i = 0; i < record->n; i++) {
        const saved *value = &record->values[i];
        if (value->packed || nx_tensor_version(value->tensor) == value->version) continue;
        nx_text sizes = {0};
        nx_text_add_ints(&sizes, value->tensor->a.sizes, value->tensor->a.ndim);
        nx_status status = nx_fail(
            NX_RUNTIME, "one of the variables needed for gradient computation has been modified by an "
                "inplace operation: [%s tensor of size %s, saved by a compiled graph] is at version %u; "
                "expected version %u instead.",
            nx_dtype_name((nx_dtype)value->tensor->a.dtype), sizes.failed ? "?" : sizes.at,
                nx_tensor_version(value->tensor), value->version);
        nx_text_free(&sizes);
        return status;
    }
    return NX_OK;
}

static nx_status gather_tangents(const call_record *record, nx_tensor *const *g, nx_tensor **inputs) {
    const nx_aot *aot = record->compiled->aot;
    const nx_node *placeholder = nx__graph_input_at(aot->backward, aot->n_saved);
    for (int i = 0, at = record->n; i < aot->n_outputs + aot->n_mutated; i++) {
        if (!aot->output_requires_grad[i]) continue;
        if (placeholder == NULL || placeholder->kind != NX_NODE_PLACEHOLDER ||
            placeholder->fakes[0] == NULL) {
            return nx_fail(NX_RUNTIME, "compiled graph: its backward has no input for the gradient of output "
                           "%d", i);
        }
        NX_TRY(fit_tangent(g[i], &placeholder->fakes[0]->a, &inputs[at++]));
        placeholder = placeholder->next;
    }
    return NX_OK;
}

static nx_status compile_backward(const nx_compiled *compiled, nx__plan **out) {
    const nx_aot *aot = compiled->aot;
    const nx_node *output = nx_graph_output_node(aot->backward);
    if (aot->backward->n_inputs != aot->n_saved + aot->n_tangents || output == NULL ||
        output->n_args != aot->n_grads) {
        return nx_fail(NX_RUNTIME, "compile: the backward graph does not have the inputs and results that "
                       "its description says");
    }
    return nx__plan_new(aot->backward, NULL, NULL, compiled->mode, compiled->device, out);
}

/* Made when it is first needed. Of several threads that need it then each makes one, and the first one's is kept. */
static nx_status find_backward(nx_compiled *compiled, const nx__plan **out) {
    nx__plan *made, *kept = atomic_load_explicit(&compiled->backward, memory_order_acquire);
    *out = kept;
    if (NX_LIKELY(kept != NULL)) return NX_OK;
    NX_TRY(compile_backward(compiled, &made));
    nx_status status = compiled->measures && made->program ? nx_program_measure(made->program) : NX_OK;
    if (status != NX_OK) {
        nx__plan_free(made);
        return status;
    }
    if (!atomic_compare_exchange_strong(&compiled->backward, &kept, made)) nx__plan_free(made);
    *out = kept ? kept : made;
    return NX_OK;
}

static nx_status gather_saved(const call_record *record, nx_tensor **inputs) {
    for (int i = 0; i < record->n; i++) {
        const saved *value = &record->values[i];
        if (value->packed) NX_TRY(value->packed->unpack(value->packed, &inputs[i]));
        else inputs[i] = nx_tensor_ref(value->tensor);
    }
    return NX_OK;
}

/* The last backward of the call takes what is saved out of the record, so that each value goes when its last reader has run. */
static nx_status run_backward(nx_grad_node *node, const nx__plan *plan, nx_tensor *const *g, nx_tensor **inputs,
                              nx_tensor **results) {
    const call_record *record = node->context;
    nx_status status = gather_saved(record, inputs);
    if (status == NX_OK) status = gather_tangents(record, g, inputs);
    if (status == NX_OK && nx_grad_node_is_last(node)) {
        node->released = true;
        release(node);
        status = nx__plan_run_taking(plan, inputs, results);
    } else if (status == NX_OK) {
        status = nx__plan_run(plan, inputs, results);
    }
    for (int i = 0; i < plan->n_inputs; i++) nx_tensor_unref(inputs[i]);
    return status;
}

static void give_gradients(const nx_aot *aot, const nx__plan *plan, nx_tensor **results, nx_tensor **grads) {
    for (int i = 0; plan->runner.run && i < aot->n_inputs; i++) {
        bool wanted = aot->grad_of[i] >= 0;
        grads[i] = wanted ? results[i] : NULL;
        if (!wanted) nx_tensor_unref(results[i]);
    }
    if (plan->runner.run) return;
    for (int i = 0; i < aot->n_inputs; i++) {
        nx_tensor *grad = aot->grad_of[i] >= 0 ? results[aot->grad_of[i]] : NULL;
        grads[i] = grad ? nx_tensor_ref(grad) : NULL;
    }
    for (int i = 0; i < aot->n_grads; i++) nx_tensor_unref(results[i]);
}

/* As in eager mode, what leads to outputs without gradients alone has none: not zeros. */
static void drop_absent(const nx_aot *aot, nx_tensor *const *g, nx_tensor **grads) {
    uint64_t given = 0;
    int tangent = 0;
    if (aot->grad_from == NULL) return;
    for (int i = 0; i < aot->n_outputs + aot->n_mutated; i++) {
        if (!aot->output_requires_grad[i]) continue;
        if (g[i]) given |= nx_tangent_bit(tangent);
        tangent++;
    }
    for (int i = 0; i < aot->n_inputs; i++) {
        const uint64_t from = grads[i] && aot->grad_of[i] >= 0 ? aot->grad_from[aot->grad_of[i]] : 0;
        if (from == 0 || (from & given)) continue;
        nx_tensor_unref(grads[i]);
        grads[i] = NULL;
    }
}

static nx_status apply_plan(nx_grad_node *node, nx_compiled *compiled, nx_tensor *const *g, nx_tensor **grads) {
    const nx__plan *plan;
    nx_tensor *few[512], **room = few;
    NX_TRY(find_backward(compiled, &plan));
    size_t n = (size_t)plan->n_inputs + (size_t)plan->n_results;
    if (n > NX_COUNT(few)) room = nx_alloc(sizeof *room * n);
    if (room == NULL) return nx_fail_memory(sizeof *room * n);
    for (size_t i = 0; i < n; i++) room[i] = NULL;
    uint64_t excluded = nx_keys_exclude(NX_KEY(AUTOCAST)); /* the graph has its own casts */
    nx_status status = run_backward(node, plan, g, room, room + plan->n_inputs);
    nx_keys_restore(excluded);
    if (status == NX_OK) give_gradients(compiled->aot, plan, room + plan->n_inputs, grads);
    if (status == NX_OK) drop_absent(compiled->aot, g, grads);
    if (room != few) nx_free(room);
    return status;
}

static nx_status apply(nx_grad_node *node, nx_tensor **g, nx_tensor **grads) {
    const call_record *record = node->context;
    const nx_aot *aot = record->compiled->aot;
    if (aot->refusal) return nx_fail(aot->refused, "%s", aot->refusal);
    if (nx_grad_enabled()) {
        return nx_fail(NX_RUNTIME, "torch.compile with aot_autograd does not currently support double "
                       "backward: run the function without torch.compile, or without create_graph");
    }
    NX_TRY(check_unchanged(record));
    NX_TRY(nx_forward_refuse(g, node->n_inputs));
    nx_compiled *compiled = record->compiled;
    nx_compiled_ref(compiled); /* the record may go before the run is done */
    nx_status status = apply_plan(node, compiled, g, grads);
    nx_compiled_unref(compiled);
    return status;
}

/* ---- making ------------------------------------------------------------------------------------------- */
/* The memory that the call itself writes: that of inputs which are copied back. */
static nx_status find_written(const nx_compiled *compiled, nx_tensor *const *inputs, nx_numbers *written) {
    nx_numbers_start(written);
    for (int i = 0; i < compiled->aot->n_mutated; i++)
        NX_TRY(nx_numbers_add(written, nx_storage_memory(inputs[compiled->aot->mutated[i]]->storage), i, NULL));
    return NX_OK;
}

/* An output is saved by another name, without history: it will belong to the node that saves it. */
static nx_status save_value(const nx_compiled *compiled, int i, nx_tensor *const *inputs, const nx_numbers *written,
                            nx_tensor *const *results, nx_tensor **out) {
    const nx_aot *aot = compiled->aot;
    int input = compiled->saved_input[i];
    int at = aot->n_outputs + aot->n_mutated + i;
    nx_tensor *result = results[at];
    if (input >= 0 && compiled->is_mutated[input]) return new_filled(&inputs[input]->a, inputs[input], out);
    if (result == NULL) return nx_fail(NX_RUNTIME, "compiled graph: saved value %d is not there", i);
    if (nx_numbers_find(written, nx_storage_memory(result->storage)) >= 0) return new_filled(&result->a, result, out);
    if (input < 0 && compiled->is_another[at]) return nx_tensor_alias(result, out);
    *out = nx_tensor_ref(result);
    return NX_OK;
}

static const nx_grad_class compiled_class = {"CompiledFunctionBackward", apply, release, NULL};

nx_status nx__backward_node(nx_compiled *compiled, nx_tensor *const *inputs, nx_tensor *const *results,
                            nx_grad_node **out) {
    const nx_aot *aot = compiled->aot;
    size_t bytes = sizeof(call_record) + sizeof(saved) * (size_t)compiled->n_saved;
    nx_grad_node *node = NULL;
    nx_status status;
    call_record *record = nx_alloc(bytes);
    if (record == NULL) return nx_fail_memory(bytes);
    *record = (call_record){compiled, 0};
    status = nx_grad_node_new(&compiled_class, aot->n_outputs + aot->n_mutated, aot->n_inputs, record, &node);
    if (status != NX_OK) {
        nx_free(record);
        return status;
    }
    nx_compiled_ref(compiled);
    nx_numbers written;
    NX_TRY_FAIL(find_written(compiled, inputs, &written));
    for (; record->n < compiled->n_saved; record->n++) {
        nx_tensor *value;
        NX_TRY_FAIL(save_value(compiled, record->n, inputs, &written, results, &value));
        saved *kept = &record->values[record->n];
        *kept = (saved){value, nx_tensor_version(value), NULL};
        status = nx_saved_pack(value, &kept->packed);
        if (status != NX_OK || kept->packed) {
            nx_tensor_unref(value);
            kept->tensor = NULL;
        }
        if (status != NX_OK) goto fail;
    }
    for (int i = 0; i < aot->n_inputs; i++) {
        if (aot->grad_of[i] >= 0) NX_TRY_FAIL(nx_grad_edge(inputs[i], &node->edges[i]));
    }
    *out = node;
    node = NULL;
fail:
    nx_numbers_free(&written);
    nx_grad_node_unref(node);
    return status;
}
