/* Recording: the graph's program runs once on inputs of the right shape while the device captures; nothing computes.
 * Afterwards each result is described by where it lies: in an input, in new memory, in a constant. Inputs and the new
 * memory of results become slots, rebound at each run; what is left is the private pool, which the recording holds.
 * Read next: run.c. */
#include "replay/private.h"

typedef struct recording {
    nx_replay *replay;
    nx_tensor **inputs, **results; /* of the one run; owned */
    uint32_t *versions;            /* of the inputs before it */
    nx_span *slots;
    nx_numbers inputs_in, blocks_in, seen; /* by memory: the input, the block; by tensor: the result */
} recording;

/* Numbers of the CPU are brought to the device for each run: for the program they lie there. */
static nx_status move_fake(nx_node *placeholder, const nx_meta *meta) {
    nx_tensor *fake;
    NX_TRY(nx_fake_new(meta, 0, &fake));
    nx_tensor_unref(placeholder->fakes[0]);
    placeholder->fakes[0] = fake;
    return NX_OK;
}

/* What stands for a large input of the CPU: addresses, which nobody reads or writes and hence no memory lies behind. */
typedef struct pages {
    void *at;
    size_t bytes;
} pages;
enum { LARGE_BYTES = 64 << 10 };

static void free_pages(void *context) {
    pages *held = context;
    nx_free_pages(held->at, held->bytes);
    nx_free(held);
}

static nx_status new_stand_in(const nx_meta *meta, size_t bytes, nx_tensor **out) {
    if (meta->device.type != 0 || bytes < LARGE_BYTES) return nx_tensor_new_meta(meta, false, out);
    pages *held = nx_alloc(sizeof *held);
    if (held == NULL) return nx_fail_memory(sizeof *held);
    *held = (pages){nx_alloc_pages(bytes), bytes};
    nx_status status = held->at ? NX_OK : nx_fail_memory(bytes);
    if (status == NX_OK)
        status = nx_tensor_from_memory(held->at, meta->dtype, meta->ndim, meta->size, meta->stride, free_pages, held, out);
    if (status != NX_OK) free_pages(held);
    return status;
}

/* A tensor that stands for the placeholder during the recording. */
static nx_status make_input(nx_replay *replay, int i, nx_node *placeholder, nx_tensor **out) {
    const nx_tensor *fake = placeholder->n_results ? placeholder->fakes[0] : NULL;
    if (fake == NULL) return nx_fail(NX_RUNTIME, "replay: input %s has no known shape", placeholder->name);
    nx_meta meta;
    nx_meta_of(&fake->a, &meta);
    nx__replay_input *input = &replay->inputs[i];
    if (!nx_device_same(meta.device, replay->device)) {
        if (meta.device.type != 0 || meta.ndim != 0) {
            return nx_fail(
                NX_NOT_IMPLEMENTED,
                "replay: input %s lies on %s:%d and the graph computes on %s:%d: move it with .to()",
                placeholder->name, nx_device_type_name(meta.device.type), meta.device.index,
                nx_device_type_name(replay->device.type), replay->device.index);
        }
        meta.device = replay->device;
        input->is_moved = replay->has_moved = true;
        NX_TRY(move_fake(placeholder, &meta));
    }
    input->dtype = meta.dtype;
    input->bytes = nx_meta_bytes(&meta);
    return new_stand_in(&meta, input->bytes, out);
}

static nx_status make_inputs(recording *r, nx_graph *graph) {
    int i = 0;
    for (nx_node *node = graph->first; node; node = node->next) {
        if (node->kind != NX_NODE_PLACEHOLDER) continue;
        NX_TRY(make_input(r->replay, i, node, &r->inputs[i]));
        r->versions[i] = nx_tensor_version(r->inputs[i]);
        r->slots[i] = (nx_span){r->inputs[i]->a.data, r->replay->inputs[i].bytes};
        NX_TRY(nx_numbers_add(&r->inputs_in, nx_storage_memory(r->inputs[i]->storage), i, NULL));
        i++;
    }
    return NX_OK;
}

/* ---- where results lie --------------------------------------------------------------------------------- */

