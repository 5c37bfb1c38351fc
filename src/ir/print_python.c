/* A graph as the Python function that FX would print: placeholders, the user's lines as comments, one
 * assignment a node, names set to None behind their last use. `shapes`: annotations like "f32[2, 2]".
 * Captured calls print as the user wrote them (functions, methods, operators), functional ones as
 * torch.ops.aten.NAME.OVERLOAD. Only for people: nothing reads it back (print.c writes the text that
 * does). */
#include "ir/private.h"

#include <inttypes.h>

typedef struct printer {
    nx_text text;
    bool shapes, source_lines;
    const char *file;          /* of the comment printed last */
    int line;
    nx_node **last_use;        /* of the node at `order`; NULL: unused */
} printer;

typedef struct form { const char *name, *format; } form; /* %0 and %1 are the arguments */
static const form operators[] = {
    {"add", "%0 + %1"},       {"sub", "%0 - %1"},     {"mul", "%0 * %1"},  {"truediv", "%0 / %1"},
    {"floordiv", "%0 // %1"}, {"mod", "%0 % %1"},     {"pow", "%0 ** %1"}, {"matmul", "%0 @ %1"},
    {"lshift", "%0 << %1"},   {"rshift", "%0 >> %1"}, {"and_", "%0 & %1"}, {"or_", "%0 | %1"},
    {"xor", "%0 ^ %1"},       {"eq", "%0 == %1"},     {"ne", "%0 != %1"},  {"lt", "%0 < %1"},
    {"gt", "%0 > %1"},        {"le", "%0 <= %1"},     {"ge", "%0 >= %1"},  {"getitem", "%0[%1]"},
    {"pos", "+%0"},           {"neg", "-%0"},         {"invert", "~%0"},
};
static const form inplace_operators[] = {
    {"iadd", "%0 += %1"},       {"isub", "%0 -= %1"},     {"imul", "%0 *= %1"},  {"itruediv", "%0 /= %1"},
    {"ifloordiv", "%0 //= %1"}, {"imod", "%0 %= %1"},     {"ipow", "%0 **= %1"}, {"imatmul", "%0 @= %1"},
    {"ilshift", "%0 <<= %1"},   {"irshift", "%0 >>= %1"}, {"iand", "%0 &= %1"},  {"ior", "%0 |= %1"},
    {"ixor", "%0 ^= %1"},
};

static const char *find_form(const form *forms, int n, const char *target) {
    if (target == NULL || strncmp(target, "operator.", 9) != 0) return NULL;
    for (int i = 0; i < n; i++) {
        if (strcmp(forms[i].name, target + 9) == 0) return forms[i].format;
    }
    return NULL;
}

static void add_string(nx_text *text, const char *s) {
    char quote = strchr(s, '\'') && !strchr(s, '"') ? '"' : '\'';
    nx_text_add_char(text, quote);
    for (; *s; s++) {
        if (*s == quote || *s == '\\') nx_text_add(text, "\\%c", *s);
        else if (*s == '\n') nx_text_add(text, "\\n");
        else if ((unsigned char)*s < 32 || *s == 127) nx_text_add(text, "\\x%02x", *s);
        else nx_text_add_char(text, *s);
    }
    nx_text_add_char(text, quote);
}

static bool is_sequence(const nx_node *node) {
    return node->n_results > 1 || (node->op && (node->op->def->flags & NX_OP_LIST));
}

static void add_value(nx_text *text, const nx_value *v) {
    switch (v->tag) {
    case NX_TAG_STR: add_string(text, v->str); break;
    case NX_TAG_FLOAT: nx_text_float(text, v->f, false); break;
    case NX_TAG_NODE:
        nx_text_add(text, is_sequence(v->node) ? "%s[%d]" : "%s", v->node->name, v->n);
        break;
    case NX_TAG_DEVICE:
        nx_text_add(text, "device(type='%s'", nx_device_type_name(v->device.type));
        if (v->device.type) nx_text_add(text, ", index=%d", v->device.index);
        nx_text_add(text, ")");
        break;
    case NX_TAG_LIST:
        nx_text_add(text, "[");
        for (int i = 0; i < v->n; i++) {
            if (i) nx_text_add(text, ", ");
            add_value(text, &v->list[i]);
        }
        nx_text_add(text, "]");
        break;
    default: nx_value_text(v, text);
    }
}

