/* The graph of a segment as it runs: one compiled graph for each set of shapes and constants.
 *
 * A graph whose sizes vary holds them as values (src/ir/ints.c). For the shapes of a call it is fitted: every size becomes a
 * number, the checks that the trace left are made, and what remains is compiled as any graph. A shape that was seen is found
 * again; one for which a check fails is refused, and the function is traced anew. A backend of the user's own gets the graph
 * with its sizes once and runs it for all shapes (`shares`); the checks are made all the same.
 * A Python number that was another one at an earlier call is a node of the captured graph, too. Calls that may have it as a tensor
 * of no dimensions get it as an input; what Python computes from it, compares and stores is computed at every call, in a few
 * steps; whatever else uses it (a size, a host argument) has it as a constant, and the graph is fitted to that.
 * In: a segment and what its guards fetched. Out: the fit, the graph's results. Next: recipe.c. */
#include "capture/capture.h"
#include "graphs/graphs.h"

/* ---- one fit ------------------------------------------------------------------------------------------------------ */
static nxpy_fit *fit_new(const nxpy_segment *segment) {
    nxpy_fit *fit = nx_alloc_zeroed(sizeof *fit + sizeof *fit->key * (size_t)segment->n_key);
    nx_value *numbers = nx_alloc_zeroed(sizeof *numbers * (size_t)(segment->sizes.n + 1));
    if (!fit || !numbers) {
        nx_free(fit);
        nx_free(numbers);
        nxpy_raise(nx_fail_memory(sizeof *fit));
        return NULL;
    }
    fit->users = 1;
    fit->numbers = numbers;
    return fit;
}

void nxpy__fit_drop(nxpy_fit *fit) {
    if (--fit->users > 0) return;
    Py_XDECREF(fit->call);
    Py_XDECREF(fit->why);
    nx_free(fit->numbers);
    nx_free(fit);
}

/* ---- numbers of Python: which the graph needs as constants ------------------------------------------------------- */
typedef struct work {
    nxpy_segment *segment;
    uint64_t *from;      /* by node->order: bits of the given numbers that it is computed from */
    int *place;          /* by node->order: in segment->sizes, -1 */
    uint64_t keyed;
} work;

static void add_source(void *context, nx_node *input, int result) {
    work *w = ((work **)context)[0];
    uint64_t *bits = ((uint64_t **)context)[1];
    *bits |= w->from[input->order];
}

static bool takes_open(const nx_node *node, int arg) { return nx_number_dtype(node, arg) != NX_N_DTYPES; }

static void find_keyed(work *w, const nx_graph *graph) {
    for (const nx_node *node = graph->first; node; node = node->next) {
        int code = nx_node_int_code(node);
        uint64_t bits = 0;
        if (code == NX_INT_INPUT || code == NX_INT_FLOAT) {
            w->from[node->order] = UINT64_C(1) << node->args[0].i;
        } else if (code > NX_INT_CONTIGUOUS) {
            nx_node_each_input(node, add_source, (void *[]){w, &bits});
            w->from[node->order] = bits;
        } else if (node->op) {
            const nx_value *second = node->n_args > 1 ? &node->args[1] : NULL;
            uint64_t open = second && second->tag == NX_TAG_NODE && takes_open(node, 1) ? w->from[second->node->order] : 0;
            nx_node_each_input(node, add_source, (void *[]){w, &bits});
            w->keyed |= bits & ~open;
        }
    }
}

/* ---- the steps --------------------------------------------------------------------------------------------------- */
static int place_of(work *w, nx_node *node) {
    if (w->place[node->order] >= 0) return w->place[node->order];
    if (nx_vec_push(&w->segment->sizes, node) != NX_OK) return -1;
    return w->place[node->order] = w->segment->sizes.n - 1;
}

static nx_status add_step(work *w, nx_node *node, nx_int_code code) {
    nxpy_number_step step = {.code = code, .from = {-1, -1}};
    if ((step.to = place_of(w, node)) < 0) return nx_fail_memory(sizeof step);
    for (int k = 0; k < node->n_args; k++) {
        step.args[k] = node->args[k];
        if (node->args[k].tag == NX_TAG_NODE && (step.from[k] = place_of(w, node->args[k].node)) < 0) return nx_fail_memory(sizeof step);
    }
    if (code == NX_INT_INPUT || code == NX_INT_FLOAT) step.from[0] = (int)node->args[0].i;
    return nx_vec_push(&w->segment->steps, step);
}

