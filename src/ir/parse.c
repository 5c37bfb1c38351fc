/* The text of print.c read back: nx_graph_parse. In: any text at all. Out: a graph whose nodes are defined
 * before use and whose operator calls have fitting arguments, or an error with line and column. Levels and
 * shapes are not checked here: nx_graph_verify does that. A "#" begins a comment; behind a statement it is
 * taken for the user's line when it reads "FILE:LINE in FUNCTION: CODE". Arguments may be left out where
 * the schema has a default, and named. */
#include "ir/private.h"

#include <ctype.h>
#include <stdlib.h>

enum { MAX_NODES = 1 << 20, MAX_RESULTS = 1024 };

static char *copy_range(const char *begin, const char *end) {
    char *copy = nx_alloc((size_t)(end - begin) + 1);
    if (copy == NULL) {
        nx_fail_memory((size_t)(end - begin) + 1);
        return NULL;
    }
    memcpy(copy, begin, (size_t)(end - begin));
    copy[end - begin] = '\0';
    return copy;
}

static const char *find_text(const char *begin, const char *end, const char *what) {
    size_t n = strlen(what);
    for (const char *at = begin; at + n <= end; at++) {
        if (memcmp(at, what, n) == 0) return at;
    }
    return NULL;
}

/* "FILE:LINE", then " in FUNCTION", then ": CODE", the last two optional. */
static nx_status read_source(nx_node *node, const char *begin, const char *end) {
    const char *colon = NULL, *after = NULL;
    int line = 0;
    for (const char *at = begin; at < end && after == NULL; at++) {
        if (*at != ':' || at == begin || !isdigit((unsigned char)at[1])) continue;
        const char *digit = at + 1;
        for (line = 0; isdigit((unsigned char)*digit) && line < 100000000; digit++)
            line = 10 * line + (*digit - '0');
        if (digit == end || *digit == ':' || (end - digit > 4 && memcmp(digit, " in ", 4) == 0))
            colon = at, after = digit;
    }
    if (after == NULL) return NX_OK;
    const char *function = after < end && *after == ' ' ? after + 4 : NULL;
    const char *code = find_text(after, end, ": "), *function_end = code ? code : end;
    nx_status status = NX_NO_MEMORY;
    char *file_text = copy_range(begin, colon), *function_text = NULL, *code_text = NULL;
    if (file_text == NULL || (function && (function_text = copy_range(function, function_end)) == NULL))
        goto fail;
    if (code && (code_text = copy_range(code + 2, end)) == NULL) goto fail;
    nx_source source = node->source;
    source.file = file_text;
    source.line = line;
    source.function = function_text;
    source.code = code_text;
    status = nx_node_set_source(node, &source);
fail:
    nx_free(file_text);
    nx_free(function_text);
    nx_free(code_text);
    return status;
}

/* The end of a statement: its source, then the newline. */
static nx_status end_statement(nx_reader *r, nx_node *node) {
    nx_read_spaces(r);
    if (*r->at == '#') {
        const char *begin = r->at + 1;
        if (*begin == ' ') begin++;
        nx_read_line(r);
        const char *end = r->at;
        if (begin < end) NX_TRY(read_source(node, begin, end));
    }
    if (*r->at != '\n' && *r->at != '\0' && *r->at != '}')
        return nx_read_error(r, r->at, "the end of the line is expected here");
    return NX_OK;
}

/* ---- arguments ---- */
typedef NX_VEC(nx_value) values;

static void free_values(values *args) {
    for (int i = 0; i < args->n; i++) nx_value_drop(&args->at[i]);
    nx_vec_free(args);
}

static nx_status push_value(values *args, nx_value value) {
    nx_status status = nx_vec_push(args, value);
    if (status != NX_OK) nx_value_drop(&value);
    return status;
}

/* "name=" before a value; `at` is -1 when there is none. */
static nx_status read_keyword(nx_reader *r, const nx_op *op, int *at) {
    nx_word word;
    nx_reader mark = *r;
    *at = -1;
    if (!nx_read_peek(r)) return NX_OK;
    NX_TRY(nx_read_word(r, false, &word));
    if (!nx_read_accept(r, '=')) {
        *r = mark;
        return NX_OK;
    }
    for (int i = 0; op && i < op->def->n_in; i++) {
        if (strcmp(op->def->params[i].name, word.at) == 0) *at = i;
    }
    nx_read_spaces(&mark);
    return *at < 0 ? nx_read_error(r, mark.at, "there is no argument '%s'", word.at) : NX_OK;
}

