/* notes: what a trace knows and what becomes of it: the side table of objects, the guards that follow from using them, the
 * effects on what existed before, the recipes of what lives on, how a trace stops, and what a listener hears of it.
 *
 * Words. root: a function that is compiled; point: a place in it where a trace can begin (instruction, stack depth);
 * segment: one trace from a point to the return or to a break, with its guards, graph and recipe; note: what the tracer
 * knows of an object; recipe: how to make the values that live on from the graph's results, from what the guards
 * fetched and from constants. Everything here runs with the interpreter's lock held. */
#ifndef NXPY_NOTES_H
#define NXPY_NOTES_H

#include "guard/guard.h"
#include "dispatch/dispatch.h"
#include "grad/grad.h"
#include "ir/ir.h"

typedef enum nxpy_break {
    NXPY_BREAK_NOTHING = 0,
#define NXPY_BREAK_ROW(code, why, mend) NXPY_BREAK_##code,
#include "notes/breaks.def"
#undef NXPY_BREAK_ROW
    NXPY_N_BREAKS
} nxpy_break;

/* ---- recipes (recipe.c): a stack program that makes values -------------------------------------- */
typedef enum nxpy_make {
    NXPY_MAKE_RESULT, /* result n of the graph */
    NXPY_MAKE_SLOT,   /* what the guards fetched into slot n */
    NXPY_MAKE_CONST,  /* object */
    NXPY_MAKE_NULL,   /* no object: an empty stack entry or an unbound local */
    NXPY_MAKE_TUPLE,  /* of the last n values */
    NXPY_MAKE_LIST,
    NXPY_MAKE_DICT,   /* of the last n pairs */
    NXPY_MAKE_METHOD, /* function, self */
    NXPY_MAKE_CELL,   /* of one value */
    NXPY_MAKE_FILL,   /* the last value is what the cell before it holds; both go */
    NXPY_MAKE_FUNCTION, /* of closure, keyword defaults, defaults, annotations, what computes these, __dict__; object: (code,
                         * globals, name, qualified name, doc, module) */
    NXPY_MAKE_SIZE,     /* a torch.Size of the last n values */
    NXPY_MAKE_INT,      /* integer n of the fit */
    NXPY_MAKE_SET,      /* of the last n values */
    NXPY_MAKE_NAMED,    /* named tuple of class `object` from one tuple */
    NXPY_MAKE_CALL,     /* object(the last n values) */
    NXPY_MAKE_STATE,    /* last value.__setstate__(object) */
    NXPY_MAKE_INSTANCE, /* of class `object` (n 1: of the last value), without attributes */
    NXPY_MAKE_ATTRIBUTE,/* the last value becomes attribute `object` of the one before */
    NXPY_MAKE_ENTRY,    /* the last value is appended to the list before it; n 2: key and value go into the dict before them */
    NXPY_MAKE_CLASS,  /* the last value, a tensor that the graph has made, gets class `object`; n: it is a parameter */
    NXPY_MAKE_OVER,   /* the last value, a tensor that the graph has made, has a history that a backward has used up */
    NXPY_MAKE_KEEP,   /* remembers the last value as n */
    NXPY_MAKE_AGAIN   /* what was remembered as n */
} nxpy_make;
typedef struct nxpy_step { uint8_t make; int n; PyObject *object; } nxpy_step; /* object owned */
typedef struct nxpy_recipe {
    NX_VEC(nxpy_step) steps;
    int n_kept, n_values;   /* remembered; made at the end */
} nxpy_recipe;

/* ---- effects (effects.c): what a run changes in objects that existed before ----------------------- */
typedef enum nxpy_effect_kind {
    NXPY_EFFECT_FIELD,  /* attribute `key` of an instance or module */
    NXPY_EFFECT_KEY,    /* of a dict: globals, an instance's __dict__ */
    NXPY_EFFECT_CLASS,  /* attribute `key` of a class; `place` is the class's own dict */
    NXPY_EFFECT_CELL,
    NXPY_EFFECT_GRAD,   /* .grad of a tensor */
    NXPY_EFFECT_DATA,   /* .data of a tensor; old: what it shows now */
    NXPY_EFFECT_APPEND, /* values behind the elements that a list had */
    NXPY_EFFECT_LIST, NXPY_EFFECT_DICT, NXPY_EFFECT_SET, /* all that it holds */
    NXPY_EFFECT_CALL    /* a call of a function for what it tells somebody else; `place` is its arguments */
} nxpy_effect_kind;
typedef struct nxpy_effect { /* in a trace; all owned */
    uint8_t kind;
    PyObject *holder, *place; /* what is changed; the dict that holds its attributes, or itself */
    PyObject *key, *old;      /* old: value, copy of a container; NULL: nothing was there */
    Py_ssize_t n;             /* APPEND: elements before; DATA: writes before */
} nxpy_effect;
typedef struct nxpy_change { uint8_t kind; uint32_t n_writes; PyObject *key; } nxpy_change; /* in a segment; n_writes: DATA */

/* ---- what is kept ------------------------------------------------------------------------------- */
enum { NXPY_MAX_FITS = 16, NXPY_MAX_NUMBER_FITS = 32 };
typedef struct nxpy_fit nxpy_fit; /* py/capture */

