/* The text of print.c read back: nx_program_parse. In: any text at all. Out: a program whose operands lie in their
 * buffers, whose steps are calls that their operators' shape rules allow, and whose loops are those of this machine's
 * level; or an error with line and column. What is not in the text follows from it, as after lowering
 * (nx__program_finish). Next: parse_tile.c. */
#include "engine/parse.h"

#include <ctype.h>
#include <limits.h>

enum { MAX_LINES = 1 << 21, MAX_RESULTS = 32, MAX_LIST = 1 << 16, MAX_DEPTH = 16 };

typedef struct parser {
    nx_reader r;
    nx_program *p;
    const nx_device_api *api;  /* NULL on the CPU */
    int first_feature;         /* buffers from here on are intermediates */
} parser;

nx_status nx__read_form(nx_reader *r, const char *form, int64_t *numbers) {
    for (; *form; form++) {
        if (*form == ' ') nx_read_spaces(r);
        else if (*form == '#') NX_TRY(nx_read_int(r, numbers++));
        else if (*r->at == *form) r->at++;
        else return nx_read_error(r, r->at, "'%s' is expected here", form);
    }
    return NX_OK;
}

bool nx__accept_word(nx_reader *r, const char *word) {
    nx_read_spaces(r);
    size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

nx_status nx__end_line(nx_reader *r) {
    nx_read_spaces(r);
    if (*r->at != '\n' && *r->at != '\0') return nx_read_error(r, r->at, "the end of the line is expected here");
    nx_read_blank(r);
    return NX_OK;
}

/* ---- layouts ----------------------------------------------------------------------------------------- */
static nx_status read_layout(parser *s, nx_meta *meta) {
    NX_TRY(nx_read_layout(&s->r, meta));
    meta->device = s->p->device;
    nx_read_spaces(&s->r);
    if (s->p->device.type != 0 && strncmp(s->r.at, "cpu", 3) == 0) NX_TRY(nx_read_device(&s->r, &meta->device));
    return NX_OK;
}

static void array_of(nx_meta *meta, nx_array *out) {
    *out = (nx_array){.sizes = meta->size, .strides = meta->stride, .dtype = (uint8_t)meta->dtype,
                      .ndim = (uint8_t)meta->ndim, .device = meta->device};
    nx_array_refresh(out);
}

static bool reaches(const nx_array *a, int64_t offset, size_t bytes) {
    size_t own = nx__bytes_of(a);
    return own == 0 || (offset >= 0 && own <= bytes && (size_t)offset <= bytes - own);
}

/* ---- what goes in and lies there --------------------------------------------------------------------- */
static nx_status read_input(parser *s, int64_t index) {
    nx_program *p = s->p;
    nx_meta meta;
    nx_array a;
    if (index != p->n_inputs) return nx_read_error(&s->r, s->r.at, "input %d is expected here", p->n_inputs);
    NX_TRY(read_layout(s, &meta));
    array_of(&meta, &a);
    int64_t *dims = nx__keep(p, 2 * sizeof *dims * a.ndim);
    if (dims == NULL) return NX_NO_MEMORY;
    nx_array_copy(&p->inputs[p->n_inputs], &a, dims);
    p->inputs[p->n_inputs].data = NULL;
    if (nx__accept_word(&s->r, "written")) p->input_written[p->n_inputs] = p->writes_inputs = true;
    NX_TRY(nx__buffer_add(p, NX__INPUT, p->n_inputs++, nx__bytes_of(&a), NULL));
    return nx__end_line(&s->r);
}

static nx_status read_constant(parser *s) {
    nx_program *p = s->p;
    nx_meta meta;
    nx_array a;
    nx_tensor *constant;
    int64_t offset;
    NX_TRY(nx__read_form(&s->r, "+# ", &offset));
    if (offset < 0 || (size_t)offset != p->const_bytes)
        return nx_read_error(&s->r, s->r.at, "this constant lies at %zu", p->const_bytes);
    NX_TRY(nx_read_layout(&s->r, &meta));
    array_of(&meta, &a);
    NX_TRY(nx__read_form(&s->r, " = ", NULL));
    if (*s->r.at == '.') return nx_read_error(&s->r, s->r.at, "the elements of this constant are not in the text");
    NX_TRY(nx_read_constant(&s->r, &a, &constant));
    nx_status status = nx__constant_add(p, constant, NULL);
    nx_tensor_unref(constant);
    return status == NX_OK ? nx__end_line(&s->r) : status;
}

static nx_status read_fresh(parser *s, int64_t index) {
    nx_program *p = s->p;
    nx_array a;
    nx_meta *meta = nx__keep(p, sizeof *meta);
    if (meta == NULL) return NX_NO_MEMORY;
    if (index != p->n_fresh) return nx_read_error(&s->r, s->r.at, "result %d is expected here", p->n_fresh);
    NX_TRY(read_layout(s, meta));
    array_of(meta, &a);
    NX_TRY(nx__buffer_add(p, NX__RESULT, p->n_fresh, nx__bytes_of(&a), NULL));
    NX_TRY(nx_layout_start(&p->fresh[p->n_fresh++], meta));
    p->buffers.at[p->buffers.n - 1].first = INT_MAX; /* the first step that has it as an operand */
    return nx__end_line(&s->r);
}

static nx_status read_feature(parser *s) {
    nx_program *p = s->p;
    int64_t n[4];
    const char *begin = s->r.at;
    NX_TRY(nx__read_form(&s->r, "+#: # bytes, steps # to #", n));
    bool sane = n[0] >= 0 && n[1] >= 0 && n[2] >= 0 && n[2] <= n[3] && n[3] <= MAX_LINES;
    if (!sane || (size_t)n[0] > p->feature_bytes || (size_t)n[1] > p->feature_bytes - (size_t)n[0])
        return nx_read_error(&s->r, begin, "this does not lie in %zu bytes", p->feature_bytes);
    bool in_place = nx__accept_word(&s->r, ", in place");
    NX_TRY(nx__buffer_add(p, NX__FEATURE, -1, (size_t)n[1], NULL));
    nx__buffer *buffer = &p->buffers.at[p->buffers.n - 1];
    buffer->offset = (size_t)n[0];
    buffer->first = (int)n[2];
    buffer->last = (int)n[3];
    if (in_place) buffer->in_place_of = p->buffers.n - 1; /* which one it follows, nobody asks any more */
    return nx__end_line(&s->r);
}

/* ---- operands ---------------------------------------------------------------------------------------- */
/* Of two intermediates that share a place in one step, the later one is made there and the earlier one read. */
static int find_feature(const parser *s, int64_t offset, bool made) {
    const nx_program *p = s->p;
    int found = -1;
    for (int i = s->first_feature; i < p->buffers.n; i++) {
        const nx__buffer *b = &p->buffers.at[i];
        if ((int64_t)b->offset != offset || b->first > p->steps.n || b->last < p->steps.n) continue;
        if (found < 0 || (p->buffers.at[found].first < b->first) == made) found = i;
    }
    return found;
}

static int find_buffer(const parser *s, nx__space space, int64_t number, bool made) {
    const nx_program *p = s->p;
    if (space == NX__FEATURE) return find_feature(s, number, made);
    for (int i = 0; i < s->first_feature; i++) {
        const nx__buffer *b = &p->buffers.at[i];
        if (b->space == space && number == (space == NX__CONST ? (int64_t)b->offset : b->index)) return i;
    }
    return -1;
}

/* "in0+8:f32[2]" behind its first word. */
static nx_status read_operand(parser *s, nx__space space, bool made, const char *begin, nx_value *out) {
    nx_program *p = s->p;
    int64_t number, offset = 0;
    nx_meta meta;
    nx_array a;
    bool by_offset = space == NX__CONST || space == NX__FEATURE;
    NX_TRY(nx__read_form(&s->r, by_offset ? "+#" : "#", &number));
    if (*s->r.at == '+') NX_TRY(nx__read_form(&s->r, "+#", &offset));
    NX_TRY(nx__read_form(&s->r, ":", NULL));
    NX_TRY(read_layout(s, &meta));
    array_of(&meta, &a);
    int buffer = find_buffer(s, space, number, made);
    if (buffer < 0) return nx_read_error(&s->r, begin, "nothing lies there at this step");
    if (!reaches(&a, offset, p->buffers.at[buffer].bytes)) return nx_read_error(&s->r, begin, "this reaches out of its memory");
    if (made && space == NX__CONST) return nx_read_error(&s->r, begin, "a constant is not written");
    if (made && space == NX__INPUT && !p->input_written[p->buffers.at[buffer].index])
        return nx_read_error(&s->r, begin, "this input is not written");
    int last = p->buffers.at[buffer].last;
    nx_tensor *operand = nx__operand_new(p, &a, buffer, offset);
    if (operand == NULL) return NX_NO_MEMORY;
    nx__buffer *b = &p->buffers.at[buffer];
    if (space == NX__FEATURE) b->last = last;
    else if (b->first > p->steps.n) b->first = p->steps.n;
    *out = nx_value_tensor(operand);
    return NX_OK;
}

static nx_status read_value(parser *s, bool made, int depth, nx_value *out);

static nx_status read_list(parser *s, int depth, nx_value *out) {
    NX_VEC(nx_value) list = {0};
    nx_value value;
    nx_status status = NX_OK;
    if (depth == MAX_DEPTH) return nx_read_error(&s->r, s->r.at, "lists are nested deeper than %d", MAX_DEPTH);
    if (!nx_read_accept(&s->r, ')')) {
        do {
            if (list.n == MAX_LIST) NX_TRY_FAIL(nx_read_error(&s->r, s->r.at, "a list has at most %d values", MAX_LIST));
            NX_TRY_FAIL(read_value(s, false, depth + 1, &value));
            NX_TRY_FAIL(nx_vec_push(&list, value));
        } while (nx_read_accept(&s->r, ','));
        NX_TRY_FAIL(nx_read_expect(&s->r, ')'));
    }
    nx_value *kept = nx__keep(s->p, sizeof *kept * (size_t)list.n);
    if (kept == NULL) status = NX_NO_MEMORY;
    else if (list.n) memcpy(kept, list.at, sizeof *kept * (size_t)list.n);
    if (kept) *out = nx_value_list(kept, list.n);
fail:
    nx_vec_free(&list);
    return status;
}

static nx_status read_value(parser *s, bool made, int depth, nx_value *out) {
    static const struct { const char *word; nx__space space; } places[] = {
        {"in", NX__INPUT}, {"const+", NX__CONST}, {"feature+", NX__FEATURE}, {"result", NX__RESULT},
    };
    nx_value value;
    nx_read_spaces(&s->r);
    const char *begin = s->r.at;
    for (int i = 0; i < NX_COUNT(places); i++) {
        size_t n = strlen(places[i].word);
        if (strncmp(begin, places[i].word, n) != 0 || !isdigit((unsigned char)begin[n])) continue;
        s->r.at += n - (begin[n - 1] == '+');
        return read_operand(s, places[i].space, made, begin, out);
    }
    if (!made && nx_read_accept(&s->r, '(')) return read_list(s, depth, out);
    NX_TRY(nx_read_value(&s->r, &value));
    nx_status status = nx__value_keep(s->p, &value, out);
    nx_value_drop(&value);
    if (status == NX_OK && made && out->tag != NX_TAG_NONE) return nx_read_error(&s->r, begin, "a result is an operand");
    return status == NX_NOT_IMPLEMENTED ? nx_read_error(&s->r, begin, "this cannot be an argument") : status;
}

/* ---- steps ------------------------------------------------------------------------------------------- */
static bool same_form(const nx_meta *meta, const nx_value *out) {
    if (meta->absent || out->tag != NX_TAG_TENSOR) return meta->absent && out->tag == NX_TAG_NONE;
    const nx_array *a = out->array;
    bool same = a->dtype == meta->dtype && a->ndim == meta->ndim;
    for (int d = 0; same && d < a->ndim; d++) same = a->sizes[d] == meta->size[d];
    return same;
}

/* The kernels trust their arguments: these are what the operator accepts, and the results what it makes of them. */
static nx_status check_call(parser *s, const nx__step *step, const char *begin) {
    const nx_op_def *def = step->run.op->def;
    nx_meta metas[MAX_RESULTS];
    if (nx_args_check(step->run.op, step->in, step->n_in, NX_TAG_TENSOR) != NX_OK)
        return nx_read_error(&s->r, begin, "%s", nx_error_message());
    if (def->flags & (NX_OP_DATA_SIZED | NX_OP_LIST) || def->kind == NX_KIND_VIEW || def->n_out > MAX_RESULTS ||
        step->n_out != def->n_out)
        return nx_read_error(&s->r, begin, "%s makes no such step", def->name);
    if (nx_op_meta(step->run.op, step->in, metas) != NX_OK) return nx_read_error(&s->r, begin, "%s", nx_error_message());
    for (int k = 0; k < step->n_out; k++) {
        if (!same_form(&metas[k], &step->out[k])) return nx_read_error(&s->r, begin, "result %d of %s is another", k, def->name);
    }
    return NX_OK;
}

/* What an operator writes are its results: the same operands. */
static nx_status take_written(parser *s, nx__step *step, const char *begin) {
    int k = 0;
    for (uint64_t left = nx_op_written(step->run.op); left; left &= left - 1, k++) {
        const nx_value *in = &step->in[__builtin_ctzll(left)];
        if (in->tag != NX_TAG_TENSOR) return nx_read_error(&s->r, begin, "it writes something that is no operand");
        for (int i = 0; i < s->p->references.n; i++) {
            const nx__reference *reference = &s->p->references.at[i];
            if (reference->tensor != in->tensor) continue;
            const nx__buffer *b = &s->p->buffers.at[reference->buffer];
            if (b->space == NX__CONST || (b->space == NX__INPUT && !s->p->input_written[b->index]))
                return nx_read_error(&s->r, begin, "it writes what is not to be written");
        }
        if (k < step->n_out) step->out[k] = *in;
    }
    return NX_OK;
}

/* Values up to `close`, in the program's memory, behind `before` that are None. */
static nx_status read_values(parser *s, bool made, char close, int before, nx_value **out, int *n) {
    NX_VEC(nx_value) list = {0};
    nx_status status = NX_OK;
    for (int i = 0; i < before; i++) NX_TRY_FAIL(nx_vec_push(&list, NX_VALUE_NONE));
    if (!nx_read_accept(&s->r, close)) {
        do {
            nx_value value;
            if (list.n == MAX_LIST) NX_TRY_FAIL(nx_read_error(&s->r, s->r.at, "too many"));
            NX_TRY_FAIL(read_value(s, made, 0, &value));
            NX_TRY_FAIL(nx_vec_push(&list, value));
        } while (nx_read_accept(&s->r, ','));
        NX_TRY_FAIL(nx_read_expect(&s->r, close));
    }
    *n = list.n;
    *out = nx__keep(s->p, sizeof **out * (size_t)list.n);
    if (*out == NULL) status = NX_NO_MEMORY;
    else if (list.n) memcpy(*out, list.at, sizeof **out * (size_t)list.n);
fail:
    nx_vec_free(&list);
    return status;
}

/* first: of the references that the results have, which are the arguments' own where the operator writes these. */
static nx_status read_call(parser *s, nx__step *step, const char *begin, const nx_op *op, int first) {
    step->run = (nx_run){.op = op, .device = s->p->device};
    if (op->def->flags & NX_OP_MUTATES) s->p->references.n = first;
    NX_TRY(read_values(s, false, ')', 0, &step->in, &step->n_in));
    if (op->def->flags & NX_OP_MUTATES) NX_TRY(take_written(s, step, begin));
    NX_TRY(check_call(s, step, begin));
    if (nx__kernel_find(s->api, op, &step->kernel) != NX_OK) return nx_read_error(&s->r, begin, "%s", nx_error_message());
    if (!nx__accept_word(&s->r, "direct")) return nx__end_line(&s->r);
    NX_TRY(nx__direct_make(s->p, step));
    return step->direct ? nx__end_line(&s->r) : nx_read_error(&s->r, begin, "this step cannot be direct");
}

typedef struct range { nx__space space; int index; size_t begin, end; } range;

static range range_of(const nx_program *p, const nx__reference *reference) {
    const nx__buffer *b = &p->buffers.at[reference->buffer];
    size_t begin = (b->space == NX__FEATURE ? b->offset : 0) + (size_t)reference->offset;
    return (range){b->space, b->space == NX__FEATURE ? 0 : b->index, begin, begin + nx__bytes_of(&reference->tensor->a)};
}

/* A result lies apart from what the step reads, or exactly where one operand of a pointwise step lies. first: of the step's
 * references. */
static nx_status check_apart(parser *s, const nx__step *step, int first, const char *begin) {
    const nx_program *p = s->p;
    bool points = step->tile || step->run.op->def->kind == NX_KIND_POINT;
    if (!step->tile && step->run.op->def->flags & NX_OP_MUTATES) return NX_OK; /* an operand, and the kernel looks at others */
    for (int i = first; i < p->references.n; i++) {
        const nx__reference *made = &p->references.at[i], *other = made;
        bool is_result = false;
        for (int k = 0; k < step->n_out; k++) is_result = is_result || (made->tensor && step->out[k].tensor == made->tensor);
        if (!is_result) continue;
        range a = range_of(p, made);
        for (other = p->references.at + first; other < p->references.at + p->references.n; other++) {
            if (other == made || other->tensor == NULL) continue;
            range b = range_of(p, other);
            if (a.space != b.space || a.index != b.index || a.end <= b.begin || b.end <= a.begin) continue;
            if (!points || a.begin != b.begin || !nx__same_layout(&made->tensor->a, &other->tensor->a))
                return nx_read_error(&s->r, begin, "a result lies where something is read");
        }
    }
    return NX_OK;
}

static nx_status read_step(parser *s) {
    nx_program *p = s->p;
    nx__step step = {0};
    nx_word word;
    int64_t number;
    const char *begin = s->r.at;
    int first = p->references.n;
    NX_TRY(nx__read_form(&s->r, "#: ", &number));
    if (number != p->steps.n) return nx_read_error(&s->r, begin, "step %d is expected here", p->steps.n);
    NX_TRY(read_values(s, true, '=', 0, &step.out, &step.n_out));
    nx_read_spaces(&s->r);
    const char *name = s->r.at;
    NX_TRY(nx_read_word(&s->r, true, &word));
    NX_TRY(nx_read_expect(&s->r, '('));
    if (strcmp(word.at, "tile") == 0) {
        NX_TRY(read_values(s, false, ')', 1, &step.in, &step.n_in));
        NX_TRY(nx__end_line(&s->r));
        NX_TRY(nx__read_tile(&s->r, p, &step));
        step.kernel = s->api ? s->api->find_kernel(s->api->context, "narthex::tile") : NULL;
        if (step.kernel == NULL) step.kernel = nx__tile_kernel;
        p->n_tile_programs++;
    } else {
        const nx_op *op = nx_op_get(word.at);
        if (op == NULL) return nx_read_error(&s->r, name, "there is no operator %s", word.at);
        NX_TRY(read_call(s, &step, name, op, first));
    }
    NX_TRY(check_apart(s, &step, first, name));
    return nx_vec_push(&p->steps, step);
}

/* ---- results ----------------------------------------------------------------------------------------- */
static nx_status copy_meta(parser *s, const nx_array *a, nx__output *output) {
    nx_meta *meta = nx__keep(s->p, sizeof *meta);
    if (meta == NULL) return NX_NO_MEMORY;
    nx_meta_of(a, meta);
    output->meta = meta;
    return NX_OK;
}

static nx_status read_view(parser *s, nx__output *output, const nx__buffer *buffer, const char *begin) {
    nx_array a;
    int64_t offset = 0;
    nx_meta *meta = nx__keep(s->p, sizeof *meta);
    if (meta == NULL) return NX_NO_MEMORY;
    if (*s->r.at == '+') NX_TRY(nx__read_form(&s->r, "+#", &offset));
    NX_TRY(nx__read_form(&s->r, ":", NULL));
    NX_TRY(read_layout(s, meta));
    array_of(meta, &a);
    int64_t item = (int64_t)nx_dtype_bytes(a.dtype);
    if (offset < 0 || offset % item || !reaches(&a, offset, buffer->bytes))
        return nx_read_error(&s->r, begin, "this reaches out of its memory");
    meta->offset = offset / item;
    output->meta = meta;
    return NX_OK;
}

/* The first that is this result. */
static bool is_own(const nx_program *p, int output) {
    const nx__output *own = &p->outputs[output];
    return own->meta && own->space == NX__RESULT && !own->view && nx__output_find_same(p, output) < 0;
}

static nx_status read_output(parser *s, int64_t number) {
    nx_program *p = s->p;
    nx_reader *r = &s->r;
    nx__output *output = &p->outputs[p->n_outputs];
    const char *begin = r->at;
    int64_t index = -1;
    if (number != p->n_outputs) return nx_read_error(r, begin, "out%d is expected here", p->n_outputs);
    NX_TRY(nx__read_form(r, " is ", NULL));
    if (nx__accept_word(r, "nothing")) {
        output->meta = NULL;
    } else if (nx__accept_word(r, "the same tensor as out")) {
        NX_TRY(nx_read_int(r, &index));
        if (index < 0 || index >= p->n_outputs || !is_own(p, (int)index))
            return nx_read_error(r, begin, "this is no result of its own");
        *output = p->outputs[index];
    } else {
        bool view = nx__accept_word(r, "a view of ");
        bool input = !nx__accept_word(r, "result");
        NX_TRY(nx__read_form(r, input ? "in#" : "#", &index));
        if (index < 0 || index >= (input ? p->n_inputs : p->n_fresh)) return nx_read_error(r, begin, "there is no such tensor");
        *output = (nx__output){.space = input ? NX__INPUT : NX__RESULT, .index = (int)index, .view = view};
        int buffer = find_buffer(s, input ? NX__INPUT : NX__RESULT, index, false);
        if (view) NX_TRY(read_view(s, output, &p->buffers.at[buffer], begin));
        else NX_TRY(copy_meta(s, input ? &p->inputs[index] : &p->fresh[index].array, output));
        if (input && !view) NX_TRY(nx__read_form(r, " itself", NULL));
        if (nx__output_find_same(p, p->n_outputs) >= 0) return nx_read_error(r, begin, "result%d is given out twice", (int)index);
    }
    p->n_outputs++;
    return nx__end_line(r);
}

/* ---- the whole --------------------------------------------------------------------------------------- */
static nx_status read_head(parser *s, int64_t n[6]) {
    nx_program *p = s->p;
    nx_read_blank(&s->r);
    NX_TRY(nx__read_form(&s->r, "program on ", NULL));
    NX_TRY(nx_read_device(&s->r, &p->device));
    const char *begin = s->r.at;
    NX_TRY(nx__read_form(&s->r, ": # steps, # of them tile programs; const # bytes, feature # bytes, # of them alive at once", n));
    for (int i = 0; i < 5; i++)
        if (n[i] < 0) return nx_read_error(&s->r, begin, "these numbers are counts");
    p->feature_bytes = (size_t)n[3];
    p->live_bytes = (size_t)n[4];
    if (p->device.type != 0 && (s->api = nx_device_get_api(p->device.type)) == NULL)
        return nx_read_error(&s->r, begin, "this device is not loaded");
    return nx__end_line(&s->r);
}

static nx_status read_lines(parser *s) {
    nx_reader *r = &s->r;
    int64_t number;
    while (nx__accept_word(r, "in")) {
        NX_TRY(nx_read_int(r, &number));
        NX_TRY(read_input(s, number));
    }
    while (nx__accept_word(r, "const")) NX_TRY(read_constant(s));
    while (nx__accept_word(r, "result")) {
        NX_TRY(nx_read_int(r, &number));
        NX_TRY(read_fresh(s, number));
    }
    s->first_feature = s->p->buffers.n;
    while (nx__accept_word(r, "feature")) NX_TRY(read_feature(s));
    while (isdigit((unsigned char)*r->at)) NX_TRY(read_step(s));
    while (nx__accept_word(r, "out")) {
        NX_TRY(nx_read_int(r, &number));
        NX_TRY(read_output(s, number));
    }
    return *r->at ? nx_read_error(r, r->at, "a line of a program is expected here") : NX_OK;
}

static nx_status read_program(parser *s) {
    nx_program *p = s->p;
    int64_t n[6];
    int lines = 1;
    for (const char *at = s->r.at; *at && lines <= MAX_LINES; at++) lines += *at == '\n';
    if (lines > MAX_LINES) return nx_read_error(&s->r, s->r.at, "a program has at most %d lines", MAX_LINES);
    NX_TRY(read_head(s, n));
    NX_TRY(nx__program_room(p, lines, lines, lines));
    NX_TRY(read_lines(s));
    if (n[0] != p->steps.n || n[1] != p->n_tile_programs || n[2] != (int64_t)p->const_bytes)
        return nx_read_error(&s->r, s->r.at, "steps, tile programs or bytes of constants are not as many as the first line says");
    NX_TRY(nx__program_finish(p));
    return p->n_constants ? nx__program_set_const_base(p, NULL, 0) : NX_OK;
}

nx_status nx_program_parse(const char *text, nx_program **out) {
    if (text == NULL || out == NULL) return nx_fail(NX_VALUE, "program text: a text is needed");
    parser s = {.r = {.what = "program", .at = text, .line_start = text, .line = 1}};
    if ((s.p = nx_alloc_zeroed(sizeof *s.p)) == NULL) return nx_fail_memory(sizeof *s.p);
    nx_status status = read_program(&s);
    if (status == NX_OK) *out = s.p;
    else nx_program_free(s.p);
    return status;
}
