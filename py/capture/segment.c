/* Running what was traced: roots, points and segments, and the frame that goes from one to the next.
 *
 * In: a frame of a root at its first instruction. Out: what the function returns.
 * What must hold: values that the guards lent die when the frame changes, so everything new is made before anything is
 * put into the frame. At a break the frame is filled, the instruction runs in the interpreter's own loop on this same
 * frame, and the next segment is looked up at wherever it stopped. Where nothing can be gained the interpreter runs the
 * rest of the frame.
 * Next: compile.c for the call that needs no frame. */
#include "capture/capture.h"

/* ---- what is kept ------------------------------------------------------------------------------------------------------ */
void nxpy__segment_free(nxpy_segment *segment) {
    nxpy_guards_free(&segment->guards);
    nx_free(segment->inputs);
    nx_free(segment->held);
    for (int k = 0; k < segment->told.n; k++) nxpy__told_drop(&segment->told.at[k]);
    nx_vec_free(&segment->told);
    nx_vec_free(&segment->made);
    nx_free(segment->targets);
    for (int k = 0; k < segment->changes.n; k++) Py_XDECREF(segment->changes.at[k].key);
    nx_vec_free(&segment->changes);
    nxpy__recipe_free(&segment->recipe);
    Py_XDECREF(segment->graph);
    for (int k = 0; k < segment->n_fits; k++) nxpy__fit_drop(segment->fits[k]);
    Py_XDECREF(segment->shared);
    nx_free(segment->varying);
    nx_vec_free(&segment->sizes);
    nx_vec_free(&segment->given);
    nx_vec_free(&segment->steps);
    nx_vec_free(&segment->open);
    nx_vec_free(&segment->open_at);
    Py_XDECREF(segment->stepper);
    Py_XDECREF(segment->thrower);
    nx_free(segment);
}

static void point_free(nxpy_point *point) {
    for (int k = 0; k < point->segments.n; k++) nxpy__segment_free(point->segments.at[k]);
    nx_vec_free(&point->segments);
    for (int k = 0; k < point->marks.n; k++) Py_XDECREF(point->marks.at[k].text);
    nx_vec_free(&point->marks);
    nx_free(point);
}

void nxpy__root_free(nxpy_root *root) {
    for (int k = 0; k < root->points.n; k++) point_free(root->points.at[k]);
    nx_vec_free(&root->points);
    Py_XDECREF(root->function);
    Py_XDECREF(root->code);
    Py_XDECREF(root->defaults);
    Py_XDECREF(root->kwdefaults);
    nx_free(root);
}

static bool root_fits(const nxpy_root *root, const PyFunctionObject *function) {
    return root->code == function->func_code && root->defaults == function->func_defaults && root->kwdefaults == function->func_kwdefaults;
}

nxpy_root *nxpy__root_get(nxpy_captured *owner, PyFunctionObject *function) {
    int n_alike = 0; /* functions made anew at each call have one code */
    for (int k = 0; k < owner->roots.n; k++) {
        if (owner->roots.at[k]->function == (PyObject *)function && root_fits(owner->roots.at[k], function)) return owner->roots.at[k];
        n_alike += owner->roots.at[k]->code == function->func_code;
    }
    if (owner->roots.n >= NXPY_MAX_ROOTS || n_alike >= NXPY_MAX_ALIKE) return NULL;
    nxpy_root *root = nx_alloc_zeroed(sizeof *root);
    if (!root || nx_vec_push(&owner->roots, root) != NX_OK) {
        nx_free(root);
        return nxpy_raise(nx_fail_memory(sizeof *root)), NULL;
    }
    root->function = Py_NewRef(function);
    root->code = Py_NewRef(function->func_code);
    root->defaults = Py_XNewRef(function->func_defaults);
    root->kwdefaults = Py_XNewRef(function->func_kwdefaults);
    return root;
}

