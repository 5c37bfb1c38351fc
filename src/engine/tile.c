/* The tile machine: runs a tile program (program.h) over its index space, a tile after the other, so that
 * what passes from one instruction to the next stays in the first-level cache. The loops are the ones of
 * eager mode. In: the program as INTS, the arrays that are read; out: the arrays that are written. A fold
 * takes chunks of NX_REDUCE_CHUNK elements, each into a state of its own, and merges these by nx_reduce_push: the same
 * steps as nx_reduce_kernel, hence the same bits. Next: region.c, which makes the programs. */
#include "engine/program.h"

enum {
    MAX_SLOTS = NX__MAX_ARRAYS + NX__MAX_REGISTERS + NX__MAX_NUMBERS + 1,
    SCRATCH = 65536,
    FOLD_BYTES = NX_REDUCE_CHUNK * 8,
    COST = 8 /* of an element beside what is moved */
};

typedef struct machine {
    const nx__tile *tile;
    char *base[NX__MAX_ARRAYS];
    nx_reduce_state *states;  /* of all chunks, when several threads fold one result */
} machine;
/* One thread's part of a run. */
typedef struct worker {
    const machine *m;
    char *ptr[MAX_SLOTS];
    char *fold;
} worker;

/* ---- the block ------------------------------------------------------------------------------- */
static uint32_t words(size_t bytes) { return (uint32_t)((bytes + 7) / 8); }

static int64_t item_of(uint8_t dtype) { return nx_dtype_sizes[dtype]; }

static int64_t array_step(const nx__tile *tile, const nx__tile_array *array) {
    return array->pattern == NX__FLAT ? item_of(array->dtype) : array->step[tile->ndim - 1];
}

/* What lies in a register has elements of the size that the instruction before made. */
static void find_steps(const nx__tile *tile, nx__tile_instr *instrs) {
    int64_t step[MAX_SLOTS] = {0}; /* numbers have none */
    for (int i = 0; i < tile->n_arrays; i++) step[i] = array_step(tile, &nx__tile_arrays(tile)[i]);
    for (int i = 0; i < tile->n_instrs; i++) {
        nx__tile_instr *instr = &instrs[i];
        for (int k = 0; k < instr->n_in; k++) instr->step[1 + k] = step[instr->in[k]];
        instr->step[0] = step[instr->out] = item_of(instr->dtype);
    }
}

/* ---- pairs: a product whose one reader is the sum or difference behind it --------------------- */
static bool is_op(const nx__tile_instr *instr, nx_known_op which) {
    return instr->code == NX__TILE_POINT && instr->op == nx_known(which);
}

/* Whether nothing reads what instruction `i` writes to `slot` but the one behind it. */
static bool dies_behind(const nx__tile *tile, const nx__tile_instr *instrs, int i, int slot) {
    if (slot < tile->n_arrays || slot >= tile->n_arrays + tile->n_registers) return false;
    for (int at = i + 1; at < tile->n_instrs; at++) {
        for (int k = 0; at > i + 1 && k < instrs[at].n_in; k++) {
            if (instrs[at].in[k] == slot) return false;
        }
        if (instrs[at].out == slot) return true;
    }
    return true;
}

/* Elements side by side, or one. */
static bool is_plain(const nx__tile_instr *instr, int k) {
    return instr->step[1 + k] == 0 || instr->step[1 + k] == item_of(instr->dtype);
}

/* How the sum behind a product takes it, or NULL. */
static nx_pair_fn *pair_of(const nx__tile_instr *product, const nx_const *constants) {
    const nx__tile_instr *sum = product + 1;
    bool adds = is_op(sum, NX_KNOWN_SUM);
    if (!is_op(product, NX_KNOWN_PRODUCT) || !(adds || is_op(sum, NX_KNOWN_DIFFERENCE)) || sum->dtype != product->dtype) return NULL;
    int at = sum->in[0] == product->out ? 0 : 1; /* where the sum has the product */
    if (sum->in[at] != product->out || sum->in[1 - at] == product->out || constants[sum->constants].f != 1) return NULL;
    if (!is_plain(product, 0) || !is_plain(product, 1) || !is_plain(sum, 1 - at)) return NULL;
    if (product->step[1] == 0 && product->step[2] == 0) return NULL;
    return nx_pair_get(adds ? NX_PAIR_ADD : at == 0 ? NX_PAIR_SUB : NX_PAIR_RSUB, (nx_dtype)product->dtype);
}

