/* Model files: what is saved computes the same after loading; truncated, damaged and hostile files give an
 * error and leave nothing behind. Hostile files have a right checksum: every byte of the model is changed,
 * and messages are made by hand that ask for the impossible. */
#include "model_test.h"

/* ---- a model --------------------------------------------------------------------------------- */
static nx_tensor *ramp(int64_t rows, int64_t columns) {
    nx_tensor *t;
    OK(nx_tensor_new(NX_F32, 2, (int64_t[]){rows, columns}, NX_CPU, &t));
    for (int64_t i = 0; i < t->a.numel; i++) ((float *)t->a.data)[i] = 0.5f * (float)i - 1;
    return t;
}

/* (x @ w.t() * 2.5 + x @ w.t()).sum(-1), with w a constant; and a factory with a dtype and a device. */
static nx_graph *make_static_graph(void) {
    nx_graph *g;
    nx_node *x, *w;
    nx_tensor *weight = ramp(4, 3);
    int64_t dim = -1;
    OK(nx_graph_new(&g));
    g->level = NX_GRAPH_FUNCTIONAL;
    OK(nx_graph_input(g, "x", NX_F32, 2, (int64_t[]){2, 3}, NX_CPU, &x));
    OK(nx_graph_constant(g, "w", weight, &w));
    nx_tensor_unref(weight);
    nx_value mm = CALL(g, "aten::mm", nx_value_node(x, 0), CALL(g, "aten::t", nx_value_node(w, 0)));
    nx_value y = CALL(g, "aten::add.Tensor", CALL(g, "aten::mul.Tensor", mm, nx_value_float(2.5)), mm,
                      nx_value_int(1));
    nx_value z = CALL(g, "aten::sum.dim_IntList", y, nx_value_ints(&dim, 1), nx_value_bool(false));
    nx_value ones = CALL(g, "aten::ones_like", z, nx_value_dtype(NX_F64));
    nx_value results[] = {z, CALL(g, "aten::mul.Tensor", z, ones)};
    OK(nx_graph_output(g, results, 2));
    return g;
}

/* The same for 1 to 8 rows, of which there are an even number, as pairs; other gives gears to the columns of a second input. */
static nx_graph *make_open_graph(void) {
    nx_graph *g;
    nx_node *x, *other, *w, *rows, *half, *rest, *even, *check;
    nx_tensor *weight = ramp(4, 3);
    OK(nx_graph_new(&g));
    OK(nx_graph_input(g, "x", NX_F32, 2, (int64_t[]){2, 3}, NX_CPU, &x));
    OK(nx_graph_input(g, "other", NX_F32, 2, (int64_t[]){1, 3}, NX_CPU, &other));
    OK(nx_graph_open_size(g, x, 0, 1, 8));
    OK(nx_graph_set_gears(g, other, 0, (int64_t[]){1, 2}, 2));
    OK(nx_graph_constant(g, "w", weight, &w));
    nx_tensor_unref(weight);
    OK(nx_graph_size(g, nx_value_node(x, 0), 0, &rows));
    OK(nx_graph_compute(g, "floordiv", (nx_value[]){nx_value_node(rows, 0), nx_value_int(2)}, &half));
    OK(nx_graph_compute(g, "mod", (nx_value[]){nx_value_node(rows, 0), nx_value_int(2)}, &rest));
    OK(nx_graph_compute(g, "eq", (nx_value[]){nx_value_node(rest, 0), nx_value_int(0)}, &even));
    OK(nx_graph_compute(g, "check", (nx_value[]){nx_value_node(even, 0)}, &check));
    nx_value mm = CALL(g, "aten::matmul", nx_value_node(x, 0), CALL(g, "aten::t", nx_value_node(w, 0)));
    nx_value pairs = nx_value_list((nx_value[]){nx_value_node(half, 0), nx_value_int(2), nx_value_int(4)}, 3);
    nx_value y = CALL(g, "aten::mul.Tensor", CALL(g, "aten::view", mm, pairs), nx_value_float(2.5));
    OK(nx_graph_output(g, (nx_value[]){y, CALL(g, "aten::neg", nx_value_node(other, 0))}, 2));
    return g;
}

static bool open_sizes; /* which of both the tests save */
static nx_graph *make_graph(void) { return open_sizes ? make_open_graph() : make_static_graph(); }