nxpy_point *nxpy__point_get(nxpy_root *root, nxpy_frame *frame, const nxpy_view *view) {
    int next = nxpy_frame_next(frame), depth = nxpy_frame_depth(frame);
    uint64_t empty = 0;
    for (int k = 0; k < depth; k++) empty |= (uint64_t)!nxpy_value(view, view->n_locals + k) << (k & 63);
    for (int k = 0; k < root->points.n; k++) {
        nxpy_point *point = root->points.at[k];
        if (point->next == next && point->depth == depth && point->empty == empty) return point;
    }
    if (root->points.n >= NXPY_MAX_POINTS) return NULL;
    nxpy_point *point = nx_alloc_zeroed(sizeof *point);
    if (!point || nx_vec_push(&root->points, point) != NX_OK) {
        nx_free(point);
        return nxpy_raise(nx_fail_memory(sizeof *point)), NULL;
    }
    point->next = next;
    point->depth = depth;
    point->empty = empty;
    return point;
}

static bool is_among(nxpy_segment *const *list, int n, const nxpy_segment *segment) {
    for (int k = 0; k < n; k++) if (list[k] == segment) return true;
    return false;
}

nxpy_segment *nxpy__point_find(nxpy_point *point, PyObject *const *roots, PyObject **room, PyObject ***values,
                               nxpy_segment *const *but, int n_but) {
    for (int k = 0; k < point->segments.n; k++) {
        nxpy_segment *segment = point->segments.at[k];
        if (NX_UNLIKELY(n_but) && is_among(but, n_but, segment)) continue;
        if (!(*values = nxpy_guards_hold(&segment->guards, roots, room, segment->made.n > 0))) continue;
        if (NX_UNLIKELY(segment->fitted) && nxpy__fit_find(segment, *values) != 1) continue;
        for (int j = k; j > 0; j--) point->segments.at[j] = point->segments.at[j - 1];
        return point->segments.at[0] = segment;
    }
    return NULL;
}

/* ---- a frame from segment to segment --------------------------------------------------------------------------------------- */
/* The graph's results become what the recipe says. -1 with an exception. */
static int make_values(nxpy_segment *segment, PyObject **values, PyObject **results, const nx_value *numbers, PyObject **out) {
    PyObject *local[32], **made = out;
    int n = segment->recipe.n_values;
    if (!segment->changes.n) return nxpy__recipe_run(&segment->recipe, values, results, numbers, out);
    made = n <= NX_COUNT(local) ? local : nx_alloc(sizeof *made * (size_t)n);
    if (!made) return nxpy_raise(nx_fail_memory(sizeof *made * (size_t)n)), -1;
    int done = nxpy__recipe_run(&segment->recipe, values, results, numbers, made);
    if (done == 0) done = nxpy__changes_apply(segment, made + segment->n_returned);
    else memset(made, 0, sizeof *made * (size_t)n);
    for (int k = 0; k < segment->n_returned; k++) {
        if (done == 0) out[k] = made[k];
        else Py_XDECREF(made[k]);
    }
    if (made != local) nx_free(made);
    return done;
}

static void set_autocast(const nxpy_autocast *after) {
    nxpy_autocast state = *after;
    state.nesting += nx_thread_get()->autocast_nesting;
    nxpy__autocast_put(&state);
}

/* A run that gave other elements than those that the trace was told of, or failed, as it may for others. */
static bool is_for_others(nxpy_segment *segment, int done, PyObject *const *results) {
    if (done == 0) return !nxpy__told_holds(segment, results);
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) return false;
    PyErr_Clear();
    return true;
}

