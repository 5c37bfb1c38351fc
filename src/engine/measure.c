/* What the engine chooses by rules, timed: how many elements a tile of a fused step has. A program runs once on inputs of its own,
 * in its own arena, and each step that has a choice is called again and again with every candidate in turn; the quickest stays with
 * the step. No candidate changes a bit. At most STEP_NS go into a step and GRAPH_NS into a program; what is quicker by less than a
 * thirtieth is noise. Times and choices are kept in a file, by machine, level, threads and the step's description, so that a
 * program that was measured once runs nothing at its next compilation. Next: run.c. */
#include "engine/program.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEP_NS = 50000000, GRAPH_NS = 2000000000, ROUNDS = 9, ENOUGH = 3, LEAST_NS = 2000, SHOWN_NS = 300000000, MAX_CANDIDATES = 8 };
static const int64_t most_ns = INT64_C(1) << 40; /* that is believed of a step: a quarter of an hour */
enum { SCRATCH = 65536, LEAST_TILE = 256, MAX_FILE = 1 << 20 };

/* ---- the machine ----------------------------------------------------------------------------- */
static char model[NX__MACHINE_ROOM] = "a processor"; /* found once */

static void find_model(void) {
    char line[NX__MACHINE_ROOM];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *at = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (at == NULL) continue;
        snprintf(model, sizeof model, "%s", at + 2);
        model[strcspn(model, "\n")] = '\0';
        break;
    }
    if (file) fclose(file);
}

/* Whatever a time depends on but the step: "AMD EPYC, v4, 2 threads". */
void nx__machine_name(char *out, size_t room) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_model);
    snprintf(out, room, "%.100s, %s, %d threads", model, nx_level_name(nx_level()), nx_num_threads());
}

