/* A region of point operators, with an optional reduction at its end, as one tile program (tile.c runs it).
 * First the index space and the arrays that come in and go out, then the instructions, then registers. What
 * can be a member is said by the pass (src/pass/form.c). Members that together do not fit the machine (odd
 * layouts, too many arrays) are left to be lowered in parts; until then nothing has been changed. What must hold:
 * each element is computed by the loops that eager mode calls, and a fold takes the chunks that the reduction
 * kernel takes, so that the results are the same bits. */
#include "engine/program.h"

enum { NUMBER = NX__MAX_ARRAYS, FOLD = NUMBER + NX__MAX_NUMBERS, VIRTUAL = FOLD + 1, MAX_VIRTUAL = 30000 };
enum { MIN_ROW = 128, MIN_TILE = 256, REGISTER_BYTES = 16384 };
enum { COSTLY = 16, MAX_FIRST = 3 }; /* additions; members that are computed before their turn, each holds a register */

typedef struct array {
    nx__value value;         /* of one that is read */
    const nx_node *node;     /* of one that is written */
    int64_t step[NX_MAX_DIMS];
    nx__pattern pattern;
    bool load;               /* must be gathered into a register */
    int loaded, cast;        /* slots that hold it already, -1: none */
    nx_dtype cast_to;
} array;
/* A result is cast to its dtype when somebody wants it so. */
typedef struct member {
    nx_form form;
    int computed;            /* slot in the computing dtype */
    int slot;                /* in the result's dtype, -1: not yet */
    int cast;                /* in cast_to, -1 */
    nx_dtype cast_to;
} member;
typedef struct builder {
    nx__lower *l;
    nx_node *const *members;
    member info[NX_REGION_MAX_NODES];
    int n_members, n_points;
    const nx_node *fold;     /* the reduction at the end, NULL */
    const nx_array *space;   /* layout of the first member's result */
    int ndim;
    int64_t size[NX_MAX_DIMS];
    int n_read, n_arrays, n_numbers, n_virtual;
    array arrays[NX__MAX_ARRAYS];
    uint64_t numbers[NX__MAX_NUMBERS];
    NX_VEC(nx__tile_instr) instrs;
    NX_VEC(nx_const) constants;
    bool cut_rows;
    int n_registers, elements;
    nx_status status;        /* a failure that is no reason to go on unfused: memory */
} builder;

/* While a program is built: node->data is the place among the members plus one. */
static member *info_of(builder *b, const nx_node *node) { return &b->info[(intptr_t)node->data - 1]; }
static nx_dtype dtype_of(const nx_node *node) { return node->fakes[0]->a.dtype; }
static bool is_member(const nx_node *node) { return node->data != NULL; }

static bool leaves(const nx_node *node) {
    for (const nx_use *use = node->uses; use; use = use->next) {
        if (!is_member(use->user)) return true;
    }
    return false;
}

static const nx_value *operand(builder *b, const nx_node *node, int k) {
    return nx_form_operand(&info_of(b, node)->form, node, k);
}

static bool fits(builder *b) {
    const nx_node *last = b->members[b->n_members - 1];
    if (b->n_members > NX_REGION_MAX_NODES) return false;
    for (int i = 0; i < b->n_members; i++) {
        b->info[i] = (member){nx_node_form(b->members[i]), -1, -1, -1, NX_F32};
        b->members[i]->data = (void *)(intptr_t)(i + 1);
    }
    b->fold = b->info[b->n_members - 1].form.kind == NX_FORM_FOLD ? last : NULL;
    b->n_points = b->n_members - (b->fold != NULL);
    if (b->n_points == 0 || (b->fold && !is_member(b->fold->args[0].node))) return false;
    b->space = &(b->fold ? b->fold->args[0].node : b->members[0])->fakes[0]->a;
    for (int i = 0; i < b->n_points; i++) {
        nx_form_kind kind = b->info[i].form.kind;
        if (kind != NX_FORM_POINT && kind != NX_FORM_CAST) return false;
        if (!nx_same_size(&b->members[i]->fakes[0]->a, b->space)) return false;
        if (!nx_device_same(b->members[i]->fakes[0]->a.device, b->l->program->device)) return false;
    }
    return true;
}

