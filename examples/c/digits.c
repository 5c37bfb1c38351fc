/* Reads a digit without Python: the network that examples/digits.py --export wrote, and 8 x 8 grey levels from 0 to 16 on
 * standard input, as scikit-learn's digits are. Prints the picture and how likely it is each digit.
 *     ./digits MODEL < PICTURE
 * Weights and intermediates lie in memory of this program; nothing is allocated while it runs. Build: make. */
#include <narthex/narthex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GRAPH = 1, SIDE = 8, N_CLASSES = 10, DARKEST = 16, BAR = 40 };

/* A call that must succeed. A larger program would return the status instead. */
static void must(nx_status status) {
    if (status == NX_OK) return;
    fprintf(stderr, "digits: %s\n", nx_error_message());
    exit(1);
}

static void *must_have(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "digits: no memory\n");
    exit(1);
}

/* Grey levels from 0 to 1, and the picture in characters. */
static int read_picture(float *picture) {
    for (int i = 0; i < SIDE * SIDE; i++) {
        float level;
        if (scanf("%f", &level) != 1 || !(level >= 0 && level <= DARKEST)) {
            fprintf(stderr, "digits: %d numbers from 0 to %d are needed; number %d is none\n", SIDE * SIDE, DARKEST, i + 1);
            return 0;
        }
        char shade = " .:-=+*#%@"[(int)(level * 9 / DARKEST)];
        printf("%c%c%s", shade, shade, i % SIDE == SIDE - 1 ? "\n" : "");
        picture[i] = level / DARKEST;
    }
    return 1;
}

static void print_chances(const float *logits) {
    float most = logits[0], sum = 0;
    for (int k = 1; k < N_CLASSES; k++) most = fmaxf(most, logits[k]);
    for (int k = 0; k < N_CLASSES; k++) sum += expf(logits[k] - most);
    for (int k = 0; k < N_CLASSES; k++) {
        float chance = expf(logits[k] - most) / sum;
        printf("%d %5.1f%% %.*s\n", k, 100 * chance, (int)(chance * BAR), "########################################");
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "use: %s MODEL < PICTURE (the model that examples/digits.py --export wrote)\n", argv[0]);
        return 2;
    }
    nx_session *session;
    nx_summary summary = {.size = sizeof summary};
    must(nx_session_new(NX_CPU, &session));
    must(nx_session_load(session, GRAPH, argv[1]));
    must(nx_session_get_summary(session, GRAPH, &summary));
    void *weights = must_have(aligned_alloc(64, (summary.const_bytes / 64 + 1) * 64));
    void *features = must_have(aligned_alloc(64, (summary.feature_bytes / 64 + 1) * 64));
    must(nx_session_set_const_base(session, GRAPH, weights, summary.const_bytes));
    must(nx_session_update_feature_base(session, GRAPH, features, summary.feature_bytes));
    nx_tensor *picture, *logits;
    must(nx_tensor_new(NX_F32, 4, (int64_t[]){1, 1, SIDE, SIDE}, NX_CPU, &picture));
    must(nx_tensor_new(NX_F32, 2, (int64_t[]){1, N_CLASSES}, NX_CPU, &logits));
    int done = read_picture(nx_tensor_array(picture)->data);
    if (done) {
        must(nx_session_run(session, GRAPH, NULL, &picture, 1, &logits, 1));
        print_chances(nx_tensor_array(logits)->data);
    }
    nx_tensor_unref(picture);
    nx_tensor_unref(logits);
    nx_session_free(session);
    free(weights);
    free(features);
    return done ? 0 : 1;
}