static void find_pairs(const nx__tile *tile, nx__tile_instr *instrs, const nx_const *constants) {
    for (int i = 0; i + 1 < tile->n_instrs; i++) {
        nx_pair_fn *pair = pair_of(&instrs[i], constants);
        if (pair == NULL || !dies_behind(tile, instrs, i, instrs[i].out)) continue;
        instrs[i++].pair = pair;
    }
}

nx__tile *nx__tile_new(nx_program *p, const nx__tile *head, const nx__tile_array *arrays, const nx__tile_instr *instrs,
                       const nx_const *constants, int n_constants, const uint64_t *numbers) {
    size_t n_arrays = (size_t)head->n_arrays, n_instrs = (size_t)head->n_instrs, n_numbers = (size_t)head->n_numbers;
    uint32_t at_instrs = words(sizeof *head + sizeof *arrays * n_arrays);
    uint32_t at_constants = at_instrs + words(sizeof *instrs * n_instrs);
    uint32_t at_numbers = at_constants + words(sizeof *constants * (size_t)n_constants);
    nx__tile *tile = nx__keep(p, 8 * (at_numbers + n_numbers));
    if (tile == NULL) return NULL;
    *tile = *head;
    tile->instrs = at_instrs;
    tile->constants = at_constants;
    tile->numbers = at_numbers;
    tile->words = at_numbers + (uint32_t)n_numbers;
    if (n_arrays) memcpy(tile + 1, arrays, sizeof *arrays * n_arrays);
    if (n_instrs) memcpy((uint64_t *)tile + at_instrs, instrs, sizeof *instrs * n_instrs);
    find_steps(tile, (nx__tile_instr *)((uint64_t *)tile + at_instrs));
    find_pairs(tile, (nx__tile_instr *)((uint64_t *)tile + at_instrs), constants);
    if (n_constants) memcpy((uint64_t *)tile + at_constants, constants, sizeof *constants * (size_t)n_constants);
    if (n_numbers) memcpy((uint64_t *)tile + at_numbers, numbers, sizeof *numbers * n_numbers);
    return tile;
}

/* ---- addresses ------------------------------------------------------------------------------- */
/* An element of the index space, and its row (all dimensions but the last) and column. */
typedef struct place {
    int64_t at, row, column;
} place;

static int64_t row_length(const nx__tile *tile) { return tile->size[tile->ndim - 1]; }

static place place_of(const nx__tile *tile, int64_t at) {
    int64_t row = at / row_length(tile);
    return (place){at, row, at - row * row_length(tile)};
}

/* n elements on; most tiles end with their row or in it, and a division takes as long as an instruction of a short one. */
static void advance(const nx__tile *tile, place *p, int64_t n) {
    int64_t last = row_length(tile);
    p->at += n;
    p->column += n;
    if (p->column < last) return;
    int64_t rows = p->column == last ? 1 : p->column / last;
    p->row += rows;
    p->column -= rows * last;
}

/* Offset in bytes of row `row`. */
static int64_t row_offset(const nx__tile *tile, const nx__tile_array *array, int64_t row) {
    int64_t offset = 0;
    for (int d = tile->ndim - 2; d > 0; d--) {
        int64_t rest = row / tile->size[d];
        offset += (row - rest * tile->size[d]) * array->step[d];
        row = rest;
    }
    return tile->ndim > 1 ? offset + row * array->step[0] : 0;
}

static int fold_slot(const nx__tile *tile) { return tile->n_arrays + tile->n_registers + tile->n_numbers; }

static void start_worker(worker *w, const machine *m, char *scratch, char *fold) {
    const nx__tile *tile = m->tile;
    w->m = m;
    w->fold = fold;
    int slot = tile->n_arrays;
    for (int i = 0; i < tile->n_arrays; i++) w->ptr[i] = m->base[i];
    for (int r = 0; r < tile->n_registers; r++, slot++)
        w->ptr[slot] = scratch + (size_t)r * (size_t)tile->elements * 8;
    for (int k = 0; k < tile->n_numbers; k++, slot++) w->ptr[slot] = (char *)((uint64_t *)tile + tile->numbers + k);
    w->ptr[slot] = fold;
}