/* All parameters of `op` in schema order; what is not given has its default. */
static nx_status read_op_args(nx_reader *r, const nx_op *op, values *args) {
    const nx_op_def *def = op->def;
    bool given[64] = {0};
    int next = 0;
    const char *begin = r->at;
    if (def->n_in > NX_COUNT(given)) return nx_read_error(r, begin, "%s has too many parameters", def->name);
    for (int i = 0; i < def->n_in; i++) NX_TRY(push_value(args, NX_VALUE_NONE));
    NX_TRY(nx_read_expect(r, '('));
    if (!nx_read_accept(r, ')')) {
        do {
            int at;
            NX_TRY(read_keyword(r, op, &at));
            bool named = at >= 0;
            if (!named) at = next++;
            if (at >= def->n_in || (!named && def->params[at].keyword_only))
                return nx_read_error(r, r->at, "%s takes no more positional arguments", def->name);
            if (given[at])
                return nx_read_error(r, r->at, "argument '%s' is given twice", def->params[at].name);
            given[at] = true;
            NX_TRY(nx_read_value(r, &args->at[at]));
            nx_value *v = &args->at[at];
            if (def->params[at].type == NX_TYPE_FLOAT && v->tag == NX_TAG_INT)
                *v = nx_value_float((double)v->i);
        } while (nx_read_accept(r, ','));
        NX_TRY(nx_read_expect(r, ')'));
    }
    for (int i = 0; i < def->n_in; i++) {
        if (given[i]) continue;
        if (!def->params[i].has_initial)
            return nx_read_error(r, begin, "%s: argument '%s' is missing", def->name, def->params[i].name);
        NX_TRY(nx_value_keep(&def->params[i].initial, &args->at[i]));
    }
    if (nx_args_check(op, args->at, args->n, NX_TAG_NODE) != NX_OK)
        return nx_read_error(r, begin, "%s", nx_error_message());
    return NX_OK;
}

static nx_status read_args(nx_reader *r, values *args) {
    nx_value value;
    NX_TRY(nx_read_expect(r, '('));
    if (nx_read_accept(r, ')')) return NX_OK;
    do {
        NX_TRY(nx_read_value(r, &value));
        NX_TRY(push_value(args, value));
    } while (nx_read_accept(r, ','));
    return nx_read_expect(r, ')');
}

/* ---- statements ---- */
static nx_status read_types(nx_reader *r, nx_node *node) {
    nx_tensor *fakes[MAX_RESULTS] = {0};
    int n = 0;
    nx_status status = NX_OK;
    if (!nx_read_accept(r, ':')) return NX_OK;
    bool many = nx_read_accept(r, '(');
    const char *begin = r->at;
    if (!(many && nx_read_accept(r, ')'))) {
        do {
            nx_word word;
            nx_reader mark = *r;
            if (n == MAX_RESULTS)
                NX_TRY_FAIL(nx_read_error(r, r->at, "a node has at most %d results", MAX_RESULTS));
            NX_TRY_FAIL(nx_read_word(r, false, &word));
            if (!many || strcmp(word.at, "none") != 0) {
                *r = mark;
                NX_TRY_FAIL(nx_read_type(r, &fakes[n]));
            }
            n++;
        } while (many && nx_read_accept(r, ','));
        if (many) NX_TRY_FAIL(nx_read_expect(r, ')'));
    }
    if (node->op ? !nx__count_fits(node->op, n) : !many && n != 1)
        NX_TRY_FAIL(nx_read_error(r, begin, "%%%s has %d results", node->name, node->n_results));
    status = nx_node_set_fakes(node, fakes, n);
fail:
    for (int i = 0; i < n + 1 && i < MAX_RESULTS; i++) nx_tensor_unref(fakes[i]);
    return status;
}

static nx_status read_attribute(nx_reader *r, nx_node *node) {
    if (!nx_read_accept(r, '=')) return NX_OK;
    if (node->fakes[0] == NULL) return nx_read_error(r, r->at, "a constant needs its type before its value");
    NX_TRY(nx_read_constant(r, &node->fakes[0]->a, &node->constant));
    return nx_node_set_fakes(node, &node->constant, 1);
}

