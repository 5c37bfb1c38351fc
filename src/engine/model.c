/* Model files, writing: a compiled graph with its constants and its memory plan as a ModelDef (model.proto).
 * Written beside the target and renamed, so that a reader sees the whole file or the old one. Next:
 * model_read.c. */
#include "engine/model.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

uint64_t nx__model_checksum(const void *data, size_t bytes) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

typedef struct writer {
    nx_arena arena;
    const nx_program *program;
    nx_graph *graph;
    ModelDef model;
} writer;

/* ---- values ---------------------------------------------------------------------------------- */
static char *device_text(writer *w, nx_device device) {
    enum { ROOM = 64 };
    char *text = nx_arena_take(&w->arena, ROOM);
    if (text == NULL) return NULL;
    if (device.type == 0) snprintf(text, ROOM, "cpu");
    else snprintf(text, ROOM, "%s:%d", nx_device_type_name(device.type), device.index);
    return text;
}

static nx_status write_item(const nx_value *from, ItemDef *to) {
    nx__model__item_def__init(to);
    switch (from->tag) {
    case NX_TAG_NONE: to->kind = KIND(NONE); return NX_OK;
    case NX_TAG_INT: to->kind = KIND(INT); to->i = from->i; return NX_OK;
    case NX_TAG_BOOL: to->kind = KIND(BOOL); to->i = from->i; return NX_OK;
    case NX_TAG_FLOAT: to->kind = KIND(FLOAT); to->f = from->f; return NX_OK;
    case NX_TAG_NODE:
        to->kind = KIND(NODE);
        to->node = (uint32_t)from->node->order;
        to->result = (uint32_t)from->n;
        return NX_OK;
    default: return nx_fail(NX_NOT_IMPLEMENTED, "save: a list holds a value that model files do not have");
    }
}

static nx_status write_list(writer *w, const nx_value *from, ValueDef *to) {
    ItemDef *items = nx_arena_take(&w->arena, sizeof *items * (size_t)from->n);
    to->kind = KIND(LIST);
    to->items = nx_arena_take(&w->arena, sizeof *to->items * (size_t)from->n);
    if (!items || !to->items) return NX_NO_MEMORY;
    to->n_items = (size_t)from->n;
    for (int i = 0; i < from->n; i++) {
        NX_TRY(write_item(&from->list[i], &items[i]));
        to->items[i] = &items[i];
    }
    return NX_OK;
}

static nx_status write_value(writer *w, const nx_value *from, ValueDef *to) {
    nx__model__value_def__init(to);
    switch (from->tag) {
    case NX_TAG_NONE: to->kind = KIND(NONE); return NX_OK;
    case NX_TAG_INT: to->kind = KIND(INT); to->i = from->i; return NX_OK;
    case NX_TAG_BOOL: to->kind = KIND(BOOL); to->i = from->i; return NX_OK;
    case NX_TAG_FLOAT: to->kind = KIND(FLOAT); to->f = from->f; return NX_OK;
    case NX_TAG_LAYOUT: to->kind = KIND(LAYOUT); to->i = from->i; return NX_OK;
    case NX_TAG_MEMORY_FORMAT: to->kind = KIND(MEMORY_FORMAT); to->i = from->i; return NX_OK;
    case NX_TAG_STR: to->kind = KIND(STR); to->text = (char *)from->str; return NX_OK;
    case NX_TAG_DTYPE:
        to->kind = KIND(DTYPE);
        to->text = (char *)nx_dtype_name((nx_dtype)from->i);
        return NX_OK;
    case NX_TAG_DEVICE:
        to->kind = KIND(DEVICE);
        to->text = device_text(w, from->device);
        return to->text ? NX_OK : NX_NO_MEMORY;
    case NX_TAG_INTS:
        to->kind = KIND(INTS);
        to->n_ints = (size_t)from->n;
        to->ints = (int64_t *)from->ints;
        return NX_OK;
    case NX_TAG_NODE:
        to->kind = KIND(NODE);
        to->node = (uint32_t)from->node->order;
        to->result = (uint32_t)from->n;
        return NX_OK;
    case NX_TAG_LIST: return write_list(w, from, to);
    default:
        return nx_fail(NX_NOT_IMPLEMENTED,
                       "save: the graph holds a tensor, generator or object that is no node");
    }
}