/* A Python number that was another one at an earlier call. */
typedef struct nxpy_given { int slot; bool keyed; nx_value traced; } nxpy_given; /* keyed: a call of the graph needs it as a constant */
/* One number of the call from others: CHECKs must hold. */
typedef struct nxpy_number_step {
    nx_int_code code;
    int to;                     /* place among the numbers */
    int from[2];                /* places, -1: args; of INPUT and FLOAT: from[0] is the given one */
    nx_value args[2];
} nxpy_number_step;

/* What autocast does on a thread. */
typedef struct nxpy_autocast {
    uint8_t enabled, dtype[NX_MAX_DEVICE_TYPES];
    bool uncached;
    int nesting;
} nxpy_autocast;

/* A tensor that the graph computes and whose elements decided something: it holds for a run that gives the same ones. */
typedef struct nxpy_told {
    nx_node *node;              /* in a trace; lent */
    int n;                      /* result of the node, or of the segment's graph */
    bool fresh;                 /* no run has given them yet */
    nx_tensor *elements;        /* in the host's memory; owned */
    PyObject *file;             /* where they were read; owned or NULL */
    int line;
} nxpy_told;

/* An input that each run makes like the tensor in the slot; frozen: which requires no gradient when the run is over. */
typedef struct nxpy_made { int slot; bool frozen; } nxpy_made;

typedef struct nxpy_segment {
    nxpy_guards guards;
    NX_VEC(nxpy_made) made;     /* leaves of the graph's own that live on */
    int *inputs, n_inputs;      /* slots of the graph's inputs */
    int *held, n_held;          /* slots that must live while the graph runs: inputs and those that the recipe returns */
    int n_lent;                 /* of these, the first: their objects are a tensor's, and go with it */
    int n_results;
    NX_VEC(nxpy_told) told;     /* results behind the recipe's, which are compared */
    PyObject *graph;            /* nxpy_graph; NULL when there is nothing to compute */
    nxpy_fit *fits[NXPY_MAX_FITS]; /* newest hit first; owned */
    int n_fits;
    PyObject *shared;           /* what a backend of the user's own made for all shapes; owned or NULL */
    int *varying, n_varying;    /* slots of the inputs whose sizes vary */
    NX_VEC(nxpy_given) given;   /* the Python numbers that vary */
    bool fitted;                /* something varies: its graph runs in fits */
    int n_key;                  /* numbers in a fit's key */
    int n_made;                 /* fits that were made for other numbers */
    NX_VEC(nx_node *) sizes;    /* nodes of the graph: the numbers that the recipe makes */
    NX_VEC(nxpy_number_step) steps; /* those that a call computes itself: its graph is the same for all of them */
    NX_VEC(nx_open_number) open; /* and those of them that are inputs of the graph; open_at: where they stand in `sizes` */
    NX_VEC(int) open_at;
    bool ran;                   /* its frame has run it, so that a listener has heard of the first run */
    nxpy_recipe recipe;         /* the return value, or the values of `targets` */
    int n_returned;             /* of the recipe's values: the result or the targets; behind them two for each change */
    NX_VEC(nxpy_change) changes;
    int *targets;               /* at a break: places in the frame's locals and stack */
    bool returns;
    uint8_t grad_after;         /* the mode that it leaves; 0: the one that it found */
    uint8_t whole_after;        /* the same of nxpy__whole */
    bool sets_autocast;         /* it leaves another autocast than it found */
    nxpy_autocast autocast_after; /* then: that one; nesting: by how much more */
    nxpy_break why;             /* at a break */
    bool enters;                /* the breaking instruction calls a Python function: it may be a root of its own */
    int first, last, depth;     /* at a break: the instruction's units, values on the stack before it */
    PyObject *stepper, *thrower; /* see nxpy_frame_step, nxpy_frame_throw */
} nxpy_segment;

enum { NXPY_GRAD_OFF = 1, NXPY_GRAD_ON };
enum { NXPY_MAX_POINTS = 256, NXPY_MAX_ROOTS = 32, NXPY_MAX_ALIKE = 4 };
typedef struct nxpy_mark { int unit; nxpy_break why; bool enters; PyObject *text; } nxpy_mark; /* text owned */
typedef struct nxpy_point {
    int next, depth;
    uint64_t empty;             /* which entries of the stack are NULL, from the lowest: calls and methods read that */
    NX_VEC(nxpy_segment *) segments; /* newest hit first; owned */
    int n_slots;                /* the most that one of their guards has */
    bool fails;                 /* what the trace that runs would compute fails, so that this call runs uncompiled */
    bool dead;                  /* from here the function runs uncompiled */
    bool busy;                  /* a trace from here runs, or its backend: whoever else comes meanwhile runs uncompiled */
    NX_VEC(nxpy_mark) marks;    /* instructions of the root before which the graph must end */
} nxpy_point;
typedef struct nxpy_root {
    PyObject *function, *code;  /* owned */
    PyObject *defaults, *kwdefaults; /* owned or NULL: those that it had */
    NX_VEC(nxpy_point *) points;
} nxpy_root;

