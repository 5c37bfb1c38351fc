/* Runs compared with eager mode (NARTHEX_VERIFY). The graph is compiled a second time with the results of all its
 * calls as results; that and the interpreter get the same inputs, and the first call in order whose results differ
 * is named with the user's line. Where they agree, the plan itself runs and its results are compared too: it fuses
 * and shares memory as the second one does not. Random calls are not compared: the interpreter takes the numbers
 * that the compiled graph has drawn, so that each is drawn once; a graph that has such calls is not run again.
 * What must hold: elements are equal to the bit, or both NaN, or zeros of either sign. */
#include "compile/private.h"

/* ---- making ------------------------------------------------------------------------------------------- */

/* Whether a user writes over the node's result. */
typedef struct writing { const nx_node *node; bool found; } writing;
static void look_for(void *arg, nx_node *written, int result) {
    writing *w = arg;
    w->found = w->found || written == w->node;
}
static bool is_written(const nx_node *node) {
    writing w = {node, false};
    for (const nx_use *use = node->uses; use; use = use->next) nx_node_each_written(use->user, look_for, &w);
    return w.found;
}

/* Calls whose elements mean something when they are done: not views, not memory that is yet to be written. */
static bool is_compared(const nx_node *node) {
    const nx_op_def *def = node->op ? node->op->def : NULL;
    if (def == NULL || def->kind == NX_KIND_VIEW || is_written(node)) return false;
    const nx_op *empty = nx_known(NX_KNOWN_EMPTY); /* its kernel does nothing */
    return (def->kernel || def->compose) && def->kernel != empty->def->kernel;
}

static nx_status add_results(nx__check *check) {
    nx_node *output = nx_graph_output_node(check->graph);
    NX_VEC(nx_value) results = {0};
    nx_status status = NX_OK;
    for (int i = 0; i < output->n_args; i++) NX_TRY_FAIL(nx_vec_push(&results, output->args[i]));
    check->n_results = results.n;
    for (nx_node *node = check->graph->first; node; node = node->next) {
        check->draws = check->draws || nx_node_draws(node);
        for (int k = 0; k < node->n_results && is_compared(node); k++) {
            if (node->fakes[k]) NX_TRY_FAIL(nx_vec_push(&results, nx_value_node(node, k)));
        }
    }
    check->n_all = results.n;
    status = nx_node_set_args(output, results.at, results.n);
fail:
    nx_vec_free(&results);
    return status;
}

nx_status nx__check_new(const nx_graph *graph, nx_mode mode, nx_device device, nx__check **out) {
    nx_status status;
    nx__check *check = nx_alloc_zeroed(sizeof *check);
    if (check == NULL) return nx_fail_memory(sizeof *check);
    NX_TRY_FAIL(nx_graph_copy(graph, &check->graph));
    NX_TRY_FAIL(add_results(check));
    NX_TRY_FAIL(nx__plan_new_unchecked(check->graph, NULL, NULL, mode, device, &check->all));
    *out = check;
    return NX_OK;
fail:
    nx__check_free(check);
    return status;
}

void nx__check_free(nx__check *check) {
    if (check == NULL) return;
    nx__plan_free(check->all);
    nx_graph_free(check->graph);
    nx_free(check);
}

/* ---- comparing ---------------------------------------------------------------------------------------- */
/* Row-major on the CPU; floating types as float64, which has all their numbers. */
static nx_status to_host(nx_tensor *tensor, nx_tensor **out) {
    bool is_float = nx_is_differentiable((nx_dtype)tensor->a.dtype);
    nx_value in[] = {nx_value_tensor(tensor), is_float ? nx_value_dtype(NX_F64) : NX_VALUE_NONE, NX_VALUE_NONE,
                     nx_value_device(NX_CPU), NX_VALUE_NONE, nx_value_bool(false),
                     {.tag = NX_TAG_MEMORY_FORMAT, .i = 0}}, result = NX_VALUE_NONE;
    NX_TRY(nx_op_call(nx_known(NX_KNOWN_CAST), in, &result));
    *out = result.tensor;
    return NX_OK;
}

static int64_t first_difference(const nx_array *a, const nx_array *b) {
    size_t bytes = nx_dtype_bytes((nx_dtype)a->dtype);
    bool is_float = a->dtype == NX_F64;
    for (int64_t i = 0; i < a->numel; i++) {
        const char *x = (const char *)a->data + (size_t)i * bytes, *y = (const char *)b->data + (size_t)i * bytes;
        double p, q;
        if (memcmp(x, y, bytes) == 0) continue;
        if (!is_float) return i;
        memcpy(&p, x, sizeof p);
        memcpy(&q, y, sizeof q);
        if (p != q && !(p != p && q != q)) return i;
    }
    return -1;
}

static void add_place(nx_text *text, const nx_array *a, int64_t i) {
    int64_t index[NX_MAX_DIMS];
    for (int d = a->ndim - 1; d >= 0; i /= a->sizes[d--]) index[d] = i % a->sizes[d];
    nx_text_add_ints(text, index, a->ndim);
    nx_text_add(text, " of ");
    nx_text_add_ints(text, a->sizes, a->ndim);
}

static void add_element(nx_text *text, const nx_array *a, int64_t i) {
    int64_t whole = 0;
    if (a->dtype == NX_F64) {
        nx_text_add(text, "%.9g", ((const double *)a->data)[i]);
        return;
    }
    size_t bytes = nx_dtype_bytes((nx_dtype)a->dtype); /* little-endian: the low bytes first */
    memcpy(&whole, (const char *)a->data + (size_t)i * bytes, bytes);
    int shift = (int)(64 - 8 * bytes);
    nx_text_add(text, "%lld", (long long)((int64_t)((uint64_t)whole << shift) >> shift));
}