static nx_status write_values(writer *w, const nx_value *from, int n, size_t *n_out, ValueDef ***out) {
    ValueDef *values = nx_arena_take(&w->arena, sizeof *values * (size_t)n);
    *out = nx_arena_take(&w->arena, sizeof **out * (size_t)n);
    if (!values || !*out) return NX_NO_MEMORY;
    *n_out = (size_t)n;
    for (int i = 0; i < n; i++) {
        NX_TRY(write_value(w, &from[i], &values[i]));
        (*out)[i] = &values[i];
    }
    return NX_OK;
}

static TypeDef *write_type(writer *w, const nx_array *a) {
    TypeDef *type = nx_arena_take(&w->arena, sizeof *type);
    int64_t *dims = nx_arena_take(&w->arena, 2 * sizeof *dims * a->ndim);
    if (!type || !dims) return NULL;
    nx__model__type_def__init(type);
    type->dtype = (char *)nx_dtype_name(a->dtype);
    type->n_sizes = type->n_strides = a->ndim;
    type->sizes = memcpy(dims, a->sizes, sizeof *dims * a->ndim);
    type->strides = memcpy(dims + a->ndim, a->strides, sizeof *dims * a->ndim);
    type->device = device_text(w, a->device);
    return type->device ? type : NULL;
}

/* The dimensions of an input that are open. */
static nx_status write_open(writer *w, const nx_node *node, TypeDef *type) {
    size_t ndim = node->fakes[0]->a.ndim;
    if (node->varying == 0) return NX_OK;
    OpenDef *open = nx_arena_take(&w->arena, sizeof *open * ndim);
    type->open = nx_arena_take(&w->arena, sizeof *type->open * ndim);
    if (!open || !type->open) return NX_NO_MEMORY;
    for (size_t d = 0; d < ndim; d++) {
        if (!(node->varying >> d & 1)) continue;
        nx_size_range range = nx_node_range(node, (int)d);
        OpenDef *to = &open[type->n_open];
        nx__model__open_def__init(to);
        to->dim = (uint32_t)d;
        to->min = range.min;
        to->max = range.max;
        to->n_gears = (size_t)range.n_gears;
        to->gears = (int64_t *)range.gears;
        type->open[type->n_open++] = to;
    }
    return NX_OK;
}

/* ---- parts ----------------------------------------------------------------------------------- */
static nx_status write_constant_data(writer *w, nx_tensor *tensor, ConstDef *to) {
    nx_meta meta;
    nx_meta_of(&tensor->a, &meta);
    to->data.len = nx_meta_bytes(&meta);
    if (tensor->a.device.type == 0) {
        to->data.data = tensor->a.data;
        return NX_OK;
    }
    if ((to->data.data = nx_arena_take(&w->arena, to->data.len)) == NULL) return NX_NO_MEMORY;
    nx_tensor *row = NULL, *host = NULL;
    nx_status status;
    nx_meta flat = {.dtype = meta.dtype,
                    .device = meta.device,
                    .ndim = 1,
                    .view_of = -1,
                    .offset = tensor->offset};
    flat.size[0] = (int64_t)(to->data.len / nx_dtype_bytes(meta.dtype));
    flat.stride[0] = 1;
    NX_TRY_FAIL(nx_tensor_new_view(tensor->storage, &flat, NX_DEVICE_KEY(meta.device), NULL, &row));
    NX_TRY_FAIL(nx_tensor_from_memory(to->data.data, meta.dtype, 1, flat.size, NULL, NULL, NULL, &host));
    NX_TRY_FAIL(nx_device_copy(host, row));
fail:
    nx_tensor_unref(row);
    nx_tensor_unref(host);
    return status;
}

