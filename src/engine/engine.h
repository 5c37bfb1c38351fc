/* engine: the graph engine behind mode max-autotune. Session -> add graph -> compile -> summary -> bases ->
 * run. The public functions stand in narthex.h (nx_session_*). Inside: lowering to launches, fused regions as
 * tile programs, one feature-memory arena planned by lifetimes, model files. */
#ifndef NX_ENGINE_H
#define NX_ENGINE_H

#include "pass/pass.h"

/* The compiled form of one graph, without a session around it: what src/compile keeps of a function. */
typedef struct nx_program nx_program;
NX_MUST_USE nx_status nx_program_new(const nx_graph *graph, nx_device device, nx_program **out);
/* The same of a graph that is the caller's alone: its nodes may stand in another order afterwards, also after a failure. */
/* result_of: as nx_pass_reinplace has it; such a result may be the input itself, written. */
NX_MUST_USE nx_status nx_program_new_from_own(nx_graph *graph, const int *result_of, nx_device device, nx_program **out);
void nx_program_free(nx_program *program); /* NULL is allowed */
nx_device nx_program_device(const nx_program *program);
bool nx_program_writes(const nx_program *program, int input); /* its runs write that input */
void nx_program_get_summary(const nx_program *program, nx_summary *out);
/* As nx_session_run. The caller has checked shapes, dtypes and devices of inputs (guards). */
NX_MUST_USE nx_status nx_program_run(nx_program *program, nx_tensor *const *inputs, nx_tensor **out);
/* The same, and each input is let go after the last step that reads it: what is gone is NULL then, the rest stays the
 * caller's, also on failure. No results of the caller. One run of a program at a time. */
NX_MUST_USE nx_status nx_program_run_taking(nx_program *program, nx_tensor **inputs, nx_tensor **out);
/* Times the choices of its steps and keeps the quickest (measure.c); a program that cannot be tried has those of the rules. */
NX_MUST_USE nx_status nx_program_measure(nx_program *program);
/* What was measured, a line a step with its part of the roofline; NULL: nothing was. The caller's string. */
NX_MUST_USE nx_status nx_program_report(const nx_program *program, char **out);
/* Steps and memory plan, for people. The caller's string. */
NX_MUST_USE nx_status nx_program_print(const nx_program *program, char **out);
/* Such a text read back: a program that runs as the printed one does. Any text may be given: what would reach out of its
 * memory, or is no call of its operator, is NX_VALUE with line and column. */
NX_MUST_USE nx_status nx_program_parse(const char *text, nx_program **out);

#endif
