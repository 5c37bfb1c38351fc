/* Runs the rows of pass.def over a graph. When NARTHEX_VERIFY_GRAPHS is set, the graph is verified before
 * and after each pass and the pass's claims are checked, so that the pass that broke something is named. */
#include "pass/private.h"

enum { FUNCTIONAL = 1, ANY = 2 };
enum { RESULTS = 1, RANDOM = 2 };

static const struct {
    char letter;
    const char *name;
    int needs, keeps;
    nx_status (*run)(nx_graph *);
} passes[] = {
#define NX_PASS_ROW(letter, name, needs, keeps, text) {letter, #name, needs, keeps, nx_pass_##name},
#include "pass/pass.def"
#undef NX_PASS_ROW
};

/* What a pass claims to keep, as text that can be compared. */
static nx_status describe(const nx_graph *graph, int keeps, char **out) {
    nx_text text = {0};
    const nx_node *output = nx_graph_output_node(graph);
    for (int i = 0; output && i < output->n_args && keeps & RESULTS; i++) {
        const nx_value *v = &output->args[i];
        const nx_tensor *fake = v->tag == NX_TAG_NODE ? v->node->fakes[v->n] : NULL;
        nx_text_add(&text, "result %d ", i);
        if (fake == NULL) continue;
        nx_text_add(&text, "%s", nx_dtype_brief((nx_dtype)fake->a.dtype));
        nx_text_add_ints(&text, fake->a.sizes, fake->a.ndim);
        nx_text_add_ints(&text, fake->a.strides, fake->a.ndim);
    }
    for (const nx_node *node = graph->first; node; node = node->next) {
        if (keeps & RANDOM && node->op && node->op->def->flags & NX_OP_RANDOM)
            nx_text_add(&text, "; random %s", node->name);
    }
    return nx_text_take(&text, out);
}

static nx_status run_checked(int i, nx_graph *graph) {
    char *before = NULL, *after = NULL;
    nx_status status;
    NX_TRY_FAIL(nx_graph_verify(graph));
    NX_TRY_FAIL(describe(graph, passes[i].keeps, &before));
    NX_TRY_FAIL(passes[i].run(graph));
    NX_TRY_FAIL(nx_graph_verify(graph));
    NX_TRY_FAIL(describe(graph, passes[i].keeps, &after));
    if (strcmp(before, after) != 0)
        status = nx_fail(NX_RUNTIME, "results or random operators changed from '%s' to '%s'", before, after);
fail:
    nx_free(before);
    nx_free(after);
    if (status == NX_OK || status == NX_NO_MEMORY) return status;
    return nx_fail(status, "pass %s: %s", passes[i].name, nx_error_message());
}

nx_status nx_pass_run(nx_graph *graph, const char *letters) {
    for (const char *c = letters ? letters : ""; *c; c++) {
        bool known = false;
        for (int i = 0; i < NX_COUNT(passes); i++) known = known || passes[i].letter == *c;
        if (!known) return nx_fail(NX_VALUE, "passes: there is no pass '%c'", *c);
    }
    for (int i = 0; i < NX_COUNT(passes); i++) {
        if (letters && strchr(letters, passes[i].letter) == NULL) continue;
        if (passes[i].needs == FUNCTIONAL && graph->level != NX_GRAPH_FUNCTIONAL)
            return nx_fail(NX_RUNTIME, "pass %s: it needs a functional graph, functionalise it first",
                           passes[i].name);
        NX_TRY(nx_flag.verify ? run_checked(i, graph) : passes[i].run(graph));
    }
    return NX_OK;
}