static uint64_t hash(uint64_t from, const char *text) {
    for (; *text; text++) from = (from ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return from;
}

/* ---- a step's description ------------------------------------------------------------------- */
static void describe_values(nx_text *text, const nx_value *values, int first, int n) {
    for (int i = first; i < n; i++) {
        nx_text_add(text, " ");
        if (values[i].tag == NX_TAG_TENSOR) nx_write_layout(text, values[i].array);
        else if (values[i].tag == NX_TAG_LIST) describe_values(text, values[i].list, 0, values[i].n);
        else nx_write_value(text, &values[i]);
    }
}

static nx_status key_of(const nx__step *step, uint64_t machine, uint64_t *out) {
    nx_text text = {0};
    nx_text_add(&text, "%s", step->tile ? "tile" : nx_op_name(step->run.op));
    for (int i = 0; step->tile && i < step->tile->n_instrs; i++) {
        const nx__tile_instr *instr = &nx__tile_instrs(step->tile)[i];
        nx_text_add(&text, " %d.%d.%d", instr->code, instr->dtype, instr->from);
        if (instr->op) nx_text_add(&text, "%s", nx_op_name(instr->op));
    }
    describe_values(&text, step->in, step->tile ? 1 : 0, step->n_in);
    describe_values(&text, step->out, 0, step->n_out);
    if (text.failed) {
        nx_text_free(&text);
        return nx_fail_memory(text.n);
    }
    *out = hash(machine, text.at ? text.at : "");
    nx_text_free(&text);
    return NX_OK;
}

/* ---- candidates ------------------------------------------------------------------------------ */
static void set_choice(const nx__step *step, int choice) {
    assert(step->tile);
    ((nx__tile *)step->tile)->elements = choice;
}

static bool may_choose(const nx__step *step, int64_t choice) {
    const nx__tile *tile = step->tile;
    return tile && choice >= LEAST_TILE && choice <= NX__MAX_TILE_ELEMENTS && (choice & (choice - 1)) == 0 &&
           choice * tile->n_registers * 8 <= SCRATCH;
}

/* Tiles as large as all that there is are one candidate. */
static int find_candidates(const nx__step *step, int *out) {
    int n = 0;
    if (step->tile == NULL) return 0;
    int64_t all = step->tile->folds ? nx_least(step->tile->inner, NX_REDUCE_CHUNK) : step->tile->inner;
    for (int size = LEAST_TILE; size <= NX__MAX_TILE_ELEMENTS; size *= 2) {
        if (may_choose(step, size) && (size == LEAST_TILE || size / 2 < all)) out[n++] = size;
    }
    return n > 1 ? n : 0;
}

/* ---- one step -------------------------------------------------------------------------------- */
static nx_status time_call(const nx__step *step, int64_t *least) {
    int64_t before = nx_now();
    NX_TRY(nx__step_call(step));
    int64_t took = nx_now() - before;
    if (took < *least) *least = took;
    return NX_OK;
}

/* On a terminal, how far it is; step -1: it is over. Nothing before SHOWN_NS. */
static void show_progress(const nx_program *p, int step) {
    if (nx_now() - p->measures_since < SHOWN_NS || isatty(2) != 1) return;
    if (step < 0) fprintf(stderr, "\r\033[K");
    else fprintf(stderr, "\rmeasuring: step %d of %d", step + 1, p->steps.n);
}

/* The rule's choice stays unless another is clearly quicker. */
static void choose(const nx__step *step, nx__note *note, const int *candidates, const int64_t *least, int n) {
    int best = note->rule;
    for (int k = 0; k < n; k++) {
        if (candidates[k] == note->rule) note->rule_ns = note->ns = least[k];
    }
    for (int k = 0; k < n; k++) {
        if (least[k] >= note->ns || least[k] > note->rule_ns - note->rule_ns / 30) continue;
        best = candidates[k];
        note->ns = least[k];
    }
    set_choice(step, best);
}

/* Every candidate once; the step has the rule's choice afterwards. */
static nx_status time_round(const nx__step *step, nx__note *note, const int *candidates, int64_t *least, int n) {
    for (int k = 0; k < n; k++) {
        set_choice(step, candidates[k]);
        nx_status status = time_call(step, &least[k]);
        set_choice(step, note->rule);
        NX_TRY(status);
        if (candidates[k] == note->rule && least[k] < note->ns) note->ns = least[k];
    }
    return NX_OK;
}

nx_status nx__measure_step(nx_program *p, const nx__step *step) {
    int candidates[MAX_CANDIDATES], n = find_candidates(step, candidates);
    int64_t least[MAX_CANDIDATES], begin = nx_now();
    int at = (int)(step - p->steps.at);
    nx__note *note = &p->notes[at];
    note->ns = INT64_MAX;
    for (int k = 0; k < n; k++) least[k] = INT64_MAX;
    show_progress(p, at);
    NX_TRY(time_call(step, &note->ns)); /* touches its memory first */
    bool in_time = begin - p->measures_since < GRAPH_NS;
    int rounds = 0;
    while (in_time && n == 0 && rounds++ < ROUNDS && (rounds == 1 || nx_now() - begin < STEP_NS / 4))
        NX_TRY(time_call(step, &note->ns));
    while (in_time && n > 0 && rounds < ROUNDS && nx_now() - begin < STEP_NS) {
        NX_TRY(time_round(step, note, candidates, least, n));
        if (rounds++ == 0 && note->ns < LEAST_NS) break;
    }
    note->rule_ns = note->ns;
    if (n > 0 && rounds >= ENOUGH) choose(step, note, candidates, least, n);
    return NX_OK;
}

/* ---- inputs to measure with ------------------------------------------------------------------ */
/* Inputs of one dtype share memory: floats 0.5, others 0, which is an index wherever there is one. */
static nx_status make_memory(const nx_program *p, nx_storage **memory) {
    size_t bytes[NX_N_DTYPES] = {0};
    for (int i = 0; i < p->n_inputs; i++) {
        size_t own = nx__bytes_of(&p->inputs[i]);
        if (own > bytes[p->inputs[i].dtype]) bytes[p->inputs[i].dtype] = own;
    }
    for (int i = 0; i < p->n_inputs; i++) {
        int dtype = p->inputs[i].dtype, item = (int)nx_dtype_bytes((nx_dtype)dtype);
        double half = 0.5;
        if (memory[dtype]) continue;
        NX_TRY(nx_storage_new(NX_CPU, bytes[dtype], &memory[dtype]));
        if (bytes[dtype]) memset(memory[dtype]->data, 0, bytes[dtype]);
        if (nx_is_float((nx_dtype)dtype) && bytes[dtype])
            nx_cast((nx_dtype)dtype, memory[dtype]->data, item, NX_F64, (char *)&half, 0, (int64_t)bytes[dtype] / item);
    }
    return NX_OK;
}

static nx_status make_inputs(const nx_program *p, nx_storage **memory, nx_tensor **inputs) {
    NX_TRY(make_memory(p, memory));
    for (int i = 0; i < p->n_inputs; i++) {
        nx_meta meta;
        nx_meta_of(&p->inputs[i], &meta);
        NX_TRY(nx_tensor_new_view(memory[meta.dtype], &meta, NX_DEVICE_KEY(NX_CPU), NULL, &inputs[i]));
    }
    return NX_OK;
}

static nx_status run_once(nx_program *p) {
    nx_storage *memory[NX_N_DTYPES] = {0};
    size_t bytes = sizeof(nx_tensor *) * (size_t)(p->n_inputs + p->n_outputs + 1);
    nx_tensor **inputs = nx_alloc_zeroed(bytes);
    nx_generator_place before;
    if (inputs == NULL) return nx_fail_memory(bytes);
    nx_tensor **out = inputs + p->n_inputs;
    nx_status status = make_inputs(p, memory, inputs);
    nx_generator_mark(nx_generator_default(), &before);
    if (status == NX_OK) status = nx_program_run(p, inputs, out);
    nx_generator_return(nx_generator_default(), &before);
    for (int i = 0; status == NX_OK && i < p->n_outputs; i++) nx_tensor_unref(out[i]);
    for (int i = 0; i < p->n_inputs; i++) nx_tensor_unref(inputs[i]);
    for (int d = 0; d < NX_N_DTYPES; d++) nx_storage_unref(memory[d]);
    nx_free(inputs);
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */
static bool are_times(int64_t ns, int64_t rule_ns) { return ns >= 0 && ns < most_ns && rule_ns >= 0 && rule_ns < most_ns; }

/* "~/.cache/narthex/measured"; false: none is kept. */
static bool find_path(char *out, size_t room) {
    const char *folder = nx_flag.cache;
    if (folder && strcmp(folder, "0") == 0) return false;
    if (folder == NULL && nx_flag.home == NULL) return false;
    int n = folder ? snprintf(out, room, "%s/measured", folder) : snprintf(out, room, "%s/.cache/narthex/measured", nx_flag.home);
    return n > 0 && (size_t)n < room;
}

static void make_folders(char *path) {
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0777); /* one that cannot be made is told by the file that cannot be opened */
        *at = '/';
    }
}

