/* The lines of a tile program in the text of print.c. What must hold afterwards, so that the machine (tile.c) may trust
 * it: arrays lie in their operands for the whole index space; each slot that is read holds elements of the dtype that is
 * read; only arrays of the results are written; a fold stands last. */
#include "engine/parse.h"

#include <ctype.h>

enum { MAX_INSTRS = 4096, MAX_CONSTANTS = 4096, SCRATCH_BYTES = 65536, UNKNOWN = -1 };

typedef struct reader {
    nx_reader *r;
    nx__step *step;
    nx__tile head;
    nx__tile_array arrays[NX__MAX_ARRAYS];
    uint64_t numbers[NX__MAX_NUMBERS];
    NX_VEC(nx__tile_instr) instrs;
    NX_VEC(nx_const) constants;
    int64_t total;              /* elements of the index space */
    int holds[NX__MAX_ARRAYS + NX__MAX_REGISTERS + NX__MAX_NUMBERS + 1]; /* by slot: its dtype */
} reader;

static nx_status read_dtype(nx_reader *r, nx_dtype *out) {
    NX_TRY(nx_read_dtype(r, out));
    return nx_is_complex(*out) || nx_is_stored(*out) ? nx_read_error(r, r->at, "the tile machine has no such elements") : NX_OK;
}

/* ---- index space, arrays, numbers -------------------------------------------------------------------- */
static nx_status read_space(reader *s) {
    nx_reader *r = s->r;
    nx__tile *head = &s->head;
    int64_t elements, registers;
    const char *begin = r->at;
    NX_TRY(nx__read_form(r, "over [", NULL));
    NX_TRY(nx_read_ints(r, ']', head->size, NX__MAX_TILE_DIMS, &head->ndim));
    s->total = 1;
    for (int d = 0; d < head->ndim; d++) {
        if (head->size[d] < 1 || __builtin_mul_overflow(s->total, head->size[d], &s->total) || s->total > INT64_C(1) << 56)
            return nx_read_error(r, begin, "this index space is not possible");
    }
    NX_TRY(nx__read_form(r, ", tiles of #", &elements));
    head->cut_rows = nx__accept_word(r, "in rows");
    NX_TRY(nx__read_form(r, ", # registers", &registers));
    if (head->ndim == 0 || elements < 1 || elements > NX__MAX_TILE_ELEMENTS || registers < 0 || registers > NX__MAX_REGISTERS ||
        elements * registers * 8 > SCRATCH_BYTES)
        return nx_read_error(r, begin, "the machine has %d registers of %d bytes in all", NX__MAX_REGISTERS, SCRATCH_BYTES);
    head->elements = (int)elements;
    head->n_registers = (int)registers;
    return nx__end_line(r);
}

static nx_status read_array(reader *s, const char *begin) {
    nx_reader *r = s->r;
    nx__tile_array *array = &s->arrays[s->head.n_arrays];
    nx_dtype dtype;
    int n;
    if (s->head.n_arrays == NX__MAX_ARRAYS) return nx_read_error(r, begin, "at most %d arrays", NX__MAX_ARRAYS);
    NX_TRY(read_dtype(r, &dtype));
    array->dtype = (uint8_t)dtype;
    array->pattern = nx__accept_word(r, "flat") ? NX__FLAT : nx__accept_word(r, "scalar") ? NX__SCALAR : NX__ROWS;
    if (array->pattern == NX__ROWS) {
        NX_TRY(nx__read_form(r, " rows [", NULL));
        NX_TRY(nx_read_ints(r, ']', array->step, NX__MAX_TILE_DIMS, &n));
        if (n != s->head.ndim) return nx_read_error(r, begin, "%d steps for %d dimensions", n, s->head.ndim);
    }
    array->written = nx__accept_word(r, "written");
    s->holds[s->head.n_arrays++] = dtype;
    return nx__end_line(r);
}

static nx_status read_number(reader *s, const char *begin) {
    nx_dtype dtype;
    if (s->head.n_numbers == NX__MAX_NUMBERS) return nx_read_error(s->r, begin, "at most %d numbers", NX__MAX_NUMBERS);
    NX_TRY(read_dtype(s->r, &dtype));
    nx_array one = {.dtype = (uint8_t)dtype, .numel = 1, .data = &s->numbers[s->head.n_numbers++]};
    NX_TRY(nx_read_elements(s->r, &one));
    return nx__end_line(s->r);
}