static void move_to(worker *w, const place *p) {
    const nx__tile *tile = w->m->tile;
    const nx__tile_array *arrays = nx__tile_arrays(tile);
    for (int i = 0; i < tile->n_arrays; i++) {
        if (arrays[i].pattern == NX__FLAT) w->ptr[i] = w->m->base[i] + p->at * item_of(arrays[i].dtype);
        else if (arrays[i].pattern == NX__ROWS)
            w->ptr[i] = w->m->base[i] + row_offset(tile, &arrays[i], p->row) + p->column * arrays[i].step[tile->ndim - 1];
    }
}

/* ---- instructions ---------------------------------------------------------------------------- */
/* A row vector: one row, turned so that it begins at `column`, then copies of what is there, twice as many
 * each time. */
static void repeat_row(char *to, const char *row, const nx__tile_array *array, int64_t step, int64_t column,
                       int64_t last, int64_t n) {
    int64_t bytes = item_of(array->dtype), done = nx_least(n, last),
            first = nx_least(done, last - column);
    nx_cast(array->dtype, to, bytes, array->dtype, row + column * step, step, first);
    nx_cast(array->dtype, to + first * bytes, bytes, array->dtype, row, step, done - first);
    for (int64_t part; done < n; done += part) {
        part = nx_least(done, n - done);
        memcpy(to + done * bytes, to, (size_t)(part * bytes));
    }
}

/* n copies of one element. */
static void repeat_element(char *to, const char *from, int64_t bytes, int64_t n) {
    if (bytes == 4) {
        uint32_t word;
        memcpy(&word, from, sizeof word);
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, &word, sizeof word);
    } else {
        for (int64_t i = 0; i < n; i++) memcpy(to + i * bytes, from, (size_t)bytes);
    }
}

static bool is_row_vector(const nx__tile *tile, const nx__tile_array *array) {
    for (int d = 0; d < tile->ndim - 1; d++) {
        if (array->step[d] != 0) return false;
    }
    return true;
}

static void load(worker *w, const nx__tile_instr *instr, const place *p, int64_t n) {
    const nx__tile *tile = w->m->tile;
    const nx__tile_array *array = &nx__tile_arrays(tile)[instr->in[0]];
    int64_t last = row_length(tile), row = p->row, column = p->column;
    int64_t bytes = item_of(array->dtype), step = array->step[tile->ndim - 1];
    char *to = w->ptr[instr->out];
    if (is_row_vector(tile, array)) {
        repeat_row(to, w->m->base[instr->in[0]], array, step, column, last, n);
        return;
    }
    for (int64_t done = 0, part; done < n; done += part, row++, column = 0) {
        part = nx_least(n - done, last - column);
        const char *from = w->m->base[instr->in[0]] + row_offset(tile, array, row) + column * step;
        if (step == 0) repeat_element(to + done * bytes, from, bytes, part);
        else nx_cast(array->dtype, to + done * bytes, bytes, array->dtype, from, step, part);
    }
}

static void point(worker *w, const nx__tile_instr *instr, int64_t n) {
    char *ptrs[1 + NX__MAX_TILE_INS];
    ptrs[0] = w->ptr[instr->out];
    for (int k = 0; k < instr->n_in; k++) ptrs[k + 1] = w->ptr[instr->in[k]];
    instr->loop(ptrs, instr->step, n,
                (const nx_const *)((const uint64_t *)w->m->tile + w->m->tile->constants) + instr->constants);
}

/* A product and the sum behind it. */
static void run_pair(worker *w, const nx__tile_instr *product, int64_t n) {
    const nx__tile_instr *sum = product + 1;
    int dense = product->step[1] == 0, other = sum->in[0] == product->out; /* which factor lies dense; which summand is no product */
    product->pair(w->ptr[sum->out], w->ptr[product->in[dense]], w->ptr[product->in[1 - dense]], product->step[2 - dense] == 0,
                  w->ptr[sum->in[other]], sum->step[1 + other] == 0, n);
}