static nx_status add_open(work *w, const nx_node *node) {
    nxpy_segment *segment = w->segment;
    nx_node *number = node->args[1].node;
    nx_open_number open = {number, nx_number_dtype(node, 1)};
    for (int k = 0; k < segment->open.n; k++) {
        if (segment->open.at[k].node == number && segment->open.at[k].dtype == open.dtype) return NX_OK;
    }
    int place = place_of(w, number);
    if (place < 0) return nx_fail_memory(sizeof open);
    NX_TRY(nx_vec_push(&segment->open, open));
    return nx_vec_push(&segment->open_at, place);
}

static nx_status make_steps(work *w, const nx_graph *graph) {
    for (int k = 0; k < w->segment->sizes.n; k++) w->place[w->segment->sizes.at[k]->order] = k;
    for (nx_node *node = graph->first; node; node = node->next) {
        int code = nx_node_int_code(node);
        bool free_ones = (w->from[node->order] & ~w->keyed) != 0;
        if (code >= 0 && free_ones) NX_TRY(add_step(w, node, (nx_int_code)code));
        if (!node->op || node->n_args < 2 || node->args[1].tag != NX_TAG_NODE) continue;
        if (w->from[node->args[1].node->order] & ~w->keyed) NX_TRY(add_open(w, node));
    }
    return NX_OK;
}

int nxpy__numbers_finish(nxpy_trace *trace) {
    nxpy_segment *segment = trace->segment;
    int n = segment->given.n;
    if (!n) return 0;
    nx_graph_number(trace->graph);
    size_t room = (size_t)trace->graph->n_nodes + 1;
    work w = {.segment = segment, .from = nx_alloc_zeroed(sizeof *w.from * room), .place = nx_alloc(sizeof *w.place * room)};
    nx_status status = w.from && w.place ? NX_OK : nx_fail_memory(sizeof *w.from * room);
    for (size_t k = 0; status == NX_OK && k < room; k++) w.place[k] = -1;
    if (status == NX_OK) {
        find_keyed(&w, trace->graph);
        status = make_steps(&w, trace->graph);
    }
    for (int k = 0; k < n; k++) {
        segment->given.at[k].keyed = w.keyed >> k & 1;
        segment->n_key += segment->given.at[k].keyed;
    }
    nx_free(w.from);
    nx_free(w.place);
    return status == NX_OK ? 0 : (nxpy_raise(status), -1);
}

/* ---- at a call --------------------------------------------------------------------------------------------------- */
static nx_value given_number(PyObject *value) {
    int overflow = 0;
    if (PyFloat_CheckExact(value)) return nx_value_float(PyFloat_AS_DOUBLE(value));
    nx_value number = nx_value_int(PyLong_AsLongLongAndOverflow(value, &overflow));
    return overflow ? NX_VALUE_NONE : number;
}

static bool compute_numbers(const nxpy_segment *segment, PyObject *const *values, nx_value *numbers) {
    for (int k = 0; k < segment->steps.n; k++) {
        const nxpy_number_step *step = &segment->steps.at[k];
        if (step->code == NX_INT_INPUT || step->code == NX_INT_FLOAT) {
            numbers[step->to] = given_number(values[segment->given.at[step->from[0]].slot]);
            if (numbers[step->to].tag == NX_TAG_NONE) return false;
            continue;
        }
        nx_value args[2];
        for (int j = 0; j < 2; j++) args[j] = step->from[j] >= 0 ? numbers[step->from[j]] : step->args[j];
        if (nx_int_compute(step->code, args, &numbers[step->to]) != NX_OK) return false;
    }
    for (int k = 0; k < segment->open.n; k++) { /* an int must be a float exactly */
        const nx_value *number = &numbers[segment->open_at.at[k]];
        if (number->tag == NX_TAG_INT && (number->i < -(INT64_C(1) << 53) || number->i > INT64_C(1) << 53)) return false;
    }
    return true;
}

static nx_status number_tensor(const nxpy_segment *segment, int k, const nx_value *numbers, bool fake, nx_tensor **out) {
    nx_meta meta = {.dtype = segment->open.at[k].dtype, .view_of = -1};
    NX_TRY(nx_tensor_new_meta(&meta, fake, out));
    if (fake) return NX_OK;
    const nx_value *number = &numbers[segment->open_at.at[k]];
    double value = number->tag == NX_TAG_FLOAT ? number->f : (double)number->i;
    if (meta.dtype == NX_F32) *(float *)(*out)->a.data = (float)value;
    else *(double *)(*out)->a.data = value;
    return NX_OK;
}

