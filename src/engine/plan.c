/* Where intermediates lie: one arena (feature memory), offsets by lifetime. A buffer lives from the step that
 * makes it to the last step that reads it; two that live at the same time do not overlap. A result of an
 * elementwise step takes the memory of an operand that dies there, if every use of that operand in the step
 * has the result's layout, and that of a kernel with an in-place form the memory of its first operand; where it
 * is a result of the program, the operand lies in the result from its beginning. So does a result that the caller
 * copies into an input: it takes the memory of the input that dies there.
 * Larger buffers are placed first, each at the lowest offset that is free for its life. Where very many live at once that search
 * ends, and the rest, the smallest, lie above: those of one size share places. */
#include "engine/program.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

bool nx__same_layout(const nx_array *a, const nx_array *b) {
    return a->dtype == b->dtype && nx_same_size(a, b) && nx_same_strides(a, b);
}

/* ---- in place -------------------------------------------------------------------------------- */
/* Array `at` of a tile program is read last before, or by the loop that writes, array `written`. */
static bool tile_allows(const nx__tile *tile, int at, int written) {
    const nx__tile_instr *instrs = nx__tile_instrs(tile);
    int last_read = -1, write = -1;
    for (int i = 0; i < tile->n_instrs; i++) {
        for (int k = 0; k < instrs[i].n_in; k++) {
            if (instrs[i].in[k] == at) last_read = i;
        }
        if (instrs[i].out == written) write = i;
    }
    if (write < 0 || instrs[write].code != NX__TILE_POINT) return false;
    return last_read <= write && nx__tile_arrays(tile)[at].pattern == NX__FLAT;
}

static int array_index(const nx_value *values, int n, const nx_tensor *tensor) {
    for (int i = 0; i < n; i++) {
        if (values[i].tag == NX_TAG_TENSOR && values[i].tensor == tensor) return i;
    }
    return -1;
}

static bool is_point(const nx__step *step) { return !step->tile && step->run.op->def->kind == NX_KIND_POINT; }

/* A kernel with an in-place form begins with a copy of its first operand, unless it is given that one as its result. */
static bool step_allows(const nx__step *step, const nx_tensor *read, const nx_tensor *written) {
    const nx_op_def *def = step->run.op->def;
    int in = array_index(step->in, step->n_in, read), out = array_index(step->out, step->n_out, written);
    if (in < 0 || out < 0) return false;
    if (step->tile) return tile_allows(step->tile, in - 1, step->n_in - 1 + out);
    bool is_first = in == 0 && array_index(step->in + 1, step->n_in - 1, read) < 0;
    return def->variant == NX_FUNCTIONAL && (def->kind == NX_KIND_POINT || (def->kind == NX_KIND_KERNEL && def->inplace && is_first));
}

/* The references of one step: [begin, end). */
static bool may_replace(const nx_program *p, int begin, int end, const nx__reference *read,
                        const nx__reference *made) {
    const nx__buffer *old = &p->buffers.at[read->buffer], *new = &p->buffers.at[made->buffer];
    bool own_input = old->space == NX__INPUT && new->space == NX__RESULT && new->new_of == old->index + 1;
    if ((old->space != NX__FEATURE && !own_input) || old->last != read->step || (old->first == read->step && !own_input) ||
        old->bytes != new->bytes)
        return false;
    if (!step_allows(&p->steps.at[read->step], read->tensor, made->tensor)) return false;
    for (int i = begin; i < end; i++) {
        const nx__reference *other = &p->references.at[i];
        if (other->buffer != read->buffer || other->tensor == NULL) continue;
        if (other->offset != 0 || !nx__same_layout(&other->tensor->a, &new->fake->a)) return false;
        if (other->tensor != read->tensor && !is_point(&p->steps.at[read->step])) return false;
    }
    return true;
}

/* An intermediate, and those that it follows in place, lie in the memory of a result. */
static void move_to_result(nx_program *p, int intermediate, int result) {
    for (int i = intermediate; i >= 0; i = p->buffers.at[i].in_place_of) {
        p->buffers.at[i].space = NX__RESULT;
        p->buffers.at[i].index = result;
    }
}

