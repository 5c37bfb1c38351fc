/* Running a program. On the CPU: the addresses of inputs and fresh results are written into the prepared
 * arguments and the kernels are called one after the other; no lock, no dispatch, no shape rule. On another
 * device, or while the CPU's launches are recorded, each step is given to the device as a launch, which holds
 * the memory that it touches. What must hold: one run of a program at a time; inputs have the layouts that
 * the program was compiled for. */
#include "engine/program.h"

/* ---- bases ----------------------------------------------------------------------------------- */
/* Memory of the caller, or new memory when base is NULL. */
nx_status nx__base_take(nx_device device, const char *what, void *base, size_t bytes, size_t needed, nx_storage **out) {
    if (base == NULL) return nx_storage_new(device, needed, out);
    if (bytes < needed)
        return nx_fail(NX_VALUE, "%s base: %zu bytes were given and %zu are needed: see the summary", what,
                       bytes, needed);
    if ((uintptr_t)base % 64) return nx_fail(NX_VALUE, "%s base: the address must be a multiple of 64", what);
    NX_TRY(nx_storage_new_fake(device, bytes, out));
    (*out)->data = base;
    return NX_OK;
}

/* The bytes of a constant from its first element to its last, as a row: layouts with gaps keep them. */
static nx_status row_of(nx_storage *storage, const nx_array *like, nx_device device, int64_t offset,
                        int64_t n, nx_tensor **out) {
    nx_meta meta = {.dtype = like->dtype, .device = device, .ndim = 1, .view_of = -1, .offset = offset};
    meta.size[0] = n;
    meta.stride[0] = 1;
    return nx_tensor_new_view(storage, &meta, NX_DEVICE_KEY(device), NULL, out);
}

nx_status nx__constant_copy(nx_device device, nx_storage *memory, size_t offset, nx_tensor *constant) {
    nx_tensor *to = NULL, *from = NULL;
    size_t bytes = nx__bytes_of(&constant->a);
    int64_t item = (int64_t)nx_dtype_bytes(constant->a.dtype), n = (int64_t)bytes / item;
    if (n == 0) return NX_OK;
    if (device.type == 0 && constant->a.device.type == 0) {
        memcpy((char *)memory->data + offset, constant->a.data, bytes);
        return NX_OK;
    }
    nx_status status;
    NX_TRY_FAIL(row_of(memory, &constant->a, device, (int64_t)offset / item, n, &to));
    NX_TRY_FAIL(row_of(constant->storage, &constant->a, constant->a.device, constant->offset, n, &from));
    NX_TRY_FAIL(nx_device_copy(to, from));
fail:
    nx_tensor_unref(to);
    nx_tensor_unref(from);
    return status;
}

void nx__program_share_consts(nx_program *p, nx_storage *memory) {
    if (memory) nx_storage_ref(memory);
    nx_storage_unref(p->const_memory);
    p->const_memory = memory;
    p->bound = false;
}

nx_status nx__program_set_const_base(nx_program *p, void *base, size_t bytes) {
    nx_storage *memory;
    nx_status status = NX_OK;
    NX_TRY(nx__base_take(p->device, "const", base, bytes, p->const_bytes, &memory));
    for (int i = 0; i < p->n_constants && status == NX_OK; i++)
        status = nx__constant_copy(p->device, memory, p->buffers.at[p->constant_buffers[i]].offset, p->constants[i]);
    if (status == NX_OK) nx__program_share_consts(p, memory);
    nx_storage_unref(memory);
    return status;
}

nx_status nx__program_set_feature_base(nx_program *p, void *base, size_t bytes) {
    nx_storage *memory = NULL;
    if (base) NX_TRY(nx__base_take(p->device, "feature", base, bytes, p->feature_bytes, &memory));
    nx_storage_unref(p->feature_memory);
    p->feature_memory = memory;
    p->feature_given = base != NULL;
    p->feature_at = NULL;
    return NX_OK;
}

static void bind(nx_program *p, nx__space space, nx_storage *memory) {
    for (int i = 0; i < p->references.n; i++) {
        const nx__reference *reference = &p->references.at[i];
        const nx__buffer *buffer = &p->buffers.at[reference->buffer];
        if (buffer->space != space) continue;
        *reference->where = memory ? (char *)memory->data + buffer->offset + reference->offset : NULL;
        if (reference->tensor) reference->tensor->storage = memory;
    }
}