static int values_of(nxpy_segment *segment, PyObject **values, PyObject **out) {
    PyObject *local[16], **results = local;
    nxpy_fit *fit = segment->n_fits ? segment->fits[0] : NULL; /* this one, whatever other threads call meanwhile */
    const nxpy_step *step = segment->recipe.steps.at;
    if (segment->n_results > NX_COUNT(local) && !(results = nx_alloc(sizeof *results * (size_t)segment->n_results))) {
        nxpy_raise(NX_NO_MEMORY);
        return -1;
    }
    nx_value room[16], *numbers = fit ? fit->numbers : NULL;
    if (NX_UNLIKELY(segment->steps.n) && !(numbers = nxpy__numbers_of(segment, fit, values, room, NX_COUNT(room)))) {
        if (results != local) nx_free(results);
        return -1;
    }
    for (int k = 0; k < segment->n_lent; k++) nxpy_tensor_wrap(nxpy_tensor_get(values[segment->held[k]])); /* a count on the object */
    for (int k = segment->n_lent; k < segment->n_held; k++) Py_XINCREF(values[segment->held[k]]); /* a long run lets other threads in */
    for (int k = 0; k < segment->n_results; k++) results[k] = NULL;
    if (fit) fit->users++;
    nx_generator_place place;
    if (NX_UNLIKELY(segment->told.n)) nx_generator_mark(nx_generator_default(), &place);
    int done = fit && fit->call ? nxpy__fit_run(segment, fit, values, numbers, results) : 0;
    if (NX_UNLIKELY(segment->told.n) && is_for_others(segment, done, results)) {
        for (int k = 0; k < segment->n_results; k++) Py_CLEAR(results[k]);
        nx_generator_return(nx_generator_default(), &place);
        done = NXPY_OTHER;
    }
    if (done == 0 && segment->n_results == 1 && segment->recipe.steps.n == 1 && step->make == NXPY_MAKE_RESULT) {
        out[0] = results[0]; /* one tensor */
    } else if (done == 0) {
        done = make_values(segment, values, results, numbers, out);
        for (int k = 0; k < segment->n_results; k++) Py_XDECREF(results[k]);
    }
    for (int k = 0; k < segment->n_held; k++) Py_XDECREF(values[segment->held[k]]);
    if (fit) nxpy__fit_drop(fit);
    if (NX_UNLIKELY(done == 0 && segment->grad_after)) nx_grad_set_enabled(segment->grad_after == NXPY_GRAD_ON);
    if (NX_UNLIKELY(done == 0 && segment->whole_after)) nxpy__whole = segment->whole_after == NXPY_GRAD_ON;
    if (NX_UNLIKELY(done == 0 && segment->sets_autocast)) set_autocast(&segment->autocast_after);
    if (results != local) nx_free(results);
    if (NX_UNLIKELY(segment->steps.n) && numbers != room) nx_free(numbers);
    return done;
}

/* With leaves that are new at each run in the place of what they are like. */
static __attribute__((noinline)) int run_with_leaves(nxpy_segment *segment, PyObject **values, PyObject **out) {
    int n = segment->made.n, n_made = 0, done = 0;
    PyObject *local[16], **like = n <= NX_COUNT(local) ? local : nx_alloc(sizeof *like * (size_t)n);
    if (!like) return nxpy_raise(nx_fail_memory(sizeof *like * (size_t)n)), -1;
    for (; n_made < n && done == 0; n_made += done == 0) {
        PyObject **value = &values[segment->made.at[n_made].slot], *leaf = nxpy__leaf_new(*value);
        like[n_made] = *value;
        if (leaf) *value = leaf;
        else done = -1;
    }
    if (done == 0) done = values_of(segment, values, out);
    for (int k = 0; k < n_made; k++) {
        PyObject **value = &values[segment->made.at[k].slot];
        bool frozen = segment->made.at[k].frozen && nx_tensor_is_leaf(nxpy_tensor_get(*value));
        nx_status status = frozen ? nx_tensor_set_requires_grad(nxpy_tensor_get(*value), false) : NX_OK;
        (void)status; /* of a leaf: cannot fail */
        Py_SETREF(*value, like[k]);
    }
    if (like != local) nx_free(like);
    return done;
}

int nxpy__segment_values(nxpy_segment *segment, PyObject **values, PyObject **out) {
    if (NX_UNLIKELY(segment->made.n)) return run_with_leaves(segment, values, out);
    bool reads = values == segment->guards.seen;
    segment->guards.is_read |= reads;
    int done = values_of(segment, values, out);
    if (reads) segment->guards.is_read = false;
    return done;
}

