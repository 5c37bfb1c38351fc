/* Facts about element types, from dtypes.def. */
#include "core/core.h"

const nx_dtype_facts nx__dtype_facts[NX_N_DTYPES] = {
#define NX_DTYPE_ROW(code, type, category, computing, name, brief, kind, highest, eps, smallest, scalar, dlpack) \
    [NX_##code] = {name, brief, kind, #type, highest, eps, smallest, NX_CATEGORY_##category, dlpack},
#include "narthex/dtypes.def"
#undef NX_DTYPE_ROW
};

size_t nx_dtype_bytes(nx_dtype dtype) { return nx_dtype_sizes[dtype]; }
const char *nx_dtype_name(nx_dtype dtype) { return nx__dtype_facts[dtype].name; }
const char *nx_dtype_brief(nx_dtype dtype) { return nx__dtype_facts[dtype].brief; }
const char *nx_dtype_kind(nx_dtype dtype) { return nx__dtype_facts[dtype].kind; }

const char *nx_dtype_c_name(nx_dtype dtype) {
    static const char *const names[NX_N_DTYPES] = {
        [NX_BOOL] = "bool", [NX_U8] = "unsigned char", [NX_I8] = "signed char", [NX_I16] = "short int", [NX_I32] = "int",
        [NX_I64] = "long int", [NX_U16] = "short unsigned int", [NX_U32] = "unsigned int", [NX_U64] = "long unsigned int",
        [NX_F16] = "c10::Half", [NX_BF16] = "c10::BFloat16", [NX_F32] = "float", [NX_F64] = "double",
        [NX_C32] = "c10::complex<c10::Half>", [NX_C64] = "c10::complex<float>", [NX_C128] = "c10::complex<double>",
        [NX_F8_E4M3FN] = "c10::Float8_e4m3fn", [NX_F8_E5M2] = "c10::Float8_e5m2", [NX_F8_E4M3FNUZ] = "c10::Float8_e4m3fnuz",
        [NX_F8_E5M2FNUZ] = "c10::Float8_e5m2fnuz", [NX_F8_E8M0FNU] = "c10::Float8_e8m0fnu"};
    return names[dtype];
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
