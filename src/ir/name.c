/* Names of nodes: unique in their graph, Python identifiers, numbered as FX numbers them ("add", "add_1";
 * a name of Python's builtins or a keyword gets a number at once, "sum_1"). One table of strings per
 * graph; a name stays taken when its node goes, so that texts of before and after a pass can be compared.
 * Read next: graph.c. */
#include "ir/private.h"

typedef struct entry {
    char *name;      /* NULL: free slot */
    int64_t count;   /* number last given to this base */
    bool used;       /* is a node's name (otherwise only a base) */
    bool reserved;   /* is one of Python's words */
    uint32_t hash;   /* of the name */
    nx_node *node;   /* whose name it is, NULL when that node is gone */
} entry;
typedef struct table { entry *at; int room, n; } table;

/* Keywords and builtins that a node's name must not shadow. */
static const char *const reserved[] = {
    "False",       "None",      "True",       "and",        "as",        "assert",  "async",        "await",
    "break",       "class",     "continue",   "def",        "del",       "elif",    "else",         "except",
    "finally",     "for",       "from",       "global",     "if",        "import",  "in",           "is",
    "lambda",      "nonlocal",  "not",        "or",         "pass",      "raise",   "return",       "try",
    "while",       "with",      "yield",      "abs",        "aiter",     "all",     "anext",        "any",
    "ascii",       "bin",       "bool",       "breakpoint", "bytearray", "bytes",   "callable",     "chr",
    "classmethod", "compile",   "complex",    "copyright",  "credits",   "delattr", "dict",         "dir",
    "divmod",      "enumerate", "eval",       "exec",       "exit",      "filter",  "float",        "format",
    "frozenset",   "getattr",   "globals",    "hasattr",    "hash",      "help",    "hex",          "id",
    "input",       "int",       "isinstance", "issubclass", "iter",      "len",     "license",      "list",
    "locals",      "map",       "max",        "memoryview", "min",       "next",    "object",       "oct",
    "open",        "ord",       "pow",        "print",      "property",  "quit",    "range",        "repr",
    "reversed",    "round",     "set",        "setattr",    "slice",     "sorted",  "staticmethod", "str",
    "sum",         "super",     "tuple",      "type",       "vars",      "zip",     "inf",          "nan",
    "torch",       "device",    "self",
};

static bool is_reserved(const char *name) {
    size_t n = strlen(name);
    if (n == 0 || (name[n - 1] >= '0' && name[n - 1] <= '9')) return false; /* most names: "add_57" */
    for (int i = 0; i < NX_COUNT(reserved); i++) {
        if (strcmp(reserved[i], name) == 0) return true;
    }
    return false;
}

static uint32_t hash_of(const char *name) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return (uint32_t)(hash ^ hash >> 32);
}

/* name NULL: the first free slot, for a name that the table lacks. */
static size_t slot_of(const table *names, const char *name, uint32_t hash) {
    size_t mask = (size_t)names->room - 1, at = hash & mask;
    for (; names->at[at].name; at = (at + 1) & mask) {
        if (name && names->at[at].hash == hash && strcmp(names->at[at].name, name) == 0) break;
    }
    return at;
}

/* Room for `more` names: until they are there, entries stay where they are. */
static nx_status make_room(table *names, int more) {
    if (2 * (names->n + more) <= names->room) return NX_OK;
    table larger = {.room = names->room ? 2 * names->room : 32, .n = names->n};
    size_t bytes = sizeof(entry) * (size_t)larger.room;
    larger.at = nx_alloc_zeroed(bytes);
    if (larger.at == NULL) return nx_fail_memory(bytes);
    for (int i = 0; i < names->room; i++) {
        if (names->at[i].name) larger.at[slot_of(&larger, NULL, names->at[i].hash)] = names->at[i];
    }
    nx_free(names->at);
    *names = larger;
    return NX_OK;
}

/* Finds or makes the entry of `name`. Lent until the next call, unless there is room for more. */
static nx_status get_entry(nx_graph *graph, const char *name, entry **out) {
    table *names = graph->name_table;
    uint32_t hash = hash_of(name);
    NX_TRY(make_room(names, 1));
    entry *e = &names->at[slot_of(names, name, hash)];
    if (e->name == NULL) {
        e->hash = hash;
        if ((e->name = nx_arena_text(&graph->arena, name)) == NULL) return NX_NO_MEMORY;
        e->reserved = is_reserved(name);
        names->n++;
    }
    *out = e;
    return NX_OK;
}