static nx_session *make_session(void) {
    nx_session *session;
    nx_graph *g = make_graph();
    OK(nx_session_new(NX_CPU, &session));
    OK(nx_session_add_graph(session, 1, g));
    OK(nx_session_compile_graph(session, 1));
    nx_graph_free(g);
    return session;
}

/* ---- files ----------------------------------------------------------------------------------- */
typedef struct bytes { uint8_t *at; size_t n; } bytes;

static bytes read_back(void) {
    bytes b = {malloc(1 << 20), 0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    b.n = fread(b.at, 1, 1 << 20, file);
    fclose(file);
    return b;
}

static ModelDef *unwrap(const bytes *b) {
    ModelFile *file = nx__model__model_file__unpack(NULL, b->n, b->at);
    assert_non_null(file);
    ModelDef *model = nx__model__model_def__unpack(NULL, file->model.len, file->model.data);
    assert_non_null(model);
    nx__model__model_file__free_unpacked(file, NULL);
    return model;
}

static void write_model(const ModelDef *model) {
    size_t n = nx__model__model_def__get_packed_size(model);
    uint8_t *data = malloc(n + 1);
    nx__model__model_def__pack(model, data);
    write_wrapped(data, n);
    free(data);
}

static nx_status load(void) {
    nx_session *session;
    OK(nx_session_new(NX_CPU, &session));
    nx_status status = nx_session_load(session, 5, path);
    if (status != NX_OK)
        assert_int_equal(nx_session_compile_graph(session, 5), NX_KEY); /* nothing was added */
    nx_session_free(session);
    return status;
}

static void assert_refused(const char *phrase) {
    nx_status status = load();
    if (status != NX_IO && status != NX_VALUE) fail_msg("status %d for '%s'", status, phrase);
    nx_session *session;
    OK(nx_session_new(NX_CPU, &session));
    assert_int_equal(nx_session_load(session, 5, path), status);
    if (!strstr(nx_error_message(), phrase)) fail_msg("'%s' lacks '%s'", nx_error_message(), phrase);
    nx_session_free(session);
}

/* ---- tests ----------------------------------------------------------------------------------- */
static void test_round_trip(void **state) {
    open_sizes = false;
    nx_session *saved = make_session(), *loaded;
    nx_tensor *x = ramp(2, 3), *a[2] = {0}, *b[2] = {0};
    OK(nx_session_save(saved, 1, path));
    OK(nx_session_new(NX_CPU, &loaded));
    OK(nx_session_load(loaded, 9, path));
    OK(nx_session_run(saved, 1, NULL, &x, 1, a, 2));
    OK(nx_session_run(loaded, 9, NULL, &x, 1, b, 2));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(a[i]->a.dtype, b[i]->a.dtype);
        assert_int_equal(a[i]->a.numel, 2);
        assert_memory_equal(a[i]->a.data, b[i]->a.data, 2 * nx_dtype_bytes(a[i]->a.dtype));
        nx_tensor_unref(a[i]);
        nx_tensor_unref(b[i]);
    }
    assert_int_equal(nx_session_load(loaded, 9, path), NX_VALUE); /* the number is taken */
    OK(nx_session_save(loaded, 9, path)); /* a loaded model can be saved again */
    OK(load());
    nx_tensor_unref(x);
    nx_session_free(saved);
    nx_session_free(loaded);
}

static void run_pairs(nx_session *session, uint32_t id, int64_t rows, int64_t others, nx_tensor **out) {
    nx_tensor *in[] = {ramp(rows, 3), ramp(others, 3)};
    out[0] = out[1] = NULL;
    OK(nx_session_run(session, id, NULL, in, 2, out, 2));
    nx_tensor_unref(in[0]);
    nx_tensor_unref(in[1]);
}

