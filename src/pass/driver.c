/* The gate that every pass goes through: whether it runs, how long it takes, and whether it holds what its row of pass.def says.
 * NARTHEX_PASSES: items with commas between. skip=NAME leaves a pass out, stop=NAME all optional ones behind it, bisect=N all
 * optional runs of the process after the first N and tells which the N-th is, times prints what each took when the process ends.
 * When NARTHEX_VERIFY_GRAPHS is set, the graph is verified before and after each pass and its claims are checked, so
 * that the pass that broke something is named. */
#include "pass/private.h"

#include <pthread.h>
#include <stdlib.h>

enum { FUNCTIONAL, ANY, ROUGH };
enum { RESULTS = 1, RANDOM = 2, ALL = 4, LEAVES_ROUGH = 8 };
enum { ALWAYS, OPTIONAL, LOOP };
typedef enum pass_id {
#define NX_PASS_ROW(letter, name, when, needs, keeps, text) PASS_##name,
#include "pass/pass.def"
#undef NX_PASS_ROW
    N_PASSES
} pass_id;

static const struct { char letter; const char *name; int when, needs, keeps; } passes[] = {
#define NX_PASS_ROW(letter, name, when, needs, keeps, text) {letter, #name, when, needs, keeps},
#include "pass/pass.def"
#undef NX_PASS_ROW
};

/* ---- what NARTHEX_PASSES asks for --------------------------------------------------------------------- */
static struct {
    bool left_out[N_PASSES], times;
    long most;               /* optional runs; -1: all */
    char wrong[160];         /* why it says nothing; empty: it does */
} asked = {.most = -1};
static struct { _Atomic int64_t runs, nanoseconds; } spent[N_PASSES];
static _Atomic long n_runs;

static int find_pass(const char *name, size_t length) {
    for (int i = 0; i < N_PASSES; i++) {
        if (strlen(passes[i].name) == length && strncmp(passes[i].name, name, length) == 0) return i;
    }
    return -1;
}

static bool read_item(const char *item, size_t length) {
    const char *value = memchr(item, '=', length);
    if (value == NULL) return length == 5 && strncmp(item, "times", 5) == 0 ? (asked.times = true) : false;
    size_t name = (size_t)(value - item), rest = length - name - 1;
    int pass = find_pass(++value, rest);
    if (name == 4 && strncmp(item, "skip", 4) == 0 && pass >= 0 && passes[pass].when != ALWAYS) return asked.left_out[pass] = true;
    if (name == 4 && strncmp(item, "stop", 4) == 0 && pass >= 0) {
        for (int i = pass + 1; i < N_PASSES; i++) asked.left_out[i] = passes[i].when != ALWAYS;
        return true;
    }
    char *end;
    if (name != 6 || strncmp(item, "bisect", 6) != 0 || rest == 0) return false;
    asked.most = strtol(value, &end, 10);
    return end == value + rest && asked.most >= 0;
}

static void print_times(void) {
    for (int i = 0; i < N_PASSES; i++) {
        double milliseconds = (double)atomic_load(&spent[i].nanoseconds) / 1e6;
        fprintf(stderr, "pass %-13s %8lld runs %12.3f ms\n", passes[i].name, (long long)atomic_load(&spent[i].runs), milliseconds);
    }
}

static void read_asked(void) {
    for (const char *item = nx_flag.passes; item;) {
        size_t length = strcspn(item, ",");
        if (length && !read_item(item, length)) {
            snprintf(asked.wrong, sizeof asked.wrong, "NARTHEX_PASSES: '%.*s' is none of skip=NAME (of a pass that may be left out), "
                     "stop=NAME, bisect=NUMBER, times", (int)(length < 40 ? length : 40), item);
        }
        item = item[length] ? item + length + 1 : NULL;
    }
    if (asked.times && !asked.wrong[0]) atexit(print_times);
}

static nx_status choose(pass_id id, const nx_graph *graph, bool *runs) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *runs = true;
    if (NX_LIKELY(nx_flag.passes == NULL)) return NX_OK;
    pthread_once(&once, read_asked);
    if (asked.wrong[0]) return nx_fail(NX_VALUE, "%s", asked.wrong);
    *runs = !asked.left_out[id];
    if (!*runs || passes[id].when == ALWAYS || asked.most < 0) return NX_OK;
    long n = atomic_fetch_add(&n_runs, 1) + 1;
    *runs = n <= asked.most;
    if (n == asked.most) fprintf(stderr, "NARTHEX_PASSES: run %ld is %s, of a graph of %d nodes\n", n, passes[id].name, graph->n_nodes);
    return NX_OK;
}

/* ---- the gate ----------------------------------------------------------------------------------------- */
/* What a pass claims to keep, as text that can be compared. */
static nx_status describe(const nx_graph *graph, int keeps, char **out) {
    nx_text text = {0};
    if (keeps & ALL) return nx_graph_print(graph, out);
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
        if (keeps & RANDOM && nx_node_draws(node))
            nx_text_add(&text, "; random %s", node->name);
    }
    return nx_text_take(&text, out);
}

typedef struct gate {
    pass_id id;
    bool runs;
    int64_t start;
    char *before;            /* what the pass claims to keep, when graphs are verified */
} gate;

static nx_status name_pass(const gate *g, nx_status status) {
    if (status == NX_OK || status == NX_NO_MEMORY || !nx_flag.verify) return status;
    return nx_fail(status, "pass %s: %s", passes[g->id].name, nx_error_message());
}

