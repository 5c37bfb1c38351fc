/* Model files, reading. The file is not trusted: version and checksum first, then every name, index, size and
 * length, then the graph's own verifier; shapes are inferred again by the operators' rules and the memory is
 * planned again. Nothing of the file is executed. Whatever is wrong ends in NX_IO (the file) or NX_VALUE
 * (what it asks for). */
#include "engine/model.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ARGS = 64 };

typedef struct reader {
    const char *path;
    nx_arena arena;
    nx_graph *graph;
    nx_device device;
    nx_node **nodes;   /* by index in the file */
    size_t n_nodes;
} reader;

static nx_status fail_file(const reader *r, const char *what) {
    return nx_fail(NX_IO, "load: %s: %s", r->path, what);
}

/* A failure below that says what is wrong, with the file's name before it. */
static nx_status fail_inside(const reader *r, nx_status status) {
    if (status == NX_NO_MEMORY) return status;
    char message[512];
    snprintf(message, sizeof message, "%s", nx_error_message());
    return nx_fail(NX_VALUE, "load: %s: %s", r->path, message);
}

/* ---- types and constants --------------------------------------------------------------------- */
static bool find_dtype(const char *name, nx_dtype *out) {
    for (int d = 0; d < NX_N_DTYPES; d++) {
        if (strcmp(nx_dtype_name((nx_dtype)d), name) != 0) continue;
        *out = (nx_dtype)d;
        return true;
    }
    return false;
}

static nx_status read_type(const reader *r, const TypeDef *type, nx_meta *out) {
    int64_t numel = 1;
    *out = (nx_meta){.view_of = -1};
    if (type == NULL || !find_dtype(type->dtype, &out->dtype))
        return fail_file(r, "a tensor has an unknown dtype");
    if (type->n_sizes > NX_MAX_DIMS || type->n_strides != type->n_sizes)
        return fail_file(r, "a tensor has an impossible shape");
    if (nx_device_parse(type->device, &out->device) != NX_OK) return fail_inside(r, NX_VALUE);
    out->ndim = (int)type->n_sizes;
    for (int d = 0; d < out->ndim; d++) {
        out->size[d] = type->sizes[d];
        out->stride[d] = type->strides[d];
        if (out->size[d] < 0 || out->stride[d] < 0 || __builtin_mul_overflow(numel, out->size[d], &numel)) {
            return fail_file(r, "a tensor has an impossible shape");
        }
    }
    return nx_meta_bytes(out) == SIZE_MAX ? fail_file(r, "a tensor has an impossible shape") : NX_OK;
}

static bool is_name(const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9')) return false;
    }
    return n > 0 && n < 200;
}

static nx_status read_open(const reader *r, const TypeDef *type, nx_node *node) {
    for (size_t i = 0; i < type->n_open; i++) {
        const OpenDef *open = type->open[i];
        nx_size_range range = {open->min, open->max, open->gears, (int)open->n_gears};
        if (open->dim >= type->n_sizes || open->n_gears > NX_MAX_GEARS || !nx_size_range_takes(&range, type->sizes[open->dim]))
            return fail_file(r, "an open size has impossible bounds");
        NX_TRY(nx_node_open_size(node, (int)open->dim, &range));
    }
    return NX_OK;
}

static nx_status read_input(reader *r, const NodeDef *def, nx_node **out) {
    nx_meta meta;
    nx_tensor *fake;
    NX_TRY(read_type(r, def->type, &meta));
    if (!is_name(def->name)) return fail_file(r, "an input has an impossible name");
    NX_TRY(nx_fake_new(&meta, 0, &fake));
    nx_status status = nx_graph_input_like(r->graph, def->name, def->name, fake, out);
    nx_tensor_unref(fake);
    return status == NX_OK ? read_open(r, def->type, *out) : status;
}