/* The new value of an input lies in it, which is what the caller gets. */
static void move_to_input(nx_program *p, nx__buffer *made) {
    made->space = NX__INPUT;
    made->index = made->new_of - 1;
    p->outputs[made->output].space = NX__INPUT;
    p->outputs[made->output].index = made->index;
    p->input_written[made->index] = p->writes_inputs = true;
}

static void find_replaced(nx_program *p, int begin, int end, const nx__reference *made) {
    nx__buffer *buffer = &p->buffers.at[made->buffer];
    bool is_made = buffer->space == NX__FEATURE || buffer->space == NX__RESULT;
    if (!is_made || buffer->first != made->step || buffer->in_place_of >= 0 || buffer->bytes == 0) return;
    for (int i = begin; i < end; i++) {
        const nx__reference *read = &p->references.at[i];
        if (read->tensor == NULL || read->buffer == made->buffer || !may_replace(p, begin, end, read, made))
            continue;
        bool taken = false;
        for (int k = begin; k < end; k++)
            taken = taken || p->buffers.at[p->references.at[k].buffer].in_place_of == read->buffer;
        if (taken) continue;
        if (p->buffers.at[read->buffer].space == NX__INPUT) return move_to_input(p, buffer);
        buffer->in_place_of = read->buffer;
        if (buffer->space == NX__RESULT) move_to_result(p, read->buffer, buffer->index);
        return;
    }
}

static void replace_in_place(nx_program *p) {
    for (int begin = 0, end; begin < p->references.n; begin = end) {
        int step = p->references.at[begin].step;
        for (end = begin; end < p->references.n && p->references.at[end].step == step; end++) {}
        for (int i = begin; i < end && step < p->steps.n; i++) {
            if (p->references.at[i].tensor) find_replaced(p, begin, end, &p->references.at[i]);
        }
    }
}

/* ---- offsets --------------------------------------------------------------------------------- */
typedef struct piece {
    int buffer, first, last;
    size_t bytes, offset;
} piece;

static int by_size(const void *a, const void *b) {
    const piece *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->buffer - y->buffer;
}

static int by_offset(const void *a, const void *b, void *pieces) {
    size_t x = ((const piece *)pieces)[*(const int *)a].offset, y = ((const piece *)pieces)[*(const int *)b].offset;
    return x < y ? -1 : x > y;
}

/* The lowest gap between the n pieces that live at the same time. */
static size_t find_offset(piece *pieces, int *found, int n, const piece *fresh) {
    size_t at = 0;
    qsort_r(found, (size_t)n, sizeof *found, by_offset, pieces);
    for (int i = 0; i < n; i++) {
        const piece *other = &pieces[found[i]];
        if (other->offset >= at + fresh->bytes) break;
        if (other->offset + other->bytes > at) at = other->offset + other->bytes;
    }
    return at;
}

static nx_status round_up(size_t bytes, size_t *out) {
    if (bytes > (SIZE_MAX >> 8))
        return nx_fail(NX_NO_MEMORY, "compile: an intermediate needs %zu bytes", bytes);
    *out = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    return NX_OK;
}

/* One piece for each chain of buffers that follow each other in place. */
static nx_status collect(const nx_program *p, piece *pieces, int *piece_of, int *n) {
    for (int i = 0; i < p->buffers.n; i++) {
        const nx__buffer *buffer = &p->buffers.at[i];
        if (buffer->space != NX__FEATURE) continue;
        if (buffer->in_place_of >= 0) {
            piece_of[i] = piece_of[buffer->in_place_of];
            pieces[piece_of[i]].last = buffer->last;
            continue;
        }
        piece_of[i] = *n;
        pieces[*n] = (piece){.buffer = i, .first = buffer->first, .last = buffer->last};
        NX_TRY(round_up(buffer->bytes, &pieces[(*n)++].bytes));
    }
    return NX_OK;
}

enum { SEARCH = 256 }; /* pieces that are looked at, for each, at most */

static nx_status put(nx_program *p, piece *fresh, size_t offset) {
    size_t end;
    if (__builtin_add_overflow(offset, fresh->bytes, &end) || end > PTRDIFF_MAX)
        return nx_fail(NX_NO_MEMORY, "compile: the intermediates need more memory than can be addressed");
    if (end > p->feature_bytes) p->feature_bytes = end;
    p->buffers.at[fresh->buffer].offset = fresh->offset = offset;
    return NX_OK;
}

