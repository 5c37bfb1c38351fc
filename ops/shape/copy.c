/* Kernels of copy.op, factory.op and view.op: triangles of matrices, padding; spaced.c counts. */
#include "gen/kernels.h"
#include "iter/iter.h"

static int64_t within(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

nx_status nx__assert_copy(nx_run *run, const nx_array *self, nx_value assert_msg, const nx_array *dep_token, nx_array *out) {
    bool holds;
    nx_cast(NX_BOOL, (char *)&holds, 1, (nx_dtype)self->dtype, self->data, 1, 1);
    if (!holds) return nx_fail(NX_RUNTIME, "%s", assert_msg.tag == NX_TAG_STR ? assert_msg.str : "");
    nx_copy_cast(out, dep_token);
    return NX_OK;
}

/* ---- tril, triu ------------------------------------------------------------------------------------------- */
/* Zeros columns begin .. end of a row. */
static void clear_row(char *row, int64_t begin, int64_t end, int64_t step, size_t bytes) {
    if (begin < end && step == (int64_t)bytes) memset(row + begin * step, 0, (size_t)(end - begin) * bytes);
    else for (int64_t j = begin; j < end; j++) memset(row + j * step, 0, bytes);
}

typedef struct triangle { const nx_array *out; int64_t diagonal; bool lower; } triangle;

/* Rows begin .. end, those of all matrices counted on. */
static nx_status clear_rows(void *arg, int64_t begin, int64_t end) {
    const triangle *t = arg;
    const nx_array *out = t->out;
    int64_t bytes = (int64_t)nx_dtype_bytes((nx_dtype)out->dtype), columns = out->sizes[out->ndim - 1];
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, offset = 0, i = row % out->sizes[out->ndim - 2];
        for (int d = out->ndim - 2; d >= 0; d--) {
            offset += rest % out->sizes[d] * out->strides[d];
            rest /= out->sizes[d];
        }
        int64_t edge = t->lower ? i + t->diagonal + 1 : i + t->diagonal; /* the first column right of what is kept or cleared */
        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        clear_row((char *)out->data + offset * bytes, t->lower ? edge : 0, t->lower ? columns : edge,
                  out->strides[out->ndim - 1] * bytes, (size_t)bytes);
    }
    return NX_OK;
}

nx_status nx__triangle(nx_run *run, nx_array *out, const nx_array *self, int64_t diagonal, nx_value lower) {
    if (out->data != self->data) nx_copy_cast(out, self);
    if (out->numel == 0) return NX_OK;
    int64_t columns = out->sizes[out->ndim - 1], bytes = (int64_t)nx_dtype_bytes((nx_dtype)out->dtype);
    diagonal = within(diagonal, -out->sizes[out->ndim - 2] - 1, columns + 1);
    return nx_parallel(out->numel / columns, nx_grain(columns * bytes), clear_rows, &(triangle){out, diagonal, lower.i != 0});
}

/* ---- tril_indices, triu_indices ----------------------------------------------------------------------------- */
nx_status nx__triangle_places(nx_run *run, nx_array *out, int64_t rows, int64_t columns, int64_t diagonal, nx_value lower) {
    nx_dtype dtype = (nx_dtype)out->dtype;
    if (dtype != NX_I64 && dtype != NX_I32)
        return nx_fail(NX_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", nx_op_name(run->op), nx_dtype_kind(dtype));
    if (out->numel == 0) return NX_OK;
    diagonal = within(diagonal, -rows - 1, columns + 1);
    /* Only columns low .. high - 1 are named, and rows from the first one that has a place. */
    int64_t low = lower.i ? 0 : within(diagonal, 0, columns), high = lower.i ? within(rows + diagonal, 0, columns) : columns;
    int64_t bytes = (int64_t)nx_dtype_bytes(dtype), *count = nx_alloc((size_t)(high - low) * sizeof *count);
    char *row = out->data, *column = row + out->sizes[1] * bytes, *end = column;
    if (count == NULL) return nx_fail_memory((size_t)(high - low) * sizeof *count);
    for (int64_t k = low; k < high; k++) count[k - low] = k;
    for (int64_t i = lower.i && diagonal < 0 ? -diagonal : 0; i < rows && row < end; i++) {
        int64_t edge = i + diagonal + (lower.i != 0);
        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        int64_t first = lower.i ? 0 : edge, n = lower.i ? edge : columns - edge;
        nx_cast(dtype, row, bytes, NX_I64, (const char *)&i, 0, n);
        nx_cast(dtype, column, bytes, NX_I64, (const char *)(count + (first - low)), sizeof *count, n);
        row += n * bytes;
        column += n * bytes;
    }
    nx_free(count);
    return NX_OK;
}

/* ---- constant_pad_nd ------------------------------------------------------------------------------------ */
static void move_start(nx_array *array, int64_t elements) {
    array->data = (char *)array->data + elements * (int64_t)nx_dtype_bytes((nx_dtype)array->dtype);
}

nx_status nx__surround(nx_run *run, const nx_array *self, const int64_t *pad, int n_pad, nx_value value, nx_array *out) {
    nx_part from, to;
    NX_TRY(nx_fill(run, out, value));
    nx_array_copy(&from.array, self, from.dims);
    nx_array_copy(&to.array, out, to.dims);
    for (int k = 0; k < n_pad / 2; k++) {
        int d = self->ndim - 1 - k;
        int64_t before = pad[2 * k], behind = pad[2 * k + 1], n = self->sizes[d] + nx_least(before, 0) + nx_least(behind, 0);
        if (n <= 0) return NX_OK; /* all is cut off */
        move_start(before < 0 ? &from.array : &to.array, before < 0 ? -before * self->strides[d] : before * out->strides[d]);
        from.array.sizes[d] = to.array.sizes[d] = n;
    }
    nx_array_refresh(&from.array);
    nx_array_refresh(&to.array);
    if (self->numel) nx_copy_cast(&to.array, &from.array);
    return NX_OK;
}
