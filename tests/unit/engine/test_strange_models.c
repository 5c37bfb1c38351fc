/* Model files that no compiler wrote: calls of any operators with any arguments, and damage in several places behind a right
 * checksum. Each is refused or runs, and ends within its time.
 * NX_STRANGE=n: that many of each kind (2,000); NX_STRANGE=a-b: the models a to b - 1, each named before it is loaded. */
#include "model_test.h"

#include <math.h>
#include <sys/time.h>

enum { N_CALLS = 4, N_INPUTS = 4, MAX_ARGS = 64, MAX_ITEMS = 6, LARGEST = 1 << 16, SECONDS = 30 };

static int64_t first, last = 2000;
static bool told;

/* ---- chance: splitmix64 (Steele, Lea, Flood 2014) ------------------------------------------------------------- */
static uint64_t state;
static uint64_t draw(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static int below(int n) { return (int)(draw() % (uint64_t)n); }
static bool once_in(int n) { return below(n) == 0; }

static int64_t any_int(void) {
    static const int64_t odd[] = {INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_C(1) << 31, INT64_C(1) << 40, -(INT64_C(1) << 62), 1000, -64,
                                  1 << 17};
    return once_in(12) ? odd[below(NX_COUNT(odd))] : below(7) - 2;
}
static double any_float(void) {
    static const double odd[] = {0.0, -0.0, 1.0, 0.5, -1.5, 1e300, -1e-300, INFINITY, NAN, 3.0};
    return odd[below(NX_COUNT(odd))];
}

/* ---- a model of messages that lie here ------------------------------------------------------------------------- */
typedef struct call {
    NodeDef node;
    ValueDef args[MAX_ARGS], *places[MAX_ARGS];
    ItemDef items[MAX_ARGS][MAX_ITEMS], *item_places[MAX_ARGS][MAX_ITEMS];
    int64_t ints[MAX_ARGS][MAX_ITEMS];
} call;
typedef struct input {
    NodeDef node;
    TypeDef type;
    int64_t sizes[4], strides[4];
} input;
static struct {
    ModelDef model;
    PlanDef plan;
    input inputs[N_INPUTS];
    call calls[N_CALLS];
    NodeDef *nodes[N_INPUTS + N_CALLS];
    ValueDef results[2], *result_places[2];
} made;

static const int64_t shapes[][4] = {{2, 3, 4, 4}, {4, 4}, {3}, {1, 4, 1}, {2, 3, 6}, {0, 3}, {8, 8}, {5, 2, 3, 3}, {}};
static const int dims[] = {4, 2, 1, 3, 3, 2, 2, 4, 0};

static void make_input(input *in, int k, int shape) {
    static char names[N_INPUTS][4];
    nx__model__node_def__init(&in->node);
    nx__model__type_def__init(&in->type);
    snprintf(names[k], sizeof names[k], "x%d", k);
    in->node.kind = NODE_KIND(INPUT);
    in->node.name = names[k];
    in->node.type = &in->type;
    in->type.dtype = (char *)nx_dtype_name(once_in(3) ? (nx_dtype)below(NX_N_DTYPES) : once_in(4) ? NX_I64 : NX_F32);
    in->type.device = "cpu";
    in->type.n_sizes = in->type.n_strides = (size_t)dims[shape];
    in->type.sizes = in->sizes;
    in->type.strides = in->strides;
    int64_t stride = 1;
    for (int d = dims[shape] - 1; d >= 0; d--) {
        in->sizes[d] = shapes[shape][d];
        in->strides[d] = once_in(20) ? below(3) : stride;
        stride *= in->sizes[d];
    }
}

static void any_node(uint32_t *node, uint32_t *result, int n) {
    *node = (uint32_t)below(n);
    *result = once_in(10) ? (uint32_t)below(3) : 0;
}

/* As many as the schema says, or any other number. */
static size_t any_length(const nx_param *p) { return p->int_list_of && !once_in(3) ? (size_t)p->int_list_of : (size_t)below(MAX_ITEMS); }

static void fill_items(call *c, int k, const nx_param *p, nx_type type, int n_nodes) {
    ValueDef *v = &c->args[k];
    v->kind = KIND(LIST);
    v->n_items = any_length(p);
    v->items = c->item_places[k];
    for (size_t i = 0; i < v->n_items; i++) {
        ItemDef *item = v->items[i] = &c->items[k][i];
        nx__model__item_def__init(item);
        item->kind = once_in(type == NX_TYPE_BOOLS ? 60 : 10) ? KIND(NONE) : type == NX_TYPE_TENSORS ? KIND(NODE) :
                     type == NX_TYPE_BOOLS ? KIND(BOOL) : once_in(2) ? KIND(FLOAT) : KIND(INT);
        item->i = type == NX_TYPE_BOOLS ? below(2) : any_int();
        item->f = any_float();
        any_node(&item->node, &item->result, n_nodes);
    }
}

static const char *any_text(void) {
    static const char *const texts[] = {"none", "mean", "tanh", "sum", "floor", "reflect", "ij", "", "linear", "ab,bc->ac", "U", "trunc"};
    return texts[below(NX_COUNT(texts))];
}

/* What the schema gives where nothing is said, as far as a file holds such values. */
static bool fill_initial(ValueDef *v, const nx_value *initial) {
    v->i = initial->i;
    switch (initial->tag) {
    case NX_TAG_NONE: v->kind = KIND(NONE); return true;
    case NX_TAG_INT: v->kind = KIND(INT); return true;
    case NX_TAG_BOOL: v->kind = KIND(BOOL); return true;
    case NX_TAG_FLOAT: v->kind = KIND(FLOAT), v->f = initial->f; return true;
    case NX_TAG_STR: v->kind = KIND(STR), v->text = (char *)initial->str; return true;
    default: return false;
    }
}

static void fill_argument(call *c, int k, const nx_param *p, int n_nodes) {
    static const ValueDef empty = NX__MODEL__VALUE_DEF__INIT;
    ValueDef *v = c->places[k] = &c->args[k];
    nx_type type = once_in(60) ? (nx_type)below(NX_TYPE_NUMBERS) : p->type;
    *v = empty;
    v->i = any_int();
    v->f = any_float();
    v->text = (char *)any_text();
    v->ints = c->ints[k];
    v->kind = KIND(NONE);
    if (p->optional && once_in(3)) return;
    if (p->has_initial && !once_in(3) && fill_initial(v, &p->initial)) return;
    switch (type) {
    case NX_TYPE_TENSOR: v->kind = KIND(NODE), any_node(&v->node, &v->result, n_nodes); break;
    case NX_TYPE_TENSORS: case NX_TYPE_NUMBERS: case NX_TYPE_BOOLS: fill_items(c, k, p, type, n_nodes); break;
    case NX_TYPE_INT: v->kind = KIND(INT); break;
    case NX_TYPE_INTS:
        v->kind = KIND(INTS);
        v->n_ints = any_length(p);
        for (size_t i = 0; i < v->n_ints; i++) v->ints[i] = any_int();
        break;
    case NX_TYPE_FLOAT: v->kind = KIND(FLOAT); break;
    case NX_TYPE_BOOL: v->kind = KIND(BOOL), v->i = below(2); break;
    case NX_TYPE_SCALAR: v->kind = once_in(2) ? KIND(INT) : KIND(FLOAT); break;
    case NX_TYPE_STR: v->kind = KIND(STR); break;
    case NX_TYPE_DTYPE: v->kind = KIND(DTYPE), v->text = (char *)nx_dtype_name((nx_dtype)below(NX_N_DTYPES)); break;
    case NX_TYPE_DEVICE: v->kind = KIND(DEVICE), v->text = "cpu"; break;
    case NX_TYPE_LAYOUT: v->kind = KIND(LAYOUT), v->i = 0; break;
    case NX_TYPE_MEMORY_FORMAT: v->kind = KIND(MEMORY_FORMAT), v->i = below(3); break;
    default: break; /* generators and graphs are not in files */
    }
}

static void make_call(call *c, int n_nodes) {
    const nx_op *op = nx_op_at(below(nx_op_count()));
    nx__model__node_def__init(&c->node);
    c->node.kind = NODE_KIND(CALL);
    c->node.op = (char *)op->def->name;
    c->node.args = c->places;
    c->node.n_args = (size_t)op->def->n_in;
    for (int k = 0; k < op->def->n_in; k++) fill_argument(c, k, &op->def->params[k], n_nodes);
}

static void make_model(void) {
    ModelDef *m = &made.model;
    nx__model__model_def__init(m);
    nx__model__plan_def__init(&made.plan);
    m->producer = "another";
    m->device = "cpu";
    m->plan = &made.plan;
    m->nodes = made.nodes;
    m->results = made.result_places;
    int n_calls = 1 + below(1 + below(N_CALLS)), n_inputs = 1 + below(N_INPUTS), shape = 0;
    for (int i = 0; i < n_inputs; i++) {
        if (i == 0 || once_in(3)) shape = below(NX_COUNT(dims)); /* mostly what goes together */
        make_input(&made.inputs[i], i, shape);
        m->nodes[m->n_nodes++] = &made.inputs[i].node;
    }
    for (int i = 0; i < n_calls; i++) {
        make_call(&made.calls[i], (int)m->n_nodes);
        m->nodes[m->n_nodes++] = &made.calls[i].node;
    }
    for (m->n_results = 0; m->n_results < 2;) {
        ValueDef *v = made.result_places[m->n_results] = &made.results[m->n_results];
        nx__model__value_def__init(v);
        v->kind = KIND(NODE);
        v->node = (uint32_t)(m->n_nodes - 1 - m->n_results++ % m->n_nodes);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
static uint8_t data[LARGEST];

/* Inputs are ones in the layout that the file names; what they cannot be, or too large, is not run. */
static nx_status make_tensor(const input *in, nx_tensor **out) {
    nx_meta meta = {.ndim = (int)in->type.n_sizes, .view_of = -1, .device = NX_CPU};
    nx_storage *storage;
    for (int d = 0; d < NX_N_DTYPES; d++)
        if (strcmp(nx_dtype_name((nx_dtype)d), in->type.dtype) == 0) meta.dtype = (nx_dtype)d;
    memcpy(meta.size, in->sizes, sizeof in->sizes);
    memcpy(meta.stride, in->strides, sizeof in->strides);
    NX_TRY(nx_storage_new(NX_CPU, nx_meta_bytes(&meta), &storage));
    memset(storage->data, meta.dtype == NX_F32 ? 0x3f : 1, nx_meta_bytes(&meta)); /* 0.747; small integers */
    nx_status status = nx_tensor_new_view(storage, &meta, NX_DEVICE_KEY(NX_CPU), NULL, out);
    nx_storage_unref(storage);
    return status;
}

/* Of the processor; then SIGPROF ends the program. 0: no end. */
static void give_seconds(int n) {
    assert_int_equal(setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = n}, NULL), 0);
}

/* Whether the model ran. */
static bool load_and_run(void) {
    nx_session *session;
    nx_tensor *in[N_INPUTS] = {0}, *out[2] = {0};
    int n = 0;
    give_seconds(SECONDS);
    OK(nx_session_new(NX_CPU, &session));
    nx_status status = nx_session_load(session, 1, path);
    for (size_t i = 0; status == NX_OK && i < made.model.n_nodes && made.nodes[i]->kind == NODE_KIND(INPUT); i++)
        status = make_tensor(&made.inputs[n], &in[n]), n++;
    if (status == NX_OK) status = nx_session_run(session, 1, NULL, in, n, out, 2);
    for (int i = 0; i < n; i++) nx_tensor_unref(in[i]);
    for (int i = 0; i < 2 && status == NX_OK; i++) nx_tensor_unref(out[i]);
    nx_session_free(session);
    give_seconds(0);
    return status == NX_OK;
}

static void begin(int64_t seed, bool damaged) {
    state = (uint64_t)seed * 2 + damaged;
    make_model();
    if (!told) return;
    fprintf(stderr, "%s model %lld", damaged ? "damaged" : "strange", (long long)seed);
    for (size_t i = 0; i < made.model.n_nodes; i++)
        if (made.nodes[i]->kind == NODE_KIND(CALL)) fprintf(stderr, " %s", made.nodes[i]->op);
    fputc('\n', stderr);
}

static void test_strange_models(void **unused) {
    int64_t ran = 0;
    for (int64_t seed = first; seed < last; seed++) {
        begin(seed, false);
        size_t n = nx__model__model_def__get_packed_size(&made.model);
        assert_true(n <= LARGEST);
        nx__model__model_def__pack(&made.model, data);
        write_wrapped(data, n);
        ran += load_and_run();
    }
    if (last - first < 1000) return;
    print_message("%lld of %lld strange models ran\n", (long long)ran, (long long)(last - first));
    assert_true(ran > (last - first) / 50); /* else nothing is tried */
}

/* Bytes changed, taken out, put in and exchanged. */
static size_t damage(size_t n) {
    for (int changes = 1 + below(6); changes && n > 8; changes--) {
        size_t at = draw() % n, length = 1 + draw() % 8;
        if (at + length > n) length = n - at;
        switch (below(4)) {
        case 0: data[at] = (uint8_t)draw(); break;
        case 1: data[at] ^= (uint8_t)(1 << below(8)); break;
        case 2: memmove(data + at, data + at + length, n - at - length), n -= length; break;
        default:
            if (n + length > LARGEST) break;
            memmove(data + at + length, data + at, n - at);
            n += length;
        }
    }
    return n;
}

static void test_damaged_models(void **unused) {
    for (int64_t seed = first; seed < last; seed++) {
        begin(seed, true);
        nx__model__model_def__pack(&made.model, data);
        write_wrapped(data, damage(nx__model__model_def__get_packed_size(&made.model)));
        (void)load_and_run();
    }
}

static int start(void **unused) {
    const char *wanted = getenv("NX_STRANGE");
    if (wanted) {
        char *rest;
        last = strtoll(wanted, &rest, 10);
        if (*rest == '-') first = last, last = strtoll(rest + 1, NULL, 10), told = true;
    }
    if (make_folder() != 0 || nx_memory_set_limit(NX_CPU, 256 << 20) != NX_OK) return 1;
    return 0;
}

static int end(void **unused) {
    unlink(path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strange_models), cmocka_unit_test(test_damaged_models)};
    return cmocka_run_group_tests(tests, start, end);
}