/* ---- index space and arrays ------------------------------------------------------------------ */
/* Dimensions in the order in which elements are walked: the layout's own, row-major for a fold. */
static void order_dims(const builder *b, int *order, int *n) {
    *n = 0;
    for (int d = 0; d < b->space->ndim; d++) {
        if (b->space->sizes[d] == 1) continue;
        int at = (*n)++;
        while (at > 0 && !b->fold && b->space->strides[order[at - 1]] < b->space->strides[d]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = d;
    }
}

static void fill_steps(const builder *b, const nx_array *a, const int *order, int n, int64_t *step) {
    int64_t item = (int64_t)nx_dtype_bytes(a->dtype);
    int missing = b->space->ndim - a->ndim;
    for (int k = 0; k < n; k++) {
        int d = order[k] - missing;
        step[k] = d < 0 || a->sizes[d] == 1 ? 0 : a->strides[d] * item;
    }
}

/* Nodes share fakes: the place tells their values apart. */
static bool same_array(const nx__value *a, const nx__value *b) {
    return a->buffer == b->buffer && a->offset == b->offset && a->fake == b->fake;
}

static bool add_read(builder *b, const nx_value *ref) {
    if (is_member(b->l->nodes[b->l->root[ref->node->order]])) return false; /* a view of an inner value */
    nx__value value = nx__value_of(b->l, ref);
    if (value.buffer < 0) return false;
    for (int i = 0; i < b->n_arrays; i++) {
        if (same_array(&b->arrays[i].value, &value)) return true;
    }
    if (b->n_arrays == NX__MAX_ARRAYS) return false;
    b->arrays[b->n_arrays++] = (array){.value = value, .loaded = -1, .cast = -1};
    return true;
}

static bool collect_arrays(builder *b) {
    for (int i = 0; i < b->n_points; i++) {
        for (int k = 0; k < nx_form_n_operands(&b->info[i].form, b->members[i]); k++) {
            const nx_value *arg = operand(b, b->members[i], k);
            if (arg->tag == NX_TAG_NODE && !is_member(arg->node) && !add_read(b, arg)) return false;
        }
    }
    b->n_read = b->n_arrays;
    for (int i = 0; i < b->n_members; i++) {
        const nx_node *node = b->members[i];
        if (node != b->fold && !leaves(node)) continue;
        if (b->n_arrays == NX__MAX_ARRAYS) return false;
        b->arrays[b->n_arrays++] = (array){.node = node, .value.fake = node->fakes[0]};
    }
    return true;
}

static bool may_merge(const builder *b, const int64_t *size, int k) {
    for (int i = 0; i < b->n_arrays; i++) {
        const array *a = &b->arrays[i];
        if (a->node && a->node == b->fold) continue;
        if (a->step[k] != a->step[k + 1] * size[k + 1]) return false;
    }
    return true;
}

/* Joins neighbouring dimensions that every array walks as one. */
static void merge_dims(builder *b, const int64_t *size, int n) {
    b->ndim = 0;
    for (int k = 0; k < n; k++) {
        bool merge = k > 0 && may_merge(b, size, k - 1);
        int to = merge ? b->ndim - 1 : b->ndim++;
        b->size[to] = merge ? b->size[to] * size[k] : size[k];
        for (int i = 0; i < b->n_arrays; i++) b->arrays[i].step[to] = b->arrays[i].step[k];
    }
    if (b->ndim > 0) return;
    b->ndim = 1; /* one element */
    b->size[0] = 1;
    for (int i = 0; i < b->n_arrays; i++)
        b->arrays[i].step[0] = (int64_t)nx_dtype_bytes(b->arrays[i].value.fake->a.dtype);
}

static nx__pattern pattern_of(const builder *b, const array *a) {
    int64_t expected = (int64_t)nx_dtype_bytes(a->value.fake->a.dtype);
    bool flat = true, scalar = true;
    for (int d = b->ndim - 1; d >= 0; d--) {
        flat = flat && a->step[d] == expected;
        scalar = scalar && a->step[d] == 0;
        expected *= b->size[d];
    }
    return flat ? NX__FLAT : scalar ? NX__SCALAR : NX__ROWS;
}

/* With other elements between those of a row: loops would take them one by one. */
static bool lies_apart(const builder *b, const array *a) {
    int64_t step = a->step[b->ndim - 1];
    return step != 0 && step != (int64_t)nx_dtype_bytes(a->value.fake->a.dtype);
}

static bool lay_out(builder *b) {
    int order[NX_MAX_DIMS], n;
    int64_t size[NX_MAX_DIMS];
    order_dims(b, order, &n);
    for (int k = 0; k < n; k++) size[k] = b->space->sizes[order[k]];
    for (int i = 0; i < b->n_arrays; i++) {
        array *a = &b->arrays[i];
        if (a->node == NULL || a->node != b->fold) fill_steps(b, &a->value.fake->a, order, n, a->step);
    }
    merge_dims(b, size, n);
    if (b->ndim > NX__MAX_TILE_DIMS) return false;
    b->cut_rows = b->ndim == 1 || b->size[b->ndim - 1] >= MIN_ROW;
    for (int i = 0; i < b->n_arrays; i++) {
        array *a = &b->arrays[i];
        a->pattern = a->node && a->node == b->fold ? NX__FLAT : pattern_of(b, a);
        if (a->node && a->pattern != NX__FLAT) return false;
        a->load = a->pattern == NX__ROWS && (!b->cut_rows || lies_apart(b, a));
    }
    return true;
}

/* ---- instructions ---------------------------------------------------------------------------- */
static bool emit(builder *b, nx__tile_instr instr) {
    b->status = nx_vec_push(&b->instrs, instr);
    return b->status == NX_OK;
}

static int new_virtual(builder *b) { return b->n_virtual < MAX_VIRTUAL ? VIRTUAL + b->n_virtual++ : -1; }

static int emit_cast(builder *b, int slot, nx_dtype from, nx_dtype to, int into) {
    if (from == to && into < 0) return slot;
    if (into < 0) into = new_virtual(b);
    nx__tile_instr cast = {.code = NX__TILE_CAST,
                           .dtype = (uint8_t)to,
                           .from = (uint8_t)from,
                           .n_in = 1,
                           .out = (int16_t)into,
                           .in = {(int16_t)slot}};
    return into >= 0 && emit(b, cast) ? into : -1;
}

static int read_array(builder *b, int at, nx_dtype as) {
    array *a = &b->arrays[at];
    nx_dtype dtype = a->value.fake->a.dtype;
    if (a->load && a->loaded < 0) {
        a->loaded = new_virtual(b);
        nx__tile_instr load = {.code = NX__TILE_LOAD,
                               .dtype = (uint8_t)dtype,
                               .n_in = 1,
                               .out = (int16_t)a->loaded,
                               .in = {(int16_t)at}};
        if (a->loaded < 0 || !emit(b, load)) return -1;
    }
    if (as == dtype) return a->load ? a->loaded : at;
    if (a->cast < 0 || a->cast_to != as) {
        a->cast = emit_cast(b, a->load ? a->loaded : at, dtype, as, -1);
        a->cast_to = as;
    }
    return a->cast;
}

static int read_number(builder *b, const nx_value *number, nx_dtype through, nx_dtype as) {
    uint64_t bits = nx__number_bits(number, through);
    if (through != as) nx_cast(as, (char *)&bits, 0, through, (char *)&(uint64_t){bits}, 0, 1);
    for (int i = 0; i < b->n_numbers; i++) {
        if (b->numbers[i] == bits) return NUMBER + i;
    }
    if (b->n_numbers == NX__MAX_NUMBERS) return -1;
    b->numbers[b->n_numbers] = bits;
    return NUMBER + b->n_numbers++;
}

/* The array that an operand from outside lies in, -1. */
static int array_of(const builder *b, const nx_value *arg) {
    const nx__value value = nx__value_of(b->l, arg);
    for (int i = 0; i < b->n_read; i++) {
        if (same_array(&b->arrays[i].value, &value)) return i;
    }
    return -1;
}

/* Its slot in the result's dtype; -1: no room. */
static int member_slot(builder *b, const nx_node *node) {
    member *m = info_of(b, node);
    if (m->slot < 0) m->slot = emit_cast(b, m->computed, m->form.computing, dtype_of(node), -1);
    return m->slot;
}

/* What a comparison computes is 0 or 1, which no cast to bool and back changes. */
static int read_member(builder *b, const nx_node *node, nx_dtype as) {
    member *m = info_of(b, node);
    if (as == dtype_of(node)) return member_slot(b, node);
    if (as == m->form.computing && dtype_of(node) == NX_BOOL && m->form.kind == NX_FORM_POINT) return m->computed;
    if (m->cast >= 0 && m->cast_to == as) return m->cast;
    int slot = member_slot(b, node);
    m->cast_to = as;
    return m->cast = slot < 0 ? -1 : emit_cast(b, slot, dtype_of(node), as, -1);
}

static int read_as(builder *b, const nx_value *arg, nx_dtype as) {
    if (is_member(arg->node)) return read_member(b, arg->node, as);
    int at = array_of(b, arg);
    return at < 0 ? -1 : read_array(b, at, as);
}

/* Operand k of a member as its loop takes it: rounded to the operands' common dtype, unless the operator's entry says
 * that a number is exact (src/iter/point.c). */
static int read_operand(builder *b, const nx_node *node, int k) {
    const nx_form *form = &info_of(b, node)->form;
    const nx_value *arg = operand(b, node, k);
    bool number = arg->tag != NX_TAG_NODE || nx__fake_of(arg)->a.numel == 1;
    bool exact = form->kind == NX_FORM_POINT && number && node->op->def->point->exact >> k & 1;
    nx_dtype through = exact || form->common == form->computing ? form->computing : form->common;
    if (arg->tag != NX_TAG_NODE) return read_number(b, arg, through, form->computing);
    int slot = read_as(b, arg, through);
    return slot < 0 || through == form->computing ? slot : emit_cast(b, slot, through, form->computing, -1);
}

static int written_slot(const builder *b, const nx_node *node) {
    for (int i = b->n_read; i < b->n_arrays; i++) {
        if (b->arrays[i].node == node) return i;
    }
    return -1;
}

static bool add_constants(builder *b, const nx_node *node, const nx_form *form) {
    nx_const constants[8];
    nx__point_constants(node, form->computing, constants);
    for (int k = 0; k < node->op->def->point->n_constants; k++) {
        if ((b->status = nx_vec_push(&b->constants, constants[k])) != NX_OK) return false;
    }
    return b->constants.n <= INT16_MAX;
}

/* Where a member's result goes in its own dtype: to its array, to be folded, -1: anywhere. */
static int wanted_slot(const builder *b, const nx_node *node) {
    int out = written_slot(b, node);
    bool folded = b->fold && b->fold->args[0].node == node && dtype_of(node) == dtype_of(b->fold);
    return out >= 0 ? out : folded ? FOLD : -1;
}

static bool emit_cast_member(builder *b, const nx_node *node, int wanted) {
    member *m = info_of(b, node);
    const nx_value *arg = operand(b, node, 0);
    nx_dtype from = nx__fake_of(arg)->a.dtype;
    int slot = read_as(b, arg, from);
    m->slot = m->computed = slot < 0 ? -1 : emit_cast(b, slot, from, dtype_of(node), wanted);
    return m->slot >= 0;
}

static bool emit_point(builder *b, const nx_node *node, int wanted) {
    member *m = info_of(b, node);
    const nx_form *form = &m->form;
    bool same = form->computing == dtype_of(node);
    nx__tile_instr instr = {.code = NX__TILE_POINT,
                            .dtype = (uint8_t)form->computing,
                            .n_in = (uint8_t)nx_form_n_operands(form, node),
                            .op = node->op,
                            .loop = form->loop,
                            .constants = (int16_t)b->constants.n};
    for (int k = 0; k < instr.n_in; k++) {
        int slot = read_operand(b, node, k);
        if (slot < 0) return false;
        instr.in[k] = (int16_t)slot;
    }
    if (!add_constants(b, node, form)) return false;
    m->computed = same && wanted >= 0 ? wanted : new_virtual(b);
    instr.out = (int16_t)m->computed;
    if (m->computed < 0 || !emit(b, instr)) return false;
    if (same) m->slot = m->computed;
    else if (wanted >= 0) m->slot = emit_cast(b, m->computed, form->computing, dtype_of(node), wanted);
    return same || wanted < 0 || m->slot >= 0;
}

static bool emit_member(builder *b, const nx_node *node) {
    int wanted = wanted_slot(b, node);
    return info_of(b, node)->form.kind == NX_FORM_CAST ? emit_cast_member(b, node, wanted) : emit_point(b, node, wanted);
}

/* The fold reads its chunk from an array, or from the buffer of folds. */
static bool emit_fold(builder *b) {
    const nx_node *from = b->fold->args[0].node;
    nx_dtype dtype = dtype_of(b->fold);
    int slot = member_slot(b, from);
    bool lies_right = dtype_of(from) == dtype && (slot == FOLD || slot < NUMBER);
    if (slot >= 0 && !lies_right) slot = emit_cast(b, slot, dtype_of(from), dtype, FOLD);
    if (slot < 0) return false;
    return emit(b, (nx__tile_instr){.code = NX__TILE_FOLD,
                                    .dtype = (uint8_t)dtype,
                                    .n_in = 1,
                                    .out = (int16_t)written_slot(b, b->fold),
                                    .in = {(int16_t)slot},
                                    .op = b->fold->op,
                                    .fold = info_of(b, b->fold)->form.fold});
}

/* Whether a member computes long and reads arrays alone, one of them before any other such member. */
static bool goes_first(builder *b, const nx_node *node, uint64_t *seen) {
    static_assert(NX__MAX_ARRAYS <= 64, "a bit for each");
    uint64_t reads = 0;
    if (info_of(b, node)->form.kind != NX_FORM_POINT || node->op->def->point->cost < COSTLY) return false;
    for (int k = 0; k < node->op->def->point->n_in; k++) {
        const nx_value *arg = operand(b, node, k);
        if (arg->tag != NX_TAG_NODE) continue;
        int at = is_member(arg->node) ? -1 : array_of(b, arg);
        if (at < 0) return false;
        if (b->arrays[at].pattern == NX__FLAT) reads |= UINT64_C(1) << at;
    }
    if (!(reads & ~*seen)) return false;
    *seen |= reads;
    return true;
}

/* Arrays come from memory while something long is computed from them, where there is such a thing: it need not wait for
 * each element, as a sum of two arrays must. */
static bool emit_all(builder *b) {
    uint64_t seen = 0;
    for (int i = 0, n = 0; i < b->n_points && n < MAX_FIRST; i++) {
        if (!goes_first(b, b->members[i], &seen)) continue;
        if (!emit_member(b, b->members[i])) return false;
        n++;
    }
    for (int i = 0; i < b->n_points; i++) {
        if (b->info[i].computed < 0 && !emit_member(b, b->members[i])) return false;
    }
    return b->fold == NULL || emit_fold(b);
}

/* ---- registers ------------------------------------------------------------------------------- */
/* Slots as tile.c numbers them: arrays, registers, numbers, fold buffer. */
static int final_slot(const builder *b, int slot, const int *register_of) {
    if (slot < NUMBER) return slot;
    if (slot < FOLD) return b->n_arrays + b->n_registers + slot - NUMBER;
    if (slot == FOLD) return b->n_arrays + b->n_registers + b->n_numbers;
    return b->n_arrays + register_of[slot - VIRTUAL];
}

static void release_dying(const nx__tile_instr *instr, int at, const int *last, const int *register_of,
                          uint32_t *used) {
    for (int k = 0; k < instr->n_in; k++) {
        int v = instr->in[k] - VIRTUAL;
        if (v >= 0 && last[v] == at) *used &= ~(UINT32_C(1) << register_of[v]);
    }
}

static bool assign(builder *b, const int *last, int *register_of) {
    uint32_t used = 0;
    for (int i = 0; i < b->instrs.n; i++) {
        const nx__tile_instr *instr = &b->instrs.at[i];
        int out = instr->out - VIRTUAL;
        /* A loop may write over its operand; a cast may not, its elements differ in size. */
        if (instr->code == NX__TILE_POINT) release_dying(instr, i, last, register_of, &used);
        if (out >= 0) {
            int free = __builtin_ctz(~used);
            if (free >= NX__MAX_REGISTERS) return false;
            used |= UINT32_C(1) << free;
            register_of[out] = free;
            if (free >= b->n_registers) b->n_registers = free + 1;
        }
        if (instr->code != NX__TILE_POINT) release_dying(instr, i, last, register_of, &used);
        if (out >= 0 && last[out] < 0) used &= ~(UINT32_C(1) << register_of[out]);
    }
    return true;
}

static bool assign_registers(builder *b) {
    int *last = nx_alloc(2 * sizeof *last * (size_t)(b->n_virtual + 1)),
        *register_of = last + b->n_virtual + 1;
    if (last == NULL) {
        b->status = nx_fail_memory(2 * sizeof *last * (size_t)(b->n_virtual + 1));
        return false;
    }
    for (int v = 0; v < b->n_virtual; v++) last[v] = -1;
    for (int i = 0; i < b->instrs.n; i++) {
        for (int k = 0; k < b->instrs.at[i].n_in; k++) {
            if (b->instrs.at[i].in[k] >= VIRTUAL) last[b->instrs.at[i].in[k] - VIRTUAL] = i;
        }
    }
    bool fits = assign(b, last, register_of);
    for (int i = 0; fits && i < b->instrs.n; i++) {
        nx__tile_instr *instr = &b->instrs.at[i];
        instr->out = (int16_t)final_slot(b, instr->out, register_of);
        for (int k = 0; k < instr->n_in; k++)
            instr->in[k] = (int16_t)final_slot(b, instr->in[k], register_of);
    }
    nx_free(last);
    b->elements = NX__MAX_TILE_ELEMENTS;
    while (b->elements > MIN_TILE && b->elements * b->n_registers * 8 > REGISTER_BYTES) b->elements /= 2;
    return fits;
}

/* ---- the step -------------------------------------------------------------------------------- */
static nx__tile *new_tile(builder *b) {
    nx__tile_array arrays[NX__MAX_ARRAYS] = {{0}};
    nx__tile head = {.ndim = b->ndim,
                     .elements = b->elements,
                     .outer = b->fold ? b->fold->fakes[0]->a.numel : 1,
                     .inner = b->space->numel,
                     .n_arrays = b->n_arrays,
                     .n_registers = b->n_registers,
                     .n_numbers = b->n_numbers,
                     .n_instrs = b->instrs.n,
                     .cut_rows = b->cut_rows,
                     .folds = b->fold != NULL};
    head.inner /= head.outer;
    memcpy(head.size, b->size, sizeof *b->size * (size_t)b->ndim);
    for (int i = 0; i < b->n_arrays; i++) {
        arrays[i].dtype = b->arrays[i].value.fake->a.dtype;
        arrays[i].pattern = (uint8_t)b->arrays[i].pattern;
        arrays[i].written = b->arrays[i].node != NULL;
        memcpy(arrays[i].step, b->arrays[i].step, sizeof *arrays[i].step * (size_t)b->ndim);
    }
    return nx__tile_new(b->l->program, &head, arrays, b->instrs.at, b->constants.at, b->constants.n, b->numbers);
}

static nx_status make_step(builder *b, nx_kernel_fn *kernel) {
    nx_program *p = b->l->program;
    const nx__tile *tile = new_tile(b);
    nx__step step = {.kernel = kernel, .n_in = 1 + b->n_read, .n_out = b->n_arrays - b->n_read, .tile = tile};
    if (tile == NULL) return NX_NO_MEMORY;
    step.run = (nx_run){.op = b->members[b->n_members - 1]->op, .device = p->device};
    step.in = nx__keep(p, sizeof *step.in * (size_t)(step.n_in + step.n_out));
    if (step.in == NULL) return NX_NO_MEMORY;
    step.out = step.in + step.n_in;
    step.in[0] = nx_value_ints((const int64_t *)tile, (int)tile->words);
    for (int i = 0; i < b->n_arrays; i++) {
        const array *a = &b->arrays[i];
        nx__value value = a->value;
        if (a->node) {
            NX_TRY(nx__buffer_new(b->l, a->node, 0));
            value = (nx__value){p->buffers.n - 1, 0, a->node->fakes[0]};
        }
        nx_tensor *operand = nx__operand_new(p, &value.fake->a, value.buffer, value.offset);
        if (operand == NULL) return NX_NO_MEMORY;
        step.in[1 + i] = nx_value_tensor(operand); /* the results stand behind the arguments */
    }
    p->n_tile_programs++;
    return nx_vec_push(&p->steps, step);
}

/* A device that computes these operators by the CPU's own kernels reaches the same memory as these, so that
 * the tile machine, which calls the same loops, runs there too. Another device may bring a tile machine of
 * its own. */
static nx_kernel_fn *find_machine(const nx_device_api *api, nx_node *const *members, int n) {
    if (api == NULL) return nx__tile_kernel;
    nx_kernel_fn *own = api->find_kernel(api->context, "narthex::tile");
    for (int i = 0; i < n && own == NULL; i++) {
        const nx_op_def *def = members[i]->op->def;
        if (api->find_kernel(api->context, def->name) != def->kernel) return NULL;
    }
    return own ? own : nx__tile_kernel;
}

nx_status nx__region_lower(nx__lower *l, nx_node *const *members, int n, bool *fused) {
    *fused = false;
    nx_kernel_fn *kernel = find_machine(l->api, members, n);
    if (kernel == NULL) return NX_OK;
    builder *b = nx_alloc_zeroed(sizeof *b);
    if (b == NULL) return nx_fail_memory(sizeof *b);
    b->l = l;
    b->members = members;
    b->n_members = n;
    if (fits(b) && collect_arrays(b) && lay_out(b) && emit_all(b) && assign_registers(b)) {
        b->status = make_step(b, kernel);
        *fused = b->status == NX_OK;
    }
    nx_status status = b->status;
    for (int i = 0; i < n; i++) members[i]->data = NULL;
    nx_vec_free(&b->instrs);
    nx_vec_free(&b->constants);
    nx_free(b);
    return status;
}
