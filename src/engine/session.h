/* engine, inside: the graphs of a session, for session.c and model.c. */
#ifndef NX_ENGINE_SESSION_H
#define NX_ENGINE_SESSION_H

#include "engine/program.h"

typedef struct nx__entry {
    uint32_t id;
    nx_graph *graph;       /* functional once it is compiled */
    nx_program *program;   /* NULL: not compiled */
    atomic_bool busy;      /* a thread runs it or changes it */
} nx__entry;

nx_status nx__session_find(nx_session *session, uint32_t id, bool compiled, nx__entry **out);
nx_status nx__session_insert(nx_session *session, uint32_t id,
                             nx_graph *graph); /* takes graph, also on failure */
nx_device nx__session_device(const nx_session *session);

#endif
