/* A trained model continues a text, without Python: the graph that examples/gpt.py --export wrote is loaded, its memory is
 * planned and taken here, it runs once for each character, and operators pick the character from what it gives.
 *     ./generate MODEL WINDOW PROMPT COUNT [TEMPERATURE [TOP_K [SEED]]]        WINDOW: the model's block_size
 * Prints PROMPT and the COUNT characters behind it: those of `generate` in gpt.py. TEMPERATURE 0, as without it, takes the
 * likeliest; TOP_K and SEED are 20 and 1337, as in gpt.py. Build: make. */
#include <narthex/narthex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH = 1, N_CHARACTERS = 96, FIRST = 32 }; /* token 0 is a newline, then the characters from the space on */

/* A call that must succeed. A larger program would return the status instead. */
static void must(nx_status status) {
    if (status == NX_OK) return;
    fprintf(stderr, "generate: %s\n", nx_error_message());
    exit(1);
}

static void *must_have(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "generate: no memory\n");
    exit(1);
}

static int64_t token_of(char c) { return c == '\n' ? 0 : c - FIRST + 1; }
static char character_of(int64_t token) { return token == 0 ? '\n' : (char)(token + FIRST - 1); }

/* The session with the model in memory that belongs to this program: one block for weights, one for intermediates. */
static nx_session *load(const char *path, void **weights, void **features) {
    nx_session *session;
    nx_summary summary = {.size = sizeof summary};
    must(nx_session_new(NX_CPU, &session));
    must(nx_session_load(session, GRAPH, path));
    must(nx_session_get_summary(session, GRAPH, &summary));
    *weights = must_have(aligned_alloc(64, (summary.const_bytes / 64 + 1) * 64));
    *features = must_have(aligned_alloc(64, (summary.feature_bytes / 64 + 1) * 64));
    must(nx_session_set_const_base(session, GRAPH, *weights, summary.const_bytes));
    must(nx_session_update_feature_base(session, GRAPH, *features, summary.feature_bytes));
    fprintf(stderr, "%d launches, %zu bytes of weights, %zu of intermediates\n", summary.n_launches, summary.const_bytes,
            summary.feature_bytes);
    return session;
}

/* An operator with all its arguments in schema order (ops.txt); results belong to the caller. */
static void call(const char *name, const nx_value *in, nx_value *out) {
    const nx_op *op;
    must(nx_op_find(name, &op));
    must(nx_op_call(op, in, out));
}

/* The likeliest of the logits (1, n). */
static nx_value pick(nx_tensor *logits) {
    nx_value token;
    call("aten::argmax", (nx_value[]){nx_value_tensor(logits), nx_value_int(-1), nx_value_bool(true)}, &token);
    return token;
}

/* One drawn among the top_k likeliest. */
static nx_value draw(nx_tensor *logits, double temperature, int64_t top_k) {
    enum { SCALED, TOP, TOP_PLACES, LEAST, LOW, KEPT, CHANCES, N };
    nx_value v[N], token, last = nx_value_int(-1), yes = nx_value_bool(true), no = nx_value_bool(false);
    call("aten::div.Scalar", (nx_value[]){nx_value_tensor(logits), nx_value_float(temperature)}, &v[SCALED]);
    call("aten::topk", (nx_value[]){v[SCALED], nx_value_int(top_k), last, yes, yes}, &v[TOP]);
    call("aten::amin", (nx_value[]){v[TOP], nx_value_ints((int64_t[]){-1}, 1), yes}, &v[LEAST]);
    call("aten::lt.Tensor", (nx_value[]){v[SCALED], v[LEAST]}, &v[LOW]);
    call("aten::masked_fill.Scalar", (nx_value[]){v[SCALED], v[LOW], nx_value_float(-INFINITY)}, &v[KEPT]);
    call("aten::softmax.int", (nx_value[]){v[KEPT], last, NX_VALUE_NONE}, &v[CHANCES]);
    call("aten::multinomial", (nx_value[]){v[CHANCES], nx_value_int(1), no, NX_VALUE_NONE}, &token);
    for (int i = 0; i < N; i++) nx_value_drop(&v[i]);
    return token;
}

typedef struct options {
    double temperature;
    int64_t top_k;
} options;

/* The token behind the last of n tokens; the window sees its `size` newest. */
static int64_t next_token(nx_session *session, const int64_t *tokens, int64_t n, nx_tensor *window, nx_tensor *last, options o) {
    const nx_array *a = nx_tensor_array(window);
    int64_t size = a->numel, seen = n < size ? n : size;
    memcpy(a->data, tokens + n - seen, sizeof *tokens * (size_t)seen);
    *(int64_t *)nx_tensor_array(last)->data = seen - 1;
    nx_tensor *inputs[] = {window, last}, *logits[] = {NULL};
    must(nx_session_run(session, GRAPH, NULL, inputs, 2, logits, 1));
    nx_value token = o.temperature == 0 ? pick(logits[0]) : draw(logits[0], o.temperature, o.top_k);
    int64_t number = *(const int64_t *)nx_tensor_array(token.tensor)->data;
    nx_value_drop(&token);
    nx_tensor_unref(logits[0]);
    return number;
}

/* The tokens of the prompt, with room for `end`; NULL if the model does not know a character. */
static int64_t *read_prompt(const char *prompt, int64_t end) {
    int64_t *tokens = must_have(calloc((size_t)end, sizeof *tokens));
    for (int64_t i = 0; prompt[i]; i++) {
        tokens[i] = token_of(prompt[i]);
        if (tokens[i] >= 0 && tokens[i] < N_CHARACTERS) continue;
        fprintf(stderr, "generate: the model does not know character %lld of the prompt\n", (long long)i);
        free(tokens);
        return NULL;
    }
    return tokens;
}

int main(int argc, char **argv) {
    if (argc < 5 || argc > 8) {
        fprintf(stderr, "use: %s MODEL WINDOW PROMPT COUNT [TEMPERATURE [TOP_K [SEED]]] (WINDOW: the model's block_size)\n",
                argv[0]);
        return 2;
    }
    int64_t size = atoll(argv[2]), n = (int64_t)strlen(argv[3]), end = n + atoll(argv[4]);
    options o = {argc > 5 ? atof(argv[5]) : 0, argc > 6 ? atoll(argv[6]) : 20};
    nx_manual_seed(argc > 7 ? strtoull(argv[7], NULL, 10) : 1337);
    if (size < 1 || n < 1 || end < n || o.temperature < 0) {
        fprintf(stderr, "generate: a window, a prompt and a count are needed, and no temperature below 0\n");
        return 2;
    }
    int64_t *tokens = read_prompt(argv[3], end);
    if (tokens == NULL) return 2;
    void *weights, *features;
    nx_session *session = load(argv[1], &weights, &features);
    nx_tensor *window, *last;
    must(nx_tensor_new(NX_I64, 2, (int64_t[]){1, size}, NX_CPU, &window));
    must(nx_tensor_new(NX_I64, 1, (int64_t[]){1}, NX_CPU, &last));
    memset(nx_tensor_array(window)->data, 0, sizeof(int64_t) * (size_t)size);
    for (int64_t i = n; i < end; i++) tokens[i] = next_token(session, tokens, i, window, last, o);
    for (int64_t i = 0; i < end; i++) putchar(character_of(tokens[i]));
    putchar('\n');
    free(tokens);
    nx_tensor_unref(window);
    nx_tensor_unref(last);
    nx_session_free(session);
    free(weights);
    free(features);
    return 0;
}