static nx_status read_op(nx_reader *r, const nx_op **op) {
    nx_word word;
    nx_read_spaces(r);
    const char *begin = r->at;
    NX_TRY(nx_read_word(r, true, &word));
    *op = nx_op_get(word.at);
    return *op ? NX_OK : nx_read_error(r, begin, "there is no operator %s", word.at);
}

/* "[target] [operator](arguments)" */
static nx_status read_call(nx_reader *r, char **target, const nx_op **op, values *args) {
    nx_read_spaces(r);
    if (*r->at == '"') {
        NX_TRY(nx_read_string(r, target));
    } else {
        nx_word word;
        nx_reader mark = *r;
        NX_TRY(nx_read_word(r, true, &word));
        if (strstr(word.at, "::")) *r = mark;
        else if ((*target = nx_strdup(word.at)) == NULL) return nx_fail_memory(sizeof word);
    }
    if (nx_read_peek(r)) NX_TRY(read_op(r, op));
    return *op ? read_op_args(r, *op, args) : read_args(r, args);
}

static nx_status add_node(nx_reader *r, nx_node_kind kind, const char *name, const nx_op *op,
                          const char *target, const values *args, const char *begin, nx_node **out) {
    nx_node *node;
    if (r->graph->n_nodes >= MAX_NODES)
        return nx_read_error(r, begin, "a graph has at most %d nodes", MAX_NODES);
    if (nx_graph_find(r->graph, name)) return nx_read_error(r, begin, "%%%s is defined twice", name);
    NX_TRY(nx__graph_append_named(r->graph, kind, name, op, target, args->at, args->n, &node));
    *out = node;
    return NX_OK;
}

/* One dimension of "open(0, 1: 4..64 [4, 64])". */
static nx_status read_open_size(nx_reader *r, nx_node *node) {
    int64_t dim, gears[NX_MAX_GEARS];
    nx_size_range range = {0, INT64_MAX, gears, 0};
    const char *begin = r->at;
    NX_TRY(nx_read_int(r, &dim));
    if (dim < 0 || dim >= node->fakes[0]->a.ndim) return nx_read_error(r, begin, "%%%s has no such dimension", node->name);
    if (nx_read_accept(r, ':')) {
        NX_TRY(nx_read_int(r, &range.min));
        NX_TRY(nx_read_expect(r, '.'));
        NX_TRY(nx_read_expect(r, '.'));
        if (*r->at >= '0' && *r->at <= '9') NX_TRY(nx_read_int(r, &range.max));
        if (nx_read_accept(r, '[')) NX_TRY(nx_read_ints(r, ']', gears, NX_MAX_GEARS, &range.n_gears));
    }
    return nx_size_range_is_sane(&range) ? nx_node_open_size(node, (int)dim, &range)
                                         : nx_read_error(r, begin, "bounds and gears must rise, none below 0");
}

static nx_status read_open(nx_reader *r, nx_node *node) {
    nx_word word;
    const char *mark = r->at;
    if (!node->fakes[0] || !nx_read_peek(r) || nx_read_word(r, false, &word) != NX_OK || strcmp(word.at, "open") != 0) {
        r->at = mark;
        return NX_OK;
    }
    NX_TRY(nx_read_expect(r, '('));
    do NX_TRY(read_open_size(r, node));
    while (nx_read_accept(r, ','));
    return nx_read_expect(r, ')');
}

