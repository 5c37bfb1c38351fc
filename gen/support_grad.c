/* Helpers of generated gradient formulas: they go through the dispatcher, so that formulas can be captured
 * and differentiated again. Results are new references, or a number. */
#include "gen/support.h"
#include "grad/grad.h"

nx_status nx__sum_to(nx_tensor *g, const int64_t *size, int n, nx_tensor **out) {
    /* nx_grad_sum_to reads only the shape of `like`; g's own head serves when nothing has to be summed. */
    if (nx__ints_equal(nx_arr(g)->sizes, nx_arr(g)->ndim, size, n)) {
        *out = nx_tensor_ref(g);
        return NX_OK;
    }
    nx_array like = {.sizes = (int64_t *)size, .strides = (int64_t *)size, .numel = nx_numel(n, size),
                     .dtype = nx_arr(g)->dtype, .ndim = (uint8_t)n, .device = nx_arr(g)->device};
    return nx_grad_sum_to(g, &like, out);
}

nx_status nx__to_like(nx_tensor *g, const nx_array *like, nx_tensor **out) {
    const nx_array *a = nx_arr(g);
    bool here = a->device.type == like->device.type && a->device.index == like->device.index;
    if (here && a->dtype == like->dtype) {
        *out = nx_tensor_ref(g);
        return NX_OK;
    }
    nx_options options = {.dtype = nx_value_dtype((nx_dtype)like->dtype), .layout = {.tag = NX_TAG_LAYOUT},
                          .device = nx_value_device(like->device)};
    return nx__to_copy(g, options, false, NX_VALUE_NONE, out);
}

nx_status nx__zeros_as(const nx_array *like, const int64_t *size, int n, nx_tensor **out) {
    nx_options options = {.dtype = nx_value_dtype((nx_dtype)like->dtype), .layout = {.tag = NX_TAG_LAYOUT},
                          .device = nx_value_device(like->device), .pin_memory = nx_value_bool(false)};
    return nx_zeros(size, n, options, out);
}

nx_status nx__to_dtype(nx_tensor *x, nx_dtype dtype, nx_tensor **out) {
    if (nx_arr(x)->dtype == dtype) {
        *out = nx_tensor_ref(x);
        return NX_OK;
    }
    nx_options options = {.dtype = nx_value_dtype(dtype)};
    return nx__to_copy(x, options, false, NX_VALUE_NONE, out);
}

nx_status nx__real_part(nx_tensor *x, nx_tensor **out) {
    return nx__to_dtype(x, nx_dtype_real((nx_dtype)nx_arr(x)->dtype), out);
}

nx_status nx__zeros_like(nx_tensor *g, nx_tensor **out) {
    nx_tensor *made;
    NX_TRY(nx_empty_like(g, (nx_options){0}, NX_VALUE_NONE, &made));
    nx_status status = nx_zero_(made);
    if (status != NX_OK) {
        nx_tensor_unref(made);
        return status;
    }
    *out = made;
    return NX_OK;
}

nx_status nx__number_of(const char *op, nx_tensor *x, int64_t *out) {
    nx_tensor *copy = NULL;
    NX_TRY(nx_tensor_check_item(x));
    if (nx_tensor_is_fake(x) && nx_thread_get()->tell) {
        NX_TRY(nx_thread_get()->tell(x, &copy));
        *out = *(const int64_t *)nx_arr(copy)->data;
        nx_tensor_unref(copy);
        return NX_OK;
    }
    if (nx_tensor_is_fake(x)) return nx_fail(NX_DATA, "%s: the result's size depends on elements, and there are none", op);
    if (nx_arr(x)->device.type == 0) {
        *out = *(const int64_t *)nx_arr(x)->data;
        return NX_OK;
    }
    NX_TRY(nx_tensor_new(NX_I64, 0, NULL, NX_CPU, &copy));
    nx_status status = nx_device_copy(copy, x);
    if (status == NX_OK) *out = *(const int64_t *)nx_arr(copy)->data;
    nx_tensor_unref(copy);
    return status;
}

nx_status nx__grad_finish(nx_tensor **grad, const nx_value *argument, bool sums) {
    if (!*grad || argument->tag != NX_TAG_TENSOR) return NX_OK;
    const nx_array *like = argument->array;
    nx_tensor *next;
    if (sums && !nx__ints_equal(nx_arr(*grad)->sizes, nx_arr(*grad)->ndim, like->sizes, like->ndim)) {
        NX_TRY(nx__sum_to(*grad, like->sizes, like->ndim, &next));
        nx_tensor_unref(*grad);
        *grad = next;
    }
    if (nx_arr(*grad)->dtype == like->dtype) return NX_OK;
    NX_TRY(nx__to_like(*grad, like, &next));
    nx_tensor_unref(*grad);
    *grad = next;
    return NX_OK;
}

/* Room for 1, 2, 4 ... */
nx_status nx__list_add(nx_value *list, nx_tensor *tensor) {
    nx_value *at = (nx_value *)list->list;
    if ((list->n & (list->n - 1)) == 0) {
        size_t bytes = sizeof *at * (size_t)(list->n ? 2 * list->n : 1);
        nx_value *grown = nx_alloc(bytes);
        if (grown == NULL) return nx_fail_memory(bytes);
        if (list->n) memcpy(grown, at, sizeof *at * (size_t)list->n);
        nx_free(at);
        at = grown;
    }
    at[list->n] = nx_value_tensor(nx_tensor_ref(tensor));
    *list = nx_value_list(at, list->n + 1);
    return NX_OK;
}

void nx__drop_lists(nx_value *lists, int n) {
    for (int k = 0; k < n; k++) nx_value_drop(&lists[k]);
}

void nx__release(nx_tensor **t, int n) {
    for (int k = 0; k < n; k++) {
        nx_tensor_unref(t[k]);
        t[k] = NULL;
    }
}