static void fill_frame(nxpy_segment *segment, nxpy_frame *frame, nxpy_view *view, PyObject **made) {
    int before = view->n_locals + nxpy_frame_depth(frame), after = view->n_locals + segment->depth;
    PyObject **old = made; /* changes places with the new values */
    for (int k = before; k < after; k++) nxpy_value_set(view, k, NULL);
    for (int k = 0; k < segment->n_returned; k++) {
        PyObject *was = nxpy_value(view, segment->targets[k]);
        nxpy_value_set(view, segment->targets[k], made[k]);
        old[k] = was;
    }
    nxpy_frame_set(frame, segment->first, segment->depth);
    for (int k = after; k < before; k++) nxpy_value_put(view, k, NULL);
    for (int k = 0; k < segment->n_returned; k++) Py_XDECREF(old[k]);
}

typedef struct drive_state {
    nxpy_captured *owner;
    nxpy_root *root;
    PyThreadState *thread;
    nxpy_frame *frame;
    nxpy_view view;
    bool told;                  /* a listener has heard that a segment runs */
    NX_VEC(nxpy_segment *) tried; /* here: their graphs computed other elements than those that they were traced with */
    bool traced;                /* one was traced since */
    bool plain;                 /* the interpreter runs the rest: a graph failed and changed nothing */
    PyObject **room;            /* for the values of `n_room` slots; owned */
    int n_room;
    PyObject **values;          /* of the segment that was found */
    PyObject **roots;           /* room for all values of the frame */
} drive_state;

static PyObject *const *roots_of(const drive_state *drive) {
    return nxpy_values(&drive->view, drive->view.n_locals + nxpy_frame_depth(drive->frame), drive->roots);
}

static int make_room(drive_state *drive, int n_slots) {
    if (drive->room && n_slots <= drive->n_room) return 0;
    PyObject **room = nx_alloc(sizeof *room * (size_t)(n_slots + 1)); /* NULL would say that guards do not hold */
    if (!room) return nxpy_raise(nx_fail_memory(sizeof *room * (size_t)(n_slots + 1))), -1;
    nx_free(drive->room);
    drive->room = room;
    drive->n_room = n_slots;
    return 0;
}

/* A class of torch._dynamo.exc, or NULL with an exception. */
static PyObject *error_named(const char *name) {
    PyObject *module = PyImport_ImportModule("narthex._dynamo.exc"), *error = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return error;
}

/* As many as may be: whatever fits none of them runs uncompiled. 0, or -1: the warning became an exception. */
static int give_up(drive_state *drive, nxpy_point *point) {
    if (nxpy__settings.fails_at_limit) {
        PyObject *error = error_named("FailOnRecompileLimitHit");
        if (error) {
            PyErr_Format(error, "torch.compile: %S was compiled %d times, and torch._dynamo.config."
                         "fail_on_recompile_limit_hit is on", drive->owner->name, point->segments.n);
            Py_DECREF(error);
        }
        return -1;
    }
    point->dead = true;
    if (drive->owner->warned) return 0;
    drive->owner->warned = true;
    return PyErr_WarnFormat(PyExc_UserWarning, 1,
                            "torch.compile: %S was compiled %d times and runs uncompiled from now on where none fits; "
                            "its `recompiles` tell why", drive->owner->name, point->segments.n);
}

/* A segment that holds here but for shapes that it has not seen yet: fitted to them. 1, 0 (none), -1. The backend lets
 * other threads in, which may add segments and change their order. */
