/* One run of a recording: results get fresh memory, so that a later run never overwrites an earlier result; slots are
 * bound to the inputs' and the results' memory; the device runs the launches. On devices whose work is done later the
 * memory is held until then. */
#include "replay/private.h"

typedef struct binding {
    void **bases;            /* inputs, then blocks */
    nx_storage **storages;   /* inputs' and blocks'; lent, but of shared blocks owned until the end of the run */
    nx_tensor **moved;       /* inputs that were brought to the device; owned; NULL where none was */
} binding;

static const char other_dtype[] = "has another dtype", other_device[] = "lies on another device";
static nx_status fail_input(const nx_replay *replay, int i, const char *what) {
    return nx_fail(NX_RUNTIME, "replay: input %d %s than what was recorded: compile for it", i, what);
}

static nx_status bind_input(const nx_replay *replay, int i, nx_tensor *tensor, binding *b) {
    const nx__replay_input *input = &replay->inputs[i];
    if (NX_UNLIKELY(tensor->a.dtype != input->dtype)) return fail_input(replay, i, other_dtype);
    if (NX_UNLIKELY(!nx_device_same(tensor->a.device, replay->device))) {
        if (!input->is_moved || tensor->a.device.type != 0)
            return fail_input(replay, i, other_device);
        NX_TRY(nx_tensor_new(input->dtype, 0, NULL, replay->device, &b->moved[i]));
        NX_TRY(nx_device_copy(b->moved[i], tensor));
        tensor = b->moved[i];
    }
    b->bases[i] = tensor->a.data;
    b->storages[i] = tensor->storage;
    return NX_OK;
}

/* ---- results ------------------------------------------------------------------------------------------- */

static nx_status view_input(nx_tensor *input, const nx_meta *from, nx_tensor **out) {
    nx_meta meta = *from;
    meta.offset += input->offset * nx_dtype_sizes[input->a.dtype] / nx_dtype_sizes[meta.dtype];
    return nx_tensor_new_view(input->storage, &meta, input->keys & ~NX_KEYS_OWN, input, out);
}

static nx_status block_storage(const nx_replay *replay, int block, binding *b) {
    nx_storage **storage = &b->storages[replay->n_inputs + block];
    return *storage ? NX_OK : nx_storage_new(replay->device, replay->blocks[block].bytes, storage);
}

static nx_status make_in_block(const nx_replay *replay, const nx__replay_result *result, binding *b,
                               nx_tensor **out) {
    nx_storage **storage = &b->storages[replay->n_inputs + result->of];
    if (NX_LIKELY(!replay->blocks[result->of].is_shared)) {
        NX_TRY(nx_tensor_new_layout(&result->layout, out));
        *storage = (*out)->storage;
    } else {
        NX_TRY(block_storage(replay, result->of, b));
        NX_TRY(nx_tensor_new_view(*storage, &result->meta, NX_DEVICE_KEY(replay->device), NULL, out));
    }
    b->bases[replay->n_inputs + result->of] = (*storage)->data;
    return NX_OK;
}