typedef struct nxpy_captured {  /* narthex._C.CapturedFunction */
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *fn;               /* as given */
    PyObject *function, *self;  /* the Python function in it and what it is bound to; NULL: none */
    bool is_object;             /* fn is one with a __call__: which function that is, is found at each call */
    PyObject *backend, *name, *dict, *weak;
    bool fullgraph, warned, shares; /* shares: the backend gets one graph for all shapes, see fit.c */
    bool no_elements;           /* what elements decide ends a graph under fullgraph, too */
    int dynamic;                /* 1, 0; -1: sizes that were seen to change */
    int running;                /* calls that are under way: their segments must live */
    NX_VEC(nxpy_root *) roots;  /* in the order in which they were met */
    PyObject *graphs, *recompiles; /* lists */
    int n_graphs;
    bool warm;                  /* its first calls under NXPY_STANCE_THEN are over */
    bool of_frames;             /* made for a frame callback: where that is False, nothing more is compiled */
    int limit;                  /* compiled pieces for a place; 0: the setting's */
    PyObject *told;             /* called with the guards of each piece, may give a list of those that count; owned or NULL */
    PyObject *calls;            /* list of what enter_call was told in the latest trace; owned or NULL */
} nxpy_captured;
extern PyTypeObject nxpy_captured_type;

/* ---- a trace ------------------------------------------------------------------------------------ */
typedef enum nxpy_note_kind { NXPY_NOTE_SOURCE, NXPY_NOTE_BORN, NXPY_NOTE_FAKE, NXPY_NOTE_FIXED } nxpy_note_kind;
typedef struct nxpy_note {
    PyObject *object;           /* owned */
    nxpy_note_kind kind;        /* existed before; born in the trace; a fake tensor; existed before and never changes */
    int slot;                   /* SOURCE: where the guards fetch it; FAKE of an input: the same */
    PyObject *fake;             /* what stands for this tensor in the trace; owned or NULL */
    bool touched, elements;     /* guards on the value exist; its elements are noted */
    bool is_input;
    bool by_parts;              /* a function, method or partial that was another one before: its parts are guarded, not it */
    bool is_own_dict;           /* the __dict__ of an object that was born here, which is asked for it again */
    bool knows_grad;            /* FAKE of an input: its .grad is what stands for the tensor's; of a leaf of the trace's own: true */
    bool is_namespace;          /* a dict of globals or of attributes: read and written by key only */
    PyObject *real;             /* FAKE of an input: the tensor, NULL: each run makes it; the __dict__ of a class, as a view: the dict;
                                   lent */
    PyObject *made;             /* BORN, a class that dataclasses has filled: the function, what stood behind the class in its call,
                                 * what the class held before and after; owned or NULL */
    int born_at;                /* BORN, FAKE: unit of the root's instruction that made it, of a leaf: that made it one */
    int leaf;                   /* FAKE: which of the leaves that the trace makes it is, from 1 */
} nxpy_note;

/* The slot's number is left open as this one, lent by its note; a float: in a tensor, that float, lent by the dict. */
typedef struct nxpy_opened { int slot; PyObject *number; } nxpy_opened;

typedef struct nxpy_loop nxpy_loop;
typedef struct nxpy_region nxpy_region; /* region.c */
/* A tensor of the trace's own with hooks, or that keeps its gradient (functions NULL); at: the root's instruction there. */
typedef struct nxpy_hooked { int note; PyObject *functions; int at; } nxpy_hooked; /* functions: a dict, lent by its note */
typedef struct nxpy_part { nx_graph *graph; nx_tensor **reads; int n_reads; } nxpy_part; /* all owned */
typedef struct nxpy_trace {
    nxpy_captured *owner;
    nxpy_root *root;
    nxpy_point *point;
    nxpy_segment *segment;      /* being made */
    nx_graph *graph;            /* owned until the segment has it */
    nx_tracer tracer;
    int n_checkpoints;
    bool uses_up;               /* a backward that keeps no graph has run */
    int n_before;               /* notes there were when the last one began */
    int n_looked;               /* notes that were looked at for fakes that the program has no more */
    NX_VEC(int) leaves;         /* notes of fakes that the trace made and that require gradients, without a history */
    NX_VEC(nxpy_hooked) hooked;
    int n_hooks;                /* that were registered in dicts of the trace's own */
    int n_leaves;               /* that there were, with those that are inputs */
    int n_leaf_calls;           /* of these, those that the graph knows: inputs, and calls of narthex::leaf */
    int grads_on_at;            /* the root's instruction that first recorded gradients in a graph that began without, -1 */
    int unasked_at;             /* where the root last changed who is asked for functions */
    int map_at;                 /* the root's instruction there where the outermost open map over slices began */
    NX_VEC(nxpy_part) parts;    /* of conditions and loops, that are traced and wait for the call */
    nxpy_region *region;        /* the innermost part that is traced: a backward, a branch ...; owned or NULL */
    uint64_t included_before;
    bool grad_at_start, whole_at_start;
    nxpy_autocast autocast_at_start;
    int64_t autocast_guard;     /* the same as guards know it */
    NX_VEC(nxpy_note) notes;
    nx_map index;               /* object -> number of its note + 1 */
    NX_VEC(nxpy_effect) effects;
    NX_VEC(int) inputs;         /* notes of tensors that are graph inputs, in order */
    NX_VEC(nxpy_told) told;     /* elements that the trace was told of */
    nxpy_loop *root_loop, *loop;/* the root's, the innermost one */
    int root_at;                /* first unit of the root's instruction */
    nxpy_break stop;            /* sticky: nothing goes on when set */
    bool clean;                 /* the root's frame is as it was before the instruction */
    bool stop_enters, skips;    /* skips: the root runs uncompiled from its point */
    PyObject *stop_text;        /* more about it, owned or NULL */
    PyObject *error[3];         /* exception that stopped it */
    bool raises;                /* that is the caller's, whatever else would be done */
    PyObject *raised;           /* the exception that is on its way, where sizes vary; owned or NULL */
    bool raised_by_guards;      /* it comes for all sizes */
    PyObject *traceback;        /* what its exceptions have: a real one, of which nothing is read; owned or NULL */
    int depth;                  /* of inlined calls */
    int n_handling, raised_at;  /* exceptions that the root is handling; where it raised the outermost of them */
    const char *unmakeable;     /* what that is */
    int unmakeable_at;          /* -1, or unit of the root's instruction that made a value which no recipe can make */
    int64_t n_instructions;
    PyObject *file, *function;  /* user's line now; lent from its code */
    int line;
    NX_VEC(nxpy_opened) opened;
    PyObject *events;           /* list of what a listener hears when the trace is over, owned or NULL */
    PyObject *sources;          /* file -> lines, read when the trace is over; owned or NULL */
    bool tells_modules;         /* a backend of the program's does, which is told of calls of modules */
    bool spells;                /* somebody looks at the graph: */
    PyObject *spellings;        /* list: rows of calls (spelling.c); owned or NULL */
    PyObject *ask;              /* what must be found when the trace is over (specials.c); owned or NULL */
    PyObject *ask_arguments;    /* tuple: what a function is asked with; owned or NULL */
    PyObject *answers;          /* dict of such questions that were answered, of all tries; lent */
    bool holds_signals;
    int n_making;               /* classes that type.__new__ makes now: a class that nobody knows yet is one of them */
} nxpy_trace;