static nx_status enter(pass_id id, const nx_graph *graph, gate *g) {
    *g = (gate){.id = id};
    NX_TRY(choose(id, graph, &g->runs));
    if (!g->runs) return NX_OK;
    if (passes[id].needs == FUNCTIONAL && graph->level != NX_GRAPH_FUNCTIONAL)
        return nx_fail(NX_RUNTIME, "pass %s: it needs a functional graph, functionalise it first", passes[id].name);
    nx_status status = nx_flag.verify && passes[id].needs != ROUGH ? nx_graph_verify(graph) : NX_OK;
    if (status == NX_OK && nx_flag.verify) status = describe(graph, passes[id].keeps, &g->before);
    if (NX_UNLIKELY(asked.times)) g->start = nx_now();
    return name_pass(g, status);
}

static nx_status leave(gate *g, const nx_graph *graph, nx_status status) {
    char *after = NULL;
    if (NX_UNLIKELY(asked.times)) {
        atomic_fetch_add(&spent[g->id].nanoseconds, nx_now() - g->start);
        atomic_fetch_add(&spent[g->id].runs, 1);
    }
    bool is_rough = passes[g->id].keeps & LEAVES_ROUGH;
    if (status == NX_OK && nx_flag.verify && !is_rough) status = nx_graph_verify(graph);
    if (status == NX_OK && nx_flag.verify) status = describe(graph, passes[g->id].keeps, &after);
    if (after && strcmp(g->before, after) != 0)
        status = nx_fail(NX_RUNTIME, "results or random operators changed from '%s' to '%s'", g->before, after);
    nx_free(after);
    nx_free(g->before);
    return name_pass(g, status);
}

#define THROUGH_GATE(name, graph, call)              \
    do {                                             \
        gate g;                                      \
        NX_TRY(enter(PASS_##name, graph, &g));       \
        if (g.runs) return leave(&g, graph, (call)); \
    } while (0)

nx_status nx__functionalise(nx_graph *graph, nx__aliases *aliases) {
    THROUGH_GATE(functionalise, graph, nx__do_functionalise(graph, aliases));
    return NX_OK;
}

nx_status nx_pass_functionalise(nx_graph *graph) { return nx__functionalise(graph, NULL); }

static nx_status split(const nx_graph *joint, int n_inputs, int n_forward, nx_graph **forward, nx_graph **backward, int *n_saved) {
    NX_TRY(nx__do_split(joint, n_inputs, n_forward, forward, backward, n_saved));
    nx_status status = nx_flag.verify ? nx_graph_verify(*forward) : NX_OK;
    if (status == NX_OK && nx_flag.verify) status = nx_graph_verify(*backward);
    if (status == NX_OK) return NX_OK;
    nx_graph_free(*forward);
    nx_graph_free(*backward);
    *forward = *backward = NULL;
    return status;
}

nx_status nx_pass_split(const nx_graph *joint, int n_inputs, int n_forward, nx_graph **forward, nx_graph **backward,
                        int *n_saved) {
    THROUGH_GATE(split, joint, split(joint, n_inputs, n_forward, forward, backward, n_saved));
    return NX_OK;
}

nx_status nx_pass_fold(nx_graph *graph) {
    THROUGH_GATE(fold, graph, nx__do_fold(graph));
    return NX_OK;
}

nx_status nx_pass_cse(nx_graph *graph) {
    THROUGH_GATE(cse, graph, nx__do_cse(graph));
    return NX_OK;
}

nx_status nx_pass_dce(nx_graph *graph) {
    THROUGH_GATE(dce, graph, nx__do_dce(graph));
    return NX_OK;
}

nx_status nx_pass_place(nx_graph *graph, nx_device device) {
    if (device.type == 0) return NX_OK;
    THROUGH_GATE(place, graph, nx__do_place(graph, device));
    return NX_OK;
}

nx_status nx_pass_demand(nx_graph *graph) {
    THROUGH_GATE(demand, graph, nx__do_demand(graph));
    return NX_OK;
}

nx_status nx_pass_follow(nx_graph *graph) {
    THROUGH_GATE(follow, graph, nx__do_follow(graph));
    return NX_OK;
}

nx_status nx_pass_fuse(nx_graph *graph, nx_regions *out) {
    *out = (nx_regions){0};
    THROUGH_GATE(fuse, graph, nx__do_fuse(graph, out));
    return NX_OK;
}

nx_status nx_pass_reinplace(const nx_graph *graph, const int *result_of, uint8_t *reuse) {
    memset(reuse, NX_REUSE_NONE, (size_t)graph->n_nodes);
    THROUGH_GATE(reinplace, graph, nx__do_reinplace(graph, result_of, reuse));
    return NX_OK;
}

nx_status nx_pass_plan(const nx_graph *graph, nx_status (*make)(void *program, bool shares), void *program) {
    THROUGH_GATE(plan, graph, make(program, true));
    return make(program, false);
}

/* ---- several ------------------------------------------------------------------------------------------ */
static nx_status (*const loop[N_PASSES])(nx_graph *) = {[PASS_fold] = nx_pass_fold, [PASS_cse] = nx_pass_cse, [PASS_dce] = nx_pass_dce};

nx_status nx_pass_run(nx_graph *graph, const char *letters) {
    for (const char *c = letters ? letters : ""; *c; c++) {
        bool known = false;
        for (int i = 0; i < N_PASSES; i++) known = known || (loop[i] && passes[i].letter == *c);
        if (!known) return nx_fail(NX_VALUE, "passes: there is no pass '%c'", *c);
    }
    for (int i = 0; i < N_PASSES; i++) {
        assert((loop[i] != NULL) == (passes[i].when == LOOP));
        if (loop[i] && (letters == NULL || strchr(letters, passes[i].letter))) NX_TRY(loop[i](graph));
    }
    return NX_OK;
}
