/* narthex::draw_from: where the CPU's generator stands, and that of a device beside it, as a tensor of bytes, and from where they draw
 * next. In: what an earlier call gave, or nothing. Out: where the numbers stood before; they stand there, or where they stood.
 * What computes a part of the forward again draws the forward's numbers with it, and goes back: checkpoints (src/pass/split.c),
 * branches and loops (src/pass/control.c). Its place in the order of draws is what counts, so it is one of them (NX_OP_RANDOM). */
#include "dispatch/dispatch.h"

typedef struct place { nx_generator_place cpu; uint64_t words[2]; } place; /* words: of the device, where there is one */

static size_t place_bytes(const nx_value *beside) {
    return beside->tag == NX_TAG_STR ? sizeof(place) : sizeof(nx_generator_place);
}

static nx_status shape(const nx_value *in, nx_meta *out) {
    int64_t bytes = (int64_t)place_bytes(&in[1]);
    *out = (nx_meta){.dtype = NX_U8, .device = NX_CPU, .ndim = 1, .view_of = -1, .size = {bytes}, .stride = {1}};
    if (in[0].tag != NX_TAG_TENSOR) return NX_OK;
    const nx_array *given = in[0].array;
    bool fits = given->dtype == NX_U8 && given->numel == bytes && given->contiguous;
    return fits ? NX_OK : nx_fail(NX_VALUE, "draw_from: it takes what draw_from has given");
}

static nx_status run_draw_from(nx_run *run, const nx_value *in, nx_value *out) {
    nx_generator *cpu = nx_generator_default(), *other = NULL;
    place before, next;
    nx_device device;
    if (in[1].tag == NX_TAG_STR) {
        NX_TRY(nx_device_parse(in[1].str, &device));
        if (!(other = nx_device_generator(device))) return nx_fail(NX_RUNTIME, "draw_from: %s draws no numbers", in[1].str);
        nx_generator_get_words(other, before.words);
    }
    nx_generator_mark(cpu, &before.cpu);
    if (in[0].tag == NX_TAG_TENSOR) {
        memcpy(&next, in[0].array->data, place_bytes(&in[1]));
        bool moves = nx_generator_is_place(&next.cpu); /* a plan is measured on zeros, which are none: it draws on */
        if (moves) nx_generator_return(cpu, &next.cpu);
        if (moves && other) nx_generator_set_words(other, next.words);
    }
    memcpy(out[0].array->data, &before, place_bytes(&in[1]));
    return NX_OK;
}

/* beside: the name of a device. */
static const nx_param params[] = {{.name = "place", .type = NX_TYPE_TENSOR, .optional = true, .has_initial = true},
                                  {.name = "beside", .type = NX_TYPE_STR, .optional = true, .has_initial = true}};
static const nx_op_def def = {.name = "narthex::draw_from",
                              .schema = "narthex::draw_from(Tensor? place=None, str? beside=None) -> Tensor",
                              .kind = NX_KIND_KERNEL,
                              .flags = NX_OP_RANDOM,
                              .n_in = 2,
                              .n_out = 1,
                              .params = params,
                              .meta = shape,
                              .kernel = run_draw_from,
                              .nograd = "a place in a row of numbers has no gradient"};

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_def(&def);
    (void)status; /* a fixed entry, defined once */
}