static int by_last(const void *a, const void *b, void *pieces) {
    return ((const piece *)pieces)[*(const int *)a].last - ((const piece *)pieces)[*(const int *)b].last;
}

/* Pieces of one size, by their first step: each lies where one lies that has ended, or above all. room: 2n. */
static nx_status place_alike(nx_program *p, piece *pieces, int n, int *room) {
    int *ends = room, *ended = room + n, n_ended = 0, next = 0;
    for (int i = 0; i < n; i++) ends[i] = i;
    qsort_r(ends, (size_t)n, sizeof *ends, by_last, pieces);
    for (int i = 0; i < n; i++) {
        while (pieces[ends[next]].last < pieces[i].first) ended[n_ended++] = ends[next++];
        NX_TRY(put(p, &pieces[i], n_ended ? pieces[ended[--n_ended]].offset : p->feature_bytes));
    }
    return NX_OK;
}

static nx_status place_rest(nx_program *p, piece *pieces, int n) {
    int *room = nx_alloc(2 * sizeof *room * (size_t)(n + 1));
    nx_status status = room ? NX_OK : nx_fail_memory(2 * sizeof *room * (size_t)n);
    for (int begin = 0, end; begin < n && status == NX_OK; begin = end) {
        for (end = begin; end < n && pieces[end].bytes == pieces[begin].bytes; end++) {}
        status = place_alike(p, pieces + begin, end - begin, room);
    }
    nx_free(room);
    return status;
}

/* pieces by size: the largest first. */
static nx_status place_pieces(nx_program *p, piece *pieces, int n, int *found, nx_overlaps *alive) {
    for (int i = 0; i < n; i++) {
        if (nx_overlaps_steps(alive) > (uint64_t)SEARCH * (uint64_t)n) return place_rest(p, pieces + i, n - i);
        int n_found = nx_overlaps_find(alive, pieces[i].first, pieces[i].last, found);
        NX_TRY(put(p, &pieces[i], find_offset(pieces, found, n_found, &pieces[i])));
        NX_TRY(nx_overlaps_add(alive, i, pieces[i].first, pieces[i].last));
    }
    return NX_OK;
}

static nx_status place(nx_program *p, piece *pieces, int n, int *found) {
    nx_overlaps *alive;
    qsort(pieces, (size_t)n, sizeof *pieces, by_size);
    NX_TRY(nx_overlaps_new(p->steps.n + 1, n, &alive));
    nx_status status = place_pieces(p, pieces, n, found, alive);
    p->plan_steps = nx_overlaps_steps(alive);
    nx_overlaps_free(alive);
    for (int i = 0; i < p->buffers.n && status == NX_OK; i++) { /* a replaced buffer stands before the one that replaces it */
        nx__buffer *buffer = &p->buffers.at[i];
        if (buffer->in_place_of >= 0) buffer->offset = p->buffers.at[buffer->in_place_of].offset;
    }
    return status;
}

/* What is alive at each step, from where pieces begin and end. */
static nx_status find_live(nx_program *p, const piece *pieces, int n) {
    size_t bytes = sizeof(int64_t) * ((size_t)p->steps.n + 2);
    int64_t *change = nx_alloc_zeroed(bytes), now = 0;
    if (change == NULL) return nx_fail_memory(bytes);
    for (int i = 0; i < n; i++) {
        change[pieces[i].first] += (int64_t)pieces[i].bytes;
        change[pieces[i].last + 1] -= (int64_t)pieces[i].bytes;
    }
    for (int step = 0; step <= p->steps.n; step++) {
        now += change[step];
        if (now > (int64_t)p->live_bytes) p->live_bytes = (size_t)now;
    }
    nx_free(change);
    return NX_OK;
}