/* The block of `storage`, a new one if it has none yet. */
static nx_status block_of(recording *r, nx_storage *storage, int *out) {
    nx_replay *replay = r->replay;
    NX_TRY(nx_numbers_add(&r->blocks_in, storage, replay->n_blocks, out));
    if (*out < replay->n_blocks) return NX_OK;
    int b = replay->n_blocks++;
    replay->blocks[b].bytes = storage->bytes;
    r->slots[replay->n_inputs + b] = (nx_span){storage->data, storage->bytes};
    return NX_OK;
}

static nx_status describe_input(const recording *r, int i, nx_tensor *tensor, nx__replay_result *result) {
    if (r->replay->inputs[i].is_moved) {
        return nx_fail(NX_NOT_IMPLEMENTED,
                       "replay: a result is a view of an input that is moved between devices");
    }
    result->of = i;
    result->kind = r->inputs[i] == tensor ? NX__RESULT_INPUT : NX__RESULT_VIEW;
    result->meta.offset = tensor->offset - r->inputs[i]->offset * nx_dtype_sizes[r->inputs[i]->a.dtype] / nx_dtype_sizes[tensor->a.dtype];
    return NX_OK;
}

static nx_status describe_result(recording *r, int k) {
    nx__replay_result *result = &r->replay->results[k];
    nx_tensor *tensor = r->results[k];
    if (tensor == NULL) return NX_OK; /* None */
    int same, input = tensor->storage ? nx_numbers_find(&r->inputs_in, nx_storage_memory(tensor->storage)) : -1;
    NX_TRY(nx_numbers_add(&r->seen, tensor, k, &same));
    nx_meta_of(&tensor->a, &result->meta);
    if (same < k) {
        result->kind = NX__RESULT_SAME;
        result->of = same;
        return NX_OK;
    }
    if (tensor->storage == NULL) return nx_fail(NX_RUNTIME, "replay: result %d has no memory", k);
    if (input >= 0) return describe_input(r, input, tensor, result);
    result->kind = NX__RESULT_BLOCK;
    NX_TRY(block_of(r, tensor->storage, &result->of));
    r->replay->blocks[result->of].n_results++;
    result->meta.offset = tensor->offset;
    result->is_whole = tensor->offset == 0 && tensor->storage->bytes == nx_meta_bytes(&result->meta);
    return nx_layout_start(&result->layout, &result->meta);
}

static nx_status describe(recording *r) {
    nx_replay *replay = r->replay;
    for (int k = 0; k < replay->n_results; k++) NX_TRY(describe_result(r, k));
    for (int k = 0; k < replay->n_results; k++) { /* memory of two results, or of a part, is made once, then viewed */
        if (replay->results[k].kind != NX__RESULT_BLOCK) continue;
        nx__replay_block *block = &replay->blocks[replay->results[k].of];
        block->is_shared |= block->n_results > 1 || !replay->results[k].is_whole;
        replay->has_shared |= block->is_shared;
    }
    replay->is_plain = replay->device.type == 0 && !replay->has_shared && replay->n_inputs + replay->n_blocks <= NX__FEW;
    for (int k = 0; k < replay->n_results; k++) replay->is_plain &= replay->results[k].kind == NX__RESULT_BLOCK;
    for (int i = 0; i < replay->n_inputs; i++) {
        replay->inputs[i].is_written = nx_tensor_version(r->inputs[i]) != r->versions[i];
        if (replay->inputs[i].is_written && replay->inputs[i].is_moved) {
            return nx_fail(NX_NOT_IMPLEMENTED,
                           "replay: input %d is written on another device than it lies on", i);
        }
        replay->has_written |= replay->inputs[i].is_written;
    }
    return NX_OK;
}

/* ---- the capture --------------------------------------------------------------------------------------- */

/* Ends the capture in any case. */
static nx_status capture(recording *r) {
    nx_replay *replay = r->replay;
    NX_TRY(nx_capture_begin(replay->device));
    nx_status status = nx_program_run(replay->program, r->inputs, r->results);
    if (status == NX_OK) status = describe(r);
    int n_slots = status == NX_OK ? replay->n_inputs + replay->n_blocks : 0;
    replay->n_launches = nx_capture_n_launches();
    nx_status told = nx_capture_kept_bytes(r->slots, n_slots, &replay->pool_bytes);
    if (status == NX_OK) status = told;
    nx_thread *thread = nx_thread_get();
    char message[sizeof thread->message];
    if (status != NX_OK) memcpy(message, thread->message, sizeof message); /* the first failure is told */
    nx_status ended = nx_capture_end(replay->device, r->slots, n_slots, &replay->graph);
    return status == NX_OK ? ended : nx_fail(status, "%s", message);
}