/* A line: key, choice, time with it, the rule's time. Whatever else stands in the file is no line. Later ones hold. */
static void read_cache(nx_program *p, const uint64_t *keys) {
    char path[4096], line[128];
    FILE *file = find_path(path, sizeof path) ? fopen(path, "re") : NULL;
    while (file && fgets(line, sizeof line, file)) {
        unsigned long long key;
        long long choice, ns, rule_ns;
        if (sscanf(line, "%16llx %lld %lld %lld", &key, &choice, &ns, &rule_ns) != 4) continue;
        if (!are_times(ns, rule_ns)) continue;
        for (int i = 0; i < p->steps.n; i++) {
            const nx__step *step = &p->steps.at[i];
            if (keys[i] != key || (step->tile && !may_choose(step, choice))) continue;
            if (step->tile) set_choice(step, (int)choice);
            p->notes[i].ns = ns;
            p->notes[i].rule_ns = rule_ns;
            p->notes[i].kept = true;
        }
    }
    if (file) fclose(file);
}

/* A file that cannot be written is no reason to fail: the next compilation measures again. */
static void write_cache(const nx_program *p, const uint64_t *keys) {
    char path[4096];
    struct stat about;
    nx_text text = {0};
    if (!find_path(path, sizeof path)) return;
    for (int i = 0; i < p->steps.n; i++) {
        const nx__note *note = &p->notes[i];
        nx_text_add(&text, "%016llx %d %lld %lld\n", (unsigned long long)keys[i], p->steps.at[i].tile ? p->steps.at[i].tile->elements : 0,
                    (long long)note->ns, (long long)note->rule_ns);
    }
    make_folders(path);
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (stat(path, &about) == 0 && about.st_size > MAX_FILE ? O_TRUNC : 0);
    int file = text.failed || text.n == 0 ? -1 : open(path, flags, 0666);
    if (file >= 0) {
        ssize_t done = write(file, text.at, text.n); /* at once: lines of two processes do not mix */
        close(file);
        if (done != (ssize_t)text.n && done >= 0) unlink(path);
    }
    nx_text_free(&text);
}

