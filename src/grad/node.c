/* Nodes of the backward graph and the autograd record of a tensor: making, naming, freeing.
 * A node is one block: header, edges, then what its maker asked for. Small blocks come from a list of the
 * thread.
 * A chain of nodes is freed by a loop, not by recursion: a node that loses its last reference joins the dead
 * of the thread, and whoever frees the first dead node frees them all. A node that dies on another thread
 * than it was made on joins the lists of that one. */
#include "grad/private.h"

#include <ctype.h>

enum { MAX_FREE = 256 };

/* ---- blocks ------------------------------------------------------------------------------------------- */
nx__node *nx__node_block(size_t bytes) { return nx_alloc(bytes <= NX__NODE_BYTES ? NX__NODE_BYTES : bytes); }

static inline void give_listed(nx_thread *thread, nx__node *node) {
    if (NX_UNLIKELY(node->bytes > NX__NODE_BYTES || thread->n_free_nodes >= MAX_FREE || nx_alloc_watched())) {
        nx_free(node);
        return;
    }
    node->next = thread->free_nodes;
    thread->free_nodes = node;
    thread->n_free_nodes++;
}

nx_status nx__node_new(const nx_grad_class *class, int n_inputs, int n_edges, size_t more_bytes,
                       nx__node **out) {
    size_t bytes = sizeof(nx__node) + sizeof(nx_edge) * (size_t)n_edges + more_bytes;
    nx_thread *thread = nx_thread_get();
    nx__node *node = nx__node_take(thread, bytes);
    if (node == NULL) return nx_fail_memory(bytes);
    nx__node_start(node, thread, class, bytes);
    node->node.n_inputs = n_inputs;
    node->node.n_edges = n_edges;
    for (int k = 0; k < n_edges; k++) node->node.edges[k] = (nx_edge){NULL, 0};
    *out = node;
    return NX_OK;
}

nx_status nx_grad_node_new(const nx_grad_class *class, int n_inputs, int n_edges, void *context,
                           nx_grad_node **out) {
    nx__node *node;
    NX_TRY(nx__node_new(class, n_inputs, n_edges, 0, &node));
    node->node.context = context;
    *out = &node->node;
    return NX_OK;
}

void nx_grad_node_ref(nx_grad_node *node) { nx_count_up(&node->refs); }

static inline void add_dead(nx_thread *thread, nx_grad_node *node) {
    nx__node_of(node)->next = thread->dead_nodes;
    thread->dead_nodes = nx__node_of(node);
}

void nx__node_stop(nx_grad_node *node) {
    if (node->released || node->class->release == NULL) return;
    node->released = true;
    nx__node *own = nx__node_of(node);
    if (NX_LIKELY(own->n_running == 0)) node->class->release(node);
    else own->stops = true;
}

void nx__node_leave(nx_grad_node *node) {
    nx__node *own = nx__node_of(node);
    if (--own->n_running > 0 || NX_LIKELY(!own->stops)) return;
    own->stops = false;
    node->class->release(node);
}

bool nx_grad_node_is_last(const nx_grad_node *node) { return node->is_last && ((const nx__node *)node)->n_running == 1; }

static inline void free_node(nx_thread *thread, nx__node *node) {
    nx__node_stop(&node->node);
    if (node->destroy) node->destroy(node);
    if (NX_UNLIKELY(node->made_at != NULL)) nx_anomaly_free(node->made_at);
    if (node->node.class->end) node->node.class->end(&node->node);
    for (nx_grad_hook *hook = node->hooks, *next; NX_UNLIKELY(hook != NULL); hook = next) {
        next = hook->next;
        if (hook->context) hook->free(hook->context);
        nx_free(hook);
    }
    for (int k = 0; k < node->node.n_edges; k++) {
        nx_grad_node *next = node->node.edges[k].node;
        if (next && nx_count_down(&next->refs)) add_dead(thread, next);
    }
    give_listed(thread, node);
}

void nx_grad_node_unref(nx_grad_node *node) {
    if (node == NULL || !nx_count_down(&node->refs)) return;
    nx_thread *thread = nx_thread_get();
    add_dead(thread, node);
    if (thread->freeing_nodes) return;
    thread->freeing_nodes = true;
    for (nx__node *dead; (dead = thread->dead_nodes) != NULL;) {
        thread->dead_nodes = dead->next;
        free_node(thread, dead);
    }
    thread->freeing_nodes = false;
}

/* ---- what a tensor owns ------------------------------------------------------------------------------- */
static void push_sole(nx_grad_node *node, nx__node **stack) {
    if (node == NULL || atomic_load_explicit(&node->refs, memory_order_relaxed) != 1) return;
    nx__node_of(node)->next = *stack; /* free while the node lives */
    *stack = nx__node_of(node);
}

/* A node that is held once is met once, so that no marks are needed. */
int nx_grad_each_owned(const nx_tensor *tensor, nx_grad_visit *visit, void *context) {
    nx__node *stack = NULL;
    if (tensor->autograd == NULL) return 0;
    push_sole(tensor->autograd->node, &stack);
    push_sole(tensor->autograd->accumulator, &stack);
    int result = 0;
    while (stack && result == 0) {
        nx__node *own = stack;
        stack = own->next;
        result = visit(&own->node, NULL, context);
        for (const nx_grad_hook *hook = own->hooks; hook && result == 0; hook = hook->next)
            result = visit(&own->node, hook, context);
        for (int e = 0; e < own->node.n_edges; e++) push_sole(own->node.edges[e].node, &stack);
    }
    return result;
}

