/* engine, inside: the graphs of a session, for session.c, shapes.c and the model files. */
#ifndef NX_ENGINE_SESSION_H
#define NX_ENGINE_SESSION_H

#include "engine/program.h"

enum { NX__MAX_PLANS = 16, NX__MAX_GEAR_PLANS = 256 }; /* of sizes that were met and are kept; of gears */

typedef struct nx__entry {
    uint32_t id;
    nx_graph *graph;       /* as it was added; of no open size: functional once it is compiled */
    bool is_open;
    NX_VEC(nx_program *) kept;  /* plans of all gears; without gears, of the example; where no size is open, the one plan. In an open
                                 * graph the constants lie where the first has them. */
    NX_VEC(nx_program *) recent;/* plans of sizes that were met, the one used last first */
    nx_program *program;   /* the plan that was compiled or used last; NULL: not compiled */
    void *feature_base;    /* of the caller, for all plans; NULL: none */
    size_t feature_bytes;
    bool measures;         /* plans are measured when they are made */
    atomic_bool busy;      /* a thread runs it or changes it */
} nx__entry;

nx_status nx__session_find(nx_session *session, uint32_t id, bool compiled, nx__entry **out);
nx_status nx__session_insert(nx_session *session, uint32_t id,
                             nx_graph *graph); /* takes graph, also on failure */
nx_device nx__session_device(const nx_session *session);
nx_status nx__session_hold(nx__entry *entry); /* NX_RUNTIME: another thread holds it */
void nx__session_give(nx__entry *entry);

/* ---- plans (shapes.c); the caller holds the entry ---- */
/* A captured graph becomes a functional one that gives its results and writes what it changes. */
nx_status nx__make_functional(nx_graph *graph);
/* Plans of the example and of all gears; those before are gone. A failure leaves those before. */
nx_status nx__shapes_compile(nx__entry *entry, nx_device device);
/* The plan for inputs of these layouts becomes entry->program. One whose sizes are not what the graph takes is refused. */
nx_status nx__shapes_choose(nx__entry *entry, nx_device device, nx_tensor *const *inputs);
/* The same by sizes alone; sizes[i] NULL: those of the example. */
nx_status nx__shapes_choose_sizes(nx__entry *entry, nx_device device, const int64_t *const *sizes);
nx_status nx__shapes_set_const_base(nx__entry *entry, void *base, size_t bytes);
nx_status nx__shapes_set_feature_base(nx__entry *entry, void *base, size_t bytes);
void nx__shapes_free(nx__entry *entry);

#endif
