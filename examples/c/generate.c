/* A trained model continues a text, without Python: the graph that examples/gpt.py --export wrote is loaded, its memory is
 * planned and taken here, and the likeliest character is appended again and again.
 *     ./generate MODEL WINDOW PROMPT COUNT        WINDOW: the model's block_size
 * Prints PROMPT and the COUNT characters behind it: those of `generate` in gpt.py at temperature 0. Build: make. */
#include <narthex/narthex.h>
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

/* The token behind the last of n tokens; the window sees its `size` newest. */
static int64_t next_token(nx_session *session, const int64_t *tokens, int64_t n, nx_tensor *window, nx_tensor *last) {
    const nx_array *a = nx_tensor_array(window);
    int64_t size = a->numel, seen = n < size ? n : size;
    memcpy(a->data, tokens + n - seen, sizeof *tokens * (size_t)seen);
    *(int64_t *)nx_tensor_array(last)->data = seen - 1;
    nx_tensor *inputs[] = {window, last}, *out[] = {NULL};
    must(nx_session_run(session, GRAPH, NULL, inputs, 2, out, 1));
    int64_t token = *(const int64_t *)nx_tensor_array(out[0])->data;
    nx_tensor_unref(out[0]);
    return token;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "use: %s MODEL WINDOW PROMPT COUNT (WINDOW: the model's block_size)\n", argv[0]);
        return 2;
    }
    int64_t size = atoll(argv[2]), n = (int64_t)strlen(argv[3]), end = n + atoll(argv[4]);
    if (size < 1 || n < 1 || end < n) {
        fprintf(stderr, "generate: a window, a prompt and a count are needed\n");
        return 2;
    }
    void *weights, *features;
    nx_session *session = load(argv[1], &weights, &features);
    nx_tensor *window, *last;
    must(nx_tensor_new(NX_I64, 2, (int64_t[]){1, size}, NX_CPU, &window));
    must(nx_tensor_new(NX_I64, 1, (int64_t[]){1}, NX_CPU, &last));
    memset(nx_tensor_array(window)->data, 0, sizeof(int64_t) * (size_t)size);
    int64_t *tokens = must_have(calloc((size_t)end, sizeof *tokens));
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = token_of(argv[3][i]);
        if (tokens[i] < 0 || tokens[i] >= N_CHARACTERS) {
            fprintf(stderr, "generate: the model does not know character %lld of the prompt\n", (long long)i);
            return 2;
        }
    }
    for (int64_t i = n; i < end; i++) tokens[i] = next_token(session, tokens, i, window, last);
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