static void test_open_sizes_travel(void **state) {
    open_sizes = true;
    nx_session *saved = make_session(), *loaded;
    nx_tensor *a[2], *b[2], *odd[] = {ramp(3, 3), ramp(1, 3)};
    nx_summary summary = {.size = sizeof summary};
    run_pairs(saved, 1, 8, 2, a); /* the file tells the example's plan, whichever was used last */
    OK(nx_session_save(saved, 1, path));
    for (int i = 0; i < 2; i++) nx_tensor_unref(a[i]);
    OK(nx_session_new(NX_CPU, &loaded));
    OK(nx_session_load(loaded, 9, path));
    for (int64_t rows = 2; rows <= 8; rows += 2) {
        run_pairs(saved, 1, rows, 1 + rows / 4 % 2, a);
        run_pairs(loaded, 9, rows, 1 + rows / 4 % 2, b);
        assert_int_equal(a[0]->a.sizes[0], rows / 2);
        for (int i = 0; i < 2; i++) {
            assert_memory_equal(a[i]->a.data, b[i]->a.data, 4 * (size_t)a[i]->a.numel);
            nx_tensor_unref(a[i]);
            nx_tensor_unref(b[i]);
        }
    }
    OK(nx_session_get_summary(loaded, 9, &summary));
    assert_false(summary.is_static);
    b[0] = b[1] = NULL;
    assert_int_equal(nx_session_run(loaded, 9, NULL, odd, 2, b, 2), NX_RUNTIME);
    assert_non_null(strstr(nx_error_message(), "does not hold for x[3, 3], other[1, 3]: an integer is 1, and the trace went by == 0"));
    OK(nx_session_save(loaded, 9, path));
    OK(load());
    for (int i = 0; i < 2; i++) nx_tensor_unref(odd[i]);
    nx_session_free(saved);
    nx_session_free(loaded);
}

static void test_truncated_and_damaged(void **state) {
    open_sizes = *state != NULL;
    nx_session *session = make_session();
    OK(nx_session_save(session, 1, path));
    nx_session_free(session);
    bytes whole = read_back();
    for (size_t n = 0; n < whole.n; n++) {
        write_bytes(whole.at, n);
        nx_status status = load();
        assert_true(status == NX_IO || status == NX_VALUE);
    }
    for (size_t i = 0; i < whole.n; i++) {
        whole.at[i] ^= 0x21;
        write_bytes(whole.at, whole.n);
        nx_status status = load();
        assert_true(status == NX_IO || status == NX_VALUE);
        whole.at[i] ^= 0x21;
    }
    free(whole.at);
}

/* Any outcome is right but a crash; a model that loads is run, with open sizes for two sets of them. */
static void load_and_run(void) {
    nx_session *session;
    OK(nx_session_new(NX_CPU, &session));
    nx_status loaded = nx_session_load(session, 1, path);
    for (int64_t rows = 2; loaded == NX_OK && rows <= (open_sizes ? 4 : 2); rows += 2) {
        nx_tensor *in[] = {ramp(rows, 3), ramp(1, 3)}, *out[2] = {0};
        if (nx_session_run(session, 1, NULL, in, open_sizes ? 2 : 1, out, 2) == NX_OK) {
            nx_tensor_unref(out[0]);
            nx_tensor_unref(out[1]);
        }
        nx_tensor_unref(in[0]);
        nx_tensor_unref(in[1]);
    }
    nx_session_free(session);
}

static void test_changed_bytes_with_right_checksum(void **state) {
    open_sizes = *state != NULL;
    nx_session *session = make_session();
    OK(nx_session_save(session, 1, path));
    nx_session_free(session);
    bytes whole = read_back();
    ModelFile *file = nx__model__model_file__unpack(NULL, whole.n, whole.at);
    ProtobufCBinaryData *model = &file->model;
    static const uint8_t changes[] = {0x01, 0x02, 0x08, 0x20, 0x80, 0xff};
    for (size_t i = 0; i < model->len; i++) {
        for (int c = 0; c < NX_COUNT(changes); c++) {
            model->data[i] ^= changes[c];
            write_wrapped(model->data, model->len);
            load_and_run();
            model->data[i] ^= changes[c];
        }
    }
    for (size_t n = 0; n < model->len; n++) {
        write_wrapped(model->data, n);
        load_and_run();
    }
    nx__model__model_file__free_unpacked(file, NULL);
    free(whole.at);
}

static NodeDef *first_call(const ModelDef *model, const char *op) {
    for (size_t i = 0; i < model->n_nodes; i++) {
        if (strcmp(model->nodes[i]->op, op) == 0) return model->nodes[i];
    }
    fail_msg("no %s", op);
    return NULL;
}

static void set_text(char **at, const char *text) {
    if (*at != protobuf_c_empty_string) free(*at);
    *at = strdup(text);
}

/* One change to a good model, and what the error says. */
static void refuse(const bytes *whole, void (*change)(ModelDef *model), const char *phrase) {
    ModelDef *model = unwrap(whole);
    change(model);
    write_model(model);
    assert_refused(phrase);
    nx__model__model_def__free_unpacked(model, NULL);
}