static const entry *find_entry(const table *names, const char *name) {
    const entry *e = names && names->room ? &names->at[slot_of(names, name, hash_of(name))] : NULL;
    return e && e->name ? e : NULL;
}

static nx_status get_table(nx_graph *graph, table **out) {
    if (graph->name_table == NULL && (graph->name_table = nx_alloc_zeroed(sizeof(table))) == NULL)
        return nx_fail_memory(sizeof(table));
    *out = graph->name_table;
    return NX_OK;
}

enum { MAX_NAME = 200 };

/* Letters, digits and "_" of `hint`; every run of others becomes one "_". */
static void clean(const char *hint, char *out) {
    size_t n = 0;
    bool gap = false;
    if (*hint >= '0' && *hint <= '9') out[n++] = '_';
    for (const char *c = hint; *c && n < MAX_NAME; c++) {
        bool good =
            (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_';
        if (good || !gap) out[n++] = good ? *c : '_';
        gap = !good;
    }
    out[n] = '\0';
    if (n == 0) strcpy(out, "_unnamed");
}

/* Splits "add_1" into "add" and 1; returns -1 and leaves `base` the whole when there is no number. */
static int64_t split_number(const char *name, char *base) {
    size_t n = strlen(name), digits = 0;
    strcpy(base, name);
    while (digits < n && name[n - 1 - digits] >= '0' && name[n - 1 - digits] <= '9') digits++;
    if (digits == 0 || digits > 9 || n < digits + 2 || name[n - 1 - digits] != '_') return -1;
    base[n - 1 - digits] = '\0';
    int64_t number = 0;
    for (size_t i = n - digits; i < n; i++) number = 10 * number + (name[i] - '0');
    return number;
}

static void take(entry *e, nx_node *node) {
    e->used = true;
    e->node = node;
    node->name = e->name;
}

nx_status nx__name_make(nx_graph *graph, const char *hint, nx_node *node) {
    table *names = NULL;
    entry *e, *of_base;
    char candidate[MAX_NAME + 64], base[MAX_NAME + 32];
    NX_TRY(get_table(graph, &names));
    clean(hint, candidate);
    int64_t number = split_number(candidate, base);
    NX_TRY(make_room(names, 3));
    NX_TRY(get_entry(graph, base, &of_base));
    NX_TRY(get_entry(graph, candidate, &e));
    if (number < 0 || e->used) {
        number = of_base->count;
        bool shadows = of_base->reserved && strcmp(candidate, base) == 0;
        while (shadows || e->used) {
            snprintf(candidate, sizeof candidate, "%s_%lld", base, (long long)++number);
            NX_TRY(get_entry(graph, candidate, &e));
            shadows = false;
        }
    }
    of_base->count = number;
    take(e, node);
    return NX_OK;
}

static nx_status claim(nx_graph *graph, const char *exact, nx_node *node, bool *taken) {
    table *names = NULL;
    entry *e;
    NX_TRY(get_table(graph, &names));
    NX_TRY(get_entry(graph, exact, &e));
    *taken = e->used;
    if (!e->used) take(e, node);
    return NX_OK;
}

nx_status nx__name_claim(nx_graph *graph, const char *exact, nx_node *node) {
    bool taken;
    NX_TRY(claim(graph, exact, node, &taken));
    return taken ? nx_fail(NX_RUNTIME, "graph: the name %s is taken", exact) : NX_OK;
}

nx_status nx__name_claim_or_make(nx_graph *graph, const char *exact, nx_node *node) {
    bool taken;
    NX_TRY(claim(graph, exact, node, &taken));
    return taken ? nx__name_make(graph, exact, node) : NX_OK;
}

void nx__name_set_node(nx_graph *graph, const char *name, nx_node *node) {
    entry *e = (entry *)find_entry(graph->name_table, name);
    if (e) e->node = node;
}

nx_node *nx_graph_find(const nx_graph *graph, const char *name) {
    const entry *e = find_entry(graph->name_table, name);
    return e ? e->node : NULL;
}

void nx__names_free(nx_graph *graph) {
    table *names = graph->name_table;
    if (names == NULL) return;
    nx_free(names->at);
    nx_free(names);
    graph->name_table = NULL;
}