/* Whether an array of this pattern lies in its operand for the whole index space, or for the results of a fold. */
static bool lies_in(const reader *s, const nx__tile_array *array, const nx_array *operand, int64_t elements) {
    int64_t item = (int64_t)nx_dtype_bytes(array->dtype), last = 0, reach;
    if (array->dtype != operand->dtype) return false;
    if (array->pattern == NX__FLAT) return operand->contiguous ? operand->numel >= elements
                                                               : (int64_t)nx__bytes_of(operand) >= elements * item;
    for (int d = 0; d < s->head.ndim && array->pattern == NX__ROWS; d++) {
        if (array->step[d] < 0 || __builtin_mul_overflow(array->step[d], s->head.size[d] - 1, &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return false;
    }
    return last + item <= (int64_t)nx__bytes_of(operand);
}

/* ---- instructions ------------------------------------------------------------------------------------ */
static int fold_slot(const reader *s) { return s->head.n_arrays + s->head.n_registers + s->head.n_numbers; }

static nx_status read_slot(reader *s, int *out) {
    nx_reader *r = s->r;
    int64_t k = 0;
    nx_read_spaces(r);
    const char *begin = r->at;
    char kind = *begin;
    if (kind == 'f' && !isalnum((unsigned char)begin[1])) {
        r->at++;
        *out = fold_slot(s);
        return NX_OK;
    }
    if (kind == 'a' || kind == 'r' || kind == 'n') {
        r->at++;
        NX_TRY(nx_read_int(r, &k));
    }
    int n = kind == 'a' ? s->head.n_arrays : kind == 'r' ? s->head.n_registers : kind == 'n' ? s->head.n_numbers : 0;
    if (k < 0 || k >= n) return nx_read_error(r, begin, "there is no such slot");
    *out = (int)k + (kind == 'a' ? 0 : kind == 'r' ? s->head.n_arrays : s->head.n_arrays + s->head.n_registers);
    return NX_OK;
}

static bool is_number(const reader *s, int slot) { return slot >= s->head.n_arrays + s->head.n_registers && slot < fold_slot(s); }

static nx_status read_op(reader *s, nx__tile_instr *instr) {
    nx_word word;
    nx_read_spaces(s->r);
    const char *begin = s->r->at;
    NX_TRY(nx_read_word(s->r, true, &word));
    instr->op = nx_op_get(word.at);
    return instr->op ? NX_OK : nx_read_error(s->r, begin, "there is no operator %s", word.at);
}

static nx_status read_constants(reader *s, nx__tile_instr *instr) {
    int n = instr->op->def->point->n_constants;
    instr->constants = (int16_t)s->constants.n;
    if (s->constants.n + n > MAX_CONSTANTS) return nx_read_error(s->r, s->r->at, "at most %d constants", MAX_CONSTANTS);
    for (int k = 0; k < n; k++) {
        nx_value value;
        nx_const to = {0};
        NX_TRY(nx_read_expect(s->r, k ? ',' : '{'));
        NX_TRY(nx_read_value(s->r, &value));
        bool fits = value.tag == NX_TAG_INT || value.tag == NX_TAG_FLOAT;
        if (nx_is_float(instr->dtype)) to.f = value.tag == NX_TAG_INT ? (double)value.i : value.f;
        else to.i = value.i;
        fits = fits && (value.tag == NX_TAG_INT || nx_is_float(instr->dtype));
        nx_value_drop(&value);
        if (!fits) return nx_read_error(s->r, s->r->at, "a number of the loop's type is expected here");
        NX_TRY(nx_vec_push(&s->constants, to));
    }
    return n ? nx_read_expect(s->r, '}') : NX_OK;
}

static nx_status read_point(reader *s, nx__tile_instr *instr) {
    nx_value in[2 * NX_MAX_OPERANDS] = {{0}};
    const char *begin = s->r->at;
    NX_TRY(read_op(s, instr));
    const nx_point *point = instr->op->def->point;
    if (instr->op->def->kind != NX_KIND_POINT || point == NULL || point->n_out != 1 || point->n_in > NX__MAX_TILE_INS ||
        instr->op->def->n_in > NX_COUNT(in) || nx_point_may_fail(point, (nx_dtype)instr->dtype))
        return nx_read_error(s->r, begin, "%s is no instruction", nx_op_name(instr->op));
    nx_read_spaces(s->r);
    char *arm = NULL;
    if (*s->r->at == '"') NX_TRY(nx_read_string(s->r, &arm));
    if (arm && point->n_arms) in[point->arm_param] = nx_value_str(arm);
    instr->loop = nx_point_loop(point, in, (nx_dtype)instr->dtype);
    nx_free(arm);
    if (instr->loop == NULL) return nx_read_error(s->r, begin, "%s has no such loop", nx_op_name(instr->op));
    instr->n_in = (uint8_t)point->n_in;
    return NX_OK;
}

static nx_status read_fold(reader *s, nx__tile_instr *instr) {
    const char *begin = s->r->at;
    NX_TRY(read_op(s, instr));
    if (instr->op->def->kind != NX_KIND_REDUCE || instr->op->def->reduce == NULL)
        return nx_read_error(s->r, begin, "%s folds nothing", nx_op_name(instr->op));
    const nx_reduce_loop *const(*loops)[NX_N_DTYPES] = instr->op->def->reduce->loop;
    instr->fold = loops[nx_level()][instr->dtype];
    if (instr->fold == NULL) instr->fold = loops[NX_LEVEL_BASE][instr->dtype];
    s->head.folds = true;
    return instr->fold ? NX_OK : nx_read_error(s->r, begin, "%s has no such loop", nx_op_name(instr->op));
}

static nx_status read_cast(reader *s, nx__tile_instr *instr) {
    nx_dtype from;
    NX_TRY(read_dtype(s->r, &from));
    instr->from = (uint8_t)from;
    return NX_OK;
}

/* Whether an instruction may read this slot: it holds elements of `dtype`, and the machine has its address. */
static bool may_read(const reader *s, const nx__tile_instr *instr, int slot, nx_dtype dtype) {
    if (is_number(s, slot)) return instr->code == NX__TILE_POINT || instr->code == NX__TILE_CAST;
    if (s->holds[slot] != (int)dtype) return false;
    if (slot == fold_slot(s)) return instr->code != NX__TILE_LOAD;
    if (slot >= s->head.n_arrays) return instr->code == NX__TILE_POINT || instr->code == NX__TILE_CAST;
    nx__pattern pattern = s->arrays[slot].pattern;
    if (instr->code == NX__TILE_LOAD) return pattern == NX__ROWS;
    if (instr->code == NX__TILE_FOLD) return pattern == NX__FLAT;
    return pattern != NX__ROWS || s->head.cut_rows;
}

static bool may_write(const reader *s, const nx__tile_instr *instr, int slot) {
    if (is_number(s, slot)) return false;
    if (slot < s->head.n_arrays)
        return s->arrays[slot].written && s->arrays[slot].pattern == NX__FLAT && s->arrays[slot].dtype == instr->dtype &&
               instr->code != NX__TILE_LOAD;
    return instr->code != NX__TILE_FOLD && (slot != fold_slot(s) || instr->code != NX__TILE_LOAD);
}

static nx_status read_instr(reader *s, int out, const char *begin) {
    static const char *const names[] = {
#define NX_TILE_ROW(code, meaning) #code,
#include "engine/tile.def"
#undef NX_TILE_ROW
    };
    nx__tile_instr instr = {.out = (int16_t)out, .n_in = 1};
    nx_word word;
    nx_dtype dtype;
    int code = 0, slot;
    NX_TRY(nx_read_word(s->r, false, &word));
    while (code < NX__N_TILE_CODES && strcmp(names[code], word.at) != 0) code++;
    if (code == NX__N_TILE_CODES) return nx_read_error(s->r, begin, "'%s' is no instruction", word.at);
    if (s->head.folds || s->instrs.n == MAX_INSTRS) return nx_read_error(s->r, begin, "no instruction may follow");
    instr.code = (uint8_t)code;
    NX_TRY(nx_read_expect(s->r, '.'));
    NX_TRY(read_dtype(s->r, &dtype));
    instr.dtype = (uint8_t)dtype;
    if (code == NX__TILE_POINT) NX_TRY(read_point(s, &instr));
    if (code == NX__TILE_FOLD) NX_TRY(read_fold(s, &instr));
    if (code == NX__TILE_CAST) NX_TRY(read_cast(s, &instr));
    for (int k = 0; k < instr.n_in; k++) {
        NX_TRY(read_slot(s, &slot));
        if (!may_read(s, &instr, slot, (nx_dtype)(code == NX__TILE_CAST ? instr.from : instr.dtype)))
            return nx_read_error(s->r, begin, "operand %d holds no such elements", k);
        instr.in[k] = (int16_t)slot;
    }
    if (code == NX__TILE_POINT) NX_TRY(read_constants(s, &instr));
    if (!may_write(s, &instr, out)) return nx_read_error(s->r, begin, "the result may not lie there");
    s->holds[out] = dtype;
    NX_TRY(nx_vec_push(&s->instrs, instr));
    return nx__end_line(s->r);
}

/* "a0 f32 flat", "n0 f32 [2.0]", or "r0 = ...". *more false: another line. */
static nx_status read_line(reader *s, bool *more) {
    nx_reader *r = s->r;
    const char *begin = r->at;
    int64_t k;
    int slot;
    bool names = strchr("arn", *begin) && *begin && isdigit((unsigned char)begin[1]);
    *more = names || (*begin == 'f' && begin[1] == ' ');
    if (!*more) return NX_OK;
    nx_reader mark = *r;
    if (names) {
        r->at++;
        NX_TRY(nx_read_int(r, &k));
        nx_read_spaces(r);
        if (*r->at != '=' && *begin != 'r') {
            bool fresh = s->instrs.n == 0 && k == (*begin == 'a' ? s->head.n_arrays : s->head.n_numbers);
            if (!fresh) return nx_read_error(r, begin, "another one is expected here");
            return *begin == 'a' ? read_array(s, begin) : read_number(s, begin);
        }
        *r = mark;
    }
    NX_TRY(read_slot(s, &slot));
    NX_TRY(nx_read_expect(r, '='));
    return read_instr(s, slot, begin);
}

/* ---- the whole --------------------------------------------------------------------------------------- */
/* Where each array lies, once it is known which one a fold writes. */
static nx_status check_arrays(reader *s, const char *begin) {
    nx__tile *head = &s->head;
    const nx__tile_instr *last = &s->instrs.at[s->instrs.n - 1];
    int n_in = 1, n_out = 0;
    for (int i = 0; i < head->n_arrays; i++) {
        bool written = s->arrays[i].written, folded = head->folds && last->out == i;
        if (written ? n_out == s->step->n_out : n_in == s->step->n_in) return nx_read_error(s->r, begin, "arrays are no operands");
        const nx_value *operand = written ? &s->step->out[n_out++] : &s->step->in[n_in++];
        if (operand->tag != NX_TAG_TENSOR) return nx_read_error(s->r, begin, "array %d is no operand", i);
        if (folded) {
            head->outer = operand->array->numel;
            if (head->outer < 1 || s->total % head->outer) return nx_read_error(s->r, begin, "the fold has other results");
        }
        if (!lies_in(s, &s->arrays[i], operand->array, folded ? head->outer : s->total))
            return nx_read_error(s->r, begin, "array %d does not lie in its operand", i);
        for (int k = 0; folded && k < s->instrs.n - 1; k++)
            if (s->instrs.at[k].out == i) return nx_read_error(s->r, begin, "array %d has the results of the fold", i);
    }
    if (n_in != s->step->n_in || n_out != s->step->n_out) return nx_read_error(s->r, begin, "operands are no arrays");
    head->inner = s->total / head->outer;
    return NX_OK;
}

static nx_status read_all(reader *s, nx_program *p) {
    const char *begin = s->r->at;
    bool more = true;
    NX_TRY(read_space(s));
    while (more) NX_TRY(read_line(s, &more));
    if (s->instrs.n == 0) return nx_read_error(s->r, begin, "a tile program has instructions");
    NX_TRY(check_arrays(s, begin));
    s->head.n_instrs = s->instrs.n;
    const nx__tile *tile =
        nx__tile_new(p, &s->head, s->arrays, s->instrs.at, s->constants.at, s->constants.n, s->numbers);
    if (tile == NULL) return NX_NO_MEMORY;
    s->step->tile = tile;
    s->step->in[0] = nx_value_ints((const int64_t *)tile, (int)tile->words);
    const nx_op *last = s->instrs.at[s->instrs.n - 1].op;
    s->step->run = (nx_run){.op = last ? last : nx_known(NX_KNOWN_CAST), .device = p->device};
    return NX_OK;
}

nx_status nx__read_tile(nx_reader *r, nx_program *program, nx__step *step) {
    reader *s = nx_alloc_zeroed(sizeof *s);
    if (s == NULL) return nx_fail_memory(sizeof *s);
    s->r = r;
    s->step = step;
    s->head.outer = 1;
    for (int i = 0; i < NX_COUNT(s->holds); i++) s->holds[i] = UNKNOWN;
    nx_status status = read_all(s, program);
    nx_vec_free(&s->instrs);
    nx_vec_free(&s->constants);
    nx_free(s);
    return status;
}