/* ---- poison (NARTHEX_POISON) ------------------------------------------------------------------ */
static void poison(void *data, size_t bytes) {
    if (data) memset(data, 0xFF, bytes);
}

/* Of the intermediates that `step` uses last, those whose memory none takes that it makes. */
static void poison_dead(const nx_program *p, int step) {
    for (int i = 0; i < p->buffers.n; i++) {
        const nx__buffer *dead = &p->buffers.at[i];
        bool taken = false;
        if (dead->space != NX__FEATURE || dead->last != step || dead->bytes == 0) continue;
        for (int k = 0; k < p->buffers.n && !taken; k++) taken = p->buffers.at[k].in_place_of == i;
        if (!taken) poison((char *)p->feature_at + dead->offset, dead->bytes);
    }
}

/* The arena of a run. Each run leases one, so that a program at rest has none and launches of two runs share none; the addresses
 * stay as they are when it lies where the last one lay. One of KEPT_BYTES at most stays with the program on the CPU. */
enum { KEPT_BYTES = 32 << 10 };
static nx_status take_arena(nx_program *p, bool launches, nx_storage **leased) {
    nx_storage *memory = p->feature_given || !launches ? p->feature_memory : NULL;
    if (memory == NULL) {
        NX_TRY(nx_storage_new(p->device, p->feature_bytes, &memory));
        if (!launches && p->feature_bytes <= KEPT_BYTES) p->feature_memory = memory;
        else *leased = memory;
    }
    if (launches || memory->data != p->feature_at) {
        bind(p, NX__FEATURE, memory);
        p->feature_at = memory->data;
    }
    if (NX_UNLIKELY(nx_flag.poison) && !launches) poison(memory->data, p->feature_bytes);
    return NX_OK;
}

/* ---- inputs and results ---------------------------------------------------------------------- */
static nx_status fail_strides(int index, const nx_array *given, const nx_array *expected) {
    nx_text text = {0};
    nx_text_add_ints(&text, given->strides, given->ndim);
    nx_text_add(&text, " and was compiled for ");
    nx_text_add_ints(&text, expected->strides, expected->ndim);
    nx_status status =
        nx_fail(NX_RUNTIME, "run: input %d has strides %s: compile again, or pass .contiguous()", index,
                text.failed ? "" : text.at);
    nx_text_free(&text);
    return status;
}

static inline bool same_strides(const nx_array *a, const nx_array *b) {
    return NX_LIKELY(b->contiguous) ? a->contiguous : nx_same_strides(b, a);
}

static inline nx_status take_inputs(nx_program *p, nx_tensor *const *inputs) {
    for (int i = 0; i < p->n_inputs; i++) {
        const nx_array *a = &inputs[i]->a;
        if (NX_UNLIKELY(!same_strides(a, &p->inputs[i]))) return fail_strides(i, a, &p->inputs[i]);
    }
    return NX_OK;
}

/* Results for which the caller has a tensor go straight there when nothing else lies in that memory: no input, no other result. */
static nx_status find_shared(const nx_program *p, nx_tensor *const *inputs, bool *shared) {
    nx_numbers seen; /* memory of inputs -> n_outputs, of given results -> the first of them */
    nx_status status = NX_OK;
    nx_numbers_start(&seen);
    for (int i = 0; i < p->n_inputs && status == NX_OK; i++)
        status = nx_numbers_add(&seen, nx_storage_memory(inputs[i]->storage), p->n_outputs, NULL);
    for (int k = 0; k < p->n_outputs && status == NX_OK; k++) {
        int first = k;
        if (p->given[k]) status = nx_numbers_add(&seen, nx_storage_memory(p->given[k]->storage), k, &first);
        shared[k] = first != k;
        if (first != k && first < p->n_outputs) shared[first] = true;
    }
    nx_numbers_free(&seen);
    return status;
}

static nx_status adopt_given(nx_program *p, nx_tensor *const *inputs) {
    bool *shared = nx_alloc_zeroed((size_t)p->n_outputs + 1);
    nx_status status = shared ? find_shared(p, inputs, shared) : nx_fail_memory((size_t)p->n_outputs + 1);
    for (int i = 0; i < p->n_outputs && status == NX_OK; i++) {
        nx_tensor *given = p->given[i];
        const nx__output *output = &p->outputs[i];
        if (given == NULL || output->meta == NULL || output->space != NX__RESULT || output->view || shared[i]) continue;
        nx_array like = {.sizes = output->meta->size,
                         .strides = output->meta->stride,
                         .dtype = (uint8_t)output->meta->dtype,
                         .ndim = (uint8_t)output->meta->ndim};
        if (nx__same_layout(&given->a, &like)) p->made[output->index] = nx_tensor_ref(given);
    }
    nx_free(shared);
    return status;
}