/* What this thread is doing. The only state of capture besides the objects, with the log's callable and the hook's count. */
typedef struct nxpy_doing {
    nxpy_trace *trace;          /* a trace runs */
    nxpy_captured *entering;    /* the next frame of `function` is a root of this one */
    PyObject *function;         /* NULL: any function's (a break that entered a Python function) */
    bool for_fx;                /* torch.fx records proxies */
    int paused;                 /* our own Python code runs: hands off */
} nxpy_doing;
extern _Thread_local nxpy_doing nxpy__doing;
/* torch._dynamo.config. */
typedef struct nxpy_settings {
    int max_segments;           /* of a point; then it runs uncompiled where none fits */
    bool automatic;             /* what was seen to change is left open */
    bool open_first;            /* all sizes are left open from the start */
    bool fails_at_limit;        /* instead of running uncompiled */
    bool fails_at_recompile;    /* a function that was compiled for other inputs */
    bool keeps_ints, keeps_floats; /* numbers of these types are never left open */
    bool refuses_traced;        /* compiled functions may not be called while torch.fx records proxies */
} nxpy_settings;
extern nxpy_settings nxpy__settings;
extern _Thread_local bool nxpy__whole; /* a graph break is an error on this thread: torch._dynamo.error_on_graph_break */

/* ---- spelling.c: calls as the program spells them ------------------------------------------------- */
/* Before a call: its number, 0 where it is a part of another or cannot be told. After it: gives the result (NULL: it raised). */
int nxpy__spell_begin(nxpy_trace *trace, PyObject *callable, PyObject *const *args, Py_ssize_t n, PyObject *kw_names);
void nxpy__spell_name(nxpy_trace *trace, PyObject *value, PyObject *name); /* the program gives a value of the graph a variable's name */
/* What is recorded from here on belongs to the call of a module, until it is left with the number that this gave; 0: of none. */
int nxpy__spell_enter(nxpy_trace *trace, PyObject *module);
void nxpy__spell_leave(nxpy_trace *trace, int before);
int nxpy__spell_operator(nxpy_trace *trace, const char *name, PyObject *const *args, Py_ssize_t n);
PyObject *nxpy__spell_end(nxpy_trace *trace, int number, PyObject *result);

/* ---- code.c: what is said of code objects --------------------------------------------------------- */
typedef enum nxpy_action { NXPY_ACTION_DEFAULT, NXPY_ACTION_SKIP, NXPY_ACTION_RUN_ONLY } nxpy_action; /* as PyTorch numbers them */
typedef struct nxpy_code_state {
    nxpy_action own, inner;     /* what a frame callback does with its frames; with those that begin in them */
    bool skips;                 /* skip_code: no frame of its own is captured; those that begin in it are */
    PyObject *entries, *kept;   /* list of what was made of it; dict for callbacks; owned or NULL */
} nxpy_code_state;
/* Lent; NULL: nothing is known of it, or (when it is to be made) an exception. */
nxpy_code_state *nxpy__code_state(PyObject *code, bool make);
static inline bool nxpy__code_skips(PyObject *code) {
    const nxpy_code_state *state = nxpy__code_state(code, false);
    return state && state->skips;
}