/* Arguments from `first` on; those that have their default are left out as far as that can be read back. */
static void add_args(nx_text *text, const nx_node *node, int first) {
    const nx_param *params = node->op ? node->op->def->params : NULL;
    int n_positional = node->n_args;
    bool comma = false;
    while (params && n_positional > 0) {
        const nx_param *p = &params[n_positional - 1];
        if (!p->keyword_only &&
            !(p->has_initial && nx_value_equal(&node->args[n_positional - 1], &p->initial)))
            break;
        n_positional--;
    }
    for (int i = first; i < node->n_args; i++) {
        bool named = i >= n_positional;
        if (named && params[i].has_initial && nx_value_equal(&node->args[i], &params[i].initial)) continue;
        if (comma) nx_text_add(text, ", ");
        comma = true;
        if (named) nx_text_add(text, "%s = ", params[i].name);
        add_value(text, &node->args[i]);
    }
}

static void add_form(nx_text *text, const char *format, const nx_node *node) {
    for (const char *c = format; *c; c++) {
        if (*c == '%' && (c[1] == '0' || c[1] == '1')) add_value(text, &node->args[*++c - '0']);
        else nx_text_add_char(text, *c);
    }
}

static void add_annotation(printer *p, const nx_tensor *fake) {
    if (!p->shapes || fake == NULL) return;
    nx_text_add(&p->text, ": \"%s", nx_dtype_brief((nx_dtype)fake->a.dtype));
    nx_text_add_ints(&p->text, fake->a.sizes, fake->a.ndim);
    nx_text_add(&p->text, "\"");
}

static void add_name(printer *p, const nx_node *node) {
    nx_text_add(&p->text, "%s", node->name);
    if (node->n_results == 1 && !is_sequence(node)) add_annotation(p, node->fakes[0]);
    nx_text_add(&p->text, " = ");
}

/* aten::add.Tensor -> torch.ops.aten.add.Tensor; aten::mm -> torch.ops.aten.mm.default */
static void add_op_name(nx_text *text, const char *name) {
    const char *rest = strstr(name, "::");
    int n_space = rest ? (int)(rest - name) : 0;
    rest = rest ? rest + 2 : name;
    nx_text_add(text, "torch.ops.%.*s%s%s%s", n_space, name, n_space ? "." : "", rest,
                strchr(rest, '.') ? "" : ".default");
}

static void add_call(printer *p, const nx_node *node) {
    nx_text *text = &p->text;
    const char *infix = find_form(operators, NX_COUNT(operators), node->target);
    const char *inplace = find_form(inplace_operators, NX_COUNT(inplace_operators), node->target);
    if (inplace && node->n_args >= 2) {
        add_form(text, inplace, node);
        nx_text_add(text, ";  ");
        add_name(p, node);
        add_value(text, &node->args[0]);
        return;
    }
    add_name(p, node);
    if (infix && node->n_args >= (strstr(infix, "%1") ? 2 : 1)) {
        add_form(text, infix, node);
        return;
    }
    bool method = node->kind == NX_NODE_CALL_METHOD && node->n_args > 0;
    if (method) {
        add_value(text, &node->args[0]);
        nx_text_add(text, ".");
    }
    if (node->kind == NX_NODE_CALL_MODULE) nx_text_add(text, "self.");
    if (node->target) nx_text_add(text, "%s", node->target);
    else if (node->op) add_op_name(text, node->op->def->name);
    nx_text_add(text, "(");
    add_args(text, node, method ? 1 : 0);
    nx_text_add(text, ")");
}

static void add_source(printer *p, const nx_node *node, bool first) {
    bool same = p->file && node->source.file && strcmp(p->file, node->source.file) == 0 && p->line == node->source.line;
    if (!p->source_lines || node->source.file == NULL || same) return;
    p->file = node->source.file;
    p->line = node->source.line;
    nx_text_add(&p->text, "%s    # File: %s:%d", first ? "" : "\n", node->source.file, node->source.line);
    if (node->source.function) nx_text_add(&p->text, " in %s", node->source.function);
    if (node->source.code) nx_text_add(&p->text, ", code: %s", node->source.code);
    nx_text_add(&p->text, "\n");
}