/* ---- the whole ------------------------------------------------------------------------------- */
nx_status nx__measured_take(nx_program *p, const char *machine, const nx__note *notes, const int64_t *choices, int n) {
    char own[NX__MACHINE_ROOM];
    nx__machine_name(own, sizeof own);
    if (strcmp(machine, own) != 0 || n != p->steps.n || p->notes || p->device.type != 0) return NX_OK;
    for (int i = 0; i < n; i++) {
        const nx__step *step = &p->steps.at[i];
        if (!are_times(notes[i].ns, notes[i].rule_ns) || (step->tile && !may_choose(step, choices[i]))) return NX_OK;
    }
    if ((p->notes = nx__keep(p, sizeof *notes * (size_t)n)) == NULL) return NX_NO_MEMORY;
    for (int i = 0; i < n; i++) {
        const nx__step *step = &p->steps.at[i];
        p->notes[i] = (nx__note){step->tile ? step->tile->elements : 0, notes[i].ns, notes[i].rule_ns, true};
        if (step->tile) set_choice(step, (int)choices[i]);
    }
    return NX_OK;
}

/* Nothing but its own memory and the generator may see that the program has run. */
static bool may_run(const nx_program *p) {
    if (p->device.type != 0 || p->steps.n == 0 || p->notes || nx_thread_get()->recorder) return false;
    for (int i = 0; i < p->n_inputs; i++) {
        if (p->inputs[i].device.type != 0) return false;
    }
    for (int i = 0; i < p->steps.n; i++) {
        const nx__step *step = &p->steps.at[i];
        if (step->run.op && step->run.op->def->flags & NX_OP_OUTSIDE) return false;
        for (int k = 0; k < step->n_in; k++) {
            if (step->in[k].tag == NX_TAG_GENERATOR || step->in[k].tag == NX_TAG_OPAQUE) return false;
        }
    }
    return true;
}

static nx_status measure(nx_program *p, const uint64_t *keys) {
    bool all_kept = true;
    for (int i = 0; i < p->steps.n; i++) all_kept = all_kept && p->notes[i].kept;
    if (all_kept) return NX_OK;
    p->measures_since = nx_now();
    nx_status status = run_once(p);
    show_progress(p, -1);
    p->measures_since = 0;
    if (status == NX_OK) return write_cache(p, keys), NX_OK;
    for (int i = 0; i < p->steps.n; i++) { /* elements that no step takes: the rules hold */
        if (p->steps.at[i].tile) set_choice(&p->steps.at[i], p->notes[i].rule);
    }
    p->notes = NULL;
    return status == NX_NO_MEMORY || status == NX_PYTHON ? status : NX_OK;
}

nx_status nx_program_measure(nx_program *p) {
    char machine[NX__MACHINE_ROOM];
    if (!may_run(p)) return NX_OK;
    nx__note *notes = nx__keep(p, sizeof *notes * (size_t)p->steps.n);
    uint64_t *keys = nx_alloc(sizeof *keys * (size_t)p->steps.n);
    nx_status status = notes && keys ? NX_OK : nx_fail_memory(sizeof *keys * (size_t)p->steps.n);
    nx__machine_name(machine, sizeof machine);
    for (int i = 0; i < p->steps.n && status == NX_OK; i++) {
        notes[i].rule = p->steps.at[i].tile ? p->steps.at[i].tile->elements : 0;
        status = key_of(&p->steps.at[i], hash(UINT64_C(0xcbf29ce484222325), machine), &keys[i]);
    }
    if (status == NX_OK) {
        p->notes = notes;
        read_cache(p, keys);
        status = measure(p, keys);
    }
    nx_free(keys);
    return status;
}