/* ---- state.c: how a trace stops ------------------------------------------------------------------ */
void nxpy__stop_exception(void); /* sets the one that stands for a stop, if none is set */
int nxpy__stop_uncaught(nxpy_trace *trace); /* the set exception is not caught by the traced program, or none of its own; -1 */
int nxpy__stop(nxpy_trace *trace, nxpy_break why, const char *format, ...); /* before any effect; always -1 */
/* What a handler returns for the set exception, always -1: the program's own may be caught by it, lack of memory and such
 * stop the trace. */
int nxpy__stop_error(nxpy_trace *trace);
/* The traceback of an exception of the trace, whose frames hold fakes: whoever looks into it ends the graph before the
 * exception. Lent; NULL: an exception. */
PyObject *nxpy__traceback(nxpy_trace *trace);
nx_status nxpy__stop_unknown(nx_tracer *tracer, nx_tensor *tensor, nx_value *node); /* for nx_tracer.unknown */
nx_status nxpy__stop_refused(nx_tracer *tracer, const nx_op *op, const char *why);

nxpy_autocast nxpy__autocast_now(void);
void nxpy__autocast_put(const nxpy_autocast *state);

/* ---- sources.c: the side table ------------------------------------------------------------------ */
nxpy_note *nxpy__note_find(nxpy_trace *trace, PyObject *object);         /* lent until the next note is made */
nxpy_note *nxpy__note_add(nxpy_trace *trace, PyObject *object, nxpy_note_kind kind, int slot);
/* The value to work with: constants and what was born as they are, tensors as their fake; guards what it was. Lent; NULL: stopped. */
PyObject *nxpy__use(nxpy_trace *trace, PyObject *object);
/* A Parameter's fake is a Parameter, and so on: type() and isinstance() ask the object itself. Its layout is the tensor's. 0 or -1. */
int nxpy__take_class(nxpy_trace *trace, PyObject *fake, PyTypeObject *wanted);
/* Takes what C code returned into the table. 0 or -1: stopped. */
int nxpy__admit(nxpy_trace *trace, PyObject *object);
/* The fake of note `number` is an input from here on, which each run makes. 0 or -1. */
int nxpy__become_input(nxpy_trace *trace, int number, const char *name);
/* A fake of the trace's own, which requires gradients now and has no history. 0 or -1. */
int nxpy__note_leaf(nxpy_trace *trace, PyObject *fake);
int nxpy__note_question(PyObject *question); /* for nxpy_before_question: what a __torch_function__ is given, where a trace runs */
/* A value fetched by a new row (or the same one as before). 0 or -1. */
int nxpy__fetch(nxpy_trace *trace, nxpy_row_code code, int from, PyObject *a, PyObject *b, int64_t n, PyObject *value);
int nxpy__fixed(nxpy_trace *trace, PyObject *object); /* notes what has no source as FIXED; constants pass; 0 or -1 */
int nxpy__born(nxpy_trace *trace, PyObject *object);  /* the same as BORN; NULL passes */
/* The same for a number that the caller goes on with: *value becomes an open one (lent) if it was another number at an earlier call. */
int nxpy__fetch_number(nxpy_trace *trace, nxpy_row_code code, int from, PyObject *a, PyObject *b, int64_t n, PyObject **value);
int nxpy__check(nxpy_trace *trace, nxpy_row_code code, int from, PyObject *a, int64_t n); /* adds a checking row once */
/* The class holds under this name what it holds now, or nothing; nothing is read of it. 0 or -1. */
int nxpy__note_operator(nxpy_trace *trace, PyTypeObject *type, const char *name);
/* The only element of an input that nothing has written, guarded: 1, *out is a new number; 0: not told, or it was another one at an
 * earlier call and may be anything (`few`: it has few values, so that a segment for each is right); -1: stopped. */
int nxpy__element(nxpy_trace *trace, PyObject *fake, bool few, PyObject **out);
int nxpy__slot_of(nxpy_trace *trace, PyObject *object);                  /* slot of a noted object, making a FIXED row if needed; -1 */
int nxpy__slot_called(nxpy_trace *trace, PyObject *object, PyObject *name); /* the same, of a variable of that name, NULL: by its type */
int nxpy__note_elements(nxpy_trace *trace, PyObject *container);         /* of a list, tuple or dict that existed before */
/* What dict holds under key, guarded by that key alone if it existed before. Lent, NULL when nothing. 0 or -1. */
int nxpy__dict_value(nxpy_trace *trace, PyObject *dict, PyObject *key, PyObject **out);
bool nxpy__is_open(nxpy_trace *trace, PyObject *dict, PyObject *key); /* what the dict held under key is a number that is left open */
bool nxpy__is_born(nxpy_trace *trace, PyObject *object);
bool nxpy__is_fake(nxpy_trace *trace, PyObject *object);
int nxpy__note_function(nxpy_trace *trace, PyFunctionObject *function);  /* before it is inlined */
int nxpy__forget(nxpy_trace *trace, PyObject *object); /* born, and not to be used any more: whoever uses it ends the graph; 0 or -1 */
void nxpy__notes_free(nxpy_trace *trace);