static inline nx_status make_result(nx_program *p, int k) {
    if (p->made[k] == NULL) {
        NX_TRY(nx_tensor_new_layout(&p->fresh[k], &p->made[k]));
        if (NX_UNLIKELY(nx_flag.poison) && p->device.type == 0) poison(p->made[k]->storage->data, p->made[k]->storage->bytes);
    }
    return NX_OK;
}

static inline void drop_made(nx_program *p) {
    for (int k = 0; k < p->n_fresh; k++) {
        if (NX_LIKELY(p->made[k] == NULL)) continue;
        nx_tensor_unref(p->made[k]);
        p->made[k] = NULL;
    }
}

static nx_status make_view(const nx__output *output, nx_tensor *of, nx_tensor *base, nx_tensor **out) {
    nx_meta meta = *output->meta;
    meta.offset += of->offset * nx_dtype_sizes[of->a.dtype] / nx_dtype_sizes[meta.dtype];
    return nx_tensor_new_view(of->storage, &meta, NX_DEVICE_KEY(of->a.device), base, out);
}

/* A view, an input, a tensor that another output is already. */
static nx_status give_other(nx_program *p, int i, nx_tensor *const *inputs, nx_tensor **out) {
    const nx__output *output = &p->outputs[i];
    bool input = output->space == NX__INPUT;
    nx_tensor *whole = input ? inputs[output->index] : p->made[output->index];
    if (output->view) return make_view(output, whole, input ? whole : NULL, &out[i]);
    if (!input) whole = out[nx__output_find_same(p, i)];
    out[i] = nx_tensor_ref(whole);
    return NX_OK;
}