/* On a stream of its own, so that other threads may use the device's default stream meanwhile. */
static nx_status capture_aside(recording *r) {
    nx_device device = r->replay->device;
    if (device.type == 0) return capture(r);
    nx_stream *side, *before = nx_thread_get()->stream[device.type];
    nx_device current = nx_device_current(device.type);
    NX_TRY(nx_stream_new(device, &side));
    nx_status status = nx_stream_set_current(device, side);
    if (status == NX_OK) {
        status = capture(r);
        nx_status restored = nx_stream_set_current(current, before);
        if (status == NX_OK) status = restored;
    }
    nx_stream_free(device, side);
    return status;
}

static nx_status new_replay(const nx_graph *graph, nx_device device, nx_replay **out) {
    int n_inputs = 0;
    for (const nx_node *node = graph->first; node; node = node->next)
        n_inputs += node->kind == NX_NODE_PLACEHOLDER;
    const nx_node *output = nx_graph_output_node(graph);
    int n_results = output ? output->n_args : 0;
    size_t bytes = sizeof(nx_replay) + sizeof(nx__replay_result) * (size_t)n_results +
                   sizeof(nx__replay_input) * (size_t)n_inputs + sizeof(nx__replay_block) * (size_t)n_results;
    nx_replay *replay = nx_alloc_zeroed(bytes);
    if (replay == NULL) return nx_fail_memory(bytes);
    replay->device = device;
    replay->n_inputs = n_inputs;
    replay->n_results = n_results;
    replay->results = (nx__replay_result *)(replay + 1);
    replay->inputs = (nx__replay_input *)(replay->results + n_results);
    replay->blocks = (nx__replay_block *)(replay->inputs + n_inputs);
    *out = replay;
    return NX_OK;
}

static nx_status new_recording(nx_replay *replay, recording *r) {
    size_t n_in = (size_t)replay->n_inputs, n_out = (size_t)replay->n_results;
    size_t bytes =
        sizeof(nx_span) * (n_in + n_out) + sizeof(void *) * (n_in + n_out) + sizeof(uint32_t) * n_in;
    char *at = nx_alloc_zeroed(bytes + 1);
    if (at == NULL) return nx_fail_memory(bytes);
    *r = (recording){.replay = replay, .slots = (nx_span *)at};
    r->inputs = (nx_tensor **)(r->slots + n_in + n_out);
    r->results = r->inputs + n_in;
    r->versions = (uint32_t *)(r->results + n_out);
    return NX_OK;
}

nx_status nx_replay_new(nx_graph *graph, const int *result_of, nx_device device, nx_replay **out) {
    nx_replay *replay = NULL;
    recording r = {0};
    NX_TRY(new_replay(graph, device, &replay));
    nx_status status = new_recording(replay, &r);
    if (status == NX_OK) {
        status = make_inputs(&r, graph);
        if (status == NX_OK) status = nx_program_new_from_own(graph, result_of, device, &replay->program);
        if (status == NX_OK) status = capture_aside(&r);
        for (int i = 0; i < replay->n_inputs; i++) nx_tensor_unref(r.inputs[i]);
        for (int k = 0; k < replay->n_results; k++) nx_tensor_unref(r.results[k]);
        nx_numbers_free(&r.inputs_in);
        nx_numbers_free(&r.blocks_in);
        nx_numbers_free(&r.seen);
        nx_free(r.slots);
    }
    if (status == NX_OK) *out = replay;
    else nx_replay_free(replay);
    return status;
}

void nx_replay_free(nx_replay *replay) {
    if (replay == NULL) return;
    nx_capture_destroy(replay->device, replay->graph);
    nx_program_free(replay->program);
    nx_free(replay);
}

bool nx_replay_writes(const nx_replay *replay, int input) { return replay->inputs[input].is_written; }
const nx_program *nx_replay_program(const nx_replay *replay) { return replay->program; }
int nx_replay_n_launches(const nx_replay *replay) { return replay->n_launches; }
size_t nx_replay_pool_bytes(const nx_replay *replay) { return replay->pool_bytes; }
