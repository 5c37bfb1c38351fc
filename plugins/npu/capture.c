/* Capture and replay. While a stream captures, its launches go into a launch list instead of its queue; a replay is one
 * piece of work that runs the list. Launches already carry reachable addresses, so slots and bases are translated the
 * same way. A graph lives until it was destroyed and its last replay is done; replays of one graph never overlap. */
#include "npu.h"

#include <stdlib.h>

typedef struct graph {
    _Atomic int refs;
    pthread_mutex_t lock; /* the list runs on one thread at a time */
    nx_launch_list *list;
    int n_slots;
} graph;

static void drop_graph(graph *g) {
    if (atomic_fetch_sub(&g->refs, 1) != 1) return;
    nx_launch_list_free(g->list);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

nx_status npu_capture_begin(void *context, nx_stream *stream) {
    TRY(npu_check());
    nx_launch_list *list;
    TRY(nx_launch_list_new(&list));
    nx_status status = npu_stream_begin_capture(stream, list);
    if (status != NX_OK) nx_launch_list_free(list);
    return status;
}

static void *reachable(void *at) { return npu_is_device(at, 0) ? npu_reachable(at) : at; }

static nx_status bind(nx_launch_list *list, const nx_span *slots, int n_slots) {
    nx_span *reached = malloc(sizeof *reached * (size_t)(n_slots + 1));
    if (reached == NULL) return nx_fail(NX_NO_MEMORY, "npu: no host memory for a captured graph");
    for (int i = 0; i < n_slots; i++) reached[i] = (nx_span){reachable(slots[i].base), slots[i].bytes};
    nx_status status = nx_launch_list_bind(list, reached, n_slots);
    free(reached);
    return status;
}

nx_status npu_capture_end(void *context, nx_stream *stream, const nx_span *slots, int n_slots, void **out) {
    nx_launch_list *list = npu_stream_end_capture(stream);
    if (list == NULL) return nx_fail(NX_RUNTIME, "npu: the stream does not capture");
    nx_status status = npu_check();
    if (status == NX_OK) status = bind(list, slots, n_slots);
    graph *g = status == NX_OK ? calloc(1, sizeof *g) : NULL;
    if (g == NULL) {
        nx_launch_list_free(list);
        return status != NX_OK ? status : nx_fail(NX_NO_MEMORY, "npu: no host memory for a captured graph");
    }
    g->refs = 1;
    g->list = list;
    g->n_slots = n_slots;
    pthread_mutex_init(&g->lock, NULL);
    *out = g;
    return NX_OK;
}

static nx_status run_replay(npu_work *work) {
    graph *g = work->a;
    nx_status status = npu_check();
    if (status == NX_OK) {
        pthread_mutex_lock(&g->lock);
        status = nx_launch_list_run(g->list, work->b);
        pthread_mutex_unlock(&g->lock);
    }
    free(work->b);
    nx_launch_free(work->c);
    drop_graph(g);
    return status;
}

nx_status npu_graph_replay(void *context, void *at, nx_stream *stream, void *const *bases, nx_launch *keep) {
    graph *g = at;
    void **reached = malloc(sizeof *reached * (size_t)(g->n_slots + 1));
    nx_status status = NX_OK;
    if (reached == NULL) status = nx_fail(NX_NO_MEMORY, "npu: no host memory for a replay");
    else if (npu_stream_captures(stream))
        status = nx_fail(NX_RUNTIME, "npu: a replay is not permitted when the stream is capturing");
    if (status == NX_OK) {
        for (int i = 0; i < g->n_slots; i++) reached[i] = reachable(bases[i]);
        atomic_fetch_add(&g->refs, 1);
        status = npu_stream_give(stream, (npu_work){.run = run_replay, .a = g, .b = reached, .c = keep});
        if (status == NX_OK) return NX_OK;
        drop_graph(g);
    }
    free(reached);
    nx_launch_free(keep);
    return status;
}

void npu_graph_destroy(void *context, void *at) {
    if (at && !npu_is_child()) drop_graph(at);
}
