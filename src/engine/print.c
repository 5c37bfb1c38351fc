/* A program as text, which parse.c reads back: what goes in and out, where each buffer lies and how long, and the
 * steps; a tile program instruction by instruction:
 *     program on cpu:0: 1 steps, 1 of them tile programs; const 0 bytes, feature 0 bytes, 0 of them alive at once
 *       in0 f32[4, 300]
 *       result0 f32[4, 300]
 *       0: result0:f32[4, 300] = tile(in0:f32[4, 300])
 *           over [1200], tiles of 2048 in rows, 1 registers
 *           a0 f32 flat
 *           a1 f32 flat written
 *           n0 f32 2.0
 *           r0 = POINT.f32 aten::mul.Tensor a0 n0
 *           a1 = POINT.f32 aten::add.Tensor r0 a0 {1.0}
 *       out0 is result0
 * A layout is dtype[sizes]{strides, when not row-major}, with the device where it is not the program's. An operand is
 * a place and a layout; "+8" behind a place: 8 bytes further. A point's constants stand in braces, a cast's source type
 * behind its own. A constant of up to 64 elements on the CPU has its elements, of a larger one "..." is kept. */
#include "engine/program.h"

enum { MAX_INLINE = 64 };

static void print_array(nx_text *text, const nx_program *p, const nx_array *a) {
    nx_write_layout(text, a);
    if (nx_device_same(a->device, p->device)) return;
    nx_text_add(text, " ");
    nx_text_device(text, a->device);
}

static void print_meta(nx_text *text, const nx_program *p, const nx_meta *meta) {
    nx_array a = {.dtype = (uint8_t)meta->dtype, .ndim = (uint8_t)meta->ndim, .device = meta->device,
                  .sizes = (int64_t *)meta->size, .strides = (int64_t *)meta->stride};
    print_array(text, p, &a);
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
    print_array(text, p, &tensor->a);
}

