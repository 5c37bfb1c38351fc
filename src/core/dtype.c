/* Facts about element types, from dtypes.def. */
#include "core/core.h"

const nx_dtype_facts nx__dtype_facts[NX_N_DTYPES] = {
#define NX_DTYPE_ROW(code, type, category, computing, name, brief, kind, highest, eps, smallest, scalar, dlpack, cpp) \
    [NX_##code] = {name, brief, kind, #type, cpp, highest, eps, smallest, NX_CATEGORY_##category, dlpack},
#include "narthex/dtypes.def"
#undef NX_DTYPE_ROW
};

size_t nx_dtype_bytes(nx_dtype dtype) { return nx_dtype_sizes[dtype]; }
const char *nx_dtype_name(nx_dtype dtype) { return nx__dtype_facts[dtype].name; }
const char *nx_dtype_brief(nx_dtype dtype) { return nx__dtype_facts[dtype].brief; }
const char *nx_dtype_kind(nx_dtype dtype) { return nx__dtype_facts[dtype].kind; }

const char *nx_dtype_cpp(nx_dtype dtype) { return nx__dtype_facts[dtype].cpp; }

const char *nx_dtype_c_type(nx_dtype dtype) {
    const nx_dtype_facts *facts = &nx__dtype_facts[dtype];
    bool sized = (facts->category == NX_CATEGORY_SIGNED || facts->category == NX_CATEGORY_UNSIGNED) && dtype != NX_I32;
    return sized ? facts->c_type : facts->cpp;
}

bool nx_dtype_find(const char *name, nx_dtype *out) {
    for (int d = 0; d < NX_N_DTYPES; d++) {
        if (strcmp(nx__dtype_facts[d].name, name) != 0) continue;
        *out = (nx_dtype)d;
        return true;
    }
    return false;
}

nx_dtype nx_dtype_real(nx_dtype dtype) {
    return dtype == NX_C64 ? NX_F32 : dtype == NX_C128 ? NX_F64 : dtype == NX_C32 ? NX_F16 : dtype;
}

nx_dtype nx_dtype_complex(nx_dtype dtype) {
    if (nx_is_complex(dtype)) return dtype;
    return dtype == NX_F64 ? NX_C128 : dtype == NX_F16 ? NX_C32 : NX_C64;
}