static nx_status read_definition(nx_reader *r) {
    static const struct { const char *word; nx_node_kind kind; } kinds[] = {
        {"placeholder", NX_NODE_PLACEHOLDER}, {"get_attr", NX_NODE_GET_ATTR}, {"call", NX_NODE_CALL_FUNCTION},
        {"method", NX_NODE_CALL_METHOD}, {"module", NX_NODE_CALL_MODULE},
    };
    nx_word name, word;
    char *target = NULL;
    const nx_op *op = NULL;
    values args = {0};
    nx_node *node;
    const char *begin = r->at;
    nx_status status;
    int k = 0;
    NX_TRY(nx_read_expect(r, '%'));
    NX_TRY(nx_read_word(r, false, &name));
    NX_TRY(nx_read_expect(r, '='));
    NX_TRY(nx_read_word(r, false, &word));
    int64_t recompute = 0;
    if (strcmp(word.at, "recompute") == 0) {
        NX_TRY(nx_read_int(r, &recompute));
        if (recompute < 0 || recompute > INT32_MAX) return nx_read_error(r, begin, "there is no checkpoint of that number");
        NX_TRY(nx_read_word(r, false, &word));
    }
    bool no_grad = strcmp(word.at, "no_grad") == 0;
    if (no_grad) NX_TRY(nx_read_word(r, false, &word));
    while (k < NX_COUNT(kinds) && strcmp(kinds[k].word, word.at) != 0) k++;
    if (k == NX_COUNT(kinds))
        return nx_read_error(r, begin, "'%s' is none of placeholder, get_attr, call, method, module",
                              word.at);
    bool leaf = kinds[k].kind == NX_NODE_PLACEHOLDER || kinds[k].kind == NX_NODE_GET_ATTR;
    NX_TRY_FAIL(leaf ? nx_read_string(r, &target) : read_call(r, &target, &op, &args));
    NX_TRY_FAIL(add_node(r, kinds[k].kind, name.at, op, target, &args, begin, &node));
    node->source.no_grad = no_grad;
    node->source.recompute = (int)recompute;
    NX_TRY_FAIL(read_types(r, node));
    if (kinds[k].kind == NX_NODE_GET_ATTR) NX_TRY_FAIL(read_attribute(r, node));
    if (kinds[k].kind == NX_NODE_PLACEHOLDER) NX_TRY_FAIL(read_open(r, node));
    NX_TRY_FAIL(end_statement(r, node));
fail:
    nx_free(target);
    free_values(&args);
    return status;
}

static nx_status read_return(nx_reader *r) {
    values args = {0};
    nx_node *node;
    const char *begin = r->at;
    nx_status status;
    NX_TRY_FAIL(read_args(r, &args));
    NX_TRY_FAIL(add_node(r, NX_NODE_OUTPUT, "output", NULL, NULL, &args, begin, &node));
    NX_TRY_FAIL(end_statement(r, node));
fail:
    free_values(&args);
    return status;
}

static nx_status read_statements(nx_reader *r) {
    nx_word word;
    const char *begin = r->at;
    NX_TRY(nx_read_word(r, false, &word));
    if (strcmp(word.at, "functional") == 0) r->graph->level = NX_GRAPH_FUNCTIONAL;
    else if (strcmp(word.at, "captured") != 0)
        return nx_read_error(r, begin, "the level '%s' is neither captured nor functional", word.at);
    NX_TRY(nx_read_expect(r, '{'));
    for (nx_read_blank(r); *r->at != '}'; nx_read_blank(r)) {
        if (*r->at == '%') {
            NX_TRY(read_definition(r));
            continue;
        }
        begin = r->at;
        NX_TRY(nx_read_word(r, false, &word));
        if (strcmp(word.at, "return") != 0)
            return nx_read_error(r, begin, "'%s' begins no statement", word.at);
        NX_TRY(read_return(r));
    }
    r->at++;
    return NX_OK;
}

nx_status nx__read_graph(nx_reader *r, nx_graph **out) {
    nx_graph *outer = r->graph;
    r->graph = NULL;
    nx_status status = nx_graph_new(&r->graph);
    if (status == NX_OK) status = read_statements(r);
    if (status == NX_OK) *out = r->graph;
    else nx_graph_free(r->graph);
    r->graph = outer;
    return status;
}

static nx_status read_text(nx_reader *r, nx_graph **out) {
    nx_word word;
    nx_read_blank(r);
    const char *begin = r->at;
    NX_TRY(nx_read_word(r, false, &word));
    if (strcmp(word.at, "graph") != 0)
        return nx_read_error(r, begin, "a text begins with 'graph captured {' or 'graph functional {'");
    NX_TRY(nx__read_graph(r, out));
    nx_read_blank(r);
    if (*r->at == '\0') return NX_OK;
    nx_graph_free(*out);
    return nx_read_error(r, r->at, "nothing may follow the closing brace");
}

nx_status nx_graph_parse(const char *text, nx_graph **out) {
    if (text == NULL || out == NULL) return nx_fail(NX_VALUE, "graph text: a text is needed");
    nx_reader r = {.what = "graph", .at = text, .line_start = text, .line = 1};
    return read_text(&r, out);
}
