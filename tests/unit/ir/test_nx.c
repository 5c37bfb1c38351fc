/* Runs every program of tests/ir: a text with what is expected of it in its comments.
 *   # test: COMMAND      then the graph, then   # expect:   and the expected text, each line behind "# ".
 * COMMAND: print | python | python plain | verify | error (parsing fails so) | functionalise | pass LETTERS
 * | fuse | aot | program: what the engine makes of the graph.
 * functionalise, pass, fuse, aot and program are proved as well: both sides run on equal inputs and must agree
 * to the bit.
 * Run one file:  test_nx path/to/file.nx; with NX_ACCEPT set it prints what it got, ready to paste. */
#include <dirent.h>
#include <unistd.h>

#include "ir_test.h"

#include "engine/engine.h"

static char directory[1200];

typedef struct program { char *text, *command, *expected; } program;

static program read_program(const char *path) {
    program p = {calloc(1, 1 << 16), calloc(1, 256), calloc(1, 1 << 16)};
    char line[4096];
    bool expecting = false;
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s: cannot be read", path);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "# test: ", 8) == 0) strcpy(p.command, line + 8);
        else if (strncmp(line, "# expect:", 9) == 0) expecting = true;
        else if (expecting && line[0] == '#') strcat(strcat(p.expected, line + (line[1] == ' ' ? 2 : 1)),
                                                     "\n");
        if (!expecting) strcat(strcat(p.text, line), "\n");
    }
    fclose(file);
    return p;
}

static void add(nx_text *text, const char *title, nx_graph *graph) {
    char *printed;
    if (graph == NULL) return;
    OK(nx_graph_verify(graph));
    OK(nx_graph_print(graph, &printed));
    nx_text_add(text, "%s%s%s", title, *title ? "\n" : "", printed);
    nx_free(printed);
}

static void add_aot(nx_text *text, const nx_graph *graph) {
    nx_aot *aot;
    if (nx_aot_compile(graph, true, &aot) != NX_OK) {
        nx_text_add(text, "%s\n", nx_error_message());
        return;
    }
    add(text, "joint:", aot->joint);
    add(text, "forward:", aot->forward);
    add(text, "backward:", aot->backward);
    for (int i = 0; i < aot->n_outputs; i++) {
        if (aot->alias_of[i] >= 0) nx_text_add(text, "result %d is %sinput %d\n", i, aot->same_as_input[i]
                                               ? "" : "a view of ", aot->alias_of[i]);
    }
    for (int i = 0; i < aot->n_mutated; i++) nx_text_add(text, "result %d is copied into input %d\n",
                                                         aot->n_outputs + i, aot->mutated[i]);
    assert_compiled_meaning(graph, aot);
    nx_aot_free(aot);
}

static void add_regions(nx_text *text, nx_graph *graph) {
    nx_regions regions;
    OK(nx_pass_fuse(graph, &regions));
    add(text, "", graph);
    for (int r = 0; r < regions.n; r++) {
        int at = 0;
        nx_text_add(text, "region %d:", r);
        for (const nx_node *node = graph->first; node; node = node->next, at++) {
            if (regions.of_node[at] == r) nx_text_add(text, " %s", node->name);
        }
        nx_text_add(text, "\n");
    }
    nx_regions_free(&regions);
}

/* The text of a program reads back to the same text, and what was read gives the same results. */
static void check_program_reads_back(const nx_graph *graph, const char *text, const tensors *expected) {
    nx_program *again;
    char *printed;
    tensors in = inputs_of(graph, 5), out = {.n = expected->n};
    if (nx_program_parse(text, &again) != NX_OK) fail_msg("%s\n%s", text, nx_error_message());
    OK(nx_program_print(again, &printed));
    assert_string_equal(text, printed);
    nx_manual_seed(7);
    OK(nx_program_run(again, in.at, out.at));
    assert_same_tensors(expected, &out, out.n, "result of what was read");
    drop_tensors(&in);
    drop_tensors(&out);
    nx_free(printed);
    nx_program_free(again);
}

/* The program as text, and that it gives what the interpreter gives. */
static void add_program(nx_text *text, const nx_graph *graph) {
    nx_program *program;
    char *printed;
    tensors in = inputs_of(graph, 5), expected = run_graph(graph, &in), out = {.n = expected.n};
    OK(nx_program_new(graph, NX_CPU, &program));
    OK(nx_program_print(program, &printed));
    nx_text_add(text, "%s", printed);
    nx_manual_seed(7);
    OK(nx_program_run(program, in.at, out.at));
    assert_same_tensors(&expected, &out, out.n, "result");
    drop_tensors(&out);
    check_program_reads_back(graph, printed, &expected);
    drop_tensors(&in);
    drop_tensors(&expected);
    nx_free(printed);
    nx_program_free(program);
}