static int fit_one(drive_state *drive, nxpy_point *point) {
    for (int k = 0; k < point->segments.n; k++) {
        nxpy_segment *segment = point->segments.at[k];
        if (segment->guards.n_slots > drive->n_room) continue; /* added meanwhile */
        if (!segment->fitted || !nxpy_guards_hold(&segment->guards, roots_of(drive), drive->room, true)) continue;
        if (nxpy__fit_find(segment, drive->room) != 0) continue;
        if (segment->n_made >= NXPY_MAX_NUMBER_FITS) return give_up(drive, point); /* compiling at every call gains nothing */
        nxpy__hook_hold(false); /* the backend runs as it would without us */
        int done = nxpy__fit_make(drive->owner, segment, drive->room);
        nxpy__hook_hold(true);
        if (done != 0) return done;
    }
    return 0;
}

static nxpy_segment *find(drive_state *drive, nxpy_point *point) {
    return nxpy__point_find(point, roots_of(drive), drive->room, &drive->values, drive->tried.at, drive->tried.n);
}

/* A segment that holds here, fitted if need be; nothing runs between this and the use of drive->values. 1: *out; 0: there
 * is none; -1: an exception. */
static int look_up(drive_state *drive, nxpy_point *point, nxpy_segment **out) {
    if (make_room(drive, point->n_slots) < 0) return -1;
    if ((*out = find(drive, point))) return 1;
    int fitted = fit_one(drive, point);
    if (fitted != 1) return fitted;
    if (make_room(drive, point->n_slots) < 0) return -1;
    return (*out = find(drive, point)) != NULL;
}

static PyObject *told_reason(const nxpy_told *told) {
    PyObject *file = told->file ? told->file : Py_None;
    return PyUnicode_FromFormat("a tensor's elements, which %S:%d reads, were others", file, told->line);
}

/* Tells why the newest segment does not hold. 0, or -1 with an exception. */
static int tell_reason(drive_state *drive, nxpy_point *point) {
    const nxpy_segment *newest = point->segments.at[0];
    nxpy_guards *guards = &point->segments.at[0]->guards;
    int row = nxpy_guards_check(guards, roots_of(drive), drive->room);
    const nxpy_fit *fit = newest->n_fits ? newest->fits[0] : NULL;
    const nxpy_told *told = row < 0 && newest->told.n && drive->tried.n ? &newest->told.at[0] : NULL;
    PyObject *why = row < 0 && fit ? fit->why : NULL; /* the guards hold: a check of a size failed */
    PyObject *reason = row >= 0 ? nxpy_guards_explain(guards, row, roots_of(drive))
                       : told   ? told_reason(told)
                       : why    ? Py_NewRef(why)
                                : PyUnicode_FromString("?");
    int done = reason ? PyList_Append(drive->owner->recompiles, reason) : -1;
    if (done == 0) NXPY_LOG("recompile", "{sO}", "reason", reason);
    Py_XDECREF(reason);
    return done;
}

static int add_segment(nxpy_point *point, nxpy_segment *segment) {
    if (nx_vec_push(&point->segments, segment) != NX_OK) {
        nxpy__segment_free(segment);
        return nxpy_raise(NX_NO_MEMORY), -1;
    }
    for (int k = point->segments.n - 1; k > 0; k--) point->segments.at[k] = point->segments.at[k - 1];
    point->segments.at[0] = segment;
    if (segment->guards.n_slots > point->n_slots) point->n_slots = segment->guards.n_slots;
    return 0;
}

/* torch._dynamo.config.error_on_recompile. */
static int fail_recompile(const drive_state *drive) {
    const PyCodeObject *code = (PyCodeObject *)drive->root->code;
    PyObject *error = error_named("RecompileError"), *reasons = drive->owner->recompiles;
    if (error) {
        PyErr_Format(error, "Recompiling function %U in %U:%d\n    triggered by the following guard failure(s):\n    - %S",
                     code->co_name, code->co_filename, code->co_firstlineno, PyList_GET_ITEM(reasons, PyList_GET_SIZE(reasons) - 1));
    }
    Py_XDECREF(error);
    return -1;
}

/* A new segment from here. 1: look it up; 0: run uncompiled; -1: an exception. The backend lets other threads in, and may
 * itself call the function. */
