/* narthex::draw_from: where the CPU's generator stands, as a tensor of bytes, and from where it draws next.
 * In: what an earlier call gave, or nothing. Out: where the numbers stood before; they stand there, or where they stood.
 * The backward of a checkpoint draws the forward's numbers again with it (src/pass/split.c), and goes back. Its place in the order
 * of draws is what counts, so it is one of them (NX_OP_RANDOM). */
#include "dispatch/dispatch.h"

static nx_status shape(const nx_value *in, nx_meta *out) {
    *out = (nx_meta){.dtype = NX_U8, .device = NX_CPU, .ndim = 1, .view_of = -1, .size = {sizeof(nx_generator_place)}, .stride = {1}};
    if (in[0].tag != NX_TAG_TENSOR) return NX_OK;
    const nx_array *place = in[0].array;
    bool fits = place->dtype == NX_U8 && place->numel == (int64_t)sizeof(nx_generator_place) && place->contiguous;
    return fits ? NX_OK : nx_fail(NX_VALUE, "draw_from: it takes what draw_from has given");
}

static nx_status run_draw_from(nx_run *run, const nx_value *in, nx_value *out) {
    nx_generator *generator = nx_generator_default();
    nx_generator_place before, next;
    nx_generator_mark(generator, &before);
    if (in[0].tag == NX_TAG_TENSOR) {
        memcpy(&next, in[0].array->data, sizeof next);
        nx_generator_return(generator, &next);
    }
    memcpy(out[0].array->data, &before, sizeof before);
    return NX_OK;
}

static const nx_param params[] = {{.name = "place", .type = NX_TYPE_TENSOR, .optional = true, .has_initial = true}};
static const nx_op_def def = {.name = "narthex::draw_from",
                              .schema = "narthex::draw_from(Tensor? place=None) -> Tensor",
                              .kind = NX_KIND_KERNEL,
                              .flags = NX_OP_RANDOM,
                              .n_in = 1,
                              .n_out = 1,
                              .params = params,
                              .meta = shape,
                              .kernel = run_draw_from,
                              .nograd = "a place in a row of numbers has no gradient"};

__attribute__((constructor)) static void start(void) {
    nx_status status = nx_library_def(&def);
    (void)status; /* a fixed entry, defined once */
}