/* ---- finding ------------------------------------------------------------------------------------------------------ */
/* Walks the key of `values`: writes it into `to`, or compares it where that is NULL. */
static bool walk_key(const nxpy_segment *segment, PyObject **values, int64_t *to, const int64_t *like) {
    for (int k = 0; k < segment->given.n; k++) {
        if (!segment->given.at[k].keyed) continue;
        nx_value number = given_number(values[segment->given.at[k].slot]);
        if (to) *to++ = number.i; /* of a float: its bits */
        else if (*like++ != number.i) return false;
    }
    for (int k = 0; k < segment->n_varying; k++) {
        const nx_array *a = &nxpy_tensor_get(values[segment->varying[k]])->a;
        for (int d = 0; d < a->ndim; d++) {
            if (to) *to++ = a->sizes[d], *to++ = a->strides[d];
            else if (*like++ != a->sizes[d] || *like++ != a->strides[d]) return false;
        }
    }
    return true;
}

/* An int too large for a size. */
static bool is_too_large(const nxpy_segment *segment, PyObject **values) {
    for (int k = 0; k < segment->given.n; k++) {
        if (given_number(values[segment->given.at[k].slot]).tag == NX_TAG_NONE) return true;
    }
    return false;
}

bool nxpy__numbers_are_traced(const nxpy_segment *segment, PyObject *const *values) {
    for (int k = 0; k < segment->given.n; k++) {
        nx_value now = given_number(values[segment->given.at[k].slot]);
        if (now.tag != segment->given.at[k].traced.tag || now.i != segment->given.at[k].traced.i) return false;
    }
    return true;
}

nx_value *nxpy__numbers_of(const nxpy_segment *segment, const nxpy_fit *fit, PyObject *const *values, nx_value *room, int n_room) {
    int n = segment->sizes.n;
    nx_value *numbers = n <= n_room ? room : nx_alloc(sizeof *numbers * (size_t)n);
    if (!numbers) return nxpy_raise(nx_fail_memory(sizeof *numbers * (size_t)n)), NULL;
    if (n) memcpy(numbers, fit->numbers, sizeof *numbers * (size_t)n);
    if (compute_numbers(segment, values, numbers)) return numbers;
    if (numbers != room) nx_free(numbers);
    return NULL;
}

/* Whether the checks of the numbers that a call computes hold. */
static bool numbers_hold(const nxpy_segment *segment, const nxpy_fit *fit, PyObject **values) {
    nx_value room[16], *numbers;
    if (!segment->steps.n) return true;
    numbers = nxpy__numbers_of(segment, fit, values, room, NX_COUNT(room));
    if (!numbers) nxpy_forget_error();
    if (numbers && numbers != room) nx_free(numbers);
    return numbers != NULL;
}

int nxpy__fit_find(nxpy_segment *segment, PyObject **values) {
    if (NX_UNLIKELY(is_too_large(segment, values))) return -1;
    for (int k = 0; k < segment->n_fits; k++) {
        nxpy_fit *fit = segment->fits[k];
        if (fit->refused && segment->steps.n) continue; /* because of a number that is not in the key, perhaps */
        if (!walk_key(segment, values, NULL, fit->key)) continue;
        for (int j = k; j > 0; j--) segment->fits[j] = segment->fits[j - 1];
        segment->fits[0] = fit;
        return fit->refused || !numbers_hold(segment, fit, values) ? -1 : 1;
    }
    return 0;
}

/* The newest takes the first place; the one that was not used for longest makes room. */
static void add_fit(nxpy_segment *segment, nxpy_fit *fit) {
    if (segment->n_fits == NXPY_MAX_FITS) nxpy__fit_drop(segment->fits[--segment->n_fits]);
    for (int k = segment->n_fits++; k > 0; k--) segment->fits[k] = segment->fits[k - 1];
    segment->fits[0] = fit;
}

/* ---- compiling ------------------------------------------------------------------------------------------------------ */
/* When what the backend returned is, or has as `_compiled`, one of our graphs, that is run without Python objects. Asked
 * after compiling and once more after the first run: torchair's object compiles then, and its logs belong there. */