static int trace_here(drive_state *drive, nxpy_point *point) {
    nxpy_segment *made = NULL;
    if (point->segments.n > 0 && tell_reason(drive, point) < 0) return -1;
    if (point->segments.n > 0 && nxpy__settings.fails_at_recompile) return fail_recompile(drive);
    point->busy = true;
    point->fails = false;
    int done = nxpy__trace_segment(drive->owner, drive->root, point, drive->thread, drive->frame, &made);
    point->busy = false;
    if (done < 0) return -1;
    if (!made) {
        if (!point->fails) point->dead = true;
        return 0;
    }
    if (make_room(drive, made->guards.n_slots) < 0) return nxpy__segment_free(made), -1;
    bool stable = nxpy_guards_check(&made->guards, roots_of(drive), drive->room) < 0;
    if (stable && !nxpy__numbers_are_traced(made, drive->room)) { /* it was written by a way that the trace does not know */
        point->dead = true;
        return nxpy__segment_free(made), 0;
    }
    if (stable) nxpy_guards_arrange(&made->guards, drive->room);
    return add_segment(point, made) < 0 ? -1 : stable;
}

/* The stance forbids a trace. 0: run uncompiled; -1: an exception. */
static int refuse_trace(drive_state *drive, nxpy_point *point) {
    if (nxpy__stance == NXPY_STANCE_SKIP_GUARDS) {
        PyErr_SetString(PyExc_RuntimeError, "Recompilation triggered with skip_guard_eval_unsafe stance. This usually means that you have "
                        "not warmed up your model with enough inputs such that you can guarantee no more recompilations.");
        return -1;
    }
    if (nxpy__stance != NXPY_STANCE_FAIL) return 0;
    const PyCodeObject *code = (PyCodeObject *)drive->root->code;
    Py_ssize_t n = PyList_GET_SIZE(drive->owner->recompiles);
    if (point->segments.n > 0 && tell_reason(drive, point) < 0) return -1;
    bool told = PyList_GET_SIZE(drive->owner->recompiles) > n;
    PyErr_Format(PyExc_RuntimeError, "Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: '%U', "
                 "function name: '%U', line number: %d%s%V", code->co_filename, code->co_name, code->co_firstlineno,
                 told ? "\n    triggered by the following guard failure(s):\n    - " : "",
                 told ? PyList_GET_ITEM(drive->owner->recompiles, n) : NULL, "");
    return -1;
}

/* A segment whose guards hold here, traced if need be. 1: *out; 0: run uncompiled; -1: an exception. */
static int find_or_trace(drive_state *drive, nxpy_segment **out) {
    nxpy_point *point = nxpy__point_get(drive->root, drive->frame, &drive->view);
    if (!point) return PyErr_Occurred() ? -1 : 0;
    const nx_thread *thread = nx_thread_get();
    /* A mode that the frame has entered sees all its calls, and a class that is not asked from here on sees none. */
    if (thread->function_modes || thread->dispatch_modes || thread->function_state) return 0;
    if (nx_tangents_open() || thread->n_levels) return 0; /* a graph computes no tangents, and knows no slices */
    int found = look_up(drive, point, out);
    if (found != 0 || point->dead || point->busy) return found;
    if (drive->traced) return 0; /* what it computes is another thing at each run */
    if (nxpy__stance != NXPY_STANCE_DEFAULT && nxpy__stance != NXPY_STANCE_THEN) return refuse_trace(drive, point);
    if (drive->owner->of_frames && nxpy__callback == Py_False) return 0;
    int limit = drive->owner->limit > 0 ? drive->owner->limit : nxpy__settings.max_segments;
    if (point->segments.n >= limit) return give_up(drive, point);
    found = trace_here(drive, point);
    drive->traced = drive->tried.n > 0;
    return found == 1 ? look_up(drive, point, out) : found;
}

