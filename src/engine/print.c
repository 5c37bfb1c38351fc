/* A program as text for people: what goes in and out, where each buffer lies and how long, and the steps; a
 * tile program instruction by instruction. */
#include "engine/program.h"

static void print_array(nx_text *text, const nx_array *a) {
    nx_text_add(text, "%s", nx_dtype_brief(a->dtype));
    nx_text_add_ints(text, a->sizes, a->ndim);
    if (a->contiguous) return;
    nx_text_add(text, " strides ");
    nx_text_add_ints(text, a->strides, a->ndim);
}

/* "in0", "result1", "feature+64", with "+8" behind it for a view that begins 8 bytes later. */
static void print_place(nx_text *text, const nx_program *p, const nx_tensor *tensor) {
    for (int i = 0; i < p->references.n; i++) {
        const nx__reference *reference = &p->references.at[i];
        if (reference->tensor != tensor) continue;
        const nx__buffer *buffer = &p->buffers.at[reference->buffer];
        if (buffer->space == NX__INPUT) nx_text_add(text, "in%d", buffer->index);
        if (buffer->space == NX__RESULT) nx_text_add(text, "result%d", buffer->index);
        if (buffer->space == NX__CONST) nx_text_add(text, "const+%zu", buffer->offset);
        if (buffer->space == NX__FEATURE) nx_text_add(text, "feature+%zu", buffer->offset);
        if (reference->offset) nx_text_add(text, "+%lld", (long long)reference->offset);
        break;
    }
    nx_text_add(text, ":");
    print_array(text, &tensor->a);
}

static void print_value(nx_text *text, const nx_program *p, const nx_value *value) {
    if (value->tag == NX_TAG_TENSOR) {
        print_place(text, p, value->tensor);
    } else if (value->tag == NX_TAG_LIST) {
        nx_text_add(text, "[");
        for (int i = 0; i < value->n; i++) {
            nx_text_add(text, i ? ", " : "");
            print_value(text, p, &value->list[i]);
        }
        nx_text_add(text, "]");
    } else {
        nx_value_text(value, text);
    }
}

static void print_values(nx_text *text, const nx_program *p, const nx_value *values, int first, int n) {
    for (int i = first; i < n; i++) {
        if (i > first) nx_text_add(text, ", ");
        print_value(text, p, &values[i]);
    }
}

/* a: array, r: register, n: number, f: fold buffer. */
static void print_slot(nx_text *text, const nx__tile *tile, int slot) {
    int registers = tile->n_arrays, numbers = registers + tile->n_registers, fold = numbers + tile->n_numbers;
    if (slot < registers) nx_text_add(text, "a%d", slot);
    else if (slot < numbers) nx_text_add(text, "r%d", slot - registers);
    else if (slot < fold) nx_text_add(text, "n%d", slot - numbers);
    else nx_text_add(text, "f");
}

static void print_tile(nx_text *text, const nx__tile *tile) {
    static const char *const names[] = {
#define NX_TILE_ROW(code, meaning) #code,
#include "engine/tile.def"
#undef NX_TILE_ROW
    };
    static const char *const patterns[] = {[NX__FLAT] = "flat", [NX__SCALAR] = "scalar", [NX__ROWS] = "rows"};
    nx_text_add(text, "      over ");
    nx_text_add_ints(text, tile->size, tile->ndim);
    nx_text_add(text, ", tiles of %d, %d registers\n", tile->elements, tile->n_registers);
    for (int i = 0; i < tile->n_arrays; i++) {
        const nx__tile_array *array = &nx__tile_arrays(tile)[i];
        nx_text_add(text, "      a%d %s %s%s\n", i, nx_dtype_brief(array->dtype), patterns[array->pattern],
                    array->written ? " written" : "");
    }
    for (int i = 0; i < tile->n_instrs; i++) {
        const nx__tile_instr *instr = &nx__tile_instrs(tile)[i];
        nx_text_add(text, "      ");
        print_slot(text, tile, instr->out);
        nx_text_add(text, " = %s.%s", names[instr->code], nx_dtype_brief(instr->dtype));
        if (instr->op) nx_text_add(text, " %s", nx_op_name(instr->op));
        for (int k = 0; k < instr->n_in; k++) {
            nx_text_add(text, " ");
            print_slot(text, tile, instr->in[k]);
        }
        nx_text_add(text, "\n");
    }
}

static void print_outputs(nx_text *text, const nx_program *p) {
    static const char *const forms[] = {[NX__NOTHING] = "nothing",
                                        [NX__FRESH] = "result%d",
                                        [NX__FRESH_VIEW] = "a view of result%d",
                                        [NX__SAME_INPUT] = "in%d itself",
                                        [NX__INPUT_VIEW] = "a view of in%d",
                                        [NX__SAME_OUTPUT] = "the same tensor as out%d"};
    for (int i = 0; i < p->n_outputs; i++) {
        nx_text_add(text, "  out%d is ", i);
        const char *form = forms[p->outputs[i].kind], *number = strstr(form, "%d");
        if (number == NULL) nx_text_add(text, "%s\n", form);
        else nx_text_add(text, "%.*s%d%s\n", (int)(number - form), form, p->outputs[i].index, number + 2);
    }
}

nx_status nx_program_print(const nx_program *p, char **out) {
    nx_text text = {0};
    nx_text_add(&text,
                "program on %s:%d: %d steps, %d of them tile programs; const %zu bytes, feature %zu bytes, "
                "%zu of them alive at once\n",
                nx_device_type_name(p->device.type), p->device.index, p->steps.n, p->n_tile_programs,
                p->const_bytes, p->feature_bytes, p->live_bytes);
    for (int i = 0; i < p->n_inputs; i++) {
        nx_text_add(&text, "  in%d ", i);
        print_array(&text, &p->inputs[i]);
        nx_text_add(&text, "%s\n", p->input_written[i] ? " (written)" : "");
    }
    for (int i = 0; i < p->buffers.n; i++) {
        const nx__buffer *buffer = &p->buffers.at[i];
        if (buffer->space != NX__FEATURE) continue;
        nx_text_add(&text, "  feature+%zu: %zu bytes, steps %d to %d%s\n", buffer->offset, buffer->bytes,
                    buffer->first, buffer->last, buffer->in_place_of >= 0 ? ", in place" : "");
    }
    for (int i = 0; i < p->steps.n; i++) {
        const nx__step *step = &p->steps.at[i];
        nx_text_add(&text, "  %d: ", i);
        print_values(&text, p, step->out, 0, step->n_out);
        nx_text_add(&text, " = %s(", step->tile ? "tile" : nx_op_name(step->run.op));
        print_values(&text, p, step->in, step->tile ? 1 : 0, step->n_in);
        nx_text_add(&text, ")%s\n", step->direct ? " direct" : "");
        if (step->tile) print_tile(&text, step->tile);
    }
    print_outputs(&text, p);
    return nx_text_take(&text, out);
}