static void run_tile(worker *w, const place *p, int64_t n) {
    const nx__tile *tile = w->m->tile;
    const nx__tile_instr *instr = nx__tile_instrs(tile), *end = instr + tile->n_instrs;
    if (p->at) move_to(w, p); /* a worker begins at 0 */
    for (; instr < end; instr++) {
        switch (instr->code) {
        case NX__TILE_LOAD: load(w, instr, p, n); break;
        case NX__TILE_CAST:
            nx_cast(instr->dtype, w->ptr[instr->out], instr->step[0], instr->from, w->ptr[instr->in[0]], instr->step[1], n);
            break;
        case NX__TILE_POINT:
            if (instr->pair) run_pair(w, instr++, n);
            else point(w, instr, n);
            break;
        default: break; /* FOLD: after a chunk */
        }
    }
}

/* Elements [begin, end), a tile after the other. A fold's buffer takes them side by side. */
static void run_range(worker *w, int64_t begin, int64_t end) {
    const nx__tile *tile = w->m->tile;
    int64_t bytes = item_of(nx__tile_instrs(tile)[tile->n_instrs - 1].dtype);
    if (begin == end) return; /* there may be no rows to divide by */
    place p = place_of(tile, begin);
    for (int64_t n; p.at < end; advance(tile, &p, n)) {
        n = nx_least(tile->elements, end - p.at);
        if (tile->cut_rows) n = nx_least(n, row_length(tile) - p.column);
        if (w->fold) w->ptr[fold_slot(tile)] = w->fold + (p.at - begin) * bytes;
        run_tile(w, &p, n);
    }
}

/* ---- folds ----------------------------------------------------------------------------------- */
/* Where element `at` lies of what is folded, after run_range() from `begin`. */
static const char *folded(const worker *w, const nx__tile_instr *instr, int64_t begin, int64_t at) {
    const nx__tile *tile = w->m->tile;
    int slot = instr->in[0];
    int64_t bytes = item_of(instr->dtype);
    return slot == fold_slot(tile) ? w->fold + (at - begin) * bytes : w->m->base[slot] + at * bytes;
}

/* n elements from `at` into a fresh state. */
static void fold_part(const worker *w, const nx__tile_instr *instr, int64_t begin, int64_t at, int64_t n, void *state) {
    instr->fold->init(state);
    instr->fold->fold(state, folded(w, instr, begin, at), item_of(instr->dtype), n);
}

/* Chunk [begin, end) into a fresh state. */
static void fold_chunk(worker *w, const nx__tile_instr *instr, int64_t begin, int64_t end, void *state) {
    run_range(w, begin, end);
    fold_part(w, instr, begin, begin, end - begin, state);
}

static void write_result(const worker *w, const nx__tile_instr *instr, int64_t row, nx_reduce_state *total) {
    instr->fold->done(total, w->m->tile->inner, w->m->base[instr->out] + row * item_of(instr->dtype));
}

static void fold_row(worker *w, const nx__tile_instr *instr, int64_t row) {
    const nx__tile *tile = w->m->tile;
    int64_t begin = row * tile->inner, end = begin + tile->inner;
    nx_reduce_state part, levels[NX_REDUCE_LEVELS];
    int64_t n_chunks = 0;
    for (int64_t at = begin; at < end; at += NX_REDUCE_CHUNK) {
        fold_chunk(w, instr, at, nx_least(at + NX_REDUCE_CHUNK, end), &part);
        nx_reduce_push(instr->fold, levels, 1, n_chunks++, &part);
    }
    write_result(w, instr, row, nx_reduce_finish(instr->fold, levels, 1, n_chunks));
}

/* Rows begin .. end. Short ones are computed together, as many as a chunk has room for, and folded one by one. */
static void fold_rows(worker *w, const nx__tile_instr *instr, int64_t begin, int64_t end) {
    int64_t inner = w->m->tile->inner, together = inner ? NX_REDUCE_CHUNK / inner : NX_REDUCE_CHUNK;
    if (together == 0) {
        for (int64_t row = begin; row < end; row++) fold_row(w, instr, row);
        return;
    }
    nx_reduce_state part;
    for (int64_t first = begin, stop; first < end; first = stop) {
        stop = nx_least(first + together, end);
        run_range(w, first * inner, stop * inner);
        for (int64_t row = first; row < stop; row++) {
            fold_part(w, instr, first * inner, row * inner, inner, &part);
            write_result(w, instr, row, &part);
        }
    }
}