/* Whether it draws random numbers, and all of them from the CPU's generator. */
static bool draws_on_cpu(const nx_graph *graph) {
    nx_draws draws = {0};
    nx_graph_add_draws(graph, &draws);
    return nx_draws_from_cpu(&draws);
}

static void find_compiled(nxpy_fit *fit) {
    bool is_one = Py_TYPE(fit->call) == &nxpy_compiled_type;
    PyObject *inner = is_one ? Py_NewRef(fit->call) : PyObject_GetAttrString(fit->call, "_compiled");
    if (inner && Py_TYPE(inner) == &nxpy_compiled_type) {
        fit->compiled = ((nxpy_compiled *)inner)->compiled;
        fit->draws = draws_on_cpu(nx_compiled_aot(fit->compiled)->forward);
        Py_SETREF(fit->call, inner);
        return;
    }
    nxpy_forget_error();
    Py_XDECREF(inner);
}

/* The classes of tensors were asked while the graph was traced: a backend and its function see operators. Gives what it was. */
static uint8_t ask_modes(PyObject *inputs) { /* a list or tuple; NULL passes */
    uint8_t before = nx_thread_get()->function_state;
    bool any = inputs && nxpy_any_asks(PySequence_Fast_ITEMS(inputs), PySequence_Fast_GET_SIZE(inputs));
    if (NX_UNLIKELY(any)) nx_thread_get()->function_state = NXPY_ASK_MODES;
    return before;
}

static int call_backend(nxpy_captured *owner, nxpy_fit *fit, PyObject *graph, PyObject *inputs) {
    PyObject *name = PyUnicode_FromFormat("__compiled_fn_%d", owner->n_graphs);
    if (!name) return -1;
    NXPY_LOG("graph", "{sOsO}", "graph", graph, "name", name);
    owner->n_graphs++;
    NXPY_LOG("call_backend", "{sOsO}", "backend", owner->backend, "name", name);
    PyObject *callback = nxpy__callback_aside();
    uint8_t asked = ask_modes(inputs);
    fit->call = PyObject_CallFunctionObjArgs(owner->backend, graph, inputs, NULL);
    nx_thread_get()->function_state = asked;
    nxpy__callback_back(callback);
    if (fit->call) {
        NXPY_LOG("backend_done", "{sOsO}", "backend", owner->backend, "name", name);
        find_compiled(fit);
        if (!fit->compiled && !PyCallable_Check(fit->call)) {
            PyErr_Format(PyExc_TypeError, "torch.compile: the backend returned %R, expected a callable", fit->call);
            Py_CLEAR(fit->call);
        }
    }
    Py_DECREF(name);
    return fit->call ? 0 : -1;
}

/* The graph with numbers for its sizes. 1: *out; 0: it does not hold for these inputs, fit->why says why; -1. */
static int fit_graph(const nxpy_segment *segment, nxpy_fit *fit, nx_tensor *const *inputs, PyObject **values, PyObject **out) {
    nx_graph *graph;
    nx_value given[64];
    for (int k = 0; k < segment->given.n; k++) given[k] = given_number(values[segment->given.at[k].slot]);
    const nx_fit to = {.inputs = inputs, .n_inputs = segment->n_inputs, .given = given, .n_given = segment->given.n,
                       .wanted = segment->sizes.at, .n_wanted = segment->sizes.n, .open = segment->open.at, .n_open = segment->open.n};
    nx_status status = nx_graph_fit(((nxpy_graph *)segment->graph)->graph, &to, fit->numbers, &graph);
    if (status == NX_NO_MEMORY) return nxpy_raise(status), -1;
    if (status != NX_OK) {
        fit->refused = true;
        fit->why = PyUnicode_FromString(nx_error_message());
        return fit->why ? 0 : -1;
    }
    *out = nxpy_graph_take(graph);
    if (*out) ((nxpy_graph *)*out)->spellings = Py_XNewRef(((nxpy_graph *)segment->graph)->spellings);
    return *out ? 1 : -1;
}

