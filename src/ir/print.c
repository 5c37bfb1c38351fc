/* A graph as text, one statement a line, that parse.c reads back:
 *     graph captured {
 *       %x = placeholder "L_x_" : f32[2, 2] cpu
 *       %k = get_attr "k" : f32[2] cpu = [0.5, 1.0]
 *       %t = method t aten::t(%x) : f32[2, 2]{1, 2} cpu  # model.py:3 in forward: return x.t() + k
 *       %add = call torch.add aten::add.Tensor(%t, %k, alpha=2) : f32[2, 2] cpu
 *       return (%add)
 *     }
 * A type is dtype[sizes]{strides, when not row-major}+offset device, "grad" when it requires grad.
 * An input of which dimensions 0 and 1 may have other sizes, 1 from 4 to 64 and there only 4 or 64, has "open(0, 1: 4..64 [4, 64])".
 * A node that is computed without gradients has "no_grad" before its kind, one of checkpoint 1 "recompute 1".
 * A graph as an argument is such a text of its own.
 * Arguments that have their default are left out. Result k > 0 of a node is %name.k. Lists of ints are [1,
 * 2], other lists (a, b). A constant of up to 64 elements on the CPU stands behind "=" (halves as their
 * bits); of a larger one only name and type are kept. */
#include "ir/private.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_INLINE = 64 };

void nx_text_float(nx_text *text, double f, bool is_single) {
    char digits[48];
    if (isnan(f) || isinf(f)) {
        nx_text_add(text, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    for (int precision = is_single ? 6 : 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, f);
        if (is_single ? strtof(digits, NULL) == (float)f : strtod(digits, NULL) == f) break;
    }
    nx_text_add(text, strpbrk(digits, ".e") ? "%s" : "%s.0", digits);
}

void nx_text_device(nx_text *text, nx_device device) {
    if (device.type == 0) nx_text_add(text, "cpu");
    else nx_text_add(text, "%s:%d", nx_device_type_name(device.type), device.index);
}

static void add_string(nx_text *text, const char *s) {
    nx_text_add(text, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') nx_text_add(text, "\\%c", *s);
        else if ((unsigned char)*s < 32 || *s == 127) nx_text_add(text, "\\x%02x", *s);
        else nx_text_add_char(text, *s);
    }
    nx_text_add(text, "\"");
}

/* A target that reads back as one word needs no quotes. */
static void add_target(nx_text *text, const char *target) {
    bool plain = (*target >= 'a' && *target <= 'z') || (*target >= 'A' && *target <= 'Z') || *target == '_';
    for (const char *c = target; *c; c++) {
        plain = plain && ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                          *c == '_' || *c == '.');
    }
    if (plain) nx_text_add(text, "%s", target);
    else add_string(text, target);
}

static void add_complex(nx_text *text, double real, double imaginary, bool is_single) {
    nx_text_add(text, "complex(");
    nx_text_float(text, real, is_single);
    nx_text_add(text, ", ");
    nx_text_float(text, imaginary, is_single);
    nx_text_add(text, ")");
}

static void add_graph(nx_text *text, const nx_graph *graph, int indent);

void nx_write_value(nx_text *text, const nx_value *v) {
    switch (v->tag) {
    case NX_TAG_INT: nx_text_add(text, "%" PRId64, v->i); break;
    case NX_TAG_FLOAT: nx_text_float(text, v->f, false); break;
    case NX_TAG_COMPLEX: add_complex(text, v->parts[0], v->parts[1], false); break;
    case NX_TAG_BOOL: nx_text_add(text, v->i ? "True" : "False"); break;
    case NX_TAG_STR: add_string(text, v->str); break;
    case NX_TAG_INTS: nx_text_add_ints(text, v->ints, v->n); break;
    case NX_TAG_DTYPE: nx_text_add(text, "%s", nx_dtype_name((nx_dtype)v->i)); break;
    case NX_TAG_DEVICE:
        nx_text_add(text, "device(");
        nx_text_device(text, v->device);
        nx_text_add(text, ")");
        break;
    case NX_TAG_LAYOUT: nx_text_add(text, "strided"); break;
    case NX_TAG_MEMORY_FORMAT:
        nx_text_add(text, "%s", nx_memory_format_name(v->i));
        break;
    case NX_TAG_GENERATOR:
        nx_text_add(text, "generator(");
        nx_text_device(text, v->generator->device);
        nx_text_add(text, ")");
        break;
    case NX_TAG_NODE:
        nx_text_add(text, "%%%s", v->node->name);
        if (v->n) nx_text_add(text, ".%d", v->n);
        break;
    case NX_TAG_LIST:
        nx_text_add(text, "(");
        for (int i = 0; i < v->n; i++) {
            if (i) nx_text_add(text, ", ");
            nx_write_value(text, &v->list[i]);
        }
        nx_text_add(text, ")");
        break;
    case NX_TAG_NONE: nx_text_add(text, "None"); break;
    case NX_TAG_GRAPH: add_graph(text, nx_graph_of_value(v), 2); break;
    default: nx_text_add(text, "opaque"); break;
    }
}