/* The breaking instruction, for real. As nxpy_frame_step. */
static PyObject *step(drive_state *drive, nxpy_segment *segment, bool *stopped) {
    nxpy_doing before = nxpy__doing;
    if (segment->enters) nxpy__doing = (nxpy_doing){.entering = drive->owner};
    else nxpy__hook_hold(false);
    PyObject *result = nxpy__plain_step(drive->thread, drive->frame, &drive->view, segment, stopped);
    if (!segment->enters) nxpy__hook_hold(true);
    nxpy__doing = before;
    return result;
}

/* One segment and the instruction that ends it. Returns the function's result; NULL with *goes_on, or with an exception. */
static PyObject *run_segment(drive_state *drive, nxpy_segment *segment, bool *goes_on) {
    PyObject *local[32], **made = local, *result = NULL;
    int n = segment->recipe.n_values;
    if (n > NX_COUNT(local) && !(made = nx_alloc(sizeof *made * (size_t)n))) return nxpy_raise(NX_NO_MEMORY);
    nxpy__hook_hold(false);
    int done = nxpy__segment_values(segment, drive->values, made);
    if (drive->told) nxpy__log_event("ran", "{sO}", "name", drive->owner->name);
    drive->told = false;
    nxpy__hook_hold(true);
    if (done == NXPY_UNDONE) {
        PyErr_Clear();
        drive->plain = *goes_on = true;
    } else if (done == NXPY_OTHER) {
        *goes_on = true;
        if (nx_vec_push(&drive->tried, segment) != NX_OK) *goes_on = (nxpy_raise(NX_NO_MEMORY), false);
    } else if (done == 0 && segment->returns) {
        result = made[0];
    } else if (done == 0) {
        drive->tried.n = 0;
        drive->traced = false;
        fill_frame(segment, drive->frame, &drive->view, made);
        result = step(drive, segment, goes_on);
    }
    if (made != local) nx_free(made);
    return result;
}

/* Nanoseconds that a call spends on the guards of a segment which holds. */
static int64_t time_guards(nxpy_segment *segment, const drive_state *drive) {
    enum { TIMES = 64 };
    int64_t begin = nx_now();
    for (int k = 0; k < TIMES; k++) (void)nxpy_guards_hold(&segment->guards, roots_of(drive), drive->room, false);
    return (nx_now() - begin) / TIMES;
}

PyObject *nxpy__drive(nxpy_captured *owner, nxpy_root *root, PyThreadState *thread, nxpy_frame *frame) {
    drive_state *drive = &(drive_state){.owner = owner, .root = root, .thread = thread, .frame = frame};
    nxpy_frame_view(frame, &drive->view);
    PyObject *result = NULL, *local[64];
    int n = NXPY_SLOTS_ARE_MARKED ? drive->view.n_locals + drive->view.code->co_stacksize : 0;
    drive->roots = n <= NX_COUNT(local) ? local : nx_alloc(sizeof *local * (size_t)n);
    bool goes_on = drive->roots || (nxpy_raise(NX_NO_MEMORY), false);
    while (goes_on) {
        nxpy_segment *segment = NULL;
        bool plain = drive->plain || nxpy_thread_is_traced(thread); /* by a debugger that the last instruction began */
        int found = plain ? 0 : find_or_trace(drive, &segment);
        goes_on = false;
        if (found == 1 && NX_UNLIKELY(nxpy__log && !segment->ran)) {
            segment->ran = drive->told = goes_on = true;
            long long guards = time_guards(segment, drive);
            nxpy__log_event("run", "{sOsL}", "name", owner->name, "guards_ns", guards); /* code that runs: looked up once more */
        } else if (found == 1) {
            result = run_segment(drive, segment, &goes_on);
        } else if (found == 0) { /* the interpreter runs the rest */
            nxpy__hook_hold(false);
            result = nxpy_eval_default(thread, frame, 0);
            nxpy__hook_hold(true);
        }
        /* an exception of our own leaves the frame as it is: its caller clears it */
    }
    nx_free(drive->room);
    if (drive->roots != local) nx_free(drive->roots);
    nx_vec_free(&drive->tried);
    return result;
}
