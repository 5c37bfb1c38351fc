/* Sizes as values. A graph that was captured with sizes that may change holds calls that read a size, compute with it and
 * check it (ints.def); their users have the node where an integer is expected. Nothing below the captured level knows them:
 * nx_graph_fit() makes, for inputs of given shapes, a graph in which every integer is a number again. Python numbers that vary are
 * such values, too: what may have one as a tensor gets it as an input.
 * In: a captured graph and fakes of its inputs. Out: a captured graph without integers as values, or NX_VALUE when a check
 * does not hold there. Next: run.c, which computes the same on the way. */
#include "ir/private.h"

#include <math.h>

static const struct { const char *target, *name; int n_args; } rows[] = {
#define NX_INT_ROW(code, target, name, n_args) [NX_INT_##code] = {target, name, n_args},
#include "ir/ints.def"
#undef NX_INT_ROW
};

void nx__node_set_int_code(nx_node *node) {
    node->int_code = -1;
    if (node->op || node->kind != NX_NODE_CALL_FUNCTION || !node->target) return;
    for (int k = 0; k < NX_COUNT(rows); k++) {
        if (strcmp(rows[k].target, node->target) == 0 && rows[k].n_args == node->n_args) node->int_code = (int8_t)k;
    }
}

int nx_int_code_find(const char *name) {
    for (int k = 0; k < NX_COUNT(rows); k++) {
        if (strcmp(rows[k].name, name) == 0) return k;
    }
    return -1;
}

const char *nx_int_code_name(nx_int_code code) { return rows[code].name; }
int nx_int_code_n_args(nx_int_code code) { return rows[code].n_args; }

nx_status nx_graph_append_int(nx_graph *graph, nx_int_code code, const nx_value *args, nx_node **out) {
    return nx_graph_append(graph, NX_NODE_CALL_FUNCTION, rows[code].name, NULL, rows[code].target, args, rows[code].n_args, out);
}

static nx_status read_tensor(nx_int_code code, const nx_value *args, nx_value *out) {
    const nx_tensor *t = args[0].tag == NX_TAG_TENSOR ? args[0].tensor : NULL;
    if (!t) return nx_fail(NX_RUNTIME, "%s: its argument is no tensor", rows[code].target);
    bool by_dim = code == NX_INT_SIZE || code == NX_INT_STRIDE;
    if (by_dim && (args[1].tag != NX_TAG_INT || args[1].i < 0 || args[1].i >= t->a.ndim)) {
        return nx_fail(NX_INDEX, "%s: a tensor of %d dimensions has no such dimension", rows[code].target, t->a.ndim);
    }
    switch (code) {
    case NX_INT_SIZE: *out = nx_value_int(t->a.sizes[args[1].i]); break;
    case NX_INT_STRIDE: *out = nx_value_int(t->a.strides[args[1].i]); break;
    case NX_INT_NUMEL: *out = nx_value_int(t->a.numel); break;
    case NX_INT_OFFSET: *out = nx_value_int(t->offset); break;
    default: *out = nx_value_int(t->a.contiguous);
    }
    return NX_OK;
}

/* As Python divides: towards minus infinity. */
static bool floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    *quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));
    *rest = a - *quotient * b;
    return true;
}

static bool compute_int(nx_int_code code, int64_t a, int64_t b, int64_t *out) {
    int64_t ignored;
    switch (code) {
    case NX_INT_ADD: return !__builtin_add_overflow(a, b, out);
    case NX_INT_SUB: return !__builtin_sub_overflow(a, b, out);
    case NX_INT_MUL: return !__builtin_mul_overflow(a, b, out);
    case NX_INT_FLOORDIV: return floor_divide(a, b, out, &ignored);
    case NX_INT_MOD: return floor_divide(a, b, &ignored, out);
    case NX_INT_NEG: return !__builtin_sub_overflow(0, a, out);
    case NX_INT_EQ: *out = a == b; return true;
    case NX_INT_NE: *out = a != b; return true;
    case NX_INT_LT: *out = a < b; return true;
    case NX_INT_LE: *out = a <= b; return true;
    case NX_INT_GT: *out = a > b; return true;
    case NX_INT_GE: *out = a >= b; return true;
    default: return false; /* the power of integers may be of any size */
    }
}

/* An integer that is exactly a float. */
static bool is_exact(int64_t i) { return i >= -(INT64_C(1) << 53) && i <= INT64_C(1) << 53; }