static nx_status write_node(writer *w, const nx_node *node, NodeDef *to) {
    ModelDef *model = &w->model;
    nx__model__node_def__init(to);
    if (node->kind == NX_NODE_PLACEHOLDER) {
        to->kind = NODE_KIND(INPUT);
        to->name = node->name;
        if ((to->type = write_type(w, &node->fakes[0]->a)) == NULL) return NX_NO_MEMORY;
        return write_open(w, node, to->type);
    }
    if (node->kind != NX_NODE_GET_ATTR) {
        int code = nx_node_int_code(node);
        if (node->op == NULL && code < 0)
            return nx_fail(NX_NOT_IMPLEMENTED, "save: %s calls %s, which is no operator", node->name,
                           node->target ? node->target : "nothing");
        to->kind = node->op ? NODE_KIND(CALL) : NODE_KIND(NUMBER);
        to->op = (char *)(node->op ? nx_op_name(node->op) : nx_int_code_name((nx_int_code)code));
        return write_values(w, node->args, node->n_args, &to->n_args, &to->args);
    }
    if (node->constant == NULL) return nx_fail(NX_RUNTIME, "save: %s has no value", node->name);
    ConstDef *constant = nx_arena_take(&w->arena, sizeof *constant);
    if (constant == NULL) return NX_NO_MEMORY;
    nx__model__const_def__init(constant);
    to->kind = NODE_KIND(CONSTANT);
    to->name = node->name;
    to->constant = (uint32_t)model->n_constants;
    model->constants[model->n_constants++] = constant;
    if ((constant->type = write_type(w, &node->constant->a)) == NULL) return NX_NO_MEMORY;
    return write_constant_data(w, node->constant, constant);
}

static nx_status write_measured(writer *w, PlanDef *plan) {
    const nx_program *p = w->program;
    size_t n = (size_t)p->steps.n;
    if (p->notes == NULL) return NX_OK;
    MeasuredDef *measured = nx_arena_take(&w->arena, sizeof *measured * n);
    plan->measured = nx_arena_take(&w->arena, sizeof *plan->measured * n);
    plan->machine = nx_arena_take(&w->arena, NX__MACHINE_ROOM);
    if (!measured || !plan->measured || !plan->machine) return NX_NO_MEMORY;
    nx__machine_name(plan->machine, NX__MACHINE_ROOM);
    for (size_t i = 0; i < n; i++) {
        nx__model__measured_def__init(&measured[i]);
        measured[i].choice = p->steps.at[i].tile ? p->steps.at[i].tile->elements : 0;
        measured[i].ns = p->notes[i].ns;
        measured[i].rule_ns = p->notes[i].rule_ns;
        plan->measured[i] = &measured[i];
    }
    plan->n_measured = n;
    return NX_OK;
}

static nx_status write_plan(writer *w) {
    const nx_program *p = w->program;
    PlanDef *plan = nx_arena_take(&w->arena, sizeof *plan);
    BufferDef *buffers = nx_arena_take(&w->arena, sizeof *buffers * (size_t)p->buffers.n);
    BufferDef **list = nx_arena_take(&w->arena, sizeof *list * (size_t)p->buffers.n);
    if (!plan || !buffers || !list) return NX_NO_MEMORY;
    nx__model__plan_def__init(plan);
    plan->const_bytes = p->const_bytes;
    plan->feature_bytes = p->feature_bytes;
    plan->n_launches = (uint32_t)p->steps.n;
    plan->n_tile_programs = (uint32_t)p->n_tile_programs;
    plan->buffers = list;
    for (int i = 0; i < p->buffers.n; i++) {
        const nx__buffer *buffer = &p->buffers.at[i];
        if (buffer->space != NX__FEATURE) continue;
        BufferDef *to = &buffers[plan->n_buffers];
        nx__model__buffer_def__init(to);
        to->offset = buffer->offset;
        to->bytes = buffer->bytes;
        to->first = (uint32_t)buffer->first;
        to->last = (uint32_t)buffer->last;
        list[plan->n_buffers++] = to;
    }
    w->model.plan = plan;
    return write_measured(w, plan);
}

