/* The second evaluation loop.
 *
 * In: real frames, from the hook (py/capture/hook.c), while a trace runs. Out: what the frame returns, as if the interpreter
 * had run it, or a stopped trace.
 * What must hold: a handler leaves the frame as it was until nothing can fail any more, so that a stop in the root's
 * own frame (`clean`) can end the graph right there; any other stop traces again up to a mark. After every C call
 * the sticky `stop` is looked at, because C code may swallow the exception that stands for it.
 * Next: handlers.c, then py/capture/trace.c for what happens at the end. */
#include "loop/private.h"

int64_t nxpy__stop_at;

static nxpy_handler *const handlers[] = {
#define NXPY_INSTRUCTION_ROW(name) [NXPY_OP_##name] = op_##name,
#include "cpython/instructions.def"
#undef NXPY_INSTRUCTION_ROW
};

/* ---- the loop -------------------------------------------------------------------------------------------------------- */
/* The user's line, for nodes and guards made from here on. */
static void set_line(nxpy_loop *loop) {
    nxpy_trace *trace = loop->trace;
    int line = nxpy_line_at(&loop->lines, loop->view.code, loop->in.start);
    PyObject *file = loop->view.code->co_filename;
    if (trace->line == line && trace->file == file && trace->function == loop->view.code->co_name) return;
    nx_thread *thread = nx_thread_get();
    trace->line = line;
    trace->file = file;
    trace->function = loop->view.code->co_name;
    if (!thread->source.spelling) { /* what torch.nn.functional does is of the line that calls it */
        thread->source.file = PyUnicode_AsUTF8(file);
        thread->source.function = PyUnicode_AsUTF8(trace->function);
        thread->source.line = line;
    }
    NXPY_LOG("line", "{sOsisOsO}", "filename", file, "lineno", line, "function", trace->function, "qualname",
             loop->view.code->co_qualname);
}

static const nxpy_mark *mark_at(const nxpy_point *point, int unit) {
    for (int k = 0; k < point->marks.n; k++) {
        if (point->marks.at[k].unit == unit) return &point->marks.at[k];
    }
    return NULL;
}

/* A mark was set by an earlier try of the same segment: the graph ends before this instruction. */
static int stop_at_mark(nxpy_trace *trace, const nxpy_mark *mark) {
    trace->stop = mark->why;
    trace->clean = true;
    trace->stop_enters = mark->enters;
    trace->stop_text = mark->text;
    Py_XINCREF(mark->text);
    return -1;
}

/* Ctrl-C, where no handler of the program's own takes it. */
static bool was_interrupted(nxpy_trace *trace) {
    if (trace->holds_signals) nxpy_signals_back();
    bool interrupted = nxpy_interrupted();
    if (trace->holds_signals) (void)nxpy_signals_hold();
    return interrupted;
}

static int before_instruction(nxpy_loop *loop) {
    nxpy_trace *trace = loop->trace;
    if (loop == trace->root_loop) trace->root_at = loop->in.start;
    set_line(loop);
    if (loop == trace->root_loop && trace->point->marks.n) {
        const nxpy_mark *mark = mark_at(trace->point, loop->in.start);
        if (mark) return stop_at_mark(trace, mark);
    }
    if (NX_UNLIKELY(trace->n_instructions + 1 == nxpy__stop_at)) return nxpy__stop(trace, NXPY_BREAK_TEST, NULL);
    if (++trace->n_instructions > 10000000) return nxpy__stop(trace, NXPY_BREAK_LONG, NULL);
    if (NX_UNLIKELY(trace->n_instructions % 1024 == 0) && was_interrupted(trace)) return nxpy__stop_error(trace);
    if (loop->in.op == NXPY_OP_UNKNOWN) return nxpy__stop(trace, NXPY_BREAK_OPCODE, "%s", nxpy_opcode_name(loop->in.own));
    return 0;
}