static bool compute_float(nx_int_code code, double a, double b, nx_value *out) {
    switch (code) {
    case NX_INT_ADD: *out = nx_value_float(a + b); return true;
    case NX_INT_SUB: *out = nx_value_float(a - b); return true;
    case NX_INT_MUL: *out = nx_value_float(a * b); return true;
    case NX_INT_TRUEDIV: *out = nx_value_float(a / b); return b != 0;
    case NX_INT_POW: *out = nx_value_float(pow(a, b)); return a > 0 && isfinite(out->f); /* else an error, or a complex number */
    case NX_INT_NEG: *out = nx_value_float(-a); return true;
    case NX_INT_EQ: *out = nx_value_int(a == b); return true;
    case NX_INT_NE: *out = nx_value_int(a != b); return true;
    case NX_INT_LT: *out = nx_value_int(a < b); return true;
    case NX_INT_LE: *out = nx_value_int(a <= b); return true;
    case NX_INT_GT: *out = nx_value_int(a > b); return true;
    case NX_INT_GE: *out = nx_value_int(a >= b); return true;
    default: return false;
    }
}

nx_status nx_int_compute(nx_int_code code, const nx_value *args, nx_value *out) {
    if (code <= NX_INT_CONTIGUOUS) return read_tensor(code, args, out);
    double real[2] = {0, 0};
    int n = rows[code].n_args;
    bool floats = code == NX_INT_TRUEDIV, exact = true;
    for (int k = 0; k < n; k++) {
        bool number = args[k].tag == NX_TAG_INT || args[k].tag == NX_TAG_FLOAT;
        if (!number) return nx_fail(NX_RUNTIME, "%s: argument %d is no number", rows[code].target, k);
        floats |= args[k].tag == NX_TAG_FLOAT;
        exact &= args[k].tag == NX_TAG_FLOAT || is_exact(args[k].i);
        real[k] = args[k].tag == NX_TAG_FLOAT ? args[k].f : (double)args[k].i;
    }
    if (code == NX_INT_INPUT || code == NX_INT_FLOAT) {
        return nx_fail(NX_NOT_IMPLEMENTED, "a graph whose numbers vary runs when it is fitted to them");
    }
    if (code == NX_INT_CHECK) {
        *out = args[0];
        return real[0] != 0 ? NX_OK : nx_fail(NX_VALUE, "a size is not what the trace went by");
    }
    int64_t i = 0;
    bool done = floats ? exact && compute_float(code, real[0], real[1], out) : compute_int(code, args[0].i, n > 1 ? args[1].i : 0, &i);
    if (done && !floats) *out = nx_value_int(i);
    return done ? NX_OK : nx_fail(NX_VALUE, "%s: %g and %g have no such result", rows[code].target, real[0], real[1]);
}

/* A list of integers for each parameter that wants one: a list that held nodes was kept as values. */
nx_status nx__ints_plain(const nx_op *op, nx_value *in, int64_t *room, int n_room) {
    for (int i = 0; i < op->def->n_in; i++) {
        nx_value *v = &in[i];
        if (op->def->params[i].type != NX_TYPE_INTS || v->tag != NX_TAG_LIST) continue;
        if (v->n > n_room) return nx_fail(NX_NOT_IMPLEMENTED, "%s: more than %d sizes that may change", op->def->name, n_room);
        for (int k = 0; k < v->n; k++) {
            if (v->list[k].tag != NX_TAG_INT) return nx_fail(NX_TYPE, "%s: a size is no integer", op->def->name);
            room[k] = v->list[k].i;
        }
        *v = nx_value_ints(room, v->n);
        room += v->n;
        n_room -= v->n;
    }
    return NX_OK;
}

/* ---- numbers as tensors -------------------------------------------------------------------------------------------- */
/* Calls that a number may reach as a tensor of no dimensions, with the same bits: their other form, and which argument is the
 * number there. `turns`: the tensor and the number change places. */
static const struct { const char *scalar, *tensor; bool turns; } forms[] = {
    {"aten::add.Scalar", "aten::add.Tensor", false}, {"aten::sub.Scalar", "aten::sub.Tensor", false},
    {"aten::mul.Scalar", "aten::mul.Tensor", false}, {"aten::div.Scalar", "aten::div.Tensor", false},
    {"aten::add_.Scalar", "aten::add_.Tensor", false}, {"aten::sub_.Scalar", "aten::sub_.Tensor", false},
    {"aten::mul_.Scalar", "aten::mul_.Tensor", false}, {"aten::div_.Scalar", "aten::div_.Tensor", false},
    {"aten::rsub.Scalar", "aten::sub.Tensor", true}, {"aten::lt.Scalar", "aten::lt.Tensor", false},
    {"aten::le.Scalar", "aten::le.Tensor", false}, {"aten::gt.Scalar", "aten::gt.Tensor", false},
    {"aten::ge.Scalar", "aten::ge.Tensor", false}};