/* ---- names -------------------------------------------------------------------------------------------- */
/* Length of "add" in "aten::add_.Tensor", and where it starts: leading and trailing underscores do not
 * count. */
static int stem_of(const char *name, const char **stem) {
    const char *colons = strstr(name, "::");
    *stem = colons ? colons + 2 : name;
    *stem += strspn(*stem, "_");
    int n = (int)strcspn(*stem, ".");
    while (n > 0 && (*stem)[n - 1] == '_') n--;
    return n;
}

/* "Tensor" of "aten::add.Tensor", "" of "aten::mm" */
static const char *overload_of(const char *name) {
    const char *dot = strchr(name, '.');
    return dot ? dot + 1 : "";
}

/* PyTorch's order of overloads, as far as a rule gives it: the plain one, those of tensors, the others. */
static int compare_overloads(const char *a, const char *b) {
    bool a_tensor = strncmp(a, "Tensor", 6) == 0, b_tensor = strncmp(b, "Tensor", 6) == 0;
    if (*a == '\0' || *b == '\0') return (*a != '\0') - (*b != '\0');
    return a_tensor != b_tensor ? b_tensor - a_tensor : strcmp(a, b);
}

/* PyTorch numbers the overloads of a name that have a derivative. In-place forms carry the functional form's
 * number. */
static int number_of(const nx_op *op) {
    const char *stem, *other_stem;
    if (op->functional) op = op->functional;
    int number = 0, n = stem_of(op->def->name, &stem);
    for (int i = 0; i < nx_op_count(); i++) {
        const nx_op_def *other = nx_op_at(i)->def;
        if (other->derivative == NULL || other->variant != NX_FUNCTIONAL) continue;
        bool same_stem = stem_of(other->name, &other_stem) == n && strncmp(stem, other_stem, (size_t)n) == 0;
        if (same_stem && compare_overloads(overload_of(other->name), overload_of(op->def->name)) < 0)
            number++;
    }
    return number;
}

/* "aten::_to_copy" -> "ToCopyBackward0". Lent until the next call on this thread. */
const char *nx_grad_node_name(const nx_grad_node *node) {
    if (node->op == NULL) return node->class->name;
    nx_thread *thread = nx_thread_get();
    const char *stem;
    size_t at = 0, room = sizeof thread->node_name - sizeof "Backward00";
    int n = stem_of(node->op->def->name, &stem);
    for (int i = 0; i < n && at < room; i++) {
        if (stem[i] == '_') continue;
        bool starts_word = i == 0 || stem[i - 1] == '_';
        thread->node_name[at++] = starts_word ? (char)toupper((unsigned char)stem[i]) : stem[i];
    }
    bool is_copy = strcmp(node->op->def->name, "aten::copy_") == 0; /* PyTorch's own word for this one */
    if (is_copy) strcpy(thread->node_name + at, "Backwards");
    else snprintf(thread->node_name + at, sizeof "Backward00", "Backward%d", number_of(node->op) % 100);
    return thread->node_name;
}

const char *nx__short_name(const nx_grad_node *node, int *n) {
    const char *name = nx_grad_node_name(node), *suffix = strstr(name, "Backward");
    *n = suffix ? (int)(suffix - name) : (int)strlen(name);
    return name;
}

/* ---- the autograd record of a tensor ------------------------------------------------------------------ */
static void free_autograd(nx_autograd *autograd) {
    nx_thread *thread = nx_thread_get();
    nx__retain_stop(autograd);
    if (NX_UNLIKELY(autograd->tangent != NULL)) nx__tangent_drop(autograd);
    if (autograd->grad) nx_tensor_unref(autograd->grad);
    if (autograd->node) nx_grad_node_unref(autograd->node);
    if (autograd->accumulator) {
        autograd->accumulator->context = NULL; /* graphs may still hold it */
        nx_grad_node_unref(autograd->accumulator);
    }
    if (thread->n_free_autograds >= MAX_FREE || nx_alloc_watched()) {
        nx_free(autograd);
        return;
    }
    autograd->next_free = thread->free_autograds;
    thread->free_autograds = autograd;
    thread->n_free_autograds++;
}

nx_status nx__autograd_of(nx_tensor *tensor, nx_autograd **out) {
    nx_autograd *autograd = tensor->autograd;
    if (autograd == NULL) {
        autograd = nx__record_take(nx_thread_get());
        if (autograd == NULL && (autograd = nx_alloc(sizeof *autograd)) == NULL) return nx_fail_memory(sizeof *autograd);
        *autograd = (nx_autograd){0};
        tensor->autograd = autograd;
    }
    *out = autograd;
    return NX_OK;
}

static void (*end_before)(nx_thread *thread);
static void free_thread_lists(nx_thread *thread) {
    for (nx__node *node = thread->free_nodes, *next; node; node = next) {
        next = node->next;
        nx_free(node);
    }
    for (nx_autograd *record = thread->free_autograds, *next; record; record = next) {
        next = record->next_free;
        nx_free(record);
    }
    thread->free_nodes = thread->free_autograds = NULL;
    thread->n_free_nodes = thread->n_free_autograds = 0;
    if (end_before) end_before(thread);
}

__attribute__((constructor)) static void start(void) {
    nx_autograd_free = free_autograd;
    end_before = nx__thread_end;
    nx__thread_end = free_thread_lists;
}