/* ---- the report ------------------------------------------------------------------------------ */
/* What this machine can do at most, as far as a copy and a product of ours reach it. */
typedef struct roof { double bytes, flops; } roof; /* a nanosecond */
static roof measured_roof; /* for as many threads as it was measured with; under the lock */
static int roof_threads;
static pthread_mutex_t roof_lock = PTHREAD_MUTEX_INITIALIZER;

static nx_status find_bandwidth(double *out) {
    enum { BYTES = 24 << 20 };
    nx_storage *from, *to;
    int64_t least = INT64_MAX;
    NX_TRY(nx_storage_new(NX_CPU, BYTES, &from));
    nx_status status = nx_storage_new(NX_CPU, BYTES, &to);
    if (status == NX_OK) {
        memset(from->data, 1, BYTES);
        for (int round = 0; round < 5; round++) {
            int64_t before = nx_now();
            memcpy(to->data, from->data, BYTES);
            if (nx_now() - before < least) least = nx_now() - before;
        }
        *out = 2.0 * BYTES / (double)least;
        nx_storage_unref(to);
    }
    nx_storage_unref(from);
    return status;
}

/* The least time of a product of two matrices; INT64_MAX: `op` is none. */
static int64_t time_product(const nx_op *op, nx_tensor *const *t) {
    enum { RUNS = 9 };
    int64_t least = INT64_MAX;
    for (int round = 0; round < RUNS; round++) {
        nx_value out = NX_VALUE_NONE;
        int64_t before = nx_now();
        if (nx_op_call(op, (nx_value[]){nx_value_tensor(t[0]), nx_value_tensor(t[1])}, &out) != NX_OK) return INT64_MAX;
        if (nx_now() - before < least) least = nx_now() - before;
        nx_value_drop(&out);
    }
    return least;
}

/* By the operator that is a product of matrices: one that is joined with a sum and takes two of these. */
static nx_status find_flops(double *out) {
    enum { N = 256 };
    nx_tensor *t[2] = {NULL};
    nx_status status;
    int64_t least = INT64_MAX;
    for (int i = 0; i < 2; i++) {
        NX_TRY_FAIL(nx_tensor_new(NX_F32, 2, (int64_t[]){N, N}, NX_CPU, &t[i]));
        for (int64_t k = 0; k < N * N; k++) ((float *)t[i]->a.data)[k] = 0.5f;
    }
    for (int i = 0; i < nx_op_count() && least == INT64_MAX; i++) {
        const nx_op *op = nx_op_at(i);
        if (op->joined && op->def->n_in == 2) least = time_product(op, t);
    }
    *out = 2.0 * N * N * N / (double)least;
fail:
    for (int i = 0; i < 2; i++) nx_tensor_unref(t[i]);
    return status;
}

/* Measured once in a process, and again for another number of threads. */
static nx_status find_roof(roof *out) {
    nx_status status = NX_OK;
    pthread_mutex_lock(&roof_lock);
    if (roof_threads != nx_num_threads()) {
        status = find_bandwidth(&measured_roof.bytes);
        if (status == NX_OK) status = find_flops(&measured_roof.flops);
        roof_threads = status == NX_OK ? nx_num_threads() : 0;
    }
    *out = measured_roof;
    pthread_mutex_unlock(&roof_lock);
    return status;
}

static double bytes_of(const nx_value *values, int n) {
    double bytes = 0;
    for (int i = 0; i < n; i++) {
        if (values[i].tag == NX_TAG_LIST) bytes += bytes_of(values[i].list, values[i].n);
        if (values[i].tag == NX_TAG_TENSOR) bytes += (double)values[i].array->numel * (double)nx_dtype_bytes(values[i].array->dtype);
    }
    return bytes;
}

