/* Products: slices are outer dimensions of matmul, which folds them into rows where that copies nothing. */
#include "batch/private.h"

static nx_status matmul(nx_tensor *a, nx_tensor *b, nx_value *out) {
    return nx__call_op("aten::matmul", (nx_value[]){nx_value_tensor(a), nx_value_tensor(b)}, out);
}

static nx_status both(nx__call *call, bool expands, nx_tensor **a, nx_tensor **b) {
    NX_TRY(nx__whole(call, call->in[0].tensor, 0, !expands, a));
    return nx__whole(call, call->in[1].tensor, 0, !expands, b);
}

/* mm and bmm. */
nx_status nx__rule_mm(nx__call *call, nx_value *out, bool *fits) {
    nx_tensor *a, *b;
    NX_TRY(both(call, false, &a, &b));
    return matmul(a, b, out);
}

/* A vector as a matrix of one column. */
nx_status nx__rule_mv(nx__call *call, nx_value *out, bool *fits) {
    nx_tensor *a, *b, *product;
    if (!nx__is_slice(&call->in[1])) {
        NX_TRY(nx__whole(call, call->in[0].tensor, 0, true, &a));
        return matmul(a, call->in[1].tensor, out);
    }
    NX_TRY(both(call, false, &a, &b));
    NX_TRY(nx__do(call, "aten::unsqueeze", (nx_value[]){nx_value_tensor(b), nx_value_int(-1)}, &b));
    NX_TRY(nx__do(call, "aten::matmul", (nx_value[]){nx_value_tensor(a), nx_value_tensor(b)}, &product));
    return nx__call_op("aten::squeeze.dim", (nx_value[]){nx_value_tensor(product), nx_value_int(-1)}, out);
}

/* A row times a column. */
nx_status nx__rule_dot(nx__call *call, nx_value *out, bool *fits) {
    static const int64_t last[] = {-1, -2};
    nx_tensor *a, *b, *product;
    NX_TRY(both(call, true, &a, &b));
    NX_TRY(nx__do(call, "aten::unsqueeze", (nx_value[]){nx_value_tensor(a), nx_value_int(-2)}, &a));
    NX_TRY(nx__do(call, "aten::unsqueeze", (nx_value[]){nx_value_tensor(b), nx_value_int(-1)}, &b));
    NX_TRY(nx__do(call, "aten::matmul", (nx_value[]){nx_value_tensor(a), nx_value_tensor(b)}, &product));
    return nx__call_op("aten::squeeze.dims", (nx_value[]){nx_value_tensor(product), nx_value_ints(last, 2)}, out);
}

static bool is_one(const nx_value *number) { return number->tag != NX_TAG_COMPLEX && nx_value_as_float(number) == 1; }

static nx_status scaled(nx__call *call, nx_tensor *x, const nx_value *factor, nx_tensor **out) {
    *out = x;
    if (is_one(factor)) return NX_OK;
    return nx__do(call, "aten::mul.Scalar", (nx_value[]){nx_value_tensor(x), *factor}, out);
}

/* addmm(self, mat1, mat2, beta, alpha) */
nx_status nx__rule_addmm(nx__call *call, nx_value *out, bool *fits) {
    const nx_value *in = call->in;
    nx_tensor *product, *sum;
    NX_TRY(nx__do(call, "aten::mm", (nx_value[]){in[1], in[2]}, &product));
    NX_TRY(scaled(call, product, &in[4], &product));
    if (in[3].tag != NX_TAG_COMPLEX && nx_value_as_float(&in[3]) == 0) return out[0] = nx__result(product), NX_OK;
    NX_TRY(scaled(call, in[0].tensor, &in[3], &sum));
    return nx__call_op("aten::add.Tensor", (nx_value[]){nx_value_tensor(product), nx_value_tensor(sum), nx_value_int(1)}, out);
}