static void add_args(nx_text *text, const nx_node *node) {
    const nx_param *params = node->op ? node->op->def->params : NULL;
    int n = node->n_args, n_positional = n;
    if (params) {
        for (n_positional = 0; n_positional < n && !params[n_positional].keyword_only;) n_positional++;
        int last = n_positional;
        while (last > 0 && params[last - 1].has_initial &&
               nx_value_equal(&node->args[last - 1], &params[last - 1].initial))
            last--;
        n_positional = last;
    }
    bool comma = false;
    nx_text_add(text, "(");
    for (int i = 0; i < n; i++) {
        bool named = i >= n_positional;
        if (named && params && params[i].has_initial && nx_value_equal(&node->args[i], &params[i].initial))
            continue;
        if (comma) nx_text_add(text, ", ");
        comma = true;
        if (named && params) nx_text_add(text, "%s=", params[i].name);
        nx_write_value(text, &node->args[i]);
    }
    nx_text_add(text, ")");
}

void nx_write_layout(nx_text *text, const nx_array *a) {
    nx_meta plain = {.ndim = a->ndim};
    memcpy(plain.size, a->sizes, sizeof(int64_t) * a->ndim);
    nx_meta_contiguous(&plain);
    nx_text_add(text, "%s", nx_dtype_brief((nx_dtype)a->dtype));
    nx_text_add_ints(text, a->sizes, a->ndim);
    if (a->ndim && memcmp(plain.stride, a->strides, sizeof(int64_t) * a->ndim) != 0) {
        nx_text_add(text, "{");
        for (int d = 0; d < a->ndim; d++) nx_text_add(text, d ? ", %" PRId64 : "%" PRId64, a->strides[d]);
        nx_text_add(text, "}");
    }
}

static void add_type(nx_text *text, const nx_tensor *t) {
    nx_write_layout(text, &t->a);
    if (t->offset) nx_text_add(text, "+%" PRId64, t->offset);
    nx_text_add(text, " ");
    nx_text_device(text, t->a.device);
    if (nx_tensor_requires_grad(t)) nx_text_add(text, " grad");
}

static void add_types(nx_text *text, const nx_node *node) {
    bool known = false;
    for (int k = 0; k < node->n_results; k++) known = known || node->fakes[k];
    if (!known) return;
    bool many = node->n_results != 1 || (node->op && (node->op->def->flags & NX_OP_LIST));
    nx_text_add(text, many ? " : (" : " : ");
    for (int k = 0; k < node->n_results; k++) {
        if (k) nx_text_add(text, ", ");
        if (node->fakes[k]) add_type(text, node->fakes[k]);
        else nx_text_add(text, "none");
    }
    if (many) nx_text_add(text, ")");
}

static void add_element(nx_text *text, const nx_array *a, int64_t i) {
    switch ((nx_dtype)a->dtype) {
    case NX_BOOL: case NX_U8: nx_text_add(text, "%u", ((const uint8_t *)a->data)[i]); break;
    case NX_I8: nx_text_add(text, "%d", ((const int8_t *)a->data)[i]); break;
    case NX_I16: nx_text_add(text, "%d", ((const int16_t *)a->data)[i]); break;
    case NX_I32: nx_text_add(text, "%" PRId32, ((const int32_t *)a->data)[i]); break;
    case NX_I64: nx_text_add(text, "%" PRId64, ((const int64_t *)a->data)[i]); break;
    case NX_F32: nx_text_float(text, ((const float *)a->data)[i], true); break;
    case NX_F64: nx_text_float(text, ((const double *)a->data)[i], false); break;
    case NX_U16: nx_text_add(text, "%u", ((const uint16_t *)a->data)[i]); break;
    case NX_U32: nx_text_add(text, "%" PRIu32, ((const uint32_t *)a->data)[i]); break;
    case NX_U64: nx_text_add(text, "%" PRId64, ((const int64_t *)a->data)[i]); break; /* the bits */
    case NX_C64: add_complex(text, ((const float *)a->data)[2 * i], ((const float *)a->data)[2 * i + 1], true); break;
    case NX_C128: add_complex(text, ((const double *)a->data)[2 * i], ((const double *)a->data)[2 * i + 1], false); break;
    case NX_C32: {
        float parts[2];
        nx_cast(NX_C64, (char *)parts, 0, NX_C32, (const char *)a->data + 4 * i, 0, 1);
        add_complex(text, parts[0], parts[1], true);
        break;
    }
    case NX_F16: case NX_BF16: nx_text_add(text, "0x%04x", ((const uint16_t *)a->data)[i]); break;
    default: nx_text_add(text, "0x%02x", ((const uint8_t *)a->data)[i]); break; /* float8 */
    }
}