/* The two arguments that a kernel is linear in, each without the other (what is added to their product goes with either): those of
 * a product or a convolution. */
static bool find_factors(const nx__step *step, const nx_array **factors) {
    const bool is_tailed = step->run.op == nx_convolution_point_op();
    const nx_op_def *def = is_tailed ? nx_known(NX_KNOWN_CONVOLUTION)->def : step->run.op->def;
    if (def->kind != NX_KIND_KERNEL || def->n_linear != 2) return false;
    for (int k = 0; k < 2; k++) {
        uint64_t own = def->linear[k] & ~def->linear[1 - k];
        int at = own ? __builtin_ctzll(own) : step->n_in;
        bool alone = (own & (own - 1)) == 0 && at < step->n_in && step->in[at].tag == NX_TAG_TENSOR && step->in[at].array->ndim > 1;
        if (!alone) return false;
        factors[k] = step->in[at].array;
    }
    return step->n_out == 1 && step->out[0].tag == NX_TAG_TENSOR && step->out[0].array->numel > 0;
}

/* Multiplications and additions of products and convolutions; of other steps one for each element of each operation. */
static double flops_of(const nx__step *step) {
    const nx_array *factors[2];
    double results = step->n_out && step->out[0].tag == NX_TAG_TENSOR ? (double)step->out[0].array->numel : 0;
    if (step->tile) return (double)(step->tile->outer * step->tile->inner) * step->tile->n_instrs;
    if (!find_factors(step, factors)) return results;
    double batch = factors[0]->ndim == 3 && factors[1]->ndim == 3 ? (double)factors[0]->sizes[0] : 1;
    if (factors[1]->ndim > 3) return 2 * results * (double)factors[1]->numel / (double)factors[1]->sizes[0];
    return 2 * sqrt((double)factors[0]->numel * (double)factors[1]->numel * results / (batch > 0 ? batch : 1));
}

static void report_step(nx_text *text, const nx_program *p, int at, const roof *r) {
    const nx__step *step = &p->steps.at[at];
    const nx__note *note = &p->notes[at];
    double bytes = bytes_of(step->in, step->n_in) + bytes_of(step->out, step->n_out), flops = flops_of(step);
    double least = bytes / r->bytes > flops / r->flops ? bytes / r->bytes : flops / r->flops;
    const char *separator = "";
    nx_text_add(text, "  %d: ", at);
    if (step->tile == NULL) nx_text_add(text, "%s", nx_op_name(step->run.op));
    for (int i = 0; step->tile && i < step->tile->n_instrs; i++) {
        const nx_op *op = nx__tile_instrs(step->tile)[i].op;
        if (op) nx_text_add(text, "%s%s", separator, nx_op_name(op));
        if (op) separator = " + ";
    }
    nx_text_add(text, ": %.2f us", (double)note->ns / 1e3);
    if (step->tile && step->tile->elements != note->rule)
        nx_text_add(text, ", tiles of %d (rule: %d, %.2f us)", step->tile->elements, note->rule, (double)note->rule_ns / 1e3);
    nx_text_add(text, "; %.0f bytes, %.0f operations: %.0f%% of the roofline\n", bytes, flops,
                100 * least / (double)(note->ns > 0 ? note->ns : 1));
}

nx_status nx_program_report(const nx_program *p, char **out) {
    char machine[NX__MACHINE_ROOM];
    nx_text text = {0};
    roof r = {0};
    int64_t all = 0;
    *out = NULL;
    if (p->notes == NULL) return NX_OK;
    NX_TRY(find_roof(&r));
    nx__machine_name(machine, sizeof machine);
    for (int i = 0; i < p->steps.n; i++) all += p->notes[i].ns;
    nx_text_add(&text, "measured on %s: %d steps, %.2f us; roofline: %.1f GB/s, %.0f GFLOP/s\n", machine, p->steps.n, (double)all / 1e3,
                r.bytes, r.flops);
    for (int i = 0; i < p->steps.n; i++) report_step(&text, p, i, &r);
    return nx_text_take(&text, out);
}