/* Fits the segment to inputs like these and compiles it. 1, 0 (refused), -1. */
static int compile(nxpy_captured *owner, nxpy_segment *segment, nxpy_fit *fit, PyObject *inputs, PyObject **values) {
    int n = segment->n_inputs + segment->open.n;
    bool shares = owner->shares && !segment->given.n; /* one graph for all shapes, not for all numbers */
    nx_tensor *local[64], **tensors = n <= NX_COUNT(local) ? local : nx_alloc(sizeof *tensors * (size_t)n);
    PyObject *graph = NULL;
    if (!tensors) return nxpy_raise(nx_fail_memory(sizeof *tensors * (size_t)n)), -1;
    for (int k = 0; k < n; k++) tensors[k] = nxpy_tensor_get(PyList_GET_ITEM(inputs, k));
    int done = fit_graph(segment, fit, tensors, values, &graph);
    if (tensors != local) nx_free(tensors);
    if (done == 1 && shares && segment->shared) fit->call = Py_NewRef(segment->shared);
    else if (done == 1) done = call_backend(owner, fit, shares ? segment->graph : graph, inputs) < 0 ? -1 : 1;
    if (done == 1 && shares && !segment->shared) segment->shared = Py_NewRef(fit->call);
    Py_XDECREF(graph);
    return done;
}

int nxpy__fit_first(nxpy_captured *owner, nxpy_segment *segment, PyObject *inputs) {
    nxpy_fit *fit = fit_new(segment);
    if (!fit) return -1;
    if (call_backend(owner, fit, segment->graph, inputs) < 0) {
        nxpy__fit_drop(fit);
        return -1;
    }
    add_fit(segment, fit);
    return 0;
}

/* The values as the backend's examples: themselves where it is the program's, else fakes. */
static PyObject *examples_of(const nxpy_captured *owner, const nxpy_segment *segment, PyObject **values) {
    int n = segment->n_inputs;
    PyObject *list = PyList_New(n + segment->open.n);
    bool real = nxpy__shows_graph(owner) == 1;
    for (int k = 0; list && k < n + segment->open.n; k++) {
        nx_tensor *fake;
        if (real && k < n) {
            PyList_SET_ITEM(list, k, Py_NewRef(values[segment->inputs[k]]));
            continue;
        }
        nx_status status = k < n ? nxpy__fake_new(nxpy_tensor_get(values[segment->inputs[k]]), &fake)
                                 : number_tensor(segment, k - n, NULL, true, &fake);
        PyObject *object = status == NX_OK ? nxpy_tensor_take(fake) : nxpy_raise(status);
        if (object) PyList_SET_ITEM(list, k, object);
        else Py_CLEAR(list);
    }
    return list;
}

int nxpy__fit_make(nxpy_captured *owner, nxpy_segment *segment, PyObject **values) {
    PyObject *inputs = examples_of(owner, segment, values);
    nxpy_fit *fit = inputs ? fit_new(segment) : NULL;
    int done = -1;
    if (fit) {
        walk_key(segment, values, fit->key, NULL);
        segment->n_made += segment->given.n > 0;
        done = compile(owner, segment, fit, inputs, values);
        if (done < 0) nxpy__fit_drop(fit);
        else add_fit(segment, fit);
    }
    Py_XDECREF(inputs);
    return done;
}

/* ---- running ------------------------------------------------------------------------------------------------------ */
static int run_compiled(const nxpy_segment *segment, nxpy_fit *fit, PyObject **values, const nx_value *numbers, PyObject **results) {
    nx_tensor *local_in[64], *local_out[16], **in = local_in, **out = local_out;
    int n_tensors = segment->n_inputs, n_in = n_tensors + segment->open.n, n_out = segment->n_results, n_made = 0, k;
    nx_status status = NX_OK;
    if (n_in > NX_COUNT(local_in) && !(in = nx_alloc(sizeof *in * (size_t)n_in))) status = nx_fail_memory(sizeof *in * (size_t)n_in);
    if (n_out > NX_COUNT(local_out) && !(out = nx_alloc(sizeof *out * (size_t)n_out))) status = nx_fail_memory(sizeof *out * (size_t)n_out);
    if (status == NX_OK) {
        for (k = 0; k < n_tensors; k++) in[k] = nxpy_tensor_get(values[segment->inputs[k]]);
        for (; status == NX_OK && n_made < segment->open.n; n_made += status == NX_OK) {
            status = number_tensor(segment, n_made, numbers, false, &in[n_tensors + n_made]);
        }
        for (k = 0; k < n_out; k++) out[k] = NULL;
        if (status == NX_OK) status = nx_compiled_run(fit->compiled, in, n_in, out, n_out);
        for (k = 0; k < n_made; k++) nx_tensor_unref(in[n_tensors + k]);
    }
    for (k = 0; status == NX_OK && k < n_out; k++) {
        if (!(results[k] = nxpy_tensor_take(out[k]))) {
            while (++k < n_out) nx_tensor_unref(out[k]);
            status = nxpy_caught();
            break;
        }
    }
    if (in != local_in) nx_free(in);
    if (out != local_out) nx_free(out);
    if (status != NX_OK) nxpy_raise(status);
    return status == NX_OK ? 0 : -1;
}

