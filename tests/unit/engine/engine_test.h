/* Shared by the tests of src/engine: what must succeed or fail, and graphs made a call a line. */
#ifndef NX_ENGINE_TEST_H
#define NX_ENGINE_TEST_H

#include "engine/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define OK(expr)                                                            \
    do {                                                                    \
        if ((expr) != NX_OK) fail_msg("%s: %s", #expr, nx_error_message()); \
    } while (0)
#define FAILS(expr, code, phrase)                                                                         \
    do {                                                                                                  \
        assert_int_equal((expr), code);                                                                   \
        if (!strstr(nx_error_message(), phrase)) fail_msg("'%s' lacks '%s'", nx_error_message(), phrase); \
    } while (0)

/* A call in a graph; arguments that are not given have the schema's defaults. */
static inline nx_value graph_call(nx_graph *graph, const char *name, int n, const nx_value *given) {
    nx_value in[16];
    nx_node *node;
    const nx_op *op = nx_op_get(name);
    if (op == NULL) fail_msg("no operator %s", name);
    for (int i = 0; i < op->def->n_in; i++) in[i] = i < n ? given[i] : op->def->params[i].initial;
    OK(nx_graph_call(graph, op, in, &node));
    return nx_value_node(node, 0);
}
#define CALL(graph, name, ...) graph_call(graph, name, NX_COUNT(((nx_value[]){__VA_ARGS__})), (nx_value[]){__VA_ARGS__})

#endif