/* Views of results first: they need the tensors that the second part hands out. */
static nx_status give_results(nx_program *p, nx_tensor *const *inputs, nx_tensor **out) {
    for (int i = 0; i < p->n_outputs; i++) {
        const nx__output *output = &p->outputs[i];
        out[i] = NULL;
        if (NX_LIKELY(!output->view)) continue;
        nx_status status = give_other(p, i, inputs, out);
        if (NX_LIKELY(status == NX_OK)) continue;
        while (i-- > 0) {
            nx_tensor_unref(out[i]);
            out[i] = NULL;
        }
        return status;
    }
    for (int i = 0; i < p->n_outputs; i++) {
        const nx__output *output = &p->outputs[i];
        if (output->view || output->meta == NULL) continue;
        if (NX_LIKELY(output->space == NX__RESULT && p->made[output->index])) {
            out[i] = p->made[output->index];
            p->made[output->index] = NULL;
        } else {
            NX_TRY(give_other(p, i, inputs, out));
        }
    }
    return NX_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */
static inline nx_status call_step(const nx__step *step) {
    nx__direct *direct = step->direct;
    if (direct) {
        direct->loop(direct->ptrs, direct->steps, direct->n, direct->constants);
        return NX_OK;
    }
    nx_run run = step->run;
    return step->kernel(&run, step->in, step->out);
}

nx_status nx__step_call(const nx__step *step) { return call_step(step); }

/* A fused region is named by its operators. */
static const char *name_step(nx_profile *profile, const nx__step *step) {
    char name[160];
    size_t at = 0;
    if (step->tile == NULL) return step->run.op->def->name;
    for (int i = 0; i < step->tile->n_instrs && at < sizeof name; i++) {
        const nx_op *op = nx__tile_instrs(step->tile)[i].op;
        if (op) at += (size_t)snprintf(name + at, sizeof name - at, "%s%s", at ? " + " : "fused: ", op->def->name);
    }
    return at ? nx_profile_name(profile, name) : "fused";
}

static nx_status note_steps(nx_profile *profile, const nx__step *step, const nx__step *end) {
    for (; step < end; step++) {
        int event = nx_profile_begin(profile, NX_EVENT_STEP, name_step(profile, step));
        nx_status status = call_step(step);
        nx_profile_end(profile, event);
        NX_TRY(status);
    }
    return NX_OK;
}

static nx_status measure_steps(nx_program *p, const nx__step *step, const nx__step *end) {
    for (; step < end; step++) NX_TRY(nx__measure_step(p, step));
    return NX_OK;
}

static nx_status poison_steps(nx_program *p, const nx__step *step, const nx__step *end) {
    for (; step < end; step++) {
        NX_TRY(call_step(step));
        poison_dead(p, (int)(step - p->steps.at));
    }
    return NX_OK;
}

static inline nx_status call_part(nx_program *p, const nx__step *step, const nx__step *end) {
    nx_profile *profile = nx_thread_get()->profile;
    if (NX_UNLIKELY(p->measures_since)) return measure_steps(p, step, end);
    if (NX_UNLIKELY(profile != NULL)) return note_steps(profile, step, end);
    if (NX_UNLIKELY(nx_flag.poison)) return poison_steps(p, step, end);
    for (; step < end; step++) NX_TRY(call_step(step));
    return NX_OK;
}

static void let_go(nx_tensor **input) {
    nx_tensor_unref(*input);
    *input = NULL;
}

static inline void fill_in(const nx__reference *at, const nx__reference *end, const nx_tensor *tensor) {
    for (; at < end; at++) *at->where = (char *)tensor->a.data + at->offset;
}

static inline void fill_in_inputs(const nx_program *p, nx_tensor *const *inputs) {
    const nx__reference *at = p->references.at, *end = at + p->n_input_references;
    for (; at < end; at++) fill_in(at, at + 1, inputs[at->index]);
}

static nx_status pass_other(const nx__event *event, nx_tensor **taken) {
    if (event->what == NX__POLL) return nx_poll();
    let_go(&taken[event->index]);
    return NX_OK;
}

/* taken: the inputs that may go, NULL: none. */
static inline nx_status call_steps(nx_program *p, nx_tensor **taken) {
    const nx__step *all = p->steps.at;
    int at = 0;
    for (const nx__event *event = p->events.at, *end = event + p->events.n; event < end; event++) {
        if (event->what == NX__RELEASE && taken == NULL) continue;
        if (at < event->step) NX_TRY(call_part(p, all + at, all + event->step));
        at = event->step;
        if (event->what == NX__MAKE) {
            NX_TRY(make_result(p, event->index));
            fill_in(p->references.at + event->begin, p->references.at + event->end, p->made[event->index]);
        } else {
            NX_TRY(pass_other(event, taken));
        }
    }
    return call_part(p, all + at, all + p->steps.n);
}

/* ---- launches -------------------------------------------------------------------------------- */
static nx_status make_all(nx_program *p) {
    for (int i = 0; i < p->events.n; i++) {
        if (p->events.at[i].what == NX__MAKE) NX_TRY(make_result(p, p->events.at[i].index));
    }
    return NX_OK;
}

static void bind_launches(nx_program *p, nx_tensor *const *inputs) {
    for (int i = 0; i < p->references.n; i++) {
        const nx__reference *reference = &p->references.at[i];
        const nx__buffer *buffer = &p->buffers.at[reference->buffer];
        if (buffer->space == NX__CONST || buffer->space == NX__FEATURE || reference->tensor == NULL) continue;
        const nx_tensor *tensor = buffer->space == NX__INPUT ? inputs[buffer->index] : p->made[buffer->index];
        *reference->where = tensor->a.data ? (char *)tensor->a.data + reference->offset : NULL;
        reference->tensor->storage = tensor->storage;
    }
}

/* Two runs share an arena of the caller, so that a run on another stream waits for the last one. */
static nx_status follow_stream(nx_program *p, nx_stream *stream) {
    if (p->launched && p->stream != stream && p->feature_given && !nx_capture_active(p->device)) {
        NX_TRY(nx_device_synchronize(p->device));
    }
    p->launched = true;
    p->stream = stream;
    return NX_OK;
}

/* taken: the inputs that may go, NULL: none. */
static nx_status launch_steps(nx_program *p, nx_tensor *const *inputs, nx_tensor **taken) {
    nx_stream *stream = nx_stream_current(p->device);
    NX_TRY(follow_stream(p, stream));
    NX_TRY(make_all(p));
    bind_launches(p, inputs);
    const nx__event *event = p->events.at, *end = event + p->events.n;
    for (int i = 0; i < p->steps.n; i++) {
        const nx__step *step = &p->steps.at[i];
        nx_run run = step->run;
        run.stream = stream;
        nx_profile *profile = nx_thread_get()->profile;
        int noted = profile ? nx_profile_begin(profile, NX_EVENT_STEP, name_step(profile, step)) : -1;
        nx_status status = nx_device_launch(step->kernel, &run, step->in, step->n_in, step->out, step->n_out);
        if (profile) nx_profile_end(profile, noted);
        NX_TRY(status);
        for (; taken && event < end && event->step <= i + 1; event++) {
            if (event->what == NX__RELEASE) let_go(&taken[event->index]);
        }
    }
    return NX_OK;
}

static nx_status call_or_launch(nx_program *p, nx_tensor *const *inputs, nx_tensor **taken, bool launches) {
    if (NX_UNLIKELY(launches)) return launch_steps(p, inputs, taken);
    fill_in_inputs(p, inputs);
    return call_steps(p, taken);
}

static inline nx_status run_steps(nx_program *p, nx_tensor *const *inputs, nx_tensor **taken) {
    nx_storage *leased = NULL;
    bool launches = p->device.type != 0 || nx_thread_get()->recorder;
    if (NX_UNLIKELY(!p->bound)) {
        bind(p, NX__CONST, p->const_memory);
        p->bound = true;
    }
    if (p->feature_bytes) NX_TRY(take_arena(p, launches, &leased));
    nx_status status = call_or_launch(p, inputs, taken, launches);
    nx_storage_unref(leased);
    return status;
}

/* ---- a run ----------------------------------------------------------------------------------- */
static nx_status run_fresh(nx_program *p, nx_tensor *const *inputs, nx_tensor **taken, nx_tensor **out) {
    nx_status status = run_steps(p, inputs, taken);
    if (NX_LIKELY(status == NX_OK)) status = give_results(p, inputs, out);
    for (int i = 0; i < p->n_inputs && p->writes_inputs; i++) {
        if (p->input_written[i] && inputs[i]->storage) inputs[i]->storage->version++;
    }
    drop_made(p); /* after a failure, and where only views of one were wanted */
    return status;
}

static nx_status copy_into(nx_tensor *to, nx_tensor *from) {
    const nx_op *copy = nx_known(NX_KNOWN_COPY_INTO);
    nx_value in[8] = {{0}}, result[1];
    for (int i = 2; i < copy->def->n_in; i++) in[i] = copy->def->params[i].initial;
    in[0] = nx_value_tensor(to);
    in[1] = nx_value_tensor(from);
    NX_TRY(nx_op_call(copy, in, result));
    nx_value_drop(&result[0]);
    return NX_OK;
}

/* The caller has tensors for some results. */
static nx_status run_given(nx_program *p, nx_tensor *const *inputs, nx_tensor **out) {
    for (int i = 0; i < p->n_outputs; i++) p->given[i] = out[i];
    NX_TRY(adopt_given(p, inputs));
    nx_status status = run_fresh(p, inputs, NULL, out);
    bool ran = status == NX_OK;
    for (int i = 0; i < p->n_outputs; i++) {
        nx_tensor *given = p->given[i], *result = out[i];
        if (given == NULL) continue;
        out[i] = given;
        if (!ran) continue;
        if (status == NX_OK && result && result != given) status = copy_into(given, result);
        else if (result == given && given->storage) given->storage->version++;
        nx_tensor_unref(result);
    }
    for (int i = 0; i < p->n_outputs && status != NX_OK; i++) {
        if (p->given[i]) continue;
        if (ran) nx_tensor_unref(out[i]);
        out[i] = NULL;
    }
    return status;
}

nx_status nx_program_run(nx_program *p, nx_tensor *const *inputs, nx_tensor **out) {
    NX_TRY(take_inputs(p, inputs));
    for (int i = 0; i < p->n_outputs; i++) {
        if (NX_UNLIKELY(out[i] != NULL)) return run_given(p, inputs, out);
    }
    return run_fresh(p, inputs, NULL, out);
}

nx_status nx_program_run_taking(nx_program *p, nx_tensor **inputs, nx_tensor **out) {
    NX_TRY(take_inputs(p, inputs));
    return run_fresh(p, inputs, inputs, out);
}

nx_device nx_program_device(const nx_program *p) { return p->device; }

void nx_program_get_summary(const nx_program *p, nx_summary *out) {
    size_t size = out->size;
    nx_summary summary = {.size = size,
                          .is_static = true,
                          .feature_base_refreshable = true,
                          .n_inputs = p->n_inputs,
                          .n_outputs = p->n_outputs,
                          .n_launches = p->steps.n,
                          .n_tile_programs = p->n_tile_programs,
                          .const_bytes = p->const_bytes,
                          .feature_bytes = p->feature_bytes};
    memcpy(out, &summary, size < sizeof summary ? size : sizeof summary);
}