/* On the device where it belongs. The bytes of the layout's gaps travel too. */
static nx_status make_constant(const ConstDef *def, const nx_meta *meta, nx_tensor **out) {
    nx_storage *storage;
    nx_tensor *row = NULL, *host = NULL;
    nx_status status;
    nx_meta flat = {.dtype = meta->dtype, .device = meta->device, .ndim = 1, .view_of = -1};
    flat.size[0] = (int64_t)(def->data.len / nx_dtype_bytes(meta->dtype));
    flat.stride[0] = 1;
    NX_TRY(nx_storage_new(meta->device, def->data.len, &storage));
    if (meta->device.type == 0) {
        if (def->data.len) memcpy(storage->data, def->data.data, def->data.len);
    } else if (def->data.len) {
        NX_TRY_FAIL(nx_tensor_new_view(storage, &flat, NX_DEVICE_KEY(meta->device), NULL, &row));
        NX_TRY_FAIL(
            nx_tensor_from_memory(def->data.data, meta->dtype, 1, flat.size, NULL, NULL, NULL, &host));
        NX_TRY_FAIL(nx_device_copy(row, host));
    }
    status = nx_tensor_new_view(storage, meta, NX_DEVICE_KEY(meta->device), NULL, out);
fail:
    nx_tensor_unref(row);
    nx_tensor_unref(host);
    nx_storage_unref(storage);
    return status;
}

static nx_status read_constant(reader *r, const ModelDef *model, const NodeDef *def, nx_node **out) {
    nx_meta meta;
    nx_tensor *tensor;
    if (def->constant >= model->n_constants) return fail_file(r, "a constant is missing");
    const ConstDef *constant = model->constants[def->constant];
    NX_TRY(read_type(r, constant->type, &meta));
    if (!is_name(def->name)) return fail_file(r, "a constant has an impossible name");
    if (constant->data.len != nx_meta_bytes(&meta))
        return fail_file(r, "a constant has another length than its type says");
    NX_TRY(make_constant(constant, &meta, &tensor));
    nx_status status = nx_graph_constant(r->graph, def->name, tensor, out);
    nx_tensor_unref(tensor);
    return status;
}

/* ---- values ---------------------------------------------------------------------------------- */
static nx_status read_node_value(const reader *r, uint32_t node, uint32_t result, nx_value *out) {
    if (node >= r->n_nodes) return fail_file(r, "a node is used before it is defined");
    nx_node *at = r->nodes[node];
    bool number = at->number.tag != NX_TAG_NONE && result == 0;
    if (!number && (result >= (uint32_t)at->n_results || at->fakes[result] == NULL))
        return fail_file(r, "a node has no such result");
    *out = nx_value_node(at, (int)result);
    return NX_OK;
}

static nx_status read_item(const reader *r, const ItemDef *item, nx_value *out) {
    switch (item->kind) {
    case KIND(NONE): *out = NX_VALUE_NONE; return NX_OK;
    case KIND(INT): *out = nx_value_int(item->i); return NX_OK;
    case KIND(BOOL): *out = nx_value_bool(item->i != 0); return NX_OK;
    case KIND(FLOAT): *out = nx_value_float(item->f); return NX_OK;
    case KIND(NODE): return read_node_value(r, item->node, item->result, out);
    default: return fail_file(r, "a list holds an unknown value");
    }
}

static nx_status read_list(reader *r, const ValueDef *def, nx_value *out) {
    nx_value *list = nx_arena_take(&r->arena, sizeof *list * def->n_items);
    if (list == NULL) return NX_NO_MEMORY;
    if (def->n_items > INT32_MAX) return fail_file(r, "a list is too long");
    for (size_t i = 0; i < def->n_items; i++) NX_TRY(read_item(r, def->items[i], &list[i]));
    *out = nx_value_list(list, (int)def->n_items);
    return NX_OK;
}

