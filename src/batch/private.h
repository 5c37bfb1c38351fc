/* Shared by the files of src/batch alone. */
#ifndef NX_BATCH_PRIVATE_H
#define NX_BATCH_PRIVATE_H

#include "batch/batch.h"

enum { NX__MOST_ARGUMENTS = 64, NX__MOST_RESULTS = 8 };

/* A call with slices. `made` are tensors and lists that live until it ends. */
typedef struct nx__call {
    const nx_op *op;
    const nx_value *in;
    uint64_t levels;         /* of all its tensors together */
    int n_levels;
    int64_t size[64];        /* of its levels, by level */
    nx_run *run;
    bool draws_same;         /* it draws, and the slices of some level draw the same numbers */
    NX_VEC(nx_tensor *) made;
    NX_VEC(nx_value *) lists;
} nx__call;

/* A rule fills `out` as the operator does, with wholes of the call's levels, or says that it does not fit these arguments. Rules
 * that compose (`composes` in rules.def) call operators with slices, and their results are slices. */
typedef nx_status nx__rule_fn(nx__call *call, nx_value *out, bool *fits);
typedef struct nx__rule {
    nx__rule_fn *fn;         /* NULL: none */
    uint32_t operands;       /* see rules.def */
    uint8_t rank;
    bool composes;
} nx__rule;
const nx__rule *nx__rule_of(const nx_op *op); /* NULL: none */
NX_MUST_USE nx_status nx__rules_start(void);

/* rules.def's functions, and those that follow from the kind. */
#define NX__RULE(name) nx_status nx__rule_##name(nx__call *call, nx_value *out, bool *fits)
NX__RULE(point);
NX__RULE(front);
NX__RULE(fold);
NX__RULE(reduce);
NX__RULE(random);
NX__RULE(slices);
#define NX_BATCH_ROW(name, rule, operands, rank, composes) NX__RULE(rule);
#include "batch/rules.def"
#undef NX_BATCH_ROW

/* ---- wholes and slices ------------------------------------------------------------------------------------------ */
/* A slice of `whole`, which it takes also when it fails; without levels the whole itself. */
NX_MUST_USE nx_status nx__slice_of(nx_tensor *whole, uint64_t levels, nx_tensor **out);
/* `tensor` with the call's levels in front, lent by the call. Behind them `ndim` dimensions at least: ones where it has fewer.
 * Levels that it has not are expanded, or, with `broadcasts`, of size 1; a tensor without any stays as it is then. */
NX_MUST_USE nx_status nx__whole(nx__call *call, nx_tensor *tensor, int ndim, bool broadcasts, nx_tensor **out);
static inline bool nx__is_slice(const nx_value *v) { return v->tag == NX_TAG_TENSOR && v->tensor->whole != NULL; }
/* The sizes of the call's levels, in order; returns how many they are. */
int nx__level_sizes(const nx__call *call, int64_t *sizes);
int64_t nx__level_count(const nx__call *call); /* their product */
void nx__add_level(nx__call *call, int level, int64_t size);

/* ---- calls inside of rules ------------------------------------------------------------------------------------------ */
NX_MUST_USE nx_status nx__call_op(const char *name, const nx_value *in, nx_value *out);
/* The same of an operator whose first result is wanted, which the call keeps. */
NX_MUST_USE nx_status nx__do(nx__call *call, const char *name, const nx_value *in, nx_tensor **out);
NX_MUST_USE nx_status nx__do_view(nx__call *call, nx_tensor *x, const int64_t *sizes, int n, nx_tensor **out); /* reshape */
NX_MUST_USE nx_status nx__do_permute(nx__call *call, nx_tensor *x, const int64_t *dims, int n, nx_tensor **out);
NX_MUST_USE nx_status nx__do_cast(nx__call *call, nx_tensor *x, nx_dtype dtype, nx_tensor **out);
/* Room that lives until the call ends. */
NX_MUST_USE nx_status nx__list_new(nx__call *call, int n, nx_value **out);
NX_MUST_USE nx_status nx__keep(nx__call *call, nx_tensor *made); /* takes it */
/* A result of the rule: a new reference. */
static inline nx_value nx__result(nx_tensor *tensor) { return nx_value_tensor(nx_tensor_ref(tensor)); }
static inline int nx__rank(const nx_value *v) { return v->tag == NX_TAG_TENSOR ? v->tensor->a.ndim : 0; }
/* The greatest rank of the arguments' tensors. */
int nx__highest_rank(const nx__call *call);

#endif