static void transform(nx_text *text, const char *command, nx_graph *graph) {
    nx_graph *before;
    char *printed;
    nx_status status = NX_OK;
    OK(nx_graph_copy(graph, &before));
    if (strncmp(command, "python", 6) == 0) {
        OK(nx_graph_print_python(graph, strstr(command, "plain") == NULL, true, &printed));
        nx_text_add(text, "%s", printed);
        nx_free(printed);
    } else if (strcmp(command, "print") == 0) {
        OK(nx_graph_print(graph, &printed));
        nx_text_add(text, "%s", printed);
        nx_free(printed);
    } else if (strcmp(command, "verify") == 0) {
        status = nx_graph_verify(graph);
        nx_text_add(text, "%s\n", status == NX_OK ? "ok" : nx_error_message());
    } else if (strcmp(command, "aot") == 0) {
        add_aot(text, graph);
    } else if (strcmp(command, "program") == 0) {
        add_program(text, graph);
    } else if (strcmp(command, "fuse") == 0) {
        add_regions(text, graph);
        assert_same_meaning(before, graph);
    } else {
        if (strcmp(command, "functionalise") == 0) status = nx_pass_functionalise(graph);
        else if (strncmp(command, "pass ", 5) == 0) status = nx_pass_run(graph, command + 5);
        else fail_msg("unknown command: %s", command);
        if (status == NX_OK) assert_same_meaning(before, graph);
        if (status == NX_OK) add(text, "", graph);
        else nx_text_add(text, "%s\n", nx_error_message());
    }
    nx_graph_free(before);
}

/* The text of a graph reads back to the same text. */
static void check_reads_back(const nx_graph *graph) {
    nx_graph *again;
    char *a, *b;
    OK(nx_graph_print(graph, &a));
    OK(nx_graph_parse(a, &again));
    OK(nx_graph_print(again, &b));
    assert_string_equal(a, b);
    nx_graph_free(again);
    nx_free(a);
    nx_free(b);
}

static void test_file(void **state) {
    const char *path = *state;
    program p = read_program(path);
    nx_graph *graph;
    nx_text got = {0};
    char *result;
    nx_flag.verify = true;
    nx_status status = nx_graph_parse(p.text, &graph);
    if (strcmp(p.command, "error") == 0) {
        if (status == NX_OK) fail_msg("%s: it should not parse", path);
        nx_text_add(&got, "%s\n", nx_error_message());
    } else {
        if (status != NX_OK) fail_msg("%s: %s", path, nx_error_message());
        check_reads_back(graph);
        transform(&got, p.command, graph);
        nx_graph_free(graph);
    }
    OK(nx_text_take(&got, &result));
    if (strcmp(result, p.expected) != 0 && getenv("NX_ACCEPT")) {
        printf("%s\n# expect:\n", path);
        for (char *line = result, *end; (end = strchr(line, '\n')); line = end + 1)
            printf(end == line ? "#%.*s\n" : "# %.*s\n", (int)(end - line), line);
        fail();
    }
    if (strcmp(result, p.expected) != 0) fail_msg("%s:\ngot:\n%s\nexpected:\n%s", path, result, p.expected);
    nx_free(result);
    free(p.text);
    free(p.command);
    free(p.expected);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

/* tests/ir beside this source, whose path may be relative to the build directory that this program lies in.
 * */
static DIR *open_programs(void) {
    char source[512] = __FILE__, own[512];
    *strrchr(source, '/') = '\0';
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = '\0';
    const char *const prefixes[] = {"", "/../", "/../../", "/../../../"};
    for (int i = 0; i < NX_COUNT(prefixes); i++) {
        char *end = strrchr(own, '/');
        if (i == 1 && end) *end = '\0';
        snprintf(directory, sizeof directory, "%s%s%s/../../ir", i ? own : "", prefixes[i], source);
        DIR *dir = opendir(directory);
        if (dir) return dir;
    }
    return NULL;
}

int main(int argc, char **argv) {
    static struct CMUnitTest tests[512];
    int n = 0;
    DIR *dir = argc > 1 ? NULL : open_programs();
    for (struct dirent *entry; dir && (entry = readdir(dir)) && n < NX_COUNT(tests);) {
        if (strstr(entry->d_name, ".nx") == NULL) continue;
        char *path = malloc(strlen(directory) + strlen(entry->d_name) + 2);
        sprintf(path, "%s/%s", directory, entry->d_name);
        tests[n++] = (struct CMUnitTest){.name = path, .test_func = test_file, .initial_state = path};
    }
    if (dir) closedir(dir);
    for (int i = 1; i < argc; i++) tests[n++] =
        (struct CMUnitTest){.name = argv[i], .test_func = test_file, .initial_state = argv[i]};
    if (n == 0) {
        printf("no .nx files in %s\n", directory);
        return 1;
    }
    qsort(tests, (size_t)n, sizeof *tests, by_name);
    return _cmocka_run_group_tests("nx", tests, (size_t)n, NULL, NULL);
}
