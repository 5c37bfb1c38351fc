/* Type promotion. The dtypes that have loops stand in dtypes.def in promotion order; the exceptions are uint8 with int8
 * (int16), float16 with bfloat16 (float32), float64 with complex64 (complex128), and complex32, which stands between
 * float16 and complex64. Operands have three ranks: tensors
 * with dimensions, 0-dim tensors, Python numbers. A lower rank counts only when its category (bool < integer < float <
 * complex) is higher than what the ranks above have. */
#include "iter/iter.h"

static _Atomic int default_dtype = NX_F32;

nx_dtype nx_default_dtype(void) {
    return (nx_dtype)atomic_load_explicit(&default_dtype, memory_order_relaxed);
}

nx_status nx_set_default_dtype(nx_dtype dtype) {
    if ((unsigned)dtype >= NX_N_DTYPES || !nx_is_float(dtype) || nx_is_stored(dtype)) {
        return nx_fail(
            NX_TYPE, "set_default_dtype: only floating-point types are supported as the default type, got %s",
            (unsigned)dtype < NX_N_DTYPES ? nx_dtype_name(dtype) : "an unknown one");
    }
    atomic_store(&default_dtype, dtype);
    return NX_OK;
}

/* PyTorch has no common type of a float8 type and another, nor of uint16, uint32, uint64 and what is no real float. */
static bool is_apart(nx_dtype stored, nx_dtype other) {
    if (nx_is_complex(stored) || !nx_is_stored(stored)) return false;
    return nx_is_float(stored) || nx_is_stored(other) || !nx_is_float(other);
}

nx_dtype nx_promote_types(nx_dtype a, nx_dtype b) {
    if (a == b) return a;
    if (is_apart(a, b) || is_apart(b, a)) return NX_N_DTYPES;
    if (a == NX_C32 || b == NX_C32) { /* a float wider than float16 makes its own complex type of it */
        nx_dtype other = a == NX_C32 ? b : a;
        return nx_is_differentiable(other) ? nx_dtype_complex(other) : NX_C32;
    }
    if (nx_is_stored(a) || nx_is_stored(b)) return nx_is_stored(a) ? b : a;
    nx_dtype low = a < b ? a : b, high = a < b ? b : a;
    if (low == NX_U8 && high == NX_I8) return NX_I16;
    if (low == NX_F16 && high == NX_BF16) return NX_F32;
    if (low == NX_F64 && high == NX_C64) return NX_C128;
    return high;
}

enum { NOTHING = -1 };

static int join(int a, int b) {
    if (a == NOTHING || b == NOTHING) return a == NOTHING ? b : a;
    if (a == NX_N_DTYPES || b == NX_N_DTYPES) return NX_N_DTYPES;
    return nx_promote_types((nx_dtype)a, (nx_dtype)b);
}

/* `higher` outranks `lower`, which adds its category and not its width. */
static int join_ranks(int higher, int lower) {
    if (higher == NOTHING || lower == NOTHING) return higher == NOTHING ? lower : higher;
    if (higher == NX_N_DTYPES || nx_is_complex((nx_dtype)higher)) return higher;
    if (nx_is_float((nx_dtype)higher)) {
        if (!nx_is_complex((nx_dtype)lower)) return higher;
        return nx_is_stored((nx_dtype)higher) ? NX_N_DTYPES : (int)nx_dtype_complex((nx_dtype)higher);
    }
    if (higher == NX_BOOL || nx_is_differentiable((nx_dtype)lower)) return join(higher, lower);
    return higher;
}

static int dtype_of_number(const nx_value *value) {
    if (value->tag == NX_TAG_FLOAT) return nx_default_dtype();
    if (value->tag == NX_TAG_COMPLEX) return nx_dtype_complex(nx_default_dtype());
    if (value->tag == NX_TAG_INT) return NX_I64;
    return value->tag == NX_TAG_BOOL ? NX_BOOL : NOTHING;
}

static void add_rank(const nx_value *value, int *rank) {
    if (value->tag == NX_TAG_TENSOR) {
        int at = value->array->ndim == 0;
        rank[at] = join(rank[at], value->array->dtype);
    } else if (value->tag == NX_TAG_LIST) {
        for (int i = 0; i < value->n; i++) add_rank(&value->list[i], rank);
    } else {
        rank[2] = join(rank[2], dtype_of_number(value));
    }
}

static nx_dtype promote_ranks(const nx_value *const *args, int n) {
    int rank[3] = {NOTHING, NOTHING, NOTHING};
    for (int i = 0; i < n; i++) add_rank(args[i], rank);
    int all = join_ranks(rank[0], join_ranks(rank[1], rank[2]));
    return all == NOTHING ? nx_default_dtype() : (nx_dtype)all;
}

static nx_status fail_types(nx_dtype a, nx_dtype b) {
    bool float8 = (nx_is_stored(a) && nx_is_float(a)) || (nx_is_stored(b) && nx_is_float(b));
    return nx_fail(NX_RUNTIME, "Promotion for %s not supported, attempted to promote %s and %s",
                   float8 ? "Float8 Types is" : "uint16, uint32, uint64 types is", nx_dtype_kind(a), nx_dtype_kind(b));
}

static int find_apart(const nx_value *value, int *first, int *second) {
    if (value->tag == NX_TAG_LIST) {
        for (int i = 0; i < value->n; i++) {
            if (find_apart(&value->list[i], first, second)) return true;
        }
        return false;
    }
    int dtype = value->tag == NX_TAG_TENSOR ? value->array->dtype : dtype_of_number(value);
    if (dtype == NOTHING) return false;
    if (*first == NOTHING) *first = dtype;
    *second = dtype;
    if (join(*first, *second) == NX_N_DTYPES) return true;
    *first = join(*first, *second);
    return false;
}

nx_status nx_fail_promotion(const nx_value *const *args, int n) {
    int first = NOTHING, second = NOTHING, i = 0;
    while (i < n && !find_apart(args[i], &first, &second)) i++;
    if (first == NOTHING) return nx_fail(NX_RUNTIME, "these element types have no common type");
    return fail_types((nx_dtype)first, (nx_dtype)second);
}

/* Whether `value` cannot raise `dtype`, which the first operand has. */
static inline bool adds_nothing(const nx_value *value, nx_dtype dtype) {
    if (value->tag == NX_TAG_TENSOR) return value->array->dtype == dtype;
    if (value->tag == NX_TAG_LIST) return false;
    if (value->tag == NX_TAG_COMPLEX) return nx_is_complex(dtype);
    return nx_is_differentiable(dtype) || (dtype != NX_BOOL && value->tag != NX_TAG_FLOAT);
}

nx_dtype nx_promote(const nx_value *const *args, int n) {
    const nx_value *first = args[0];
    if (NX_LIKELY(first->tag == NX_TAG_TENSOR)) {
        nx_dtype dtype = (nx_dtype)first->array->dtype;
        int same = 1;
        while (same < n && adds_nothing(args[same], dtype)) same++;
        if (same == n) return dtype;
    }
    return promote_ranks(args, n);
}