static nx_status read_value(reader *r, const ValueDef *def, nx_value *out) {
    nx_dtype dtype;
    switch (def->kind) {
    case KIND(NONE): *out = NX_VALUE_NONE; return NX_OK;
    case KIND(INT): *out = nx_value_int(def->i); return NX_OK;
    case KIND(BOOL): *out = nx_value_bool(def->i != 0); return NX_OK;
    case KIND(FLOAT): *out = nx_value_float(def->f); return NX_OK;
    case KIND(STR): *out = nx_value_str(def->text); return NX_OK;
    case KIND(NODE): return read_node_value(r, def->node, def->result, out);
    case KIND(LIST): return read_list(r, def, out);
    case KIND(INTS):
        if (def->n_ints > INT32_MAX) return fail_file(r, "a list is too long");
        *out = nx_value_ints(def->ints, (int)def->n_ints);
        return NX_OK;
    case KIND(DTYPE):
        if (!find_dtype(def->text, &dtype)) return fail_file(r, "an argument is an unknown dtype");
        *out = nx_value_dtype(dtype);
        return NX_OK;
    case KIND(DEVICE):
        *out = (nx_value){.tag = NX_TAG_DEVICE};
        return nx_device_parse(def->text, &out->device) == NX_OK ? NX_OK : fail_inside(r, NX_VALUE);
    case KIND(LAYOUT):
        if (def->i != 0) return fail_file(r, "an argument is an unknown layout");
        *out = (nx_value){.tag = NX_TAG_LAYOUT};
        return NX_OK;
    case KIND(MEMORY_FORMAT):
        if (def->i < 0 || def->i > 2) return fail_file(r, "an argument is an unknown memory format");
        *out = (nx_value){.tag = NX_TAG_MEMORY_FORMAT, .i = def->i};
        return NX_OK;
    default: return fail_file(r, "an argument has an unknown kind");
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */
static nx_status read_call(reader *r, const NodeDef *def, nx_node **out) {
    nx_value args[MAX_ARGS];
    const nx_op *op = nx_op_get(def->op);
    if (op == NULL)
        return nx_fail(NX_VALUE, "load: %s: the operator '%.200s' is unknown here", r->path, def->op);
    if (def->n_args != (size_t)op->def->n_in || def->n_args > MAX_ARGS) {
        return nx_fail(NX_VALUE, "load: %s: %s has %d arguments here and %zu in the file", r->path, def->op,
                       op->def->n_in, def->n_args);
    }
    for (size_t i = 0; i < def->n_args; i++) NX_TRY(read_value(r, def->args[i], &args[i]));
    nx_status status = nx_graph_call(r->graph, op, args, out);
    return status == NX_OK ? NX_OK : fail_inside(r, status);
}

/* A size, or what is computed of sizes, of which nothing reaches outside. */
static nx_status read_number(reader *r, const NodeDef *def, nx_node **out) {
    nx_value args[2];
    int code = nx_int_code_find(def->op);
    if (!nx_graph_is_open(r->graph) || r->graph->level != NX_GRAPH_CAPTURED)
        return fail_file(r, "a number stands in a graph without open sizes");
    if (code < 0 || code == NX_INT_OFFSET || code == NX_INT_INPUT || code == NX_INT_FLOAT)
        return fail_file(r, "a number is computed by nothing that is known here");
    if (def->n_args != (size_t)nx_int_code_n_args((nx_int_code)code)) return fail_file(r, "a number has another count of arguments");
    for (size_t i = 0; i < def->n_args; i++) NX_TRY(read_value(r, def->args[i], &args[i]));
    nx_status status = nx_graph_call_int(r->graph, (nx_int_code)code, args, out);
    return status == NX_OK ? NX_OK : fail_inside(r, status);
}

static nx_status read_node(reader *r, const ModelDef *model, const NodeDef *def, nx_node **out) {
    switch (def->kind) {
    case NODE_KIND(INPUT): return read_input(r, def, out);
    case NODE_KIND(CONSTANT): return read_constant(r, model, def, out);
    case NODE_KIND(CALL): return read_call(r, def, out);
    case NODE_KIND(NUMBER): return read_number(r, def, out);
    default: return fail_file(r, "a node has an unknown kind");
    }
}

static nx_status read_graph(reader *r, const ModelDef *model) {
    nx_node *node;
    NX_TRY(nx_graph_new(&r->graph));
    r->graph->level = model->captured ? NX_GRAPH_CAPTURED : NX_GRAPH_FUNCTIONAL;
    r->nodes = nx_arena_take(&r->arena, sizeof *r->nodes * model->n_nodes);
    nx_value *results = nx_arena_take(&r->arena, sizeof *results * model->n_results);
    if (!r->nodes || !results) return NX_NO_MEMORY;
    if (model->n_nodes > INT32_MAX / 2 || model->n_results > INT32_MAX / 2)
        return fail_file(r, "the graph is too long");
    for (; r->n_nodes < model->n_nodes; r->n_nodes++) {
        NX_TRY(read_node(r, model, model->nodes[r->n_nodes], &r->nodes[r->n_nodes]));
    }
    for (size_t i = 0; i < model->n_results; i++) NX_TRY(read_value(r, model->results[i], &results[i]));
    NX_TRY(nx_graph_append(r->graph, NX_NODE_OUTPUT, "output", NULL, NULL, results, (int)model->n_results,
                           &node));
    nx_status status = nx_graph_verify(r->graph);
    return status == NX_OK ? NX_OK : fail_inside(r, status);
}

/* ---- the plan -------------------------------------------------------------------------------- */
/* What this library planned itself it must plan again; another version may plan better. */
static nx_status check_plan(const reader *r, const ModelDef *model, const nx_program *p) {
    const PlanDef *plan = model->plan;
    if (plan == NULL) return fail_file(r, "the memory plan is missing");
    if (nx_flag.reference || strcmp(model->producer, NX__MODEL_PRODUCER) != 0) return NX_OK;
    bool same = plan->const_bytes == p->const_bytes && plan->feature_bytes == p->feature_bytes &&
                plan->n_launches == (uint32_t)p->steps.n &&
                plan->n_tile_programs == (uint32_t)p->n_tile_programs;
    size_t k = 0;
    for (int i = 0; i < p->buffers.n && same; i++) {
        const nx__buffer *buffer = &p->buffers.at[i];
        if (buffer->space != NX__FEATURE) continue;
        same = k < plan->n_buffers && plan->buffers[k]->offset == buffer->offset &&
               plan->buffers[k]->bytes == buffer->bytes;
        k++;
    }
    return same && k == plan->n_buffers ? NX_OK : fail_file(r, "the memory plan does not fit the graph");
}

/* What was measured elsewhere, or does not fit, is passed over. */
static nx_status take_measured(reader *r, const PlanDef *plan, nx_program *p) {
    size_t n = plan->n_measured;
    if (n == 0 || n != (size_t)p->steps.n) return NX_OK;
    nx__note *notes = nx_arena_take(&r->arena, sizeof *notes * n);
    int64_t *choices = nx_arena_take(&r->arena, sizeof *choices * n);
    if (!notes || !choices) return NX_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        notes[i] = (nx__note){.ns = plan->measured[i]->ns, .rule_ns = plan->measured[i]->rule_ns};
        choices[i] = plan->measured[i]->choice;
    }
    return nx__measured_take(p, plan->machine, notes, choices, (int)n);
}

/* ---- the file -------------------------------------------------------------------------------- */
static nx_status read_file(const reader *r, uint8_t **out, size_t *n) {
    struct stat about;
    uint8_t *data = NULL;
    nx_status status;
    size_t done = 0;
    int file = open(r->path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return nx_fail(NX_IO, "load: %s: cannot be opened: %s", r->path, strerror(errno));
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        status = fail_file(r, "is not a file");
        goto fail;
    }
    *n = (size_t)about.st_size;
    if ((data = nx_alloc(*n)) == NULL) {
        status = nx_fail_memory(*n);
        goto fail;
    }
    while (done < *n) {
        ssize_t part = read(file, data + done, *n - done);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) {
            status = fail_file(r, "cannot be read to its end");
            goto fail;
        }
        done += (size_t)part;
    }
    close(file);
    *out = data;
    return NX_OK;
fail:
    close(file);
    nx_free(data);
    return status;
}