/* A lookup that failed among Python's own values, whose guards say that it fails. */
static bool fails_by_guards(nxpy_loop *loop) {
    switch (loop->in.op) {
    case NXPY_OP_raise_varargs: case NXPY_OP_reraise: case NXPY_OP_load_global: return true;
    case NXPY_OP_load_attr: case NXPY_OP_load_method: return !nxpy_tensor_check(nxpy__at(loop, 1));
    case NXPY_OP_binary_subscr: break;
    default: return false;
    }
    PyObject *in = nxpy__at(loop, 2), *key = nxpy__at(loop, 1);
    return (PyList_Check(in) || PyTuple_Check(in) || PyDict_Check(in)) && nxpy_constant_check(key);
}

/* Whether the set exception, which began at the instruction at work or in what that entered, may not come for other sizes. */
static bool depends_on_sizes(nxpy_loop *loop) {
    nxpy_trace *trace = loop->trace;
    PyObject *error[3];
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    PyErr_NormalizeException(&error[0], &error[1], &error[2]);
    if (error[1] != trace->raised) {
        Py_XSETREF(trace->raised, Py_XNewRef(error[1]));
        trace->raised_by_guards = fails_by_guards(loop);
    }
    PyErr_Restore(error[0], error[1], error[2]);
    return !trace->raised_by_guards;
}

/* The set exception of the instruction at work goes to its handler in this frame (0); -1: it has none, or the trace stops. */
static int catch_exception(nxpy_loop *loop) {
    nxpy_trace *trace = loop->trace;
    nxpy_catcher catcher;
    PyObject *type, *value, *traceback;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "capture: an instruction failed without an exception");
    if (nxpy__stop_error(trace) < 0 && trace->stop) return -1;
    bool by_sizes = trace->tracer.varies && depends_on_sizes(loop);
    if (!nxpy_catcher_find(&loop->view, loop->in.start, &catcher)) return loop == trace->root_loop ? nxpy__stop_uncaught(trace) : -1;
    if (by_sizes) {
        PyErr_Clear(); /* a call that failed left nothing in the graph that would tell whether it fails for other sizes */
        nxpy__stop(trace, NXPY_BREAK_EXCEPTION, "an error that may depend on sizes is caught");
        trace->clean = false;
        return -1;
    }
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    if (loop == trace->root_loop && !trace->n_handling) trace->raised_at = loop->in.start;
    if (!nxpy__note_find(trace, value) && !nxpy__note_add(trace, value, NXPY_NOTE_BORN, -1)) return Py_DECREF(value), -1;
    PyObject *here = nxpy__traceback(trace);
    if (!here) return Py_DECREF(value), nxpy__stop_error(trace);
    PyException_SetTraceback(value, here);
    nxpy__drop(loop, loop->depth - catcher.depth);
    if (catcher.pushes_unit) {
        PyObject *unit = nxpy_catcher_unit(loop->in.start);
        if (!unit) return Py_DECREF(value), nxpy__stop_error(trace);
        nxpy__push(loop, unit);
    }
    nxpy__push(loop, value);
    loop->next = catcher.unit;
    return 0;
}

int nxpy__loop_run(nxpy_loop *loop, bool throwing) {
    nxpy_trace *trace = loop->trace;
    trace->loop = loop;
    loop->next = nxpy_frame_next(loop->frame);
    loop->depth = nxpy_frame_depth(loop->frame);
    int done = 0;
    if (throwing) { /* into a generator, where it has yielded */
        loop->in = nxpy_instr_at(&loop->view, loop->next - 1);
        done = catch_exception(loop);
    }
    while (done == 0) {
        loop->in = nxpy_instr_at(&loop->view, loop->next);
        loop->next = loop->in.next;
        nxpy_frame_at(loop->frame, loop->in.start, loop->depth);
        done = before_instruction(loop);
        if (done == 0) {
            if (NX_UNLIKELY(nxpy__log != NULL)) nxpy__log_instruction(loop);
            done = handlers[loop->in.op](loop, loop->in.arg);
            trace->loop = loop;
        }
        if (trace->stop) done = -1;
        else if (done < 0) done = catch_exception(loop);
    }
    /* the frame's owner clears it: it must say what it holds */
    nxpy_frame_set(loop->frame, loop->in.start + 1, loop->depth);
    trace->loop = loop->outer;
    return done;
}