/* Number of the form, -1: there is none. Calls that take a tensor or a number are their own other form. */
static int form_of(const nx_op *op) {
    for (int k = 0; k < NX_COUNT(forms); k++) {
        if (strcmp(op->def->name, forms[k].scalar) == 0 || strcmp(op->def->name, forms[k].tensor) == 0) return k;
    }
    return -1;
}

nx_dtype nx_number_dtype(const nx_node *node, int arg) {
    const nx_value *of = &node->args[0];
    const nx_tensor *tensor = of->tag == NX_TAG_NODE && of->n < of->node->n_results ? of->node->fakes[of->n] : NULL;
    const nx_tensor *result = node->n_results == 1 ? node->fakes[0] : NULL;
    if (!node->op || arg != 1 || !tensor || !result || form_of(node->op) < 0 || tensor->a.device.type != 0) return NX_N_DTYPES;
    nx_dtype dtype = tensor->a.dtype;
    bool keeps = result->a.dtype == dtype || result->a.dtype == NX_BOOL;
    return keeps && (dtype == NX_F32 || dtype == NX_F64) ? dtype : NX_N_DTYPES;
}

/* ---- fitting ---------------------------------------------------------------------------------------------------- */
typedef struct fit {
    const nx_fit *to;
    nx_graph *graph;  /* the new one */
    nx_map map;       /* old node -> new node; numbers are not in it */
    nx_value *ints;   /* by order: INT or FLOAT, NONE where there is none */
    nx_node **open;   /* inputs of the new graph for to->open; NULL: not made yet */
} fit;

/* As an argument of the new graph. */
static nx_status to_argument(void *context, nx_node *node, int result, nx_value *out) {
    fit *f = context;
    nx_node *copy = nx_map_get(&f->map, node);
    if (copy) *out = nx_value_node(copy, result);
    else if (f->ints[node->order].tag != NX_TAG_NONE) *out = f->ints[node->order];
    else return nx_fail(NX_RUNTIME, "graph: %s is used before it is defined", node->name);
    return NX_OK;
}

/* As what an integer is computed from. */
static nx_status to_known(void *context, nx_node *node, int result, nx_value *out) {
    NX_TRY(to_argument(context, node, result, out));
    if (out->tag == NX_TAG_NODE) *out = nx_value_tensor(out->node->fakes[out->n]);
    return NX_OK;
}

/* The failure of a check: which size it is about, where that can be said, and what the trace took for granted of it. */
static nx_status refuse(fit *f, const nx_node *check) {
    static const char *const signs[] = {[NX_INT_EQ] = "==", [NX_INT_NE] = "!=", [NX_INT_LT] = "<",
                                        [NX_INT_LE] = "<=", [NX_INT_GT] = ">",  [NX_INT_GE] = ">="};
    const nx_node *test = check->args[0].tag == NX_TAG_NODE ? check->args[0].node : NULL;
    int code = test ? nx_node_int_code(test) : -1;
    if (code < NX_INT_EQ || code > NX_INT_GE) return nx_fail(NX_VALUE, "a size is not what the trace went by");
    const nx_node *left = test->args[0].tag == NX_TAG_NODE ? test->args[0].node : NULL;
    char what[96] = "an integer";
    if (left && nx_node_int_code(left) == NX_INT_SIZE && left->args[0].tag == NX_TAG_NODE)
        snprintf(what, sizeof what, "size %lld of %s", (long long)left->args[1].i, left->args[0].node->name);
    nx_value args[2];
    NX_TRY(nx_args_resolve(test->args, test->n_args, to_known, f, args));
    char where[32] = "", numbers[2][32];
    for (int k = 0; k < 2; k++) {
        if (args[k].tag == NX_TAG_FLOAT) snprintf(numbers[k], sizeof numbers[k], "%.17g", args[k].f);
        else snprintf(numbers[k], sizeof numbers[k], "%lld", (long long)args[k].i);
    }
    if (test->source.file) snprintf(where, sizeof where, " at line %d", test->source.line);
    return nx_fail(NX_VALUE, "%s is %s, and the trace went by %s %s%s", what, numbers[0], signs[code], numbers[1], where);
}

