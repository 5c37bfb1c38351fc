/* Names of nodes: unique in their graph, Python identifiers, numbered as FX numbers them ("add", "add_1";
 * a name of Python's builtins or a keyword gets a number at once, "sum_1"). One table of strings per
 * graph; a name stays taken when its node goes, so that texts of before and after a pass can be compared. A copy of
 * a graph, to which most often nothing is added, gets its table with the first name that is asked for: names of nodes
 * that went before that are free again.
 * Read next: graph.c. */
#include "ir/private.h"

typedef struct entry {
    char *name;
    int64_t count;   /* number last given to this base */
    bool used;       /* is a node's name (otherwise only a base) */
    bool reserved;   /* is one of Python's words */
    uint32_t hash;   /* of the name */
    nx_node *node;   /* whose name it is, NULL when that node is gone */
} entry;
/* The entries, one behind the other, and where each hash leads: little memory is touched, which a new process has to be given. */
typedef struct table {
    entry *at;
    int n, room;
    uint32_t *slots; /* n_slots, a power of two: number of an entry plus one, 0: free */
    int n_slots;
} table;

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

static bool is_reserved(const char *name, size_t n) {
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
static uint32_t *slot_of(const table *names, const char *name, uint32_t hash) {
    size_t mask = (size_t)names->n_slots - 1, at = hash & mask;
    for (; names->slots[at]; at = (at + 1) & mask) {
        const entry *e = &names->at[names->slots[at] - 1];
        if (name && e->hash == hash && strcmp(e->name, name) == 0) break;
    }
    return &names->slots[at];
}

static nx_status grow_entries(table *names) {
    int room = names->room ? 2 * names->room : 16;
    entry *larger = nx_realloc(names->at, sizeof(entry) * (size_t)names->room, sizeof(entry) * (size_t)room);
    if (larger == NULL) return nx_fail_memory(sizeof(entry) * (size_t)room);
    names->at = larger;
    names->room = room;
    return NX_OK;
}

static nx_status grow_slots(table *names) {
    int n_slots = names->n_slots ? 2 * names->n_slots : 32;
    uint32_t *slots = nx_alloc_zeroed(sizeof *slots * (size_t)n_slots);
    if (slots == NULL) return nx_fail_memory(sizeof *slots * (size_t)n_slots);
    nx_free(names->slots);
    names->slots = slots;
    names->n_slots = n_slots;
    for (int i = 0; i < names->n; i++) *slot_of(names, NULL, names->at[i].hash) = (uint32_t)i + 1;
    return NX_OK;
}

/* Room for `more` names, fewer than the first tables hold: until they are there, entries stay where they are. */
static nx_status make_room(table *names, int more) {
    if (names->n + more > names->room) NX_TRY(grow_entries(names));
    return 2 * (names->n + more) > names->n_slots ? grow_slots(names) : NX_OK;
}

/* Finds or makes the entry of `name`. Lent until the next call, unless there is room for more. */
static nx_status get_entry(nx_graph *graph, const char *name, entry **out) {
    table *names = graph->name_table;
    uint32_t hash = hash_of(name);
    NX_TRY(make_room(names, 1));
    uint32_t *slot = slot_of(names, name, hash);
    if (*slot == 0) {
        size_t n = strlen(name);
        char *kept = nx_arena_take(&graph->arena, n + 1);
        if (kept == NULL) return NX_NO_MEMORY;
        names->at[names->n] = (entry){.name = memcpy(kept, name, n), .hash = hash, .reserved = is_reserved(name, n)};
        *slot = (uint32_t)++names->n;
    }
    *out = &names->at[*slot - 1];
    return NX_OK;
}

static const entry *find_entry(const table *names, const char *name) {
    uint32_t at = names && names->n_slots ? *slot_of(names, name, hash_of(name)) : 0;
    return at ? &names->at[at - 1] : NULL;
}

/* The names of the nodes that are there, of a graph that is a copy. */
static nx_status adopt(table *names, const nx_graph *graph) {
    for (nx_node *node = graph->first; node; node = node->next) {
        NX_TRY(make_room(names, 1));
        uint32_t hash = hash_of(node->name);
        names->at[names->n] = (entry){.name = node->name, .hash = hash, .used = true, .node = node,
                                      .reserved = is_reserved(node->name, strlen(node->name))};
        *slot_of(names, NULL, hash) = (uint32_t)++names->n;
    }
    return NX_OK;
}

static nx_status get_table(nx_graph *graph, table **out) {
    *out = graph->name_table;
    if (*out) return NX_OK;
    if ((graph->name_table = nx_alloc_zeroed(sizeof(table))) == NULL) return nx_fail_memory(sizeof(table));
    nx_status status = adopt(graph->name_table, graph);
    if (status != NX_OK) nx__names_free(graph);
    *out = graph->name_table;
    return status;
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

/* Splits "add_1" into "add" and 1; returns -1 and leaves `base` the whole when there is no number. n: the length of the base. */
static int64_t split_number(const char *name, char *base, size_t *n) {
    size_t length = strlen(name), digits = 0;
    memcpy(base, name, length + 1);
    *n = length;
    while (digits < length && name[length - 1 - digits] >= '0' && name[length - 1 - digits] <= '9') digits++;
    if (digits == 0 || digits > 9 || length < digits + 2 || name[length - 1 - digits] != '_') return -1;
    *n = length - 1 - digits;
    base[*n] = '\0';
    int64_t number = 0;
    for (size_t i = length - digits; i < length; i++) number = 10 * number + (name[i] - '0');
    return number;
}

/* "_" and the number, as text. */
static void write_number(char *to, int64_t number) {
    char digits[20];
    int n = 0;
    for (; number > 0 || n == 0; number /= 10) digits[n++] = (char)('0' + number % 10);
    *to++ = '_';
    while (n > 0) *to++ = digits[--n];
    *to = '\0';
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
    size_t n;
    NX_TRY(get_table(graph, &names));
    clean(hint, candidate);
    int64_t number = split_number(candidate, base, &n);
    bool numbered = number >= 0;
    NX_TRY(make_room(names, 3));
    NX_TRY(get_entry(graph, base, &of_base));
    e = of_base;
    if (numbered) NX_TRY(get_entry(graph, candidate, &e));
    if (!numbered || e->used) {
        number = of_base->count;
        bool shadows = of_base->reserved && !numbered;
        memcpy(candidate, base, n);
        while (shadows || e->used) {
            write_number(candidate + n, ++number);
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

nx_status nx__name_copy(nx_graph *graph, const char *exact, nx_node *node) {
    assert(graph->name_table == NULL);
    node->name = nx_arena_text(&graph->arena, exact);
    return node->name ? NX_OK : NX_NO_MEMORY;
}

void nx__name_release(nx_node *node) {
    entry *e = (entry *)find_entry(node->graph->name_table, node->name);
    if (e) e->node = NULL;
}

nx_node *nx_graph_find(const nx_graph *graph, const char *name) {
    const entry *e = find_entry(graph->name_table, name);
    nx_node *node = e ? e->node : NULL;
    if (graph->name_table == NULL) /* a copy */
        for (node = graph->first; node && strcmp(node->name, name) != 0;) node = node->next;
    return node;
}

void nx__names_free(nx_graph *graph) {
    table *names = graph->name_table;
    if (names == NULL) return;
    nx_free(names->at);
    nx_free(names->slots);
    nx_free(names);
    graph->name_table = NULL;
}
