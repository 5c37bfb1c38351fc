/* Facts about element types, from dtypes.def. */
#include "core/core.h"

static const struct {
    size_t bytes;
    const char *name, *brief, *kind;
} facts[NX_N_DTYPES] = {
#define NX_DTYPE_ROW(code, type, category, name, brief, kind) [NX_##code] = {sizeof(type), name, brief, kind},
#include "narthex/dtypes.def"
#undef NX_DTYPE_ROW
};

size_t nx_dtype_bytes(nx_dtype dtype) { return facts[dtype].bytes; }
const char *nx_dtype_name(nx_dtype dtype) { return facts[dtype].name; }
const char *nx_dtype_brief(nx_dtype dtype) { return facts[dtype].brief; }
const char *nx_dtype_kind(nx_dtype dtype) { return facts[dtype].kind; }
