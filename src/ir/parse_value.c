/* Words, numbers, values, types and constants of a .nx text. The text may be hostile: every length, depth
 * and product is bounded here, and an error names line and column. Read next: parse.c. */
#include "ir/private.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

enum { MAX_LIST = 1 << 20, MAX_STRING = 1 << 20, MAX_CONSTANT = 1 << 16 };

nx_status nx_read_error(const nx_reader *r, const char *at, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return nx_fail(NX_VALUE, "%s text, line %d, column %d: %s", r->what, r->line,
                   (int)(at - r->line_start) + 1, message);
}

void nx_read_spaces(nx_reader *r) {
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') r->at++;
}

void nx_read_line(nx_reader *r) { r->at += strcspn(r->at, "\n"); }

void nx_read_blank(nx_reader *r) {
    for (;;) {
        nx_read_spaces(r);
        if (*r->at == '#') nx_read_line(r);
        if (*r->at != '\n') return;
        r->at++;
        r->line++;
        r->line_start = r->at;
    }
}

bool nx_read_accept(nx_reader *r, char c) {
    nx_read_spaces(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

nx_status nx_read_expect(nx_reader *r, char c) {
    return nx_read_accept(r, c) ? NX_OK : nx_read_error(r, r->at, "'%c' is expected here", c);
}

static bool is_word_start(char c) { return isalpha((unsigned char)c) || c == '_'; }

bool nx_read_peek(const nx_reader *r) {
    const char *at = r->at;
    while (*at == ' ' || *at == '\t') at++;
    return is_word_start(*at);
}

nx_status nx_read_word(nx_reader *r, bool dots, nx_word *out) {
    size_t n = 0;
    nx_read_spaces(r);
    const char *begin = r->at;
    if (!is_word_start(*begin)) return nx_read_error(r, begin, "a name is expected here");
    for (;;) {
        size_t take = 0;
        if (isalnum((unsigned char)*r->at) || *r->at == '_' || (dots && *r->at == '.')) take = 1;
        else if (dots && r->at[0] == ':' && r->at[1] == ':') take = 2;
        if (take == 0) break;
        if (n + take >= NX_MAX_WORD)
            return nx_read_error(r, begin, "a name has at most %d characters", NX_MAX_WORD - 1);
        while (take--) out->at[n++] = *r->at++;
    }
    out->at[n] = '\0';
    return NX_OK;
}

nx_status nx_read_int(nx_reader *r, int64_t *out) {
    char *end;
    nx_read_spaces(r);
    const char *digits = r->at + (*r->at == '-');
    if (!isdigit((unsigned char)*digits)) return nx_read_error(r, r->at, "a whole number is expected here");
    errno = 0;
    *out = strtoll(r->at, &end, 10);
    if (errno) return nx_read_error(r, r->at, "this number does not fit into 64 bits");
    r->at = end;
    return NX_OK;
}

/* A number, inf or nan with an optional sign; `is_float` when it has a point or an exponent. */
static nx_status read_number(nx_reader *r, nx_value *out) {
    nx_read_spaces(r);
    const char *begin = r->at, *c = begin + (*begin == '-');
    bool negative = c > begin;
    if (strncmp(c, "inf", 3) == 0 || strncmp(c, "nan", 3) == 0) {
        double f = *c == 'i' ? INFINITY : NAN;
        r->at = c + 3;
        *out = nx_value_float(negative ? -f : f);
        return NX_OK;
    }
    const char *end = c;
    bool is_float = false;
    while (isdigit((unsigned char)*end)) end++;
    if (end == c) return nx_read_error(r, begin, "a value is expected here");
    if (*end == '.') for (is_float = true, end++; isdigit((unsigned char)*end);) end++;
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1;
        if (*exponent == '+' || *exponent == '-') exponent++;
        if (isdigit((unsigned char)*exponent)) {
            is_float = true;
            for (end = exponent; isdigit((unsigned char)*end);) end++;
        }
    }
    if (!is_float) {
        int64_t i;
        NX_TRY(nx_read_int(r, &i));
        *out = nx_value_int(i);
        return NX_OK;
    }
    *out = nx_value_float(strtod(begin, NULL));
    r->at = end;
    return NX_OK;
}

static int hex_digit(char c) {
    return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

nx_status nx_read_string(nx_reader *r, char **out) {
    nx_text text = {0};
    nx_status status = NX_OK;
    NX_TRY(nx_read_expect(r, '"'));
    const char *begin = r->at;
    while (*r->at != '"') {
        char c = *r->at;
        if (c == '\0' || c == '\n') NX_TRY_FAIL(nx_read_error(r, begin, "this string has no end"));
        if (text.n >= MAX_STRING)
            NX_TRY_FAIL(nx_read_error(r, begin, "a string has at most %d bytes", MAX_STRING));
        if (c == '\\' && r->at[1] == 'x' && hex_digit(r->at[2]) >= 0 && hex_digit(r->at[3]) >= 0) {
            c = (char)(16 * hex_digit(r->at[2]) + hex_digit(r->at[3]));
            if (c == '\0') NX_TRY_FAIL(nx_read_error(r, r->at, "a string holds no zero byte"));
            r->at += 4;
        } else if (c == '\\') {
            c = r->at[1];
            if (c != '"' && c != '\\')
                NX_TRY_FAIL(nx_read_error(r, r->at, "only \\\\, \\\" and \\xNN are known"));
            r->at += 2;
        } else {
            r->at++;
        }
        nx_text_add_char(&text, c);
    }
    r->at++;
    return nx_text_take(&text, out);
fail:
    nx_text_free(&text);
    return status;
}

nx_status nx_read_ints(nx_reader *r, char close, int64_t *out, int room, int *n) {
    *n = 0;
    if (nx_read_accept(r, close)) return NX_OK;
    do {
        if (*n == room) return nx_read_error(r, r->at, "at most %d numbers may stand here", room);
        NX_TRY(nx_read_int(r, &out[(*n)++]));
    } while (nx_read_accept(r, ','));
    return nx_read_expect(r, close);
}

nx_status nx_read_device(nx_reader *r, nx_device *out) {
    nx_word word;
    char text[NX_MAX_WORD + 24];
    int64_t index = 0;
    nx_read_spaces(r);
    const char *begin = r->at;
    NX_TRY(nx_read_word(r, false, &word));
    bool has_index = r->at[0] == ':' && isdigit((unsigned char)r->at[1]);
    if (has_index) {
        r->at++;
        NX_TRY(nx_read_int(r, &index));
    }
    if (index > INT8_MAX) return nx_read_error(r, begin, "a device's index is at most %d", INT8_MAX);
    if (strcmp(word.at, "cpu") == 0 && index == 0) { /* PyTorch's "cpu" has index -1, ours one spelling */
        *out = NX_CPU;
        return NX_OK;
    }
    snprintf(text, sizeof text, has_index ? "%s:%d" : "%s", word.at, (int)index);
    if (nx_device_parse(text, out) != NX_OK) return nx_read_error(r, begin, "there is no device '%s'", text);
    return NX_OK;
}

static nx_status read_node(nx_reader *r, nx_value *out) {
    nx_word word;
    int64_t result = 0;
    const char *begin = r->at - 1;
    NX_TRY(nx_read_word(r, false, &word));
    nx_node *node = r->graph ? nx_graph_find(r->graph, word.at) : NULL;
    if (node == NULL) return nx_read_error(r, begin, "%%%s is not defined above", word.at);
    if (*r->at == '.') {
        r->at++;
        NX_TRY(nx_read_int(r, &result));
    }
    if (result < 0 || result >= node->n_results)
        return nx_read_error(r, begin, "%%%s has no result %lld", word.at, (long long)result);
    *out = nx_value_node(node, (int)result);
    return NX_OK;
}

static nx_status read_list(nx_reader *r, nx_value *out) {
    NX_VEC(nx_value) values = {0};
    nx_value value;
    nx_status status;
    if (++r->depth > NX__MAX_LIST_DEPTH)
        return nx_read_error(r, r->at, "lists are nested deeper than %d", NX__MAX_LIST_DEPTH);
    if (!nx_read_accept(r, ')')) {
        do {
            if (values.n == MAX_LIST)
                NX_TRY_FAIL(nx_read_error(r, r->at, "a list has at most %d values", MAX_LIST));
            NX_TRY_FAIL(nx_read_value(r, &value));
            if ((status = nx_vec_push(&values, value)) != NX_OK) {
                nx_value_drop(&value);
                goto fail;
            }
        } while (nx_read_accept(r, ','));
        NX_TRY_FAIL(nx_read_expect(r, ')'));
    }
    r->depth--;
    *out = nx_value_list(values.at, values.n);
    return NX_OK;
fail:
    r->depth--;
    for (int i = 0; i < values.n; i++) nx_value_drop(&values.at[i]);
    nx_vec_free(&values);
    return status;
}

static nx_status read_int_list(nx_reader *r, nx_value *out) {
    NX_VEC(int64_t) ints = {0};
    int64_t i;
    nx_status status;
    if (!nx_read_accept(r, ']')) {
        do {
            if (ints.n == MAX_LIST)
                NX_TRY_FAIL(nx_read_error(r, r->at, "a list has at most %d values", MAX_LIST));
            NX_TRY_FAIL(nx_read_int(r, &i));
            NX_TRY_FAIL(nx_vec_push(&ints, i));
        } while (nx_read_accept(r, ','));
        NX_TRY_FAIL(nx_read_expect(r, ']'));
    }
    *out = nx_value_ints(ints.at, ints.n);
    return NX_OK;
fail:
    nx_vec_free(&ints);
    return status;
}

static bool find_dtype(const char *word, bool brief, nx_dtype *out) {
    for (int d = 0; d < NX_N_DTYPES; d++) {
        if (strcmp(word, brief ? nx_dtype_brief((nx_dtype)d) : nx_dtype_name((nx_dtype)d)) == 0) {
            *out = (nx_dtype)d;
            return true;
        }
    }
    return false;
}

/* complex(1.0, 2.0): what stands behind the word. */
static nx_status read_parts(nx_reader *r, double parts[2]) {
    NX_TRY(nx_read_expect(r, '('));
    for (int k = 0; k < 2; k++) {
        nx_value part;
        if (k) NX_TRY(nx_read_expect(r, ','));
        nx_read_spaces(r);
        NX_TRY(read_number(r, &part));
        parts[k] = part.tag == NX_TAG_FLOAT ? part.f : (double)part.i;
    }
    return nx_read_expect(r, ')');
}

static nx_status read_complex(nx_reader *r, nx_value *out) {
    double parts[2];
    NX_TRY(read_parts(r, parts));
    nx_value value = nx_value_complex(parts);
    return nx_value_keep(&value, out);
}

/* A graph as an argument, behind the word. */
static nx_status read_body(nx_reader *r, const char *begin, nx_value *out) {
    nx_graph *graph;
    if (r->depth >= NX__MAX_LIST_DEPTH) return nx_read_error(r, begin, "graphs are nested deeper than %d", NX__MAX_LIST_DEPTH);
    r->depth++;
    nx_status status = nx__read_graph(r, &graph);
    r->depth--;
    return status == NX_OK ? nx_value_of_graph(graph, out) : status;
}

static nx_status read_word_value(nx_reader *r, nx_value *out) {
    static const struct { const char *word; nx_tag tag; int64_t i;
    } words[] = {
        {"None", NX_TAG_NONE, 0},
        {"True", NX_TAG_BOOL, 1},
        {"False", NX_TAG_BOOL, 0},
        {"strided", NX_TAG_LAYOUT, 0},
        {"contiguous_format", NX_TAG_MEMORY_FORMAT, 0},
        {"preserve_format", NX_TAG_MEMORY_FORMAT, 1},
        {"channels_last", NX_TAG_MEMORY_FORMAT, 2},
        {"channels_last_3d", NX_TAG_MEMORY_FORMAT, 3},
        {"opaque", NX_TAG_OPAQUE, 0},
    };
    nx_word word;
    nx_dtype dtype;
    nx_device device;
    const char *begin = r->at;
    NX_TRY(nx_read_word(r, false, &word));
    for (int i = 0; i < NX_COUNT(words); i++) {
        if (strcmp(words[i].word, word.at) != 0) continue;
        *out = (nx_value){.tag = words[i].tag, .i = words[i].i};
        return NX_OK;
    }
    if (find_dtype(word.at, false, &dtype)) {
        *out = nx_value_dtype(dtype);
        return NX_OK;
    }
    if (strcmp(word.at, "complex") == 0) return read_complex(r, out);
    if (strcmp(word.at, "graph") == 0) return read_body(r, begin, out);
    bool is_device = strcmp(word.at, "device") == 0, is_generator = strcmp(word.at, "generator") == 0;
    if (!is_device && !is_generator) return nx_read_error(r, begin, "'%s' is no value", word.at);
    NX_TRY(nx_read_expect(r, '('));
    NX_TRY(nx_read_device(r, &device));
    NX_TRY(nx_read_expect(r, ')'));
    *out = nx_value_device(device);
    if (is_generator) { /* which one is not in the text: the device's own */
        nx_generator *generator = device.type == 0 ? nx_generator_default() : nx_device_generator(device);
        if (generator == NULL) return nx_read_error(r, begin, "this device has no generator");
        *out = (nx_value){.tag = NX_TAG_GENERATOR, .generator = nx_generator_ref(generator)};
    }
    return NX_OK;
}

nx_status nx_read_value(nx_reader *r, nx_value *out) {
    nx_read_spaces(r);
    const char *word = r->at;
    if (*word == '%') return r->at++, read_node(r, out);
    if (*word == '[') return r->at++, read_int_list(r, out);
    if (*word == '(') return r->at++, read_list(r, out);
    if (*word == '"') {
        char *text;
        NX_TRY(nx_read_string(r, &text));
        *out = nx_value_str(text);
        return NX_OK;
    }
    bool is_number = (strncmp(word, "inf", 3) == 0 || strncmp(word, "nan", 3) == 0) &&
                     !isalnum((unsigned char)word[3]) && word[3] != '_';
    if (is_word_start(*word) && !is_number) return read_word_value(r, out);
    return read_number(r, out);
}

/* Whether the type's elements and bytes can be counted; the first byte past it stays below 2^62. */
static bool is_sane(const nx_meta *meta) {
    int64_t n = 8, reach;
    for (int d = 0; d < meta->ndim; d++) {
        int64_t size = meta->size[d] ? meta->size[d] : 1;
        if (meta->size[d] < 0 || meta->stride[d] < 0 || __builtin_mul_overflow(n, size, &n)) return false;
        if (__builtin_mul_overflow(size, meta->stride[d], &reach) || reach > INT64_C(1) << 56) return false;
    }
    return n < INT64_C(1) << 61 && meta->offset >= 0 && meta->offset < INT64_C(1) << 56;
}

nx_status nx_read_dtype(nx_reader *r, nx_dtype *out) {
    nx_word word;
    nx_read_spaces(r);
    const char *begin = r->at;
    NX_TRY(nx_read_word(r, false, &word));
    return find_dtype(word.at, true, out) ? NX_OK : nx_read_error(r, begin, "'%s' is no element type", word.at);
}

nx_status nx_read_layout(nx_reader *r, nx_meta *out) {
    int n;
    nx_read_spaces(r);
    const char *begin = r->at;
    *out = (nx_meta){.view_of = -1};
    NX_TRY(nx_read_dtype(r, &out->dtype));
    NX_TRY(nx_read_expect(r, '['));
    NX_TRY(nx_read_ints(r, ']', out->size, NX_MAX_DIMS, &out->ndim));
    for (int d = 0; d < out->ndim; d++) {
        if (out->size[d] < 0 || out->size[d] > INT64_C(1) << 56)
            return nx_read_error(r, begin, "size %lld is not possible", (long long)out->size[d]);
    }
    if (!is_sane(out)) return nx_read_error(r, begin, "this type has more elements than can be counted");
    nx_meta_contiguous(out);
    if (*r->at == '{') {
        r->at++;
        NX_TRY(nx_read_ints(r, '}', out->stride, NX_MAX_DIMS, &n));
        if (n != out->ndim) return nx_read_error(r, begin, "%d strides for %d sizes", n, out->ndim);
    }
    return is_sane(out) ? NX_OK : nx_read_error(r, begin, "strides are out of range");
}

nx_status nx_read_type(nx_reader *r, nx_tensor **out) {
    nx_meta meta;
    nx_word word;
    nx_read_spaces(r);
    const char *begin = r->at;
    NX_TRY(nx_read_layout(r, &meta));
    if (*r->at == '+') {
        r->at++;
        NX_TRY(nx_read_int(r, &meta.offset));
    }
    if (!is_sane(&meta)) return nx_read_error(r, begin, "strides or offset are out of range");
    NX_TRY(nx_read_device(r, &meta.device));
    NX_TRY(nx_fake_new(&meta, meta.offset, out));
    nx_status status = NX_OK;
    const char *mark = r->at;
    if (nx_read_peek(r) && nx_read_word(r, false, &word) == NX_OK && strcmp(word.at, "grad") == 0)
        status = nx_tensor_set_requires_grad(*out, true);
    else r->at = mark;
    if (status != NX_OK) {
        nx_tensor_unref(*out);
        *out = NULL;
    }
    return status;
}

static nx_status read_element(nx_reader *r, nx_array *a, int64_t i) {
    nx_value v;
    nx_read_spaces(r);
    const char *begin = r->at;
    if (nx_is_complex(a->dtype)) {
        nx_word word;
        double parts[2];
        NX_TRY(nx_read_word(r, false, &word));
        if (strcmp(word.at, "complex") != 0) return nx_read_error(r, begin, "complex(...) is expected here");
        NX_TRY(read_parts(r, parts));
        v = nx_value_complex(parts);
        nx_number_store(a->dtype, &v, (char *)a->data + i * (int64_t)nx_dtype_bytes(a->dtype));
        return NX_OK;
    }
    if (nx_is_float(a->dtype) && a->dtype != NX_F32 && a->dtype != NX_F64) {
        char *end;
        long most = nx_dtype_bytes(a->dtype) == 1 ? UINT8_MAX : UINT16_MAX;
        long bits = begin[0] == '0' && begin[1] == 'x' && isxdigit((unsigned char)begin[2])
                        ? strtol(begin, &end, 16)
                        : -1;
        if (bits < 0 || bits > most) return nx_read_error(r, begin, "bits are expected here, 0x0000 to 0x%04lx", (unsigned long)most);
        if (most == UINT8_MAX) ((uint8_t *)a->data)[i] = (uint8_t)bits;
        else ((uint16_t *)a->data)[i] = (uint16_t)bits;
        r->at = end;
        return NX_OK;
    }
    NX_TRY(read_number(r, &v));
    double f = v.tag == NX_TAG_FLOAT ? v.f : (double)v.i;
    if (a->dtype == NX_F32) ((float *)a->data)[i] = (float)f;
    else if (a->dtype == NX_F64) ((double *)a->data)[i] = f;
    else if (v.tag == NX_TAG_FLOAT) return nx_read_error(r, begin, "a whole number is expected here");
    else if (a->dtype == NX_BOOL) ((uint8_t *)a->data)[i] = v.i != 0;
    else
        memcpy((char *)a->data + i * (int64_t)nx_dtype_bytes(a->dtype), &v.i,
               nx_dtype_bytes(a->dtype)); /* little endian */
    return NX_OK;
}

nx_status nx_read_elements(nx_reader *r, nx_array *to) {
    NX_TRY(nx_read_expect(r, '['));
    for (int64_t i = 0; i < to->numel; i++) {
        if (i) NX_TRY(nx_read_expect(r, ','));
        NX_TRY(read_element(r, to, i));
    }
    return nx_read_expect(r, ']');
}

nx_status nx_read_constant(nx_reader *r, const nx_array *like, nx_tensor **out) {
    if (like->device.type != 0 || !like->contiguous)
        return nx_read_error(r, r->at, "only a row-major constant on the CPU has its value here");
    if (like->numel > MAX_CONSTANT)
        return nx_read_error(r, r->at, "a constant has at most %d elements here", MAX_CONSTANT);
    NX_TRY(nx_tensor_new((nx_dtype)like->dtype, like->ndim, like->sizes, NX_CPU, out));
    nx_status status = nx_read_elements(r, &(*out)->a);
    if (status == NX_OK) return NX_OK;
    nx_tensor_unref(*out);
    *out = NULL;
    return status;
}