/* ---- kinds.c: kinds of objects ---------------------------------------------------------------------- */
typedef enum nxpy_kind_code {
#define NXPY_KIND_ROW(code, guard, holds, walked, operators, compared, shown, made, again) NXPY_KIND_##code,
#include "notes/kinds.def"
#undef NXPY_KIND_ROW
    NXPY_N_KINDS
} nxpy_kind_code;
enum { NXPY_GUARD_NEVER, NXPY_GUARD_TYPE, NXPY_GUARD_VERY, NXPY_GUARD_PARTS, NXPY_GUARD_MEMORY };
enum { NXPY_HOLDS_NONE, NXPY_HOLDS_ITEMS, NXPY_HOLDS_PAIRS, NXPY_HOLDS_MEMBERS };
enum { NXPY_BY_NEVER, NXPY_BY_OWN, NXPY_BY_BORN, NXPY_BY_METHODS, NXPY_BY_PARTS };
typedef struct nxpy_kind { uint8_t code, guard, holds, walked, operators, compared, shown; bool made; } nxpy_kind; /* see kinds.def */
const nxpy_kind *nxpy__kind(PyObject *object);
static inline bool nxpy__is_a(PyObject *o, nxpy_kind_code code) { return nxpy__kind(o)->code == code; }
/* Of a class that may change and has nothing that C code reads, but for tuples, exceptions and what kinds.def names. */
static inline bool nxpy__is_instance(PyObject *o) { return nxpy__is_a(o, NXPY_KIND_INSTANCE); }
static inline bool nxpy__is_sequence(PyObject *o) { return nxpy__kind(o)->holds == NXPY_HOLDS_ITEMS; }
static inline bool nxpy__is_dict(PyObject *o) { return nxpy__kind(o)->holds == NXPY_HOLDS_PAIRS; }
static inline bool nxpy__is_container(PyObject *o) { return nxpy__kind(o)->holds != NXPY_HOLDS_NONE; }
static inline bool nxpy__is_iterator(PyObject *o) { return nxpy__is_a(o, NXPY_KIND_ITERATOR); }
static inline bool nxpy__is_exception(PyObject *o) { return PyExceptionInstance_Check(o); }
/* Classes of C cannot change. */
static inline bool nxpy__may_change(const PyTypeObject *type) { return type->tp_flags & Py_TPFLAGS_HEAPTYPE; }
PyObject *nxpy__name(const char *literal);  /* the interned string, lent for ever; only of a literal; NULL: no memory */
int nxpy__set_update(PyObject *set, PyObject *from); /* adds the members of a list, tuple or set; 0, or -1 with an exception */
int nxpy__use_as_key(nxpy_trace *trace, PyObject *object); /* one that existed before is guarded by its identity; 0 or -1 */
bool nxpy__is_enum(PyObject *object);       /* a member of an enumeration that C code compares */
bool nxpy__is_key(PyObject *object);        /* of dicts and sets, found without code of the user's */
bool nxpy__are_keys(PyObject *tuple);
bool nxpy__is_made(PyObject *object);       /* a tensor that the thread's trace makes, which stands for itself */
/* What a frozen dataclass is compared and hashed by, where dataclasses made both methods: the names of its fields, a new list. NULL
 * without an exception: it is none. */
PyObject *nxpy__frozen_names(PyObject *object);
/* Field `text` of an object of a class in C, with its elements, or (`very`) as the very object. Lent; NULL: nothing is in it. */
int nxpy__note_member(nxpy_trace *trace, PyObject *object, int slot, const char *text, bool very, PyObject **out);
int nxpy__note_partial(nxpy_trace *trace, PyObject *partial); /* one that existed before, its parts; 0 or -1 */
extern PyTypeObject *nxpy__cached_property_type, *nxpy__lru_cache_type, *nxpy__enum_type, *nxpy__tuple_getter_type, *nxpy__local_type;
/* Stands for an array over the memory of a tensor that the trace has; like: one of its dtype, whose elements nobody reads; make: makes
 * an array of a tensor. All owned. */
typedef struct nxpy_shown { PyObject_HEAD PyObject *tensor, *like, *make; } nxpy_shown;
extern PyTypeObject nxpy__id_type, nxpy__shown_type, nxpy__drawn_type;
PyObject *nxpy__shown_new(PyObject *tensor, PyObject *like, PyObject *make);
static inline nxpy_shown *nxpy__shown(PyObject *o) { return Py_IS_TYPE(o, &nxpy__shown_type) ? (nxpy_shown *)o : NULL; }
int nxpy__kinds_init(void);

/* ---- recipe.c ----------------------------------------------------------------------------------- */
/* Adds the steps that make `value`. 1: done; 0: it cannot be made again; -1: an exception. Graph results that it needs
 * are appended to `results`. */
typedef struct nxpy_waiting { int cell; PyObject *class; bool of_dict; } nxpy_waiting; /* it will hold the class, or its dict */
typedef struct nxpy_results {
    NX_VEC(nx_value) nodes;
    NX_VEC(int) kept;      /* notes, in order of KEEP */
    NX_VEC(PyObject *) making; /* classes that are not made yet while their parts are; lent */
    NX_VEC(nxpy_waiting) waiting; /* KEEPs of cells that will hold one of them */
    nx_node *detached;     /* the first result whose history is used up; NULL: none */
    bool asks;             /* the next try makes inputs of leaves that were met here */
} nxpy_results;
int nxpy__recipe_add(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *value);
/* Fills out[recipe->n_values] with new references (NULL for empty ones). -1 with an exception: nothing is left in out. */
int nxpy__recipe_run(const nxpy_recipe *recipe, PyObject **values, PyObject **results, const nx_value *numbers, PyObject **out);
void nxpy__recipe_free(nxpy_recipe *recipe);