/* ---- parts of a run -------------------------------------------------------------------------- */
typedef enum part { POINTS, ROWS, CHUNKS } part;

static void run_part(const machine *m, part what, int64_t begin, int64_t end, char *scratch, char *fold) {
    worker w;
    const nx__tile_instr *last = &nx__tile_instrs(m->tile)[m->tile->n_instrs - 1];
    start_worker(&w, m, scratch, fold);
    if (what == POINTS) {
        run_range(&w, begin, end);
    } else if (what == ROWS) {
        fold_rows(&w, last, begin, end);
    } else {
        for (int64_t k = begin; k < end; k++) {
            int64_t from = k * NX_REDUCE_CHUNK;
            fold_chunk(&w, last, from, nx_least(from + NX_REDUCE_CHUNK, m->tile->inner),
                       &m->states[k]);
        }
    }
}

static nx_status run_points(void *arg, int64_t begin, int64_t end) {
    _Alignas(64) char scratch[SCRATCH];
    run_part(arg, POINTS, begin, end, scratch, NULL);
    return NX_OK;
}

static nx_status run_rows(void *arg, int64_t begin, int64_t end) {
    _Alignas(64) char scratch[SCRATCH], fold[FOLD_BYTES];
    run_part(arg, ROWS, begin, end, scratch, fold);
    return NX_OK;
}

static nx_status run_chunks(void *arg, int64_t begin, int64_t end) {
    _Alignas(64) char scratch[SCRATCH], fold[FOLD_BYTES];
    run_part(arg, CHUNKS, begin, end, scratch, fold);
    return NX_OK;
}

/* Of an element, as for nx_grain. */
static int64_t cost_of(const nx__tile *tile) { return 4 * tile->n_arrays + COST * tile->n_instrs; }

/* One result of many chunks: their states are made by all threads and merged in order. */
static nx_status fold_one(machine *m, int64_t n_chunks) {
    const nx__tile_instr *last = &nx__tile_instrs(m->tile)[m->tile->n_instrs - 1];
    m->states = nx_alloc(sizeof *m->states * (size_t)n_chunks);
    if (m->states == NULL) return nx_fail_memory(sizeof *m->states * (size_t)n_chunks);
    nx_status status = nx_parallel(n_chunks, nx_grain(NX_REDUCE_CHUNK * cost_of(m->tile)), run_chunks, m);
    nx_reduce_state levels[NX_REDUCE_LEVELS];
    for (int64_t k = 0; k < n_chunks; k++) nx_reduce_push(last->fold, levels, 1, k, &m->states[k]);
    last->fold->done(nx_reduce_finish(last->fold, levels, 1, n_chunks), m->tile->inner, m->base[last->out]);
    nx_free(m->states);
    return status;
}

nx_status nx__tile_kernel(nx_run *run, const nx_value *in, nx_value *out) {
    const nx__tile *tile = (const nx__tile *)in[0].ints;
    const nx__tile_array *arrays = nx__tile_arrays(tile);
    machine m;
    m.tile = tile;
    int n_in = 1, n_out = 0;
    for (int i = 0; i < tile->n_arrays; i++)
        m.base[i] = arrays[i].written ? out[n_out++].array->data : in[n_in++].array->data;
    if (!tile->folds) {
        if (!nx_is_long(tile->inner, cost_of(tile))) return run_points(&m, 0, tile->inner);
        return nx_parallel(tile->inner, nx_grain(cost_of(tile)), run_points, &m);
    }
    int64_t n_chunks = (tile->inner + NX_REDUCE_CHUNK - 1) / NX_REDUCE_CHUNK, cost = cost_of(tile);
    if (tile->outer == 1 && n_chunks > 1 && nx_is_long(tile->inner, cost)) return fold_one(&m, n_chunks);
    if (!nx_is_long(tile->outer * tile->inner, cost)) return run_rows(&m, 0, tile->outer);
    return nx_parallel(tile->outer, nx_grain(tile->inner * cost), run_rows, &m);
}