static nx_status make_result(const nx_replay *replay, int k, nx_tensor *const *inputs, binding *b,
                             nx_tensor **out) {
    const nx__replay_result *result = &replay->results[k];
    switch (result->kind) {
    case NX__RESULT_BLOCK: return make_in_block(replay, result, b, &out[k]);
    case NX__RESULT_VIEW: return view_input(inputs[result->of], &result->meta, &out[k]);
    case NX__RESULT_INPUT: out[k] = nx_tensor_ref(inputs[result->of]); break;
    case NX__RESULT_SAME: out[k] = nx_tensor_ref(out[result->of]); break;
    case NX__RESULT_NONE: break;
    }
    return NX_OK;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static nx_status bind(const nx_replay *replay, nx_tensor *const *inputs, binding *b, nx_tensor **out) {
    for (int i = 0; i < replay->n_inputs; i++) NX_TRY(bind_input(replay, i, inputs[i], b));
    for (int k = 0; k < replay->n_results; k++) NX_TRY(make_result(replay, k, inputs, b, out));
    return NX_OK;
}

static nx_status start(const nx_replay *replay, const binding *b) {
    nx_launch *keep = NULL; /* the CPU is done when the call returns */
    if (replay->device.type != 0)
        NX_TRY(nx_launch_new_keep(b->storages, replay->n_inputs + replay->n_blocks, &keep));
    return nx_capture_replay(replay->device, replay->graph, b->bases, keep);
}

static void note_written(const nx_replay *replay, nx_tensor *const *inputs) {
    for (int i = 0; i < replay->n_inputs; i++) inputs[i]->storage->version += replay->inputs[i].is_written;
}

static void drop_results(nx_tensor **out, int n) {
    for (int k = 0; k < n; k++) {
        nx_tensor_unref(out[k]);
        out[k] = NULL;
    }
}

static nx_status run(const nx_replay *replay, nx_tensor *const *inputs, binding *b, nx_tensor **out) {
    for (int k = 0; k < replay->n_results; k++) out[k] = NULL;
    nx_status status = bind(replay, inputs, b, out);
    if (NX_LIKELY(status == NX_OK)) {
        status = start(replay, b);
        if (replay->has_written) note_written(replay, inputs); /* also when it failed half-way */
    }
    for (int s = 0; replay->has_shared && s < replay->n_blocks; s++) {
        if (replay->blocks[s].is_shared) nx_storage_unref(b->storages[replay->n_inputs + s]);
    }
    for (int i = 0; replay->has_moved && i < replay->n_inputs; i++) nx_tensor_unref(b->moved[i]);
    if (NX_UNLIKELY(status != NX_OK)) drop_results(out, replay->n_results);
    return status;
}

/* The commonest recordings need no more than addresses. */
static nx_status run_plain(const nx_replay *replay, nx_tensor *const *inputs, nx_tensor **out) {
    void *bases[NX__FEW], **blocks = bases + replay->n_inputs;
    int made = 0;
    nx_status status = NX_OK;
    for (int i = 0; i < replay->n_inputs; i++) {
        const nx_array *a = &inputs[i]->a;
        if (NX_UNLIKELY(a->dtype != replay->inputs[i].dtype)) return fail_input(replay, i, other_dtype);
        if (NX_UNLIKELY(!nx_device_same(a->device, replay->device))) return fail_input(replay, i, other_device);
        bases[i] = a->data;
    }
    for (; made < replay->n_results; made++) {
        const nx__replay_result *result = &replay->results[made];
        NX_TRY_FAIL(nx_tensor_new_layout(&result->layout, &out[made]));
        blocks[result->of] = out[made]->a.data;
    }
    status = nx_capture_replay(replay->device, replay->graph, bases, NULL);
    if (replay->has_written) note_written(replay, inputs);
fail:
    if (NX_UNLIKELY(status != NX_OK)) drop_results(out, made);
    return status;
}

static __attribute__((noinline)) nx_status run_any(const nx_replay *replay, nx_tensor *const *inputs, nx_tensor **out) {
    int n = replay->n_inputs + replay->n_blocks;
    void *few[3 * NX__FEW];
    size_t bytes = sizeof(void *) * 3 * (size_t)n;
    void **room = n <= NX__FEW ? few : nx_alloc(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    memset(room, 0, bytes);
    binding b = {room, (nx_storage **)(room + n), (nx_tensor **)(room + 2 * n)};
    nx_status status = run(replay, inputs, &b, out);
    if (room != few) nx_free(room);
    return status;
}

nx_status nx_replay_run(nx_replay *replay, nx_tensor *const *inputs, nx_tensor **out) {
    return NX_LIKELY(replay->is_plain) ? run_plain(replay, inputs, out) : run_any(replay, inputs, out);
}