static int run_called(const nxpy_segment *segment, nxpy_fit *fit, PyObject **values, const nx_value *numbers, PyObject **results) {
    int n = segment->n_inputs;
    PyObject *args = PyTuple_New(n + segment->open.n), *returned = NULL, *fast = NULL;
    for (int k = 0; args && k < n; k++) PyTuple_SET_ITEM(args, k, Py_NewRef(values[segment->inputs[k]]));
    for (int k = 0; args && k < segment->open.n; k++) {
        nx_tensor *tensor;
        nx_status status = number_tensor(segment, k, numbers, false, &tensor);
        PyObject *number = status == NX_OK ? nxpy_tensor_take(tensor) : nxpy_raise(status);
        if (number) PyTuple_SET_ITEM(args, n + k, number);
        else Py_CLEAR(args);
    }
    PyObject *callback = nxpy__callback_aside();
    uint8_t asked = ask_modes(args);
    if (args) returned = PyObject_Call(fit->call, args, NULL);
    nx_thread_get()->function_state = asked;
    nxpy__callback_back(callback);
    Py_XDECREF(args);
    if (returned && nxpy_tensor_check(returned)) { /* one bare tensor is taken as well */
        fast = PyTuple_Pack(1, returned);
    } else if (returned) {
        fast = PySequence_Fast(returned, "torch.compile: the backend's function must return a tuple or list of tensors");
    }
    Py_XDECREF(returned);
    if (!fast) return -1;
    if (PySequence_Fast_GET_SIZE(fast) < segment->n_results) {
        PyErr_Format(PyExc_RuntimeError, "torch.compile: the backend's function returned %zd values, the graph has %d",
                     PySequence_Fast_GET_SIZE(fast), segment->n_results);
        Py_DECREF(fast);
        return -1;
    }
    for (int k = 0; k < segment->n_results; k++) results[k] = Py_NewRef(PySequence_Fast_GET_ITEM(fast, k));
    Py_DECREF(fast);
    return 0;
}

/* Whether a run that failed has changed nothing: ours write inputs behind all that may fail, and the CPU's generator goes back
 * to where it stood; hooks of saved tensors and what compilers of the program's own made are its code, whose errors are its own.
 * The program then does the same uncompiled, with the error at its line and where its `except` is. */
static bool left_nothing(const nxpy_fit *fit) {
    bool error = PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError);
    if (nx_thread_get()->saved_hooks || !error || !fit->compiled || nx_compiled_is_run(fit->compiled)) return false;
    const nx_graph *graph = nx_compiled_aot(fit->compiled)->forward;
    nx_draws draws = {0};
    if (!fit->draws) nx_graph_add_draws(graph, &draws);
    return !draws.any;
}

static __attribute__((noinline)) int run_drawing(const nxpy_segment *segment, nxpy_fit *fit, PyObject **values, const nx_value *numbers,
                                                 PyObject **results) {
    nx_generator_place before;
    nx_generator_mark(nx_generator_default(), &before);
    int done = run_compiled(segment, fit, values, numbers, results);
    if (done < 0 && left_nothing(fit)) nx_generator_return(nx_generator_default(), &before);
    return done;
}

int nxpy__fit_run(const nxpy_segment *segment, nxpy_fit *fit, PyObject **values, const nx_value *numbers, PyObject **results) {
    int done = !fit->compiled ? run_called(segment, fit, values, numbers, results)
               : fit->draws   ? run_drawing(segment, fit, values, numbers, results)
                              : run_compiled(segment, fit, values, numbers, results);
    if (NX_UNLIKELY(!fit->compiled && !fit->called && done == 0)) {
        fit->called = true;
        find_compiled(fit);
    }
    for (int k = 0; done < 0 && k < segment->n_results; k++) Py_CLEAR(results[k]);
    return NX_UNLIKELY(done < 0) && left_nothing(fit) ? NXPY_UNDONE : done;
}