static void unknown_op(ModelDef *m) { set_text(&first_call(m, "aten::mm")->op, "aten::system"); }
static void few_args(ModelDef *m) {
    NodeDef *mm = first_call(m, "aten::mm");
    nx__model__value_def__free_unpacked(mm->args[--mm->n_args], NULL);
}
static void later_node(ModelDef *m) { first_call(m, "aten::mm")->args[0]->node = (uint32_t)m->n_nodes - 1; }
static void no_node(ModelDef *m) { m->results[0]->node = 4000000000u; }
static void no_result(ModelDef *m) { m->results[0]->result = 3; }
static void huge_input(ModelDef *m) { m->nodes[0]->type->sizes[0] = INT64_MAX; }
static void large_input(ModelDef *m) { m->nodes[0]->type->sizes[0] = INT64_C(1) << 40; }
static void negative_input(ModelDef *m) { m->nodes[0]->type->sizes[0] = -1; }
static void negative_stride(ModelDef *m) { m->nodes[0]->type->strides[0] = -3; }
static void other_dtype(ModelDef *m) { set_text(&m->nodes[0]->type->dtype, "complex640"); }
static void longer_constant(ModelDef *m) { m->constants[0]->type->sizes[0] = 1000; }
static void missing_constant(ModelDef *m) { m->nodes[1]->constant = 7; }
static void other_device(ModelDef *m) { set_text(&m->device, "tpu:0"); }
static void bad_name(ModelDef *m) { set_text(&m->nodes[0]->name, "x)\nimport os"); }
static void bad_kind(ModelDef *m) { first_call(m, "aten::mm")->args[0]->kind = 99; }
static void other_type(ModelDef *m) { first_call(m, "aten::mm")->args[0]->kind = KIND(FLOAT); }
static void small_arena(ModelDef *m) { m->plan->feature_bytes = 8; }
static void dissolved(ModelDef *m) { set_text(&first_call(m, "aten::mm")->op, "aten::matmul"); }

static NodeDef *number(const ModelDef *model, const char *name) {
    NodeDef *node = first_call(model, name);
    assert_int_equal(node->kind, NODE_KIND(NUMBER));
    return node;
}

static void far_dim(ModelDef *m) { m->nodes[0]->type->open[0]->dim = 2; }
static void other_bounds(ModelDef *m) { m->nodes[0]->type->open[0]->max = 1; }
static void crossed_bounds(ModelDef *m) { m->nodes[0]->type->open[0]->min = 9; }
static void negative_bound(ModelDef *m) { m->nodes[0]->type->open[0]->min = -1; }
static void falling_gears(ModelDef *m) { m->nodes[1]->type->open[0]->gears[0] = 2; }
static void no_open_size(ModelDef *m) {
    for (int k = 0; k < 2; k++) {
        TypeDef *type = m->nodes[k]->type;
        while (type->n_open) nx__model__open_def__free_unpacked(type->open[--type->n_open], NULL);
    }
}
static void not_captured(ModelDef *m) { m->captured = false; }
static void offset_number(ModelDef *m) { set_text(&number(m, "sym_size_int")->op, "sym_storage_offset"); }
static void given_number(ModelDef *m) { set_text(&number(m, "sym_size_int")->op, "sym_int"); }
static void long_number(ModelDef *m) { set_text(&number(m, "mod")->op, "neg"); }
static void no_number(ModelDef *m) { number(m, "eq")->args[0]->kind = KIND(NONE); }
static void tensor_number(ModelDef *m) { number(m, "mod")->args[0]->node = 0; }
static void number_tensor(ModelDef *m) { first_call(m, "aten::matmul")->args[0]->node = (uint32_t)3; }
static void number_result(ModelDef *m) { m->results[0]->node = 3; }
static void float_size(ModelDef *m) { set_text(&number(m, "floordiv")->op, "truediv"); }
static void failed_check(ModelDef *m) { number(m, "eq")->args[1]->i = 1; }

static void test_hostile_open_sizes(void **state) {
    open_sizes = true;
    nx_session *session = make_session();
    OK(nx_session_save(session, 1, path));
    nx_session_free(session);
    bytes whole = read_back();
    refuse(&whole, far_dim, "impossible bounds");
    refuse(&whole, other_bounds, "impossible bounds");
    refuse(&whole, crossed_bounds, "impossible bounds");
    refuse(&whole, negative_bound, "impossible bounds");
    refuse(&whole, falling_gears, "impossible bounds");
    refuse(&whole, no_open_size, "without open sizes");
    refuse(&whole, not_captured, "without open sizes");
    refuse(&whole, offset_number, "nothing that is known");
    refuse(&whole, given_number, "nothing that is known");
    refuse(&whole, long_number, "another count of arguments");
    refuse(&whole, no_number, "neither a number nor a node");
    refuse(&whole, tensor_number, "is no number");
    refuse(&whole, number_tensor, "must not be int");
    refuse(&whole, number_result, "load:");
    refuse(&whole, float_size, "load:");
    refuse(&whole, failed_check, "load:");
    free(whole.at);
}

