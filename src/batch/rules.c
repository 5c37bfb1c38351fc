/* The rows of rules.def by operator. */
#include "batch/private.h"

#include <pthread.h>

typedef struct row {
    const char *name;
    nx__rule rule;
} row;
static const row rows[] = {
#define NX_BATCH_ROW(name, rule, operands, rank, composes) {name, {nx__rule_##rule, operands, rank, composes}},
#include "batch/rules.def"
#undef NX_BATCH_ROW
};

static const nx__rule **by_op; /* by an operator's number */
static int n_ops;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool serves_in_place(const nx__rule *rule) { return rule->fn == nx__rule_front || rule->fn == nx__rule_random; }

static nx_status fill(void) {
    const nx_op *op;
    int n = nx_op_count();
    const nx__rule **made = nx_alloc_zeroed(sizeof *made * (size_t)n);
    if (made == NULL) return nx_fail_memory(sizeof *made * (size_t)n);
    for (int k = 0; k < NX_COUNT(rows); k++) {
        if ((op = nx_op_get(rows[k].name)) == NULL) continue; /* a test's library has not all */
        made[op->index] = &rows[k].rule;
        if (op->inplace && serves_in_place(&rows[k].rule) && made[op->inplace->index] == NULL) made[op->inplace->index] = &rows[k].rule;
    }
    by_op = made;
    n_ops = n;
    return NX_OK;
}

nx_status nx__rules_start(void) {
    pthread_mutex_lock(&lock);
    nx_status status = by_op ? NX_OK : fill();
    pthread_mutex_unlock(&lock);
    return status;
}

const nx__rule *nx__rule_of(const nx_op *op) { return op->index < n_ops ? by_op[op->index] : NULL; }