static nx_status write_model(writer *w) {
    ModelDef *model = &w->model;
    size_t n = (size_t)w->graph->n_nodes;
    nx__model__model_def__init(model);
    nx_graph_number(w->graph);
    NodeDef *nodes = nx_arena_take(&w->arena, sizeof *nodes * n);
    model->nodes = nx_arena_take(&w->arena, sizeof *model->nodes * n);
    model->constants = nx_arena_take(&w->arena, sizeof *model->constants * n);
    model->captured = w->graph->level == NX_GRAPH_CAPTURED;
    model->device = device_text(w, w->program->device);
    if (!nodes || !model->nodes || !model->constants || !model->device) return NX_NO_MEMORY;
    model->producer = (char *)NX__MODEL_PRODUCER;
    for (const nx_node *node = w->graph->first; node; node = node->next) {
        if (node->kind == NX_NODE_OUTPUT) {
            NX_TRY(write_values(w, node->args, node->n_args, &model->n_results, &model->results));
            continue;
        }
        NX_TRY(write_node(w, node, &nodes[model->n_nodes]));
        model->nodes[model->n_nodes] = &nodes[model->n_nodes];
        model->n_nodes++;
    }
    return write_plan(w);
}

/* ---- the file -------------------------------------------------------------------------------- */
static nx_status fail_file(const char *path, const char *what) {
    return nx_fail(NX_IO, "save: %s: %s: %s", path, what, strerror(errno));
}

static nx_status write_all(int file, const char *path, const uint8_t *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t done = write(file, data, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return fail_file(path, "cannot be written");
        data += done;
        bytes -= (size_t)done;
    }
    return fsync(file) == 0 || errno == EINVAL ? NX_OK : fail_file(path, "cannot be written");
}

/* A name that no other writer has: the process and a count. */
static int open_beside(const char *path, char *beside, size_t room) {
    static atomic_uint count;
    snprintf(beside, room, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&count, 1));
    return open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static nx_status replace_file(const char *path, const uint8_t *data, size_t bytes) {
    size_t room = strlen(path) + 64;
    char *beside = nx_alloc(room);
    if (beside == NULL) return nx_fail_memory(room);
    int file = open_beside(path, beside, room);
    if (file < 0) {
        nx_status status = fail_file(path, "cannot be created");
        nx_free(beside);
        return status;
    }
    nx_status status = write_all(file, path, data, bytes);
    if (close(file) != 0 && status == NX_OK) status = fail_file(path, "cannot be written");
    if (status == NX_OK && rename(beside, path) != 0) status = fail_file(path, "cannot be replaced");
    if (status != NX_OK) unlink(beside);
    nx_free(beside);
    return status;
}

static nx_status pack(const ProtobufCMessage *message, uint8_t **data, size_t *bytes) {
    *bytes = protobuf_c_message_get_packed_size(message);
    *data = nx_alloc(*bytes);
    if (*data == NULL) return nx_fail_memory(*bytes);
    protobuf_c_message_pack(message, *data);
    return NX_OK;
}

static nx_status save_entry(nx__entry *entry, const char *path) {
    uint8_t *inner = NULL, *outer = NULL;
    size_t bytes;
    nx_status status;
    ModelFile file;
    writer w = {.program = entry->program, .graph = entry->graph};
    NX_TRY_FAIL(write_model(&w));
    nx__model__model_file__init(&file);
    file.version = NX__MODEL_VERSION;
    NX_TRY_FAIL(pack(&w.model.base, &inner, &file.model.len));
    file.model.data = inner;
    file.checksum = nx__model_checksum(inner, file.model.len);
    NX_TRY_FAIL(pack(&file.base, &outer, &bytes));
    status = replace_file(path, outer, bytes);
fail:
    nx_free(inner);
    nx_free(outer);
    nx_arena_free(&w.arena);
    return status;
}

nx_status nx_session_save(nx_session *session, uint32_t id, const char *path) {
    nx__entry *entry = NULL;
    if (path == NULL) return nx_fail(NX_VALUE, "save: no path was given");
    NX_TRY(nx__session_find(session, id, true, &entry));
    NX_TRY(nx__session_hold(entry));
    nx_status status = nx__shapes_choose_sizes(entry, nx__session_device(session), NULL); /* the file tells the example's plan */
    if (status == NX_OK) status = save_entry(entry, path);
    nx__session_give(entry);
    return status;
}