static void test_hostile(void **state) {
    open_sizes = false;
    nx_session *session = make_session();
    OK(nx_session_save(session, 1, path));
    nx_session_free(session);
    bytes whole = read_back();
    refuse(&whole, unknown_op, "'aten::system' is unknown");
    refuse(&whole, few_args, "2 arguments here and 1 in the file");
    refuse(&whole, later_node, "used before it is defined");
    refuse(&whole, no_node, "used before it is defined");
    refuse(&whole, no_result, "no such result");
    refuse(&whole, huge_input, "impossible shape");
    refuse(&whole, negative_input, "impossible shape");
    refuse(&whole, negative_stride, "impossible shape");
    refuse(&whole, other_dtype, "unknown dtype");
    refuse(&whole, longer_constant, "another length");
    refuse(&whole, missing_constant, "a constant is missing");
    refuse(&whole, other_device, "load:");
    refuse(&whole, bad_name, "impossible name");
    refuse(&whole, bad_kind, "unknown kind");
    refuse(&whole, other_type, "load:");
    refuse(&whole, small_arena, "memory plan");
    refuse(&whole, dissolved, "load:");
    ModelDef *model = unwrap(&whole); /* asks for much memory, and may: none is taken before a run */
    large_input(model);
    set_text(&model->producer, "another");
    write_model(model);
    assert_true(load() != NX_NO_MEMORY);
    nx__model__model_def__free_unpacked(model, NULL);
    free(whole.at);
}

static void other_machine(ModelDef *m) { set_text(&m->plan->machine, "another, v4, 1 threads"); }
static void odd_choice(ModelDef *m) { m->plan->measured[1]->choice = 300; }
static void huge_choice(ModelDef *m) { m->plan->measured[1]->choice = INT64_C(1) << 40; }
static void endless_time(ModelDef *m) { m->plan->measured[0]->ns = INT64_MAX; }
static void negative_time(ModelDef *m) { m->plan->measured[0]->ns = -1; }
static void fewer_steps(ModelDef *m) { m->plan->n_measured--; }

static int64_t measured_after_load(void) {
    nx_session *session;
    nx_summary summary = {.size = sizeof summary};
    OK(nx_session_new(NX_CPU, &session));
    OK(nx_session_load(session, 1, path));
    OK(nx_session_get_summary(session, 1, &summary));
    nx_session_free(session);
    return summary.measured_ns;
}

/* What was measured travels; of another machine, or impossible, it is passed over, and the model loads. */
static void test_measured_steps_travel(void **state) {
    static void (*const changes[])(ModelDef *) = {other_machine, odd_choice, huge_choice, negative_time, endless_time,
                                                   fewer_steps};
    nx_summary summary = {.size = sizeof summary};
    open_sizes = false;
    nx_session *session = make_session();
    OK(nx_session_measure_graph(session, 1));
    OK(nx_session_get_summary(session, 1, &summary));
    assert_true(summary.measured_ns > 0);
    OK(nx_session_save(session, 1, path));
    nx_session_free(session);
    assert_int_equal(measured_after_load(), summary.measured_ns);
    bytes whole = read_back();
    for (int i = 0; i < NX_COUNT(changes); i++) {
        ModelDef *model = unwrap(&whole);
        MeasuredDef *last = model->plan->measured[model->plan->n_measured - 1];
        changes[i](model);
        write_model(model);
        assert_int_equal(measured_after_load(), 0);
        if (changes[i] == fewer_steps) nx__model__measured_def__free_unpacked(last, NULL);
        nx__model__model_def__free_unpacked(model, NULL);
    }
    free(whole.at);
}