typedef struct ender { printer *printer; const nx_node *node; bool any; } ender;

/* Names whose last use this node is, each once, in the order of its arguments. */
static void end_input(void *arg, nx_node *input, int result) {
    ender *end = arg;
    if (end->printer->last_use[input->order] != end->node) return;
    end->printer->last_use[input->order] = NULL;
    nx_text_add(&end->printer->text, end->any ? "%s = " : ";  %s = ", input->name);
    end->any = true;
}

static void add_ends(printer *p, const nx_node *node) {
    ender end = {.printer = p, .node = node};
    nx_node_each_input(node, end_input, &end);
    if (node->uses == NULL) nx_text_add(&p->text, end.any ? "%s = " : ";  %s = ", node->name);
    if (end.any || node->uses == NULL) nx_text_add(&p->text, "None");
}

static bool is_renamed(const nx_node *node) { return node->target && strcmp(node->target, node->name) != 0; }

static void add_signature(printer *p, const nx_graph *graph) {
    nx_text_add(&p->text, "def forward(self");
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->kind != NX_NODE_PLACEHOLDER) continue;
        nx_text_add(&p->text, ", %s", is_renamed(node) ? node->target : node->name);
        if (p->shapes) add_annotation(p, node->fakes[0]);
        else if (graph->level == NX_GRAPH_CAPTURED) nx_text_add(&p->text, " : torch.Tensor");
    }
    nx_text_add(&p->text, "):\n");
}

/* As dynamo's graphs have it: the mode is set where it changes. */
static void add_grad_mode(printer *p, const nx_node *node, bool *no_grad) {
    bool now = node->source.no_grad && node->kind != NX_NODE_OUTPUT;
    if (now == *no_grad || node->graph->level != NX_GRAPH_CAPTURED) return;
    *no_grad = now;
    nx_text_add(&p->text, "    _set_grad_enabled = torch._C._set_grad_enabled(%s);  _set_grad_enabled = None\n", now ? "False" : "True");
}

static void add_body(printer *p, const nx_graph *graph) {
    bool first = true, no_grad = false;
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (node->kind == NX_NODE_PLACEHOLDER) {
            if (is_renamed(node)) nx_text_add(&p->text, "    %s = %s\n", node->name, node->target);
            first = first && !is_renamed(node);
            continue;
        }
        add_grad_mode(p, node, &no_grad);
        if (node->kind == NX_NODE_OUTPUT) {
            nx_text_add(&p->text, "    return (");
            add_args(&p->text, node, 0);
            nx_text_add(&p->text, node->n_args == 1 ? ",)\n" : ")\n");
            continue;
        }
        add_source(p, node, first);
        first = false;
        nx_text_add(&p->text, "    ");
        if (node->kind == NX_NODE_GET_ATTR) {
            add_name(p, node);
            nx_text_add(&p->text, "self.%s", node->target ? node->target : node->name);
        } else {
            add_call(p, node);
        }
        add_ends(p, node);
        nx_text_add(&p->text, "\n");
    }
}

typedef struct finder { nx_node **last_use; nx_node *user; } finder;
static void note_use(void *arg, nx_node *input, int result) {
    const finder *find = arg;
    find->last_use[input->order] = find->user;
}

nx_status nx_graph_print_python(const nx_graph *graph, bool shapes, bool source_lines, char **out) {
    printer p = {.shapes = shapes, .source_lines = source_lines};
    size_t bytes = sizeof(nx_node *) * (size_t)(graph->n_nodes + 1);
    nx_graph_number((nx_graph *)graph);
    p.last_use = nx_alloc_zeroed(bytes);
    if (p.last_use == NULL) return nx_fail_memory(bytes);
    for (nx_node *node = graph->first; node; node = node->next)
        nx_node_each_input(node, note_use, &(finder){p.last_use, node});
    add_signature(&p, graph);
    add_body(&p, graph);
    if (graph->n_nodes == graph->n_inputs) nx_text_add(&p.text, "    pass\n");
    nx_free(p.last_use);
    return nx_text_take(&p.text, out);
}