int nxpy__recipe_add_contents(nxpy_trace *trace, nxpy_recipe *recipe, nxpy_results *results, PyObject *container, Py_ssize_t from);

/* ---- effects.c ---------------------------------------------------------------------------------- */
/* Each does the change (value NULL: deletes) and remembers how to undo it. 0 or -1. */
int nxpy__write_field(nxpy_trace *trace, PyObject *object, PyObject *name, PyObject *value);
int nxpy__write_class(nxpy_trace *trace, PyObject *type, PyObject *name, PyObject *value);
int nxpy__write_global(nxpy_trace *trace, PyObject *globals, PyObject *name, PyObject *value);
int nxpy__write_cell(nxpy_trace *trace, PyObject *cell, PyObject *value);
/* A float of a dict that existed before, lent; if an earlier trace found another number there, as a tensor that is an input: no
 * guard holds it to its value. 1: it is read as anything else. 0 or -1. */
int nxpy__number_input(nxpy_trace *trace, PyObject *dict, PyObject *key, PyObject **out);
/* The input whose fake has this storage, lent until a note is added; NULL: the trace made it. */
const nxpy_note *nxpy__input_of(const nxpy_trace *trace, const nx_storage *storage);
/* What stands for the tensor over an array of numpy's that existed before (an input) or over a tensor, lent. 1: *out; 0: it is no such
 * array; -1. */
int nxpy__array_input(nxpy_trace *trace, PyObject *array, PyObject **out);
/* Whether a constant of a dict, under another key than `but`, was another one in an earlier trace. */
int nxpy__settings_vary(nxpy_trace *trace, PyObject *dict, PyObject *but);
/* .grad of what stands for an input: a new reference to what stands for it, or None; and another one (value NULL: None). 0 or -1. */
int nxpy__grad_of(nxpy_trace *trace, PyObject *fake, PyObject **out);
int nxpy__write_grad(nxpy_trace *trace, PyObject *fake, PyObject *value);
int nxpy__write_data(nxpy_trace *trace, PyObject *fake, PyObject *shown); /* an input, which shows already what `shown` does */
int nxpy__write_item(nxpy_trace *trace, PyObject *container, PyObject *key, PyObject *value); /* of a list or dict */
int nxpy__later(nxpy_trace *trace, PyObject *function, PyObject *args); /* each run calls it, in the order of the writes */
int nxpy__before_change(nxpy_trace *trace, PyObject *container, bool appends); /* the caller changes it; born ones pass */
bool nxpy__was_written(nxpy_trace *trace, PyObject *object, PyObject *key); /* key NULL: a cell or container itself */
bool nxpy__was_written_key(nxpy_trace *trace, PyObject *dict, PyObject *key); /* what the dict itself holds under the key */
bool nxpy__has_written_fields(nxpy_trace *trace, PyObject *object);
Py_ssize_t nxpy__size_before(nxpy_trace *trace, PyObject *list); /* elements that are not the trace's */
void nxpy__effects_undo(nxpy_trace *trace);
int nxpy__effects_finish(nxpy_trace *trace, nxpy_results *results); /* into the segment; as nxpy__recipe_add */
/* A row that keeps the first n_first of these apart from each other and from the rest. 0, or -1 with an exception. */
int nxpy__apart_row(nxpy_trace *trace, nxpy_row_code code, const nxpy_apart_part *parts, int n, int n_first);
int nxpy__changes_apply(const nxpy_segment *segment, PyObject **made); /* takes made; -1 with an exception */

/* ---- elements.c ------------------------------------------------------------------------------------ */
nx_status nxpy__tell(nx_tensor *fake, nx_tensor **out); /* for nx_thread.tell, of a trace that may not end */
nx_status nxpy__fix_sizes(nx_tracer *tracer, nx_tensor *tensor); /* for nx_tracer.fix of such a one */
/* A run of it changes nothing that existed before but the state of the CPU's generator. */
bool nxpy__leaves_nothing(const nxpy_trace *trace);
int nxpy__told_finish(nxpy_trace *trace, nxpy_results *results); /* into the segment; as nxpy__recipe_add */
bool nxpy__told_holds(nxpy_segment *segment, PyObject *const *results); /* the results are what they were */
void nxpy__told_drop(nxpy_told *told);

/* ---- region.c: the backward of a function, traced with its forward ------------------------------------- */
/* From here on a second graph is recorded. The gradients of results: a tensor or None for each. `context` is what may be written.
 * New reference; NULL: stopped, or an exception. */
PyObject *nxpy__region_open(nxpy_trace *trace, PyObject *context, PyObject *results);
typedef struct nxpy_region_call { /* tuples of what stands for the tensors in the trace, and of None */
    const char *name;
    bool once;                  /* the backward may not be differentiated */
    PyObject *inputs, *results, *saved, *gradients; /* gradients: one for each input, what the backward gave */
} nxpy_region_call;
/* Ends it: the tensors with a history that the results become, a tuple. */
PyObject *nxpy__region_close(nxpy_trace *trace, const nxpy_region_call *given);
void nxpy__regions_drop(nxpy_trace *trace);     /* all that there are, and the parts that wait */
/* Two branches of a condition, or the condition and the body of a loop, one after the other, each into a graph of its own. Fakes like
 * the given tensors, which are its first inputs, a tuple. NULL, -1: stopped, or an exception. */