/* An operator that writes two arguments, the second of which is made an input in the file. */
static void test_second_written_argument(void **state) {
    nx_graph *g;
    nx_node *x, *y, *max;
    nx_session *session;
    OK(nx_graph_new(&g));
    g->level = NX_GRAPH_FUNCTIONAL;
    OK(nx_graph_input(g, "x", NX_F32, 1, (int64_t[]){4}, NX_CPU, &x));
    OK(nx_graph_input(g, "y", NX_I64, 0, NULL, NX_CPU, &y));
    nx_value values = CALL(g, "aten::empty.memory_format", nx_value_ints(NULL, 0));
    nx_value indices = CALL(g, "aten::empty.memory_format", nx_value_ints(NULL, 0), nx_value_dtype(NX_I64));
    nx_value in[] = {nx_value_node(x, 0), nx_value_int(0), nx_value_bool(false), values, indices};
    OK(nx_graph_call(g, nx_op_get("aten::max.dim_max"), in, &max));
    OK(nx_graph_output(g, (nx_value[]){nx_value_node(max, 0), nx_value_node(max, 1)}, 2));
    OK(nx_session_new(NX_CPU, &session));
    OK(nx_session_add_graph(session, 1, g));
    OK(nx_session_compile_graph(session, 1));
    nx_tensor *given[2], *out[2] = {0};
    OK(nx_tensor_new(NX_F32, 1, (int64_t[]){4}, NX_CPU, &given[0]));
    OK(nx_tensor_new(NX_I64, 0, NULL, NX_CPU, &given[1]));
    for (int i = 0; i < 4; i++) ((float *)given[0]->a.data)[i] = (float)(i * i % 7);
    OK(nx_session_run(session, 1, NULL, given, 2, out, 2)); /* 0 1 4 2 */
    assert_true(*(float *)out[0]->a.data == 4 && *(int64_t *)out[1]->a.data == 2);
    OK(nx_session_save(session, 1, path));
    bytes whole = read_back();
    ModelDef *model = unwrap(&whole);
    first_call(model, "aten::max.dim_max")->args[4]->node = 1; /* y */
    write_model(model);
    assert_refused("nothing is written but inputs");
    nx__model__model_def__free_unpacked(model, NULL);
    for (int i = 0; i < 2; i++) nx_tensor_unref(given[i]);
    for (int i = 0; i < 2; i++) nx_tensor_unref(out[i]);
    free(whole.at);
    nx_session_free(session);
    nx_graph_free(g);
}

static void test_version(void **state) {
    ModelFile file;
    uint8_t data[64];
    nx__model__model_file__init(&file);
    file.version = 1;
    write_bytes(data, nx__model__model_file__pack(&file, data));
    assert_refused("is version 1 and this library reads 2");
    write_bytes("", 0);
    assert_refused("is version 0");
    unlink(path);
    assert_refused("cannot be opened");
}

static nx_status save_and_load(nx_session *session) {
    nx_session *other;
    NX_TRY(nx_session_save(session, 1, path));
    NX_TRY(nx_session_new(NX_CPU, &other));
    nx_status status = nx_session_load(other, 1, path);
    nx_session_free(other);
    return status;
}

static void test_every_allocation_fails_once(void **state) {
    open_sizes = *state != NULL;
    nx_session *session = make_session();
    nx_alloc_watch(true);
    OK(save_and_load(session));
    int64_t live = nx_alloc_live();
    for (int64_t at = 1;; at++) {
        nx_alloc_fail_at(at);
        nx_status status = save_and_load(session);
        bool failed = nx_alloc_failed();
        nx_alloc_fail_at(0);
        assert_int_equal(nx_alloc_live(), live);
        if (!failed) break;
        if (status != NX_NO_MEMORY)
            fail_msg("allocation %lld: status %d, %s", (long long)at, status, nx_error_message());
    }
    OK(save_and_load(session));
    nx_alloc_watch(false);
    nx_session_free(session);
}

static void test_nothing_is_left_beside(void **state) {
    nx_session *session = make_session();
    assert_int_equal(nx_session_save(session, 1, "/nonexistent/folder/model.nxm"), NX_IO);
    nx_session_free(session);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* only if it is empty */
}

static int start(void **state) { return make_folder(); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_open_sizes_travel),
        cmocka_unit_test(test_truncated_and_damaged),
        cmocka_unit_test_prestate(test_truncated_and_damaged, "open"),
        cmocka_unit_test(test_changed_bytes_with_right_checksum),
        cmocka_unit_test_prestate(test_changed_bytes_with_right_checksum, "open"),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_hostile_open_sizes),
        cmocka_unit_test(test_measured_steps_travel),
        cmocka_unit_test(test_second_written_argument),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test_prestate(test_every_allocation_fails_once, "open"),
        cmocka_unit_test(test_nothing_is_left_beside),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