static nx_status fit_int(fit *f, const nx_node *node, nx_int_code code) {
    nx_value args[2];
    NX_TRY(nx_args_resolve(node->args, node->n_args, to_known, f, args));
    if (code == NX_INT_INPUT || code == NX_INT_FLOAT) {
        bool known = args[0].i >= 0 && args[0].i < f->to->n_given;
        if (!known) return nx_fail(NX_RUNTIME, "graph: number %lld was not given", (long long)args[0].i);
        f->ints[node->order] = f->to->given[args[0].i];
        return NX_OK;
    }
    if (code == NX_INT_CHECK && args[0].tag == NX_TAG_INT && !args[0].i) return refuse(f, node);
    return nx_int_compute(code, args, &f->ints[node->order]);
}

static bool lies_as_wanted(const nx_node *backward, int k, const nx_tensor *gradient) {
    const nx_value *wanted = &backward->args[NX_BACKWARD_WANTED].list[k];
    return nx_same_strides(&wanted->node->fakes[wanted->n]->a, &gradient->a);
}

/* The trace knew how many results there are, of how many dimensions and of what dtype, and Python code may have asked; also whether
 * a gradient can be that of a leaf without a copy. */
static nx_status check_kinds(const nx_node *node, const nx_node *copy, const nx__fakes *fakes) {
    bool same = fakes->n == node->n_results;
    for (int k = 0; same && k < fakes->n; k++) {
        const nx_tensor *was = node->fakes[k], *is = fakes->at[k];
        same = !was || !is ? was == is : was->a.ndim == is->a.ndim && was->a.dtype == is->a.dtype;
        if (same && is && nx_op_is_backward(node->op)) same = lies_as_wanted(node, k, was) == lies_as_wanted(copy, k, is);
    }
    return same ? NX_OK : nx_fail(NX_VALUE, "%s gives results of another kind for these sizes", node->name);
}

/* The call's results. What it writes keeps its size, as the trace saw it. */
static nx_status infer(nx_node *node, nx__fakes *fakes) {
    if (nx_op_is_backward(node->op)) return nx__infer_backward(node, fakes);
    NX_TRY(nx__infer(node->op, node->args, node->n_args, fakes));
    return fakes->resized ? nx_fail(NX_VALUE, "%s resizes what it writes for these sizes", node->name) : NX_OK;
}

/* The inputs that numbers are, behind those that are tensors already. */
static nx_status make_open(fit *f) {
    if (f->open || !f->to->n_open) return NX_OK;
    if (!(f->open = nx_alloc_zeroed(sizeof *f->open * (size_t)f->to->n_open))) return nx_fail_memory(sizeof *f->open);
    for (int k = 0; k < f->to->n_open; k++) {
        char name[32];
        snprintf(name, sizeof name, "number_%d", k);
        NX_TRY(nx_graph_input_like(f->graph, name, name, f->to->inputs[f->to->n_inputs + k], &f->open[k]));
    }
    return NX_OK;
}

/* A call that has an open number as a tensor: its other form in *op and its arguments in place. */
static nx_status use_open(fit *f, const nx_node *node, nx_value *args, const nx_op **op, bool *turned) {
    const nx_value *of = node->op && node->n_args > 1 ? &node->args[1] : NULL;
    *turned = false;
    for (int k = 0; of && of->tag == NX_TAG_NODE && k < f->to->n_open; k++) {
        const nx_open_number *open = &f->to->open[k];
        if (open->node != of->node || nx_number_dtype(node, 1) != open->dtype) continue;
        int form = form_of(node->op);
        args[1] = nx_value_node(f->open[k], 0);
        *turned = forms[form].turns;
        return nx_op_find(forms[form].tensor, op);
    }
    return NX_OK;
}

/* The graph of a function's backward for the shapes of what it reads, and for its numbers: none are left. `args` are those of the
 * new call; *body is for the caller to drop. */
static nx_status fit_backward(nx_value *args, nx_value *body) {
    const nx_value *results = &args[NX_FUNCTION_RESULTS], *reads = &args[NX_FUNCTION_READS], *numbers = &args[NX_FUNCTION_NUMBERS];
    int n = results->n + reads->n;
    nx_tensor **fakes = nx_alloc(sizeof *fakes * (size_t)(n + 1));
    nx_graph *fitted = NULL;
    if (fakes == NULL) return nx_fail_memory(sizeof *fakes * (size_t)n);
    for (int k = 0; k < n; k++) {
        const nx_value *at = k < results->n ? &results->list[k] : &reads->list[k - results->n];
        fakes[k] = at->node->fakes[at->n];
    }
    const nx_fit to = {.inputs = fakes, .n_inputs = n, .given = numbers->list, .n_given = numbers->n};
    nx_status status = nx_graph_fit(nx_graph_of_value(&args[NX_FUNCTION_BACKWARD]), &to, NULL, &fitted);
    if (status == NX_OK) status = nx_value_of_graph(fitted, body);
    if (status == NX_OK) {
        args[NX_FUNCTION_BACKWARD] = *body;
        args[NX_FUNCTION_NUMBERS] = nx_value_list(NULL, 0);
    }
    nx_free(fakes);
    return status;
}