PyObject *nxpy__part_open(nxpy_trace *trace, PyObject *given);
int nxpy__part_close(nxpy_trace *trace, PyObject *results); /* a tuple of tensors */
/* The call of the last two (src/pass/control.c): a tensor's element chooses between them, or a tuple of tensors is carried. Its
 * results, a tuple; NULL: stopped, or an exception. */
PyObject *nxpy__parts_join(nxpy_trace *trace, PyObject *first);
bool nxpy__in_branch(const nxpy_trace *trace);  /* or in a part of a loop */
void nxpy__trace_varies(nxpy_trace *trace);     /* the trace has a number that may be another one from here on */
int nxpy__region_changes(nxpy_trace *trace, PyObject *object); /* before a change of an object of the trace: 0, or -1: stopped */

/* ---- leaves.c: gradients that the program asks for ------------------------------------------------------ */
/* How the next try is to be traced: composed operators by their parts, and no size left open; no condition with both branches;
 * leaves that live on as inputs; no random number of Python's. */
typedef enum nxpy_ask_code { NXPY_ASK_PARTS, NXPY_ASK_NO_BRANCHES, NXPY_ASK_LEAVES, NXPY_ASK_NO_DRAWS } nxpy_ask_code;
void nxpy__ask_for(nxpy_trace *trace, nxpy_ask_code what); /* the caller ends this one */
int nxpy__was_asked_for(nxpy_trace *trace, nxpy_ask_code what); /* by an earlier try: 1, 0, -1 with an exception */
int nxpy__want_flat(nxpy_trace *trace, const char *what); /* 0; -1: stopped, and the next try is flat */
int nxpy__want_backward(nxpy_trace *trace, const char *what); /* the same, unless a backward is one call of the graph */
/* run(args[n]) while what it calls is recorded, saved tensors known by their place. New reference, or NULL with an exception. */
/* The leaves of the caller's in the history of the roots, what stands for them: a new tuple. NULL: stopped, or an exception. */
PyObject *nxpy__leaves_of(nxpy_trace *trace, PyObject *roots);
PyObject *nxpy__run_recorded(nxpy_trace *trace, PyObject *run, PyObject *const *args, Py_ssize_t n);
/* 1; 2: without its history, which a backward has used up; 3: in the next try; 0: it is, or leads to, a leaf of the trace's own that
 * no run can make; -1 */
int nxpy__may_live_on(nxpy_trace *trace, nx_tensor *fake);
bool nxpy__may_hook(nxpy_trace *trace, PyObject *tensor); /* it is one of the trace, in its own graph */
int nxpy__note_hooks(nxpy_trace *trace, PyObject *tensor, PyObject *functions); /* NULL: it keeps its gradient. 0 or -1 */
int nxpy__hooks_finish(nxpy_trace *trace); /* those of inputs are registered by each run; 0 or -1 */
PyObject *nxpy__leaf_new(PyObject *like); /* as a run makes it; NULL: an exception */
int nxpy__made_finish(nxpy_trace *trace); /* into the segment; 0, or -1 with an exception */
bool nxpy__inputs_may_live_on(nxpy_trace *trace); /* false, with what is unmakeable: one was given a history that the graph loses */

/* ---- small things --------------------------------------------------------------------------------- */
/* A tensor like `real` without elements, that requires grad as it does. */
nx_status nxpy__fake_new(const nx_tensor *real, nx_tensor **out);

/* ---- log.c -------------------------------------------------------------------------------------- */
extern PyObject *nxpy__log; /* NULL: none */
/* Py_BuildValue of a dict; errors are printed. While a trace runs, no Python code may: it is told when the trace is over. */
void nxpy__log_event(const char *event, const char *format, ...);
void nxpy__log_flush(nxpy_trace *trace);
#define NXPY_LOG(...) do { if (NX_UNLIKELY(nxpy__log != NULL)) nxpy__log_event(__VA_ARGS__); } while (0)
void nxpy__log_start(nxpy_trace *trace);
void nxpy__log_input(nxpy_trace *trace, int slot, const char *name, PyObject *fake, uint64_t varying);
void nxpy__log_guards(nxpy_trace *trace);
/* The user's line, stripped, for a trace (context) that is over: reading files lets other threads in. New reference. */
PyObject *nxpy__line_text(void *context, PyObject *file, int line);
/* Python code of ours runs in the middle of a trace: not traced, not recorded, its exception not the user's. */
typedef struct nxpy_aside { uint64_t included, excluded; PyObject *error[3]; } nxpy_aside;
nxpy_aside nxpy__aside_begin(void);
void nxpy__aside_end(nxpy_aside aside);
const char *nxpy__break_name(nxpy_break why);
const char *nxpy__break_why(nxpy_break why);
const char *nxpy__break_mend(nxpy_break why);
PyObject *nxpy__set_log(PyObject *module, PyObject *callable);
PyObject *nxpy__stack_summary(PyThreadState *thread); /* list of (file, line, function), outermost first */

#endif