/* ---- inlined frames ---------------------------------------------------------------------------------------------------- */
/* Before an inlined frame begins: its function is guarded, its own tuple and dict of arguments are noted. */
static int inline_prepare(nxpy_loop *loop) {
    nxpy_trace *trace = loop->trace;
    PyCodeObject *code = loop->view.code;
    if (!(code->co_flags & CO_OPTIMIZED)) { /* a class body, whose function nobody else has */
        bool ours = loop->view.locals && PyDict_CheckExact(loop->view.locals) && nxpy__is_born(trace, loop->view.locals);
        return ours ? 0 : nxpy__stop(trace, NXPY_BREAK_FUNCTION, "exec, or a class body with a namespace of its own");
    }
    PyObject *generator = nxpy_frame_generator(loop->frame);
    if (generator) { /* prepared when it was made */
        return nxpy__is_born(trace, generator) ? 0 : nxpy__stop(trace, NXPY_BREAK_GENERATOR, "one that existed before: %U", code->co_name);
    }
    if (nxpy__note_function(trace, loop->view.function) < 0) return -1;
    int at = code->co_argcount + code->co_kwonlyargcount;
    for (int flag = CO_VARARGS; flag <= CO_VARKEYWORDS; flag <<= 1) {
        if ((code->co_flags & flag) && nxpy__born(trace, nxpy_value(&loop->view, at++)) < 0) return -1;
    }
    return 0;
}

/* The interpreter makes the generator; the frame moves into it. */
static PyObject *make_generator(nxpy_trace *trace, PyThreadState *thread, nxpy_frame *frame) {
    PyObject *generator = nxpy_eval_default(thread, frame, 0);
    nxpy_view view;
    if (!generator) {
        nxpy__stop_error(trace);
        return NULL;
    }
    nxpy_frame_view(nxpy_generator_frame(generator), &view);
    int bad = nxpy__born(trace, generator);
    for (int k = 0; !bad && k < view.n_locals; k++) {
        PyObject *value = nxpy_value(&view, k);
        if (value && PyCell_Check(value)) bad = nxpy__born(trace, value);
    }
    if (bad) Py_CLEAR(generator);
    return generator;
}

/* The user's line of the caller, put back when an inlined frame has ended. */
typedef struct line_state { PyObject *file, *function; int line; } line_state;

static void set_line_back(nxpy_trace *trace, line_state was) {
    nx_thread *mine = nx_thread_get();
    trace->file = was.file;
    trace->function = was.function;
    trace->line = was.line;
    mine->source.file = was.file ? PyUnicode_AsUTF8(was.file) : NULL;
    mine->source.function = was.function ? PyUnicode_AsUTF8(was.function) : NULL;
    mine->source.line = was.line;
}

PyObject *nxpy__loop_inline(nxpy_trace *trace, PyThreadState *thread, nxpy_frame *frame, bool throwing) {
    nxpy_link link;
    nxpy_loop loop = {.trace = trace, .frame = frame, .outer = trace->loop};
    if (trace->stop) {
        nxpy__stop_exception();
        return NULL;
    }
    if (nxpy_frame_enter(thread, frame, &link) < 0) {
        nxpy__stop_error(trace);
        return NULL;
    }
    line_state was = {trace->file, trace->function, trace->line};
    nxpy_frame_view(frame, &loop.view);
    loop.in.start = nxpy_frame_next(frame);
    trace->loop = &loop;
    bool run = ++trace->depth > 200 ? nxpy__stop(trace, NXPY_BREAK_DEEP, NULL) == 0 : inline_prepare(&loop) == 0;
    bool generates = loop.view.code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    bool makes = run && generates && !nxpy_frame_generator(frame);
    int done = run && !makes ? nxpy__loop_run(&loop, throwing) : -1;
    trace->depth--;
    trace->loop = loop.outer;
    nxpy_frame_leave(thread, &link);
    if (makes) return make_generator(trace, thread, frame);
    if (!trace->stop) set_line_back(trace, was); /* else it tells where */
    if (done < 0 && trace->stop) nxpy__stop_exception();
    return done < 0 ? NULL : loop.result;
}