static nx_status fit_call(fit *f, const nx_node *node) {
    enum { MAX_SIZES = 64 };
    nx_value few[64], *args = few;
    int64_t sizes[MAX_SIZES];
    nx__fakes fakes = {0};
    nx_node *copy = NULL;
    nx_value body = NX_VALUE_NONE;
    const nx_op *op = node->op;
    bool turned;
    int room = nx_args_room(node->args, node->n_args);
    if (op == NULL) return nx_fail(NX_NOT_IMPLEMENTED, "graph: %s calls %s, which is no operator", node->name, node->target);
    if (room > NX_COUNT(few) && !(args = nx_alloc(sizeof *args * (size_t)room))) return nx_fail_memory(sizeof *args * (size_t)room);
    nx_status status = nx_args_resolve(node->args, node->n_args, to_argument, f, args);
    if (status == NX_OK && nx_op_is_function(op)) status = fit_backward(args, &body);
    if (status == NX_OK) status = nx__ints_plain(node->op, args, sizes, MAX_SIZES);
    if (status == NX_OK) status = use_open(f, node, args, &op, &turned);
    if (status == NX_OK && turned) {
        nx_value first = args[0];
        args[0] = args[1];
        args[1] = first;
    }
    if (status == NX_OK)
        status = nx__graph_append_named(f->graph, turned ? NX_NODE_CALL_FUNCTION : node->kind, node->name, op,
                                        turned ? "operator.sub" : node->target, args, op->def->n_in, &copy);
    if (status == NX_OK) status = infer(copy, &fakes);
    if (status == NX_OK) status = check_kinds(node, copy, &fakes);
    if (status == NX_OK) status = nx_node_set_fakes(copy, fakes.at, fakes.n);
    if (status == NX_OK) status = nx_node_set_source(copy, &node->source);
    if (status == NX_OK) status = nx_map_set(&f->map, node, copy);
    nx__fakes_end(&fakes);
    nx_value_drop(&body);
    if (args != few) nx_free(args);
    return status;
}

static nx_status fit_node(fit *f, const nx_node *node, int *n) {
    nx_node *copy;
    int code = nx_node_int_code(node);
    if (node->kind == NX_NODE_PLACEHOLDER) {
        NX_TRY(nx_graph_input_like(f->graph, node->name, node->target, f->to->inputs[(*n)++], &copy));
        return nx_map_set(&f->map, node, copy);
    }
    NX_TRY(make_open(f));
    if (code >= 0) return fit_int(f, node, (nx_int_code)code);
    bool plain = node->kind == NX_NODE_GET_ATTR || node->kind == NX_NODE_OUTPUT;
    return plain ? nx_graph_copy_node(f->graph, node, &f->map, &copy) : fit_call(f, node);
}

nx_status nx_graph_fit(const nx_graph *graph, const nx_fit *to, nx_value *values, nx_graph **out) {
    fit f = {.to = to};
    int n = 0;
    size_t bytes = sizeof *f.ints * (size_t)(graph->n_nodes + 1);
    if (to->n_inputs != graph->n_inputs) {
        return nx_fail(NX_RUNTIME, "graph: it has %d inputs, %d were given", graph->n_inputs, to->n_inputs);
    }
    nx_graph_number((nx_graph *)graph);
    if (!(f.ints = nx_alloc_zeroed(bytes))) return nx_fail_memory(bytes); /* zeroed: NONE */
    nx_status status = nx_graph_new(&f.graph);
    if (status == NX_OK) f.graph->level = graph->level;
    for (const nx_node *node = graph->first; node && status == NX_OK; node = node->next) status = fit_node(&f, node, &n);
    for (int k = 0; k < to->n_wanted && status == NX_OK; k++) values[k] = f.ints[to->wanted[k]->order];
    nx_free(f.ints);
    nx_free(f.open);
    nx_map_free(&f.map);
    if (status == NX_OK) *out = f.graph;
    else if (f.graph) nx_graph_free(f.graph);
    return status;
}