static void *allocate(void *no_memory, size_t bytes) {
    void *block = nx_alloc(bytes);
    if (block == NULL) *(bool *)no_memory = true;
    return block;
}
static void release(void *no_memory, void *block) { nx_free(block); }

static nx_status unpack(const reader *r, const ProtobufCMessageDescriptor *type, const uint8_t *data,
                        size_t bytes, ProtobufCAllocator *memory, ProtobufCMessage **out) {
    *out = protobuf_c_message_unpack(type, memory, bytes, data);
    if (*out) return NX_OK;
    if (*(bool *)memory->allocator_data) return nx_fail_memory(bytes);
    return fail_file(r, "is no model file, or is cut off or damaged");
}

static nx_status load_model(nx_session *session, uint32_t id, reader *r, const ModelDef *model) {
    nx__entry *entry = NULL;
    if (nx_device_parse(model->device, &r->device) != NX_OK) return fail_inside(r, NX_VALUE);
    nx_device own = nx__session_device(session);
    if (own.type != r->device.type || own.index != r->device.index) {
        return nx_fail(NX_VALUE,
                       "load: %s: the model was compiled for '%.64s' and the session is on %s:%d: make a "
                       "session on that device",
                       r->path, model->device, nx_device_type_name(own.type), own.index);
    }
    NX_TRY(read_graph(r, model));
    nx_graph *graph = r->graph;
    r->graph = NULL;
    NX_TRY(nx__session_insert(session, id, graph));
    nx_status status = nx_session_compile_graph(session, id);
    if (status != NX_OK) status = fail_inside(r, status);
    if (status == NX_OK) status = nx__session_find(session, id, true, &entry);
    if (status == NX_OK) status = check_plan(r, model, entry->program);
    if (status == NX_OK) status = take_measured(r, model->plan, entry->program);
    /* The message of the first failure is kept: removing a graph that is there does not fail. */
    if (status != NX_OK && nx_session_remove_graph(session, id) != NX_OK) return status;
    return status;
}

