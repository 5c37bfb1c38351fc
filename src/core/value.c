/* Values that are kept beyond a call, and values as text. */
#include "core/core.h"

#include <math.h>
#include <stdlib.h>

static nx_status keep_list(const nx_value *value, nx_value *out) {
    size_t bytes = sizeof(nx_value) * (size_t)(value->n ? value->n : 1);
    nx_value *copy = nx_alloc(bytes);
    if (copy == NULL) return nx_fail_memory(bytes);
    nx_value kept = nx_value_list(copy, 0);
    for (; kept.n < value->n; kept.n++) {
        nx_status status = nx_value_keep(&value->list[kept.n], &copy[kept.n]);
        if (status != NX_OK) {
            nx_value_drop(&kept);
            return status;
        }
    }
    *out = kept;
    return NX_OK;
}

bool nx_any_fake(const nx_value *values, int n) {
    for (int k = 0; k < n; k++) {
        if (values[k].tag == NX_TAG_TENSOR && nx_tensor_is_fake(values[k].tensor)) return true;
        if (values[k].tag == NX_TAG_LIST && nx_any_fake(values[k].list, values[k].n)) return true;
    }
    return false;
}

nx_status nx_value_keep(const nx_value *value, nx_value *out) {
    switch (value->tag) {
    case NX_TAG_LIST: return keep_list(value, out);
    case NX_TAG_TENSOR: nx_tensor_ref(value->tensor); break;
    case NX_TAG_GENERATOR: nx_generator_ref(value->generator); break;
    case NX_TAG_GRAPH: nx_count_up(&value->shared->refs); break;
    case NX_TAG_STR: {
        char *copy = nx_strdup(value->str);
        if (copy == NULL) return nx_fail_memory(strlen(value->str) + 1);
        *out = nx_value_str(copy);
        return NX_OK;
    }
    case NX_TAG_COMPLEX: {
        double *copy = nx_alloc(2 * sizeof *copy);
        if (copy == NULL) return nx_fail_memory(2 * sizeof *copy);
        memcpy(copy, value->parts, 2 * sizeof *copy);
        *out = nx_value_complex(copy);
        return NX_OK;
    }
    case NX_TAG_INTS: {
        size_t bytes = sizeof(int64_t) * (size_t)value->n;
        int64_t *copy = nx_alloc(bytes);
        if (copy == NULL) return nx_fail_memory(bytes);
        if (bytes) memcpy(copy, value->ints, bytes);
        *out = nx_value_ints(copy, value->n);
        return NX_OK;
    }
    default: break;
    }
    *out = *value;
    return NX_OK;
}

void nx_value_drop(nx_value *value) {
    switch (value->tag) {
    case NX_TAG_TENSOR: nx_tensor_unref(value->tensor); break;
    case NX_TAG_GENERATOR: nx_generator_unref(value->generator); break;
    case NX_TAG_GRAPH:
        if (nx_count_down(&value->shared->refs)) value->shared->free(value->shared);
        break;
    case NX_TAG_STR: nx_free((void *)value->str); break;
    case NX_TAG_INTS: nx_free((void *)value->ints); break;
    case NX_TAG_COMPLEX: nx_free((void *)value->parts); break;
    case NX_TAG_LIST:
        for (int i = 0; i < value->n; i++) nx_value_drop((nx_value *)&value->list[i]);
        nx_free((void *)value->list);
        break;
    default: break;
    }
    *value = NX_VALUE_NONE;
}

/* The shortest decimal that reads back as the same double, with a point, as Python's repr. */
static void add_float(double f, nx_text *text) {
    char digits[40];
    if (isnan(f) || isinf(f)) {
        nx_text_add(text, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, f);
        if (strtod(digits, NULL) == f) break;
    }
    nx_text_add(text, strpbrk(digits, ".en") ? "%s" : "%s.0", digits);
}

void nx_value_text(const nx_value *value, nx_text *text) {
    switch (value->tag) {
    case NX_TAG_NONE: nx_text_add(text, "None"); break;
    case NX_TAG_TENSOR: nx_text_add(text, "tensor"); break;
    case NX_TAG_INT: nx_text_add(text, "%lld", (long long)value->i); break;
    case NX_TAG_FLOAT: add_float(value->f, text); break;
    case NX_TAG_COMPLEX:
        nx_text_add(text, "complex(");
        add_float(value->parts[0], text);
        nx_text_add(text, ", ");
        add_float(value->parts[1], text);
        nx_text_add(text, ")");
        break;
    case NX_TAG_BOOL: nx_text_add(text, value->i ? "True" : "False"); break;
    case NX_TAG_STR: nx_text_add(text, "'%s'", value->str); break;
    case NX_TAG_INTS: nx_text_add_ints(text, value->ints, value->n); break;
    case NX_TAG_DTYPE: nx_text_add(text, "torch.%s", nx_dtype_name((nx_dtype)value->i)); break;
    case NX_TAG_DEVICE: nx_text_add(text, "device(%d, %d)", value->device.type, value->device.index); break;
    case NX_TAG_LAYOUT: nx_text_add(text, "torch.strided"); break;
    case NX_TAG_MEMORY_FORMAT:
        nx_text_add(text, "torch.%s", nx_memory_format_name(value->i));
        break;
    case NX_TAG_LIST:
        nx_text_add(text, "[");
        for (int i = 0; i < value->n; i++) {
            if (i) nx_text_add(text, ", ");
            nx_value_text(&value->list[i], text);
        }
        nx_text_add(text, "]");
        break;
    case NX_TAG_GRAPH: nx_text_add(text, "<graph>"); break;
    default: nx_text_add(text, "<%s>", value->tag == NX_TAG_GENERATOR ? "generator" : "object"); break;
    }
}
