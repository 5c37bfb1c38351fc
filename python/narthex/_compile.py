"""torch.compile: its options, made into what `torch._dynamo.optimize` takes."""

from . import _C

if _C.log_settings() is not None:
    from . import _logging  # noqa: F401  (TORCH_LOGS names what it shows)

MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


forced: list = [None]  # the Backend of set_stance(force_backend=)
default: list = ["narthex"]  # of set_default_backend
looks_at_arguments: list = [__debug__]  # whether distributions do by themselves: until a function is compiled


def check_mode(mode) -> str:
    """`mode`, "default" for None; RuntimeError if there is no such mode."""
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    return mode or "default"


class Backend:
    """What the capture engine calls with a graph: the user's backend behind it.

    A backend gets (GraphModule, example inputs) and returns a callable. A result that stands for an engine's graph says
    so by an attribute `_compiled`, which the capture engine looks for, so that later calls stay in C.
    """

    def __init__(self, backend, keywords: dict, name: str | None = None) -> None:
        self.backend, self.keywords = backend, keywords
        self.compiler_name = name or getattr(backend, "__name__", None)
        module = getattr(backend, "__module__", None) or ""
        self.is_ours = module.startswith("narthex.") and not getattr(backend, "is_of_program", False)
        self.shows_graph = not module.startswith(("narthex._dynamo.backends", "narthex.compat"))  # to programs
        self.before_compiling = None  # called with nothing before each graph
        # A graph whose sizes vary: a backend of ours gets one graph of numbers for each shape, another one all at once.
        self.shares_graph = not getattr(backend, "fits_shapes", False)

    def __call__(self, graph, example_inputs):
        from ._dynamo import config
        from ._dynamo.utils import count_graph, dynamo_timed
        from .fx import GraphModule  # loaded by make_backend

        if self.before_compiling is not None:
            self.before_compiling()
        count_graph(graph)
        of = forced[0] or self
        if self.shares_graph and not of.shares_graph and any(n.value is None and n.op != "output" for n in graph.nodes):
            gm = GraphModule(graph)
            gm.recompile()
            return _C.CapturedFunction(gm, of, False, None, "forced")
        try:
            with dynamo_timed("OutputGraph.call_user_compiler"):
                result = of.backend(_module_of(graph, example_inputs), list(example_inputs), **of.keywords)
            if not callable(result):
                raise AssertionError(f"compiler_fn did not return callable: it gave a {type(result).__name__}")
        except Exception as error:
            if not config.suppress_errors:
                if of.is_ours or isinstance(error, (_C.Unsupported, MemoryError)):
                    raise
                from ._dynamo.exc import BackendCompilerFailed

                raise BackendCompilerFailed(of.backend, error) from error
            from logging import getLogger

            getLogger("torch._dynamo").warning("%r failed on a graph, which runs as captured", self, exc_info=True)
            return graph
        return result

    def __repr__(self) -> str:
        return getattr(self.backend, "__name__", None) or repr(self.backend)


_TorchCompileWrapper = Backend  # what a replaced torch._dynamo.optimize looks for


def _module_of(graph, example_inputs):
    """The graph as what a backend is given."""
    from .fx import GraphModule
    from .nn import Parameter

    made = GraphModule(graph)
    parameters = frozenset(place for place, value in enumerate(example_inputs) if isinstance(value, Parameter))
    made.__dict__["_of_parameters"] = parameters
    return made


def make_backend(backend, mode=None, options=None) -> Backend:
    """The Backend of a name or a callable with torch.compile's mode and options; a Backend as it is."""
    if isinstance(backend, Backend):
        return backend
    from . import _functorch, amp, autocast, fx  # noqa: F401  (loaded later otherwise, which capture does not follow)
    from ._dynamo import backends

    name = None
    if isinstance(backend, str):
        name, backend = backend, backends.lookup(backend)
    if backend is backends.narthex:
        return Backend(backend, {"mode": backends.mode_of(options) if options else check_mode(mode)}, name)
    if not callable(backend):
        raise TypeError(f"compile: backend is a {type(backend).__name__}; it must be a name or a callable")
    keywords = {}
    if mode is not None:
        keywords["mode"] = mode
    if options is not None:
        keywords["options"] = options
    return Backend(backend, keywords, name)


def compile(
    model=None,
    *,
    fullgraph: bool = False,
    dynamic=None,
    backend=None,
    mode=None,
    options=None,
    name=None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec=None,
):
    """Compiles a function or a module: captured at the first call, run as a graph afterwards.

    backend: "narthex" (the default, unless set_default_backend says otherwise; "inductor" is the same), "eager",
    "aot_eager", "npu", or a callable that gets a GraphModule and example inputs. mode: "default" and "max-autotune" use
    the graph engine, the second times its choices, "reduce-overhead" records and replays. options: guard_filter_fn,
    which says which guards are asked (torch.compiler.skip_all_guards_unsafe and others), and names of
    torch._inductor.config, of which those that PyTorch's modes are made of choose the mode.
    dynamic: sizes of inputs are left open from the start (True), never (False), or as soon as they were seen to change
    (None). recompile_limit: how often the function may be captured, in the place of torch._dynamo.config's.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    from . import _dynamo

    more = {"name": name, "recompile_limit": recompile_limit, "shapes_spec": shapes_spec}
    more = {option: given for option, given in more.items() if given is not None}
    if isolate_recompiles:
        more["isolate_recompiles"] = True
    if options and "guard_filter_fn" in options:
        more["guard_filter_fn"] = options["guard_filter_fn"]
        options = {key: value for key, value in options.items() if key != "guard_filter_fn"} or None
    made = make_backend(default[0] if backend is None else backend, mode, options)
    make = _dynamo.optimize(backend=made, nopython=fullgraph, dynamic=dynamic, disable=disable, **more)
    return make if model is None else make(model)