static void print_value(nx_text *text, const nx_program *p, const nx_value *value) {
    if (value->tag == NX_TAG_TENSOR) {
        print_place(text, p, value->tensor);
    } else if (value->tag == NX_TAG_LIST) {
        nx_text_add(text, "(");
        for (int i = 0; i < value->n; i++) {
            nx_text_add(text, i ? ", " : "");
            print_value(text, p, &value->list[i]);
        }
        nx_text_add(text, ")");
    } else {
        nx_write_value(text, value);
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

/* The dtype that the first instruction which reads a number takes it for. */
static nx_dtype number_dtype(const nx__tile *tile, int slot) {
    for (int i = 0; i < tile->n_instrs; i++) {
        const nx__tile_instr *instr = &nx__tile_instrs(tile)[i];
        for (int k = 0; k < instr->n_in; k++) {
            if (instr->in[k] == slot) return (nx_dtype)(instr->code == NX__TILE_CAST ? instr->from : instr->dtype);
        }
    }
    return NX_F32;
}

static void print_number(nx_text *text, const nx__tile *tile, int at) {
    nx_dtype dtype = number_dtype(tile, tile->n_arrays + tile->n_registers + at);
    nx_array one = {.dtype = (uint8_t)dtype, .numel = 1, .data = (uint64_t *)tile + tile->numbers + at};
    nx_text_add(text, "      n%d %s ", at, nx_dtype_brief(dtype));
    nx_write_elements(text, &one);
    nx_text_add(text, "\n");
}

static void print_constants(nx_text *text, const nx__tile *tile, const nx__tile_instr *instr) {
    const nx_const *constants = (const nx_const *)((const uint64_t *)tile + tile->constants) + instr->constants;
    int n = instr->op->def->point->n_constants;
    if (n == 0) return;
    nx_text_add(text, " {");
    for (int k = 0; k < n; k++) {
        nx_value value = nx_is_float(instr->dtype) ? nx_value_float(constants[k].f) : nx_value_int(constants[k].i);
        nx_text_add(text, k ? ", " : "");
        nx_write_value(text, &value);
    }
    nx_text_add(text, "}");
}

/* The text that chose the loop, where one did. */
static void print_arm(nx_text *text, const nx__tile_instr *instr) {
    const nx_point *point = instr->op->def->point;
    for (int k = 1; k < point->n_arms; k++) {
        nx_value in[2 * NX_MAX_OPERANDS] = {{0}};
        in[point->arm_param] = nx_value_str(point->arms[k]);
        if (nx_point_loop(point, in, (nx_dtype)instr->dtype) != instr->loop) continue;
        nx_text_add(text, " ");
        nx_write_value(text, &in[point->arm_param]);
        return;
    }
}

static void print_instr(nx_text *text, const nx__tile *tile, const nx__tile_instr *instr) {
    static const char *const names[] = {
#define NX_TILE_ROW(code, meaning) #code,
#include "engine/tile.def"
#undef NX_TILE_ROW
    };
    nx_text_add(text, "      ");
    print_slot(text, tile, instr->out);
    nx_text_add(text, " = %s.%s", names[instr->code], nx_dtype_brief(instr->dtype));
    if (instr->code == NX__TILE_CAST) nx_text_add(text, " %s", nx_dtype_brief(instr->from));
    if (instr->op) nx_text_add(text, " %s", nx_op_name(instr->op));
    if (instr->code == NX__TILE_POINT) print_arm(text, instr);
    for (int k = 0; k < instr->n_in; k++) {
        nx_text_add(text, " ");
        print_slot(text, tile, instr->in[k]);
    }
    if (instr->code == NX__TILE_POINT) print_constants(text, tile, instr);
    nx_text_add(text, "\n");
}

static void print_tile(nx_text *text, const nx__tile *tile) {
    static const char *const patterns[] = {[NX__FLAT] = "flat", [NX__SCALAR] = "scalar", [NX__ROWS] = "rows"};
    nx_text_add(text, "      over ");
    nx_text_add_ints(text, tile->size, tile->ndim);
    nx_text_add(text, ", tiles of %d%s, %d registers\n", tile->elements, tile->cut_rows ? " in rows" : "", tile->n_registers);
    for (int i = 0; i < tile->n_arrays; i++) {
        const nx__tile_array *array = &nx__tile_arrays(tile)[i];
        nx_text_add(text, "      a%d %s %s", i, nx_dtype_brief(array->dtype), patterns[array->pattern]);
        if (array->pattern == NX__ROWS) {
            nx_text_add(text, " ");
            nx_text_add_ints(text, array->step, tile->ndim);
        }
        nx_text_add(text, array->written ? " written\n" : "\n");
    }
    for (int k = 0; k < tile->n_numbers; k++) print_number(text, tile, k);
    for (int i = 0; i < tile->n_instrs; i++) print_instr(text, tile, &nx__tile_instrs(tile)[i]);
}

static void print_outputs(nx_text *text, const nx_program *p) {
    for (int i = 0; i < p->n_outputs; i++) {
        const nx__output *output = &p->outputs[i];
        int same = nx__output_find_same(p, i);
        bool input = output->space == NX__INPUT;
        nx_text_add(text, "  out%d is ", i);
        if (output->meta == NULL) nx_text_add(text, "nothing");
        else if (same >= 0) nx_text_add(text, "the same tensor as out%d", same);
        else nx_text_add(text, "%s%s%d", output->view ? "a view of " : "", input ? "in" : "result", output->index);
        if (output->meta && input && !output->view) nx_text_add(text, " itself");
        if (output->view) {
            long long offset = output->meta->offset * (long long)nx_dtype_bytes(output->meta->dtype);
            nx_text_add(text, offset ? "+%lld:" : ":", offset);
            print_meta(text, p, output->meta);
        }
        nx_text_add(text, "\n");
    }
}

static void print_constant(nx_text *text, const nx_program *p, int index) {
    const nx_tensor *constant = p->constants[index];
    const nx_array *a = &constant->a;
    nx_text_add(text, "  const+%zu ", p->buffers.at[p->constant_buffers[index]].offset);
    nx_write_layout(text, a);
    nx_text_add(text, " = ");
    if (a->device.type == 0 && a->contiguous && a->numel <= MAX_INLINE) nx_write_elements(text, a);
    else nx_text_add(text, "...");
    nx_text_add(text, "\n");
}

static void print_buffers(nx_text *text, const nx_program *p) {
    for (int i = 0; i < p->n_inputs; i++) {
        nx_text_add(text, "  in%d ", i);
        print_array(text, p, &p->inputs[i]);
        nx_text_add(text, "%s\n", p->input_written[i] ? " written" : "");
    }
    for (int i = 0; i < p->n_constants; i++) print_constant(text, p, i);
    for (int i = 0; i < p->n_fresh; i++) {
        nx_text_add(text, "  result%d ", i);
        print_array(text, p, &p->fresh[i].array);
        nx_text_add(text, "\n");
    }
    for (int i = 0; i < p->buffers.n; i++) {
        const nx__buffer *buffer = &p->buffers.at[i];
        if (buffer->space != NX__FEATURE) continue;
        nx_text_add(text, "  feature+%zu: %zu bytes, steps %d to %d%s\n", buffer->offset, buffer->bytes,
                    buffer->first, buffer->last, buffer->in_place_of >= 0 ? ", in place" : "");
    }
}

nx_status nx_program_print(const nx_program *p, char **out) {
    nx_text text = {0};
    nx_text_add(&text,
                "program on %s:%d: %d steps, %d of them tile programs; const %zu bytes, feature %zu bytes, "
                "%zu of them alive at once\n",
                nx_device_type_name(p->device.type), p->device.index, p->steps.n, p->n_tile_programs,
                p->const_bytes, p->feature_bytes, p->live_bytes);
    print_buffers(&text, p);
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