nx_status nx__do_plan(void *program, bool shares) {
    nx_program *p = program;
    size_t n_buffers = (size_t)p->buffers.n,
           bytes = (sizeof(piece) + 2 * sizeof(int)) * n_buffers;
    char *room = nx_alloc(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    piece *pieces = (piece *)room;
    int *piece_of = (int *)(pieces + n_buffers), *found = piece_of + n_buffers, n = 0;
    if (shares) replace_in_place(p);
    nx_status status = collect(p, pieces, piece_of, &n);
    if (status == NX_OK && shares) status = place(p, pieces, n, found);
    for (int i = 0; i < n && status == NX_OK && !shares; i++) status = put(p, &pieces[i], p->feature_bytes);
    if (status == NX_OK) status = find_live(p, pieces, n);
    nx_free(room);
    return status;
}

/* ---- events ---------------------------------------------------------------------------------- */
enum { LATE_BYTES = 256 << 10 };

/* A result of some size is made when the first step that writes it comes: until then others use the memory. */
static nx_status plan_results(nx_program *p, int *first, int *wanted) {
    for (int k = 0; k < p->n_fresh; k++) first[k] = p->steps.n, wanted[k] = false;
    for (int i = 0; i < p->buffers.n; i++) {
        const nx__buffer *buffer = &p->buffers.at[i];
        if (buffer->space != NX__RESULT) continue;
        if (first[buffer->index] > buffer->first) first[buffer->index] = buffer->first;
        if (buffer->bytes < LATE_BYTES) first[buffer->index] = 0; /* not worth the while */
    }
    for (int i = 0; i < p->n_outputs; i++) {
        if (p->outputs[i].meta && p->outputs[i].space == NX__RESULT) wanted[p->outputs[i].index] = true;
    }
    for (int k = 0; k < p->n_fresh; k++) {
        if (!wanted[k]) continue; /* it lies in an input */
        nx__event event = {.what = NX__MAKE, .step = first[k] < p->steps.n ? first[k] : 0, .index = k};
        NX_TRY(nx_vec_push(&p->events, event));
    }
    return NX_OK;
}

/* An input goes after the last step that reads it; those that results show and that are written stay. */
static nx_status plan_releases(nx_program *p, int *stays) {
    for (int i = 0; i < p->n_inputs; i++) stays[i] = p->input_written[i];
    for (int i = 0; i < p->n_outputs; i++) {
        if (p->outputs[i].meta && p->outputs[i].space == NX__INPUT) stays[p->outputs[i].index] = true;
    }
    for (int i = 0; i < p->buffers.n; i++) {
        const nx__buffer *buffer = &p->buffers.at[i];
        if (buffer->space != NX__INPUT || stays[buffer->index]) continue;
        nx__event event = {.what = NX__RELEASE, .step = buffer->last < p->steps.n ? buffer->last + 1 : p->steps.n, .index = buffer->index};
        NX_TRY(nx_vec_push(&p->events, event));
    }
    return NX_OK;
}

static nx_status plan_polls(nx_program *p) {
    int64_t elements = 0;
    for (int i = 0; i < p->steps.n; i++) {
        const nx__step *step = &p->steps.at[i];
        if (elements >= NX_POLL_ELEMENTS) {
            nx__event event = {.what = NX__POLL, .step = i};
            NX_TRY(nx_vec_push(&p->events, event));
            elements = 0;
        }
        elements += NX_POLL_CALL;
        for (int k = 0; k < step->n_in; k++)
            elements += step->in[k].tag == NX_TAG_TENSOR ? step->in[k].array->numel : 0;
    }
    return NX_OK;
}

static int by_step(const void *a, const void *b) {
    const nx__event *x = a, *y = b;
    if (x->step != y->step) return x->step - y->step;
    return x->what != y->what ? (int)x->what - (int)y->what : x->index - y->index;
}

nx_status nx__plan_events(nx_program *p) {
    size_t bytes = sizeof(int) * (size_t)(p->n_inputs + 2 * p->n_fresh + 1);
    int *room = nx_alloc(bytes);
    if (room == NULL) return nx_fail_memory(bytes);
    nx_status status = plan_results(p, room, room + p->n_fresh);
    if (status == NX_OK) status = plan_releases(p, room + 2 * p->n_fresh);
    if (status == NX_OK) status = plan_polls(p);
    if (status == NX_OK && p->events.n) qsort(p->events.at, (size_t)p->events.n, sizeof *p->events.at, by_step);
    nx_free(room);
    return status;
}