void nx_write_elements(nx_text *text, const nx_array *a) {
    nx_text_add(text, "[");
    for (int64_t i = 0; i < a->numel; i++) {
        if (i) nx_text_add(text, ", ");
        add_element(text, a, i);
    }
    nx_text_add(text, "]");
}

static void add_constant(nx_text *text, const nx_tensor *t) {
    const nx_array *a = &t->a;
    if (a->device.type != 0 || nx_tensor_is_fake(t) || !a->contiguous || a->numel > MAX_INLINE ||
        (a->numel && !a->data))
        return;
    nx_text_add(text, " = ");
    nx_write_elements(text, a);
}

/* On one line, whatever the user's names hold. */
static void add_plain(nx_text *text, const char *s) {
    for (; *s; s++) nx_text_add_char(text, (unsigned char)*s < 32 ? ' ' : *s);
}

static void add_source(nx_text *text, const nx_node *node) {
    if (node->source.file == NULL) return;
    nx_text_add(text, "  # ");
    add_plain(text, node->source.file);
    nx_text_add(text, ":%d", node->source.line);
    if (node->source.function) {
        nx_text_add(text, " in ");
        add_plain(text, node->source.function);
    }
    if (node->source.code) {
        nx_text_add(text, ": ");
        add_plain(text, node->source.code);
    }
}

/* " open(0, 1: 1..64 [16, 64])": dimensions that vary, with their bounds and gears. */
static void add_open(nx_text *text, const nx_node *node) {
    const char *before = " open(";
    for (int d = 0; node->varying && d < node->fakes[0]->a.ndim; d++) {
        if (!(node->varying >> d & 1)) continue;
        nx_size_range range = nx_node_range(node, d);
        nx_text_add(text, "%s%d", before, d);
        before = ", ";
        if (range.min > 0 || range.max < INT64_MAX) nx_text_add(text, ": %lld..", (long long)range.min);
        if (range.max < INT64_MAX) nx_text_add(text, "%lld", (long long)range.max);
        if (range.n_gears) nx_text_add(text, " ");
        if (range.n_gears) nx_text_add_ints(text, range.gears, range.n_gears);
    }
    if (*before == ',') nx_text_add(text, ")");
}

static const char *const kind_words[] = {
    [NX_NODE_PLACEHOLDER] = "placeholder", [NX_NODE_GET_ATTR] = "get_attr", [NX_NODE_CALL_FUNCTION] = "call",
    [NX_NODE_CALL_METHOD] = "method", [NX_NODE_CALL_MODULE] = "module", [NX_NODE_OUTPUT] = "return",
};

static void add_node(nx_text *text, const nx_node *node, int indent) {
    nx_text_add(text, "%*s", indent + 2, "");
    if (node->kind == NX_NODE_OUTPUT) {
        nx_text_add(text, "return ");
        add_args(text, node);
    } else {
        nx_text_add(text, "%%%s = ", node->name);
        if (node->source.recompute) nx_text_add(text, "recompute %d ", node->source.recompute);
        nx_text_add(text, "%s%s ", node->source.no_grad ? "no_grad " : "", kind_words[node->kind]);
        if (node->kind == NX_NODE_PLACEHOLDER || node->kind == NX_NODE_GET_ATTR) {
            add_string(text, node->target ? node->target : node->name);
        } else {
            if (node->target || node->op == NULL) add_target(text, node->target ? node->target : "");
            if (node->op) nx_text_add(text, node->target ? " %s" : "%s", node->op->def->name);
            add_args(text, node);
        }
        add_types(text, node);
        if (node->kind == NX_NODE_PLACEHOLDER && node->fakes[0]) add_open(text, node);
        if (node->constant) add_constant(text, node->constant);
    }
    add_source(text, node);
    nx_text_add(text, "\n");
}

static void add_graph(nx_text *text, const nx_graph *graph, int indent) {
    nx_text_add(text, "graph %s {\n", graph->level == NX_GRAPH_CAPTURED ? "captured" : "functional");
    for (const nx_node *node = graph->first; node; node = node->next) add_node(text, node, indent);
    nx_text_add(text, "%*s}", indent, "");
}

nx_status nx_graph_print(const nx_graph *graph, char **out) {
    nx_text text = {0};
    add_graph(&text, graph, 0);
    nx_text_add(&text, "\n");
    return nx_text_take(&text, out);
}
