/* The smallest cut of a directed graph, by Dinic's method: breadth-first levels, then blocking flows along
 * them, until the sink is out of reach. The depth-first part is a loop with its own stack, since graphs of
 * thousands of nodes in a row would be as many calls deep.
 * http://en.wikipedia.org/wiki/Dinic%27s_algorithm */
#include "pass/private.h"

const int64_t nx__flow_unlimited = INT64_MAX / 4;

typedef struct arc { int to, next; int64_t left; } arc; /* arc i and i ^ 1 are a pair, there and back */
struct nx__flow {
    int n_points;
    int *first;              /* by point: its list of arcs, -1 ends */
    int *level, *at, *queue; /* scratch by point; queue holds the path in the depth-first part */
    NX_VEC(arc) arcs;
};

nx_status nx__flow_new(int n_points, nx__flow **out) {
    nx__flow *flow = nx_alloc_zeroed(sizeof *flow);
    size_t bytes = 4 * sizeof(int) * (size_t)n_points;
    if (flow == NULL || (flow->first = nx_alloc(bytes)) == NULL) {
        nx_free(flow);
        return nx_fail_memory(bytes);
    }
    flow->n_points = n_points;
    flow->level = flow->first + n_points;
    flow->at = flow->level + n_points;
    flow->queue = flow->at + n_points;
    for (int p = 0; p < n_points; p++) flow->first[p] = -1;
    *out = flow;
    return NX_OK;
}

void nx__flow_free(nx__flow *flow) {
    if (flow == NULL) return;
    nx_vec_free(&flow->arcs);
    nx_free(flow->first);
    nx_free(flow);
}

static nx_status add_arc(nx__flow *flow, int from, int to, int64_t capacity) {
    arc a = {to, flow->first[from], capacity};
    NX_TRY(nx_vec_push(&flow->arcs, a));
    flow->first[from] = flow->arcs.n - 1;
    return NX_OK;
}

nx_status nx__flow_edge(nx__flow *flow, int from, int to, int64_t capacity) {
    NX_TRY(add_arc(flow, from, to, capacity));
    return add_arc(flow, to, from, 0);
}

static bool find_levels(nx__flow *flow, int source, int sink) {
    int head = 0, tail = 0;
    for (int p = 0; p < flow->n_points; p++) flow->level[p] = -1;
    flow->level[source] = 0;
    flow->queue[tail++] = source;
    while (head < tail) {
        int p = flow->queue[head++];
        for (int a = flow->first[p]; a >= 0; a = flow->arcs.at[a].next) {
            int to = flow->arcs.at[a].to;
            if (flow->arcs.at[a].left <= 0 || flow->level[to] >= 0) continue;
            flow->level[to] = flow->level[p] + 1;
            flow->queue[tail++] = to;
        }
    }
    return flow->level[sink] >= 0;
}

/* The arcs of flow->queue lead from source to sink: as much as fits goes along them. Returns where the
 * path is full. */
static int push_path(nx__flow *flow, int n) {
    int64_t fits = nx__flow_unlimited;
    int full = 0;
    for (int i = 0; i < n; i++) {
        if (flow->arcs.at[flow->queue[i]].left < fits) fits = flow->arcs.at[flow->queue[i]].left;
    }
    for (int i = n - 1; i >= 0; i--) {
        flow->arcs.at[flow->queue[i]].left -= fits;
        flow->arcs.at[flow->queue[i] ^ 1].left += fits;
        if (flow->arcs.at[flow->queue[i]].left == 0) full = i;
    }
    return full;
}

static void block_flows(nx__flow *flow, int source, int sink) {
    int n = 0, p = source; /* arcs on the path, the point where it ends */
    for (int i = 0; i < flow->n_points; i++) flow->at[i] = flow->first[i];
    for (;;) {
        if (p == sink) {
            n = push_path(flow, n);
            p = flow->arcs.at[flow->queue[n] ^ 1].to;
        }
        int a = flow->at[p];
        while (a >= 0 &&
               (flow->arcs.at[a].left <= 0 || flow->level[flow->arcs.at[a].to] != flow->level[p] + 1))
            a = flow->arcs.at[a].next;
        flow->at[p] = a;
        if (a >= 0) {
            flow->queue[n++] = a;
            p = flow->arcs.at[a].to;
        } else if (n == 0) {
            return;
        } else {
            flow->level[p] = -1; /* a dead end */
            p = flow->arcs.at[flow->queue[--n] ^ 1].to;
        }
    }
}

nx_status nx__flow_cut(nx__flow *flow, int source, int sink, bool *behind) {
    while (find_levels(flow, source, sink)) block_flows(flow, source, sink);
    int head = 0, tail = 0;
    memset(behind, 0, sizeof *behind * (size_t)flow->n_points);
    behind[sink] = true;
    flow->queue[tail++] = sink;
    while (head < tail) {
        int p = flow->queue[head++];
        for (int a = flow->first[p]; a >= 0; a = flow->arcs.at[a].next) {
            int from = flow->arcs.at[a].to;
            if (behind[from] || flow->arcs.at[a ^ 1].left <= 0) continue;
            behind[from] = true;
            flow->queue[tail++] = from;
        }
    }
    return behind[source] ? nx_fail(NX_RUNTIME, "split: the graph cannot be cut") : NX_OK;
}
