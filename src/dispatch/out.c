/* The out form of an operator that is made of others, or of a factory: its functional form runs, and what it gave is copied
 * into the tensors that were given. A factory's options are read from the first of them. Nothing is written before all
 * results are there; the checks are those of src/dispatch/written.c. */
#include "dispatch/private.h"

#include <assert.h>

static bool any_requires_grad(const nx_value *values, int n) {
    for (int k = 0; k < n; k++) {
        if (values[k].tag == NX_TAG_TENSOR && (values[k].tensor->keys & NX_KEY(AUTOGRAD))) return true;
        if (values[k].tag == NX_TAG_LIST && any_requires_grad(values[k].list, values[k].n)) return true;
    }
    return false;
}

/* What stands at a parameter of the functional form that its out form does not have. */
static nx_value option(const nx_param *param, const nx_array *like) {
    if (param->type == NX_TYPE_DTYPE) return nx_value_dtype((nx_dtype)like->dtype);
    if (param->type == NX_TYPE_DEVICE) return nx_value_device(like->device);
    return NX_VALUE_NONE;
}

static nx_status fit(const nx_op *op, const nx_value *in, int param, const nx_array *made) {
    nx_meta meta = {.dtype = (nx_dtype)made->dtype, .device = made->device, .ndim = made->ndim, .view_of = -1};
    for (int d = 0; d < made->ndim; d++) meta.size[d] = made->sizes[d];
    nx_meta_contiguous(&meta);
    return nx__fit_written(op, in, param, &meta);
}

static nx_status copy(nx_tensor *to, nx_tensor *made) {
    const nx_value in[] = {nx_value_tensor(to), nx_value_tensor(made), nx_value_bool(false)};
    nx_value written;
    NX_TRY(nx_op_call(nx_op_get("aten::copy_"), in, &written));
    nx_value_drop(&written);
    return NX_OK;
}

nx_status nx_compose_out(nx_run *run, const nx_value *in, nx_value *out) {
    const nx_op *op = run->op, *functional = op->functional;
    nx_value args[NX__MAX_IN], made[NX__MAX_OUT];
    int n_out = op->def->n_out, n = op->def->n_in - n_out, taken = 0;
    if (any_requires_grad(in, op->def->n_in) && !nx_thread_get()->grad_disabled) {
        return nx_fail(NX_RUNTIME, "%s(): functions with out=... arguments don't support automatic differentiation, but one of "
                                   "the arguments requires grad.", nx_op_name(op));
    }
    for (int k = 0; k < functional->def->n_in; k++) {
        const nx_param *param = &functional->def->params[k];
        bool same = taken < n && strcmp(param->name, op->def->params[taken].name) == 0;
        args[k] = same ? in[taken++] : option(param, in[n].array);
    }
    assert(taken == n);
    for (int k = 0; k < n_out; k++) NX_TRY(nx__check_overlap(op, in, n + k));
    NX_TRY(nx_op_call(functional, args, made));
    nx_status status = NX_OK;
    for (int k = 0; k < n_out && status == NX_OK; k++) status = fit(op, in, n + k, made[k].array);
    for (int k = 0; k < n_out && status == NX_OK; k++) status = copy(in[n + k].tensor, made[k].tensor);
    for (int k = 0; k < n_out; k++) {
        nx_value_drop(&made[k]);
        out[k] = status == NX_OK ? nx_value_tensor(nx_tensor_ref(in[n + k].tensor)) : NX_VALUE_NONE;
    }
    return status;
}