static nx_status fail_difference(const nx__plan *plan, const nx_node *node, const char *which, const nx_array *is,
                                 const nx_array *should, int64_t i) {
    nx_text text = {0};
    nx_text_add(&text, "%s, %s%s%s (%s) is not what eager mode gives: element ",
                plan->replay ? "reduce-overhead" : "max-autotune", which, *which ? " of " : "", node->name,
                node->op ? node->op->def->name : "an input");
    add_place(&text, is, i);
    nx_text_add(&text, " is ");
    add_element(&text, is, i);
    nx_text_add(&text, ", not ");
    add_element(&text, should, i);
    if (node->source.file) nx_text_add(&text, "; %s:%d in %s: %s", node->source.file, node->source.line,
                                node->source.function ? node->source.function : "?", node->source.code ? node->source.code : "");
    nx_status status = nx_fail(NX_RUNTIME, "NARTHEX_VERIFY: %s", text.failed ? node->name : text.at);
    nx_text_free(&text);
    return status;
}

static nx_status compare(const nx__plan *plan, const nx_value *value, const char *which, nx_tensor *is,
                         nx_tensor *should) {
    nx_tensor *mine = NULL, *eager = NULL;
    nx_status status;
    if (is == NULL || should == NULL) {
        if (is == should) return NX_OK;
        return nx_fail(NX_RUNTIME, "NARTHEX_VERIFY: %s has no result in one of both modes", value->node->name);
    }
    NX_TRY_FAIL(to_host(is, &mine));
    NX_TRY_FAIL(to_host(should, &eager));
    bool same = mine->a.ndim == eager->a.ndim && mine->a.dtype == eager->a.dtype;
    for (int d = 0; same && d < mine->a.ndim; d++) same = mine->a.sizes[d] == eager->a.sizes[d];
    if (!same)
        NX_TRY_FAIL(nx_fail(NX_RUNTIME, "NARTHEX_VERIFY: %s has another shape or dtype than in eager mode",
                            value->node->name));
    int64_t at = first_difference(&mine->a, &eager->a);
    if (at >= 0) status = fail_difference(plan, value->node, which, &mine->a, &eager->a, at);
fail:
    nx_tensor_unref(mine);
    nx_tensor_unref(eager);
    return status;
}

/* ---- running ------------------------------------------------------------------------------------------ */
typedef struct run_record {
    const nx__check *check;
    nx_tensor **compiled, **eager; /* n_all results each; owned */
} run_record;

static nx_status give_drawn(void *context, const nx_node *node, nx_tensor **values, bool *given) {
    const run_record *r = context;
    const nx_value *results = nx_graph_output_node(r->check->graph)->args;
    if (!nx_node_draws(node)) return NX_OK;
    for (int i = r->check->n_results; i < r->check->n_all; i++) {
        if (results[i].node != node || r->compiled[i] == NULL) continue;
        values[results[i].n] = nx_tensor_ref(r->compiled[i]);
        *given = true;
    }
    return NX_OK;
}

static nx_status compare_all(const run_record *r) {
    const nx__check *check = r->check;
    const nx_value *results = nx_graph_output_node(check->graph)->args;
    for (int k = 0; k < check->n_all; k++) { /* the calls in order, then the graph's own results */
        int i = k < check->n_all - check->n_results ? check->n_results + k : k - (check->n_all - check->n_results);
        NX_TRY(compare(check->all, &results[i], "", r->compiled[i], r->eager[i]));
    }
    return NX_OK;
}

/* The plan as it is; its results are compared with eager mode's. */
static nx_status run_plan(const run_record *r, const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **out) {
    const nx_value *results = nx_graph_output_node(r->check->graph)->args;
    NX_TRY(nx__plan_run_unchecked(plan, inputs, out));
    nx_status status = NX_OK;
    for (int i = 0; i < plan->n_results && status == NX_OK; i++) {
        nx__result from = plan->results[i];
        if (from.origin != NX__FROM_COMPUTED) continue;
        status = compare(plan, &results[from.index], "though no call alone differs, the result", out[i],
                         r->eager[from.index]);
    }
    for (int i = 0; i < plan->n_results && status != NX_OK; i++) {
        nx_tensor_unref(out[i]);
        out[i] = NULL;
    }
    return status;
}

static void hand_out(const run_record *r, const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **out) {
    for (int i = 0; i < plan->n_results; i++) {
        nx__result from = plan->results[i];
        nx_tensor *result = from.origin == NX__FROM_INPUT ? inputs[from.index]
            : from.origin == NX__FROM_COMPUTED ? r->compiled[from.index] : NULL;
        out[i] = result ? nx_tensor_ref(result) : NULL;
    }
}

nx_status nx__check_run(const nx__check *check, const nx__plan *plan, nx_tensor *const *inputs, nx_tensor **out) {
    size_t n = (size_t)check->n_all;
    nx_status status;
    run_record r = {.check = check, .compiled = nx_alloc_zeroed(2 * sizeof *r.compiled * (n + 1))};
    if (r.compiled == NULL) return nx_fail_memory(2 * sizeof *r.compiled * (n + 1));
    r.eager = r.compiled + n;
    NX_TRY_FAIL(nx__plan_run_unchecked(check->all, inputs, r.compiled));
    NX_TRY_FAIL(nx_graph_run_given(check->graph, inputs, plan->n_inputs, give_drawn, &r, r.eager, check->n_all));
    NX_TRY_FAIL(compare_all(&r));
    if (check->draws) hand_out(&r, plan, inputs, out);
    else status = run_plan(&r, plan, inputs, out);
fail:
    for (size_t i = 0; i < 2 * n; i++) nx_tensor_unref(r.compiled[i]);
    nx_free(r.compiled);
    return status;
}