nx_status nx_session_load(nx_session *session, uint32_t id, const char *path) {
    reader r = {.path = path};
    uint8_t *data = NULL;
    size_t bytes = 0;
    bool no_memory = false;
    ProtobufCAllocator memory = {allocate, release, &no_memory};
    ProtobufCMessage *file = NULL, *model = NULL;
    nx_status status;
    if (session == NULL || path == NULL) return nx_fail(NX_VALUE, "load: a session and a path are needed");
    NX_TRY(read_file(&r, &data, &bytes));
    NX_TRY_FAIL(unpack(&r, &nx__model__model_file__descriptor, data, bytes, &memory, &file));
    const ModelFile *outer = (const ModelFile *)file;
    status = NX_IO;
    if (outer->version != NX__MODEL_VERSION) {
        status = nx_fail(NX_IO, "load: %s: is version %u and this library reads %d", path, outer->version,
                         NX__MODEL_VERSION);
        goto fail;
    }
    if (outer->checksum != nx__model_checksum(outer->model.data, outer->model.len)) {
        status = fail_file(&r, "is damaged: the checksum does not fit");
        goto fail;
    }
    NX_TRY_FAIL(
        unpack(&r, &nx__model__model_def__descriptor, outer->model.data, outer->model.len, &memory, &model));
    status = load_model(session, id, &r, (const ModelDef *)model);
fail:
    if (model) protobuf_c_message_free_unpacked(model, &memory);
    if (file) protobuf_c_message_free_unpacked(file, &memory);
    nx_graph_free(r.graph);
    nx_arena_free(&r.arena);
    nx_free(data);
    return status;
}
